// How far the hub has read.
import type { Health, ReadingProgress } from "../model";
import { api } from "./api";
import { Polled } from "./polled.svelte";
import { store } from "./store.svelte";

/** Interval at which the hub is asked, while it reads and else: a command may name another folder. */
const [READING_PACE_MS, PACE_MS] = [1_000, 10_000];

class Reading {
  #polled: Polled<Health> | undefined;

  start(): void {
    $effect.root(() => {
      // A new stream may be that of another hub.
      this.#polled = new Polled(
        () => (api.isServed && !api.isTeam && store.state === "live" ? String(store.epoch) : null),
        () => api.health(),
        (answer) => (answer?.is_reading ? READING_PACE_MS : PACE_MS),
      );
    });
  }

  /** How far it is; null once everything is read, and while the hub does not say. */
  get progress(): ReadingProgress | null {
    return this.#polled?.answer?.reading ?? null;
  }
}

export const reading = new Reading();
