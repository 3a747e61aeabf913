//! Opens sources and decodes their bytes into observations of sessions.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use subscope_decode::{Decoder, SUBAGENT_EVENTS, Unrecognized, UnrecognizedLines};
use subscope_model::{
    Claim, Clock, Decoded, Fact, Millis, Observation, Problem, SessionId, SourceId, SourceKind,
};

use super::{
    SessionRouter,
    routes::{ProblemSource, UNNAMED, UnassignedProblem},
};
use crate::source::{HEAD_BYTES, OpenSource, SourceSpec, digest, needs_time, recognize_head};

impl SessionRouter {
    /// Opens a source.
    pub fn open(&mut self, spec: SourceSpec) -> SourceId {
        self.next_group = self.next_group.max(spec.group.saturating_add(1));
        let slot = self.sources.vacant_entry();
        let id = SourceId(u32::try_from(slot.key()).unwrap_or(u32::MAX));
        slot.insert(OpenSource { id, dialect: spec.dialect, spec, ..OpenSource::default() });
        id
    }

    /// Sets the receive time of the bytes pushed next; `None` for content that existed before it was followed.
    pub fn receive_at(&mut self, time: Option<Millis>) {
        self.received = time;
    }

    /// Decodes a source's next bytes, cut anywhere.
    pub fn push(&mut self, source: SourceId, bytes: &[u8]) {
        let Some(at) = self.sources.get_mut(source.0 as usize) else { return };
        if at.decoder.is_none() {
            // Only a beginning that is not recognized yet is kept.
            let head = if at.head.is_empty() {
                Cow::Borrowed(bytes)
            } else {
                at.head.extend_from_slice(bytes);
                Cow::Owned(std::mem::take(&mut at.head))
            };
            let Some(dialect) = at.dialect.or_else(|| recognize_head(&at.spec, &head, false)) else {
                at.head = head.into_owned();
                if at.head.len() > HEAD_BYTES {
                    self.reject_head(source, true);
                }
                return;
            };
            at.start(dialect);
            return self.decode(source, Some(&head));
        }
        self.decode(source, Some(bytes));
    }

    /// Sets the position of a source's next line in its body, if earlier lines of the body went to other sources. Its
    /// dialect must be known.
    pub fn skip_to(&mut self, source: SourceId, line: u64, offset: u64) {
        let Some(at) = self.sources.get_mut(source.0 as usize) else { return };
        if let (None, Some(dialect)) = (&at.decoder, at.dialect) {
            at.start(dialect);
        }
        if let Some(decoder) = &mut at.decoder {
            decoder.skip_to(line, offset);
        }
    }

    /// Ends a body of the inbox. Its problems belong to the session of its first line that could be read, or to the
    /// source's if its sender `names` that; else to none, since lines that follow may be of anybody.
    pub fn end_body(&mut self, source: SourceId, names: bool) {
        let Self { sources, sessions, options, traces, .. } = self;
        let Some(at) = sources.get_mut(source.0 as usize) else { return };
        let first = at.body.take();
        let Some(problems) = sessions.unassigned.remove(&source) else { return };
        for UnassignedProblem { named, problem } in problems {
            let by_sender = || at.spec.session.as_deref().filter(|_| names).map(SessionId::from);
            match (named.or_else(by_sender), first) {
                (Some(named), _) => match sessions.by_id.get(traces.session_of(&named)).copied() {
                    Some(number) => sessions.assign(number, problem, options),
                    None => {
                        let waiting = UnassignedProblem { named: Some(named), problem };
                        sessions.unassigned.entry(source).or_default().push(waiting);
                    }
                },
                (None, Some(number)) => sessions.assign(number, problem, options),
                (None, None) => sessions.add_unowned(problem),
            }
        }
    }

    /// Decodes an unfinished last line at the end of a source.
    pub fn flush(&mut self, source: SourceId) {
        self.settle(source);
        self.decode(source, None);
    }

    /// Joins the new content of a rewritten object. Returns whether it contains everything that the old content
    /// reported; what it lacks stays known. Content that cannot be decoded removes nothing; it is joined as a problem.
    pub fn replace(&mut self, source: SourceId, bytes: &[u8]) -> bool {
        let Some(at) = self.sources.get(source.0 as usize) else { return true };
        let Some(dialect) = at.dialect else {
            // Nothing of it was understood before.
            self.push(source, bytes);
            self.flush(source);
            return true;
        };
        let (mut reported, mut is_damaged) = (HashSet::new(), false);
        let mut sink = |decoded: Decoded<'_, '_>| match decoded {
            Decoded::Observation(seen) => {
                reported.insert(digest(seen));
            }
            Decoded::Problem { .. } => is_damaged = true,
        };
        let mut decoder = dialect.decoder(&at.hint());
        decoder.push(bytes, &mut sink);
        decoder.flush(&mut sink);
        let is_whole = is_damaged || at.observed.is_subset(&reported);
        self.push(source, bytes);
        self.flush(source);
        is_whole
    }

    /// Decodes the buffered head of a source that gets no bytes for now. If its dialect is not recognized, its lines
    /// become problems.
    fn settle(&mut self, source: SourceId) {
        let Some(at) = self.sources.get_mut(source.0 as usize) else { return };
        if at.decoder.is_some() {
            return;
        }
        if !at.head.is_empty() {
            at.dialect = at.dialect.or_else(|| recognize_head(&at.spec, &at.head, true));
        }
        if let Some(dialect) = at.dialect {
            at.start(dialect);
            let head = std::mem::take(&mut at.head);
            self.decode(source, Some(&head));
        } else {
            self.reject_head(source, false);
        }
    }

    /// Reports the buffered lines of a source, from which its dialect was not recognized. Later lines may be
    /// recognized.
    fn reject_head(&mut self, source: SourceId, is_long: bool) {
        let Self { sources, groups, sessions, options, .. } = self;
        let Some(at) = sources.get_mut(source.0 as usize) else { return };
        let mut head = std::mem::take(&mut at.head);
        if is_long && let Some(end) = head.iter().rposition(|byte| *byte == b'\n') {
            at.head = head.split_off(end + 1);
        }
        let is_binary = at.unrecognized.is_none() && head.iter().take(8 << 10).any(|byte| *byte == 0);
        if is_binary {
            let problem =
                Problem { at: format!("{}:1", at.spec.label), what: "a binary file, not read".to_owned() };
            let known = sessions.unassigned.entry(source).or_default();
            if known.iter().all(|known| known.problem != problem) {
                known.push(UnassignedProblem { named: None, problem });
            }
            return;
        }
        let OpenSource { spec, session, unrecognized, id, .. } = at;
        let mut sink = |decoded: Decoded<'_, '_>| {
            if let Decoded::Problem { place, what, text } = decoded {
                let from = ProblemSource { id: *id, spec, dialect: None, before: session.as_ref(), groups };
                sessions.report(from, options, place, what, text);
            }
        };
        let reader = unrecognized.get_or_insert_with(|| Unrecognized::new(*id, UnrecognizedLines::default()));
        reader.push(&head, &mut sink);
        if !is_long {
            reader.flush(&mut sink);
        }
    }

    fn decode(&mut self, source: SourceId, bytes: Option<&[u8]>) {
        let Self { options, sources, groups, sessions, received, find_work_tree, .. } = self;
        let Some(at) = sources.get_mut(source.0 as usize) else { return };
        let OpenSource {
            id,
            spec,
            decoder,
            dialect,
            session,
            number: last,
            first,
            named,
            body,
            is_shared,
            observed,
            ..
        } = at;
        let (Some(decoder), Some(dialect)) = (decoder.as_mut(), *dialect) else { return };
        let mut spans = Vec::new();
        let mut sink = |decoded: Decoded<'_, '_>| match decoded {
            Decoded::Observation(Observation { fact: Fact::Span(span), session, .. }) => {
                spans.push((session.map(SessionId::from), Arc::clone(span)));
            }
            Decoded::Observation(seen) => {
                if dialect.is_object() && !observed.insert(digest(seen)) {
                    return;
                }
                let is_same = seen.session.is_none()
                    || session.as_ref().map(SessionId::as_str) == seen.session
                    || seen.kind == SourceKind::Transcript && !dialect.names_session();
                let number = match *last {
                    Some(number) if is_same => number,
                    _ => {
                        let number = sessions.route(seen, spec, dialect, groups, session, options);
                        let by_line = seen.session.filter(|_| dialect.names_session());
                        if let Some(by_line) = by_line
                            && let Err(place) = named.binary_search_by(|known| known.as_str().cmp(by_line))
                        {
                            named.insert(place, by_line.into());
                        }
                        let Some(number) = number else { return };
                        number
                    }
                };
                let Some(target) = sessions.all.get_mut(number) else { return };
                if *last != Some(number) {
                    *is_shared |= last.is_some();
                    *last = Some(number);
                    target.add_source(*id);
                }
                if first.is_none() && target.id().as_str() != UNNAMED {
                    *first = Some(target.id().clone());
                }
                body.get_or_insert(number);
                let stamped;
                let seen = match *received {
                    Some(time) if seen.time.is_none() && needs_time(seen) => {
                        stamped = Observation { time: Some(time), clock: Clock::Receiver, ..seen.clone() };
                        &stamped
                    }
                    _ => seen,
                };
                if let (Claim::Agent(agent, _), Fact::Spawn(spawn), Some(at)) =
                    (seen.claim, &seen.fact, *received)
                    && (dialect == SUBAGENT_EVENTS || spawn.can_stop)
                {
                    target.own_facts_mut().record_heard(agent, at);
                }
                if let (Fact::Session { cwd: Some(cwd), .. }, Some(find)) = (&seen.fact, *find_work_tree)
                    && let Some(tree) = find(cwd)
                {
                    let tree = Observation { fact: Fact::WorkTree(tree), ..seen.clone() };
                    target.absorb(&tree, dialect, spec, options.events);
                }
                if target.absorb(seen, dialect, spec, options.events) && options.events.is_any() {
                    sessions.changed.insert(number);
                }
            }
            Decoded::Problem { place, what, text } => {
                let before = session.as_ref();
                let from = ProblemSource { id: *id, spec, dialect: Some(dialect), before, groups };
                sessions.report(from, options, place, what, text);
            }
        };
        match bytes {
            Some(bytes) => decoder.push(bytes, &mut sink),
            None => decoder.flush(&mut sink),
        }
        if !spans.is_empty() {
            self.place_spans(source, spans);
        }
    }
}
