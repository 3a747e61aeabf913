//! Alerts, derived from changes of agent rows.

use std::collections::VecDeque;

use subscope_model::{Agent, AgentId, AgentStatus, Flag, Millis, SessionId, Tree};
use subscope_render::Ink;

/// Most alerts stored.
const MAX_ALERTS: usize = 50;

/// Display time of an alert.
const SHOWN_MS: Millis = 12_000;

/// Recent alerts, newest last.
#[derive(Debug, Default)]
pub(crate) struct AlertLog {
    all: VecDeque<Alert>,
}

/// An alert about an agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alert {
    pub(crate) session: SessionId,
    pub(crate) agent: AgentId,
    pub(crate) title: String,
    /// What happened, as a predicate of the title.
    pub(crate) what: &'static str,
    pub(crate) ink: Ink,
    /// When it was raised, by the monotonic clock.
    pub(crate) at_ms: Millis,
}

impl AlertLog {
    /// Adds alerts and drops the oldest beyond [`MAX_ALERTS`].
    pub(crate) fn add(&mut self, alerts: Vec<Alert>) {
        self.all.extend(alerts);
        let surplus = self.all.len().saturating_sub(MAX_ALERTS);
        self.all.drain(..surplus);
    }

    pub(crate) fn newest(&self) -> Option<&Alert> {
        self.all.back()
    }

    /// The newest alert if it is still displayed, and how many others were raised within the display time.
    pub(crate) fn shown(&self, awake_ms: Millis) -> Option<(&Alert, usize)> {
        let newest = self.all.back()?;
        let recent = self.all.iter().filter(|alert| awake_ms - alert.at_ms < SHOWN_MS).count();
        (recent > 0).then(|| (newest, recent - 1))
    }

    pub(crate) fn dismiss(&mut self) {
        for alert in &mut self.all {
            alert.at_ms = Millis::MIN / 2;
        }
    }
}

/// Returns the alerts that a changed agent row raises.
pub(crate) fn raised_alerts(
    tree: &Tree,
    before: Option<&Agent>,
    now: &Agent,
    awake_ms: Millis,
) -> Vec<Alert> {
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
    let ending = match now.status {
        AgentStatus::Failed => Some(alert("failed", Ink::Failed)),
        AgentStatus::Lost => Some(alert("is lost", Ink::Stalled)),
        // A foreground subagent is a step of its parent: only the end of root and background agents is an alert.
        AgentStatus::Completed if now.id.is_root() || now.background => {
            Some(alert("has finished", Ink::Done))
        }
        AgentStatus::Pending | AgentStatus::Running | AgentStatus::Completed | AgentStatus::Stopped => None,
    };
    alerts.extend(ending.filter(|_| was_live));
    if super::trees::waits_for_permission(now) && !before.is_some_and(super::trees::waits_for_permission) {
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
            raised_alerts(&tree, Some(before), now, 0).iter().map(|alert| alert.what).collect::<Vec<_>>()
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
        let mut alerts = AlertLog::default();
        for at in 0..MAX_ALERTS as i64 + 5 {
            alerts.add(raised_alerts(&tree, Some(&root), &tree.agents[0], at));
        }
        assert_eq!(alerts.all.len(), MAX_ALERTS);
        assert_eq!(alerts.shown(60).map(|(_, more)| more), Some(MAX_ALERTS - 1));
        assert_eq!(alerts.shown(100_000), None);
        alerts.dismiss();
        assert_eq!((alerts.shown(60), alerts.newest().is_some()), (None, true));
    }
}
