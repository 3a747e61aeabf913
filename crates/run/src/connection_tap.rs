//! Observer of a connection over the Agent Client Protocol: what each side writes becomes lines of a record, in one order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use subscope_harness::acp::{AcpRecorder, MESSAGES, Peer, StoppableChild};
use subscope_hub::clock;

use crate::{line_cutter::LineCutter, line_tap::LineTap, record::PostLog};

/// Observer of both directions of a connection. Each side's bytes are pushed before the other side gets them, so that no
/// answer is recorded before its request.
#[derive(Clone, Debug)]
pub struct ConnectionTap(Arc<Mutex<ConnectionState>>);

#[derive(Debug)]
struct ConnectionState {
    recorder: AcpRecorder,
    from_client: LineCutter,
    from_agent: LineCutter,
    tap: LineTap,
    log: Option<PostLog>,
}

impl ConnectionTap {
    /// Creates an observer whose lines go to a tap, and to the file of a record.
    pub fn new(tap: LineTap, log: Option<PostLog>) -> Self {
        let (from_client, from_agent) = (LineCutter::default(), LineCutter::default());
        let tap = tap.of_dialect(MESSAGES);
        let recorder = AcpRecorder::default();
        Self(Arc::new(Mutex::new(ConnectionState { recorder, from_client, from_agent, tap, log })))
    }

    /// Takes the next bytes of a side, cut anywhere.
    pub fn push(&self, side: Peer, bytes: &[u8]) {
        self.lock().cut(side, |cutter, take| cutter.push(bytes, take));
    }

    /// Ends what a side writes.
    pub fn finish(&self, side: Peer) {
        self.lock().cut(side, |cutter, take| cutter.finish(take));
    }

    /// Takes the line by which an agent is asked to stop, of which the client knows nothing.
    pub(crate) fn push_cancel(&self, child: &StoppableChild, line: &[u8]) {
        let mut state = self.lock();
        state.recorder.note_cancelled(child);
        let mut lines = Vec::new();
        state.recorder.record(Peer::Client, clock::now_ns(), line, &mut lines);
        state.pass_on(&lines);
    }

    /// Returns the agents at work that can be stopped alone and were not asked to.
    pub(crate) fn stoppable(&self) -> Vec<StoppableChild> {
        self.lock().recorder.stoppable()
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionState {
    fn cut(&mut self, side: Peer, cut: impl FnOnce(&mut LineCutter, &mut dyn FnMut(&[u8]))) {
        let Self { recorder, from_client, from_agent, .. } = self;
        let cutter = match side {
            Peer::Client => from_client,
            Peer::Agent => from_agent,
        };
        let (mut lines, now) = (Vec::new(), clock::now_ns());
        cut(cutter, &mut |whole| {
            whole
                .split_inclusive(|byte| *byte == b'\n')
                .for_each(|line| recorder.record(side, now, line, &mut lines));
        });
        self.pass_on(&lines);
    }

    fn pass_on(&mut self, lines: &[u8]) {
        if lines.is_empty() {
            return;
        }
        if let Some(log) = &mut self.log {
            log.write(lines);
        }
        self.tap.push(lines);
    }
}
