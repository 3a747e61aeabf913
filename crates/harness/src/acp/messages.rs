//! Messages of JSON-RPC, bare or recorded with their direction and time: `{"dir":"out","recv_ns":1,"msg":{…}}`, where `out` is
//! what the client wrote. [`super::AcpRecorder`] also names the session: `"sessionId":"…"`.

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    LineError,
    lenient::{Num, Str},
};
use subscope_model::Millis;

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// The editor, or another program that starts the agent.
    Client,
    /// The agent.
    Agent,
}

impl Peer {
    /// The one that is asked.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Client => Self::Agent,
            Self::Agent => Self::Client,
        }
    }
}

/// A line: a message, or a recorded one.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct RpcLine<'a> {
    dir: Str<'a>,
    recv_ns: Num,
    #[serde(rename = "sessionId")]
    session: Str<'a>,
    msg: Option<&'a RawValue>,
}

/// A request, a notification or an answer.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct RpcMessage<'a> {
    jsonrpc: Str<'a>,
    id: Option<&'a RawValue>,
    method: Str<'a>,
    pub(super) params: Option<&'a RawValue>,
    pub(super) result: Option<&'a RawValue>,
    pub(super) error: Option<&'a RawValue>,
}

/// A message with what its recording adds.
pub(super) struct RecordedMessage<'a> {
    pub(super) message: RpcMessage<'a>,
    /// Who wrote it, where that is recorded.
    pub(super) side: Option<Peer>,
    pub(super) time: Option<Millis>,
    /// Whether a program recorded it that passes the messages on, and can add one of its own.
    pub(super) is_relayed: bool,
}

const NANOS_PER_MILLI: u64 = 1_000_000;
/// Methods of clients, and of agents: each names the one who calls it.
const CLIENT_METHODS: &[&str] = &["initialize", "authenticate", "logout", "session/", "providers/"];
const AGENT_METHODS: &[&str] =
    &["session/update", "session/request_permission", "fs/", "terminal/", "elicitation/"];

impl<'a> RpcMessage<'a> {
    pub(super) fn method(&self) -> Option<&str> {
        self.method.filled()
    }

    /// The id by which an answer names its request: a number or a text, as it is written.
    pub(super) fn id(&self) -> Option<&'a str> {
        self.id.map(RawValue::get).filter(|id| *id != "null")
    }

    /// Whether it answers a request.
    pub(super) fn is_answer(&self) -> bool {
        self.method().is_none() && self.id().is_some() && (self.result.is_some() || self.error.is_some())
    }

    /// The side that calls the method of a request or notification.
    pub(super) fn caller(&self) -> Option<Peer> {
        let method = self.method()?;
        let is_of = |methods: &[&str]| methods.iter().any(|start| method.starts_with(start));
        if is_of(AGENT_METHODS) { Some(Peer::Agent) } else { is_of(CLIENT_METHODS).then_some(Peer::Client) }
    }
}

/// Reads a line.
pub(super) fn read(text: &str) -> Result<RecordedMessage<'_>, LineError> {
    let line: RpcLine<'_> = serde_json::from_str(text)?;
    let message: RpcMessage<'_> = match line.msg {
        Some(message) => serde_json::from_str(message.get())?,
        None => serde_json::from_str(text)?,
    };
    if message.method().is_none() && !message.is_answer() {
        return Err(LineError::MissingField { item: "a message of JSON-RPC", field: "method" });
    }
    let recorded = match line.dir.get() {
        Some("out") => Some(Peer::Client),
        Some("in") => Some(Peer::Agent),
        _ => None,
    };
    let time = line.recv_ns.0.and_then(|nanos| Millis::try_from(nanos / NANOS_PER_MILLI).ok());
    let is_relayed = line.session.filled().is_some();
    Ok(RecordedMessage { side: recorded.or_else(|| message.caller()), message, time, is_relayed })
}

/// Reads a part of a message; data of other methods is ignored.
pub(crate) fn parsed<'a, T: Default + Deserialize<'a>>(part: Option<&'a RawValue>) -> T {
    part.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// The fields by which a message is known to be of this protocol.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct AcpMarks<'a> {
    protocol_version: Num,
    client_capabilities: Option<&'a RawValue>,
    agent_capabilities: Option<&'a RawValue>,
    session_id: Str<'a>,
    update: Option<&'a RawValue>,
    prompt: Option<&'a RawValue>,
    tool_call: Option<&'a RawValue>,
    cwd: Str<'a>,
    mcp_servers: Option<&'a RawValue>,
}

/// Whether a line is a message that only this protocol has. Other protocols on JSON-RPC have an `initialize`, too, but a
/// version of another form.
pub(crate) fn is_message(text: &str) -> bool {
    let Ok(RecordedMessage { message, .. }) = read(text) else { return false };
    let has_version = message.jsonrpc.is("2.0");
    let asked: AcpMarks<'_> = parsed(message.params);
    let is_of_session = asked.session_id.filled().is_some();
    has_version
        && match message.method() {
            Some("initialize") => asked.protocol_version.0.is_some() && asked.client_capabilities.is_some(),
            Some("session/update") => is_of_session && asked.update.is_some(),
            Some("session/prompt") => is_of_session && asked.prompt.is_some(),
            Some("session/request_permission") => is_of_session && asked.tool_call.is_some(),
            Some("session/new" | "session/load" | "session/resume") => {
                asked.cwd.filled().is_some() && (is_of_session || asked.mcp_servers.is_some())
            }
            Some("session/cancel") => is_of_session,
            Some(_) => false,
            None => {
                let answer: AcpMarks<'_> = parsed(message.result);
                answer.protocol_version.0.is_some() && answer.agent_capabilities.is_some()
            }
        }
}
