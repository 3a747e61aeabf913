// Sessions: the list of all, and those that are live or were updated recently.
import { untrack } from "svelte";
import type { SessionRow } from "../model";
import { api } from "./api";
import { byAttention } from "./attention";
import { clock } from "./clock.svelte";
import { store, type Shown } from "./store.svelte";

/** How long an ended session counts as just ended, from the time its last update was received (not the time of its last event). */
const RECENT_MS = 30 * 60_000;

/** Most just ended sessions whose agents are loaded: each costs one request for a tree. */
const SHOWN = 20;

const PAGE = 200;

/** Interval of requests for the list; longer for a team, which has many readers, and whose rows are up to ten seconds old. */
const PACE_MS = 10_000;
const TEAM_PACE_MS = 30_000;

/** Sessions whose listed fields contain all words, page by page; all sessions if there are no words. */
export class Pages {
  rows: SessionRow[] = $state.raw([]);
  /** Whether the server has answered. */
  isKnown = $state(false);
  hasMore = $state(false);
  #next: string | null = null;
  #isAsking = false;

  constructor(readonly words: string) {}

  /** Fetches the first page, or refreshes it. */
  async refresh(): Promise<void> {
    const page = await api.sessions({ limit: PAGE, ...this.#query });
    const further = this.rows.length > PAGE ? this.rows.filter((row) => !page.sessions.some(({ id }) => id === row.id)) : [];
    this.rows = [...page.sessions, ...further];
    if (further.length === 0) this.#ends(page.next);
    this.isKnown = true;
  }

  /** Fetches the next page. */
  async more(): Promise<void> {
    if (this.#next === null || this.#isAsking) return;
    this.#isAsking = true;
    try {
      const page = await api.sessions({ after: this.#next, limit: PAGE, ...this.#query });
      const known = new Set(this.rows.map(({ id }) => id));
      this.rows = [...this.rows, ...page.sessions.filter(({ id }) => !known.has(id))];
      this.#ends(page.next);
    } catch {
      // The hub does not answer: the next scroll of the list retries.
    } finally {
      this.#isAsking = false;
    }
  }

  get #query(): { q?: string } {
    return this.words === "" ? {} : { q: this.words };
  }

  #ends(next: string | null): void {
    this.#next = next;
    this.hasMore = next !== null;
  }
}

class Recent {
  readonly pages = new Pages("");
  isKnown = $state(false);
  #recent: SessionRow[] = $state.raw([]);
  #isAsking = false;
  /** Whether something changed while the list was fetched. */
  #isStale = false;
  /** Sessions that are in the list, or were known when it was last requested. */
  #listed: ReadonlySet<string> = $state.raw(new Set());
  #failed = new Set<string>();

  /** Sessions with known rows that are live or have just ended, the most urgent first. */
  shown: Shown[] = $derived.by(() => {
    const kept = new Map(this.#recent.map((row) => [row.id, row]));
    const all = store.ids.flatMap((id) => store.get(id) ?? []);
    const limit = clock.now - RECENT_MS;
    const isRecent = (one: Shown): boolean => one.isLive || Math.max(one.heardAt, kept.get(one.id)?.kept_at_ms ?? 0) > limit;
    return all
      .filter(isRecent)
      .map((one) => ({ one, row: one.row() }))
      .sort((one, other) => byAttention(one.row, other.row))
      .map(({ one }) => one);
  });

  start(): void {
    if (!api.isServed) {
      this.isKnown = true;
      return;
    }
    // The stream delivers changes of rows; the list is fetched again when a live session is not in it, and periodically.
    $effect.root(() => {
      $effect(() => {
        if (store.epoch > 0) untrack(() => void this.#ask());
      });
      $effect(() => {
        const isListed = store.ids.every((id) => this.#listed.has(id) || untrack(() => !store.get(id)?.isLive));
        if (this.isKnown && !isListed) untrack(() => void this.#ask());
      });
    });
    setInterval(() => void this.#ask(), api.isTeam ? TEAM_PACE_MS : PACE_MS);
  }

  async #ask(): Promise<void> {
    if (store.state === "refused") return;
    if (this.#isAsking) return void (this.#isStale = true);
    [this.#isAsking, this.#isStale] = [true, false];
    const before = store.ids;
    try {
      // The sessions of a team are listed without their agents.
      const ended = api.isTeam ? { sessions: [] } : api.sessions({ recent: true, limit: SHOWN });
      const [, recent] = await Promise.all([this.pages.refresh(), ended]);
      this.#recent = recent.sessions;
      this.#listed = new Set([...before, ...this.pages.rows.map(({ id }) => id)]);
      const missing = recent.sessions.filter(({ id }) => !store.get(id) && !this.#failed.has(id));
      await Promise.all(missing.map(({ id }) => store.load(id).catch(() => this.#failed.add(id))));
      this.isKnown = true;
    } catch {
      // The hub does not answer: the stream reports it, and the timer retries.
    } finally {
      this.#isAsking = false;
    }
    if (this.#isStale) void this.#ask();
  }
}

export const recent = new Recent();
