//! `subscope forget`.

use subscope_hub::index::forget;
use subscope_model::SessionId;
use subscope_store::{Access, History, ListQuery, Texts};

use super::{failed, index_options, one_of, open_rows, run_index};
use crate::{args::ForgetArgs, command::target::projects_folder, context::Context, error::CliError, output};

/// Runs the command.
pub(crate) fn run(args: &ForgetArgs, context: &Context) -> Result<(), CliError> {
    let mut store = open_rows(Access::Write, context)?.map_err(failed)?;
    let mut texts = Texts::open(&context.data_folder()?, Access::Write).map_err(failed)?;
    // What files there are has to be known, so that they are not taken in again.
    let options = index_options(vec![projects_folder(context)], context)?;
    run_index(&mut store, Some(&mut texts), &options, context)?;
    let rows = store.list(&ListQuery { limit: usize::MAX, after: None, only_live: false }).map_err(failed)?;
    let sessions: Vec<SessionId> = match args.before {
        Some(moment) => {
            let limit = moment.resolve(context.now_ms());
            let is_old = |last: i64| last < limit;
            rows.into_iter()
                .filter(|row| row.last_event_at_ms.is_some_and(is_old))
                .map(|row| row.id)
                .collect()
        }
        None => args.sessions.iter().map(|prefix| one_of(&rows, prefix)).collect::<Result<_, _>>()?,
    };
    let count = forget(&mut store, &mut texts, &options.archive, &sessions).map_err(failed)?;
    output::print(&format!("{count} sessions forgotten\n"))
}
