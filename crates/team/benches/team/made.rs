//! Made-up sessions of developers, from recorded ones with other ids and times.

use subscope_export::{SnapshotHead, snapshot, snapshot_line};
use subscope_model::{ContentLevel, Millis, SessionId, SessionRow, Tree, iso8601};
use subscope_testkit::{
    fixtures::recording,
    sessions::{Telling, parts_of, tree},
};

const DAY_MS: Millis = 86_400_000;
/// First day of the sessions: 2026-10-24.
const FIRST_DAY: i64 = 20_750;
const PROJECTS: usize = 60;

/// A developer.
pub(crate) struct Developer {
    pub(crate) number: usize,
    pub(crate) token: String,
    pub(crate) team: String,
}

/// Recorded sessions as patterns.
pub(crate) struct Made {
    patterns: Vec<Tree>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) sessions: u64,
    pub(crate) tool_calls: u64,
    pub(crate) tokens: u64,
    pub(crate) cost_micro_usd: i64,
}

impl Sums {
    pub(crate) fn add(&mut self, other: &Self) {
        self.sessions += other.sessions;
        self.tool_calls += other.tool_calls;
        self.tokens += other.tokens;
        self.cost_micro_usd += other.cost_micro_usd;
    }
}

impl Made {
    pub(crate) fn new() -> Self {
        let scenarios = ["a-single", "b-parallel", "c-nested", "k-big", "e-sigint"];
        let pattern =
            |scenario: &str| tree(&parts_of(&recording("2.1.330", scenario), &[Telling::Transcript]));
        Self { patterns: scenarios.map(pattern).into() }
    }

    fn pattern(&self, developer: &Developer, day: usize) -> &Tree {
        &self.patterns[(developer.number * 7 + day) % self.patterns.len()]
    }

    pub(crate) fn project(&self, developer: &Developer, day: usize) -> String {
        format!("project-{:02}", (developer.number * 3 + day / 5) % PROJECTS)
    }

    pub(crate) fn sums(&self, developer: &Developer, day: usize) -> Sums {
        let summary = &self.pattern(developer, day).summary;
        Sums {
            sessions: 1,
            tool_calls: summary.tool_calls.into(),
            tokens: summary.usage.unwrap_or_default().total_tokens,
            cost_micro_usd: summary.cost_micro_usd.unwrap_or(0),
        }
    }

    /// Returns the snapshots of a developer's sessions of some days.
    pub(crate) fn lines(&self, developer: &Developer, days: &[usize]) -> Vec<u8> {
        let mut lines = Vec::new();
        for day in days {
            let mut made = self.pattern(developer, *day).clone();
            let began = made.session.started_at_ms.unwrap();
            let at = (FIRST_DAY + *day as i64) * DAY_MS + 9 * 3_600_000 + developer.number as i64 * 1000;
            shift(&mut made, at - began);
            made.session.id = SessionId(format!("{:04x}{day:04x}-session", developer.number).into());
            let head = SnapshotHead {
                machine: format!("laptop-{:04}", developer.number).into(),
                rev: 1_795_000_000_000_000 + *day as u64,
                day: iso8601(at).chars().take(10).collect::<String>().into(),
                time_zone: None,
                project: Some(self.project(developer, *day).into()),
                level: ContentLevel::Titles,
            };
            let row = SessionRow::of(&made);
            snapshot_line(&snapshot(head, &row, &made, Vec::new()), &mut lines).unwrap();
        }
        lines
    }
}

/// Moves all times of a tree.
fn shift(tree: &mut Tree, by: Millis) {
    let add = |at: &mut Option<Millis>| {
        if let Some(at) = at {
            *at += by;
        }
    };
    for at in
        [&mut tree.session.started_at_ms, &mut tree.session.ended_at_ms, &mut tree.session.run_started_at_ms]
    {
        add(at);
    }
    for agent in &mut tree.agents {
        for at in [&mut agent.started_at_ms, &mut agent.ended_at_ms, &mut agent.last_event_at_ms] {
            add(at);
        }
        agent.intervals.iter_mut().flatten().for_each(|at| *at += by);
        for call in &mut agent.tools {
            add(&mut call.started_at_ms);
            add(&mut call.ended_at_ms);
        }
    }
}
