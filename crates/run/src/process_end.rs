//! Reports to sessions what their processes do and how they ended: a run's command, and processes that others started.

use std::{sync::mpsc::sync_channel, time::Duration};

use subscope_decode::PROCESS_ENDS;
use subscope_hub::{Asks, HubHandle, Ingest, ListQuery, clock};
use subscope_model::{Millis, ProcessActivity, ProcessEnd, ProcessExit, ProcessNoteLine, SessionId};

use crate::{ChildExit, FollowedSessions, RunHandle};

/// Most sessions of a run that are reported: the newest.
const MAX_SESSIONS: usize = 1_000;
/// Timeout of reading the remaining output of the command, and the interval of checks for its end.
const READ_TIMEOUT: Duration = Duration::from_secs(1);
const READ_POLL: Duration = Duration::from_millis(2);

/// Sessions of a process that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedSessions {
    /// Ids.
    pub sessions: Vec<SessionId>,
    /// How the process ended.
    pub exit: ChildExit,
}

impl EndedSessions {
    /// Returns a line per session, [`ProcessEnd`].
    pub(crate) fn lines(&self, at_ms: Millis) -> Vec<u8> {
        let exit = match self.exit {
            ChildExit::Code(code) => ProcessExit::Code(code),
            ChildExit::Signal(number) => ProcessExit::Signal(number),
        };
        lines(&self.sessions, exit, at_ms)
    }
}

/// What the note of a session's process says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NotedActivity {
    pub(crate) process: i32,
    pub(crate) session: SessionId,
    pub(crate) activity: ProcessActivity,
    pub(crate) since_ms: Millis,
}

fn lines(sessions: &[SessionId], exit: ProcessExit, at_ms: Millis) -> Vec<u8> {
    let mut lines = Vec::new();
    for session in sessions {
        let schema = ProcessEnd::SCHEMA.into();
        let end = ProcessEnd { schema, at_ms, session_id: session.clone(), exit };
        // Texts and numbers only: serializing cannot fail.
        lines.extend(serde_json::to_vec(&end).unwrap_or_default());
        lines.push(b'\n');
    }
    lines
}

/// Reports the end to the command's sessions in the run's own hub, after it has read the command's output. Returns all
/// sessions of the command: of its processes, and those in the hub for which `is_own` returns true. Others are in a
/// recording that it printed.
pub fn report_process_end(
    hub: &HubHandle,
    run: &RunHandle,
    exit: ChildExit,
    processes: &FollowedSessions,
    is_own: impl Fn(&str) -> bool,
) -> EndedSessions {
    let began = clock::tick();
    while run.has_unread_lines() && began.elapsed() < READ_TIMEOUT {
        std::thread::sleep(READ_POLL);
    }
    let sessions = known_sessions(hub);
    let sessions =
        sessions.into_iter().filter(|id| is_own(id.as_str()) || processes.has(id.as_str())).collect();
    let mut ended = EndedSessions { sessions, exit };
    let now = clock::now_ms();
    ingest_ends(hub, "end".to_owned(), ended.lines(now));
    // Sessions that only the machine's hub knows, by hooks.
    let others = processes.ids().into_iter().filter(|id| !ended.sessions.contains(id)).collect::<Vec<_>>();
    ended.sessions.extend(others);
    ended
}

/// Reports to the machine's hub that these sessions have lost their process. Sessions unknown to it have had no prompt.
pub(crate) fn report_gone(hub: &HubHandle, sessions: &[SessionId]) {
    let known: Vec<SessionId> = known_sessions(hub).into_iter().filter(|id| sessions.contains(id)).collect();
    let now = clock::now_ms();
    ingest_ends(hub, format!("gone/{now}"), lines(&known, ProcessExit::Unknown, now));
}

/// Reports to the machine's hub what processes do. Returns the processes whose session it knows: others have had no
/// prompt, or their transcript is not read yet.
pub(crate) fn report_activities(hub: &HubHandle, noted: &[NotedActivity]) -> Vec<i32> {
    if noted.is_empty() {
        return Vec::new();
    }
    let known = known_sessions(hub);
    let noted = || noted.iter().filter(|noted| known.contains(&noted.session));
    let now = clock::now_ms();
    let mut body = Vec::new();
    for NotedActivity { session, activity, since_ms, .. } in noted() {
        let line = ProcessNoteLine {
            schema: ProcessNoteLine::SCHEMA.into(),
            at_ms: now,
            session_id: session.clone(),
            activity: *activity,
            since_ms: *since_ms,
        };
        // Texts and numbers only: serializing cannot fail.
        body.extend(serde_json::to_vec(&line).unwrap_or_default());
        body.push(b'\n');
    }
    ingest_ends(hub, format!("activity/{now}"), body);
    noted().map(|noted| noted.process).collect()
}

/// Returns the newest sessions of a hub.
fn known_sessions(hub: &HubHandle) -> Vec<SessionId> {
    let (reply, page) = sync_channel(1);
    let query = ListQuery::first(MAX_SESSIONS);
    let reply = Box::new(move |page| drop(reply.send(page)));
    let asked = hub.ask(None, reply, move |queries| queries.sessions(&query));
    let page = asked.ok().and_then(|()| page.recv().ok()?.ok()).unwrap_or_default();
    page.sessions.into_iter().map(|row| row.id).collect()
}

/// Passes lines about processes to a hub and waits until it has them.
fn ingest_ends(hub: &HubHandle, key: String, body: Vec<u8>) {
    if body.is_empty() {
        return;
    }
    let ingest = Ingest {
        source: "process".to_owned(),
        session: None,
        dialect: Some(PROCESS_ENDS),
        key,
        received_ms: None,
        body,
        begins: None,
        asks: Asks::Nothing,
    };
    let (reply, done) = sync_channel(1);
    if hub.ingest(ingest, Box::new(move |outcome| drop(reply.send(outcome)))).is_ok() {
        // Without an answer the hub has ended: nothing is published any more.
        let _ = done.recv();
    }
}
