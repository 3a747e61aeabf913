//! Routes of what only a session's machine has: the answer names it.

use axum::{
    extract::{Path, State},
    http::StatusCode,
    routing::{get, post},
};
use subscope_model::{AgentId, SessionId, SessionRow};
use subscope_server::ApiError;
use subscope_store::SessionQueries as _;
use utoipa::openapi::{
    HttpMethod, Object, Required, Response, Type,
    path::{OperationBuilder, ParameterBuilder, ParameterIn, Paths},
};
use utoipa_axum::router::OpenApiRouter;

use super::{TeamApp, TeamScope};

/// Paths below a session's, by their names, with what is on its machine only.
const OF_SESSION: [(&str, &str); 3] =
    [("events", "Events are"), ("feed", "The feed is"), ("export", "Exports are made")];

/// Returns the routes.
pub(super) fn routes() -> OpenApiRouter<TeamApp> {
    let mut router = OpenApiRouter::new();
    for (name, what) in OF_SESSION {
        let paths = described(HttpMethod::Get, &format!("/api/v1/sessions/{{id}}/{name}"), name, what);
        router = router.routes((Vec::new(), paths, get(of_session)));
    }
    let paths = described(HttpMethod::Post, "/api/v1/agents/{id}/stop", "stop", "Agents are stopped");
    router.routes((Vec::new(), paths, post(stop)))
}

/// Describes a route that only says where something is.
fn described(method: HttpMethod, path: &str, name: &str, what: &str) -> Paths {
    let id = ParameterBuilder::new()
        .name("id")
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(Object::with_type(Type::String)));
    let operation = OperationBuilder::new()
        .operation_id(Some(name))
        .summary(Some(format!("{what} on the session's machine only, which the answer names.")))
        .parameter(id)
        .response("404", Response::new(format!("{what} on the session's machine only.")));
    let mut paths = Paths::new();
    paths.add_path_operation(path, vec![method], operation);
    paths
}

/// Returns the error of what only a session's machine has.
fn only_there(row: Option<SessionRow>) -> ApiError {
    let Some(row) = row else { return ApiError::not_found("session") };
    let machine = row.machine.as_deref().unwrap_or("its machine");
    ApiError::new(StatusCode::NOT_FOUND, format!("on {machine} only"))
}

async fn of_session(
    State(app): State<TeamApp>,
    TeamScope { identity, filter }: TeamScope,
    Path(session): Path<SessionId>,
) -> Result<ApiError, ApiError> {
    app.read(&identity, filter, move |reader| reader.session_row(&session)).await.map(only_there)
}

async fn stop(
    State(app): State<TeamApp>,
    TeamScope { identity, filter }: TeamScope,
    Path(agent): Path<AgentId>,
) -> Result<ApiError, ApiError> {
    let found = app.read(&identity, filter, move |reader| {
        let session = reader.agents_with_prefix(&agent, 1)?.into_iter().next();
        session.map(|(session, _)| reader.session_row(&session)).transpose()
    });
    found.await?.map(only_there).ok_or(ApiError::not_found("agent"))
}
