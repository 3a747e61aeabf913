// Arrows between lanes: from the call that starts an agent to the agent, and from the agent's end back to its parent.
import type { Agent } from "../model";
import type { Layout, Row } from "./layout";

export interface Arrow {
  /** From the call that started the agent to it, or from its end back to its parent. */
  kind: "start" | "back";
  agent: string;
  /** Paths, in pixels from the first row. */
  line: string;
  head: string;
}

/** How far a head reaches. */
const HEAD = 4;

/** The arrows of an agent; `x` maps a time to pixels. No arrow starts or ends at an agent without a row. */
export function arrowsOf(agent: Agent, layout: Layout, x: (moment: number) => number): Arrow[] {
  const own = layout.find(agent.id, null);
  const parent = agent.parent_id === null ? undefined : layout.find(agent.parent_id, agent.spawned_by);
  if (!own || !parent || agent.started_at_ms === null) return [];
  const call = parent.agent.tools.find(({ id }) => id !== null && id === agent.spawned_by);
  const [above, below] = [middle(parent), middle(own)];
  const begin = x(agent.started_at_ms);
  const from = Math.min(begin, x(call?.started_at_ms ?? agent.started_at_ms));
  const all: Arrow[] = [{ kind: "start", agent: agent.id, ...arrow(from, above, begin, below) }];
  const [end, on] = [agent.ended_at_ms, call?.ended_at_ms ?? null];
  // A parent that did not wait for the agent had already continued: no arrow back.
  if (!agent.background && end !== null && on !== null && on >= end) all.push({ kind: "back", agent: agent.id, ...arrow(x(end), below, x(on), above) });
  return all;
}

const middle = ({ top, height }: Row): number => Math.round(top + height / 2) + 0.5;

/** A path along the first lane, then to the second one, with a head at its end. */
function arrow(fromX: number, fromY: number, toX: number, toY: number): Pick<Arrow, "line" | "head"> {
  const [left, right] = [fromX, toX].map((at) => Math.round(at * 2) / 2) as [number, number];
  const isFlat = right - left > 2 * HEAD && toY > fromY;
  const [back, up] = [HEAD, toY > fromY ? -HEAD : HEAD];
  if (isFlat) {
    return { line: `M${left} ${fromY}V${toY}H${right}`, head: `M${right - back} ${toY - HEAD}L${right} ${toY}L${right - back} ${toY + HEAD}` };
  }
  return { line: `M${left} ${fromY}H${right}V${toY}`, head: `M${right - HEAD} ${toY + up}L${right} ${toY}L${right + HEAD} ${toY + up}` };
}
