//! Finds the parents of spans in any order of arrival: a span is reported when it ends, so children arrive before their
//! parents.

use std::collections::{HashMap, VecDeque};

/// Most spans that are remembered for those below them. Far more than are open at one time; those of an agent in the
/// background may come long after the call that started it.
const MAX_SPANS: usize = 50_000;

/// Most spans that wait for one above them. One that waits for a span that is never reported is dropped some day.
const MAX_WAITING: usize = 4_096;

/// Spans by id with their data, and records that wait for a span that has not arrived.
#[derive(Debug)]
pub struct SpanTable<K, W> {
    known: HashMap<u64, K>,
    order: VecDeque<u64>,
    waiting: HashMap<u64, Vec<W>>,
    waiting_order: VecDeque<u64>,
    count: usize,
}

impl<K, W> Default for SpanTable<K, W> {
    fn default() -> Self {
        Self {
            known: HashMap::new(),
            order: VecDeque::new(),
            waiting: HashMap::new(),
            waiting_order: VecDeque::new(),
            count: 0,
        }
    }
}

impl<K, W> SpanTable<K, W> {
    /// Returns the data of a span.
    pub fn get(&self, span: u64) -> Option<&K> {
        self.known.get(&span)
    }

    /// Records a span, unless it is known.
    pub fn add(&mut self, span: u64, what: K) {
        if self.known.contains_key(&span) {
            return;
        }
        self.known.insert(span, what);
        self.order.push_back(span);
        if self.order.len() > MAX_SPANS
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    /// Adds a record that waits for a span. Above the bound the one that has waited longest is dropped.
    pub fn wait(&mut self, span: u64, what: W) {
        let list = self.waiting.entry(span).or_default();
        if list.is_empty() {
            self.waiting_order.push_back(span);
        }
        list.push(what);
        self.count += 1;
        while self.count > MAX_WAITING
            && let Some(oldest) = self.waiting_order.pop_front()
        {
            self.count -= self.waiting.remove(&oldest).map_or(0, |list| list.len());
        }
    }

    /// Returns what waited for a span, in order.
    pub fn take_waiting(&mut self, span: u64) -> Vec<W> {
        let taken = self.waiting.remove(&span).unwrap_or_default();
        self.count -= taken.len();
        if !taken.is_empty() {
            self.waiting_order.retain(|known| *known != span);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_and_known_spans_are_bounded_and_the_oldest_go() {
        let mut table: SpanTable<u64, u64> = SpanTable::default();
        for span in 0..2 * MAX_SPANS as u64 {
            table.add(span, span);
        }
        assert_eq!(table.known.len(), MAX_SPANS);
        assert_eq!(
            (table.get(0), table.get(2 * MAX_SPANS as u64 - 1)),
            (None, Some(&(2 * MAX_SPANS as u64 - 1)))
        );
        for what in 0..2 * MAX_WAITING as u64 {
            table.wait(what / 2, what);
        }
        assert_eq!(table.count, MAX_WAITING);
        assert!(table.take_waiting(0).is_empty());
        assert_eq!(
            table.take_waiting(MAX_WAITING as u64 - 1),
            [2 * MAX_WAITING as u64 - 2, 2 * MAX_WAITING as u64 - 1]
        );
        assert_eq!(table.count, MAX_WAITING - 2);
    }
}
