//! Routes over several sessions: comparison, and recorded iterations.

use std::collections::BTreeSet;

use axum::{
    Json,
    extract::{Query, State},
};
use serde::Deserialize;
use subscope_export::iteration;
use subscope_model::{AgentId, Compared, Comparison, Iterations, SessionId, Text, Tree};
use subscope_query::{ListQuery, Queries};

use crate::{api_error::ApiError, routes::questions::QuestionServer as _, state::App};

/// Most sessions whose folders are looked at for records, and most records.
const MAX_SESSIONS: usize = 10_000;
const MAX_ITERATIONS: usize = 500;

#[derive(Deserialize)]
pub(super) struct CompareQuery {
    a: SessionId,
    b: SessionId,
    agent_a: Option<AgentId>,
    agent_b: Option<AgentId>,
}

/// Compares two sessions, or two agents with everything below them.
#[utoipa::path(
    get, path = "/api/v1/compare",
    params(
        ("a" = String, Query, description = "The first session's id."),
        ("b" = String, Query, description = "The second session's id; it may be the same."),
        ("agent_a" = Option<String>, Query, description = "Compare only this agent of the first session and everything below it."),
        ("agent_b" = Option<String>, Query, description = "Compare only this agent of the second session and everything below it."),
    ),
    responses(
        (status = 200, description = "subscope.diff/1.", body = ref("#/components/schemas/Comparison")),
        (status = 404, description = "No such session or agent."),
    )
)]
pub(super) async fn compare(
    State(app): State<App>,
    Query(query): Query<CompareQuery>,
) -> Result<Json<Comparison>, ApiError> {
    let (a, b) = (app.find_tree(&(), query.a).await?, app.find_tree(&(), query.b).await?);
    let (agent_a, agent_b) = (query.agent_a.as_ref(), query.agent_b.as_ref());
    Ok(Json(Comparison::of(compared(&a, agent_a)?, compared(&b, agent_b)?)))
}

fn compared<'t>(tree: &'t Tree, agent: Option<&AgentId>) -> Result<Compared<'t>, ApiError> {
    match agent {
        None => Ok(Compared::session(tree)),
        Some(agent) => Compared::agent(tree, agent).ok_or(ApiError::not_found("agent")),
    }
}

/// Lists iterations that `subscope run` recorded in the folders of known sessions.
#[utoipa::path(
    get, path = "/api/v1/iterations",
    responses((status = 200, description = "subscope.iterations/1: the newest 500, the newest first.", body = ref("#/components/schemas/Iterations")))
)]
pub(super) async fn iterations(State(app): State<App>) -> Result<Json<Iterations>, ApiError> {
    let list = |queries: &mut dyn Queries| queries.sessions(&ListQuery::first(MAX_SESSIONS));
    let page = app.ask(&(), None, list).await?;
    let folders: BTreeSet<Text> = page.sessions.into_iter().filter_map(|row| row.cwd).collect();
    let read = move || iteration::of_projects(folders.iter().map(|folder| &**folder), MAX_ITERATIONS);
    let found = tokio::task::spawn_blocking(read).await;
    found.map(Json).map_err(|_| ApiError::unavailable("the records cannot be read"))
}
