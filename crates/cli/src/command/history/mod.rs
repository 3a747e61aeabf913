//! The commands over everything that is kept. Each first takes in what is new, so that nothing has to be kept running for
//! an answer to be true; where another process writes, it answers from what that one has committed.

pub(super) mod forget;
pub(super) mod index;
pub(super) mod ls;
pub(super) mod search;
pub(super) mod show;
pub(super) mod stats;
pub(super) mod status;

use std::ops::ControlFlow;

use subscope_collect::{Found, Group, archive::Archive};
use subscope_fold::REVISION;
use subscope_hub::index::{IndexOptions, Progress, Report, index as take_in};
use subscope_model::{SessionId, SessionRow, Tree, event_id};
use subscope_store::{Access, History, ListQuery, OpenError, Received, Sqlite, Texts};

use super::target::{limits, projects_folder};
use crate::{
    context::Context,
    error::{CliError, Kind},
};

/// What of the store a command needs to be up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// Rows.
    Rows,
    /// Rows and the full text.
    Texts,
}

/// Names what rows are made by: the rules, and the prices that costs rest on.
pub(super) fn rules(context: &Context) -> Result<String, CliError> {
    let prices = format!("{:?}", context.prices()?.table);
    Ok(format!("{REVISION}-{}", event_id("prices", &prices)))
}

/// Opens the rows. Who only asks for what is there need not name the rules.
pub(super) fn open_rows(access: Access, context: &Context) -> Result<Result<Sqlite, OpenError>, CliError> {
    let now_us = u64::try_from(context.now_ms()).unwrap_or(0) * 1000;
    Ok(Sqlite::open(&context.data_folder()?, access, &rules(context)?, now_us))
}

fn failed(error: impl Into<anyhow::Error>) -> CliError {
    CliError::caused(Kind::Failed, error)
}

/// What is read where the harness has deleted a file.
fn archive(context: &Context) -> Result<Archive, CliError> {
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

/// Opens the store for asking, after taking in what is new.
fn up_to_date(needs: Needs, context: &Context) -> Result<(Sqlite, Option<Texts>), CliError> {
    let folder = context.data_folder()?;
    match open_rows(Access::Write, context)? {
        Ok(mut store) => {
            let mut texts = match needs {
                Needs::Rows => None,
                Needs::Texts => Some(Texts::open(&folder, Access::Write).map_err(failed)?),
            };
            let options = index_options(vec![projects_folder(context)], context)?;
            let report = run_index(&mut store, texts.as_mut(), &options, context)?;
            context.note(&format!("{} sessions were new or had changed", report.sessions));
            Ok((store, texts))
        }
        Err(OpenError::Locked(_)) => {
            context.note("another process writes the store; this is what it has committed");
            let texts = match needs {
                Needs::Rows => None,
                Needs::Texts => Some(Texts::open(&folder, Access::Read).map_err(failed)?),
            };
            Ok((open_rows(Access::Read, context)?.map_err(failed)?, texts))
        }
        Err(error) => Err(failed(error)),
    }
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
    let Ok(store) = open_rows(Access::Read, context)? else { return Ok(None) };
    let rows = store.list(&ListQuery { limit: usize::MAX, after: None, only_live: false }).map_err(failed)?;
    if !rows.iter().any(|row| row.id.starts_with(prefix)) {
        return Ok(None);
    }
    store.tree(&one_of(&rows, prefix)?).map_err(failed)
}

/// Returns the files of the one session whose id begins so, of which the archive has all that are gone; `None` where it
/// has not.
pub(super) fn archived(prefix: &str, context: &Context) -> Result<Option<Group>, CliError> {
    let Ok(store) = open_rows(Access::Read, context)? else { return Ok(None) };
    let rows = store.list(&ListQuery { limit: usize::MAX, after: None, only_live: false }).map_err(failed)?;
    if !rows.iter().any(|row| row.id.starts_with(prefix)) {
        return Ok(None);
    }
    let (session, archive) = (one_of(&rows, prefix)?, archive(context)?);
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

/// Finds the one session whose id begins so.
fn find_session(store: &Sqlite, prefix: &str) -> Result<SessionId, CliError> {
    let rows = store.list(&ListQuery { limit: usize::MAX, after: None, only_live: false }).map_err(failed)?;
    one_of(&rows, prefix)
}

fn one_of(rows: &[SessionRow], prefix: &str) -> Result<SessionId, CliError> {
    if prefix == "last"
        && let Some(newest) = rows.first()
    {
        return Ok(newest.id.clone());
    }
    let mut begin = rows.iter().filter(|row| row.id.starts_with(prefix));
    match (begin.next(), begin.next()) {
        (Some(row), None) => Ok(row.id.clone()),
        (Some(_), Some(_)) => {
            let message = format!("{prefix:?} is the beginning of several sessions' ids");
            Err(CliError::new(Kind::Usage, message).hint("give more of the id"))
        }
        (None, _) => Err(CliError::new(Kind::Failed, format!("no session's id begins with {prefix:?}"))
            .hint("`subscope ls` lists them")),
    }
}
