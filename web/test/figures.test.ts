import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { AgentPair, Comparison, DayGroup, StatsRow } from "../src/model";
import { difference, extent, figures } from "../src/lib/compare";
import { grouped, timeGroup } from "../src/lib/order.svelte";
import { setup } from "../src/lib/setup.svelte";
import { clockOf, DAY_MS, dayOf, momentOf, rangeOf, stacked, startOf, stepsOf, withinDay } from "../src/lib/stats";

const NOW = Date.parse("2026-11-23T15:00:00Z");
const day = (text: string): number => Date.parse(`${text}T00:00:00Z`);

describe("statistics", () => {
  const group = (of: string, name: string, cost: number): DayGroup => ({
    day: of, by: "type", row: { name, cost_micro_usd: cost, usage: { total_tokens: cost * 2 } } as StatsRow,
  });
  it("cover the days that the address names", () => {
    expect(rangeOf({}, NOW)).toEqual({ since: day("2026-10-25"), until: null });
    expect(rangeOf({ days: "7" }, NOW)).toEqual({ since: day("2026-11-17"), until: null });
    expect(rangeOf({ days: "all" }, NOW)).toEqual({ since: null, until: null });
    expect(rangeOf({ days: "7", since: "2026-11-01", until: "2026-11-05" }, NOW)).toEqual({ since: day("2026-11-01"), until: day("2026-11-05") });
    for (const days of ["0x7", "-1", "1e9", "<b>"]) expect(rangeOf({ days }, NOW)).toEqual(rangeOf({}, NOW));
  });
  it("count the days of the clocks of a zone", () => {
    const zones: [string, string, string, string][] = [
      ["UTC", "2026-03-29T00:10:00Z", "2026-03-29", "2026-03-29T00:00:00Z"],
      ["Europe/Berlin", "2026-03-28T23:10:00Z", "2026-03-29", "2026-03-28T23:00:00Z"],
      ["Europe/Berlin", "2026-10-25T22:50:00Z", "2026-10-25", "2026-10-24T22:00:00Z"],
      ["America/New_York", "2026-11-02T04:59:00Z", "2026-11-01", "2026-11-01T04:00:00Z"],
      ["Asia/Kathmandu", "2026-11-21T18:20:00Z", "2026-11-22", "2026-11-21T18:15:00Z"],
      ["Pacific/Kiritimati", "2026-11-21T10:00:00Z", "2026-11-22", "2026-11-21T10:00:00Z"],
      ["Pacific/Niue", "2026-11-22T10:59:00Z", "2026-11-21", "2026-11-21T11:00:00Z"],
    ];
    for (const [zone, moment, date, start] of zones) {
      expect(dayOf(clockOf(Date.parse(moment), zone))).toBe(date);
      expect(momentOf(day(date), zone)).toBe(Date.parse(start));
      expect(dayOf(clockOf(withinDay(startOf(date) ?? 0, zone), zone))).toBe(date);
    }
  });
  it("are stacked by day without gaps, the greatest groups first, all others as one", () => {
    const rows = [group("2026-11-20", "a", 1), group("2026-11-22", "a", 2), group("2026-11-22", "b", 9), ...["c", "d", "e", "f", "g", "h"].map((name) => group("2026-11-22", name, 0.5))];
    const { days, stacks } = stacked({ days: rows }, "type", "cost", rangeOf({ days: "all" }, NOW), NOW);
    expect(days).toEqual([0, 1, 2, 3].map((at) => day("2026-11-20") + at * DAY_MS));
    expect(stacks.map(({ name }) => name)).toEqual(["b", "a", "c", "d", "e", "f", "2 others"]);
    expect(stacks[1]?.values).toEqual([1, 0, 2, 0]);
    expect(stacks.at(-1)).toEqual({ name: "2 others", values: [0, 0, 1, 0], total: 1 });
    expect(stacked({ days: rows }, "type", "tokens", rangeOf({ days: "all" }, NOW), NOW).stacks[0]?.total).toBe(18);
    expect(stacked({ days: rows }, "model", "cost", rangeOf({}, NOW), NOW).stacks).toEqual([]);
  });
  it("show stillness between spans with an agent at work", () => {
    const spans = [{ at_ms: 0, agents: 3, sessions: 1 }, { at_ms: 10, agents: 1, sessions: 1 }, { at_ms: 50, agents: 2, sessions: 2 }];
    expect(stepsOf({ span_ms: 10, spans })).toEqual({ at: [0, 10, 20, 50, 60], agents: [3, 1, 0, 2, 0], sessions: [1, 1, 0, 2, 0] });
    expect(stepsOf({ span_ms: 10, spans: [] }).at).toEqual([]);
  });
});

describe("colors of plots", () => {
  const css = readFileSync("src/app.css", "utf8");
  const luminance = (hex: string): number => {
    const [r = 0, g = 0, b = 0] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one: string, other: string): number => {
    const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  it.each([["dark", 0], ["light", 1]] as const)("differ in brightness in %s", (_, theme) => {
    const of = (name: string): string => [...css.matchAll(new RegExp(`--${name}: (#[0-9a-f]{6})`, "g"))].map((match) => match[1] ?? "")[theme] ?? "";
    const colors = [0, 1, 2, 3, 4, 5, 6].map((at) => of(`plot-${at}`));
    for (const color of colors) expect(contrast(color, of("bg"))).toBeGreaterThanOrEqual(3);
    for (const [at, color] of colors.slice(1).entries()) expect(contrast(color, colors[at] ?? "")).toBeGreaterThanOrEqual(1.9);
  });
});

describe("comparison", () => {
  const summary = (cost: number | null, failed: number): object => ({ agents: 2, failed, cost_micro_usd: cost, usage: null, wall_ms: 1000, agent_ms: null, tool_calls: 3, tool_errors: 0, tools_denied: 0 });
  it("has differences of what both know, and says which are worse", () => {
    const expected = { a: { summary: summary(2_000_000, 1) }, b: { summary: summary(3_500_000, 0) } } as unknown as Comparison;
    const by = new Map(figures(expected).map((one) => [one.name, one]));
    expect(by.get("cost")).toEqual({ name: "cost", a: "$2.00", b: "$3.50", more: "+$1.50", isWorse: true });
    expect(by.get("failed")).toMatchObject({ more: "−1", isWorse: false });
    expect(by.get("wall time")).toMatchObject({ more: "=", isWorse: null });
    expect(by.has("tokens")).toBe(false);
    expect(difference(null, 1, String)).toBe("");
  });
  it("begins each side at its own start", () => {
    const pairs = [{ a: { started_at_ms: 100, ended_at_ms: 400 }, b: null }, { a: { started_at_ms: 200, ended_at_ms: 900 }, b: { started_at_ms: 5000, ended_at_ms: null } }] as unknown as AgentPair[];
    expect([extent(pairs, "a"), extent(pairs, "b"), extent([], "a")]).toEqual([{ start: 100, length: 800 }, { start: 5000, length: 0 }, { start: 0, length: 0 }]);
  });
});

describe("groups of sessions", () => {
  it("go by calendar days", () => {
    const now = new Date(2026, 10, 23, 0, 30).getTime();
    const of = (ms: number): string => timeGroup({ attention: "ended", last_event_at_ms: ms }, now);
    expect([now, now - 3_600_000, now - 3 * 86_400_000, now - 9 * 86_400_000].map(of)).toEqual(["today", "yesterday", "this week", "older"]);
    expect(timeGroup({ attention: "waiting", last_event_at_ms: 0 }, now)).toBe("live");
    expect(grouped(["b1", "a1", "b2"], (one) => one.slice(0, 1))).toEqual([{ name: "b", rows: ["b1", "b2"] }, { name: "a", rows: ["a1"] }]);
  });
});

describe("the command that resumes a session", () => {
  it("is one line whose words do nothing else", () => {
    setup.state = { schema: "", time_zone: "", folders: [], hooks: null, resume: { x: "run --resume" }, budget_day_micro_usd: null, budget_session_micro_usd: null, demo: null, editor: null, team: null };
    expect(setup.resume("a-1", "/home/it's me", "x")).toBe("cd '/home/it'\\''s me' && run --resume a-1");
    expect(setup.resume("$(rm -rf ~)", null, "x")).toBe("run --resume '$(rm -rf ~)'");
    expect(setup.resume("-f", null, "x")).toBe("run --resume '-f'");
    for (const bad of ["a\nb", "a\u001bb", "a\u202eb"]) expect([setup.resume(bad, null, "x"), setup.resume("a", bad, "x")]).toEqual(["", ""]);
    expect([setup.resume("a", null, "other"), setup.resume("a", null, null)]).toEqual(["", ""]);
  });
});
