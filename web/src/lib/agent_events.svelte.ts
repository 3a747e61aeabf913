// The events of one agent: fetched once, later ones arrive by the stream.
import type { Event } from "../model";
import { api } from "./api";
import { actor, store } from "./store.svelte";

export class AgentEvents {
  readonly session: string;
  readonly agent: string;
  /** Whether an answer has arrived, or the request failed: the agent's row is all there is then. */
  isAsked = $state(false);
  #asked: Event[] = $state.raw([]);
  #epoch = 0;

  constructor(session: string, agent: string) {
    this.session = session;
    this.agent = agent;
  }

  /**
   * Fetches them, unless they are up to date. An effect calls it: after a reset of the stream they are fetched again, and
   * the old ones stay until the answer has arrived.
   */
  fetch(): void {
    store.hold(this.session);
    const { epoch } = store;
    if (epoch === 0 || epoch === this.#epoch) return;
    this.#epoch = epoch;
    api.feed(this.session, { agent: this.agent, limit: 10_000 }).then(
      ({ events }) => {
        if (epoch !== this.#epoch) return;
        this.#asked = events;
        this.isAsked = true;
      },
      () => (this.isAsked = true),
    );
  }

  /** Those up to a time; all for null. */
  until(at: number | null): Event[] {
    const own = actor(this.agent);
    const seen = new Set(this.#asked.map((event) => event.id));
    const live = (store.held?.session === this.session ? store.held.events : []).filter(
      (event) => event.actor_id === own && !seen.has(event.id),
    );
    const all = [...this.#asked, ...live];
    return at === null ? all : all.filter((event) => event.at_ms === null || event.at_ms <= at);
  }
}
