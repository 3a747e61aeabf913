//! Content of snapshots at each level: by field, on all recordings, and with a secret in every field.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use subscope_export::{Redacted, SnapshotHead, snapshot, snapshot_line, tombstone};
use subscope_model::{ContentLevel, SessionId, SessionRow, SnapshotText, Tree};
use subscope_testkit::{
    fixtures,
    secrets::{left_in, secrets},
    sessions::{Telling, parts_of, tree},
};

/// A text that is in no recording.
const MARK: &str = "zebrafish quilt";

fn head(level: ContentLevel) -> SnapshotHead {
    SnapshotHead {
        machine: "laptop".into(),
        rev: 7,
        day: "2026-11-21".into(),
        time_zone: Some("Europe/Berlin".into()),
        project: Some("shop".into()),
        level,
    }
}

fn line(level: ContentLevel, tree: &Tree, texts: Vec<SnapshotText>) -> String {
    let mut bytes = Vec::new();
    snapshot_line(&snapshot(head(level), &SessionRow::of(tree), tree, texts), &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn all_trees() -> Vec<Tree> {
    fixtures::recordings().iter().map(|one| tree(&parts_of(one, &[Telling::Transcript]))).collect()
}

/// Calls `each` with the path of every leaf; positions in lists are left out of the path's name.
fn leaves(value: &Value, pointer: &str, name: &str, each: &mut dyn FnMut(&str, &str, &Value)) {
    match value {
        Value::Object(fields) => {
            // Names of types are keys there.
            let of_types = name.ends_with("by_type");
            for (key, field) in fields {
                let shown = if of_types { "*" } else { key };
                let escaped = key.replace('~', "~0").replace('/', "~1");
                leaves(field, &format!("{pointer}/{escaped}"), &format!("{name}.{shown}"), each);
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                leaves(item, &format!("{pointer}/{place}"), &format!("{name}[]"), each);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => each(pointer, name, value),
    }
}

/// Returns the trees that have `text` in one of the fields that take any text, by the name of the field.
fn with_text_in_each_field(tree: &Tree, text: &str) -> BTreeMap<String, Tree> {
    let json = serde_json::to_value(tree).unwrap();
    let mut places = BTreeMap::new();
    leaves(&json, "", "", &mut |pointer, name, _| {
        places.entry(name.to_owned()).or_insert_with(|| pointer.to_owned());
    });
    let mut found = BTreeMap::new();
    for (name, pointer) in places {
        let mut changed = json.clone();
        *changed.pointer_mut(&pointer).unwrap() = json!(text);
        if let Ok(tree) = serde_json::from_value::<Tree>(changed) {
            found.insert(name, tree);
        }
    }
    found
}

/// A tree with a value in every field that the recordings fill, and a problem.
fn full_tree() -> Tree {
    let mut full = all_trees().into_iter().max_by_key(|tree| tree.agents.len()).unwrap();
    let mut json = serde_json::to_value(&full.agents[1]).unwrap();
    json["liveness"] =
        json!({"kind": "retry", "name": "overloaded", "count": 1, "since_ms": 5, "inferred": false});
    full.agents[1] = serde_json::from_value(json).unwrap();
    full.problems
        .push(serde_json::from_value(json!({"at": "/home/user/a.jsonl:3", "what": "cut off"})).unwrap());
    full.agents.truncate(3);
    full
}

#[test]
fn each_level_lets_out_its_fields_and_no_others() {
    let full = full_tree();
    let leaving = |level| -> BTreeSet<String> {
        let marked = with_text_in_each_field(&full, MARK);
        let leaves = marked.into_iter().filter(|(_, tree)| line(level, tree, Vec::new()).contains(MARK));
        leaves.map(|(name, _)| name).collect()
    };
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let figures = set(&[
        ".agents[].actor_id",
        ".agents[].id",
        ".agents[].model",
        ".agents[].parent_id",
        ".agents[].spawned_by",
        ".agents[].tools[].id",
        ".agents[].tools[].name",
        ".agents[].type",
        ".schema",
        ".session.harness",
        ".session.harness_version",
        ".session.id",
    ]);
    let found = leaving(ContentLevel::Figures);
    assert!(found.is_subset(&figures), "{:?}", found.difference(&figures));
    let added = |level: ContentLevel, below: ContentLevel| {
        leaving(level).difference(&leaving(below)).cloned().collect::<BTreeSet<_>>()
    };
    let titles = added(ContentLevel::Titles, ContentLevel::Figures);
    let expected = set(&[
        ".agents[].description",
        ".agents[].error",
        ".agents[].evidence",
        ".agents[].liveness.name",
        ".agents[].name",
        ".agents[].tools[].detail",
        ".session.title",
    ]);
    // The liveness of the first agent, the root, is the one that is marked; it has none.
    assert!(titles.is_subset(&expected) && titles.len() >= 6, "{titles:?}");
    let texts = added(ContentLevel::Text, ContentLevel::Titles);
    let expected = set(&[".agents[].prompt", ".agents[].result", ".problems[].at", ".problems[].what"]);
    assert_eq!(texts, expected);
}

#[test]
fn titles_leave_as_one_line_of_120_characters() {
    let mut long = full_tree();
    let error = format!("first line {}\nsecond line", "x".repeat(200));
    long.agents[1].error = Some(error.as_str().into());
    long.agents[1].description = Some(error.as_str().into());
    let titles = line(ContentLevel::Titles, &long, Vec::new());
    assert!(titles.contains("first line xxx") && !titles.contains("second line"));
    assert!(!titles.contains(&"x".repeat(110)), "cut at 120 characters");
    assert!(line(ContentLevel::Text, &long, Vec::new()).contains("second line"));
}

#[test]
fn recordings_leave_no_text_and_no_path_as_figures() {
    let allowed: BTreeSet<&str> = [
        ".schema",
        ".machine",
        ".day",
        ".time_zone",
        ".project",
        ".level",
        ".row.id",
        ".row.harness",
        ".row.status",
        ".row.attention",
        ".row.root",
        ".tree.schema",
        ".tree.session.id",
        ".tree.session.harness",
        ".tree.session.harness_version",
        ".tree.agents[].id",
        ".tree.agents[].actor_id",
        ".tree.agents[].parent_id",
        ".tree.agents[].spawned_by",
        ".tree.agents[].type",
        ".tree.agents[].model",
        ".tree.agents[].status",
        ".tree.agents[].liveness.kind",
        ".tree.agents[].liveness.name",
        ".tree.agents[].flags[]",
        ".tree.agents[].tools[].id",
        ".tree.agents[].tools[].name",
        ".tree.agents[].tools[].status",
        ".tree.agents[].tools[].basis",
        ".tree.summary.attention",
    ]
    .into();
    let trees = all_trees();
    assert!(trees.len() > 20);
    for tree in &trees {
        let text = SnapshotText { doc: 1, text: MARK.into(), ..SnapshotText::default() };
        let line = line(ContentLevel::Figures, tree, vec![text]);
        assert!(!line.contains(MARK), "{}: a passage", tree.session.id);
        let mut found = BTreeSet::new();
        leaves(&serde_json::from_str(&line).unwrap(), "", "", &mut |_, name, value| {
            if value.is_string() {
                found.insert(name.to_owned());
            }
        });
        let more: Vec<_> = found.iter().filter(|name| !allowed.contains(name.as_str())).collect();
        assert!(more.is_empty(), "{}: {more:?}", tree.session.id);
        let cwd = tree.session.cwd.as_deref().unwrap_or("/nowhere");
        assert!(!line.contains(cwd), "{}: {cwd}", tree.session.id);
    }
}

#[test]
fn secrets_leave_at_no_level_whatever_field_has_them() {
    let full = full_tree();
    let masked_alone = |text: &str| {
        let mut out = Redacted::new(Vec::new());
        serde_json::to_writer(&mut out, &json!(text)).unwrap();
        String::from_utf8(out.finish().unwrap()).unwrap()
    };
    let mut tried = 0;
    for samples in secrets(19) {
        for sample in samples.iter().step_by(40) {
            let one = std::slice::from_ref(sample);
            if !left_in(one, &masked_alone(&sample.text)).is_empty() {
                // No rule knows it: see the test of the rules themselves.
                continue;
            }
            for (name, tree) in with_text_in_each_field(&full, &sample.text) {
                for level in ContentLevel::ALL {
                    let text = SnapshotText {
                        doc: 1,
                        agent_id: sample.text.as_str().into(),
                        text: sample.text.as_str().into(),
                        ..SnapshotText::default()
                    };
                    let line = line(level, &tree, vec![text]);
                    assert!(left_in(one, &line).is_empty(), "{} in {name} at {level:?}", sample.name);
                    tried += 1;
                }
            }
            let gone = tombstone(head(ContentLevel::Figures), &SessionId(sample.text.as_str().into()));
            let mut bytes = Vec::new();
            snapshot_line(&gone, &mut bytes).unwrap();
            assert!(left_in(one, &String::from_utf8(bytes).unwrap()).is_empty(), "{}", sample.name);
        }
    }
    assert!(tried > 500, "{tried}");
}

#[test]
fn at_the_level_of_text_a_tree_is_whole_but_for_its_folder() {
    for tree in all_trees() {
        let sent = snapshot(head(ContentLevel::Text), &SessionRow::of(&tree), &tree, Vec::new());
        let mut expected = tree.clone();
        expected.session.cwd = None;
        // What it needs is for the user of the machine.
        expected.summary.need = None;
        for call in expected.agents.iter_mut().flat_map(|agent| &mut agent.tools) {
            (call.input, call.result) = (None, None);
        }
        for problem in &mut expected.problems {
            problem.at = problem.at.rsplit('/').next().unwrap_or_default().to_owned();
        }
        assert_eq!(sent.tree, Some(expected));
        assert_eq!(sent.row.cost_micro_usd, tree.summary.cost_micro_usd);
    }
}
