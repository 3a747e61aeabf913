//! The commands over everything that is kept. They ask through the backend (`reach`); `index` and `forget` write the store themselves,
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

use subscope_collect::archive::Archive;
use subscope_fold::REVISION;
use subscope_hub::index::{IndexOptions, Progress, Report, index as take_in};
use subscope_model::event_id;
use subscope_store::{Access, OpenError, Sqlite, Texts};

use super::target::{limits, root_folders};
use crate::{
    context::Context,
    error::{CliError, Kind},
    hub_connection,
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
    hub_connection::make_room(&context.data_folder()?)?;
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
    let options = index_options(root_folders(context), context)?;
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
