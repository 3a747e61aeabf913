//! Finds the due sessions: those whose rows are newer than the acknowledged ones.

use std::collections::HashMap;

use subscope_model::{Millis, SessionId, SessionRow};
use subscope_store::{Forwarded, SessionQueries, SqliteStore, StoreResult};

use super::ForwardOptions;

/// A hub assigns revs before it commits, and commits in another order: revs down to this distance below the highest one
/// are checked again.
const REV_SLACK: u64 = 20_000;

/// A session to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DueSession {
    pub(super) session: SessionId,
    /// Rev of its rows in the store.
    pub(super) rev: u64,
    pub(super) is_live: bool,
    /// Whether the server is to remove it: it was forgotten, or is excluded.
    pub(super) is_gone: bool,
}

/// Sessions that the server has, and the rev up to which the store was checked.
pub(super) struct DueQueue {
    forwarded: HashMap<SessionId, Forwarded>,
    /// Rev from which on the store is looked at; 0 at first, for all of it.
    from: u64,
    /// Sessions that were due and have not been acknowledged.
    pending: HashMap<SessionId, DueSession>,
    /// The store's version when it was last looked at.
    version: Option<i64>,
}

impl DueQueue {
    pub(super) fn new(forwarded: HashMap<SessionId, Forwarded>) -> Self {
        Self { forwarded, from: 0, pending: HashMap::new(), version: None }
    }

    /// Whether there may be something to send: the store has changed, or something waits.
    pub(super) fn has_news(&self, version: i64) -> bool {
        self.version != Some(version) || !self.pending.is_empty()
    }

    /// Looks at all sessions again.
    pub(super) fn restart(&mut self) {
        (self.from, self.version) = (0, None);
    }

    pub(super) fn forwarded(&self, session: &SessionId) -> Option<&Forwarded> {
        self.forwarded.get(session)
    }

    pub(super) fn acknowledge(&mut self, acknowledged: Vec<(SessionId, Forwarded)>) {
        for (session, forwarded) in acknowledged {
            // One that has changed meanwhile is found again by its rev.
            self.pending.remove(&session);
            self.forwarded.insert(session, forwarded);
        }
    }

    /// Leaves a session out until its rows change: there is nothing to send, or the server does not take it.
    pub(super) fn dismiss(&mut self, session: &SessionId) {
        self.pending.remove(session);
    }

    /// Returns what is due, the newest last event first.
    pub(super) fn due(
        &mut self,
        store: &SqliteStore,
        options: &ForwardOptions,
    ) -> StoreResult<Vec<DueSession>> {
        let version = store.data_version()?;
        if self.version != Some(version) {
            let found = store.sessions_from_rev(self.from)?;
            let highest = found.iter().map(|one| one.rev).max().unwrap_or(0);
            // Settings may have changed since the last process: the first look is at all sessions.
            let is_first = self.version.is_none();
            for one in found {
                let before = self.forwarded.get(&one.session);
                if !is_first && before.is_some_and(|before| before.rev >= one.rev) {
                    continue;
                }
                let is_gone = one.is_forgotten || is_excluded(store, options, &one.session)?;
                let is_new = match before {
                    // Whether the server ever had a forgotten session is unknown where the record was lost.
                    None => !is_gone || one.is_forgotten,
                    Some(before) => {
                        one.rev > before.rev
                            || before.level > options.level
                            || before.is_deleted != is_gone
                            || (is_first && options.all && !is_gone)
                    }
                };
                if is_new {
                    let due =
                        DueSession { session: one.session, rev: one.rev, is_live: one.is_live, is_gone };
                    self.pending.insert(due.session.clone(), due);
                } else {
                    self.pending.remove(&one.session);
                }
            }
            self.from = self.from.max(highest.saturating_sub(REV_SLACK)).max(1);
            self.version = Some(version);
        }
        let mut due: Vec<(Millis, DueSession)> = Vec::new();
        for one in self.pending.values() {
            let last = store.session_row(&one.session)?.and_then(|row| row.last_event_at_ms).unwrap_or(0);
            due.push((last, one.clone()));
        }
        due.sort_by(|(at, one), (other_at, other)| {
            other_at.cmp(at).then_with(|| one.session.cmp(&other.session))
        });
        Ok(due.into_iter().map(|(_, due)| due).collect())
    }
}

/// Whether a session is not forwarded: its folder is excluded, or another machine has it, which forwards its own.
fn is_excluded(store: &SqliteStore, options: &ForwardOptions, session: &SessionId) -> StoreResult<bool> {
    let row = store.session_row(session)?.unwrap_or_else(|| SessionRow::empty(session.clone()));
    Ok(row.machine.is_some() || options.exclusions.contains(&row))
}
