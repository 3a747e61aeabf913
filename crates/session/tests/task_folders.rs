//! Tasks of extensions that keep each in a folder of its own. None was run here: `fixtures/wild/task-folders` is made up after
//! the sources of Roo Code and Cline, and after readers of their folders.

#![allow(clippy::unwrap_used)]

use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use subscope_harness::{Bundle, TaskBundle, bundle, recognize};
use subscope_model::{AgentStatus, EventKind, LivenessKind, ToolStatus, Tree};
use subscope_testkit::{
    fixtures,
    sessions::{Part, events, options, read, tree, tree_at},
};

const ROO: &str = "rooveterinaryinc.roo-cline";
const CLINE: &str = "saoudrizwan.claude-dev";
const KILO: &str = "kilocode.kilo-code";
const FIRST: &str = "019c0000-0000-7000-8000-000000000001";
const CHILD: &str = "019c0000-0000-7000-8000-000000000002";
const WAITS: &str = "019c0000-0000-7000-8000-000000000010";
const STOPPED: &str = "019c0000-0000-7000-8000-000000000011";
const ALONE: &str = "1770000100000";
const ASKS: &str = "1770000200000";

fn tasks(extension: &str) -> (PathBuf, &'static TaskBundle) {
    let folder = fixtures::root().join("wild/task-folders").join(extension).join("tasks");
    let Some(Bundle::Tasks(form)) = bundle(&folder) else { panic!("{extension}: no bundle") };
    (folder, form)
}

/// The lines of tasks, as a session of the folder has them; the first is the root.
fn lines(extension: &str, all: &[&str]) -> Vec<Value> {
    let (folder, form) = tasks(extension);
    let mut lines = Vec::new();
    for task in all {
        for (name, kind) in form.documents {
            let Ok(text) = fs::read_to_string(folder.join(task).join(name)) else { continue };
            let begin = text.find(['[', '{']).unwrap();
            let content: Value = serde_json::from_str(&text[begin..]).unwrap();
            let parent = (task != &all[0]).then_some(all[0]);
            lines.push(
                json!({"type": kind, "task": task, "root": all[0], "parent": parent, "content": content}),
            );
        }
    }
    lines
}

fn part(lines: &[Value]) -> Part {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Part::new("tasks", text.into_bytes())
}

fn tree_of_lines(lines: &[Value]) -> Tree {
    tree(&[part(lines)])
}

fn tree_of(extension: &str, all: &[&str]) -> Tree {
    tree_of_lines(&lines(extension, all))
}

fn calls(tree: &Tree, agent: usize) -> Vec<(&str, ToolStatus)> {
    tree.agents[agent].tools.iter().map(|call| (&*call.name, call.status)).collect()
}

#[test]
fn a_task_and_the_task_that_it_started_are_a_tree() {
    let tree = tree_of(ROO, &[FIRST, CHILD]);
    assert_eq!(tree.session.harness.as_deref(), Some("roo"));
    assert_eq!((tree.session.cwd.as_deref(), tree.session.runs), (Some("/w/shop"), 1));
    let [root, child] = tree.agents.as_slice() else { panic!("{:?}", tree.agents) };
    assert_eq!((root.status, root.result.as_deref()), (AgentStatus::Completed, Some("All done.")));
    assert_eq!((child.status, child.result.as_deref()), (AgentStatus::Completed, Some("Two lines.")));
    assert_eq!((child.agent_type.as_deref(), child.spawned_by.as_deref()), (Some("code"), Some("call_2")));
    assert_eq!(child.parent_id, Some(root.id.clone()));
    assert_eq!(calls(&tree, 0), [("read_file", ToolStatus::Ok), ("new_task", ToolStatus::Ok)]);
    let expected = [("execute_command", ToolStatus::Error), ("write_to_file", ToolStatus::Denied)];
    assert_eq!(calls(&tree, 1), expected);
    let usage = root.usage.unwrap();
    assert_eq!([usage.input_tokens, usage.output_tokens], [4_000, 120], "the input holds the cached");
    assert_eq!([usage.cache_read_tokens, usage.cache_write_tokens], [400, 100]);
    assert_eq!(root.cost_micro_usd, Some(30_000));
    assert_eq!(child.cost_micro_usd, Some(20_000));
    assert_eq!([child.started_at_ms, child.ended_at_ms], [Some(1_770_000_002_000), Some(1_770_000_007_900)]);
}

#[test]
fn a_task_that_a_person_has_stopped_is_stopped_and_its_parent_waits() {
    let tree = tree_of(ROO, &[WAITS, STOPPED]);
    let [root, child] = tree.agents.as_slice() else { panic!("{:?}", tree.agents) };
    assert_eq!((child.status, child.evidence.as_deref()), (AgentStatus::Stopped, Some("turn interrupted")));
    assert_eq!(child.spawned_by.as_deref(), Some("call_7"));
    assert_eq!((root.status, root.tools[0].status), (AgentStatus::Lost, ToolStatus::Open), "silent for long");
}

#[test]
fn calls_of_older_versions_are_elements_in_texts_and_agents_are_shown_by_their_call() {
    let tree = tree_of(CLINE, &[ALONE]);
    assert_eq!(tree.session.harness.as_deref(), Some("cline-vscode"));
    assert_eq!(
        (tree.session.harness_version.as_deref(), tree.session.title.as_deref()),
        (Some("3.60.0"), Some("Look at both files"))
    );
    let expected = [
        ("read_file", ToolStatus::Ok),
        ("write_to_file", ToolStatus::Error),
        ("execute_command", ToolStatus::Denied),
    ];
    assert_eq!(calls(&tree, 0), expected);
    assert_eq!(tree.agents[0].tools[1].writes.iter().map(|file| &**file).collect::<Vec<_>>(), ["x.html"]);
    let root = &tree.agents[0];
    assert_eq!((root.status, root.error.as_deref()), (AgentStatus::Failed, Some("429 Too many requests")));
    assert_eq!(root.model.as_deref(), Some("claude-sonnet-4-5"));
    assert_eq!(root.usage.unwrap().input_tokens, 3_000, "the input does not hold the cached");
    let ends: Vec<_> = tree.agents[1..]
        .iter()
        .map(|agent| (agent.status, agent.result.as_deref(), agent.error.as_deref(), agent.cost_micro_usd))
        .collect();
    let expected = [
        (AgentStatus::Completed, Some("It prints."), None, Some(4_000)),
        (AgentStatus::Failed, None, Some("No such file"), Some(3_000)),
    ];
    assert_eq!(ends, expected);
}

#[test]
fn a_question_is_an_open_call() {
    let tree = tree_of(KILO, &[ASKS]);
    assert_eq!(tree.session.harness.as_deref(), Some("kilo-vscode"));
    assert_eq!(calls(&tree, 0), [("ask_followup_question", ToolStatus::Open)]);
}

/// The lines of a task of Roo Code that has called a tool, and of what the editor shows behind that.
fn asking(tool: &str, input: &Value, shown: &[Value]) -> Vec<Value> {
    let (start, call) =
        (1_770_000_300_000_i64, json!({"type": "tool_use", "id": "c1", "name": tool, "input": input}));
    let request = json!({"apiProtocol": "anthropic", "tokensIn": 5, "tokensOut": 5}).to_string();
    let mut messages = vec![
        json!({"ts": start, "type": "say", "say": "text", "text": "Do it"}),
        json!({"ts": start + 100, "type": "say", "say": "api_req_started", "text": request}),
    ];
    messages.extend(shown.iter().enumerate().map(|(at, message)| {
        let mut message = message.clone();
        message["ts"] = json!(start + 500 + 100 * at as i64);
        message
    }));
    // The conversation is written once the answer has ended, which may be after the question.
    let history = json!([
        {"role": "user", "content": "Do it", "ts": start},
        {"role": "assistant", "content": [call], "ts": start + 900},
    ]);
    let line = |kind: &str, content: Value| json!({"type": kind, "task": ASKS, "root": ASKS, "parent": null, "content": content});
    vec![line("roo.task.messages", json!(messages)), line("roo.task.history", history)]
}

/// What an agent does or waits for: kind, tool, and since when.
type Doing = (LivenessKind, Option<String>, Option<i64>);

/// What the root does or waits for, ten seconds after the last message.
fn activity(lines: &[Value]) -> (AgentStatus, Option<Doing>) {
    let tree = tree_at(&read(&[part(lines)], options(false)), 1_770_000_310_000);
    // The document says what is asked now, and not how often.
    assert_eq!(tree.summary.permissions_asked, None);
    let root = tree.agents.into_iter().next().unwrap();
    let liveness = root.liveness.map(|it| {
        assert!(!it.inferred, "{it:?}");
        (it.kind, it.name.map(|name| name.to_string()), it.since_ms.map(|since| since - 1_770_000_300_000))
    });
    (root.status, liveness)
}

#[test]
fn a_call_that_a_person_is_asked_to_allow_waits_until_it_is_answered() {
    let ask = |ask: &str, text: Value| json!({"type": "ask", "ask": ask, "text": text.to_string()});
    let read = |path: &str| ask("tool", json!({"tool": "readFile", "path": path}));
    let answered = |mut ask: Value| {
        ask["isAnswered"] = json!(true);
        ask
    };
    let say = |say: &str| json!({"type": "say", "say": say, "text": ""});
    let mcp = ask("use_mcp_server", json!({"type": "use_mcp_tool", "serverName": "s", "toolName": "t"}));
    let file = json!({"path": "a.py"});
    use LivenessKind::{Children, Permission, Question, Tool};
    let cases = [
        ("read_file", vec![read("a.py")], Permission, 500),
        ("read_file", vec![say("text"), read("a.py")], Permission, 600),
        ("read_file", vec![answered(read("a.py"))], Tool, 900),
        ("read_file", vec![read("a.py"), say("user_feedback")], Tool, 900),
        ("use_mcp_tool", vec![mcp.clone()], Permission, 500),
        ("use_mcp_tool", vec![mcp, say("mcp_server_request_started")], Tool, 900),
        // It runs or waits: its question stays as it is.
        ("execute_command", vec![json!({"type": "ask", "ask": "command", "text": "make"})], Tool, 900),
        // It may be at work.
        ("new_task", vec![ask("tool", json!({"tool": "newTask", "mode": "Code"}))], Children, 900),
        // A question about another tool is none about this one.
        ("execute_command", vec![read("a.py")], Tool, 900),
        ("ask_followup_question", vec![ask("followup", json!({"question": "Which?"}))], Question, 900),
    ];
    for (tool, shown, kind, since) in cases {
        let lines = asking(tool, &file, &shown);
        let name = (kind != Children).then(|| tool.to_owned());
        let expected = (AgentStatus::Running, Some((kind, name, Some(since))));
        assert_eq!(activity(&lines), expected, "{tool}: {shown:?}");
        let backwards: Vec<Value> = lines.iter().rev().cloned().collect();
        assert_eq!(activity(&backwards), expected, "backwards, {tool}: {shown:?}");
        // The document before it is what was known before.
        let asked = asking(tool, &file, &[read("a.py")]);
        assert_eq!(activity(&[asked, lines].concat()), expected, "after a question, {tool}: {shown:?}");
    }
    let guidance =
        asking("read_file", &file, &[say("text"), ask("mistake_limit_reached", json!("What now?"))]);
    let expected = Some((Question, Some("mistake_limit_reached".to_owned()), Some(600)));
    assert_eq!(activity(&guidance[..1]), (AgentStatus::Running, expected));
    // Nobody says that the editor was closed: what is silent for long is lost, as with other harnesses.
    let lost = tree_of_lines(&asking("read_file", &file, &[read("a.py")]));
    assert_eq!((lost.agents[0].status, &lost.agents[0].liveness), (AgentStatus::Lost, &None));
}

#[test]
fn of_several_calls_the_one_of_the_asked_file_waits() {
    let ask = json!({"type": "ask", "ask": "tool", "text": json!({"tool": "readFile", "path": "b.py"}).to_string()});
    let mut lines = asking("read_file", &json!({"path": "a.py"}), &[ask]);
    let call = json!({"type": "tool_use", "id": "c2", "name": "read_file", "input": {"path": "b.py"}});
    lines[1]["content"][1]["content"].as_array_mut().unwrap().push(call);
    let shown: Vec<_> =
        events(&[part(&lines)]).into_iter().filter(|it| it.kind == EventKind::PermissionRequest).collect();
    let data: Vec<Value> = shown.iter().map(|event| serde_json::to_value(&event.data).unwrap()).collect();
    assert_eq!(data.len(), 1, "{data:?}");
    assert_eq!(data[0]["input"], json!({"path": "b.py"}));
}

/// What must not depend on how lines come.
fn facts(tree: &Tree) -> Value {
    let mut tree = serde_json::to_value(tree).unwrap();
    tree.as_object_mut().unwrap().remove("session").unwrap();
    tree
}

#[test]
fn any_order_and_repeat_of_documents_gives_the_same_tree() {
    for (extension, all) in
        [(ROO, vec![FIRST, CHILD]), (ROO, vec![WAITS, STOPPED]), (CLINE, vec![ALONE]), (KILO, vec![ASKS])]
    {
        let lines = lines(extension, &all);
        let expected = facts(&tree(&[part(&lines)]));
        let backwards: Vec<Value> = lines.iter().rev().cloned().collect();
        let apart: Vec<Part> = lines.iter().map(|line| part(std::slice::from_ref(line))).collect();
        for (how, parts) in [("backwards", vec![part(&backwards)]), ("apart", apart)] {
            assert_eq!(facts(&tree(&parts)), expected, "{extension} {how}");
        }
    }
}

#[test]
fn a_document_that_is_being_written_ends_nothing_and_any_start_of_a_task_is_read() {
    let all = lines(ROO, &[FIRST, CHILD]);
    for at in 0..all.len() {
        let mut cut = all.clone();
        cut[at]["content"] = json!("");
        let tree = tree(&[part(&cut)]);
        assert_eq!((tree.agents.len(), tree.problems.len()), (2, 0), "without {}", all[at]["type"]);
    }
    // The messages of a task up to any of them: it is at work until it has completed.
    let messages = all.iter().position(|line| line["type"] == "roo.task.messages").unwrap();
    let many = all[messages]["content"].as_array().unwrap().len();
    for count in 1..=many {
        let mut cut = all.clone();
        cut[messages]["content"].as_array_mut().unwrap().truncate(count);
        let root = tree(&[part(&cut)]).agents[0].status;
        assert_eq!(root == AgentStatus::Completed, count + 2 > many, "{count} of {many}");
    }
}

#[test]
fn each_line_is_of_its_extension_alone() {
    for (extension, name, all) in
        [(ROO, "roo", FIRST), (CLINE, "cline-vscode", ALONE), (KILO, "kilo-vscode", ASKS)]
    {
        for line in lines(extension, &[all]) {
            let found = recognize(format!("{line}\n").as_bytes()).unwrap();
            assert_eq!(found.harness(), Some(name), "{line}");
        }
    }
}
