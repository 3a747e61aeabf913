//! Data model: the types that crates exchange, and their public JSON schema.
//!
//! Decoded input ([`Observation`]), derived rows ([`Tree`], [`Agent`], [`ToolCall`]), the live feed ([`Event`],
//! [`Update`]), and export formats ([`Trace`], [`ExecutionTrace`], [`Checkpoint`]).
//!
//! This crate reads no clock, needs no runtime and knows no vendor. It does no I/O, but that [`Zone`] reads the system's
//! database of time zones.

mod atif;
mod attention;
mod basis;
mod changed_files;
mod comparison;
mod detail;
mod event;
mod event_record;
mod feed;
mod groups;
mod hub;
mod id;
mod inbox;
mod iteration;
mod jump;
mod list;
mod live_view;
mod need;
mod observation;
mod people;
mod permission;
mod price;
mod problem;
mod process;
mod raw_json;
mod record;
mod remote;
mod safe_id;
mod schema;
mod sending;
mod session_keys;
mod session_text;
mod setup;
mod snapshot;
mod spending;
mod stop;
mod time;
mod trajectory;
mod tree;
mod usage;
mod windows_path;
mod zone;

pub use atif::{ATIF_EXTRA_SCHEMA, AtifCall, AtifSession, AtifStep, AtifTrajectory};
pub use attention::Attention;
pub use basis::Basis;
pub use changed_files::{ChangedFile, ChangedFiles, FILES_SCHEMA};
pub use comparison::{
    AgentPair, Calls, Compared, ComparedAgent, Comparison, DIFF_SCHEMA, Likeness, Side, ToolPair,
};
pub use detail::{FinishReason, ResponseDetail, RunDetail, SessionDetail};
pub use event::{Event, EventKind, EventSchema, feed_line};
pub use event_record::{CompactData, EventData, EventRecord, MissingField};
pub use feed::{Change, Feed, FeedItem, Shared, Update};
pub use groups::{Dimension, GROUPS_SCHEMA, GroupQuery, GroupRow, Groups};
pub use hub::{
    AGENT_SCHEMA, AgentName, FacetCount, Facets, Forwarding, HITS_SCHEMA, Health, Hits, HubMode, IdMatches,
    NAMES_SCHEMA, OLDEST_PROTOCOL, ORDERED_SCHEMA, OneAgent, Ordered, PROTOCOL, ReadingProgress,
    STATUS_SCHEMA, SearchHit, SearchQuery, SessionPage, Status, StopChannel,
};
pub use id::{Actor, AgentId, SessionId, SourceId, Text, ToolUseId, event_id, stable_hash};
pub use inbox::{INBOX_SCHEMA, Inbox, InboxEntry, Looks};
pub use iteration::{
    ITERATION_SCHEMA, ITERATIONS_SCHEMA, Iteration, IterationMeta, IterationStatus, Iterations,
};
pub use jump::{JUMPED_SCHEMA, JumpOutcome, Jumped};
pub use list::{
    Concurrency, ConcurrencySpan, DayGroup, SESSIONS_SCHEMA, STATS_SCHEMA, SessionOrder, SessionRow,
    SessionStatus, SlowCall, Stats, StatsGroup, StatsQuery, StatsRow, TopRow,
};
pub use live_view::LiveView;
pub use need::{AgentNeed, NeedGroup, NeedReason, SILENT_EVIDENCE, SessionNeed};
pub use observation::{
    AgentEnd, CallBegin, CallEnd, Checksum, Claim, Clock, Decoded, EndEvidence, Fact, Observation, Outcome,
    Parent, PromptKind, Response, Sink, SourceKind, SourcePosition, SpanKind, SpanStatus, Spawn, SpawnBatch,
    SpawnInput, SpawnMode, SpawnResult, SpawnTotals, TitleOrigin, ToolClass, TraceSpan, WorkTree,
};
pub use people::{PEOPLE_SCHEMA, People, PersonMachine, WORKING_SCHEMA, WorkingSession, WorkingSessions};
pub use permission::{
    AgentQuestion, PERMISSION_ANSWERED_SCHEMA, PERMISSIONS_SCHEMA, PermissionAnswered, PermissionBehavior,
    PermissionDecision, PermissionRequest, PermissionRequests, QuestionOption,
};
pub use price::{LongContextPrice, ModelPrice, PriceTable, TokenPrices};
pub use problem::Problem;
pub use process::{ProcessActivity, ProcessEnd, ProcessExit, ProcessNoteLine};
pub use raw_json::{Payload, RawJson, replace_lone_surrogates};
pub use record::{
    CHECKPOINT_VERSION, Checkpoint, CheckpointMetadata, ExecutionTrace, ExecutionUsage, Lifecycle,
    LifecycleKind, ToolExecution, Trace, TraceNode, TraceState, TraceStats,
};
pub use remote::{
    REMOTE_SCHEMA, REMOTES_SCHEMA, RemoteHello, RemoteLine, RemoteMachine, RemoteMachines, RemoteRequest,
    is_remote_name, remote_session, remote_tree,
};
pub use safe_id::{own_id, safe_id, true_id};
pub use schema::{FORMAT_SCHEMAS, FormatSchema};
pub use sending::{SENDING_SCHEMA, Sending};
pub use session_keys::SessionKeys;
pub use session_text::SessionText;
pub use setup::{SETUP_SCHEMA, Setup};
pub use snapshot::{ContentLevel, SNAPSHOT_SCHEMA, Snapshot, SnapshotText};
pub use spending::{SPENDING_SCHEMA, Spending, SpendingSpan};
pub use stop::{StopOrder, StopStep};
pub use time::{Millis, iso8601, parse_event_time, parse_rfc3339};
pub use trajectory::{TrajectoryCall, TrajectoryLine, TrajectoryLineKind};
pub use tree::{
    Agent, AgentStatus, Flag, Liveness, LivenessKind, Session, Subtree, Summary, TREE_SCHEMA, ToolCall,
    ToolStatus, Tree, VendorCost, VendorUnit,
};
pub use usage::{MicroUsd, Usage};
pub use windows_path::is_windows_path;
pub use zone::Zone;
