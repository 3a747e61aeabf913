//! Supervises one run from start to end.
//!
//! The start event is published before the child is started. A thread then decodes the child's output and publishes its
//! events, while this task waits for the first of: exit of the child, cancellation or disconnect of the client, time
//! limit, a failed publish. In every case all processes have ended before the end event is published.

use std::{
    fmt::Write as _,
    future, io,
    os::unix::process::ExitStatusExt,
    pin::Pin,
    process::{ChildStdout, ExitStatus},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use serde_json::Value;
use subscope_client::publish::{EventKind as PublishKind, PublishError, Published};
use subscope_model::Millis;
use subscope_render::{Charset, safe};
use tokio::{task::JoinError, time};

use super::{
    AgentSpec, FinalAnswer,
    call::AgentCall,
    child::{ChildProcess, read_output},
    command::command_line,
    output_reader::{OutputEvent, OutputReader, OutputResult, RunIdentity, truncate_payload},
    progress::ProgressSender,
};
use crate::stdio::{ClientGone, client_gone};

/// Time between SIGTERM and SIGKILL: a nested server ends its own runs meanwhile.
const GRACE: Duration = Duration::from_secs(2);
/// The same after the client has disconnected: it will kill this process soon.
const SHORT_GRACE: Duration = Duration::from_millis(250);
/// Interval of asking whether a user wants the run to stop.
const STOP_POLL: Duration = Duration::from_secs(1);
/// How long output of descendants is read after the command has exited.
const DRAIN: Duration = Duration::from_secs(1);
/// Most characters quoted of a failed run's output.
const QUOTED_CHARS: usize = 2_000;
/// Most lines quoted of a failed run's stderr.
const QUOTED_STDERR_LINES: usize = 20;

/// The answer of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RunAnswer {
    /// The arguments of the `final_answer` call.
    Structured(Value),
    /// The final text.
    Text(String),
}

/// Error of a run, for the calling model.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunFailure {
    #[error("the agent was not run: {0}")]
    NotStarted(String),
    #[error("the agent's run was aborted: {0}")]
    Unpublished(String),
    #[error("the agent was ended after {0}, its limit{1}")]
    TimedOut(String, String),
    #[error("the call was cancelled, and the agent was ended")]
    Cancelled,
    #[error(
        "the agent was stopped by the user: do not call it again for this task unless the user asks for it"
    )]
    Stopped,
    #[error("the agent failed: {0}")]
    Failed(String),
    #[error("the agent ended without calling final_answer, which it has to{0}")]
    NoAnswer(String),
}

/// External reason for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interruption {
    Cancelled,
    Gone,
    TimedOut,
    /// A user asked the run to stop.
    Stopped,
}

/// Why the reading thread ended before the output did.
#[derive(Debug)]
enum ReadStop {
    /// An event could not be published.
    Unpublished(PublishError),
    /// The response to an event requested that the run stop.
    StopRequested,
}

/// Result of the reading thread: why it ended early, and the result of the output.
type ReadResult = (Option<ReadStop>, OutputResult);

/// Runs an agent and publishes its events. `caller` is the id of the tool call that asks for it.
///
/// # Errors
/// The run could not be started, failed, was ended from outside, could not be published, or gave no required answer.
pub(super) async fn run(
    spec: &Arc<AgentSpec>,
    call: &AgentCall,
    caller: Option<String>,
    progress: ProgressSender,
    cancelled: impl Future<Output = ()>,
    mut client: ClientGone,
) -> Result<RunAnswer, RunFailure> {
    // Below another run its parent's session is its own.
    let session = if spec.parent_run_id.is_none() { (spec.session_of_caller)() } else { None };
    let run = RunIdentity {
        name: spec.name.clone(),
        id: call.run_id.clone(),
        session,
        parent: spec.parent_run_id.clone(),
        depth: spec.parent_depth.saturating_add(1),
    };
    let began_ms = (spec.now_ms)();
    let mut start =
        run.event(PublishKind::SubagentStart, began_ms).with_payload(truncate_payload(call.prompt.clone()));
    start.cwd = spec.cwd.clone();
    start.parent_tool_call_id = caller;
    let publisher = spec.publisher.clone();
    let started = tokio::task::spawn_blocking(move || publisher.publish(&start)).await;
    match started.map_err(|_| RunFailure::NotStarted("its start could not be published".to_owned()))? {
        Ok(published) => warn(spec, &published),
        Err(error) => return Err(RunFailure::NotStarted(sanitize(&error.to_string()))),
    }
    tokio::pin!(cancelled);
    // Publishing the start takes seconds if no listener answers: the client may have cancelled meanwhile.
    let is_cut = tokio::select! {
        biased;
        () = client_gone(&mut client) => true,
        () = &mut cancelled => true,
        () = future::ready(()) => false,
    };
    let nothing = OutputResult { last_ms: began_ms, ..OutputResult::default() };
    let (outcome, result) =
        match is_cut.then_some(RunFailure::Cancelled).map_or_else(|| start_child(spec, call, &run), Err) {
            Ok(child) => watch(spec, child, (&run, began_ms), progress, cancelled, &mut client).await,
            Err(failure) => (Err(failure), nothing),
        };
    let mut end = run.event(PublishKind::SubagentEnd, (spec.now_ms)().max(result.last_ms));
    match &outcome {
        Ok(RunAnswer::Text(text)) => end.result = Some(truncate_payload(text.clone())),
        Ok(RunAnswer::Structured(answer)) => end.result = Some(truncate_payload(answer.to_string())),
        Err(failure) => end.payload = Some(truncate_payload(failure.to_string())),
    }
    end.token_usage = result.usage;
    if matches!(outcome, Err(RunFailure::Cancelled | RunFailure::Stopped)) {
        end = end.with_stopped();
    }
    let publisher = spec.publisher.clone();
    match tokio::task::spawn_blocking(move || publisher.publish(&end)).await {
        Ok(Ok(published)) => warn(spec, &published),
        Ok(Err(error)) => (spec.warn)(&error.to_string()),
        Err(_) => (spec.warn)("the end of a run could not be published"),
    }
    outcome
}

fn start_child(spec: &AgentSpec, call: &AgentCall, run: &RunIdentity) -> Result<ChildProcess, RunFailure> {
    let missing = || RunFailure::NotStarted("there is no command".to_owned());
    let line = command_line(&spec.command, call);
    let line = line.map_err(|error| RunFailure::NotStarted(error.to_string()))?.ok_or_else(missing)?;
    let program = line.program.to_string_lossy().into_owned();
    let refused = |error| RunFailure::NotStarted(format!("cannot start {}: {error}", sanitize(&program)));
    ChildProcess::start(line, run).map_err(refused)
}

/// Waits for the end of a run; returns its outcome and the result of its output.
async fn watch(
    spec: &Arc<AgentSpec>,
    mut child: ChildProcess,
    (run, began_ms): (&RunIdentity, Millis),
    progress: ProgressSender,
    mut cancelled: Pin<&mut impl Future<Output = ()>>,
    client: &mut ClientGone,
) -> (Result<RunAnswer, RunFailure>, OutputResult) {
    let output = OutputReader::new(run.clone(), spec.dialect, spec.now_ms);
    let reader = OutputPublisher { output, spec: Arc::clone(spec), run: run.id.clone(), progress };
    let (stdout, is_over) = (child.stdout.take(), Arc::clone(&child.is_over));
    let mut reading = tokio::task::spawn_blocking(move || reader.read(stdout, &is_over));
    let mut read = None;
    let limit = time::sleep(spec.timeout);
    tokio::pin!(limit);
    let stopped = stop_requested(spec, run, began_ms);
    tokio::pin!(stopped);
    let interruption = loop {
        tokio::select! {
            biased;
            () = client_gone(client) => break Some(Interruption::Gone),
            () = cancelled.as_mut() => break Some(Interruption::Cancelled),
            () = &mut stopped => break Some(Interruption::Stopped),
            _ = &mut child.ended => break None,
            done = &mut reading, if read.is_none() => {
                let interruption = matches!(&done, Ok((Some(ReadStop::StopRequested), _)));
                let failed = has_failed(&done);
                read = Some(done);
                if failed {
                    break interruption.then_some(Interruption::Stopped);
                }
            }
            () = &mut limit => break Some(Interruption::TimedOut),
        }
    };
    if interruption.is_some() || read.as_ref().is_some_and(has_failed) {
        child.end(if interruption == Some(Interruption::Gone) { SHORT_GRACE } else { GRACE }).await;
    }
    child.stop_waiting();
    if read.is_none() {
        read = time::timeout(DRAIN, &mut reading).await.ok();
    }
    // Terminate descendants that outlived the command.
    child.end(SHORT_GRACE).await;
    let read = match read {
        Some(read) => read,
        None => reading.await,
    };
    let reaped = tokio::task::spawn_blocking(move || child.reap()).await;
    let (status, stderr) = reaped.unwrap_or_else(|_| (Err(io::ErrorKind::Other.into()), String::new()));
    match read {
        Err(_) => {
            (Err(RunFailure::Failed("what it printed could not be read".to_owned())), OutputResult::default())
        }
        Ok((Some(ReadStop::Unpublished(error)), result)) => {
            (Err(RunFailure::Unpublished(sanitize(&error.to_string()))), result)
        }
        Ok((Some(ReadStop::StopRequested), result)) => (Err(RunFailure::Stopped), result),
        Ok((None, result)) => (outcome_of(spec, interruption, status, &stderr, &result), result),
    }
}

/// Determines the outcome of a run whose events were all published.
fn outcome_of(
    spec: &AgentSpec,
    interruption: Option<Interruption>,
    status: io::Result<ExitStatus>,
    stderr: &str,
    result: &OutputResult,
) -> Result<RunAnswer, RunFailure> {
    match interruption {
        Some(Interruption::Cancelled | Interruption::Gone) => return Err(RunFailure::Cancelled),
        Some(Interruption::Stopped) => return Err(RunFailure::Stopped),
        Some(Interruption::TimedOut) => {
            return Err(RunFailure::TimedOut(format_limit(spec.timeout), quote_output(stderr, result)));
        }
        None => {}
    }
    let status = status.map_err(|error| RunFailure::Failed(error.to_string()))?;
    if !status.success() {
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "ended".to_owned(),
        };
        return Err(RunFailure::Failed(how + &quote_output(stderr, result)));
    }
    if let Some(why) = &result.failure {
        return Err(RunFailure::Failed(sanitize(why) + &quote_output(stderr, result)));
    }
    match (&result.final_answer, spec.final_answer) {
        (Some(answer), _) => Ok(RunAnswer::Structured(answer.clone())),
        (None, FinalAnswer::Required) => Err(RunFailure::NoAnswer(quote_output(stderr, result))),
        (None, FinalAnswer::Optional) => Ok(RunAnswer::Text(result.text.clone())),
    }
}

/// Quotes the end of stderr and of the output, sanitized and bounded.
fn quote_output(stderr: &str, result: &OutputResult) -> String {
    let mut out = String::new();
    let stderr = safe::lines(stderr, Charset::Unicode);
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(QUOTED_STDERR_LINES)..).unwrap_or_default();
    if !last.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(out, "\nThe last on its stderr:\n{}", end_of(&last.join("\n")));
    }
    let text = safe::lines(&result.text, Charset::Unicode);
    if !text.trim().is_empty() {
        let _ = write!(out, "\nIt said last:\n{}", end_of(text.trim()));
    }
    out
}

fn end_of(text: &str) -> String {
    let count = text.chars().count();
    if count <= QUOTED_CHARS {
        return text.to_owned();
    }
    format!("…{}", text.chars().skip(count - QUOTED_CHARS).collect::<String>())
}

fn sanitize(text: &str) -> String {
    safe::line(text, Charset::Unicode)
}

fn format_limit(span: Duration) -> String {
    if span.as_secs() == 0 { format!("{} ms", span.as_millis()) } else { format!("{} s", span.as_secs()) }
}

fn warn(spec: &AgentSpec, published: &Published) {
    if let Some(warning) = published.warning() {
        (spec.warn)(&warning.to_string());
    }
}

/// Reads the child's stdout and publishes its events.
struct OutputPublisher {
    output: OutputReader,
    spec: Arc<AgentSpec>,
    /// Id of the run.
    run: String,
    progress: ProgressSender,
}

impl OutputPublisher {
    fn read(mut self, stdout: Option<ChildStdout>, is_over: &AtomicBool) -> ReadResult {
        let mut failed = None;
        if let Some(stdout) = stdout {
            read_output(stdout, is_over, |bytes| {
                let events = match bytes {
                    Some(bytes) => self.output.push(bytes),
                    None => self.output.idle(),
                };
                failed = publish(&self.spec, &self.run, &self.progress, events).err();
                failed.is_none()
            });
        }
        let (events, result) = self.output.end();
        if failed.is_none() {
            failed = publish(&self.spec, &self.run, &self.progress, events).err();
        }
        (failed, result)
    }
}

/// Whether the reading thread failed to publish, or panicked.
fn has_failed(read: &Result<ReadResult, JoinError>) -> bool {
    !matches!(read, Ok((None, _)))
}

/// Publishes events; ends early where the response to one of the run asks it to stop. Its subagents are its harness's,
/// which cannot be stopped one by one from here.
fn publish(
    spec: &AgentSpec,
    run: &str,
    progress: &ProgressSender,
    events: Vec<OutputEvent>,
) -> Result<(), ReadStop> {
    for event in events {
        let published = spec.publisher.publish(&event.event).map_err(ReadStop::Unpublished)?;
        warn(spec, &published);
        if matches!(published, Published::StopRequested) && event.event.subagent_run_id == run {
            return Err(ReadStop::StopRequested);
        }
        if let Some(message) = event.progress {
            progress.send_replace(message);
        }
    }
    Ok(())
}

/// Waits until a user asks the run to stop. The response to the run's next event would say so as well, but a run may be
/// silent for long.
async fn stop_requested(spec: &Arc<AgentSpec>, run: &RunIdentity, began_ms: Millis) {
    loop {
        time::sleep(STOP_POLL).await;
        let (spec, run) = (Arc::clone(spec), run.clone());
        let ask = move || (spec.is_stop_requested)(run.session.as_deref(), &run.id, began_ms);
        let asked = tokio::task::spawn_blocking(ask).await;
        if asked.unwrap_or(false) {
            return;
        }
    }
}
