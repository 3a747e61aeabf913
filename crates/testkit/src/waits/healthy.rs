//! Agents that work with long but ordinary pauses: none of them is ever stalled.

use subscope_model::Millis;

use super::stage::{Player, Stage, TimedLine, Wire};
use crate::random::Random;

const SECOND: Millis = 1000;
const MINUTE: Millis = 60 * SECOND;

/// A session of agents at work.
#[derive(Debug)]
pub struct Healthy {
    /// Its id.
    pub session: String,
    /// Its sources.
    pub wire: Wire,
    /// Lines of its sources.
    pub lines: Vec<TimedLine>,
    /// The time that its agents were at work, summed over them.
    pub agent_ms: Millis,
    /// When the last of them ended.
    pub end: Millis,
}

struct Workload {
    stage: Stage,
    random: Random,
    agent_ms: Millis,
}

/// Returns sessions whose agents work together at least `hours`, each session about as long as `span` at most.
pub fn healthy(hours: u64, span: Millis, seed: u64) -> Vec<Healthy> {
    let mut all = Vec::new();
    let mut left = Millis::try_from(hours).unwrap_or(Millis::MAX).saturating_mul(60 * MINUTE);
    while left > 0 {
        let one = session(all.len(), span, seed.wrapping_add(all.len() as u64));
        left -= one.agent_ms;
        all.push(one);
    }
    all
}

fn session(number: usize, span: Millis, seed: u64) -> Healthy {
    let mut random = Random::new(seed);
    let wire = random.pick(&Wire::ALL);
    let session = format!("healthy-{number}");
    let stage = Stage::new(&session, wire, random.next());
    let mut work = Workload { stage, random, agent_ms: 0 };
    let begin = work.between(0, span / 20);
    work.stage.open(begin);
    let children = 2 + work.random.below(4);
    let is_background = wire != Wire::Old && work.random.below(4) == 0;
    let mut at = work.turns(0, begin, begin + 5 * MINUTE);
    let asked = at + 30 * SECOND;
    let called: Vec<Player> = (0..children)
        .map(|place| work.stage.request(0, asked + 40 * place.cast_signed(), is_background))
        .collect();
    let mut ends = Vec::new();
    for (place, child) in called.iter().enumerate() {
        let start = asked + 300 + 90 * place as Millis;
        work.stage.start(*child, start);
        let until = asked + work.between(span / 3, span * 8 / 10);
        let depth = if wire == Wire::Old { 0 } else { work.random.below(3) };
        ends.push(work.agent(*child, start, until, depth));
    }
    at = asked + 2 * SECOND;
    let last = ends.iter().copied().max().unwrap_or(at);
    if is_background {
        // The main thread works concurrently with them, ends its turn, and is woken by each report.
        let done = work.turns(0, at, asked + span / 6);
        work.stage.end(0, done);
        for end in &ends {
            let answer = work.between(10 * SECOND, 90 * SECOND);
            work.stage.end(0, end.max(&done) + answer);
        }
        at = last.max(done) + 2 * MINUTE;
    } else {
        at = work.turns(0, last + SECOND, last + 3 * MINUTE) + 10 * SECOND;
        work.stage.end(0, at);
    }
    let agent_ms = work.agent_ms + at - begin;
    Healthy { session, wire, lines: work.stage.lines(), agent_ms, end: at }
}

impl Workload {
    fn between(&mut self, low: Millis, high: Millis) -> Millis {
        self.random.between(low.unsigned_abs(), high.unsigned_abs()).cast_signed()
    }

    /// A subagent's whole life; it may start another in the foreground. Returns when its report has reached its caller.
    fn agent(&mut self, player: Player, from: Millis, until: Millis, depth: u64) -> Millis {
        let mut at = self.turns(player, from, from + (until - from) / 3);
        if depth > 0 {
            at += self.between(5 * SECOND, 170 * SECOND);
            let child = self.stage.request(player, at, false);
            self.stage.start(child, at + 150);
            at = self.agent(child, at + 150, at + (until - from) / 3, depth - 1);
        }
        at = self.turns(player, at, until) + self.between(2 * SECOND, 170 * SECOND);
        self.stage.end(player, at);
        self.agent_ms += at - from;
        at + 20
    }

    /// Turns with ordinary pauses: up to 170 s of thought, up to 25 minutes for a tool or for a person's answer.
    fn turns(&mut self, player: Player, from: Millis, until: Millis) -> Millis {
        let mut at = from;
        while at < until {
            at += self.between(5 * SECOND, 140 * SECOND);
            if self.random.below(12) == 0 {
                for attempt in 1..=1 + self.random.below(3) as u32 {
                    self.stage.retry(player, at, attempt);
                    at += self.between(SECOND, 10 * SECOND);
                }
            }
            let name = self.random.pick(&["Bash", "Read", "Grep", "Edit", "WebFetch", "Bash"]);
            let call = self.stage.call(player, at, name);
            let is_instant = matches!(name, "Read" | "Grep" | "Edit");
            let asks = self.random.below(10) == 0;
            if asks {
                self.stage.ask(player, at + 20, &call);
                at += self.between(2 * SECOND, 25 * MINUTE);
            }
            // On wires without hooks a question looks like a tool that takes long.
            at += match self.random.below(10) {
                _ if is_instant => self.between(20, 3 * SECOND),
                0..6 => self.between(SECOND, 60 * SECOND),
                // No line says when the person answered: question and tool are one silence.
                _ if asks => self.between(SECOND, 4 * MINUTE),
                6..9 => self.between(MINUTE, 8 * MINUTE),
                _ => self.between(8 * MINUTE, 25 * MINUTE),
            };
            if asks && !is_instant && self.random.below(4) == 0 {
                self.stage.deny(player, at, &call);
            } else {
                self.stage.result(player, at, &call);
            }
        }
        at
    }
}
