//! Command dispatch. Questions about rows, events and texts are answered by the reader threads
//! ([`crate::read_pool`]); here, what was acknowledged before them is derived first.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use subscope_model::{SessionId, Tree, Update};
use subscope_store::ListQuery;

use super::{EventLoop, LoopControl, session_slot::Task};
use crate::{
    command::{Command, Figures, IngestError, ReplyCallback, SubscriptionStart},
    read_pool::Question,
    read_view::{ReadView, RowOverlay},
    stop::StopError,
    subscription::Subscriber,
};

/// Most live sessions in the snapshots for a new subscriber. With more, the session list has to be queried.
const MAX_LIVE_SESSIONS: usize = 1_000;

/// Most events replayed to a subscriber that reconnects. One that missed more gets snapshots instead.
const MAX_REPLAYED_EVENTS: usize = 50_000;

/// Time per turn for deriving what questions wait for: input that comes meanwhile is acknowledged between two turns.
const DERIVE_SLICE: Duration = Duration::from_millis(4);

/// A command that waits for the derivation of what was acknowledged before it (read-your-writes).
pub(super) struct WaitingCommand {
    command: Command,
    /// Sessions that are not derived yet.
    dirty: VecDeque<SessionId>,
}

/// Most problems of input without a session that are returned.
const MAX_SHOWN_PROBLEMS: usize = 20;

impl EventLoop {
    /// Handles a command, or has it wait. Questions see all input acknowledged before them, of the session that they are
    /// about.
    pub(super) fn handle_command(&mut self, command: Command) -> LoopControl {
        match command {
            Command::Ingest(_, reply) if self.startup.has_ended => reply(Err(IngestError::Ended)),
            Command::Ingest(ingest, reply) => self.pending.push(*ingest, reply),
            Command::CommitIndexBatch(_, reply) if self.startup.has_ended => reply(Err(IngestError::Ended)),
            Command::CommitIndexBatch(commit, reply) => {
                self.pending.index_commits.push_back((*commit, reply))
            }
            Command::SessionsOfAgent(agent, reply) => {
                // The routing that follows from this answer cannot be corrected later.
                while self.startup.is_replaying() && !self.store.has_failed_commit() {
                    self.replay_portion();
                }
                // Input acknowledged by this process needs no derivation for it, and it is queried between many posts.
                if self.pending.has_underived && self.startup.has_underived_replay {
                    self.derive_dirty(false);
                }
                let overlay = self.overlay();
                reply(self.view(&overlay).sessions_of_agent(&agent));
            }
            Command::EnableWaking => {
                if !self.queue.is_woken {
                    self.queue.is_woken = self.driver.wake_with(self.queue.waker.clone());
                }
            }
            Command::Dismiss(session, facts, reply) => {
                let at_ms = self.time.now_ms();
                reply(self.store.dismiss(&session, &facts, at_ms).map_err(|error| (&error).into()));
            }
            Command::MarkSeen(until_ms, reply) => {
                let until_ms = until_ms.min(self.time.now_ms());
                reply(self.store.mark_seen(until_ms).map_err(|error| (&error).into()));
            }
            Command::JoinRemote(machine, orders, reply) => reply(self.join_remote(machine, orders)),
            Command::PutRemote(batch, reply) => reply(self.put_remote(*batch)),
            Command::LoseRemote(machine, heard_ms, reply) => {
                reply(self.lose_remote(Some(&machine), Some(heard_ms)));
            }
            Command::SetIndexing(progress) => self.startup.indexing = progress,
            Command::Wake => self.queue.waker.has_woken(),
            Command::Stop => return LoopControl::Stop,
            Command::Subscribe(_)
            | Command::Join(..)
            | Command::Ask(_)
            | Command::StopAgent(..)
            | Command::Figures(_) => {
                let dirty = self.dirty_for(&command);
                self.queue.waiting.push_back(WaitingCommand { command, dirty });
            }
        }
        LoopControl::Continue
    }

    /// Returns the sessions that a command waits for: all that are not derived, or the one that it is about.
    fn dirty_for(&self, command: &Command) -> VecDeque<SessionId> {
        if !self.pending.has_underived {
            return VecDeque::new();
        }
        if let Command::Ask(Question { session: Some(session), .. }) = command {
            return self.sessions.is_dirty(session).then(|| session.clone()).into_iter().collect();
        }
        self.sessions.scheduled(Task::Derive).map(|(_, session)| session.clone()).collect()
    }

    /// Answers the commands that wait for nothing any more. Derives what the others wait for, for [`DERIVE_SLICE`].
    pub(super) fn answer_waiting(&mut self) {
        let began = self.time.tick();
        while let Some(WaitingCommand { command, mut dirty }) = self.queue.waiting.pop_front() {
            // While a commit has failed, what is known is answered.
            while !self.store.has_failed_commit()
                && let Some(session) = dirty.pop_front()
            {
                if self.sessions.is_dirty(&session) {
                    self.derive_ready(vec![session], false);
                }
                if self.time.tick().duration_since(began) >= DERIVE_SLICE && !dirty.is_empty() {
                    return self.queue.waiting.push_front(WaitingCommand { command, dirty });
                }
            }
            self.answer(command);
        }
    }

    /// Answers a command that sees derived rows.
    fn answer(&mut self, command: Command) {
        match command {
            Command::Ask(Question { session, answer }) => {
                let mut overlay = self.overlay();
                overlay.held.extend(session.and_then(|session| self.sessions.tree(&session).cloned()));
                self.store.readers.ask(overlay, answer);
            }
            Command::Subscribe(mut subscriber) => {
                // Updates published from here on are newer than the snapshots.
                self.broadcast_rows(true);
                let tree = |session: &SessionId| self.tree(session);
                let overlay = self.overlay();
                for snapshot in self.wanted_snapshots().load(&self.view(&overlay)) {
                    subscriber.send(Update::snapshot(snapshot), &tree);
                }
                if self.startup.is_done {
                    subscriber.send(Update::CaughtUp, &tree);
                }
                self.add_subscriber(subscriber);
            }
            Command::Join(subscriber, after, reply) => {
                self.broadcast_rows(true);
                self.join(after, reply);
                self.add_subscriber(subscriber);
            }
            Command::StopAgent(.., reply) if self.startup.has_ended => {
                reply(Err(StopError::Store(IngestError::Ended.to_string())));
            }
            Command::StopAgent(session, agent, reply) => self.stop(session.as_deref(), &agent, reply),
            Command::Figures(reply) => reply(self.figures()),
            Command::Ingest(..)
            | Command::CommitIndexBatch(..)
            | Command::SessionsOfAgent(..)
            | Command::Dismiss(..)
            | Command::MarkSeen(..)
            | Command::JoinRemote(..)
            | Command::PutRemote(..)
            | Command::LoseRemote(..)
            | Command::EnableWaking
            | Command::SetIndexing(_)
            | Command::Wake
            | Command::Stop => {}
        }
    }

    /// What a reader thread sees, for what the event loop asks itself.
    pub(super) fn view<'a>(&'a self, overlay: &'a RowOverlay) -> ReadView<'a> {
        ReadView {
            store: Some(&*self.store),
            overlay,
            texts: self.options.texts.as_ref(),
            failures: &self.store.failures,
        }
    }

    fn add_subscriber(&mut self, subscriber: Subscriber) {
        if !self.startup.has_ended {
            self.subscribers.push(subscriber);
        }
    }

    /// What the snapshots for a new subscriber are made of: loaded, recently evicted and live sessions.
    fn wanted_snapshots(&self) -> WantedSnapshots {
        WantedSnapshots {
            held: self.sessions.with_rows().map(|(_, tree)| Arc::clone(tree)).collect(),
            stored: self.sessions.recently_evicted().cloned().collect(),
            lists_live: true,
            before_rev: self.store.next_unused_rev(),
        }
    }

    /// Collects the initial data of a subscriber, which a reader thread completes. The subscriber is added in the same
    /// turn: no gap and no duplicate.
    fn join(&mut self, after: Option<u64>, reply: ReplyCallback<SubscriptionStart>) {
        let all = self.wanted_snapshots();
        let changed = after.map(|after| {
            let (held, stored): (Vec<&SessionId>, Vec<&SessionId>) =
                self.sessions.changed_since(after).partition(|id| self.sessions.has_rows(id));
            let held = held.into_iter().filter_map(|id| self.sessions.tree(id).cloned()).collect();
            let stored = stored.into_iter().cloned().collect();
            (after, WantedSnapshots { held, stored, lists_live: false, before_rev: all.before_rev })
        });
        let is_caught_up = self.startup.is_done;
        let answer = move |view: &ReadView<'_>| {
            let seq = view.overlay.seq;
            let start = SubscriptionStart { seq, is_caught_up, ..SubscriptionStart::default() };
            let Some((after, changed)) = changed else {
                return reply(SubscriptionStart { snapshots: all.load(view), ..start });
            };
            let events = view.events_after(after, None, MAX_REPLAYED_EVENTS + 1);
            reply(match events.filter(|events| events.len() <= MAX_REPLAYED_EVENTS) {
                Some(events) => SubscriptionStart { snapshots: changed.load(view), events, ..start },
                None => SubscriptionStart { is_reset: true, snapshots: all.load(view), ..start },
            });
        };
        let overlay = self.overlay();
        self.store.readers.ask(overlay, Box::new(answer));
    }

    fn figures(&self) -> Figures {
        let running = self.sessions.with_rows().map(|(_, tree)| u64::from(tree.summary.running));
        let held = self.sessions.with_rows().count() as u64;
        let mut unowned_problems = self.router.unassigned_problems();
        unowned_problems.drain(..unowned_problems.len().saturating_sub(MAX_SHOWN_PROBLEMS));
        Figures {
            sessions: held + self.sessions.recent_count() as u64,
            held,
            running: running.sum(),
            reading: self.startup.indexing.or_else(|| self.startup.is_underway().then(Default::default)),
            subscribers: self.subscribers.len() as u64,
            failed_reads: self.store.failures.count(),
            unowned_problems,
            ..self.figures.clone()
        }
    }
}

/// Snapshots for a new subscriber: those of all sessions in memory at the moment at which it joined, and stored ones.
struct WantedSnapshots {
    held: Vec<Arc<Tree>>,
    /// Sessions to read from the store.
    stored: Vec<SessionId>,
    /// Whether stored sessions that are at work are wanted, too.
    lists_live: bool,
    /// Rows from this revision on are newer: they were published to the subscriber. `None` if the hub has published none.
    before_rev: Option<u64>,
}

impl WantedSnapshots {
    /// Returns the snapshots, oldest first.
    fn load(&self, view: &ReadView<'_>) -> Vec<Tree> {
        let held = &self.held;
        let mut stored = self.stored.clone();
        if self.lists_live {
            stored.extend(view.list(&ListQuery::live(MAX_LIVE_SESSIONS)).into_iter().map(|row| row.id));
        }
        let is_held: BTreeSet<&SessionId> = held.iter().map(|tree| &tree.session.id).collect();
        let stored = stored.iter().filter(|id| !is_held.contains(id)).filter_map(|id| view.stored_tree(id));
        let is_old = |tree: &Tree| {
            let revs = tree.agents.iter().map(|row| row.rev).chain([tree.session.rev]);
            self.before_rev.is_none_or(|before| revs.flatten().all(|rev| rev < before))
        };
        let stored = stored.filter(is_old);
        let mut trees: Vec<Tree> = held.iter().map(|tree| Tree::clone(tree)).chain(stored).collect();
        trees.sort_by_key(|tree| (tree.session.ended_at_ms, tree.session.id.clone()));
        trees
    }
}
