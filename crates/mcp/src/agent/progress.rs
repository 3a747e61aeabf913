//! What the client is told while a run goes on, where it asked for that.

use std::time::Duration;

use rmcp::{RoleServer, model::ProgressNotificationParam, service::RequestContext};
use subscope_render::{Charset, safe};
use tokio::{sync::watch, task::JoinHandle, time};

/// The shortest time between two notifications: of what happens in between the last is told.
const PACE: Duration = Duration::from_millis(200);
/// How often is told that a run still goes on when nothing happens, so that no client takes it for dead.
const BEAT: Duration = Duration::from_secs(10);
/// How much of what happens is told.
const MESSAGE_CHARS: usize = 200;

/// Takes what happens; told to nobody where nobody asked.
pub(super) type News = watch::Sender<String>;

/// Tells a call's client, until it is ended.
pub(super) struct Telling(Option<JoinHandle<()>>);

impl Telling {
    /// Ends it; when this returns nothing more is told. Behind its answer a call has no progress.
    pub(super) async fn end(self) {
        if let Some(task) = self.0 {
            task.abort();
            let _ = task.await;
        }
    }
}

/// Begins to tell a call's client what is sent.
pub(super) fn start(context: &RequestContext<RoleServer>) -> (News, Telling) {
    let (news, mut heard) = watch::channel(String::new());
    let Some(token) = context.meta.get_progress_token() else { return (news, Telling(None)) };
    let peer = context.peer.clone();
    let task = tokio::spawn(async move {
        let mut count = 0_u32;
        let mut silent = Duration::ZERO;
        loop {
            let message = match time::timeout(BEAT, heard.changed()).await {
                Ok(Ok(())) => {
                    silent = Duration::ZERO;
                    line(&heard.borrow_and_update())
                }
                Ok(Err(_)) => return,
                Err(_) => {
                    silent += BEAT;
                    format!("still at work, nothing new for {} s", silent.as_secs())
                }
            };
            count += 1;
            let progress =
                ProgressNotificationParam::new(token.clone(), f64::from(count)).with_message(message);
            if peer.notify_progress(progress).await.is_err() {
                return;
            }
            time::sleep(PACE).await;
        }
    });
    (news, Telling(Some(task)))
}

/// An agent's words as one harmless, short line.
fn line(text: &str) -> String {
    let safe = safe::line(text, Charset::Unicode);
    if safe.chars().count() <= MESSAGE_CHARS {
        return safe;
    }
    safe.chars().take(MESSAGE_CHARS - 1).chain(['…']).collect()
}
