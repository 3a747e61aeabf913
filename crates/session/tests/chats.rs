//! Compares the recordings of the other harnesses with their truth: each source alone contradicts nothing, all sources
//! together give all of it, in any order and any chunks.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its fixtures has failed")]

use std::{collections::BTreeMap, path::Path};

use serde_json::Value;
use subscope_harness::{Role, classify, harness_of};
use subscope_model::{EventKind, PriceTable, safe_id};
use subscope_session::{Limits, Now, SessionRouter};
use subscope_testkit::{
    fixtures,
    others::{OtherRecording, differences, other_recordings},
    sessions::{LATER, Part, events, options},
};

/// Most lines of a file that it is cut at.
const MOST_CUTS: usize = 150;

/// Reads sources in this order, in chunks of this size; returns the tree of the only session.
fn read(parts: &[Part], chunk: usize) -> Value {
    read_at(parts, chunk, LATER, false)
}

/// Returns the tree of the only session at a time, from files that may still grow.
fn read_at(parts: &[Part], chunk: usize, at: i64, is_growing: bool) -> Value {
    let mut router = SessionRouter::new(options(false));
    for part in parts {
        let mut spec = part.spec.clone();
        spec.group = router.new_group();
        let source = router.open(spec);
        part.bytes.chunks(chunk).for_each(|bytes| router.push(source, bytes));
        router.flush(source);
    }
    let sessions: Vec<_> = router.sessions().cloned().collect();
    assert_eq!(sessions.len(), 1, "{:?}", parts.iter().map(|part| &part.spec.label).collect::<Vec<_>>());
    let prices = PriceTable::default();
    let limits = Limits::default();
    let now = Now { at, has_ended: false, is_growing, prices: &prices, limits };
    serde_json::to_value(router.tree(&sessions[0], &now).unwrap()).unwrap()
}

fn by_id(list: &Value) -> BTreeMap<String, &Value> {
    let all = list.as_array().unwrap().iter();
    all.filter_map(|item| Some((item["id"].as_str()?.to_owned(), item))).collect()
}

#[test]
fn recordings_give_their_truth_from_each_source_and_from_all() {
    let mut wrong = Vec::new();
    for recording in other_recordings() {
        let choices = recording.choices();
        let (last, first) = (choices.last().unwrap(), choices.first().unwrap());
        let reversed = (format!("{} reversed", last.0), last.1.iter().rev().cloned().collect());
        let whole = [first, last, &reversed].into_iter().map(|choice| (choice, true));
        let alone = choices[1..choices.len() - 1].iter().map(|choice| (choice, false));
        for ((name, parts), is_whole) in whole.chain(alone) {
            for chunk in [1 << 20, 61] {
                let found = differences(&read(parts, chunk), &recording.truth, is_whole);
                wrong.extend(found.into_iter().map(|what| format!("{name} in chunks of {chunk}: {what}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The telemetry file of Gemini has neither ids of calls nor of responses; its objects are on many lines.
#[test]
fn telemetry_file_says_nothing_else_and_beside_others_nothing_twice() {
    let all =
        other_recordings().into_iter().filter(|recording| recording.folder.join("telemetry.log").is_file());
    let all: Vec<OtherRecording> = all.collect();
    assert!(all.len() >= 3);
    for recording in all {
        let telemetry = OtherRecording::stream(&[recording.folder.join("telemetry.log")]);
        let alone = read(&telemetry, 61);
        assert_eq!(differences(&alone, &recording.truth, false), [""; 0], "{}", recording.name());
        let rows = alone["agents"].as_array().unwrap().len();
        assert_eq!(rows, recording.truth["agents"].as_array().unwrap().len(), "{}", recording.name());
        let streams = recording.streams.iter().flat_map(|files| OtherRecording::stream(files));
        let rest = [recording.disk(), streams.collect()].concat();
        for parts in [[telemetry.clone(), rest.clone()].concat(), [rest, telemetry].concat()] {
            assert_eq!(
                differences(&read(&parts, 1 << 20), &recording.truth, true),
                [""; 0],
                "{}",
                recording.name()
            );
            let prompts = events(&parts).into_iter().filter(|event| event.kind == EventKind::UserPrompt);
            assert_eq!(prompts.filter(|event| event.actor_id.0.is_root()).count(), 1, "{}", recording.name());
        }
    }
}

/// Returns agents and calls of a tree, with what is certain of them.
fn sketch(tree: &Value) -> Vec<(String, Value, Vec<String>)> {
    let agents = by_id(&tree["agents"]);
    agents
        .into_iter()
        .map(|(id, row)| (id, row["parent_id"].clone(), by_id(&row["tools"]).into_keys().collect()))
        .collect()
}

#[test]
fn a_stream_that_is_cut_adds_nothing_to_the_disk() {
    // A stream of Copilot or Kimi names its session late, so its begin alone joins nothing.
    let is_early = |recording: &OtherRecording| {
        !["copilot", "kimi"].contains(&recording.harness) && !recording.streams.is_empty()
    };
    for recording in other_recordings().into_iter().filter(is_early) {
        let disk = recording.disk();
        let streams: Vec<Part> =
            recording.streams.iter().flat_map(|files| OtherRecording::stream(files)).collect();
        let whole = sketch(&read(&[disk.clone(), streams.clone()].concat(), 1 << 20));
        let bytes = streams[0].bytes.clone();
        // The line that names the session stays.
        let ends = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').step_by(7);
        for end in ends {
            let cut = Part { bytes: bytes[..=end].to_vec(), ..streams[0].clone() };
            let all = [&disk[..], &streams[1..], &[cut]].concat();
            assert_eq!(sketch(&read(&all, 1 << 20)), whole, "{} {end}", recording.name());
        }
    }
}

/// A source of a path, as it is found on disk.
fn source(path: &Path, bytes: impl Into<Vec<u8>>) -> Part {
    let mut part = Part::new(&path.to_string_lossy(), bytes);
    let mut place = classify(path);
    if let Some(dialect) = place.dialect.filter(|_| place.session.is_none()) {
        let line = part.bytes.split(|byte| *byte == b'\n').next().unwrap();
        place = harness_of(dialect).unwrap().complete(path, &place, line).unwrap_or(place);
    }
    part.spec.dialect = place.dialect.filter(|_| place.role != Role::Main);
    (part.spec.session, part.spec.agent) = (place.session, place.agent);
    part
}

#[test]
fn a_chat_of_one_object_has_the_agents_of_its_calls() {
    let text = r#"{
  "sessionId": "s1",
  "projectHash": "h",
  "startTime": "2026-04-01T10:00:00.000Z",
  "lastUpdated": "2026-04-01T10:01:00.000Z",
  "messages": [
    {"id": "1", "timestamp": "2026-04-01T10:00:01.000Z", "type": "user", "content": [{"text": "count"}]},
    {"id": "2", "timestamp": "2026-04-01T10:00:02.000Z", "type": "gemini", "content": "", "model": "m",
     "tokens": {"input": 100, "output": 10, "cached": 40, "thoughts": 5, "tool": 3, "total": 118},
     "toolCalls": [{"id": "counter-1", "name": "counter", "args": {"task": "x"}, "status": "success",
       "timestamp": "2026-04-01T10:00:05.000Z",
       "result": [{"functionResponse": {"id": "counter-1", "name": "counter", "response":
         {"output": "Subagent counter Finished\nTermination Reason: GOAL\nResult:\n2"}}}]},
      {"id": "read-1", "name": "read_file", "args": {}, "status": "error", "resultDisplay": "File not found"}]},
    {"id": "3", "timestamp": "2026-04-01T10:00:09.000Z", "type": "gemini", "content": "two", "model": "m",
     "tokens": {"input": 10, "output": 1, "cached": 0, "thoughts": 0, "tool": 0, "total": 11}}
  ]
}"#;
    let tree = read(&[source(Path::new("/x/session-2026-04-01T10-00-s1s1s1s1.json"), text)], 1 << 20);
    assert_eq!(tree["session"]["id"], "s1");
    assert_eq!(tree["session"]["runs"], 1);
    let (root, agent) = (&tree["agents"][0], &tree["agents"][1]);
    assert_eq!(
        (&root["status"], &root["tool_calls"], &root["tool_errors"]),
        (&"completed".into(), &2.into(), &1.into())
    );
    assert_eq!(root["usage"]["input_tokens"], 60 + 3 + 10);
    assert_eq!(root["usage"]["output_tokens"], 15 + 1);
    assert_eq!((&agent["id"], &agent["type"]), (&"counter-1".into(), &"counter".into()));
    assert_eq!((&agent["status"], &agent["spawned_by"]), (&"completed".into(), &"counter-1".into()));
}

#[test]
fn agents_of_a_killed_gemini_are_linked_by_their_prompts_and_the_root_is_not_completed() {
    let recording =
        other_recordings().into_iter().find(|it| it.name() == "gemini/0.61.0/two_parallel").unwrap();
    let head = |part: &Part, lines: usize| Part { bytes: part.lines()[..lines].concat(), ..part.clone() };
    let is_root = |part: &Part| part.spec.agent.is_none();
    let mut parts: Vec<Part> = recording.disk();
    for part in parts.iter_mut().filter(|part| is_root(part)) {
        *part = head(part, 9);
    }
    let tree = read(&parts, 1 << 20);
    assert_eq!(tree["agents"][0]["status"], "lost");
    assert_eq!(tree["agents"].as_array().unwrap().len(), 3);
    parts.push(head(&OtherRecording::stream(&recording.streams[0])[0], 7));
    let tree = read(&parts, 1 << 20);
    assert_eq!(tree["agents"][0]["open_tools"], 2);
    assert_eq!(tree["agents"][0]["status"], "lost");
    for agent in tree["agents"].as_array().unwrap().iter().skip(1) {
        assert_eq!(agent["status"], "completed");
        assert!(agent["spawned_by"].as_str().unwrap().starts_with("invoke_agent__"), "{agent}");
    }
}

#[test]
fn every_cut_of_a_transcript_gives_only_agents_and_calls_of_the_whole() {
    for recording in other_recordings() {
        let mut parts = recording.disk();
        let whole = read(&parts, 1 << 20);
        let agents = by_id(&whole["agents"]);
        let calls: Vec<String> =
            agents.values().flat_map(|agent| by_id(&agent["tools"]).into_keys()).collect();
        let main = parts.iter().position(|part| part.spec.agent.is_none()).unwrap();
        let bytes = parts[main].bytes.clone();
        let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
        // At the end of a line, and inside the next one; of many lines at some.
        let few = ends.iter().step_by(ends.len().div_ceil(MOST_CUTS).max(1));
        for end in few.flat_map(|end| [end + 1, (end + 40).min(bytes.len())]) {
            parts[main].bytes = bytes[..end].to_vec();
            let tree = read(&parts, 4096);
            for (id, agent) in by_id(&tree["agents"]) {
                let is_known = agents.contains_key(&id) || calls.contains(&id);
                assert!(is_known, "{} at {end}: {id}", recording.name());
                for call in by_id(&agent["tools"]).into_keys() {
                    assert!(calls.contains(&call), "{} at {end}: {call}", recording.name());
                }
            }
        }
    }
}

#[test]
fn sources_that_are_read_twice_add_nothing() {
    for recording in other_recordings() {
        let disk = recording.disk();
        let once = read(&disk, 1 << 20);
        let twice = read(&[disk.clone(), disk].concat(), 1 << 20);
        for field in ["session", "agents", "summary"] {
            assert_eq!(once[field], twice[field], "{}", recording.name());
        }
    }
}

/// A chat records no end of a turn: its last record is a text. A child without a call, or an open call of the stream,
/// shows that the root is still at work.
#[test]
fn root_of_gemini_ends_soon_after_its_last_text_unless_something_of_it_is_open() {
    let recording =
        other_recordings().into_iter().find(|it| it.name() == "gemini/0.61.0/two_parallel").unwrap();
    let last = subscope_model::parse_rfc3339("2026-11-21T20:43:22.925Z").unwrap();
    let disk = recording.disk();
    let status = |parts: &[Part], after: i64| {
        read_at(parts, 1 << 20, last + after, true)["agents"][0]["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status(&disk, 500), "running", "the calls of a message stand in it when they have ended");
    assert_eq!(status(&disk, 2_500), "completed");
    let hooks = |until: &str| {
        let line = |event: &str| {
            format!(
                r#"{{"session_id":{},"hook_event_name":"{event}","prompt":"<<ROOT>> do the demo","timestamp":"2026-11-21T20:43:19.500Z"}}"#,
                recording.truth["session"]["id"]
            )
        };
        let events = ["BeforeAgent", "AfterAgent"].into_iter();
        let lines: Vec<String> = events.take_while(|event| *event != until).map(line).collect();
        Part::new("hooks.jsonl", lines.join("\n") + "\n")
    };
    let in_turn = [&disk[..], &[hooks("AfterAgent")]].concat();
    assert_eq!(status(&in_turn, 2_500), "running", "the hook of its end has not come");
    let after = [&disk[..], &[hooks("")]].concat();
    assert_eq!(status(&after, 2_500), "completed");
    // A message with a text and calls that have not ended.
    let head = |part: &Part, lines: usize| Part { bytes: part.lines()[..lines].concat(), ..part.clone() };
    let cut = |lines: usize| -> Vec<Part> {
        let one = |part: &Part| if part.spec.agent.is_none() { head(part, lines) } else { part.clone() };
        disk.iter().map(one).collect()
    };
    let child = cut(5);
    assert_eq!(status(&child, 2_500), "running", "no call has started the agents that are there");
    let alone: Vec<Part> = child.into_iter().filter(|part| part.spec.agent.is_none()).collect();
    assert_eq!(status(&alone, 2_500), "completed");
}

/// Compressed rollouts of Codex, all or some of them, found from the root's or a child's file, give the same tree.
#[test]
fn compressed_rollouts_give_their_truth() {
    for recording in other_recordings().into_iter().filter(|recording| recording.harness == "codex") {
        for is_packed in [|_: usize| true, |number: usize| number.is_multiple_of(2)] {
            let folder = tempfile::tempdir().unwrap();
            for (number, from) in fixtures::files_below(&recording.on_disk).into_iter().enumerate() {
                let to = folder.path().join("sessions").join(from.strip_prefix(&recording.on_disk).unwrap());
                std::fs::create_dir_all(to.parent().unwrap()).unwrap();
                let bytes = fixtures::bytes(&from);
                if is_packed(number) {
                    let bytes = zstd::stream::encode_all(&bytes[..], 3).unwrap();
                    std::fs::write(to.with_extension("jsonl.zst"), bytes).unwrap();
                } else {
                    std::fs::write(to, bytes).unwrap();
                }
            }
            let on_disk = folder.path().join("sessions");
            for target in fixtures::files_below(&on_disk).into_iter().chain([on_disk]) {
                let moved = OtherRecording { on_disk: target.clone(), ..recording.clone() };
                let found = differences(&read(&moved.disk(), 1 << 20), &recording.truth, true);
                assert_eq!(found, [""; 0], "{} {}", recording.name(), target.display());
            }
        }
    }
}

/// An agent eleven times: its lines and those about it, copied under other ids, with names of arbitrary characters.
#[test]
fn many_agents_that_say_the_same_at_the_same_place_are_each_right() {
    const ODD: &str = "revièwer #2: a/b [x] <y> 漢字 100%";
    let all =
        ["codex/0.169.0/v1_two_parallel", "codex/0.169.0/v2_two_parallel", "copilot/1.0.102/two_parallel"];
    let all = all.into_iter().chain(["opencode/1.18.33/two_parallel"]);
    for name in all {
        let recording = other_recordings().into_iter().find(|it| it.name() == name).unwrap();
        let original = &recording.truth["agents"][1];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let tools: Vec<String> =
            original["tools"].as_array().unwrap().iter().map(|tool| text(&tool["id"])).collect();
        let (id, call, kind) =
            (text(&original["id"]), text(&original["spawned_by"]), text(&original["type"]));
        let copied = |line: &str, number: usize| {
            let mut line = line.replace(&id, &renamed(&id, number));
            for own in tools.iter().chain([&call]) {
                let quoted = |id: &str| format!("\"{id}\"");
                line = line.replace(&quoted(own), &quoted(&format!("{own}x{number}")));
            }
            // Ids of lines, messages and parts.
            let mut ids: Vec<&str> = vec!["msg_", "prt_", "evt_"];
            ids.extend((recording.harness == "copilot").then_some("\"id\":\""));
            for id in ids {
                line = line.replace(id, &format!("{id}{number}"));
            }
            if kind.is_empty() { line } else { line.replace(&kind, ODD) }
        };
        let is_about = |line: &str| line.contains(&id) || line.contains(&format!("\"{call}\""));
        let mut parts = Vec::new();
        for part in recording.disk() {
            let lines = String::from_utf8(part.bytes.clone()).unwrap();
            if part.spec.agent.as_deref() == Some(&id) {
                parts.push(part.clone());
                parts.extend((0..10).map(|number| {
                    let mut part = Part { bytes: copied(&lines, number).into_bytes(), ..part.clone() };
                    part.spec.agent = Some(renamed(&id, number));
                    part
                }));
                continue;
            }
            let repeated = lines.split_inclusive('\n').flat_map(|line| {
                let copies = (0..10).filter(|_| is_about(line)).map(|number| copied(line, number));
                std::iter::once(line.to_owned()).chain(copies).collect::<Vec<_>>()
            });
            parts.push(Part { bytes: repeated.collect::<String>().into_bytes(), ..part });
        }
        let tree = read(&parts, 1 << 16);
        let rows = by_id(&tree["agents"]);
        let expected = rows[&id];
        assert_eq!(rows.len(), recording.truth["agents"].as_array().unwrap().len() + 10, "{name}");
        for number in 0..10 {
            let row = rows[&renamed(&id, number)];
            let what = format!("{name} {number}: {row}");
            for field in
                ["parent_id", "depth", "status", "tool_calls", "tool_errors", "usage", "name", "description"]
            {
                assert_eq!(row[field], expected[field], "{field} of {what}");
            }
            assert_eq!(row["spawned_by"], format!("{call}x{number}"), "{what}");
            assert_eq!(
                row["type"].as_str().unwrap_or_default(),
                if kind.is_empty() { "" } else { ODD },
                "{what}"
            );
            let own: Vec<String> = by_id(&row["tools"]).into_keys().collect();
            let mut should: Vec<String> = tools.iter().map(|tool| format!("{tool}x{number}")).collect();
            should.sort();
            assert_eq!(own, should, "{what}");
        }
    }
}

/// Copies the part of a line about an agent: the elements of its lists, else the line.
fn with_copies(
    line: &str,
    is_about: &dyn Fn(&str) -> bool,
    copied: &dyn Fn(&str, usize) -> String,
) -> String {
    let mut json: Value = serde_json::from_str(line).unwrap();
    let mut has_list = false;
    for place in ["/toolCalls", "/content", "/message/parts"] {
        let Some(list) = json.pointer_mut(place).and_then(Value::as_array_mut) else { continue };
        let repeated = list.iter().flat_map(|item| {
            let text = item.to_string();
            // A line has its result of one call alone.
            let is_listed = item.get("text").is_none()
                && (place != "/message/parts" || item.get("functionCall").is_some());
            let copies = (0..10).filter(|_| is_listed && is_about(&text));
            let copies = copies.map(|number| serde_json::from_str(&copied(&text, number)).unwrap());
            std::iter::once(item.clone()).chain(copies).collect::<Vec<Value>>()
        });
        let repeated: Vec<Value> = repeated.collect();
        has_list |= repeated.len() > list.len();
        *list = repeated;
    }
    if has_list || !is_about(line) {
        return format!("{json}\n");
    }
    (0..10).fold(line.to_owned() + "\n", |all, number| all + &copied(line, number) + "\n")
}

/// The same of chats, where one line has the calls of several agents, and ids are made of each other. The name of a file
/// has no odd characters.
#[test]
fn many_agents_of_one_message_are_each_right() {
    const ODD: &str = "revièwer #2: a/b [x] <y> 漢字 100%";
    for name in ["gemini/0.61.0/two_parallel", "qwen/0.24.4/two_background", "qwen/0.24.4/hooks"] {
        let recording = other_recordings().into_iter().find(|it| it.name() == name).unwrap();
        let original = &recording.truth["agents"][1];
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (id, call, kind) =
            (text(&original["id"]), text(&original["spawned_by"]), text(&original["type"]));
        let tools: Vec<String> =
            original["tools"].as_array().unwrap().iter().map(|tool| text(&tool["id"])).collect();
        let is_gemini = recording.harness == "gemini";
        let own_id =
            |number: usize| if is_gemini { renamed(&id, number) } else { format!("{ODD}-{call}x{number}") };
        let copied = |line: &str, number: usize| {
            let line = if is_gemini { line.replace(&id, &own_id(number)) } else { line.to_owned() };
            let mut line = line.replace(&call, &format!("{call}x{number}")).replace(&kind, ODD);
            for tool in tools.iter().filter(|_| !is_gemini) {
                line = line.replace(&format!("\"{tool}\""), &format!("\"{tool}x{number}\""));
            }
            // Ids of lines.
            let line = line.replace("\"uuid\":\"", &format!("\"uuid\":\"{number}"));
            let is_record =
                ["user", "gemini"].iter().any(|kind| line.contains(&format!("\"type\":\"{kind}\"")));
            match line.strip_prefix("{\"id\":\"").filter(|_| is_gemini && is_record) {
                Some(rest) => format!("{{\"id\":\"{number}{rest}"),
                None => line,
            }
        };
        let is_about = |line: &str| line.contains(&id) || line.contains(&format!("\"{call}\""));
        let mut parts = Vec::new();
        for part in recording.disk() {
            let lines = String::from_utf8(part.bytes.clone()).unwrap();
            if part.spec.agent.as_deref() == Some(&id) {
                parts.push(part.clone());
                parts.extend((0..10).map(|number| {
                    let bytes: String = lines.lines().map(|line| copied(line, number) + "\n").collect();
                    let mut part = Part { bytes: bytes.into_bytes(), ..part.clone() };
                    let plain =
                        |sign: char| if sign.is_ascii_alphanumeric() || sign == '-' { sign } else { '_' };
                    part.spec.agent = Some(own_id(number).chars().map(plain).collect());
                    part
                }));
            } else if part.spec.agent.is_some() {
                parts.push(part);
            } else {
                let bytes: String = lines.lines().map(|line| with_copies(line, &is_about, &copied)).collect();
                parts.push(Part { bytes: bytes.into_bytes(), ..part });
            }
        }
        for parts in [parts.clone(), parts.into_iter().rev().collect()] {
            let tree = read(&parts, 1 << 16);
            let rows = by_id(&tree["agents"]);
            let expected = rows[&id];
            assert_eq!(differences_of(expected, original), [""; 0], "{name}");
            assert_eq!(rows.len(), recording.truth["agents"].as_array().unwrap().len() + 10, "{name}");
            for number in 0..10 {
                let row = rows[&safe_id(&own_id(number)).into_owned()];
                let what = format!("{name} {number}: {row}");
                let same = [
                    "parent_id",
                    "depth",
                    "status",
                    "tool_calls",
                    "tool_errors",
                    "usage",
                    "name",
                    "description",
                ];
                for field in same.into_iter().chain(["background", "model"]) {
                    assert_eq!(row[field], expected[field], "{field} of {what}");
                }
                assert_eq!(
                    (&row["spawned_by"], &row["type"]),
                    (&format!("{call}x{number}").into(), &ODD.into()),
                    "{what}"
                );
                let own: Vec<String> = by_id(&row["tools"]).into_keys().collect();
                let new = |tool: &String| {
                    if is_gemini { tool.replace(&id, &own_id(number)) } else { format!("{tool}x{number}") }
                };
                let mut should: Vec<String> = tools.iter().map(new).collect();
                should.sort();
                assert_eq!(own, should, "{what}");
            }
        }
    }
}

/// Returns the differences of a row to its truth: a copy proves something only without differences.
fn differences_of(row: &Value, truth: &Value) -> Vec<&'static str> {
    let fields = ["parent_id", "spawned_by", "depth", "type", "tool_calls"].into_iter();
    fields.filter(|field| row[field] != truth[field]).collect()
}

/// Returns another id of the same form.
fn renamed(id: &str, number: usize) -> String {
    // None of the recorded ones ends so.
    let digits: String = format!("{:02}", number + 80);
    format!("{}{digits}", &id[..id.len() - 2])
}

/// Two agents of two calls of one message start in any order: what is printed and hooks do not say whose call is whose.
#[test]
fn agents_of_cline_that_start_in_another_order_keep_their_calls() {
    let recording =
        other_recordings().into_iter().find(|it| it.name() == "cline/3.0.65/two_parallel").unwrap();
    let swapped = |part: Part| {
        let mut lines = part.lines();
        let is_start = |line: &Vec<u8>| {
            let text = String::from_utf8_lossy(line);
            text.contains("\"agent_start\"")
                && !text.contains("gentId\":null")
                && !text.contains("agent_id\":null")
        };
        let starts: Vec<usize> = (0..lines.len()).filter(|at| is_start(&lines[*at])).collect();
        let [one, other] = starts[..] else { panic!("{starts:?}") };
        lines.swap(one, other);
        Part { bytes: lines.concat(), ..part }
    };
    let streams: Vec<Part> =
        recording.streams.iter().flat_map(|files| OtherRecording::stream(files)).collect();
    let swapped: Vec<Part> = streams.into_iter().map(swapped).collect();
    for part in &swapped {
        let alone = read(std::slice::from_ref(part), 1 << 20);
        // Whose call is whose is a guess then; nothing else is.
        let mut wrong = differences(&alone, &recording.truth, false);
        wrong.retain(|what| !what.contains(" spawned_by: "));
        assert_eq!(wrong, [""; 0], "{}", part.spec.label);
        assert_eq!(alone["agents"].as_array().unwrap().len(), 3, "{alone:#}");
    }
    for parts in [[recording.disk(), swapped.clone()].concat(), [swapped, recording.disk()].concat()] {
        assert_eq!(differences(&read(&parts, 1 << 20), &recording.truth, true), [""; 0]);
    }
}

/// Of an agent that is killed the disk has a row; what is printed has its calls, and all tokens of the session.
#[test]
fn a_killed_agent_of_cline_has_what_each_source_has_of_it() {
    let recording = other_recordings().into_iter().find(|it| it.name() == "cline/3.0.65/sigkill").unwrap();
    let [stdout, hooks] = &recording.streams[..] else { panic!("{:?}", recording.streams) };
    let (stdout, hooks) = (OtherRecording::stream(stdout), OtherRecording::stream(hooks));
    let disk = recording.disk();
    let figures = |parts: &[Part]| {
        let tree = read(parts, 1 << 20);
        let killed = &tree["agents"][2];
        assert_eq!((&killed["status"], &killed["usage"]), (&"lost".into(), &Value::Null));
        let sum = &tree["summary"]["usage"];
        let unattributed = tree["summary"]["unattributed_usage"]["total_tokens"].as_u64();
        (
            killed["tool_calls"].as_u64().unwrap(),
            sum["total_tokens"].as_u64().unwrap(),
            sum["floor"] == true,
            unattributed,
        )
    };
    assert_eq!(figures(&disk), (0, 5_131, true, None));
    assert_eq!(figures(&[disk.clone(), hooks.clone()].concat()), (2, 5_131, true, None));
    assert_eq!(figures(&[disk.clone(), stdout.clone()].concat()), (2, 11_252, false, Some(6_121)));
    assert_eq!(figures(&[stdout, hooks, disk].concat()), (2, 11_252, false, Some(6_121)));
}
