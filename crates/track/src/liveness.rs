//! What running agents are busy with or wait for, since when, and when that becomes a stall.
//!
//! A session's calls are answered one after the other, so the oldest open one is what its agent is at. An agent waits for
//! those that it started only while the calls that started them are open: who runs in the background is not waited for.
//!
//! Silence is an agent's own: what its siblings do says nothing of it. It starts anew when control comes back to the agent
//! (an agent that it started ends), and, once no subagent is active, with any event of the session.

use subscope_model::{
    Agent, AgentStatus, Liveness, LivenessKind, Millis, Outcome, SpawnMode, Text, ToolClass, Tree,
};

use crate::{
    Now,
    facts::{CallFacts, Order},
    hooks::Asked,
    identities::No,
    limits::Spans,
    status::{Derivation, call_end},
};

/// Returns the next moment at which time alone may change a tree's rows: a stall, an inferred permission question, an
/// agent that counts as lost. `None` where nothing waits for time. A moment too many is harmless, one too few is not.
pub fn next_deadline(tree: &Tree, now: &Now<'_>) -> Option<Millis> {
    let limits = &now.limits;
    let live: Vec<&Agent> = tree.agents.iter().filter(|row| row.is_at_work()).collect();
    if live.is_empty() {
        return None;
    }
    // Who waits for those below is as silent as the last of them: every agent's last moment counts for all.
    let begins = tree.agents.iter().filter_map(|row| row.last_event_at_ms);
    let begins = begins.chain(live.iter().filter_map(|row| row.liveness.as_ref()?.since_ms));
    let mut begins: Vec<Millis> = begins.collect();
    begins.sort_unstable();
    begins.dedup();
    let harness = tree.session.harness.as_deref();
    let mut spans: Vec<i64> = live
        .iter()
        .flat_map(|row| limits.of(harness, row.model.as_deref()).all())
        .chain([limits.permission_after_ms])
        .collect();
    spans.sort_unstable();
    spans.dedup();
    let moments =
        begins.iter().flat_map(|begin| spans.iter().map(|span| limits.awake.reaches(*begin, *span, now.at)));
    moments.filter(|moment| *moment > now.at).min()
}

/// What an agent does, with the silence limit that belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Doing {
    pub(crate) liveness: Liveness,
    /// Whether silence is expected for long: a call or question is open.
    pub(crate) is_waiting_long: bool,
}

/// What is concluded of an agent before what it does.
pub(crate) struct Stand<'d> {
    pub(crate) number: No,
    /// Its calls, by begin.
    pub(crate) calls: &'d [u32],
    /// When it was last heard of.
    pub(crate) last: Option<Millis>,
    /// When it was last its turn: also when an agent that it waited for ended.
    pub(crate) turn: Option<Millis>,
    /// Its subagents that run or are lost.
    pub(crate) children: &'d [No],
    /// Of agents of whom nobody knows who started them: whether one runs, and when they were last heard of.
    pub(crate) strays: (bool, Option<Millis>),
    /// What it was asked about last.
    pub(crate) question: Option<&'d Asked>,
    /// Since when it waits for a command that it left running.
    pub(crate) left_since: Option<Millis>,
}

impl Doing {
    fn new(kind: LivenessKind, name: Option<Text>, since_ms: Option<Millis>) -> Self {
        let is_waiting_long = matches!(kind, LivenessKind::Permission | LivenessKind::Tool);
        let liveness = Liveness { kind, name, count: None, limit: None, since_ms, inferred: false };
        Self { liveness, is_waiting_long }
    }
}

/// Concludes what a running agent does.
pub(crate) fn doing(derivation: &Derivation<'_>, stand: &Stand<'_>) -> Doing {
    if let Some(asked) = stand.question {
        return Doing::new(LivenessKind::Permission, Some(asked.tool.clone()), asked.time.or(stand.last));
    }
    if let Some(retry) = retry(derivation, stand) {
        return retry;
    }
    let waited = stand.children.iter().filter(|child| is_waited_for(derivation, **child)).count() as u32;
    let children = || {
        let mut doing = Doing::new(LivenessKind::Children, None, stand.last);
        doing.liveness.count = Some(waited.max(1));
        doing
    };
    // When the call before ended: one that is queued behind another does nothing yet.
    let mut before = None;
    for call in stand.calls {
        let Some(told) = derivation.facts.calls.get(*call as usize) else { continue };
        if !is_open(derivation, *call, told) {
            before = before.max(call_end(derivation, *call, told).and_then(|(_, time)| time));
            continue;
        }
        if told.class != ToolClass::Spawn {
            return at_tool(derivation, told, before, stand.last);
        }
        match derivation.identities.started_by(*call) {
            Some(child) if stand.children.contains(&child) => return children(),
            // It has ended, and its report is on the way.
            Some(_) => {}
            None if waited > 0 || stand.strays.0 => return children(),
            // Its agent may just have ended.
            None => return at_tool(derivation, told, before.max(stand.turn).max(stand.strays.1), stand.last),
        }
    }
    if waited > 0 {
        return children();
    }
    let has_gone_on = |since: Millis| acted(derivation, stand.number).is_some_and(|acted| acted.time > since);
    if let Some(since) = stand.left_since.filter(|since| !has_gone_on(*since)) {
        let calls = stand.calls.iter().rev().filter_map(|call| derivation.facts.calls.get(*call as usize));
        let name = calls.filter(|call| call.left_running).find_map(|call| call.name.clone());
        return Doing::new(LivenessKind::Tool, name, Some(since));
    }
    if stand.number == 0 && derivation.awaits_prompt() {
        return idle(stand.turn);
    }
    Doing::new(LivenessKind::Model, None, stand.turn)
}

/// A root that waits for a person's next prompt.
pub(crate) fn idle(since: Option<Millis>) -> Doing {
    Doing::new(LivenessKind::Idle, None, since)
}

fn at_tool(
    derivation: &Derivation<'_>,
    told: &CallFacts,
    before: Option<Millis>,
    last: Option<Millis>,
) -> Doing {
    let since = told.begin.and_then(|begin| begin.time()).max(before);
    let limits = &derivation.now.limits;
    let waited = since.map_or(0, |since| limits.awake.silence(since, derivation.now.at));
    let asks = told.class == ToolClass::Instant && waited >= limits.permission_after_ms;
    let kind = if asks { LivenessKind::Permission } else { LivenessKind::Tool };
    let mut doing = Doing::new(kind, told.name.clone(), since.or(last));
    doing.liveness.inferred = asks;
    doing
}

/// The questions for permission that agents wait for: no hook has answered them, and no source tells that their calls are
/// over. That a person agreed is told by none: until its call ends, a question stays.
pub(crate) fn questions<'c>(derivation: &'c Derivation<'_>) -> Vec<(No, &'c Asked)> {
    derivation.hooks.asked.iter().filter_map(|asked| Some((asked_of(derivation, asked)?, asked))).collect()
}

/// Whom a question keeps waiting.
fn asked_of(derivation: &Derivation<'_>, asked: &Asked) -> Option<No> {
    let mut is_told = false;
    for (call, told) in derivation.facts.calls.iter().enumerate() {
        if told.digest.is_none_or(|(_, digest)| digest != asked.digest) {
            continue;
        }
        let owner = derivation.owners.calls.get(call).copied().flatten().map(|(owner, _)| owner);
        if asked.agent.is_some_and(|agent| owner.is_some_and(|owner| owner != agent)) {
            continue;
        }
        is_told = true;
        if is_open(derivation, call as u32, told) {
            return asked.agent.or(owner).or(Some(0));
        }
    }
    // A call that nobody else told of is over when its agent went on.
    let agent = asked.agent.unwrap_or(0);
    (!is_told && !has_acted_since(derivation, agent, asked.time)).then_some(agent)
}

fn has_acted_since(derivation: &Derivation<'_>, number: No, time: Option<Millis>) -> bool {
    acted(derivation, number).zip(time).is_some_and(|(acted, time)| acted.time > time)
}

/// The latest thing that an agent did itself.
fn acted(derivation: &Derivation<'_>, number: No) -> Option<Order> {
    let identity = derivation.identities.all.get(number)?;
    derivation.tellings(identity).filter_map(|agent| agent.acted).max()
}

fn retry(derivation: &Derivation<'_>, stand: &Stand<'_>) -> Option<Doing> {
    let identity = derivation.identities.all.get(stand.number)?;
    let told = derivation
        .tellings(identity)
        .filter_map(|agent| agent.retry.as_ref())
        .max_by_key(|retry| retry.order);
    let is_over = |at: Millis| acted(derivation, stand.number).is_some_and(|acted| acted.time > at);
    let retry = told.filter(|retry| retry.attempt > 0 && !is_over(retry.order.time))?;
    let mut doing = Doing::new(LivenessKind::Retry, Some(retry.error.clone()), retry.time.or(stand.last));
    doing.liveness.count = Some(retry.attempt);
    doing.liveness.limit = Some(retry.limit).filter(|limit| *limit > 0);
    Some(doing)
}

/// Whether whoever started an agent that has not ended waits for it.
fn is_waited_for(derivation: &Derivation<'_>, child: No) -> bool {
    let Some(identity) = derivation.identities.all.get(child) else { return false };
    match identity.origin {
        Some(call) => {
            derivation.facts.calls.get(call as usize).is_some_and(|told| is_open(derivation, call, told))
        }
        None => derivation.mode(identity) != Some(SpawnMode::Background),
    }
}

/// Whether a call has no ending.
pub(crate) fn is_open(derivation: &Derivation<'_>, number: u32, call: &CallFacts) -> bool {
    call_end(derivation, number, call)
        .is_none_or(|(outcome, _)| matches!(outcome, Outcome::Over) && call.ends.is_empty())
}

/// Whether an agent is silent for longer than its limit. `subagents` counts the active ones of the session.
pub(crate) fn is_stalled(
    derivation: &Derivation<'_>,
    doing: &Doing,
    last: Option<Millis>,
    spans: Spans,
    subagents: u32,
) -> bool {
    let limit = match doing.liveness.kind {
        // Who is silent then are those that it waits for, or the person who is to say what comes next.
        LivenessKind::Children | LivenessKind::Idle => return false,
        _ if doing.is_waiting_long => spans.stall_open_ms,
        _ if subagents > 0 => spans.stall_subagents_ms,
        _ => spans.stall_ms,
    };
    is_silent(derivation, last.max(doing.liveness.since_ms), limit)
}

/// Whether an agent that was asked for should long be at work: its caller waits for it and for nothing before it.
pub(crate) fn is_start_overdue(
    derivation: &Derivation<'_>,
    status: AgentStatus,
    caller: Option<&Doing>,
    last: Option<Millis>,
    spans: Spans,
) -> bool {
    let is_waited_for = caller.is_some_and(|caller| caller.liveness.kind == LivenessKind::Children);
    status == AgentStatus::Pending && is_waited_for && is_silent(derivation, last, spans.stall_subagents_ms)
}

fn is_silent(derivation: &Derivation<'_>, since: Option<Millis>, limit_ms: i64) -> bool {
    since.is_some_and(|since| derivation.now.limits.awake.silence(since, derivation.now.at) >= limit_ms)
}
