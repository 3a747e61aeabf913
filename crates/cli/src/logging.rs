//! The log of a hub, on standard error: the terminal in the foreground, the log file in the background
//! (`hub_connection/log.rs` opens and bounds it). Log lines hold ids, counts and paths; never text of agents.

use std::io;

use tracing_subscriber::{filter::Targets, layer::SubscriberExt, registry, util::SubscriberInitExt};

use crate::context::Context;

/// Names a level (`error`, `warn`, `info`, `debug`, `trace`) or levels by crate (`info,subscope_hub=debug`).
const VARIABLE: &str = "SUBSCOPE_LOG";

/// Starts logging with the levels that [`VARIABLE`] names, else with `default`.
pub(crate) fn start(default: tracing::Level, context: &Context) {
    let named = context.environment.text(VARIABLE);
    let levels = named.as_deref().map(str::parse::<Targets>).transpose().unwrap_or_else(|error| {
        context.warn(&format!("{VARIABLE} is ignored: {error}"));
        None
    });
    let levels = levels.unwrap_or_else(|| Targets::new().with_default(default));
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    // A second start in one process is a mistake of ours that must not end it.
    let _ = registry().with(levels).with(lines).try_init();
}
