//! A hub that accepts connections and does not answer: hooks spool at once, commands report it and read the store.

use std::{
    fs::OpenOptions,
    os::unix::fs::PermissionsExt,
    sync::atomic::{AtomicUsize, Ordering},
    time::SystemTime,
};

use subscope_store::{Access, ListQuery, SessionQueries, SqliteStore};

use super::*;
use crate::common::serving::Serving;

/// A payload of a hook, of a session of its own.
fn payload(session: &str) -> String {
    format!(
        r#"{{"hook_event_name":"UserPromptSubmit","session_id":"{session}","cwd":"/w","prompt":"asks {session}"}}"#
    )
}

fn hook(env: &TestEnv, session: &str) {
    let ran = env.run_with_stdin(&["hook"], payload(session).as_bytes());
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
}

fn spooled(env: &TestEnv) -> usize {
    fs::read_dir(env.path("data/subscope/spool")).map_or(0, Iterator::count)
}

fn breaker(env: &TestEnv) -> PathBuf {
    env.path("data/subscope/hub.unresponsive")
}

/// A program on the hub's socket that counts connections, and sends a given answer, if any.
fn listen(env: &TestEnv, answer: Option<&'static str>) -> Arc<AtomicUsize> {
    let socket = env.path("data/subscope/hub.sock");
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    let connected = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connected);
    thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming().map_while(Result::ok) {
            counter.fetch_add(1, Ordering::SeqCst);
            match answer {
                Some(answer) => {
                    let mut stream = stream;
                    let mut request = [0; 1 << 16];
                    assert!(stream.read(&mut request).unwrap() > 0);
                    stream.write_all(answer.as_bytes()).unwrap();
                }
                None => silent.push(stream),
            }
        }
    });
    connected
}

fn age(breaker: &Path) {
    let file = OpenOptions::new().write(true).open(breaker).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
}

#[test]
fn one_hook_waits_for_a_hub_that_hangs_and_the_next_ones_do_not_even_connect() {
    let env = env();
    let connected = listen(&env, None);
    hook(&env, "s0");
    assert_eq!((connected.load(Ordering::SeqCst), spooled(&env)), (1, 1));
    let mode = fs::metadata(breaker(&env)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    (1..6).for_each(|number| hook(&env, &format!("s{number}")));
    assert_eq!((connected.load(Ordering::SeqCst), spooled(&env)), (1, 6));
    // After a while one of them tries again.
    age(&breaker(&env));
    (6..9).for_each(|number| hook(&env, &format!("s{number}")));
    assert_eq!((connected.load(Ordering::SeqCst), spooled(&env)), (2, 9));
}

#[test]
fn a_hook_that_is_answered_again_lets_the_next_ones_through() {
    let env = env();
    listen(&env, None);
    hook(&env, "s0");
    let answers = listen(&env, Some("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"));
    hook(&env, "s1");
    assert_eq!((answers.load(Ordering::SeqCst), spooled(&env)), (0, 2), "not before a while has passed");
    age(&breaker(&env));
    hook(&env, "s2");
    assert!(!breaker(&env).exists());
    hook(&env, "s3");
    assert_eq!((answers.load(Ordering::SeqCst), spooled(&env)), (2, 2));
}

#[test]
fn a_hub_that_refuses_or_is_gone_is_no_hub_that_hangs() {
    let env = env();
    listen(&env, Some("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"));
    hook(&env, "s0");
    fs::remove_file(env.path("data/subscope/hub.sock")).unwrap();
    hook(&env, "s1");
    assert_eq!((breaker(&env).exists(), spooled(&env)), (false, 2));
}

/// Stops a hub until dropped.
struct Stopped(u64);

impl Stopped {
    fn hub(serving: &Serving) -> Self {
        let pid = u64::from(serving.child.id());
        signal("-STOP", pid);
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        signal("-CONT", self.0);
    }
}

/// The message of every command about it, in one line.
fn is_told(errors: &str, pid: u64) -> bool {
    let words = format!("the hub (process {pid}) accepts connections on ");
    let told: Vec<&str> = errors.lines().filter(|line| line.contains(&words)).collect();
    told.len() == 1
        && told[0].contains("does not answer within 1 s")
        && told[0].contains(&format!("kill -CONT {pid}"))
        && told[0].contains(&format!("kill -9 {pid}"))
}

/// An answer without when its rows were written, and how often.
pub(super) fn content(answer: &str) -> Value {
    fn strip(value: &mut Value) {
        if let Value::Object(fields) = value {
            fields.retain(|name, _| !matches!(name.as_str(), "kept_at_ms" | "rev"));
            fields.values_mut().for_each(strip);
        }
        value.as_array_mut().into_iter().flatten().for_each(strip);
    }
    let mut value = json(answer);
    strip(&mut value);
    value
}

#[test]
fn every_command_says_that_a_stopped_hub_does_not_answer_and_reads_what_it_has_committed() {
    for autostarts in [false, true] {
        let (hubs, _) = filled();
        let serving = Serving::start(&hubs.env, "");
        serving.has_read();
        let run_one = |words: &str| {
            if autostarts { hubs.run(words) } else { hubs.env.run(&words.split(' ').collect::<Vec<_>>()) }
        };
        let id = json(&run_one("ls --json").success())["sessions"][0]["id"].as_str().unwrap().to_owned();
        let show = format!("show {id}/root --json");
        let asked = ["ls --json", "stats --json", "search the --json", &show];
        // Rows are saved a second after they are shown.
        let data = hubs.env.path("data/subscope");
        until("the rows are saved", || {
            let store = SqliteStore::open(&data, Access::Read, "", 0).unwrap();
            !store.list(&ListQuery::first(1)).unwrap().is_empty()
        });
        let by_hub = asked.map(|words| content(&run_one(words).success()));
        let stopped = Stopped::hub(&serving);
        for (words, before) in asked.iter().zip(by_hub) {
            let ran = run_one(words);
            assert!(is_told(&ran.stderr, stopped.0), "{words}: {}", ran.stderr);
            assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
            assert_eq!(content(&ran.success()), before, "{words}");
        }
        for (words, code) in
            [("status", 0), ("status --json", 0), ("stop abc", 1), ("serve --stop", 1), ("index", 1)]
        {
            let ran = run_one(words);
            assert!(is_told(&ran.stderr, stopped.0), "{words}: {}", ran.stderr);
            assert!(!ran.stderr.contains("no hub runs"), "{}", ran.stderr);
            assert_eq!(ran.code, Some(code), "{words}: {}", ran.stderr);
        }
        let ran = run_one(&format!("forget {id}"));
        assert!(ran.code == Some(1) && ran.stderr.contains("does not answer"), "{}", ran.stderr);
        assert_eq!(run_one("tree last --json").code, Some(0));

        let mut watch = if autostarts { hubs.command("watch") } else { hubs.env.command() };
        if !autostarts {
            watch.arg("watch");
        }
        let mut watch =
            watch.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        // What it follows, and then this.
        let told: Vec<String> =
            BufReader::new(watch.stderr.take().unwrap()).lines().take(2).map_while(Result::ok).collect();
        watch.kill().unwrap();
        watch.wait().unwrap();
        assert!(is_told(&told.join("\n"), stopped.0), "{told:?}");
    }
}

#[test]
fn what_hooks_spooled_while_a_hub_was_stopped_is_taken_in_exactly_once_when_it_goes_on() {
    let env = env();
    let serving = Serving::start(&env, "");
    serving.has_read();
    let sessions: Vec<String> = (0..20).map(|number| format!("s{number:02}")).collect();
    let stopped = Stopped::hub(&serving);
    sessions.iter().for_each(|session| hook(&env, session));
    assert_eq!(spooled(&env), sessions.len());
    drop(stopped);
    until("the spool is taken in", || spooled(&env) == 0 && !breaker(&env).exists());
    hook(&env, "last");
    assert_eq!(spooled(&env), 0, "the hub is asked again");
    let prompts = |session: &str| {
        let events = serving.json(&format!("/api/v1/sessions/{session}/events"));
        let events = events["events"].as_array().unwrap().clone();
        events.iter().filter(|event| event["kind"] == "user.prompt").count()
    };
    let all: Vec<&str> = sessions.iter().map(String::as_str).chain(["last"]).collect();
    until("all are told", || {
        all.iter().all(|session| serving.tree(session).is_some() && prompts(session) > 0)
    });
    assert_eq!(all.iter().map(|session| prompts(session)).collect::<Vec<_>>(), vec![1; all.len()]);
    let rows = serving.json("/api/v1/sessions?limit=100");
    assert_eq!(rows["sessions"].as_array().unwrap().len(), all.len());
}
