//! One session by its files, its stream and its hooks, through the real `serve`: whatever comes first, in whatever pieces,
//! and however often, the tree is that of all of them read afterwards.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::VecDeque,
    fs::{self, OpenOptions},
    io::Write,
    path::PathBuf,
    thread,
    time::Duration,
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
    fixtures::{Recording, bytes, recordings},
    random::Random,
};

/// A piece of a source, in the order of its source.
#[derive(Clone, Debug)]
enum Piece {
    /// Bytes that a harness writes behind what its file has.
    Written { file: PathBuf, bytes: Vec<u8> },
    /// Bytes in a file of their own, written at once.
    Placed { file: PathBuf, bytes: Vec<u8> },
    /// What a program posts.
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

/// The sources of a recording, each as its pieces.
fn sources(recording: &Recording, env: &TestEnv, random: &mut Random) -> Vec<VecDeque<Piece>> {
    let mut all = Vec::new();
    let place = |file: &PathBuf| {
        let relative = file.strip_prefix(recording.projects()).unwrap();
        env.home().join(".claude/projects").join(relative)
    };
    for file in recording.mains().into_iter().chain(recording.agents()) {
        let pieces = cut(&bytes(&file), random).into_iter();
        all.push(pieces.map(|bytes| Piece::Written { file: place(&file), bytes }).collect());
    }
    for file in recording.metas() {
        all.push(VecDeque::from([Piece::Placed { file: place(&file), bytes: bytes(&file) }]));
    }
    let name = recording.name();
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

/// A tree without what only whoever received the sources can know: when hooks and streams came, which have no time of
/// their own, and which of the sources it was that a problem stands in.
fn timeless(mut tree: Value) -> Value {
    for row in tree["agents"].as_array_mut().unwrap() {
        row["last_event_at_ms"] = Value::Null;
    }
    tree
}

/// The recording's session, and its tree by all its files as they are read afterwards.
fn expected(recording: &Recording) -> (String, Value) {
    let all = [recording.conversation(), recording.streams(), vec![recording.hooks()]].concat();
    let paths: Vec<&std::path::Path> = all.iter().map(PathBuf::as_path).collect();
    let tree = json(&common::run(&env(), "tree --json", &paths).success());
    (tree["session"]["id"].as_str().unwrap().to_owned(), timeless(tree))
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

/// Hands all sources of these recordings over at once, in an order drawn from the seed and some of it twice.
fn merges(recordings: &[Recording], seed: u64) {
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
    for recording in recordings {
        let (session, expected) = expected(recording);
        let began = clock::tick();
        let found = loop {
            let found = serving.tree(&session).map_or(Value::Null, timeless);
            // Files are read as they are noticed.
            if found == expected || began.elapsed() > LIMIT / 10 {
                break found;
            }
            thread::sleep(Duration::from_millis(20));
        };
        differ.extend(difference(&found, &expected).map(|at| format!("{}{at}", recording.name())));
    }
    serving.end("-TERM");
    assert!(differ.is_empty(), "seed {seed}:\n{}", differ.join("\n"));
    println!("seed {seed}: {} sessions are the same by every way", recordings.len());
}

#[test]
fn sessions_by_files_stream_and_hooks_are_the_same_in_any_order() {
    let all = recordings();
    assert!(all.len() >= 44, "fixtures are missing");
    for seed in 1..=2 {
        merges(&all, seed);
    }
}
