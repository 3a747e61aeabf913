//! A home in which nine harnesses keep their sessions: every question is answered over all of them, one hub follows all of
//! them at once, and no damage to their files takes anything away.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod connections;
mod crush;
mod damage;
mod home;
mod objects;
mod openclaw;
mod tasks;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io::Write,
    path::PathBuf,
    thread,
};

use common::{
    env, json as parsed,
    serving::{LIMIT, Serving},
};
use home::{CLAUDE_CODE, FORK, OTHERS, Placed, all_ids, assert_same, database, files, recorded, rows, write};
use serde_json::Value;
use subscope_hub::clock;
use subscope_render::text;
use subscope_testkit::{
    fixtures::{self, recording},
    others::{OtherRecording, differences, other_recordings},
};

/// Recordings with files and hooks that a hub takes, each with where its files go.
fn hooked() -> Vec<(OtherRecording, PathBuf)> {
    let folder = |name: &str, on_disk: &str| {
        let same = |(other, below, _): &&(&str, &str, &str)| {
            other.split('/').next() == name.split('/').next() && *below == on_disk
        };
        OTHERS.iter().find(same).map(|(.., to)| PathBuf::from(to))
    };
    let placed = |recording: OtherRecording| {
        let on_disk = recording.on_disk.file_name()?.to_str()?.to_owned();
        let to = folder(&recording.name(), &on_disk)?;
        let is_taken = subscope_harness::hooks_of(recording.harness).is_some();
        (is_taken && recording.folder.join("hooks.jsonl").is_file() && recording.on_disk.is_dir())
            .then_some((recording, to))
    };
    other_recordings().into_iter().filter_map(placed).collect()
}

/// A session at rest whose hooks arrive: a hub reads its files again, one by one, some of which may be gone.
#[test]
fn hooks_of_sessions_at_rest_make_no_others_of_them() {
    let all = hooked();
    let kinds: BTreeSet<&str> = all.iter().map(|(recording, _)| recording.harness).collect();
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    for has_mains in [true, false] {
        let env = env();
        let mut mains = Vec::new();
        for (recording, to) in &all {
            for file in fixtures::files_below(&recording.on_disk) {
                let to = env.path(to.join(file.strip_prefix(&recording.on_disk).unwrap()).to_str().unwrap());
                write(&to, &fixtures::bytes(&file));
                fs::File::options().write(true).open(&to).unwrap().set_modified(at_rest()).unwrap();
                mains.extend(
                    (subscope_harness::classify(&to).role == subscope_harness::Role::Main).then_some(to),
                );
            }
        }
        env.run(&["index"]).success();
        let before = rows(&env);
        assert!(before.len() >= all.len(), "{before:#?}");
        if !has_mains {
            mains.iter().for_each(|main| fs::remove_file(main).unwrap());
        }
        let serving = Serving::start(&env, "");
        serving.has_read();
        for (recording, _) in &all {
            let hooks = String::from_utf8(fixtures::bytes(&recording.folder.join("hooks.jsonl"))).unwrap();
            for line in hooks.replace("/home/user", env.path("home").to_str().unwrap()).lines() {
                serving.post(&format!("/hooks/{}", recording.harness), "", line.as_bytes());
            }
        }
        let live = rows(&env);
        serving.end("-TERM");
        assert_same(&live, &before, &format!("live, main files: {has_mains}"));
        assert_same(&rows(&env), &before, &format!("afterwards, main files: {has_mains}"));
    }
}

fn at_rest() -> std::time::SystemTime {
    std::time::UNIX_EPOCH + std::time::Duration::from_millis(clock::now_ms().unsigned_abs())
        - std::time::Duration::from_secs(5 * 86_400)
}

/// Sessions, by what is in the home: files that are placed there.
fn listed_ids(home: &[Placed], first: &[&str]) -> BTreeSet<String> {
    let env = env();
    for file in home {
        write(&env.path(file.to.to_str().unwrap()), &file.bytes);
    }
    if !first.is_empty() {
        env.run(first).success();
    }
    let page = parsed(&env.run(&["ls", "--json"]).success());
    let rows = page["sessions"].as_array().unwrap();
    let found: BTreeSet<String> = rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect();
    let doctor = env.run(&["doctor"]).stdout;
    assert_eq!(found.is_empty(), doctor.contains("none found"), "{doctor}");
    found
}

#[test]
fn a_first_list_has_what_an_index_finds() {
    let claude = recording(CLAUDE_CODE.0, CLAUDE_CODE.1);
    let mut homes: Vec<(PathBuf, &str)> = vec![(claude.projects(), "home/.claude/projects")];
    homes.extend(OTHERS.iter().map(|(name, on_disk, to)| (recorded(name).folder.join(on_disk), *to)));
    let placed = |(from, to): &(PathBuf, &str)| {
        let files = if from.is_file() { vec![from.clone()] } else { fixtures::files_below(from) };
        let place = |file: PathBuf| {
            let below = file.strip_prefix(from).unwrap().iter();
            Placed {
                to: below.fold(PathBuf::from(to), |to, part| to.join(part)),
                bytes: fixtures::bytes(&file),
            }
        };
        files.into_iter().map(place).collect::<Vec<Placed>>()
    };
    let mut cases: Vec<(String, Vec<Placed>)> =
        homes.iter().map(|home| (home.1.to_owned(), placed(home))).collect();
    // Layouts of other versions, and a file that is one folder too high.
    let session = "aaaaaaaa-1111-4222-8333-444455556666";
    let is_main = |file: &&Placed| file.to.ends_with("events.jsonl");
    let events = cases.iter().flat_map(|(_, files)| files).find(is_main).unwrap().bytes.clone();
    let to = PathBuf::from(format!("home/.copilot/session-state/{session}.jsonl"));
    cases.push(("flat".to_owned(), vec![Placed { to, bytes: events }]));
    let main = &claude.mains()[0];
    let to = PathBuf::from("home/.claude/projects").join(main.file_name().unwrap());
    cases.push(("no project".to_owned(), vec![Placed { to, bytes: fixtures::bytes(main) }]));
    let children = cases[1].1.iter().filter(|file| {
        let first = String::from_utf8_lossy(&file.bytes);
        first.lines().next().unwrap_or_default().contains("parent_thread_id")
    });
    let children = children.map(|file| Placed { to: file.to.clone(), bytes: file.bytes.clone() }).collect();
    cases.push(("children".to_owned(), children));
    for (name, extension, _) in tasks::EXTENSIONS {
        cases.push((name.to_owned(), tasks::placed(extension)));
    }
    for (name, home) in cases {
        let first = listed_ids(&home, &[]);
        assert!(!first.is_empty(), "{name}: no session");
        assert_eq!(first, listed_ids(&home, &["index"]), "{name}");
    }
}

#[test]
fn every_question_is_answered_over_all_harnesses() {
    let env = env();
    files(&env).iter().for_each(|file| write(&file.to, &file.bytes));
    let (from, to) = database(&env);
    write(&to, &fixtures::bytes(&from));
    write(&env.path(FORK.2), &fixtures::bytes(&recorded(FORK.0).folder.join(FORK.1)));
    env.run(&["index"]).success();
    let listed = parsed(&env.run(&["ls", "--json"]).success());
    let rows = listed["sessions"].as_array().unwrap();
    let harnesses: BTreeSet<&str> = rows.iter().map(|row| row["harness"].as_str().unwrap()).collect();
    let expected =
        ["claude-code", "cline", "codex", "copilot", "gemini", "kilo", "kimi", "omp", "opencode", "qwen"];
    assert_eq!(harnesses.iter().copied().collect::<Vec<_>>(), expected);
    assert_eq!(rows.len(), 10);
    let last = parsed(&env.run(&["tree", "last", "--json"]).success());
    assert_eq!(last["session"]["id"], rows[0]["id"], "{}", rows[0]);
    let stats = parsed(&env.run(&["stats", "--json"]).success());
    let by_harness: BTreeSet<&str> = stats["by_harness"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["harness"].as_str().or(row["name"].as_str()).unwrap())
        .collect();
    assert_eq!(by_harness, harnesses);
    // Each of the scripts of the other harnesses begins with this prompt.
    let hits = parsed(&env.run(&["search", "ROOT", "--kind", "prompt", "--json"]).success());
    let found: BTreeSet<&str> =
        hits["hits"].as_array().unwrap().iter().map(|hit| hit["session_id"].as_str().unwrap()).collect();
    for (name, ..) in OTHERS {
        let truth = recorded(name).truth;
        assert!(found.contains(truth["session"]["id"].as_str().unwrap()), "{name}: {found:?}");
    }
    for (name, ..) in OTHERS.iter().chain([&FORK]) {
        let truth = recorded(name).truth;
        let session = truth["session"]["id"].as_str().unwrap();
        let tree = parsed(&env.run(&["tree", session, "--json"]).success());
        assert_eq!(differences(&tree, &truth, true), [""; 0], "{name}");
        let agent = truth["agents"][1]["id"].as_str().unwrap();
        let shown = env.run(&["show", &format!("{session}/{agent}")]).success();
        for tool in truth["agents"][1]["tools"].as_array().unwrap() {
            assert!(shown.contains(tool["name"].as_str().unwrap()), "{name}: {shown}");
        }
        let replayed = env.run(&["replay", session, "--plain", "--speed", "10000"]).success();
        assert!(!replayed.is_empty(), "{name}");
        for format in ["trace", "feed", "csv", "html", "otlp"] {
            let exported = env.run(&["export", session, "--as", format]).success();
            assert!(
                exported.contains(agent) || format == "otlp" && exported.len() > 1_000,
                "{name} {format}"
            );
        }
    }
}

/// A session's cost, with the mark of a lower bound, is the same in its tree, in lists and in statistics, with the prices of
/// all models and with that of one.
#[test]
fn costs_of_six_harnesses_are_the_same_wherever_they_are_shown() {
    let price = "'claude-opus-5-5' = { input = 5000000, output = 25000000, cache_read = 500000, cache_write = 6250000, cache_write_1h = 10000000 }";
    let mut seen = BTreeSet::new();
    for settings in ["", "prices = 'one.toml'\n"] {
        let env = env();
        files(&env).iter().for_each(|file| write(&file.to, &file.bytes));
        // One whose own total is known though models have no price, and one whose stored tokens are a lower bound.
        for (version, scenario) in [("2.1.330", "h-custom-thinking"), ("2.1.50", "b-parallel")] {
            let projects = recording(version, scenario).projects();
            for file in fixtures::files_below(&projects) {
                let to = env.path("home/.claude/projects").join(file.strip_prefix(&projects).unwrap());
                write(&to, &fixtures::bytes(&file));
            }
        }
        let (from, to) = database(&env);
        write(&to, &fixtures::bytes(&from));
        let one = format!("source = 'a test'\ndate = '2026-01-01'\n[models]\n{price}\n");
        write(&env.path("config/subscope/one.toml"), one.as_bytes());
        write(&env.path("config/subscope/config.toml"), settings.as_bytes());
        env.run(&["index"]).success();
        let listed = parsed(&env.run(&["ls", "--json"]).success());
        let shown = env.run(&["ls"]).success();
        let mut sums: BTreeMap<String, (i64, bool)> = BTreeMap::new();
        for row in listed["sessions"].as_array().unwrap() {
            let (id, harness) = (row["id"].as_str().unwrap(), row["harness"].as_str().unwrap());
            let tree = parsed(&env.run(&["tree", id, "--json"]).success());
            for field in ["cost_micro_usd", "cost_floor", "usage"] {
                assert_eq!(row[field], tree["summary"][field], "{harness}: {field}");
            }
            let cost = row["cost_micro_usd"].as_i64();
            let is_floor = row["cost_floor"].as_bool().unwrap();
            seen.insert((cost.is_some(), is_floor));
            let words = cost.map_or_else(|| "—".to_owned(), |cost| text::money(cost, is_floor));
            let line = shown.lines().find(|line| line.contains(&id[..8])).unwrap();
            assert_eq!(line.split_whitespace().last(), Some(&*words), "{harness}: {line}");
            let tree = env.run(&["tree", id]).success();
            let tokens = tree.lines().rfind(|line| line.starts_with("tokens")).unwrap_or_default();
            assert!(cost.is_none() || tokens.ends_with(&format!(" {words}")), "{harness}: {words}\n{tree}");
            let has_tokens = row["usage"]["total_tokens"].as_u64().unwrap_or(0) > 0;
            for name in [harness, "all"] {
                let sum = sums.entry(name.to_owned()).or_default();
                sum.0 += cost.unwrap_or(0);
                sum.1 |= is_floor || (cost.is_none() && has_tokens);
            }
        }
        let stats = parsed(&env.run(&["stats", "--json"]).success());
        let rows = stats["by_harness"].as_array().unwrap().iter().chain([&stats["total"]]);
        let figures = |row: &Value| (row["cost_micro_usd"].as_i64().unwrap(), row["cost_floor"] == true);
        let found: BTreeMap<String, (i64, bool)> =
            rows.map(|row| (row["name"].as_str().unwrap().to_owned(), figures(row))).collect();
        assert_eq!(found, sums);
        let shown = env.run(&["stats"]).success();
        let (sum, is_floor) = sums["all"];
        let total = shown.lines().nth(1).unwrap();
        assert_eq!(total.split_whitespace().last(), Some(&*text::money(sum, is_floor)), "{shown}");
    }
    let kinds = BTreeSet::from([(false, false), (true, false), (true, true)]);
    assert_eq!(seen, kinds, "unknown, known, lower bound");
}

/// Appends what is missing of a file, line by line.
fn append(file: &Placed, from: usize) {
    let mut open = OpenOptions::new().append(true).open(&file.to).unwrap();
    for line in file.bytes[from..].split_inclusive(|byte| *byte == b'\n') {
        open.write_all(line).unwrap();
        thread::yield_now();
    }
}

#[test]
fn one_hub_follows_six_harnesses_that_write_at_the_same_time() {
    let env = env();
    let all = files(&env);
    let middle = |file: &Placed| {
        let half = file.bytes.len() / 2;
        // A file that is one object is written as a whole.
        let is_lines = file.to.extension().is_some_and(|ending| ending == "jsonl");
        let end = file.bytes[half..].iter().position(|byte| *byte == b'\n').map(|at| half + at + 1);
        end.filter(|_| is_lines).unwrap_or(file.bytes.len())
    };
    let halves: Vec<usize> = all.iter().map(middle).collect();
    for (file, half) in all.iter().zip(&halves) {
        write(&file.to, &file.bytes[..*half]);
    }
    let (from, to) = database(&env);
    write(&to, &fixtures::bytes(&from));
    let writer = rusqlite::Connection::open(&to).unwrap();
    writer.pragma_update(None, "journal_mode", "wal").unwrap();
    writer
        .execute_batch(
            "CREATE TEMP TABLE later AS SELECT * FROM event WHERE rowid > (SELECT max(rowid) / 2 FROM event);
             DELETE FROM event WHERE rowid > (SELECT max(rowid) / 2 FROM event);
             UPDATE session SET time_updated = unixepoch() * 1000;",
        )
        .unwrap();
    let mut serving = Serving::start(&env, "");
    serving.has_read();
    let ids = all_ids();
    for id in &ids {
        assert!(serving.tree(id).is_some(), "{id} is not followed");
    }
    thread::scope(|scope| {
        for (file, half) in all.iter().zip(&halves) {
            scope.spawn(|| append(file, *half));
        }
        let rows: i64 = writer.query_row("SELECT count(*) FROM later", [], |row| row.get(0)).unwrap();
        for number in 1..=rows {
            let sql = "INSERT INTO event SELECT * FROM later WHERE later.rowid = ?1";
            writer.execute(sql, [number]).unwrap();
        }
    });
    let began = clock::tick();
    let wrong = |serving: &Serving| -> Vec<String> {
        let mut wrong = Vec::new();
        for (name, ..) in OTHERS {
            let truth = recorded(name).truth;
            let tree = serving.tree(truth["session"]["id"].as_str().unwrap()).unwrap_or_default();
            wrong.extend(differences(&tree, &truth, true).into_iter().map(|what| format!("{name}: {what}")));
        }
        let truth = recording(CLAUDE_CODE.0, CLAUDE_CODE.1).truth();
        let tree = serving.tree(&truth.session.id.to_string()).unwrap_or_default();
        let calls: Vec<&Value> =
            tree["agents"].as_array().into_iter().flatten().map(|row| &row["tool_calls"]).collect();
        let expected: Vec<Value> = truth.agents.iter().map(|agent| agent.tool_calls.into()).collect();
        if calls != expected.iter().collect::<Vec<_>>() {
            wrong.push(format!("Claude Code: {calls:?} instead of {expected:?}"));
        }
        wrong
    };
    loop {
        let wrong = wrong(&serving);
        if wrong.is_empty() {
            break;
        }
        assert!(began.elapsed() < LIMIT, "{}", wrong.join("\n"));
        thread::sleep(std::time::Duration::from_millis(50));
    }
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
}
