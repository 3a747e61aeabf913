//! Lines between the end of a turn and the begin of the next one: what the turn left running is reported in them.
//!
//! They are of the turn that ended, and move neither its end nor that of its agent: what they report is dated at the end, but
//! for the end of a call, which has its own time and is marked ([`subscope_model::CallEnd::is_late`]).

use subscope_model::{CallEnd, Decoded, Fact, Millis, Observation, Sink};

/// What a line is to a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnBoundary {
    /// Another turn begins.
    Begin,
    /// The turn ends.
    End,
    /// It is of the turn, or of the one that has ended.
    Inside,
}

/// Whether the last turn of a thread has ended, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TurnGap {
    is_over: bool,
    ended_at: Option<Millis>,
}

impl TurnGap {
    /// Notes a line and its time. Returns the state in which its own facts are emitted: a line that ends a turn is of that.
    pub(crate) fn note(&mut self, boundary: TurnBoundary, time: Option<Millis>) -> Self {
        let before = *self;
        match boundary {
            TurnBoundary::Begin => *self = Self::default(),
            // Ended again, it has ended before.
            TurnBoundary::End if self.is_over => {}
            TurnBoundary::End => {
                *self = Self { is_over: true, ended_at: time };
                return before;
            }
            TurnBoundary::Inside => {}
        }
        *self
    }

    /// Returns a sink for what a line reports.
    pub(crate) fn sink<'s>(self, sink: &'s mut Sink<'_>) -> impl FnMut(Decoded<'_, '_>) + 's {
        move |decoded| match decoded {
            Decoded::Observation(seen)
                if self.is_over && seen.time.is_none_or(|time| Some(time) >= self.ended_at) =>
            {
                sink(Decoded::Observation(&late(seen, self.ended_at)));
            }
            Decoded::Observation(_) | Decoded::Problem { .. } => sink(decoded),
        }
    }
}

/// Returns what a line reports of a turn that ended before.
fn late<'a>(seen: &Observation<'a>, ended_at: Option<Millis>) -> Observation<'a> {
    if let Fact::CallEnd(end) = &seen.fact {
        return Observation { fact: Fact::CallEnd(CallEnd { is_late: true, ..end.clone() }), ..seen.clone() };
    }
    // Of other agents.
    if matches!(seen.fact, Fact::Spawn(_) | Fact::AgentEnd(_)) {
        return seen.clone();
    }
    Observation { time: ended_at, ..seen.clone() }
}
