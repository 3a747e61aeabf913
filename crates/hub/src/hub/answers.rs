//! Commands, and what the hub answers from what is kept.

use std::collections::BTreeSet;

use subscope_model::{Agent, AgentId, Event, Session, SessionId, Tree, Update};
use subscope_store::ListQuery;

use super::{Loop, Next};
use crate::{
    command::{Command, Figures, IngestError, Joined, Listed, PageAfter},
    subscription::Subscriber,
};

/// How many sessions at work a reader begins with at most. Whoever has more has a list to look into.
const MOST_LIVE: usize = 1_000;

impl Loop {
    /// Does what a command says.
    pub(super) fn obey(&mut self, command: Command) -> Next {
        match command {
            Command::Ingest(_, reply) if self.has_ended => reply(Err(IngestError::Ended)),
            Command::Ingest(ingest, reply) => self.waiting.push(*ingest, reply),
            Command::Subscribe(mut subscriber) => {
                let tree = |session: &SessionId| self.tree(session);
                for snapshot in self.current() {
                    subscriber.send(Update::Snapshot(Box::new(snapshot)), &tree);
                }
                if self.is_announced {
                    subscriber.send(Update::CaughtUp, &tree);
                }
                self.add(subscriber);
            }
            Command::Join(subscriber, after, reply) => {
                reply(self.join(after));
                self.add(subscriber);
            }
            Command::Tree(session, reply) => reply(self.tree(&session)),
            Command::Sessions(after, limit, reply) => reply(self.sessions(after.as_ref(), limit)),
            Command::Agents(session, agent, reply) => reply(self.agents(session.as_ref(), &agent)),
            Command::EventsAfter(seq, session, limit, reply) => {
                reply(self.events_after(seq, session.as_ref(), limit));
            }
            Command::Figures(reply) => reply(self.figures()),
            Command::Expect => {
                if !self.is_woken {
                    self.is_woken = self.driver.wake_with(self.waker.clone());
                }
            }
            Command::Wake => self.waker.has_woken(),
            Command::Stop => return Next::Stop,
        }
        Next::GoOn
    }

    fn add(&mut self, subscriber: Subscriber) {
        if !self.has_ended {
            self.subscribers.push(subscriber);
        }
    }

    /// A session's rows as last committed. What cannot be read is as good as not there to whoever asks.
    fn tree(&self, session: &SessionId) -> Option<Tree> {
        self.keeper.tree(session).ok().flatten()
    }

    /// The sessions that live readers are shown: those that changed since this hub began, and those that are at work. The
    /// oldest first, so that the newest is what comes last.
    fn current(&self) -> Vec<Tree> {
        let query = ListQuery { limit: MOST_LIVE, after: None, only_live: true };
        let live = self.keeper.list(&query).unwrap_or_default();
        let mut ids: BTreeSet<SessionId> = live.into_iter().map(|row| row.id).collect();
        ids.extend(self.published.keys().cloned());
        let mut trees: Vec<Tree> = ids.iter().filter_map(|id| self.tree(id)).collect();
        trees.sort_by_key(|tree| (tree.session.ended_at_ms, tree.session.id.clone()));
        trees
    }

    /// What a reader begins with. It is added in the same turn: no gap and no repeat.
    fn join(&self, after: Option<u64>) -> Joined {
        let seq = self.figures.seq;
        let Some(place) = after else {
            return Joined { snapshots: self.current(), seq, ..Joined::default() };
        };
        // A place that was never given is of another log.
        let events = if place > seq { None } else { self.keeper.events_after(place).ok().flatten() };
        match events {
            Some(events) => {
                let since = self.moved.iter().filter(|(_, moved)| **moved >= place);
                let snapshots: Vec<Tree> = since.filter_map(|(id, _)| self.tree(id)).collect();
                Joined { is_reset: false, snapshots, events, seq }
            }
            None => Joined { is_reset: true, snapshots: self.current(), events: Vec::new(), seq },
        }
    }

    fn sessions(&self, after: Option<&PageAfter>, limit: usize) -> Vec<Listed> {
        let is_behind = |session: &Session| match after {
            None => true,
            // The newest first; of two of one time the smaller id.
            Some(after) => (after.last_event_at_ms, &session.id) > (session.ended_at_ms, &after.id),
        };
        let page = self.keeper.sessions().unwrap_or_default().into_iter().filter(is_behind).take(limit);
        page.filter_map(|session| {
            let tree = self.tree(&session.id)?;
            let root = tree.agents.first().filter(|row| row.id.is_root()).map(|row| row.status);
            Some(Listed { session, summary: tree.summary, root })
        })
        .collect()
    }

    fn agents(&self, session: Option<&SessionId>, agent: &AgentId) -> Vec<(Session, Agent)> {
        let of = self
            .published
            .iter()
            .filter(|(id, rows)| session.is_none_or(|session| session == *id) && rows.contains_key(agent));
        of.filter_map(|(id, _)| {
            let Tree { session, agents, .. } = self.tree(id)?;
            agents.into_iter().find(|row| row.id == *agent).map(|row| (session, row))
        })
        .collect()
    }

    fn events_after(&self, seq: u64, session: Option<&SessionId>, limit: usize) -> Option<Vec<Event>> {
        if seq > self.figures.seq {
            return None;
        }
        let events = self.keeper.events_after(seq).ok().flatten()?.into_iter();
        let own = events.filter(|event| session.is_none_or(|session| event.session_id == *session));
        Some(own.take(limit).collect())
    }

    fn figures(&self) -> Figures {
        let rows = self.published.values().flat_map(|rows| rows.values());
        Figures {
            sessions: self.published.len() as u64,
            running: rows.filter(|row| !row.id.is_root() && row.status.is_live()).count() as u64,
            subscribers: self.subscribers.len() as u64,
            ..self.figures
        }
    }
}
