//! Cost of an idle hub after its first complete scan. Budgets: 0.1 % of a processor and 40 MB over 5,000 files.

use std::time::Duration;

use subscope_testkit::{
    clock, corpus,
    figures::{Row, memory, processor_time},
};

use crate::server::Server;

const FILES: usize = 5_000;
/// Time for it to load all sessions and evict idle ones.
const SETTLES: Duration = Duration::from_secs(100);
const WINDOWS: usize = 3;
const WINDOW: Duration = Duration::from_secs(5);

/// Over files written long ago, as most are, and over ones written just now, whose sessions are all followed.
pub(crate) fn hub() -> Vec<Row> {
    let hour = 3_600_000;
    let long_ago = |number: usize| clock::START - i64::try_from(number).unwrap_or(0) * hour;
    let now = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as i64);
    let mut rows = over("written long ago", &long_ago);
    rows.extend(over("written just now", &|_| now));
    rows
}

fn over(age: &str, written: &dyn Fn(usize) -> i64) -> Vec<Row> {
    let home = tempfile::tempdir().expect("a folder");
    corpus::idle_files(&home.path().join(".claude"), FILES, written).expect("room for small files");
    let server = Server::subscope(home.path());
    std::thread::sleep(SETTLES);
    let (mut shares, mut held) = (Vec::new(), Vec::new());
    for _ in 0..WINDOWS {
        let before = processor_time(server.child.id());
        std::thread::sleep(WINDOW);
        let spent = processor_time(server.child.id()).saturating_sub(before);
        shares.push(spent.as_secs_f64() / WINDOW.as_secs_f64() * 100.0);
        held.push(memory(server.child.id()).unwrap_or(f64::NAN));
    }
    let row = |figure: &str, values, unit, budget| Row {
        question: format!("`serve` over {FILES} files {age}, nothing happens"),
        figure: figure.to_owned(),
        values,
        unit,
        budget: Some(budget),
        is_floor: false,
    };
    vec![row("processor time", shares, " %", 0.1), row("memory", held, " MB", 40.0)]
}
