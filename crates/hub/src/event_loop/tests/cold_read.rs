//! The rows that a hub serves equal those of a cold read of the same sources, whatever happens in whatever order: lines,
//! rewritten files, hooks, stop orders, silence, restarts, an index that runs concurrently with the hub, deleted files.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::{self, OpenOptions},
    io::Write as _,
    path::PathBuf,
    time::UNIX_EPOCH,
};

use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};
use subscope_collect::archive::Archive;
use subscope_harness::{
    Root,
    claude_code::{ClaudeCode, HOOK},
};
use subscope_model::{Tree, iso8601, parse_rfc3339};
use subscope_session::Now;
use subscope_testkit::fixtures::{self, Recording, recording};

use super::*;
use crate::{
    FileTailDriver, SessionSources,
    index::{self, IndexError, IndexOptions},
    session_sources::has_more_than,
    spool_drain::hook_ingest,
};

/// Sequences tried; `SUBSCOPE_CASES` names another number.
const CASES: u32 = 24;

/// Longest step of the clock: a hub that took no sample for a minute was halted, and that time does not count as
/// silence.
const LOOK_MS: i64 = 50_000;

/// Something that happens. Numbers of sessions, files and agents count modulo how many there are.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// The next lines of a session's transcripts are written.
    Lines(usize, usize),
    /// The next hooks of a session are delivered.
    Hooks(usize, usize),
    /// A meta file of a session is written again, with the same content or without its last property.
    Meta(usize, bool),
    /// A running agent of a session is ordered to stop.
    Stop(usize),
    /// Nothing happens for this many seconds.
    Silence(i64),
    /// The hub stops and starts again, after this many seconds.
    Restart(i64),
    /// The hub dies and starts again.
    Crash,
    /// A file of a session is deleted.
    Delete(usize, usize),
    /// The background index runs.
    Index,
}

fn step() -> impl Strategy<Value = Step> {
    let session = 0..3_usize;
    prop_oneof![
        6 => (session.clone(), 1..12_usize).prop_map(|(session, count)| Step::Lines(session, count)),
        4 => (session.clone(), 1..8_usize).prop_map(|(session, count)| Step::Hooks(session, count)),
        1 => (session.clone(), any::<bool>()).prop_map(|(session, is_whole)| Step::Meta(session, is_whole)),
        2 => session.clone().prop_map(Step::Stop),
        4 => prop::sample::select(vec![2, 70, 185, 605, 905, 1_805]).prop_map(Step::Silence),
        2 => prop::sample::select(vec![0, 5, 660, 960]).prop_map(Step::Restart),
        1 => Just(Step::Crash),
        1 => (session, any::<usize>()).prop_map(|(session, file)| Step::Delete(session, file)),
        2 => Just(Step::Index),
    ]
}

/// A recorded session that is still to be played.
pub(super) struct Played {
    pub(super) id: SessionId,
    main: PathBuf,
    /// Lines with their files, in the order of their times.
    lines: VecDeque<(PathBuf, Vec<u8>)>,
    hooks: VecDeque<Vec<u8>>,
    /// Contents of the meta files; those whose agent has a line are written.
    metas: BTreeMap<PathBuf, Vec<u8>>,
    /// What was served last, once a file was deleted.
    best: Option<Tree>,
    has_deleted: bool,
}

impl Played {
    fn new(recording: &Recording, folder: &std::path::Path) -> Self {
        let place = |file: &PathBuf| folder.join(file.strip_prefix(recording.projects()).unwrap());
        let mut lines: Vec<(i64, PathBuf, Vec<u8>)> = Vec::new();
        for file in [recording.mains(), recording.agents()].concat() {
            let mut at = 0;
            for line in fixtures::bytes(&file).split_inclusive(|byte| *byte == b'\n') {
                let text = String::from_utf8_lossy(line);
                let time = text.split_once(TIMESTAMP).and_then(|(_, rest)| parse_rfc3339(rest.get(..24)?));
                at = time.unwrap_or(at).max(at);
                lines.push((at, place(&file), line.to_vec()));
            }
        }
        lines.sort_by_key(|(at, ..)| *at);
        let hooks = fixtures::bytes(&recording.hooks());
        let main = place(&recording.mains()[0]);
        Self {
            id: main.file_stem().unwrap().to_string_lossy().as_ref().into(),
            main,
            lines: lines.into_iter().map(|(_, file, line)| (file, line)).collect(),
            hooks: hooks.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect(),
            metas: recording.metas().iter().map(|file| (place(file), fixtures::bytes(file))).collect(),
            best: None,
            has_deleted: false,
        }
    }
}

const TIMESTAMP: &str = "\"timestamp\":\"";

/// Returns a line with another time.
fn at_time(line: &[u8], at: Millis) -> Vec<u8> {
    let text = String::from_utf8_lossy(line);
    let mut parts = text.split(TIMESTAMP);
    let mut moved = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        moved += &format!("{TIMESTAMP}{}{}", iso8601(at), part.get(24..).unwrap_or_default());
    }
    moved.into_bytes()
}

/// A hub over three sessions, and its machine.
pub(super) struct Machine {
    pub(super) folder: tempfile::TempDir,
    pub(super) clock: ManualClock,
    /// The hub's loop and its queue; `None` while it is down.
    hub: Option<(EventLoop, SyncSender<Command>)>,
    pub(super) sessions: Vec<Played>,
    delivered: usize,
}

impl Machine {
    pub(super) fn new() -> Self {
        let mut machine = Self::empty();
        let projects = machine.folder.path().join("projects");
        let recordings = [
            recording("2.1.330", "interactive-permissions"),
            recording("2.1.330", "d-background"),
            recording("2.1.330", "c-nested"),
        ];
        machine.sessions = recordings.iter().map(|recording| Played::new(recording, &projects)).collect();
        machine
    }

    /// A hub without sessions.
    pub(super) fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("projects")).unwrap();
        let clock = ManualClock { origin: crate::clock::tick(), elapsed_ms: Arc::default() };
        let mut machine = Self { folder, clock, hub: None, sessions: Vec::new(), delivered: 0 };
        machine.start();
        machine
    }

    fn start(&mut self) {
        let first = START_MS.unsigned_abs() * 1_000;
        let data = self.folder.path().join("data");
        let store = SqliteStore::open(&data, Access::Write, "test", first).unwrap();
        let root = Root { harness: &ClaudeCode, folder: self.folder.path().join("projects") };
        let driver = FileTailDriver::polled_roots(vec![root], Arc::new(self.clock.clone())).unwrap();
        let (commands, queue) = sync_channel(64);
        // The driver never waits: the test moves the clock.
        let queue = CommandQueue::new(queue, Waker::new(commands.clone()), true);
        let (driver, store, options) = (Box::new(driver), Box::new(store), HubOptions::default());
        let mut event_loop = EventLoop::new(driver, store, options, queue, Box::new(self.clock.clone()));
        event_loop.start();
        self.hub = Some((event_loop, commands));
    }

    fn turn(&mut self) {
        let (event_loop, _) = self.hub.as_mut().unwrap();
        assert!(event_loop.turn() == LoopControl::Continue);
    }

    /// Lets time pass in which the hub looks.
    pub(super) fn wait(&mut self, seconds: i64) {
        let mut left = seconds * 1_000;
        while left > 0 {
            let step = left.min(LOOK_MS);
            self.clock.advance(step);
            left -= step;
            // Reading, deriving and saving take a turn each.
            for _ in 0..3 {
                self.turn();
            }
        }
    }

    pub(super) fn ask<T: Send + 'static>(
        &mut self,
        command: impl FnOnce(crate::ReplyCallback<T>) -> Command,
    ) -> T {
        let (sender, answer) = sync_channel(1);
        let (_, commands) = self.hub.as_ref().unwrap();
        commands.send(command(Box::new(move |reply| sender.send(reply).unwrap()))).unwrap();
        self.turn();
        while !self.hub.as_ref().unwrap().0.pending.is_empty() {
            self.turn();
        }
        // Questions are answered by other threads.
        answer.recv().unwrap()
    }

    pub(super) fn served(&mut self, session: &SessionId) -> Option<Tree> {
        let tree = self.ask(|reply| ask_tree(session.clone(), reply));
        tree.map(|mut tree| {
            tree.stamp(0);
            tree
        })
    }

    /// Writes a file, or lines at its end, at the time of the machine.
    pub(super) fn write(&self, file: &PathBuf, bytes: &[u8], is_whole: bool) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let mut options = OpenOptions::new();
        options.create(true).append(!is_whole).write(true).truncate(is_whole);
        let mut opened = options.open(file).unwrap();
        opened.write_all(bytes).unwrap();
        let now = UNIX_EPOCH + Duration::from_millis(self.clock.now_ms().unsigned_abs());
        opened.set_modified(now).unwrap();
    }

    pub(super) fn read_store(&self) -> SqliteStore {
        SqliteStore::open(&self.folder.path().join("data"), Access::Read, "test", 0).unwrap()
    }

    pub(super) fn archive(&self) -> Archive {
        Archive::new(self.folder.path().join("data/archive"))
    }

    /// The rows of a session as `subscope tree` reads them.
    fn cold(&self, played: &Played) -> Option<Tree> {
        let (store, prices) = (self.read_store(), PriceTable::default());
        let transcripts = played.main.exists().then(|| played.main.clone()).into_iter().collect();
        let sources = SessionSources::find(&played.id, transcripts, Some(&store), &self.archive()).unwrap();
        let options = RouterOptions { keep: FactDetail::Rows, cutoff: None, events: EventScope::Nothing };
        let batch = sources.read(Some(&store), options).unwrap();
        let (at, limits) = (self.clock.now_ms(), Limits::default());
        let now = Now { at, has_ended: false, is_growing: true, prices: &prices, limits };
        batch.router.tree(&played.id, &now).map(|mut tree| {
            tree.stamp(0);
            tree
        })
    }

    pub(super) fn index_options(&self) -> IndexOptions {
        IndexOptions {
            roots: vec![self.folder.path().join("projects")],
            prices: PriceTable::default(),
            limits: Limits::default(),
            now_ms: self.clock.now_ms(),
            workers: Some(1),
            archive: self.archive(),
            archives: false,
            keep_ms: None,
        }
    }

    fn index(&mut self) {
        let options = self.index_options();
        let store = self.read_store();
        let (event_loop, commands) = self.hub.as_mut().unwrap();
        let mut sink = |commit| {
            let (sender, answer) = sync_channel(1);
            let reply = Box::new(move |outcome| sender.send(outcome).unwrap());
            commands.send(Command::CommitIndexBatch(Box::new(commit), reply)).unwrap();
            event_loop.turn();
            answer.try_recv().unwrap().map_err(IndexError::from)
        };
        index::index_rows(&store, &options, &mut sink).unwrap();
    }

    pub(super) fn take(&mut self, step: &Step) {
        match *step {
            Step::Lines(session, count) => {
                for _ in 0..count {
                    let Some((file, line)) = self.sessions[session].lines.pop_front() else { return };
                    let meta = file.with_extension("meta.json");
                    if let Some(meta_bytes) = self.sessions[session].metas.get(&meta)
                        && !file.exists()
                    {
                        self.write(&meta, meta_bytes, true);
                    }
                    self.write(&file, &at_time(&line, self.clock.now_ms()), false);
                    self.clock.advance(20);
                }
            }
            Step::Hooks(session, count) => {
                for _ in 0..count {
                    let Some(hook) = self.sessions[session].hooks.pop_front() else { return };
                    self.delivered += 1;
                    let ingest =
                        hook_ingest(HOOK, &self.delivered.to_string(), Some(self.clock.now_ms()), hook);
                    self.ask(|reply| Command::Ingest(Box::new(ingest), reply)).unwrap();
                    self.clock.advance(20);
                }
            }
            Step::Meta(session, is_whole) => {
                type Note = serde_json::Map<String, serde_json::Value>;
                let played = &mut self.sessions[session];
                let found = played.metas.iter().find(|(file, _)| file.exists());
                let Some((file, mut note)) =
                    found.map(|(file, bytes)| (file.clone(), serde_json::from_slice::<Note>(bytes).unwrap()))
                else {
                    return;
                };
                let stood: Note = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
                if !is_whole && let Some(last) = note.keys().next_back().cloned() {
                    note.remove(&last);
                    // What it said is as gone from the disk as a deleted file, and stays known.
                    played.has_deleted |= stood.contains_key(&last);
                }
                self.write(&file, &serde_json::to_vec(&note).unwrap(), true);
            }
            Step::Stop(session) => {
                let id = self.sessions[session].id.clone();
                let Some(tree) = self.served(&id) else { return };
                let is_live = |row: &&subscope_model::Agent| row.status.is_live() && !row.id.is_root();
                let Some(agent) = tree.agents.iter().find(is_live).map(|row| row.id.to_string()) else {
                    return;
                };
                // Refused if no hook has come.
                let _ = self.ask(|reply| Command::StopAgent(Some(id.to_string()), agent, reply));
            }
            Step::Silence(seconds) => self.wait(seconds),
            Step::Restart(seconds) => {
                if let Some((mut event_loop, _)) = self.hub.take() {
                    event_loop.stop_saving();
                }
                self.clock.advance(seconds * 1_000);
                self.start();
            }
            Step::Crash => {
                self.hub = None;
                self.start();
            }
            Step::Delete(session, file) => {
                let played = &mut self.sessions[session];
                let agents = played.metas.keys().map(|meta| meta.with_extension("").with_extension("jsonl"));
                let files: Vec<PathBuf> =
                    agents.chain([played.main.clone()]).filter(|file| file.exists()).collect();
                let Some(file) = files.get(file % files.len().max(1)) else { return };
                fs::remove_file(file).unwrap();
                played.has_deleted = true;
                // What was not written yet would be another file.
                played.lines.retain(|(of, _)| of != file);
            }
            Step::Index => self.index(),
        }
    }

    /// Compares the rows of all sessions.
    fn compare(&mut self) -> Result<(), TestCaseError> {
        for number in 0..self.sessions.len() {
            let id = self.sessions[number].id.clone();
            let served = self.served(&id);
            let played = &mut self.sessions[number];
            if played.has_deleted {
                // Nothing is lost, and the session's row still shows new input.
                if let Some(best) = &played.best {
                    let served = served.as_ref().expect("rows of a session with a deleted file");
                    prop_assert!(!has_more_than(best, served), "{id} lost rows with a file");
                    prop_assert_eq!(&served.session.title, &best.session.title);
                    prop_assert_eq!(&served.session.cwd, &best.session.cwd);
                }
                continue;
            }
            played.best.clone_from(&served);
            let cold = self.cold(&self.sessions[number]);
            prop_assert!(served == cold, "{}", difference(served.as_ref(), cold.as_ref()));
        }
        Ok(())
    }

    /// Runs steps, and compares after each.
    fn run(steps: &[Step]) -> Result<(), TestCaseError> {
        let mut machine = Self::new();
        for step in steps {
            machine.take(step);
            for _ in 0..4 {
                machine.wait(1);
            }
            machine.compare()?;
        }
        Ok(())
    }
}

/// The first difference between two trees.
pub(super) fn difference(served: Option<&Tree>, cold: Option<&Tree>) -> String {
    let lines = |tree: Option<&Tree>| {
        tree.map(|tree| serde_json::to_string_pretty(tree).unwrap()).unwrap_or_default()
    };
    let (served, cold) = (lines(served), lines(cold));
    let differing = served.lines().zip(cold.lines()).enumerate().find(|(_, (served, cold))| served != cold);
    let (at, _) = differing.unwrap_or((served.lines().count().min(cold.lines().count()), ("", "")));
    let context =
        |text: &str| text.lines().skip(at.saturating_sub(12)).take(16).collect::<Vec<_>>().join("\n");
    format!("served, line {at}:\n{}\ncold:\n{}", context(&served), context(&cold))
}

#[test]
fn rows_equal_those_of_a_cold_read_after_every_step() {
    let cases = std::env::var("SUBSCOPE_CASES").map_or(CASES, |cases| cases.parse().unwrap());
    let config = ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 300,
        ..ProptestConfig::with_cases(cases)
    };
    let seed = std::env::var("SUBSCOPE_SEED").map_or(0, |seed| seed.parse().unwrap());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let steps = prop::collection::vec(step(), 1..30);
    let outcome = TestRunner::new_with_rng(config, rng).run(&steps, |steps| Machine::run(&steps));
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// A session with files and hooks whose transcript is quiet for more than 15 minutes, after a restart: its rows are not
/// those of its hooks alone.
#[test]
fn session_with_hooks_and_a_quiet_transcript_keeps_its_files_after_a_restart() {
    for (before, down) in [(0, 960), (960, 0), (660, 5)] {
        let steps = [
            Step::Hooks(0, 20),
            Step::Lines(0, 30),
            Step::Stop(0),
            Step::Silence(before),
            Step::Restart(down),
            Step::Silence(905),
            Step::Hooks(0, 1),
            Step::Silence(1_805),
        ];
        Machine::run(&steps).unwrap();
    }
}
