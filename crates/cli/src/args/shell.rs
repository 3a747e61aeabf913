//! Arguments of `subscope completions` and `subscope man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

const COMPLETIONS: &str = "\
Examples:
  subscope completions bash > ~/.local/share/bash-completion/completions/subscope
  subscope completions zsh > ~/.zfunc/_subscope
  subscope completions fish > ~/.config/fish/completions/subscope.fish";

const MAN: &str = "\
Examples:
  subscope man | man -l -
  subscope man --dir ~/.local/share/man/man1";

/// Print the completion script for a shell.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Print the manual page.
#[derive(Args, Clone, Debug)]
#[command(after_help = MAN)]
pub(crate) struct ManArgs {
    /// Write the pages of all commands into this folder instead of printing the main one.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
