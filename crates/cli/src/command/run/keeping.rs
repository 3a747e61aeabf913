//! The hub that keeps what a run tells: the one that runs, one that is started, or one in this process.

use std::sync::{Arc, Mutex};

use subscope_model::HubMode;
use subscope_run::keep::Connect;
use subscope_store::OpenError;

use crate::{
    command::{
        history,
        serve::Hosting,
        watch::live::{self, Host},
    },
    context::Context,
    error::CliError,
    reach::{Nobody, Reach, Start},
};

/// Returns the way to the hub; `None` where there is none to be had, which is then said. Nothing is started before there
/// is something to keep.
pub(super) fn connect(context: &Context) -> Result<Option<Connect>, CliError> {
    let mut reach = Reach::new(Start::IfNone, context)?;
    let mut hosting = None;
    if !reach.may_start() && matches!(reach.hub(), Err(Nobody::NotWanted)) {
        match Hosting::prepare(HubMode::Command, None, context)? {
            Ok(prepared) => hosting = Some(prepared),
            Err(error @ OpenError::Locked(_)) => {
                context.warn(&format!("nothing of this run is kept: {error}"));
                return Ok(None);
            }
            Err(error) => return Err(history::failed(error)),
        }
    }
    let charset = context.style(None).charset();
    let mut host: Option<Host> = None;
    let connect = move || {
        if let Some(hosting) = hosting.take() {
            host = Some(live::start(hosting, &|| (), charset).map_err(|error| error.to_string())?);
        }
        // It lives as long as this way to it.
        let _ = &host;
        reach.hub().map_err(|nobody| match nobody {
            Nobody::NotWanted => "no hub runs".to_owned(),
            Nobody::Locked => "another process writes the store and answers nothing".to_owned(),
            Nobody::Failed(why) => why,
        })
    };
    Ok(Some(Arc::new(Mutex::new(Box::new(connect)))))
}
