//! Alerts: what needs a person now, and what happened, derived from agent rows.

use std::collections::{HashSet, VecDeque};

use subscope_model::{
    Agent, AgentId, AgentNeed, AgentStatus, Inbox, Millis, NeedGroup, Session, SessionId, SessionNeed,
    SessionRow, Text, Tree,
};
use subscope_render::{Ink, inbox::need_mark, style::Charset, text};

use super::trees::Trees;

/// Most alerts stored.
const MAX_ALERTS: usize = 50;

/// Display time of an alert.
const SHOWN_MS: Millis = 12_000;

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
    pub(crate) what: String,
    pub(crate) ink: Ink,
    /// When it was raised, by the monotonic clock.
    pub(crate) at_ms: Millis,
}

/// What a session is called by.
struct AlertSession<'s> {
    id: &'s SessionId,
    cwd: Option<&'s str>,
    project: Option<&'s str>,
    title: Option<&'s str>,
}

impl<'s> From<&'s Session> for AlertSession<'s> {
    fn from(Session { id, cwd, project, title, .. }: &'s Session) -> Self {
        Self { id, cwd: cwd.as_deref(), project: project.as_deref(), title: title.as_deref() }
    }
}

impl<'s> From<&'s SessionRow> for AlertSession<'s> {
    fn from(SessionRow { id, cwd, project, title, .. }: &'s SessionRow) -> Self {
        Self { id, cwd: cwd.as_deref(), project: project.as_deref(), title: title.as_deref() }
    }
}

impl Alert {
    fn of<'s>(
        session: impl Into<AlertSession<'s>>,
        agent: (&AgentId, String),
        what: &str,
        ink: Ink,
        at_ms: Millis,
    ) -> Self {
        let session = session.into();
        let name = text::session_name(&text::place_name(session.cwd, session.project), session.title);
        Self {
            session: session.id.clone(),
            session_name: name.unwrap_or_else(|| session.id.to_string()),
            agent: agent.0.clone(),
            title: agent.1,
            what: what.to_owned(),
            ink,
            at_ms,
        }
    }

    /// The alert of an agent that needs a person.
    fn of_need<'s>(session: impl Into<AlertSession<'s>>, need: &AgentNeed, at_ms: Millis) -> Self {
        let (_, ink) = need_mark(need.group, Charset::Unicode.glyphs());
        Self::of(session, (&need.agent_id, need.title.to_string()), &need.words, ink, at_ms)
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
    pub(crate) fn stops(&self, inbox: &Inbox) -> Vec<Alert> {
        let mut stops: Vec<Alert> = Vec::new();
        for alert in current(inbox).into_iter().chain(self.all.iter().rev().cloned()) {
            if !stops.iter().any(|known| (&known.session, &known.agent) == (&alert.session, &alert.agent)) {
                stops.push(alert);
            }
        }
        stops
    }
}

/// Returns what needs a person now, in the order of the inbox: each agent that waits for a person, and one of each session
/// in which none does. Also of sessions that are no longer followed, and were not opened yet.
pub(crate) fn current(inbox: &Inbox) -> Vec<Alert> {
    let entries = inbox.entries.iter().filter_map(|entry| {
        let need = entry.session.need.as_ref()?;
        let waiting = need.agents.iter().take_while(|need| need.group == NeedGroup::Waits).count();
        Some(need.agents.iter().take(waiting.max(1)).map(|need| Alert::of_need(&entry.session, need, 0)))
    });
    entries.flatten().collect()
}

/// What is known of a session before some of its rows change.
#[derive(Debug)]
pub(crate) struct BeforeChange {
    session: SessionId,
    /// The facts of what it needs.
    facts: HashSet<Text>,
    /// The agents of the change that had not ended.
    live: HashSet<AgentId>,
}

impl BeforeChange {
    pub(crate) fn of(tree: &Tree, changed: &[Agent]) -> Self {
        let need = SessionNeed::of(&tree.agents, tree.session.run_started_at_ms);
        let changed: HashSet<&AgentId> = changed.iter().map(|agent| &agent.id).collect();
        let live = tree.agents.iter().filter(|agent| agent.status.is_live() && changed.contains(&agent.id));
        Self {
            session: tree.session.id.clone(),
            facts: need.iter().flat_map(SessionNeed::facts).collect(),
            live: live.map(|agent| agent.id.clone()).collect(),
        }
    }

    /// Returns the alerts that the change raises: new needs that are certain, and ends.
    pub(crate) fn raised_alerts(&self, trees: &Trees, awake_ms: Millis) -> Vec<Alert> {
        let Some(tree) = trees.get(&self.session) else { return Vec::new() };
        let need = SessionNeed::of(&tree.agents, tree.session.run_started_at_ms);
        let needs = need.iter().flat_map(|need| &need.agents);
        let is_new =
            |need: &&AgentNeed| need.group != NeedGroup::Perhaps && !self.facts.contains(&need.fact());
        let needs: Vec<Alert> =
            needs.filter(is_new).map(|need| Alert::of_need(&tree.session, need, awake_ms)).collect();
        let ended = tree.agents.iter().filter(|agent| self.live.contains(&agent.id));
        let ended = ended.filter(|agent| needs.iter().all(|need| need.agent != agent.id));
        let mut alerts: Vec<Alert> = ended.filter_map(|agent| end_alert(tree, agent, awake_ms)).collect();
        alerts.extend(needs);
        alerts
    }
}

/// Returns the alert of an agent's end; `None` if it is none.
fn end_alert(tree: &Tree, agent: &Agent, awake_ms: Millis) -> Option<Alert> {
    let (what, ink) = match agent.status {
        AgentStatus::Failed => ("has failed", Ink::Failed),
        AgentStatus::Lost => ("is lost", Ink::Stalled),
        // A foreground subagent is a step of its parent: only the end of root and background agents is an alert.
        AgentStatus::Completed if agent.id.is_root() || agent.background => ("has finished", Ink::Done),
        AgentStatus::Pending | AgentStatus::Running | AgentStatus::Completed | AgentStatus::Stopped => {
            return None;
        }
    };
    Some(Alert::of(&tree.session, (&agent.id, agent.title()), what, ink, awake_ms))
}

#[cfg(test)]
mod tests {
    use subscope_model::{Flag, Liveness, LivenessKind, Looks, Update};

    use super::*;
    use crate::samples;

    fn inbox(trees: &Trees) -> Inbox {
        let rows: Vec<SessionRow> = trees.subscribed().map(SessionRow::of).collect();
        Inbox::of(&rows, &Looks::default(), 0)
    }

    /// Alerts for a change of an agent in a running session.
    fn raised(before: &dyn Fn(&mut Tree), after: &dyn Fn(&mut Tree)) -> Vec<String> {
        let mut tree = samples::tree("s", &[("root", 0), ("a", 1)]);
        tree.agents.iter_mut().for_each(|agent| agent.status = AgentStatus::Running);
        before(&mut tree);
        let mut trees = Trees::default();
        trees.apply(Update::snapshot(tree.clone()));
        let known = BeforeChange::of(&tree, &tree.agents);
        after(&mut tree);
        trees.apply(Update::snapshot(tree));
        let alerts = known.raised_alerts(&trees, 0);
        alerts.into_iter().map(|alert| format!("{} {}", alert.title, alert.what)).collect()
    }

    #[test]
    fn alerts_are_told_once_and_only_for_what_is_new() {
        let flag = |flag| move |tree: &mut Tree| tree.agents[1].flags = vec![flag];
        let status = |at: usize, status| move |tree: &mut Tree| tree.agents[at].status = status;
        let nothing = |_: &mut Tree| ();
        assert_eq!(raised(&nothing, &flag(Flag::Stalled)), ["a is stalled"]);
        assert!(raised(&flag(Flag::Stalled), &flag(Flag::Stalled)).is_empty());
        assert!(raised(&nothing, &flag(Flag::Colliding)).is_empty(), "no call for a person");
        assert_eq!(raised(&flag(Flag::Stalled), &status(1, AgentStatus::Failed)), ["a has failed"]);
        assert!(raised(&nothing, &status(1, AgentStatus::Completed)).is_empty());
        assert_eq!(raised(&nothing, &status(0, AgentStatus::Completed)), ["main has finished"]);
        let waits = |inferred| {
            move |tree: &mut Tree| {
                let (kind, name) = (LivenessKind::Permission, Some("Read".into()));
                tree.agents[1].liveness =
                    Some(Liveness { kind, name, count: None, limit: None, since_ms: Some(1), inferred });
            }
        };
        assert_eq!(raised(&nothing, &waits(false)), ["a waits for your permission: Read"]);
        assert!(raised(&nothing, &waits(true)).is_empty(), "a guess is no fact");
    }

    fn ended(awake_ms: Millis) -> Alert {
        let tree = samples::tree("s", &[("root", 0)]);
        end_alert(&tree, &tree.agents[0], awake_ms).unwrap()
    }

    #[test]
    fn alerts_leave_the_screen_after_a_while_and_are_bounded() {
        let mut alerts = AlertLog::default();
        for at in 0..MAX_ALERTS as i64 + 5 {
            alerts.add(vec![ended(at)]);
        }
        assert_eq!(alerts.all.len(), MAX_ALERTS);
        assert_eq!(alerts.shown(60).map(|(_, more)| more), Some(MAX_ALERTS - 1));
        assert_eq!(alerts.shown(100_000), None);
        alerts.dismiss();
        let stops = alerts.stops(&Inbox::default());
        assert_eq!((alerts.shown(60), stops.len()), (None, 1));
    }

    #[test]
    fn what_needs_a_person_comes_before_what_happened() {
        let mut trees = Trees::default();
        let mut add = |id: &str, work: &dyn Fn(&mut Agent)| {
            let mut tree = samples::tree(id, &[("root", 0), ("a", 1)]);
            tree.agents.iter_mut().for_each(|agent| agent.status = AgentStatus::Running);
            work(&mut tree.agents[1]);
            trees.apply(Update::snapshot(tree));
        };
        let asks = |since_ms| {
            move |agent: &mut Agent| {
                let (kind, name) = (LivenessKind::Permission, None);
                let since_ms = Some(since_ms);
                agent.liveness =
                    Some(Liveness { kind, name, count: None, limit: None, since_ms, inferred: false });
            }
        };
        add("failed", &|agent| (agent.status, agent.ended_at_ms) = (AgentStatus::Failed, Some(7)));
        add("stalled", &|agent| (agent.flags, agent.last_event_at_ms) = (vec![Flag::Stalled], Some(5)));
        add("asks later", &asks(20));
        add("asks", &asks(10));
        let mut alerts = AlertLog::default();
        alerts.add(vec![ended(0)]);
        let stops = alerts.stops(&inbox(&trees));
        let told: Vec<(&str, &str)> =
            stops.iter().map(|stop| (stop.session.as_str(), stop.what.as_str())).collect();
        let waits = "waits for your permission";
        let expected =
            [("asks", waits), ("asks later", waits), ("failed", "has failed"), ("stalled", "is stalled")];
        assert_eq!(told[..4], expected);
        assert_eq!(told[4..], [("s", "has finished")]);
        assert_eq!(stops[0].session_name, "shop: title of asks");
    }
}
