//! Work on several threads whose results keep the order of the items.

use std::{io, sync::mpsc::sync_channel, thread};

/// Most threads: the items are read and the results written on one.
const MAX_WORKERS: usize = 8;

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
                // It ends when nobody takes more.
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
