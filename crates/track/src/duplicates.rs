//! Duplicates: responses and calls that also occur in a session that began earlier, and are counted there.
//!
//! Their tool calls have no rows in this session. An agent that has nothing but duplicates keeps its row, flagged as a
//! copy, and is not counted.

use std::sync::Arc;

use hashbrown::HashSet;
use subscope_model::{SessionKeys, Text};

use crate::{
    Tracker,
    facts::{AgentRef, CallIndex, Facts, ROOT, call_key},
    identities::{AgentIndex, Identities},
    owners::Ownership,
};

/// Keys of [`SessionKeys::keys`] that are owned by sessions that began earlier.
pub type OwnedElsewhere = Arc<HashSet<u64>>;

/// Position in a session's keys up to which they were returned; keys are only appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeysCursor {
    responses: usize,
    calls: usize,
}

/// Number of root responses returned as first keys. One would do; with two, one may be lost to damage.
const FIRST_KEYS: usize = 2;

impl Tracker {
    /// Returns the session's keys after the cursor, and advances it.
    pub fn session_keys(&self, cursor: &mut KeysCursor) -> SessionKeys {
        let facts = &self.facts;
        let from_root = facts.responses.iter().filter(|response| {
            !response.synthetic
                && !response.is_merged
                && response.owners.iter().any(|(owner, _): &(AgentRef, _)| *owner == ROOT)
        });
        let responses = facts.responses.iter().skip(cursor.responses).map(|response| response.key.0);
        let calls = facts.calls.iter().skip(cursor.calls).filter(|call| !call.is_local());
        let calls = calls.filter_map(|call| call.id.as_deref()).map(call_key);
        let session_keys = SessionKeys {
            session: self.session().clone(),
            began_ms: facts.span.get().map(|(from, _)| from),
            first_keys: from_root.take(FIRST_KEYS).map(|response| response.key.0).collect(),
            keys: responses.chain(calls).collect(),
        };
        *cursor = KeysCursor { responses: facts.responses.len(), calls: facts.calls.len() };
        session_keys
    }

    /// Replaces the set of keys that are owned by earlier sessions.
    pub fn set_owned_elsewhere(&mut self, owned_elsewhere: OwnedElsewhere) {
        self.owned_elsewhere = owned_elsewhere;
    }
}

/// The duplicates of a session.
pub(crate) struct Duplicates<'f> {
    facts: &'f Facts,
    owned_elsewhere: &'f HashSet<u64>,
    /// Agents that have nothing but duplicates.
    agents: HashSet<AgentIndex>,
}

impl<'f> Duplicates<'f> {
    /// Finds the duplicates.
    pub(crate) fn find(
        facts: &'f Facts,
        identities: &Identities,
        owners: &Ownership,
        owned_elsewhere: &'f HashSet<u64>,
    ) -> Self {
        let is_copy = |agent: &AgentRef| facts.agent(*agent).is_copy;
        let numbered = identities.all.iter().enumerate();
        let copies = numbered.filter(|(_, identity)| identity.refs.iter().any(is_copy));
        let agents = copies.map(|(number, _)| number).collect();
        let mut duplicates = Self { facts, owned_elsewhere, agents };
        if owned_elsewhere.is_empty() {
            return duplicates;
        }
        let mut has_own: HashSet<AgentIndex> = HashSet::new();
        for (number, owner) in owners.of_responses().enumerate() {
            has_own.extend(owner.filter(|_| !duplicates.has_response(number)));
        }
        for (number, owner) in owners.calls.iter().enumerate() {
            has_own
                .extend(owner.map(|(owner, _)| owner).filter(|_| !duplicates.has_call(number as CallIndex)));
        }
        for (number, identity) in identities.all.iter().enumerate().skip(1) {
            let is_spawn_duplicate =
                identity.origin.or(identity.batch).is_some_and(|call| duplicates.has_call(call));
            if is_spawn_duplicate && !has_own.contains(&number) {
                duplicates.agents.insert(number);
            }
        }
        duplicates
    }

    /// Returns whether a response is a duplicate.
    pub(crate) fn has_response(&self, number: usize) -> bool {
        !self.owned_elsewhere.is_empty() && self.owned_elsewhere.contains(&self.facts.responses[number].key.0)
    }

    /// Returns whether a call is a duplicate, also of the session's own transcript.
    pub(crate) fn has_call(&self, number: CallIndex) -> bool {
        let call = self.facts.call(number);
        if call.is_renumbered && self.facts.has_transcript {
            return true;
        }
        let is_owned = |id: &Text| self.owned_elsewhere.contains(&call_key(id));
        !self.owned_elsewhere.is_empty() && !call.is_local() && call.id.as_ref().is_some_and(is_owned)
    }

    /// Returns whether an agent has nothing but duplicates.
    pub(crate) fn has_agent(&self, number: AgentIndex) -> bool {
        self.agents.contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::response_key;

    #[test]
    fn session_keys_are_the_same_in_every_version() {
        // Stores keep these hashes: other values here require every session to be read again.
        assert_eq!(
            (response_key("msg_01").0, call_key("toolu_01")),
            (2_987_771_677_961_639_996, 17_461_420_464_940_438_839)
        );
    }

    #[test]
    fn keys_are_returned_once_and_without_those_of_published_calls() {
        use subscope_model::{Fact, SourceKind};

        use crate::test_session::{ROOT, TestSession, response, tool_call};

        let mut session = TestSession::new();
        session.add(SourceKind::Transcript, 5, ROOT, Fact::Response(response("m1", 1)));
        session.add(SourceKind::Transcript, 6, ROOT, tool_call("c1", "Bash"));
        session.add(SourceKind::Posted, 7, ROOT, tool_call("1", "Bash"));
        let mut cursor = KeysCursor::default();
        let keys = session.tracker.session_keys(&mut cursor);
        assert_eq!((keys.began_ms, keys.keys), (Some(5), vec![response_key("m1").0, call_key("c1")]));
        session.add(SourceKind::Transcript, 8, ROOT, tool_call("c2", "Bash"));
        let keys = session.tracker.session_keys(&mut cursor);
        assert_eq!((keys.keys, keys.first_keys), (vec![call_key("c2")], vec![response_key("m1").0]));
    }

    #[test]
    fn duplicates_have_no_rows_and_an_agent_of_duplicates_is_not_counted() {
        use subscope_model::{Fact, Flag, SourceKind};

        use crate::test_session::{ROOT, TestSession, agent, response, spawn_call, spawned, tool_call};

        let mut session = TestSession::new();
        session.add(SourceKind::Transcript, 5, ROOT, spawn_call("c1", r#""x""#));
        session.add(SourceKind::Transcript, 6, ROOT, tool_call("c2", "Bash"));
        session.add(SourceKind::Transcript, 7, agent("a1"), Fact::Response(response("m1", 1)));
        session.add(SourceKind::Transcript, 7, agent("a1"), spawned("a1", "c1"));
        assert_eq!((session.tree(10).summary.agents, session.tree(10).summary.tool_calls), (1, 2));
        session.add(SourceKind::Transcript, 8, ROOT, spawn_call("c3", r#""y""#));
        session.add(SourceKind::Transcript, 9, agent("a2"), spawned("a2", "c3"));
        let owned: HashSet<u64> = [call_key("c1"), response_key("m1").0].into_iter().collect();
        session.tracker.set_owned_elsewhere(owned.into());
        let tree = session.tree(10);
        assert_eq!((tree.summary.agents, tree.summary.tool_calls), (1, 2));
        let copied: Vec<(&str, bool)> =
            tree.agents.iter().map(|row| (&*row.id.0, row.has(Flag::Copied))).collect();
        assert_eq!(copied, [("root", false), ("a1", true), ("a2", false)]);
        assert_eq!(tree.agents[1].usage, None);
    }
}
