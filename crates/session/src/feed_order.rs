//! Order of a session's events: by time, with the lines of each source in their order.
//!
//! An event without a time has the time of the last event before it in its source whose time is known: its own, or that
//! of the call or prompt that it reports or of its agent's start, if another source has it. Events that are derived from rows have no line:
//! without a time they are placed at the lines of their agent or run.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use serde_json::Value;
use subscope_model::{
    AgentId, AgentStatus, Event, EventKind, EventRecord, Millis, SourceId, SourceKind, SourcePosition,
};
use subscope_track::{Attribution, Derived};

use crate::{lifecycle::started_at, pending_event::PendingEvent};

/// Sort key of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventOrder {
    time: Millis,
    /// Order of kinds at one time: starts precede, ends follow.
    rank: i8,
    source_kind: u8,
    offset: u64,
    source: u32,
    /// Number of the event in its line.
    number: usize,
    /// Whether a derived event precedes (negative) or follows the line's event.
    side: i8,
}

/// An event with its sort key; without an event, the place where an agent starts or ends.
pub(crate) struct PlacedEvent {
    pub(crate) order: EventOrder,
    pub(crate) event: EventRecord,
    pub(crate) is_mark: bool,
}

/// Time of events that nothing relates to a time: they precede those with one.
const UNKNOWN: Millis = Millis::MIN + 1;

impl EventOrder {
    /// Returns the time by which the event is ordered; `None` if nothing relates it to a time.
    pub(crate) fn time(&self) -> Option<Millis> {
        (self.time != UNKNOWN).then_some(self.time)
    }

    /// Returns the line at which a derived event is placed; `None` if it has a time of its own.
    pub(crate) fn line(&self) -> Option<SourcePosition> {
        let source = SourceId(self.source);
        (self.side != 0).then_some(SourcePosition { source, offset: self.offset, line: 0 })
    }

    fn at(time: Millis, rank: i8) -> Self {
        Self { time, rank, source_kind: 0, offset: 0, source: 0, number: 0, side: 0 }
    }

    fn beside(self, side: i8) -> Self {
        Self { side, ..self }
    }
}

/// Returns the sort keys of pending events.
pub(crate) fn order_pending(pending: &[PendingEvent], derived: &Derived<'_>) -> Vec<EventOrder> {
    let starts = derived.tree.agents.iter().filter(|row| !row.id.is_root());
    let starts = starts.filter_map(|row| Some((&row.id, started_at(&derived.tree, row, 0)?))).collect();
    let mut sources: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (number, event) in pending.iter().enumerate() {
        sources.entry(event.place.source.0).or_default().push(number);
    }
    let mut orders: Vec<EventOrder> = pending.iter().map(|_| EventOrder::at(UNKNOWN, 0)).collect();
    for mut lines in sources.into_values() {
        lines.sort_by_key(|number| pending[*number].place.offset);
        let mut last = None;
        let mut before_first = Vec::new();
        for (number, index) in lines.into_iter().enumerate() {
            let event = &pending[index];
            last = last.max(event.time.or_else(|| reported_time(event, &derived.attribution, &starts)));
            if last.is_none() {
                before_first.push(index);
            }
            let rank = match (event.kind, event.time) {
                // Its time is that of its run's first line.
                (EventKind::UserPrompt, None) if last.is_some() => -2,
                // Two processes may close a session: only times show which end is the last.
                (EventKind::SessionEnd, Some(_)) => 4,
                _ => 0,
            };
            orders[index] = EventOrder {
                time: event.time.or(last).unwrap_or(UNKNOWN),
                rank,
                source_kind: event.source_kind as u8,
                offset: event.place.offset,
                source: event.place.source.0,
                number,
                side: 0,
            };
            if last.is_some() {
                for index in before_first.drain(..) {
                    let first = orders[index];
                    orders[index] = EventOrder { time: last.unwrap_or(first.time), rank: -5, ..first };
                }
            }
        }
        // Only earlier lines of its own source precede the first prompt.
        let prompt = before_first.iter().position(|index| pending[*index].kind == EventKind::UserPrompt);
        for index in before_first.iter().take(prompt.map_or(0, |prompt| prompt + 1)) {
            orders[*index].rank = -5;
        }
    }
    orders
}

/// Returns the time that another source has for the call or prompt in a line, else for the start of its agent. A stream
/// has no prompts, but follows the first.
fn reported_time(
    event: &PendingEvent,
    attribution: &Attribution<'_>,
    starts: &HashMap<&AgentId, Millis>,
) -> Option<Millis> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other kind is reported by several sources")]
    let known = match event.kind {
        EventKind::ToolPre => attribution.call_times(event.call.borrow(), event.place).0,
        EventKind::ToolPost | EventKind::ToolFailure | EventKind::PermissionDenied => {
            attribution.call_times(event.call.borrow(), event.place).1
        }
        EventKind::UserPrompt => attribution.run_begun_in(event.place).and_then(|run| run.started_at),
        _ => None,
    };
    let start = || {
        let (actor, _) = attribution.actor(&event.claim.borrow(), event.call.borrow(), event.place);
        let run = attribution.runs().first().filter(|_| event.source_kind == SourceKind::Stream);
        starts.get(&actor.0).copied().or_else(|| run?.started_at)
    };
    known.or_else(start)
}

/// The events of calls, by their place among those of lines.
#[derive(Default)]
pub(crate) struct PlacedCalls(Option<HashMap<(EventKind, String), usize>>);

impl PlacedCalls {
    /// Returns the first event of a call.
    fn first(&mut self, kind: EventKind, call: &str, lines: &[PlacedEvent]) -> Option<usize> {
        let of_call = |(place, line): (usize, &PlacedEvent)| {
            matches!(line.event.kind, EventKind::ToolPre | EventKind::ToolPost).then_some(())?;
            let id = line.event.data.known().get("tool_use_id").and_then(Value::as_str)?.to_owned();
            Some(((line.event.kind, id), place))
        };
        // Backwards: the first of several stays.
        let calls =
            self.0.get_or_insert_with(|| lines.iter().enumerate().rev().filter_map(of_call).collect());
        calls.get(&(kind, call.to_owned())).copied()
    }
}

/// Returns the sort key of an event that is derived from rows, among the events before it: those of lines, and for a
/// run's start all others.
pub(crate) fn order_derived(event: &Event, lines: &[PlacedEvent], calls: &mut PlacedCalls) -> EventOrder {
    let kind = event.kind;
    let of_run = |line: &&PlacedEvent| line.event.run == event.run;
    let is_prompt = |line: &&PlacedEvent| line.event.kind == EventKind::UserPrompt && of_run(line);
    if kind == EventKind::RunStart
        && event.at_ms.is_some()
        && let Some(prompt) = lines.iter().find(is_prompt)
    {
        return prompt.order.beside(-2);
    }
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other kinds keep their order")]
    let rank = match kind {
        EventKind::SessionStart => -6,
        EventKind::RunStart => -3,
        EventKind::SubagentStart => -1,
        EventKind::SubagentStop => 2,
        EventKind::RunEnd => 3,
        _ => 1,
    };
    if let Some(time) = event.at_ms {
        return EventOrder::at(time, rank);
    }
    let of_agent = |line: &&PlacedEvent| line.event.actor_id == event.actor_id;
    let orders = |keep: &dyn Fn(&&PlacedEvent) -> bool| -> Vec<EventOrder> {
        lines.iter().filter(|line| keep(line)).map(|line| line.order).collect()
    };
    let call = event.text("spawned_by").or_else(|| event.text("trigger"));
    let mut of_call = |kind: EventKind| lines.get(calls.first(kind, call?, lines)?);
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other kinds keep their order")]
    let found = match kind {
        EventKind::SubagentStart => {
            let first = orders(&of_agent).into_iter().min();
            let spawned = of_call(EventKind::ToolPre).map(|line| line.order.beside(1));
            first.map(|order| order.beside(-1)).max(spawned)
        }
        EventKind::SubagentStop => {
            let last = orders(&of_agent).into_iter().max().map(|order| order.beside(2));
            // Only the end of the input shows that it is lost.
            let is_lost = event.text("status") == Some(AgentStatus::Lost.as_str());
            let end = || lines.iter().map(|line| line.order.beside(2)).max().filter(|_| is_lost);
            last.map(|last| end().unwrap_or(last))
                .or_else(|| of_call(EventKind::ToolPost).map(|line| line.order.beside(-1)))
        }
        EventKind::RunStart => {
            let is_in_it = |line: &&PlacedEvent| of_run(line) && line.event.kind != EventKind::SessionStart;
            orders(&is_in_it).into_iter().min().map(|order| order.beside(-2))
        }
        EventKind::RunEnd => {
            let is_in_it = |line: &&PlacedEvent| of_run(line) && line.event.kind != EventKind::SessionEnd;
            orders(&is_in_it).into_iter().max().map(|order| order.beside(3))
        }
        EventKind::SessionStart | EventKind::AgentRenamed => Some(EventOrder::at(Millis::MIN, rank)),
        _ => None,
    };
    found.unwrap_or(EventOrder::at(Millis::MAX, rank))
}
