//! Shows the sessions of the user's other machines (`[[remote]]`): one thread a machine starts `subscope serve --stdio`
//! there, saves the rows that come, and passes orders to stop on.
//!
//! What comes is hostile: a line has a bound, ids are made safe, and rows are all that a machine can send. While it is
//! not heard, nothing of it counts as at work.

mod texts;

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use subscope_client::forward::Backoff;
use subscope_hub::{
    HubHandle, IngestError, RemoteBatch, RemoteOrder, ReplyCallback, StopError, StopReceipt, clock,
    index::RemoteTexts,
};
use subscope_model::{
    AgentId, ContentLevel, Millis, REMOTE_SCHEMA, RemoteHello, RemoteLine, RemoteMachine, RemoteRequest,
    SessionId, Text, remote_session, remote_tree,
};
use subscope_platform::outside_of_group;
use subscope_store::{DamagedSessions, Location, RemotePosition};

use self::texts::TextFetcher;
use super::ask_hub;
use crate::config::RemoteSettings;

/// Longest line: a tree with all of its texts has a few megabytes. A longer one is skipped, and logged.
const MAX_LINE_BYTES: u64 = 64 << 20;
/// Most bytes and lines before the hello: what a login prints.
const MAX_BANNER_BYTES: usize = 256 << 10;
/// How long the hello may take: a hub may have to start there.
const HELLO_TIMEOUT: Duration = Duration::from_secs(45);
/// Interval of looks at whether the hub ends meanwhile.
const HELLO_POLL: Duration = Duration::from_millis(100);
/// Longest interval of asking for the time, which is a sign of life: three are missing when the line counts as cut.
const CLOCK_INTERVAL: Duration = Duration::from_secs(5);
/// How long `remote test` waits for the time.
const CLOCK_TIMEOUT: Duration = Duration::from_secs(16);
/// Lines that wait to be saved.
const QUEUED_LINES: usize = 16;
/// Most sessions, and most bytes, saved together.
const BATCH_SESSIONS: usize = 64;
const BATCH_BYTES: usize = 8 << 20;
/// How long the hub may take to save.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause after the hub could not save.
const RETRY: Duration = Duration::from_secs(1);
/// Most orders without an answer.
const MAX_ORDERS: usize = 64;
/// Bytes kept of what the command prints on stderr.
const MAX_COMPLAINT_BYTES: usize = 4 << 10;
/// How long a command may take to end by itself once its input has ended.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// The state of all connections, in the order of the settings. Clones share it.
#[derive(Clone, Default)]
pub(super) struct RemoteStates(Arc<Mutex<Vec<RemoteMachine>>>);

impl RemoteStates {
    fn lock(&self) -> MutexGuard<'_, Vec<RemoteMachine>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a reader of it.
    pub(super) fn reader(&self) -> impl Fn() -> Vec<RemoteMachine> + Send + Sync + 'static {
        let states = self.clone();
        move || states.lock().clone()
    }

    fn update(&self, name: &str, change: impl FnOnce(&mut RemoteMachine)) {
        if let Some(state) = self.lock().iter_mut().find(|state| *state.name == *name) {
            change(state);
        }
    }
}

/// The other machines of the settings.
pub(super) struct Remotes {
    settings: Vec<RemoteSettings>,
    pub(super) states: RemoteStates,
}

impl Remotes {
    /// Returns the machines of the settings; none is connected yet.
    pub(super) fn new(settings: &[RemoteSettings]) -> Self {
        let states = RemoteStates::default();
        states.lock().extend(
            settings.iter().map(|remote| RemoteMachine {
                name: remote.name.as_str().into(),
                ..RemoteMachine::default()
            }),
        );
        Self { settings: settings.to_vec(), states }
    }

    /// Connects to all machines until the result is dropped.
    pub(super) fn start(&self, hub: &HubHandle, store: &Location) -> RunningRemotes {
        let start = |remote: &RemoteSettings| {
            let (ending, ended) = sync_channel::<()>(1);
            let (remote, hub, states) = (remote.clone(), hub.clone(), self.states.clone());
            let store = store.clone();
            let thread = thread::spawn(move || RemoteReader { remote, hub, states, store }.run(&ended));
            (ending, thread)
        };
        RunningRemotes(self.settings.iter().map(start).collect())
    }
}

/// Connections until they are dropped.
pub(super) struct RunningRemotes(Vec<(SyncSender<()>, thread::JoinHandle<()>)>);

impl Drop for RunningRemotes {
    fn drop(&mut self) {
        let (endings, threads): (Vec<_>, Vec<_>) = std::mem::take(&mut self.0).into_iter().unzip();
        drop(endings);
        for thread in threads {
            // A panic is reported by its hook.
            let _ = thread.join();
        }
    }
}

/// Why a connection has ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    /// The command cannot be started.
    #[error("{program} cannot be started: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// There is no subscope.
    #[error("there is no subscope there{0}")]
    Missing(String),
    /// The command has ended.
    #[error("{0}")]
    Ended(String),
    /// Nothing came.
    #[error("it did not answer within {} s", .0.as_secs())]
    Silent(Duration),
    /// Something else than subscope answered.
    #[error("what answers there is not `subscope serve --stdio`")]
    NoHello,
    /// It speaks another version of the protocol.
    #[error("subscope {version} there speaks {schema}, this one {REMOTE_SCHEMA}: update the older one")]
    OtherSchema {
        /// Version of subscope there.
        version: Text,
        /// What it speaks.
        schema: Text,
    },
    /// The hub cannot save.
    #[error("its sessions cannot be saved: {0}")]
    Store(#[from] IngestError),
    /// The hub does not answer.
    #[error("the hub does not answer")]
    NoHub,
}

/// What a connection waits for.
enum RemoteInput {
    Line(Vec<u8>),
    /// A line was longer than the bound.
    TooLong,
    /// The output has ended.
    End,
    Order(RemoteOrder),
}

/// A running command on another machine. Dropping it ends the command.
pub(crate) struct RemoteCommand {
    child: Child,
    stdin: Option<ChildStdin>,
    complaint: Arc<Mutex<VecDeque<u8>>>,
    input: Receiver<RemoteInput>,
    sender: SyncSender<RemoteInput>,
}

impl RemoteCommand {
    /// Starts the command of a machine.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(crate) fn start(remote: &RemoteSettings) -> Result<Self, RemoteError> {
        let argv = remote.argv();
        let program = argv.first().cloned().unwrap_or_default();
        let failed = |source: io::Error| RemoteError::Start { program: program.clone(), source };
        let mut command = Command::new(&program);
        command.args(argv.iter().skip(1)).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A Ctrl-C of the hub's terminal reaches the hub alone, which ends the command.
        let mut child = outside_of_group(&mut command).spawn().map_err(failed)?;
        let (sender, input) = sync_channel(QUEUED_LINES);
        let complaint = Arc::new(Mutex::new(VecDeque::new()));
        let stdin = child.stdin.take();
        if let Some(stdout) = child.stdout.take() {
            let sender = sender.clone();
            thread::spawn(move || read_lines(BufReader::new(stdout), &sender));
        }
        if let Some(mut stderr) = child.stderr.take() {
            let complaint = Arc::clone(&complaint);
            thread::spawn(move || {
                let mut bytes = [0; 1024];
                while let Ok(count @ 1..) = stderr.read(&mut bytes) {
                    let mut kept = complaint.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.extend(bytes.iter().take(count));
                    let excess = kept.len().saturating_sub(MAX_COMPLAINT_BYTES);
                    kept.drain(..excess);
                }
            });
        }
        Ok(Self { child, stdin, complaint, input, sender })
    }

    /// Writes a request.
    fn send(&mut self, request: &RemoteRequest) -> Result<(), RemoteError> {
        let mut line = serde_json::to_vec(request).unwrap_or_default();
        line.push(b'\n');
        let written = self.stdin.as_mut().is_some_and(|stdin| stdin.write_all(&line).is_ok());
        if written { Ok(()) } else { Err(self.ended()) }
    }

    /// Waits for the first line, past a banner; `None` if the caller is to end.
    ///
    /// # Errors
    /// If there is none, or none that this version understands.
    pub(crate) fn hello(&mut self, has_ended: &dyn Fn() -> bool) -> Result<Option<RemoteHello>, RemoteError> {
        let (began, mut banner) = (clock::tick(), 0);
        while !has_ended() {
            match self.input.recv_timeout(HELLO_POLL) {
                Ok(RemoteInput::Line(line)) => {
                    if let Ok(RemoteLine::Hello(hello)) = serde_json::from_slice(&line) {
                        if &*hello.schema != REMOTE_SCHEMA {
                            let RemoteHello { version, schema, .. } = hello;
                            return Err(RemoteError::OtherSchema { version, schema });
                        }
                        return Ok(Some(hello));
                    }
                    banner += line.len();
                    if banner > MAX_BANNER_BYTES {
                        return Err(RemoteError::NoHello);
                    }
                }
                Ok(RemoteInput::TooLong) => return Err(RemoteError::NoHello),
                Ok(RemoteInput::End) | Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) if began.elapsed() > HELLO_TIMEOUT => {
                    return Err(RemoteError::Silent(HELLO_TIMEOUT));
                }
                Ok(RemoteInput::Order(_)) | Err(RecvTimeoutError::Timeout) => {}
            }
        }
        Ok(None)
    }

    /// Measures how far the clock there is ahead, and the time of the round trip. Other lines that come meanwhile are
    /// dropped.
    ///
    /// # Errors
    /// If no answer comes.
    pub(crate) fn measure(&mut self) -> Result<(Millis, Millis), RemoteError> {
        self.send(&RemoteRequest::Clock { asked_ms: clock::now_ms() })?;
        loop {
            match self.input.recv_timeout(CLOCK_TIMEOUT) {
                Ok(RemoteInput::Line(line)) => {
                    if let Ok(RemoteLine::Clock { asked_ms, now_ms }) = serde_json::from_slice(&line) {
                        return Ok(offset(asked_ms, now_ms, clock::now_ms()));
                    }
                }
                Ok(RemoteInput::TooLong | RemoteInput::Order(_)) => {}
                Ok(RemoteInput::End) | Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) => return Err(RemoteError::Silent(CLOCK_TIMEOUT)),
            }
        }
    }

    /// Says how the command has ended.
    fn ended(&mut self) -> RemoteError {
        drop(self.stdin.take());
        let status = self.wait();
        // The reader of stderr may be a moment late.
        thread::sleep(Duration::from_millis(20));
        let complaint: Vec<u8> =
            self.complaint.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        let complaint = String::from_utf8_lossy(&complaint);
        let last = complaint.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        let what = match status.and_then(|status| status.code()) {
            Some(127) => {
                let why = if last.is_empty() { String::new() } else { format!(": {last}") };
                return RemoteError::Missing(why);
            }
            Some(0) => "it has ended".to_owned(),
            Some(code) => format!("it has ended with {code}"),
            None => "it was ended".to_owned(),
        };
        RemoteError::Ended(if last.is_empty() { what } else { format!("{what}: {last}") })
    }

    /// Waits for the end of the command, which has no input any more; ends it if it takes too long.
    fn wait(&mut self) -> Option<ExitStatus> {
        let began = clock::tick();
        while began.elapsed() < END_TIMEOUT {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        self.child.wait().ok()
    }
}

impl Drop for RemoteCommand {
    fn drop(&mut self) {
        drop(self.stdin.take());
        self.wait();
    }
}

/// Passes the lines of a command on, as fast as they are saved.
fn read_lines(mut output: impl BufRead, lines: &SyncSender<RemoteInput>) {
    loop {
        let mut line = Vec::new();
        let read = (&mut output).take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        let input = match read {
            Ok(1..) if line.ends_with(b"\n") => RemoteInput::Line(line),
            Ok(1..) if line.len() as u64 == MAX_LINE_BYTES => {
                drop(line);
                if output.skip_until(b'\n').is_err() {
                    break;
                }
                RemoteInput::TooLong
            }
            Ok(_) | Err(_) => break,
        };
        if lines.send(input).is_err() {
            return;
        }
    }
    // The connection may have ended already.
    let _ = lines.send(RemoteInput::End);
}

/// Returns how far a clock is ahead, which was asked and answered at these times, and the time of the round trip.
fn offset(asked_ms: Millis, answered_ms: Millis, now_ms: Millis) -> (Millis, Millis) {
    let round_trip = now_ms.saturating_sub(asked_ms).max(0);
    let middle = asked_ms.saturating_add(round_trip / 2);
    (answered_ms.saturating_sub(middle), round_trip)
}

/// What came and is not saved yet.
#[derive(Default)]
struct UnsavedLines {
    batch: RemoteBatch,
    bytes: usize,
}

/// The thread of a machine.
struct RemoteReader {
    remote: RemoteSettings,
    hub: HubHandle,
    states: RemoteStates,
    store: Location,
}

impl RemoteReader {
    fn run(&self, ended: &Receiver<()>) {
        let name = self.remote.name.as_str();
        let mut backoff = Backoff::default();
        let mut is_damaged = self.has_damage();
        loop {
            let mut heard_ms = None;
            let outcome = self.connect(is_damaged, &mut heard_ms, ended);
            if let Some(heard_ms) = heard_ms {
                is_damaged = false;
                backoff.reset();
                let machine = Text::from(name);
                let lost = ask_hub(ANSWER_TIMEOUT, |reply| self.hub.lose_remote(machine, heard_ms, reply));
                if !matches!(lost, Some(Ok(()))) {
                    tracing::warn!("sessions of {name} may count as at work");
                }
            }
            let Err(error) = outcome else { return };
            let error = error.to_string();
            let mut is_news = false;
            self.states.update(name, |state| {
                is_news = state.is_connected || state.error.as_deref() != Some(&error);
                (state.is_connected, state.is_caught_up, state.unsearched) = (false, false, None);
                state.error = Some(error.as_str().into());
            });
            if is_news {
                tracing::info!("remote {name}: {error}");
            }
            if super::has_ended(ended, backoff.next(None)) {
                return;
            }
        }
    }

    /// Whether stored rows of the machine are damaged: all of its sessions are asked for again then.
    fn has_damage(&self) -> bool {
        let name = self.remote.name.as_str();
        let Ok(store) = self.store.open() else { return false };
        match store.damaged_sessions() {
            Ok(DamagedSessions::Some(sessions)) => {
                sessions.iter().any(|session| session.on_machine(name).is_some())
            }
            Ok(DamagedSessions::All) => true,
            Err(error) => {
                tracing::warn!("remote {name}: cannot look for damaged rows: {error}");
                false
            }
        }
    }

    /// Shows a machine's sessions until the connection or the hub ends; the latter is no error. With `from_start` all of them
    /// are asked for. `heard_ms` is when something last came.
    fn connect(
        &self,
        from_start: bool,
        heard_ms: &mut Option<Millis>,
        ended: &Receiver<()>,
    ) -> Result<(), RemoteError> {
        let name = self.remote.name.as_str();
        let mut command = RemoteCommand::start(&self.remote)?;
        let is_over = || super::has_ended(ended, Duration::ZERO);
        let Some(hello) = command.hello(&is_over)? else { return Ok(()) };
        *heard_ms = Some(clock::now_ms());
        let orders = command.sender.clone();
        let pass_on = move |order| {
            orders.try_send(RemoteInput::Order(order)).map_err(|unsent| match unsent {
                std::sync::mpsc::TrySendError::Full(input)
                | std::sync::mpsc::TrySendError::Disconnected(input) => input,
            })
        };
        let pass_on = move |order: RemoteOrder| {
            pass_on(order).or_else(|input| match input {
                RemoteInput::Order(order) => Err(order),
                RemoteInput::Line(_) | RemoteInput::TooLong | RemoteInput::End => Ok(()),
            })
        };
        let joined =
            ask_hub(ANSWER_TIMEOUT, |reply| self.hub.join_remote(name.into(), Box::new(pass_on), reply));
        let position = joined.ok_or(RemoteError::NoHub)??;
        let position = position.filter(|known| known.store == hello.store && !from_start);
        command.send(&RemoteRequest::Start {
            schema: REMOTE_SCHEMA.into(),
            content: self.remote.content,
            store: hello.store.clone(),
            rev: position.map_or(0, |position| position.rev),
        })?;
        tracing::info!("remote {name}: connected to {} of {}", hello.version, hello.host.escape_default());
        self.states.update(name, |state| {
            *state = RemoteMachine {
                name: name.into(),
                is_connected: true,
                last_heard_ms: *heard_ms,
                version: Some(hello.version.clone()),
                host: Some(hello.host.clone()),
                sessions: Some(hello.sessions),
                ..RemoteMachine::default()
            }
        });
        let mut connection = RemoteConnection {
            reader: self,
            store: hello.store,
            command,
            unsaved: UnsavedLines::default(),
            orders: BTreeMap::new(),
            next_order: 0,
            is_caught_up: false,
            texts: (self.remote.content == ContentLevel::Text)
                .then(|| TextFetcher::new(name, RemoteTexts::of(self.store.folder()))),
        };
        connection.follow(heard_ms, ended)
    }
}

/// A connection after its hello.
struct RemoteConnection<'r> {
    reader: &'r RemoteReader,
    store: Text,
    command: RemoteCommand,
    unsaved: UnsavedLines,
    /// Orders whose answers are due.
    orders: BTreeMap<u64, ReplyCallback<Result<StopReceipt, StopError>>>,
    next_order: u64,
    /// Whether all of its sessions have come.
    is_caught_up: bool,
    /// Texts of its sessions; `None` if they stay there.
    texts: Option<TextFetcher>,
}

impl RemoteConnection<'_> {
    fn name(&self) -> &str {
        &self.reader.remote.name
    }

    fn follow(&mut self, heard_ms: &mut Option<Millis>, ended: &Receiver<()>) -> Result<(), RemoteError> {
        let mut heard = clock::tick();
        let mut next_clock = clock::tick();
        let silence = self.reader.remote.silence;
        loop {
            if super::has_ended(ended, Duration::ZERO) {
                return Ok(());
            }
            let now: Instant = clock::tick();
            if now >= next_clock {
                self.command.send(&RemoteRequest::Clock { asked_ms: clock::now_ms() })?;
                next_clock = now + CLOCK_INTERVAL.min(silence / 3);
            }
            let wait = next_clock.saturating_duration_since(now).min(RETRY);
            let mut input = match self.command.input.recv_timeout(wait) {
                Ok(input) => Some(input),
                Err(RecvTimeoutError::Timeout) if heard.elapsed() > silence => {
                    return Err(RemoteError::Silent(silence));
                }
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(RemoteInput::End),
            };
            // What waits already is saved together.
            while let Some(next) = input.take() {
                if !matches!(next, RemoteInput::Order(_) | RemoteInput::End) {
                    (heard, *heard_ms) = (clock::tick(), Some(clock::now_ms()));
                }
                if let Err(error) = self.handle(next) {
                    self.save()?;
                    return Err(error);
                }
                if self.unsaved.batch.trees.len() < BATCH_SESSIONS && self.unsaved.bytes < BATCH_BYTES {
                    input = self.command.input.try_recv().ok();
                }
            }
            self.save()?;
            self.fetch_texts()?;
            let (last_heard_ms, unsearched) =
                (*heard_ms, self.texts.as_ref().and_then(TextFetcher::unsearched));
            self.reader.states.update(self.name(), |state| {
                state.last_heard_ms = last_heard_ms;
                state.unsearched = unsearched.filter(|_| state.is_caught_up);
            });
        }
    }

    fn handle(&mut self, input: RemoteInput) -> Result<(), RemoteError> {
        match input {
            RemoteInput::Line(line) => {
                self.unsaved.bytes += line.len();
                match serde_json::from_slice(&line) {
                    Ok(line) => self.take(line),
                    Err(error) => tracing::warn!("remote {}: a line is not understood: {error}", self.name()),
                }
            }
            RemoteInput::TooLong => {
                tracing::warn!(
                    "remote {}: a session of more than {MAX_LINE_BYTES} bytes is not shown",
                    self.name()
                );
            }
            RemoteInput::End => return Err(self.command.ended()),
            RemoteInput::Order(order) => {
                if self.orders.len() >= MAX_ORDERS {
                    (order.reply)(Err(StopError::Remote("too many orders have no answer".to_owned())));
                    return Ok(());
                }
                self.next_order += 1;
                let (number, RemoteOrder { session, agent, reply }) = (self.next_order, order);
                self.orders.insert(number, reply);
                self.command.send(&RemoteRequest::Stop { number, session, agent: agent.as_str().into() })?;
            }
        }
        Ok(())
    }

    /// Asks for the next texts. What is behind is of no hurry: it waits until all sessions have come.
    fn fetch_texts(&mut self) -> Result<(), RemoteError> {
        if !self.is_caught_up {
            return Ok(());
        }
        let Some(session) = self.texts.as_mut().and_then(|texts| texts.next(&self.reader.hub)) else {
            return Ok(());
        };
        let there = session.on_machine(self.name()).map(SessionId::from);
        there.map_or(Ok(()), |session| self.command.send(&RemoteRequest::Texts { session }))
    }

    fn take(&mut self, line: RemoteLine) {
        let name = self.reader.remote.name.as_str();
        match line {
            RemoteLine::Session { snapshot } => {
                let session = remote_session(name, &snapshot.row.id);
                let batch = &mut self.unsaved.batch;
                // A later one replaces it.
                batch.trees.retain(|tree| tree.session.id != session);
                batch.removed.retain(|removed| *removed != session);
                match remote_tree(name, *snapshot) {
                    Some(tree) => batch.trees.push(tree),
                    None => batch.removed.push(session),
                }
            }
            RemoteLine::Position { rev, is_caught_up } => {
                let position = RemotePosition { machine: name.into(), store: self.store.clone(), rev };
                self.unsaved.batch.position = Some(position);
                self.is_caught_up |= is_caught_up;
                self.reader.states.update(name, |state| state.is_caught_up = is_caught_up);
            }
            RemoteLine::Clock { asked_ms, now_ms } => {
                let (offset, round_trip) = offset(asked_ms, now_ms, clock::now_ms());
                self.reader.states.update(name, |state| {
                    // The shorter the way, the better the measurement.
                    if state.round_trip_ms.is_none_or(|before| round_trip <= before) {
                        (state.clock_offset_ms, state.round_trip_ms) = (Some(offset), Some(round_trip));
                    }
                });
            }
            RemoteLine::Stop { number, ordered, refused } => {
                let Some(reply) = self.orders.remove(&number) else { return };
                let refused = || StopError::Remote(refused.as_deref().unwrap_or("it was refused").to_owned());
                reply(ordered.ok_or_else(refused).map(|ordered| StopReceipt {
                    session: remote_session(name, &ordered.session_id),
                    agent: AgentId::from_outside(&ordered.agent_id),
                    title: ordered.title.to_string(),
                    is_repeat: ordered.repeat,
                    is_reached: ordered.reached,
                    told_by: ordered.told_by,
                }));
            }
            RemoteLine::Texts { session, texts, is_last, unread } => {
                let Some(fetcher) = &mut self.texts else { return };
                if let Err(error) = fetcher.take(&session, texts, is_last, unread, &self.reader.hub) {
                    tracing::warn!("remote {name}: texts of a session are not saved: {error}");
                }
            }
            RemoteLine::Hello(_) | RemoteLine::Unknown => {}
        }
    }

    /// Saves what came. While the hub cannot, nothing more is read; what it does not save at last comes again.
    fn save(&mut self) -> Result<(), RemoteError> {
        let UnsavedLines { batch, .. } = std::mem::take(&mut self.unsaved);
        if let Some(texts) = self.texts.as_mut().filter(|_| !batch.trees.is_empty()) {
            texts.note_change();
        }
        if batch.trees.is_empty() && batch.removed.is_empty() && batch.position.is_none() {
            return Ok(());
        }
        let saved = ask_hub(ANSWER_TIMEOUT, |reply| self.reader.hub.put_remote(batch, reply));
        Ok(saved.ok_or(RemoteError::NoHub)??)
    }
}

impl Drop for RemoteConnection<'_> {
    fn drop(&mut self) {
        for reply in std::mem::take(&mut self.orders).into_values() {
            reply(Err(StopError::Remote("the connection was cut before the answer".to_owned())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_is_measured_at_half_of_the_round_trip() {
        assert_eq!(offset(1_000, 5_030, 1_060), (4_000, 60));
        assert_eq!(offset(1_000, 400, 1_000), (-600, 0));
        assert_eq!(offset(1_000, 900, 500), (-100, 0), "the clock was set back meanwhile");
    }

    #[test]
    fn lines_are_bounded_and_the_end_is_a_message() {
        let (sender, input) = sync_channel(8);
        let mut output = b"one\n".to_vec();
        output.extend(std::iter::repeat_n(b'x', MAX_LINE_BYTES as usize + 5));
        output.extend(b"\ntwo\nhalf");
        read_lines(output.as_slice(), &sender);
        drop(sender);
        let words: Vec<String> = input
            .iter()
            .map(|input| match input {
                RemoteInput::Line(line) => String::from_utf8(line).unwrap(),
                RemoteInput::TooLong => "too long".to_owned(),
                RemoteInput::End => "end".to_owned(),
                RemoteInput::Order(_) => "order".to_owned(),
            })
            .collect();
        assert_eq!(words, ["one\n", "too long", "two\n", "end"]);
    }
}
