import { afterEach, describe, expect, it, vi } from "vitest";
import type { Attention } from "../src/model";
import { byAttention } from "../src/lib/attention";
import { href, parse } from "../src/lib/route.svelte";
import { printed, stateOf } from "../src/lib/sending";
import { byHearing, byOrder, type Costs, costs, csvAddress, type GroupRow, hasWords, type PersonMachine, stackedCosts, teamQuery, type WorkingSession } from "../src/lib/team";

const usage = { input_tokens: 0, output_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0, total_tokens: 10, floor: false };
const row = (names: Partial<GroupRow>, cost: number): GroupRow => ({
  sessions: 1, agents: 1, tool_calls: 0, tool_errors: 0, tools_denied: 0, busy_ms: 0, usage, cost_floor: false, cost_micro_usd: cost, ...names,
});
const DAY = 86_400_000;
const start = Date.parse("2026-11-20T00:00:00Z");

describe("requests to a team's server", () => {
  afterEach(() => vi.unstubAllGlobals());

  it("have the choices of the address, and nothing for what has no name", () => {
    const range = { since: start, until: start + DAY };
    expect(teamQuery({ user: "ana", project: "unknown", by: "team", order: "cost" }, range)).toEqual({ user: "ana", project: "", from: "2026-11-20", to: "2026-11-21" });
    expect(teamQuery({}, { since: null, until: null })).toEqual({});
    const hostile = { user: "a&as=x#\u202e'\"<b>" };
    const address = new URL(csvAddress("project,day", hostile), "http://team");
    expect([address.pathname, address.searchParams.get("user"), address.searchParams.get("as"), address.hash]).toEqual(["/api/v1/stats", hostile.user, "csv", ""]);
  });

  it("ask for the days of the greatest groups only, and of models at once", async () => {
    const asked: string[] = [];
    const users = Array.from({ length: 9 }, (_, at) => row({ user: `u${at}` }, 100 - at));
    vi.stubGlobal("fetch", (address: string) => {
      asked.push(address);
      const query = new URL(address, "http://team").searchParams;
      const rows = { user: users, model: [row({ model: "m" }, 5)], "model,day": [row({ model: "m", day: "2026-11-20" }, 5), row({ model: "n", day: "2026-11-20" }, 7)] }[query.get("by") ?? ""];
      const answer = { rows: rows ?? [row({ day: "2026-11-20" }, query.has("user") ? 10 : 1000)], has_more: false };
      return Promise.resolve(new Response(JSON.stringify(answer)));
    });
    const answer = await costs("user", { project: "shop" });
    expect(answer.greatest.length).toBe(6);
    expect(asked.filter((one) => one.includes("by=day&")).every((one) => one.includes("project=shop"))).toBe(true);
    expect(asked.some((one) => one.includes("user%2Cday"))).toBe(false);
    const stacks = stackedCosts(answer, "cost", { since: null, until: null }, start + DAY);
    expect(stacks.days).toEqual([start, start + DAY]);
    expect(stacks.stacks.map(({ name, values }) => [name, ...values])).toEqual([
      ...["u0", "u1", "u2", "u3", "u4", "u5"].map((name) => [name, 10, 0]),
      ["3 others", 940, 0],
    ]);
    const models = await costs("model", {});
    expect(models.greatest).toEqual([[expect.objectContaining({ model: "m", day: "2026-11-20" })]]);
  });
});

describe("costs by day", () => {
  const of = (rows: GroupRow[], days: GroupRow[], greatest: GroupRow[][]): Costs => ({ by: "team", total: null, rows, hasMore: false, days, greatest });
  it("leave no gap, and show no group without figures", () => {
    const days = [row({ day: "2026-11-20" }, 5), row({ day: "2026-11-22" }, 1)];
    const stacks = stackedCosts(of([row({ team: "a" }, 6), row({ team: "b" }, 0)], days, [days, []]), "cost", { since: null, until: null }, start + 2 * DAY);
    expect(stacks.days.length).toBe(3);
    expect(stacks.stacks).toEqual([{ name: "a", values: [5, 0, 1], total: 6 }]);
    expect(stackedCosts(of([], [], []), "tokens", { since: null, until: null }, start).stacks).toEqual([]);
  });
});

const person = (user: string, machine: string, figures: Partial<PersonMachine>): PersonMachine => ({
  user, machine, team: "", level: null, harnesses: [], last_event_at_ms: null, last_saved_at_ms: null, working: 0, sessions: 0, agents: 0, tool_calls: 0, tool_errors: 0, usage,
  cost_micro_usd: 0, cost_floor: false, ...figures,
});

describe("people", () => {
  it("are sorted by what is chosen, the same ones by name", () => {
    const all = [person("bob", "a", { sessions: 2 }), person("ana", "b", { sessions: 2, last_event_at_ms: 5 }), person("cy", "a", { cost_micro_usd: 9 })];
    const names = (order: Parameters<typeof byOrder>[0]): string => [...all].sort(byOrder(order)).map(({ user }) => user).join(" ");
    expect(names("user")).toBe("ana bob cy");
    expect(names("machine")).toBe("bob cy ana");
    expect(names("sessions")).toBe("ana bob cy");
    expect(names("cost")).toBe("cy ana bob");
    expect(names("seen")).toBe("ana bob cy");
  });
  it("are found by words in any field", () => {
    expect(hasWords("ANA web", "ana", "web", null)).toBe(true);
    expect(hasWords("ana shop", "ana", "web", undefined)).toBe(false);
  });
});

describe("sessions at work", () => {
  it("of machines that are silent come last, whatever they waited for", () => {
    const session = (id: string, attention: Attention, kept_at_ms: number): WorkingSession => ({ id, attention, kept_at_ms, started_at_ms: 1, last_event_at_ms: 1, working: [] }) as unknown as WorkingSession;
    const now = 10_000_000;
    const rows = [session("silent", "waiting", 1), session("live", "live", now), session("waits", "waiting", now - 3_600_000)];
    expect(byHearing(rows.sort(byAttention), now).map(({ id }) => id)).toEqual(["waits", "live", "silent"]);
  });
});

describe("addresses of a team's views", () => {
  it("keep their choices", () => {
    for (const path of ["/people?order=cost&team=web", "/cost?by=user&days=7", "/?user=ana"]) {
      const [name = "", query = ""] = path.split("?");
      expect(href(parse(name, query))).toBe(path);
    }
  });
});

describe("what a machine sends", () => {
  const of = (given: Partial<Parameters<typeof stateOf>[0]>): string => stateOf({ url: "https://team", is_on: true, is_forwarding: true, error: null, ...given }).words;
  it("is said as it is: not set, off, failing, idle, on", () => {
    expect(of({ url: null })).toContain("Nothing leaves");
    expect(of({ is_on: false })).toContain("Nothing is sent now");
    expect(of({ error: "refused" })).toContain("cannot be sent");
    expect(of({ is_forwarding: false })).toContain("No process");
    expect(of({})).toContain("are sent to its team");
  });
  it("is printed with nothing hidden in it", () => {
    expect(printed('{"title":"a\u202eb"}')).toBe('{\n  "title": "a⟨U+202E⟩b"\n}');
    expect(printed("no \u202e JSON")).toBe("no ⟨U+202E⟩ JSON");
  });
});
