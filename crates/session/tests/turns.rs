//! Calls and turns of the other harnesses in cases without a recording: lines written by hand in the form of recorded
//! ones.
#![expect(clippy::unwrap_used, reason = "a test whose lines give no tree has failed")]

use serde_json::{Value, json};
use subscope_model::{Agent, LivenessKind, Tree};
use subscope_testkit::sessions::{Part, options, read, sketch, tree, tree_at};

fn part(label: &str, lines: &[Value]) -> Part {
    Part::new(label, lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}

fn row<'t>(tree: &'t Tree, id: &str) -> &'t Agent {
    tree.agents.iter().find(|row| row.id.as_str() == id).unwrap()
}

/// The log of OpenCode's database.
mod opencode {
    use super::*;

    fn event(kind: &str, data: &Value) -> Value {
        json!({ "id": "evt_1", "seq": 0, "type": format!("{kind}.1"), "data": data })
    }

    fn session(id: &str, parent: Option<&str>) -> Value {
        let title = parent.map_or("New session - 2026-11-21T20:41:24.668Z", |_| "Count (@general subagent)");
        let info = json!({ "id": id, "parentID": parent, "version": "1.18.33", "agent": "general",
            "title": title, "time": { "created": 1000, "updated": 1000 } });
        event("session.created", &json!({ "sessionID": id, "info": info }))
    }

    fn user(session: &str, id: &str, at: i64) -> [Value; 2] {
        let info = json!({ "id": id, "sessionID": session, "role": "user", "time": { "created": at } });
        let part = json!({ "id": format!("prt_{id}"), "sessionID": session, "messageID": id, "type": "text",
            "text": "go" });
        [
            event("message.updated", &json!({ "sessionID": session, "info": info })),
            event("message.part.updated", &json!({ "sessionID": session, "part": part, "time": at })),
        ]
    }

    /// A message of the model with the fields in `more`.
    fn answer(session: &str, id: &str, at: i64, more: Value) -> Value {
        let mut info =
            json!({ "id": id, "sessionID": session, "role": "assistant", "time": { "created": at } });
        for (name, value) in more.as_object().unwrap() {
            info[name] = value.clone();
        }
        event("message.updated", &json!({ "sessionID": session, "info": info }))
    }

    fn done(at: i64, finish: &str) -> Value {
        json!({ "finish": finish, "time": { "created": at, "completed": at + 5 } })
    }

    fn task(call: &str, at: i64, state: Value) -> Value {
        let mut state = state;
        state["time"] = json!({ "start": at, "end": at + 50 });
        let part = json!({ "id": format!("prt_{call}"), "sessionID": "ses_root", "messageID": "msg_r2",
            "type": "tool", "callID": call, "tool": "task", "state": state });
        event("message.part.updated", &json!({ "sessionID": "ses_root", "part": part, "time": at + 50 }))
    }

    fn input(resumed: Option<&str>) -> Value {
        json!({ "description": "Count", "prompt": "go", "subagent_type": "general", "task_id": resumed })
    }

    /// A session whose root has called an agent, and these lines.
    fn tree_of(lines: impl IntoIterator<Item = Value>) -> Tree {
        let mut all = vec![session("ses_root", None)];
        all.extend(user("ses_root", "msg_r1", 1000));
        all.push(answer("ses_root", "msg_r2", 1010, json!({})));
        all.push(session("ses_child", Some("ses_root")));
        all.extend(lines);
        tree(&[part("opencode.db", &all)])
    }

    #[test]
    fn last_message_says_how_its_agent_ended_whatever_those_before_it_say() {
        let error = |name: &str| json!({ "error": { "name": name, "data": { "message": "no" } } });
        let aborted = json!({ "error": { "name": "MessageAbortedError" } });
        let firsts = [(error("APIError"), "failed"), (aborted, "stopped"), (done(1100, "stop"), "completed")];
        for (first, alone) in firsts {
            let first = |more: Vec<Value>| {
                let begin = user("ses_child", "msg_c1", 1090).into_iter();
                tree_of(begin.chain([answer("ses_child", "msg_c2", 1100, first.clone())]).chain(more))
            };
            let status = |more: Vec<Value>| row(&first(more), "ses_child").status.as_str().to_owned();
            assert_eq!(status(vec![]), alone);
            let open = || answer("ses_child", "msg_c3", 1200, json!({}));
            assert_eq!(status(vec![open()]), "lost", "after {alone}");
            let calling = answer("ses_child", "msg_c3", 1200, done(1200, "tool-calls"));
            assert_eq!(status(vec![open(), calling]), "lost", "after {alone}");
            let over = answer("ses_child", "msg_c3", 1200, done(1200, "length"));
            assert_eq!(status(vec![open(), over.clone()]), "completed", "after {alone}");
            // Earlier content is written again.
            let again = answer("ses_child", "msg_c2", 1100, json!({ "finish": "stop", "summary": {} }));
            assert_eq!(status(vec![open(), over, again]), "completed", "after {alone}");
        }
    }

    #[test]
    fn task_that_gives_an_agent_its_next_turn_says_how_that_ended() {
        let refused = "Subagent failed (task_id: ses_child): The user rejected permission to use this specific tool call.";
        let made = json!({ "sessionId": "ses_child", "parentSessionId": "ses_root" });
        let output = "<task id=\"ses_child\" state=\"completed\">\nok\n</task>";
        let first =
            json!({ "status": "completed", "input": input(None), "output": output, "metadata": made });
        let calling = |id: &str, at: i64| answer("ses_child", id, at, done(at, "tool-calls"));
        let ends = [
            (json!({ "status": "error", "error": refused }), "failed"),
            (json!({ "status": "completed", "output": output }), "completed"),
            (json!({ "status": "running" }), "lost"),
        ];
        for (end, status) in ends {
            let mut second = end;
            second["input"] = input(Some("ses_child"));
            second["metadata"] = made.clone();
            let mut lines = user("ses_child", "msg_c1", 1020).to_vec();
            lines.extend([
                answer("ses_child", "msg_c2", 1030, done(1030, "stop")),
                task("call_1", 1015, first.clone()),
            ]);
            lines.extend(user("ses_child", "msg_c3", 1210));
            lines.extend([calling("msg_c4", 1220), task("call_2", 1205, second)]);
            let tree = tree_of(lines);
            let agent = row(&tree, "ses_child");
            assert_eq!((agent.status.as_str(), agent.spawned_by.as_deref()), (status, Some("call_1")));
            assert_eq!(tree.agents.len(), 2);
        }
    }

    #[test]
    fn refused_next_turn_of_an_agent_is_none() {
        let refused =
            json!({ "status": "error", "input": input(Some("ses_child")), "error": "Unknown agent type" });
        let made = json!({ "status": "completed", "input": input(None), "output": "<task id=\"ses_child\">",
            "metadata": { "sessionId": "ses_child" } });
        let mut lines = user("ses_child", "msg_c1", 1020).to_vec();
        lines.push(answer("ses_child", "msg_c2", 1030, done(1030, "stop")));
        lines.extend([task("call_1", 1015, made), task("call_2", 1205, refused)]);
        let tree = tree_of(lines);
        assert_eq!(sketch(&tree), "root lost: task ok, task error\n  ses_child general completed\n");
    }

    #[test]
    fn task_that_names_an_agent_which_is_not_there_starts_one() {
        let state = json!({ "status": "completed", "input": input(Some("ses_gone")), "output": "<task>",
            "metadata": { "sessionId": "ses_child" } });
        let tree = tree_of([task("call_1", 1015, state)]);
        let agent = row(&tree, "ses_child");
        assert_eq!(
            (agent.spawned_by.as_deref(), agent.agent_type.as_deref()),
            (Some("call_1"), Some("general"))
        );
        assert_eq!(tree.agents.len(), 2);
    }

    #[test]
    fn prompt_is_one_run_whatever_its_parts_are() {
        let file = || json!({ "type": "file", "mime": "image/png", "filename": "a.png", "url": "data:" });
        let text = || json!({ "type": "text", "text": "go" });
        let prompts =
            [vec![text()], vec![file()], vec![text(), file()], vec![file(), text()], vec![file(), file()]];
        for parts in prompts {
            let mut lines = vec![session("ses_root", None)];
            for run in 1..=2 {
                let (id, at) = (format!("msg_{run}0"), 1000 * run);
                let info =
                    json!({ "id": id, "sessionID": "ses_root", "role": "user", "time": { "created": at } });
                lines.push(event("message.updated", &json!({ "sessionID": "ses_root", "info": info })));
                for (number, part) in parts.iter().enumerate() {
                    let mut part = part.clone();
                    part["id"] = json!(format!("prt_{run}{number}"));
                    part["messageID"] = json!(id);
                    part["sessionID"] = json!("ses_root");
                    let data = json!({ "sessionID": "ses_root", "part": part, "time": at });
                    lines.push(event("message.part.updated", &data));
                }
                lines.push(answer("ses_root", &format!("msg_{run}1"), at + 10, done(at + 10, "stop")));
            }
            let tree = tree(&[part("opencode.db", &lines)]);
            assert_eq!((tree.session.runs, tree.agents[0].status.as_str()), (2, "completed"), "{parts:?}");
            let title = parts.contains(&text()).then_some("go");
            assert_eq!(tree.session.title.as_deref().filter(|title| !title.is_empty()), title, "{parts:?}");
        }
    }

    /// A line of the plugin: an event with the sessions above its own.
    fn passed_on(kind: &str, properties: &Value, part: Option<&Value>) -> Value {
        json!({ "type": kind, "properties": properties, "part": part,
            "sessions": [{ "id": "ses_child", "parentID": "ses_root" }, { "id": "ses_root" }] })
    }

    #[test]
    fn agent_waits_for_a_permission_from_the_question_until_the_answer() {
        let input = json!({ "command": "mv a b" });
        let call = json!({ "id": "prt_9", "sessionID": "ses_child", "messageID": "msg_c2", "type": "tool",
            "callID": "call_9", "tool": "bash",
            "state": { "status": "running", "input": input, "time": { "start": 1200 } } });
        let running =
            event("message.part.updated", &json!({ "sessionID": "ses_child", "part": call, "time": 1200 }));
        let asked = json!({ "id": "per_1", "sessionID": "ses_child", "permission": "bash", "patterns": ["mv a b"],
            "metadata": {}, "always": ["mv *"], "tool": { "messageID": "msg_c2", "callID": "call_9" } });
        let replied = json!({ "sessionID": "ses_child", "requestID": "per_1", "reply": "once" });
        let served =
            |kind: &str, properties: &Value| json!({ "id": "evt_2", "type": kind, "properties": properties });
        let begin = || {
            let mut all = vec![session("ses_root", None)];
            all.extend(user("ses_root", "msg_r1", 1000));
            all.push(session("ses_child", Some("ses_root")));
            all.extend(user("ses_child", "msg_c1", 1100));
            all.push(answer("ses_child", "msg_c2", 1110, json!({})));
            all.push(running.clone());
            all
        };
        let wait = |parts: &[Part]| {
            let live = tree_at(&read(parts, options(false)), 1300);
            assert_eq!(live.session.id.as_str(), "ses_root");
            row(&live, "ses_child").liveness.as_ref().map(|live| live.kind)
        };
        // A plugin that was started in mid-session has not seen the call begin, and a hub may have missed the question.
        for part_of_call in [None, Some(&call)] {
            let question = passed_on("permission.asked", &asked, part_of_call);
            let reply = passed_on("permission.replied", &replied, part_of_call);
            let plugin = |lines: &[Value]| [part("opencode.db", &begin()), part("hooks.jsonl", lines)];
            let asks = wait(&plugin(std::slice::from_ref(&question)));
            assert_eq!(asks, Some(LivenessKind::Permission), "{part_of_call:?}");
            let answered = wait(&plugin(&[question, reply]));
            assert_eq!(answered, Some(LivenessKind::Tool), "{part_of_call:?}");
        }
        // A server's stream has the call itself.
        let mut lines: Vec<Value> =
            begin().iter().map(|line| served(line["type"].as_str().unwrap(), &line["data"])).collect();
        lines.push(served("permission.asked", &asked));
        assert_eq!(wait(&[part("events.jsonl", &lines)]), Some(LivenessKind::Permission));
        lines.push(served("permission.replied", &replied));
        assert_eq!(wait(&[part("events.jsonl", &lines)]), Some(LivenessKind::Tool));
    }

    /// Providers of models may number the calls of each message, so that two agents have calls of one id at once.
    #[test]
    fn question_is_about_the_call_of_its_own_message() {
        let agents = ["ses_a", "ses_b"];
        let tool_of = |agent: &str| if agent == "ses_a" { "bash" } else { "webfetch" };
        let message_of = |agent: &str| format!("msg_{agent}");
        let served =
            |kind: &str, properties: &Value| json!({ "id": "evt_2", "type": kind, "properties": properties });
        let call = |agent: &str, state: &str| {
            let part = json!({ "id": format!("prt_{agent}"), "sessionID": agent, "messageID": message_of(agent),
                "type": "tool", "callID": "call_0", "tool": tool_of(agent), "state": { "status": state, "output": "",
                "input": { "command": format!("mv {agent}") }, "time": { "start": 1200 } } });
            served("message.part.updated", &json!({ "sessionID": agent, "part": part, "time": 1200 }))
        };
        let mut begun = vec![session("ses_root", None)];
        begun.extend(user("ses_root", "msg_r1", 1000));
        for agent in agents {
            begun.push(session(agent, Some("ses_root")));
            begun.extend(user(agent, &format!("msg_{agent}_1"), 1100));
            begun.push(answer(agent, &message_of(agent), 1110, json!({})));
        }
        let mut begun: Vec<Value> =
            begun.iter().map(|line| served(line["type"].as_str().unwrap(), &line["data"])).collect();
        begun.extend(agents.map(|agent| call(agent, "running")));
        for [asking, other] in [agents, [agents[1], agents[0]]] {
            // Whether the other call is open or over does not matter.
            for over in [None, Some(call(other, "completed"))] {
                let asked = json!({ "id": "per_1", "sessionID": asking, "permission": "rule", "metadata": {},
                    "tool": { "messageID": message_of(asking), "callID": "call_0" } });
                let lines: Vec<Value> = begun
                    .iter()
                    .cloned()
                    .chain(over.clone())
                    .chain([served("permission.asked", &asked)])
                    .collect();
                let live = tree_at(&read(&[part("events.jsonl", &lines)], options(false)), 1300);
                let wait = |agent: &str| {
                    row(&live, agent).liveness.as_ref().map(|live| (live.kind, live.name.clone()))
                };
                let asks = Some((LivenessKind::Permission, Some(tool_of(asking).into())));
                assert_eq!(wait(asking), asks, "{over:?}");
                assert_ne!(wait(other).map(|(kind, _)| kind), Some(LivenessKind::Permission), "{over:?}");
            }
        }
    }

    /// No message says that the root's turn ends where a person says no.
    #[test]
    fn root_waits_for_a_prompt_once_its_session_is_idle() {
        let call = json!({ "id": "prt_9", "sessionID": "ses_root", "messageID": "msg_r2", "type": "tool",
            "callID": "call_9", "tool": "bash", "state": { "status": "error", "input": {},
                "error": "The user rejected permission to use this specific tool call.",
                "time": { "start": 1200, "end": 1250 } } });
        let mut lines = vec![session("ses_root", None)];
        lines.extend(user("ses_root", "msg_r1", 1000));
        lines.push(answer("ses_root", "msg_r2", 1010, done(1250, "tool-calls")));
        lines.push(event(
            "message.part.updated",
            &json!({ "sessionID": "ses_root", "part": call, "time": 1250 }),
        ));
        let idle = json!({ "type": "session.idle", "properties": { "sessionID": "ses_root", "time": 1300 },
            "sessions": [{ "id": "ses_root" }] });
        let root = |lines: &[Value], hooks: &[Value], at: i64| {
            let parts = [part("opencode.db", lines), part("hooks.jsonl", hooks)];
            let tree = tree_at(&read(&parts[..1 + hooks.len()], options(false)), at);
            (tree.agents[0].status.as_str(), tree.agents[0].liveness.as_ref().map(|live| live.kind))
        };
        let hooks = std::slice::from_ref(&idle);
        assert_eq!(root(&lines, &[], 1400), ("running", Some(LivenessKind::Model)));
        assert_eq!(root(&lines, hooks, 1400), ("running", Some(LivenessKind::Idle)));
        lines.extend(user("ses_root", "msg_r3", 1500));
        assert_eq!(
            root(&lines, hooks, 1600),
            ("running", Some(LivenessKind::Model)),
            "after the next prompt"
        );
    }

    #[test]
    fn only_the_tag_of_a_result_says_that_its_agent_works_on() {
        for (tag, status) in [("completed", "completed"), ("running", "lost")] {
            let output =
                format!("<task id=\"ses_child\" state=\"{tag}\">\nIt says state=\"running\" there.\n</task>");
            let state = json!({ "status": "completed", "input": input(None), "output": output,
                "metadata": { "sessionId": "ses_child" } });
            let mut lines = user("ses_child", "msg_c1", 1020).to_vec();
            lines.extend([
                answer("ses_child", "msg_c2", 1030, done(1030, "tool-calls")),
                task("call_1", 1015, state),
            ]);
            assert_eq!(row(&tree_of(lines), "ses_child").status.as_str(), status, "{tag}");
        }
    }
}

/// Rollouts of Codex.
mod codex {
    use super::*;

    const ROOT: &str = "01a1ffd0-c11c-7d71-9e82-986856b9c6d4";
    const CHILD: &str = "01a1ffd0-c380-7df3-9146-df0895c2f7be";

    fn line(kind: &str, payload: Value) -> Value {
        json!({ "timestamp": "2026-11-21T20:33:54.070Z", "type": kind, "payload": payload })
    }

    fn root(lines: Vec<Value>) -> Part {
        let meta = json!({ "id": ROOT, "session_id": ROOT, "cli_version": "0.169.0", "source": "exec" });
        part("root.jsonl", &[vec![line("session_meta", meta)], lines].concat())
    }

    /// What is printed has no times: whether a result is of the last turn is in the agent's own lines.
    #[test]
    fn printed_result_of_an_earlier_turn_does_not_end_the_last_one() {
        let at = |second: u32, payload: Value| json!({ "timestamp": format!("2026-11-21T20:34:{second:02}.000Z"), "type": "event_msg", "payload": payload });
        let child = json!({ "id": CHILD, "session_id": ROOT, "parent_thread_id": ROOT });
        let started = |second| at(second, json!({ "type": "task_started" }));
        let complete = |second| at(second, json!({ "type": "task_complete", "last_agent_message": "ok" }));
        let states = json!({ CHILD: { "status": "completed", "message": "ok" } });
        let wait = json!({ "id": "item_1", "type": "collab_tool_call", "tool": "wait", "agents_states": states,
            "status": "completed" });
        let printed = part(
            "stdout.jsonl",
            &[
                json!({ "type": "thread.started", "thread_id": ROOT }),
                json!({ "type": "item.completed", "item": wait }),
            ],
        );
        let lines = [line("session_meta", child), started(1), complete(2), started(3), complete(4)];
        for (count, status) in
            [(1, "completed"), (2, "completed"), (3, "completed"), (4, "lost"), (5, "completed")]
        {
            let own = part("child.jsonl", &lines[..count]);
            for parts in [[root(vec![]), own.clone(), printed.clone()], [printed.clone(), own, root(vec![])]]
            {
                assert_eq!(row(&tree(&parts), CHILD).status.as_str(), status, "{count} lines");
            }
        }
    }

    #[test]
    fn prompt_of_pictures_alone_is_a_run() {
        let prompt = |content: Value| {
            line(
                "event_msg",
                json!({ "type": "item_completed", "item": { "type": "UserMessage", "content": content } }),
            )
        };
        let picture = || prompt(json!([{ "type": "image", "image_url": "data:" }]));
        let text = prompt(json!([{ "type": "text", "text": "what is it?" }]));
        let tree = tree(&[root(vec![picture(), text, picture()])]);
        assert_eq!((tree.session.runs, tree.session.title.as_deref()), (3, Some("what is it?")));
    }

    #[test]
    fn responses_without_ids_are_each_counted() {
        let record = |tokens: u64| line("token_usage_record", json!({ "usage": { "input_tokens": tokens } }));
        let tree = tree(&[root(vec![record(5), record(5), record(7)])]);
        assert_eq!(tree.agents[0].usage.map(|usage| usage.input_tokens), Some(17));
    }

    #[test]
    fn agent_is_named_where_its_first_line_names_it() {
        let spawn = json!({ "parent_thread_id": ROOT, "agent_nickname": "Carson", "agent_role": "reviewer",
            "agent_path": "/root/count" });
        let both =
            json!({ "id": CHILD, "session_id": ROOT, "source": { "subagent": { "thread_spawn": spawn } } });
        let above = json!({ "id": CHILD, "session_id": ROOT, "parent_thread_id": ROOT, "agent_nickname": "Carson",
            "agent_role": "reviewer", "agent_path": "/root/count" });
        for meta in [both, above] {
            let tree = tree(&[root(vec![]), part("child.jsonl", &[line("session_meta", meta.clone())])]);
            let agent = row(&tree, CHILD);
            let words = [&agent.name, &agent.agent_type, &agent.description].map(|text| text.as_deref());
            assert_eq!(words, [Some("Carson"), Some("reviewer"), Some("count")], "{meta}");
            assert_eq!(agent.parent_id.as_ref().map(|id| id.as_str()), Some("root"), "{meta}");
        }
    }
}

/// The events of Copilot.
mod copilot {
    use super::*;

    #[test]
    fn prompt_of_pictures_alone_is_a_run() {
        let event = |kind: &str, data: Value| json!({ "type": kind, "data": data, "id": kind, "timestamp": "2026-11-21T20:52:22.163Z", "parentId": null });
        let start = event("session.start", json!({ "sessionId": "s1", "copilotVersion": "1.0.102" }));
        let prompt = event("user.message", json!({ "attachments": [{ "type": "file", "path": "a.png" }] }));
        assert_eq!(tree(&[part("events.jsonl", &[start, prompt])]).session.runs, 1);
    }
}

/// Chats of Gemini.
mod gemini {
    use super::*;

    const TOKENS: u64 = 100;

    fn at(second: i64) -> String {
        format!("2026-11-21T20:43:{second:02}.000Z")
    }

    fn user(id: &str, second: i64, content: Value) -> Value {
        json!({ "id": id, "timestamp": at(second), "type": "user", "content": [content] })
    }

    fn answer(id: &str, second: i64, text: &str, calls: &[Value]) -> Value {
        let tokens = json!({ "input": TOKENS, "output": 1, "cached": 0, "thoughts": 0, "tool": 0 });
        let mut record =
            json!({ "id": id, "timestamp": at(second), "type": "gemini", "content": text, "tokens": tokens });
        if !calls.is_empty() {
            record["toolCalls"] = calls.into();
        }
        record
    }

    fn call(id: &str, ended: i64, status: &str, response: Value) -> Value {
        let response = json!({ "functionResponse": { "id": id, "name": "read_file", "response": response } });
        json!({ "id": id, "name": "read_file", "args": {}, "status": status, "timestamp": at(ended), "result": [response] })
    }

    fn chat(lines: &[Value]) -> Part {
        let header = json!({ "sessionId": "s1", "projectHash": "h", "startTime": at(0), "kind": "main" });
        let prompt = user("u1", 1, json!({ "text": "go" }));
        part("session-2026-11-21T20-43-s1s1s1s1.jsonl", &[&[header, prompt], lines].concat())
    }

    #[test]
    fn fullest_copy_of_a_record_counts_whichever_comes_first() {
        let full = answer("g1", 2, "", &[call("c1", 3, "success", json!({ "output": "x" }))]);
        let mut poor = answer("g1", 2, "", &[]);
        poor.as_object_mut().unwrap().remove("tokens");
        let copy = |record: &Value| json!({ "$set": { "messages": [record] } });
        let orders: [&[Value]; 4] = [
            &[poor.clone(), copy(&full)],
            &[full.clone(), copy(&poor)],
            &[copy(&poor), full.clone()],
            &[copy(&full)],
        ];
        for lines in orders {
            let tree = tree(&[chat(lines)]);
            assert_eq!(sketch(&tree), "root lost: read_file ok\n", "{lines:?}");
            assert_eq!(tree.agents[0].usage.map(|usage| usage.input_tokens), Some(TOKENS), "{lines:?}");
        }
    }

    #[test]
    fn record_of_the_model_says_how_a_call_ended_whatever_the_answer_to_it_says() {
        let response = json!({ "functionResponse": { "id": "c1", "name": "read_file", "response": { "output": "no" } } });
        let answered = user("u2", 3, response);
        let failed = answer("g1", 2, "", &[call("c1", 3, "error", json!({ "output": "no" }))]);
        for lines in [[answered.clone(), failed.clone()], [failed, answered.clone()]] {
            assert_eq!(sketch(&tree(&[chat(&lines)])), "root lost: read_file error\n");
        }
        assert_eq!(sketch(&tree(&[chat(std::slice::from_ref(&answered))])), "root lost: read_file ok\n");
    }

    #[test]
    fn call_that_a_person_or_a_rule_refuses_is_denied() {
        for (status, error, root, ended) in [
            ("cancelled", "[Operation Cancelled] Reason: User denied execution.", "lost", "denied"),
            // It was cancelled with its turn.
            ("cancelled", "[Operation Cancelled] Reason: User cancelled the operation.", "stopped", "error"),
            ("error", "Tool execution denied by policy.", "lost", "denied"),
        ] {
            let lines = [answer("g1", 2, "", &[call("c1", 3, status, json!({ "error": error }))])];
            assert_eq!(
                sketch(&tree(&[chat(&lines)])),
                format!("root {root}: read_file {ended}\n"),
                "{error}"
            );
        }
    }

    #[test]
    fn text_ends_the_turn_after_longer_than_the_calls_behind_texts_took_before() {
        let long = call("c1", 9, "success", json!({ "output": "x" }));
        let last = answer("g2", 10, "done", &[]);
        let until = |lines: &[Value], after: i64| {
            let parts = [chat(lines)];
            let end = subscope_model::parse_rfc3339(&at(10)).unwrap();
            tree_at(&read(&parts, options(false)), end + after).agents[0].status.as_str()
        };
        let behind_text = [answer("g1", 2, "I will read it.", std::slice::from_ref(&long)), last.clone()];
        assert_eq!((until(&behind_text, 7_500), until(&behind_text, 8_500)), ("running", "completed"));
        let alone = [answer("g1", 2, "", &[long]), last];
        assert_eq!((until(&alone, 1_500), until(&alone, 2_500)), ("running", "completed"));
    }
}
