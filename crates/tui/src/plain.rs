//! Line output of feed updates for screen readers and logs: no redraws, each line is self-contained.

use std::borrow::Cow;

use subscope_model::{Agent, AgentStatus, Flag, LiveView, Millis, Session, Update};
use subscope_render::{Style, activity, text};

/// Formats feed updates as lines.
#[derive(Debug)]
pub struct Plain {
    style: Style,
    offset_minutes: i32,
    view: LiveView,
    is_caught_up: bool,
}

impl Plain {
    /// Creates a formatter; colors are switched off.
    pub fn new(style: Style, offset_minutes: i32) -> Self {
        let style = Style { color: false, ..style };
        Self { style, offset_minutes, view: LiveView::default(), is_caught_up: false }
    }

    /// Formats an update as lines, each ending in a newline. The initial state is not listed: [`Update::CaughtUp`]
    /// prints one line of totals.
    pub fn take(&mut self, update: Update, now_ms: Millis) -> String {
        let lines = match &update {
            Update::Snapshot(tree) => self.format_agents(&tree.session, &tree.agents, now_ms),
            Update::Change(change) => self.format_agents(change.session(), &change.agents, now_ms),
            Update::Reset => self.line(now_ms, "some events were missed"),
            Update::Missed(count) => self.line(now_ms, &format!("{count} events were missed")),
            Update::CaughtUp => {
                self.is_caught_up = true;
                let agents = self.view.trees().flat_map(|tree| &tree.agents);
                let live = agents.filter(|agent| agent.is_at_work()).count();
                let sessions = self.view.trees().count();
                self.line(
                    now_ms,
                    &format!(
                        "{}, {} at work",
                        text::plural(sessions, "session"),
                        text::plural(live, "agent")
                    ),
                )
            }
            Update::Event(_) => String::new(),
        };
        self.view.apply(update);
        lines
    }

    fn line(&self, now_ms: Millis, words: &str) -> String {
        format!("{} {}\n", text::clock(now_ms, self.offset_minutes), self.style.one_line(words, 2_000))
    }

    fn format_agents(&self, session: &Session, agents: &[Agent], now_ms: Millis) -> String {
        let mut out = String::new();
        if !self.is_caught_up {
            return out;
        }
        let directory_name = directory_name(session);
        for agent in agents {
            let before = self.view.agent(&session.id, &agent.id);
            for words in self.describe_changes(before, agent) {
                out += &self.line(now_ms, &format!("{directory_name}: {} {words}", agent.title()));
            }
        }
        out
    }

    /// Describes an agent's changes, one phrase each.
    fn describe_changes(&self, before: Option<&Agent>, now: &Agent) -> Vec<String> {
        let mut words = Vec::new();
        if before.map(|before| before.status) != Some(now.status) {
            words.push(match now.status {
                AgentStatus::Pending | AgentStatus::Running if before.is_none() => "started".to_owned(),
                AgentStatus::Pending | AgentStatus::Running => "continues".to_owned(),
                AgentStatus::Completed | AgentStatus::Failed | AgentStatus::Stopped | AgentStatus::Lost => {
                    ended(now)
                }
            });
        }
        let is_new = |flag: &&Flag| !before.is_some_and(|before| before.flags.contains(*flag));
        words.extend(now.flags.iter().filter(is_new).map(|flag| format!("is {}", flag.as_str())));
        // Without its duration.
        let wait = |agent: &Agent| activity(agent, None, &self.style).map(|(_, words)| words);
        let changed = wait(now).filter(|now| before.and_then(wait).as_ref() != Some(now));
        words.extend(changed.map(|wait| format!("now: {wait}")));
        words
    }
}

/// The place of a session, else its id.
fn directory_name(session: &Session) -> Cow<'_, str> {
    let place = text::place_name(session.cwd.as_deref(), session.project.as_deref());
    if place.is_empty() { session.id.as_str().into() } else { place }
}

fn ended(agent: &Agent) -> String {
    let mut facts = agent.status.as_str().to_owned();
    if let Some(wall) = agent.wall_ms {
        facts += &format!(" after {}", text::duration(Some(wall)));
    }
    facts += &format!(", {} tool calls", agent.tool_calls);
    if let Some(error) = &agent.error {
        facts += &format!(": {error}");
    }
    facts
}

#[cfg(test)]
mod tests {
    use subscope_model::Tree;

    use super::*;
    use crate::samples;

    #[test]
    fn changes_are_told_once_and_what_stood_there_is_counted() {
        let mut plain = Plain::new(Style { color: true, ascii: false, width: 80 }, 0);
        let mut tree = samples::tree("s", &[("root", 0), ("a", 1)]);
        tree.agents[1].status = AgentStatus::Running;
        let snapshot = |tree: &Tree| Update::snapshot(tree.clone());
        assert_eq!(plain.take(snapshot(&tree), 0), "");
        assert_eq!(plain.take(Update::CaughtUp, 0), "00:00:00 1 session, 1 agent at work\n");
        tree.agents[1].flags = vec![Flag::Stalled];
        tree.agents[1].description = Some("do\u{1b}it".into());
        assert_eq!(plain.take(snapshot(&tree), 1_000), "00:00:01 shop: do␛it is stalled\n");
        assert_eq!(plain.take(snapshot(&tree), 2_000), "");
        tree.agents[1].status = AgentStatus::Failed;
        tree.agents[1].error = Some("no\nway".into());
        tree.agents[1].wall_ms = Some(61_000);
        assert_eq!(
            plain.take(snapshot(&tree), 3_000),
            "00:00:03 shop: do␛it failed after 1m 1s, 0 tool calls: no way\n"
        );
    }
}
