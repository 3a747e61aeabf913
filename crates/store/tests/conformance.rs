//! Conformance suite of the stores, and tests of what only the persistent one does.

#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use subscope_model::{
    Event, Looks, Millis, SessionId, SessionKeys, StatsQuery, Tree, Zone, parse_rfc3339, remote_session,
};
use subscope_store::{
    Access, Commit, DayCost, DuplicateScan, FileIdentity, History, Ledger, ListQuery, MemoryStore, OpenError,
    ReceivedInput, RemotePosition, SessionQueries, SharedHistory, SourceFile, SqliteStore, StoredSessionKeys,
};
mod session_queries;

use session_queries::{FilledStore, check, real};

trait Store: Ledger + History {}
impl<T: Ledger + History> Store for T {}

/// Runs a check on a new store of each kind.
fn for_each_store(mut check: impl FnMut(&str, &mut dyn Store)) {
    check("memory", &mut MemoryStore::new());
    let folder = tempfile::tempdir().unwrap();
    check("sqlite", &mut SqliteStore::open(folder.path(), Access::Write, "1", 1).unwrap());
}

fn event(id: &str) -> Event {
    let json = format!(
        r#"{{"schema":"subscope.event/1","id":"{id}","seq":0,"at_ms":5,"session_id":"s","run":0,"actor_id":"agent:root","basis":"link","source":"x","kind":"heartbeat","data":{{"a":[1,"ü"]}}}}"#
    );
    serde_json::from_str(&json).unwrap()
}

fn all() -> ListQuery {
    ListQuery::first(usize::MAX)
}

#[test]
fn a_committed_tree_comes_back_as_it_was() {
    let (one, other) = (real("k-big"), real("c-nested"));
    for_each_store(|which, store| {
        assert!(store.tree(&one.session.id).unwrap().is_none());
        let trees = vec![one.clone(), other.clone()];
        store.commit(&Commit { trees, ..Commit::default() }).unwrap();
        assert_eq!(store.tree(&one.session.id).unwrap().as_ref(), Some(&one), "{which}");
        let mut changed = one.clone();
        changed.agents.truncate(2);
        store.commit(&Commit { trees: vec![changed.clone()], ..Commit::default() }).unwrap();
        assert_eq!(store.tree(&one.session.id).unwrap(), Some(changed), "{which}: replaced whole");
        assert_eq!(store.tree(&other.session.id).unwrap().as_ref(), Some(&other), "{which}");
        assert_eq!(store.list(&all()).unwrap().len(), 2, "{which}");
    });
}

#[test]
fn what_the_user_has_seen_is_kept() {
    for_each_store(|which, store| {
        assert_eq!(store.looks().unwrap(), Looks::default(), "{which}");
        store.dismiss(&"s".into(), &["a1 silent 5".into()], 10).unwrap();
        store.dismiss(&"t".into(), &["a1 plan 5".into()], 11).unwrap();
        store.dismiss(&"s".into(), &["a2 plan 6".into(), "a3 failed 7".into()], 12).unwrap();
        store.mark_seen(20).unwrap();
        store.mark_seen(15).unwrap();
        let looks = store.looks().unwrap();
        assert_eq!(looks.seen_until_ms, Some(20), "{which}: never back");
        assert_eq!(
            looks.dismissed[&"s".into()],
            ["a2 plan 6".into(), "a3 failed 7".into()],
            "{which}: the last one"
        );
        assert_eq!(looks.dismissed.len(), 2, "{which}");
    });
    let folder = tempfile::tempdir().unwrap();
    let open = |access| SqliteStore::open(folder.path(), access, "1", 1).unwrap();
    let mut store = open(Access::Write);
    store.dismiss(&"s".into(), &["a1 silent 5".into()], 10).unwrap();
    store.mark_seen(20).unwrap();
    drop(store);
    let looks = open(Access::Read).looks().unwrap();
    assert_eq!((looks.seen_until_ms, looks.dismissed.len()), (Some(20), 1), "after a restart");
    open(Access::Write).forget(&["s".into()]).unwrap();
    let looks = open(Access::Read).looks().unwrap();
    assert_eq!((looks.seen_until_ms, looks.dismissed.len()), (Some(20), 0), "forgotten");
}

#[test]
fn rows_of_another_machine_are_stored_with_their_position_and_removed_whole() {
    let (mut one, other) = (real("k-big"), real("c-nested"));
    one.session.id = remote_session("gpu1", &one.session.id);
    one.session.machine = Some("gpu1".into());
    let id = one.session.id.clone();
    let position = |rev| RemotePosition { machine: "gpu1".into(), store: "s".into(), rev };
    let check = |which: &str, store: &mut dyn Store| {
        assert_eq!(store.remote_position("gpu1").unwrap(), None, "{which}");
        let trees = vec![one.clone(), other.clone()];
        let remote = Some(position(7));
        store.commit(&Commit { trees, remote, ..Commit::default() }).unwrap();
        assert_eq!(store.remote_position("gpu1").unwrap(), Some(position(7)), "{which}");
        assert_eq!(store.remote_position("gpu").unwrap(), None, "{which}");
        let query = ListQuery { words: "machine:gpu1".to_owned(), ..all() };
        let listed = store.list(&query).unwrap();
        assert_eq!(listed.iter().map(|row| &row.id).collect::<Vec<_>>(), [&id], "{which}");
        let (removed, remote) = (vec![id.clone(), "gpu1~never".into()], Some(position(9)));
        store.commit(&Commit { removed, remote, ..Commit::default() }).unwrap();
        assert_eq!((store.tree(&id).unwrap(), store.is_forgotten(&id).unwrap()), (None, false), "{which}");
        assert_eq!(
            (store.list(&query).unwrap(), store.list(&all()).unwrap().len()),
            (Vec::new(), 1),
            "{which}"
        );
        assert_eq!(store.remote_position("gpu1").unwrap(), Some(position(9)), "{which}");
        // It may come again.
        store.commit(&Commit { trees: vec![one.clone()], ..Commit::default() }).unwrap();
        assert_eq!(store.tree(&id).unwrap().as_ref(), Some(&one), "{which}");
    };
    for_each_store(check);
    let folder = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(folder.path(), Access::Write, "1", 1).unwrap();
    check("on disk", &mut store);
    // What the user has forgotten stays so, whatever the machine says.
    store.forget(std::slice::from_ref(&id)).unwrap();
    assert!(store.is_forgotten(&id).unwrap());
    store.commit(&Commit { removed: vec![id.clone()], ..Commit::default() }).unwrap();
    assert!(store.is_forgotten(&id).unwrap());
}

#[test]
fn sessions_in_work_trees_count_as_their_projects() {
    let (mut one, mut other) = (real("k-big"), real("c-nested"));
    one.session.cwd = Some("/home/user/shop".into());
    other.session.cwd = Some("/var/trees/fix".into());
    for_each_store(|which, store| {
        let of = |store: &dyn Store, project: &str| {
            let query = StatsQuery { project: Some(project.into()), ..StatsQuery::default() };
            let stats = store.stats(&query).unwrap();
            let names = stats.by_project.iter().map(|row| (row.name.to_string(), row.sessions));
            (stats.total.sessions, names.collect::<Vec<_>>())
        };
        let commit = |store: &mut dyn Store, trees: &[&Tree]| {
            let trees = trees.iter().map(|tree| (*tree).clone()).collect();
            store.commit(&Commit { trees, ..Commit::default() }).unwrap();
        };
        let mut linked = other.clone();
        linked.session.project = Some("/home/user/shop".into());
        commit(store, &[&one, &other]);
        assert_eq!(of(store, "/home/user/shop"), (1, vec![("/home/user/shop".into(), 1)]), "{which}");
        commit(store, &[&linked]);
        let both = (2, vec![("/home/user/shop".to_owned(), 2)]);
        assert_eq!(of(store, "/home/user/shop"), both, "{which}");
        // It is still below its own folder.
        assert_eq!(of(store, "/var/trees").0, 1, "{which}");
        // The folder is gone when the session is derived again.
        commit(store, &[&other]);
        assert_eq!(store.tree(&other.session.id).unwrap().as_ref(), Some(&linked), "{which}");
        assert_eq!(of(store, "/home/user/shop"), both, "{which}");
        // What was known of another folder says nothing of this one.
        let mut moved = other.clone();
        moved.session.cwd = Some("/var/trees/other".into());
        commit(store, &[&moved]);
        assert_eq!(store.tree(&other.session.id).unwrap(), Some(moved), "{which}");
    });
}

#[test]
fn recent_sessions_are_those_with_changed_rows() {
    let (one, other) = (real("k-big"), real("c-nested"));
    for_each_store(|which, store| {
        let keep = |store: &mut dyn Store, tree: &Tree, at_ms| {
            store.commit(&Commit { trees: vec![tree.clone()], at_ms, ..Commit::default() }).unwrap();
        };
        let since = |store: &dyn Store, at| {
            let rows = store.list(&ListQuery { kept_since: Some(at), ..all() }).unwrap();
            rows.into_iter().map(|row| (row.id, row.kept_at_ms.unwrap())).collect::<Vec<_>>()
        };
        keep(store, &one, 1_000);
        keep(store, &other, 2_000);
        assert_eq!(since(store, 1_500), [(other.session.id.clone(), 2_000)], "{which}");
        // Equal rows are no change.
        keep(store, &one, 3_000);
        assert_eq!(since(store, 2_500), [], "{which}");
        let mut grown = one.clone();
        grown.summary.tool_calls += 1;
        keep(store, &grown, 4_000);
        assert_eq!(since(store, 2_500), [(one.session.id.clone(), 4_000)], "{which}");
        assert_eq!(since(store, 0).len(), 2, "{which}");
    });
}

#[test]
fn stores_answer_questions_about_sessions_alike() {
    let mut answers = Vec::new();
    for_each_store(|which, store| answers.push(check(which, &mut CommittedTrees(store))));
    let [memory, sqlite] = answers.as_slice() else { panic!("two") };
    assert_eq!(memory, sqlite);
}

/// A session's list row, and its figures in all statistics, mark the same costs as lower bounds.
#[test]
fn costs_are_lower_bounds_in_statistics_where_they_are_in_lists() {
    let mut priced = real("b-parallel");
    for agent in &mut priced.agents {
        (agent.cost_micro_usd, agent.cost_floor) = (Some(1_000), false);
    }
    let sum = 1_000 * i64::try_from(priced.agents.len()).unwrap();
    (priced.summary.cost_micro_usd, priced.summary.cost_floor) = (Some(sum), false);
    // One agent's model has no price: the sum of the others is a lower bound, unless the harness says what all have cost.
    let mut unpriced = priced.clone();
    unpriced.agents[1].cost_micro_usd = None;
    (unpriced.summary.cost_micro_usd, unpriced.summary.cost_floor) = (Some(sum - 1_000), true);
    let mut totaled = unpriced.clone();
    (totaled.summary.cost_micro_usd, totaled.summary.cost_floor) = (Some(sum), false);
    let mut unknown = unpriced.clone();
    unknown.agents.iter_mut().for_each(|agent| agent.cost_micro_usd = None);
    (unknown.summary.cost_micro_usd, unknown.summary.cost_floor) = (None, false);
    let mut placeholder = priced.clone();
    placeholder.agents[2].cost_floor = true;
    placeholder.summary.cost_floor = true;
    // An agent of which nothing is known has no tokens: only the sum lacks them.
    let mut missing = priced.clone();
    missing.summary.cost_floor = true;
    let kind = |tree: &Tree, at: usize| tree.agents[at].agent_type.clone().unwrap();
    for (name, tree, is_floor, marked) in [
        ("priced", &priced, false, None),
        ("unpriced", &unpriced, true, Some(1)),
        ("totaled", &totaled, false, Some(1)),
        ("unknown", &unknown, true, Some(0)),
        ("placeholder", &placeholder, true, Some(2)),
        ("missing", &missing, true, Some(0)),
    ] {
        for_each_store(|which, store| {
            store.commit(&Commit { trees: vec![tree.clone()], ..Commit::default() }).unwrap();
            let which = format!("{which} {name}");
            let row = store.list(&all()).unwrap().remove(0);
            let cost = (row.cost_micro_usd, row.cost_floor);
            assert_eq!(cost, (tree.summary.cost_micro_usd, tree.summary.cost_floor), "{which}");
            let stats = store.stats(&StatsQuery::default()).unwrap();
            let total = u64::try_from(row.cost_micro_usd.unwrap_or(0)).unwrap();
            for rows in
                [std::slice::from_ref(&stats.total), &stats.by_day, &stats.by_project, &stats.by_harness]
            {
                let cost =
                    (rows.iter().map(|row| row.cost_micro_usd).sum(), rows.iter().any(|row| row.cost_floor));
                assert_eq!(cost, (total, is_floor), "{which}: {rows:?}");
            }
            let day = tree.agents[0].started_at_ms.unwrap().div_euclid(86_400_000);
            let expected =
                DayCost { cost: i64::try_from(total).unwrap(), floor_sessions: u64::from(is_floor) };
            for session in [None, Some(&tree.session.id)] {
                assert_eq!(store.cost_of_day(day, &Zone::default(), session).unwrap(), expected, "{which}");
                assert_eq!(
                    store.cost_of_day(day + 1, &Zone::default(), session).unwrap(),
                    DayCost::default(),
                    "{which}"
                );
            }
            assert_eq!(subscope_store::cost_of_day(tree, day, &Zone::default()), expected, "{which}");
            let name = |at| if at == 0 { "main".into() } else { kind(tree, at) };
            let is_marked =
                |kind: &str| stats.by_type.iter().find(|row| &*row.name == kind).unwrap().cost_floor;
            assert!(marked.is_none_or(|at| is_marked(&name(at))), "{which}: {:?}", stats.by_type);
            assert_eq!(stats.by_type.iter().any(|row| row.cost_floor), marked.is_some(), "{which}");
        });
    }
}

#[test]
fn unsaved_rows_count_in_place_of_the_stored_ones_of_their_sessions() {
    let (saved, changed, new) = (real("k-big"), real("c-nested"), real("b-parallel"));
    let mut before = changed.clone();
    before.agents.truncate(2);
    let mut expected = MemoryStore::new();
    let trees = vec![saved.clone(), changed.clone(), new.clone()];
    expected.commit(&Commit { trees, ..Commit::default() }).unwrap();
    for_each_store(|which, store| {
        let trees = vec![saved.clone(), before.clone()];
        store.commit(&Commit { trees, ..Commit::default() }).unwrap();
        for harness in [None, changed.session.harness.clone(), Some("another".into())] {
            let query = StatsQuery { harness, ..StatsQuery::default() };
            let found = store.stats_with(&query, &[&changed, &new]).unwrap();
            assert_eq!(found, expected.stats(&query).unwrap(), "{which} {query:?}");
            assert_eq!(
                store.reader()().unwrap().stats_with(&query, &[&changed, &new]).unwrap(),
                found,
                "{which}"
            );
        }
    });
}

/// A store that is filled by commits.
struct CommittedTrees<'s>(&'s mut dyn Store);

impl FilledStore for CommittedTrees<'_> {
    fn put(&mut self, trees: &[Tree]) {
        self.0.commit(&Commit { trees: trees.to_vec(), ..Commit::default() }).unwrap();
    }

    fn queries(&self) -> &dyn SessionQueries {
        self.0
    }
}

#[test]
fn agents_are_found_by_id_or_by_the_call_that_started_them() {
    for_each_store(|which, store| {
        let trees = vec![real("b-parallel"), real("c-nested")];
        store.commit(&Commit { trees: trees.clone(), ..Commit::default() }).unwrap();
        let Tree { session, agents, .. } = &trees[1];
        for row in agents {
            let named = store.agent_label(&session.id, row.id.as_str()).unwrap().unwrap();
            let label = (&named.id, &named.agent_type, &named.description);
            assert_eq!(label, (&row.id, &row.agent_type, &row.description), "{which}");
            let call = row.spawned_by.as_ref().map_or("root", |call| call.as_str());
            assert_eq!(store.agent_label(&session.id, call).unwrap(), Some(named), "{which}");
        }
        assert_eq!(store.agent_label(&session.id, "").unwrap(), None, "{which}");
        let agent = agents.last().unwrap().id.as_str();
        assert_eq!(store.agent_label(&trees[0].session.id, agent).unwrap(), None, "{which}");
        assert_eq!(store.agent_label(&SessionId("none".into()), "root").unwrap(), None, "{which}");
    });
}

#[test]
fn events_are_numbered_and_found_after_a_number() {
    for_each_store(|which, store| {
        let logged =
            store.commit(&Commit { events: vec![event("a"), event("b")], ..Commit::default() }).unwrap();
        let more = store.commit(&Commit { events: vec![event("c")], ..Commit::default() }).unwrap();
        let numbers: Vec<u64> = logged.iter().chain(&more).map(|event| event.seq).collect();
        assert!(numbers.is_sorted_by(|one, other| one + 1 == *other), "{which}: {numbers:?}");
        let behind = |seq: u64| store.events_after(seq, None, 100).unwrap();
        assert_eq!(behind(numbers[0]).unwrap(), [logged[1].clone(), more[0].clone()], "{which}");
        assert_eq!(behind(numbers[2]).unwrap(), [], "{which}");
        let one = store.events_after(numbers[0], Some(&SessionId("s".into())), 1).unwrap().unwrap();
        assert_eq!(one, [logged[1].clone()], "{which}");
        let none = store.events_after(numbers[0], Some(&SessionId("t".into())), 1).unwrap().unwrap();
        assert!(none.is_empty(), "{which}");
    });
}

/// Returns the received input of a session, read in pages of `bytes`, and the number of pages.
fn read_received(ledger: &dyn Ledger, session: &SessionId, bytes: u64) -> (Vec<ReceivedInput>, usize) {
    let (mut all, mut pages, mut after) = (Vec::new(), 0, 0);
    loop {
        let next = ledger.read_received(session, after, bytes, &mut |one| all.push(one)).unwrap();
        pages += 1;
        let Some(next) = next else { return (all, pages) };
        assert!(next > after, "every page has something");
        after = next;
    }
}

#[test]
fn received_input_is_deduplicated_by_source_and_key() {
    let row = |key: &str| ReceivedInput {
        source: "hooks".into(),
        session: None,
        dialect: "claude.hook".into(),
        key: key.into(),
        received_ms: 1,
        body: b"{}\n".to_vec(),
        parts: Vec::new(),
        sessions: vec![SessionId("s".into())],
    };
    for_each_store(|which, store| {
        assert!(!store.has_received("hooks", "1").unwrap(), "{which}");
        store.commit(&Commit { received: vec![row("1"), row("2")], ..Commit::default() }).unwrap();
        store.commit(&Commit { received: vec![row("2")], ..Commit::default() }).unwrap();
        assert!(store.has_received("hooks", "2").unwrap(), "{which}");
        assert!(!store.has_received("other", "1").unwrap(), "{which}");
    });
}

/// More rows than an index batch, of three sessions in turns; some rows are about two of them.
#[test]
fn indexed_and_unindexed_rows_are_found_alike() {
    let ids = ["a", "b", "c"].map(|id| SessionId(id.into()));
    let row = |number: usize| ReceivedInput {
        source: format!("source-{}", number % 7),
        session: number.is_multiple_of(2).then(|| ids[number % 3].to_string()),
        dialect: "claude.hook".into(),
        key: number.to_string(),
        received_ms: 1,
        body: format!("{number}\n").into_bytes(),
        parts: Vec::new(),
        sessions: match number % 5 {
            0 => vec![ids[number % 3].clone(), ids[(number + 1) % 3].clone()],
            _ => vec![ids[number % 3].clone()],
        },
    };
    let logged = |number: usize| Event { session_id: ids[number % 3].clone(), ..event(&number.to_string()) };
    let folder = tempfile::tempdir().unwrap();
    let open = |access| SqliteStore::open(folder.path(), access, "1", 1_000).unwrap();
    let mut memory = MemoryStore::default();
    let mut last = 0;
    for round in 0..7 {
        let mut store = open(Access::Write);
        for first in (round * 450..(round + 1) * 450).step_by(90) {
            let numbers = first..first + 90;
            let commit = Commit {
                received: numbers.clone().map(row).collect(),
                events: numbers.map(logged).collect(),
                ..Commit::default()
            };
            last = store.commit(&commit).unwrap().last().unwrap().seq;
            memory.commit(&commit).unwrap();
            // Repeated deliveries.
            store.commit(&Commit { events: Vec::new(), ..commit }).unwrap();
        }
        let count = (round + 1) * 450;
        let reader = open(Access::Read);
        for store in [&store, &reader] {
            for (place, id) in ids.iter().enumerate() {
                let wanted: Vec<usize> =
                    (0..count).filter(|number| row(*number).sessions.contains(id)).collect();
                let found = store.received_of(id).unwrap();
                assert_eq!(read_received(store, id, u64::MAX), (found.clone(), 1));
                let bytes: usize = found.iter().map(|row| row.body.len()).sum();
                let (paged, pages) = read_received(store, id, bytes as u64 / 4);
                assert!(paged == found && (4..=5).contains(&pages), "{pages} pages");
                if round == 0 {
                    assert_eq!(read_received(store, id, 1), (found.clone(), found.len()));
                }
                let found: Vec<usize> = found.iter().map(|row| row.key.parse().unwrap()).collect();
                assert_eq!(found, wanted, "round {round}, {id}");
                assert_eq!(read_received(&memory, id, bytes as u64 / 4).1, pages);
                let (held, _) = read_received(&memory, id, u64::MAX);
                let held: Vec<usize> = held.iter().map(|row| row.key.parse().unwrap()).collect();
                assert_eq!(held, wanted, "round {round}, {id}, in memory");
                let events = store.events_after(0, Some(id), usize::MAX).unwrap().unwrap();
                assert_eq!(events.len(), (0..count).filter(|number| number % 3 == place).count());
                assert!(events.is_sorted_by_key(|event| event.seq));
                let behind = store.events_after(last - 400, Some(id), 20).unwrap().unwrap();
                let all = events.iter().filter(|event| event.seq > last - 400).take(20);
                assert!(behind.iter().eq(all), "round {round}, {id}");
                let newest: Vec<_> = events.iter().rev().take(10).map(|event| event.id.clone()).collect();
                let told: Vec<_> =
                    store.latest_events(id, 10).unwrap().into_iter().map(|(id, _)| id).collect();
                assert_eq!(told, newest, "round {round}, {id}");
            }
        }
        for number in 0..count + 50 {
            let ReceivedInput { source, key, .. } = row(number);
            assert_eq!(store.has_received(&source, &key).unwrap(), number < count, "{number}");
            assert_eq!(memory.has_received(&source, &key).unwrap(), number < count, "{number}");
        }
    }
    let mut store = open(Access::Write);
    store
        .commit(&Commit { received: vec![row(9999)], events: vec![logged(9999)], ..Commit::default() })
        .unwrap();
    store.forget(std::slice::from_ref(&ids[0])).unwrap();
    assert!(store.received_of(&ids[0]).unwrap().is_empty());
    assert!(store.events_after(last, Some(&ids[0]), 10).unwrap().unwrap().is_empty());
    assert!(store.has_received("source-3", "9999").unwrap(), "what was forgotten does not come again");
    assert!(!store.received_of(&ids[1]).unwrap().is_empty());
}

#[test]
fn a_store_has_one_writer_and_many_readers_and_persists() {
    let folder = tempfile::tempdir().unwrap();
    let open = |access, rules: &str| SqliteStore::open(folder.path(), access, rules, 1_000_000);
    assert!(open(Access::Read, "1").is_err(), "nothing was kept yet");
    let one = real("a-single");
    let source = SourceFile {
        path: PathBuf::from("/somewhere/a.jsonl"),
        session: one.session.id.clone(),
        identity: FileIdentity { inode: u64::MAX, bytes: 5, modified_ns: -1 },
    };
    let mut writer = open(Access::Write, "1").unwrap();
    let commit = Commit {
        trees: vec![one.clone()],
        deadlines: vec![(one.session.id.clone(), 500)],
        events: vec![event("a")],
        sources: vec![source.clone()],
        ..Commit::default()
    };
    let logged = writer.commit(&commit).unwrap();
    assert!(open(Access::Write, "1").is_err(), "there is one writer");
    assert_eq!(open(Access::Read, "1").unwrap().tree(&one.session.id).unwrap(), Some(one.clone()));
    drop(writer);
    let mut writer = open(Access::Write, "1").unwrap();
    assert_eq!(writer.sources().unwrap(), [source]);
    assert_eq!(writer.due_sessions(499).unwrap(), [] as [SessionId; 0]);
    assert_eq!(writer.due_sessions(500).unwrap(), std::slice::from_ref(&one.session.id));
    let more = writer.commit(&Commit { events: vec![event("b")], ..Commit::default() }).unwrap();
    assert_eq!(more[0].seq, logged[0].seq + 1, "numbers go on");
    drop(writer);
    let mut writer = open(Access::Write, "2").unwrap();
    assert_eq!(
        writer.due_sessions(0).unwrap(),
        std::slice::from_ref(&one.session.id),
        "rows of other rules are due"
    );
    writer.commit(&Commit { frozen: vec![one.session.id.clone()], ..Commit::default() }).unwrap();
    assert!(writer.due_sessions(i64::MAX).unwrap().is_empty(), "but not those whose files are gone");
    writer.commit(&Commit { trees: vec![one.clone()], ..commit.clone() }).unwrap();
    assert_eq!(writer.due_sessions(500).unwrap().len(), 1, "until they are there again");
    assert_eq!(writer.forget(std::slice::from_ref(&one.session.id)).unwrap(), 1);
    assert!(writer.list(&all()).unwrap().is_empty() && writer.tree(&one.session.id).unwrap().is_none());
    assert_eq!(writer.sources().unwrap().len(), 1, "a forgotten session's files are still known");
}

#[test]
fn revs_grow_and_are_stored_with_rows() {
    let mut tree = real("a-single");
    for_each_store(|which, store| {
        let first = store.reserve_revs(3).unwrap();
        let next = store.reserve_revs(1).unwrap();
        assert!(next >= first + 3, "{which}: {first}, {next}");
        tree.stamp(next);
        store.commit(&Commit { trees: vec![tree.clone()], ..Commit::default() }).unwrap();
        let kept = store.tree(&tree.session.id).unwrap().unwrap();
        assert_eq!((kept.session.rev, kept.agents[1].rev), (Some(next), Some(next)), "{which}");
    });
    let folder = tempfile::tempdir().unwrap();
    let open = || SqliteStore::open(folder.path(), Access::Write, "1", 1_000).unwrap();
    let before = open().reserve_revs(10).unwrap();
    // Unused revs stay reserved.
    assert_eq!((before, open().reserve_revs(1).unwrap()), (1_000, 1_010));
}

fn keys_of(tree: &Tree, first_keys: &[u64], keys: &[u64], is_whole: bool) -> StoredSessionKeys {
    let session = tree.session.id.clone();
    let began_ms = tree.session.started_at_ms;
    StoredSessionKeys {
        keys: SessionKeys { session, began_ms, first_keys: first_keys.to_vec(), keys: keys.to_vec() },
        replaces: is_whole,
    }
}

#[test]
fn sessions_are_found_by_key() {
    let (one, other) = (real("a-single"), real("c-nested"));
    let ids = (&one.session.id, &other.session.id);
    for_each_store(|which, store| {
        assert_eq!(store.session_keys(ids.0).unwrap(), None, "{which}");
        let commit = |rows: &[StoredSessionKeys]| Commit {
            trees: vec![one.clone(), other.clone()],
            session_keys: rows.to_vec(),
            ..Commit::default()
        };
        let first = [keys_of(&one, &[7], &[9, 7, u64::MAX], true), keys_of(&other, &[], &[1], true)];
        store.commit(&commit(&first)).unwrap();
        store.commit(&commit(&[keys_of(&one, &[7, 9], &[8, 7], false)])).unwrap();
        let known = store.session_keys(ids.0).unwrap().unwrap();
        assert_eq!(
            known,
            keys_of(&one, &[7, 9], &[7, 8, 9, u64::MAX], true).keys,
            "{which}: sorted, each once"
        );
        let mut heads = store.first_keys().unwrap();
        heads.sort();
        let mut expected = vec![(ids.0.clone(), vec![7, 9]), (ids.1.clone(), vec![])];
        expected.sort();
        assert_eq!(heads, expected, "{which}");
        store.commit(&commit(&[keys_of(&other, &[1], &[9, 1], true)])).unwrap();
        let find = |store: &dyn Store, keys: &[u64]| {
            let mut found = store.sessions_with_keys(&keys.iter().copied().collect()).unwrap();
            found.sort();
            found
        };
        let mut both = vec![(ids.0.clone(), 9), (ids.1.clone(), 9)];
        both.sort();
        assert_eq!(find(store, &[9, 5]), both, "{which}");
        assert_eq!(find(store, &[5]), [], "{which}");
        store.commit(&commit(&[keys_of(&one, &[7], &[7], true)])).unwrap();
        assert_eq!(find(store, &[9]), [(ids.1.clone(), 9)], "{which}: replaced whole");
    });
}

fn compared(sessions: &[SessionId], kin: &[SharedHistory]) -> Commit {
    let compared = DuplicateScan { sessions: sessions.to_vec(), shared: kin.to_vec() };
    Commit { duplicate_scan: Some(compared), ..Commit::default() }
}

#[test]
fn sessions_are_compared_again_when_they_hold_more() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(folder.path(), Access::Write, "1", 1).unwrap();
    let (one, other) = (real("a-single"), real("c-nested"));
    let commit = |rows: Vec<StoredSessionKeys>| Commit {
        trees: vec![one.clone(), other.clone()],
        session_keys: rows,
        ..Commit::default()
    };
    store
        .commit(&commit(vec![keys_of(&one, &[1], &[1, 2], true), keys_of(&other, &[1], &[1], true)]))
        .unwrap();
    let mut asked = store.uncompared_sessions().unwrap();
    asked.sort();
    let mut both = vec![one.session.id.clone(), other.session.id.clone()];
    both.sort();
    assert_eq!(asked, both.iter().map(|session| (session.clone(), true)).collect::<Vec<_>>());
    let kin = SharedHistory { later: one.session.id.clone(), earlier: other.session.id.clone(), shared: 1 };
    store.commit(&compared(&both, std::slice::from_ref(&kin))).unwrap();
    assert_eq!(
        (store.uncompared_sessions().unwrap(), store.shared_history().unwrap()),
        (vec![], vec![kin.clone()])
    );
    store.commit(&commit(vec![keys_of(&one, &[1], &[3], false)])).unwrap();
    assert_eq!(store.uncompared_sessions().unwrap(), [(one.session.id.clone(), false)], "only keys are new");
    store.commit(&commit(vec![keys_of(&one, &[4], &[4], true)])).unwrap();
    assert_eq!(store.uncompared_sessions().unwrap(), [(one.session.id.clone(), true)], "even its heads are");
    assert_eq!(store.shared_history().unwrap(), [kin], "until then what was known stands");
    store.forget(std::slice::from_ref(&other.session.id)).unwrap();
    assert!(store.session_keys(&other.session.id).unwrap().is_some(), "what was copied from it stays a copy");
    store.commit(&compared(std::slice::from_ref(&one.session.id), &[])).unwrap();
    assert!(store.shared_history().unwrap().is_empty());
}

#[test]
fn forgotten_content_is_overwritten_and_ids_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(folder.path(), Access::Write, "1", 1).unwrap();
    let mut tree = real("a-single");
    let secret = "a-secret-that-nobody-else-has";
    tree.session.title = Some(secret.into());
    let own = tree.session.id.clone();
    let received = |key: &str, sessions: &[&str]| ReceivedInput {
        source: "hooks".into(),
        session: Some(own.to_string()),
        dialect: "claude.hook".into(),
        key: key.into(),
        received_ms: 1,
        body: format!("{{\"tell\":\"{secret}\"}}\n").into_bytes(),
        parts: Vec::new(),
        sessions: sessions.iter().map(|id| SessionId::from(*id)).collect(),
    };
    let mut told = event("a");
    told.session_id = own.clone();
    told.data = serde_json::json!({ "text": secret });
    let commit = Commit {
        trees: vec![tree.clone()],
        events: vec![told, event("b")],
        received: vec![received("1", &[&own]), received("2", &[&own, "other"])],
        ..Commit::default()
    };
    store.commit(&commit).unwrap();
    let old = tree.session.ended_at_ms.unwrap();
    assert!(store.sessions_older_than(old).unwrap().is_empty());
    assert_eq!(store.sessions_older_than(old + 1).unwrap(), std::slice::from_ref(&own));
    assert_eq!(store.forget(std::slice::from_ref(&own)).unwrap(), 1);
    assert_eq!(store.forgotten_sessions().unwrap(), std::slice::from_ref(&own));
    assert!(store.sessions_older_than(i64::MAX).unwrap().is_empty(), "once is enough");
    assert!(store.received_of(&own).unwrap().is_empty());
    assert_eq!(store.received_of(&SessionId::from("other")).unwrap().len(), 1, "what tells of others stays");
    assert!(store.has_received("hooks", "1").unwrap(), "a delivery that comes again is a repeat");
    assert_eq!(read_received(&store, &own, 1 << 20).0, []);
    let events = store.events_after(0, None, 10).unwrap().unwrap();
    assert_eq!(events.len(), 1);
    store.forget(&[SessionId::from("other")]).unwrap();
    let body = |name: &str| fs::read(folder.path().join(name)).unwrap_or_default();
    let is_there = |bytes: &[u8]| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
    assert!(!is_there(&body("store.db")) && !is_there(&body("store.db-wal")), "not even in free pages");
    store.commit(&Commit { trees: vec![tree], ..Commit::default() }).unwrap();
    assert!(store.forgotten_sessions().unwrap().is_empty(), "what goes on is there again");
}

/// A session whose agents begin hours apart, around the change of Europe's clocks.
fn of_several_days() -> Tree {
    let mut tree = real("c-nested");
    let first = parse_rfc3339("2026-03-28T22:50:00Z").unwrap();
    for (at, agent) in (0..).zip(&mut tree.agents) {
        agent.started_at_ms = Some(first + at * (11 * 60 + 25) * 60_000);
        agent.cost_micro_usd = Some(1_000 + at);
    }
    tree.summary.cost_micro_usd = tree.agents.iter().map(|agent| agent.cost_micro_usd).sum();
    tree
}

/// Subagents and cost by day of a zone.
fn by_day(tree: &Tree, zone: &Zone) -> BTreeMap<i64, (u64, i64)> {
    let mut days: BTreeMap<i64, (u64, i64)> = BTreeMap::new();
    for agent in &tree.agents {
        let day = days.entry(zone.day_of(agent.started_at_ms.unwrap())).or_default();
        *day = (day.0 + u64::from(!agent.id.is_root()), day.1 + agent.cost_micro_usd.unwrap_or(0));
    }
    days
}

#[test]
fn days_are_those_of_the_zone_that_is_asked_for() {
    let tree = of_several_days();
    let mut answers = BTreeSet::new();
    for name in
        ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati", "Pacific/Niue"]
    {
        let zone = Zone::named(name).unwrap();
        let expected = by_day(&tree, &zone);
        answers.insert(format!("{expected:?}"));
        for_each_store(|which, store| {
            store.commit(&Commit { trees: vec![tree.clone()], ..Commit::default() }).unwrap();
            let of = |since: Option<Millis>, until: Option<Millis>| {
                let time_zone = Some(zone.clone());
                store.stats(&StatsQuery { since, until, time_zone, ..StatsQuery::default() }).unwrap()
            };
            let stats = of(None, None);
            assert_eq!(&*stats.time_zone, name, "{which}");
            let found: Vec<(String, u64)> =
                stats.by_day.iter().rev().map(|row| (row.name.to_string(), row.agents)).collect();
            let wanted: Vec<(String, u64)> =
                expected.iter().map(|(day, (agents, _))| (Zone::date(*day), *agents)).collect();
            assert_eq!(found, wanted, "{which} {name}");
            for (day, (agents, cost)) in &expected {
                let (from, to) = (zone.start_of(*day), zone.start_of(day + 1) - 1);
                for (since, until) in [(from, from), (from, to), (to, to)] {
                    let stats = of(Some(since), Some(until));
                    assert_eq!((stats.total.agents, stats.by_day.len()), (*agents, 1), "{which} {name}");
                }
                let of_day = |session| store.cost_of_day(*day, &zone, session).unwrap().cost;
                assert_eq!([of_day(None), of_day(Some(&tree.session.id))], [*cost; 2], "{which} {name}");
                assert_eq!(subscope_store::cost_of_day(&tree, *day, &zone).cost, *cost, "{which} {name}");
            }
            let sent: BTreeSet<i64> =
                subscope_store::agent_figures(&tree, &zone).iter().map(|figures| figures.day).collect();
            assert!(sent.iter().eq(expected.keys()), "{which} {name}");
        });
    }
    assert!(answers.len() > 3, "the zones differ: {answers:?}");
}

#[test]
fn figures_by_day_of_version_4_are_made_anew_from_trees() {
    let folder = tempfile::tempdir().unwrap();
    let query = StatsQuery { time_zone: Zone::named("Asia/Kolkata"), ..StatsQuery::default() };
    let mut store = SqliteStore::open(folder.path(), Access::Write, "1", 1).unwrap();
    store
        .commit(&Commit { trees: vec![of_several_days(), real("b-parallel")], ..Commit::default() })
        .unwrap();
    let expected = store.stats(&query).unwrap();
    drop(store);
    let db = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    db.execute_batch(
        "DROP TABLE top_agents; DROP TABLE looks; DROP TABLE quarters; CREATE TABLE days(session_no INTEGER NOT NULL); PRAGMA user_version = 4",
    )
    .unwrap();
    drop(db);
    let store = SqliteStore::open(folder.path(), Access::Write, "1", 1).unwrap();
    assert_eq!(store.stats(&query).unwrap(), expected);
    assert_eq!(expected.problems, [], "from rows, not from trees");
    assert_eq!(SqliteStore::find_damage(folder.path()).unwrap(), None);
}

#[test]
fn a_store_of_another_version_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    for version in [9, 1_000, -1] {
        drop(SqliteStore::open(folder.path(), Access::Write, "1", 1));
        let db = rusqlite::Connection::open(&path).unwrap();
        db.pragma_update(None, "user_version", version).unwrap();
        drop(db);
        for access in [Access::Read, Access::Write] {
            let Err(error) = SqliteStore::open(folder.path(), access, "1", 1) else { panic!("opened") };
            assert!(matches!(&error, OpenError::OtherVersion { found, .. } if *found == version), "{error}");
            assert!(error.to_string().contains(&format!("schema version {version}")), "{error}");
            assert!(!error.to_string().contains("delete"), "the inbox exists nowhere else: {error}");
        }
        let db = rusqlite::Connection::open(&path).unwrap();
        let found: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!(found, version);
    }
}

#[test]
fn a_file_is_a_source_of_each_session_that_its_lines_name() {
    let folder = tempfile::tempdir().unwrap();
    let trees = vec![real("b-parallel"), real("c-nested")];
    let source = |tree: &Tree, bytes: u64| SourceFile {
        path: PathBuf::from("/p/a.jsonl"),
        session: tree.session.id.clone(),
        identity: FileIdentity { bytes, ..FileIdentity::default() },
    };
    // Of version 3, which knew one session of a file.
    drop(SqliteStore::open(folder.path(), Access::Write, "1", 1).unwrap());
    let db = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    let sql = "SELECT name FROM sqlite_schema WHERE sql LIKE '%sum BLOB%' AND name NOT IN ('facts', 'looks', 'quarters', 'sources', 'top_agents')";
    let tables: Vec<String> =
        db.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for table in tables {
        db.execute_batch(&format!("ALTER TABLE {table} DROP COLUMN sum")).unwrap();
    }
    db.execute_batch(
        "DROP TABLE sources; DROP TABLE facts; DROP TABLE looks; DROP TABLE quarters; DROP TABLE top_agents; PRAGMA user_version = 3;
        CREATE TABLE days(session_no INTEGER NOT NULL);
        CREATE TABLE sources(
            path BLOB PRIMARY KEY, session_no INTEGER NOT NULL, inode INTEGER NOT NULL, bytes INTEGER NOT NULL,
            modified_ns INTEGER NOT NULL) WITHOUT ROWID;
        CREATE INDEX sources_session ON sources(session_no);
        INSERT INTO sources VALUES(CAST('/p/a.jsonl' AS BLOB), 1, 0, 1, 0)",
    )
    .unwrap();
    drop(db);
    let mut store = SqliteStore::open(folder.path(), Access::Write, "1", 1).unwrap();
    let first = Commit { trees: trees.clone(), ..Commit::default() };
    store.commit(&first).unwrap();
    assert_eq!(store.sources().unwrap(), [source(&trees[0], 1)], "what it knew stays");
    let sources = vec![source(&trees[0], 2), source(&trees[1], 3)];
    store.commit(&Commit { sources: sources.clone(), ..Commit::default() }).unwrap();
    let mut kept = store.sources().unwrap();
    kept.sort_by_key(|source| source.identity.bytes);
    assert_eq!(kept, sources, "a read for one session does not drop that of the other");
    assert_eq!(store.files_of(&trees[1].session.id).unwrap(), [PathBuf::from("/p/a.jsonl")]);
}

#[test]
fn provisional_rows_are_due_and_source_files_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(folder.path(), Access::Write, "1", 1).unwrap();
    let tree = real("c-nested");
    let session = tree.session.id.clone();
    let source = |path: &str| SourceFile {
        path: PathBuf::from(path),
        session: session.clone(),
        identity: FileIdentity::default(),
    };
    let whole = Commit {
        trees: vec![tree.clone()],
        sources: vec![source("/p/b.jsonl"), source("/p/a.jsonl")],
        ..Commit::default()
    };
    store.commit(&whole).unwrap();
    assert_eq!(store.due_sessions(i64::MAX).unwrap(), []);
    assert_eq!(store.files_of(&session).unwrap(), [PathBuf::from("/p/a.jsonl"), PathBuf::from("/p/b.jsonl")]);
    assert!(store.files_of(&SessionId::from("other")).unwrap().is_empty());
    store.commit(&Commit { trees: vec![tree.clone()], is_provisional: true, ..Commit::default() }).unwrap();
    assert_eq!(store.due_sessions(0).unwrap(), [session]);
    store.commit(&whole).unwrap();
    assert_eq!(store.due_sessions(i64::MAX).unwrap(), []);
}
