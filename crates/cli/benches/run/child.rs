//! The scripted child: this bench itself, which prints the recorded stream of a session with eight agents and 147
//! calls.

use std::{
    io::{self, BufWriter, Write},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use subscope_hub::clock;
use subscope_testkit::fixtures::{self, Recording, recording};

use subscope_testkit::figures::now;

/// The word that makes this bench the child.
const WORD: &str = "scripted-child";
/// Text before the time at which a line was printed, in nanoseconds since 1970.
pub(crate) const STAMP: &str = ",\"printed_ns\":";

/// A long run: so many lines, of about so many bytes together.
pub(crate) const LINES: usize = 1_000_000;
pub(crate) const BYTES: usize = 2_000_000_000;

/// Output of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    /// The session with [`LINES`] long results in its midst, as fast as they are taken.
    Long,
    /// The session's lines again and again for some seconds, one every two milliseconds, each with the moment of its
    /// printing.
    Stamped,
    /// The session at its own pace.
    Recorded,
}

impl Script {
    const ALL: [Self; 3] = [Self::Long, Self::Stamped, Self::Recorded];

    fn word(self) -> &'static str {
        match self {
            Self::Long => "long",
            Self::Stamped => "stamped",
            Self::Recorded => "recorded",
        }
    }
}

/// How many stamped lines there are, and how far apart.
const STAMPED: usize = 5_000;
const APART: Duration = Duration::from_millis(2);

/// The child by itself.
pub(crate) fn bare(script: Script) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([WORD, script.word()]).stdin(Stdio::null());
    command
}

/// The child under `run`. What is shown goes nowhere; what is kept goes to the hub of that home, if there is one.
pub(crate) fn under_run(script: Script, home: Option<&Path>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_subscope"));
    command.env_clear().arg("run");
    match home {
        Some(home) => command.env("HOME", home),
        None => command.env("HOME", "/nonexistent").arg("--no-store"),
    };
    command.arg("--").arg(std::env::current_exe().expect("this program")).args([WORD, script.word()]);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command
}

pub(crate) fn is_meant(arguments: &[String]) -> bool {
    arguments.first().is_some_and(|word| word == WORD)
}

/// Prints what the words ask for.
pub(crate) fn print(arguments: &[String]) {
    let script =
        Script::ALL.into_iter().find(|script| arguments.get(1).is_some_and(|it| it == script.word()));
    let recording = recording("2.1.330", "k-big");
    let stream = fixtures::text(recording.streams().first().expect("it has a stream"));
    let lines: Vec<&str> = stream.lines().collect();
    let out = io::stdout().lock();
    let printed = match script.expect("a script") {
        Script::Long => long(&lines, out),
        Script::Stamped => stamped(&lines, out),
        Script::Recorded => recorded(&lines, &recording, out),
    };
    printed.expect("somebody reads");
}

fn long(lines: &[&str], out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let (before, after) = lines.split_at(lines.len() / 2);
    before.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    // A tool's result in the main thread.
    let head = r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_x","content":""#;
    let tail = r#""}]},"parent_tool_use_id":null,"session_id":"aa151f21-dc72-4b46-a219-81097bbb7400"}"#;
    let text = "x".repeat(BYTES / LINES - head.len() - tail.len() - 1);
    for _ in 0..LINES {
        writeln!(out, "{head}{text}{tail}")?;
    }
    after.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    out.flush()
}

fn stamped(lines: &[&str], mut out: impl Write) -> io::Result<()> {
    let began = now();
    let whole = lines.iter().filter_map(|line| line.strip_suffix('}')).cycle();
    for (number, line) in whole.take(STAMPED).enumerate() {
        let due = APART * u32::try_from(number).unwrap_or(u32::MAX);
        thread::sleep(due.saturating_sub(began.elapsed()));
        let line = format!("{line}{STAMP}{}}}\n", clock::now_ns());
        out.write_all(line.as_bytes())?;
        out.flush()?;
    }
    Ok(())
}

fn recorded(lines: &[&str], recording: &Recording, mut out: impl Write) -> io::Result<()> {
    let stamps = recording.streams().first().expect("it has a stream").with_extension("recv_ns.txt");
    let stamps = fixtures::text(&stamps);
    let stamps: Vec<u64> = stamps.lines().filter_map(|line| line.parse().ok()).collect();
    let first = stamps.first().copied().expect("it has lines");
    let began = now();
    for (line, stamp) in lines.iter().zip(stamps) {
        thread::sleep(Duration::from_nanos(stamp - first).saturating_sub(began.elapsed()));
        out.write_all(format!("{line}\n").as_bytes())?;
        out.flush()?;
    }
    Ok(())
}
