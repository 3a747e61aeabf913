//! Rows from facts, one commit, and what subscribers are told of it.

use std::{
    collections::BTreeMap,
    error::Error,
    time::{Duration, Instant},
};

use subscope_fold::{Events, Now, next_deadline};
use subscope_model::{Agent, AgentId, Change, Event, Problem, SessionId, Tree, Update};
use subscope_store::{Commit, LedgerError, Received};

use super::Loop;
use crate::clock;

/// How long after a failed commit it is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// A commit that failed. It is kept whole and tried again before anything else is read or taken, so nothing that it
/// holds is lost while the process lives. Its ingests were answered with the error; one that comes again meanwhile is
/// answered with it again, and as a repeat once the commit went through.
pub(super) struct Unkept {
    commit: Commit,
    changes: Vec<Update>,
    error: String,
    tried: Option<Instant>,
}

impl Unkept {
    /// Lets the next try happen at once.
    pub(super) fn make_due(&mut self) {
        self.tried = None;
    }
}

impl Loop {
    /// Concludes what is pending and measures how long it takes.
    pub(super) fn conclude_pending(&mut self, has_ended: bool) {
        let began = clock::tick();
        let sessions: Vec<SessionId> = std::mem::take(&mut self.pending).into_iter().collect();
        // A failed commit is tried again before the next turn reads anything.
        let _ = self.conclude(&sessions, Vec::new(), has_ended);
        self.last_derived = clock::tick();
        self.derive_cost = self.last_derived.duration_since(began);
    }

    /// Concludes these sessions and keeps rows, events and received bytes in one commit. Only for when nothing is unkept.
    pub(super) fn conclude(
        &mut self,
        sessions: &[SessionId],
        received: Vec<Received>,
        has_ended: bool,
    ) -> Result<(), String> {
        let now = Now {
            at: self.driver.now(),
            has_ended,
            is_growing: !has_ended,
            prices: &self.options.prices,
            limits: self.options.limits,
        };
        let (trees, mut events) = self.events.advance(&mut self.fold, sessions, &now);
        if !self.is_announced {
            // Files of live sessions are read from their beginning: what a hub of before has told is not told again.
            for session in sessions {
                self.told_until.entry(session.clone()).or_insert_with(|| {
                    // What was handed over is news, whenever it came.
                    let unknown = self.options.told_until.filter(|_| received.is_empty());
                    let kept = self.keeper.tree(session).ok().flatten();
                    kept.map_or(unknown, |tree| tree.session.ended_at_ms)
                });
            }
            let until = |event: &Event| self.told_until.get(&event.session_id).copied().flatten();
            events.retain(|event| event.at_ms.is_none_or(|at| until(event).is_none_or(|until| at > until)));
        }
        for tree in &trees {
            let due = self.events.next_due(&tree.session.id);
            match next_deadline(tree, &now).into_iter().chain(due).min() {
                Some(deadline) => self.deadlines.insert(tree.session.id.clone(), deadline),
                None => self.deadlines.remove(&tree.session.id),
            };
        }
        let due = |tree: &Tree| self.deadlines.get(&tree.session.id).copied();
        let deadlines = trees.iter().filter_map(|tree| Some((tree.session.id.clone(), due(tree)?))).collect();
        let changes: Vec<Update> = trees.iter().filter_map(|tree| self.change(tree)).collect();
        let outcome = self.keep(Commit { trees, deadlines, events, received, ..Commit::default() }, changes);
        if let Err(error) = &outcome {
            let problem = Problem { at: "store".to_owned(), what: error.clone() };
            self.publish(&Update::Event(Box::new(Events::problem(&problem))));
        }
        outcome
    }

    /// Tries again what could not be kept, if it is time.
    pub(super) fn keep_again(&mut self) -> Result<(), String> {
        let Some(unkept) = self.unkept.take() else { return Ok(()) };
        if unkept.tried.is_some_and(|tried| tried.elapsed() < RETRY_AFTER) {
            let error = unkept.error.clone();
            self.unkept = Some(unkept);
            return Err(error);
        }
        self.keep(unkept.commit, unkept.changes)
    }

    fn keep(&mut self, commit: Commit, changes: Vec<Update>) -> Result<(), String> {
        match self.keeper.commit(&commit) {
            Ok(events) => {
                self.figures.commits += 1;
                self.figures.events += events.len() as u64;
                for change in changes {
                    let session = match &change {
                        Update::Snapshot(tree) => Some(&tree.session.id),
                        Update::Change(change) => Some(&change.session.id),
                        Update::Event(_) | Update::Missed(_) | Update::CaughtUp => None,
                    };
                    if let Some(session) = session {
                        self.moved.insert(session.clone(), self.figures.seq);
                    }
                    self.publish(&change);
                }
                for event in events {
                    self.figures.seq = self.figures.seq.max(event.seq);
                    self.publish(&Update::Event(Box::new(event)));
                }
                Ok(())
            }
            Err(error) => {
                self.figures.failed_commits += 1;
                let error = describe(&error);
                let tried = Some(clock::tick());
                self.unkept = Some(Unkept { commit, changes, error: error.clone(), tried });
                Err(error)
            }
        }
    }

    /// What of a tree differs from what was published; a snapshot for a new session.
    fn change(&mut self, tree: &Tree) -> Option<Update> {
        let rows: BTreeMap<AgentId, Agent> =
            tree.agents.iter().map(|row| (row.id.clone(), row.clone())).collect();
        let known = self.published.insert(tree.session.id.clone(), rows);
        let Some(known) = known else { return Some(Update::Snapshot(Box::new(tree.clone()))) };
        let agents: Vec<Agent> =
            tree.agents.iter().filter(|row| known.get(&row.id) != Some(row)).cloned().collect();
        let removed: Vec<AgentId> =
            known.keys().filter(|id| !tree.agents.iter().any(|row| row.id == **id)).cloned().collect();
        if agents.is_empty() && removed.is_empty() {
            return None;
        }
        Some(Update::Change(Box::new(Change { session: tree.session.clone(), agents, removed })))
    }

    pub(super) fn publish(&mut self, update: &Update) {
        let keeper = &self.keeper;
        let tree = |session: &SessionId| keeper.tree(session).ok().flatten();
        let missed = &mut self.figures.missed;
        self.subscribers.retain_mut(|subscriber| {
            let is_there = subscriber.send(update.clone(), &tree);
            *missed += subscriber.take_dropped();
            is_there
        });
    }

    /// Tells subscribers that have room again what they missed, although nothing new happens.
    pub(super) fn catch_up_subscribers(&mut self) {
        let keeper = &self.keeper;
        let tree = |session: &SessionId| keeper.tree(session).ok().flatten();
        self.subscribers.retain_mut(|subscriber| !subscriber.is_behind() || subscriber.catch_up(&tree));
    }

    pub(super) fn publish_problem(&mut self, problem: Problem) {
        let event: Event = Events::problem(&problem);
        let commit = Commit { events: vec![event.clone()], ..Commit::default() };
        for event in self.keeper.commit(&commit).unwrap_or_else(|_| vec![event]) {
            self.figures.seq = self.figures.seq.max(event.seq);
            self.publish(&Update::Event(Box::new(event)));
        }
    }
}

/// An error with its causes, for people.
pub(super) fn describe(error: &LedgerError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
