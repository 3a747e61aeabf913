// What calls were given, whole: rows have only the beginning of a command. Asked for by agent, once somebody points at a call.
import { SvelteMap } from "svelte/reactivity";
import { api } from "./api";
import { commandOf } from "./payload";

/** How many events of an agent one request returns. */
const EVENTS = 50_000;
/** Of so many agents the commands are kept. */
const KEPT = 8;

class Commands {
  /** By session and agent, by call. */
  #known = new SvelteMap<string, ReadonlyMap<string, string>>();
  /** Calls that were looked for and not found: they are not requested again. */
  #missed = new Set<string>();

  get(session: string, agent: string, call: string): string {
    return this.#known.get(`${session} ${agent}`)?.get(call) ?? "";
  }

  /** Asks for the commands of an agent, unless that of this call is known. */
  async ask(session: string, agent: string, call: string): Promise<void> {
    const of = `${session} ${agent}`;
    if (this.get(session, agent, call) !== "" || this.#missed.has(`${of} ${call}`)) return;
    try {
      const { events } = await api.feed(session, { agent, limit: EVENTS, brief: true });
      const texts = new Map(
        events.filter(({ kind }) => kind === "tool.pre").map(({ data }) => [String(data["tool_use_id"]), commandOf(data["input"])]),
      );
      if (!texts.has(call)) this.#missed.add(`${of} ${call}`);
      this.#known.delete(of);
      this.#known.set(of, texts);
      for (const oldest of [...this.#known.keys()].slice(0, -KEPT)) this.#known.delete(oldest);
    } catch {
      // What the row has is shown all the same.
    }
  }
}

export const commands = new Commands();
