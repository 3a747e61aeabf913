//! Arguments of the commands that follow live sessions: `subscope watch`, `run`, `serve`, `stop`.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;
use subscope_decode::Dialect;
use subscope_render::Detail;

use super::value::{self, TargetArg, parse_heartbeat, parse_limit};
use crate::config::LoadedConfig;

/// Follow sessions live and print what happens, block by block.
#[derive(Args, Clone, Debug, Default)]
#[command(after_help = "\
Examples:
  subscope watch                              every live session, new ones too
  subscope watch last --verbose
  subscope watch session.jsonl --stall 2m
  subscope watch --json | jq 'select(.kind == \"subagent.stop\")'
  claude -p --output-format stream-json --verbose … | subscope watch -

Without a TARGET the events come from the hub, which applies one set of limits and prices for all clients: with --stall, --stall-subagents or --prices the files are followed without it.")]
pub(crate) struct WatchArgs {
    /// What to follow: a path, a session's id or prefix, `last`, or - for stdin. None: every live session.
    #[arg(value_name = "TARGET")]
    pub(crate) targets: Vec<TargetArg>,
    /// Print arguments and results in full instead of one line per event.
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Do not cut results longer than 20 lines.
    #[arg(long)]
    pub(crate) full: bool,
    /// Print events as JSON, one per line (subscope.event/1).
    #[arg(long)]
    pub(crate) json: bool,
    /// Read the targets as this dialect instead of recognizing it.
    #[arg(long, value_name = "NAME", value_parser = value::dialect())]
    pub(crate) dialect: Option<Dialect>,
    #[command(flatten)]
    pub(crate) silence: SilenceArgs,
    /// Ask a stalled subagent to stop, as `subscope stop` does.
    #[arg(long)]
    pub(crate) stall_kill: bool,
    /// Read prices from this file instead of the bundled table.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
}

/// Run a command and show what its agents do, without changing what it prints.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  subscope run -- claude -p \"Review this branch\"
  subscope run -- codex exec \"Review this branch\"           also opencode run, copilot -p, gemini -p, qwen -p
  subscope run -- claude                                    the terminal stays the program's: `subscope watch` elsewhere shows it
  subscope run --iterations 5 --until-success -- ./agent.sh records each below .subscope/iterations
  subscope run --render -- claude -p \"…\" > log.txt          the readable view in place of what the command prints

What the command prints passes through unchanged, and its exit code is returned (128 and the number of a signal that ended it). Blocks of what its agents do go to stderr. `claude -p` without --output-format gets the options that make it tell what it does (--verbose says which); what it prints stays what it would have printed. `codex`, `opencode`, `copilot`, `gemini` and `qwen` get no options: their sessions are those that begin in the working folder while the command runs, or continue there if it resumes one.

The command finds an address in CPE_SUBAGENT_LOGGING_ADDRESS, to which whatever it starts can post events of subagents of its own.")]
pub(crate) struct RunArgs {
    /// The command and its arguments.
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
    /// Print what happens on stdout, in place of the command's own output.
    #[arg(long)]
    pub(crate) render: bool,
    /// Print arguments and results in full instead of one line per event, and print the options added to the command.
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Do not cut results longer than 20 lines.
    #[arg(long)]
    pub(crate) full: bool,
    /// Print events as JSON in place of blocks, one per line (subscope.event/1): on stderr, with --render on stdout.
    #[arg(long)]
    pub(crate) json: bool,
    /// Run the command this many times, one after another, and record each run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: Option<u32>,
    /// Run the command until it exits with 0, at most --iterations times if given, and record each run.
    #[arg(long)]
    pub(crate) until_success: bool,
    /// Record below this folder. [default: .subscope/iterations]
    #[arg(long, value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
    /// Name of the records; the command's name by default.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print the agent tree on stderr when the command has ended, in this detail.
    #[arg(long, value_name = "LEVEL", value_parser = value::detail())]
    pub(crate) detail: Option<Detail>,
    #[command(flatten)]
    pub(crate) silence: SilenceArgs,
    /// End the command when an agent is stalled.
    #[arg(long)]
    pub(crate) stall_kill: bool,
    /// Store nothing: no hub is used or started.
    #[arg(long)]
    pub(crate) no_store: bool,
}

impl RunArgs {
    /// Whether each run of the command is recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.iterations.is_some() || self.until_success || self.log_dir.is_some()
    }
}

/// Serve a page, an HTTP API and live feeds on this machine, over all live sessions and published events.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  subscope serve                                 prints http://127.0.0.1:7337 and serves until Ctrl-C
  subscope serve --open                          shows the page in a browser, too
  subscope serve --listen 127.0.0.1:0            takes a free port and prints which
  subscope serve --stop                          ends it, or the one that a command started in the background
  curl -s http://127.0.0.1:7337/api/v1/sessions
  curl -sN http://127.0.0.1:7337/api/v1/live     everything that happens, as server-sent events

Only programs of the same user on the same machine are let in, unless --token-file says otherwise.
The hub stores input before it acknowledges it.")]
pub(crate) struct ServeArgs {
    /// Listen on this address; port 0 takes a free one. One that is not on the loopback needs --token-file. [default:
    /// 127.0.0.1:7337]
    #[arg(long, value_name = "ADDRESS", value_parser = value::parse_listen)]
    pub(crate) listen: Option<SocketAddr>,
    /// Accept TCP clients of any user or machine that send the token in this file (Authorization: Bearer TOKEN). A
    /// missing file is created with a random token. A browser is let in by a URL with a code, which is printed.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Open the page in a browser; that of the running hub, if there is one.
    #[arg(long)]
    pub(crate) open: bool,
    /// Stop the running hub, however it was started: it finishes what it has begun. The next command that needs a hub
    /// starts one.
    #[arg(long)]
    pub(crate) stop: bool,
    /// Run in the background, detached, until idle: as commands start it.
    #[arg(long, hide = true, conflicts_with = "stop")]
    pub(crate) background: bool,
    #[command(flatten)]
    pub(crate) silence: SilenceArgs,
    /// Ask a stalled subagent to stop, as `subscope stop` does.
    #[arg(long)]
    pub(crate) stall_kill: bool,
    /// Keep transcripts that Claude Code deletes: hard-linked while they exist, compressed afterwards.
    #[arg(long)]
    pub(crate) archive: bool,
    /// Forget sessions whose last event is older than this many days.
    #[arg(long, value_name = "N", value_parser = value::parse_days)]
    pub(crate) keep_days: Option<u32>,
    /// Read prices from this file instead of the bundled table.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
}

/// Ask one running subagent to stop; all others continue.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  subscope stop a24cf25
  subscope stop 59d3cea2/a24

The agent learns it from the answer to a hook: when its running tool call is over, or before its next one. So its session needs hooks (`subscope hooks install`) and a hub (`subscope serve`). Until then it is shown as stopping; one that calls no tool any more ends by itself. Those it has started in the background continue.")]
pub(crate) struct StopArgs {
    /// The agent: a prefix of its id, or SESSION/AGENT.
    #[arg(value_name = "AGENT")]
    pub(crate) agent: String,
    /// Print the hub's answer as JSON (subscope.stop-asked/1).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Heartbeat interval and stall limits.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SilenceArgs {
    /// Report active agents at this interval: 1s to 60s. [default: 10s]
    #[arg(long, value_name = "SPAN", value_parser = parse_heartbeat)]
    pub(crate) heartbeat: Option<Duration>,
    /// Mark an agent as stalled after this silence. [default: 180s]
    #[arg(long, value_name = "SPAN", value_parser = parse_limit)]
    pub(crate) stall: Option<Duration>,
    /// The same while any subagent is active. [default: 600s]
    #[arg(long, value_name = "SPAN", value_parser = parse_limit)]
    pub(crate) stall_subagents: Option<Duration>,
}

impl SilenceArgs {
    /// Sets the settings given by these options.
    pub(super) fn apply_to(&self, config: &mut LoadedConfig) {
        config.set_option("--heartbeat", self.heartbeat, "watch.heartbeat", |settings| {
            &mut settings.watch.heartbeat
        });
        config.set_option("--stall", self.stall, "watch.stall", |settings| &mut settings.watch.stall);
        config.set_option("--stall-subagents", self.stall_subagents, "watch.stall_subagents", |settings| {
            &mut settings.watch.stall_subagents
        });
    }

    /// Whether an option overrides a limit of the settings.
    pub(crate) fn has_limits(&self) -> bool {
        self.stall.is_some() || self.stall_subagents.is_some()
    }
}
