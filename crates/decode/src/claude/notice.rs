//! `<task-notification>`: how the harness tells a conversation that a background task ended.
//!
//! Observed: Claude Code 2.1.50 to 2.1.330, in user lines, queue operations, queued commands and
//! UserPromptSubmit. The text is the harness's, but it can hold an agent's report: only the first of each tag
//! before the report counts.

use subscope_model::{AgentEnd, AgentStatus, EndEvidence, Raw};

/// What such a text starts with. It is never a prompt of the user.
pub(crate) const TAG: &str = "<task-notification>";

/// Whether a text is a task notification.
pub(crate) fn is_notice(text: &str) -> bool {
    text.trim_start().starts_with(TAG)
}

/// The parts of a task notification that matter.
pub(crate) struct Notice<'t> {
    task_id: &'t str,
    tool_use_id: Option<&'t str>,
    status: AgentStatus,
    summary: Option<&'t str>,
}

impl<'t> Notice<'t> {
    /// Reads a notification; `None` where it names no task or no ending.
    pub(crate) fn read(text: &'t str) -> Option<Self> {
        let status = match tag(text, "status")? {
            "completed" => AgentStatus::Completed,
            "failed" => AgentStatus::Failed,
            "killed" | "stopped" => AgentStatus::Stopped,
            _ => return None,
        };
        Some(Self {
            task_id: tag(text, "task-id")?,
            tool_use_id: tag(text, "tool-use-id"),
            status,
            summary: tag(text, "summary"),
        })
    }

    /// As an ending. `summary` is a buffer for the error's JSON text.
    pub(crate) fn end<'a>(&'a self, summary: &'a mut String) -> AgentEnd<'a> {
        let error = match (self.status, self.summary) {
            (AgentStatus::Failed, Some(text)) => {
                *summary = serde_json::Value::from(text).to_string();
                Some(Raw { json: summary, offset: u64::MAX })
            }
            _ => None,
        };
        AgentEnd {
            agent: Some(self.task_id),
            call: self.tool_use_id,
            run_id: None,
            status: self.status,
            evidence: EndEvidence::Notification,
            time: None,
            report: None,
            error,
            agent_type: None,
        }
    }
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
    fn read_notice_gives_task_status_and_trigger() {
        let text = "<task-notification>\n<task-id>ae8</task-id>\n<tool-use-id>toolu_1</tool-use-id>\n<status>killed</status>\n<summary>x</summary>";
        let notice = Notice::read(text).unwrap();
        let mut buffer = String::new();
        let end = notice.end(&mut buffer);
        assert_eq!((end.agent, end.call, end.status), (Some("ae8"), Some("toolu_1"), AgentStatus::Stopped));
        assert!(is_notice(text) && !is_notice("please read <task-notification>"));
        assert!(Notice::read("<task-notification><task-id>b</task-id><status>odd</status>").is_none());
    }
}
