//! Execution traces: one record per ended subagent (requirement 5.1).

use std::io::{self, BufWriter, Write};

use serde_json::Value;
use subscope_model::{
    Agent, AgentStatus, ExecutionTrace, ExecutionUsage, Payload, ToolCall, ToolExecution, ToolStatus, Tree,
    Usage,
};

use crate::Resolve;

/// Agent type if unknown, as in the tree's statistics by type.
pub(crate) const UNKNOWN_TYPE: &str = "unknown";

/// Type of an agent in records; its name where it has no type, as published agents.
pub(crate) fn agent_type(agent: &Agent) -> &str {
    agent.agent_type.as_deref().or(agent.name.as_deref()).unwrap_or(UNKNOWN_TYPE)
}

/// Returns the execution traces of all subagents that ended, in the tree's order.
///
/// Pending, running and lost agents have none. All payloads are in memory at once; [`write_execution`] holds those of
/// one agent.
pub fn execution(tree: &Tree, resolve: &Resolve<'_>) -> Vec<ExecutionTrace> {
    tree.agents.iter().filter_map(|agent| execution_trace(agent, resolve)).collect()
}

/// Writes the result of [`execution`] as a JSON array, one agent per line, with one agent's payloads in memory at a
/// time.
///
/// # Errors
/// Errors of the writer; earlier output is not undone.
pub fn write_execution(tree: &Tree, resolve: &Resolve<'_>, w: &mut dyn Write) -> io::Result<()> {
    let mut w = BufWriter::new(w);
    w.write_all(b"[")?;
    let mut separator: &[u8] = b"\n";
    for trace in tree.agents.iter().filter_map(|agent| execution_trace(agent, resolve)) {
        w.write_all(separator)?;
        serde_json::to_writer(&mut w, &trace)?;
        separator = b",\n";
    }
    w.write_all(b"\n]\n")?;
    w.flush()
}

/// Returns the execution trace of one agent; `None` for the root and for pending, running and lost agents.
///
/// An unknown start or end time is replaced by the nearest known time of the agent (its calls, its last event), if any
/// is known. A payload that cannot be read any more is null.
fn execution_trace(agent: &Agent, resolve: &Resolve<'_>) -> Option<ExecutionTrace> {
    if agent.id.is_root() {
        return None;
    }
    let success = match agent.status {
        AgentStatus::Completed => true,
        AgentStatus::Failed | AgentStatus::Stopped => false,
        AgentStatus::Pending | AgentStatus::Running | AgentStatus::Lost => return None,
    };
    let known_end = agent.ended_at_ms.or(agent.last_event_at_ms);
    let first_call = || agent.tools.iter().filter_map(|call| call.started_at_ms).min();
    let start_time = agent.started_at_ms.or_else(first_call).or(known_end);
    let parent = agent.parent_id.as_ref().filter(|parent| !parent.is_root());
    Some(ExecutionTrace {
        subagent_id: agent.id.to_string(),
        subagent_type: agent_type(agent).to_owned(),
        parent_tool_call_id: agent.spawned_by.as_ref().map_or_else(String::new, ToString::to_string),
        prompt: agent.prompt.as_deref().unwrap_or_default().to_owned(),
        start_time,
        end_time: known_end.or(start_time),
        success,
        result: agent.result.as_deref().map(str::to_owned),
        error: (!success).then(|| failure(agent)),
        tool_executions: agent.tools.iter().map(|call| tool_execution(call, resolve)).collect(),
        usage: agent.usage.map(|usage| execution_usage(&usage)),
        parent_subagent_id: parent.map(ToString::to_string),
        depth: Some(agent.depth),
        model: agent.model.as_deref().map(str::to_owned),
        cost_micro_usd: agent.cost_micro_usd,
    })
}

/// Returns why an agent did not succeed: its error, else the evidence of its status, else the status.
pub(crate) fn failure(agent: &Agent) -> String {
    match (agent.error.as_deref(), agent.evidence.as_deref()) {
        (Some(error), _) => error.to_owned(),
        (None, Some(evidence)) => format!("{} ({evidence})", agent.status.as_str()),
        (None, None) => agent.status.as_str().to_owned(),
    }
}

/// Converts token counts; tokens read from and written to a cache count as input.
pub(crate) fn execution_usage(usage: &Usage) -> ExecutionUsage {
    let [fresh, output, cache_read, cache_write] = usage.kinds();
    let input = fresh.saturating_add(cache_read).saturating_add(cache_write);
    ExecutionUsage { input_tokens: input, output_tokens: output, total_tokens: input.saturating_add(output) }
}

fn tool_execution(call: &ToolCall, resolve: &Resolve<'_>) -> ToolExecution {
    let value = |payload: &Option<Box<Payload>>| payload.as_deref().and_then(resolve).unwrap_or(Value::Null);
    ToolExecution {
        tool_name: call.name.to_string(),
        tool_call_id: call.id.as_ref().map(ToString::to_string),
        arguments: object_of(value(&call.input)),
        result: call.result.as_ref().map_or_else(|| "".into(), |_| text_of(value(&call.result))),
        // The caller of a denied call got an error.
        is_error: match call.status {
            ToolStatus::Ok => Some(false),
            ToolStatus::Error | ToolStatus::Denied => Some(true),
            ToolStatus::Open => None,
        },
        duration: (call.started_at_ms.zip(call.ended_at_ms).map(|(from, to)| to.saturating_sub(from).max(0)))
            .or(call.duration_ms),
    }
}

/// Returns arguments as an object where they are the text of one, as Codex and programs that publish events write them.
fn object_of(arguments: Value) -> Value {
    let Value::String(text) = &arguments else { return arguments };
    let parsed = serde_json::from_str(text).ok().filter(Value::is_object);
    parsed.unwrap_or(arguments)
}

/// Returns a result as text: that of blocks, and any other value as its JSON. Null stays: a result that is not known.
fn text_of(result: Value) -> Value {
    let block = |block: &Value| {
        let known = |key: &str| block.get(key).and_then(Value::as_str);
        known("text").map(str::to_owned).or_else(|| known("type").map(|kind| format!("[{kind}]")))
    };
    match result {
        Value::Null | Value::String(_) => result,
        Value::Array(ref blocks)
            if let Some(texts) = blocks.iter().map(block).collect::<Option<Vec<_>>>() =>
        {
            texts.join("\n").into()
        }
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => result.to_string().into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use subscope_model::AgentId;

    use super::*;
    use crate::sample::{agent, call, inline, tree};

    fn written(tree: &Tree) -> String {
        let mut out = Vec::new();
        write_execution(tree, &inline, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn write_session_gives_every_ended_agent() {
        insta::assert_snapshot!(written(&crate::sample::session()));
    }

    #[test]
    fn written_array_is_what_execution_returns() {
        let tree = crate::sample::session();
        let back: Vec<ExecutionTrace> = serde_json::from_str(&written(&tree)).unwrap();
        assert_eq!(back, execution(&tree, &inline));
        assert_eq!(written(&self::tree(vec![])), "[\n]\n");
    }

    #[test]
    fn successful_end_has_result_tools_in_order_and_usage_total() {
        let mut one = agent("a1", 1, AgentStatus::Completed);
        one.result = Some("All good: no errors found".into());
        one.usage = Some(Usage::new(1, 20, 300, 4000));
        one.tools = vec![call("t1", "Read", ToolStatus::Ok), call("t2", "Bash", ToolStatus::Error)];
        let trace = execution_trace(&one, &inline).unwrap();
        assert!(trace.success && trace.error.is_none());
        assert_eq!(trace.result.as_deref(), Some("All good: no errors found"));
        let names: Vec<&str> = trace.tool_executions.iter().map(|tool| tool.tool_name.as_str()).collect();
        assert_eq!(names, ["Read", "Bash"]);
        assert_eq!(
            trace.tool_executions.iter().map(|tool| tool.is_error).collect::<Vec<_>>(),
            [Some(false), Some(true)]
        );
        let usage = trace.usage.unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens, usage.total_tokens), (4301, 20, 4321));
    }

    #[test]
    fn failed_end_keeps_error_and_tools_so_far() {
        let mut one = agent("a1", 1, AgentStatus::Failed);
        one.error = Some("overloaded".into());
        one.tools = vec![call("t1", "Read", ToolStatus::Ok), call("t2", "Bash", ToolStatus::Open)];
        let trace = execution_trace(&one, &inline).unwrap();
        assert_eq!((trace.success, trace.error.as_deref()), (false, Some("overloaded")));
        assert_eq!(trace.tool_executions.len(), 2);
        let open = &trace.tool_executions[1];
        assert_eq!((open.is_error, open.duration, &open.result), (None, None, &json!("")));
    }

    #[test]
    fn stopped_end_without_error_text_names_status_and_evidence() {
        let mut one = agent("a1", 1, AgentStatus::Stopped);
        assert_eq!(execution_trace(&one, &inline).unwrap().error.as_deref(), Some("stopped"));
        one.evidence = Some("stop call".into());
        assert_eq!(execution_trace(&one, &inline).unwrap().error.as_deref(), Some("stopped (stop call)"));
    }

    #[test]
    fn agents_without_an_ending_and_the_root_are_not_in_it() {
        for status in [AgentStatus::Pending, AgentStatus::Running, AgentStatus::Lost] {
            assert!(execution_trace(&agent("a1", 1, status), &inline).is_none(), "{status:?}");
        }
        assert!(execution_trace(&agent(AgentId::ROOT, 0, AgentStatus::Completed), &inline).is_none());
    }

    #[test]
    fn three_runs_have_three_ids() {
        let three = ["a", "b", "c"].map(|id| agent(id, 1, AgentStatus::Completed));
        let ids: Vec<String> =
            execution(&tree(three.to_vec()), &inline).into_iter().map(|trace| trace.subagent_id).collect();
        assert_eq!(ids, ["a", "b", "c"]);
    }

    #[test]
    fn empty_lists_and_unknown_values_are_omitted() {
        let mut bare = agent("a1", 1, AgentStatus::Completed);
        (bare.agent_type, bare.spawned_by, bare.started_at_ms, bare.ended_at_ms) = (None, None, None, None);
        let trace = execution_trace(&bare, &inline).unwrap();
        assert_eq!(
            serde_json::to_value(trace).unwrap(),
            json!({"subagentId": "a1", "subagentType": "unknown", "parentToolCallId": "", "prompt": "",
                   "success": true, "depth": 1})
        );
        bare.name = Some("scout".into());
        assert_eq!(execution_trace(&bare, &inline).unwrap().subagent_type, "scout", "as published agents");
    }

    #[test]
    fn arguments_are_an_object_and_results_a_text_whatever_the_source_writes() {
        assert_eq!(object_of(json!("{\"query\":\"quantum\"}")), json!({"query": "quantum"}));
        for other in [json!("ls -l"), json!("[1]"), json!("7"), json!({"a": 1}), json!(null)] {
            assert_eq!(object_of(other.clone()), other);
        }
        let blocks = json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]);
        assert_eq!(text_of(blocks), json!("one\ntwo"));
        assert_eq!(
            text_of(json!([{"type": "text", "text": "one"}, {"type": "image"}])),
            json!("one\n[image]")
        );
        assert_eq!([text_of(json!([])), text_of(json!(["a"]))], [json!(""), json!("[\"a\"]")]);
        assert_eq!(text_of(json!({"content": "ok"})), json!("{\"content\":\"ok\"}"));
        for other in [json!("text"), json!(null)] {
            assert_eq!(text_of(other.clone()), other);
        }
    }

    #[test]
    fn payload_that_cannot_be_read_is_null() {
        let mut one = agent("a1", 1, AgentStatus::Completed);
        one.tools = vec![call("t1", "Read", ToolStatus::Ok)];
        let trace = execution_trace(&one, &|_| None).unwrap();
        assert_eq!(
            (&trace.tool_executions[0].arguments, &trace.tool_executions[0].result),
            (&Value::Null, &Value::Null)
        );
    }
}
