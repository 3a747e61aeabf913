//! What happened in a session, read again from its files and from what programs handed over.

use std::ffi::OsString;

use subscope_collect::Expanded;
use subscope_fold::{Events, FoldOptions, Keep, Now};
use subscope_hub::Cold;
use subscope_model::{Event, Millis, SessionId, Tree};

use super::{
    history,
    target::{self, Reading},
};
use crate::{
    args::value::Target,
    context::Context,
    error::{CliError, Kind},
};

/// Reads a session's feed, as exports do.
pub(crate) fn events(session: &SessionId, context: &Context) -> Result<Vec<Event>, CliError> {
    let reading = Reading { keep: Keep::Payloads, events: true, at: None, dialect: None };
    let word = OsString::from(session.as_str());
    if has_files(&word, context)? {
        return events_of(&[word], context);
    }
    let mut cold = handed_over(session, &reading, context)?;
    let now = now(context.now_ms(), context)?;
    Ok(Events::all(&mut cold.fold, session, &now))
}

/// Reads the feed of the one session that TARGETs are of.
pub(crate) fn events_of(targets: &[Target], context: &Context) -> Result<Vec<Event>, CliError> {
    let reading = Reading { keep: Keep::Payloads, events: true, at: None, dialect: None };
    let mut loaded = target::load(targets, &reading, context)?;
    let session = loaded.session.clone();
    let now = loaded.now(context)?;
    Ok(Events::all(&mut loaded.cold.fold, &session, &now))
}

/// Returns a session's rows as they stood at a moment.
pub(crate) fn tree_at(session: &SessionId, at: Millis, context: &Context) -> Result<Option<Tree>, CliError> {
    let word = OsString::from(session.as_str());
    if has_files(&word, context)? {
        return tree_of(&[word], at, context).map(Some);
    }
    let reading = Reading { keep: Keep::Rows, events: false, at: Some(at), dialect: None };
    let cold = handed_over(session, &reading, context)?;
    Ok(cold.fold.tree(session, &now(at, context)?))
}

/// Returns the rows of the one session that TARGETs are of, as they stood at a moment.
pub(crate) fn tree_of(targets: &[Target], at: Millis, context: &Context) -> Result<Tree, CliError> {
    let reading = Reading { keep: Keep::Rows, events: false, at: Some(at), dialect: None };
    Ok(target::load(targets, &reading, context)?.tree)
}

/// Whether a session has files, the archive's among them.
fn has_files(word: &Target, context: &Context) -> Result<bool, CliError> {
    Ok(!target::is_gone(word, context) || history::archived(&word.to_string_lossy(), context)?.is_some())
}

/// Reads what programs told of a session of which no file does.
fn handed_over(session: &SessionId, reading: &Reading, context: &Context) -> Result<Cold, CliError> {
    let received = history::received(session, context)?;
    if received.is_empty() {
        let message = "nothing that it was made of is kept any more: only its rows are";
        return Err(CliError::new(Kind::Failed, message));
    }
    let options = FoldOptions { keep: reading.keep, cutoff: reading.at, events: reading.events };
    let mut cold = Cold::read(Expanded { groups: Vec::new(), skipped: Vec::new() }, options, None);
    cold.receive(&received);
    Ok(cold)
}

fn now(at: Millis, context: &Context) -> Result<Now<'_>, CliError> {
    let prices = &context.prices()?.table;
    Ok(Now { at, has_ended: false, is_growing: false, prices, limits: target::limits(context) })
}
