//! Builds the event feed of a session from pending events and rows. An event is published once by its key, however often
//! sources repeat it.

use std::{borrow::Cow, collections::HashSet};

use hashbrown::HashMap;
use serde_json::{Value, json};
use subscope_decode::Dialect;
use subscope_model::{
    Actor, AgentId, Basis, Event, EventData, EventKind, EventRecord, EventSchema, Fact, Millis, Observation,
    Problem, SessionId, SessionText, SourceKind, SourcePosition, Text, Tree, event_id, stable_hash,
};
use subscope_track::{Attribution, CallName, Derived, Now};

use crate::{
    feed_order::{EventOrder, PlacedCalls, PlacedEvent, order_derived, order_pending},
    lifecycle::{LifecycleState, add_session_data},
    pending_event::{OwnedCall, OwnedClaim, PendingEvent, TextPlace, key_by_id},
    router::UnreadLines,
};

/// Published events of one session.
#[derive(Default)]
pub(crate) struct SessionFeed {
    published: PublishedIds,
    messages: ReportedMessages,
    lifecycle: LifecycleState,
    guessed: Vec<GuessedEvent>,
    /// Tools of calls whose begin was published and whose end was not, by call id.
    tool_names: HashMap<String, String>,
    /// Names of the dialects of published events.
    dialects: Vec<Text>,
    /// Hash of a request's id → id of the event of the response that answers it, by its message's id.
    answers: HashMap<u64, Text>,
    held: HeldEvents,
    /// Published begins (`true`) and ends of calls without ids, by the digest of the call: a report with an id that comes
    /// later repeats one of them.
    nameless: HashMap<(bool, u64), u32>,
}

/// Ids of published events, as hashes: 8 bytes each, since they outlast the eviction of their session.
#[derive(Default)]
struct PublishedIds(HashSet<u64>);

impl PublishedIds {
    /// Adds an id. Returns whether it is new.
    fn insert(&mut self, id: &str) -> bool {
        self.0.insert(stable_hash(id))
    }

    fn contains(&self, id: &str) -> bool {
        self.0.contains(&stable_hash(id))
    }
}

/// How long the events of calls without ids are held back while sources grow: the hook of a call may come before its
/// line in the transcript, which has the call's id.
const HOLD_MS: Millis = 1_000;

/// Events of calls without ids, and those after them in their sources, until a source has call ids or for [`HOLD_MS`].
/// Also OpenTelemetry records whose event another source may still identify, until no agent is at work: see
/// [`is_unnamed`].
#[derive(Default)]
struct HeldEvents {
    events: Vec<PendingEvent>,
    since: Option<Millis>,
    records: Vec<PendingEvent>,
}

/// Whether an event comes from a record without the identity that other sources of the session use: a response that
/// they identify by its message's id, or a prompt that is (not yet) a run of theirs.
fn is_unnamed(event: &PendingEvent, answers: &HashMap<u64, Text>, attribution: &Attribution<'_>) -> bool {
    if event.source_kind != SourceKind::Otel {
        return false;
    }
    match answer_of(event) {
        Some((None, request)) => attribution.has_lines() && !answers.contains_key(&stable_hash(request)),
        Some((Some(_), _)) => false,
        None => event.kind == EventKind::UserPrompt && attribution.run_begun_in(event.place).is_none(),
    }
}

impl HeldEvents {
    /// Returns the due events among the held back and the new ones, in order.
    fn take_due(
        &mut self,
        new: Vec<PendingEvent>,
        answers: &HashMap<u64, Text>,
        derived: &Derived<'_>,
        now: &Now<'_>,
    ) -> Vec<PendingEvent> {
        let Derived { tree, attribution } = derived;
        let mut all = std::mem::take(&mut self.events);
        all.append(&mut self.records);
        all.extend(new);
        if now.is_growing && tree.agents.iter().any(|row| row.status.is_live()) {
            (self.records, all) = all.into_iter().partition(|event| is_unnamed(event, answers, attribution));
        }
        // No other source reports a published call.
        let is_nameless = |event: &PendingEvent| {
            matches!(event.call, OwnedCall::Line) && event.source_kind != SourceKind::Posted
        };
        let may_hold = now.is_growing && !attribution.has_call_ids() && all.iter().any(is_nameless);
        let since = self.since.take().unwrap_or(now.at);
        if !may_hold || now.at >= since + HOLD_MS {
            return all;
        }
        self.since = Some(since);
        let mut sources = HashSet::new();
        let (held, due) = all.into_iter().partition(|event| {
            let source = event.place.source;
            if is_nameless(event) {
                sources.insert(source);
            }
            sources.contains(&source)
        });
        self.events = held;
        due
    }
}

/// An event that was published with a guessed actor.
struct GuessedEvent {
    id: Text,
    claim: OwnedClaim,
    call: OwnedCall,
    place: SourcePosition,
    actor: Actor,
}

/// Messages and thoughts of agents that sources have reported.
///
/// A hook repeats the text of an agent's last message and names no line, and the lines of some harnesses have no id that
/// is the same in all sources. So a message is known by its agent and text, and by how many messages with that text the
/// same kind of source has reported before.
#[derive(Default)]
struct ReportedMessages {
    /// Lines that were counted: kind of source and hash of their key.
    lines: HashSet<(SourceKind, u64)>,
    /// Lines that have a number, with it.
    numbers: HashMap<u64, u32>,
    /// Lines of numbers; `None` for a hook's report, and a line without an id.
    owners: HashMap<(AgentId, u64, u32), Option<u64>>,
    counts: HashMap<(SourceKind, AgentId, u64), u32>,
}

impl ReportedMessages {
    /// Returns the key of a message; `None` if it is known by its line's id, or repeats one of the same source.
    fn key(&mut self, pending: &PendingEvent, actor: &Actor, run: u32, text: u64) -> Option<String> {
        let kind = pending.source_kind;
        let word = if pending.kind == EventKind::Reasoning { "thought" } else { "message" };
        // A hook repeats the text if it comes again for one end.
        let is_hook = kind == SourceKind::Hook;
        let line = if is_hook { format!("{actor}/{run}/{text}") } else { pending.key.clone() };
        let line = stable_hash(&line);
        if !self.lines.insert((kind, line)) {
            return None;
        }
        let count = self.counts.entry((kind, actor.0.clone(), text)).or_default();
        if let Some(number) = self.numbers.get(&line) {
            *count = (number + 1).max(*count);
            return None;
        }
        let mut number = *count;
        let owner = (!is_hook && pending.has_line_id).then_some(line);
        // Lines of the root have one id in every source that has one. Up to 2.0.28 those of subagents have not.
        while actor.0.is_root()
            && let Some(Some(other)) = self.owners.get(&(actor.0.clone(), text, number))
            && owner.is_some_and(|owner| owner != *other)
        {
            number += 1;
        }
        *count = number + 1;
        self.numbers.extend(owner.map(|line| (line, number)));
        self.owners.entry((actor.0.clone(), text, number)).or_insert(owner);
        Some(format!("{word}/{}/{text:x}/{number}", actor.0))
    }
}

/// Returns the identity of an event within its session.
fn event_key<'p>(pending: &'p PendingEvent, attribution: &Attribution<'_>) -> Cow<'p, str> {
    let shared = (pending.kind == EventKind::UserPrompt)
        .then(|| attribution.prompt_key(pending.place, pending.data.known()["text"].as_str()?))
        .flatten();
    shared.map_or_else(|| pending.key.as_str().into(), |key| key.to_owned().into())
}

/// Returns the ids of message and request of an event about a response whose request is known.
fn answer_of(pending: &PendingEvent) -> Option<(Option<&str>, &str)> {
    let request = pending.request.as_ref()?;
    let message = pending.key.strip_prefix("usage/").filter(|_| request.has_message);
    Some((message, &request.id))
}

/// Returns the key of the event of a response of which only the request is known.
fn request_key(request: &str) -> String {
    format!("usage/{request}")
}

/// Returns the id that the event of a response has where its source names only the request; `None` for any other event.
pub fn id_by_request(event: &Event) -> Option<Text> {
    let request = event.data.get("request_id").filter(|_| event.kind == EventKind::Usage)?.as_str()?;
    Some(event_id(&event.session_id, &request_key(request)))
}

/// Returns a problem without a session as an event.
pub fn problem_event(problem: &Problem) -> Event {
    Event {
        schema: EventSchema,
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
    /// Reduces the feed of an evicted session to what was published. Reading the same sources again publishes nothing
    /// again, whatever the times of their lines are, and a new line is published.
    pub(crate) fn suspend(mut self) -> Self {
        (self.messages, self.held) = Default::default();
        self.answers = HashMap::new();
        self.published.0.shrink_to_fit();
        self
    }

    /// Whether the event of an observation was published, so that it need not be made again.
    pub(crate) fn has_published(&self, session: &SessionId, seen: &Observation<'_>) -> bool {
        let Some(key) = key_by_id(seen) else { return false };
        match matches!(seen.fact, Fact::Message { .. } | Fact::Thought { .. }) {
            true => self.messages.lines.contains(&(seen.kind, stable_hash(&key))),
            false => self.published.contains(&event_id(session, &key)),
        }
    }

    /// Number of events that were published.
    pub(crate) fn published_count(&self) -> usize {
        self.published.0.len()
    }

    /// Returns the time at which [`Self::advance`] has events without new input.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        // The end of a run waits for what is held back.
        self.held.since.map(|since| since + HOLD_MS).or_else(|| self.lifecycle.next_due())
    }

    /// Returns the new events in order: the pending ones, and those that follow from the rows. `unread` are the lines
    /// of problems.
    pub(crate) fn advance(
        &mut self,
        derived: &Derived<'_>,
        pending: Vec<PendingEvent>,
        now: &Now<'_>,
        unread: &UnreadLines,
    ) -> Vec<EventRecord> {
        let Derived { tree, attribution } = derived;
        for (message, request) in pending.iter().filter_map(answer_of) {
            let id = message.map(|message| event_id(&tree.session.id, &format!("usage/{message}")));
            id.map(|id| self.answers.insert(stable_hash(request), id));
        }
        let pending = self.held.take_due(pending, &self.answers, derived, now);
        let orders = order_pending(&pending, derived);
        let publish = |(event, order)| self.publish(event, order, tree, attribution);
        // A vector that grows would be there twice.
        let mut placed: Vec<PlacedEvent> = Vec::with_capacity(pending.len());
        placed.extend(pending.into_iter().zip(orders).filter_map(publish));
        let mut lifecycle = self.lifecycle.advance(derived, now, unread, self.held.since.is_some());
        lifecycle.retain(|event| self.published.insert(&event.id));
        let lines = placed.len();
        lifecycle.sort_by_key(|event| event.kind == EventKind::RunStart);
        let mut calls = PlacedCalls::default();
        for mut event in lifecycle {
            let others = if event.kind == EventKind::RunStart { placed.len() } else { lines };
            let order = order_derived(&event, placed.get(..others).unwrap_or_default(), &mut calls);
            if event.run == 0 {
                event.run = attribution.run_at(event.at_ms.or(order.time()), order.line());
            }
            placed.push(PlacedEvent { order, event: event.into(), is_mark: false });
        }
        placed.retain(|event| !event.is_mark);
        placed.sort_by_key(|event| event.order);
        let mut events: Vec<EventRecord> = placed.into_iter().map(|placed| placed.event).collect();
        events.extend(self.corrections(tree, attribution).into_iter().map(EventRecord::from));
        events
    }

    /// Returns the prompts, messages and thoughts of pending events in order, each once.
    pub(crate) fn texts(&mut self, derived: &Derived<'_>, pending: Vec<PendingEvent>) -> Vec<SessionText> {
        let Derived { tree, attribution } = derived;
        let orders = order_pending(&pending, derived);
        let text = |(mut pending, order): (PendingEvent, EventOrder)| {
            let place = pending.text_place.take()?;
            let PlacedEvent { order, event, .. } = self.publish(pending, order, tree, attribution)?;
            let TextPlace { message_id, prompt_id, payload } = *place;
            let EventRecord { kind, at_ms, run, actor_id: Actor(agent), .. } = event;
            Some((order, SessionText { kind, at_ms, run, agent, message_id, prompt_id, payload }))
        };
        let mut placed: Vec<(EventOrder, SessionText)> =
            pending.into_iter().zip(orders).filter_map(text).collect();
        placed.sort_by_key(|(order, _)| *order);
        placed.into_iter().map(|(_, text)| text).collect()
    }

    fn publish(
        &mut self,
        mut pending: PendingEvent,
        order: EventOrder,
        tree: &Tree,
        attribution: &Attribution<'_>,
    ) -> Option<PlacedEvent> {
        let place = pending.place;
        let call = pending.call.borrow();
        if !attribution.is_counted(call) && pending.source_kind != SourceKind::Posted {
            return None;
        }
        let (actor, basis) = attribution.actor(&pending.claim.borrow(), call, place);
        let begun = attribution.run_begun_in(place).filter(|_| pending.kind == EventKind::UserPrompt);
        let is_record = pending.source_kind == SourceKind::Otel;
        if is_record && pending.kind == EventKind::UserPrompt && begun.is_none() {
            // A notice that an agent has ended is recorded as a prompt, too.
            return None;
        }
        let run = begun.map_or_else(
            || attribution.run_at(pending.time.or(order.time()), Some(place)),
            // The hook of a prompt may come before its line.
            |run| run.number,
        );
        let key = match pending.text {
            Some(text) => self.messages.key(&pending, &actor, run, text)?.into(),
            None => event_key(&pending, attribution),
        };
        let mut id = event_id(&tree.session.id, &key);
        if let Some((message, request)) = answer_of(&pending) {
            if message.is_none() {
                id = self.answers.get(&stable_hash(request)).cloned().unwrap_or(id);
            } else if self.published.contains(&event_id(&tree.session.id, &request_key(request))) {
                // A source that names only the request reported it first.
                self.published.insert(&id);
                return None;
            }
        }
        if !pending.is_mark && (!self.published.insert(&id) || self.repeats_nameless(&pending, attribution)) {
            return None;
        }
        let mut data = std::mem::take(&mut pending.data);
        data.set_scope(if actor.0.is_root() { "root" } else { "subagent" });
        self.add_call_data(&pending, &mut data, tree, attribution);
        if pending.kind == EventKind::SessionStart {
            data.edit(|data| add_session_data(tree, data));
        }
        let event = EventRecord {
            schema: EventSchema,
            id: id.clone(),
            seq: 0,
            at_ms: pending.time,
            session_id: tree.session.id.clone(),
            run,
            actor_id: actor.clone(),
            basis,
            source: self.dialect_name(pending.dialect),
            kind: pending.kind,
            data,
        };
        if basis.is_guess() && !pending.is_mark {
            self.guessed.push(GuessedEvent { id, claim: pending.claim, call: pending.call, place, actor });
        }
        Some(PlacedEvent { order, event, is_mark: pending.is_mark })
    }

    /// Whether the event of a call was published before, when no source had the call's id. Counts it if it has none.
    fn repeats_nameless(&mut self, pending: &PendingEvent, attribution: &Attribution<'_>) -> bool {
        let call = pending.call.borrow();
        if pending.source_kind == SourceKind::Posted {
            return false;
        }
        let Some(digest) = attribution.call_digest(call, pending.place) else { return false };
        let key = (pending.kind == EventKind::ToolPre, digest);
        match call {
            CallName::None | CallName::Response(_) => false,
            CallName::Line => {
                *self.nameless.entry(key).or_default() += 1;
                false
            }
            CallName::Id(_) => {
                let known = self.nameless.get_mut(&key).filter(|count| **count > 0);
                known.map(|count| *count -= 1).is_some()
            }
        }
    }

    /// Adds the tool's name and duration to ends without them, and to spawn calls the started agent and its report.
    fn add_call_data(
        &mut self,
        pending: &PendingEvent,
        data: &mut EventData,
        tree: &Tree,
        attribution: &Attribution<'_>,
    ) {
        let (call, place) = (pending.call.borrow(), pending.place);
        let known = match call {
            // A response is no call.
            CallName::None | CallName::Response(_) => return,
            CallName::Id(_) | CallName::Line => data.known(),
        };
        let mut added: Vec<(&str, Value)> = Vec::new();
        if let CallName::Id(id) = call {
            match known.get("tool_name").and_then(Value::as_str) {
                Some(name) if pending.kind == EventKind::ToolPre => {
                    self.tool_names.insert(id.to_owned(), name.to_owned());
                }
                Some(_) => {}
                None => added
                    .extend(self.tool_names.get(id).map(|name| ("tool_name", Value::from(name.as_str())))),
            }
            if matches!(pending.kind, EventKind::ToolPost | EventKind::ToolFailure) {
                self.tool_names.remove(id);
            }
        }
        if let (Some(begin), Some(end)) = attribution.call_times(call, place)
            && known.get("duration_ms").is_some_and(Value::is_null)
            && pending.kind != EventKind::PermissionDenied
        {
            added.push(("duration_ms", Value::from((end >= begin).then_some(end - begin))));
        }
        if let Some(agent) = attribution.started_by(call, place) {
            added.push(("started_agent_id", Value::from(&*agent.0)));
            // The harness adds text of its own to the report; the agent's row has only the report.
            let row = tree
                .agents
                .iter()
                .find(|row| row.id == agent)
                .filter(|_| pending.kind == EventKind::ToolPost);
            added.extend(row.and_then(|row| Some(("report", Value::from(row.result.as_deref()?)))));
        }
        drop(known);
        if !added.is_empty() {
            data.edit(|data| added.into_iter().for_each(|(key, value)| data[key] = value));
        }
    }

    /// Returns the name of a dialect, which the events of one share.
    fn dialect_name(&mut self, dialect: Dialect) -> Text {
        let known = self.dialects.iter().find(|name| ***name == *dialect.as_str()).cloned();
        known.unwrap_or_else(|| {
            self.dialects.push(dialect.as_str().into());
            dialect.as_str().into()
        })
    }

    /// Returns an attribution event for each event with a guessed actor whose attribution has changed.
    fn corrections(&mut self, tree: &Tree, attribution: &Attribution<'_>) -> Vec<Event> {
        let mut events = Vec::new();
        self.guessed.retain_mut(|GuessedEvent { id, claim, call, place, actor: published }| {
            let (actor, basis) = attribution.actor(&claim.borrow(), call.borrow(), *place);
            if basis.is_guess() && actor == *published {
                return true;
            }
            let data = json!({ "event_id": &**id, "actor_id": actor, "basis": basis, "run": Value::Null });
            events.push(Event {
                schema: EventSchema,
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
