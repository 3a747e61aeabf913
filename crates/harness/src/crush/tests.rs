//! What the decoder makes of rows that no database here has, and where databases are.

use std::{fs, path::Path};

use serde_json::{Value, json};
use subscope_decode::Hint;
use subscope_model::{Claim, Decoded, Fact, SourceId};

use super::{Crush, ROWS, layout};
use crate::Harness;

/// Decodes an object; returns a word for each fact, and the number of problems.
fn facts(object: &str, session: Option<&str>) -> (Vec<String>, usize) {
    let (mut found, mut problems) = (Vec::new(), 0);
    let session = session.map(str::to_owned);
    let hint = Hint { source: SourceId(0), session, ..Hint::default() };
    let mut sink = |decoded: subscope_model::Decoded<'_, '_>| match decoded {
        Decoded::Observation(seen) => {
            let who = match seen.claim {
                Claim::Root(_) => "root",
                Claim::Agent(agent, _) => agent,
                Claim::SpawnedBy(_) | Claim::Chain { .. } | Claim::Silent => "?",
            };
            found.extend(word(&seen.fact).map(|word| format!("{who} {word}")));
        }
        Decoded::Problem { .. } => problems += 1,
    };
    let mut decoder = ROWS.decoder(&hint);
    decoder.push(object.as_bytes(), &mut sink);
    decoder.flush(&mut sink);
    (found, problems)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other facts are not asked for")]
fn word(fact: &Fact<'_>) -> Option<String> {
    Some(match fact {
        Fact::Prompt { text, what, .. } => format!("prompt {what:?} {}", text.text()),
        Fact::Message { text, .. } => format!("said {}", text.text()),
        Fact::CallBegin(call) => format!("call {} {:?}", call.id.unwrap_or("-"), call.class),
        Fact::CallEnd(end) => format!("end {} {:?} {}", end.id.unwrap_or("-"), end.outcome, end.refused),
        Fact::Spawn(spawn) => format!("agent {} {:?}", spawn.agent.unwrap_or("-"), spawn.call),
        Fact::AgentEnd(end) => format!("ended {:?}", end.status),
        Fact::TurnEnd { status, .. } => format!("turn {status:?}"),
        Fact::Totals { cost_micro_usd, .. } => format!("cost {cost_micro_usd:?}"),
        _ => return None,
    })
}

fn message(id: &str, session: &str, role: &str, parts: Value) -> Value {
    json!({"id": id, "session_id": session, "role": role, "model": "m", "created_at": 1_780_000_000, "parts": parts})
}

fn object(messages: Vec<Value>, sessions: Vec<Value>) -> String {
    json!({"type": "crush.rows", "messages": messages, "sessions": sessions, "database": "/w/.crush/crush.db"}).to_string()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "data": {"text": text}})
}

fn call(id: &str, name: &str, finished: bool) -> Value {
    json!({"type": "tool_call", "data": {"id": id, "name": name, "input": "{\"prompt\":\"look\"}", "finished": finished}})
}

fn finish(reason: &str) -> Value {
    json!({"type": "finish", "data": {"reason": reason, "time": 1_780_000_009}})
}

#[test]
fn what_is_still_being_written_is_emitted_once_it_is_whole() {
    let session = vec![json!({"id": "s", "title": "Untitled Session", "cost": 0.5})];
    let unfinished = message("a", "s", "assistant", json!([text("hal"), call("c", "bash", false)]));
    let prompt = message("p", "s", "user", json!([text("go"), finish("stop")]));
    let (found, _) = facts(&object(vec![prompt.clone(), unfinished.clone()], session.clone()), None);
    assert_eq!(found, ["root prompt Asked go", "root cost Some(500000)"]);
    // One that was killed is as whole as it gets.
    let next = message("q", "s", "user", json!([text("again")]));
    let (found, _) = facts(&object(vec![prompt, unfinished, next], session), None);
    let expected = ["prompt Asked go", "said hal", "call c Other", "prompt Asked again", "cost Some(500000)"];
    assert_eq!(found, expected.map(|fact| format!("root {fact}")));
}

#[test]
fn agents_are_sessions_whose_id_names_their_call() {
    let child = |id: &str, cost: f64| json!({"id": id, "parent_session_id": "s", "title": "x", "cost": cost});
    let root = |cost: f64| json!({"id": "s", "title": "t", "cost": cost});
    let calls = message(
        "a",
        "s",
        "assistant",
        json!([call("c1", "agent", true), call("c2", "agent", true), finish("tool_use")]),
    );
    let result = |id: &str, is_error: bool| {
        let data = json!({"tool_call_id": id, "content": "x", "is_error": is_error});
        message("r", "s", "tool", json!([{"type": "tool_result", "data": data}]))
    };
    // By versions of 2026, and by those before.
    let sessions = || vec![root(3.0), child("a$$c1", 1.0), child("c2", 0.5), child("title-s", 9.0)];
    let costs = |messages: Vec<Value>| {
        let (found, problems) = facts(&object(messages, sessions()), Some("s"));
        assert_eq!(problems, 0);
        assert_eq!(found.iter().filter(|fact| fact.contains("agent ")).count(), 2, "{found:?}");
        assert!(found.contains(&"root agent a%24%24c1 Some(\"c1\")".to_owned()), "{found:?}");
        found.into_iter().filter(|fact| fact.contains("root cost")).collect::<Vec<_>>()
    };
    assert_eq!(
        costs(vec![calls.clone(), result("c1", false), result("c2", false)]),
        ["root cost Some(1500000)"]
    );
    assert_eq!(
        costs(vec![calls.clone(), result("c1", false), result("c2", true)]),
        ["root cost Some(2000000)"]
    );
    assert_eq!(costs(vec![calls.clone(), result("c1", false)]), [""; 0], "c2 may be in the sum");
    let refused = facts(&object(vec![calls, result("c1", true)], vec![root(1.0)]), Some("s")).0;
    assert!(refused.contains(&"root end c1 Error true".to_owned()), "{refused:?}");
}

#[test]
fn turns_end_by_their_reason() {
    for (reason, expected) in [
        ("end_turn", Some("turn Completed")),
        ("max_tokens", Some("turn Completed")),
        ("unknown", Some("turn Completed")),
        ("error", Some("turn Failed")),
        ("content_filter", Some("turn Failed")),
        ("canceled", Some("turn Stopped")),
        ("permission_denied", Some("turn Stopped")),
        ("tool_use", None),
    ] {
        let all = vec![message("a", "s", "assistant", json!([text("x"), finish(reason)]))];
        let found = facts(&object(all, vec![json!({"id": "s"})]), None).0;
        let end = found.iter().find(|fact| fact.starts_with("root turn"));
        assert_eq!(end.map(String::as_str), expected.map(|end| format!("root {end}")).as_deref(), "{reason}");
    }
    // A summary ends no turn, and what the program asks after it is no prompt of a person.
    let asked = text(
        "The previous session was interrupted because it got too long, the initial user request was: `x`",
    );
    let all = vec![
        message("sum", "s", "assistant", json!([text("x"), finish("end_turn")])),
        message("p", "s", "user", json!([asked])),
    ];
    let found = facts(&object(all, vec![json!({"id": "s", "summary_message_id": "sum"})]), None).0;
    assert!(found.len() == 1 && found[0].starts_with("root prompt Meta"), "{found:?}");
}

#[test]
fn rows_of_any_form_end_nothing() {
    for object in [
        "{}",
        r#"{"type":"crush.rows","messages":7,"sessions":{}}"#,
        r#"{"type":"crush.rows","messages":[null,{"parts":"x"},{"session_id":"s","role":"assistant","parts":[7,{"type":"finish"},{"type":"tool_call","data":{"id":"c","name":"agent","input":7,"finished":true}}]}],"sessions":[{"cost":-1}]}"#,
        "not JSON",
    ] {
        let (found, problems) = facts(object, None);
        assert!(problems == 1 || !found.is_empty(), "{object}: {found:?}");
    }
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/crush-rows.jsonl");
    for line in fs::read_to_string(seeds).unwrap().lines() {
        assert_eq!(crate::recognize(line.as_bytes()), Some(ROWS));
        assert_eq!(crate::recognize(&line.as_bytes()[..400]), Some(ROWS), "its head");
        assert_eq!(facts(line, None).1, 0);
    }
}

#[test]
fn databases_are_found_by_the_list_of_projects() {
    let folder = tempfile::tempdir().unwrap();
    let data = |project: &str| folder.path().join(project).join(".crush");
    fs::create_dir_all(data("a")).unwrap();
    fs::write(data("a").join("crush.db"), "").unwrap();
    let all = ["gone", "a"].map(|project| json!({"path": "x", "data_dir": data(project)}));
    fs::write(folder.path().join("projects.json"), json!({"projects": all}).to_string()).unwrap();
    let variables = |name: &str| (name == "CRUSH_GLOBAL_DATA").then(|| folder.path().as_os_str().to_owned());
    assert_eq!(Crush.roots(&variables), [data("a")]);
    let home = |name: &str| (name == "HOME").then(|| "/h".into());
    assert_eq!(Crush.home(&home).folder, Path::new("/h/.local/share/crush"));
    for broken in
        ["", "[]", "{\"projects\":[{\"data_dir\":7}]}", "{\"projects\":[{\"data_dir\":\"relative\"}]}"]
    {
        fs::write(folder.path().join("projects.json"), broken).unwrap();
        assert_eq!(Crush.roots(&variables), [""; 0].map(std::path::PathBuf::from), "{broken}");
    }
    let session = data("a").join("crush.db/s");
    assert_eq!(Crush.classify(&session).and_then(|place| place.session).as_deref(), Some("s"));
    assert_eq!(Crush.transcripts_of(&data("a"), "s"), [session]);
    assert!(Crush.bundle(&data("a").join("crush.db")).is_some() && Crush.classify(&data("a")).is_none());
    let projects = [
        ("/w/shop/.crush/crush.db", Some("/w/shop")),
        (r"C:\w\.crush\crush.db", Some(r"C:\w")),
        ("/data/crush.db", None),
        ("/.crush/crush.db", None),
        ("", None),
    ];
    for (database, expected) in projects {
        assert_eq!(layout::project_of(database), expected, "{database}");
    }
}
