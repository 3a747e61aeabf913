//! The `subscope` binary: parses the command line, runs the command, and maps an error to its message and exit code.

#![cfg_attr(windows, allow(dead_code, reason = "some that only `subscope run` uses, which is absent there"))]

mod allocator;
mod args;
mod browser;
mod clock;
mod command;
mod config;
mod context;
mod data_files;
mod environment;
mod forward;
mod hub_connection;
mod output;
mod prelude;
mod prices;
mod team_server;
mod terminal;

use std::{ffi::OsString, io, process::ExitCode};

use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;
use subscope_platform::enable_escapes;
use subscope_program::{CliError, ErrorKind};

use crate::{
    args::{Cli, CliCommand},
    command::{hook, init, run},
    context::Context,
    environment::Environment,
    terminal::TerminalProbe,
};

/// mimalloc, because decoding makes many small allocations: with the system allocator they take a quarter of the hub's
/// time under load.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the program of this process.
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    // The agent blocks on each hook: dispatch it before anything else is built.
    if hook::is_hook(&args) {
        hook::run_args(&args);
        return ExitCode::SUCCESS;
    }
    if let Some(code) = run::exec_if_helper(&args) {
        return ExitCode::from(code);
    }
    enable_escapes();
    // The shell asks for completions: answers and exits.
    CompleteEnv::with_factory(Cli::command).var(init::COMPLETE).shells(init::SHELLS).complete();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // Help goes to stdout, errors to stderr. A closed pipe is ignored.
            let _ = usage.print();
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    let on_stderr = cli.command.as_ref().is_some_and(CliCommand::prints_on_stderr);
    let probe = if on_stderr { TerminalProbe::of(&io::stderr()) } else { TerminalProbe::of(&io::stdout()) };
    let mut context = Context::new(&cli.global, cli.command.as_ref(), Environment::of_process(), probe);
    let outcome = match &cli.command {
        Some(command) if !cli.plain => command::run(command, &mut context),
        Some(_) => {
            let error = CliError::usage("--plain comes after the command, or is used without one");
            Err(error.hint("`subscope replay --plain TARGET`, `subscope --plain`"))
        }
        None if cli.plain || context.terminal.is_terminal => command::run_ui(cli.plain, &mut context),
        // No terminal and no command: print the help as a usage error.
        None => return help(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error.render(context.style(None).charset()));
            ExitCode::from(error.kind().code())
        }
    }
}

/// Prints the help on stderr; returns the exit code of a usage error.
fn help() -> ExitCode {
    output::complain(&Cli::command().render_help().to_string());
    ExitCode::from(ErrorKind::Usage.code())
}
