//! One file for each command, and what is common to all: settings must be right before they are relied upon.

mod completions;
mod config;
mod demo;
mod diff;
mod doctor;
mod event_printer;
mod export;
pub(crate) mod history;
pub(crate) mod hook;
mod hooks;
mod import;
mod man;
mod mcp;
pub(crate) mod publish;
pub(crate) mod run;
pub(crate) mod serve;
mod session_reader;
mod stop;
pub(crate) mod target;
mod tree;
mod ui;
mod watch;

use crate::{
    args::{Command, HookArgs, McpServer},
    context::Context,
    error::CliError,
};

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
        Command::Diff(args) => diff::run(args, context),
        Command::Watch(args) => watch::run(args, context),
        Command::Run(args) => run::run(args, context),
        Command::Ls(args) => history::ls::run(args, context),
        Command::Search(args) => history::search::run(args, context),
        Command::Show(args) => history::show::run(args, context),
        Command::Stats(args) => history::stats::run(args, context),
        Command::Status(args) => history::status::run(args, context),
        Command::Stop(args) => stop::run(args, context),
        Command::Index(args) => history::index::run(args, context),
        Command::Forget(args) => history::forget::run(args, context),
        Command::Serve(args) => serve::run(args, context),
        Command::Export(args) => export::run(args, context),
        Command::Import(args) => import::run(args, context),
        Command::Demo(args) => demo::run(args, context),
        Command::Replay(args) => ui::replay(args, context),
        Command::Publish(args) => publish::run(args, context),
        Command::Hooks(args) => hooks::run(args, context),
        Command::Hook(HookArgs {}) => {
            hook::run(context.store_option.as_deref(), &context.environment);
            Ok(())
        }
        Command::Mcp(args) => mcp::run(args, context),
        Command::Config(args) => config::run(*args, context),
        Command::Doctor(args) => doctor::run(*args, context),
        Command::Completions(args) => completions::run(*args),
        Command::Man(args) => man::run(args),
    }
}

/// Runs the terminal UI, which no command stands for.
///
/// # Errors
/// As [`run()`].
pub(crate) fn run_ui(plain: bool, context: &mut Context) -> Result<(), CliError> {
    check_settings(context)?;
    ui::run(plain, context)
}

/// Whether a command must not run with wrong settings. The others help to mend them.
fn relies_on_settings(command: &Command) -> bool {
    match command {
        Command::Tree(_) | Command::Diff(_) | Command::Watch(_) | Command::Demo(_) => true,
        Command::Export(_) | Command::Import(_) | Command::Replay(_) => true,
        Command::Ls(_) | Command::Search(_) | Command::Show(_) | Command::Stats(_) | Command::Index(_) => {
            true
        }
        Command::Run(_) | Command::Forget(_) | Command::Serve(_) | Command::Status(_) | Command::Stop(_) => {
            true
        }
        Command::Mcp(args) => match args.server {
            McpServer::Query(_) => true,
            McpServer::Agent(_) => false,
        },
        // An agent waits for it: what its user's settings say is nothing to it.
        Command::Publish(_)
        | Command::Hooks(_)
        | Command::Hook(_)
        | Command::Config(_)
        | Command::Doctor(_)
        | Command::Completions(_)
        | Command::Man(_) => false,
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
