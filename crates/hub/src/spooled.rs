//! Hooks, and programs that publish, left in the spool what no hub took: it is taken in as if it came now, in the order in which
//! it was left, and removed once it is kept. What comes twice (the hub died between the two, or had taken it and could not
//! say so) is kept once, because a delivery and an event keep their ids.

use std::sync::mpsc::sync_channel;

use subscope_collect::spool::{Kind, Spool, Spooled};
use subscope_fold::Dialect;
use subscope_model::{AgentId, Millis};

use crate::{
    command::{AskError, Asks, Ingest, IngestError},
    handle::HubHandle,
    posted::PostedError,
};

/// The partition of all hooks: a delivery is known by its id within it.
const HOOKS: &str = "hooks";

/// Returns the ingest of one hook payload, which stands in one line. However it comes (posted, spooled) it is made with
/// this, so that a delivery that came both ways counts once.
pub fn hook_ingest(delivery: &str, received_ms: Option<Millis>, payload: Vec<u8>) -> Ingest {
    Ingest {
        source: HOOKS.to_owned(),
        session: None,
        dialect: Some(Dialect::ClaudeHook),
        key: delivery_key(delivery),
        received_ms,
        body: payload,
        asks: Asks::Nothing,
    }
}

/// Returns the key of a delivery that has an id.
pub fn delivery_key(id: &str) -> String {
    format!("delivery/{id}")
}

/// Takes in what is spooled now and returns how many payloads that were. Ends early where the hub cannot take more; what is
/// damaged is put aside and told through `told`.
pub fn take_spool(spool: &Spool, hub: &HubHandle, told: &mut dyn FnMut(String)) -> Result<u64, SpoolStop> {
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
        let (reply, answer) = sync_channel(1);
        let ingest = match ingest(&spooled, hub) {
            Ok(ingest) => ingest,
            Err(Unfit::Hub(error)) => return Err(SpoolStop::NotAsked(error)),
            Err(Unfit::Event(error)) => {
                told(format!("what was published and spooled cannot be taken in: {error}"));
                // It would never be taken.
                let _ = spool.put_aside(&spooled);
                continue;
            }
        };
        let asked = hub.ingest(
            ingest,
            Box::new(move |taken| {
                // Whoever asked has gone: the payload stays, and is handed over again.
                let _ = reply.send(taken);
            }),
        );
        asked.map_err(SpoolStop::NotAsked)?;
        answer.recv().map_err(|_| SpoolStop::NotAsked(AskError::Ended))?.map_err(SpoolStop::NotTaken)?;
        // One that cannot be removed comes again and is known then.
        let _ = spool.remove(&spooled);
        count += 1;
    }
    Ok(count)
}

/// Why something that was spooled is not handed over.
enum Unfit {
    /// It is no event.
    Event(PostedError),
    /// The hub does not say where it belongs.
    Hub(AskError),
}

/// Returns the ingest of what was spooled, as if it came now.
fn ingest(spooled: &Spooled, hub: &HubHandle) -> Result<Ingest, Unfit> {
    // One payload is one line, however it was written.
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let body = spooled.body.iter().map(|byte| if is_end(byte) { b' ' } else { *byte }).collect();
    let received_ms = Some(spooled.received_ms);
    match spooled.kind {
        Kind::Hook => Ok(hook_ingest(&spooled.delivery.to_string(), received_ms, body)),
        Kind::Event => {
            let posted = hub.posted_ingest(body).map_err(Unfit::Event)?;
            let ingest = match posted.unsettled {
                None => posted.ingest,
                Some(run) => {
                    settle(run, hub).map_err(Unfit::Hub)?;
                    hub.posted_ingest(posted.ingest.body).map_err(Unfit::Event)?.ingest
                }
            };
            Ok(Ingest { received_ms, ..ingest })
        }
    }
}

/// Asks in which session a run is kept that a hub of before was told of.
fn settle(run: AgentId, hub: &HubHandle) -> Result<(), AskError> {
    let (reply, answer) = sync_channel(1);
    let told = move |kept| {
        // Whoever asked waits below.
        let _ = reply.send(kept);
    };
    hub.homes(run.clone(), Box::new(told))?;
    hub.settle_posted(&run, &answer.recv().map_err(|_| AskError::Ended)?);
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
