//! Forks: each is shown as what it is, wherever its files are, with the tree of its parent; and no recording of any harness
//! is taken for a fork.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use subscope_harness::{Role, classify, recognize, recognize_printed};
use subscope_model::Tree;
use subscope_session::{SourceOrigin, SourceSpec};
use subscope_testkit::{
    fixtures::{self, recordings},
    others::{OtherRecording, acp_recordings, other_recordings},
    sessions::{Part, Telling, parts_of, tree},
};

/// A fork of Claude Code or Codex, with a folder of its transcripts and a mark in its lines.
struct Row {
    fork: &'static str,
    parent: &'static str,
    folder: &'static str,
    /// Puts the mark of the fork into a line; `None` where only its folder tells.
    mark: Option<fn(&mut Value)>,
}

const FORKS: &[Row] = &[
    Row { fork: "iflow", parent: "claude-code", folder: "/h/.iflow/projects", mark: Some(iflow) },
    Row { fork: "qoder", parent: "claude-code", folder: "/h/.qoder/projects", mark: Some(qoder) },
    Row { fork: "qoder", parent: "claude-code", folder: "/h/.qoderwork/projects", mark: Some(qoder) },
    Row {
        fork: "openclaude",
        parent: "claude-code",
        folder: "/h/.openclaude/projects",
        mark: Some(openclaude),
    },
    Row { fork: "icodemate-cli", parent: "claude-code", folder: "/h/.icodemate/cli/projects", mark: None },
    Row { fork: "traex", parent: "codex", folder: "/h/.trae/cli/sessions", mark: Some(traex) },
    Row { fork: "traex", parent: "codex", folder: "/h/.trae/sessions", mark: Some(traex) },
];

fn iflow(line: &mut Value) {
    if let Some(id) = line["sessionId"].as_str().filter(|id| id.len() == 36) {
        line["sessionId"] = json!(format!("session-{id}"));
    }
}

fn qoder(line: &mut Value) {
    if line["type"] == "assistant" && line["message"].is_object() {
        line["message"]["usage"]["credits"] = json!(1.5);
        line["message"]["usage"]["original_credits"] = json!(1.5);
        line["message"]["usage"]["billable"] = json!(true);
    }
}

fn openclaude(line: &mut Value) {
    if line["version"].is_string() {
        line["version"] = json!("99.0.0");
    }
}

fn traex(line: &mut Value) {
    if line["type"] == "session_meta" {
        line["payload"]["model_provider"] = json!("trae");
    }
}

/// A file of a parent's recording: where it is below the folder of transcripts, and what is in it.
struct Recorded {
    below: PathBuf,
    bytes: Vec<u8>,
}

fn files(recording: &(String, Vec<(PathBuf, PathBuf)>)) -> Vec<Recorded> {
    let read = |(root, path): &(PathBuf, PathBuf)| Recorded {
        below: path.strip_prefix(root).unwrap().to_owned(),
        bytes: fixtures::bytes(path),
    };
    recording.1.iter().map(read).collect()
}

/// The recordings of a parent with its own files, each below the folder of transcripts.
fn recorded(parent: &str) -> Vec<(String, Vec<(PathBuf, PathBuf)>)> {
    if parent == "claude-code" {
        let of = |it: fixtures::Recording| {
            let files = it.conversation().into_iter().map(|path| (it.projects(), path));
            (it.name(), files.collect())
        };
        return recordings().into_iter().map(of).collect();
    }
    let own = other_recordings().into_iter().filter(|recording| recording.harness == parent);
    let of = |it: OtherRecording| {
        let mut files = Vec::new();
        walk(&it.on_disk, &mut |path| files.push((it.on_disk.clone(), path)));
        (it.name(), files)
    };
    own.map(of).collect()
}

fn walk(folder: &Path, each: &mut dyn FnMut(PathBuf)) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() { walk(&path, each) } else { each(path) }
    }
}

/// The source of a file at a path, as it is read from disk.
fn placed(at: &Path, session: Option<&str>, bytes: Vec<u8>) -> Part {
    let place = classify(at);
    let is_main = place.role == Role::Main;
    let spec = SourceSpec {
        label: at.display().to_string(),
        origin: SourceOrigin::TailedFile,
        dialect: place.dialect.filter(|_| !is_main),
        by_path: place.dialect,
        session: place.session.or_else(|| session.map(str::to_owned)),
        agent: place.agent,
        workflow: place.workflow,
        ..SourceSpec::default()
    };
    Part { spec, bytes }
}

fn parts(folder: &str, files: &[Recorded], mark: Option<fn(&mut Value)>, session: Option<&str>) -> Vec<Part> {
    let marked = |file: &Recorded| match mark {
        Some(mark) if file.below.extension().is_some_and(|end| end == "jsonl") => {
            let line = |line: &[u8]| match serde_json::from_slice::<Value>(line) {
                Ok(mut value) => {
                    mark(&mut value);
                    [value.to_string().as_bytes(), b"\n"].concat()
                }
                Err(_) => line.to_vec(),
            };
            file.bytes.split_inclusive(|byte| *byte == b'\n').flat_map(line).collect()
        }
        Some(_) | None => file.bytes.clone(),
    };
    let part = |file: &Recorded| placed(&Path::new(folder).join(&file.below), session, marked(file));
    files.iter().map(part).collect()
}

/// A tree without what names the program.
fn unnamed(tree: &Tree) -> Value {
    let mut tree = serde_json::to_value(tree).unwrap();
    for field in ["harness", "harness_version", "id"] {
        tree["session"][field] = Value::Null;
    }
    tree
}

fn harness(tree: &Tree) -> Option<&str> {
    tree.session.harness.as_deref()
}

#[test]
fn a_fork_has_the_tree_of_its_parent_and_its_own_name_by_its_folder() {
    for row in FORKS {
        let mut count = 0;
        for recording in recorded(row.parent) {
            let files = files(&recording);
            let session = (row.parent == "codex").then_some("s");
            let home = if row.parent == "codex" { "/h/.codex/sessions" } else { "/h/.claude/projects" };
            let own = tree(&parts(home, &files, None, session));
            let fork = tree(&parts(row.folder, &files, None, session));
            let names = (harness(&own), harness(&fork));
            assert_eq!(names, (Some(row.parent), Some(row.fork)), "{} {}", row.folder, recording.0);
            assert_eq!(unnamed(&own), unnamed(&fork), "{} {}", row.folder, recording.0);
            count += 1;
        }
        assert!(count >= 8, "{count} recordings of {}", row.parent);
    }
}

#[test]
fn a_fork_is_known_by_a_mark_in_its_lines_wherever_they_are() {
    for row in FORKS {
        let Some(mark) = row.mark else { continue };
        for recording in recorded(row.parent) {
            let files = files(&recording);
            let copied = parts("/copied", &files, Some(mark), Some("s"));
            // A file of a session that was stopped at once has no line that could have a mark.
            let mains: Vec<&Part> = copied.iter().filter(|part| part.spec.agent.is_none()).collect();
            for part in mains.iter().filter(|part| part.spec.label.ends_with(".jsonl")) {
                let found = recognize(&part.bytes).and_then(|dialect| dialect.harness());
                assert_eq!(found, Some(row.fork), "{} {} {}", row.fork, recording.0, part.spec.label);
            }
        }
    }
}

#[test]
fn forks_of_opencode_are_known_by_their_databases_and_by_the_program_that_printed() {
    let recorded = other_recordings().into_iter().filter(|recording| recording.harness == "opencode");
    let with_database = recorded.filter(|recording| recording.on_disk.ends_with("opencode.db"));
    let mut count = 0;
    for recording in with_database {
        let own = tree(&recording.disk());
        for (folder, name) in
            [("mimocode", "mimocode.db"), ("icodemate", "icodemate.db"), ("x", "mimocode-dev.db")]
        {
            let home = tempfile::tempdir().unwrap();
            let database = home.path().join(folder).join(name);
            fs::create_dir_all(database.parent().unwrap()).unwrap();
            fs::copy(&recording.on_disk, &database).unwrap();
            let fork = tree(&OtherRecording { on_disk: database, ..recording.clone() }.disk());
            let expected = name.split(['.', '-']).next();
            assert_eq!((harness(&own), harness(&fork)), (Some("opencode"), expected), "{}", recording.name());
            assert_eq!(unnamed(&own), unnamed(&fork), "{} {name}", recording.name());
        }
        for printed in recording.streams.iter().flatten().filter(|path| path.ends_with("stdout.jsonl")) {
            let lines = fixtures::bytes(printed);
            let by = |program| recognize_printed(Some(program), &lines).and_then(|dialect| dialect.harness());
            assert_eq!(
                (by("opencode"), by("mimo")),
                (Some("opencode"), Some("mimocode")),
                "{}",
                recording.name()
            );
        }
        count += 1;
    }
    assert!(count >= 6, "{count} databases");
}

#[test]
fn no_recording_of_any_harness_is_taken_for_another_ones() {
    let claude = recordings().into_iter().flat_map(|recording| {
        let named = recording.name();
        let parts = parts_of(&recording, &[Telling::Transcript, Telling::Stream, Telling::Hooks]);
        parts.into_iter().map(move |part| ("claude-code", named.clone(), part))
    });
    let others = other_recordings().into_iter().chain(acp_recordings()).flat_map(|recording| {
        let (harness, named) = (recording.harness, recording.name());
        let streams = recording.streams.iter().flat_map(|files| OtherRecording::stream(files));
        let parts: Vec<Part> = recording.disk().into_iter().chain(streams).collect();
        parts.into_iter().map(move |part| (harness, named.clone(), part))
    });
    let mut known = 0;
    for (expected, name, part) in claude.chain(others) {
        let Some(found) = recognize(&part.bytes).and_then(|dialect| dialect.harness()) else { continue };
        known += 1;
        // What a killed fork printed may have no mark of it, and pi's lines are those of its whole family.
        let is_family = (found, expected) == ("opencode", "kilo") || (found, expected) == ("pi", "omp");
        assert!(found == expected || is_family, "{name} {}: {found}", part.spec.label);
    }
    assert!(known > 400, "{known} sources");
}

#[test]
fn public_lines_of_forks_are_named() {
    let meta = r#"{"timestamp":"t","type":"session_meta","payload":{"id":"019fbcca-9fd4-7d20-83dc-0762b2f839b3","originator":"codex-tui","cli_version":"0.200.19","model_provider":"trae"}}"#;
    let iflow = r#"{"uuid":"u","parentUuid":null,"sessionId":"session-5de701fc-7454-4858-a249-95cac4fd3b51","timestamp":"2026-01-21T05:56:34.812Z","type":"user","message":{"role":"user","content":"go"},"version":"1.0.0"}"#;
    for (line, expected) in [
        (meta.to_owned(), Some("traex")),
        (meta.replace("trae", "openai"), Some("codex")),
        (meta.replace("codex-tui", "traex_cli").replace("\"trae\"", "\"x\""), Some("traex")),
        (iflow.to_owned(), Some("iflow")),
        (iflow.replace("session-", ""), Some("claude-code")),
        (iflow.replace("session-", "").replace("1.0.0", "99.0.0"), Some("openclaude")),
    ] {
        assert_eq!(recognize(line.as_bytes()).and_then(|dialect| dialect.harness()), expected, "{line}");
    }
}

#[test]
fn the_rollout_of_an_agent_names_its_fork_where_that_of_the_root_is_missing() {
    let thread = "019fbcca-9fd4-7d20-83dc-0762b2f839b3";
    let head = format!(
        r#"{{"timestamp":"2026-08-01T18:07:04.550Z","type":"session_meta","payload":{{"id":"{thread}","originator":"codex-tui","model_provider":"trae","source":{{"subagent":{{"thread_spawn":{{"parent_thread_id":"019fbc4a-48b9-7472-a0da-6d92901383db"}}}}}}}}}}"#
    );
    for (line, expected) in [(head.clone(), "traex"), (head.replace("trae", "openai"), "codex")] {
        let at = format!("/copied/rollout-2026-08-01T18-07-03-{thread}.jsonl");
        let part = placed(Path::new(&at), Some("s"), (line + "\n").into_bytes());
        assert_eq!(harness(&tree(&[part])), Some(expected));
    }
}
