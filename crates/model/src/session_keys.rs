//! Keys that identify copied history. Harnesses copy a conversation's history into a new session when it is resumed or
//! forked: the ids of responses and calls are equal in both.

use crate::{Millis, SessionId};

/// Hashes of the ids of a session's responses and calls; a copy of the session has the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionKeys {
    /// The session.
    pub session: SessionId,
    /// Time of its first event; `None` if unknown.
    pub began_ms: Option<Millis>,
    /// Keys of the first responses of its root. A copy is the beginning of a main thread: a session with copied
    /// responses begins with one of these keys, or contains the first key of the other session.
    pub first_keys: Vec<u64>,
    /// All keys, unordered, possibly with duplicates.
    pub keys: Vec<u64>,
}

impl SessionKeys {
    /// Returns the sort key of ownership: of several sessions with a key, the one that began first owns it, then the
    /// one with the smaller id. Sessions with an unknown start come last.
    pub fn precedence(&self) -> (Millis, &SessionId) {
        (self.began_ms.unwrap_or(Millis::MAX), &self.session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_is_by_beginning_then_by_id() {
        let of = |began_ms: Option<Millis>, id: &str| SessionKeys {
            session: SessionId::from(id),
            began_ms,
            first_keys: Vec::new(),
            keys: Vec::new(),
        };
        let (first, second, late, never) =
            (of(Some(1), "b"), of(Some(1), "c"), of(Some(2), "a"), of(None, "0"));
        let mut all = [&never, &late, &second, &first];
        all.sort_by(|one, other| one.precedence().cmp(&other.precedence()));
        assert_eq!(all, [&first, &second, &late, &never]);
    }
}
