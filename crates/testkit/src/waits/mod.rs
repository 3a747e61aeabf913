//! Scripted waits of agents with the expected liveness, and whether they are stalls.
//!
//! [`cases`] makes waits of each [`Cause`] in varied shapes on varied wires; [`healthy()`] makes agents that work with
//! long but ordinary pauses. Expectations follow from the script and the requirements (2.1 to 2.3), independently of
//! the tracker.

mod causes;
mod healthy;
mod stage;

pub use causes::cases;
pub use healthy::{Healthy, healthy};
pub use stage::{Call, Player, Stage, TimedLine, Wire};
use subscope_model::{LivenessKind, Millis};

/// Why an agent is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The model takes long.
    SlowModel,
    /// The API fails, and the request is tried again.
    Retry,
    /// A person is asked.
    Permission,
    /// A tool takes long.
    LongTool,
    /// The agents that it started work.
    Children,
    /// No more input arrives.
    Hung,
    /// The machine sleeps meanwhile.
    Asleep,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::SlowModel,
        Self::Retry,
        Self::Permission,
        Self::LongTool,
        Self::Children,
        Self::Hung,
        Self::Asleep,
    ];
}

/// Expected state of an agent at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Expected liveness; `None` for an agent that does not run.
    pub waits_for: Option<LivenessKind>,
    /// The tool's name, for a tool or a permission.
    pub name: Option<&'static str>,
    /// Whether this is only inferred.
    pub is_inferred: bool,
    /// Whether it is flagged as stalled.
    pub is_stalled: bool,
}

impl Expected {
    fn of(waits_for: LivenessKind) -> Self {
        Self { waits_for: Some(waits_for), name: None, is_inferred: false, is_stalled: false }
    }

    fn tool(kind: LivenessKind, name: &'static str) -> Self {
        Self { name: Some(name), ..Self::of(kind) }
    }
}

/// A stall that must be reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The agent's id.
    pub agent: String,
    /// Liveness in the report.
    pub waits_for: String,
    /// When the limit is reached, after the start of the clock.
    pub at: Millis,
}

/// The machine sleeps: its clock jumps from one moment to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// When it falls asleep.
    pub from: Millis,
    /// When it wakes.
    pub to: Millis,
}

/// One scripted wait.
#[derive(Debug)]
pub struct Case {
    /// Cause of the wait.
    pub cause: Cause,
    /// Its sources.
    pub wire: Wire,
    /// Its shape, for people.
    pub shape: String,
    /// The session's id.
    pub session: String,
    /// Lines of its sources.
    pub lines: Vec<TimedLine>,
    /// The observed agent, by its id, or by its call's if its sources do not have the id yet.
    pub agent: [String; 2],
    /// Time of the observation.
    pub probe: Millis,
    /// Expected state at that time.
    pub expected: Expected,
    /// All stalls that must be reported in the whole session.
    pub stalls: Vec<Stall>,
    /// When the script ends.
    pub end: Millis,
    /// When the machine sleeps.
    pub sleep: Option<Sleep>,
}
