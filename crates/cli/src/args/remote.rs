//! Arguments of `subscope remote`.

use clap::{Args, Subcommand};

use super::ContentArg;

/// Add, list or test your other machines, whose sessions appear among those of this one.
#[derive(Args, Clone, Debug)]
#[command(
    after_long_help = "\
Examples:
  subscope remote add gpu1 --ssh gpu1.example.com
  subscope remote add web -- docker exec -i web subscope serve --stdio
  subscope remote test gpu1
  subscope remote list
  subscope ls --machine gpu1

A hub of this machine starts `subscope serve --stdio` there, by your own ssh or by the command, and shows the sessions of that machine live, as gpu1~ID. `subscope help remotes` has the details.",
    arg_required_else_help = true,
    subcommand_required = true
)]
pub(crate) struct RemoteArgs {
    #[command(subcommand)]
    pub(crate) action: RemoteAction,
}

/// The actions of `subscope remote`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum RemoteAction {
    /// Add a machine to your settings, as a `[[remote]]`.
    Add(RemoteAddArgs),
    /// List the machines of your settings, and whether each is connected.
    List(RemoteListArgs),
    /// Connect to a machine once, and say what answers there.
    Test(RemoteTestArgs),
}

/// Add a machine to your settings, as a `[[remote]]`.
#[derive(Args, Clone, Debug)]
pub(crate) struct RemoteAddArgs {
    /// Name of the machine here: at most 32 of a-z, 0-9, `.`, `_` and `-`.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Host as your ssh names it. Keys, users and jump hosts are those of your ssh.
    #[arg(long, value_name = "HOST", conflicts_with = "command", required_unless_present = "command")]
    pub(crate) ssh: Option<String>,
    /// What comes of a session: figures, titles or text. [default: text]
    #[arg(long, value_name = "LEVEL")]
    pub(crate) content: Option<ContentArg>,
    /// Command that runs `subscope serve --stdio` there; no shell reads it.
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<String>,
}

/// List the machines of your settings, and whether each is connected.
#[derive(Args, Clone, Debug)]
pub(crate) struct RemoteListArgs {
    /// Print JSON (subscope.remotes/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Connect to a machine once, and say what answers there.
#[derive(Args, Clone, Debug)]
pub(crate) struct RemoteTestArgs {
    /// Name of the machine.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}
