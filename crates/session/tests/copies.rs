//! Copies of files beside them, which people and programs that synchronize folders make: all is counted once, and the agent
//! that a file tells of keeps what it had. The name of a copy names nobody.

#![allow(clippy::unwrap_used)]

use subscope_model::{PriceTable, Tree};
use subscope_testkit::{
    fixtures,
    others::other_recordings,
    sessions::{LATER, Part, Telling, now, options, parts_of, read, tree},
};

/// Every recording that has files of agents, with its name.
fn recordings() -> Vec<(String, Vec<Part>)> {
    let claude = fixtures::recordings();
    let claude = claude.iter().map(|recording| {
        (recording.folder.display().to_string(), parts_of(recording, &[Telling::Transcript]))
    });
    let others = other_recordings();
    let others = others.iter().map(|recording| (recording.name(), recording.disk()));
    claude.chain(others).filter(|(_, parts)| parts.iter().any(|part| part.spec.agent.is_some())).collect()
}

/// The same file under another name.
fn copied(part: &Part) -> Part {
    let mut copy = part.clone();
    copy.spec.label = part.spec.label.replacen('.', " copy.", 1);
    copy.spec.agent = part.spec.agent.as_ref().map(|agent| format!("{agent} copy"));
    copy
}

fn rows(tree: &Tree) -> String {
    serde_json::to_string_pretty(&(&tree.session.title, &tree.summary, &tree.agents)).unwrap()
}

#[test]
fn a_copy_of_a_file_changes_no_row_whichever_is_read_first() {
    let mut wrong = Vec::new();
    // An agent of oh-my-pi has no name but that of its file.
    for (name, parts) in recordings().into_iter().filter(|(name, _)| !name.starts_with("omp/")) {
        let expected = rows(&tree(&parts));
        let copies: Vec<Part> = parts.iter().map(copied).collect();
        for (order, both) in
            [("before", [copies.clone(), parts.clone()].concat()), ("behind", [parts, copies].concat())]
        {
            let found = rows(&tree(&both));
            if found != expected {
                let lines = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
                wrong.push(format!("{name}, {order}: {lines:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn no_agent_is_below_itself_whichever_file_is_missing() {
    for (name, parts) in recordings() {
        for number in 0..parts.len() {
            let mut without = parts.clone();
            without.remove(number);
            for some in [without, vec![parts[number].clone()]] {
                let router = read(&some, options(false));
                let prices = PriceTable::default();
                for session in router.sessions() {
                    let tree = router.tree(session, &now(LATER, &prices)).unwrap();
                    for row in &tree.agents {
                        let is_own = *row.id == **session || row.parent_id.as_ref() == Some(&row.id);
                        assert!(!is_own, "{name}, {number}: {} below {session}", row.id);
                    }
                }
            }
        }
    }
}
