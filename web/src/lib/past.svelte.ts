// The rows of the replayed time.
import type { Agent, Summary } from "../model";
import { api, Refused } from "./api";

/** Interval of requests: the server derives each answer from the session's whole past. */
const PACE_MS = 250;
/** Delay after a failure. */
const RETRY_MS = 1000;

interface Wanted {
  session: string;
  at: number;
}

interface Moment extends Wanted {
  /** In the order of the tree. */
  agents: Agent[];
  summary: Summary | null;
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

class Past {
  /** The last moment that was answered; null for the present. */
  shown: Moment | null = $state.raw(null);
  #wanted: Wanted | null = null;
  #isAsking = false;

  /** Shows a time, or the present for null. Of the times set during a request only the last one is requested. */
  show(session: string, at: number | null): void {
    this.#wanted = at === null ? null : { session, at: Math.round(at) };
    if (at === null || this.shown?.session !== session) this.shown = null;
    if (!this.#isAsking) void this.#ask();
  }

  async #ask(): Promise<void> {
    this.#isAsking = true;
    for (let wanted = this.#wanted; wanted && !this.#shows(wanted); wanted = this.#wanted) {
      const begin = performance.now();
      const { session, at } = wanted;
      let wait = PACE_MS;
      try {
        const { agents, summary } = await api.tree(session, at).catch(nothingYet);
        if ((this.#wanted as Wanted | null)?.session === session) this.shown = { session, at, agents, summary };
      } catch {
        wait = RETRY_MS;
      }
      await sleep(wait - (performance.now() - begin));
    }
    this.#isAsking = false;
  }

  #shows({ session, at }: Wanted): boolean {
    return this.shown?.session === session && this.shown.at === at;
  }
}

/** A time before the session's first line gives 404: show no agents. */
function nothingYet(error: unknown): { agents: Agent[]; summary: null } {
  if (error instanceof Refused && error.status === 404) return { agents: [], summary: null };
  throw error;
}

export const past = new Past();
