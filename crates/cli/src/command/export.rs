//! `subscope export`: writes a session in a format that other programs read.

mod spans;

use std::{
    fs::File,
    io::{self, BufWriter, IsTerminal as _, Write},
    path::Path,
};

use serde_json::Value;
use subscope_export::{
    AtifSource, Format, FormatNeeds, Mask, NeededEvents, NeededFacts, Redacted, Saved, Shape, execution,
    trace, without_pictures, write_atif, write_checkpoint, write_csv, write_execution, write_feed,
    write_html, write_perfetto, write_trace,
};
use subscope_model::{
    CHECKPOINT_VERSION, Checkpoint, CheckpointMetadata, Event, EventRecord, Payload, SessionId, Spending,
    event_id,
};
use subscope_render::timeline::timeline;
use subscope_session::{EventScope, FactDetail};

use self::spans::SpanExport;
use super::target::{LoadedSession, ReadOptions, TEXTS_ARE_GONE, load, texts_are_gone};
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
    let session = loaded.session.clone();
    let texts = if events == EventScope::Texts { loaded.texts(context)? } else { Vec::new() };
    let has_events = matches!(events, EventScope::Records | EventScope::Waits);
    let events = if has_events { loaded.records(context)? } else { Vec::new() };
    if loaded.has_rows_only {
        // A feed consists of texts only, and spans are made of responses.
        if args.format == Format::Otlp || (args.format == Format::Feed && events.is_empty()) {
            return Err(texts_are_gone());
        }
        context.warn(TEXTS_ARE_GONE);
    }
    match args.format {
        Format::Trace => {
            let record = trace(&loaded.tree, known_events(&events));
            loaded.release_facts();
            write_json(args, &mut |out| write_trace(&record, out))?;
        }
        Format::Execution => {
            let resolve = |payload: &Payload| payload_value(&loaded, payload);
            write_json(args, &mut |out| write_execution(&loaded.tree, &resolve, out))?;
        }
        Format::Feed => {
            let shape = args.shape.unwrap_or(Shape::Event);
            loaded.release_facts();
            let events = || events.iter().map(|event| event.read(&|payload| loaded.payload(payload)));
            write_json(args, &mut |out| write_feed(events(), shape, out))?;
        }
        // CSV is not JSON: its writer masks and sanitizes cells itself.
        Format::Csv => write_output(args, &mut |out| write_csv(&loaded.tree, args.mask(), out))?,
        Format::Perfetto => {
            if args.output.is_none() && io::stdout().is_terminal() {
                return Err(CliError::usage("perfetto is a binary format: name a file with --output"));
            }
            write_output(args, &mut |out| {
                write_perfetto(&loaded.tree, known_events(&events), args.mask(), out)
            })?;
        }
        Format::Otlp => {
            let mut export = SpanExport::open(args, context)?;
            export.export(&mut loaded, &texts)?;
            export.finish()?;
        }
        Format::Atif => {
            let detail = if loaded.has_rows_only { None } else { Some(loaded.detail(context)?) };
            loaded.release_facts();
            let loaded = &loaded;
            let source = AtifSource {
                tree: &loaded.tree,
                detail: detail.as_ref(),
                texts: &texts,
                resolve: &|payload| loaded.payload(payload),
                mask: args.mask(),
            };
            write_output(args, &mut |out| write_atif(&source, &mut HarmlessJson::new(out)))?;
        }
        Format::Html => {
            let none = || CliError::failed("this program was built without its page");
            let page = subscope_page::saved().ok_or_else(none)?;
            let detail = if loaded.has_rows_only { None } else { Some(loaded.detail(context)?) };
            let spending = detail.map(|detail| Spending::of(&loaded.tree, &detail.responses));
            let timeline = timeline(&loaded.tree, None);
            loaded.release_facts();
            let resolve = |payload: &Payload| Some(without_pictures(&loaded.payload(payload)?).into_owned());
            let events = events.iter().map(|event| event.read(&resolve));
            let saved = Saved { tree: &loaded.tree, timeline, spending: spending.as_ref(), events };
            // Not escaped as JSON: the page contains scripts; `write_html` escapes the data.
            write_output(args, &mut |out| write_html((&page.0, &page.1), &saved, args.mask(), out))?;
        }
        Format::Checkpoint => {
            let traces = execution(&loaded.tree, &|payload| payload_value(&loaded, payload));
            let folder = args.output.as_deref().unwrap_or(Path::new("."));
            write_checkpoint_folder(folder, traces, &session, args, context)?;
        }
    }
    context.report(&loaded.problems())
}

/// Returns events without the texts that are in sources.
fn known_events(records: &[EventRecord]) -> impl Iterator<Item = Event> + Clone {
    records.iter().map(EventRecord::known)
}

/// Reads a payload as a JSON value; `None` if it is gone.
fn payload_value(loaded: &LoadedSession, payload: &Payload) -> Option<Value> {
    serde_json::from_str(&loaded.payload(payload)?).ok()
}

/// Returns the read options that a format needs.
pub(super) fn reading(args: &ExportArgs) -> ReadOptions {
    let needs = match args.content {
        // Only spans have a form with prompts and answers and one without.
        true => FormatNeeds { events: NeededEvents::Texts, facts: NeededFacts::Payloads },
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
    folder: &Path,
    traces: Vec<subscope_model::ExecutionTrace>,
    session: &SessionId,
    args: &ExportArgs,
    context: &Context,
) -> Result<(), CliError> {
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
