//! A line belongs to the session that it names, in whatever file it stands, and a copy of it counts once; a line that
//! cannot be read belongs to its source.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*, sample::Index};
use subscope_harness::claude_code::{HOOK, TRANSCRIPT};
use subscope_model::{PriceTable, Problem, SessionId, Tree};
use subscope_session::{SessionRouter, SourceOrigin, SourceSpec};
use subscope_testkit::{
    fixtures::{self, Recording, recording},
    sessions::{LATER, now, options},
};

/// A file: what its path says, and its lines.
#[derive(Clone, Debug)]
struct MadeFile {
    spec: SourceSpec,
    lines: Vec<Vec<u8>>,
}

/// A change of who has which lines. Files and lines count modulo how many there are.
#[derive(Clone, Debug)]
enum Change {
    /// The last lines of a file go to the end of another, as after `/resume` in the same process.
    Move(Index, Index, Index),
    /// The first lines of a file are copied to the beginning of another, as by a resumed session.
    Copy(Index, Index, Index),
    /// The last lines of a file go to a file of a name that no line has.
    New(Index, Index),
    /// A file is copied to another folder.
    Folder(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let index = any::<Index>;
    prop_oneof![
        3 => (index(), index(), index()).prop_map(|(from, count, to)| Change::Move(from, count, to)),
        3 => (index(), index(), index()).prop_map(|(from, count, to)| Change::Copy(from, count, to)),
        1 => (index(), index()).prop_map(|(from, count)| Change::New(from, count)),
        1 => index().prop_map(Change::Folder),
    ]
}

/// The files of a recorded session. Lines without a session of their own stay with it.
fn files_of(recording: &Recording) -> Vec<MadeFile> {
    let main = &recording.mains()[0];
    let session = main.file_stem().unwrap().to_string_lossy().into_owned();
    let file = |path: &std::path::PathBuf, agent: Option<&str>| MadeFile {
        spec: SourceSpec {
            label: path.display().to_string(),
            session: Some(session.clone()),
            agent: agent.map(str::to_owned),
            origin: SourceOrigin::File,
            ..SourceSpec::default()
        },
        lines: fixtures::bytes(path).split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect(),
    };
    let agents = recording.agents();
    let name = |path: &std::path::PathBuf| {
        path.file_stem().unwrap().to_string_lossy().strip_prefix("agent-").unwrap().to_owned()
    };
    std::iter::once(file(main, None)).chain(agents.iter().map(|path| file(path, Some(&name(path))))).collect()
}

fn apply(files: &mut Vec<MadeFile>, change: &Change) {
    // Those of main threads; those of agents stay as they are.
    let main: Vec<usize> = (0..files.len()).filter(|at| files[*at].spec.agent.is_none()).collect();
    let names = |line: &Vec<u8>| TRANSCRIPT.session_of(line).is_some();
    match change {
        Change::Move(from, count, to) => {
            let (from, to) = (*from.get(&main), *to.get(&main));
            if from != to {
                let at = count.index(files[from].lines.len() + 1);
                let (moved, rest): (Vec<_>, Vec<_>) =
                    files[from].lines.split_off(at).into_iter().partition(names);
                files[from].lines.extend(rest);
                files[to].lines.extend(moved);
            }
        }
        Change::Copy(from, count, to) => {
            let (from, to) = (*from.get(&main), *to.get(&main));
            let count = count.index(files[from].lines.len() + 1);
            let copied: Vec<_> =
                files[from].lines[..count].iter().filter(|line| names(line)).cloned().collect();
            files[to].lines.splice(0..0, copied);
        }
        Change::New(from, count) => {
            let from = *from.get(&main);
            let at = count.index(files[from].lines.len() + 1);
            let (moved, rest): (Vec<_>, Vec<_>) =
                files[from].lines.split_off(at).into_iter().partition(names);
            files[from].lines.extend(rest);
            let session = Some(format!("{:08}-0000-4000-8000-000000000000", files.len()));
            let spec =
                SourceSpec { label: format!("new {}", files.len()), session, ..files[from].spec.clone() };
            files.push(MadeFile { spec, lines: moved });
        }
        Change::Folder(from) => {
            let copy = files[*from.get(&main)].clone();
            files.push(copy);
        }
    }
}

/// Puts the lines that each session has in a file in the order in which it wrote them: a harness only appends.
fn order_lines(files: &mut [MadeFile], written: &[Vec<u8>]) {
    let place = |line: &Vec<u8>| written.iter().position(|known| known == line);
    for MadeFile { lines, .. } in files {
        let sessions: Vec<Option<String>> = lines.iter().map(|line| TRANSCRIPT.session_of(line)).collect();
        for session in sessions.iter().flatten().collect::<BTreeSet<_>>() {
            let of_session = |at: &usize| sessions[*at].as_ref() == Some(session);
            let slots: Vec<usize> = (0..lines.len()).filter(of_session).collect();
            let mut own: Vec<Vec<u8>> = slots.iter().map(|at| lines[*at].clone()).collect();
            own.sort_by_key(place);
            slots.into_iter().zip(own).for_each(|(at, line)| lines[at] = line);
        }
    }
}

/// Reads files, each as a group of its own, as the files of a folder are.
fn read(files: &[MadeFile], only: Option<&SessionId>) -> SessionRouter {
    let mut router = SessionRouter::new(options(false));
    for file in files {
        let (group, only) = (router.new_group(), only.cloned());
        let source = router.open(SourceSpec { group, only, ..file.spec.clone() });
        file.lines.iter().for_each(|line| router.push(source, line));
        router.flush(source);
    }
    router
}

fn tree(router: &SessionRouter, session: &SessionId) -> Option<Tree> {
    router.tree(session, &now(LATER, &PriceTable::default()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 400, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn sessions_have_the_same_rows_however_their_lines_are_divided_and_copied(
        changes in vec(change(), 0..8),
        order in vec(any::<Index>(), 24),
    ) {
        let recordings = ["c-nested", "b-parallel", "d-background"].map(|name| recording("2.1.330", name));
        let mut files: Vec<MadeFile> = recordings.iter().flat_map(files_of).collect();
        let alone = read(&files, None);
        let sessions: Vec<SessionId> = alone.sessions().cloned().collect();
        prop_assert_eq!(sessions.len(), recordings.len());
        let written: Vec<Vec<u8>> = files.iter().flat_map(|file| file.lines.clone()).collect();
        changes.iter().for_each(|change| apply(&mut files, change));
        order_lines(&mut files, &written);
        for (at, other) in order.iter().enumerate() {
            let (at, other) = (at % files.len(), other.index(files.len()));
            files.swap(at, other);
        }
        let divided = read(&files, None);
        prop_assert_eq!(divided.sessions().count(), sessions.len(), "no other session begins");
        for session in &sessions {
            let expected = tree(&alone, session).unwrap();
            prop_assert_eq!(tree(&divided, session), Some(expected.clone()));
            let filtered = read(&files, Some(session));
            prop_assert_eq!(filtered.sessions().collect::<Vec<_>>(), [session]);
            prop_assert_eq!(tree(&filtered, session), Some(expected));
        }
    }
}

fn line(session: &str, uuid: &str, text: &str) -> String {
    format!(
        "{{\"type\":\"user\",\"sessionId\":\"{session}\",\"uuid\":\"{uuid}\",\"cwd\":\"/{session}\",\"version\":\"2.1.330\",\
         \"timestamp\":\"2026-11-20T10:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
}

fn open(router: &mut SessionRouter, session: Option<&str>, origin: SourceOrigin) -> subscope_model::SourceId {
    let group = router.new_group();
    let (label, session) = (session.unwrap_or("stream").to_owned(), session.map(str::to_owned));
    router.open(SourceSpec {
        label,
        session,
        group,
        dialect: Some(TRANSCRIPT),
        origin,
        ..SourceSpec::default()
    })
}

fn problems(router: &SessionRouter, session: &str) -> Vec<String> {
    let problems = tree(router, &session.into()).map(|tree| tree.problems).unwrap_or_default();
    problems.into_iter().map(|Problem { at, .. }| at).collect()
}

#[test]
fn each_session_of_a_file_has_its_own_folder_and_version() {
    let mut router = SessionRouter::new(options(false));
    let source = open(&mut router, Some("b"), SourceOrigin::File);
    router
        .push(source, (line("b", "1", "one") + &line("a", "2", "two") + &line("b", "3", "three")).as_bytes());
    for session in ["a", "b"] {
        let row = tree(&router, &session.into()).unwrap().session;
        assert_eq!(
            (row.cwd.as_deref(), row.harness_version.as_deref()),
            (Some(&*format!("/{session}")), Some("2.1.330"))
        );
    }
    let named: Vec<&SessionId> = router.named_in(source).collect();
    assert_eq!(named, [&SessionId::from("a"), &SessionId::from("b")]);
}

#[test]
fn a_broken_line_belongs_to_the_session_of_its_file_unless_it_names_another() {
    let mut router = SessionRouter::new(options(false));
    let source = open(&mut router, Some("b"), SourceOrigin::File);
    let broken = "no JSON\n{\"sessionId\":\"a\",\"message\":{\"content\":\"cut\n";
    router.push(source, broken.as_bytes());
    router.push(source, line("a", "1", "one").as_bytes());
    assert_eq!(
        (problems(&router, "a"), problems(&router, "b")),
        (vec!["b:1".to_owned(), "b:2".to_owned()], vec![])
    );
    router.push(source, line("b", "2", "two").as_bytes());
    assert_eq!(
        (problems(&router, "a"), problems(&router, "b")),
        (vec!["b:2".to_owned()], vec!["b:1".to_owned()])
    );
    assert!(router.unassigned_problems().is_empty());
}

#[test]
fn a_broken_line_of_a_stream_waits_for_its_session_and_reaches_no_other() {
    let mut router = SessionRouter::new(options(false));
    let (other, source) =
        (open(&mut router, Some("o"), SourceOrigin::File), open(&mut router, None, SourceOrigin::Stream));
    router.push(other, line("o", "1", "one").as_bytes());
    let before = tree(&router, &"o".into());
    router.push(source, b"npm WARN\n");
    assert_eq!(tree(&router, &"o".into()), before);
    assert_eq!(router.unassigned_problems().len(), 1);
    router.push(source, line("s", "2", "two").as_bytes());
    assert_eq!((tree(&router, &"o".into()), problems(&router, "s")), (before, vec!["stream:1".to_owned()]));
    assert!(router.unassigned_problems().is_empty());
}

#[test]
fn a_broken_body_belongs_to_its_own_session_only() {
    let mut router = SessionRouter::new(options(true));
    let hook = |session: &str| format!("{{\"session_id\":\"{session}\",\"hook_event_name\":\"Stop\"}}\n");
    let spec = |session: Option<&str>| SourceSpec {
        label: "hooks".to_owned(),
        session: session.map(str::to_owned),
        dialect: Some(HOOK),
        origin: SourceOrigin::Inbox,
        ..SourceSpec::default()
    };
    let (named, unnamed) = (router.open(spec(Some("a"))), router.open(spec(None)));
    router.push(named, hook("a").as_bytes());
    router.end_body(named, true);
    // A later body of the same source that names nobody.
    router.push(unnamed, b"npm WARN\n");
    router.end_body(unnamed, false);
    router.push(unnamed, hook("b").as_bytes());
    router.end_body(unnamed, false);
    assert_eq!((problems(&router, "a"), problems(&router, "b")), (vec![], vec![]));
    assert_eq!(router.unassigned_problems().len(), 1);
    // The lines of one body belong together.
    router.push(unnamed, format!("npm WARN\n{}", hook("b")).as_bytes());
    router.end_body(unnamed, false);
    assert_eq!((problems(&router, "a"), problems(&router, "b")), (vec![], vec!["hooks:3".to_owned()]));
    // A sender names the session before anything of it can be read.
    let later = router.open(spec(Some("c")));
    router.push(later, b"{\"broken\n");
    router.end_body(later, true);
    assert_eq!(router.unassigned_problems().len(), 2);
    router.push(later, hook("c").as_bytes());
    router.end_body(later, true);
    assert_eq!(problems(&router, "c"), ["hooks:1"]);
    assert_eq!(router.unassigned_problems().len(), 1);
}
