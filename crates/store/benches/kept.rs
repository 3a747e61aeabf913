//! Query times of a store with a million calls and two million messages: one session's tree, the list, the newest hits
//! of a word, statistics. Budgets, as medians, in process: 3 ms, 2 ms, 3 ms.
//!
//! One generated session of a thousand calls is stored a thousand times under other ids and at other times; the most
//! frequent words are in every second message, the rarest in one of a hundred thousand.
#![expect(clippy::expect_used, reason = "a bench that cannot be set up has nothing to go on with")]

use std::{io::Write, path::Path};

use subscope_model::{Actor, AgentId, SessionId, StatsQuery, Tree};
use subscope_store::{
    Access, ByteSpan, Commit, FileIdentity, History as _, Ledger, ListQuery, Passage, PassageBatch,
    PassageKind, SessionQueries, SqliteStore, TextFile, TextIndex, TextQuery,
};
use subscope_testkit::{
    corpus::{self, Options},
    figures::{self, Row, now},
    sessions::{Telling, parts_of_memory, tree},
};

/// Runs a query and returns its number of rows.
type Query<'a> = Box<dyn FnMut() -> usize + 'a>;

/// Copies of the session.
const SESSIONS: usize = 1_000;
/// Sessions per commit.
const BATCH: usize = 50;
/// Messages per session.
const MESSAGES: usize = 2_000;
/// Words per message.
const WORDS: u64 = 40;
/// Distinct words; the n-th is in about one of n messages.
const DISTINCT: u64 = 100_000;
/// Runs per query.
const ROUNDS: usize = 201;

fn main() {
    // `cargo test --benches` and nextest ask for a list; there is nothing to list.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut out = std::io::stdout().lock();
    let mut say = |text: String| writeln!(out, "{text}").expect("stdout");
    let tree = session();
    let calls: usize = tree.agents.iter().map(|agent| agent.tools.len()).sum();
    keep_rows(folder.path(), &tree);
    keep_words(folder.path());
    // Readers have connections of their own.
    let store = SqliteStore::open(folder.path(), Access::Read, "1", 0).expect("the store");
    let texts = TextIndex::open(folder.path(), Access::Read).expect("the full text");
    let sizes = [store.bytes(), texts.bytes()].map(|bytes| bytes.expect("its size") as f64 / 1_048_576.0);
    let kept = format!("{} calls and {} passages kept", calls * SESSIONS, MESSAGES * SESSIONS);
    let row = |figure: String, values, unit, budget| Row {
        question: kept.clone(),
        figure,
        values,
        unit,
        budget,
        is_floor: false,
    };
    say(figures::HEAD.to_owned());
    say(row("rows take".to_owned(), vec![sizes[0]], " MB", None).markdown());
    say(row("words take".to_owned(), vec![sizes[1]], " MB", None).markdown());
    let mut number = 0;
    let mut next = move || {
        number = (number * 7 + 13) % SESSIONS;
        id(number)
    };
    let page = |limit, only_live| ListQuery { only_live, ..ListQuery::first(limit) };
    let hits = |words: &[&str], session: Option<SessionId>| {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        texts.find(&TextQuery { words, session, limit: 50, ..TextQuery::default() }).expect("hits")
    };
    let find = |words: &[&str], session: Option<SessionId>| hits(words, session).len();
    let named = |words: &[&str]| {
        let of =
            |hit: &subscope_store::Hit| store.agent_label(&hit.session, &hit.agent).expect("a row").is_some();
        hits(words, None).iter().filter(|hit| of(hit)).count()
    };
    let (frequent, middling, rare) = (word(2), word(200), word(DISTINCT - 2));
    let deep = {
        let rows = store.list(&page(SESSIONS / 2, false)).expect("rows");
        let last = rows.last().expect("a row");
        ListQuery {
            after: Some((last.last_event_at_ms.expect("a time"), last.id.clone())),
            ..page(100, false)
        }
    };
    let questions: Vec<(&str, Option<f64>, Query<'_>)> = vec![
        (
            "one session's tree",
            Some(3.0),
            Box::new(|| store.tree(&next()).expect("a tree").expect("it").agents.len()),
        ),
        (
            "the list, 100 sessions",
            Some(2.0),
            Box::new(|| store.list(&page(100, false)).expect("rows").len()),
        ),
        ("the list, 100 from the middle", Some(2.0), Box::new(|| store.list(&deep).expect("rows").len())),
        (
            "the list of what is live",
            Some(2.0),
            Box::new(|| store.list(&page(100, true)).expect("rows").len()),
        ),
        ("50 hits of a frequent word", Some(3.0), Box::new(|| find(&[&frequent], None))),
        ("50 hits of a middling word", Some(3.0), Box::new(|| find(&[&middling], None))),
        ("50 hits of a rare word", Some(3.0), Box::new(|| find(&[&rare], None))),
        ("50 hits of two words", Some(3.0), Box::new(|| find(&[&frequent, &middling], None))),
        ("50 hits of a prefix", None, Box::new(|| find(&["w186*"], None))),
        ("50 hits of a word in one old session", None, Box::new(|| find(&[&frequent], Some(id(3))))),
        ("50 hits of a rare word with their agents", Some(3.0), Box::new(|| named(&[&rare]))),
        (
            "figures over everything",
            None,
            Box::new(|| store.stats(&StatsQuery::default()).expect("figures").by_tool.len()),
        ),
    ];
    for (what, budget, mut ask) in questions {
        let spans = (0..ROUNDS).map(|_| {
            let began = now();
            std::hint::black_box(ask());
            began.elapsed().as_secs_f64() * 1000.0
        });
        say(row(what.to_owned(), spans.collect(), " ms", budget).markdown());
    }
}

/// Returns a session of about a thousand calls by eleven agents.
fn session() -> Tree {
    let options = Options { agents: 10, turns: 90, root_turns: 90, ..Options::default() };
    let (_, memory) = corpus::in_memory(&Options { dialects: corpus::Dialects::Transcripts, ..options });
    tree(&parts_of_memory(&memory, &[Telling::Transcript]))
}

fn id(number: usize) -> SessionId {
    SessionId::from(format!("{number:08x}-0000-4000-8000-000000000000").as_str())
}

fn keep_rows(folder: &Path, tree: &Tree) {
    let mut store = SqliteStore::open(folder, Access::Write, "1", 1).expect("the store");
    for first in (0..SESSIONS).step_by(BATCH) {
        let trees = (first..first + BATCH).map(|number| copy(tree, number)).collect();
        store.commit(&Commit { trees, ..Commit::default() }).expect("a commit");
    }
}

/// Returns a copy of the session, `number` hours later, with agent ids of its own.
fn copy(tree: &Tree, number: usize) -> Tree {
    let mut tree = tree.clone();
    let later = |at: &mut Option<i64>| *at = at.map(|at| at + number as i64 * 3_600_000);
    tree.session.id = id(number);
    later(&mut tree.session.started_at_ms);
    later(&mut tree.session.ended_at_ms);
    for agent in &mut tree.agents {
        if !agent.id.is_root() {
            agent.id = AgentId::from(format!("{}{number:06x}", agent.id).as_str());
            agent.actor_id = Actor(agent.id.clone());
        }
        later(&mut agent.started_at_ms);
        later(&mut agent.ended_at_ms);
        later(&mut agent.last_event_at_ms);
    }
    tree
}

fn word(rank: u64) -> String {
    format!("w{rank:x}")
}

fn keep_words(folder: &Path) {
    let mut texts = TextIndex::open(folder, Access::Write).expect("the full text");
    let (mut batch, mut seed) = (PassageBatch::default(), 7u64);
    let mut random = || {
        // Knuth's MMIX linear congruential generator; its high bits are good enough.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 11) as f64 / (1u64 << 53) as f64
    };
    for number in 0..SESSIONS {
        let identity = FileIdentity { inode: number as u64, bytes: 1, modified_ns: 1 };
        batch.begin(TextFile { path: format!("/none/{number}.jsonl").into(), session: id(number), identity });
        for message in 0..MESSAGES as u64 {
            let mut text = String::new();
            for _ in 0..WORDS {
                // Ranks with evenly distributed logarithm: the n-th word is about 1/n as frequent as the first.
                text += &word((DISTINCT as f64).powf(random()) as u64);
                text.push(' ');
            }
            let at = corpus::Options::default().start + number as i64 * 3_600_000 + message as i64 * 1_500;
            let span = ByteSpan { start: message * 500, bytes: text.len() as u64 };
            let passage = Passage {
                session: None,
                agent: "root",
                kind: PassageKind::Message,
                tool: "",
                failed: false,
                at_ms: at,
                span,
            };
            batch.add(&passage, &text);
            if batch.is_full() {
                texts.put(&batch.take()).expect("a batch");
            }
        }
        batch.end();
    }
    texts.put(&batch.take()).expect("a batch");
}
