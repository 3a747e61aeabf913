//! Joinable values: best-ranked report of a value, span of time per clock, order of a fact.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};
use subscope_model::{Basis, Clock, Millis, SourceKind, Text};

/// Position of a fact in order: comparable across sources by time, within a source by offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct FactOrder {
    /// Time of its line, else of the latest line before it in its source; `Millis::MIN` if no line before has one.
    pub(crate) time: Millis,
    /// Source kind, to break ties of time.
    pub(crate) kind: SourceKind,
    /// Byte offset of its line.
    pub(crate) offset: u64,
}

/// Best-ranked report of a value: the smallest rank wins, then the smallest value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Best<T> {
    pub(crate) rank: (u8, FactOrder),
    pub(crate) value: T,
}

/// Replaces the value if the new report has a better rank.
pub(crate) fn update_best<T: Ord>(slot: &mut Option<Best<T>>, rank: u8, order: FactOrder, value: T) {
    let rank = (rank, order);
    let wins = match slot {
        Some(best) => (rank, &value) < (best.rank, &best.value),
        None => true,
    };
    if wins {
        *slot = Some(Best { rank, value });
    }
}

/// Replaces the text if the new report has a better rank; copies it only then. Empty texts are ignored.
pub(crate) fn update_best_text(
    slot: &mut Option<Best<Text>>,
    rank: u8,
    order: FactOrder,
    value: Option<&str>,
) {
    let Some(value) = value.filter(|text| !text.is_empty()) else { return };
    let wins = slot.as_ref().is_none_or(|best| ((rank, order), value) < (best.rank, &*best.value));
    if wins {
        *slot = Some(Best { rank: (rank, order), value: value.into() });
    }
}

/// Keeps the smaller of two optional values; `None` is greater than any value.
pub(crate) fn keep_least<T: PartialOrd>(slot: &mut Option<T>, other: Option<T>) {
    if let Some(other) = other
        && slot.as_ref().is_none_or(|known| other < *known)
    {
        *slot = Some(other);
    }
}

/// Appends an item, unless the list has it.
pub(crate) fn push_new<T: PartialEq>(list: &mut (impl Deref<Target = [T]> + Extend<T>), item: T) {
    if !list.contains(&item) {
        list.extend([item]);
    }
}

/// Adds claims of ownership; of several of one owner the strongest counts.
pub(crate) fn join_owners<O: PartialEq>(
    owners: &mut (impl DerefMut<Target = [(O, Basis)]> + Extend<(O, Basis)>),
    other: impl IntoIterator<Item = (O, Basis)>,
) {
    for (owner, basis) in other {
        match owners.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, known)) => *known = (*known).max(basis),
            None => owners.extend([(owner, basis)]),
        }
    }
}

/// Returns the value.
pub(crate) fn best_value<T: Clone>(slot: &Option<Best<T>>) -> Option<T> {
    slot.as_ref().map(|best| best.value.clone())
}

/// Returns the span of time that covers both.
pub(crate) fn widest(
    one: Option<(Millis, Millis)>,
    other: Option<(Millis, Millis)>,
) -> Option<(Millis, Millis)> {
    match (one, other) {
        (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
        (one, other) => one.or(other),
    }
}

/// First and last time of activity, by clock.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ActivitySpan(pub(crate) [Option<(Millis, Millis)>; 4]);

impl ActivitySpan {
    pub(crate) fn add(&mut self, clock: Clock, time: Millis) {
        let slot = &mut self.0[clock as usize];
        *slot = widest(*slot, Some((time, time)));
    }

    /// Returns first and last time by the best clock that has any.
    pub(crate) fn get(&self) -> Option<(Millis, Millis)> {
        self.0.iter().flatten().next().copied()
    }

    /// Adds times at which hooks came, unless a source's own clock has any.
    pub(crate) fn add_hook_times(&mut self, times: Option<(Millis, Millis)>) {
        let Some((received, better)) = self.0.split_last_mut() else { return };
        if better.iter().all(Option::is_none) {
            *received = widest(*received, times);
        }
    }

    /// Returns the latest time by any clock.
    pub(crate) fn latest(&self) -> Option<Millis> {
        self.0.iter().flatten().map(|(_, to)| *to).max()
    }
}

/// An optional time in 8 bytes: a session has several for each call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct MaybeTime(Millis);

impl MaybeTime {
    /// Unknown. Greater than every known time, so that the minimum of several is a known one.
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
