// Made by `cargo xtask types` from crates/model: edit that.

/** How an actor is known. */
export type Basis = "unknown" | "stack" | "sole" | "link" | "wire";

/** Tokens of one or more API responses, each response counted once. */
export interface Usage {
  /** Fresh input tokens (neither read from nor written to a cache). */
  input_tokens: number;
  /** Generated tokens, thinking included. */
  output_tokens: number;
  /** Input tokens read from the prompt cache. */
  cache_read_tokens: number;
  /** Input tokens written to the prompt cache. */
  cache_write_tokens: number;
  /** The sum of the four kinds; not a harness's last-context figure. */
  total_tokens: number;
  /** Whether a number is a lower bound: a response of it is known by a placeholder only. */
  floor: boolean;
}

/** Something in foreign input that could not be understood. */
export interface Problem {
  /** Where: `file:line`, lines counted from 1. */
  at: string;
  /** What was wrong, and what was done about it; a lower-case fragment without a full stop. */
  what: string;
}

/** One conversation of a harness. */
export interface Session {
  /** The harness's own id. */
  id: string;
  /** The harness by its name; `None` for events posted by unknown programs. */
  harness: string | null;
  /** The harness's version, as far as any source names it. */
  harness_version: string | null;
  /** The working directory of the root. */
  cwd: string | null;
  /** The first prompt, one line, as a title. */
  title: string | null;
  /** When the first event happened. */
  started_at_ms: number | null;
  /** When the last event happened. */
  ended_at_ms: number | null;
  /** How many prompts of the user started a run. */
  runs: number;
  /** Grows with each change that was kept: of two tellings of this row the one with the higher counts. */
  rev?: number;
}

/** How an agent stands or ended. */
export type AgentStatus = "pending" | "running" | "completed" | "failed" | "stopped" | "lost";

/** What a running agent is busy with or waits for. */
export type LivenessKind = "model" | "tool" | "permission" | "children" | "retry" | "idle";

/** What a running agent is busy with or waits for, and since when. */
export interface Liveness {
  /** What kind of activity or wait. */
  kind: LivenessKind;
  /** The tool's name or the error's text, by `kind`. */
  name: string | null;
  /** How many children run, or which attempt it is, by `kind`. */
  count: number | null;
  /** How many attempts there will be, for a retry. */
  limit?: number;
  /** Since when, as far as a source with time tells. */
  since_ms: number | null;
  /** Whether this is inferred from silence and not told by a source; faces mark it `~`. */
  inferred: boolean;
}

/** A mark beside the status. */
export type Flag = "stopping" | "stalled" | "looping" | "failing" | "colliding" | "orphan" | "warmup" | "copied";

/** How a tool call stands or ended. */
export type ToolStatus = "ok" | "error" | "open" | "denied";

/** One call of a tool. */
export interface ToolCall {
  /** The harness's id; `None` where the wire has none. */
  id: string | null;
  /** The tool, as the harness names it. */
  name: string;
  /** How it stands or ended. */
  status: ToolStatus;
  /** How its owner is known. */
  basis: Basis;
  /** When it began. */
  started_at_ms: number | null;
  /** When it ended. */
  ended_at_ms: number | null;
  /** What it works on, short: a file's base name, a pattern, the first 40 characters of a command. */
  detail: string | null;
}

/** Figures of an agent and everything below it. */
export interface Subtree {
  /** Agents, the agent itself included. */
  agents: number;
  /** Tool calls. */
  tool_calls: number;
  /** Tokens; `None` where none of them is known. */
  usage: Usage | null;
  /** Cost as far as it is known; `None` where none of it is. */
  cost_micro_usd: number | null;
  /** Whether the cost is a lower bound. */
  cost_floor: boolean;
  /** The union of all their intervals. */
  wall_ms: number | null;
  /** The sum of their intervals. */
  agent_ms: number | null;
}

/** The root of a session, or a subagent. */
export interface Agent {
  /** `root`, or the harness's id of the subagent. */
  id: string;
  /** The id as actor of events. */
  actor_id: string;
  /** Who started it; `None` for the root and where no source tells. */
  parent_id: string | null;
  /** The tool call that started it. */
  spawned_by: string | null;
  /** 0 for the root, 1 for its subagents and for orphans. */
  depth: number;
  /** The harness's type of agent (`Explore`). */
  type: string | null;
  /** The name given to it by who started it. */
  name: string | null;
  /** What it was asked to do, in a few words. */
  description: string | null;
  /** The model of its latest response. */
  model: string | null;
  /** Whether its starter goes on without waiting for it. */
  background: boolean;
  /** How it stands or ended. */
  status: AgentStatus;
  /** What `status` rests on, for people (`task notification`, `silent for 15m`). */
  evidence: string | null;
  /** What it does or waits for; `None` unless it runs. */
  liveness: Liveness | null;
  /** Marks beside the status, in a fixed order. */
  flags: Flag[];
  /** Its first own line. */
  started_at_ms: number | null;
  /** Its last own line, else the time of its ending; `None` while it runs. */
  ended_at_ms: number | null;
  /** When it was last heard of. */
  last_event_at_ms: number | null;
  /** Its stretches of activity in order; the end of one that goes on is when it was last heard of. */
  intervals: [number, number][];
  /** The union of its intervals. */
  wall_ms: number | null;
  /** Calls it made, whatever became of them. */
  tool_calls: number;
  /** Calls that ended in an error, interrupted ones included. */
  tool_errors: number;
  /** Calls that were denied; not counted as errors. */
  tools_denied: number;
  /** Calls without an ending. */
  open_tools: number;
  /** Its calls by start. */
  tools: ToolCall[];
  /** Distinct API responses. */
  messages: number;
  /** Its own tokens; `None` where no response of it was seen. */
  usage: Usage | null;
  /** Its own cost; `None` where a model's price is unknown or usage is. */
  cost_micro_usd: number | null;
  /** Whether its own cost is a lower bound. */
  cost_floor: boolean;
  /** The task it was given. */
  prompt: string | null;
  /** Its final report. */
  result: string | null;
  /** Why it failed. */
  error: string | null;
  /** Figures of the agent and everything below it. */
  subtree: Subtree;
  /** As [`Session::rev`]. */
  rev?: number;
}

/** Figures over the whole session. */
export interface Summary {
  /** Subagents. */
  agents: number;
  /** Subagents asked for but not yet seen at work. */
  pending: number;
  /** Subagents at work. */
  running: number;
  /** Subagents that ended with success. */
  completed: number;
  /** Subagents that ended by an error. */
  failed: number;
  /** Subagents that somebody stopped. */
  stopped: number;
  /** Subagents without an ending. */
  lost: number;
  /** The greatest depth; 0 without subagents. */
  max_depth: number;
  /** Tool calls of all agents, the root's included. */
  tool_calls: number;
  /** Tool errors of all agents. */
  tool_errors: number;
  /** Denied calls of all agents. */
  tools_denied: number;
  /** The session's own check-sum where a source has it and it covers the agents' sum, else that sum. */
  usage: Usage | null;
  /** Check-sum minus the agents' sum; `None` without a check-sum. */
  unattributed_usage: Usage | null;
  /** The session's own cost where a source has it, else the agents' sum. */
  cost_micro_usd: number | null;
  /** Whether the cost is a lower bound. */
  cost_floor: boolean;
  /** The union of all intervals, the root's included. */
  wall_ms: number | null;
  /** The sum of the subagents' intervals. */
  agent_ms: number | null;
  /** Subagents by type; `unknown` for those without one. */
  by_type: Record<string, number>;
}

/** A session with all its agents. */
export interface Tree {
  /** Always [`TREE_SCHEMA`]. */
  schema: string;
  /** The session. */
  session: Session;
  /** All agents in pre-order, the root first, siblings by start; orphans after the root's children. */
  agents: Agent[];
  /** Figures over the whole session. */
  summary: Summary;
  /** What could not be understood, by place. */
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

/** One event of a session, as every face gets it. */
export interface Event {
  /** Always [`Event::SCHEMA`]. */
  schema: string;
  /** The event's identity: the same from every source and after every rebuild. */
  id: string;
  /** A place in one log or file, from 1; says nothing about identity. */
  seq: number;
  /** When it happened; `None` where no source tells. */
  at_ms: number | null;
  /** The session it belongs to. */
  session_id: string;
  /** The run it belongs to, from 1; 0 before the first. */
  run: number;
  /** Who did it. */
  actor_id: string;
  /** How the actor is known. */
  basis: Basis;
  /** The dialect that told it. */
  source: string;
  /** What it is about. */
  kind: EventKind;
  /** Details by kind; an object. */
  data: Record<string, unknown>;
}

/** Whether a session is at work. */
export type SessionStatus = "live" | "ended";

/** One line of a list of sessions. */
export interface SessionRow {
  /** The harness's own id. */
  id: string;
  /** The harness. */
  harness: string | null;
  /** The working directory of the root. */
  cwd: string | null;
  /** The first prompt, one line. */
  title: string | null;
  /** Whether it is at work. */
  status: SessionStatus;
  /** When the first event happened. */
  started_at_ms: number | null;
  /** When the last event happened. */
  last_event_at_ms: number | null;
  /** How many prompts of the user started a run. */
  runs: number;
  /** How many subagents there are. */
  agents: number;
  /** How many of them have not ended. */
  running: number;
  /** How many of them failed. */
  failed: number;
  /** All tool calls, the root's too. */
  tool_calls: number;
  /** All tokens; `None` where no source told any. */
  usage: Usage | null;
  /** What they cost; `None` where no price is known. */
  cost_micro_usd: number | null;
  /** When something new of it was last kept, by the clock of whoever keeps it; `None` where that is not known. */
  kept_at_ms?: number;
}

/** Figures of everything that shares one name: a type of agents, a tool, a model, a day. */
export interface StatsRow {
  /** What they share. */
  name: string;
  /** In how many sessions it occurs. */
  sessions: number;
  /** How many agents, the root too; 0 for tools. */
  agents: number;
  /** How many tool calls. */
  tool_calls: number;
  /** How many of them failed. */
  tool_errors: number;
  /** How many of them were denied. */
  tools_denied: number;
  /** Time at work: of agents, or of the tool's calls. */
  busy_ms: number;
  /** Tokens; none for tools. */
  usage: Usage;
  /** What they cost, as far as prices are known. */
  cost_micro_usd: number;
}

/** Figures over everything that is kept. */
export interface Stats {
  /** Always [`STATS_SCHEMA`]. */
  schema: string;
  /** Everything. */
  total: StatsRow;
  /** By type of agent, `main` for roots; most tokens first. */
  by_type: StatsRow[];
  /** By tool; most calls first. */
  by_tool: StatsRow[];
  /** By model; most tokens first. */
  by_model: StatsRow[];
  /** By day (UTC, `2026-11-22`), newest first. */
  by_day: StatsRow[];
}

/** A page of sessions: `ls --json`, `GET /api/v1/sessions`. */
export interface SessionPage {
  /** Always [`crate::SESSIONS_SCHEMA`]. */
  schema: string;
  /** The newest first. */
  sessions: SessionRow[];
  /** Where the next page begins; `None` on the last one. */
  next: string | null;
}

/** A passage that was found. */
export interface Found {
  /** Its session. */
  session_id: string;
  /** Whose it is; empty where its wire does not tell. */
  agent_id: string;
  /** What people call that agent: type and description. */
  agent: string;
  /** What the passage is: `prompt`, `message`, `thought`, `tool input`, `tool result`. */
  kind: string;
  /** When, to the second. */
  at_ms: number | null;
  /** Some words around the first hit, in one line. */
  snippet: string;
  /** The file that it stands in; `inbox/` and a number for what a program handed over. */
  path: string;
  /** The first byte of its JSON there. */
  offset: number;
  /** How many bytes that is. */
  bytes: number;
}

/** What a search found: `search --json`, `GET /api/v1/search`. */
export interface Hits {
  /** Always [`HITS_SCHEMA`]. */
  schema: string;
  /** The newest first. */
  hits: Found[];
}

/** How a hub runs. */
export type HubMode = "foreground" | "background" | "command";

/** What a hub says of itself: `GET /healthz`. */
export interface Health {
  /** Always `ok`: what is not well does not answer. */
  status: string;
  /** The last place in the change log. */
  seq: number;
  /** Sessions that it read or was told of since it began. */
  sessions: number;
  /** Whether something that stands in files is not read yet: answers do not know it. */
  is_reading: boolean;
  /** The program's version, `major.minor.patch`; empty from one that does not tell. */
  version: string;
  /** The newest protocol that it speaks; 0 from one that does not tell. */
  protocol: number;
  /** The oldest one. */
  oldest_protocol: number;
  /** Its process. */
  pid: number;
  /** How it runs. */
  mode: HubMode;
  /** Where it is reached over TCP. */
  url: string;
}

/** What became of an order that a subagent stop: `POST /api/v1/agents/{id}/stop`. */
export interface Ordered {
  /** Always [`ORDERED_SCHEMA`]. */
  schema: string;
  /** The session. */
  session_id: string;
  /** The agent. */
  agent_id: string;
  /** What people call it. */
  title: string;
  /** Whether it was ordered before. */
  repeat: boolean;
  /** Whether hooks of its session have named an agent: only then is it certain that it can be told. */
  reached: boolean;
}
