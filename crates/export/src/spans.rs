//! The union of stretches of time.

use std::collections::BTreeMap;

use subscope_model::Millis;

/// A set of moments as disjoint stretches, with their total length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    /// End by start; stretches neither overlap nor touch.
    stretches: BTreeMap<Millis, Millis>,
    total_ms: i64,
}

impl Spans {
    /// Adds a stretch; one that ends before it begins counts as a moment at its start.
    pub(crate) fn add(&mut self, [from, to]: [Millis; 2]) {
        let (mut from, mut to) = (from, to.max(from));
        while let Some((&start, &end)) =
            self.stretches.range(..=to).next_back().filter(|(_, end)| **end >= from)
        {
            self.stretches.remove(&start);
            self.total_ms = self.total_ms.saturating_sub(end.saturating_sub(start));
            (from, to) = (from.min(start), to.max(end));
        }
        self.stretches.insert(from, to);
        self.total_ms = self.total_ms.saturating_add(to.saturating_sub(from));
    }

    /// Adds all of `other`. Costs as much as the smaller of the two, so that a long chain of agents can hand
    /// its stretches upwards.
    pub(crate) fn join(&mut self, mut other: Self) {
        if other.stretches.len() > self.stretches.len() {
            std::mem::swap(self, &mut other);
        }
        for (from, to) in other.stretches {
            self.add([from, to]);
        }
    }

    /// Returns the length of the union; `None` where nothing was ever added.
    pub(crate) fn total_ms(&self) -> Option<i64> {
        (!self.stretches.is_empty()).then_some(self.total_ms)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn add_nothing_has_no_length() {
        assert_eq!(Spans::default().total_ms(), None);
    }

    proptest! {
        #[test]
        fn union_counts_each_moment_once(parts in prop::collection::vec((0..60i64, 0..20i64), 1..12), cut in 0..12usize) {
            let mut seen = [false; 100];
            let (mut left, mut right) = (Spans::default(), Spans::default());
            for (place, (from, len)) in parts.iter().enumerate() {
                if place < cut { &mut left } else { &mut right }.add([*from, from + len]);
                for moment in *from..from + len {
                    seen[usize::try_from(moment).unwrap()] = true;
                }
            }
            left.join(right);
            let expected = seen.iter().filter(|moment| **moment).count();
            prop_assert_eq!(left.total_ms(), Some(i64::try_from(expected).unwrap()));
        }
    }
}
