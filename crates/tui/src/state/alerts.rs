//! What somebody should look at, as rows tell it.

use std::collections::VecDeque;

use subscope_model::{Agent, AgentId, AgentStatus, Flag, Millis, SessionId, Tree};
use subscope_render::Ink;

/// How many alerts are kept.
const MOST: usize = 50;

/// For how long an alert stands on the screen.
const SHOWN_MS: Millis = 12_000;

/// What somebody should look at, the newest last.
#[derive(Debug, Default)]
pub struct Alerts {
    all: VecDeque<Alert>,
}

/// Something to look at.
#[derive(Clone, Debug, PartialEq)]
pub struct Alert {
    /// Whose session.
    pub session: SessionId,
    /// Who.
    pub agent: AgentId,
    /// What people call it.
    pub title: String,
    /// What is the matter.
    pub what: &'static str,
    /// In which colour.
    pub ink: Ink,
    /// When it was told, by the clock that never steps.
    pub at_ms: Millis,
}

impl Alerts {
    /// Adds alerts.
    pub fn add(&mut self, alerts: Vec<Alert>) {
        self.all.extend(alerts);
        let surplus = self.all.len().saturating_sub(MOST);
        self.all.drain(..surplus);
    }

    /// The newest one.
    pub fn newest(&self) -> Option<&Alert> {
        self.all.back()
    }

    /// The one that is shown at a moment, and how many others came within the same time.
    pub fn shown(&self, awake_ms: Millis) -> Option<(&Alert, usize)> {
        let newest = self.all.back()?;
        let recent = self.all.iter().filter(|alert| awake_ms - alert.at_ms < SHOWN_MS).count();
        (recent > 0).then(|| (newest, recent - 1))
    }

    /// Takes the shown ones from the screen.
    pub fn dismiss(&mut self) {
        for alert in &mut self.all {
            alert.at_ms = Millis::MIN / 2;
        }
    }
}

/// Returns what is new in an agent's row that somebody should look at.
pub fn news(tree: &Tree, before: Option<&Agent>, now: &Agent, awake_ms: Millis) -> Vec<Alert> {
    let alert = |what, ink| Alert {
        session: tree.session.id.clone(),
        agent: now.id.clone(),
        title: now.title(),
        what,
        ink,
        at_ms: awake_ms,
    };
    let mut alerts = Vec::new();
    for flag in &now.flags {
        let is_new = before.is_none_or(|before| !before.has(*flag));
        let what = match flag {
            Flag::Stalled => "is stalled",
            Flag::Failing => "fails again and again",
            Flag::Looping => "makes the same call again and again",
            Flag::Colliding => "writes a file that another writes",
            Flag::Stopping | Flag::Orphan | Flag::Warmup | Flag::Copied => continue,
        };
        if is_new && now.status.is_live() {
            alerts.push(alert(what, Ink::Stalled));
        }
    }
    let was_live = before.is_some_and(|before| before.status.is_live());
    match now.status {
        AgentStatus::Failed if was_live => alerts.push(alert("failed", Ink::Failed)),
        AgentStatus::Lost if was_live => alerts.push(alert("is lost", Ink::Stalled)),
        // Each subagent of a foreground call is a step of its parent: only what somebody waits for is told.
        AgentStatus::Completed if was_live && (now.id.is_root() || now.background) => {
            alerts.push(alert("has finished", Ink::Done));
        }
        _ => {}
    }
    if super::trees::asks(now) && !before.is_some_and(super::trees::asks) {
        alerts.push(alert("waits for your permission", Ink::Waiting));
    }
    alerts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn alerts_are_told_once_and_only_for_what_is_new() {
        let tree = samples::tree("s", &[("root", 0), ("a", 1)]);
        let running = Agent { status: AgentStatus::Running, ..tree.agents[1].clone() };
        let stalled = Agent { flags: vec![Flag::Stalled], ..running.clone() };
        let failed = Agent { status: AgentStatus::Failed, ..stalled.clone() };
        let root = Agent { status: AgentStatus::Running, ..tree.agents[0].clone() };
        let of = |before: &Agent, now: &Agent| {
            news(&tree, Some(before), now, 0).iter().map(|alert| alert.what).collect::<Vec<_>>()
        };
        assert_eq!(of(&running, &stalled), ["is stalled"]);
        assert_eq!(of(&stalled, &stalled), Vec::<&str>::new());
        assert_eq!(of(&stalled, &failed), ["failed"]);
        assert_eq!(of(&running, &tree.agents[1]), Vec::<&str>::new());
        assert_eq!(of(&root, &tree.agents[0]), ["has finished"]);
    }

    #[test]
    fn alerts_leave_the_screen_after_a_while_and_are_bounded() {
        let tree = samples::tree("s", &[("root", 0)]);
        let root = Agent { status: AgentStatus::Running, ..tree.agents[0].clone() };
        let mut alerts = Alerts::default();
        for at in 0..MOST as i64 + 5 {
            alerts.add(news(&tree, Some(&root), &tree.agents[0], at));
        }
        assert_eq!(alerts.all.len(), MOST);
        assert_eq!(alerts.shown(60).map(|(_, more)| more), Some(MOST - 1));
        assert_eq!(alerts.shown(100_000), None);
        alerts.dismiss();
        assert_eq!((alerts.shown(60), alerts.newest().is_some()), (None, true));
    }
}
