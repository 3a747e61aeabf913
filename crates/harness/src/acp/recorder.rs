//! Records the messages of a running connection, as they pass.
//!
//! Each message becomes a line with its direction, its time and the root session that it is of. The lines of one session are
//! complete by themselves: the opening of the connection is repeated in front of them, so that who reads them alone, as a hub
//! does after a restart, knows the agent. Messages before the first session, other than the opening, say nothing of agents and
//! become no lines.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
};

use serde_json::{Value, value::RawValue};

use super::{
    log::CHILD_MARK,
    messages::{Peer, RpcMessage, parsed},
    updates::{AcpAnswer, ChildCapabilities, ChildState, SessionParams, owned},
};
use crate::acp::updates::AcpUpdate;

/// Most requests without an answer, sessions and agents that are remembered: far more than a connection has at once.
const MAX_REMEMBERED: usize = 10_000;
/// Longest text of a line that is no message, in characters.
const MAX_UNREAD: usize = 1_000;

/// Recorder of one connection.
#[derive(Debug, Default)]
pub struct AcpRecorder {
    /// The request that opened the connection, and its answer.
    opening: Vec<Recorded>,
    /// Requests without an answer, by the side that asked and their ids.
    asked: HashMap<(Peer, String), Asked>,
    /// Sessions that lines were recorded of.
    roots: HashSet<String>,
    /// Agents, by the ids of their sessions.
    children: BTreeMap<String, RecordedChild>,
    /// The root session of the last message.
    last: Option<String>,
}

/// A message with what is recorded of it.
#[derive(Clone, Debug)]
struct Recorded {
    side: Peer,
    at_ns: u64,
    json: String,
}

/// A request that waits for an answer.
#[derive(Debug)]
enum Asked {
    Initialize,
    /// It makes a session, whose id is in the answer.
    New(Recorded),
    /// It is of a session.
    Of(String),
}

#[derive(Debug)]
struct RecordedChild {
    root: String,
    can_cancel: bool,
    is_at_work: bool,
    is_cancelled: bool,
}

/// An agent at work that the connection can stop alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoppableChild {
    /// The session of its root.
    pub root: String,
    /// Its id.
    pub agent: String,
    /// The session of its own.
    session: String,
}

impl StoppableChild {
    /// Returns the line that asks the agent's program to stop it.
    pub fn cancel_line(&self) -> String {
        let session = Value::from(self.session.as_str());
        format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{{\"sessionId\":{session}}}}}\n"
        )
    }
}

impl Recorded {
    /// Appends the line of a message of this session.
    fn write(&self, root: &str, out: &mut Vec<u8>) {
        let dir = match self.side {
            Peer::Client => "out",
            Peer::Agent => "in",
        };
        let (at_ns, json, root) = (self.at_ns, &self.json, Value::from(root));
        let line = format!("{{\"dir\":\"{dir}\",\"recv_ns\":{at_ns},\"sessionId\":{root},\"msg\":{json}}}\n");
        out.extend_from_slice(line.as_bytes());
    }
}

impl AcpRecorder {
    /// Records a whole line that a side wrote; appends the lines of the record.
    pub fn record(&mut self, side: Peer, at_ns: u64, line: &[u8], out: &mut Vec<u8>) {
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        let text = std::str::from_utf8(line).ok();
        let Some((text, message)) = text.and_then(|text| Some((text, serde_json::from_str(text).ok()?)))
        else {
            return self.record_unread(side, at_ns, line, out);
        };
        let message: RpcMessage<'_> = message;
        let recorded = Recorded { side, at_ns, json: text.to_owned() };
        if message.is_answer() {
            self.record_answer(&message, recorded, out);
        } else {
            self.record_request(&message, recorded, out);
        }
    }

    /// Returns the agents at work that can be stopped alone and were not asked to.
    pub fn stoppable(&self) -> Vec<StoppableChild> {
        let children = self.children.iter();
        let stoppable =
            children.filter(|(_, child)| child.can_cancel && child.is_at_work && !child.is_cancelled);
        stoppable
            .map(|(session, child)| StoppableChild {
                root: child.root.clone(),
                agent: agent_of(session).to_owned(),
                session: session.clone(),
            })
            .collect()
    }

    /// Notes that an agent was asked to stop: it is not asked again, unless it ends and continues.
    pub fn note_cancelled(&mut self, child: &StoppableChild) {
        if let Some(known) = self.children.get_mut(&child.session) {
            known.is_cancelled = true;
        }
    }

    /// Records a line that is no message, as a text: its readers report it as a problem of the session.
    fn record_unread(&mut self, side: Peer, at_ns: u64, line: &[u8], out: &mut Vec<u8>) {
        let text: String = String::from_utf8_lossy(line).chars().take(MAX_UNREAD).collect();
        if let Some(root) = &self.last {
            Recorded { side, at_ns, json: Value::from(text).to_string() }.write(root, out);
        }
    }

    fn record_answer(&mut self, message: &RpcMessage<'_>, recorded: Recorded, out: &mut Vec<u8>) {
        let id = message.id().unwrap_or_default().to_owned();
        match self.asked.remove(&(recorded.side.other(), id)) {
            Some(Asked::Initialize) => self.opening.push(recorded),
            Some(Asked::New(request)) => {
                let answer: AcpAnswer<'_> = parsed(message.result);
                let root = answer.session_id.filled().map(str::to_owned).or_else(|| self.last.clone());
                if let Some(root) = root {
                    self.write(&request, &root, out);
                    self.write(&recorded, &root, out);
                }
            }
            Some(Asked::Of(root)) => self.write(&recorded, &root, out),
            None => {
                if let Some(root) = self.last.clone() {
                    self.write(&recorded, &root, out);
                }
            }
        }
    }

    fn record_request(&mut self, message: &RpcMessage<'_>, recorded: Recorded, out: &mut Vec<u8>) {
        let params: SessionParams<'_> = parsed(message.params);
        let side = recorded.side;
        let asked = match (message.method().unwrap_or_default(), params.session_id.filled()) {
            ("initialize", _) => {
                self.opening = vec![recorded];
                Some(Asked::Initialize)
            }
            ("session/new", _) => Some(Asked::New(recorded)),
            (method, Some(session)) => {
                let opens = matches!(method, "session/load" | "session/resume" | "session/prompt");
                let root = self.root_of(session, opens);
                if method == "session/update" {
                    self.note_child(&root, params.update);
                }
                self.write(&recorded, &root, out);
                Some(Asked::Of(root))
            }
            (_, None) => {
                if let Some(root) = self.last.clone() {
                    self.write(&recorded, &root, out);
                }
                self.last.clone().map(Asked::Of)
            }
        };
        if let (Some(id), Some(asked)) = (message.id(), asked)
            && self.asked.len() < MAX_REMEMBERED
        {
            self.asked.insert((side, id.to_owned()), asked);
        }
    }

    /// Returns the root of a session; `opens`: the client says that it is a root.
    fn root_of(&self, session: &str, opens: bool) -> String {
        if let Some(child) = self.children.get(session) {
            return child.root.clone();
        }
        if let Some((root, thread)) = session.split_once(CHILD_MARK)
            && !root.is_empty()
            && !thread.is_empty()
        {
            return root.to_owned();
        }
        // Another session that nobody opened may be an agent's.
        let is_root = opens || self.roots.contains(session);
        let last = self.last.clone().filter(|_| !is_root);
        last.unwrap_or_else(|| session.to_owned())
    }

    /// Notes what the agent says of an agent of a session.
    fn note_child(&mut self, root: &str, update: Option<&RawValue>) {
        let Some(raw) = update.filter(|raw| raw.get().contains("\"subagent_update\"")) else { return };
        let update: AcpUpdate<'_> = parsed(Some(raw));
        let Some(session) = owned(&update.session_id).filter(|_| update.kind.is("subagent_update")) else {
            return;
        };
        if self.children.len() >= MAX_REMEMBERED && !self.children.contains_key(session.as_ref()) {
            return;
        }
        let root = root.to_owned();
        let new = RecordedChild { root, can_cancel: false, is_at_work: true, is_cancelled: false };
        let known = self.children.entry(session.into_owned()).or_insert(new);
        // A field that is missing keeps its value; null clears it.
        let fields: HashMap<Cow<'_, str>, &RawValue> = parsed(Some(raw));
        if let Some(capabilities) = fields.get("capabilities") {
            let capabilities: ChildCapabilities<'_> = parsed(Some(capabilities));
            known.can_cancel = capabilities.cancel.is_some();
        }
        let state: ChildState<'_> = parsed(update.state);
        if state.state.filled().is_some() {
            known.is_at_work = state.ended().is_none();
            known.is_cancelled &= known.is_at_work;
        }
    }

    fn write(&mut self, recorded: &Recorded, root: &str, out: &mut Vec<u8>) {
        if self.roots.len() < MAX_REMEMBERED && self.roots.insert(root.to_owned()) {
            self.opening.iter().for_each(|opening| opening.write(root, out));
        }
        if self.last.as_deref() != Some(root) {
            self.last = Some(root.to_owned());
        }
        recorded.write(root, out);
    }
}

/// Returns the id of the agent of a session.
fn agent_of(session: &str) -> &str {
    session.split_once(CHILD_MARK).map_or(session, |(_, thread)| thread)
}
