//! Whether a program and a hub of another version can talk to each other.

use subscope_model::{Health, OLDEST_PROTOCOL, PROTOCOL};

/// The version of whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own<'v> {
    /// `major.minor.patch`; what follows a `-` or `+` does not count.
    pub version: &'v str,
    /// The newest protocol that it speaks.
    pub protocol: u32,
    /// The oldest.
    pub oldest_protocol: u32,
}

impl<'v> Own<'v> {
    /// That version, with the protocols of this library.
    pub fn of(version: &'v str) -> Self {
        Self { version, protocol: PROTOCOL, oldest_protocol: OLDEST_PROTOCOL }
    }
}

/// How a hub and whoever asks it fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Whether the hub is of an older version than whoever asks: it may be asked to leave.
    pub is_older: bool,
    /// Whether they have a protocol in common.
    pub can_talk: bool,
}

impl Fit {
    /// Compares.
    pub fn of(own: Own<'_>, hub: &Health) -> Self {
        Self {
            is_older: numbers(&hub.version) < numbers(own.version),
            can_talk: own.oldest_protocol <= hub.protocol && hub.oldest_protocol <= own.protocol,
        }
    }
}

/// What cannot be read counts as older than everything.
fn numbers(version: &str) -> [u64; 3] {
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
