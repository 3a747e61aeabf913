//! `POST /api/v1/codes` and `POST /api/v1/sign-in`: how a browser gets in where callers show a token.

use axum::{
    Extension, Json,
    body::Body,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    api_error::ApiError,
    body::{self, EVENT_BYTES, Kind},
    peer::Via,
    request_guard::check_meant,
    state::App,
    token::cookie_name,
};

/// Where a code is given for a cookie.
pub(crate) const SIGN_IN: &str = "/api/v1/sign-in";

#[derive(Deserialize)]
struct SignIn {
    code: String,
}

/// Makes an address of the page that lets one browser in, once, within an hour.
#[utoipa::path(
    post, path = "/api/v1/codes",
    params(("X-Subscope" = String, Header, description = "1: no web page can send it without being asked first.")),
    request_body(content_type = "application/json", description = "An empty object.", content = Object),
    responses(
        (status = 200, description = "url: the page's address, with a code behind its # where callers show a token.", body = Object),
        (status = 403, description = "Without X-Subscope: 1."),
        (status = 415, description = "Not application/json."),
    )
)]
pub(super) async fn post(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    check_meant(&headers)?;
    drop(body::read(&app, &headers, body, Kind::Json, EVENT_BYTES).await?);
    let page = app.token.as_ref().map(|token| token.page(&app.url)).transpose();
    let page = page.map_err(|_| ApiError::busy("no code can be made"))?;
    let url = page.unwrap_or_else(|| app.url.clone());
    Ok(Json(json!({ "url": url })))
}

/// Takes a code, and gives a cookie that stands for the token.
#[utoipa::path(
    post, path = "/api/v1/sign-in",
    request_body(content_type = "application/json", description = "code.", content = Object),
    responses(
        (status = 204, description = "Let in: Set-Cookie, HttpOnly and SameSite=Strict, until the hub ends."),
        (status = 400, description = "No code."),
        (status = 403, description = "The code was used, is too old, or was never one."),
        (status = 415, description = "Not application/json."),
    )
)]
pub(super) async fn sign_in(
    State(app): State<App>,
    Extension(via): Extension<Via>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let held = body::read(&app, &headers, body, Kind::Json, EVENT_BYTES).await?;
    let given: SignIn =
        serde_json::from_slice(&held.bytes).map_err(|_| ApiError::bad("the body must be {\"code\": …}"))?;
    // Where nobody has to show anything, nothing is to be given.
    let (Some(token), Via::Tcp(ours)) = (&app.token, via) else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let cookie = token.redeem(&given.code).map_err(|_| ApiError::busy("no cookie can be made"))?;
    let unfit = "the code was used, or is too old: subscope serve --open gives another";
    let cookie = cookie.ok_or_else(|| ApiError::new(StatusCode::FORBIDDEN, unfit))?;
    let said = format!("{}={cookie}; Path=/; HttpOnly; SameSite=Strict", cookie_name(ours.port()));
    let mut response = StatusCode::NO_CONTENT.into_response();
    // A name of ours and hexadecimal digits are a header's value.
    response.headers_mut().extend(HeaderValue::from_str(&said).ok().map(|said| (header::SET_COOKIE, said)));
    Ok(response)
}
