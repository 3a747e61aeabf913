// The last ten minutes of a session, as the terminal UI's mission control shows them (`lane` in crates/tui/src/view/mission.rs).
import type { Agent } from "../model";
import { isAtWork } from "./words";

export const LANE_MS = 600_000;
/** Least number of agents at work that fill the height of a lane. */
const FULL_LANE = 8;

export interface RecentStep {
  /** How many agents were at work on average: a share of the most, or of eight if they are fewer. */
  share: number;
  /** Whether an agent failed in it. */
  hasFailed: boolean;
}

/** The steps of equal length until `end`. The last interval of an agent at work extends to then. */
export function recentLane(agents: Agent[], end: number, steps: number): RecentStep[] {
  const from = end - LANE_MS;
  const step = LANE_MS / steps;
  const busy = new Array<number>(steps).fill(0);
  const failed = new Set<number>();
  for (const agent of agents) {
    if (agent.flags.includes("copied")) continue;
    const last = agent.intervals.length - 1;
    agent.intervals.forEach(([begin, until], at) => {
      const to = at === last && isAtWork(agent) ? end : until;
      const first = Math.max(0, Math.floor((begin - from) / step));
      for (let one = first; one < Math.min(steps, Math.ceil((to - from) / step)); one++) {
        const start = from + one * step;
        busy[one] = (busy[one] ?? 0) + Math.max(0, Math.min(to, start + step) - Math.max(begin, start));
      }
    });
    if (agent.status === "failed" && agent.ended_at_ms !== null) failed.add(Math.floor((agent.ended_at_ms - from) / step));
  }
  const full = Math.max(step * FULL_LANE, ...busy);
  return busy.map((sum, at) => ({ share: sum / full, hasFailed: failed.has(at) }));
}
