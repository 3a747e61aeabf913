//! Silence limits, the agents they apply to, and which time counts as silence.

use std::sync::Arc;

use subscope_model::{Millis, Text};

/// Silence after which an agent without an end counts as lost.
const LOST_AFTER_MS: i64 = 15 * 60 * 1000;
/// The same while a call or a permission question is open.
const LOST_AFTER_OPEN_MS: i64 = 30 * 60 * 1000;

/// Silences after which a last text may end a turn, for harnesses that do not report ends of turns: they write a call
/// when it has ended, into the message of the text before it.
pub(crate) const TEXT_ENDS_AFTER_MS: [i64; 4] = [2_000, 8_000, 32_000, 128_000];

/// Returns the least of these silences that is longer than each call after a text took so far.
pub(crate) fn text_ends_after(longest_call_ms: i64) -> Option<i64> {
    TEXT_ENDS_AFTER_MS.into_iter().find(|silence| *silence > longest_call_ms)
}

/// Silence limits in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Silence after which an agent counts as stalled.
    pub stall_ms: i64,
    /// The same while any subagent is active.
    pub stall_subagents_ms: i64,
    /// The same while a call or a permission question is open.
    pub stall_open_ms: i64,
    /// Duration after which an open call of an instant tool implies a permission question.
    pub permission_after_ms: i64,
    /// Overrides for harnesses and models.
    pub rules: Arc<[LimitRule]>,
    /// Which time counts as silence.
    pub awake: AwakeTime,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            stall_ms: 180_000,
            stall_subagents_ms: 600_000,
            stall_open_ms: 30 * 60_000,
            permission_after_ms: 45_000,
            rules: Arc::default(),
            awake: AwakeTime::default(),
        }
    }
}

/// Agents that a [`LimitRule`] applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitScope {
    /// The agents of a harness.
    Harness(Text),
    /// The agents on a model, given by its name or leading words: `vendor-small` matches `vendor-small-4-5-20251001`.
    Model(Text),
}

/// Override of limits for a harness or a model; `None` leaves a limit unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRule {
    /// Agents that it applies to.
    pub scope: LimitScope,
    /// [`Limits::stall_ms`].
    pub stall_ms: Option<i64>,
    /// [`Limits::stall_subagents_ms`].
    pub stall_subagents_ms: Option<i64>,
    /// [`Limits::stall_open_ms`].
    pub stall_open_ms: Option<i64>,
}

/// The limits of one agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AgentLimits {
    pub(crate) stall_ms: i64,
    pub(crate) stall_subagents_ms: i64,
    pub(crate) stall_open_ms: i64,
}

impl AgentLimits {
    /// Returns the silence after which the agent is lost; never less than that after which it is stalled.
    pub(crate) fn lost_after_ms(&self, has_open: bool) -> i64 {
        if has_open {
            LOST_AFTER_OPEN_MS.max(self.stall_open_ms)
        } else {
            LOST_AFTER_MS.max(self.stall_ms).max(self.stall_subagents_ms)
        }
    }

    /// Returns all limits at which silence may change a row.
    pub(crate) fn all(&self) -> [i64; 5] {
        let Self { stall_ms, stall_subagents_ms, stall_open_ms } = *self;
        let lost = [self.lost_after_ms(false), self.lost_after_ms(true)];
        [stall_ms, stall_subagents_ms, stall_open_ms, lost[0], lost[1]]
    }
}

impl Limits {
    /// Returns limits that no silence reaches, for use while the silence of agents is unknown.
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

    /// Returns the silence after which no agent can be running.
    pub fn longest_ms(&self) -> i64 {
        let of_rules = self.rules.iter().flat_map(|rule| {
            [rule.stall_ms, rule.stall_subagents_ms, rule.stall_open_ms].into_iter().flatten()
        });
        let own = self.of(None, None).all();
        of_rules.chain(own).max().unwrap_or(LOST_AFTER_OPEN_MS)
    }

    /// Returns the limits of an agent. A rule for its model wins over one for its harness, a longer model name over a
    /// shorter one.
    pub(crate) fn of(&self, harness: Option<&str>, model: Option<&str>) -> AgentLimits {
        let mut own = AgentLimits {
            stall_ms: self.stall_ms,
            stall_subagents_ms: self.stall_subagents_ms,
            stall_open_ms: self.stall_open_ms,
        };
        let mut rules: Vec<(usize, &LimitRule)> = self
            .rules
            .iter()
            .filter_map(|rule| Some((rule.scope.specificity(harness, model)?, rule)))
            .collect();
        rules.sort_by_key(|(specificity, _)| *specificity);
        for (_, rule) in rules {
            own.stall_ms = rule.stall_ms.unwrap_or(own.stall_ms);
            own.stall_subagents_ms = rule.stall_subagents_ms.unwrap_or(own.stall_subagents_ms);
            own.stall_open_ms = rule.stall_open_ms.unwrap_or(own.stall_open_ms);
        }
        own
    }
}

impl LimitScope {
    /// Returns how specific the scope is; `None` if it does not match the agent.
    fn specificity(&self, harness: Option<&str>, model: Option<&str>) -> Option<usize> {
        match self {
            Self::Harness(name) => (harness == Some(name)).then_some(0),
            Self::Model(name) => {
                let rest = model?.strip_prefix(&**name)?;
                (rest.is_empty() || rest.starts_with(['-', '@', '['])).then_some(name.len())
            }
        }
    }
}

/// Time in which the machine was awake: only that counts as silence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AwakeTime {
    /// Time before this does not count: the machine woke from a long sleep, or its clock was set.
    pub since: Option<Millis>,
    /// Short sleeps after that, which are subtracted: end and duration of each, in milliseconds.
    pub sleeps: Arc<[(Millis, i64)]>,
}

impl AwakeTime {
    /// Returns the time from which silence that began at `since` counts.
    fn from(&self, since: Millis, now: Millis) -> Millis {
        match self.since {
            // The clock was set back: measured from `since`, no limit would be reached for a long time.
            Some(woke) if since > now => woke,
            Some(woke) => since.max(woke),
            None => since,
        }
    }

    fn asleep_after(&self, from: Millis) -> i64 {
        self.sleeps.iter().filter(|(end, _)| *end > from).map(|(_, lasted)| *lasted).sum()
    }

    /// Returns the awake time between `since` and `now`.
    pub(crate) fn silence(&self, since: Millis, now: Millis) -> i64 {
        let from = self.from(since, now);
        now.saturating_sub(from).saturating_sub(self.asleep_after(from))
    }

    /// Returns the time at which the silence since `since` reaches a limit.
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
    fn most_specific_rule_wins_and_keeps_limits_that_it_does_not_set() {
        let rules = [
            rule(LimitScope::Model("claude-opus-5".into()), Some(3), None),
            rule(LimitScope::Model("claude-opus".into()), Some(2), Some(20)),
            rule(LimitScope::Harness("claude-code".into()), Some(1), Some(10)),
        ];
        let limits = Limits { rules: rules.into(), ..Limits::default() };
        let of = |harness, model| {
            let own = limits.of(harness, model);
            (own.stall_ms, own.stall_open_ms, own.stall_subagents_ms)
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
        let none = AwakeTime::default();
        assert_eq!((none.silence(100, 900), none.reaches(100, 500, 900)), (800, 600));
        let sleeps = AwakeTime { since: None, sleeps: [(300, 50), (700, 20)].into() };
        assert_eq!(sleeps.silence(100, 900), 730);
        assert_eq!(sleeps.silence(400, 900), 480);
        assert_eq!(sleeps.reaches(100, 500, 900), 670);
        let woke = AwakeTime { since: Some(600), sleeps: [(700, 20)].into() };
        assert_eq!((woke.silence(100, 900), woke.silence(800, 900)), (280, 100));
        assert_eq!(woke.silence(5_000, 900), 280, "the clock was set back");
        assert_eq!(woke.reaches(5_000, 500, 900), 1_120);
    }

    #[test]
    fn agent_is_never_lost_before_it_is_stalled() {
        let minute = 60_000;
        let short = Limits { stall_ms: 1, stall_subagents_ms: 2, stall_open_ms: 3, ..Limits::default() };
        let own = short.of(None, None);
        assert_eq!((own.lost_after_ms(false), own.lost_after_ms(true)), (15 * minute, 30 * minute));
        let long =
            Limits { stall_subagents_ms: 16 * minute, stall_open_ms: 31 * minute, ..Limits::default() };
        let own = long.of(None, None);
        assert_eq!((own.lost_after_ms(false), own.lost_after_ms(true)), (16 * minute, 31 * minute));
    }

    #[test]
    fn longest_limit_is_that_of_any_rule_or_of_lost_agents() {
        let with = |open| Limits {
            rules: [rule(LimitScope::Harness("h".into()), None, Some(open))].into(),
            ..Limits::default()
        };
        assert_eq!(with(1).longest_ms(), 30 * 60_000);
        assert_eq!(with(31 * 60_000).longest_ms(), 31 * 60_000);
        assert_eq!(Limits::endless().longest_ms(), i64::MAX);
    }
}
