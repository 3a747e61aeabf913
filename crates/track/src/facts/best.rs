//! Joins: of two tellings the better one, of two spans the one that covers both.

use subscope_model::{Clock, Millis, SourceKind, Text};

/// Where something stands in order. Comparable between sources by time, inside a source by offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    /// When, else when the line before it in its source was; `Millis::MIN` where no line before had a time.
    pub(crate) time: Millis,
    /// The kind of the source, so that equal times have one order.
    pub(crate) kind: SourceKind,
    /// The byte of its line.
    pub(crate) offset: u64,
}

/// The best telling of a value: the smallest rank stays, and of equal ranks the smallest value.
#[derive(Clone, Debug)]
pub(crate) struct Best<T> {
    pub(crate) rank: (u8, Order),
    pub(crate) value: T,
}

/// Keeps the better of what is there and what is told.
pub(crate) fn better<T: Ord>(slot: &mut Option<Best<T>>, rank: u8, order: Order, value: T) {
    let rank = (rank, order);
    let wins = match slot {
        Some(best) => (rank, &value) < (best.rank, &best.value),
        None => true,
    };
    if wins {
        *slot = Some(Best { rank, value });
    }
}

/// Keeps the better of what is there and a text that is told, without copying a worse one.
pub(crate) fn better_text(slot: &mut Option<Best<Text>>, rank: u8, order: Order, value: Option<&str>) {
    let Some(value) = value.filter(|text| !text.is_empty()) else { return };
    let wins = slot.as_ref().is_none_or(|best| ((rank, order), value) < (best.rank, &*best.value));
    if wins {
        *slot = Some(Best { rank: (rank, order), value: value.into() });
    }
}

/// The value of a best telling.
pub(crate) fn value<T: Clone>(slot: &Option<Best<T>>) -> Option<T> {
    slot.as_ref().map(|best| best.value.clone())
}

/// A span of time by each clock; the best clock's counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span(pub(crate) [Option<(Millis, Millis)>; 3]);

impl Span {
    pub(crate) fn add(&mut self, clock: Clock, time: Millis) {
        let slot = &mut self.0[clock as usize];
        *slot = Some(slot.map_or((time, time), |(from, to)| (from.min(time), to.max(time))));
    }

    /// From when to when, by the best clock that told anything.
    pub(crate) fn get(&self) -> Option<(Millis, Millis)> {
        self.0.iter().flatten().next().copied()
    }

    /// The latest time by any clock.
    pub(crate) fn latest(&self) -> Option<Millis> {
        self.0.iter().flatten().map(|(_, to)| *to).max()
    }
}

/// A time that may be unknown, in the space of a time: a session has several for each of its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MaybeTime(Millis);

impl MaybeTime {
    /// Not known. Later than every known time, so that the least of several is a known one.
    pub(crate) const UNKNOWN: Self = Self(Millis::MAX);

    pub(crate) fn get(self) -> Option<Millis> {
        (self != Self::UNKNOWN).then_some(self.0)
    }
}

impl From<Option<Millis>> for MaybeTime {
    fn from(time: Option<Millis>) -> Self {
        time.map_or(Self::UNKNOWN, Self)
    }
}
