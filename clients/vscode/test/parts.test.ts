// The parts that need neither an editor nor a hub.
import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";

import type { Agent, SessionRow } from "../../../web/src/model";
import { withAncestors } from "../src/ancestors";
import { documentOf } from "../src/document";
import { dataFolder, findProgram } from "../src/program";
import { allowed } from "../src/routes";
import { agentRow, inert, sessionRow, statusLine } from "../src/words";

describe("the program", () => {
  const home = mkdtempSync(join(tmpdir(), "subs-"));
  afterAll(() => rmSync(home, { recursive: true }));
  const put = (folder: string, mode = 0o755): string => {
    mkdirSync(join(home, folder), { recursive: true });
    writeFileSync(join(home, folder, "subscope"), "");
    chmodSync(join(home, folder, "subscope"), mode);
    return join(home, folder, "subscope");
  };

  it("is that of the settings, else the first in PATH, else in the usual folders", async () => {
    const find = (named: string, path?: string): Promise<string | null> => findProgram(named, { PATH: path }, home, [join(home, ".local/bin"), join(home, ".cargo/bin")]);
    expect(await find("")).toBe(null);
    const usual = put(".cargo/bin");
    expect(await find("")).toBe(usual);
    put("locked", 0o644);
    mkdirSync(join(home, "folder/subscope"), { recursive: true });
    const inPath = put("bin");
    expect(await find("", `relative:${join(home, "locked")}:${join(home, "folder")}:${join(home, "bin")}`)).toBe(inPath);
    expect(await find("~/bin/subscope")).toBe(inPath);
    expect(await find(join(home, "nowhere/subscope"), join(home, "bin"))).toBe(null);
  });

  it("has its data folder where its rule says", () => {
    expect(dataFolder("", { SUBSCOPE_DATA_DIR: "/d", XDG_DATA_HOME: "/x" }, "/h")).toBe("/d");
    expect(dataFolder("", { SUBSCOPE_DATA_DIR: "", XDG_DATA_HOME: "/x" }, "/h")).toBe("/x/subscope");
    expect(dataFolder("", { XDG_DATA_HOME: "relative" }, "/h")).toBe("/h/.local/share/subscope");
    expect(dataFolder("~/s", { SUBSCOPE_DATA_DIR: "/d" }, "/h")).toBe("/h/s");
  });
});

describe("a request of the page", () => {
  const ask = (method: unknown, address: unknown, headers: unknown = {}, body: unknown = null): ReturnType<typeof allowed> => allowed({ method, address, headers, body });

  it("is sent if its method and path are in the list", () => {
    expect(ask("GET", "/api/v1/sessions?limit=5&q=a%20b")?.address).toBe("/api/v1/sessions?limit=5&q=a%20b");
    expect(ask("GET", "/api/v1/sessions/a%2Fb/tree")).toMatchObject({ id: "a/b", what: "tree" });
    expect(ask("POST", "/api/v1/sessions/x/jump", { "x-subscope": "1", cookie: "c", authorization: "a" }, "{}")).toMatchObject({ headers: { "x-subscope": "1" }, body: "{}", id: "x" });
  });

  it("is refused otherwise", () => {
    const refused: [unknown, unknown][] = [
      ["POST", "/hooks/claude"],
      ["POST", "/subagent-events"],
      ["POST", "/api/v1/ingest/claude.transcript"],
      ["POST", "/api/v1/sessions"],
      ["DELETE", "/api/v1/sessions/x"],
      ["get", "/healthz"],
      ["GET", "/metrics"],
      ["GET", "/healthz/"],
      ["GET", "//healthz"],
      ["GET", "http://evil.example/healthz"],
      ["GET", "/api/v1/sessions/../setup"],
      ["GET", "/api/v1/sessions/%2e%2e/tree"],
      ["GET", "/api/v1/sessions//tree"],
      ["GET", "/api/v1/sessions/x/y/tree"],
      ["GET", "/api/v1/sessions/%/tree"],
      ["GET", "/healthz\r\nX: 1"],
      ["GET", "/healthz x"],
      ["GET", "/healthz#x"],
      ["GET", `/api/v1/search?q=${"a".repeat(9000)}`],
      ["constructor", "/healthz"],
      [undefined, "/healthz"],
      ["GET", undefined],
    ];
    for (const [method, address] of refused) expect(ask(method, address), `${String(method)} ${String(address)}`).toBe(null);
    expect(ask("POST", "/api/v1/seen", {}, "x".repeat((1 << 20) + 1))).toBe(null);
    expect(ask("POST", "/api/v1/seen", {}, { toString: "x" })).toBe(null);
    expect(ask("GET", "/healthz", { "last-event-id": "1\r\nX: 1" })?.headers).toEqual({});
  });
});

describe("what is shown", () => {
  const HOSTILE = "$(error) [x](command:y)\u202e\u0007\n<b>";
  const session = { id: "s", harness: null, cwd: null, title: HOSTILE, status: "live", attention: "live", started_at_ms: null, last_event_at_ms: null, runs: 0, agents: 2, running: 1, failed: 0, tool_calls: 0, usage: null, cost_micro_usd: null, cost_floor: false } as SessionRow;

  it("is inert where the editor reads marks, and one line without hidden characters everywhere", () => {
    expect(inert(HOSTILE)).toBe("$ (error) [x] (command:y)⟨U+202E⟩⟨U+0007⟩ <b>");
    expect(inert("x".repeat(5000)).length).toBe(200);
    const row = sessionRow(session, 0);
    expect(row.label).toBe("$(error) [x](command:y)⟨U+202E⟩⟨U+0…");
    expect(row.tooltip.split("\n")[0]).toBe("$(error) [x](command:y)⟨U+202E⟩⟨U+0007⟩ <b>");
  });

  it("says what is not known", () => {
    const row = sessionRow(session, 0);
    expect(row.description).toBe("running · 1 of 2 agents at work · cost unknown");
    expect(row.tooltip).toContain("tokens unknown");
    expect(row.tooltip).toContain("unknown program");
    expect(sessionRow({ ...session, cost_micro_usd: 1_234_000, cost_floor: true }, 0).description).toContain("≥$1.23");
  });

  it("has words for every look, so that no color says anything alone", () => {
    const agent = { id: "a", type: "Explore", name: null, description: HOSTILE, status: "failed", evidence: null, liveness: null, flags: ["stalled", "inferred"], tools: [], tool_calls: 3, tool_errors: 1, model: null, usage: null, cost_micro_usd: null, cost_floor: false, error: HOSTILE, subtree: { cost_micro_usd: null, cost_floor: false } } as unknown as Agent;
    expect(agentRow(agent, 0)).toMatchObject({ description: "failed · cost unknown", icon: "error", color: "charts.red" });
    expect(agentRow(agent, 0).tooltip).not.toMatch(/\u202e|\u0007/);
    for (const status of ["pending", "running", "completed", "failed", "stopped", "lost"] as const) {
      expect(agentRow({ ...agent, status, flags: [] }, 0).description).toContain(status);
    }
    const waits = { ...agent, status: "running", flags: [], liveness: { kind: "permission", name: "Bash", count: null, since_ms: 0, inferred: false } } as unknown as Agent;
    expect(agentRow(waits, 5000)).toMatchObject({ description: "waits for you · waits for permission Bash · 5s", icon: "bell-dot" });
  });

  it("names a refused hub's reason", () => {
    expect(statusLine({ state: "refused", why: "the socket belongs to another user" }, true)).toMatchObject({ text: "subscope: no access", tooltip: "subscope: the socket belongs to another user" });
  });
});

it("the document of the panel allows its own files alone, and names them all", () => {
  const index = readFileSync(new URL("../../../web/dist/index.html", import.meta.url), "utf8");
  const document = documentOf(index, (file) => `https://own/${file}`, "https://own", "number");
  expect(document).toMatch(/<html data-host="panel" lang="en">/);
  const [, policy] = /<meta http-equiv="Content-Security-Policy" content="([^"]+)">/.exec(document) ?? [];
  expect(policy).toBe("default-src 'none'; script-src 'nonce-number'; style-src https://own; img-src https://own data:; base-uri 'none'; form-action 'none'");
  expect(document.indexOf("Content-Security-Policy")).toBeLessThan(document.indexOf("<script"));
  expect(document).not.toContain('"./');
  expect(document.match(/<script /g)).toHaveLength(1);
  expect(document).toMatch(/<script nonce="number" type="module" crossorigin src="https:\/\/own\/assets\/index-[\w-]+\.js">/);
});

it("the processes above one are found, whatever their names are", async () => {
  const child = spawn("sh", ["-c", "sleep 60 & echo $!; wait"], { stdio: ["ignore", "pipe", "ignore"] });
  const [grandchild] = await new Promise<[number]>((resolve) => child.stdout.once("data", (text: Buffer) => resolve([Number(text.toString())])));
  try {
    expect((await withAncestors(grandchild)).slice(0, 3)).toEqual([grandchild, child.pid, process.pid]);
    expect(await withAncestors(2 ** 30)).toEqual([2 ** 30]);
  } finally {
    process.kill(grandchild);
    child.kill();
  }
});

it("the manifest names each command once, and the icon and page that the package has", () => {
  const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { contributes: { commands: { command: string }[]; menus: Record<string, { command: string }[]> } };
  const names = manifest.contributes.commands.map(({ command }) => command);
  const source = readFileSync(new URL("../src/extension.ts", import.meta.url), "utf8");
  expect(new Set(names).size).toBe(names.length);
  for (const name of names) expect(source).toContain(`command("${name.replace("subscope.", "")}"`);
  for (const { command } of Object.values(manifest.contributes.menus).flat()) expect(names).toContain(command);
});
