// The inbox: sessions that need a person, the most urgent first, and those that ended since the user looked. The hub decides
// and keeps both, for all faces.
import { untrack } from "svelte";
import type { Agent, AgentNeed, Inbox, InboxEntry, SessionRow } from "../model";
import { api, carriedTree } from "./api";
import { commandOf } from "./payload";
import { store } from "./store.svelte";

/** How many events of an agent are looked through for what it wants to do. */
const LOOKED_THROUGH = 200;

/** Delay from a change of what sessions need to the request, so that a burst is one. */
const SETTLED_MS = 60;

/** Interval of requests: another face may have dismissed something. */
const PACE_MS = 10_000;

class Needs {
  /** As the hub last said. */
  inbox: Inbox | null = $state.raw(null);
  /** Why the last change was not kept. */
  said = $state("");
  /** Whole commands that wait for permission, by the key of their need. */
  commands: ReadonlyMap<string, string> = $state.raw(new Map());
  #asked = new Set<string>();
  #alarm: ReturnType<typeof setTimeout> | undefined;

  entries: InboxEntry[] = $derived(this.inbox?.entries ?? []);
  ended: SessionRow[] = $derived(this.inbox?.ended ?? []);
  /** How many sessions need the user for certain: guesses are not counted. */
  count: number = $derived((this.inbox?.waits ?? 0) + (this.inbox?.trouble ?? 0));

  start(): void {
    if (carriedTree) {
      this.inbox = ofSaved();
      return;
    }
    // What the sessions need, and which are at work, as the stream says.
    const facts = $derived(
      store.ids
        .flatMap((id) => store.get(id) ?? [])
        .map(({ id, summary, session }) => `${id} ${summary.attention} ${summary.attention === "ended" ? session.ended_at_ms : ""} ${summary.need?.agents.map(needKey).join() ?? ""}`)
        .join("\n"),
    );
    $effect.root(() => {
      $effect(() => {
        void facts;
        if (store.isCaughtUp) untrack(() => this.#askSoon());
      });
      $effect(() => {
        for (const { session } of this.entries) {
          for (const need of session.need?.agents ?? []) if (need.group === "waits") void this.#askCommand(session.id, need);
        }
      });
    });
    setInterval(() => void this.#ask(), PACE_MS);
  }

  /** The agent of a need, if its rows are known. */
  agent(session: string, need: AgentNeed): Agent | undefined {
    return store.get(session)?.agents.find(({ id }) => id === need.agent_id);
  }

  /** The complete command that waits for permission if it is loaded, else its beginning from the row. */
  command(session: string, need: AgentNeed): string {
    const agent = this.agent(session, need);
    const whole = this.commands.get(`${session}/${needKey(need)}`);
    if (need.group !== "waits") return need.reason === "failed" ? (agent?.error ?? "") : "";
    return whole ?? agent?.tools.findLast((tool) => tool.status === "open" && tool.name === agent.liveness?.name)?.detail ?? "";
  }

  async dismiss(session: string, facts: string[]): Promise<void> {
    await this.#keep(api.dismiss(session, facts));
  }

  async markRead(): Promise<void> {
    if (this.inbox) await this.#keep(api.markSeen(this.inbox.at_ms));
  }

  async #keep(change: Promise<void>): Promise<void> {
    try {
      await change;
      this.said = "";
    } catch (error) {
      this.said = error instanceof Error ? error.message : String(error);
    }
    await this.#ask();
  }

  #askSoon(): void {
    this.#alarm ??= setTimeout(() => {
      this.#alarm = undefined;
      void this.#ask();
    }, SETTLED_MS);
  }

  async #ask(): Promise<void> {
    if (store.state === "refused") return;
    try {
      const inbox = await api.inbox();
      // Answers may arrive in another order.
      if (inbox.at_ms >= (this.inbox?.at_ms ?? 0)) this.inbox = inbox;
    } catch {
      // The hub does not answer: the stream reports it, and the timer retries.
    }
  }

  /** Asks for the whole command that waits: rows have only its beginning. */
  async #askCommand(session: string, need: AgentNeed): Promise<void> {
    const key = `${session}/${needKey(need)}`;
    if (this.#asked.has(key)) return;
    this.#asked.add(key);
    try {
      const { events } = await api.feed(session, { agent: need.agent_id, limit: LOOKED_THROUGH });
      const name = this.agent(session, need)?.liveness?.name;
      const call = events.findLast(
        ({ kind, data }) => (kind === "permission.request" || kind === "tool.pre") && (name === undefined || data["tool_name"] === name),
      );
      const command = commandOf(call?.data["input"]);
      if (command !== "") this.commands = new Map([...this.commands, [key, command]]);
    } catch {
      // Fall back to the beginning of the command in the row; the next change fetches again.
      this.#asked.delete(key);
    }
  }
}

/** What identifies the need of an agent in its session. */
export const needKey = ({ agent_id, reason, since_ms }: AgentNeed): string => `${agent_id} ${reason} ${since_ms ?? ""}`;

/** The inbox of a saved page: what its session needed when it was saved. Nobody keeps what the reader dismisses. */
function ofSaved(): Inbox | null {
  const need = carriedTree?.summary.need;
  const shown = carriedTree && store.get(carriedTree.session.id);
  if (!need || !shown || !shown.isLive) return null;
  const count = (group: string): number => Number(need.group === group);
  return {
    schema: "subscope.inbox/1",
    waits: count("waits"),
    trouble: count("trouble"),
    perhaps: count("perhaps"),
    entries: [{ session: { ...shown.row(), need }, facts: [] }],
    seen_until_ms: null,
    finished: 0,
    failed: 0,
    stopped: 0,
    lost: 0,
    ended: [],
    cost_micro_usd: null,
    cost_floor: false,
    at_ms: 0,
  };
}

export const needs = new Needs();
