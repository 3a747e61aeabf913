//! `subscope export`: a session in a form that other programs read.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use subscope_export::{
    Mask, Redacted, Saved, Shape, execution, trace, write_checkpoint, write_csv, write_execution, write_feed,
    write_html, write_trace,
};
use subscope_fold::FactDetail;
use subscope_model::{CHECKPOINT_VERSION, Checkpoint, CheckpointMetadata, Payload, SessionId, event_id};
use subscope_render::timeline::timeline;

use super::target::{Reading, TEXTS_ARE_GONE, load, texts_are_gone};
use crate::{
    args::{ExportArgs, Format, ShapeChoice},
    context::Context,
    error::{CliError, Kind},
    output::{self, HarmlessJson},
};

/// Runs the command.
pub(crate) fn run(args: &ExportArgs, context: &Context) -> Result<(), CliError> {
    if args.shape.is_some() && args.format != Format::Feed {
        return Err(CliError::new(Kind::Usage, "--shape goes with --as feed"));
    }
    let events = matches!(args.format, Format::Trace | Format::Feed | Format::Html);
    let reading = Reading { keep: FactDetail::Payloads, events, at: None, dialect: args.dialect };
    let mut loaded = load(&args.targets, &reading, context)?;
    let session = loaded.session.clone();
    let events = if events { loaded.events(context)? } else { Vec::new() };
    if loaded.has_rows_only() {
        // A feed is made of texts alone.
        if args.format == Format::Feed && events.is_empty() {
            return Err(texts_are_gone());
        }
        context.warn(TEXTS_ARE_GONE);
    }
    let resolve = |payload: &Payload| {
        let text = loaded.payload(payload)?;
        serde_json::from_str(&text).ok()
    };
    match args.format {
        Format::Trace => {
            let record = trace(&loaded.tree, &events);
            write(args, &mut |out| write_trace(&record, out))?;
        }
        Format::Execution => write(args, &mut |out| write_execution(&loaded.tree, &resolve, out))?,
        Format::Feed => {
            let shape = args.shape.unwrap_or(ShapeChoice::Event);
            write(args, &mut |out| write_feed(&events, Shape::from(shape), out))?;
        }
        // A table is no JSON: it masks its own cells, and has its own way to be harmless.
        Format::Csv => to_target(args, &mut |out| write_csv(&loaded.tree, args.mask(), out))?,
        Format::Html => {
            let page = subscope_page::saved();
            let page =
                page.ok_or_else(|| CliError::new(Kind::Failed, "this program was built without its page"))?;
            let saved = Saved { tree: &loaded.tree, timeline: timeline(&loaded.tree, None), events: &events };
            // The page's own script stays as it is; the data in it are harmless.
            to_target(args, &mut |out| write_html((&page.0, &page.1), &saved, args.mask(), out))?;
        }
        Format::Checkpoint => {
            let traces = execution(&loaded.tree, &resolve);
            let folder = args.output.as_deref().unwrap_or(Path::new("."));
            save(folder, traces, &session, args, context)?;
        }
    }
    context.report(&loaded.problems())
}

fn save(
    folder: &Path,
    traces: Vec<subscope_model::ExecutionTrace>,
    session: &SessionId,
    args: &ExportArgs,
    context: &Context,
) -> Result<(), CliError> {
    let step = traces.len() as u64;
    let checkpoint = Checkpoint { version: CHECKPOINT_VERSION.to_owned(), subagent_traces: traces };
    let checkpoint = match args.mask() {
        Mask::Secrets => redacted(&checkpoint)?,
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

/// A checkpoint with secrets masked: written, masked and read again, so that masks are the same in every form.
fn redacted(checkpoint: &Checkpoint) -> Result<Checkpoint, CliError> {
    let failed = |error: serde_json::Error| CliError::caused(Kind::Failed, anyhow::Error::new(error));
    let mut out = Redacted::new(Vec::new());
    serde_json::to_writer(&mut out, checkpoint).map_err(failed)?;
    let bytes = out.finish().map_err(|error| CliError::write("memory", error))?;
    serde_json::from_slice(&bytes).map_err(failed)
}

/// Writes JSON that other programs read: masked if that is asked for, and harmless.
fn write(args: &ExportArgs, work: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> Result<(), CliError> {
    let mut masked = |out: &mut dyn Write| {
        let mut out = HarmlessJson::new(out);
        if args.mask() == Mask::Nothing {
            return work(&mut out);
        }
        let mut out = Redacted::new(out);
        work(&mut out)?;
        out.finish().map(|_| ())
    };
    to_target(args, &mut masked)
}

/// Writes to the file that is asked for, else to stdout.
fn to_target(
    args: &ExportArgs,
    work: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> Result<(), CliError> {
    let Some(path) = &args.output else { return output::to_stdout(|out| work(out)) };
    let wrong = |error: io::Error| {
        CliError::caused(
            Kind::Failed,
            anyhow::Error::new(error).context(format!("cannot write {}", path.display())),
        )
    };
    let mut file = BufWriter::new(File::create(path).map_err(wrong)?);
    work(&mut file).and_then(|()| file.flush()).map_err(wrong)
}
