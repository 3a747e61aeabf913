//! `GET /ws`: short status messages over WebSocket, for user interfaces that only show that subagents run (requirement
//! 2.1).

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

use super::live::FeedConnection;
use crate::{api_error::ApiError, state::App};

/// Maximum size of incoming messages; only pings are expected.
const MAX_MESSAGE_BYTES: usize = 4 << 10;

/// Sends a message when a subagent starts, runs, stalls and ends.
#[utoipa::path(
    get, path = "/ws",
    responses(
        (status = 101, description = "Messages of the form {type: claude-status, sessionId, data: {type}, ts}, where \
            data.type is subagent-started, subagent-heartbeat, subagent-ended, stall or missed."),
        (status = 400, description = "Not a WebSocket handshake.", body = String, content_type = "text/plain"),
        (status = 503, description = "Too many live feeds are open."),
    )
)]
pub(super) async fn get(State(app): State<App>, upgrade: WebSocketUpgrade) -> Result<Response, ApiError> {
    let (feed, _) = FeedConnection::open(&app, None).await?;
    let timeouts = app.timeouts.write;
    let upgrade = upgrade.max_message_size(MAX_MESSAGE_BYTES).max_frame_size(MAX_MESSAGE_BYTES);
    Ok(upgrade.on_upgrade(move |socket| send_status(socket, feed, timeouts)))
}

async fn send_status(mut socket: WebSocket, mut feed: FeedConnection, timeouts: Duration) {
    loop {
        let text = tokio::select! {
            next = feed.next() => match next {
                Some(Update::Event(event)) => status_message(&event),
                Some(Update::Missed(count)) => Some(message("", json!({ "type": "missed", "count": count }))),
                Some(Update::Snapshot(_) | Update::Change(_) | Update::Reset | Update::CaughtUp) => None,
                None => break,
            },
            incoming = socket.recv() => match incoming {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                // The library answers pings; other messages are ignored.
                Some(Ok(_)) => None,
            },
        };
        if let Some(text) = text
            && !matches!(timeout(timeouts, socket.send(Message::Text(text.into()))).await, Ok(Ok(())))
        {
            return;
        }
    }
    // Fails if the client has disconnected.
    let _ = timeout(timeouts, socket.send(Message::Close(None))).await;
}

fn message(session: &str, data: Value) -> String {
    json!({ "type": "claude-status", "sessionId": session, "data": data, "ts": clock::now_ms() }).to_string()
}

/// Returns the message for an event; `None` if it is not about the state of a subagent.
#[expect(clippy::wildcard_enum_match_arm, reason = "the four messages are all that requirement 2.1 names")]
fn status_message(event: &Event) -> Option<String> {
    let field = |key: &str| event.data.get(key).cloned().unwrap_or(Value::Null);
    let title =
        || event.agent_title().or_else(|| event.text("agent_id").map(str::to_owned)).unwrap_or_default();
    let data = match event.kind {
        EventKind::SubagentStart => json!({
            "type": "subagent-started", "message": format!("Sub-agent started: {}", title()),
            "subagentId": field("agent_id"), "subagentType": field("agent_type"), "name": field("name"),
            "description": field("description"), "parentId": field("parent_id"), "startedAtMs": event.at_ms,
        }),
        EventKind::SubagentStop => json!({
            "type": "subagent-ended", "message": format!("Sub-agent {}", event.text("status").unwrap_or("ended")),
            "subagentId": field("agent_id"), "status": field("status"), "durationMs": field("duration_ms"),
            "endedAtMs": event.at_ms,
        }),
        EventKind::Stall => json!({
            "type": "stall", "subagentId": field("agent_id"), "waitingFor": field("waiting_for"),
            "sinceMs": field("since_ms"),
        }),
        EventKind::Budget => json!({
            "type": "budget", "scope": field("scope"), "day": field("day"), "percent": event.data["percent"],
            "costMicroUsd": event.data["cost_micro_usd"], "costFloor": event.data["cost_floor"],
            "budgetMicroUsd": event.data["budget_micro_usd"],
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
