// Comparison of two sessions or agents: their figures with differences, on a time axis that starts at the start of each.
import type { AgentPair, Comparison, Side } from "../model";
import type { Lane, Timeline } from "./api";
import { count, duration, many, money } from "./format";

export interface Figure {
  name: string;
  a: string;
  b: string;
  /** Difference of the second to the first; empty if one is unknown. */
  more: string;
  /** Whether a higher value is worse, for colors; null if neither direction is. */
  isWorse: boolean | null;
}

type Words = (value: number) => string;

/** `+3`, `−3`, `=`; nothing where one is unknown. */
export function difference(a: number | null | undefined, b: number | null | undefined, words: Words): string {
  if (a === null || a === undefined || b === null || b === undefined) return "";
  if (a === b) return "=";
  return `${b > a ? "+" : "−"}${words(Math.abs(b - a))}`;
}

const figure = (name: string, a: number | null | undefined, b: number | null | undefined, words: Words, isBad: boolean): Figure => ({
  name,
  a: a === null || a === undefined ? "" : words(a),
  b: b === null || b === undefined ? "" : words(b),
  more: difference(a, b, words),
  isWorse: isBad && typeof a === "number" && typeof b === "number" && a !== b ? b > a : null,
});

/** The figures that at least one side has. */
export function figures({ a: { summary: a }, b: { summary: b } }: Comparison): Figure[] {
  return [
    figure("subagents", a.agents, b.agents, String, false),
    figure("failed", a.failed, b.failed, String, true),
    figure("wall time", a.wall_ms, b.wall_ms, duration, true),
    figure("cost", a.cost_micro_usd, b.cost_micro_usd, money, true),
    figure("tokens", a.usage?.total_tokens, b.usage?.total_tokens, count, false),
    figure("time of subagents", a.agent_ms, b.agent_ms, duration, false),
    figure("tool calls", a.tool_calls, b.tool_calls, String, false),
    figure("failed calls", a.tool_errors, b.tool_errors, String, true),
    figure("denied calls", a.tools_denied, b.tools_denied, String, true),
    figure("input", a.usage?.input_tokens, b.usage?.input_tokens, count, false),
    figure("output", a.usage?.output_tokens, b.usage?.output_tokens, count, false),
    figure("cache read", a.usage?.cache_read_tokens, b.usage?.cache_read_tokens, count, false),
    figure("cache write", a.usage?.cache_write_tokens, b.usage?.cache_write_tokens, count, false),
  ].filter((one) => one.a !== "" || one.b !== "");
}

/** `8 agents instead of 5`. */
const instead = (own: number, other: number, noun: string): string => `${own === 0 ? `no ${noun}s` : many(own, noun)} instead of ${other === 0 ? "none" : other}`;

/** What B has that A has not, in a sentence, as on the other faces. What one of them does not know is not compared, nor time and cost while one is at work. */
export function answerOf({ a, b }: { a: Pick<Side, "status" | "summary">; b: Pick<Side, "status" | "summary"> }): string {
  const [one, two] = [a.summary, b.summary];
  const parts: string[] = [];
  const isLive = (status: Side["status"]): boolean => status === "running" || status === "pending";
  if (a.status !== null && b.status !== null && a.status !== b.status) parts.push(`B ${b.status}, A ${a.status}`);
  else if (a.status !== null && isLive(b.status)) parts.push(`both ${b.status}`);
  const haveEnded = !isLive(a.status) && !isLive(b.status);
  const speed: string[] = [];
  if (haveEnded && one.wall_ms !== null && two.wall_ms !== null) {
    const more = two.wall_ms - one.wall_ms;
    speed.push(more === 0 ? "as fast" : `${duration(Math.abs(more))} ${more < 0 ? "faster" : "slower"}`);
  }
  // The difference to a lower bound is not known.
  if (haveEnded && one.cost_micro_usd !== null && two.cost_micro_usd !== null && !one.cost_floor && !two.cost_floor) {
    const more = two.cost_micro_usd - one.cost_micro_usd;
    if (more !== 0) speed.push(`${money(Math.abs(more))} ${more < 0 ? "cheaper" : "more expensive"}`);
  }
  if (speed.length > 0) parts.push(`B is ${speed.join(" and ")}`);
  if (one.agents !== two.agents) parts.push(instead(two.agents, one.agents, "agent"));
  if (one.tool_errors !== two.tool_errors) parts.push(instead(two.tool_errors, one.tool_errors, "failed call"));
  else if (one.tool_errors > 0) parts.push(`${many(one.tool_errors, "failed call")} in each`);
  return parts.length > 0 ? parts.join("; ") : "A and B have the same number of agents and of failed calls";
}

/** Start and length of a side's time axis, in milliseconds. */
export function extent(pairs: AgentPair[], side: "a" | "b"): { start: number; length: number } {
  const own = pairs.flatMap((pair) => pair[side] ?? []);
  const begins = own.flatMap(({ started_at_ms }) => started_at_ms ?? []);
  const start = begins.length > 0 ? Math.min(...begins) : 0;
  const end = own.reduce((last, { ended_at_ms, started_at_ms }) => Math.max(last, ended_at_ms ?? started_at_ms ?? start), start);
  return { start, length: end - start };
}

/** Lanes by agent. */
export const lanesOf = (timeline: Timeline | null): Map<string, Lane> => new Map((timeline?.lanes ?? []).map((lane) => [lane.agent_id, lane]));
