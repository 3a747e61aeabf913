//! What `docs/src/operate.md` says of a store, with the real program: backup, restore, another machine, a newer schema,
//! a home that cannot be written.

#![allow(clippy::unwrap_used)]

mod common;

use std::{fs, path::Path, process::Command};

use subscope_testkit::{env::TestEnv, fixtures};

use self::common::{env, json, listed, run, run_with_stdin, serving::Serving};

const START: &[u8] = br#"{"session_id":"5fc6934e-0000-4000-8000-000000000001","hook_event_name":"SessionStart","cwd":"/tmp","source":"startup"}"#;
const END: &[u8] = br#"{"session_id":"5fc6934e-0000-4000-8000-000000000001","hook_event_name":"SessionEnd","cwd":"/tmp","reason":"exit"}"#;

/// An environment with a recorded session, one that programs published, and one that hooks reported.
fn used() -> TestEnv {
    let env = env();
    env.adopt(&fixtures::recording("2.1.330", "b-parallel"));
    assert_eq!(run_with_stdin(&env, "hook", &[], START).code, Some(0));
    let serving = Serving::start(&env, "");
    serving.has_read();
    for event in [
        r#"{"subagentName":"scout","subagentRunId":"r1","timestamp":1795293690000,"type":"subagent_start","payload":"Find the bug."}"#,
        r#"{"subagentName":"scout","subagentRunId":"r1","timestamp":1795293690900,"type":"subagent_end","result":"In line 3."}"#,
    ] {
        serving.post("/subagent-events", "", event.as_bytes());
    }
    stop(&env, serving);
    env
}

fn stop(env: &TestEnv, mut serving: Serving) {
    run(env, "serve --stop", &[]).success();
    serving.child.wait().unwrap();
}

/// What a store says: its list, its figures, and where a word is.
fn answers(env: &TestEnv) -> (Vec<serde_json::Value>, serde_json::Value, usize) {
    let list = listed(json(&run(env, "ls --json -n 100", &[]).success()));
    let stats = json(&run(env, "stats --json", &[]).success())["total"].clone();
    let hits = json(&run(env, "search bug --json", &[]).success())["hits"].as_array().unwrap().len();
    (list, stats, hits)
}

fn succeed(command: &mut Command) {
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
fn a_copy_of_the_data_folder_is_the_whole_store_on_any_machine() {
    let env = used();
    let before = answers(&env);
    assert_eq!(before.0.len(), 3, "{:?}", before.0);
    let archive = env.path("backup.tar.gz");
    succeed(env.command_of("tar").arg("-C").arg(env.path("data")).arg("-czf").arg(&archive).arg("subscope"));

    let other = self::env();
    succeed(other.command_of("tar").arg("-C").arg(other.path("data")).arg("-xzf").arg(&archive));
    assert_eq!(answers(&other), before, "without any transcript");
    other.adopt(&fixtures::recording("2.1.330", "b-parallel"));
    run(&other, "index", &[]).success();
    assert_eq!(answers(&other), before, "transcripts at another place count once");
    // It goes on there: hooks wait for a hub, which takes them.
    assert_eq!(run_with_stdin(&other, "hook", &[], END).code, Some(0));
    let serving = Serving::start(&other, "");
    serving.has_read();
    stop(&other, serving);
    let tree = json(&run(&other, "tree 5fc6934e --json", &[]).success());
    assert_eq!(tree["agents"][0]["status"], "completed", "{tree}");

    // The full-text index may be left out.
    fs::remove_file(other.path("data/subscope/search.db")).unwrap();
    let serving = Serving::start(&other, "");
    serving.has_read();
    stop(&other, serving);
    assert_eq!(answers(&other).2, before.2);
}

/// Runs a command on another data folder.
fn of_store(env: &TestEnv, folder: &Path, command: &str) -> serde_json::Value {
    let folder = folder.to_str().unwrap();
    json(
        &env.run(&[&["--store", folder], command.split(' ').collect::<Vec<_>>().as_slice()].concat())
            .success(),
    )
}

#[test]
fn a_backup_is_whole_while_a_hub_writes_and_is_the_store_where_it_is_restored() {
    let env = used();
    run(&env, "index --archive", &[]).success();
    env.write("config/subscope/config.toml", "color = \"never\"\n");
    let copy = env.path("tmp/copy");
    let serving = Serving::start(&env, "");
    serving.has_read();
    let before = answers(&env);
    run(&env, "backup", &[&copy]).success();
    let whole = |list: Vec<serde_json::Value>| list.into_iter().map(without_kept_time).collect::<Vec<_>>();
    let copied = || whole(listed(of_store(&env, &copy, "ls --json -n 100")));
    assert_eq!(copied(), whole(before.0.clone()), "while the hub runs");
    stop(&env, serving);

    // Where there is nothing yet, and with input that waited.
    assert_eq!(run_with_stdin(&env, "hook", &[], END).code, Some(0));
    let waiting = env.path("tmp/waiting");
    run(&env, "backup", &[&waiting]).success();
    let other = self::env();
    let printed = run(&other, "restore", &[&waiting]).success();
    assert!(printed.starts_with("3 sessions restored"), "{printed}");
    assert_eq!(fs::read_to_string(other.path("config/subscope/config.toml")).unwrap(), "color = \"never\"\n");
    let serving = Serving::start(&other, "");
    serving.has_read();
    stop(&other, serving);
    let tree = json(&run(&other, "tree 5fc6934e --json", &[]).success());
    assert_eq!(tree["agents"][0]["status"], "completed", "the hook that waited: {tree}");
    let (list, stats, hits) = answers(&other);
    assert_eq!((list.len(), stats, hits), (before.0.len(), before.1.clone(), before.2));

    // On the machine itself: what was forgotten since stays forgotten, and its archived file is gone.
    let recorded =
        before.0.iter().find(|row| row["harness"] == "claude-code" && row["tool_calls"] != 0).unwrap();
    let id = recorded["id"].as_str().unwrap();
    run(&env, &format!("forget {id}"), &[]).success();
    let archived = |env: &TestEnv| files_below(&env.path("data/subscope/archive"));
    assert_eq!(archived(&env), 0, "the recorded session is the one with files");
    let ran = run(&env, "restore", &[&copy]);
    assert!(
        ran.stderr.contains("the store that was there is in ") && ran.stderr.contains("replaced-"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("1 session forgotten since"), "{}", ran.stderr);
    assert!(ran.success().starts_with("2 sessions restored"));
    assert_eq!(archived(&env), 0);
    run(&env, "index", &[]).success();
    let rest: Vec<_> = before.0.iter().filter(|row| row["id"] != id).map(|row| row["id"].clone()).collect();
    let now: Vec<_> = answers(&env).0.iter().map(|row| row["id"].clone()).collect();
    assert_eq!(now, rest);
    assert_eq!(copied(), whole(before.0), "the copy is as it was");
}

/// A row that is not saved yet has none.
fn without_kept_time(mut row: serde_json::Value) -> serde_json::Value {
    row.as_object_mut().unwrap().remove("kept_at_ms");
    row
}

fn files_below(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { 1 }).sum()
}

#[test]
fn a_damaged_store_is_replaced_by_a_backup() {
    let env = used();
    let before = answers(&env);
    let copy = env.path("tmp/copy");
    run(&env, "backup", &[&copy]).success();
    fs::write(
        env.path("data/subscope/store.db"),
        "no database at all, but long enough to be one".repeat(500),
    )
    .unwrap();
    run(&env, "ls", &[]);
    run(&env, "restore", &[&copy]).success();
    run(&env, "index", &[]).success();
    assert_eq!(answers(&env), before);
}

#[test]
fn what_cannot_be_backed_up_or_restored_says_why_and_changes_nothing() {
    let env = used();
    let store = env.path("data/subscope");
    let (full, empty) = (env.path("tmp/full"), env.path("tmp/empty"));
    env.write("tmp/full/mine.txt", "mine");
    fs::create_dir(&empty).unwrap();
    let inside = store.join("copy");
    let says = |command: &str, folder: &Path, code: i32, why: &str| {
        let ran = run(&env, command, &[folder]);
        assert_eq!(ran.code, Some(code), "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains(why), "{command}: {}", ran.stderr);
    };
    says("backup", &full, 1, "is not empty");
    says("backup", &inside, 2, "is in the data folder itself");
    says("restore", &empty, 1, "there is no store in");
    says("restore", &store, 2, "is no folder beside the data folder");
    says("restore", &inside, 2, "is no folder beside the data folder");
    assert_eq!(fs::read_dir(&full).unwrap().count(), 1);
    run(&env, "backup", &[&empty]).success();
    let serving = Serving::start(&env, "");
    serving.has_read();
    says("restore", &empty, 1, "another process writes the store");
    stop(&env, serving);
    let newer = rusqlite::Connection::open(empty.join("store.db")).unwrap();
    newer.pragma_update(None, "user_version", 1_000).unwrap();
    drop(newer);
    says("restore", &empty, 1, "has schema version 1000");
    assert_eq!(answers(&env).0.len(), 3);
    let nothing = self::env();
    let ran = run(&nothing, "backup", &[&nothing.path("tmp/copy")]);
    assert_eq!((ran.code, ran.stderr.contains("there is no store in")), (Some(1), true), "{}", ran.stderr);
}

/// Sets the schema version of a store.
fn set_version(env: &TestEnv, version: i64) -> i64 {
    let db = rusqlite::Connection::open(env.path("data/subscope/store.db")).unwrap();
    let found = db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    db.pragma_update(None, "user_version", version).unwrap();
    found
}

#[test]
fn an_older_program_leaves_a_newer_store_alone_and_says_what_helps() {
    let env = used();
    let before = answers(&env);
    let own = set_version(&env, 1_000);
    let store = env.path("data/subscope/store.db");
    let bytes = fs::read(&store).unwrap();
    for command in
        ["ls", "tree last", "search bug", "stats", "index", "forget 5fc6934e", "doctor --repair", "serve"]
    {
        let ran = run(&env, command, &[]);
        assert_eq!(ran.code, Some(1), "{command}: {}", ran.stderr);
        let says = format!("has schema version 1000, this version of subscope reads 1 to {own}");
        assert!(ran.stderr.contains(&says), "{command}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("use the newer subscope") && ran.stderr.contains("do not delete"),
            "{}",
            ran.stderr
        );
    }
    assert!(run(&env, "doctor", &[]).stdout.contains("has schema version 1000"));
    assert!(fs::read(&store).unwrap() == bytes, "the file is as it was");
    // What works meanwhile.
    assert_eq!(run_with_stdin(&env, "hook", &[], END).code, Some(0));
    let recorded = fixtures::recording("2.1.330", "b-parallel");
    let transcript =
        recorded.conversation().into_iter().find(|file| file.extension().is_some_and(|it| it == "jsonl"));
    run(&env, "tree", &[transcript.unwrap().as_path()]).success();
    let mut elsewhere = env.command();
    let ran =
        elsewhere.env("SUBSCOPE_DATA_DIR", env.path("elsewhere")).args(["ls", "--json"]).output().unwrap();
    let list = json(&String::from_utf8(ran.stdout).unwrap());
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "{list}");
    // The newer program has everything, and the event that waited.
    set_version(&env, own);
    assert_eq!(answers(&env), before);
    let serving = Serving::start(&env, "");
    serving.has_read();
    stop(&env, serving);
    let tree = json(&run(&env, "tree 5fc6934e --json", &[]).success());
    assert_eq!(tree["agents"][0]["status"], "completed", "{tree}");
}

#[test]
fn an_address_that_needs_a_token_is_named_by_doctor_and_by_each_command() {
    let env = env();
    env.adopt(&fixtures::recording("2.1.330", "b-parallel"));
    env.write("config/subscope/config.toml", "[hub]\nlisten = \"0.0.0.0:0\"\n");
    let doctor = run(&env, "doctor", &[]).stdout;
    assert!(doctor.contains("! settings   hub.listen is 0.0.0.0:0: no command can start"), "{doctor}");
    let ran = env.command().env_remove("SUBSCOPE_NO_AUTOSTART").arg("ls").output().unwrap();
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(stderr.contains("has ended: 0.0.0.0:0 needs a token"), "{stderr}");
}

#[test]
fn where_home_cannot_be_written_another_data_folder_helps() {
    let env = env();
    env.adopt(&fixtures::recording("2.1.330", "b-parallel"));
    // Nobody can make a folder below a file, root neither.
    fs::remove_dir(env.path("data")).unwrap();
    env.write("data", "");
    for command in ["ls", "search a", "tree last"] {
        let ran = run(&env, command, &[]);
        assert_eq!(ran.code, Some(1), "{command}: {}", ran.stderr);
        let folder = env.path("data/subscope");
        assert!(ran.stderr.contains(folder.to_str().unwrap()), "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains("SUBSCOPE_DATA_DIR names another folder"), "{command}: {}", ran.stderr);
    }
    let with_folder = |words: &[&str], folder: &Path| {
        let ran = env.command().env("SUBSCOPE_DATA_DIR", folder).args(words).output().unwrap();
        assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    let folder = env.path("tmp/store");
    assert_eq!(json(&with_folder(&["ls", "--json"], &folder))["sessions"].as_array().unwrap().len(), 1);
    with_folder(&["export", "last", "--as", "html", "-o", "session.html"], &folder);
    assert!(env.path("work/session.html").is_file());
}

#[test]
fn a_store_that_cannot_be_written_still_answers() {
    let env = used();
    let before = ["ls --json", "search bug --json", "stats --json", "tree last --json"]
        .map(|words| (words, run(&env, words, &[]).success()));
    let on_a_read_only_disk = |words: &str, flags: &[&str]| {
        let script = "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" && exec \"$@\"";
        let mut command = env.command_of("/usr/bin/unshare");
        command.args(flags).args(["/bin/sh", "-c", script]).arg(env.path("data"));
        command.arg(env!("CARGO_BIN_EXE_subscope")).args(words.split(' '));
        subscope_testkit::env::run(command, b"")
    };
    let flags: [&[&str]; 2] = [&["--mount"], &["--map-root-user", "--mount"]];
    let Some(flags) = flags.into_iter().find(|flags| {
        let mut command = env.command_of("/usr/bin/unshare");
        command.args(*flags).args(["mount", "-t", "tmpfs", "tmpfs"]).arg(env.path("tmp"));
        command.output().is_ok_and(|tried| tried.status.success())
    }) else {
        subscope_testkit::skip::not_here("this system lets the test mount no disk of its own");
        return;
    };
    for (words, expected) in before {
        let ran = on_a_read_only_disk(words, flags);
        assert_eq!((ran.code, json(&ran.stdout)), (Some(0), json(&expected)), "{words}: {}", ran.stderr);
        let said = "what is new since is not stored and may be missing";
        assert!(ran.stderr.contains(said), "{words}: {}", ran.stderr);
    }
}
