//! Changes as lines, for screen readers and logs: nothing is redrawn, each line stands for itself.

use std::collections::HashMap;

use subscope_model::{Agent, AgentId, AgentStatus, Change, Flag, Millis, SessionId, Update};
use subscope_render::{Style, activity, text};

/// Tells changes in lines.
#[derive(Debug)]
pub struct Plain {
    style: Style,
    offset_minutes: i32,
    rows: HashMap<SessionId, HashMap<AgentId, Told>>,
    is_caught_up: bool,
}

/// What was told of an agent.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    status: AgentStatus,
    is_at_work: bool,
    flags: Vec<Flag>,
    /// What it waits for, without since when.
    wait: Option<String>,
}

impl Plain {
    /// Nothing told yet.
    pub fn new(style: Style, offset_minutes: i32) -> Self {
        let style = Style { color: false, ..style };
        Self { style, offset_minutes, rows: HashMap::new(), is_caught_up: false }
    }

    /// Takes an update; returns the lines that tell it, each ending in a newline. What stood there at first is told in one
    /// line a session, once it is known.
    pub fn take(&mut self, update: &Update, now_ms: Millis) -> String {
        match update {
            Update::Snapshot(tree) => self.rows_of(
                &tree.session.id,
                place(tree.session.cwd.as_deref(), &tree.session.id),
                &tree.agents,
                now_ms,
            ),
            Update::Change(change) => {
                let Change { session, agents, removed } = &**change;
                if let Some(rows) = self.rows.get_mut(&session.id) {
                    rows.retain(|id, _| !removed.contains(id));
                }
                self.rows_of(&session.id, place(session.cwd.as_deref(), &session.id), agents, now_ms)
            }
            Update::Missed(0) => self.line(now_ms, "some events were not told"),
            Update::Missed(count) => self.line(now_ms, &format!("{count} events were not told")),
            Update::CaughtUp => {
                self.is_caught_up = true;
                let live: usize =
                    self.rows.values().flat_map(HashMap::values).filter(|told| told.is_at_work).count();
                self.line(now_ms, &format!("{} sessions, {live} agents at work", self.rows.len()))
            }
            Update::Event(_) => String::new(),
        }
    }

    fn line(&self, now_ms: Millis, words: &str) -> String {
        format!("{} {}\n", text::clock(now_ms, self.offset_minutes), self.style.one_line(words, 2_000))
    }

    fn rows_of(&mut self, session: &SessionId, place: &str, agents: &[Agent], now_ms: Millis) -> String {
        let mut out = String::new();
        for agent in agents {
            let told = self.told(agent);
            let rows = self.rows.entry(session.clone()).or_default();
            let before = rows.insert(agent.id.clone(), told.clone());
            if !self.is_caught_up || before.as_ref() == Some(&told) {
                continue;
            }
            for words in news(agent, before.as_ref(), &told) {
                out += &self.line(now_ms, &format!("{place}: {} {words}", agent.title()));
            }
        }
        out
    }

    fn told(&self, agent: &Agent) -> Told {
        let wait = activity(agent, None, &self.style).map(|(_, words)| words);
        Told { status: agent.status, is_at_work: agent.is_at_work(), flags: agent.flags.clone(), wait }
    }
}

/// Where a session works, in a word.
fn place<'a>(cwd: Option<&'a str>, session: &'a SessionId) -> &'a str {
    let last = cwd.and_then(|cwd| cwd.trim_end_matches('/').rsplit('/').next());
    last.filter(|word| !word.is_empty()).unwrap_or(session)
}

/// What is new, a sentence each.
fn news(agent: &Agent, before: Option<&Told>, now: &Told) -> Vec<String> {
    let mut words = Vec::new();
    if before.map(|before| before.status) != Some(now.status) {
        let facts = match now.status {
            AgentStatus::Pending | AgentStatus::Running if before.is_none() => "started".to_owned(),
            AgentStatus::Pending | AgentStatus::Running => "goes on".to_owned(),
            _ => ended(agent),
        };
        words.push(facts);
    }
    let is_new = |flag: &&Flag| !before.is_some_and(|before| before.flags.contains(*flag));
    words.extend(now.flags.iter().filter(is_new).map(|flag| format!("is {}", flag.as_str())));
    if let Some(wait) =
        now.wait.as_ref().filter(|wait| before.and_then(|before| before.wait.as_ref()) != Some(*wait))
    {
        words.push(format!("now: {wait}"));
    }
    words
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
        let snapshot = |tree: &Tree| Update::Snapshot(Box::new(tree.clone()));
        assert_eq!(plain.take(&snapshot(&tree), 0), "");
        assert_eq!(plain.take(&Update::CaughtUp, 0), "00:00:00 1 sessions, 1 agents at work\n");
        tree.agents[1].flags = vec![Flag::Stalled];
        tree.agents[1].description = Some("do\u{1b}it".into());
        assert_eq!(plain.take(&snapshot(&tree), 1_000), "00:00:01 shop: do␛it is stalled\n");
        assert_eq!(plain.take(&snapshot(&tree), 2_000), "");
        tree.agents[1].status = AgentStatus::Failed;
        tree.agents[1].error = Some("no\nway".into());
        tree.agents[1].wall_ms = Some(61_000);
        assert_eq!(
            plain.take(&snapshot(&tree), 3_000),
            "00:00:03 shop: do␛it failed after 1m 1s, 0 tool calls: no way\n"
        );
    }
}
