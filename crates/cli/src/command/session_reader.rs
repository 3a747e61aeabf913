//! Reads a session again from all of its sources: files, archive, stored input.

use subscope_model::{Event, Millis, SessionId, Tree};
use subscope_session::FactDetail;

use super::target::{LoadedSession, ReadOptions, load, load_session};
use crate::{args::value::TargetArg, context::Context, error::CliError};

/// Options for reading a feed.
const FEED: ReadOptions = ReadOptions { keep: FactDetail::Payloads, events: true, at: None, dialect: None };

/// Reads the events of a session, as exports do.
pub(crate) fn read_events(session: &SessionId, context: &Context) -> Result<Vec<Event>, CliError> {
    load_session(session, &FEED, context)?.events(context)
}

/// Reads the rows and events of a session.
pub(crate) fn read_session(session: &SessionId, context: &Context) -> Result<LoadedSession, CliError> {
    load_session(session, &FEED, context)
}

/// Reads the events of the one session that the TARGETs belong to.
pub(crate) fn read_target_events(targets: &[TargetArg], context: &Context) -> Result<Vec<Event>, CliError> {
    load(targets, &FEED, context)?.events(context)
}

/// Reads the rows of a session at a past time.
pub(crate) fn read_tree_at(session: &SessionId, at: Millis, context: &Context) -> Result<Tree, CliError> {
    Ok(load_session(session, &rows_at(at), context)?.tree)
}

/// Reads the rows, at a past time, of the one session that the TARGETs belong to.
pub(crate) fn read_target_tree_at(
    targets: &[TargetArg],
    at: Millis,
    context: &Context,
) -> Result<Tree, CliError> {
    Ok(load(targets, &rows_at(at), context)?.tree)
}

fn rows_at(at: Millis) -> ReadOptions {
    ReadOptions { keep: FactDetail::Rows, events: false, at: Some(at), dialect: None }
}
