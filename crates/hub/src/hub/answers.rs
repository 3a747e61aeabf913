//! Commands, and what the hub answers from what is kept.

use subscope_model::{Agent, AgentId, Event, Session, SessionId, Tree, Update};

use super::{Loop, Next};
use crate::{
    command::{Command, Figures, IngestError, Joined, Listed, PageAfter},
    subscription::Subscriber,
};

impl Loop {
    /// Does what a command says.
    pub(super) fn obey(&mut self, command: Command) -> Next {
        match command {
            Command::Ingest(_, reply) if self.has_ended => reply(Err(IngestError::Ended)),
            Command::Ingest(ingest, reply) => self.waiting.push(*ingest, reply),
            Command::Subscribe(mut subscriber) => {
                let keeper = &self.keeper;
                let tree = |session: &SessionId| keeper.tree(session);
                for session in keeper.sessions().iter().rev() {
                    if let Some(snapshot) = keeper.tree(&session.id) {
                        subscriber.send(Update::Snapshot(Box::new(snapshot)), &tree);
                    }
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
            Command::Tree(session, reply) => reply(self.keeper.tree(&session)),
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

    /// What a reader begins with. It is added in the same turn: no gap and no repeat.
    fn join(&self, after: Option<u64>) -> Joined {
        let seq = self.figures.seq;
        let all = || self.keeper.sessions().into_iter().rev().filter_map(|it| self.keeper.tree(&it.id));
        let Some(place) = after else {
            return Joined { snapshots: all().collect(), seq, ..Joined::default() };
        };
        // A place that was never given is of another log.
        let events = if place > seq { None } else { self.keeper.events_after(place) };
        match events {
            Some(events) => {
                let since = self.moved.iter().filter(|(_, moved)| **moved >= place);
                let snapshots: Vec<Tree> = since.filter_map(|(id, _)| self.keeper.tree(id)).collect();
                Joined { is_reset: false, snapshots, events, seq }
            }
            None => Joined { is_reset: true, snapshots: all().collect(), events: Vec::new(), seq },
        }
    }

    fn sessions(&self, after: Option<&PageAfter>, limit: usize) -> Vec<Listed> {
        let is_behind = |session: &Session| match after {
            None => true,
            // The newest first; of two of one time the smaller id.
            Some(after) => (after.last_event_at_ms, &session.id) > (session.ended_at_ms, &after.id),
        };
        let page = self.keeper.sessions().into_iter().filter(is_behind).take(limit);
        page.filter_map(|session| {
            let tree = self.keeper.tree(&session.id)?;
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
            let Tree { session, agents, .. } = self.keeper.tree(id)?;
            agents.into_iter().find(|row| row.id == *agent).map(|row| (session, row))
        })
        .collect()
    }

    fn events_after(&self, seq: u64, session: Option<&SessionId>, limit: usize) -> Option<Vec<Event>> {
        if seq > self.figures.seq {
            return None;
        }
        let events = self.keeper.events_after(seq)?.into_iter();
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
