//! Unusual recordings of the real harness: workflows, forks, resumes after a kill, refused calls, several sessions in
//! one folder, equal prompts of several agents. The snapshot is our own reviewed output: it detects changes and is no
//! independent truth.

use std::fmt::Write;

use subscope_model::{PriceTable, SessionId};
use subscope_testkit::{
    fixtures::{Recording, odd_recordings, recording},
    sessions::{LATER, Part, Telling, now, options, parts_of, read, sketch, tree},
};

/// Every session of the parts, as text.
fn sketches(parts: &[Part]) -> String {
    let router = read(parts, options(false));
    let prices = PriceTable::default();
    let mut sessions: Vec<&SessionId> = router.sessions().collect();
    sessions.sort();
    let trees = sessions.into_iter().filter_map(|session| router.tree(session, &now(LATER, &prices)));
    trees.map(|tree| format!("runs {}\n{}", tree.session.runs, sketch(&tree))).collect()
}

/// The recording's transcripts, grouped as their folders group them.
fn transcripts(recording: &Recording) -> Vec<Part> {
    let mut parts = parts_of(recording, &[Telling::Transcript]);
    let mut groups: Vec<Option<String>> = Vec::new();
    for part in &mut parts {
        let known = groups.iter().position(|session| *session == part.spec.session);
        let group = known.unwrap_or(groups.len());
        if known.is_none() {
            groups.push(part.spec.session.clone());
        }
        part.spec.group = u32::try_from(group).unwrap_or(u32::MAX);
    }
    parts
}

#[test]
fn odd_recordings_give_the_trees_that_were_read_off_them() {
    let mut all = String::new();
    for recording in odd_recordings() {
        let _ = writeln!(all, "── {}\n{}", recording.name(), sketches(&transcripts(&recording)));
    }
    insta::assert_snapshot!("odd_recordings", all);
}

#[test]
fn order_of_files_changes_nothing() {
    for recording in odd_recordings() {
        let parts = transcripts(&recording);
        let turned: Vec<Part> = parts.iter().rev().cloned().collect();
        assert_eq!(sketches(&parts), sketches(&turned), "{}", recording.name());
    }
}

#[test]
fn a_line_repeated_behind_the_result_opens_no_run() {
    let mut parts = parts_of(&recording("2.1.330", "a-single"), &[Telling::Stream]);
    let once = tree(&parts);
    let lines = parts[0].lines();
    let is_answer = |line: &&Vec<u8>| String::from_utf8_lossy(line).contains(r#""type":"assistant""#);
    let last = lines.iter().rfind(is_answer).cloned().unwrap_or_default();
    assert!(!last.is_empty());
    parts[0].bytes.extend(last);
    assert_eq!(tree(&parts).session.runs, once.session.runs);
    assert_eq!(tree(&parts).agents, once.agents);
}
