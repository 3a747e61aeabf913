//! `subscope forget`.

use subscope_hub::index::forget;
use subscope_model::SessionId;
use subscope_store::{Access, Texts};

use super::{failed, index_options, open_alone, run_index};
use crate::{
    args::ForgetArgs,
    command::target::projects_folder,
    context::Context,
    error::CliError,
    output,
    reach::{Asker, Needs},
};

/// Runs the command.
pub(crate) fn run(args: &ForgetArgs, context: &Context) -> Result<(), CliError> {
    let sessions = named(args, context)?;
    let mut store = open_alone(context)?;
    let mut texts = Texts::open(&context.data_folder()?, Access::Write).map_err(failed)?;
    // What files there are has to be known, so that they are not taken in again.
    let options = index_options(vec![projects_folder(context)], context)?;
    run_index(&mut store, Some(&mut texts), &options, context)?;
    let count = forget(&mut store, &mut texts, &options.archive, &sessions).map_err(failed)?;
    output::print(&format!("{count} sessions forgotten\n"))
}

fn named(args: &ForgetArgs, context: &Context) -> Result<Vec<SessionId>, CliError> {
    let mut asker = Asker::open(Needs::Kept, context)?;
    let Some(moment) = args.before else {
        return args.sessions.iter().map(|prefix| asker.session(prefix)).collect();
    };
    let limit = moment.resolve(context.now_ms());
    let rows = asker.sessions(usize::MAX, false)?.sessions.into_iter();
    Ok(rows.filter(|row| row.last_event_at_ms.is_some_and(|last| last < limit)).map(|row| row.id).collect())
}
