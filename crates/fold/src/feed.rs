//! Builds the event feed of sessions from pending events and rows.
//!
//! [`FeedBuilder::advance`] returns the new events of live sessions, [`FeedBuilder::all`] the whole feed of a session
//! in order of time. Both publish an event once by its key, and a text of an agent once per interval of activity,
//! however often sources repeat it.

use std::collections::HashSet;

use hashbrown::HashMap;
use serde_json::{Value, json};
use subscope_model::{
    Actor, AgentId, Basis, Event, EventKind, Millis, Problem, SessionId, Text, Tree, event_id,
};
use subscope_track::{Attribution, Derived, Now};

use crate::{
    fold::Fold,
    lifecycle::LifecycleState,
    pending_event::{OwnedClaim, PendingEvent},
};

/// Builds the feed and remembers what it has published.
#[derive(Default)]
pub struct FeedBuilder {
    sessions: HashMap<SessionId, SessionEvents>,
}

/// Published events of one session.
#[derive(Default)]
struct SessionEvents {
    published_ids: HashSet<Text>,
    /// Texts published in each agent's current interval of activity.
    published_texts: HashSet<(AgentId, String)>,
    lifecycle: LifecycleState,
    /// Events published with a guessed actor: id, claim, call and actor.
    guessed: Vec<(Text, OwnedClaim, Option<String>, Actor)>,
    tool_names: HashMap<String, String>,
}

impl FeedBuilder {
    /// Creates a builder that has published nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Derives these sessions and returns their trees, and their new events since the last call in order.
    pub fn advance(
        &mut self,
        fold: &mut Fold,
        sessions: &[SessionId],
        now: &Now<'_>,
    ) -> (Vec<Tree>, Vec<Event>) {
        let mut trees = Vec::new();
        let mut events = Vec::new();
        for session in sessions {
            let pending = fold.take_pending_events(session);
            let Some(derived) = fold.derive(session, now) else { continue };
            events.extend(self.build(&derived, &pending, now));
            trees.push(derived.tree);
        }
        (trees, events)
    }

    /// Returns the time at which [`FeedBuilder::advance`] has events of a session without new input.
    pub fn next_due(&self, session: &SessionId) -> Option<Millis> {
        self.sessions.get(session)?.lifecycle.next_due()
    }

    /// Forgets the published events of a session that the fold has evicted.
    pub fn evict(&mut self, session: &SessionId) {
        self.sessions.remove(session);
    }

    /// Returns a problem without a session as an event.
    pub fn problem(problem: &Problem) -> Event {
        Event {
            schema: Event::SCHEMA.into(),
            id: event_id("", &format!("problem/{}/{}", problem.at, problem.what)),
            seq: 0,
            at_ms: None,
            session_id: SessionId::from(""),
            run: 0,
            actor_id: Actor(AgentId::from(AgentId::ROOT)),
            basis: Basis::Unknown,
            source: "subscope".into(),
            kind: EventKind::Problem,
            data: json!({ "at": problem.at, "what": problem.what }),
        }
    }

    /// Returns a session's whole feed in order of time; events without a time stay behind their predecessor.
    pub fn all(fold: &mut Fold, session: &SessionId, now: &Now<'_>) -> Vec<Event> {
        let mut pending = fold.take_pending_events(session);
        // Two sources may report one event: the first is published, so the better source goes first.
        pending.sort_by_key(|event| (event.time.is_none(), event.source_kind, event.offset));
        let Some(derived) = fold.derive(session, now) else { return Vec::new() };
        let mut events = Self::new().build(&derived, &pending, now);
        sort_by_time(&mut events);
        for (seq, event) in events.iter_mut().enumerate() {
            event.seq = seq as u64 + 1;
        }
        events
    }

    fn build(&mut self, derived: &Derived<'_>, pending: &[PendingEvent], now: &Now<'_>) -> Vec<Event> {
        let Derived { tree, attribution } = derived;
        let state = self.sessions.entry(tree.session.id.clone()).or_default();
        let mut events = state.lifecycle.advance(tree, now);
        // A new interval may repeat texts of an earlier one.
        for event in &events {
            if event.kind == EventKind::SubagentStart {
                state.published_texts.retain(|(agent, _)| *agent != event.actor_id.0);
            }
        }
        events.retain(|event| state.published_ids.insert(event.id.clone()));
        for event in &mut events {
            event.run = attribution.run_at(event.at_ms);
        }
        for event in pending {
            events.extend(state.publish(event, tree, attribution));
        }
        events.extend(state.corrections(tree, attribution));
        sort_events(&mut events);
        events
    }
}

impl SessionEvents {
    fn publish(&mut self, pending: &PendingEvent, tree: &Tree, attribution: &Attribution<'_>) -> Vec<Event> {
        let id = event_id(&tree.session.id, &pending.key);
        if !self.published_ids.insert(id.clone()) {
            return Vec::new();
        }
        let (actor, basis) = attribution.actor(&pending.claim.borrow(), pending.call.as_deref());
        if let Some(text) = &pending.dedup_text
            && !self.published_texts.insert((actor.0.clone(), text.clone()))
        {
            return Vec::new();
        }
        let mut data = pending.data.clone();
        if let Some(scope) = data.get_mut("scope") {
            *scope = Value::from(if actor.0.is_root() { "root" } else { "subagent" });
        }
        self.add_call_data(pending, &mut data, tree, attribution);
        let event = Event {
            schema: Event::SCHEMA.into(),
            id: id.clone(),
            seq: 0,
            at_ms: pending.time,
            session_id: tree.session.id.clone(),
            run: attribution.run_at(pending.time),
            actor_id: actor.clone(),
            basis,
            source: pending.dialect.as_str().into(),
            kind: pending.kind,
            data,
        };
        if basis.is_guess() {
            self.guessed.push((id, pending.claim.clone(), pending.call.clone(), actor));
        }
        let mut events = vec![event];
        if pending.kind == EventKind::UserPrompt {
            events.insert(0, run_start_event(&events[0], pending));
        }
        events
    }

    /// Adds the tool's name to ends without it, and to spawn calls the started agent and its report.
    fn add_call_data(
        &mut self,
        pending: &PendingEvent,
        data: &mut Value,
        tree: &Tree,
        attribution: &Attribution<'_>,
    ) {
        let Some(call) = &pending.call else { return };
        match data.get("tool_name").and_then(Value::as_str) {
            Some(name) if pending.kind == EventKind::ToolPre => {
                self.tool_names.insert(call.clone(), name.to_owned());
            }
            Some(_) => {}
            None => {
                if let Some(name) = self.tool_names.get(call) {
                    data["tool_name"] = Value::from(name.as_str());
                }
            }
        }
        let Some(agent) = attribution.started_by(call) else { return };
        data["started_agent_id"] = Value::from(&*agent.0);
        // The harness adds text of its own to the report; the agent's row has only the report.
        let report = || tree.agents.iter().find(|row| row.id == agent).and_then(|row| row.result.as_deref());
        if let Some(report) = (pending.kind == EventKind::ToolPost).then(report).flatten() {
            data["report"] = Value::from(report);
        }
    }

    /// Returns an attribution event for each event with a guessed actor whose attribution has changed.
    fn corrections(&mut self, tree: &Tree, attribution: &Attribution<'_>) -> Vec<Event> {
        let mut events = Vec::new();
        self.guessed.retain_mut(|(id, claim, call, published)| {
            let (actor, basis) = attribution.actor(&claim.borrow(), call.as_deref());
            if basis.is_guess() && actor == *published {
                return true;
            }
            let data = json!({ "event_id": &**id, "actor_id": actor, "basis": basis, "run": Value::Null });
            events.push(Event {
                schema: Event::SCHEMA.into(),
                id: event_id(&tree.session.id, &format!("attribution/{id}/{actor}")),
                seq: 0,
                at_ms: None,
                session_id: tree.session.id.clone(),
                run: 0,
                actor_id: actor.clone(),
                basis,
                source: "subscope".into(),
                kind: EventKind::Attribution,
                data,
            });
            published.clone_from(&actor);
            basis.is_guess()
        });
        events
    }
}

fn run_start_event(prompt: &Event, pending: &PendingEvent) -> Event {
    Event {
        id: event_id(&prompt.session_id, &format!("run/{}", pending.key)),
        kind: EventKind::RunStart,
        basis: Basis::Link,
        data: json!({ "run": prompt.run, "name": format!("{}:R{}", prompt.session_id, prompt.run) }),
        ..prompt.clone()
    }
}

/// Sorts events by time, then kind: at equal times a start precedes its agent's texts, and an end follows them. Events
/// without a time stay behind their predecessor.
fn sort_events(events: &mut [Event]) {
    let rank = |kind: EventKind| match kind {
        EventKind::SessionStart => 0,
        EventKind::RunStart => 1,
        EventKind::UserPrompt => 2,
        EventKind::SubagentStart => 3,
        EventKind::SubagentStop => 5,
        EventKind::RunEnd | EventKind::SessionEnd => 6,
        _ => 4,
    };
    sort_by_time_and(events, &|event| rank(event.kind));
}

/// Sorts events by time; those without one stay behind their predecessor.
fn sort_by_time(events: &mut [Event]) {
    sort_by_time_and(events, &|_| 0);
}

fn sort_by_time_and(events: &mut [Event], rank: &dyn Fn(&Event) -> u8) {
    let mut last = i64::MIN;
    let mut keys: Vec<(i64, u8, usize)> = Vec::with_capacity(events.len());
    for (index, event) in events.iter().enumerate() {
        last = event.at_ms.unwrap_or(last);
        keys.push((last, rank(event), index));
    }
    keys.sort_unstable();
    let sorted: Vec<Event> = keys.iter().map(|(_, _, index)| events[*index].clone()).collect();
    events.clone_from_slice(&sorted);
}
