// The real server, a real browser, and recordings that are replayed at a given pace.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, expect } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
export const FIXTURES = join(ROOT, "fixtures/claude-code/2.1.330");

/** Recordings of other harnesses: source in the fixtures, and place in the home folder. */
const OTHERS = [
  ["codex/0.169.0/v1_two_parallel", "sessions", ".codex/sessions"],
  ["copilot/1.0.102/two_parallel", "dot_copilot", ".copilot"],
  ["gemini/0.61.0/two_parallel", "dot_gemini_tmp", ".gemini/tmp"],
  ["opencode/1.18.33/two_parallel", "opencode.db", ".local/share/opencode/opencode.db"],
  ["qwen/0.24.4/two_background", "dot_qwen", ".qwen"],
] as const;

export const given = (name: string): string => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: \`cargo xtask page\` sets it`);
  return value;
};

export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (typeof address !== "object" || address === null) throw new Error("no port");
  return address.port;
}

/** Starts a program that prints its URL, and waits for it. */
export async function started(child: ChildProcess, name: string): Promise<string> {
  return new Promise<string>((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`${name} has ended with ${code}`)));
    child.stdout?.once("data", (line: Buffer) => resolve(line.toString().trim()));
  });
}

/** A server with folders of its own. */
export class Server {
  readonly folder = mkdtempSync(join(tmpdir(), "subscope-page-"));
  #child: ChildProcess | undefined;
  url = "";

  constructor(readonly port: number) {
    mkdirSync(join(this.folder, "claude/projects"), { recursive: true });
  }

  static async start(): Promise<Server> {
    const server = new Server(await freePort());
    await server.run();
    return server;
  }

  /** Copies a recording to where the harness stores its sessions. */
  static async over(...scenarios: string[]): Promise<Server> {
    const server = new Server(await freePort());
    for (const scenario of scenarios) server.put(scenario);
    await server.run();
    await server.hasRead();
    return server;
  }

  /** Waits until the hub has read all files. */
  async hasRead(): Promise<void> {
    while ((await this.get<{ is_reading: boolean }>("/healthz")).is_reading) await sleep(20);
  }

  put(scenario: string): void {
    const from = join(FIXTURES, scenario, "projects");
    cpSync(from, join(this.folder, "claude/projects"), { recursive: true });
  }

  /** Copies a recording of every other harness to where that stores its sessions. */
  putOthers(): void {
    for (const [recording, from, to] of OTHERS) cpSync(join(ROOT, "fixtures", recording, from), join(this.folder, to), { recursive: true });
  }

  /** Writes the user's settings, or another file beside them. */
  configure(text: string, file = "config.toml"): void {
    mkdirSync(join(this.folder, "config/subscope"), { recursive: true });
    writeFileSync(join(this.folder, "config/subscope", file), text);
  }

  get environment(): NodeJS.ProcessEnv {
    return {
      PATH: process.env["PATH"],
      HOME: this.folder,
      XDG_CONFIG_HOME: join(this.folder, "config"),
      CLAUDE_CONFIG_DIR: join(this.folder, "claude"),
      SUBSCOPE_DATA_DIR: join(this.folder, "data"),
      XDG_STATE_HOME: join(this.folder, "state"),
    };
  }

  /** Runs another command with the same folders; returns what it prints on stderr. */
  subscope(...words: string[]): string {
    return this.ran(...words).stderr;
  }

  /** The same; returns stdout and stderr. */
  ran(...words: string[]): { stdout: string; stderr: string } {
    return spawnSync(given("SUBSCOPE"), words, { cwd: this.folder, env: this.environment, encoding: "utf8", maxBuffer: 1 << 28 });
  }

  async run(...more: string[]): Promise<void> {
    const child = spawn(given("SUBSCOPE"), ["serve", "--listen", `127.0.0.1:${this.port}`, ...more], {
      env: this.environment,
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#child = child;
    servers.add(this);
    this.url = await started(child, "serve");
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    child.removeAllListeners("exit");
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  }

  /** Ends the server without a chance to clean up. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  async stop(): Promise<void> {
    servers.delete(this);
    await this.#end("SIGTERM");
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }

  async get<T>(path: string): Promise<T> {
    const response = await fetch(this.url + path);
    if (!response.ok) throw new Error(`${path} answers ${response.status}`);
    return (await response.json()) as T;
  }

  async #post(path: string, body: object): Promise<void> {
    const headers = { "content-type": "application/json", "x-subscope": "1" };
    const answer = await fetch(this.url + path, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${path} answers ${answer.status}: ${await answer.text()}`);
  }

  /** Sends the payload of a hook. */
  hook(body: object): Promise<void> {
    return this.#post("/hooks/claude", body);
  }

  /** Runs the hook of a settings file with a payload, as the harness does; returns what it prints. */
  hooked(body: object): Promise<string> {
    const child = spawn(given("SUBSCOPE"), ["hook"], { env: this.environment, stdio: ["pipe", "pipe", "inherit"] });
    let printed = "";
    child.stdout.on("data", (bytes: Buffer) => (printed += bytes.toString()));
    child.stdin.end(JSON.stringify(body));
    return new Promise((resolve) => child.once("close", () => resolve(printed)));
  }

  /** Publishes an event of a subagent. */
  publish(event: object): Promise<void> {
    return this.#post("/subagent-events", event);
  }

  stopAgent(session: string, agent: string): Promise<void> {
    return this.#post(`/api/v1/agents/${encodeURIComponent(agent)}/stop?session=${encodeURIComponent(session)}`, {});
  }

  /** Ingests lines, and repeats until a server has stored them. */
  async ingest(dialect: string, source: string, lines: string[], key: string): Promise<void> {
    const address = `${this.url}/api/v1/ingest/${dialect}?source=${encodeURIComponent(source)}`;
    const headers = { "content-type": "application/x-ndjson", "x-subscope-delivery": key };
    for (;;) {
      try {
        const response = await fetch(address, { method: "POST", headers, body: `${lines.join("\n")}\n` });
        if (response.ok) return;
        if (response.status !== 503) throw new Refused(`${address} answers ${response.status}`);
      } catch (error) {
        if (error instanceof Refused) throw error;
      }
      await sleep(50);
    }
  }
}

class Refused extends Error {}

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

interface Line {
  at: number;
  source: string;
  text: string;
}

/** A recording's transcripts as lines with their times. */
export class Recording {
  readonly session: string;
  readonly lines: Line[] = [];

  constructor(scenario: string) {
    const projects = join(FIXTURES, scenario, "projects");
    const files = readdirSync(projects, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".jsonl"));
    const main = files.find((name) => !name.includes("subagents"));
    if (!main) throw new Error(`${scenario} has no transcript`);
    this.session = basename(main, ".jsonl");
    for (const name of files) {
      let at = 0;
      for (const text of readFileSync(join(projects, name), "utf8").split("\n").filter((line) => line !== "")) {
        const stamp = (JSON.parse(text) as { timestamp?: string }).timestamp;
        at = stamp ? Date.parse(stamp) : at;
        this.lines.push({ at, source: name, text });
      }
    }
    const first = Math.min(...this.lines.map((line) => line.at).filter((one) => one > 0));
    for (const line of this.lines) line.at = Math.max(line.at, first);
    this.lines.sort((one, other) => one.at - other.at);
  }

  get first(): number {
    return this.lines[0]?.at ?? 0;
  }

  /** Sets another model in the main agent's messages, and removes the harness's own total. */
  renameModel(model: string): void {
    this.lines.splice(0, this.lines.length, ...this.lines.filter(({ text }) => !text.includes('"cost-state"')));
    for (const line of this.lines) {
      if (!line.source.includes("subagents")) line.text = line.text.replace(/"model":"claude-[^"]+"/g, `"model":"${model}"`);
    }
  }

  /** Replays it from now on, `pace` times slower, with its times moved accordingly. */
  async play(server: Server, pace: number, until = 1): Promise<void> {
    const begin = Date.now();
    const last = this.lines.at(-1)?.at ?? 0;
    for (const [number, line] of this.lines.entries()) {
      if (line.at > this.first + (last - this.first) * until) return;
      await sleep(begin + (line.at - this.first) * pace - Date.now());
      await server.ingest("claude.transcript", line.source, [this.#moved(line.text, begin, pace)], `line ${number}`);
    }
  }

  #moved(text: string, begin: number, pace: number): string {
    return text.replace(/"timestamp":"([^"]+)"/g, (_, stamp: string) => {
      const moved = new Date(begin + (Date.parse(stamp) - this.first) * pace);
      return `"timestamp":"${moved.toISOString()}"`;
    });
  }
}

/** A page with its errors and foreign requests. */
export interface Seen {
  context: BrowserContext;
  page: Page;
  /** Errors on the console, exceptions, and violations of the content security policy. */
  wrong: string[];
  /** Requests to other servers. */
  beyond: string[];
}

/** Asserts that the page had no errors and requested nothing from other servers. */
export function isQuiet({ wrong, beyond }: Seen): void {
  expect(wrong).toEqual([]);
  expect(beyond).toEqual([]);
}

let browser: Browser | undefined;
const servers = new Set<Server>();
const contexts = new Set<BrowserContext>();

/** Closes pages after each test, and servers after each test or after all tests. */
export function cleanUp(serversLast: "each test" | "all tests"): void {
  const stop = (): Promise<unknown> => Promise.all([...servers].map((server) => server.stop()));
  afterEach(async () => {
    await Promise.all([...contexts].map((context) => context.close()));
    contexts.clear();
    if (serversLast === "each test") await stop();
  });
  afterAll(async () => {
    await closed();
    await stop();
  });
}

export async function opened(): Promise<Browser> {
  browser ??= await chromium.launch({
    executablePath: given("CHROMIUM"),
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
  });
  return browser;
}

export async function closed(): Promise<void> {
  await browser?.close();
  browser = undefined;
}

type ContextOptions = NonNullable<Parameters<Browser["newContext"]>[0]>;

/** Opens a path of a server, or another address, in a browser of its own. */
export async function look(server: Pick<Server, "url">, path = "/", options: ContextOptions = {}): Promise<Seen> {
  const context = await (await opened()).newContext({ viewport: { width: 1280, height: 800 }, ...options });
  contexts.add(context);
  const page = await context.newPage();
  const seen: Seen = { context, page, wrong: [], beyond: [] };
  page.on("console", (message) => {
    // The browser logs an error when the server is gone; tests check the state for that.
    if (message.type() === "error" && !message.text().includes("net::ERR_")) seen.wrong.push(message.text());
  });
  page.on("pageerror", (error) => seen.wrong.push(String(error.stack)));
  page.on("request", (request) => {
    const at = new URL(request.url());
    if (at.origin !== server.url && at.protocol !== "data:" && at.protocol !== "blob:") seen.beyond.push(request.url());
  });
  await page.goto(path.startsWith("/") ? server.url + path : path);
  return seen;
}

export const row = (agent: string): string => `[data-testid="agent-row"][data-agent-id="${agent}"]`;

/** A notification that the page showed. */
export interface Notice {
  title: string;
  options: { body: string };
  onclick: (() => void) | null;
}

/** Replaces the browser's notifications by a fake that collects them in `notices`. */
export async function keepNotices(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const notices: object[] = [];
    class Kept {
      static permission = "granted";
      static requestPermission = (): Promise<string> => Promise.resolve("granted");
      onclick: (() => void) | null = null;
      constructor(readonly title: string, readonly options: object) {
        notices.push(this);
      }
      close(): void {}
    }
    Object.assign(globalThis, { Notification: Kept, notices });
  });
}
