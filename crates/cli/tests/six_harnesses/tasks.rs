//! Extensions that keep each task in a folder of its own, and a fork of each family: found, followed and kept as the sessions
//! of the programs that were run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use serde_json::{Value, json};
use subscope_hub::clock;
use subscope_testkit::{
    env::TestEnv,
    fixtures::{self, recording},
};

use crate::{
    common::{
        env, json as parsed,
        serving::{LIMIT, Serving},
    },
    home::{CLAUDE_CODE, FORK, Placed, assert_same, recorded, rows, write},
};

/// The folder of extensions' data in the home.
const EDITOR: &str = "home/.vscode-server/data/User/globalStorage";
/// The extensions, each with its folder and root tasks.
pub(crate) const EXTENSIONS: [(&str, &str, &[&str]); 3] = [
    ("cline-vscode", "saoudrizwan.claude-dev", &["1770000100000"]),
    (
        "roo",
        "rooveterinaryinc.roo-cline",
        &["019c0000-0000-7000-8000-000000000001", "019c0000-0000-7000-8000-000000000010"],
    ),
    ("kilo-vscode", "kilocode.kilo-code", &["1770000200000"]),
];
const CHILD: &str = "019c0000-0000-7000-8000-000000000002";

/// The files of an extension's tasks, and where they go in the environment.
pub(crate) fn placed(extension: &str) -> Vec<Placed> {
    let from = fixtures::root().join("wild/task-folders").join(extension);
    let files = fixtures::files_below(&from).into_iter();
    let to = |file: &PathBuf| PathBuf::from(EDITOR).join(extension).join(file.strip_prefix(&from).unwrap());
    files.map(|file| Placed { to: to(&file), bytes: fixtures::bytes(&file) }).collect()
}

/// Writes all tasks. Returns their files, in the environment.
fn fill(env: &TestEnv) -> Vec<Placed> {
    let all = EXTENSIONS.iter().flat_map(|(_, extension, _)| placed(extension));
    let all: Vec<Placed> =
        all.map(|file| Placed { to: env.path(file.to.to_str().unwrap()), ..file }).collect();
    all.iter().for_each(|file| write(&file.to, &file.bytes));
    all
}

/// What a tree says of each agent.
fn agents(tree: &Value) -> Vec<Value> {
    let of =
        |row: &Value| json!([row["id"], row["parent_id"], row["status"], row["tool_calls"], row["usage"]]);
    tree["agents"].as_array().into_iter().flatten().map(of).collect()
}

fn tree(env: &TestEnv, target: &str) -> Value {
    parsed(&env.run(&["-q", "tree", target, "--json"]).success())
}

#[test]
fn each_path_of_a_task_is_its_session() {
    let env = env();
    fill(&env);
    for (name, extension, tasks) in EXTENSIONS {
        let folder = env.path(EDITOR).join(extension).join("tasks");
        for task in tasks {
            let by_id = tree(&env, task);
            assert_eq!(by_id["session"]["harness"], name, "{task}");
            assert_eq!(by_id["problems"], json!([]), "{task}");
            for below in ["", "ui_messages.json", "api_conversation_history.json"] {
                let path = folder.join(task).join(below).display().to_string();
                let by_path = tree(&env, path.trim_end_matches('/'));
                assert_eq!(agents(&by_path), agents(&by_id), "{path}");
            }
        }
    }
    let doctor = env.run(&["doctor"]).stdout;
    for title in ["Roo Code", "Cline for VS Code", "Kilo Code for VS Code"] {
        assert!(doctor.contains(title), "{title}: {doctor}");
    }
}

#[test]
fn a_task_is_followed_while_its_documents_are_rewritten() {
    let env = env();
    let (_, extension, [root, ..]) = EXTENSIONS[1] else { panic!("no root") };
    let mut later = Vec::new();
    for mut file in placed(extension) {
        file.to = env.path(file.to.to_str().unwrap());
        let is_of = |task: &str| file.to.iter().any(|part| part == task);
        if is_of(CHILD) {
            later.push(file);
        } else if is_of(root) && file.to.ends_with("ui_messages.json") {
            let mut messages: Value = serde_json::from_slice(&file.bytes).unwrap();
            messages.as_array_mut().unwrap().truncate(6);
            write(&file.to, messages.to_string().as_bytes());
            later.push(file);
        } else {
            write(&file.to, &file.bytes);
        }
    }
    let serving = Serving::start(&env, "");
    serving.has_read();
    let wait = |what: &str, is_it: &dyn Fn(&Value) -> bool| {
        let began = clock::tick();
        loop {
            let tree = serving.tree(root).unwrap_or_default();
            if is_it(&tree) {
                return;
            }
            assert!(began.elapsed() < LIMIT, "{what}: {:?}", agents(&tree));
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    let status = |tree: &Value, agent: usize| tree["agents"][agent]["status"].clone();
    wait("the root", &|tree| {
        !tree["agents"].as_array().is_none_or(Vec::is_empty) && status(tree, 0) != "completed"
    });
    // Each document is first there by half.
    for file in &later {
        write(&file.to, &file.bytes[..file.bytes.len() / 2]);
    }
    serving.has_read();
    let half = serving.tree(root).unwrap();
    assert_ne!(status(&half, 0), "completed", "{:?}", agents(&half));
    for file in &later {
        write(&file.to, &file.bytes);
    }
    wait("its end", &|tree| {
        let all = tree["agents"].as_array().map_or(0, Vec::len);
        all == 2 && status(tree, 0) == "completed" && status(tree, 1) == "completed"
    });
    let live = serving.tree(root).unwrap();
    serving.end("-TERM");
    assert_eq!(agents(&live), agents(&tree(&env, root)));
}

/// What a list says of sessions of tasks and of a fork of each family stays, whatever happens to their files.
#[test]
fn damage_to_tasks_and_forks_takes_nothing_away() {
    let env = env();
    let mut all = fill(&env);
    let claude = recording(CLAUDE_CODE.0, CLAUDE_CODE.1).projects();
    let codex = recorded("codex/0.169.0/v1_two_parallel").folder.join("sessions");
    let omp = recorded("omp/18.2.3/two_parallel").folder.join("dot_omp/sessions");
    for (from, to) in [
        (claude, "home/.qoder/projects"),
        (codex, "home/.trae/cli/sessions"),
        (omp, "home/.pi/agent/sessions"),
    ] {
        for file in fixtures::files_below(&from) {
            let to = env.path(to).join(file.strip_prefix(&from).unwrap());
            all.push(Placed { to, bytes: fixtures::bytes(&file) });
        }
    }
    let kilo = recorded(FORK.0).folder.join(FORK.1);
    all.push(Placed { to: env.path(FORK.2), bytes: fixtures::bytes(&kilo) });
    all.iter().for_each(|file| write(&file.to, &file.bytes));
    env.run(&["index"]).success();
    let before = rows(&env);
    let names: BTreeSet<&str> = before.values().filter_map(|row| row[0].as_str()).collect();
    for name in ["cline-vscode", "roo", "kilo-vscode", "qoder", "traex", "kilo"] {
        assert!(names.contains(name), "{name}: {names:?}");
    }
    let trees = |env: &TestEnv| -> BTreeMap<String, Value> {
        before.keys().map(|id| (id.clone(), json!(agents(&tree(env, id))))).collect()
    };
    let known = trees(&env);
    type Spoil = fn(&[u8]) -> Vec<u8>;
    let spoil: [(&str, Spoil); 3] = [
        ("zeros", |bytes| vec![0; bytes.len()]),
        ("one letter", |_| b"x".to_vec()),
        ("half", |bytes| bytes[..bytes.len() / 2].to_vec()),
    ];
    for (damage, spoiled) in spoil {
        all.iter().for_each(|file| fs::write(&file.to, spoiled(&file.bytes)).unwrap());
        assert_same(&trees(&env), &known, damage);
        env.run(&["index"]);
        assert_same(&rows(&env), &before, damage);
        assert_same(&trees(&env), &known, &format!("{damage}, indexed"));
        all.iter().for_each(|file| fs::write(&file.to, &file.bytes).unwrap());
    }
    all.iter().for_each(|file| fs::remove_file(&file.to).unwrap());
    env.run(&["index"]);
    assert_same(&rows(&env), &before, "deleted");
    assert_same(&trees(&env), &known, "deleted");
}
