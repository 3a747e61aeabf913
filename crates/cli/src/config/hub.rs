//! Section `[hub]`: listen address and idle timeout.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use super::{SettingOrigin, SettingRow, Sourced, given::GivenValue};
use crate::args::value::format_duration;

/// Keys of this section.
pub(super) const KEYS: [&str; 2] = ["hub.listen", "hub.idle"];

/// Default address of the HTTP server; no well-known program uses this port.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7337);
/// Default idle timeout of a background hub: longer than a pause in work, short enough that nothing runs on an
/// otherwise used machine.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// Shortest idle timeout: a hub that exits before the command that started it has connected would be restarted
/// endlessly.
const MIN_IDLE: Duration = Duration::from_secs(1);

/// Parses an address; `:PORT` alone means 127.0.0.1.
pub(crate) fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').map(str::parse);
    let address = match port {
        Some(Ok(port)) => Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))),
        Some(Err(_)) | None => text.parse::<SocketAddr>(),
    };
    address.map_err(|_| format!("{text:?} is no address: write 127.0.0.1:7337 or [::1]:7337"))
}

fn parse_idle(span: Duration) -> Result<Duration, String> {
    let fits = span >= MIN_IDLE;
    if fits { Ok(span) } else { Err(format!("{} is less than 1s", format_duration(span))) }
}

/// One layer of this section.
#[derive(Debug, Default)]
pub(crate) struct RawHub {
    /// `listen`, `--listen`.
    pub(crate) listen: Option<Sourced<SocketAddr>>,
    /// `idle`.
    pub(crate) idle: Option<Sourced<Duration>>,
}

impl RawHub {
    /// Sets one setting. Returns false if it is not of this section.
    pub(super) fn set(
        &mut self,
        key: &str,
        given: GivenValue<'_>,
        origin: &SettingOrigin,
    ) -> Result<bool, String> {
        match key {
            "hub.listen" => self.listen = Some(Sourced::new(parse_listen(given.text()?)?, origin)),
            "hub.idle" => self.idle = Some(Sourced::new(parse_idle(given.span()?)?, origin)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Merges this layer over a lower one.
    pub(super) fn over(self, lower: Self) -> Self {
        Self { listen: self.listen.or(lower.listen), idle: self.idle.or(lower.idle) }
    }
}

/// Effective settings of this section.
#[derive(Debug)]
pub(crate) struct HubSettings {
    /// Where HTTP is served.
    pub(crate) listen: Sourced<SocketAddr>,
    /// How long a hub that a command started stays when nobody needs it.
    pub(crate) idle: Sourced<Duration>,
}

impl HubSettings {
    /// Returns the settings as rows for display.
    pub(super) fn rows(&self) -> [SettingRow; 2] {
        [
            SettingRow::new("hub.listen", self.listen.value.to_string(), &self.listen.origin),
            SettingRow::new("hub.idle", format_duration(self.idle.value), &self.idle.origin),
        ]
    }
}

impl From<RawHub> for HubSettings {
    fn from(raw: RawHub) -> Self {
        Self {
            listen: raw.listen.unwrap_or(Sourced::built_in(LISTEN)),
            idle: raw.idle.unwrap_or(Sourced::built_in(IDLE)),
        }
    }
}
