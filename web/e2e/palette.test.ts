// The palette: any session, agent or command by a few letters, from everywhere, and back.
import { beforeAll, expect, it } from "vitest";
import type { Page } from "playwright-core";
import type { Tree } from "../src/model";
import { title } from "../src/lib/words";
import { cleanUp, isQuiet, look, Recording, row, type Seen, Server } from "./harness";

const nested = new Recording("c-nested");
const parallel = new Recording("b-parallel");
let server: Server;
let seen: Seen;

beforeAll(async () => {
  server = await Server.over("c-nested", "b-parallel", "k-big");
});
cleanUp("all tests");

const field = (page: Page): ReturnType<Page["locator"]> => page.getByRole("combobox", { name: "session, agent, command or words" });
const entries = (page: Page): ReturnType<Page["locator"]> => page.getByRole("option");
const selected = (page: Page): Promise<string | null> => page.locator('[role="option"][aria-selected="true"]').textContent();

it("opens by ctrl-K and by a colon, goes to a session that the server finds, and Escape leads back to where one was", async () => {
  const begin = Date.now() - 86_400_000;
  const own = await Server.start();
  const lines = Array.from({ length: 450 }, (_, number) => {
    const base = { subagentName: `Task ${number}${number === 3 ? " amaranth" : ""}`, subagentRunId: `r${number}`, sessionId: `many-${number}` };
    return ["subagent_start", "subagent_end"].map((type, at) => JSON.stringify({ ...base, type, timestamp: begin + number * 10_000 + at * 1000 }));
  });
  await own.ingest("subagent-events", "many", lines.flat(), "many");
  seen = await look(own);
  const { page } = seen;
  await page.waitForSelector('[data-testid="session-row"]');
  const link = page.locator('[data-testid="session-row"]').nth(2);
  await link.focus();
  await page.keyboard.press("Control+k");
  await field(page).waitFor();
  await page.keyboard.press("Escape");
  await field(page).waitFor({ state: "hidden" });
  expect(await link.evaluate((one) => one === document.activeElement)).toBe(true);
  // The list has not loaded it.
  await page.keyboard.press(":");
  await page.keyboard.type("amaranth");
  await page.locator(`[role="option"][data-kind="session"][aria-selected="true"]`, { hasText: "amaranth" }).waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL("**/s/many-3");
  await page.keyboard.press("Control+k");
  await page.keyboard.type("many-3");
  await expect.poll(() => entries(page).last().textContent()).toContain("search what they said for “many-3”");
  await page.keyboard.press("End");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("Escape");
  expect(page.url()).toBe(`${own.url}/s/many-3`);
  isQuiet(seen);
  await own.stop();
});

it("goes to agents of the session on show, and to any agent by its id", async () => {
  const { agents } = await server.get<Tree>(`/api/v1/sessions/${nested.session}/tree`);
  const [, one] = agents;
  if (!one) throw new Error("nobody");
  seen = await look(server, `/s/${nested.session}`);
  const { page } = seen;
  await page.waitForSelector(row(one.id));
  await page.keyboard.press(":");
  await page.keyboard.type(title(one).toLowerCase().slice(0, 12));
  await expect.poll(() => selected(page)).toContain(title(one).slice(0, 12));
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/s/${nested.session}/a/${one.id}`);
  // Agents of other live sessions, from anywhere, by their words.
  const base = { session_id: "elsewhere", cwd: "/home/user/shop", prompt_id: "p", agent_id: "e1", agent_type: "bundler" };
  await server.hook({ ...base, hook_event_name: "SubagentStart" });
  await page.goto(server.url);
  await page.locator('[data-testid="session-card"][data-session-id="elsewhere"]').waitFor();
  await page.keyboard.press(":");
  await page.keyboard.type("bundler");
  await page.locator('[role="option"][data-kind="agent"]', { hasText: "bundler" }).click();
  await page.waitForURL("**/s/elsewhere/a/e1");
  // Agents of another session, by a prefix of the id.
  const other = (await server.get<Tree>(`/api/v1/sessions/${parallel.session}/tree`)).agents[2];
  await page.keyboard.press(":");
  await page.keyboard.type(other?.id.slice(0, 10) ?? "");
  await page.locator('[role="option"][data-kind="agent"]').first().waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/s/${parallel.session}/a/${other?.id}`);
  // Agents of past sessions by their words, though nothing of them is loaded.
  await page.goto(server.url);
  await page.locator('[data-testid="session-card"][data-session-id="elsewhere"]').waitFor();
  await page.keyboard.press(":");
  await page.keyboard.type(other ? title(other).toUpperCase() : "");
  await page.locator('[role="option"][data-kind="agent"]', { hasText: other ? title(other) : "" }).click();
  await page.waitForURL(`**/s/${parallel.session}/a/${other?.id}`);
  isQuiet(seen);
});

it("lists the sessions in which a call was denied, of all sessions", async () => {
  const own = await Server.over("e-denied", "b-parallel", "k-big");
  const denied = new Recording("e-denied").session;
  seen = await look(own);
  const { page } = seen;
  const listed = page.locator('[data-testid="session-row"]');
  await expect.poll(() => listed.count()).toBe(3);
  await page.getByRole("button", { name: "filters" }).click();
  await page.getByLabel("status", { exact: true }).selectOption("with denied calls");
  await expect.poll(() => listed.count()).toBe(1);
  expect(await listed.getAttribute("data-session-id")).toBe(denied);
  // By words, too.
  await page.getByLabel("status", { exact: true }).selectOption("any status");
  await expect.poll(() => listed.count()).toBe(3);
  await page.getByLabel("find a session").fill("denied:");
  await expect.poll(() => listed.count()).toBe(1);
  isQuiet(seen);
  await own.stop();
});

it("keeps its order while the server answers", async () => {
  seen = await look(server, `/s/${nested.session}`);
  const { page } = seen;
  await page.waitForSelector(row("root"));
  const answers: (() => void)[] = [];
  await page.route("**/api/v1/sessions?q=*", async (route) => {
    await new Promise<void>((resolve) => answers.push(resolve));
    await route.continue();
  });
  await page.keyboard.press(":");
  await page.keyboard.type("a");
  await page.keyboard.press("ArrowDown");
  const before = await entries(page).allTextContents();
  const chosen = await selected(page);
  await expect.poll(() => answers.length).toBeGreaterThan(0);
  answers.forEach((answer) => answer());
  await page.waitForTimeout(300);
  expect(await selected(page)).toBe(chosen);
  const after = await entries(page).allTextContents();
  expect(after.filter((text) => before.includes(text))).toEqual(before);
  isQuiet(seen);
});

it("does what has a key and what has none: views, detail, theme, folding, copying, resuming", async () => {
  seen = await look(server, `/s/${nested.session}`, { permissions: ["clipboard-read", "clipboard-write"] });
  const { page } = seen;
  await page.waitForSelector(row("root"));
  const command = async (words: string): Promise<void> => {
    await page.keyboard.press("Control+k");
    await page.keyboard.type(words);
    await page.locator('[role="option"][data-kind="command"]').first().click();
    await field(page).waitFor({ state: "hidden" });
  };
  const background = (): Promise<string> => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const before = await background();
  await command("theme: dark");
  const dark = await background();
  await command("theme: light");
  const light = await background();
  expect(dark).not.toBe(light);
  await page.reload();
  await page.waitForSelector(row("root"));
  expect(await background()).toBe(light);
  await command("theme: system");
  expect(await background()).toBe(before);
  await command("show feed");
  await page.waitForURL("**view=feed");
  await command("show tree and waterfall");
  await page.waitForSelector(row("root"));
  const rows = page.locator('[data-testid="agent-row"]');
  const all = await rows.count();
  await command("collapse all");
  await expect.poll(() => rows.count()).toBeLessThan(all);
  await command("unfold all");
  await expect.poll(() => rows.count()).toBe(all);
  await command("copy link");
  await page.getByTestId("said").filter({ hasText: "link copied" }).waitFor();
  const copied = (): Promise<string> => page.evaluate(() => navigator.clipboard.readText());
  expect(await copied()).toBe(page.url());
  await command("resumes this session");
  await page.getByTestId("said").filter({ hasText: "command copied" }).waitFor();
  const { session } = await server.get<Tree>(`/api/v1/sessions/${nested.session}/tree`);
  expect(await copied()).toBe(`cd ${session.cwd} && claude --resume ${nested.session}`);
  // No process of a recording runs.
  await page.evaluate(() => navigator.clipboard.writeText(""));
  await command("terminal of this session");
  await page.getByTestId("said").filter({ hasText: "no process of it was found; it can be resumed: command copied" }).waitFor();
  expect(await copied()).toBe(`cd ${session.cwd} && claude --resume ${nested.session}`);
  await command("statistics");
  await page.waitForURL("**/stats");
  isQuiet(seen);
});

it("says of an address that leads nowhere that it does, and where else to look", async () => {
  seen = await look(server, "/nonsense/checkout");
  const { page } = seen;
  await page.getByRole("heading", { name: "404" }).waitFor();
  await page.getByRole("link", { name: "Search for “checkout”" }).click();
  await page.waitForURL("**/search?q=checkout");
  await page.goto(`${server.url}/s/none-such`);
  await page.getByRole("link", { name: "Search for “none-such”" }).click();
  await page.waitForURL("**/search?q=none-such");
  seen.wrong = seen.wrong.filter((words) => !words.includes("404"));
  isQuiet(seen);
});
