//! The reader of a team's store passes the suite of all stores, on the real engine.

#![allow(clippy::unwrap_used)]

mod engine;
#[path = "../../store/tests/session_queries/mod.rs"]
mod session_queries;

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::PermissionsExt,
};

use engine::ClickHouse;
use session_queries::{Answers, FilledStore, check, real};
use subscope_export::{SnapshotHead, snapshot, tombstone};
use subscope_model::{
    AgentStatus, ContentLevel, Dimension, GroupQuery, Liveness, LivenessKind, PersonMachine, SessionRow,
    Snapshot, SnapshotText, Tree,
};
use subscope_program::TokenRole;
use subscope_query::Queries as _;
use subscope_store::{Commit, Ledger, ListQuery, MemoryStore, SessionQueries};
use subscope_team::{Engine, Gather, Identity, Reader, Snapshots, TeamFilter, TokenFile, new_token, prepare};
use tokio::runtime::Runtime;

/// A team's store with one writer.
struct Team {
    runtime: Runtime,
    engine: Engine,
    gather: Gather,
    identity: Identity,
    reader: Reader,
    rev: u64,
}

fn identity(tenant: &str, user: &str) -> Identity {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    let (token, line) = new_token(tenant, user, TokenRole::Writer, Some("web")).unwrap();
    std::fs::write(&path, line).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    TokenFile::open(&path).unwrap().identity(&token).unwrap()
}

impl Team {
    fn start(clickhouse: &ClickHouse) -> Self {
        let runtime = Runtime::new().unwrap();
        let engine = Engine::new(&clickhouse.url, None).unwrap();
        runtime.block_on(prepare(&engine, None, None)).unwrap();
        // A second server finds the tables.
        runtime.block_on(prepare(&engine, Some("sessions=300d".parse().unwrap()), None)).unwrap();
        let gather = runtime.block_on(async { Gather::start(&engine) });
        let identity = identity("acme", "ana");
        let reader = Reader::new(&engine, &identity.tenant, TeamFilter::default(), runtime.handle().clone());
        Self { runtime, engine, gather, identity, reader, rev: 0 }
    }

    fn send(&self, snapshots: Vec<Snapshot>) {
        let mut rows = Snapshots::default();
        snapshots.into_iter().for_each(|one| rows.add(one, &self.identity, u64::MAX).unwrap());
        self.runtime.block_on(self.gather.put(rows)).unwrap();
    }

    fn reader(&self, filter: TeamFilter) -> Reader {
        Reader::new(&self.engine, &self.identity.tenant, filter, self.runtime.handle().clone())
    }
}

fn head(tree: &Tree, rev: u64) -> SnapshotHead {
    SnapshotHead {
        machine: "laptop".into(),
        rev,
        day: "2026-11-21".into(),
        time_zone: None,
        project: tree.session.cwd.clone(),
        level: ContentLevel::Text,
    }
}

fn sent(tree: &Tree, rev: u64, texts: Vec<SnapshotText>) -> Snapshot {
    snapshot(head(tree, rev), &SessionRow::of(tree), tree, texts)
}

impl FilledStore for Team {
    fn put(&mut self, trees: &[Tree]) {
        self.rev += 1;
        self.send(trees.iter().map(|tree| sent(tree, self.rev, Vec::new())).collect());
    }

    fn queries(&self) -> &dyn SessionQueries {
        &self.reader
    }
}

/// Leaves out what never leaves a machine, and what only a team's store has.
fn comparable(answers: Answers) -> Answers {
    let row = |row: SessionRow| SessionRow {
        cwd: None,
        kept_at_ms: None,
        machine: None,
        user: None,
        team: None,
        project: None,
        ..row
    };
    let tree = |mut tree: Tree| {
        tree.session.cwd = None;
        for call in tree.agents.iter_mut().flat_map(|agent| &mut agent.tools) {
            (call.input, call.result) = (None, None);
        }
        tree
    };
    let Answers { rows, mut stats, mut own, trees } = answers;
    for stats in [&mut stats, &mut own] {
        (stats.slowest, stats.concurrency, stats.without) = Default::default();
        (stats.top_sessions, stats.top_agents) = Default::default();
        stats.time_zone = Default::default();
    }
    let (rows, trees) = (rows.into_iter().map(row).collect(), trees.into_iter().map(tree).collect());
    Answers { rows, stats, own, trees }
}

struct Memory(MemoryStore);

impl FilledStore for Memory {
    fn put(&mut self, trees: &[Tree]) {
        self.0.commit(&Commit { trees: trees.to_vec(), ..Commit::default() }).unwrap();
    }

    fn queries(&self) -> &dyn SessionQueries {
        &self.0
    }
}

#[test]
fn clickhouse_answers_as_the_stores_of_machines() {
    let Some(clickhouse) = ClickHouse::start() else { return };
    let answers = check("clickhouse", &mut Team::start(&clickhouse));
    assert!(answers.rows.iter().all(|row| row.user.as_deref() == Some("ana")
        && row.machine.as_deref() == Some("laptop")
        && row.team.as_deref() == Some("web")));
    assert_eq!(&*answers.stats.time_zone, "", "days are those of each machine");
    let memory = check("memory", &mut Memory(MemoryStore::new()));
    assert_eq!(comparable(answers), comparable(memory));
}

#[test]
fn costs_are_lower_bounds_as_in_the_stores_of_machines() {
    let Some(clickhouse) = ClickHouse::start() else { return };
    // One agent's model has no price: the sum of the others is a lower bound, unless the harness states what all have cost.
    let variant = |name: &str, costs: [Option<i64>; 2], total: Option<i64>, cost_floor: bool| {
        let mut tree = real("b-parallel");
        tree.session.id = name.into();
        for (agent, place) in tree.agents.iter_mut().zip([0, 1].into_iter().cycle()) {
            (agent.cost_micro_usd, agent.cost_floor) = (costs[place], false);
        }
        (tree.summary.cost_micro_usd, tree.summary.cost_floor) = (total, cost_floor);
        tree
    };
    let trees = [
        variant("priced", [Some(1_000); 2], None, false),
        variant("unpriced", [Some(1_000), None], Some(2_000), true),
        variant("totaled", [Some(1_000), None], Some(9_000), false),
        variant("unknown", [None; 2], None, false),
    ];
    let (mut team, mut memory) = (Team::start(&clickhouse), Memory(MemoryStore::new()));
    for tree in trees {
        team.put(std::slice::from_ref(&tree));
        memory.put(std::slice::from_ref(&tree));
        let stats = |store: &dyn SessionQueries| {
            let stats = store.stats(&Default::default()).unwrap();
            (
                stats.total,
                stats.by_type,
                stats.by_model,
                stats.by_tool,
                stats.by_day,
                stats.by_harness,
                stats.days,
            )
        };
        assert_eq!(stats(&team.reader), stats(&memory.0), "{}", tree.session.id);
        let row = |store: &dyn SessionQueries| {
            let row = store.session_row(&tree.session.id).unwrap().unwrap();
            (row.cost_micro_usd, row.cost_floor)
        };
        assert_eq!(row(&team.reader), row(&memory.0), "{}", tree.session.id);
    }
    let query = |by| GroupQuery { by: GroupQuery::parse_by(by).unwrap(), limit: 9, ..GroupQuery::default() };
    for by in ["", "user", "model"] {
        assert!(team.reader.groups(&query(by)).unwrap().rows.iter().any(|row| row.cost_floor), "{by}");
    }
}

#[test]
fn a_session_counts_once_in_each_group_of_each_range_of_days() {
    const DAY_MS: i64 = 86_400_000;
    let Some(clickhouse) = ClickHouse::start() else { return };
    let mut team = Team::start(&clickhouse);
    let mut trees: Vec<Tree> = ["a-single", "b-parallel", "c-nested", "k-big"].map(real).into();
    for agent in trees.iter_mut().flat_map(|tree| tree.agents.iter_mut().step_by(2)) {
        agent.started_at_ms = agent.started_at_ms.map(|at| at + DAY_MS);
    }
    team.put(&trees);
    let day_of = |at: i64| subscope_model::iso8601(at - at.rem_euclid(DAY_MS)).get(..10).unwrap().to_owned();
    let parts: BTreeSet<(&str, String, &str)> = trees
        .iter()
        .flat_map(|tree| tree.agents.iter().map(move |agent| (tree, agent)))
        .map(|(tree, agent)| {
            let agent_type = agent.agent_type.as_deref().unwrap_or("main");
            (&*tree.session.id, day_of(agent.started_at_ms.unwrap()), agent_type)
        })
        .collect();
    let days: BTreeSet<&String> = parts.iter().map(|(_, day, _)| day).collect();
    assert!(days.len() > 1, "{days:?}");
    let limits: Vec<Option<&String>> = days.iter().map(|day| Some(*day)).chain([None]).collect();
    for (from, to) in limits.iter().flat_map(|from| limits.iter().map(move |to| (*from, *to))) {
        let is_in = |day: &String| from.is_none_or(|from| day >= from) && to.is_none_or(|to| day <= to);
        for by in ["", "day", "type", "day,type", "harness", "type,user"] {
            let words: Vec<&str> = by.split(',').filter(|word| !word.is_empty()).collect();
            let mut expected: BTreeMap<Vec<String>, BTreeSet<&str>> = BTreeMap::new();
            for (session, day, agent_type) in parts.iter().filter(|(_, day, _)| is_in(day)) {
                let name = |word: &&str| match *word {
                    "day" => day.clone(),
                    "type" => (*agent_type).to_owned(),
                    "harness" => "claude-code".to_owned(),
                    _ => "ana".to_owned(),
                };
                expected.entry(words.iter().map(name).collect()).or_default().insert(session);
            }
            let expected: BTreeMap<_, _> =
                expected.into_iter().map(|(names, sessions)| (names, sessions.len() as u64)).collect();
            let query = GroupQuery {
                by: GroupQuery::parse_by(by).unwrap(),
                from: from.cloned(),
                to: to.cloned(),
                limit: 1000,
                ..GroupQuery::default()
            };
            let rows = team.reader.groups(&query).unwrap().rows;
            let found: BTreeMap<Vec<String>, u64> = rows
                .iter()
                .map(|row| (words.iter().map(|word| row.names[*word].clone()).collect(), row.sessions))
                .collect();
            assert_eq!(found, expected, "{by}, from {from:?} to {to:?}");
        }
    }
}

#[test]
fn newer_rows_replace_older_ones_and_tombstones_remove() {
    let Some(mut clickhouse) = ClickHouse::start() else { return };
    let mut team = Team::start(&clickhouse);
    let (one, other) = (real("k-big"), real("c-nested"));
    let passage = |doc, text: &str, deleted| SnapshotText {
        doc,
        kind: "prompt".into(),
        at_ms: Some(5),
        text: text.into(),
        deleted,
        ..SnapshotText::default()
    };
    let search = |reader: &mut Reader, words: &str| {
        let terms = words.split(' ').map(str::to_owned).collect();
        let query = subscope_model::SearchQuery { terms, limit: 10, ..Default::default() };
        reader.search(&query).unwrap().hits.into_iter().map(|hit| hit.snippet).collect::<Vec<_>>()
    };
    let texts = vec![passage(1, "Round the half cents", false), passage(u64::MAX, "Paint the fence", false)];
    team.send(vec![sent(&one, 10, texts), sent(&other, 10, Vec::new())]);
    assert_eq!(search(&mut team.reader, "HALF cents"), ["Round the half cents"]);
    assert_eq!(search(&mut team.reader, "pain*"), ["Paint the fence"]);
    assert!(search(&mut team.reader, "alf").is_empty() && search(&mut team.reader, "cents fence").is_empty());
    let mut grown = one.clone();
    grown.agents.truncate(3);
    let mut row = SessionRow::of(&grown);
    row.title = Some("grown".into());
    let texts = vec![passage(u64::MAX, "", true), passage(2, "Later words", false)];
    team.send(vec![snapshot(head(&grown, 12), &row, &grown, texts)]);
    // What was acknowledged outlives a killed engine.
    clickhouse.kill();
    clickhouse.restart();
    // Older rows that come later change nothing.
    team.send(vec![sent(&one, 11, Vec::new())]);
    let found = team.reader.session_row(&one.session.id).unwrap().unwrap();
    assert_eq!(found.title.as_deref(), Some("grown"));
    assert_eq!(team.reader.tree(&one.session.id).unwrap().unwrap().agents.len(), 3);
    assert_eq!(team.reader.list(&ListQuery::first(10)).unwrap().len(), 2);
    assert!(search(&mut team.reader, "fence").is_empty(), "deleted with the newer rows");
    assert_eq!(search(&mut team.reader, "later"), ["Later words"]);
    let gone = tombstone(head(&one, 13), &one.session.id);
    team.send(vec![gone]);
    assert_eq!(team.reader.tree(&one.session.id).unwrap(), None);
    assert_eq!(team.reader.session_row(&one.session.id).unwrap(), None);
    assert_eq!(team.reader.list(&ListQuery::first(10)).unwrap().len(), 1);
    assert!(search(&mut team.reader, "later").is_empty(), "of a session that is gone");
    let agent = &one.agents[1].id;
    assert!(team.reader.agents_with_prefix(agent, 5).unwrap().is_empty());
    assert_eq!(team.reader.stats(&Default::default()).unwrap().total.sessions, 1);
    // The session continues: its rows are newer than its removal.
    team.send(vec![sent(&one, 14, Vec::new())]);
    assert_eq!(team.reader.list(&ListQuery::first(10)).unwrap().len(), 2);
}

#[test]
fn sums_by_any_dimensions_are_those_of_the_rows_and_other_tenants_see_nothing() {
    let Some(clickhouse) = ClickHouse::start() else { return };
    let mut team = Team::start(&clickhouse);
    let trees: Vec<Tree> = ["a-single", "b-parallel", "c-nested", "k-big"].map(real).into();
    team.put(&trees);
    team.put(&trees);
    let groups = |filter: TeamFilter, by: &str| {
        let by = GroupQuery::parse_by(by).unwrap();
        let query = GroupQuery { by, limit: 1000, ..GroupQuery::default() };
        team.reader(filter).groups(&query).unwrap().rows
    };
    let cost: i64 = trees.iter().filter_map(|tree| tree.summary.cost_micro_usd).sum();
    let tokens: u64 =
        trees.iter().filter_map(|tree| tree.summary.usage).map(|usage| usage.total_tokens).sum();
    let calls: u64 = trees.iter().map(|tree| u64::from(tree.summary.tool_calls)).sum();
    assert!(cost > 0 && tokens > 0 && calls > 0);
    for by in ["", "project", "project,day", "team,model", "user,machine,harness", "type", "day,type,model"] {
        let rows = groups(TeamFilter::default(), by);
        assert_eq!(rows.iter().map(|row| row.cost_micro_usd).sum::<i64>(), cost, "{by}");
        assert_eq!(rows.iter().map(|row| row.usage.total_tokens).sum::<u64>(), tokens, "{by}");
        assert_eq!(rows.iter().map(|row| row.tool_calls).sum::<u64>(), calls, "{by}");
    }
    let tools = groups(TeamFilter::default(), "tool,day");
    assert_eq!(tools.iter().map(|row| row.tool_calls).sum::<u64>(), calls);
    assert_eq!(groups(TeamFilter::default(), "")[0].sessions, 4);
    let of = |user: &str| TeamFilter { user: Some(user.to_owned()), ..TeamFilter::default() };
    assert_eq!(groups(of("ana"), "")[0].sessions, 4);
    let day = GroupQuery { from: Some("2099-01-01".into()), limit: 9, ..GroupQuery::default() };
    assert!(team.reader.groups(&day).unwrap().rows.is_empty());
    let hostile = [
        "' OR 1=1 --",
        "\\' OR 1=1 --",
        "ana' OR 'a'='a",
        "{p0:String}",
        "a\tb\nc\\d",
        "\u{0}",
        "ü%_*",
        "); DROP TABLE sessions --",
    ];
    for text in hostile {
        assert!(groups(of(text), "").is_empty(), "{text:?}");
        let filter = TeamFilter {
            project: Some(text.to_owned()),
            status: Some(text.to_owned()),
            day: Some(text.to_owned()),
            ..TeamFilter::default()
        };
        let reader = team.reader(filter);
        assert!(reader.list(&ListQuery::first(5)).unwrap().is_empty(), "{text:?}");
        let mut all = team.reader(TeamFilter::default());
        assert!(all.tree(&text.into()).unwrap().is_none(), "{text:?}");
        assert!(all.sessions_with_prefix(text, 5).unwrap().is_empty(), "{text:?}");
        assert!(all.agents_with_prefix(text, 5).unwrap().is_empty(), "{text:?}");
        let query =
            subscope_model::SearchQuery { terms: vec![text.to_owned()], limit: 5, ..Default::default() };
        assert!(all.search(&query).unwrap().hits.is_empty(), "{text:?}");
        let page =
            ListQuery { after: Some((i64::MAX, text.into())), words: text.to_owned(), ..ListQuery::first(5) };
        assert!(all.list(&page).unwrap().is_empty(), "{text:?}");
        let stats = subscope_model::StatsQuery {
            project: Some(text.into()),
            harness: Some(text.into()),
            ..Default::default()
        };
        assert_eq!(all.stats(&stats).unwrap().total.sessions, 0, "{text:?}");
    }
    assert_eq!(groups(TeamFilter::default(), "")[0].sessions, 4, "all is still there");
    let stranger = identity("other", "ana");
    let other =
        Reader::new(&team.engine, &stranger.tenant, TeamFilter::default(), team.runtime.handle().clone());
    assert!(other.list(&ListQuery::first(5)).unwrap().is_empty());
    assert!(other.tree(&trees[0].session.id).unwrap().is_none());
    assert_eq!(other.stats(&Default::default()).unwrap().total.sessions, 0);
    assert_eq!(Dimension::Day.as_str(), "day");
}

/// Returns the tree with an agent that waits for a permission below a root that waits for it.
fn waiting(scenario: &str) -> Tree {
    let mut tree = real(scenario);
    let live = |kind, since_ms| {
        Some(Liveness {
            kind,
            name: Some("Bash".into()),
            count: None,
            limit: None,
            since_ms,
            inferred: false,
        })
    };
    for (place, kind, since_ms) in [(0, LivenessKind::Children, 5), (1, LivenessKind::Permission, 3)] {
        let agent = &mut tree.agents[place];
        (agent.status, agent.ended_at_ms) = (AgentStatus::Running, None);
        agent.liveness = live(kind, Some(since_ms));
        assert!(agent.prompt.is_some() || !agent.tools.is_empty());
    }
    tree
}

#[test]
fn people_have_the_sums_of_their_sessions_and_those_at_work_say_what_they_wait_for() {
    let Some(clickhouse) = ClickHouse::start() else { return };
    let mut team = Team::start(&clickhouse);
    let ended = real("c-nested");
    let live = waiting("b-parallel");
    team.put(std::slice::from_ref(&ended));
    // Sent with titles later on, by another machine.
    let mut row = SessionRow::of(&live);
    row.kept_at_ms = Some(1_000);
    let head = SnapshotHead { level: ContentLevel::Titles, machine: "desk".into(), ..head(&live, 20) };
    team.send(vec![snapshot(head, &row, &live, Vec::new())]);
    let all = team.reader(TeamFilter::default());
    let people = all.people(None, None, 1_000).unwrap();
    assert!(!people.has_more);
    let machines: BTreeMap<&str, &PersonMachine> =
        people.rows.iter().map(|row| (&*row.machine, row)).collect();
    assert_eq!(machines.len(), 2, "{people:?}");
    for (name, tree, level, working) in
        [("laptop", &ended, ContentLevel::Text, 0), ("desk", &live, ContentLevel::Titles, 1)]
    {
        let row = machines[name];
        assert_eq!(
            (&*row.user, &*row.team, row.level, row.working),
            ("ana", "web", Some(level), working),
            "{name}"
        );
        assert_eq!(Some(row.cost_micro_usd), tree.summary.cost_micro_usd, "{name}");
        assert_eq!((row.sessions, row.tool_calls), (1, u64::from(tree.summary.tool_calls)), "{name}");
        assert_eq!(row.harnesses, [tree.session.harness.clone().unwrap()], "{name}");
        assert_eq!(row.last_event_at_ms, tree.session.ended_at_ms, "{name}");
    }
    assert_eq!(machines["desk"].last_saved_at_ms, Some(1_000));
    // On days without sessions they are there, with nothing spent.
    let none = all.people(Some("2099-01-01".into()), None, 1_001).unwrap();
    assert_eq!(
        none.rows.iter().map(|row| (row.sessions, row.cost_micro_usd, row.working)).max(),
        Some((0, 0, 0))
    );
    let working = all.working(1_000).unwrap();
    let [one] = working.sessions.as_slice() else { panic!("{working:?}") };
    assert_eq!((&one.row.id, one.row.machine.as_deref()), (&live.session.id, Some("desk")));
    let ids: Vec<&str> = one.working.iter().map(|agent| &*agent.id).collect();
    assert_eq!(ids, [&*live.agents[1].id, "root"], "who waits for a person comes first");
    let lean = |agent: &subscope_model::Agent| agent.prompt.is_none() && agent.intervals.is_empty();
    assert!(one.working.iter().all(lean));
    assert!(all.working(1_001).unwrap().sessions.is_empty(), "its machine has been silent since");
    assert!(
        all.list(&ListQuery::first(9)).unwrap().len() == 2
            && all.session_row(&live.session.id).unwrap().is_some()
    );
    // By filters, and by others.
    let only = |filter: TeamFilter| {
        let reader = team.reader(filter);
        (reader.people(None, None, 0).unwrap().rows.len(), reader.working(0).unwrap().sessions.len())
    };
    let named = |name: &str| Some(name.to_owned());
    assert_eq!(only(TeamFilter { machine: named("desk"), ..TeamFilter::default() }), (1, 1));
    assert_eq!(only(TeamFilter { session: named(&ended.session.id), ..TeamFilter::default() }), (1, 0));
    for text in ["' OR 1=1 --", "{since:Int64}", "\\"] {
        assert_eq!(only(TeamFilter { user: named(text), ..TeamFilter::default() }), (0, 0), "{text}");
    }
    let stranger = identity("other", "ana");
    let other =
        Reader::new(&team.engine, &stranger.tenant, TeamFilter::default(), team.runtime.handle().clone());
    assert!(
        other.people(None, None, 0).unwrap().rows.is_empty() && other.working(0).unwrap().sessions.is_empty()
    );
    // When it has ended, no agent is at work.
    team.send(vec![sent(&real("b-parallel"), 30, Vec::new())]);
    assert!(all.working(0).unwrap().sessions.is_empty());
}

#[test]
fn tables_of_an_earlier_build_get_the_columns_that_they_lack() {
    let Some(clickhouse) = ClickHouse::start() else { return };
    let mut team = Team::start(&clickhouse);
    let client = clickhouse::Client::default().with_url(&clickhouse.url).with_database("subscope");
    let drop = client.query("ALTER TABLE sessions DROP COLUMN level, DROP COLUMN working").execute();
    team.runtime.block_on(drop).unwrap();
    team.runtime.block_on(prepare(&team.engine, None, None)).unwrap();
    team.put(&[real("a-single")]);
    assert_eq!(team.reader.people(None, None, 0).unwrap().rows[0].level, Some(ContentLevel::Text));
}

#[test]
fn tables_of_a_later_version_are_refused() {
    let Some(clickhouse) = ClickHouse::start() else { return };
    let team = Team::start(&clickhouse);
    let client = clickhouse::Client::default().with_url(&clickhouse.url).with_database("subscope");
    let later = client.query("INSERT INTO meta VALUES ('schema', '9', 9)").execute();
    team.runtime.block_on(later).unwrap();
    let error = team.runtime.block_on(prepare(&team.engine, None, None)).unwrap_err();
    assert!(error.to_string().contains("version 9"), "{error}");
    let wrong = team.runtime.block_on(prepare(&team.engine, None, Some("a' b"))).unwrap_err();
    assert!(wrong.to_string().contains("cluster"), "{wrong}");
}
