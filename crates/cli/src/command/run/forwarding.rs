//! Connects a run to the hub that stores its events: the running one, one that is started, or one in this process.

use std::sync::{Arc, Mutex};

use subscope_collect::spool;
use subscope_hub::Spooler;
use subscope_model::HubMode;
use subscope_run::forward::{Connect, Forwarder, HubUnavailable};
use subscope_store::OpenError;

use crate::{
    command::{
        serve::PreparedHub,
        watch::live::{self, HubThread},
    },
    hub_connection::{HubConnection, NoHub, StartPolicy},
    prelude::*,
};

/// Returns connection and spool for forwarding. A hub is started only when there is something to forward, and never
/// waited for here.
pub(super) fn forwarder(context: &Context) -> Result<Forwarder, CliError> {
    let mut connection = HubConnection::new(StartPolicy::IfNone, context)?;
    let mut pending = None;
    if !connection.may_start() && !connection.is_listened_to() {
        match PreparedHub::prepare(HubMode::Command, None, context)? {
            Ok(prepared) => pending = Some(prepared),
            Err(error @ OpenError::Locked(_)) => {
                context.warn(&format!("events of this run are spooled for the next hub: {error}"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let charset = context.style(None).charset();
    let mut hub_thread: Option<HubThread> = None;
    let connect = move || {
        if let Some(prepared) = pending.take() {
            let started = live::start(prepared, &|| (), charset);
            hub_thread = Some(started.map_err(|error| HubUnavailable::Absent(error.to_string()))?);
        }
        // Keeps the hub thread alive as long as this closure.
        let _ = &hub_thread;
        connection.hub().map_err(|no_hub| match no_hub {
            NoHub::Unresponsive(why) => HubUnavailable::Unresponsive(why),
            NoHub::NotWanted | NoHub::Locked | NoHub::Failed(_) => HubUnavailable::Absent(no_hub.to_string()),
        })
    };
    let connect: Connect = Arc::new(Mutex::new(Box::new(connect)));
    let spooler = Arc::new(Spooler::new(spool::folder(&context.data_folder()?)));
    Ok(Forwarder { connect, spooler })
}
