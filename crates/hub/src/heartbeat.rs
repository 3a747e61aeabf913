//! Heartbeat events: the state of running agents at a steady interval (requirement 2.1).

use serde_json::json;
use subscope_model::{
    Actor, Agent, AgentId, Basis, Event, EventKind, EventSchema, Flag, Millis, SessionId, event_id,
};

/// Returns a heartbeat of a session: the last activity of its running agents, never a mere sign that the watcher lives.
/// `beat` is its number, so that two at the same time have different ids.
pub fn heartbeat(session: &SessionId, rows: &[&Agent], now: Millis, beat: u64) -> Event {
    // A requested agent that has not started yet counts from its request.
    let oldest = rows.iter().filter_map(|row| row.started_at_ms.or(row.last_event_at_ms)).min();
    let elapsed = oldest.map_or(0, |start| (now - start).max(0) / 1000);
    let agents: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "id": row.id, "type": row.agent_type, "name": row.name, "description": row.description,
                "liveness": row.liveness,
                "last_event_age_ms": row.last_event_at_ms.map(|last| (now - last).max(0)),
                "stalled": row.has(Flag::Stalled),
            })
        })
        .collect();
    Event {
        schema: EventSchema,
        id: event_id(session, &format!("heartbeat/{now}/{beat}")),
        seq: 0,
        at_ms: Some(now),
        session_id: session.clone(),
        run: 0,
        actor_id: Actor(AgentId::from(AgentId::ROOT)),
        basis: Basis::Link,
        source: "subscope".into(),
        kind: EventKind::Heartbeat,
        data: json!({
            "message": format!("Sub-agent processing... ({elapsed}s)"), "subagentCount": rows.len(),
            "elapsedSeconds": elapsed, "agents": agents,
        }),
    }
}
