//! What an event costs an agent that nobody watches: made and published where no address is set. Budget: 1 µs (issue 4).
//!
//! `cargo bench -p subscope-client --bench publish`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints what it measures")]

use std::{hint::black_box, process::ExitCode};

use subscope_client::publish::{Event, EventKind, Publisher};
use subscope_hub::clock;

/// What an event may cost.
const BUDGET_NS: f64 = 1000.0;
const ROUNDS: usize = 21;
const EVENTS: u32 = 100_000;

fn main() -> ExitCode {
    let publisher = Publisher::off();
    let kept = Event::new("worker", "run-1", EventKind::ToolCall);
    let rounds = |work: &dyn Fn()| {
        let mut all: Vec<f64> = (0..ROUNDS).map(|_| round(work)).collect();
        all.sort_by(f64::total_cmp);
        let at = |index: usize| all.get(index).copied().unwrap_or(f64::NAN);
        (at(ROUNDS / 2), at(0), at(ROUNDS - 1))
    };
    let rows = [
        ("made and published", rounds(&|| drop(black_box(publisher.publish(&full_event()))))),
        ("published", rounds(&|| drop(black_box(publisher.publish(&kept))))),
    ];
    println!("| an event while no address is set | median | least – greatest |\n|---|---|---|");
    for (what, (median, least, greatest)) in rows {
        println!("| {what} | {median:.0} ns (budget {BUDGET_NS:.0}) | {least:.0} – {greatest:.0} ns |");
    }
    let is_over = rows.iter().any(|(_, (median, ..))| *median >= BUDGET_NS);
    ExitCode::from(u8::from(is_over))
}

/// An event as a tool call makes it.
fn full_event() -> Event {
    let event = Event::new(black_box("worker"), black_box("run-1"), EventKind::ToolCall);
    event.with_tool("Read", "call-1").with_payload(black_box("{\"path\":\"a.rs\"}"))
}

/// Nanoseconds that it takes, once.
fn round(work: &dyn Fn()) -> f64 {
    let began = clock::tick();
    (0..EVENTS).for_each(|_| work());
    began.elapsed().as_nanos() as f64 / f64::from(EVENTS)
}
