//! JSON Schemas of our own formats, generated from the types that write them.

use schemars::{JsonSchema, Schema, generate::SchemaSettings};

use crate::{
    AtifCall, AtifStep, AtifTrajectory, Change, ChangedFiles, Checkpoint, CheckpointMetadata, Comparison,
    Event, ExecutionTrace, Groups, Hits, IdMatches, Inbox, IterationMeta, Iterations, Jumped, OneAgent,
    Ordered, People, PermissionAnswered, PermissionRequests, ProcessEnd, ProcessNoteLine, RemoteLine,
    RemoteMachines, Sending, SessionPage, Setup, Snapshot, Spending, Stats, Status, StopOrder,
    TrajectoryLine, Tree, WorkingSessions,
    feed::{FeedPosition, MissedData},
};

/// One of our formats. Each crate lists those that it writes or reads.
#[derive(Clone, Copy, Debug)]
pub struct FormatSchema {
    /// Its name: that of its `schema` field, without `subscope.`.
    pub name: &'static str,
    /// Its version.
    pub version: u32,
    /// What it is.
    pub about: &'static str,
    /// Where it is written and read.
    pub place: &'static str,
    /// Returns its JSON Schema.
    pub schema: fn() -> Schema,
}

impl FormatSchema {
    /// Returns version 1 of a format, which is the JSON of `T`.
    pub const fn of<T: JsonSchema>(name: &'static str, about: &'static str, place: &'static str) -> Self {
        Self { name, version: 1, about, place, schema: schema_of::<T> }
    }
}

/// Returns the schema of what `T` is written as: fields that are always written are required.
fn schema_of<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

/// Formats of this crate, by name.
pub const FORMAT_SCHEMAS: &[FormatSchema] = &[
    FormatSchema::of::<OneAgent>(
        "agent",
        "One agent, with its session",
        "`GET /api/v1/agents/{id}`, `get_agent` of `mcp query`",
    ),
    FormatSchema::of::<AtifTrajectory>(
        "atif",
        "`extra.subscope` of a trajectory in ATIF",
        "`export --as atif`",
    ),
    FormatSchema::of::<AtifCall>(
        "atif-call",
        "`extra.subscope` of a tool call in ATIF",
        "`export --as atif`",
    ),
    FormatSchema::of::<AtifStep>("atif-step", "`extra.subscope` of a step in ATIF", "`export --as atif`"),
    FormatSchema::of::<FeedPosition>(
        "caught-up",
        "All existing content of the live feed has been sent",
        "`GET /api/v1/live`, event `caught-up`",
    ),
    FormatSchema::of::<Change>(
        "change",
        "Changed rows of the live feed",
        "`GET /api/v1/live`, event `change`",
    ),
    FormatSchema::of::<Checkpoint>(
        "checkpoint",
        "Execution traces of a session at one time",
        "`export --as checkpoint`: `checkpoint.json`",
    ),
    FormatSchema::of::<CheckpointMetadata>(
        "checkpoint-metadata",
        "The session and the time of a checkpoint",
        "`export --as checkpoint`: `metadata.json`",
    ),
    FormatSchema::of::<Comparison>(
        "diff",
        "Two sessions or agents side by side",
        "`diff --json`, `GET /api/v1/compare`",
    ),
    FormatSchema::of::<Event>(
        "event",
        "An event of a session",
        "`watch --json`, `export --as feed`, `GET /api/v1/live`",
    ),
    FormatSchema::of::<ExecutionTrace>(
        "execution",
        "An ended subagent with its calls",
        "`export --as execution`: an array",
    ),
    FormatSchema::of::<ChangedFiles>(
        "files",
        "The files that the agents of a session changed",
        "`files --json`",
    ),
    FormatSchema::of::<Groups>(
        "groups",
        "Sums of a team's sessions by some dimensions",
        "`GET /api/v1/stats?by=` of a team's server",
    ),
    FormatSchema::of::<Hits>("hits", "Texts that a search found", "`search --json`, `GET /api/v1/search`"),
    FormatSchema::of::<Inbox>(
        "inbox",
        "What needs the user, and what ended since the user looked",
        "`GET /api/v1/inbox`, `inbox` of `status --json`",
    ),
    FormatSchema::of::<IterationMeta>(
        "iteration",
        "A recorded run of a command",
        "`run --iterations`: `meta.json` of each run",
    ),
    FormatSchema::of::<Iterations>(
        "iterations",
        "Recorded runs",
        "`ls --iterations --json`, `GET /api/v1/iterations`",
    ),
    FormatSchema::of::<Jumped>(
        "jumped",
        "What came of going to a session's terminal",
        "`jump --json`, `POST /api/v1/sessions/{id}/jump`",
    ),
    FormatSchema::of::<MissedData>(
        "missed",
        "Events that a slow reader of the live feed did not get",
        "`GET /api/v1/live`, event `missed`",
    ),
    FormatSchema::of::<IdMatches>(
        "names",
        "Sessions and agents whose ids begin with a prefix",
        "`GET /api/v1/names`",
    ),
    FormatSchema::of::<People>(
        "people",
        "Users of a team with their machines",
        "`GET /api/v1/people` of a team's server",
    ),
    FormatSchema::of::<PermissionAnswered>(
        "permission-answered",
        "An answer to a permission request, which its hook has received",
        "`answer --json`, `POST /api/v1/permissions/{id}/answer`",
    ),
    FormatSchema::of::<PermissionRequests>(
        "permissions",
        "Permission requests that wait for an answer",
        "`answer --json`, `GET /api/v1/permissions`",
    ),
    FormatSchema::of::<ProcessEnd>(
        "process",
        "How the process of a session ended",
        "input of a hub, one a line",
    ),
    FormatSchema::of::<ProcessNoteLine>(
        "process-activity",
        "What the note of a session's process says that the process does",
        "input of a hub, one a line",
    ),
    FormatSchema::of::<FeedPosition>(
        "reset",
        "The position of a reader of the live feed is no longer known: snapshots follow",
        "`GET /api/v1/live`, event `reset`",
    ),
    FormatSchema::of::<RemoteLine>("remote", "Sessions of another machine, one a line", "`serve --stdio`"),
    FormatSchema::of::<RemoteMachines>("remotes", "Connections to other machines", "`remote list --json`"),
    FormatSchema::of::<Sending>(
        "sending",
        "What this machine sends to the server of its team",
        "`GET /api/v1/sending`",
    ),
    FormatSchema::of::<SessionPage>(
        "sessions",
        "Sessions, newest first",
        "`ls --json`, `GET /api/v1/sessions`",
    ),
    FormatSchema::of::<Setup>("setup", "How this machine is set up", "`GET /api/v1/setup`"),
    FormatSchema::of::<Spending>(
        "spending",
        "What the agents of a session spent over time",
        "`GET /api/v1/sessions/{id}/spending`",
    ),
    FormatSchema::of::<Stats>("stats", "Figures over sessions", "`stats --json`, `GET /api/v1/stats`"),
    FormatSchema::of::<Status>("status", "Agents at work now", "`status --json`, `GET /api/v1/status`"),
    FormatSchema::of::<StopOrder>(
        "stop",
        "An order to stop an agent, and its delivery",
        "input of a hub, one a line",
    ),
    FormatSchema::of::<Ordered>(
        "stop-asked",
        "The answer to a request to stop an agent",
        "`stop --json`, `POST /api/v1/agents/{id}/stop`",
    ),
    FormatSchema::of::<Snapshot>(
        "team",
        "A session as it is sent to a team's server",
        "`forward --dry-run`, `POST /team/v1/sessions`",
    ),
    FormatSchema::of::<TrajectoryLine<'_>>(
        "trajectory",
        "A step of an ATIF document, as input of a hub",
        "`POST /api/v1/ingest/trajectories`, one a line",
    ),
    FormatSchema::of::<Tree>(
        "tree",
        "A session with all its agents",
        "`tree --json`, `GET /api/v1/sessions/{id}/tree`",
    ),
    FormatSchema::of::<WorkingSessions>(
        "working",
        "Sessions of a team that are at work",
        "`GET /api/v1/working` of a team's server",
    ),
];
