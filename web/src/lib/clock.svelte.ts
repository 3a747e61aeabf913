// The seconds that timers count, and the moment that is on show.
import { carriedTree } from "./api";
import { past } from "./past.svelte";
import { router } from "./route.svelte";
import { store } from "./store.svelte";

class Clock {
  /** This machine's clock, by the second. */
  wall = $state(Date.now());

  /** The present as far as it is known: it stands still while the hub is not heard, and in a saved page. */
  now = $derived.by(() => {
    if (carriedTree) return carriedTree.session.ended_at_ms ?? this.wall;
    return store.heardAt > 0 && store.state !== "live" ? store.heardAt : this.wall;
  });

  /** The moment of the rows on show: the one that is replayed, else the present. */
  shown = $derived(router.route.t === null ? this.now : (past.shown?.at ?? router.route.t));

  start(): void {
    setInterval(() => (this.wall = Date.now()), 1000);
  }
}

export const clock = new Clock();
