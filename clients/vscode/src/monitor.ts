// Keeps a connection to the hub, and what the status bar and the tree show.

import { byAttention } from "../../../web/src/lib/attention";
import { SseParser } from "../../../web/src/lib/sse";
import type { Health, Inbox, SessionPage, SessionRow } from "../../../web/src/model";
import { type Absence, Hub, HubError } from "./hub";

/** The versions of the protocol that this extension speaks. */
const PROTOCOL = 1;

/** Delays between attempts to connect: a restarted hub is back within a second. */
const WAITS_MS = [250, 500, 1000, 2000, 5000, 10_000];

/** The hub says something at least every 15 s; a feed that is silent for longer than this is dead. */
const SILENCE_MS = 45_000;

/** Shortest interval between two looks, and the longest: another face may have dismissed something. */
const [PACE_MS, IDLE_PACE_MS] = [1000, 15_000];

/** Most sessions at work, and most of those that ended, in the tree. */
const [MOST_LIVE, MOST_ENDED] = [200, 15];

/** Fields of `GET /api/v1/status` that are shown. */
export interface Status {
  sessions: number;
  running: number;
  waiting_for_permission: number;
  waiting_for_answer: number;
  waiting_for_plan: number;
  stalled: number;
  cost_micro_usd: number | null;
  cost_floor: boolean;
}

/** What the hub says at one moment. */
export interface Snapshot {
  health: Health;
  status: Status;
  inbox: Inbox;
  /** Sessions at work that the inbox does not have, in the order of all lists. */
  live: SessionRow[];
  /** Sessions that have ended, the newest first. */
  ended: SessionRow[];
}

export type View =
  | { state: "connecting" }
  | { state: "live"; snapshot: Snapshot }
  /** `why` is a sentence for people. */
  | { state: Absence; why: string };

/** Asks the hub for all that is shown. */
export async function look(hub: Hub): Promise<Snapshot> {
  const [health, status, inbox, live, recent] = await Promise.all([
    hub.get<Health>("/healthz"),
    hub.get<Status>("/api/v1/status"),
    hub.get<Inbox>("/api/v1/inbox"),
    hub.get<SessionPage>("/api/v1/sessions", { live: true, limit: MOST_LIVE }),
    hub.get<SessionPage>("/api/v1/sessions", { limit: MOST_ENDED }),
  ]);
  const listed = new Set(inbox.entries.map(({ session }) => session.id));
  return {
    health,
    status,
    inbox,
    live: live.sessions.filter(({ id }) => !listed.has(id)).sort(byAttention),
    ended: recent.sessions.filter(({ id, status }) => status === "ended" && !listed.has(id)),
  };
}

/** Refuses a hub whose answers this extension may misread. */
export function checkProtocol({ version, protocol, oldest_protocol }: Health): void {
  if (protocol >= PROTOCOL && oldest_protocol <= PROTOCOL) return;
  throw new HubError(`the hub is of version ${version || "unknown"}, and this extension of another: update the older one`, "refused");
}

export class Monitor {
  #view: View = { state: "connecting" };
  #stop = new AbortController();
  #isEnded = false;
  /** Ends the wait before the next attempt. */
  #wake: () => void = () => undefined;
  #alarm: NodeJS.Timeout | undefined;
  /** When the next look is due, if `#alarm` is set. */
  #dueAt = 0;
  #isLooking = false;
  /** Whether something has changed since the look that is under way began. */
  #isBehind = false;
  #lookedAt = 0;

  constructor(
    readonly hub: Hub,
    private readonly changed: (view: View) => void,
    private readonly log: (line: string) => void,
  ) {}

  get view(): View {
    return this.#view;
  }

  /** Follows the hub until it is disposed. */
  async run(): Promise<void> {
    for (let tries = 0; !this.#isEnded; tries += 1) {
      this.#stop = new AbortController();
      try {
        await this.#follow(() => (tries = 0));
        this.#failed(new HubError("the hub has closed the feed"));
      } catch (error) {
        this.#failed(error);
      }
      if (this.#isEnded) return;
      const wait = WAITS_MS[Math.min(tries, WAITS_MS.length - 1)] ?? 1000;
      await new Promise<void>((resolve) => {
        const alarm = setTimeout(resolve, wait);
        this.#wake = () => {
          clearTimeout(alarm);
          resolve();
        };
      });
    }
  }

  dispose(): void {
    this.#isEnded = true;
    this.#rest();
    this.#wake();
  }

  /** Asks again soon, or connects at once. */
  refresh(): void {
    if (this.#view.state === "live") this.#lookSoon(0);
    else this.#wake();
  }

  #failed(error: unknown): void {
    if (this.#isEnded) return;
    this.#rest();
    const known = error instanceof HubError ? error : new HubError(error instanceof Error ? error.message : String(error));
    this.log(known.message);
    // Between two hubs, or after a lost connection: what was known is not known any more.
    this.#show(known.absence === null ? { state: "connecting" } : { state: known.absence, why: known.message });
  }

  /** Ends the feed and its looks. */
  #rest(): void {
    this.#stop.abort();
    clearTimeout(this.#alarm);
    this.#alarm = undefined;
  }

  #show(view: View): void {
    this.#view = view;
    this.changed(view);
  }

  /** One connection to the live feed: it says when something has changed, and that the hub is there. */
  async #follow(connected: () => void): Promise<void> {
    const { signal } = this.#stop;
    checkProtocol(await this.hub.get<Health>("/healthz", {}, signal));
    const feed = await this.hub.open("/api/v1/live", { signal });
    if (feed.statusCode !== 200) {
      feed.destroy();
      throw new HubError(`the hub answers ${feed.statusCode ?? "nothing"} to the live feed`);
    }
    connected();
    await this.#look();
    const parser = new SseParser();
    const alarm = setTimeout(() => this.#stop.abort(), SILENCE_MS);
    try {
      feed.setEncoding("utf8");
      for await (const text of feed as AsyncIterable<string>) {
        alarm.refresh();
        if (parser.push(text).some(isNews)) this.#lookSoon(PACE_MS);
      }
    } finally {
      clearTimeout(alarm);
    }
  }

  /** Looks again, at least `pace` after the last look. */
  #lookSoon(pace: number): void {
    if (this.#isLooking) this.#isBehind = true;
    else this.#schedule(Math.max(0, this.#lookedAt + pace - Date.now()));
  }

  #schedule(wait: number): void {
    const due = Date.now() + wait;
    if (this.#alarm !== undefined && this.#dueAt <= due) return;
    clearTimeout(this.#alarm);
    this.#dueAt = due;
    this.#alarm = setTimeout(() => {
      this.#alarm = undefined;
      this.#look().catch((error: unknown) => this.log(String(error)));
    }, wait);
  }

  async #look(): Promise<void> {
    [this.#isLooking, this.#isBehind] = [true, false];
    const { signal } = this.#stop;
    try {
      const snapshot = await look(this.hub);
      if (!signal.aborted) this.#show({ state: "live", snapshot });
    } finally {
      this.#isLooking = false;
      this.#lookedAt = Date.now();
      if (!signal.aborted) this.#schedule(this.#isBehind ? PACE_MS : IDLE_PACE_MS);
    }
  }
}

/** Whether a message of the feed may change what is shown. A heartbeat says that nothing has. */
const isNews = ({ event, data }: { event: string; data: string }): boolean => event !== "event" || !data.includes('"kind":"heartbeat"');
