// Requests to a hub over its socket in the data folder.

import { lstat, realpath } from "node:fs/promises";
import { type IncomingMessage, request as httpRequest } from "node:http";
import { dirname, join } from "node:path";

/** Most bytes of an answer that is read as a whole. */
const MOST_BYTES = 64 << 20;

/** Time for the head of an answer: a hub answers within milliseconds, a search of many files within seconds. */
const HEAD_MS = 30_000;

/** Why a hub cannot be asked. */
export type Absence =
  /** No process listens at the socket. */
  | "no hub"
  /** The socket may not be used, or the hub speaks another protocol. */
  | "refused";

export class HubError extends Error {
  override name = "HubError";
  constructor(
    message: string,
    readonly absence: Absence | null = null,
    /** The status of the answer; null if there was none. */
    readonly status: number | null = null,
  ) {
    super(message);
  }
}

export interface Ask {
  method?: string;
  headers?: Record<string, string>;
  body?: string | null;
  signal?: AbortSignal;
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** Refuses a socket in a folder or of an owner that is not this user (or root): its program would read private texts. */
export async function checkSocket(socket: string, user = process.getuid?.()): Promise<void> {
  const folder = await lstat(await realpath(dirname(socket)));
  const found = await lstat(socket);
  const isOwn = (uid: number): boolean => user === undefined || uid === user || uid === 0;
  if (!found.isSocket()) throw new HubError(`${socket} is no socket`, "refused");
  if (!isOwn(found.uid) || !isOwn(folder.uid)) throw new HubError(`${socket} belongs to another user`, "refused");
  if ((folder.mode & 0o022) !== 0) throw new HubError(`${dirname(socket)} may be written by others`, "refused");
}

const codeOf = (error: unknown): string => (error instanceof Error && "code" in error ? String(error.code) : "");

/** Explains an error of the operating system. */
function explained(error: unknown): HubError {
  if (error instanceof HubError) return error;
  const code = codeOf(error);
  // A socket without a listener is what an ended hub leaves.
  if (["ENOENT", "ECONNREFUSED", "ENOTDIR"].includes(code)) return new HubError("no hub runs", "no hub");
  if (["EACCES", "EPERM"].includes(code)) return new HubError(`the hub's socket cannot be opened: ${code}`, "refused");
  return new HubError(error instanceof Error ? error.message : String(error));
}

export class Hub {
  readonly socket: string;

  constructor(folder: string) {
    this.socket = join(folder, "hub.sock");
  }

  /** Sends a request; returns the head of the answer, whose body is still to be read. */
  async open(address: string, { method = "GET", headers = {}, body = null, signal }: Ask = {}): Promise<IncomingMessage> {
    try {
      await checkSocket(this.socket);
      return await this.#send(address, method, headers, body, signal);
    } catch (error) {
      throw explained(error);
    }
  }

  #send(path: string, method: string, headers: Record<string, string>, body: string | null, signal?: AbortSignal): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      // A connection for each request: one that waits for the next may just be closed by the hub.
      const request = httpRequest({ socketPath: this.socket, path, method, headers: { host: "localhost", ...headers }, agent: false, ...(signal ? { signal } : {}) });
      const alarm = setTimeout(() => request.destroy(new HubError("the hub does not answer")), HEAD_MS);
      request.once("error", (error) => {
        clearTimeout(alarm);
        reject(error);
      });
      request.once("response", (response) => {
        clearTimeout(alarm);
        resolve(response);
      });
      request.end(body ?? undefined);
    });
  }

  async #json<T>(address: string, ask: Ask): Promise<T> {
    const response = await this.open(address, ask);
    let text: string;
    try {
      text = await whole(response);
    } catch (error) {
      throw explained(error);
    }
    const status = response.statusCode ?? 0;
    if (status < 200 || status > 299) throw new HubError(saidIn(text) || `the hub answers ${status}`, null, status);
    try {
      return JSON.parse(text) as T;
    } catch {
      throw new HubError("the hub's answer is no JSON", null, status);
    }
  }

  get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
    return this.#json(addressOf(path, query), signal ? { signal } : {});
  }

  /** Sends a request that changes something or acts. */
  post<T>(path: string, body: object = {}): Promise<T> {
    const headers = { "content-type": "application/json", "x-subscope": "1" };
    return this.#json(path, { method: "POST", headers, body: JSON.stringify(body) });
  }
}

function addressOf(path: string, query: Query): string {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) words.set(name, String(value));
  return words.size > 0 ? `${path}?${words.toString()}` : path;
}

async function whole(response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > MOST_BYTES) throw new HubError(`the hub's answer has more than ${MOST_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString("utf8");
}

function saidIn(text: string): string {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    return typeof error === "string" ? error : "";
  } catch {
    return "";
  }
}
