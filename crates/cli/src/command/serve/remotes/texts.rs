//! Keeps the texts of another machine's sessions here, so that they are searched here: asks for those that are missing or
//! older than their rows, one session at a time, the newest first.

use std::{
    collections::VecDeque,
    io,
    time::{Duration, Instant},
};

use subscope_hub::{HubHandle, ListQuery, clock, index::RemoteTexts};
use subscope_model::{Millis, SessionId, SessionRow, SessionStatus, SnapshotText, Text, remote_session};

use super::super::ask_hub;

/// Interval of looks at the rows while they change.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Age at which the texts of a session at work are asked for again.
const LIVE_AGE_MS: Millis = 60_000;
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// How long the hub may take to list rows.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// Most sessions of a machine whose texts are here.
const MAX_SESSIONS: usize = 20_000;
/// Most bytes of one session: the other side sends 8 MiB at most, and JSON escapes some of it.
const MAX_SESSION_BYTES: usize = 16 << 20;
/// Most bytes of all machines: beyond that nothing more is asked for.
const MAX_BYTES: u64 = 4 << 30;

/// A request whose answer is due.
struct TextRequest {
    session: SessionId,
    sent: Instant,
    asked_ms: Millis,
    texts: Vec<SnapshotText>,
    bytes: usize,
}

/// The texts of a connected machine.
pub(super) struct TextFetcher {
    machine: Text,
    texts: RemoteTexts,
    /// Sessions whose texts are to be asked for.
    due: VecDeque<SessionId>,
    request: Option<TextRequest>,
    /// Whether rows have changed since the last look.
    is_behind: bool,
    /// Whether it has looked.
    has_looked: bool,
    /// Sessions at work whose texts are older than their rows, but not old enough to be asked for again.
    young: u64,
    next_look: Instant,
    /// Sessions that this connection could not read, with the time of their rows: not asked for again until they change.
    unread: Vec<(SessionId, Option<Millis>)>,
}

impl TextFetcher {
    pub(super) fn new(machine: &str, texts: RemoteTexts) -> Self {
        Self {
            machine: machine.into(),
            texts,
            due: VecDeque::new(),
            request: None,
            is_behind: true,
            has_looked: false,
            young: 0,
            next_look: clock::tick(),
            unread: Vec::new(),
        }
    }

    /// Notes that rows have changed.
    pub(super) fn note_change(&mut self) {
        self.is_behind = true;
    }

    /// Returns the session to ask for now, as it is named here.
    pub(super) fn next(&mut self, hub: &HubHandle) -> Option<SessionId> {
        let now = clock::tick();
        if self.request.as_ref().is_some_and(|request| now.duration_since(request.sent) > ANSWER_TIMEOUT) {
            let late = self.request.take().map(|request| request.session);
            self.give_up(late, hub);
        }
        if self.is_behind && now >= self.next_look {
            self.look(hub);
        }
        if self.request.is_some() {
            return None;
        }
        let session = self.due.pop_front()?;
        let asked_ms = clock::now_ms();
        self.request =
            Some(TextRequest { session: session.clone(), sent: now, asked_ms, texts: Vec::new(), bytes: 0 });
        Some(session)
    }

    /// Number of sessions whose texts are missing or old; `None` before it has looked.
    pub(super) fn unsearched(&self) -> Option<u64> {
        let known = self.due.len() + usize::from(self.request.is_some()) + self.unread.len();
        // Of what has changed since the last look at least one is old.
        let count = (known as u64 + self.young).max(u64::from(self.is_behind));
        self.has_looked.then_some(count)
    }

    /// Takes a part of an answer; with the last one, the texts are written.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(super) fn take(
        &mut self,
        session: &SessionId,
        texts: Vec<SnapshotText>,
        is_last: bool,
        unread: Option<Text>,
        hub: &HubHandle,
    ) -> io::Result<()> {
        let session = remote_session(&self.machine, session);
        let Some(request) = self.request.as_mut().filter(|request| request.session == session) else {
            return Ok(());
        };
        request.sent = clock::tick();
        for text in texts {
            request.bytes += text.text.len();
            if request.bytes <= MAX_SESSION_BYTES {
                request.texts.push(text);
            }
        }
        if !is_last && unread.is_none() {
            return Ok(());
        }
        let Some(request) = self.request.take() else { return Ok(()) };
        if let Some(why) = unread {
            tracing::warn!("remote {}: texts of {session} are not read: {why:?}", self.machine);
            self.give_up(Some(session), hub);
            return Ok(());
        }
        self.texts.write(&request.session, &request.texts, request.asked_ms)
    }

    fn give_up(&mut self, session: Option<SessionId>, hub: &HubHandle) {
        let Some(session) = session else { return };
        let kept_ms = self.rows(hub).into_iter().find(|row| row.id == session).and_then(|row| row.kept_at_ms);
        self.unread.push((session, kept_ms));
    }

    /// Finds the sessions whose texts are missing or older than their rows.
    fn look(&mut self, hub: &HubHandle) {
        (self.is_behind, self.next_look) = (false, clock::tick() + LOOK_INTERVAL);
        let (rows, now_ms) = (self.rows(hub), clock::now_ms());
        (self.has_looked, self.young) = (true, 0);
        self.unread.retain(|(session, kept_ms)| {
            rows.iter().any(|row| row.id == *session && row.kept_at_ms == *kept_ms)
        });
        self.due.clear();
        let is_full = self.texts.bytes().map_or(true, |bytes| bytes >= MAX_BYTES);
        for row in rows {
            let asked_ms = self.texts.asked_ms(&row.id);
            let is_old = asked_ms.is_none_or(|asked_ms| row.kept_at_ms.unwrap_or(0) > asked_ms);
            if !is_old || self.unread.iter().any(|(session, _)| *session == row.id) {
                continue;
            }
            let is_young = asked_ms.is_some_and(|asked_ms| now_ms - asked_ms < LIVE_AGE_MS);
            if row.status == SessionStatus::Live && is_young {
                (self.is_behind, self.young) = (true, self.young + 1);
            } else if is_full {
                self.unread.push((row.id, row.kept_at_ms));
            } else {
                self.due.push_back(row.id);
            }
        }
        if let Some(request) = &self.request {
            self.due.retain(|session| *session != request.session);
        }
    }

    /// Returns the machine's rows, the newest first; none if the hub does not answer.
    fn rows(&mut self, hub: &HubHandle) -> Vec<SessionRow> {
        let words = format!("{}{}", SessionRow::MACHINE, self.machine);
        let query = ListQuery { words, ..ListQuery::first(MAX_SESSIONS) };
        let rows = ask_hub(LIST_TIMEOUT, |reply| {
            hub.ask(None, reply, move |queries| queries.sessions(&query).map(|page| page.sessions))
        });
        match rows {
            Some(Ok(rows)) => rows,
            Some(Err(_)) | None => {
                self.is_behind = true;
                Vec::new()
            }
        }
    }
}
