//! `subscope doctor --repair`: rebuilds a damaged store and a damaged full text.

use std::time::Duration;

use subscope_model::StatsQuery;
use subscope_query::Queries as _;
use subscope_render::text::plural;
use subscope_store::{Access, OpenError, Repaired, SqliteStore, TextIndex};

use crate::{
    command::watch::live::{self, ConnectedHub},
    hub_connection,
    prelude::*,
};

const POLL: Duration = Duration::from_millis(50);

/// Moves damaged files aside, keeps their readable content, and waits until a hub has rebuilt everything else from
/// transcripts, archive and received input.
pub(super) fn repair(context: &Context) -> Result<(), CliError> {
    let folder = context.data_folder()?;
    // This version cannot know what is damage in a newer one.
    if let Err(error @ OpenError::OtherVersion { .. }) = SqliteStore::open(&folder, Access::Read, "", 0) {
        return Err(error.into());
    }
    let store = SqliteStore::find_damage(&folder)?;
    if let Some(what) = &store {
        // A hub that cannot be asked to exit holds the lock: opening the store then fails.
        hub_connection::stop_background_hub(&folder)?;
        let Repaired { aside, deliveries, sessions } = SqliteStore::repair(&folder, context.now_us())?;
        output::print_line(&format!("the store was damaged: {what}"), context)?;
        if let Some(aside) = aside {
            output::print_line(&format!("its files are in {} now", aside.display()), context)?;
        }
        let (sessions, deliveries) = (plural(sessions, "session"), plural(deliveries, "input"));
        output::print_line(
            &format!("read from them: rows of {sessions}, {deliveries} of the inbox"),
            context,
        )?;
    }
    let texts = TextIndex::find_damage(&folder)?;
    if let Some(what) = &texts {
        TextIndex::delete(&folder)?;
        output::print_line(&format!("the full-text index was damaged and is rebuilt: {what}"), context)?;
    }
    if store.is_none() && texts.is_none() {
        return output::print("nothing is damaged\n");
    }
    let ConnectedHub { mut client, thread } = live::connect(context)?;
    while client.health()?.is_reading {
        std::thread::sleep(POLL);
    }
    let sessions = client.stats(&StatsQuery::default())?.total.sessions;
    drop((client, thread));
    output::print_line(&format!("the store has {} again", plural(sessions, "session")), context)
}
