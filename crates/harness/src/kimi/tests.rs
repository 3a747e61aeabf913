//! What the decoders make of single lines: those that no recording has, and those that are damaged.

use subscope_decode::{Dialect, Hint};
use subscope_model::{Decoded, Fact, SourceId, SpawnMode, ToolClass};

use super::{HOOK, STATE, STREAM, WIRE};

/// Decodes lines; returns a word for each fact, and the number of problems.
fn facts(dialect: Dialect, agent: Option<&str>, lines: &[&str]) -> (Vec<String>, usize) {
    let (mut found, mut problems) = (Vec::new(), 0);
    let hint = Hint {
        source: SourceId(0),
        session: Some("session_1".to_owned()),
        agent: agent.map(str::to_owned),
        ..Hint::default()
    };
    let mut sink = |decoded: Decoded<'_, '_>| match decoded {
        Decoded::Observation(seen) => found.extend(word(&seen.fact)),
        Decoded::Problem { .. } => problems += 1,
    };
    let mut decoder = dialect.decoder(&hint);
    lines.iter().for_each(|line| decoder.push(format!("{line}\n").as_bytes(), &mut sink));
    decoder.flush(&mut sink);
    (found, problems)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other facts are not asked for")]
fn word(fact: &Fact<'_>) -> Option<String> {
    Some(match fact {
        Fact::Prompt { text, what, .. } => format!("prompt {what:?} {}", text.text()),
        Fact::Message { text, .. } => format!("says {}", text.text()),
        Fact::CallBegin(call) => {
            let mode = call.spawn.as_ref().and_then(|spawn| spawn.mode);
            let is_background = mode == Some(SpawnMode::Background);
            let is_spawn = call.class == ToolClass::Spawn;
            format!(
                "call {} {} spawn={is_spawn} background={is_background}",
                call.id.unwrap_or("-"),
                call.name
            )
        }
        Fact::CallEnd(end) => {
            let agent = end.spawn.as_ref().and_then(|spawn| spawn.agent);
            format!("end {} {:?} {agent:?} {:?}", end.id.unwrap_or("-"), end.outcome, end.resumed)
        }
        Fact::Spawn(spawn) => format!(
            "spawn {} by {:?} {:?} first={}",
            spawn.agent.unwrap_or("-"),
            spawn.call,
            spawn.batch,
            spawn.is_origin
        ),
        Fact::AgentEnd(end) => format!("agent {} {:?}", end.agent.unwrap_or("-"), end.status),
        Fact::TurnEnd { status, counts_run, .. } => format!("turn {status:?} run={counts_run}"),
        Fact::Retry { attempt, limit, .. } => format!("retry {attempt}/{limit}"),
        Fact::Title { text, origin } => format!("title {text} {origin:?}"),
        Fact::Response(response) => {
            let usage = response.usage?;
            format!("usage {} {:?} {}", response.message_id, response.model, usage.total_tokens)
        }
        _ => return None,
    })
}

#[test]
fn lines_of_protocol_1_4_name_no_agent() {
    let lines = [
        r#"{"type":"metadata","protocol_version":"1.4","created_at":1}"#,
        r#"{"type":"config.update","profileName":"coder","modelAlias":"k","cwd":"/w","time":2}"#,
        r#"{"type":"turn.prompt","input":[{"type":"text","text":"<git-context>\nx\n</git-context>\n\ncount"}],"origin":{"kind":"system_trigger","name":"subagent"},"time":3}"#,
        r#"{"type":"context.append_loop_event","event":{"type":"step.begin","uuid":"u1"},"time":4}"#,
        r#"{"type":"usage.record","model":"k","usage":{"inputOther":5,"output":2},"time":5}"#,
        // A request outside a turn, which is no part of the step.
        r#"{"type":"usage.record","model":"k","usage":{"inputOther":3},"usageScope":"session","time":5}"#,
        r#"{"type":"turn.ended","reason":"completed","time":6}"#,
    ];
    let (found, problems) = facts(WIRE, Some("agent-0"), &lines);
    let expected = [
        "spawn agent-0 by None None first=false",
        "prompt Asked count",
        "usage u1 None 7",
        "usage session_1/agent-0/475 None 3",
        "agent - Completed",
    ];
    assert_eq!((found, problems), (expected.map(str::to_owned).to_vec(), 0));
}

#[test]
fn a_resumed_agent_keeps_its_first_call_and_a_swarm_has_one_for_all() {
    let call = |id: &str, name: &str, args: &str| {
        format!(
            r#"{{"type":"context.append_loop_event","event":{{"type":"tool.call","toolCallId":"{id}","name":"{name}","args":{args}}},"time":1}}"#
        )
    };
    let spawned = |agent: &str, call: &str, more: &str| {
        format!(
            r#"{{"type":"subagent.spawned","subagentId":"{agent}","parentToolCallId":"{call}","parentAgentId":"main","callerAgentId":"main"{more},"time":2}}"#
        )
    };
    let result = r#"{"type":"context.append_loop_event","event":{"type":"tool.result","toolCallId":"c2","result":{"output":"agent_id: agent-0\nstatus: completed\n\n[summary]"}},"time":3}"#;
    let lines = [
        call("c1", "Agent", r#"{"run_in_background":true}"#),
        spawned("agent-0", "c1", ""),
        call("c2", "Agent", r#"{"resume":"agent-0"}"#),
        spawned("agent-0", "c2", ""),
        result.to_owned(),
        call("c3", "AgentSwarm", "{}"),
        spawned("agent-1", "c3", r#","swarmIndex":1"#),
        // A file whose beginning is missing has the resume alone.
        call("c4", "Agent", r#"{"resume":"agent-9"}"#),
        spawned("agent-9", "c4", ""),
    ];
    let (found, problems) = facts(WIRE, None, &lines.each_ref().map(String::as_str));
    let expected = [
        "call c1 Agent spawn=true background=true",
        "spawn agent-0 by Some(\"c1\") None first=true",
        "call c2 Agent spawn=false background=false",
        "spawn agent-0 by Some(\"c2\") None first=false",
        "end c2 Ok None Some(\"agent-0\")",
        "call c3 AgentSwarm spawn=false background=false",
        "spawn agent-1 by None Some(Call(\"c3\")) first=false",
        "call c4 Agent spawn=false background=false",
        "spawn agent-9 by Some(\"c4\") None first=false",
    ];
    assert_eq!((found, problems), (expected.map(str::to_owned).to_vec(), 0));
}

#[test]
fn turns_that_the_program_begins_are_no_runs_and_their_words_no_prompts() {
    let lines = [
        r#"{"type":"turn.prompt","agentId":"main","input":[{"type":"text","text":"go"}],"origin":{"kind":"user"},"promptId":"p1","time":1}"#,
        r#"{"type":"context.append_message","agentId":"main","message":{"id":"p1","content":[{"type":"text","text":"go"}],"origin":{"kind":"user"}},"time":1}"#,
        r#"{"type":"context.append_message","agentId":"main","message":{"content":[{"type":"text","text":"<system-reminder>"}],"origin":{"kind":"injection"}},"time":1}"#,
        r#"{"type":"context.append_message","agentId":"main","message":{"id":"p2","content":[{"type":"text","text":"also this"}],"origin":{"kind":"user"}},"time":2}"#,
        r#"{"type":"turn.step.retrying","agentId":"main","failedAttempt":1,"maxAttempts":3,"delayMs":1e99,"time":2}"#,
        r#"{"type":"turn.ended","agentId":"main","reason":"failed","error":{"message":"500"},"time":3}"#,
        r#"{"type":"turn.prompt","agentId":"main","input":[{"type":"text","text":"<notification>"}],"origin":{"kind":"task"},"time":4}"#,
        r#"{"type":"turn.ended","agentId":"main","reason":"cancelled","time":5}"#,
        r#"{"type":"task.terminated","agentId":"main","info":{"kind":"agent","agentId":"agent-3","status":"killed"},"time":6}"#,
        r#"{"type":"task.terminated","agentId":"main","info":{"kind":"shell","agentId":"agent-4","status":"killed"},"time":6}"#,
        r#"{"type":"agent.turn.ended","kind":"event","outcome":"done","time":6}"#,
        // An agent's words prove nothing, and what is damaged is skipped.
        r#"{"type":"turn.ended","agentId":"main","reason":"excellent","time":7}"#,
        r#"{"type":"subagent.completed","subagentId":7,"time":"x"}"#,
        "{\"type\":",
        "[]",
        "{}",
    ];
    let (found, problems) = facts(WIRE, None, &lines);
    let expected = [
        "prompt Asked go",
        "prompt Meta also this",
        "retry 1/3",
        "says 500",
        "turn Failed run=true",
        "prompt Meta <notification>",
        "turn Stopped run=false",
        "agent agent-3 Stopped",
    ];
    assert_eq!((found, problems), (expected.map(str::to_owned).to_vec(), 3));
}

#[test]
fn a_call_that_the_person_does_not_approve_is_denied() {
    let lines = [
        r#"{"type":"context.append_loop_event","event":{"type":"tool.call","toolCallId":"c1","name":"Bash","args":{}},"time":1}"#,
        r#"{"type":"permission.record_approval_result","toolCallId":"c1","result":{"decision":"rejected"},"time":2}"#,
        r#"{"type":"context.append_loop_event","event":{"type":"tool.result","toolCallId":"c1","result":{"output":"no","isError":true}},"time":3}"#,
    ];
    let (found, problems) = facts(WIRE, None, &lines);
    assert_eq!(found, ["call c1 Bash spawn=false background=false", "end c1 Denied None None"]);
    assert_eq!(problems, 0);
}

#[test]
fn a_session_that_fails_prints_no_name_and_is_read_when_the_stream_ends() {
    let lines = [
        r#"{"role":"meta","type":"system.version","version":"2.1.0"}"#,
        r#"{"role":"assistant","content":"so","tool_calls":[{"type":"function","id":"c1","function":{"name":"Bash","arguments":"{\"command\":\"ls\"}"}},{"id":"c2","function":{"name":"Agent","arguments":"not JSON"}},7]}"#,
        r#"{"role":"tool","tool_call_id":"c1","content":"README.md\n"}"#,
        r#"{"role":"tool","tool_call_id":"c2","content":"agent_id: agent-0\nactual_subagent_type: coder\nstatus: failed\nstop_reason: stopped\n\n"}"#,
        r#"{"role":"meta","type":"turn.step.retrying","failed_attempt":2,"max_attempts":3}"#,
        r#"{"no":"role"}"#,
    ];
    let (found, problems) = facts(STREAM, None, &lines);
    let expected = [
        "says so",
        "call c1 Bash spawn=false background=false",
        "call c2 Agent spawn=true background=false",
        "end c1 Ok None None",
        "end c2 Error Some(\"agent-0\") None",
        "spawn agent-0 by None None first=false",
        "agent agent-0 Stopped",
        "retry 2/3",
    ];
    assert_eq!((found, problems), (expected.map(str::to_owned).to_vec(), 1));
}

#[test]
fn a_title_is_the_persons_or_the_programs() {
    let (found, problems) = facts(
        STATE,
        None,
        &[
            r#"{"id":"session_1","title":"Count","isCustomTitle":true,"agents":{"main":{},"agent-0":{"parentAgentId":"main"},"x":7}}"#,
        ],
    );
    assert_eq!(found, ["title Count Person", "spawn agent-0 by None None first=false"]);
    assert_eq!(problems, 0);
}

#[test]
fn hooks_say_only_what_is_certainly_the_sessions() {
    let payload = |event: &str, more: &str| {
        format!(
            r#"{{"hook_event_name":"{event}","session_id":"session_1","client_type":"kimi_code_cli"{more}}}"#
        )
    };
    let lines = [
        payload("SessionStart", r#","source":"startup""#),
        payload("UserPromptSubmit", r#","prompt":[{"type":"text","text":"go"}],"is_steer":false"#),
        payload("PreToolUse", r#","tool_name":"Agent","tool_call_id":"c1""#),
        payload("SubagentStart", r#","agent_name":"coder","prompt":"x""#),
        payload("UserPromptSubmit", r#","prompt":[{"type":"text","text":"faster"}],"is_steer":true"#),
        payload("Stop", ""),
    ];
    let (found, problems) = facts(HOOK, None, &lines.each_ref().map(String::as_str));
    assert_eq!((found, problems), (vec!["prompt Asked go".to_owned(), "prompt Meta faster".to_owned()], 0));
}
