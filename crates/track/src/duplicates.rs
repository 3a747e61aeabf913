//! What of a session is a copy: responses and calls that another session, which began first, holds as well. They count
//! there. Here their rows stay away, as those of a fork's copied lines do, and an agent of which nothing else is known is
//! shown with its mark and counted nowhere.

use std::sync::Arc;

use hashbrown::HashSet;
use subscope_model::SessionKeys;

use crate::{
    Tracker,
    facts::{CallNo, Facts, ROOT, Ref, call_key},
    identities::{Identities, No},
    owners::Owners,
};

/// What sessions that began first hold, by the names of [`SessionKeys::keys`].
pub type OwnedElsewhere = Arc<HashSet<u64>>;

/// How much of a session's holdings was asked for: they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeysCursor {
    responses: usize,
    calls: usize,
}

/// How many responses of the root are heads. One would do; of two, one may be lost to damage.
const HEADS: usize = 2;

impl Tracker {
    /// Returns what the session holds beyond what was told, and moves `told` on.
    pub fn holdings(&self, told: &mut KeysCursor) -> SessionKeys {
        let facts = &self.facts;
        let heads = facts.responses.iter().filter(|response| {
            !response.synthetic && response.owners.iter().any(|(owner, _): &(Ref, _)| *owner == ROOT)
        });
        let responses = facts.responses.iter().skip(told.responses).map(|response| response.key.0);
        let calls = facts.calls.iter().skip(told.calls).filter(|call| !call.is_published());
        let calls = calls.filter_map(|call| call.id.as_deref()).map(call_key);
        let holdings = SessionKeys {
            session: self.session().clone(),
            began_ms: facts.span.get().map(|(from, _)| from),
            first_keys: heads.take(HEADS).map(|response| response.key.0).collect(),
            keys: responses.chain(calls).collect(),
        };
        *told = KeysCursor { responses: facts.responses.len(), calls: facts.calls.len() };
        holdings
    }

    /// Says what sessions that began first hold. It replaces what was said before.
    pub fn set_owned_elsewhere(&mut self, elsewhere: OwnedElsewhere) {
        self.elsewhere = elsewhere;
    }
}

/// The copies of a session.
pub(crate) struct Copies<'f> {
    facts: &'f Facts,
    elsewhere: &'f HashSet<u64>,
    /// Agents of which nothing but copies is known.
    agents: HashSet<No>,
}

impl<'f> Copies<'f> {
    /// Concludes what is a copy.
    pub(crate) fn of(
        facts: &'f Facts,
        identities: &Identities,
        owners: &Owners,
        elsewhere: &'f HashSet<u64>,
    ) -> Self {
        let mut copies = Self { facts, elsewhere, agents: HashSet::new() };
        if elsewhere.is_empty() {
            return copies;
        }
        let mut has_own: HashSet<No> = HashSet::new();
        for (number, owner) in owners.responses.iter().enumerate() {
            has_own.extend(owner.filter(|_| !copies.has_response(number)));
        }
        for (number, owner) in owners.calls.iter().enumerate() {
            has_own.extend(owner.map(|(owner, _)| owner).filter(|_| !copies.has_call(number as CallNo)));
        }
        for (number, identity) in identities.all.iter().enumerate().skip(1) {
            let is_started_there =
                identity.origin.or(identity.batch).is_some_and(|call| copies.has_call(call));
            if is_started_there && !has_own.contains(&number) {
                copies.agents.insert(number);
            }
        }
        copies
    }

    /// Whether a response is a copy.
    pub(crate) fn has_response(&self, number: usize) -> bool {
        let response = || self.facts.responses.get(number);
        !self.elsewhere.is_empty() && response().is_some_and(|it| self.elsewhere.contains(&it.key.0))
    }

    /// Whether a call is a copy.
    pub(crate) fn has_call(&self, number: CallNo) -> bool {
        let call = || self.facts.calls.get(number as usize).filter(|call| !call.is_published());
        let id = || call().and_then(|call| call.id.as_deref());
        !self.elsewhere.is_empty() && id().is_some_and(|id| self.elsewhere.contains(&call_key(id)))
    }

    /// Whether nothing but copies is known of an agent.
    pub(crate) fn has_agent(&self, number: No) -> bool {
        self.agents.contains(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::response_key;

    #[test]
    fn names_of_holdings_are_the_same_in_every_version() {
        // Stores hold them: other numbers here need a migration that has every session read again.
        assert_eq!(
            (response_key("msg_01").0, call_key("toolu_01")),
            (2_987_771_677_961_639_996, 17_461_420_464_940_438_839)
        );
    }
}
