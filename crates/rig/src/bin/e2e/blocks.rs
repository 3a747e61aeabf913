//! Checks printed blocks: all of each agent, in order.

use std::collections::BTreeMap;

use subscope_model::{Agent, AgentStatus, ToolStatus, Tree};
use subscope_rig::Scenario;

use crate::{finding::Findings, truth::Known};

/// How many columns the time takes in front of a block: `20:38:55 `.
const TIME: usize = 9;

/// Compares the printed blocks with the script: a start, each call in its order, each result, an end, and the stalls of
/// the script.
pub(crate) fn compare(
    what: &str,
    text: &str,
    scenario: &Scenario,
    known: &BTreeMap<String, Known>,
    tree: &Tree,
) -> Findings {
    let mut findings = Findings::default();
    let mut unnamed = unnamed_starts(text);
    for agent in &tree.agents {
        let (Some(known), Some(kind), Some(task)) =
            (known.get(agent.id.as_str()), &agent.agent_type, &agent.description)
        else {
            continue;
        };
        let (first, mut printed) = of(text, &format!("{kind}: {task}"));
        // A hook may report the start before anything says which call it is of: it is printed by the type alone.
        let is_own = |(line, started): &(usize, &str)| *line < first && *started == kind.as_ref();
        if printed.first != "▶"
            && let Some(at) = unnamed.iter().position(is_own)
        {
            unnamed.remove(at);
            "▶".clone_into(&mut printed.first);
        }
        let place = format!("{what}: blocks of {}", known.actor);
        findings.same(place, printed, wanted(scenario, known, agent));
    }
    findings
}

/// Returns the expected blocks of an agent; the order of results is ignored.
fn wanted(scenario: &Scenario, known: &Known, agent: &Agent) -> Printed {
    let end = match agent.status {
        AgentStatus::Completed => "✓",
        AgentStatus::Failed => "✗",
        AgentStatus::Stopped => "■",
        AgentStatus::Pending | AgentStatus::Running | AgentStatus::Lost => "?",
    };
    Printed {
        first: "▶".to_owned(),
        calls: known.calls.iter().map(|(_, name)| name.clone()).collect(),
        results: agent.tools.iter().filter(|tool| tool.status != ToolStatus::Open).count(),
        stalls: scenario.stalls.get(&known.actor).into_iter().cloned().collect(),
        last: end.to_owned(),
    }
}

/// Printed blocks of one agent.
#[derive(Debug, PartialEq, Eq)]
struct Printed {
    /// The mark of its first block.
    first: String,
    /// The tools that it called, in order.
    calls: Vec<String>,
    /// How many results came.
    results: usize,
    /// What it waited for when it was reported as stalled.
    stalls: Vec<String>,
    /// The mark of its last block.
    last: String,
}

/// Returns the starts of agents without a description, `TIME ▶ TYPE  …`: their lines and types.
fn unnamed_starts(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().enumerate();
    let starts = lines.filter_map(|(number, line)| Some((number, line.get(TIME..)?.strip_prefix("▶ ")?)));
    let labels = starts.filter_map(|(number, rest)| Some((number, rest.split_once("  ")?.0)));
    labels.filter(|(_, label)| !label.contains(": ")).collect()
}

/// Reads an agent's blocks, with the line of the first: `TIME ▶ LABEL …`, `TIME   LABEL → TOOL …`, `TIME   LABEL ← TOOL …`,
/// `TIME   LABEL ! stalled: waits for CAUSE since SPAN`, `TIME ✓ LABEL …`.
fn of(text: &str, label: &str) -> (usize, Printed) {
    let mut first = usize::MAX;
    let mut printed = Printed {
        first: String::new(),
        calls: Vec::new(),
        results: 0,
        stalls: Vec::new(),
        last: String::new(),
    };
    for (number, line) in text.lines().enumerate() {
        let Some(line) = line.get(TIME..) else { continue };
        let Some((mark, rest)) = line.split_once(label) else { continue };
        let mut words = rest.split_whitespace();
        let mark = match (mark.trim(), words.next()) {
            ("", Some("→")) => {
                printed.calls.push(words.next().unwrap_or_default().to_owned());
                "→"
            }
            ("", Some("←")) => {
                printed.results += 1;
                "←"
            }
            ("", Some("!")) => {
                let said = words.collect::<Vec<_>>().join(" ");
                let cause = said.strip_prefix("stalled: waits for ").unwrap_or(&said);
                printed.stalls.push(cause.split(" since ").next().unwrap_or(cause).to_owned());
                "!"
            }
            ("", _) => continue,
            (mark, _) if mark.chars().count() == 1 => mark,
            // A block of another agent, which quotes it.
            _ => continue,
        };
        if printed.first.is_empty() {
            mark.clone_into(&mut printed.first);
            first = number;
        }
        mark.clone_into(&mut printed.last);
    }
    (first, printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_blocks_of_one_agent_among_others() {
        let text = "\
20:38:55   → Agent Check stock
20:38:55 ▶ Plan: Check stock                opus-5-5, by main
20:38:56   Plan: Check stock → Read cart.js
20:38:56   Plan: Check it all → Read cart.js
20:38:56   Plan: Check stock ← Read ok 91ms
20:38:56   Plan: Check stock » Plan: Check stock
20:38:57   Plan: Check stock ! stalled: waits for the model since 3s
20:38:57 ✓ Plan: Check stock                3s, 6 tools
20:38:58   ← Agent ok 4s “Plan: Check stock is done”
";
        let (first, printed) = of(text, "Plan: Check stock");
        assert_eq!(first, 1);
        let wanted = Printed {
            first: "▶".into(),
            calls: vec!["Read".into()],
            results: 1,
            stalls: vec!["the model".into()],
            last: "✓".into(),
        };
        assert_eq!(printed, wanted);
        let text = "\
20:38:55 ▶ Plan                             by main
20:38:55 ▶ Plan: Check stock                opus-5-5, by main
20:38:56 ▶ Explore                          by main
";
        assert_eq!(unnamed_starts(text), [(0, "Plan"), (2, "Explore")]);
    }
}
