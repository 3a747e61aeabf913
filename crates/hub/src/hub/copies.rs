//! What live sessions hold that others hold as well: it counts with the one that began first, from the first row on.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use subscope_fold::Told;
use subscope_model::{Holdings, SessionId};
use subscope_store::{Held, Keys};

use super::Loop;
use crate::copies::{Heads, in_order, joined};

/// What is known of who holds what.
#[derive(Default)]
pub(super) struct Copies {
    /// Of all that is kept and all that is live; read from what is kept when the first session is concluded.
    heads: Option<Heads>,
    /// What is not kept yet, in order.
    told: Vec<Held>,
    /// Sessions of this hub's fold.
    live: HashMap<SessionId, Live>,
}

struct Live {
    told: Told,
    holdings: Holdings,
    kin: BTreeSet<SessionId>,
}

impl Copies {
    /// Takes what is to be kept with the rows of these sessions.
    pub(super) fn told_of(&mut self, sessions: &[SessionId]) -> Vec<Held> {
        let (own, others) = std::mem::take(&mut self.told)
            .into_iter()
            .partition(|held| sessions.contains(&held.holdings.session));
        self.told = others;
        own
    }

    /// Learns what was kept beside the hub.
    pub(super) fn kept(&mut self, held: &[Held]) {
        let Some(heads) = &mut self.heads else { return };
        for Held { holdings, .. } in held {
            heads.add(&holdings.session, &holdings.heads);
        }
    }

    /// Forgets live sessions: they are read anew.
    pub(super) fn restart(&mut self) {
        self.live.clear();
    }
}

impl Loop {
    /// Says to sessions that are to be concluded what is held elsewhere. Returns them with those that have to be concluded as
    /// well, because these hold what they counted.
    pub(super) fn settle_copies(&mut self, sessions: &[SessionId]) -> Vec<SessionId> {
        let Self { copies, fold, keeper, .. } = self;
        // What cannot be read is as good as not there: an index looks again, since nothing of it is settled.
        let heads = copies.heads.get_or_insert_with(|| Heads::of(keeper.heads().unwrap_or_default()));
        let (mut pairs, mut wanted) = (BTreeSet::new(), Keys::new());
        for session in sessions {
            let known = copies.live.get(session);
            let mut until = known.map(|known| known.told).unwrap_or_default();
            let Some(fresh) = fold.holdings(session, &mut until) else { continue };
            let is_whole = known.is_none();
            if fresh.keys.is_empty() && !is_whole {
                continue;
            }
            pairs
                .extend(heads.beginning_with(session, &fresh.keys).map(|kin| (session.clone(), kin.clone())));
            let new = heads.add(session, &fresh.heads);
            // Who was here before this hub began has kin that only a look at everything finds.
            wanted.extend(if is_whole { fresh.heads.clone() } else { new });
            let live = copies.live.entry(session.clone()).or_insert_with(|| Live {
                told: until,
                holdings: Holdings { keys: Vec::new(), ..fresh.clone() },
                kin: BTreeSet::new(),
            });
            live.told = until;
            live.holdings.keys.extend(&fresh.keys);
            (live.holdings.began_ms, live.holdings.heads) = (fresh.began_ms, fresh.heads.clone());
            // Whoever shares something with it may have to be told of what is new.
            pairs.extend(live.kin.iter().map(|kin| (session.clone(), kin.clone())));
            copies.told.push(Held { holdings: fresh, is_whole });
        }
        if !wanted.is_empty() {
            let kept = keeper.holders(&wanted).unwrap_or_default();
            let live = copies.live.values().flat_map(|live| {
                let keys = live.holdings.keys.iter().filter(|key| wanted.contains(*key));
                keys.map(|key| (live.holdings.session.clone(), *key))
            });
            for (holder, head) in kept.into_iter().chain(live) {
                let kin = heads.beginning_with(&holder, std::slice::from_ref(&head));
                pairs.extend(kin.map(|kin| (holder.clone(), kin.clone())));
            }
        }
        let touched: BTreeSet<SessionId> =
            pairs.iter().flat_map(|(one, other)| [one, other]).cloned().collect();
        for (one, other) in pairs {
            for (session, kin) in [(&one, &other), (&other, &one)] {
                if let Some(live) = copies.live.get_mut(session) {
                    live.kin.insert(kin.clone());
                }
            }
        }
        let more = touched.into_iter().filter(|session| {
            let Some(live) = copies.live.get(session) else { return false };
            let kept = live.kin.iter().filter(|kin| !copies.live.contains_key(*kin));
            let kept: Vec<Holdings> = kept.filter_map(|kin| keeper.holdings(kin).ok().flatten()).collect();
            let kin = live.kin.iter().filter_map(|kin| copies.live.get(kin)).map(|live| &live.holdings);
            let earlier = kin.chain(&kept).filter(|kin| std::ptr::eq(in_order(kin, &live.holdings).1, *kin));
            fold.set_elsewhere(session, joined(earlier));
            !sessions.contains(session)
        });
        sessions.iter().cloned().chain(more).collect()
    }
}
