import { describe, expect, it } from "vitest";
import type { Agent, ToolCall } from "../src/model";
import { conversation } from "../src/lib/conversation";
import type { Part } from "../src/lib/story";

const agent = (id: string, parent: string | null, more: Partial<Agent> = {}): Agent =>
  ({ id, parent_id: parent, spawned_by: null, started_at_ms: null, ...more }) as Agent;
const said = (key: string, at: number): Part => ({ kind: "message", key, at, text: key });
const called = (id: string, at: number): Part =>
  ({ kind: "tool", key: `call ${id}`, at, input: undefined, result: undefined, call: { id, started_at_ms: at, ended_at_ms: at } as ToolCall });

/** Lines as text: depth, and the agent in brackets or its part. */
const shown = (agents: Agent[], unfolded: string[], parts: Record<string, Part[]>): string[] =>
  conversation(agents, (id) => unfolded.includes(id), ({ id }) => parts[id] ?? []).map(
    ({ depth, agent, part }) => `${depth} ${part === null ? `[${agent.id}]` : part.key}`,
  );

describe("a conversation", () => {
  const agents = [
    agent("root", null),
    agent("a", "root", { spawned_by: "1" }),
    agent("b", "a", { spawned_by: "2" }),
    agent("c", "root", { started_at_ms: 25 }),
    agent("d", "root", { spawned_by: "gone" }),
  ];
  const parts = {
    root: [said("x", 10), called("1", 20), said("y", 30), called("1", 40)],
    a: [called("2", 21), said("z", 22)],
    b: [said("deep", 21)],
  };
  it("names an agent below the call that started it, else at the time of its start, else at the end; each once", () => {
    expect(shown(agents, [], parts)).toEqual(["0 x", "0 call 1", "1 [a]", "1 [c]", "0 y", "0 call 1", "1 [d]"]);
  });
  it("unfolds agents in place, at any depth", () => {
    expect(shown(agents, ["a", "b"], parts)).toEqual([
      "0 x", "0 call 1", "1 [a]", "1 call 2", "2 [b]", "2 deep", "1 z", "1 [c]", "0 y", "0 call 1", "1 [d]",
    ]);
  });
  it("begins with the names where no agent is the main one, or a parent is not known", () => {
    expect(shown([agent("p", null), agent("q", "unknown")], ["q"], { q: [said("w", 1)] })).toEqual(["0 [p]", "0 [q]", "0 w"]);
  });
  it("gives each line a key of its own", () => {
    const lines = conversation(agents, () => true, ({ id }) => (parts as Record<string, Part[]>)[id] ?? []);
    const keys = lines.map(({ key }) => key);
    // A story itself gives no key twice; this one repeats a call.
    expect(new Set(keys).size).toBe(keys.length - 1);
  });
});
