//! Arguments of `subscope serve`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use super::{silence::SilenceArgs, value};
use crate::config::{KEEP_DAYS, LoadedConfig, PRICES};

const EXAMPLES: &str = "\
Examples:
  subscope serve                                 prints http://127.0.0.1:7337 and serves until Ctrl-C
  subscope serve --open                          shows the page in a browser, too
  subscope serve --listen 127.0.0.1:0            takes a free port and prints which
  subscope serve --stop                          ends it, or the one that a command started in the background
  curl -s http://127.0.0.1:7337/api/v1/sessions
  curl -sN http://127.0.0.1:7337/api/v1/live     everything that happens, as server-sent events

Only programs of the same user on the same machine are let in, unless --token-file says otherwise.
What is handed over is kept before it is acknowledged.";

/// Serve a page, an HTTP API and live feeds on this machine, over all live sessions and published events.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
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

impl ServeArgs {
    /// Sets the settings given by these options.
    pub(super) fn apply_to(&self, config: &mut LoadedConfig) {
        config.set_option("--listen", self.listen, "hub.listen", |settings| &mut settings.hub.listen);
        self.silence.apply_to(config);
        config.set_option("--archive", self.archive.then_some(true), "store.archive", |settings| {
            &mut settings.store.archive
        });
        config.set_option("--keep-days", self.keep_days.map(Some), KEEP_DAYS, |settings| {
            &mut settings.store.keep_days
        });
        config.set_option("--prices", self.prices.clone().map(Some), PRICES, |settings| &mut settings.prices);
    }
}
