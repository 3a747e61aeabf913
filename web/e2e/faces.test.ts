// Many sessions: a stable order, what needs a person, and no wrong claims.
import { expect, it } from "vitest";
import type { Locator, Page } from "playwright-core";
import type { Agent, Tree } from "../src/model";
import { timer } from "../src/lib/words";
import { crowd, publish } from "./crowd";
import { cleanUp, freePort, isQuiet, keepNotices, look, type Notice, Recording, row, type Seen, Server, sleep } from "./harness";

let server: Server;
let seen: Seen;

cleanUp("each test");

interface RowSeen {
  id: string;
  status: string;
  time: string;
}

interface MomentSeen {
  at: number;
  rows: RowSeen[];
}

/** The rows on the screen and their moment, read in one step. */
const momentOf = (page: Page): Promise<MomentSeen> =>
  page.evaluate(() => ({
    at: Number(document.querySelector<HTMLElement>(".waterfall")?.dataset["at"] ?? "0"),
    rows: [...document.querySelectorAll<HTMLElement>('[data-testid="agent-row"]')].map((one) => ({
      id: one.dataset["agentId"] ?? "",
      status: one.dataset["status"] ?? "",
      time: one.querySelector(".columns > .time")?.textContent?.trim() ?? "",
    })),
  }));

const expected = (agents: Agent[], at: number): RowSeen[] =>
  agents.map((agent) => ({ id: agent.id, status: agent.status, time: Object.values(timer(agent, at)).join(" ").trim() }));

it("replays what was: while it plays and when it is paused, rows are those of that moment", async () => {
  server = await Server.over("k-big");
  const { session, first } = new Recording("k-big");
  const treeAt = (at: number): Promise<Tree> => server.get(`/api/v1/sessions/${session}/tree?at=${at}`);
  seen = await look(server, `/s/${session}?t=${first}`);
  const { page } = seen;
  await page.waitForSelector(row("root"));
  await page.getByRole("button", { name: "replay" }).click();
  const moments: MomentSeen[] = [];
  const played = (): number => new Set(moments.map(({ at }) => at).filter((at) => at > first)).size;
  await expect
    .poll(async () => {
      moments.push(await momentOf(page));
      return played() > 6 && moments.at(-1)?.rows.some(({ status }) => status === "running");
    }, { interval: 200, timeout: 15_000 })
    .toBe(true);
  await page.getByRole("button", { name: "pause" }).click();
  for (const { at, rows } of moments.filter(({ at }) => at > 0)) expect(rows, `at ${at - first} ms`).toEqual(expected((await treeAt(at)).agents, at));
  // A link to a moment, opened much later.
  const at = first + 12_000;
  const then = await treeAt(at);
  const working = then.agents.find((agent) => agent.status === "running" && agent.id !== "root");
  await page.goto(`${server.url}/s/${session}/a/${working?.id}?t=${at}`);
  await page.waitForSelector("aside .top > h2");
  await expect.poll(() => momentOf(page)).toEqual({ at, rows: expected(then.agents, at) });
  await expect.poll(() => page.locator("aside .meta .time").textContent()).toBe(timer(working as Agent, at).time);
  expect(await page.getByRole("button", { name: "Stop…" }).count()).toBe(0);
  expect(await page.locator("aside .tool.open .time").allTextContents()).not.toContainEqual(expect.stringMatching(/h/));
  await page.getByText(/replaying .* 1\ds after the start/).waitFor();
  await page.getByRole("button", { name: "to the end" }).click();
  for (const agent of (await server.get<Tree>(`/api/v1/sessions/${session}/tree`)).agents) {
    await page.waitForSelector(`${row(agent.id)}[data-status="${agent.status}"]`);
  }
  isQuiet(seen);
});

const SESSIONS = Array.from({ length: 10 }, (_, number) => `ten-${number}`);

/** Starts ten sessions with five agents each. */
async function ten(of: Server): Promise<void> {
  const begin = Date.now() - 60_000;
  for (const [number, session] of SESSIONS.entries()) {
    for (let agent = 0; agent < 5; agent++) {
      const base = { subagentName: `Look at part ${agent} of ${number}`, subagentRunId: `${session}-${agent}`, sessionId: session };
      await of.publish({ ...base, type: "subagent_start", timestamp: begin + number * 1000 + agent, payload: `Look at part ${agent}` });
    }
  }
}

/** Publishes events of all sessions in changing order until a promise settles. */
async function posting(of: Server, during: Promise<unknown>): Promise<void> {
  let isOver = false;
  void during.finally(() => (isOver = true));
  for (let turn = 0; !isOver; turn++) {
    const session = SESSIONS[(turn * 7 + Math.floor(turn / 10) * 3) % SESSIONS.length] ?? "";
    const base = { subagentName: "Look", subagentRunId: `${session}-${turn % 5}`, sessionId: session, timestamp: Date.now() };
    await of.publish({ ...base, type: "tool_call", toolName: "Read", toolCallId: `c${turn}`, payload: { file_path: `/x/${turn}` } });
    // Some agents start, and some end.
    if (turn % 9 === 0) await of.publish({ ...base, subagentRunId: `${session}-new-${turn}`, type: "subagent_start", payload: "More" });
    if (turn % 11 === 0) await of.publish({ ...base, subagentRunId: `${session}-new-${turn - 2}`, type: "subagent_end" });
    await sleep(20);
  }
  await during;
}

const CARDS = '[data-testid="session-card"]';
const LISTED = '[data-testid="session-row"]';

const orderOf = (page: Page, selector: string): Promise<string> =>
  page.locator(selector).evaluateAll((all) => all.map((one) => (one as HTMLElement).dataset["sessionId"]).join(" "));

it("keeps ten sessions where they are while all of them post", async () => {
  server = await Server.start();
  await ten(server);
  seen = await look(server);
  const { page } = seen;
  await expect.poll(() => page.locator(CARDS).count()).toBe(10);
  // They stand once: the list beside the cards has the others. Beside another view it has all.
  expect(await page.locator(LISTED).count()).toBe(0);
  const other = await look(server, "/stats");
  await expect.poll(() => other.page.locator(LISTED).count()).toBe(10);
  // Ten fit on the screen.
  expect(await page.locator(CARDS).last().evaluate((one) => one.getBoundingClientRect().bottom <= innerHeight)).toBe(true);
  const orders = new Map([[CARDS, new Set<string>()], [LISTED, new Set<string>()]]);
  let misses = 0;
  const aimed = async (): Promise<void> => {
    for (let click = 0; click < 50; click++) {
      const shown = click % 2 === 0 ? page : other.page;
      const one = shown.locator(click % 2 === 0 ? CARDS : LISTED).nth((click * 3) % 10);
      const wanted = await one.evaluate((node) => {
        const box = node.getBoundingClientRect();
        return { id: (node as HTMLElement).dataset["sessionId"], x: box.x + box.width / 2, y: box.y + box.height / 2 };
      });
      orders.get(CARDS)?.add(await orderOf(page, CARDS));
      orders.get(LISTED)?.add(await orderOf(other.page, LISTED));
      await sleep(700);
      const hit = await shown.evaluate(
        ({ x, y }) => document.elementFromPoint(x, y)?.closest<HTMLElement>("[data-session-id]")?.dataset["sessionId"],
        wanted,
      );
      if (hit !== wanted.id) misses += 1;
    }
  };
  await posting(server, aimed());
  for (const [selector, all] of orders) expect(all.size, selector).toBe(1);
  expect(orders.get(CARDS)).toEqual(orders.get(LISTED));
  expect(misses).toBe(0);
  isQuiet(seen);
  isQuiet(other);
});

/** Starts a session in which an agent asks for a permission. */
async function asking(of: Server, session: string, command: string): Promise<void> {
  const base = { session_id: session, transcript_path: `/${session}.jsonl`, cwd: "/home/user/shop", prompt_id: "p" };
  const tool = { agent_id: "a1", tool_name: "Bash", tool_input: { command } };
  await of.hook({ ...base, hook_event_name: "UserPromptSubmit", prompt: "clean up" });
  await of.hook({ ...base, hook_event_name: "SubagentStart", agent_id: "a1", agent_type: "Explore" });
  await of.hook({ ...base, ...tool, hook_event_name: "PreToolUse", tool_use_id: "t1" });
  await of.hook({ ...base, ...tool, hook_event_name: "PermissionRequest" });
}

const COMMAND = "rm -rf node_modules dist .cache && npm ci --ignore-scripts --no-audit && npm run build -- --mode production";

it("dismisses what a session needs until something new happens, on every face", async () => {
  server = await Server.start();
  await asking(server, "asks", COMMAND);
  await asking(server, "other", "git push --force");
  seen = await look(server);
  const { page } = seen;
  const need = (session: string) => page.locator(`[data-testid="need"][data-session-id="${session}"]`);
  await need("asks").waitFor();
  await need("other").waitFor();
  await expect.poll(() => page.title()).toBe("(2) subscope");
  expect(await page.getByTestId("status-bar").textContent()).toContain("◆ 2 wait for you");
  await need("asks").locator("[data-agent-id] a").focus();
  await page.keyboard.press("d");
  await need("asks").waitFor({ state: "detached" });
  await expect.poll(() => page.title()).toBe("(1) subscope");
  // It is kept by the hub: for another page, and for the command line.
  await page.reload();
  await need("other").waitFor();
  expect(await need("asks").count()).toBe(0);
  expect(server.ran("status").stdout).toContain("◆ 1 waits for you");
  await need("other").getByRole("button", { name: /^dismiss/ }).click();
  await need("other").waitFor({ state: "detached" });
  await expect.poll(() => page.title()).toBe("subscope");
  // A new request is a new fact.
  await asking(server, "other", "git push --force --tags");
  await need("other").waitFor();
  isQuiet(seen);
});

it("shows who needs a person on top, with the whole command, wherever one looks", async () => {
  server = await Server.start();
  await ten(server);
  seen = await look(server);
  const { page } = seen;
  await expect.poll(() => page.locator(CARDS).count()).toBe(10);
  expect(await page.title()).toBe("subscope");
  const before = await orderOf(page, CARDS);
  const other = await look(server, "/stats");
  await page.locator(CARDS).nth(4).hover();
  await asking(server, "asks", COMMAND);
  const need = page.locator('[data-testid="need"]');
  await need.waitFor();
  await expect.poll(() => need.textContent()).toContain(COMMAND);
  expect(await need.textContent()).toMatch(/shop.*clean up.*Explore.*waits for your permission: Bash/s);
  expect(await need.evaluate((one) => one.getBoundingClientRect().bottom < innerHeight / 2)).toBe(true);
  await expect.poll(() => page.title()).toBe("(1) subscope");
  expect(await page.locator('link[rel="icon"]').getAttribute("href")).toBe("/assets/icon-needs.svg");
  expect((await fetch(`${server.url}/assets/icon-needs.svg`)).status).toBe(200);
  await page.locator('footer a.first', { hasText: "shop · clean up" }).waitFor();
  await other.page.waitForSelector(`${LISTED}[data-session-id="asks"][data-attention="waiting"]`);
  // Nothing moves under the pointer; it moves once the pointer is gone.
  expect(await orderOf(page, CARDS)).toBe(`${before} asks`);
  await page.mouse.move(640, 5);
  await expect.poll(() => orderOf(page, CARDS)).toBe(`asks ${before}`);
  await expect.poll(() => orderOf(other.page, LISTED)).toBe(`asks ${before}`);
  isQuiet(other);
  await other.context.close();
  // A notification names the session and the command, and opens the agent.
  await keepNotices(page);
  await page.reload();
  await page.getByRole("button", { name: "notifications off" }).click();
  await page.getByRole("button", { name: "notifications on" }).waitFor();
  await asking(server, "other", "git push --force");
  await page.waitForFunction(() => (globalThis as unknown as { notices: Notice[] }).notices.length > 0);
  const notice = await page.evaluate(() => {
    const [one] = (globalThis as unknown as { notices: Notice[] }).notices;
    one?.onclick?.();
    return [one?.title, one?.options.body];
  });
  expect(notice).toEqual(["clean up", "Explore waits for your permission: Bash git push --force"]);
  await page.waitForURL("**/s/other/a/a1");
  await page.goBack();
  await page.locator('[data-testid="need"][data-session-id="asks"] [data-agent-id="a1"]').getByRole("link").click();
  await page.waitForURL("**/s/asks/a/a1");
  await page.locator("aside .note.waiting", { hasText: COMMAND }).waitFor();
  isQuiet(seen);
});

it("notifies of a budget that is used, and a click leads to the agent that used it", async () => {
  server = new Server(await freePort());
  server.configure("[budget]\nsession = 0.01\n");
  await server.run();
  seen = await look(server);
  const { page } = seen;
  await keepNotices(page);
  await page.addInitScript(() => localStorage.setItem("subscope-notifications", "on"));
  await page.reload();
  await page.getByRole("button", { name: "notifications on" }).waitFor();
  const recording = new Recording("b-parallel");
  await recording.play(server, 0);
  const bodies = (): Promise<string[]> => page.evaluate(() => (globalThis as unknown as { notices: Notice[] }).notices.map(({ options }) => options.body));
  await expect.poll(bodies).toContainEqual(expect.stringMatching(/^the session has cost \$0\.\d+: the budget is \$0\.01$/));
  await page.evaluate(() => (globalThis as unknown as { notices: Notice[] }).notices.find(({ options }) => options.body.includes("budget"))?.onclick?.());
  await page.waitForURL(`**/s/${recording.session}/a/root`);
  // The cost of an agent whose model has no price is unknown: the session's cost is a lower bound.
  const unpriced = new Recording("k-big");
  unpriced.renameModel("model-without-a-price");
  await unpriced.play(server, 0);
  await expect.poll(bodies).toContainEqual(expect.stringMatching(/^the session has cost ≥\$0\.\d+: the budget is \$0\.01$/));
  isQuiet(seen);
});

it("says where there is nothing what is watched, and whether hooks are installed", async () => {
  server = new Server(await freePort());
  await server.run();
  seen = await look(server);
  const { page } = seen;
  expect(await page.getByTestId("watched").textContent()).toContain(`${server.folder}/claude/projects`);
  expect(await page.getByTestId("watched").textContent()).toContain("no session found");
  await page.getByTestId("hooks").filter({ hasText: "not installed" }).getByText("subscope hooks install").waitFor();
  server.subscope("hooks", "install");
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await page.getByTestId("hooks").filter({ hasText: /^\s*installed/ }).waitFor();
  isQuiet(seen);
});

it("claims no life of a hub that it does not hear", async () => {
  server = await Server.start();
  await ten(server);
  const recording = new Recording("b-parallel");
  await recording.play(server, 1, 0.4);
  for (const path of ["/", `/s/${recording.session}/a/root`]) {
    seen = await look(server, path);
    const { page } = seen;
    await page.waitForSelector(path === "/" ? CARDS : row("root"));
    const timers = (): Promise<string[]> => page.locator(".time, .lasts, .does, .meta").allTextContents();
    const color = (): Promise<string> => page.evaluate(() => getComputedStyle(document.documentElement).getPropertyValue("--running"));
    const live = await color();
    await server.kill();
    await page.getByTestId("unheard").waitFor();
    expect(await page.getByTestId("unheard").textContent()).toMatch(/no connection to the hub since \d\d:\d\d:\d\d.*subscope serve/s);
    const stopped = await timers();
    await sleep(2500);
    expect(await timers()).toEqual(stopped);
    expect(await color()).not.toBe(live);
    await server.run();
    await page.getByTestId("unheard").waitFor({ state: "hidden" });
    await expect.poll(timers).not.toEqual(stopped);
    expect(await color()).toBe(live);
    isQuiet(seen);
    await seen.context.close();
  }
});

it("finds every session by its words, and says where else to look", async () => {
  server = await Server.start();
  const begin = Date.now() - 86_400_000;
  const lines = Array.from({ length: 450 }, (_, number) => {
    const base = { subagentName: `Task ${number}${number === 3 ? " amaranth" : ""}`, subagentRunId: `r${number}`, sessionId: `many-${number}` };
    return ["subagent_start", "subagent_end"].map((type, at) => JSON.stringify({ ...base, type, timestamp: begin + number * 10_000 + at * 1000 }));
  });
  await server.ingest("subagent-events", "many", lines.flat(), "many");
  seen = await look(server);
  const { page } = seen;
  await expect.poll(() => page.locator(LISTED).count()).toBeGreaterThan(5);
  const field = page.getByRole("searchbox", { name: "find a session" });
  await field.fill("amaranth TASK");
  await expect.poll(() => orderOf(page, LISTED)).toBe("many-3");
  await field.fill("wolfram");
  await page.getByText("No session is named “wolfram”.").waitFor();
  await page.getByRole("link", { name: "Search what they said" }).click();
  await page.waitForURL("**/search?q=wolfram");
  // The end is reached by scrolling alone.
  await field.fill("");
  await page.locator(LISTED).first().waitFor();
  await expect
    .poll(async () => {
      await page.locator(".sidebar .scroller").evaluate((list) => (list.scrollTop = list.scrollHeight));
      return orderOf(page, LISTED);
    })
    .toMatch(/many-0$/);
  isQuiet(seen);
});

it("finds agents of a crowd by words and by what they are", async () => {
  server = await Server.start();
  await publish(server, crowd("crowd", Date.now() - 60_000, 120, 2), "crowd");
  const { agents, summary } = await server.get<Tree>("/api/v1/sessions/crowd/tree");
  seen = await look(server, "/s/crowd");
  const { page } = seen;
  await page.waitForSelector(row("run-0"));
  // The sentence of the critical path may reduce the height of the rows by a line.
  await page.locator(".overview p").waitFor();
  const rows = page.locator('[data-testid="agent-row"]');
  const all = await rows.count();
  await page.getByRole("button", { name: `running ${agents.filter(({ status }) => status === "running").length}` }).waitFor();
  await page.getByRole("searchbox", { name: "find an agent" }).fill("plan 41");
  // It is shown with its ancestors.
  const found = agents.filter(({ name, type, description }) => [name, type, description].some((word) => word?.includes("Plan 41")));
  expect(found.length).toBe(1);
  await expect.poll(() => rows.last().getAttribute("data-agent-id")).toBe(found[0]?.id);
  expect(await rows.count()).toBe((found[0]?.depth ?? 0) + 1);
  await page.getByRole("searchbox", { name: "find an agent" }).fill("");
  await expect.poll(() => rows.count()).toBe(all);
  await page.getByRole("button", { name: "fold all" }).click();
  await page.getByText(`${agents.filter(({ depth }) => depth === 1).length} agents,`).waitFor();
  await page.getByRole("button", { name: "unfold all" }).click();
  await page.getByText(`${summary.agents} agents,`).waitFor();
  isQuiet(seen);
});

it("gives room where a person wants it, and keeps it", async () => {
  server = await Server.over("c-nested");
  const { session } = new Recording("c-nested");
  seen = await look(server, `/s/${session}/a/root`);
  const { page } = seen;
  await page.waitForSelector("aside .top > h2");
  const width = (part: string): Promise<number> => page.locator(part).evaluate((one) => Math.round(one.getBoundingClientRect().width));
  for (const [edge, part, key] of [["width of the list", ".side", "ArrowRight"], ["width of the names", ".corner", "ArrowRight"], ["width of the agent", "aside", "ArrowLeft"]] as const) {
    const before = await width(part);
    await page.getByRole("separator", { name: edge }).focus();
    await page.keyboard.press(key);
    await expect.poll(() => width(part), { message: part }).toBeGreaterThan(before + 10);
  }
  const box = await page.getByRole("separator", { name: "width of the agent" }).boundingBox();
  const wide = await width("aside");
  await page.mouse.move((box?.x ?? 0) + 3, 400);
  await page.mouse.down();
  await page.mouse.move((box?.x ?? 0) - 57, 400, { steps: 4 });
  await page.mouse.up();
  await expect.poll(() => width("aside")).toBeGreaterThan(wide + 40);
  const widths = (): Promise<number[]> => Promise.all([".side", ".corner", "aside"].map(width));
  const kept = await widths();
  await page.reload();
  await page.waitForSelector("aside .top > h2");
  await expect.poll(widths).toEqual(kept);
  await page.keyboard.press("[");
  await page.locator(".side").waitFor({ state: "hidden" });
  await page.keyboard.press("[");
  await page.locator(".side").waitFor();
  isQuiet(seen);
});

it("shows an agent as one document: an opened call scrolls into view, and the result appears once", async () => {
  server = await Server.over("k-big");
  const { session } = new Recording("k-big");
  const { agents } = await server.get<Tree>(`/api/v1/sessions/${session}/tree`);
  const busiest = agents.filter((agent) => agent.result !== null && agent.id !== "root").sort((a, b) => b.tool_calls - a.tool_calls)[0];
  if (!busiest) throw new Error("nobody has a result");
  seen = await look(server, `/s/${session}/a/${busiest.id}`, { viewport: { width: 1440, height: 900 } });
  const { page } = seen;
  await page.waitForSelector("aside [data-testid=tool-row]");
  const boxes = await page.evaluate(() => {
    const box = (selector: string): DOMRect => document.querySelector(selector)?.getBoundingClientRect() ?? new DOMRect();
    return { panel: box("aside").height, header: box("aside header").height, story: box("aside .story .scroller").height };
  });
  expect(boxes.header).toBeLessThanOrEqual(90);
  expect(boxes.story).toBeGreaterThanOrEqual(boxes.panel * 0.8);
  // The last call on the screen is opened: it scrolls into view completely, or from its beginning.
  const calls = page.locator("aside [data-testid=tool-row]");
  const heights = await calls.evaluateAll((all) => all.map((call) => call.getBoundingClientRect().bottom));
  const last = heights.findLastIndex((bottom) => bottom <= 890);
  const call = calls.nth(last);
  const id = await call.getAttribute("data-call-id");
  await call.locator("button").first().click();
  const opened = page.locator(`aside [data-call-id="${id}"]`);
  await opened.locator(".more").waitFor();
  await expect
    .poll(() =>
      opened.evaluate((node) => {
        const [own, room] = [node.getBoundingClientRect(), node.closest(".scroller")?.getBoundingClientRect()];
        if (!room) return false;
        return own.top >= room.top - 1 && (own.bottom <= room.bottom + 1 || own.top <= room.top + room.height / 3);
      }),
    )
    .toBe(true);
  await page.getByRole("button", { name: "result ↓" }).click();
  const result = page.locator("aside [data-testid=agent-result]");
  await expect.poll(() => result.evaluate((node) => node.getBoundingClientRect().top < innerHeight)).toBe(true);
  const words = (busiest.result ?? "").split("\n").find((line) => line.length > 20 && !/[`*#|]/.test(line)) ?? "";
  expect(await page.locator("aside .part:not(.prompt)", { hasText: words }).count(), words).toBe(1);
  isQuiet(seen);
});

const CODE = "export function total(items: Item[]): number {\n  // <script>alert(1)</script>\n  return items.length * 42;\n}\n";

it("colors code, copies every block, shows outputs whole, and explains figures and endings", async () => {
  server = await Server.start();
  const long = Array.from({ length: 300 }, (_, at) => `line ${at} of the log`).join("\n");
  const base = { subagentName: "Reader", subagentRunId: "r", sessionId: "code" };
  const at = Date.now() - 60_000;
  const call = async (toolCallId: string, toolName: string, payload: object, result: string, later: number): Promise<void> => {
    await server.publish({ ...base, type: "tool_call", toolName, toolCallId, payload, timestamp: at + later });
    await server.publish({ ...base, type: "tool_result", toolName, toolCallId, payload: result, timestamp: at + later + 500 });
  };
  await server.publish({ ...base, type: "subagent_start", payload: "Read the code", timestamp: at });
  const numbered = CODE.split("\n").map((line, number) => `${String(number + 1).padStart(6)}→${line}`).join("\n");
  await call("read", "Read", { file_path: "/src/total.ts" }, numbered, 1000);
  await call("edit", "Edit", { file_path: "/src/total.ts", old_string: "return 1;", new_string: "return 2; // two" }, "done", 2000);
  await call("run", "Bash", { command: "for f in *.ts; do echo \"$f\"; done" }, long, 3000);
  await server.publish({ ...base, type: "subagent_end", result: `It is so:\n\n\`\`\`ts\n${CODE}\`\`\``, timestamp: at + 5000 });
  seen = await look(server, "/s/code/a/r?call=read", { viewport: { width: 1440, height: 1400 } });
  const { page } = seen;
  const more = (id: string): Locator => page.locator(`aside [data-call-id="${id}"] .more`);
  await more("read").locator(".code-word", { hasText: "export" }).waitFor();
  expect(await more("read").locator(".payload").last().locator(".block").allTextContents()).toEqual([numbered]);
  await more("read").locator(".code-note", { hasText: "<script>alert(1)</script>" }).waitFor();
  for (const [id, look, words] of [["edit", ".came .code-note", "// two"], ["run", ".code-word", "for"]] as const) {
    await page.locator(`aside [data-call-id="${id}"] button.line`).click();
    await more(id).locator(look, { hasText: words }).first().waitFor();
  }
  const result = page.locator("aside [data-testid=agent-result]");
  await result.locator("pre .code-word", { hasText: "export" }).waitFor();
  expect(await result.locator("pre code").textContent()).toBe(CODE);
  // Each block is copied unchanged.
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await result.locator("pre").hover();
  await result.locator("pre .copy").click();
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe(CODE);
  expect(await page.locator("aside .part.prompt .copy").count()).toBe(1);
  // An output stays folded until it is unfolded.
  expect(await more("run").textContent()).not.toContain("line 299 of the log");
  await page.getByRole("button", { name: "open calls" }).click();
  await expect.poll(() => more("run").textContent()).toContain("line 299 of the log");
  await page.keyboard.press("t");
  await expect.poll(() => more("run").count()).toBe(0);
  isQuiet(seen);
  await seen.context.close();
  await server.stop();
  // Tokens by kind, and the evidence of the end as a sentence.
  server = await Server.over("k-big");
  const { session } = new Recording("k-big");
  const { agents } = await server.get<Tree>(`/api/v1/sessions/${session}/tree`);
  const agent = agents.find(({ evidence, usage }) => evidence === "spawn result" && usage !== null) as Agent;
  seen = await look(server, `/s/${session}/a/${agent.id}`);
  const meta = seen.page.locator("aside .meta");
  expect(await meta.locator(".tokens").getAttribute("title")).toMatch(/^input [\d.]+k?, output [\d.]+k?, cache read [\d.]+k? \(\d+ %\), cache write [\d.]+k?$/);
  expect(await meta.locator("span").first().getAttribute("title")).toBe("completed, because the call that started it came back with its result");
  isQuiet(seen);
});
