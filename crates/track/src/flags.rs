//! Flags derived from an agent's calls: looping, failing, colliding.

use std::collections::{BTreeMap, BTreeSet};

use subscope_model::{Millis, Text, ToolStatus};

use crate::{facts::Facts, identities::AgentIndex};

/// Number of equal calls, or of errors, in a row that sets a flag.
const IN_A_ROW: usize = 3;

/// Returns whether the agent's last calls have the same tool and arguments.
pub(crate) fn is_looping(facts: &Facts, calls: &[u32]) -> bool {
    let digest = |number: &u32| {
        let call = facts.call(*number);
        let (_, digest) = call.digest.filter(|_| call.has_arguments)?;
        Some((call.name.clone(), digest))
    };
    let mut last = calls.iter().rev().take(IN_A_ROW).map(digest);
    let Some(Some(first)) = last.next() else { return false };
    calls.len() >= IN_A_ROW && last.all(|digest| digest.as_ref() == Some(&first))
}

/// Returns whether the agent's last ended calls all failed.
pub(crate) fn is_failing(statuses: &[ToolStatus]) -> bool {
    let ended: Vec<ToolStatus> =
        statuses.iter().rev().copied().filter(|status| *status != ToolStatus::Open).take(IN_A_ROW).collect();
    ended.len() == IN_A_ROW && ended.iter().all(|status| *status == ToolStatus::Error)
}

/// Writes of one agent to one file: from the begin of the first to the end of the last.
struct FileWrites {
    agent: AgentIndex,
    span: (Millis, Millis),
}

/// Returns the agents that write one file in overlapping spans of time. For unrelated agents their whole activity
/// (`active`) is compared; for an agent and its ancestor only the writes, because an ancestor usually waits for its
/// subagent.
pub(crate) fn find_colliding(
    writes: &[(AgentIndex, Text, Millis, Millis)],
    active: &dyn Fn(AgentIndex) -> Option<(Millis, Millis)>,
    is_above: &dyn Fn(AgentIndex, AgentIndex) -> bool,
) -> BTreeSet<AgentIndex> {
    let mut files: BTreeMap<&Text, Vec<FileWrites>> = BTreeMap::new();
    for (agent, file, from, to) in writes {
        let list = files.entry(file).or_default();
        match list.iter_mut().find(|writing| writing.agent == *agent) {
            Some(known) => known.span = (known.span.0.min(*from), known.span.1.max(*to)),
            None => list.push(FileWrites { agent: *agent, span: (*from, *to) }),
        }
    }
    let overlap = |one: (Millis, Millis), other: (Millis, Millis)| one.0 <= other.1 && other.0 <= one.1;
    let mut found = BTreeSet::new();
    for list in files.values() {
        for (at, one) in list.iter().enumerate() {
            for other in list.get(at + 1..).unwrap_or_default() {
                let is_related = is_above(one.agent, other.agent) || is_above(other.agent, one.agent);
                let spans = if is_related {
                    (one.span, other.span)
                } else {
                    (active(one.agent).unwrap_or(one.span), active(other.agent).unwrap_or(other.span))
                };
                if overlap(spans.0, spans.1) {
                    found.extend([one.agent, other.agent]);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_after_three_errors_in_a_row_and_not_before() {
        use ToolStatus::{Error, Ok, Open};
        assert!(is_failing(&[Ok, Error, Error, Error, Open]));
        assert!(!is_failing(&[Error, Error, Ok]));
        assert!(!is_failing(&[Error, Error]));
    }

    #[test]
    fn colliding_when_unrelated_agents_write_one_file_at_the_same_time() {
        let file: Text = "a.js".into();
        let writes = [(1, file.clone(), 10, 12), (2, file.clone(), 50, 60), (3, file, 200, 210)];
        let active = |agent: AgentIndex| Some([(0, 0), (5, 55), (40, 70), (190, 220)][agent]);
        assert_eq!(find_colliding(&writes, &active, &|_, _| false), BTreeSet::from([1, 2]));
        assert_eq!(find_colliding(&writes, &active, &|_, _| true), BTreeSet::new());
    }
}
