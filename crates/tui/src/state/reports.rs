//! Reports over many sessions: statistics, a comparison, recorded iterations. Each is a list of lines with a cursor.

use subscope_model::{AgentId, Iteration, Millis, SessionId, Stats, StatsQuery, Zone};

/// Milliseconds of a day.
pub(crate) const DAY_MS: Millis = 86_400_000;

choices! {
    /// The days that statistics cover, up to today.
    #[derive(Default)]
    pub(crate) enum StatsRange {
        #[default]
        Week = "7 days",
        Month = "30 days",
        Quarter = "90 days",
        All = "all",
    }
}

impl StatsRange {
    /// The number of days, today included.
    pub(crate) fn days(self) -> Option<Millis> {
        match self {
            Self::Week => Some(7),
            Self::Month => Some(30),
            Self::Quarter => Some(90),
            Self::All => None,
        }
    }

    pub(crate) fn query(self, now_ms: Millis, zone: &Zone) -> StatsQuery {
        let first = |days: i64| zone.start_of(zone.day_of(now_ms) - (days - 1));
        StatsQuery { since: self.days().map(first), time_zone: Some(zone.clone()), ..StatsQuery::default() }
    }
}

/// A session, or one of its agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) session: SessionId,
    /// `None` for the session.
    pub(crate) agent: Option<AgentId>,
}

#[derive(Debug, Default)]
pub(crate) struct Reports {
    pub(crate) range: StatsRange,
    /// The last statistics, with their range.
    pub(crate) stats: Option<(StatsRange, Box<Stats>)>,
    /// When statistics were last requested, by the monotonic clock.
    pub(crate) stats_ms: Millis,
    /// What is marked for the comparison, at most two, the older first.
    pub(crate) marked: Vec<Place>,
    /// Recorded iterations, the newest first; `None` before the first answer.
    pub(crate) iterations: Option<Vec<Iteration>>,
    /// Line of the cursor in the open report.
    pub(crate) cursor: usize,
}

impl Reports {
    /// The letter of a marked place, as in the comparison.
    pub(crate) fn letter(&self, place: &Place) -> Option<&'static str> {
        let at = self.marked.iter().position(|marked| marked == place)?;
        ["A", "B"].get(at).copied()
    }

    /// Marks a place, or takes its mark off; of three the oldest loses its mark. Returns its letter.
    pub(crate) fn toggle_mark(&mut self, place: Place) -> Option<&'static str> {
        let before = self.marked.len();
        self.marked.retain(|marked| *marked != place);
        if self.marked.len() == before {
            if before == 2 {
                self.marked.remove(0);
            }
            self.marked.push(place.clone());
        }
        self.letter(&place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_begins_at_a_day_and_has_today() {
        let now = 100 * DAY_MS + 5;
        let since = |range: StatsRange, zone: &str| range.query(now, &Zone::named(zone).unwrap()).since;
        assert_eq!(since(StatsRange::Week, "UTC"), Some(94 * DAY_MS));
        // There it is still yesterday.
        assert_eq!(since(StatsRange::Week, "America/New_York"), Some(93 * DAY_MS + 5 * 3_600_000));
        assert_eq!(since(StatsRange::All, "America/New_York"), None);
    }

    #[test]
    fn two_are_marked_and_the_oldest_gives_way() {
        let place = |id: &str| Place { session: id.into(), agent: None };
        let mut reports = Reports::default();
        let marks = ["a", "b", "a", "a", "c"].map(|id| reports.toggle_mark(place(id)));
        assert_eq!(marks, [Some("A"), Some("B"), None, Some("B"), Some("B")]);
        assert_eq!(reports.marked, [place("a"), place("c")]);
    }
}
