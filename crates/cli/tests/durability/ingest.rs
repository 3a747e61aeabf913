//! Concurrent ingestion by every route while the server is killed repeatedly.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use serde_json::Value;
use subscope_hub::clock;
use subscope_testkit::{env::TestEnv, fixtures::recording};

use crate::{
    common::{
        env,
        serving::{LIMIT, Serving, posting},
    },
    kept::{data, is_whole},
    kill_within, random, rounds,
};

/// Route of ingestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// A hook's payload by TCP.
    Tcp,
    /// The same by the Unix socket.
    Socket,
    /// Lines of a dialect, five at once.
    Lines,
    /// An event about a program's own subagent.
    Event,
    /// A process of `subscope hook`, with its payload ingested or spooled.
    Hook,
}

/// Concurrent clients.
const POSTERS: [Way; 12] = [
    Way::Tcp,
    Way::Tcp,
    Way::Tcp,
    Way::Socket,
    Way::Socket,
    Way::Lines,
    Way::Lines,
    Way::Event,
    Way::Event,
    Way::Event,
    Way::Hook,
    Way::Hook,
];

/// How many lines one [`Way::Lines`] has.
const LINES: usize = 5;

/// An ingested item.
#[derive(Clone, Debug)]
struct Sent {
    way: Way,
    round: u64,
    /// Unlike any other.
    name: String,
    is_acknowledged: bool,
}

impl Sent {
    fn body(&self) -> String {
        let Self { name, round, .. } = self;
        let call = |name: &str| {
            format!(
                r#"{{"session_id":"s{round}","hook_event_name":"PreToolUse","prompt_id":"p","tool_name":"Read","tool_use_id":"{name}","tool_input":{{"file_path":"/x"}}}}"#
            )
        };
        match self.way {
            // Its content has no key: only its delivery id distinguishes it.
            Way::Tcp | Way::Hook if name.ends_with(['0', '5']) => {
                format!(r#"{{"session_id":"s{round}","hook_event_name":"SessionStart","source":"{name}"}}"#)
            }
            Way::Tcp | Way::Socket | Way::Hook => call(name),
            Way::Lines => (0..LINES).map(|line| call(&format!("{name}.{line}")) + "\n").collect(),
            Way::Event => format!(
                r#"{{"subagentName":"w","subagentRunId":"r{round}","timestamp":1795293690000,"type":"tool_call","toolName":"grep","toolCallId":"{name}","sessionId":"s{round}"}}"#
            ),
        }
    }

    /// The names that its events have.
    fn names(&self) -> Vec<String> {
        match self.way {
            Way::Lines => (0..LINES).map(|line| format!("{}.{line}", self.name)).collect(),
            Way::Tcp | Way::Socket | Way::Event | Way::Hook => vec![self.name.clone()],
        }
    }
}

/// Addresses for ingestion.
struct Ingress<'a> {
    env: &'a TestEnv,
    address: String,
    socket: PathBuf,
}

impl Ingress<'_> {
    /// Ingests it and returns whether it was acknowledged.
    fn send(&self, sent: &Sent) -> bool {
        let path = match sent.way {
            Way::Tcp | Way::Socket => "/hooks/claude",
            Way::Lines => "/api/v1/ingest/claude.hook?source=lines",
            Way::Event => "/subagent-events",
            Way::Hook => {
                let ran = self.env.run_with_stdin(&["hook"], sent.body().as_bytes());
                assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
                return true;
            }
        };
        let delivery = format!("x-subscope-delivery: {}\r\n", sent.name);
        let request = posting(&self.address, path, &delivery, sent.body().as_bytes());
        if sent.way == Way::Socket {
            UnixStream::connect(&self.socket).is_ok_and(|stream| is_taken(stream, &request))
        } else {
            TcpStream::connect(&self.address).is_ok_and(|stream| is_taken(stream, &request))
        }
    }
}

/// Whether the answer came whole, and was that it is kept.
pub(crate) fn is_taken(mut stream: impl Read + Write, request: &[u8]) -> bool {
    let mut answer = String::new();
    let _ = stream.write_all(request).and_then(|()| stream.read_to_string(&mut answer));
    answer.starts_with("HTTP/1.1 200") && answer.contains("\r\n\r\n")
}

/// Ingests by all routes until the server is killed, some time after its start.
fn round(number: u64, ingress: &Ingress<'_>, kill: impl FnOnce()) -> Vec<Sent> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let posters: Vec<_> = POSTERS
            .iter()
            .enumerate()
            .map(|(poster, way)| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut all: Vec<Sent> = Vec::new();
                    for count in 0.. {
                        let name = format!("{number}-{poster}-{count}");
                        let mut sent = Sent { way: *way, round: number, name, is_acknowledged: false };
                        // A hook that begins after the kill finds no hub.
                        let is_last = is_over.load(Ordering::SeqCst);
                        sent.is_acknowledged = ingress.send(&sent);
                        let is_last = is_last || !sent.is_acknowledged;
                        all.push(sent);
                        if is_last {
                            break;
                        }
                    }
                    all
                })
            })
            .collect();
        kill();
        is_over.store(true, Ordering::SeqCst);
        posters.into_iter().flat_map(|poster| poster.join().unwrap()).collect()
    })
}

/// How often each name is in the log of a session.
fn logged(serving: &Serving, round: u64) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let mut after = 0;
    loop {
        let path = format!("/api/v1/sessions/s{round}/events?limit=10000&after={after}");
        let (status, body) = serving.get(&path);
        if status == 404 {
            return found;
        }
        let page: Value = serde_json::from_str(&body).unwrap();
        // Events that subscope derives from rows (the start of a session) have no poster.
        for event in page["events"].as_array().unwrap().iter().filter(|it| it["source"] != "subscope") {
            let name = match event["kind"].as_str().unwrap() {
                "tool.pre" => &event["data"]["tool_use_id"],
                "session.start" => &event["data"]["reason"],
                _ => continue,
            };
            *found.entry(name.as_str().unwrap_or_else(|| panic!("{event}")).to_owned()).or_default() += 1;
        }
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => return found,
        }
    }
}

/// Every acknowledged item is stored exactly once.
fn is_there_once(serving: &Serving, sent: &[Sent], round: u64) {
    let expected: Vec<String> = sent
        .iter()
        .filter(|sent| sent.round == round && sent.is_acknowledged)
        .flat_map(Sent::names)
        .collect();
    // The hub ingests what hooks spooled within a second or two.
    let began = clock::tick();
    let found = loop {
        let found = logged(serving, round);
        let missing: Vec<&String> = expected.iter().filter(|name| !found.contains_key(*name)).collect();
        if missing.is_empty() {
            break found;
        }
        assert!(began.elapsed() < LIMIT, "lost in round {round}: {missing:?}");
        thread::sleep(Duration::from_millis(50));
    };
    let twice: Vec<_> = found.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "twice in round {round}: {twice:?}");
    let known: Vec<String> = sent.iter().filter(|sent| sent.round == round).flat_map(Sent::names).collect();
    assert!(found.keys().all(|name| known.contains(name)), "nobody handed that over");
    if expected.is_empty() {
        return;
    }
    let tree = serving.tree(&format!("s{round}")).unwrap();
    let mut calls: Vec<&str> = tree["agents"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|agent| agent["tools"].as_array().unwrap())
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    calls.sort_unstable();
    let starts: Vec<String> = sent
        .iter()
        .filter(|sent| sent.round == round && sent.body().contains("SessionStart"))
        .map(|sent| sent.name.clone())
        .collect();
    let logged: Vec<&str> = found.keys().filter(|name| !starts.contains(name)).map(String::as_str).collect();
    assert_eq!(calls, logged, "the rows have what the log has");
}

/// A server that is killed before it says that it answers.
fn start_and_kill(env: &TestEnv, random: &mut subscope_testkit::random::Random) {
    let mut command = env.command();
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child: Child = command.spawn().unwrap();
    kill_within(&mut child, Duration::from_millis(80), random);
    is_whole(&data(env));
}

#[test]
fn what_was_acknowledged_survives_any_kill_and_is_there_once() {
    let env = env();
    let mut random = random();
    // Files are followed, and their full text is filled, at the same time.
    env.adopt(&recording("2.1.330", "c-nested"));
    env.adopt(&recording("2.1.330", "k-big"));
    let mut sent: Vec<Sent> = Vec::new();
    let (mut kills, mut again) = (0, 0);
    let rounds = rounds(12);
    for number in 0..rounds {
        if random.below(4) == 0 {
            start_and_kill(&env, &mut random);
            kills += 1;
        }
        let mut serving = Serving::start(&env, "");
        if let Some(before) = number.checked_sub(1) {
            is_there_once(&serving, &sent, before);
        }
        let ingress =
            Ingress { env: &env, address: serving.address.clone(), socket: data(&env).join("hub.sock") };
        // Unacknowledged input is sent again under its name; some of it may be stored.
        for one in sent.iter_mut().filter(|one| !one.is_acknowledged) {
            one.is_acknowledged = ingress.send(one);
            assert!(one.is_acknowledged, "{one:?}");
            again += 1;
        }
        let kill = || assert!(kill_within(&mut serving.child, Duration::from_millis(500), &mut random));
        sent.extend(round(number, &ingress, kill));
        kills += 1;
        is_whole(&data(&env));
    }
    let serving = Serving::start(&env, "");
    for number in 0..rounds {
        is_there_once(&serving, &sent, number);
    }
    serving.end("-TERM");
    is_whole(&data(&env));
    let acknowledged = sent.iter().filter(|one| one.is_acknowledged).count();
    assert!(acknowledged > rounds as usize * 10, "{acknowledged} in {rounds} rounds");
    println!(
        "{kills} kills while handing over: {acknowledged} acknowledged, each there once; {again} came again; 0 lost; every store whole"
    );
}
