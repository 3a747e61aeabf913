//! Agent identities: merges the [`AgentFacts`](crate::facts::AgentFacts) that describe the same agent, and decides
//! which agents exist.
//!
//! A spawn call that was refused, or that nothing proves to have started an agent, makes none. An agent is linked to
//! its spawn call by, best first: the harness's record or the agent's own lines; the call's result; the start that
//! names the call, unless that is not certain and the agent's prompt is the task of another call; the order of hooks,
//! if only one call can have started it; its exact prompt, the earliest call of equal prompts (design, "Identity where
//! the wire gives little"); a parent with only one call that can have been it.

use std::{cell::LazyCell, collections::BTreeMap};

use hashbrown::{HashMap, HashSet};
use subscope_model::{AgentId, Millis, Outcome, SourceKind, SpawnMode, Text, ToolClass};

use crate::facts::{
    AgentKey, AgentRef, BatchClaim, CallFacts, CallIndex, FactOrder, Facts, HookStepKind, ParentClaim, ROOT,
    best_value,
};

/// Index of an [`AgentIdentity`]; the root is 0.
pub(crate) type AgentIndex = usize;

/// One agent, with all facts that describe it.
#[derive(Debug)]
pub(crate) struct AgentIdentity {
    pub(crate) id: AgentId,
    pub(crate) refs: Vec<AgentRef>,
    /// Its spawn call.
    pub(crate) origin: Option<CallIndex>,
    /// Whether only its open spawn call reports it.
    pub(crate) is_pending: bool,
    /// The call that started it together with others.
    pub(crate) batch: Option<CallIndex>,
    /// Agent that certainly started it, where the call is unknown.
    pub(crate) starter: Option<AgentRef>,
}

impl AgentIdentity {
    fn new(id: AgentId, origin: Option<CallIndex>) -> Self {
        Self { id, refs: Vec::new(), origin, is_pending: false, batch: None, starter: None }
    }
}

/// All agents of a session.
#[derive(Debug)]
pub(crate) struct Identities {
    pub(crate) all: Vec<AgentIdentity>,
    of_ref: Vec<Option<AgentIndex>>,
    of_call: HashMap<CallIndex, AgentIndex>,
}

impl Identities {
    /// Returns the agent that facts describe; `None` if they do not prove an agent.
    pub(crate) fn of(&self, agent_ref: AgentRef) -> Option<AgentIndex> {
        self.of_ref.get(agent_ref as usize).copied().flatten()
    }

    /// Returns the agent that a call started.
    pub(crate) fn started_by(&self, call: CallIndex) -> Option<AgentIndex> {
        self.of_call.get(&call).copied()
    }

    /// Returns the agent with an id that any source reported.
    pub(crate) fn by_id(&self, facts: &Facts, id: &str) -> Option<AgentIndex> {
        facts.by_id.get(id).and_then(|agent_ref| self.of(*agent_ref))
    }
}

/// Certainty of a link between spawn call and agent, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LinkCertainty {
    /// The harness's record or the agent's own lines name the call.
    Recorded,
    /// The call's result names the agent.
    Result,
    /// A start of the agent names the call.
    Trigger,
    /// By the order of hooks, no other call can have started the agent.
    Elimination,
}

/// Derives the agents of a session.
pub(crate) fn derive_identities(facts: &Facts) -> Identities {
    let HookLinks { origins, starters, waiting_at, .. } = &link_by_hook_order(facts);
    let origin_of = link_agents(facts, origins);
    let root = AgentIdentity::new(AgentId::from(AgentId::ROOT), None);
    let mut all = vec![AgentIdentity { refs: vec![ROOT], ..root }];
    let mut of_ref: Vec<Option<AgentIndex>> = vec![None; facts.agents.len()];
    of_ref[ROOT as usize] = Some(0);
    let mut of_call: HashMap<CallIndex, AgentIndex> = HashMap::new();
    let mut agent_refs: Vec<AgentRef> =
        (1..facts.agents.len() as AgentRef).filter(|agent_ref| is_proven(facts, *agent_ref)).collect();
    // Harness ids first: facts without one are merged into those with one.
    agent_refs
        .sort_by_key(|agent_ref| (rank(facts, *agent_ref), facts.agent(*agent_ref).last_seen, *agent_ref));
    for agent_ref in agent_refs {
        let origin = origin_of.get(&agent_ref).copied();
        let known = origin.and_then(|call| of_call.get(&call).copied());
        let number = known.unwrap_or(all.len());
        if known.is_none() {
            all.push(AgentIdentity::new(id_of(facts, agent_ref, origin), origin));
            if let Some(call) = origin {
                of_call.insert(call, number);
            }
        }
        let identity = &mut all[number];
        identity.refs.push(agent_ref);
        identity.batch = identity.batch.or_else(|| batch_of(facts, agent_ref));
        identity.starter = identity.starter.or_else(|| starters.get(&agent_ref).copied());
        of_ref[agent_ref as usize] = Some(number);
    }
    let starting = starting_calls(facts, &origin_of, starters, waiting_at);
    let resuming: HashSet<&Text> =
        facts.agents.iter().flat_map(|agent| &agent.triggers).map(|trigger| &trigger.call).collect();
    for (number, call) in facts.numbered_calls() {
        // A call that gave a known agent its next turn has started none.
        if of_call.contains_key(&number) || call.id.as_ref().is_some_and(|id| resuming.contains(id)) {
            continue;
        }
        if let Some(is_pending) =
            prove_agent(facts, call).filter(|pending| !(*pending && starting.contains(&number)))
        {
            let id = reported_id(call).filter(|id| !all.iter().any(|identity| identity.id == *id));
            of_call.insert(number, all.len());
            // Facts under its id belong to it, though they do not prove an agent by themselves.
            let refs: Vec<AgentRef> = id.iter().filter_map(|id| facts.by_id.get(&*id.0).copied()).collect();
            refs.iter().for_each(|agent_ref| of_ref[*agent_ref as usize] = Some(all.len()));
            let identity = AgentIdentity::new(id.unwrap_or_else(|| call_id(call)), Some(number));
            all.push(AgentIdentity { is_pending, refs, ..identity });
        }
    }
    assign_fallback_ids(facts, &mut all);
    Identities { all, of_ref, of_call }
}

fn is_proven(facts: &Facts, agent_ref: AgentRef) -> bool {
    let agent = facts.agent(agent_ref);
    agent.is_proven && !matches!(&agent.key, AgentKey::Id(id) if is_ghost(facts, id))
}

/// Returns whether an agent is a ghost: only stop hooks with an empty type report it (requirement 3.4).
pub(crate) fn is_ghost(facts: &Facts, id: &str) -> bool {
    let Some(ends) = facts.ends.get(id) else { return false };
    let is_heard = facts.by_id.get(id).is_some_and(|agent_ref| facts.agent(*agent_ref).is_proven);
    !is_heard && ends.iter().all(|end| end.stop_type.as_deref() == Some(""))
}

fn rank(facts: &Facts, agent_ref: AgentRef) -> u8 {
    match facts.agent(agent_ref).key {
        AgentKey::Root => 0,
        AgentKey::Id(_) if facts.agent(agent_ref).has_stand_in_id => 2,
        AgentKey::Id(_) => 1,
        AgentKey::Call(_) => 2,
        AgentKey::Chain => 3,
    }
}

/// Returns the spawn call of each agent's facts. Each call starts one agent.
fn link_agents(facts: &Facts, by_elimination: &HashMap<AgentRef, CallIndex>) -> HashMap<AgentRef, CallIndex> {
    let mut candidates: Vec<(LinkCertainty, Option<FactOrder>, CallIndex, AgentRef)> = Vec::new();
    let task_of = |call: &CallFacts| call.spawn.as_ref().and_then(|spawn| best_value(&spawn.prompt));
    let tasks: LazyCell<HashSet<Text>, _> =
        LazyCell::new(|| facts.numbered_calls().filter_map(|(_, call)| task_of(call)).collect());
    for (agent_ref, agent) in (0..).zip(&facts.agents) {
        if let AgentKey::Call(call) = agent.key {
            candidates.push((LinkCertainty::Recorded, None, call, agent_ref));
        }
        for (call, is_certain) in &agent.origins {
            let call_facts = facts.call(*call);
            let is_other_tool = call_facts.name.is_some() && call_facts.class != ToolClass::Spawn;
            if *is_certain {
                candidates.push((LinkCertainty::Recorded, None, *call, agent_ref));
            } else if !is_other_tool {
                // The task of another call is better evidence than a report that is not certain.
                let task =
                    best_value(&agent.prompt).filter(|task| task_of(call_facts).as_ref() != Some(task));
                if task.is_some_and(|task| tasks.contains(&task)) {
                    continue;
                }
                let at = agent.triggers.iter().map(|trigger| trigger.order).min();
                candidates.push((LinkCertainty::Trigger, at, *call, agent_ref));
            }
        }
    }
    for (number, call) in facts.numbered_calls() {
        let Some(spawn) = &call.spawn else { continue };
        let agent = best_value(&spawn.agent);
        let is_spawn = (call.class == ToolClass::Spawn || spawn.is_forked || call.name.is_none())
            && facts.is_counted(call);
        if let Some(agent_ref) = agent.filter(|_| is_spawn).and_then(|id| facts.by_id.get(&id).copied()) {
            candidates.push((LinkCertainty::Result, None, number, agent_ref));
        }
    }
    candidates.extend(
        by_elimination.iter().map(|(agent_ref, call)| (LinkCertainty::Elimination, None, *call, *agent_ref)),
    );
    candidates.sort_by_key(|candidate| (candidate.0, candidate.1, candidate.2));
    let mut origin_of: HashMap<AgentRef, CallIndex> = HashMap::new();
    let mut named: HashMap<CallIndex, AgentRef> = HashMap::new();
    for (_, _, call, agent_ref) in candidates {
        let agent = facts.agent(agent_ref);
        if matches!(agent.key, AgentKey::Call(_)) {
            origin_of.insert(agent_ref, call);
        } else if agent.has_stand_in_id {
            origin_of.entry(agent_ref).or_insert(call);
        } else if !origin_of.contains_key(&agent_ref) && !named.contains_key(&call) {
            origin_of.insert(agent_ref, call);
            named.insert(call, agent_ref);
        }
    }
    link_by_name(facts, &mut origin_of, &mut named);
    link_by_prompt(facts, &mut origin_of, &mut named);
    link_by_parent(facts, &mut origin_of, &mut named);
    origin_of
}

/// Returns the call that started an agent together with others.
fn batch_of(facts: &Facts, agent_ref: AgentRef) -> Option<CallIndex> {
    match facts.agent(agent_ref).batch.as_ref()? {
        BatchClaim::Call(call) => Some(*call),
        BatchClaim::Run(run) => facts.started_runs.get(run).copied(),
    }
}

/// What the order of hooks shows about the agents that start.
#[derive(Default)]
struct HookLinks {
    /// Spawn calls of agents that no other call can have started.
    origins: HashMap<AgentRef, CallIndex>,
    /// Certain starters of agents.
    starters: HashMap<AgentRef, AgentRef>,
    /// Spawn calls that can have started an agent: those that waited for theirs.
    waiting_at: HashMap<AgentRef, Vec<CallIndex>>,
    /// Calls that wait for their agents, with their callers.
    waiting: Vec<(CallIndex, AgentRef)>,
    /// Waiting calls of which one has started an agent, unknown which.
    undecided: HashSet<CallIndex>,
}

/// Derives spawn calls and parents of agents from the order of hooks: an agent that starts while exactly one spawn call
/// of its type waits for its agent was started by that call; one that starts while all such calls have the same caller
/// was started by that caller. After a start that several calls could have made, none of them is assigned until it is
/// over.
fn link_by_hook_order(facts: &Facts) -> HookLinks {
    let mut links = HookLinks::default();
    for step in facts.sorted_hooks() {
        match &step.kind {
            HookStepKind::Pre { call, named, .. } => {
                if facts.call(*call).class == ToolClass::Spawn {
                    links.waiting.push((*call, named.unwrap_or(ROOT)));
                }
            }
            HookStepKind::Post { call, .. } => links.waiting.retain(|(known, _)| known != call),
            HookStepKind::Start { agent } => {
                // A resumed agent was started earlier.
                let new = facts.by_id.get(agent).filter(|agent| facts.agent(**agent).triggers.is_empty());
                if let Some(agent_ref) = new.filter(|agent| !links.waiting_at.contains_key(*agent)) {
                    links.start(facts, *agent_ref);
                }
            }
            HookStepKind::Prompt { .. }
            | HookStepKind::Stop { .. }
            | HookStepKind::Permission { .. }
            | HookStepKind::PermissionReply { .. }
            | HookStepKind::TurnEnd { .. }
            | HookStepKind::SessionStart { .. }
            | HookStepKind::AwaitsPrompt { .. }
            | HookStepKind::SessionEnd => {}
        }
    }
    links
}

impl HookLinks {
    fn start(&mut self, facts: &Facts, agent_ref: AgentRef) {
        let fits = |(call, _): &&(CallIndex, AgentRef)| has_fitting_type(facts, *call, agent_ref);
        let fitting: Vec<(CallIndex, AgentRef)> = self.waiting.iter().filter(fits).copied().collect();
        // A type that no call asks for is another name of one of them.
        let candidates = if fitting.is_empty() { &self.waiting } else { &fitting };
        if let Some((_, caller)) = candidates.first().copied()
            && candidates.iter().all(|(_, known)| *known == caller)
        {
            self.starters.insert(agent_ref, caller);
        }
        if candidates.len() > 1 {
            self.undecided.extend(candidates.iter().map(|(call, _)| *call));
        }
        if let [(call, _)] = fitting[..]
            && !self.undecided.contains(&call)
        {
            self.origins.insert(agent_ref, call);
            self.waiting.retain(|(known, _)| *known != call);
        }
        self.waiting_at.insert(agent_ref, fitting.into_iter().map(|(call, _)| call).collect());
    }
}

/// Returns the open spawn calls whose agents are known under ids of their own, though not which call started which: each
/// such agent uses up one call of its type and caller, so that none is counted twice.
fn starting_calls(
    facts: &Facts,
    origin_of: &HashMap<AgentRef, CallIndex>,
    starters: &HashMap<AgentRef, AgentRef>,
    waiting_at: &HashMap<AgentRef, Vec<CallIndex>>,
) -> HashSet<CallIndex> {
    let linked: HashSet<CallIndex> = origin_of.values().copied().collect();
    let mut calls: Vec<(CallIndex, &CallFacts)> = facts.numbered_calls().collect();
    calls.retain(|(number, call)| prove_agent(facts, call) == Some(true) && !linked.contains(number));
    if calls.is_empty() {
        return HashSet::new();
    }
    calls.sort_by_key(|(_, call)| (call.order(), &call.id));
    let unlinked = |agent_ref: &AgentRef| {
        let agent = facts.agent(*agent_ref);
        let is_started = agent.triggers.is_empty() && agent.batch.is_none() && !agent.detached;
        matches!(agent.key, AgentKey::Id(_))
            && is_started
            && !agent.is_warmup
            && !origin_of.contains_key(agent_ref)
            && is_proven(facts, *agent_ref)
    };
    let mut agents: Vec<AgentRef> = (1..facts.agents.len() as AgentRef).filter(unlinked).collect();
    // Those that fit few calls first.
    agents.sort_by_cached_key(|agent_ref| {
        let agent = facts.agent(*agent_ref);
        let AgentKey::Id(id) = &agent.key else { return (true, None) };
        (agent.agent_type.is_none(), Some(id.clone()))
    });
    let begun = facts.hooks.iter().filter_map(|step| {
        let HookStepKind::Pre { call, .. } = &step.kind else { return None };
        Some(*call)
    });
    let hooked: HashSet<CallIndex> = begun.collect();
    let mut starting = HashSet::new();
    for agent_ref in agents {
        let agent = facts.agent(agent_ref);
        let caller = starters.get(&agent_ref).copied().or_else(|| claimed_parent(facts, agent_ref));
        let first = agent.span.get().map(|(first, _)| first);
        let can_have_started = |(number, call): &&(CallIndex, &CallFacts)| {
            let waited = match waiting_at.get(&agent_ref) {
                Some(calls) if hooked.contains(number) => calls.contains(number),
                Some(_) | None => first.zip(call.begun_at()).is_none_or(|(first, begun)| begun <= first),
            };
            let is_by =
                |caller| call.owners.is_empty() || call.owners.iter().any(|(owner, _)| *owner == caller);
            waited
                && !starting.contains(number)
                && caller.is_none_or(is_by)
                && has_fitting_type(facts, *number, agent_ref)
        };
        let fitting = calls.iter().filter(can_have_started);
        let has_type = |call: &CallFacts| call.spawn.as_ref().is_some_and(|spawn| spawn.agent_type.is_some());
        if let Some((number, _)) = fitting.min_by_key(|(_, call)| !has_type(call)) {
            starting.insert(*number);
        }
    }
    starting
}

/// Returns the parent that a source names.
fn claimed_parent(facts: &Facts, agent_ref: AgentRef) -> Option<AgentRef> {
    match facts.agent(agent_ref).parent.as_ref()? {
        ParentClaim::Root => Some(ROOT),
        ParentClaim::Agent(id) => facts.by_id.get(id).copied(),
    }
}

/// Whether call and agent have the same agent type, or one of them has none.
pub(crate) fn has_fitting_type(facts: &Facts, call: CallIndex, agent_ref: AgentRef) -> bool {
    let asked = facts.call(call).spawn.as_ref().and_then(|spawn| best_value(&spawn.agent_type));
    let reported = best_value(&facts.agent(agent_ref).agent_type);
    asked.is_none() || reported.is_none() || asked == reported
}

/// Links teammates to the first free call that started one of their name.
fn link_by_name(
    facts: &Facts,
    origin_of: &mut HashMap<AgentRef, CallIndex>,
    named: &mut HashMap<CallIndex, AgentRef>,
) {
    let mut calls: Vec<(CallIndex, &CallFacts)> = facts.numbered_calls().collect();
    calls.retain(|(_, call)| call.spawn.as_ref().is_some_and(|spawn| spawn.is_teammate));
    calls.sort_by_key(|(_, call)| (call.order(), &call.id));
    let mut agents: Vec<(Option<FactOrder>, AgentRef, Text)> = Vec::new();
    for (agent_ref, agent) in (0..).zip(&facts.agents).skip(1) {
        if let Some(name) = best_value(&agent.name)
            && agent.is_proven
            && !origin_of.contains_key(&agent_ref)
        {
            agents.push((agent.last_seen, agent_ref, name));
        }
    }
    agents.sort();
    for (_, agent_ref, name) in agents {
        let is_of_name = |(number, call): &&(CallIndex, &CallFacts)| {
            let asked = call.spawn.as_ref().and_then(|spawn| best_value(&spawn.name));
            asked.as_ref() == Some(&name) && !named.contains_key(number)
        };
        if let Some((call, _)) = calls.iter().find(is_of_name) {
            origin_of.insert(agent_ref, *call);
            named.insert(*call, agent_ref);
        }
    }
}

/// Links the remaining agents to the first free spawn call with exactly the same prompt.
fn link_by_prompt(
    facts: &Facts,
    origin_of: &mut HashMap<AgentRef, CallIndex>,
    named: &mut HashMap<CallIndex, AgentRef>,
) {
    let mut free: BTreeMap<Text, Vec<CallIndex>> = BTreeMap::new();
    let mut calls: Vec<(CallIndex, &CallFacts)> = facts.numbered_calls().collect();
    calls.retain(|(number, call)| {
        let is_free = call.class == ToolClass::Spawn && !is_refused(call) && facts.is_counted(call);
        is_free && !named.contains_key(number)
    });
    calls.sort_by_key(|(_, call)| call.order());
    for (number, call) in calls {
        if let Some(prompt) = call.spawn.as_ref().and_then(|spawn| best_value(&spawn.prompt)) {
            free.entry(prompt).or_default().push(number);
        }
    }
    let mut unlinked: Vec<(FactOrder, AgentRef, Text)> = Vec::new();
    for (agent_ref, agent) in (0..).zip(&facts.agents).skip(1) {
        if agent.is_proven
            && !agent.detached
            && !origin_of.contains_key(&agent_ref)
            && let (Some(order), Some(prompt)) = (agent.last_seen, best_value(&agent.prompt))
        {
            let first = agent.span.get().map_or(order, |(from, _)| FactOrder { time: from, ..order });
            unlinked.push((first, agent_ref, prompt));
        }
    }
    unlinked.sort();
    let mut link = |agent_ref: AgentRef, call: CallIndex| {
        origin_of.insert(agent_ref, call);
        named.insert(call, agent_ref);
    };
    unlinked.retain(|(_, agent_ref, prompt)| {
        let Some(calls) = free.get_mut(prompt).filter(|calls| !calls.is_empty()) else { return true };
        link(*agent_ref, calls.remove(0));
        false
    });
    // Some harnesses put the task of a call into the words of the agent's kind.
    for (first, agent_ref, prompt) in unlinked {
        let tasks = free.iter_mut().filter(|(task, _)| prompt.contains(&***task));
        let can_have_started = |number: &CallIndex| {
            let call = facts.call(*number);
            is_of_unnamed(call)
                && call.begun_at().is_some_and(|begun| begun <= first.time)
                && !has_ended_before(call, first.time)
        };
        let fitting = tasks.filter_map(|(task, calls)| {
            let at = calls.iter().position(can_have_started)?;
            Some((task.len(), calls, at))
        });
        if let Some((_, calls, at)) = fitting.max_by_key(|(length, ..)| *length) {
            link(agent_ref, calls.remove(at));
        }
    }
}

/// Whether a call is known to have started an agent that its result does not name.
fn is_of_unnamed(call: &CallFacts) -> bool {
    call.spawn.as_ref().is_some_and(|spawn| spawn.proves_agent && best_value(&spawn.agent).is_none())
}

/// Links agents whose parent a source names to the only spawn call of that parent that can have started them: log
/// events name parent and type of an agent, and not the call; the results of some calls name no agent. What is linked
/// leaves fewer calls to the others.
fn link_by_parent(
    facts: &Facts,
    origin_of: &mut HashMap<AgentRef, CallIndex>,
    named: &mut HashMap<CallIndex, AgentRef>,
) {
    let mut calls: Vec<(CallIndex, &CallFacts)> = facts.numbered_calls().collect();
    calls.retain(|(number, call)| {
        let has_failed = call.ends.iter().any(|end| end.outcome == Outcome::Error);
        let is_free = call.class == ToolClass::Spawn && !is_refused(call) && !named.contains_key(number);
        let is_logged = call.seen_in(SourceKind::Otel) && !has_failed;
        is_free && (is_logged || is_of_unnamed(call) && facts.is_counted(call))
    });
    if calls.is_empty() {
        return;
    }
    let mut agents: Vec<(AgentRef, AgentRef, Millis)> = Vec::new();
    for (agent_ref, agent) in (0..).zip(&facts.agents).skip(1) {
        if is_proven(facts, agent_ref)
            && !agent.detached
            // Spans say which call started an agent. One whose span has not come would take the call of another.
            && !agent.has_stand_in_id
            && !origin_of.contains_key(&agent_ref)
            && let (Some(parent), Some((first, _))) = (claimed_parent(facts, agent_ref), agent.span.get())
        {
            agents.push((agent_ref, parent, first));
        }
    }
    loop {
        // How many agents each call can have started, and the calls that can have started each agent.
        let mut uses: HashMap<CallIndex, usize> = HashMap::new();
        let mut fitting: Vec<(AgentRef, Vec<CallIndex>)> = Vec::new();
        for (agent_ref, parent, first) in &agents {
            let can_have_started = |(number, call): &&(CallIndex, &CallFacts)| {
                call.owners.iter().any(|(owner, _)| owner == parent)
                    && call.begun_at().is_some_and(|begun| begun <= *first)
                    && !has_ended_before(call, *first)
                    && has_fitting_type(facts, *number, *agent_ref)
            };
            let found: Vec<CallIndex> =
                calls.iter().filter(can_have_started).map(|(call, _)| *call).collect();
            found.iter().for_each(|call| *uses.entry(*call).or_default() += 1);
            fitting.push((*agent_ref, found));
        }
        let is_sure = |calls: &[CallIndex]| matches!(calls, [only] if uses.get(only) == Some(&1));
        let sure: Vec<(AgentRef, CallIndex)> = fitting
            .iter()
            .filter(|(_, calls)| is_sure(calls))
            .map(|(agent_ref, calls)| (*agent_ref, calls[0]))
            .collect();
        if sure.is_empty() {
            return;
        }
        for (agent_ref, call) in sure {
            origin_of.insert(agent_ref, call);
            named.insert(call, agent_ref);
            agents.retain(|(known, ..)| *known != agent_ref);
            calls.retain(|(known, _)| *known != call);
        }
    }
}

/// Whether a call in the foreground ended before a time. A call in the background ends at once.
fn has_ended_before(call: &CallFacts, time: Millis) -> bool {
    let mode = call.spawn.as_ref().and_then(|spawn| best_value(&spawn.mode));
    mode == Some(SpawnMode::Foreground)
        && call.ends.iter().any(|end| end.time.get().is_some_and(|ended| ended < time))
}

fn is_refused(call: &CallFacts) -> bool {
    call.ends.iter().any(|end| end.refused || end.outcome == Outcome::Denied)
}

/// Decides whether a spawn call that is linked to no agent's facts has started one: `Some(true)`: it is pending;
/// `Some(false)`: it was at work; `None`: there is no agent.
fn prove_agent(facts: &Facts, call: &CallFacts) -> Option<bool> {
    if call.class != ToolClass::Spawn || !facts.is_counted(call) {
        return None;
    }
    let streamed = call.seen_in(SourceKind::Stream);
    let on_disk = call.seen_in(SourceKind::Transcript);
    // An agent of a transcript has lines of its own, and one of a stream that reports starts has a start: without them
    // there is no agent.
    let would_show = on_disk || facts.start_reporting_kinds & (1 << SourceKind::Stream as u8) != 0;
    if call.spawn.as_ref().is_some_and(|spawn| spawn.proves_agent) {
        return Some(false);
    }
    let strongest = call.ends.iter().filter(|end| end.outcome != Outcome::Over).min_by_key(|end| end.kind);
    match strongest.map(|end| (end.outcome, end.refused, end.kind)) {
        None if on_disk || streamed => Some(true),
        None => None,
        // Each agent has records of its own.
        Some((_, _, SourceKind::Otel)) => None,
        Some((Outcome::Ok, ..)) => Some(false),
        Some((Outcome::Error, false, SourceKind::Stream)) if !would_show => Some(false),
        Some(_) => None,
    }
}

fn call_id(call: &CallFacts) -> AgentId {
    call.id.clone().map(AgentId).unwrap_or_default()
}

/// Returns the agent id in the result of its spawn call.
fn reported_id(call: &CallFacts) -> Option<AgentId> {
    call.spawn.as_ref().and_then(|spawn| best_value(&spawn.agent)).map(AgentId)
}

fn id_of(facts: &Facts, agent_ref: AgentRef, origin: Option<CallIndex>) -> AgentId {
    match &facts.agent(agent_ref).key {
        AgentKey::Id(id) => AgentId(id.clone()),
        AgentKey::Root | AgentKey::Call(_) | AgentKey::Chain => {
            let call = origin.map(|call| facts.call(call));
            call.map(|call| reported_id(call).unwrap_or_else(|| call_id(call))).unwrap_or_default()
        }
    }
}

/// Assigns `agent-<n>`, in order of start, to agents without an id.
fn assign_fallback_ids(facts: &Facts, all: &mut [AgentIdentity]) {
    let mut nameless: Vec<(Option<FactOrder>, usize)> = Vec::new();
    for (number, identity) in all.iter().enumerate() {
        if identity.id.is_empty() {
            let first = identity.refs.iter().filter_map(|agent_ref| facts.agent(*agent_ref).last_seen).min();
            let begin = identity.origin.and_then(|call| facts.call(call).order().1);
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

#[cfg(test)]
mod tests {
    use subscope_model::{
        AgentEnd, AgentStatus, CallEnd, Claim, EndEvidence, Fact, Outcome, Spawn, SpawnResult,
    };

    use super::*;
    use crate::test_session::{ROOT, TestSession, agent, agent_end, call_end, raw, spawn_call, spawned};

    const TRANSCRIPT: SourceKind = SourceKind::Transcript;
    const HOOK: SourceKind = SourceKind::Hook;

    fn ids(session: &TestSession) -> Vec<String> {
        session.identities().all.iter().map(|identity| identity.id.to_string()).collect()
    }

    fn prompt(text: &str) -> Fact<'_> {
        Fact::Prompt { prompt_id: None, text: raw(text), what: subscope_model::PromptKind::Asked }
    }

    fn start(id: &str) -> Fact<'_> {
        Fact::Spawn(Spawn { agent: Some(id), starts: true, ..Spawn::default() })
    }

    /// The spawn call of an agent.
    fn origin(session: &TestSession, id: &str) -> Option<Text> {
        let identities = session.identities();
        let call = identities.all.iter().find(|identity| &*identity.id.0 == id).unwrap().origin?;
        session.facts().calls[call as usize].id.clone()
    }

    #[test]
    fn open_spawn_call_is_a_pending_agent() {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 1, ROOT, spawn_call("c1", r#""do it""#));
        assert_eq!(ids(&session), ["root", "c1"]);
        assert!(session.identities().all[1].is_pending);
    }

    #[test]
    fn refused_spawn_call_makes_no_agent() {
        for end in [
            call_end("c1", Outcome::Denied),
            CallEnd { refused: true, ..call_end("c1", Outcome::Error) },
            call_end("c1", Outcome::Error),
        ] {
            let mut session = TestSession::new();
            session.add(TRANSCRIPT, 1, ROOT, spawn_call("c1", r#""do it""#));
            session.add(TRANSCRIPT, 2, ROOT, Fact::CallEnd(end.clone()));
            assert_eq!(ids(&session), ["root"], "{end:?}");
        }
    }

    #[test]
    fn facts_by_call_and_by_id_are_one_agent_with_the_harness_id() {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 1, ROOT, spawn_call("c1", r#""do it""#));
        session.add(SourceKind::Stream, 2, Claim::SpawnedBy("c1"), Fact::Activity);
        session.add(TRANSCRIPT, 3, agent("a1"), Fact::Activity);
        assert_eq!(ids(&session), ["root", "a1", "c1"]);
        session.add(TRANSCRIPT, 3, agent("a1"), spawned("a1", "c1"));
        assert_eq!(ids(&session), ["root", "a1"]);
        assert_eq!(session.identities().all[1].refs.len(), 2);
    }

    #[test]
    fn result_of_a_spawn_call_wins_over_an_equal_prompt() {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 1, ROOT, spawn_call("c1", r#""do it""#));
        session.add(TRANSCRIPT, 2, ROOT, spawn_call("c2", r#""do it""#));
        session.add(TRANSCRIPT, 3, agent("a1"), prompt(r#""do it""#));
        assert_eq!(origin(&session, "a1").as_deref(), Some("c1"));
        let spawn = SpawnResult { agent: Some("a1"), ..SpawnResult::default() };
        let end = CallEnd { spawn: Some(spawn), ..call_end("c2", Outcome::Ok) };
        session.add(TRANSCRIPT, 4, ROOT, Fact::CallEnd(end));
        assert_eq!(origin(&session, "a1").as_deref(), Some("c2"));
    }

    #[test]
    fn equal_prompts_are_linked_in_order_of_the_agents_first_activity() {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 0, ROOT, spawn_call("c0", r#""x""#));
        session.add(TRANSCRIPT, 0, ROOT, Fact::CallEnd(call_end("c0", Outcome::Denied)));
        for (time, call, text) in [(1, "c1", r#""x""#), (2, "c2", r#""x""#), (3, "c3", r#""y""#)] {
            session.add(TRANSCRIPT, time, ROOT, spawn_call(call, text));
        }
        for (time, id, text) in [(6, "late", r#""x""#), (5, "early", r#""x""#), (4, "other", r#""z""#)] {
            session.add(TRANSCRIPT, time, agent(id), prompt(text));
        }
        assert_eq!(origin(&session, "early").as_deref(), Some("c1"));
        assert_eq!(origin(&session, "late").as_deref(), Some("c2"));
        assert_eq!(origin(&session, "other"), None);
    }

    #[test]
    fn stop_hook_without_a_type_is_a_ghost_until_the_agent_is_active() {
        let mut session = TestSession::new();
        let Fact::AgentEnd(end) = agent_end("g", AgentStatus::Completed, EndEvidence::StopHook) else {
            panic!()
        };
        session.add(HOOK, 1, Claim::Silent, Fact::AgentEnd(AgentEnd { agent_type: Some("".into()), ..end }));
        assert!(is_ghost(session.facts(), "g"));
        assert_eq!(ids(&session), ["root"]);
        session.add(TRANSCRIPT, 2, agent("g"), Fact::Activity);
        assert!(!is_ghost(session.facts(), "g"));
        assert_eq!(ids(&session), ["root", "g"]);
    }

    #[test]
    fn hook_order_links_a_start_only_if_one_spawn_call_waits() {
        let mut session = TestSession::new();
        session.add(HOOK, 1, Claim::Silent, spawn_call("c1", r#""x""#));
        session.add(HOOK, 2, Claim::Silent, start("a1"));
        assert_eq!(origin(&session, "a1").as_deref(), Some("c1"));

        let mut session = TestSession::new();
        session.add(HOOK, 1, Claim::Silent, spawn_call("c1", r#""x""#));
        session.add(HOOK, 2, Claim::Silent, spawn_call("c2", r#""x""#));
        session.add(HOOK, 3, Claim::Silent, start("a1"));
        assert_eq!(origin(&session, "a1"), None);
        assert_eq!(session.identities().all[session.agent("a1")].starter, Some(crate::facts::ROOT));
    }

    #[test]
    fn agents_without_an_id_are_numbered_by_their_activity() {
        let mut session = TestSession::new();
        for (time, line) in [(9, "l1"), (5, "l2")] {
            session.add(TRANSCRIPT, time, Claim::Chain { line, parent: None }, Fact::Activity);
        }
        session.add(TRANSCRIPT, 10, Claim::Chain { line: "l3", parent: Some("l1") }, Fact::Activity);
        let identities = session.identities();
        let id =
            |line: &str| identities.all[identities.of(session.facts().chains[line]).unwrap()].id.to_string();
        assert_eq!(["l1", "l2", "l3"].map(id), ["agent-2", "agent-1", "agent-2"]);
    }
}
