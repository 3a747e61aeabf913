//! Options of every command that watches agents at work.

use std::time::Duration;

use clap::Args;

use crate::config::{Raw, Sourced, parse_heartbeat, parse_limit};

/// How often is told how agents stand, and which silence is a stall.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SilenceArgs {
    /// Says so often how active agents stand: 1s to 60s. [default: 10s]
    #[arg(long, value_name = "SPAN", value_parser = parse_heartbeat)]
    pub(crate) heartbeat: Option<Duration>,
    /// Marks an agent as stalled after this silence. [default: 180s]
    #[arg(long, value_name = "SPAN", value_parser = parse_limit)]
    pub(crate) stall: Option<Duration>,
    /// The same while any subagent is active. [default: 600s]
    #[arg(long, value_name = "SPAN", value_parser = parse_limit)]
    pub(crate) stall_subagents: Option<Duration>,
}

impl SilenceArgs {
    pub(super) fn set(&self, raw: &mut Raw) {
        raw.watch.heartbeat = Sourced::flag("--heartbeat", self.heartbeat);
        raw.watch.stall = Sourced::flag("--stall", self.stall);
        raw.watch.stall_subagents = Sourced::flag("--stall-subagents", self.stall_subagents);
    }

    /// Whether any limit is another than the settings'.
    pub(crate) fn has_limits(&self) -> bool {
        self.stall.is_some() || self.stall_subagents.is_some()
    }
}
