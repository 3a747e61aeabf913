//! `subscope forget`.

use subscope_hub::{ListQuery, index::forget};
use subscope_model::SessionId;
use subscope_store::{Access, History, Sqlite, Texts};

use super::{failed, index_options, open_alone, run_index};
use crate::{
    args::ForgetArgs, command::target::root_folders, context::Context, error::CliError,
    hub_connection::session_in, output,
};

/// Runs the command.
pub(crate) fn run(args: &ForgetArgs, context: &Context) -> Result<(), CliError> {
    let mut store = open_alone(context)?;
    let mut texts = Texts::open(&context.data_folder()?, Access::Write).map_err(failed)?;
    // What files there are has to be known, so that they are not taken in again; and which session is the last.
    let options = index_options(root_folders(context), context)?;
    run_index(&mut store, Some(&mut texts), &options, context)?;
    let sessions = named(args, &store, context)?;
    let count = forget(&mut store, &mut texts, &options.archive, &sessions).map_err(failed)?;
    output::print(&format!("{count} sessions forgotten\n"))
}

/// The sessions that are to be forgotten.
fn named(args: &ForgetArgs, store: &Sqlite, context: &Context) -> Result<Vec<SessionId>, CliError> {
    let Some(moment) = args.before else {
        return args.sessions.iter().map(|word| session_in(store, word)).collect();
    };
    let limit = moment.resolve(context.now_ms());
    let rows = store.list(&ListQuery::first(usize::MAX)).map_err(failed)?.into_iter();
    Ok(rows.filter(|row| row.last_event_at_ms.is_some_and(|last| last < limit)).map(|row| row.id).collect())
}
