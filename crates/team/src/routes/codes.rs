//! Lets a browser in: a code that the owner of a token asks for, and the cookie that it is redeemed for.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use subscope_server::ApiError;

use super::TeamApp;
use crate::auth::{COOKIE, TokenCaller, check_tokens, require_csrf_header};

/// Most characters of a code.
const MAX_CODE: usize = 300;

/// A code that is redeemed.
#[derive(Deserialize, JsonSchema)]
pub(super) struct CodeRequest {
    code: String,
}

/// Where a browser signs in.
#[derive(Serialize, JsonSchema)]
pub(super) struct PagePath {
    /// Path below the server's URL.
    path: String,
}

/// Issues a path of the page that signs one browser in, once, within five minutes.
#[utoipa::path(
    post, path = "/api/v1/codes",
    params(("X-Subscope" = String, Header, description = "`1`. A web page cannot send this header.")),
    responses(
        (status = 200, description = "path: append it to the server's URL.", body = ref("#/components/schemas/PagePath")),
        (status = 401, description = "No token; a cookie issues no codes."),
        (status = 403, description = "Without X-Subscope: 1."),
    )
)]
pub(super) async fn post(
    State(app): State<TeamApp>,
    caller: TokenCaller,
    headers: HeaderMap,
) -> Result<Json<PagePath>, ApiError> {
    require_csrf_header(&headers)?;
    let token = caller.token;
    let code = check_tokens(&app, move |tokens| tokens.code(&token)).await?.ok().flatten();
    let code = code.ok_or_else(|| ApiError::unavailable("no code can be made"))?;
    Ok(Json(PagePath { path: format!("/#code={code}") }))
}

/// Redeems a code for a cookie that replaces the token.
#[utoipa::path(
    post, path = "/api/v1/sign-in",
    request_body(content_type = "application/json", description = "code.", content = ref("#/components/schemas/CodeRequest")),
    responses(
        (status = 204, description = "Signed in: Set-Cookie (HttpOnly, SameSite=Strict), valid for 30 days or until the token is revoked."),
        (status = 403, description = "The code was used before, is too old, or is wrong."),
    )
)]
pub(super) async fn sign_in(
    State(app): State<TeamApp>,
    headers: HeaderMap,
    Json(request): Json<CodeRequest>,
) -> Result<Response, ApiError> {
    let cookie = match request.code.len() <= MAX_CODE {
        true => check_tokens(&app, move |tokens| tokens.redeem(&request.code)).await?,
        false => None,
    };
    let invalid = "the code was used, or is too old: `subscope team page` gives another";
    let cookie = cookie.ok_or_else(|| ApiError::forbidden(invalid))?;
    let is_https = app.is_tls || headers.get("x-forwarded-proto").is_some_and(|value| value == "https");
    let secure = if is_https { "; Secure" } else { "" };
    let value = format!("{COOKIE}={cookie}; Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict{secure}");
    let mut response = StatusCode::NO_CONTENT.into_response();
    // Letters, digits and dots are a valid header value.
    response
        .headers_mut()
        .extend(HeaderValue::from_str(&value).ok().map(|value| (header::SET_COOKIE, value)));
    Ok(response)
}
