//! Damage to the files of any harness, in any order, with a hub and without, archived or not: no row, number or passage is
//! lost, nothing counts twice, and the end is a cold read of everything that ever stood in the files.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, mpsc::SyncSender},
    time::{Duration, UNIX_EPOCH},
};

use subscope_collect::{archive::Archive, fault};
use subscope_harness::{
    Harness, Root, claude_code::ClaudeCode, codex::Codex, copilot::Copilot, gemini::Gemini,
};
use subscope_model::{EventKind, PriceTable, Problem, Text, Tree};
use subscope_session::Now;
use subscope_store::{SessionQueries, TextIndex, TextQuery};
use subscope_testkit::{fixtures, random::Random};

use super::*;
use crate::{
    BatchRead, FileTailDriver,
    index::{self, IndexError, IndexOptions},
};

/// Faults are for the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A harness, its folder in a home, and recorded files below it.
struct Scene {
    name: &'static str,
    harness: &'static dyn Harness,
    root: &'static str,
    recorded: &'static str,
}

const SCENES: [Scene; 5] = [
    Scene {
        name: "Claude Code",
        harness: &ClaudeCode,
        root: "projects",
        recorded: "claude-code/2.1.330/c-nested/projects",
    },
    Scene { name: "Codex", harness: &Codex, root: "sessions", recorded: "codex/0.169.0/v1_nested/sessions" },
    Scene {
        name: "Gemini",
        harness: &Gemini,
        root: ".gemini/tmp",
        recorded: "gemini/0.61.0/two_parallel/dot_gemini_tmp",
    },
    Scene {
        name: "Gemini's objects",
        harness: &Gemini,
        root: ".gemini/tmp/shop",
        recorded: "damage/gemini-object",
    },
    Scene {
        name: "Copilot",
        harness: &Copilot,
        root: ".copilot/session-state",
        recorded: "copilot/1.0.102/background/dot_copilot/session-state",
    },
];

/// A file of a scene.
struct Damaged {
    path: PathBuf,
    /// What is still to be written: lines, or messages of an object.
    left: Vec<Vec<u8>>,
    /// What it holds now.
    now: Vec<Vec<u8>>,
    /// Everything that it ever held, in the order in which it came.
    ever: Vec<Vec<u8>>,
    /// The object around its messages, if it is one.
    object: Option<serde_json::Value>,
}

impl Damaged {
    fn new(path: PathBuf, bytes: &[u8]) -> Self {
        let mut new = Self { path, left: Vec::new(), now: Vec::new(), ever: Vec::new(), object: None };
        if new.path.extension().is_some_and(|it| it == "json") {
            let mut object: serde_json::Value = serde_json::from_slice(bytes).unwrap();
            if let Some(messages) = object["messages"].as_array_mut() {
                let messages = std::mem::take(messages);
                new.left = messages.iter().map(|it| serde_json::to_vec(it).unwrap()).collect();
                new.object = Some(object);
                return new;
            }
        }
        new.left = bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        new
    }

    fn content(&self, parts: &[Vec<u8>]) -> Vec<u8> {
        let Some(object) = &self.object else { return parts.concat() };
        let mut object = object.clone();
        object["messages"] =
            parts.iter().map(|it| serde_json::from_slice::<serde_json::Value>(it).unwrap()).collect();
        serde_json::to_vec_pretty(&object).unwrap()
    }

    fn remember(&mut self) {
        for part in &self.now {
            if !self.ever.contains(part) {
                self.ever.push(part.clone());
            }
        }
    }
}

/// The figures of a session that must not shrink, and that a cold read of everything must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    title: Option<String>,
    runs: u32,
    /// By id: parent, type, number of responses, tokens.
    agents: BTreeMap<String, (Option<String>, Option<String>, u32, u64)>,
    calls: BTreeMap<String, String>,
}

impl Known {
    fn of(tree: &Tree) -> Self {
        let text = |text: &Option<Text>| text.as_deref().map(str::to_owned);
        let agent = |row: &subscope_model::Agent| {
            let tokens = row.usage.map_or(0, |usage| usage.total_tokens);
            let parent = row.parent_id.as_ref().map(ToString::to_string);
            (row.id.to_string(), (parent, text(&row.agent_type), row.messages, tokens))
        };
        let calls = tree.agents.iter().flat_map(|row| &row.tools);
        let calls = calls.filter_map(|call| Some((call.id.as_ref()?.to_string(), call.name.to_string())));
        Self {
            title: text(&tree.session.title),
            runs: tree.session.runs,
            agents: tree.agents.iter().map(agent).collect(),
            calls: calls.collect(),
        }
    }

    /// What another state lacks.
    fn lost_in(&self, other: &Self) -> Option<String> {
        if self.title.is_some() && other.title.is_none() {
            return Some("the title".to_owned());
        }
        if self.runs > other.runs {
            return Some(format!("{} of {} runs", self.runs - other.runs, self.runs));
        }
        for (id, (_, _, messages, tokens)) in &self.agents {
            let Some((_, _, others, other_tokens)) = other.agents.get(id) else {
                if self.calls.contains_key(id) {
                    // Until its own id is known, an agent has that of the call that started it.
                    continue;
                }
                return Some(format!("agent {id}"));
            };
            if messages > others || tokens > other_tokens {
                return Some(format!(
                    "{id}: {messages} → {others} responses, {tokens} → {other_tokens} tokens"
                ));
            }
        }
        self.calls.keys().find(|id| !other.calls.contains_key(*id)).map(|id| format!("call {id}"))
    }
}

/// A home with the files of one harness, its store, and a hub over it or none.
struct House {
    scene: &'static Scene,
    folder: tempfile::TempDir,
    files: Vec<Damaged>,
    clock: ManualClock,
    hub: Option<(EventLoop, SyncSender<Command>)>,
    has_archive: bool,
    best: BTreeMap<SessionId, Known>,
    done: Vec<String>,
    /// Events that hubs have committed, by id.
    published: HashMap<Text, u32>,
    last_seq: u64,
}

impl House {
    fn new(scene: &'static Scene, has_archive: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let recorded = fixtures::root().join(scene.recorded);
        let root = folder.path().canonicalize().unwrap().join(scene.root);
        let file = |path: PathBuf| {
            let below = root.join(path.strip_prefix(&recorded).unwrap());
            Damaged::new(below, &fs::read(&path).unwrap())
        };
        let mut files: Vec<Damaged> = fixtures::files_below(&recorded).into_iter().map(file).collect();
        files.retain(|file| !file.path.to_string_lossy().ends_with(".lock"));
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(folder.path().join("data")).unwrap();
        let store = SqliteStore::open(&folder.path().join("data"), Access::Write, "test", 1).unwrap();
        drop(store);
        let clock = ManualClock { origin: crate::clock::tick(), elapsed_ms: Arc::default() };
        let (best, published) = (BTreeMap::new(), HashMap::new());
        let done = Vec::new();
        Self { scene, folder, files, clock, hub: None, has_archive, best, done, published, last_seq: 0 }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(self.scene.root)
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn store(&self, access: Access) -> SqliteStore {
        SqliteStore::open(&self.data(), access, "test", START_MS.unsigned_abs() * 1_000).unwrap()
    }

    fn options(&self) -> IndexOptions {
        IndexOptions {
            roots: vec![self.root()],
            prices: PriceTable::default(),
            limits: Limits::default(),
            now_ms: self.clock.now_ms(),
            workers: Some(1),
            archive: Archive::new(self.data().join("archive")),
            archives: self.has_archive,
            keep_ms: None,
        }
    }

    fn start(&mut self) {
        let root = Root { harness: self.scene.harness, folder: self.root() };
        let driver = FileTailDriver::polled_roots(vec![root], Arc::new(self.clock.clone())).unwrap();
        let (commands, queue) = sync_channel(64);
        let queue = CommandQueue::new(queue, Waker::new(commands.clone()), true);
        let store = Box::new(self.store(Access::Write));
        let options = HubOptions::default();
        let mut event_loop =
            EventLoop::new(Box::new(driver), store, options, queue, Box::new(self.clock.clone()));
        event_loop.start();
        self.hub = Some((event_loop, commands));
    }

    fn stop(&mut self, is_killed: bool) {
        self.count_events();
        if let Some((mut event_loop, _)) = self.hub.take()
            && !is_killed
        {
            event_loop.stop_saving();
        }
    }

    /// Lets time pass, turn by turn.
    fn wait(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.clock.advance(1_000);
            for _ in 0..3 {
                if let Some((event_loop, _)) = &mut self.hub {
                    assert!(event_loop.turn() == LoopControl::Continue);
                }
            }
        }
    }

    /// Brings the store up to date: by the hub, else by an index. Returns the problems of the index.
    fn settle(&mut self) -> Vec<Problem> {
        if self.hub.is_some() {
            self.wait(5);
            return Vec::new();
        }
        let (mut store, options) = (self.store(Access::Write), self.options());
        let mut texts = TextIndex::open(&self.data(), Access::Write).unwrap();
        self.clock.advance(1_000);
        match index::index(&mut store, Some(&mut texts), &options, &mut |_| ControlFlow::Continue(())) {
            Ok(report) => report.problems,
            Err(error) => vec![Problem { at: String::new(), what: error.to_string() }],
        }
    }

    /// Indexes beside the hub.
    fn index_beside(&mut self) {
        let (store, options) = (self.store(Access::Read), self.options());
        let Some((event_loop, commands)) = &mut self.hub else { return };
        let mut sink = |commit| {
            let (sender, answer) = sync_channel(1);
            let reply = Box::new(move |outcome| sender.send(outcome).unwrap());
            commands.send(Command::CommitIndexBatch(Box::new(commit), reply)).unwrap();
            event_loop.turn();
            answer.try_recv().unwrap().map_err(IndexError::from)
        };
        // A folder that cannot be listed ends it: the next run does the rest.
        let _ = index::index_rows(&store, &options, &mut sink);
    }

    fn count_events(&mut self) {
        let Some((event_loop, _)) = &self.hub else { return };
        let events =
            event_loop.store.events_after(self.last_seq, None, usize::MAX).unwrap().unwrap_or_default();
        for event in events {
            self.last_seq = self.last_seq.max(event.seq);
            if event.kind != EventKind::Problem {
                *self.published.entry(event.id.clone()).or_default() += 1;
            }
        }
    }

    fn served(&mut self) -> BTreeMap<SessionId, Tree> {
        let ids: Vec<SessionId> = match &self.hub {
            Some((event_loop, _)) => {
                let overlay = event_loop.overlay();
                let rows = event_loop.view(&overlay).list(&ListQuery::first(100));
                rows.into_iter().map(|row| row.id).collect()
            }
            None => {
                let rows = self.store(Access::Read).list(&ListQuery::first(100)).unwrap();
                rows.into_iter().map(|row| row.id).collect()
            }
        };
        let tree = |id: &SessionId| match &self.hub {
            Some((event_loop, _)) => event_loop.view(&event_loop.overlay()).tree(id),
            None => self.store(Access::Read).tree(id).unwrap(),
        };
        ids.iter().filter_map(|id| Some((id.clone(), tree(id)?))).collect()
    }

    /// Nothing that was known is lost.
    fn check(&mut self) {
        let served = self.served();
        for (id, best) in &self.best {
            let now = served.get(id).map(Known::of).unwrap_or_default();
            if let Some(lost) = best.lost_in(&now) {
                panic!("{}: {id} lost {lost} after\n{}", self.scene.name, self.done.join("\n"));
            }
        }
        self.best = served.iter().map(|(id, tree)| (id.clone(), Known::of(tree))).collect();
        self.count_events();
        let repeated = self.published.iter().find(|(_, count)| **count > 1);
        assert_eq!(repeated, None, "{} published twice after\n{}", self.scene.name, self.done.join("\n"));
    }

    /// Writes what a file holds now, in one of the ways that programs use.
    fn write(&mut self, file: usize, way: u64) {
        let file = &self.files[file];
        let bytes = file.content(&file.now);
        fs::create_dir_all(file.path.parent().unwrap()).unwrap();
        if way == 0 {
            fs::write(&file.path, bytes).unwrap();
        } else {
            let beside = file.path.with_extension("tmp");
            fs::write(&beside, bytes).unwrap();
            fs::rename(&beside, &file.path).unwrap();
        }
        let now = UNIX_EPOCH + Duration::from_millis(self.clock.now_ms().unsigned_abs());
        fs::File::options().append(true).open(&file.path).unwrap().set_modified(now).unwrap();
    }

    /// Appends the next lines of a file in place.
    fn append(&mut self, number: usize, count: usize) {
        let file = &mut self.files[number];
        let count = count.min(file.left.len());
        if count > 0 && file.now.is_empty() && self.scene.name != "Claude Code" {
            file.now.extend(file.ever.first().cloned());
        }
        let new: Vec<Vec<u8>> = file.left.drain(..count).collect();
        file.now.extend(new);
        self.write(number, 0);
    }

    /// One step of damage; the content that it removes was read.
    fn step(&mut self, random: &mut Random) {
        let number = random.below(self.files.len() as u64) as usize;
        let name = self.files[number].path.file_name().unwrap().to_string_lossy().into_owned();
        let has_content = self.files[number].path.exists() && !self.files[number].now.is_empty();
        let choice = random.below(14);
        let done = match choice {
            0..=4 => {
                let count = random.between(1, 8) as usize;
                self.append(number, count);
                format!("append {count} to {name}")
            }
            5 if has_content => {
                let keep = random.below(self.files[number].now.len() as u64) as usize;
                self.files[number].now.truncate(keep);
                self.write(number, 0);
                format!("truncate {name} to {keep}")
            }
            6 if has_content && self.files[number].object.is_none() => {
                // In the middle of a line: its end is written again later.
                let cut = random.below(self.files[number].now.len() as u64) as usize;
                let rest = self.files[number].now.split_off(cut);
                self.write(number, 0);
                let half = rest[0].len() / 2;
                let mut half_line = fs::read(&self.files[number].path).unwrap();
                half_line.extend_from_slice(&rest[0][..half]);
                fs::write(&self.files[number].path, half_line).unwrap();
                self.settle();
                self.write(number, 0);
                format!("cut {name} in line {cut}")
            }
            7 | 8 if has_content => {
                // Begun anew with some of its last lines.
                let from = random.below(self.files[number].now.len() as u64) as usize;
                let tail = self.files[number].now.split_off(from);
                // A program that begins a file anew begins it with its head, where it has one.
                let has_head = self.scene.name != "Claude Code" && from > 0;
                self.files[number].now.truncate(usize::from(has_head));
                self.files[number].now.extend(tail);
                self.write(number, choice - 7);
                format!("replace {name} by its lines from {from} on, way {}", choice - 7)
            }
            9 if has_content => {
                fs::remove_file(&self.files[number].path).unwrap();
                self.files[number].now.clear();
                format!("delete {name}")
            }
            10 => {
                let looks = random.below(40) as u32;
                self.append(number, 4);
                fault::fail_after(looks, 1 + random.below(3) as u32);
                self.settle();
                let has_failed = fault::end();
                self.check();
                format!("append to {name}, look {looks} fails: {has_failed}")
            }
            11 => {
                if self.hub.is_some() {
                    let is_killed = random.below(2) == 0;
                    self.stop(is_killed);
                    self.clock.advance(2_000);
                    self.start();
                    format!("restart, killed: {is_killed}")
                } else {
                    self.start();
                    "a hub starts".to_owned()
                }
            }
            12 => {
                self.stop(false);
                "no hub".to_owned()
            }
            13 if self.hub.is_some() => {
                self.wait(130);
                "two minutes of silence".to_owned()
            }
            _ => {
                self.index_beside();
                "index beside the hub".to_owned()
            }
        };
        self.done.push(done);
        self.settle();
        if self.hub.is_some() {
            // What is noticed later by a hub that tries again, ever less often.
            self.wait(10);
        }
        self.files.iter_mut().for_each(Damaged::remember);
        self.check();
    }

    /// The trees of a cold read of everything that ever stood in the files.
    fn cold(&self) -> BTreeMap<SessionId, Tree> {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap().join(self.scene.root);
        for file in self.files.iter().filter(|file| !file.ever.is_empty()) {
            let path = root.join(file.path.strip_prefix(self.root()).unwrap());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file.content(&file.ever)).unwrap();
        }
        if fixtures::files_below(home.path()).is_empty() {
            return BTreeMap::new();
        }
        let options = RouterOptions { keep: FactDetail::Rows, cutoff: None, events: EventScope::Nothing };
        let batch = BatchRead::read(BatchRead::expand(&[root]).unwrap(), options, None);
        let prices = PriceTable::default();
        let (at, limits) = (self.clock.now_ms(), Limits::default());
        let now = Now { at, has_ended: false, is_growing: false, prices: &prices, limits };
        let ids: Vec<SessionId> = batch.router.sessions().cloned().collect();
        ids.iter().filter_map(|id| Some((id.clone(), batch.router.tree(id, &now)?))).collect()
    }

    fn finish(&mut self) {
        self.stop(false);
        for _ in 0..2 {
            self.settle();
            self.check();
        }
        self.compare();
    }

    /// Compares what is served with a cold read of everything that ever stood in the files.
    fn compare(&mut self) {
        let cold = self.cold();
        let (served, done) = (self.served(), self.done.join("\n"));
        for (id, tree) in &cold {
            let served = served.get(id).map(Known::of).unwrap_or_default();
            let cold = Known::of(tree);
            let lost = cold.lost_in(&served);
            assert_eq!(lost, None, "{} {id} after\n{done}", self.scene.name);
            // A part of a rollout may begin between the two lines that count a response: it then counts twice.
            if self.scene.name != "Codex" {
                assert_eq!(served, cold, "{} {id} after\n{done}", self.scene.name);
            }
        }
    }
}

#[test]
fn no_damage_takes_anything_away_and_the_end_is_everything_that_ever_stood_there() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let cases = std::env::var("SUBSCOPE_CASES").map_or(2, |cases| cases.parse().unwrap());
    let first: u64 = std::env::var("SUBSCOPE_SEED").map_or(0, |seed| seed.parse().unwrap());
    for scene in &SCENES {
        for seed in first..first + cases {
            let mut random = Random::new(seed);
            let mut house = House::new(scene, seed % 2 == 1);
            house.done.push(format!("seed {seed}, archive: {}", house.has_archive));
            if seed % 4 < 2 {
                house.start();
            }
            // A rollout of an agent is not followed before that of its root is there.
            for number in 0..house.files.len() {
                house.append(number, 2);
            }
            house.settle();
            house.files.iter_mut().for_each(Damaged::remember);
            for _ in 0..24 {
                house.step(&mut random);
            }
            house.finish();
        }
    }
}

/// The number of passages with a word.
fn hits(house: &House, word: &str) -> u64 {
    let texts = TextIndex::open(&house.data(), Access::Read).unwrap();
    let query = TextQuery {
        words: vec![word.to_owned()],
        session: None,
        sessions: None,
        kind: None,
        tool: None,
        since: None,
        until: None,
        only_failed: false,
        limit: 1,
    };
    texts.count(&query).unwrap().total
}

/// A source that fails at its n-th look, for every n: rows and passages stay, and the next run has everything.
#[test]
fn read_that_fails_at_any_look_takes_nothing_away_and_is_made_up_for() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for (scene, has_archive) in SCENES.iter().flat_map(|scene| [(scene, false), (scene, true)]) {
        let mut whole = House::new(scene, has_archive);
        for number in 0..whole.files.len() {
            whole.append(number, usize::MAX);
        }
        whole.settle();
        // Every look takes a minute in all: a part of them each time, and all if a number of cases is given.
        let stride = if std::env::var_os("SUBSCOPE_CASES").is_some() { 1 } else { 12 };
        for looks in (u32::from(has_archive)..).step_by(stride) {
            let mut house = House::new(scene, has_archive);
            for number in 0..house.files.len() {
                let half = house.files[number].left.len() / 2 + 1;
                house.append(number, half);
            }
            house.settle();
            house.check();
            let before = hits(&house, "the");
            for number in 0..house.files.len() {
                house.append(number, usize::MAX);
            }
            house.files.iter_mut().for_each(Damaged::remember);
            house.done.push(format!("look {looks} fails, archive: {has_archive}"));
            fault::fail_after(looks, 1);
            let problems = house.settle();
            if !fault::end() {
                assert!(looks > 4, "{} looks", scene.name);
                break;
            }
            house.check();
            if problems.is_empty() {
                // Nothing of that was needed.
                house.compare();
            }
            assert!(hits(&house, "the") >= before, "{}: passages are lost at look {looks}", scene.name);
            assert_eq!(house.settle(), [], "{}: after look {looks}", scene.name);
            assert_eq!(hits(&house, "the"), hits(&whole, "the"), "{}: after look {looks}", scene.name);
            house.finish();
        }
    }
}

/// Whether the only session with problems says that one of its transcripts was cut; `None` for other problems.
fn cut_marks(house: &mut House) -> usize {
    let served = house.served();
    let problems: Vec<&Problem> = served.values().flat_map(|tree| &tree.problems).collect();
    let marks = problems.iter().filter(|problem| problem.what.contains("was cut or replaced")).count();
    assert_eq!(marks, problems.len(), "{problems:?} after\n{}", house.done.join("\n"));
    marks
}

/// What becomes of the hub between a step and the next.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Between {
    /// There is none: an index reads the files.
    NoHub,
    SameHub,
    /// The hub evicts the session.
    Silence,
    Restart,
    Killed,
}

/// That a transcript was cut is said as long as something of it is in no file, and no longer.
#[test]
fn mark_of_a_cut_transcript_goes_when_the_file_says_everything_again() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let between = [Between::NoHub, Between::SameHub, Between::Silence, Between::Restart, Between::Killed];
    let cases = SCENES.iter().flat_map(|scene| between.map(|between| (scene, between)));
    for (scene, between) in cases {
        for (has_archive, way) in [(false, 0), (true, 1)] {
            let mut house = House::new(scene, has_archive);
            if between != Between::NoHub {
                house.start();
            }
            for count in [2, usize::MAX] {
                for number in 0..house.files.len() {
                    house.append(number, count);
                }
                house.settle();
            }
            let pass = |house: &mut House| {
                house.settle();
                match between {
                    Between::NoHub | Between::SameHub => {}
                    Between::Silence => house.wait(130),
                    Between::Restart | Between::Killed => {
                        house.stop(between == Between::Killed);
                        house.clock.advance(2_000);
                        house.start();
                        house.settle();
                    }
                }
            };
            pass(&mut house);
            house.files.iter_mut().for_each(Damaged::remember);
            let number = (0..house.files.len()).max_by_key(|at| house.files[*at].now.len()).unwrap();
            house.done.push(format!("{between:?}, archive: {has_archive}, way {way}"));
            assert_eq!(cut_marks(&mut house), 0);

            let whole = house.files[number].now.clone();
            house.files[number].now.truncate(whole.len() / 2);
            house.write(number, way);
            house.done.push("cut".to_owned());
            pass(&mut house);
            house.check();
            assert_eq!(cut_marks(&mut house), 1, "{} after\n{}", scene.name, house.done.join("\n"));

            house.files[number].now = whole;
            house.write(number, way);
            house.done.push("restored".to_owned());
            pass(&mut house);
            house.check();
            assert_eq!(cut_marks(&mut house), 0, "{} after\n{}", scene.name, house.done.join("\n"));
            house.finish();
            assert_eq!(cut_marks(&mut house), 0, "{} at the end of\n{}", scene.name, house.done.join("\n"));
        }
    }
}
