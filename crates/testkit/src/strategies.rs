//! Proptest strategies over bytes and lines: cuts, orders, repeats, damage.
//!
//! Transformations that must not change the result (`chunkings`, `interleavings`, `duplicated`), and damage
//! (`mutations`). All shrink towards the unchanged input.

use std::fmt::Debug;

use proptest::{collection::vec, prelude::*, sample::Index};

/// Cuts of one input at most: enough to hit every kind of border, few enough to stay fast.
const MOST_CUTS: usize = 64;
/// Repeated lines of one input at most.
const MOST_REPEATS: usize = 16;
/// Changes of one mutation at most.
const MOST_CHANGES: usize = 8;

/// Returns any cutting of `bytes` into chunks, empty ones included; joined they are `bytes`. One cutting in eight is
/// into single bytes if there are no more than 64 KiB.
pub fn chunkings(bytes: Vec<u8>) -> impl Strategy<Value = Vec<Vec<u8>>> {
    let may_be_single = bytes.len() <= 64 << 10;
    (0..8u8, vec(any::<Index>(), 0..=MOST_CUTS)).prop_map(move |(pick, cuts)| match pick {
        7 if may_be_single => bytes.chunks(1).map(<[u8]>::to_vec).collect(),
        _ => cut_at(&bytes, &cuts),
    })
}

fn cut_at(bytes: &[u8], cuts: &[Index]) -> Vec<Vec<u8>> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut start = 0;
    ends.into_iter().map(|end| bytes[std::mem::replace(&mut start, end)..end].to_vec()).collect()
}

/// Returns any order of the items of several sources that keeps the order inside each: pairs of the source's number
/// and its item.
pub fn interleavings<T: Clone + Debug + 'static>(
    sources: Vec<Vec<T>>,
) -> impl Strategy<Value = Vec<(usize, T)>> {
    let turns: Vec<usize> = sources
        .iter()
        .enumerate()
        .flat_map(|(number, items)| std::iter::repeat_n(number, items.len()))
        .collect();
    Just(turns).prop_shuffle().prop_map(move |turns| {
        let mut rest: Vec<_> = sources.iter().map(|items| items.iter()).collect();
        turns.into_iter().filter_map(|number| Some((number, rest[number].next()?.clone()))).collect()
    })
}

/// Returns `items` with some repeated, each repeat anywhere after its first occurrence: as from a source read again
/// from an earlier offset, or a sender that retries. The order of first occurrences is kept.
pub fn duplicated<T: Clone + Debug + 'static>(items: Vec<T>) -> impl Strategy<Value = Vec<T>> {
    let most = if items.is_empty() { 0 } else { MOST_REPEATS };
    vec((any::<Index>(), any::<Index>()), 0..=most).prop_map(move |repeats| {
        // After each item, the numbers of the items repeated there.
        let mut after = vec![Vec::new(); items.len()];
        for (item, place) in repeats {
            let item = item.index(items.len());
            after[item + place.index(items.len() - item)].push(item);
        }
        let of = |number: usize| std::iter::once(number).chain(after[number].iter().copied());
        (0..items.len()).flat_map(of).map(|number| items[number].clone()).collect()
    })
}

/// One change to an input.
#[derive(Clone, Debug)]
enum Change {
    FlipBit(Index, u8),
    Truncate(Index),
    Remove(Index, Index),
    Repeat(Index, Index),
    Insert(Index, Vec<u8>),
    CarriageReturns,
    ByteOrderMark,
}

/// Bytes that readers of lines, JSON and terminals stumble over.
const STUMBLING: [&[u8]; 12] = [
    b"\0",
    b"\n",
    b"\r",
    b"\n\n",
    b"{",
    b"\"",
    b"\\",
    b"\xff\xfe",
    b"\xc3",
    b"\xef\xbb\xbf",
    b"\x1b]0;x\x07",
    b"null\n",
];

/// Returns `bytes` after up to eight changes: a flipped bit, a cut end, a part removed, repeated or put in, CRLF line
/// ends, a byte order mark.
pub fn mutations(bytes: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let change = prop_oneof![
        4 => (any::<Index>(), 0..8u8).prop_map(|(at, bit)| Change::FlipBit(at, bit)),
        1 => any::<Index>().prop_map(Change::Truncate),
        2 => any::<(Index, Index)>().prop_map(|(from, to)| Change::Remove(from, to)),
        1 => any::<(Index, Index)>().prop_map(|(from, to)| Change::Repeat(from, to)),
        2 => (any::<Index>(), prop::sample::select(&STUMBLING[..]))
            .prop_map(|(at, what)| Change::Insert(at, what.to_vec())),
        1 => Just(Change::CarriageReturns),
        1 => Just(Change::ByteOrderMark),
    ];
    vec(change, 0..=MOST_CHANGES).prop_map(move |changes| changes.iter().fold(bytes.clone(), apply))
}

fn apply(mut bytes: Vec<u8>, change: &Change) -> Vec<u8> {
    let ends = bytes.len() + 1;
    let span = |one: &Index, two: &Index| {
        let (one, two) = (one.index(ends), two.index(ends));
        one.min(two)..one.max(two)
    };
    match change {
        Change::FlipBit(_, _) if bytes.is_empty() => {}
        Change::FlipBit(at, bit) => {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        Change::Truncate(at) => bytes.truncate(at.index(ends)),
        Change::Remove(from, to) => drop(bytes.drain(span(from, to))),
        Change::Repeat(from, to) => {
            let span = span(from, to);
            // Eight repeats of a whole would be 256 times the input.
            let part = bytes[span.start..span.end.min(span.start + 4096)].to_vec();
            bytes.splice(span.start..span.start, part);
        }
        Change::Insert(at, what) => drop(bytes.splice(at.index(ends)..at.index(ends), what.iter().copied())),
        Change::CarriageReturns => {
            bytes = bytes.split(|byte| *byte == b'\n').collect::<Vec<_>>().join(&b"\r\n"[..]);
        }
        Change::ByteOrderMark => drop(bytes.splice(0..0, *b"\xef\xbb\xbf")),
    }
    bytes
}

/// Returns all orders of a few things.
pub fn permutations<T: Clone>(all: &[T]) -> Vec<Vec<T>> {
    if all.len() < 2 {
        return vec![all.to_vec()];
    }
    let with_first = |first: usize| {
        let mut rest = all.to_vec();
        let chosen = rest.remove(first);
        permutations(&rest).into_iter().map(move |rest| [vec![chosen.clone()], rest].concat())
    };
    (0..all.len()).flat_map(with_first).collect()
}

#[cfg(test)]
mod tests {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};

    use super::*;

    proptest! {
        #[test]
        fn chunks_joined_are_the_input(bytes in vec(any::<u8>(), 0..200)) {
            let mut runner = TestRunner::deterministic();
            for _ in 0..16 {
                let chunks = chunkings(bytes.clone()).new_tree(&mut runner).unwrap().current();
                prop_assert_eq!(chunks.concat(), bytes.clone());
            }
        }

        #[test]
        fn interleaving_keeps_the_order_inside_each_source(
            order in interleavings(vec![vec![1, 2, 3], vec![], vec![4, 5, 6, 7]])
        ) {
            let of = |source: usize| -> Vec<i32> {
                order.iter().filter(|(number, _)| *number == source).map(|(_, item)| *item).collect()
            };
            prop_assert_eq!((of(0), of(1), of(2)), (vec![1, 2, 3], vec![], vec![4, 5, 6, 7]));
        }

        #[test]
        fn duplicated_keeps_the_firsts_in_order(items in duplicated((0..20).collect::<Vec<i32>>())) {
            let mut seen = std::collections::HashSet::new();
            let firsts: Vec<i32> = items.iter().copied().filter(|item| seen.insert(*item)).collect();
            prop_assert_eq!(firsts, (0..20).collect::<Vec<i32>>());
        }
    }

    fn sample<S: Strategy>(strategy: S) -> Vec<S::Value> {
        let mut runner = TestRunner::deterministic();
        (0..400).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
    }

    #[test]
    fn strategies_give_more_than_one_outcome() {
        let text = b"one\ntwo\nthree\n".to_vec();
        let chunks = sample(chunkings(text.clone()));
        assert!(
            chunks
                .iter()
                .any(|chunks| chunks.len() == text.len() && chunks.iter().all(|chunk| chunk.len() == 1))
        );
        assert!(chunks.iter().any(|chunks| chunks.len() < 5));
        let orders = sample(interleavings(vec![vec!['a', 'b'], vec!['c', 'd']]));
        assert_eq!(
            orders.into_iter().collect::<std::collections::HashSet<_>>().len(),
            6,
            "all six orders come"
        );
        assert!(sample(duplicated(vec![1, 2, 3])).iter().any(|items| items.len() > 3));
        assert!(sample(duplicated(Vec::<u8>::new())).iter().all(Vec::is_empty));
        let damaged = sample(mutations(text.clone()));
        assert!(damaged.iter().any(|bytes| bytes.starts_with(b"\xef\xbb\xbf")));
        assert!(damaged.iter().any(|bytes| bytes.windows(2).any(|pair| pair == b"\r\n")));
        assert!(damaged.iter().any(|bytes| bytes.len() < 5));
        assert!(damaged.contains(&text));
    }
}
