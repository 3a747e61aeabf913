//! How many sessions a team's server takes, whether faults lose or repeat any, and how fast queries are answered?
//!
//! `cargo xtask team [--developers N] [--days N]`. Developers' snapshots are made in this process; servers and engine are
//! real. 50 forwarders send at the same time, first through one server, then through two while one is killed and started
//! again and the engine is away for 10 s. Then every sum is compared. Then the rows are multiplied to 300,000 sessions
//! and 3,000,000 passages in the engine, and queries are measured. Budgets: 500 sessions/s through one server on two
//! cores; p50 of queries below 300 ms, p95 below 600 ms.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::expect_used)]

#[path = "../../tests/engine/mod.rs"]
mod engine;
mod latency;
mod made;

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use engine::ClickHouse;
use serde_json::Value;
use subscope_client::{
    Client, Remote,
    forward::{Backoff, Delivery, deliver},
};
use subscope_hub::clock;
use subscope_program::TokenRole;
use subscope_team::new_token;
use subscope_testkit::figures::{self, Row};

use made::{Developer, Made};

/// Forwarders that send at the same time.
const FORWARDERS: usize = 50;
/// Sessions of a request.
const BATCH: usize = 20;
/// How long the engine is away.
const ENGINE_AWAY: Duration = Duration::from_secs(10);

struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(clickhouse: &str, tokens: &Path, listen: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_subscope-team"))
            .args(["serve", "--clickhouse", clickhouse, "--listen", listen, "--token-file"])
            .arg(tokens)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { child, url: url.trim().to_owned() }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Numbers of a phase.
#[derive(Default)]
struct Counts {
    sent: AtomicU64,
    retried: AtomicU64,
    refused: AtomicU64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: usize| {
        let place = arguments.iter().position(|word| word == name);
        place.and_then(|place| arguments.get(place + 1)?.parse().ok()).unwrap_or(default)
    };
    let (developers, days) = (number("--developers", 1000), number("--days", 30));
    let Some(mut clickhouse) = ClickHouse::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens");
    let made = Made::new();
    let mut lines = String::new();
    let all: Vec<Developer> = (0..developers)
        .map(|number| {
            let (user, team) = (format!("user-{number:04}"), format!("team-{:02}", number % 25));
            let (token, line) = new_token("acme", &user, TokenRole::Writer, Some(&team)).unwrap();
            lines += &format!("{line}\n");
            Developer { number, token, team }
        })
        .collect();
    fs::write(&tokens, lines).unwrap();
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
    let first = Server::start(&clickhouse.url, &tokens, "127.0.0.1:0");
    let mut second = Server::start(&clickhouse.url, &tokens, "127.0.0.1:0");
    println!("{}", figures::HEAD);
    let question = format!(
        "{developers} developers send one session for each of {days} days, {FORWARDERS} at the same time, forwarders and \
         engine on the same cores"
    );
    let row = |figure: &str, value: f64, budget: Option<f64>, is_floor: bool| {
        let (question, figure) = (question.clone(), figure.to_owned());
        println!("{}", Row { question, figure, values: vec![value], unit: "", budget, is_floor }.markdown());
    };
    // The first fifth of the developers through one server.
    let (early, late) = all.split_at(developers / 5);
    let began = clock::tick();
    let counts = send(&made, early, days, &[first.url.as_str()], &mut || {});
    let (sent, seconds) = (counts.sent.load(Ordering::Relaxed), began.elapsed().as_secs_f64());
    row("stored in a second through one server", sent as f64 / seconds, Some(500.0), true);
    let urls = [first.url.clone(), second.url.clone()];
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let began = clock::tick();
    let counts = send(&made, late, days, &urls, &mut || {
        thread::sleep(Duration::from_secs(3));
        second.kill();
        thread::sleep(Duration::from_secs(1));
        let listen = second.url.strip_prefix("http://").unwrap().to_owned();
        second = Server::start(&clickhouse.url, &tokens, &listen);
        thread::sleep(Duration::from_secs(2));
        clickhouse.kill();
        thread::sleep(ENGINE_AWAY);
        clickhouse.restart();
    });
    let (sent, seconds) = (counts.sent.load(Ordering::Relaxed), began.elapsed().as_secs_f64());
    let through_two = format!(
        "in a second through two, one of them killed, the engine away for {} s",
        ENGINE_AWAY.as_secs()
    );
    row(&through_two, sent as f64 / seconds, None, true);
    row("requests sent again", counts.retried.load(Ordering::Relaxed) as f64, None, false);
    row("sessions refused", counts.refused.load(Ordering::Relaxed) as f64, Some(0.0), false);
    row(
        "sums by team and project that equal what was sent",
        compare(&made, &all, days, &first.url) as f64,
        None,
        true,
    );
    latency::measure(&clickhouse.url, &first.url, &all, developers * days);
}

/// Sends the sessions of developers; `faults` runs meanwhile.
fn send(
    made: &Made,
    developers: &[Developer],
    days: usize,
    urls: &[&str],
    faults: &mut (dyn FnMut() + Send),
) -> Counts {
    let (counts, next) = (Counts::default(), AtomicUsize::new(0));
    let problems = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for forwarder in 0..FORWARDERS {
            let (counts, next, problems) = (&counts, &next, &problems);
            scope.spawn(move || {
                while let Some(developer) = developers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let days: Vec<usize> = (0..days).collect();
                    for days in days.chunks(BATCH) {
                        let lines = made.lines(developer, days);
                        if let Err(error) = send_one(&lines, days.len(), developer, urls, forwarder, counts) {
                            problems.lock().unwrap().push(error);
                        }
                    }
                }
            });
        }
        scope.spawn(faults);
    });
    assert_eq!(*problems.lock().unwrap(), Vec::<String>::new());
    counts
}

fn send_one(
    lines: &[u8],
    sessions: usize,
    developer: &Developer,
    urls: &[&str],
    forwarder: usize,
    counts: &Counts,
) -> Result<(), String> {
    let mut backoff = Backoff::default();
    for attempt in 0.. {
        let url = urls[(forwarder + attempt) % urls.len()];
        let server = Remote::new(url, &developer.token).map_err(|error| error.to_string())?;
        match deliver(&server, lines).map_err(|error| error.to_string())? {
            Delivery::Stored(refused) => {
                counts.refused.fetch_add(refused.len() as u64, Ordering::Relaxed);
                counts.sent.fetch_add((sessions - refused.len()) as u64, Ordering::Relaxed);
                return Ok(());
            }
            Delivery::Again { after, .. } => {
                counts.retried.fetch_add(1, Ordering::Relaxed);
                thread::sleep(backoff.next(after));
            }
            Delivery::TooLarge => return Err("too large".to_owned()),
            Delivery::Forbidden(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Compares every sum by team and project with what was made; returns how many there are.
fn compare(made: &Made, developers: &[Developer], days: usize, url: &str) -> usize {
    let mut expected: BTreeMap<(String, String), made::Sums> = BTreeMap::new();
    for developer in developers {
        for day in 0..days {
            let key = (developer.team.clone(), made.project(developer, day));
            expected.entry(key).or_default().add(&made.sums(developer, day));
        }
    }
    let mut client = Client::of_team(Remote::new(url, &developers[0].token).unwrap());
    let answer: Value = client.get("/api/v1/stats?by=team,project&limit=100000").unwrap();
    let mut found = BTreeMap::new();
    for row in answer["rows"].as_array().unwrap() {
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        let sums = made::Sums {
            sessions: row["sessions"].as_u64().unwrap(),
            tool_calls: row["tool_calls"].as_u64().unwrap(),
            tokens: row["usage"]["total_tokens"].as_u64().unwrap(),
            cost_micro_usd: row["cost_micro_usd"].as_i64().unwrap(),
        };
        found.insert((text("team"), text("project")), sums);
    }
    assert_eq!(found, expected, "sums by team and project");
    expected.len()
}
