//! Arguments of the commands over stored sessions: `subscope index`, `ls`, `search`, `show`, `stats`, `forget`,
//! `status`.

use std::path::PathBuf;

use clap::Args;
use subscope_model::SessionOrder;
use subscope_render::Detail;

use super::{
    complete,
    value::{self, Moment},
};

/// Read new and changed transcripts into the store.
#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = "\
Examples:
  subscope index
  subscope index /mnt/backup/.claude --json

A ROOT is the folder of a harness, or any folder with transcripts below it. Without a ROOT, the folders of all harnesses are read. The files are never changed. If a hub runs, it reads them.

Commands such as `ls` and `search` do this themselves: `index` is for other folders, and for scripts.")]
pub(crate) struct IndexArgs {
    /// The folders to read.
    #[arg(value_name = "ROOT")]
    pub(crate) roots: Vec<PathBuf>,
    /// Skip the full-text index: `ls`, `tree` and `stats` are complete, `search` finds nothing new.
    #[arg(long)]
    pub(crate) no_text: bool,
    /// Archive transcripts, so that they stay when the harness deletes, cuts or rewrites them: as compressed copies.
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
#[command(after_long_help = "\
Examples:
  subscope ls
  subscope ls --live
  subscope ls --harness codex -n 100
  subscope ls --sort cost --since -7d     what cost most in the last 7 days
  subscope ls --denied                    in which a person or a rule refused a call
  subscope ls --iterations                what `subscope run` recorded in this folder
  subscope ls --json | jq -r '.sessions[].id'")]
pub(crate) struct LsArgs {
    /// List only sessions with an agent at work.
    #[arg(long)]
    pub(crate) live: bool,
    /// List only sessions of this harness.
    #[arg(long, value_name = "HARNESS", conflicts_with = "iterations")]
    pub(crate) harness: Option<String>,
    /// List only sessions of this other machine, by its name in the settings.
    #[arg(long, value_name = "NAME", conflicts_with = "iterations")]
    pub(crate) machine: Option<String>,
    /// List only sessions that were started in this folder or below it.
    #[arg(long, value_name = "FOLDER", conflicts_with = "iterations")]
    pub(crate) project: Option<PathBuf>,
    /// List only sessions with an event from this time on: a date, RFC 3339, milliseconds since 1970, `today`, `yesterday`, or a time ago such as -7d.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with = "iterations")]
    pub(crate) since: Option<Moment>,
    /// List only sessions that began before this time.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with = "iterations")]
    pub(crate) until: Option<Moment>,
    /// List only sessions in which an agent failed.
    #[arg(long, conflicts_with = "iterations")]
    pub(crate) failed: bool,
    /// List only sessions in which a tool call was denied.
    #[arg(long, conflicts_with = "iterations")]
    pub(crate) denied: bool,
    /// Order the sessions by this, the greatest first; `duration` is the time from the first event to the last, `errors` and `denied` count calls.
    #[arg(long, value_name = "FIGURE", value_parser = value::session_order(), default_value = SessionOrder::Newest.name(), conflicts_with = "iterations")]
    pub(crate) sort: SessionOrder,
    /// List also sessions that a harness started by itself, such as checks of calls and makers of titles.
    #[arg(long, conflicts_with = "iterations")]
    pub(crate) all: bool,
    /// List the iterations that `run` recorded in this folder.
    #[arg(long)]
    pub(crate) iterations: bool,
    /// List the iterations recorded in the folders of all known sessions.
    #[arg(long, requires = "iterations", conflicts_with = "log_dir")]
    pub(crate) all_projects: bool,
    /// List the iterations below this folder.
    #[arg(long, value_name = "DIR", requires = "iterations")]
    pub(crate) log_dir: Option<PathBuf>,
    /// List at most this many.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 30)]
    pub(crate) limit: usize,
    /// Print JSON (subscope.sessions/1; with --iterations subscope.iterations/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Search prompts, messages, thoughts, tool arguments and results.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope search rounding cents
  subscope search 'whole cents' --session aa151f21
  subscope search 'round*' --tool Read --since -30d
  subscope search timeout --failed --json

All words must occur in one passage. A word that ends in * matches all words that begin so. A quoted phrase must occur as it is. The newest hits come first.")]
pub(crate) struct SearchArgs {
    /// The words to search for.
    #[arg(value_name = "QUERY", required = true)]
    pub(crate) query: Vec<String>,
    /// Search only this session: its id or a prefix of it.
    #[arg(long, value_name = "ID", add = complete::session())]
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
    /// Search only from this time on: a date, RFC 3339, milliseconds since 1970, `today`, `yesterday`, or a time ago such as -7d.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) since: Option<Moment>,
    /// Search only before this time.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) until: Option<Moment>,
    /// Search only results of failed and denied calls.
    #[arg(long)]
    pub(crate) failed: bool,
    /// Print at most this many hits.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    pub(crate) limit: usize,
    /// Print JSON (subscope.hits/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print one agent in full: prompt, calls, result.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope show a1415f0
  subscope show aa151f21/a1415 --detail moderate
  subscope show a1415f0 --json | jq .result")]
pub(crate) struct ShowArgs {
    /// The agent: a prefix of its id, or SESSION/AGENT.
    #[arg(value_name = "AGENT", add = complete::agent())]
    pub(crate) agent: String,
    /// Set the level of detail.
    #[arg(long, value_name = "LEVEL", value_parser = value::detail())]
    pub(crate) detail: Option<Detail>,
    /// Print the agent's row as JSON (subscope.agent-row/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print statistics over all sessions.
///
/// Counts agents, calls, tokens and cost by agent type, tool, model, project and day. Days are those of the time zone of
/// `TZ`, else of this machine; the setting `time_zone` overrides both.
#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = "\
Examples:
  subscope stats
  subscope stats --since -30d --harness claude-code
  subscope stats --project . --json")]
pub(crate) struct StatsArgs {
    /// Count from the day of this time on: a date, RFC 3339, milliseconds since 1970, `today`, `yesterday`, or a time ago such as -7d.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) since: Option<Moment>,
    /// Count up to the day of this time, including that day.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) until: Option<Moment>,
    /// Count only sessions that were started in this folder or below it.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) project: Option<PathBuf>,
    /// Count only sessions of this harness.
    #[arg(long, value_name = "HARNESS")]
    pub(crate) harness: Option<String>,
    /// Print JSON (subscope.stats/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Remove sessions from the store.
///
/// Removes rows, words, events and archived files. The files of the harness are not touched. A session that continues
/// afterwards is stored again.
#[derive(Args, Clone, Debug, Default)]
#[command(
    override_usage = "subscope forget [OPTIONS] <SESSION>...\n       subscope forget [OPTIONS] --before <TIME>",
    after_long_help = "\
Examples:
  subscope forget aa151f21
  subscope forget --before -90d"
)]
pub(crate) struct ForgetArgs {
    /// The sessions: ids or prefixes.
    #[arg(value_name = "SESSION", required_unless_present = "before", add = complete::session())]
    pub(crate) sessions: Vec<String>,
    /// Remove all sessions whose last event is older than this: a date, RFC 3339, milliseconds since 1970, `today`, `yesterday`, or a time ago such as -90d.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with = "sessions")]
    pub(crate) before: Option<Moment>,
}

/// Copy the store with its archive and your settings to a folder.
///
/// A hub may run meanwhile: each database is copied as it is at one moment, and input that waits for the hub is copied too. The
/// full-text index is left out, which a hub builds again. The copy is a data folder: `--store FOLDER` looks into it. Only you
/// can read it.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope backup ~/subscope-backup
  subscope --store ~/subscope-backup ls       look into it")]
pub(crate) struct BackupArgs {
    /// The folder: a new or an empty one.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}

/// Put a copy made by `backup` in place of the store.
///
/// The store that is there is set aside in the data folder, and its name printed. Archived files, input that waits for a hub, and
/// settings stay, and those of the copy are added where there are none. What you made subscope forget since stays forgotten.
/// The copy is not changed.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope restore ~/subscope-backup
  subscope index                              read what is new since")]
pub(crate) struct RestoreArgs {
    /// The folder that `backup` wrote.
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}

/// Print one line for a prompt or status bar.
///
/// Shows the agents at work, what they wait for, and cost.
#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = "\
Examples:
  subscope status                            all sessions of this machine
  subscope status --session last
  set -g status-right '#(subscope status)'   in ~/.tmux.conf
  \"statusLine\": {\"type\": \"command\", \"command\": \"subscope status\"}   in Claude Code's settings; it sends its session on stdin")]
pub(crate) struct StatusLineArgs {
    /// Show only this session: its id, a prefix of it, or `last`.
    #[arg(long, value_name = "ID", add = complete::session())]
    pub(crate) session: Option<String>,
    /// Print nothing if no agent is at work.
    #[arg(long)]
    pub(crate) live: bool,
    /// Print JSON (subscope.status/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}
