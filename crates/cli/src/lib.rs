//! `subscope`: reads the command line, runs the command, and turns an error into its message and exit code.

mod allocator;
mod args;
mod browser;
mod clock;
mod command;
mod config;
mod context;
mod environment;
mod error;
mod hub_connection;
mod output;
mod prices;
mod terminal;

use std::{ffi::OsString, process::ExitCode};

use clap::{CommandFactory, Parser};

use crate::{
    args::{Cli, Command},
    command::{hook, run},
    context::Context,
    environment::Environment,
    error::{CliError, Kind},
    terminal::Probe,
};

/// Folding is many small allocations: with the system's allocator a quarter of the hub's time under load is theirs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the program of this process.
pub fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    // An agent waits for each of its hooks: nothing that a hook does not need is built.
    if hook::is_meant(&words) {
        hook::run_words(&words);
        return ExitCode::SUCCESS;
    }
    if run::is_meant(&words) {
        return ExitCode::from(run::become_command(&words));
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Help goes to stdout, errors to stderr; a reader that left is nobody to tell.
            let _ = usage.print();
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    let on_stderr = cli.command.as_ref().is_some_and(Command::prints_on_stderr);
    let probe = if on_stderr { Probe::of_stderr() } else { Probe::of_stdout() };
    let flags = cli.command.as_ref().map(Command::settings).unwrap_or_default();
    let mut context = Context::new(&cli.global, flags, Environment::of_process(), probe);
    let outcome = match &cli.command {
        Some(command) if !cli.plain => command::run(command, &mut context),
        Some(_) => {
            let error = CliError::new(Kind::Usage, "--plain goes behind the command, or stands without one");
            Err(error.hint("`subscope replay --plain TARGET`, `subscope --plain`"))
        }
        None if cli.plain || context.terminal.is_terminal => command::run_ui(cli.plain, &mut context),
        // A program that is not shown on a terminal was not meant to be looked at.
        None => return help(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error.render(context.style(None).charset()));
            error.kind().into()
        }
    }
}

/// Prints what there is, as an error: nothing was asked for that could be done.
fn help() -> ExitCode {
    output::complain(&Cli::command().render_help().to_string());
    ExitCode::from(Kind::Usage.code())
}
