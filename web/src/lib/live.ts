// The only connection to the live feed. It reconnects as long as the page is open, and resumes after the last event id that it
// read.
import { request } from "./panel";
import { SseParser, type Message } from "./sse";

export type State = "connecting" | "live" | "lost" | "refused";

export interface Listener {
  /** Something came, or the state changed. */
  heard(state: State): void;
  /** The server has opened a stream that continues no earlier one: nothing that happens from now on is missed. */
  began(): void;
  received(message: Message): void;
}

/** Delays between attempts to connect: short at first, since a restarted hub is back within a second. */
const WAITS_MS = [100, 250, 500, 1000, 2000];

/** The server says something at least every 15 s; a connection that is silent for longer than this is dead. */
const SILENCE_MS = 45_000;

export class Live {
  #listener: Listener;
  #address: string;
  #last = "";
  #tries = 0;
  #isStopped = false;
  /** Whether the hub refuses this browser (401). Each attempt sets it again until one succeeds. */
  #isRefused = false;
  #stop = new AbortController();

  /** `address` is that of the stream. */
  constructor(listener: Listener, address: string) {
    this.#listener = listener;
    this.#address = address;
  }

  /** Follows until it is stopped. */
  async follow(): Promise<void> {
    while (!this.#isStopped) {
      if (!this.#isRefused) this.#listener.heard(this.#tries === 0 ? "connecting" : "lost");
      try {
        await this.#once();
      } catch {
        // The hub is not running or does not answer: connect again.
      }
      if (this.#isStopped) return;
      if (!this.#isRefused) this.#listener.heard("lost");
      const wait = WAITS_MS[Math.min(this.#tries, WAITS_MS.length - 1)] ?? 1000;
      this.#tries += 1;
      await new Promise((resolve) => setTimeout(resolve, wait));
    }
  }

  stop(): void {
    this.#isStopped = true;
    this.#stop.abort();
  }

  async #once(): Promise<void> {
    this.#stop = new AbortController();
    const headers: Record<string, string> = this.#last === "" ? {} : { "last-event-id": this.#last };
    const response = await request(this.#address, { headers, signal: this.#stop.signal });
    if (!response.ok || !response.body) {
      this.#isRefused = response.status === 401;
      if (this.#isRefused) this.#listener.heard("refused");
      // The hub cannot parse this event id: start from a snapshot.
      if (response.status === 400) this.#last = "";
      throw new Error(`the hub answers ${response.status}`);
    }
    this.#tries = 1;
    this.#isRefused = false;
    if (this.#last === "") this.#listener.began();
    const parser = new SseParser(this.#last);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const alarm = setTimeout(() => this.#stop.abort(), SILENCE_MS);
      const { done, value } = await reader.read().finally(() => {
        clearTimeout(alarm);
        // A closed connection was alive until now; one that was aborted for silence was not.
        if (!this.#stop.signal.aborted) this.#listener.heard("live");
      });
      if (done) return;
      for (const message of parser.push(value)) this.#listener.received(message);
      this.#last = parser.id;
    }
  }
}
