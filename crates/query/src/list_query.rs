//! The query for a page of the session list.

use std::cmp::Reverse;

use subscope_model::{Millis, SessionId, SessionOrder, SessionPage, SessionRow, SessionStatus, Text};

/// Filter and page of a session list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// Maximum number of rows.
    pub limit: usize,
    /// Order of the rows.
    pub order: SessionOrder,
    /// Cursor: figure ([`SessionOrder::figure`]) and session id of the previous page's last row.
    pub after: Option<(i64, SessionId)>,
    /// Only running sessions.
    pub only_live: bool,
    /// Only sessions with a row that changed in the store at or after this time.
    pub kept_since: Option<Millis>,
    /// Only sessions that match these words ([`SessionRow::matches`]); all if empty.
    pub words: String,
    /// Only sessions of this folder ([`SessionRow::is_of_project`]).
    pub project: Option<Text>,
    /// Only sessions with an event at or after this time.
    pub since: Option<Millis>,
    /// Only sessions that began before this time.
    pub until: Option<Millis>,
    /// No sessions that a harness started for a purpose of its own ([`SessionRow::is_own`]).
    pub hides_own: bool,
}

impl ListQuery {
    /// First `limit` of all sessions.
    pub fn first(limit: usize) -> Self {
        Self {
            limit,
            order: SessionOrder::Newest,
            after: None,
            only_live: false,
            kept_since: None,
            words: String::new(),
            project: None,
            since: None,
            until: None,
            hides_own: false,
        }
    }

    /// First `limit` of the sessions that people see who look for these words: those of the harness itself are left out
    /// unless the words ask for them.
    pub fn of_words(limit: usize, words: String) -> Self {
        Self { hides_own: !SessionRow::asks_for_own(&words), words, ..Self::first(limit) }
    }

    /// First `limit` running sessions.
    pub fn live(limit: usize) -> Self {
        Self { only_live: true, ..Self::first(limit) }
    }

    /// Whether a row is selected, whatever page it is on. A session of which a time is unknown is in no range that needs it.
    pub fn covers(&self, row: &SessionRow) -> bool {
        row.matches(&self.words)
            && !(self.only_live && row.status != SessionStatus::Live)
            && !(self.hides_own && row.is_own)
            && self.kept_since.is_none_or(|since| row.kept_at_ms >= Some(since))
            && self.project.as_deref().is_none_or(|folder| row.is_of_project(folder))
            && self.since.is_none_or(|since| row.last_event_at_ms >= Some(since))
            && self.until.is_none_or(|until| row.started_at_ms.is_some_and(|start| start < until))
    }

    /// Returns the page's rows of all rows: the selected ones behind the cursor, in order, at most `limit`.
    pub fn select(&self, rows: impl Iterator<Item = SessionRow>) -> Vec<SessionRow> {
        let mut rows: Vec<SessionRow> = rows.filter(|row| self.covers(row)).collect();
        if let Some((figure, id)) = &self.after {
            let last = (Reverse(*figure), id.clone());
            rows.retain(|row| self.order.place(row) > last);
        }
        rows.sort_by_cached_key(|row| self.order.place(row));
        rows.truncate(self.limit);
        rows
    }

    /// Returns the cursor that the `next` of a page is; `None` if it is none.
    pub fn cursor(next: &str) -> Option<(i64, SessionId)> {
        let (at, id) = next.split_once('~')?;
        Some((at.parse().ok()?, SessionId::from(id)))
    }

    /// Returns the page of what `list` returns, which is asked for one row more to know whether another page follows.
    ///
    /// # Errors
    /// That of `list`.
    pub fn page<E>(&self, list: impl FnOnce(&Self) -> Result<Vec<SessionRow>, E>) -> Result<SessionPage, E> {
        let more = Self { limit: self.limit.saturating_add(1), ..self.clone() };
        Ok(SessionPage::of(list(&more)?, self.limit, self.order))
    }
}
