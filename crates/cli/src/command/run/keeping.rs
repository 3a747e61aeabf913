//! The hub that keeps what a run tells: the one that runs, one that is started, or one in this process.

use std::sync::{Arc, Mutex};

use subscope_collect::spool;
use subscope_hub::Spooler;
use subscope_model::HubMode;
use subscope_run::forward::{Connect, Forwarder, HubUnavailable};
use subscope_store::OpenError;

use crate::{
    command::{
        history,
        serve::Hosting,
        watch::live::{self, Host},
    },
    context::Context,
    error::CliError,
    hub_connection::{HubConnection, NoHub, Start},
};

/// Returns the ways to the hub and around it. Nothing is started before there is something to keep, and no hub is waited for.
pub(super) fn keeper(context: &Context) -> Result<Forwarder, CliError> {
    let mut reach = HubConnection::new(Start::IfNone, context)?;
    let mut hosting = None;
    if !reach.may_start() && !reach.is_listened_to() {
        match Hosting::prepare(HubMode::Command, None, context)? {
            Ok(prepared) => hosting = Some(prepared),
            Err(error @ OpenError::Locked(_)) => {
                context.warn(&format!("what this run tells is spooled for the next hub: {error}"));
            }
            Err(error) => return Err(history::failed(error)),
        }
    }
    let charset = context.style(None).charset();
    let mut host: Option<Host> = None;
    let connect = move || {
        if let Some(hosting) = hosting.take() {
            let started = live::start(hosting, &|| (), charset);
            host = Some(started.map_err(|error| HubUnavailable::Absent(error.to_string()))?);
        }
        // It lives as long as this way to it.
        let _ = &host;
        reach.hub().map_err(|nobody| match nobody {
            NoHub::NotWanted => HubUnavailable::Absent("no hub runs".to_owned()),
            NoHub::Locked => {
                HubUnavailable::Absent("another process writes the store and answers nothing".to_owned())
            }
            NoHub::Unresponsive(why) => HubUnavailable::Unresponsive(why),
            NoHub::Failed(why) => HubUnavailable::Absent(why),
        })
    };
    let connect: Connect = Arc::new(Mutex::new(Box::new(connect)));
    let spooler = Arc::new(Spooler::new(spool::folder(&context.data_folder()?)));
    Ok(Forwarder { connect, spooler })
}
