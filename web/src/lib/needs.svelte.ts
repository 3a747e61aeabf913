// Requests that wait for a person, the most urgent first, and sessions that finished and were not viewed since.
import type { Agent } from "../model";
import { api } from "./api";
import { byAttention } from "./order.svelte";
import { commandOf } from "./payload";
import { router } from "./route.svelte";
import { store, type Shown } from "./store.svelte";
import { NEED_REASONS, needOf, type NeedReason } from "./words";

export interface Need {
  key: string;
  shown: Shown;
  agent: Agent;
  reason: NeedReason;
}

/** How many events of an agent are looked through for what it wants to do. */
const LOOKED_THROUGH = 200;

/** A run that ended longer ago than this when its event arrives does not count as just finished. */
const FRESH_MS = 60_000;

class Needs {
  /** Whole commands that wait for permission, by the key of their need. */
  commands: ReadonlyMap<string, string> = $state.raw(new Map());
  /** Sessions with a run that ended since the user last viewed them. */
  unread: ReadonlySet<string> = $state.raw(new Set());
  #asked = new Set<string>();

  all: Need[] = $derived.by(() => {
    // A team's sessions need their own users.
    if (api.isTeam) return [];
    const troubled = store.ids
      .flatMap((id) => store.get(id) ?? [])
      .filter(({ attention }) => attention === "waiting" || attention === "trouble")
      .sort((one, other) => byAttention(one.row(), other.row()));
    const found = troubled.flatMap((shown) => {
      const byId = new Map(shown.agents.map((agent) => [agent.id, agent]));
      return shown.agents.flatMap((agent): Need[] => {
        const reason = needOf(agent, byId.get(agent.parent_id ?? ""), shown.session);
        return reason === null ? [] : [{ key: `${shown.id}/${agent.id}/${agent.liveness?.since_ms ?? ""}`, shown, agent, reason }];
      });
    });
    return found.sort((one, other) => NEED_REASONS.indexOf(one.reason) - NEED_REASONS.indexOf(other.reason));
  });

  finished: Shown[] = $derived([...this.unread].flatMap((id) => store.get(id) ?? []).filter(({ isLive }) => !isLive));

  start(): void {
    store.watch((event) => {
      const isFresh = event.at_ms !== null && Date.now() - event.at_ms < FRESH_MS;
      if (event.kind === "run.end" && isFresh) this.unread = new Set([...this.unread, event.session_id]);
    });
    $effect.root(() => {
      $effect(() => {
        for (const need of this.all) if (need.reason === "waiting") void this.#ask(need);
      });
      $effect(() => {
        const { name, session } = router.route;
        if (name === "session" && this.unread.has(session)) this.unread = new Set([...this.unread].filter((id) => id !== session));
      });
    });
  }

  /** Asks for the whole command that waits: rows have only its beginning. */
  async #ask({ key, shown, agent }: Need): Promise<void> {
    if (this.#asked.has(key)) return;
    this.#asked.add(key);
    try {
      const { events } = await api.feed(shown.id, { agent: agent.id, limit: LOOKED_THROUGH });
      const name = agent.liveness?.name;
      const call = events.findLast(
        ({ kind, data }) => (kind === "permission.request" || kind === "tool.pre") && data["tool_name"] === name,
      );
      const command = commandOf(call?.data["input"]);
      if (command !== "") this.commands = new Map([...this.commands, [key, command]]);
    } catch {
      // Fall back to the beginning of the command in the row; the next change fetches again.
      this.#asked.delete(key);
    }
  }
}

export const needs = new Needs();
