//! Routes and their OpenAPI document.

mod body_schemas;
mod codes;
mod comparison;
#[cfg(test)]
mod documentation;
mod events;
mod hooks;
mod inbox;
mod index;
mod ingest;
mod live;
mod otlp;
mod otlp_grpc;
mod own;
mod page;
mod permissions;
mod questions;
mod session_history;
mod status;
mod stop;

use axum::{
    Router,
    http::{HeaderMap, StatusCode},
    middleware,
};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use subscope_model::{
    Comparison, FormatSchema, Health, Hits, IdMatches, Inbox, Iterations, Jumped, Looks, OneAgent, Ordered,
    PermissionAnswered, PermissionDecision, PermissionRequests, Sending, SessionPage, Setup, Spending, Stats,
    Status, Tree,
};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    api_error::{ApiError, ErrorBody},
    request_guard,
    state::{App, AppState},
};

pub use self::{
    body_schemas::BodyTypes,
    page::{team_not_found as team_page_not_found, team_routes as team_page_routes},
    questions::{QuestionServer, TimelinePage, list_routes, session_routes},
};
pub(crate) use self::{codes::SIGN_IN, otlp::OtlpCount, page::is_page_path};

#[derive(OpenApi)]
#[openapi(info(
    title = "subscope",
    description = "What every subagent of a coding agent does. Only for programs of the same user on the same machine: \
                   docs/src/security.md says who is let in."
))]
struct ApiDocument;

/// Formats of answers that no other crate has, by name.
pub const FORMAT_SCHEMAS: &[FormatSchema] = &[
    FormatSchema::of::<session_history::EventPage>(
        "events",
        "A page of the event log",
        "`GET /api/v1/sessions/{id}/events`",
    ),
    FormatSchema::of::<session_history::FeedPage>(
        "feed",
        "A page of all events of a session",
        "`GET /api/v1/sessions/{id}/feed`",
    ),
    FormatSchema::of::<ingest::IngestReport>(
        "ingest",
        "What was ingested",
        "`POST /api/v1/ingest/{dialect}`",
    ),
    FormatSchema::of::<TimelinePage>(
        "timeline",
        "Activity and waits of each agent, and the critical path",
        "`GET /api/v1/sessions/{id}/timeline`",
    ),
];

/// What the hub begins to do.
#[derive(Serialize, JsonSchema)]
struct Announcement {
    status: &'static str,
}

/// Types of the bodies of these routes.
const BODY_TYPES: BodyTypes = BodyTypes {
    requests: &[
        SchemaGenerator::subschema_for::<subscope_client::publish::Event>,
        SchemaGenerator::subschema_for::<codes::SignInRequest>,
        SchemaGenerator::subschema_for::<inbox::Dismissal>,
        SchemaGenerator::subschema_for::<inbox::Seen>,
        SchemaGenerator::subschema_for::<index::IndexBody>,
        SchemaGenerator::subschema_for::<PermissionDecision>,
    ],
    responses: &[
        SchemaGenerator::subschema_for::<Announcement>,
        SchemaGenerator::subschema_for::<Comparison>,
        SchemaGenerator::subschema_for::<ErrorBody>,
        SchemaGenerator::subschema_for::<Health>,
        SchemaGenerator::subschema_for::<Hits>,
        SchemaGenerator::subschema_for::<IdMatches>,
        SchemaGenerator::subschema_for::<Inbox>,
        SchemaGenerator::subschema_for::<Iterations>,
        SchemaGenerator::subschema_for::<Jumped>,
        SchemaGenerator::subschema_for::<Looks>,
        SchemaGenerator::subschema_for::<OneAgent>,
        SchemaGenerator::subschema_for::<Ordered>,
        SchemaGenerator::subschema_for::<Sending>,
        SchemaGenerator::subschema_for::<PermissionAnswered>,
        SchemaGenerator::subschema_for::<PermissionDecision>,
        SchemaGenerator::subschema_for::<PermissionRequests>,
        SchemaGenerator::subschema_for::<SessionPage>,
        SchemaGenerator::subschema_for::<Setup>,
        SchemaGenerator::subschema_for::<Spending>,
        SchemaGenerator::subschema_for::<Stats>,
        SchemaGenerator::subschema_for::<Status>,
        SchemaGenerator::subschema_for::<TimelinePage>,
        SchemaGenerator::subschema_for::<Tree>,
        SchemaGenerator::subschema_for::<codes::PageAddress>,
        SchemaGenerator::subschema_for::<events::AcceptedEvent>,
        SchemaGenerator::subschema_for::<ingest::IngestReport>,
        SchemaGenerator::subschema_for::<session_history::EventPage>,
        SchemaGenerator::subschema_for::<session_history::FeedPage>,
    ],
};

/// Returns the OpenAPI document of the API routes.
pub(crate) fn document() -> serde_json::Result<serde_json::Value> {
    BODY_TYPES.describe(&api_routes().1)
}

/// Returns the API routes and their description.
fn api_routes() -> (Router<App>, utoipa::openapi::OpenApi) {
    OpenApiRouter::with_openapi(ApiDocument::openapi())
        .routes(routes!(events::post))
        .routes(routes!(hooks::post))
        .routes(routes!(ingest::post))
        .routes(routes!(otlp::traces))
        .routes(routes!(otlp::logs))
        .routes(routes!(otlp::metrics))
        .merge(list_routes(questions::stats::<AppState>))
        .merge(session_routes())
        .routes(routes!(session_history::spending))
        .routes(routes!(session_history::feed))
        .routes(routes!(session_history::export))
        .routes(routes!(session_history::events))
        .routes(routes!(stop::post))
        .routes(routes!(inbox::get))
        .routes(routes!(inbox::looks))
        .routes(routes!(inbox::dismiss))
        .routes(routes!(own::jump))
        .routes(routes!(permissions::list))
        .routes(routes!(permissions::answer))
        .routes(routes!(permissions::wait))
        .routes(routes!(inbox::seen))
        .routes(routes!(comparison::compare))
        .routes(routes!(comparison::iterations))
        .routes(routes!(live::get))
        .routes(routes!(status::get))
        .routes(routes!(index::post))
        .routes(routes!(codes::post))
        .routes(routes!(codes::sign_in))
        .routes(routes!(own::health))
        .routes(routes!(own::setup))
        .routes(routes!(own::sending))
        .routes(routes!(own::drain))
        .routes(routes!(own::metrics))
        .split_for_parts()
}

/// Returns the routes protected by the request guard; for an ingest-only listener only those of events and OpenTelemetry.
pub(crate) fn router(app: App) -> Router {
    let router = if app.post_sink.is_some() {
        let events = OpenApiRouter::new().routes(routes!(events::post)).split_for_parts().0;
        events.merge(otlp_routes()).fallback(async || ApiError::not_found("route"))
    } else {
        api_routes().0.merge(page::routes(&app)).fallback(page::not_found)
    };
    guarded(router, app)
}

/// Returns the routes over HTTP/2: those of OpenTelemetry alone. Their answers are small, so a client that does not read
/// them holds little.
pub(crate) fn http2_router(app: App) -> Router {
    let router = otlp_routes().merge(otlp_grpc::routes());
    let not_found = async |headers: HeaderMap| ApiError::not_found("route over HTTP/2").answer(&headers);
    guarded(router.fallback(not_found), app)
}

fn otlp_routes() -> Router<App> {
    let routes = OpenApiRouter::new()
        .routes(routes!(otlp::traces))
        .routes(routes!(otlp::logs))
        .routes(routes!(otlp::metrics));
    routes.split_for_parts().0
}

fn guarded(router: Router<App>, app: App) -> Router {
    router
        .method_not_allowed_fallback(async || {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this route does not take that method")
        })
        .layer(middleware::from_fn_with_state(app.clone(), request_guard::guard))
        .with_state(app)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_lists_exactly_these_routes() {
        let (_, document) = api_routes();
        let mut found: Vec<String> = Vec::new();
        for (path, item) in &document.paths.paths {
            let methods =
                [("GET", &item.get), ("POST", &item.post), ("PUT", &item.put), ("DELETE", &item.delete)];
            found.extend(
                methods.iter().filter(|(_, at)| at.is_some()).map(|(method, _)| format!("{method} {path}")),
            );
        }
        found.sort();
        let expected = [
            "GET /api/v1/agents/{id}",
            "GET /api/v1/compare",
            "GET /api/v1/inbox",
            "GET /api/v1/iterations",
            "GET /api/v1/live",
            "GET /api/v1/looks",
            "GET /api/v1/names",
            "GET /api/v1/permissions",
            "GET /api/v1/search",
            "GET /api/v1/sending",
            "GET /api/v1/sessions",
            "GET /api/v1/sessions/{id}/events",
            "GET /api/v1/sessions/{id}/export",
            "GET /api/v1/sessions/{id}/feed",
            "GET /api/v1/sessions/{id}/spending",
            "GET /api/v1/sessions/{id}/timeline",
            "GET /api/v1/sessions/{id}/tree",
            "GET /api/v1/setup",
            "GET /api/v1/stats",
            "GET /api/v1/status",
            "GET /healthz",
            "GET /hooks/permissions/{id}",
            "GET /metrics",
            "GET /openapi.json",
            "GET /ws",
            "POST /api/v1/agents/{id}/stop",
            "POST /api/v1/codes",
            "POST /api/v1/drain",
            "POST /api/v1/index",
            "POST /api/v1/ingest/{dialect}",
            "POST /api/v1/permissions/{id}/answer",
            "POST /api/v1/seen",
            "POST /api/v1/sessions/{id}/dismiss",
            "POST /api/v1/sessions/{id}/jump",
            "POST /api/v1/sign-in",
            "POST /hooks/{harness}",
            "POST /subagent-events",
            "POST /v1/logs",
            "POST /v1/metrics",
            "POST /v1/traces",
        ];
        assert_eq!(found, expected);
    }
}
