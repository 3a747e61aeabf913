//! Conformance suite of [`SessionQueries`]: every store, of a machine and of a team, passes it with the same answers.

use subscope_model::{SessionId, SessionOrder, SessionRow, Stats, StatsGroup, StatsQuery, StatsRow, Tree};
use subscope_store::{ListQuery, SessionQueries};
use subscope_testkit::{
    fixtures::recording,
    sessions::{Telling, parts_of, tree},
};

/// A store under test.
pub(crate) trait FilledStore {
    /// Stores trees, in place of earlier ones of the same sessions.
    fn put(&mut self, trees: &[Tree]);

    /// Returns its read side.
    fn queries(&self) -> &dyn SessionQueries;
}

/// Answers of a store, to be compared with those of another.
#[derive(Debug, PartialEq)]
pub(crate) struct Answers {
    pub(crate) rows: Vec<SessionRow>,
    pub(crate) stats: Stats,
    pub(crate) own: Stats,
    pub(crate) trees: Vec<Tree>,
}

/// Returns the tree of a recording.
pub(crate) fn real(scenario: &str) -> Tree {
    tree(&parts_of(&recording("2.1.330", scenario), &[Telling::Transcript]))
}

fn all() -> ListQuery {
    ListQuery::first(usize::MAX)
}

/// Fills an empty store, checks its answers, and returns them.
pub(crate) fn check(which: &str, store: &mut dyn FilledStore) -> Answers {
    let trees: Vec<Tree> =
        ["a-single", "b-parallel", "c-nested", "k-big", "e-sigint", "e-denied"].map(real).into();
    assert!(store.queries().list(&all()).unwrap().is_empty(), "{which}");
    assert_eq!(store.queries().tree(&trees[0].session.id).unwrap(), None, "{which}");
    // A session that is committed twice counts once.
    for _ in 0..2 {
        store.put(&trees);
    }
    let store = store.queries();
    let rows = store.list(&all()).unwrap();
    assert_eq!(rows.len(), trees.len(), "{which}");
    assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(row.last_event_at_ms)), "{which}");
    let mut paged = Vec::new();
    let mut after = None;
    loop {
        let page = store.list(&ListQuery { after, ..ListQuery::first(2) }).unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.last_event_at_ms.unwrap(), last.id.clone()));
        paged.extend(page);
    }
    assert_eq!(paged, rows, "{which}: pages have each row once");
    assert!(store.list(&ListQuery { only_live: true, ..all() }).unwrap().is_empty(), "{which}");
    let named = |words: &str, limit| {
        store.list(&ListQuery { words: words.to_owned(), ..ListQuery::first(limit) }).unwrap()
    };
    let last = rows.last().unwrap();
    assert_eq!(named(&format!("CLAUDE {}", last.id), 2), std::slice::from_ref(last), "{which}");
    assert_eq!(named("claude-code", 2), rows[..2], "{which}");
    assert!(named("claude-code nowhere", 2).is_empty(), "{which}");
    assert_filters_select(store, &rows, which);
    assert_words_find_agents(store, &trees, which);
    let stats = store.stats(&StatsQuery::default()).unwrap();
    assert_statistics_add_up(&stats, which);
    let of = |query: StatsQuery| store.stats(&query).unwrap();
    let folder = trees[0].session.cwd.clone().unwrap();
    let own = of(StatsQuery { project: Some(folder.clone()), ..StatsQuery::default() });
    assert_eq!(own.by_project.iter().map(|row| row.name.clone()).collect::<Vec<_>>(), [folder], "{which}");
    let claude = of(StatsQuery { harness: Some("claude-code".into()), ..StatsQuery::default() });
    assert_eq!(claude, stats, "{which}");
    assert_eq!(
        of(StatsQuery { harness: Some("none".into()), ..StatsQuery::default() }).total.sessions,
        0,
        "{which}"
    );
    let newest = rows[0].last_event_at_ms.unwrap();
    let later = of(StatsQuery { since: Some(newest + 86_400_000), ..StatsQuery::default() });
    assert_eq!(
        (later.total.agents, later.slowest.len(), later.concurrency.spans.len()),
        (0, 0, 0),
        "{which}"
    );
    assert_eq!((later.top_sessions.len(), later.top_agents.len()), (0, 0), "{which}");
    let until = of(StatsQuery { until: Some(newest), ..StatsQuery::default() });
    assert_eq!(until, stats, "{which}");
    let calls: u32 = trees.iter().map(|tree| tree.summary.tool_calls).sum();
    assert_eq!(stats.total.tool_calls, u64::from(calls), "{which}");
    assert_eq!(stats.total.sessions, trees.len() as u64, "{which}");
    assert_eq!(stats.by_tool.iter().map(|row| row.tool_calls).sum::<u64>(), u64::from(calls), "{which}");
    if let Some(top) = stats.top_agents.first() {
        let mut agents = trees.iter().flat_map(|tree| &tree.agents).filter(|agent| !agent.id.is_root());
        let dearest = agents.clone().filter_map(|agent| agent.cost_micro_usd).max().unwrap_or(0);
        let agent = agents.find(|agent| Some(&agent.id) == top.agent_id.as_ref()).unwrap();
        assert_eq!((&*top.row.name, top.started_at_ms), (&*agent.title(), agent.started_at_ms), "{which}");
        assert_eq!(agent.cost_micro_usd.unwrap_or(0), dearest, "{which}");
        assert_eq!(i64::try_from(top.row.cost_micro_usd), Ok(dearest), "{which}");
    }
    let agent = trees[2].agents.last().unwrap().id.clone();
    let found = store.agents_with_prefix(agent.as_str().get(..6).unwrap(), 5).unwrap();
    assert_eq!(found, [(trees[2].session.id.clone(), agent.clone())], "{which}");
    assert!(store.agents_with_prefix("root", 5).unwrap().is_empty(), "{which}");
    assert!(store.agents_with_prefix("a%", 5).unwrap().is_empty(), "{which}: a prefix is no pattern");
    for row in &rows {
        assert_eq!(store.session_row(&row.id).unwrap().map(|row| row.id), Some(row.id.clone()), "{which}");
        let prefix = row.id.get(..8).unwrap();
        assert_eq!(store.sessions_with_prefix(prefix, 5).unwrap(), std::slice::from_ref(&row.id), "{which}");
    }
    assert_eq!(store.session_row(&SessionId("none".into())).unwrap(), None, "{which}");
    assert_eq!(store.sessions_with_prefix("%", 5).unwrap(), [], "{which}: a prefix is no pattern");
    let newest: Vec<SessionId> = rows.iter().take(2).map(|row| row.id.clone()).collect();
    assert_eq!(store.sessions_with_prefix("", 2).unwrap(), newest, "{which}");
    let trees = trees.iter().map(|tree| store.tree(&tree.session.id).unwrap().unwrap()).collect();
    Answers { rows, stats, own, trees }
}

/// Each order has all rows, in pages too; each filter has those that it means.
fn assert_filters_select(store: &dyn SessionQueries, rows: &[SessionRow], which: &str) {
    for order in SessionOrder::ALL {
        let mut sorted = rows.to_vec();
        sorted.sort_by_key(|row| (std::cmp::Reverse(order.figure(row)), row.id.clone()));
        assert_eq!(store.list(&ListQuery { order, ..all() }).unwrap(), sorted, "{which} {order:?}");
        let (mut paged, mut after) = (Vec::new(), None);
        while paged.len() < sorted.len() {
            let page = store.list(&ListQuery { order, after, ..ListQuery::first(2) }).unwrap();
            let last = page.last().unwrap();
            after = Some((order.figure(last), last.id.clone()));
            paged.extend(page);
        }
        assert_eq!(paged, sorted, "{which} {order:?}");
    }
    let newest = SessionOrder::Newest.figure(&rows[1]);
    let folder = rows[0].project().cloned().unwrap();
    let selects = |query: ListQuery, is_meant: &dyn Fn(&SessionRow) -> bool| {
        let expected: Vec<SessionRow> = rows.iter().filter(|row| is_meant(row)).cloned().collect();
        assert_eq!(store.list(&query).unwrap(), expected, "{which} {query:?}");
    };
    selects(ListQuery { words: SessionRow::DENIED.into(), ..all() }, &|row| row.tools_denied.unwrap() > 0);
    selects(ListQuery { words: SessionRow::FAILED.into(), ..all() }, &|row| row.failed > 0);
    selects(ListQuery { words: SessionRow::WITH_OWN.into(), ..all() }, &|_| true);
    selects(ListQuery { since: Some(newest), ..all() }, &|row| row.last_event_at_ms >= Some(newest));
    selects(ListQuery { until: Some(newest), ..all() }, &|row| row.started_at_ms < Some(newest));
    selects(ListQuery { project: Some(folder.clone()), ..all() }, &|row| row.project() == Some(&folder));
    let denied = rows.iter().filter(|row| row.tools_denied > Some(0)).count();
    assert_eq!(denied, 1, "{which}: one of the sessions has denied calls");
}

/// Words of an agent's description find it, whatever their case.
fn assert_words_find_agents(store: &dyn SessionQueries, trees: &[Tree], which: &str) {
    let agent = trees[2].agents.iter().find(|agent| agent.description.is_some()).unwrap();
    let words = agent.description.as_deref().unwrap().to_uppercase();
    let found = store.agents_with_words(&words, 50).unwrap();
    let own = found.iter().find(|found| found.agent_id == agent.id).unwrap();
    assert_eq!(own.session_id, trees[2].session.id, "{which}");
    assert_eq!(own.title.as_deref(), Some(&*agent.title()), "{which}");
    assert_eq!(store.agents_with_words(&words, 1).unwrap(), found[..1], "{which}");
    assert_eq!(store.agents_with_words(&format!("{words} nowhere"), 50).unwrap(), [], "{which}");
    let subagents = trees.iter().flat_map(|tree| &tree.agents).filter(|agent| !agent.id.is_root()).count();
    assert_eq!(store.agents_with_words("", 1_000).unwrap().len(), subagents, "{which}");
}

/// Each way to break the statistics down has the same sums.
fn assert_statistics_add_up(stats: &Stats, which: &str) {
    let figures = |rows: &[&StatsRow]| -> (u64, u64, u64, u64) {
        let sum = |of: fn(&StatsRow) -> u64| rows.iter().map(|row| of(row)).sum();
        (
            sum(|row| row.agents),
            sum(|row| row.tool_calls),
            sum(|row| row.usage.total_tokens),
            sum(|row| row.cost_micro_usd),
        )
    };
    let all = figures(&[&stats.total]);
    for rows in [&stats.by_type, &stats.by_day, &stats.by_project, &stats.by_harness] {
        assert_eq!(figures(&rows.iter().collect::<Vec<_>>()), all, "{which}: {rows:?}");
    }
    for by in [StatsGroup::Type, StatsGroup::Project, StatsGroup::Harness] {
        let rows: Vec<&StatsRow> = stats.days.iter().filter(|day| day.by == by).map(|day| &day.row).collect();
        assert_eq!(figures(&rows), all, "{which}: {by:?}");
    }
    assert!(stats.slowest.is_sorted_by_key(|call| std::cmp::Reverse(call.duration_ms)), "{which}");
    if !stats.without.is_empty() {
        assert!(stats.slowest.is_empty() && stats.concurrency.spans.is_empty(), "{which}");
        assert!(stats.top_sessions.is_empty() && stats.top_agents.is_empty(), "{which}");
        let without = ["slowest", "top_sessions", "top_agents", "concurrency"];
        assert_eq!(stats.without.iter().map(|name| &**name).collect::<Vec<_>>(), without);
        return;
    }
    let of_sessions: Vec<&StatsRow> = stats.top_sessions.iter().map(|top| &top.row).collect();
    assert_eq!(figures(&of_sessions), all, "{which}: there are fewer sessions than a list has");
    assert!(!stats.top_agents.is_empty(), "{which}");
    for rows in [&stats.top_sessions, &stats.top_agents] {
        assert!(rows.is_sorted_by_key(|top| std::cmp::Reverse(top.row.cost_micro_usd)), "{which}: {rows:?}");
        assert!(rows.iter().all(|top| top.session_title.is_some() && top.row.sessions == 1), "{which}");
    }
    assert!(
        !stats.slowest.is_empty() && stats.slowest.iter().all(|call| call.session_title.is_some()),
        "{which}"
    );
    assert!(stats.slowest.iter().all(|call| &*call.tool != "Agent"), "{which}: {:?}", stats.slowest);
    assert!(stats.concurrency.spans.iter().any(|span| span.agents > 2), "{which}: {:?}", stats.concurrency);
}
