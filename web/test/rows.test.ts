import { describe, expect, it } from "vitest";
import type { Agent, Attention, Change, Event, ToolCall, Tree } from "../src/model";
import { merged } from "../src/lib/timeline.svelte";
import { bars, labels, spanAt, ticks, zoomed } from "../src/lib/lanes";
import { href, parse } from "../src/lib/route.svelte";
import { byAttention } from "../src/lib/attention";
import { SteadyOrder } from "../src/lib/order.svelte";
import { recentLane } from "../src/lib/recent_lane";
import { countsOf, found, Rows, unfolded } from "../src/lib/rows";
import { proseLine } from "../src/lib/safe";
import { SseParser } from "../src/lib/sse";
import { line, parallel, rowsOf, story } from "../src/lib/story";
import { activity, timer, tone } from "../src/lib/words";

function agent(id: string, parent: string | null, start: number, more: Partial<Agent> = {}): Agent {
  return {
    id, actor_id: id, parent_id: parent, spawned_by: null, depth: parent === null ? 0 : 1, type: null, name: null,
    description: null, model: null, background: false, status: "running", evidence: null, liveness: null, flags: [],
    started_at_ms: start, ended_at_ms: null, last_event_at_ms: start, intervals: [], wall_ms: null, tool_calls: 0,
    tool_errors: 0, tools_denied: 0, open_tools: 0, tools: [], messages: 0, usage: null, cost_micro_usd: null,
    cost_floor: false, prompt: null, result: null, error: null,
    subtree: { agents: 1, tool_calls: 0, usage: null, cost_micro_usd: null, cost_floor: false, wall_ms: null, agent_ms: null },
    ...more,
  };
}

const tree = (rev: number, agents: Agent[]): Tree => ({
  schema: "subscope.tree/1",
  session: { id: "s", harness: null, harness_version: null, cwd: null, title: null, started_at_ms: 0, ended_at_ms: null, runs: 1, rev },
  agents, summary: {} as Tree["summary"], problems: [],
});

const ids = (rows: Agent[]): string => rows.map((row) => row.id).join(" ");

describe("rows", () => {
  const change = (rev: number, agents: [Agent, number][], removed: string[] = []): Change => ({
    schema: "subscope.change/1", seq: 1, sessions: [tree(rev, []).session], removed,
    agents: agents.map(([row]) => row), places: agents.map(([, place]) => place),
  });
  it("stand where a change puts them, the others in their order", () => {
    const rows = new Rows(tree(1, ["root", "a", "b", "c"].map((id) => agent(id, null, 0, { rev: 1 }))));
    rows.change(change(2, [[agent("new", null, 0, { rev: 2 }), 1], [agent("a", null, 0, { rev: 2 }), 3]], ["b"]));
    expect(ids(rows.agents)).toBe("root new c a");
  });
  it("keep the highest rev, whatever comes in which order", () => {
    const rows = new Rows(tree(1, [agent("root", null, 0, { rev: 1 })]));
    const status = (rev: number, status: Agent["status"]) => change(rev, [[agent("a", "root", 1, { rev, status }), 1]]);
    rows.change(status(5, "completed"));
    rows.change(status(4, "running"));
    expect(rows.agents.map((row) => row.status)).toEqual(["running", "completed"]);
    rows.change(change(4, [[agent("gone", "root", 1, { rev: 4 }), 1]]));
    expect(ids(rows.agents)).toBe("root a");
    // An answer to an earlier request is older than what the stream has delivered since.
    rows.merge(tree(3, [agent("root", null, 0, { rev: 3 })]));
    expect(ids(rows.agents)).toBe("root a");
    rows.merge(tree(6, [agent("root", null, 0, { rev: 6 })]));
    expect(ids(rows.agents)).toBe("root");
    rows.change(change(7, [], ["root"]));
    expect(rows.agents).toEqual([]);
  });
  it("are found by words and by kind, with those above them", () => {
    const rows = [
      agent("root", null, 0), agent("a", "root", 1, { status: "completed", description: "Map the cart" }),
      agent("b", "a", 2, { status: "failed", description: "Check prices" }), agent("c", "root", 3, { description: "Map the docs", flags: ["looping"] }),
    ];
    expect(countsOf(rows)).toEqual({ running: 2, failed: 1, flagged: 1 });
    expect(ids(found(rows, "MAP the", null))).toBe("root a c");
    expect(ids(found(rows, "", "failed"))).toBe("root a b");
    expect(ids(found(rows, "map", "running"))).toBe("root c");
    expect(ids(found(rows, "nothing", null))).toBe("");
  });
  it("are folded away below a row", () => {
    const rows = [agent("root", null, 0), agent("a", "root", 1), agent("b", "a", 2), agent("c", "root", 3)];
    expect(ids(unfolded(rows, new Set(["a"])))).toBe("root a c");
    expect(ids(unfolded(rows, new Set(["root"])))).toBe("root");
  });
});

describe("the order of sessions", () => {
  const placed = (id: string, attention: Attention, started_at_ms: number, last_event_at_ms = 0) => ({ id, attention, started_at_ms, last_event_at_ms });
  const all = [
    placed("ended", "ended", 1, 50), placed("late", "live", 30), placed("early", "live", 10, 900),
    placed("asks", "waiting", 40), placed("newer", "ended", 2, 60), placed("stalled", "trouble", 20),
  ];
  const order = (rows: { id: string }[]): string => rows.map(({ id }) => id).join(" ");
  it("is by class, then by start, and by end where they have ended", () => {
    expect(order([...all].sort(byAttention))).toBe("asks stalled early late newer ended");
  });
  it("stands still under a pointer, with what is new behind", () => {
    const steady = new SteadyOrder();
    steady.arrange([...all].sort(byAttention));
    steady.isHeld = true;
    const changed = all.map((row) => (row.id === "late" ? { ...row, attention: "waiting" as const } : row)).filter(({ id }) => id !== "ended");
    const more = [...changed, placed("new", "waiting", 5)].sort(byAttention);
    expect(order(steady.arrange(more))).toBe("asks stalled early late newer new");
    steady.isHeld = false;
    expect(order(steady.arrange(more))).toBe("new late asks stalled early newer");
  });
});

describe("server-sent events", () => {
  const text = ": hi\r\n\r\nid: 4\nevent: event\ndata: {\"a\":\ndata: 1}\n\nevent: change\ndata: x\n\nid: 9\n: live\n\n";
  it("are the same however they are cut", () => {
    for (let cut = 0; cut <= text.length; cut++) {
      const parser = new SseParser();
      const told = [...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut))];
      expect(told).toEqual([
        { event: "event", data: '{"a":\n1}', id: "4" },
        { event: "change", data: "x", id: "4" },
      ]);
      expect(parser.id).toBe("9");
    }
  });
  it("go on behind the place that is given", () => {
    const parser = new SseParser("7");
    expect(parser.push("data: x\n\n")).toEqual([{ event: "", data: "x", id: "7" }]);
  });
});

describe("addresses", () => {
  it("come back as they were", () => {
    const all = ["/", "/s/59d3", "/s/a%2Fb/a/sub%20agent?view=feed&t=17&z=5-9&call=toolu_1", "/search?q=half+cents"];
    for (const address of all) {
      const [path, query = ""] = address.split("?");
      expect(href(parse(path ?? "", query))).toBe(address);
    }
    expect(parse("/s/%E0%A4%A/a/x", "t=-5&z=9-5&view=none")).toMatchObject({ session: "%E0%A4%A", t: null, zoom: null, view: "waterfall" });
  });
});

describe("lanes", () => {
  const span = (from_ms: number, to_ms: number, kind: "tool" | "model" = "tool") => ({
    kind, from_ms, to_ms, name: "Read", status: "ok" as const, call_id: null, is_guess: false,
  });
  const whole = { from: 0, to: 1000 };
  it("show what is seen of them and merge what is too thin", () => {
    const spans = [span(0, 900), span(100, 110), span(950, 980)];
    expect(bars(spans, { from: 500, to: 1000 }, 100, null, 2000).map((bar) => bar.span.from_ms)).toEqual([0, 950]);
    const many = Array.from({ length: 10_000 }, (_, at) => span(at / 10, at / 10 + 0.05));
    expect(bars(many, whole, 100, null, 2000).length).toBeLessThan(150);
    const [open] = bars([span(0, 100)], { from: 0, to: 200 }, 200, 150, 100);
    expect(open?.width).toBeCloseTo(150);
  });
  it("find what is pointed at", () => {
    const spans = [span(0, 1000, "model"), span(100, 200)];
    expect(spanAt(spans, 150, 0, null, 2000)?.kind).toBe("tool");
    expect(spanAt(spans, 300, 0, null, 2000)?.kind).toBe("model");
    expect(spanAt(spans, 1500, 0, null, 2000)).toBeNull();
  });
  it("zoom about a moment and stay within what there is", () => {
    expect(zoomed(whole, 0.5, 500, whole)).toEqual({ from: 250, to: 750 });
    expect(zoomed({ from: 0, to: 500 }, 4, 0, whole)).toEqual(whole);
    expect(ticks(whole, 100, 20).length).toBeLessThanOrEqual(6);
    for (let width = 70; width < 2000; width += 7) {
      for (const length of [40, 900, 21_000, 3_600_000, 90_000_000]) {
        const window = { from: 1_795_000_000_123, to: 1_795_000_000_123 + length };
        const places = labels(window, width, 90, 62).map(({ at }) => ((at - window.from) / length) * width);
        expect(places.length, `${width} pixels, ${length} ms`).toBeGreaterThan(0);
        expect(places.every((place, at) => place <= width - 62 && place - (places[at - 1] ?? -90) >= 89)).toBe(true);
      }
    }
  });
  it("are replaced by those that are told anew", () => {
    const lane = (agent_id: string, depth: number) => ({ agent_id, depth, spans: [] });
    const known = { rev: 5, start_ms: 0, end_ms: 9, lanes: [lane("a", 0), lane("b", 1)], critical_path: [], path: { total_ms: 0, shares: [], rest_ms: 0 } };
    const told = { ...known, rev: 7, end_ms: 12, lanes: [lane("b", 2), lane("c", 1)] };
    expect(merged(known, told).lanes.map((one) => `${one.agent_id}${one.depth}`)).toEqual(["a0", "b2", "c1"]);
    expect(merged(known, { ...told, rev: null }).rev).toBe(5);
  });
});

describe("words", () => {
  it("count every second, and never stop by themselves", () => {
    const running = agent("a", "root", 1000);
    const words = (of: Agent, now: number): string => Object.values(timer(of, now)).join(" ").trim();
    expect([46_000, 84_000, 721_000].map((now) => words(running, now))).toEqual(["Running... 45s", "Running... 1m 23s", "Running... 12m 0s"]);
    expect(words(agent("a", "root", 0, { status: "completed", wall_ms: 83_000 }), 9e9)).toBe("1m 23s");
  });
  it("say what is waited for", () => {
    const live = { count: null, since_ms: 1, inferred: true };
    const asking = agent("a", "root", 0, { liveness: { ...live, kind: "permission", name: "Bash" } });
    // A guess has no look of a fact.
    expect([activity(asking), tone(asking)]).toEqual(["~waits for permission Bash", "running"]);
    const reported = agent("a", "root", 0, { liveness: { ...live, inferred: false, kind: "permission", name: "Bash" } });
    expect([activity(reported), tone(reported)]).toEqual(["waits for permission Bash", "waiting"]);
    const silent = agent("a", "root", 0, { flags: ["stalled"], liveness: { ...live, inferred: false, kind: "model", name: null } });
    expect([activity(silent), tone(silent)]).toEqual(["waits for the model", "stalled"]);
  });
});

describe("a story", () => {
  const event = (kind: Event["kind"], at_ms: number, data: Event["data"]): Event => ({
    schema: "subscope.event/1", id: `${kind}${at_ms}`, seq: 1, at_ms, session_id: "s", run: 1, actor_id: "subagent:a",
    basis: "wire", source: "x", kind, data,
  });
  const call = { id: "t1", name: "Read", status: "error" as const, basis: "wire" as const, started_at_ms: 2, ended_at_ms: 3, detail: "x.js" };
  it("joins a call with its result, once", () => {
    const events = [
      event("agent.message", 1, { text: "hello" }),
      event("tool.pre", 2, { tool_use_id: "t1", tool_name: "Read", input: { path: "x" } }),
      event("tool.failure", 3, { tool_use_id: "t1", error: "gone" }),
    ];
    const parts = story(agent("a", "root", 0, { tools: [call] }), events);
    expect(parts.map((part) => part.kind)).toEqual(["message", "tool"]);
    expect(parts[1]).toMatchObject({ call: { status: "error" }, result: "gone" });
  });
  it("is a feed with one row for a call, and one more for its failure", () => {
    const id = (tool_use_id: string) => ({ tool_use_id, tool_name: "Read" });
    const events = [
      event("tool.pre", 1, { ...id("a"), detail: "x.js" }), event("tool.pre", 2, { ...id("b"), detail: "y.js" }),
      event("tool.post", 3, { ...id("a"), duration_ms: 2 }), event("tool.failure", 4, { ...id("b"), error: "gone" }),
      event("tool.post", 5, { ...id("of before"), duration_ms: 7 }), event("subagent.stop", 6, { status: "completed" }),
      event("subagent.stop", 8, { status: "completed" }), event("subagent.stop", 9, { status: "completed", duration_ms: 1 }),
    ];
    const rows = (intervals: [number, number][]) => rowsOf(events, [agent("a", "root", 0, { wall_ms: 9, intervals })]);
    expect(rows([]).map(line)).toEqual(["✓ Read x.js", "→ Read y.js", "✗ Read y.js · gone", "✓ Read", "✓ completed", "✓ completed", "✓ completed"]);
    // Of an agent with several runs, each end has the time of its own run; where none ended then, it is not known.
    for (const [intervals, spans] of [
      [[], [null, null, 1]],
      [[[0, 5]], [5, 5, 1]],
      [[[0, 3], [4, 6]], [2, null, 1]],
    ] as [[number, number][], (number | null)[]][]) expect(rows(intervals).map(({ took }) => took)).toEqual([2, null, null, 7, ...spans]);
  });
  it("says what an agent said last once, and without marks of Markdown", () => {
    const [said, other] = ["## Found\n\nThe **cart** is `empty`.", "Something else."];
    const end = (at: number, more: object) => event("subagent.stop", at, { status: "completed", ...more });
    const rows = rowsOf([event("agent.message", 1, { text: said }), end(2, { result: said }), end(3, { result: other }), end(4, { result: said, error: "gone" })], []);
    expect(rows.map(line)).toEqual(["Found The cart is empty.", "✓ completed", "✓ completed Something else.", "✓ completed gone"]);
    expect(proseLine("1. a_b_c * 2\n- [x](http://y) __z__ **a `b` c**\u202e")).toBe("a_b_c * 2 x z a b c⟨U+202E⟩");
  });
  it("names a call the same before its events are there, and gives no name twice", () => {
    const named = (tool_use_id: string) => ({ tool_use_id, tool_name: "Read" });
    // Ids come from programs: they repeat, and may equal keys of other rows.
    const tools = ["t1", "prompt", "result", "untold 0"].map((id) => ({ ...call, id }));
    const row = agent("a", "root", 0, { tools: [...tools, { ...call, id: null }], prompt: "look", result: "done", status: "completed" });
    const events = tools.flatMap(({ id }, at) => [event("tool.pre", 3 * at, named(id)), event("tool.pre", 3 * at + 1, named(id)), event("tool.post", 3 * at + 2, named(id))]);
    const keys = (of: Event[]): string[] => story(row, of).map(({ key }) => key);
    for (const of of [[], events.slice(0, 5), events]) {
      expect(new Set(keys(of)).size).toBe(keys(of).length);
      expect(keys(of)).toEqual(expect.arrayContaining(tools.map(({ id }) => `call ${id}`)));
    }
  });
  it("knows which calls ran at the same time", () => {
    const tools = ([["a", 0, 10], ["b", 2, 4], ["c", 9, 20], ["d", 20, 21], ["e", 30, null], ["f", 40, 41], ["g", 50, null]] as const).map(
      ([id, from, to]): ToolCall => ({ ...call, id, started_at_ms: from, ended_at_ms: to, status: id === "e" ? "open" : "ok" }),
    );
    const parts = story(agent("a", "root", 0, { tools }), []);
    expect([...parallel(parts)]).toEqual([["call a", 3], ["call e", 3]]);
    const message = { kind: "message", key: "m", at: 3, text: "" } as const;
    expect([...parallel([...parts.slice(0, 1), message, ...parts.slice(1, 2)])]).toEqual([]);
  });
  it("has the calls of the row where no event tells them", () => {
    const parts = story(agent("a", "root", 0, { tools: [call], prompt: "look" }), [event("agent.message", 5, { text: "x" })]);
    expect(parts.map((part) => part.kind)).toEqual(["prompt", "tool", "message"]);
  });
});

// The same example as in crates/tui/src/view/mission.rs.
it("draws a lane as high as agents were at work, and red where one failed", () => {
  const failing = { status: "error", started_at_ms: 300_000, ended_at_ms: 300_000 } as Agent["tools"][number];
  const rows = [
    agent("root", null, 0, { intervals: [[0, 10]], tools: [failing] }),
    agent("a", "root", 60_000, { status: "failed", intervals: [[60_000, 150_000]], ended_at_ms: 150_000 }),
  ];
  const lane = recentLane(rows, 600_000, 10);
  expect(lane.map(({ share }) => share * 8)).toEqual([1, 2, 1.5, 1, 1, 1, 1, 1, 1, 1]);
  expect(lane.map(({ hasFailed }) => hasFailed).indexOf(true)).toBe(2);
  expect(lane.filter(({ hasFailed }) => hasFailed)).toHaveLength(1);
  const crowd = Array.from({ length: 16 }, (_, at) => agent(`c${at}`, "root", 0, { intervals: [[0, at === 0 ? 600_000 : 60_000]], status: "completed" }));
  expect(recentLane(crowd, 600_000, 10).map(({ share }) => share * 16)).toEqual([16, 1, 1, 1, 1, 1, 1, 1, 1, 1]);
});
