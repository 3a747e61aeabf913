//! The hub that commands start: which process becomes the hub, which commands query it, and when it exits. With the
//! real program.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "hub/budget.rs"]
mod budget;
mod common;
#[path = "hub/process_gone.rs"]
mod process_gone;
#[path = "hub/unresponsive.rs"]
mod unresponsive;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, sync_channel},
    },
    thread,
    time::Duration,
};

use common::{env, json, listed};
use serde_json::Value;
use subscope_hub::clock;
use subscope_model::{Zone, iso8601};
use subscope_testkit::{
    env::{Ran, TestEnv, run},
    fixtures::{self, Recording, recording},
};

/// Far more than any wait of these tests takes: a slow machine is no failure.
const LIMIT: Duration = Duration::from_secs(60);

/// An environment in which commands may start hubs; those that are left at the end are ended.
struct Hubs {
    env: TestEnv,
    idle: &'static str,
}

impl Hubs {
    fn new() -> Self {
        let env = env();
        // Not the first start on this machine, which prints more.
        fs::create_dir_all(env.path("data/subscope")).unwrap();
        Self { env, idle: "5m" }
    }

    fn command(&self, words: &str) -> Command {
        let mut command = self.env.command();
        command.args(words.split_whitespace()).env_remove("SUBSCOPE_NO_AUTOSTART");
        command.env("SUBSCOPE_HUB_LISTEN", "127.0.0.1:0").env("SUBSCOPE_HUB_IDLE", self.idle);
        command
    }

    fn run(&self, words: &str) -> Ran {
        let ran = run(self.command(words), b"");
        assert!(!ran.stderr.contains("panicked"), "{words}: {}", ran.stderr);
        ran
    }

    fn answer(&self, words: &str) -> Value {
        let ran = self.run(words);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{words}");
        json(&ran.stdout)
    }

    /// The hub's health; null if none runs.
    fn hub(&self) -> Value {
        let ran = self.env.run(&["status", "--json", "-q"]);
        json(&ran.success())["hub"].take()
    }

    fn pid(&self) -> u64 {
        let hub = self.hub();
        hub["pid"].as_u64().unwrap_or_else(|| panic!("no hub runs: {hub}\n{}", self.log()))
    }

    fn socket(&self) -> PathBuf {
        self.env.path("data/subscope/hub.sock")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.env.path("state/subscope/hub.log")).unwrap_or_default()
    }

    /// How many hubs have begun so far.
    fn begun(&self) -> usize {
        self.log().lines().filter(|line| line.contains(" answers on ")).count()
    }

    /// Hubs that run on this environment's store, as the system has them.
    fn processes(&self) -> Vec<u64> {
        let listed = Command::new("ps").args(["-ww", "-eo", "pid=,args="]).output().unwrap().stdout;
        let store = self.env.root().to_string_lossy().into_owned();
        let lines = String::from_utf8_lossy(&listed).into_owned();
        let own = lines.lines().filter(|line| line.contains("--background") && line.contains(&store));
        own.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
    }
}

impl Drop for Hubs {
    fn drop(&mut self) {
        for pid in self.processes() {
            kill(pid);
        }
    }
}

fn kill(pid: u64) {
    signal("-KILL", pid);
}

fn signal(name: &str, pid: u64) {
    // It may have ended meanwhile.
    let _ = Command::new("kill").args([name, &pid.to_string()]).stderr(Stdio::null()).status();
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = clock::tick();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// An environment with a session that has ended.
fn filled() -> (Hubs, Recording) {
    let (hubs, recording) = (Hubs::new(), recording("2.1.330", "c-nested"));
    hubs.env.adopt(&recording);
    (hubs, recording)
}

/// A running command with its output.
struct Going {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    errors: Option<thread::JoinHandle<String>>,
}

impl Going {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = sync_channel(1 << 16);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            stdout.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        let errors = child.stderr.take().unwrap();
        let errors = thread::spawn(move || std::io::read_to_string(errors).unwrap_or_default());
        Self { child, lines, seen: Vec::new(), errors: Some(errors) }
    }

    /// Reads until a line for which this holds has come.
    fn until(&mut self, is_it: impl Fn(&str) -> bool) {
        let began = clock::tick();
        while !self.seen.iter().any(|line| is_it(line)) {
            assert!(began.elapsed() < LIMIT, "not among {} lines: {:?}", self.seen.len(), self.seen.last());
            if let Ok(line) = self.lines.recv_timeout(Duration::from_millis(50)) {
                self.seen.push(line);
            }
        }
    }

    fn end(mut self) -> String {
        assert_eq!(self.child.try_wait().unwrap(), None, "it ended by itself");
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let errors = self.errors.take().unwrap().join().unwrap();
        assert!(!errors.contains("panicked"), "{errors}");
        errors
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        // It has ended already where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn of_many_commands_at_once_one_starts_the_hub_and_all_are_answered() {
    let (hubs, _) = filled();
    let answers: Vec<Ran> = thread::scope(|scope| {
        let asking: Vec<_> = (0..6).map(|_| scope.spawn(|| hubs.run("stats --json"))).collect();
        asking.into_iter().map(|one| one.join().unwrap()).collect()
    });
    // A command that gets no answer in time reads the store, says so, and exits with 0.
    for ran in &answers {
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    }
    assert_eq!(hubs.begun(), 1, "{}", hubs.log());
    // A process that found the store taken ends.
    let began = clock::tick();
    while hubs.processes() != [hubs.pid()] {
        assert!(began.elapsed() < LIMIT, "{:?}: {}", hubs.processes(), hubs.log());
        thread::sleep(Duration::from_millis(20));
    }
    let hub = hubs.hub();
    assert_eq!((&hub["mode"], &hub["version"]), (&"background".into(), &env!("CARGO_PKG_VERSION").into()));
    // The same questions without a hub have the same answers.
    let id = json(&hubs.run("ls --json").success())["sessions"][0]["id"].as_str().unwrap().to_owned();
    let show = format!("show {id}/root --json");
    let asked = ["ls --json", "stats --json", "search the --json", &show, "ls --live --json"];
    // Rows are saved a second after they are shown: when, is another matter.
    let by_hub = asked.map(|words| unresponsive::content(&hubs.run(words).stdout));
    assert_eq!(hubs.begun(), 1);
    let ended = hubs.run("serve --stop");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), "the hub has left\n"));
    assert_eq!((hubs.hub(), hubs.processes()), (Value::Null, Vec::new()));
    assert!(!hubs.socket().exists());
    assert_eq!(hubs.run("serve --stop").code, Some(1), "none runs");
    let by_store = |words: &str| hubs.env.run(&words.split(' ').collect::<Vec<_>>()).stdout;
    assert_eq!(by_hub, asked.map(|words| unresponsive::content(&by_store(words))));
}

/// A recorded session that comes to where the harness keeps it line by line, as if it happened now: the times of its
/// lines, their files, and what they say.
struct Growing(Vec<(String, PathBuf, String)>);

impl Growing {
    /// The lines of all of a session's files by their times.
    fn of(env: &TestEnv, recording: &Recording) -> Self {
        let mut lines = Vec::new();
        for file in recording.conversation() {
            let relative = file.strip_prefix(recording.projects()).unwrap().to_owned();
            let path = env.home().join(".claude/projects").join(relative);
            let text = String::from_utf8(fixtures::bytes(&file)).unwrap();
            if path.extension().is_some_and(|it| it == "json") {
                // What a harness writes in one piece.
                lines.push((String::new(), path, text));
                continue;
            }
            let mut last = String::new();
            for line in text.lines() {
                last = json(line)["timestamp"].as_str().unwrap_or(&last).to_owned();
                lines.push((last.clone(), path.clone(), format!("{line}\n")));
            }
        }
        lines.sort_by(|one, other| one.0.cmp(&other.0));
        Self(lines)
    }

    /// Returns a line as if it were written now, and where it stands.
    fn now((at, path, line): (String, PathBuf, String)) -> (PathBuf, String) {
        let stamp = |at: &str| format!("\"timestamp\":\"{at}\"");
        let line = line.replace(&stamp(&at), &stamp(&iso8601(clock::now_ms())));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        (path, line)
    }

    /// Writes all further lines, those of each file in one piece: none of it is read without the rest.
    fn write_whole_files(&mut self, env: &TestEnv) {
        let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
        for (path, line) in self.0.drain(..).map(Self::now) {
            files.entry(path).or_default().push_str(&line);
        }
        for (path, text) in files {
            let written = env.home().join("written");
            fs::write(&written, fs::read_to_string(&path).unwrap_or_default() + &text).unwrap();
            fs::rename(written, path).unwrap();
        }
    }

    /// Writes that many further lines.
    fn write(&mut self, count: usize) {
        for (path, line) in self.0.drain(..count.min(self.0.len())).map(Self::now) {
            let file = fs::OpenOptions::new().create(true).append(true).open(path);
            file.unwrap().write_all(line.as_bytes()).unwrap();
        }
    }
}

#[test]
fn watch_goes_on_without_gap_or_repeat_when_the_hub_is_killed() {
    let (hubs, recording) = (Hubs::new(), recording("2.1.330", "k-big"));
    fs::create_dir_all(hubs.env.home().join(".claude/projects")).unwrap();
    let mut growing = Growing::of(&hubs.env, &recording);
    let total = growing.0.len();
    let mut watching = Going::start(hubs.command("watch --json"));
    until("the hub answers", || hubs.socket().exists());
    // The watcher must be connected before anything happens: it gets no earlier events.
    until("the watcher is there", || {
        hubs.env.run(&["status", "--json"]).code == Some(0) && readers(&hubs) > 0
    });
    let rounds = 4;
    for round in 0..rounds {
        growing.write(total / (rounds * 2));
        if round == 0 {
            // The first hub publishes nothing that is older than its store, as recorded lines are: wait for events only here.
            watching.until(|line| line.contains("\"kind\":"));
        }
        thread::sleep(Duration::from_millis(40 * round as u64));
        let pid = hubs.processes();
        pid.iter().copied().for_each(kill);
        until("it is dead", || hubs.processes().iter().all(|now| !pid.contains(now)));
        // Events that happen while no hub runs are published later.
        growing.write(total / (rounds * 2));
        until("another begins", || hubs.begun() > round + 1);
    }
    growing.write(total);
    let truth = recording.truth();
    let main = "\"kind\":\"run.end\"";
    watching.until(|line| line.contains(main));
    let exported = hubs.env.run(&["export", "--as", "feed", &truth.session.id]).success();
    let id = |line: &str| json(line)["id"].as_str().unwrap().to_owned();
    let kinds = [
        "tool.pre",
        "tool.post",
        "tool.failure",
        "user.prompt",
        "agent.message",
        "subagent.start",
        "subagent.stop",
    ];
    let counts = |line: &&str| kinds.iter().any(|kind| json(line)["kind"] == *kind);
    let wanted: BTreeSet<String> = exported.lines().filter(counts).map(id).collect();
    let told = |watching: &Going| -> Vec<String> {
        let lines = watching.seen.iter().map(String::as_str);
        lines.filter(counts).map(id).collect()
    };
    let began = clock::tick();
    while told(&watching).iter().collect::<BTreeSet<_>>().len() < wanted.len() && began.elapsed() < LIMIT {
        if let Ok(line) = watching.lines.recv_timeout(Duration::from_millis(50)) {
            watching.seen.push(line);
        }
    }
    let told = told(&watching);
    let kind_of = |id: &String| exported.lines().find(|line| line.contains(id.as_str())).unwrap_or_default();
    let missing: Vec<&str> = wanted.iter().filter(|id| !told.contains(id)).map(kind_of).collect();
    assert!(missing.is_empty(), "{} of {} are missing: {missing:#?}", missing.len(), wanted.len());
    let distinct: BTreeSet<&String> = told.iter().collect();
    assert_eq!(distinct.len(), told.len(), "something was told twice");
    let unknown: Vec<&String> = told.iter().filter(|id| !wanted.contains(*id)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    watching.end();
}

/// How many live feeds the hub has open.
fn readers(hubs: &Hubs) -> u64 {
    let Ok(mut stream) = UnixStream::connect(hubs.socket()) else { return 0 };
    let request = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut text = String::new();
    let asked = stream.write_all(request).and_then(|()| stream.read_to_string(&mut text));
    let line = text.lines().find_map(|line| line.strip_prefix("subscope_readers "));
    asked.ok().and_then(|_| line?.parse().ok()).unwrap_or(0)
}

#[test]
fn hub_leaves_when_nobody_needs_it_and_the_next_command_starts_another() {
    let (mut hubs, _) = filled();
    hubs.idle = "1s";
    hubs.answer("stats --json");
    let watching = Going::start(hubs.command("watch --json"));
    until("the watcher is there", || readers(&hubs) > 0);
    thread::sleep(Duration::from_millis(2500));
    assert_eq!((hubs.begun(), hubs.processes().len()), (1, 1), "a reader needs it");
    watching.end();
    until("it leaves", || hubs.processes().is_empty());
    assert!(!hubs.socket().exists());
    assert!(hubs.log().lines().last().unwrap().ends_with(" leaves"), "{}", hubs.log());
    hubs.answer("stats --json");
    assert_eq!(hubs.begun(), 2);
}

#[test]
fn index_and_forget_write_the_store_that_a_hub_has_had() {
    let (hubs, recording) = filled();
    assert_eq!(hubs.answer("ls --json")["sessions"].as_array().unwrap().len(), 1);
    assert_eq!(hubs.answer("index --json")["schema"], "subscope.index/1");
    assert_eq!(hubs.processes(), Vec::<u64>::new(), "it has left");
    assert_eq!(hubs.answer("ls --json")["sessions"].as_array().unwrap().len(), 1);
    let session = recording.truth().session.id.clone();
    assert_eq!(hubs.run(&format!("forget {session}")).stdout, "1 session forgotten\n");
    // It does not end a hub that the user started.
    let mut serving = hubs.command("serve --listen 127.0.0.1:0");
    serving.env("SUBSCOPE_NO_AUTOSTART", "1");
    let mut serving = Going::start(serving);
    serving.until(|line| line.starts_with("http://127.0.0.1:"));
    let handed = hubs.run("index");
    assert_eq!((handed.code, handed.stderr.as_str()), (Some(0), ""));
    assert!(handed.stdout.contains("the hub that runs"), "{}", handed.stdout);
    let refused = hubs.run("forget last");
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("subscope serve --stop"), "{}", refused.stderr);
    assert_eq!(hubs.hub()["mode"], "foreground");
    // A person who starts one beside it learns both ways out.
    let second = hubs.run("serve --listen 127.0.0.1:0");
    assert_eq!(second.code, Some(1));
    for way in
        ["another hub runs", "`subscope serve --open` shows its page", "`subscope serve --stop` ends it"]
    {
        assert!(second.stderr.contains(way), "{}", second.stderr);
    }
    assert_eq!(hubs.run("serve --stop").code, Some(0));
    until("it ends", || serving.child.try_wait().unwrap().is_some());
    assert_eq!(hubs.begun(), 2, "nobody started one beside it");
}

/// Starts `serve` and returns it with its URL.
fn serving(hubs: &Hubs, words: &str) -> (Going, String) {
    let mut serving = Going::start(hubs.command(words));
    serving.until(|line| line.starts_with("http://127.0.0.1:"));
    let url = serving.seen.last().unwrap().clone();
    (serving, url)
}

#[test]
fn a_page_finds_its_hub_again_whatever_starts_the_next_one() {
    let (hubs, _) = filled();
    let (killed, url) = serving(&hubs, "serve --listen 127.0.0.1:0");
    kill(killed.child.id().into());
    until("it is gone", || hubs.hub().is_null());
    let background = |why: &str| {
        hubs.answer("ls --json");
        let hub = hubs.hub();
        assert_eq!((&hub["mode"], &hub["url"]), (&"background".into(), &url.as_str().into()), "{why}");
    };
    background("a command started it");
    kill(hubs.pid());
    background("another command started another");
    // A hub that a person starts replaces it where it is.
    let (ended, taken) = serving(&hubs, "serve");
    assert_eq!((taken.as_str(), hubs.hub()["mode"].as_str()), (url.as_str(), Some("foreground")));
    assert_eq!(hubs.processes(), Vec::<u64>::new());
    ended.end();
    background("the one in the foreground has ended");
    // Commands that start another one meanwhile do not keep it from its place.
    let (is_over, began) = (AtomicBool::new(false), clock::tick());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) && began.elapsed() < LIMIT {
                    hubs.run("ls --json");
                }
            });
        }
        let (among_many, taken) = serving(&hubs, "serve");
        is_over.store(true, Ordering::Relaxed);
        assert_eq!((taken.as_str(), hubs.hub()["mode"].as_str()), (url.as_str(), Some("foreground")));
        among_many.end();
    });
    background("the one among many has ended");
    // What is taken by another program is not waited for, and an address that the user gives counts.
    kill(hubs.pid());
    let (moved, elsewhere) = serving(&hubs, "serve --listen 127.0.0.1:0");
    assert_ne!(elsewhere, url);
    kill(moved.child.id().into());
    until("it is gone", || hubs.hub().is_null());
    let address = elsewhere.strip_prefix("http://").unwrap();
    let other = std::net::TcpListener::bind(address).unwrap();
    hubs.answer("ls --json");
    assert_ne!(hubs.hub()["url"], elsewhere);
    kill(hubs.pid());
    drop(other);
    hubs.answer("ls --json");
    assert_eq!(hubs.hub()["url"], elsewhere);
}

#[test]
fn without_autostart_nothing_is_started_and_watch_answers_meanwhile() {
    let (hubs, _) = filled();
    for words in ["ls", "stats", "status", "search the"] {
        let ran = hubs.env.run(&words.split(' ').collect::<Vec<_>>());
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{words}");
    }
    assert_eq!((hubs.hub(), hubs.log().as_str()), (Value::Null, ""));
    let mut watching = hubs.command("watch --json");
    watching.env("SUBSCOPE_NO_AUTOSTART", "1");
    let mut watching = Going::start(watching);
    until("it answers on the socket", || hubs.hub()["mode"] == "command");
    assert_eq!(hubs.pid(), u64::from(watching.child.id()));
    // Other commands query it, and hooks post to it.
    let hook = r#"{"session_id":"s","hook_event_name":"PreToolUse","prompt_id":"p","tool_name":"Read","tool_use_id":"t","tool_input":{}}"#;
    assert_eq!(hubs.env.run_with_stdin(&["hook"], hook.as_bytes()).code, Some(0));
    let rows = listed(json(&hubs.env.run(&["ls", "--json"]).success()));
    assert_eq!(rows.len(), 2);
    // Ctrl-C ends both, in order.
    signal("-INT", hubs.pid());
    until("it ends", || watching.child.try_wait().unwrap().is_some());
    assert_eq!(watching.child.wait().unwrap().code(), Some(130));
    assert!(!hubs.socket().exists());
    assert_eq!(listed(json(&hubs.env.run(&["ls", "--json"]).success())), rows);
    assert_eq!((hubs.hub(), hubs.log().as_str()), (Value::Null, ""));
}

#[test]
fn first_hub_is_announced_and_doctor_always_names_it() {
    let (hubs, _) = filled();
    assert!(hubs.run("doctor").stdout.contains("none runs; commands start one"));
    fs::remove_dir_all(hubs.env.path("data/subscope")).unwrap();
    let first = hubs.run("ls");
    assert!(first.stderr.starts_with("started a background hub"), "{}", first.stderr);
    assert_eq!(hubs.run("ls").stderr, "");
    let doctor = hubs.run("doctor").stdout;
    assert!(doctor.contains(&format!("process {} in the background", hubs.pid())), "{doctor}");
    // A hub whose socket is gone still locks the store, and cannot be asked.
    fs::remove_file(hubs.env.path("data/subscope/hub.sock")).unwrap();
    let doctor = hubs.run("doctor");
    assert!(doctor.code == Some(1) && doctor.stdout.contains("does not answer at"), "{}", doctor.stdout);
}

#[test]
fn store_that_is_written_for_a_moment_is_waited_for_by_a_command_that_needs_it_alone() {
    let (hubs, _) = filled();
    hubs.env.run(&["index"]).success();
    let lock = fs::File::open(hubs.env.path("data/subscope/store.lock")).unwrap();
    lock.lock().unwrap();
    std::thread::scope(|scope| {
        // As a hub that starts and leaves again, before it answers.
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(500));
            lock.unlock().unwrap();
        });
        let ran = hubs.env.run(&["index"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    });
}

#[test]
fn locked_store_that_nobody_answers_for_is_gone_without() {
    let (hubs, recording) = filled();
    let committed = hubs.env.run(&["ls", "--json"]).success();
    let lock = fs::File::open(hubs.env.path("data/subscope/store.lock")).unwrap();
    lock.lock().unwrap();
    for autostart in [false, true] {
        let mut command = hubs.command("ls --json");
        if !autostart {
            command.env("SUBSCOPE_NO_AUTOSTART", "1");
        }
        let ran = run(command, b"");
        assert_eq!((ran.code, &ran.stdout), (Some(0), &committed));
        assert!(
            ran.stderr.contains("another process writes the store in ") && ran.stderr.lines().count() == 1
        );
    }
    let mut watching = Going::start(hubs.command("watch --json"));
    let main =
        recording.conversation().into_iter().find(|path| path.extension().is_some_and(|it| it == "jsonl"));
    let name = main.unwrap().strip_prefix(recording.projects()).unwrap().to_owned();
    let file = hubs.env.home().join(".claude/projects").join(name);
    let at = clock::now_ms();
    let mut number = 0;
    let began = clock::tick();
    while watching.seen.is_empty() {
        assert!(began.elapsed() < LIMIT, "nothing is told");
        number += 1;
        let line = format!(
            r#"{{"type":"user","uuid":"00000000-0000-4000-8000-{number:012}","sessionId":"{}","timestamp":{at},"promptId":"p{number}","message":{{"role":"user","content":"Go on {number}."}}}}"#,
            recording.truth().session.id
        );
        let mut file = fs::OpenOptions::new().append(true).open(&file).unwrap();
        writeln!(file, "{line}").unwrap();
        if let Ok(line) = watching.lines.recv_timeout(Duration::from_millis(300)) {
            watching.seen.push(line);
        }
    }
    let errors = watching.end();
    assert!(errors.contains("going on without it, nothing is kept"), "{errors}");
    assert_eq!(hubs.processes(), Vec::<u64>::new());
}

/// A fake hub that reports another version.
struct Another {
    asked: Arc<Mutex<Vec<String>>>,
}

impl Another {
    /// Answers on the socket until it is asked to exit.
    fn start(hubs: &Hubs, health: Value) -> Self {
        let folder = hubs.socket().parent().unwrap().to_owned();
        fs::create_dir_all(&folder).unwrap();
        let (socket, listener) = (hubs.socket(), UnixListener::bind(hubs.socket()).unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(stream);
                loop {
                    let (mut line, mut head) = (String::new(), String::new());
                    while reader.read_line(&mut line).unwrap_or(0) > 2 {
                        head += &std::mem::take(&mut line);
                    }
                    let Some(first) = head.lines().next() else { break };
                    let first = first.trim_end_matches(" HTTP/1.1").to_owned();
                    let body = match first.split('?').next().unwrap_or_default() {
                        "GET /healthz" => health.to_string(),
                        "GET /api/v1/stats" => r#"{"schema":"subscope.stats/1","total":{"name":"another","sessions":7,"agents":0,"tool_calls":0,"tool_errors":0,"tools_denied":0,"busy_ms":0,"usage":{},"cost_micro_usd":0},"by_type":[],"by_tool":[],"by_model":[],"by_day":[]}"#.to_owned(),
                        _ => "{}".to_owned(),
                    };
                    told.lock().unwrap().push(first.clone());
                    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                    if reader.get_mut().write_all(answer.as_bytes()).is_err() {
                        break;
                    }
                    if first == "POST /api/v1/drain" {
                        let _ = fs::remove_file(&socket);
                        return;
                    }
                }
            }
        });
        Self { asked }
    }

    fn was_asked_to_leave(&self) -> bool {
        self.asked.lock().unwrap().iter().any(|first| first == "POST /api/v1/drain")
    }
}

fn health(version: &str, protocol: u32, oldest: u32, mode: &str) -> Value {
    serde_json::json!({
        "status": "ok", "version": version, "protocol": protocol, "oldest_protocol": oldest, "mode": mode, "pid": 1
    })
}

#[test]
fn older_hub_in_the_background_is_asked_to_leave() {
    let (hubs, _) = filled();
    let another = Another::start(&hubs, health("0.0.9", 1, 1, "background"));
    assert_eq!(hubs.answer("stats --json")["total"]["sessions"], 1);
    assert!(another.was_asked_to_leave());
    assert_eq!((hubs.begun(), hubs.hub()["version"].as_str()), (1, Some(env!("CARGO_PKG_VERSION"))));
}

#[test]
fn older_hub_that_somebody_started_is_asked_as_it_is() {
    let (hubs, _) = filled();
    let another = Another::start(&hubs, health("0.0.9", 1, 1, "foreground"));
    assert_eq!(hubs.answer("stats --json")["total"]["sessions"], 7);
    assert!(!another.was_asked_to_leave());
}

#[test]
fn newer_hub_is_asked_as_long_as_it_is_understood() {
    let (hubs, _) = filled();
    let another = Another::start(&hubs, health("99.0.0", 9, 1, "background"));
    assert_eq!(hubs.answer("stats --json")["total"]["sessions"], 7);
    assert!(!another.was_asked_to_leave());
    fs::remove_file(hubs.socket()).unwrap();
    let another = Another::start(&hubs, health("99.0.0", 9, 9, "background"));
    let ran = hubs.run("stats --json");
    assert_eq!((ran.code, json(&ran.stdout)["total"]["sessions"].as_u64()), (Some(0), Some(1)));
    assert!(ran.stderr.contains("version 99.0.0") && ran.stderr.contains("without a hub"), "{}", ran.stderr);
    assert!(!another.was_asked_to_leave());
    assert_eq!(hubs.begun(), 0);
}
