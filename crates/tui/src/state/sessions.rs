//! The list of sessions: those at work first, then by their last event.

use std::collections::HashMap;

use subscope_model::{Millis, SessionId, SessionRow, SessionStatus};

use super::trees::Trees;

/// How many sessions are asked for at first. A screen shows some dozens.
pub const FIRST_SESSIONS: usize = 200;

/// The list of sessions.
#[derive(Debug, Default)]
pub struct Sessions {
    /// As they are shown.
    pub rows: Vec<SessionRow>,
    /// The selected one.
    pub selected: Option<SessionId>,
    /// Those that are kept, as last asked for.
    pub history: Vec<SessionRow>,
    /// How many were asked for.
    pub asked: usize,
    /// When they were last asked for, by the clock that never steps.
    pub asked_ms: Millis,
    /// Whether a person has selected one.
    pub is_chosen: bool,
}

impl Sessions {
    /// Makes the list anew of what is kept and of what the feed tells.
    pub fn gather(&mut self, trees: &Trees) {
        let mut rows: HashMap<&SessionId, SessionRow> =
            self.history.iter().map(|row| (&row.id, row.clone())).collect();
        let fed: Vec<SessionRow> = trees.fed().map(SessionRow::of).collect();
        for row in &fed {
            rows.insert(&row.id, row.clone());
        }
        let mut rows: Vec<SessionRow> = rows.into_values().collect();
        // What is kept may say that a session lives which nobody follows any more: only what is fed is at work.
        for row in &mut rows {
            if !trees.is_fed(&row.id) {
                row.status = SessionStatus::Ended;
            }
        }
        rows.sort_by_key(|row| (row.status == SessionStatus::Ended, row.place()));
        self.rows = rows;
        // Until somebody selects one, whoever is at work is what is looked at.
        let is_over = self.row().is_some_and(|row| row.status == SessionStatus::Ended);
        let works = self.rows.first().filter(|row| row.status == SessionStatus::Live);
        if let Some(first) = works.filter(|_| is_over && !self.is_chosen) {
            self.selected = Some(first.id.clone());
        }
        if self.place().is_none() {
            self.selected = self.selected.take().or_else(|| self.rows.first().map(|row| row.id.clone()));
        }
    }

    /// The place of the selected session.
    pub fn place(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.rows.iter().position(|row| row.id == *selected)
    }

    /// The row of the selected session.
    pub fn row(&self) -> Option<&SessionRow> {
        self.rows.get(self.place()?)
    }

    /// Whether the list may go on behind its end.
    pub fn has_more(&self) -> bool {
        self.asked > 0 && self.history.len() >= self.asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn sessions_at_work_come_first_and_the_selection_stays() {
        let mut trees = Trees::default();
        let mut live = samples::tree("live", &[("root", 0)]);
        live.session.ended_at_ms = Some(5);
        live.agents[0].status = subscope_model::AgentStatus::Running;
        trees.feed(live);
        let past = |id: &str, at| {
            let mut tree = samples::tree(id, &[("root", 0)]);
            tree.session.ended_at_ms = Some(at);
            SessionRow { status: SessionStatus::Live, ..SessionRow::of(&tree) }
        };
        let history = vec![past("new", 90), past("old", 10), past("live", 1)];
        let mut sessions = Sessions { history, asked: 3, ..Sessions::default() };
        sessions.gather(&trees);
        let ids =
            |sessions: &Sessions| sessions.rows.iter().map(|row| row.id.to_string()).collect::<Vec<_>>();
        assert_eq!(ids(&sessions), ["live", "new", "old"]);
        assert!(sessions.has_more() && sessions.rows[1].status == SessionStatus::Ended);
        assert_eq!((sessions.selected.as_deref(), sessions.place()), (Some("live"), Some(0)));
        sessions.selected = Some("old".into());
        sessions.gather(&trees);
        assert_eq!(sessions.place(), Some(0), "nobody has selected it");
        (sessions.selected, sessions.is_chosen) = (Some("old".into()), true);
        sessions.gather(&trees);
        assert_eq!(sessions.place(), Some(2));
    }
}
