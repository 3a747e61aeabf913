// Complete commands of calls: rows have only the beginning. Fetched by agent, once the pointer is over one of its calls.
import { SvelteMap } from "svelte/reactivity";
import { api } from "./api";
import { commandOf } from "./payload";

/** How many events of an agent one request returns. */
const EVENTS = 50_000;
/** Number of agents whose commands are cached. */
const KEPT = 8;

class Commands {
  /** By session and agent, by call. */
  #known = new SvelteMap<string, ReadonlyMap<string, string>>();
  /** Calls that were not found: they are not requested again. */
  #missed = new Set<string>();

  get(session: string, agent: string, call: string): string {
    return this.#known.get(`${session} ${agent}`)?.get(call) ?? "";
  }

  /** Fetches the commands of an agent, unless the command of this call is cached. */
  async ask(session: string, agent: string, call: string): Promise<void> {
    const of = `${session} ${agent}`;
    if (this.get(session, agent, call) !== "" || this.#missed.has(`${of} ${call}`)) return;
    try {
      const { events } = await api.feed(session, { agent, kind: "tool.pre", limit: EVENTS, brief: true });
      const texts = new Map(events.map(({ data }) => [String(data["tool_use_id"]), commandOf(data["input"])]));
      if (!texts.has(call)) this.#missed.add(`${of} ${call}`);
      this.#known.delete(of);
      this.#known.set(of, texts);
      for (const oldest of [...this.#known.keys()].slice(0, -KEPT)) this.#known.delete(oldest);
    } catch {
      // The caller falls back to the beginning of the command in the row.
    }
  }
}

export const commands = new Commands();
