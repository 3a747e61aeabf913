// Files of calls open in the editor that is set, by a click with ctrl or a link; hostile paths open nothing else.
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
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
    await server.publish({ ...call, type: "tool_call", payload: offset === undefined ? { file_path: path } : { file_path: path, offset }, timestamp: at + number * 100 });
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
  // A browser asks whether it may open another program, and takes no more clicks meanwhile.
  for (const [number, click, url] of clicks) {
    const seen = await look(server, "/s/files/a/r");
    const line = rowOf(seen.page, number);
    await line.click(click);
    await expect.poll(() => seen.beyond).toEqual([url]);
    // The row stays closed, and the page where it is.
    expect(await line.getAttribute("aria-expanded")).toBe("false");
    expect(new URL(seen.page.url()).pathname).toBe("/s/files/a/r");
    await seen.context.close();
  }
  // Without ctrl it opens here, with a link that a keyboard reaches.
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
