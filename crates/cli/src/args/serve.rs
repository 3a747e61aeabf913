//! `subscope serve`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;

use super::silence::SilenceArgs;
use crate::config::{Raw, Sourced, parse_days, parse_listen};

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

/// Serves a page, an HTTP API and live feeds on this machine, over every live session and what programs hand over.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Listens on this address; port 0 takes a free one. One that is not on the loopback needs --token-file.
    /// [default: 127.0.0.1:7337]
    #[arg(long, value_name = "ADDRESS", value_parser = parse_listen)]
    pub(crate) listen: Option<SocketAddr>,
    /// Lets in by TCP who shows the token of this file (Authorization: Bearer TOKEN), from whatever user or machine. The
    /// file is made with a random one where there is none. A browser is let in by an address with a code, which is printed.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Shows the page in a browser; that of the hub that runs, where one does.
    #[arg(long)]
    pub(crate) open: bool,
    /// Ends the hub that runs, whoever started it: what it has begun is finished. The next command that needs one starts one.
    #[arg(long)]
    pub(crate) stop: bool,
    /// Runs as commands start it: detached, and only as long as somebody needs it.
    #[arg(long, hide = true, conflicts_with = "stop")]
    pub(crate) background: bool,
    #[command(flatten)]
    pub(crate) silence: SilenceArgs,
    /// Orders a subagent that is stalled to stop, as `subscope stop` does.
    #[arg(long)]
    pub(crate) stall_kill: bool,
    /// Keeps transcripts that Claude Code deletes: a second name for each file while it is there, compressed from then on.
    #[arg(long)]
    pub(crate) archive: bool,
    /// Forgets sessions whose last event is older than that many days.
    #[arg(long, value_name = "N", value_parser = parse_days)]
    pub(crate) keep_days: Option<u32>,
    /// Takes prices from this file instead of the bundled table.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
}

impl ServeArgs {
    /// Returns the settings that these options set.
    pub(super) fn settings(&self) -> Raw {
        let mut raw = Raw::default();
        raw.hub.listen = Sourced::flag("--listen", self.listen);
        self.silence.set(&mut raw);
        raw.store.archive = Sourced::flag("--archive", self.archive.then_some(true));
        raw.store.keep_days = Sourced::flag("--keep-days", self.keep_days);
        raw.prices.file = Sourced::flag("--prices", self.prices.clone());
        raw
    }
}
