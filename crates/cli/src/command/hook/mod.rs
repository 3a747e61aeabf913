//! `subscope hook`: the command of installed hooks. It posts a payload to the hub, or spools it, and never blocks the
//! agent.
//!
//! It runs for every event of every agent, so it is dispatched before anything else is built, and needs no runtime, TLS
//! or thread for a post. It always exits with code 0 (2 would block the agent's call), prints nothing but its harness's
//! own stop answer or decision, and waits for hub and disk at most [`DEADLINE`] plus [`SPOOL_LIMIT`]. Waiting for a
//! processor does not count: a payload must not be lost because a machine is busy. Only where the user switched answers
//! on and looks, the hook of a permission request then waits for the decision ([`wait_for_decision`]).
//!
//! Flow: reads stdin, posts it, and spools it if that fails or times out; after a timeout [`breaker`] makes the next
//! hooks spool at once until the hub answers again. All on one thread, since starting a second costs as much as the
//! post: every blocking call polls until the deadline ([`deadline`]). Only spooling, on a disk that may hang, is
//! guarded by a second thread, which ends the process.

mod breaker;
mod deadline;
mod watchdog;

use std::{
    collections::hash_map::RandomState,
    ffi::OsString,
    fs::File,
    hash::{BuildHasher, Hasher},
    io::{self, Read, Write},
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::de::IgnoredAny;
use subscope_client::{
    check_owner, check_private_folder,
    hook::{HELD_PERMISSION, LONGEST_WAIT_SECONDS, WAITS, decision_path},
    http,
};
use subscope_collect::spool::{self, Delivery, PAYLOAD_LIMIT_BYTES};
use subscope_decode::{Dialect, repair_json};
use subscope_harness::{HookHandler, HookSupport, PROGRAM, SettingsScope, calling_harness, hooks_of};
use subscope_hub::clock;
use subscope_platform::duplicate;

use self::breaker::BreakerState;
pub(crate) use self::{
    breaker::Breaker,
    deadline::{DeadlineIo, PollDeadline},
};
use crate::{environment::Environment, hub_connection::SOCKET};

/// Time limit for reading, posting and answering a payload. A hub answers after its commit, usually within a few
/// milliseconds. A longer limit would let a hung hub slow down every call of every agent by as much; a shorter one
/// would miss answers of a busy hub, and with them its decisions (payloads are spooled, never lost, in either case).
const DEADLINE: Duration = Duration::from_millis(500);
/// Time limit for a payload that is not whole at the deadline: on a busy machine the harness itself comes late. It is
/// shorter than the harness's own limit for hooks, which kills them.
const LATE_DEADLINE: Duration = Duration::from_secs(4);
/// Additional time limit for spooling: a dead network disk must not block the agent.
const SPOOL_LIMIT: Duration = Duration::from_millis(250);
/// Limit of the response with its head. A decision has some hundred bytes, with four long answers some thousand.
const MAX_RESPONSE_BYTES: u64 = 64 << 10;
/// Time limit for the decision of a person; the hub's own is a little shorter.
const LONGEST_WAIT: Duration = Duration::from_secs(LONGEST_WAIT_SECONDS + 5);
/// The header of a connection's only request.
const CLOSE: (&str, &str) = ("connection", "close");
/// Greatest settings file that a plugin's hook looks at: real ones have some thousand bytes.
const MAX_SETTINGS_BYTES: u64 = 256 << 10;
/// Initial buffer for a payload; most are smaller.
const CHUNK_BYTES: usize = 16 << 10;

/// Whether the arguments (without the program) are those of a hook. A request for help is not.
pub(crate) fn is_hook(args: &[OsString]) -> bool {
    let Some((first, rest)) = args.split_first() else { return false };
    first == "hook" && !rest.iter().any(|arg| arg == "--help" || arg == "-h")
}

/// Options of a hook's command.
#[derive(Clone, Debug, Default)]
pub(crate) struct HookOptions {
    /// Name of the harness whose hook it is; where it is not named, [`calling_harness`] tells.
    pub(crate) harness: Option<String>,
    /// The event, where payloads do not name it.
    pub(crate) event: Option<String>,
    /// Data folder.
    pub(crate) store: Option<PathBuf>,
    /// Whether a plugin runs it.
    pub(crate) is_of_plugin: bool,
}

impl HookOptions {
    /// Reads `hook [--harness NAME] [--event NAME] [--store PATH] [--plugin]`. Unknown arguments are ignored: they must not block
    /// an agent.
    fn parse(args: &[OsString]) -> Self {
        let mut options = Self::default();
        let mut rest = args.iter().skip(1);
        while let Some(arg) = rest.next() {
            let (name, value) = match arg.to_str().and_then(|arg| arg.split_once('=')) {
                Some((name, value)) => (name, Some(OsString::from(value))),
                None => (arg.to_str().unwrap_or_default(), None),
            };
            let mut value = || value.clone().or_else(|| rest.next().cloned());
            let text = |value: Option<OsString>| value.and_then(|value| value.into_string().ok());
            match name {
                "--harness" => options.harness = text(value()),
                "--event" => options.event = text(value()),
                "--store" => options.store = value().map(PathBuf::from),
                "--plugin" => options.is_of_plugin = true,
                _ => {}
            }
        }
        options
    }
}

/// Runs the hook of a settings file.
pub(crate) fn run_args(args: &[OsString]) {
    run(&HookOptions::parse(args), &Environment::of_process());
}

/// Posts stdin to the hub, or spools it.
pub(crate) fn run(options: &HookOptions, environment: &Environment) {
    // A panic would print to stderr and change the exit code.
    panic::set_hook(Box::new(|_| {}));
    let Some(data) = environment.data_folder(options.store.as_deref()) else { return };
    let named = options.harness.as_deref();
    let _ = panic::catch_unwind(AssertUnwindSafe(|| match named.filter(|name| hooks_of(name).is_none()) {
        Some(unknown) => keep_unknown(&data, unknown),
        None => deliver(&data, options, environment),
    }));
}

/// Spools a payload of a harness that is not known: the command in its settings is wrong, or of a newer version.
/// `subscope hooks status` and `doctor` report it.
fn keep_unknown(data: &Path, harness: &str) {
    let delivery = Delivery::new(clock::now_ns(), std::process::id(), random());
    let mut body = Vec::new();
    let deadlines = [DEADLINE, LATE_DEADLINE].map(PollDeadline::after);
    // What was read before an error is kept, too.
    let _ = unbuffered_stdin().and_then(|stdin| read(&stdin, &mut body, deadlines));
    spool(data, spool::Kind::Unknown, delivery, &[spool::unknown_head(harness).as_slice(), &body]);
}

fn deliver(data: &Path, options: &HookOptions, environment: &Environment) {
    let deadline = PollDeadline::after(DEADLINE);
    let delivery = Delivery::new(clock::now_ns(), std::process::id(), random());
    let mut body = Vec::new();
    let late = PollDeadline::after(LATE_DEADLINE);
    let read = unbuffered_stdin().and_then(|stdin| read(&stdin, &mut body, [deadline, late]));
    if body.is_empty() {
        return;
    }
    body = repair_json(body);
    let caller = || calling_harness(&|name: &str| environment.get(name), &body);
    let Some((harness, hooks)) = options.harness.as_deref().map_or_else(caller, hooks_of) else { return };
    if options.is_of_plugin && is_delivered_by_settings(hooks, options.event.as_deref(), environment) {
        return;
    }
    body = hooks.payload(options.event.as_deref(), body);
    let breaker = Breaker::of(data);
    // A payload that arrived late left the hub little time: a timeout then is no sign of a hung hub.
    let is_early = deadline.left().is_ok_and(|left| left > DEADLINE / 2);
    match read.and_then(|()| post_unless_open(data, hooks, &breaker, delivery, &body, deadline)) {
        Ok(answer) => {
            let dialect = hooks.dialect();
            let decide = || wait_for_decision(data, dialect, &body, &answer);
            print(dialect.known_stop_answer(&answer).or_else(decide));
        }
        Err(error) => {
            spool(data, spool::Kind::Hook(harness.name()), delivery, &[&body]);
            if is_early && error.kind() == io::ErrorKind::TimedOut {
                breaker.trip();
            }
        }
    }
}

/// Whether the user's settings have a working hook of ours for an event, so that the plugin's need not deliver it. In
/// doubt it does: the hub counts a payload once that two hooks deliver.
fn is_delivered_by_settings(hooks: &dyn HookSupport, event: Option<&str>, environment: &Environment) -> bool {
    let variables = |name: &str| environment.get(name);
    let Some(event) = event.filter(|_| hooks.trust().is_none()) else { return false };
    let file = hooks.settings_file(SettingsScope::User, &variables, environment.working_folder());
    let text = file.and_then(|file| {
        let mut text = String::new();
        File::open(file).ok()?.take(MAX_SETTINGS_BYTES).read_to_string(&mut text).ok()?;
        Some(text).filter(|text| text.contains(PROGRAM))
    });
    text.and_then(|text| hooks.settings(&text).ok()).is_some_and(|settings| {
        let is_working = |(name, handler): &(String, HookHandler)| {
            name == hooks.own_event(event) && handler.program().is_none_or(|program| program.is_file())
        };
        !settings.disables_hooks() && settings.ours().iter().any(is_working)
    })
}

/// Posts the payload, unless the breaker is open.
fn post_unless_open(
    data: &Path,
    hooks: &dyn HookSupport,
    breaker: &Breaker,
    delivery: Delivery,
    body: &[u8],
    deadline: PollDeadline,
) -> io::Result<Vec<u8>> {
    // An answer can deny the agent's calls, and payloads are private.
    check_private_folder(data)?;
    let state = breaker.state();
    if state == BreakerState::Open {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    let stream = DeadlineIo::new(deadline::connect(&data.join(SOCKET), deadline)?, deadline);
    let answer = post_payload(stream, hooks.route(), delivery, body)?;
    if state == BreakerState::HalfOpen {
        breaker.reset();
    }
    Ok(answer)
}

/// Spools the payload; ends the process if a disk takes longer than [`SPOOL_LIMIT`]. Nothing is written into another
/// user's folder.
fn spool(data: &Path, kind: spool::Kind, delivery: Delivery, body: &[&[u8]]) {
    if watchdog::exit_when_blocked(SPOOL_LIMIT).is_ok() {
        if check_owner(data).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
            return;
        }
        // On a full disk the payload is lost, and no message may be printed.
        let _ = spool::write(&spool::folder(data), kind, delivery, body);
    }
}

/// Returns stdin without the standard library's buffer, which hides from `poll` what it has read.
pub(crate) fn unbuffered_stdin() -> io::Result<File> {
    duplicate(&io::stdin())
}

/// Reads a payload until its end, or until the first deadline if it is whole JSON then, else until the second. It is
/// truncated at the limit; the hub's decoder reports a truncated one.
fn read(input: &File, payload: &mut Vec<u8>, deadlines: [PollDeadline; 2]) -> io::Result<()> {
    payload.reserve(CHUNK_BYTES);
    let mut outcome = Ok(());
    for deadline in deadlines {
        let room = PAYLOAD_LIMIT_BYTES.saturating_sub(payload.len()) as u64;
        outcome = DeadlineIo::new(input, deadline).take(room).read_to_end(payload).map(|_| ());
        let is_late = outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
        if !is_late || serde_json::from_slice::<IgnoredAny>(payload).is_ok() {
            break;
        }
    }
    outcome
}

/// Posts a payload over a stream; returns the body of the response.
///
/// # Errors
/// If the connection fails, or the response is incomplete or not 200: only 200 means that the payload was stored.
fn post_payload(
    stream: impl Read + Write,
    route: &str,
    delivery: Delivery,
    body: &[u8],
) -> io::Result<Vec<u8>> {
    let (id, received_ms) = (delivery.to_string(), delivery.received_ms().to_string());
    let headers = [
        ("host", "localhost"),
        ("content-type", "application/json"),
        ("x-subscope-delivery", id.as_str()),
        ("x-subscope-received-ms", received_ms.as_str()),
        WAITS,
        CLOSE,
    ];
    let request = http::request("POST", route, &headers, Some(body));
    let response = http::exchange(stream, &request, MAX_RESPONSE_BYTES)?;
    if response.status == 200 {
        return Ok(response.body);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the hub did not store the payload"))
}

/// Waits for a person's decision about the permission request of the payload, if the hub holds it; returns it as the harness
/// reads it. `None` leaves it to the harness's own question, as does any error.
fn wait_for_decision(data: &Path, dialect: Dialect, payload: &[u8], answer: &[u8]) -> Option<String> {
    let answer: serde_json::Value = serde_json::from_slice(answer).ok()?;
    let path = decision_path(answer.get(HELD_PERMISSION)?.as_str()?);
    let stream = deadline::connect(&data.join(SOCKET), PollDeadline::after(DEADLINE)).ok()?;
    let stream = DeadlineIo::new(stream, PollDeadline::after(LONGEST_WAIT));
    let request = http::request("GET", &path, &[("host", "localhost"), CLOSE], None);
    let response = http::exchange(stream, &request, MAX_RESPONSE_BYTES).ok()?;
    let decision = (response.status == 200).then(|| serde_json::from_slice(&response.body).ok()).flatten()?;
    dialect.permission_decision(payload, &decision)
}

/// Prints a stop answer or a decision, if there is one.
fn print(answer: Option<String>) {
    let Some(answer) = answer else { return };
    let mut out = io::stdout().lock();
    // A closed pipe is ignored.
    let _ = out.write_all(answer.as_bytes()).and_then(|()| out.flush());
}

/// Returns a random number: the standard library seeds its hashers from the operating system.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    fn args(line: &str) -> Vec<OsString> {
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
            assert_eq!(is_hook(&args(line)), meant, "{line}");
        }
    }

    #[test]
    fn options_may_have_their_value_behind_an_equals_sign() {
        for line in ["hook --harness a --event b --store c", "hook x --store=c --event=b -y --harness=a"] {
            let HookOptions { harness, event, store, is_of_plugin } = HookOptions::parse(&args(line));
            assert!(!is_of_plugin);
            assert_eq!((harness.as_deref(), event.as_deref()), (Some("a"), Some("b")), "{line}");
            assert_eq!(store, Some(PathBuf::from("c")), "{line}");
        }
        assert_eq!(HookOptions::parse(&args("hook --store")).store, None);
        assert!(HookOptions::parse(&args("hook --event a --plugin")).is_of_plugin);
    }

    #[test]
    fn post_sends_the_payload_once_and_takes_only_a_200() {
        for (status, expected) in [("200 OK", Some("{}")), ("204 No Content", None), ("500 Oh", None)] {
            let (stream, mut hub) = std::os::unix::net::UnixStream::pair().unwrap();
            write!(hub, "HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}").unwrap();
            let answer = post_payload(stream, "/hooks/claude", Delivery::new(1_000_000, 2, 3), b"{\"a\":1}");
            assert_eq!(answer.ok().as_deref(), expected.map(str::as_bytes), "{status}");
            let mut sent = String::new();
            hub.read_to_string(&mut sent).unwrap();
            assert_eq!(
                sent,
                "POST /hooks/claude HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 x-subscope-delivery: 00000000000f4240-00000002-0000000000000003\r\nx-subscope-received-ms: 1\r\n\
                 x-subscope-waits: 1\r\nconnection: close\r\ncontent-length: 7\r\n\r\n{\"a\":1}"
            );
        }
    }

    /// Far longer than any read of these tests takes.
    const LIMIT: Duration = Duration::from_secs(30);

    fn deadlines(first: Duration) -> [PollDeadline; 2] {
        [PollDeadline::after(first), PollDeadline::after(LIMIT)]
    }

    #[test]
    fn read_cuts_a_payload_that_is_too_long() {
        let mut payload = Vec::new();
        read(&File::open("/dev/zero").unwrap(), &mut payload, deadlines(LIMIT)).unwrap();
        assert_eq!(payload.len(), PAYLOAD_LIMIT_BYTES);
    }

    /// On a busy machine 3 of 200 hooks were lost: their harness wrote the payload half a second after it had started
    /// them.
    #[test]
    fn payload_that_comes_after_the_deadline_is_read() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        theirs.write_all(b"{\"half\":").unwrap();
        let writer = std::thread::spawn(move || theirs.write_all(b"1}"));
        let mut payload = Vec::new();
        read(&File::from(OwnedFd::from(ours)), &mut payload, deadlines(Duration::ZERO)).unwrap();
        assert_eq!(payload, b"{\"half\":1}");
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn whole_payload_is_not_waited_for_although_its_pipe_stays_open() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        theirs.write_all(b"{\"whole\":1}").unwrap();
        let mut payload = Vec::new();
        let deadlines = deadlines(Duration::from_millis(100));
        let ended = read(&File::from(OwnedFd::from(ours)), &mut payload, deadlines);
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(payload, b"{\"whole\":1}");
        assert!(deadlines[1].left().is_ok(), "the second deadline was waited for");
        drop(theirs);
    }
}
