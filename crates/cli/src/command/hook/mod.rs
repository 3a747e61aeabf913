//! `subscope hook`: what an installed command hook runs. It hands a payload to the hub, or spools it, and never stands in
//! the agent's way.
//!
//! It runs for every event of every agent, so it is dispatched before anything else of the program is built, and needs
//! the standard library only. Whatever happens it ends with exit code 0 (2 would block the agent's call), prints nothing
//! but a decision of the hub, and is over by [`DEADLINE`] and [`SPOOL_LIMIT`].
//!
//! Flow: it reads stdin, posts it, and spools it where that fails or takes too long; after that [`breaker`] has the next hooks
//! spool at once until the hub answers again. Everything happens on one thread,
//! since starting a second costs as much as the post: whatever can wait is waited for until the deadline and no longer
//! ([`patient`]). Only the spool, on a disk that may not answer, has a second thread beside it, which ends the process.

mod breaker;
mod http;
mod patient;

use std::{
    collections::hash_map::RandomState,
    ffi::OsString,
    fs,
    hash::{BuildHasher, Hasher},
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use subscope_collect::spool::{self, Delivery, PAYLOAD_LIMIT_BYTES};
use subscope_hub::clock;

pub(crate) use self::breaker::Breaker;
use self::{
    breaker::Breaking,
    patient::{Deadline, Patient},
};
use crate::{environment::Environment, hub_connection::SOCKET};

/// Until when a payload must be read, posted and answered. A hub answers after its commit, usually within a few
/// milliseconds. Longer would let a hub that hangs slow every call of every agent by as much; shorter would miss the
/// answers of a busy one, and with them its decisions (payloads are spooled and lost in neither case).
const DEADLINE: Duration = Duration::from_millis(500);
/// How long the spool may take after that: a dead network disk must not hold the agent.
const SPOOL_LIMIT: Duration = Duration::from_millis(250);
/// What is made ready for a payload. Most have less.
const CHUNK_BYTES: usize = 16 << 10;
/// The stack of a thread that only sleeps.
const WATCH_STACK_BYTES: usize = 16 << 10;

/// Whether the process was started as a hook, from its arguments without the program. A call for help was not.
pub(crate) fn is_meant(words: &[OsString]) -> bool {
    let (first, rest) = match words.split_first() {
        Some((first, rest)) => (first, rest),
        None => return false,
    };
    first == "hook" && !rest.iter().any(|word| word == "--help" || word == "-h")
}

/// Runs the hook of a settings file: `hook [--store PATH]`. Other words are passed over: a wrong one must not block an
/// agent.
pub(crate) fn run_words(words: &[OsString]) {
    let mut rest = words.iter().skip(1);
    let mut store = None;
    while let Some(word) = rest.next() {
        if word == "--store" {
            store = rest.next().map(PathBuf::from);
        } else if let Some(path) = word.to_str().and_then(|word| word.strip_prefix("--store=")) {
            store = Some(PathBuf::from(path));
        }
    }
    run(store.as_deref(), &Environment::of_process());
}

/// Hands stdin to the hub, or spools it. `store` is the folder for data where an option names it.
pub(crate) fn run(store: Option<&Path>, environment: &Environment) {
    // A panic would write to stderr and end with another code.
    panic::set_hook(Box::new(|_| {}));
    let Some(data) = environment.data_folder(store) else { return };
    let _ = panic::catch_unwind(AssertUnwindSafe(|| deliver(&data)));
}

fn deliver(data: &Path) {
    let deadline = Deadline::after(DEADLINE);
    let delivery = Delivery::new(clock::now_ns(), std::process::id(), random());
    let mut body = Vec::new();
    let read = read(Patient::new(io::stdin().lock(), deadline), &mut body);
    if body.is_empty() {
        return;
    }
    let breaker = Breaker::of(data);
    // A payload that came late leaves the hub little time: that says nothing about the hub.
    let is_early = deadline.left().is_ok_and(|left| left > DEADLINE / 2);
    match read.and_then(|()| ask_hub(data, &breaker, delivery, &body, deadline)) {
        Ok(answer) => print(&answer),
        Err(error) => {
            spool(data, delivery, &body);
            if is_early && error.kind() == io::ErrorKind::TimedOut {
                breaker.trip();
            }
        }
    }
}

/// Posts the payload, unless the breaker is open.
fn ask_hub(
    data: &Path,
    breaker: &Breaker,
    delivery: Delivery,
    body: &[u8],
    deadline: Deadline,
) -> io::Result<Vec<u8>> {
    let socket = trusted_socket(data)?;
    let state = breaker.state();
    if state == Breaking::Open {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    let answer = post(&socket, delivery, body, deadline)?;
    if state == Breaking::HalfOpen {
        breaker.reset();
    }
    Ok(answer)
}

/// Spools, and ends the process where that takes too long.
fn spool(data: &Path, delivery: Delivery, body: &[u8]) {
    let watch = thread::Builder::new().stack_size(WATCH_STACK_BYTES).spawn(|| {
        thread::sleep(SPOOL_LIMIT);
        std::process::exit(0);
    });
    if watch.is_ok() {
        // A full disk leaves nowhere to keep it, and nobody may be told.
        let _ = spool::write(&spool::folder(data), spool::Kind::Hook, delivery, &[body]);
    }
}

/// Reads a payload. What is longer than any is cut, and the decoder of its taker tells so.
fn read(input: impl Read, payload: &mut Vec<u8>) -> io::Result<()> {
    payload.reserve(CHUNK_BYTES);
    input.take(PAYLOAD_LIMIT_BYTES as u64).read_to_end(payload).map(|_| ())
}

fn post(socket: &Path, delivery: Delivery, body: &[u8], deadline: Deadline) -> io::Result<Vec<u8>> {
    http::post(Patient::new(patient::connect(socket, deadline)?, deadline), delivery, body)
}

/// The hub's socket, where nobody else can have put it there: an answer can deny the agent's calls, and payloads are
/// nobody else's business.
fn trusted_socket(data: &Path) -> io::Result<PathBuf> {
    if fs::metadata(data)?.permissions().mode() & 0o022 == 0 {
        return Ok(data.join(SOCKET));
    }
    Err(io::ErrorKind::PermissionDenied.into())
}

/// Prints a decision. Anything else than a JSON object would be taken for words to the model.
fn print(answer: &[u8]) {
    if answer.trim_ascii_start().starts_with(b"{") {
        let mut out = io::stdout().lock();
        // A reader that left is nobody to tell.
        let _ = out.write_all(answer).and_then(|()| out.flush());
    }
}

/// A number that nobody else has: the standard library seeds its hashers from the operating system.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn only_the_word_hook_in_front_is_meant_and_no_call_for_help() {
        for (line, meant) in [
            ("hook", true),
            ("hook --nonsense", true),
            ("hook --store x", true),
            ("hook --help", false),
            ("hooks", false),
            ("tree hook", false),
            ("", false),
        ] {
            assert_eq!(is_meant(&words(line)), meant, "{line}");
        }
    }

    #[test]
    fn read_cuts_a_payload_that_is_too_long() {
        let mut payload = Vec::new();
        read(io::repeat(b'x'), &mut payload).unwrap();
        assert_eq!(payload.len(), PAYLOAD_LIMIT_BYTES);
    }

    #[test]
    fn socket_in_a_folder_that_others_may_write_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        for (mode, trusted) in [(0o700, true), (0o755, true), (0o775, false), (0o1777, false)] {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(trusted_socket(folder.path()).is_ok(), trusted, "{mode:o}");
        }
        assert!(trusted_socket(&folder.path().join("none")).is_err());
    }
}
