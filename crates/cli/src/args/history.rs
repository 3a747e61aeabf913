//! Arguments of the commands over stored sessions: `subscope index`, `ls`, `search`, `show`, `stats`, `forget`,
//! `status`.

use std::path::PathBuf;

use clap::Args;
use subscope_render::Detail;

use super::value::{self, Moment};

/// Index transcripts into the store: only those that are new or have changed.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "\
Examples:
  subscope index
  subscope index /mnt/backup/.claude --json

A ROOT is a harness's directory, its `projects` folder, or any folder with transcripts below it; without one, Claude Code's own. The files are only read. Where `subscope serve` runs, that reads them.")]
pub(crate) struct IndexArgs {
    /// Directories to index.
    #[arg(value_name = "ROOT")]
    pub(crate) roots: Vec<PathBuf>,
    /// Skip the full text: `ls`, `tree` and `stats` are complete, `search` finds nothing new.
    #[arg(long)]
    pub(crate) no_text: bool,
    /// Keep transcripts that Claude Code deletes: hard-linked while they exist, compressed afterwards.
    #[arg(long)]
    pub(crate) archive: bool,
    /// Forget sessions whose last event is older than this many days.
    #[arg(long, value_name = "N", value_parser = value::parse_days)]
    pub(crate) keep_days: Option<u32>,
    /// Print a summary as JSON (subscope.index/1).
    #[arg(long)]
    pub(crate) json: bool,
}

/// List sessions, the newest first.
#[derive(Args, Clone, Debug)]
pub(crate) struct LsArgs {
    /// List only sessions that are still at work.
    #[arg(long)]
    pub(crate) live: bool,
    /// List only sessions of this harness.
    #[arg(long, value_name = "HARNESS", conflicts_with = "iterations")]
    pub(crate) harness: Option<String>,
    /// List the iterations that `run` has recorded in this folder instead.
    #[arg(long)]
    pub(crate) iterations: bool,
    /// List the iterations recorded in the folders of all known sessions.
    #[arg(long, requires = "iterations", conflicts_with = "log_dir")]
    pub(crate) all_projects: bool,
    /// List the records below this folder.
    #[arg(long, value_name = "DIR", requires = "iterations")]
    pub(crate) log_dir: Option<PathBuf>,
    /// Return at most this many.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 30)]
    pub(crate) limit: usize,
    /// Print JSON (subscope.sessions/1; subscope.iterations/1 of iterations).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Search prompts, messages, thoughts, tool arguments and results; the newest hits first.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  subscope search rounding cents
  subscope search 'half cents' --session 59d3cea2
  subscope search 'migrat*' --json

All words have to occur in one passage; a word ending in * stands for all that begin so; a quoted phrase has to occur as it is.")]
pub(crate) struct SearchArgs {
    /// The words to search for.
    #[arg(value_name = "QUERY", required = true)]
    pub(crate) query: Vec<String>,
    /// Search only this session: its id or a prefix of it.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Search only passages of this kind: prompt, message, thought, "tool input", "tool result".
    #[arg(long, value_name = "KIND")]
    pub(crate) kind: Option<String>,
    /// Search only arguments and results of this tool.
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// Search only sessions that were started in this folder or below it.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) project: Option<PathBuf>,
    /// Search only from this time on: a time, or a span ago as -7d.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) since: Option<Moment>,
    /// Search only before this time.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) until: Option<Moment>,
    /// Search only results of failed and denied calls.
    #[arg(long)]
    pub(crate) failed: bool,
    /// Return at most this many.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
    /// Print JSON (subscope.hits/1).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show one agent in full: its prompt, every tool call, its result.
#[derive(Args, Clone, Debug)]
pub(crate) struct ShowArgs {
    /// The agent: a prefix of its id, or SESSION/AGENT.
    #[arg(value_name = "AGENT")]
    pub(crate) agent: String,
    /// Level of detail.
    #[arg(long, value_name = "LEVEL", value_parser = value::detail())]
    pub(crate) detail: Option<Detail>,
    /// Print the agent's row as JSON (subscope.agent/1).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Show statistics over all sessions: by type of agent, tool, model and day.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StatsArgs {
    /// From the day (UTC) of this time on: a time, or a span ago as -7d.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) since: Option<Moment>,
    /// Up to the day (UTC) of this time, that day included.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) until: Option<Moment>,
    /// Only sessions that were started in this folder or below it.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) project: Option<PathBuf>,
    /// Only sessions of this harness.
    #[arg(long, value_name = "HARNESS")]
    pub(crate) harness: Option<String>,
    /// Print JSON (subscope.stats/1).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Remove sessions from the store. The harness's own files are not touched; a session that continues afterwards is
/// ingested again.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "\
Examples:
  subscope forget 59d3cea2
  subscope forget --before -90d")]
pub(crate) struct ForgetArgs {
    /// The sessions: their ids or prefixes of them.
    #[arg(value_name = "SESSION", required_unless_present = "before")]
    pub(crate) sessions: Vec<String>,
    /// Remove all sessions whose last event is older: RFC 3339, milliseconds since 1970, or a time ago as -90d.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with = "sessions")]
    pub(crate) before: Option<Moment>,
}

/// Print one line for a prompt, tmux or Claude Code's status line: agents at work, what they wait for, cost.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "\
Examples:
  subscope status                            everything at work on this machine
  subscope status --session last
  set -g status-right '#(subscope status)'   in ~/.tmux.conf
  \"statusLine\": {\"type\": \"command\", \"command\": \"subscope status\"}   in Claude Code's settings: it names its session on stdin")]
pub(crate) struct StatusLineArgs {
    /// Show only this session: its id, a prefix of it, or `last`.
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Print JSON (subscope.status/1).
    #[arg(long)]
    pub(crate) json: bool,
}
