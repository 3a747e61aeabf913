// An agent's story in order of time: its events, and the calls of its row that have no event.
import type { Agent, AgentStatus, Event, ToolCall } from "../model";
import { commandOf } from "./payload";
import { proseLine } from "./safe";
import { budgetWords, requestWords } from "./words";

export type Part =
  | { kind: "prompt" | "message" | "thought" | "result"; key: string; at: number | null; text: string }
  | { kind: "note"; key: string; at: number | null; text: string; tone: string }
  | { kind: "tool"; key: string; at: number | null; call: ToolCall; input: unknown; result: unknown };

const text = (event: Event, name: string): string => {
  const value = event.data[name];
  return typeof value === "string" ? value : "";
};

const NOTES: Partial<Record<Event["kind"], [(event: Event) => string, string]>> = {
  stall: [(event) => `stalled: waits for ${text(event, "waiting_for") || "something"}`, "stalled"],
  budget: [budgetWords, "stalled"],
  retry: [(event) => `asks the API again (${String(event.data["attempt"] ?? "?")}): ${text(event, "error")}`, "stalled"],
  "permission.request": [(event) => asks(event), "waiting"],
  "compact.pre": [() => "the conversation is compacted", ""],
  notification: [(event) => text(event, "message"), ""],
};

/** The text of a permission request, with the complete command. */
const asks = (event: Event): string =>
  [requestWords(event), text(event, "tool_name"), commandOf(event.data["input"])].filter((word) => word !== "").join(": ");

/** Returns what an agent said and did, with its result and its error. */
export function story(agent: Agent, events: Event[]): Part[] {
  const parts = withResult(toldParts(agent, events), agent);
  const { error: text, ended_at_ms: at } = agent;
  return text === null ? parts : [...parts, { kind: "note", key: "error", at, text, tone: "failed" }];
}

/** The agent's result, once: its last message is marked if it has the same text; else the result is appended. */
function withResult(parts: Part[], agent: Agent): Part[] {
  const result = agent.result;
  if (result === null || agent.id === "root") return parts;
  const at = parts.findLastIndex((part) => part.kind === "message" && part.text.trim() === result.trim());
  const last: Part = { kind: "result", key: "result", at: agent.ended_at_ms, text: result };
  return at < 0 ? [...parts, last] : parts.with(at, { ...last, at: parts[at]?.at ?? null });
}

function toldParts(agent: Agent, events: Event[]): Part[] {
  const calls = new Map(agent.tools.flatMap((call) => (call.id === null ? [] : [[call.id, call] as const])));
  const tools = new Map<string, Part & { kind: "tool" }>();
  const parts: Part[] = [];
  if (agent.prompt !== null && agent.id !== "root") {
    parts.push({ kind: "prompt", key: "prompt", at: agent.started_at_ms, text: agent.prompt });
  }
  for (const event of events) {
    const part = partOf(event, calls, tools);
    if (part) parts.push(part);
  }
  const known = new Set(tools.keys());
  const rest = agent.tools.filter((call) => call.id === null || !known.has(call.id));
  // A call without an id cannot be matched with its event: show the calls of the row without ids only if no call has an event.
  const untold = rest.filter((call) => call.id !== null || tools.size === 0);
  if (untold.length === 0) return parts;
  untold.forEach((call, at) =>
    parts.push({ kind: "tool", key: call.id === null ? `untold ${at}` : keyOf(call.id), at: call.started_at_ms, call, input: undefined, result: undefined }),
  );
  return parts
    .map((part, at) => ({ part, at }))
    .sort((one, other) => (one.part.at ?? 0) - (other.part.at ?? 0) || one.at - other.at)
    .map(({ part }) => part);
}

/** About how high a part is on the screen, in pixels. */
export function estimate(part: Part): number {
  if (part.kind === "tool") return 28;
  if (part.kind === "thought") return 34;
  return 40 + Math.min(600, (part.text.length / 80) * 20);
}

/** Calls that ran at the same time: the key of the first of each group, and how many they are. */
export function parallel(parts: Part[]): Map<string, number> {
  const groups = new Map<string, number>();
  let group = { first: "", calls: 0, until: 0 };
  const begin = (next: typeof group): void => {
    if (group.calls > 1) groups.set(group.first, group.calls);
    group = next;
  };
  for (const part of parts) {
    const from = part.kind === "tool" ? part.call.started_at_ms : null;
    if (part.kind !== "tool" || from === null) {
      begin({ first: "", calls: 0, until: 0 });
      continue;
    }
    // A call whose end is not known is at work while it is open; else nothing is known of its length.
    const until = part.call.ended_at_ms ?? (part.call.status === "open" ? Infinity : from);
    if (group.calls > 0 && from < group.until) group = { ...group, calls: group.calls + 1, until: Math.max(group.until, until) };
    else begin({ first: part.key, calls: 1, until });
  }
  begin({ first: "", calls: 0, until: 0 });
  return groups;
}

/** Key of a call: the same for the call of a row and for its later events. */
const keyOf = (id: string): string => `call ${id}`;

function partOf(event: Event, calls: Map<string, ToolCall>, tools: Map<string, Part & { kind: "tool" }>): Part | null {
  const [key, at] = [event.id, event.at_ms];
  switch (event.kind) {
    case "user.prompt":
      return { kind: "prompt", key, at, text: text(event, "text") };
    case "agent.message":
      return { kind: "message", key, at, text: text(event, "text") };
    case "reasoning":
      return { kind: "thought", key, at, text: event.data["encrypted"] === true ? "" : text(event, "text") };
    case "tool.pre":
      return begun(event, calls, tools);
    case "tool.post":
    case "tool.failure":
    case "permission.denied":
      return ended(event, calls, tools);
    default: {
      const note = NOTES[event.kind];
      return note ? { kind: "note", key, at, text: note[0](event), tone: note[1] } : null;
    }
  }
}

const unknownCall = (event: Event, status: ToolCall["status"]): ToolCall => ({
  id: text(event, "tool_use_id") || null,
  name: text(event, "tool_name"),
  status,
  basis: event.basis,
  started_at_ms: event.at_ms,
  ended_at_ms: null,
  detail: text(event, "detail") || null,
});

function begun(event: Event, calls: Map<string, ToolCall>, tools: Map<string, Part & { kind: "tool" }>): Part {
  const id = text(event, "tool_use_id");
  const call = calls.get(id) ?? unknownCall(event, "open");
  const part: Part & { kind: "tool" } = {
    kind: "tool", key: id === "" || tools.has(id) ? event.id : keyOf(id), at: event.at_ms, call, input: event.data["input"], result: undefined,
  };
  if (id !== "") tools.set(id, part);
  return part;
}

function ended(event: Event, calls: Map<string, ToolCall>, tools: Map<string, Part & { kind: "tool" }>): Part | null {
  const id = text(event, "tool_use_id");
  const result = event.data["result"] ?? event.data["error"];
  const known = tools.get(id);
  const status = event.kind === "tool.post" ? "ok" : event.kind === "tool.failure" ? "error" : "denied";
  if (known) {
    known.result = result;
    if (known.call.status === "open") known.call = { ...known.call, status };
    return null;
  }
  const call = calls.get(id) ?? unknownCall(event, status);
  const part: Part & { kind: "tool" } = { kind: "tool", key: id === "" ? event.id : keyOf(id), at: event.at_ms, call, input: undefined, result };
  if (id !== "") tools.set(id, part);
  return part;
}

/** Running sums of token usage, one step per response. */
export function usageOf(events: Event[]): { at: number; total: number; output: number }[] {
  let [total, output] = [0, 0];
  return events.flatMap((event) => {
    const usage = event.kind === "usage" ? event.data["usage"] : null;
    if (typeof usage !== "object" || usage === null || event.at_ms === null) return [];
    const { total_tokens, output_tokens } = usage as { total_tokens?: number; output_tokens?: number };
    total += total_tokens ?? 0;
    output += output_tokens ?? 0;
    return [{ at: event.at_ms, total, output }];
  });
}

/** The status marks of the terminal UI. */
const ENDS: Partial<Record<AgentStatus, string>> = { completed: "✓", failed: "✗", stopped: "■", lost: "?" };

const lasted = ({ data }: Event): number | null => (typeof data["duration_ms"] === "number" ? data["duration_ms"] : null);

/** An event of a feed, with the begin and the end of its call where they are known. */
export interface Row {
  event: Event;
  begin: Event | undefined;
  end: Event | undefined;
  /** How long the call took, or the agent was at work, in milliseconds; null while that is not known. */
  took: number | null;
  /** Whether the row before it of its agent has the same text. */
  isRepeat: boolean;
}

/** Converts the actor of an event to an agent's id. */
export const agentOf = (event: Event): string => (event.actor_id.startsWith("subagent:") ? event.actor_id.slice("subagent:".length) : "root");

/**
 * Merges start and end of each successful call into one row; a failure has a row of its own at its time. `agents` are the
 * rows of the session.
 */
export function rowsOf(events: Event[], agents: Agent[]): Row[] {
  const begins = new Map<string, Event>();
  const ends = new Map<string, Event>();
  for (const event of events) {
    if (event.kind === "tool.pre") begins.set(text(event, "tool_use_id"), event);
    else if (event.kind === "tool.post") ends.set(text(event, "tool_use_id"), event);
  }
  for (const known of [begins, ends]) known.delete("");
  const rows = new Map(agents.map((agent) => [agent.id, agent]));
  /** What each agent said last. */
  const said = new Map<string, string>();
  return events
    .filter((event) => event.kind !== "tool.post" || !begins.has(text(event, "tool_use_id")))
    .map((event) => {
      const id = text(event, "tool_use_id");
      const [begin, end, who] = [begins.get(id), ends.get(id), agentOf(event)];
      const isEnd = event.kind === "subagent.stop";
      const result = isEnd && data(event, "error") === undefined ? text(event, "result").trim() : "";
      const isRepeat = result !== "" && said.get(who) === result;
      if (event.kind === "agent.message") said.set(who, text(event, "text").trim());
      const took = isEnd ? (lasted(event) ?? runTime(rows.get(who), event.at_ms)) : lasted(event.kind === "tool.pre" ? (end ?? event) : event);
      return { event, begin, end, took, isRepeat };
    });
}

/** How long an agent was at work in the run that ended then; of an agent with several runs, only if one of them ended then. */
function runTime(agent: Agent | undefined, end: number | null): number | null {
  const runs = agent?.intervals ?? [];
  const run = runs.find(([, to]) => to === end) ?? (runs.length === 1 ? runs[0] : undefined);
  return run ? run[1] - run[0] : null;
}

const data = (event: Event, name: string): unknown => event.data[name] ?? undefined;

/** A row of a feed in one line. */
export function line({ event, begin, end, isRepeat }: Row): string {
  const { data } = event;
  const call = [text(event, "tool_name"), text(begin ?? event, "detail")].filter((word) => word !== "").join(" ");
  switch (event.kind) {
    case "tool.pre":
      return end ? `✓ ${call}` : `→ ${call}`;
    case "tool.post":
      return `✓ ${call}`;
    case "tool.failure":
      return `✗ ${[call, short(data["error"])].filter((word) => word !== "").join(" · ")}`;
    case "permission.denied":
      return `⊘ ${call} denied`;
    case "permission.request":
      return asks(event);
    case "subagent.start":
      return `▶ starts ${[text(event, "agent_type"), text(event, "description")].filter((word) => word !== "").join(": ")}`;
    case "subagent.stop":
      return `${ENDS[text(event, "status") as AgentStatus] ?? "■"} ${text(event, "status")} ${isRepeat ? "" : glance(data["error"] ?? data["result"])}`.trimEnd();
    case "usage":
      return `${String((data["usage"] as { total_tokens?: number } | undefined)?.total_tokens ?? "?")} tokens`;
    case "reasoning":
      return data["encrypted"] === true ? "thinks (encrypted)" : `thinks: ${proseLine(text(event, "text"))}`;
    case "agent.message":
      return proseLine(text(event, "text"));
    case "run.start":
      return "the run begins";
    case "run.end":
      return "the run has ended";
    case "session.start":
      return "the session is opened";
    case "session.end":
      return "the session is closed";
    case "budget":
      return `! ${budgetWords(event)}`;
    case "stall":
      return `! stalled: waits for ${text(event, "waiting_for")}`;
    default:
      return text(event, "text") || text(event, "message") || text(event, "what") || event.kind;
  }
}

/** Prose in one line; what is none stays as it is. */
const glance = (value: unknown): string => (typeof value === "string" ? proseLine(value) : short(value));

const short = (value: unknown): string =>
  value === null || value === undefined ? "" : (typeof value === "string" ? value : JSON.stringify(value)).slice(0, 300);
