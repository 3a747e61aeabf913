//! Scripts of waits by cause: events before, during and after the wait, and the expected result.

use subscope_model::{LivenessKind, Millis};

use super::{
    Case, Cause, Expected, Sleep, Stall,
    stage::{Call, Player, Stage, Wire},
};
use crate::random::Random;

const SECOND: Millis = 1000;
const MINUTE: Millis = 60 * SECOND;
/// Silence that is a stall: without subagents, with some, and with a tool or a question open (requirement 2.2).
const ALONE: Millis = 180 * SECOND;
const AMONG: Millis = 600 * SECOND;
const OPEN: Millis = 30 * MINUTE;
/// When an open instant tool is taken for a question (design, section 3).
const ASKED_AFTER: Millis = 45 * SECOND;

const SLOW_TOOLS: [&str; 4] = ["Bash", "WebFetch", "mcp__shop__search", "TaskOutput"];
const INSTANT_TOOLS: [&str; 4] = ["Read", "Edit", "Glob", "Write"];

/// Returns `count` waits, as many of each cause as of any other.
pub fn cases(count: usize, seed: u64) -> Vec<Case> {
    (0..count).map(|number| case(number, seed.wrapping_add(number as u64))).collect()
}

fn case(number: usize, seed: u64) -> Case {
    let cause = Cause::ALL[number % Cause::ALL.len()];
    let mut random = Random::new(seed);
    let wire = random.pick(&Wire::ALL);
    let session = format!("wait-{number}");
    let mut scene = Scene::new(&session, wire, random);
    scene.before(cause);
    let told = match cause {
        Cause::SlowModel => scene.slow_model(),
        Cause::Retry => scene.retry(),
        Cause::Permission => scene.permission(),
        Cause::LongTool => scene.long_tool(),
        Cause::Children => scene.children(),
        Cause::Hung => scene.hung(),
        Cause::Asleep => scene.asleep(),
    };
    let ScriptOutcome { probe, expected, stalls, end, sleep } = told;
    let agent = [scene.stage.id(scene.looked_at).to_owned(), scene.call_of(scene.looked_at)];
    let shape = format!("{:?}{}", scene.shape, if scene.notes.is_empty() { "" } else { ", " }) + &scene.notes;
    let lines = scene.stage.lines();
    Case { cause, wire, shape, session, lines, agent, probe, expected, stalls, end, sleep }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// The main thread alone.
    Root,
    /// The main thread after its subagent ended.
    RootAfterChild,
    /// A subagent.
    Child,
    /// A subagent of a subagent.
    Nested,
    /// A subagent with concurrent siblings.
    Sibling,
}

/// Expected result of a script.
struct ScriptOutcome {
    probe: Millis,
    expected: Expected,
    stalls: Vec<Stall>,
    end: Millis,
    sleep: Option<Sleep>,
}

struct Scene {
    stage: Stage,
    wire: Wire,
    random: Random,
    shape: Shape,
    notes: String,
    /// The agent that waits, and those above it from the nearest to the root.
    target: Player,
    above: Vec<Player>,
    siblings: Vec<Player>,
    /// The observed agent.
    looked_at: Player,
    siblings_from: Millis,
    /// When the last agent was started.
    launched_at: Millis,
    /// Whether the target is not waited for.
    is_background: bool,
    /// The time of the target's last line.
    now: Millis,
    calls: Vec<String>,
}

impl Scene {
    fn new(session: &str, wire: Wire, random: Random) -> Self {
        let mut random = random;
        let stage = Stage::new(session, wire, random.next());
        Self {
            stage,
            wire,
            random,
            shape: Shape::Root,
            notes: String::new(),
            target: 0,
            above: Vec::new(),
            siblings: Vec::new(),
            looked_at: 0,
            siblings_from: 0,
            launched_at: 0,
            is_background: false,
            now: 0,
            calls: vec![String::new()],
        }
    }

    fn between(&mut self, low: Millis, high: Millis) -> Millis {
        self.random.between(low.unsigned_abs(), high.unsigned_abs()).cast_signed()
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.random.below(100) < percent
    }

    /// Id of an agent before its own is known.
    fn call_of(&self, player: Player) -> String {
        self.calls.get(player).cloned().unwrap_or_default()
    }

    fn request(&mut self, parent: Player, at: Millis, is_background: bool) -> Player {
        let child = self.stage.request(parent, at, is_background);
        self.calls.push(self.stage.call_id(child));
        child
    }

    /// Some turns with ordinary pauses; returns the time of the last line.
    fn work(&mut self, player: Player, from: Millis, turns: u64) -> Millis {
        let mut at = from;
        for _ in 0..turns {
            at += self.between(3 * SECOND, 40 * SECOND);
            if self.chance(30) {
                self.stage.say(player, at);
                at += self.between(SECOND, 10 * SECOND);
            }
            let name = self.random.pick(&["Bash", "Read", "Grep"]);
            let call = self.stage.call(player, at, name);
            at += self.between(50, 20 * SECOND);
            self.stage.result(player, at, &call);
        }
        at
    }

    /// Everything before the wait: the agents and their actions.
    fn before(&mut self, cause: Cause) {
        let shapes: &[Shape] = match cause {
            Cause::Children => &[Shape::Child, Shape::Nested, Shape::Sibling],
            // Others would work on while the machine sleeps.
            Cause::Asleep => &[Shape::Root, Shape::RootAfterChild, Shape::Child, Shape::Nested],
            Cause::SlowModel | Cause::Retry | Cause::Permission | Cause::LongTool | Cause::Hung => {
                &[Shape::Root, Shape::RootAfterChild, Shape::Child, Shape::Nested, Shape::Sibling]
            }
        };
        self.shape = self.random.pick(shapes);
        // Before 2.1.197 no subagent starts another.
        if self.shape == Shape::Nested && self.wire == Wire::Old {
            self.shape = Shape::Child;
        }
        self.stage.open(0);
        let turns = self.random.below(3);
        self.now = self.work(0, 0, turns);
        match self.shape {
            Shape::Root => {}
            Shape::RootAfterChild => {
                let child = self.spawn(0);
                let at = self.work(child, self.now, 2) + 5 * SECOND;
                self.stage.end(child, at);
                self.now = at + 20;
            }
            Shape::Child => {
                self.is_background = cause == Cause::Children && self.wire != Wire::Old && self.chance(50);
                self.descend(1);
            }
            Shape::Nested => self.descend(2),
            Shape::Sibling => {
                let count = 1 + self.random.below(2);
                let at = self.now + self.between(2 * SECOND, 20 * SECOND);
                let children: Vec<Player> =
                    (0..=count).map(|place| self.request(0, at + place.cast_signed() * 40, false)).collect();
                for (place, child) in children.iter().enumerate() {
                    self.stage.start(*child, at + 200 + 50 * place as Millis);
                }
                self.above.push(0);
                self.target = self.random.pick(&children);
                self.siblings = children.into_iter().filter(|child| *child != self.target).collect();
                self.siblings_from = at + 500;
                self.now = self.siblings_from;
            }
        }
        if self.shape != Shape::Root && self.shape != Shape::RootAfterChild {
            let turns = self.random.below(3);
            self.now = self.work(self.target, self.now, turns);
        }
        self.looked_at = self.target;
    }

    /// Starts an agent at once.
    fn spawn(&mut self, parent: Player) -> Player {
        let at = self.now + self.between(2 * SECOND, 20 * SECOND);
        let child = self.request(parent, at, self.is_background);
        self.now = at + self.between(80, 300);
        self.stage.start(child, self.now);
        self.launched_at = self.now;
        child
    }

    fn descend(&mut self, depth: usize) {
        for _ in 0..depth {
            self.above.insert(0, self.target);
            self.target = self.spawn(self.target);
        }
    }

    fn is_subagent(&self) -> bool {
        self.target != 0
    }

    /// The limit for an agent that waits for the model.
    fn limit(&self) -> Millis {
        if self.is_subagent() { AMONG } else { ALONE }
    }

    /// The siblings' work until then: some end early, some in the middle, some continue.
    fn siblings_until(&mut self, end: Millis) {
        for sibling in self.siblings.clone() {
            let stop = match self.random.below(3) {
                0 => self.now,
                1 => self.now + (end - self.now) / 2,
                _ => end,
            };
            let mut at = self.work(sibling, self.siblings_from, 1);
            while at < stop {
                at = self.work(sibling, at, 1);
            }
            self.stage.end(sibling, at + 2 * SECOND);
        }
    }

    /// The target continues at that time; it and the agents waiting for it end. Only their ends are reported.
    fn go_on(&mut self, at: Millis, probe: Millis, expected: Expected) -> ScriptOutcome {
        self.siblings_until(at);
        // A call first: hooks report no text.
        let call = self.stage.call(self.target, at + 50, "Bash");
        self.stage.result(self.target, at + SECOND, &call);
        let mut at = at + 5 * SECOND;
        self.stage.end(self.target, at);
        if self.siblings.is_empty() {
            for above in self.above.clone() {
                at += 5 * SECOND;
                self.stage.end(above, at);
            }
        }
        ScriptOutcome { probe, expected, stalls: Vec::new(), end: at + SECOND, sleep: None }
    }

    /// The target writes nothing more, and its silence reaches its limit.
    fn stays(
        &mut self,
        stalled_at: Millis,
        waits_for: String,
        probe: Millis,
        expected: Expected,
    ) -> ScriptOutcome {
        let end = stalled_at + 20 * SECOND;
        self.siblings_until(end);
        let stall = Stall { agent: self.stage.id(self.target).to_owned(), waits_for, at: stalled_at };
        ScriptOutcome { probe, expected, stalls: vec![stall], end, sleep: None }
    }

    fn slow_model(&mut self) -> ScriptOutcome {
        let limit = self.limit();
        let wait = self.between(20 * SECOND, limit * 95 / 100);
        let at = self.now + wait;
        self.go_on(at, at - SECOND, Expected::of(LivenessKind::Model))
    }

    fn retry(&mut self) -> ScriptOutcome {
        let attempts = 1 + self.random.below(5) as u32;
        let longest = self.limit() * 8 / 10 / Millis::from(attempts + 1);
        let mut at = self.now;
        let mut is_told = false;
        for attempt in 1..=attempts {
            at += self.between(500, longest);
            is_told = self.stage.retry(self.target, at, attempt);
        }
        let wait = self.between(2 * SECOND, longest.max(3 * SECOND));
        let kind = if is_told { LivenessKind::Retry } else { LivenessKind::Model };
        self.notes = format!("{attempts} attempts");
        self.go_on(at + wait, at + wait / 2, Expected::of(kind))
    }

    /// The target calls a tool.
    fn call(&mut self, tools: &[&'static str]) -> Call {
        self.now += self.between(SECOND, 30 * SECOND);
        let name = self.random.pick(tools);
        self.stage.call(self.target, self.now, name)
    }

    fn permission(&mut self) -> ScriptOutcome {
        let is_instant = self.chance(50);
        let call = self.call(if is_instant { &INSTANT_TOOLS } else { &SLOW_TOOLS });
        self.stage.ask(self.target, self.now + 20, &call);
        let is_for_ever = self.chance(12);
        let wait = if is_for_ever { OPEN } else { self.between(3 * SECOND, 25 * MINUTE) };
        let waited = wait - SECOND;
        let is_inferred = !self.wire.has_hooks() && is_instant && waited >= ASKED_AFTER;
        let kind =
            if self.wire.has_hooks() || is_inferred { LivenessKind::Permission } else { LivenessKind::Tool };
        let expected = Expected { is_inferred, ..Expected::tool(kind, call.name) };
        let at = self.now + wait;
        if is_for_ever {
            "no answer".clone_into(&mut self.notes);
            let word = if kind == LivenessKind::Permission { "permission" } else { "tool" };
            return self.stays(at, format!("{word} {}", call.name), at - SECOND, expected);
        }
        if self.chance(30) {
            "denied".clone_into(&mut self.notes);
            self.stage.deny(self.target, at, &call);
        } else {
            self.stage.result(self.target, at, &call);
        }
        self.go_on(at, at - SECOND, expected)
    }

    fn long_tool(&mut self) -> ScriptOutcome {
        let call = self.call(&SLOW_TOOLS);
        let queued = self.chance(30).then(|| {
            "another is queued".clone_into(&mut self.notes);
            let name = self.random.pick(&INSTANT_TOOLS);
            self.stage.call(self.target, self.now + 5, name)
        });
        let expected = Expected::tool(LivenessKind::Tool, call.name);
        if self.chance(12) {
            "no end".clone_into(&mut self.notes);
            let at = self.now + OPEN;
            return self.stays(at, format!("tool {}", call.name), at - SECOND, expected);
        }
        let at = self.now + self.between(MINUTE, 28 * MINUTE);
        self.stage.result(self.target, at, &call);
        if let Some(queued) = queued {
            self.stage.result(self.target, at + 30, &queued);
        }
        self.go_on(at, at - SECOND, expected)
    }

    /// Observes the target's parent.
    fn children(&mut self) -> ScriptOutcome {
        let parent = self.above.first().copied().unwrap_or_default();
        self.looked_at = parent;
        let lasts = self.between(3 * MINUTE, 40 * MINUTE);
        let end = self.now + lasts;
        let mut at = self.now;
        while at < end {
            at = self.work(self.target, at, 1);
        }
        if !self.is_background {
            let probe = self.now + self.between(SECOND, lasts);
            return self.go_on(at, probe, Expected::of(LivenessKind::Children));
        }
        if self.chance(50) {
            "in the background, its caller is done".clone_into(&mut self.notes);
            let done = self.launched_at + 4 * SECOND;
            self.stage.end(parent, done);
            let probe = done + self.between(2 * SECOND, lasts / 2);
            self.stage.end(self.target, at + SECOND);
            let expected = Expected { waits_for: None, name: None, is_inferred: false, is_stalled: false };
            return ScriptOutcome { probe, expected, stalls: Vec::new(), end: at, sleep: None };
        }
        "in the background, its caller thinks".clone_into(&mut self.notes);
        let wait = self.between(20 * SECOND, lasts.min(AMONG) * 9 / 10);
        let from = self.launched_at;
        self.work(parent, from + wait, 1);
        let expected = Expected::of(LivenessKind::Model);
        ScriptOutcome {
            probe: from + wait - SECOND,
            expected,
            stalls: Vec::new(),
            end: from + wait,
            sleep: None,
        }
    }

    fn hung(&mut self) -> ScriptOutcome {
        let limit = self.limit();
        let tells_calls = self.wire != Wire::Hooks;
        if self.chance(15) && tells_calls && self.siblings.is_empty() && self.wire != Wire::Old {
            "before its start".clone_into(&mut self.notes);
            self.now += self.between(SECOND, 20 * SECOND);
            let child = self.request(self.target, self.now, false);
            self.target = child;
            self.looked_at = child;
            let at = self.now + AMONG;
            let expected = Expected { waits_for: None, name: None, is_inferred: false, is_stalled: true };
            let mut told = self.stays(at, "its start".to_owned(), at + 2 * SECOND, expected);
            told.stalls[0].agent = self.call_of(child);
            return told;
        }
        let at = self.now + limit;
        let expected = Expected { is_stalled: true, ..Expected::of(LivenessKind::Model) };
        self.stays(at, "the model".to_owned(), at + 2 * SECOND, expected)
    }

    fn asleep(&mut self) -> ScriptOutcome {
        let is_nap = self.chance(40);
        let slept = if is_nap {
            self.between(5 * SECOND, 55 * SECOND)
        } else {
            self.between(2 * MINUTE, 540 * MINUTE)
        };
        let limit = self.limit();
        let what = self.random.below(3);
        let call = (what == 1).then(|| self.call(&SLOW_TOOLS));
        let longest = if what == 1 { OPEN } else { limit };
        // Awake before and after: together, or each for itself, less than the limit.
        let before = self.between(5 * SECOND, longest * 6 / 10);
        let rest = longest - if is_nap { before } else { 0 };
        let after = self.between(rest / 2, rest * 9 / 10);
        let from = self.now + before;
        let to = from + slept;
        let kind = if call.is_some() { LivenessKind::Tool } else { LivenessKind::Model };
        let expected = Expected { name: call.as_ref().map(|call| call.name), ..Expected::of(kind) };
        self.notes = format!("{} s of sleep", slept / SECOND);
        let mut told = if what == 2 {
            self.notes += ", hung";
            let at = if is_nap { to + rest } else { to + longest };
            let expected = Expected { is_stalled: true, ..expected };
            self.stays(at, "the model".to_owned(), at + 2 * SECOND, expected)
        } else {
            let at = to + after;
            if let Some(call) = &call {
                self.stage.result(self.target, at, call);
            }
            self.go_on(at, at - SECOND, expected)
        };
        told.sleep = Some(Sleep { from, to });
        told
    }
}
