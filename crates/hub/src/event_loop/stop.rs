//! Orders to stop a subagent, from the request to the answer that delivers it: to a hook, or to a published event.
//!
//! An order and its delivery are facts of the session, saved with the input of hooks; whether an order is pending is
//! derived with the rows ([`Agent::is_to_stop`]). So a reset, a rebuild, or an agent that ends otherwise needs no extra
//! code here. Hook input is inspected before it is answered only for sessions with a pending order.

use subscope_harness::harnesses;
use subscope_model::{Agent, AgentId, AgentStatus, Event, Problem, SessionId, StopOrder, StopStep};
use subscope_session::Dialect;

use super::{
    EventLoop,
    ingest::{IngestBatch, IngestReply},
};
use crate::{
    command::{Asks, Ingest},
    read_view::MAX_AGENTS_PER_ID,
    stop::{StopError, StopReceipt, asked_key, order_ingest, stop_channel},
};

impl EventLoop {
    /// Orders an agent to stop. Returns the ingest of the order; `None` if it was ordered before. `session` and `agent`
    /// may be id prefixes.
    ///
    /// # Errors
    /// If no running agent, or more than one, matches, or no hook of its session can deliver the order.
    pub(super) fn create_stop_order(
        &self,
        session: Option<&str>,
        agent: &str,
    ) -> Result<(Option<Ingest>, StopReceipt), StopError> {
        if agent == AgentId::ROOT {
            return Err(StopError::Root);
        }
        let (session, agent) = self.find_agent(session, agent)?;
        let tree = self.tree(&session);
        let name = tree.as_ref().and_then(|tree| tree.session.harness.clone());
        let row = tree.into_iter().flat_map(|tree| tree.agents).find(|row| row.id == agent);
        let row = row.ok_or(StopError::Unknown)?;
        if !row.status.is_live() {
            return Err(StopError::Ended(row.status));
        }
        let is_heard = self.router.is_heard(&session, &agent);
        let harness = harnesses().find(|harness| name.as_deref() == Some(harness.name()));
        if let Some(why) = harness.and_then(|harness| harness.why_unstoppable()).filter(|_| !is_heard) {
            return Err(StopError::Harness(why));
        }
        let (told_by, is_reached) = stop_channel(is_heard, self.router.hooked(&session))?;
        let is_repeat = row.is_to_stop();
        let at_ms = self.time.now_ms();
        let order = (!is_repeat).then(|| {
            let order = StopOrder {
                schema: StopOrder::SCHEMA.into(),
                step: StopStep::Asked,
                at_ms,
                session_id: session.clone(),
                agent_id: agent.clone(),
                tool_use_id: None,
                is_refused: false,
            };
            order_ingest(asked_key(&session, &agent, at_ms), &order)
        });
        Ok((order, StopReceipt { title: row.title(), session, agent, is_repeat, is_reached, told_by }))
    }

    /// Finds the one running agent with this id prefix; an ended one only to name its status in the error.
    fn find_agent(&self, session: Option<&str>, agent: &str) -> Result<(SessionId, AgentId), StopError> {
        // A complete id matches itself only, even if it is a prefix of another.
        let is_complete_id = session.is_some_and(|id| self.tree(&id.into()).is_some());
        let is_session = |id: &SessionId| match session {
            Some(session) if is_complete_id => id.as_str() == session,
            Some(session) => id.starts_with(session),
            None => true,
        };
        let mut found: Vec<(SessionId, AgentId, AgentStatus)> = Vec::new();
        let mut add = |session: &SessionId, row: &Agent| {
            if row.id.starts_with(agent) && !row.id.is_root() {
                found.push((session.clone(), row.id.clone(), row.status));
            }
        };
        for (session, tree) in self.sessions.with_rows().filter(|(session, _)| is_session(session)) {
            tree.agents.iter().for_each(|row| add(session, row));
        }
        let stored = self.store.agents_with_prefix(agent, MAX_AGENTS_PER_ID);
        let stored = self.store.read("agent ids", stored).unwrap_or_default();
        let mut others: Vec<SessionId> = stored.into_iter().map(|(session, _)| session).collect();
        others.retain(|id| is_session(id) && !self.sessions.has_rows(id));
        others.sort();
        others.dedup();
        for session in &others {
            let tree = self.tree(session);
            tree.iter().flat_map(|tree| &tree.agents).for_each(|row| add(session, row));
        }
        let live: Vec<&(SessionId, AgentId, AgentStatus)> =
            found.iter().filter(|(.., status)| status.is_live()).collect();
        let exact = |(_, id, _): &&&(SessionId, AgentId, AgentStatus)| id.as_str() == agent;
        match live.as_slice() {
            [(session, id, _)] => Ok((session.clone(), id.clone())),
            [] => match found.as_slice() {
                [] => Err(StopError::Unknown),
                [(.., status), ..] => Err(StopError::Ended(*status)),
            },
            several => match several.iter().filter(exact).collect::<Vec<_>>().as_slice() {
                [(session, id, _)] => Ok((session.clone(), id.clone())),
                _ => Err(StopError::Ambiguous(several.len())),
            },
        }
    }

    /// Returns the hook answer that stops the agent that sent this input, if that is ordered. The delivery is saved in
    /// the same commit as the input.
    pub(super) fn stop_answer(
        &mut self,
        asks: Asks,
        request: &HookRequest<'_>,
        batch: &mut IngestBatch,
    ) -> Option<String> {
        if asks == Asks::Nothing || !self.sessions.has_stop_orders() {
            return None;
        }
        let dialect = request.dialect?;
        let asker = dialect.asker(request.body)?;
        // The order stays pending once it is delivered: an agent that continues gets it again with its next hook, even
        // before the delivery is derived.
        self.sessions.stop_orders(&asker.session).iter().find(|agent| **agent == asker.agent)?;
        let version = self.tree(&asker.session).and_then(|tree| tree.session.harness_version);
        let answer = dialect.stop_answer(asker.moment, version.as_deref())?;
        let order = StopOrder {
            schema: StopOrder::SCHEMA.into(),
            step: StopStep::Given,
            at_ms: self.time.now_ms(),
            session_id: asker.session,
            agent_id: asker.agent,
            tool_use_id: asker.call,
            is_refused: answer.is_refused,
        };
        let is_taken = self.ingest_one(order_ingest(format!("given/{}", request.key), &order), batch).is_ok();
        is_taken.then_some(answer.json)
    }

    /// Orders a stalled subagent to stop; publishes a problem if that is not possible. The main thread is left to its
    /// user.
    pub(super) fn stop_stalled(&mut self, stall: &Event) {
        let Some(agent) = stall.text("agent_id").filter(|agent| *agent != AgentId::ROOT) else { return };
        match self.create_stop_order(Some(&stall.session_id), agent) {
            Ok((Some(order), _)) => {
                // No caller waits for the commit; the agent's row shows the order.
                self.pending.push(order, Box::new(|_| {}));
                self.pending.has_new_order = true;
            }
            Ok((None, _)) => {}
            Err(error) => self.publish_problem(Problem {
                at: format!("{}/{agent}", stall.session_id),
                what: format!("it is stalled, and cannot be asked to stop: {error}"),
            }),
        }
    }

    /// Orders an agent to stop and replies after the order is committed.
    pub(super) fn stop(
        &mut self,
        session: Option<&str>,
        agent: &str,
        reply: crate::command::ReplyCallback<Result<StopReceipt, StopError>>,
    ) {
        if agent != AgentId::ROOT
            && let Ok((session, agent)) = self.find_agent(session, agent)
            && let Some(machine) = self.tree(&session).and_then(|tree| tree.session.machine)
        {
            return self.stop_remote(&machine, &session, agent, reply);
        }
        match self.create_stop_order(session, agent) {
            Ok((Some(order), stopping)) => {
                let answer: IngestReply = Box::new(move |outcome| {
                    reply(outcome.map(|_| stopping).map_err(|error| StopError::Store(error.to_string())));
                });
                self.pending.push(order, answer);
                self.pending.has_new_order = true;
            }
            Ok((None, stopping)) => reply(Ok(stopping)),
            Err(error) => reply(Err(error)),
        }
    }
}

/// Hook input whose sender waits for an answer.
pub(super) struct HookRequest<'a> {
    pub(super) dialect: Option<Dialect>,
    pub(super) key: &'a str,
    pub(super) body: &'a [u8],
}
