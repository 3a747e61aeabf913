//! What the decoders make of single lines: those that no recording has, and those that are damaged.

use subscope_decode::{Dialect, Hint};
use subscope_model::{Basis, Claim, Decoded, Fact, SourceId};

use super::{HOOK, MESSAGES, ROWS, STREAM};

/// Decodes text; returns a word for each fact, and the number of problems.
fn facts(dialect: Dialect, text: &str) -> (Vec<String>, usize) {
    let (mut found, mut problems) = (Vec::new(), 0);
    let hint = Hint { source: SourceId(0), ..Hint::default() };
    let mut sink = |decoded: Decoded<'_, '_>| match decoded {
        Decoded::Observation(seen) => {
            let (who, basis) = match seen.claim {
                Claim::Root(basis) => ("root", basis),
                Claim::Agent(agent, basis) => (agent, basis),
                Claim::SpawnedBy(_) | Claim::Chain { .. } | Claim::Silent => ("?", Basis::Wire),
            };
            let guessed = if basis.is_guess() { "~" } else { "" };
            found.extend(word(&seen.fact).map(|word| format!("{guessed}{who} {word}")));
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
            let guessed = if spawn.call.is_some() && !spawn.is_origin { "~" } else { "" };
            format!("agent {} {:?} {guessed}{:?}", spawn.agent.unwrap_or("-"), spawn.parent, spawn.call)
        }
        Fact::AgentEnd(end) => format!("ended {} {:?}", end.agent.unwrap_or("-"), end.status),
        Fact::TurnEnd { status, .. } => format!("turn {status:?}"),
        Fact::Totals { usage, .. } => format!("tokens {}", usage.total_tokens),
        Fact::Checksum(sum) => format!("sum {}", sum.usage.total_tokens),
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
        "~b call c4 Other",
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

#[test]
fn printed_tokens_are_those_of_an_agent_only_where_no_other_can_have_them() {
    let line =
        |kind: &str, more: &str| format!(r#"{{"ts":"2026-11-26T19:27:58.933Z","type":"{kind}",{more}}}"#);
    let hook = |event: &str, agent: &str, parent: &str| {
        let ids = format!(r#""agentId":"{agent}","parentAgentId":{parent}"#);
        line("hook_event", &format!(r#""hookEventName":"{event}",{ids}"#))
    };
    let counts = |input: u32| format!(r#""inputTokens":{input},"outputTokens":1,"cacheReadTokens":5"#);
    let event = |event: &str| line("agent_event", &format!(r#""event":{event}"#));
    let usage = |input: u32| event(&format!(r#"{{"type":"usage",{}}}"#, counts(input)));
    let done = |reason: &str, input: u32| {
        event(&format!(r#"{{"type":"done","reason":"{reason}","usage":{{{}}}}}"#, counts(input)))
    };
    let team = |event: &str| line("team_event", &format!(r#""event":{event}"#));
    let mate = team(r#"{"type":"teammate_spawned","agentId":"m","teammate":{"runtimeAgentId":"x"}}"#);
    let of_mate =
        format!(r#"{{"type":"agent_event","agentId":"m","event":{{"type":"usage",{}}}}}"#, counts(20));
    let lines = [
        hook("agent_start", "r", "null"),
        usage(100),
        hook("agent_start", "a", "\"r\""),
        hook("agent_start", "b", "\"r\""),
        hook("agent_start", "c", "\"r\""),
        mate,
        // Of a teammate: once without its name, once with it.
        usage(20),
        team(&of_mate),
        hook("agent_end", "a", "\"r\""),
        // An aborted agent sends no end.
        done("aborted", 7),
        done("completed", 40),
        // Two have ended: whose these are is not known.
        hook("agent_end", "b", "\"r\""),
        hook("agent_end", "c", "\"r\""),
        done("completed", 50),
        done("completed", 60),
        line("run_result", &format!(r#""finishReason":"completed","usage":{{{}}}"#, counts(120))),
    ];
    let (found, problems) = facts(STREAM, &lines.join("\n"));
    let found: Vec<&str> = found
        .iter()
        .map(String::as_str)
        .filter(|word| word.contains("tokens") || word.contains("sum"))
        .collect();
    let expected = ["? sum 101", "? sum 122", "m tokens 21", "a tokens 41", "root tokens 100"];
    assert_eq!((found, problems), (expected.to_vec(), 0));
}

#[test]
fn the_call_of_an_agent_is_a_guess_where_several_wait_also_where_hooks_are_installed_twice() {
    let line = |event: &str, agent: &str, parent: &str, more: &str| {
        let session = r#""sessionContext":{"rootSessionId":"s1"}"#;
        format!(r#"{{"hookName":"{event}",{session},"agent_id":"{agent}","parent_agent_id":{parent}{more}}}"#)
    };
    let call =
        |id: &str| format!(r#","tool_call":{{"id":"{id}","name":"spawn_agent","input":{{"task":"t"}}}}"#);
    let agents = |lines: &[String]| {
        let twice: Vec<String> = lines.iter().flat_map(|line| [line.clone(), line.clone()]).collect();
        let found = |lines: &[String]| {
            let mut found = facts(HOOK, &lines.join("\n")).0;
            found.retain(|word| word.contains("agent"));
            let mut seen = std::collections::HashSet::new();
            found.retain(|word| seen.insert(word.clone()));
            found
        };
        assert_eq!(found(lines), found(&twice));
        found(lines)
    };
    let begin = |id: &str| line("tool_call", "r", "null", &call(id));
    let start = |agent: &str| line("agent_start", agent, "\"r\"", "");
    let expected = [r#"a agent a Some(Root) Some("c1")"#, r#"b agent b Some(Root) Some("c2")"#];
    assert_eq!(agents(&[begin("c1"), start("a"), begin("c2"), start("b")]), expected);
    // Which of them starts first is not known.
    let expected = [
        "a agent a Some(Root) None",
        r#"a agent a None ~Some("c1")"#,
        "b agent b Some(Root) None",
        r#"b agent b None ~Some("c2")"#,
    ];
    assert_eq!(agents(&[begin("c1"), begin("c2"), start("a"), start("b")]), expected);
}
