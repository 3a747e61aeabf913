// Made by `cargo xtask types` from crates/model: edit that.

/** Evidence for an actor. */
export type Basis = "unknown" | "stack" | "sole" | "link" | "wire";

/** Tokens of one or more API responses; each response counts once. */
export interface Usage {
  /** Fresh input tokens (neither read from nor written to a cache). */
  input_tokens: number;
  /** Generated tokens, thinking included. */
  output_tokens: number;
  /** Input tokens read from the prompt cache. */
  cache_read_tokens: number;
  /** Input tokens written to the prompt cache. */
  cache_write_tokens: number;
  /** Sum of the four counts, and of tokens whose kind nothing tells; not the size of the context, which harnesses report as their total. */
  total_tokens: number;
  /** Whether a count is a lower bound: for some response only preliminary counts, or only their total, are known. */
  floor: boolean;
}

/** Something in foreign input that could not be decoded. */
export interface Problem {
  /** Location: `file:line` (1-based). */
  at: string;
  /** What was wrong, and how it was handled; a lower-case fragment without a full stop. */
  what: string;
}

/** How urgently a session needs a person, the most urgent first. */
export type Attention = "waiting" | "trouble" | "live" | "ended";

/** How certain it is that a session needs a person, and how urgent; the most urgent first. */
export type NeedGroup = "waits" | "trouble" | "perhaps";

/** Why an agent needs a person. */
export type NeedReason = "permission" | "question" | "plan" | "stalled" | "lost" | "failing" | "failed" | "may_wait";

/** An agent that needs a person. */
export interface AgentNeed {
  /** The agent. */
  agent_id: string;
  /** Its display name. */
  title: string;
  /** The group of its reason. */
  group: NeedGroup;
  /** Why it needs a person. */
  reason: NeedReason;
  /** The same as a predicate of the title: `waits for your permission: Bash`. */
  words: string;
  /** Since when: the begin of the wait, the last sign of a silent agent, the first of the failed calls, the end. */
  since_ms: number | null;
}

/** What a session needs of a person: one entry of the inbox, with its agents below it. */
export interface SessionNeed {
  /** The most urgent group of its agents. */
  group: NeedGroup;
  /** The agents of that group as a sentence: `Explore: Map the cart is stalled`, `40 agents are stalled`. */
  words: string;
  /** Number of agents that wait for a person. */
  waits: number;
  /** Number of agents in trouble. */
  trouble: number;
  /** Number of agents that may wait for a person. */
  perhaps: number;
  /** The agents, the most urgent group first, then the one that needs a person for the longest; the first hundred. */
  agents: AgentNeed[];
}

/** A conversation of a harness. */
export interface Session {
  /** The harness's own id. */
  id: string;
  /** The harness, by its name; `None` for events published by unknown programs. */
  harness: string | null;
  /** The harness's version, if any source has it. */
  harness_version: string | null;
  /** The working directory of the root. */
  cwd: string | null;
  /** The folder of its project, if `cwd` is in a linked work tree (`git worktree`): that of the main work tree. */
  project?: string;
  /** The first prompt, one line, as a title. */
  title: string | null;
  /** Time of the first event. */
  started_at_ms: number | null;
  /** Time of the last event. */
  ended_at_ms: number | null;
  /** Number of runs: prompts of the user that started one. */
  runs: number;
  /** Start of the latest run; `None` if it is the first, or unknown. */
  run_started_at_ms?: number;
  /** The other machine that it runs on, by its name in the settings (`[[remote]]`); `None` for this machine. */
  machine?: string;
  /** Time at which that machine was last heard, by the clock of this one; `None` while it is connected. */
  last_heard_ms?: number;
  /** Revision, increased with each stored change: of two versions of this row the higher one is current. */
  rev?: number;
}

/** Status of an agent. */
export type AgentStatus = "pending" | "running" | "completed" | "failed" | "stopped" | "lost";

/** Activity of a running agent, or what it waits for. */
export type LivenessKind = "model" | "tool" | "permission" | "question" | "plan" | "children" | "retry" | "idle";

/** Activity of a running agent, or what it waits for, and since when. */
export interface Liveness {
  /** Kind of activity or wait. */
  kind: LivenessKind;
  /** The tool's name or the error's text, by `kind`. */
  name: string | null;
  /** Number of running children, or of the attempt, by `kind`. */
  count: number | null;
  /** Maximum number of attempts, for a retry. */
  limit?: number;
  /** Start time, if a source has it. */
  since_ms: number | null;
  /** Whether it is inferred from silence and not reported by a source; frontends mark it `~`. */
  inferred: boolean;
}

/** A flag in addition to the status. */
export type Flag = "stopping" | "stalled" | "looping" | "failing" | "colliding" | "orphan" | "warmup" | "copied" | "handoff" | "inferred" | "unheard";

/** Status of a tool call. */
export type ToolStatus = "ok" | "error" | "open" | "denied";

/** A tool call. */
export interface ToolCall {
  /** The harness's id; `None` if the source has none. */
  id: string | null;
  /** Name of the tool in the harness. */
  name: string;
  /** Status. */
  status: ToolStatus;
  /** Evidence for its agent. */
  basis: Basis;
  /** Start time. */
  started_at_ms: number | null;
  /** End time. */
  ended_at_ms: number | null;
  /** Its duration, where a source has that without both times. */
  duration_ms?: number;
  /** Short description of its target: a file's base name, a pattern, the first 40 characters of a command. */
  detail: string | null;
  /** The files that it writes, as its arguments name them. */
  writes?: string[];
}

/** Totals of an agent and its descendants. */
export interface Subtree {
  /** Number of agents, including the agent itself. */
  agents: number;
  /** Number of tool calls. */
  tool_calls: number;
  /** Tokens; `None` if all are unknown. */
  usage: Usage | null;
  /** Cost as far as known; `None` if all is unknown. */
  cost_micro_usd: number | null;
  /** Whether the cost is a lower bound. */
  cost_floor: boolean;
  /** Length of the union of all their intervals. */
  wall_ms: number | null;
  /** Sum of their intervals. */
  agent_ms: number | null;
}

/** The root of a session, or a subagent. */
export interface Agent {
  /** `root`, or the harness's id of the subagent. */
  id: string;
  /** The id as actor of events. */
  actor_id: string;
  /** The agent that started it; `None` for the root and if unknown. */
  parent_id: string | null;
  /** The tool call that started it. */
  spawned_by: string | null;
  /** 0 for the root, 1 for its subagents and for orphans. */
  depth: number;
  /** The harness's agent type (`Explore`). */
  type: string | null;
  /** Name given by its parent. */
  name: string | null;
  /** Short description of its task. */
  description: string | null;
  /** The model of its latest response. */
  model: string | null;
  /** Whether its parent continues without waiting for it. */
  background: boolean;
  /** Status. */
  status: AgentStatus;
  /** Evidence for `status`, for people (`task notification`, `silent for 15m`). */
  evidence: string | null;
  /** Current activity; `None` unless it runs. */
  liveness: Liveness | null;
  /** Flags, in a fixed order. */
  flags: Flag[];
  /** Time of its first own line. */
  started_at_ms: number | null;
  /** Time of its last own line, else of its end; `None` while it runs. */
  ended_at_ms: number | null;
  /** Time of its last event. */
  last_event_at_ms: number | null;
  /** Its intervals of activity in order; an open one ends at the last event. */
  intervals: [number, number][];
  /** Length of the union of its intervals. */
  wall_ms: number | null;
  /** Number of calls, regardless of their outcome. */
  tool_calls: number;
  /** Number of calls that failed or were interrupted. */
  tool_errors: number;
  /** Number of denied calls; not counted as errors. */
  tools_denied: number;
  /** Number of calls that have not ended. */
  open_tools: number;
  /** Its calls, ordered by start. */
  tools: ToolCall[];
  /** Number of distinct API responses. */
  messages: number;
  /** Its own tokens; `None` if no response was seen. */
  usage: Usage | null;
  /** Its own cost; `None` if usage or a model's price is unknown. */
  cost_micro_usd: number | null;
  /** Whether its own cost is a lower bound. */
  cost_floor: boolean;
  /** The task it was given. */
  prompt: string | null;
  /** Its final report. */
  result: string | null;
  /** Why it failed. */
  error: string | null;
  /** Totals of the agent and its descendants. */
  subtree: Subtree;
  /** Revision, as the session's `rev`. */
  rev?: number;
}

/** A unit in which a vendor bills. */
export type VendorUnit = "premium_requests" | "ai_units";

/** A cost in a unit of a vendor, which has no price in dollars of its own. */
export interface VendorCost {
  /** The unit. */
  unit: VendorUnit;
  /** Millionths of the unit. */
  amount_micro: number;
}

/** Statistics over the whole session. */
export interface Summary {
  /** Subagents. */
  agents: number;
  /** Subagents requested but not yet seen at work. */
  pending: number;
  /** Subagents at work. */
  running: number;
  /** Subagents that ended with success. */
  completed: number;
  /** Subagents that failed. */
  failed: number;
  /** Subagents stopped on request. */
  stopped: number;
  /** Lost subagents. */
  lost: number;
  /** The greatest depth; 0 without subagents. */
  max_depth: number;
  /** Tool calls of all agents, the root's included. */
  tool_calls: number;
  /** Tool errors of all agents. */
  tool_errors: number;
  /** Denied calls of all agents. */
  tools_denied: number;
  /** Permissions that the harness asked a person for; `None` where no source reports them. */
  permissions_asked: number | null;
  /** The session's own total if a source has it and it covers the agents' sum, else that sum. */
  usage: Usage | null;
  /** The session's own total minus the agents' sum; `None` without such a total. */
  unattributed_usage: Usage | null;
  /** The session's own cost if a source has it, else the agents' sum. */
  cost_micro_usd: number | null;
  /** Whether the cost is a lower bound. */
  cost_floor: boolean;
  /** What the session has cost in units of the harness's vendor, as the harness says: by unit. */
  vendor_costs?: VendorCost[];
  /** Length of the union of all intervals, including the root's. */
  wall_ms: number | null;
  /** Sum of the subagents' intervals. */
  agent_ms: number | null;
  /** Subagents by type; `unknown` for those without one. */
  by_type: Record<string, number>;
  /** How urgently the session needs a person. */
  attention: Attention;
  /** What it needs of a person; `None` if nothing. */
  need?: SessionNeed;
}

/** A session with all its agents. */
export interface Tree {
  /** Always [`TREE_SCHEMA`]. */
  schema: string;
  /** The session. */
  session: Session;
  /** All agents in pre-order, the root first, siblings by start; orphans after the root's children. */
  agents: Agent[];
  /** Statistics over the whole session. */
  summary: Summary;
  /** Problems, ordered by location. */
  problems: Problem[];
}

/** What an event is about. */
export type EventKind =
  | "session.start"
  | "session.end"
  | "run.start"
  | "run.end"
  | "user.prompt"
  | "tool.pre"
  | "tool.post"
  | "tool.failure"
  | "permission.request"
  | "permission.denied"
  | "subagent.start"
  | "subagent.progress"
  | "subagent.stop"
  | "agent.message"
  | "reasoning"
  | "usage"
  | "stall"
  | "budget"
  | "heartbeat"
  | "retry"
  | "notification"
  | "compact.pre"
  | "compact.post"
  | "todo.created"
  | "todo.completed"
  | "unknown.hook"
  | "attribution"
  | "agent.renamed"
  | "problem";

/** An event of a session, as sent to every frontend. */
export interface Event {
  /** Always `subscope.event/1`. */
  schema: string;
  /** Id of the event: equal from every source and after every rebuild. */
  id: string;
  /** Position in one log or file (1-based); not part of the identity. */
  seq: number;
  /** Time of the event; `None` if unknown. */
  at_ms: number | null;
  /** The session it belongs to. */
  session_id: string;
  /** The run it belongs to (1-based); 0 before the first. */
  run: number;
  /** The actor. */
  actor_id: string;
  /** Evidence for the actor. */
  basis: Basis;
  /** Dialect of its source. */
  source: string;
  /** The kind. */
  kind: EventKind;
  /** Details by kind; an object. */
  data: Record<string, unknown>;
}

/** Changed rows of a session. */
export interface Change {
  /** Always [`Change::SCHEMA`]. */
  schema: string;
  /** Position of the last event before it. */
  seq: number;
  /** The session's current row. */
  sessions: [Session];
  /** New, changed or moved agents, in the order of the tree. */
  agents: Agent[];
  /** Agents that no longer exist (merged into another, or refuted). */
  removed: string[];
  /** Index of each of `agents` in the tree, so that readers keep its order without sorting. */
  places?: number[];
  /** Current statistics of the session, so that readers need not request the tree. */
  summary?: Summary;
}

/** Data of `missed`. */
export interface MissedData {
  schema: string;
  /** Number of dropped events. */
  count: number;
  /** Position of the last event before them. */
  after: number;
}

/** Configuration of a hub: `GET /api/v1/setup`. */
export interface Setup {
  /** Always [`SETUP_SCHEMA`]. */
  schema: string;
  /** Folders that are watched for sessions. */
  folders: string[];
  /** Whether the user's settings of the harness have hooks of subscope; `None` if the settings cannot be read. */
  hooks: boolean | null;
  /** Command that resumes a session, by harness; the session's id follows. */
  resume: Record<string, string>;
  /** The zone whose days are counted, as in [`crate::Stats::time_zone`]. */
  time_zone: string;
  /** Budget of all sessions of a day together; `None` without one. */
  budget_day_micro_usd: number | null;
  /** Budget of each session; `None` without one. */
  budget_session_micro_usd: number | null;
  /** The recorded session of the demo, which is in no list; `None` if there is none. */
  demo: string | null;
  /** URL that opens a file in an editor, with `{path}` and maybe `{line}`; `None` if files are not opened. */
  editor: string | null;
  /** URL of the team's server that the settings name; `None` if they name none. */
  team: string | null;
}

/** How much of a session's content leaves its machine. */
export type ContentLevel = "figures" | "titles" | "text";

/** State of the connection to another machine: `remote list --json`, `GET /healthz`. */
export interface RemoteMachine {
  /** Its name in the settings. */
  name: string;
  /** Whether it is connected. */
  is_connected: boolean;
  /** Whether all of its sessions have come since it was connected. */
  is_caught_up: boolean;
  /** When it was last heard, by the clock of this machine; `None` if it was not since the hub started. */
  last_heard_ms: number | null;
  /** Version of subscope there, as the next two known since it was connected. */
  version: string | null;
  /** Name of the host. */
  host: string | null;
  /** Number of sessions in its store when it was connected. */
  sessions: number | null;
  /** How far its clock is ahead of this machine's; measured at half of the round trip. */
  clock_offset_ms: number | null;
  /** Time of the round trip of that measurement. */
  round_trip_ms: number | null;
  /** Number of its sessions whose texts are not here, or older than their rows: a search may lack hits in them. */
  unsearched: number | null;
  /** Why it is not connected. */
  error: string | null;
}

/** What this machine sends to its team's server: `GET /api/v1/sending`. */
export interface Sending {
  /** Always [`SENDING_SCHEMA`]. */
  schema: string;
  /** URL of the server that the settings name; `None` if they name none. */
  url: string | null;
  /** Whether the settings let a hub send to it. */
  is_on: boolean;
  /** Name of the machine. */
  machine: string;
  /** Level of content that is sent. */
  level: ContentLevel;
  /** Whether the organization of this machine set the level as the highest one. */
  is_level_locked: boolean;
  /** Folders whose sessions never leave, as the settings have them. */
  exclude: string[];
  /** Whether a process sends now. */
  is_forwarding: boolean;
  /** Number of sessions that the server has. */
  sent: number;
  /** Number of sessions that are newer here, or that it does not have. */
  behind: number;
  /** Number of sessions that it has with more content than the level allows: they are replaced. */
  above_level: number;
  /** When this hub last sent a session; `None` if it sent none. */
  last_sent_at_ms: number | null;
  /** Why sessions cannot be sent now; `None` if the last attempt did not fail. */
  error: string | null;
  /** Level of the example. */
  example_level: ContentLevel;
  /** The newest session that may leave, as the line of JSON that leaves (`subscope.team/1`); `None` if there is none. */
  example: string | null;
}

/** What one agent spent in one span. */
export interface SpendingSpan {
  /** Start of the span. */
  at_ms: number;
  /** The agent. */
  agent_id: string;
  /** Tokens of all kinds. */
  total_tokens: number;
  /** Known cost. */
  cost_micro_usd: number;
}

/** Tokens and cost of a session by span of time and agent. */
export interface Spending {
  /** Always [`SPENDING_SCHEMA`]. */
  schema: string;
  /** Length of a span. */
  span_ms: number;
  /** What was spent, by start of the span; within a span in the order of the tree. */
  spans: SpendingSpan[];
}

/** Whether a session is at work. */
export type SessionStatus = "live" | "ended";

/** One row of a session list. */
export interface SessionRow {
  /** The harness's own id. */
  id: string;
  /** The harness. */
  harness: string | null;
  /** The working directory of the root. */
  cwd: string | null;
  /** The first prompt, one line; of a session without one, what its main agent is called, else its first subagent. */
  title: string | null;
  /** Whether it is at work. */
  status: SessionStatus;
  /** How urgently it needs a person. */
  attention: Attention;
  /** What it needs of a person; `None` if nothing. */
  need?: SessionNeed;
  /** Time of the first event. */
  started_at_ms: number | null;
  /** Time of the last event. */
  last_event_at_ms: number | null;
  /** Number of runs: prompts of the user that started one. */
  runs: number;
  /** Number of subagents. */
  agents: number;
  /** Number of subagents that have not ended. */
  running: number;
  /** Number of failed subagents. */
  failed: number;
  /** Number of tool calls, including the root's. */
  tool_calls: number;
  /** Number of them that failed; `None` in rows stored by older versions, as the next. */
  tool_errors?: number;
  /** Number of them that were denied. */
  tools_denied?: number;
  /** All tokens; `None` if unknown. */
  usage: Usage | null;
  /** Their cost; `None` if no price is known. */
  cost_micro_usd: number | null;
  /** Whether the cost is a lower bound. */
  cost_floor: boolean;
  /** Whether the harness started it for its own purpose (a check, a title): it is billed, and no session of the user. */
  is_own?: boolean;
  /** Status of the root; `None` in rows stored by older versions. */
  root?: AgentStatus;
  /** Time at which the store last saved a change of it (by the store's clock, not by event times); `None` if unknown. */
  kept_at_ms?: number;
  /** What is wrong with what is stored of it, if anything: the row may then be older than the session, or lack figures. */
  problem?: string;
  /** The machine that it ran on: in a team's store, and of the sessions of another machine (`[[remote]]`). */
  machine?: string;
  /** Time at which that other machine was last heard, while it is not connected: what ran then may have ended. */
  last_heard_ms?: number;
  /** Its user; only in a team's store, as the next. */
  user?: string;
  /** The user's team. */
  team?: string;
  /** Its project: in a team's store its name; else the folder of the project, if `cwd` is in a linked work tree, as [`crate::Session::project`]. */
  project?: string;
}

/** Statistics of one group: an agent type, a tool, a model, a day. */
export interface StatsRow {
  /** Name of the group. */
  name: string;
  /** Number of sessions in which it occurs. */
  sessions: number;
  /** Number of subagents: the main agent of a session is counted as the session. */
  agents: number;
  /** Number of tool calls. */
  tool_calls: number;
  /** Number of failed tool calls. */
  tool_errors: number;
  /** Number of denied tool calls. */
  tools_denied: number;
  /** Active time of the agents, or of the tool's calls. */
  busy_ms: number;
  /** Tokens; 0 for tools. */
  usage: Usage;
  /** Their cost, as far as prices are known. */
  cost_micro_usd: number;
  /** Whether the cost is a lower bound: an agent with tokens has no known cost, or one that is a lower bound. */
  cost_floor: boolean;
}

/** What the rows of statistics are grouped by. */
export type StatsGroup = "type" | "model" | "project" | "harness";

/** Statistics of one group on one day. */
export interface DayGroup {
  /** The day (`2026-11-22`). */
  day: string;
  /** What the group is: a type of agent, a model, a project or a harness. */
  by: StatsGroup;
  /** Its figures on that day. */
  row: StatsRow;
}

/** A tool call that took long. */
export interface SlowCall {
  /** Its session. */
  session_id: string;
  /** Title of the session. */
  session_title: string | null;
  /** Its agent. */
  agent_id: string;
  /** Display name of the agent. */
  agent: string;
  /** The tool. */
  tool: string;
  /** Short description of its target, as in the tree. */
  detail: string | null;
  /** How it ended. */
  status: ToolStatus;
  /** Start time. */
  started_at_ms: number;
  /** From start to end. */
  duration_ms: number;
}

/** A session, or an agent of one, in a list of those with the greatest figures. */
export interface TopRow {
  /** The session. */
  session_id: string;
  /** Title of the session. */
  session_title: string | null;
  /** The agent; `None` for a whole session. */
  agent_id?: string;
  /** Start of the agent; `None` for a session, and if it is unknown. */
  started_at_ms?: number;
  /** Figures: of a session those of the days that are covered, of an agent all of its own. */
  row: StatsRow;
}

/** A span of time, with the greatest numbers at work in it. */
export interface ConcurrencySpan {
  /** Its start. */
  at_ms: number;
  /** The greatest number of agents, roots included, that were at work at the same moment of it. */
  agents: number;
  /** The greatest number of sessions with an agent at work at the same moment of it. */
  sessions: number;
}

/** How many agents were at work at the same time, by spans of equal length. */
export interface Concurrency {
  /** Length of a span. */
  span_ms: number;
  /** Spans in which an agent was at work, in order of time. */
  spans: ConcurrencySpan[];
}

/** Statistics over all stored sessions, or over those that a query selects. */
export interface Stats {
  /** Always [`STATS_SCHEMA`]. */
  schema: string;
  /** The zone whose days are counted: `Europe/Berlin`, `UTC`; `local` if it has no name. */
  time_zone: string;
  /** Totals. */
  total: StatsRow;
  /** By type of agent, `main` for roots; most tokens first. */
  by_type: StatsRow[];
  /** By tool; most calls first. */
  by_tool: StatsRow[];
  /** By model; most tokens first. */
  by_model: StatsRow[];
  /** By day of `time_zone` (`2026-11-22`), newest first. */
  by_day: StatsRow[];
  /** By working directory of the root; most tokens first. */
  by_project: StatsRow[];
  /** By harness; most tokens first. */
  by_harness: StatsRow[];
  /** By day and group, for charts: days in order of time, then groups, then names. */
  days: DayGroup[];
  /** The slowest calls, the slowest first; at most 20, and at most 5 of a session. */
  slowest: SlowCall[];
  /** The sessions with the greatest cost, tokens, active time and numbers of failed and denied calls, 10 by each; the dearest first. */
  top_sessions: TopRow[];
  /** The subagents likewise, at most 5 of a session by each; an agent counts on the day on which it started. */
  top_agents: TopRow[];
  /** How many agents were at work at the same time. */
  concurrency: Concurrency;
  /** Names of the fields that this store cannot answer: they are empty for that reason. */
  without?: string[];
  /** What is wrong with stored rows, if anything, and which sessions the figures lack for that reason. */
  problems?: Problem[];
}

/** A page of sessions: `ls --json`, `GET /api/v1/sessions`. */
export interface SessionPage {
  /** Always [`crate::SESSIONS_SCHEMA`]. */
  schema: string;
  /** In the order that was asked for: the newest first, if none was. */
  sessions: SessionRow[];
  /** Cursor of the next page; `None` on the last one. */
  next: string | null;
}

/** Ids with a prefix, or subagents by words: `GET /api/v1/names`. */
export interface IdMatches {
  /** Always [`NAMES_SCHEMA`]. */
  schema: string;
  /** Sessions, the newest first. */
  sessions: string[];
  /** Subagents, those of the newest sessions first. */
  agents: AgentName[];
}

/** An agent's id with its session's. */
export interface AgentName {
  /** The session. */
  session_id: string;
  /** The agent. */
  agent_id: string;
  /** Type and description; only of an agent that was found by them. */
  title?: string;
}

/** Number of hits with one value, for a filter. */
export interface FacetCount {
  /** The value. */
  name: string;
  /** Number of hits that have it. */
  hits: number;
}

/** Numbers of hits by what they can be filtered by, the most hits first. */
export interface Facets {
  /** By kind of passage. */
  kinds: FacetCount[];
  /** By tool; passages that belong to no call are left out. */
  tools: FacetCount[];
  /** By working directory of the root. */
  projects: FacetCount[];
  /** Results of failed and denied calls. */
  failed: number;
}

/** A found passage. */
export interface SearchHit {
  /** Its session. */
  session_id: string;
  /** The agent of the passage; empty if unknown. */
  agent_id: string;
  /** Display name of that agent: type and description. */
  agent: string;
  /** Kind of passage: `prompt`, `message`, `thought`, `tool input`, `tool result`. */
  kind: string;
  /** Time, to the second. */
  at_ms: number | null;
  /** The tool, for arguments and results. */
  tool: string | null;
  /** The file that the call reads or writes, for arguments that name one. */
  file: string | null;
  /** Line at which the call reads that file (1-based), for arguments that name one. */
  line: number | null;
  /** Whether it is the result of a failed or denied call. */
  failed: boolean;
  /** Title of the session. */
  session_title: string | null;
  /** Working directory of the root. */
  project: string | null;
  /** Context of the first matched word, in one line. */
  snippet: string;
  /** The same context with its line breaks and indentation. */
  excerpt: string;
  /** Path of its file; `inbox/` and a number for ingested input. */
  path: string;
  /** Byte offset of its JSON in the file. */
  offset: number;
  /** Length of its JSON in bytes. */
  bytes: number;
}

/** Search results: `search --json`, `GET /api/v1/search`. */
export interface Hits {
  /** Always [`HITS_SCHEMA`]. */
  schema: string;
  /** The newest first. */
  hits: SearchHit[];
  /** Number of all passages that match, also those beyond the limit. */
  total: number;
  /** Whether `total` and `facets` stopped counting: there are more. */
  total_floor: boolean;
  /** What the hits can be filtered by. */
  facets: Facets;
  /** Whether the full text is still being read, so that there may be more. */
  is_indexing: boolean;
  /** Other machines of the user of which not all texts are here: there may be more. */
  unsearched?: string[];
}

/** How a hub runs. */
export type HubMode = "foreground" | "background" | "command";

/** State of forwarding spans to a receiver of OpenTelemetry. */
export interface Forwarding {
  /** Address of the receiver. */
  to: string;
  /** Number of spans that it accepted since the start. */
  spans: number;
  /** Number of spans that it refused since the start: they are not sent again. */
  refused: number;
  /** Number of requests that wait for it. */
  waiting: number;
  /** Size of these requests. */
  waiting_bytes: number;
  /** Why the last attempt failed; `None` if it did not. */
  error: string | null;
}

/** How far a hub has read the sessions that were there when it started, or in folders that a client names. */
export interface ReadingProgress {
  /** Number of sessions whose rows are stored. */
  read: number;
  /** Number of sessions that are new or have grown, those read included; 0 until it is known. */
  total: number;
}

/** Health of a hub: `GET /healthz`. */
export interface Health {
  /** Always `ok`: an unhealthy hub does not answer. */
  status: string;
  /** Last sequence number of the change log. */
  seq: number;
  /** Number of sessions read or ingested since the start. */
  sessions: number;
  /** Whether the initial scan of files is running: answers may be incomplete. */
  is_reading: boolean;
  /** How far that is; `None` if everything is read. */
  reading?: ReadingProgress;
  /** Program version, `major.minor.patch`; empty from hubs that do not report it. */
  version: string;
  /** Newest supported protocol version; 0 from hubs that do not report it. */
  protocol: number;
  /** Oldest supported protocol version. */
  oldest_protocol: number;
  /** Process id. */
  pid: number;
  /** How it runs. */
  mode: HubMode;
  /** URL of its HTTP server. */
  url: string;
  /** Forwarding of spans; `None` without `serve --otlp-to`. */
  forwarding?: Forwarding;
  /** Other machines whose sessions this hub shows (`[[remote]]`). */
  remotes?: RemoteMachine[];
  /** Newest problems of input from which no session could be read, since the start. */
  problems?: Problem[];
}

/** How a request to stop reaches an agent. */
export type StopChannel = "hook" | "publisher";

/** Response to a stop request for a subagent: `POST /api/v1/agents/{id}/stop`. */
export interface Ordered {
  /** Always [`ORDERED_SCHEMA`]. */
  schema: string;
  /** The session. */
  session_id: string;
  /** The agent. */
  agent_id: string;
  /** Display name of the agent. */
  title: string;
  /** Whether a stop was requested before. */
  repeat: boolean;
  /** Whether delivery is certain; it is not while no hook of the session has named an agent. */
  reached: boolean;
  /** How the request reaches the agent. */
  told_by: StopChannel;
}

/** A session that needs a person. */
export interface InboxEntry {
  /** The session; its `need` has the agents and the reasons. */
  session: SessionRow;
  /** What identifies the need: the facts that a dismissal names. */
  facts: string[];
}

/** What needs the user, and what ended since the user last looked. */
export interface Inbox {
  /** Always [`INBOX_SCHEMA`]. */
  schema: string;
  /** Number of sessions that wait for the user. */
  waits: number;
  /** Number of sessions in trouble. */
  trouble: number;
  /** Number of sessions that may wait for the user. */
  perhaps: number;
  /** The sessions that need the user and were not dismissed, the most urgent first. */
  entries: InboxEntry[];
  /** Until when the user has seen what ended; `None` if that is not kept, and nothing is listed as ended then. */
  seen_until_ms: number | null;
  /** Number of sessions that finished since then. */
  finished: number;
  /** Number of sessions that failed since then. */
  failed: number;
  /** Number of sessions that were stopped since then. */
  stopped: number;
  /** Number of sessions that were lost since then, and ask for nobody. */
  lost: number;
  /** The sessions that ended since then, the newest first; the first 200. */
  ended: SessionRow[];
  /** Cost of all sessions with an event since then; `None` if no price is known. */
  cost_micro_usd: number | null;
  /** Whether the cost is a lower bound. */
  cost_floor: boolean;
  /** Time of this answer. */
  at_ms: number;
}

/** What came of a request to go to a terminal. */
export type JumpOutcome = "went" | "detached" | "unreachable" | "not_running";

/** What came of a request to go to the terminal of a session: `POST /api/v1/sessions/{id}/jump`. */
export interface Jumped {
  /** Always [`JUMPED_SCHEMA`]. */
  schema: string;
  /** The session. */
  session_id: string;
  /** What came of it. */
  outcome: JumpOutcome;
  /** Number of the session's process; `None` if none was found. */
  process: number | null;
  /** Program that has the terminal, as it calls itself: `tmux`, `kitty`, `WezTerm`; `None` if it is not known. */
  terminal: string | null;
  /** The place in it: `work:1.0` in tmux; elsewhere the terminal's device; `None` if it is not known. */
  place: string | null;
  /** A command for a shell that leads there, or resumes the session; `None` if there is none. */
  command: string | null;
  /** All that in one sentence. */
  says: string;
}

/** One request of an agent to make one tool call, or the questions that the call asks. */
export interface PermissionRequest {
  /** Id of the request, by which it is answered. */
  id: string;
  /** The agent's session. */
  session_id: string;
  /** The agent. */
  agent_id: string;
  /** Name of the tool in the harness. */
  tool: string;
  /** All arguments of the call: JSON, as the harness sent it. */
  arguments: string;
  /** The questions that the call asks, in order; empty for a call that is allowed or denied as it is. */
  questions?: AgentQuestion[];
  /** Working folder of the agent, if the harness names it. */
  cwd: string | null;
  /** When the hub received the request, in milliseconds since 1970. */
  asked_at_ms: number;
  /** Until when it can be answered, in milliseconds since 1970. */
  until_ms: number;
}

/** The permission requests that wait for an answer: `GET /api/v1/permissions`. */
export interface PermissionRequests {
  /** Always [`PERMISSIONS_SCHEMA`]. */
  schema: string;
  /** Whether the hub takes answers: the setting `answers.enabled`. */
  enabled: boolean;
  /** The requests, the oldest first. */
  requests: PermissionRequest[];
}

/** What is done with a call; the harness's own words. */
export type PermissionBehavior = "allow" | "deny";

/** A question of an agent to its user. */
export interface AgentQuestion {
  /** The whole question. */
  question: string;
  /** Its title in a few words, if it has one. */
  header?: string;
  /** What the agent offers as answers, in order. */
  options: QuestionOption[];
  /** Whether an answer may name several options. */
  multi_select: boolean;
}

/** One of the answers that an agent offers. */
export interface QuestionOption {
  /** The answer's text. */
  label: string;
  /** What it means, if the agent says so. */
  description?: string;
}

/** A person's answer to one permission request. */
export interface PermissionDecision {
  /** The decision. */
  behavior: PermissionBehavior;
  /** Reason of a refusal, which the agent reads; an allowed call has none. */
  reason?: string;
  /** An answer to each question of the request, in their order: an option's label, several joined by `, `, or any other text. */
  answers?: string[];
}

/** An answer that the agent's hook has received: `POST /api/v1/permissions/{id}/answer`. */
export interface PermissionAnswered {
  /** Always [`PERMISSION_ANSWERED_SCHEMA`]. */
  schema: string;
  /** Id of the request. */
  id: string;
  /** The agent's session. */
  session_id: string;
  /** The agent. */
  agent_id: string;
  /** Name of the tool in the harness. */
  tool: string;
  /** The decision. */
  behavior: PermissionBehavior;
  /** The answers to the request's questions, as they were given. */
  answers?: string[];
}

/** One of the compared sessions. */
export interface Side {
  /** The session. */
  session: Session;
  /** The agent that is compared with all below it; `None` if the whole session is. */
  agent_id?: string;
  /** Status of that agent, or of the root; `None` if there is none. */
  status: AgentStatus | null;
  /** Its statistics. */
  summary: Summary;
}

/** Why two agents are paired. */
export type Likeness = "root" | "task" | "type";

/** An agent of a comparison, without its descendants. */
export interface ComparedAgent {
  id: string;
  /** Display name. */
  title: string;
  type: string | null;
  description: string | null;
  model: string | null;
  status: AgentStatus;
  error: string | null;
  started_at_ms: number | null;
  ended_at_ms: number | null;
  wall_ms: number | null;
  tool_calls: number;
  tool_errors: number;
  tools_denied: number;
  usage: Usage | null;
  cost_micro_usd: number | null;
  cost_floor: boolean;
}

/** A pair of agents, one of each session; at least one is present. */
export interface AgentPair {
  /** Why they are paired; `None` if there is only one. */
  likeness: Likeness | null;
  /** 0 for roots, 1 for their subagents and for orphans. */
  depth: number;
  /** The first session's. */
  a: ComparedAgent | null;
  /** The second session's. */
  b: ComparedAgent | null;
}

/** Numbers of calls. */
export interface Calls {
  /** All calls, regardless of their outcome. */
  calls: number;
  /** Failed calls. */
  errors: number;
  /** Denied calls. */
  denied: number;
}

/** Calls of one tool, by all agents of each session. */
export interface ToolPair {
  /** Name of the tool in the harness. */
  name: string;
  /** In the first session. */
  a: Calls;
  /** In the second session. */
  b: Calls;
}

/** A comparison of two sessions. */
export interface Comparison {
  /** Always [`DIFF_SCHEMA`]. */
  schema: string;
  /** The first session. */
  a: Side;
  /** The second session. */
  b: Side;
  /** All agents of both, in the first's pre-order; those only in the second follow their siblings. */
  agents: AgentPair[];
  /** All tools of both, the most called first. */
  tools: ToolPair[];
}

/** Status of an iteration. */
export type IterationStatus = "running" | "completed" | "failed" | "cut";

/** Metadata of an iteration: `meta.json`. */
export interface IterationMeta {
  /** Always [`ITERATION_SCHEMA`]. */
  schema: string;
  /** Run id. */
  run: string;
  /** Number from 1. */
  iteration: number;
  /** Number of iterations of the run, if limited. */
  of: number | null;
  /** Name given by the user, else that of the command. */
  name: string;
  /** Command line. */
  command: string[];
  /** Working folder. */
  cwd: string;
  /** Session id, once known. */
  session_id: string | null;
  /** Status. */
  status: IterationStatus;
  /** Exit code after the end; 128 + signal number after a signal. */
  exit_code: number | null;
  /** Start time. */
  started_at_ms: number;
  /** End time. */
  ended_at_ms: number | null;
  /** Recording process. */
  pid: number;
}

/** A recorded iteration in a list. */
export interface Iteration extends IterationMeta {
  /** Folder of the record. */
  folder: string;
  /** Number of subagents; `None` if its trace cannot be read. */
  agents: number | null;
  /** Number of failed subagents. */
  failed: number | null;
  /** From start to end; of one that was cut, to the last change of its trace. */
  duration_ms: number | null;
}

/** A list of iterations: `ls --iterations --json`, `GET /api/v1/iterations`. */
export interface Iterations {
  /** Always [`ITERATIONS_SCHEMA`]. */
  schema: string;
  /** The newest first. */
  iterations: Iteration[];
}

/** Kind of a published event. */
export type PublishedEventKind = "subagent_start" | "subagent_end" | "tool_call" | "tool_result" | "thought_trace";

/** Tokens of a model response, as published. */
export interface PublishedTokenUsage {
  /** Uncached input tokens. */
  inputTokens?: number;
  /** Output tokens. */
  outputTokens?: number;
  /** Total, if the agent reports one. */
  totalTokens?: number;
  /** Tokens read from the cache. */
  cacheReadTokens?: number;
  /** Tokens written to the cache. */
  cacheWriteTokens?: number;
}

/** What a published event may have besides its required fields. */
export interface PublishedFields {
  /** Name of the tool. */
  toolName?: string;
  /** Id that joins a tool call and its result. */
  toolCallId?: string;
  /** Prompt, arguments, result, thought or error: text, or JSON in compact form. */
  payload?: string;
  /** Result of the subagent, in its end event. */
  result?: string;
  /** Id of the tool call that started the subagent, among the calls of its parent. */
  parentToolCallId?: string;
  /** Time limit of the tool. */
  executionTimeoutSeconds?: number;
  /** `encrypted` if the reasoning text is not available. */
  reasoningType?: string;
  /** Token usage of the model response that caused this event. */
  tokenUsage?: PublishedTokenUsage;
  /** Run id of the parent subagent; `None` below the root. */
  parentRunId?: string;
  /** Depth of the subagent: 1 below the root. */
  depth?: number;
  /** Id of the session that the run belongs to. */
  sessionId?: string;
  /** Working directory of the publisher, which assigns the session to a project. */
  cwd?: string;
  /** `stopped` if the run ended neither in success nor in failure. */
  status?: string;
  /** Whether the tool failed. */
  isError?: boolean;
  /** Unique id of the event: an event posted again under the same id counts once. */
  eventId?: string;
}

/** An event that a program publishes about its own subagent. */
export interface PublishedEvent extends PublishedFields {
  /** The subagent's name; need not be unique. */
  subagentName: string;
  /** Id of the subagent's run, unique from start to end. */
  subagentRunId: string;
  /** Time in milliseconds since 1970; RFC 3339 on the wire. */
  timestamp: number | string;
  /** Kind of the event. */
  type: PublishedEventKind;
}
