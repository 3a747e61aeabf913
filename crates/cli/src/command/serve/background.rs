//! Detects that a background hub is idle.

use std::time::{Duration, Instant};

use subscope_hub::{Figures, HubHandle, ListQuery, clock};
use subscope_model::Millis;
use subscope_server::ConnectionCount;

use super::ask_hub;

/// Time after its last event for which a session that has not ended counts as live. Longer than any silence after which
/// a followed session counts as lost: older sessions that the store has as live are no longer followed.
const LIVE_MS: Millis = 60 * 60_000;

/// Detects that a hub has been idle for a time.
pub(super) struct IdleDetector {
    limit: Duration,
    since: Instant,
    /// Connections, ingests and events at the last check.
    counters: (u64, u64, u64),
}

impl IdleDetector {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, since: clock::tick(), counters: (0, 0, 0) }
    }

    /// Checks again; returns true once idle. Not idle: open or new connections, ingests, events, and live sessions.
    pub(super) fn is_idle(&mut self, hub: &HubHandle, connections: &ConnectionCount) -> bool {
        let Some(hub_figures) = hub_figures(hub) else { return false };
        let counters = (connections.ever(), hub_figures.ingests + hub_figures.repeats, hub_figures.events);
        if connections.now() > 0 || counters != self.counters {
            self.counters = counters;
            self.since = clock::tick();
        }
        if self.since.elapsed() < self.limit {
            return false;
        }
        if is_live(hub) {
            self.since = clock::tick();
            return false;
        }
        true
    }
}

/// Returns the hub's counters; `None` if it does not answer.
pub(super) fn hub_figures(hub: &HubHandle) -> Option<Figures> {
    ask_hub(Duration::MAX, |reply| hub.figures(reply))
}

fn is_live(hub: &HubHandle) -> bool {
    let since = clock::now_ms() - LIVE_MS;
    let page =
        ask_hub(Duration::MAX, |reply| hub.ask(None, reply, |queries| queries.sessions(&ListQuery::live(1))));
    let rows = page.and_then(Result::ok).unwrap_or_default().sessions;
    rows.iter().any(|row| row.last_event_at_ms.is_some_and(|last| last > since))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use subscope_hub::{Hub, HubOptions, Ingest, MemoryStore, Nothing};

    use super::*;

    fn hub() -> Hub {
        let options = HubOptions::default();
        Hub::start(Box::new(Nothing), Box::new(MemoryStore::new()), options).unwrap()
    }

    fn begin_an_agent(hub: &HubHandle, session: &str, at_ms: Millis) {
        let body = format!(
            r#"{{"subagentName":"w","subagentRunId":"r","timestamp":{at_ms},"type":"subagent_start"}}"#
        );
        let ingest = Ingest {
            source: "events".to_owned(),
            session: Some(session.to_owned()),
            dialect: Some(subscope_decode::SUBAGENT_EVENTS),
            key: session.to_owned(),
            received_ms: None,
            body: body.into_bytes(),
            begins: None,
            asks: subscope_hub::Asks::Nothing,
        };
        let (reply, answer) = sync_channel(1);
        hub.ingest(ingest, Box::new(move |taken| drop(reply.send(taken)))).unwrap();
        answer.recv().unwrap().unwrap();
    }

    #[test]
    fn hub_is_idle_without_connections_and_live_sessions() {
        let hub = hub();
        let (handle, connections) = (hub.handle(), ConnectionCount::default());
        let mut idle = IdleDetector::new(Duration::ZERO);
        assert!(idle.is_idle(&handle, &connections));
        begin_an_agent(&handle, "long ago", clock::now_ms() - LIVE_MS - 1);
        assert!(idle.is_idle(&handle, &connections), "what nobody follows any more");
        begin_an_agent(&handle, "now", clock::now_ms());
        assert!(!idle.is_idle(&handle, &connections), "an agent is at work");
        let mut patient = IdleDetector::new(Duration::from_secs(3600));
        assert!(!patient.is_idle(&handle, &connections));
    }
}
