//! `POST /api/v1/codes` and `POST /api/v1/sign-in`: browser sign-in where a token is required.

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    api_error::ApiError,
    body::{EVENT_BYTES, JsonBody, ProtectedBody},
    peer::Transport,
    state::App,
    token::cookie_name,
};

/// Route that redeems a code for a cookie.
pub(crate) const SIGN_IN: &str = "/api/v1/sign-in";

/// A code that is redeemed.
#[derive(Deserialize, JsonSchema)]
pub(super) struct SignInRequest {
    code: String,
}

/// Where a browser signs in.
#[derive(Serialize, JsonSchema)]
pub(super) struct PageAddress {
    /// Address of the page.
    url: String,
}

/// Issues a URL of the page that signs one browser in, once, within an hour.
#[utoipa::path(
    post, path = "/api/v1/codes",
    params(("X-Subscope" = String, Header, description = "`1`. A web page cannot send this header.")),
    request_body(content_type = "application/json", description = "An empty object.", content = Object),
    responses(
        (status = 200, description = "`url`: the address of the page, with a code after its # if the server asks for a token.", body = ref("#/components/schemas/PageAddress")),
        (status = 403, description = "Without X-Subscope: 1."),
        (status = 415, description = "Not application/json."),
    )
)]
pub(super) async fn post(State(app): State<App>, _: ProtectedBody) -> Result<Json<PageAddress>, ApiError> {
    let url = app.page_at(&app.url()).map_err(|_| ApiError::unavailable("no code can be made"))?;
    Ok(Json(PageAddress { url }))
}

/// Redeems a code for a cookie that replaces the token.
#[utoipa::path(
    post, path = "/api/v1/sign-in",
    request_body(content_type = "application/json", description = "code.", content = ref("#/components/schemas/SignInRequest")),
    responses(
        (status = 204, description = "Signed in: Set-Cookie (HttpOnly, SameSite=Strict), valid until the hub ends."),
        (status = 400, description = "No code."),
        (status = 403, description = "The code was used before, is too old, or is wrong."),
        (status = 415, description = "Not application/json."),
    )
)]
pub(super) async fn sign_in(
    State(app): State<App>,
    Extension(via): Extension<Transport>,
    JsonBody((body, _share)): JsonBody<EVENT_BYTES>,
) -> Result<Response, ApiError> {
    let request: SignInRequest =
        serde_json::from_slice(&body).map_err(|_| ApiError::bad_request("the body must be {\"code\": …}"))?;
    // No token is required, so no cookie is needed.
    let (Some(token), Transport::Tcp(ours)) = (&app.token, via) else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let cookie = token.redeem(&request.code).map_err(|_| ApiError::unavailable("no cookie can be made"))?;
    let invalid = "the code was used, or is too old: subscope serve --open gives another";
    let cookie = cookie.ok_or_else(|| ApiError::forbidden(invalid))?;
    let value = format!("{}={cookie}; Path=/; HttpOnly; SameSite=Strict", cookie_name(ours.port()));
    let mut response = StatusCode::NO_CONTENT.into_response();
    // Our name and hexadecimal digits are a valid header value.
    response
        .headers_mut()
        .extend(HeaderValue::from_str(&value).ok().map(|value| (header::SET_COOKIE, value)));
    Ok(response)
}
