//! Commands, and what the hub answers from what is kept.

use std::collections::BTreeSet;

use subscope_model::{
    Agent, AgentId, AgentName, Event, IdMatches, NAMES_SCHEMA, SearchHit, Session, SessionId, SessionRow,
    Tree, Update,
};
use subscope_store::{Access, ListQuery, OpenError, TextIndex};

use super::{EventLoop, Next};
use crate::{
    command::{Command, Figures, IngestError, Joined},
    search::search,
    stop::StopError,
    subscription::Subscriber,
};

/// How many sessions at work a reader begins with at most. Whoever has more has a list to look into.
const MAX_LIVE_SESSIONS: usize = 1_000;

/// How many events a reader that comes back is told at most. Whoever missed more is better off with the rows.
const MAX_REPLAYED_EVENTS: usize = 50_000;

/// How many agents of one id, or that begin with it, are looked at. Ids are random; a copied session has the same ones.
pub(super) const MAX_AGENTS_PER_ID: usize = 100;

impl EventLoop {
    /// Does what a command says. Whoever asks is answered with all that was acknowledged before.
    pub(super) fn handle_command(&mut self, command: Command) -> Next {
        let needs_all = match command {
            Command::Ingest(..) | Command::CommitIndexBatch(..) | Command::Wake | Command::Stop => false,
            // What this hub was told itself is none of its business, and it is asked in the midst of many posts.
            Command::SessionsOfAgent(..) => self.recall.is_unconcluded,
            _ => true,
        };
        if matches!(command, Command::SessionsOfAgent(..)) {
            // Where its answer goes cannot be mended later.
            while self.recall.is_under_way() && self.failed_commit.is_none() {
                self.recall_portion();
            }
        }
        if self.has_unprocessed_acked && needs_all {
            self.derive_dirty(false);
        }
        match command {
            Command::Ingest(_, reply) if self.has_ended => reply(Err(IngestError::Ended)),
            Command::Ingest(ingest, reply) => self.waiting.push(*ingest, reply),
            Command::CommitIndexBatch(_, reply) if self.has_ended => reply(Err(IngestError::Ended)),
            Command::CommitIndexBatch(commit, reply) => self.index_commits.push_back((*commit, reply)),
            Command::Subscribe(mut subscriber) => {
                // What is told from here on is newer than its snapshots.
                self.broadcast_rows(true);
                let tree = |session: &SessionId| self.tree(session);
                for snapshot in self.current() {
                    subscriber.send(Update::snapshot(snapshot), &tree);
                }
                if self.startup_done {
                    subscriber.send(Update::CaughtUp, &tree);
                }
                self.add(subscriber);
            }
            Command::Join(subscriber, after, reply) => {
                self.broadcast_rows(true);
                reply(self.join(after));
                self.add(subscriber);
            }
            Command::Tree(session, reply) => reply(self.tree(&session)),
            Command::Sessions(query, reply) => reply(self.list(&query)),
            Command::Agents(session, agent, reply) => reply(self.agents(session.as_ref(), &agent)),
            Command::SessionsOfAgent(agent, reply) => reply(self.sessions_of_agent(&agent)),
            Command::Names(prefix, limit, reply) => reply(self.names(&prefix, limit)),
            Command::EventsAfter(seq, session, limit, reply) => {
                reply(self.events_after(seq, session.as_ref(), limit));
            }
            Command::Stats(reply) => {
                // Sums are made of kept rows. Where they cannot be kept, those of before are told.
                let _ = self.save_rows();
                reply(self.store.read("the figures", self.store.stats()));
            }
            Command::StopAgent(.., reply) if self.has_ended => {
                reply(Err(StopError::Store(IngestError::Ended.to_string())));
            }
            Command::StopAgent(session, agent, reply) => self.stop(session.as_deref(), &agent, reply),
            Command::Search(terms, session, limit, reply) => reply(self.search(&terms, session, limit)),
            Command::Figures(reply) => reply(self.figures()),
            Command::Expect => {
                if !self.is_woken {
                    self.is_woken = self.driver.wake_with(self.waker.clone());
                }
            }
            Command::ReadsPast(reads_past) => self.reads_past = reads_past,
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

    /// A session's rows as last shown. What cannot be read is as good as not there to whoever asks.
    pub(super) fn tree(&self, session: &SessionId) -> Option<Tree> {
        self.rows.tree(session, &self.store)
    }

    fn list(&self, query: &ListQuery) -> Vec<SessionRow> {
        self.rows.list(query, &self.store)
    }

    /// The sessions that live readers are shown: those that changed of late, and those that are at work. The
    /// oldest first, so that the newest is what comes last.
    fn current(&self) -> Vec<Tree> {
        let query = ListQuery::live(MAX_LIVE_SESSIONS);
        let mut ids: BTreeSet<SessionId> = self.list(&query).into_iter().map(|row| row.id).collect();
        ids.extend(self.rows.sessions().chain(self.evictor.sessions()).cloned());
        let mut trees: Vec<Tree> = ids.iter().filter_map(|id| self.tree(id)).collect();
        trees.sort_by_key(|tree| (tree.session.ended_at_ms, tree.session.id.clone()));
        trees
    }

    /// What a reader begins with. It is added in the same turn: no gap and no repeat.
    fn join(&self, after: Option<u64>) -> Joined {
        let seq = self.figures.seq;
        let Some(place) = after else {
            let is_caught_up = self.startup_done;
            return Joined { snapshots: self.current(), seq, is_caught_up, ..Joined::default() };
        };
        // A place that was never given is of another log.
        let events = self.events_after(place, None, MAX_REPLAYED_EVENTS + 1);
        let events = events.filter(|events| events.len() <= MAX_REPLAYED_EVENTS);
        match events {
            Some(events) => {
                let since = self.moved.iter().filter(|(_, moved)| **moved >= place);
                let snapshots: Vec<Tree> = since.filter_map(|(id, _)| self.tree(id)).collect();
                Joined { is_reset: false, snapshots, events, seq, is_caught_up: self.startup_done }
            }
            None => Joined {
                is_reset: true,
                snapshots: self.current(),
                events: Vec::new(),
                seq,
                is_caught_up: self.startup_done,
            },
        }
    }

    fn agents(&self, session: Option<&SessionId>, agent: &AgentId) -> Vec<(Session, Agent)> {
        let sessions = match session {
            Some(session) => vec![session.clone()],
            // Every session has one: some show that it has to be named.
            None if agent.is_root() => {
                let query = ListQuery::first(MAX_AGENTS_PER_ID);
                self.list(&query).into_iter().map(|row| row.id).collect()
            }
            None => self.sessions_of_agent(agent),
        };
        let of = sessions.iter().filter_map(|session| {
            let Tree { session, agents, .. } = self.tree(session)?;
            agents.into_iter().find(|row| row.id == *agent).map(|row| (session, row))
        });
        of.collect()
    }

    /// Returns the sessions that have an agent of an id.
    fn sessions_of_agent(&self, agent: &AgentId) -> Vec<SessionId> {
        let begin = self.rows.agents(agent.as_str(), MAX_AGENTS_PER_ID, &self.store);
        begin.into_iter().filter(|(_, id)| id == agent).map(|(session, _)| session).collect()
    }

    fn names(&self, prefix: &str, limit: usize) -> IdMatches {
        let agents = self.rows.agents(prefix, limit, &self.store).into_iter();
        IdMatches {
            schema: NAMES_SCHEMA.into(),
            sessions: self.rows.named(prefix, limit, &self.store),
            agents: agents.map(|(session_id, agent_id)| AgentName { session_id, agent_id }).collect(),
        }
    }

    fn events_after(&self, seq: u64, session: Option<&SessionId>, limit: usize) -> Option<Vec<Event>> {
        if seq > self.figures.seq {
            return None;
        }
        self.store.read("the change log", self.store.events_after(seq, session, limit)).flatten()
    }

    /// Looks into the full text that lies beside the store, where there is one. It is opened anew for each question: it is
    /// written by somebody else, and may be made anew meanwhile.
    fn search(&self, terms: &[String], session: Option<SessionId>, limit: usize) -> Option<Vec<SearchHit>> {
        let at = self.options.texts.as_ref()?;
        let texts = match TextIndex::open(&at.folder, Access::Read) {
            Ok(texts) => texts,
            // It is being made: nothing is found yet.
            Err(OpenError::Missing(_)) => return Some(Vec::new()),
            Err(_) => return None,
        };
        let hits = search(&*self.store, &texts, &at.archive, terms, session, limit);
        self.store.read("the full text", hits)
    }

    fn figures(&self) -> Figures {
        Figures {
            sessions: (self.rows.sessions().chain(self.evictor.sessions())).count() as u64,
            held: self.rows.sessions().count() as u64,
            running: self.rows.running(),
            is_reading: self.reads_past || !self.startup_done || self.recall.is_under_way(),
            subscribers: self.subscribers.len() as u64,
            failed_reads: self.store.failed_reads(),
            ..self.figures
        }
    }
}
