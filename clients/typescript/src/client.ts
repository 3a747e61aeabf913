/** Queries of a hub, and its live feed. */

import type { Health, Hits, Ordered, SessionPage, Stats, Tree } from "./model.js";

/** A hub refused a request, or did not answer. */
export class HubError extends Error {
  override name = "HubError";
}

export interface ClientOptions {
  /** Token of the hub, if it asks for one. */
  token?: string;
}

/** A message of the live feed. */
export interface LiveMessage {
  name: "event" | "snapshot" | "change" | "caught-up" | "missed" | "reset" | (string & {});
  data: Record<string, unknown>;
}

type Query = Record<string, string | number | boolean | undefined>;

/** A hub at an address, as `subscope serve` prints it. */
export class Client {
  readonly #address: string;
  readonly #options: ClientOptions;

  constructor(address: string, options: ClientOptions = {}) {
    this.#address = address.replace(/\/+$/, "");
    this.#options = options;
  }

  async #open(path: string, query: Query = {}, init: RequestInit = {}): Promise<Response> {
    const words = new URLSearchParams();
    for (const [key, value] of Object.entries(query)) if (value !== undefined) words.set(key, String(value));
    const headers = new Headers(init.headers);
    if (this.#options.token) headers.set("authorization", `Bearer ${this.#options.token}`);
    const url = this.#address + path + (words.size > 0 ? `?${words}` : "");
    let answer: Response;
    try {
      answer = await fetch(url, { ...init, headers });
    } catch (error) {
      throw new HubError(`${path}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
    }
    if (!answer.ok) throw new HubError(`${path}: ${answer.status}: ${(await answer.text()).slice(0, 4096)}`);
    return answer;
  }

  async #get<T>(path: string, query: Query = {}): Promise<T> {
    return (await (await this.#open(path, query)).json()) as T;
  }

  /** Returns the version, mode and address of the hub. */
  health(): Promise<Health> {
    return this.#get("/healthz");
  }

  /** Returns a page of sessions, the newest first; `next` of a page is `after` of the following one. */
  sessions(query: { limit?: number; after?: string; q?: string; live?: boolean } = {}): Promise<SessionPage> {
    return this.#get("/api/v1/sessions", query);
  }

  /** Returns the agents of a session. */
  tree(session: string): Promise<Tree> {
    return this.#get(`/api/v1/sessions/${encodeURIComponent(session)}/tree`);
  }

  /** Finds words in prompts, messages, thoughts, tool arguments and results. */
  search(q: string, query: { session?: string; limit?: number } = {}): Promise<Hits> {
    return this.#get("/api/v1/search", { q, ...query });
  }

  /** Returns statistics over all sessions. */
  stats(): Promise<Stats> {
    return this.#get("/api/v1/stats");
  }

  /** Asks one subagent to stop. */
  async stop(agent: string, session?: string): Promise<Ordered> {
    const answer = await this.#open(`/api/v1/agents/${encodeURIComponent(agent)}/stop`, session ? { session } : {}, {
      method: "POST",
      headers: { "content-type": "application/json", "x-subscope": "1" },
      body: "{}",
    });
    return (await answer.json()) as Ordered;
  }

  /**
   * Yields everything that happens. `after` is the `seq` of the last event that was seen. The iteration ends when the
   * hub ends, or `signal` is aborted.
   */
  async *live(options: { after?: number; signal?: AbortSignal } = {}): AsyncGenerator<LiveMessage> {
    const headers: Record<string, string> = {};
    if (options.after !== undefined) headers["last-event-id"] = String(options.after);
    const init: RequestInit = options.signal ? { headers, signal: options.signal } : { headers };
    const answer = await this.#open("/api/v1/live", {}, init);
    const decoder = new TextDecoder();
    let rest = "";
    let name = "message";
    let lines: string[] = [];
    for await (const bytes of answer.body ?? []) {
      const parts = (rest + decoder.decode(bytes, { stream: true })).split("\n");
      rest = parts.pop() ?? "";
      for (const part of parts) {
        const line = part.replace(/\r$/, "");
        if (line === "") {
          if (lines.length > 0) yield { name, data: JSON.parse(lines.join("\n")) as Record<string, unknown> };
          name = "message";
          lines = [];
        } else if (line.startsWith("event:")) {
          name = line.slice(6).trim();
        } else if (line.startsWith("data:")) {
          lines.push(line.slice(5).replace(/^ /, ""));
        }
      }
    }
  }
}
