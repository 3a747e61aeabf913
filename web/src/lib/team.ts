// Queries that only a team's server answers: people, sessions at work, sums by any dimension.
import type { Agent, SessionRow, Usage } from "../model";
import { get } from "./api";
import { at } from "./base";
import { DAY_MS, daysOf, dayOf, GROUPS, type Measure, type Range, startOf, type Stacks } from "./stats";

/** Dimensions by which costs are grouped. */
export type Dimension = "team" | "user" | "project" | "model" | "machine" | "harness";

export const DIMENSIONS: Dimension[] = ["team", "user", "project", "model", "machine", "harness"];

/** Dimensions that a request can be narrowed by: an agent has a model, a session may have several. */
export const FILTERS = ["team", "user", "project", "machine", "harness"] as const;

export type Filter = (typeof FILTERS)[number];

export const isFilter = (by: Dimension): by is Filter => by !== "model";

/** Filter of sessions and days. */
export type TeamQuery = Partial<Record<Filter | "from" | "to", string>>;

interface Sums {
  sessions: number;
  agents: number;
  tool_calls: number;
  tool_errors: number;
  usage: Usage;
  cost_micro_usd: number;
  cost_floor: boolean;
}

/** Sums of one combination of values; the words are those of the server. */
export type GroupRow = Sums & { tools_denied: number; busy_ms: number } & Partial<Record<Dimension | "day", string>>;

export interface Groups {
  rows: GroupRow[];
  has_more: boolean;
}

export interface PersonMachine extends Sums {
  user: string;
  team: string;
  machine: string;
  level: "figures" | "titles" | "text" | null;
  harnesses: string[];
  last_event_at_ms: number | null;
  last_saved_at_ms: number | null;
  working: number;
}

export interface People {
  rows: PersonMachine[];
  has_more: boolean;
}

export interface WorkingSession extends SessionRow {
  working: Agent[];
}

export interface WorkingSessions {
  sessions: WorkingSession[];
  has_more: boolean;
}

/** The server's name for a missing value. */
export const UNKNOWN = "unknown";

/** Converts a name from an answer to the value in a request. */
const asked = (name: string): string => (name === UNKNOWN ? "" : name);

/** Builds the request from the options of an address. */
export function teamQuery(chosen: Readonly<Record<string, string>>, range: Range): TeamQuery {
  const query: TeamQuery = {};
  for (const name of FILTERS) {
    const value = chosen[name];
    if (value !== undefined) query[name] = asked(value);
  }
  if (range.since !== null) query.from = dayOf(range.since);
  if (range.until !== null) query.to = dayOf(range.until);
  return query;
}

/** Row limit: no dimension other than days has so many groups. */
const MOST = 10_000;

export const groups = (by: string, query: TeamQuery, limit = MOST): Promise<Groups> => get("/api/v1/stats", { by, limit, ...query });
export const people = (query: TeamQuery): Promise<People> => get("/api/v1/people", { ...query });
export const working = (query: TeamQuery): Promise<WorkingSessions> => get("/api/v1/working", { ...query });

/** The address of sums as a download. */
export function csvAddress(by: string, query: TeamQuery): string {
  const words = new URLSearchParams({ by, as: "csv", ...query });
  return at(`/api/v1/stats?${words.toString()}`);
}

export interface Costs {
  by: Dimension;
  total: GroupRow | null;
  /** The greatest cost first. */
  rows: GroupRow[];
  hasMore: boolean;
  /** Sums of each day. */
  days: GroupRow[];
  /** Sums of each day of the greatest groups, in the order of `rows`. */
  greatest: GroupRow[][];
}

/** Fetches costs by a dimension. Only the greatest groups are fetched by day: a thousand users have too many days. */
export async function costs(by: Dimension, query: TeamQuery): Promise<Costs> {
  const [total, rows, days] = await Promise.all([groups("", query), groups(by, query), groups("day", query)]);
  const first = rows.rows.slice(0, GROUPS);
  let greatest: GroupRow[][];
  if (isFilter(by)) {
    greatest = await Promise.all(first.map(async (row) => (await groups("day", { ...query, [by]: asked(row[by] ?? "") })).rows));
  } else {
    const all = (await groups(`${by},day`, query)).rows;
    greatest = first.map((row) => all.filter((one) => one[by] === row[by]));
  }
  return { by, total: total.rows[0] ?? null, rows: rows.rows, hasMore: rows.has_more, days: days.rows, greatest };
}

const measured = (row: GroupRow, by: Measure): number => (by === "cost" ? row.cost_micro_usd : row.usage.total_tokens);

/** The figures of costs by day: those of the greatest groups, and of all others together. */
export function stackedCosts({ by, rows, days, greatest }: Costs, measure: Measure, range: Range, now: number): Stacks {
  const at = (row: GroupRow): number => startOf(row.day) ?? 0;
  const moments = daysOf(range, days.map(at), now);
  const [first = 0] = moments;
  const values = (of: GroupRow[]): number[] => {
    const all = new Array<number>(moments.length).fill(0);
    for (const row of of) {
      const place = (at(row) - first) / DAY_MS;
      if (place >= 0 && place < all.length) all[place] = (all[place] ?? 0) + measured(row, measure);
    }
    return all;
  };
  const sum = (all: number[]): number => all.reduce((one, other) => one + other, 0);
  const stack = (name: string, all: number[]): Stacks["stacks"][number] => ({ name, values: all, total: sum(all) });
  const stacks = greatest.map((own, place) => stack(rows[place]?.[by] ?? UNKNOWN, values(own))).filter(({ total }) => total > 0);
  if (rows.length > greatest.length) {
    const rest = values(days).map((all, place) => Math.max(0, all - stacks.reduce((one, { values }) => one + (values[place] ?? 0), 0)));
    if (sum(rest) > 0) stacks.push(stack(`${rows.length - greatest.length} others`, rest));
  }
  return { days: moments, stacks };
}

/** Sort orders of people. */
export type PeopleOrder = "user" | "machine" | "sessions" | "agents" | "cost" | "seen";

export const PEOPLE_ORDERS: PeopleOrder[] = ["user", "machine", "sessions", "agents", "cost", "seen"];

/** Returns a comparison: names in ascending order, figures and times in descending order. */
export function byOrder(order: PeopleOrder): (one: PersonMachine, other: PersonMachine) => number {
  const name = (row: PersonMachine): string => `${row.user}\n${row.machine}`;
  const names = (one: PersonMachine, other: PersonMachine): number => (name(one) < name(other) ? -1 : 1);
  const figures: Partial<Record<PeopleOrder, (row: PersonMachine) => number>> = {
    sessions: (row) => row.sessions,
    agents: (row) => row.agents,
    cost: (row) => row.cost_micro_usd,
    seen: (row) => row.last_event_at_ms ?? 0,
  };
  const figure = figures[order];
  if (figure) return (one, other) => figure(other) - figure(one) || names(one, other);
  if (order === "machine") return (one, other) => (one.machine === other.machine ? names(one, other) : one.machine < other.machine ? -1 : 1);
  return names;
}

/** Whether all words occur in the listed fields. */
export function hasWords(words: string, ...fields: (string | null | undefined)[]): boolean {
  const text = fields.map((field) => field ?? "").join("\n").toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** Silence about a live session after which its machine may be off. */
export const SILENT_MS = 3_600_000;

/** Time of a machine's last report of a session. */
export const heardAt = (row: SessionRow): number => Math.max(row.kept_at_ms ?? 0, row.last_event_at_ms ?? 0);

/** Moves sessions of silent machines to the end, and keeps the order otherwise. */
export function byHearing(sorted: WorkingSession[], now: number): WorkingSession[] {
  const isSilent = (row: WorkingSession): boolean => now - heardAt(row) > SILENT_MS;
  return [...sorted.filter((row) => !isSilent(row)), ...sorted.filter(isSilent)];
}
