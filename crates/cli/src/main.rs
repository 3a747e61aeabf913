//! `subscope`: reads the command line, runs the command, and turns an error into its message and exit code.

mod args;
mod clock;
mod command;
mod config;
mod context;
mod environment;
mod error;
mod output;
mod prices;
mod reach;
mod terminal;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser;

use crate::{
    args::Cli,
    command::{hook, run},
    context::Context,
    environment::Environment,
    terminal::Probe,
};

/// Folding is many small allocations: with the system's allocator a quarter of the hub's time under load is theirs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
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
    let probe = if cli.command.prints_on_stderr() { Probe::of_stderr() } else { Probe::of_stdout() };
    let mut context = Context::new(&cli.global, cli.command.settings(), Environment::of_process(), probe);
    match command::run(&cli.command, &mut context) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error.render(context.style(None).charset()));
            error.kind().into()
        }
    }
}
