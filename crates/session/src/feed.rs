//! Builds the event feed of a session from pending events and rows. An event is published once by its key, and a text
//! of an agent once per interval of activity, however often sources repeat it.

use std::collections::HashSet;

use hashbrown::HashMap;
use serde_json::{Value, json};
use subscope_model::{
    Actor, AgentId, Basis, Event, EventKind, Millis, Problem, SessionId, Text, ToolCall, Tree, event_id,
};
use subscope_track::{Attribution, Derived, Now};

use crate::{
    lifecycle::LifecycleState,
    pending_event::{OwnedClaim, PendingEvent},
};

/// Published events of one session.
#[derive(Default)]
pub(crate) struct SessionFeed {
    published_ids: HashSet<Text>,
    /// Texts published in each agent's current interval of activity.
    published_texts: HashSet<(AgentId, String)>,
    lifecycle: LifecycleState,
    /// Events published with a guessed actor: id, claim, call and actor.
    guessed: Vec<(Text, OwnedClaim, Option<String>, Actor)>,
    tool_names: HashMap<String, String>,
}

/// Returns a problem without a session as an event.
pub fn problem_event(problem: &Problem) -> Event {
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

impl SessionFeed {
    /// Returns the time at which [`Self::advance`] has events without new input.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        self.lifecycle.next_due()
    }

    /// Returns the new events in order: the pending ones, and those that follow from the rows.
    pub(crate) fn advance(
        &mut self,
        derived: &Derived<'_>,
        pending: &[PendingEvent],
        now: &Now<'_>,
    ) -> Vec<Event> {
        let Derived { tree, attribution } = derived;
        let mut events = self.lifecycle.advance(tree, now);
        // A new interval may repeat texts of an earlier one.
        for event in &events {
            if event.kind == EventKind::SubagentStart {
                self.published_texts.retain(|(agent, _)| *agent != event.actor_id.0);
            }
        }
        events.retain(|event| self.published_ids.insert(event.id.clone()));
        for event in &mut events {
            event.run = attribution.run_at(event.at_ms);
        }
        let durations = call_durations(tree, pending);
        for event in pending {
            events.extend(self.publish(event, tree, attribution, &durations));
        }
        events.extend(self.corrections(tree, attribution));
        sort_events(&mut events);
        events
    }

    fn publish(
        &mut self,
        pending: &PendingEvent,
        tree: &Tree,
        attribution: &Attribution<'_>,
        durations: &HashMap<&str, Millis>,
    ) -> Vec<Event> {
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
        if let Some(measured) = pending.call.as_deref().and_then(|call| durations.get(call))
            && let Some(duration) = data.get_mut("duration_ms").filter(|duration| duration.is_null())
        {
            *duration = Value::from(*measured);
        }
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

/// Returns how long the calls took that end in these events, by the times of their begins and ends.
fn call_durations<'t>(tree: &'t Tree, pending: &[PendingEvent]) -> HashMap<&'t str, Millis> {
    let ends =
        pending.iter().filter(|event| matches!(event.kind, EventKind::ToolPost | EventKind::ToolFailure));
    let ended: HashSet<&str> = ends.filter_map(|event| event.call.as_deref()).collect();
    if ended.is_empty() {
        return HashMap::new();
    }
    let measured = |tool: &'t ToolCall| {
        let id = tool.id.as_ref().filter(|id| ended.contains(id.as_str()))?;
        let duration = tool.ended_at_ms? - tool.started_at_ms?;
        (duration >= 0).then_some((id.as_str(), duration))
    };
    tree.agents.iter().flat_map(|agent| &agent.tools).filter_map(measured).collect()
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
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other kinds keep their order")]
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
pub(crate) fn sort_by_time(events: &mut [Event]) {
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
