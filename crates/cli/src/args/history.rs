//! `subscope index`, `ls`, `search`, `show`, `stats` and `forget`: everything that is kept.

use std::path::PathBuf;

use clap::Args;
use subscope_render::Detail;

use super::value::{self, Moment};
use crate::config::{Raw, Sourced, parse_days};

/// Reads transcripts into the store: only what is new or has changed.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "\
Examples:
  subscope index
  subscope index /mnt/backup/.claude --json

A ROOT is a harness's directory, its `projects` folder, or any folder with transcripts below it; without one, Claude Code's own. The files are only read.")]
pub(crate) struct IndexArgs {
    /// Where to look.
    #[arg(value_name = "ROOT")]
    pub(crate) roots: Vec<PathBuf>,
    /// Leaves the full text out: `ls`, `tree` and `stats` are complete, `search` finds nothing new.
    #[arg(long)]
    pub(crate) no_text: bool,
    /// Keeps transcripts that Claude Code deletes: a second name for each file while it is there, compressed from then on.
    #[arg(long)]
    pub(crate) archive: bool,
    /// Forgets sessions whose last event is older than that many days.
    #[arg(long, value_name = "N", value_parser = parse_days)]
    pub(crate) keep_days: Option<u32>,
    /// Prints what was done as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl IndexArgs {
    /// Returns the settings that these options set.
    pub(super) fn settings(&self) -> Raw {
        let mut raw = Raw::default();
        raw.store.archive = Sourced::flag("--archive", self.archive.then_some(true));
        raw.store.keep_days = Sourced::flag("--keep-days", self.keep_days);
        raw
    }
}

/// Lists sessions, the newest first.
#[derive(Args, Clone, Debug)]
pub(crate) struct LsArgs {
    /// Only those of which something is still at work.
    #[arg(long)]
    pub(crate) live: bool,
    /// Lists what `run` has recorded in this folder instead.
    #[arg(long)]
    pub(crate) iterations: bool,
    /// Lists the records below this folder.
    #[arg(long, value_name = "DIR", requires = "iterations")]
    pub(crate) log_dir: Option<PathBuf>,
    /// At most so many.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 30)]
    pub(crate) limit: usize,
    /// Prints JSON (subscope.sessions/1; subscope.iterations/1 of iterations).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Finds words in prompts, messages, thoughts, tool arguments and results, the newest first.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  subscope search rounding cents
  subscope search 'half cents' --session 59d3cea2
  subscope search 'migrat*' --json

All words have to occur in one passage; a word ending in * stands for all that begin so; a quoted phrase has to occur as it is.")]
pub(crate) struct SearchArgs {
    /// The words.
    #[arg(value_name = "QUERY", required = true)]
    pub(crate) query: Vec<String>,
    /// Only in this session: its id or the beginning of it.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// At most so many.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
    /// Prints JSON (subscope.hits/1).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows one agent whole: its prompt, every tool call, its result.
#[derive(Args, Clone, Debug)]
pub(crate) struct ShowArgs {
    /// The agent: the beginning of its id, or SESSION/AGENT.
    #[arg(value_name = "AGENT")]
    pub(crate) agent: String,
    /// How much is shown.
    #[arg(long, value_name = "LEVEL", value_parser = value::detail())]
    pub(crate) detail: Option<Detail>,
    /// Prints the agent's row as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl ShowArgs {
    /// Returns the settings that these options set.
    pub(super) fn settings(&self) -> Raw {
        let mut raw = Raw::default();
        raw.tracing.detail = Sourced::flag("--detail", self.detail);
        raw
    }
}

/// Shows figures over everything: by type of agent, tool, model and day.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StatsArgs {
    /// Prints JSON (subscope.stats/1).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Removes sessions from the store. The harness's own files are not touched; a session that goes on afterwards is
/// taken in again.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "\
Examples:
  subscope forget 59d3cea2
  subscope forget --before -90d")]
pub(crate) struct ForgetArgs {
    /// The sessions: their ids or the beginnings of them.
    #[arg(value_name = "SESSION", required_unless_present = "before")]
    pub(crate) sessions: Vec<String>,
    /// All whose last event is older: RFC 3339, milliseconds since 1970, or a span ago as -90d.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with = "sessions")]
    pub(crate) before: Option<Moment>,
}

/// Prints one line for a prompt, tmux or Claude Code's status line: agents at work, what they wait for, cost.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "\
Examples:
  subscope status                            everything at work on this machine
  subscope status --session last
  set -g status-right '#(subscope status)'   in ~/.tmux.conf
  \"statusLine\": {\"type\": \"command\", \"command\": \"subscope status\"}   in Claude Code's settings: it names its session on stdin")]
pub(crate) struct StatusLineArgs {
    /// Only this session: its id, the beginning of it, or `last`.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Prints JSON (subscope.status/1).
    #[arg(long)]
    pub(crate) json: bool,
}
