//! `subscope publish`: publishes events of an agent's subagents, for programs that do not embed the client library.

mod lines;
mod runs;

use std::io;

use serde_json::json;
use subscope_client::publish::{ADDRESS_VARIABLE, Event, EventKind, Published, Publisher, compact};
use subscope_collect::spool;
use subscope_hub::Spooler;

use self::{
    lines::{LineReader, PublishLine},
    runs::RunTracker,
};
use crate::prelude::*;

/// Environment variable with the parent of subagents that name none; `mcp agent` sets it for its command.
pub(crate) const PARENT_VARIABLE: &str = "SUBSCOPE_PARENT_RUN_ID";

pub(crate) fn run(args: &PublishArgs, context: &Context) -> Result<(), CliError> {
    let address = args.address.clone().or_else(|| context.environment.text(ADDRESS_VARIABLE));
    let Some(address) = address else {
        // Drain stdin: the writer must not get a closed pipe because no address is set.
        if args.kind.is_none() {
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        }
        return Ok(());
    };
    let publisher = Publisher::to(&address).map_err(|error| CliError::caused(ErrorKind::Usage, error))?;
    let publisher = EventPublisher {
        publisher: with_spool(publisher, args.on_publish_failure, context)?,
        parent: context.environment.text(PARENT_VARIABLE),
        context,
    };
    match event_from_args(args) {
        Some(event) => publisher.publish(event),
        None => publisher.publish_all(&mut LineReader::new(io::stdin().lock())),
    }
}

/// Lets a publisher spool undeliverable events if that is chosen; shared with `mcp agent`.
pub(crate) fn with_spool(
    publisher: Publisher,
    choice: FailureChoice,
    context: &Context,
) -> Result<Publisher, CliError> {
    if choice == FailureChoice::Abort {
        return Ok(publisher);
    }
    let spooler = Spooler::new(spool::folder(&context.data_folder()?));
    Ok(publisher.with_spool(move |event| spooler.event(event).map(drop)))
}

/// Builds the event that the options describe; `None` without `--type`.
fn event_from_args(args: &PublishArgs) -> Option<Event> {
    let (kind, name, run_id) = (args.kind?, args.name.as_deref()?, args.run_id.as_deref()?);
    let mut event = Event::new(name, run_id, kind).with_is_error(args.is_error);
    event.tool_name.clone_from(&args.tool);
    event.tool_call_id.clone_from(&args.call_id);
    event.payload = args.payload.as_deref().map(encode_payload);
    event.parent_run_id.clone_from(&args.parent_run_id);
    event.session_id.clone_from(&args.session_id);
    event.depth = args.depth;
    event.timestamp_ms = args.timestamp.unwrap_or(event.timestamp_ms);
    event.event_id = args.event_id.clone().or(event.event_id);
    event.result.clone_from(&args.result);
    event.parent_tool_call_id.clone_from(&args.parent_call_id);
    Some(if args.stopped { event.with_stopped() } else { event })
}

/// Encodes a payload for the wire: JSON objects and arrays in compact form, any other text unchanged.
fn encode_payload(payload: &str) -> String {
    let is_composed = payload.trim_start().starts_with(['{', '[']);
    if is_composed && serde_json::from_str::<serde::de::IgnoredAny>(payload).is_ok() {
        return compact(payload);
    }
    payload.to_owned()
}

/// Returns the working directory of this process and so of its caller; `None` if it is not absolute UTF-8.
pub(crate) fn working_folder(context: &Context) -> Option<String> {
    let folder = context.environment.working_folder();
    folder.to_str().filter(|_| folder.is_absolute()).map(str::to_owned)
}

/// Publishes events, with parent and working directory added, and reports failures.
struct EventPublisher<'a> {
    publisher: Publisher,
    parent: Option<String>,
    context: &'a Context,
}

impl EventPublisher<'_> {
    /// Publishes an event. Where a user asks that its run stop, prints so: a line of JSON.
    fn publish(&self, mut event: Event) -> Result<(), CliError> {
        let parent = self.parent.as_ref().filter(|parent| **parent != event.subagent_run_id);
        if event.kind == EventKind::SubagentStart && event.parent_run_id.is_none() {
            event.parent_run_id = parent.cloned();
        }
        if event.kind == EventKind::SubagentStart && event.cwd.is_none() {
            event.cwd = working_folder(self.context);
        }
        let published = self.publisher.publish(&event)?;
        if matches!(published, Published::StopRequested) {
            let stop = json!({ "stop": true, "subagentRunId": event.subagent_run_id });
            output::print(&format!("{stop}\n"))?;
        }
        if let Some(warning) = published.warning() {
            let then = match published {
                Published::Spooled(_) => "; it is spooled with all that follows of its run, for the next hub",
                Published::Off
                | Published::Delivered
                | Published::StopRequested
                | Published::Undelivered(_) => "",
            };
            self.context.warn(&format!("{warning}{then}"));
        }
        Ok(())
    }

    /// Publishes lines until the end of the input, or until every run has ended or been aborted.
    fn publish_all(&self, lines: &mut LineReader<impl io::BufRead>) -> Result<(), CliError> {
        let mut runs = RunTracker::default();
        while let Some(line) = lines.next()? {
            let (run, failed) = match line {
                PublishLine::Event(event) => {
                    let (run, kind) = (event.subagent_run_id.clone(), event.kind);
                    if !runs.accept(&run, kind) {
                        continue;
                    }
                    (Some(run), self.publish(*event).err())
                }
                PublishLine::Bad { number, run, what } => {
                    if run.as_ref().is_some_and(|run| runs.is_aborted(run)) {
                        continue;
                    }
                    (run, Some(CliError::usage(format!("line {number}: {what}"))))
                }
            };
            let Some(error) = failed else { continue };
            runs.abort(run, error.kind());
            if runs.has_no_active_run() {
                return Err(error);
            }
            output::complain(&error.render(self.context.style(None).charset()));
        }
        runs.outcome().map_or(Ok(()), |(kind, aborted)| Err(CliError::new(kind, aborted)))
    }
}
