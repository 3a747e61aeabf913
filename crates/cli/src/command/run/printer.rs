//! Non-blocking printer: a bounded queue, and a thread that writes each block in one write.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Write},
    os::fd::AsFd,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

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
    shared: Arc<PrinterQueue>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct PrinterQueue {
    state: Mutex<PrinterState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PrinterState {
    waiting: VecDeque<String>,
    bytes: usize,
    /// Blocks dropped since the last one that was queued.
    dropped: u64,
    /// Blocks written; shows whether the reader makes progress.
    written: u64,
    has_ended: bool,
    is_done: bool,
    /// Error of the first failed write.
    failure: Option<io::Error>,
}

impl PrinterQueue {
    fn lock(&self) -> MutexGuard<'_, PrinterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Printer {
    /// Starts the thread; it writes to stderr or stdout, bypassing their buffers.
    pub(crate) fn start(out: &impl AsFd) -> io::Result<Self> {
        let file = File::from(out.as_fd().try_clone_to_owned()?);
        let shared = Arc::new(PrinterQueue::default());
        let work = Arc::clone(&shared);
        let build = std::thread::Builder::new().name("print".to_owned());
        let thread = build.spawn(move || work.print(file))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Queues a block; never blocks.
    pub(crate) fn push(&self, block: String, weight: Weight) {
        let mut state = self.shared.lock();
        if weight == Weight::Activity && state.bytes + block.len() > MAX_QUEUED_BYTES {
            state.dropped += 1;
            return;
        }
        state.push_dropped_warning();
        state.push(block);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until everything is printed, or until nothing was written for `patience`. Returns whether everything was.
    ///
    /// # Errors
    /// The first failed write.
    pub(crate) fn finish(mut self, patience: Duration) -> io::Result<bool> {
        let mut state = self.shared.lock();
        state.push_dropped_warning();
        state.has_ended = true;
        self.shared.changed.notify_all();
        while !state.is_done {
            let written = state.written;
            let waited = self
                .shared
                .changed
                .wait_timeout_while(state, patience, |state| !state.is_done && state.written == written)
                .unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            if waited.1.timed_out() {
                return Ok(false);
            }
        }
        let failure = state.failure.take();
        drop(state);

        let _ = self.thread.take().map(JoinHandle::join);
        failure.map_or(Ok(true), Err)
    }
}

impl PrinterState {
    fn push(&mut self, block: String) {
        self.bytes += block.len();
        self.waiting.push_back(block);
    }

    fn push_dropped_warning(&mut self) {
        let count = std::mem::take(&mut self.dropped);
        if count > 0 {
            self.push(format!("warning: {count} blocks were not shown: the output is too slow\n"));
        }
    }
}

impl PrinterQueue {
    fn print(&self, mut out: File) {
        let mut state = self.lock();
        loop {
            if let Some(block) = state.waiting.pop_front() {
                drop(state);
                let written = out.write_all(block.as_bytes());
                state = self.lock();
                state.bytes -= block.len();
                state.written += 1;
                if let Err(error) = written {
                    state.failure.get_or_insert(error);
                    // The reader is gone: discard the queue.
                    state.waiting.clear();
                    state.bytes = 0;
                }
                self.changed.notify_all();
            } else if state.has_ended {
                state.is_done = true;
                self.changed.notify_all();
                return;
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
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
