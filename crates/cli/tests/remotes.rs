//! Two machines in one list: the real program on both sides, with homes of their own, over a pipe and over a real sshd.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use common::{
    env, json, run,
    serving::{LIMIT, Serving, wait_until},
    told,
};
use serde_json::{Value, json as value};
use subscope_hub::clock;
use subscope_store::{Access, SqliteStore};
use subscope_testkit::{env::TestEnv, fixtures::recording, skip};

const SESSION: &str = "59d3cea2-0000-4000-8000-000000000001";

/// A file that, while it exists, keeps the line cut.
fn cut_file(far: &TestEnv) -> PathBuf {
    far.path("cut")
}

/// A script that runs the program on the far machine, after a banner as logins print it.
fn script(far: &TestEnv) -> PathBuf {
    let command = far.command();
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_str().unwrap());
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let variables: Vec<String> =
        variables.map(|(name, value)| format!("{}={}", name.to_str().unwrap(), quoted(value))).collect();
    let text = format!(
        "#!/bin/sh\nif [ -e '{}' ]; then echo 'ssh: connect to host gpu1: Connection refused' >&2; exit 255; fi\n\
         echo 'Welcome to gpu1'\necho '{{\"line\":\"news\"}}'\ncd /\nexec env -i {} {} \"$@\"\n",
        cut_file(far).display(),
        variables.join(" "),
        quoted(command.get_program())
    );
    let path = far.write("far.sh", text);
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// Writes a machine into the settings of the near one.
fn add(near: &TestEnv, far: &TestEnv) {
    let script = script(far);
    let text = format!(
        "[[remote]]\nname = \"gpu1\"\ncommand = [{:?}, \"serve\", \"--stdio\"]\n",
        script.to_str().unwrap()
    );
    near.write("config/subscope/config.toml", text);
}

/// What a hook of an agent gets on its input.
fn payload(session: &str, agent: &str, event: &str, call: &str) -> String {
    let mut payload = value!({
        "session_id": session, "cwd": "/home/user/shop", "hook_event_name": event, "prompt_id": "p",
        "tool_name": "Bash", "tool_use_id": call, "tool_input": {"command": "make"}, "tool_response": {},
    });
    if !agent.is_empty() {
        payload["agent_id"] = agent.into();
        payload["agent_type"] = "Explore".into();
    }
    payload.to_string()
}

/// Sends an event of an agent as a hook of the far machine.
fn hook(far: &TestEnv, session: &str, agent: &str, event: &str, call: &str) -> String {
    let ran = far.run_with_stdin(&["hook"], payload(session, agent, event, call).as_bytes());
    assert_eq!(told(&ran), (0, ""), "{event}");
    ran.stdout
}

fn sessions(serving: &Serving) -> Vec<Value> {
    serving.json("/api/v1/sessions?limit=1000")["sessions"].as_array().unwrap().clone()
}

/// The row of a session on the near machine.
fn row(serving: &Serving, session: &str) -> Option<Value> {
    sessions(serving).into_iter().find(|row| row["id"] == format!("gpu1~{session}"))
}

fn is_connected(serving: &Serving) -> bool {
    serving.json("/healthz")["remotes"][0]["is_connected"] == true
}

fn is_caught_up(serving: &Serving) -> bool {
    let machine = serving.json("/healthz")["remotes"][0].clone();
    machine["is_connected"] == true && machine["is_caught_up"] == true
}

/// Waits until what is said holds, by a look every 10 ms.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = clock::tick();
    while !holds() {
        assert!(began.elapsed() < LIMIT, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// What both sides say of a session: agents with their statuses and calls, and figures.
fn essence(mut tree: Value) -> Value {
    let agents = tree["agents"].as_array_mut().unwrap().iter_mut();
    let agents: Vec<Value> = agents
        .map(|agent| {
            value!([agent["id"], agent["status"], agent["tool_calls"], agent["usage"], agent["flags"]])
        })
        .collect();
    value!({
        "agents": agents, "title": tree["session"]["title"], "usage": tree["summary"]["usage"],
        "running": tree["summary"]["running"], "attention": tree["summary"]["attention"],
    })
}

/// Asserts that the near machine shows each session of the far one, once and as it is there.
fn assert_same(near: &Serving, far: &Serving) {
    let there = sessions(far);
    let mut here: Vec<String> =
        sessions(near).iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    let mut expected: Vec<String> =
        there.iter().map(|row| format!("gpu1~{}", row["id"].as_str().unwrap())).collect();
    here.sort();
    expected.sort();
    assert_eq!(here, expected);
    for row in there {
        let id = row["id"].as_str().unwrap();
        let same = wait_until(|| {
            let (here, there) = (near.tree(&format!("gpu1~{id}"))?, far.tree(id)?);
            let (here, there) = (essence(here), essence(there));
            (here == there).then_some(true)
        });
        assert!(same, "{id}");
    }
}

/// Kills the processes of the line on the far machine.
fn kill_line(far: &TestEnv) {
    let home = far.home();
    let mut killed = 0;
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let read = |file: &str| fs::read(process.path().join(file)).unwrap_or_default();
        let is_far = String::from_utf8_lossy(&read("environ")).contains(&format!("HOME={}", home.display()));
        if is_far && String::from_utf8_lossy(&read("cmdline")).contains("--stdio") {
            let pid = process.file_name().to_string_lossy().into_owned();
            killed += usize::from(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
        }
    }
    assert!(killed > 0, "no process was killed");
}

#[test]
fn sessions_of_another_machine_are_listed_live_and_its_agents_are_stopped_from_here() {
    let (near, far) = (env(), env());
    for scenario in ["c-nested", "b-parallel", "k-big"] {
        far.adopt(&recording("2.1.330", scenario));
    }
    near.adopt(&recording("2.1.330", "d-background"));
    add(&near, &far);
    let there = Serving::start(&far, "");
    there.has_read();
    hook(&far, SESSION, "a111", "SubagentStart", "");
    let here = Serving::start(&near, "");
    until("all sessions come", || is_caught_up(&here) && sessions(&here).len() == 5);
    let machine = here.json("/healthz")["remotes"][0].clone();
    assert_eq!((&machine["name"], &machine["error"]), (&value!("gpu1"), &Value::Null));
    for row in sessions(&there) {
        let id = row["id"].as_str().unwrap();
        let (own, shown) = (there.tree(id).unwrap(), here.tree(&format!("gpu1~{id}")).unwrap());
        assert_eq!(essence(shown.clone()), essence(own));
        assert_eq!(
            (&shown["session"]["machine"], &shown["session"]["last_heard_ms"]),
            (&value!("gpu1"), &Value::Null)
        );
    }
    // As a filter and in figures.
    let listed = json(&run(&near, "ls --machine gpu1 --json", &[]).success());
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 4);
    assert_eq!(json(&run(&near, "ls --machine gpu2 --json", &[]).success())["sessions"], value!([]));
    let text = run(&near, "ls", &[]).success();
    assert!(text.contains("gpu1~59d3cea2"), "{text}");
    let tree = run(&near, &format!("tree gpu1~{SESSION} --json"), &[]).success();
    assert_eq!(json(&tree)["session"]["machine"], "gpu1");
    // What needs its lines says where they are.
    for words in ["export --as otlp", "replay --plain", "watch"] {
        let (command, options) = words.split_once(' ').unwrap_or((words, ""));
        let refused = run(&near, &format!("{command} gpu1~{SESSION} {options}"), &[]);
        let why = "the session is on gpu1: its rows are here, its texts are there";
        assert!(refused.code == Some(1) && refused.stderr.contains(why), "{words}: {}", refused.stderr);
    }
    let jumped = run(&near, &format!("jump gpu1~{SESSION}"), &[]);
    assert!(jumped.code == Some(1) && jumped.stderr.contains("gpu1, another machine"), "{}", jumped.stderr);
    // It is live: a subscriber has the change without asking, about as soon as one there.
    let row_here = row(&here, SESSION).unwrap();
    assert_eq!((&row_here["status"], &row_here["running"]), (&value!("live"), &value!(1)));
    let (feed_here, feed_there) = (here.live("", usize::MAX), there.live("", usize::MAX));
    hook(&far, SESSION, "a222", "SubagentStart", "");
    until("the new agent is shown", || row(&here, SESSION).is_some_and(|row| row["running"] == 2));
    // A stop order goes there, and its answer comes back.
    hook(&far, SESSION, "a222", "PreToolUse", "a222-1");
    let asked = run(&near, &format!("stop gpu1~{SESSION}/a222 --json"), &[]);
    let ordered = json(&asked.success());
    assert_eq!(ordered["session_id"], format!("gpu1~{SESSION}"));
    let answer = hook(&far, SESSION, "a222", "PostToolUse", "a222-1");
    assert!(answer.contains("false"), "the agent is asked to stop: {answer:?}");
    until("the order is shown", || {
        let tree = here.tree(&format!("gpu1~{SESSION}")).unwrap();
        let agent = tree["agents"].as_array().unwrap().iter().find(|row| row["id"] == "a222").cloned();
        agent.is_some_and(|row| row["status"] == "stopped" || row["flags"].to_string().contains("stopping"))
    });
    let refused = run(&near, &format!("stop gpu1~{SESSION}/nobody"), &[]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    here.end("-TERM");
    there.end("-TERM");
    let changes = |feed: thread::JoinHandle<Vec<String>>| {
        feed.join()
            .unwrap()
            .into_iter()
            .filter(|block| block.contains("a222") && block.contains("event: change"))
            .count()
    };
    assert!(changes(feed_there) > 0);
    assert!(changes(feed_here) > 0, "subscribers of this machine have the change");
}

#[test]
fn cut_line_shows_nothing_at_work_and_loses_nothing() {
    let (near, far) = (env(), env());
    far.adopt(&recording("2.1.330", "c-nested"));
    add(&near, &far);
    let there = Serving::start(&far, "");
    there.has_read();
    hook(&far, SESSION, "a111", "SubagentStart", "");
    let here = Serving::start(&near, "");
    until("it is live", || row(&here, SESSION).is_some_and(|row| row["running"] == 1));
    let before = clock::now_ms();
    fs::write(cut_file(&far), "").unwrap();
    kill_line(&far);
    let assert_cut = |here: &Serving, when: &str| {
        until(when, || row(here, SESSION).is_some_and(|row| row["last_heard_ms"].is_number()));
        let row = row(here, SESSION).unwrap();
        assert_eq!(
            (&row["status"], &row["running"], &row["need"]),
            (&value!("ended"), &value!(0), &Value::Null),
            "{when}"
        );
        let tree = here.tree(&format!("gpu1~{SESSION}")).unwrap();
        let agents = tree["agents"].as_array().unwrap();
        let unheard = agents.iter().find(|agent| agent["id"] == "a111").unwrap();
        assert_eq!(
            (&unheard["status"], &unheard["flags"]),
            (&value!("running"), &value!(["orphan", "unheard"])),
            "{when}"
        );
        assert_eq!(here.json("/api/v1/status")["running"], 0, "{when}");
    };
    assert_cut(&here, "the cut is seen");
    let heard = row(&here, SESSION).unwrap()["last_heard_ms"].as_i64().unwrap();
    assert!((before - 10_000..=clock::now_ms()).contains(&heard), "{heard}");
    until("the reason is shown", || {
        here.json("/healthz")["remotes"][0]["error"]
            .as_str()
            .is_some_and(|why| why.contains("Connection refused"))
    });
    let text = run(&near, "ls", &[]).success();
    assert!(text.contains("last heard"), "{text}");
    let doctor = run(&near, "doctor", &[]).stdout;
    assert!(doctor.contains("gpu1: not connected; last heard"), "{doctor}");
    let stop = run(&near, &format!("stop gpu1~{SESSION}/a111"), &[]);
    assert!(stop.code == Some(1) && stop.stderr.contains("gpu1 is not connected"), "{}", stop.stderr);
    // Meanwhile the far machine works on, and each side is killed.
    hook(&far, SESSION, "a111", "SubagentStop", "");
    hook(&far, SESSION, "a333", "SubagentStart", "");
    hook(&far, "session-of-meanwhile", "b1", "SubagentStart", "");
    far.adopt(&recording("2.1.330", "b-parallel"));
    let killed = |mut serving: Serving| {
        serving.child.kill().unwrap();
        serving.child.wait().unwrap();
    };
    killed(here);
    killed(there);
    let there = Serving::start(&far, "");
    there.has_read();
    let here = Serving::start(&near, "");
    assert_cut(&here, "after a restart");
    fs::remove_file(cut_file(&far)).unwrap();
    until("it is heard again", || row(&here, SESSION).is_some_and(|row| row["last_heard_ms"].is_null()));
    until("all has come", || is_caught_up(&here) && sessions(&here).len() == sessions(&there).len());
    assert_same(&here, &there);
    // A hub that is killed while the line is up has nothing at work either, once it is back without the line.
    fs::write(cut_file(&far), "").unwrap();
    killed(here);
    // Without a hub, too.
    let listed = json(&run(&near, "ls --machine gpu1 --json", &[]).success());
    let rows = listed["sessions"].as_array().unwrap();
    assert!(
        rows.len() > 1 && rows.iter().all(|row| row["status"] == "ended" && row["running"] == 0),
        "{listed}"
    );
    let here = Serving::start(&near, "");
    let row = row(&here, "session-of-meanwhile").unwrap();
    assert_eq!((&row["status"], &row["running"]), (&value!("ended"), &value!(0)));
    assert!(row["last_heard_ms"].is_number(), "{row}");
    here.end("-TERM");
    there.end("-TERM");
}

#[test]
fn forgotten_sessions_stay_so_on_either_side() {
    let (near, far) = (env(), env());
    for scenario in ["c-nested", "b-parallel"] {
        far.adopt(&recording("2.1.330", scenario));
    }
    add(&near, &far);
    let there = Serving::start(&far, "");
    there.has_read();
    hook(&far, SESSION, "a111", "SubagentStart", "");
    let here = Serving::start(&near, "");
    until("all come", || is_caught_up(&here) && sessions(&here).len() == 3);
    here.end("-TERM");
    run(&near, &format!("forget gpu1~{SESSION}"), &[]).success();
    let here = Serving::start(&near, "");
    hook(&far, SESSION, "a222", "SubagentStart", "");
    until("the others are there", || is_caught_up(&here));
    thread::sleep(Duration::from_millis(500));
    let ids =
        |serving: &Serving| sessions(serving).iter().map(|row| row["id"].to_string()).collect::<Vec<_>>();
    assert!(!ids(&here).iter().any(|id| id.contains(SESSION)), "{:?}", ids(&here));
    assert_eq!(ids(&here).len(), 2);
    // Forgotten there, it is gone here.
    let gone = sessions(&there).into_iter().find(|row| row["id"] != SESSION).unwrap();
    let gone = gone["id"].as_str().unwrap().to_owned();
    there.end("-TERM");
    run(&far, &format!("forget {gone}"), &[]).success();
    let there = Serving::start(&far, "");
    until("it is gone", || is_connected(&here) && !ids(&here).iter().any(|id| id.contains(&gone)));
    assert!(here.tree(&format!("gpu1~{gone}")).is_none());
    here.end("-TERM");
    there.end("-TERM");
}

#[test]
fn texts_of_another_machine_are_searched_here_until_they_are_forgotten() {
    let (near, far) = (env(), env());
    for scenario in ["c-nested", "b-parallel"] {
        far.adopt(&recording("2.1.330", scenario));
    }
    add(&near, &far);
    let there = Serving::start(&far, "");
    there.has_read();
    let here = Serving::start(&near, "");
    let found = |serving: &Serving| serving.json("/api/v1/search?q=the&limit=1000");
    let texts = |found: &Value| {
        let hits = found["hits"].as_array().unwrap().iter();
        let mut texts: Vec<String> = hits
            .map(|hit| {
                let session = hit["session_id"].as_str().unwrap().trim_start_matches("gpu1~");
                value!([session, hit["kind"], hit["excerpt"], hit["agent_id"], hit["at_ms"]]).to_string()
            })
            .collect();
        texts.sort();
        texts
    };
    assert_eq!(found(&here)["unsearched"], value!(["gpu1"]), "it says what it did not search");
    until("all texts are here", || is_caught_up(&here) && found(&here)["unsearched"].is_null());
    let (own, shown) = (found(&there), found(&here));
    assert!(texts(&own).len() > 3, "{own}");
    assert_eq!(texts(&shown), texts(&own));
    let printed = run(&near, "search the", &[]);
    assert!(printed.code == Some(0) && !printed.stderr.contains("gpu1"), "{}", printed.stderr);
    // Of a session that is forgotten there nothing stays here: neither texts, nor rows in the backup.
    let backup = near.path("data/subscope/backup");
    let backed_up = || {
        let store = SqliteStore::open(&backup, Access::Read, "", 0).unwrap();
        store.session_ids().unwrap().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    here.end("-TERM");
    let _ = fs::remove_dir_all(&backup);
    let here = Serving::start(&near, "");
    until("there is a backup of all", || backup.join("store.db").exists() && backed_up().len() == 2);
    let gone = shown["hits"][0]["session_id"].as_str().unwrap().to_owned();
    there.end("-TERM");
    run(&far, &format!("forget {}", gone.trim_start_matches("gpu1~")), &[]).success();
    let there = Serving::start(&far, "");
    until("it is gone", || here.tree(&gone).is_none());
    until("its texts are gone", || !found(&here).to_string().contains(&gone));
    until("it is gone from the backup", || {
        // A search has the index brought up to date, and the store maintained.
        found(&here);
        !backed_up().contains(&gone) && backed_up().len() == 1
    });
    assert_eq!(fs::read_dir(near.path("data/subscope/remote-texts")).unwrap().count(), 1);
    // Nor of one that is forgotten here, which is not asked for again.
    let other = found(&here)["hits"][0]["session_id"].as_str().unwrap().to_owned();
    here.end("-TERM");
    run(&near, &format!("forget {other}"), &[]).success();
    let here = Serving::start(&near, "");
    until("it is connected", || is_caught_up(&here) && found(&here)["unsearched"].is_null());
    assert_eq!((&found(&here)["hits"], sessions(&here).len()), (&value!([]), 0));
    assert_eq!(fs::read_dir(near.path("data/subscope/remote-texts")).unwrap().count(), 0);
    // A cut line is said by name.
    fs::write(cut_file(&far), "").unwrap();
    kill_line(&far);
    until("the cut is said", || found(&here)["unsearched"] == value!(["gpu1"]));
    let printed = run(&near, "search the", &[]);
    assert!(printed.stderr.contains("not all texts of gpu1 are here"), "{}", printed.stderr);
    here.end("-TERM");
    there.end("-TERM");
}

#[test]
fn level_below_text_sends_no_texts_and_says_so() {
    let (near, far) = (env(), env());
    far.adopt(&recording("2.1.330", "c-nested"));
    add(&near, &far);
    let config = near.path("config/subscope/config.toml");
    let text = fs::read_to_string(&config).unwrap() + "content = \"titles\"\n";
    fs::write(config, text).unwrap();
    let there = Serving::start(&far, "");
    there.has_read();
    let here = Serving::start(&near, "");
    until("it comes", || is_caught_up(&here) && sessions(&here).len() == 1);
    let found = here.json("/api/v1/search?q=the");
    assert_eq!((&found["hits"], &found["unsearched"]), (&value!([]), &value!(["gpu1"])));
    assert!(!near.path("data/subscope/remote-texts").exists());
    here.end("-TERM");
    there.end("-TERM");
    // Nor does the other side send them to one that asks nevertheless.
    let mut line = StdioLine::start(&far);
    line.next();
    line.send(
        &value!({"line": "start", "schema": "subscope.remote/1", "content": "titles", "store": "", "rev": 0}),
    );
    line.send(&value!({"line": "texts", "session": SESSION}));
    let answer = loop {
        let next = line.next();
        if next["line"] == "texts" {
            break next;
        }
    };
    assert_eq!((&answer["texts"], &answer["is_last"]), (&value!([]), &value!(true)));
    line.end();
}

#[test]
fn damaged_row_is_asked_for_again() {
    let (near, far) = (env(), env());
    far.adopt(&recording("2.1.330", "c-nested"));
    add(&near, &far);
    let there = Serving::start(&far, "");
    there.has_read();
    let here = Serving::start(&near, "");
    until("it comes", || is_caught_up(&here) && sessions(&here).len() == 1);
    let session = sessions(&here)[0]["id"].as_str().unwrap().to_owned();
    let whole = here.tree(&session).unwrap();
    // Far enough from the position that it would not be sent again.
    let store = near.path("data/subscope/store.db");
    here.end("-TERM");
    {
        let db = rusqlite::Connection::open(&store).unwrap();
        let position = "UPDATE meta SET value = json_array(json_extract(value, '$[0]'), json_extract(value, '$[1]') + 1000000)
            WHERE key = 'remote/gpu1'";
        assert_eq!(db.execute(position, []).unwrap(), 1);
        assert_eq!(db.execute("UPDATE trees SET body = zeroblob(length(body))", []).unwrap(), 1);
    }
    let here = Serving::start(&near, "");
    until("it is whole again", || {
        here.tree(&session).is_some_and(|tree| essence(tree) == essence(whole.clone()))
    });
    here.end("-TERM");
    there.end("-TERM");
}

/// A Unix user made for this test, whose home is that of an environment, with a copy of the program; removed when dropped.
struct UnixUser {
    name: String,
    uid: u32,
    gid: u32,
    home: PathBuf,
    program: PathBuf,
}

impl UnixUser {
    /// Makes it, and gives it all files of the environment; `None` where that is not possible, which is recorded.
    fn make(env: &TestEnv, letter: char) -> Option<Self> {
        if !fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
            skip::not_here("only root makes Unix users");
            return None;
        }
        if !Path::new("/usr/bin/curl").exists() {
            skip::missing_tool("curl");
            return None;
        }
        let name = format!("subs{}{letter}", std::process::id());
        let mut command = Command::new("/usr/sbin/useradd");
        command.args(["--no-create-home", "--password", "*", "--shell", "/bin/sh", "--home-dir"]);
        if !command.arg(env.home()).arg(&name).output().is_ok_and(|made| made.status.success()) {
            skip::missing_tool("useradd");
            return None;
        }
        let id = |option: &str| {
            let printed = Command::new("id").args([option, name.as_str()]).output().unwrap().stdout;
            String::from_utf8(printed).unwrap().trim().parse().unwrap()
        };
        let program = env.path("bin/subscope");
        fs::create_dir_all(env.path("bin")).unwrap();
        fs::copy(env.command().get_program(), &program).unwrap();
        let user = Self { uid: id("-u"), gid: id("-g"), home: env.home(), program, name };
        user.own(env.root());
        Some(user)
    }

    /// Makes it the owner of a folder and of all below it.
    fn own(&self, folder: &Path) {
        let owner = format!("{}:{}", self.uid, self.gid);
        assert!(Command::new("chown").args(["-R", &owner]).arg(folder).status().unwrap().success());
    }

    /// The program, as the user has it after a login.
    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().current_dir(&self.home).args(words.split_whitespace());
        command.env("HOME", &self.home).env("PATH", "/usr/bin:/bin").env("LANG", "C.UTF-8");
        command.uid(self.uid).gid(self.gid);
        command
    }

    fn run(&self, words: &str, stdin: &[u8]) -> String {
        let ran = subscope_testkit::env::run(self.command(words), stdin);
        assert!(ran.code == Some(0), "{words}: {ran:?}");
        ran.stdout
    }

    /// Asks a hub of this user, which answers nobody else; null if it does not answer so.
    fn ask(&self, hub: &Serving, path: &str) -> Value {
        let mut command = Command::new("/usr/bin/curl");
        command
            .uid(self.uid)
            .gid(self.gid)
            .args(["-sf", "-m", "10"])
            .arg(format!("http://{}{path}", hub.address));
        let answer = command.output().unwrap();
        if answer.status.success() { serde_json::from_slice(&answer.stdout).unwrap() } else { Value::Null }
    }

    fn hook(&self, session: &str, agent: &str, event: &str) {
        self.run("hook", payload(session, agent, event, "").as_bytes());
    }

    /// Signals its processes with a word in their command lines; returns how many these are.
    fn signal(&self, signal: &str, word: &str) -> usize {
        let mut signaled = 0;
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let is_own = process.metadata().is_ok_and(|process| process.uid() == self.uid);
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            if is_own && String::from_utf8_lossy(&line).contains(word) {
                let pid = process.file_name().to_string_lossy().into_owned();
                signaled +=
                    usize::from(Command::new("kill").args([signal, &pid]).status().unwrap().success());
            }
        }
        signaled
    }
}

impl Drop for UnixUser {
    fn drop(&mut self) {
        self.signal("-KILL", "");
        let began = clock::tick();
        // Until its processes are gone.
        while !Command::new("/usr/sbin/userdel")
            .arg(&self.name)
            .output()
            .is_ok_and(|gone| gone.status.success())
        {
            if began.elapsed() > LIMIT {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A real sshd on the loopback address, into which one user logs in; ended when dropped.
struct Sshd {
    program: &'static str,
    config: PathBuf,
    port: u16,
    child: Option<Child>,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.end();
    }
}

impl Sshd {
    /// Starts it; `None` where there is none, which is recorded. `here` logs in as `there` with the name `gpu1` of its own
    /// `~/.ssh/config`.
    fn start(near: (&TestEnv, &UnixUser), far: (&TestEnv, &UnixUser)) -> Option<Self> {
        let programs = ["/usr/sbin/sshd", "/usr/lib/ssh/sshd", "/usr/local/sbin/sshd"];
        let Some(program) = programs.into_iter().find(|program| Path::new(program).exists()) else {
            skip::missing_tool("sshd");
            return None;
        };
        let ((near, here), (far, there)) = (near, far);
        let ssh = near.home().join(".ssh");
        fs::create_dir_all(&ssh).unwrap();
        let (host_key, key) = (far.path("host"), ssh.join("id"));
        for path in [&host_key, &key] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path);
            if !command.status().is_ok_and(|status| status.success()) {
                skip::missing_tool("ssh-keygen");
                return None;
            }
        }
        let keys = far.path("authorized_keys");
        fs::copy(key.with_extension("pub"), &keys).unwrap();
        // A free port: sshd takes none by itself.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = far.write(
            "sshd_config",
            format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
                 StrictModes no\nPasswordAuthentication no\nUsePAM no\nPrintMotd no\nSetEnv PATH={}:/usr/bin:/bin\n",
                host_key.display(),
                keys.display(),
                there.program.parent().unwrap().display()
            ),
        );
        near.write(
            "home/.ssh/config",
            format!(
                "Host gpu1\n  HostName 127.0.0.1\n  Port {port}\n  User {}\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
                 StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n",
                there.name,
                key.display()
            ),
        );
        // It separates privileges in a folder that a package makes at boot.
        let _ = fs::create_dir_all("/run/sshd");
        here.own(near.root());
        there.own(far.root());
        let mut sshd = Self { program, config, port, child: None };
        if sshd.listen() {
            return Some(sshd);
        }
        skip::not_here("sshd does not start");
        None
    }

    /// Has it listen; returns whether it does.
    fn listen(&mut self) -> bool {
        let mut command = Command::new(self.program);
        command.args(["-D", "-e", "-f"]).arg(&self.config).stdin(Stdio::null()).stderr(Stdio::null());
        let child = self.child.insert(command.spawn().unwrap());
        let began = clock::tick();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if child.try_wait().unwrap().is_some() || began.elapsed() > LIMIT {
                return false;
            }
            thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// Ends it; connections stay.
    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Another build of a program: with another version in it.
fn newer_build(program: &Path) -> (PathBuf, String) {
    let version = env!("CARGO_PKG_VERSION");
    let newer =
        format!("{}{}", &version[..version.len() - 1], if version.ends_with('9') { '8' } else { '9' });
    let path = program.with_file_name("newer");
    let edit = format!("s/{}/{newer}/g", version.replace('.', "\\."));
    let mut command = Command::new("sed");
    command.env("LC_ALL", "C").arg(edit).arg(program).stdout(fs::File::create(&path).unwrap());
    assert!(command.status().unwrap().success());
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    (path, newer)
}

#[test]
fn two_users_are_two_machines_over_a_real_sshd() {
    let (near, far) = (env(), env());
    far.adopt(&recording("2.1.330", "c-nested"));
    near.adopt(&recording("2.1.330", "d-background"));
    near.write(
        "home/.config/subscope/config.toml",
        "[[remote]]\nname = \"gpu1\"\nssh = \"gpu1\"\nsilence = \"2s\"\n",
    );
    let (Some(user), Some(there)) = (UnixUser::make(&near, 'n'), UnixUser::make(&far, 'f')) else { return };
    let Some(mut sshd) = Sshd::start((&near, &user), (&far, &there)) else { return };
    let serve = || Serving::start_as(user.command("serve --listen 127.0.0.1:0"));
    let sessions = |here: &Serving| {
        user.ask(here, "/api/v1/sessions?limit=1000")["sessions"].as_array().cloned().unwrap_or_default()
    };
    let row =
        |here: &Serving, id: &str| sessions(here).into_iter().find(|row| row["id"] == format!("gpu1~{id}"));
    let machine = |here: &Serving| user.ask(here, "/healthz")["remotes"][0].clone();
    let is_caught_up =
        |here: &Serving| machine(here)["is_connected"] == true && machine(here)["is_caught_up"] == true;
    let tree = |here: &Serving, id: &str| user.ask(here, &format!("/api/v1/sessions/gpu1~{id}/tree"));
    let running = |here: &Serving| row(here, SESSION).map(|row| row["running"].clone());
    let is_unheard = |here: &Serving| {
        row(here, SESSION).is_some_and(|row| row["last_heard_ms"].is_number() && row["running"] == 0)
    };
    let here = serve();
    until("both machines are in one list", || is_caught_up(&here) && sessions(&here).len() == 2);
    there.hook(SESSION, "a111", "SubagentStart");
    until("the first agent is shown", || running(&here) == Some(value!(1)));
    // The line is silent: the program on this side hangs, then the one on the other side.
    assert!(user.signal("-STOP", "ssh") > 0);
    there.hook(SESSION, "a222", "SubagentStart");
    until("the silence is seen", || is_unheard(&here));
    until("the second agent is shown", || running(&here) == Some(value!(2)));
    assert!(there.signal("-STOP", "sshd") > 0);
    there.hook(SESSION, "a222", "SubagentStop");
    until("the silence of the other side is seen", || is_unheard(&here));
    until("the end of the second agent is shown", || running(&here) == Some(value!(1)));
    there.signal("-CONT", "sshd");
    // The line is cut.
    sshd.end();
    assert!(there.signal("-KILL", "sshd") > 0);
    until("the cut is seen", || is_unheard(&here));
    there.hook(SESSION, "a111", "SubagentStop");
    there.hook(SESSION, "a333", "SubagentStart");
    there.hook("session-of-meanwhile", "b1", "SubagentStart");
    thread::sleep(Duration::from_millis(500));
    assert!(is_unheard(&here), "nothing is at work while it is cut");
    assert!(sshd.listen());
    until("what came meanwhile is shown", || {
        is_caught_up(&here)
            && running(&here) == Some(value!(1))
            && row(&here, "session-of-meanwhile").is_some()
    });
    // Both hubs are killed.
    let mut killed = here;
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    assert!(there.signal("-KILL", "--background") > 0);
    let here = serve();
    there.hook(SESSION, "a444", "SubagentStart");
    until("the agent of after the kills is shown", || running(&here) == Some(value!(2)));
    // Another build takes the place of the program there.
    let (newer, version) = newer_build(&there.program);
    there.own(far.root());
    fs::rename(newer, &there.program).unwrap();
    until("it comes back as another version", || {
        is_caught_up(&here) && machine(&here)["version"] == version.as_str()
    });
    there.hook(SESSION, "a444", "SubagentStop");
    there.hook(SESSION, "a555", "SubagentStart");
    until("the agent of the new version is shown", || {
        tree(&here, SESSION)["agents"]
            .as_array()
            .is_some_and(|agents| agents.iter().any(|agent| agent["id"] == "a555"))
    });
    // Nothing is missing, twice, or at work that is not.
    let listed = json(&there.run("ls --json --limit 1000", b""));
    let ids = |rows: &[Value]| {
        let mut ids: Vec<String> = rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    let listed = listed["sessions"].as_array().unwrap().clone();
    let mut expected: Vec<String> = ids(&listed).iter().map(|id| format!("gpu1~{id}")).collect();
    expected.extend(ids(&sessions(&here)).into_iter().filter(|id| !id.contains('~')));
    expected.sort();
    assert_eq!((ids(&sessions(&here)), expected.len()), (expected.clone(), 4));
    for id in ids(&listed) {
        let own = || essence(json(&there.run(&format!("tree {id} --json"), b"")));
        until(&id, || {
            let shown = tree(&here, &id);
            shown.is_object() && essence(shown) == own()
        });
    }
    here.end("-TERM");
    there.run("serve --stop", b"");
}

/// A running `serve --stdio`.
struct StdioLine {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl StdioLine {
    fn start(far: &TestEnv) -> Self {
        let mut command = far.command();
        command
            .args(["serve", "--stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn send(&mut self, line: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn next(&mut self) -> Value {
        json(&self.lines.next().unwrap().unwrap())
    }

    /// Ends its input; returns its exit code and stderr.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.child.stdin.take());
        let rest: Vec<String> = self.lines.by_ref().map_while(Result::ok).collect();
        assert!(rest.iter().all(|line| json(line)["line"].is_string()), "{rest:?}");
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

#[test]
fn far_side_says_hello_sends_from_a_position_at_a_level_and_ends_with_its_input() {
    let far = env();
    far.adopt(&recording("2.1.330", "c-nested"));
    let there = Serving::start(&far, "");
    there.has_read();
    let mut line = StdioLine::start(&far);
    let hello = line.next();
    assert_eq!((&hello["line"], &hello["schema"]), (&value!("hello"), &value!("subscope.remote/1")));
    assert!(hello["sessions"].is_number(), "{hello}");
    line.send(&value!({"line": "a-newer-one"}));
    line.send(&value!({"line": "start", "schema": "subscope.remote/1", "content": "figures", "store": "", "rev": 0}));
    let mut seen = Vec::new();
    let position = loop {
        let next = line.next();
        if next["line"] == "position" && next["is_caught_up"] == true {
            break next["rev"].as_u64().unwrap();
        }
        seen.push(next);
    };
    let session = seen.iter().find(|line| line["line"] == "session").unwrap();
    assert_eq!(session["snapshot"]["row"]["title"], Value::Null, "the level is figures");
    line.send(&value!({"line": "clock", "asked_ms": 77}));
    let clock_line = loop {
        let next = line.next();
        if next["line"] == "clock" {
            break next;
        }
    };
    assert_eq!(clock_line["asked_ms"], 77);
    assert!((clock_line["now_ms"].as_i64().unwrap() - clock::now_ms()).abs() < 10_000);
    assert_eq!(line.end().0, Some(0));
    // From a position on: an old session does not come again.
    let mut line = StdioLine::start(&far);
    let hello = line.next();
    let far_position = position + 1_000_000_000_000;
    line.send(&value!({"line": "start", "schema": "subscope.remote/1", "content": "text", "store": hello["store"], "rev": far_position}));
    hook(&far, SESSION, "a111", "SubagentStart", "");
    let next = loop {
        let next = line.next();
        if next["line"] == "session" && next["snapshot"]["row"]["id"] == SESSION {
            break next;
        }
    };
    assert_eq!(next["snapshot"]["row"]["running"], 1);
    assert_eq!(line.end().0, Some(0));
    // Another protocol.
    let mut line = StdioLine::start(&far);
    line.next();
    line.send(
        &value!({"line": "start", "schema": "subscope.remote/9", "content": "text", "store": "", "rev": 0}),
    );
    let (code, errors) = line.end();
    assert!(code == Some(1) && errors.contains("subscope.remote/9"), "{code:?} {errors}");
    there.end("-TERM");
}

#[test]
fn machines_are_added_listed_and_tested() {
    let (near, far) = (env(), env());
    let script = script(&far);
    let there = Serving::start(&far, "");
    let added = run(&near, &format!("remote add gpu1 -- {} serve --stdio", script.display()), &[]);
    assert_eq!(added.code, Some(0), "{}", added.stderr);
    let tested = run(&near, "remote test gpu1", &[]);
    assert_eq!(tested.code, Some(0), "{}", tested.stderr);
    assert!(
        tested.stdout.contains(&format!("gpu1: subscope {} on ", env!("CARGO_PKG_VERSION"))),
        "{}",
        tested.stdout
    );
    assert!(tested.stdout.contains("clock +0.") || tested.stdout.contains("clock -0."), "{}", tested.stdout);
    let listed = json(&run(&near, "remote list --json", &[]).success());
    assert_eq!(
        (&listed["schema"], &listed["is_hub_running"]),
        (&value!("subscope.remotes/1"), &value!(false))
    );
    assert_eq!(
        (&listed["remotes"][0]["name"], &listed["remotes"][0]["error"]),
        (&value!("gpu1"), &value!("no hub runs"))
    );
    let again = run(&near, "remote add gpu1 --ssh gpu1", &[]);
    assert!(again.code == Some(1) && again.stderr.contains("in the settings already"), "{}", again.stderr);
    for (words, why) in [
        ("remote add GPU --ssh gpu1", "is no name for a remote"),
        ("remote add gpu2 --ssh=-oProxyCommand=x", "is no host for ssh"),
        ("remote add gpu2", "--ssh"),
    ] {
        let wrong = run(&near, words, &[]);
        assert!(wrong.code == Some(2) && wrong.stderr.contains(why), "{words}: {}", wrong.stderr);
    }
    // What is no subscope, and what does not exist.
    for (name, command, why) in [
        ("echo", "echo hello", "it has ended"),
        ("none", "/nowhere/ssh", "cannot be started"),
        ("missing", "sh -c exit\\ 127", "there is no subscope there"),
    ] {
        let words: Vec<String> = command.split(' ').map(|word| word.replace('\\', " ")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let words = if name == "missing" { vec!["sh", "-c", "exit 127"] } else { words };
        let all = [vec!["remote", "add", name, "--"], words].concat();
        assert_eq!(near.run(&all).code, Some(0), "{name}");
        let tested = run(&near, &format!("remote test {name}"), &[]);
        assert!(tested.code == Some(1) && tested.stderr.contains(why), "{name}: {}", tested.stderr);
    }
    // A project cannot add a machine.
    let project =
        near.write("work/.subscope/config.toml", "[[remote]]\nname = \"evil\"\ncommand = [\"true\"]\n");
    let listed = run(&near, "remote list", &[]);
    assert!(
        !listed.stdout.contains("evil") && listed.stderr.contains("may not set it"),
        "{} {}",
        listed.stdout,
        listed.stderr
    );
    fs::remove_file(project).unwrap();
    there.end("-TERM");
}

#[test]
fn hostile_machine_sends_rows_and_nothing_else() {
    let (near, far) = (env(), env());
    far.adopt(&recording("2.1.330", "c-nested"));
    let there = Serving::start(&far, "");
    there.has_read();
    let mut line = StdioLine::start(&far);
    line.next();
    line.send(
        &value!({"line": "start", "schema": "subscope.remote/1", "content": "text", "store": "", "rev": 0}),
    );
    let mut session = loop {
        let next = line.next();
        if next["line"] == "session" {
            break next;
        }
    };
    line.end();
    there.end("-TERM");
    // Another machine's name and a path in its id, escapes in its texts, lines that are none.
    session["snapshot"]["row"]["id"] = "../../gpu9~x\u{1b}[2J".into();
    session["snapshot"]["tree"]["session"]["machine"] = "gpu9".into();
    session["snapshot"]["tree"]["session"]["title"] = "\u{1b}]0;owned\u{7}title".into();
    let hello = value!({"line": "hello", "schema": "subscope.remote/1", "version": "9\u{1b}[31m", "host": "h\u{1b}[31m",
        "now_ms": 5, "store": "s", "sessions": 1});
    let lines = [
        hello.to_string(),
        "no json".to_owned(),
        "{\"line\":\"session\",\"snapshot\":{}}".to_owned(),
        session.to_string(),
        value!({"line": "position", "rev": 3, "is_caught_up": true}).to_string(),
        value!({"line": "stop", "number": 7, "ordered": null, "refused": null}).to_string(),
    ];
    let said = near.write("said.jsonl", lines.join("\n") + "\n");
    let command =
        ["sh", "-c", &format!("cat '{}'; sleep 100", said.display())].map(|word| format!("{word:?}"));
    near.write(
        "config/subscope/config.toml",
        format!("[[remote]]\nname = \"gpu1\"\ncommand = [{}]\n", command.join(", ")),
    );
    let here = Serving::start(&near, "");
    until("its row comes", || sessions(&here).len() == 1);
    let row = sessions(&here)[0].clone();
    let id = row["id"].as_str().unwrap();
    assert!(id.starts_with("gpu1~") && !id.contains('\u{1b}'), "{id}");
    assert_eq!(row["machine"], "gpu1");
    for words in ["ls", "remote list", "doctor"] {
        let shown = run(&near, words, &[]);
        assert!(
            !shown.stdout.contains('\u{1b}') && !shown.stderr.contains('\u{1b}'),
            "{words}: {:?}",
            shown.stdout
        );
    }
    here.end("-TERM");
}
