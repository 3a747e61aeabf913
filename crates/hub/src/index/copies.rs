//! Behind the first pass: whose is what several sessions hold. Sessions of whose kin something was not known when they were
//! folded are folded once more. Until then they count as not compared, so an index that is cut off here begins here.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashSet;
use subscope_fold::Elsewhere;
use subscope_model::{Holdings, SessionId};
use subscope_store::{Commit, Compared, History, Keys, Kin, LedgerError, Sqlite};

use crate::copies::{Heads, in_order, joined};

/// Which sessions share something, as it is now.
pub(super) struct Comparison {
    /// The sessions that were to be compared.
    fresh: Vec<SessionId>,
    /// What these share with any.
    kin: Vec<Kin>,
    /// What is held elsewhere of sessions whose rows rest on something else.
    pub(super) wrong: BTreeMap<SessionId, Elsewhere>,
}

impl Comparison {
    /// Looks which sessions share something with those that are to be compared; `None` where there are none.
    pub(super) fn look(store: &Sqlite) -> Result<Option<Self>, LedgerError> {
        let fresh = store.uncompared()?;
        if fresh.is_empty() {
            return Ok(None);
        }
        let heads = Heads::of(store.heads()?);
        let known = store.kin()?;
        let is_fresh: HashSet<&SessionId> = fresh.iter().map(|(session, _)| session).collect();
        let (touched, others): (Vec<Kin>, Vec<Kin>) = known
            .into_iter()
            .partition(|kin| is_fresh.contains(&kin.later) || is_fresh.contains(&kin.earlier));
        let mut pairs: BTreeSet<(SessionId, SessionId)> = BTreeSet::new();
        let mut pair = |one: &SessionId, other: &SessionId| {
            if one != other {
                pairs.insert((one.min(other).clone(), one.max(other).clone()));
            }
        };
        touched.iter().for_each(|kin| pair(&kin.later, &kin.earlier));
        let mut wanted = Keys::new();
        for (session, has_new_heads) in &fresh {
            let Some(held) = store.holdings(session)? else { continue };
            heads.beginning_with(session, &held.keys).for_each(|other| pair(session, other));
            wanted.extend(held.heads.into_iter().filter(|_| *has_new_heads));
        }
        if !wanted.is_empty() {
            for (holder, head) in store.holders(&wanted)? {
                heads.beginning_with(&holder, &[head]).for_each(|other| pair(&holder, other));
            }
        }
        let mut held = Known { store, all: BTreeMap::new() };
        let mut kin = BTreeSet::new();
        for (one, other) in &pairs {
            kin.extend(held.kin(one, other)?);
        }
        let mut wrong = BTreeMap::new();
        let before: BTreeSet<Kin> = touched.into_iter().collect();
        for Kin { later, .. } in kin.symmetric_difference(&before) {
            if !wrong.contains_key(later) {
                let now = kin.iter().chain(&others).filter(|kin| kin.later == *later);
                wrong.insert(later.clone(), held.elsewhere(now)?);
            }
        }
        let fresh = fresh.iter().map(|(session, _)| session.clone()).collect();
        Ok(Some(Self { fresh, kin: kin.into_iter().collect(), wrong }))
    }

    /// What says that all rows rest on what was looked up.
    pub(super) fn finish(self) -> Commit {
        Commit { compared: Some(Compared { sessions: self.fresh, kin: self.kin }), ..Commit::default() }
    }
}

/// Returns what is held elsewhere of each session that has copies, as far as it is known.
pub(super) fn known(store: &Sqlite) -> Result<BTreeMap<SessionId, Elsewhere>, LedgerError> {
    let kin = store.kin()?;
    let later: BTreeSet<&SessionId> = kin.iter().map(|kin| &kin.later).collect();
    let mut held = Known { store, all: BTreeMap::new() };
    later
        .into_iter()
        .map(|session| Ok((session.clone(), held.elsewhere(kin.iter().filter(|kin| kin.later == *session))?)))
        .collect()
}

/// Returns what of a session is known to count elsewhere.
pub fn elsewhere(store: &Sqlite, session: &SessionId) -> Result<Elsewhere, LedgerError> {
    let kin = store.kin()?;
    let mut held = Known { store, all: BTreeMap::new() };
    held.elsewhere(kin.iter().filter(|kin| kin.later == *session))
}

/// What sessions hold, each read once.
struct Known<'s> {
    store: &'s Sqlite,
    all: BTreeMap<SessionId, Holdings>,
}

impl Known<'_> {
    fn read(&mut self, session: &SessionId) -> Result<(), LedgerError> {
        if !self.all.contains_key(session)
            && let Some(held) = self.store.holdings(session)?
        {
            self.all.insert(session.clone(), held);
        }
        Ok(())
    }

    /// What two sessions share, if anything.
    fn kin(&mut self, one: &SessionId, other: &SessionId) -> Result<Option<Kin>, LedgerError> {
        self.read(one)?;
        self.read(other)?;
        let (Some(one), Some(other)) = (self.all.get(one), self.all.get(other)) else { return Ok(None) };
        let (later, earlier) = in_order(one, other);
        let shared = later.keys.iter().filter(|key| earlier.keys.binary_search(key).is_ok()).count() as u64;
        let kin = Kin { later: later.session.clone(), earlier: earlier.session.clone(), shared };
        Ok((shared > 0).then_some(kin))
    }

    fn elsewhere<'k>(&mut self, kin: impl Iterator<Item = &'k Kin>) -> Result<Elsewhere, LedgerError> {
        let earlier: BTreeSet<&SessionId> = kin.map(|kin| &kin.earlier).collect();
        for session in &earlier {
            self.read(session)?;
        }
        Ok(joined(earlier.iter().filter_map(|session| self.all.get(*session))))
    }
}
