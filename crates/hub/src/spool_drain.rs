//! Hooks, programs that publish, and runs left in the spool what no hub took: it is taken in as if it came now, in the order in
//! which it was left, and removed once it is kept. What comes twice (the hub died between the two, or had taken it and could not
//! say so) is kept once, because a delivery and an event keep their ids.

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
use subscope_collect::spool::{self, Delivery, Kind, Spool, Spooled};
use subscope_fold::Dialect;
use subscope_harness::hooked;
use subscope_model::{AgentId, Millis};

use crate::{
    clock,
    command::{AskError, Asks, Ingest, IngestError},
    event_routing::PostedError,
    handle::HubHandle,
    ingest_batches::{LinesOf, handed_over_dialect, line_ingests},
};

/// The partition of all hooks: a delivery is known by its id within it.
const HOOKS: &str = "hooks";

/// Returns the ingest of one hook payload, which stands in one line. However it comes (posted, spooled) it is made with
/// this, so that a delivery that came both ways counts once.
pub fn hook_ingest(delivery: &str, received_ms: Option<Millis>, payload: Vec<u8>) -> Ingest {
    Ingest {
        source: HOOKS.to_owned(),
        session: None,
        dialect: hooked().map(|(_, hooks)| hooks.dialect()),
        key: delivery_key(delivery),
        received_ms,
        body: payload,
        begins: None,
        asks: Asks::Nothing,
    }
}

/// Returns the key of a delivery that has an id.
pub fn delivery_key(id: &str) -> String {
    format!("delivery/{id}")
}

/// Takes in what is spooled now and returns how many payloads that were. Ends early where the hub cannot take more; what is
/// damaged is put aside and told through `told`.
pub fn drain_spool(spool: &Spool, hub: &HubHandle, told: &mut dyn FnMut(String)) -> Result<u64, SpoolStop> {
    let mut count = 0;
    for spooled in spool.iter() {
        let spooled = match spooled {
            Ok(spooled) => spooled,
            Err(error) => {
                told(error.to_string());
                // What cannot even be renamed is met again.
                let _ = spool.set_aside(&error);
                continue;
            }
        };
        let ingests = match ingests(&spooled, hub) {
            Ok(ingests) => ingests,
            Err(Unfit::Hub(error)) => return Err(SpoolStop::NotAsked(error)),
            Err(unfit) => {
                told(format!("what was spooled cannot be taken in: {unfit}"));
                // It would never be taken.
                let _ = spool.put_aside(&spooled);
                continue;
            }
        };
        for ingest in ingests {
            take(ingest, hub)?;
        }
        // One that cannot be removed comes again and is known then.
        let _ = spool.remove(&spooled);
        count += 1;
    }
    Ok(count)
}

/// Hands one over, and waits until it is kept.
fn take(ingest: Ingest, hub: &HubHandle) -> Result<(), SpoolStop> {
    let (reply, answer) = sync_channel(1);
    let told = move |taken| {
        // Whoever asked has gone: the payload stays, and is handed over again.
        let _ = reply.send(taken);
    };
    hub.ingest(ingest, Box::new(told)).map_err(SpoolStop::NotAsked)?;
    let taken = answer.recv().map_err(|_| SpoolStop::NotAsked(AskError::Ended))?;
    taken.map(drop).map_err(SpoolStop::NotTaken)
}

/// Why something that was spooled is not handed over.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error("it was published as an event, and is none: {0}")]
    Event(PostedError),
    #[error("it does not say what its lines are")]
    Lines,
    /// The hub does not say where it belongs.
    #[error(transparent)]
    Hub(AskError),
}

/// Returns the ingests of what was spooled, as if it came now.
fn ingests(spooled: &Spooled, hub: &HubHandle) -> Result<Vec<Ingest>, Unfit> {
    let received_ms = Some(spooled.received_ms);
    match spooled.kind {
        Kind::Hook => {
            let body = one_line(&spooled.body);
            Ok(vec![hook_ingest(&spooled.delivery.to_string(), received_ms, body)])
        }
        Kind::Event => {
            let posted = hub.posted_ingest(one_line(&spooled.body)).map_err(Unfit::Event)?;
            let ingest = match posted.unsettled {
                None => posted.ingest,
                Some(run) => {
                    settle(run, hub).map_err(Unfit::Hub)?;
                    hub.posted_ingest(posted.ingest.body).map_err(Unfit::Event)?.ingest
                }
            };
            Ok(vec![Ingest { received_ms, ..ingest }])
        }
        Kind::Lines => {
            let end = memchr::memchr(b'\n', &spooled.body).ok_or(Unfit::Lines)?;
            let (head, lines) = spooled.body.split_at(end + 1);
            let Head { dialect, source, delivery } =
                serde_json::from_slice(head).map_err(|_| Unfit::Lines)?;
            let dialect = handed_over_dialect(&dialect).ok_or(Unfit::Lines)?;
            let key = delivery_key(&delivery);
            Ok(line_ingests(LinesOf { dialect, source: &source, key: &key, received_ms }, lines).collect())
        }
    }
}

/// One payload is one line, however it was written.
fn one_line(body: &[u8]) -> Vec<u8> {
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    body.iter().map(|byte| if is_end(byte) { b' ' } else { *byte }).collect()
}

/// The first line of lines that are spooled.
#[derive(Serialize, Deserialize)]
struct Head {
    dialect: String,
    source: String,
    delivery: String,
}

/// Puts into the spool what no hub takes, each thing behind all that was put there before by the same one.
#[derive(Debug)]
pub struct Spooler {
    folder: PathBuf,
    last_ns: AtomicU64,
}

impl Spooler {
    /// Spools into a folder, which is made when it is needed.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, last_ns: AtomicU64::new(0) }
    }

    /// Spools an event as a program publishes it. Returns its file, which is there until a hub has taken it.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn event(&self, event: &[u8]) -> io::Result<PathBuf> {
        spool::write(&self.folder, Kind::Event, self.delivery(), &[event])
    }

    /// Spools whole lines that would be handed over to a hub with the same words ([`LinesOf`], `delivery` in place of its key): one
    /// that has taken them already takes them once.
    ///
    /// # Errors
    /// What the operating system says; that they are more than the spool takes.
    pub fn lines(&self, dialect: Dialect, source: &str, delivery: &str, lines: &[u8]) -> io::Result<PathBuf> {
        let head = Head {
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
        // The clock may stand still between two, or be set back.
        let later = |last_ns: u64| Some(now_ns.max(last_ns.saturating_add(1)));
        let before = self.last_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        let at_ns = now_ns.max(before.unwrap_or_default().saturating_add(1));
        // The standard library seeds its hashers from the operating system.
        let random = RandomState::new().build_hasher().finish();
        Delivery::new(at_ns, std::process::id(), random)
    }
}

/// Asks in which session a run is kept that a hub of before was told of.
fn settle(run: AgentId, hub: &HubHandle) -> Result<(), AskError> {
    let (reply, answer) = sync_channel(1);
    let told = move |kept| {
        // Whoever asked waits below.
        let _ = reply.send(kept);
    };
    hub.sessions_of_agent(run.clone(), Box::new(told))?;
    hub.resolve_posted(&run, &answer.recv().map_err(|_| AskError::Ended)?);
    Ok(())
}

/// Why the rest of a spool waits on.
#[derive(Debug, thiserror::Error)]
pub enum SpoolStop {
    /// The hub was not even asked.
    #[error(transparent)]
    NotAsked(AskError),
    /// The hub could not keep one.
    #[error(transparent)]
    NotTaken(IngestError),
}
