//! Emits the facts of one line.

use serde_json::value::RawValue;
use subscope_model::{Claim, Clock, Decoded, Fact, Millis, Observation, RawJson, Sink, SourceKind};

use crate::lenient::LineText;

/// Emits the facts of one line, each with position, time, session and actor of the line.
pub struct Emitter<'a, 's> {
    /// The next observation, but for its fact.
    pub head: Observation<'a>,
    /// The line.
    pub line: LineText<'a>,
    sink: &'s mut Sink<'s>,
}

impl<'a, 's> Emitter<'a, 's> {
    /// Creates the emitter of a line. Its `head` has neither time, session nor line id.
    pub fn new(
        kind: SourceKind,
        clock: Clock,
        claim: Claim<'a>,
        line: LineText<'a>,
        sink: &'s mut Sink<'_>,
    ) -> Self {
        let (place, time, session, line_id, fact) = (line.place, None, None, None, Fact::Activity);
        Self { head: Observation { place, kind, time, clock, session, line_id, claim, fact }, line, sink }
    }

    /// Returns an emitter of the same line for another actor, time and line id.
    pub fn with<'b>(
        &'b mut self,
        claim: Claim<'b>,
        time: Option<Millis>,
        line_id: Option<&'b str>,
    ) -> Emitter<'b, 'b>
    where
        'a: 'b,
    {
        let Observation { place, kind, clock, session, .. } = self.head;
        let fact = Fact::Activity;
        let head = Observation { place, kind, time, clock, session, line_id, claim, fact };
        Emitter { head, line: self.line, sink: &mut *self.sink }
    }

    /// Emits a fact.
    pub fn emit(&mut self, fact: Fact<'a>) {
        self.head.fact = fact;
        (self.sink)(Decoded::Observation(&self.head));
    }

    /// Emits a fact of another actor and time.
    pub fn emit_of(&mut self, claim: Claim<'_>, time: Option<Millis>, fact: Fact<'_>) {
        let Observation { place, kind, clock, session, line_id, .. } = self.head;
        let out = Observation { place, kind, time, clock, session, line_id, claim, fact };
        (self.sink)(Decoded::Observation(&out));
    }

    /// Emits a fact with data that does not live as long as the line.
    pub fn emit_made(&mut self, fact: Fact<'_>) {
        self.emit_of(self.head.claim, self.head.time, fact);
    }

    /// Emits a fact under an id that the same line has in other sources.
    pub fn emit_as(&mut self, line_id: Option<&str>, fact: Fact<'_>) {
        let Observation { place, kind, time, clock, session, claim, .. } = self.head;
        let out = Observation { place, kind, time, clock, session, line_id, claim, fact };
        (self.sink)(Decoded::Observation(&out));
    }

    /// Emits an observation of another decoder at this place; time and line id are those given where it has none.
    pub fn relay(&mut self, seen: &Observation<'_>, time: Option<Millis>, line_id: Option<&str>) {
        let Observation { place, kind, clock, session, .. } = self.head;
        let out = Observation {
            place,
            kind,
            clock,
            time: seen.time.or(time),
            session: seen.session.or(session),
            line_id: seen.line_id.or(line_id),
            claim: seen.claim,
            fact: seen.fact.clone(),
        };
        (self.sink)(Decoded::Observation(&out));
    }

    /// Returns the place of a value of the line.
    pub fn raw(&self, value: Option<&'a RawValue>) -> Option<RawJson<'a>> {
        value.map(|value| self.line.raw(value))
    }
}
