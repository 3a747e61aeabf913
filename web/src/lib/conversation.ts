// A session as one conversation: what the main agent said and did, and below each call what the agents did that it started.
import type { Agent } from "../model";
import { parallel, type Part } from "./story";

/** A line of a conversation. */
export interface Line {
  /** Unique: ids have no line breaks. */
  key: string;
  agent: Agent;
  /** How many agents are above this one on the screen. */
  depth: number;
  /** What the agent said or did; null for the line that names the agent. */
  part: Part | null;
  /** The number of calls that ran at the same time as this one, on the first of them. */
  calls: number | undefined;
}

/**
 * Returns the lines of a session's agents, given in the order of the tree. An agent stands below the call that started it;
 * where no call is known, at the time at which it began. The lines of an agent follow its name if it is unfolded.
 */
export function conversation(agents: Agent[], isUnfolded: (agent: string) => boolean, partsOf: (agent: Agent) => Part[]): Line[] {
  const ids = new Set(agents.map(({ id }) => id));
  const below = new Map<string, Agent[]>();
  const tops: Agent[] = [];
  for (const agent of agents) {
    const { parent_id: parent } = agent;
    if (parent === null || !ids.has(parent)) tops.push(agent);
    else below.set(parent, [...(below.get(parent) ?? []), agent]);
  }
  const lines: Line[] = [];

  /** Adds what an agent said and did, with the agents that it started. */
  const tell = (agent: Agent, depth: number): void => {
    const parts = partsOf(agent);
    const groups = parallel(parts);
    const calls = new Set(parts.flatMap((part) => (part.kind === "tool" && part.call.id !== null ? [part.call.id] : [])));
    const started = below.get(agent.id) ?? [];
    const isOfCall = ({ spawned_by: call }: Agent): boolean => call !== null && calls.has(call);
    let others = started.filter((one) => !isOfCall(one));
    for (const part of parts) {
      const earlier = others.filter(({ started_at_ms: start }) => start !== null && part.at !== null && start < part.at);
      others = others.filter((one) => !earlier.includes(one));
      for (const one of earlier) name(one, depth);
      lines.push({ key: `${agent.id}\n${part.key}`, agent, depth, part, calls: groups.get(part.key) });
      if (part.kind !== "tool" || part.call.id === null) continue;
      // Each call stands once: a repeated one must not show its agents again.
      if (!calls.delete(part.call.id)) continue;
      for (const one of started) if (one.spawned_by === part.call.id) name(one, depth);
    }
    for (const one of others) name(one, depth);
  };
  /** Adds the line that names an agent; if it is unfolded, with all of its own. */
  const name = (agent: Agent, above: number): void => {
    lines.push({ key: agent.id, agent, depth: above + 1, part: null, calls: undefined });
    if (isUnfolded(agent.id)) tell(agent, above + 1);
  };

  for (const top of tops) {
    if (top.id === "root") tell(top, 0);
    else name(top, -1);
  }
  return lines;
}
