//! Cost of creating and publishing an event while no address is set. Budget: 1 µs (issue 4).
//!
//! `cargo bench -p subscope-client --bench publish`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints what it measures")]

use std::hint::black_box;

use subscope_client::publish::{Event, EventKind, Publisher};
use subscope_testkit::figures::{self, Row, now};

/// Time budget of an event.
const BUDGET_NS: f64 = 1000.0;
const ROUNDS: usize = 21;
const EVENTS: u32 = 100_000;

fn main() {
    // `cargo test --benches` and nextest ask for a list; there is nothing to list.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    let publisher = Publisher::off();
    let kept = Event::new("worker", "run-1", EventKind::ToolCall);
    let row = |figure: &str, work: &dyn Fn()| Row {
        question: "an event while no address is set".to_owned(),
        figure: figure.to_owned(),
        values: (0..ROUNDS).map(|_| round(work)).collect(),
        unit: " ns",
        budget: Some(BUDGET_NS),
        is_floor: false,
    };
    println!("{}", figures::HEAD);
    println!(
        "{}",
        row("made and published", &|| drop(black_box(publisher.publish(&full_event())))).markdown()
    );
    println!("{}", row("published", &|| drop(black_box(publisher.publish(&kept)))).markdown());
}

/// A typical tool call event.
fn full_event() -> Event {
    let event = Event::new(black_box("worker"), black_box("run-1"), EventKind::ToolCall);
    event.with_tool("Read", "call-1").with_payload(black_box("{\"path\":\"a.rs\"}"))
}

/// Mean nanoseconds of `work` over [`EVENTS`] calls.
fn round(work: &dyn Fn()) -> f64 {
    let began = now();
    (0..EVENTS).for_each(|_| work());
    began.elapsed().as_nanos() as f64 / f64::from(EVENTS)
}
