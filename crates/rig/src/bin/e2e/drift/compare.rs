//! Compares a tree with the log of the fake server, by the prompts of the agents: no id is needed.

use std::collections::BTreeMap;

use subscope_model::{Agent, AgentStatus, ToolStatus, Tree, Usage};
use subscope_rig::{Exchange, Outcome, Spent};

use super::{
    harness::Harness,
    script::{Played, Script},
};
use crate::finding::Findings;

/// The name of the root among actors.
pub(super) const ROOT: &str = "root";

/// Data of one agent in the log.
#[derive(Debug, Default)]
struct Known {
    parent: Option<String>,
    spawned_by: Option<String>,
    /// Ids and names of its calls, and how each may end.
    calls: Vec<(String, String, &'static [ToolStatus])>,
    answers: usize,
    spent: Spent,
    last: Option<Outcome>,
}

/// Compares a tree with the log.
pub(crate) fn compare(
    harness: Harness,
    script: &Script,
    played: &Played,
    log: &[Exchange],
    tree: &Tree,
    findings: &mut Findings,
) {
    let known = known(script, played, log);
    for actor in script.players(harness).filter(|actor| !known.contains_key(*actor)) {
        findings.fault(format!("{actor} was not played: it never asked the stand-in"));
    }
    findings.same("harness", tree.session.harness.as_deref(), Some(harness.name()));
    findings.same("runs", tree.session.runs as usize, script.prompts.len());
    let mut rows: BTreeMap<String, &Agent> = BTreeMap::new();
    for agent in &tree.agents {
        match actor_of(script, &known, agent) {
            Some(actor) if !rows.contains_key(&actor) => drop(rows.insert(actor, agent)),
            Some(actor) => findings.fault(format!("two agents for {actor}")),
            None => findings.fault(format!("agent {} has asked nothing: {:?}", agent.id, agent.prompt)),
        }
    }
    for (actor, known_agent) in &known {
        match rows.get(actor) {
            Some(row) => compare_agent(harness, actor, known_agent, row, &rows, findings),
            None => findings.fault(format!("{actor}: is missing")),
        }
    }
    let mut all = Spent::default();
    known.values().for_each(|agent| all += agent.spent);
    findings.same("tokens of all", tree.summary.usage.map(|usage| usage.total_tokens), Some(all.total()));
    let nobodys = tree.summary.unattributed_usage.map_or(0, |usage| usage.total_tokens);
    findings.same("tokens of nobody", nobodys, 0);
    findings.same("problems", tree.problems.len(), 0);
}

fn known(script: &Script, played: &Played, log: &[Exchange]) -> BTreeMap<String, Known> {
    let name = |actor: &str| if script.is_root(actor) { ROOT.to_owned() } else { actor.to_owned() };
    let mut known: BTreeMap<String, Known> = BTreeMap::new();
    for exchange in log {
        let Some(actor) = &exchange.actor else { continue };
        let agent = known.entry(name(actor)).or_default();
        agent.last = Some(exchange.outcome);
        if exchange.outcome != Outcome::Answered {
            continue;
        }
        agent.answers += 1;
        agent.spent += exchange.spent;
        let ends = played.ends.get(&(actor.clone(), exchange.step)).map(Vec::as_slice).unwrap_or_default();
        let calls = exchange.calls.iter().zip(ends);
        agent.calls.extend(calls.map(|(call, ends)| (call.id.clone(), call.name.clone(), *ends)));
    }
    for (actor, agent) in known.iter_mut().filter(|(actor, _)| *actor != ROOT) {
        let mark = Script::mark(actor);
        let asks = log.iter().find_map(|exchange| {
            let call = exchange.calls.iter().find(|call| call.input.to_string().contains(&mark))?;
            Some((name(exchange.actor.as_deref()?), call.id.clone()))
        });
        (agent.parent, agent.spawned_by) = asks.unzip();
    }
    known
}

/// The actor of a row: by the mark at the start of its task, or by the call that started it.
fn actor_of(script: &Script, known: &BTreeMap<String, Known>, row: &Agent) -> Option<String> {
    if row.id.as_str() == ROOT {
        return Some(ROOT.to_owned());
    }
    let by_call = known.iter().find(|(_, agent)| {
        agent.spawned_by.is_some()
            && agent.spawned_by.as_deref() == row.spawned_by.as_ref().map(|id| id.as_str())
    });
    by_call.map(|(actor, _)| actor.clone()).or_else(|| {
        let prompt = row.prompt.as_deref()?;
        script.actors.iter().map(|part| part.id.clone()).find(|id| prompt.contains(&Script::mark(id)))
    })
}

fn compare_agent(
    harness: Harness,
    actor: &str,
    known: &Known,
    row: &Agent,
    rows: &BTreeMap<String, &Agent>,
    findings: &mut Findings,
) {
    let parent = row.parent_id.as_ref().map(|id| {
        let found = rows.iter().find(|(_, other)| other.id == *id);
        found.map_or_else(|| id.to_string(), |(actor, _)| actor.clone())
    });
    findings.same(format!("{actor}: parent"), parent, known.parent.clone());
    let ids = harness.keeps_call_ids();
    if ids {
        let spawned_by = row.spawned_by.as_ref().map(ToString::to_string);
        findings.same(format!("{actor}: its call"), spawned_by, known.spawned_by.clone());
    }
    let named = |id: &str, name: &str| if ids { format!("{name} {id}") } else { name.to_owned() };
    let mut wanted: Vec<(String, &[ToolStatus])> =
        known.calls.iter().map(|(id, name, ends)| (named(id, name), *ends)).collect();
    let mut found: Vec<(String, ToolStatus)> = row
        .tools
        .iter()
        .map(|call| (named(call.id.as_ref().map_or("", |id| id.as_str()), &call.name), call.status))
        .collect();
    // By name alone the order of the log is that of the tree.
    if ids {
        wanted.sort_by(|one, other| one.0.cmp(&other.0));
        found.sort_by(|one, other| one.0.cmp(&other.0));
    }
    let names = |calls: &mut dyn Iterator<Item = &String>| calls.cloned().collect::<Vec<_>>();
    findings.same(
        format!("{actor}: calls"),
        names(&mut found.iter().map(|(name, _)| name)),
        names(&mut wanted.iter().map(|(name, _)| name)),
    );
    for ((name, status), (_, ends)) in found.iter().zip(&wanted) {
        if !ends.contains(status) {
            findings.fault(format!("{actor}: {name} ended {}, and not {ends:?}", status.as_str()));
        }
    }
    // Some harnesses put down a refusal as a message.
    if !matches!(known.last, Some(Outcome::Refused(_))) {
        findings.same(format!("{actor}: responses"), row.messages as usize, known.answers);
    }
    let Spent { input, output, cache_read, cache_write } = known.spent;
    // Without a response usage is unknown or 0.
    let spent = (known.answers > 0).then(|| Usage::new(input, output, cache_read, cache_write));
    let usage = row.usage.filter(|usage| known.answers > 0 || usage.total_tokens > 0);
    findings.same(format!("{actor}: tokens"), usage, spent);
    let status = match known.last {
        Some(Outcome::Answered) => AgentStatus::Completed,
        Some(Outcome::Refused(_) | Outcome::Cut) => AgentStatus::Failed,
        _ => AgentStatus::Stopped,
    };
    findings.same(format!("{actor}: status"), row.status, status);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use subscope_model::{AgentId, ToolCall};

    use super::*;

    const OK: &[ToolStatus] = &[ToolStatus::Ok];

    fn known() -> Known {
        Known {
            parent: Some(ROOT.to_owned()),
            spawned_by: Some("c0".to_owned()),
            calls: vec![("c1".to_owned(), "bash".to_owned(), OK)],
            answers: 1,
            spent: Spent { input: 1, output: 2, cache_read: 3, cache_write: 0 },
            last: Some(Outcome::Answered),
        }
    }

    fn row() -> Agent {
        let mut row = Agent::unknown(AgentId::from("a1"), 1, AgentStatus::Completed);
        row.parent_id = Some(AgentId::from(ROOT));
        row.spawned_by = Some("c0".into());
        row.messages = 1;
        row.usage = Some(Usage::new(1, 2, 3, 0));
        let call = serde_json::json!({"id": "c1", "name": "bash", "status": "ok", "basis": "wire",
            "started_at_ms": 1, "ended_at_ms": 2, "detail": null});
        row.tools = vec![serde_json::from_value::<ToolCall>(call).unwrap()];
        row
    }

    fn faults(harness: Harness, row: &Agent) -> usize {
        let root = Agent::unknown(AgentId::from(ROOT), 0, AgentStatus::Completed);
        let rows = BTreeMap::from([(ROOT.to_owned(), &root), ("A".to_owned(), row)]);
        let mut findings = Findings::default();
        compare_agent(harness, "A", &known(), row, &rows, &mut findings);
        findings.faults().len()
    }

    #[test]
    fn finds_what_a_row_has_wrong() {
        assert_eq!(faults(Harness::OpenCode, &row()), 0);
        let wrong: [fn(&mut Agent); 8] = [
            |row| row.parent_id = Some(AgentId::from("a2")),
            |row| row.spawned_by = None,
            |row| row.tools[0].name = Arc::from("read"),
            |row| row.tools[0].status = ToolStatus::Denied,
            |row| row.tools.clear(),
            |row| row.messages = 2,
            |row| row.usage = Some(Usage::new(1, 3, 3, 0)),
            |row| row.status = AgentStatus::Lost,
        ];
        for spoil in wrong {
            let mut row = row();
            spoil(&mut row);
            assert_eq!(faults(Harness::OpenCode, &row), 1, "{row:?}");
        }
    }

    #[test]
    fn compares_calls_by_name_where_the_harness_makes_its_own_ids() {
        let mut row = row();
        row.tools[0].id = Some("bash-17".into());
        assert_eq!([faults(Harness::Gemini, &row), faults(Harness::OpenCode, &row)], [0, 1]);
    }
}
