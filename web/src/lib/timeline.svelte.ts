// The timeline of the session on show: fetched completely once, then only the lanes that changed.
import { api, type Lane, type Timeline } from "./api";

/** Delay from a change to the next request for lanes. */
const PACE_MS = 800;

export class Timelines {
  timeline: Timeline | null = $state.raw(null);
  error = $state("");
  #of = "";
  #isAsking = false;
  #isStale = false;
  #alarm: ReturnType<typeof setTimeout> | undefined;

  /** Shows a session's timeline. One that is loaded is only updated. */
  show(session: string): void {
    if (session !== this.#of) {
      this.timeline = null;
      this.#of = session;
      clearTimeout(this.#alarm);
      this.#alarm = undefined;
      this.#isAsking = false;
      void this.#ask(session, false);
    } else if (this.#isAsking) {
      this.#isStale = true;
    } else {
      this.#alarm ??= setTimeout(() => {
        this.#alarm = undefined;
        void this.#ask(session, true);
      }, PACE_MS);
    }
  }

  async #ask(session: string, isMore: boolean): Promise<void> {
    this.#isAsking = true;
    this.#isStale = false;
    try {
      const known = isMore ? this.timeline : null;
      const answer = await api.timeline(session, known?.rev ?? undefined);
      if (session !== this.#of) return;
      this.timeline = known ? merged(known, answer) : answer;
      this.error = "";
    } catch (error) {
      if (session !== this.#of) return;
      this.error = error instanceof Error ? error.message : String(error);
    }
    this.#isAsking = false;
    if (this.#isStale) this.show(session);
  }
}

/** Replaces the lanes that the answer contains. */
export function merged(known: Timeline, answer: Timeline): Timeline {
  const lanes = new Map<string, Lane>(known.lanes.map((lane) => [lane.agent_id, lane]));
  for (const lane of answer.lanes) lanes.set(lane.agent_id, lane);
  return { ...answer, rev: Math.max(answer.rev ?? 0, known.rev ?? 0), lanes: [...lanes.values()] };
}
