// The rows of the moment that is replayed.
import type { Agent, Summary } from "../model";
import { api, Refused } from "./api";

/** At most four moments a second are asked for: each is derived from everything before it. */
const PACE_MS = 250;
/** How long is waited after a failure. */
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

  /** Shows a moment, or the present. Moments that pass while one is asked for are left out, the last one never. */
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

/** Before its first line there is nothing of a session. */
function nothingYet(error: unknown): { agents: Agent[]; summary: null } {
  if (error instanceof Refused && error.status === 404) return { agents: [], summary: null };
  throw error;
}

export const past = new Past();
