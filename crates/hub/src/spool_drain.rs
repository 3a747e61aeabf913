//! Spool: hooks, events and lines that no hub accepted are written to files and ingested later, in the order in which
//! they were written, as if they arrived then. A file is removed after its content is saved. Input that arrives twice
//! (the hub died in between, or could not send its acknowledgement) is ingested once, because deliveries and events
//! keep their ids.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    io,
    path::PathBuf,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc::sync_channel,
    },
};

use serde::{Deserialize, Serialize};
use subscope_collect::spool::{self, Delivery, Kind, Spool, SpoolError, Spooled};
use subscope_harness::{hooked, hooks_of};
use subscope_model::{AgentId, Millis};
use subscope_session::Dialect;

use crate::{
    clock,
    command::{AskError, Asks, Ingest, IngestError},
    event_routing::PostedError,
    handle::HubHandle,
    ingest_batches::{LineBatch, delivered_dialect, line_ingests},
};

/// Returns the ingest of one hook payload, which is one line. Used for posted and spooled hooks, so that a delivery
/// that arrived both ways counts once.
pub fn hook_ingest(
    dialect: Dialect,
    delivery: &str,
    received_ms: Option<Millis>,
    payload: Vec<u8>,
) -> Ingest {
    Ingest {
        // The partition of all hooks of a harness: delivery ids are unique within it.
        source: format!("hooks/{}", dialect.as_str()),
        session: None,
        dialect: Some(dialect),
        key: delivery_key(delivery),
        received_ms,
        body: payload,
        begins: None,
        asks: Asks::Nothing,
    }
}

/// Returns the dialect of the hook payloads that are posted to a route.
pub fn hook_dialect(route: &str) -> Option<Dialect> {
    hooked().find(|(_, hooks)| hooks.route() == route).map(|(_, hooks)| hooks.dialect())
}

/// Returns the idempotency key of a delivery id.
pub fn delivery_key(id: &str) -> String {
    format!("delivery/{id}")
}

/// Result of draining a spool.
#[derive(Debug, Default)]
pub struct SpoolDrain {
    /// The number of files that were ingested.
    pub ingested: u64,
    /// Files that could not be read. They stay in the spool.
    pub unread: Vec<SpoolError>,
}

/// Ingests all spooled files. Damaged files are moved aside and reported through `report`.
///
/// # Errors
/// If the hub accepts no more: the remaining files stay in the spool.
pub fn drain_spool(
    spool: &Spool,
    hub: &HubHandle,
    report: &mut dyn FnMut(String),
) -> Result<SpoolDrain, SpoolStop> {
    let mut drained = SpoolDrain::default();
    for spooled in spool.iter() {
        let spooled = match spooled {
            Ok(spooled) => spooled,
            Err(error @ SpoolError::Unread { .. }) => {
                drained.unread.push(error);
                continue;
            }
            Err(error @ (SpoolError::Damaged { .. } | SpoolError::NoPayload { .. })) => {
                report(error.to_string());
                // A file that cannot be renamed is met again.
                let _ = spool.set_aside(&error);
                continue;
            }
        };
        let ingests = match ingests(&spooled, hub) {
            Ok(ingests) => ingests,
            Err(SpoolReject::Hub(error)) => return Err(SpoolStop::NotAsked(error)),
            Err(reject) => {
                report(format!("spooled input cannot be read: {reject}"));
                // It would never be accepted.
                let _ = spool.put_aside(&spooled);
                continue;
            }
        };
        for ingest in ingests {
            ingest_and_wait(ingest, hub)?;
        }
        // A file that cannot be removed is ingested again and recognized by its key.
        let _ = spool.remove(&spooled);
        drained.ingested += 1;
    }
    Ok(drained)
}

/// Ingests one and waits until it is saved.
fn ingest_and_wait(ingest: Ingest, hub: &HubHandle) -> Result<(), SpoolStop> {
    let (reply, answer) = sync_channel(1);
    let callback = move |taken| {
        // The receiver is gone: the file stays and is ingested again.
        let _ = reply.send(taken);
    };
    hub.ingest(ingest, Box::new(callback)).map_err(SpoolStop::NotAsked)?;
    let taken = answer.recv().map_err(|_| SpoolStop::NotAsked(AskError::Ended))?;
    taken.map(drop).map_err(SpoolStop::NotTaken)
}

/// Why a spooled file is not ingested.
#[derive(Debug, thiserror::Error)]
enum SpoolReject {
    #[error("it was published as an event, and is none: {0}")]
    Event(PostedError),
    #[error("no harness of this name has hooks")]
    Hook,
    #[error("it does not say what its lines are")]
    Lines,
    /// The hub cannot resolve its session.
    #[error(transparent)]
    Hub(AskError),
}

/// Returns the ingests of a spooled file, with its original time of arrival.
fn ingests(spooled: &Spooled, hub: &HubHandle) -> Result<Vec<Ingest>, SpoolReject> {
    let received_ms = Some(spooled.received_ms);
    match spooled.kind {
        Kind::Hook(harness) => {
            let (_, hooks) = hooks_of(harness).ok_or(SpoolReject::Hook)?;
            let body = one_line(&spooled.body);
            Ok(vec![hook_ingest(hooks.dialect(), &spooled.delivery.to_string(), received_ms, body)])
        }
        Kind::Event => {
            let posted = hub.posted_ingest(one_line(&spooled.body), None).map_err(SpoolReject::Event)?;
            let ingest = match posted.unsettled {
                None => posted.ingest,
                Some(run) => {
                    resolve_run(run, hub).map_err(SpoolReject::Hub)?;
                    hub.posted_ingest(posted.ingest.body, None).map_err(SpoolReject::Event)?.ingest
                }
            };
            Ok(vec![Ingest { received_ms, ..ingest }])
        }
        // It is left out of what waits for a hub.
        Kind::Unknown => Err(SpoolReject::Hook),
        Kind::Lines => {
            let end = memchr::memchr(b'\n', &spooled.body).ok_or(SpoolReject::Lines)?;
            let (head, lines) = spooled.body.split_at(end + 1);
            let LinesHeader { dialect, source, delivery } =
                serde_json::from_slice(head).map_err(|_| SpoolReject::Lines)?;
            let dialect = delivered_dialect(&dialect).ok_or(SpoolReject::Lines)?;
            let key = delivery_key(&delivery);
            Ok(line_ingests(LineBatch { dialect, source: &source, key: &key, received_ms }, lines).collect())
        }
    }
}

/// Joins the lines of a payload: one payload is one line.
fn one_line(body: &[u8]) -> Vec<u8> {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    body.iter().map(|byte| if is_end(byte) { b' ' } else { *byte }).collect()
}

/// Header line of a spooled file of lines.
#[derive(Serialize, Deserialize)]
struct LinesHeader {
    dialect: String,
    source: String,
    delivery: String,
}

/// Writes input that no hub accepted into the spool; files of one spooler keep their order.
#[derive(Debug)]
pub struct Spooler {
    folder: PathBuf,
    last_ns: AtomicU64,
}

impl Spooler {
    /// Returns a spooler for a folder, which is created when it is needed.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, last_ns: AtomicU64::new(0) }
    }

    /// Spools an event as a program publishes it. Returns its file, which exists until a hub has ingested it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn event(&self, event: &[u8]) -> io::Result<PathBuf> {
        spool::write(&self.folder, Kind::Event, self.delivery(), &[event])
    }

    /// Spools complete lines with the metadata of [`LineBatch`] (`delivery` instead of its key): a hub that has
    /// ingested them already ingests them once.
    ///
    /// # Errors
    /// If the file cannot be written, or the lines exceed the spool's size limit.
    pub fn lines(&self, dialect: Dialect, source: &str, delivery: &str, lines: &[u8]) -> io::Result<PathBuf> {
        let head = LinesHeader {
            dialect: dialect.as_str().to_owned(),
            source: source.to_owned(),
            delivery: delivery.to_owned(),
        };
        let mut head = serde_json::to_vec(&head)?;
        head.push(b'\n');
        if head.len() + lines.len() > spool::PAYLOAD_LIMIT_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        spool::write(&self.folder, Kind::Lines, self.delivery(), &[head.as_slice(), lines])
    }

    fn delivery(&self) -> Delivery {
        let now_ns = clock::now_ns();
        // Two calls may see the same time, or the clock may be set back.
        let later = |last_ns: u64| Some(now_ns.max(last_ns.saturating_add(1)));
        let before = self.last_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        let at_ns = now_ns.max(before.unwrap_or_default().saturating_add(1));
        // The standard library seeds its hashers from the operating system.
        let random = RandomState::new().build_hasher().finish();
        Delivery::new(at_ns, std::process::id(), random)
    }
}

/// Resolves a run that an earlier hub process may have recorded.
fn resolve_run(run: AgentId, hub: &HubHandle) -> Result<(), AskError> {
    let (reply, answer) = sync_channel(1);
    let callback = move |kept| {
        // The caller waits for it below.
        let _ = reply.send(kept);
    };
    hub.sessions_of_agent(run.clone(), Box::new(callback))?;
    hub.resolve_posted(&run, &answer.recv().map_err(|_| AskError::Ended)?);
    Ok(())
}

/// Why draining stopped.
#[derive(Debug, thiserror::Error)]
pub enum SpoolStop {
    /// The hub did not accept the command.
    #[error(transparent)]
    NotAsked(AskError),
    /// The hub could not save an ingest.
    #[error(transparent)]
    NotTaken(IngestError),
}
