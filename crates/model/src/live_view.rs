//! Rows of all sessions as a reader of the live feed knows them.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{Agent, AgentId, Change, SessionId, Tree, Update};

/// Trees of sessions, kept up to date by the updates of a feed.
///
/// A snapshot replaces its session's tree. A changed row replaces a row with a lower or equal revision, so repeated and
/// late changes are harmless. Changes of unknown sessions are ignored: a feed sends the snapshot first. A session without
/// agents is gone: a trace that turned out to be of another session.
#[derive(Debug, Default)]
pub struct LiveView {
    sessions: BTreeMap<SessionId, LiveTree>,
}

#[derive(Debug)]
struct LiveTree {
    tree: Tree,
    /// Index of each agent in the tree.
    places: HashMap<AgentId, usize>,
    /// Highest revision of a row so far. An unknown row with a lower one no longer exists.
    rev: u64,
}

impl LiveView {
    /// Applies an update.
    pub fn apply(&mut self, update: Update) {
        match update {
            Update::Snapshot(tree) => {
                let tree = tree.into_inner();
                self.sessions.insert(tree.session.id.clone(), LiveTree::new(tree));
            }
            Update::Change(change) => {
                let session = change.session().id.clone();
                if let Some(known) = self.sessions.get_mut(&session) {
                    known.apply(change.into_inner());
                    if known.tree.agents.is_empty() {
                        self.sessions.remove(&session);
                    }
                }
            }
            Update::Reset => self.sessions.clear(),
            Update::Event(_) | Update::Missed(_) | Update::CaughtUp => {}
        }
    }

    /// Returns a session's tree.
    pub fn get(&self, session: &SessionId) -> Option<&Tree> {
        self.sessions.get(session).map(|known| &known.tree)
    }

    /// Returns an agent's row.
    pub fn agent(&self, session: &SessionId, agent: &AgentId) -> Option<&Agent> {
        let known = self.sessions.get(session)?;
        known.tree.agents.get(*known.places.get(agent)?)
    }

    /// Returns all trees, ordered by session id.
    pub fn trees(&self) -> impl Iterator<Item = &Tree> {
        self.sessions.values().map(|known| &known.tree)
    }

    /// Removes a session; its changes are ignored until its next snapshot.
    pub fn remove(&mut self, session: &SessionId) {
        self.sessions.remove(session);
    }
}

impl LiveTree {
    fn new(tree: Tree) -> Self {
        let rows = tree.agents.iter().filter_map(|row| row.rev);
        let rev = rows.chain(tree.session.rev).max().unwrap_or(0);
        Self { places: places(&tree.agents), tree, rev }
    }

    fn apply(&mut self, change: Change) {
        let Change { sessions: [session], agents, removed, places, summary, .. } = change;
        if session.rev >= self.tree.session.rev {
            self.tree.session = session;
            if let Some(summary) = summary {
                self.tree.summary = summary;
            }
        }
        // A row without a place, as of an older hub, is the last.
        let places = places.into_iter().map(|place| place as usize).chain(std::iter::repeat(usize::MAX));
        let news: Vec<(usize, Agent)> = places.zip(agents).filter(|(_, row)| self.is_news(row)).collect();
        self.rev = news.iter().filter_map(|(_, row)| row.rev).fold(self.rev, u64::max);
        let is_same_order = news.iter().all(|(place, row)| self.places.get(&row.id) == Some(place));
        if is_same_order && removed.iter().all(|id| !self.places.contains_key(id)) {
            for (place, row) in news {
                if let Some(known) = self.tree.agents.get_mut(place) {
                    *known = row;
                }
            }
        } else {
            self.rebuild(news, &removed);
        }
    }

    fn is_news(&self, row: &Agent) -> bool {
        match self.places.get(&row.id).and_then(|place| self.tree.agents.get(*place)) {
            Some(known) => row.rev >= known.rev,
            None => row.rev.is_none_or(|rev| rev > self.rev),
        }
    }

    /// Removes rows, and inserts others at their places in the new tree. The rest keep their order.
    fn rebuild(&mut self, news: Vec<(usize, Agent)>, removed: &[AgentId]) {
        let moved: HashSet<AgentId> = news.iter().map(|(_, row)| &row.id).chain(removed).cloned().collect();
        let mut kept = std::mem::take(&mut self.tree.agents).into_iter();
        let mut kept = kept.by_ref().filter(|row| !moved.contains(&row.id));
        let mut rows = Vec::with_capacity(self.places.len() + news.len());
        for (place, row) in news {
            rows.extend(kept.by_ref().take(place.saturating_sub(rows.len())));
            rows.push(row);
        }
        rows.extend(kept);
        self.places = places(&rows);
        self.tree.agents = rows;
    }
}

fn places(agents: &[Agent]) -> HashMap<AgentId, usize> {
    agents.iter().enumerate().map(|(place, row)| (row.id.clone(), place)).collect()
}

#[cfg(test)]
mod tests;
