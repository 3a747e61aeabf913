//! Replays a recording as if it happened now: its lines at their original pace, through the same router.

use std::time::{Duration, Instant};

use memchr::memmem;
use subscope_model::{Millis, SourceId, parse_rfc3339};
use subscope_session::{SessionRouter, SourceSpec};

use crate::{
    clock,
    driver::{Driver, PollResult},
};

/// A recorded source.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Description of the source.
    pub spec: SourceSpec,
    /// Complete content.
    pub bytes: Vec<u8>,
    /// For a recording without timestamps: index of the recording whose first line it appears with.
    pub appears_with: Option<usize>,
}

/// A line of a recording, with its time and byte range.
struct RecordedLine {
    at: Millis,
    source: usize,
    from: usize,
    to: usize,
}

/// Driver that replays recordings.
pub struct Replay {
    recordings: Vec<Recording>,
    sources: Vec<Option<SourceId>>,
    lines: Vec<RecordedLine>,
    next: usize,
    speed: f64,
    began: Option<Instant>,
}

impl Replay {
    /// Replays recordings `speed` times as fast as they happened; `f64::INFINITY` is at once.
    pub fn new(recordings: Vec<Recording>, speed: f64) -> Self {
        let mut lines: Vec<RecordedLine> =
            recordings.iter().enumerate().flat_map(|(at, it)| schedule(at, &it.bytes)).collect();
        let first_of = |source: usize| {
            let own = lines.iter().filter(|line| line.source == source).map(|line| line.at);
            own.filter(|at| *at > Millis::MIN).min()
        };
        let appear: Vec<Option<Millis>> =
            recordings.iter().map(|recording| recording.appears_with.and_then(first_of)).collect();
        for line in &mut lines {
            if let (Millis::MIN, Some(Some(at))) = (line.at, appear.get(line.source)) {
                line.at = *at;
            }
        }
        lines.sort_by_key(|line| line.at);
        let first = lines.iter().map(|line| line.at).find(|at| *at > Millis::MIN).unwrap_or(0);
        for line in &mut lines {
            line.at = line.at.max(first);
        }
        let sources = vec![None; recordings.len()];
        Self { recordings, sources, lines, next: 0, speed, began: None }
    }

    /// Current time of the replay.
    fn replay_time(&self) -> Millis {
        let first = self.lines.first().map_or(0, |line| line.at);
        let last = self.lines.last().map_or(0, |line| line.at);
        match self.began {
            Some(_) if self.speed.is_infinite() => last,
            Some(tick) => {
                // `as` saturates: a replay of some hours is far below the range.
                let elapsed_ms =
                    (clock::tick().duration_since(tick).as_secs_f64() * self.speed * 1000.0) as i64;
                (first + elapsed_ms).min(last)
            }
            None => first,
        }
    }
}

/// Returns the lines of a recording, each with its own time or that of the line before it.
fn schedule(source: usize, bytes: &[u8]) -> Vec<RecordedLine> {
    let mut lines = Vec::new();
    let mut at = Millis::MIN;
    let mut from = 0;
    while from < bytes.len() {
        let to = memchr::memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |end| from + end + 1);
        at = line_time(&bytes[from..to]).unwrap_or(at);
        lines.push(RecordedLine { at, source, from, to });
        from = to;
    }
    lines
}

/// Returns the line's own `timestamp`: the last one in it, since quoted lines come before it.
fn line_time(line: &[u8]) -> Option<Millis> {
    const KEY: &[u8] = b"\"timestamp\":\"";
    let start = memmem::rfind(line, KEY)? + KEY.len();
    let end = start + memchr::memchr(b'"', line.get(start..)?)?;
    std::str::from_utf8(line.get(start..end)?).ok().and_then(parse_rfc3339)
}

/// Longest sleep of a poll, so that the hub can handle commands.
const MAX_SLEEP: Duration = Duration::from_millis(50);

impl Driver for Replay {
    fn poll(&mut self, wait: Duration, router: &mut SessionRouter) -> PollResult {
        if self.began.is_none() {
            self.began = Some(clock::tick());
            for (slot, recording) in self.sources.iter_mut().zip(&self.recordings) {
                *slot = Some(router.open(recording.spec.clone()));
            }
        }
        let mut polled = PollResult::default();
        let position = self.replay_time();
        while let Some(line) = self.lines.get(self.next).filter(|line| line.at <= position) {
            let recording = self.recordings.get(line.source);
            let bytes =
                recording.and_then(|recording| recording.bytes.get(line.from..line.to)).unwrap_or_default();
            if let Some(Some(source)) = self.sources.get(line.source) {
                router.push(*source, bytes);
                if recording.is_some_and(|recording| line.to == recording.bytes.len()) {
                    router.flush(*source);
                }
            }
            self.next += 1;
            polled.has_pushed = true;
        }
        match self.lines.get(self.next) {
            None => {
                polled.is_caught_up = true;
                polled.has_ended = true;
            }
            Some(line) if !polled.has_pushed => {
                let millis = (line.at - position) as f64 / self.speed;
                std::thread::sleep(
                    wait.min(MAX_SLEEP).min(Duration::from_secs_f64((millis / 1000.0).max(0.001))),
                );
            }
            Some(_) => {}
        }
        polled
    }

    fn now(&self) -> Millis {
        self.replay_time()
    }

    fn awake_ms(&self) -> Millis {
        self.replay_time()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedule_gives_lines_their_own_time_or_the_one_before() {
        let bytes = b"{\"a\":1}\n{\"timestamp\":\"1970-01-01T00:00:01Z\"}\n{\"b\":2}\n{\"timestamp\":\"1970-01-01T00:00:02Z\"}";
        let times: Vec<Millis> = schedule(0, bytes).iter().map(|line| line.at).collect();
        assert_eq!(times, [Millis::MIN, 1000, 1000, 2000]);
    }
}
