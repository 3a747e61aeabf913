//! Detects which dialect of the family a line is written in, and which program wrote a source.
//!
//! The line about a session is the same in files and in what is printed, so the lines behind it decide.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;
use subscope_decode::{
    Dialect,
    lenient::{Num, Str},
};

use super::{
    OMP, OPENCLAW, PiMember,
    family::MEMBERS,
    messages::{Message, parse},
    omp, pi,
};
use crate::HeadLine;

/// The fields by which the dialects are recognized.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct Marks<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    timestamp: Str<'a>,
    v: Num,
    pad: Str<'a>,
    message: Option<&'a RawValue>,
    custom_type: Str<'a>,
    tool_call_id: Str<'a>,
    protocol_version: Num,
    supported_protocol_versions: Option<IgnoredAny>,
}

/// Types of the lines of a file, besides messages.
const ENTRIES: &[&str] = &[
    "branch_summary",
    "compaction",
    "custom",
    "custom_message",
    "label",
    "model_change",
    "session_info",
    "session_init",
    "thinking_level_change",
];
/// Roles of messages.
const ROLES: &[&str] =
    &["user", "assistant", "toolResult", "bashExecution", "custom", "branchSummary", "compactionSummary"];
/// Types of its own that oh-my-pi gives lines of a file.
const OMP_ENTRIES: &[&str] = &["session_exit", "tool_execution_start", "async-result", "irc:incoming"];
/// What the types begin with that OpenClaw gives lines of a file, and one that is its own.
const OPENCLAW_ENTRIES: (&str, &str) = ("openclaw", "model-snapshot");

impl Marks<'_> {
    fn has_role(&self) -> bool {
        self.message().role.get().is_some_and(|role| ROLES.contains(&role))
    }

    fn message(&self) -> Message<'_> {
        parse(self.message)
    }

    /// The program that alone writes such a line.
    fn writer(&self) -> Option<&'static PiMember> {
        let custom = self.custom_type.get().unwrap_or_default();
        let (prefix, own) = OPENCLAW_ENTRIES;
        if custom.starts_with(prefix) || custom == own {
            return Some(&OPENCLAW);
        }
        let is_own = match self.kind.get()? {
            "title" => self.v.0.is_some() && self.pad.get().is_some(),
            "session_init" | "advisor_cost_changed" => true,
            "ready" => self.protocol_version.0.is_some() && self.supported_protocol_versions.is_some(),
            "message" if self.message().provider.is(OPENCLAW.name) => return Some(&OPENCLAW),
            "message" | "message_start" | "message_end" => self.message().attribution.filled().is_some(),
            _ => OMP_ENTRIES.contains(&custom),
        };
        is_own.then_some(&OMP)
    }
}

/// Returns the dialect that a line is written in: of pi, where other lines are to show who wrote it.
pub(super) fn recognize(line: HeadLine<'_>) -> Option<Dialect> {
    let marks: Marks<'_> = serde_json::from_str(line.object).ok()?;
    let kind = marks.kind.filled()?;
    match kind {
        "title" => marks.writer().map(|_| omp::SESSION),
        "advisor_cost_changed" | "ready" => marks.writer().map(|_| omp::STREAM),
        "message_start" | "message_end" => (marks.has_role() || line.is_cut).then_some(pi::STREAM),
        "tool_execution_start" | "tool_execution_update" | "tool_execution_end" => {
            marks.tool_call_id.filled().map(|_| pi::STREAM)
        }
        _ => {
            let is_message = kind == "message" && (marks.has_role() || line.is_cut);
            let is_entry = (is_message || ENTRIES.contains(&kind)) && marks.timestamp.filled().is_some();
            is_entry.then_some(pi::SESSION)
        }
    }
}

/// Returns the dialect of the program that wrote a source which seems to be pi's, by the lines of its head.
pub(super) fn writer(dialect: Dialect, head: &[u8]) -> Option<Dialect> {
    let lines = head.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let by_line = lines.filter_map(|marks: Marks<'_>| marks.writer()).next()?;
    let found = MEMBERS.iter().find(|member| member.name == by_line.name)?;
    if dialect == pi::STREAM { found.stream() } else { found.session() }
}

#[cfg(test)]
mod tests {
    use super::{super::openclaw, *};

    const HEAD: &str =
        r#"{"type":"session","version":3,"id":"1","timestamp":"2026-11-26T19:26:25.570Z","cwd":"/w"}"#;

    #[test]
    fn files_and_printed_lines_are_told_apart_and_named_as_what_they_are() {
        let model = r#"{"type":"model_change","id":"a","parentId":null,"timestamp":"t","provider":"p","modelId":"m"}"#;
        let user = r#"{"type":"message","id":"b","parentId":"a","timestamp":"t","message":{"role":"user","content":"do"}}"#;
        let own = r#"{"type":"message","id":"b","timestamp":"t","message":{"role":"user","content":[],"attribution":"user"}}"#;
        let snapshot =
            r#"{"type":"custom","customType":"model-snapshot","data":{},"id":"c","timestamp":"t"}"#;
        let printed = r#"{"type":"message_start","message":{"role":"user","content":[]}}"#;
        let asked = r#"{"type":"message_start","message":{"role":"user","content":[],"attribution":"user"}}"#;
        let cases: [(&[&str], Option<Dialect>); 16] = [
            (&[HEAD], None),
            (&[HEAD, model, user], Some(pi::SESSION)),
            (&[model], Some(pi::SESSION)),
            (&[HEAD, model, own], Some(omp::SESSION)),
            (&[r#"{"type":"title","v":1,"title":"","pad":"  "}"#, HEAD], Some(omp::SESSION)),
            (&[HEAD, model, snapshot, user], Some(openclaw::SESSION)),
            (&[HEAD, r#"{"type":"agent_start"}"#, printed], Some(pi::STREAM)),
            (&[HEAD, r#"{"type":"agent_start"}"#, asked], Some(omp::STREAM)),
            (&[HEAD, r#"{"type":"advisor_cost_changed"}"#], Some(omp::STREAM)),
            (&[r#"{"type":"ready","protocolVersion":1,"supportedProtocolVersions":[1]}"#], Some(omp::STREAM)),
            (&[r#"{"type":"ready"}"#], None),
            (&[r#"{"type":"title","title":"x"}"#], None),
            (&[r#"{"type":"agent_start"}"#], None),
            (
                &[r#"{"type":"message","role":"user","content":"do","timestamp":"t"}"#],
                Some(crate::gemini::STREAM),
            ),
            (&[r#"{"type":"message","message":{"role":"user","content":"do"}}"#], None),
            (&[r#"{"type":"tool_execution_start","toolName":"bash"}"#], None),
        ];
        for (lines, expected) in cases {
            assert_eq!(crate::recognize(lines.join("\n").as_bytes()), expected, "{lines:?}");
        }
    }
}
