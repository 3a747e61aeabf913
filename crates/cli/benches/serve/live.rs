//! From a line that is written or a hook that is posted to its event on the live feed, commit included, with 50 readers
//! and one that is stuck. Budgets: p50 5 ms, p99 30 ms; nothing lost, nothing out of order within an agent.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use subscope_hub::clock;
use subscope_model::iso8601;
use subscope_testkit::corpus;

use subscope_testkit::figures::{Row, now, percentile};

use crate::{client::Connection, server::Server};

const READERS: usize = 50;
/// Events in a second, evenly spaced, half of them posted hooks and half of them written lines.
const RATE: u64 = 500;
const SECONDS: u64 = 60;
const TOTAL: u64 = RATE * SECONDS;
/// Sessions at work, and agents of each.
const SESSIONS: u64 = 10;
const AGENTS: u64 = 5;
/// How long the last event may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Prefix of an event's number in its text.
const MARK: &str = "needle-";

/// Nothing else happens.
pub(crate) fn fifty_readers() -> Vec<Row> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    measure(folder.path(), "on a quiet machine")
}

/// The program has just begun to read 300 MB that it does not know.
pub(crate) fn fifty_readers_during_a_cold_index() -> Vec<Row> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for number in 0..10 {
        let options = corpus::Options { seed: number, ..corpus::session_of(30) };
        let project = folder.path().join(format!(".claude/projects/-cold-{number}"));
        fs::create_dir_all(&project).expect("a folder");
        corpus::on_disk(&options, &project).expect("room for 30 MB");
    }
    measure(folder.path(), "while 300 MB are read for the first time")
}

/// Each change also goes to a team's server, texts included, which takes them all.
pub(crate) fn fifty_readers_while_forwarding() -> Vec<Row> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let settings = folder.path().join(".config/subscope");
    fs::create_dir_all(&settings).expect("a folder");
    let token = settings.join("token");
    fs::write(&token, "sst_bench").expect("a token");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("a mode");
    let address = listener.local_addr().expect("its address");
    let text = format!("[team]\nurl = \"http://{address}\"\ntoken_file = {token:?}\ncontent = \"text\"\n");
    fs::write(settings.join("config.toml"), text).expect("settings");
    let taken = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&taken);
    thread::spawn(move || listener.incoming().flatten().for_each(|stream| take_snapshots(stream, &counted)));
    let rows = measure(folder.path(), "while the hub forwards them to a team's server");
    assert!(taken.load(Ordering::Relaxed) > SECONDS / 10, "the hub has forwarded");
    rows
}

/// Answers each request of a connection as a team's server that stores what it gets.
fn take_snapshots(stream: TcpStream, taken: &AtomicU64) {
    let mut lines = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while lines.read_line(&mut line).is_ok_and(|count| count > 0) {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            let body = "{\"refused\":[]}";
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
            if std::io::copy(&mut lines.by_ref().take(length), &mut std::io::sink()).is_err()
                || lines.get_mut().write_all(answer.as_bytes()).is_err()
            {
                return;
            }
            taken.fetch_add(1, Ordering::Relaxed);
            length = 0;
        }
        line.clear();
    }
}

/// Time of each post, in microseconds since the start.
struct Sent {
    began: Instant,
    at: Vec<AtomicU64>,
}

impl Sent {
    fn micros(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

fn measure(home: &Path, condition: &str) -> Vec<Row> {
    let projects = home.join(".claude/projects/-live");
    fs::create_dir_all(&projects).expect("folders");
    let server = Server::subscope(home);
    let sent = Sent { began: now(), at: (0..TOTAL).map(|_| AtomicU64::new(0)).collect() };
    let is_over = AtomicBool::new(false);
    let stuck = Connection::open(&server.address).feed();
    let readers: Vec<_> = (0..READERS).map(|_| Connection::open(&server.address).feed()).collect();
    let (sent, is_over) = (&sent, &is_over);
    let mut all: Vec<f64> = thread::scope(|scope| {
        let readers: Vec<_> =
            readers.into_iter().map(|feed| scope.spawn(move || read(feed, sent, is_over))).collect();
        send(&server.address, &projects, sent);
        let waits: Vec<Vec<f64>> =
            readers.into_iter().map(|reader| reader.join().expect("a reader sees everything")).collect();
        is_over.store(true, Ordering::Relaxed);
        waits.into_iter().flatten().collect()
    });
    assert_eq!(all.len() as u64, TOTAL * READERS as u64, "each reader sees each event once");
    drop(stuck);
    all.sort_by(f64::total_cmp);
    let row = |figure: &str, value, unit, budget| Row {
        question: format!(
            "line or hook → live feed, {READERS} readers and a stuck one, {RATE} events/s for {SECONDS} s, {condition}"
        ),
        figure: figure.to_owned(),
        values: vec![value],
        unit,
        budget,
        is_floor: false,
    };
    vec![
        row("median delay", percentile(&all, 50), " ms", Some(5.0)),
        row("99th percentile", percentile(&all, 99), " ms", Some(30.0)),
        row("greatest", percentile(&all, 100), " ms", None),
    ]
}

/// Posts all events, evenly spaced.
fn send(address: &str, projects: &Path, sent: &Sent) {
    let mut connection = Connection::open(address);
    let mut files: Vec<File> = (0..SESSIONS)
        .map(|session| {
            File::create(projects.join(format!("{}.jsonl", file_session(session)))).expect("a file")
        })
        .collect();
    for number in 0..TOTAL {
        let due = Duration::from_micros(number * 1_000_000 / RATE);
        if let Some(wait) = due.checked_sub(sent.began.elapsed().min(due)).filter(|wait| !wait.is_zero()) {
            thread::sleep(wait);
        }
        sent.at[number as usize].store(sent.micros(), Ordering::Relaxed);
        let session = (number / 2) % SESSIONS;
        if number % 2 == 0 {
            let agent = (number / 2 / SESSIONS) % AGENTS;
            let body = format!(
                r#"{{"session_id":"posted-{session}","hook_event_name":"PreToolUse","prompt_id":"p","agent_id":"a{agent}","agent_type":"worker","tool_name":"Bash","tool_use_id":"toolu_{number}","tool_input":{{"command":"{MARK}{number}-"}}}}"#
            );
            connection.post("/hooks/claude", &body);
        } else {
            let id = file_session(session);
            let line = format!(
                r#"{{"type":"user","uuid":"u{number}","parentUuid":null,"sessionId":"{id}","promptId":"p{number}","timestamp":"{}","version":"2.1.330","cwd":"/w","message":{{"role":"user","content":"{MARK}{number}-"}}}}"#,
                iso8601(clock::now_ms())
            ) + "\n";
            files[session as usize].write_all(line.as_bytes()).expect("a line");
        }
    }
}

fn file_session(number: u64) -> String {
    format!("5e551017-0000-4000-8000-{number:012}")
}

/// Reads until all events were seen, and returns how long each took in milliseconds.
fn read(mut feed: impl BufRead, sent: &Sent, is_over: &AtomicBool) -> Vec<f64> {
    let mut waits = Vec::with_capacity(TOTAL as usize);
    // Hooks name their agents; lines are their session's root's.
    let mut last: HashMap<(bool, u64, u64), u64> = HashMap::new();
    let mut line = String::new();
    while (waits.len() as u64) < TOTAL && !is_over.load(Ordering::Relaxed) {
        line.clear();
        if feed.read_line(&mut line).expect("the feed") == 0 {
            break;
        }
        let is_event = line.contains("\"tool.pre\"") || line.contains("\"user.prompt\"");
        let number = line.split_once(MARK).filter(|_| is_event);
        let Some(number) = number.and_then(|(_, rest)| rest.split('-').next()?.parse::<u64>().ok()) else {
            assert!(sent.began.elapsed() < Duration::from_secs(SECONDS) + PATIENCE, "{} seen", waits.len());
            continue;
        };
        let at = sent.at[number as usize].load(Ordering::Relaxed);
        waits.push(sent.micros().saturating_sub(at) as f64 / 1000.0);
        let is_posted = number % 2 == 0;
        let agent = if is_posted { (number / 2 / SESSIONS) % AGENTS } else { 0 };
        let before = last.insert((is_posted, (number / 2) % SESSIONS, agent), number);
        assert!(before.is_none_or(|before| before < number), "{number} came after {before:?}");
    }
    waits
}
