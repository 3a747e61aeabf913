//! Heartbeat and stall options of `watch`, `run` and `serve`.

use std::time::Duration;

use clap::Args;

use crate::config::{RawSettings, Sourced, parse_heartbeat, parse_limit};

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
    pub(super) fn set(&self, raw: &mut RawSettings) {
        raw.watch.heartbeat = Sourced::flag("--heartbeat", self.heartbeat);
        raw.watch.stall = Sourced::flag("--stall", self.stall);
        raw.watch.stall_subagents = Sourced::flag("--stall-subagents", self.stall_subagents);
    }

    /// Whether an option overrides a limit of the settings.
    pub(crate) fn has_limits(&self) -> bool {
        self.stall.is_some() || self.stall_subagents.is_some()
    }
}
