// The parts that need no editor, against a real hub over its socket: the program is in SUBSCOPE_BIN.
import { execFileSync } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { Home, until } from "../e2e/home.mjs";
import type { Hits, Tree } from "../../../web/src/model";
import { checkProtocol, look, Monitor, type View } from "../src/monitor";
import { checkSocket, Hub, HubError } from "../src/hub";
import { startHub } from "../src/start";
import { agentRow, needRow, sessionRow, statusLine } from "../src/words";

const program = process.env["SUBSCOPE_BIN"];
if (!program) console.log("skipped: tests with a hub, since SUBSCOPE_BIN does not name the program subscope");

const lines = (view: View): string => statusLine(view, true).text;

describe.skipIf(!program)("a hub", () => {
  const home = new Home(program ?? "");
  const hub = new Hub(home.data);
  const views: View[] = [];
  const monitor = new Monitor(hub, (view) => views.push(view), () => undefined);
  const last = (): View => views.at(-1) ?? { state: "connecting" };

  beforeAll(async () => {
    home.record();
    void monitor.run();
  });
  afterAll(async () => {
    monitor.dispose();
    await home.remove();
  });

  it("that does not run is not one without agents", async () => {
    await until("the monitor has looked", () => last().state === "no hub");
    expect(lines(last())).toBe("subscope: no hub");
    expect(statusLine(last(), false).text).toBe("subscope: not installed");
  });

  it("is found when it starts, and its sessions are listed", { timeout: 60_000 }, async () => {
    await home.start();
    const view = await until("the monitor has all sessions", () => {
      const found = last();
      return found.state === "live" && found.snapshot.ended.length === 7 && found;
    }, 20_000);
    if (!view) throw new Error("not live");
    expect(lines(view)).toBe("no agents");
    expect(view.snapshot.inbox.entries).toEqual([]);
    const row = sessionRow(view.snapshot.ended.find(({ harness }) => harness === "codex")!, Date.now());
    expect([row.label, row.tooltip]).toEqual(["Compare the two parsers", expect.stringContaining("codex")]);
    expect(row.description).toMatch(/^completed · .* · 2 agents · .* ago$/);
  });

  it("says what needs the user within a second, the most urgent first, and unknown cost as unknown", { timeout: 60_000 }, async () => {
    await home.fails();
    await until("the agent in trouble is shown", () => lines(last()).startsWith("! 1 in trouble"), 10_000);
    expect(lines(last())).toBe("! 1 in trouble · 1 agent · cost unknown");
    expect(statusLine(last(), true).worst).toBe("trouble");
    await home.asks();
    await until("the waiting agent is shown", () => lines(last()).startsWith("◆ 1 waits for you"), 10_000);
    expect(lines(last())).toBe("◆ 1 waits for you · ! 1 in trouble · 2 agents · cost unknown");
    const view = last();
    if (view.state !== "live") throw new Error("not live");
    const { entries } = view.snapshot.inbox;
    expect(entries.map(({ session }) => session.id)).toEqual(["release-0000", "nightly-0000"]);
    const rows = entries.map((entry) => needRow(entry, Date.now()));
    expect(rows[0]?.label).toMatch(/^◆ release-manager waits for your permission: Bash · \d+s$/);
    expect(rows[0]?.description).toBe("shop · Cut the release and publish it");
    expect(rows[1]?.label).toMatch(/^! crawler.* keeps failing/);
    expect(rows.map(({ icon }) => icon)).toEqual(["bell-dot", "warning"]);
    expect(view.snapshot.live).toEqual([]);
  });

  it("has the cost of a session at work as a lower bound beside sessions without a price", { timeout: 60_000 }, async () => {
    const session = await home.works();
    await until("the session at work is shown", () => / · ≥\$\d/.test(lines(last())), 10_000);
    const { live } = await look(hub);
    expect(live.map(({ id }) => id)).toEqual([session]);
    const tree = await hub.get<Tree>(`/api/v1/sessions/${session}/tree`);
    const working = tree.agents.map((agent) => agentRow(agent, Date.now())).filter(({ icon }) => icon === "play-circle");
    expect(working.length).toBeGreaterThan(1);
  });

  it("searches, and refuses in words", async () => {
    const { hits } = await hub.get<Hits>("/api/v1/search", { q: "stock", limit: 5 });
    expect(hits.length).toBeGreaterThan(0);
    await expect(hub.get("/api/v1/sessions/none/tree")).rejects.toMatchObject({ status: 404 });
    await expect(hub.post("/api/v1/sessions/none/jump")).rejects.toMatchObject({ status: 404 });
    const jumped = await hub.post<{ outcome: string; says: string }>("/api/v1/sessions/release-0000/jump");
    expect(jumped).toMatchObject({ outcome: "not_running" });
  });

  it("is started where none runs, and the reason is given where none is", { timeout: 60_000 }, async () => {
    await home.stop();
    await until("the end is seen", () => last().state === "no hub", 15_000);
    const start = (environment: NodeJS.ProcessEnv): Promise<void> => startHub(program ?? "", ["--store", home.data], hub, environment);
    await expect(start({ ...home.environment, SUBSCOPE_NO_AUTOSTART: "1" })).rejects.toThrow("has started no hub");
    await expect(startHub("/nowhere/subscope", [], hub, home.environment)).rejects.toThrow("ENOENT");
    await start(home.environment);
    expect((await hub.get<{ mode: string }>("/healthz")).mode).toBe("background");
    await until("it is found", () => last().state === "live", 20_000);
    // One that runs is no reason to start another.
    await start(home.environment);
    execFileSync(program ?? "", ["serve", "--stop"], { env: home.environment, stdio: "ignore" });
    await home.start();
    await until("that of the test is found", () => last().state === "live", 20_000);
  });

  it("that ends is missed, and found again", { timeout: 60_000 }, async () => {
    await home.stop();
    await until("the end is seen", () => last().state === "no hub", 15_000);
    await home.start();
    await until("it is found again", () => last().state === "live", 20_000);
    expect(lines(last())).toContain("1 waits for you");
  });
});

describe("a socket", () => {
  const folder = mkdtempSync(join(tmpdir(), "subs-"));
  afterAll(() => rmSync(folder, { recursive: true }));

  it("is used only if it is this user's, in a folder that nobody else writes", async () => {
    const own = join(folder, "own");
    mkdirSync(own, { mode: 0o700 });
    const server = createServer().listen(join(own, "hub.sock"));
    await new Promise((resolve) => server.once("listening", resolve));
    await checkSocket(join(own, "hub.sock"));
    const user = process.getuid?.() ?? 0;
    // Root's are everybody's: as root, the socket is given away.
    if (user === 0) chownSync(join(own, "hub.sock"), 4242, 4242);
    await expect(checkSocket(join(own, "hub.sock"), user === 0 ? 0 : user + 1)).rejects.toThrow("another user");
    if (user === 0) chownSync(join(own, "hub.sock"), 0, 0);
    writeFileSync(join(own, "file"), "");
    await expect(checkSocket(join(own, "file"))).rejects.toThrow("no socket");
    symlinkSync(join(own, "hub.sock"), join(own, "link"));
    await expect(checkSocket(join(own, "link"))).rejects.toThrow("no socket");
    chmodSync(own, 0o777);
    await expect(checkSocket(join(own, "hub.sock"))).rejects.toThrow("may be written by others");
    await expect(new Hub(own).get("/healthz")).rejects.toMatchObject({ absence: "refused" });
    server.close();
  });

  it("whose listener is gone is no hub", async () => {
    await expect(new Hub(join(folder, "none")).get("/healthz")).rejects.toMatchObject({ absence: "no hub", message: "no hub runs" });
  });

  it("of a hub with another protocol is refused", () => {
    const health = { version: "9.0.0", protocol: 3, oldest_protocol: 2 } as Parameters<typeof checkProtocol>[0];
    expect(() => checkProtocol(health)).toThrow(HubError);
    expect(() => checkProtocol({ ...health, oldest_protocol: 1 })).not.toThrow();
  });
});
