//! Responses that several sessions contain count once: in a store, however they arrived; live; and in a batch read of
//! files. The expected values are the answers of the recordings' scripted model.

#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::mpsc::sync_channel,
    thread,
    time::Duration,
};

use subscope_collect::archive::Archive;
use subscope_hub::{
    BatchRead, FileTailDriver, History, Hub, HubOptions, ListQuery, MemoryStore, SessionQueries, Store,
    clock,
    index::{IndexOptions, index},
};
use subscope_model::{Flag, PriceTable, SessionId, Stats, StatsQuery, Tree};
use subscope_session::{EventScope, FactDetail, Limits, RouterOptions};
use subscope_store::{Access, SqliteStore};
use subscope_testkit::{
    fixtures::root,
    sessions::{LATER, now},
    strategies::permutations,
};

const RECORDINGS: [&str; 4] =
    ["1.0.60/resume", "1.0.100/resume", "2.0.28/fork-session", "2.1.330/fork-session"];

/// Timeout, far above any wait of these tests.
const LIMIT: Duration = Duration::from_secs(30);

/// Totals over a recording's sessions: responses, calls, tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sum {
    responses: u64,
    calls: u64,
    tokens: u64,
}

impl Sum {
    fn truth(recording: &str) -> Self {
        let text = fs::read(root().join("copies").join(recording).join("truth.json")).unwrap();
        let truth: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let of = |key: &str| truth[key].as_u64().unwrap();
        Self { responses: of("responses"), calls: of("tool_calls"), tokens: of("total_tokens") }
    }

    fn of<'t>(trees: impl IntoIterator<Item = &'t Tree>) -> Self {
        let mut sum = Self { responses: 0, calls: 0, tokens: 0 };
        for tree in trees {
            let rows: u32 = tree.agents.iter().map(|row| row.tool_calls).sum();
            assert_eq!(rows, tree.summary.tool_calls);
            let shown = tree.agents.iter().filter(|row| !row.is_copy() && !row.has(Flag::Warmup)).count();
            assert_eq!(
                shown as u32,
                tree.summary.agents + 1,
                "copies and warm-ups are no agents of a session"
            );
            sum.responses += tree.agents.iter().map(|row| u64::from(row.messages)).sum::<u64>();
            sum.calls += u64::from(rows);
            sum.tokens +=
                tree.agents.iter().filter_map(|row| row.usage).map(|it| it.total_tokens).sum::<u64>();
        }
        sum
    }
}

/// A folder of transcripts that sessions of a recording appear in.
struct Place {
    folder: tempfile::TempDir,
    from: PathBuf,
}

impl Place {
    fn new(recording: &str) -> Self {
        let from = root().join("copies").join(recording).join("projects/-home-user-shop");
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("projects/-home-user-shop")).unwrap();
        Self { folder, from }
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("projects/-home-user-shop")
    }

    /// The recording's sessions.
    fn sessions(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.from).unwrap().map(|entry| entry.unwrap().file_name());
        let names = entries.filter_map(|name| Some(name.to_str()?.strip_suffix(".jsonl")?.to_owned()));
        let mut all: Vec<String> = names.filter(|name| !name.starts_with("agent-")).collect();
        all.sort();
        all
    }

    /// Copies a session's files into the folder.
    fn adopt(&self, session: &str) {
        let beside = |path: &Path| {
            let line = fs::read_to_string(path).unwrap();
            line.contains(&format!("\"sessionId\":\"{session}\""))
        };
        for entry in fs::read_dir(&self.from).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if name.starts_with("agent-") && beside(&path) || name == format!("{session}.jsonl") {
                fs::copy(&path, self.project().join(&name)).unwrap();
            } else if name == session {
                let below = self.project().join(session).join("subagents");
                fs::create_dir_all(&below).unwrap();
                for file in fs::read_dir(path.join("subagents")).unwrap() {
                    let file = file.unwrap().path();
                    fs::copy(&file, below.join(file.file_name().unwrap())).unwrap();
                }
            }
        }
    }

    fn store(&self, rules: &str) -> SqliteStore {
        SqliteStore::open(&self.folder.path().join("data"), Access::Write, rules, 1).unwrap()
    }

    fn index(&self, store: &mut SqliteStore) {
        let options = IndexOptions {
            roots: vec![self.folder.path().join("projects")],
            prices: PriceTable::default(),
            limits: Limits::default(),
            now_ms: LATER,
            workers: None,
            archive: Archive::new(self.folder.path().join("data/archive")),
            archives: false,
            keep_ms: None,
        };
        let report = index(store, None, &options, &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

fn all() -> ListQuery {
    ListQuery::first(usize::MAX)
}

/// Every session's tree without the numbers that a store assigns.
fn trees(keeper: &dyn History) -> BTreeMap<SessionId, Tree> {
    let rows = keeper.list(&all()).unwrap();
    let trees = rows.into_iter().map(|row| {
        let mut tree = keeper.tree(&row.id).unwrap().unwrap();
        tree.session.rev = None;
        tree.agents.iter_mut().for_each(|row| row.rev = None);
        (row.id, tree)
    });
    trees.collect()
}

#[test]
fn a_store_counts_each_response_once_in_any_order_and_after_a_rebuild() {
    for recording in RECORDINGS {
        let truth = Sum::truth(recording);
        let mut expected: Option<(BTreeMap<SessionId, Tree>, Stats)> = None;
        let sessions = Place::new(recording).sessions();
        assert_eq!(sessions.len(), 3);
        for order in permutations(&sessions) {
            let place = Place::new(recording);
            let mut store = place.store("1");
            for session in &order {
                place.adopt(session);
                place.index(&mut store);
            }
            let found = (trees(&store), store.stats(&StatsQuery::default()).unwrap());
            assert_eq!(Sum::of(found.0.values()), truth, "{recording} {order:?}");
            assert_eq!(
                (found.1.total.tool_calls, found.1.total.usage.total_tokens),
                (truth.calls, truth.tokens)
            );
            let listed = store.list(&all()).unwrap();
            let tokens = listed.iter().filter_map(|row| row.usage).map(|usage| usage.total_tokens);
            assert_eq!(tokens.sum::<u64>(), truth.tokens, "{recording}");
            drop(store);
            let mut store = place.store("2");
            assert_eq!(store.due_sessions(LATER).unwrap().len(), 3);
            place.index(&mut store);
            assert_eq!(
                (trees(&store), store.stats(&StatsQuery::default()).unwrap()),
                found,
                "{recording} rebuilt"
            );
            match &expected {
                Some(expected) => assert_eq!(*expected, found, "{recording} {order:?}"),
                None => expected = Some(found),
            }
        }
    }
}

#[test]
fn a_copy_that_was_there_first_and_an_original_that_grows_are_set_right() {
    let recording = "1.0.60/resume";
    let place = Place::new(recording);
    let mut store = place.store("1");
    let sessions = place.sessions();
    sessions.iter().for_each(|session| place.adopt(session));
    // The original while only a part of it had arrived: responses that it does not contain yet count in the copy.
    let began = |session: &String| {
        let text = fs::read_to_string(place.project().join(format!("{session}.jsonl"))).unwrap();
        let times = text.lines().filter_map(|line| line.split("\"timestamp\":\"").nth(1).map(str::to_owned));
        times.min()
    };
    let first = sessions.iter().min_by_key(|session| began(session)).unwrap();
    let main = place.project().join(format!("{first}.jsonl"));
    let whole = fs::read_to_string(&main).unwrap();
    let part: String = whole.lines().take(2).map(|line| format!("{line}\n")).collect();
    fs::write(&main, part).unwrap();
    place.index(&mut store);
    let before = Sum::of(trees(&store).values());
    fs::write(&main, whole).unwrap();
    place.index(&mut store);
    let after = Sum::of(trees(&store).values());
    assert_eq!(after, Sum::truth(recording));
    assert!(before.responses < after.responses, "its subagents' responses stand nowhere else");
}

#[test]
fn what_was_settled_is_not_done_again() {
    let place = Place::new("1.0.60/resume");
    let mut store = place.store("1");
    place.sessions().iter().for_each(|session| place.adopt(session));
    place.index(&mut store);
    assert!(store.uncompared_sessions().unwrap().is_empty());
    let rev = |store: &SqliteStore| {
        let trees = store.list(&all()).unwrap().into_iter().map(|row| store.tree(&row.id).unwrap().unwrap());
        trees.map(|tree| (tree.session.id, tree.session.rev.unwrap())).collect::<BTreeMap<_, _>>()
    };
    let before = rev(&store);
    place.index(&mut store);
    assert_eq!(rev(&store), before, "nothing was written");
    drop(store);
    let mut store = place.store("2");
    place.index(&mut store);
    let after = rev(&store);
    assert!(before.iter().all(|(session, rev)| after[session] > *rev), "a rebuild's rows are newer");
}

#[test]
fn many_copies_of_one_session_are_each_compared_with_its_owner_alone() {
    const COPIES: usize = 30;
    let recording = "2.1.330/fork-session";
    let place = Place::new(recording);
    let first = place.sessions().remove(0);
    place.adopt(&first);
    let original = place.project().join(format!("{first}.jsonl"));
    let text = fs::read_to_string(original).unwrap();
    let expected = {
        let alone = Place::new(recording);
        alone.adopt(&first);
        let mut store = alone.store("1");
        alone.index(&mut store);
        Sum::of(trees(&store).values())
    };
    for number in 0..COPIES {
        let id = format!("{number:08x}-0000-4000-8000-000000000000");
        fs::write(place.project().join(format!("{id}.jsonl")), text.replace(&first, &id)).unwrap();
        // With its agents: of one without lines anywhere the result of its spawn call would count.
        let agents = place.project().join(&id).join("subagents");
        fs::create_dir_all(&agents).unwrap();
        for file in fs::read_dir(place.project().join(&first).join("subagents")).unwrap() {
            let file = file.unwrap().path();
            let own = fs::read_to_string(&file).unwrap().replace(&first, &id);
            fs::write(agents.join(file.file_name().unwrap()), own).unwrap();
        }
    }
    let mut store = place.store("1");
    place.index(&mut store);
    assert_eq!(trees(&store).len(), COPIES + 1);
    assert_eq!(Sum::of(trees(&store).values()), expected);
    let kin = store.shared_history().unwrap();
    assert_eq!(kin.len(), COPIES, "each has one whose its copies are");
    assert!(kin.iter().all(|it| it.earlier == kin[0].earlier));
}

/// Rows of a hub after all sessions arrived and nothing changes any more, or after a long time.
fn live(place: &Place, order: &[String], keeper: impl Store + 'static, truth: Sum) -> Sum {
    let options = HubOptions::default();
    let driver = FileTailDriver::targets(vec![place.folder.path().join("projects")], None).unwrap();
    let hub = Hub::start(Box::new(driver), Box::new(keeper), options).unwrap();
    let handle = hub.handle();
    let shown = || {
        let (sender, answer) = sync_channel(1);
        let reply = Box::new(move |page| drop(sender.try_send(page)));
        handle.ask(None, reply, |queries| queries.sessions(&all())).unwrap();
        let rows = answer.recv_timeout(LIMIT).unwrap().unwrap().sessions;
        let tree = |session: SessionId| {
            let (sender, answer) = sync_channel(1);
            let reply = Box::new(move |tree| drop(sender.try_send(tree)));
            handle.ask(Some(session.clone()), reply, move |queries| queries.tree(&session)).unwrap();
            answer.recv_timeout(LIMIT).unwrap().unwrap().unwrap()
        };
        rows.into_iter().map(|row| tree(row.id)).collect::<Vec<Tree>>()
    };
    let wait = |is_there: &dyn Fn(&[Tree]) -> bool| {
        let began = clock::tick();
        loop {
            let trees = shown();
            if is_there(&trees) || began.elapsed() > LIMIT {
                return Sum::of(&trees);
            }
            thread::sleep(Duration::from_millis(5));
        }
    };
    for session in order {
        place.adopt(session);
        wait(&|trees| trees.iter().any(|tree| tree.session.id.as_str() == session));
    }
    wait(&|trees| Sum::of(trees) == truth)
}

#[test]
fn live_rows_count_each_response_once_in_any_order() {
    for recording in ["1.0.60/resume", "2.1.330/fork-session"] {
        let truth = Sum::truth(recording);
        let sessions = Place::new(recording).sessions();
        let turned: Vec<String> = sessions.iter().rev().cloned().collect();
        for order in [sessions, turned] {
            let place = Place::new(recording);
            assert_eq!(live(&place, &order, MemoryStore::new(), truth), truth, "{recording}");
            // A hub that reads the next session knows the stored one.
            let place = Place::new(recording);
            let mut store = place.store("1");
            place.adopt(&order[0]);
            place.index(&mut store);
            assert_eq!(live(&place, &order[1..], store, truth), truth, "{recording} kept");
            let mut store = place.store("1");
            place.index(&mut store);
            assert_eq!(Sum::of(trees(&store).values()), truth, "{recording}: and to an index behind it");
        }
    }
}

#[test]
fn files_as_they_stand_count_each_response_once() {
    for recording in RECORDINGS {
        let place = Place::new(recording);
        place.sessions().iter().for_each(|session| place.adopt(session));
        let expanded = BatchRead::expand(&[place.folder.path().join("projects")]).unwrap();
        let options = RouterOptions { keep: FactDetail::Rows, cutoff: None, events: EventScope::Nothing };
        let cold = BatchRead::read(expanded, options, None);
        let prices = PriceTable::default();
        let trees: Vec<Tree> = cold
            .router
            .sessions()
            .filter_map(|session| cold.router.tree(session, &now(LATER, &prices)))
            .collect();
        assert_eq!(Sum::of(&trees), Sum::truth(recording), "{recording}");
        assert!(trees.iter().any(|tree| tree.agents.iter().any(|row| row.is_copy())), "{recording}");
    }
}
