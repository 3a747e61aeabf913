//! A line belongs to the session that it names, and one that cannot be read to nobody else: real files in which lines of
//! several sessions stand, and noise from programs.

use std::{collections::HashSet, path::PathBuf};

use proptest::prelude::*;
use serde::Deserialize;
use subscope_harness::{
    Root,
    claude_code::{ClaudeCode, HOOK, STREAM, TRANSCRIPT},
};
use subscope_model::{Event, Tree};
use subscope_session::{Now, SUBAGENT_EVENTS};
use subscope_store::{History, SessionQueries, TextIndex, TextQuery};
use subscope_testkit::fixtures;

use super::{
    cold_read::{Machine, Step, difference},
    *,
};
use crate::{LineBatch, SessionSources, hook_ingest, index, line_ingests, unread_files_naming};

/// What a session of `fixtures/wild` is.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct Expected {
    id: String,
    title: String,
    cwd: String,
    runs: u32,
    agents: u32,
    tool_calls: u32,
    output_tokens: u64,
}

impl Expected {
    fn of(tree: &Tree) -> Self {
        let (session, summary) = (&tree.session, &tree.summary);
        Self {
            id: session.id.to_string(),
            title: session.title.as_deref().unwrap_or_default().to_owned(),
            cwd: session.cwd.as_deref().unwrap_or_default().to_owned(),
            runs: session.runs,
            agents: summary.agents,
            tool_calls: summary.tool_calls,
            output_tokens: summary.usage.map_or(0, |usage| usage.output_tokens),
        }
    }
}

/// Inputs of `fixtures/wild` in which lines of several sessions stand in one file, or those of one in several.
const WILD: [&str; 4] =
    ["two-sessions-one-file", "two-files-one-session", "lines-of-another", "two-projects"];

/// Returns the files of an input, with their paths below the folder of projects.
fn wild(name: &str) -> (Vec<(PathBuf, Vec<u8>)>, Vec<Expected>) {
    let folder = fixtures::root().join("wild").join(name);
    let expected = serde_json::from_str(&fixtures::text(&folder.join("expected.json"))).unwrap();
    let projects = folder.join("projects");
    let files = fixtures::files_below(&projects).into_iter();
    let files = files.map(|file| (file.strip_prefix(&projects).unwrap().to_owned(), fixtures::bytes(&file)));
    (files.collect(), expected)
}

fn place(machine: &Machine, file: &std::path::Path) -> PathBuf {
    machine.folder.path().join("projects").join(file)
}

/// Reads a session as `subscope tree ID` does.
fn cold(machine: &Machine, id: &str, store: Option<&SqliteStore>) -> Option<Tree> {
    let root = Root { harness: &ClaudeCode, folder: machine.folder.path().join("projects") };
    let session = SessionId::from(id);
    let named =
        subscope_collect::main_transcripts(&root).into_iter().filter(|(named, _)| named.as_str() == id);
    let mut transcripts: Vec<PathBuf> = named.map(|(_, path)| path).collect();
    transcripts.extend(unread_files_naming(&session, &[root], store).unwrap());
    let sources = SessionSources::find(&session, transcripts, store, &machine.archive()).unwrap();
    let options = RouterOptions { keep: FactDetail::Rows, cutoff: None, events: EventScope::Nothing };
    let (batch, prices) = (sources.read(store, options).unwrap(), PriceTable::default());
    let (at, limits) = (machine.clock.now_ms(), Limits::default());
    batch.router.tree(&session, &Now { at, has_ended: false, is_growing: false, prices: &prices, limits })
}

#[test]
fn a_session_has_one_row_and_one_sum_from_however_many_files() {
    for name in WILD {
        let (files, expected) = wild(name);
        for is_reversed in [false, true] {
            let mut machine = Machine::empty();
            let mut order: Vec<&(PathBuf, Vec<u8>)> = files.iter().collect();
            if is_reversed {
                order.reverse();
            }
            for (file, bytes) in order {
                machine.write(&place(&machine, file), bytes, true);
                machine.wait(1);
            }
            let check = |machine: &mut Machine, when: &str| {
                for expected in &expected {
                    let served = machine.served(&expected.id.as_str().into()).unwrap();
                    assert_eq!(&Expected::of(&served), expected, "{name}, {when}, reversed: {is_reversed}");
                    let store = machine.read_store();
                    let cold = cold(machine, &expected.id, Some(&store)).unwrap();
                    assert_eq!(&Expected::of(&cold), expected, "{name}, cold, {when}");
                }
                let listed = machine.read_store().list(&ListQuery::first(10)).unwrap();
                assert_eq!(listed.len(), expected.len(), "{name}, {when}: {listed:?}");
            };
            machine.wait(3);
            check(&mut machine, "live");
            machine.take(&Step::Index);
            machine.wait(3);
            check(&mut machine, "indexed");
            machine.take(&Step::Restart(5));
            machine.wait(3);
            check(&mut machine, "after a restart");
            machine.take(&Step::Restart(1_000));
            machine.wait(3);
            check(&mut machine, "from the store");
        }
    }
}

fn words_of(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

#[test]
fn an_index_gathers_a_session_before_it_writes_its_row() {
    for name in WILD {
        let (files, expected) = wild(name);
        let machine = Machine::empty();
        files.iter().for_each(|(file, bytes)| machine.write(&place(&machine, file), bytes, true));
        for expected in &expected {
            let cold = cold(&machine, &expected.id, None).unwrap();
            assert_eq!(&Expected::of(&cold), expected, "{name}, without a store");
        }
        for run in 0..6 {
            let data = tempfile::tempdir().unwrap();
            let mut store = SqliteStore::open(data.path(), Access::Write, "test", 1).unwrap();
            let mut texts = TextIndex::open(data.path(), Access::Write).unwrap();
            let options = index::IndexOptions { workers: Some(1 + run % 3), ..machine.index_options() };
            let go = &mut |_| std::ops::ControlFlow::Continue(());
            index::index(&mut store, Some(&mut texts), &options, go).unwrap();
            assert_eq!(store.list(&ListQuery::first(10)).unwrap().len(), expected.len(), "{name}");
            for expected in &expected {
                let session = SessionId::from(expected.id.as_str());
                let tree = store.tree(&session).unwrap().unwrap();
                assert_eq!(&Expected::of(&tree), expected, "{name}, run {run}");
                // The passages of a session are its own, each once.
                let sources =
                    SessionSources::find(&session, Vec::new(), Some(&store), &machine.archive()).unwrap();
                let passages = sources.passages(1_000).unwrap();
                assert!(!passages.is_empty());
                for passage in &passages {
                    let words: Vec<String> = words_of(&passage.text);
                    let has_all = |text: &str| words.iter().all(|word| words_of(text).contains(word));
                    let same = passages.iter().filter(|other| has_all(&other.text)).count();
                    let query = TextQuery {
                        words: words.clone(),
                        limit: 100,
                        session: Some(session.clone()),
                        ..TextQuery::default()
                    };
                    let hits = texts.find(&query).unwrap();
                    assert_eq!(hits.len(), same, "{name}: {:?}", passage.text);
                }
            }
            let again = index::index(&mut store, Some(&mut texts), &options, go).unwrap();
            assert_eq!(again.sessions, 0, "{name}: nothing is read twice");
        }
    }
}

#[test]
fn a_forgotten_session_does_not_come_back_with_lines_in_the_file_of_another() {
    let (files, expected) = wild("lines-of-another");
    let machine = Machine::empty();
    files.iter().for_each(|(file, bytes)| machine.write(&place(&machine, file), bytes, true));
    let data = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(data.path(), Access::Write, "test", 1).unwrap();
    let mut texts = TextIndex::open(data.path(), Access::Write).unwrap();
    let (options, go) =
        (machine.index_options(), &mut |_: index::Progress| std::ops::ControlFlow::Continue(()));
    index::index(&mut store, Some(&mut texts), &options, go).unwrap();
    let (gone, stays) = (SessionId::from(expected[0].id.as_str()), SessionId::from(expected[1].id.as_str()));
    index::forget(&mut store, &mut texts, &machine.archive(), std::slice::from_ref(&gone)).unwrap();
    let own = files.iter().find(|(file, _)| file.ends_with(format!("{stays}.jsonl"))).unwrap();
    let line =
        String::from_utf8_lossy(&own.1).lines().next().unwrap().replace("\"uuid\":\"", "\"uuid\":\"new-");
    machine.write(&place(&machine, &own.0), format!("{line}\n").as_bytes(), false);
    index::index(&mut store, Some(&mut texts), &options, go).unwrap();
    assert_eq!(store.tree(&gone).unwrap(), None);
    assert_eq!(store.tree(&stays).unwrap().unwrap().session.runs, 2);
    let words = vec!["second".to_owned()];
    assert_eq!(texts.find(&TextQuery { words, limit: 10, ..TextQuery::default() }).unwrap(), []);
}

/// Input that cannot be understood.
#[derive(Clone, Debug)]
struct Noise {
    way: usize,
    text: String,
}

fn noise() -> impl Strategy<Value = Noise> {
    let text = prop_oneof![
        Just("npm WARN deprecated".to_owned()),
        Just("{\"hook_event_name\":7".to_owned()),
        Just("\u{1}\u{0}binary".to_owned()),
        Just("[1,2]\n\nno JSON\n{}".to_owned()),
        Just("{\"subagentRunId\":\"r\",\"type\":\"tool_call\",\"timestamp\":1,\"sessionId\":\"S1\",\"tokenUsage\":\"x\"}".to_owned()),
        "[ -~]{1,40}",
    ];
    (0..6_usize, text).prop_map(|(way, text)| Noise { way, text })
}

impl Noise {
    fn ingests(&self, number: usize) -> Vec<Ingest> {
        let (key, body) = (format!("noise {number}"), format!("{}\n", self.text).into_bytes());
        let lines = |dialect, source| {
            let of = LineBatch { dialect, source, key: &key, received_ms: None };
            line_ingests(of, &body).collect()
        };
        match self.way {
            0 => vec![hook_ingest(HOOK, &key, None, body)],
            1 => lines(STREAM, "q"),
            2 => lines(SUBAGENT_EVENTS, "default"),
            3 => lines(TRANSCRIPT, "default"),
            4 => lines(HOOK, "default"),
            _ => vec![Ingest {
                source: "posted/S1".to_owned(),
                session: Some("S1".to_owned()),
                dialect: Some(SUBAGENT_EVENTS),
                key,
                received_ms: None,
                body,
                begins: None,
                asks: Asks::Nothing,
            }],
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let session = 0..3_usize;
    prop_oneof![
        4 => (session.clone(), 1..12_usize).prop_map(|(session, count)| Step::Lines(session, count)),
        4 => (session, 1..8_usize).prop_map(|(session, count)| Step::Hooks(session, count)),
        1 => prop::sample::select(vec![2, 70, 185]).prop_map(Step::Silence),
        1 => prop::sample::select(vec![0, 5]).prop_map(Step::Restart),
        1 => Just(Step::Index),
    ]
}

/// Rows and events of all recorded sessions.
fn all_of(machine: &mut Machine) -> (Vec<Option<Tree>>, Vec<Event>) {
    let ids: Vec<SessionId> = machine.sessions.iter().map(|played| played.id.clone()).collect();
    let trees = ids.iter().map(|id| machine.served(id)).collect();
    let known: HashSet<SessionId> = ids.into_iter().collect();
    let mut events = machine.read_store().events_after(0, None, 100_000).unwrap().unwrap_or_default();
    events.retain(|event| known.contains(&event.session_id));
    events.iter_mut().for_each(|event| event.seq = 0);
    (trees, events)
}

/// Plays steps, each after its noise.
fn play(steps: &[(Step, Vec<Noise>)], has_noise: bool) -> Result<Machine, TestCaseError> {
    let (mut machine, mut number) = (Machine::new(), 0);
    for (step, noise) in steps {
        for noise in noise.iter().filter(|_| has_noise) {
            number += 1;
            for ingest in noise.ingests(number) {
                let receipt = machine.ask(|reply| Command::Ingest(Box::new(ingest), reply)).unwrap();
                prop_assert!(receipt.sessions.iter().all(|session| session.as_str() == "S1"), "{receipt:?}");
            }
        }
        machine.take(step);
        machine.wait(1);
    }
    machine.wait(3);
    Ok(machine)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 100, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn noise_changes_no_rows_and_events_live_and_after_a_restart(
        steps in prop::collection::vec((step(), prop::collection::vec(noise(), 0..4)), 1..12),
    ) {
        let (mut quiet, mut noisy) = (play(&steps, false)?, play(&steps, true)?);
        for when in ["live", "after a restart"] {
            let (expected, found) = (all_of(&mut quiet), all_of(&mut noisy));
            for (expected, found) in expected.0.iter().zip(&found.0) {
                prop_assert!(expected == found, "{when}: {}", difference(expected.as_ref(), found.as_ref()));
            }
            prop_assert_eq!(expected.1, found.1, "{}", when);
            for machine in [&mut quiet, &mut noisy] {
                machine.take(&Step::Restart(5));
                machine.wait(3);
            }
        }
    }
}

/// Posts a body of lines of a dialect, and returns its answer.
fn post(machine: &mut Machine, source: &str, body: &str) -> IngestReceipt {
    let of = LineBatch { dialect: STREAM, source, key: body, received_ms: None };
    let ingest = line_ingests(of, body.as_bytes()).next().unwrap();
    machine.ask(|reply| Command::Ingest(Box::new(ingest), reply)).unwrap()
}

#[test]
fn a_broken_line_is_shown_with_its_own_session_in_the_answer_and_in_the_figures() {
    let mut machine = Machine::empty();
    let session = |id: &str| {
        format!("{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"{id}\",\"cwd\":\"/w\"}}\n")
    };
    post(&mut machine, "q", &session("before"));
    let receipt = post(&mut machine, "q", "npm WARN alone\n");
    assert_eq!((receipt.problem_count, receipt.sessions), (1, vec![]));
    post(&mut machine, "q", &format!("npm WARN first\n{}npm WARN after\n", session("own")));
    machine.wait(3);
    let check = |machine: &mut Machine| {
        let mut problems = |id: &str| machine.served(&id.into()).unwrap().problems.len();
        assert_eq!((problems("before"), problems("own")), (0, 2));
    };
    check(&mut machine);
    let figures = machine.ask(Command::Figures);
    assert_eq!(figures.unowned_problems.len(), 1, "{:?}", figures.unowned_problems);
    machine.take(&Step::Restart(5));
    machine.wait(3);
    check(&mut machine);
}
