//! What happened in a session, read again from all that it is made of.

use subscope_fold::FactDetail;
use subscope_model::{Event, Millis, SessionId, Tree};

use super::target::{Loaded, Reading, load, load_session};
use crate::{args::value::Target, context::Context, error::CliError};

/// How feeds are read.
const FEED: Reading = Reading { keep: FactDetail::Payloads, events: true, at: None, dialect: None };

/// Reads a session's feed, as exports do.
pub(crate) fn events(session: &SessionId, context: &Context) -> Result<Vec<Event>, CliError> {
    load_session(session, &FEED, context)?.events(context)
}

/// Reads a session's rows and feed.
pub(crate) fn session(session: &SessionId, context: &Context) -> Result<Loaded, CliError> {
    load_session(session, &FEED, context)
}

/// Reads the feed of the one session that TARGETs are of.
pub(crate) fn events_of(targets: &[Target], context: &Context) -> Result<Vec<Event>, CliError> {
    load(targets, &FEED, context)?.events(context)
}

/// Returns a session's rows as they stood at a moment.
pub(crate) fn tree_at(session: &SessionId, at: Millis, context: &Context) -> Result<Tree, CliError> {
    Ok(load_session(session, &rows_at(at), context)?.tree)
}

/// Returns the rows of the one session that TARGETs are of, as they stood at a moment.
pub(crate) fn tree_of(targets: &[Target], at: Millis, context: &Context) -> Result<Tree, CliError> {
    Ok(load(targets, &rows_at(at), context)?.tree)
}

fn rows_at(at: Millis) -> Reading {
    Reading { keep: FactDetail::Rows, events: false, at: Some(at), dialect: None }
}
