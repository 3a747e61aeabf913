//! Who counts what several sessions hold: the one that began first, then the smaller id.
//!
//! Harnesses copy the front of a conversation into a new session. So whoever shares something with a session begins with one
//! of its responses, or holds its first: it is enough to compare heads with keys, and what has no kin costs nothing more.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use subscope_fold::{Elsewhere, Fold, Told};
use subscope_model::{Holdings, SessionId};

/// Sessions by their heads.
#[derive(Default)]
pub(crate) struct Heads(HashMap<u64, Vec<SessionId>>);

impl Heads {
    /// Sorts heads as a store gives them.
    pub(crate) fn of(all: Vec<(SessionId, Vec<u64>)>) -> Self {
        let mut heads = Self::default();
        for (session, own) in all {
            heads.add(&session, &own);
        }
        heads
    }

    /// Adds a session's heads and returns those that were not known as its own.
    pub(crate) fn add(&mut self, session: &SessionId, heads: &[u64]) -> Vec<u64> {
        let mut new = Vec::new();
        for head in heads {
            let list = self.0.entry(*head).or_default();
            if !list.contains(session) {
                list.push(session.clone());
                new.push(*head);
            }
        }
        new
    }

    /// Returns the other sessions that begin with one of these keys; one may come twice.
    pub(crate) fn beginning_with<'a>(
        &'a self,
        session: &'a SessionId,
        keys: &'a [u64],
    ) -> impl Iterator<Item = &'a SessionId> {
        let lists = keys.iter().filter_map(|key| self.0.get(key));
        lists.flatten().filter(move |other| *other != session)
    }
}

/// Puts two sessions in order: the later and the earlier.
pub(crate) fn in_order<'h>(one: &'h Holdings, other: &'h Holdings) -> (&'h Holdings, &'h Holdings) {
    if one.precedence() > other.precedence() { (one, other) } else { (other, one) }
}

/// Says to each session of a fold what the others hold that began before it.
pub(crate) fn settle(fold: &mut Fold) {
    let sessions: Vec<SessionId> = fold.sessions().cloned().collect();
    if sessions.len() < 2 {
        return;
    }
    let mut all: Vec<Holdings> =
        sessions.iter().filter_map(|session| fold.holdings(session, &mut Told::default())).collect();
    all.sort_by(|one, other| one.precedence().cmp(&other.precedence()));
    let mut seen: HashSet<u64> = HashSet::new();
    for held in all {
        let copies: HashSet<u64> = held.keys.iter().copied().filter(|key| seen.contains(key)).collect();
        seen.extend(held.keys);
        fold.set_elsewhere(&held.session, Arc::new(copies));
    }
}

/// Joins what several sessions hold.
pub(crate) fn joined<'h>(all: impl Iterator<Item = &'h Holdings>) -> Elsewhere {
    Arc::new(all.flat_map(|held| held.keys.iter().copied()).collect())
}
