//! How the hub is reached and when it leaves: the section `[hub]`.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use super::{Origin, Shown, Sourced, given::Given};
use crate::args::value::show_duration;

/// The section's settings.
pub(super) const KEYS: [&str; 2] = ["hub.listen", "hub.idle"];

/// Where HTTP is served unless something else is asked for: a port that no well-known program uses.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7337);
/// How long a hub that a command started stays when nobody needs it: longer than people pause, and short enough that
/// nothing runs on a machine that is used for something else.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// The shortest that may be asked for: a hub that left while the command that started it still connects would be started
/// again without end.
const SHORTEST_IDLE: Duration = Duration::from_secs(1);

/// Reads an address; `:PORT` alone is one of 127.0.0.1.
pub(crate) fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').map(str::parse);
    let address = match port {
        Some(Ok(port)) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        Some(Err(_)) | None => text.parse::<SocketAddr>(),
    };
    address.map_err(|_| format!("{text:?} is no address: write 127.0.0.1:7337 or [::1]:7337"))
}

fn idle(span: Duration) -> Result<Duration, String> {
    let fits = span >= SHORTEST_IDLE;
    if fits { Ok(span) } else { Err(format!("{} is less than 1s", show_duration(span))) }
}

/// One layer.
#[derive(Debug, Default)]
pub(crate) struct RawHub {
    /// `listen`, `--listen`.
    pub(crate) listen: Option<Sourced<SocketAddr>>,
    /// `idle`.
    pub(crate) idle: Option<Sourced<Duration>>,
}

impl RawHub {
    /// Sets one setting; gives whether it is one of this section's.
    pub(super) fn set(&mut self, key: &str, given: Given<'_>, origin: &Origin) -> Result<bool, String> {
        match key {
            "hub.listen" => self.listen = Some(Sourced::new(parse_listen(given.text()?)?, origin)),
            "hub.idle" => self.idle = Some(Sourced::new(idle(given.span()?)?, origin)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns this layer over a lower one.
    pub(super) fn over(self, lower: Self) -> Self {
        Self { listen: self.listen.or(lower.listen), idle: self.idle.or(lower.idle) }
    }
}

/// What holds.
#[derive(Debug)]
pub(crate) struct Hub {
    /// Where HTTP is served.
    pub(crate) listen: Sourced<SocketAddr>,
    /// How long a hub that a command started stays when nobody needs it.
    pub(crate) idle: Sourced<Duration>,
}

impl Hub {
    /// Returns the settings for people.
    pub(super) fn rows(&self) -> [Shown; 2] {
        [
            Shown::new("hub.listen", self.listen.value.to_string(), &self.listen.origin),
            Shown::new("hub.idle", show_duration(self.idle.value), &self.idle.origin),
        ]
    }
}

impl From<RawHub> for Hub {
    fn from(raw: RawHub) -> Self {
        Self {
            listen: raw.listen.unwrap_or(Sourced::built_in(LISTEN)),
            idle: raw.idle.unwrap_or(Sourced::built_in(IDLE)),
        }
    }
}
