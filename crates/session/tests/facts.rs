//! Cases that earlier tools of this kind got wrong, one test each: input, and the tree or events that it gives.
//!
//! Where a recording proved an old rule wrong, the test has the corrected one.

#![allow(clippy::unwrap_used)]

use serde_json::json;
use subscope_model::{AgentStatus, Basis, Event, EventKind, PriceTable, Tree, feed_line};
use subscope_session::SessionRouter;
use subscope_testkit::{
    fixtures::recording,
    lines::{Line, hook, launch_result, spawn_input, spawn_result, stream, transcript},
    sessions::{
        self, LATER, Part, Telling, events, now, only_session, options, parts_of, sketch, tree, tree_at,
    },
};

/// The stream that a process printed.
fn printed(lines: impl IntoIterator<Item = Line>) -> Vec<Part> {
    vec![Part::of("stream.jsonl", lines)]
}

/// A hook log.
fn hooked(lines: impl IntoIterator<Item = Line>) -> Vec<Part> {
    vec![Part::of("hooks.jsonl", lines)]
}

fn spawn(call: &str, kind: &str) -> Line {
    stream::tool_use("Agent", call)
        .input(spawn_input(kind, &format!("Do {call}"), &format!("Do {call}.")))
        .message_id(call)
}

/// The result of a spawn call whose agent has completed.
fn spawned(call: &str, agent: &str, report: &str) -> Line {
    stream::tool_result(call, report).harness_result(spawn_result(agent, report))
}

/// A hook of the versions whose hooks name neither agent nor prompt (2.0.x, 2.1.50).
fn old(event: &str) -> Line {
    hook(event).without("prompt_id")
}

fn pre(call: &str) -> Line {
    old("PreToolUse").tool("Bash", call)
}

fn post(call: &str) -> Line {
    old("PostToolUse").tool("Bash", call)
}

fn old_spawn(call: &str, kind: &str) -> Line {
    old("PreToolUse").tool("Task", call).set("tool_input", spawn_input(kind, &format!("Do {call}"), "Do it."))
}

fn old_start(agent: &str, kind: &str) -> Line {
    old("SubagentStart").agent_type(kind).agent(agent)
}

fn old_stop(agent: &str) -> Line {
    old("SubagentStop").agent_type("Explore").agent(agent)
}

/// Number of messages published after each of these chunks of a stream.
fn messages_after(chunks: &[&[u8]], flushes: bool) -> Vec<usize> {
    let mut router = SessionRouter::new(options(true));
    let source = router.open(Part::new("stream.jsonl", "").spec);
    let prices = PriceTable::default();
    let mut count = 0;
    let mut counts = Vec::new();
    for step in 0..chunks.len() + usize::from(flushes) {
        match chunks.get(step) {
            Some(chunk) => router.push(source, chunk),
            None => router.flush(source),
        }
        let sessions: Vec<_> = router.sessions().cloned().collect();
        let update = |session| router.update(session, &now(LATER, &prices)).unwrap().events;
        let new: Vec<Event> = sessions.iter().flat_map(update).collect();
        count += new.iter().filter(|event| event.kind == EventKind::AgentMessage).count();
        counts.push(count);
    }
    counts
}

fn texts(events: &[Event]) -> Vec<&str> {
    events
        .iter()
        .filter(|event| event.kind == EventKind::AgentMessage)
        .filter_map(|event| event.text("text"))
        .collect()
}

fn kinds(events: &[Event], kind: EventKind) -> Vec<&Event> {
    events.iter().filter(|event| event.kind == kind).collect()
}

/// Each tool call with its owner and basis, by the call's id.
fn owners(tree: &Tree) -> Vec<(String, String, Basis)> {
    let mut all: Vec<_> = tree
        .agents
        .iter()
        .flat_map(|row| {
            row.tools
                .iter()
                .map(move |call| (call.id.as_ref().unwrap().to_string(), row.id.to_string(), call.basis))
        })
        .collect();
    all.sort();
    all
}

fn owner(tree: &Tree, call: &str) -> (String, Basis) {
    let all = owners(tree);
    let (_, agent, basis) =
        all.iter().find(|(id, ..)| id == call).unwrap_or_else(|| panic!("{call} in {all:?}"));
    (agent.clone(), *basis)
}

mod lines_and_streams {
    use super::*;

    const HELLO: &str = r#"{"type":"assistant","message":"Hello"}"#;

    #[test]
    fn message_as_plain_text_is_one_message() {
        let events = events(&[Part::new("stream.jsonl", format!("{HELLO}\n"))]);
        assert_eq!(texts(&events), ["Hello"]);
    }

    #[test]
    fn blank_lines_are_skipped_without_a_problem() {
        let tree = tree(&[Part::new("stream.jsonl", format!("\n   \n\t\n{HELLO}\n\n \t \n"))]);
        assert_eq!((tree.problems.as_slice(), tree.agents.len()), ([].as_slice(), 1));
    }

    #[test]
    fn text_between_messages_is_a_problem_at_its_line_and_nothing_else_is_lost() {
        let parts =
            [Part::new("stream.jsonl", format!("{HELLO}\nnot json\n{}\n", HELLO.replace("Hello", "Bye")))];
        assert_eq!(texts(&events(&parts)), ["Hello", "Bye"]);
        let problems = tree(&parts).problems;
        assert_eq!(
            problems.iter().map(|problem| problem.at.as_str()).collect::<Vec<_>>(),
            ["stream.jsonl:2"]
        );
    }

    #[test]
    fn line_counts_once_its_end_is_there_or_nothing_more_comes() {
        let line = format!("{HELLO}\n");
        let (one, two) = line.as_bytes().split_at(9);
        assert_eq!(messages_after(&[one, two], false), [0, 1]);
        assert_eq!(messages_after(&[HELLO.as_bytes()], true), [0, 1]);
        assert_eq!(messages_after(&[b""], true), [0, 0]);
        let three: String = ["one", "two", "three"].map(|word| line.replace("Hello", word)).concat();
        assert_eq!(messages_after(&[three.as_bytes()], false), [3]);
    }

    #[test]
    fn cuts_inside_a_character_and_a_line_end_change_nothing() {
        let text =
            format!("{}\r\n{}\r\n", HELLO.replace("Hello", "日本語 🦀"), HELLO.replace("Hello", "ünd"));
        let whole = messages_after(&[text.as_bytes()], true);
        assert_eq!(whole, [2, 2]);
        for cut in 1..text.len() {
            let (one, two) = text.as_bytes().split_at(cut);
            assert_eq!(messages_after(&[one, two], true).last(), Some(&2), "cut at {cut}");
        }
        let mut router = SessionRouter::new(options(true));
        let source = router.open(Part::new("stream.jsonl", "").spec);
        for byte in text.as_bytes() {
            router.push(source, &[*byte]);
        }
        router.flush(source);
        let session = only_session(&router);
        let prices = PriceTable::default();
        assert_eq!(texts(&router.whole_feed(&session, &now(LATER, &prices))), ["日本語 🦀", "ünd"]);
    }
}

mod lifecycle {
    use super::*;

    #[test]
    fn real_recording_of_one_agent_is_one_spawn_one_inner_tool_one_end() {
        let events = events(&parts_of(&recording("2.1.330", "a-single"), &[Telling::Stream]));
        let starts = kinds(&events, EventKind::SubagentStart);
        let stops = kinds(&events, EventKind::SubagentStop);
        assert_eq!((starts.len(), stops.len()), (1, 1));
        assert_eq!(stops[0].text("status"), Some("completed"));
        let inner = kinds(&events, EventKind::ToolPre);
        assert!(inner.iter().any(|call| call.actor_id == starts[0].actor_id));
        assert!(
            kinds(&events, EventKind::ToolPre)
                .iter()
                .filter(|call| call.text("tool_name") == Some("Agent"))
                .count()
                == 1
        );
    }

    #[test]
    fn result_of_the_spawn_call_completes_without_a_result_line() {
        let tree = tree(&printed([stream::init(), spawn("t1", "Explore"), spawned("t1", "a1", "All seen.")]));
        let row = &tree.agents[1];
        assert_eq!((row.id.as_str(), row.status), ("a1", AgentStatus::Completed));
        assert_eq!(row.result.as_deref(), Some("All seen."));
    }

    #[test]
    fn two_spawns_of_one_message_are_siblings() {
        let two = |call: &str| spawn(call, "Explore").message_id("m1").uuid(call);
        let tree = tree(&printed([
            stream::init(),
            two("t1"),
            two("t2"),
            spawned("t2", "a2", "x"),
            spawned("t1", "a1", "y"),
        ]));
        assert_eq!(
            sketch(&tree),
            "root lost: Agent ok, Agent ok\n  a1 Explore completed\n  a2 Explore completed\n"
        );
        assert!(
            tree.agents[1..]
                .iter()
                .all(|row| row.parent_id.as_deref().is_some_and(|id| id == "root") && row.depth == 1)
        );
    }

    #[test]
    fn two_spawns_in_one_line_are_two() {
        let line = stream::tool_use("Agent", "t1").set(
            "message",
            json!({"id": "m1", "role": "assistant", "content": [
                {"type": "tool_use", "id": "t1", "name": "Agent", "input": spawn_input("Explore", "one", "one.")},
                {"type": "tool_use", "id": "t2", "name": "Agent", "input": spawn_input("Plan", "two", "two.")},
            ]}),
        );
        let tree = tree(&printed([stream::init(), line, spawned("t1", "a1", "x"), spawned("t2", "a2", "y")]));
        assert_eq!(
            sketch(&tree),
            "root lost: Agent ok, Agent ok\n  a1 Explore completed\n  a2 Plan completed\n"
        );
    }

    #[test]
    fn two_open_spawns_of_consecutive_messages_are_no_chain() {
        let tree = tree(&printed([
            stream::init(),
            spawn("t1", "Explore"),
            stream::task_started("a1", "t1"),
            spawn("t2", "Plan"),
            stream::task_started("a2", "t2"),
        ]));
        assert_eq!(tree.summary.max_depth, 1);
        let parents: Vec<_> =
            tree.agents[1..].iter().map(|row| (row.id.as_str(), row.parent_id.as_deref().unwrap())).collect();
        assert_eq!(parents, [("a1", "root"), ("a2", "root")]);
    }

    #[test]
    fn tools_named_task_or_agent_in_any_case_spawn_and_no_others() {
        for name in ["Task", "Agent", "task", "AGENT", "tAsK"] {
            let call = stream::tool_use(name, "t1").input(spawn_input("Explore", "x", "y"));
            let tree = tree(&printed([stream::init(), call, spawned("t1", "a1", "z")]));
            assert_eq!(tree.summary.agents, 1, "{name}");
        }
        for name in ["Bash", "Read", "TaskList", "Agents", ""] {
            let call = stream::tool_use(name, "t1").input(spawn_input("Explore", "x", "y"));
            let tree = tree(&printed([stream::init(), call, stream::tool_result("t1", "z")]));
            assert_eq!(tree.summary.agents, 0, "{name}");
        }
        let mut null = stream::tool_use("x", "t1").value();
        null["message"]["content"][0]["name"] = serde_json::Value::Null;
        let tree = tree(&[Part::new("s", format!("{}\n{null}\n", stream::init().line()))]);
        assert_eq!(tree.summary.agents, 0);
    }

    #[test]
    fn the_word_error_in_a_report_is_no_failure() {
        let tree = tree(&printed([
            stream::init(),
            spawn("t1", "Explore"),
            spawned("t1", "a1", "All good: no errors found"),
        ]));
        assert_eq!((tree.agents[1].status, tree.agents[1].error.as_deref()), (AgentStatus::Completed, None));
    }

    #[test]
    fn result_of_another_tool_leaves_an_open_agent_alone() {
        let parts = printed([
            stream::init(),
            spawn("t1", "Explore"),
            stream::task_started("a1", "t1"),
            stream::tool_use("Bash", "t2"),
            stream::tool_result("t2", "Error: agent failed").failed(),
        ]);
        let router = sessions::read(&parts, options(false));
        let tree = tree_at(&router, subscope_testkit::clock::START + 1000);
        assert_eq!(sketch(&tree), "root running: Agent open, Bash error\n  a1 general-purpose running\n");
    }

    #[test]
    fn failed_result_of_the_spawn_call_fails_the_agent_and_keeps_the_words() {
        let tree = tree(&printed([
            stream::init(),
            spawn("t1", "Explore"),
            stream::task_started("a1", "t1"),
            stream::tool_result("t1", "API Error: 529 overloaded").failed(),
        ]));
        let row = &tree.agents[1];
        assert_eq!(
            (row.status, row.error.as_deref()),
            (AgentStatus::Failed, Some("API Error: 529 overloaded"))
        );
    }

    #[test]
    fn result_for_the_first_of_two_ends_that_one() {
        let parts = printed([
            stream::init(),
            spawn("t1", "Explore"),
            stream::task_started("a1", "t1"),
            spawn("t2", "Plan"),
            stream::task_started("a2", "t2"),
            spawned("t1", "a1", "done"),
        ]);
        let tree = tree_at(&sessions::read(&parts, options(false)), subscope_testkit::clock::START + 1000);
        let statuses: Vec<_> = tree.agents[1..].iter().map(|row| (row.id.as_str(), row.status)).collect();
        assert_eq!(statuses, [("a1", AgentStatus::Completed), ("a2", AgentStatus::Running)]);
    }

    #[test]
    fn spawn_line_told_twice_is_one_spawn() {
        let parts = printed([
            stream::init(),
            spawn("t1", "Explore"),
            spawn("t1", "Explore"),
            spawned("t1", "a1", "x"),
        ]);
        assert_eq!((tree(&parts).summary.agents, tree(&parts).agents[0].tool_calls), (1, 1));
        assert_eq!(kinds(&events(&parts), EventKind::SubagentStart).len(), 1);
    }

    #[test]
    fn launch_into_the_background_is_no_end() {
        let call = stream::tool_use("Agent", "t1")
            .input(json!({"description": "x", "prompt": "y", "run_in_background": true}));
        let parts = printed([
            stream::init(),
            call,
            stream::task_started("a1", "t1").set("is_backgrounded", true),
            stream::tool_result("t1", "Async agent launched").harness_result(launch_result("a1")),
        ]);
        let tree = tree_at(&sessions::read(&parts, options(false)), subscope_testkit::clock::START + 1000);
        let row = &tree.agents[1];
        assert_eq!((row.status, row.background), (AgentStatus::Running, true));
    }

    #[test]
    fn task_of_a_shell_is_no_agent() {
        let shell = stream::task_started("b1", "t1").set("task_type", "local_bash");
        let tree = tree(&printed([
            stream::init(),
            stream::tool_use("Bash", "t1"),
            shell,
            stream::tool_result("t1", "x"),
        ]));
        assert_eq!((tree.summary.agents, tree.agents.len()), (0, 1));
    }

    #[test]
    fn refused_spawn_is_a_failed_call_and_no_agent() {
        for words in [
            "Agent type 'Nobody' not found. Available agents: Explore, Plan, general-purpose",
            "Error: Agent type 'Nobody' not found. Available agents: Explore",
        ] {
            let tree = tree(&printed([
                stream::init(),
                spawn("t1", "Nobody"),
                stream::tool_result("t1", words).failed(),
            ]));
            assert_eq!((tree.summary.agents, tree.agents[0].tool_errors), (0, 1), "{words}");
        }
    }

    #[test]
    fn agents_are_counted_by_type() {
        let types = ["explore", "general", "explore", "build"];
        let mut lines = vec![stream::init()];
        for (number, kind) in types.iter().enumerate() {
            lines.push(spawn(&format!("t{number}"), kind));
            lines.push(spawned(&format!("t{number}"), &format!("a{number}"), "x"));
        }
        let by_type = tree(&printed(lines)).summary.by_type;
        let counts: Vec<(&str, u32)> = by_type.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
        assert_eq!(counts, [("build", 1), ("explore", 2), ("general", 1)]);
    }

    #[test]
    fn three_opens_nested_by_links_reach_depth_three() {
        let tree = tree(&printed([
            stream::init(),
            spawn("t1", "general-purpose"),
            stream::task_started("a1", "t1"),
            spawn("t2", "general-purpose").under("t1"),
            stream::task_started("a2", "t2").set("parent_task_id", "a1"),
            spawn("t3", "Explore").under("t2"),
            stream::task_started("a3", "t3").set("parent_task_id", "a2"),
        ]));
        assert_eq!(tree.summary.max_depth, 3);
        let chain: Vec<_> = tree.agents.iter().map(|row| (row.id.as_str(), row.depth)).collect();
        assert_eq!(chain, [("root", 0), ("a1", 1), ("a2", 2), ("a3", 3)]);
    }

    #[test]
    fn agent_taken_for_lost_is_told_to_have_completed_when_it_has() {
        let own = |line: Line, ms: i64| line.agent("a1").after_ms(ms);
        let mut router = SessionRouter::new(options(true));
        let source = router.open(Part::new("agent-a1.jsonl", "").by_agent("a1").spec);
        let prices = PriceTable::default();
        let mut told = Vec::new();
        let start = subscope_testkit::clock::START;
        let (first, last) =
            (own(transcript::user("Look."), 0), own(transcript::assistant("Seen."), 3_600_000));
        for (line, at) in [(first, start + 1000), (last.stop("end_turn"), start + 3_600_000)] {
            router.push(source, format!("{}\n", line.line()).as_bytes());
            // Just received, then after an hour of silence.
            for now_ms in [at, at + 3_500_000] {
                let new = router.update(&only_session(&router), &now(now_ms, &prices)).unwrap().events;
                let stops = new.iter().filter(|event| event.kind == EventKind::SubagentStop);
                told.extend(stops.map(|event| event.text("status").unwrap().to_owned()));
            }
        }
        assert_eq!(told, ["lost", "completed"]);
    }

    #[test]
    fn unknown_agent_is_none_and_no_agents_are_an_empty_list() {
        let tree = tree(&printed([stream::init(), stream::assistant("Hi.")]));
        assert!(!tree.agents.iter().any(|row| row.id.as_str() == "nobody"));
        assert_eq!((tree.agents.len(), tree.summary.agents, tree.summary.max_depth), (1, 0, 0));
        let nothing = sessions::read(&[], options(false));
        let prices = PriceTable::default();
        assert!(nothing.tree(&"s".into(), &now(LATER, &prices)).is_none() && nothing.sessions().count() == 0);
    }
}

mod attribution {
    use super::*;

    #[test]
    fn lone_agent_of_an_old_wire_has_its_calls_and_the_root_has_the_later_ones() {
        let tree = tree(&hooked([
            old("UserPromptSubmit"),
            old_spawn("t1", "Explore"),
            old_start("sa-1", "Explore"),
            pre("b1"),
            post("b1"),
            pre("b2"),
            old("PostToolUseFailure").tool("Bash", "b2"),
            old_stop("sa-1"),
            old("PostToolUse").tool("Task", "t1").harness_result(spawn_result("sa-1", "Seen.")),
            pre("b3"),
            post("b3"),
        ]));
        assert_eq!(owner(&tree, "b1"), ("sa-1".to_owned(), Basis::Sole));
        assert_eq!(owner(&tree, "b2"), ("sa-1".to_owned(), Basis::Sole));
        assert_eq!(owner(&tree, "b3"), ("root".to_owned(), Basis::Sole));
        assert_eq!(
            sketch(&tree),
            "root lost: Task ok, Bash ok\n  sa-1 Explore completed: Bash ok, Bash error\n"
        );
    }

    #[test]
    fn start_without_a_spawn_call_gives_a_guess_only() {
        let tree = tree(&hooked([
            old("UserPromptSubmit"),
            old_start("sa-1", "Explore"),
            pre("b1"),
            post("b1"),
            old_stop("sa-1"),
            pre("b2"),
        ]));
        assert_eq!(owner(&tree, "b1"), ("sa-1".to_owned(), Basis::Stack));
        assert_eq!(owner(&tree, "b2"), ("root".to_owned(), Basis::Sole));
    }

    #[test]
    fn inner_of_two_open_agents_is_guessed_until_it_stops() {
        let tree = tree(&hooked([
            old("UserPromptSubmit"),
            old_start("outer", "Plan"),
            old_start("inner", "Explore"),
            pre("b1"),
            post("b1"),
            old_stop("inner"),
            pre("b2"),
            post("b2"),
        ]));
        assert_eq!(owner(&tree, "b1"), ("inner".to_owned(), Basis::Stack));
        assert_eq!(owner(&tree, "b2"), ("outer".to_owned(), Basis::Stack));
    }

    #[test]
    fn stop_takes_the_last_start_of_that_agent_away_and_a_missing_one_is_no_matter() {
        let starts = [old("UserPromptSubmit"), old_start("a", "X"), old_start("b", "X"), old_start("a", "X")];
        let tree = tree(&hooked(starts.into_iter().chain([
            old_stop("a"),
            old_stop("nobody"),
            pre("b1"),
            post("b1"),
        ])));
        assert_eq!(owner(&tree, "b1"), ("b".to_owned(), Basis::Stack));
    }

    #[test]
    fn without_a_subagent_all_is_the_roots() {
        let tree = tree(&hooked([old("UserPromptSubmit"), pre("b1"), post("b1")]));
        assert_eq!(sketch(&tree), "root lost: Bash ok\n");
        assert_eq!(owner(&tree, "b1").1, Basis::Sole);
        // From 2.1.197 on, a hook that names no agent is the root's.
        let tree = sessions::tree(&hooked([
            hook("PreToolUse").tool("Bash", "b1"),
            hook("PostToolUse").tool("Bash", "b1"),
        ]));
        assert_eq!(owner(&tree, "b1"), ("root".to_owned(), Basis::Wire));
    }

    #[test]
    fn new_run_does_not_take_an_agents_calls_away_that_carry_its_id() {
        let named =
            |event: &str, call: &str| hook(event).tool("Bash", call).agent("sa-1").prompt_id("prompt-2");
        let next = hook("UserPromptSubmit").prompt_id("prompt-2").set("prompt", "And now?");
        let identified = tree(&hooked([
            hook("UserPromptSubmit"),
            hook("SubagentStart").agent("sa-1"),
            next,
            named("PreToolUse", "b1"),
            named("PostToolUse", "b1"),
            hook("PreToolUse").tool("Bash", "b2").prompt_id("prompt-2"),
        ]));
        assert_eq!(owner(&identified, "b1"), ("sa-1".to_owned(), Basis::Wire));
        assert_eq!(owner(&identified, "b2"), ("root".to_owned(), Basis::Wire));
        let ended = tree(&hooked([
            old("UserPromptSubmit"),
            old_start("sa-1", "Explore"),
            old_stop("sa-1"),
            old("UserPromptSubmit").set("prompt", "And now?"),
            pre("b1"),
        ]));
        assert_eq!(owner(&ended, "b1"), ("root".to_owned(), Basis::Sole));
        let unclear = tree(&hooked([
            old("UserPromptSubmit"),
            old_start("sa-1", "Explore"),
            old("UserPromptSubmit").set("prompt", "And now?"),
            pre("b1"),
        ]));
        assert!(owner(&unclear, "b1").1.is_guess(), "{:?}", owner(&unclear, "b1"));
    }

    #[test]
    fn calls_of_an_agent_that_was_never_started_are_counted_as_its_own() {
        let tree = tree(&hooked([
            hook("UserPromptSubmit"),
            hook("PreToolUse").tool("Bash", "b1"),
            hook("PreToolUse").tool("Bash", "b2"),
            hook("PreToolUse").tool("Bash", "b3").agent("sa-9"),
        ]));
        let counts: Vec<_> = tree.agents.iter().map(|row| (row.id.as_str(), row.tool_calls)).collect();
        assert_eq!((counts, tree.summary.tool_calls), (vec![("root", 2), ("sa-9", 1)], 3));
    }

    #[test]
    fn calls_are_counted_by_their_owner() {
        let of = |call: &str| hook("PreToolUse").tool("Bash", call).agent("a1");
        let tree = tree(&hooked([
            hook("UserPromptSubmit"),
            hook("SubagentStart").agent("a1"),
            of("b1"),
            of("b2"),
            hook("PreToolUse").tool("Bash", "b3"),
        ]));
        let counts: Vec<_> = tree.agents.iter().map(|row| (row.id.as_str(), row.tool_calls)).collect();
        assert_eq!((counts, tree.summary.tool_calls), (vec![("root", 1), ("a1", 2)], 3));
    }

    #[test]
    fn last_words_are_told_once_whoever_repeats_them() {
        let stop = hook("SubagentStop").agent("a1").set("last_assistant_message", "All seen.");
        let hooks = Part::of(
            "hooks.jsonl",
            [hook("UserPromptSubmit"), hook("SubagentStart").agent("a1"), stop.clone()],
        );
        let alone = events(std::slice::from_ref(&hooks));
        let told = kinds(&alone, EventKind::AgentMessage);
        assert_eq!((texts(&alone), told[0].text("scope")), (vec!["All seen."], Some("subagent")));
        assert_eq!(told[0].actor_id.to_string(), "subagent:a1");
        let own = [
            transcript::user("Look.").agent("a1"),
            transcript::assistant("All seen.").agent("a1").stop("end_turn").after_ms(5),
        ];
        let file = Part::of("agent-a1.jsonl", own).by_agent("a1");
        for parts in [[hooks.clone(), file.clone()], [file, hooks]] {
            assert_eq!(texts(&events(&parts)), ["All seen."]);
        }
    }

    #[test]
    fn session_start_makes_no_run_and_the_next_prompt_does() {
        for source in ["startup", "resume", "clear", "compact"] {
            let start = hook("SessionStart").set("source", source);
            let before = [hook("UserPromptSubmit"), start, hook("PreToolUse").tool("Bash", "b1")];
            assert_eq!(tree(&hooked(before.clone())).session.runs, 1, "{source}");
            let next = hook("UserPromptSubmit").prompt_id("prompt-2").set("prompt", "Next.");
            assert_eq!(tree(&hooked(before.into_iter().chain([next]))).session.runs, 2, "{source}");
        }
    }

    #[test]
    fn begin_and_end_of_a_call_are_linked_across_a_prompt() {
        let next = hook("UserPromptSubmit").prompt_id("prompt-2").set("prompt", "Next.");
        let tree = tree(&hooked([
            hook("UserPromptSubmit"),
            hook("PreToolUse").tool("Bash", "b1"),
            next,
            hook("PostToolUse").tool("Bash", "b1").prompt_id("prompt-2"),
        ]));
        assert_eq!((tree.summary.tool_calls, tree.agents[0].open_tools), (1, 0));
    }

    #[test]
    fn unknown_hook_is_kept_with_its_payload() {
        let events = events(&hooked([hook("UserPromptSubmit"), hook("MoonRise").set("phase", "waxing")]));
        let unknown = kinds(&events, EventKind::UnknownHook);
        assert_eq!(unknown.len(), 1);
        assert!(feed_line(unknown[0]).contains("waxing") && feed_line(unknown[0]).contains("MoonRise"));
    }

    #[test]
    fn each_of_two_agents_has_its_own_calls_description() {
        let call = |call: &str, words: &str| {
            hook("PreToolUse").tool("Agent", call).set("tool_input", spawn_input("Explore", words, words))
        };
        let end = |call: &str, agent: &str| {
            hook("PostToolUse").tool("Agent", call).harness_result(spawn_result(agent, "x"))
        };
        let start = |agent: &str| hook("SubagentStart").agent_type("Explore").agent(agent);
        let tree = tree(&hooked([
            hook("UserPromptSubmit"),
            call("t1", "first"),
            call("t2", "second"),
            start("a2"),
            start("a1"),
            end("t1", "a1"),
            end("t2", "a2"),
        ]));
        let told = |id: &str| {
            tree.agents.iter().find(|row| row.id.as_str() == id).and_then(|row| row.description.clone())
        };
        assert_eq!((told("a1").as_deref(), told("a2").as_deref()), (Some("first"), Some("second")));
        assert_eq!(tree.summary.agents, 2);
    }

    #[test]
    fn stop_of_an_agent_that_never_was_is_a_problem_and_no_agent() {
        let stop = hook("SubagentStop").agent_type("").agent("ghost");
        let tree = tree(&hooked([hook("UserPromptSubmit"), stop]));
        assert_eq!(tree.summary.agents, 0);
        assert_eq!(tree.problems.len(), 1, "{:?}", tree.problems);
    }

    #[test]
    fn the_harness_s_own_summarizer_is_no_problem() {
        let stop = || hook("SubagentStop").agent_type("").agent("ghost");
        let compacts = [hook("UserPromptSubmit"), hook("PreCompact"), stop(), hook("PostCompact")];
        let tree = tree(&hooked(compacts));
        assert_eq!((tree.summary.agents, tree.problems.len()), (0, 0), "{:?}", tree.problems);
        let after = [hook("UserPromptSubmit"), hook("PreCompact"), hook("PostCompact"), stop()];
        assert_eq!(subscope_testkit::sessions::tree(&hooked(after)).problems.len(), 1);
    }

    #[test]
    fn to_do_items_are_no_agents() {
        let made = |event: &str| hook(event).set("task_id", "1").set("task_subject", "Write tests");
        let parts = hooked([hook("UserPromptSubmit"), made("TaskCreated"), made("TaskCompleted")]);
        assert_eq!(tree(&parts).summary.agents, 0);
        let told: Vec<EventKind> = events(&parts).iter().map(|event| event.kind).collect();
        assert!(
            told.contains(&EventKind::TodoCreated) && told.contains(&EventKind::TodoCompleted),
            "{told:?}"
        );
    }
}

#[test]
fn a_record_that_names_the_parent_outranks_the_owner_of_a_repeated_call_id() {
    let call = "toolu_again";
    let task = |agent: Option<&str>| {
        let line = transcript::tool_use("Agent", call).input(spawn_input("Explore", "Look", "Look."));
        match agent {
            Some(id) => line.agent(id),
            None => line,
        }
    };
    let file = |id: &str, lines: Vec<Line>| Part::of(&format!("agent-{id}.jsonl"), lines).by_agent(id);
    let meta = |id: &str, line: Line| Part::of(&format!("agent-{id}.meta.json"), [line]).by_agent(id);
    let parts = vec![
        file("a2", vec![transcript::user("Look.").agent("a2")]),
        meta("a2", transcript::meta("Explore", call).set("spawnDepth", 2).set("parentAgentId", "a1")),
        Part::of("main.jsonl", [transcript::user("Go."), task(None)]),
        file("a1", vec![transcript::user("Look.").agent("a1"), task(Some("a1"))]),
        meta("a1", transcript::meta("Explore", call)),
    ];
    let tree = tree(&parts);
    let parents: Vec<_> =
        tree.agents.iter().map(|row| (row.id.as_str(), row.parent_id.as_deref(), row.depth)).collect();
    assert_eq!(parents, [("root", None, 0), ("a1", Some("root"), 1), ("a2", Some("a1"), 2)]);
}
