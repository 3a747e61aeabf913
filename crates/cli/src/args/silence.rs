//! Heartbeat and stall options of `watch`, `run` and `serve`.

use std::time::Duration;

use clap::Args;

use super::value::{parse_heartbeat, parse_limit};
use crate::config::LoadedConfig;

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
