//! Query parameters that the servers of a hub and of a team share: their defaults and limits, and what each asks of a
//! store.

use serde::Deserialize;
use subscope_hub::{ListQuery, clock};
use subscope_model::{Millis, SearchQuery, SessionId, Text};

use crate::api_error::ApiError;

/// Default and maximum number of sessions per page.
const PAGE_SESSIONS: usize = 100;
const MAX_PAGE_SESSIONS: usize = 1_000;
/// Default and maximum number of hits.
const DEFAULT_HITS: usize = 50;
const MAX_HITS: usize = 1_000;
/// Age up to which a changed row is recent.
const RECENT_MS: Millis = 30 * 60 * 1000;
/// Maximum number of running sessions in a status.
const MAX_STATUS_SESSIONS: usize = 200;

/// Parameters of `GET /api/v1/sessions`.
#[derive(Deserialize)]
pub struct SessionListParameters {
    q: Option<String>,
    limit: Option<usize>,
    after: Option<String>,
    #[serde(default)]
    live: bool,
    #[serde(default)]
    recent: bool,
}

impl SessionListParameters {
    /// Returns the maximum number of sessions on the page, and a query for one more.
    ///
    /// # Errors
    /// 400 if `after` is not the `next` of a page.
    pub fn into_query(self) -> Result<(usize, ListQuery), ApiError> {
        let limit = self.limit.unwrap_or(PAGE_SESSIONS).clamp(1, MAX_PAGE_SESSIONS);
        let invalid = || ApiError::bad_request("after is not a place in the list");
        let after = self.after.as_deref().map(|cursor| parse_cursor(cursor).ok_or_else(invalid));
        let query = ListQuery {
            after: after.transpose()?,
            only_live: self.live,
            kept_since: self.recent.then(|| clock::now_ms() - RECENT_MS),
            ..ListQuery::of_words(limit + 1, self.q.unwrap_or_default())
        };
        Ok((limit, query))
    }
}

fn parse_cursor(cursor: &str) -> Option<(Millis, SessionId)> {
    let (at, id) = cursor.split_once('~')?;
    Some((at.parse().ok()?, SessionId::from(id)))
}

/// Parameters of `GET /api/v1/names`.
#[derive(Deserialize)]
pub struct NameParameters {
    /// The beginning of the ids.
    pub prefix: String,
    limit: Option<usize>,
}

impl NameParameters {
    /// Returns the maximum number of ids of each kind.
    pub fn limit(&self) -> usize {
        hits(self.limit)
    }
}

/// Parameters of `GET /api/v1/search`.
#[derive(Deserialize)]
pub struct SearchParameters {
    q: String,
    session: Option<SessionId>,
    kind: Option<Text>,
    tool: Option<Text>,
    project: Option<Text>,
    since: Option<Millis>,
    until: Option<Millis>,
    #[serde(default)]
    failed: bool,
    limit: Option<usize>,
}

impl SearchParameters {
    /// Returns the query.
    pub fn into_query(self) -> SearchQuery {
        SearchQuery {
            terms: split_terms(&self.q),
            session: self.session,
            kind: self.kind,
            tool: self.tool,
            project: self.project,
            since: self.since,
            until: self.until,
            only_failed: self.failed,
            limit: hits(self.limit),
        }
    }
}

/// The optional session of a query.
#[derive(Deserialize)]
pub struct SessionParameter {
    /// The session's id; where a route says so, a prefix of it.
    pub session: Option<SessionId>,
}

/// Returns the query for the sessions of a status.
pub fn status_query() -> ListQuery {
    ListQuery::live(MAX_STATUS_SESSIONS)
}

fn hits(limit: Option<usize>) -> usize {
    limit.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS)
}

/// Splits a query into words and quoted phrases.
fn split_terms(query: &str) -> Vec<String> {
    let pieces = query.split('"').enumerate();
    let terms = pieces.flat_map(|(number, piece)| match number % 2 {
        0 => piece.split_whitespace().map(str::to_owned).collect(),
        _ => vec![piece.to_owned()],
    });
    terms.filter(|term| !term.trim().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_words_and_phrases() {
        assert_eq!(split_terms("half  cents"), ["half", "cents"]);
        assert_eq!(split_terms("round \"half cents\" up*"), ["round", "half cents", "up*"]);
        assert_eq!(split_terms("\"open end"), ["open end"]);
        assert!(split_terms(" \"\" ").is_empty());
    }
}
