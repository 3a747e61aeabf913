//! One file for each command, and what is common to all: settings must be right before they are relied upon.

mod completions;
mod config;
mod demo;
mod doctor;
mod export;
mod import;
mod man;
mod serve;
mod target;
mod tree;
mod watch;

use crate::{args::Command, context::Context, error::CliError};

/// Runs the command.
///
/// # Errors
/// What stopped it; for the commands that rely on settings, first of all what is wrong with these.
pub(crate) fn run(command: &Command, context: &mut Context) -> Result<(), CliError> {
    if relies_on_settings(command) {
        check_settings(context)?;
    }
    match command {
        Command::Tree(args) => tree::run(args, context),
        Command::Watch(args) => watch::run(args, context),
        Command::Serve(args) => serve::run(args, context),
        Command::Export(args) => export::run(args, context),
        Command::Import(args) => import::run(args, context),
        Command::Demo(args) => demo::run(args, context),
        Command::Config(args) => config::run(*args, context),
        Command::Doctor(args) => doctor::run(*args, context),
        Command::Completions(args) => completions::run(*args),
        Command::Man(args) => man::run(args),
    }
}

/// Whether a command must not run with wrong settings. The others help to mend them.
fn relies_on_settings(command: &Command) -> bool {
    match command {
        Command::Tree(_)
        | Command::Watch(_)
        | Command::Serve(_)
        | Command::Export(_)
        | Command::Import(_)
        | Command::Demo(_) => true,
        Command::Config(_) | Command::Doctor(_) | Command::Completions(_) | Command::Man(_) => false,
    }
}

/// Fails where a setting is wrong, and warns of those that are not known.
fn check_settings(context: &mut Context) -> Result<(), CliError> {
    for place in context.config.places.all().iter().filter(|place| place.exists()) {
        context.note(&format!("settings of the {} from {}", place.owner.as_str(), place.path.display()));
    }
    context.config.warnings.iter().for_each(|warning| context.warn(warning));
    match context.config.take_error() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
