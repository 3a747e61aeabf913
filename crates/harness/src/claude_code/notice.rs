//! `<task-notification>`: how the harness reports to a conversation that a background task ended.
//!
//! Observed: Claude Code 2.1.50 to 2.1.330, in user lines, queue operations, queued commands and
//! UserPromptSubmit. The text is the harness's, but it can hold an agent's report: only the first of each tag
//! before the report counts.

use subscope_model::{AgentEnd, AgentStatus, EndEvidence, Millis, PromptKind, RawJson, SpawnTotals};

use super::{teammate, tools::INTERRUPTED};

/// What such a text starts with. It is never a prompt of the user.
const TAG: &str = "<task-notification>";

/// End of the summary of an agent whose turn has ended while its own background command still runs. Observed: Claude
/// Code 2.1.330.
const WAITS: &str = "is waiting on its own background work";

/// Whether a summary is of an agent that waits for its own background command.
pub(super) fn waits(summary: &str) -> bool {
    summary.trim_end().trim_end_matches('.').ends_with(WAITS)
}

/// Whether a text is a task notification.
pub(super) fn is_notice(text: &str) -> bool {
    text.trim_start().starts_with(TAG)
}

/// What the texts of a local command start with: the command, and what it prints. Observed: Claude Code 2.1.330,
/// fixtures `interactive-compact` and `interactive-clear`. A command that is a prompt starts with `<command-message>`
/// (fixture `unseen/2.1.330/u17-stdin`).
const LOCAL: [&str; 6] = [
    "<local-command-",
    "<command-name>",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<user-memory-input>",
];

/// Elements in which an editor tells the model what the person looks at or refers to. Observed: the extension for VS Code, 2.0
/// and 2.1; `system-reminder` from Copilot Chat, `system_instruction` from Conductor, which run the harness.
const EDITOR: [&str; 6] = [
    "ide_opened_file",
    "ide_selection",
    "ide_diagnostics",
    "system-reminder",
    "system_instruction",
    "system-instruction",
];

/// The element in which a channel (an MCP server of a chat) passes on what a person wrote there.
const CHANNEL: &str = "<channel ";

/// Returns what was written in a channel, if a text is that.
fn in_channel(text: &str) -> Option<&str> {
    let (attributes, rest) = text.strip_prefix(CHANNEL)?.split_once('>')?;
    let words = rest.rsplit_once("</channel>").map_or(rest, |(words, _)| words).trim();
    (attributes.contains("source=") && !words.is_empty()).then_some(words)
}

/// Returns a text without the elements of an editor at its start.
fn without_editor(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some(inner) = rest.strip_prefix('<')
        && let Some(name) = EDITOR.iter().find(|name| inner.starts_with(**name))
        && let Some((_, behind)) = rest.split_once(&format!("</{name}>"))
    {
        rest = behind.trim_start();
    }
    rest
}

/// Returns what a person asked with a prompt as they typed it, if the prompt has more or other words: the command with its
/// arguments, or the words behind an editor's elements.
pub(super) fn asked(text: &str) -> Option<String> {
    let rest = without_editor(text);
    if rest.starts_with("<command-message>") || rest.starts_with("<command-name>") {
        let name = tag(rest, "command-name")?;
        let slash = if name.starts_with('/') { "" } else { "/" };
        let arguments = tag(rest, "command-args").map(|words| format!(" {words}")).unwrap_or_default();
        return Some(format!("{slash}{name}{arguments}"));
    }
    if let Some(words) = in_channel(rest) {
        return Some(words.to_owned());
    }
    (rest.len() < text.trim_start().len() && !rest.is_empty()).then(|| rest.to_owned())
}

/// The prompt of an agent that the harness starts by itself, to warm up.
/// Observed: 2.0.28 and 2.0.76, fixtures `2.0.76/*`.
const WARMUP: &str = "Warmup";

/// Whether a text is the prompt of a warm-up.
pub(super) fn is_warmup(text: &str) -> bool {
    text == WARMUP
}

/// Classifies a text of the user's role by its words and, if the harness recorded one, by its origin.
pub(super) fn prompt_kind(text: &str, origin: Option<&str>) -> PromptKind {
    let head = text.trim_start();
    if head.starts_with(INTERRUPTED) {
        PromptKind::Interrupted
    } else if without_editor(head).is_empty() && !head.is_empty() {
        // The person's words are another text.
        PromptKind::Meta
    } else if origin == Some("human") || in_channel(head).is_some() {
        PromptKind::Asked
    } else if origin.is_some() || is_notice(head) || is_stop_notice(head) || teammate::is_message(head) {
        PromptKind::Meta
    } else if LOCAL.iter().any(|tag| head.starts_with(tag)) {
        PromptKind::Local
    } else {
        PromptKind::Asked
    }
}

/// Whether a text is the harness's message that the user stopped background agents. Observed: Claude Code 2.1.330,
/// which puts it into the conversation like a task notification.
fn is_stop_notice(text: &str) -> bool {
    let line = text.trim_end();
    let one = line.starts_with("Background agent \"") && line.ends_with("\" was stopped by the user.");
    let count = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let many = count.len() < line.len() && count.starts_with(" background agents were stopped by the user: ");
    one || many
}

/// The parts of a task notification that matter.
pub(super) struct Notice<'t> {
    task_id: &'t str,
    tool_use_id: Option<&'t str>,
    status: AgentStatus,
    summary: Option<&'t str>,
    report: Option<&'t str>,
    totals: Option<SpawnTotals>,
}

impl<'t> Notice<'t> {
    /// Reads a notification; `None` where it names no task or no ending.
    pub(super) fn read(text: &'t str) -> Option<Self> {
        let summary = tag(text, "summary");
        let status = match tag(text, "status")? {
            // The agent continues by itself when the command has ended, and is reported again.
            "completed" if summary.is_some_and(waits) => AgentStatus::Running,
            "completed" => AgentStatus::Completed,
            "failed" => AgentStatus::Failed,
            "killed" | "stopped" => AgentStatus::Stopped,
            _ => return None,
        };
        Some(Self {
            task_id: tag(text, "task-id")?,
            tool_use_id: tag(text, "tool-use-id"),
            status,
            summary,
            report: report(text),
            totals: totals(text),
        })
    }

    /// As an ending. `words` is a buffer for the JSON text of the report or the error.
    pub(super) fn end<'a>(&'a self, words: &'a mut String) -> AgentEnd<'a> {
        let text = match self.status {
            AgentStatus::Completed => self.report,
            AgentStatus::Failed => self.summary,
            AgentStatus::Pending | AgentStatus::Running | AgentStatus::Stopped | AgentStatus::Lost => None,
        };
        let raw = text.map(|text| {
            *words = serde_json::Value::from(text).to_string();
            RawJson { json: words, offset: u64::MAX }
        });
        let (report, error) = if self.status == AgentStatus::Failed { (None, raw) } else { (raw, None) };
        AgentEnd {
            agent: Some(self.task_id),
            call: self.tool_use_id,
            status: self.status,
            evidence: EndEvidence::Notification,
            report,
            error,
            totals: self.totals,
            ..AgentEnd::default()
        }
    }
}

/// The agent's report: up to the last end tag, for it may hold such tags itself.
fn report(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("<result>")?;
    let (report, _) = rest.rsplit_once("</result>")?;
    Some(report.trim()).filter(|report| !report.is_empty())
}

/// The agent's sums, behind its report. Its total of tokens is that of the last request, without their kinds.
fn totals(text: &str) -> Option<SpawnTotals> {
    let (_, rest) = text.rsplit_once("</result>").or_else(|| text.split_once("</summary>"))?;
    let usage = tag(rest, "usage")?;
    let number = |name: &str| tag(usage, name)?.parse::<u64>().ok();
    Some(SpawnTotals {
        tool_calls: u32::try_from(number("tool_uses")?).unwrap_or(u32::MAX),
        last_request: None,
        duration_ms: number("duration_ms").and_then(|duration| Millis::try_from(duration).ok()),
    })
}

fn tag<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let open = format!("<{name}>");
    let start = text.find(&open)? + open.len();
    let rest = text.get(start..)?;
    let end = rest.find(&format!("</{name}>"))?;
    rest.get(..end).map(str::trim).filter(|inner| !inner.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_person_says_to_the_model_is_a_prompt() {
        for (text, origin, what) in [
            ("Fix it.", None, PromptKind::Asked),
            ("Fix it.", Some("human"), PromptKind::Asked),
            ("<bash-input> ls</bash-input>", Some("human"), PromptKind::Asked),
            ("Fix it.", Some("peer"), PromptKind::Meta),
            ("<task-notification>x", None, PromptKind::Meta),
            ("Background agent \"Map\" was stopped by the user.", None, PromptKind::Meta),
            ("2 background agents were stopped by the user: \"A\", \"B\".", None, PromptKind::Meta),
            ("Why was the Background agent \"Map\" stopped by the user?", None, PromptKind::Asked),
            (" background agents were stopped by the user: who?", None, PromptKind::Asked),
            ("<bash-input> ls src</bash-input>", None, PromptKind::Local),
            ("<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>", None, PromptKind::Local),
            ("<command-name>/compact</command-name>", None, PromptKind::Local),
            (
                "<command-message>mycmd</command-message>\n<command-name>/mycmd</command-name>",
                None,
                PromptKind::Asked,
            ),
            ("<local-command-stdout>Compacted</local-command-stdout>", None, PromptKind::Local),
            ("[Request interrupted by user]", Some("human"), PromptKind::Interrupted),
            ("<ide_opened_file>The user opened /w/a.rs</ide_opened_file>", None, PromptKind::Meta),
            ("<ide_selection>fn a</ide_selection>\n", Some("human"), PromptKind::Meta),
            ("<system-reminder>\nThe user refers to a.rs\n</system-reminder>", None, PromptKind::Meta),
            ("<ide_selection>fn a</ide_selection>\nwhat is it?", None, PromptKind::Asked),
        ] {
            assert_eq!(prompt_kind(text, origin), what, "{text}");
        }
    }

    #[test]
    fn what_was_asked_is_as_it_was_typed() {
        for (text, typed) in [
            ("Fix it.", None),
            ("<b>Fix it.</b>", None),
            (
                "<command-message>docs is running…</command-message>\n<command-name>/docs</command-name>\n<command-args>describe the parser</command-args>",
                Some("/docs describe the parser"),
            ),
            ("<command-message>x</command-message>\n<command-name>mycmd</command-name>", Some("/mycmd")),
            (
                "<command-name>/model</command-name>\n<command-message>model</command-message>\n<command-args></command-args>",
                Some("/model"),
            ),
            ("<ide_opened_file>a</ide_opened_file><ide_selection>b</ide_selection>\nWhy?", Some("Why?")),
            ("<ide_opened_file>a</ide_opened_file>", None),
            ("<system-reminder>\na.rs\n</system-reminder>\nRun sleep 4", Some("Run sleep 4")),
            ("<ide_opened_file>cut", None),
            (
                "<system_instruction>\nYou are in a workspace.\n</system_instruction>\n\nFix it.",
                Some("Fix it."),
            ),
            (
                "<channel source=\"telegram\" chat_id=\"1\" user=\"ada\">\nFix it.\n</channel>",
                Some("Fix it."),
            ),
            ("<channel>what is it?", None),
        ] {
            assert_eq!(asked(text).as_deref(), typed, "{text}");
        }
    }

    #[test]
    fn notice_of_an_agent_that_waits_for_its_own_command_is_no_ending() {
        let text = "<task-notification>\n<task-id>a1</task-id>\n<status>completed</status>\n<summary>Agent \"Map\" is waiting on its own background work</summary>";
        assert_eq!(Notice::read(text).unwrap().status, AgentStatus::Running);
        let done = text.replace("is waiting on its own background work", "finished");
        assert_eq!(Notice::read(&done).unwrap().status, AgentStatus::Completed);
    }

    #[test]
    fn read_notice_gives_task_status_and_trigger() {
        let text = "<task-notification>\n<task-id>ae8</task-id>\n<tool-use-id>toolu_1</tool-use-id>\n<status>killed</status>\n<summary>x</summary>";
        let notice = Notice::read(text).unwrap();
        let mut buffer = String::new();
        let end = notice.end(&mut buffer);
        assert_eq!((end.agent, end.call, end.status), (Some("ae8"), Some("toolu_1"), AgentStatus::Stopped));
        let done = text.replace("killed", "completed") + "<result>Use <result>x</result>.\n</result>";
        let notice = Notice::read(&done).unwrap();
        let mut buffer = String::new();
        assert_eq!(notice.end(&mut buffer).report.unwrap().text(), "Use <result>x</result>.");
        assert!(is_notice(text) && !is_notice("please read <task-notification>"));
        assert!(Notice::read("<task-notification><task-id>b</task-id><status>odd</status>").is_none());
    }
}
