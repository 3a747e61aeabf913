//! Overhead of `run` for its command: bytes of a long run, the delay of a line, and our share of the processor. The
//! real program and a scripted child; each figure is compared with that of the same child without us. `cargo bench
//! --bench run -- NAME` runs one section.
#![expect(clippy::expect_used, reason = "a bench that cannot be set up has nothing to go on with")]

mod child;
mod delay;
mod long;
#[path = "../shared/server.rs"]
#[allow(dead_code, reason = "its address is for others")]
mod server;
mod share;

use std::io::Write;

use subscope_testkit::figures::{self, Row};

/// A section: its name, and what it measures.
type Section = (&'static str, fn() -> Vec<Row>);

const SECTIONS: [Section; 3] =
    [("long", long::two_gigabytes), ("delay", delay::of_lines), ("share", share::of_the_processor)];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` and nextest ask for a list; there is nothing to list.
    if arguments.iter().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    if child::is_meant(&arguments) {
        return child::print(&arguments);
    }
    let mut out = std::io::stdout().lock();
    let mut say = |text: String| {
        let _ = writeln!(out, "{text}");
        let _ = out.flush();
    };
    say(figures::HEAD.to_owned());
    let named: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    for (name, section) in SECTIONS {
        if named.is_empty() || named.iter().any(|word| *word == name) {
            for row in section() {
                say(row.markdown());
            }
        }
    }
}
