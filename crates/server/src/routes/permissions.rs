//! Permission requests: those that wait, a person's answer, and the hook that waits for it.

use axum::{
    Json,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use subscope_client::hook::{HELD_PERMISSION, WAITS};
use subscope_hub::{AskedPermission, clock};
use subscope_model::{
    PERMISSION_ANSWERED_SCHEMA, PERMISSIONS_SCHEMA, PermissionAnswered, PermissionDecision,
    PermissionRequest, PermissionRequests, Text,
};
use tokio::time::{Duration, MissedTickBehavior, interval, sleep};

use super::QuestionServer as _;
use crate::{
    api_error::ApiError,
    body::ProtectedBody,
    permissions::{HOLD, UnansweredReason},
    state::{App, AppState, wait_for_shutdown},
};

/// How often it is checked whether the agent still waits.
const CHECK_EVERY: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
pub(super) struct ListParameters {
    #[serde(default)]
    looking: bool,
}

/// Returns the permission requests whose hooks wait for an answer.
#[utoipa::path(
    get, path = "/api/v1/permissions",
    params(("looking" = Option<bool>, Query, description = "Whether a person looks at the answer: requests are held for ten seconds from then on.")),
    responses((status = 200, description = "subscope.permissions/1: `enabled`, and `requests`, the oldest first.", body = ref("#/components/schemas/PermissionRequests")))
)]
pub(super) async fn list(
    State(app): State<App>,
    Query(parameters): Query<ListParameters>,
) -> Json<PermissionRequests> {
    if parameters.looking {
        app.permissions.note_look();
    }
    Json(PermissionRequests {
        schema: PERMISSIONS_SCHEMA.into(),
        enabled: app.permissions.is_enabled(),
        requests: app.permissions.waiting(),
    })
}

/// Answers one permission request, once. The agent's terminal shows that a hook has decided.
#[utoipa::path(
    post, path = "/api/v1/permissions/{id}/answer",
    params(
        ("id" = String, Path, description = "The request's id."),
        ("X-Subscope" = String, Header, description = "`1`. A web page cannot send this header."),
    ),
    request_body(content_type = "application/json", description = "The decision.", content = ref("#/components/schemas/PermissionDecision")),
    responses(
        (status = 200, description = "subscope.permission-answered/1: the hook has the decision.", body = ref("#/components/schemas/PermissionAnswered")),
        (status = 400, description = "No decision, a reason for an allowed call, a text of more than 2,000 characters, or not one answer to each question of the request."),
        (status = 403, description = "Without X-Subscope: 1."),
        (status = 404, description = "No hook waits for it: it was answered in its terminal, its time is over, or it never was."),
        (status = 409, description = "It was answered before."),
        (status = 415, description = "Not application/json."),
    )
)]
pub(super) async fn answer(
    State(app): State<App>,
    Path(id): Path<Text>,
    ProtectedBody((body, _share)): ProtectedBody,
) -> Result<Json<PermissionAnswered>, ApiError> {
    let decision: PermissionDecision =
        serde_json::from_slice(&body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let (behavior, answers) = (decision.behavior, decision.answers.clone());
    let request = app.permissions.answer(&id, decision)?;
    Ok(Json(PermissionAnswered {
        schema: PERMISSION_ANSWERED_SCHEMA.into(),
        id: request.id,
        session_id: request.session_id,
        agent_id: request.agent_id,
        tool: request.tool,
        behavior,
        answers,
    }))
}

impl From<UnansweredReason> for ApiError {
    fn from(reason: UnansweredReason) -> Self {
        match reason {
            UnansweredReason::AnsweredBefore => Self::new(StatusCode::CONFLICT, "it was answered before"),
            UnansweredReason::Unknown => Self::new(
                StatusCode::NOT_FOUND,
                "no hook waits for it: it was answered in its terminal, or its time is over",
            ),
            UnansweredReason::Unfit(objection) => Self::bad_request(objection),
        }
    }
}

/// Waits for the decision about a hook's permission request. Only for the hook whose request it is.
#[utoipa::path(
    get, path = "/hooks/permissions/{id}",
    params(("id" = String, Path, description = "The id that the response to the hook's payload named.")),
    responses(
        (status = 200, description = "The decision.", body = ref("#/components/schemas/PermissionDecision")),
        (status = 204, description = "Nobody has answered: the terminal was, the time is over, or the hub ends."),
        (status = 404, description = "No such request, or its hook waits already."),
    )
)]
pub(super) async fn wait(State(app): State<App>, Path(id): Path<Text>) -> Result<Response, ApiError> {
    let mut hook = app.permissions.wait_at(&id).ok_or(ApiError::not_found("permission request"))?;
    let mut ending = app.ending.clone();
    let end = async {
        tokio::select! {
            () = wait_for_shutdown(&mut ending) => {}
            () = sleep(HOLD) => {}
            () = wait_until_settled(&app, &hook.request) => {}
        }
    };
    tokio::select! {
        biased;
        decision = &mut hook.decided => match decision {
            Ok(decision) => Ok(Json(decision).into_response()),
            Err(_) => Ok(StatusCode::NO_CONTENT.into_response()),
        },
        () = end => Ok(StatusCode::NO_CONTENT.into_response()),
    }
}

/// Waits until the agent, which waited for a permission, does so no longer: somebody has answered in its terminal.
async fn wait_until_settled(app: &AppState, request: &PermissionRequest) {
    let mut checks = interval(CHECK_EVERY);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut has_waited = false;
    loop {
        checks.tick().await;
        // A session that cannot be read now says nothing.
        let Ok(tree) = app.find_tree(&(), request.session_id.clone()).await else { continue };
        let agent = tree.agents.iter().find(|agent| agent.id == request.agent_id);
        match agent.map(|agent| agent.person_wait().is_some()) {
            Some(true) => has_waited = true,
            Some(false) if has_waited => return,
            Some(false) | None => {}
        }
    }
}

/// Whether a hook's permission request can be held: the hook can wait, and a person looks.
pub(super) fn is_attended(app: &AppState, headers: &HeaderMap) -> bool {
    headers.get(WAITS.0).is_some_and(|value| value.as_bytes() == WAITS.1.as_bytes())
        && app.permissions.is_attended()
}

/// Holds the request of a hook. Returns the response that names it to the hook; `None` if it is left to its terminal.
pub(super) fn hold(app: &AppState, asked: AskedPermission, is_repeated: bool) -> Option<Response> {
    let AskedPermission { session, agent, tool, arguments, questions, cwd } = asked;
    let request = PermissionRequest {
        id: Text::default(),
        session_id: session,
        agent_id: agent,
        tool: tool.into(),
        arguments: arguments.into(),
        questions,
        cwd: cwd.map(Text::from),
        asked_at_ms: clock::now_ms(),
        until_ms: 0,
    };
    // Without random bytes the terminal decides.
    let id = app.permissions.hold(request, is_repeated).ok()??;
    Some(Json(serde_json::json!({ HELD_PERMISSION: id })).into_response())
}
