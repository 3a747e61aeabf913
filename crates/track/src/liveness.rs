//! Liveness of running agents: what each does or waits for, since when, and whether it is stalled.
//!
//! An agent's calls are answered one after the other, so it works on its oldest open call. It waits for a subagent only
//! while the subagent's spawn call is open; it does not wait for background agents.
//!
//! Silence is measured per agent, independent of its siblings. It restarts when control returns to the agent (a
//! subagent of it ends) and, once no subagent is active, with any event of the session.

use subscope_model::{Agent, AgentStatus, Liveness, LivenessKind, Millis, SpawnMode, Text, ToolClass, Tree};

use crate::{
    Now,
    facts::{CallFacts, FactOrder},
    hooks::PermissionQuestion,
    identities::AgentIndex,
    limits::{AgentLimits, TEXT_ENDS_AFTER_MS},
    noted::NotedWait,
    status::Derivation,
};

/// Returns the next time at which a tree's rows may change without input: a stall, an inferred permission question, a
/// lost agent. `None` if no agent is running. A spurious deadline is harmless, a missing one is not.
pub fn next_deadline(tree: &Tree, now: &Now<'_>) -> Option<Millis> {
    let limits = &now.limits;
    let live: Vec<&Agent> = tree.agents.iter().filter(|row| row.status.is_live()).collect();
    if live.is_empty() {
        return None;
    }
    // An agent that waits for its subagents is as silent as the last active of them: combine all times with all limits.
    let begins = tree.agents.iter().filter_map(|row| row.last_event_at_ms);
    let begins = begins.chain(live.iter().filter_map(|row| row.liveness.as_ref()?.since_ms));
    let mut begins: Vec<Millis> = begins.collect();
    begins.sort_unstable();
    begins.dedup();
    let harness = tree.session.harness.as_deref();
    let mut durations: Vec<i64> = live
        .iter()
        .flat_map(|row| limits.of(harness, row.model.as_deref()).all())
        .chain([limits.permission_after_ms])
        .chain(TEXT_ENDS_AFTER_MS)
        .collect();
    durations.sort_unstable();
    durations.dedup();
    let moments = begins
        .iter()
        .flat_map(|begin| durations.iter().map(|duration| limits.awake.reaches(*begin, *duration, now.at)));
    moments.filter(|moment| *moment > now.at).min()
}

/// Activity of a running agent.
#[derive(Clone, Debug)]
pub(crate) struct AgentActivity {
    pub(crate) liveness: Liveness,
    /// Whether long silence is expected: a call or permission question is open.
    pub(crate) is_waiting_long: bool,
}

/// Input for deriving the activity of one agent.
pub(crate) struct ActivityContext<'d> {
    pub(crate) number: AgentIndex,
    /// Its calls, ordered by begin.
    pub(crate) calls: &'d [u32],
    /// Time of its last activity.
    pub(crate) last: Option<Millis>,
    /// Time when control last came to it: its last activity, or the end of a subagent.
    pub(crate) turn: Option<Millis>,
    /// Time of its last response.
    pub(crate) responded: Option<Millis>,
    /// Its subagents that are live or lost, and whether they are lost.
    pub(crate) children: &'d [(AgentIndex, bool)],
    /// Agents without known parent and spawn call: whether one is live, and time of their last activity.
    pub(crate) unlinked: (bool, Option<Millis>),
    /// Latest open permission question that blocks it.
    pub(crate) question: Option<&'d PermissionQuestion>,
    /// The wait for the person that only the note of the process reports.
    pub(crate) noted: Option<&'d NotedWait>,
    /// Since when it waits for a command that it left running in the background.
    pub(crate) left_since: Option<Millis>,
    /// Since when it waits for messages.
    pub(crate) idle_since: Option<Millis>,
}

impl AgentActivity {
    fn new(kind: LivenessKind, name: Option<Text>, since_ms: Option<Millis>) -> Self {
        let is_waiting_long = kind.asks_person() || kind == LivenessKind::Tool;
        let liveness = Liveness { kind, name, count: None, limit: None, since_ms, inferred: false };
        Self { liveness, is_waiting_long }
    }
}

impl Derivation<'_> {
    /// Derives what a running agent does.
    pub(crate) fn derive_activity(&self, context: &ActivityContext<'_>) -> AgentActivity {
        if let Some(question) = context.question {
            let since = question.time.or(context.last);
            return AgentActivity::new(question.kind, Some(question.tool.clone()), since);
        }
        if let Some(wait) = context.noted.filter(|wait| wait.agent == context.number) {
            return AgentActivity::new(wait.kind, wait.tool.clone(), Some(wait.since));
        }
        if let Some(retry) = self.retry_activity(context) {
            return retry;
        }
        if context.idle_since.is_some() {
            return idle_activity(context.idle_since);
        }
        let is_before =
            |since: &Millis| self.last_act(context.number).is_none_or(|acted| acted.time <= *since);
        if let Some(since) = self.noted_idle().filter(|since| context.number == 0 && is_before(since)) {
            return idle_activity(Some(since));
        }
        if let Some(asking) = self.asking_call(context) {
            return asking;
        }
        let outstanding = || context.children.iter().filter(|(child, _)| self.is_waited_for(*child));
        let waited = outstanding().filter(|(_, is_lost)| !is_lost).count() as u32;
        let lost = outstanding().count() as u32 - waited;
        let children = || {
            let mut activity = AgentActivity::new(LivenessKind::Children, None, self.children_since(context));
            // Its only subagents that have not ended are lost.
            activity.liveness.count = Some(if waited == 0 && lost > 0 { 0 } else { waited.max(1) });
            activity
        };
        // End of the previous call: a queued call starts only after it.
        let mut before = None;
        for call in context.calls {
            let call_facts = self.facts.call(*call);
            if let Some((_, time)) = self.call_end(*call) {
                before = before.max(time);
                continue;
            }
            if call_facts.class != ToolClass::Spawn {
                return self.tool_activity(call_facts, before, context.last);
            }
            match self.identities.started_by(*call) {
                Some(child) if context.children.iter().any(|(known, _)| *known == child) => {
                    return children();
                }
                // The subagent has ended, its result is not reported yet.
                Some(_) => {}
                None if waited + lost > 0 || context.unlinked.0 => return children(),
                // Its agent may be one of the unlinked ones, just ended.
                None => {
                    let before = before.max(context.turn).max(context.unlinked.1);
                    return self.tool_activity(call_facts, before, context.last);
                }
            }
        }
        if waited + lost > 0 {
            return children();
        }
        let has_acted = |since: Millis| self.last_act(context.number).is_some_and(|acted| acted.time > since);
        if let Some(since) = context.left_since.filter(|since| !has_acted(*since)) {
            let calls = context.calls.iter().rev().map(|call| self.facts.call(*call));
            let name = calls.filter(|call| call.left_running).find_map(|call| call.name.clone());
            return AgentActivity::new(LivenessKind::Tool, name, Some(since));
        }
        if context.number == 0 && self.awaits_prompt() {
            return idle_activity(context.turn);
        }
        AgentActivity::new(LivenessKind::Model, None, context.turn)
    }

    /// Returns since when an agent has waited for its subagents: since it did anything but receive what one of them returns.
    /// That one of several ends begins no other wait.
    fn children_since(&self, context: &ActivityContext<'_>) -> Option<Millis> {
        let calls = context.calls.iter().flat_map(|call| {
            let call_facts = self.facts.call(*call);
            let is_own = call_facts.class != ToolClass::Spawn;
            let ended = self.call_end(*call).filter(|_| is_own).and_then(|(_, time)| time);
            [call_facts.begun_at(), ended]
        });
        calls.flatten().chain(context.responded).max().or(context.last)
    }

    fn tool_activity(&self, call: &CallFacts, before: Option<Millis>, last: Option<Millis>) -> AgentActivity {
        let since = call.begun_at().max(before);
        let limits = &self.now.limits;
        let waited = since.map_or(0, |since| limits.awake.silence(since, self.now.at));
        let is_overdue = call.class == ToolClass::Instant && waited >= limits.permission_after_ms;
        let asks = is_overdue && self.may_infer_question();
        let kind = if asks { LivenessKind::Permission } else { LivenessKind::Tool };
        let mut activity = AgentActivity::new(kind, call.name.clone(), since.or(last));
        activity.liveness.inferred = asks;
        activity
    }

    /// Returns the wait of an agent whose call asks the person. Calls that start subagents go on beside it, others are
    /// answered before it.
    fn asking_call(&self, context: &ActivityContext<'_>) -> Option<AgentActivity> {
        let open =
            context.calls.iter().filter(|call| self.is_open(**call)).map(|call| self.facts.call(*call));
        let call = open.into_iter().find(|call| call.class != ToolClass::Spawn)?;
        let kind = call.class.person_wait().filter(|_| !self.is_answered(call.begun_at()))?;
        Some(AgentActivity::new(kind, call.name.clone(), call.begun_at().or(context.last)))
    }

    /// Returns the open permission questions with the agents that they block: no hook has answered them, no source
    /// reports the end of their calls, and the process has not gone on since. Where no source reports the user's answer, a
    /// question stays open until its call ends.
    pub(crate) fn open_questions(&self) -> Vec<(AgentIndex, &PermissionQuestion)> {
        let questions = self.hooks.questions.iter().filter(|question| !self.is_answered(question.time));
        questions.filter_map(|question| Some((self.blocked_agent(question)?, question))).collect()
    }

    /// Returns the agent that a question blocks; `None` if its call has ended.
    fn blocked_agent(&self, question: &PermissionQuestion) -> Option<AgentIndex> {
        let mut is_reported = false;
        for (call, call_facts) in self.facts.numbered_calls() {
            if call_facts.digest.is_none_or(|(_, digest)| digest != question.digest) {
                continue;
            }
            let owner = self.owners.of_call(call).map(|(owner, _)| owner);
            if question.agent.is_some_and(|agent| owner.is_some_and(|owner| owner != agent)) {
                continue;
            }
            is_reported = true;
            if self.is_open(call) {
                return question.agent.or(owner).or(Some(0));
            }
        }
        // A call without any other record has ended if its agent acted since.
        let agent = question.agent.unwrap_or(0);
        (!is_reported && !self.has_acted_since(agent, question.time)).then_some(agent)
    }

    fn has_acted_since(&self, number: AgentIndex, time: Option<Millis>) -> bool {
        self.last_act(number).zip(time).is_some_and(|(acted, time)| acted.time > time)
    }

    /// Returns the order of an agent's latest own action.
    pub(crate) fn last_act(&self, number: AgentIndex) -> Option<FactOrder> {
        self.facts_of(self.identity(number)).filter_map(|agent| agent.last_acted).max()
    }

    fn retry_activity(&self, context: &ActivityContext<'_>) -> Option<AgentActivity> {
        let retries = self.facts_of(self.identity(context.number)).filter_map(|agent| agent.retry.as_ref());
        let latest = retries.max_by_key(|retry| retry.order);
        let is_over = |at: Millis| self.last_act(context.number).is_some_and(|acted| acted.time > at);
        let retry = latest.filter(|retry| retry.attempt > 0 && !is_over(retry.order.time))?;
        let mut activity =
            AgentActivity::new(LivenessKind::Retry, Some(retry.error.clone()), retry.time.or(context.last));
        activity.liveness.count = Some(retry.attempt);
        activity.liveness.limit = Some(retry.limit).filter(|limit| *limit > 0);
        Some(activity)
    }

    /// Whether the parent of an agent that has not ended waits for it.
    fn is_waited_for(&self, child: AgentIndex) -> bool {
        let identity = self.identity(child);
        match identity.origin {
            Some(call) => self.is_open(call),
            None => self.mode(identity) != Some(SpawnMode::Background),
        }
    }

    /// Returns whether an agent has been silent for its limit. `subagents`: number of active subagents of the session.
    pub(crate) fn is_stalled(
        &self,
        activity: &AgentActivity,
        last: Option<Millis>,
        limits: AgentLimits,
        subagents: u32,
    ) -> bool {
        // The subagents or the user are silent, not this agent.
        if matches!(activity.liveness.kind, LivenessKind::Children | LivenessKind::Idle) {
            return false;
        }
        let limit = match subagents {
            _ if activity.is_waiting_long => limits.stall_open_ms,
            0 => limits.stall_ms,
            _ => limits.stall_subagents_ms,
        };
        self.is_silent(last.max(activity.liveness.since_ms), limit)
    }

    /// Returns whether a pending agent's start is overdue: its caller waits for it, and for no earlier call.
    pub(crate) fn is_start_overdue(
        &self,
        status: AgentStatus,
        caller: Option<&AgentActivity>,
        last: Option<Millis>,
        limits: AgentLimits,
    ) -> bool {
        let is_waited_for = caller.is_some_and(|caller| caller.liveness.kind == LivenessKind::Children);
        status == AgentStatus::Pending && is_waited_for && self.is_silent(last, limits.stall_subagents_ms)
    }

    fn is_silent(&self, since: Option<Millis>, limit_ms: i64) -> bool {
        since.is_some_and(|since| self.now.limits.awake.silence(since, self.now.at) >= limit_ms)
    }
}

/// Returns the activity of a root that waits for the user's next prompt, or of a teammate that waits for messages.
pub(crate) fn idle_activity(since: Option<Millis>) -> AgentActivity {
    AgentActivity::new(LivenessKind::Idle, None, since)
}

#[cfg(test)]
mod tests {
    use subscope_model::{CallBegin, CallEnd, Claim, Fact, Flag, Outcome, SourceKind, Spawn};

    use super::*;
    use crate::{
        Limits,
        test_session::{
            ROOT, TestSession, agent, begin, call_end, raw, response, spawn_call, spawned, tool_call,
        },
    };

    const TRANSCRIPT: SourceKind = SourceKind::Transcript;

    fn limits() -> Limits {
        Limits {
            stall_ms: 100,
            stall_subagents_ms: 300,
            stall_open_ms: 1_000,
            permission_after_ms: 50,
            ..Limits::default()
        }
    }

    fn row(session: &TestSession, at: Millis, id: &str) -> Agent {
        session.tree_with(at, limits()).agents.into_iter().find(|row| &*row.id.0 == id).unwrap()
    }

    /// Kind, name and begin of what an agent does.
    fn activity(
        session: &TestSession,
        at: Millis,
        id: &str,
    ) -> (LivenessKind, Option<String>, Option<Millis>) {
        let liveness = row(session, at, id).liveness.unwrap();
        (liveness.kind, liveness.name.map(|name| name.to_string()), liveness.since_ms)
    }

    fn is_stalled(session: &TestSession, at: Millis, id: &str) -> bool {
        row(session, at, id).has(Flag::Stalled)
    }

    fn end(id: &str) -> Fact<'_> {
        Fact::CallEnd(call_end(id, Outcome::Ok))
    }

    /// A session whose root has started `a1` by the open call `c1` at 10.
    fn session_with_subagent() -> TestSession {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 10, ROOT, spawn_call("c1", r#""x""#));
        session.add(TRANSCRIPT, 20, agent("a1"), Fact::Response(response("m1", 1)));
        session.add(TRANSCRIPT, 20, agent("a1"), spawned("a1", "c1"));
        session
    }

    #[test]
    fn oldest_open_call_is_worked_on_since_the_previous_one_ended() {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 10, ROOT, tool_call("c1", "Bash"));
        session.add(TRANSCRIPT, 11, ROOT, tool_call("c2", "Read"));
        assert_eq!(activity(&session, 15, "root"), (LivenessKind::Tool, Some("Bash".into()), Some(10)));
        session.add(TRANSCRIPT, 30, ROOT, end("c1"));
        assert_eq!(activity(&session, 40, "root"), (LivenessKind::Tool, Some("Read".into()), Some(30)));
        session.add(TRANSCRIPT, 50, ROOT, end("c2"));
        assert_eq!(activity(&session, 60, "root"), (LivenessKind::Model, None, Some(50)));
    }

    #[test]
    fn instant_tool_open_for_long_implies_a_permission_question() {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 10, ROOT, Fact::CallBegin(begin("c1", "Read", ToolClass::Instant)));
        assert_eq!(activity(&session, 59, "root").0, LivenessKind::Tool);
        assert_eq!(activity(&session, 60, "root").0, LivenessKind::Permission);
        assert!(row(&session, 60, "root").liveness.unwrap().inferred);
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 10, ROOT, tool_call("c1", "Bash"));
        assert_eq!(activity(&session, 60, "root").0, LivenessKind::Tool, "other tools may take long");
    }

    #[test]
    fn parent_waits_for_its_subagent_only_while_the_spawn_call_is_open() {
        let mut session = session_with_subagent();
        let liveness = row(&session, 30, "root").liveness.unwrap();
        assert_eq!((liveness.kind, liveness.count), (LivenessKind::Children, Some(1)));
        let launched = subscope_model::SpawnResult { finished: Some(false), ..Default::default() };
        let end = CallEnd { spawn: Some(launched), ..call_end("c1", Outcome::Ok) };
        session.add(TRANSCRIPT, 25, ROOT, Fact::CallEnd(end));
        assert_eq!(activity(&session, 30, "root").0, LivenessKind::Model);
        assert!(row(&session, 30, "a1").background);
    }

    #[test]
    fn a_wait_for_subagents_goes_on_while_one_after_the_other_ends() {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 5, ROOT, Fact::Response(response("m0", 1)));
        session.add(TRANSCRIPT, 5, ROOT, tool_call("c0", "Bash"));
        for (call, id) in [("c1", "a1"), ("c2", "a2"), ("c3", "a3")] {
            session.add(TRANSCRIPT, 5, ROOT, spawn_call(call, r#""x""#));
            session.add(TRANSCRIPT, 15, agent(id), Fact::Response(response(id, 1)));
            session.add(TRANSCRIPT, 15, agent(id), spawned(id, call));
        }
        session.add(TRANSCRIPT, 10, ROOT, end("c0"));
        assert_eq!(activity(&session, 20, "root"), (LivenessKind::Children, None, Some(10)));
        for (at, call, left) in [(50, "c1", 2), (90, "c3", 1)] {
            session.add(TRANSCRIPT, at, ROOT, end(call));
            assert_eq!(activity(&session, at, "root"), (LivenessKind::Children, None, Some(10)));
            assert_eq!(row(&session, at, "root").liveness.unwrap().count, Some(left));
        }
        // It goes on, and waits again.
        session.add(TRANSCRIPT, 100, ROOT, end("c2"));
        session.add(TRANSCRIPT, 110, ROOT, Fact::Response(response("m1", 1)));
        session.add(TRANSCRIPT, 120, ROOT, spawn_call("c4", r#""y""#));
        session.add(TRANSCRIPT, 130, agent("a4"), spawned("a4", "c4"));
        assert_eq!(activity(&session, 140, "root"), (LivenessKind::Children, None, Some(120)));
    }

    #[test]
    fn parent_of_lost_subagents_waits_for_none_that_is_at_work() {
        let mut session = session_with_subagent();
        session.add(TRANSCRIPT, 10, ROOT, spawn_call("c2", r#""y""#));
        session.add(TRANSCRIPT, 900_000, agent("a2"), Fact::Response(response("m2", 1)));
        session.add(TRANSCRIPT, 900_000, agent("a2"), spawned("a2", "c2"));
        let count = |at: Millis| row(&session, at, "root").liveness.unwrap().count;
        assert_eq!(count(30), Some(2));
        assert_eq!(count(1_000_000), Some(1), "a1 is lost");
        let limits = Limits { stall_open_ms: 3_600_000, ..limits() };
        let tree = session.tree_with(1_900_000, limits);
        let root = &tree.agents[0];
        assert_eq!(
            root.liveness.as_ref().map(|live| (live.kind, live.count)),
            Some((LivenessKind::Children, Some(0)))
        );
        assert!(root.waits_for_lost());
        assert_eq!(tree.summary.attention, subscope_model::Attention::Trouble);
    }

    #[test]
    fn silence_limit_depends_on_active_subagents_and_open_calls() {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 0, ROOT, Fact::Response(response("m0", 1)));
        assert!(!is_stalled(&session, 99, "root"));
        assert!(is_stalled(&session, 100, "root"));

        let session = session_with_subagent();
        assert!(!is_stalled(&session, 319, "a1"));
        assert!(is_stalled(&session, 320, "a1"));
        assert!(!is_stalled(&session, 320, "root"), "it waits for a1");

        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 0, ROOT, tool_call("c1", "Bash"));
        assert!(!is_stalled(&session, 999, "root"));
        assert!(is_stalled(&session, 1_000, "root"));
    }

    #[test]
    fn silence_of_a_parent_restarts_when_its_subagent_ends() {
        let mut session = session_with_subagent();
        session.add(
            TRANSCRIPT,
            500,
            agent("a1"),
            Fact::Response(subscope_model::Response {
                ends_turn: true,
                has_stop_reason: true,
                ..response("m2", 1)
            }),
        );
        assert_eq!(activity(&session, 550, "root"), (LivenessKind::Model, None, Some(500)));
        assert!(!is_stalled(&session, 599, "root"));
        assert!(is_stalled(&session, 600, "root"));
    }

    #[test]
    fn retry_is_shown_until_the_agent_acts() {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 10, ROOT, Fact::Response(response("m1", 1)));
        let retry = Fact::Retry { agent: None, attempt: 2, limit: 9, delay_ms: None, error: "529".into() };
        session.add(TRANSCRIPT, 20, ROOT, retry);
        let liveness = row(&session, 30, "root").liveness.unwrap();
        assert_eq!((liveness.kind, liveness.count, liveness.limit), (LivenessKind::Retry, Some(2), Some(9)));
        session.add(TRANSCRIPT, 40, ROOT, Fact::Response(response("m2", 1)));
        assert_eq!(activity(&session, 50, "root").0, LivenessKind::Model);
    }

    #[test]
    fn permission_question_blocks_its_agent_until_the_call_ends() {
        let mut session = session_with_subagent();
        session.add(TRANSCRIPT, 30, agent("a1"), tool_call("call", "Bash"));
        let digest = begin("call", "Bash", ToolClass::Other).digest;
        session.add(
            SourceKind::Hook,
            31,
            agent("a1"),
            Fact::Permission { name: "Bash", class: ToolClass::Other, digest, input: None },
        );
        assert_eq!(activity(&session, 40, "a1"), (LivenessKind::Permission, Some("Bash".into()), Some(31)));
        assert!(!row(&session, 40, "a1").liveness.unwrap().inferred);
        session.add(TRANSCRIPT, 45, agent("a1"), end("call"));
        assert_eq!(activity(&session, 50, "a1").0, LivenessKind::Model);
    }

    #[test]
    fn question_that_names_no_agent_blocks_the_owner_of_the_call() {
        let mut session = session_with_subagent();
        session.add(TRANSCRIPT, 30, agent("a1"), tool_call("call", "Bash"));
        let digest = begin("call", "Bash", ToolClass::Other).digest;
        let question = Fact::Permission { name: "Bash", class: ToolClass::Other, digest, input: None };
        session.add(SourceKind::Hook, 31, Claim::Silent, question);
        assert_eq!(activity(&session, 40, "a1").0, LivenessKind::Permission);
        assert_eq!(activity(&session, 40, "root").0, LivenessKind::Children);
    }

    #[test]
    fn pending_agent_is_overdue_only_if_its_caller_waits_for_it() {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 0, ROOT, spawn_call("c1", r#""x""#));
        assert!(!is_stalled(&session, 299, "c1"));
        assert!(is_stalled(&session, 300, "c1"));
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 0, ROOT, tool_call("c0", "Bash"));
        session.add(TRANSCRIPT, 0, ROOT, spawn_call("c1", r#""x""#));
        assert!(!is_stalled(&session, 300, "c1"), "the caller is still at its first call");
    }

    #[test]
    fn next_deadline_is_never_later_than_a_change_of_the_rows() {
        let mut session = session_with_subagent();
        session.add(TRANSCRIPT, 30, agent("a1"), Fact::CallBegin(begin("c2", "Read", ToolClass::Instant)));
        let prices = subscope_model::PriceTable::default();
        let (mut at, mut deadlines, mut changes) = (31, 0, 0);
        loop {
            let tree = session.tree_with(at, limits());
            let now = Now { at, has_ended: false, is_growing: true, prices: &prices, limits: limits() };
            let Some(deadline) = next_deadline(&tree, &now) else { break };
            assert!(deadline > at);
            assert_eq!(session.tree_with(deadline - 1, limits()), tree, "between {at} and {deadline}");
            changes += u32::from(session.tree_with(deadline, limits()) != tree);
            (at, deadlines) = (deadline, deadlines + 1);
            assert!(deadlines < 100);
        }
        // The inferred question, the stall and the loss of both agents.
        assert!(changes >= 3, "{changes}");
        assert!(session.tree_with(at, limits()).agents.iter().all(|row| row.status == AgentStatus::Lost));
    }

    #[test]
    fn hindsight_begin_and_batch_agents_do_not_block_their_parent() {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 10, ROOT, Fact::Response(response("m1", 1)));
        let late = CallBegin { hindsight: true, ..begin("c1", "Bash", ToolClass::Other) };
        session.add(SourceKind::Hook, 20, ROOT, Fact::CallBegin(late));
        session.add(TRANSCRIPT, 20, ROOT, end("c1"));
        session.add(TRANSCRIPT, 21, agent("a1"), Fact::Activity);
        let background = Spawn {
            agent: Some("a1"),
            parent: Some(subscope_model::Parent::Root),
            mode: Some(SpawnMode::Background),
            ..Spawn::default()
        };
        session.add(TRANSCRIPT, 21, agent("a1"), Fact::Spawn(background));
        assert_eq!(activity(&session, 30, "root").0, LivenessKind::Model);
    }

    #[test]
    fn root_without_a_prompt_is_idle() {
        let mut session = TestSession::new();
        session.add(SourceKind::Hook, 10, Claim::Silent, Fact::SessionStart { source: None });
        assert_eq!(activity(&session, 5_000_000, "root").0, LivenessKind::Idle);
        assert!(!is_stalled(&session, 5_000_000, "root"));
        let prompt =
            Fact::Prompt { prompt_id: None, text: raw(r#""x""#), what: subscope_model::PromptKind::Asked };
        session.add(SourceKind::Hook, 20, ROOT, prompt);
        assert_eq!(activity(&session, 30, "root").0, LivenessKind::Model);
    }
}
