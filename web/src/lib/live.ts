// The one connection that everything live comes through. It goes on behind the last place it has read, for as long as the
// page is open.
import { SseParser, type Message } from "./sse";

export type State = "connecting" | "live" | "lost" | "refused";

export interface Listener {
  /** Something came, or the state changed. */
  heard(state: State): void;
  received(message: Message): void;
}

/** How long is waited before another try: soon at first, since a hub is back within a second. */
const WAITS_MS = [100, 250, 500, 1000, 2000];

/** The server says something at least every 15 s; a connection that is silent for longer than this is dead. */
const SILENCE_MS = 45_000;

export class Live {
  #listener: Listener;
  #address: string;
  #last = "";
  #tries = 0;
  #isStopped = false;
  /** Whether this browser is not let in: each try says so again, until one passes. */
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
        // A hub that is gone, or that is not there yet: whatever it was, the next try shows whether it passed.
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
    const response = await fetch(this.#address, { headers, signal: this.#stop.signal });
    if (!response.ok || !response.body) {
      this.#isRefused = response.status === 401;
      if (this.#isRefused) this.#listener.heard("refused");
      // A place that this hub cannot read is no place to go on.
      if (response.status === 400) this.#last = "";
      throw new Error(`the hub answers ${response.status}`);
    }
    this.#tries = 1;
    this.#isRefused = false;
    const parser = new SseParser(this.#last);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const alarm = setTimeout(() => this.#stop.abort(), SILENCE_MS);
      const { done, value } = await reader.read().finally(() => {
        clearTimeout(alarm);
        // A connection that is closed was heard until now; one that is silent was not.
        if (!this.#stop.signal.aborted) this.#listener.heard("live");
      });
      if (done) return;
      for (const message of parser.push(value)) this.#listener.received(message);
      this.#last = parser.id;
    }
  }
}
