//! One run of the command: what is started, what stands around it, and what is told of it meanwhile.

use std::{
    fs::File,
    io::{self, IsTerminal},
    os::fd::AsFd,
    process::Command,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use subscope_export::trace;
use subscope_harness::{Harness, ObserveMode, harnesses};
use subscope_hub::{Hub, HubOptions, Memory, Subscription, clock};
use subscope_model::{Event, EventKind, Feed, FeedItem, Millis, SessionId, Update};
use subscope_render::{TreeOptions, render_tree};
use subscope_run::{
    ADDRESS_VARIABLE, Ended, EventRoute, Followed, Handover, Home, Job, LineTap, Listener, Over, Posted,
    Queue, RunDriver, RunError, SessionFinder, SessionName, Streams,
    forward::{ForwardThread, Undelivered},
    passthrough::{self, Outlet, Passed},
    record::{self, Record},
};

use super::{Run, failed, name_stamp, printer::Weight};
use crate::command::{
    event_printer::{Form, Out, Showing},
    target::limits,
};
use crate::context::Context;

/// How long one wait for an update lasts: the grain of heartbeats.
const WAIT: Duration = Duration::from_millis(500);
/// How long the first posted event waits for the session of a harness to be known.
const NAMING: Duration = Duration::from_secs(1);
/// How long what is not kept yet is waited for once the command has ended.
const KEEPING: Duration = Duration::from_secs(3);
/// How often the trace is written anew at most, and in how many times what that takes.
const TRACE_EVERY: Duration = Duration::from_secs(1);
const TRACE_SHARE: u32 = 20;
/// How many events the run's own hub remembers: nobody asks it for what was.
const LOG_EVENTS: usize = 64;
/// How many events a trace's progress is made of at most: the first of a run that has more.
const TRACE_EVENTS: usize = 20_000;

/// The child with all that lives as long.
struct Child {
    job: Job,
    session: Arc<SessionName>,
    own_name: String,
    hub: Hub,
    feed: Subscription,
    keeping: Option<ForwardThread>,
    over: Over,
    followed: Followed,
    waiting: JoinHandle<Result<(Ended, Passed), RunError>>,
}

/// What became of one iteration.
pub(super) struct Ran {
    pub(super) ended: Ended,
    /// Whether what the command printed could not be written: so it would be the next time.
    pub(super) is_cut: bool,
    /// The way to print, given back.
    pub(super) out: Out,
}

/// Runs the command once.
pub(super) fn run(run: &Run<'_>, number: u32, out: Out) -> Result<Ran, RunError> {
    let record = match &run.base {
        Some(base) => {
            let meta = run.meta(number);
            Some(Record::begin(base, &name_stamp(meta.started_at_ms), meta)?)
        }
        None => None,
    };
    let child = start(run, number, record.as_ref())?;
    let form = Form { is_json: run.args.json, full: run.args.full, shows_past: true };
    let is_silent =
        matches!(run.plan.way, ObserveMode::Interactive | ObserveMode::Unread) && !run.args.render;
    let began = run.context.now_ms();
    let mut watched = Watched {
        run,
        showing: Showing::new(form, out, run.context),
        is_silent,
        unshown: 0,
        began,
        followed: child.followed.clone(),
        held: None,
        record,
        events: Vec::new(),
        last_trace: clock::tick(),
        trace_took: Duration::ZERO,
        has_news: false,
    };
    watched.announce(number);
    let (ended, is_cut) = watched.follow(child)?;
    Ok(Ran { ended, is_cut, out: watched.showing.into_out() })
}

fn start(run: &Run<'_>, number: u32, record: Option<&Record>) -> Result<Child, RunError> {
    let own_name = format!("run:{}-{number}", run.id);
    let session = Arc::new(SessionName::new(own_name.clone()));
    let (shown, kept) = (Arc::new(Queue::paced()), Arc::new(Queue::default()));
    let is_read =
        !matches!(run.plan.way, ObserveMode::Interactive | ObserveMode::Unread | ObserveMode::AtTerminal);
    let mut queues = vec![Arc::clone(&shown)];
    queues.extend(run.keeper.as_ref().map(|_| Arc::clone(&kept)));
    let tap = LineTap::new(Arc::clone(&session), queues);
    let (driver, over, following) = RunDriver::new(shown, &tap);
    let source = format!("run/{}/{number}", run.id);
    let (keeping, desk) = match &run.keeper {
        Some(keeper) => {
            let (keeping, desk) = ForwardThread::start(&kept, &tap, &source, keeper)?;
            (Some(keeping), Some(desk))
        }
        None => (None, None),
    };
    let prices = run.context.prices().map(|prices| prices.table.clone()).unwrap_or_default();
    let options = HubOptions { prices, limits: limits(run.context), ..HubOptions::default() };
    let hub = Hub::start(Box::new(driver), Box::new(Memory::with_log(LOG_EVENTS)), options)
        .map_err(|error| RunError::System(io::Error::other(error)))?;
    let feed = hub.subscribe();
    let way = match (run.upstream, desk) {
        (Some(upstream), _) => EventRoute::Upstream(upstream),
        (None, Some(desk)) => EventRoute::Keep(desk),
        (None, None) => EventRoute::Nowhere,
    };
    let patience = if run.plan.harness.is_some() && is_read { NAMING } else { Duration::ZERO };
    let log = record.map(Record::events_log);
    let cwd = run.context.environment.working_folder().to_string_lossy().into_owned();
    let posted = Posted::start(hub.handle(), (Arc::clone(&session), cwd), way, patience, log)?;
    let listener = Listener::start(hub.handle(), posted.taker())?;

    if let (ObserveMode::Interactive, Some(keeper)) = (&run.plan.way, &run.keeper) {
        // Hooks never start a hub: without one they would be told only later.
        let connect = Arc::clone(&keeper.connect);
        spawn("connect", move || drop((connect.lock().unwrap_or_else(PoisonError::into_inner))()))?;
    }
    let mut command = Command::new(run.plan.command.first().cloned().unwrap_or_default());
    command.args(run.plan.command.get(1..).unwrap_or_default()).env(ADDRESS_VARIABLE, listener.url());
    let logs_errors = record.is_some() && run.plan.way != ObserveMode::Interactive;
    let streams = Streams { pipes_stdout: is_read, pipes_stderr: logs_errors };
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let helper = is_terminal.then(|| std::env::current_exe().ok()).flatten();
    let handover = helper.map_or(Handover::WhenAsked, |helper| Handover::AtOnce { helper });
    let files = match record {
        Some(record) => (Some(record.file(record::STDOUT)?), Some(record.file(record::STDERR)?)),
        None => (None, None),
    };
    let since = clock::now_ms();
    let (job, mut process, guard) = Job::start(command, streams, handover, &run.signals)?;
    let finder = match run.plan.way {
        ObserveMode::AsItIs | ObserveMode::AtTerminal | ObserveMode::Answering => Some(SessionFinder::start(
            homes(run.context),
            process.id(),
            since,
            Arc::clone(&session),
            following,
        )?),
        ObserveMode::Streamed | ObserveMode::Told | ObserveMode::Interactive | ObserveMode::Unread => None,
    };
    let followed = finder.as_ref().map(SessionFinder::followed).unwrap_or_default();
    let has_ended = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&has_ended);
    let stderr = match process.stderr.take() {
        Some(pipe) => {
            let outlet = Outlet::Messages(own(&io::stderr())?);
            let ends = Arc::clone(&has_ended);
            Some(spawn("stderr", move || passthrough::pass(pipe, outlet, files.1, &ends, |_| {}))?)
        }
        None => None,
    };
    let stdout = match process.stdout.take() {
        Some(pipe) => {
            passthrough::widen(&pipe);
            let outlet = match &run.plan.way {
                _ if run.args.render => Outlet::Nowhere,
                ObserveMode::Told => match run.plan.harness {
                    Some(harness) => {
                        Outlet::Plain(own(&io::stdout())?, harness.plain_output(&run.plan.arguments()))
                    }
                    None => Outlet::Bytes(own(&io::stdout())?),
                },
                ObserveMode::AsItIs
                | ObserveMode::AtTerminal
                | ObserveMode::Streamed
                | ObserveMode::Answering
                | ObserveMode::Interactive
                | ObserveMode::Unread => Outlet::Bytes(own(&io::stdout())?),
            };
            let mut tap = tap;
            Some(spawn("stdout", move || {
                let passed = passthrough::pass(pipe, outlet, files.0, &ends, |bytes| tap.push(bytes));
                tap.finish();
                passed
            })?)
        }
        None => None,
    };
    let (watched, all) = (job.clone(), over.clone());
    let waiting = spawn("wait", move || {
        let ended = watched.wait();
        drop(guard);
        has_ended.store(true, Ordering::Release);
        let passed = stdout.map(JoinHandle::join).transpose().unwrap_or_default().unwrap_or_default();
        let _ = stderr.map(JoinHandle::join);
        // What is being posted is still taken.
        drop(listener);
        if let Some(finder) = finder {
            finder.finish();
        }
        all.end();
        Ok((ended?, passed))
    })?;
    Ok(Child { job, session, own_name, hub, feed, keeping, over, followed, waiting })
}

/// Where harnesses keep what their processes note, and transcripts.
fn homes(context: &Context) -> Vec<Home> {
    let variable = |name: &str| context.environment.get(name);
    let home = |harness: &'static dyn Harness| {
        let processes = harness.run()?;
        let notes = processes.notes_folder(&variable);
        Some(Home { harness, processes, notes, roots: harness.roots(&variable) })
    };
    harnesses().filter_map(home).collect()
}

fn own(file: &impl AsFd) -> Result<File, RunError> {
    file.as_fd().try_clone_to_owned().map(File::from).map_err(RunError::System)
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, RunError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(RunError::System)
}

/// What is shown and recorded of an iteration.
struct Watched<'r, 'a> {
    run: &'r Run<'a>,
    showing: Showing<'a>,
    /// Whether the screen is the child's.
    is_silent: bool,
    /// How many blocks were not printed because it was for a while.
    unshown: u64,
    /// When the command began: what a session was before that is no news.
    began: Millis,
    /// Sessions that are told of by their transcripts.
    followed: Followed,
    /// The main thread's last message, as long as nothing of it came after: if it stays the last, the command prints it.
    held: Option<Event>,
    record: Option<Record>,
    events: Vec<Event>,
    last_trace: Instant,
    trace_took: Duration,
    has_news: bool,
}

impl Watched<'_, '_> {
    fn announce(&self, number: u32) {
        let Some(record) = &self.record else { return };
        if self.run.args.json || self.is_silent {
            return;
        }
        let of = self.run.args.iterations.map(|of| format!(" of {of}")).unwrap_or_default();
        self.showing.say(&format!("iteration {number}{of}: {}", record.folder().display()), Weight::State);
    }

    /// Shows what happens until the end. Returns how the command ended, and whether what it printed could not be written.
    fn follow(&mut self, mut child: Child) -> Result<(Ended, bool), RunError> {
        loop {
            match child.feed.next(WAIT) {
                FeedItem::Update(update) => self.take(update, &child)?,
                FeedItem::Idle => {}
                FeedItem::Closed => break,
            }
            self.keep_record(&mut child, false);
            if !self.is_silent && !self.is_drawn_over(&child) {
                // A printer takes everything.
                let _ = self.showing.beat();
            }
        }
        let (ended, passed) = match child.waiting.join() {
            Ok(outcome) => outcome?,
            Err(_) => (Ended::Code(1), Passed::default()),
        };
        let ended = ended.with_output(passed.failure.as_ref());
        if !self.is_silent {
            let _ = self.showing.finish();
        }
        if let Some(error) = &passed.failure
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            self.showing.say(&format!("cannot write to stdout: {error}"), Weight::State);
        }
        if self.unshown > 0 {
            let what = format!("{} events were not shown: the screen was the command's", self.unshown);
            self.showing.say(&what, Weight::State);
        }
        let session = child.session.get(Duration::ZERO);
        let tree = child.feed.tree(&SessionId::from(session.as_str()));
        if let (Some(tree), Some(detail)) = (&tree, self.run.args.detail) {
            let now = self.run.context.now_ms();
            let options = TreeOptions {
                detail,
                flat: false,
                most: None,
                style: self.run.context.style(None),
                now: Some(now),
                agent: None,
                offset_minutes: self.run.context.offset_minutes(),
            };
            self.showing.print(render_tree(tree, &options));
        }
        self.finish_record(&mut Last { tree, session, own_name: &child.own_name }, ended, &passed);
        drop((child.feed, child.hub, child.over));
        if let Some(unkept) = child.keeping.map(|keeping| keeping.finish(KEEPING)) {
            self.tell(unkept);
        }
        Ok((ended, passed.failure.is_some()))
    }

    fn tell(&self, unkept: Undelivered) {
        let Undelivered { lost, why, spooled } = unkept;
        if lost.lines > 0 {
            let why = why.unwrap_or_else(|| "they came too fast".to_owned());
            self.showing.say(&format!("warning: {} lines were not kept: {why}", lost.lines), Weight::State);
        }
        if spooled > 0 {
            let what = format!("the hub was too slow: {spooled} lines are spooled for it or the next");
            self.showing.say(&what, Weight::State);
        }
    }

    fn take(&mut self, update: Update, child: &Child) -> Result<(), RunError> {
        self.has_news = true;
        if let Update::Event(event) = &update {
            if event.kind == EventKind::Stall && self.run.args.stall_kill {
                let who = event.actor_id.to_string();
                self.showing
                    .say(&format!("{who} is stalled: the command is ended (--stall-kill)"), Weight::State);
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
        let prints_answer = matches!(self.run.plan.way, ObserveMode::Told | ObserveMode::Answering);
        let holds = prints_answer && !self.run.args.render && !self.run.args.json;
        match update {
            Update::Event(event) if holds && event.actor_id.0.is_root() && goes_on(event.kind) => {
                if let Some(held) = self.held.take() {
                    let _ = self.showing.take(Update::Event(Box::new(held)));
                }
                if event.kind == EventKind::AgentMessage {
                    self.held = Some(*event);
                    return Ok(());
                }
                let _ = self.showing.take(Update::Event(event));
            }
            other => {
                let _ = self.showing.take(other);
            }
        }
        Ok(())
    }

    /// Whether somebody draws for now on the terminal to which blocks would go: a program of the command's, at any depth.
    fn is_drawn_over(&self, child: &Child) -> bool {
        self.run.plan.way == ObserveMode::AtTerminal
            && io::stderr().is_terminal()
            && (self.followed.has_screen() || child.job.is_drawn_on())
    }

    /// Whether it tells what stood in a transcript before the command began.
    fn is_past(&self, update: &Update) -> bool {
        let Update::Event(event) = update else { return false };
        event.at_ms.is_some_and(|at| at < self.began) && self.followed.has(&event.session_id)
    }

    /// Keeps the record up to date, at its pace.
    fn keep_record(&mut self, child: &mut Child, is_last: bool) {
        let Some(record) = &mut self.record else { return };
        let pace = TRACE_EVERY.max(self.trace_took * TRACE_SHARE);
        if !is_last && (!self.has_news || self.last_trace.elapsed() < pace) {
            return;
        }
        self.has_news = false;
        self.last_trace = clock::tick();
        let session = child.session.get(Duration::ZERO);
        if session != child.own_name {
            // The next time does as well.
            let _ = record.set_session(&session);
        }
        if let Some(tree) = child.feed.tree(&SessionId::from(session.as_str())) {
            let _ = record.write_trace(&trace(&tree, &self.events));
        }
        self.trace_took = self.last_trace.elapsed();
    }

    fn finish_record(&mut self, last: &mut Last<'_>, ended: Ended, passed: &Passed) {
        let Some(record) = &mut self.record else { return };
        let mut done = Ok(());
        if last.session != last.own_name {
            done = record.set_session(&last.session);
        }
        if let Some(tree) = &last.tree {
            done = done.and(record.write_trace(&trace(tree, &self.events)));
        }
        done = done.and(record.finish(ended.code(), self.run.context.now_ms()));
        if let Err(error) = done {
            self.showing.say(&format!("warning: the record is incomplete: {}", failed(error)), Weight::State);
        }
        if passed.is_unlogged {
            self.showing
                .say("warning: the record's output is incomplete: it could not be written", Weight::State);
        }
    }
}

/// What is known at the end.
struct Last<'a> {
    tree: Option<subscope_model::Tree>,
    session: String,
    own_name: &'a str,
}

/// Whether an event shows that the main thread went on, so that its last message was not its answer.
fn goes_on(kind: EventKind) -> bool {
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
