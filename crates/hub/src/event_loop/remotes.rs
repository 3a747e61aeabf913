//! Rows of other machines (`[[remote]]`): stored and published as they come. A machine that is no longer heard has nothing
//! at work until it is heard again.
//!
//! These sessions are never loaded: no file and no input of this machine is about them.

use std::collections::HashMap;

use subscope_model::{AgentId, Change, Millis, SessionId, SessionRow, Text, Tree, Update};
use subscope_store::{Commit, ListQuery, RemotePosition, StoreError, StoreResult};

use super::EventLoop;
use crate::{
    command::{IngestError, ReplyCallback},
    index::RemoteTexts,
    stop::{StopError, StopReceipt},
};

/// Most sessions that are marked together when a machine is no longer heard.
const MAX_LIVE: usize = 1_000;

/// What came of another machine.
#[derive(Clone, Debug, Default)]
pub struct RemoteBatch {
    /// Rows under the ids that they have here ([`subscope_model::remote_tree`]); they replace earlier ones whole.
    pub trees: Vec<Tree>,
    /// Sessions that are gone there.
    pub removed: Vec<SessionId>,
    /// How far everything is read with this batch.
    pub position: Option<RemotePosition>,
}

/// An order to stop an agent of another machine.
pub struct RemoteOrder {
    /// The session, as it is named there.
    pub session: SessionId,
    /// The agent.
    pub agent: AgentId,
    /// Takes the answer.
    pub reply: ReplyCallback<Result<StopReceipt, StopError>>,
}

/// Passes an order on to a machine without blocking; returns it if that is not possible.
pub type RemoteOrders = Box<dyn FnMut(RemoteOrder) -> Result<(), RemoteOrder> + Send>;

/// The machines that are connected.
pub(super) type ConnectedMachines = HashMap<Text, RemoteOrders>;

impl EventLoop {
    /// Adds a machine that is heard. Returns how far its rows are read.
    pub(super) fn join_remote(
        &mut self,
        machine: Text,
        orders: RemoteOrders,
    ) -> Result<Option<RemotePosition>, IngestError> {
        let position = self.store.remote_position(&machine).map_err(|error| IngestError::from(&error))?;
        self.queue.machines.insert(machine, orders);
        Ok(position)
    }

    /// Saves rows of another machine, and publishes what has changed.
    pub(super) fn put_remote(&mut self, batch: RemoteBatch) -> Result<(), IngestError> {
        self.retry_failed_commit()?;
        let failed = |error: StoreError| IngestError::from(&error);
        let RemoteBatch { trees, removed, position } = batch;
        let rev = self.store.next_rev();
        let (mut changed, mut updates) = (Vec::new(), Vec::new());
        for mut tree in trees {
            if self.store.is_forgotten(&tree.session.id).map_err(failed)? {
                continue;
            }
            let Some(known) = self.known_remote(&tree.session.id).map_err(failed)? else {
                tree.stamp(rev);
                updates.push(Update::snapshot(tree.clone()));
                changed.push(tree);
                continue;
            };
            tree.stamp_news(&known, rev);
            let gone: Vec<AgentId> = {
                let is_left = |row: &AgentId| tree.agents.iter().any(|left| left.id == *row);
                known.agents.iter().map(|row| &row.id).filter(|id| !is_left(id)).cloned().collect()
            };
            if tree.rev() < rev && gone.is_empty() && tree.problems == known.problems {
                continue;
            }
            let is_new = |row: &subscope_model::Agent| row.rev == Some(rev);
            updates.push(Update::change(Change::of(&tree, is_new, gone)));
            changed.push(tree);
        }
        for session in &removed {
            let Some(known) = self.known_remote(session).map_err(failed)? else { continue };
            let gone = known.agents.iter().map(|row| row.id.clone()).collect();
            updates.push(Update::change(Change::of(&known, |_| false, gone)));
        }
        if changed.is_empty() && removed.is_empty() && position.is_none() {
            return Ok(());
        }
        let commit = Commit {
            removed,
            remote: position,
            at_ms: self.time.now_ms(),
            trees: changed,
            ..Commit::default()
        };
        self.remove_remote_texts(&commit.removed);
        // It comes again: nothing of a failed commit is kept here.
        self.store.commit(&commit).map_err(|error| {
            self.figures.failed_commits += 1;
            IngestError::from(&error)
        })?;
        self.figures.commits += 1;
        let seq = self.figures.seq;
        for tree in &commit.trees {
            self.sessions.record_change(&tree.session.id, seq);
        }
        for update in updates {
            let update = match update {
                Update::Change(change) => Update::change(Change { seq, ..change.into_inner() }),
                other @ (Update::Snapshot(_)
                | Update::Event(_)
                | Update::Missed(_)
                | Update::Reset
                | Update::CaughtUp) => other,
            };
            self.publish(&update);
        }
        Ok(())
    }

    /// Removes the texts of sessions; the next index run removes them from the index, too.
    fn remove_remote_texts(&self, sessions: &[SessionId]) {
        let Some(texts) = self.options.texts.as_ref().filter(|_| !sessions.is_empty()) else { return };
        if let Err(error) = RemoteTexts::of(&texts.folder).remove(sessions) {
            tracing::warn!("texts of sessions that another machine has forgotten are not removed: {error}");
        }
    }

    /// Returns the stored rows of a session; none if they are damaged, so that they are replaced.
    fn known_remote(&self, session: &SessionId) -> StoreResult<Option<Tree>> {
        match self.store.tree(session) {
            Err(StoreError::DamagedRow(_)) => Ok(None),
            known => known,
        }
    }

    /// Marks what is at work on a machine, or on all others, as no longer heard: since a time, or since its last change.
    pub(super) fn lose_remote(
        &mut self,
        machine: Option<&str>,
        last_heard_ms: Option<Millis>,
    ) -> Result<(), IngestError> {
        match machine {
            Some(machine) => drop(self.queue.machines.remove(machine)),
            None => self.queue.machines.clear(),
        }
        let words = machine.map_or_else(String::new, |name| format!("{}{name}", SessionRow::MACHINE));
        let query = ListQuery { words, ..ListQuery::live(MAX_LIVE) };
        let failed = |error: StoreError| IngestError::from(&error);
        loop {
            let rows = self.store.list(&query).map_err(failed)?;
            let found = rows.len();
            let mut trees = Vec::new();
            for row in rows.into_iter().filter(|row| row.machine.is_some()) {
                let heard = last_heard_ms.or(row.kept_at_ms).or(row.last_event_at_ms).unwrap_or(0);
                trees.extend(self.known_remote(&row.id).map_err(failed)?.map(|tree| tree.unheard(heard)));
            }
            let is_done = trees.is_empty() || found < MAX_LIVE;
            self.put_remote(RemoteBatch { trees, ..RemoteBatch::default() })?;
            if is_done {
                return Ok(());
            }
        }
    }

    /// Passes an order to stop an agent on to its machine.
    pub(super) fn stop_remote(
        &mut self,
        machine: &str,
        session: &SessionId,
        agent: AgentId,
        reply: ReplyCallback<Result<StopReceipt, StopError>>,
    ) {
        let Some(there) = session.on_machine(machine) else { return reply(Err(StopError::Unknown)) };
        let order = RemoteOrder { session: SessionId::from(there), agent, reply };
        let unsent = match self.queue.machines.get_mut(machine) {
            Some(orders) => orders(order),
            None => Err(order),
        };
        if let Err(order) = unsent {
            let why = format!("{machine} is not connected: `subscope remote test {machine}` says why");
            (order.reply)(Err(StopError::Remote(why)));
        }
    }
}
