//! Reading a body: its type, its cap, its share of the memory that all bodies have, and how long it may take.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use futures_util::StreamExt;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{
    api_error::ApiError,
    state::{App, BUDGET_PIECE},
};

/// The cap of one posted event.
pub(crate) const EVENT_BYTES: usize = 4 << 20;
/// The cap of one hook payload.
pub(crate) const HOOK_BYTES: usize = 16 << 20;
/// The cap of one ingest.
pub(crate) const INGEST_BYTES: usize = 256 << 20;

/// What a body may hold. Neither is anything that a form of a web page can send without being asked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `application/json`.
    Json,
    /// `application/x-ndjson`, or `application/json` for a single line.
    Lines,
}

/// A body, and its share of the memory for bodies, which it gives back when it is dropped.
pub(crate) struct Held {
    pub(crate) bytes: Vec<u8>,
    share: Share,
}

impl Held {
    /// Splits the bytes from their share, which must live as long as they do.
    pub(crate) fn split(self) -> (Vec<u8>, Share) {
        (self.bytes, self.share)
    }
}

/// A share of the memory for bodies.
pub(crate) struct Share {
    _permit: Option<OwnedSemaphorePermit>,
}

/// Reads a body whole.
pub(crate) async fn read(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    kind: Kind,
    cap: usize,
) -> Result<Held, ApiError> {
    check_type(headers, kind)?;
    let too_large = || ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("more than {} MiB", cap >> 20));
    let length =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > cap as u64) {
        return Err(too_large());
    }
    let most = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(cap);
    let too_slow = || ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body comes too slowly");
    let reading = async {
        let (mut bytes, mut permit) = (Vec::new(), None);
        let mut frames = body.into_data_stream();
        loop {
            let frame = tokio::select! {
                frame = timeout(app.patience.body_idle, frames.next()) => frame.map_err(|_| too_slow())?,
                () = app.crowd.is_sent_away() => return Err(too_slow()),
            };
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|_| ApiError::bad("the body broke off"))?;
            if bytes.len() + frame.len() > cap {
                return Err(too_large());
            }
            let needed = bytes.len() + frame.len();
            if needed > bytes.capacity() {
                // What is reserved is what is held, so that is what is taken from the budget.
                let room = needed.max(most.min(bytes.capacity() * 2));
                grow(&app.budget, &mut permit, room)?;
                bytes.reserve_exact(room - bytes.len());
            }
            bytes.extend_from_slice(&frame);
        }
        Ok(Held { bytes, share: Share { _permit: permit } })
    };
    timeout(app.patience.body, reading).await.map_err(|_| too_slow())?
}

/// Takes as much of the budget as so many bytes need.
fn grow(
    budget: &Arc<Semaphore>,
    permit: &mut Option<OwnedSemaphorePermit>,
    bytes: usize,
) -> Result<(), ApiError> {
    let has = permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let lacks = u32::try_from(bytes.div_ceil(BUDGET_PIECE).saturating_sub(has)).unwrap_or(u32::MAX);
    if lacks == 0 {
        return Ok(());
    }
    let busy = |_| ApiError::busy("too much is being handed over at once");
    let more = Arc::clone(budget).try_acquire_many_owned(lacks).map_err(busy)?;
    match permit {
        Some(permit) => permit.merge(more),
        None => *permit = Some(more),
    }
    Ok(())
}

fn check_type(headers: &HeaderMap, kind: Kind) -> Result<(), ApiError> {
    let wrong = |why: &str| Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    let given: Vec<_> = headers.get_all(header::CONTENT_TYPE).iter().collect();
    let essence = match given.as_slice() {
        [one] => one.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim(),
        _ => "",
    };
    let is_json = essence.eq_ignore_ascii_case("application/json");
    let is_lines = essence.eq_ignore_ascii_case("application/x-ndjson");
    match kind {
        Kind::Json if !is_json => return wrong("the content type must be application/json"),
        Kind::Lines if !(is_json || is_lines) => {
            return wrong("the content type must be application/x-ndjson or application/json");
        }
        Kind::Json | Kind::Lines => {}
    }
    let coding = headers.get(header::CONTENT_ENCODING).map(|value| value.as_bytes());
    if coding.is_some_and(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
        return wrong("compressed bodies are not read");
    }
    Ok(())
}

/// Makes one line of a JSON value: a line end can stand only between its tokens.
pub(crate) fn one_line(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn grow_takes_from_the_budget_and_gives_back() {
        let budget = Arc::new(Semaphore::new(3));
        let mut permit = None;
        grow(&budget, &mut permit, 1).unwrap();
        grow(&budget, &mut permit, BUDGET_PIECE).unwrap();
        assert_eq!(budget.available_permits(), 2);
        grow(&budget, &mut permit, 3 * BUDGET_PIECE).unwrap();
        assert!(grow(&budget, &mut permit, 3 * BUDGET_PIECE + 1).is_err());
        drop(permit);
        assert_eq!(budget.available_permits(), 3);
    }

    #[test]
    fn types_that_forms_can_send_are_refused() {
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
            assert_eq!(check_type(&headers, Kind::Json).is_ok(), is_event, "{given}");
            assert_eq!(check_type(&headers, Kind::Lines).is_ok(), is_lines, "{given}");
        }
        assert!(check_type(&HeaderMap::new(), Kind::Json).is_err());
    }
}
