// Statistics as they are shown: ranges of days, groups stacked by day, concurrency as steps.
import type { Concurrency, Stats, StatsGroup, StatsRow } from "../model";
import { count, money } from "./format";

export const DAY_MS = 86_400_000;

/** Most groups of a plot; the smaller ones are summed as one. */
export const GROUPS = 6;

/** A range of days by their starts in the form of UTC: both ends are included, `null` is open. */
export interface Range {
  since: number | null;
  until: number | null;
}

export type Measure = "cost" | "tokens";

export const measured = (row: StatsRow, by: Measure): number => (by === "cost" ? row.cost_micro_usd : row.usage.total_tokens);

/** The cost of a group; a dash where no price is known, as in the terminal. */
export const costOf = (row: Pick<StatsRow, "cost_micro_usd" | "cost_floor">): string => (row.cost_micro_usd > 0 ? money(row.cost_micro_usd, row.cost_floor) : "—");

/** The tokens of a group; a dash where none are known. */
export const tokensOf = ({ usage }: Pick<StatsRow, "usage">): string => (usage.total_tokens > 0 ? (usage.floor ? "≥" : "") + count(usage.total_tokens) : "—");

/** What the clocks of a zone show at a moment, in the form of UTC; without a zone those of this browser. */
export const clockOf = (ms: number, timeZone?: string): number =>
  Date.parse(`${new Date(ms).toLocaleString("sv", { ...(timeZone === undefined ? {} : { timeZone }) }).replace(" ", "T")}Z`);

/** The moment at which the clocks of a zone show a time. */
export function momentOf(clock: number, timeZone?: string): number {
  const near = 2 * clock - clockOf(clock, timeZone);
  return clock + near - clockOf(near, timeZone);
}

/** A moment of a day of a zone. At noon no clocks are changed. */
export const withinDay = (day: number, timeZone?: string): number => momentOf(day + DAY_MS / 2, timeZone);

/** The date of a time in the form of UTC, `2026-11-22`. */
export const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** The start of a day; null for anything else. */
export function startOf(day: string | undefined): number | null {
  const at = /^\d{4}-\d\d-\d\d$/.test(day ?? "") ? Date.parse(`${day}T00:00:00Z`) : NaN;
  return Number.isNaN(at) ? null : at;
}

/** The range that an address names: own dates, a number of days up to today, or all. */
export function rangeOf({ days, since, until }: Readonly<Record<string, string>>, now: number): Range {
  const [from, to] = [startOf(since), startOf(until)];
  if (from !== null || to !== null) return { since: from, until: to };
  if (days === "all") return { since: null, until: null };
  const count = /^\d{1,4}$/.test(days ?? "") ? Number(days) : 30;
  return { since: startOf(dayOf(now - (count - 1) * DAY_MS)), until: null };
}

export interface Stack {
  name: string;
  values: number[];
  total: number;
}

export interface Stacks {
  /** Starts of days, without gaps. */
  days: number[];
  /** The greatest first, then the sum of all others. */
  stacks: Stack[];
}

/** The days of a range without gaps, up to today and all that are known. */
export function daysOf(range: Range, known: number[], now: number): number[] {
  const today = startOf(dayOf(now)) ?? now;
  const first = range.since ?? known.reduce((one, other) => Math.min(one, other), today);
  const last = Math.max(first, Math.min(range.until ?? today, known.reduce((one, other) => Math.max(one, other), today)));
  return Array.from({ length: Math.min(5000, (last - first) / DAY_MS + 1) }, (_, at) => first + at * DAY_MS);
}

/** One group's figures by day, the greatest groups first. */
export function stacked({ days: rows }: Pick<Stats, "days">, by: StatsGroup, measure: Measure, range: Range, now: number): Stacks {
  const own = rows.filter((one) => one.by === by && measured(one.row, measure) > 0);
  const known = own.map(({ day }) => startOf(day) ?? 0);
  const days = daysOf(range, known, now);
  const [first = 0] = days;
  const by_name = new Map<string, Stack>();
  for (const { day, row } of own) {
    const place = ((startOf(day) ?? 0) - first) / DAY_MS;
    if (place < 0 || place >= days.length) continue;
    const stack = by_name.get(row.name) ?? { name: row.name, values: new Array<number>(days.length).fill(0), total: 0 };
    by_name.set(row.name, stack);
    const value = measured(row, measure);
    stack.values[place] = (stack.values[place] ?? 0) + value;
    stack.total += value;
  }
  return { days, stacks: greatest([...by_name.values()]) };
}

/** The greatest groups, and all others as one. */
export function greatest(all: Stack[]): Stack[] {
  const sorted = all.sort((one, other) => other.total - one.total);
  const rest = sorted.slice(GROUPS);
  return rest.length > 1 ? [...sorted.slice(0, GROUPS), summed(rest)] : sorted;
}

const summed = (all: Stack[]): Stack => ({
  name: `${all.length} others`,
  values: (all[0]?.values ?? []).map((_, at) => all.reduce((sum, { values }) => sum + (values[at] ?? 0), 0)),
  total: all.reduce((sum, { total }) => sum + total, 0),
});

export interface Steps {
  at: number[];
  agents: number[];
  sessions: number[];
}

/** Steps of concurrency: spans with agents at work, and zero between them. */
export function stepsOf({ span_ms, spans }: Concurrency): Steps {
  const steps: Steps = { at: [], agents: [], sessions: [] };
  const add = (at: number, agents: number, sessions: number): void => {
    steps.at.push(at);
    steps.agents.push(agents);
    steps.sessions.push(sessions);
  };
  let end: number | null = null;
  for (const { at_ms, agents, sessions } of spans) {
    if (end !== null && at_ms > end) add(end, 0, 0);
    add(at_ms, agents, sessions);
    end = at_ms + span_ms;
  }
  if (end !== null) add(end, 0, 0);
  return steps;
}
