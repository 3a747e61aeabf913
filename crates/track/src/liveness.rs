//! What running agents are busy with or wait for, since when, and when that becomes a stall.

use subscope_model::{
    AgentStatus, Liveness, LivenessKind, Millis, Outcome, Text, ToolClass, ToolStatus, Tree,
};

use crate::{
    Now,
    facts::{AgentFacts, CallFacts, Order},
    people::No,
    status::{Case, LOST_AFTER_MS, LOST_AFTER_OPEN_MS, call_end},
};

/// Limits of silence in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Silence of a session without active subagents that is a stall.
    pub stall_ms: i64,
    /// The same while any subagent is active.
    pub stall_subagents_ms: i64,
    /// The same while a call or a permission question is open.
    pub stall_open_ms: i64,
    /// How long an instant tool may be open before a permission question is inferred.
    pub permission_after_ms: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stall_ms: 180_000,
            stall_subagents_ms: 600_000,
            stall_open_ms: 30 * 60_000,
            permission_after_ms: 45_000,
        }
    }
}

/// Returns the next moment at which time alone may change a tree's rows: a stall, an inferred permission question, an
/// agent that counts as lost. `None` where nothing waits for time. A moment too many is harmless, one too few is not.
pub fn next_deadline(tree: &Tree, now: &Now<'_>) -> Option<Millis> {
    let limits = &now.limits;
    let live = tree.agents.iter().filter(|row| row.status.is_live());
    let silences =
        [limits.stall_ms, limits.stall_subagents_ms, limits.stall_open_ms, LOST_AFTER_MS, LOST_AFTER_OPEN_MS];
    // Who waits for those below is as silent as the last of them: every agent's last moment counts for all.
    let heard = tree.agents.iter().filter_map(|row| row.last_event_at_ms);
    let heard = heard.flat_map(|last| silences.map(|limit| last.saturating_add(limit)));
    let open = live.clone().flat_map(|row| &row.tools).filter(|tool| tool.status == ToolStatus::Open);
    let asked = open.filter_map(|tool| Some(tool.started_at_ms?.saturating_add(limits.permission_after_ms)));
    let is_waiting = live.count() > 0;
    heard.chain(asked).filter(|moment| is_waiting && *moment > now.at).min()
}

/// What an agent does, with the silence limit that belongs to it.
pub(crate) struct Doing {
    pub(crate) liveness: Liveness,
    /// Whether silence is expected for long: a call or question is open.
    pub(crate) is_waiting_long: bool,
}

/// Concludes what a running agent does. `children` counts its own running subagents.
pub(crate) fn doing(
    case: &Case<'_>,
    number: No,
    calls: &[u32],
    last: Option<Millis>,
    children: u32,
) -> Option<Doing> {
    let person = case.people.all.get(number)?;
    let say = |kind, name: Option<Text>, since_ms| Liveness {
        kind,
        name,
        count: None,
        limit: None,
        since_ms,
        inferred: false,
    };
    if let Some((_, tool, _)) = case.log.asked.iter().rev().find(|(asked, ..)| *asked == number) {
        return Some(Doing {
            liveness: say(LivenessKind::Permission, Some(tool.clone()), last),
            is_waiting_long: true,
        });
    }
    let retry =
        case.tellings(person).filter_map(|agent| agent.retry.as_ref()).max_by_key(|retry| retry.order);
    let heard: Option<Order> = case.tellings(person).filter_map(|agent: &AgentFacts| agent.heard).max();
    if let Some(retry) =
        retry.filter(|retry| retry.attempt > 0 && heard.is_none_or(|heard| heard.time <= retry.order.time))
    {
        let mut liveness = say(LivenessKind::Retry, Some(retry.error.clone()), retry.time.or(last));
        (liveness.count, liveness.limit) =
            (Some(retry.attempt), Some(retry.limit).filter(|limit| *limit > 0));
        return Some(Doing { liveness, is_waiting_long: false });
    }
    let open =
        calls.iter().rev().filter_map(|call| case.facts.calls.get(*call as usize).map(|told| (*call, told)));
    let mut open = open.filter(|(call, told)| is_open(case, *call, told));
    if let Some((_, tool)) = open.find(|(_, told)| told.class != ToolClass::Spawn) {
        let since = tool.begin.and_then(|begin| begin.time());
        let waited = since.map_or(0, |since| case.now.at.saturating_sub(since));
        let asks = tool.class == ToolClass::Instant && waited >= case.now.limits.permission_after_ms;
        let kind = if asks { LivenessKind::Permission } else { LivenessKind::Tool };
        let mut liveness = say(kind, tool.name.clone(), since.or(last));
        liveness.inferred = asks;
        return Some(Doing { liveness, is_waiting_long: true });
    }
    if children > 0 {
        let mut liveness = say(LivenessKind::Children, None, last);
        liveness.count = Some(children);
        return Some(Doing { liveness, is_waiting_long: true });
    }
    Some(Doing { liveness: say(LivenessKind::Model, None, last), is_waiting_long: false })
}

/// Whether a call has no ending.
pub(crate) fn is_open(case: &Case<'_>, number: u32, call: &CallFacts) -> bool {
    call_end(case, number, call)
        .is_none_or(|(outcome, _)| matches!(outcome, Outcome::Over) && call.ends.is_empty())
}

/// Whether an agent is silent for longer than its limit.
pub(crate) fn is_stalled(
    case: &Case<'_>,
    status: AgentStatus,
    doing: Option<&Doing>,
    last: Option<Millis>,
    subagents: u32,
) -> bool {
    let (AgentStatus::Running, Some(doing), Some(last)) = (status, doing, last) else { return false };
    if doing.liveness.kind == LivenessKind::Children {
        return false;
    }
    let limits = &case.now.limits;
    let limit = if doing.is_waiting_long {
        limits.stall_open_ms
    } else if subagents > 0 {
        limits.stall_subagents_ms
    } else {
        limits.stall_ms
    };
    case.now.at.saturating_sub(last) >= limit
}
