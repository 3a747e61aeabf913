//! Relays what child processes post, to the hub or an outer run, and to the run's own hub: events, which get the run's
//! session, and OpenTelemetry records, which have a session of their own.

use std::{
    fmt,
    net::{SocketAddr, ToSocketAddrs},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, TrySendError, sync_channel},
    },
    time::Duration,
};

use serde_json::{Map, Value};
use subscope_client::{Address, Client, ClientError, publish};
use subscope_decode::{Dialect, SUBAGENT_EVENTS};
use subscope_hub::{AskError, HubHandle, Ingest, IngestError, IngestReceipt, ReplyCallback};
use subscope_model::{AgentId, SessionId, true_id};
use subscope_server::PostSink;

use crate::{
    CommandRunError,
    forward::{DeliveryError, PostForwarder},
    line_tap::SessionName,
    record::PostLog,
};

/// Queued events; each is an HTTP request that waits for its response.
const QUEUE_EVENTS: usize = 512;
/// Maximum number of events per delivery.
const BATCH_EVENTS: usize = 128;

/// Destination of what is posted.
#[derive(Debug)]
pub enum PostRoute {
    /// The machine's hub, or its spool.
    Forward(PostForwarder),
    /// An outer run, which stores them.
    Upstream(Upstream),
    /// Not stored.
    Nowhere,
}

/// Listener of an outer run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upstream(SocketAddr);

impl Upstream {
    /// Parses the URL of an outer run; `None` if it is not an `http` URL with a port.
    pub fn parse(url: &str) -> Option<Self> {
        let authority = url.trim().strip_prefix("http://")?.trim_end_matches('/');
        let address = authority.to_socket_addrs().ok()?.next()?;
        Some(Self(address))
    }

    /// Posts an event; returns whether a user asked that its run stop.
    fn post(self, body: &[u8]) -> Result<bool, ClientError> {
        let answer = Client::connect(Address::Tcp(self.0))?.post("/subagent-events", body)?;
        Ok(publish::is_stop(&answer))
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "http://{}", self.0)
    }
}

/// Sessions of posted OpenTelemetry records, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub struct RecordSessions(Arc<Mutex<Vec<SessionId>>>);

impl RecordSessions {
    fn known(&self) -> MutexGuard<'_, Vec<SessionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, sessions: &[SessionId]) {
        let mut known = self.known();
        for session in sessions {
            if !known.contains(session) {
                known.push(session.clone());
            }
        }
    }

    /// Returns their ids: also those that a trace had before its session was named.
    pub fn ids(&self) -> Vec<SessionId> {
        self.known().clone()
    }
}

/// A posted ingest with the callback for its response.
type PostedItem = (Ingest, ReplyCallback<Result<IngestReceipt, IngestError>>);

struct RelayWorker {
    hub: HubHandle,
    session: Arc<SessionName>,
    /// Session of the first events, used for all others.
    session_id: Option<String>,
    route: PostRoute,
    /// Working folder of the command, for events without one.
    cwd: String,
    /// Timeout of waiting for the session.
    session_timeout: Duration,
    logs: Option<PostLogs>,
    record_sessions: RecordSessions,
}

/// Files of a record.
#[derive(Debug)]
pub struct PostLogs {
    /// For events.
    pub events: PostLog,
    /// For OpenTelemetry records.
    pub records: PostLog,
}

/// Starts a thread that relays what is posted, in order; returns the callback for the listener, and the sessions of
/// OpenTelemetry records. The first events wait for the session to be detected, at most `session_timeout`.
///
/// # Errors
/// No thread is available.
pub fn relay_posts(
    hub: HubHandle,
    (session, cwd): (Arc<SessionName>, String),
    route: PostRoute,
    session_timeout: Duration,
    logs: Option<PostLogs>,
) -> Result<(PostSink, RecordSessions), CommandRunError> {
    let (items, inbox) = sync_channel(QUEUE_EVENTS);
    let record_sessions = RecordSessions::default();
    let own = record_sessions.clone();
    let worker = RelayWorker {
        hub,
        session,
        session_id: None,
        route,
        cwd,
        session_timeout,
        logs,
        record_sessions: own,
    };
    let build = std::thread::Builder::new().name("posted".to_owned());
    build.spawn(move || worker.run(&inbox)).map_err(CommandRunError::System)?;
    let sink: PostSink = Arc::new(move |ingest, reply| {
        items.try_send((ingest, reply)).map_err(|error| match error {
            TrySendError::Full(_) => AskError::Busy,
            TrySendError::Disconnected(_) => AskError::Ended,
        })
    });
    Ok((sink, record_sessions))
}

impl RelayWorker {
    fn run(mut self, inbox: &Receiver<PostedItem>) {
        while let Ok(first) = inbox.recv() {
            let mut batch = vec![first];
            batch.extend(inbox.try_iter().take(BATCH_EVENTS - 1));
            let is_event = |item: &PostedItem| item.0.dialect == Some(SUBAGENT_EVENTS);
            let (events, records): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_event);
            if !events.is_empty() {
                self.relay_events(events);
            }
            for (ingest, reply) in records {
                self.relay_records(ingest, reply);
            }
        }
    }

    /// Relays OpenTelemetry records of one session and dialect.
    fn relay_records(&mut self, ingest: Ingest, reply: ReplyCallback<Result<IngestReceipt, IngestError>>) {
        let Some(dialect) = ingest.dialect else {
            return reply(Err(IngestError::Store("records of no dialect".to_owned())));
        };
        let mut line = ingest.body.clone();
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        if let Some(logs) = &mut self.logs {
            logs.records.write(&line);
        }
        if let Err(error) = self.forward(dialect, line) {
            return reply(Err(IngestError::Store(error.to_string())));
        }
        let sessions = self.record_sessions.clone();
        let with_sessions: ReplyCallback<_> = Box::new(move |outcome: Result<IngestReceipt, IngestError>| {
            outcome.iter().for_each(|receipt| sessions.add(&receipt.sessions));
            reply(outcome);
        });
        // An ended hub drops the reply, and the listener responds with an error.
        let _ = self.hub.ingest(ingest, with_sessions);
    }

    /// Stores lines where they go; returns the agents that a user asked to stop.
    fn forward(&mut self, dialect: Dialect, lines: Vec<u8>) -> Result<Vec<AgentId>, DeliveryError> {
        match &mut self.route {
            PostRoute::Forward(forwarder) => forwarder.forward(dialect, lines),
            // An outer run has the event, and its listener takes records itself.
            PostRoute::Upstream(_) | PostRoute::Nowhere => Ok(Vec::new()),
        }
    }

    fn relay_events(&mut self, batch: Vec<PostedItem>) {
        let session = self.session_id.get_or_insert_with(|| self.session.get(self.session_timeout)).clone();
        let (mut taken, mut lines) = (Vec::new(), Vec::new());
        let mut to_stop = Vec::new();
        for (ingest, reply) in batch {
            let is_stop = match self.route {
                PostRoute::Upstream(upstream) => match upstream.post(&ingest.body) {
                    Ok(is_stop) => is_stop,
                    Err(error) => {
                        let why = format!("the outer run does not take it: {error}");
                        reply(Err(IngestError::Store(why)));
                        continue;
                    }
                },
                PostRoute::Forward(_) | PostRoute::Nowhere => false,
            };
            // With the session the partition changes too: one decoder must read all of a session.
            match self.hub.posted_ingest(set_session(ingest.body, &true_id(&session), &self.cwd), None) {
                Ok(placed) => {
                    lines.extend_from_slice(&placed.ingest.body);
                    to_stop.extend(is_stop.then_some(placed.run));
                    taken.push((placed.ingest, reply));
                }
                Err(error) => reply(Err(IngestError::Store(error.to_string()))),
            }
        }
        if let Some(logs) = &mut self.logs {
            logs.events.write(&lines);
        }
        if !lines.is_empty() && matches!(self.route, PostRoute::Forward(_)) {
            match self.forward(SUBAGENT_EVENTS, lines) {
                Ok(asked) => to_stop = asked,
                Err(error) => {
                    let why = error.to_string();
                    return taken
                        .into_iter()
                        .for_each(|(_, reply)| reply(Err(IngestError::Store(why.clone()))));
                }
            }
        }
        for (ingest, reply) in taken {
            // This run's own hub knows no orders: the outer run or the machine's hub does.
            let to_stop = to_stop.clone();
            let with_orders: ReplyCallback<_> =
                Box::new(move |outcome: Result<IngestReceipt, IngestError>| {
                    reply(outcome.map(|receipt| IngestReceipt { to_stop, ..receipt }));
                });
            // An ended hub drops the reply, and the listener responds with an error.
            let _ = self.hub.ingest(ingest, with_orders);
        }
    }
}

/// Sets the session of an event to the run's, and a missing folder; returns it as one line.
fn set_session(body: Vec<u8>, session: &str, cwd: &str) -> Vec<u8> {
    let Ok(mut event) = serde_json::from_slice::<Map<String, Value>>(&body) else { return body };
    event.insert("sessionId".to_owned(), Value::from(session));
    event.entry("cwd").or_insert_with(|| Value::from(cwd));
    let mut line = Value::Object(event).to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_get_the_session_of_the_run() {
        let line = |body: &str| String::from_utf8(set_session(body.as_bytes().to_vec(), "s", "/w")).unwrap();
        assert_eq!(
            line(r#"{"type":"x","sessionId":"other","payload":{"b":1,"a":2}}"#),
            "{\"type\":\"x\",\"sessionId\":\"s\",\"payload\":{\"b\":1,\"a\":2},\"cwd\":\"/w\"}\n"
        );
        assert_eq!(line(r#"{"cwd":"/own"}"#), "{\"cwd\":\"/own\",\"sessionId\":\"s\"}\n");
    }

    #[test]
    fn urls_of_outer_runs_are_parsed() {
        let address = |port: u16| Some(Upstream(SocketAddr::from(([127, 0, 0, 1], port))));
        assert_eq!(Upstream::parse("http://127.0.0.1:4567"), address(4567));
        assert_eq!(Upstream::parse(" http://127.0.0.1:80/ "), address(80));
        for none in ["", "127.0.0.1:80", "https://127.0.0.1:80", "http://127.0.0.1"] {
            assert_eq!(Upstream::parse(none), None, "{none}");
        }
    }
}
