//! Version compatibility of a client and a hub.

use subscope_model::{Health, OLDEST_PROTOCOL, PROTOCOL};

/// Compatibility of a hub with a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Whether the hub's version is older than the client's: the client may ask it to drain.
    pub is_older: bool,
    /// Whether they support a common protocol.
    pub can_talk: bool,
}

impl Fit {
    /// Compares a client of a version (`major.minor.patch`; a suffix after `-` or `+` is ignored) with a hub.
    pub fn of(version: &str, hub: &Health) -> Self {
        Self {
            is_older: parse_version(&hub.version) < parse_version(version),
            can_talk: overlap((OLDEST_PROTOCOL, PROTOCOL), (hub.oldest_protocol, hub.protocol)),
        }
    }
}

/// Whether two programs support a common protocol; each from its oldest to its newest.
fn overlap(own: (u32, u32), hub: (u32, u32)) -> bool {
    own.0 <= hub.1 && hub.0 <= own.1
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
            let health = Health { version: hub.into(), ..Health::default() };
            assert_eq!(Fit::of(own, &health).is_older, is_older, "{own} {hub}");
        }
    }

    #[test]
    fn they_talk_where_their_protocols_meet() {
        for (own, hub, can_talk) in [
            ((1, 1), (1, 1), true),
            ((1, 1), (1, 3), true),
            ((1, 3), (1, 1), true),
            ((2, 3), (3, 4), true),
            ((1, 1), (2, 3), false),
            ((2, 3), (1, 1), false),
            ((1, 1), (0, 0), false),
        ] {
            assert_eq!(overlap(own, hub), can_talk, "{own:?} {hub:?}");
        }
        let health = Health { protocol: PROTOCOL, oldest_protocol: OLDEST_PROTOCOL, ..Health::default() };
        assert!(Fit::of("0.1.0", &health).can_talk);
    }
}
