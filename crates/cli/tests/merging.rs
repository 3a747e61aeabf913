//! One session by its files, its stream and its hooks, through the real `serve`: whatever comes first, in whatever
//! pieces, and however often, the tree is the same, and it is that of the transcript with what only the others know.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::VecDeque,
    fs::{self, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime},
};

use common::{
    env, json,
    serving::{LIMIT, Serving},
};
use serde_json::Value;
use subscope_hub::clock;
use subscope_model::Millis;
use subscope_testkit::{
    env::TestEnv,
    fixtures::{self, Recording, bytes, recordings},
    random::Random,
};

/// A piece of a source, in the order of its source.
#[derive(Clone, Debug)]
enum Piece {
    /// Bytes appended to a file of the harness.
    Written { file: PathBuf, bytes: Vec<u8> },
    /// Bytes in a file of their own, written at once.
    Placed { file: PathBuf, bytes: Vec<u8> },
    /// A published event.
    Posted { path: String, delivery: String, received_ms: Millis, body: Vec<u8> },
}

/// Cuts bytes anywhere.
fn cut(bytes: &[u8], random: &mut Random) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let until = random.between(1, 1 + bytes.len() as u64 / 3).min(rest.len() as u64) as usize;
        pieces.push(rest[..until].to_vec());
        rest = &rest[until..];
    }
    pieces
}

/// Where the harness keeps a file of a recording.
fn place(recording: &Recording, env: &TestEnv, file: &Path) -> PathBuf {
    env.home().join(".claude/projects").join(file.strip_prefix(recording.projects()).unwrap())
}

/// Seed of the cuts of posts: equal in every order, since a post has one time of receipt.
const POSTS: u64 = 7;

/// The sources of a recording, each as its pieces.
fn sources(recording: &Recording, env: &TestEnv, random: &mut Random) -> Vec<VecDeque<Piece>> {
    let mut all = Vec::new();
    for file in recording.mains().into_iter().chain(recording.agents()) {
        let pieces = cut(&bytes(&file), random).into_iter();
        all.push(pieces.map(|bytes| Piece::Written { file: place(recording, env, &file), bytes }).collect());
    }
    for file in recording.metas() {
        all.push(VecDeque::from([Piece::Placed { file: place(recording, env, &file), bytes: bytes(&file) }]));
    }
    let (name, mut random) = (recording.name(), Random::new(POSTS));
    let mut posts = |file: PathBuf, path: String, most: u64| {
        let content = bytes(&file);
        let lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
        let times = recording.received(&file);
        let mut pieces = VecDeque::new();
        let mut at = 0;
        while at < lines.len() {
            let until = (at + random.between(1, most) as usize).min(lines.len());
            pieces.push_back(Piece::Posted {
                path: path.clone(),
                delivery: format!("{name}/{}/{at}", file.file_name().unwrap().to_string_lossy()),
                received_ms: times[at],
                body: lines[at..until].concat(),
            });
            at = until;
        }
        all.push(pieces);
    };
    for (number, file) in recording.streams().into_iter().enumerate() {
        posts(file, format!("/api/v1/ingest/claude.stream?source={name}/{number}"), 30);
    }
    posts(recording.hooks(), "/hooks/claude".to_owned(), 1);
    all
}

fn hand_over(serving: &Serving, piece: &Piece) {
    match piece {
        Piece::Written { file, bytes } => {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            OpenOptions::new().create(true).append(true).open(file).unwrap().write_all(bytes).unwrap();
        }
        Piece::Placed { file, bytes } => {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, bytes).unwrap();
        }
        Piece::Posted { path, delivery, received_ms, body } => {
            let headers =
                format!("x-subscope-delivery: {delivery}\r\nx-subscope-received-ms: {received_ms}\r\n");
            serving.post(path, &headers, body);
        }
    }
}

/// The session's main transcript names it.
fn session_of(recording: &Recording) -> String {
    recording.mains()[0].file_stem().unwrap().to_string_lossy().into_owned()
}

/// A tree without the numbers of what is kept.
fn lasting(mut tree: Value) -> Value {
    tree["session"].as_object_mut().unwrap().remove("rev");
    for row in tree["agents"].as_array_mut().into_iter().flatten() {
        row.as_object_mut().unwrap().remove("rev");
    }
    tree
}

/// The first place where two values differ, and how: all of both would be pages.
fn difference(one: &Value, other: &Value) -> Option<String> {
    if one == other {
        return None;
    }
    let below =
        |key: &str, one: &Value, other: &Value| difference(one, other).map(|at| format!("/{key}{at}"));
    match (one, other) {
        (Value::Object(ones), Value::Object(others)) => {
            let all = ones.keys().chain(others.keys());
            all.into_iter().find_map(|key| below(key, &one[key], &other[key]))
        }
        (Value::Array(ones), Value::Array(others)) if ones.len() == others.len() => {
            (0..ones.len()).find_map(|at| below(&at.to_string(), &ones[at], &others[at]))
        }
        _ => Some(format!(": {one} is not {other}")),
    }
}

/// Agents and calls of a transcript.
fn core(tree: &Value) -> Value {
    let fields = [
        "actor_id",
        "parent_id",
        "spawned_by",
        "depth",
        "type",
        "description",
        "model",
        "status",
        "tool_calls",
        "tool_errors",
        "tools_denied",
        "open_tools",
        "messages",
        "usage",
        "started_at_ms",
        "ended_at_ms",
        "intervals",
    ];
    let pick = |row: &Value, fields: &[&str]| -> Value {
        fields.iter().map(|field| ((*field).to_owned(), row[field].clone())).collect()
    };
    let by_id = |rows: &Value, pick: &dyn Fn(&Value) -> Value| -> Value {
        let rows = rows.as_array().unwrap().iter();
        rows.map(|row| (row["id"].as_str().unwrap_or_default().to_owned(), pick(row))).collect()
    };
    let call = |row: &Value| pick(row, &["name", "status", "started_at_ms", "ended_at_ms"]);
    by_id(&tree["agents"], &|row| {
        let mut agent = pick(row, &fields);
        agent["tools"] = by_id(&row["tools"], &call);
        agent
    })
}

/// The same of a tree, without data that the other lacks.
fn as_far_as(known: &Value, all: &Value) -> Value {
    match (known, all) {
        (Value::Null, _) => Value::Null,
        (Value::Object(fields), Value::Object(_)) => {
            fields.iter().map(|(name, value)| (name.clone(), as_far_as(value, &all[name]))).collect()
        }
        _ => all.clone(),
    }
}

/// A session by its files alone, and by all its sources in the plain order.
struct Expected {
    session: String,
    alone: Value,
    all: Value,
}

/// Every source in the plain order: files, then streams, then hooks.
fn in_order(recordings: &[Recording]) -> Vec<Expected> {
    let env = env();
    let serving = Serving::start(&env, "");
    let mut random = Random::new(0);
    recordings
        .iter()
        .map(|recording| {
            env.adopt(recording);
            let session = session_of(recording);
            let files = recording.conversation();
            let paths: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
            let alone = lasting(json(&common::run(&env, "tree --json", &paths).success()));
            let found = wait_for(&serving, &session, &alone);
            assert_eq!(difference(&found, &alone), None, "{} by its files", recording.name());
            let posts = sources(recording, &env, &mut random).into_iter().flatten();
            let posts = posts.filter(|piece| matches!(piece, Piece::Posted { .. }));
            posts.for_each(|piece| hand_over(&serving, &piece));
            let all = lasting(serving.tree(&session).unwrap());
            Expected { session, alone, all }
        })
        .collect()
}

/// The tree of a session once it is this one, or as it stays. Files are read as they are noticed.
fn wait_for(serving: &Serving, session: &str, expected: &Value) -> Value {
    let began = clock::tick();
    loop {
        let found = serving.tree(session).map_or(Value::Null, lasting);
        if found == *expected || began.elapsed() > LIMIT {
            return found;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Ingests all sources of these recordings concurrently, in an order drawn from the seed and some pieces twice. Returns
/// the differences of the trees.
fn differences(recordings: &[Recording], expected: &[Expected], seed: u64) -> Vec<String> {
    let env = env();
    let mut random = Random::new(seed);
    let serving = Serving::start(&env, "");
    let mut queues: Vec<VecDeque<Piece>> =
        recordings.iter().flat_map(|recording| sources(recording, &env, &mut random)).collect();
    let mut posted: Vec<Piece> = Vec::new();
    while !queues.is_empty() {
        let at = random.below(queues.len() as u64) as usize;
        // Some sources are ahead of the others for a while.
        for _ in 0..random.between(1, 12) {
            let Some(piece) = queues[at].pop_front() else { break };
            hand_over(&serving, &piece);
            if matches!(piece, Piece::Posted { .. }) {
                posted.push(piece);
            }
            if random.below(5) == 0 && !posted.is_empty() {
                let again = random.below(posted.len() as u64) as usize;
                hand_over(&serving, &posted[again]);
            }
        }
        if queues[at].is_empty() {
            queues.swap_remove(at);
        }
    }
    let mut differ = Vec::new();
    for (recording, expected) in recordings.iter().zip(expected) {
        let found = wait_for(&serving, &expected.session, &expected.all);
        let at = difference(&found, &expected.all);
        differ.extend(at.map(|at| format!("{}{at}", recording.name())));
    }
    serving.end("-TERM");
    differ
}

/// Orders of all recordings at once, where the variable says how many; else one order of a few, which is some seconds.
fn orders() -> (Vec<Recording>, u64) {
    let all = recordings();
    assert!(all.len() >= 44, "fixtures are missing");
    match std::env::var("SUBSCOPE_ORDERS") {
        Ok(count) => (all, count.parse().unwrap()),
        Err(_) => (all.into_iter().step_by(5).collect(), 1),
    }
}

#[test]
fn sessions_by_files_stream_and_hooks_are_the_same_in_any_order() {
    let (recordings, orders) = orders();
    let mut differ: Vec<String> = Vec::new();
    // The scripted service gave the same ids in each version's recordings: on one machine they would be copies.
    for recordings in recordings.chunk_by(|one, other| one.version == other.version) {
        let expected = in_order(recordings);
        for (recording, expected) in recordings.iter().zip(&expected) {
            let alone = core(&expected.alone);
            let at = difference(&as_far_as(&alone, &core(&expected.all)), &alone);
            differ.extend(at.map(|at| format!("all and transcript: {}{at}", recording.name())));
        }
        let seed =
            std::env::var("SUBSCOPE_SEED").map_or_else(|_| clock::now_ns(), |seed| seed.parse().unwrap());
        for seed in seed..seed + orders {
            println!("seed {seed}");
            let found = differences(recordings, &expected, seed);
            differ.extend(found.into_iter().map(|at| format!("seed {seed}: {at}")));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    println!("{} sessions are the same in {orders} orders", recordings.len());
}

#[test]
fn hook_of_a_session_that_nobody_follows_adds_to_it() {
    hooks_of_a_session_that_nobody_follows(true);
}

#[test]
fn hook_of_a_session_that_is_not_read_yet_adds_to_it() {
    hooks_of_a_session_that_nobody_follows(false);
}

fn hooks_of_a_session_that_nobody_follows(is_read: bool) {
    let recording = fixtures::recording("2.1.330", "c-nested");
    let env = env();
    env.adopt(&recording);
    // Long ago: such files are not followed until they are written.
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for file in recording.conversation() {
        let place = place(&recording, &env, &file);
        OpenOptions::new().append(true).open(place).unwrap().set_modified(long_ago).unwrap();
    }
    let session = session_of(&recording);
    let hooks = bytes(&recording.hooks());
    let lines = hooks.split_inclusive(|byte| *byte == b'\n');
    let files = recording.conversation();
    let paths: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let before = json(&common::run(&env, "tree --json", &paths).success());
    let mut serving = Serving::start(&env, "");
    if is_read {
        serving.has_read();
    }
    for (number, (line, at)) in lines.zip(recording.received(&recording.hooks())).enumerate() {
        let headers = format!("x-subscope-delivery: {number}\r\nx-subscope-received-ms: {at}\r\n");
        serving.post("/hooks/claude", &headers, line);
        if is_read {
            let tree = serving.tree(&session).unwrap();
            assert_eq!(difference(&core(&tree), &core(&before)), None, "after {number} hooks");
        }
    }
    serving.has_read();
    let tree = serving.tree(&session).unwrap();
    assert_eq!(difference(&core(&tree), &core(&before)), None);
    // Only what the hooks reported is published as new, nothing that only the files contain.
    let log = serving.json(&format!("/api/v1/sessions/{session}/events?limit=10000"));
    let kinds =
        |kind: &str| log["events"].as_array().unwrap().iter().filter(|event| event["kind"] == kind).count();
    assert_eq!((kinds("reasoning"), kinds("usage")), (0, 0), "{log}");
    assert_eq!(kinds("session.end"), 1, "{log}");
    // Calls that the files already contained are not published again, if they were read before the hooks arrived.
    assert!(!is_read || kinds("tool.pre") == 0, "{log}");
    // Rows stay what they are, also those of a process that was killed.
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
    let listed = json(&env.run(&["ls", "--json"]).success());
    assert_eq!(listed["sessions"][0]["tool_calls"], before["summary"]["tool_calls"]);
}

#[test]
fn hooks_of_several_sessions_at_once_tell_nothing_of_their_files_as_new() {
    let recordings = ["c-nested", "b-parallel"].map(|name| fixtures::recording("2.1.330", name));
    let env = env();
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let mut last = Vec::new();
    for recording in &recordings {
        env.adopt(recording);
        for file in recording.conversation() {
            let place = place(recording, &env, &file);
            OpenOptions::new().append(true).open(place).unwrap().set_modified(long_ago).unwrap();
        }
        let hooks = bytes(&recording.hooks());
        last.extend_from_slice(hooks.split_inclusive(|byte| *byte == b'\n').next_back().unwrap());
    }
    let serving = Serving::start(&env, "");
    serving.has_read();
    serving.post("/api/v1/ingest/claude.hook", "", &last);
    for recording in &recordings {
        let session = session_of(recording);
        assert!(
            serving.tree(&session).unwrap()["summary"]["tool_calls"].as_u64().unwrap() > 1,
            "it is whole"
        );
        let log = serving.json(&format!("/api/v1/sessions/{session}/events?limit=10000"));
        let told = log["events"].as_array().unwrap();
        assert!(!told.is_empty() && told.iter().all(|event| event["source"] != "claude.transcript"), "{log}");
    }
}
