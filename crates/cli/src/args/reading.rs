//! Arguments of the commands that read sessions from files: `subscope tree`, `diff`, `export`, `import`, `replay`,
//! `demo`.

use std::path::PathBuf;

use clap::Args;
use subscope_decode::Dialect;
use subscope_export::{Format, Mask, Shape};
use subscope_render::Detail;

use super::complete;
use super::value::{self, Choice, Moment, TargetArg};

/// Shapes of a feed's lines.
const SHAPES: [Choice<Shape>; 2] = [
    ("event", "Events of subscope (subscope.event/1)", Shape::Event),
    (
        "uap",
        "`subagent_start`, `subagent_event` and `subagent_end`, without events of the main agent",
        Shape::Uap,
    ),
];

/// Formats of exports.
const FORMATS: [Choice<Format>; Format::ALL.len()] = {
    let mut choices = [("", "", Format::Trace); Format::ALL.len()];
    let mut number = 0;
    while number < choices.len() {
        let format = Format::ALL[number];
        choices[number] = (format.as_str(), format.about(), format);
        number += 1;
    }
    choices
};

/// Print the agent tree of a session.
#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = "\
Examples:
  subscope tree last
  subscope tree aa151f21 --detail full --agent a1b6
  subscope tree session.jsonl --at -5m             as it was five minutes ago
  subscope tree stream.jsonl hooks.jsonl --json    merge two sources of one session
  claude -p --output-format stream-json --verbose … | subscope tree -

~ marks what is inferred, ≥ a lower bound, — what is unknown. `subscope help attribution` explains the marks, `subscope help status` the states.")]
pub(crate) struct TreeArgs {
    /// The session: a path, a session id or prefix, `last`, or - for stdin. Several sources of one session are merged;
    /// several sessions are printed one after the other.
    #[arg(value_name = "TARGET", required = true, add = complete::target())]
    pub(crate) targets: Vec<TargetArg>,
    /// Set the level of detail: no agents, one line per agent, also one line per call and result, or everything.
    #[arg(long, value_name = "LEVEL", value_parser = value::detail())]
    pub(crate) detail: Option<Detail>,
    /// Show only this agent and everything below it: a unique prefix of its id.
    #[arg(long, value_name = "ID", add = complete::agent())]
    pub(crate) agent: Option<String>,
    /// Show the tree as it was at this time: a date, RFC 3339, milliseconds since 1970, `today`, `yesterday`, or a time ago such as -5m.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) at: Option<Moment>,
    /// Print JSON (subscope.tree/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Read the input in this dialect instead of recognizing it.
    #[arg(long, value_name = "NAME", value_parser = value::dialect())]
    pub(crate) dialect: Option<Dialect>,
    /// Add the prices of this file to the bundled table.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Use this many columns instead of the terminal's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(20..=10_000))]
    pub(crate) width: Option<u16>,
    /// Print one agent per line without tree lines, for grep and cut.
    #[arg(long)]
    pub(crate) flat: bool,
}

/// Compare what subscope says with what the harnesses themselves wrote.
///
/// Compares tokens, cost, calls and agents with the totals in the harnesses' own files, and `ls`, `stats` and trees with each
/// other.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope verify
  subscope verify ~/backup/.claude
  subscope verify session.jsonl --json
  subscope verify --report=verify.txt

Prints a line for each session that differs, then totals. A figure that differs for a known reason, such as a lower bound (≥), is counted with its reason. Without PATH, all sessions of this machine are read again, which takes a while.

Exit codes: 0 if nothing differs, 1 if something differs, 3 if there is no session at PATH.")]
pub(crate) struct VerifyArgs {
    /// A transcript, a recorded stream, or a folder of them; without it, all sessions of this machine.
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// Also write a report to this new file that can be sent: it has no text of agents, no paths and no names, and ids are hashed.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "subscope-verify.txt")]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON (subscope.verify/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Add the prices of this file to the bundled table.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
}

/// Print the files that the agents of a session changed.
///
/// Each with the number of calls that changed it and the agents that made them. Calls that failed or were denied do not count.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope files
  subscope files aa151f21
  subscope files last --json

Only calls whose arguments name the file are known: what commands changed is not in the list.")]
pub(crate) struct FilesArgs {
    /// The session: a path, a session id or prefix, `last`, or - for stdin.
    #[arg(value_name = "TARGET", default_value = "last", add = complete::target())]
    pub(crate) target: TargetArg,
    /// Print JSON (subscope.files/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Use this many columns instead of the terminal's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(20..=10_000))]
    pub(crate) width: Option<u16>,
}

/// Compare two sessions or two agents.
///
/// Compares how agents ended, their tools, time, tokens and cost; an agent counts with everything below it.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope diff aa151f21 last
  subscope diff before.jsonl after.jsonl --json
  subscope diff last last --agent-a a1415 --agent-b a1b66
  subscope diff .subscope/iterations/a1b2c3d4_2024-01-15_10-30-45_fix .subscope/iterations/c0ffee12_2024-01-15_10-41-02_fix

Agents with the same task (type and description, below paired parents) are paired. Remaining agents of the same type are paired in their order and marked ~.")]
pub(crate) struct DiffArgs {
    /// The first session: a path, a session id or prefix, `last`, a recorded iteration, or - for stdin.
    #[arg(value_name = "A", add = complete::target())]
    pub(crate) a: TargetArg,
    /// The second session.
    #[arg(value_name = "B", add = complete::target())]
    pub(crate) b: TargetArg,
    /// Compare only this agent of the first session and everything below it: its id or a prefix.
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent_a: Option<String>,
    /// Compare only this agent of the second session and everything below it: its id or a prefix.
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent_b: Option<String>,
    /// Print JSON (subscope.diff/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Add the prices of this file to the bundled table.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Use this many columns instead of the terminal's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(20..=10_000))]
    pub(crate) width: Option<u16>,
}

/// Export sessions for other programs and people.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope export last --as trace
  subscope export last --as execution -o traces.json
  subscope export aa151f21 --as checkpoint -o checkpoints/1
  subscope export last --as html -o session.html
  subscope export last --as perfetto -o session.pftrace
  subscope export last --as atif -o trajectory.json
  subscope export last --as otlp -o spans.jsonl
  subscope export last --as otlp --to https://collector:4318 --header api-key=abc
  subscope export --all --since -1d --as otlp --to http://localhost:4318
  subscope export session.jsonl --as feed --shape uap --redact")]
pub(crate) struct ExportArgs {
    /// The session: a path, a session id or prefix, `last`, or - for stdin. Several sources must be of one session; they
    /// are merged.
    #[arg(value_name = "TARGET", required_unless_present = "all", add = complete::target())]
    pub(crate) targets: Vec<TargetArg>,
    /// Export every session that `ls` lists (otlp).
    #[arg(long, conflicts_with_all = ["targets", "dialect"])]
    pub(crate) all: bool,
    /// With --all, export only sessions with an event since this time: a date, RFC 3339, milliseconds since 1970, `today`, `yesterday`, or a time ago such as -1d.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with = "targets")]
    pub(crate) since: Option<Moment>,
    /// Set the output format.
    #[arg(long = "as", value_name = "FORMAT", value_parser = value::choice(FORMATS))]
    pub(crate) format: Format,
    /// Write to this file instead of stdout; for a checkpoint, to this folder.
    #[arg(long, short, value_name = "PATH", required_if_eq("format", "checkpoint"))]
    pub(crate) output: Option<PathBuf>,
    /// Set the shape of the lines of a feed. [default: event]
    #[arg(long, value_parser = value::choice(SHAPES))]
    pub(crate) shape: Option<Shape>,
    /// Push spans (otlp) to this receiver, by http/protobuf: http://HOST:4318, https://…, with or without /v1/traces.
    #[arg(long, value_name = "URL", conflicts_with = "output", value_parser = value::parse_receiver)]
    pub(crate) to: Option<String>,
    /// Send this header with each request to the receiver; may be repeated.
    #[arg(long = "header", value_name = "NAME=VALUE", requires = "to", value_parser = value::parse_header)]
    pub(crate) headers: Vec<(String, String)>,
    /// Include prompts, answers, arguments and results in spans (otlp); secrets are masked.
    #[arg(long)]
    pub(crate) content: bool,
    /// Mask what looks like a secret; the default for html and --content.
    #[arg(long)]
    pub(crate) redact: bool,
    /// Mask nothing.
    #[arg(long, conflicts_with = "redact")]
    pub(crate) no_redact: bool,
    /// Read the input in this dialect instead of recognizing it.
    #[arg(long, value_name = "NAME", value_parser = value::dialect())]
    pub(crate) dialect: Option<Dialect>,
    /// Add the prices of this file to the bundled table.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
}

impl ExportArgs {
    /// Returns whether secrets are masked: by default in HTML, which is made to be shared, and in contents of spans.
    pub(crate) fn mask(&self) -> Mask {
        let is_default = self.format == Format::Html || self.content;
        let is_asked = !self.no_redact && (self.redact || is_default);
        if is_asked { Mask::Secrets } else { Mask::Nothing }
    }
}

/// Import a checkpoint, a trajectory (ATIF), a feed or a recorded stream into the store.
#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = "\
Examples:
  subscope import checkpoints/1
  subscope import trajectory.json
  subscope import feed.jsonl --json
  subscope import checkpoint.json --dry-run --detail full

The same content is imported once, and agents, calls and events with known ids count once. Commands such as `subscope tree feed.jsonl` read these files without importing them.")]
pub(crate) struct ImportArgs {
    /// The input: a checkpoint's folder or file, an ATIF document, a feed, a recorded stream or hook log, or - for stdin.
    #[arg(value_name = "FILE")]
    pub(crate) file: TargetArg,
    /// Print the agent tree and store nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON (subscope.import/1; subscope.tree/1 with --dry-run) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Set the level of detail: no agents, one line per agent, also one line per call and result, or everything.
    #[arg(long, value_name = "LEVEL", value_parser = value::detail(), requires = "dry_run")]
    pub(crate) detail: Option<Detail>,
}

/// Replay a past session in the terminal UI.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope replay last
  subscope replay aa151f21 --speed 4
  subscope replay session.jsonl --step
  subscope replay last --plain --speed 100 | less

In the terminal UI, space pauses and continues, [ and ] step by one event, { and } by a tenth of the session, < and > change the speed, ? lists all keys.")]
pub(crate) struct ReplayArgs {
    /// The session: a path, a session id or prefix, or `last`. Several sources must be of one session; they are merged.
    #[arg(value_name = "TARGET", required = true, add = complete::target())]
    pub(crate) targets: Vec<TargetArg>,
    /// Set the speed: 2 is twice as fast (0.01 to 10000).
    #[arg(long, value_name = "N", default_value = "1", value_parser = value::parse_speed)]
    pub(crate) speed: f64,
    /// Start paused, to step through events.
    #[arg(long)]
    pub(crate) step: bool,
    /// Print changes as lines; automatic if stdout is not a terminal.
    #[arg(long)]
    pub(crate) plain: bool,
}

/// Play a recorded session with eight subagents.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope demo
  subscope demo --speed 10
  subscope demo --plain | less
  subscope demo --write ~/subscope-demo && subscope index ~/subscope-demo    store the session, to try other commands on it
  subscope forget aa151f21                                                   remove it again")]
pub(crate) struct DemoArgs {
    /// Set the speed: 2 is twice as fast (0.01 to 10000).
    #[arg(long, value_name = "N", default_value = "1", value_parser = value::parse_speed)]
    pub(crate) speed: f64,
    /// Print events one after the other instead of redrawing a tree; automatic if stdout is not a terminal.
    #[arg(long)]
    pub(crate) plain: bool,
    /// Write the files of the session below this new folder instead of playing it.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["speed", "plain"])]
    pub(crate) write: Option<PathBuf>,
}
