//! Union of time intervals.

use std::collections::BTreeMap;

use subscope_model::Millis;

/// Set of disjoint time intervals with their total length.
#[derive(Clone, Debug, Default)]
pub(crate) struct IntervalSet {
    /// End by start; intervals neither overlap nor touch.
    intervals: BTreeMap<Millis, Millis>,
    total_ms: i64,
}

impl IntervalSet {
    /// Adds an interval; one that ends before its start counts as empty.
    pub(crate) fn add(&mut self, [from, to]: [Millis; 2]) {
        let (mut from, mut to) = (from, to.max(from));
        while let Some((&start, &end)) =
            self.intervals.range(..=to).next_back().filter(|(_, end)| **end >= from)
        {
            self.intervals.remove(&start);
            self.total_ms = self.total_ms.saturating_sub(end.saturating_sub(start));
            (from, to) = (from.min(start), to.max(end));
        }
        self.intervals.insert(from, to);
        self.total_ms = self.total_ms.saturating_add(to.saturating_sub(from));
    }

    /// Returns the length of the union in ms; `None` if nothing was added.
    pub(crate) fn total_ms(&self) -> Option<i64> {
        (!self.intervals.is_empty()).then_some(self.total_ms)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn add_nothing_has_no_length() {
        assert_eq!(IntervalSet::default().total_ms(), None);
    }

    proptest! {
        #[test]
        fn union_counts_each_moment_once(parts in prop::collection::vec((0..60i64, 0..20i64), 1..12)) {
            let (mut seen, mut union) = ([false; 100], IntervalSet::default());
            for (from, len) in &parts {
                union.add([*from, from + len]);
                for moment in *from..from + len {
                    seen[usize::try_from(moment).unwrap()] = true;
                }
            }
            let expected = seen.iter().filter(|moment| **moment).count();
            prop_assert_eq!(union.total_ms(), Some(i64::try_from(expected).unwrap()));
        }
    }
}
