// The demo plays on the page as in a terminal: at every moment the rows equal those of `?at=`.
import { beforeAll, expect, it } from "vitest";
import type { Page } from "playwright-core";
import type { Setup, Spending, Tree } from "../src/model";
import { cleanUp, freePort, isQuiet, look, row, Server, sleep } from "./harness";

let server: Server;
let demo: string;

cleanUp("all tests");

beforeAll(async () => {
  server = new Server(await freePort());
  await server.run();
  demo = (await server.get<Setup>("/api/v1/setup")).demo ?? "";
});

/** The texts of the rows, and the moment on show. */
const shown = (page: Page): Promise<{ at: number; rows: [string, string][] }> =>
  page.evaluate(() => ({
    at: Number(new URL(location.href).searchParams.get("t") ?? 0),
    rows: [...document.querySelectorAll<HTMLElement>('[data-testid="agent-row"]')].map((one): [string, string] => [one.dataset["agentId"] ?? "", one.dataset["status"] ?? ""]),
  }));

it("plays where nothing is live: agents begin, wait and end, and the end says what to do next", { timeout: 120_000 }, async () => {
  const seen = await look(server);
  const { page } = seen;
  await page.getByTestId("demo").getByRole("link", { name: "play the demo here" }).click();
  await page.locator(row("root")).waitFor();
  expect(await page.locator(".replay select").inputValue()).toBe("1");
  expect(await page.getByText(/^\s*a recording, replaying \d\d:\d\d:\d\d/).count()).toBe(1);
  // It begins with one agent at work and shows nothing of the end.
  const first = await shown(page);
  expect(first.rows.filter(([id]) => id !== "root").length).toBeLessThan(8);
  expect(first.rows.find(([id]) => id === "root")?.[1]).toBe("running");
  await page.locator(".replay select").selectOption("4");
  const counts: number[] = [];
  const statuses = new Set<string>();
  const inkOf = (): Promise<number> =>
    page.locator(".lanes canvas").evaluate((canvas: HTMLCanvasElement) => {
      const data = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data ?? [];
      let ink = 0;
      for (let at = 3; at < data.length; at += 4) ink += (data[at] ?? 0) > 0 ? 1 : 0;
      return ink;
    });
  const ink: number[] = [];
  while ((await page.getByTestId("demo-end").count()) === 0) {
    const { rows } = await shown(page);
    counts.push(rows.length);
    for (const [, status] of rows) statuses.add(status);
    ink.push(await inkOf().catch(() => 0));
    await sleep(200);
  }
  // Rows are only added, until all are there; each runs, then ends.
  expect(counts).toEqual([...counts].sort((one, other) => one - other));
  expect(new Set(counts).size).toBeGreaterThan(3);
  expect([...statuses].sort()).toEqual(expect.arrayContaining(["completed", "running"]));
  expect(Math.max(...ink)).toBeGreaterThan((ink.find((one) => one > 0) ?? 0) * 1.5);
  expect((await shown(page)).rows.length).toBe(9);
  const end = page.getByTestId("demo-end");
  for (const command of ["subscope", "subscope watch", "subscope tree last", "subscope doctor"]) await end.getByText(command, { exact: true }).waitFor();
  await end.getByRole("button", { name: "play it again" }).click();
  await end.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "pause" }).click();
  // While it is paused, the rows equal the server's.
  await expect.poll(async () => {
    const { at, rows } = await shown(page);
    const tree = at > 0 ? await server.get<Tree>(`/api/v1/sessions/${demo}/tree?at=${at}`).catch(() => null) : null;
    return tree !== null && JSON.stringify(tree.agents.map(({ id, status }) => [id, status])) === JSON.stringify(rows);
  }).toBe(true);
  isQuiet(seen);
});

it("has all views, and is in no list", async () => {
  // Its address can be kept and opened again.
  const seen = await look(server, "/demo");
  const { page } = seen;
  await page.waitForURL(`**/s/${demo}*`);
  await page.locator(".replaying button").click();
  await expect.poll(() => page.locator('[data-testid="agent-row"]').count()).toBe(9);
  // The end stays on show. The page writes its address at most twice a second.
  const moment = (): string | null => new URL(page.url()).searchParams.get("t");
  await expect.poll(moment).toBeNull();
  await sleep(1200);
  expect(moment()).toBeNull();
  await page.getByRole("link", { name: "Feed" }).click();
  await page.getByText("checkout.js").first().waitFor();
  await page.getByRole("link", { name: "Summary" }).click();
  await page.getByTestId("spent").waitFor();
  const spending = await server.get<Spending>(`/api/v1/sessions/${demo}/spending`);
  const tree = await server.get<Tree>(`/api/v1/sessions/${demo}/tree`);
  expect(spending.spans.reduce((sum, { cost_micro_usd }) => sum + cost_micro_usd, 0)).toBe(tree.agents.reduce((sum, { cost_micro_usd }) => sum + (cost_micro_usd ?? 0), 0));
  for (const form of ["trace", "html", "csv", "otlp"]) {
    const answer = await fetch(`${server.url}/api/v1/sessions/${demo}/export?as=${form}`);
    expect([form, answer.status, (await answer.text()).length > 1000]).toEqual([form, 200, true]);
  }
  expect((await server.get<{ sessions: unknown[] }>("/api/v1/sessions")).sessions).toEqual([]);
  isQuiet(seen);
});
