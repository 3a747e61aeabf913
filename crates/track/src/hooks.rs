//! Whose call it was on a wire that does not say: a replay of the hook log in its order.
//!
//! Up to 2.1.50 tool hooks name no agent. What can still be said (design, "Identity where the wire gives little"): a
//! spawn call is the root's; the root is `sole` while nothing of a subagent is open; a subagent is `sole` while it is
//! certainly the only one at work. Everything else is the LIFO guess `stack`, which is wrong for most calls of parallel
//! agents and marked so, or `unknown`.

use hashbrown::{HashMap, HashSet};
use subscope_model::{AgentStatus, Basis, Millis, Text, ToolClass};

use crate::{
    facts::{CallNo, Facts, HookStep, HookWhat, Key, Ref, value},
    identities::{Identities, No},
};

/// What the hook logs alone say.
#[derive(Debug, Default)]
pub(crate) struct HookLog {
    /// Who made a call that its payload ascribes to nobody.
    pub(crate) owners: HashMap<CallNo, (No, Basis)>,
    /// Agents whose last hook is a stop.
    pub(crate) stopped: HashSet<Text>,
    /// Whether the root's last turn is over, and how.
    pub(crate) turn: Option<AgentStatus>,
    /// Whether the root was at work in any turn.
    pub(crate) has_turn: bool,
    /// Whether a turn of the root has begun since a process opened the session, and has not ended.
    pub(crate) is_in_turn: bool,
    /// Whether a process opened the session and has not left it.
    pub(crate) is_open: bool,
    /// When a process opened it last.
    pub(crate) opened_at: Option<Millis>,
    /// Whether the process left the session and none came back.
    pub(crate) has_left: bool,
    /// Questions for permission that no hook has answered.
    pub(crate) asked: Vec<Asked>,
    /// Prompts of the user.
    pub(crate) prompts: u32,
}

/// A question for permission.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Whose call it is about, where the payload says so.
    pub(crate) agent: Option<No>,
    pub(crate) tool: Text,
    pub(crate) digest: u64,
    pub(crate) time: Option<Millis>,
}

/// The state of one replay.
#[derive(Default)]
struct Replay {
    /// Started and not stopped, oldest first.
    stack: Vec<Text>,
    /// Spawn calls without an end.
    open_spawns: HashSet<CallNo>,
    /// Other open calls, with whom they were ascribed to.
    open_calls: HashMap<CallNo, Option<No>>,
    /// How many agents were launched into the background and have not ended.
    background: Vec<Text>,
    /// Launches whose agent has not started yet.
    launched: usize,
    /// Spawn calls whose agent has not started yet.
    unstarted: usize,
    asked: Vec<Asked>,
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
pub(crate) fn replay(facts: &Facts, identities: &Identities) -> HookLog {
    let mut steps: Vec<&HookStep> = facts.hooks.iter().collect();
    steps.sort_by_key(|step| (step.source, step.offset));
    let mut log = HookLog::default();
    let mut replay = Replay::default();
    for step in steps {
        replay.take(facts, identities, &step.what, &mut log);
    }
    log.asked = replay.asked;
    log
}

impl Replay {
    fn take(&mut self, facts: &Facts, identities: &Identities, what: &HookWhat, log: &mut HookLog) {
        match what {
            HookWhat::Prompt { is_user } => {
                log.begin_turn();
                log.prompts += u32::from(*is_user);
            }
            HookWhat::Start { agent } => {
                log.stopped.remove(agent);
                self.unstarted = self.unstarted.saturating_sub(1);
                if self.launched > 0 {
                    self.launched -= 1;
                    self.background.push(agent.clone());
                }
                self.stack.push(agent.clone());
            }
            HookWhat::Stop { agent } => {
                log.stopped.insert(agent.clone());
                remove_last(&mut self.stack, agent);
                remove_last(&mut self.background, agent);
                let gone = identities.by_id(facts, agent);
                self.asked.retain(|asked| gone.is_none() || asked.agent != gone);
            }
            HookWhat::Pre { call, named } => self.begin(facts, identities, *call, *named, log),
            HookWhat::Post { call, named, launched } => {
                self.touch(facts, *named, log);
                if self.open_spawns.remove(call) {
                    self.finish_spawn(facts, *call, *launched);
                }
                self.open_calls.remove(call);
                let digest =
                    facts.calls.get(*call as usize).and_then(|call| call.digest).map(|(_, digest)| digest);
                self.asked.retain(|asked| Some(asked.digest) != digest);
            }
            HookWhat::Permission { named, name, digest, time } => {
                let agent = named.and_then(|named| identities.of(named));
                self.asked.push(Asked { agent, tool: name.clone(), digest: *digest, time: *time });
            }
            HookWhat::TurnEnd { status } => {
                log.begin_turn();
                log.end_turn(*status);
                self.asked.retain(|asked| asked.agent.is_some());
            }
            HookWhat::SessionStart { time } => {
                (log.is_open, log.is_in_turn, log.has_left) = (true, false, false);
                log.opened_at = log.opened_at.max(*time);
            }
            // No hook tells that a person interrupted the turn.
            HookWhat::AwaitsPrompt if log.is_in_turn => log.end_turn(AgentStatus::Stopped),
            HookWhat::AwaitsPrompt => {}
            HookWhat::SessionEnd => {
                (log.is_open, log.has_left) = (false, true);
                self.asked.clear();
            }
        }
    }

    /// An agent that does something has not stopped: its stop hook was told to go on.
    fn touch(&mut self, facts: &Facts, named: Option<Ref>, log: &mut HookLog) {
        let key = named.and_then(|named| facts.agents.get(named as usize)).map(|agent| &agent.key);
        if let Some(Key::Id(id)) = key
            && log.stopped.remove(id)
        {
            self.stack.push(id.clone());
        }
    }

    fn begin(
        &mut self,
        facts: &Facts,
        identities: &Identities,
        call: CallNo,
        named: Option<Ref>,
        log: &mut HookLog,
    ) {
        self.touch(facts, named, log);
        if named.is_none() {
            log.begin_turn();
        }
        let class = facts.calls.get(call as usize).map_or(ToolClass::Other, |call| call.class);
        let is_spawn = class == ToolClass::Spawn;
        if named.is_none() {
            let owner = self.owner(facts, identities, is_spawn);
            log.owners.entry(call).or_insert(owner);
            self.open_calls.insert(call, Some(owner.0).filter(|_| owner.1 > Basis::Stack));
        }
        if is_spawn {
            self.open_spawns.insert(call);
            self.unstarted += 1;
            self.open_calls.remove(&call);
        }
    }

    fn finish_spawn(&mut self, facts: &Facts, call: CallNo, launched: bool) {
        let spawn = facts.calls.get(call as usize).and_then(|call| call.spawn.as_ref());
        let agent = spawn.and_then(|spawn| value(&spawn.agent));
        if !launched {
            self.unstarted = self.unstarted.min(self.open_spawns.len());
            return;
        }
        match agent {
            Some(agent) if self.stack.contains(&agent) => self.background.push(agent),
            _ => self.launched += 1,
        }
    }

    fn owner(&self, facts: &Facts, identities: &Identities, is_spawn: bool) -> (No, Basis) {
        if facts.has_identity {
            return (0, Basis::Wire);
        }
        // There is no nesting on the versions whose wire has no identity (up to 2.1.110).
        if is_spawn {
            return (0, Basis::Sole);
        }
        let is_quiet = self.background.is_empty() && self.launched == 0;
        if self.stack.is_empty() && self.open_spawns.is_empty() && is_quiet {
            return (0, Basis::Sole);
        }
        let top = self.stack.last().and_then(|id| identities.by_id(facts, id));
        let roots_other_calls = self.open_calls.values().any(|owner| *owner == Some(0));
        match top {
            Some(agent)
                if self.stack.len() == 1
                    && self.open_spawns.len() == 1
                    && self.unstarted == 0
                    && is_quiet
                    && !roots_other_calls
                    && self.fits_the_open_spawn(facts) =>
            {
                (agent, Basis::Sole)
            }
            Some(agent) => (agent, Basis::Stack),
            None => (0, Basis::Unknown),
        }
    }
}

impl Replay {
    /// Whether the agent on top can be the open spawn call's by its type. A warm-up that still runs is not.
    fn fits_the_open_spawn(&self, facts: &Facts) -> bool {
        let asked = self.open_spawns.iter().next().and_then(|call| facts.calls.get(*call as usize));
        let asked = asked.and_then(|call| call.spawn.as_ref()).and_then(|spawn| value(&spawn.agent_type));
        let top = self.stack.last().and_then(|id| facts.by_id.get(id));
        let started =
            top.and_then(|name| facts.agents.get(*name as usize)).and_then(|agent| value(&agent.agent_type));
        asked.is_none() || started.is_none() || asked == started
    }
}

fn remove_last(stack: &mut Vec<Text>, agent: &str) {
    if let Some(at) = stack.iter().rposition(|known| &**known == agent) {
        stack.remove(at);
    }
}
