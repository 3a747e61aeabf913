// Parser of server-sent events from chunks that are cut anywhere.
//
// The browser's EventSource cannot resume at a given id once it has closed, and does not report whether it still receives data.

export interface Message {
  /** The field `event`; empty for one that only sets a place. */
  event: string;
  data: string;
  /** The last `id` at this point. */
  id: string;
}

export class SseParser {
  #rest = "";
  #event = "";
  #data: string[] = [];
  #id: string;

  constructor(id = "") {
    this.#id = id;
  }

  /** The last event id. */
  get id(): string {
    return this.#id;
  }

  /** Parses a chunk and returns the events that it completes. */
  push(text: string): Message[] {
    const messages: Message[] = [];
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (this.#data.length > 0) messages.push({ event: this.#event, data: this.#data.join("\n"), id: this.#id });
        this.#event = "";
        this.#data = [];
      } else {
        this.#field(line);
      }
    }
    return messages;
  }

  #field(line: string): void {
    const colon = line.indexOf(":");
    // Skip comments: they are keep-alives.
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.#event = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#id = value;
  }
}
