//! A hub that commands start: detached from them, and there only as long as somebody needs it.

use std::{
    sync::mpsc::sync_channel,
    time::{Duration, Instant},
};

use subscope_hub::{Figures, HubHandle, ListQuery, clock};
use subscope_model::Millis;
use subscope_server::ConnectionCount;

/// A session that has not ended counts as live for so long after its last event: longer than any silence after which one that
/// is followed counts as lost. What the store still has as live beyond that nobody follows.
const LIVE_MS: Millis = 60 * 60_000;

/// Leaves the session and the terminal of whoever started this process, so that neither their end nor Ctrl-C is its own.
pub(super) fn detach() {
    // The leader of a group cannot; it was started by a shell, and its owner ends it by its terminal.
    let _ = rustix::process::setsid();
}

/// Tells when nobody has needed a hub for so long.
pub(super) struct Idle {
    limit: Duration,
    since: Instant,
    /// Connections, ingests and events when it was last looked.
    seen: (u64, u64, u64),
}

impl Idle {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, since: clock::tick(), seen: (0, 0, 0) }
    }

    /// Looks again. Whoever needs the hub: who is connected or was, who handed something over, what happened in a session,
    /// and any session that has not ended.
    pub(super) fn is_over(&mut self, hub: &HubHandle, guests: &ConnectionCount) -> bool {
        let Some(figures) = figures(hub) else { return false };
        let seen = (guests.ever(), figures.ingests + figures.repeats, figures.events);
        if guests.now() > 0 || seen != self.seen {
            self.seen = seen;
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

/// The hub's own figures; `None` where it does not answer.
pub(super) fn figures(hub: &HubHandle) -> Option<Figures> {
    let (reply, answer) = sync_channel(1);
    let told = move |figures| {
        // Whoever asked waits for it.
        let _ = reply.send(figures);
    };
    hub.figures(Box::new(told)).ok()?;
    answer.recv().ok()
}

fn is_live(hub: &HubHandle) -> bool {
    let (reply, answer) = sync_channel(1);
    let newest = ListQuery::live(1);
    if hub.sessions(newest, Box::new(move |rows| drop(reply.send(rows)))).is_err() {
        return false;
    }
    let since = clock::now_ms() - LIVE_MS;
    let rows = answer.recv().unwrap_or_default();
    rows.iter().any(|row| row.last_event_at_ms.is_some_and(|last| last > since))
}

#[cfg(test)]
mod tests {
    use subscope_hub::{Hub, HubOptions, Ingest, Memory, Nothing};

    use super::*;

    fn hub() -> Hub {
        let options = HubOptions::default();
        Hub::start(Box::new(Nothing), Box::new(Memory::new()), options).unwrap()
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
    fn hub_is_idle_when_nobody_needs_it_and_no_session_lives() {
        let hub = hub();
        let (handle, guests) = (hub.handle(), ConnectionCount::default());
        let mut idle = Idle::new(Duration::ZERO);
        assert!(idle.is_over(&handle, &guests));
        begin_an_agent(&handle, "long ago", clock::now_ms() - LIVE_MS - 1);
        assert!(idle.is_over(&handle, &guests), "what nobody follows any more");
        begin_an_agent(&handle, "now", clock::now_ms());
        assert!(!idle.is_over(&handle, &guests), "an agent is at work");
        let mut patient = Idle::new(Duration::from_secs(3600));
        assert!(!patient.is_over(&handle, &guests));
    }
}
