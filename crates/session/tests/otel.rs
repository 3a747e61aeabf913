//! OpenTelemetry records of recordings: alone they give the recording's truth; with other sources, in any order, they
//! give the tree of the others, each call with a basis at least as good.

#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use subscope_model::{Basis, EventKind, Tree};
use subscope_session::passages::{Passage, PassageClass, PassageReader};
use subscope_testkit::{
    fixtures::{Recording, bytes, recording, root, text},
    random::Random,
    sessions::{self, LATER, Part, Telling, options, parts_of, read, tree, tree_at},
};

/// The OpenTelemetry sources of a recording: logs, metrics, traces.
fn otel(recording: &Recording) -> BTreeMap<String, Part> {
    let part = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name.clone(), Part::new(&name, bytes(path)))
    };
    recording.otel().iter().map(part).collect()
}

fn nested() -> (Recording, BTreeMap<String, Part>) {
    let recording = recording("2.1.330", "j-otel-nested");
    let parts = otel(&recording);
    (recording, parts)
}

/// Agents of a tree: id, parent, spawn call, depth, type, status, tokens; calls with name, status, basis.
fn told(tree: &Tree) -> Value {
    let rows = tree.agents.iter().map(|row| {
        let mut calls: Vec<String> = row
            .tools
            .iter()
            .map(|call| {
                format!("{:?} {} {} {}", call.id, call.name, call.status.as_str(), call.basis.as_str())
            })
            .collect();
        calls.sort();
        json!([
            row.id,
            row.parent_id,
            row.spawned_by,
            row.depth,
            row.agent_type,
            row.status,
            row.usage,
            row.evidence,
            calls,
        ])
    });
    rows.collect()
}

#[test]
fn logs_alone_and_spans_alone_give_parents_owners_and_tokens() {
    let (recording, parts) = nested();
    let truth = recording.truth();
    for (name, links) in [("otel-logs.jsonl", 2), ("otel-traces.jsonl", 4)] {
        let tree = tree(&[parts[name].clone()]);
        assert_eq!(tree.session.id.as_str(), truth.session.id);
        assert_eq!((tree.session.harness.as_deref(), tree.session.runs), (Some("claude-code"), 1), "{name}");
        assert_eq!(tree.agents.len(), truth.agents.len(), "{name}");
        let mut linked = 0;
        for agent in &truth.agents {
            let what = format!("{name} {}", agent.id);
            let row = tree.agents.iter().find(|row| row.id.as_str() == agent.id).unwrap();
            assert_eq!(row.parent_id.as_ref().map(|id| id.as_str()), agent.parent_id.as_deref(), "{what}");
            assert_eq!(row.depth, agent.depth, "{what}");
            assert_eq!(row.usage.unwrap().total_tokens, agent.usage.total_tokens, "{what}");
            assert!(agent.status.iter().any(|word| word == row.status.as_str()), "{what} {:?}", row.status);
            if !row.id.is_root() {
                assert_eq!(row.agent_type.as_deref(), agent.agent_type.as_deref(), "{what}");
            }
            // From logs alone the call is known where it is the only one of its kind.
            if let Some(call) = &row.spawned_by {
                assert_eq!(Some(&**call), agent.spawned_by.as_deref(), "{what}");
                linked += 1;
            }
            let mut calls: Vec<_> = row.tools.iter().map(|call| call.id.as_deref().unwrap()).collect();
            let mut expected: Vec<_> = agent.tools.iter().map(|call| call.id.as_str()).collect();
            calls.sort_unstable();
            expected.sort_unstable();
            assert_eq!(calls, expected, "{what}");
            assert!(row.tools.iter().all(|call| call.basis == Basis::Wire), "{what}");
        }
        assert_eq!(linked, links, "{name}");
        assert_eq!(tree.problems, [], "{name}");
    }
}

#[test]
fn metrics_are_the_check_sum_and_counted_nowhere_else() {
    let (_, parts) = nested();
    let tree = tree(&["otel-logs.jsonl", "otel-metrics.jsonl"].map(|name| parts[name].clone()));
    let agents: u64 = tree.agents.iter().map(|row| row.usage.unwrap().total_tokens).sum();
    assert_eq!(tree.summary.usage.unwrap().total_tokens, agents);
    assert_eq!(tree.summary.unattributed_usage.unwrap().total_tokens, 0);
    // The cost that the program itself reports: 109,251.8 millionths of a dollar.
    assert_eq!(tree.summary.cost_micro_usd, Some(109_252));
}

#[test]
fn merged_in_any_order_the_tree_is_that_of_the_transcript_on_as_good_a_basis() {
    let (recording, parts) = nested();
    let mut random = Random::new(18);
    for tellings in [&[Telling::Transcript][..], &[Telling::Hooks], &[Telling::Stream], &Telling::ALL] {
        let others = parts_of(&recording, tellings);
        let expected = tree(&others);
        let mut first = None;
        for _ in 0..8 {
            let mut all: Vec<Part> = others.iter().chain(parts.values()).cloned().collect();
            for place in (1..all.len()).rev() {
                all.swap(place, random.between(0, place as u64) as usize);
            }
            let merged = tree(&all);
            assert_eq!(merged.agents.len(), expected.agents.len());
            for (one, other) in expected.agents.iter().zip(&merged.agents) {
                assert_eq!((&one.id, &one.parent_id, one.depth), (&other.id, &other.parent_id, other.depth));
                assert_eq!(one.status, other.status, "{}", one.id);
                assert!(one.spawned_by.is_none() || one.spawned_by == other.spawned_by, "{}", one.id);
                if tellings.contains(&Telling::Transcript) {
                    assert_eq!((&one.usage, &one.intervals), (&other.usage, &other.intervals), "{}", one.id);
                    assert_eq!((&one.result, &one.messages), (&other.result, &other.messages), "{}", one.id);
                }
                let bases = |row: &subscope_model::Agent| -> BTreeMap<_, _> {
                    row.tools.iter().map(|call| (call.id.clone(), call.basis)).collect()
                };
                let after = bases(other);
                assert!(bases(one).iter().all(|(id, basis)| after.get(id).is_some_and(|now| now >= basis)));
            }
            let total = merged.summary.usage.unwrap().total_tokens;
            assert_eq!(total, 137_566, "each response counts once: {tellings:?}");
            let now = told(&merged);
            assert_eq!(first.get_or_insert_with(|| now.clone()), &now, "{tellings:?}");
        }
    }
}

#[test]
fn bodies_cut_anywhere_repeated_and_in_any_order_give_the_same_tree() {
    let (_, parts) = nested();
    for names in [
        &["otel-logs.jsonl"][..],
        &["otel-traces.jsonl"],
        &["otel-logs.jsonl", "otel-traces.jsonl", "otel-metrics.jsonl"],
    ] {
        let lines: Vec<Vec<u8>> = names.iter().flat_map(|name| parts[*name].lines()).collect();
        let expected = told(&tree(&[Part::new("otel.jsonl", lines.concat())]));
        let mut random = Random::new(7);
        for round in 0..6 {
            let mut now = lines.clone();
            if round > 2 {
                now.extend(lines.iter().take(5).cloned());
            }
            for place in (1..now.len()).rev() {
                now.swap(place, random.between(0, place as u64) as usize);
            }
            let whole = now.concat();
            let mut router = subscope_session::SessionRouter::new(options(false));
            let source = router.open(Part::new("otel.jsonl", "").spec);
            let mut rest = whole.as_slice();
            while !rest.is_empty() {
                let (head, tail) = rest.split_at((random.between(1, 60_000) as usize).min(rest.len()));
                router.push(source, head);
                rest = tail;
            }
            router.flush(source);
            assert_eq!(told(&tree_at(&router, LATER)), expected, "{names:?} {round}");
        }
    }
}

#[test]
fn response_counts_and_is_published_once_whichever_source_names_it_first() {
    let (recording, parts) = nested();
    let transcript = parts_of(&recording, &[Telling::Transcript]);
    let usages = |parts: &[Part]| -> Vec<String> {
        let events = sessions::events(parts).into_iter().filter(|event| event.kind == EventKind::Usage);
        let mut ids: Vec<String> = events.map(|event| event.id.to_string()).collect();
        ids.sort();
        ids
    };
    let expected = usages(&transcript);
    assert_eq!(expected.len(), 17);
    let all: Vec<Part> = transcript.iter().chain(parts.values()).cloned().collect();
    assert_eq!(usages(&all), expected);
    let reversed: Vec<Part> = all.iter().rev().cloned().collect();
    assert_eq!(usages(&reversed), expected);
    assert_eq!(usages(&[parts["otel-logs.jsonl"].clone()]).len(), 17);
}

#[test]
fn running_agents_are_seen_from_the_decisions_about_their_calls() {
    let (_, parts) = nested();
    let lines = parts["otel-logs.jsonl"].lines();
    // Up to the third body of log events nothing has ended but calls.
    let early = Part::new("otel-logs.jsonl", lines[..4].concat());
    let now = 1_795_293_872_500;
    let prices = subscope_model::PriceTable::default();
    let router = read(&[early], options(false));
    let session = sessions::only_session(&router);
    let growing = subscope_session::Now { is_growing: true, ..sessions::now(now, &prices) };
    let tree = router.tree(&session, &growing).unwrap();
    assert!(tree.agents.len() > 1, "{}", sessions::sketch(&tree));
    assert!(tree.agents.iter().all(|row| row.status.is_live()), "{}", sessions::sketch(&tree));
}

#[test]
fn spans_of_copilot_give_the_tree_of_its_truth() {
    let mut seen = 0;
    for version in ["1.0.102", "1.0.39"] {
        for folder in std::fs::read_dir(root().join("copilot").join(version)).unwrap() {
            let folder = folder.unwrap().path();
            let file = folder.join("otel.jsonl");
            if !file.is_file() {
                continue;
            }
            seen += 1;
            let what = folder.display();
            let truth: Value = serde_json::from_str(&text(&folder.join("truth.json"))).unwrap();
            let tree = tree(&[Part::new("otel.jsonl", bytes(&file))]);
            assert_eq!(tree.session.id.as_str(), truth["session"]["id"].as_str().unwrap(), "{what}");
            assert_eq!(tree.session.harness.as_deref(), Some("copilot"), "{what}");
            // Ids are the program's own in its files, and those of spans here: agents are known by their calls.
            let call = |row: &Value| row["spawned_by"].as_str().map(str::to_owned);
            let agents = truth["agents"].as_array().unwrap();
            let of_id: BTreeMap<&str, &Value> =
                agents.iter().map(|row| (row["id"].as_str().unwrap(), row)).collect();
            assert_eq!(tree.agents.len(), agents.len(), "{what}\n{}", sessions::sketch(&tree));
            for expected in agents {
                let found = tree
                    .agents
                    .iter()
                    .find(|row| row.spawned_by.as_deref() == expected["spawned_by"].as_str());
                let row = found.unwrap_or_else(|| panic!("{what}: {expected}\n{}", sessions::sketch(&tree)));
                let parent = expected["parent_id"].as_str().and_then(|id| call(of_id[id]));
                let parent_row =
                    row.parent_id.as_ref().map(|id| tree.agents.iter().find(|row| row.id == *id).unwrap());
                let found_parent = parent_row.and_then(|row| row.spawned_by.as_deref().map(str::to_owned));
                assert_eq!(found_parent, parent, "{what} {}", row.id);
                // A request that failed has no tokens.
                let tokens = Some(row.usage.map_or(0, |usage| usage.total_tokens));
                let expected_tokens = expected["usage"]["total_tokens"].as_u64().or(tokens);
                assert_eq!(tokens, expected_tokens, "{what} {expected}");
                let mut calls: Vec<_> = row.tools.iter().map(|call| call.id.as_deref().unwrap()).collect();
                let expected_calls = expected["tools"].as_array().unwrap();
                let mut expected_calls: Vec<_> =
                    expected_calls.iter().map(|call| call["id"].as_str().unwrap()).collect();
                calls.sort_unstable();
                expected_calls.sort_unstable();
                assert_eq!(calls, expected_calls, "{what} {}", row.id);
            }
        }
    }
    assert_eq!(seen, 6);
}

/// Returns the log records of Gemini's telemetry file as OTLP requests, one per line: the file has what it would send.
fn gemini_logs(file: &Path) -> String {
    let value = |value: &Value| match value {
        Value::Bool(flag) => json!({ "boolValue": flag }),
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::String(text) => json!({ "stringValue": text }),
        Value::Null | Value::Array(_) | Value::Object(_) => json!({ "stringValue": value.to_string() }),
    };
    let mut lines = String::new();
    for record in serde_json::Deserializer::from_str(&text(file)).into_iter::<Value>() {
        let record = record.unwrap();
        let (Some([seconds, nanos]), Some(attributes)) =
            (record["hrTime"].as_array().map(Vec::as_slice), record["attributes"].as_object())
        else {
            continue;
        };
        let nanos = seconds.as_u64().unwrap() * 1_000_000_000 + nanos.as_u64().unwrap();
        let attributes: Vec<Value> =
            attributes.iter().map(|(key, one)| json!({ "key": key, "value": value(one) })).collect();
        let record = json!({ "timeUnixNano": nanos.to_string(), "attributes": attributes });
        let resource =
            json!({ "attributes": [{ "key": "service.name", "value": { "stringValue": "gemini-cli" } }] });
        let request = json!({ "resourceLogs": [
            { "resource": resource, "scopeLogs": [{ "scope": { "name": "gemini-cli" }, "logRecords": [record] }] }
        ]});
        lines += &format!("{request}\n");
    }
    lines
}

#[test]
fn log_events_of_gemini_give_agents_tokens_and_owners_of_its_truth() {
    for scenario in ["nested", "two_parallel", "child_error"] {
        let folder = root().join("gemini/0.61.0").join(scenario);
        let truth: Value = serde_json::from_str(&text(&folder.join("truth.json"))).unwrap();
        let tree = tree(&[Part::new("otel-logs.jsonl", gemini_logs(&folder.join("telemetry.log")))]);
        let sketch = sessions::sketch(&tree);
        assert_eq!(tree.session.id.as_str(), truth["session"]["id"].as_str().unwrap(), "{scenario}");
        assert_eq!(tree.session.harness.as_deref(), Some("gemini"), "{scenario}");
        for expected in truth["agents"].as_array().unwrap() {
            let id = expected["id"].as_str().unwrap();
            let row = tree.agents.iter().find(|row| row.id.as_str() == id);
            let row = row.unwrap_or_else(|| panic!("{scenario}: {expected}\n{sketch}"));
            // A request that failed has no tokens.
            let tokens = row.usage.map_or(0, |usage| usage.total_tokens);
            let expected_tokens = expected["usage"]["total_tokens"].as_u64();
            assert_eq!(tokens, expected_tokens.unwrap_or(tokens), "{scenario} {id}\n{sketch}");
            assert!(row.tools.iter().all(|call| !call.basis.is_guess()), "{scenario} {id}\n{sketch}");
        }
        assert_eq!(tree.agents.len(), truth["agents"].as_array().unwrap().len(), "{scenario}\n{sketch}");
    }
}

/// A log event of Codex, by the names in its documentation.
fn codex_event(thread: &str, name: &str, seconds: u32, more: Value) -> Value {
    let mut attributes = json!({
        "event.name": name,
        "event.timestamp": format!("2026-11-22T10:00:{seconds:02}.000Z"),
        "conversation.id": thread,
        "app.version": "0.169.0",
        "model": "gpt-5",
    });
    attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let attribute = |(key, value): (&String, &Value)| {
        // It sends all numbers as texts.
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        json!({ "key": key, "value": { "stringValue": text } })
    };
    let attributes: Vec<Value> = attributes.as_object().unwrap().iter().map(attribute).collect();
    json!({ "resourceLogs": [{
        "resource": { "attributes": [{ "key": "service.name", "value": { "stringValue": "codex_cli_rs" } }] },
        "scopeLogs": [{ "scope": { "name": "codex_otel" }, "logRecords": [{ "attributes": attributes }] }],
    }]})
}

#[test]
fn log_events_of_codex_give_calls_and_tokens_of_each_thread_once() {
    let tokens = json!({ "event.kind": "response.completed", "input_token_count": 900, "cached_token_count": 400,
        "output_token_count": 50, "reasoning_token_count": 10, "tool_token_count": 960 });
    let call = |id: &str, more: Value| {
        let mut all = json!({ "call_id": id, "tool_name": "shell", "arguments": "{\"command\":[\"ls\"]}" });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let events = [
        codex_event("t1", "codex.conversation_starts", 0, json!({ "provider_name": "openai" })),
        codex_event("t1", "codex.user_prompt", 1, json!({ "prompt_length": "9", "prompt": "[REDACTED]" })),
        codex_event("t1", "codex.sse_event", 2, json!({ "event.kind": "response.output_item.done" })),
        codex_event("t1", "codex.sse_event", 3, tokens.clone()),
        codex_event(
            "t1",
            "codex.tool_decision",
            4,
            call("c1", json!({ "decision": "approved", "source": "config" })),
        ),
        codex_event(
            "t1",
            "codex.tool_result",
            6,
            call("c1", json!({ "duration_ms": 1500, "success": "true", "output": "src" })),
        ),
        codex_event(
            "t1",
            "codex.tool_decision",
            7,
            call("c2", json!({ "decision": "denied", "source": "user" })),
        ),
        codex_event(
            "t1",
            "codex.tool_result",
            8,
            call("c3", json!({ "duration_ms": 20, "success": "false", "output": "no such file" })),
        ),
        codex_event("t1", "codex.sse_event", 9, tokens),
    ];
    let lines: Vec<String> = events.iter().map(|event| format!("{event}\n")).collect();
    let sent = lines.concat();
    for (what, text) in [("once", sent.clone()), ("sent again", format!("{sent}{sent}"))] {
        let tree = tree(&[Part::new("otel-logs.jsonl", text)]);
        assert_eq!(
            (tree.session.id.as_str(), tree.session.harness.as_deref()),
            ("t1", Some("codex")),
            "{what}"
        );
        assert_eq!(tree.session.harness_version.as_deref(), Some("0.169.0"), "{what}");
        let root = &tree.agents[0];
        let calls: Vec<_> = root
            .tools
            .iter()
            .map(|call| (call.id.as_deref().unwrap(), call.status.as_str(), call.basis))
            .collect();
        let expected = [("c1", "ok"), ("c2", "denied"), ("c3", "error")];
        assert_eq!(calls, expected.map(|(id, status)| (id, status, Basis::Wire)), "{what}");
        assert_eq!(
            root.tools[0].started_at_ms.zip(root.tools[0].ended_at_ms).map(|(from, to)| to - from),
            Some(2000),
            "{what}"
        );
        assert_eq!(root.usage.map(|usage| usage.kinds()), Some([1000, 100, 800, 0]), "{what}");
    }
    let other = codex_event("t2", "codex.tool_result", 5, call("x", json!({ "success": "true" })));
    let router = read(&[Part::new("otel-logs.jsonl", format!("{sent}{other}\n"))], options(false));
    assert_eq!(router.sessions().count(), 2, "each thread is a session");
}

/// A passage as a test names it: class, agent, tool, text.
type Found = (PassageClass, String, Option<String>, String);

/// Returns the passages of lines, and whether each text is what its number gives again.
fn passages(dialect: &str, lines: &str) -> Vec<Found> {
    let dialect = subscope_harness::dialect(dialect).unwrap();
    let mut reader = PassageReader::new(dialect, None);
    let (mut found, mut numbers) = (Vec::new(), Vec::new());
    let mut keep = |passage: Passage<'_>| {
        assert_eq!(passage.bytes, 0, "it is encoded in a record");
        numbers.push((passage.offset, passage.text.to_string()));
        let Passage { class, agent, tool, text, .. } = passage;
        found.push((class, agent.to_owned(), tool.map(str::to_owned), text.into_owned()));
    };
    reader.push(lines.as_bytes(), &mut keep);
    reader.flush(&mut keep);
    for (number, text) in &numbers {
        assert_eq!(
            PassageReader::encoded_text(dialect, lines.as_bytes(), *number).as_ref(),
            Some(text),
            "{number}"
        );
    }
    assert_eq!(PassageReader::encoded_text(dialect, lines.as_bytes(), numbers.len() as u64), None);
    found
}

#[test]
fn texts_of_records_are_passages_and_read_again_by_their_number() {
    let (recording, parts) = nested();
    let logs = String::from_utf8(parts["otel-logs.jsonl"].bytes.clone()).unwrap();
    // The recording has its prompt twice; the recording of answers was turned off.
    let mut count = 0;
    let logs: Vec<String> = logs
        .split("<REDACTED>")
        .map(|piece| {
            count += 1;
            format!("{piece}said number {count}")
        })
        .collect();
    let logs = logs.concat();
    let logs = logs.strip_suffix(&format!("said number {count}")).unwrap();
    let found = passages("claude.otel", logs);
    let of = |class| found.iter().filter(|(known, ..)| *known == class).collect::<Vec<_>>();
    assert_eq!(of(PassageClass::Prompt).len() + of(PassageClass::Message).len(), count - 2, "{found:?}");
    assert!(of(PassageClass::Prompt).iter().all(|(_, agent, ..)| agent == "root"));
    let truth = recording.truth();
    let mut inputs: Vec<(String, String)> = Vec::new();
    for (_, agent, tool, text) in of(PassageClass::ToolInput) {
        assert!(truth.agents.iter().any(|known| known.id == *agent), "{agent}");
        inputs.push((tool.clone().unwrap(), text.clone()));
    }
    let spawns: Vec<&(String, String)> = inputs.iter().filter(|(tool, _)| tool == "Agent").collect();
    for agent in truth.agents.iter().filter(|agent| agent.depth > 0) {
        let description = agent.description.as_deref().unwrap();
        assert_eq!(spawns.iter().filter(|(_, text)| text.contains(description)).count(), 1, "{description}");
    }
    let results = logs.matches("\"tool_input\"").count();
    assert_eq!(inputs.len(), results, "each call once");
}

#[test]
fn texts_that_several_records_of_a_call_repeat_are_one_passage() {
    let call = json!({ "call_id": "c1", "tool_name": "shell", "arguments": "{\"command\":\"grep mango\"}",
        "decision": "approved", "success": "true", "output": "papaya" });
    let lines = format!(
        "{}\n{}\n",
        codex_event("t1", "codex.tool_decision", 1, call.clone()),
        codex_event("t1", "codex.tool_result", 2, call)
    );
    let found = passages("codex.otel", &lines);
    let texts: Vec<(PassageClass, bool)> =
        found.iter().map(|(class, _, _, text)| (*class, text.contains("mango"))).collect();
    assert_eq!(texts, [(PassageClass::ToolInput, true), (PassageClass::ToolResult, false)], "{found:?}");
}
