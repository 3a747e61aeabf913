//! `subscope serve --stdio`: sends this machine's sessions to a hub on another machine of its user, over stdout, and takes
//! requests from stdin. It ends with its input.
//!
//! Two ways, so that nothing is lost and nothing is late: the store is read from a position on, in the order of revs, and
//! says how far it is sent; the live feed of this machine's hub has changes before they are stored. A session is sent
//! whole, so one that comes both ways, or twice, changes nothing.

mod texts;

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    io::{self, BufRead, Read, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use subscope_export::{SnapshotHead, snapshot, snapshot_line, tombstone};
use subscope_hub::clock;
use subscope_model::{
    ContentLevel, FeedItem, LiveView, REMOTE_SCHEMA, RemoteHello, RemoteLine, RemoteRequest, SessionId,
    SessionRow, Snapshot, Text, Tree, Update, iso8601, stable_hash,
};
use subscope_platform::{DeviceInode, device_inode, modified_ns};
use subscope_store::{Access, SessionQueries, SqliteStore};

use self::texts::TextSender;
use crate::{
    command::{history, stop::request_stop, watch::live},
    forward::{Exclusions, ProjectNames, host_name},
    hub_connection::VERSION,
    prelude::*,
};

/// Longest request.
const MAX_REQUEST_BYTES: u64 = 64 << 10;
/// How long the first request may take.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Silence after which nobody is there any more: a hub asks for the time every few seconds.
const MAX_SILENCE: Duration = Duration::from_secs(60);
/// Interval of looks at the store.
const SCAN: Duration = Duration::from_secs(1);
/// Least interval between two sends of a session: changes that come together are sent together.
const MIN_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes per second that a session may cost for long, and how many it may cost at once: a change after a quiet time is
/// not delayed.
const BYTES_PER_SECOND: f64 = 2_000_000.0;
const BURST_BYTES: f64 = 4_000_000.0;
/// Sessions between two positions.
const PORTION: usize = 50;
/// A hub assigns revs before it commits, and commits in another order: revs down to this distance below the highest one
/// are looked at again.
const REV_SLACK: u64 = 20_000;

/// Where lines are written: by the sender, and by the thread of requests.
#[derive(Clone)]
struct Lines(Arc<Mutex<io::Stdout>>);

impl Lines {
    fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(line)?;
        out.flush()
    }

    fn send(&self, line: &RemoteLine) -> Result<(), CliError> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        Ok(self.write(&bytes)?)
    }
}

/// What the thread of requests shares with the sender.
struct Presence {
    has_ended: AtomicBool,
    heard: Mutex<Instant>,
}

impl Presence {
    fn hear(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = clock::tick();
    }

    fn is_gone(&self) -> bool {
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_ended.load(Ordering::Acquire) || heard.elapsed() > MAX_SILENCE
    }
}

/// Sends until the input ends, or nobody is there any more.
pub(super) fn run(context: &Context) -> Result<(), CliError> {
    let followed = live::follow_all(&|| (), context)?;
    let store = history::open_rows(Access::Read, context)??;
    let data = context.data_folder()?;
    let id = fs::canonicalize(&data).unwrap_or(data);
    let hello = RemoteHello {
        schema: REMOTE_SCHEMA.into(),
        version: VERSION.into(),
        host: host_name(),
        now_ms: clock::now_ms(),
        store: format!("{:016x}", stable_hash(&id.to_string_lossy())).into(),
        sessions: store.session_ids()?.len() as u64,
    };
    let (lines, store_id) = (Lines(Arc::new(Mutex::new(io::stdout()))), hello.store.clone());
    lines.send(&RemoteLine::Hello(hello))?;
    let presence = Arc::new(Presence { has_ended: AtomicBool::new(false), heard: Mutex::new(clock::tick()) });
    let (sender, requests) = sync_channel(16);
    {
        let (lines, presence) = (lines.clone(), Arc::clone(&presence));
        // Not joined: it waits for input, which may outlive this process.
        thread::spawn(move || read_requests(&lines, &presence, &sender));
    }
    let Some((content, from)) = started(&requests, &store_id)? else { return Ok(()) };
    let texts = TextSender::start(store.location().clone(), content, &lines, context)?;
    let mut sender = SessionSender {
        store,
        names: ProjectNames::new(&context.settings().team),
        exclusions: Exclusions::new(&context.settings().team, &context.environment),
        host: host_name(),
        zone: Some(context.zone()).filter(|zone| zone.is_named()).map(|zone| zone.name().into()),
        content,
        lines,
        sent: HashMap::new(),
        from,
        position: from,
        is_caught_up: false,
        is_feed_caught_up: false,
        highest: from,
        version: None,
        pending: BTreeMap::new(),
        view: LiveView::default(),
    };
    let program = Program::running();
    let mut feed = followed.feed;
    let mut next_scan = clock::tick();
    while !presence.is_gone() {
        for request in requests.try_iter() {
            answer(&request, &sender.lines, &texts, context)?;
        }
        let now = clock::tick();
        if now >= next_scan {
            sender.scan(&presence)?;
            if program.as_ref().is_some_and(Program::is_replaced) {
                // The hub that asks starts the new version.
                return Ok(());
            }
            next_scan = clock::tick() + SCAN;
        }
        sender.send_due()?;
        if !sender.is_caught_up {
            // At once, and not with the next look at the store.
            sender.tell_position(sender.highest, true)?;
        }
        let wait = next_scan.saturating_duration_since(clock::tick()).min(sender.due_in());
        match feed.next(wait.max(Duration::from_millis(1))) {
            FeedItem::Update(update) => sender.apply(update),
            FeedItem::Idle => {}
            FeedItem::Closed => return Ok(()),
        }
    }
    Ok(())
}

/// Waits for the first request. Returns the level of content, and the position from which on sessions are sent; `None` if the
/// input has ended.
fn started(
    requests: &Receiver<RemoteRequest>,
    store_id: &Text,
) -> Result<Option<(ContentLevel, u64)>, CliError> {
    let began = clock::tick();
    while began.elapsed() < START_TIMEOUT {
        match requests.recv_timeout(Duration::from_millis(100)) {
            Ok(RemoteRequest::Start { schema, content, store, rev }) => {
                if &*schema != REMOTE_SCHEMA {
                    let message = format!("the hub that asks speaks {schema:?}, this is {REMOTE_SCHEMA}");
                    return Err(CliError::failed(message).hint("update the older one"));
                }
                return Ok(Some((content, if store == *store_id { rev } else { 0 })));
            }
            Ok(
                RemoteRequest::Clock { .. }
                | RemoteRequest::Texts { .. }
                | RemoteRequest::Stop { .. }
                | RemoteRequest::Unknown,
            )
            | Err(RecvTimeoutError::Timeout) => {}
            // The input has ended, and what came before its end is read.
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(None)
}

/// Reads requests until the input ends. It answers for the time at once, so that nothing but the way back delays it.
fn read_requests(lines: &Lines, presence: &Presence, requests: &SyncSender<RemoteRequest>) {
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut input).take(MAX_REQUEST_BYTES).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) || !line.ends_with(b"\n") {
            break;
        }
        presence.hear();
        let outcome = match serde_json::from_slice(&line) {
            Ok(RemoteRequest::Clock { asked_ms }) => {
                lines.send(&RemoteLine::Clock { asked_ms, now_ms: clock::now_ms() }).is_ok()
            }
            Ok(
                request @ (RemoteRequest::Start { .. }
                | RemoteRequest::Texts { .. }
                | RemoteRequest::Stop { .. }),
            ) => requests.send(request).is_ok(),
            Ok(RemoteRequest::Unknown) | Err(_) => true,
        };
        if !outcome {
            break;
        }
    }
    presence.has_ended.store(true, Ordering::Release);
}

/// Answers a request other than the first.
fn answer(
    request: &RemoteRequest,
    lines: &Lines,
    texts: &TextSender,
    context: &Context,
) -> Result<(), CliError> {
    let (number, session, agent) = match request {
        RemoteRequest::Stop { number, session, agent } => (number, session, agent),
        RemoteRequest::Texts { session } => {
            texts.request(session.clone());
            return Ok(());
        }
        RemoteRequest::Start { .. } | RemoteRequest::Clock { .. } | RemoteRequest::Unknown => return Ok(()),
    };
    let (ordered, refused) = match request_stop(Some(session), agent, context) {
        Ok(ordered) => (Some(ordered), None),
        Err(error) => (None, Some(error.to_string().into())),
    };
    lines.send(&RemoteLine::Stop { number: *number, ordered, refused })
}

/// The file of this program, to notice that another version has taken its place.
struct Program {
    path: PathBuf,
    identity: (DeviceInode, i64),
}

impl Program {
    fn running() -> Option<Self> {
        let path = std::env::current_exe().ok()?;
        let identity = Self::identity(&path)?;
        Some(Self { path, identity })
    }

    fn identity(path: &Path) -> Option<(DeviceInode, i64)> {
        let metadata = fs::metadata(path).ok()?;
        Some((device_inode(path, &metadata).ok()?, modified_ns(&metadata)))
    }

    fn is_replaced(&self) -> bool {
        Self::identity(&self.path).is_some_and(|now| now != self.identity)
    }
}

/// What was sent of a session.
struct SentSession {
    rev: u64,
    at: Instant,
    /// Bytes that its budget lacked then; it pays [`BYTES_PER_SECOND`] of them back.
    debt: f64,
}

impl SentSession {
    /// Returns the debt after a time.
    fn debt_at(&self, now: Instant) -> f64 {
        (self.debt - now.saturating_duration_since(self.at).as_secs_f64() * BYTES_PER_SECOND).max(0.0)
    }

    /// Returns when the next one may be sent.
    fn next_at(&self) -> Instant {
        let excess = Duration::from_secs_f64((self.debt - BURST_BYTES).max(0.0) / BYTES_PER_SECOND);
        self.at + excess.max(MIN_INTERVAL)
    }
}

/// Sends sessions.
struct SessionSender {
    store: SqliteStore,
    names: ProjectNames,
    exclusions: Exclusions,
    host: Text,
    zone: Option<Text>,
    content: ContentLevel,
    lines: Lines,
    sent: HashMap<SessionId, SentSession>,
    /// Rev from which on the store is looked at.
    from: u64,
    /// Last position that was sent.
    position: u64,
    is_caught_up: bool,
    /// Whether the feed has sent what was there when it began.
    is_feed_caught_up: bool,
    /// Highest rev of the store.
    highest: u64,
    /// The store's version when it was last looked at.
    version: Option<i64>,
    /// Sessions that have changed on the live feed, and when they may be sent.
    pending: BTreeMap<SessionId, Instant>,
    view: LiveView,
}

impl SessionSender {
    /// Takes an update of the live feed.
    fn apply(&mut self, update: Update) {
        let session = match &update {
            Update::Snapshot(tree) => Some(tree.session.id.clone()),
            Update::Change(change) => Some(change.session().id.clone()),
            Update::Event(_) | Update::Missed(_) | Update::Reset | Update::CaughtUp => None,
        };
        self.is_feed_caught_up |= matches!(update, Update::CaughtUp);
        self.view.apply(update);
        if let Some(session) = session {
            let now = clock::tick();
            let due = self.sent.get(&session).map_or(now, |sent| now.max(sent.next_at()));
            self.pending.entry(session).or_insert(due);
        }
    }

    /// Time until the next session is due.
    fn due_in(&self) -> Duration {
        let now = clock::tick();
        let waits = self.pending.values().map(|due| due.saturating_duration_since(now));
        waits.min().unwrap_or(SCAN)
    }

    /// Sends what is due of the live feed.
    fn send_due(&mut self) -> Result<(), CliError> {
        let now = clock::tick();
        let due: Vec<SessionId> =
            self.pending.iter().filter(|(_, due)| **due <= now).map(|(session, _)| session.clone()).collect();
        for session in due {
            self.pending.remove(&session);
            if let Some(tree) = self.view.get(&session).cloned() {
                self.send(&SessionRow::of(&tree), &tree)?;
                if !tree.agents.iter().any(|agent| agent.status.is_live()) {
                    // Its next change comes with a snapshot, or is found in the store.
                    self.view.remove(&session);
                }
            }
        }
        Ok(())
    }

    /// Sends what the store has from the position on, and how far that is.
    fn scan(&mut self, presence: &Presence) -> Result<(), CliError> {
        let version = self.store.data_version()?;
        if self.version == Some(version) {
            return self.tell_position(self.highest, true);
        }
        let mut found = self.store.sessions_from_rev(self.from)?;
        found.sort_by_key(|one| one.rev);
        self.highest = found.last().map_or(self.highest, |one| one.rev.max(self.highest));
        for (number, one) in found.iter().enumerate() {
            if presence.is_gone() {
                return Ok(());
            }
            let is_sent = self.sent.get(&one.session).is_some_and(|sent| sent.rev >= one.rev);
            if is_sent {
                continue;
            }
            if one.is_forgotten {
                self.remove(&one.session, one.rev)?;
            } else if let (Some(row), Ok(Some(tree))) =
                (self.store.session_row(&one.session)?, self.store.tree(&one.session))
            {
                self.send(&row, &tree)?;
            }
            if number % PORTION == PORTION - 1 {
                self.tell_position(one.rev, false)?;
            }
        }
        self.version = Some(version);
        self.from = self.from.max(self.highest.saturating_sub(REV_SLACK));
        self.tell_position(self.highest, true)
    }

    /// Says how far everything is sent, unless that was said. All is sent once the feed has sent what was there, too.
    fn tell_position(&mut self, rev: u64, is_whole: bool) -> Result<(), CliError> {
        let is_caught_up = is_whole && self.is_feed_caught_up && self.pending.is_empty();
        let is_caught_up = is_caught_up || self.is_caught_up;
        let rev = rev.saturating_sub(REV_SLACK).max(self.position);
        if rev == self.position && is_caught_up == self.is_caught_up {
            return Ok(());
        }
        (self.position, self.is_caught_up) = (rev, is_caught_up);
        self.lines.send(&RemoteLine::Position { rev, is_caught_up })
    }

    fn head(&self, rev: u64, tree: Option<&Tree>, project: Option<&Text>) -> SnapshotHead {
        let at = tree.and_then(|tree| tree.session.started_at_ms).unwrap_or(0);
        SnapshotHead {
            machine: self.host.clone(),
            rev,
            day: iso8601(at.max(0)).chars().take(10).collect::<String>().into(),
            time_zone: self.zone.clone(),
            project: self.names.name(project.map(|project| &**project)),
            level: self.content,
        }
    }

    /// Sends a session, unless it is another machine's, or stays here.
    fn send(&mut self, row: &SessionRow, tree: &Tree) -> Result<(), CliError> {
        let rev = tree.rev();
        let is_sent = self.sent.get(&row.id).is_some_and(|sent| sent.rev >= rev && rev > 0);
        if tree.session.machine.is_some() || self.exclusions.contains(row) || is_sent {
            return Ok(());
        }
        let made = snapshot(self.head(rev, Some(tree), row.project()), row, tree, Vec::new());
        self.write(row.id.clone(), rev, &made)
    }

    /// Says that a session is gone.
    fn remove(&mut self, session: &SessionId, rev: u64) -> Result<(), CliError> {
        let made = tombstone(self.head(rev, None, None), session);
        self.write(session.clone(), rev, &made)
    }

    fn write(&mut self, session: SessionId, rev: u64, made: &Snapshot) -> Result<(), CliError> {
        let mut line = br#"{"line":"session","snapshot":"#.to_vec();
        snapshot_line(made, &mut line)?;
        line.truncate(line.trim_ascii_end().len());
        line.extend_from_slice(b"}\n");
        self.lines.write(&line)?;
        let now = clock::tick();
        let debt = self.sent.get(&session).map_or(0.0, |sent| sent.debt_at(now)) + line.len() as f64;
        self.sent.insert(session, SentSession { rev, at: now, debt });
        Ok(())
    }
}
