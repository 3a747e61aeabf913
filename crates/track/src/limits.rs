//! Limits of silence, whom they hold for, and which time counts as silence.

use std::sync::Arc;

use subscope_model::{Millis, Text};

/// Silence after which an agent without an ending is lost.
const LOST_AFTER_MS: i64 = 15 * 60 * 1000;
/// The same while a call or a permission question is open.
const LOST_AFTER_OPEN_MS: i64 = 30 * 60 * 1000;

/// Limits of silence in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Silence of a session without active subagents that is a stall.
    pub stall_ms: i64,
    /// The same while any subagent is active.
    pub stall_subagents_ms: i64,
    /// The same while a call or a permission question is open.
    pub stall_open_ms: i64,
    /// How long an instant tool may be open before a permission question is inferred.
    pub permission_after_ms: i64,
    /// Other limits for some harnesses and models.
    pub rules: Arc<[LimitRule]>,
    /// Which time counts.
    pub awake: Awake,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stall_ms: 180_000,
            stall_subagents_ms: 600_000,
            stall_open_ms: 30 * 60_000,
            permission_after_ms: 45_000,
            rules: Arc::default(),
            awake: Awake::default(),
        }
    }
}

/// Whom a [`LimitRule`] holds for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitScope {
    /// The agents of a harness.
    Harness(Text),
    /// The agents on a model, named whole or by its first words: `vendor-small` is also `vendor-small-4-5-20251001`.
    Model(Text),
}

/// Limits for a harness or a model. What it leaves open is as it is without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRule {
    /// Whom it holds for.
    pub scope: LimitScope,
    /// [`Limits::stall_ms`].
    pub stall_ms: Option<i64>,
    /// [`Limits::stall_subagents_ms`].
    pub stall_subagents_ms: Option<i64>,
    /// [`Limits::stall_open_ms`].
    pub stall_open_ms: Option<i64>,
}

/// The limits that hold for one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spans {
    pub(crate) stall_ms: i64,
    pub(crate) stall_subagents_ms: i64,
    pub(crate) stall_open_ms: i64,
}

impl Spans {
    /// Silence after which the agent is lost: never before it is stalled.
    pub(crate) fn lost_after_ms(&self, has_open: bool) -> i64 {
        if has_open {
            LOST_AFTER_OPEN_MS.max(self.stall_open_ms)
        } else {
            LOST_AFTER_MS.max(self.stall_ms).max(self.stall_subagents_ms)
        }
    }

    /// All limits at which silence may change something.
    pub(crate) fn all(&self) -> [i64; 5] {
        let Self { stall_ms, stall_subagents_ms, stall_open_ms } = *self;
        let lost = [self.lost_after_ms(false), self.lost_after_ms(true)];
        [stall_ms, stall_subagents_ms, stall_open_ms, lost[0], lost[1]]
    }
}

impl Limits {
    /// Limits that no silence reaches: for while it is not known how silent anybody is.
    pub fn endless() -> Self {
        let never = i64::MAX;
        Self {
            stall_ms: never,
            stall_subagents_ms: never,
            stall_open_ms: never,
            permission_after_ms: never,
            ..Self::default()
        }
    }

    /// Silence after which no agent is at work any more, whoever it is.
    pub fn longest_ms(&self) -> i64 {
        let of_rules = self.rules.iter().flat_map(|rule| {
            [rule.stall_ms, rule.stall_subagents_ms, rule.stall_open_ms].into_iter().flatten()
        });
        let own = self.of(None, None).all();
        of_rules.chain(own).max().unwrap_or(LOST_AFTER_OPEN_MS)
    }

    /// The limits for an agent: a rule for its model counts before one for its harness, and of two rules for a model the
    /// one that names more of it.
    pub(crate) fn of(&self, harness: Option<&str>, model: Option<&str>) -> Spans {
        let mut spans = Spans {
            stall_ms: self.stall_ms,
            stall_subagents_ms: self.stall_subagents_ms,
            stall_open_ms: self.stall_open_ms,
        };
        let mut rules: Vec<(usize, &LimitRule)> = self
            .rules
            .iter()
            .filter_map(|rule| Some((rule.scope.closeness(harness, model)?, rule)))
            .collect();
        rules.sort_by_key(|(closeness, _)| *closeness);
        for (_, rule) in rules {
            spans.stall_ms = rule.stall_ms.unwrap_or(spans.stall_ms);
            spans.stall_subagents_ms = rule.stall_subagents_ms.unwrap_or(spans.stall_subagents_ms);
            spans.stall_open_ms = rule.stall_open_ms.unwrap_or(spans.stall_open_ms);
        }
        spans
    }
}

impl LimitScope {
    /// How closely this describes an agent; `None` where it does not.
    fn closeness(&self, harness: Option<&str>, model: Option<&str>) -> Option<usize> {
        match self {
            Self::Harness(name) => (harness == Some(name)).then_some(0),
            Self::Model(name) => {
                let rest = model?.strip_prefix(&**name)?;
                (rest.is_empty() || rest.starts_with(['-', '@', '['])).then_some(name.len())
            }
        }
    }
}

/// Which time counts as silence: only such in which the machine was awake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Awake {
    /// Nothing before this counts: the machine woke from a longer sleep, or its clock was set.
    pub since: Option<Millis>,
    /// Short sleeps after that, which are taken off: when each ended, and how long it was.
    pub sleeps: Arc<[(Millis, i64)]>,
}

impl Awake {
    /// From when silence counts that began at `since`.
    fn from(&self, since: Millis, now: Millis) -> Millis {
        match self.since {
            // The clock was set back: by the time it was before, nothing would be late for long.
            Some(woke) if since > now => woke,
            Some(woke) => since.max(woke),
            None => since,
        }
    }

    fn asleep_after(&self, from: Millis) -> i64 {
        self.sleeps.iter().filter(|(end, _)| *end > from).map(|(_, lasted)| *lasted).sum()
    }

    /// How long it has been silent since then.
    pub(crate) fn silence(&self, since: Millis, now: Millis) -> i64 {
        let from = self.from(since, now);
        now.saturating_sub(from).saturating_sub(self.asleep_after(from))
    }

    /// When it will have been silent for so long.
    pub(crate) fn reaches(&self, since: Millis, limit_ms: i64, now: Millis) -> Millis {
        let from = self.from(since, now);
        from.saturating_add(limit_ms).saturating_add(self.asleep_after(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(scope: LimitScope, stall: Option<i64>, open: Option<i64>) -> LimitRule {
        LimitRule { scope, stall_ms: stall, stall_subagents_ms: None, stall_open_ms: open }
    }

    #[test]
    fn closest_rule_counts_and_leaves_open_what_it_does_not_name() {
        let rules = [
            rule(LimitScope::Model("claude-opus-5".into()), Some(3), None),
            rule(LimitScope::Model("claude-opus".into()), Some(2), Some(20)),
            rule(LimitScope::Harness("claude-code".into()), Some(1), Some(10)),
        ];
        let limits = Limits { rules: rules.into(), ..Limits::default() };
        let of = |harness, model| {
            let spans = limits.of(harness, model);
            (spans.stall_ms, spans.stall_open_ms, spans.stall_subagents_ms)
        };
        assert_eq!(of(None, None), (180_000, 1_800_000, 600_000));
        assert_eq!(limits.longest_ms(), 1_800_000);
        assert_eq!(of(Some("claude-code"), Some("claude-haiku-4-5")), (1, 10, 600_000));
        assert_eq!(of(Some("claude-code"), Some("claude-opus-4-1")), (2, 20, 600_000));
        assert_eq!(of(None, Some("claude-opus-5-5")), (3, 20, 600_000));
        assert_eq!(of(None, Some("claude-opus-55")), (2, 20, 600_000), "a name ends where a word ends");
    }

    #[test]
    fn silence_leaves_out_sleep_and_starts_anew_after_a_jump() {
        let none = Awake::default();
        assert_eq!((none.silence(100, 900), none.reaches(100, 500, 900)), (800, 600));
        let sleeps = Awake { since: None, sleeps: [(300, 50), (700, 20)].into() };
        assert_eq!(sleeps.silence(100, 900), 730);
        assert_eq!(sleeps.silence(400, 900), 480);
        assert_eq!(sleeps.reaches(100, 500, 900), 670);
        let woke = Awake { since: Some(600), sleeps: [(700, 20)].into() };
        assert_eq!((woke.silence(100, 900), woke.silence(800, 900)), (280, 100));
        assert_eq!(woke.silence(5_000, 900), 280, "the clock was set back");
        assert_eq!(woke.reaches(5_000, 500, 900), 1_120);
    }
}
