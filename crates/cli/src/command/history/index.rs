//! `subscope index`: indexes transcripts into the store.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use subscope_hub::index::{IndexOptions, Progress, retire};
use subscope_render::text;
use subscope_store::{Access, SqliteStore, TextIndex};

use super::{failed, index_options, open_exclusively, run_index};
use crate::{
    args::IndexArgs, command::target::root_folders, config::KEEP_DAYS, context::Context, error::CliError,
    output,
};

/// Output of `--json` (subscope.index/1).
#[derive(Serialize)]
struct IndexSummary {
    schema: &'static str,
    files: u64,
    sessions: u64,
    bytes: u64,
    facts_ms: u64,
    total_ms: u64,
    store_bytes: u64,
    problems: usize,
    /// Sessions removed because their retention time has passed.
    forgotten: usize,
}

/// Runs the command.
pub(crate) fn run(args: &IndexArgs, context: &Context) -> Result<(), CliError> {
    let folder = context.data_folder()?;
    let mut store = open_exclusively(context)?;
    let mut texts = match args.no_text {
        true => None,
        false => Some(TextIndex::open(&folder, Access::Write).map_err(failed)?),
    };
    let roots = if args.roots.is_empty() { root_folders(context) } else { args.roots.clone() };
    let options = index_options(roots, context)?;
    let report = run_index(&mut store, texts.as_mut(), &options, context)?;
    let forgotten = remove_expired(&mut store, texts.as_mut(), &options, context)?;
    let ms = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let text_bytes = texts.as_ref().map(TextIndex::bytes).transpose().map_err(failed)?.unwrap_or(0);
    let summary = IndexSummary {
        schema: "subscope.index/1",
        files: report.files,
        sessions: report.sessions,
        bytes: report.bytes,
        facts_ms: ms(report.facts),
        total_ms: ms(report.total),
        store_bytes: store.bytes().map_err(failed)? + text_bytes,
        problems: report.problems.len(),
        forgotten,
    };
    if args.json {
        output::print_json(&summary)?;
    } else {
        let time = text::duration(i64::try_from(summary.total_ms).ok());
        output::print(&format!(
            "{} files, {} sessions new or changed, {} MB read in {time}; the store takes {} MB in {}\n",
            summary.files,
            summary.sessions,
            summary.bytes >> 20,
            summary.store_bytes >> 20,
            folder.display(),
        ))?;
        if summary.forgotten > 0 {
            context.info(&format!(
                "{} sessions were older than {} says, and are forgotten",
                summary.forgotten, KEEP_DAYS
            ));
        }
    }
    context.report(&report.problems)
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
    match texts {
        Some(texts) => retire(store, texts, options),
        None => {
            let folder = context.data_folder()?;
            retire(store, &mut TextIndex::open(&folder, Access::Write).map_err(failed)?, options)
        }
    }
    .map_err(failed)
}

/// Returns a progress bar on stderr; hidden without a terminal or if quiet.
pub(super) fn progress_bar(context: &Context) -> ProgressBar {
    let is_wanted = context.verbosity >= crate::context::Verbosity::Normal;
    let target = if is_wanted { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    let style = ProgressStyle::with_template("{msg} {bar:30} {bytes} of {total_bytes} {bytes_per_sec}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Updates the progress bar.
pub(super) fn show_progress(bar: &ProgressBar, progress: Progress) {
    bar.set_length(progress.total_bytes);
    bar.set_position(progress.done_bytes);
    bar.set_message(if progress.has_facts { "full text" } else { "sessions" });
}
