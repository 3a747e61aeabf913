"""Types of the hub's JSON. Made by `cargo xtask types` from crates/model: edit that."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

# Evidence for an actor.
Basis = Literal["unknown", "stack", "sole", "link", "wire"]


class Usage(TypedDict):
    """Tokens of one or more API responses; each response counts once."""

    # Fresh input tokens (neither read from nor written to a cache).
    input_tokens: int
    # Generated tokens, thinking included.
    output_tokens: int
    # Input tokens read from the prompt cache.
    cache_read_tokens: int
    # Input tokens written to the prompt cache.
    cache_write_tokens: int
    # Sum of the four counts, and of tokens whose kind nothing tells; not the size of the context, which harnesses report as their total.
    total_tokens: int
    # Whether a count is a lower bound: for some response only preliminary counts, or only their total, are known.
    floor: bool


class Problem(TypedDict):
    """Something in foreign input that could not be decoded."""

    # Location: `file:line` (1-based).
    at: str
    # What was wrong, and how it was handled; a lower-case fragment without a full stop.
    what: str

# How urgently a session needs a person, the most urgent first.
Attention = Literal["waiting", "trouble", "live", "ended"]

# How certain it is that a session needs a person, and how urgent; the most urgent first.
NeedGroup = Literal["waits", "trouble", "perhaps"]

# Why an agent needs a person.
NeedReason = Literal["permission", "question", "plan", "stalled", "lost", "failing", "failed", "may_wait"]


class AgentNeed(TypedDict):
    """An agent that needs a person."""

    # The agent.
    agent_id: str
    # Its display name.
    title: str
    # The group of its reason.
    group: NeedGroup
    # Why it needs a person.
    reason: NeedReason
    # The same as a predicate of the title: `waits for your permission: Bash`.
    words: str
    # Since when: the begin of the wait, the last sign of a silent agent, the first of the failed calls, the end.
    since_ms: int | None


class SessionNeed(TypedDict):
    """What a session needs of a person: one entry of the inbox, with its agents below it."""

    # The most urgent group of its agents.
    group: NeedGroup
    # The agents of that group as a sentence: `Explore: Map the cart is stalled`, `40 agents are stalled`.
    words: str
    # Number of agents that wait for a person.
    waits: int
    # Number of agents in trouble.
    trouble: int
    # Number of agents that may wait for a person.
    perhaps: int
    # The agents, the most urgent group first, then the one that needs a person for the longest; the first hundred.
    agents: list[AgentNeed]


class Session(TypedDict):
    """A conversation of a harness."""

    # The harness's own id.
    id: str
    # The harness, by its name; `None` for events published by unknown programs.
    harness: str | None
    # The harness's version, if any source has it.
    harness_version: str | None
    # The working directory of the root.
    cwd: str | None
    # The folder of its project, if `cwd` is in a linked work tree (`git worktree`): that of the main work tree.
    project: NotRequired[str]
    # The first prompt, one line, as a title.
    title: str | None
    # Time of the first event.
    started_at_ms: int | None
    # Time of the last event.
    ended_at_ms: int | None
    # Number of runs: prompts of the user that started one.
    runs: int
    # Start of the latest run; `None` if it is the first, or unknown.
    run_started_at_ms: NotRequired[int]
    # The other machine that it runs on, by its name in the settings (`[[remote]]`); `None` for this machine.
    machine: NotRequired[str]
    # Time at which that machine was last heard, by the clock of this one; `None` while it is connected.
    last_heard_ms: NotRequired[int]
    # Revision, increased with each stored change: of two versions of this row the higher one is current.
    rev: NotRequired[int]

# Status of an agent.
AgentStatus = Literal["pending", "running", "completed", "failed", "stopped", "lost"]

# Activity of a running agent, or what it waits for.
LivenessKind = Literal["model", "tool", "permission", "question", "plan", "children", "retry", "idle"]


class Liveness(TypedDict):
    """Activity of a running agent, or what it waits for, and since when."""

    # Kind of activity or wait.
    kind: LivenessKind
    # The tool's name or the error's text, by `kind`.
    name: str | None
    # Number of running children, or of the attempt, by `kind`.
    count: int | None
    # Maximum number of attempts, for a retry.
    limit: NotRequired[int]
    # Start time, if a source has it.
    since_ms: int | None
    # Whether it is inferred from silence and not reported by a source; frontends mark it `~`.
    inferred: bool

# A flag in addition to the status.
Flag = Literal["stopping", "stalled", "looping", "failing", "colliding", "orphan", "warmup", "copied", "handoff", "inferred", "unheard"]

# Status of a tool call.
ToolStatus = Literal["ok", "error", "open", "denied"]


class ToolCall(TypedDict):
    """A tool call."""

    # The harness's id; `None` if the source has none.
    id: str | None
    # Name of the tool in the harness.
    name: str
    # Status.
    status: ToolStatus
    # Evidence for its agent.
    basis: Basis
    # Start time.
    started_at_ms: int | None
    # End time.
    ended_at_ms: int | None
    # Its duration, where a source has that without both times.
    duration_ms: NotRequired[int]
    # Short description of its target: a file's base name, a pattern, the first 40 characters of a command.
    detail: str | None
    # The files that it writes, as its arguments name them.
    writes: NotRequired[list[str]]


class Subtree(TypedDict):
    """Totals of an agent and its descendants."""

    # Number of agents, including the agent itself.
    agents: int
    # Number of tool calls.
    tool_calls: int
    # Tokens; `None` if all are unknown.
    usage: Usage | None
    # Cost as far as known; `None` if all is unknown.
    cost_micro_usd: int | None
    # Whether the cost is a lower bound.
    cost_floor: bool
    # Length of the union of all their intervals.
    wall_ms: int | None
    # Sum of their intervals.
    agent_ms: int | None


class Agent(TypedDict):
    """The root of a session, or a subagent."""

    # `root`, or the harness's id of the subagent.
    id: str
    # The id as actor of events.
    actor_id: str
    # The agent that started it; `None` for the root and if unknown.
    parent_id: str | None
    # The tool call that started it.
    spawned_by: str | None
    # 0 for the root, 1 for its subagents and for orphans.
    depth: int
    # The harness's agent type (`Explore`).
    type: str | None
    # Name given by its parent.
    name: str | None
    # Short description of its task.
    description: str | None
    # The model of its latest response.
    model: str | None
    # Whether its parent continues without waiting for it.
    background: bool
    # Status.
    status: AgentStatus
    # Evidence for `status`, for people (`task notification`, `silent for 15m`).
    evidence: str | None
    # Current activity; `None` unless it runs.
    liveness: Liveness | None
    # Flags, in a fixed order.
    flags: list[Flag]
    # Time of its first own line.
    started_at_ms: int | None
    # Time of its last own line, else of its end; `None` while it runs.
    ended_at_ms: int | None
    # Time of its last event.
    last_event_at_ms: int | None
    # Its intervals of activity in order; an open one ends at the last event.
    intervals: list[list[int]]
    # Length of the union of its intervals.
    wall_ms: int | None
    # Number of calls, regardless of their outcome.
    tool_calls: int
    # Number of calls that failed or were interrupted.
    tool_errors: int
    # Number of denied calls; not counted as errors.
    tools_denied: int
    # Number of calls that have not ended.
    open_tools: int
    # Its calls, ordered by start.
    tools: list[ToolCall]
    # Number of distinct API responses.
    messages: int
    # Its own tokens; `None` if no response was seen.
    usage: Usage | None
    # Its own cost; `None` if usage or a model's price is unknown.
    cost_micro_usd: int | None
    # Whether its own cost is a lower bound.
    cost_floor: bool
    # The task it was given.
    prompt: str | None
    # Its final report.
    result: str | None
    # Why it failed.
    error: str | None
    # Totals of the agent and its descendants.
    subtree: Subtree
    # Revision, as the session's `rev`.
    rev: NotRequired[int]

# A unit in which a vendor bills.
VendorUnit = Literal["premium_requests", "ai_units"]


class VendorCost(TypedDict):
    """A cost in a unit of a vendor, which has no price in dollars of its own."""

    # The unit.
    unit: VendorUnit
    # Millionths of the unit.
    amount_micro: int


class Summary(TypedDict):
    """Statistics over the whole session."""

    # Subagents.
    agents: int
    # Subagents requested but not yet seen at work.
    pending: int
    # Subagents at work.
    running: int
    # Subagents that ended with success.
    completed: int
    # Subagents that failed.
    failed: int
    # Subagents stopped on request.
    stopped: int
    # Lost subagents.
    lost: int
    # The greatest depth; 0 without subagents.
    max_depth: int
    # Tool calls of all agents, the root's included.
    tool_calls: int
    # Tool errors of all agents.
    tool_errors: int
    # Denied calls of all agents.
    tools_denied: int
    # Permissions that the harness asked a person for; `None` where no source reports them.
    permissions_asked: int | None
    # The session's own total if a source has it and it covers the agents' sum, else that sum.
    usage: Usage | None
    # The session's own total minus the agents' sum; `None` without such a total.
    unattributed_usage: Usage | None
    # The session's own cost if a source has it, else the agents' sum.
    cost_micro_usd: int | None
    # Whether the cost is a lower bound.
    cost_floor: bool
    # What the session has cost in units of the harness's vendor, as the harness says: by unit.
    vendor_costs: NotRequired[list[VendorCost]]
    # Length of the union of all intervals, including the root's.
    wall_ms: int | None
    # Sum of the subagents' intervals.
    agent_ms: int | None
    # Subagents by type; `unknown` for those without one.
    by_type: dict[str, int]
    # How urgently the session needs a person.
    attention: Attention
    # What it needs of a person; `None` if nothing.
    need: NotRequired[SessionNeed]


class Tree(TypedDict):
    """A session with all its agents."""

    # Always [`TREE_SCHEMA`].
    schema: str
    # The session.
    session: Session
    # All agents in pre-order, the root first, siblings by start; orphans after the root's children.
    agents: list[Agent]
    # Statistics over the whole session.
    summary: Summary
    # Problems, ordered by location.
    problems: list[Problem]

# What an event is about.
EventKind = Literal["session.start", "session.end", "run.start", "run.end", "user.prompt", "tool.pre", "tool.post", "tool.failure", "permission.request", "permission.denied", "subagent.start", "subagent.progress", "subagent.stop", "agent.message", "reasoning", "usage", "stall", "budget", "heartbeat", "retry", "notification", "compact.pre", "compact.post", "todo.created", "todo.completed", "unknown.hook", "attribution", "agent.renamed", "problem"]


class Event(TypedDict):
    """An event of a session, as sent to every frontend."""

    # Always `subscope.event/1`.
    schema: str
    # Id of the event: equal from every source and after every rebuild.
    id: str
    # Position in one log or file (1-based); not part of the identity.
    seq: int
    # Time of the event; `None` if unknown.
    at_ms: int | None
    # The session it belongs to.
    session_id: str
    # The run it belongs to (1-based); 0 before the first.
    run: int
    # The actor.
    actor_id: str
    # Evidence for the actor.
    basis: Basis
    # Dialect of its source.
    source: str
    # The kind.
    kind: EventKind
    # Details by kind; an object.
    data: dict[str, Any]


class Change(TypedDict):
    """Changed rows of a session."""

    # Always [`Change::SCHEMA`].
    schema: str
    # Position of the last event before it.
    seq: int
    # The session's current row.
    sessions: list[Session]
    # New, changed or moved agents, in the order of the tree.
    agents: list[Agent]
    # Agents that no longer exist (merged into another, or refuted).
    removed: list[str]
    # Index of each of `agents` in the tree, so that readers keep its order without sorting.
    places: NotRequired[list[int]]
    # Current statistics of the session, so that readers need not request the tree.
    summary: NotRequired[Summary]


class MissedData(TypedDict):
    """Data of `missed`."""

    schema: str
    # Number of dropped events.
    count: int
    # Position of the last event before them.
    after: int


class Setup(TypedDict):
    """Configuration of a hub: `GET /api/v1/setup`."""

    # Always [`SETUP_SCHEMA`].
    schema: str
    # Folders that are watched for sessions.
    folders: list[str]
    # Whether the user's settings of the harness have hooks of subscope; `None` if the settings cannot be read.
    hooks: bool | None
    # Command that resumes a session, by harness; the session's id follows.
    resume: dict[str, str]
    # The zone whose days are counted, as in [`crate::Stats::time_zone`].
    time_zone: str
    # Budget of all sessions of a day together; `None` without one.
    budget_day_micro_usd: int | None
    # Budget of each session; `None` without one.
    budget_session_micro_usd: int | None
    # The recorded session of the demo, which is in no list; `None` if there is none.
    demo: str | None
    # URL that opens a file in an editor, with `{path}` and maybe `{line}`; `None` if files are not opened.
    editor: str | None
    # URL of the team's server that the settings name; `None` if they name none.
    team: str | None

# How much of a session's content leaves its machine.
ContentLevel = Literal["figures", "titles", "text"]


class RemoteMachine(TypedDict):
    """State of the connection to another machine: `remote list --json`, `GET /healthz`."""

    # Its name in the settings.
    name: str
    # Whether it is connected.
    is_connected: bool
    # Whether all of its sessions have come since it was connected.
    is_caught_up: bool
    # When it was last heard, by the clock of this machine; `None` if it was not since the hub started.
    last_heard_ms: int | None
    # Version of subscope there, as the next two known since it was connected.
    version: str | None
    # Name of the host.
    host: str | None
    # Number of sessions in its store when it was connected.
    sessions: int | None
    # How far its clock is ahead of this machine's; measured at half of the round trip.
    clock_offset_ms: int | None
    # Time of the round trip of that measurement.
    round_trip_ms: int | None
    # Number of its sessions whose texts are not here, or older than their rows: a search may lack hits in them.
    unsearched: int | None
    # Why it is not connected.
    error: str | None


class Sending(TypedDict):
    """What this machine sends to its team's server: `GET /api/v1/sending`."""

    # Always [`SENDING_SCHEMA`].
    schema: str
    # URL of the server that the settings name; `None` if they name none.
    url: str | None
    # Whether the settings let a hub send to it.
    is_on: bool
    # Name of the machine.
    machine: str
    # Level of content that is sent.
    level: ContentLevel
    # Whether the organization of this machine set the level as the highest one.
    is_level_locked: bool
    # Folders whose sessions never leave, as the settings have them.
    exclude: list[str]
    # Whether a process sends now.
    is_forwarding: bool
    # Number of sessions that the server has.
    sent: int
    # Number of sessions that are newer here, or that it does not have.
    behind: int
    # Number of sessions that it has with more content than the level allows: they are replaced.
    above_level: int
    # When this hub last sent a session; `None` if it sent none.
    last_sent_at_ms: int | None
    # Why sessions cannot be sent now; `None` if the last attempt did not fail.
    error: str | None
    # Level of the example.
    example_level: ContentLevel
    # The newest session that may leave, as the line of JSON that leaves (`subscope.team/1`); `None` if there is none.
    example: str | None


class SpendingSpan(TypedDict):
    """What one agent spent in one span."""

    # Start of the span.
    at_ms: int
    # The agent.
    agent_id: str
    # Tokens of all kinds.
    total_tokens: int
    # Known cost.
    cost_micro_usd: int


class Spending(TypedDict):
    """Tokens and cost of a session by span of time and agent."""

    # Always [`SPENDING_SCHEMA`].
    schema: str
    # Length of a span.
    span_ms: int
    # What was spent, by start of the span; within a span in the order of the tree.
    spans: list[SpendingSpan]

# Whether a session is at work.
SessionStatus = Literal["live", "ended"]


class SessionRow(TypedDict):
    """One row of a session list."""

    # The harness's own id.
    id: str
    # The harness.
    harness: str | None
    # The working directory of the root.
    cwd: str | None
    # The first prompt, one line; of a session without one, what its main agent is called, else its first subagent.
    title: str | None
    # Whether it is at work.
    status: SessionStatus
    # How urgently it needs a person.
    attention: Attention
    # What it needs of a person; `None` if nothing.
    need: NotRequired[SessionNeed]
    # Time of the first event.
    started_at_ms: int | None
    # Time of the last event.
    last_event_at_ms: int | None
    # Number of runs: prompts of the user that started one.
    runs: int
    # Number of subagents.
    agents: int
    # Number of subagents that have not ended.
    running: int
    # Number of failed subagents.
    failed: int
    # Number of tool calls, including the root's.
    tool_calls: int
    # Number of them that failed; `None` in rows stored by older versions, as the next.
    tool_errors: NotRequired[int]
    # Number of them that were denied.
    tools_denied: NotRequired[int]
    # All tokens; `None` if unknown.
    usage: Usage | None
    # Their cost; `None` if no price is known.
    cost_micro_usd: int | None
    # Whether the cost is a lower bound.
    cost_floor: bool
    # Whether the harness started it for its own purpose (a check, a title): it is billed, and no session of the user.
    is_own: NotRequired[bool]
    # Status of the root; `None` in rows stored by older versions.
    root: NotRequired[AgentStatus]
    # Time at which the store last saved a change of it (by the store's clock, not by event times); `None` if unknown.
    kept_at_ms: NotRequired[int]
    # What is wrong with what is stored of it, if anything: the row may then be older than the session, or lack figures.
    problem: NotRequired[str]
    # The machine that it ran on: in a team's store, and of the sessions of another machine (`[[remote]]`).
    machine: NotRequired[str]
    # Time at which that other machine was last heard, while it is not connected: what ran then may have ended.
    last_heard_ms: NotRequired[int]
    # Its user; only in a team's store, as the next.
    user: NotRequired[str]
    # The user's team.
    team: NotRequired[str]
    # Its project: in a team's store its name; else the folder of the project, if `cwd` is in a linked work tree, as [`crate::Session::project`].
    project: NotRequired[str]


class StatsRow(TypedDict):
    """Statistics of one group: an agent type, a tool, a model, a day."""

    # Name of the group.
    name: str
    # Number of sessions in which it occurs.
    sessions: int
    # Number of subagents: the main agent of a session is counted as the session.
    agents: int
    # Number of tool calls.
    tool_calls: int
    # Number of failed tool calls.
    tool_errors: int
    # Number of denied tool calls.
    tools_denied: int
    # Active time of the agents, or of the tool's calls.
    busy_ms: int
    # Tokens; 0 for tools.
    usage: Usage
    # Their cost, as far as prices are known.
    cost_micro_usd: int
    # Whether the cost is a lower bound: an agent with tokens has no known cost, or one that is a lower bound.
    cost_floor: bool

# What the rows of statistics are grouped by.
StatsGroup = Literal["type", "model", "project", "harness"]


class DayGroup(TypedDict):
    """Statistics of one group on one day."""

    # The day (`2026-11-22`).
    day: str
    # What the group is: a type of agent, a model, a project or a harness.
    by: StatsGroup
    # Its figures on that day.
    row: StatsRow


class SlowCall(TypedDict):
    """A tool call that took long."""

    # Its session.
    session_id: str
    # Title of the session.
    session_title: str | None
    # Its agent.
    agent_id: str
    # Display name of the agent.
    agent: str
    # The tool.
    tool: str
    # Short description of its target, as in the tree.
    detail: str | None
    # How it ended.
    status: ToolStatus
    # Start time.
    started_at_ms: int
    # From start to end.
    duration_ms: int


class TopRow(TypedDict):
    """A session, or an agent of one, in a list of those with the greatest figures."""

    # The session.
    session_id: str
    # Title of the session.
    session_title: str | None
    # The agent; `None` for a whole session.
    agent_id: NotRequired[str]
    # Start of the agent; `None` for a session, and if it is unknown.
    started_at_ms: NotRequired[int]
    # Figures: of a session those of the days that are covered, of an agent all of its own.
    row: StatsRow


class ConcurrencySpan(TypedDict):
    """A span of time, with the greatest numbers at work in it."""

    # Its start.
    at_ms: int
    # The greatest number of agents, roots included, that were at work at the same moment of it.
    agents: int
    # The greatest number of sessions with an agent at work at the same moment of it.
    sessions: int


class Concurrency(TypedDict):
    """How many agents were at work at the same time, by spans of equal length."""

    # Length of a span.
    span_ms: int
    # Spans in which an agent was at work, in order of time.
    spans: list[ConcurrencySpan]


class Stats(TypedDict):
    """Statistics over all stored sessions, or over those that a query selects."""

    # Always [`STATS_SCHEMA`].
    schema: str
    # The zone whose days are counted: `Europe/Berlin`, `UTC`; `local` if it has no name.
    time_zone: str
    # Totals.
    total: StatsRow
    # By type of agent, `main` for roots; most tokens first.
    by_type: list[StatsRow]
    # By tool; most calls first.
    by_tool: list[StatsRow]
    # By model; most tokens first.
    by_model: list[StatsRow]
    # By day of `time_zone` (`2026-11-22`), newest first.
    by_day: list[StatsRow]
    # By working directory of the root; most tokens first.
    by_project: list[StatsRow]
    # By harness; most tokens first.
    by_harness: list[StatsRow]
    # By day and group, for charts: days in order of time, then groups, then names.
    days: list[DayGroup]
    # The slowest calls, the slowest first; at most 20, and at most 5 of a session.
    slowest: list[SlowCall]
    # The sessions with the greatest cost, tokens, active time and numbers of failed and denied calls, 10 by each; the dearest first.
    top_sessions: list[TopRow]
    # The subagents likewise, at most 5 of a session by each; an agent counts on the day on which it started.
    top_agents: list[TopRow]
    # How many agents were at work at the same time.
    concurrency: Concurrency
    # Names of the fields that this store cannot answer: they are empty for that reason.
    without: NotRequired[list[str]]
    # What is wrong with stored rows, if anything, and which sessions the figures lack for that reason.
    problems: NotRequired[list[Problem]]


class SessionPage(TypedDict):
    """A page of sessions: `ls --json`, `GET /api/v1/sessions`."""

    # Always [`crate::SESSIONS_SCHEMA`].
    schema: str
    # In the order that was asked for: the newest first, if none was.
    sessions: list[SessionRow]
    # Cursor of the next page; `None` on the last one.
    next: str | None


class IdMatches(TypedDict):
    """Ids with a prefix, or subagents by words: `GET /api/v1/names`."""

    # Always [`NAMES_SCHEMA`].
    schema: str
    # Sessions, the newest first.
    sessions: list[str]
    # Subagents, those of the newest sessions first.
    agents: list[AgentName]


class AgentName(TypedDict):
    """An agent's id with its session's."""

    # The session.
    session_id: str
    # The agent.
    agent_id: str
    # Type and description; only of an agent that was found by them.
    title: NotRequired[str]


class FacetCount(TypedDict):
    """Number of hits with one value, for a filter."""

    # The value.
    name: str
    # Number of hits that have it.
    hits: int


class Facets(TypedDict):
    """Numbers of hits by what they can be filtered by, the most hits first."""

    # By kind of passage.
    kinds: list[FacetCount]
    # By tool; passages that belong to no call are left out.
    tools: list[FacetCount]
    # By working directory of the root.
    projects: list[FacetCount]
    # Results of failed and denied calls.
    failed: int


class SearchHit(TypedDict):
    """A found passage."""

    # Its session.
    session_id: str
    # The agent of the passage; empty if unknown.
    agent_id: str
    # Display name of that agent: type and description.
    agent: str
    # Kind of passage: `prompt`, `message`, `thought`, `tool input`, `tool result`.
    kind: str
    # Time, to the second.
    at_ms: int | None
    # The tool, for arguments and results.
    tool: str | None
    # The file that the call reads or writes, for arguments that name one.
    file: str | None
    # Line at which the call reads that file (1-based), for arguments that name one.
    line: int | None
    # Whether it is the result of a failed or denied call.
    failed: bool
    # Title of the session.
    session_title: str | None
    # Working directory of the root.
    project: str | None
    # Context of the first matched word, in one line.
    snippet: str
    # The same context with its line breaks and indentation.
    excerpt: str
    # Path of its file; `inbox/` and a number for ingested input.
    path: str
    # Byte offset of its JSON in the file.
    offset: int
    # Length of its JSON in bytes.
    bytes: int


class Hits(TypedDict):
    """Search results: `search --json`, `GET /api/v1/search`."""

    # Always [`HITS_SCHEMA`].
    schema: str
    # The newest first.
    hits: list[SearchHit]
    # Number of all passages that match, also those beyond the limit.
    total: int
    # Whether `total` and `facets` stopped counting: there are more.
    total_floor: bool
    # What the hits can be filtered by.
    facets: Facets
    # Whether the full text is still being read, so that there may be more.
    is_indexing: bool
    # Other machines of the user of which not all texts are here: there may be more.
    unsearched: NotRequired[list[str]]

# How a hub runs.
HubMode = Literal["foreground", "background", "command"]


class Forwarding(TypedDict):
    """State of forwarding spans to a receiver of OpenTelemetry."""

    # Address of the receiver.
    to: str
    # Number of spans that it accepted since the start.
    spans: int
    # Number of spans that it refused since the start: they are not sent again.
    refused: int
    # Number of requests that wait for it.
    waiting: int
    # Size of these requests.
    waiting_bytes: int
    # Why the last attempt failed; `None` if it did not.
    error: str | None


class ReadingProgress(TypedDict):
    """How far a hub has read the sessions that were there when it started, or in folders that a client names."""

    # Number of sessions whose rows are stored.
    read: int
    # Number of sessions that are new or have grown, those read included; 0 until it is known.
    total: int


class Health(TypedDict):
    """Health of a hub: `GET /healthz`."""

    # Always `ok`: an unhealthy hub does not answer.
    status: str
    # Last sequence number of the change log.
    seq: int
    # Number of sessions read or ingested since the start.
    sessions: int
    # Whether the initial scan of files is running: answers may be incomplete.
    is_reading: bool
    # How far that is; `None` if everything is read.
    reading: NotRequired[ReadingProgress]
    # Program version, `major.minor.patch`; empty from hubs that do not report it.
    version: str
    # Newest supported protocol version; 0 from hubs that do not report it.
    protocol: int
    # Oldest supported protocol version.
    oldest_protocol: int
    # Process id.
    pid: int
    # How it runs.
    mode: HubMode
    # URL of its HTTP server.
    url: str
    # Forwarding of spans; `None` without `serve --otlp-to`.
    forwarding: NotRequired[Forwarding]
    # Other machines whose sessions this hub shows (`[[remote]]`).
    remotes: NotRequired[list[RemoteMachine]]
    # Newest problems of input from which no session could be read, since the start.
    problems: NotRequired[list[Problem]]

# How a request to stop reaches an agent.
StopChannel = Literal["hook", "publisher"]


class Ordered(TypedDict):
    """Response to a stop request for a subagent: `POST /api/v1/agents/{id}/stop`."""

    # Always [`ORDERED_SCHEMA`].
    schema: str
    # The session.
    session_id: str
    # The agent.
    agent_id: str
    # Display name of the agent.
    title: str
    # Whether a stop was requested before.
    repeat: bool
    # Whether delivery is certain; it is not while no hook of the session has named an agent.
    reached: bool
    # How the request reaches the agent.
    told_by: StopChannel


class InboxEntry(TypedDict):
    """A session that needs a person."""

    # The session; its `need` has the agents and the reasons.
    session: SessionRow
    # What identifies the need: the facts that a dismissal names.
    facts: list[str]


class Inbox(TypedDict):
    """What needs the user, and what ended since the user last looked."""

    # Always [`INBOX_SCHEMA`].
    schema: str
    # Number of sessions that wait for the user.
    waits: int
    # Number of sessions in trouble.
    trouble: int
    # Number of sessions that may wait for the user.
    perhaps: int
    # The sessions that need the user and were not dismissed, the most urgent first.
    entries: list[InboxEntry]
    # Until when the user has seen what ended; `None` if that is not kept, and nothing is listed as ended then.
    seen_until_ms: int | None
    # Number of sessions that finished since then.
    finished: int
    # Number of sessions that failed since then.
    failed: int
    # Number of sessions that were stopped since then.
    stopped: int
    # Number of sessions that were lost since then, and ask for nobody.
    lost: int
    # The sessions that ended since then, the newest first; the first 200.
    ended: list[SessionRow]
    # Cost of all sessions with an event since then; `None` if no price is known.
    cost_micro_usd: int | None
    # Whether the cost is a lower bound.
    cost_floor: bool
    # Time of this answer.
    at_ms: int

# What came of a request to go to a terminal.
JumpOutcome = Literal["went", "detached", "unreachable", "not_running"]


class Jumped(TypedDict):
    """What came of a request to go to the terminal of a session: `POST /api/v1/sessions/{id}/jump`."""

    # Always [`JUMPED_SCHEMA`].
    schema: str
    # The session.
    session_id: str
    # What came of it.
    outcome: JumpOutcome
    # Number of the session's process; `None` if none was found.
    process: int | None
    # Program that has the terminal, as it calls itself: `tmux`, `kitty`, `WezTerm`; `None` if it is not known.
    terminal: str | None
    # The place in it: `work:1.0` in tmux; elsewhere the terminal's device; `None` if it is not known.
    place: str | None
    # A command for a shell that leads there, or resumes the session; `None` if there is none.
    command: str | None
    # All that in one sentence.
    says: str


class PermissionRequest(TypedDict):
    """One request of an agent to make one tool call, or the questions that the call asks."""

    # Id of the request, by which it is answered.
    id: str
    # The agent's session.
    session_id: str
    # The agent.
    agent_id: str
    # Name of the tool in the harness.
    tool: str
    # All arguments of the call: JSON, as the harness sent it.
    arguments: str
    # The questions that the call asks, in order; empty for a call that is allowed or denied as it is.
    questions: NotRequired[list[AgentQuestion]]
    # Working folder of the agent, if the harness names it.
    cwd: str | None
    # When the hub received the request, in milliseconds since 1970.
    asked_at_ms: int
    # Until when it can be answered, in milliseconds since 1970.
    until_ms: int


class PermissionRequests(TypedDict):
    """The permission requests that wait for an answer: `GET /api/v1/permissions`."""

    # Always [`PERMISSIONS_SCHEMA`].
    schema: str
    # Whether the hub takes answers: the setting `answers.enabled`.
    enabled: bool
    # The requests, the oldest first.
    requests: list[PermissionRequest]

# What is done with a call; the harness's own words.
PermissionBehavior = Literal["allow", "deny"]


class AgentQuestion(TypedDict):
    """A question of an agent to its user."""

    # The whole question.
    question: str
    # Its title in a few words, if it has one.
    header: NotRequired[str]
    # What the agent offers as answers, in order.
    options: list[QuestionOption]
    # Whether an answer may name several options.
    multi_select: bool


class QuestionOption(TypedDict):
    """One of the answers that an agent offers."""

    # The answer's text.
    label: str
    # What it means, if the agent says so.
    description: NotRequired[str]


class PermissionDecision(TypedDict):
    """A person's answer to one permission request."""

    # The decision.
    behavior: PermissionBehavior
    # Reason of a refusal, which the agent reads; an allowed call has none.
    reason: NotRequired[str]
    # An answer to each question of the request, in their order: an option's label, several joined by `, `, or any other text.
    answers: NotRequired[list[str]]


class PermissionAnswered(TypedDict):
    """An answer that the agent's hook has received: `POST /api/v1/permissions/{id}/answer`."""

    # Always [`PERMISSION_ANSWERED_SCHEMA`].
    schema: str
    # Id of the request.
    id: str
    # The agent's session.
    session_id: str
    # The agent.
    agent_id: str
    # Name of the tool in the harness.
    tool: str
    # The decision.
    behavior: PermissionBehavior
    # The answers to the request's questions, as they were given.
    answers: NotRequired[list[str]]


class Side(TypedDict):
    """One of the compared sessions."""

    # The session.
    session: Session
    # The agent that is compared with all below it; `None` if the whole session is.
    agent_id: NotRequired[str]
    # Status of that agent, or of the root; `None` if there is none.
    status: AgentStatus | None
    # Its statistics.
    summary: Summary

# Why two agents are paired.
Likeness = Literal["root", "task", "type"]


class ComparedAgent(TypedDict):
    """An agent of a comparison, without its descendants."""

    id: str
    # Display name.
    title: str
    type: str | None
    description: str | None
    model: str | None
    status: AgentStatus
    error: str | None
    started_at_ms: int | None
    ended_at_ms: int | None
    wall_ms: int | None
    tool_calls: int
    tool_errors: int
    tools_denied: int
    usage: Usage | None
    cost_micro_usd: int | None
    cost_floor: bool


class AgentPair(TypedDict):
    """A pair of agents, one of each session; at least one is present."""

    # Why they are paired; `None` if there is only one.
    likeness: Likeness | None
    # 0 for roots, 1 for their subagents and for orphans.
    depth: int
    # The first session's.
    a: ComparedAgent | None
    # The second session's.
    b: ComparedAgent | None


class Calls(TypedDict):
    """Numbers of calls."""

    # All calls, regardless of their outcome.
    calls: int
    # Failed calls.
    errors: int
    # Denied calls.
    denied: int


class ToolPair(TypedDict):
    """Calls of one tool, by all agents of each session."""

    # Name of the tool in the harness.
    name: str
    # In the first session.
    a: Calls
    # In the second session.
    b: Calls


class Comparison(TypedDict):
    """A comparison of two sessions."""

    # Always [`DIFF_SCHEMA`].
    schema: str
    # The first session.
    a: Side
    # The second session.
    b: Side
    # All agents of both, in the first's pre-order; those only in the second follow their siblings.
    agents: list[AgentPair]
    # All tools of both, the most called first.
    tools: list[ToolPair]

# Status of an iteration.
IterationStatus = Literal["running", "completed", "failed", "cut"]


class IterationMeta(TypedDict):
    """Metadata of an iteration: `meta.json`."""

    # Always [`ITERATION_SCHEMA`].
    schema: str
    # Run id.
    run: str
    # Number from 1.
    iteration: int
    # Number of iterations of the run, if limited.
    of: int | None
    # Name given by the user, else that of the command.
    name: str
    # Command line.
    command: list[str]
    # Working folder.
    cwd: str
    # Session id, once known.
    session_id: str | None
    # Status.
    status: IterationStatus
    # Exit code after the end; 128 + signal number after a signal.
    exit_code: int | None
    # Start time.
    started_at_ms: int
    # End time.
    ended_at_ms: int | None
    # Recording process.
    pid: int


class Iteration(IterationMeta):
    """A recorded iteration in a list."""

    # Folder of the record.
    folder: str
    # Number of subagents; `None` if its trace cannot be read.
    agents: int | None
    # Number of failed subagents.
    failed: int | None
    # From start to end; of one that was cut, to the last change of its trace.
    duration_ms: int | None


class Iterations(TypedDict):
    """A list of iterations: `ls --iterations --json`, `GET /api/v1/iterations`."""

    # Always [`ITERATIONS_SCHEMA`].
    schema: str
    # The newest first.
    iterations: list[Iteration]

# Kind of a published event.
PublishedEventKind = Literal["subagent_start", "subagent_end", "tool_call", "tool_result", "thought_trace"]


class PublishedTokenUsage(TypedDict):
    """Tokens of a model response, as published."""

    # Uncached input tokens.
    inputTokens: NotRequired[int]
    # Output tokens.
    outputTokens: NotRequired[int]
    # Total, if the agent reports one.
    totalTokens: NotRequired[int]
    # Tokens read from the cache.
    cacheReadTokens: NotRequired[int]
    # Tokens written to the cache.
    cacheWriteTokens: NotRequired[int]


class PublishedFields(TypedDict):
    """What a published event may have besides its required fields."""

    # Name of the tool.
    toolName: NotRequired[str]
    # Id that joins a tool call and its result.
    toolCallId: NotRequired[str]
    # Prompt, arguments, result, thought or error: text, or JSON in compact form.
    payload: NotRequired[str]
    # Result of the subagent, in its end event.
    result: NotRequired[str]
    # Id of the tool call that started the subagent, among the calls of its parent.
    parentToolCallId: NotRequired[str]
    # Time limit of the tool.
    executionTimeoutSeconds: NotRequired[int]
    # `encrypted` if the reasoning text is not available.
    reasoningType: NotRequired[str]
    # Token usage of the model response that caused this event.
    tokenUsage: NotRequired[PublishedTokenUsage]
    # Run id of the parent subagent; `None` below the root.
    parentRunId: NotRequired[str]
    # Depth of the subagent: 1 below the root.
    depth: NotRequired[int]
    # Id of the session that the run belongs to.
    sessionId: NotRequired[str]
    # Working directory of the publisher, which assigns the session to a project.
    cwd: NotRequired[str]
    # `stopped` if the run ended neither in success nor in failure.
    status: NotRequired[str]
    # Whether the tool failed.
    isError: NotRequired[bool]
    # Unique id of the event: an event posted again under the same id counts once.
    eventId: NotRequired[str]


class PublishedEvent(PublishedFields):
    """An event that a program publishes about its own subagent."""

    # The subagent's name; need not be unique.
    subagentName: str
    # Id of the subagent's run, unique from start to end.
    subagentRunId: str
    # Time in milliseconds since 1970; RFC 3339 on the wire.
    timestamp: int | str
    # Kind of the event.
    type: PublishedEventKind
