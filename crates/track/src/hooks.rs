//! Replays hook logs to derive owners of calls whose hooks name no agent, turns of the root and open permission
//! questions.
//!
//! Up to 2.1.50 tool hooks name no agent. Owners are derived so (design, "Identity where the wire gives little"): a
//! spawn call is the root's; basis `sole`: the root while nothing of a subagent is open, or a subagent while it is
//! certainly the only one at work; else the agent that started last (basis `stack`, a guess that is wrong for most
//! calls of parallel agents), or `unknown`.

use hashbrown::{HashMap, HashSet};
use subscope_model::{AgentStatus, Basis, LivenessKind, Millis, Text, ToolClass};

use crate::{
    facts::{AgentKey, AgentRef, CallIndex, Facts, HookStep, HookStepKind, best_value},
    identities::{AgentIndex, Identities, has_fitting_type},
};

/// Result of replaying the hook logs.
#[derive(Debug, Default)]
pub(crate) struct HookLog {
    /// Owners of calls whose payload names no agent.
    pub(crate) owners: HashMap<CallIndex, (AgentIndex, Basis)>,
    /// Agents whose last hook is a stop.
    pub(crate) stopped: HashSet<Text>,
    /// Status at the end of the root's last turn; `None` before the first turn and while one runs.
    pub(crate) turn: Option<AgentStatus>,
    /// Whether the root has had a turn.
    pub(crate) has_turn: bool,
    /// Whether a turn of the root has begun since a process opened the session, and has not ended.
    pub(crate) is_in_turn: bool,
    /// Whether a process opened the session and has not left it.
    pub(crate) is_open: bool,
    /// When a process last opened the session.
    pub(crate) opened_at: Option<Millis>,
    /// When the harness last reported that it waits for the user's prompt.
    pub(crate) awaits_at: Option<Millis>,
    /// Whether the process left the session and none has opened it since.
    pub(crate) has_left: bool,
    /// Permission questions that no hook has answered.
    pub(crate) questions: Vec<PermissionQuestion>,
    /// Number of user prompts.
    pub(crate) prompts: u32,
    /// Owners of the calls that permission questions without an agent are about, by source and offset.
    pub(crate) asked: HashMap<(u32, u64), (AgentIndex, Basis)>,
    /// Why the first process of the harness opened the session.
    pub(crate) opened: Option<Option<Text>>,
}

/// A question to the user: the harness asks to allow a call, or the call itself asks.
#[derive(Clone, Debug)]
pub(crate) struct PermissionQuestion {
    /// Agent whose call it is about, if the payload names it.
    pub(crate) agent: Option<AgentIndex>,
    pub(crate) tool: Text,
    /// What the user is asked for.
    pub(crate) kind: LivenessKind,
    pub(crate) digest: u64,
    pub(crate) time: Option<Millis>,
}

/// State of a replay.
struct HookReplay<'f> {
    facts: &'f Facts,
    identities: &'f Identities,
    log: HookLog,
    /// Agents started and not stopped, oldest first.
    stack: Vec<Text>,
    /// Calls without an end, with the digest of their arguments, oldest first.
    unended: Vec<(CallIndex, u64)>,
    /// Open spawn calls.
    open_spawns: HashSet<CallIndex>,
    /// Other open calls with their owner; `None` if it is only guessed.
    open_calls: HashMap<CallIndex, Option<AgentIndex>>,
    /// Background agents that have not ended.
    background: Vec<Text>,
    /// Number of background launches whose agent has not started yet.
    launched: usize,
    /// Number of spawn calls whose agent has not started yet.
    unstarted: usize,
    /// Agents of earlier runs that have not ended, and may be in the background.
    left: Vec<Text>,
}

impl HookLog {
    fn begin_turn(&mut self) {
        (self.turn, self.has_turn, self.is_in_turn) = (None, true, true);
    }

    fn end_turn(&mut self, status: AgentStatus) {
        (self.turn, self.is_in_turn) = (Some(status), false);
    }
}

/// Replays all hook logs of the session.
pub(crate) fn replay_hooks(facts: &Facts, identities: &Identities) -> HookLog {
    let mut replay = HookReplay {
        facts,
        identities,
        log: HookLog::default(),
        stack: Vec::new(),
        unended: Vec::new(),
        open_spawns: HashSet::new(),
        open_calls: HashMap::new(),
        background: Vec::new(),
        launched: 0,
        unstarted: 0,
        left: Vec::new(),
    };
    for step in facts.sorted_hooks() {
        replay.apply(step);
    }
    replay.log
}

impl HookReplay<'_> {
    fn apply(&mut self, step: &HookStep) {
        match &step.kind {
            HookStepKind::Prompt { is_user } => {
                self.log.begin_turn();
                self.log.prompts += u32::from(*is_user);
                if *is_user {
                    self.begin_run();
                }
            }
            HookStepKind::Start { agent } => {
                self.log.stopped.remove(agent);
                self.unstarted = self.unstarted.saturating_sub(1);
                if self.launched > 0 {
                    self.launched -= 1;
                    self.background.push(agent.clone());
                }
                self.stack.push(agent.clone());
            }
            HookStepKind::Stop { agent } => {
                self.log.stopped.insert(agent.clone());
                remove_last(&mut self.stack, agent);
                remove_last(&mut self.background, agent);
                remove_last(&mut self.left, agent);
                let gone = self.identities.by_id(self.facts, agent);
                self.log.questions.retain(|question| gone.is_none() || question.agent != gone);
            }
            HookStepKind::Pre { call, named, digest } => {
                self.unended.push((*call, *digest));
                self.begin_call(*call, *named);
            }
            HookStepKind::Post { call, named, launched } => {
                self.undo_stop(*named);
                self.unended.retain(|(known, _)| known != call);
                if named.is_none() && self.facts.call(*call).begin.is_none() {
                    // Its begin was not seen.
                    let owner = self.derive_owner(self.facts.call(*call).spawn.is_some());
                    self.log.owners.entry(*call).or_insert(owner);
                }
                if self.open_spawns.remove(call) {
                    self.finish_spawn(*call, *launched);
                }
                self.open_calls.remove(call);
                let digest = self.facts.call(*call).digest.map(|(_, digest)| digest);
                self.log.questions.retain(|question| Some(question.digest) != digest);
            }
            HookStepKind::Permission { named, name, class, digest, time } => {
                let (agent, tool) = (named.and_then(|named| self.identities.of(named)), name.clone());
                let kind = class.person_wait().unwrap_or(LivenessKind::Permission);
                let asked = self.unended.iter().rev().find(|(_, known)| known == digest);
                if let (None, Some((call, _))) = (named, asked)
                    && let Some(owner) = self.log.owners.get(call)
                {
                    self.log.asked.insert((step.source, step.offset), *owner);
                }
                self.log.questions.push(PermissionQuestion {
                    agent,
                    tool,
                    kind,
                    digest: *digest,
                    time: *time,
                });
            }
            HookStepKind::PermissionReply { named, digest } => {
                let agent = named.and_then(|named| self.identities.of(named));
                let is_answered = |question: &PermissionQuestion| {
                    question.digest == *digest && (named.is_none() || question.agent == agent)
                };
                self.log.questions.retain(|question| !is_answered(question));
            }
            HookStepKind::TurnEnd { status } => {
                self.log.begin_turn();
                self.log.end_turn(*status);
                self.log.questions.retain(|question| question.agent.is_some());
            }
            HookStepKind::SessionStart { time, reason } => {
                self.log.opened.get_or_insert_with(|| reason.clone());
                (self.log.is_open, self.log.is_in_turn, self.log.has_left) = (true, false, false);
                self.log.opened_at = self.log.opened_at.max(*time);
            }
            // No hook reports that the user interrupted the turn.
            HookStepKind::AwaitsPrompt { time } => {
                self.log.awaits_at = self.log.awaits_at.max(*time);
                if self.log.is_in_turn {
                    self.log.end_turn(AgentStatus::Stopped);
                }
            }
            HookStepKind::SessionEnd => {
                (self.log.is_open, self.log.has_left) = (false, true);
                self.log.questions.clear();
            }
        }
    }

    /// Begins a run: of what was at work before, only agents in the background still are. No hook reports the end of
    /// what the user interrupted.
    fn begin_run(&mut self) {
        let others = self.stack.extract_if(.., |agent| !self.background.contains(agent));
        let others: Vec<Text> = others.collect();
        // One whose spawn call was open was in the foreground.
        if others.len() > self.open_spawns.len() {
            self.left.extend(others);
        }
        self.open_spawns.clear();
        self.open_calls.clear();
        self.unstarted = 0;
    }

    /// Marks an agent as active again: it acts after its stop hook, so the hook's answer made it continue.
    fn undo_stop(&mut self, named: Option<AgentRef>) {
        if let Some(AgentKey::Id(id)) = named.map(|named| &self.facts.agent(named).key)
            && self.log.stopped.remove(id)
        {
            self.stack.push(id.clone());
        }
    }

    fn begin_call(&mut self, call: CallIndex, named: Option<AgentRef>) {
        self.undo_stop(named);
        if named.is_none() {
            self.log.begin_turn();
        }
        let is_spawn = self.facts.call(call).class == ToolClass::Spawn;
        if named.is_none() {
            let owner = self.derive_owner(is_spawn);
            self.log.owners.entry(call).or_insert(owner);
            self.open_calls.insert(call, Some(owner.0).filter(|_| owner.1 > Basis::Stack));
        }
        if is_spawn {
            self.open_spawns.insert(call);
            self.unstarted += 1;
            self.open_calls.remove(&call);
        }
    }

    fn finish_spawn(&mut self, call: CallIndex, launched: bool) {
        let agent = self.facts.call(call).spawn.as_ref().and_then(|spawn| best_value(&spawn.agent));
        if !launched {
            self.unstarted = self.unstarted.min(self.open_spawns.len());
            return;
        }
        match agent {
            Some(agent) if self.stack.contains(&agent) => self.background.push(agent),
            _ => self.launched += 1,
        }
    }

    fn derive_owner(&self, is_spawn: bool) -> (AgentIndex, Basis) {
        if self.facts.has_identity {
            return (0, Basis::Wire);
        }
        // Versions whose hooks name no agent (up to 2.1.110) have no nested subagents.
        if is_spawn {
            return (0, Basis::Sole);
        }
        let is_quiet = self.background.is_empty() && self.left.is_empty() && self.launched == 0;
        if self.stack.is_empty() && self.open_spawns.is_empty() && is_quiet {
            return (0, Basis::Sole);
        }
        let top = self.stack.last().and_then(|id| self.identities.by_id(self.facts, id));
        let has_root_calls = self.open_calls.values().any(|owner| *owner == Some(0));
        match top {
            Some(agent)
                if self.stack.len() == 1
                    && self.open_spawns.len() == 1
                    && self.unstarted == 0
                    && is_quiet
                    && !has_root_calls
                    && self.fits_open_spawn() =>
            {
                (agent, Basis::Sole)
            }
            Some(agent) => (agent, Basis::Stack),
            None => (0, Basis::Unknown),
        }
    }

    /// Whether the latest started agent has the type that the open spawn call asks for. A warm-up that still runs has
    /// not.
    fn fits_open_spawn(&self) -> bool {
        let top = self.stack.last().and_then(|id| self.facts.by_id.get(id));
        match (self.open_spawns.iter().next(), top) {
            (Some(call), Some(agent)) => has_fitting_type(self.facts, *call, *agent),
            (None, _) | (_, None) => true,
        }
    }
}

fn remove_last(stack: &mut Vec<Text>, agent: &str) {
    if let Some(at) = stack.iter().rposition(|known| &**known == agent) {
        stack.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use subscope_model::{Claim, EndEvidence, Fact, Outcome, SourceKind, Spawn};

    use super::*;
    use crate::test_session::{
        ROOT, TestSession, agent, agent_end, begin, call_end, raw, spawn_call, tool_call,
    };

    fn hook(session: &mut TestSession, fact: Fact<'_>) {
        session.add(SourceKind::Hook, None, Claim::Silent, fact);
    }

    fn start(id: &str) -> Fact<'_> {
        Fact::Spawn(Spawn { agent: Some(id), starts: true, ..Spawn::default() })
    }

    fn stop(id: &str) -> Fact<'_> {
        agent_end(id, AgentStatus::Completed, EndEvidence::StopHook)
    }

    fn owner(session: &TestSession, call: &str) -> (AgentIndex, Basis) {
        session.hooks().owners[&session.call(call)]
    }

    #[test]
    fn root_owns_calls_while_no_subagent_is_open() {
        let mut session = TestSession::new();
        hook(&mut session, tool_call("c1", "Bash"));
        assert_eq!(owner(&session, "c1"), (0, Basis::Sole));
    }

    #[test]
    fn only_subagent_owns_calls_for_sure_and_one_of_two_by_guess() {
        let mut session = TestSession::new();
        hook(&mut session, spawn_call("c1", r#""x""#));
        hook(&mut session, start("a1"));
        hook(&mut session, tool_call("c2", "Bash"));
        assert_eq!(owner(&session, "c1"), (0, Basis::Sole));
        assert_eq!(owner(&session, "c2"), (session.agent("a1"), Basis::Sole));
        hook(&mut session, spawn_call("c3", r#""y""#));
        hook(&mut session, start("a2"));
        hook(&mut session, tool_call("c4", "Bash"));
        assert_eq!(owner(&session, "c4"), (session.agent("a2"), Basis::Stack));
        hook(&mut session, stop("a2"));
        hook(&mut session, tool_call("open", "Bash"));
        assert_eq!(owner(&session, "open"), (session.agent("a1"), Basis::Stack), "two spawn calls are open");
        hook(&mut session, Fact::CallEnd(call_end("open", Outcome::Ok)));
        hook(&mut session, stop("a1"));
        hook(&mut session, Fact::CallEnd(call_end("c1", Outcome::Ok)));
        hook(&mut session, Fact::CallEnd(call_end("c3", Outcome::Ok)));
        hook(&mut session, tool_call("c5", "Bash"));
        assert_eq!(owner(&session, "c5"), (0, Basis::Sole));
    }

    #[test]
    fn prompt_of_the_user_ends_the_work_of_agents_that_are_not_in_the_background() {
        use subscope_model::{PromptKind, SpawnResult};
        let prompt = |what| Fact::Prompt { prompt_id: None, text: raw(r#""x""#), what };
        let launched = |call: &'static str| {
            let spawn = SpawnResult { finished: Some(false), ..SpawnResult::default() };
            Fact::CallEnd(subscope_model::CallEnd { spawn: Some(spawn), ..call_end(call, Outcome::Ok) })
        };
        let mut session = TestSession::new();
        hook(&mut session, spawn_call("c1", r#""x""#));
        hook(&mut session, start("a1"));
        session.add(SourceKind::Hook, None, ROOT, prompt(PromptKind::Meta));
        hook(&mut session, tool_call("c2", "Bash"));
        assert_eq!(owner(&session, "c2"), (session.agent("a1"), Basis::Sole), "a notification is no prompt");
        session.add(SourceKind::Hook, None, ROOT, prompt(PromptKind::Asked));
        hook(&mut session, tool_call("c3", "Bash"));
        assert_eq!(owner(&session, "c3"), (0, Basis::Sole), "a1 was interrupted");
        hook(&mut session, spawn_call("c4", r#""y""#));
        hook(&mut session, launched("c4"));
        hook(&mut session, start("a2"));
        session.add(SourceKind::Hook, None, ROOT, prompt(PromptKind::Asked));
        hook(&mut session, tool_call("c5", "Bash"));
        assert_eq!(owner(&session, "c5"), (session.agent("a2"), Basis::Stack), "a2 is in the background");
    }

    #[test]
    fn calls_without_an_agent_are_the_roots_if_hooks_name_agents() {
        let mut session = TestSession::new();
        hook(&mut session, Fact::WireHasIdentity);
        hook(&mut session, start("a1"));
        hook(&mut session, tool_call("c1", "Bash"));
        assert_eq!(owner(&session, "c1"), (0, Basis::Wire));
    }

    #[test]
    fn stopped_agent_that_acts_again_is_not_stopped() {
        let mut session = TestSession::new();
        session.add(SourceKind::Hook, None, agent("a1"), tool_call("c1", "Bash"));
        hook(&mut session, stop("a1"));
        assert!(session.hooks().stopped.contains("a1"));
        session.add(SourceKind::Hook, None, agent("a1"), tool_call("c2", "Bash"));
        assert!(!session.hooks().stopped.contains("a1"));
    }

    #[test]
    fn permission_question_is_answered_by_the_end_of_an_equal_call() {
        let mut session = TestSession::new();
        hook(&mut session, tool_call("c1", "Bash"));
        let digest = begin("c1", "Bash", ToolClass::Other).digest;
        hook(&mut session, Fact::Permission { name: "Bash", class: ToolClass::Other, digest, input: None });
        hook(&mut session, Fact::CallEnd(call_end("longer", Outcome::Ok)));
        assert_eq!(session.hooks().questions.len(), 1);
        hook(&mut session, Fact::CallEnd(call_end("c1", Outcome::Ok)));
        assert_eq!(session.hooks().questions.len(), 0);
    }

    #[test]
    fn permission_question_is_answered_by_a_reply_to_its_agent_about_its_call() {
        let digest = begin("c1", "Bash", ToolClass::Other).digest;
        let mut session = TestSession::new();
        let open = |session: &TestSession| session.hooks().questions.len();
        let asked = || Fact::Permission { name: "Bash", class: ToolClass::Other, digest, input: None };
        hook(&mut session, start("a1"));
        hook(&mut session, start("a2"));
        session.add(SourceKind::Hook, None, agent("a1"), asked());
        session.add(SourceKind::Hook, None, agent("a2"), asked());
        session.add(SourceKind::Hook, None, agent("a1"), Fact::PermissionReply { digest: digest ^ 1 });
        assert_eq!(open(&session), 2, "a reply about another call");
        session.add(SourceKind::Hook, None, agent("a1"), Fact::PermissionReply { digest });
        assert_eq!(open(&session), 1, "the same question of another agent stays open");
        session.add(SourceKind::Hook, None, Claim::Silent, Fact::PermissionReply { digest });
        assert_eq!(open(&session), 0, "a reply that names no agent");
    }

    #[test]
    fn turn_is_stopped_if_the_harness_awaits_a_prompt_within_it() {
        let prompt =
            || Fact::Prompt { prompt_id: None, text: raw(r#""x""#), what: subscope_model::PromptKind::Asked };
        let mut session = TestSession::new();
        hook(&mut session, Fact::AwaitsPrompt);
        assert_eq!(session.hooks().turn, None);
        session.add(SourceKind::Hook, None, ROOT, prompt());
        assert!(session.hooks().is_in_turn);
        hook(&mut session, Fact::AwaitsPrompt);
        assert_eq!((session.hooks().turn, session.hooks().is_in_turn), (Some(AgentStatus::Stopped), false));
    }
}
