//! Sessions as people's disks have them, which scripted recordings do not show: one test for each value that was wrong. The
//! inputs are made up after public transcripts and reports (`fixtures/wild`).

#![allow(clippy::unwrap_used)]

use subscope_model::{
    AgentStatus, Flag, LivenessKind, ModelPrice, PriceTable, SessionRow, TokenPrices, ToolStatus, Tree,
    Usage, VendorCost, VendorUnit,
};
use subscope_session::Now;
use subscope_testkit::{
    fixtures, others,
    sessions::{LATER, Part, Telling, events, now, only_session, options, parts_of, read, sketch, tree},
};

fn part(name: &str) -> Part {
    let path = fixtures::root().join("wild").join(name);
    Part::new(path.file_name().unwrap().to_str().unwrap(), fixtures::bytes(&path))
}

fn wild(name: &str) -> Tree {
    tree(&[part(name)])
}

/// Returns the tree of a session with the prices of one model: input $5, output $25 a million.
fn priced(name: &str, model: &str) -> Tree {
    let router = read(&[part(name)], options(false));
    let short = TokenPrices {
        input: 5_000_000,
        output: 25_000_000,
        cache_read: Some(500_000),
        cache_write: Some(6_250_000),
        cache_write_1h: Some(10_000_000),
    };
    let models = [(model.to_owned(), ModelPrice { short, ..ModelPrice::default() })].into();
    let prices = PriceTable { models, ..PriceTable::default() };
    router.tree(&only_session(&router), &now(LATER, &prices)).unwrap()
}

#[test]
fn rejected_calls_are_denied_in_versions_without_a_word_for_it() {
    let tree = wild("rejected-call-is-error.jsonl");
    assert_eq!((tree.summary.tool_errors, tree.summary.tools_denied), (0, 2));
}

#[test]
fn an_agent_that_died_of_a_limit_has_failed_whatever_its_call_says() {
    let session = "limit-shown-completed/55555555-0000-4000-8000-000000000005";
    let parts = [
        part(&format!("{session}.jsonl")),
        part(&format!("{session}/subagents/agent-a5000000000000005.jsonl")).by_agent("a5000000000000005"),
    ];
    let tree = tree(&parts);
    let agent = &tree.agents[1];
    assert_eq!((tree.agents.len(), agent.status, tree.summary.failed), (2, AgentStatus::Failed, 1));
    assert_eq!(agent.error.as_deref(), Some("You've hit your limit · resets 6pm"));
}

#[test]
fn titles_are_what_a_person_typed() {
    for (name, title) in [
        ("title-slash-command.jsonl", "/docs describe the parser"),
        ("title-ide.jsonl", "why do the two projects overwrite each other"),
        ("codex-0.98-finished.jsonl", "count the lines of app.py"),
    ] {
        assert_eq!(wild(name).session.title.as_deref(), Some(title), "{name}");
    }
}

#[test]
fn names_of_sessions_come_before_prompts_and_the_last_one_counts() {
    let prompt = r#"{"type":"user","uuid":"u1","sessionId":"s","version":"2.1.330","timestamp":"2026-02-10T10:00:00.000Z","message":{"role":"user","content":"fix it"}}"#;
    let ai = r#"{"type":"ai-title","aiTitle":"Fix the parser","sessionId":"s"}"#;
    let named = |name: &str| format!(r#"{{"type":"custom-title","customTitle":"{name}","sessionId":"s"}}"#);
    for (lines, title) in [
        (vec![prompt.to_owned()], "fix it"),
        (vec![prompt.to_owned(), ai.to_owned()], "Fix the parser"),
        (vec![prompt.to_owned(), named("one"), named("two"), ai.to_owned()], "two"),
        (vec![prompt.to_owned(), named("")], "fix it"),
    ] {
        let tree = tree(&[Part::new("main.jsonl", lines.join("\n") + "\n")]);
        assert_eq!(tree.session.title.as_deref(), Some(title), "{lines:?}");
    }
    let thread = r#"{"timestamp":"2026-02-09T23:34:00.000Z","type":"event_msg","payload":{"type":"thread_name_updated","thread_name":"Lines of app.py"}}"#;
    let mut codex = part("codex-0.98-finished.jsonl");
    codex.bytes.extend_from_slice(thread.as_bytes());
    assert_eq!(tree(&[codex]).session.title.as_deref(), Some("Lines of app.py"));
}

#[test]
fn agents_of_the_harness_are_not_counted_but_what_they_used_is() {
    let line = |agent: &str, uuid: &str, message: &str| {
        format!(
            r#"{{"type":"{}","uuid":"{uuid}","parentUuid":null,"isSidechain":true,"agentId":"{agent}","sessionId":"s","version":"2.1.38","timestamp":"2026-02-10T10:00:01.000Z","message":{message}}}"#,
            if message.contains("assistant") { "assistant" } else { "user" }
        )
    };
    let answer = r#"{"id":"m1","role":"assistant","model":"m","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":7,"output_tokens":3}}"#;
    let main = r#"{"type":"user","uuid":"u1","sessionId":"s","version":"2.1.38","timestamp":"2026-02-10T10:00:00.000Z","message":{"role":"user","content":"fix it"}}"#;
    let main = Part::new("main.jsonl", format!("{main}\n"));
    for (agent, prompt) in [("a1", "Warmup"), ("acompact-1", "Summarize")] {
        let asked = line(agent, "x1", &format!(r#"{{"role":"user","content":"{prompt}"}}"#));
        let lines = format!("{asked}\n{}\n", line(agent, "x2", answer));
        let own = Part::new(&format!("agent-{agent}.jsonl"), lines).by_agent(agent);
        let tree = tree(&[main.clone(), own]);
        let row = &tree.agents[1];
        assert!(row.has(Flag::Warmup) && !row.has(Flag::Orphan), "{agent}: {:?}", row.flags);
        assert_eq!(
            (tree.summary.agents, tree.summary.completed, tree.summary.by_type.len()),
            (0, 0, 0),
            "{agent}"
        );
        assert_eq!(tree.summary.usage.unwrap().total_tokens, 10, "{agent}");
    }
}

#[test]
fn messages_of_agents_in_the_main_transcript_are_theirs() {
    let tree = wild("agent-progress.jsonl");
    assert_eq!(sketch(&tree), "root completed: Task ok\n  ab00001 Explore completed: Bash ok\n");
    let agent = &tree.agents[1];
    assert_eq!(agent.model.as_deref(), Some("claude-haiku-4-5-20251001"));
    assert_eq!(agent.usage.unwrap().total_tokens, 987);
    assert_eq!(agent.started_at_ms, Some(1_770_717_606_000));
    // The same lines in a file of the agent's own count once.
    let own = |kind: &str, rest: &str| {
        format!(
            r#"{{"type":"{kind}","isSidechain":true,"agentId":"ab00001","sessionId":"22222222-0000-4000-8000-000000000002","version":"2.1.29",{rest}}}"#
        )
    };
    let lines = [
        own(
            "user",
            r#""uuid":"x1","parentUuid":null,"timestamp":"2026-02-10T10:00:06.000Z","message":{"role":"user","content":"Look"}"#,
        ),
        own(
            "assistant",
            r#""uuid":"x2","parentUuid":"x1","requestId":"req_9","timestamp":"2026-02-10T10:00:09.000Z","message":{"id":"msg_9","role":"assistant","model":"claude-haiku-4-5-20251001","content":[{"type":"tool_use","id":"toolu_9","name":"Bash","input":{"command":"ls"}}],"stop_reason":null,"usage":{"input_tokens":4,"output_tokens":3,"cache_read_input_tokens":900,"cache_creation_input_tokens":80}}"#,
        ),
    ];
    let own = Part::new("agent-ab00001.jsonl", lines.join("\n") + "\n").by_agent("ab00001");
    let both = subscope_testkit::sessions::tree(&[part("agent-progress.jsonl"), own]);
    assert_eq!((sketch(&both), both.summary.usage), (sketch(&tree), tree.summary.usage));
}

#[test]
fn of_an_agent_without_lines_the_sums_of_its_call_are_known() {
    let tree = wild("spawn-totals.jsonl");
    let agent = &tree.agents[1];
    assert_eq!((agent.tool_calls, agent.wall_ms, agent.status), (14, Some(134_000), AgentStatus::Completed));
    let usage = agent.usage.unwrap();
    assert_eq!((usage.total_tokens, usage.floor, agent.cost_micro_usd), (35_378, true, None));
    assert!(tree.summary.usage.unwrap().floor && tree.agents[0].subtree.usage.unwrap().floor);
    assert_eq!((tree.summary.tool_calls, tree.agents[0].subtree.tool_calls), (15, 15));
    let summary = priced("spawn-totals.jsonl", "claude-opus-4-6").summary;
    assert!(summary.cost_micro_usd.is_some() && summary.cost_floor);
}

#[test]
fn responses_without_ids_count() {
    for name in ["noid.jsonl", "emptyid.jsonl"] {
        let tree = wild(name);
        let root = &tree.agents[0];
        assert_eq!(tree.summary.usage.map(|usage| usage.total_tokens), Some(11_200), "{name}");
        assert_eq!(root.status, AgentStatus::Completed, "{name}");
        assert!(root.model.is_some(), "{name}");
    }
}

#[test]
fn what_changes_the_price_of_a_response_is_priced() {
    let cost = |name: &str| {
        let summary = priced(name, "claude-opus-4-6").summary;
        (summary.cost_micro_usd, summary.cost_floor)
    };
    assert_eq!(cost("price-1.jsonl"), (Some(750_000), false), "standard");
    assert_eq!(cost("price-2.jsonl"), (Some(4_500_000), false), "fast");
    assert_eq!(cost("price-3.jsonl"), (Some(375_000), false), "batch");
    assert_eq!(cost("price-4.jsonl"), (Some(950_000), false), "20 searches");
    assert_eq!(cost("price-5.jsonl"), (Some(825_000), false), "in the US only");
    let mut unknown = part("price-2.jsonl");
    unknown.bytes =
        String::from_utf8(unknown.bytes).unwrap().replace(r#""speed":"fast""#, r#""speed":"warp""#).into();
    let summary = tree(&[unknown]).summary;
    assert_eq!(summary.cost_micro_usd, None, "no public price");
}

#[test]
fn calls_without_known_arguments_are_no_loop() {
    let tree = wild("otel-three-reads.jsonl");
    assert_eq!(tree.summary.tool_calls, 3);
    assert!(tree.agents.iter().all(|agent| !agent.has(Flag::Looping)));
}

#[test]
fn a_spawn_that_codex_refuses_starts_no_agent() {
    let tree = wild("codex-v2-limit.jsonl");
    assert_eq!((tree.agents.len(), tree.agents[0].tools[0].status), (1, ToolStatus::Error));
    let depth = part("codex-v2-limit.jsonl");
    let text = String::from_utf8(depth.bytes.clone()).unwrap();
    for output in ["Agent depth limit reached. Solve the task yourself.", "something that no version says"] {
        let text = text.replace("collab spawn failed: agent thread limit reached", output);
        let tree = subscope_testkit::sessions::tree(&[Part { bytes: text.into(), ..depth.clone() }]);
        assert_eq!((tree.agents.len(), tree.agents[0].tools[0].status), (1, ToolStatus::Error), "{output}");
    }
}

#[test]
fn a_codex_session_of_summer_2025_is_read() {
    let tree = wild("codex-2025-08.jsonl");
    assert_eq!(&*tree.session.id, "11111111-2222-4333-8444-555566667777");
    assert_eq!(tree.session.title.as_deref(), Some("count the lines of app.py"));
    assert_eq!(sketch(&tree), "root completed: shell ok\n");
    assert_eq!(tree.session.started_at_ms, Some(1_755_591_908_061));
    assert_eq!((tree.summary.usage, tree.problems.len()), (None, 0));
}

#[test]
fn a_codex_session_without_records_of_turns_ends_with_its_last_text() {
    let tree = wild("codex-0.98-finished.jsonl");
    assert_eq!(sketch(&tree), "root completed: shell_command ok\n");
    assert_eq!(tree.summary.usage.unwrap().total_tokens, 1_020);
    // Without the answer it has not ended.
    let cut = part("codex-0.98-finished.jsonl");
    let text = String::from_utf8(cut.bytes.clone()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("Two lines.")).collect();
    let tree =
        subscope_testkit::sessions::tree(&[Part { bytes: (lines.join("\n") + "\n").into(), ..cut.clone() }]);
    assert_eq!(tree.agents[0].status, AgentStatus::Lost);
    let aborted = r#"{"timestamp":"2026-02-09T23:34:00.000Z","type":"event_msg","payload":{"type":"turn_aborted","reason":"interrupted"}}"#;
    let stopped =
        subscope_testkit::sessions::tree(&[Part { bytes: format!("{text}{aborted}\n").into(), ..cut }]);
    assert_eq!(stopped.agents[0].status, AgentStatus::Stopped);
}

#[test]
fn calls_of_the_vendors_tools_are_calls() {
    let tree = wild("codex-web-search.jsonl");
    assert_eq!(sketch(&tree), "root completed: web_search ok, web_search ok\n");
    assert_eq!(tree.agents[0].tools[0].detail.as_deref(), Some("markdown renderer"));
}

#[test]
fn a_line_whose_time_cannot_be_read_is_not_of_1970() {
    let tree = wild("codex-bad-time.jsonl");
    assert!(tree.session.started_at_ms.is_some_and(|at| at > 1_700_000_000_000));
    assert!(tree.agents[0].started_at_ms.is_some_and(|at| at > 1_700_000_000_000));
    assert!(tree.session.run_started_at_ms.is_none_or(|at| at > 1_700_000_000_000), "{:?}", tree.session);
}

#[test]
fn a_copilot_session_that_ends_with_an_error_has_failed() {
    let tree = wild("copilot-402.jsonl");
    let root = &tree.agents[0];
    assert_eq!((root.status, root.error.as_deref()), (AgentStatus::Failed, Some("402 You have no quota")));
    let mut answered = part("copilot-402.jsonl");
    let answer = r#"{"type":"assistant.message","data":{"messageId":"m1","content":"hello","toolRequests":[]},"id":"e7","timestamp":"2026-03-29T22:36:50.000Z","parentId":"e6"}"#;
    answered.bytes.extend_from_slice(format!("{answer}\n").as_bytes());
    assert_eq!(subscope_testkit::sessions::tree(&[answered]).agents[0].status, AgentStatus::Completed);
}

#[test]
fn a_session_with_nothing_but_local_commands_has_ended() {
    let line = |kind: &str, rest: &str| {
        format!(
            r#"{{"type":"{kind}","uuid":"u1","sessionId":"s","version":"2.1.42","timestamp":"2026-02-10T10:00:00.000Z",{rest}}}"#
        )
    };
    let command = |name: &str| {
        let words =
            format!("<command-name>/{name}</command-name>\\n<command-message>{name}</command-message>");
        let prompt = line("user", &format!(r#""message":{{"role":"user","content":"{words}"}}"#));
        [prompt, line("system", &format!(r#""subtype":"local_command","content":"{words}""#))]
    };
    let mut all: Vec<Part> = ["exit", "clear", "mcp"]
        .iter()
        .flat_map(|name| command(name))
        .map(|line| Part::new("main.jsonl", line + "\n"))
        .collect();
    all.push(part("only-local-command.jsonl"));
    for part in all {
        let router = read(std::slice::from_ref(&part), options(false));
        let text = String::from_utf8(part.bytes).unwrap();
        let prices = PriceTable::default();
        let session = only_session(&router);
        let root = &router.tree(&session, &now(LATER, &prices)).unwrap().agents[0];
        assert_eq!((root.status, &root.liveness), (AgentStatus::Completed, &None), "{text}");
        // Just typed, it waits for a prompt.
        let begun = root.started_at_ms.unwrap();
        let soon = Now { is_growing: true, ..now(begun + 60_000, &prices) };
        let root = &router.tree(&session, &soon).unwrap().agents[0];
        let idle = root.liveness.as_ref().map(|liveness| liveness.kind);
        assert_eq!((root.status, idle), (AgentStatus::Running, Some(LivenessKind::Idle)), "{text}");
    }
}

#[test]
fn the_order_of_lines_beats_a_clock_that_was_set_back() {
    for name in ["root-clock-set-back-60s.jsonl", "root-last-line-2s-earlier.jsonl"] {
        let tree = wild(&format!("clock-back/{name}"));
        assert_eq!(sketch(&tree), "root completed: Bash ok\n", "{name}");
    }
    let session = "e0e00005-0000-4000-8000-000000000001";
    let agent = format!("clock-back/{session}/subagents/agent-ac00000000000001");
    let background = tree(&[
        part(&format!("clock-back/{session}.jsonl")),
        part(&format!("{agent}.jsonl")).by_agent("ac00000000000001"),
        part(&format!("{agent}.meta.json")).by_agent("ac00000000000001"),
    ]);
    assert_eq!(
        sketch(&background),
        "root completed: Agent ok\n  ac00000000000001 general-purpose completed: Bash ok\n"
    );
}

#[test]
fn parallel_agents_count_once_while_they_start() {
    let parts = [part("twice-main.jsonl"), part("twice-hooks.jsonl")];
    let both = tree(&parts);
    assert_eq!((both.summary.agents, both.agents.len()), (3, 4), "{}", sketch(&both));
    assert!(both.agents[1..].iter().all(|row| row.description.is_some() && row.agent_type.is_some()));
    let rest = |part: &Part, from: usize| {
        let lines = part.lines();
        Part { bytes: lines[from.min(lines.len())..].concat(), ..part.clone() }
    };
    let first = |part: &Part, count: usize| Part { bytes: part.lines()[..count].concat(), ..part.clone() };
    // Of calls of one type it is open which of them started which agent, but not how many there are.
    let alike = |part: &Part| {
        let text = String::from_utf8(part.bytes.clone()).unwrap();
        Part {
            bytes: text.replace("\"Plan\"", "\"Explore\"").replace("general-purpose", "Explore").into(),
            ..part.clone()
        }
    };
    for parts in [parts.clone(), parts.clone().map(|part| alike(&part))] {
        for (lines, hooks) in (0..=5).flat_map(|lines| (0..=6).map(move |hooks| (lines, hooks))) {
            let known = [first(&parts[0], lines), first(&parts[1], hooks)];
            let started = lines.saturating_sub(2).max(hooks.saturating_sub(3));
            for order in [[0, 1], [1, 0]] {
                if lines + hooks == 0 {
                    continue;
                }
                let tree = tree(&order.map(|at: usize| known[at].clone()));
                let agents = tree.summary.agents as usize;
                assert!((started..=3).contains(&agents), "{lines} {hooks}: {}", sketch(&tree));
                assert!(hooks > 3 || agents == started, "{lines} {hooks}: {}", sketch(&tree));
            }
        }
        // Hooks without the begin of the calls: a hub that was started late.
        let tree = tree(&[parts[0].clone(), rest(&parts[1], 3)]);
        assert_eq!(tree.summary.agents, 3, "{}", sketch(&tree));
    }
}

#[test]
fn an_interim_notice_does_not_outrank_later_endings() {
    for name in ["interim-notice-then-report.jsonl", "interim-notice-then-stop.jsonl"] {
        let agent = &wild(name).agents[1];
        assert_eq!((agent.status, agent.result.as_deref()), (AgentStatus::Completed, Some("two")), "{name}");
        // Before the last stop it is at work.
        let mut cut = part(name);
        let lines = cut.lines();
        let last =
            lines.iter().rposition(|line| String::from_utf8_lossy(line).contains("SubagentStop")).unwrap();
        cut.bytes = lines[..last].concat();
        let agent = &tree(&[cut]).agents[1];
        assert_eq!((agent.status, &agent.result), (AgentStatus::Lost, &None), "{name}");
    }
}

fn tree_soon(parts: &[Part], at: &str) -> Tree {
    let router = read(parts, options(false));
    let prices = PriceTable::default();
    let now = Now { is_growing: true, ..now(subscope_model::parse_rfc3339(at).unwrap(), &prices) };
    router.tree(&only_session(&router), &now).unwrap()
}

/// The lines of a source that `keeps` accepts.
fn only(part: &Part, keeps: impl Fn(&str) -> bool) -> Part {
    let lines = part.lines();
    let kept = lines.iter().filter(|line| keeps(&String::from_utf8_lossy(line)));
    Part { bytes: kept.flatten().copied().collect(), ..part.clone() }
}

#[test]
fn a_teammate_ends_when_it_or_its_team_is_shut_down() {
    let whole = part("teammate-shut-down.jsonl");
    let is_approval = |line: &str| line.contains("shutdown_approved");
    let is_deletion = |line: &str| line.contains("deleted") || line.contains("TeamDelete");
    let terminated = Part {
        bytes: String::from_utf8(whole.bytes.clone())
            .unwrap()
            .replace(
                r#"{\"type\":\"shutdown_approved\",\"requestId\":\"shutdown-1@tester\",\"from\":\"tester\","#,
                r#"{\"type\":\"teammate_terminated\",\"message\":\"tester has shut down.\","#,
            )
            .into(),
        ..whole.clone()
    };
    assert_ne!(terminated.bytes, whole.bytes);
    for lines in [
        whole.clone(),
        only(&whole, |line| !is_approval(line)),
        only(&whole, |line| !is_deletion(line)),
        only(&terminated, |line| !is_deletion(line)),
    ] {
        let agents = tree_soon(std::slice::from_ref(&lines), "2026-02-10T10:05:30Z").agents;
        let text = String::from_utf8_lossy(&lines.bytes);
        assert_eq!((agents.len(), agents[1].status), (2, AgentStatus::Completed), "{text}");
        assert_eq!(
            (agents[1].name.as_deref(), agents[1].agent_type.as_deref()),
            (Some("tester"), Some("general-purpose"))
        );
        assert_eq!(tree(&[lines]).summary.lost, 0);
    }
    let shown = tree(std::slice::from_ref(&whole));
    assert_eq!(shown.agents[1].title(), "general-purpose: tester: Write tests");
    let title = shown.session.title;
    assert_eq!(title.as_deref(), Some("make a team"));
    // Nothing says that it ended.
    let lines = only(&whole, |line| !is_approval(line) && !is_deletion(line));
    assert_eq!(
        tree_soon(std::slice::from_ref(&lines), "2026-02-10T10:05:30Z").agents[1].status,
        AgentStatus::Running
    );
    assert_eq!(tree(&[lines]).agents[1].status, AgentStatus::Lost);
}

#[test]
fn a_teammate_that_waits_for_messages_is_idle_and_appears_once() {
    let line = |kind: &str, at: &str, rest: &str| {
        format!(
            r#"{{"type":"{kind}","uuid":"{at}","sessionId":"5e55aaaa-0000-4000-8000-000000000001","version":"2.1.332","timestamp":"2026-11-26T18:{at}Z",{rest}}}"#
        ) + "\n"
    };
    let call = r#""message":{"id":"m1","role":"assistant","model":"claude-opus-5-5","content":[{"type":"tool_use","id":"t1","name":"Agent","input":{"description":"Reads the server","prompt":"Read it.","subagent_type":"general-purpose","name":"ada"}}],"stop_reason":"tool_use","usage":{}}"#;
    let result = r#""message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"Spawned."}]},"toolUseResult":{"status":"teammate_spawned","teammate_id":"ada@s","agent_id":"ada@s","name":"ada","team_name":"s"}"#;
    let notice = String::from_utf8(part("teammate-message-line.jsonl").bytes).unwrap();
    let asked = line("user", "30:00.000", r#""message":{"role":"user","content":"start the team"}"#);
    let begun = asked + &line("assistant", "30:01.000", call) + &line("user", "30:02.000", result);
    let done = line(
        "assistant",
        "31:44.000",
        r#""message":{"id":"m2","role":"assistant","model":"claude-opus-5-5","content":[{"type":"text","text":"Nothing wrong."}],"stop_reason":"end_turn","usage":{}}"#,
    );
    let main = |lines: String| Part::new("main.jsonl", lines);
    let own = |task: &str, id: &str| {
        let asked = line(
            "user",
            "30:03.000",
            &format!(
                r#""agentId":"{id}","isSidechain":true,"parentUuid":null,"message":{{"role":"user","content":"{task}"}}"#
            ),
        );
        let answer = line(
            "assistant",
            "31:42.000",
            &format!(
                r#""agentId":"{id}","isSidechain":true,"message":{{"id":"m3","role":"assistant","model":"claude-opus-5-5","content":[{{"type":"text","text":"Nothing wrong."}}],"stop_reason":"end_turn","usage":{{}}}}"#
            ),
        );
        Part::new("agent-a1.jsonl", asked + &answer).by_agent(id)
    };
    let meta = part("teammate.meta.json").by_agent("a1");
    let words = r#"<teammate-message teammate_id=\"team-lead\">\nRead it.\n</teammate-message>"#;
    let other = r#"Something else."#;
    let ended = format!("{begun}{notice}{done}");
    for parts in [
        vec![main(ended.clone())],
        vec![main(ended.clone()), own("Read it.", "a1")],
        vec![main(ended.clone()), own(words, "a1")],
        vec![main(ended.clone()), own(other, "a1"), meta.clone()],
        vec![main(format!("{begun}{done}")), own(other, "a1"), meta.clone()],
    ] {
        let soon = tree_soon(&parts, "2026-11-26T18:32:00Z");
        let agent = &soon.agents[1];
        let kind = agent.liveness.as_ref().map(|liveness| liveness.kind);
        assert_eq!(
            (soon.agents.len(), agent.status, kind),
            (2, AgentStatus::Running, Some(LivenessKind::Idle)),
            "{}",
            sketch(&soon)
        );
        assert_eq!(
            (agent.name.as_deref(), agent.agent_type.as_deref()),
            (Some("ada"), Some("general-purpose"))
        );
        assert!(!agent.is_at_work() && !agent.has(Flag::Orphan) && soon.session.runs == 1);
        // With the session it has ended.
        let later = tree(&parts);
        assert_eq!(
            (later.agents[1].status, later.summary.lost),
            (AgentStatus::Completed, 0),
            "{}",
            sketch(&later)
        );
    }
    // Another message gives it another turn.
    let mut again = own(words, "a1");
    again.bytes.extend(line("user", "31:50.000", r#""agentId":"a1","isSidechain":true,"message":{"role":"user","content":"<teammate-message teammate_id=\"team-lead\">\nAnd the client?\n</teammate-message>"}"#).bytes());
    let soon = tree_soon(&[main(ended), again, meta], "2026-11-26T18:32:00Z");
    assert_eq!(soon.agents[1].liveness.as_ref().unwrap().kind, LivenessKind::Model);
}

#[test]
fn titles_are_the_names_that_a_person_or_the_harness_gave() {
    let line = |kind: &str, id: &str, rest: &str| {
        format!(
            r#"{{"type":"{kind}","uuid":"{id}","sessionId":"s","version":"2.1.332","timestamp":"2026-02-10T10:00:00.000Z",{rest}}}"#
        ) + "\n"
    };
    let said = |id: &str, words: &str, rest: &str| {
        line("user", id, &format!(r#""message":{{"role":"user","content":"{words}"}}{rest}"#))
    };
    let asked = said("u1", "fix it", "");
    let rename = r"<command-name>/rename</command-name>\n<command-message>rename</command-message>\n<command-args>my parser</command-args>";
    let summary = |leaf: &str| {
        format!(r#"{{"type":"summary","summary":"Fixing the parser","leafUuid":"{leaf}"}}"#) + "\n"
    };
    for (lines, title) in [
        (asked.clone() + &said("u2", rename, ""), "my parser"),
        (
            asked.clone()
                + &line("system", "u2", &format!(r#""subtype":"local_command","content":"{rename}""#)),
            "my parser",
        ),
        (asked.clone() + r#"{"type":"agent-name","agentName":"parser","sessionId":"s"}"# + "\n", "parser"),
        (summary("u1") + &asked, "Fixing the parser"),
        (asked.clone() + &summary("u1"), "Fixing the parser"),
        (summary("of another session") + &asked, "fix it"),
        (said("u0", "A reminder of the harness.", r#","rowSource":"harness""#) + &asked, "fix it"),
    ] {
        let tree = tree(&[Part::new("main.jsonl", lines.clone())]);
        assert_eq!((tree.session.title.as_deref(), tree.session.runs), (Some(title), 1), "{lines}");
    }
}

#[test]
fn an_agent_of_gemini_that_is_one_object_is_that_of_its_call() {
    let folder = "gemini-json-children/tmp/p/chats";
    let main = part(&format!("{folder}/session-2026-04-16T22-38-aaaaaaaa.json"));
    let mut child =
        part(&format!("{folder}/aaaaaaaa-1111-4222-8333-444455556666/xs82vp.json")).by_agent("xs82vp");
    child.spec.session = Some("aaaaaaaa-1111-4222-8333-444455556666".to_owned());
    for parts in [vec![main.clone(), child.clone()], vec![child.clone(), main.clone()]] {
        let tree = tree(&parts);
        assert_eq!(
            sketch(&tree),
            "root completed: save_memory ok\n  xs82vp save_memory completed: read_file ok\n"
        );
        let agent = &tree.agents[1];
        assert_eq!(agent.usage.unwrap().total_tokens, 5_050);
        assert_eq!(agent.model.as_deref(), Some("gemini-3-flash-preview"));
        assert_eq!(agent.spawned_by.as_ref().unwrap().as_str(), "save_memory_1_1");
        assert_eq!(agent.started_at_ms, Some(1_776_379_429_000));
        assert_eq!(agent.result.as_deref(), Some("done"));
    }
    // Two at once, of which each has its own task.
    let twice = |part: &Part, from: &str, to: &str| {
        let text = String::from_utf8(part.bytes.clone()).unwrap();
        Part { bytes: text.replace(from, to).into(), ..part.clone() }
    };
    let text = String::from_utf8(main.bytes.clone()).unwrap();
    let at = text.find("{\"id\":\"save_memory_1_1\"").unwrap();
    let end = text[at..].find("}]},\n").unwrap() + at + 1;
    let second =
        text[at..end].replace("save_memory_1_1", "save_memory_1_2").replace("remember this", "forget that");
    let both = Part { bytes: format!("{}{second},{}", &text[..at], &text[at..]).into(), ..main };
    let mut other = twice(&twice(&child, "remember this", "forget that"), "xs82vp", "yy11zz");
    other.spec.agent = Some("yy11zz".to_owned());
    let tree = tree(&[both, twice(&child, "c1", "c1"), other]);
    let of = |id: &str| {
        tree.agents.iter().find(|agent| agent.id.as_str() == id).unwrap().spawned_by.clone().unwrap()
    };
    assert_eq!((of("xs82vp").as_str(), of("yy11zz").as_str()), ("save_memory_1_1", "save_memory_1_2"));
}

#[test]
fn what_editors_and_programs_put_around_a_prompt_is_no_title() {
    let codex = |events: &[&str]| {
        let event = |message: &&str| {
            let message = serde_json::Value::from(*message);
            format!(
                r#"{{"timestamp":"2026-02-09T23:30:00.000Z","type":"event_msg","payload":{{"type":"user_message","message":{message}}}}}"#
            )
        };
        let head = r#"{"timestamp":"2026-02-09T23:29:00.000Z","type":"session_meta","payload":{"id":"11111111-2222-4333-8444-555566667777","cwd":"/w","cli_version":"0.98.0","source":"vscode"}}"#;
        let lines: Vec<String> = std::iter::once(head.to_owned()).chain(events.iter().map(event)).collect();
        tree(&[Part::new("rollout.jsonl", lines.join("\n") + "\n")]).session.title
    };
    let instructions = "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nbe brief\n</INSTRUCTIONS>";
    let context = "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>";
    let files =
        "# Files mentioned by the user:\n\n## a.py: /w/a.py\n\n## My request for Codex:\nwhy is it slow\n";
    for (events, title) in [
        (vec![instructions, context, "fix it"], "fix it"),
        (vec![context, files], "why is it slow"),
        (vec!["# Context from my IDE setup:\n\n## Open tabs:\n- a.py: a.py\n"], "a.py: a.py"),
    ] {
        assert_eq!(codex(&events).as_deref(), Some(title), "{events:?}");
    }
    let hook = r##"{"session_id":"11111111-2222-4333-8444-555566667777","turn_id":"t","model":"m","hook_event_name":"UserPromptSubmit","transcript_path":null,"prompt":"# Context from my IDE setup:\n\n## My request for Codex:\nfix it"}"##;
    assert_eq!(
        tree(&[Part::new("hooks.jsonl", format!("{hook}\n"))]).session.title.as_deref(),
        Some("fix it")
    );
    let qwen = |parts: &str| {
        let line = format!(
            r#"{{"uuid":"u","sessionId":"e7aca853-d301-42cb-88c6-30ce138fe9e1","timestamp":"2026-02-09T23:30:00.000Z","type":"user","provenance":"real_user","message":{{"parts":[{parts}]}},"systemPayload":{{"displayText":"fix it"}}}}"#
        );
        tree(&[Part::new("chat.jsonl", line + "\n")])
    };
    let added =
        r#"{"text":"<qwen:user-prompt-submit-context>\nremember\n</qwen:user-prompt-submit-context>"}"#;
    for parts in [added.to_owned(), format!("{added},{{\"text\":\"fix it\\n@a.py\"}}")] {
        let tree = qwen(&parts);
        assert_eq!((tree.session.title.as_deref(), tree.session.runs), (Some("fix it"), 1), "{parts}");
    }
}

#[test]
fn tokens_of_a_compaction_are_missing_until_the_harness_reports_its_sum() {
    let parts = parts_of(
        &fixtures::recording("2.1.330", "interactive-compact"),
        &[Telling::Transcript, Telling::Hooks],
    );
    let whole = tree(&parts);
    assert!(whole.problems.is_empty(), "{:?}", whole.problems);
    assert!(!whole.summary.usage.unwrap().floor);
    let open: Vec<Part> = parts.iter().map(|part| only(part, |line| !line.contains("cost-state"))).collect();
    let open = tree(&open);
    assert!(open.summary.usage.unwrap().floor);
    assert!(open.summary.usage.unwrap().total_tokens < whole.summary.usage.unwrap().total_tokens);
}

#[test]
fn hooks_that_are_installed_twice_count_once() {
    let claude_code = [
        ("1.0.128", "a-single"),
        ("2.0.76", "b-parallel"),
        ("2.1.50", "d-background"),
        ("2.1.330", "interactive-compact"),
    ];
    let hooks = |(version, scenario)| {
        let parts = parts_of(&fixtures::recording(version, scenario), &[Telling::Hooks]);
        (format!("{version} {scenario}"), parts)
    };
    let others = others::other_recordings().into_iter().flat_map(|recording| recording.choices());
    let others: Vec<(String, Vec<Part>)> = others.filter(|(name, _)| name.ends_with(" Hooks")).collect();
    assert!(
        others.len() >= 12,
        "hooks of Codex, Copilot CLI, Gemini CLI, OpenCode and Qwen Code: {}",
        others.len()
    );
    for (name, once) in claude_code.into_iter().map(hooks).chain(others) {
        let twice = once[0].lines().iter().flat_map(|line| [line.clone(), line.clone()]).flatten().collect();
        let twice = [Part { bytes: twice, ..once[0].clone() }];
        let (one, two) = (tree(&once), tree(&twice));
        assert_eq!(sketch(&one), sketch(&two), "{name}");
        assert_eq!((one.session.runs, one.problems.len()), (two.session.runs, two.problems.len()), "{name}");
        let kinds = |parts: &[Part]| -> Vec<_> { events(parts).iter().map(|event| event.kind).collect() };
        assert_eq!(kinds(&once), kinds(&twice), "{name}");
    }
}

#[test]
fn threads_that_codex_starts_for_itself_are_no_sessions_of_the_user() {
    for (source, originator, is_own) in [
        (r#"{"subagent":{"other":"guardian"}}"#, "codex_cli_rs", true),
        (r#"{"subagent":"memory_consolidation"}"#, "codex_cli_rs", true),
        (r#""exec""#, "codex_vscode", true),
        (r#""exec""#, "codex_exec", false),
        (r#""vscode""#, "codex_vscode", false),
        (r#"{"subagent":"review"}"#, "codex_cli_rs", false),
    ] {
        let head = format!(
            r#"{{"timestamp":"2026-02-09T23:29:00.000Z","type":"session_meta","payload":{{"id":"11111111-2222-4333-8444-555566667777","cwd":"/w","originator":"{originator}","cli_version":"0.120.0","source":{source}}}}}"#
        );
        let rest = [
            r#"{"timestamp":"2026-02-09T23:30:00.000Z","type":"event_msg","payload":{"type":"user_message","message":"check this call"}}"#,
            r#"{"timestamp":"2026-02-09T23:30:01.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":7,"output_tokens":3,"total_tokens":10},"last_token_usage":{"input_tokens":7,"output_tokens":3,"total_tokens":10}}}}"#,
        ];
        let tree = tree(&[Part::new("rollout.jsonl", format!("{head}\n{}\n", rest.join("\n")))]);
        let row = SessionRow::of(&tree);
        assert_eq!((row.is_own, row.usage.unwrap().total_tokens), (is_own, 10), "{source} {originator}");
    }
}

#[test]
fn what_copilot_used_without_agents_is_the_roots() {
    let lines = [
        r#"{"type":"session.start","data":{"sessionId":"44444444-2222-4333-8444-555566667777","version":1,"producer":"copilot-agent","copilotVersion":"1.0.60","context":{"cwd":"/w"}},"id":"e1","timestamp":"2026-03-29T22:36:08.000Z","parentId":null}"#,
        r#"{"type":"assistant.message","data":{"messageId":"m1","content":"hello","model":"m-1","outputTokens":5,"toolRequests":[]},"id":"e2","timestamp":"2026-03-29T22:36:10.000Z","parentId":"e1"}"#,
        r#"{"type":"session.shutdown","data":{"shutdownType":"routine","totalPremiumRequests":1,"modelMetrics":{"m-1":{"usage":{"inputTokens":100,"outputTokens":5,"cacheReadTokens":40,"cacheWriteTokens":0}},"m-2":{"usage":{"inputTokens":10,"outputTokens":1,"cacheReadTokens":0,"cacheWriteTokens":0}}}},"id":"e3","timestamp":"2026-03-29T22:36:40.000Z","parentId":"e2"}"#,
    ];
    let copilot = tree(&[Part::new("events.jsonl", lines.join("\n") + "\n")]);
    assert_eq!(copilot.agents[0].usage.unwrap().total_tokens, 116);
    let premium = |amount_micro| VendorCost { unit: VendorUnit::PremiumRequests, amount_micro };
    assert_eq!(copilot.summary.vendor_costs, [premium(1_000_000)]);
    assert_eq!(copilot.summary.unattributed_usage.map_or(0, |usage| usage.total_tokens), 0);
    // With an agent it is not known who used what, but for the output that its messages name.
    let agent = lines[1].replace("\"id\":\"e2\"", "\"agentId\":\"a1\",\"id\":\"e2\"");
    let tree = tree(&[Part::new("events.jsonl", [lines[0], &agent, lines[2]].join("\n") + "\n")]);
    assert_eq!(tree.agents[0].usage, None);
    let of_agent = Usage { floor: true, ..Usage::new(0, 5, 0, 0) };
    assert_eq!((tree.agents[1].usage, tree.summary.usage.unwrap().floor), (Some(of_agent), false));
    assert_eq!(tree.summary.unattributed_usage.unwrap().total_tokens, 111);
}

#[test]
fn costs_in_units_of_a_vendor_are_those_of_all_processes() {
    let start = r#"{"type":"session.start","data":{"sessionId":"44444444-2222-4333-8444-555566667778","version":1,"producer":"copilot-agent","copilotVersion":"1.0.39"},"id":"e1","timestamp":"2026-03-29T22:36:08.000Z","parentId":null}"#;
    let shutdown = |id: &str, second: u32, fields: &str| {
        format!(
            r#"{{"type":"session.shutdown","data":{{{fields}}},"id":"{id}","timestamp":"2026-03-29T22:37:{second:02}.000Z"}}"#
        )
    };
    let costs = |lines: &[&str]| {
        let tree = tree(&[Part::new("events.jsonl", format!("{start}\n{}\n", lines.join("\n")))]);
        assert_eq!(tree.summary.usage, None, "a cost is no tokens");
        tree.summary.vendor_costs.iter().map(|cost| (cost.unit, cost.amount_micro)).collect::<Vec<_>>()
    };
    let (premium, units) = (VendorUnit::PremiumRequests, VendorUnit::AiUnits);
    assert_eq!(costs(&[]), [], "nothing said is not zero");
    let first = shutdown("e2", 1, r#""totalPremiumRequestCost":3,"totalNanoAiu":2.5e9"#);
    assert_eq!(costs(&[&first]), [(premium, 3_000_000), (units, 2_500_000)]);
    // Each process says what it has cost; one that says it twice counts once.
    let second = shutdown("e3", 2, r#""totalPremiumRequests":0.33"#);
    assert_eq!(costs(&[&first, &first, &second]), [(premium, 3_330_000), (units, 2_500_000)]);
    // The totals of a session are not added.
    let all = |id, second, count: u32| {
        shutdown(id, second, &format!(r#""agentMetrics":{{}},"totalPremiumRequestCost":{count}"#))
    };
    assert_eq!(costs(&[&all("e4", 4, 2), &all("e5", 5, 5)]), [(premium, 5_000_000)]);
    let wrong = shutdown("e6", 6, r#""totalPremiumRequestCost":-1,"totalNanoAiu":"many""#);
    assert_eq!(costs(&[&wrong]), []);
}

/// Lines as Copilot 1.0.60 writes them, without their sums if `lasts`: its messages have output tokens, and nothing else
/// says what one agent used.
#[test]
fn tokens_of_messages_are_lower_bounds_of_their_agents() {
    let line = |id: &str, second: u32, kind: &str, agent: Option<&str>, data: &str| {
        let agent = agent.map(|agent| format!(r#""agentId":"{agent}","#)).unwrap_or_default();
        format!(
            r#"{{"type":"{kind}","data":{{{data}}},{agent}"id":"{id}","timestamp":"2026-03-29T22:36:{second:02}.000Z"}}"#
        )
    };
    let message = |id: &str, second, agent, model: &str, tokens: u32| {
        let data =
            format!(r#""messageId":"m{id}","content":"ok","toolRequests":[],{model}"outputTokens":{tokens}"#);
        line(id, second, "assistant.message", agent, &data)
    };
    let session = |model: &str, behind: &[String]| {
        let start = r#""sessionId":"44444444-2222-4333-8444-555566667777","version":1,"producer":"copilot-agent","copilotVersion":"1.0.60""#;
        let task =
            r#""toolCallId":"call_1","toolName":"task","arguments":{"agent_type":"explore","prompt":"look"}"#;
        let mut lines = vec![
            line("e1", 1, "session.start", None, start),
            message("e2", 2, None, model, 10),
            line("e3", 3, "tool.execution_start", None, task),
            line(
                "e4",
                4,
                "subagent.started",
                Some("call_1"),
                r#""toolCallId":"call_1","agentName":"explore""#,
            ),
            message("e5", 5, Some("call_1"), model, 20),
            message("e6", 6, Some("call_1"), model, 22),
            line("e7", 7, "subagent.completed", Some("call_1"), r#""toolCallId":"call_1""#),
        ];
        lines.extend_from_slice(behind);
        tree(&[Part::new("events.jsonl", lines.join("\n") + "\n")])
    };
    let floor = |output| Some(Usage { floor: true, ..Usage::new(0, output, 0, 0) });
    let with_model = r#""model":"gpt-5","#;
    let at_work = session(with_model, &[]);
    assert_eq!([at_work.agents[0].usage, at_work.agents[1].usage], [floor(10), floor(42)]);
    assert_eq!((at_work.summary.usage, at_work.summary.cost_micro_usd), (floor(52), None));
    // What the program says of the whole session is no lower bound, and holds what is known of each agent.
    let sums =
        r#""modelMetrics":{"gpt-5":{"usage":{"inputTokens":900,"outputTokens":60,"cacheReadTokens":100}}}"#;
    let ended = session(with_model, &[line("e8", 8, "session.shutdown", None, sums)]);
    assert_eq!([ended.agents[0].usage, ended.agents[1].usage], [floor(10), floor(42)]);
    assert_eq!(ended.summary.usage, Some(Usage::new(800, 60, 100, 0)));
    assert_eq!(ended.summary.unattributed_usage, Some(Usage::new(800, 8, 100, 0)));
    // Its record of a response is all of it.
    let record = r#""usage":{"model":"gpt-5","inputTokens":500,"outputTokens":42,"cacheReadTokens":0}"#;
    let recorded = session(with_model, &[line("e9", 9, "session.usage_record", Some("call_1"), record)]);
    assert_eq!(recorded.agents[1].usage, Some(Usage::new(500, 42, 0, 0)));
    // Tokens of no model are not counted.
    assert!(session("", &[]).agents.iter().all(|agent| agent.usage.is_none()));
}

#[test]
fn an_agent_that_only_its_notification_tells_of_has_its_sums_and_makes_others_lower_bounds() {
    let line = |id: &str, second: u32, kind: &str, rest: &str| {
        format!(
            r#"{{"type":"{kind}","uuid":"{id}","sessionId":"44444444-2222-4333-8444-555566667780","timestamp":"2026-02-10T10:00:{second:02}.000Z","version":"2.1.121",{rest}}}"#
        )
    };
    let says = |id: &str, second, content: &str| {
        let rest = format!(
            r#""requestId":"r{id}","message":{{"id":"m{id}","role":"assistant","model":"claude-opus-4-6","content":[{content}],"stop_reason":"end_turn","usage":{{"input_tokens":5,"output_tokens":10}}}}"#
        );
        line(id, second, "assistant", &rest)
    };
    let launched = r#""message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"Async agent launched successfully."}]}]},"toolUseResult":{"isAsync":true,"status":"async_launched","agentId":"ab1"}"#;
    let session = |usage: &str| {
        let notice = format!(
            r#""message":{{"role":"user","content":"<task-notification><task-id>ab1</task-id><tool-use-id>toolu_1</tool-use-id><status>completed</status><summary>done</summary><result>ok <usage><tool_uses>9</tool_uses></usage></result>{usage}</task-notification>"}}"#
        );
        let call = r#"{"type":"tool_use","id":"toolu_1","name":"Task","input":{"description":"Audit","prompt":"Look","subagent_type":"general-purpose","run_in_background":true}}"#;
        tree(&[Part::new(
            "main.jsonl",
            [
                line("u1", 1, "user", r#""message":{"role":"user","content":"go"}"#),
                says("a2", 2, call),
                line("u3", 3, "user", launched),
                line("u5", 20, "user", &notice),
                says("a6", 21, r#"{"type":"text","text":"ok"}"#),
            ]
            .join("\n")
                + "\n",
        )])
    };
    for tokens in ["total_tokens", "subagent_tokens"] {
        let told = session(&format!(
            "<usage><{tokens}>4000</{tokens}><tool_uses>3</tool_uses><duration_ms>9000</duration_ms></usage>"
        ));
        let agent = &told.agents[1];
        assert_eq!((agent.tool_calls, agent.wall_ms, agent.status), (3, Some(9_000), AgentStatus::Completed));
        assert_eq!((told.summary.tool_calls, told.summary.usage.unwrap().floor), (4, true), "{tokens}");
    }
    // Nothing tells what it used: what is known of the others is less than all.
    let untold = session("");
    assert_eq!((untold.agents[1].usage, untold.agents[1].wall_ms), (None, None));
    let root = &untold.agents[0];
    assert_eq!((root.usage.unwrap().floor, root.subtree.usage.unwrap().floor), (false, true));
    let summary = &untold.summary;
    assert_eq!((summary.usage.unwrap().floor, summary.usage.unwrap().total_tokens), (true, 30));
}

#[test]
fn a_run_that_ended_at_a_limit_has_failed_with_the_limit_and_not_with_its_last_words() {
    let init = r#"{"type":"system","subtype":"init","cwd":"/w","session_id":"aaaaaaaa-0000-4000-8000-000000000001","tools":["Bash"],"model":"claude-opus-4-6","permissionMode":"default","apiKeySource":"none","claude_code_version":"2.1.100"}"#;
    let says = r#"{"type":"assistant","message":{"id":"m1","role":"assistant","model":"claude-opus-4-6","content":[{"type":"text","text":"Let me look."}],"usage":{"input_tokens":1,"output_tokens":2}},"parent_tool_use_id":null,"session_id":"aaaaaaaa-0000-4000-8000-000000000001"}"#;
    let (failed, completed) = (AgentStatus::Failed, AgentStatus::Completed);
    for (result, status, error) in [
        (
            r#""subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (10)"]"#,
            failed,
            Some("Reached maximum number of turns (10)"),
        ),
        (r#""subtype":"error_max_turns","is_error":false"#, failed, Some("error_max_turns")),
        (r#""subtype":"error_during_execution""#, failed, Some("error_during_execution")),
        (r#""subtype":"success","is_error":false,"result":"Let me look.""#, completed, None),
    ] {
        let result = format!(
            r#"{{"type":"result","session_id":"aaaaaaaa-0000-4000-8000-000000000001","duration_ms":1000,"num_turns":1,{result}}}"#
        );
        let tree = tree(&[Part::new("stdout.jsonl", [init, says, &result].join("\n") + "\n")]);
        assert_eq!((tree.agents[0].status, tree.agents[0].error.as_deref()), (status, error), "{result}");
    }
}

#[test]
fn a_session_in_a_work_tree_belongs_to_the_project_that_its_harness_names() {
    let line = |cwd: &str| {
        format!(
            r#"{{"type":"user","uuid":"u1","sessionId":"44444444-2222-4333-8444-555566667779","timestamp":"2026-03-29T22:36:08.000Z","version":"2.1.330","cwd":"{cwd}","message":{{"role":"user","content":"go"}}}}"#
        )
    };
    let entered = r#"{"type":"worktree-state","worktreeSession":{"originalCwd":"/home/user/shop","worktreePath":"/var/trees/fix","worktreeName":"fix"},"sessionId":"44444444-2222-4333-8444-555566667779"}"#;
    let left = r#"{"type":"worktree-state","worktreeSession":null,"sessionId":"44444444-2222-4333-8444-555566667779"}"#;
    let project = |lines: &[&str]| {
        let session = tree(&[Part::new("main.jsonl", lines.join("\n") + "\n")]).session;
        (session.cwd.unwrap().to_string(), session.project.map(|project| project.to_string()))
    };
    let shop = || Some("/home/user/shop".to_owned());
    let (inside, below, outside) =
        (line("/var/trees/fix"), line("/var/trees/fix/src"), line("/home/user/shop"));
    assert_eq!(project(&[&inside]), ("/var/trees/fix".into(), None));
    assert_eq!(project(&[&inside, entered]), ("/var/trees/fix".into(), shop()));
    assert_eq!(project(&[entered, &below, left]), ("/var/trees/fix/src".into(), shop()));
    // It began in the project itself.
    assert_eq!(project(&[&outside, entered, &inside]), ("/home/user/shop".into(), None));
    assert_eq!(project(&[&line("/var/trees/fixed"), entered]), ("/var/trees/fixed".into(), None));
}

#[test]
fn lines_of_other_programs_make_no_session() {
    let folder = fixtures::root().join("wild/foreign");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path()).collect();
    assert!(files.len() >= 3);
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let router = read(&[Part::new(name, fixtures::bytes(&file))], options(false));
        assert_eq!(router.sessions().count(), 0, "{name}");
        let problems = router.unassigned_problems();
        assert_eq!(problems.len(), 1, "{name}: {problems:?}");
    }
}

/// Lines of Claude Code with ids of another form, whose results of calls are objects.
#[test]
fn a_session_of_iflow_is_shown_as_its_own() {
    let tree = wild("iflow.jsonl");
    assert_eq!(tree.session.harness.as_deref(), Some("iflow"));
    assert_eq!(tree.session.id.as_str(), "session-66666666-2222-4333-8444-555566667777");
    assert_eq!((tree.session.runs, tree.session.title.as_deref()), (1, Some("count the lines")));
}

/// The lines of the root alone, which end within a turn: those of its agents are gone.
#[test]
fn a_root_of_kimi_knows_its_agents_where_their_lines_are_gone() {
    let tree = wild("kimi-main-wire.jsonl");
    assert_eq!(
        sketch(&tree),
        "root lost: Agent ok, Agent ok, Bash ok\n  agent-0 coder completed\n  agent-1 explore completed\n"
    );
    let tokens = tree.agents.iter().map(|row| row.usage.as_ref().map(|usage| usage.total_tokens));
    assert_eq!(tokens.collect::<Vec<_>>(), [Some(1_010), Some(4_121), Some(6_121)]);
}

/// Two programs that keep sessions in the same format, each named as what it is. A branch of a conversation counts.
#[test]
fn sessions_of_pi_and_openclaw_are_read_and_told_apart() {
    let pi = wild("pi-family/pi.jsonl");
    assert_eq!(sketch(&pi), "root completed: bash ok\n");
    let row = &pi.agents[0];
    let (tokens, model) = (row.usage.as_ref().map(|usage| usage.total_tokens), row.model.as_deref());
    assert_eq!((tokens, row.cost_micro_usd, model), (Some(2_050), Some(6_518), Some("claude-sonnet-4-5")));
    let session = &pi.session;
    let named = (session.harness.as_deref(), session.title.as_deref(), session.runs);
    assert_eq!(named, (Some("pi"), Some("Counting"), 1));
    let openclaw = wild("pi-family/openclaw.jsonl");
    assert_eq!(sketch(&openclaw), "root failed: read error\n");
    let row = &openclaw.agents[0];
    // The price of a model that runs at home is not known, and not 0.
    let tokens = row.usage.as_ref().map(|usage| usage.total_tokens);
    assert_eq!((tokens, row.cost_micro_usd, openclaw.session.runs), (Some(520), None, 1));
    assert_eq!(openclaw.session.harness.as_deref(), Some("openclaw"));
}

#[test]
fn published_calls_without_ids_end_with_the_result_of_their_tool() {
    assert_eq!(sketch(&wild("wire/e-nocallid.jsonl")), "root completed\n  no completed: Grep ok\n");
    let event = |rest: &str| {
        format!(
            r#"{{"subagentName":"n","subagentRunId":"{rest},"timestamp":1795720000000}}
"#
        )
    };
    let post = |run: &str, kind: &str, tool: &str, id: &str| {
        event(&format!(r#"{run}","type":"{kind}","toolName":"{tool}","payload":"same"{id}"#))
    };
    let lines = [
        post("r1", "tool_call", "Grep", ""),
        post("r2", "tool_call", "Grep", ""),
        post("r1", "tool_call", "Read", ""),
        post("r1", "tool_result", "Grep", r#","isError":true"#),
        post("r2", "tool_call", "Bash", r#","toolCallID":"1""#),
        post("r2", "tool_result", "Bash", r#","toolCallID":"1""#),
    ];
    let both = tree(&[Part::new("events.jsonl", lines.concat())]);
    let expected =
        "root lost\n  r1 lost [orphan]: Grep error, Read open\n  r2 lost [orphan]: Grep open, Bash ok\n";
    assert_eq!(sketch(&both), expected);
}

#[test]
fn ends_without_their_begin_are_calls_of_the_agent_that_reports_them() {
    for (name, expected) in [
        ("e-onlyresult", "root completed\n  or completed: Read ok\n"),
        ("h-postonly", "root lost\n  z1 Explore lost [orphan]: Read ok, Bash error\n"),
        ("h-t2", "root lost\n  sa-1 Explore lost [orphan]: ~Read ok\n"),
        ("h-t3", "root lost\n  sa-1 Explore lost [orphan]: ~Bash error\n"),
    ] {
        let tree = wild(&format!("wire/{name}.jsonl"));
        assert_eq!(sketch(&tree), expected, "{name}");
    }
}

#[test]
fn an_agent_that_gemini_printed_to_have_ended_is_not_lost() {
    let file = fixtures::root().join("gemini/0.61.0/two_parallel/stdout.jsonl");
    let tree = tree(&[Part::new("stdout.jsonl", fixtures::bytes(&file))]);
    let agents: Vec<_> = tree.agents.iter().skip(1).collect();
    assert_eq!(agents.len(), 2);
    for agent in agents {
        assert_eq!(agent.status, AgentStatus::Completed, "{:?}", agent.evidence);
        assert!(agent.started_at_ms.is_some() && agent.ended_at_ms.is_some(), "{agent:?}");
        assert!(agent.wall_ms.is_some_and(|wall| wall > 500), "{:?}", agent.wall_ms);
    }
}

#[test]
fn a_session_that_opencode_exports_is_read() {
    let tree = wild("opencode-export.json");
    assert_eq!(sketch(&tree), "root completed: bash ok\n");
    assert_eq!(tree.session.title.as_deref(), Some("count lines"));
    assert_eq!((tree.summary.usage.unwrap().total_tokens, tree.problems.len()), (110, 0));
}

#[test]
fn results_in_transcripts_and_streams_without_their_calls_are_counted() {
    let result = r#""message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"late","is_error":true}]}"#;
    let transcript = format!(
        r#"{{"type":"user","uuid":"u1","sessionId":"s","version":"2.1.330","timestamp":"2026-02-10T10:00:00.000Z",{result}}}"#
    );
    let stream =
        format!(r#"{{"type":"user","session_id":"s","parent_tool_use_id":null,"uuid":"u1",{result}}}"#);
    let codex = r#"{"timestamp":"2026-02-10T10:00:00.000Z","type":"session_meta","payload":{"id":"s","cwd":"/p","cli_version":"0.98.0"}}
{"timestamp":"2026-02-10T10:00:01.000Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"late"}}"#;
    for lines in [transcript.as_str(), &stream, codex] {
        let tree = tree(&[Part::new("main.jsonl", format!("{lines}\n"))]);
        assert_eq!(tree.summary.tool_calls, 1, "{lines}");
    }
}

#[test]
fn events_of_untimed_hooks_are_in_the_order_of_the_log() {
    for (name, expected) in [
        ("h-t6", "session.start subagent.start run.start user.prompt tool.pre subagent.stop run.end"),
        (
            "h-t12_wire",
            "session.start run.start user.prompt subagent.start subagent.start tool.pre tool.pre tool.pre tool.post \
             subagent.stop subagent.stop run.end",
        ),
        (
            "h-postonly",
            "session.start run.start user.prompt subagent.start tool.post tool.failure subagent.stop run.end",
        ),
    ] {
        let mut router = read(&[part(&format!("wire/{name}.jsonl"))], options(true));
        let session = only_session(&router);
        let prices = PriceTable::default();
        let events = router.update(&session, &now(LATER, &prices)).unwrap().events;
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds.join(" "), expected, "{name}");
    }
}

#[test]
fn tokens_of_a_review_and_lines_that_a_file_has_twice_count_once() {
    let once = part("codex-review.jsonl");
    let usage = |part: Part| {
        let usage = tree(&[part]).summary.usage.unwrap();
        (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
    };
    // 1,000 and 1,200 of the thread, 300 and 400 of its review.
    let all = (1_200, 1_700, 200);
    assert_eq!(usage(once.clone()), all);
    let lines = once.lines();
    for from in 0..lines.len() {
        let twice = [lines.concat(), lines[from..].concat()].concat();
        assert_eq!(usage(Part { bytes: twice, ..once.clone() }), all, "from {from}");
    }
}

#[test]
fn sessions_of_which_nothing_was_asked_are_not_lost() {
    let meta = r#"{"timestamp":"2025-10-18T15:49:55.475Z","type":"session_meta","payload":{"id":"0199f803-0000-7000-8000-000000000001","timestamp":"2025-10-18T15:49:55.474Z","cwd":"/work","originator":"codex_cli_rs","cli_version":"0.47.0","source":"cli"}}
{"timestamp":"2025-10-18T15:49:55.491Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>\n  <cwd>/work</cwd>\n</environment_context>"}]}}
"#;
    let event = r#"{"timestamp":"2025-10-18T15:49:55.500Z","type":"event_msg","payload":{"type":"user_message","message":"<user_instructions>\nx\n</user_instructions>"}}
"#;
    let bare = r#"{"id":"a29ccb55-0000-4000-8000-000000000001","timestamp":"2025-09-06T18:55:46.947Z","instructions":"x"}
{"record_type":"state"}
{"type":"message","id":null,"role":"user","content":[{"type":"input_text","text":"<user_instructions>\n\nx\n\n</user_instructions>"}]}
{"type":"message","id":null,"role":"user","content":[{"type":"input_text","text":"<environment_context>\n  <cwd>/work</cwd>\n</environment_context>"}]}
"#;
    let claude = r#"{"parentUuid":null,"isSidechain":false,"cwd":"/work","sessionId":"s","version":"2.1.71","type":"progress","data":{"type":"hook_progress","hookEvent":"SessionStart","hookName":"SessionStart:startup"},"uuid":"u1","timestamp":"2026-03-09T10:00:00.000Z"}
"#;
    let qwen = r#"{"uuid":"u1","parentUuid":null,"sessionId":"q","timestamp":"2026-04-08T07:33:17.358Z","type":"system","cwd":"/work","version":"0.14.1","subtype":"slash_command","systemPayload":{"phase":"invocation","rawCommand":"/stats model"}}
"#;
    let bare_asked = format!(
        "{bare}{}\n",
        r#"{"type":"message","id":null,"role":"user","content":[{"type":"input_text","text":"hi"}]}"#
    );
    for (text, harness, status) in [
        (meta.to_owned(), "codex", AgentStatus::Completed),
        (format!("{meta}{event}"), "codex", AgentStatus::Completed),
        (bare.to_owned(), "codex", AgentStatus::Completed),
        (claude.to_owned(), "claude-code", AgentStatus::Completed),
        (qwen.to_owned(), "qwen", AgentStatus::Completed),
        (bare_asked, "codex", AgentStatus::Lost),
        (format!("{meta}{}", event.replace("user_instructions", "b")), "codex", AgentStatus::Lost),
    ] {
        let tree = tree(&[Part::new("main.jsonl", text.clone())]);
        let root = &tree.agents[0];
        assert_eq!((tree.session.harness.as_deref(), root.status), (Some(harness), status), "{text}");
        assert_eq!(tree.session.title.is_some(), status == AgentStatus::Lost, "{text}");
    }
}

#[test]
fn what_a_local_command_prints_is_no_prompt_and_a_filler_no_answer() {
    let line = |uuid: &str, parent: &str, rest: &str| {
        format!(
            r#"{{"uuid":"{uuid}","parentUuid":"{parent}","sessionId":"s","version":"2.1.89","cwd":"/work","timestamp":"2026-04-01T09:36:{}.000Z",{rest}}}"#,
            30 + uuid.len()
        )
    };
    let user = |text: &str| format!(r#""type":"user","message":{{"role":"user","content":"{text}"}}"#);
    let caveat = |uuid: &str, parent: &str| {
        line(
            uuid,
            parent,
            &format!(r#"{},"isMeta":true"#, user("<local-command-caveat>Caveat</local-command-caveat>")),
        )
    };
    let filler = r#""type":"assistant","message":{"id":"f1","model":"<synthetic>","role":"assistant","stop_reason":"stop_sequence","type":"message","usage":{"input_tokens":0,"output_tokens":0},"content":[{"type":"text","text":"No response requested."}]}"#;
    let asked = line("u", "", &user("fix it"));
    let stopped = line("uu", "u", &user("[Request interrupted by user]"));
    let printed = line("uuuu", "uuu", &user("Unknown skill: usage"));
    for (lines, status, title, runs) in [
        (vec![caveat("uuu", ""), printed.clone()], AgentStatus::Completed, None, 0),
        (
            vec![asked.clone(), stopped.clone(), caveat("uuu", "uu"), printed],
            AgentStatus::Stopped,
            Some("fix it"),
            1,
        ),
        (vec![asked.clone(), stopped, line("uuu", "uu", filler)], AgentStatus::Stopped, Some("fix it"), 1),
        (vec![asked, line("uuu", "u", filler)], AgentStatus::Lost, Some("fix it"), 1),
    ] {
        let tree = tree(&[Part::new("main.jsonl", lines.join("\n") + "\n")]);
        let got = (tree.agents[0].status, tree.session.title.as_deref(), tree.session.runs);
        assert_eq!(got, (status, title, runs), "{lines:?}");
    }
}

#[test]
fn titles_are_words_and_no_parts_of_templates() {
    for (prompt, title) in [
        ("fix it\nnow", "fix it"),
        ("# Fix the parser\n\nIt is slow.", "Fix the parser"),
        (
            "\n## User Input\n\n```text\na game of stones\n```\n\nYou **MUST** consider it.",
            "a game of stones",
        ),
        (
            "---\ndescription: Make the plan of a feature\n---\n\n## User Input\n\n```text\n$ARGUMENTS\n```",
            "Make the plan of a feature",
        ),
        ("---\nname: x\n---\n\ngo on", "go on"),
        ("---", "---"),
        ("## Only a heading", "## Only a heading"),
        ("#42 is broken", "#42 is broken"),
    ] {
        let line = serde_json::json!({
            "timestamp": "2025-12-25T10:00:00.000Z", "type": "event_msg",
            "payload": {"type": "user_message", "message": prompt},
        });
        let tree = tree(&[Part::new("main.jsonl", format!("{line}\n"))]);
        assert_eq!(tree.session.title.as_deref(), Some(title), "{prompt:?}");
    }
}

#[test]
fn an_investigation_of_gemini_in_a_file_of_the_session_is_an_agent() {
    let chat = |second: u32, asked: &str, answer: &str| {
        let [began, ended] = [second, second + 2].map(|at| format!("2025-12-02T05:08:{at}.000Z"));
        Part::new(
            "session-2025-12-02T05-08-aaaaaaaa.json",
            serde_json::json!({
                "sessionId": "aaaaaaaa-1111-4222-8333-444455556666", "projectHash": "h", "startTime": began,
                "lastUpdated": ended,
                "messages": [
                    {"id": format!("{began}-1"), "timestamp": began, "type": "user", "content": asked},
                    {"id": format!("{began}-2"), "timestamp": ended, "type": "gemini", "content": answer, "model": "gemini-2.5-pro",
                     "tokens": {"input": 100, "output": 10, "cached": 0, "thoughts": 0, "tool": 0, "total": 110}},
                ],
            })
            .to_string(),
        )
    };
    let main = chat(15, "where is the parser?", "In src.");
    let task = "Your task is to do a deep investigation of the codebase to find all relevant files\n<objective>\nthe parser\n</objective>";
    let own = chat(20, task, "It is in src/parser.rs.");
    for parts in [[main.clone(), own.clone()], [own, main]] {
        let tree = tree(&parts);
        assert_eq!((tree.session.runs, tree.session.title.as_deref()), (1, Some("where is the parser?")));
        let [root, agent] = &tree.agents[..] else { panic!("{tree:?}") };
        assert_eq!(agent.agent_type.as_deref(), Some("codebase_investigator"));
        assert_eq!((root.status, agent.status), (AgentStatus::Completed, AgentStatus::Completed));
        assert_eq!([root, agent].map(|row| row.usage.unwrap().total_tokens), [110, 110]);
    }
}

#[test]
fn a_turn_whose_last_call_was_interrupted_is_stopped() {
    let qwen = |rest: &str| {
        format!(
            r#"{{"sessionId":"q","version":"0.14.2","cwd":"/work","timestamp":"2026-04-10T12:46:0{rest}}}"#
        )
    };
    let lines = [
        qwen(
            r#"1.000Z","uuid":"u1","type":"user","message":{"role":"user","parts":[{"text":"look for bugs"}]}"#,
        ),
        qwen(
            r#"2.000Z","uuid":"u2","type":"assistant","model":"m","message":{"role":"model","parts":[{"functionCall":{"id":"c1","name":"run_shell_command","args":{"command":"ls"}}}]}"#,
        ),
        qwen(
            r#"3.000Z","uuid":"u3","type":"tool_result","message":{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"run_shell_command","response":{"error":"[Operation Cancelled] Reason: User cancelled tool execution."}}}]},"toolCallResult":{"callId":"c1","status":"cancelled"}"#,
        ),
        qwen(r#"4.000Z","uuid":"u4","type":"user","message":{"role":"user","parts":[{"text":"go on"}]}"#),
    ];
    let status =
        |many: usize| tree(&[Part::new("q.jsonl", lines[..many].join("\n") + "\n")]).agents[0].status;
    assert_eq!([2, 3, 4].map(status), [AgentStatus::Lost, AgentStatus::Stopped, AgentStatus::Lost]);
    // A Codex that does not say when a turn ends: a text after a turn that was stopped is of another.
    let codex = |time: u32, payload: &str| {
        format!(r#"{{"timestamp":"2025-11-11T10:00:0{time}.000Z","type":"event_msg","payload":{payload}}}"#)
    };
    let asked = codex(1, r#"{"type":"user_message","message":"x"}"#);
    let aborted = codex(2, r#"{"type":"turn_aborted","reason":"interrupted"}"#);
    let again = codex(3, r#"{"type":"user_message","message":"y"}"#);
    let text = r#"{"timestamp":"2025-11-11T10:00:04.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}}"#;
    let lines = [asked, aborted, again, text.to_owned()];
    let status =
        |many: usize| tree(&[Part::new("c.jsonl", lines[..many].join("\n") + "\n")]).agents[0].status;
    assert_eq!([2, 3, 4].map(status), [AgentStatus::Stopped, AgentStatus::Lost, AgentStatus::Completed]);
}

/// The one object that `--output-format json` prints.
fn printed_result(more: &serde_json::Value) -> serde_json::Value {
    let usage = serde_json::json!({"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0});
    let models = serde_json::json!({"claude-opus-4-6": {"inputTokens": 100, "outputTokens": 20, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0}});
    let mut result = serde_json::json!({
        "type": "result", "subtype": "success", "is_error": false, "duration_ms": 61_000, "num_turns": 3,
        "session_id": "aaaaaaaa-2222-4333-8444-555566667777", "total_cost_usd": 0.5, "usage": usage,
        "modelUsage": models, "uuid": "bbbbbbbb-2222-4333-8444-555566667777",
    });
    result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    result
}

#[test]
fn a_result_alone_is_a_turn_with_its_words_its_tokens_and_its_failure() {
    let done = serde_json::json!({"result": "All done."});
    let failed = serde_json::json!({"result": "Credit balance is too low", "is_error": true});
    let limit = serde_json::json!({"subtype": "error_max_turns", "is_error": true});
    for (more, status, words) in [
        (done, AgentStatus::Completed, "All done."),
        (failed, AgentStatus::Failed, "Credit balance is too low"),
        (limit, AgentStatus::Failed, "error_max_turns"),
    ] {
        let object = printed_result(&more);
        let pretty = |value: &serde_json::Value| serde_json::to_string_pretty(value).unwrap();
        let array = serde_json::Value::from(vec![object.clone()]);
        for text in
            [format!("{object}\n"), object.to_string(), pretty(&object), array.to_string(), pretty(&array)]
        {
            let tree = tree(&[Part::new("out.json", text.clone())]);
            let root = &tree.agents[0];
            assert_eq!(&*tree.session.id, "aaaaaaaa-2222-4333-8444-555566667777", "{text}");
            assert_eq!((root.status, tree.session.runs, tree.problems.len()), (status, 1, 0), "{text}");
            let (result, error) = (root.result.as_deref(), root.error.as_deref());
            let said = if status == AgentStatus::Failed { error } else { result };
            assert_eq!(said, Some(words), "{text}");
            assert_eq!(tree.summary.usage.map(|usage| usage.total_tokens), Some(120), "{text}");
            assert_eq!(tree.summary.cost_micro_usd, Some(500_000), "{text}");
            let events = subscope_testkit::sessions::events(&[Part::new("out.json", text.clone())]);
            let messages =
                events.iter().filter(|event| event.kind == subscope_model::EventKind::AgentMessage);
            assert_eq!(messages.count(), 1, "{text}");
        }
    }
}

#[test]
fn what_the_line_of_a_failed_turn_says_is_its_error_and_not_the_last_words() {
    let line = |value: serde_json::Value| format!("{value}\n");
    let said = line(serde_json::json!({
        "type": "assistant", "session_id": "aaaaaaaa-2222-4333-8444-555566667777",
        "message": {"id": "msg_1", "role": "assistant", "model": "claude-opus-4-6", "content": [{"type": "text", "text": "Let me look."}]},
    }));
    let result =
        line(printed_result(&serde_json::json!({"result": "API Error: 529 Overloaded", "is_error": true})));
    let root = &tree(&[Part::new("out.jsonl", said + &result)]).agents[0];
    assert_eq!(
        (root.status, root.error.as_deref()),
        (AgentStatus::Failed, Some("API Error: 529 Overloaded"))
    );
    let qwen = line(serde_json::json!({
        "type": "system", "subtype": "init", "session_id": "s1", "qwen_code_version": "0.24.4", "uuid": "u0",
    })) + &line(serde_json::json!({
        "type": "result", "subtype": "error_during_execution", "is_error": true, "session_id": "s1", "uuid": "u1",
        "result": "Quota exceeded", "error": {"message": "Quota exceeded"},
    }));
    let root = &tree(&[Part::new("qwen.jsonl", qwen)]).agents[0];
    assert_eq!((root.status, root.error.as_deref()), (AgentStatus::Failed, Some("Quota exceeded")));
}

/// A line of a transcript of the root.
fn root_line(number: usize, version: &str, more: serde_json::Value) -> String {
    let mut line = serde_json::json!({
        "uuid": format!("u{number}"), "parentUuid": number.checked_sub(1).map(|number| format!("u{number}")),
        "sessionId": "aaaaaaaa-2222-4333-8444-555566667777", "version": version, "cwd": "/w", "isSidechain": false,
        "timestamp": format!("2026-02-24T03:00:{number:02}.000Z"),
    });
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    format!("{line}\n")
}

/// The lines of a root that is asked, calls a tool, gets the result and answers.
fn one_call(version: &str, tool: &str, input: serde_json::Value, result: serde_json::Value) -> Vec<String> {
    use serde_json::json;
    let call = json!([{"type": "tool_use", "id": "toolu_1", "name": tool, "input": input}]);
    let content = json!([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}]);
    vec![
        root_line(0, version, json!({"type": "user", "message": {"role": "user", "content": "go"}})),
        root_line(
            1,
            version,
            json!({"type": "assistant", "message": {"id": "m1", "role": "assistant", "model": "claude-opus-4-6", "content": call}}),
        ),
        root_line(
            2,
            version,
            json!({"type": "user", "message": {"role": "user", "content": content}, "toolUseResult": result}),
        ),
    ]
}

#[test]
fn a_result_that_was_interrupted_is_no_success() {
    use serde_json::json;
    let task = json!({"description": "count", "prompt": "count", "subagent_type": "general-purpose"});
    for (wasinterrupted, call, agent) in
        [(true, ToolStatus::Error, AgentStatus::Stopped), (false, ToolStatus::Ok, AgentStatus::Completed)]
    {
        let result = json!({"content": [{"type": "text", "text": "x"}], "totalToolUseCount": 2, "totalDurationMs": 900, "wasInterrupted": wasinterrupted});
        let tree =
            tree(&[Part::new("main.jsonl", one_call("1.0.98", "Task", task.clone(), result).concat())]);
        assert_eq!(tree.agents[0].tools[0].status, call);
        assert_eq!(tree.agents[1].status, agent);
    }
}

#[test]
fn an_agent_whose_result_was_fetched_has_ended_as_the_result_says() {
    use serde_json::json;
    let task = json!({"description": "count", "prompt": "count", "subagent_type": "general-purpose", "run_in_background": true});
    let launched =
        json!({"status": "async_launched", "agentId": "a1", "isAsync": true, "description": "count"});
    let fetched = |number: usize, tool: &str, result: serde_json::Value| {
        let call = json!([{"type": "tool_use", "id": "toolu_2", "name": tool, "input": {"task_id": "a1"}}]);
        let content = json!([{"type": "tool_result", "tool_use_id": "toolu_2", "content": "x"}]);
        [
            root_line(
                number,
                "2.0.76",
                json!({"type": "assistant", "message": {"id": "m2", "role": "assistant", "model": "claude-opus-4-6", "content": call}}),
            ),
            root_line(
                number + 1,
                "2.0.76",
                json!({"type": "user", "message": {"role": "user", "content": content}, "toolUseResult": result}),
            ),
        ]
        .concat()
    };
    let one = |status: &str| json!({"retrieval_status": "success", "task": {"task_id": "a1", "task_type": "local_agent", "status": status, "result": "three"}});
    let list = json!({"retrieval_status": "success", "agents": [{"agentId": "a1", "status": "completed", "result": "three"}]});
    let map =
        json!({"retrieval_status": "success", "agents": {"a1": {"status": "completed", "result": "three"}}});
    for (tool, result, status, report) in [
        ("TaskOutput", one("completed"), AgentStatus::Completed, Some("three")),
        ("TaskOutput", one("failed"), AgentStatus::Failed, None),
        ("TaskOutput", one("running"), AgentStatus::Lost, None),
        ("AgentOutputTool", list, AgentStatus::Completed, Some("three")),
        ("AgentOutputTool", map, AgentStatus::Completed, Some("three")),
    ] {
        let lines = one_call("2.0.76", "Task", task.clone(), launched.clone()).concat();
        let tree = tree(&[Part::new("main.jsonl", lines + &fetched(3, tool, result.clone()))]);
        let agent = &tree.agents[1];
        assert_eq!(
            (agent.status, agent.result.as_deref().filter(|_| report.is_some())),
            (status, report),
            "{result}"
        );
        assert_eq!(tree.agents.len(), 2, "{result}");
    }
}

#[test]
fn a_teammate_that_was_interrupted_has_not_succeeded() {
    let text = String::from_utf8(part("teammate-message-line.jsonl").bytes).unwrap();
    assert!(text.contains("idleReason"), "{text}");
    for (reason, status) in [
        ("interrupted", AgentStatus::Stopped),
        ("failed", AgentStatus::Failed),
        ("available", AgentStatus::Completed),
    ] {
        let body = serde_json::json!({"type": "idle_notification", "from": "ada", "timestamp": "2026-02-24T03:00:05.000Z", "idleReason": reason});
        let notice = format!("<teammate-message teammate_id=\"ada\">\n{body}\n</teammate-message>");
        let task = serde_json::json!({"description": "count", "prompt": "count", "subagent_type": "general-purpose", "name": "ada", "team_name": "t"});
        let spawned = serde_json::json!({"status": "teammate_spawned", "agent_id": "ada@t", "name": "ada", "team_name": "t"});
        let mut lines = one_call("2.1.42", "Task", task, spawned);
        let message = serde_json::json!({"type": "user", "message": {"role": "user", "content": notice}});
        lines.push(root_line(6, "2.1.42", message));
        let tree = tree(&[Part::new("main.jsonl", lines.concat())]);
        assert_eq!(tree.agents[1].status, status, "{reason}");
    }
}

#[test]
fn titles_are_the_words_inside_of_what_programs_put_around_them() {
    for (text, title) in [
        (
            "<system_instruction>\nYou work in a workspace.\n</system_instruction>\n\nMend the parser.",
            "Mend the parser.",
        ),
        (
            "<channel source=\"telegram\" chat_id=\"1\" user=\"ada\">\nMend the parser.\n</channel>",
            "Mend the parser.",
        ),
        (
            "<system-reminder>x</system-reminder>\n<system_instruction>y</system_instruction>\n<channel source=\"c\">Mend the parser.</channel>",
            "Mend the parser.",
        ),
    ] {
        let message = serde_json::json!({"type": "user", "message": {"role": "user", "content": text}});
        let tree = tree(&[Part::new("main.jsonl", root_line(0, "2.1.330", message))]);
        assert_eq!(tree.session.title.as_deref(), Some(title), "{text}");
    }
}
