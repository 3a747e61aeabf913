// The page in a panel of an editor: it has no network there. Its requests, files and saved exports go to the editor's
// extension as messages. In a browser, `panel` is null and requests are those of the browser.
import type { FromPage, ToPage } from "./panel_messages";

interface Waiting {
  resolve: (response: Response) => void;
  reject: (error: Error) => void;
  /** The body that is on its way; undefined until the head has come. */
  body: ReadableStreamDefaultController<Uint8Array> | undefined;
}

/** Statuses whose answers have no body. */
const EMPTY = [204, 205, 304];

export class Panel {
  #post: (message: FromPage) => void;
  #keep: (address: string) => void;
  #waiting = new Map<number, Waiting>();
  #next = 1;
  #shows: (address: string) => void = () => undefined;

  constructor(post: (message: FromPage) => void, keep: (address: string) => void = () => undefined) {
    this.#post = post;
    this.#keep = keep;
  }

  /** Has the editor keep an address, which it shows again after its window was loaded anew. */
  keep(address: string): void {
    this.#keep(address);
  }

  /** Calls `shows` with each address that the editor wants to see, and asks for the first one. */
  start(shows: (address: string) => void): void {
    this.#shows = shows;
    this.#post({ type: "ready" });
  }

  /** The same as `fetch`, as far as the page needs it. */
  request(address: string, { method = "GET", headers, body, signal }: RequestInit = {}): Promise<Response> {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const given = Object.fromEntries(new Headers(headers));
      const aborted = (): void => {
        this.#fail(id, new DOMException("the request was canceled", "AbortError"));
        this.#post({ type: "cancel", id });
      };
      if (signal?.aborted) return reject(new DOMException("the request was canceled", "AbortError"));
      signal?.addEventListener("abort", () => this.#waiting.has(id) && aborted(), { once: true });
      this.#waiting.set(id, { resolve, reject, body: undefined });
      this.#post({ type: "request", id, method, address, headers: given, body: typeof body === "string" ? body : null });
    });
  }

  openFile(path: string, line: number): void {
    this.#post({ type: "open-file", path, line });
  }

  save(name: string, bytes: Uint8Array): void {
    this.#post({ type: "save", name, bytes });
  }

  received(message: ToPage): void {
    if (message.type === "go") return this.#shows(message.address);
    const waiting = this.#waiting.get(message.id);
    if (!waiting) return;
    switch (message.type) {
      case "head":
        waiting.resolve(new Response(this.#body(message.id, message.status, waiting), { status: message.status, headers: message.headers }));
        break;
      case "chunk":
        waiting.body?.enqueue(message.bytes);
        break;
      case "end":
        this.#waiting.delete(message.id);
        waiting.body?.close();
        break;
      case "error":
        this.#fail(message.id, new TypeError(message.message));
        break;
    }
  }

  #body(id: number, status: number, waiting: Waiting): ReadableStream<Uint8Array> | null {
    if (EMPTY.includes(status)) return null;
    return new ReadableStream<Uint8Array>({
      start: (controller) => void (waiting.body = controller),
      cancel: () => {
        if (this.#waiting.delete(id)) this.#post({ type: "cancel", id });
      },
    });
  }

  #fail(id: number, error: Error): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    // After the head the promise is settled, and the body ends with the error.
    waiting?.reject(error);
    waiting?.body?.error(error);
  }
}

declare function acquireVsCodeApi(): { postMessage(message: unknown): void; setState(state: unknown): void };

function connected(): Panel | null {
  // The mark that the extension puts into the document.
  if (document.documentElement.dataset["host"] !== "panel") return null;
  const editor = acquireVsCodeApi();
  const made = new Panel(
    (message) => editor.postMessage(message),
    (address) => editor.setState({ address }),
  );
  addEventListener("message", ({ data }: MessageEvent<ToPage>) => made.received(data));
  return made;
}

/** The editor around the page; null in a browser. */
export const panel: Panel | null = connected();

/** Sends a request to the server of the page. */
export const request = (address: string, init: RequestInit = {}): Promise<Response> =>
  panel ? panel.request(address, init) : fetch(address, init);
