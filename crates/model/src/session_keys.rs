//! What tells a copy from its original. Harnesses copy a conversation's history into a new session when it is
//! resumed or forked: the ids of responses and calls are the same in both.

use crate::{Millis, SessionId};

/// What a session holds that a copy of it would hold too: hashes of the ids of its responses and calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionKeys {
    /// The session.
    pub session: SessionId,
    /// When its first event happened; `None` where no source tells.
    pub began_ms: Option<Millis>,
    /// The first of its root's responses. A copy is the front of a main thread: whoever holds a copy of a session's
    /// responses begins with one of them, or holds that session's first.
    pub first_keys: Vec<u64>,
    /// Everything that it holds, in no order. A key may stand there twice.
    pub keys: Vec<u64>,
}

impl SessionKeys {
    /// What decides whose something is that several sessions hold: the session that began first, then the smaller id. One
    /// that nobody knows the beginning of comes last.
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
