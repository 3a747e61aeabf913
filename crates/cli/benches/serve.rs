//! What `serve` bears: posts acknowledged in a second on 64 open connections, and the way from a line that is written to
//! the live feed. Budgets: 5,000 in a second with p99 below 50 ms; p50 below 100 ms.
//!
//! The real program, with everything kept on disk; this program's own threads take their share of the same cores, so the
//! figures are lower bounds.
#![expect(clippy::expect_used, reason = "a bench that cannot be set up has nothing to go on with")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::sync_channel,
    thread,
    time::{Duration, Instant},
};

use subscope_hub::clock;

/// Posters, each on a connection of its own.
const CONNECTIONS: usize = 64;
/// Posts of one connection in one round.
const POSTS: usize = 500;
/// Posts to one session: an agent that makes a hundred calls.
const SESSION_POSTS: usize = 200;
/// Posters to one session, and their calls: its rows are concluded anew with each group of posts.
const BIG_CONNECTIONS: usize = 16;
const BIG_POSTS: usize = 8000;
/// Rounds; the median is told with the least and greatest.
const ROUNDS: usize = 5;
/// Lines that are written to a followed file.
const LINES: usize = 200;

fn main() {
    // `cargo test --benches` and nextest ask for a list; there is nothing to list.
    if std::env::args().any(|argument| argument == "--list" || argument == "--test") {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let projects = folder.path().join("home/.claude/projects/-work");
    fs::create_dir_all(&projects).expect("folders");
    let (mut child, address) = start(folder.path());
    let mut out = std::io::stdout().lock();
    let mut say = |text: String| writeln!(out, "{text}").expect("stdout");
    let mut rounds: Vec<(f64, f64, f64)> = (0..ROUNDS).map(|round| posts(&address, round)).collect();
    rounds.sort_by(|one, other| one.0.total_cmp(&other.0));
    let (least, middle, most) = (rounds[0].0, rounds[ROUNDS / 2], rounds[ROUNDS - 1].0);
    say(format!(
        "posts acknowledged in a second, {CONNECTIONS} connections: {:.0} ({least:.0} – {most:.0}); p50 {:.1} ms, p99 {:.1} ms",
        middle.0, middle.1, middle.2
    ));
    let (rate, p50, p99) = one_session(&address);
    say(format!(
        "the last {} of {} posts to one session, {} connections: {rate:.0} in a second; p50 {p50:.1} ms, p99 {p99:.1} ms",
        BIG_POSTS / 8,
        BIG_POSTS,
        BIG_CONNECTIONS
    ));
    let (p50, p99) = lines(&address, &projects);
    say(format!("line written → event on the live feed, {LINES} lines: p50 {p50:.1} ms, p99 {p99:.1} ms"));
    let _ = Command::new("kill").arg(child.id().to_string()).status();
    let _ = child.wait();
}

fn start(folder: &Path) -> (Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_subscope"));
    command.args(["serve", "--listen", "127.0.0.1:0"]).env_clear().env("HOME", folder.join("home"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
    let mut url = String::new();
    let stdout = child.stdout.take().expect("stdout");
    BufReader::new(stdout).read_line(&mut url).expect("its address");
    (child, url.trim().trim_start_matches("http://").to_owned())
}

/// Returns posts in a second, and the median and 99th percentile of their latencies in milliseconds.
fn posts(address: &str, round: usize) -> (f64, f64, f64) {
    let began = clock::tick();
    let mut all: Vec<f64> = thread::scope(|scope| {
        let posters: Vec<_> = (0..CONNECTIONS)
            .map(|poster| scope.spawn(move || poster_posts(address, round, poster)))
            .collect();
        posters.into_iter().flat_map(|poster| poster.join().expect("a poster")).collect()
    });
    let took = began.elapsed().as_secs_f64();
    all.sort_by(f64::total_cmp);
    (all.len() as f64 / took, percentile(&all, 50), percentile(&all, 99))
}

/// Returns the same of the last eighth of posts to one session.
fn one_session(address: &str) -> (f64, f64, f64) {
    let mut all: Vec<(Instant, f64)> = thread::scope(|scope| {
        let posters: Vec<_> = (0..BIG_CONNECTIONS)
            .map(|poster| {
                scope.spawn(move || {
                    let mut stream = connect(address);
                    let call = |number: usize| {
                        let body = format!(
                            r#"{{"session_id":"big","hook_event_name":"PreToolUse","prompt_id":"p","tool_name":"Read","tool_use_id":"{poster}-{number}","tool_input":{{"file_path":"/x"}}}}"#
                        );
                        let took = post(&mut stream, address, "/hooks/claude", &body);
                        (clock::tick(), took)
                    };
                    (0..BIG_POSTS / BIG_CONNECTIONS).map(call).collect::<Vec<_>>()
                })
            })
            .collect();
        posters.into_iter().flat_map(|poster| poster.join().expect("a poster")).collect()
    });
    all.sort_by_key(|(at, _)| *at);
    let last = all.split_off(BIG_POSTS - BIG_POSTS / 8);
    let took = last[last.len() - 1].0.duration_since(last[0].0).as_secs_f64();
    let mut spans: Vec<f64> = last.iter().map(|(_, span)| *span).collect();
    spans.sort_by(f64::total_cmp);
    (last.len() as f64 / took, percentile(&spans, 50), percentile(&spans, 99))
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("a connection");
    stream.set_nodelay(true).expect("no delay");
    stream
}

/// Posts and returns how long the answer took, in milliseconds.
fn post(stream: &mut TcpStream, address: &str, path: &str, body: &str) -> f64 {
    let mut buffer = [0; 4096];
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let asked = clock::tick();
    stream.write_all(request.as_bytes()).expect("a post");
    let count = stream.read(&mut buffer).expect("an answer");
    assert!(buffer[..count].starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer[..count]));
    asked.elapsed().as_secs_f64() * 1000.0
}

fn poster_posts(address: &str, round: usize, poster: usize) -> Vec<f64> {
    let mut stream = connect(address);
    (0..POSTS)
        .map(|number| {
            let session = number / SESSION_POSTS;
            let (call, kind) = (number / 2, if number % 2 == 0 { "tool_call" } else { "tool_result" });
            let body = format!(
                r#"{{"subagentName":"worker","subagentRunId":"r{round}-{poster}-{session}","timestamp":{},"type":"{kind}","toolName":"grep","toolCallId":"c{call}","payload":{{"pattern":"needle","path":"src"}}}}"#,
                clock::now_ms()
            );
            post(&mut stream, address, "/subagent-events", &body)
        })
        .collect()
}

/// Returns the median and 99th percentile of the times from a written line to its event.
fn lines(address: &str, projects: &Path) -> (f64, f64) {
    const SESSION: &str = "5e551017-0000-4000-8000-000000000001";
    let line = |number: usize| {
        format!(
            r#"{{"type":"user","uuid":"u{number}","parentUuid":null,"sessionId":"{SESSION}","promptId":"p{number}","timestamp":"2026-11-22T00:00:00.000Z","version":"2.1.330","cwd":"/w","message":{{"role":"user","content":"needle-{number}-"}}}}"#
        ) + "\n"
    };
    let mut stream = TcpStream::connect(address).expect("a connection");
    write!(stream, "GET /api/v1/live HTTP/1.1\r\nhost: {address}\r\n\r\n").expect("a request");
    let (sender, seen) = sync_channel::<(usize, Instant)>(LINES + 1);
    let mut feed = BufReader::new(stream).lines().map_while(Result::ok);
    // What happens before the feed is open is in its snapshots, and no event of it.
    assert!(feed.any(|line| line == ": live"), "the feed ended");
    thread::spawn(move || {
        for line in feed {
            let number = line.contains("user.prompt").then(|| line.split("needle-").nth(1)).flatten();
            let number = number.and_then(|rest| rest.split('-').next()?.parse().ok());
            if number.is_some_and(|number| sender.send((number, clock::tick())).is_err()) {
                return;
            }
        }
    });
    let path = projects.join(format!("{SESSION}.jsonl"));
    let mut file = fs::File::create(&path).expect("a file");
    let mut all = Vec::new();
    for number in 0..=LINES {
        let written = clock::tick();
        file.write_all(line(number).as_bytes()).expect("a line");
        let limit = Duration::from_secs(10);
        let at = loop {
            let (found, at) = seen.recv_timeout(limit).expect("an event");
            if found == number {
                break at;
            }
        };
        // The first one also opens the file.
        if number > 0 {
            all.push(at.duration_since(written).as_secs_f64() * 1000.0);
        }
        thread::sleep(Duration::from_millis(10));
    }
    all.sort_by(f64::total_cmp);
    (percentile(&all, 50), percentile(&all, 99))
}

fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted.get(sorted.len() * percent / 100).or(sorted.last()).copied().unwrap_or_default()
}
