//! The commands over everything that is kept. They ask through [`Asker`]; `index` and `forget` write the store themselves,
//! for which a hub that some command started leaves.

pub(super) mod forget;
pub(super) mod index;
mod iterations;
pub(super) mod ls;
pub(super) mod search;
pub(super) mod show;
pub(super) mod stats;
pub(super) mod status;

use std::ops::ControlFlow;

use subscope_collect::{Found, Group, archive::Archive};
use subscope_fold::REVISION;
use subscope_hub::index::{IndexOptions, Progress, Report, index as take_in};
use subscope_model::{SessionId, Tree, event_id};
use subscope_store::{Access, History, OpenError, Received, Sqlite, Texts};

use super::target::{limits, projects_folder};
use crate::{
    context::Context,
    error::{CliError, Kind},
    reach::{self, Asker, Needs},
};

/// Names what rows are made by: the rules, and the prices that costs rest on.
pub(super) fn rules(context: &Context) -> Result<String, CliError> {
    let prices = format!("{:?}", context.prices()?.table);
    Ok(format!("{REVISION}-{}", event_id("prices", &prices)))
}

/// Opens the rows. Who only asks for what is there need not name the rules.
pub(crate) fn open_rows(access: Access, context: &Context) -> Result<Result<Sqlite, OpenError>, CliError> {
    let now_us = u64::try_from(context.now_ms()).unwrap_or(0) * 1000;
    Ok(Sqlite::open(&context.data_folder()?, access, &rules(context)?, now_us))
}

pub(crate) fn failed(error: impl Into<anyhow::Error>) -> CliError {
    CliError::caused(Kind::Failed, error)
}

/// What is read where the harness has deleted a file.
pub(crate) fn archive(context: &Context) -> Result<Archive, CliError> {
    Ok(Archive::new(context.data_folder()?.join("archive")))
}

pub(super) fn index_options(
    roots: Vec<std::path::PathBuf>,
    context: &Context,
) -> Result<IndexOptions, CliError> {
    Ok(IndexOptions {
        roots,
        prices: context.prices()?.table.clone(),
        limits: limits(context),
        now_ms: context.now_ms(),
        workers: None,
        archive: archive(context)?,
        archives: context.settings().store.archive.value,
        keep_ms: context.settings().store.keep_ms(),
    })
}

/// Opens the store as its one writer, after a hub that some command started has left.
fn open_alone(context: &Context) -> Result<Sqlite, CliError> {
    reach::make_room(&context.data_folder()?)?;
    open_rows(Access::Write, context)?.map_err(|error| match error {
        OpenError::Locked(_) => failed(error).hint("`subscope serve --stop` ends the hub that holds it"),
        error => failed(error),
    })
}

/// Takes in what is new on this machine.
pub(crate) fn take_in_new(
    store: &mut Sqlite,
    texts: Option<&mut Texts>,
    context: &Context,
) -> Result<(), CliError> {
    let options = index_options(vec![projects_folder(context)], context)?;
    let report = run_index(store, texts, &options, context)?;
    context.note(&format!("{} sessions were new or had changed", report.sessions));
    Ok(())
}

/// Runs an index with a progress bar on a terminal.
fn run_index(
    store: &mut Sqlite,
    texts: Option<&mut Texts>,
    options: &IndexOptions,
    context: &Context,
) -> Result<Report, CliError> {
    let bar = index::bar(context);
    let mut told = |progress: Progress| {
        index::advance(&bar, progress);
        ControlFlow::Continue(())
    };
    let report = take_in(store, texts, options, &mut told);
    bar.finish_and_clear();
    report.map_err(failed)
}

/// Returns the tree of the one session whose id begins so, as last kept; `None` where there is no store or no such session.
pub(super) fn kept_tree(prefix: &str, context: &Context) -> Result<Option<Tree>, CliError> {
    // Without a store nothing was kept.
    let Ok(mut asker) = Asker::open(Needs::Kept, context) else { return Ok(None) };
    if asker.names(prefix, 1)?.sessions.is_empty() {
        return Ok(None);
    }
    let session = asker.session(prefix)?;
    asker.tree(&session)
}

/// Returns the files of the one session whose id begins so, of which the archive has all that are gone; `None` where it
/// has not.
pub(super) fn archived(prefix: &str, context: &Context) -> Result<Option<Group>, CliError> {
    let Ok(store) = open_rows(Access::Read, context)? else { return Ok(None) };
    let session = match store.named(prefix, 2).map_err(failed)?.as_slice() {
        [one] => one.clone(),
        _ => return Ok(None),
    };
    let archive = archive(context)?;
    let sources = store.sources().map_err(failed)?.into_iter().filter(|source| source.session == session);
    let found = sources.map(|source| {
        let kept = if source.path.exists() { None } else { archive.find(&source.path).ok().flatten() };
        Found::again(&source.path, session.as_str(), kept)
    });
    let files: Option<Vec<Found>> = found.collect();
    let group = files.map(|files| Group { session: Some(session.to_string()), files });
    Ok(group.filter(|group| !group.files.is_empty()))
}

/// Returns what programs handed over of a session, in the order in which it came; nothing where there is no store.
pub(super) fn received(session: &SessionId, context: &Context) -> Result<Vec<Received>, CliError> {
    match open_rows(Access::Read, context)? {
        Ok(store) => store.received_of(session).map_err(failed),
        Err(error) => {
            context.note(&format!("only its files are read: {error}"));
            Ok(Vec::new())
        }
    }
}
