//! Questions to the hub from tasks: an answer that arrives on the hub's thread is awaited here.

use std::time::Duration;

use subscope_hub::{AskError, Reply};
use tokio::{sync::oneshot, time::timeout};

use crate::api_error::ApiError;

/// How long an answer is waited for: far more than a turn of the hub takes, so that only a hub that hangs is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks and awaits the answer.
pub(crate) async fn ask<T: Send + 'static>(
    question: impl FnOnce(Reply<T>) -> Result<(), AskError>,
) -> Result<T, ApiError> {
    let (sender, answer) = oneshot::channel();
    // Whoever asked may have left meanwhile.
    question(Box::new(move |told| drop(sender.send(told))))?;
    match timeout(PATIENCE, answer).await {
        Ok(Ok(told)) => Ok(told),
        Ok(Err(_)) => Err(AskError::Ended.into()),
        Err(_) => Err(AskError::Busy.into()),
    }
}
