//! Conversion of a checkpoint into lines of the dialect `executions`, which every command reads.
//!
//! Pitfall: the file may contain duplicate ids and unknown parents. Every trace becomes one line, and each correction
//! is reported as a problem.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use subscope_model::{AgentId, Checkpoint, CheckpointMetadata, ExecutionTrace, Problem};

use crate::{checkpoint::CHECKPOINT_FILE, execution::UNKNOWN_TYPE};

/// A trace as a line; without one, the line only names the session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    schema: &'static str,
    session_id: &'a str,
    #[serde(flatten)]
    trace: Option<&'a ExecutionTrace>,
}

/// Returns a checkpoint as lines, and the problems that were corrected.
///
/// A session without metadata gets the id `checkpoint:AGENT`, after its first agent.
///
/// # Errors
/// If a value has no JSON form.
pub fn checkpoint_lines(
    mut checkpoint: Checkpoint,
    metadata: Option<&CheckpointMetadata>,
) -> serde_json::Result<(Vec<u8>, Vec<Problem>)> {
    let (traces, mut problems) = (&mut checkpoint.subagent_traces, Vec::new());
    make_ids_unique(traces, &mut problems);
    let session = match (metadata, traces.first()) {
        (Some(metadata), _) => metadata.session_id.clone(),
        (None, Some(first)) => format!("checkpoint:{}", first.subagent_id),
        (None, None) => "checkpoint".to_owned(),
    };
    let ids: HashSet<String> = traces.iter().map(|trace| trace.subagent_id.clone()).collect();
    for trace in traces.iter_mut() {
        match &trace.parent_subagent_id {
            Some(parent) if parent == AgentId::ROOT => trace.parent_subagent_id = None,
            Some(parent) if !ids.contains(parent) => {
                add_problem(
                    &mut problems,
                    "an agent's parent is not in the checkpoint; it is shown as an orphan",
                );
            }
            Some(_) | None => {}
        }
        if trace.subagent_type == UNKNOWN_TYPE {
            trace.subagent_type.clear();
        }
    }
    let mut lines = Vec::new();
    for trace in std::iter::once(None).chain(traces.iter().map(Some)) {
        let line = Line { schema: ExecutionTrace::LINE_SCHEMA, session_id: &session, trace };
        serde_json::to_writer(&mut lines, &line)?;
        lines.push(b'\n');
    }
    Ok((lines, problems))
}

/// Gives each trace an id of its own, different from the root's. Children of a duplicate id belong to its first trace.
fn make_ids_unique(traces: &mut [ExecutionTrace], problems: &mut Vec<Problem>) {
    let mut taken: HashSet<String> = traces.iter().map(|trace| trace.subagent_id.clone()).collect();
    let mut used: HashSet<String> = HashSet::from([AgentId::ROOT.to_owned(), String::new()]);
    let mut next: HashMap<String, u64> = HashMap::new();
    for trace in traces {
        let named = trace.subagent_id.clone();
        if used.insert(named.clone()) {
            continue;
        }
        let number = next.entry(named.clone()).or_insert(2);
        while !taken.insert(format!("{named}#{number}")) {
            *number += 1;
        }
        trace.subagent_id = format!("{named}#{number}");
        add_problem(problems, "an agent's id is another's too; it is shown under a new one");
    }
}

fn add_problem(problems: &mut Vec<Problem>, what: &str) {
    problems.push(Problem { at: CHECKPOINT_FILE.to_owned(), what: what.to_owned() });
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use subscope_model::CHECKPOINT_VERSION;

    use super::*;
    use crate::{
        execution,
        sample::{inline, session},
    };

    fn trace(id: &str, parent: Option<&str>) -> ExecutionTrace {
        let mut trace = execution(&session(), &inline).remove(0);
        (trace.subagent_id, trace.parent_subagent_id) = (id.to_owned(), parent.map(str::to_owned));
        trace
    }

    fn lines(subagent_traces: Vec<ExecutionTrace>) -> (Vec<Value>, usize) {
        let checkpoint = Checkpoint { version: CHECKPOINT_VERSION.to_owned(), subagent_traces };
        let (lines, problems) = checkpoint_lines(checkpoint, None).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        (lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), problems.len())
    }

    #[test]
    fn each_trace_is_a_line_with_its_session() {
        let traces = execution(&session(), &inline);
        let metadata = CheckpointMetadata {
            session_id: "s9".into(),
            checkpoint_id: "c1".into(),
            timestamp: 1,
            step: 3,
            agent_id: "root".into(),
        };
        let checkpoint = Checkpoint { version: CHECKPOINT_VERSION.into(), subagent_traces: traces.clone() };
        let (lines, problems) = checkpoint_lines(checkpoint, Some(&metadata)).unwrap();
        let lines: Vec<Value> = lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        assert_eq!(lines[0], json!({"schema": "subscope.execution/1", "sessionId": "s9"}));
        let back: Vec<ExecutionTrace> =
            lines[1..].iter().map(|line| serde_json::from_value(line.clone()).unwrap()).collect();
        assert_eq!((back, problems), (traces, vec![]));
    }

    #[test]
    fn equal_ids_and_the_roots_id_get_new_ones() {
        let ids = ["a", "a", "a#2", "root", ""].map(|id| trace(id, None));
        let (lines, problems) = lines(ids.to_vec());
        let ids: Vec<&str> = lines[1..].iter().map(|line| line["subagentId"].as_str().unwrap()).collect();
        assert_eq!((ids, problems), (vec!["a", "a#3", "a#2", "root#2", "#2"], 3));
        assert_eq!(lines[0]["sessionId"], "checkpoint:a");
    }

    #[test]
    fn unknown_parent_is_a_problem_and_the_root_is_none() {
        let (lines, problems) =
            lines(vec![trace("a", Some("nobody")), trace("b", Some("root")), trace("c", Some("b"))]);
        let parents: Vec<Option<&str>> =
            lines[1..].iter().map(|line| line["parentSubagentId"].as_str()).collect();
        assert_eq!((parents, problems), (vec![Some("nobody"), None, Some("b")], 1));
    }

    #[test]
    fn empty_checkpoint_names_a_session() {
        assert_eq!(
            lines(vec![]),
            (vec![json!({"schema": "subscope.execution/1", "sessionId": "checkpoint"})], 0)
        );
    }
}
