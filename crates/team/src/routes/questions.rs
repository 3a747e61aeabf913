//! Answers the questions that a hub's server answers too, from the rows of a caller's tenant.

use axum::{
    extract::{FromRequestParts, Query},
    http::{StatusCode, request::Parts},
};
use serde_json::Value;
use subscope_model::{SessionId, Tree};
use subscope_query::{Queries, QueryError, QueryResult};
use subscope_server::{ApiError, QuestionServer};
use subscope_store::SessionQueries as _;
use tokio::runtime::Handle;

use super::{TeamApp, TeamState, description};
use crate::{
    auth::Caller,
    gather::chain,
    read::{Reader, TeamFilter},
    tokens::Identity,
};

/// Sessions that a request may see: those of the caller's tenant that its filter selects.
pub(crate) struct TeamScope {
    pub(crate) identity: Identity,
    pub(crate) filter: TeamFilter,
}

impl FromRequestParts<TeamApp> for TeamScope {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &TeamApp) -> Result<Self, ApiError> {
        let Caller { identity } = Caller::from_request_parts(parts, app).await?;
        let filter = Query::from_request_parts(parts, app).await;
        let Query(filter) = filter.map_err(|error| ApiError::bad_request(error.body_text()))?;
        Ok(Self { identity, filter })
    }
}

impl QuestionServer for TeamState {
    type Scope = TeamScope;

    async fn ask<T: Send + 'static>(
        &self,
        scope: &TeamScope,
        _: Option<SessionId>,
        question: impl FnOnce(&mut dyn Queries) -> QueryResult<T> + Send + 'static,
    ) -> Result<T, ApiError> {
        let filter = scope.filter.clone();
        let mut reader = Reader::new(&self.engine, &scope.identity.tenant, filter, Handle::current());
        let answer = tokio::task::spawn_blocking(move || question(&mut reader)).await;
        let answer = answer.map_err(|error| ApiError::unavailable(error.to_string()))?;
        answer.map_err(|error| match error {
            QueryError::Failed(error) => failed_query(&*error),
            QueryError::NoFullText | QueryError::SeveralSessions(_) | QueryError::Unsupported(_) => {
                error.into()
            }
        })
    }

    /// Returns a tree; the error says whether it is no longer kept.
    async fn find_tree(&self, scope: &TeamScope, session: SessionId) -> Result<Tree, ApiError> {
        let found = self.read(&scope.identity, TeamFilter::default(), move |reader| {
            let tree = reader.tree(&session)?;
            let row = if tree.is_none() { reader.session_row(&session)? } else { None };
            Ok((tree, row.is_some()))
        });
        match found.await? {
            (Some(tree), _) => Ok(tree),
            (None, true) => Err(ApiError::new(
                StatusCode::NOT_FOUND,
                "the session's row is kept, its tree is gone: trees are kept for a shorter time",
            )),
            (None, false) => Err(ApiError::not_found("session")),
        }
    }

    fn document() -> serde_json::Result<Value> {
        description::document()
    }
}

/// Logs why ClickHouse does not answer.
pub(super) fn failed_query(error: &(dyn std::error::Error + 'static)) -> ApiError {
    tracing::warn!("a query failed: {}", chain(error));
    ApiError::unavailable("ClickHouse does not answer the query")
}
