//! Request bodies: content type, size limit, shared memory budget and timeouts.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{FromRequest, Request},
    http::{HeaderMap, StatusCode, header},
};
use futures_util::StreamExt;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{
    api_error::ApiError,
    request_guard::require_csrf_header,
    state::{App, BUDGET_UNIT},
};

/// Size limit of a posted event.
pub(crate) const EVENT_BYTES: usize = 4 << 20;
/// Size limit of a hook payload.
pub(crate) const HOOK_BYTES: usize = 16 << 20;
/// Size limit of an ingest request.
pub(crate) const INGEST_BYTES: usize = 256 << 20;

/// Accepted content type. A web page cannot send either from a form, or without a CORS preflight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyType {
    /// `application/json`.
    Json,
    /// `application/x-ndjson`, or `application/json` for a single line.
    Lines,
}

/// A body, and its part of the memory budget, which must live as long.
pub(crate) type RequestBody = (Vec<u8>, Option<OwnedSemaphorePermit>);

/// Extractor of a JSON body of at most so many bytes.
pub(crate) struct JsonBody<const MAX_BYTES: usize>(pub(crate) RequestBody);

impl<const MAX_BYTES: usize> FromRequest<App> for JsonBody<MAX_BYTES> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        let (head, body) = request.into_parts();
        read(app, &head.headers, body, BodyType::Json, MAX_BYTES).await.map(Self)
    }
}

/// Extractor of a small JSON body; it requires the header that protects state-changing requests.
pub(crate) struct ProtectedBody(pub(crate) RequestBody);

impl FromRequest<App> for ProtectedBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        require_csrf_header(request.headers())?;
        let JsonBody(body) = JsonBody::<EVENT_BYTES>::from_request(request, app).await?;
        Ok(Self(body))
    }
}

/// Reads a complete body.
///
/// # Errors
///
/// 408, 413, 415, 503 (budget exhausted), or 400 if the client disconnects.
pub(crate) async fn read(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    body_type: BodyType,
    max_bytes: usize,
) -> Result<RequestBody, ApiError> {
    check_type(headers, body_type)?;
    read_bytes(app, headers, body, max_bytes).await
}

/// Reads a complete body of any type.
///
/// # Errors
///
/// As [`read`], but for the type.
pub(crate) async fn read_bytes(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    max_bytes: usize,
) -> Result<RequestBody, ApiError> {
    let too_large =
        || ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("more than {} MiB", max_bytes >> 20));
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > max_bytes as u64) {
        return Err(too_large());
    }
    let expected = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(max_bytes);
    let too_slow = || ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body comes too slowly");
    let reading = async {
        let (mut bytes, mut permit) = (Vec::new(), None);
        let mut frames = body.into_data_stream();
        loop {
            let frame = tokio::select! {
                frame = timeout(app.timeouts.body_idle, frames.next()) => frame.map_err(|_| too_slow())?,
                () = app.limiter.wait_for_eviction() => return Err(too_slow()),
            };
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|_| ApiError::bad_request("the body broke off"))?;
            if bytes.len() + frame.len() > max_bytes {
                return Err(too_large());
            }
            let needed = bytes.len() + frame.len();
            if needed > bytes.capacity() {
                // The allocation counts, not the content.
                let capacity = needed.max(expected.min(bytes.capacity() * 2));
                grow(&app.budget, &mut permit, capacity)?;
                bytes.reserve_exact(capacity - bytes.len());
            }
            bytes.extend_from_slice(&frame);
        }
        Ok((bytes, permit))
    };
    timeout(app.timeouts.body, reading).await.map_err(|_| too_slow())?
}

/// Extends a permit to `bytes` of the budget.
pub(crate) fn grow(
    budget: &Arc<Semaphore>,
    permit: &mut Option<OwnedSemaphorePermit>,
    bytes: usize,
) -> Result<(), ApiError> {
    let held = permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let missing = u32::try_from(bytes.div_ceil(BUDGET_UNIT).saturating_sub(held)).unwrap_or(u32::MAX);
    if missing == 0 {
        return Ok(());
    }
    let busy = |_| ApiError::busy("too many bytes are being received at once");
    let more = Arc::clone(budget).try_acquire_many_owned(missing).map_err(busy)?;
    match permit {
        Some(permit) => permit.merge(more),
        None => *permit = Some(more),
    }
    Ok(())
}

/// Returns the content type without its parameters; empty if there is not exactly one.
pub(crate) fn essence(headers: &HeaderMap) -> &str {
    let given: Vec<_> = headers.get_all(header::CONTENT_TYPE).iter().collect();
    match given.as_slice() {
        [one] => one.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim(),
        _ => "",
    }
}

/// Whether a request is a gRPC call.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let essence = essence(headers);
    essence.get(..16).is_some_and(|start| start.eq_ignore_ascii_case("application/grpc"))
}

fn check_type(headers: &HeaderMap, body_type: BodyType) -> Result<(), ApiError> {
    let wrong = |why: &str| Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    let essence = essence(headers);
    let is_json = essence.eq_ignore_ascii_case("application/json");
    let is_lines = essence.eq_ignore_ascii_case("application/x-ndjson");
    match body_type {
        BodyType::Json if !is_json => return wrong("the content type must be application/json"),
        BodyType::Lines if !(is_json || is_lines) => {
            return wrong("the content type must be application/x-ndjson or application/json");
        }
        BodyType::Json | BodyType::Lines => {}
    }
    let coding = headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes());
    if coding.is_some_and(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
        return wrong("compressed bodies are not read");
    }
    Ok(())
}

/// Replaces line breaks of a JSON text by spaces: unescaped, they occur between tokens only.
pub(crate) fn join_lines(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn budget_is_acquired_and_released() {
        let budget = Arc::new(Semaphore::new(3));
        let mut permit = None;
        grow(&budget, &mut permit, 1).unwrap();
        grow(&budget, &mut permit, BUDGET_UNIT).unwrap();
        assert_eq!(budget.available_permits(), 2);
        grow(&budget, &mut permit, 3 * BUDGET_UNIT).unwrap();
        assert!(grow(&budget, &mut permit, 3 * BUDGET_UNIT + 1).is_err());
        drop(permit);
        assert_eq!(budget.available_permits(), 3);
    }

    #[test]
    fn content_types_of_forms_are_refused() {
        for (given, is_event, is_lines) in [
            ("application/json", true, true),
            ("Application/JSON; charset=utf-8", true, true),
            ("application/x-ndjson", false, true),
            ("text/plain", false, false),
            ("text/plain; application/json", false, false),
            ("application/x-www-form-urlencoded", false, false),
            ("multipart/form-data; boundary=application/json", false, false),
            ("", false, false),
        ] {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(given))]);
            assert_eq!(check_type(&headers, BodyType::Json).is_ok(), is_event, "{given}");
            assert_eq!(check_type(&headers, BodyType::Lines).is_ok(), is_lines, "{given}");
        }
        assert!(check_type(&HeaderMap::new(), BodyType::Json).is_err());
    }
}
