//! Sums the figures of sessions, session by session: the same way for all stores.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use subscope_model::{
    Concurrency, ConcurrencySpan, DayGroup, Millis, STATS_SCHEMA, Session, SessionRow, SlowCall, Stats,
    StatsGroup, StatsQuery, StatsRow, Text, TopRow, Tree, Zone,
};

use crate::days::{By, UNKNOWN, day_of_quarter, quarters, quarters_of};

/// Most slow calls of a session, and of the answer.
const SLOW_CALLS_OF_SESSION: usize = 5;
const SLOW_CALLS: usize = 20;

/// Most subagents of a session by each measure, and most rows of the answer by each.
const TOP_OF_SESSION: usize = 5;
const TOP: usize = 10;
/// Rows at which those that are not among the greatest are dropped.
const MAX_TOP_ROWS: usize = 1_000;

const DAY_MS: Millis = 86_400_000;

/// Lengths of the spans of [`Concurrency`]: the first one that needs at most [`MAX_SPANS`] is used, else the last.
const SPANS_MS: [Millis; 7] = [60_000, 600_000, 3_600_000, 6 * 3_600_000, DAY_MS, 7 * DAY_MS, 28 * DAY_MS];
const MAX_SPANS: Millis = 400;

/// A row of [`quarters`]: quarter-hour since 1970, dimension, figures with the name.
pub(crate) type QuarterFigures = (i64, By, StatsRow);

/// Figures of a group, to which sessions are added one after the other.
#[derive(Default)]
struct Sum {
    row: StatsRow,
    /// Number of the last session that was added.
    last_session: Option<u64>,
}

/// The session that rows are added of.
#[derive(Clone, Copy)]
struct Adding {
    /// Its number; `None` if it is not counted, because a harness started it for a purpose of its own.
    number: Option<u64>,
    /// Whether its own cost is exact: what it has of no price is in the cost of another row.
    is_exact: bool,
}

impl Sum {
    /// Adds a row of a session.
    fn add(&mut self, row: &StatsRow, session: Adding) {
        let sum = &mut self.row;
        if let Some(number) = session.number {
            sum.sessions += u64::from(self.last_session.replace(number) != Some(number));
        }
        sum.agents += row.agents;
        sum.tool_calls += row.tool_calls;
        sum.tool_errors += row.tool_errors;
        sum.tools_denied += row.tools_denied;
        sum.busy_ms += row.busy_ms;
        sum.usage += row.usage;
        sum.cost_micro_usd += row.cost_micro_usd;
        sum.cost_floor |= row.cost_floor && !session.is_exact;
    }

    fn named(self, name: &str) -> StatsRow {
        StatsRow { name: name.into(), ..self.row }
    }
}

/// Sums over the sessions that a query covers.
pub(crate) struct Sums<'q> {
    query: &'q StatsQuery,
    zone: Zone,
    /// First and last day (since 1970) that the query covers.
    days_covered: (i64, i64),
    /// Number of sessions that were added.
    sessions: u64,
    total: Sum,
    by_name: BTreeMap<(By, String), Sum>,
    by_day: BTreeMap<i64, Sum>,
    groups: BTreeMap<(StatsGroup, String), Sum>,
    days: BTreeMap<(i64, StatsGroup, String), Sum>,
    /// Starts (+1) and ends (−1) of agents and of sessions with an agent at work.
    edges: Vec<(Millis, i32, i32)>,
    slowest: Vec<SlowCall>,
    top_sessions: Vec<TopRow>,
    top_agents: Vec<TopRow>,
}

impl<'q> Sums<'q> {
    pub(crate) fn new(query: &'q StatsQuery) -> Self {
        let zone = query.time_zone.clone().unwrap_or_default();
        let day = |at: Option<Millis>, none: i64| at.map_or(none, |at| zone.day_of(at));
        let days_covered = (day(query.since, i64::MIN), day(query.until, i64::MAX));
        Self {
            query,
            zone,
            days_covered,
            sessions: 0,
            total: Sum::default(),
            by_name: BTreeMap::new(),
            by_day: BTreeMap::new(),
            groups: BTreeMap::new(),
            days: BTreeMap::new(),
            edges: Vec::new(),
            slowest: Vec::new(),
            top_sessions: Vec::new(),
            top_agents: Vec::new(),
        }
    }

    /// Returns the first and the last quarter-hour (since 1970) that the query covers.
    pub(crate) fn quarters_covered(&self) -> (i64, i64) {
        let (first, last) = self.days_covered;
        quarters_of(first, last, &self.zone)
    }

    /// Returns the span of time that the query covers; its end is not in it.
    pub(crate) fn span_covered(&self) -> (Millis, Millis) {
        let (first, last) = self.days_covered;
        (self.zone.start_of(first), self.zone.start_of(last.saturating_add(1)))
    }

    /// Whether the query covers a session.
    pub(crate) fn covers(&self, session: &SessionRow) -> bool {
        let StatsQuery { project, harness, .. } = self.query;
        harness.as_ref().is_none_or(|wanted| session.harness.as_ref() == Some(wanted))
            && project.as_deref().is_none_or(|wanted| session.is_of_project(wanted))
    }

    /// Adds a session's rows of [`quarters`] that lie in [`Sums::quarters_covered`].
    pub(crate) fn add_session<'r>(
        &mut self,
        session: &SessionRow,
        rows: impl IntoIterator<Item = &'r QuarterFigures>,
    ) {
        self.sessions += u64::from(!session.is_own);
        let number = (!session.is_own).then_some(self.sessions);
        let project = session.project().map_or(UNKNOWN, |project| &**project);
        let harness = session.harness.as_deref().unwrap_or(UNKNOWN);
        let is_exact = session.cost_micro_usd.is_some() && !session.cost_floor;
        let of_session = session;
        let (session, part) = (Adding { number, is_exact }, Adding { number, is_exact: false });
        let mut whole = Sum::default();
        // The rows of a session stand close together.
        let mut known: Option<(i64, i64)> = None;
        for (quarter, by, row) in rows {
            let (_, day) = match known {
                Some(same) if same.0 == *quarter => same,
                _ => *known.insert((*quarter, day_of_quarter(*quarter, &self.zone))),
            };
            self.by_name.entry((*by, row.name.to_string())).or_default().add(row, part);
            let group = match by {
                By::Tool => continue,
                By::Type => StatsGroup::Type,
                By::Model => StatsGroup::Model,
            };
            self.days.entry((day, group, row.name.to_string())).or_default().add(row, part);
            // Each agent has one type: sums by type are totals.
            if group == StatsGroup::Type {
                self.total.add(row, session);
                whole.add(row, session);
                self.by_day.entry(day).or_default().add(row, session);
                for (group, name) in [(StatsGroup::Project, project), (StatsGroup::Harness, harness)] {
                    self.groups.entry((group, name.to_owned())).or_default().add(row, session);
                    let of_day = self.days.entry((day, group, name.to_owned())).or_default();
                    of_day.add(row, session);
                }
            }
        }
        self.add_top_session(of_session, whole);
    }

    /// Adds a session with its figures in the days that are covered.
    fn add_top_session(&mut self, session: &SessionRow, figures: Sum) {
        if session.is_own || figures.row == StatsRow::default() {
            return;
        }
        let name = session.title.as_deref().unwrap_or(&session.id);
        self.top_sessions.push(TopRow {
            session_id: session.id.clone(),
            session_title: session.title.clone(),
            agent_id: None,
            started_at_ms: None,
            row: figures.named(name),
        });
        keep_greatest(&mut self.top_sessions, MAX_TOP_ROWS, TOP);
    }

    /// Adds a subagent of a session ([`top_agents`]), if the query covers the day on which it started.
    pub(crate) fn add_agent(&mut self, agent: TopRow) {
        let (from, to) = self.span_covered();
        let is_covered = match agent.started_at_ms {
            Some(start) => (from..to).contains(&start),
            None => self.query.since.is_none() && self.query.until.is_none(),
        };
        if is_covered {
            self.top_agents.push(agent);
            keep_greatest(&mut self.top_agents, MAX_TOP_ROWS, TOP);
        }
    }

    /// Adds a session by its tree, if the query covers it.
    pub(crate) fn add_tree(&mut self, tree: &Tree) {
        let session = SessionRow::of(tree);
        if !self.covers(&session) {
            return;
        }
        let (first, last) = self.quarters_covered();
        let rows = quarters(tree).into_iter().filter(|((quarter, ..), _)| (first..=last).contains(quarter));
        let rows: Vec<_> = rows.map(|((quarter, by, _), row)| (quarter, by, row)).collect();
        self.add_session(&session, &rows);
        self.add_work(&at_work(tree));
        let named = |call| SlowCall { session_title: session.title.clone(), ..call };
        self.add_calls(slow_calls(tree).into_iter().map(named));
        for agent in top_agents(tree) {
            self.add_agent(TopRow { session_title: session.title.clone(), ..agent });
        }
    }

    /// Adds the intervals of a session's agents ([`at_work`]).
    pub(crate) fn add_work(&mut self, intervals: &[[Millis; 2]]) {
        let (from, to) = self.span_covered();
        // An agent that is seen at one moment only is at work in that millisecond.
        let clipped = intervals.iter().map(|[start, end]| (*start.max(&from), (*end).max(start + 1).min(to)));
        let mut own: Vec<(Millis, Millis)> = clipped.filter(|(start, end)| start < end).collect();
        self.edges.extend(own.iter().flat_map(|(start, end)| [(*start, 1, 0), (*end, -1, 0)]));
        own.sort_unstable();
        let mut open: Option<(Millis, Millis)> = None;
        for (start, end) in own {
            open = match open {
                Some((from, to)) if start <= to => Some((from, to.max(end))),
                ended => {
                    self.edges.extend(ended.iter().flat_map(|(from, to)| [(*from, 0, 1), (*to, 0, -1)]));
                    Some((start, end))
                }
            };
        }
        self.edges.extend(open.iter().flat_map(|(from, to)| [(*from, 0, 1), (*to, 0, -1)]));
    }

    /// Adds a session's slow calls ([`slow_calls`]).
    pub(crate) fn add_calls(&mut self, calls: impl IntoIterator<Item = SlowCall>) {
        let (from, to) = self.span_covered();
        let calls = calls.into_iter();
        self.slowest.extend(calls.filter(|call| (from..to).contains(&call.started_at_ms)));
    }

    pub(crate) fn finish(mut self) -> Stats {
        let mut by_name: BTreeMap<By, Vec<StatsRow>> = BTreeMap::new();
        for ((by, name), sum) in self.by_name {
            by_name.entry(by).or_default().push(sum.named(&name));
        }
        let mut groups: BTreeMap<StatsGroup, Vec<StatsRow>> = BTreeMap::new();
        for ((group, name), sum) in self.groups {
            groups.entry(group).or_default().push(sum.named(&name));
        }
        self.slowest.sort_by(|one, other| {
            let place = |call: &SlowCall| (Reverse(call.duration_ms), call.started_at_ms);
            place(one).cmp(&place(other)).then_with(|| one.agent_id.cmp(&other.agent_id))
        });
        self.slowest.truncate(SLOW_CALLS);
        for rows in [&mut self.top_sessions, &mut self.top_agents] {
            keep_greatest(rows, 0, TOP);
            rows.sort_by_key(|top| Reverse(top.measures()));
        }
        Stats {
            schema: STATS_SCHEMA.into(),
            time_zone: self.zone.name().into(),
            total: self.total.named("all"),
            by_type: sorted(by_name.remove(&By::Type)),
            by_tool: sorted(by_name.remove(&By::Tool)),
            by_model: sorted(by_name.remove(&By::Model)),
            by_day: self.by_day.into_iter().rev().map(|(day, sum)| sum.named(&Zone::date(day))).collect(),
            by_project: sorted(groups.remove(&StatsGroup::Project)),
            by_harness: sorted(groups.remove(&StatsGroup::Harness)),
            days: self
                .days
                .into_iter()
                .map(|((day, by, name), sum)| DayGroup {
                    day: Zone::date(day).into(),
                    by,
                    row: sum.named(&name),
                })
                .collect(),
            slowest: self.slowest,
            top_sessions: self.top_sessions,
            top_agents: self.top_agents,
            concurrency: concurrency(self.edges),
            problems: Vec::new(),
            without: Vec::new(),
        }
    }
}

/// Returns a tree with the project that is stored for its work tree; `None` if that adds nothing. The folder may be gone by
/// now, and with it what says whose work tree it was.
pub(crate) fn with_known_project(tree: &Tree, known: SessionRow) -> Option<Tree> {
    let is_the_same = tree.session.project.is_none() && tree.session.cwd == known.cwd;
    let project = known.project.filter(|_| is_the_same)?;
    let session = Session { project: Some(project), ..tree.session.clone() };
    Some(Tree { session, ..tree.clone() })
}

/// Sorts by tokens, calls and name.
fn sorted(rows: Option<Vec<StatsRow>>) -> Vec<StatsRow> {
    let mut rows = rows.unwrap_or_default();
    rows.sort_by(|one, other| {
        let key = |row: &StatsRow| (row.usage.total_tokens, row.tool_calls);
        key(other).cmp(&key(one)).then_with(|| one.name.cmp(&other.name))
    });
    rows
}

/// Counts agents and sessions at work from their starts and ends.
fn concurrency(mut edges: Vec<(Millis, i32, i32)>) -> Concurrency {
    // At the same moment, ends come first: what follows directly was not at work at the same time.
    edges.sort_unstable();
    let (Some((first, ..)), Some((last, ..))) = (edges.first(), edges.last()) else {
        return Concurrency::default();
    };
    let needed = |span: Millis| last.div_euclid(span) - first.div_euclid(span) + 1;
    let span_ms = SPANS_MS.into_iter().find(|span| needed(*span) <= MAX_SPANS);
    let span_ms = span_ms.unwrap_or(SPANS_MS[SPANS_MS.len() - 1]);
    let mut greatest: BTreeMap<Millis, (i32, i32)> = BTreeMap::new();
    let (mut agents, mut sessions) = (0, 0);
    for (place, (at, more_agents, more_sessions)) in edges.iter().enumerate() {
        agents += more_agents;
        sessions += more_sessions;
        let Some((next, ..)) = edges.get(place + 1).filter(|_| agents > 0) else { continue };
        if next == at {
            continue;
        }
        for span in at.div_euclid(span_ms)..=(next - 1).div_euclid(span_ms) {
            let known = greatest.entry(span).or_default();
            *known = (known.0.max(agents), known.1.max(sessions));
        }
    }
    let count = |number: i32| u32::try_from(number).unwrap_or(0);
    let spans = greatest.into_iter().map(|(span, (agents, sessions))| ConcurrencySpan {
        at_ms: span * span_ms,
        agents: count(agents),
        sessions: count(sessions),
    });
    Concurrency { span_ms, spans: spans.collect() }
}

/// Returns the intervals in which the agents of a session were at work, copies left out.
pub(crate) fn at_work(tree: &Tree) -> Vec<[Millis; 2]> {
    tree.agents.iter().filter(|agent| !agent.is_copy()).flat_map(|agent| &agent.intervals).copied().collect()
}

/// Returns the slowest calls of a session, the slowest first. Calls that start an agent are left out: their time is the
/// agent's.
pub(crate) fn slow_calls(tree: &Tree) -> Vec<SlowCall> {
    let spawns: BTreeSet<&str> =
        tree.agents.iter().filter_map(|agent| agent.spawned_by.as_ref()).map(|id| id.as_str()).collect();
    let agents = tree.agents.iter().filter(|agent| !agent.is_copy());
    let mut calls: Vec<SlowCall> = agents
        .flat_map(|agent| agent.tools.iter().map(move |call| (agent, call)))
        .filter(|(_, call)| call.id.as_ref().is_none_or(|id| !spawns.contains(id.as_str())))
        .filter_map(|(agent, call)| {
            let (start, end) = call.started_at_ms.zip(call.ended_at_ms)?;
            Some((agent, call, start, end - start))
        })
        .filter(|(.., duration)| *duration > 0)
        .map(|(agent, call, started_at_ms, duration_ms)| SlowCall {
            session_id: tree.session.id.clone(),
            session_title: None,
            agent_id: agent.id.clone(),
            agent: agent.title(),
            tool: call.name.clone(),
            detail: call.detail.clone(),
            status: call.status,
            started_at_ms,
            duration_ms,
        })
        .collect();
    calls.sort_by_key(|call| (Reverse(call.duration_ms), call.started_at_ms));
    calls.truncate(SLOW_CALLS_OF_SESSION);
    calls
}

/// Returns the counted agents of a session with the greatest figures: their own, without those of their subagents.
pub(crate) fn top_agents(tree: &Tree) -> Vec<TopRow> {
    let agents = tree.agents.iter().filter(|agent| agent.is_counted());
    let mut rows: Vec<TopRow> = agents
        .map(|agent| {
            let mut row = StatsRow { sessions: 1, ..StatsRow::default() };
            row.add_agent(agent);
            TopRow {
                session_id: tree.session.id.clone(),
                session_title: None,
                agent_id: Some(agent.id.clone()),
                started_at_ms: agent.started_at_ms,
                row,
            }
        })
        .collect();
    keep_greatest(&mut rows, 0, TOP_OF_SESSION);
    // Of thousands of agents, few are named.
    for top in &mut rows {
        let agent = tree.agents.iter().find(|agent| Some(&agent.id) == top.agent_id.as_ref());
        top.row.name = agent.map_or_else(Text::default, |agent| agent.title().into());
    }
    rows
}

/// Of more than `limit` rows, keeps the `most` greatest by each measure; a figure of 0 is none of them. The order stays, and
/// the same rows are kept whatever was dropped before.
fn keep_greatest(rows: &mut Vec<TopRow>, limit: usize, most: usize) {
    if rows.len() <= limit {
        return;
    }
    let mut kept = vec![false; rows.len()];
    for measure in 0..TopRow::MEASURES {
        let figures = rows.iter().enumerate().map(|(place, row)| (place, row, row.measures()[measure]));
        let mut places: Vec<_> = figures.filter(|(.., figure)| *figure > 0).collect();
        places.sort_unstable_by(|(_, one, more), (_, other, less)| {
            let of = (&one.session_id, &one.agent_id);
            less.cmp(more).then_with(|| of.cmp(&(&other.session_id, &other.agent_id)))
        });
        places.iter().take(most).for_each(|(place, ..)| kept[*place] = true);
    }
    let mut kept = kept.into_iter();
    rows.retain(|_| kept.next().unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_by_each_measure_are_kept_whatever_was_dropped_before() {
        let row = |session: u64, [cost_micro_usd, tokens, busy_ms, tool_errors]: [u64; 4]| TopRow {
            session_id: format!("{session:04}").as_str().into(),
            session_title: None,
            agent_id: None,
            started_at_ms: None,
            row: StatsRow {
                cost_micro_usd,
                busy_ms,
                tool_errors,
                usage: subscope_model::Usage::new(tokens, 0, 0, 0),
                ..StatsRow::default()
            },
        };
        let all: Vec<TopRow> = (0..3_000)
            .map(|no| row(no, [no % 700, no * 7 % 1_000, 3_000 - no, u64::from(no == 1_234)]))
            .collect();
        let mut at_once = all.clone();
        keep_greatest(&mut at_once, 0, TOP);
        let mut one_by_one = Vec::new();
        for row in all {
            one_by_one.push(row);
            keep_greatest(&mut one_by_one, MAX_TOP_ROWS, TOP);
        }
        keep_greatest(&mut one_by_one, 0, TOP);
        assert_eq!(at_once, one_by_one);
        assert!(at_once.iter().any(|row| row.row.tool_errors == 1));
        assert!(at_once.len() <= 4 * TOP);
        let mut idle = vec![row(1, [0; 4])];
        keep_greatest(&mut idle, 0, TOP);
        assert_eq!(idle, []);
    }

    /// Greatest numbers of agents and sessions at work, by minute.
    fn by_minute(query: &StatsQuery, sessions: &[&[[Millis; 2]]]) -> Vec<(Millis, u32, u32)> {
        let mut sums = Sums::new(query);
        sessions.iter().for_each(|intervals| sums.add_work(intervals));
        let found = sums.finish().concurrency;
        assert!(found.spans.is_empty() || found.span_ms == 60_000);
        found.spans.iter().map(|span| (span.at_ms / 60_000, span.agents, span.sessions)).collect()
    }

    #[test]
    fn agents_at_work_at_the_same_time_are_counted() {
        let all = StatsQuery::default();
        let one: &[[Millis; 2]] = &[[0, 150_000], [30_000, 70_000], [70_000, 80_000]];
        assert_eq!(by_minute(&all, &[one]), [(0, 2, 1), (1, 2, 1), (2, 1, 1)]);
        assert_eq!(by_minute(&all, &[one, &[[65_000, 66_000]]]), [(0, 2, 1), (1, 3, 2), (2, 1, 1)]);
        assert_eq!(by_minute(&all, &[&[[5, 5]], &[[300_000, 300_000]]]), [(0, 1, 1), (5, 1, 1)]);
        let tomorrow = StatsQuery { since: Some(DAY_MS + 5), ..StatsQuery::default() };
        assert_eq!(by_minute(&tomorrow, &[one]), []);
    }

    #[test]
    fn long_times_have_long_spans() {
        let all = StatsQuery::default();
        let mut sums = Sums::new(&all);
        sums.add_work(&[[0, 1_000 * DAY_MS]]);
        let found = sums.finish().concurrency;
        assert_eq!((found.span_ms, found.spans.len()), (7 * DAY_MS, 143));
    }
}
