//! What every ledger and every history does, asked of both.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use subscope_model::{Event, SessionId, Tree};
use subscope_store::{
    Access, Commit, History, Identity, Ledger, ListQuery, Memory, Received, Source, Sqlite,
};
use subscope_testkit::{
    fixtures::recording,
    folding::{Telling, parts_of, tree},
};

trait Keeper: Ledger + History {}
impl<T: Ledger + History> Keeper for T {}

/// Runs a check on each of them, as it is when new.
fn each(mut check: impl FnMut(&str, &mut dyn Keeper)) {
    check("memory", &mut Memory::new());
    let folder = tempfile::tempdir().unwrap();
    check("sqlite", &mut Sqlite::open(folder.path(), Access::Write, "1", 1).unwrap());
}

fn real(scenario: &str) -> Tree {
    tree(&parts_of(&recording("2.1.330", scenario), &[Telling::Transcript]))
}

fn event(id: &str) -> Event {
    let json = format!(
        r#"{{"schema":"subscope.event/1","id":"{id}","seq":0,"at_ms":5,"session_id":"s","run":0,"actor_id":"agent:root","basis":"link","source":"x","kind":"heartbeat","data":{{"a":[1,"ü"]}}}}"#
    );
    serde_json::from_str(&json).unwrap()
}

fn all() -> ListQuery {
    ListQuery { limit: usize::MAX, after: None, only_live: false }
}

#[test]
fn a_committed_tree_comes_back_as_it_was() {
    let (one, other) = (real("k-big"), real("c-nested"));
    each(|which, keeper| {
        assert!(keeper.tree(&one.session.id).unwrap().is_none());
        let trees = vec![one.clone(), other.clone()];
        keeper.commit(&Commit { trees, ..Commit::default() }).unwrap();
        assert_eq!(keeper.tree(&one.session.id).unwrap().as_ref(), Some(&one), "{which}");
        let mut changed = one.clone();
        changed.agents.truncate(2);
        keeper.commit(&Commit { trees: vec![changed.clone()], ..Commit::default() }).unwrap();
        assert_eq!(keeper.tree(&one.session.id).unwrap(), Some(changed), "{which}: replaced whole");
        assert_eq!(keeper.tree(&other.session.id).unwrap().as_ref(), Some(&other), "{which}");
        assert_eq!(keeper.list(&all()).unwrap().len(), 2, "{which}");
    });
}

#[test]
fn lists_and_figures_are_the_same() {
    let trees: Vec<Tree> = ["a-single", "b-parallel", "c-nested", "k-big", "e-sigint"].map(real).into();
    let mut answers = Vec::new();
    each(|which, keeper| {
        // What is committed twice counts once.
        for _ in 0..2 {
            keeper.commit(&Commit { trees: trees.clone(), ..Commit::default() }).unwrap();
        }
        let rows = keeper.list(&all()).unwrap();
        assert_eq!(rows.len(), trees.len(), "{which}");
        assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(row.last_event_at_ms)), "{which}");
        let mut paged = Vec::new();
        let mut after = None;
        loop {
            let page = keeper.list(&ListQuery { limit: 2, after, only_live: false }).unwrap();
            let Some(last) = page.last() else { break };
            after = Some((last.last_event_at_ms.unwrap(), last.id.clone()));
            paged.extend(page);
        }
        assert_eq!(paged, rows, "{which}: pages have each row once");
        assert!(keeper.list(&ListQuery { only_live: true, ..all() }).unwrap().is_empty(), "{which}");
        let stats = keeper.stats().unwrap();
        let calls: u32 = trees.iter().map(|tree| tree.summary.tool_calls).sum();
        assert_eq!(stats.total.tool_calls, u64::from(calls), "{which}");
        assert_eq!(stats.total.sessions, trees.len() as u64, "{which}");
        assert_eq!(stats.by_tool.iter().map(|row| row.tool_calls).sum::<u64>(), u64::from(calls), "{which}");
        let agent = trees[2].agents.last().unwrap().id.clone();
        let found = keeper.agents(agent.as_str().get(..6).unwrap(), 5).unwrap();
        assert_eq!(found, [(trees[2].session.id.clone(), agent)], "{which}");
        assert!(keeper.agents("root", 5).unwrap().is_empty(), "{which}");
        assert!(keeper.agents("a%", 5).unwrap().is_empty(), "{which}: a prefix is no pattern");
        answers.push((rows, stats));
    });
    let [memory, sqlite] = answers.as_slice() else { panic!("two") };
    assert_eq!(memory, sqlite);
}

#[test]
fn events_are_numbered_on_and_found_behind_a_place() {
    each(|which, keeper| {
        let told =
            keeper.commit(&Commit { events: vec![event("a"), event("b")], ..Commit::default() }).unwrap();
        let more = keeper.commit(&Commit { events: vec![event("c")], ..Commit::default() }).unwrap();
        let numbers: Vec<u64> = told.iter().chain(&more).map(|event| event.seq).collect();
        assert!(numbers.is_sorted_by(|one, other| one + 1 == *other), "{which}: {numbers:?}");
        let behind = |seq: u64| keeper.events_after(seq, None, 100).unwrap();
        assert_eq!(behind(numbers[0]).unwrap(), [told[1].clone(), more[0].clone()], "{which}");
        assert_eq!(behind(numbers[2]).unwrap(), [], "{which}");
        let one = keeper.events_after(numbers[0], Some(&SessionId("s".into())), 1).unwrap().unwrap();
        assert_eq!(one, [told[1].clone()], "{which}");
        let none = keeper.events_after(numbers[0], Some(&SessionId("t".into())), 1).unwrap().unwrap();
        assert!(none.is_empty(), "{which}");
    });
}

#[test]
fn what_was_received_is_known_by_source_and_key() {
    let row = |key: &str| Received {
        source: "hooks".into(),
        session: None,
        dialect: "claude.hook".into(),
        key: key.into(),
        received_ms: 1,
        body: b"{}\n".to_vec(),
        sessions: vec![SessionId("s".into())],
    };
    each(|which, keeper| {
        assert!(!keeper.has_received("hooks", "1").unwrap(), "{which}");
        keeper.commit(&Commit { received: vec![row("1"), row("2")], ..Commit::default() }).unwrap();
        keeper.commit(&Commit { received: vec![row("2")], ..Commit::default() }).unwrap();
        assert!(keeper.has_received("hooks", "2").unwrap(), "{which}");
        assert!(!keeper.has_received("other", "1").unwrap(), "{which}");
    });
}

#[test]
fn a_store_is_written_by_one_and_read_by_many_and_remembers() {
    let folder = tempfile::tempdir().unwrap();
    let open = |access, rules: &str| Sqlite::open(folder.path(), access, rules, 1_000_000);
    assert!(open(Access::Read, "1").is_err(), "nothing was kept yet");
    let one = real("a-single");
    let source = Source {
        path: PathBuf::from("/somewhere/a.jsonl"),
        session: one.session.id.clone(),
        identity: Identity { inode: u64::MAX, bytes: 5, modified_ns: -1 },
    };
    let mut writer = open(Access::Write, "1").unwrap();
    let commit = Commit {
        trees: vec![one.clone()],
        deadlines: vec![(one.session.id.clone(), 500)],
        events: vec![event("a")],
        sources: vec![source.clone()],
        ..Commit::default()
    };
    let told = writer.commit(&commit).unwrap();
    assert!(open(Access::Write, "1").is_err(), "there is one writer");
    assert_eq!(open(Access::Read, "1").unwrap().tree(&one.session.id).unwrap(), Some(one.clone()));
    drop(writer);
    let mut writer = open(Access::Write, "1").unwrap();
    assert_eq!(writer.sources().unwrap(), [source]);
    assert_eq!(writer.due(499).unwrap(), [] as [SessionId; 0]);
    assert_eq!(writer.due(500).unwrap(), std::slice::from_ref(&one.session.id));
    let more = writer.commit(&Commit { events: vec![event("b")], ..Commit::default() }).unwrap();
    assert_eq!(more[0].seq, told[0].seq + 1, "numbers go on");
    drop(writer);
    let mut writer = open(Access::Write, "2").unwrap();
    assert_eq!(writer.due(0).unwrap(), std::slice::from_ref(&one.session.id), "rows of other rules are due");
    writer.freeze(std::slice::from_ref(&one.session.id)).unwrap();
    assert!(writer.due(i64::MAX).unwrap().is_empty(), "but not those whose files are gone");
    writer.commit(&Commit { trees: vec![one.clone()], ..commit.clone() }).unwrap();
    assert_eq!(writer.due(500).unwrap().len(), 1, "until they are there again");
    assert_eq!(writer.forget(std::slice::from_ref(&one.session.id)).unwrap(), 1);
    assert!(writer.list(&all()).unwrap().is_empty() && writer.tree(&one.session.id).unwrap().is_none());
    assert_eq!(writer.sources().unwrap().len(), 1, "a forgotten session's files are still known");
}

#[test]
fn names_are_found_by_how_they_begin() {
    let trees: Vec<Tree> = ["a-single", "c-nested", "k-big"].map(real).into();
    each(|which, keeper| {
        keeper.commit(&Commit { trees: trees.clone(), ..Commit::default() }).unwrap();
        let newest: Vec<SessionId> = keeper.list(&all()).unwrap().into_iter().map(|row| row.id).collect();
        assert_eq!(keeper.named("", usize::MAX).unwrap(), newest, "{which}");
        assert_eq!(keeper.named("", 2).unwrap(), newest[..2], "{which}");
        for id in &newest {
            assert_eq!(keeper.named(id, 2).unwrap(), std::slice::from_ref(id), "{which}");
            assert_eq!(keeper.named(&id[..13], 2).unwrap(), std::slice::from_ref(id), "{which}");
        }
        for prefix in ["nobody", "%", "_", "\u{10ffff}", "'"] {
            assert!(keeper.named(prefix, 2).unwrap().is_empty(), "{which} {prefix}");
        }
    });
}
