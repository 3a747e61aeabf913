//! Runs the command once: starts the process with its pipes, listener and private hub, prints its events, and writes
//! the record.

use std::{
    fs::File,
    io::{self, IsTerminal},
    process::{Child, Command, Stdio},
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant, UNIX_EPOCH},
};

use subscope_export::trace;
use subscope_harness::{ObserveMode, RunPlan, acp::Peer};
use subscope_hub::{Hub, HubOptions, HubSubscription, MemoryStore, clock};
use subscope_model::{Event, EventKind, Feed, FeedItem, Millis, SessionId, Tree, Update};
use subscope_platform::{AsFile, duplicate};
use subscope_render::render_tree;
use subscope_run::{
    ADDRESS_VARIABLE, AgentInput, ChildExit, ChildJob, CommandRunError, ConnectionTap, EndedSessions,
    FollowedSessions, LineQueue, LineTap, Listener, PostRoute, RecordSessions, RunDriver, RunHandle,
    SessionFinder, SessionName, WorkingFolder,
    forward::{ForwardThread, Undelivered},
    passthrough::{self, Outlet, PassthroughResult},
    record::{self, Record},
    relay_posts, report_process_end,
};

use super::{OUTER_RUN, RunSession, name_stamp, stops};
use crate::{
    command::{
        event_printer::{EventFormat, EventPrinter},
        harness_homes::homes,
        printer::Printer,
        target::roots,
    },
    prelude::*,
};

/// Longest wait for an update; the granularity of heartbeats.
const WAIT: Duration = Duration::from_millis(500);
/// Time that the first posted event waits for the session id of the harness.
const SESSION_ID_TIMEOUT: Duration = Duration::from_secs(1);
/// Time to wait for undelivered lines after the command has ended.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(3);
/// Shortest interval between writes of the trace; also this many times the duration of a write.
const TRACE_EVERY: Duration = Duration::from_secs(1);
const TRACE_SHARE: u32 = 20;
/// Event log size of the run's private hub, which is never queried for past events.
const HUB_LOG_EVENTS: usize = 64;
/// Longest name of an agent in a message.
const MAX_NAME: usize = 60;
/// Most events in a trace; the first ones of a longer run.
const TRACE_EVENTS: usize = 20_000;

/// The child process with everything that lives as long.
struct RunningChild {
    job: ChildJob,
    names: SessionNames,
    hub: Hub,
    feed: HubSubscription,
    forward_thread: Option<ForwardThread>,
    shutdown: RunHandle,
    followed: FollowedSessions,
    waiting: JoinHandle<Result<(EndedSessions, PassthroughResult), CommandRunError>>,
}

/// What the sessions of a command are called.
struct SessionNames {
    detected: Arc<SessionName>,
    /// The session of events without one.
    own_name: String,
    records: RecordSessions,
}

/// Sessions of the command that are shown and recorded.
struct ShownSessions {
    /// The first one, if it is known.
    id: Option<SessionId>,
    trees: Vec<Tree>,
}

impl SessionNames {
    /// Returns the session that the harness names; else that of posted events, and those of posted records.
    fn shown(&self, feed: &mut HubSubscription) -> ShownSessions {
        let named = self.detected.get(Duration::ZERO);
        let is_named = named != self.own_name;
        let mut ids = vec![SessionId::from(named.as_str())];
        if !is_named {
            ids.extend(self.records.ids());
        }
        let trees: Vec<Tree> = ids.iter().filter_map(|id| feed.tree(id)).collect();
        let of_records = trees.iter().map(|tree| &tree.session.id).find(|id| id.as_str() != self.own_name);
        let id = if is_named { ids.first() } else { of_records };
        ShownSessions { id: id.cloned(), trees }
    }
}

/// Runs the command once. Returns its exit, and whether its output could not be written; that of the next iteration
/// could not either.
pub(super) fn run(
    run: &RunSession<'_>,
    number: u32,
    printer: &Printer,
) -> Result<(ChildExit, bool), CommandRunError> {
    let record = match &run.base {
        Some(base) => {
            let meta = run.meta(number);
            Some(Record::begin(base, &name_stamp(meta.started_at_ms), meta)?)
        }
        None => None,
    };
    let child = start(run, number, record.as_ref())?;
    let format = EventFormat { is_json: run.args.json, full: run.args.full, shows_past: true };
    let owns_screen = matches!(run.plan.mode, ObserveMode::Interactive | ObserveMode::Unread);
    let is_silent = !run.args.render && (owns_screen || !run.args.json && !run.shows_blocks());
    let mut observer = IterationObserver {
        run,
        printer: EventPrinter::new(format, Some(printer), run.context),
        is_silent,
        unshown: 0,
        began: run.context.now_ms(),
        followed: child.followed.clone(),
        held: None,
        record,
        events: Vec::new(),
        last_trace: clock::tick(),
        trace_took: Duration::ZERO,
        is_trace_stale: false,
    };
    observer.announce(number);
    observer.follow(child)
}

fn start(
    run: &RunSession<'_>,
    number: u32,
    record: Option<&Record>,
) -> Result<RunningChild, CommandRunError> {
    let own_name = format!("run:{}-{number}", run.id);
    let session = Arc::new(SessionName::new(own_name.clone()));
    let (shown, to_forward) = (Arc::new(LineQueue::rate_limited()), Arc::new(LineQueue::default()));
    let is_read =
        !matches!(run.plan.mode, ObserveMode::Interactive | ObserveMode::Unread | ObserveMode::AtTerminal);
    let mut queues = vec![Arc::clone(&shown)];
    queues.extend(run.forwarder.as_ref().map(|_| Arc::clone(&to_forward)));
    let program = run.plan.harness.map(|plan| plan.program());
    let tap = LineTap::new(Arc::clone(&session), queues).of_program(program);
    let is_protocol = run.plan.mode == ObserveMode::Protocol;
    let driver = RunDriver::new(shown, &tap);
    let shutdown = driver.handle();
    let source = format!("run/{}/{number}", run.id);
    let (forward_thread, forward_handle) = match &run.forwarder {
        Some(forwarder) => {
            let (forward_thread, forward_handle) =
                ForwardThread::start(&to_forward, &tap, &source, forwarder)?;
            (Some(forward_thread), Some(forward_handle))
        }
        None => (None, None),
    };
    let prices = run.context.prices().map(|prices| prices.table.clone()).unwrap_or_default();
    let options = HubOptions { prices, limits: run.context.limits(), ..HubOptions::default() };
    let hub = Hub::start(Box::new(driver), Box::new(MemoryStore::with_log(HUB_LOG_EVENTS)), options)
        .map_err(|error| CommandRunError::System(io::Error::other(error)))?;
    let feed = hub.subscribe();
    let route = match (run.upstream, forward_handle) {
        (Some(upstream), _) => PostRoute::Upstream(upstream),
        (None, Some(forward_handle)) => PostRoute::Forward(forward_handle),
        (None, None) => PostRoute::Nowhere,
    };
    let patience = if run.plan.harness.is_some() && is_read { SESSION_ID_TIMEOUT } else { Duration::ZERO };
    let logs = record.map(Record::post_logs);
    let cwd = run.context.environment.working_folder().to_string_lossy().into_owned();
    let (sink, record_sessions) =
        relay_posts(hub.handle(), (Arc::clone(&session), cwd), route, patience, logs)?;
    let listener = Listener::start(hub.handle(), sink)?;

    let reports_by_hooks = run.plan.has_hooks || run.plan.mode == ObserveMode::Interactive;
    if let (true, Some(forwarder)) = (reports_by_hooks, &run.forwarder) {
        // Hooks never start a hub, and would be spooled without one: connect now.
        let connect = Arc::clone(&forwarder.connect);
        spawn("connect", move || drop((connect.lock().unwrap_or_else(PoisonError::into_inner))()))?;
    }
    let mut command = Command::new(run.plan.command.first().cloned().unwrap_or_default());
    command.args(run.plan.command.get(1..).unwrap_or_default()).env(ADDRESS_VARIABLE, listener.url());
    command.env(OUTER_RUN, &run.id);
    command.envs(run.otlp_variables(listener.url()));
    let logs_errors = record.is_some() && run.plan.mode != ObserveMode::Interactive;
    let piped = |is_piped| if is_piped { Stdio::piped() } else { Stdio::inherit() };
    let streams = (piped(is_read), piped(logs_errors));
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let helper = is_terminal.then(|| std::env::current_exe().ok()).flatten();
    let files = match record {
        Some(record) => (Some(record.file(record::STDOUT)?), Some(record.file(record::STDERR)?)),
        None => (None, None),
    };
    if is_protocol {
        command.stdin(Stdio::piped());
    }
    let since = clock::now_ms();
    let (job, mut process, guard) = ChildJob::start(command, streams, helper.as_deref(), &run.signals)?;
    let is_followed = |plan: &&'static dyn RunPlan| plan.notes().is_none() && !is_protocol;
    let folder = run.plan.harness.filter(is_followed).map(|plan| WorkingFolder {
        roots: roots(run.context)
            .into_iter()
            .filter(|root| root.harness.run().is_some_and(|own| own.program() == plan.program()))
            .collect(),
        folder: run.context.environment.working_folder().to_owned(),
        since: UNIX_EPOCH + Duration::from_millis(since.unsigned_abs()),
        is_resumed: plan.resumes(&run.plan.arguments()),
    });
    let has_notes = folder.is_none();
    let following = match run.plan.mode {
        ObserveMode::AsItIs | ObserveMode::AtTerminal | ObserveMode::Answering => {
            Some(Some(shutdown.clone()))
        }
        ObserveMode::Interactive => Some((!has_notes).then(|| shutdown.clone())),
        ObserveMode::Streamed | ObserveMode::Told => (!has_notes).then(|| Some(shutdown.clone())),
        ObserveMode::Protocol | ObserveMode::Unread => None,
    };
    let find = |following| {
        SessionFinder::start(homes(run.context), process.id(), since, Arc::clone(&session), following, folder)
    };
    let finder = following.map(find).transpose()?;
    let followed = finder.as_ref().map(SessionFinder::followed).unwrap_or_default();
    let has_ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&has_ended);
    let stderr = match process.stderr.take() {
        Some(pipe) => {
            let outlet = Outlet::Messages(own(&io::stderr())?);
            let ends = Arc::clone(&has_ended);
            Some(spawn("stderr", move || passthrough::copy_output(pipe, outlet, files.1, &ends, |_| {}))?)
        }
        None => None,
    };
    let stdout = match process.stdout.take() {
        Some(pipe) => {
            passthrough::widen(&pipe);
            let outlet = match (&run.plan.mode, run.plan.harness) {
                _ if run.args.render => Outlet::Nowhere,
                (ObserveMode::Protocol, _) => Outlet::AfterTap(own(&io::stdout())?),
                (ObserveMode::Told, Some(harness)) => match harness.plain_output(&run.plan.arguments()) {
                    Some(plain) => Outlet::Plain(own(&io::stdout())?, plain),
                    None => Outlet::Bytes(own(&io::stdout())?),
                },
                _ => Outlet::Bytes(own(&io::stdout())?),
            };
            let mut tap = match is_protocol {
                true => OutputTap::Connection(observe_client(run, &mut process, tap, record, &ends)?),
                false => OutputTap::Lines(Box::new(tap)),
            };
            // What such a harness prints is in its session's files too, with more.
            let is_repeated = !has_notes;
            Some(spawn("stdout", move || {
                let passed = passthrough::copy_output(pipe, outlet, files.0, &ends, |bytes| {
                    if !is_repeated {
                        tap.push(bytes);
                    }
                });
                tap.finish();
                passed
            })?)
        }
        None => None,
    };
    let (waited, all, handle) = (job.clone(), shutdown.clone(), hub.handle());
    // What a harness prints is its own session; another program may print a recording.
    let (is_harness, events_session, processes) =
        (run.plan.harness.is_some() || is_protocol, own_name.clone(), followed.clone());
    let posted = record_sessions.clone();
    let waiting = spawn("wait", move || {
        let ended = waited.wait();
        drop(guard);
        has_ended.store(true, Ordering::Release);
        let passed = stdout.map(JoinHandle::join).transpose().unwrap_or_default().unwrap_or_default();
        let _ = stderr.map(JoinHandle::join);
        // Finishes posts in progress.
        drop(listener);
        if let Some(finder) = finder {
            finder.finish();
        }
        let posted = posted.ids();
        let is_own = |session: &str| {
            is_harness || session == events_session || posted.iter().any(|id| id.as_str() == session)
        };
        let ended = ended.map(|exit| report_process_end(&handle, &all, exit, &processes, is_own));
        all.end();
        Ok((ended?, passed))
    })?;
    let names = SessionNames { detected: session, own_name, records: record_sessions };
    Ok(RunningChild { job, names, hub, feed, forward_thread, shutdown, followed, waiting })
}

/// Observer of the command's output.
enum OutputTap {
    Lines(Box<LineTap>),
    /// The output is the agent's side of a connection.
    Connection(ConnectionTap),
}

impl OutputTap {
    fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Lines(tap) => tap.push(bytes),
            Self::Connection(tap) => tap.push(Peer::Agent, bytes),
        }
    }

    fn finish(&mut self) {
        match self {
            Self::Lines(tap) => tap.finish(),
            Self::Connection(tap) => tap.finish(Peer::Agent),
        }
    }
}

/// Copies our input to an agent, whose client writes it, and passes stop orders on. Returns the observer of both sides.
fn observe_client(
    run: &RunSession<'_>,
    process: &mut Child,
    tap: LineTap,
    record: Option<&Record>,
    has_ended: &Arc<AtomicBool>,
) -> Result<ConnectionTap, CommandRunError> {
    let connection = ConnectionTap::new(tap, record.map(Record::acp_log));
    let Some(pipe) = process.stdin.take() else { return Ok(connection) };
    let input = AgentInput::new(pipe);
    if run.forwarder.is_some()
        && let Some(mut is_asked) = stops::stop_requests(run.context)
    {
        let (input, tap, ends) = (input.clone(), connection.clone(), Arc::clone(has_ended));
        spawn("stops", move || input.pass_stops(&tap, &ends, &mut is_asked))?;
    }
    let (client, tap, ends) = (own(&io::stdin())?, connection.clone(), Arc::clone(has_ended));
    // Not waited for: a client may keep its side open.
    spawn("stdin", move || input.copy(client, &ends, &tap))?;
    Ok(connection)
}

fn own(file: &impl AsFile) -> Result<File, CommandRunError> {
    duplicate(file).map_err(CommandRunError::System)
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, CommandRunError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(CommandRunError::System)
}

/// Prints and records an iteration.
struct IterationObserver<'a> {
    run: &'a RunSession<'a>,
    printer: EventPrinter<'a>,
    /// Whether nothing is printed: the child owns the screen, or no blocks are wanted.
    is_silent: bool,
    /// Number of blocks that were not printed while another program drew on the screen.
    unshown: u64,
    /// Start time of the command; earlier events of its sessions are not printed.
    began: Millis,
    /// Sessions that are followed by their transcripts.
    followed: FollowedSessions,
    /// Last message of the main thread, held back: if it stays the last, it is the answer, which the command prints
    /// itself.
    held: Option<Update>,
    record: Option<Record>,
    events: Vec<Event>,
    last_trace: Instant,
    trace_took: Duration,
    is_trace_stale: bool,
}

impl IterationObserver<'_> {
    fn announce(&self, number: u32) {
        let Some(record) = &self.record else { return };
        if self.run.args.json || self.is_silent {
            return;
        }
        let of = self.run.args.iterations.map(|of| format!(" of {of}")).unwrap_or_default();
        self.printer.print_message(&format!("iteration {number}{of}: {}", record.folder().display()));
    }

    /// Prints and records updates until the command has ended. Returns its exit, and whether its output could not be
    /// written.
    fn follow(&mut self, mut child: RunningChild) -> Result<(ChildExit, bool), CommandRunError> {
        loop {
            match child.feed.next(WAIT) {
                FeedItem::Update(update) => self.take(update, &child)?,
                FeedItem::Idle => {}
                FeedItem::Closed => break,
            }
            self.update_record(&mut child);
            if !self.is_silent && !self.is_drawn_over(&child) {
                // A queueing printer never fails.
                let _ = self.printer.print_heartbeat_if_due();
            }
        }
        let (mut ended_sessions, passed) = match child.waiting.join() {
            Ok(outcome) => outcome?,
            Err(_) => (
                EndedSessions { sessions: Vec::new(), exit: ChildExit::Code(1) },
                PassthroughResult::default(),
            ),
        };
        let ended = ended_sessions.exit.with_output(passed.failure.as_ref());
        if !self.is_silent {
            let _ = self.printer.finish();
        }
        if let Some(error) = &passed.failure
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            self.printer.print_message(&format!("cannot write to stdout: {error}"));
        }
        if self.unshown > 0 {
            let what = format!("{} events were not shown: the screen was the command's", self.unshown);
            self.printer.print_message(&what);
        }
        let shown = child.names.shown(&mut child.feed);
        if let Some(detail) = self.run.args.detail {
            let options = self.run.context.tree_options(detail);
            shown.trees.iter().for_each(|tree| self.printer.print(render_tree(tree, &options)));
        }
        self.finish_record(&shown, ended, &passed);
        drop((child.feed, child.hub, child.shutdown));
        if self.run.upstream.is_some() {
            // The outer run stores posted events, in a session of its own.
            ended_sessions.sessions.retain(|id| id.as_str() != child.names.own_name);
        }
        self.report_neighbors();
        let finish = |thread: ForwardThread| thread.finish(ended_sessions, DELIVERY_TIMEOUT);
        if let Some(undelivered) = child.forward_thread.map(finish) {
            self.report_undelivered(undelivered);
        }
        Ok((ended, passed.failure.is_some()))
    }

    /// Warns if sessions of the working folder may belong to another program.
    fn report_neighbors(&self) {
        let has_notes = self.run.plan.harness.is_none_or(|plan| plan.notes().is_some());
        let sessions = self.followed.count();
        if !has_notes && sessions > 1 {
            self.printer.print_message(&format!(
                "warning: {sessions} sessions were at work in this folder: which of them the command started is not known"
            ));
        }
    }

    fn report_undelivered(&self, undelivered: Undelivered) {
        let Undelivered { lost, why, spooled } = undelivered;
        if lost.lines > 0 {
            let why = why.unwrap_or_else(|| "they came too fast".to_owned());
            self.printer.print_message(&format!("warning: {} lines were not kept: {why}", lost.lines));
        }
        if spooled > 0 {
            let what = format!("the hub was too slow: {spooled} lines are spooled for it or the next");
            self.printer.print_message(&what);
        }
    }

    fn take(&mut self, update: Update, child: &RunningChild) -> Result<(), CommandRunError> {
        self.is_trace_stale = true;
        if let Update::Event(event) = &update {
            if event.kind == EventKind::Stall && self.run.args.stall_kill {
                let who = event.agent_title().unwrap_or_else(|| event.actor_id.to_string());
                let who = self.run.context.style(None).one_line(&who, MAX_NAME);
                self.printer.print_message(&format!("{who} is stalled: the command is ended (--stall-kill)"));
                child.job.end()?;
            }
            if self.record.is_some() && self.events.len() < TRACE_EVENTS {
                self.events.push(Event::clone(event));
            }
        }
        if self.is_silent {
            return Ok(());
        }
        if matches!(update, Update::Event(_)) && self.is_drawn_over(child) {
            self.unshown += 1;
            return Ok(());
        }
        if self.is_past(&update) {
            return Ok(());
        }
        let prints_answer = matches!(self.run.plan.mode, ObserveMode::Told | ObserveMode::Answering);
        let holds = prints_answer && !self.run.args.render && !self.run.args.json;
        if let Update::Event(event) = &update
            && holds
            && event.actor_id.0.is_root()
            && main_thread_continues(event.kind)
        {
            let is_message = event.kind == EventKind::AgentMessage;
            if let Some(held) = self.held.take() {
                let _ = self.printer.apply(held);
            }
            if is_message {
                self.held = Some(update);
                return Ok(());
            }
        }
        let _ = self.printer.apply(update);
        Ok(())
    }

    /// Whether a program of the command (at any depth) currently draws on the terminal to which blocks would go.
    fn is_drawn_over(&self, child: &RunningChild) -> bool {
        self.run.plan.mode == ObserveMode::AtTerminal
            && io::stderr().is_terminal()
            && (self.followed.has_screen() || child.job.is_terminal_raw())
    }

    /// Whether an update is an event from before the start of the command.
    fn is_past(&self, update: &Update) -> bool {
        let Update::Event(event) = update else { return false };
        event.at_ms.is_some_and(|at| at < self.began) && self.followed.has(&event.session_id)
    }

    /// Updates the record, rate-limited by [`TRACE_EVERY`] and [`TRACE_SHARE`].
    fn update_record(&mut self, child: &mut RunningChild) {
        let Some(record) = &mut self.record else { return };
        let pace = TRACE_EVERY.max(self.trace_took * TRACE_SHARE);
        if !self.is_trace_stale || self.last_trace.elapsed() < pace {
            return;
        }
        self.is_trace_stale = false;
        self.last_trace = clock::tick();
        // An error is ignored: the next write retries it.
        let _ = save(record, &child.names.shown(&mut child.feed), &self.events);
        self.trace_took = self.last_trace.elapsed();
    }

    fn finish_record(&mut self, shown: &ShownSessions, ended: ChildExit, passed: &PassthroughResult) {
        let Some(record) = &mut self.record else { return };
        let saved = save(record, shown, &self.events);
        let done = saved.and(record.finish(ended.code(), self.run.context.now_ms()));
        if let Err(error) = done {
            self.printer
                .print_message(&format!("warning: the record is incomplete: {}", CliError::from(error)));
        }
        if passed.is_unlogged {
            self.printer.print_message("warning: the record's output is incomplete: it could not be written");
        }
    }
}

/// Writes the session's id and the trace to a record; the id only if it is known.
fn save(record: &mut Record, shown: &ShownSessions, events: &[Event]) -> Result<(), CommandRunError> {
    let named = shown.id.as_ref().map_or(Ok(()), |id| record.set_session(id.as_str()));
    let written = |tree: &Tree| record.write_trace(&trace(tree, events.iter().cloned()));
    named.and(shown.trees.first().map_or(Ok(()), written))
}

/// Whether an event shows that the main thread continued, so that its last message was not the answer.
fn main_thread_continues(kind: EventKind) -> bool {
    matches!(
        kind,
        EventKind::AgentMessage
            | EventKind::ToolPre
            | EventKind::Reasoning
            | EventKind::UserPrompt
            | EventKind::CompactPre
            | EventKind::RunStart
    )
}
