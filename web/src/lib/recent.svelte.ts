// Sessions: the list of all, and those that are live or were heard of a short time ago.
import type { SessionRow } from "../model";
import { api } from "./api";
import { clock } from "./clock.svelte";
import { store, type Shown } from "./store.svelte";

/** How long a session that has ended still counts as just ended: since it was last heard of, not since its own time. */
const RECENT_MS = 30 * 60_000;

/** Of how many just ended sessions the agents are shown at most: each is a tree that has to be asked for. */
const SHOWN = 20;

const PAGE = 200;

class Recent {
  rows: SessionRow[] = $state.raw([]);
  isKnown = $state(false);
  hasMore = $state(false);
  #next: string | null = null;
  #recent: SessionRow[] = $state.raw([]);
  #isAsking = false;
  #failed = new Set<string>();

  /** Sessions with known rows that are live or have just ended; live ones first, then the newest. */
  shown: Shown[] = $derived.by(() => {
    const kept = new Map(this.#recent.map((row) => [row.id, row]));
    const all = store.ids.flatMap((id) => store.get(id) ?? []);
    const limit = clock.now - RECENT_MS;
    const isRecent = (one: Shown): boolean => one.isLive || Math.max(one.heardAt, kept.get(one.id)?.kept_at_ms ?? 0) > limit;
    const last = (one: Shown): number => one.session.ended_at_ms ?? one.session.started_at_ms ?? 0;
    const order = (one: Shown): [number, number] => [one.isLive ? 1 : 0, last(one)];
    return all.filter(isRecent).sort((one, other) => {
      const [[live, at], [otherLive, otherAt]] = [order(one), order(other)];
      return otherLive - live || otherAt - at;
    });
  });

  start(): void {
    if (!api.isServed) {
      this.isKnown = true;
      return;
    }
    // What is new is told by the stream; the list is only its index.
    $effect.root(() => {
      $effect(() => {
        void store.ids;
        void store.epoch;
        void store.isCaughtUp;
        void this.#ask();
      });
    });
    setInterval(() => void this.#ask(), 10_000);
  }

  async more(): Promise<void> {
    if (this.#next === null) return;
    const page = await api.sessions({ after: this.#next, limit: PAGE });
    this.#next = page.next;
    this.hasMore = page.next !== null;
    this.rows = [...this.rows, ...page.sessions];
  }

  async #ask(): Promise<void> {
    if (this.#isAsking || store.state === "refused") return;
    this.#isAsking = true;
    try {
      const [page, recent] = await Promise.all([
        api.sessions({ limit: PAGE }),
        api.sessions({ recent: true, limit: SHOWN }),
      ]);
      const further = this.rows.length > PAGE ? this.rows.filter((row) => !page.sessions.some(({ id }) => id === row.id)) : [];
      this.rows = [...page.sessions, ...further];
      if (further.length === 0) {
        this.#next = page.next;
        this.hasMore = page.next !== null;
      }
      this.#recent = recent.sessions;
      const missing = recent.sessions.filter(({ id }) => !store.get(id) && !this.#failed.has(id));
      await Promise.all(missing.map(({ id }) => store.load(id).catch(() => this.#failed.add(id))));
      this.isKnown = true;
    } catch {
      // The hub does not answer: the stream says so, and this is asked again.
    } finally {
      this.#isAsking = false;
    }
  }
}

export const recent = new Recent();
