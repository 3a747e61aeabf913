// Sums of what a session's agents spent, and when they were at work.
import type { Agent, Spending, ToolCall } from "../model";
import { greatest, type Measure, type Stack } from "./stats";
import { title } from "./words";

export interface Spent {
  /** Starts of spans, without gaps. */
  moments: number[];
  stacks: Stack[];
}

/** Names by agent; equal names are numbered, since a legend has each once. */
export function namesOf(agents: Agent[]): Map<string, string> {
  const used = new Map<string, number>();
  return new Map(
    agents.map((agent) => {
      const name = title(agent).slice(0, 80);
      const number = (used.get(name) ?? 0) + 1;
      used.set(name, number);
      return [agent.id, number === 1 ? name : `${name} (${number})`];
    }),
  );
}

/** What each agent spent by span of time, up to a moment; the greatest agents first, all others as one. */
export function spentOver({ span_ms, spans }: Spending, agents: Agent[], measure: Measure, until: number | null): Spent {
  const known = spans.filter(({ at_ms }) => until === null || at_ms <= until);
  const [first, last] = [known[0]?.at_ms, known.at(-1)?.at_ms];
  if (first === undefined || last === undefined) return { moments: [], stacks: [] };
  const moments = Array.from({ length: Math.round((last - first) / span_ms) + 1 }, (_, at) => first + at * span_ms);
  const names = namesOf(agents);
  const stacks = new Map<string, Stack>();
  for (const { at_ms, agent_id, cost_micro_usd, total_tokens } of known) {
    const value = measure === "cost" ? cost_micro_usd : total_tokens;
    if (value === 0) continue;
    const stack = stacks.get(agent_id) ?? { name: names.get(agent_id) ?? agent_id, values: new Array<number>(moments.length).fill(0), total: 0 };
    stacks.set(agent_id, stack);
    const place = Math.round((at_ms - first) / span_ms);
    stack.values[place] = (stack.values[place] ?? 0) + value;
    stack.total += value;
  }
  return { moments, stacks: greatest([...stacks.values()]) };
}

export interface Share {
  /** The agent; null for all others together. */
  agent: Agent | null;
  name: string;
  value: number;
}

/** What each agent has spent in all; the greatest first, all others as one. A copy is counted where its original is. */
export function sharesOf(agents: Agent[], measure: Measure): Share[] {
  const value = (agent: Agent): number => (measure === "cost" ? (agent.cost_micro_usd ?? 0) : (agent.usage?.total_tokens ?? 0));
  const own = agents.filter((agent) => !agent.flags.includes("copied") && value(agent) > 0);
  const names = namesOf(own);
  const stacks = greatest(own.map((agent) => ({ name: agent.id, values: [], total: value(agent) })));
  const by = new Map(own.map((agent) => [agent.id, agent]));
  return stacks.map(({ name, total }) => ({ agent: by.get(name) ?? null, name: names.get(name) ?? name, value: total }));
}

/** How many agents were at work from each moment on; those that are at work now are until `now`. */
export function atWork(agents: Agent[], now: number): { at: number[]; agents: number[] } {
  const edges = new Map<number, number>();
  const add = (at: number, by: number): void => void edges.set(at, (edges.get(at) ?? 0) + by);
  for (const agent of agents) {
    if (agent.flags.includes("copied")) continue;
    const isOpen = agent.status === "running" && agent.liveness?.kind !== "idle";
    for (const [place, [from, to]] of agent.intervals.entries()) {
      const end = isOpen && place + 1 === agent.intervals.length ? Math.max(to, now) : to;
      if (end <= from) continue;
      add(from, 1);
      add(end, -1);
    }
  }
  let count = 0;
  const steps: { at: number[]; agents: number[] } = { at: [], agents: [] };
  for (const [at, by] of [...edges].sort(([one], [other]) => one - other)) {
    if (by === 0) continue;
    count += by;
    steps.at.push(at);
    steps.agents.push(count);
  }
  return steps;
}

/** The slowest calls that have ended. Calls that start an agent are left out: their time is the agent's. */
export function slowest(agents: Agent[], limit: number): { agent: Agent; call: ToolCall; ms: number }[] {
  const spawns = new Set(agents.flatMap(({ spawned_by }) => spawned_by ?? []));
  return agents
    .filter((agent) => !agent.flags.includes("copied"))
    .flatMap((agent) =>
      agent.tools.flatMap((call) => {
        const { id, started_at_ms, ended_at_ms } = call;
        if (started_at_ms === null || ended_at_ms === null || ended_at_ms <= started_at_ms || (id !== null && spawns.has(id))) return [];
        return [{ agent, call, ms: ended_at_ms - started_at_ms }];
      }),
    )
    .sort((one, other) => other.ms - one.ms || (one.call.started_at_ms ?? 0) - (other.call.started_at_ms ?? 0))
    .slice(0, limit);
}
