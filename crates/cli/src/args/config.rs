//! Arguments of `subscope config`.

use clap::{Args, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  subscope config                what every setting is, and which layer set it
  subscope config path           where files of settings are looked for
  subscope config show --json

The layers, the later wins: built in, the user's file, the project's .subscope/config.toml (nearest folder above), variables such as SUBSCOPE_WATCH_STALL, options.

  subagent_tracing_detail = \"moderate\"   # off, minimal, moderate, full
  code_tools = [\"run_python\"]            # tools whose argument is code
  color = \"auto\"                         # auto, always, never
  ascii = \"auto\"                         # true, false, \"auto\"
  prices = \"prices.toml\"                 # from the folder of the file

  [watch]
  verbose = false
  heartbeat = \"10s\"
  stall = \"180s\"
  stall_subagents = \"600s\"
  stall_open = \"30m\"                     # while a tool call or a question for permission is open
  limits = [\"claude-opus stall=5m\"]      # for one harness or model

  [store]
  archive = false                        # keeps transcripts that Claude Code deletes
  keep_days = 365                        # forgets sessions that old; all stay where it is left out

  [hub]
  listen = \"127.0.0.1:7337\"
  idle = \"15m\"                          # how long a hub that a command started stays when nobody needs it

  [ui]
  theme = \"auto\"                        # auto, dark, light, contrast, 16
  tree = \"auto\"                         # auto (from the first subagent on), shown, hidden
  alerts = \"line\"                       # line, bell, notify (a message through the terminal)";

/// Show settings and where they come from.
#[derive(Args, Clone, Copy, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConfigArgs {
    /// What to show.
    #[arg(value_enum, default_value_t = ConfigPart::Show)]
    pub(crate) part: ConfigPart,
    /// Print JSON (subscope.config/1) instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Output of `subscope config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigPart {
    /// Paths of settings files, and which exist.
    Path,
    /// Every setting with its value and the layer that set it.
    Show,
}
