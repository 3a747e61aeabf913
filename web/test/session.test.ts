// Sums of a session's summary, and addresses of files in an editor.
import { describe, expect, it } from "vitest";
import type { Agent, Spending, ToolCall } from "../src/model";
import { editorUrl } from "../src/lib/editor";
import { fileIn } from "../src/lib/payload";
import { atWork, namesOf, sharesOf, slowest, spentOver } from "../src/lib/spending";

const agent = (id: string, more: Partial<Agent> = {}): Agent =>
  ({ id, type: "Explore", name: null, description: id, status: "completed", flags: [], intervals: [], tools: [], spawned_by: null, cost_micro_usd: null, usage: null, liveness: null, ...more }) as unknown as Agent;

describe("what a session spent", () => {
  const agents = [agent("root", { description: "all", cost_micro_usd: 5 }), agent("a", { cost_micro_usd: 9 }), agent("b", { description: "a", cost_micro_usd: 1 }), agent("c", { flags: ["copied"], cost_micro_usd: 99 })];
  const span = (at: number, agent_id: string, cost: number): Spending["spans"][number] => ({ at_ms: at, agent_id, total_tokens: cost * 10, cost_micro_usd: cost });
  const spending: Spending = { schema: "subscope.spending/1", span_ms: 1000, spans: [span(2000, "root", 2), span(2000, "a", 4), span(5000, "a", 5), span(6000, "b", 1), span(6000, "root", 3)] };

  it("is stacked by agent without gaps, up to the moment on show", () => {
    const { moments, stacks } = spentOver(spending, agents, "cost", null);
    expect(moments).toEqual([2000, 3000, 4000, 5000, 6000]);
    expect(stacks).toEqual([
      { name: "Explore: a", values: [4, 0, 0, 5, 0], total: 9 },
      { name: "Explore: all", values: [2, 0, 0, 0, 3], total: 5 },
      { name: "Explore: a (2)", values: [0, 0, 0, 0, 1], total: 1 },
    ]);
    expect(spentOver(spending, agents, "tokens", 5500).stacks.map(({ total }) => total)).toEqual([90, 20]);
    expect(spentOver({ ...spending, spans: [] }, agents, "cost", null)).toEqual({ moments: [], stacks: [] });
    expect([...namesOf(agents).values()].length).toBe(new Set(namesOf(agents).values()).size);
  });
  it("has a share of each agent, copies left out, all beyond some as one", () => {
    expect(sharesOf(agents, "cost").map(({ agent, value }) => [agent?.id, value])).toEqual([["a", 9], ["root", 5], ["b", 1]]);
    const many = Array.from({ length: 30 }, (_, at) => agent(`x${at}`, { cost_micro_usd: 100 - at }));
    const shares = sharesOf(many, "cost");
    expect(shares.length).toBe(7);
    expect(shares.at(-1)).toEqual({ agent: null, name: "24 others", value: many.slice(6).reduce((sum, { cost_micro_usd }) => sum + (cost_micro_usd ?? 0), 0) });
  });
  it("counts who was at work from each moment on, those at work until now", () => {
    const all = [agent("root", { intervals: [[0, 10]] }), agent("a", { intervals: [[2, 4], [6, 8]] }), agent("b", { intervals: [[4, 5]], status: "running" }), agent("c", { intervals: [[0, 10]], flags: ["copied"] })];
    expect(atWork(all, 20)).toEqual({ at: [0, 2, 6, 8, 10, 20], agents: [1, 2, 3, 2, 1, 0] });
    expect(atWork([], 20)).toEqual({ at: [], agents: [] });
  });
  it("lists the slowest calls, those that start an agent left out", () => {
    const call = (id: string, from: number, to: number | null): ToolCall => ({ id, name: "Bash", status: "ok", started_at_ms: from, ended_at_ms: to }) as unknown as ToolCall;
    const all = [agent("root", { tools: [call("spawn", 0, 100), call("slow", 0, 50)] }), agent("a", { spawned_by: "spawn", tools: [call("mid", 1, 20), call("open", 1, null), call("none", 3, 3)] })];
    expect(slowest(all, 5).map(({ call, agent, ms }) => [call.id, agent.id, ms])).toEqual([["slow", "root", 50], ["mid", "a", 19]]);
    expect(slowest(all, 1).length).toBe(1);
  });
});

describe("a file in an editor", () => {
  const CODE = "vscode://file/{path}:{line}";
  it("has the address that the setting names", () => {
    expect(editorUrl(CODE, "/home/user/shop", "/home/user/shop/src/cart.js", 12)).toBe("vscode://file/home/user/shop/src/cart.js:12");
    expect(editorUrl(CODE, "/home/user/shop/", "src/cart.js", 0)).toBe("vscode://file/home/user/shop/src/cart.js:1");
    expect(editorUrl("idea://open?file={path}&line={line}", null, "/a b/ü.ts", 3)).toBe("idea://open?file=/a%20b/%C3%BC.ts&line=3");
    for (const none of [null, undefined, ""]) expect(editorUrl(none, "/home", "/a", 1)).toBe("");
    expect(editorUrl(CODE, null, "src/cart.js", 1)).toBe("");
  });
  it("keeps its scheme whatever a path has in it", () => {
    const hostile = ["/a?b=c#d", "/a&line=9", "/{line}", "/$&", "javascript:alert(1)", "//evil.example/x", "/a\"><b>", "/%2e%2e/x", "/a:99", "/a\\b", "vscode://settings"];
    for (const path of hostile) {
      const url = editorUrl(CODE, "/home", path, 7);
      expect(url, path).toMatch(/^vscode:\/\/file\/[^?#&"<>:\\ ]*:7$/);
      expect(new URL(url).protocol, path).toBe("vscode:");
    }
    for (const path of ["/a\u202eb", "/a\nb", "/a\u0000", "/\ud800", ""]) expect(editorUrl(CODE, null, path, 1), JSON.stringify(path)).toBe("");
  });
  it("is what a call reads or writes", () => {
    expect(fileIn({ file_path: "/a.ts", offset: 40, limit: 9 })).toEqual({ path: "/a.ts", line: 40 });
    expect(fileIn({ notebook_path: "/a.ipynb", offset: -3 })).toEqual({ path: "/a.ipynb", line: 1 });
    for (const none of [null, "x", { command: "ls" }, { file_path: 7 }, { file_path: "" }]) expect(fileIn(none)).toBeNull();
  });
});
