// Files of calls open in the configured editor, by a click with ctrl or by a link; hostile paths open nothing.
import type { Locator, Page } from "playwright-core";
import { expect, it } from "vitest";
import type { Hits } from "../src/model";
import { cleanUp, freePort, isQuiet, look, Server } from "./harness";

cleanUp("each test");

/** A server with a session whose agent has read some files. */
async function reading(paths: [path: string, offset?: number][], settings = ""): Promise<Server> {
  const server = new Server(await freePort());
  if (settings !== "") server.configure(settings);
  await server.run();
  const at = Date.now() - 60_000;
  const base = { subagentName: "reader", subagentRunId: "r", sessionId: "files" };
  await server.publish({ ...base, type: "subagent_start", payload: "read them", timestamp: at });
  for (const [number, [path, offset]] of paths.entries()) {
    const call = { ...base, toolName: "Read", toolCallId: `c${number}` };
    await server.publish({ ...call, type: "tool_call", payload: { file_path: path, limit: 100, ...(offset === undefined ? {} : { offset }) }, timestamp: at + number * 100 });
    await server.publish({ ...call, type: "tool_result", payload: "text", timestamp: at + number * 100 + 50 });
  }
  await server.publish({ ...base, type: "subagent_end", timestamp: at + 9000 });
  return server;
}

type Click = { modifiers?: ("Control" | "Meta")[] };

const rowOf = (page: Page, number: number): ReturnType<Page["locator"]> => page.locator(`aside [data-call-id="c${number}"] button.line`);

it("opens the file of a call, at the line where it reads", async () => {
  const server = await reading([["/home/user/shop/src/cart.js", 40], ["/home/user/shop/ü b.md"]]);
  const clicks: [number, Click, string][] = [
    [0, { modifiers: ["Control"] }, "vscode://file/home/user/shop/src/cart.js:40"],
    [1, { modifiers: ["Meta"] }, "vscode://file/home/user/shop/%C3%BC%20b.md:1"],
  ];
  // A browser asks whether it may open another program, and ignores clicks meanwhile: use a page for each click.
  for (const [number, click, url] of clicks) {
    const seen = await look(server, "/s/files/a/r");
    const line = rowOf(seen.page, number);
    await line.click(click);
    await expect.poll(() => seen.beyond).toEqual([url]);
    // The row stays closed, and the address does not change.
    expect(await line.getAttribute("aria-expanded")).toBe("false");
    expect(new URL(seen.page.url()).pathname).toBe("/s/files/a/r");
    await seen.context.close();
  }
  // Without ctrl the row opens; it has a link that the keyboard reaches.
  const seen = await look(server, "/s/files/a/r");
  await rowOf(seen.page, 0).click();
  const link = seen.page.locator("aside").getByTestId("open-file");
  expect(await link.getAttribute("href")).toBe(clicks[0]?.[2]);
  await link.press("Enter");
  await expect.poll(() => seen.beyond).toEqual([clicks[0]?.[2]]);
});

it("opens nothing for a path that hides something, or that is none", async () => {
  const server = await reading([["/a\u202egpj.js"], ["javascript:alert(1)"], ["../../etc/passwd"]]);
  const seen = await look(server, "/s/files/a/r");
  for (const number of [0, 1, 2]) {
    await rowOf(seen.page, number).click({ modifiers: ["Control"] });
    await expect.poll(() => rowOf(seen.page, number).getAttribute("aria-expanded")).toBe("true");
  }
  expect(await seen.page.locator("aside").getByTestId("open-file").count()).toBe(0);
  isQuiet(seen);
  await isFound(server, "limit", 3);
  // The other lists of calls open nothing either.
  for (const [path, ready] of LISTS) {
    const listed = await look(server, path);
    const { page } = listed;
    for (const [number, word] of ["gpj.js", "javascript:alert", "passwd"].entries()) {
      // A row of the start leads to its call.
      if (path === "/" && number > 0) await page.goBack();
      if (path === "/" || number === 0) await unfold(page, path, ready);
      await (await callIn(page, path, number, word)).click({ modifiers: ["Control"] });
      if (path === "/") await page.waitForURL(`**/s/files/a/r?call=c${number}`);
    }
    if (path === "/s/files") await page.locator("aside .top > h2").waitFor();
    expect(await page.getByTestId("open-file").count(), path).toBe(0);
    isQuiet(listed);
    await listed.context.close();
  }
});

/** Lists of calls other than the panel, with a selector of their content. */
const LISTS = [
  ["/", '[data-testid="session-card"] [data-testid="agent-row"][data-agent-id="r"]'],
  ["/s/files", '[data-testid="agent-row"][data-agent-id="r"]'],
  ["/s/files?view=feed", ".feed .line"],
  ["/search?q=limit", '[data-testid="hit"]'],
] as const;

/** Waits for a list, and shows the calls in it. */
async function unfold(page: Page, path: string, ready: string): Promise<void> {
  await page.locator(ready).first().waitFor();
  if (path === "/s/files") await page.keyboard.type("zR");
  const agent = page.locator(`${ready} > .head > button[aria-expanded="false"]`);
  if (path === "/" && (await agent.count()) > 0) await agent.click();
}

/** The link of a call in such a list, or its row, by its number and a word of its file. */
async function callIn(page: Page, path: string, number: number, word: string): Promise<Locator> {
  if (path === "/" || path === "/s/files") return page.locator(`main [data-call-id="c${number}"] a.line`);
  const line = page.locator('[data-testid="hit"], .feed .line', { hasText: word }).first();
  await line.waitFor();
  const link = line.getByTestId("open-file");
  return (await link.count()) > 0 ? link : line;
}

/** Waits until a search finds that many passages. */
async function isFound(server: Server, words: string, count: number): Promise<void> {
  const hits = async (): Promise<number> => {
    const answer = await fetch(`${server.url}/api/v1/search?q=${words}`);
    return answer.ok ? ((await answer.json()) as Hits).total : 0;
  };
  await expect.poll(hits, { timeout: 30_000 }).toBeGreaterThanOrEqual(count);
}

it("opens the file of a call from the start, from the rows of all calls, from the feed and from a search", async () => {
  const server = await reading([["/home/user/shop/src/cart.js", 40], ["/home/user/shop/ü b.md"]]);
  await isFound(server, "limit", 2);
  for (const [path, ready] of LISTS) {
    const urls = ["vscode://file/home/user/shop/src/cart.js:40", "vscode://file/home/user/shop/%C3%BC%20b.md:1"];
    for (const [number, url] of urls.entries()) {
      const seen = await look(server, path);
      const { page } = seen;
      const asked: string[] = [];
      page.on("request", (request) => new URL(request.url()).pathname.endsWith("/feed") && asked.push(new URL(request.url()).search));
      await unfold(page, path, ready);
      await (await callIn(page, path, number, ["cart.js", "b.md"][number] ?? "")).click({ modifiers: [number === 0 ? "Control" : "Meta"] });
      await expect.poll(() => seen.beyond, { message: path }).toEqual([url]);
      // Where the arguments are not there, those of the one call are asked for.
      if (path === "/" || path === "/s/files") expect(asked.filter((query) => query.includes("kind=tool.pre"))).toEqual([`?agent=r&call=c${number}&kind=tool.pre&limit=1`]);
      expect(new URL(page.url()).pathname + new URL(page.url()).search).toBe(path);
      await seen.context.close();
    }
  }
});

it("leads from a call on the start to the same call in the panel of its agent", async () => {
  const server = await reading([["/home/user/shop/src/cart.js", 40], ["/x/b.md"]]);
  const seen = await look(server, "/");
  const { page } = seen;
  await unfold(page, "/", LISTS[0][1]);
  await (await callIn(page, "/", 1, "")).click();
  await page.waitForURL("**/s/files/a/r?call=c1");
  await page.locator('aside [data-call-id="c1"] .more').waitFor();
  expect(await page.locator('aside [data-call-id="c0"] .more').count()).toBe(0);
  isQuiet(seen);
});

it("opens nothing where no editor is set, and another where another is", async () => {
  for (const [settings, url] of [["[page]\neditor = ''\n", null], ["[page]\neditor = 'idea://open?file={path}&line={line}'\n", "idea://open?file=/x/a.js&line=7"]] as const) {
    const server = await reading([["/x/a.js", 7]], settings);
    const seen = await look(server, "/s/files/a/r");
    const { page } = seen;
    await rowOf(page, 0).click();
    const link = page.locator("aside").getByTestId("open-file");
    await page.locator("aside .more .payload").first().waitFor();
    expect(await link.count()).toBe(url === null ? 0 : 1);
    if (url !== null) expect(await link.getAttribute("href")).toBe(url);
    isQuiet(seen);
    await seen.context.close();
  }
});
