//! Bodies of OpenTelemetry requests, over HTTP and gRPC: encoding, compression and size limit.

use std::{io::Read as _, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use flate2::read::MultiGzDecoder;
use subscope_hub::{Encoding, MAX_OTLP_BYTES};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    api_error::ApiError,
    body::{essence, grow, read_bytes},
    state::App,
};

/// Bytes that are decompressed before the limit is checked again.
const INFLATE_BYTES: usize = 1 << 20;

/// Length of a gRPC message's prefix: whether it is compressed (1 byte), its length (4 bytes, big endian).
pub(crate) const GRPC_PREFIX_BYTES: usize = 5;

/// A decompressed body, and its part of the memory budget, which must live as long.
pub(crate) struct OtlpBody {
    pub(crate) encoding: Encoding,
    pub(crate) bytes: Vec<u8>,
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// How a body is compressed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
}

impl OtlpBody {
    /// Reads the complete body of an HTTP request, and decompresses it: never more than its size limit, however small
    /// it was compressed.
    ///
    /// # Errors
    ///
    /// 408, 413, 415, 503 (budget exhausted), or 400 if the client disconnects or it cannot be decompressed.
    pub(crate) async fn read(app: &App, headers: &HeaderMap, body: Body) -> Result<Self, ApiError> {
        let encoding = match essence(headers) {
            kind if kind.eq_ignore_ascii_case("application/json") => Encoding::Json,
            kind if kind.eq_ignore_ascii_case("application/x-protobuf") => Encoding::Protobuf,
            _ => {
                return Err(unsupported(
                    "the content type must be application/x-protobuf or application/json",
                ));
            }
        };
        let compression = compression(headers, header::CONTENT_ENCODING.as_str())?;
        let (bytes, permit) = read_bytes(app, headers, body, MAX_OTLP_BYTES).await?;
        Self { encoding, bytes, permit }.decompressed(compression, app).await
    }

    /// Reads the one message of a unary gRPC call.
    ///
    /// # Errors
    ///
    /// As [`OtlpBody::read`], and 400 if it is not exactly one message.
    pub(crate) async fn read_grpc(app: &App, headers: &HeaderMap, body: Body) -> Result<Self, ApiError> {
        let kind = essence(headers);
        if !["application/grpc", "application/grpc+proto"]
            .iter()
            .any(|known| kind.eq_ignore_ascii_case(known))
        {
            return Err(unsupported("the content type must be application/grpc"));
        }
        let compression = compression(headers, "grpc-encoding")?;
        let (mut bytes, permit) = read_bytes(app, headers, body, MAX_OTLP_BYTES + GRPC_PREFIX_BYTES).await?;
        let compression =
            match bytes.first_chunk::<GRPC_PREFIX_BYTES>() {
                Some([flag @ 0..=1, length @ ..])
                    if u32::from_be_bytes(*length) as usize == bytes.len() - GRPC_PREFIX_BYTES =>
                {
                    if *flag == 0 { Compression::None } else { compression }
                }
                _ => return Err(ApiError::bad_request("the body must be exactly one gRPC message")),
            };
        bytes.drain(..GRPC_PREFIX_BYTES);
        Self { encoding: Encoding::Protobuf, bytes, permit }.decompressed(compression, app).await
    }

    async fn decompressed(self, compression: Compression, app: &App) -> Result<Self, ApiError> {
        if compression == Compression::None {
            return Ok(self);
        }
        let budget = Arc::clone(&app.budget);
        let Self { encoding, bytes, mut permit } = self;
        let inflating = tokio::task::spawn_blocking(move || {
            let bytes = inflate(&bytes, &budget, &mut permit)?;
            Ok(Self { encoding, bytes, permit })
        });
        inflating.await.map_err(|error| ApiError::unavailable(error.to_string()))?
    }
}

fn unsupported(why: &str) -> ApiError {
    ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why)
}

fn compression(headers: &HeaderMap, name: &str) -> Result<Compression, ApiError> {
    let mut codings = headers.get_all(name).iter();
    match (codings.next().map(|coding| coding.as_bytes()), codings.next()) {
        (None, _) => Ok(Compression::None),
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"identity") => Ok(Compression::None),
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"gzip") => Ok(Compression::Gzip),
        (Some(_), _) => Err(unsupported("the content encoding must be gzip or identity")),
    }
}

fn inflate(
    bytes: &[u8],
    budget: &Arc<Semaphore>,
    permit: &mut Option<OwnedSemaphorePermit>,
) -> Result<Vec<u8>, ApiError> {
    let mut inflated = Vec::new();
    let mut reader = MultiGzDecoder::new(bytes);
    loop {
        grow(budget, permit, bytes.len() + inflated.len() + INFLATE_BYTES)?;
        let read = reader.by_ref().take(INFLATE_BYTES as u64).read_to_end(&mut inflated);
        match read {
            Ok(0) => return Ok(inflated),
            Ok(_) if inflated.len() > MAX_OTLP_BYTES => {
                let what = format!("more than {} MiB, decompressed", MAX_OTLP_BYTES >> 20);
                return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, what));
            }
            Ok(_) => {}
            Err(_) => return Err(ApiError::bad_request("the body cannot be decompressed")),
        }
    }
}
