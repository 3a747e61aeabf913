//! The list of sessions: live ones first, then by last event.

use std::collections::HashMap;

use subscope_model::{Millis, SessionId, SessionRow, SessionStatus};

use super::trees::Trees;

/// Initial limit of the session query. A screen shows some dozens.
pub(crate) const FIRST_SESSIONS: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct SessionList {
    /// Displayed rows, in order.
    pub(crate) rows: Vec<SessionRow>,
    pub(crate) selected: Option<SessionId>,
    /// Stored sessions, as of the last reply.
    pub(crate) history: Vec<SessionRow>,
    /// Limit of the last query; 0 before the first.
    pub(crate) limit: usize,
    /// Time of the last query, by the monotonic clock.
    pub(crate) queried_ms: Millis,
    /// Whether the user has selected a session.
    pub(crate) is_user_choice: bool,
}

impl SessionList {
    /// Rebuilds the rows from stored sessions and subscribed trees.
    pub(crate) fn rebuild(&mut self, trees: &Trees) {
        let mut rows: HashMap<&SessionId, SessionRow> =
            self.history.iter().map(|row| (&row.id, row.clone())).collect();
        let subscribed: Vec<SessionRow> = trees.subscribed().map(SessionRow::of).collect();
        for row in &subscribed {
            rows.insert(&row.id, row.clone());
        }
        let mut rows: Vec<SessionRow> = rows.into_values().collect();
        // A stored row may still be live although no source follows the session any more: only subscribed sessions are
        // live.
        for row in &mut rows {
            if !trees.is_subscribed(&row.id) {
                row.status = SessionStatus::Ended;
            }
        }
        rows.sort_by_key(|row| (row.status == SessionStatus::Ended, row.place()));
        self.rows = rows;
        // Until the user selects one, a live session replaces a selected one that has ended.
        let is_over = self.row().is_some_and(|row| row.status == SessionStatus::Ended);
        let first_live = self.rows.first().filter(|row| row.status == SessionStatus::Live);
        if let Some(first) = first_live.filter(|_| is_over && !self.is_user_choice) {
            self.selected = Some(first.id.clone());
        }
        if self.selected_index().is_none() {
            self.selected = self.selected.take().or_else(|| self.rows.first().map(|row| row.id.clone()));
        }
    }

    pub(crate) fn selected_index(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.rows.iter().position(|row| row.id == *selected)
    }

    pub(crate) fn row(&self) -> Option<&SessionRow> {
        self.rows.get(self.selected_index()?)
    }

    /// Whether there may be more stored sessions: the last query reached its limit.
    pub(crate) fn has_more(&self) -> bool {
        self.limit > 0 && self.history.len() >= self.limit
    }
}

#[cfg(test)]
mod tests {
    use subscope_model::Update;

    use super::*;
    use crate::samples;

    #[test]
    fn sessions_at_work_come_first_and_the_selection_stays() {
        let mut trees = Trees::default();
        let mut live = samples::tree("live", &[("root", 0)]);
        live.session.ended_at_ms = Some(5);
        live.agents[0].status = subscope_model::AgentStatus::Running;
        trees.apply(Update::snapshot(live));
        let past = |id: &str, at| {
            let mut tree = samples::tree(id, &[("root", 0)]);
            tree.session.ended_at_ms = Some(at);
            SessionRow { status: SessionStatus::Live, ..SessionRow::of(&tree) }
        };
        let history = vec![past("new", 90), past("old", 10), past("live", 1)];
        let mut sessions = SessionList { history, limit: 3, ..SessionList::default() };
        sessions.rebuild(&trees);
        let ids =
            |sessions: &SessionList| sessions.rows.iter().map(|row| row.id.to_string()).collect::<Vec<_>>();
        assert_eq!(ids(&sessions), ["live", "new", "old"]);
        assert!(sessions.has_more() && sessions.rows[1].status == SessionStatus::Ended);
        assert_eq!((sessions.selected.as_deref(), sessions.selected_index()), (Some("live"), Some(0)));
        sessions.selected = Some("old".into());
        sessions.rebuild(&trees);
        assert_eq!(sessions.selected_index(), Some(0), "nobody has selected it");
        (sessions.selected, sessions.is_user_choice) = (Some("old".into()), true);
        sessions.rebuild(&trees);
        assert_eq!(sessions.selected_index(), Some(2));
    }
}
