//! Live sessions, seen by asking for them again and again.

use std::collections::{HashMap, VecDeque};

use subscope_model::{Change, Millis, SessionId, Tree, Update};

use crate::{ListQuery, Queries, QueryResult};

/// Live sessions as the last poll saw them, and the updates since.
#[derive(Default)]
pub struct PolledSessions {
    known: HashMap<SessionId, (Option<Millis>, Tree)>,
    updates: VecDeque<Update>,
    is_caught_up: bool,
}

impl PolledSessions {
    /// Asks for the newest live sessions, at most `limit`, and for those that were live.
    ///
    /// # Errors
    /// The error of the backend. The next poll repeats what failed.
    pub fn poll(&mut self, queries: &mut dyn Queries, limit: usize) -> QueryResult<()> {
        let live = queries.sessions(&ListQuery::live(limit))?.sessions;
        let gone: Vec<SessionId> =
            self.known.keys().filter(|id| !live.iter().any(|row| row.id == **id)).cloned().collect();
        for row in live {
            let version = row.kept_at_ms.or(row.last_event_at_ms);
            if self.known.get(&row.id).is_none_or(|(before, _)| *before != version)
                && let Some(tree) = queries.tree(&row.id)?
            {
                self.offer(&tree);
                self.known.insert(row.id, (version, tree));
            }
        }
        for session in gone {
            // Its last rows, which contain how it ended.
            if let Some(tree) = queries.tree(&session)? {
                self.offer(&tree);
            }
            self.known.remove(&session);
        }
        if !std::mem::replace(&mut self.is_caught_up, true) {
            self.updates.push_back(Update::CaughtUp);
        }
        Ok(())
    }

    /// Takes the oldest update.
    pub fn next_update(&mut self) -> Option<Update> {
        self.updates.pop_front()
    }

    fn offer(&mut self, tree: &Tree) {
        self.updates.push_back(match self.known.get(&tree.session.id) {
            None => Update::snapshot(tree.clone()),
            Some((_, before)) => Update::change(Change::between(before, tree)),
        });
    }
}
