//! Perfetto trace (`.pftrace`): TrackEvent packets in protobuf, one track per agent in tree order.
//!
//! Field numbers: Perfetto v52, `protos/perfetto/trace/track_event/*.proto`. Chrome's JSON format is no alternative: it
//! has no order of tracks and drops overlapping slices of a thread.
//!
//! Flow: descriptors of all tracks; then, of each agent, its intervals as slices with its calls as slices inside them;
//! then waits as instants, and the number of agents at work as a counter. Packets of one track are written in the order
//! in which they nest, because the trace processor keeps it for equal times.
//!
//! Pitfall: BEGIN and END of a track are a stack. A call that overlaps another one of its agent is on a track of its own.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    io::{self, BufWriter, Write},
};

use prost::Message;
use subscope_model::{Agent, Event, EventKind, Millis, ToolCall, ToolStatus, Tree, stable_hash};

use crate::redact::{Mask, redact};

/// `TrackDescriptor.ChildTracksOrdering.EXPLICIT`: children are ordered by `sibling_order_rank`.
const EXPLICIT: i32 = 3;
/// `TrackDescriptor.SiblingMergeBehavior.NONE`: agents of equal names are not merged into one track.
const NO_MERGE: i32 = 2;
/// `TrackEvent.Type`.
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;
/// `TracePacket.SequenceFlags.SEQ_INCREMENTAL_STATE_CLEARED`: the sequence begins.
const SEQUENCE_BEGINS: u32 = 1;
/// Characters of a session's id in the name of its track.
const SHORT_ID: usize = 8;

/// A file, or a part of one: concatenated messages are one message with all packets.
#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    /// Nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "13")]
    sequence_flags: Option<u32>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint64, optional, tag = "5")]
    parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
    #[prost(int32, optional, tag = "11")]
    child_ordering: Option<i32>,
    #[prost(int32, optional, tag = "12")]
    sibling_order_rank: Option<i32>,
    #[prost(int32, optional, tag = "15")]
    sibling_merge_behavior: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
struct CounterDescriptor {}

#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, tag = "9")]
    r#type: i32,
    #[prost(uint64, tag = "11")]
    track_uuid: u64,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
    #[prost(fixed64, repeated, packed = "false", tag = "48")]
    terminating_flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(int64, optional, tag = "4")]
    int_value: Option<i64>,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
    #[prost(string, tag = "10")]
    name: String,
}

/// Writes a session as a Perfetto trace. `events` are the session's, in feed order: they supply the waits.
///
/// Intervals and calls are slices, spawns are flows; what has not ended is closed at the session's last event, with the
/// annotation `open`. Calls end at the latest with their interval. An agent of unknown times has a track without slices.
/// The same session gives the same bytes.
///
/// # Errors
/// Errors of the writer; earlier output is not undone.
pub(crate) fn write_perfetto(
    tree: &Tree,
    events: impl IntoIterator<Item = Event>,
    mask: Mask,
    w: &mut dyn Write,
) -> io::Result<()> {
    let mut out = PacketWriter { w: BufWriter::new(w), has_begun: false };
    let session = SessionTracks::new(tree, mask);
    session.write_descriptors(&mut out)?;
    for agent in &tree.agents {
        session.write_slices(agent, &mut out)?;
    }
    session.write_waits(events, &mut out)?;
    session.write_counter(&mut out)?;
    out.w.flush()
}

/// Writes packets of one sequence.
struct PacketWriter<W> {
    w: W,
    has_begun: bool,
}

impl<W: Write> PacketWriter<W> {
    fn track(&mut self, descriptor: TrackDescriptor) -> io::Result<()> {
        self.write(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() })
    }

    fn event(&mut self, at: Millis, event: TrackEvent) -> io::Result<()> {
        let timestamp = u64::try_from(at).unwrap_or_default().saturating_mul(1_000_000);
        self.write(TracePacket {
            timestamp: Some(timestamp),
            track_event: Some(event),
            ..TracePacket::default()
        })
    }

    /// Writes a slice's begin, what is inside, and its end.
    fn slice(
        &mut self,
        [from, to]: [Millis; 2],
        begin: TrackEvent,
        inside: &mut dyn FnMut(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let end = TrackEvent { r#type: SLICE_END, track_uuid: begin.track_uuid, ..TrackEvent::default() };
        self.event(from, TrackEvent { r#type: SLICE_BEGIN, ..begin })?;
        inside(self)?;
        self.event(to, end)
    }

    fn write(&mut self, packet: TracePacket) -> io::Result<()> {
        let sequence_flags = (!std::mem::replace(&mut self.has_begun, true)).then_some(SEQUENCE_BEGINS);
        let packet = TracePacket { trusted_packet_sequence_id: 1, sequence_flags, ..packet };
        self.w.write_all(&Trace { packet: vec![packet] }.encode_to_vec())
    }
}

/// A call with its place.
struct PlacedCall<'t> {
    call: &'t ToolCall,
    /// Begin and end, inside the interval.
    span: [Millis; 2],
    /// Index of its interval; 0 for an agent without intervals.
    interval: usize,
    /// 0: the agent's own track.
    lane: usize,
}

struct SessionTracks<'t> {
    tree: &'t Tree,
    mask: Mask,
    session: u64,
    /// Time of the last event: the end of what has not ended.
    end: Millis,
    /// Calls that are in the tree.
    calls: HashSet<&'t str>,
    /// Agents whose start is known, by the call that started them.
    spawns: HashMap<&'t str, Vec<&'t Agent>>,
}

impl<'t> SessionTracks<'t> {
    fn new(tree: &'t Tree, mask: Mask) -> Self {
        let ends = tree.agents.iter().flat_map(|agent| agent.intervals.iter().map(|[_, to]| *to));
        let mut spawns: HashMap<&str, Vec<&Agent>> = HashMap::new();
        for agent in tree.agents.iter().filter(|agent| !agent.intervals.is_empty()) {
            let call = agent.spawned_by.as_deref();
            call.into_iter().for_each(|call| spawns.entry(call).or_default().push(agent));
        }
        let calls = tree.agents.iter().flat_map(|agent| &agent.tools);
        Self {
            tree,
            mask,
            session: stable_hash(&tree.session.id),
            end: tree.session.ended_at_ms.into_iter().chain(ends).max().unwrap_or_default(),
            calls: calls.filter_map(|call| call.id.as_deref()).collect(),
            spawns,
        }
    }

    fn uuid(&self, kind: &str, key: &str) -> u64 {
        stable_hash(&format!("{}/{kind}/{key}", self.tree.session.id))
    }

    fn agent_track(&self, agent: &str) -> u64 {
        self.uuid("agent", agent)
    }

    fn lane_track(&self, agent: &Agent, lane: usize) -> u64 {
        if lane == 0 { self.agent_track(&agent.id) } else { self.uuid(&format!("lane {lane}"), &agent.id) }
    }

    fn masked<'x>(&self, text: &'x str) -> Cow<'x, str> {
        match self.mask {
            Mask::Secrets => redact(text),
            Mask::Nothing => Cow::Borrowed(text),
        }
    }

    fn text(&self, name: &str, value: Option<&str>) -> Option<DebugAnnotation> {
        let string_value = Some(self.masked(value?).into_owned());
        Some(DebugAnnotation { name: name.to_owned(), string_value, int_value: None })
    }

    fn write_descriptors(&self, out: &mut PacketWriter<impl Write>) -> io::Result<()> {
        let Self { tree, session, .. } = self;
        let id: String = tree.session.id.chars().take(SHORT_ID).collect();
        let harness = tree.session.harness.as_deref().unwrap_or("session");
        let title = tree.session.title.as_deref().map(|title| format!(": {}", self.masked(title)));
        out.track(TrackDescriptor {
            uuid: *session,
            name: format!("{harness} {id}{}", title.unwrap_or_default()),
            child_ordering: Some(EXPLICIT),
            ..TrackDescriptor::default()
        })?;
        out.track(TrackDescriptor {
            uuid: self.uuid("counter", "agents at work"),
            name: "agents at work".to_owned(),
            parent_uuid: Some(*session),
            counter: Some(CounterDescriptor {}),
            sibling_order_rank: Some(-1),
            ..TrackDescriptor::default()
        })?;
        for (rank, agent) in tree.agents.iter().enumerate() {
            let track = self.agent_track(&agent.id);
            out.track(TrackDescriptor {
                uuid: track,
                name: format!("{}{}", "· ".repeat(agent.depth as usize), self.masked(&agent.title())),
                // Flat, because the UI collapses deeper groups.
                parent_uuid: Some(*session),
                child_ordering: Some(EXPLICIT),
                sibling_order_rank: i32::try_from(rank).ok(),
                sibling_merge_behavior: Some(NO_MERGE),
                ..TrackDescriptor::default()
            })?;
            let lanes = self.place_calls(agent).iter().map(|placed| placed.lane).max().unwrap_or(0);
            for lane in 1..=lanes {
                out.track(TrackDescriptor {
                    uuid: self.lane_track(agent, lane),
                    name: "parallel calls".to_owned(),
                    parent_uuid: Some(track),
                    sibling_order_rank: i32::try_from(lane).ok(),
                    sibling_merge_behavior: Some(NO_MERGE),
                    ..TrackDescriptor::default()
                })?;
            }
        }
        Ok(())
    }

    /// Returns the start of a call. One that started agents began at the latest with the first of them, whatever the
    /// clocks of its sources say: a flow that ends before it begins is none.
    fn start(&self, call: &ToolCall) -> Option<Millis> {
        let started = self.spawned(call).iter().filter_map(|agent| agent.intervals.first());
        call.started_at_ms.into_iter().chain(started.map(|[from, _]| *from)).min()
    }

    /// Returns the agents whose start is known that a call started.
    fn spawned(&self, call: &ToolCall) -> &[&'t Agent] {
        call.id.as_deref().and_then(|id| self.spawns.get(id)).map_or(&[], Vec::as_slice)
    }

    /// Returns the flow from a call to an agent that it started.
    fn flow(&self, call: &str, agent: &Agent) -> u64 {
        let is_first =
            self.spawns.get(call).and_then(|agents| agents.first()).is_some_and(|first| first.id == agent.id);
        // A flow ends once: of several agents each has one.
        if is_first { self.uuid("call", call) } else { self.uuid("call", &format!("{call}/{}", agent.id)) }
    }

    /// Returns an agent's intervals; one that is at work works until the session's last event. The first one begins at the
    /// latest when the agent started another.
    fn intervals(&self, agent: &Agent) -> Vec<[Millis; 2]> {
        let mut intervals = agent.intervals.clone();
        let spawns = agent.tools.iter().filter(|call| !self.spawned(call).is_empty());
        if let (Some([from, _]), Some(start)) =
            (intervals.first_mut(), spawns.filter_map(|call| self.start(call)).min())
        {
            *from = start.min(*from);
        }
        if agent.is_at_work()
            && let Some([_, to]) = intervals.last_mut()
        {
            *to = self.end.max(*to);
        }
        intervals
    }

    /// Returns an agent's calls in order of their begin. A call without a time is at the begin of the call before it; one
    /// of an agent without any time is left out.
    fn place_calls(&self, agent: &'t Agent) -> Vec<PlacedCall<'t>> {
        let intervals = self.intervals(agent);
        let mut time = intervals.first().map(|[from, _]| *from);
        let mut placed = Vec::new();
        for call in &agent.tools {
            time = self.start(call).or(time);
            let Some(from) = time else { continue };
            let interval = intervals.partition_point(|[start, _]| *start <= from).saturating_sub(1);
            let to = match (call.ended_at_ms, call.status) {
                (Some(to), _) => to,
                (None, ToolStatus::Open) => self.end,
                (None, ToolStatus::Ok | ToolStatus::Error | ToolStatus::Denied) => from,
            };
            let [first, last] = intervals.get(interval).copied().unwrap_or([from, to.max(from)]);
            let from = from.clamp(first, last.max(first));
            placed.push(PlacedCall { call, span: [from, to.min(last).max(from)], interval, lane: 0 });
        }
        placed.sort_by_key(|placed| placed.span[0]);
        let mut ends: Vec<Millis> = Vec::new();
        for call in &mut placed {
            let [from, to] = call.span;
            call.lane = ends.iter().position(|end| *end <= from).unwrap_or(ends.len());
            if call.lane == ends.len() {
                ends.push(to);
            }
            ends[call.lane] = to;
        }
        placed
    }

    fn write_slices(&self, agent: &'t Agent, out: &mut PacketWriter<impl Write>) -> io::Result<()> {
        let intervals = self.intervals(agent);
        let calls = self.place_calls(agent);
        for (number, interval) in intervals.iter().enumerate() {
            let is_last = number + 1 == intervals.len();
            let begin = self.interval_begin(agent, number == 0, is_last && agent.is_at_work());
            out.slice(*interval, begin, &mut |out| {
                let own = calls.iter().filter(|placed| placed.interval == number && placed.lane == 0);
                own.into_iter().try_for_each(|placed| self.write_call(agent, placed, out))
            })?;
        }
        let is_outside = |placed: &&PlacedCall<'_>| placed.lane > 0 || intervals.is_empty();
        calls.iter().filter(is_outside).try_for_each(|placed| self.write_call(agent, placed, out))
    }

    fn interval_begin(&self, agent: &Agent, is_first: bool, is_open: bool) -> TrackEvent {
        let usage = agent.usage.map(|usage| {
            [
                ("input_tokens", usage.input_tokens),
                ("output_tokens", usage.output_tokens),
                ("cache_read_tokens", usage.cache_read_tokens),
                ("cache_write_tokens", usage.cache_write_tokens),
                ("total_tokens", usage.total_tokens),
            ]
        });
        let texts = [
            self.text("agent_id", Some(&agent.id)),
            self.text("parent_id", agent.parent_id.as_deref()),
            self.text("status", Some(agent.status.as_str())),
            self.text("model", agent.model.as_deref()),
        ];
        let tokens = usage.into_iter().flatten().map(|(name, count)| {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            number(name, count)
        });
        let cost = agent.cost_micro_usd.map(|cost| number("cost_micro_usd", cost));
        let open = is_open.then(|| number("open", 1));
        let spawn = agent.spawned_by.as_deref().filter(|call| is_first && self.calls.contains(call));
        TrackEvent {
            track_uuid: self.agent_track(&agent.id),
            name: Some(self.masked(&agent.title()).into_owned()),
            debug_annotations: texts.into_iter().flatten().chain(tokens).chain(cost).chain(open).collect(),
            terminating_flow_ids: spawn.map(|call| self.flow(call, agent)).into_iter().collect(),
            ..TrackEvent::default()
        }
    }

    fn write_call(
        &self,
        agent: &Agent,
        placed: &PlacedCall<'_>,
        out: &mut PacketWriter<impl Write>,
    ) -> io::Result<()> {
        let call = placed.call;
        let open = (call.status == ToolStatus::Open).then(|| number("open", 1));
        let texts = [
            self.text("tool_use_id", call.id.as_deref()),
            self.text("agent_id", Some(&agent.id)),
            self.text("status", Some(call.status.as_str())),
            self.text("basis", Some(call.basis.as_str())),
            self.text("detail", call.detail.as_deref()),
        ];
        let flow = |started: &&Agent| Some(self.flow(call.id.as_deref()?, started));
        let begin = TrackEvent {
            track_uuid: self.lane_track(agent, placed.lane),
            name: Some(call.name.to_string()),
            debug_annotations: texts.into_iter().flatten().chain(open).collect(),
            flow_ids: self.spawned(call).iter().filter_map(flow).collect(),
            ..TrackEvent::default()
        };
        out.slice(placed.span, begin, &mut |_| Ok(()))
    }

    fn write_waits(
        &self,
        events: impl IntoIterator<Item = Event>,
        out: &mut PacketWriter<impl Write>,
    ) -> io::Result<()> {
        let tracks: HashMap<&str, u64> =
            self.tree.agents.iter().map(|agent| (agent.id.as_str(), self.agent_track(&agent.id))).collect();
        for event in events {
            let Some((name, detail)) = wait_of(&event) else { continue };
            let (Some(track), Some(at)) = (tracks.get(event.actor_id.0.as_str()), event.at_ms) else {
                continue;
            };
            let instant = TrackEvent {
                r#type: INSTANT,
                track_uuid: *track,
                name: Some(name.to_owned()),
                debug_annotations: self.text("detail", detail).into_iter().collect(),
                ..TrackEvent::default()
            };
            out.event(at, instant)?;
        }
        Ok(())
    }

    fn write_counter(&self, out: &mut PacketWriter<impl Write>) -> io::Result<()> {
        let mut changes: BTreeMap<Millis, i64> = BTreeMap::new();
        for [from, to] in self.tree.agents.iter().flat_map(|agent| self.intervals(agent)) {
            *changes.entry(from).or_default() += 1;
            *changes.entry(to).or_default() -= 1;
        }
        let mut count = 0;
        for (at, change) in changes {
            count += change;
            let value = TrackEvent {
                r#type: COUNTER,
                track_uuid: self.uuid("counter", "agents at work"),
                counter_value: Some(count),
                ..TrackEvent::default()
            };
            out.event(at, value)?;
        }
        Ok(())
    }
}

fn number(name: &str, value: i64) -> DebugAnnotation {
    DebugAnnotation { name: name.to_owned(), int_value: Some(value), string_value: None }
}

/// Returns name and detail of the wait that an event reports.
fn wait_of(event: &Event) -> Option<(&'static str, Option<&str>)> {
    let waits = [
        (EventKind::Stall, "stall", "waiting_for"),
        (EventKind::PermissionRequest, "permission", "tool_name"),
        (EventKind::Retry, "retry", "error"),
    ];
    let (_, name, detail) = waits.into_iter().find(|(kind, ..)| *kind == event.kind)?;
    Some((name, event.text(detail)))
}

#[cfg(test)]
mod tests;
