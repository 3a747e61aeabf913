//! Non-blocking printer: a bounded queue, and a thread that writes each block in one write.

use std::{
    fs::File,
    io::{self, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender},
    },
    thread::JoinHandle,
    time::Duration,
};

use subscope_platform::{AsFile, duplicate};

/// Most bytes of droppable blocks queued for a slow terminal: some thousand blocks, more than anyone scrolls back.
const MAX_QUEUED_BYTES: usize = 8 << 20;

/// Whether a block may be dropped for a slow reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// It may be dropped; dropped blocks are counted.
    Activity,
    /// It reports a change of state and must not be dropped.
    State,
}

/// Prints blocks in order.
#[derive(Debug)]
pub(crate) struct Printer {
    blocks: Sender<String>,
    queued_bytes: Arc<AtomicUsize>,
    /// Blocks dropped since the last one that was queued.
    dropped: AtomicU64,
    /// Receives a message after each write: whether the reader makes progress.
    written: Mutex<Receiver<()>>,
    /// Returns the error of the first failed write.
    thread: JoinHandle<io::Result<()>>,
}

impl Printer {
    /// Starts the thread; it writes to stderr or stdout, bypassing their buffers.
    pub(crate) fn start(out: &impl AsFile) -> io::Result<Self> {
        let file = duplicate(out)?;
        #[expect(clippy::disallowed_methods, reason = "`push` bounds it by MAX_QUEUED_BYTES")]
        let (blocks, queue) = mpsc::channel();
        let (progress, written) = mpsc::sync_channel(1);
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let bytes = Arc::clone(&queued_bytes);
        let build = std::thread::Builder::new().name("print".to_owned());
        let thread = build.spawn(move || write_blocks(file, &queue, &bytes, &progress))?;
        Ok(Self { blocks, queued_bytes, dropped: AtomicU64::new(0), written: Mutex::new(written), thread })
    }

    /// Queues a block; never blocks.
    pub(crate) fn push(&self, block: String, weight: Weight) {
        let bytes = self.queued_bytes.load(Ordering::Relaxed) + block.len();
        if weight == Weight::Activity && bytes > MAX_QUEUED_BYTES {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.send_dropped_warning();
        self.send(block);
    }

    fn send(&self, block: String) {
        self.queued_bytes.fetch_add(block.len(), Ordering::Relaxed);
        // The thread receives until the sender is dropped.
        let _ = self.blocks.send(block);
    }

    fn send_dropped_warning(&self) {
        let count = self.dropped.swap(0, Ordering::Relaxed);
        if count > 0 {
            self.send(format!("warning: {count} blocks were not shown: the output is too slow\n"));
        }
    }

    /// Waits until everything is printed, or until nothing was written for `patience`. Returns whether everything was.
    ///
    /// # Errors
    /// The first failed write.
    pub(crate) fn finish(self, patience: Duration) -> io::Result<bool> {
        self.send_dropped_warning();
        let Self { blocks, written, thread, .. } = self;
        drop(blocks);
        let written = written.into_inner().unwrap_or_else(PoisonError::into_inner);
        loop {
            match written.recv_timeout(patience) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        thread.join().unwrap_or(Ok(())).map(|()| true)
    }
}

/// Writes blocks until all senders are dropped.
fn write_blocks(
    mut out: File,
    queue: &Receiver<String>,
    queued_bytes: &AtomicUsize,
    progress: &SyncSender<()>,
) -> io::Result<()> {
    let mut outcome = Ok(());
    for block in queue {
        let written = out.write_all(block.as_bytes());
        queued_bytes.fetch_sub(block.len(), Ordering::Relaxed);
        if written.is_err() {
            outcome = outcome.and(written);
            // The reader is gone: discard the queue.
            for block in queue.try_iter() {
                queued_bytes.fetch_sub(block.len(), Ordering::Relaxed);
            }
        }
        // A queued message has the same meaning.
        let _ = progress.try_send(());
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, pipe},
        thread,
    };

    use super::*;

    #[test]
    fn blocks_of_many_writers_never_interleave_through_a_slow_pipe() {
        let (mut reader, writer) = pipe().unwrap();
        let printer = Printer::start(&writer).unwrap();
        drop(writer);
        let block = |writer: usize, number: usize| {
            let lines = (0..20).map(|line| format!("{writer} {number} {line} {}\n", "x".repeat(30)));
            lines.collect::<String>()
        };
        let slow = thread::spawn(move || {
            let (mut text, mut piece) = (Vec::new(), [0; 3_001]);
            loop {
                match reader.read(&mut piece).unwrap() {
                    0 => return String::from_utf8(text).unwrap(),
                    count => text.extend_from_slice(&piece[..count]),
                }
                thread::yield_now();
            }
        });
        thread::scope(|scope| {
            for writer in 0..50 {
                let printer = &printer;
                scope.spawn(move || {
                    (0..100).for_each(|number| printer.push(block(writer, number), Weight::State));
                });
            }
        });
        assert!(printer.finish(Duration::from_secs(30)).unwrap());
        let text = slow.join().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 50 * 100 * 20);
        let mut next = [0; 50];
        for whole in lines.chunks(20) {
            let numbers: Vec<usize> = whole[0].split(' ').take(2).map(|word| word.parse().unwrap()).collect();
            assert_eq!(whole.join("\n") + "\n", block(numbers[0], numbers[1]));
            assert_eq!(std::mem::replace(&mut next[numbers[0]], numbers[1] + 1), numbers[1]);
        }
    }

    #[test]
    fn who_does_not_read_keeps_nobody_waiting_and_loses_activity_only() {
        let (mut reader, writer) = pipe().unwrap();
        let printer = Printer::start(&writer).unwrap();
        drop(writer);
        let block = "x".repeat(1 << 20) + "\n";
        for _ in 0..20 {
            printer.push(block.clone(), Weight::Activity);
        }
        printer.push("started\n".to_owned(), Weight::State);
        let reading = thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        });
        assert!(printer.finish(Duration::from_secs(30)).unwrap());
        let text = reading.join().unwrap();
        let shown = text.lines().filter(|line| line.starts_with('x')).count();
        assert!((7..20).contains(&shown), "{shown}");
        let dropped = 20 - shown;
        let told = format!("warning: {dropped} blocks were not shown: the output is too slow\nstarted\n");
        assert!(text.ends_with(&told), "{}", text.trim_matches('x'));
    }
}
