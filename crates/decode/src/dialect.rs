//! A dialect: one machine-readable output of a harness, or of ours, with everything that is asked of it.

use std::{
    borrow::Cow,
    fmt,
    hash::{Hash, Hasher},
};

use subscope_model::{AgentId, AgentQuestion, PermissionDecision, SessionId, ToolUseId, safe_id};

use crate::{Decoder, Hint, safe_ids::SafeIds};

/// A machine-readable output of a harness, or of ours. Two are equal if their names are.
#[derive(Clone, Copy)]
pub struct Dialect(&'static DialectSpec);

/// Definition of a dialect. A harness has one for each of its dialects.
#[derive(Debug)]
pub struct DialectSpec {
    /// The harness that writes it; `None` for our own.
    pub harness: Option<&'static str>,
    /// The name used by `--dialect`, on every wire and as an event's `source`: `subagent-events`. Unique.
    pub name: &'static str,
    /// Whether a source is one object, which is rewritten when it changes, and not lines that are appended.
    pub is_object: bool,
    /// Whether a source is the main conversation of a session: it names the session of all files of its group.
    pub is_main: bool,
    /// Whether each line of a file belongs to the session that it names, and only one that names none to the session of
    /// the file's path. Otherwise all lines of a file belong to one session.
    pub names_session: bool,
    /// Whether no line names a session: a source belongs to the session that its reader knows.
    pub is_anonymous: bool,
    /// Whether lines make sense without a path, so that programs may ingest them.
    pub is_ingestible: bool,
    /// Whether forks of the harness write the same lines: what another source says of the harness of a session counts more.
    pub is_shared: bool,
    /// Returns the safe form of an id of its lines: [`safe_id`], or [`own_id`](subscope_model::own_id) where subscope
    /// writes the lines, with ids that are safe already.
    pub safe_id: fn(&str) -> Cow<'_, str>,
    /// Makes a decoder for one source, which gives ids as they are written.
    pub decoder: fn(&Hint) -> Box<dyn Decoder>,
    /// Returns the session that whole lines of a live process are of, as it is written; `None` where the dialect's lines
    /// need not all be of the same, or none names it.
    pub session_of: fn(&[u8]) -> Option<String>,
    /// Returns the session of one line of a body that may hold lines of many sessions, as it is written.
    pub line_session: fn(&[u8]) -> LineSession,
    /// Which lines change the state of agents.
    pub lifecycle: Lifecycle,
    /// How its sender is answered, where it waits for an answer.
    pub answers: Option<Answers>,
    /// How a person's decision about a call is given to its sender, where it takes one.
    pub permissions: Option<Permissions>,
}

/// Marks of the lines that change the state of agents; other lines need not be parsed.
#[derive(Clone, Copy, Debug)]
pub struct Lifecycle {
    /// Words of lines that change the state of agents, or of the session.
    pub changes: &'static [&'static str],
    /// The word of the line that opens a session, where there is such a line.
    pub opens: Option<&'static str>,
    /// The tool calls that start agents, where lines hold such calls: their results matter, too.
    pub spawns: Option<SpawnCalls>,
}

/// Marks of the tool calls that start agents, and of their results.
#[derive(Clone, Copy, Debug)]
pub struct SpawnCalls {
    /// Words of lines with such a call: names of tools in quotes.
    pub words: &'static [&'static str],
    /// The word of lines with results of calls.
    pub result_word: &'static str,
    /// Gives the tool calls and results of one line.
    pub calls: ReadCalls,
}

/// Gives the tool calls and results of one line.
pub type ReadCalls = fn(&[u8], &mut dyn FnMut(CallPart<'_>));

/// A tool call or its result, in a line.
#[derive(Clone, Copy, Debug)]
pub enum CallPart<'l> {
    /// A call.
    Begin {
        /// Its id.
        id: &'l str,
        /// The tool.
        tool: &'l str,
    },
    /// The result of a call.
    End {
        /// The call's id.
        id: &'l str,
    },
}

/// The answers that a dialect's sender understands.
#[derive(Clone, Copy, Debug)]
pub struct Answers {
    /// Returns the subagent that waits for an answer to these bytes before it goes on.
    pub asker: fn(&[u8]) -> Option<Asker>,
    /// Returns the answer that makes such an agent stop, for the harness's version where that is known.
    pub stop: fn(AskMoment, Option<&str>) -> StopAnswer,
}

/// The permission requests and questions of a dialect's sender that a hook can decide, while the sender asks its user by
/// itself, too.
#[derive(Clone, Copy, Debug)]
pub struct Permissions {
    /// Returns the request that is sent with these bytes; `None` if they are none, or one that a hook cannot decide.
    pub request: fn(&[u8]) -> Option<AskedPermission>,
    /// Returns a decision about the request that is sent with these bytes, as the sender reads it; `None` if it is no
    /// decision about that request.
    pub decision: fn(&[u8], &PermissionDecision) -> Option<String>,
}

/// A permission request, as its hook sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedPermission {
    /// The agent's session.
    pub session: SessionId,
    /// The agent.
    pub agent: AgentId,
    /// Name of the tool.
    pub tool: String,
    /// The call's arguments: JSON, as it was sent.
    pub arguments: String,
    /// The questions that the call asks, in order.
    pub questions: Vec<AgentQuestion>,
    /// The agent's working folder, if it is named.
    pub cwd: Option<String>,
}

/// A version of a harness to which all changes of answers so far apply.
const LATEST_VERSION: &str = "9999.0.0";

impl DialectSpec {
    /// Lines of many sessions that programs may ingest, of which only the decoder knows more: the base of other specs.
    pub const fn new(name: &'static str, decoder: fn(&Hint) -> Box<dyn Decoder>) -> Self {
        Self {
            harness: None,
            name,
            is_object: false,
            is_main: false,
            names_session: false,
            is_anonymous: false,
            is_ingestible: true,
            is_shared: false,
            safe_id,
            decoder,
            session_of: |_| None,
            line_session: |_| LineSession::Unknown,
            lifecycle: Lifecycle { changes: &[], opens: None, spawns: None },
            answers: None,
            permissions: None,
        }
    }
}

impl Dialect {
    /// The dialect that a spec describes.
    pub const fn new(spec: &'static DialectSpec) -> Self {
        Self(spec)
    }

    /// The name used by `--dialect`, on every wire and as an event's `source`.
    pub const fn as_str(self) -> &'static str {
        self.0.name
    }

    /// The harness that writes it, where it is one harness's.
    pub const fn harness(self) -> Option<&'static str> {
        self.0.harness
    }

    /// Whether a source is one object, which is rewritten when it changes, and not lines that are appended.
    pub const fn is_object(self) -> bool {
        self.0.is_object
    }

    /// Whether a source is the main conversation of a session.
    pub const fn is_main(self) -> bool {
        self.0.is_main
    }

    /// Whether each line of a file belongs to the session that it names.
    pub const fn names_session(self) -> bool {
        self.0.names_session
    }

    /// Whether no line names a session.
    pub const fn is_anonymous(self) -> bool {
        self.0.is_anonymous
    }

    /// Whether programs may ingest its lines.
    pub const fn is_ingestible(self) -> bool {
        self.0.is_ingestible
    }

    /// Whether forks of the harness write the same lines.
    pub const fn is_shared(self) -> bool {
        self.0.is_shared
    }

    /// What finds the lines that change the state of agents.
    pub(crate) const fn lifecycle(self) -> Lifecycle {
        self.0.lifecycle
    }

    /// Returns a decoder for one source, whose observations have safe ids.
    pub fn decoder(self, hint: &Hint) -> Box<dyn Decoder> {
        Box::new(SafeIds::new((self.0.decoder)(hint), self.0.safe_id))
    }

    /// Returns the session that whole lines of a live process are of, by its safe id; `None` where the dialect's lines
    /// need not all be of the same, or none names it.
    pub fn session_of(self, lines: &[u8]) -> Option<String> {
        (self.0.session_of)(lines).map(|session| self.safe(session))
    }

    /// Returns the session of one line of a body that may hold lines of many sessions, by its safe id.
    pub fn line_session(self, line: &[u8]) -> LineSession {
        match (self.0.line_session)(line) {
            LineSession::Named(session) => LineSession::Named(self.safe(session)),
            other @ (LineSession::Same | LineSession::Unknown) => other,
        }
    }

    fn safe(self, id: String) -> String {
        match (self.0.safe_id)(&id) {
            Cow::Borrowed(_) => id,
            Cow::Owned(safe) => safe,
        }
    }

    /// Returns the subagent that waits for an answer to these bytes before it goes on. Few dialects are ever answered.
    pub fn asker(self, bytes: &[u8]) -> Option<Asker> {
        let Asker { moment, session, agent, call } =
            self.0.answers.and_then(|answers| (answers.asker)(bytes))?;
        let (session, agent) = (SessionId::from_outside(&session), AgentId::from_outside(&agent));
        Some(Asker { moment, session, agent, call: call.map(|call| ToolUseId::from_outside(&call)) })
    }

    /// Returns the answer that makes such an agent stop, for the harness's version where that is known.
    pub fn stop_answer(self, moment: AskMoment, version: Option<&str>) -> Option<StopAnswer> {
        self.0.answers.map(|answers| (answers.stop)(moment, version))
    }

    /// Returns the answer that makes an agent stop if `answer` is one, as it is written here. Nothing else may be handed to
    /// a harness: it would take another answer for a decision, such as the permission to make a call.
    pub fn known_stop_answer(self, answer: &[u8]) -> Option<String> {
        let answer: serde_json::Value = serde_json::from_slice(answer).ok()?;
        let is_same = |known: &StopAnswer| {
            serde_json::from_str(&known.json).is_ok_and(|known: serde_json::Value| known == answer)
        };
        let moments = [AskMoment::BeforeCall, AskMoment::AfterCall].into_iter();
        let all = moments.flat_map(|moment| [(moment, None), (moment, Some(LATEST_VERSION))]);
        let mut known = all.filter_map(|(moment, version)| self.stop_answer(moment, version));
        known.find(is_same).map(|known| known.json)
    }

    /// Returns the permission request that is sent with these bytes, if its hook can be given a person's decision.
    pub fn asked_permission(self, bytes: &[u8]) -> Option<AskedPermission> {
        let asked = self.0.permissions.and_then(|permissions| (permissions.request)(bytes))?;
        let (session, agent) = (SessionId::from_outside(&asked.session), AgentId::from_outside(&asked.agent));
        Some(AskedPermission { session, agent, ..asked })
    }

    /// Returns a decision about the permission request that is sent with these bytes, as the harness reads it.
    pub fn permission_decision(self, bytes: &[u8], decision: &PermissionDecision) -> Option<String> {
        self.0.permissions.and_then(|permissions| (permissions.decision)(bytes, decision))
    }
}

impl PartialEq for Dialect {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Dialect {}

impl Hash for Dialect {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Debug for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Dialect").field(&self.0.name).finish()
    }
}

/// The session of one line of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineSession {
    /// The session that it names.
    Named(String),
    /// It names none: it belongs to the line before it.
    Same,
    /// Unknown: only the decoder of the whole source knows it.
    Unknown,
}

/// Where a subagent waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskMoment {
    /// Before a tool call.
    BeforeCall,
    /// After a tool call.
    AfterCall,
}

/// A subagent that waits for an answer before it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Where it waits.
    pub moment: AskMoment,
    /// Its session.
    pub session: SessionId,
    /// The agent.
    pub agent: AgentId,
    /// The call.
    pub call: Option<ToolUseId>,
}

/// An answer that makes an agent stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopAnswer {
    /// The answer, as its harness reads it.
    pub json: String,
    /// Whether it refuses the call as well; where it does not, the call is made before the agent ends.
    pub is_refused: bool,
}
