//! What the decoder makes of single messages: of those that no recording has, and of one direction alone.

use subscope_decode::{Hint, LinesDecoder};
use subscope_model::{Decoded, Fact, SourceId};

use super::{MESSAGES, is_message, log::AcpConnection};
use crate::recognize;

const HELLO: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{},"agentInfo":{"name":"@agentclientprotocol/claude-agent-acp","version":"0.101.0"}}}"#;
const OPENED: &str = r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s"}}"#;

/// Decodes lines; returns a word for each fact, with its session and actor, and the problems.
fn facts(lines: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut decoder = LinesDecoder::new(SourceId(0), AcpConnection::new(&Hint::default()));
    let mut sink = |decoded: Decoded<'_, '_>| match decoded {
        Decoded::Observation(seen) => {
            let whose = format!("{} {:?}", seen.session.unwrap_or("-"), seen.claim);
            found.extend(word(&seen.fact).map(|word| format!("{whose} {word}")));
        }
        Decoded::Problem { what, .. } => found.push(format!("problem {what}")),
    };
    use subscope_decode::Decoder;
    for line in lines {
        decoder.push(format!("{line}\n").as_bytes(), &mut sink);
    }
    decoder.flush(&mut sink);
    found
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other facts are not asked for")]
fn word(fact: &Fact<'_>) -> Option<String> {
    Some(match fact {
        Fact::Harness { name } => format!("harness {name}"),
        Fact::Prompt { text, .. } => format!("prompt {}", text.text()),
        Fact::Message { text, .. } => format!("says {}", text.text()),
        Fact::Thought { text: Some(text), .. } => format!("thinks {}", text.text()),
        Fact::CallBegin(call) => format!("call {} {:?}", call.name, call.detail),
        Fact::CallEnd(end) => {
            format!("end {:?} {:?}", end.outcome, end.spawn.as_ref().and_then(|it| it.agent))
        }
        Fact::Spawn(spawn) => {
            format!(
                "agent {:?} {:?} {:?} by {:?}",
                spawn.agent, spawn.agent_type, spawn.description, spawn.call
            )
        }
        Fact::AgentEnd(end) => format!("agent {:?}", end.status),
        Fact::TurnStart => "begins".to_owned(),
        Fact::TurnEnd { status, .. } => format!("turn {status:?}"),
        Fact::Totals { usage, .. } => format!("tokens {}", usage.total_tokens),
        Fact::Permission { name, .. } => format!("asks {name}"),
        Fact::PermissionReply { .. } => "answered".to_owned(),
        Fact::Title { text, .. } => format!("title {text}"),
        _ => return None,
    })
}

fn said(session: &str, update: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#
    )
}

fn lines(all: &[&str]) -> Vec<String> {
    all.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn what_an_agent_writes_alone_names_the_harness_its_agents_and_their_ends() {
    let child = |update: &str| said("c", update);
    let log = [
        HELLO.to_owned(),
        OPENED.to_owned(),
        said("s", r#"{"sessionUpdate":"subagent_update","sessionId":"c","title":"Count","description":"Explore","state":{"state":"running"}}"#),
        said("s", r#"{"sessionUpdate":"session_message","messageId":"toolu_1","senderSessionId":"s","recipientSessionId":"c","content":[{"type":"text","text":"do"}]}"#),
        child(r#"{"sessionUpdate":"tool_call","toolCallId":"t1","name":"Bash","rawInput":{"command":"ls"},"status":"pending"}"#),
        child(r#"{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"failed"}"#),
        said("s", r#"{"sessionUpdate":"subagent_update","sessionId":"c","state":{"state":"idle","stopReason":"cancelled"}}"#),
        said("s", r#"{"sessionUpdate":"subagent_update","sessionId":"c","state":{"state":"running"}}"#),
        said("s", r#"{"sessionUpdate":"subagent_update","sessionId":"c","state":{"state":"idle","stopReason":"error","error":{"message":"no"}}}"#),
        r#"{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":2}}}"#.to_owned(),
    ];
    let root = "s Root(Wire)";
    let agent = r#"s Agent("c", Wire)"#;
    let expected = [
        format!("{root} harness claude-code"),
        format!(r#"{agent} agent Some("c") Some("Explore") Some("Count") by None"#),
        format!(r#"{agent} agent Some("c") None None by Some("toolu_1")"#),
        format!(r#"{agent} call Bash Some("ls")"#),
        format!("{agent} end Error None"),
        format!("{agent} agent Stopped"),
        format!("{agent} begins"),
        format!("{agent} agent Failed"),
        format!("{root} turn Completed"),
        format!("{root} tokens 3"),
    ];
    assert_eq!(facts(&log), expected);
}

#[test]
fn a_call_that_a_person_refuses_is_denied_and_a_past_that_is_repeated_has_no_prompt() {
    let log = lines(&[
        r#"{"dir":"out","recv_ns":1,"msg":{"jsonrpc":"2.0","id":7,"method":"session/load","params":{"sessionId":"s","cwd":"/w","mcpServers":[]}}}"#,
        r#"{"dir":"in","msg":{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"old"}}}}}"#,
        r#"{"dir":"in","msg":{"jsonrpc":"2.0","id":7,"result":{}}}"#,
        r#"{"dir":"out","msg":{"jsonrpc":"2.0","id":8,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"new"}]}}}"#,
        r#"{"dir":"in","msg":{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":"t1","title":"rm -rf /","kind":"execute","status":"pending"}}}}"#,
        // The ids of the two sides are their own.
        r#"{"dir":"in","msg":{"jsonrpc":"2.0","id":8,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t1"},"options":[{"optionId":"no","kind":"reject_once"}]}}}"#,
        r#"{"dir":"out","msg":{"jsonrpc":"2.0","id":8,"result":{"outcome":{"outcome":"selected","optionId":"no"}}}}"#,
        r#"{"dir":"in","msg":{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"failed"}}}}"#,
        r#"{"dir":"in","msg":{"jsonrpc":"2.0","id":8,"error":{"code":-1,"message":"no model"}}}"#,
    ]);
    let root = |word: &str| format!("s Root(Wire) {word}");
    let expected =
        ["prompt new", "call execute None", "asks execute", "answered", "end Denied None", "turn Failed"];
    assert_eq!(facts(&log), expected.map(root));
    let bare: Vec<String> = log
        .iter()
        .map(|line| {
            let from = line.find("\"msg\":").unwrap() + "\"msg\":".len();
            line[from..line.len() - 1].to_owned()
        })
        .collect();
    assert_eq!(facts(&bare), expected.map(root), "without the direction");
}

#[test]
fn pieces_of_a_text_are_one_and_a_long_one_is_shown_in_parts() {
    let piece = |kind: &str, text: &str| {
        said(
            "s",
            &format!(
                r#"{{"sessionUpdate":"{kind}","messageId":"m","content":{{"type":"text","text":"{text}"}}}}"#
            ),
        )
    };
    let log = [
        piece("agent_thought_chunk", "I "),
        piece("agent_thought_chunk", "think"),
        piece("agent_message_chunk", "Hel"),
        piece("agent_message_chunk", "lo"),
    ];
    assert_eq!(facts(&log), ["s Root(Wire) thinks I think", "s Root(Wire) says Hello"]);
    let long = "x".repeat(40_000);
    let log = [piece("agent_message_chunk", &long), piece("agent_message_chunk", &long)];
    assert_eq!(facts(&log).len(), 2);
}

#[test]
fn a_session_that_nobody_placed_is_shown_only_where_there_is_no_other() {
    let title = |session: &str| said(session, r#"{"sessionUpdate":"session_info_update","title":"x"}"#);
    assert_eq!(facts(&[title("s"), title("t")]), ["s Root(Wire) title x"]);
    let of_codex =
        said("r:subagent:t", r#"{"sessionUpdate":"tool_call","toolCallId":"c","name":"exec_command"}"#);
    assert_eq!(facts(&[of_codex]), [r#"r Agent("t", Wire) call exec_command None"#]);
}

#[test]
fn messages_of_other_protocols_and_damaged_ones_are_none() {
    let own = [HELLO.to_owned(), said("s", "{}"), format!(r#"{{"dir":"in","recv_ns":1,"msg":{HELLO}}}"#)];
    for line in &own {
        assert!(is_message(line) && recognize(line.as_bytes()) == Some(MESSAGES), "{line}");
    }
    for other in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"thread/started","params":{"threadId":"t"}}"#,
        r#"{"method":"session/update","params":{"sessionId":"s","update":{}}}"#,
    ] {
        assert_ne!(recognize(other.as_bytes()), Some(MESSAGES), "{other}");
    }
    for broken in ["[]", "7", r#"{"jsonrpc":"2.0"}"#, r#"{"jsonrpc":"2.0","id":1}"#] {
        let found = facts(&lines(&[broken]));
        assert!(found.len() == 1 && found[0].starts_with("problem "), "{broken}: {found:?}");
    }
    assert_eq!(facts(&lines(&[r#"{"jsonrpc":"2.0","id":1,"result":7}"#])), [""; 0]);
    // A field of another form takes nothing else away.
    let odd = said(
        "s",
        r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"read","rawInput":7,"content":null,"_meta":[],"cost":3,"state":"x"}"#,
    );
    assert_eq!(facts(&[odd]), ["s Root(Wire) call read None"]);
}
