//! What the decoders make of single lines: those that no recording has, and those that are damaged.

use subscope_decode::{Dialect, Hint};
use subscope_model::{Claim, Decoded, Fact, SourceId};

use super::{HOOK, MESSAGES, ROWS, STREAM};

/// Decodes text; returns a word for each fact, and the number of problems.
fn facts(dialect: Dialect, text: &str) -> (Vec<String>, usize) {
    let (mut found, mut problems) = (Vec::new(), 0);
    let hint = Hint { source: SourceId(0), ..Hint::default() };
    let mut sink = |decoded: Decoded<'_, '_>| match decoded {
        Decoded::Observation(seen) => {
            let who = match seen.claim {
                Claim::Root(_) => "root",
                Claim::Agent(agent, _) => agent,
                Claim::SpawnedBy(_) | Claim::Chain { .. } | Claim::Silent => "?",
            };
            found.extend(word(&seen.fact).map(|word| format!("{who} {word}")));
        }
        Decoded::Problem { .. } => problems += 1,
    };
    let mut decoder = dialect.decoder(&hint);
    decoder.push(text.as_bytes(), &mut sink);
    decoder.flush(&mut sink);
    (found, problems)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other facts are not asked for")]
fn word(fact: &Fact<'_>) -> Option<String> {
    Some(match fact {
        Fact::Prompt { text, what, .. } => format!("prompt {what:?} {}", text.text()),
        Fact::CallBegin(call) => format!("call {} {:?}", call.id.unwrap_or("-"), call.class),
        Fact::CallEnd(end) => {
            let agent = end.spawn.as_ref().and_then(|spawn| spawn.agent);
            format!("end {} {:?} {agent:?} {:?}", end.id.unwrap_or("-"), end.outcome, end.resumed)
        }
        Fact::Spawn(spawn) => {
            format!("agent {} {:?} {:?}", spawn.agent.unwrap_or("-"), spawn.parent, spawn.call)
        }
        Fact::AgentEnd(end) => format!("ended {} {:?}", end.agent.unwrap_or("-"), end.status),
        Fact::TurnEnd { status, .. } => format!("turn {status:?}"),
        Fact::Totals { usage, .. } => format!("tokens {}", usage.total_tokens),
        Fact::Response(response) => format!("usage {:?}", response.usage.map(|usage| usage.total_tokens)),
        _ => return None,
    })
}

#[test]
fn a_teammate_that_works_again_is_the_same_agent() {
    let run = |id: &str| {
        format!(
            r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"{id}","name":"team_run_task","input":{{"agentId":"m","task":"t","runMode":"async"}}}}]}},
            {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":"{{\"agentId\":\"m\",\"status\":\"queued\"}}"}}]}}"#
        )
    };
    let text = format!(
        r#"{{"agent":"lead","sessionId":"1795721277480_8ea7b","origin":{{}},"messages":[{},{},7,{{"role":"user"}}]}}"#,
        run("c1"),
        run("c2")
    );
    let expected = [
        "root usage None",
        "root call c1 Spawn",
        "root end c1 Ok Some(\"m\") None",
        "root usage None",
        "root call c2 Other",
        "root end c2 Ok None Some(\"m\")",
    ];
    assert_eq!(facts(MESSAGES, &text), (expected.map(str::to_owned).to_vec(), 0));
    assert_eq!(facts(MESSAGES, &text[..text.len() - 9]), (Vec::new(), 1));
}

#[test]
fn the_last_run_of_a_teammate_says_how_it_ended_and_the_root_is_in_no_row() {
    let row = |agent: &str, parent: &str, status: &str| {
        format!(
            r#"{{"session_id":"1795721277480_8ea7b__x","parent_session_id":"1795721277480_8ea7b","agent_id":"{agent}","parent_agent_id":"{parent}","status":"{status}"}}"#
        )
    };
    let rows = [
        row("m", "lead", "completed"),
        row("a", "agent_0", "running"),
        row("m", "lead", "failed"),
        row("b", "a", "cancelled"),
    ];
    let text = format!(r#"{{"type":"cline.rows","rows":[{},null]}}"#, rows.join(","));
    let expected = [
        "root agent m Some(Root) None",
        "root agent a Some(Root) None",
        "root agent m Some(Root) None",
        "root ended m Failed",
        "root agent b Some(Agent(\"a\")) None",
        "root ended b Stopped",
    ];
    assert_eq!(facts(ROWS, &text), (expected.map(str::to_owned).to_vec(), 0));
}

#[test]
fn a_printed_call_is_of_the_first_agent_that_is_free_to_make_it() {
    let hook = |event: &str, agent: &str, parent: &str| {
        format!(
            r#"{{"ts":"2026-11-26T19:27:58.933Z","type":"hook_event","hookEventName":"{event}","agentId":"{agent}","parentAgentId":{parent}}}"#
        )
    };
    let event = |kind: &str, tool: &str, call: &str| {
        format!(
            r#"{{"ts":"t","type":"agent_event","event":{{"type":"{kind}","contentType":"tool","toolName":"{tool}","toolCallId":"{call}"}}}}"#
        )
    };
    let lines = [
        hook("agent_start", "r", "null"),
        hook("tool_call", "r", "null"),
        event("content_start", "spawn_agent", "c1"),
        hook("agent_start", "a", "\"r\""),
        hook("tool_call", "a", "\"r\""),
        hook("tool_call", "a", "\"r\""),
        event("content_start", "spawn_agent", "c2"),
        hook("agent_start", "b", "\"a\""),
        hook("tool_call", "b", "\"a\""),
        // The second call of `a` waits for the first one.
        event("content_start", "run_commands", "c4"),
        event("content_end", "spawn_agent", "c2"),
        event("content_start", "run_commands", "c3"),
    ];
    let (found, problems) = facts(STREAM, &lines.join("\n"));
    let expected = [
        "r call c1 Spawn",
        "root agent a Some(Root) Some(\"c1\")",
        "a call c2 Spawn",
        "root agent b Some(Agent(\"a\")) Some(\"c2\")",
        "b call c4 Other",
        "a end c2 Ok None None",
        "a call c3 Other",
    ];
    let expected: Vec<String> = expected.iter().map(|word| word.replacen("r call", "root call", 1)).collect();
    assert_eq!((found, problems), (expected, 0));
}

#[test]
fn hooks_name_agents_and_the_first_without_a_parent_is_the_root() {
    let line = |event: &str, agent: &str, parent: &str, more: &str| {
        format!(
            r#"{{"hookName":"{event}","sessionContext":{{"rootSessionId":"s1"}},"agent_id":"{agent}","parent_agent_id":{parent}{more}}}"#
        )
    };
    let call = r#","tool_call":{"id":"c1","name":"spawn_agent","input":{"task":"t"}}"#;
    let lines = [
        line("agent_start", "r", "null", ""),
        line("tool_call", "r", "null", call),
        line("agent_start", "a", "\"r\"", ""),
        line("agent_error", "a", "\"r\"", r#","error":{"message":"no"}"#),
        // A teammate.
        line("tool_call", "m", "null", &call.replace("c1", "c2")),
        line("agent_end", "r", "null", r#","turn":{"outputText":"x","status":"completed"}"#),
        "{\"hookName\":".to_owned(),
    ];
    let (found, problems) = facts(HOOK, &lines.join("\n"));
    let expected = [
        "root call c1 Spawn",
        "a agent a Some(Root) Some(\"c1\")",
        "a ended a Failed",
        "root turn Completed",
    ];
    assert_eq!((found, problems), (expected.map(str::to_owned).to_vec(), 1));
}
