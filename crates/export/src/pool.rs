//! Work on several threads whose results keep the order of the items.

use std::{io, sync::mpsc::sync_channel, thread};

/// Most threads: the items are given and the results written on one.
const MAX_WORKERS: usize = 8;

/// Bytes that are read for a batch, and its items. One item may need more.
const BATCH_BYTES: usize = 128 << 10;
const BATCH_ITEMS: usize = 128;

/// Returns items in batches, of which each is worth a thread's attention; `bytes` says what is read for an item.
pub(crate) fn batches<T>(
    items: impl IntoIterator<Item = T>,
    bytes: impl Fn(&T) -> usize,
) -> impl Iterator<Item = Vec<T>> {
    let mut items = items.into_iter();
    std::iter::from_fn(move || {
        let (mut batch, mut sum) = (Vec::new(), 0);
        while sum < BATCH_BYTES && batch.len() < BATCH_ITEMS {
            let Some(item) = items.next() else { break };
            sum += bytes(&item);
            batch.push(item);
        }
        (!batch.is_empty()).then_some(batch)
    })
}

/// Applies `work` to items, on a thread for each core, and passes the results to `take` in the order of the items. At most
/// two items for each thread are in memory.
///
/// # Errors
/// Those of `take`.
pub(crate) fn in_order<T: Send, R: Send>(
    items: impl Iterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
    take: &mut dyn FnMut(R) -> io::Result<()>,
) -> io::Result<()> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(MAX_WORKERS);
    let ended = || io::Error::other("a thread of the export has ended");
    let work = &work;
    thread::scope(|scope| {
        let lanes = (0..workers).map(|_| {
            let (item_sender, items) = sync_channel::<T>(1);
            let (result_sender, results) = sync_channel::<R>(1);
            scope.spawn(move || {
                // It ends when the receiver is gone.
                items.into_iter().map(work).try_for_each(|result| result_sender.send(result))
            });
            (item_sender, results)
        });
        let (senders, receivers): (Vec<_>, Vec<_>) = lanes.unzip();
        let mut take_next = |number: usize| take(receivers[number % workers].recv().map_err(|_| ended())?);
        let (mut sent, mut taken) = (0, 0);
        for item in items {
            if sent - taken == 2 * workers {
                take_next(taken)?;
                taken += 1;
            }
            senders[sent % workers].send(item).map_err(|_| ended())?;
            sent += 1;
        }
        drop(senders);
        (taken..sent).try_for_each(&mut take_next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_of_few_bytes_and_few_items_and_have_all() {
        for (bytes, most) in
            [(0, BATCH_ITEMS), (1 << 10, BATCH_ITEMS), (BATCH_BYTES / 2, 2), (BATCH_BYTES * 9, 1)]
        {
            let all: Vec<Vec<usize>> = batches(0..1_000, |_| bytes).collect();
            assert!(all.iter().all(|batch| (1..=most).contains(&batch.len())));
            assert!(all.into_iter().flatten().eq(0..1_000));
        }
        assert!(batches(0..0, |_| 1).next().is_none());
    }

    #[test]
    fn results_come_in_order_and_an_error_ends_it() {
        for count in [0, 1, 7, 1_000] {
            let mut all = Vec::new();
            let mut take = |number| {
                all.push(number);
                Ok(())
            };
            in_order(0..count, |number| number * 2, &mut take).unwrap();
            assert!(all.into_iter().eq((0..count).map(|number| number * 2)));
        }
        let full = in_order(0..1_000, |number| number, &mut |number| match number {
            5 => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        });
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
