// The clock of timers (one tick a second), and the time of the rows on show.
import { carriedTree } from "./api";
import { past } from "./past.svelte";
import { router } from "./route.svelte";
import { store } from "./store.svelte";

class Clock {
  /** This machine's clock, by the second. */
  wall = $state(Date.now());

  /** The time up to which the rows are current: it stops while the hub is disconnected, and in a saved page. */
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
