//! Events with their actors: the feed, live and afterwards.
//!
//! Live, [`Events::advance`] gives what is new since the last call. Afterwards, [`Events::all`] gives the whole feed in
//! order of time. Both show an event once, whoever repeats it, by its key; the words of an agent once within a stretch
//! of its activity, whoever tells them.

use std::collections::HashSet;

use hashbrown::HashMap;
use serde_json::{Value, json};
use subscope_model::{
    Actor, AgentId, Basis, Event, EventKind, Millis, Problem, SessionId, Text, Tree, event_id,
};
use subscope_track::{Attribution, Derived, Now};

use crate::{
    draft::{OwnedClaim, PendingEvent},
    fold::Fold,
    lifecycle::Shown,
};

/// Makes events of pending_events and rows.
#[derive(Default)]
pub struct Events {
    sessions: HashMap<SessionId, SessionEvents>,
}

/// What was shown of one session.
#[derive(Default)]
struct SessionEvents {
    seen: HashSet<Text>,
    /// Words of agents that were shown in their current stretch.
    words: HashSet<(AgentId, String)>,
    shown: Shown,
    /// Events whose actor may still be corrected: those shown by a guess.
    guessed: Vec<(Text, OwnedClaim, Option<String>, Actor)>,
    names: HashMap<String, String>,
}

impl Events {
    /// Nothing shown yet.
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
            events.extend(self.session(&derived, &pending, now));
            trees.push(derived.tree);
        }
        (trees, events)
    }

    /// Returns when [`Events::advance`] has something to tell of a session that time alone makes ripe.
    pub fn next_due(&self, session: &SessionId) -> Option<Millis> {
        self.sessions.get(session)?.shown.next_due()
    }

    /// Forgets what was shown of a session that the fold has let go of.
    pub fn evict(&mut self, session: &SessionId) {
        self.sessions.remove(session);
    }

    /// Returns a problem of no session as an event.
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

    /// Returns a session's whole feed in order of time; events without a time keep their place in their source.
    pub fn all(fold: &mut Fold, session: &SessionId, now: &Now<'_>) -> Vec<Event> {
        let mut pending = fold.take_pending_events(session);
        // Two sources may report one event: the first is published, so the better source goes first.
        pending.sort_by_key(|event| (event.time.is_none(), event.source_kind, event.offset));
        let Some(derived) = fold.derive(session, now) else { return Vec::new() };
        let mut events = Self::new().session(&derived, &pending, now);
        place_the_timeless(&mut events);
        for (seq, event) in events.iter_mut().enumerate() {
            event.seq = seq as u64 + 1;
        }
        events
    }

    fn session(&mut self, derived: &Derived<'_>, pending: &[PendingEvent], now: &Now<'_>) -> Vec<Event> {
        let Derived { tree, attribution } = derived;
        let state = self.sessions.entry(tree.session.id.clone()).or_default();
        let mut events = state.shown.advance(tree, now);
        // A new stretch may repeat the words of an old one.
        for event in &events {
            if event.kind == EventKind::SubagentStart {
                state.words.retain(|(agent, _)| *agent != event.actor_id.0);
            }
        }
        events.retain(|event| state.seen.insert(event.id.clone()));
        for event in &mut events {
            event.run = attribution.run_at(event.at_ms);
        }
        for draft in pending {
            events.extend(state.show(draft, tree, attribution));
        }
        events.extend(state.corrections(tree, attribution));
        order(&mut events);
        events
    }
}

impl SessionEvents {
    fn show(&mut self, draft: &PendingEvent, tree: &Tree, attribution: &Attribution<'_>) -> Vec<Event> {
        let id = event_id(&tree.session.id, &draft.key);
        if !self.seen.insert(id.clone()) {
            return Vec::new();
        }
        let (actor, basis) = attribution.actor(&draft.claim.borrow(), draft.call.as_deref());
        if let Some(words) = &draft.words
            && !self.words.insert((actor.0.clone(), words.clone()))
        {
            return Vec::new();
        }
        let mut data = draft.data.clone();
        if let Some(scope) = data.get_mut("scope") {
            *scope = Value::from(if actor.0.is_root() { "root" } else { "subagent" });
        }
        self.name_call(draft, &mut data, tree, attribution);
        let event = Event {
            schema: Event::SCHEMA.into(),
            id: id.clone(),
            seq: 0,
            at_ms: draft.time,
            session_id: tree.session.id.clone(),
            run: attribution.run_at(draft.time),
            actor_id: actor.clone(),
            basis,
            source: draft.dialect.as_str().into(),
            kind: draft.kind,
            data,
        };
        if basis.is_guess() {
            self.guessed.push((id, draft.claim.clone(), draft.call.clone(), actor));
        }
        let mut events = vec![event];
        if draft.kind == EventKind::UserPrompt {
            events.insert(0, run_start(&events[0], draft));
        }
        events
    }

    /// Adds the tool's name to ends that do not repeat it, and to a spawn call the agent that it started, with its report.
    fn name_call(
        &mut self,
        draft: &PendingEvent,
        data: &mut Value,
        tree: &Tree,
        attribution: &Attribution<'_>,
    ) {
        let Some(call) = &draft.call else { return };
        match data.get("tool_name").and_then(Value::as_str) {
            Some(name) if draft.kind == EventKind::ToolPre => {
                self.names.insert(call.clone(), name.to_owned());
            }
            Some(_) => {}
            None => {
                if let Some(name) = self.names.get(call) {
                    data["tool_name"] = Value::from(name.as_str());
                }
            }
        }
        let Some(agent) = attribution.started_by(call) else { return };
        data["started_agent_id"] = Value::from(&*agent.0);
        // A harness wraps the report into words of its own; the agent's row has it bare.
        let report = || tree.agents.iter().find(|row| row.id == agent).and_then(|row| row.result.as_deref());
        if let Some(report) = (draft.kind == EventKind::ToolPost).then(report).flatten() {
            data["report"] = Value::from(report);
        }
    }

    /// Returns a correction for each event that was shown by a guess and is now known better.
    fn corrections(&mut self, tree: &Tree, attribution: &Attribution<'_>) -> Vec<Event> {
        let mut events = Vec::new();
        self.guessed.retain_mut(|(id, claim, call, shown)| {
            let (actor, basis) = attribution.actor(&claim.borrow(), call.as_deref());
            if basis.is_guess() && actor == *shown {
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
            shown.clone_from(&actor);
            basis.is_guess()
        });
        events
    }
}

fn run_start(prompt: &Event, draft: &PendingEvent) -> Event {
    Event {
        id: event_id(&prompt.session_id, &format!("run/{}", draft.key)),
        kind: EventKind::RunStart,
        basis: Basis::Link,
        data: json!({ "run": prompt.run, "name": format!("{}:R{}", prompt.session_id, prompt.run) }),
        ..prompt.clone()
    }
}

/// Sorts by time where both have one, and leaves everything else where it stands. An end never stands before its
/// agent's last words, nor a start behind its first.
fn order(events: &mut [Event]) {
    let rank = |kind: EventKind| match kind {
        EventKind::SessionStart => 0,
        EventKind::RunStart => 1,
        EventKind::UserPrompt => 2,
        EventKind::SubagentStart => 3,
        EventKind::SubagentStop => 5,
        EventKind::RunEnd | EventKind::SessionEnd => 6,
        _ => 4,
    };
    place_the_timeless_by(events, &|event| rank(event.kind));
}

/// Gives things without a time the place of the last thing before them that has one.
fn place_the_timeless(events: &mut [Event]) {
    place_the_timeless_by(events, &|_| 0);
}

fn place_the_timeless_by(events: &mut [Event], rank: &dyn Fn(&Event) -> u8) {
    let mut last = i64::MIN;
    let mut keys: Vec<(i64, u8, usize)> = Vec::with_capacity(events.len());
    for (place, event) in events.iter().enumerate() {
        last = event.at_ms.unwrap_or(last);
        keys.push((last, rank(event), place));
    }
    keys.sort_unstable();
    let sorted: Vec<Event> = keys.iter().map(|(_, _, place)| events[*place].clone()).collect();
    events.clone_from_slice(&sorted);
}
