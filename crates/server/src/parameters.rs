//! Query parameters of the question routes: their defaults and limits, and what each asks.

use serde::Deserialize;
use subscope_hub::clock;
use subscope_model::{Millis, SearchQuery, SessionId, SessionOrder, Text};
use subscope_query::ListQuery;

use crate::api_error::ApiError;

/// Default and maximum number of sessions per page.
const PAGE_SESSIONS: usize = 100;
const MAX_PAGE_SESSIONS: usize = 1_000;
/// Default and maximum number of hits.
const DEFAULT_HITS: usize = 50;
const MAX_HITS: usize = 1_000;
/// Age up to which a changed row is recent.
const RECENT_MS: Millis = 30 * 60 * 1000;

/// Parameters of `GET /api/v1/sessions`.
#[derive(Deserialize)]
pub(crate) struct SessionListParameters {
    q: Option<String>,
    limit: Option<usize>,
    after: Option<String>,
    #[serde(default)]
    live: bool,
    #[serde(default)]
    recent: bool,
    project: Option<Text>,
    since: Option<Millis>,
    until: Option<Millis>,
    sort: Option<String>,
}

impl SessionListParameters {
    /// Returns the query for the page.
    ///
    /// # Errors
    /// 400 if `after` is not the `next` of a page, or `sort` is no order.
    pub(crate) fn into_query(self) -> Result<ListQuery, ApiError> {
        let limit = self.limit.unwrap_or(PAGE_SESSIONS).clamp(1, MAX_PAGE_SESSIONS);
        let invalid = || ApiError::bad_request("after is not a place in the list");
        let after = self.after.as_deref().map(|next| ListQuery::cursor(next).ok_or_else(invalid));
        let no_order = || ApiError::bad_request("sort is no order of a list");
        let order = self.sort.as_deref().map(|name| SessionOrder::named(name).ok_or_else(no_order));
        Ok(ListQuery {
            order: order.transpose()?.unwrap_or_default(),
            after: after.transpose()?,
            project: self.project,
            since: self.since,
            until: self.until,
            only_live: self.live,
            kept_since: self.recent.then(|| clock::now_ms() - RECENT_MS),
            ..ListQuery::of_words(limit, self.q.unwrap_or_default())
        })
    }
}

/// Parameters of `GET /api/v1/names`.
#[derive(Deserialize)]
pub(crate) struct NameParameters {
    /// The beginning of the ids.
    pub(crate) prefix: Option<String>,
    /// Words of an agent's names.
    pub(crate) q: Option<String>,
    limit: Option<usize>,
}

impl NameParameters {
    /// Returns the maximum number of ids of each kind.
    pub(crate) fn limit(&self) -> usize {
        hits(self.limit)
    }
}

/// Parameters of `GET /api/v1/search`.
#[derive(Deserialize)]
pub(crate) struct SearchParameters {
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
    pub(crate) fn into_query(self) -> SearchQuery {
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
pub(crate) struct SessionParameter {
    /// The session's id; where a route says so, a prefix of it.
    pub(crate) session: Option<SessionId>,
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
