//! The query for a page of the session list.

use subscope_model::{Millis, SessionId, SessionPage, SessionRow};

/// Filter and page of a session list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// Maximum number of rows.
    pub limit: usize,
    /// Cursor: last event time and session id of the previous page's last row.
    pub after: Option<(Millis, SessionId)>,
    /// Only running sessions.
    pub only_live: bool,
    /// Only sessions with a row that changed in the store at or after this time.
    pub kept_since: Option<Millis>,
    /// Only sessions that match these words ([`SessionRow::matches`]); all if empty.
    pub words: String,
    /// No sessions that a harness started for a purpose of its own ([`SessionRow::is_own`]).
    pub hides_own: bool,
}

impl ListQuery {
    /// First `limit` of all sessions.
    pub fn first(limit: usize) -> Self {
        Self {
            limit,
            after: None,
            only_live: false,
            kept_since: None,
            words: String::new(),
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

    /// Returns the cursor that the `next` of a page is; `None` if it is none.
    pub fn cursor(next: &str) -> Option<(Millis, SessionId)> {
        let (at, id) = next.split_once('~')?;
        Some((at.parse().ok()?, SessionId::from(id)))
    }

    /// Returns the page of what `list` returns, which is asked for one row more to know whether another page follows.
    ///
    /// # Errors
    /// That of `list`.
    pub fn page<E>(&self, list: impl FnOnce(&Self) -> Result<Vec<SessionRow>, E>) -> Result<SessionPage, E> {
        let more = Self { limit: self.limit.saturating_add(1), ..self.clone() };
        Ok(SessionPage::of(list(&more)?, self.limit))
    }
}
