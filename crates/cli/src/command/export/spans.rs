//! `subscope export --as otlp`: spans of one session or of all, into a file or to a receiver.

use std::{fs::File, io::BufWriter};

use subscope_client::push::{PushError, Receiver};
use subscope_export::{
    Contents, MAX_REQUEST_BYTES, SpanSource, SpanWriter, encode_otlp, halve_otlp, rejected_spans, span_ids,
};
use subscope_hub::RowsSource;
use subscope_model::{Agent, Payload, SessionRow, SessionText, Tree, iso8601};

use super::super::target::{LoadedSession, ReadOptions, load_session, why_only_rows};
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
    pushed: Pushed,
}

/// What a receiver got.
struct Pushed {
    spans: usize,
    requests: usize,
    /// Spans that are larger than a request that the receiver takes.
    too_large: usize,
    /// Most bytes of a request: less than what it refused for its size.
    max_bytes: usize,
}

impl Pushed {
    /// Pushes a request, in halves where the receiver takes no request of that size.
    fn push(
        &mut self,
        receiver: &Receiver,
        request: (Vec<u8>, usize),
        context: &Context,
    ) -> Result<(), CliError> {
        let mut waiting = vec![request];
        while let Some((request, spans)) = waiting.pop() {
            self.requests += 1;
            match receiver.push(&request) {
                Ok(answer) => {
                    if let Some((count, why)) = rejected_spans(&answer) {
                        context.warn(&format!("{} rejected {count} spans: {why}", receiver.url()));
                    }
                    self.spans += spans;
                }
                Err(error) if error.is_too_large() => {
                    self.max_bytes = self.max_bytes.min(request.len() / 2).max(1);
                    match halve_otlp(&request) {
                        Some([first, second]) => waiting.extend([second, first]),
                        None => {
                            let bytes = request.len();
                            context.warn(&format!("a span of {bytes} bytes is left out: {error}"));
                            self.too_large += spans;
                        }
                    }
                }
                Err(error) => return Err(push_error(error)),
            }
        }
        Ok(())
    }
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
        let pushed = Pushed { spans: 0, requests: 0, too_large: 0, max_bytes: MAX_REQUEST_BYTES };
        Ok(Self { args, context, destination, pushed })
    }

    /// Exports a session; `texts` are needed for contents only. Nothing more can be derived of it.
    pub(super) fn export(
        &mut self,
        loaded: &mut LoadedSession,
        texts: &[SessionText],
    ) -> Result<(), CliError> {
        let detail = loaded.detail(self.context)?.unwrap_or_default();
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
                let mut requests = writer.requests(self.pushed.max_bytes);
                requests.try_for_each(|request| {
                    let request = (encode_otlp(&request), span_ids(&request).len());
                    self.pushed.push(receiver, request, self.context)
                })
            }
            Destination::File(file) => {
                let written = writer.write_lines(&mut HarmlessJson::new(&mut *file));
                written.map_err(|error| CliError::write("the output", error))
            }
            Destination::Stdout => output::to_stdout(|out| writer.write_lines(&mut HarmlessJson::new(out))),
        }
    }

    /// Reports how much was pushed. Fails if the receiver takes none of the size of some spans.
    pub(super) fn finish(self) -> Result<(), CliError> {
        let Destination::Receiver(receiver) = &self.destination else { return Ok(()) };
        let Pushed { spans, requests, too_large, .. } = self.pushed;
        self.context.info(&format!("{spans} spans in {requests} requests pushed to {}", receiver.url()));
        match too_large {
            0 => Ok(()),
            count => Err(CliError::failed(format!(
                "{} takes no request as large as {count} of the spans",
                receiver.url()
            ))),
        }
    }
}

/// Exports every session with an event since a time, in order of their ends, so that a failed push can continue where
/// it stopped.
pub(super) fn export_all(args: &ExportArgs, context: &Context) -> Result<(), CliError> {
    let since = args.since.map(|moment| moment.resolve(context.now_ms(), context.zone()));
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
    export.finish()
}

fn export_one(row: &SessionRow, reading: &ReadOptions, export: &mut SpanExport<'_>) -> Result<(), CliError> {
    let context = export.context;
    let mut loaded = load_session(&row.id, reading, context)?;
    if loaded.source == RowsSource::Store {
        let why = why_only_rows(row.machine.as_ref());
        context.warn(&format!("session {} is left out: {why}", row.id));
        return Ok(());
    }
    loaded.warn_of_lost_texts(context);
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
