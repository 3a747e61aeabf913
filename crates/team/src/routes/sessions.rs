//! Routes of one session. For data that was not sent, the answer names the session's machine.

use axum::{
    Json,
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use subscope_model::{AGENT_SCHEMA, AgentId, OneAgent, SessionId, Tree};
use subscope_server::{ApiError, SessionParameter, TimelinePage};
use subscope_store::SessionQueries;

use super::TeamApp;
use crate::{auth::Caller, read::TeamFilter, tokens::Identity};

/// Most agents of one id.
const MAX_AGENTS: usize = 50;

/// Returns a session's tree.
///
/// # Errors
/// 404 for one that is not the tenant's, and for one whose tree is no longer kept.
async fn find_tree(app: &TeamApp, caller: &Identity, session: SessionId) -> Result<Tree, ApiError> {
    let found = app.ask(caller, TeamFilter::default(), move |reader| {
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

/// Returns the error of what only the session's machine has.
async fn only_there<T>(app: &TeamApp, caller: &Identity, session: SessionId) -> Result<T, ApiError> {
    let row = app.ask(caller, TeamFilter::default(), move |reader| reader.session_row(&session)).await?;
    let row = row.ok_or_else(|| ApiError::not_found("session"))?;
    let machine = row.machine.as_deref().unwrap_or("its machine");
    Err(ApiError::new(StatusCode::NOT_FOUND, format!("on {machine} only")))
}

/// Returns a session's tree.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/tree",
    params(("id" = String, Path, description = "The session's id.")),
    responses(
        (status = 200, description = "subscope.tree/1.", body = ref("#/components/schemas/Tree")),
        (status = 404, description = "No such session, or its tree is no longer kept."),
    )
)]
pub(super) async fn tree(
    State(app): State<TeamApp>,
    caller: Caller,
    Path(session): Path<SessionId>,
) -> Result<Json<Tree>, ApiError> {
    find_tree(&app, &caller.identity, session).await.map(Json)
}

/// Returns the timeline of a session, as a hub's server does.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/timeline",
    params(("id" = String, Path, description = "The session's id.")),
    responses(
        (status = 200, description = "subscope.timeline/1.", body = ref("#/components/schemas/TimelinePage")),
        (status = 404, description = "No such session, or nothing in it has a time."),
    )
)]
pub(super) async fn lanes(
    State(app): State<TeamApp>,
    caller: Caller,
    Path(session): Path<SessionId>,
) -> Result<Json<TimelinePage>, ApiError> {
    let tree = find_tree(&app, &caller.identity, session).await?;
    let page = TimelinePage::of(&tree, None, None);
    page.map(Json).ok_or_else(|| ApiError::not_found("time in this session"))
}

/// Reports that events stay on the session's machine.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/events",
    params(("id" = String, Path, description = "The session's id.")),
    responses((status = 404, description = "Events are on the session's machine only."))
)]
pub(super) async fn events(
    State(app): State<TeamApp>,
    caller: Caller,
    Path(session): Path<SessionId>,
) -> Result<Response, ApiError> {
    only_there(&app, &caller.identity, session).await
}

/// Reports that the feed stays on the session's machine.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/feed",
    params(("id" = String, Path, description = "The session's id.")),
    responses((status = 404, description = "The feed is on the session's machine only."))
)]
pub(super) async fn feed(
    State(app): State<TeamApp>,
    caller: Caller,
    Path(session): Path<SessionId>,
) -> Result<Response, ApiError> {
    only_there(&app, &caller.identity, session).await
}

/// Reports that exports are made on the session's machine.
#[utoipa::path(
    get, path = "/api/v1/sessions/{id}/export",
    params(("id" = String, Path, description = "The session's id.")),
    responses((status = 404, description = "Exports are made on the session's machine only."))
)]
pub(super) async fn export(
    State(app): State<TeamApp>,
    caller: Caller,
    Path(session): Path<SessionId>,
) -> Result<Response, ApiError> {
    only_there(&app, &caller.identity, session).await
}

/// Returns one agent.
#[utoipa::path(
    get, path = "/api/v1/agents/{id}",
    params(
        ("id" = String, Path, description = "The agent's id; `root` also needs `session`."),
        ("session" = Option<String>, Query, description = "The session's id."),
    ),
    responses(
        (status = 200, description = "subscope.agent/1: `session` and `agent` as in the tree.", body = ref("#/components/schemas/OneAgent")),
        (status = 404, description = "No such agent."),
        (status = 409, description = "Several sessions have an agent with that id: add `session`."),
    )
)]
pub(super) async fn agent(
    State(app): State<TeamApp>,
    caller: Caller,
    Path(agent): Path<AgentId>,
    Query(query): Query<SessionParameter>,
) -> Result<Json<OneAgent>, ApiError> {
    let id = agent.clone();
    let sessions = match query.session {
        Some(session) => vec![session],
        None => {
            let found = app.ask(&caller.identity, TeamFilter::default(), move |reader| {
                reader.agents_with_prefix(&id, MAX_AGENTS)
            });
            found
                .await?
                .into_iter()
                .filter(|(_, found)| *found == agent)
                .map(|(session, _)| session)
                .collect()
        }
    };
    let session = match sessions.as_slice() {
        [] => return Err(ApiError::not_found("agent")),
        [one] => one.clone(),
        several => {
            let message =
                format!("{} sessions have an agent of that id: name one by ?session=", several.len());
            return Err(ApiError::new(StatusCode::CONFLICT, message));
        }
    };
    let tree = find_tree(&app, &caller.identity, session).await?;
    let found = tree.agents.into_iter().find(|row| row.id == agent);
    let found = found.ok_or_else(|| ApiError::not_found("agent"))?;
    Ok(Json(OneAgent { schema: AGENT_SCHEMA.into(), session: tree.session, agent: found }))
}

/// Reports that agents are stopped on their machine.
#[utoipa::path(
    post, path = "/api/v1/agents/{id}/stop",
    params(("id" = String, Path, description = "The agent's id.")),
    responses((status = 404, description = "Agents are stopped on their machine only."))
)]
pub(super) async fn stop(
    State(app): State<TeamApp>,
    caller: Caller,
    Path(agent): Path<AgentId>,
) -> Result<Response, ApiError> {
    let found =
        app.ask(&caller.identity, TeamFilter::default(), move |reader| reader.agents_with_prefix(&agent, 1));
    match found.await?.into_iter().next() {
        Some((session, _)) => {
            only_there::<()>(&app, &caller.identity, session).await.map(IntoResponse::into_response)
        }
        None => Err(ApiError::not_found("agent")),
    }
}
