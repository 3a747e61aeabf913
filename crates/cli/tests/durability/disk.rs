//! A disk that is full: the sender gets an error, nothing breaks, and what was refused arrives once there
//! is room.
//!
//! The disk is a small one in memory, mounted where only this test's processes see it.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use subscope_hub::clock;
use subscope_testkit::{
    corpus::{self, Dialects, Options},
    env::{Ran, TestEnv, run},
    random::Random,
};

use crate::{
    common::{
        env,
        serving::{LIMIT, Serving, exchange, posting},
    },
    kept::{data, difference, indexed, is_whole},
};

/// A small disk in place of the folder for data. Gone when this is dropped.
struct SmallDisk {
    holder: Child,
    /// The words that bring a program to where the disk is mounted.
    enter: Vec<String>,
}

impl SmallDisk {
    /// `None`, with the reason on stdout, if the system does not allow mounts.
    fn mount(env: &TestEnv, size: &str) -> Option<Self> {
        let folder = data(env);
        fs::create_dir_all(&folder).unwrap();
        let try_with = |flags: &[&str]| {
            let mut command = env.command_of("/usr/bin/unshare");
            // The spool has a disk of its own: what SQLite writes before it learns that there is no room takes the last
            // of it, and leaves none for hooks.
            let script = "mount -t tmpfs -o size=$1,mode=700 tmpfs \"$0\" && mkdir \"$0/spool\" \
                && mount -t tmpfs -o size=64k,mode=700 tmpfs \"$0/spool\" && echo mounted && exec sleep 1000";
            command.args(flags).args(["/bin/sh", "-c", script]).arg(&folder).arg(size);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = command.spawn().ok()?;
            let mut said = [0; 7];
            let is_there = std::io::Read::read_exact(child.stdout.as_mut()?, &mut said).is_ok();
            if is_there {
                return Some(child);
            }
            let _ = child.wait();
            None
        };
        let entering = |child: &Child, flags: &[&str]| -> Vec<String> {
            let pid = child.id().to_string();
            let words = [&["--target", &pid][..], flags].concat();
            words.into_iter().map(str::to_owned).collect()
        };
        if let Some(holder) = try_with(&["--mount"]) {
            let enter = entering(&holder, &["--mount"]);
            return Some(Self { holder, enter });
        }
        if let Some(holder) = try_with(&["--map-root-user", "--mount"]) {
            let enter = entering(&holder, &["--user", "--preserve-credentials", "--mount"]);
            return Some(Self { holder, enter });
        }
        subscope_testkit::skip::not_here("this system lets the test mount no disk of its own");
        None
    }

    /// The folder on the disk, as others see it.
    fn folder(&self, env: &TestEnv) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(data(env).strip_prefix("/").unwrap())
    }

    /// A program that sees the disk.
    fn command(&self, env: &TestEnv, program: &str) -> Command {
        let mut command = env.command_of("/usr/bin/nsenter");
        command.args(&self.enter).arg("--").arg(program);
        command
    }

    fn serve(&self, env: &TestEnv) -> Serving {
        let mut command = self.command(env, env!("CARGO_BIN_EXE_subscope"));
        command.args(["serve", "--listen", "127.0.0.1:0"]);
        Serving::start_as(command)
    }

    fn run(&self, env: &TestEnv, words: &[&str], stdin: &[u8]) -> Ran {
        let mut command = self.command(env, env!("CARGO_BIN_EXE_subscope"));
        command.args(words);
        run(command, stdin)
    }

    /// Fills it except for some bytes.
    fn fill(&self, env: &TestEnv, but_for: u64) {
        let path = self.ballast(env);
        let mut file = fs::File::create(&path).unwrap();
        while file.write_all(&[b'x'; 4096]).is_ok() {}
        let length = file.metadata().unwrap().len();
        file.set_len(length.saturating_sub(but_for)).unwrap();
    }

    fn ballast(&self, env: &TestEnv) -> PathBuf {
        self.folder(env).join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn call(name: &str, input: &str) -> String {
    format!(
        r#"{{"session_id":"s","hook_event_name":"PreToolUse","prompt_id":"p","tool_name":"Read","tool_use_id":"{name}","tool_input":{{"file_path":"{input}"}}}}"#
    )
}

/// Posts a hook and returns status and answer.
fn post(serving: &Serving, name: &str, input: &str) -> (u16, String) {
    let delivery = format!("x-subscope-delivery: {name}\r\n");
    let body = call(name, input);
    exchange(serving.connect(), &posting(&serving.address, "/hooks/claude", &delivery, body.as_bytes()))
}

/// Which calls the log has, in order of their names.
fn calls(serving: &Serving) -> Vec<String> {
    let log = serving.json("/api/v1/sessions/s/events?limit=10000");
    let events = log["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "tool.pre");
    let mut names: Vec<String> =
        events.map(|event| event["data"]["tool_use_id"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Text that does not get smaller.
fn noise(bytes: usize) -> String {
    let mut random = Random::new(1);
    (0..bytes / 16 + 1).map(|_| format!("{:016x}", random.next())).collect()
}

#[test]
fn full_disk_is_told_to_whoever_hands_over_and_loses_nothing() {
    let env = env();
    let Some(disk) = SmallDisk::mount(&env, "24m") else { return };
    let mut serving = disk.serve(&env);
    let mut taken: Vec<String> = Vec::new();
    for number in 0..20 {
        let name = format!("before-{number:03}");
        assert_eq!(post(&serving, &name, "/x"), (200, String::new()));
        taken.push(name);
    }
    // Queries are answered with all that was acknowledged, which is then in the log.
    assert_eq!(calls(&serving), taken);
    disk.fill(&env, 0);
    let big = noise(2 << 20);
    let (status, answer) = post(&serving, "big", &big);
    assert_eq!((status, answer.as_str()), (503, r#"{"error":"the disk is full"}"#));
    // What is there can still be read.
    assert_eq!(calls(&serving), taken);
    assert_eq!(serving.json("/healthz")["status"], "ok");
    // Smaller input is not accepted before it: order is kept. Hooks spool theirs.
    let (status, answer) = post(&serving, "small", "/x");
    assert_eq!((status, answer.as_str()), (503, r#"{"error":"the disk is full"}"#));
    for number in 0..5 {
        let name = format!("spooled-{number}");
        let ran = disk.run(&env, &["hook"], call(&name, "/x").as_bytes());
        assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
        taken.push(name);
    }
    let spooled = fs::read_dir(disk.folder(&env).join("spool")).unwrap().count();
    assert_eq!(spooled, 5);
    // If not even the spool has room, the hook is silent as well.
    let ran = disk.run(&env, &["hook"], call("lost", &big[..100_000]).as_bytes());
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
    // A process that is killed in this state leaves a whole store.
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
    is_whole(&disk.folder(&env));
    let ran = disk.run(&env, &["ls", "--json"], b"");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    fs::remove_file(disk.ballast(&env)).unwrap();
    let serving = disk.serve(&env);
    // Refused input is sent again; spooled input arrives by itself.
    for name in ["big", "small"] {
        let input = if name == "big" { big.as_str() } else { "/x" };
        assert_eq!(post(&serving, name, input), (200, String::new()));
        taken.push(name.to_owned());
    }
    taken.sort();
    let began = clock::tick();
    while calls(&serving) != taken {
        assert!(began.elapsed() < LIMIT, "{:?}", calls(&serving));
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(serving.tree("s").unwrap()["summary"]["tool_calls"], taken.len());
    let errors = serving.end("-TERM");
    assert!(!errors.contains("warning"), "{errors}");
    is_whole(&disk.folder(&env));
    println!(
        "a disk of 24 MiB, full: 503 with the reason, {} events there once after it had room again",
        taken.len()
    );
}

#[test]
fn server_goes_on_by_itself_once_there_is_room() {
    let env = env();
    let Some(disk) = SmallDisk::mount(&env, "48m") else { return };
    let serving = disk.serve(&env);
    assert_eq!(post(&serving, "a", "/x").0, 200);
    disk.fill(&env, 0);
    // A commit that fits into the WAL may still succeed.
    let big = noise(200_000);
    let mut refused = Vec::new();
    let mut taken = vec!["a".to_owned()];
    for number in 0..20 {
        let name = format!("b{number:02}");
        match post(&serving, &name, &big) {
            (200, _) => taken.push(name),
            (503, answer) => {
                assert_eq!(answer, r#"{"error":"the disk is full"}"#);
                refused.push(name);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(refused.len() > 10, "{refused:?}");
    fs::remove_file(disk.ballast(&env)).unwrap();
    let began = clock::tick();
    for name in refused {
        while post(&serving, &name, &big).0 != 200 {
            assert!(began.elapsed() < LIMIT, "it does not go on");
            thread::sleep(Duration::from_millis(50));
        }
        taken.push(name);
    }
    taken.sort();
    assert_eq!(calls(&serving), taken);
    serving.end("-TERM");
    is_whole(&disk.folder(&env));
}

#[test]
fn index_on_a_full_disk_says_so_and_ends_what_it_began_later() {
    let env = env();
    let options = |seed| Options {
        seed,
        turns: 30,
        root_turns: 40,
        result_bytes: 5_000,
        dialects: Dialects::Transcripts,
        ..Options::default()
    };
    for seed in 0..8 {
        corpus::on_disk(&options(seed), &env.home().join(".claude")).unwrap();
    }
    let undisturbed = crate::common::env();
    copy(&env.home(), &undisturbed.home());
    undisturbed.run(&["index"]).success();
    let Some(disk) = SmallDisk::mount(&env, "1m") else { return };
    let ran = disk.run(&env, &["index", "--json"], b"");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("the disk is full"), "{}", ran.stderr);
    is_whole(&disk.folder(&env));
    let mut mount = disk.command(&env, "/bin/mount");
    mount.args(["-o", "remount,size=64m"]).arg(data(&env));
    run(mount, b"").success();
    disk.run(&env, &["index"], b"").success();
    is_whole(&disk.folder(&env));
    copy(&disk.folder(&env), &data(&env));
    let words = ["the", "error"];
    assert_eq!(difference(&indexed(&env, &words), &indexed(&undisturbed, &words)), None);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(path, target).unwrap();
        }
    }
}

#[test]
fn full_disk_lets_people_read_without_a_hub() {
    let env = env();
    let Some(disk) = SmallDisk::mount(&env, "3m") else { return };
    let recording = subscope_testkit::fixtures::recording("2.1.330", "b-parallel");
    env.adopt(&recording);
    let id = recording.truth().session.id;
    let commands: [&[&str]; 8] = [
        &["ls", "--json"],
        &["stats", "--json"],
        &["status"],
        &["tree", &id, "--json"],
        &["show", &format!("{id}/root"), "--json"],
        &["search", "the", "--json"],
        &["export", &id, "--as", "feed"],
        &["doctor"],
    ];
    let room = || commands.map(|words| disk.run(&env, words, b""));
    assert_eq!(disk.run(&env, &["index"], b"").code, Some(0));
    let before = room();
    // Also where the log of the store is not empty: a process was killed.
    for has_log in [false, true] {
        if has_log {
            let mut serving = disk.serve(&env);
            assert_eq!(post(&serving, "one", "/x").0, 200);
            serving.child.kill().unwrap();
            serving.child.wait().unwrap();
            fs::remove_file(disk.folder(&env).join("store.db-shm")).unwrap();
            fs::remove_file(disk.folder(&env).join("search.db-shm")).unwrap_or_default();
        }
        disk.fill(&env, 0);
        for ((words, before), now) in commands.iter().zip(&before).zip(room()) {
            assert_eq!(now.code, Some(0), "{words:?}: {now:?}");
            if !has_log && words[0] != "doctor" && words[0] != "status" {
                assert_eq!(now.stdout, before.stdout, "{words:?}");
            }
            assert!(!now.stderr.contains("hint"), "{words:?}: {now:?}");
        }
        // The files that SQLite made before may have room for the little that an index writes.
        let index = disk.run(&env, &["index"], b"");
        let says_why = index.stderr.contains("the disk is full") && !index.stderr.contains("own");
        assert!(index.code == Some(0) || index.code == Some(1) && says_why, "{index:?}");
        fs::remove_file(disk.ballast(&env)).unwrap();
        assert_eq!(disk.run(&env, &["index"], b"").code, Some(0));
    }
}
