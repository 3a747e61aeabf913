//! Arguments of the commands that follow live sessions: `subscope watch`, `run`, `serve`, `stop`.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;
use subscope_decode::Dialect;
use subscope_program::parse_listen;
use subscope_render::Detail;

use super::complete;
use super::value::{self, TargetArg, parse_heartbeat, parse_limit};
use crate::config::LoadedConfig;

/// Follow live sessions and print what happens.
#[derive(Args, Clone, Debug, Default)]
#[command(after_long_help = "\
Examples:
  subscope watch                              follow every live session, new ones too
  subscope watch last --verbose
  subscope watch session.jsonl --stall 2m
  subscope watch --json | jq 'select(.kind == \"subagent.stop\")'
  claude -p --output-format stream-json --verbose … | subscope watch -

Without a TARGET the events come from the hub, which has one set of limits and prices for all clients. With --stall, --stall-subagents or --prices, subscope follows the files without the hub.")]
pub(crate) struct WatchArgs {
    /// The session: a path, a session id or prefix, `last`, or - for stdin. None: every live session.
    #[arg(value_name = "TARGET", add = complete::target())]
    pub(crate) targets: Vec<TargetArg>,
    /// Print arguments and results in full instead of one line per event.
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Print results longer than 20 lines in full.
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
    /// Add the prices of this file to the bundled table.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
}

/// Run a command and show what its agents do.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope run -- claude -p \"Review this branch\"
  subscope run -- codex exec \"Review this branch\"            also opencode run, copilot -p, gemini -p, qwen -p
  subscope run -- python my_agents.py                        any agent framework that speaks OpenTelemetry
  subscope run -- claude                                     interactive; `subscope watch` in another terminal shows its agents
  subscope run --iterations 5 --until-success -- ./agent.sh  record each run below .subscope/iterations
  subscope run --render -- claude -p \"…\" > log.txt           print the readable view in place of the command's output

The output of the command passes through unchanged, and its exit code is returned (128 plus the number of a signal that ended it). What its agents do is printed on stderr.

`claude -p` without --output-format gets options that make it print a stream of events (--verbose shows them); subscope prints what it would have printed without them. `codex`, `opencode`, `copilot`, `gemini` and `qwen` get no options: subscope follows the sessions that begin in the working folder while the command runs, or continue there if it resumes one.

The command and everything it starts can publish events of their own subagents to the address in CPE_SUBAGENT_LOGGING_ADDRESS. Programs of other commands send their OpenTelemetry there (OTEL_EXPORTER_OTLP_ENDPOINT), unless the environment names another receiver.")]
pub(crate) struct RunArgs {
    /// The command and its arguments.
    #[arg(value_name = "CMD", required = true, trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
    /// Print what happens on stdout, in place of the command's output.
    #[arg(long)]
    pub(crate) render: bool,
    /// Print arguments and results in full instead of one line per event, and print the options added to the command.
    #[arg(long)]
    pub(crate) verbose: bool,
    /// Print results longer than 20 lines in full.
    #[arg(long)]
    pub(crate) full: bool,
    /// Print events as JSON lines (subscope.event/1): on stderr, with --render on stdout.
    #[arg(long)]
    pub(crate) json: bool,
    /// Run the command this many times, one after another, and record each run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: Option<u32>,
    /// Repeat the command until it exits with 0, at most --iterations times, and record each run.
    #[arg(long)]
    pub(crate) until_success: bool,
    /// Record each run below this folder. [default: .subscope/iterations]
    #[arg(long, value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
    /// Name the records; the command's name by default.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Print the agent tree on stderr at the end, in this level of detail.
    #[arg(long, value_name = "LEVEL", value_parser = value::detail())]
    pub(crate) detail: Option<Detail>,
    #[command(flatten)]
    pub(crate) silence: SilenceArgs,
    /// End the command when an agent stalls.
    #[arg(long)]
    pub(crate) stall_kill: bool,
    /// Store nothing, and use no hub.
    #[arg(long)]
    pub(crate) no_store: bool,
}

impl RunArgs {
    /// Whether each run of the command is recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.iterations.is_some() || self.until_success || self.log_dir.is_some()
    }
}

/// Serve the page and the HTTP API on this machine.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope serve                                 print http://127.0.0.1:7337 and serve until Ctrl-C
  subscope serve --open                          also open the page in a browser
  subscope serve --listen 127.0.0.1:0            use a free port
  subscope serve --public-url https://name-7337.app.github.dev/
                                                 answer behind a port forward, too
  subscope serve --stop                          end the running hub
  subscope serve --otlp-to http://127.0.0.1:4318  forward spans of agents that have ended
  curl -s http://127.0.0.1:7337/api/v1/sessions
  curl -sN http://127.0.0.1:7337/api/v1/live     everything that happens, as server-sent events

Only programs of your own user on this machine have access, unless you use --token-file. `subscope help http-api` describes the routes, `subscope help security` the access rules.")]
pub(crate) struct ServeArgs {
    /// Listen on this address; port 0 is a free port. An address outside of the loopback needs --token-file. [default:
    /// 127.0.0.1:7337]
    #[arg(long, value_name = "ADDRESS", value_parser = parse_listen)]
    pub(crate) listen: Option<SocketAddr>,
    /// Accept TCP clients of any user or machine that send the token in this file (Authorization: Bearer TOKEN). A
    /// missing file is created with a random token. `serve` prints an address with a code for one browser.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Address at which browsers reach the page through a port forward or a proxy, such as https://HOST/ or
    /// https://HOST/PATH/ (the proxy removes the path). TCP clients then need the token of --token-file, or else of the
    /// file `token` in the data folder.
    #[arg(long, value_name = "URL", value_parser = value::parse_public_url)]
    pub(crate) public_url: Option<String>,
    /// Open the page in a browser. If another `serve` runs, open its page.
    #[arg(long)]
    pub(crate) open: bool,
    /// End the running hub, however it was started. It finishes open work; the next command that needs a hub starts one.
    #[arg(long)]
    pub(crate) stop: bool,
    /// Send this machine's sessions over stdout to a hub of yours on another machine, which starts this (`[[remote]]`
    /// there); ends with its input.
    #[arg(long, conflicts_with_all = ["stop", "background", "open", "listen", "token_file", "public_url", "otlp_to"])]
    pub(crate) stdio: bool,
    /// Run in the background until idle, as commands start it.
    #[arg(long, hide = true, conflicts_with = "stop")]
    pub(crate) background: bool,
    #[command(flatten)]
    pub(crate) silence: SilenceArgs,
    /// Forward the spans of each agent when it has ended to this receiver of OpenTelemetry, as `export --as otlp --to`
    /// does: http://HOST:4318, https://…, with or without /v1/traces. Spans wait on disk while it cannot be reached.
    #[arg(long, value_name = "URL", conflicts_with_all = ["stop", "background"], value_parser = value::parse_receiver)]
    pub(crate) otlp_to: Option<String>,
    /// Send this header with each request to the receiver; may be repeated.
    #[arg(long = "otlp-header", value_name = "NAME=VALUE", requires = "otlp_to", value_parser = value::parse_header)]
    pub(crate) otlp_headers: Vec<(String, String)>,
    /// Ask a stalled subagent to stop, as `subscope stop` does.
    #[arg(long)]
    pub(crate) stall_kill: bool,
    /// Keep transcripts that their harness deletes, cuts or rewrites, as compressed copies.
    #[arg(long)]
    pub(crate) archive: bool,
    /// Forget sessions whose last event is older than this many days.
    #[arg(long, value_name = "N", value_parser = value::parse_days)]
    pub(crate) keep_days: Option<u32>,
    /// Add the prices of this file to the bundled table.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
}

/// Ask one running subagent to stop; all other agents continue.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope stop a1415f0
  subscope stop aa151f21/a1415

The agent gets the order in the answer to a hook: after its running tool call, or before its next one. This needs hooks in its session (`subscope hooks install`) and a hub (`subscope serve`). Until it ends, the agent has the flag `stopping`. An agent that makes no more calls completes. Background agents that it started continue. `subscope help stop` has the details.")]
pub(crate) struct StopArgs {
    /// The agent: a prefix of its id, or SESSION/AGENT.
    #[arg(value_name = "AGENT", add = complete::agent())]
    pub(crate) agent: String,
    /// Print the hub's answer as JSON (subscope.stop-asked/1).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Go to the terminal in which a session runs.
///
/// Shows the tmux pane, or the window of kitty or WezTerm, of the session's process; nothing is typed there. Inside the same
/// tmux it takes this terminal along. Where it cannot go it says where the session runs, or prints the command that attaches
/// to it or resumes it, and exits with 1.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope jump
  subscope jump aa151f21
  subscope jump a1415f0

The process is the one that notes the session (Claude Code), that has a file of the session open for writing, or that was started with its id. `subscope help jump` has the details.")]
pub(crate) struct JumpArgs {
    /// The session, or an agent of it: a prefix of an id, SESSION/AGENT, or `last`. Without it, the first session that waits
    /// for you.
    #[arg(value_name = "AGENT", add = complete::agent())]
    pub(crate) agent: Option<String>,
    /// Print what came of it as JSON (subscope.jumped/1).
    #[arg(long)]
    pub(crate) json: bool,
}

/// Answer permission requests of agents.
///
/// Lists the requests that wait, each with the whole call; with a request and a decision, it answers that one, once. No rule
/// is changed. A request waits only while the page or the terminal UI is open and looked at, and only where `answers.enabled` is
/// set; the agent's own terminal asks all the time, and the first answer counts.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = "\
Examples:
  subscope config set answers.enabled true
  subscope answer
  subscope answer 3f2a --allow
  subscope answer 3f2a --deny --reason 'Use the staging database'
  subscope answer 9c04 --answer 'In cents' --answer 'Door, Wall'

This needs command hooks of Claude Code (`subscope hooks install`) or our plugin for OpenCode, and a hub that runs. `subscope help answer` has the details.")]
pub(crate) struct AnswerArgs {
    /// The request: its id, or the beginning of it.
    #[arg(value_name = "REQUEST", requires = "decision")]
    pub(crate) request: Option<String>,
    /// Allow this call, once; approve a plan.
    #[arg(long, group = "decision", requires = "request")]
    pub(crate) allow: bool,
    /// Answer a question: a label, several joined by ", ", or other words. Once for each question, in their order.
    #[arg(long, value_name = "TEXT", group = "decision", requires = "request")]
    pub(crate) answer: Vec<String>,
    /// Refuse this call, plan or question.
    #[arg(long, group = "decision", requires = "request")]
    pub(crate) deny: bool,
    /// Tell the agent why it is refused.
    #[arg(long, value_name = "TEXT", requires = "deny", conflicts_with_all = ["allow", "answer"])]
    pub(crate) reason: Option<String>,
    /// Print the requests (subscope.permissions/1) or the answer (subscope.permission-answered/1) as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Heartbeat interval and stall limits.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SilenceArgs {
    /// Report active agents at this interval, 1s to 60s. [default: 10s]
    #[arg(long, value_name = "SPAN", value_parser = parse_heartbeat)]
    pub(crate) heartbeat: Option<Duration>,
    /// Mark an agent as stalled after this silence. [default: 180s]
    #[arg(long, value_name = "SPAN", value_parser = parse_limit)]
    pub(crate) stall: Option<Duration>,
    /// Mark an agent as stalled after this silence while a subagent is active. [default: 600s]
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
