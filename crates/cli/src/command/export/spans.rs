//! `subscope export --as otlp`: spans of one session or of all, into a file or to a receiver.

use std::{fs::File, io::BufWriter};

use subscope_client::push::{PushError, Receiver};
use subscope_export::{
    Contents, MAX_REQUEST_BYTES, SpanSource, SpanWriter, encode_otlp, rejected_spans, span_ids,
};
use subscope_model::{Agent, Payload, SessionRow, SessionText, Tree, iso8601};

use super::super::target::{LoadedSession, ReadOptions, TEXTS_ARE_GONE, load_session};
use crate::{output::HarmlessJson, prelude::*};

/// Where spans go.
enum Destination {
    Receiver(Receiver),
    File(BufWriter<File>),
    Stdout,
}

/// Exports sessions to one destination.
pub(super) struct SpanExport<'a> {
    args: &'a ExportArgs,
    context: &'a Context,
    destination: Destination,
    spans: usize,
    requests: usize,
}

impl<'a> SpanExport<'a> {
    /// Opens the destination. A receiver is not connected yet.
    pub(super) fn open(args: &'a ExportArgs, context: &'a Context) -> Result<Self, CliError> {
        let destination = match (&args.to, &args.output) {
            (Some(url), _) => {
                Destination::Receiver(Receiver::new(url, args.headers.clone()).map_err(push_error)?)
            }
            (None, Some(path)) => {
                let file = File::create(path);
                let wrong = |error| CliError::because(format!("cannot write {}", path.display()), error);
                Destination::File(BufWriter::with_capacity(super::OUTPUT_BYTES, file.map_err(wrong)?))
            }
            (None, None) => Destination::Stdout,
        };
        Ok(Self { args, context, destination, spans: 0, requests: 0 })
    }

    /// Exports a session; `texts` are needed for contents only. Nothing more can be derived of it.
    pub(super) fn export(
        &mut self,
        loaded: &mut LoadedSession,
        texts: &[SessionText],
    ) -> Result<(), CliError> {
        let detail = loaded.detail(self.context)?;
        loaded.release_facts();
        let loaded = &*loaded;
        let resolve = |payload: &Payload| loaded.payload(payload);
        let harness = loaded.tree.session.harness.as_deref();
        let source = SpanSource {
            tree: &loaded.tree,
            detail: &detail,
            provider: &|model| subscope_harness::provider(harness, model),
            contents: self.args.content.then_some(Contents { texts, resolve: &resolve }),
            mask: self.args.mask(),
        };
        warn_of_running(&loaded.tree, self.context);
        let writer = SpanWriter::new(&source);
        // What is a secret depends on its key, and values are JSON in strings: they are masked already.
        match &mut self.destination {
            Destination::Receiver(receiver) => {
                for request in writer.requests(MAX_REQUEST_BYTES) {
                    let answer = receiver.push(&encode_otlp(&request)).map_err(push_error)?;
                    if let Some((count, why)) = rejected_spans(&answer) {
                        self.context.warn(&format!("{} rejected {count} spans: {why}", receiver.url()));
                    }
                    self.spans += span_ids(&request).len();
                    self.requests += 1;
                }
                Ok(())
            }
            Destination::File(file) => {
                let written = writer.write_lines(&mut HarmlessJson::new(&mut *file));
                written.map_err(|error| CliError::write("the output", error))
            }
            Destination::Stdout => output::to_stdout(|out| writer.write_lines(&mut HarmlessJson::new(out))),
        }
    }

    /// Reports how much was pushed.
    pub(super) fn finish(self) {
        if let Destination::Receiver(receiver) = &self.destination {
            let Self { spans, requests, .. } = self;
            self.context.info(&format!("{spans} spans in {requests} requests pushed to {}", receiver.url()));
        }
    }
}

/// Exports every session with an event since a time, in order of their ends, so that a failed push can continue where
/// it stopped.
pub(super) fn export_all(args: &ExportArgs, context: &Context) -> Result<(), CliError> {
    let since = args.since.map(|moment| moment.resolve(context.now_ms()));
    let mut rows = Backend::open(Needs::Rows, context)?.sessions(usize::MAX, false, "")?.sessions;
    rows.retain(|row| since.is_none_or(|since| row.last_event_at_ms.is_some_and(|last| last >= since)));
    rows.sort_by(|one, other| (one.last_event_at_ms, &one.id).cmp(&(other.last_event_at_ms, &other.id)));
    let reading = super::reading(args);
    let mut export = SpanExport::open(args, context)?;
    for row in &rows {
        export_one(row, &reading, &mut export).map_err(|error| match row.last_event_at_ms {
            Some(last) if args.to.is_some() => error.hint(format!(
                "continue with --all --since {}: everything that ended before is pushed",
                iso8601(last)
            )),
            Some(_) | None => error,
        })?;
    }
    export.finish();
    Ok(())
}

fn export_one(row: &SessionRow, reading: &ReadOptions, export: &mut SpanExport<'_>) -> Result<(), CliError> {
    let context = export.context;
    let mut loaded = load_session(&row.id, reading, context)?;
    if loaded.has_rows_only {
        context.warn(&format!("session {} is left out: {TEXTS_ARE_GONE}", row.id));
        return Ok(());
    }
    let texts = if export.args.content { loaded.texts(context)? } else { Vec::new() };
    export.export(&mut loaded, &texts)
}

fn push_error(error: PushError) -> CliError {
    let kind = match error {
        PushError::Address { .. } => ErrorKind::Usage,
        PushError::Refused { .. } | PushError::Unreachable { .. } | PushError::Compress(_) => {
            ErrorKind::Failed
        }
    };
    CliError::caused(kind, error)
}

/// Most agents that a warning names.
const MAX_NAMED: usize = 5;

/// Warns of the agents that an export of spans leaves out.
fn warn_of_running(tree: &Tree, context: &Context) {
    let mut running: Vec<&Agent> = tree.agents.iter().filter(|agent| agent.is_at_work()).collect();
    if running.len() > 1 {
        running.retain(|agent| !agent.id.is_root());
    }
    let names: Vec<String> =
        running.iter().take(MAX_NAMED).map(|agent| format!("{} ({})", agent.title(), agent.id)).collect();
    let more = if running.len() > names.len() { ", …" } else { "" };
    let count = match running.len() {
        0 => return,
        1 => "1 agent still runs".to_owned(),
        several => format!("{several} agents still run"),
    };
    context.warn(&format!("{count}, left out with those above: {}{more}", names.join(", ")));
}
