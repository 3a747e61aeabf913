// The only store of rows, filled from snapshots and from the stream. Views read it and do not change it.
//
// Updates are applied at once and rendered in batches: a burst of a thousand changes is one redraw.
import { untrack } from "svelte";
import type { Agent, Attention, Change, Event, MissedData, Session, SessionRow, Summary, Tree } from "../model";
import { api, carriedTree, Refused } from "./api";
import { at } from "./base";
import { Live, type State } from "./live";
import { router } from "./route.svelte";
import { Rows } from "./rows";
import type { Message } from "./sse";
import { title } from "./words";

/** Longest delay from an update to its rendering: a frame or two. */
const SHOWN_AFTER_MS = 30;

/** Most events kept of the session on show; older ones are fetched again when needed. */
const HELD_EVENTS = 20_000;

/** A session as views see it. */
export class Shown {
  readonly id: string;
  session: Session = $state.raw() as Session;
  summary: Summary = $state.raw() as Summary;
  /** In the order of the tree. */
  agents: Agent[] = $state.raw([]);
  /** When the stream last delivered an update of it. */
  heardAt = $state(0);
  rows: Rows;

  constructor(tree: Tree) {
    this.id = tree.session.id;
    this.rows = new Rows(tree);
    this.show();
  }

  show(): void {
    this.session = this.rows.session;
    this.summary = this.rows.summary;
    this.agents = this.rows.agents;
  }

  get attention(): Attention {
    return this.summary.attention;
  }

  get isLive(): boolean {
    return this.attention !== "ended";
  }

  /** The first prompt; of a session without one, what its main agent is called, else its first subagent. */
  get title(): string | null {
    const first = this.agents.find(({ id }) => id !== "root");
    if (this.session.title !== null || !first) return this.session.title;
    const asked = first.description === null ? first.prompt?.split("\n").find((line) => line.trim() !== "") : undefined;
    return asked === undefined ? title(first) : `${title(first)}: ${asked.trim().slice(0, 120)}`;
  }

  /** Its current row in a list; replaces a fetched one. */
  row(before?: SessionRow): SessionRow {
    const { session, summary } = this;
    const root = this.agents.find(({ id }) => id === "root");
    return {
      ...session,
      title: this.title ?? before?.title ?? null,
      status: this.isLive ? "live" : "ended",
      attention: summary.attention,
      ...(summary.need ? { need: summary.need } : {}),
      last_event_at_ms: session.ended_at_ms,
      agents: summary.agents,
      running: summary.running,
      failed: summary.failed,
      tool_calls: summary.tool_calls,
      tool_errors: summary.tool_errors,
      tools_denied: summary.tools_denied,
      usage: summary.usage,
      cost_micro_usd: summary.cost_micro_usd,
      cost_floor: summary.cost_floor,
      ...(root ? { root: root.status } : {}),
    };
  }
}

/** Events of one session, each once, in order of time. */
export class Held {
  readonly session: string;
  events: Event[] = $state.raw([]);
  #ids = new Set<string>();
  #fresh: Event[] = [];

  constructor(session: string) {
    this.session = session;
  }

  add(events: Event[]): void {
    for (const event of events) {
      if (this.#ids.has(event.id)) continue;
      this.#ids.add(event.id);
      this.#fresh.push(event);
    }
  }

  show(): void {
    if (this.#fresh.length === 0) return;
    const fresh = this.#fresh;
    this.#fresh = [];
    const last = this.events.at(-1)?.at_ms ?? 0;
    const isBehind = fresh.every((event) => (event.at_ms ?? last) >= last);
    const all = [...this.events, ...fresh];
    if (!isBehind) all.sort((one, other) => (one.at_ms ?? 0) - (other.at_ms ?? 0));
    this.events = all.slice(-HELD_EVENTS);
  }
}

/** Converts an agent's id to the actor of events. */
export const actor = (agent: string): string => (agent === "root" ? "agent:root" : `subagent:${agent}`);

class Store {
  /** Ids of the sessions with rows, the most recently reported ones first. */
  ids: string[] = $state.raw([]);
  state: State = $state("connecting");
  /** When the hub last sent something, by this machine's clock. */
  heardAt = $state(0);
  isCaughtUp = $state(false);
  /** Number of events dropped because this page was too slow. */
  missed = $state(0);
  /** The events of the session on show. */
  held: Held | null = $state.raw(null);
  /** Incremented where the stream begins, and by each loss of events: what was fetched before is out of date. What is fetched
   * at an epoch misses no event. 0 until the stream has begun, or cannot be opened. */
  epoch = $state(0);

  #sessions = new Map<string, Shown>();
  #dirty = new Set<string>();
  #alarm: ReturnType<typeof setTimeout> | undefined;
  #watchers = new Set<(event: Event) => void>();
  #live: Live | undefined;
  #epochs = 0;
  /** Requests for trees that are under way, by session. */
  #loading = new Map<string, Promise<void>>();

  start(): void {
    if (carriedTree) {
      this.#replace(carriedTree);
      this.#show();
      this.state = "live";
      this.#nextEpoch();
    } else if (api.isTeam) {
      // A team has too many sessions to follow all of them: follow the one on show.
      const shown = $derived(router.route.name === "session" ? router.route.session : "");
      $effect.root(() => {
        $effect(() => {
          const address = at(`/api/v1/live?session=${encodeURIComponent(shown)}`);
          untrack(() => this.#follow(address));
        });
      });
    } else {
      this.#follow(at("/api/v1/live"));
    }
  }

  /** Follows a stream instead of the current one. */
  #follow(address: string): void {
    this.#live?.stop();
    this.epoch = 0;
    const live: Live = new Live(
      {
        heard: (state) => {
          if (live !== this.#live) return;
          if (state !== this.state) this.state = state;
          // The page shows it in seconds: do not re-render more often.
          if (state === "live" && Date.now() - this.heardAt > 500) this.heardAt = Date.now();
          // Without a stream the page still shows what can be fetched.
          if (state === "lost" && this.epoch === 0) this.#nextEpoch();
        },
        began: () => live === this.#live && this.#begin(),
        received: (message) => live === this.#live && this.#receive(message),
      },
      address,
    );
    this.#live = live;
    void live.follow();
  }

  get(session: string): Shown | undefined {
    // Registers the dependency: the result changes with the set of sessions.
    void this.ids;
    return this.#sessions.get(session);
  }

  /** Fetches a session's rows, also if it has some. Callers at the same time share one request. */
  load(session: string): Promise<void> {
    let loading = this.#loading.get(session);
    if (!loading) {
      loading = this.#load(session).finally(() => this.#loading.get(session) === loading && this.#loading.delete(session));
      this.#loading.set(session, loading);
    }
    return loading;
  }

  async #load(session: string): Promise<void> {
    const epoch = this.#epochs;
    const tree = await api.tree(session);
    // The stream has begun again since: the caller asks again at the new epoch.
    if (epoch !== this.#epochs) return;
    const known = this.#sessions.get(session);
    if (known) known.rows.merge(tree);
    else this.#replace(tree);
    this.#touch(session);
    // Render at once: the caller waits for it, and there is no burst to batch.
    this.#show();
  }

  /** Keeps the events of this session from now on, and drops those of others. */
  hold(session: string): Held {
    // Untracked: an effect that calls this must not run again because of it.
    return untrack(() => {
      if (this.held?.session !== session) this.held = new Held(session);
      return this.held;
    });
  }

  /** Adds events from a request. */
  add(session: string, events: Event[]): void {
    if (this.held?.session !== session) return;
    this.held.add(events);
    this.#touch(session);
  }

  /** Calls `watcher` with each event as it arrives; returns a function that unsubscribes. */
  watch(watcher: (event: Event) => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  #receive(message: Message): void {
    const data: unknown = JSON.parse(message.data);
    switch (message.event) {
      case "snapshot":
        this.#replace(data as Tree);
        break;
      case "change":
        this.#change(data as Change);
        break;
      case "event":
        this.#event(data as Event);
        break;
      case "reset":
        this.#begin();
        break;
      case "caught-up":
        this.isCaughtUp = true;
        break;
      case "missed":
        this.missed += (data as MissedData).count;
        this.#nextEpoch();
        break;
    }
  }

  /** Drops what came from an earlier stream: a hub with another log has other places and revs. A team's server has no log. */
  #begin(): void {
    if (!api.isTeam) {
      this.#sessions.clear();
      this.ids = [];
      this.isCaughtUp = false;
    }
    this.#nextEpoch();
  }

  #nextEpoch(): void {
    this.#epochs += 1;
    this.#loading.clear();
    this.epoch = this.#epochs;
  }

  #replace(tree: Tree): void {
    const known = this.#sessions.get(tree.session.id);
    if (known) known.rows.replace(tree);
    else this.#sessions.set(tree.session.id, new Shown(tree));
    this.#touch(tree.session.id);
  }

  #change(change: Change): void {
    const { id } = change.sessions[0];
    const known = this.#sessions.get(id);
    if (known) {
      known.rows.change(change);
      // A trace that turned out to be of another session.
      if (known.rows.agents.length === 0) this.#sessions.delete(id);
      known.heardAt = Date.now();
      this.#touch(id);
    } else {
      // A change of a session without rows: fetch its tree.
      this.load(id).catch((error: unknown) => {
        if (!(error instanceof Refused)) console.warn("a session could not be asked for", error);
      });
    }
  }

  #event(event: Event): void {
    for (const watcher of this.#watchers) watcher(event);
    if (event.session_id === this.held?.session && event.kind !== "heartbeat") {
      this.held.add([event]);
      this.#touch(event.session_id);
    }
  }

  #touch(session: string): void {
    this.#dirty.add(session);
    this.#alarm ??= setTimeout(() => this.#show(), SHOWN_AFTER_MS);
  }

  #show(): void {
    clearTimeout(this.#alarm);
    this.#alarm = undefined;
    for (const id of this.#dirty) this.#sessions.get(id)?.show();
    if (this.held && this.#dirty.has(this.held.session)) this.held.show();
    const isGone = [...this.#dirty].some((id) => !this.#sessions.has(id));
    const isNew = [...this.#dirty].filter((id) => !this.ids.includes(id) && this.#sessions.has(id));
    this.#dirty.clear();
    if (isNew.length > 0 || isGone) this.ids = [...isNew.reverse(), ...this.ids.filter((id) => this.#sessions.has(id))];
  }
}

export const store = new Store();
