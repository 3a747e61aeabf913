//! `subscope forget`.

use subscope_model::SessionId;
use subscope_store::{Access, Texts};

use super::{failed, open_alone};
use crate::{
    args::ForgetArgs,
    context::Context,
    error::CliError,
    output,
    reach::{Asker, Needs},
};

/// Runs the command.
pub(crate) fn run(args: &ForgetArgs, context: &Context) -> Result<(), CliError> {
    let sessions = named(args, context)?;
    let count = open_alone(context)?.forget(&sessions).map_err(failed)?;
    Texts::open(&context.data_folder()?, Access::Write).map_err(failed)?.forget(&sessions).map_err(failed)?;
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
