//! The commands over stored sessions. They query through [`Backend`]; `index` and `forget`
//! write the store themselves, after stopping a background hub.

pub(super) mod forget;
pub(in crate::command) mod index;
pub(in crate::command) mod iterations;
pub(super) mod ls;
pub(super) mod search;
mod selected;
pub(super) mod show;
pub(super) mod stats;
pub(super) mod status;

use subscope_collect::archive::Archive;
use subscope_hub::index::IndexOptions;
use subscope_model::event_id;
use subscope_session::REVISION;
use subscope_store::{Access, OpenError, SqliteStore, TextIndex};

use super::target::root_folders;
use crate::{hub_connection, prelude::*};

/// What a list or sum says on a machine without sessions.
pub(super) const NO_SESSIONS: &str = "no sessions yet: `subscope demo` plays a recorded one, `subscope doctor` says where sessions are looked for";

/// Returns the fingerprint of what stored rows were derived with: rule revision and prices. Rows with another one are
/// derived again.
pub(super) fn rows_fingerprint(context: &Context) -> Result<String, CliError> {
    let prices = format!("{:?}", context.prices()?.table);
    Ok(format!("{REVISION}-{}", event_id("prices", &prices)))
}

/// Opens the row store. The outer error is that of the configuration.
pub(crate) fn open_rows(
    access: Access,
    context: &Context,
) -> Result<Result<SqliteStore, OpenError>, CliError> {
    Ok(SqliteStore::open(&context.data_folder()?, access, &rows_fingerprint(context)?, context.now_us()))
}

/// Returns the archive of transcripts that the harness has deleted.
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
        limits: context.limits(),
        now_ms: context.now_ms(),
        workers: None,
        archive: archive(context)?,
        archives: context.settings().store.archive,
        keep_ms: context.settings().store.keep_ms(),
    })
}

/// Opens the store for writing, after stopping a background hub.
fn open_exclusively(context: &Context) -> Result<SqliteStore, CliError> {
    hub_connection::stop_background_hub(&context.data_folder()?)?;
    Ok(open_rows(Access::Write, context)??)
}

/// Indexes new and changed sessions of this machine.
pub(crate) fn index_new(
    store: &mut SqliteStore,
    texts: Option<&mut TextIndex>,
    context: &Context,
) -> Result<(), CliError> {
    let options = index_options(root_folders(context), context)?;
    let report = index::run_index(store, texts, &options, context)?;
    context.debug(&format!("{} sessions were new or had changed", report.sessions));
    Ok(())
}
