//! Snapshots of concise and verbose blocks, and properties of both.

use proptest::prelude::*;
use serde_json::json;
use subscope_model::{Actor, Basis, EventSchema};

use super::*;

const AT: Millis = 1_795_264_812_000; // 2026-11-21T12:40:12Z

fn blocks(verbose: bool) -> Blocks {
    Blocks::new(BlockOptions {
        verbose,
        full: false,
        style: Style { color: false, ascii: false, width: 100 },
        code_tools: vec!["run_python".into()],
        offset_minutes: 0,
    })
}

fn event(kind: EventKind, actor: &str, after_ms: i64, data: Value) -> Event {
    Event {
        schema: EventSchema,
        id: "0".into(),
        seq: after_ms.unsigned_abs(),
        at_ms: Some(AT + after_ms),
        session_id: SessionId::from("s"),
        run: 1,
        actor_id: Actor(AgentId::from(actor)),
        basis: Basis::Wire,
        source: "test".into(),
        kind,
        data,
    }
}

fn names(id: &AgentId) -> Option<String> {
    match id.as_str() {
        "a70" => Some("Explore: Map the checkout flow".into()),
        "a74" => Some("Plan: Guest-cart merging".into()),
        _ => None,
    }
}

fn one(verbose: bool, kind: EventKind, actor: &str, data: Value) -> Option<String> {
    blocks(verbose).block(&event(kind, actor, 0, data), &names, None)
}

/// A short session with every kind of printed event.
fn session() -> Vec<Event> {
    use EventKind::*;
    let four =
        "The reservation is read first.\nThen it is written.\nTwo checkouts can both pass.\nSo it is racy.";
    vec![
        event(UserPrompt, "root", 0, json!({"text": "Before we ship 0.4:\nexplore the checkout"})),
        event(
            ToolPre,
            "root",
            300,
            json!({"tool_use_id": "t0", "tool_name": "Agent", "input": {"description": "Map the checkout flow", "prompt": "Map it."}}),
        ),
        event(
            SubagentStart,
            "a70",
            400,
            json!({"agent_id": "a70", "agent_type": "Explore", "description": "Map the checkout flow", "prompt": "Map it.", "parent_id": "root", "spawned_by": "t0", "background": false, "model": "claude-haiku-4-5-20251001"}),
        ),
        event(
            SubagentStart,
            "a74",
            450,
            json!({"agent_id": "a74", "agent_type": "Plan", "description": "Guest-cart merging", "parent_id": "root", "background": true}),
        ),
        event(
            ToolPre,
            "a70",
            2_000,
            json!({"tool_use_id": "t1", "tool_name": "Read", "input": {"file_path": "/srv/shop/src/checkout.js"}, "timeout_seconds": 10}),
        ),
        event(
            ToolPost,
            "a70",
            2_120,
            json!({"tool_use_id": "t1", "tool_name": "Read", "result": "1\tconst cart = require('./cart')\n2\t\n"}),
        ),
        event(
            ToolPre,
            "a70",
            3_000,
            json!({"tool_use_id": "t2", "tool_name": "Bash", "detail": "node try.js", "input": {"command": "node try.js"}}),
        ),
        event(
            ToolFailure,
            "a70",
            5_100,
            json!({"tool_use_id": "t2", "tool_name": "Bash", "error": "\nexit 1\nstack trace", "duration_ms": 2_050}),
        ),
        event(Reasoning, "a70", 5_500, json!({"text": four, "encrypted": false})),
        event(Reasoning, "a74", 5_600, json!({"text": "x9f==", "encrypted": true})),
        event(
            AgentMessage,
            "a70",
            6_000,
            json!({"scope": "subagent", "text": "I look at the cart next.", "message_id": "m1"}),
        ),
        event(PermissionRequest, "a74", 6_100, json!({"tool_name": "Bash"})),
        event(PermissionDenied, "a74", 6_200, json!({"tool_use_id": "t5", "tool_name": "Bash"})),
        event(
            Stall,
            "a74",
            186_200,
            json!({"agent_id": "a74", "waiting_for": "model", "since_ms": AT + 6_200}),
        ),
        event(
            ToolPre,
            "a70",
            187_000,
            json!({"tool_use_id": "t3", "tool_name": "final_answer", "input": {"answer": 42}}),
        ),
        event(
            ToolPost,
            "a70",
            187_100,
            json!({"tool_use_id": "t3", "tool_name": "final_answer", "result": "ok"}),
        ),
        event(
            AgentMessage,
            "a70",
            188_000,
            json!({"scope": "subagent", "text": "The flow has three files.\nDone.", "message_id": "m2"}),
        ),
        event(Usage, "a70", 188_000, json!({"total_tokens": 17_400})),
        event(
            SubagentStop,
            "a70",
            188_100,
            json!({"agent_id": "a70", "status": "completed", "result": "The flow has three files.\nDone.", "duration_ms": 187_700, "tool_calls": 3, "total_tokens": 17_400, "cost_micro_usd": 20_000}),
        ),
        event(
            ToolPost,
            "root",
            188_200,
            json!({"tool_use_id": "t0", "tool_name": "Agent", "result": [{"type": "text", "text": "The flow has three files.\nDone."}]}),
        ),
        event(
            SubagentStop,
            "a74",
            200_000,
            json!({"agent_id": "a74", "status": "failed", "error": "overloaded\nafter 10 attempts", "duration_ms": 199_550, "tool_calls": 1}),
        ),
        event(Problem, "root", 200_100, json!({"at": "s.jsonl:17", "what": "not JSON"})),
        event(
            AgentMessage,
            "root",
            201_000,
            json!({"scope": "root", "text": "The checkout is ready to ship."}),
        ),
    ]
}

fn printed(mut blocks: Blocks) -> String {
    let mut out: String = session().iter().filter_map(|event| blocks.block(event, &names, None)).collect();
    out.extend(blocks.finish());
    out
}

#[test]
fn names_of_several_sessions_stand_behind_their_place() {
    let mut blocks = blocks(false);
    let pre = |actor: &str| {
        event(EventKind::ToolPre, actor, 0, json!({"tool_name": "Read", "input": {"path": "a/b.js"}}))
    };
    let mut shown = |actor: &str, place: Option<&str>| {
        blocks.block(&pre(actor), &|_| Some("Plan".into()), place).unwrap()
    };
    assert!(shown("a70", Some("shop")).ends_with("  shop ▸ Plan → Read b.js\n"));
    assert!(shown("root", Some("shop")).ends_with("  shop → Read b.js\n"));
    assert!(shown("a70", None).ends_with("  Plan → Read b.js\n"));
}

#[test]
fn print_session_concise() {
    insta::assert_snapshot!("blocks_concise", printed(blocks(false)));
    let mut narrow = blocks(false);
    narrow.options.style = Style { color: false, ascii: true, width: 60 };
    insta::assert_snapshot!("blocks_concise_60_ascii", printed(narrow));
    let mut colored = blocks(false);
    colored.options.style.color = true;
    insta::assert_snapshot!("blocks_concise_color", printed(colored).replace('\u{1b}', "ESC"));
}

#[test]
fn print_session_verbose() {
    insta::assert_snapshot!("blocks_verbose", printed(blocks(true)));
}

#[test]
fn tool_call_prints_header_and_pretty_json() {
    let data = json!({"tool_use_id": "t", "tool_name": "web_search", "input": {"query": "golang tutorials"}});
    let expected = "#### Explore: Map the checkout flow [tool call]\nweb_search\n```json\n{\n  \"query\": \"golang tutorials\"\n}\n```\n\n";
    assert_eq!(one(true, EventKind::ToolPre, "a70", data.clone()).as_deref(), Some(expected));
    let mut timed = data;
    timed["timeout_seconds"] = json!(30);
    let text = one(true, EventKind::ToolPre, "a70", timed.clone()).unwrap();
    assert!(text.starts_with("#### Explore: Map the checkout flow [tool call] (timeout: 30s)\n"), "{text}");
    let root = one(true, EventKind::ToolPre, "root", timed).unwrap();
    assert!(root.starts_with("#### [tool call] (timeout: 30s)\n"), "{root}");
}

#[test]
fn code_tools_print_code_as_code() {
    let go = json!({"tool_name": "execute_go_code", "timeout_seconds": 60, "input": {"code": "package main\n\nfunc main() {}\n"}});
    let text = one(true, EventKind::ToolPre, "a70", go).unwrap();
    assert!(
        text.contains("(timeout: 60s)\nexecute_go_code\n```go\npackage main\n\nfunc main() {}\n```\n\n"),
        "{text}"
    );
    let compact = json!({"tool_name": "execute_go_code", "input": "{\"code\":\"x := 1\"}"});
    assert!(one(true, EventKind::ToolPre, "a70", compact).unwrap().contains("```go\nx := 1\n```"));
    let python = json!({"tool_name": "run_python", "input": {"language": "py`\u{1b}", "script": "print(1)", "cell": 2}});
    let text = one(true, EventKind::ToolPre, "a70", python).unwrap();
    assert!(text.contains("```json\n{\n  \"cell\": 2\n}\n```\n```\nprint(1)\n```"), "{text}");
    let output = json!({"tool_name": "run_python", "result": "1\n"});
    let text = one(true, EventKind::ToolPost, "a70", output).unwrap();
    assert_eq!(text, "#### Explore: Map the checkout flow Code execution output:\n```\n1\n```\n\n");
}

#[test]
fn final_answer_prints_nothing_unless_it_failed() {
    for verbose in [false, true] {
        for tool in ["final_answer", "mcp__agent__final_answer"] {
            let data = json!({"tool_use_id": "t", "tool_name": tool, "input": {}, "result": "x", "error": "bad shape"});
            assert_eq!(one(verbose, EventKind::ToolPre, "a70", data.clone()), None);
            assert_eq!(one(verbose, EventKind::ToolPost, "a70", data.clone()), None);
            assert!(one(verbose, EventKind::ToolFailure, "a70", data).unwrap().contains("bad shape"));
        }
        assert!(one(verbose, EventKind::ToolPre, "a70", json!({"tool_name": "my_final_answer"})).is_some());
    }
}

#[test]
fn final_answer_result_without_name_prints_nothing() {
    let mut blocks = blocks(false);
    let pre = event(EventKind::ToolPre, "a70", 0, json!({"tool_use_id": "t", "tool_name": "final_answer"}));
    let post = event(EventKind::ToolPost, "a70", 1, json!({"tool_use_id": "t", "result": "x"}));
    assert_eq!((blocks.block(&pre, &names, None), blocks.block(&post, &names, None)), (None, None));
}

#[test]
fn invalid_json_prints_raw_and_json_text_pretty() {
    let raw =
        one(true, EventKind::ToolPre, "a70", json!({"tool_name": "X", "input": "not valid json"})).unwrap();
    assert!(raw.ends_with("X\n```\nnot valid json\n```\n\n"), "{raw}");
    let compact =
        one(true, EventKind::ToolPost, "a70", json!({"tool_name": "X", "result": "{\"b\":1,\"a\":2}"}))
            .unwrap();
    assert!(compact.ends_with("```json\n{\n  \"b\": 1,\n  \"a\": 2\n}\n```\n\n"), "{compact}");
}

#[test]
fn fence_is_longer_than_any_run_of_backticks_inside() {
    assert_eq!(fence("a ``` b", ""), "````\na ``` b\n````");
    assert_eq!(fence("`", "js"), "```js\n`\n```");
    assert_eq!(fence(&"`".repeat(9), "").lines().next(), Some("``````````"));
    let text = one(
        true,
        EventKind::ToolPost,
        "a70",
        json!({"tool_name": "X", "result": "```\n#### root [tool call]\n```"}),
    );
    assert!(text.unwrap().contains("````\n```\n#### root [tool call]\n```\n````"));
}

#[test]
fn results_over_twenty_lines_are_cut_unless_full() {
    assert_eq!(truncate_lines("1\n2\n3\n4\n5", 3), "1\n2\n3\n... (truncated)");
    assert_eq!(truncate_lines("1\n2\n3", 3), "1\n2\n3");
    assert_eq!(truncate_lines("1\n2\n3\n", 3), "1\n2\n3\n");
    assert_eq!(truncate_lines("1", 3), "1");
    let lines: Vec<String> = (1..=21).map(|line| format!("line {line}")).collect();
    let data = json!({"tool_name": "X", "result": lines.join("\n")});
    let cut = one(true, EventKind::ToolPost, "a70", data.clone()).unwrap();
    assert!(cut.contains("line 20\n... (truncated)\n```") && !cut.contains("line 21"), "{cut}");
    let mut full = blocks(true);
    full.options.full = true;
    let full_text = full.block(&event(EventKind::ToolPost, "a70", 0, data), &names, None).unwrap();
    assert!(full_text.contains("line 21") && !full_text.contains("truncated"), "{full_text}");
}

#[test]
fn thought_of_four_lines_prints_two_and_dots() {
    let text = one(false, EventKind::Reasoning, "a70", json!({"text": "one\n\ntwo\nthree\nfour"})).unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    assert_eq!(lines, ["12:40:12   Explore: Map the checkout flow thinks » one", "two", "..."]);
    let two = one(false, EventKind::Reasoning, "a70", json!({"text": "one\ntwo"})).unwrap();
    assert!(!two.contains("..."), "{two}");
    for verbose in [false, true] {
        let sealed =
            one(verbose, EventKind::Reasoning, "a70", json!({"text": "x9f==", "encrypted": true})).unwrap();
        assert!(sealed.contains("[Reasoning content is encrypted]") && !sealed.contains("x9f"), "{sealed}");
    }
}

fn message(at: i64, text: &str) -> Event {
    event(EventKind::AgentMessage, "a70", at, json!({"scope": "subagent", "text": text}))
}

fn stop(at: i64, result: &str) -> Event {
    event(
        EventKind::SubagentStop,
        "a70",
        at,
        json!({"agent_id": "a70", "status": "completed", "result": result}),
    )
}

#[test]
fn final_message_is_not_printed_whatever_comes_first() {
    for verbose in [false, true] {
        let mut message_first = blocks(verbose);
        assert_eq!(message_first.block(&message(0, "the end \n"), &names, None), None);
        let text = message_first.block(&stop(1, "the end"), &names, None).unwrap();
        assert!(!text.contains("the end") && message_first.finish().is_none(), "{text}");
        let mut stop_first = blocks(verbose);
        stop_first.block(&stop(0, "the end"), &names, None);
        assert_eq!(stop_first.block(&message(1, "the end"), &names, None), None);
        assert_eq!(stop_first.finish(), None);
    }
}

#[test]
fn other_messages_are_printed_before_what_follows_them() {
    let mut blocks = blocks(false);
    assert_eq!(blocks.block(&message(0, "first"), &names, None), None);
    let text = blocks.block(&message(1, "second"), &names, None).unwrap();
    assert!(text.ends_with("» first\n"), "{text}");
    assert_eq!(blocks.block(&event(EventKind::Heartbeat, "a70", 2, json!({})), &names, None), None);
    let text = blocks.block(&stop(3, "something else"), &names, None).unwrap();
    assert!(text.find("» second").unwrap() < text.find('✓').unwrap(), "{text}");
    blocks.block(&message(4, "after the stop"), &names, None);
    assert!(blocks.finish().unwrap().ends_with("» after the stop\n"));
}

#[test]
fn report_of_background_agent_is_printed_once() {
    let mut blocks = blocks(false);
    let start = json!({"agent_id": "a70", "agent_type": "Explore", "background": true});
    blocks.block(&event(EventKind::SubagentStart, "a70", 0, start), &names, None);
    blocks.block(&message(1, "the end"), &names, None);
    let text = blocks.block(&stop(2, "the end"), &names, None).unwrap();
    assert_eq!((text.matches("the end").count(), blocks.finish()), (1, None));
}

#[test]
fn final_message_of_renamed_agent_is_not_printed() {
    let mut blocks = blocks(false);
    let early = event(EventKind::AgentMessage, "toolu_1", 0, json!({"text": "the end"}));
    blocks.block(&early, &names, None);
    blocks.block(
        &event(EventKind::AgentRenamed, "root", 1, json!({"from": "toolu_1", "to": "a70"})),
        &names,
        None,
    );
    assert!(!blocks.block(&stop(2, "the end"), &names, None).unwrap().contains("the end"));
}

#[test]
fn spans_come_from_the_event_or_its_call() {
    let mut blocks = blocks(false);
    let pre = |at| event(EventKind::ToolPre, "a70", at, json!({"tool_use_id": "t", "tool_name": "Read"}));
    let post = |at, data: Value| event(EventKind::ToolPost, "a70", at, data);
    blocks.block(&pre(0), &names, None);
    let text = blocks.block(&post(120, json!({"tool_use_id": "t"})), &names, None).unwrap();
    assert!(text.ends_with("← Read ok 120ms\n"), "{text}");
    let text =
        blocks.block(&post(130, json!({"tool_use_id": "t", "tool_name": "Read"})), &names, None).unwrap();
    assert!(text.ends_with("← Read ok\n"), "an ended call is forgotten: {text}");
    let text =
        blocks.block(&post(140, json!({"tool_name": "Read", "duration_ms": 7})), &names, None).unwrap();
    assert!(text.ends_with("← Read ok 7ms\n"), "{text}");
}

#[test]
fn calls_that_never_end_are_forgotten_in_time() {
    let mut blocks = blocks(false);
    for at in 0..20_000 {
        let id = format!("t{at}");
        blocks.block(
            &event(EventKind::ToolPre, "a70", at, json!({"tool_use_id": id, "tool_name": "X"})),
            &names,
            None,
        );
        if at % 2 == 0 {
            blocks.block(&event(EventKind::ToolPost, "a70", at, json!({"tool_use_id": id})), &names, None);
        }
    }
    assert!(blocks.calls.len() <= MAX_OPEN_CALLS && blocks.order.len() <= MAX_OPEN_CALLS * 2);
    assert!(blocks.calls.contains_key(&(SessionId::from("s"), "t19999".into())));
}

#[test]
fn events_without_time_leave_the_clock_blank() {
    let mut timeless =
        event(EventKind::ToolPre, "root", 0, json!({"tool_name": "Read", "input": {"path": "a/b.js"}}));
    timeless.at_ms = None;
    assert_eq!(blocks(false).block(&timeless, &names, None).as_deref(), Some("           → Read b.js\n"));
}

#[test]
fn guessed_actors_are_marked() {
    let guess = |actor: &str| Event {
        basis: Basis::Stack,
        ..event(EventKind::ToolPre, actor, 0, json!({"tool_name": "Read"}))
    };
    let text = blocks(false).block(&guess("a70"), &names, None).unwrap();
    assert_eq!(text, "12:40:12   ~Explore: Map the checkout flow → Read\n");
    assert_eq!(blocks(false).block(&guess("root"), &names, None).unwrap(), "12:40:12   ~→ Read\n");
    assert!(blocks(true).block(&guess("a70"), &names, None).unwrap().starts_with("#### ~Explore"));
}

proptest! {
    #[test]
    fn blocks_pass_no_control_character_and_end_in_a_newline(text in any::<String>(), verbose in any::<bool>(), ascii in any::<bool>()) {
        let hostile = |_: &AgentId| Some(text.clone());
        let mut blocks = blocks(verbose);
        blocks.options.style.ascii = ascii;
        let data = json!({"tool_use_id": text, "tool_name": text, "agent_id": text, "agent_type": text, "description": text,
            "model": text, "parent_id": text, "status": text, "waiting_for": text, "at": text, "what": text, "detail": text,
            "input": {"code": text, text.clone(): text}, "result": [{"type": text, "text": text}], "error": text, "text": text});
        use EventKind::*;
        let kinds = [ToolPre, ToolPost, ToolFailure, PermissionRequest, PermissionDenied, SubagentStart, SubagentStop,
            AgentMessage, Reasoning, UserPrompt, Stall, Problem, AgentMessage];
        let mut printed: Vec<String> =
            kinds.into_iter().filter_map(|kind| blocks.block(&event(kind, "a70", 0, data.clone()), &hostile, Some("\u{1b}[2J"))).collect();
        printed.extend(blocks.finish());
        for block in printed {
            prop_assert!(block.ends_with('\n') && (!verbose || block.ends_with("\n\n")));
            let bad = |character: char| character != '\n' && (character.is_control() || ('\u{202a}'..='\u{202e}').contains(&character));
            prop_assert!(!block.chars().any(bad), "{block:?}");
        }
    }
}

#[test]
fn alert_of_a_budget_marks_a_cost_that_is_a_lower_bound() {
    let alert = |data: Value| budget_words(&event(EventKind::Budget, "root", 0, data));
    let day = json!({"day": "2026-11-21", "percent": 80, "cost_micro_usd": 1_659_999, "cost_floor": true, "budget_micro_usd": 2_000_000});
    assert_eq!(alert(day), "the sessions of 2026-11-21 have cost ≥$1.65: over 80 % of the budget of $2.00");
    // Events of earlier versions have no flag.
    let session = json!({"percent": 100, "cost_micro_usd": 1_659_999, "budget_micro_usd": 1_000_000});
    assert_eq!(alert(session), "the session has cost $1.66: the budget is $1.00");
}
