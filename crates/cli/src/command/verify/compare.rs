//! Compares the rows of one session with what its sources state, and with its row in `ls`.

use std::collections::{BTreeMap, BTreeSet};

use subscope_harness::{Figure, Harness, StatedFigures, StatedScope, Statement, harnesses};
use subscope_model::{Agent, AgentStatus, PriceTable, ResponseDetail, SessionRow, SessionStatus, Usage};

use super::{
    read::{LineCounts, SourceStatements, read},
    report::{Difference, LISTED, Outcome, Reason},
    sessions::Subject,
};

/// What was found of one session.
#[derive(Default)]
pub(super) struct Verified {
    /// Outcomes by the place that states the total.
    pub(super) outcomes: Vec<(&'static str, Outcome)>,
    pub(super) differences: Vec<Difference>,
    pub(super) lines: LineCounts,
    pub(super) not_understood: u64,
    pub(super) files: u64,
}

/// Verifies one session.
pub(super) fn verify(subject: &Subject) -> Verified {
    let mut verified = Verified::default();
    let own: Vec<SourceStatements> =
        subject.files.iter().filter_map(|found| read(found, &subject.session)).collect();
    let others: Vec<SourceStatements> =
        subject.recordings.iter().filter_map(|found| read(found, &subject.session)).collect();
    for source in &own {
        // Of an agent with lines in several files none may have more to do.
        let has_ended = own.iter().filter(|other| other.agent == source.agent).all(|other| other.has_ended);
        check_source(subject, source, has_ended, &mut verified);
    }
    // A process that was killed has stated nothing.
    let statements = || own.iter().chain(&others).flat_map(|source| &source.totals);
    let since = statements().filter_map(|(_, statement)| statement.since_ms).max();
    let is_late = subject.tree.session.started_at_ms.zip(since).is_some_and(|(began, since)| began < since);
    let has_own_requests = own.iter().chain(&others).any(|source| source.has_own_requests);
    for (place, total) in totals_of(own.iter().chain(&others)) {
        let total = StatedSum { has_own_requests, is_outdated: total.is_outdated || is_late, ..total };
        check_total(subject, place, &total, &mut verified);
    }
    let problems = subject.tree.problems.len() as u64;
    verified.not_understood = problems.saturating_sub(verified.lines.damaged);
    if verified.not_understood > 0 {
        let difference = Difference::of(subject, "lines that are not understood");
        verified.differences.push(Difference { found: Some(verified.not_understood), ..difference });
    }
    check_row(subject, &mut verified);
    verified
}

/// Checks the lines of a source, and that its agent is not lost if its last line says that it has finished.
fn check_source(subject: &Subject, source: &SourceStatements, has_ended: bool, verified: &mut Verified) {
    let LineCounts { all, damaged, observed } = source.lines;
    verified.files += 1;
    verified.lines.all += all;
    verified.lines.damaged += damaged;
    verified.lines.observed += observed;
    if all > damaged && observed == 0 {
        verified.differences.push(Difference {
            stated: Some(all),
            found: Some(0),
            agent: source.agent.clone(),
            ..Difference::of(subject, "nothing of a file is understood")
        });
    }
    let row = agent(subject, source.agent.as_deref());
    if has_ended && row.is_some_and(|row| row.status == AgentStatus::Lost) {
        let what = "its last line says that it has finished, and it is shown as lost";
        verified
            .differences
            .push(Difference { agent: source.agent.clone(), ..Difference::of(subject, what) });
    }
}

/// A total that all statements of one place about the same agent amount to.
#[derive(Default)]
struct StatedSum {
    of: StatedScope,
    /// The last statement about each part.
    parts: BTreeMap<Option<String>, BTreeMap<String, StatedFigures>>,
    /// Last statements of processes before one that began to count again.
    before: Vec<BTreeMap<String, StatedFigures>>,
    /// Last statements of each source.
    of_sources: Vec<BTreeMap<String, StatedFigures>>,
    is_outdated: bool,
    has_own_requests: bool,
}

fn size(models: &BTreeMap<String, StatedFigures>) -> u64 {
    models.values().flat_map(BTreeMap::values).sum()
}

fn totals_of<'s>(sources: impl Iterator<Item = &'s SourceStatements>) -> Vec<(&'static str, StatedSum)> {
    let mut sums: BTreeMap<(&'static str, StatedScope), StatedSum> = BTreeMap::new();
    for source in sources {
        let mut last = BTreeMap::new();
        for (total, statement) in &source.totals {
            let Statement { of, part, models, .. } = statement;
            // An agent's own file is the agent.
            let of = match (of, &source.agent) {
                (StatedScope::File, Some(agent)) => StatedScope::Agent(agent.clone()),
                (of, _) => of.clone(),
            };
            let sum = sums.entry((total.name, of.clone())).or_default();
            sum.of.clone_from(&of);
            let own = last.get(&(total.name, of.clone()));
            let known = sum.parts.get(part).map(size);
            if part.is_none() && own.is_none() && of != StatedScope::Session && known > Some(size(models)) {
                // It is cumulative: a source of a later process is read first.
                continue;
            }
            // What was counted by itself, as a review, is over: the count before goes on.
            let known = sum.before.len();
            sum.before.retain(|before| before != models);
            let goes_on = sum.before.len() < known;
            let before = sum.parts.insert(part.clone(), models.clone());
            // A process that is started again may count from 0.
            let began_again = part.is_none() && (of == StatedScope::Session || own.is_some());
            sum.before
                .extend(before.filter(|before| began_again && (goes_on || size(before) > size(models))));
            sum.is_outdated = source.outdated.contains(total.name);
            if part.is_none() {
                last.insert((total.name, of), models.clone());
            }
        }
        for (key, models) in last {
            sums.entry(key).or_default().of_sources.push(models);
        }
    }
    sums.into_iter().map(|((name, _), sum)| (name, sum)).collect()
}

impl StatedSum {
    /// Returns what the statements may amount to, the likeliest first: counted on or again in each process, or in the last
    /// one only.
    fn candidates(&self) -> Vec<BTreeMap<String, StatedFigures>> {
        let add = |all: Vec<&BTreeMap<String, StatedFigures>>| {
            let mut sum: BTreeMap<String, StatedFigures> = BTreeMap::new();
            for (model, figures) in all.into_iter().flatten() {
                let own = sum.entry(model.clone()).or_default();
                figures.iter().for_each(|(figure, count)| *own.entry(*figure).or_default() += count);
            }
            sum
        };
        let likeliest = add(self.before.iter().chain(self.parts.values()).collect());
        let by_source = (self.of_sources.len() > 1).then(|| add(self.of_sources.iter().collect()));
        let last = (self.of == StatedScope::Session).then(|| self.parts.get(&None).cloned()).flatten();
        [Some(likeliest), by_source, last].into_iter().flatten().collect()
    }
}

/// Figures of subscope, with what is known of them.
struct OwnFigures<'a> {
    usage: Option<Usage>,
    calls: Option<u64>,
    calls_are_floor: bool,
    agents: u64,
    cost: Option<u64>,
    cost_is_floor: bool,
    /// Responses that were counted: each may be rounded.
    responses: u64,
    agent: Option<&'a Agent>,
}

impl OwnFigures<'_> {
    /// Returns a figure, and whether it is a lower bound.
    fn get(&self, figure: Figure) -> (Option<u64>, bool) {
        let kind = |of: fn(&Usage) -> u64| {
            (self.usage.as_ref().map(of), self.usage.is_some_and(|usage| usage.floor))
        };
        match figure {
            Figure::Input => kind(|usage| usage.input_tokens),
            Figure::Output => kind(|usage| usage.output_tokens),
            Figure::CacheRead => kind(|usage| usage.cache_read_tokens),
            Figure::CacheWrite => kind(|usage| usage.cache_write_tokens),
            Figure::Tokens => kind(|usage| usage.total_tokens),
            Figure::Calls => (self.calls, self.calls_are_floor),
            Figure::Agents => (Some(self.agents), false),
            Figure::Cost => (self.cost, self.cost_is_floor),
        }
    }
}

/// Returns an agent by its id; the root for none, and for the id of the session.
fn agent<'a>(subject: &'a Subject, id: Option<&str>) -> Option<&'a Agent> {
    let id = id.filter(|id| *id != subject.session.as_str());
    subject.tree.agents.iter().find(|row| match id {
        Some(id) => row.id.as_str() == id,
        None => row.id.is_root(),
    })
}

fn unsigned(amount: i64) -> Option<u64> {
    u64::try_from(amount).ok()
}

/// Returns the figures of agents by themselves.
fn sum<'a>(rows: &[&'a Agent]) -> OwnFigures<'a> {
    let known: Vec<Usage> = rows.iter().filter_map(|row| row.usage).collect();
    let costs: Vec<u64> = rows.iter().filter_map(|row| row.cost_micro_usd).filter_map(unsigned).collect();
    let misses = known.len() < rows.len() && rows.iter().any(|row| row.usage.is_none() && row.messages > 0);
    OwnFigures {
        usage: known
            .iter()
            .copied()
            .reduce(|sum, usage| sum + usage)
            .map(|usage| Usage { floor: usage.floor || misses, ..usage }),
        calls: Some(rows.iter().map(|row| u64::from(row.tool_calls)).sum()),
        // No source has lines of such an agent.
        calls_are_floor: rows.iter().any(|row| !row.id.is_root() && row.messages == 0 && row.tool_calls == 0),
        agents: rows.iter().filter(|row| !row.id.is_root()).count() as u64,
        cost: (!costs.is_empty()).then(|| costs.iter().sum()),
        cost_is_floor: rows
            .iter()
            .any(|row| row.cost_floor || row.usage.is_some() && row.cost_micro_usd.is_none()),
        responses: rows.iter().map(|row| u64::from(row.messages)).sum(),
        agent: if let [only] = rows { Some(only) } else { None },
    }
}

/// Returns subscope's figures of what a total is of; `None` if there is no such agent.
fn own_figures<'a>(subject: &'a Subject, of: &StatedScope) -> Option<OwnFigures<'a>> {
    let by_call = |call: &str| {
        let started = |row: &&Agent| row.spawned_by.as_ref().is_some_and(|by| by.as_str() == call);
        subject.tree.agents.iter().find(started)
    };
    match of {
        StatedScope::Session => {
            let rows: Vec<&Agent> = subject.tree.agents.iter().filter(|row| !row.is_copy()).collect();
            let agents = sum(&rows);
            let summary = &subject.tree.summary;
            // Where no agent's tokens are known, the session's own sum is shown.
            let usage = agents.usage.or(summary.usage);
            Some(OwnFigures { usage, ..agents })
        }
        StatedScope::File => agent(subject, None).map(|row| sum(&[row])),
        StatedScope::Agent(id) | StatedScope::Response(id) => agent(subject, Some(id)).map(|row| sum(&[row])),
        StatedScope::StartedBy(call) => by_call(call).map(|row| sum(&[row])),
        StatedScope::Below(call) => by_call(call).map(|row| OwnFigures {
            usage: row.subtree.usage,
            calls: Some(u64::from(row.subtree.tool_calls)),
            agents: u64::from(row.subtree.agents),
            ..sum(&[row])
        }),
    }
}

/// Compares one total with the rows.
fn check_total(subject: &Subject, place: &'static str, total: &StatedSum, verified: &mut Verified) {
    let Some(own) = own_figures(subject, &total.of) else {
        verified.outcomes.push((place, Outcome::Differs));
        let agent = match &total.of {
            StatedScope::Agent(id)
            | StatedScope::Response(id)
            | StatedScope::StartedBy(id)
            | StatedScope::Below(id) => Some(id.clone()),
            StatedScope::Session | StatedScope::File => None,
        };
        let difference = Difference { agent, ..Difference::of(subject, place) };
        return verified.differences.push(Difference {
            figure: Some(Figure::Agents.as_str()),
            stated: Some(1),
            found: Some(0),
            ..difference
        });
    };
    if let StatedScope::Response(_) = total.of {
        return check_response(subject, place, total, &own, verified);
    }
    let judged = total.candidates().into_iter().map(|models| {
        let rest = OwnRequests::of(subject, total, &models);
        let mut stated = StatedFigures::new();
        let of_agents = models.iter().filter(|(model, _)| !rest.models.contains(model.as_str()));
        for (figure, count) in of_agents.flat_map(|(_, figures)| figures) {
            *stated.entry(*figure).or_default() += count;
        }
        judge(subject, &stated, &rest.without(subject, &own), total.is_outdated, &rest)
    });
    let differing = |figures: &Vec<JudgedFigure>| {
        figures.iter().filter(|judged| judged.outcome == Outcome::Differs).count()
    };
    let best = judged.min_by_key(differing).unwrap_or_default();
    for JudgedFigure { figure, stated, found, outcome } in best {
        verified.outcomes.push((place, outcome));
        if outcome == Outcome::Differs {
            verified.differences.push(Difference {
                agent: own.agent.filter(|row| !row.id.is_root()).map(|row| row.id.to_string()),
                figure: Some(figure.as_str()),
                stated: Some(stated),
                found,
                ..Difference::of(subject, place)
            });
        }
    }
}

/// Requests that the harness makes itself, such as for titles and summaries: they are in its totals and in no transcript.
struct OwnRequests<'a> {
    /// Models that are left out of the comparison: no agent has used them, or the harness has used them, too.
    models: BTreeSet<&'a str>,
    /// Whether it has used other models, too.
    may_be_any: bool,
}

impl<'a> OwnRequests<'a> {
    fn of(subject: &Subject, total: &StatedSum, models: &'a BTreeMap<String, StatedFigures>) -> Self {
        let none = Self { models: BTreeSet::new(), may_be_any: false };
        let harness = harnesses().find(|known| Some(known.name()) == subject.tree.session.harness.as_deref());
        let Some(report) = harness.and_then(Harness::self_report) else { return none };
        let is_used = |model: &str| {
            subject.detail.responses.iter().any(|response| response.model.as_deref() == Some(model))
        };
        if total.of != StatedScope::Session || !models.keys().any(|model| is_used(model)) {
            return none;
        }
        let is_rest = |(model, figures): &(&'a String, &StatedFigures)| {
            let covers = |stated: &StatedFigures| {
                let own = sum_of_model(subject, model);
                stated.iter().all(|(figure, count)| own.get(*figure).0.is_none_or(|own| own <= *count))
            };
            !is_used(model) || (report.asks_with)(model) && covers(figures)
        };
        let rest = models.iter().filter(is_rest).map(|(model, _)| model.as_str()).collect();
        Self { models: rest, may_be_any: total.has_own_requests }
    }

    /// Returns figures without those of the models that are left out.
    fn without<'b>(&self, subject: &'b Subject, own: &OwnFigures<'b>) -> OwnFigures<'b> {
        let used: Vec<&str> = self.models.iter().copied().collect();
        let less = used.into_iter().map(|model| sum_of_model(subject, model));
        let OwnFigures {
            mut usage,
            mut cost,
            calls,
            agents,
            cost_is_floor,
            responses,
            agent,
            calls_are_floor,
        } = *own;
        for model in less {
            let part = model.usage.unwrap_or_default();
            usage = usage.map(|usage| Usage { floor: usage.floor, ..usage.minus(&part) });
            cost = cost.map(|cost| cost.saturating_sub(model.cost.unwrap_or(0)));
        }
        OwnFigures { usage, cost, calls, agents, cost_is_floor, responses, agent, calls_are_floor }
    }
}

/// Returns the figures of all responses of a model.
fn sum_of_model<'a>(subject: &'a Subject, model: &str) -> OwnFigures<'a> {
    let of_model = |response: &&ResponseDetail| response.model.as_deref() == Some(model);
    let responses: Vec<&ResponseDetail> = subject.detail.responses.iter().filter(of_model).collect();
    let costs: Vec<u128> = responses.iter().filter_map(|response| response.cost_pico_usd).collect();
    OwnFigures {
        usage: responses.iter().filter_map(|response| response.usage).reduce(|sum, usage| sum + usage),
        calls: None,
        calls_are_floor: false,
        agents: 0,
        cost: (!costs.is_empty()).then(|| unsigned(PriceTable::micro_usd(costs.iter().sum()))).flatten(),
        cost_is_floor: false,
        responses: responses.len() as u64,
        agent: None,
    }
}

/// A figure of a total, compared with subscope's.
struct JudgedFigure {
    figure: Figure,
    stated: u64,
    found: Option<u64>,
    outcome: Outcome,
}

/// Judges each figure of a total.
fn judge(
    subject: &Subject,
    stated: &StatedFigures,
    own: &OwnFigures<'_>,
    is_outdated: bool,
    rest: &OwnRequests<'_>,
) -> Vec<JudgedFigure> {
    let judge = |(figure, stated): (&Figure, &u64)| {
        let (found, is_floor) = own.get(*figure);
        // Micro-dollars of single responses are rounded.
        let slack = if *figure == Figure::Cost { own.responses + 1 } else { 0 };
        let outcome = match found {
            None => Outcome::Explained(Reason::Unknown),
            Some(found) if found.abs_diff(*stated) <= slack => match rest.models.is_empty() {
                true => Outcome::Equal,
                false => Outcome::Explained(Reason::OwnRequests),
            },
            Some(found) if found < *stated && is_floor => Outcome::Explained(Reason::LowerBound),
            Some(found) if found < *stated && rest.may_be_any => Outcome::Explained(Reason::OwnRequests),
            Some(found) if found > *stated && is_uncounted(subject, *figure, found - stated) => {
                Outcome::Explained(Reason::Uncounted)
            }
            Some(found) if found < *stated && subject.has_copies => Outcome::Explained(Reason::Copied),
            Some(found) if found < *stated && subject.is_cut => Outcome::Explained(Reason::Gone),
            Some(found) if found > *stated && is_outdated => Outcome::Explained(Reason::Later),
            Some(_) => Outcome::Differs,
        };
        JudgedFigure { figure: *figure, stated: *stated, found, outcome }
    };
    stated.iter().map(judge).collect()
}

/// Whether a harness may count fewer: agents that no call of its tool for agents started, such as forked skills, and calls
/// that were refused.
fn is_uncounted(subject: &Subject, figure: Figure, more: u64) -> bool {
    let summary = &subject.tree.summary;
    match figure {
        Figure::Agents => true,
        Figure::Calls => more <= u64::from(summary.tool_errors) + u64::from(summary.tools_denied),
        Figure::Input
        | Figure::Output
        | Figure::CacheRead
        | Figure::CacheWrite
        | Figure::Tokens
        | Figure::Cost => false,
    }
}

/// Checks that an agent has a response of exactly these tokens.
fn check_response(
    subject: &Subject,
    place: &'static str,
    total: &StatedSum,
    own: &OwnFigures<'_>,
    verified: &mut Verified,
) {
    let Some(agent) = own.agent else { return };
    let responses: Vec<&ResponseDetail> =
        subject.detail.responses.iter().filter(|response| response.agent == agent.id).collect();
    for stated in total.parts.values().filter_map(|models| models.get("")) {
        let count = |figure| stated.get(&figure).copied().unwrap_or(0);
        let stated = Usage::new(
            count(Figure::Input),
            count(Figure::Output),
            count(Figure::CacheRead),
            count(Figure::CacheWrite),
        );
        let known: Vec<Usage> = responses.iter().filter_map(|response| response.usage).collect();
        let is_floor = own.usage.is_none_or(|usage| usage.floor);
        let outcome = if known.is_empty() {
            Outcome::Explained(Reason::Unknown)
        } else if known.iter().any(|usage| usage.kinds() == stated.kinds()) {
            Outcome::Equal
        } else if is_floor {
            Outcome::Explained(Reason::LowerBound)
        } else if subject.has_copies {
            Outcome::Explained(Reason::Copied)
        } else {
            Outcome::Differs
        };
        verified.outcomes.push((place, outcome));
        if outcome == Outcome::Differs {
            verified.differences.push(Difference {
                agent: Some(agent.id.to_string()),
                figure: Some("tokens of its last response"),
                stated: Some(stated.total_tokens),
                ..Difference::of(subject, place)
            });
        }
    }
}

/// Compares the row in `ls` with the tree.
fn check_row(subject: &Subject, verified: &mut Verified) {
    let Some(listed) = &subject.row else { return };
    if listed.status == SessionStatus::Live || subject.is_cut {
        // It may have changed since, or its stored row has more than its sources.
        return;
    }
    let read = SessionRow::of(&subject.tree);
    let tokens = |row: &SessionRow| row.usage.map(|usage| usage.total_tokens);
    let cost = |row: &SessionRow| row.cost_micro_usd.and_then(unsigned);
    let figures = [
        (Figure::Agents, Some(u64::from(listed.agents)), Some(u64::from(read.agents))),
        (Figure::Calls, Some(u64::from(listed.tool_calls)), Some(u64::from(read.tool_calls))),
        (Figure::Tokens, tokens(listed), tokens(&read)),
        (Figure::Cost, cost(listed), cost(&read)),
    ];
    for (figure, stated, found) in figures {
        let outcome = if stated == found { Outcome::Equal } else { Outcome::Differs };
        verified.outcomes.push((LISTED, outcome));
        if outcome == Outcome::Differs {
            let difference = Difference::of(subject, "its row in `ls` is not that of its tree");
            verified.differences.push(Difference {
                figure: Some(figure.as_str()),
                stated,
                found,
                ..difference
            });
        }
    }
}
