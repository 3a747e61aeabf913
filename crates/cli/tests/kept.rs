//! Archive, retention, `forget`, and copied sessions, when the harness deletes its files.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, UNIX_EPOCH},
};

use common::{
    env, json, run,
    serving::{LIMIT, Serving},
    told,
};
use serde_json::Value;
use subscope_hub::clock;
use subscope_testkit::{
    env::{Ran, TestEnv},
    fixtures::{self, recording},
    lines::transcript,
};

fn answer(env: &TestEnv, words: &str) -> Value {
    let ran = run(env, words, &[]);
    assert_eq!(told(&ran), (0, ""), "{words}");
    json(&ran.stdout)
}

fn sessions(env: &TestEnv) -> Vec<Value> {
    answer(env, "ls --json -n 1000")["sessions"].as_array().unwrap().clone()
}

fn projects(env: &TestEnv) -> PathBuf {
    env.home().join(".claude/projects")
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The archive of the store that [`kept`] names.
fn archive(env: &TestEnv) -> PathBuf {
    env.path("kept").join("archive")
}

/// A forgotten session does not come back with a hub that follows its transcript, until it goes on.
#[test]
fn forgotten_session_with_a_recent_transcript_comes_back_only_when_it_goes_on() {
    let (env, recording) = (env(), recording("2.1.330", "c-nested"));
    env.adopt(&recording);
    let id = recording.truth().session.id;
    let main = projects(&env).join(recording.mains()[0].strip_prefix(recording.projects()).unwrap());
    // A hub that followed it has left nothing but its rows.
    let serving = Serving::start(&env, "");
    serving.has_read();
    assert!(serving.tree(&id).is_some());
    serving.end("-TERM");
    assert_eq!(run(&env, &format!("forget {id}"), &[]).success(), "1 session forgotten\n");
    for _ in 0..2 {
        let serving = Serving::start(&env, "");
        serving.has_read();
        assert!(serving.tree(&id).is_none(), "it comes back unasked");
        assert_eq!(serving.json("/api/v1/sessions")["sessions"].as_array().unwrap().len(), 0);
        serving.end("-TERM");
    }
    let serving = Serving::start(&env, "");
    serving.has_read();
    let line = fixtures::text(&main).lines().next_back().unwrap().replace("\"uuid\":\"", "\"uuid\":\"f");
    OpenOptions::new().append(true).open(&main).unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    let began = clock::tick();
    while serving.tree(&id).is_none() {
        assert!(began.elapsed() < LIMIT, "it goes on, and stays forgotten");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(serving.tree(&id).unwrap()["summary"]["agents"], recording.truth().summary.agents);
    serving.end("-TERM");
}

/// Words of a command with the store in a folder of the test's own.
fn kept(env: &TestEnv, words: &str) -> String {
    format!("{words} --store {}", env.path("kept").display())
}

#[test]
fn an_archived_session_stays_readable_when_its_files_are_gone() {
    let env = env();
    env.adopt(&recording("2.1.330", "c-nested"));
    let truth = recording("2.1.330", "c-nested").truth();
    let id = &truth.session.id;
    let whole = |words: &str| answer(&env, &kept(&env, words));
    assert_eq!(whole("index --archive --json")["problems"], 0);
    let originals = files(&projects(&env)).into_iter().filter(|path| path.to_string_lossy().contains(&**id));
    let originals: Vec<PathBuf> = originals.collect();
    assert_eq!(files(&archive(&env)).len(), originals.len());
    for path in &originals {
        assert_eq!(fs::metadata(path).unwrap().nlink(), 1, "{}: bytes that nobody writes", path.display());
    }
    let before = [
        whole(&format!("tree {id} --json")),
        whole(&format!("show {id}/root --json")),
        whole("search the --json -n 1000"),
        whole("ls --json"),
        whole("stats --json"),
    ];
    fs::remove_dir_all(projects(&env)).unwrap();
    let after = [
        whole(&format!("tree {id} --json")),
        whole(&format!("show {id}/root --json")),
        whole("search the --json -n 1000"),
        whole("ls --json"),
        whole("stats --json"),
    ];
    let rows = |tree: &Value| {
        let mut rows = tree["agents"].as_array().unwrap().clone();
        // One is derived from files, the other comes from the store: only the latter has a rev.
        rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("rev")));
        rows
    };
    assert_eq!(rows(&after[0]), rows(&before[0]));
    assert_eq!(after[1..], before[1..]);
    let hits = after[2]["hits"].as_array().unwrap();
    assert!(hits.len() > 10 && hits.iter().all(|hit| hit["snippet"] != "(its file is gone)"));
    let packed = files(&archive(&env));
    assert_eq!(packed.len(), originals.len());
    assert!(packed.iter().all(|path| path.extension().is_some_and(|ending| ending == "zst")));
    // Output made from the files is made from the archive.
    let feed = run(&env, &kept(&env, &format!("export {id} --as feed")), &[]);
    assert_eq!(told(&feed), (0, ""));
    assert!(feed.stdout.contains(&*truth.agents.last().unwrap().id));
    let began = &before[0]["session"]["started_at_ms"];
    let at = whole(&format!("tree {id} --json --at {}", began.as_i64().unwrap() + 1));
    assert_eq!((&at["session"]["started_at_ms"], at["agents"].as_array().unwrap().len()), (began, 1));
    // After a change of rules all rows are derived again from the archive.
    let bundled = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/prices.toml")).unwrap();
    env.write("dear.toml", dearer(&bundled));
    let dear = |words: &str| {
        let mut command = env.command();
        command.env("SUBSCOPE_PRICES", env.path("dear.toml"));
        command.args(kept(&env, words).split_whitespace());
        json(&subscope_testkit::env::run(command, b"").success())
    };
    // The harness's own sum stays that of the session; each agent's is ten times as much, to the micro-dollar.
    let root = dear(&format!("show {id}/root --json"));
    let cheap = before[1]["cost_micro_usd"].as_i64().unwrap();
    assert!((root["cost_micro_usd"].as_i64().unwrap() - cheap * 10).abs() <= 100, "{cheap}: {root}");
    let dear = dear("stats --json");
    assert_eq!(dear["total"]["cost_micro_usd"], before[4]["total"]["cost_micro_usd"]);
    assert_eq!(dear["total"]["tool_calls"], before[4]["total"]["tool_calls"]);
    // Forgetting takes the archive's part too.
    let ran = run(&env, &kept(&env, &format!("forget {id}")), &[]);
    assert_eq!(ran.stdout, "1 session forgotten\n", "{}", ran.stderr);
    assert_eq!(files(&archive(&env)), [] as [PathBuf; 0]);
    assert_eq!(whole("ls --json")["sessions"], Value::Array(Vec::new()));
    assert_eq!(run(&env, &kept(&env, "search the"), &[]).code, Some(1));
}

/// The same prices with a 0 more.
fn dearer(prices: &str) -> String {
    let raised = |part: &str| match part.find(" }") {
        _ if part.contains("tokens") => part.to_owned(),
        Some(end) => format!("{}0{}", &part[..end], &part[end..]),
        None => part.replace(',', "0,"),
    };
    let is_price = |line: &&str| line.starts_with('"');
    let line = |line: &str| line.split_inclusive(',').map(raised).collect();
    prices.lines().map(|text| if is_price(&text) { line(text) } else { text.to_owned() } + "\n").collect()
}

#[test]
fn without_an_archive_nothing_is_kept_of_the_files() {
    let env = env();
    env.adopt(&recording("2.1.330", "a-single"));
    answer(&env, &kept(&env, "index --json"));
    assert_eq!(files(&archive(&env)), [] as [PathBuf; 0]);
}

#[test]
fn a_damaged_archive_is_told_and_harms_nothing() {
    let env = env();
    env.adopt(&recording("2.1.330", "a-single"));
    let before = answer(&env, &kept(&env, "index --archive --json"));
    assert_eq!(before["sessions"], 1);
    let rows = answer(&env, &kept(&env, "ls --json"));
    fs::remove_dir_all(projects(&env)).unwrap();
    answer(&env, &kept(&env, "ls --json"));
    for path in files(&archive(&env)) {
        fs::write(path, b"nothing of ours").unwrap();
    }
    assert_eq!(
        run(&env, &kept(&env, "ls --json"), &[]).stdout,
        run(&env, &kept(&env, "ls --json"), &[]).stdout
    );
    assert_eq!(answer(&env, &kept(&env, "ls --json")), rows, "rows stay as they are");
    let ran = run(&env, &kept(&env, "index --json"), &[]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("damaged"), "{}", ran.stderr);
}

/// A session of 1990 and one of the recordings.
fn old_and_new() -> (TestEnv, PathBuf) {
    let env = env();
    env.adopt(&recording("2.1.330", "a-single"));
    let at = |line: subscope_testkit::lines::Line| {
        line.session("aaaa1990-old").set("timestamp", "1990-01-01T00:00:00.000Z")
    };
    let text: String = [
        at(transcript::user("A question of long ago, about dinosaurs.")),
        at(transcript::assistant("All gone.").stop("end_turn")),
    ]
    .into_iter()
    .map(|line| format!("{}\n", line.line()))
    .collect();
    let path = projects(&env).join("-old/aaaa1990-old.jsonl");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    (env, path)
}

/// Far beyond what the recordings' age can be, and far less than that of 1990.
const DAYS: &str = "10000";

#[test]
fn sessions_older_than_they_are_kept_for_are_forgotten_once() {
    let (env, path) = old_and_new();
    answer(&env, "index --archive --json");
    assert_eq!(sessions(&env).len(), 2);
    assert_eq!(run(&env, "search dinosaurs", &[]).code, Some(0));
    let done = answer(&env, &format!("index --archive --keep-days {DAYS} --json"));
    assert_eq!(done["forgotten"], 1);
    let ids = |env: &TestEnv| sessions(env).iter().map(|row| row["id"].clone()).collect::<Vec<_>>();
    let truth = recording("2.1.330", "a-single").truth();
    assert_eq!(ids(&env), [Value::from(&*truth.session.id)]);
    assert_eq!(run(&env, "search dinosaurs", &[]).code, Some(1), "its words are gone");
    assert_eq!(fs::metadata(&path).unwrap().nlink(), 1, "the archive's name of it is gone");
    let again = answer(&env, &format!("index --archive --keep-days {DAYS} --json"));
    assert_eq!((&again["forgotten"], &again["sessions"]), (&0.into(), &0.into()), "and it stays away");
    assert_eq!(fs::metadata(&path).unwrap().nlink(), 1);
    // By the settings, without the option; off by default.
    env.write("config/subscope/config.toml", format!("[store]\nkeep_days = {DAYS}\narchive = true\n"));
    let shown = run(&env, "config", &[]).stdout;
    assert!(shown.contains("\nkeep_days = 10000") && shown.contains("\narchive = true"), "{shown}");
    for wrong in ["0", "-3", "many"] {
        assert_eq!(env.run(&["index", "--keep-days", wrong]).code, Some(2), "{wrong}");
    }
}

#[test]
fn what_is_too_old_is_not_even_read() {
    let (env, path) = old_and_new();
    let long_ago = UNIX_EPOCH + Duration::from_secs(20 * 365 * 86_400);
    fs::File::options().append(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    let done = answer(&env, &format!("index --keep-days {DAYS} --json"));
    assert_eq!((&done["sessions"], &done["forgotten"]), (&1.into(), &0.into()));
    assert_eq!(sessions(&env).len(), 2, "the next index without a limit reads it");
}

#[test]
fn a_copied_history_counts_once_on_every_face() {
    let env = env();
    let from = fixtures::root().join("copies/1.0.60/resume/projects/-home-user-shop");
    let folder = projects(&env).join("-home-user-shop");
    fs::create_dir_all(&folder).unwrap();
    for path in files(&from) {
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    let truth = json(&fs::read_to_string(fixtures::root().join("copies/1.0.60/resume/truth.json")).unwrap());
    let tokens = truth["total_tokens"].as_i64().unwrap();
    let sum = |trees: &[Value]| {
        let of = |tree: &Value| tree["summary"]["usage"]["total_tokens"].as_i64().unwrap();
        trees.iter().map(of).sum::<i64>()
    };
    // Several targets, without a store.
    let paths = files(&folder);
    let targets: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let ran = run(&env, "tree --json", &targets);
    assert_eq!(told(&ran), (0, ""));
    let documents = serde_json::Deserializer::from_str(&ran.stdout).into_iter::<Value>();
    let trees: Vec<Value> = documents.map(Result::unwrap).collect();
    assert_eq!((trees.len(), sum(&trees)), (3, tokens));
    let began: Vec<i64> =
        trees.iter().map(|tree| tree["session"]["started_at_ms"].as_i64().unwrap()).collect();
    assert!(began.is_sorted(), "those that began first come first");
    let shown = run(&env, "tree", &targets).stdout;
    assert_eq!(shown.matches("Agent Tree").count(), 3, "{shown}");
    assert!(shown.contains("copied"), "{shown}");
    assert_eq!(run(&env, "tree --agent root", &targets).code, Some(2));
    // Everything that is kept.
    let rows = sessions(&env);
    let listed = rows.iter().map(|row| row["usage"]["total_tokens"].as_i64().unwrap()).sum::<i64>();
    assert_eq!(
        (listed, &answer(&env, "stats --json")["total"]["usage"]["total_tokens"]),
        (tokens, &tokens.into())
    );
    // One session by its id: the store says which calls are copies.
    let named: Vec<Value> = rows
        .iter()
        .map(|row| answer(&env, &format!("tree --json {}", row["id"].as_str().unwrap())))
        .collect();
    assert_eq!(sum(&named), tokens);
}

/// The compressed files of the archive.
fn compressed(env: &TestEnv) -> Vec<PathBuf> {
    let is_compressed = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "zst");
    files(&archive(env)).into_iter().filter(is_compressed).collect()
}

/// Enough for three frames of the archive.
const MESSAGES: usize = 800;

/// A session of many messages in one transcript that the archive alone has, in several frames. Returns its id.
fn long_session_gone(env: &TestEnv) -> &'static str {
    let id = "bbbb0000-long";
    let lines = (0..MESSAGES).map(|number| {
        let line = if number == 0 {
            transcript::user("Count.")
        } else {
            transcript::assistant(&format!("This is message {number:04}. {}", "So on. ".repeat(100)))
                .stop("end_turn")
        };
        format!("{}\n", line.session(id).set("timestamp", "2026-11-01T10:00:00.000Z").line())
    });
    let path = projects(env).join(format!("-long/{id}.jsonl"));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, lines.collect::<String>()).unwrap();
    answer(env, &kept(env, "index --archive --json"));
    fs::remove_file(&path).unwrap();
    answer(env, &kept(env, "index --json"));
    id
}

#[test]
fn a_damaged_frame_is_named_with_its_file_and_the_others_are_read() {
    let env = env();
    let id = long_session_gone(&env);
    let rows = answer(&env, &kept(&env, "ls --json"));
    let healthy = run(&env, &kept(&env, "doctor"), &[]);
    assert!(
        healthy.stdout.contains("1 compressed transcripts; all checksums are right"),
        "{}",
        healthy.stdout
    );
    let feed = |options: &str| run(&env, &kept(&env, &format!("export {id} --as feed {options}")), &[]);
    let messages = |ran: &Ran| ran.stdout.matches("This is message ").count();
    let whole = feed("");
    assert_eq!((told(&whole), messages(&whole)), ((0, ""), MESSAGES - 1));

    let [path] = &compressed(&env)[..] else { panic!("one transcript is one file") };
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(path, &bytes).unwrap();

    let rest = feed("");
    assert_eq!(rest.code, Some(0), "{}", rest.stderr);
    let place = format!("{}: damaged archive: lost bytes ", path.display());
    let unread = format!("{}: cannot be read: damaged archive: lost bytes ", path.display());
    assert!(rest.stderr.contains(&unread), "{}", rest.stderr);
    assert!(rest.stdout.contains("message 0001.") && rest.stdout.contains("message 0799."));
    assert!((MESSAGES / 3..MESSAGES - 100).contains(&messages(&rest)), "{} are left", messages(&rest));
    assert_eq!(feed("--strict").code, Some(3));
    let doctor = run(&env, &kept(&env, "doctor"), &[]);
    assert_eq!(doctor.code, Some(1));
    assert!(doctor.stdout.contains(&place), "{}", doctor.stdout);

    // Other rules: rows that were made of all of it are not replaced by what is left.
    let bundled = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/prices.toml")).unwrap();
    env.write("dear.toml", dearer(&bundled));
    let mut command = env.command();
    command.env("SUBSCOPE_PRICES", env.path("dear.toml"));
    command.args(kept(&env, "index --json").split_whitespace());
    let again = subscope_testkit::env::run(command, b"");
    assert!(again.code == Some(0) && again.stderr.contains(&unread), "{}", again.stderr);
    assert_eq!(answer(&env, &kept(&env, "ls --json")), rows);
}

#[test]
fn an_archive_that_lost_its_end_gives_what_is_left_and_keeps_the_rows() {
    let env = env();
    let id = long_session_gone(&env);
    let rows = answer(&env, &kept(&env, "ls --json"));
    let [path] = &compressed(&env)[..] else { panic!("one transcript is one file") };
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() * 3 / 4]).unwrap();
    let feed = run(&env, &kept(&env, &format!("export {id} --as feed")), &[]);
    assert!(feed.code == Some(0) && feed.stdout.contains("This is message 0001."), "{}", feed.stderr);
    let unread = format!("{}: cannot be read: damaged archive: unreadable seek table", path.display());
    assert!(feed.stderr.contains(&unread), "{}", feed.stderr);
    let place = format!("{}: damaged archive: unreadable seek table", path.display());
    let again = run(&env, &kept(&env, "index --json"), &[]);
    assert!(again.code == Some(0) && again.stderr.contains(&place), "{}", again.stderr);
    assert_eq!(answer(&env, &kept(&env, "ls --json")), rows);
}

#[test]
fn an_archive_of_an_older_version_is_read_and_gets_checksums() {
    let env = env();
    env.adopt(&recording("2.1.330", "a-single"));
    let id = recording("2.1.330", "a-single").truth().session.id;
    answer(&env, &kept(&env, "index --archive --json"));
    fs::remove_dir_all(projects(&env)).unwrap();
    answer(&env, &kept(&env, "index --json"));
    let feed = || {
        let ran = run(&env, &kept(&env, &format!("export {id} --as feed")), &[]);
        assert_eq!(told(&ran), (0, ""));
        ran.stdout
    };
    let before = feed();
    let old = files(&fixtures::root().join("archive/without-checksums"));
    let of_old = |path: &Path| {
        let same = old.iter().find(|old| old.file_name() == path.file_name());
        fs::read(same.unwrap()).unwrap()
    };
    for path in compressed(&env) {
        fs::write(&path, of_old(&path)).unwrap();
    }
    assert_eq!(feed(), before);
    let doctor = |expected: &str| {
        let ran = run(&env, &kept(&env, "doctor"), &[]);
        assert!(ran.code == Some(0) && ran.stdout.contains(expected), "{}{}", ran.stdout, ran.stderr);
    };
    doctor("3 compressed transcripts, 3 of an older version without checksums");
    answer(&env, &kept(&env, "index --json"));
    doctor("3 compressed transcripts; all checksums are right");
    assert_eq!(feed(), before);
    assert!(compressed(&env).iter().all(|path| fs::read(path).unwrap() != of_old(path)));
}
