//! What the decoders make of single lines: those that no recording has, and those that are damaged.

use subscope_decode::{Dialect, Hint};
use subscope_model::{Decoded, Fact, SourceId};

use super::{omp, openclaw, pi};

/// Decodes lines; returns a word for each fact, and the number of problems.
fn facts(dialect: Dialect, agent: Option<&str>, lines: &[&str]) -> (Vec<String>, usize) {
    let (mut found, mut problems) = (Vec::new(), 0);
    let hint = Hint {
        source: SourceId(0),
        session: Some("s1".to_owned()),
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
        Fact::TurnStart => "turn".to_owned(),
        Fact::Prompt { text, what, .. } => format!("prompt {what:?} {}", text.text()),
        Fact::Message { text, .. } => format!("says {}", text.text()),
        Fact::CallBegin(call) => format!("call {} {}", call.id.unwrap_or("-"), call.name),
        Fact::CallEnd(end) => format!("end {} {:?} {:?}", end.id.unwrap_or("-"), end.outcome, end.resumed),
        Fact::Spawn(spawn) => {
            let what = if spawn.is_note { "may start" } else { "agent" };
            format!(
                "{what} {} {:?} {:?} {:?}",
                spawn.agent.unwrap_or("-"),
                spawn.parent,
                spawn.name,
                spawn.mode
            )
        }
        Fact::AgentEnd(end) => {
            format!("ended {} {:?} {}", end.agent.unwrap_or("-"), end.status, end.evidence.as_str())
        }
        Fact::TurnEnd { status, counts_run, .. } => format!("turn {status:?} run={counts_run}"),
        Fact::Retry { attempt, limit, .. } => format!("retry {attempt}/{limit}"),
        Fact::Title { text, origin } => format!("title {text} {origin:?}"),
        Fact::Response(response) => {
            let usage = response.usage?;
            format!("usage {} {} {:?}", response.message_id, usage.total_tokens, response.cost_pico_usd)
        }
        _ => return None,
    })
}

#[track_caller]
fn check(dialect: Dialect, agent: Option<&str>, lines: &[&str], expected: &[&str], problems: usize) {
    let (found, seen) = facts(dialect, agent, lines);
    assert_eq!(found, expected);
    assert_eq!(seen, problems);
}

#[test]
fn a_file_of_pi_has_plain_texts_names_and_no_price_of_an_unknown_model() {
    let lines = [
        r#"{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}"#,
        r#"{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"do it"}}"#,
        r#"{"type":"message","id":"b","parentId":"a","timestamp":"2026-01-01T00:00:02.000Z","message":{"role":"assistant","content":[{"type":"text","text":"done"}],"model":"m","usage":{"input":5,"output":2,"cost":{"total":0}},"stopReason":"stop","responseId":"r1","timestamp":7}}"#,
        r#"{"type":"message","id":"c","timestamp":"t","message":{"role":"bashExecution","command":"ls","output":"x"}}"#,
        r#"{"type":"session_info","id":"d","timestamp":"t","name":"my name"}"#,
        r#"{"type":"branch_summary","id":"e","timestamp":"t","summary":"x"}"#,
        "{\"type\":\"message\",\"message\":",
        "{\"no\":\"type\"}",
    ];
    let expected = [
        "turn",
        "prompt Asked do it",
        "usage r1/7 7 None",
        "says done",
        "turn Completed run=true",
        "prompt Local ls",
        "title my name Person",
    ];
    check(pi::SESSION, None, &lines, &expected, 2);
}

#[test]
fn a_failed_request_that_is_repeated_ends_nothing_and_a_signal_only_what_is_at_work() {
    let failed = r#"{"type":"message","id":"1","timestamp":"t","message":{"role":"assistant","content":[],"usage":{"input":0,"output":0},"stopReason":"error","errorMessage":"500","retryRecovery":{"status":"superseded","attempt":2},"timestamp":1}}"#;
    let given = r#"{"type":"message","id":"2","timestamp":"t","message":{"role":"toolResult","toolCallId":"c1","toolName":"yield","content":[],"details":{"data":"x","status":"success"},"isError":false,"timestamp":2}}"#;
    let signal = r#"{"type":"custom","customType":"session_exit","data":{"reason":"sigint","kind":"signal"},"id":"3","timestamp":"t"}"#;
    let task = r#"{"type":"message","id":"0","timestamp":"t","message":{"role":"user","content":"Complete assignment thoroughly:\n\ncount","attribution":"agent"}}"#;
    let zero = "usage 1/s1/A 0 None";
    let expected = [
        "turn",
        "prompt Asked count",
        zero,
        "retry 2/0",
        "end c1 Ok None",
        "ended - Completed task notification",
    ];
    check(omp::SESSION, Some("A"), &[task, failed, given, signal], &expected, 0);
    let expected = ["turn", "prompt Asked count", zero, "retry 2/0", "ended - Stopped last line"];
    check(omp::SESSION, Some("A"), &[task, failed, signal], &expected, 0);
    let refused = given.replace(r#""data":"x","status":"success""#, r#""error":"cannot","status":"success""#);
    let expected = ["turn", "prompt Asked count", "end c1 Ok None", "ended - Failed task notification"];
    check(omp::SESSION, Some("A"), &[task, &refused], &expected, 0);
    let again = given.replace(r#""isError":false"#, r#""isError":true"#);
    check(omp::SESSION, Some("A"), &[task, &again], &["turn", "prompt Asked count", "end c1 Error None"], 0);
}

#[test]
fn agents_are_named_by_their_call_and_a_second_one_of_a_name_by_a_number() {
    let call = |id: &str, name: &str| {
        format!(
            r#"{{"type":"message","id":"1","timestamp":"t","message":{{"role":"assistant","content":[{{"type":"toolCall","id":"{id}","name":"task","arguments":{{"tasks":[{{"name":"{name}"}},7,{{}}]}}}}],"stopReason":"toolUse"}}}}"#
        )
    };
    let launched = r#"{"type":"message","id":"2","timestamp":"t","message":{"role":"toolResult","toolCallId":"c2","toolName":"task","content":[],"details":{"results":[],"progress":[{"id":"Up.A-2","agent":"task","status":"pending"}],"async":{"state":"running"}},"isError":false}}"#;
    let head = r#"{"type":"session","version":3,"id":"x","timestamp":"t","cwd":"/w","parentSession":"C:\\h\\2026-11-26T19-26-16-329Z_s1.jsonl"}"#;
    let expected = [
        "agent Up Some(Root) Some(\"Up\") None",
        "turn",
        "call c1 task",
        "may start Up.A None None None",
        "call c2 task",
        "may start Up.A-2 None None None",
        "end c2 Ok None",
        "agent Up.A-2 Some(Agent(\"Up\")) Some(\"A-2\") Some(Background)",
    ];
    check(omp::SESSION, Some("Up"), &[head, &call("c1", "A"), &call("c2", "A"), launched], &expected, 0);
}

#[test]
fn jobs_and_messages_say_what_becomes_of_agents() {
    let hub = |details: &str| {
        format!(
            r#"{{"type":"message","id":"1","timestamp":"t","message":{{"role":"toolResult","toolCallId":"h","toolName":"hub","content":[],"details":{details},"isError":false}}}}"#
        )
    };
    let cancelled = hub(
        r#"{"op":"cancel","jobs":[{"id":"A","type":"task","status":"cancelled"},{"id":"bg_1","type":"bash","status":"cancelled"},{"id":"B","type":"task","status":"running"}]}"#,
    );
    let sent = hub(r#"{"op":"send","to":"A","receipts":[{"to":"A","outcome":"woken"}]}"#);
    let notice = r#"{"type":"custom_message","customType":"async-result","content":"<task-result id=\"B\" agent=\"task\" status=\"aborted\" duration=\"1s\">","details":{"jobs":[{"jobId":"B","type":"task"}]},"id":"3","timestamp":"t"}"#;
    let (found, _) = facts(omp::SESSION, None, &[&cancelled, &sent, notice]);
    let expected = [
        "end h Ok None",
        "ended A Stopped stop call",
        "end h Ok Some(\"A\")",
        "ended B Stopped spawn result",
        "turn",
    ];
    assert_eq!(found[..5], expected);
    // A message wakes an agent that has ended, and only then is it a task.
    let said = r#"{"type":"custom_message","customType":"irc:incoming","content":"<irc>\nmore","details":{"from":"Main","message":"more"},"id":"4","timestamp":"t"}"#;
    check(
        omp::SESSION,
        Some("A"),
        &[said, said],
        &["turn", "prompt Asked more", "prompt Meta <irc>\nmore"],
        0,
    );
}

#[test]
fn counters_of_a_stream_start_and_end_an_agent_once() {
    let head = r#"{"type":"session","version":3,"id":"s1","timestamp":"t","cwd":"/w"}"#;
    let update = |status: &str| {
        format!(
            r#"{{"type":"tool_execution_update","toolCallId":"c1","partialResult":{{"details":{{"results":[],"progress":[{{"id":"A","agent":"task","status":"{status}","toolCount":1,"tokens":5}},{{"id":""}}]}}}}}}"#
        )
    };
    let lines = [update("pending"), update("running"), update("failed"), update("failed")];
    let lines = [head, &lines[0], &lines[1], &lines[2], &lines[3]];
    let expected = ["agent A Some(Root) Some(\"A\") None", "ended A Failed spawn result"];
    check(omp::STREAM, None, &lines, &expected, 0);
}

#[test]
fn openclaw_names_what_was_asked_what_failed_and_the_agents_that_it_started() {
    let message = |role: &str, rest: &str| {
        format!(r#"{{"type":"message","timestamp":"t","message":{{"role":"{role}",{rest}}}}}"#)
    };
    let text = |words: &str| format!(r#""content":[{{"type":"text","text":"{words}"}}]"#);
    let call = |id: &str, name: &str, arguments: &str| {
        message(
            "assistant",
            &format!(
                r#""content":[{{"type":"toolCall","id":"{id}","name":"{name}","arguments":{arguments}}}],"stopReason":"toolUse""#
            ),
        )
    };
    let result = |id: &str, name: &str, details: &str| {
        message(
            "toolResult",
            &format!(
                r#""toolCallId":"{id}","toolName":"{name}","content":[],"details":{details},"isError":false"#
            ),
        )
    };
    let spawn = r#"{"task":"count","label":"counter","agentId":"main"}"#;
    let accepted = r#"{"status":"accepted","childSessionKey":"agent:main:subagent:a1","runId":"r1"}"#;
    let announced = "[Thu 2026-04-02 07:18 GMT+2] OpenClaw runtime context (internal):\\n\\n[Internal task completion event]\\nsession_key: agent:main:subagent:a1\\nstatus: timed out\\n\\n<<<BEGIN_UNTRUSTED_CHILD_RESULT>>>\\n3\\n";
    let lines = [
        message("user", &text("[Mon 2026-03-02 11:56 GMT+8] count it")),
        call("c1", "sessions_spawn", spawn),
        result("c1", "sessions_spawn", accepted),
        call("c2", "sessions_spawn", spawn),
        result("c2", "sessions_spawn", r#"{"status":"forbidden","error":"not allowed"}"#),
        call("c3", "exec", r#"{"command":"x"}"#),
        result("c3", "exec", r#"{"status":"completed","exitCode":1}"#),
        call("c4", "sessions_send", "{}"),
        result("c4", "sessions_send", r#"{"status":"forbidden"}"#),
        r#"{"type":"custom_message","customType":"openclaw.sessions_yield","content":"Turn yielded.","timestamp":"t"}"#.to_owned(),
        message("user", &text(announced)),
        message("user", &text(announced)),
        r#"{"type":"custom","customType":"openclaw:prompt-error","data":{"error":"request timed out"},"timestamp":"t"}"#.to_owned(),
        message("assistant", &format!(r#"{},"provider":"openclaw","model":"delivery-mirror","usage":{{"input":0}},"stopReason":"stop""#, text("sent"))),
    ];
    let notice = announced.replace("\\n", "\n");
    let notice = format!("prompt Meta {notice}");
    let expected = [
        "turn",
        "prompt Asked [Mon 2026-03-02 11:56 GMT+8] count it",
        "title count it Prompt",
        "call c1 sessions_spawn",
        "end c1 Ok None",
        "agent a1 Some(Root) None None",
        "call c2 sessions_spawn",
        "end c2 Error None",
        "call c3 exec",
        "end c3 Error None",
        "call c4 sessions_send",
        "end c4 Denied None",
        "turn Completed run=true",
        "ended a1 Stopped task notification",
        "turn",
        &notice,
        &notice,
        "says request timed out",
        "turn Failed run=false",
        "says sent",
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    check(openclaw::SESSION, None, &lines, &expected, 0);
}
