//! `subscope forget`: removes sessions from the store.

use subscope_hub::{ListQuery, index::forget};
use subscope_model::SessionId;
use subscope_render::text::plural;
use subscope_store::{Access, SessionQueries, SetAside, SqliteStore, TextIndex};

use super::{index::run_index, index_options, open_exclusively};
use crate::{command::target::root_folders, hub_connection::session_in, prelude::*};

pub(crate) fn run(args: &ForgetArgs, context: &Context) -> Result<(), CliError> {
    let mut store = open_exclusively(context)?;
    let mut texts = TextIndex::open(&context.data_folder()?, Access::Write)?;
    // Index first: existing files must be known so that they are not ingested again, and `last` must be up to date.
    let options = index_options(root_folders(context), context)?;
    run_index(&mut store, Some(&mut texts), &options, context)?;
    let sessions = sessions_to_forget(args, &store, context)?;
    let aside = SetAside::before(&context.data_folder()?, u64::MAX)
        .map_err(|error| CliError::because("cannot list the data folder", error))?;
    if !sessions.is_empty() && !aside.is_empty() {
        context.info(&format!(
            "files that a repair or a restoration set aside, which may have them, are deleted: {aside}"
        ));
    }
    let count = forget(&mut store, &mut texts, &options.archive, &sessions)?;
    output::print(&format!("{} forgotten\n", plural(count, "session")))?;
    if count > 0 && context.settings().team.url.is_some() {
        context.info("the team's server still has what was sent: the next hub removes it, or `subscope forward --once` now");
    }
    Ok(())
}

fn sessions_to_forget(
    args: &ForgetArgs,
    store: &SqliteStore,
    context: &Context,
) -> Result<Vec<SessionId>, CliError> {
    let Some(moment) = args.before else {
        return args.sessions.iter().map(|word| session_in(store, word)).collect();
    };
    let limit = moment.resolve(context.now_ms(), context.zone());
    let rows = store.list(&ListQuery::first(usize::MAX))?.into_iter();
    Ok(rows.filter(|row| row.last_event_at_ms.is_some_and(|last| last < limit)).map(|row| row.id).collect())
}
