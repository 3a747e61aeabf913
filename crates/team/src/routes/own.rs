//! Routes about the server itself: health, metrics, the caller, the OpenAPI document.

use std::{fmt::Write as _, sync::atomic::Ordering};

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::Serialize;
use subscope_hub::clock;
use subscope_server::ApiError;

use super::TeamApp;
use crate::{auth::Caller, read::TeamFilter};

/// State of a team's server.
#[derive(Serialize, JsonSchema)]
pub(super) struct TeamHealth {
    /// `ok`, or what fails.
    status: &'static str,
    version: &'static str,
    /// Always `team`.
    mode: &'static str,
}

/// Who a token or cookie belongs to.
#[derive(Serialize, JsonSchema)]
pub(super) struct CallerIdentity {
    tenant: String,
    user: String,
    team: String,
    /// `writer`, `reader` or `admin`.
    role: &'static str,
}

/// Reports whether the server and its ClickHouse answer. The only route that needs no token.
#[utoipa::path(
    get, path = "/healthz",
    responses(
        (status = 200, description = "status, version.", body = ref("#/components/schemas/TeamHealth")),
        (status = 503, description = "ClickHouse does not answer, or has no tables: a server creates them when it starts.", body = ref("#/components/schemas/TeamHealth")),
    )
)]
pub(super) async fn health(State(app): State<TeamApp>) -> Response {
    let (code, status) = match app.engine.is_ready().await {
        Ok(()) => (StatusCode::OK, "ok"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "ClickHouse does not answer, or has no tables"),
    };
    let health = TeamHealth { status, version: env!("CARGO_PKG_VERSION"), mode: "team" };
    (code, Json(health)).into_response()
}

/// Returns the identity of the request's token or cookie.
#[utoipa::path(
    get, path = "/api/v1/me",
    responses((status = 200, description = "tenant, user, team, role.", body = ref("#/components/schemas/CallerIdentity")), (status = 401, description = "No valid token or cookie."))
)]
pub(super) async fn me(caller: Caller) -> Json<CallerIdentity> {
    let identity = caller.identity;
    Json(CallerIdentity {
        tenant: identity.tenant.as_str().to_owned(),
        user: identity.user,
        team: identity.team,
        role: identity.role.as_str(),
    })
}

/// Returns figures in the text format of Prometheus: of this server, and the age of each machine of the tenant.
#[utoipa::path(
    get, path = "/metrics",
    responses((status = 200, description = "Text of the Prometheus exposition format 0.0.4.", body = String), (status = 401, description = "No token."))
)]
pub(super) async fn metrics(
    State(app): State<TeamApp>,
    caller: Caller,
) -> Result<impl IntoResponse, ApiError> {
    let machines = app.read(&caller.identity, TeamFilter::default(), |reader| reader.machines()).await?;
    let counters = &app.gather.counters;
    let mut text = String::new();
    let mut figure = |name: &str, kind: &str, help: &str, value: u64| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    };
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    figure(
        "subscope_team_sessions_total",
        "counter",
        "Snapshots that were stored.",
        count(&counters.sessions),
    );
    figure("subscope_team_rows_total", "counter", "Rows that were stored.", count(&counters.rows));
    figure(
        "subscope_team_inserts_total",
        "counter",
        "Inserts that ClickHouse took.",
        count(&counters.inserts),
    );
    figure(
        "subscope_team_failed_inserts_total",
        "counter",
        "Inserts that it did not take.",
        count(&counters.failed),
    );
    figure(
        "subscope_team_waiting_bytes",
        "gauge",
        "Bytes that wait to be stored.",
        app.gather.waiting_bytes() as u64,
    );
    let name = "subscope_team_answers_total";
    let _ = writeln!(text, "# HELP {name} Answers by status.\n# TYPE {name} counter");
    for (class, count) in (1..).zip(app.answers()) {
        let _ = writeln!(text, "{name}{{status=\"{class}xx\"}} {count}");
    }
    let name = "subscope_team_machine_age_seconds";
    let _ = writeln!(
        text,
        "# HELP {name} Time since a machine saved its newest session here.\n# TYPE {name} gauge"
    );
    for (machine, last) in machines {
        let age = (clock::now_ms() - last).max(0) / 1000;
        let _ = writeln!(text, "{name}{{machine=\"{}\"}} {age}", escaped(&machine));
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text))
}

/// Escapes a label's value; names of machines come from elsewhere.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], "\\n")
}
