//! `GET /ws`: short status messages for faces that show only that subagents work (requirement 2.1).

use std::time::Duration;

use axum::{
    extract::{
        State,
        ws::{Message, WebSocket, WebSocketUpgrade},
    },
    response::Response,
};
use serde_json::{Value, json};
use subscope_hub::clock;
use subscope_model::{Event, EventKind, Update};
use tokio::time::timeout;

use super::live::{Feed, Next};
use crate::{api_error::ApiError, state::App};

/// The greatest message that is read: nothing is expected but pings.
const MESSAGE_BYTES: usize = 4 << 10;

/// Tells when subagents start, how they stand, and when they end.
#[utoipa::path(
    get, path = "/ws",
    responses(
        (status = 101, description = "Messages of the form {type: claude-status, sessionId, data: {type}, ts}, where \
            data.type is subagent-started, subagent-heartbeat, subagent-ended, stall or missed."),
        (status = 400, description = "Not a WebSocket's handshake."),
        (status = 503, description = "Too many live feeds are open."),
    )
)]
pub(super) async fn get(State(app): State<App>, upgrade: WebSocketUpgrade) -> Result<Response, ApiError> {
    let (feed, _) = Feed::open(&app, None).await?;
    let patience = app.patience.write;
    let upgrade = upgrade.max_message_size(MESSAGE_BYTES).max_frame_size(MESSAGE_BYTES);
    Ok(upgrade.on_upgrade(move |socket| tell(socket, feed, patience)))
}

async fn tell(mut socket: WebSocket, mut feed: Feed, patience: Duration) {
    loop {
        let messages = tokio::select! {
            next = feed.next() => match next {
                Some(Next::Update(Update::Event(event))) => status(&event).into_iter().collect(),
                Some(Next::Update(Update::Missed(count))) => vec![message("", json!({ "type": "missed", "count": count }))],
                Some(Next::Update(Update::Snapshot(_) | Update::Change(_) | Update::CaughtUp)) => Vec::new(),
                Some(Next::Beats(beats)) => beats.iter().filter_map(status).collect(),
                None => break,
            },
            heard = socket.recv() => match heard {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                // Pings are answered by the protocol; nothing else means anything here.
                Some(Ok(_)) => Vec::new(),
            },
        };
        for text in messages {
            match timeout(patience, socket.send(Message::Text(text.into()))).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }
    // A reader that does not hear the farewell has left.
    let _ = timeout(patience, socket.send(Message::Close(None))).await;
}

fn message(session: &str, data: Value) -> String {
    json!({ "type": "claude-status", "sessionId": session, "data": data, "ts": clock::now_ms() }).to_string()
}

/// Returns what an event says of subagents; `None` where it says nothing.
fn status(event: &Event) -> Option<String> {
    let named = |key: &str| event.data.get(key).cloned().unwrap_or(Value::Null);
    let title = || {
        let words: Vec<&str> =
            ["agent_type", "description"].into_iter().filter_map(|key| event.text(key)).collect();
        if words.is_empty() {
            event.text("agent_id").unwrap_or_default().to_owned()
        } else {
            words.join(": ")
        }
    };
    let data = match event.kind {
        EventKind::SubagentStart => json!({
            "type": "subagent-started", "message": format!("Sub-agent started: {}", title()),
            "subagentId": named("agent_id"), "subagentType": named("agent_type"),
            "description": named("description"), "parentId": named("parent_id"), "startedAtMs": event.at_ms,
        }),
        EventKind::SubagentStop => json!({
            "type": "subagent-ended", "message": format!("Sub-agent {}", event.text("status").unwrap_or("ended")),
            "subagentId": named("agent_id"), "status": named("status"), "durationMs": named("duration_ms"),
            "endedAtMs": event.at_ms,
        }),
        EventKind::Stall => json!({
            "type": "stall", "subagentId": named("agent_id"), "waitingFor": named("waiting_for"),
            "sinceMs": named("since_ms"),
        }),
        EventKind::Heartbeat if event.source.as_ref() == "subscope" => {
            let mut data = event.data.clone();
            data["type"] = Value::from("subagent-heartbeat");
            data
        }
        _ => return None,
    };
    Some(message(&event.session_id, data))
}
