// Sums of a session's rows by group. The server decides which row counts where.
import type { Agent } from "../model";

export interface Sum {
  name: string;
  /** Subagents: the main agent is the session. */
  agents: number;
  calls: number;
  errors: number;
  denied: number;
  busyMs: number;
  tokens: number;
  cost: number | null;
  floor: boolean;
}

const empty = (name: string): Sum => ({
  name, agents: 0, calls: 0, errors: 0, denied: 0, busyMs: 0, tokens: 0, cost: null, floor: false,
});

function gathered(rows: Agent[], name: (agent: Agent) => string): Sum[] {
  const by = new Map<string, Sum>();
  for (const agent of rows) {
    // A copy is counted where its original is.
    if (agent.flags.includes("copied")) continue;
    const of = name(agent);
    const sum = by.get(of) ?? empty(of);
    by.set(of, sum);
    sum.agents += agent.id === "root" ? 0 : 1;
    sum.calls += agent.tool_calls;
    sum.errors += agent.tool_errors;
    sum.denied += agent.tools_denied;
    sum.busyMs += agent.wall_ms ?? 0;
    sum.tokens += agent.usage?.total_tokens ?? 0;
    sum.floor ||= agent.cost_floor || (agent.cost_micro_usd === null && (agent.usage?.total_tokens ?? 0) > 0);
    if (agent.cost_micro_usd !== null) sum.cost = (sum.cost ?? 0) + agent.cost_micro_usd;
  }
  return [...by.values()].sort((one, other) => other.tokens - one.tokens || other.busyMs - one.busyMs);
}

export const byType = (rows: Agent[]): Sum[] =>
  gathered(rows, (agent) => (agent.id === "root" ? "main" : (agent.type ?? agent.name ?? "unknown")));

export const byModel = (rows: Agent[]): Sum[] => gathered(rows, (agent) => agent.model ?? "unknown");

export function byTool(rows: Agent[]): Sum[] {
  const by = new Map<string, Sum>();
  for (const agent of rows) {
    if (agent.flags.includes("copied")) continue;
    for (const call of agent.tools) {
      const sum = by.get(call.name) ?? empty(call.name);
      by.set(call.name, sum);
      sum.calls += 1;
      if (call.status === "error") sum.errors += 1;
      if (call.status === "denied") sum.denied += 1;
      if (call.started_at_ms !== null && call.ended_at_ms !== null) sum.busyMs += call.ended_at_ms - call.started_at_ms;
    }
  }
  return [...by.values()].sort((one, other) => other.calls - one.calls);
}
