//! `subscope export`: writes a session in a format that other programs read.

mod spans;

use std::{
    fs::File,
    io::{self, BufWriter, IsTerminal as _, Write},
    path::Path,
};

use subscope_export::{
    ExportPage, ExportSource, Format, FormatEncoding, FormatNeeds, Mask, NeededEvents, NeededFacts, Redacted,
    Shape, execution, write_checkpoint, write_export,
};
use subscope_harness::provider;
use subscope_hub::RowsSource;
use subscope_model::{CHECKPOINT_VERSION, Checkpoint, CheckpointMetadata, event_id};
use subscope_render::timeline::timeline;
use subscope_session::{EventScope, FactDetail};

use self::spans::SpanExport;
use super::target::{LoadedSession, ReadOptions, load, texts_are_gone};
use crate::{
    output::{HarmlessJson, in_background},
    prelude::*,
};

pub(crate) fn run(args: &ExportArgs, context: &Context) -> Result<(), CliError> {
    if args.shape.is_some() && args.format != Format::Feed {
        return Err(CliError::usage("--shape goes with --as feed"));
    }
    let is_of_spans = args.content || args.to.is_some() || args.all;
    if is_of_spans && args.format != Format::Otlp {
        return Err(CliError::usage("--content, --to and --all go with --as otlp"));
    }
    if args.all {
        return spans::export_all(args, context);
    }
    let reading = reading(args);
    let events = reading.events;
    let mut loaded = load(&args.targets, &reading, context)?;
    let texts = if events == EventScope::Texts { loaded.texts(context)? } else { Vec::new() };
    let has_events = matches!(events, EventScope::Records | EventScope::Waits);
    let events = if has_events { loaded.records(context)? } else { Vec::new() };
    // A feed consists of texts only, and spans are made of responses.
    let has_no_texts = args.format == Format::Feed && events.is_empty();
    let has_no_responses = args.format == Format::Otlp && loaded.source == RowsSource::Store;
    if has_no_responses || has_no_texts && loaded.source != RowsSource::Sources {
        return Err(texts_are_gone(&loaded.tree.session));
    }
    loaded.warn_of_lost_texts(context);
    if args.format == Format::Otlp {
        let mut export = SpanExport::open(args, context)?;
        export.export(&mut loaded, &texts)?;
        export.finish()?;
        return context.report(&loaded.problems());
    }
    if args.format == Format::Checkpoint {
        write_checkpoint_folder(&loaded, args, context)?;
        return context.report(&loaded.problems());
    }
    let page = if args.format == Format::Html { Some(saved_page()?) } else { None };
    let detail = if args.format.needs().detail { loaded.detail(context)? } else { None };
    loaded.release_facts();
    let parts = page.as_ref().map(|(before, behind)| (before.as_str(), behind.as_str()));
    let source = ExportSource {
        tree: &loaded.tree,
        detail: detail.as_ref(),
        events: &events,
        texts: &texts,
        resolve: &|payload| loaded.payload(payload),
        provider: &|model| provider(loaded.tree.session.harness.as_deref(), model),
        shape: args.shape.unwrap_or(Shape::Event),
        page: parts.map(|parts| ExportPage { parts, timeline: timeline(&loaded.tree, None) }),
    };
    match args.format.encoding() {
        // Its writer masks beside what makes it.
        FormatEncoding::Json => {
            write_json(args, &mut |out| write_export(args.format, &source, Mask::Nothing, out))?;
        }
        FormatEncoding::SelfMaskedJson => write_output(args, &mut |out| {
            write_export(args.format, &source, args.mask(), &mut HarmlessJson::new(out))
        })?,
        FormatEncoding::Binary if args.output.is_none() && io::stdout().is_terminal() => {
            let format = args.format.as_str();
            return Err(CliError::usage(format!("{format} is a binary format: name a file with --output")));
        }
        // Not JSON: the writer escapes cells and the data of a page itself.
        FormatEncoding::Text | FormatEncoding::Binary => {
            write_output(args, &mut |out| write_export(args.format, &source, args.mask(), out))?;
        }
    }
    context.report(&loaded.problems())
}

/// Returns the parts of the page that a session is put into.
fn saved_page() -> Result<(String, String), CliError> {
    subscope_page::saved().ok_or_else(|| CliError::failed("this program was built without its page"))
}

/// Returns the read options that a format needs.
pub(super) fn reading(args: &ExportArgs) -> ReadOptions {
    let needs = match args.content {
        // Only spans have a form with prompts and answers and one without.
        true => FormatNeeds { events: NeededEvents::Texts, facts: NeededFacts::Payloads, detail: true },
        false => args.format.needs(),
    };
    let keep = match needs.facts {
        NeededFacts::Rows => FactDetail::Rows,
        NeededFacts::Responses => FactDetail::Responses,
        NeededFacts::Payloads => FactDetail::Payloads,
    };
    let events = match needs.events {
        NeededEvents::Nothing => EventScope::Nothing,
        NeededEvents::Waits => EventScope::Waits,
        NeededEvents::Texts => EventScope::Texts,
        NeededEvents::All => EventScope::Records,
    };
    ReadOptions { keep, events, at: None, dialect: args.dialect }
}

fn write_checkpoint_folder(
    loaded: &LoadedSession,
    args: &ExportArgs,
    context: &Context,
) -> Result<(), CliError> {
    let traces = execution(&loaded.tree, &|payload| serde_json::from_str(&loaded.payload(payload)?).ok());
    let folder = args.output.as_deref().unwrap_or(Path::new("."));
    let session = &loaded.session;
    let step = traces.len() as u64;
    let checkpoint = Checkpoint { version: CHECKPOINT_VERSION.to_owned(), subagent_traces: traces };
    let checkpoint = match args.mask() {
        Mask::Secrets => mask_secrets(&checkpoint)?,
        Mask::Nothing => checkpoint,
    };
    let timestamp = context.now_ms();
    let metadata = CheckpointMetadata {
        session_id: session.to_string(),
        checkpoint_id: event_id(session, &format!("checkpoint/{timestamp}/{step}")).to_string(),
        timestamp,
        step,
        agent_id: "root".to_owned(),
    };
    write_checkpoint(folder, &checkpoint, &metadata)?;
    Ok(())
}

/// Masks the secrets of a checkpoint by a JSON round trip, so that masks are the same in every format.
fn mask_secrets(checkpoint: &Checkpoint) -> Result<Checkpoint, CliError> {
    let mut out = Redacted::new(Vec::new());
    serde_json::to_writer(&mut out, checkpoint)?;
    let bytes = out.finish().map_err(|error| CliError::write("memory", error))?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Writes escaped JSON, masked if requested, to the output: on a thread of its own, while `work` makes more of it.
fn write_json(
    args: &ExportArgs,
    work: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> Result<(), CliError> {
    let mask = args.mask();
    match &args.output {
        None => in_background(|chunks| write_chunks(chunks, io::stdout(), mask), work)
            .map_err(|error| CliError::write("stdout", error)),
        Some(path) => {
            let wrong = |error| CliError::because(format!("cannot write {}", path.display()), error);
            let file = File::create(path).map_err(wrong)?;
            in_background(|chunks| write_chunks(chunks, file, mask), work).map_err(wrong)
        }
    }
}

fn write_chunks(chunks: impl Iterator<Item = Vec<u8>>, out: impl Write, mask: Mask) -> io::Result<()> {
    let mut out = HarmlessJson::new(BufWriter::with_capacity(OUTPUT_BYTES, out));
    match mask {
        Mask::Nothing => {
            for chunk in chunks {
                out.write_all(&chunk)?;
            }
        }
        Mask::Secrets => {
            let mut masked = Redacted::new(&mut out);
            for chunk in chunks {
                masked.write_all(&chunk)?;
            }
            masked.finish()?;
        }
    }
    out.flush()
}

/// Bytes that are written at once.
const OUTPUT_BYTES: usize = 64 << 10;

/// Writes to the `--output` file, else to stdout.
fn write_output(
    args: &ExportArgs,
    work: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> Result<(), CliError> {
    let Some(path) = &args.output else { return output::to_stdout(|out| work(out)) };
    let wrong = |error| CliError::because(format!("cannot write {}", path.display()), error);
    let mut file = BufWriter::with_capacity(OUTPUT_BYTES, File::create(path).map_err(wrong)?);
    work(&mut file).and_then(|()| file.flush()).map_err(wrong)
}
