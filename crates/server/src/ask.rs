//! Hub queries from async tasks: the reply arrives on the hub's thread.

use std::time::Duration;

use subscope_hub::{AskError, ReplyCallback};
use tokio::{sync::oneshot, time::timeout};

use crate::api_error::ApiError;

/// Timeout of a reply: far more than one iteration of the event loop takes, so that only a hanging hub exceeds it.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends a query to the hub and awaits the reply.
pub(crate) async fn ask<T: Send + 'static>(
    query: impl FnOnce(ReplyCallback<T>) -> Result<(), AskError>,
) -> Result<T, ApiError> {
    let (sender, receiver) = oneshot::channel();
    // The client may have disconnected meanwhile.
    query(Box::new(move |reply| drop(sender.send(reply))))?;
    match timeout(REPLY_TIMEOUT, receiver).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(_)) => Err(AskError::Ended.into()),
        Err(_) => Err(AskError::Busy.into()),
    }
}
