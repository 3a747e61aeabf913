//! Detects which of Kimi Code's dialects a line is written in.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use subscope_decode::{
    Dialect,
    lenient::{Num, Str},
};

use super::{HOOK, STATE, STREAM, WIRE, layout::SESSION_ID};
use crate::HeadLine;

/// The fields by which the dialects are recognized.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Marks<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    protocol_version: Str<'a>,
    time: Num,
    #[serde(rename = "kind")]
    generation: Str<'a>,
    #[serde(rename = "agentId")]
    agent: Str<'a>,
    #[serde(rename = "subagentId")]
    subagent: Str<'a>,
    event: Option<IgnoredAny>,
    message: Option<IgnoredAny>,
    input: Option<IgnoredAny>,
    usage: Option<IgnoredAny>,
    client_type: Str<'a>,
    hook_event_name: Str<'a>,
    role: Str<'a>,
    id: Str<'a>,
    #[serde(rename = "createdAt")]
    created_at: Option<IgnoredAny>,
    agents: Option<&'a RawValue>,
}

/// Types of the lines about the program itself that it prints.
const PRINTED: &[&str] = &["system.version", "session.resume_hint", "turn.step.retrying"];

/// What the types of an agent's lines begin with.
const FAMILIES: &[&str] = &[
    "agent.",
    "config.",
    "context.",
    "llm.",
    "permission.",
    "profile.",
    "prompt.",
    "runtime.",
    "subagent.",
    "swarm_mode.",
    "task.",
    "token_counting.",
    "tools.",
    "turn.",
    "usage.",
];

impl Marks<'_> {
    /// Whether it is a line of an agent, by its type.
    fn is_of_agent(&self, kind: &str, is_cut: bool) -> bool {
        let is_named = self.agent.filled().or(self.subagent.filled()).is_some();
        let is_newer = self.generation.is("event") && kind.starts_with("agent.");
        if is_named || is_newer {
            return FAMILIES.iter().any(|family| kind.starts_with(family));
        }
        // Before protocol 1.5 lines name no agent.
        match kind {
            "context.append_loop_event" => self.event.is_some() || is_cut,
            "context.append_message" => self.message.is_some() || is_cut,
            "turn.prompt" => self.input.is_some() || is_cut,
            "usage.record" => self.usage.is_some() || is_cut,
            _ => false,
        }
    }
}

/// Returns the dialect that a line is written in.
pub(super) fn recognize(line: HeadLine<'_>) -> Option<Dialect> {
    let marks: Marks<'_> = serde_json::from_str(line.object).ok()?;
    if marks.client_type.is("kimi_code_cli") {
        return marks.hook_event_name.filled().map(|_| HOOK);
    }
    let Some(kind) = marks.kind.filled() else {
        let is_session = marks.id.filled().is_some_and(|id| id.starts_with(SESSION_ID));
        let has_agents = marks.agents.is_some_and(|agents| agents.get().starts_with('{'));
        return (is_session && marks.created_at.is_some() && (has_agents || line.is_cut)).then_some(STATE);
    };
    match (kind, marks.role.get()) {
        ("metadata", None) => marks.protocol_version.filled().map(|_| WIRE),
        // The beginning of a file may be missing.
        (kind, None) if marks.time.0.is_some() => marks.is_of_agent(kind, line.is_cut).then_some(WIRE),
        (kind, Some("meta")) if PRINTED.contains(&kind) => Some(STREAM),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_lines_are_told_from_those_of_others() {
        let cases: [(&str, Option<Dialect>); 14] = [
            (r#"{"type":"metadata","protocol_version":"1.5","created_at":1}"#, Some(WIRE)),
            (r#"{"type":"metadata"}"#, None),
            // kimi-cli, the older program.
            (r#"{"protocol_version":1,"type":"hello"}"#, None),
            (r#"{"type":"context.append_loop_event","event":{"type":"step.begin"},"time":1}"#, Some(WIRE)),
            (r#"{"type":"turn.ended","agentId":"main","reason":"completed","time":1}"#, Some(WIRE)),
            (
                r#"{"turnId":0,"outcome":"done","type":"agent.turn.ended","time":1,"kind":"event"}"#,
                Some(WIRE),
            ),
            (r#"{"type":"usage.record","usage":{},"time":1}"#, Some(WIRE)),
            // Of another harness.
            (
                r#"{"type":"subagent.started","id":"1","agentId":"a","timestamp":"2026-11-21T20:48:01Z"}"#,
                None,
            ),
            (
                r#"{"hook_event_name":"Stop","session_id":"session_1","client_type":"kimi_code_cli"}"#,
                Some(HOOK),
            ),
            (r#"{"hook_event_name":"Stop","session_id":"s","cwd":"/w"}"#, None),
            (r#"{"role":"meta","type":"system.version","version":"2.1.0"}"#, Some(STREAM)),
            (r#"{"role":"assistant","content":"hello"}"#, None),
            ("{\"id\":\"session_1\",\"version\":2,\"createdAt\":1,\"agents\":{}}", Some(STATE)),
            ("{\"id\":\"other\",\"createdAt\":1,\"agents\":{}}", None),
        ];
        for (object, expected) in cases {
            assert_eq!(recognize(HeadLine { object, is_cut: false }), expected, "{object}");
            if expected.is_some() {
                assert_eq!(crate::recognize(object.as_bytes()), expected, "{object}");
            }
        }
    }
}
