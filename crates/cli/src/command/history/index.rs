//! `subscope index`: indexes transcripts into the store.

use std::{fs, ops::ControlFlow, path::PathBuf, thread, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use schemars::JsonSchema;
use serde::Serialize;
use subscope_client::Client;
use subscope_hub::index::{IndexError, IndexOptions, Progress, Report, index as build_index, retire};
use subscope_model::{Health, HubMode, Millis, StatsQuery};
use subscope_query::Queries as _;
use subscope_render::text;
use subscope_store::{
    Access, Location, OpenError, SetAside, SqliteStore, StoreError, TextIndex, is_disk_full,
};

use super::{index_options, open_exclusively};
use crate::{command::target::root_folders, config::KEEP_DAYS, hub_connection, prelude::*};

const POLL: Duration = Duration::from_millis(20);

/// Output of `--json` (subscope.index/1).
#[derive(Serialize, JsonSchema)]
pub(crate) struct IndexReport {
    schema: &'static str,
    files: u64,
    /// Number of sessions that are new or changed.
    sessions: u64,
    /// Number of bytes read.
    bytes: u64,
    /// Time until rows were stored.
    facts_ms: u64,
    /// Time until the full text was stored, too.
    total_ms: u64,
    store_bytes: u64,
    /// Number of problems.
    problems: usize,
    /// Number of sessions that were removed because their retention time has passed.
    forgotten: usize,
}

/// Output of `--json` if a hub that a user started indexes the folders (subscope.index-asked/1).
#[derive(Serialize, JsonSchema)]
pub(crate) struct HubIndexReport {
    schema: &'static str,
    /// Process id of the hub.
    hub: u32,
    /// Number of sessions that the store has more than before.
    added: u64,
}

pub(crate) fn run(args: &IndexArgs, context: &Context) -> Result<(), CliError> {
    if let Some((root, why)) = args.roots.iter().find_map(|root| Some((root, fs::metadata(root).err()?))) {
        return Err(CliError::failed(format!("cannot read {}: {why}", root.display())));
    }
    let folder = context.data_folder()?;
    if let Ok((client, Health { mode: HubMode::Foreground | HubMode::Command, pid, .. })) =
        hub_connection::greet(&folder)
    {
        return index_by_hub(client, pid, args, context);
    }
    let mut store = open_exclusively(context)?;
    let mut texts = match args.no_text {
        true => None,
        false => Some(TextIndex::open(&folder, Access::Write)?),
    };
    let roots = if args.roots.is_empty() { root_folders(context) } else { args.roots.clone() };
    let options = index_options(roots, context)?;
    let report = run_index(&mut store, texts.as_mut(), &options, context)?;
    let forgotten = remove_expired(&mut store, texts.as_mut(), &options, context)?;
    maintain(store.location(), context.now_ms(), &mut |what| context.warn(what));
    let ms = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let text_bytes = texts.as_ref().map(TextIndex::bytes).transpose()?.unwrap_or(0);
    let (total_ms, store_bytes) = (ms(report.total), store.bytes()? + text_bytes);
    let Report { files, sessions, bytes, .. } = report;
    if args.json {
        output::print_json(&IndexReport {
            schema: "subscope.index/1",
            files,
            sessions,
            bytes,
            facts_ms: ms(report.facts),
            total_ms,
            store_bytes,
            problems: report.problems.len(),
            forgotten,
        })?;
    } else {
        let time = text::duration(i64::try_from(total_ms).ok());
        output::print(&format!(
            "{}, {} new or changed, {} read in {time}; the store takes {} in {}\n",
            text::plural(files, "file"),
            text::plural(sessions, "session"),
            text::bytes(bytes),
            text::bytes(store_bytes),
            folder.display(),
        ))?;
        if forgotten > 0 {
            context.info(&format!(
                "{} older than {KEEP_DAYS} says forgotten",
                text::plural(forgotten, "session")
            ));
        }
    }
    context.report(&report.problems)
}

/// Has a running hub that is not to be ended index the folders, and waits until it has.
fn index_by_hub(mut client: Client, pid: u32, args: &IndexArgs, context: &Context) -> Result<(), CliError> {
    if args.no_text || args.archive || args.keep_days.is_some() {
        let error =
            CliError::usage(format!("the hub that runs (process {pid}) indexes with its own settings"));
        return Err(error
            .hint("`subscope serve --stop` ends it; `serve --archive` and `--keep-days` are its options"));
    }
    let roots: Vec<PathBuf> = if args.roots.is_empty() {
        // Most users do not have all harnesses.
        root_folders(context).iter().filter_map(|folder| fs::canonicalize(folder).ok()).collect()
    } else {
        args.roots.iter().map(fs::canonicalize).collect::<Result<_, _>>()?
    };
    let before = client.stats(&StatsQuery::default())?.total.sessions;
    client.index(&roots)?;
    let folder = context.data_folder()?;
    while client.health()?.is_reading {
        if is_disk_full(&folder) {
            return Err(OpenError::Full(folder).into());
        }
        thread::sleep(POLL);
    }
    let added = client.stats(&StatsQuery::default())?.total.sessions.saturating_sub(before);
    if args.json {
        return output::print_json(&HubIndexReport { schema: "subscope.index-asked/1", hub: pid, added });
    }
    let added = text::plural(added, "session");
    output::print(&format!("the hub that runs (process {pid}) has read them: {added} more\n"))
}

/// Time after which files that a repair has set aside are deleted.
const KEEP_SET_ASIDE_MS: Millis = 30 * 86_400_000;

/// Makes a backup of the store if one is due, removes from it what other machines have forgotten, and deletes what old
/// repairs have set aside. Says what failed.
pub(crate) fn maintain(store: &Location, now_ms: Millis, warn: &mut dyn FnMut(&str)) {
    if let Err(error) = store.back_up(now_ms) {
        warn(&format!("no backup of the store was made: {error}"));
    }
    if let Err(error) = store.remove_from_backup() {
        warn(&format!("the backup of the store still has sessions that were forgotten: {error}"));
    }
    let before_us = u64::try_from(now_ms.saturating_sub(KEEP_SET_ASIDE_MS)).unwrap_or(0) * 1000;
    if let Err(error) = SetAside::before(store.folder(), before_us).and_then(SetAside::delete) {
        warn(&format!("files of a damaged store were not deleted: {error}"));
    }
}

/// Removes sessions whose retention time has passed, also from the full text (which is opened if `texts` is `None`).
/// Returns how many.
pub(crate) fn remove_expired(
    store: &mut SqliteStore,
    texts: Option<&mut TextIndex>,
    options: &IndexOptions,
    context: &Context,
) -> Result<usize, CliError> {
    if options.keep_ms.is_none() {
        return Ok(0);
    }
    Ok(match texts {
        Some(texts) => retire(store, texts, options)?,
        None => retire(store, &mut TextIndex::open(&context.data_folder()?, Access::Write)?, options)?,
    })
}

/// Runs the indexer, with a progress bar on stderr unless that is no terminal or the command is quiet.
pub(in crate::command) fn run_index(
    store: &mut SqliteStore,
    mut texts: Option<&mut TextIndex>,
    options: &IndexOptions,
    context: &Context,
) -> Result<Report, CliError> {
    let is_wanted = context.verbosity >= Verbosity::Normal;
    let target = if is_wanted { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    let style = ProgressStyle::with_template("{msg} {bar:30} {bytes} of {total_bytes} {bytes_per_sec}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut on_progress = |progress: Progress| {
        bar.set_length(progress.total_bytes);
        bar.set_position(progress.done_bytes);
        bar.set_message(if progress.has_facts { "full text" } else { "sessions" });
        ControlFlow::Continue(())
    };
    let mut report = build_index(store, texts.as_deref_mut(), options, &mut on_progress);
    if let (Err(IndexError::Ledger(StoreError::TextsDamaged)), Some(texts)) = (&report, texts) {
        *texts = TextIndex::open(&context.data_folder()?, Access::Write)?;
        report = build_index(store, Some(texts), options, &mut on_progress);
    }
    bar.finish_and_clear();
    Ok(report?)
}
