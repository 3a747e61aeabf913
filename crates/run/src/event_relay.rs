//! Events that descendants of the child post: of the run's session, kept or passed on to an outer run, and shown.

use std::{
    net::{SocketAddr, ToSocketAddrs},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    time::Duration,
};

use serde_json::{Map, Value};
use subscope_client::{Address, Client};
use subscope_hub::{AskError, HubHandle, Ingest, IngestError, Reply, Taken};
use subscope_server::Taker;

use crate::{RunError, forward::PostForwarder, line_tap::SessionName, record::EventsLog};

/// How many events may wait: each is a request that waits for its answer.
const QUEUE: usize = 512;
/// How many are kept at once.
const GROUP: usize = 128;

/// Where events go on to.
#[derive(Debug)]
pub enum EventRoute {
    /// To whoever keeps what this run tells.
    Keep(PostForwarder),
    /// To an outer run, which keeps them.
    Upstream(Upstream),
    /// Nowhere.
    Nowhere,
}

/// An outer run that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upstream(SocketAddr);

impl Upstream {
    /// Reads the address that an outer run has left; `None` where it is none that events can be posted to.
    pub fn parse(url: &str) -> Option<Self> {
        let authority = url.trim().strip_prefix("http://")?.trim_end_matches('/');
        let address = authority.to_socket_addrs().ok()?.next()?;
        Some(Self(address))
    }

    fn pass_on(self, body: &[u8]) -> Result<(), String> {
        let posted = Client::connect(Address::Tcp(self.0))
            .and_then(|mut client| client.post("/subagent-events", body));
        posted.map(drop).map_err(|error| format!("the outer run does not take it: {error}"))
    }
}

type Item = (Ingest, Reply<Result<Taken, IngestError>>);

/// Takes events in order, on a thread of its own.
#[derive(Debug)]
pub struct Posted {
    items: SyncSender<Item>,
}

struct Work {
    hub: HubHandle,
    session: Arc<SessionName>,
    /// What the session was called when the first events came: the others are of it, too.
    named: Option<String>,
    way: EventRoute,
    /// The working folder of the command: where whoever posts says nothing else, it is there.
    cwd: String,
    /// How long the name of the session is waited for.
    patience: Duration,
    log: Option<EventsLog>,
}

impl Posted {
    /// Starts taking. `patience` is how long the first events wait for the child to name its session.
    ///
    /// # Errors
    /// Where there is no thread.
    pub fn start(
        hub: HubHandle,
        (session, cwd): (Arc<SessionName>, String),
        way: EventRoute,
        patience: Duration,
        log: Option<EventsLog>,
    ) -> Result<Self, RunError> {
        let (items, inbox) = sync_channel(QUEUE);
        let work = Work { hub, session, named: None, way, cwd, patience, log };
        let build = std::thread::Builder::new().name("posted".to_owned());
        build.spawn(move || work.run(&inbox)).map_err(RunError::System)?;
        Ok(Self { items })
    }

    /// What the listener gives events to.
    pub fn taker(self) -> Taker {
        Arc::new(move |ingest, reply| {
            self.items.try_send((ingest, reply)).map_err(|error| match error {
                TrySendError::Full(_) => AskError::Busy,
                TrySendError::Disconnected(_) => AskError::Ended,
            })
        })
    }
}

impl Work {
    fn run(mut self, inbox: &Receiver<Item>) {
        while let Ok(first) = inbox.recv() {
            let mut group = vec![first];
            group.extend(inbox.try_iter().take(GROUP - 1));
            self.take(group);
        }
    }

    fn take(&mut self, group: Vec<Item>) {
        let session = self.named.get_or_insert_with(|| self.session.get(self.patience)).clone();
        let (mut taken, mut lines) = (Vec::new(), Vec::new());
        for (ingest, reply) in group {
            if let EventRoute::Upstream(upstream) = self.way
                && let Err(why) = upstream.pass_on(&ingest.body)
            {
                reply(Err(IngestError::Store(why)));
                continue;
            }
            // Its session is another now, and so is the stream that it belongs to: one decoder must read all of a session.
            match self.hub.posted_ingest(of_session(ingest.body, &session, &self.cwd)) {
                Ok(placed) => {
                    lines.extend_from_slice(&placed.ingest.body);
                    taken.push((placed.ingest, reply));
                }
                Err(error) => reply(Err(IngestError::Store(error.to_string()))),
            }
        }
        if let Some(log) = &mut self.log {
            log.write(&lines);
        }
        if let EventRoute::Keep(desk) = &mut self.way
            && !lines.is_empty()
            && let Err(why) = desk.keep(lines)
        {
            return taken.into_iter().for_each(|(_, reply)| reply(Err(IngestError::Store(why.clone()))));
        }
        for (ingest, reply) in taken {
            // A hub that has ended drops the answer, and the listener says so.
            let _ = self.hub.ingest(ingest, reply);
        }
    }
}

/// Writes the session into an event, as one line: it is the run's, whatever the event says; and the folder, where it says none.
fn of_session(body: Vec<u8>, session: &str, cwd: &str) -> Vec<u8> {
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
    fn events_are_of_the_run_s_session() {
        let line = |body: &str| String::from_utf8(of_session(body.as_bytes().to_vec(), "s", "/w")).unwrap();
        assert_eq!(
            line(r#"{"type":"x","sessionId":"other","payload":{"b":1,"a":2}}"#),
            "{\"type\":\"x\",\"sessionId\":\"s\",\"payload\":{\"b\":1,\"a\":2},\"cwd\":\"/w\"}\n"
        );
        assert_eq!(line(r#"{"cwd":"/own"}"#), "{\"cwd\":\"/own\",\"sessionId\":\"s\"}\n");
    }

    #[test]
    fn addresses_of_outer_runs_are_read() {
        let address = |port: u16| Some(Upstream(SocketAddr::from(([127, 0, 0, 1], port))));
        assert_eq!(Upstream::parse("http://127.0.0.1:4567"), address(4567));
        assert_eq!(Upstream::parse(" http://127.0.0.1:80/ "), address(80));
        for none in ["", "127.0.0.1:80", "https://127.0.0.1:80", "http://127.0.0.1"] {
            assert_eq!(Upstream::parse(none), None, "{none}");
        }
    }
}
