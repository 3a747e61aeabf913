//! `subscope index`.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use subscope_hub::index::{IndexOptions, Progress, retire};
use subscope_render::text;
use subscope_store::{Access, Sqlite, Texts};

use super::{failed, index_options, open_alone, run_index};
use crate::{
    args::IndexArgs, command::target::root_folders, config::KEEP_DAYS, context::Context, error::CliError,
    output,
};

/// What was done, as `--json` prints it.
#[derive(Serialize)]
struct Done {
    schema: &'static str,
    files: u64,
    sessions: u64,
    bytes: u64,
    facts_ms: u64,
    total_ms: u64,
    store_bytes: u64,
    problems: usize,
    /// Sessions that were kept for as long as the settings say, and are removed now.
    forgotten: usize,
}

/// Runs the command.
pub(crate) fn run(args: &IndexArgs, context: &Context) -> Result<(), CliError> {
    let folder = context.data_folder()?;
    let mut store = open_alone(context)?;
    let mut texts = match args.no_text {
        true => None,
        false => Some(Texts::open(&folder, Access::Write).map_err(failed)?),
    };
    let roots = if args.roots.is_empty() { root_folders(context) } else { args.roots.clone() };
    let options = index_options(roots, context)?;
    let report = run_index(&mut store, texts.as_mut(), &options, context)?;
    let forgotten = retired(&mut store, texts.as_mut(), &options, context)?;
    let ms = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let words = texts.as_ref().map(Texts::bytes).transpose().map_err(failed)?.unwrap_or(0);
    let done = Done {
        schema: "subscope.index/1",
        files: report.files,
        sessions: report.sessions,
        bytes: report.bytes,
        facts_ms: ms(report.facts),
        total_ms: ms(report.total),
        store_bytes: store.bytes().map_err(failed)? + words,
        problems: report.problems.len(),
        forgotten,
    };
    if args.json {
        output::print_json(&done)?;
    } else {
        let time = text::duration(i64::try_from(done.total_ms).ok());
        output::print(&format!(
            "{} files, {} sessions new or changed, {} MB read in {time}; the store takes {} MB in {}\n",
            done.files,
            done.sessions,
            done.bytes >> 20,
            done.store_bytes >> 20,
            folder.display(),
        ))?;
        if done.forgotten > 0 {
            context.say(&format!(
                "{} sessions were older than {} says, and are forgotten",
                done.forgotten, KEEP_DAYS
            ));
        }
    }
    context.report(&report.problems)
}

/// Removes what has been kept for long enough. The full text is opened for it where it was left out.
pub(crate) fn retired(
    store: &mut Sqlite,
    texts: Option<&mut Texts>,
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
            retire(store, &mut Texts::open(&folder, Access::Write).map_err(failed)?, options)
        }
    }
    .map_err(failed)
}

/// Returns a bar on stderr that shows nothing where that is no terminal, or where all is to be quiet.
pub(super) fn bar(context: &Context) -> ProgressBar {
    let is_wanted = context.chattiness >= crate::context::Chattiness::Normal;
    let target = if is_wanted { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    let style = ProgressStyle::with_template("{msg} {bar:30} {bytes} of {total_bytes} {bytes_per_sec}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Shows how far an index is.
pub(super) fn advance(bar: &ProgressBar, progress: Progress) {
    bar.set_length(progress.total_bytes);
    bar.set_position(progress.done_bytes);
    bar.set_message(if progress.has_facts { "full text" } else { "sessions" });
}
