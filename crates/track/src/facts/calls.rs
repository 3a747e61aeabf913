//! What is told of tool calls: who makes one, how it begins and ends, what is said in it, and the agent that a spawn call is
//! to start.

use smallvec::SmallVec;
use subscope_model::{Basis, Millis, Outcome, Payload, SourceKind, SpawnMode, Text, ToolClass};

use super::{Best, MaybeTime, Order, Ref};

/// When and where a call began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Begin {
    /// Whether its time is unknown: a begin with a time is better, whatever its source.
    pub(crate) is_timeless: bool,
    pub(crate) kind: SourceKind,
    pub(crate) order: Order,
}

impl Begin {
    /// When it began.
    pub(crate) fn time(&self) -> Option<Millis> {
        (!self.is_timeless).then_some(self.order.time)
    }
}

/// An ending of a call, as one source tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallEndFact {
    pub(crate) time: MaybeTime,
    /// Who told it; `Ref::MAX` where the wire names nobody.
    teller: Ref,
    pub(crate) kind: SourceKind,
    pub(crate) outcome: Outcome,
    pub(crate) refused: bool,
}

impl CallEndFact {
    pub(crate) fn new(
        kind: SourceKind,
        outcome: Outcome,
        by: Option<Ref>,
        time: Option<Millis>,
        refused: bool,
    ) -> Self {
        Self { time: time.into(), teller: by.unwrap_or(Ref::MAX), kind, outcome, refused }
    }

    /// Who told it; `None` where the wire names nobody.
    pub(crate) fn by(&self) -> Option<Ref> {
        (self.teller != Ref::MAX).then_some(self.teller)
    }

    /// The same, told by whom that name means elsewhere.
    pub(crate) fn told_by(self, by: Option<Ref>) -> Self {
        Self { teller: by.unwrap_or(Ref::MAX), ..self }
    }
}

/// What is known of the agent that a spawn call is to start.
#[derive(Debug, Default)]
pub(crate) struct SpawnCallFacts {
    pub(crate) agent_type: Option<Best<Text>>,
    pub(crate) description: Option<Best<Text>>,
    pub(crate) name: Option<Best<Text>>,
    pub(crate) model: Option<Best<Text>>,
    pub(crate) resolved_model: Option<Best<Text>>,
    pub(crate) prompt: Option<Best<Text>>,
    pub(crate) mode: Option<Best<SpawnMode>>,
    /// The agent that its result names.
    pub(crate) agent: Option<Best<Text>>,
    /// Whether its result says that the agent is over, and of what order that is.
    pub(crate) finished: Option<Best<bool>>,
    pub(crate) report: Option<Best<Text>>,
    pub(crate) error: Option<Best<Text>>,
    pub(crate) proves_agent: bool,
    /// Whether it started an agent though its tool is not one for that.
    pub(crate) is_forked: bool,
    /// The result's order, for endings.
    pub(crate) result_order: Option<Order>,
}

/// What was said of a tool call.
#[derive(Debug)]
pub(crate) struct CallFacts {
    pub(crate) id: Option<Text>,
    pub(crate) name: Option<Text>,
    pub(crate) class: ToolClass,
    /// Of which kinds of source its begin was seen, as bits of `SourceKind`.
    pub(crate) seen: u8,
    pub(crate) begin: Option<Begin>,
    pub(crate) owners: SmallVec<[(Ref, Basis); 1]>,
    pub(crate) digest: Option<(SourceKind, u64)>,
    pub(crate) detail: Option<(SourceKind, Text)>,
    pub(crate) writes: Option<Text>,
    pub(crate) ends: SmallVec<[CallEndFact; 1]>,
    /// Whether the command that it started goes on behind it.
    pub(crate) left_running: bool,
    pub(crate) payloads: Option<Box<CallPayloads>>,
    pub(crate) spawn: Option<Box<SpawnCallFacts>>,
}

/// Arguments and result of a call.
#[derive(Debug, Default)]
pub(crate) struct CallPayloads {
    pub(crate) input: Tellings,
    pub(crate) result: Tellings,
}

/// What each teller says, the first of each kind of source: copies of a call have other results, and whose it is is concluded
/// later.
#[derive(Debug, Default)]
pub(crate) struct Tellings(SmallVec<[(SourceKind, Option<Ref>, Payload); 1]>);

impl Tellings {
    pub(crate) fn add(&mut self, kind: SourceKind, by: Option<Ref>, payload: impl FnOnce() -> Payload) {
        if !self.0.iter().any(|(known, teller, _)| (*known, *teller) == (kind, by)) {
            self.0.push((kind, by, payload()));
        }
    }

    /// Returns what the best kind of source says of those who count, the named ones first.
    pub(crate) fn best(&self, counts: impl Fn(Option<Ref>) -> bool) -> Option<&Payload> {
        let of_owner = self.0.iter().filter(|(_, by, _)| counts(*by));
        let best = of_owner.min_by_key(|(kind, by, _)| (*kind, by.is_none()));
        best.or_else(|| self.0.iter().min_by_key(|(kind, ..)| *kind)).map(|(.., payload)| payload)
    }
}

impl IntoIterator for Tellings {
    type Item = (SourceKind, Option<Ref>, Payload);
    type IntoIter = smallvec::IntoIter<[(SourceKind, Option<Ref>, Payload); 1]>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl CallFacts {
    pub(crate) fn new(id: Option<Text>) -> Self {
        Self {
            id,
            name: None,
            class: ToolClass::Other,
            seen: 0,
            begin: None,
            owners: SmallVec::new(),
            digest: None,
            detail: None,
            writes: None,
            ends: SmallVec::new(),
            left_running: false,
            payloads: None,
            spawn: None,
        }
    }

    /// Whether a source of this kind told its begin.
    pub(crate) fn seen_in(&self, kind: SourceKind) -> bool {
        self.seen & (1 << kind as u8) != 0
    }

    /// Whether only events that a program publishes tell of it. Such ids are the program's own (`1`, `call_1`): that another session
    /// has the same is no sign of a copy.
    pub(crate) fn is_published(&self) -> bool {
        let is_known = self.seen != 0 || !self.ends.is_empty();
        let others = self.seen & !(1 << SourceKind::Posted as u8);
        is_known && others == 0 && self.ends.iter().all(|end| end.kind == SourceKind::Posted)
    }

    /// The order of its begin, for sorting; calls without one come last.
    pub(crate) fn order(&self) -> (bool, Option<Order>) {
        (self.begin.is_none(), self.begin.map(|begin| begin.order))
    }
}
