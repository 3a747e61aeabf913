// A session read as what happened: its feed, its conversation, and how to go on with it.
import { expect, it } from "vitest";
import type { Stats, Tree } from "../src/model";
import { title } from "../src/lib/words";
import { cleanUp, isQuiet, look, Recording, row, type Seen, Server } from "./harness";

let server: Server;
let seen: Seen;

cleanUp("each test");

const big = new Recording("k-big").session;

it("has a feed that says each text once, with durations in a column, the longest first if one wants", async () => {
  server = await Server.over("k-big");
  const { agents } = await server.get<Tree>(`/api/v1/sessions/${big}/tree`);
  const named = agents.find(({ tools, result }) => tools.length > 10 && result !== null);
  if (!named?.result) throw new Error("no agent has a result");
  seen = await look(server, `/s/${big}?view=feed`);
  const { page } = seen;
  const [kinds, names] = [page.locator(".feed .filters select").first(), page.locator(".feed .filters select").last()];
  await names.selectOption(named.id);
  const lines = page.locator(".feed .line");
  const last = lines.last();
  await expect.poll(() => last.locator(".words").textContent()).toBe("✓ completed");
  expect(await lines.nth(-2).locator(".words").textContent()).toBe(named.result);
  expect(await last.locator(".took").textContent()).toMatch(/^\d+m?s$/);
  await kinds.selectOption("tool");
  await page.getByRole("button", { name: "longest first" }).click();
  const widths = (): Promise<number[]> => page.locator(".feed .took i").evaluateAll((bars) => bars.map((bar) => bar.getBoundingClientRect().width));
  await expect.poll(async () => {
    const all = await widths();
    return all.length > 3 && all.every((width, at) => at === 0 || width <= (all[at - 1] ?? 0)) && Math.max(...all) > 40;
  }).toBe(true);
  isQuiet(seen);
});

it("leads from a call to the agent that it started, and from an agent to those above it", async () => {
  server = await Server.over("k-big");
  const { agents } = await server.get<Tree>(`/api/v1/sessions/${big}/tree`);
  const deepest = agents.find(({ depth }) => depth === 2);
  const parent = agents.find(({ id }) => id === deepest?.parent_id);
  if (!deepest || !parent) throw new Error("nobody is nested");
  seen = await look(server, `/s/${big}/a/${parent.id}`);
  const { page } = seen;
  const call = page.locator(`aside [data-call-id="${deepest.spawned_by}"]`);
  await call.locator("button.line").click();
  expect(await call.locator(".started").textContent()).toContain("completed");
  await call.getByRole("link", { name: title(deepest) }).click();
  await page.waitForURL(`**/a/${deepest.id}*`);
  const above = page.getByRole("navigation", { name: "agents above this one" }).getByRole("link");
  await expect.poll(() => above.allTextContents()).toEqual(["main", title(parent)]);
  await above.last().click();
  await page.waitForURL(`**/a/${parent.id}*`);
  await above.first().click();
  // Calls that run at the same time stand together.
  await expect.poll(() => page.locator("aside .parallel").first().textContent()).toBe("parallel · 4 calls");
  isQuiet(seen);
});

it("reads as a conversation, in which agents unfold where they were started", async () => {
  server = await Server.over("k-big");
  const { agents } = await server.get<Tree>(`/api/v1/sessions/${big}/tree`);
  const deepest = agents.find(({ depth }) => depth === 2);
  const parent = agents.find(({ id }) => id === deepest?.parent_id);
  if (!deepest?.result || !parent?.prompt) throw new Error("nobody is nested");
  seen = await look(server, `/s/${big}`);
  const { page } = seen;
  await page.keyboard.press("5");
  await page.waitForURL("**view=conversation*");
  const lines = page.locator(".conversation .line");
  await expect.poll(() => lines.first().textContent()).toContain("prompt");
  const fold = (of: string) => page.locator(".conversation .fold", { hasText: of });
  // The line of an agent stands below the call that started it.
  const order = (): Promise<(string | null)[]> =>
    lines.evaluateAll((all) => all.map((line) => line.querySelector("[data-call-id]")?.getAttribute("data-call-id") ?? line.querySelector(".agent .name")?.textContent ?? null));
  for (const one of [parent, deepest]) {
    await expect.poll(async () => (await order()).includes(title(one))).toBe(true);
    const all = await order();
    expect(all.slice(0, all.indexOf(title(one)))).toContain(one.spawned_by);
    await fold(title(one)).first().click();
    expect(await fold(title(one)).first().getAttribute("aria-expanded")).toBe("true");
  }
  const answer = deepest.result.split("\n")[0]?.replace(/[#*`]/g, "").trim() ?? "";
  await expect.poll(() => page.locator(".conversation").textContent()).toContain(answer);
  await fold(title(parent)).first().click();
  await expect.poll(async () => (await order()).includes(title(deepest))).toBe(false);
  // All at once, the nested ones too; their events are asked for as they come into sight.
  await page.getByRole("button", { name: /^Unfold all/ }).click();
  await page.getByRole("button", { name: /^Fold all/ }).waitFor();
  const scroller = page.locator(".conversation .scroller");
  const words = page.locator(".conversation");
  await expect.poll(async () => {
    await scroller.evaluate((list) => (list.scrollTop += list.clientHeight / 2));
    return (await words.textContent())?.includes(answer);
  }).toBe(true);
  expect(await page.locator('.conversation .fold[aria-expanded="false"]').count()).toBe(0);
  // The palette offers what the button does.
  await page.keyboard.press("Control+k");
  await page.keyboard.type("collapse all agents");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: /^Unfold all/ }).waitFor();
  await page.keyboard.type("zR");
  await page.getByRole("button", { name: /^Fold all/ }).waitFor();
  await page.keyboard.type("zM");
  await page.getByRole("button", { name: /^Unfold all/ }).waitFor();
  await scroller.evaluate((list) => (list.scrollTop = 0));
  await expect.poll(async () => (await order()).includes(title(parent))).toBe(true);
  expect(await order()).not.toContain(title(deepest));
  await page.getByRole("link", { name: `open the panel of ${title(parent)}` }).click();
  await page.waitForURL(`**/a/${parent.id}?view=conversation`);
  isQuiet(seen);
});

it("copies the command that resumes a session that has ended", async () => {
  server = await Server.over("k-big");
  seen = await look(server, `/s/${big}`, { permissions: ["clipboard-read", "clipboard-write"] });
  const { page } = seen;
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByTestId("said").filter({ hasText: "command copied" }).waitFor();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toContain(`claude --resume ${big}`);
  isQuiet(seen);
});

it("gives a few agents two lines where all fit, and many one", async () => {
  server = await Server.over("k-big");
  const { agents } = await server.get<Tree>(`/api/v1/sessions/${big}/tree`);
  const one = agents.find(({ result, id }) => id !== "root" && result !== null);
  if (!one?.result) throw new Error("no agent has a result");
  seen = await look(server, `/s/${big}`, { viewport: { width: 1440, height: 900 } });
  const { page } = seen;
  const place = page.locator(row(one.id));
  const high = (): Promise<number | undefined> => place.boundingBox().then((box) => box?.height);
  await place.waitFor();
  await expect.poll(high).toBe(44);
  expect(await place.locator(".does").textContent()).toBe(one.result.slice(0, 300));
  // A small window, or a large one at 200 %: one line for each, and an agent that is opened covers the tree.
  await page.setViewportSize({ width: 720, height: 450 });
  await expect.poll(high).toBe(32);
  const inSight = (): Promise<number> =>
    page.locator('[data-testid="agent-row"]').evaluateAll((rows) => rows.filter((row) => document.elementFromPoint(row.getBoundingClientRect().x + 60, row.getBoundingClientRect().y + 8)?.closest(".row") === row).length);
  await expect.poll(inSight).toBeGreaterThanOrEqual(3);
  await place.locator("a.line").click();
  await page.locator('aside [data-testid="tool-row"]').first().waitFor();
  expect(await place.isVisible()).toBe(false);
  expect((await page.locator("aside").boundingBox())?.height).toBeGreaterThan(150);
  isQuiet(seen);
});

it("colors the days of a calendar by what they cost, and a click chooses one", async () => {
  server = await Server.over("k-big", "b-parallel");
  const stats = await server.get<Stats>("/api/v1/stats");
  const [day] = stats.by_day.filter(({ cost_micro_usd }) => cost_micro_usd > 0);
  if (!day) throw new Error("no day has a cost");
  seen = await look(server, "/stats?since=2026-11-01&until=2026-11-30");
  const { page } = seen;
  const days = page.getByRole("table", { name: "cost by day" }).getByRole("button");
  await expect.poll(() => days.count()).toBe(stats.by_day.filter(({ cost_micro_usd }) => cost_micro_usd > 0).length);
  await days.last().click();
  await page.waitForURL((url) => url.searchParams.get("since") !== null && url.searchParams.get("since") === url.searchParams.get("until"));
  isQuiet(seen);
});

it("lists the files that agents changed, with each change as a diff", async () => {
  server = await Server.over("b-parallel");
  const { session } = new Recording("b-parallel");
  const tree = await server.get<Tree>(`/api/v1/sessions/${session}/tree`);
  const writer = tree.agents.find(({ tools }) => tools.some(({ writes }) => writes));
  const file = writer?.tools.find(({ writes }) => writes)?.writes?.[0];
  if (!writer || file === undefined) throw new Error("no agent wrote a file");
  seen = await look(server, `/s/${session}`);
  const { page } = seen;
  await page.waitForSelector(row("root"));
  await page.keyboard.press("4");
  await page.waitForURL("**view=files*");
  const line = page.locator(".files summary").first();
  expect(await line.locator(".path").textContent()).toBe(file.replace(`${tree.session.cwd}/`, ""));
  expect(await line.locator(".agents").textContent()).toBe(title(writer));
  await line.press("Enter");
  await expect.poll(() => page.locator(".files figure.diff .came").count()).toBeGreaterThan(0);
  expect(await page.locator(".files figcaption").first().textContent()).toBe(file);
  await page.locator(".files h3 a").first().click();
  await page.waitForURL(`**/a/${writer.id}?view=files&call=*`);
  await page.waitForSelector("aside .top > h2");
  isQuiet(seen);
});
