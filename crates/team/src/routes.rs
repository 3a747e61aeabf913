//! Routes and their OpenAPI document: those of a hub's server that a team's store can answer, and its own.

mod codes;
mod description;
mod elsewhere;
mod forget;
mod live;
mod own;
mod people;
mod questions;
mod shared;
mod stats;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use axum::{Router, http::StatusCode, middleware};
use schemars::SchemaGenerator;
use subscope_model::{
    Hits, IdMatches, OneAgent, People, SessionPage, Snapshot, Status, Tree, WorkingSessions,
};
use subscope_server::{
    ApiError, BodyTypes, ErrorBody, TimelinePage, list_routes, session_routes, team_page_not_found,
    team_page_routes,
};
use subscope_store::StoreResult;
use tokio::{runtime::Handle, sync::Semaphore};
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use self::{
    questions::{TeamScope, failed_query},
    shared::{RequestKey, SharedAnswers},
};
use crate::{
    auth,
    engine::Engine,
    gather::Gather,
    ingest,
    read::{Reader, TeamFilter},
    tokens::{Identity, TokenFile},
};

/// Maximum number of live feeds.
const MAX_LIVE_FEEDS: usize = 512;

/// Shared state of all routes. Cheap to clone.
pub(crate) type TeamApp = Arc<TeamState>;

pub(crate) struct TeamState {
    pub(crate) engine: Engine,
    pub(crate) gather: Gather,
    pub(crate) tokens: TokenFile,
    /// Whether this server itself speaks TLS.
    pub(crate) is_tls: bool,
    pub(crate) feeds: Arc<Semaphore>,
    /// Answers by the first digit of their status, 1 to 5.
    answers: [AtomicU64; 5],
    shared: SharedAnswers<RequestKey>,
}

impl TeamState {
    pub(crate) fn new(engine: Engine, gather: Gather, tokens: TokenFile, is_tls: bool) -> TeamApp {
        let feeds = Arc::new(Semaphore::new(MAX_LIVE_FEEDS));
        Arc::new(Self {
            engine,
            gather,
            tokens,
            is_tls,
            feeds,
            answers: Default::default(),
            shared: SharedAnswers::default(),
        })
    }

    pub(crate) fn count_answer(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(count) = self.answers.get(class) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn answers(&self) -> [u64; 5] {
        self.answers.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Reads the rows of a caller's tenant, on a thread that may wait.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        caller: &Identity,
        filter: TeamFilter,
        question: impl FnOnce(&Reader) -> StoreResult<T> + Send + 'static,
    ) -> Result<T, ApiError> {
        let reader = Reader::new(&self.engine, &caller.tenant, filter, Handle::current());
        let answer = tokio::task::spawn_blocking(move || question(&reader)).await;
        let answer = answer.map_err(|error| ApiError::unavailable(error.to_string()))?;
        answer.map_err(|error| failed_query(&error))
    }
}

#[derive(OpenApi)]
#[openapi(info(
    title = "subscope team",
    description = "Sessions of a team's machines. Every route but /healthz wants a token of the server's token file: \
                   Authorization: Bearer, or the cookie that a browser gets for a code."
))]
struct TeamApiDocument;

/// Routes whose answers equal requests share.
fn shared_routes() -> OpenApiRouter<TeamApp> {
    OpenApiRouter::with_openapi(TeamApiDocument::openapi())
        .merge(list_routes(stats::stats))
        .routes(routes!(people::people))
        .routes(routes!(people::working))
}

fn own_routes() -> OpenApiRouter<TeamApp> {
    OpenApiRouter::new()
        .routes(routes!(ingest::post))
        .routes(routes!(forget::post))
        .merge(session_routes())
        .merge(elsewhere::routes())
        .routes(routes!(live::get))
        .routes(routes!(codes::post))
        .routes(routes!(codes::sign_in))
        .routes(routes!(own::me))
        .routes(routes!(own::health))
        .routes(routes!(own::metrics))
}

/// Types of the bodies of these routes.
const BODY_TYPES: BodyTypes = BodyTypes {
    requests: &[
        SchemaGenerator::subschema_for::<codes::CodeRequest>,
        SchemaGenerator::subschema_for::<forget::ForgetRequest>,
    ],
    responses: &[
        SchemaGenerator::subschema_for::<ErrorBody>,
        SchemaGenerator::subschema_for::<Hits>,
        SchemaGenerator::subschema_for::<IdMatches>,
        SchemaGenerator::subschema_for::<OneAgent>,
        SchemaGenerator::subschema_for::<People>,
        SchemaGenerator::subschema_for::<SessionPage>,
        SchemaGenerator::subschema_for::<Snapshot>,
        SchemaGenerator::subschema_for::<Status>,
        SchemaGenerator::subschema_for::<TimelinePage>,
        SchemaGenerator::subschema_for::<Tree>,
        SchemaGenerator::subschema_for::<WorkingSessions>,
        SchemaGenerator::subschema_for::<codes::PagePath>,
        SchemaGenerator::subschema_for::<forget::Forgotten>,
        SchemaGenerator::subschema_for::<ingest::StoredLines>,
        SchemaGenerator::subschema_for::<own::CallerIdentity>,
        SchemaGenerator::subschema_for::<own::TeamHealth>,
        SchemaGenerator::subschema_for::<stats::StatsAnswer>,
    ],
};

/// Returns all routes.
pub(crate) fn router(app: TeamApp) -> Router {
    let shared = Router::from(shared_routes());
    shared
        .route_layer(middleware::from_fn_with_state(app.clone(), shared::share))
        .merge(Router::from(own_routes()))
        .merge(team_page_routes())
        .fallback(team_page_not_found)
        .method_not_allowed_fallback(async || {
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this route does not take that method")
        })
        .layer(middleware::from_fn_with_state(app.clone(), auth::guard))
        .with_state(app)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[test]
    fn every_reference_of_the_document_names_a_schema() {
        let document = super::description::document().unwrap();
        assert_eq!(subscope_testkit::openapi::unresolved_references(&document), Vec::<String>::new());
    }

    #[test]
    fn probes_of_the_deployments_are_routes_that_need_no_token() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/teams");
        let mut probes = Vec::new();
        for (file, key) in [("Caddyfile", "health_uri "), ("kubernetes/team.yaml", "httpGet: {path: ")] {
            let text = fs::read_to_string(folder.join(file)).unwrap();
            let found =
                text.split(key).skip(1).map(|rest| rest.split([',', '\n', '}']).next().unwrap().trim());
            let before = probes.len();
            probes.extend(found.map(str::to_owned));
            assert!(probes.len() > before, "no probe was found in {file}");
        }
        let description = super::description::document().unwrap();
        for probe in probes {
            let answers = &description["paths"][&probe]["get"]["responses"];
            assert!(answers["200"].is_object() && answers["401"].is_null(), "{probe}: {answers}");
        }
    }
}
