//! Files that are truncated, replaced or recreated while they are tailed: no row loses content that is still in the
//! files, and no other session changes.

#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::mpsc::sync_channel,
    time::Duration,
};

use subscope_hub::{
    BatchRead, FileTailDriver, Hub, HubHandle, HubOptions, HubSubscription, clock, hook_ingest,
};
use subscope_model::{Agent, Feed, FeedItem, PriceTable, SessionId, Text, Tree, Update, parse_rfc3339};
use subscope_session::{EventScope, FactDetail, Limits, Now, RouterOptions};
use subscope_store::{Access, SqliteStore};
use subscope_testkit::{
    fixtures::{Recording, recording, recordings},
    losses::Losses,
    random::Random,
};

/// Timeout, far above any wait of these tests.
const LIMIT: Duration = Duration::from_secs(60);

/// A hub that tails a folder, a subscriber, and a marker session that shows how far the hub has read.
struct Stage {
    folder: tempfile::TempDir,
    hub: Hub,
    handle: HubHandle,
    feed: HubSubscription,
    losses: Losses,
    /// Sessions updated since the last look.
    touched: BTreeSet<SessionId>,
    marks: u32,
}

const MARKS: &str = "00000000-0000-4000-8000-00000000000a";

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("projects/-marks")).unwrap();
        let store = SqliteStore::open(&folder.path().join("data"), Access::Write, "1", 1).unwrap();
        let driver = Box::new(
            FileTailDriver::roots(vec![subscope_harness::Root {
                harness: &subscope_harness::claude_code::ClaudeCode,
                folder: folder.path().join("projects"),
            }])
            .unwrap(),
        );
        let hub = Hub::start(driver, Box::new(store), HubOptions::default()).unwrap();
        let (handle, feed) = (hub.handle(), hub.subscribe());
        Self { folder, hub, handle, feed, losses: Losses::default(), touched: BTreeSet::new(), marks: 0 }
    }

    fn project(&self, name: &str) -> PathBuf {
        self.folder.path().join("projects").join(name)
    }

    /// Waits until the hub has read everything written before, and published its rows.
    fn mark(&mut self) {
        self.marks += 1;
        let words = format!("mark {}", self.marks);
        let line = serde_json::json!({
            "type": "user", "sessionId": MARKS, "uuid": format!("mark-{}", self.marks), "parentUuid": null,
            "isSidechain": false, "timestamp": "2026-01-01T00:00:00.000Z", "version": "2.1.330", "cwd": "/",
            "promptId": words, "message": { "role": "user", "content": words },
        });
        append(&self.project("-marks").join(format!("{MARKS}.jsonl")), format!("{line}\n").as_bytes());
        let began = clock::tick();
        loop {
            assert!(began.elapsed() < LIMIT, "{words} never comes");
            match self.feed.next(LIMIT) {
                FeedItem::Update(Update::Event(event)) if event.data["text"] == *words => return,
                FeedItem::Update(update) => self.take(&update),
                FeedItem::Idle | FeedItem::Closed => {}
            }
        }
    }

    fn take(&mut self, update: &Update) {
        self.losses.take(update);
        match update {
            Update::Snapshot(tree) => self.touched.insert(tree.session.id.clone()),
            Update::Change(change) => self.touched.insert(change.session().id.clone()),
            Update::Event(_) | Update::Missed(_) | Update::CaughtUp | Update::Reset => false,
        };
    }

    /// Waits until the hub's rows of a session are like that.
    fn until(&mut self, session: &SessionId, is_wanted: &dyn Fn(&Tree) -> bool) {
        let began = clock::tick();
        while !tree(&self.handle, session).is_some_and(|tree| is_wanted(&tree)) {
            assert!(began.elapsed() < LIMIT, "{:?}", tree(&self.handle, session).map(|tree| tree.problems));
            if let FeedItem::Update(update) = self.feed.next(Duration::from_millis(20)) {
                self.take(&update);
            }
        }
    }

    /// Waits until the hub's rows of a session equal those of a batch read of all its files.
    fn until_cold(&mut self, session: &SessionId, project: &Path) {
        let began = clock::tick();
        loop {
            let (known, wanted) = (tree(&self.handle, session), cold(project));
            let known = known.map(|tree| said(&tree));
            if known.as_ref() == Some(&said(&wanted)) {
                return;
            }
            if began.elapsed() > LIMIT {
                assert_eq!(known, Some(said(&wanted)));
            }
            if let FeedItem::Update(update) = self.feed.next(Duration::from_millis(20)) {
                self.take(&update);
            }
        }
    }
}

/// The parts of a tree that do not depend on the time of reading.
fn said(tree: &Tree) -> (Option<Text>, u32, Vec<Agent>) {
    let still = |row: &Agent| Agent { liveness: None, flags: Vec::new(), rev: None, ..row.clone() };
    (tree.session.title.clone(), tree.session.runs, tree.agents.iter().map(still).collect())
}

fn tree(hub: &HubHandle, session: &SessionId) -> Option<Tree> {
    let (sender, answer) = sync_channel(1);
    let (id, reply) = (session.clone(), Box::new(move |tree| sender.send(tree).unwrap()));
    hub.ask(Some(session.clone()), reply, move |queries| queries.tree(&id)).unwrap();
    answer.recv_timeout(LIMIT).unwrap().unwrap()
}

fn cold(project: &Path) -> Tree {
    let options = RouterOptions { keep: FactDetail::Rows, cutoff: None, events: EventScope::Nothing };
    let cold = BatchRead::read(BatchRead::expand(&[project.to_owned()]).unwrap(), options, None);
    let (prices, limits) = (PriceTable::default(), Limits::default());
    let now = Now { at: clock::now_ms(), has_ended: false, is_growing: true, prices: &prices, limits };
    let id = cold.router.sessions().next().unwrap().clone();
    cold.router.tree(&id, &now).unwrap()
}

fn append(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::File::options().append(true).create(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// Rewrites a file in one of the ways that programs use.
fn rewrite(path: &Path, bytes: &[u8], way: u64) {
    match way % 4 {
        // In place: truncated to zero bytes first.
        0 => fs::write(path, bytes).unwrap(),
        1 => {
            let beside = path.with_extension("tmp");
            fs::write(&beside, bytes).unwrap();
            fs::rename(&beside, path).unwrap();
        }
        2 => {
            fs::remove_file(path).unwrap();
            fs::write(path, bytes).unwrap();
        }
        // In two parts.
        _ => {
            let mut file = fs::File::create(path).unwrap();
            let (front, back) = bytes.split_at(bytes.len() / 2);
            file.write_all(front).unwrap();
            file.write_all(back).unwrap();
        }
    }
}

/// The files of a recording with their paths below a project folder.
fn files(recording: &Recording) -> Vec<(PathBuf, Vec<u8>)> {
    let projects = recording.projects();
    let below = |path: &PathBuf| path.strip_prefix(&projects).unwrap().iter().skip(1).collect();
    recording.conversation().iter().map(|path| (below(path), fs::read(path).unwrap())).collect()
}

fn is_meta(path: &Path) -> bool {
    path.to_string_lossy().ends_with(".meta.json")
}

/// A meta file as it is before its agent ends.
fn unfinished(bytes: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(bytes).replace(",\"finished\":true", "").into_bytes()
}

fn session_of(recording: &Recording) -> SessionId {
    SessionId::from(recording.mains()[0].file_stem().unwrap().to_str().unwrap())
}

#[test]
fn rewritten_meta_file_changes_rows_of_its_own_session_and_none_goes_back() {
    let mut stage = Stage::new();
    let own = recording("2.1.330", "k-big");
    let others = ["c-nested", "b-parallel", "m-twenty-bg"].map(|name| recording("2.1.330", name));
    let project = |recording: &Recording| format!("-{}", recording.scenario);
    for recording in others.iter().chain([&own]) {
        for (path, bytes) in files(recording) {
            let bytes = if is_meta(&path) { unfinished(&bytes) } else { bytes };
            append(&stage.project(&project(recording)).join(path), &bytes);
        }
    }
    stage.mark();
    for recording in others.iter().chain([&own]) {
        let folder = stage.project(&project(recording));
        stage.until_cold(&session_of(recording), &folder);
    }
    stage.mark();
    stage.touched.clear();
    let metas: Vec<_> = files(&own).into_iter().filter(|(path, _)| is_meta(path)).collect();
    assert_eq!(metas.len(), 8);
    for (way, (path, bytes)) in (0..).zip(metas.iter().chain(&metas)) {
        rewrite(&stage.project(&project(&own)).join(path), bytes, way);
        stage.mark();
        assert_eq!(stage.losses.found, [""; 0], "after {path:?}, in way {}", way % 4);
    }
    let folder = stage.project(&project(&own));
    stage.until_cold(&session_of(&own), &folder);
    stage.mark();
    let allowed = BTreeSet::from([session_of(&own), SessionId::from(MARKS)]);
    assert!(stage.touched.is_subset(&allowed), "{:?}", stage.touched);
    assert_eq!(stage.losses.found, [""; 0]);
    drop(stage.hub);
}

/// The main transcript of a recording: its path below a project folder, and its lines.
fn main_of(recording: &Recording) -> (PathBuf, Vec<Vec<u8>>) {
    let name = recording.mains()[0].file_name().unwrap().to_owned();
    let (path, bytes) = files(recording).into_iter().find(|(path, _)| *path == name).unwrap();
    (path, bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect())
}

#[test]
fn transcript_that_is_cut_or_replaced_takes_nothing_back_and_touches_no_other_session() {
    for way in 0..4 {
        let mut stage = Stage::new();
        let (own, other) = (recording("2.1.330", "c-nested"), recording("2.1.330", "b-parallel"));
        for (recording, project) in [(&own, "-own"), (&other, "-other")] {
            for (path, bytes) in files(recording) {
                append(&stage.project(project).join(path), &bytes);
            }
        }
        let (own_id, other_id) = (session_of(&own), session_of(&other));
        let (own_folder, other_folder) = (stage.project("-own"), stage.project("-other"));
        stage.until_cold(&own_id, &own_folder);
        stage.until_cold(&other_id, &other_folder);
        stage.mark();
        stage.touched.clear();
        // Same content: no change.
        let (path, lines) = main_of(&own);
        let path = own_folder.join(path);
        rewrite(&path, &lines.concat(), way);
        stage.mark();
        assert!(!stage.touched.contains(&own_id), "in way {way}");
        // Half of the content: what the other half said stays known, and the session says so.
        let before = tree(&stage.handle, &own_id).unwrap();
        rewrite(&path, &lines[..lines.len() / 2].concat(), way);
        stage.until(&own_id, &|tree| tree.problems.iter().any(|problem| problem.what.contains("cut")));
        assert_eq!(said(&tree(&stage.handle, &own_id).unwrap()), said(&before));
        // The complete content again, and repeatedly.
        for _ in 0..3 {
            rewrite(&path, &lines.concat(), way);
            stage.mark();
        }
        stage.until_cold(&own_id, &own_folder);
        // Begun anew with its last lines, and something new.
        let last = String::from_utf8_lossy(&lines[lines.len() - 1]).into_owned();
        let id = serde_json::from_str::<serde_json::Value>(&last).unwrap()["sessionId"].to_string();
        let new = format!(
            r#"{{"type":"user","uuid":"anew","parentUuid":null,"sessionId":{id},"timestamp":"2026-11-25T00:00:00.000Z","isSidechain":false,"cwd":"/","message":{{"role":"user","content":"and now?"}}}}"#
        );
        let runs = before.session.runs;
        rewrite(&path, format!("{last}{new}\n").as_bytes(), way);
        stage.until(&own_id, &|tree| tree.session.runs == runs + 1);
        let after = tree(&stage.handle, &own_id).unwrap();
        assert_eq!(after.summary.tool_calls, before.summary.tool_calls);
        assert_eq!(after.summary.usage, before.summary.usage);
        stage.mark();
        assert!(!stage.touched.contains(&other_id), "{:?}", stage.touched);
    }
}

#[test]
fn nothing_of_a_transcript_is_told_while_it_is_being_rewritten() {
    let mut stage = Stage::new();
    let own = recording("2.1.330", "k-big");
    for (path, bytes) in files(&own) {
        append(&stage.project("-own").join(path), &bytes);
    }
    let folder = stage.project("-own");
    stage.until_cold(&session_of(&own), &folder);
    stage.mark();
    stage.touched.clear();
    // All files at once, each in chunks, while the hub reads.
    let all = files(&own);
    let mut open: Vec<fs::File> =
        all.iter().map(|(path, _)| fs::File::create(folder.join(path)).unwrap()).collect();
    for part in 0..4 {
        for ((_, bytes), file) in all.iter().zip(&mut open) {
            let at = |part: usize| bytes.len() * part / 4;
            file.write_all(&bytes[at(part)..at(part + 1)]).unwrap();
        }
    }
    stage.mark();
    assert!(!stage.touched.contains(&session_of(&own)));
    assert_eq!(stage.losses.found, [""; 0]);
    stage.until_cold(&session_of(&own), &folder);
}

#[test]
fn what_programs_handed_over_of_a_session_is_known_after_its_transcript_was_replaced() {
    let mut stage = Stage::new();
    let own = recording("2.1.330", "a-single");
    let (session, folder) = (session_of(&own), stage.project("-own"));
    for (path, bytes) in files(&own) {
        append(&folder.join(path), &bytes);
    }
    stage.until_cold(&session, &folder);
    let call = |stage: &Stage, id: &str| {
        for event in ["PreToolUse", "PostToolUse"] {
            let hook = serde_json::json!({
                "hook_event_name": event, "session_id": session, "tool_name": "Read", "tool_use_id": id,
                "tool_input": {}, "tool_response": {}, "cwd": "/", "transcript_path": "/nowhere.jsonl",
            });
            let (sender, answer) = sync_channel(1);
            let ingest = hook_ingest(
                subscope_harness::claude_code::HOOK,
                &format!("{id}/{event}"),
                None,
                hook.to_string().into_bytes(),
            );
            let taken = Box::new(move |taken: Result<_, _>| sender.send(taken.is_ok()).unwrap());
            stage.handle.ingest(ingest, taken).unwrap();
            assert!(answer.recv_timeout(LIMIT).unwrap());
        }
    };
    let ids = |tree: &Tree| -> BTreeSet<String> {
        let calls = tree.agents.iter().flat_map(|row| &row.tools);
        calls.filter_map(|call| Some(call.id.as_ref()?.to_string())).collect()
    };
    call(&stage, "handed-1");
    let before = ids(&tree(&stage.handle, &session).unwrap());
    assert!(before.contains("handed-1"));
    stage.mark();
    let (path, lines) = main_of(&own);
    let text = String::from_utf8(lines.concat()).unwrap();
    rewrite(&folder.join(&path), text.replace("claude-opus", "claude-0pus").as_bytes(), 1);
    let began = clock::tick();
    loop {
        let tree = tree(&stage.handle, &session).unwrap();
        assert!(ids(&tree).contains("handed-1"));
        let root = tree.agents.iter().find(|row| row.id.is_root()).unwrap();
        if root.model.as_deref().is_some_and(|model| model.contains("0pus")) {
            break;
        }
        assert!(began.elapsed() < LIMIT, "{:?}", root.model);
        stage.mark();
    }
    call(&stage, "handed-2");
    let after = ids(&tree(&stage.handle, &session).unwrap());
    let wanted: BTreeSet<String> = before.into_iter().chain(["handed-2".to_owned()]).collect();
    assert_eq!(after, wanted);
    assert_eq!(stage.losses.found, [""; 0]);
}

/// One write of a replay.
struct Step {
    path: PathBuf,
    bytes: Vec<u8>,
    is_rewrite: bool,
}

/// Writes of a recording's files: lines by their times, in chunks cut anywhere; each meta file when its agent's first
/// line arrives, without its end, again with its end at a later time, and again unchanged at others.
fn steps(recording: &Recording, random: &mut Random) -> Vec<Step> {
    let mut lines: Vec<(i64, usize, PathBuf, Vec<u8>)> = Vec::new();
    let mut metas = Vec::new();
    for (path, bytes) in files(recording) {
        if is_meta(&path) {
            metas.push((path, bytes));
            continue;
        }
        let mut at = i64::MIN;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let object: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
            at = object["timestamp"].as_str().and_then(parse_rfc3339).unwrap_or(at);
            lines.push((at, lines.len(), path.clone(), line.to_vec()));
        }
    }
    lines.sort_by_key(|(at, number, ..)| (*at, *number));
    let mut steps: Vec<Step> = Vec::new();
    let mut rest: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for (.., path, line) in lines {
        let is_first = !steps.iter().any(|step| step.path == path);
        if is_first && let Some(meta) = metas.iter().find(|(meta, _)| is_beside(meta, &path)) {
            steps.push(Step { path: meta.0.clone(), bytes: unfinished(&meta.1), is_rewrite: false });
            rest.push(meta.clone());
        }
        // The held back part of a file comes with its next chunk.
        let cut = random.below(line.len() as u64 + 1) as usize;
        for part in [&line[..cut], &line[cut..]].into_iter().filter(|part| !part.is_empty()) {
            steps.push(Step { path: path.clone(), bytes: part.to_vec(), is_rewrite: false });
        }
        if !rest.is_empty() && random.below(12) == 0 {
            let (path, bytes) = rest[random.below(rest.len() as u64) as usize].clone();
            steps.push(Step { path, bytes, is_rewrite: true });
        }
    }
    for (path, bytes) in metas {
        steps.push(Step { path, bytes, is_rewrite: true });
    }
    steps
}

fn is_beside(meta: &Path, transcript: &Path) -> bool {
    meta.with_extension("").with_extension("jsonl") == transcript
}

#[test]
fn no_row_of_any_recording_goes_back_while_its_files_grow_and_are_replaced() {
    let mut random = Random::new(13);
    let mut compared = 0;
    for recording in recordings().into_iter().filter(|recording| !recording.metas().is_empty()) {
        let mut stage = Stage::new();
        let project = stage.project("-replayed");
        let steps = steps(&recording, &mut random);
        // Compare only now and then: after every step the same rows would be compared at more times.
        let every = (steps.len() as u64 / 25).max(1);
        for step in &steps {
            let path = project.join(&step.path);
            if step.is_rewrite && path.exists() {
                rewrite(&path, &step.bytes, random.next());
            } else {
                append(&path, &step.bytes);
            }
            if random.below(every) == 0 {
                stage.mark();
            }
        }
        stage.until_cold(&session_of(&recording), &project);
        stage.mark();
        assert_eq!(stage.losses.found, [""; 0], "{}", recording.name());
        compared += stage.losses.compared;
    }
    assert!(compared > 1_000, "{compared}");
}
