//! Queries of an agent over the sessions of its project.

use std::{fs, path::Path};

use serde_json::{Value, json};
use subscope_testkit::{
    env::TestEnv,
    fixtures::{self, Recording, recording},
};

use crate::{
    client::{Mcp, structure, text},
    common::{env, serving::Serving},
};

/// The folder in which recordings were made.
const RECORDED_IN: &str = "/home/user/shop";

/// Puts a recording where the harness keeps conversations, as if it had been made in a folder.
fn adopt(env: &TestEnv, recording: &Recording, folder: &Path) -> String {
    let projects = recording.projects();
    for file in recording.conversation() {
        let relative = file.strip_prefix(&projects).unwrap();
        let content = fs::read_to_string(&file).unwrap().replace(RECORDED_IN, folder.to_str().unwrap());
        env.write(&format!("home/.claude/projects/{}", relative.display()), content);
    }
    recording.mains()[0].file_stem().unwrap().to_string_lossy().into_owned()
}

/// Two sessions of the project, one of them in a folder below, and one of another project.
fn sessions(env: &TestEnv) -> [String; 3] {
    [
        adopt(env, &recording("2.1.330", "c-nested"), &env.work()),
        adopt(env, &recording("2.1.330", "b-parallel"), &env.work().join("shop/src")),
        adopt(env, &recording("2.1.330", "a-single"), Path::new(RECORDED_IN)),
    ]
}

fn ids(answer: &Value) -> Vec<&str> {
    answer["sessions"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

async fn ask(mcp: &Mcp, tool: &str, arguments: Value) -> Value {
    let result = mcp.call(tool, arguments).await;
    assert_eq!(result.is_error, Some(false), "{}", text(&result));
    structure(&result)
}

/// A line belongs to the project of the session that it names, not to that of the file in which it stands.
#[tokio::test(flavor = "multi_thread")]
async fn lines_of_another_project_stay_there_in_whatever_file_they_are() {
    let env = env();
    let folder = fixtures::root().join("wild/two-projects/projects");
    for file in fixtures::files_below(&folder) {
        let relative = file.strip_prefix(&folder).unwrap().display().to_string();
        let content = fixtures::text(&file).replace(RECORDED_IN, env.work().to_str().unwrap());
        env.write(&format!("home/.claude/projects/{relative}"), content);
    }
    let mcp = Mcp::start(&env, &[], &["query"]).await;
    let answer = ask(&mcp, "list_sessions", json!({})).await;
    assert_eq!(ids(&answer), ["dddd0002-0000-4000-8000-000000000002"]);
    let hits = ask(&mcp, "search", json!({"query": "zebraquux"})).await;
    assert_eq!(hits["hits"], json!([]));
    let tree = ask(&mcp, "get_tree", json!({"session": "dddd0002"})).await;
    assert!(!tree.to_string().contains("zebraquux") && !tree.to_string().contains("A answers"), "{tree}");
    assert!(mcp.error("get_tree", json!({"session": "dddd0001"})).await.contains("is found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_sessions_of_the_project_are_there() {
    let env = env();
    let [nested, parallel, foreign] = sessions(&env);
    let mcp = Mcp::start(&env, &[], &["query"]).await;
    let answer = ask(&mcp, "list_sessions", json!({})).await;
    assert_eq!(answer["schema"], "subscope.sessions/1");
    let mut listed = ids(&answer);
    listed.sort_unstable();
    let mut expected = [nested.as_str(), parallel.as_str()];
    expected.sort_unstable();
    assert_eq!(listed, expected);
    // One of another project is as unknown as one that never was.
    let unknown = mcp.error("get_tree", json!({"session": "no-such-session"})).await;
    for (tool, arguments) in [
        ("get_tree", json!({"session": foreign})),
        ("get_tree", json!({"session": &foreign[..8]})),
        ("get_agent", json!({"session": foreign, "agent": "root"})),
        ("get_agent", json!({"agent": "a70ac2eddada1f966"})),
        ("get_events", json!({"session": foreign})),
        ("search", json!({"session": foreign, "query": "pricing"})),
    ] {
        let error = mcp.error(tool, arguments).await;
        assert!(error.contains("is found"), "{tool}: {error}");
        if tool == "get_tree" {
            assert_eq!(error.rsplit('"').next(), unknown.rsplit('"').next());
        }
    }
    let hits = ask(&mcp, "search", json!({"query": "pricing", "limit": 50})).await;
    let hits = hits["hits"].as_array().unwrap();
    assert!(!hits.is_empty() && hits.iter().all(|hit| hit["session_id"] != foreign.as_str()), "{hits:?}");
    mcp.close().await;
    let mcp = Mcp::start(&env, &[], &["query", "--all-projects"]).await;
    assert_eq!(ids(&ask(&mcp, "list_sessions", json!({})).await).len(), 3);
    // The dearest first, as on the command line; in pages, too.
    let told: Value = serde_json::from_str(&env.run(&["ls", "--sort", "cost", "--json"]).success()).unwrap();
    assert_eq!(ids(&ask(&mcp, "list_sessions", json!({"sort": "cost"})).await), ids(&told));
    let mut next = Value::Null;
    for id in ids(&told) {
        let page = ask(&mcp, "list_sessions", json!({"sort": "cost", "limit": 1, "after": next})).await;
        assert_eq!(ids(&page), [id]);
        next = page["next"].clone();
    }
    assert_eq!(next, Value::Null);
    assert!(ids(&ask(&mcp, "list_sessions", json!({"denied": true, "days": 36_500})).await).is_empty());
    assert_eq!(ask(&mcp, "get_tree", json!({"session": foreign})).await["session"]["id"], foreign.as_str());
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_what_the_command_line_says_within_bounds() {
    let env = env();
    let [nested, ..] = sessions(&env);
    let mcp = Mcp::start(&env, &[], &["query"]).await;
    let tree = ask(&mcp, "get_tree", json!({"session": nested})).await;
    let told: Value = serde_json::from_str(&env.run(&["tree", &nested, "--json"]).success()).unwrap();
    assert_eq!((&tree["schema"], &tree["summary"]), (&json!("subscope.tree/1"), &told["summary"]));
    let column = |tree: &Value, field: &str| {
        tree["agents"].as_array().unwrap().iter().map(|row| row[field].clone()).collect::<Vec<_>>()
    };
    for field in ["id", "parent_id", "depth", "status", "tool_calls", "usage", "started_at_ms"] {
        assert_eq!(column(&tree, field), column(&told, field), "{field}");
    }
    assert_eq!(tree["left_out"]["tool_calls"], told["summary"]["tool_calls"]);
    // Pages lie side by side.
    let (mut after, mut paged) = (Value::Null, Vec::new());
    loop {
        let page = ask(&mcp, "get_tree", json!({"session": nested, "limit": 2, "after": after})).await;
        paged.extend(column(&page, "id"));
        after = page["next"].clone();
        if after.is_null() {
            break;
        }
    }
    assert_eq!(paged, column(&told, "id"));
    // One agent whole, and those below it.
    let lead = &told["agents"].as_array().unwrap().iter().find(|row| row["type"] == "lead").unwrap().clone();
    let id = lead["id"].as_str().unwrap();
    let below = ask(&mcp, "get_tree", json!({"session": "last", "agent": &id[..6]})).await;
    assert_eq!(below["agents"][0]["id"], id);
    assert!(below["agents"].as_array().unwrap().len() < paged.len());
    let agent = ask(&mcp, "get_agent", json!({"agent": id})).await;
    assert_eq!(agent["schema"], "subscope.agent/1");
    assert_eq!((&agent["agent"]["result"], &agent["agent"]["prompt"]), (&lead["result"], &lead["prompt"]));
    let names = |row: &Value| {
        row["tools"].as_array().unwrap().iter().map(|tool| tool["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&agent["agent"]), names(lead));
    let first = ask(&mcp, "get_agent", json!({"agent": id, "limit": 1})).await;
    assert_eq!(names(&first["agent"]), names(lead)[..1]);
    assert_eq!(first["left_out"]["tool_calls_behind"], names(lead).len() as u64 - 1);
    mcp.close().await;
}

/// The session of a tree that is asked for without its session.
async fn own_tree(mcp: &Mcp) -> Value {
    let own = ask(mcp, "get_tree", json!({})).await["session"]["id"].clone();
    assert_eq!(ask(mcp, "get_tree", json!({"session": "self"})).await["session"]["id"], own);
    assert_eq!(ask(mcp, "get_agent", json!({"agent": "root"})).await["session"]["id"], own);
    assert_eq!(ask(mcp, "get_events", json!({"limit": 1})).await["events"][0]["session_id"], own);
    own
}

#[tokio::test(flavor = "multi_thread")]
async fn own_session_is_that_of_the_client_and_not_the_newest() {
    let env = env();
    let [nested, parallel, foreign] = sessions(&env);
    for variable in ["CLAUDE_CODE_SESSION_ID", "COPILOT_AGENT_SESSION_ID", "QWEN_CODE_SESSION_ID"] {
        for own in [&nested, &parallel] {
            let mcp = Mcp::start(&env, &[(variable, own)], &["query"]).await;
            assert_eq!(own_tree(&mcp).await, own.as_str(), "{variable}");
            mcp.close().await;
        }
    }
    // One program started another: both name a session, and neither says which is nearer.
    let both = [("CLAUDE_CODE_SESSION_ID", &*nested), ("QWEN_CODE_SESSION_ID", &*parallel)];
    let mcp = Mcp::start(&env, &both, &["query"]).await;
    let error = mcp.error("get_tree", json!({})).await;
    assert!(error.contains(&nested) && error.contains(&parallel), "{error}");
    mcp.close().await;
    // Its project is the client's, unless the client names another: then it is as unknown as any.
    let mcp = Mcp::start(&env, &[("CLAUDE_CODE_SESSION_ID", &*foreign)], &["query"]).await;
    assert_eq!(own_tree(&mcp).await, foreign.as_str());
    assert_eq!(ids(&ask(&mcp, "list_sessions", json!({})).await), [foreign.as_str()]);
    mcp.close().await;
    let work = env.work().display().to_string();
    let named = [("CLAUDE_CODE_SESSION_ID", &*foreign), ("CLAUDE_PROJECT_DIR", &*work)];
    let mcp = Mcp::start(&env, &named, &["query"]).await;
    assert!(mcp.error("get_tree", json!({})).await.contains("is found"));
    mcp.close().await;
    // The process has gone on to another session since it started the server.
    let process = std::process::id();
    let note = json!({"pid": process, "sessionId": parallel, "startedAt": i64::MAX / 2, "entrypoint": "cli"});
    env.write(&format!("home/.claude/sessions/{process}.json"), note.to_string());
    let mcp = Mcp::start(&env, &[("CLAUDE_CODE_SESSION_ID", &*nested)], &["query"]).await;
    assert_eq!(own_tree(&mcp).await, parallel.as_str());
    mcp.close().await;
}

/// Clients start the servers of plugins in the plugin's folder.
#[tokio::test(flavor = "multi_thread")]
async fn project_is_the_clients_wherever_the_server_is_started() {
    let env = env();
    let [nested, parallel, _] = sessions(&env);
    env.write("plugin/skills/subscope/SKILL.md", "");
    env.write("other/readme", "");
    let work = env.work().display().to_string();
    let roots = [format!("file://{work}"), "file:///nowhere".to_owned()];
    let below = [format!("file://{work}/shop")];
    let expected = [nested.as_str(), parallel.as_str()];
    let of_project = [("CLAUDE_PROJECT_DIR", work.as_str()), ("COPILOT_AGENT_SESSION_ID", "no-such")];
    for (folder, variables, roots, expected) in [
        ("plugin", &of_project[..1], &[][..], &expected[..]),
        ("other", &[("GEMINI_PROJECT_DIR", work.as_str())], &[], &expected),
        ("other", &of_project, &[], &expected),
        ("other", &[("CLAUDE_PROJECT_DIR", "/nowhere")], &roots, &expected),
        ("plugin", &[], &below, &expected[1..]),
        ("plugin", &[("COPILOT_AGENT_SESSION_ID", nested.as_str())], &[], &expected),
        ("work", &[("CLAUDE_PROJECT_DIR", "/nowhere")], &[], &expected),
    ] {
        let mut command = env.command();
        command.args(["mcp", "query"]).current_dir(env.path(folder)).envs(variables.iter().copied());
        let mcp = Mcp::start_with_roots(command.into(), roots).await;
        let answer = ask(&mcp, "list_sessions", json!({})).await;
        let mut listed = ids(&answer);
        listed.sort_by_key(|id| *id != nested);
        assert_eq!(listed, expected, "{folder} {variables:?} {roots:?}");
        assert_eq!(answer.get("why_empty"), None);
        mcp.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_answer_says_why() {
    let env = env();
    env.write("plugin/skills/subscope/SKILL.md", "");
    env.write("other/readme", "");
    let start = async |folder: &str| {
        let mut command = env.command();
        command.args(["mcp", "query"]).current_dir(env.path(folder));
        Mcp::start_as(command.into()).await
    };
    let why = async |mcp: &Mcp, tool: &str, arguments: Value| {
        ask(mcp, tool, arguments).await["why_empty"].as_str().unwrap().to_owned()
    };
    let mcp = start("other").await;
    assert!(why(&mcp, "list_sessions", json!({})).await.contains("no session is known on this machine"));
    mcp.close().await;
    sessions(&env);
    let mcp = start("other").await;
    for (tool, arguments) in [("list_sessions", json!({})), ("search", json!({"query": "pricing"}))] {
        let why = why(&mcp, tool, arguments).await;
        assert!(why.contains("/other is known; 3 of other projects are hidden"), "{why}");
        assert!(why.contains("--all-projects"), "{why}");
    }
    mcp.close().await;
    let mcp = start("work").await;
    assert!(why(&mcp, "list_sessions", json!({"live": true})).await.contains("no live session"));
    let none = why(&mcp, "search", json!({"query": "zebraquux"})).await;
    assert!(none.contains("of the 2 sessions of") && none.contains("/work"), "{none}");
    let none = why(&mcp, "get_events", json!({"session": "last", "kinds": ["stall"]})).await;
    assert!(none.contains("none of the"), "{none}");
    mcp.close().await;
    let mcp = start("plugin").await;
    for (tool, arguments) in [("list_sessions", json!({})), ("get_tree", json!({"session": "last"}))] {
        let error = mcp.error(tool, arguments).await;
        assert!(error.contains("no project is known") && error.contains("--all-projects"), "{error}");
    }
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_in_order_by_pages_and_filters() {
    let env = env();
    let [nested, ..] = sessions(&env);
    let mcp = Mcp::start(&env, &[], &["query"]).await;
    let exported = env.run(&["export", &nested, "--as", "feed"]).success();
    let all: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (mut after, mut paged) = (Value::Null, Vec::new());
    loop {
        let page = ask(&mcp, "get_events", json!({"session": nested, "limit": 7, "after": after})).await;
        assert_eq!(page["schema"], "subscope.events/1");
        paged.extend(page["events"].as_array().unwrap().iter().map(|event| event["id"].clone()));
        after = page["next"].clone();
        if after.is_null() {
            break;
        }
        assert!(after.is_u64(), "as of the route: {after}");
    }
    assert_eq!(paged, all.iter().map(|event| event["id"].clone()).collect::<Vec<_>>());
    let calls =
        ask(&mcp, "get_events", json!({"session": nested, "kinds": ["tool.pre"], "agent": "root"})).await;
    let calls = calls["events"].as_array().unwrap();
    let expected =
        all.iter().filter(|event| event["kind"] == "tool.pre" && event["actor_id"] == "agent:root").count();
    assert_eq!(calls.len(), expected);
    let error = mcp.error("get_events", json!({"session": nested, "agent": "nobody"})).await;
    assert!(error.contains("no agent"), "{error}");
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn long_and_hostile_texts_are_cut_and_harmless() {
    let env = env();
    let hostile = adopt(&env, &recording("2.1.330", "l-hostile-output"), &env.work());
    let big = adopt(&env, &recording("2.1.330", "k-big"), &env.work());
    let mcp = Mcp::start(&env, &[], &["query"]).await;
    for session in [&hostile, &big] {
        for (tool, arguments) in [
            ("get_tree", json!({"session": session, "limit": 200})),
            ("get_agent", json!({"session": session, "agent": "root", "limit": 200})),
            ("get_events", json!({"session": session, "limit": 200})),
            ("search", json!({"session": session, "query": "the", "limit": 50})),
        ] {
            let result = mcp.call(tool, arguments).await;
            let text = text(&result);
            structure(&result);
            assert!(text.len() < 100_000, "{tool}: {}", text.len());
            let acts =
                |character: char| character.is_control() || ('\u{202a}'..='\u{202e}').contains(&character);
            assert!(!text.contains(acts), "{tool}");
        }
    }
    assert!(!ask(&mcp, "get_events", json!({"session": big, "limit": 200})).await["next"].is_null());
    let long = json!({"type": "user", "sessionId": "long", "uuid": "u1", "timestamp": "2026-11-21T20:45:06.647Z", "parentUuid": null,
        "cwd": env.work(), "message": {"role": "user", "content": "tell ".repeat(1_000)}});
    env.write("home/.claude/projects/-long/long.jsonl", format!("{long}\n"));
    let events = ask(&mcp, "get_events", json!({"session": "long", "kinds": ["user.prompt"]})).await;
    assert_eq!(events["left_out"]["characters"], 4_000);
    let text = events["events"][0]["data"]["text"].as_str().unwrap();
    assert!(text.ends_with("… (4000 more characters)"), "{text}");
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_arguments_are_told_by_name() {
    let env = env();
    sessions(&env);
    let mcp = Mcp::start(&env, &[], &["query"]).await;
    assert!(
        mcp.tools().await.iter().all(|tool| tool.annotations.as_ref().unwrap().read_only_hint == Some(true))
    );
    for (tool, arguments, expected) in [
        ("get_tree", json!({}), "session is missing"),
        ("get_agent", json!({"agent": "root"}), "session is missing"),
        ("get_events", json!({"session": "self"}), "session is missing"),
        ("search", json!({"query": "- \"\""}), "the query has no word"),
        ("list_sessions", json!({"after": "x"}), "after is no `next`"),
        ("get_events", json!({"session": "last", "kinds": "tool.pre"}), "kinds has to be"),
        ("list_sessions", json!({"limit": 0}), "limit has to be"),
        ("list_sessions", json!({"sort": "price"}), "sort has to be one of newest, cost"),
        ("list_sessions", json!({"days": 0}), "days has to be"),
    ] {
        let error = mcp.error(tool, arguments).await;
        assert!(error.contains(expected), "{tool}: {error}");
    }
    mcp.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_is_asked_where_there_is_one_and_nothing_is_started_twice() {
    let env = env();
    let [nested, ..] = sessions(&env);
    let serving = Serving::start(&env, "");
    serving.has_read();
    let mcp = Mcp::start(&env, &[], &["query"]).await;
    assert_eq!(ids(&ask(&mcp, "list_sessions", json!({})).await).len(), 2);
    assert!(ask(&mcp, "get_tree", json!({"session": nested})).await["agents"].as_array().unwrap().len() > 2);
    let hits = ask(&mcp, "search", json!({"query": "pricing"})).await;
    assert!(!hits["hits"].as_array().unwrap().is_empty());
    mcp.close().await;
    serving.end("-TERM");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_were_published_are_of_the_folder_that_they_name() {
    let env = env();
    let serving = Serving::start(&env, "");
    let folders = [("r1", Some(env.work())), ("r2", Some(RECORDED_IN.into())), ("r3", None)];
    for (run, folder) in folders {
        let event = json!({"subagentName": "w", "subagentRunId": run, "timestamp": 1, "type": "subagent_start", "cwd": folder});
        serving.post("/subagent-events", "", event.to_string().as_bytes());
    }
    let mcp = Mcp::start(&env, &[], &["query"]).await;
    assert_eq!(ids(&ask(&mcp, "list_sessions", json!({})).await), ["events:r1"]);
    mcp.close().await;
    serving.end("-TERM");
}

#[tokio::test(flavor = "multi_thread")]
async fn question_before_the_end_of_input_is_answered() {
    let env = env();
    let [nested, ..] = sessions(&env);
    let lines: Vec<Value> = vec![
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "sh", "version": "0"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "get_tree", "arguments": {"session": nested}}}),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let ran = tokio::task::spawn_blocking(move || {
        let ran = env.run_with_stdin(&["mcp", "query"], input.as_bytes());
        (ran, env)
    });
    let (ran, _env) = ran.await.unwrap();
    let answers: Vec<Value> = ran.success().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[1]["result"]["structuredContent"]["session"]["id"], nested.as_str());
}
