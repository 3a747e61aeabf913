//! Forwards this machine's sessions to the server of a team: what is due, reduced to a level of content, in batches.
//!
//! The store is the queue: it is only read. What the server has acknowledged is recorded in a database of its own
//! (`store::ForwardLog`) after the acknowledgement and never before, so that a kill at any moment only sends again.
//! Nothing waits for a forwarder.

mod due;
mod progress;
mod project;
mod sending;
mod status;

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use subscope_client::{
    ClientError, Remote,
    forward::{Delivery, MAX_BATCH_BYTES, MAX_BATCH_SESSIONS, Refusal, deliver},
};
use subscope_collect::archive::Archive;
use subscope_export::{SnapshotHead, snapshot, snapshot_line, tombstone};
use subscope_hub::{SessionSources, SourcesError, Unread, clock};
use subscope_model::{ContentLevel, Millis, SessionId, SnapshotText, Text, Tree, iso8601};
use subscope_store::{
    Access, ForwardLog, Forwarded, ListQuery, OpenError, SessionQueries, SqliteStore, StoreError,
};

use self::due::{DueQueue, DueSession};
pub(crate) use self::{
    progress::ForwardProgress,
    project::{Exclusions, ProjectNames},
    sending::SendingSource,
    status::status,
};
use crate::{config::TeamSettings, environment::Environment, output::HarmlessJson};

/// Most bytes of a passage that are sent.
const PASSAGE_BYTES: usize = 16 << 10;

/// Most sessions searched for one that may leave the machine.
const EXAMPLES: usize = 100;

/// How often a session at work is sent, at most.
const LIVE_INTERVAL: Duration = Duration::from_secs(10);

/// How far ahead of this machine's clock a rev is sent: the server takes a day, and its clock is another one.
const MAX_REV_AHEAD_US: u64 = 12 * 60 * 60 * 1_000_000;

/// Settings of forwarding.
#[derive(Clone, Debug)]
pub(crate) struct ForwardOptions {
    /// Data folder.
    pub(crate) data: PathBuf,
    /// Fingerprint of the rules, to open the store.
    pub(crate) rules: String,
    /// Archive of transcripts that are gone.
    pub(crate) archive: Archive,
    /// Name of the machine.
    pub(crate) machine: Text,
    /// Name of its time zone, if it has one.
    pub(crate) time_zone: Option<Text>,
    /// What leaves it.
    pub(crate) level: ContentLevel,
    /// Names of projects.
    pub(crate) names: ProjectNames,
    /// Working directories whose sessions stay here.
    pub(crate) exclusions: Exclusions,
    /// Whether sessions that the server has are sent once more: at a higher level, for example.
    pub(crate) all: bool,
}

/// Error of forwarding.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForwardError {
    /// The store or the record cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store or the record cannot be read or written.
    #[error("what is to be forwarded cannot be read")]
    Store(#[from] StoreError),
    /// A batch cannot be made.
    #[error("a batch cannot be made")]
    Io(#[from] std::io::Error),
    /// The server does not let this token in.
    #[error("the team's server refuses this token")]
    Forbidden(#[source] ClientError),
}

/// Result of a round.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Sessions that the server acknowledged.
    pub(crate) sent: usize,
    /// Sessions that wait for the next round.
    pub(crate) waiting: usize,
    /// Sessions that the server does not take, with its reason.
    pub(crate) refused: Vec<Refusal>,
    /// Why the round ended early, and the wait that the server asked for.
    pub(crate) failure: Option<(ClientError, Option<Duration>)>,
}

/// Forwards the sessions of one data folder to one server.
pub(crate) struct SessionForwarder {
    options: ForwardOptions,
    store: SqliteStore,
    /// `None` if nothing is sent, and nothing has been recorded yet.
    log: Option<ForwardLog>,
    /// When the record began, in microseconds since 1970, as revs are.
    since_us: u64,
    ledger: DueQueue,
    /// When a session at work was last sent.
    sent_at: HashMap<SessionId, Instant>,
    /// Sessions that the server does not take, with the rev of their rows.
    refused: HashMap<SessionId, u64>,
    /// Latest time of this machine's clock.
    latest_us: u64,
}

/// A session as it is sent, and what to record when it is acknowledged.
struct Prepared {
    session: SessionId,
    /// A line; with one before it that removes what the server has, if that has a rev that nothing outranks.
    lines: Vec<u8>,
    line_count: usize,
    forwarded: Forwarded,
    is_live: bool,
}

impl SessionForwarder {
    /// Opens the store for reading, and the record of a server. With [`Access::Read`] another process may be forwarding,
    /// and only [`Self::print`] and [`Self::example`] may be called.
    ///
    /// # Errors
    /// [`ForwardError::Open`]: no store, or another forwarder.
    pub(crate) fn open(options: ForwardOptions, team: &str, access: Access) -> Result<Self, ForwardError> {
        let store = SqliteStore::open(&options.data, Access::Read, &options.rules, 0)?;
        let now_us = now_us();
        let log = match ForwardLog::open(&options.data, access, team, now_us) {
            Err(OpenError::Missing(_)) if access == Access::Read => None,
            opened => Some(opened?),
        };
        let since_us = log.as_ref().map(ForwardLog::since_us).transpose()?.flatten().unwrap_or(now_us);
        let forwarded = log.as_ref().map(ForwardLog::all).transpose()?;
        let ledger = DueQueue::new(forwarded.unwrap_or_default());
        let (sent_at, refused) = (HashMap::new(), HashMap::new());
        Ok(Self { options, store, log, since_us, ledger, sent_at, refused, latest_us: now_us })
    }

    /// Whether there may be something to send since the last call: the store has changed, or the clock was set back, so that
    /// the server may take what it refused.
    pub(crate) fn has_news(&mut self) -> Result<bool, ForwardError> {
        let now_us = now_us();
        if now_us + MAX_REV_AHEAD_US < self.latest_us {
            self.latest_us = now_us;
            self.refused.clear();
            self.ledger.restart();
        }
        self.latest_us = self.latest_us.max(now_us);
        Ok(self.ledger.has_news(self.store.data_version()?))
    }

    /// Returns what is due, the newest first.
    fn due(&mut self) -> Result<Vec<DueSession>, ForwardError> {
        let mut due = self.ledger.due(&self.store, &self.options)?;
        due.retain(|due| {
            let is_refused = self.refused.get(&due.session).is_some_and(|rev| *rev == due.rev);
            let was_just_sent =
                due.is_live && self.sent_at.get(&due.session).is_some_and(|at| at.elapsed() < LIVE_INTERVAL);
            !is_refused && !was_just_sent
        });
        Ok(due)
    }

    /// Sends what is due, batch by batch, until all is sent or the server cannot take more.
    ///
    /// # Errors
    /// [`ForwardError`]: forwarding ends.
    pub(crate) fn round(&mut self, server: &Remote) -> Result<Round, ForwardError> {
        let due = self.due()?;
        let mut round = Round { waiting: due.len(), ..Round::default() };
        let mut batch: Vec<Prepared> = Vec::new();
        let mut bytes = 0;
        let mut due = due.into_iter().peekable();
        while let Some(next) = due.next() {
            match self.prepare(&next)? {
                Preparation::Ready(prepared) => {
                    bytes += prepared.lines.len();
                    batch.push(*prepared);
                }
                Preparation::Nothing => {
                    round.waiting -= 1;
                    self.ledger.dismiss(&next.session);
                }
                // It stays due.
                Preparation::Unread => {}
            }
            let is_full = bytes >= MAX_BATCH_BYTES || batch.len() >= MAX_BATCH_SESSIONS;
            if is_full || due.peek().is_none() {
                bytes = 0;
                self.send(std::mem::take(&mut batch), server, &mut round)?;
                if round.failure.is_some() {
                    break;
                }
            }
        }
        Ok(round)
    }

    /// As [`Self::open`] for reading, so that what is printed and what is sent later have the same revs: the record begins
    /// now, unless there is one.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_to_print(options: ForwardOptions, team: &str) -> Result<Self, ForwardError> {
        // Another forwarder has its record already.
        let _ = ForwardLog::open(&options.data, Access::Write, team, now_us());
        Self::open(options, team, Access::Read)
    }

    /// Returns the newest session that may leave as the line that leaves; `None` if there is none.
    ///
    /// # Errors
    /// [`ForwardError`].
    pub(crate) fn example(&self) -> Result<Option<Vec<u8>>, ForwardError> {
        for row in self.store.list(&ListQuery::first(EXAMPLES))? {
            if row.machine.is_some() || self.options.exclusions.contains(&row) {
                continue;
            }
            let due = DueSession { session: row.id, rev: 0, is_live: false, is_gone: false };
            if let Preparation::Ready(prepared) = self.prepare(&due)? {
                return Ok(Some(prepared.lines));
            }
        }
        Ok(None)
    }

    /// Writes what would be sent, and sends nothing. Returns the number of sessions.
    ///
    /// # Errors
    /// [`ForwardError`].
    pub(crate) fn print(&mut self, out: &mut dyn std::io::Write) -> Result<usize, ForwardError> {
        let mut count = 0;
        for due in self.due()? {
            if let Preparation::Ready(prepared) = self.prepare(&due)? {
                out.write_all(&prepared.lines)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Sends a batch; halves it where it is too large.
    fn send(&mut self, batch: Vec<Prepared>, server: &Remote, round: &mut Round) -> Result<(), ForwardError> {
        let mut parts = vec![batch];
        while let Some(mut part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            let lines: Vec<u8> = part.iter().flat_map(|prepared| prepared.lines.iter().copied()).collect();
            match deliver(server, &lines)? {
                Delivery::Stored(refusals) => self.acknowledge(part, refusals, round)?,
                Delivery::Again { error, after } => {
                    round.failure = Some((error, after));
                    return Ok(());
                }
                Delivery::Forbidden(error) => return Err(ForwardError::Forbidden(error)),
                Delivery::TooLarge if part.len() > 1 => {
                    let rest = part.split_off(part.len() / 2);
                    parts.extend([rest, part]);
                }
                Delivery::TooLarge => {
                    let why = "it is larger than the server takes".to_owned();
                    let one = vec![Refusal { id: None, line: 1, why }];
                    self.acknowledge(part, one, round)?;
                }
            }
        }
        Ok(())
    }

    fn acknowledge(
        &mut self,
        batch: Vec<Prepared>,
        refusals: Vec<Refusal>,
        round: &mut Round,
    ) -> Result<(), ForwardError> {
        let mut acknowledged = Vec::new();
        let mut next = 1;
        for prepared in batch {
            let lines = next..next + prepared.line_count;
            next = lines.end;
            round.waiting = round.waiting.saturating_sub(1);
            if let Some(refusal) = refusals.iter().find(|refusal| lines.contains(&refusal.line)) {
                self.refused.insert(prepared.session.clone(), prepared.forwarded.rev);
                self.ledger.dismiss(&prepared.session);
                let id = Some(prepared.session.to_string());
                round.refused.push(Refusal { id, ..refusal.clone() });
                continue;
            }
            if prepared.is_live {
                self.sent_at.insert(prepared.session.clone(), clock::tick());
            } else {
                self.sent_at.remove(&prepared.session);
            }
            acknowledged.push((prepared.session, prepared.forwarded));
        }
        if let Some(log) = &mut self.log {
            log.record(&acknowledged)?;
        }
        round.sent += acknowledged.len();
        self.ledger.acknowledge(acknowledged);
        Ok(())
    }

    /// Returns a due session as it is sent.
    fn prepare(&self, due: &DueSession) -> Result<Preparation, ForwardError> {
        let before = self.ledger.forwarded(&due.session);
        let (sent_rev, replaces_later) = self.rev_to_send(due);
        let head = |rev: u64, day: Text, project: Option<Text>| SnapshotHead {
            machine: self.options.machine.clone(),
            rev,
            day,
            time_zone: self.options.time_zone.clone(),
            project,
            level: self.options.level,
        };
        let record = |day: Text, project: Option<&Text>, docs: Vec<u64>, rev: u64| Forwarded {
            rev,
            sent_rev,
            day,
            level: self.options.level,
            is_deleted: due.is_gone,
            project: project.cloned().unwrap_or_default(),
            docs,
        };
        let mut lines = Vec::new();
        let mut line_count = 1;
        if due.is_gone {
            if before.is_some_and(|before| before.is_deleted) {
                return Ok(Preparation::Nothing);
            }
            // The server knows the day of a session that is missing in the record.
            let day = before.map_or_else(|| day_of_time(clock::now_ms()), |before| before.day.clone());
            let docs = self.docs(&due.session)?;
            let mut gone = tombstone(head(sent_rev, day.clone(), None), &due.session);
            gone.texts = docs.into_iter().map(deleted_text).collect();
            snapshot_line(&gone, HarmlessJson::new(&mut lines))?;
            let forwarded = record(day, None, Vec::new(), due.rev);
            let session = due.session.clone();
            let prepared = Prepared { session, lines, line_count, forwarded, is_live: false };
            return Ok(Preparation::Ready(Box::new(prepared)));
        }
        let Some(row) = self.store.session_row(&due.session)? else { return Ok(Preparation::Nothing) };
        let Some(tree) = self.store.tree(&due.session)? else { return Ok(Preparation::Nothing) };
        let day = before.map_or_else(|| day_of(&tree, row.kept_at_ms), |before| before.day.clone());
        let project = self.options.names.name(row.project().map(|project| &**project));
        let (texts, is_whole) = match self.options.level {
            ContentLevel::Figures | ContentLevel::Titles => (Vec::new(), true),
            // It is sent once its files can be read.
            ContentLevel::Text => match self.texts(&due.session) {
                Ok(texts) => texts,
                Err(error) => {
                    tracing::warn!(session = %due.session, "its texts are not sent now: {error}");
                    return Ok(Preparation::Unread);
                }
            },
        };
        let mut docs: Vec<u64> = texts.iter().map(|text| text.doc).collect();
        let known: HashSet<u64> = docs.iter().copied().collect();
        let mut unread: Vec<u64> = self.docs(&due.session)?;
        unread.retain(|doc| !known.contains(doc));
        let mut texts = texts;
        if is_whole {
            texts.extend(unread.into_iter().map(deleted_text));
        } else {
            // What no file has any more stays with the team.
            docs.extend(unread);
        }
        let rev = due.rev.max(tree.rev());
        if replaces_later {
            let gone = tombstone(head(sent_rev - 1, day.clone(), None), &due.session);
            snapshot_line(&gone, HarmlessJson::new(&mut lines))?;
            line_count += 1;
        }
        let snapshot = snapshot(head(sent_rev, day.clone(), project.clone()), &row, &tree, texts);
        // Escaped as for a terminal, so that `--dry-run` prints the bytes that leave.
        snapshot_line(&snapshot, HarmlessJson::new(&mut lines))?;
        let forwarded = record(day, project.as_ref(), docs, rev);
        let session = due.session.clone();
        let prepared = Prepared { session, lines, line_count, forwarded, is_live: due.is_live };
        Ok(Preparation::Ready(Box::new(prepared)))
    }

    /// Returns the rev under which to send a session, and whether the server has the session under one that it would not
    /// outrank: it was sent while this machine's clock was ahead.
    fn rev_to_send(&self, due: &DueSession) -> (u64, bool) {
        let before = self.ledger.forwarded(&due.session).map(|before| before.sent_rev);
        // The server may have a session that is missing in the record, from an earlier record that was lost: with an
        // older rev.
        let next = due.rev.max(before.map_or(self.since_us, |before| before + 1));
        let now_us = now_us();
        let latest = now_us + MAX_REV_AHEAD_US;
        match before {
            _ if next <= latest => (next, false),
            Some(before) if before < latest => (now_us.max(before + 1), false),
            Some(_) => (now_us, true),
            None => (now_us, false),
        }
    }

    /// Returns the passages of a session that the server has.
    fn docs(&self, session: &SessionId) -> Result<Vec<u64>, ForwardError> {
        Ok(self.log.as_ref().map(|log| log.docs(session)).transpose()?.unwrap_or_default())
    }

    /// Returns the passages of a session, and whether these are all: not if some were in files that are gone or were cut.
    fn texts(&self, session: &SessionId) -> Result<(Vec<SnapshotText>, bool), TextsError> {
        let sources = SessionSources::find(session, Vec::new(), Some(&self.store), &self.options.archive)?;
        let text = |passage: subscope_hub::index::SessionPassage| SnapshotText {
            doc: passage.doc,
            agent_id: passage.agent.into(),
            kind: passage.kind.into(),
            at_ms: passage.at_ms,
            text: passage.text.into(),
            deleted: false,
        };
        let passages = sources.passages(PASSAGE_BYTES)?;
        Ok((passages.into_iter().map(text).collect(), sources.is_whole()))
    }
}

/// Returns the time in microseconds since 1970, as revs are.
fn now_us() -> u64 {
    u64::try_from(clock::now_ms()).unwrap_or(0).saturating_mul(1_000)
}

/// What becomes of a due session.
enum Preparation {
    /// It is sent like this.
    Ready(Box<Prepared>),
    /// It is gone, or needs not be sent after all.
    Nothing,
    /// Its texts cannot be read now.
    Unread,
}

/// Why the texts of a session cannot be read now.
#[derive(Debug, thiserror::Error)]
enum TextsError {
    #[error(transparent)]
    Sources(#[from] SourcesError),
    #[error(transparent)]
    Unread(#[from] Unread),
}

fn deleted_text(doc: u64) -> SnapshotText {
    SnapshotText { doc, deleted: true, ..SnapshotText::default() }
}

/// Returns the day (UTC) of a session's first event; of one without times the day on which it was saved.
fn day_of(tree: &Tree, kept_at_ms: Option<Millis>) -> Text {
    let at = tree.session.started_at_ms.or(tree.session.ended_at_ms).or(kept_at_ms).unwrap_or(0);
    // A time before 2000 comes from a wrong clock; the server accepts days from 2000 on.
    day_of_time(at.max(946_684_800_000))
}

/// Returns the day (UTC) of a time.
fn day_of_time(at: Millis) -> Text {
    iso8601(at).chars().take(10).collect::<String>().into()
}

/// Returns the name of this machine.
pub(crate) fn machine_name(settings: &TeamSettings) -> Text {
    settings.name.as_deref().map_or_else(host_name, Into::into)
}

/// Returns the host's name of this machine.
pub(crate) fn host_name() -> Text {
    subscope_platform::host_name().into()
}

/// Returns the home folder.
fn home(environment: &Environment) -> Option<PathBuf> {
    environment.path("HOME").filter(|home| home != Path::new(""))
}
