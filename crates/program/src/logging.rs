//! The log of a server or hub, on stderr: the terminal in the foreground, a file of the hub in the background
//! (`hub_connection/log.rs` of `cli` opens and bounds it). Log lines hold ids, counts and paths; never text of agents.

use std::{env, io};

use tracing_subscriber::{filter::Targets, layer::SubscriberExt, registry, util::SubscriberInitExt};

/// Names a level (`error`, `warn`, `info`, `debug`, `trace`) or levels by crate (`info,subscope_hub=debug`).
const VARIABLE: &str = "SUBSCOPE_LOG";

/// Starts logging with the levels that [`VARIABLE`] names, else with `default`; `warn` prints why they are ignored.
pub fn start_logging(default: tracing::Level, warn: impl FnOnce(&str)) {
    let named = env::var(VARIABLE).ok().filter(|levels| !levels.is_empty());
    let levels = named.as_deref().map(str::parse::<Targets>).transpose().unwrap_or_else(|error| {
        warn(&format!("{VARIABLE} is ignored: {error}"));
        None
    });
    let levels = levels.unwrap_or_else(|| Targets::new().with_default(default));
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false);
    // A second start in one process is a mistake of ours that must not end it.
    let _ = registry().with(levels).with(lines).try_init();
}
