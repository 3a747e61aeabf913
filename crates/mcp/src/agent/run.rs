//! One run from its start to its end.
//!
//! Its start is published before anything is started. Then a thread reads what the child prints, folds it and publishes what
//! it says, while this task waits for whatever ends the run first: the child itself, its client, the limit, or a listener
//! that does not take an event. In every case all its processes have ended before its ending is published.

use std::{
    fmt::Write as _, future, io, os::unix::process::ExitStatusExt, pin::Pin, process::ExitStatus, sync::Arc,
    time::Duration,
};

use serde_json::Value;
use subscope_client::publish::{EventKind as Kind, PublishError, Published, Publisher};
use subscope_render::{Charset, safe};
use tokio::{task::JoinError, time};

use super::{
    AgentSpec, FinalAnswer,
    call::Call,
    child::{Heard, Passed, Pipe, Running},
    command::command_line,
    output_reader::{Inside, Run, Said as Told, Seen, cut},
    progress::News,
};
use crate::stdio::{Gone, gone};

/// How long processes may take to end by themselves once they are asked to: a nested server ends its own meanwhile.
const GRACE: Duration = Duration::from_secs(2);
/// The same where the client is gone: it kills this process soon.
const SHORT_GRACE: Duration = Duration::from_millis(250);
/// How long what is left of a run, once its command has ended, may go on saying something.
const DRAIN: Duration = Duration::from_secs(1);
/// How much of its last words is told of a run that failed.
const SAID_CHARS: usize = 2_000;
/// How many lines of stderr.
const STDERR_LINES: usize = 20;

/// A run's answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    /// The arguments of its `final_answer`.
    Structured(Value),
    /// Its last words.
    Text(String),
}

/// Why a run has no answer, for the model that asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the agent was not run: {0}")]
    NotStarted(String),
    #[error("the agent's run was aborted: {0}")]
    Unpublished(String),
    #[error("the agent was ended after {0}, its limit{1}")]
    TimedOut(String, String),
    #[error("the call was cancelled, and the agent was ended")]
    Cancelled,
    #[error("the agent failed: {0}")]
    Failed(String),
    #[error("the agent ended without calling final_answer, which it has to{0}")]
    NoAnswer(String),
}

/// What ended a run from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Cancelled,
    Gone,
    TimedOut,
}

/// What the reading thread comes back with: what could not be published, and what was seen.
type Read = (Option<PublishError>, Seen);

/// Runs an agent.
pub(super) async fn run(
    spec: &Arc<AgentSpec>,
    call: &Call,
    news: News,
    cancelled: impl Future<Output = ()>,
    mut client: Gone,
) -> Result<Said, Failure> {
    let run = Run {
        name: spec.name.clone(),
        id: call.run_id.clone(),
        parent: spec.origin.parent_run_id.clone(),
        depth: spec.origin.depth.saturating_add(1),
    };
    let began_ms = (spec.now_ms)();
    let mut start = run.event(Kind::SubagentStart, began_ms).with_payload(cut(call.prompt.clone()));
    start.cwd = spec.cwd.clone();
    let publisher = spec.publisher.clone();
    let started = tokio::task::spawn_blocking(move || publisher.publish(&start)).await;
    match started.map_err(|_| Failure::NotStarted("its start could not be published".to_owned()))? {
        Ok(published) => warn(spec, &published),
        Err(error) => return Err(Failure::NotStarted(line(&error.to_string()))),
    }
    tokio::pin!(cancelled);
    // Telling its start takes seconds where nobody answers.
    let is_cut = tokio::select! {
        biased;
        () = gone(&mut client) => true,
        () = &mut cancelled => true,
        () = future::ready(()) => false,
    };
    let nothing = Seen { last_ms: began_ms, ..Seen::default() };
    let (outcome, seen) =
        match is_cut.then_some(Failure::Cancelled).map_or_else(|| start_child(spec, call, &run), Err) {
            Ok(child) => watch(spec, child, &run, news, cancelled, &mut client).await,
            Err(failure) => (Err(failure), nothing),
        };
    let mut end = run.event(Kind::SubagentEnd, (spec.now_ms)().max(seen.last_ms));
    end.payload = outcome.as_ref().err().map(|failure| cut(failure.to_string()));
    end.token_usage = seen.usage;
    if matches!(outcome, Err(Failure::Cancelled)) {
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

fn start_child(spec: &AgentSpec, call: &Call, run: &Run) -> Result<Running, Failure> {
    let missing = || Failure::NotStarted("there is no command".to_owned());
    let line = command_line(&spec.command, call).ok_or_else(missing)?;
    let program = line.program.to_string_lossy().into_owned();
    let passed = Passed { run_id: &run.id, depth: run.depth };
    let refused = |error| Failure::NotStarted(format!("cannot start {}: {error}", self::line(&program)));
    Running::start(line, &passed).map_err(refused)
}

/// Waits for the end of a run, and returns its outcome and what was seen of it.
async fn watch(
    spec: &Arc<AgentSpec>,
    mut child: Running,
    run: &Run,
    news: News,
    mut cancelled: Pin<&mut impl Future<Output = ()>>,
    client: &mut Gone,
) -> (Result<Said, Failure>, Seen) {
    let inside = Inside::new(run.clone(), spec.dialect, spec.now_ms);
    let reader = Reader { inside, publisher: spec.publisher.clone(), spec: Arc::clone(spec), news };
    let stdout = child.stdout.take();
    let mut reading = tokio::task::spawn_blocking(move || reader.read(stdout));
    let mut read = None;
    let limit = time::sleep(spec.timeout);
    tokio::pin!(limit);
    let cut = loop {
        tokio::select! {
            biased;
            () = gone(client) => break Some(Cut::Gone),
            () = cancelled.as_mut() => break Some(Cut::Cancelled),
            _ = &mut child.ended => break None,
            done = &mut reading, if read.is_none() => {
                let failed = has_failed(&done);
                read = Some(done);
                if failed {
                    break None;
                }
            }
            () = &mut limit => break Some(Cut::TimedOut),
        }
    };
    if cut.is_some() || read.as_ref().is_some_and(has_failed) {
        child.end(if cut == Some(Cut::Gone) { SHORT_GRACE } else { GRACE }).await;
    }
    child.is_over();
    if read.is_none() {
        read = time::timeout(DRAIN, &mut reading).await.ok();
    }
    // What it has started and left behind is nobody's any more.
    child.end(SHORT_GRACE).await;
    let read = match read {
        Some(read) => read,
        None => reading.await,
    };
    let reaped = tokio::task::spawn_blocking(move || child.reap()).await;
    let (status, stderr) = reaped.unwrap_or_else(|_| (Err(io::ErrorKind::Other.into()), String::new()));
    match read {
        Err(_) => (Err(Failure::Failed("what it printed could not be read".to_owned())), Seen::default()),
        Ok((Some(error), seen)) => (Err(Failure::Unpublished(line(&error.to_string()))), seen),
        Ok((None, seen)) => (conclude(spec, cut, status, &stderr, &seen), seen),
    }
}

/// What comes of a run of which everything was published.
fn conclude(
    spec: &AgentSpec,
    cut: Option<Cut>,
    status: io::Result<ExitStatus>,
    stderr: &str,
    seen: &Seen,
) -> Result<Said, Failure> {
    match cut {
        Some(Cut::Cancelled | Cut::Gone) => return Err(Failure::Cancelled),
        Some(Cut::TimedOut) => {
            return Err(Failure::TimedOut(show(spec.timeout), told(stderr, seen)));
        }
        None => {}
    }
    let status = status.map_err(|error| Failure::Failed(error.to_string()))?;
    if !status.success() {
        let how = match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("ended by signal {signal}"),
            (None, None) => "ended".to_owned(),
        };
        return Err(Failure::Failed(how + &told(stderr, seen)));
    }
    if let Some(why) = &seen.failure {
        return Err(Failure::Failed(line(why) + &told(stderr, seen)));
    }
    match (&seen.final_answer, spec.final_answer) {
        (Some(answer), _) => Ok(Said::Structured(answer.clone())),
        (None, FinalAnswer::Required) => Err(Failure::NoAnswer(told(stderr, seen))),
        (None, FinalAnswer::Optional) => Ok(Said::Text(seen.text.clone())),
    }
}

/// The last that was said, on stderr and otherwise; made harmless, and short.
fn told(stderr: &str, seen: &Seen) -> String {
    let mut out = String::new();
    let stderr = safe::lines(stderr, Charset::Unicode);
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(STDERR_LINES)..).unwrap_or_default();
    if !last.is_empty() {
        // Writing into a String has no way to fail.
        let _ = write!(out, "\nThe last on its stderr:\n{}", end_of(&last.join("\n")));
    }
    let said = safe::lines(&seen.text, Charset::Unicode);
    if !said.trim().is_empty() {
        let _ = write!(out, "\nIt said last:\n{}", end_of(said.trim()));
    }
    out
}

fn end_of(text: &str) -> String {
    let count = text.chars().count();
    if count <= SAID_CHARS {
        return text.to_owned();
    }
    format!("…{}", text.chars().skip(count - SAID_CHARS).collect::<String>())
}

fn line(text: &str) -> String {
    safe::line(text, Charset::Unicode)
}

fn show(span: Duration) -> String {
    if span.as_secs() == 0 { format!("{} ms", span.as_millis()) } else { format!("{} s", span.as_secs()) }
}

fn warn(spec: &AgentSpec, published: &Published) {
    if let Some(warning) = published.warning() {
        (spec.warn)(&warning.to_string());
    }
}

/// Reads what a child prints, and publishes what it says.
struct Reader {
    inside: Inside,
    publisher: Publisher,
    spec: Arc<AgentSpec>,
    news: News,
}

impl Reader {
    fn read(mut self, stdout: Option<Pipe<std::process::ChildStdout>>) -> Read {
        let mut failed = None;
        if let Some(mut stdout) = stdout {
            // A pipe that cannot be read any more is at its end.
            let _ = stdout.read_all(&mut |heard| {
                let said = match heard {
                    Heard::Bytes(bytes) => self.inside.push(bytes),
                    Heard::Nothing => self.inside.idle(),
                };
                failed = publish(&self.publisher, &self.spec, &self.news, said).err();
                failed.is_none()
            });
        }
        let (said, seen) = self.inside.end();
        if failed.is_none() {
            failed = publish(&self.publisher, &self.spec, &self.news, said).err();
        }
        (failed, seen)
    }
}

/// Whether reading ended before what it read.
fn has_failed(read: &Result<Read, JoinError>) -> bool {
    !matches!(read, Ok((None, _)))
}

fn publish(
    publisher: &Publisher,
    spec: &AgentSpec,
    news: &News,
    said: Vec<Told>,
) -> Result<(), PublishError> {
    for told in said {
        warn(spec, &publisher.publish(&told.event)?);
        if let Some(message) = told.news {
            news.send_replace(message);
        }
    }
    Ok(())
}
