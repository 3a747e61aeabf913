//! `subscope completions SHELL`: generates shell completions from the command line definition.

use clap::CommandFactory;

use crate::{
    args::{Cli, CompletionsArgs},
    error::CliError,
    output,
};

/// Prints the completions for a shell.
pub(crate) fn run(args: CompletionsArgs) -> Result<(), CliError> {
    // Buffered: the generator panics if its writer fails, for example on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "subscope", &mut script);
    output::to_stdout(|out| out.write_all(&script))
}
