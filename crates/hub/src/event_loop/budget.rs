//! Alerts when a session, or all sessions of a day, have cost 80 % or all of their budget.
//!
//! An alert is an event of kind `budget` in the feed of the session whose cost has passed the mark. Its id depends on
//! the budget and the mark alone, so that a restarted hub does not repeat it. Without a budget nothing is computed.

use serde_json::json;
use subscope_model::{
    Actor, AgentId, Basis, Event, EventKind, EventSchema, MicroUsd, Millis, SessionId, Tree, Zone, event_id,
};
use subscope_store::{DayCost, cost_of_day};

use super::{hub_store::HubStore, session_table::SessionTable};

/// Marks, in percent of the budget.
const MARKS: [u8; 2] = [80, 100];

/// Most alerts of days that are looked for in the change log.
const MAX_ALERTS: usize = 1_000;

/// Amounts of money that alerts are about; `None` for no alert.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    /// For each session.
    pub session: Option<MicroUsd>,
    /// For all sessions of a day together.
    pub day: Option<MicroUsd>,
}

/// What all sessions have cost on the current day.
#[derive(Debug)]
pub(super) struct TotalOfDay {
    /// Days since 1970.
    day: i64,
    cost: DayCost,
    /// Highest mark that was alerted, in percent; 0 for none.
    alerted: u8,
}

/// What a session in memory contributes.
#[derive(Debug, Default)]
pub(super) struct SessionCost {
    /// Highest mark that was alerted, in percent; 0 for none. The change log decides about those of earlier hubs.
    alerted: u8,
    /// Day, and what of the session is in that day's cost.
    counted: Option<(i64, DayCost)>,
}

/// The parts of the event loop that alerts depend on.
pub(super) struct BudgetWatch<'l> {
    pub(super) budgets: Budgets,
    /// Whose days are counted.
    pub(super) zone: &'l Zone,
    pub(super) day_cost: &'l mut Option<TotalOfDay>,
    pub(super) sessions: &'l mut SessionTable,
    pub(super) store: &'l HubStore,
}

impl BudgetWatch<'_> {
    /// Returns the alerts that follow from new rows of a session.
    pub(super) fn alerts(&mut self, tree: &Tree, at: Millis) -> Vec<Event> {
        let (budgets, zone) = (self.budgets, self.zone);
        let mut events = Vec::new();
        if let (Some(budget), Some(cost)) = (budgets.session, tree.summary.cost_micro_usd) {
            let own = self.sessions.loaded_mut(&tree.session.id).map(|loaded| &mut loaded.cost);
            if let Some(own) = own
                && let Some(mark) = passed_mark(cost, budget, own.alerted)
            {
                own.alerted = mark;
                events.push(alert(tree, at, &Scope::Session, (cost, tree.summary.cost_floor), budget, mark));
            }
        }
        if let Some(budget) = budgets.day
            && let Some(total) = self.count_cost(tree, zone.day_of(at))
            && let Some(mark) = passed_mark(total.cost.cost, budget, total.alerted)
        {
            total.alerted = mark;
            let cost = (total.cost.cost, total.cost.floor_sessions > 0);
            events.push(alert(tree, at, &Scope::Day(total.day, zone), cost, budget, mark));
        }
        events
    }

    /// Counts what a session has cost on a day. `None` if the store cannot be read.
    fn count_cost(&mut self, tree: &Tree, day: i64) -> Option<&mut TotalOfDay> {
        let session = &tree.session.id;
        let (store, zone) = (self.store, self.zone);
        let stored = |of| store.read("the cost of a day", store.cost_of_day(day, zone, of));
        if self.day_cost.as_ref().is_none_or(|known| known.day != day) {
            let cost = stored(None)?;
            let log = self.store.latest_events(&SessionId::from(""), MAX_ALERTS);
            let log = self.store.read("alerts of the day", log)?;
            let is_alerted = |mark: u8| {
                let id = event_id("", &Scope::Day(day, zone).key(mark));
                log.iter().any(|(known, _)| **known == *id)
            };
            let alerted = MARKS.into_iter().rev().find(|mark| is_alerted(*mark)).unwrap_or(0);
            *self.day_cost = Some(TotalOfDay { day, cost, alerted });
        }
        let before = match self.sessions.loaded(session)?.cost.counted {
            Some((counted_day, cost)) if counted_day == day => cost,
            _ => stored(Some(session))?,
        };
        let now = cost_of_day(tree, day, zone);
        self.sessions.loaded_mut(session)?.cost.counted = Some((day, now));
        let total = self.day_cost.as_mut()?;
        total.cost = total.cost + now - before;
        Some(total)
    }
}

/// What a budget is for.
enum Scope<'z> {
    Session,
    /// Days since 1970, of a zone.
    Day(i64, &'z Zone),
}

impl Scope<'_> {
    /// Key of the event of a mark.
    fn key(&self, mark: u8) -> String {
        match self {
            Self::Session => format!("budget/session/{mark}"),
            Self::Day(day, _) => format!("budget/{}/{mark}", Zone::date(*day)),
        }
    }
}

/// Returns the highest mark that a cost has passed, if it is higher than the one that was alerted.
fn passed_mark(cost: MicroUsd, budget: MicroUsd, alerted: u8) -> Option<u8> {
    let has_passed = |mark: u8| i128::from(cost) * 100 >= i128::from(budget) * i128::from(mark);
    MARKS.into_iter().rev().find(|mark| has_passed(*mark)).filter(|mark| *mark > alerted)
}

/// Returns the event of a mark; the cost is a lower bound if the flag is set.
fn alert(
    tree: &Tree,
    at: Millis,
    scope: &Scope<'_>,
    (cost, is_floor): (MicroUsd, bool),
    budget: MicroUsd,
    mark: u8,
) -> Event {
    let mut data = json!({
        "scope": "session", "percent": mark, "cost_micro_usd": cost, "cost_floor": is_floor,
        "budget_micro_usd": budget,
    });
    let session = match scope {
        Scope::Session => tree.session.id.clone(),
        Scope::Day(day, zone) => {
            data["scope"] = "day".into();
            data["time_zone"] = zone.name().into();
            data["day"] = Zone::date(*day).into();
            SessionId::from("")
        }
    };
    Event {
        schema: EventSchema,
        id: event_id(&session, &scope.key(mark)),
        seq: 0,
        at_ms: Some(at),
        run: if session.is_empty() { 0 } else { tree.session.runs },
        session_id: session,
        actor_id: Actor(AgentId::from(AgentId::ROOT)),
        basis: Basis::Link,
        source: "subscope".into(),
        kind: EventKind::Budget,
        data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_is_alerted_once_and_the_highest_counts() {
        assert_eq!(passed_mark(799, 1_000, 0), None);
        assert_eq!(passed_mark(800, 1_000, 0), Some(80));
        assert_eq!(passed_mark(999, 1_000, 80), None);
        assert_eq!(passed_mark(1_000, 1_000, 80), Some(100));
        assert_eq!(passed_mark(5_000, 1_000, 0), Some(100));
        assert_eq!(passed_mark(5_000, 1_000, 100), None);
        assert_eq!(passed_mark(i64::MAX, i64::MAX, 0), Some(100));
    }
}
