//! Hooks, and programs that publish, left in the spool what no hub took: it is taken in as if it came now, in the order in which
//! it was left, and removed once it is kept. What comes twice (the hub died between the two, or had taken it and could not
//! say so) is kept once, because a delivery and an event keep their ids.

use std::sync::mpsc::sync_channel;

use subscope_collect::spool::{Kind, Spool, Spooled};
use subscope_fold::Dialect;
use subscope_model::Millis;

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
            Err(error) => {
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

/// Returns the ingest of what was spooled, as if it came now.
fn ingest(spooled: &Spooled, hub: &HubHandle) -> Result<Ingest, PostedError> {
    // One payload is one line, however it was written.
    let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let body = spooled.body.iter().map(|byte| if is_end(byte) { b' ' } else { *byte }).collect();
    let received_ms = Some(spooled.received_ms);
    match spooled.kind {
        Kind::Hook => Ok(hook_ingest(&spooled.delivery.to_string(), received_ms, body)),
        Kind::Event => Ok(Ingest { received_ms, ..hub.posted_ingest(body)? }),
    }
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
