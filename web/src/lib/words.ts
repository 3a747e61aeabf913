// Labels and phrases of the page, the same as in the terminal UI.
import type { Agent, AgentNeed, AgentStatus, Attention, Event, Flag, Inbox, Liveness, NeedGroup, ReadingProgress, SessionNeed, ToolCall, Usage, VendorUnit } from "../model";
import { base, count, duration, money, seconds, whole } from "./format";
import { oneLine } from "./safe";

/** What an agent is called and does: `ada: Map the checkout flow`. Without a type, the name stands in its place. */
export const words = ({ type, name, description }: Agent): string => [type === null ? null : name, description].filter((word) => word !== null).map(oneLine).join(": ");

/** `Explore: Map the checkout flow`, `general-purpose: ada: Map the checkout flow`. */
export function title(agent: Agent): string {
  const known = [oneLine(agent.type ?? agent.name), words(agent)].filter((word) => word !== "");
  if (known.length > 0) return known.join(": ");
  return agent.id === "root" ? "main" : oneLine(agent.id);
}

/** What an event of kind `budget` says. */
export function budgetWords({ data }: Event): string {
  const amount = (name: string, isFloor = false): string => money(typeof data[name] === "number" ? data[name] : 0, isFloor);
  const day = data["day"];
  const what = `${typeof day === "string" ? `the sessions of ${day} have` : "the session has"} cost ${amount("cost_micro_usd", data["cost_floor"] === true)}`;
  const [percent, budget] = [Number(data["percent"] ?? 100), amount("budget_micro_usd")];
  return percent < 100 ? `${what}: over ${percent} % of the budget of ${budget}` : `${what}: the budget is ${budget}`;
}

/** What an agent at work does or waits for, without how long. */
export const activity = (agent: Agent): string => activityWords(agent, "");

/** The same with how long: `Read cart.js · 3s · +2 more`. */
export const activityNow = (agent: Agent, now: number): string => activityWords(agent, since(agent, now));

function activityWords(agent: Agent, lasts: string): string {
  const live = agent.liveness;
  if (!live || !isLive(agent)) return "";
  const { words, more, isGuess } = doing(agent, live);
  return (live.inferred || isGuess ? "~" : "") + [words, lasts, more].filter((part) => part).join(" · ");
}

interface Doing {
  words: string;
  /** Text after the duration. */
  more?: string;
  isGuess?: boolean;
}

function doing(agent: Agent, live: Liveness): Doing {
  const name = oneLine(live.name);
  switch (live.kind) {
    case "tool": {
      const open = agent.tools.filter(({ status }) => status === "open");
      const call = open.findLast((one) => one.name === live.name) ?? open.at(-1);
      const words = call ? [oneLine(call.name), oneLine(call.detail)].filter((word) => word !== "").join(" ") : name;
      const more = agent.open_tools > 1 ? `+${agent.open_tools - 1} more` : "";
      return { words, more, isGuess: call?.basis === "stack" || call?.basis === "unknown" };
    }
    case "model":
      return { words: "waits for the model" };
    case "permission":
      return { words: `waits for permission ${name}`.trim() };
    case "question":
      return { words: "waits for an answer to its question" };
    case "plan":
      return { words: "waits for a decision about its plan" };
    case "children":
      if (live.count === 0) return { words: "waits for subagents that are lost" };
      return { words: `waits for ${live.count ?? "its"} subagent${live.count === 1 ? "" : "s"}` };
    case "retry": {
      const limit = live.limit ? `/${live.limit}` : "";
      return { words: "waits for the model", more: `retry${live.count ? ` ${live.count}` : ""}${limit}${name === "" ? "" : `: ${name}`}` };
    }
    case "idle":
      return { words: "idle" };
  }
}

/** Whether an agent has not ended, as far as is known: one whose machine is not heard may have. */
const isLive = ({ status, flags }: Agent): boolean =>
  (status === "running" || status === "pending") && !flags.includes("unheard");

/** A wait for the model is shown with its duration from here on: shorter ones come and go with each call. */
const SHORT_WAIT_MS = 3_000;

/** The duration of the current activity. */
export function since({ liveness }: Agent, now: number): string {
  const lasts = liveness?.since_ms === null || liveness?.since_ms === undefined ? null : now - liveness.since_ms;
  return lasts === null || (liveness?.kind === "model" && lasts < SHORT_WAIT_MS) ? "" : seconds(lasts);
}

/** Whether an agent works or waits for something. A root that waits for the next prompt does not. */
export function isAtWork(agent: Agent): boolean {
  return isLive(agent) && agent.liveness?.kind !== "idle";
}

/** The timer of a row: it counts while the agent is at work, which `label` says in words. */
export function timer(agent: Agent, now: number): { label: string; time: string } {
  if (agent.status === "running" && isAtWork(agent)) {
    return { label: "Running...", time: agent.started_at_ms === null ? "" : seconds(now - agent.started_at_ms) };
  }
  const wall = agent.wall_ms;
  return { label: "", time: wall === null ? "" : wall < 1000 ? `${wall}ms` : seconds(wall) };
}

/** The mark of a call. An open call of an agent that has ended counts as lost. */
export function callMark(agent: Agent, { status }: ToolCall): string {
  if (status === "open") return isLive(agent) ? "▸" : "?";
  return { ok: "✓", error: "✗", denied: "⊘" }[status];
}

/** How long a call took, or how long it has been open. */
export function callTime(agent: Agent, { started_at_ms, ended_at_ms, status }: ToolCall, now: number): string {
  if (started_at_ms === null) return "";
  if (ended_at_ms !== null) return duration(ended_at_ms - started_at_ms);
  return status === "open" && isLive(agent) ? seconds(now - started_at_ms) : "";
}

/** What each kind of evidence for an ending says. */
const EVIDENCE: Record<string, string> = {
  "hook answer": "a hook of subscope answered that it has to stop, and it did",
  "task notification": "the program that runs the agents reported that the task ended",
  "turn interrupted": "its turn was interrupted",
  "published end": "a program published its end",
  "idle notice": "it reported that it has nothing left to do",
  "OpenTelemetry record": "an OpenTelemetry record has its end",
  "stop call": "the call that stopped it came back",
  "spawn result": "the call that started it came back with its result",
  "last line": "the last line of its transcript ends its turn",
  "last line is text": "the last line of its transcript is an answer, and nothing follows",
  "marked finished": "the program that ran it marked it as finished",
  "stop hook": "a hook reported that it stopped",
  "no ending": "no source reports its end",
  result: "the program printed the result of its last run",
  "its last run ended": "the last run of its session has ended",
  "end of file": "what was read ends here",
};

/** Why an agent has its status, in a sentence. */
export function why({ status, evidence }: Agent): string {
  if (evidence === null) return "";
  const known = oneLine(evidence);
  return `${status}, because ${EVIDENCE[known] ?? known}`;
}

/** `input 2k, output 5k, cache read 80k (90 %), cache write 9k`. */
export function tokens(usage: Usage | null): string {
  if (!usage) return "";
  const parts: [string, number][] = [["input", usage.input_tokens], ["output", usage.output_tokens], ["cache read", usage.cache_read_tokens], ["cache write", usage.cache_write_tokens]];
  return parts.map(([name, n]) => `${name} ${count(n)}${name === "cache read" ? cached(usage) : ""}`).join(", ");
}

/** How much of what went in was read from the cache, ` (90 %)`. */
export function cached({ input_tokens, cache_read_tokens, cache_write_tokens }: Usage): string {
  const given = input_tokens + cache_read_tokens + cache_write_tokens;
  return given === 0 ? "" : ` (${Math.floor((cache_read_tokens * 100) / given)} %)`;
}

/** The glyph of each group of needs, the same as in the terminal. */
export const NEED_GLYPHS: Record<NeedGroup, string> = { waits: "◆", trouble: "!", perhaps: "~" };

/** What an agent needs, and since when: `is stalled · 12m 3s`, `may wait for you: no result of Read for 57s`. */
export function needWords({ words, reason, since_ms }: AgentNeed, now: number): string {
  if (since_ms === null) return oneLine(words);
  return `${oneLine(words)}${reason === "may_wait" ? " for " : " · "}${seconds(now - since_ms)}`;
}

/** The trouble of a session in a word or two: that of its agents if they have the same. */
export function troubleWords(need: SessionNeed | undefined): string {
  const reasons = new Set(need?.agents.filter(({ group }) => group === "trouble").map(({ reason }) => reason));
  const only = reasons.size === 1 ? [...reasons][0] : undefined;
  return only === "stalled" ? "stalled" : only === "lost" ? "lost" : only === "failing" ? "keeps failing" : "in trouble";
}

/** How many sessions need the user for certain, in parts: `◆ 2 wait for you`, `! 1 in trouble`. */
export function certainParts({ waits, trouble }: Pick<Inbox, "waits" | "trouble">): { group: NeedGroup; words: string }[] {
  const parts: { group: NeedGroup; count: number; words: string }[] = [
    { group: "waits", count: waits, words: waits === 1 ? "waits for you" : "wait for you" },
    { group: "trouble", count: trouble, words: "in trouble" },
  ];
  return parts.filter(({ count }) => count > 0).map(({ group, count, words }) => ({ group, words: `${NEED_GLYPHS[group]} ${count} ${words}` }));
}

/** How far sessions are read: `2,757 of 3,000 sessions read`. */
export function readingWords({ read, total }: ReadingProgress): string {
  if (total === 0) return "reading sessions";
  // What searches look through comes last.
  return read < total ? `${whole(read)} of ${whole(total)} sessions read` : "sessions read, reading their texts";
}

/** What an agent asks of a person, by a wait's kind or the `asks` of a request. */
function askWords(what: unknown): string {
  return what === "question" ? "asks you a question" : what === "plan" ? "waits for your decision about its plan" : "waits for your permission";
}

/** What a request to the person is about. */
export function requestWords({ data }: Event): string {
  return askWords(data["asks"]);
}

/** Whether an agent waits for a person, as a source reports; a wait that is only inferred is none. */
export function waitsForPerson(agent: Agent): boolean {
  const live = agent.liveness;
  return isLive(agent) && live !== undefined && live !== null && !live.inferred && ["permission", "question", "plan"].includes(live.kind);
}

/** The most relevant agent of a session: the one that needs a person, else the one whose current action began last. */
export function foremost(agents: Agent[]): Agent | undefined {
  const rank = (agent: Agent): number => {
    const look = tone(agent);
    if (look === "waiting") return 4;
    if (look === "stalled") return 3;
    if (!isAtWork(agent)) return agent.id === "root" ? 1 : 0;
    return agent.liveness?.kind === "children" ? 1 : 2;
  };
  const since = (agent: Agent): number => agent.liveness?.since_ms ?? agent.started_at_ms ?? 0;
  return agents.reduce<Agent | undefined>((best, agent) => {
    if (!best) return agent;
    const more = rank(agent) - rank(best);
    return more > 0 || (more === 0 && since(agent) > since(best)) ? agent : best;
  }, undefined);
}

/** The words for a flag, as `Flag::words` has them: a guess has its `~`. */
export const flagWords = (flag: Flag): string => (flag === "inferred" ? "~inferred" : flag);

/** The look of a row: `waiting` or `stalled` (also: waits for lost subagents) for an active agent, else its status. */
export function tone(agent: Agent): string {
  if (waitsForPerson(agent)) return "waiting";
  const isTroubled = agent.flags.includes("stalled") || (agent.liveness?.kind === "children" && agent.liveness.count === 0);
  // Whether it still runs is not known: its machine is not heard.
  if (agent.flags.includes("unheard")) return "lost";
  return isLive(agent) && isTroubled ? "stalled" : agent.status;
}

/** The look of a session: its urgency while it is live, then the outcome of its root. */
export function sessionTone(attention: Attention, root: AgentStatus | undefined): string {
  if (attention !== "ended") return { waiting: "waiting", trouble: "stalled", live: "running" }[attention];
  return root === undefined || root === "running" || root === "pending" ? "idle" : root;
}

export function sessionTitle(session: { title: string | null; id: string }): string {
  return oneLine(session.title) || oneLine(session.id).slice(0, 8);
}

/** The harness of a session. */
export function program(session: { harness: string | null }): string {
  return oneLine(session.harness) || "unknown program";
}

/** The project of a session: the folder of the main work tree, or the working directory; in a team's store its name. */
export function project(session: { cwd: string | null; project?: string | undefined }): string {
  return oneLine(base(session.project ?? session.cwd));
}

/** Units in which a vendor bills. */
export const VENDOR_UNITS: Record<VendorUnit, string> = { premium_requests: "premium requests", ai_units: "AIU" };

/** The linked work tree of the project in which a session runs; empty if it runs in none. */
export function workTree(session: { cwd: string | null; project?: string | undefined }): string {
  return session.project !== undefined && session.cwd !== null ? oneLine(base(session.cwd)) : "";
}
