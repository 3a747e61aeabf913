// A team's server on the real engine of ClickHouse, and simulated machines that send to it.
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Agent, SessionRow, Tree } from "../src/model";
import { freePort, given, look, Server, started, type Seen } from "./harness";

/** A Python with the engine; `cargo xtask page` sets it where PyPI gives one. */
export const ENGINE = process.env["SUBSCOPE_CHDB_PYTHON"];

/** A snapshot of a session. */
export interface Snapshot {
  machine: string;
  rev: number;
  day: string;
  project: string;
  level: string;
  row: SessionRow;
  tree: Tree;
}

/** Returns the snapshot that a machine with a recording sends. */
export async function recorded(scenario: string): Promise<Snapshot> {
  const machine = new Server(await freePort());
  machine.put(scenario);
  machine.subscope("index");
  const { stdout, stderr } = machine.ran("forward", "--dry-run", "--content", "titles");
  rmSync(machine.folder, { recursive: true, force: true });
  const [line] = stdout.trim().split("\n");
  if (!line) throw new Error(`nothing of ${scenario} would be sent: ${stderr}`);
  return JSON.parse(line) as Snapshot;
}

/** A copy of a recorded session that began at the given time. */
export function like(snapshot: Snapshot, id: string, at: number, names: Partial<Pick<Snapshot, "machine" | "project" | "level">>): Snapshot {
  const by = at - (snapshot.row.started_at_ms ?? at);
  const times = (name: string, value: unknown): unknown => {
    if (name === "intervals") return (value as [number, number][]).map((one) => one.map((moment) => moment + by));
    return name.endsWith("_at_ms") && typeof value === "number" ? value + by : value;
  };
  const made = JSON.parse(JSON.stringify(snapshot, (name, value) => times(name, value))) as Snapshot;
  made.row.id = made.tree.session.id = id;
  return { ...made, ...names, day: new Date(at).toISOString().slice(0, 10) };
}

/** Sets a session at work: its last subagent has the given activity, and its machine has just saved it. */
export function atWork(snapshot: Snapshot, liveness: Partial<NonNullable<Agent["liveness"]>>, attention: SessionRow["attention"] = "live"): Snapshot {
  const { agents, session, summary } = snapshot.tree;
  const agent = agents.at(-1);
  const root = agents[0];
  if (!agent || !root) throw new Error("no agent");
  const now = Date.now();
  const live = { name: null, count: null, since_ms: now, inferred: false, ...liveness };
  for (const one of [root, agent]) Object.assign(one, { status: "running", ended_at_ms: null, evidence: null });
  root.liveness = { ...live, kind: "children", count: 1, name: null };
  agent.liveness = { ...live, kind: liveness.kind ?? "model" };
  if (live.kind === "tool") Object.assign(agent.tools.at(-1) ?? {}, { status: "open", ended_at_ms: null, name: live.name });
  Object.assign(session, { ended_at_ms: now });
  Object.assign(summary, { running: 1, attention });
  Object.assign(snapshot.row, { status: "live", attention, running: 1, last_event_at_ms: now, kept_at_ms: now, root: "running" });
  return snapshot;
}

/** A team's server with its engine. */
export class TeamServer {
  readonly folder = mkdtempSync(join(tmpdir(), "subscope-team-"));
  readonly #children: ChildProcess[] = [];
  readonly #tokens = new Map<string, string>();
  #engine = "";
  url = "";

  /** Starts a server with these users: name and team. */
  static async start(users: [user: string, team: string][]): Promise<TeamServer> {
    const server = new TeamServer();
    server.#writeTokens(users);
    const script = join(import.meta.dirname, "../../crates/team/tests/engine/clickhouse.py");
    server.#engine = await server.#run(ENGINE ?? "", [script, join(server.folder, "engine"), "0"]);
    const words = ["team", "serve", "--clickhouse", server.#engine, "--listen", "127.0.0.1:0", "--token-file", join(server.folder, "tokens")];
    server.url = await server.#run(given("SUBSCOPE"), words);
    return server;
  }

  #writeTokens(users: [string, string][]): void {
    const lines = users.map(([user, team]) => {
      const token = `sst_${createHash("sha256").update(user).digest("hex")}`;
      this.#tokens.set(user, token);
      return `${createHash("sha256").update(token).digest("hex")} acme ${user} writer ${team}\n`;
    });
    writeFileSync(join(this.folder, "tokens"), lines.join(""), { mode: 0o600 });
  }

  #run(program: string, words: string[]): Promise<string> {
    const env = { PATH: process.env["PATH"], HOME: this.folder };
    const child = spawn(program, words, { env, stdio: ["ignore", "pipe", "ignore"] });
    this.#children.push(child);
    return started(child, program);
  }

  #headers(user: string): Record<string, string> {
    return { authorization: `Bearer ${this.#tokens.get(user) ?? ""}`, "x-subscope": "1" };
  }

  /** Sends snapshots as a machine of a user. */
  async send(user: string, snapshots: Snapshot[]): Promise<void> {
    const body = snapshots.map((one) => `${JSON.stringify(one)}\n`).join("");
    const answer = await fetch(`${this.url}/team/v1/sessions`, { method: "POST", headers: { ...this.#headers(user), "content-type": "application/x-ndjson" }, body });
    const text = await answer.text();
    if (!answer.ok || (JSON.parse(text) as { refused: unknown[] }).refused.length > 0) throw new Error(`${answer.status}: ${text}`);
  }

  /** Deletes the tree of a session, as ClickHouse does when it is too old. */
  async dropTree(session: string): Promise<void> {
    const answer = await fetch(this.#engine, { method: "POST", body: `DELETE FROM subscope.trees WHERE session_id = '${session}'` });
    if (!answer.ok) throw new Error(await answer.text());
  }

  async get<T>(user: string, path: string): Promise<T> {
    const answer = await fetch(this.url + path, { headers: this.#headers(user) });
    if (!answer.ok) throw new Error(`${path} answers ${answer.status}: ${await answer.text()}`);
    return (await answer.json()) as T;
  }

  /** Returns the path that signs one browser in. */
  async code(user: string): Promise<string> {
    const answer = await fetch(`${this.url}/api/v1/codes`, { method: "POST", headers: this.#headers(user) });
    return ((await answer.json()) as { path: string }).path;
  }

  /** Opens the page in a browser that is signed in. */
  async look(user: string, path: string, options: Parameters<typeof look>[2] = {}): Promise<Seen> {
    const seen = await look(this, await this.code(user), options);
    await seen.page.waitForSelector('[data-testid="status-bar"][data-state="live"]');
    // Errors before the sign-in are expected.
    seen.wrong.length = 0;
    await seen.page.goto(this.url + path);
    return seen;
  }

  stop(): void {
    for (const child of this.#children) {
      child.removeAllListeners("exit");
      child.kill("SIGKILL");
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}
