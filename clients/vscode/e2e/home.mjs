// A home with ten sessions for tests and pictures: recordings of several harnesses, and three sessions at work in a real hub.

import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const FIXTURES = fileURLToPath(new URL("../../../fixtures", import.meta.url));
const CLAUDE = "claude-code/2.1.330";

/** Recordings: source in the fixtures, place in the home, and the words that stand for a prompt made for a test. */
const ENDED = [
  [`${CLAUDE}/c-nested/projects`, ".claude/projects"],
  [`${CLAUDE}/e-retries/projects`, ".claude/projects"],
  [`${CLAUDE}/k-big/projects`, ".claude/projects"],
  ["codex/0.169.0/v1_two_parallel/sessions", ".codex/sessions", "Compare the two parsers"],
  ["copilot/1.0.102/two_parallel/dot_copilot", ".copilot", "Find the slow queries"],
  ["gemini/0.61.0/two_parallel/dot_gemini_tmp", ".gemini/tmp", "Review the API and its tests"],
  ["qwen/0.24.4/two_background/dot_qwen", ".qwen", "Bring the changelog up to date"],
];

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits until something holds; names it in the error. */
export async function until(what, holds, ms = 60_000) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await holds();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${ms / 1000} s: ${what}`);
    await sleep(100);
  }
}

export class Home {
  /** Short: the path of a socket has at most about 100 characters. */
  folder = mkdtempSync(join(tmpdir(), "subs-"));
  #program;
  #hub;

  constructor(program) {
    this.#program = program;
    mkdirSync(join(this.folder, "shop"));
  }

  /** The folder in which the agents of the sessions at work work. */
  get project() {
    return join(this.folder, "shop");
  }

  get data() {
    return join(this.folder, ".local/share/subscope");
  }

  get environment() {
    return { PATH: process.env.PATH, HOME: this.folder, LANG: "C.UTF-8" };
  }

  /** Copies the recordings. */
  record() {
    for (const [from, to, prompt] of ENDED) {
      cpSync(join(FIXTURES, from), join(this.folder, to), { recursive: true });
      if (prompt === undefined) continue;
      for (const name of readdirSync(join(this.folder, to), { recursive: true, encoding: "utf8" })) {
        const path = join(this.folder, to, name);
        if (/\.jsonl?$/.test(name)) writeFileSync(path, readFileSync(path, "utf8").replaceAll(/<<ROOT>> (do the demo( task)?|go)/g, prompt));
      }
    }
  }

  async start() {
    this.#hub = spawn(this.#program, ["serve", "--listen", "127.0.0.1:0"], { env: this.environment, cwd: this.folder, stdio: ["ignore", "pipe", "ignore"] });
    this.#hub.stdout.resume();
    await until("the hub answers and has read everything", async () => existsSync(join(this.data, "hub.sock")) && (await this.ask("GET", "/healthz").catch(() => null))?.is_reading === false);
  }

  async stop() {
    const hub = this.#hub;
    if (!hub || hub.exitCode !== null) return;
    const ended = new Promise((resolve) => hub.once("exit", resolve));
    hub.kill("SIGTERM");
    await ended;
  }

  async remove() {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Sends a request over the socket; returns the JSON of the answer. */
  ask(method, path, body, type = "application/json") {
    return new Promise((resolve, reject) => {
      const headers = body === undefined ? {} : { "content-type": type, "x-subscope": "1" };
      const sent = request({ socketPath: join(this.data, "hub.sock"), path, method, headers: { host: "localhost", ...headers }, agent: false }, (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (part) => (text += part));
        response.on("end", () => (response.statusCode < 300 ? resolve(text === "" ? null : JSON.parse(text)) : reject(new Error(`${path}: ${response.statusCode} ${text}`))));
      });
      sent.once("error", reject);
      sent.end(body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body));
    });
  }

  /** A session of Claude Code that asks for a permission. */
  async asks(title = "Cut the release and publish it", session = "release-0000") {
    const base = { session_id: session, transcript_path: `/${session}.jsonl`, cwd: this.project, prompt_id: "p" };
    const agent = { ...base, agent_id: "a1", agent_type: "release-manager" };
    await this.ask("POST", "/hooks/claude", { ...base, hook_event_name: "UserPromptSubmit", prompt: title });
    await this.ask("POST", "/hooks/claude", { ...agent, hook_event_name: "SubagentStart" });
    const edit = { ...agent, tool_name: "Edit", tool_use_id: "e1", tool_input: { file_path: join(this.project, "cart.js"), old_string: "1", new_string: "2" } };
    writeFileSync(join(this.project, "cart.js"), "const first = 1;\nconst second = 2;\n");
    await this.ask("POST", "/hooks/claude", { ...edit, hook_event_name: "PreToolUse" });
    await this.ask("POST", "/hooks/claude", { ...edit, hook_event_name: "PostToolUse", tool_response: {} });
    await this.ask("POST", "/hooks/claude", { ...agent, hook_event_name: "PermissionRequest", tool_name: "Bash", tool_input: { command: "git push origin v0.4.0" } });
  }

  /** A session of another program, whose agent keeps failing. */
  async fails(session = "nightly-0000") {
    const base = { subagentName: "crawler", subagentRunId: "crawler-1", sessionId: session, cwd: this.project };
    const post = (type, more) => this.ask("POST", "/subagent-events", { ...base, type, timestamp: Date.now(), ...more });
    await post("subagent_start", { payload: "Collect the prices of all suppliers" });
    for (const call of ["1", "2", "3"]) {
      const tool = { toolName: "fetch", toolCallId: call };
      await post("tool_call", { ...tool, payload: '{"url":"https://supplier.example/prices"}' });
      await post("tool_result", { ...tool, payload: "503", isError: true });
    }
  }

  /** A recorded session up to the middle of its time, as if that were now. */
  async works(scenario = "b-parallel") {
    const projects = join(FIXTURES, CLAUDE, scenario, "projects");
    const files = readdirSync(projects, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".jsonl"));
    const lines = files.flatMap((source) => {
      let at = 0;
      const texts = readFileSync(join(projects, source), "utf8").split("\n").filter((line) => line !== "");
      return texts.map((text) => ({ source, text, at: (at = Date.parse(JSON.parse(text).timestamp ?? "") || at) }));
    });
    const times = lines.map(({ at }) => at).filter((at) => at > 0);
    const middle = Math.min(...times) + (Math.max(...times) - Math.min(...times)) * 0.5;
    const moved = (text) => text.replace(/"timestamp":"([^"]+)"/g, (_, stamp) => `"timestamp":"${new Date(Date.parse(stamp) - middle + Date.now()).toISOString()}"`);
    for (const source of files) {
      const own = lines.filter((line) => line.source === source && line.at <= middle).map(({ text }) => moved(text));
      if (own.length > 0) await this.ask("POST", `/api/v1/ingest/claude.transcript?source=${encodeURIComponent(source)}`, `${own.join("\n")}\n`, "application/x-ndjson");
    }
    return basename(files.find((name) => !name.includes("subagents")), ".jsonl");
  }
}
