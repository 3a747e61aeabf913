//! Load of `serve`, with everything stored on disk: acknowledged posts, and the latency from a line or a post to the
//! live feed. The real program; posters and readers take their share of the same cores, so the figures are lower
//! bounds. `cargo bench --bench serve -- NAME` runs one section.
#![expect(clippy::expect_used, reason = "a bench that cannot be set up has nothing to go on with")]

mod bare;
mod client;
mod hook;
mod idle;
mod live;
mod otlp;
mod posts;
mod replaced;
#[path = "../shared/server.rs"]
mod server;

use std::io::Write;

use subscope_testkit::figures::{self, Row};

/// A section: its name, and what it measures.
type Section = (&'static str, fn() -> Vec<Row>);

const SECTIONS: [Section; 9] = [
    ("hook", hook::cost),
    ("posts", posts::many_sessions),
    ("session", posts::one_session),
    ("otlp", otlp::spans),
    ("live", live::fifty_readers),
    ("forwarding", live::fifty_readers_while_forwarding),
    ("idle", idle::hub),
    ("replaced", replaced::meta),
    ("cold", live::fifty_readers_during_a_cold_index),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` and nextest ask for a list; there is nothing to list.
    if arguments.iter().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    if let [word, folder, ..] = arguments.as_slice()
        && word == bare::WORD
    {
        return bare::serve(folder.as_ref());
    }
    if arguments.first().is_some_and(|word| word == bare::HOOK) {
        return bare::hook();
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
