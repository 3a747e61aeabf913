//! Which session each trace belongs to.
//!
//! The topmost span that names a session decides; it may come last, or never. Until then the trace is a session of its
//! own. When the name is known, the trace moves, with all that is known of it.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use subscope_decode::otlp::Trace;
use subscope_model::{Problem, SessionId, SourceId, TraceSpan};

use super::SessionRouter;
use crate::{feed::SessionFeed, session::Session};

/// Most traces kept in which no agent program has reported anything yet: a span of one may come later.
const MAX_WAITING_TRACES: usize = 10_000;

/// The places of traces.
#[derive(Default)]
pub(super) struct TracePlaces {
    /// The session of each trace.
    sessions: HashMap<u128, SessionId>,
    /// Traces without a session, and the order in which they came.
    waiting: HashMap<u128, Trace>,
    waiting_order: VecDeque<u128>,
    moves: Vec<TraceMove>,
}

/// A trace that turned out to be of another session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceMove {
    /// The trace.
    pub trace: u128,
    /// The session that it was of.
    pub from: SessionId,
    /// The session that it is of.
    pub to: SessionId,
    /// Whether nothing is left of the former session.
    pub is_whole: bool,
}

/// A span with the session of its source.
pub(super) type PlacedSpan = (Option<SessionId>, Arc<TraceSpan>);

impl TracePlaces {
    fn wait(&mut self, trace: u128, spans: Trace) {
        if self.waiting.insert(trace, spans).is_none() {
            self.waiting_order.push_back(trace);
        }
        while self.waiting.len() > MAX_WAITING_TRACES
            && let Some(oldest) = self.waiting_order.pop_front()
        {
            self.waiting.remove(&oldest);
        }
    }

    fn take_waiting(&mut self, trace: u128) -> Trace {
        let waiting = self.waiting.remove(&trace);
        if waiting.is_some() {
            self.waiting_order.retain(|known| *known != trace);
        }
        waiting.unwrap_or_default()
    }

    /// Returns the session that an id is of: of a trace, the session that it belongs to, if that is known.
    pub(super) fn session_of<'s>(&'s self, id: &'s SessionId) -> &'s SessionId {
        TraceSpan::trace_of_session(id).and_then(|trace| self.sessions.get(&trace)).unwrap_or(id)
    }

    /// Forgets the traces of a session that is evicted.
    pub(super) fn forget(&mut self, session: &Session) {
        session.traces.ids().for_each(|trace| {
            self.sessions.remove(&trace);
        });
    }
}

impl SessionRouter {
    /// Takes the traces that have moved to another session since the last call.
    pub fn take_moves(&mut self) -> Vec<TraceMove> {
        std::mem::take(&mut self.traces.moves)
    }

    /// Returns the session of the trace that an id of a session without a name is of; `None` if it is no such id, or nothing
    /// of the trace is known.
    pub fn session_of_trace(&self, id: &str) -> Option<&SessionId> {
        self.traces.sessions.get(&TraceSpan::trace_of_session(id)?)
    }

    /// Takes the problems of lines that name a session of which nothing was known.
    pub fn take_waiting_problems(&mut self, session: &str) -> Vec<Problem> {
        let mut taken = Vec::new();
        self.sessions.unassigned.retain(|_, waiting| {
            let its = waiting.extract_if(.., |it| it.named.as_deref() == Some(session));
            taken.extend(its.map(|it| it.problem));
            !waiting.is_empty()
        });
        taken
    }

    /// Whether anything is known of a session.
    pub fn is_known(&self, session: &SessionId) -> bool {
        self.index_of(session).is_some()
    }

    /// Adds the spans of a push to their traces, and each trace to its session.
    pub(super) fn place_spans(&mut self, source: SourceId, spans: Vec<PlacedSpan>) {
        let mut by_trace: BTreeMap<u128, Vec<PlacedSpan>> = BTreeMap::new();
        for span in spans {
            by_trace.entry(span.1.trace).or_default().push(span);
        }
        for (trace, spans) in by_trace {
            let hint = spans.iter().find_map(|(session, _)| session.clone());
            let spans = spans.into_iter().map(|(_, span)| span);
            let known = self.traces.sessions.get(&trace).and_then(|session| self.index_of(session));
            match known.and_then(|number| self.sessions.all.get_mut(number)) {
                Some(session) => {
                    session.traces.add(trace, spans);
                    session.add_source(source);
                    self.place_trace(trace, Some(source), hint);
                }
                None => {
                    let mut all = self.traces.take_waiting(trace);
                    for span in spans {
                        all.add(span);
                    }
                    self.traces.wait(trace, all);
                    self.place_trace(trace, Some(source), hint);
                }
            }
        }
    }

    /// Moves a trace to the session that it names, if it is not there. `hint` is the session of its source.
    fn place_trace(&mut self, trace: u128, source: Option<SourceId>, hint: Option<SessionId>) {
        let before = self.traces.sessions.get(&trace).cloned();
        let spec = source.and_then(|source| self.sources.get(source.0 as usize)).map(|at| &at.spec);
        let only = spec.and_then(|spec| spec.only.clone());
        let named = match before.as_ref().and_then(|before| self.index_of(before)) {
            Some(number) => {
                self.sessions.all.get(number).and_then(|session| session.traces.session_of(trace))
            }
            None => {
                let Some(waiting) = self.traces.waiting.get(&trace).filter(|waiting| waiting.has_work())
                else {
                    return;
                };
                waiting.session().map(SessionId)
            }
        };
        let of_trace = || SessionId::from(TraceSpan::session_of_trace(trace).as_str());
        let session = named.or(hint).or_else(|| before.clone()).unwrap_or_else(of_trace);
        if only.is_some_and(|only| only != session) {
            return;
        }
        let number = self.session_number(&session);
        if before.as_ref() != Some(&session) {
            let spans = match &before {
                Some(before) => self.leave(trace, before, number, &session),
                None => Some(self.traces.take_waiting(trace)),
            };
            if let (Some(target), Some(spans)) = (self.sessions.all.get_mut(number), spans) {
                target.traces.join(trace, spans);
            }
            self.traces.sessions.insert(trace, session);
            for problem in self.take_waiting_problems(of_trace().as_str()) {
                self.sessions.assign(number, problem, &self.options);
            }
        }
        self.record_source(number, source);
        if self.options.events.is_any() {
            self.sessions.changed.insert(number);
        }
    }

    /// Takes a trace out of its session, which ends if nothing else is known of it.
    fn leave(&mut self, trace: u128, before: &SessionId, to: usize, named: &SessionId) -> Option<Trace> {
        let number = self.index_of(before)?;
        let session = self.sessions.all.get_mut(number)?;
        let spans = session.traces.remove(trace);
        let sources = session.sources().clone();
        let is_whole = session.is_of_traces_alone() && session.traces.is_empty();
        let mut problems = Vec::new();
        if is_whole {
            problems.extend_from_slice(session.own_facts().problems());
            self.sessions.all.try_remove(number);
            self.sessions.by_id.remove(before);
            self.sessions.changed.remove(&number);
        } else if self.options.events.is_any() {
            self.sessions.changed.insert(number);
        }
        for problem in problems {
            self.sessions.assign(to, problem, &self.options);
        }
        for source in sources {
            if let Some(at) = self.sources.get_mut(source.0 as usize) {
                at.is_shared |= !is_whole;
                at.number = at.number.filter(|known| is_whole && *known == number).map(|_| to).or(at.number);
                at.first = at
                    .first
                    .take()
                    .map(|first| if is_whole && first == *before { named.clone() } else { first });
            }
            if let Some(target) = self.sessions.all.get_mut(to) {
                target.add_source(source);
            }
        }
        self.traces.moves.push(TraceMove { trace, from: before.clone(), to: named.clone(), is_whole });
        spans
    }

    /// Records that a source has lines of a session.
    fn record_source(&mut self, number: usize, source: Option<SourceId>) {
        let at = source.and_then(|source| self.sources.get_mut(source.0 as usize));
        let (Some(at), Some(target)) = (at, self.sessions.all.get_mut(number)) else { return };
        at.is_shared |= at.number.is_some_and(|known| known != number);
        at.number = Some(number);
        at.first.get_or_insert_with(|| target.id().clone());
        at.session = Some(target.id().clone());
        at.body.get_or_insert(number);
        target.add_source(at.id);
    }

    /// Returns the number of a session, adding it if new.
    fn session_number(&mut self, session: &SessionId) -> usize {
        let Self { sessions, options, .. } = self;
        if let Some(known) = sessions.by_id.get(session) {
            return *known;
        }
        let feed: SessionFeed = sessions.suspended.take(session);
        let number = sessions.all.insert(Session::new(session.clone(), options, feed));
        sessions.by_id.insert(session.clone(), number);
        number
    }

    /// Joins the places of another router, whose sessions were joined.
    pub(super) fn join_places(&mut self, other: TracePlaces) {
        for (trace, session) in other.sessions {
            let known = self.traces.sessions.get(&trace).filter(|known| **known != session).cloned();
            if let Some(known) = known {
                let number = self.session_number(&known);
                let spans = self.leave(trace, &session, number, &known);
                if let (Some(target), Some(spans)) = (self.sessions.all.get_mut(number), spans) {
                    target.traces.join(trace, spans);
                }
            } else {
                self.traces.sessions.insert(trace, session);
            }
            self.rejoin(trace);
        }
        for (trace, spans) in other.waiting {
            let mut all = self.traces.take_waiting(trace);
            all.join(spans);
            self.traces.wait(trace, all);
            self.rejoin(trace);
        }
    }

    /// Adds the waiting spans of a trace to its session, and moves it to the one that it names.
    fn rejoin(&mut self, trace: u128) {
        let number = self.traces.sessions.get(&trace).and_then(|session| self.index_of(session));
        if let Some(number) = number {
            let waiting = self.traces.take_waiting(trace);
            if let Some(session) =
                self.sessions.all.get_mut(number).filter(|_| waiting.spans().next().is_some())
            {
                session.traces.join(trace, waiting);
            }
        }
        self.place_trace(trace, None, None);
    }
}
