//! Who is who: which of the names under which agents were told of are one agent, and which exist at all.
//!
//! A spawn call is not yet an agent: a call that was refused, or that nothing proves to have started one, makes none.
//! Links from call to agent, best first: the harness's record or the line itself (certain), the call's own result, the
//! start's trigger, and, where a version has none of these, the exact prompt (design, "Identity where the wire gives
//! little"): of equal prompts the first.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use subscope_model::{AgentId, Outcome, SourceKind, Text, ToolClass};

use crate::facts::{BatchClaim, CallFacts, CallNo, Facts, HookStep, HookWhat, Key, Order, ROOT, Ref, value};

/// Names a [`AgentIdentity`]; the root is 0.
pub(crate) type No = usize;

/// One agent: all names that mean it.
#[derive(Debug)]
pub(crate) struct AgentIdentity {
    pub(crate) id: AgentId,
    pub(crate) refs: Vec<Ref>,
    /// The call that started it.
    pub(crate) origin: Option<CallNo>,
    /// Whether only its open spawn call tells of it.
    pub(crate) is_pending: bool,
    /// The call that started it together with others.
    pub(crate) batch: Option<CallNo>,
    /// Who certainly started it, though not by which call.
    pub(crate) starter: Option<Ref>,
}

impl AgentIdentity {
    fn new(id: AgentId, origin: Option<CallNo>) -> Self {
        Self { id, refs: Vec::new(), origin, is_pending: false, batch: None, starter: None }
    }
}

/// All agents of a session.
#[derive(Debug)]
pub(crate) struct Identities {
    pub(crate) all: Vec<AgentIdentity>,
    of_ref: Vec<Option<No>>,
    of_call: HashMap<CallNo, No>,
}

impl Identities {
    /// The agent that a name means; `None` for names that only mention one.
    pub(crate) fn of(&self, name: Ref) -> Option<No> {
        self.of_ref.get(name as usize).copied().flatten()
    }

    /// The agent that a call started.
    pub(crate) fn started_by(&self, call: CallNo) -> Option<No> {
        self.of_call.get(&call).copied()
    }

    /// The agent of an id told somewhere.
    pub(crate) fn by_id(&self, facts: &Facts, id: &str) -> Option<No> {
        facts.by_id.get(id).and_then(|name| self.of(*name))
    }
}

/// How certain a link between call and agent is, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Certainty {
    Recorded,
    Result,
    Trigger,
    Elimination,
}

/// Concludes who is who. `is_over` says that nothing more will come from this session.
pub(crate) fn identities(facts: &Facts, is_over: bool) -> Identities {
    let (by_elimination, starters) = hook_starts(facts);
    let origin_of = link(facts, &by_elimination);
    let mut all = vec![AgentIdentity::new(AgentId::from(AgentId::ROOT), None)];
    if let Some(root) = all.first_mut() {
        root.refs.push(ROOT);
    }
    let mut of_ref: Vec<Option<No>> = vec![None; facts.agents.len()];
    let mut of_call: HashMap<CallNo, No> = HashMap::new();
    if let Some(root) = of_ref.first_mut() {
        *root = Some(0);
    }
    let mut names: Vec<Ref> = (1..facts.agents.len() as Ref).filter(|name| is_proven(facts, *name)).collect();
    // Real ids first, so that a provisional name joins the real one and not the other way round.
    names.sort_by_key(|name| (rank(facts, *name), heard(facts, *name), *name));
    for name in names {
        let origin = origin_of.get(&name).copied();
        let known = origin.and_then(|call| of_call.get(&call).copied());
        let number = known.unwrap_or(all.len());
        if known.is_none() {
            all.push(AgentIdentity::new(id_of(facts, name, origin), origin));
            if let Some(call) = origin {
                of_call.insert(call, number);
            }
        }
        if let Some(identity) = all.get_mut(number) {
            identity.refs.push(name);
            identity.batch = identity.batch.or_else(|| batch_of(facts, name));
            identity.starter = identity.starter.or_else(|| starters.get(&name).copied());
        }
        if let Some(slot) = of_ref.get_mut(name as usize) {
            *slot = Some(number);
        }
    }
    for (number, call) in facts.calls.iter().enumerate() {
        let number = number as CallNo;
        if of_call.contains_key(&number) {
            continue;
        }
        if let Some(is_pending) = proof(facts, call, is_over) {
            let id = told_id(call).filter(|id| !all.iter().any(|identity| identity.id == *id));
            of_call.insert(number, all.len());
            // What was told of it counts as well, though none of it alone proves an agent.
            let refs: Vec<Ref> = id.iter().filter_map(|id| facts.by_id.get(&*id.0).copied()).collect();
            for name in &refs {
                if let Some(slot) = of_ref.get_mut(*name as usize) {
                    *slot = Some(all.len());
                }
            }
            let identity = AgentIdentity::new(id.unwrap_or_else(|| call_id(call)), Some(number));
            all.push(AgentIdentity { is_pending, refs, ..identity });
        }
    }
    name_the_nameless(facts, &mut all);
    Identities { all, of_ref, of_call }
}

fn is_proven(facts: &Facts, name: Ref) -> bool {
    let Some(agent) = facts.agents.get(name as usize) else { return false };
    if let Key::Id(id) = &agent.key
        && is_ghost(facts, id)
    {
        return false;
    }
    agent.proven
}

/// Whether all that tells of an agent is a stop hook with an empty type (requirement 3.4).
pub(crate) fn is_ghost(facts: &Facts, id: &str) -> bool {
    let Some(ends) = facts.ends.get(id) else { return false };
    let known = facts.by_id.get(id).and_then(|name| facts.agents.get(*name as usize));
    let is_heard = known.is_some_and(|agent| agent.proven);
    !is_heard && ends.iter().all(|end| end.stop_type.as_deref() == Some(""))
}

fn rank(facts: &Facts, name: Ref) -> u8 {
    match facts.agents.get(name as usize).map(|agent| &agent.key) {
        Some(Key::Root) => 0,
        Some(Key::Id(_)) => 1,
        Some(Key::Call(_)) => 2,
        Some(Key::Chain) | None => 3,
    }
}

fn heard(facts: &Facts, name: Ref) -> Option<Order> {
    facts.agents.get(name as usize).and_then(|agent| agent.heard)
}

/// Returns the call that started each name's agent. Each call starts one agent.
fn link(facts: &Facts, by_elimination: &HashMap<Ref, CallNo>) -> HashMap<Ref, CallNo> {
    let mut candidates: Vec<(Certainty, Option<Order>, CallNo, Ref)> = Vec::new();
    for (name, agent) in facts.agents.iter().enumerate() {
        let name = name as Ref;
        if let Key::Call(call) = agent.key {
            candidates.push((Certainty::Recorded, None, call, name));
        }
        for (call, is_certain) in &agent.origins {
            let class = facts.calls.get(*call as usize).map(|call| (call.class, call.name.is_some()));
            let is_other_tool = class.is_some_and(|(class, named)| named && class != ToolClass::Spawn);
            if *is_certain {
                candidates.push((Certainty::Recorded, None, *call, name));
            } else if !is_other_tool {
                let at = agent.triggers.iter().map(|trigger| trigger.order).min();
                candidates.push((Certainty::Trigger, at, *call, name));
            }
        }
    }
    for (number, call) in facts.calls.iter().enumerate() {
        let Some(spawn) = &call.spawn else { continue };
        let agent = value(&spawn.agent);
        let is_spawn =
            (call.class == ToolClass::Spawn || spawn.is_forked || call.name.is_none()) && facts.counts(call);
        if let Some(name) = agent.filter(|_| is_spawn).and_then(|id| facts.by_id.get(&id).copied()) {
            candidates.push((Certainty::Result, None, number as CallNo, name));
        }
    }
    candidates.extend(by_elimination.iter().map(|(name, call)| (Certainty::Elimination, None, *call, *name)));
    candidates.sort_by_key(|candidate| (candidate.0, candidate.1, candidate.2));
    let mut origin_of: HashMap<Ref, CallNo> = HashMap::new();
    let mut named: HashMap<CallNo, Ref> = HashMap::new();
    for (_, _, call, name) in candidates {
        let is_provisional =
            matches!(facts.agents.get(name as usize).map(|agent| &agent.key), Some(Key::Call(_)));
        if is_provisional {
            origin_of.insert(name, call);
        } else if !origin_of.contains_key(&name) && !named.contains_key(&call) {
            origin_of.insert(name, call);
            named.insert(call, name);
        }
    }
    link_by_prompt(facts, &mut origin_of, &mut named);
    origin_of
}

/// The call that started an agent together with others.
fn batch_of(facts: &Facts, name: Ref) -> Option<CallNo> {
    match facts.agents.get(name as usize)?.batch.as_ref()? {
        BatchClaim::Call(call) => Some(*call),
        BatchClaim::Run(run) => facts.batch_runs.get(run).copied(),
    }
}

/// What the order of hooks says of starts that no hook links to a call: an agent that starts while one spawn call waits
/// for its agent is that call's, and one that starts while all waiting calls are of one caller is certainly that
/// caller's. A start that could be of several calls leaves the rest of them undecided until all are over.
fn hook_starts(facts: &Facts) -> (HashMap<Ref, CallNo>, HashMap<Ref, Ref>) {
    let mut steps: Vec<&HookStep> = facts.hooks.iter().collect();
    steps.sort_by_key(|step| (step.source, step.offset));
    let (mut origins, mut starters) = (HashMap::new(), HashMap::new());
    let mut waiting: Vec<(CallNo, Ref)> = Vec::new();
    let mut undecided = false;
    for step in steps {
        match &step.what {
            HookWhat::Pre { call, named } => {
                let class = facts.calls.get(*call as usize).map(|call| call.class);
                if class == Some(ToolClass::Spawn) {
                    waiting.push((*call, named.unwrap_or(ROOT)));
                }
            }
            HookWhat::Post { call, .. } => waiting.retain(|(known, _)| known != call),
            HookWhat::Start { agent } => {
                let Some(name) = facts.by_id.get(agent).copied() else { continue };
                // One that a message woke was started long before.
                let is_woken =
                    facts.agents.get(name as usize).is_some_and(|agent| !agent.triggers.is_empty());
                let is_new = !is_woken && !starters.contains_key(&name) && !origins.contains_key(&name);
                let callers = |caller: Ref| waiting.iter().all(|(_, known)| *known == caller);
                match waiting.first().copied() {
                    Some((call, caller)) if is_new && callers(caller) => {
                        starters.insert(name, caller);
                        if waiting.len() == 1 && !undecided && fits(facts, call, name) {
                            origins.insert(name, call);
                        }
                    }
                    Some(_) | None => {}
                }
                // Which of several calls it was is not known: none of them is free for sure any more.
                undecided |= is_new && waiting.len() > 1;
                if origins.contains_key(&name) {
                    waiting.clear();
                }
            }
            HookWhat::Prompt { .. }
            | HookWhat::Stop { .. }
            | HookWhat::Permission { .. }
            | HookWhat::TurnEnd { .. }
            | HookWhat::SessionStart { .. }
            | HookWhat::AwaitsPrompt
            | HookWhat::SessionEnd => {}
        }
        undecided &= !waiting.is_empty();
    }
    (origins, starters)
}

/// Whether an agent can be a call's by its type.
fn fits(facts: &Facts, call: CallNo, name: Ref) -> bool {
    let asked = facts
        .calls
        .get(call as usize)
        .and_then(|call| call.spawn.as_ref())
        .and_then(|it| value(&it.agent_type));
    let told = facts.agents.get(name as usize).and_then(|agent| value(&agent.agent_type));
    asked.is_none() || told.is_none() || asked == told
}

/// Links agents that nothing else links to the spawn call with exactly their prompt.
fn link_by_prompt(facts: &Facts, origin_of: &mut HashMap<Ref, CallNo>, named: &mut HashMap<CallNo, Ref>) {
    let mut free: BTreeMap<Text, Vec<CallNo>> = BTreeMap::new();
    let mut calls: Vec<CallNo> = (0..facts.calls.len() as CallNo).collect();
    calls.retain(|number| {
        let call = facts.calls.get(*number as usize);
        let is_free =
            |call: &CallFacts| call.class == ToolClass::Spawn && !is_refused(call) && facts.counts(call);
        call.is_some_and(is_free) && !named.contains_key(number)
    });
    calls.sort_by_key(|number| facts.calls.get(*number as usize).map(CallFacts::order));
    for number in calls {
        let call = facts.calls.get(number as usize);
        if let Some(prompt) = call.and_then(|call| call.spawn.as_ref()).and_then(|spawn| value(&spawn.prompt))
        {
            free.entry(prompt).or_default().push(number);
        }
    }
    let mut lonely: Vec<(Order, Ref, Text)> = Vec::new();
    for (name, agent) in facts.agents.iter().enumerate().skip(1) {
        let name = name as Ref;
        if agent.proven
            && !agent.detached
            && !origin_of.contains_key(&name)
            && let (Some(order), Some(prompt)) = (agent.heard, value(&agent.prompt))
        {
            let first = agent.span.get().map_or(order, |(from, _)| Order { time: from, ..order });
            lonely.push((first, name, prompt));
        }
    }
    lonely.sort();
    for (_, name, prompt) in lonely {
        let Some(calls) = free.get_mut(&prompt).filter(|calls| !calls.is_empty()) else { continue };
        let call = calls.remove(0);
        origin_of.insert(name, call);
        named.insert(call, name);
    }
}

fn is_refused(call: &CallFacts) -> bool {
    call.ends.iter().any(|end| end.refused || end.outcome == Outcome::Denied)
}

/// Whether a spawn call that no agent's own trace belongs to has started one: `Some(true)` for one that is only asked
/// for, `Some(false)` for one that was at work, `None` for none.
fn proof(facts: &Facts, call: &CallFacts, is_over: bool) -> Option<bool> {
    if call.class != ToolClass::Spawn || !facts.counts(call) {
        return None;
    }
    let streamed = call.seen_in(SourceKind::Stream);
    let on_disk = call.seen_in(SourceKind::Transcript);
    // On disk an agent has lines of its own, and a telling stream has its start: without these there is none.
    let would_show = on_disk || facts.tells_starts & (1 << SourceKind::Stream as u8) != 0;
    if call.spawn.as_ref().is_some_and(|spawn| spawn.proves_agent) {
        return Some(false);
    }
    let strongest = call.ends.iter().filter(|end| end.outcome != Outcome::Over).min_by_key(|end| end.kind);
    match strongest.map(|end| (end.outcome, end.refused, end.kind)) {
        None if is_over && would_show => None,
        None if on_disk || streamed => Some(true),
        None => None,
        Some((Outcome::Ok, ..)) => Some(false),
        Some((Outcome::Error, false, SourceKind::Stream)) if !would_show => Some(false),
        Some(_) => None,
    }
}

fn call_id(call: &CallFacts) -> AgentId {
    call.id.clone().map_or_else(|| AgentId::from(""), AgentId)
}

/// The agent's real id, where the result of its spawn call is the only one that tells it.
fn told_id(call: &CallFacts) -> Option<AgentId> {
    call.spawn.as_ref().and_then(|spawn| value(&spawn.agent)).map(AgentId)
}

fn id_of(facts: &Facts, name: Ref, origin: Option<CallNo>) -> AgentId {
    match facts.agents.get(name as usize).map(|agent| &agent.key) {
        Some(Key::Id(id)) => AgentId(id.clone()),
        _ => {
            let call = origin.and_then(|call| facts.calls.get(call as usize));
            call.map_or_else(|| AgentId::from(""), |call| told_id(call).unwrap_or_else(|| call_id(call)))
        }
    }
}

/// Gives `agent-<n>`, in order of start, to those that no source names.
fn name_the_nameless(facts: &Facts, all: &mut [AgentIdentity]) {
    let mut nameless: Vec<(Option<Order>, usize)> = Vec::new();
    for (number, identity) in all.iter().enumerate() {
        if identity.id.is_empty() {
            let first = identity.refs.iter().filter_map(|name| heard(facts, *name)).min();
            let begin = identity
                .origin
                .and_then(|call| facts.calls.get(call as usize))
                .and_then(|call| call.order().1);
            nameless.push((first.or(begin), number));
        }
    }
    nameless.sort();
    for (count, (_, number)) in nameless.into_iter().enumerate() {
        if let Some(identity) = all.get_mut(number) {
            identity.id = AgentId::from(format!("agent-{}", count + 1).as_str());
        }
    }
}
