//! Version compatibility of a client and a hub.

use subscope_model::{Health, OLDEST_PROTOCOL, PROTOCOL};

/// Version and protocols of the client program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own<'v> {
    /// `major.minor.patch`; a suffix after `-` or `+` is ignored.
    pub version: &'v str,
    /// Newest supported protocol.
    pub protocol: u32,
    /// Oldest supported protocol.
    pub oldest_protocol: u32,
}

impl<'v> Own<'v> {
    /// Creates it from a version, with this library's protocols.
    pub fn of(version: &'v str) -> Self {
        Self { version, protocol: PROTOCOL, oldest_protocol: OLDEST_PROTOCOL }
    }
}

/// Compatibility of a hub with a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Whether the hub's version is older than the client's: the client may ask it to drain.
    pub is_older: bool,
    /// Whether they support a common protocol.
    pub can_talk: bool,
}

impl Fit {
    /// Compares a client with a hub.
    pub fn of(own: Own<'_>, hub: &Health) -> Self {
        Self {
            is_older: parse_version(&hub.version) < parse_version(own.version),
            can_talk: own.oldest_protocol <= hub.protocol && hub.oldest_protocol <= own.protocol,
        }
    }
}

/// Parses a version; unreadable parts are 0, older than any release.
fn parse_version(version: &str) -> [u64; 3] {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let mut parts = core.split('.').map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(own: (&str, u32, u32), hub: (&str, u32, u32)) -> (bool, bool) {
        let (version, protocol, oldest_protocol) = own;
        let own = Own { version, protocol, oldest_protocol };
        let (version, protocol, oldest_protocol) = hub;
        let hub = Health { version: version.into(), protocol, oldest_protocol, ..Health::default() };
        let Fit { is_older, can_talk } = Fit::of(own, &hub);
        (is_older, can_talk)
    }

    #[test]
    fn only_a_lower_version_is_older() {
        for (own, hub, is_older) in [
            ("0.2.0", "0.1.9", true),
            ("0.10.0", "0.9.0", true),
            ("1.0.0", "0.99.99", true),
            ("0.1.0", "0.1.0", false),
            ("0.1.0+b", "0.1.0-a", false),
            ("0.1.0", "0.1.1", false),
            ("0.1.0", "1.0", false),
            ("0.1.0", "", true),
            ("0.1.0", "what?", true),
        ] {
            assert_eq!(fit((own, 1, 1), (hub, 1, 1)).0, is_older, "{own} {hub}");
        }
    }

    #[test]
    fn they_talk_where_their_protocols_meet() {
        for (own, hub, can_talk) in [
            ((1, 1), (1, 1), true),
            ((1, 1), (3, 1), true),
            ((3, 1), (1, 1), true),
            ((3, 2), (4, 3), true),
            ((1, 1), (3, 2), false),
            ((3, 2), (1, 1), false),
            ((1, 1), (0, 0), false),
        ] {
            let fits = fit(("0.1.0", own.0, own.1), ("0.1.0", hub.0, hub.1));
            assert_eq!(fits, (false, can_talk), "{own:?} {hub:?}");
        }
    }
}
