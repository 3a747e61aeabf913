//! Alerts: what needs a person now, and what happened, derived from agent rows.

use std::collections::{HashMap, VecDeque};

use subscope_model::{Agent, AgentId, AgentStatus, Flag, Liveness, LivenessKind, Millis, SessionId, Tree};
use subscope_render::{Ink, text};

use super::trees::Trees;

/// Most alerts stored.
const MAX_ALERTS: usize = 50;

/// Display time of an alert.
const SHOWN_MS: Millis = 12_000;

/// Predicate of an agent that waits for a person.
const WAITS: &str = "waits for your permission";

/// Says what an agent waits for from its person.
fn waits_words(wait: &Liveness) -> &'static str {
    match wait.kind {
        LivenessKind::Question => "asks you a question",
        LivenessKind::Plan => "waits for your decision about its plan",
        LivenessKind::Permission
        | LivenessKind::Model
        | LivenessKind::Tool
        | LivenessKind::Children
        | LivenessKind::Retry
        | LivenessKind::Idle => WAITS,
    }
}

/// Predicate of an agent that ended with an error.
const FAILED: &str = "failed";

/// Predicate of an agent whose calls fail one after the other.
const FAILS: &str = "fails again and again";

/// Recent alerts, newest last.
#[derive(Debug, Default)]
pub(crate) struct AlertLog {
    all: VecDeque<Alert>,
    /// The target of the last jump; the next jump continues after it.
    pub(crate) visited: Option<(SessionId, AgentId)>,
}

/// An alert about an agent. Its texts are raw agent text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alert {
    pub(crate) session: SessionId,
    /// Project and title of the session.
    pub(crate) session_name: String,
    pub(crate) agent: AgentId,
    pub(crate) title: String,
    /// What happened, as a predicate of the title.
    pub(crate) what: &'static str,
    pub(crate) ink: Ink,
    /// When it was raised, by the monotonic clock.
    pub(crate) at_ms: Millis,
}

impl Alert {
    fn of(tree: &Tree, agent: &Agent, what: &'static str, ink: Ink, at_ms: Millis) -> Self {
        let session = &tree.session;
        let place = text::place_name(session.cwd.as_deref(), session.project.as_deref());
        let name = text::session_name(&place, session.title.as_deref());
        Self {
            session: tree.session.id.clone(),
            session_name: name.unwrap_or_else(|| tree.session.id.to_string()),
            agent: agent.id.clone(),
            title: agent.title(),
            what,
            ink,
            at_ms,
        }
    }

    pub(crate) fn key(&self) -> (SessionId, AgentId) {
        (self.session.clone(), self.agent.clone())
    }
}

impl AlertLog {
    /// Adds alerts and drops the oldest beyond [`MAX_ALERTS`]. The next jump leads to what is most urgent.
    pub(crate) fn add(&mut self, alerts: Vec<Alert>) {
        self.visited = None;
        self.all.extend(alerts);
        let surplus = self.all.len().saturating_sub(MAX_ALERTS);
        self.all.drain(..surplus);
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

    /// Everything that a jump can lead to, one entry an agent: what needs a person now, then what happened, the newest
    /// first.
    pub(crate) fn stops(&self, trees: &Trees) -> Vec<Alert> {
        let mut stops: Vec<Alert> = Vec::new();
        for alert in current(trees).into_iter().chain(self.all.iter().rev().cloned()) {
            if !stops.iter().any(|known| (&known.session, &known.agent) == (&alert.session, &alert.agent)) {
                stops.push(alert);
            }
        }
        stops
    }
}

/// Returns what needs a person now in subscribed sessions: permissions, then stalls, then failures below an agent at
/// work; of each kind in the order of the session list, then the oldest first.
pub(crate) fn current(trees: &Trees) -> Vec<Alert> {
    let mut found = Vec::new();
    for tree in trees.subscribed() {
        let at_work: HashMap<&AgentId, &Agent> =
            tree.agents.iter().filter(|agent| agent.is_at_work()).map(|agent| (&agent.id, agent)).collect();
        let has_failed_below = |agent: &Agent| {
            let above = agent.parent_id.as_ref().and_then(|parent| at_work.get(parent));
            above.is_some_and(|above| agent.has_failed_below(above, tree.session.run_started_at_ms))
        };
        let is_lost_below = |agent: &Agent| {
            let above = agent.parent_id.as_ref().and_then(|parent| at_work.get(parent));
            above.is_some_and(|above| agent.is_lost_below(above))
        };
        for agent in &tree.agents {
            let waits_since = agent.liveness.as_ref().and_then(|live| live.since_ms);
            let (rank, since, what, ink) = if let Some(wait) = agent.person_wait() {
                (0, waits_since, waits_words(wait), Ink::Waiting)
            } else if agent.is_at_work() && agent.has(Flag::Stalled) {
                (1, agent.last_event_at_ms, "is stalled", Ink::Stalled)
            } else if agent.is_at_work() && agent.has(Flag::Failing) {
                (1, agent.last_event_at_ms, FAILS, Ink::Stalled)
            } else if has_failed_below(agent) {
                (2, agent.ended_at_ms, FAILED, Ink::Failed)
            } else if is_lost_below(agent) {
                (2, agent.ended_at_ms, "is lost, and waited for", Ink::Stalled)
            } else {
                continue;
            };
            let place = (rank, tree.session.started_at_ms, tree.session.id.clone(), since);
            found.push((place, Alert::of(tree, agent, what, ink, 0)));
        }
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found.into_iter().map(|(_, alert)| alert).collect()
}

/// Returns the alerts that a changed agent row raises.
pub(crate) fn raised_alerts(
    tree: &Tree,
    before: Option<&Agent>,
    now: &Agent,
    awake_ms: Millis,
) -> Vec<Alert> {
    let alert = |what, ink| Alert::of(tree, now, what, ink, awake_ms);
    let mut alerts = Vec::new();
    for flag in &now.flags {
        let is_new = before.is_none_or(|before| !before.has(*flag));
        let what = match flag {
            Flag::Stalled => "is stalled",
            Flag::Failing => FAILS,
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
        AgentStatus::Failed => Some(alert(FAILED, Ink::Failed)),
        AgentStatus::Lost => Some(alert("is lost", Ink::Stalled)),
        // A foreground subagent is a step of its parent: only the end of root and background agents is an alert.
        AgentStatus::Completed if now.id.is_root() || now.background => {
            Some(alert("has finished", Ink::Done))
        }
        AgentStatus::Pending | AgentStatus::Running | AgentStatus::Completed | AgentStatus::Stopped => None,
    };
    alerts.extend(ending.filter(|_| was_live));
    let waited = before.is_some_and(Agent::waits_for_person);
    if let Some(wait) = now.person_wait().filter(|_| !waited) {
        alerts.push(alert(waits_words(wait), Ink::Waiting));
    }
    alerts
}

#[cfg(test)]
mod tests {
    use subscope_model::{Liveness, LivenessKind, Update};

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
        assert_eq!((alerts.shown(60), alerts.stops(&Trees::default()).len()), (None, 1));
    }

    #[test]
    fn what_needs_a_person_comes_before_what_happened() {
        let mut trees = Trees::default();
        let mut add = |id: &str, work: &dyn Fn(&mut Agent)| {
            let mut tree = samples::tree(id, &[("root", 0), ("a", 1)]);
            tree.agents.iter_mut().for_each(|agent| agent.status = AgentStatus::Running);
            work(&mut tree.agents[1]);
            trees.apply(Update::snapshot(tree.clone()));
            tree
        };
        let asks = |since_ms| {
            move |agent: &mut Agent| {
                let (kind, name) = (LivenessKind::Permission, None);
                let since_ms = Some(since_ms);
                agent.liveness =
                    Some(Liveness { kind, name, count: None, limit: None, since_ms, inferred: false });
            }
        };
        add("failed", &|agent| agent.status = AgentStatus::Failed);
        add("stalled", &|agent| agent.flags = vec![Flag::Stalled]);
        add("asks later", &asks(20));
        add("asks", &asks(10));
        let quiet = add("quiet", &|_| ());
        let mut alerts = AlertLog::default();
        let over = Agent { status: AgentStatus::Completed, ..quiet.agents[0].clone() };
        alerts.add(raised_alerts(&quiet, Some(&quiet.agents[0]), &over, 0));
        let stops = alerts.stops(&trees);
        let told: Vec<(&str, &str)> = stops.iter().map(|stop| (stop.session.as_str(), stop.what)).collect();
        let expected =
            [("asks", WAITS), ("asks later", WAITS), ("stalled", "is stalled"), ("failed", "failed")];
        assert_eq!(told[..4], expected);
        assert_eq!(told[4..], [("quiet", "has finished")]);
        assert_eq!(stops[0].session_name, "shop: title of asks");
    }
}
