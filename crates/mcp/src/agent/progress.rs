//! MCP progress notifications of a run, if the client requested them.

use std::time::Duration;

use rmcp::{RoleServer, model::ProgressNotificationParam, service::RequestContext};
use subscope_render::{Charset, safe};
use tokio::{sync::watch, task::JoinSet, time};

/// Shortest time between two notifications; of several messages in between, the last is sent.
const MIN_INTERVAL: Duration = Duration::from_millis(200);
/// Interval of notifications without news, so that clients do not time out.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Most characters of a message.
const MAX_MESSAGE_CHARS: usize = 200;

/// Sender of progress messages; ignored if the client requested no progress.
pub(super) type ProgressSender = watch::Sender<String>;

/// Starts the notifications of a call. MCP forbids progress after the response: shut the task down before.
pub(super) fn start(context: &RequestContext<RoleServer>) -> (ProgressSender, JoinSet<()>) {
    let (progress, mut messages) = watch::channel(String::new());
    let mut task = JoinSet::new();
    let Some(token) = context.meta.get_progress_token() else { return (progress, task) };
    let peer = context.peer.clone();
    task.spawn(async move {
        let mut count = 0_u32;
        let mut silent = Duration::ZERO;
        loop {
            let message = match time::timeout(KEEPALIVE_INTERVAL, messages.changed()).await {
                Ok(Ok(())) => {
                    silent = Duration::ZERO;
                    sanitize(&messages.borrow_and_update())
                }
                Ok(Err(_)) => return,
                Err(_) => {
                    silent += KEEPALIVE_INTERVAL;
                    format!("still at work, nothing new for {} s", silent.as_secs())
                }
            };
            count += 1;
            let progress =
                ProgressNotificationParam::new(token.clone(), f64::from(count)).with_message(message);
            if peer.notify_progress(progress).await.is_err() {
                return;
            }
            time::sleep(MIN_INTERVAL).await;
        }
    });
    (progress, task)
}

/// Sanitizes a text to one line of at most [`MAX_MESSAGE_CHARS`].
fn sanitize(text: &str) -> String {
    let safe = safe::line(text, Charset::Unicode);
    if safe.chars().count() <= MAX_MESSAGE_CHARS {
        return safe;
    }
    safe.chars().take(MAX_MESSAGE_CHARS - 1).chain(['…']).collect()
}
