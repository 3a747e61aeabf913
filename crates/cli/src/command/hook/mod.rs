//! `subscope hook`: what an installed command hook runs. It hands a payload to the hub, or spools it, and never stands in
//! the agent's way.
//!
//! It runs for every event of every agent, so it is dispatched before anything else of the program is built, and needs
//! the standard library only. Whatever happens it ends with exit code 0 (2 would block the agent's call), prints nothing
//! but a decision of the hub, and is over by [`DEADLINE`] and [`SPOOL_LIMIT`].
//!
//! Flow: one thread reads stdin and posts it; the main thread keeps what was read and the time. No answer in time, no
//! hub, an answer that is no 200: the main thread spools. A payload can so be both delivered and spooled; its
//! [`Delivery`] tells the hub that it is one.

mod http;

use std::{
    collections::hash_map::RandomState,
    ffi::OsString,
    fs,
    hash::{BuildHasher, Hasher},
    io::{self, Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use subscope_collect::spool::{self, Delivery, PAYLOAD_LIMIT_BYTES};
use subscope_hub::clock;

use crate::environment::Environment;

/// Until when a payload must be read, posted and answered. A hub answers after its commit, usually within a few
/// milliseconds. Longer would let a hub that hangs slow every call of every agent by as much; shorter would miss the
/// answers of a busy one, and with them its decisions (payloads are spooled and lost in neither case).
const DEADLINE: Duration = Duration::from_millis(500);
/// How long the spool may take after that: a dead network disk must not hold the agent.
const SPOOL_LIMIT: Duration = Duration::from_millis(250);
/// What is read at once. Most payloads have less.
const CHUNK_BYTES: usize = 64 << 10;
/// Parts between the two threads. The main thread does nothing but take them, so a few are enough.
const QUEUE: usize = 4;
/// The hub's socket in the folder for data.
pub(crate) const SOCKET: &str = "hub.sock";

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

/// What the thread at work tells.
enum Told {
    /// A part of the payload was read.
    Part(Arc<[u8]>),
    /// The hub has taken the payload, and this is its answer.
    Answer(Vec<u8>),
}

fn deliver(data: &Path) {
    let began = clock::tick();
    let delivery = Delivery::new(clock::now_ns(), std::process::id(), random());
    let (told, heard) = sync_channel(QUEUE);
    let socket = trusted_socket(data);
    let at_work = thread::Builder::new().spawn(move || work(socket.as_deref(), delivery, &told));
    let (body, answer) = match at_work {
        Ok(_) => listen(&heard, began),
        // No thread, no time to wait for: stdin may never end.
        Err(_) => return,
    };
    match answer {
        Some(answer) => print(&answer),
        None if body.is_empty() => {}
        None => spool_in_time(spool::folder(data), delivery, body),
    }
}

/// Gathers what the thread at work tells until it answers, gives up or is late.
fn listen(heard: &Receiver<Told>, began: Instant) -> (Vec<Arc<[u8]>>, Option<Vec<u8>>) {
    let mut body = Vec::new();
    loop {
        match heard.recv_timeout(DEADLINE.saturating_sub(began.elapsed())) {
            Ok(Told::Part(part)) => body.push(part),
            Ok(Told::Answer(answer)) => return (body, Some(answer)),
            Err(_) => return (body, None),
        }
    }
}

/// Reads stdin and posts it. Any failure ends it, which closes the channel and so tells of it.
fn work(socket: Option<&Path>, delivery: Delivery, told: &SyncSender<Told>) -> Option<()> {
    let body = read(io::stdin().lock(), told)?;
    if body.is_empty() {
        return None;
    }
    // Connecting can wait without end, too: for a hub whose queue is full.
    let stream = UnixStream::connect(socket?).ok()?;
    let answer = http::post(stream, delivery, &body).ok()?;
    told.send(Told::Answer(answer)).ok()
}

/// Reads a payload. What is longer than any is cut, and the decoder of its taker tells so.
fn read(input: impl Read, told: &SyncSender<Told>) -> Option<Vec<Arc<[u8]>>> {
    let mut input = input.take(PAYLOAD_LIMIT_BYTES as u64);
    let (mut chunk, mut body) = (vec![0; CHUNK_BYTES], Vec::new());
    loop {
        match input.read(&mut chunk) {
            Ok(0) => return Some(body),
            Ok(count) => {
                let part: Arc<[u8]> = chunk.get(..count)?.into();
                body.push(part.clone());
                told.send(Told::Part(part)).ok()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// The hub's socket, where nobody else can have put it there: an answer can deny the agent's calls, and payloads are
/// nobody else's business.
fn trusted_socket(data: &Path) -> Option<PathBuf> {
    let others_may_write = fs::metadata(data).ok()?.permissions().mode() & 0o022 != 0;
    (!others_may_write).then(|| data.join(SOCKET))
}

fn spool_in_time(folder: PathBuf, delivery: Delivery, body: Vec<Arc<[u8]>>) {
    let (told, heard) = sync_channel(1);
    let writer = thread::Builder::new().spawn(move || {
        // A full disk leaves nowhere to keep it, and nobody may be told.
        let _ = spool::write(&folder, delivery, &body);
        let _ = told.send(());
    });
    if writer.is_ok() {
        let _ = heard.recv_timeout(SPOOL_LIMIT);
    }
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
        let (told, heard) = sync_channel(1000);
        let body = read(io::repeat(b'x'), &told).unwrap();
        assert_eq!(body.iter().map(|part| part.len()).sum::<usize>(), PAYLOAD_LIMIT_BYTES);
        drop(told);
        assert_eq!(heard.iter().count(), body.len());
    }

    #[test]
    fn socket_in_a_folder_that_others_may_write_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        for (mode, trusted) in [(0o700, true), (0o755, true), (0o775, false), (0o1777, false)] {
            fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(trusted_socket(folder.path()).is_some(), trusted, "{mode:o}");
        }
        assert_eq!(trusted_socket(&folder.path().join("none")), None);
    }
}
