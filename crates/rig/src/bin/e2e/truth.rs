//! Compares a tree with the log of the fake server, and two trees with each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use serde_json::Value;
use subscope_model::{Agent, AgentStatus, Tree, Usage};
use subscope_rig::{Exchange, Outcome, Scenario, Spent};

use crate::finding::Findings;

/// Ground truth of one agent, from the log.
#[derive(Debug)]
pub(crate) struct Known {
    /// `root` or the harness's id.
    pub(crate) id: String,
    /// The actor that answered it.
    pub(crate) actor: String,
    parent: Option<String>,
    /// The call that started it, and when the model asked for that.
    pub(crate) spawn: Option<(String, Instant)>,
    /// Ids and names of its calls, in the order in which the model asked for them.
    pub(crate) calls: Vec<(String, String)>,
    answers: usize,
    spent: Spent,
    /// Whether an answer to it was cut in the middle.
    was_cut: bool,
    last: Outcome,
}

const ROOT: &str = "root";

/// Returns the agents that asked, the root among them, by id.
///
/// Parents are those of the requests' headers; the call that asked for an agent is the one whose prompt its actor
/// answers.
pub(crate) fn known(scenario: &Scenario, log: &[Exchange]) -> BTreeMap<String, Known> {
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    for exchange in log {
        let id = exchange.agent.clone().unwrap_or_else(|| ROOT.to_owned());
        let parent =
            exchange.agent.as_ref().map(|_| exchange.parent.clone().unwrap_or_else(|| ROOT.to_owned()));
        let agent = known.entry(id.clone()).or_insert_with(|| Known {
            id,
            actor: exchange.actor.clone().unwrap_or_default(),
            parent,
            spawn: None,
            calls: Vec::new(),
            answers: 0,
            spent: Spent::default(),
            was_cut: false,
            last: exchange.outcome,
        });
        agent.last = exchange.outcome;
        agent.was_cut |= exchange.outcome == Outcome::Cut;
        if exchange.outcome == Outcome::Answered {
            agent.answers += 1;
            agent.spent += exchange.spent;
            agent.calls.extend(exchange.calls.iter().map(|call| (call.id.clone(), call.name.clone())));
        }
    }
    for agent in known.values_mut().filter(|agent| agent.id != ROOT) {
        let asks = scenario.actors.iter().find(|actor| actor.id == agent.actor);
        let prompt = |call: &Value| call["prompt"].as_str().unwrap_or_default().to_owned();
        let mut calls = log.iter().flat_map(|exchange| &exchange.calls);
        let call = calls.find(|call| asks.is_some_and(|actor| prompt(&call.input).contains(&actor.matches)));
        agent.spawn = call.and_then(|call| Some((call.id.clone(), call.told_at?)));
    }
    known
}

/// Compares a tree with the ground truth.
pub(crate) fn compare(known: &BTreeMap<String, Known>, tree: &Tree, findings: &mut Findings) {
    let ids = |ids: &mut dyn Iterator<Item = String>| ids.collect::<BTreeSet<_>>();
    let found = ids(&mut tree.agents.iter().map(|agent| agent.id.to_string()));
    findings.same("agents of the log", found, ids(&mut known.keys().cloned()));
    for agent in &tree.agents {
        if let Some(known) = known.get(agent.id.as_str()) {
            compare_agent(known, agent, findings);
        }
    }
    let mut all = Spent::default();
    known.values().for_each(|agent| all += agent.spent);
    let total = tree.summary.usage.map(|usage| usage.total_tokens);
    // The harness's own sum may count what an answer that was cut had claimed, and may not (2.1.330).
    if known.values().all(|agent| !agent.was_cut) {
        match tree.summary.usage.filter(|usage| usage.floor) {
            // Versions up to 2.1.250 may put down an answer as it began, and nowhere how it ended.
            Some(bound) => under("tokens of all", bound.total_tokens, all.total(), findings),
            None => findings.same("tokens of all", total, Some(all.total())),
        }
    }
}

fn compare_agent(known: &Known, agent: &Agent, findings: &mut Findings) {
    let who = &known.actor;
    findings.same(
        format!("{who}: parent"),
        agent.parent_id.as_ref().map(ToString::to_string),
        known.parent.clone(),
    );
    let spawn = known.spawn.as_ref().map(|(call, _)| call.clone());
    findings.same(format!("{who}: its call"), agent.spawned_by.as_ref().map(ToString::to_string), spawn);
    let calls = agent
        .tools
        .iter()
        .map(|tool| (tool.id.as_ref().map(ToString::to_string).unwrap_or_default(), tool.name.to_string()));
    let wanted: BTreeSet<_> = known.calls.iter().cloned().collect();
    findings.same(format!("{who}: calls"), calls.collect(), wanted);
    findings.same(format!("{who}: responses"), agent.messages as usize, known.answers);
    let Spent { input, output, cache_read, cache_write } = known.spent;
    let spent = (known.answers > 0).then(|| Usage::new(input, output, cache_read, cache_write));
    match agent.usage.zip(spent).filter(|(usage, _)| usage.floor) {
        Some((bound, spent)) => {
            let [bounds, truths] = [bound.kinds(), spent.kinds()];
            let is_under = bounds.iter().zip(truths).all(|(bound, truth)| *bound <= truth);
            under(
                &format!("{who}: tokens"),
                bound.total_tokens,
                if is_under { spent.total_tokens } else { 0 },
                findings,
            );
        }
        None => findings.same(format!("{who}: tokens"), agent.usage, spent),
    }
    let status = match known.last {
        Outcome::Answered => AgentStatus::Completed,
        Outcome::Refused(_) | Outcome::Cut => AgentStatus::Failed,
        Outcome::Left | Outcome::Open => AgentStatus::Stopped,
    };
    findings.same(format!("{who}: status"), agent.status, status);
}

/// A lower bound must be less than the truth: an exact value must not be marked as one.
fn under(what: &str, bound: u64, truth: u64, findings: &mut Findings) {
    if bound >= truth {
        findings.fault(format!("{what}: at least {bound}, and the truth is {truth}"));
    }
}

/// Compares two trees field by field. Left out is what depends on the sources alone, and not on what happened: `rev`,
/// and how an ending (`evidence`) and a call's owner (`basis`) are known.
pub(crate) fn differences(found: &Tree, wanted: &Tree) -> Vec<String> {
    let mut all = Vec::new();
    let values = [found, wanted].map(|tree| serde_json::to_value(tree).unwrap_or_default());
    differ("", &values[0], &values[1], &mut all);
    // Transcripts with a lower bound only, or without the session's own sum, are no reference for a tree that was also
    // read from the stream; nor are they for the number of permissions, which only hooks know.
    let unsure = [
        wanted.summary.usage.is_some_and(|usage| usage.floor).then_some("summary.usage"),
        wanted.summary.cost_floor.then_some("summary.cost"),
        wanted.summary.unattributed_usage.is_none().then_some("summary.unattributed_usage"),
        wanted.summary.permissions_asked.is_none().then_some("summary.permissions_asked"),
    ];
    all.retain(|difference| !unsure.iter().flatten().any(|place| difference.starts_with(place)));
    all
}

fn differ(place: &str, found: &Value, wanted: &Value, all: &mut Vec<String>) {
    if matches!(place.rsplit('.').next(), Some("rev" | "evidence" | "basis")) || found == wanted {
        return;
    }
    match (found, wanted) {
        (Value::Object(a), Value::Object(b)) => {
            for name in a.keys().chain(b.keys().filter(|name| !a.contains_key(*name))) {
                differ(&format!("{place}.{name}"), &found[name], &wanted[name], all);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (at, (found, wanted)) in a.iter().zip(b).enumerate() {
                differ(&format!("{place}[{at}]"), found, wanted, all);
            }
        }
        _ => all.push(format!("{}: {found}, and not {wanted}", place.trim_start_matches('.'))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use subscope_model::{AgentId, ToolCall};

    use super::*;

    /// An agent with one call and one answer.
    fn known() -> Known {
        Known {
            id: "a1".into(),
            actor: "reader".into(),
            parent: Some(ROOT.into()),
            spawn: None,
            calls: vec![("t1".into(), "Read".into())],
            answers: 1,
            spent: Spent { input: 1, output: 2, cache_read: 3, cache_write: 4 },
            was_cut: false,
            last: Outcome::Answered,
        }
    }

    /// The row that is right for it.
    fn row() -> Agent {
        let mut row = Agent::unknown(AgentId::from("a1"), 1, AgentStatus::Completed);
        row.parent_id = Some(AgentId::from("root"));
        row.messages = 1;
        row.usage = Some(Usage::new(1, 2, 3, 4));
        let call = json!({"id": "t1", "name": "Read", "status": "ok", "basis": "wire", "started_at_ms": 1,
            "ended_at_ms": 2, "detail": null});
        row.tools = vec![serde_json::from_value::<ToolCall>(call).unwrap()];
        row
    }

    fn faults(row: &Agent) -> usize {
        let mut findings = Findings::default();
        compare_agent(&known(), row, &mut findings);
        findings.print("row")
    }

    #[test]
    fn finds_whatever_a_row_has_wrong() {
        assert_eq!(faults(&row()), 0);
        let wrong: [fn(&mut Agent); 6] = [
            |row| row.parent_id = Some(AgentId::from("a2")),
            |row| row.spawned_by = Some("t9".into()),
            |row| row.tools[0].name = Arc::from("Bash"),
            |row| row.messages = 2,
            |row| row.usage = Some(Usage::new(1, 3, 3, 4)),
            |row| row.status = AgentStatus::Lost,
        ];
        for spoil in wrong {
            let mut row = row();
            spoil(&mut row);
            assert_eq!(faults(&row), 1, "{row:?}");
        }
    }

    #[test]
    fn lower_bound_is_under_the_truth_or_wrong() {
        let bound = |output| {
            let mut row = row();
            row.usage = Some(Usage { floor: true, ..Usage::new(1, output, 3, 4) });
            faults(&row)
        };
        assert_eq!([bound(1), bound(2), bound(3)], [0, 1, 1]);
    }

    #[test]
    fn tells_where_two_trees_differ_and_passes_over_what_rests_on_sources() {
        let mut all = Vec::new();
        let one = json!({"rev": 1, "agents": [{"id": "a", "evidence": "x", "tools": [{"basis": "wire", "name": "Read"}]}]});
        let two =
            json!({"agents": [{"id": "a", "evidence": "y", "tools": [{"basis": "link", "name": "Bash"}]}]});
        differ("", &one, &two, &mut all);
        assert_eq!(all, ["agents[0].tools[0].name: \"Read\", and not \"Bash\""]);
    }
}
