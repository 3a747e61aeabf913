//! Tests of Perfetto traces: files are decoded again and read by the rules of the format.

use std::collections::{BTreeSet, HashMap};

use subscope_model::{AgentStatus, EventKind};
use subscope_testkit::{
    fixtures::{Recording, odd_recordings, recordings, stopped_recordings},
    sessions::{Part, Telling, events, options, parts_of, read as read_parts, tree},
};

use super::*;
use crate::sample;

fn written(tree: &Tree, events: &[Event], mask: Mask) -> Vec<u8> {
    let mut out = Vec::new();
    write_perfetto(tree, events.iter().cloned(), mask, &mut out).unwrap();
    out
}

fn decoded(tree: &Tree, events: &[Event]) -> Trace {
    Trace::decode(&*written(tree, events, Mask::Nothing)).unwrap()
}

/// A slice, read back by the rule of the format: packets by time, on each track a stack.
struct Slice {
    track: u64,
    depth: usize,
    span: [u64; 2],
    begin: TrackEvent,
}

impl Slice {
    fn text(&self, name: &str) -> Option<&str> {
        let found = self.begin.debug_annotations.iter().find(|annotation| annotation.name == name);
        found.and_then(|annotation| annotation.string_value.as_deref())
    }

    fn number(&self, name: &str) -> Option<i64> {
        self.begin.debug_annotations.iter().find(|annotation| annotation.name == name)?.int_value
    }
}

fn events_of(trace: &Trace, kind: i32) -> Vec<(u64, &TrackEvent)> {
    let event = |packet: &'_ TracePacket| packet.timestamp;
    let all = trace.packet.iter().filter_map(|packet| Some((event(packet)?, packet.track_event.as_ref()?)));
    all.filter(|(_, event)| event.r#type == kind).collect()
}

fn slices(trace: &Trace) -> Vec<Slice> {
    let mut packets: Vec<&TracePacket> =
        trace.packet.iter().filter(|packet| packet.track_event.is_some()).collect();
    packets.sort_by_key(|packet| packet.timestamp);
    let mut stacks: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut slices: Vec<Slice> = Vec::new();
    for packet in packets {
        let (event, at) = (packet.track_event.clone().unwrap(), packet.timestamp.unwrap());
        let stack = stacks.entry(event.track_uuid).or_default();
        match event.r#type {
            SLICE_BEGIN => {
                stack.push(slices.len());
                slices.push(Slice {
                    track: event.track_uuid,
                    depth: stack.len() - 1,
                    span: [at, at],
                    begin: event,
                });
            }
            SLICE_END => slices[stack.pop().expect("an end has its begin")].span[1] = at,
            _ => {}
        }
    }
    assert!(stacks.values().all(Vec::is_empty), "each begin has its end");
    slices
}

fn tracks(trace: &Trace) -> Vec<&TrackDescriptor> {
    trace.packet.iter().filter_map(|packet| packet.track_descriptor.as_ref()).collect()
}

fn sessions(parts: &[Part]) -> usize {
    read_parts(parts, options(true)).sessions().count()
}

fn read(recording: &Recording) -> (Tree, Vec<Event>) {
    let parts = parts_of(recording, &[Telling::Transcript, Telling::Hooks]);
    (tree(&parts), events(&parts))
}

#[test]
fn every_recording_has_its_intervals_calls_spawns_and_tracks() {
    let mut flows_seen = 0;
    for recording in recordings() {
        let (what, (tree, events)) = (recording.name(), read(&recording));
        let trace = decoded(&tree, &events);
        let all = slices(&trace);
        let intervals: usize = tree.agents.iter().map(|agent| agent.intervals.len()).sum();
        let calls: usize = tree.agents.iter().map(|agent| agent.tools.len()).sum();
        assert_eq!(all.len(), intervals + calls, "{what}");
        let ids: BTreeSet<&str> = all.iter().filter_map(|slice| slice.text("tool_use_id")).collect();
        let expected =
            tree.agents.iter().flat_map(|agent| &agent.tools).filter_map(|call| call.id.as_deref());
        assert_eq!(ids, expected.collect(), "{what}");
        let begins: BTreeSet<u64> = all.iter().flat_map(|slice| slice.begin.flow_ids.clone()).collect();
        let ends: BTreeSet<u64> =
            all.iter().flat_map(|slice| slice.begin.terminating_flow_ids.clone()).collect();
        let spawned = tree.agents.iter().filter(|agent| !agent.intervals.is_empty());
        let spawns =
            spawned.filter_map(|agent| agent.spawned_by.clone()).filter(|call| ids.contains(&**call));
        assert_eq!(begins, ends, "{what}");
        assert_eq!(begins.len(), spawns.collect::<BTreeSet<_>>().len(), "{what}");
        flows_seen += begins.len();
        check_tracks(&what, &tree, &trace);
        check_nesting(&what, &tree, &all);
    }
    assert!(flows_seen > 50, "{flows_seen}");
}

fn check_tracks(what: &str, tree: &Tree, trace: &Trace) {
    let descriptors = tracks(trace);
    let session = descriptors[0];
    assert_eq!((session.parent_uuid, session.child_ordering), (None, Some(EXPLICIT)), "{what}");
    let mut of_agents: Vec<&TrackDescriptor> = descriptors.clone();
    of_agents.retain(|track| track.parent_uuid == Some(session.uuid) && track.counter.is_none());
    of_agents.sort_by_key(|track| track.sibling_order_rank);
    let names: Vec<String> =
        tree.agents.iter().map(|agent| "· ".repeat(agent.depth as usize) + &agent.title()).collect();
    assert_eq!(of_agents.iter().map(|track| track.name.clone()).collect::<Vec<_>>(), names, "{what}");
    let uuids: BTreeSet<u64> = descriptors.iter().map(|track| track.uuid).collect();
    assert_eq!(uuids.len(), descriptors.len(), "{what}: one uuid each");
    assert_eq!(trace.packet[0].sequence_flags, Some(SEQUENCE_BEGINS), "{what}");
    assert!(trace.packet.iter().all(|packet| packet.trusted_packet_sequence_id == 1), "{what}");
}

/// Calls are inside an interval of their agent, on its track or on one of its own.
fn check_nesting(what: &str, tree: &Tree, all: &[Slice]) {
    for agent in &tree.agents {
        let of_agent = |slice: &&Slice| slice.text("agent_id") == Some(agent.id.as_str());
        let (calls, intervals): (Vec<&Slice>, Vec<&Slice>) =
            all.iter().filter(of_agent).partition(|slice| slice.text("basis").is_some());
        let track = intervals.first().map(|slice| slice.track);
        for call in calls {
            let is_inside =
                |interval: &&&Slice| interval.span[0] <= call.span[0] && call.span[1] <= interval.span[1];
            assert!(intervals.iter().any(|interval| is_inside(&interval)), "{what} {}", agent.id);
            assert_eq!(call.depth, usize::from(Some(call.track) == track), "{what} {}", agent.id);
        }
        assert!(intervals.iter().all(|slice| slice.depth == 0), "{what} {}", agent.id);
    }
}

#[test]
fn each_agent_that_a_call_started_has_a_flow_that_goes_forward() {
    let (mut several, mut untimed) = (0, 0);
    for recording in [recordings(), odd_recordings(), stopped_recordings()].concat() {
        for telling in [Telling::Transcript, Telling::Stream] {
            let (what, parts) =
                (format!("{} {telling:?}", recording.name()), parts_of(&recording, &[telling]));
            if parts.is_empty() || sessions(&parts) != 1 {
                continue;
            }
            let (tree, events) = (tree(&parts), events(&parts));
            let trace = decoded(&tree, &events);
            let all = slices(&trace);
            let begins: Vec<(u64, u64)> = all
                .iter()
                .flat_map(|slice| slice.begin.flow_ids.iter().map(|flow| (*flow, slice.span[0])))
                .collect();
            let ends: HashMap<u64, u64> = all
                .iter()
                .flat_map(|slice| slice.begin.terminating_flow_ids.iter().map(|flow| (*flow, slice.span[0])))
                .collect();
            let placed: HashMap<&str, usize> = all
                .iter()
                .filter_map(|slice| slice.text("tool_use_id"))
                .map(|call| {
                    (
                        call,
                        tree.agents.iter().filter(|agent| agent.spawned_by.as_deref() == Some(call)).count(),
                    )
                })
                .collect();
            let spawned = tree.agents.iter().filter(|agent| !agent.intervals.is_empty());
            let spawned =
                spawned.filter(|it| it.spawned_by.as_deref().is_some_and(|call| placed.contains_key(call)));
            assert_eq!((begins.len(), ends.len()), (spawned.count(), begins.len()), "{what}");
            assert!(begins.iter().all(|(flow, from)| ends[flow] >= *from), "{what}");
            several += usize::from(placed.values().any(|count| *count > 1));
            let calls = tree.agents.iter().flat_map(|agent| &agent.tools);
            let is_untimed = |call: &ToolCall| {
                call.started_at_ms.is_none() && call.id.as_deref().is_some_and(|id| placed.get(id) > Some(&0))
            };
            untimed += usize::from(calls.into_iter().any(is_untimed));
        }
    }
    assert!(several > 0 && untimed > 0, "{several} {untimed}");
}

/// The clock of a call's source may be slower than that of the agent that it started.
#[test]
fn flows_go_forward_whatever_the_clocks_say() {
    let (mut tree, _) = read(&subscope_testkit::fixtures::recording("2.1.330", "c-nested"));
    for call in tree.agents.iter_mut().flat_map(|agent| &mut agent.tools) {
        call.started_at_ms = call.started_at_ms.map(|at| at + 10_000);
        call.ended_at_ms = call.ended_at_ms.map(|at| at + 10_000);
    }
    let all = slices(&decoded(&tree, &[]));
    let of = |flows: fn(&TrackEvent) -> &Vec<u64>| -> BTreeMap<u64, u64> {
        all.iter().flat_map(|slice| flows(&slice.begin).iter().map(|flow| (*flow, slice.span[0]))).collect()
    };
    let (begins, ends) = (of(|event| &event.flow_ids), of(|event| &event.terminating_flow_ids));
    assert_eq!(begins.len(), tree.agents.len() - 1);
    assert!(begins.keys().eq(ends.keys()) && begins.iter().all(|(flow, from)| ends[flow] >= *from));
}

#[test]
fn tracks_of_equal_names_are_not_merged() {
    let tree = sample::session();
    let trace = decoded(&tree, &[]);
    let of_agents = tracks(&trace).into_iter().filter(|track| track.sibling_order_rank >= Some(0));
    assert!(of_agents.clone().count() >= tree.agents.len());
    assert!(of_agents.into_iter().all(|track| track.sibling_merge_behavior == Some(NO_MERGE)));
}

#[test]
fn equal_input_gives_equal_bytes() {
    let (tree, events) = read(&recordings()[3]);
    assert_eq!(written(&tree, &events, Mask::Nothing), written(&tree, &events, Mask::Nothing));
}

#[test]
fn overlapping_calls_are_on_tracks_of_their_own_in_greedy_lanes() {
    let mut tree = sample::session();
    let spans = [[0, 40], [10, 20], [15, 50], [20, 30], [40, 60]];
    tree.agents[1].tools = spans
        .iter()
        .enumerate()
        .map(|(number, [from, to])| {
            let mut call = sample::call(&format!("c{number}"), "Read", ToolStatus::Ok);
            (call.started_at_ms, call.ended_at_ms) = (Some(sample::START + from), Some(sample::START + to));
            call
        })
        .collect();
    let trace = decoded(&tree, &[]);
    let all = slices(&trace);
    let name =
        |slice: &Slice| tracks(&trace).iter().find(|track| track.uuid == slice.track).unwrap().name.clone();
    let lane = |id: &str| all.iter().find(|slice| slice.text("tool_use_id") == Some(id)).map(name).unwrap();
    let own = "· Explore: Look at lead";
    assert_eq!(
        ["c0", "c1", "c2", "c3", "c4"].map(lane),
        [own, "parallel calls", "parallel calls", "parallel calls", own]
    );
    let rank = |track: &&TrackDescriptor| track.sibling_order_rank;
    let lanes = tracks(&trace).into_iter().filter(|track| track.name == "parallel calls").collect::<Vec<_>>();
    assert_eq!(lanes.iter().map(rank).collect::<Vec<_>>(), [Some(1), Some(2)]);
}

#[test]
fn what_has_not_ended_is_open_until_the_last_event() {
    let mut tree = sample::session();
    tree.session.ended_at_ms = Some(sample::START + 20_000);
    let all = slices(&decoded(&tree, &[]));
    let of = |id: &'static str| all.iter().filter(move |slice| slice.text("agent_id") == Some(id));
    assert_eq!(of("busy").map(|slice| slice.number("open")).collect::<Vec<_>>(), [Some(1), Some(1)]);
    let end = |slice: &Slice| slice.span[1] / 1_000_000;
    let last = u64::try_from(sample::START + 20_000).unwrap();
    assert_eq!(of("busy").map(end).collect::<Vec<_>>(), [last, last]);
    for ended in ["lead", "inner", "halted", "gone"] {
        assert!(of(ended).all(|slice| slice.number("open").is_none()), "{ended}");
    }
    // A call of a lost agent ends with it.
    let gone = tree.agents.iter_mut().find(|agent| agent.status == AgentStatus::Lost).unwrap();
    gone.tools = vec![sample::call("t9", "Read", ToolStatus::Open)];
    let end = gone.intervals[0][1];
    let all = slices(&decoded(&tree, &[]));
    let call = all.iter().find(|slice| slice.text("tool_use_id") == Some("t9")).unwrap();
    assert_eq!((call.span[1] / 1_000_000, call.number("open")), (u64::try_from(end).unwrap(), Some(1)));
}

#[test]
fn waits_are_instants_and_agents_at_work_are_counted() {
    let tree = sample::session();
    let wait = |kind, data| sample::event("w", Some(1_500), "lead", kind, data);
    let events = [
        wait(EventKind::Stall, serde_json::json!({"waiting_for": "the model"})),
        wait(EventKind::PermissionRequest, serde_json::json!({"tool_name": "Bash"})),
        wait(EventKind::Retry, serde_json::json!({"error": "overloaded"})),
        wait(EventKind::ToolPre, serde_json::json!({})),
        sample::event("w", None, "lead", EventKind::Stall, serde_json::json!({})),
        sample::event("w", Some(1), "unknown", EventKind::Stall, serde_json::json!({})),
    ];
    let trace = decoded(&tree, &events);
    let instants: Vec<(&str, &str)> = events_of(&trace, INSTANT)
        .into_iter()
        .map(|(_, event)| {
            let detail = event.debug_annotations[0].string_value.as_deref().unwrap();
            (event.name.as_deref().unwrap(), detail)
        })
        .collect();
    assert_eq!(instants, [("stall", "the model"), ("permission", "Bash"), ("retry", "overloaded")]);
    let counts: Vec<i64> =
        events_of(&trace, COUNTER).into_iter().map(|(_, event)| event.counter_value.unwrap()).collect();
    assert_eq!(counts.iter().max(), Some(&3));
    assert_eq!(counts.last(), Some(&0));
}

#[test]
fn secrets_are_masked_on_request() {
    let mut tree = sample::session();
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    tree.agents[1].description = Some(format!("push with {secret}").into());
    tree.session.title = Some(secret.into());
    let has = |mask| {
        let bytes = written(&tree, &[], mask);
        bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
    };
    assert!(has(Mask::Nothing));
    assert!(!has(Mask::Secrets));
}
