//! `subscope completions SHELL`: generated from the command line's definition.

use clap::CommandFactory;

use crate::{
    args::{Cli, CompletionsArgs},
    error::CliError,
    output,
};

/// Prints the completions for a shell.
pub(crate) fn run(args: CompletionsArgs) -> Result<(), CliError> {
    // Through a buffer: the generator panics where its writer fails, as a closed pipe does.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "subscope", &mut script);
    output::to_stdout(|out| out.write_all(&script))
}
