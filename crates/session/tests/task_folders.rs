//! Tasks of extensions that keep each in a folder of its own. None was run here: `fixtures/wild/task-folders` is made up after
//! the sources of Roo Code and Cline, and after readers of their folders.

#![allow(clippy::unwrap_used)]

use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use subscope_harness::{Bundle, TaskBundle, bundle, recognize};
use subscope_model::{AgentStatus, ToolStatus, Tree};
use subscope_testkit::{
    fixtures,
    sessions::{Part, tree},
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

fn tree_of(extension: &str, all: &[&str]) -> Tree {
    tree(&[part(&lines(extension, all))])
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
