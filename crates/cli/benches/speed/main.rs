//! Speed of the path from bytes to rows, and cost of watching: one question a section, each answered as a ratio to
//! something measured in the same run.
//!
//! Contenders are interleaved, one round after the other, because the machine is noisy: what disturbs one round
//! disturbs both. Each figure is a median over the rounds with its least and greatest, and an A/A pair (the same
//! contender against itself) says how much of a ratio is noise. Criterion runs each contender by itself, so it cannot
//! pair them; hence a harness of our own. `cargo xtask bench` writes what this prints to BENCHMARKS.md;
//! `cargo bench --bench speed -- NAME` runs one section.
#![expect(clippy::expect_used, reason = "a bench that cannot be set up has nothing to go on with")]

mod bare;
mod process;
mod rounds;
mod watch;

use std::{hint::black_box, io::Write, path::Path};

use subscope_model::PriceTable;
use subscope_session::{EventScope, FactDetail, Limits, Now, RouterOptions, SessionRouter, SourceSpec};
use subscope_testkit::{
    corpus::{self, Options},
    figures::{self, Row},
    fixtures,
};

use crate::rounds::compare;

/// How many rounds each section takes; its sections give medians over these.
const ROUNDS: usize = 9;

/// After every generated event, so that nothing counts as running.
const LATER: i64 = 4_000_000_000_000;

/// A section: its name, and what it measures.
type Section = (&'static str, fn() -> Vec<Row>);

const SECTIONS: [Section; 5] = [
    ("rows", bytes_to_rows),
    ("largest", tree_of_the_largest_recording),
    ("tree", tree_of_270_megabytes),
    ("exports", exports_of_270_megabytes),
    ("watch", watching),
];

fn main() {
    // `cargo test --benches` and nextest ask for a list; there is nothing to list.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    let named: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let mut out = std::io::stdout().lock();
    let mut say = |text: String| {
        let _ = writeln!(out, "{text}");
        let _ = out.flush();
    };
    say(figures::HEAD.to_owned());
    for (name, section) in SECTIONS {
        if named.is_empty() || named.iter().any(|word| word == name) {
            for row in section() {
                say(row.markdown());
            }
        }
    }
}

/// Bytes → observations → rows against a bare typed parse of the same bytes, on one core. Budget: 1.3 ×.
fn bytes_to_rows() -> Vec<Row> {
    let options =
        Options { main_bytes: 8 << 20, agents: 40, turns: 300, result_bytes: 3000, ..corpus::session_of(48) };
    let (_, memory) = corpus::in_memory(&options);
    let sources: Vec<Vec<u8>> = memory.sources().into_iter().map(|source| memory.bytes(&source)).collect();
    let total: usize = sources.iter().map(Vec::len).sum();
    let ours = || {
        let mut router = SessionRouter::new(RouterOptions {
            keep: FactDetail::Rows,
            cutoff: None,
            events: EventScope::Nothing,
        });
        for bytes in &sources {
            let source = router.open(SourceSpec { label: "bench".into(), ..SourceSpec::default() });
            for chunk in bytes.chunks(256 << 10) {
                router.push(source, chunk);
            }
            router.flush(source);
        }
        let prices = PriceTable::default();
        let now =
            Now { at: LATER, has_ended: true, is_growing: false, prices: &prices, limits: Limits::default() };
        let sessions: Vec<_> = router.sessions().cloned().collect();
        black_box(sessions.iter().map(|session| router.tree(session, &now)).collect::<Vec<_>>());
    };
    let bare = || {
        for bytes in &sources {
            black_box(bare::parse(bytes));
        }
    };
    compare("bytes → rows, one core", total, ROUNDS, &mut { ours }, &mut { bare }, "a bare typed parse", 1.3)
}

/// `tree` of the largest recording, process start included, against an empty process. Budget: 12 ms.
fn tree_of_the_largest_recording() -> Vec<Row> {
    let largest = fixtures::recording("2.1.330", "k-big");
    let main = largest.mains().remove(0);
    let program = env!("CARGO_BIN_EXE_subscope");
    process::compare_processes(
        "`tree` of the largest recording (8 agents, 147 calls), whole process",
        ROUNDS * 3,
        &[program, "tree", &main.display().to_string()],
        &[program, "--version"],
        "`subscope --version`",
        12.0,
    )
}

/// `tree` of a generated session of 270 MB, whole process. Budget: 0.5 s on two cores, 60 MB.
fn tree_of_270_megabytes() -> Vec<Row> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let made = corpus::on_disk(&corpus::session_of(270), folder.path()).expect("room for 270 MB");
    let main = made.main(folder.path());
    let program = env!("CARGO_BIN_EXE_subscope");
    let arguments = [program, "tree", "--detail", "minimal", &main.display().to_string()].map(str::to_owned);
    process::time_and_memory(
        "`tree` of a generated session of 270 MB",
        &arguments,
        ROUNDS,
        Path::new(&main),
        500.0,
        60.0,
    )
}

/// `export` of a generated session of 270 MB, whole process, against `tree` of the same. Budgets: 2 × the time of `tree` and
/// 100 MB, of spans and of Perfetto traces; what carries all texts of the session has none.
fn exports_of_270_megabytes() -> Vec<Row> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let made = corpus::on_disk(&corpus::session_of(270), folder.path()).expect("room for 270 MB");
    let main = made.main(folder.path()).display().to_string();
    let program = env!("CARGO_BIN_EXE_subscope");
    let out = folder.path().join("out").display().to_string();
    let tree = [program, "tree", "--detail", "minimal", &main].map(str::to_owned);
    let formats: [(&str, &[&str], bool); 4] =
        [("otlp", &[], true), ("perfetto", &[], true), ("atif", &[], false), ("otlp", &["--content"], false)];
    let rows = formats.into_iter().flat_map(|(format, more, has_budget)| {
        let export = [program, "export", &main, "--as", format, "-o", &out].map(str::to_owned);
        let export = [export.to_vec(), more.iter().map(|word| (*word).to_owned()).collect()].concat();
        let question = format!(
            "`export --as {}` of a generated session of 270 MB",
            [&[format], more].concat().join(" ")
        );
        let budgets = has_budget.then_some((2.0, 100.0));
        process::ratio_and_memory(&question, &export, &tree, "`tree`", ROUNDS, budgets)
    });
    rows.collect()
}

/// Cost and latency of `watch`. Budgets: 5 ms median, 0.1 % CPU with 5,000 idle files.
fn watching() -> Vec<Row> {
    let program = Path::new(env!("CARGO_BIN_EXE_subscope"));
    let mut rows = watch::latency(program, 300);
    rows.extend(watch::idle(program, 5000));
    rows
}
