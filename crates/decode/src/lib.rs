//! Bytes of one dialect to observations and problems.
//!
//! One module for each dialect behind the one seam [`Decoder`]. A decoder cuts its bytes into lines, reads each
//! line by itself and remembers no more than the links inside its own source. It cannot fail: what it does not
//! understand it hands over as a problem, with its place.
//!
//! Nothing here knows files, sockets or a clock, and no dialect knows another.
//!
//! To add a dialect: a module with a `Decoder`, a row in [`Dialect`], and its marks in [`recognise()`]; to add a
//! harness, a row in [`harness`].

pub mod claude;
pub mod feed;
pub mod harness;
mod lenient;
mod lifecycle_filter;
mod lines;
mod recognise;
pub mod stop_orders;
pub mod subagent_events;

pub use lifecycle_filter::{LifecycleFilter, session_of};
pub use lines::{JsonLines, MAX_LINE_BYTES, Parsed};
pub use recognise::recognise;
use subscope_model::{AgentId, SessionId, Sink, SourceId, SourceKind, ToolUseId};

/// A machine-readable output of a harness, or of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Claude Code's conversations on disk, one line an entry.
    ClaudeTranscript,
    /// `agent-<id>.meta.json`: one object about one subagent.
    ClaudeMeta,
    /// A workflow's `journal.jsonl`.
    ClaudeJournal,
    /// What `claude -p --output-format stream-json` prints.
    ClaudeStream,
    /// Hook payloads, one a line.
    ClaudeHook,
    /// Events that a program posts about its own subagents.
    SubagentEvents,
    /// Our own `subscope.event/1`.
    Feed,
    /// Our own `subscope.stop/1`: what a person ordered.
    StopOrders,
}

impl Dialect {
    /// All dialects that `--dialect` may name.
    pub const ALL: [Self; 8] = [
        Self::ClaudeTranscript,
        Self::ClaudeMeta,
        Self::ClaudeJournal,
        Self::ClaudeStream,
        Self::ClaudeHook,
        Self::SubagentEvents,
        Self::Feed,
        Self::StopOrders,
    ];

    /// Whether a source of this dialect is one object, which is written anew when it changes, and not lines that are appended.
    pub fn is_object(self) -> bool {
        self == Self::ClaudeMeta
    }

    /// The name used by `--dialect` and as an event's `source`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeTranscript => "claude.transcript",
            Self::ClaudeMeta => "claude.meta",
            Self::ClaudeJournal => "claude.journal",
            Self::ClaudeStream => "claude.stream",
            Self::ClaudeHook => "claude.hook",
            Self::SubagentEvents => "subagent-events",
            Self::Feed => "feed",
            Self::StopOrders => "stop-orders",
        }
    }

    /// The dialect of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.as_str() == name)
    }

    /// What kind of source it makes.
    pub fn kind(self) -> SourceKind {
        match self {
            Self::ClaudeTranscript | Self::ClaudeMeta | Self::ClaudeJournal => SourceKind::Transcript,
            Self::ClaudeStream => SourceKind::Stream,
            Self::SubagentEvents | Self::Feed | Self::StopOrders => SourceKind::Posted,
            Self::ClaudeHook => SourceKind::Hook,
        }
    }

    /// The harness that speaks it, where it is one harness's.
    pub fn harness(self) -> Option<&'static str> {
        match self {
            Self::ClaudeTranscript
            | Self::ClaudeMeta
            | Self::ClaudeJournal
            | Self::ClaudeStream
            | Self::ClaudeHook => Some(harness::CLAUDE_CODE.name),
            Self::SubagentEvents | Self::Feed | Self::StopOrders => None,
        }
    }
}

impl Dialect {
    /// Returns the session that whole lines of a live process are of; `None` where the dialect's lines need not all be of the
    /// same, or none says.
    pub fn session_of(self, lines: &[u8]) -> Option<String> {
        match self {
            Self::ClaudeHook | Self::ClaudeStream => claude::session_of(lines),
            Self::ClaudeTranscript
            | Self::ClaudeMeta
            | Self::ClaudeJournal
            | Self::SubagentEvents
            | Self::Feed
            | Self::StopOrders => None,
        }
    }

    /// Returns whose one line of a body is that may tell of many sessions.
    pub fn line_session(self, line: &[u8]) -> LineSession {
        match self {
            Self::ClaudeHook | Self::ClaudeStream | Self::Feed => {
                session_of(line).map_or(LineSession::Same, LineSession::Named)
            }
            Self::SubagentEvents => subagent_events::line_session(line),
            // A transcript and small files are of one session, whatever their lines name; an order stands alone.
            Self::ClaudeTranscript | Self::ClaudeMeta | Self::ClaudeJournal | Self::StopOrders => {
                LineSession::Unknown
            }
        }
    }

    /// Returns the subagent that waits for an answer to these bytes before it goes on. Few dialects are ever answered.
    pub fn asker(self, bytes: &[u8]) -> Option<Asker> {
        match self {
            Self::ClaudeHook => claude::answer::asker(bytes),
            Self::ClaudeTranscript
            | Self::ClaudeMeta
            | Self::ClaudeJournal
            | Self::ClaudeStream
            | Self::SubagentEvents
            | Self::Feed
            | Self::StopOrders => None,
        }
    }

    /// Returns the answer that makes such an agent stop, for the harness's version where that is known.
    pub fn stop_answer(self, moment: AskMoment, version: Option<&str>) -> Option<StopAnswer> {
        match self {
            Self::ClaudeHook => Some(claude::answer::stop_answer(moment, version)),
            Self::ClaudeTranscript
            | Self::ClaudeMeta
            | Self::ClaudeJournal
            | Self::ClaudeStream
            | Self::SubagentEvents
            | Self::Feed
            | Self::StopOrders => None,
        }
    }
}

/// The session of one line of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineSession {
    /// The session that it names.
    Named(String),
    /// It names none: it belongs to the line before it.
    Same,
    /// Only the decoder of the whole source can tell.
    Unknown,
}

/// Where a subagent waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskMoment {
    /// In front of a call.
    BeforeCall,
    /// Behind one.
    AfterCall,
}

/// A subagent that waits for an answer before it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    /// Where.
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

/// What a source's surroundings (its path) tell of it.
#[derive(Clone, Debug, Default)]
pub struct Hint {
    /// The source's number within this fold.
    pub source: SourceId,
    /// The session that its path names.
    pub session: Option<String>,
    /// The agent that its path names.
    pub agent: Option<String>,
    /// The workflow run that its path names.
    pub workflow: Option<String>,
}

/// The seam between bytes and observations.
pub trait Decoder: Send {
    /// Takes the next bytes, cut anywhere, and hands over what every complete line says, in order.
    fn push(&mut self, chunk: &[u8], sink: &mut Sink<'_>);

    /// Hands over what an unfinished last line says; for when no bytes will follow.
    fn flush(&mut self, sink: &mut Sink<'_>);

    /// Says where the next line stands in its body, by number (from 1) and offset, where lines before it went to other
    /// decoders. Only dialects whose bodies are divided by session ([`Dialect::line_session`]) need to know.
    fn skip_to(&mut self, _line: u64, _offset: u64) {}
}

/// Returns a decoder for one source.
pub fn decoder(dialect: Dialect, hint: &Hint) -> Box<dyn Decoder> {
    match dialect {
        Dialect::ClaudeTranscript => Box::new(claude::transcript::Transcript::new(hint)),
        Dialect::ClaudeMeta => Box::new(claude::meta::Meta::new(hint)),
        Dialect::ClaudeJournal => Box::new(claude::meta::Journal::new(hint)),
        Dialect::ClaudeStream => Box::new(claude::stream::Stream::new(hint)),
        Dialect::ClaudeHook => Box::new(claude::hook::Hooks::new(hint)),
        Dialect::SubagentEvents => Box::new(subagent_events::SubagentEvents::new(hint)),
        Dialect::Feed => Box::new(feed::FeedLines::new(hint)),
        Dialect::StopOrders => Box::new(stop_orders::StopOrders::new(hint)),
    }
}
