//! Command dispatch, and queries answered from the row cache and the store.

use std::collections::BTreeSet;

use subscope_model::{
    Agent, AgentId, AgentName, Event, HITS_SCHEMA, Hits, IdMatches, NAMES_SCHEMA, SearchQuery, Session,
    SessionId, Tree, Update,
};
use subscope_store::{Access, ListQuery, OpenError, TextIndex};

use super::{EventLoop, LoopControl};
use crate::{
    command::{Command, Figures, IngestError, SubscriptionStart},
    search::search,
    stop::StopError,
    subscription::Subscriber,
};

/// Most live sessions in the snapshots for a new subscriber. With more, the session list has to be queried.
const MAX_LIVE_SESSIONS: usize = 1_000;

/// Most events replayed to a subscriber that reconnects. One that missed more gets snapshots instead.
const MAX_REPLAYED_EVENTS: usize = 50_000;

/// Most agents looked at for an id or id prefix. Ids are random; a copied session has the same ones.
pub(super) const MAX_AGENTS_PER_ID: usize = 100;

impl EventLoop {
    /// Handles a command. Queries see all input acknowledged before them.
    pub(super) fn handle_command(&mut self, command: Command) -> LoopControl {
        let needs_all = match command {
            Command::Ingest(..) | Command::CommitIndexBatch(..) | Command::Wake | Command::Stop => false,
            // Input acknowledged by this process needs no derivation for it, and it is queried between many posts.
            Command::SessionsOfAgent(..) => self.startup.has_underived_replay,
            Command::Subscribe(_)
            | Command::Join(..)
            | Command::Tree(..)
            | Command::Sessions(..)
            | Command::Agents(..)
            | Command::Names(..)
            | Command::EventsAfter(..)
            | Command::Stats(..)
            | Command::StopAgent(..)
            | Command::Search(..)
            | Command::Figures(_)
            | Command::EnableWaking
            | Command::SetIndexing(_) => true,
        };
        if matches!(command, Command::SessionsOfAgent(..)) {
            // The routing that follows from this answer cannot be corrected later.
            while self.startup.is_replaying() && !self.has_failed_commit() {
                self.replay_portion();
            }
        }
        if self.pending.has_underived && needs_all {
            self.derive_dirty(false);
        }
        match command {
            Command::Ingest(_, reply) if self.startup.has_ended => reply(Err(IngestError::Ended)),
            Command::Ingest(ingest, reply) => self.pending.push(*ingest, reply),
            Command::CommitIndexBatch(_, reply) if self.startup.has_ended => reply(Err(IngestError::Ended)),
            Command::CommitIndexBatch(commit, reply) => {
                self.pending.index_commits.push_back((*commit, reply))
            }
            Command::Subscribe(mut subscriber) => {
                // Updates published from here on are newer than the snapshots.
                self.broadcast_rows(true);
                let tree = |session: &SessionId| self.tree(session);
                for snapshot in self.snapshots() {
                    subscriber.send(Update::snapshot(snapshot), &tree);
                }
                if self.startup.is_done {
                    subscriber.send(Update::CaughtUp, &tree);
                }
                self.add_subscriber(subscriber);
            }
            Command::Join(subscriber, after, reply) => {
                self.broadcast_rows(true);
                reply(self.join(after));
                self.add_subscriber(subscriber);
            }
            Command::Tree(session, reply) => reply(self.tree(&session)),
            Command::Sessions(query, reply) => reply(self.list(&query)),
            Command::Agents(session, agent, reply) => reply(self.agents(session.as_ref(), &agent)),
            Command::SessionsOfAgent(agent, reply) => reply(self.sessions_of_agent(&agent)),
            Command::Names(prefix, limit, reply) => reply(self.names(&prefix, limit)),
            Command::EventsAfter(seq, session, limit, reply) => {
                reply(self.events_after(seq, session.as_ref(), limit));
            }
            Command::Stats(query, reply) => {
                // Statistics are computed from saved rows. If these cannot be saved, the sums are those of the last
                // save.
                let _ = self.save_rows();
                reply(self.store.read("the figures", self.store.stats(&query)));
            }
            Command::StopAgent(.., reply) if self.startup.has_ended => {
                reply(Err(StopError::Store(IngestError::Ended.to_string())));
            }
            Command::StopAgent(session, agent, reply) => self.stop(session.as_deref(), &agent, reply),
            Command::Search(query, reply) => reply(self.search(&query)),
            Command::Figures(reply) => reply(self.figures()),
            Command::EnableWaking => {
                if !self.queue.is_woken {
                    self.queue.is_woken = self.driver.wake_with(self.queue.waker.clone());
                }
            }
            Command::SetIndexing(is_indexing) => self.startup.is_indexing = is_indexing,
            Command::Wake => self.queue.waker.has_woken(),
            Command::Stop => return LoopControl::Stop,
        }
        LoopControl::Continue
    }

    fn add_subscriber(&mut self, subscriber: Subscriber) {
        if !self.startup.has_ended {
            self.subscribers.push(subscriber);
        }
    }

    /// Sessions in memory, and recently evicted ones.
    fn sessions_in_snapshots(&self) -> impl Iterator<Item = &SessionId> {
        let held = self.sessions.with_rows().map(|(session, _)| session);
        held.chain(self.sessions.recently_evicted())
    }

    /// Snapshots for a new subscriber: loaded, recently evicted and live sessions, oldest first.
    fn snapshots(&self) -> Vec<Tree> {
        let query = ListQuery::live(MAX_LIVE_SESSIONS);
        let mut ids: BTreeSet<SessionId> = self.list(&query).into_iter().map(|row| row.id).collect();
        ids.extend(self.sessions_in_snapshots().cloned());
        let mut trees: Vec<Tree> = ids.iter().filter_map(|id| self.tree(id)).collect();
        trees.sort_by_key(|tree| (tree.session.ended_at_ms, tree.session.id.clone()));
        trees
    }

    /// Initial data of a subscriber. It is added in the same turn: no gap and no duplicate.
    fn join(&self, after: Option<u64>) -> SubscriptionStart {
        let seq = self.figures.seq;
        let Some(seq_after) = after else {
            let is_caught_up = self.startup.is_done;
            return SubscriptionStart {
                snapshots: self.snapshots(),
                seq,
                is_caught_up,
                ..SubscriptionStart::default()
            };
        };
        // A sequence number that was never assigned belongs to another change log.
        let events = self.events_after(seq_after, None, MAX_REPLAYED_EVENTS + 1);
        let events = events.filter(|events| events.len() <= MAX_REPLAYED_EVENTS);
        match events {
            Some(events) => {
                let changed = self.sessions.changed_since(seq_after);
                let snapshots: Vec<Tree> = changed.filter_map(|session| self.tree(session)).collect();
                SubscriptionStart {
                    is_reset: false,
                    snapshots,
                    events,
                    seq,
                    is_caught_up: self.startup.is_done,
                }
            }
            None => SubscriptionStart {
                is_reset: true,
                snapshots: self.snapshots(),
                events: Vec::new(),
                seq,
                is_caught_up: self.startup.is_done,
            },
        }
    }

    fn agents(&self, session: Option<&SessionId>, agent: &AgentId) -> Vec<(Session, Agent)> {
        let sessions = match session {
            Some(session) => vec![session.clone()],
            // Every session has a root agent: a few of them show that a session has to be named.
            None if agent.is_root() => {
                let query = ListQuery::first(MAX_AGENTS_PER_ID);
                self.list(&query).into_iter().map(|row| row.id).collect()
            }
            None => self.sessions_of_agent(agent),
        };
        let found = sessions.iter().filter_map(|session| {
            let Tree { session, agents, .. } = self.tree(session)?;
            agents.into_iter().find(|row| row.id == *agent).map(|row| (session, row))
        });
        found.collect()
    }

    /// Returns the sessions that have an agent of an id.
    fn sessions_of_agent(&self, agent: &AgentId) -> Vec<SessionId> {
        let candidates = self.agents_with_prefix(agent.as_str(), MAX_AGENTS_PER_ID);
        candidates.into_iter().filter(|(_, id)| id == agent).map(|(session, _)| session).collect()
    }

    fn names(&self, prefix: &str, limit: usize) -> IdMatches {
        let agents = self.agents_with_prefix(prefix, limit).into_iter();
        IdMatches {
            schema: NAMES_SCHEMA.into(),
            sessions: self.sessions_with_prefix(prefix, limit),
            agents: agents.map(|(session_id, agent_id)| AgentName { session_id, agent_id }).collect(),
        }
    }

    fn events_after(&self, seq: u64, session: Option<&SessionId>, limit: usize) -> Option<Vec<Event>> {
        if seq > self.figures.seq {
            return None;
        }
        self.store.read("the change log", self.store.events_after(seq, session, limit)).flatten()
    }

    /// Searches the full-text index, if there is one. It is opened for each query: another process writes it and may
    /// rebuild it.
    fn search(&self, query: &SearchQuery) -> Option<Hits> {
        let at = self.options.texts.as_ref()?;
        let texts = match TextIndex::open(&at.folder, Access::Read) {
            Ok(texts) => texts,
            // It is being built: no hits yet.
            Err(OpenError::Missing(_)) => {
                return Some(Hits { schema: HITS_SCHEMA.into(), ..Hits::default() });
            }
            Err(_) => return None,
        };
        let hits = search(&*self.store, &texts, &at.archive, query);
        self.store.read("the full text", hits)
    }

    fn figures(&self) -> Figures {
        let running = self.sessions.with_rows().map(|(_, tree)| u64::from(tree.summary.running));
        Figures {
            sessions: self.sessions_in_snapshots().count() as u64,
            held: self.sessions.with_rows().count() as u64,
            running: running.sum(),
            is_reading: self.startup.is_indexing || !self.startup.is_done || self.startup.is_replaying(),
            subscribers: self.subscribers.len() as u64,
            failed_reads: self.store.failed_reads(),
            ..self.figures
        }
    }
}
