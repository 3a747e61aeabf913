//! Endings and denials of the harnesses other than Claude Code, as people's disks have them: one test for each class of
//! values that were wrong. The inputs are made up after public sessions and the strings of the programs.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use subscope_model::{AgentStatus, ToolStatus, Tree};
use subscope_testkit::sessions::{Part, tree};

/// The tree of a source of these lines.
fn tree_of(label: &str, lines: &[Value]) -> Tree {
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    tree(&[Part::new(label, text.join("\n") + "\n")])
}

fn time(second: usize) -> String {
    format!("2026-02-24T03:{:02}:{:02}.000Z", second / 60, second % 60)
}

const SESSION: &str = "d0000001-2222-7333-8444-000000000001";

/// A rollout of the root with these lines, by type and payload.
fn rollout(lines: &[(&str, Value)]) -> Tree {
    let meta =
        json!({"id": SESSION, "timestamp": time(0), "cwd": "/w", "cli_version": "0.118.0", "source": "cli"});
    let all = [("session_meta", meta)].into_iter().chain(lines.iter().cloned());
    let all = all.enumerate().map(
        |(second, (kind, payload))| json!({"timestamp": time(second), "type": kind, "payload": payload}),
    );
    tree_of("rollout.jsonl", &all.collect::<Vec<_>>())
}

fn event(payload: Value) -> (&'static str, Value) {
    ("event_msg", payload)
}

fn started() -> (&'static str, Value) {
    event(json!({"type": "task_started", "turn_id": "t1"}))
}

fn asked() -> (&'static str, Value) {
    event(json!({"type": "user_message", "message": "do it"}))
}

fn completed() -> (&'static str, Value) {
    event(json!({"type": "task_complete", "turn_id": "t1", "last_agent_message": "ok"}))
}

/// The tree of a rollout with one call, an event beside it if there is one, and its output.
fn rollout_call(tool: &str, mark: Option<Value>, output: &str) -> Tree {
    let call = json!({"type": "function_call", "name": tool, "arguments": "{}", "call_id": "c1"});
    let output = json!({"type": "function_call_output", "call_id": "c1", "output": output});
    let mut lines = vec![started(), asked(), ("response_item", call)];
    lines.extend(mark.map(event));
    lines.extend([("response_item", output), completed()]);
    rollout(&lines)
}

/// The tree of a session of Copilot with these lines, by type and data.
fn copilot(lines: &[(&str, Value)]) -> Tree {
    let start =
        json!({"sessionId": SESSION, "version": 1, "producer": "copilot-agent", "copilotVersion": "1.0.60"});
    let all = [("session.start", start)].into_iter().chain(lines.iter().cloned());
    let all = all.enumerate().map(|(second, (kind, data))| {
        json!({"type": kind, "id": format!("e{second}"), "timestamp": time(second), "parentId": null, "data": data})
    });
    tree_of("events.jsonl", &all.collect::<Vec<_>>())
}

/// A chat of Gemini with these records, as one object and as lines.
fn chats(records: &[Value]) -> [Tree; 2] {
    let records: Vec<Value> = records
        .iter()
        .enumerate()
        .map(|(number, record)| {
            let mut record = record.clone();
            record["id"] = format!("g{number}").into();
            record["timestamp"] = time(number).into();
            record
        })
        .collect();
    let header =
        json!({"sessionId": SESSION, "projectHash": "x", "startTime": time(0), "lastUpdated": time(0)});
    let mut whole = header.clone();
    whole["messages"] = records.clone().into();
    let lines: Vec<Value> = [header].into_iter().chain(records).collect();
    [tree_of("session.json", &[whole]), tree_of("session.jsonl", &lines)]
}

fn gemini_answer(text: &str, calls: Value) -> Value {
    let tokens = json!({"input": 100, "output": 10, "cached": 0, "thoughts": 0, "tool": 0, "total": 110});
    json!({"type": "gemini", "content": text, "model": "gemini-2.5-pro", "tokens": tokens, "toolCalls": calls})
}

/// Statuses of the root's calls, with the numbers of errors and denials.
fn calls(tree: &Tree) -> (Vec<ToolStatus>, u32, u32) {
    let statuses = tree.agents[0].tools.iter().map(|tool| tool.status).collect();
    (statuses, tree.summary.tool_errors, tree.summary.tools_denied)
}

const DENIED: (ToolStatus, u32, u32) = (ToolStatus::Denied, 0, 1);
const FAILED: (ToolStatus, u32, u32) = (ToolStatus::Error, 1, 0);

/// Asserts how the only call ended.
fn assert_call(tree: &Tree, (status, errors, denied): (ToolStatus, u32, u32), what: &str) {
    assert_eq!(calls(tree), (vec![status], errors, denied), "{what}");
}

#[test]
fn what_a_person_or_a_rule_rejects_is_denied() {
    let wrapped = |reason: &str| {
        format!(
            "exec_command failed for `/bin/bash -lc rm`: CreateProcess {{ message: \"Rejected(\\\"{reason}\\\")\" }}"
        )
    };
    for (tool, output) in [
        ("exec_command", wrapped("rejected by user")),
        ("exec_command", wrapped("`/bin/bash -lc rm` rejected: blocked by policy")),
        ("exec_command", wrapped("This action was rejected due to unacceptable risk.\\\\nReason: x")),
        ("exec_command", r#"Rejected("rejected by user approval settings")"#.to_owned()),
        ("shell", "`/bin/bash -lc rm` rejected: blocked by policy".to_owned()),
        ("apply_patch", "This action was rejected due to unacceptable risk.\nReason: x".to_owned()),
        ("mcp__x__y", "user cancelled MCP tool call".to_owned()),
    ] {
        assert_call(&rollout_call(tool, None, &output), DENIED, &output);
    }
    let item = |kind: &str, status: &str, error: Value| {
        let item = json!({"type": kind, "id": "c1", "status": status, "error": error});
        json!({"type": "item_completed", "item": item})
    };
    let cancelled = "user cancelled MCP tool call";
    for mark in [
        json!({"type": "exec_command_end", "call_id": "c1", "status": "declined", "exit_code": -1}),
        json!({"type": "patch_apply_end", "call_id": "c1", "status": "declined", "success": false}),
        json!({"type": "mcp_tool_call_end", "call_id": "c1", "result": {"Err": cancelled}}),
        item("CommandExecution", "declined", Value::Null),
        item("McpToolCall", "failed", json!({"message": cancelled})),
    ] {
        assert_call(&rollout_call("x", Some(mark.clone()), "any text"), DENIED, &mark.to_string());
    }
    for error in [
        json!({"code": "denied", "message": "x"}),
        json!({"code": "rejected", "message": "The user rejected this tool call."}),
        json!({"message": "Permission denied and could not request permission from user"}),
    ] {
        let tree = copilot(&[
            ("tool.execution_start", json!({"toolCallId": "a", "toolName": "bash", "arguments": {}})),
            ("tool.execution_complete", json!({"toolCallId": "a", "success": false, "error": error})),
        ]);
        assert_call(&tree, DENIED, &error.to_string());
    }
    for (status, text) in [
        ("cancelled", "[Operation Cancelled] Reason: User did not allow tool call"),
        ("cancelled", "User did not allow tool call"),
        ("error", "Tool execution denied by policy."),
        (
            "error",
            "Tool execution for \"Shell\" requires user confirmation, which is not supported in non-interactive mode.",
        ),
    ] {
        let result = json!([{"functionResponse": {"response": {"error": text}}}]);
        let call = json!({"id": "c1", "name": "x", "args": {}, "status": status, "result": result});
        for tree in chats(&[json!({"type": "user", "content": "q"}), gemini_answer("", json!([call]))]) {
            assert_call(&tree, DENIED, text);
        }
    }
    let failure = json!({"code": "failure", "message": "rejected by the server"});
    let tree = copilot(&[
        ("tool.execution_start", json!({"toolCallId": "a", "toolName": "bash", "arguments": {}})),
        ("tool.execution_complete", json!({"toolCallId": "a", "success": false, "error": failure})),
    ]);
    assert_call(&tree, FAILED, "a failure of the tool");
}

#[test]
fn the_event_of_a_call_says_how_it_ended_whatever_its_output() {
    let mark = |result: Value| json!({"type": "mcp_tool_call_end", "call_id": "c1", "result": result});
    let answer = |is_error: bool| {
        mark(json!({"Ok": {"content": [{"type": "text", "text": "text"}], "isError": is_error}}))
    };
    let ok = (ToolStatus::Ok, 0, 0);
    for (mark, expected) in [
        (mark(json!({"Err": "boom"})), FAILED),
        (answer(true), FAILED),
        (answer(false), ok),
        (json!({"type": "exec_command_end", "call_id": "c1", "status": "failed"}), FAILED),
        // Of a version that does not say it.
        (json!({"type": "exec_command_end", "call_id": "c1"}), ok),
    ] {
        assert_call(&rollout_call("mcp__x__y", Some(mark.clone()), "a text"), expected, &mark.to_string());
    }
    assert_call(&rollout_call("x", Some(answer(false)), "tool call error: of a text"), ok, "the mark wins");
    let typed =
        json!({"type": "exec_command_end", "call_id": "c9", "status": "failed", "source": "user_shell"});
    assert_call(&rollout_call("x", Some(typed), "a text"), ok, "a person's command is no call");
}

/// Asserts how the root ended, and with which error.
fn assert_end(tree: &Tree, status: AgentStatus, error: Option<&str>, what: &str) {
    let root = &tree.agents[0];
    assert_eq!((root.status, root.error.as_deref()), (status, error), "{what}");
}

#[test]
fn a_turn_that_ended_in_an_error_has_failed_with_its_message() {
    let limit = "You've hit your usage limit.";
    let error =
        || event(json!({"type": "error", "message": limit, "codex_error_info": "usage_limit_exceeded"}));
    let done = |error: Value| {
        event(json!({"type": "task_complete", "turn_id": "t1", "last_agent_message": null, "error": error}))
    };
    let said = || event(json!({"type": "agent_message", "message": "again"}));
    let answer =
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]});
    let answer = || ("response_item", answer.clone());
    let result =
        || ("response_item", json!({"type": "function_call_output", "call_id": "c1", "output": "x"}));
    let aside =
        || event(json!({"type": "error", "message": "x", "codex_error_info": "thread_rollback_failed"}));
    let (failed, ended, lost) = (AgentStatus::Failed, AgentStatus::Completed, AgentStatus::Lost);
    for (what, lines, status, text) in [
        ("the last line", vec![error()], failed, Some(limit)),
        ("then a turn without words", vec![error(), done(Value::Null)], failed, Some(limit)),
        ("then a late result", vec![error(), result(), done(Value::Null)], failed, Some(limit)),
        ("stated twice", vec![error(), done(json!({"message": limit}))], failed, Some(limit)),
        (
            "stated by the turn",
            vec![done(json!({"message": "bad", "codex_error_info": "other"}))],
            failed,
            Some("bad"),
        ),
        ("a text before it", vec![said(), error(), done(Value::Null)], failed, Some(limit)),
        ("recovered from", vec![error(), said(), completed()], ended, None),
        ("recovered from, no last words", vec![error(), answer(), done(Value::Null)], ended, None),
        ("recovered from, then killed", vec![error(), answer()], lost, None),
        (
            "the next turn is right",
            vec![error(), done(Value::Null), started(), asked(), completed()],
            ended,
            None,
        ),
        ("beside the turn", vec![aside(), completed()], ended, None),
    ] {
        let lines: Vec<_> = [started(), asked()].into_iter().chain(lines).collect();
        assert_end(&rollout(&lines), status, text, what);
    }
    // The same error in printed lines (`codex exec --json`), and those of OpenCode.
    let thread = json!({"type": "thread.started", "thread_id": SESSION});
    let turn = json!({"type": "turn.failed", "error": {"message": limit}});
    let printed = tree_of("stdout.jsonl", &[thread, json!({"type": "turn.started"}), turn]);
    assert_end(&printed, failed, Some(limit), "printed");
    let message = |error: Value| {
        let info = json!({"id": "ses_1", "directory": "/w", "title": "t", "version": "1.18.33", "time": {"created": 1, "updated": 9}});
        let message = json!({
            "id": "msg_2", "sessionID": "ses_1", "role": "assistant", "modelID": "m", "error": error,
            "tokens": {"input": 1, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}},
            "time": {"created": 2, "completed": 3},
        });
        let asked = json!({"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 1}});
        let all = json!([{"info": asked, "parts": []}, {"info": message, "parts": []}]);
        tree_of("export.json", &[json!({"info": info, "messages": all})])
    };
    let api_error = json!({"name": "APIError", "data": {"message": "Rate limit", "statusCode": 429}});
    assert_end(&message(api_error.clone()), failed, Some("Rate limit"), "a message's error");
    let unnamed = json!({"name": "MessageOutputLengthError", "data": {}});
    assert_end(&message(unnamed), failed, Some("MessageOutputLengthError"), "an error without words");
    let aborted = json!({"name": "MessageAbortedError", "data": {"message": "Aborted"}});
    assert_end(&message(aborted), AgentStatus::Stopped, None, "aborted");
    let printed = json!({"type": "error", "timestamp": 1, "sessionID": "ses_1", "error": api_error});
    let begun =
        json!({"type": "step_start", "timestamp": 1, "sessionID": "ses_1", "part": {"type": "step-start"}});
    assert_end(&tree_of("run.jsonl", &[begun, printed]), failed, Some("Rate limit"), "a printed error");
}

#[test]
fn what_a_chat_says_last_is_how_it_ended() {
    let user = || json!({"type": "user", "content": "q"});
    let quota = "[API Error: You have exhausted your daily quota]";
    let error = |text: &str| json!({"type": "error", "content": text});
    let info = |text: &str| json!({"type": "info", "content": text});
    let call = || {
        let call = json!({"id": "c1", "name": "run_shell_command", "args": {}, "status": "success", "timestamp": time(1)});
        gemini_answer("let me", json!([call]))
    };
    let answer = || gemini_answer("a", json!([]));
    let (failed, ended, stopped) = (AgentStatus::Failed, AgentStatus::Completed, AgentStatus::Stopped);
    for (what, records, status, text) in [
        ("an answer", vec![user(), answer()], ended, None),
        ("an error", vec![user(), error(quota)], failed, Some(quota)),
        ("an error behind a call", vec![user(), call(), error(quota)], failed, Some(quota)),
        ("another error of the turn", vec![user(), call(), error("boom")], failed, Some("boom")),
        ("a notice behind an error", vec![user(), error(quota), info("Goodbye!")], failed, Some(quota)),
        ("an error that was recovered from", vec![user(), error(quota), user(), answer()], ended, None),
        ("the error of a command", vec![user(), answer(), error("Unknown command: /x")], ended, None),
        ("a stop", vec![user(), info("Request cancelled.")], stopped, None),
        ("a stop behind a call", vec![user(), call(), info("Request cancelled.")], stopped, None),
        ("an answer behind a stop", vec![user(), info("Request cancelled."), user(), answer()], ended, None),
        ("a notice", vec![user(), answer(), info("Goodbye!")], ended, None),
    ] {
        for tree in chats(&records) {
            assert_end(&tree, status, text, what);
        }
    }
    let printed = |result: Value| {
        let init =
            json!({"type": "init", "timestamp": time(0), "session_id": SESSION, "model": "gemini-2.5-pro"});
        let asked = json!({"type": "message", "timestamp": time(1), "role": "user", "content": "q"});
        tree_of("stdout.jsonl", &[init, asked, result])
    };
    let result = |kind: &str, text: &str| {
        let error = json!({"type": kind, "message": text});
        let stats = json!({"total_tokens": 3, "input_tokens": 2, "output_tokens": 1});
        json!({"type": "result", "timestamp": time(2), "status": "error", "error": error, "stats": stats})
    };
    assert_end(&printed(result("Error", quota)), failed, Some(quota), "printed");
    let cancelled = result("FatalCancellationError", "Operation cancelled.");
    assert_end(&printed(cancelled), stopped, None, "printed stop");
}

#[test]
fn calls_without_ids_are_counted() {
    let call = |name: &str| json!({"name": name, "args": {}, "status": "success"});
    let calling = gemini_answer("", json!([call("a"), call("a"), call("b")]));
    for tree in chats(&[json!({"type": "user", "content": "q"}), calling, gemini_answer("done", json!([]))]) {
        assert_eq!(calls(&tree), (vec![ToolStatus::Ok; 3], 0, 0));
        assert_end(&tree, AgentStatus::Completed, None, "its calls have ended");
    }
    // Nor do their records have any.
    let at = |second: usize, mut record: Value| {
        record["timestamp"] = time(second).into();
        record
    };
    let one = || gemini_answer("", json!([call("a")]));
    let records = [at(1, json!({"type": "user", "content": "q"})), at(2, one()), at(3, one())];
    let whole = json!({"sessionId": SESSION, "projectHash": "x", "startTime": time(0), "messages": records});
    assert_eq!(calls(&tree_of("session.json", &[whole])), (vec![ToolStatus::Ok; 2], 0, 0));
}

#[test]
fn a_mark_before_an_object_changes_nothing() {
    let answer = gemini_answer("a", json!([]));
    let header = json!({
        "sessionId": SESSION, "projectHash": "x", "startTime": time(0), "lastUpdated": time(1),
        "messages": [{"type": "user", "content": "q"}, answer],
    });
    let info =
        json!({"id": "ses_1", "directory": "/w", "title": "t", "version": "1.18.33", "time": {"created": 1}});
    let asked = json!({"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 1}});
    let exported = json!({"info": info, "messages": [{"info": asked, "parts": []}]});
    for object in [header, exported] {
        let pretty = serde_json::to_string_pretty(&object).unwrap();
        for text in [object.to_string(), pretty.clone(), pretty.replace('\n', "\r\n")] {
            let marked = tree(&[Part::new("object.json", format!("\u{feff}{text}"))]);
            assert!(marked.session.title.is_some(), "{text}");
            assert_eq!(marked, tree(&[Part::new("object.json", text)]));
        }
    }
}

/// Tokens of a tree: their total, whether it is a lower bound, and the cost.
fn tokens(tree: &Tree) -> (Option<u64>, Option<bool>) {
    let usage = tree.summary.usage;
    (usage.map(|usage| usage.total_tokens), usage.map(|usage| usage.floor))
}

#[test]
fn a_total_without_its_kinds_is_a_lower_bound_and_never_zero() {
    let opencode = |used: Value| {
        let info = json!({"id": "ses_1", "directory": "/w", "title": "t", "version": "1.18.33", "time": {"created": 1, "updated": 9}});
        let message = json!({
            "id": "msg_2", "sessionID": "ses_1", "role": "assistant", "modelID": "m", "finish": "stop",
            "tokens": used, "time": {"created": 2, "completed": 3},
        });
        let asked = json!({"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 1}});
        let all = json!([{"info": asked, "parts": []}, {"info": message, "parts": []}]);
        tree_of("export.json", &[json!({"info": info, "messages": all})])
    };
    let claude = |used: Value| {
        let asked = json!({"type": "user", "uuid": "u1", "parentUuid": null, "sessionId": SESSION, "timestamp": time(1), "cwd": "/w", "version": "2.1.330", "message": {"role": "user", "content": "q"}});
        let content = json!([{"type": "text", "text": "a"}]);
        let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-4-6", "content": content, "stop_reason": "end_turn", "usage": used});
        let answered = json!({"type": "assistant", "uuid": "u2", "parentUuid": "u1", "sessionId": SESSION, "timestamp": time(2), "message": message});
        tree_of("main.jsonl", &[asked, answered])
    };
    let gemini = |used: Value| {
        let mut answer = gemini_answer("a", json!([]));
        answer["tokens"] = used;
        let [object, lines] = chats(&[json!({"type": "user", "content": "q"}), answer]);
        assert_eq!(tokens(&object), tokens(&lines));
        lines
    };
    let codex = |used: Value| {
        let info = json!({"total_token_usage": used, "last_token_usage": used});
        rollout(&[started(), asked(), event(json!({"type": "token_count", "info": info})), completed()])
    };
    let qwen = |used: Value| {
        let line = |kind: &str, id: &str, more: Value| {
            let mut line = json!({"type": kind, "uuid": id, "parentUuid": null, "sessionId": SESSION, "timestamp": time(1), "cwd": "/w", "version": "0.24.4"});
            line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            line
        };
        let parts = |text: &str| json!({"parts": [{"text": text}]});
        let asked = line("user", "u1", json!({"message": parts("q"), "provenance": "real_user"}));
        let answered =
            line("assistant", "u2", json!({"message": parts("a"), "model": "qwen", "usageMetadata": used}));
        tree_of("chat.jsonl", &[asked, answered])
    };
    let copilot = |used: Value| {
        let record = json!({"usage": used});
        copilot(&[("user.message", json!({"content": "q"})), ("session.usage_record", record)])
    };
    type Read<'r> = &'r dyn Fn(Value) -> Tree;
    let all: [(&str, Read<'_>, &str, &[&str]); 6] = [
        ("claude", &claude, "total_tokens", &["input_tokens", "output_tokens"]),
        ("gemini", &gemini, "total", &["input", "output"]),
        ("codex", &codex, "total_tokens", &["input_tokens", "output_tokens"]),
        ("qwen", &qwen, "totalTokenCount", &["promptTokenCount", "candidatesTokenCount"]),
        ("opencode", &opencode, "total", &["input", "output"]),
        ("copilot", &copilot, "totalTokens", &["inputTokens", "outputTokens"]),
    ];
    for (harness, read, total, kinds) in all {
        let only_total = read(json!({total: 1_234}));
        assert_eq!(tokens(&only_total), (Some(1_234), Some(true)), "{harness}");
        assert_eq!(only_total.summary.cost_micro_usd, None, "{harness}: no kind, no price");
        let whole = read(json!({kinds[0]: 1_000, kinds[1]: 234, total: 1_234}));
        assert_eq!(tokens(&whole), (Some(1_234), Some(false)), "{harness}");
        let told_by_total = read(json!({kinds[0]: 1_000, total: 1_234}));
        assert_eq!(tokens(&told_by_total), (Some(1_234), Some(false)), "{harness}");
        let half = read(json!({kinds[0]: 1_000}));
        assert_eq!(tokens(&half), (Some(1_000), Some(true)), "{harness}");
        let nothing = tokens(&read(json!({"other": 1})));
        assert!(matches!(nothing, (None, None) | (Some(0), Some(true))), "{harness}: {nothing:?}");
    }
}

#[test]
fn a_process_that_ended_with_an_error_has_failed() {
    let answer = || {
        (
            "assistant.message",
            json!({"messageId": "m1", "content": "let me see", "toolRequests": [], "outputTokens": 5}),
        )
    };
    let asked = || ("user.message", json!({"content": "q"}));
    let shutdown = |more: Value| {
        let mut data = json!({"shutdownType": "error", "totalPremiumRequests": 1});
        data.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("session.shutdown", data)
    };
    let error = || ("session.error", json!({"errorType": "query", "message": "CAPIError: 401"}));
    let failed = AgentStatus::Failed;
    let told = shutdown(json!({"errorReason": "out of memory"}));
    assert_end(&copilot(&[asked(), answer(), told]), failed, Some("out of memory"), "with a reason");
    let bare = copilot(&[asked(), answer(), shutdown(json!({}))]);
    assert_end(&bare, failed, Some("error"), "no last words as its error");
    let both = copilot(&[asked(), answer(), error(), shutdown(json!({}))]);
    assert_end(&both, failed, Some("CAPIError: 401"), "the session's error");
    let routine = shutdown(json!({"shutdownType": "routine"}));
    let ended = copilot(&[asked(), answer(), routine]);
    assert_ne!(ended.agents[0].status, failed);
}

#[test]
fn calls_of_codex_without_ids_are_calls_with_their_outputs() {
    let call = |id: Option<&str>| {
        let mut call = json!({"type": "function_call", "name": "shell", "arguments": "{}"});
        id.into_iter().for_each(|id| call["call_id"] = id.into());
        ("response_item", call)
    };
    let output = |id: Option<&str>, text: &str| {
        let mut output = json!({"type": "function_call_output", "output": text});
        id.into_iter().for_each(|id| output["call_id"] = id.into());
        ("response_item", output)
    };
    let refused = "`/bin/bash -lc rm` rejected: blocked by policy";
    let tree = rollout(&[
        started(),
        asked(),
        call(None),
        call(Some("c2")),
        call(None),
        output(None, "ok"),
        output(Some("c2"), "ok"),
        output(None, refused),
        completed(),
    ]);
    let expected = (vec![ToolStatus::Ok, ToolStatus::Ok, ToolStatus::Denied], 0, 1);
    assert_eq!(calls(&tree), expected);
}
