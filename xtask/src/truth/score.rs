//! Scores a tool's answer against the truth, in five figures.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The scored figures, in the order of the table.
pub(super) const COLUMNS: [&str; 5] = ["parents", "owners", "endings", "tokens", "sums"];

/// Answer of a tool for one recording, or the truth.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Answer {
    /// The [`COLUMNS`] that the tool supports; empty for the truth.
    #[serde(default)]
    pub(super) columns: Vec<String>,
    /// Each agent by the harness's id; the root is `root`.
    pub(super) agents: BTreeMap<String, AgentAnswer>,
    /// Tokens of the session by kind; of a tool without them, the sum over its agents. The truth may not have them: in
    /// recordings of Claude Code some are in the stream alone.
    #[serde(default)]
    pub(super) total: Option<BTreeMap<String, u64>>,
}

/// An agent of an answer.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct AgentAnswer {
    /// Its parent.
    #[serde(default)]
    pub(super) parent: Option<String>,
    /// Its end.
    #[serde(default)]
    pub(super) status: Option<String>,
    /// Other words for it that are as good. Set by the truth.
    #[serde(default)]
    pub(super) also: Vec<String>,
    /// Tokens by kind; only the kinds that the tool reports.
    #[serde(default)]
    pub(super) usage: BTreeMap<String, u64>,
    /// Its tool calls, id to tool; `None` if the tool reports only counts.
    #[serde(default)]
    pub(super) calls: Option<BTreeMap<String, String>>,
    /// Numbers of calls by tool, without ids.
    #[serde(default)]
    pub(super) tool_counts: BTreeMap<String, u64>,
    /// Whether it is one of the harness's own agents, which may be reported or missing. Set by the oracle.
    #[serde(default)]
    pub(super) warmup: bool,
}

/// One figure: the number of mistakes and the total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figure {
    /// Wrong, missing or invented.
    pub(super) wrong: u64,
    /// Total by the oracle.
    pub(super) all: u64,
}

/// The five figures; `None` if the tool does not support one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Score(pub(super) [Option<Figure>; 5]);

impl Score {
    /// Scores an answer.
    pub(super) fn of(truth: &Answer, answer: &Answer) -> Self {
        let figures = [
            Some(parents(truth, answer)),
            Some(owners(truth, answer)),
            Some(endings(truth, answer)),
            Some(tokens(truth, answer)),
            truth.total.as_ref().map(|total| sums(total, answer)),
        ];
        let mut score = Self::default();
        for ((place, figure), column) in score.0.iter_mut().zip(figures).zip(COLUMNS) {
            *place = figure.filter(|_| answer.columns.iter().any(|c| c == column));
        }
        score
    }

    /// Adds the figures of another recording.
    pub(super) fn add(&mut self, other: Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = match (*mine, theirs) {
                (Some(a), Some(b)) => Some(Figure { wrong: a.wrong + b.wrong, all: a.all + b.all }),
                (a, b) => a.or(b),
            };
        }
    }

    /// Returns the sum of all mistakes.
    pub(super) fn wrong(self) -> u64 {
        self.0.iter().flatten().map(|figure| figure.wrong).sum()
    }

    /// Formats the figures as one table cell.
    pub(super) fn to_cell(self) -> String {
        self.0.map(|figure| figure.map_or("—".to_owned(), |f| f.wrong.to_string())).join(" · ")
    }
}

/// Counts subagents with a wrong parent, missing or invented.
fn parents(truth: &Answer, answer: &Answer) -> Figure {
    let wanted = || truth.agents.iter().filter(|(id, says)| *id != "root" && !says.warmup);
    let wrong =
        wanted().filter(|(id, says)| answer.agents.get(*id).is_none_or(|found| found.parent != says.parent));
    let invented = answer.agents.keys().filter(|id| *id != "root" && !truth.agents.contains_key(*id));
    Figure { wrong: (wrong.count() + invented.count()) as u64, all: wanted().count() as u64 }
}

/// Counts calls assigned to a wrong agent or to none. If the tool reports only counts, the missing calls.
fn owners(truth: &Answer, answer: &Answer) -> Figure {
    let mut figure = Figure::default();
    for (id, says) in &truth.agents {
        let calls = says.calls.clone().unwrap_or_default();
        figure.all += calls.len() as u64;
        let Some(found) = answer.agents.get(id) else {
            figure.wrong += calls.len() as u64;
            continue;
        };
        if let Some(theirs) = &found.calls {
            figure.wrong += calls.keys().filter(|call| !theirs.contains_key(*call)).count() as u64;
            continue;
        }
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        calls.values().for_each(|tool| *counts.entry(tool).or_default() += 1);
        let lacking =
            |(tool, count): (&str, u64)| count.saturating_sub(*found.tool_counts.get(tool).unwrap_or(&0));
        figure.wrong += counts.into_iter().map(lacking).sum::<u64>();
    }
    figure
}

/// Counts agents with a wrong end, or missing. The root counts only if the tool reports its end.
fn endings(truth: &Answer, answer: &Answer) -> Figure {
    let mut figure = Figure::default();
    for (id, says) in truth.agents.iter().filter(|(_, says)| !says.warmup) {
        let found = answer.agents.get(id).and_then(|found| found.status.as_ref());
        if id == "root" && found.is_none() {
            continue;
        }
        figure.all += 1;
        let is_right = found == says.status.as_ref() || found.is_some_and(|found| says.also.contains(found));
        figure.wrong += u64::from(!is_right);
    }
    figure
}

/// Counts agents with a wrong number of tokens in any reported kind, or missing.
fn tokens(truth: &Answer, answer: &Answer) -> Figure {
    let mut figure = Figure::default();
    // In some sessions the owner of the tokens is unknown.
    let has_tokens = |says: &AgentAnswer| !says.warmup && !says.usage.is_empty();
    for (id, says) in truth.agents.iter().filter(|(_, says)| has_tokens(says)) {
        let found = answer.agents.get(id);
        let is_right = found.is_some_and(|found| {
            let mut kinds = says
                .usage
                .iter()
                .filter_map(|(kind, count)| Some((count, found.usage.get(kind)?)))
                .peekable();
            kinds.peek().is_some() && kinds.all(|(wanted, told)| wanted == told)
        });
        figure.all += 1;
        figure.wrong += u64::from(!is_right);
    }
    figure
}

/// Counts one mistake if the sum of the session's tokens is wrong, in any reported kind, or missing.
fn sums(truth: &BTreeMap<String, u64>, answer: &Answer) -> Figure {
    let with_total = |mut sum: BTreeMap<String, u64>| {
        if KINDS.iter().all(|kind| sum.contains_key(*kind)) {
            let all = KINDS.iter().filter_map(|kind| sum.get(*kind)).sum();
            sum.insert("total_tokens".to_owned(), all);
        }
        sum
    };
    let of_agents = || {
        let mut sum: BTreeMap<String, u64> = BTreeMap::new();
        let all = answer.agents.values().flat_map(|agent| &agent.usage);
        all.for_each(|(kind, count)| *sum.entry(kind.clone()).or_default() += count);
        sum
    };
    let (wanted, found) =
        (with_total(truth.clone()), with_total(answer.total.clone().unwrap_or_else(of_agents)));
    let mut kinds = found.iter().filter_map(|(kind, count)| Some((count, wanted.get(kind)?))).peekable();
    let is_right = kinds.peek().is_some() && kinds.all(|(found, wanted)| found == wanted);
    Figure { wrong: u64::from(!is_right), all: 1 }
}

/// The kinds of tokens.
const KINDS: [&str; 4] = ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"];

#[cfg(test)]
mod tests {
    use super::*;

    fn truth() -> Answer {
        serde_json::from_str(
            r#"{"agents":{
                "root":{"parent":null,"status":"completed","usage":{"input_tokens":1},"calls":{"t1":"Agent"}},
                "a":{"parent":"root","status":"completed","usage":{"input_tokens":2},"calls":{"t2":"Agent","t3":"Read"}},
                "b":{"parent":"a","status":"failed","usage":{"input_tokens":3},"calls":{"t4":"Read"}},
                "w":{"parent":null,"status":"completed","usage":{"input_tokens":9},"calls":{},"warmup":true}}}"#,
        )
        .unwrap()
    }

    fn answer(change: impl FnOnce(&mut Answer)) -> [u64; 5] {
        let mut truth = truth();
        let mut answer = truth.clone();
        truth.total = Some([("input_tokens".to_owned(), 15)].into());
        answer.columns = COLUMNS.map(str::to_owned).to_vec();
        change(&mut answer);
        Score::of(&truth, &answer).0.map(|figure| figure.unwrap().wrong)
    }

    #[test]
    fn find_nothing_wrong_in_an_equal_answer() {
        assert_eq!(answer(|_| {}), [0, 0, 0, 0, 0]);
        assert_eq!(answer(|a| drop(a.agents.remove("w"))), [0, 0, 0, 0, 1], "warm-up agents may be left out");
    }

    #[test]
    fn count_each_kind_of_mistake() {
        assert_eq!(
            answer(|a| a.agents.get_mut("b").unwrap().parent = Some("root".to_owned())),
            [1, 0, 0, 0, 0]
        );
        assert_eq!(
            answer(|a| drop(a.agents.insert("x".to_owned(), AgentAnswer::default()))),
            [1, 0, 0, 0, 0]
        );
        assert_eq!(
            answer(|a| a.agents.get_mut("b").unwrap().status = Some("completed".to_owned())),
            [0, 0, 1, 0, 0]
        );
        assert_eq!(answer(|a| a.agents.get_mut("b").unwrap().status = None), [0, 0, 1, 0, 0]);
        assert_eq!(
            answer(|a| *a.agents.get_mut("a").unwrap().usage.get_mut("input_tokens").unwrap() += 5),
            [0, 0, 0, 1, 1]
        );
        assert_eq!(answer(|a| a.agents.get_mut("a").unwrap().usage.clear()), [0, 0, 0, 1, 1]);
        assert_eq!(answer(|a| drop(a.agents.remove("b"))), [1, 1, 1, 1, 1]);
        let moved = answer(|a| {
            let call = a.agents.get_mut("b").unwrap().calls.as_mut().unwrap().remove_entry("t4").unwrap();
            a.agents.get_mut("a").unwrap().calls.as_mut().unwrap().insert(call.0, call.1);
        });
        assert_eq!(moved, [0, 1, 0, 0, 0]);
    }

    #[test]
    fn count_lacking_calls_where_only_counts_are_told() {
        let wrong = answer(|a| {
            let says = a.agents.get_mut("a").unwrap();
            says.calls = None;
            says.tool_counts = BTreeMap::from([("Read".to_owned(), 2)]);
        });
        assert_eq!(wrong, [0, 1, 0, 0, 0]);
    }

    #[test]
    fn accept_each_word_that_is_as_good_and_the_sum_of_the_session() {
        let mut truth = truth();
        truth.agents.get_mut("b").unwrap().also = vec!["stopped".to_owned()];
        truth.total = Some([("output_tokens".to_owned(), 7)].into());
        let mut answer = truth.clone();
        answer.columns = vec!["endings".to_owned(), "sums".to_owned()];
        answer.agents.get_mut("b").unwrap().status = Some("stopped".to_owned());
        assert_eq!(Score::of(&truth, &answer).wrong(), 0);
        answer.agents.get_mut("b").unwrap().status = Some("lost".to_owned());
        answer.total = Some([("output_tokens".to_owned(), 8)].into());
        assert_eq!(Score::of(&truth, &answer).wrong(), 2);
    }

    #[test]
    fn show_a_dash_for_what_a_tool_has_no_notion_of() {
        let mut flat = truth();
        flat.columns = vec!["endings".to_owned()];
        let mut total = Score::of(&truth(), &flat);
        assert_eq!(total.to_cell(), "— · — · 0 · — · —");
        total.add(Score::of(&truth(), &Answer { columns: flat.columns, ..Answer::default() }));
        assert_eq!(total.to_cell(), "— · — · 2 · — · —");
        assert_eq!(total.wrong(), 2);
    }
}
