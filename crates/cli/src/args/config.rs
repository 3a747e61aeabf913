//! Arguments of `subscope config`.

use clap::{Args, ValueEnum};

const EXAMPLES: &str = concat!(
    "\
Examples:
  subscope config                what every setting is, and which layer set it
  subscope config path           where files of settings are looked for
  subscope config show --json
  subscope config schema         for editors: names, types, defaults and meanings of all settings

The layers, the later wins: built in, the user's file, the project's .subscope/config.toml (nearest folder above), variables such as SUBSCOPE_WATCH_STALL, options.

",
    include_str!("../../data/config.toml")
);

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
    /// The JSON Schema of a settings file.
    Schema,
}
