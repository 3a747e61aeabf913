// The waterfall explains itself: agents unfold into their calls, arrows show who started whom, a sentence says where the time went.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, afterEach, expect, it } from "vitest";
import type { Page } from "playwright-core";
import type { Agent, Tree } from "../src/model";
import { crowd, publish } from "./crowd";
import { closed, isQuiet, look, Recording, row, type Seen, Server } from "./harness";

let server: Server;
let seen: Seen | undefined;

afterEach(async () => {
  await seen?.context.close();
  seen = undefined;
  await server.stop();
});
afterAll(closed);

const CALLS = '[data-testid="call-row"]';

interface CallSeen {
  id: string | null;
  status: string;
  words: string;
}

const callsOf = (page: Page): Promise<CallSeen[]> =>
  page.locator(CALLS).evaluateAll((all) =>
    all.map((one) => ({
      id: (one as HTMLElement).dataset["callId"] ?? null,
      status: (one as HTMLElement).dataset["status"] ?? "",
      words: one.querySelector(".who")?.textContent?.replace(/\s+/g, " ").trim() ?? "",
    })),
  );

const MARKS: Record<string, string> = { ok: "✓", error: "✗", denied: "⊘", open: "▸" };

const told = ({ tools }: Agent): CallSeen[] =>
  tools.map(({ id, status, name, detail }) => ({
    id,
    status,
    words: [MARKS[status], name, status === "ok" ? "" : status, detail ?? ""].filter((word) => word !== "").join(" ").replace(/\s+/g, " ").trim(),
  }));

/** How bright the middle of a lane is, at a share of its width or some pixels beside it. */
const brightness = (page: Page, key: string, share: number): Promise<number> =>
  page.evaluate(
    ([wanted, at]) => {
      const canvas = document.querySelector<HTMLCanvasElement>(".lanes canvas");
      const line = document.querySelector(`[data-key="${wanted}"]`)?.getBoundingClientRect();
      if (!canvas || !line) return -1;
      const box = canvas.getBoundingClientRect();
      const ratio = canvas.width / box.width;
      const y = (line.top + line.height / 2 - box.top) * ratio;
      const data = canvas.getContext("2d")?.getImageData(box.width * Number(at) * ratio - 3, y, 7, 1).data ?? [];
      return Math.max(...[...data].filter((_, place) => place % 4 !== 3));
    },
    [key, share],
  );

it("unfolds an agent into its calls, by pointer and by key, and opens a call in the panel", async () => {
  server = await Server.over("k-big", "e-tool-failures");
  const { session } = new Recording("k-big");
  const { agents } = await server.get<Tree>(`/api/v1/sessions/${session}/tree`);
  const busy = agents.filter(({ id }) => id !== "root").sort((one, other) => other.tool_calls - one.tool_calls)[0] as Agent;
  seen = await look(server, `/s/${session}`, { viewport: { width: 1280, height: 1400 } });
  const { page } = seen;
  await page.waitForSelector(row(busy.id));
  expect(await page.locator(CALLS).count()).toBe(0);
  const button = page.locator(row(busy.id)).locator("button.calls");
  await button.click();
  await expect.poll(() => callsOf(page)).toEqual(told(busy));
  expect(await button.getAttribute("aria-expanded")).toBe("true");
  // Each has a lane: a bar where it ran, nothing where it did not.
  const timed = busy.tools.filter(({ started_at_ms, ended_at_ms }) => (ended_at_ms ?? 0) - (started_at_ms ?? 0) > 50);
  expect(timed.length).toBeGreaterThan(1);
  const { start_ms, end_ms } = await server.get<{ start_ms: number; end_ms: number }>(`/api/v1/sessions/${session}/timeline`);
  const shareOf = (at: number): number => (at - start_ms) / ((end_ms - start_ms) * 1.015);
  for (const call of timed) {
    const at = busy.tools.indexOf(call);
    const middle = ((call.started_at_ms ?? 0) + (call.ended_at_ms ?? 0)) / 2;
    await expect.poll(() => brightness(page, `${busy.id} ${at}`, shareOf(middle))).toBeGreaterThan(50);
    expect(await brightness(page, `${busy.id} ${at}`, 0.99), "behind the end").toBe(0);
  }
  // A click on the row, or on the lane, opens the call.
  const second = busy.tools[1];
  await page.locator(`${CALLS}[data-call-id="${second?.id}"] a`).click();
  await page.waitForURL(`**/s/${session}/a/${busy.id}?call=${second?.id}`);
  await page.locator(`aside [data-call-id="${second?.id}"] .more`).waitFor();
  const third = busy.tools[2];
  const lane = await page.locator(`${CALLS}[data-call-id="${third?.id}"]`).boundingBox();
  const canvas = await page.locator(".lanes canvas").boundingBox();
  await page.mouse.click((canvas?.x ?? 0) + 30, (lane?.y ?? 0) + 10);
  await page.waitForURL(`**call=${third?.id}`);
  await page.locator(`aside [data-call-id="${third?.id}"] .more`).waitFor();
  // By key: down to the next call, which the panel follows; back to the agent, which then folds.
  await page.locator(`${CALLS}[data-call-id="${second?.id}"] a`).focus();
  await page.keyboard.press("j");
  await page.waitForURL(`**call=${third?.id}`);
  await page.keyboard.press("j");
  await page.waitForURL(`**call=${busy.tools[3]?.id}`);
  await page.keyboard.press("ArrowLeft");
  await expect.poll(() => page.evaluate(() => document.activeElement?.closest<HTMLElement>("[data-key]")?.dataset["key"])).toBe(busy.id);
  await page.keyboard.press("ArrowLeft");
  await expect.poll(() => page.locator(CALLS).count()).toBe(0);
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => page.locator(CALLS).count()).toBe(busy.tools.length);
  // All at once.
  await page.keyboard.type("zM");
  await expect.poll(() => page.locator(CALLS).count()).toBe(0);
  await page.keyboard.type("zR");
  await expect.poll(() => page.getByTestId("call-row").count()).toBeGreaterThan(busy.tools.length);
  isQuiet(seen);
});

it("shows the calls of a moment, of a live agent, and of a saved page", async () => {
  server = await Server.over("k-big", "e-tool-failures", "e-denied");
  const { session, first } = new Recording("k-big");
  const all = (await server.get<Tree>(`/api/v1/sessions/${session}/tree`)).agents;
  const busy = all.filter(({ id }) => id !== "root").sort((one, other) => other.tool_calls - one.tool_calls)[0] as Agent;
  // Replayed: only those that had begun, as they were.
  for (const after of [8_000, 12_000, 16_000]) {
    const then = await server.get<Tree>(`/api/v1/sessions/${session}/tree?at=${first + after}`);
    const own = then.agents.find(({ id }) => id === busy.id);
    if (!own) continue;
    seen = await look(server, `/s/${session}?t=${first + after}`);
    if (own.tools.length > 0) await seen.page.locator(row(busy.id)).locator("button.calls").click();
    await expect.poll(() => callsOf((seen as Seen).page)).toEqual(told(own));
    isQuiet(seen);
    await seen.context.close();
  }
  // Failed and denied ones are told apart by word and mark.
  const { sessions } = await server.get<{ sessions: { id: string }[] }>("/api/v1/sessions");
  const marks = new Set<string>();
  for (const { id } of sessions) {
    const { agents } = await server.get<Tree>(`/api/v1/sessions/${id}/tree`);
    const faulty = agents.find(({ tools }) => tools.some(({ status }) => status === "error" || status === "denied"));
    if (!faulty) continue;
    seen = await look(server, `/s/${id}`);
    await seen.page.locator(row(faulty.id)).locator("button.calls").click();
    await expect.poll(() => callsOf((seen as Seen).page)).toEqual(told(faulty));
    for (const { status } of faulty.tools) marks.add(status);
    await seen.context.close();
  }
  expect([...marks]).toEqual(expect.arrayContaining(["error", "denied"]));
  // A page in one file has them too.
  const file = join(server.folder, "saved.html");
  writeFileSync(file, await (await fetch(`${server.url}/api/v1/sessions/${session}/export?as=html`)).text());
  seen = await look(server, "/healthz");
  await seen.page.goto(pathToFileURL(file).href);
  await seen.page.locator(row(busy.id)).locator("button.calls").click();
  await expect.poll(() => callsOf((seen as Seen).page)).toEqual(told(busy));
  await seen.context.close();
  // Live: an unfolded agent begins a call, which ends.
  const base = { subagentName: "Look", subagentRunId: "r", sessionId: "live", toolName: "Read", toolCallId: "c1" };
  await server.publish({ ...base, type: "subagent_start", timestamp: Date.now() - 5000, payload: "Look" });
  await server.publish({ ...base, type: "tool_call", timestamp: Date.now() - 4000, payload: { file_path: "/x/one.ts" } });
  seen = await look(server, "/s/live");
  await seen.page.locator(row("r")).locator("button.calls").click();
  await expect.poll(() => callsOf((seen as Seen).page)).toEqual([{ id: "c1", status: "open", words: "▸ Read open one.ts" }]);
  await server.publish({ ...base, type: "tool_result", timestamp: Date.now(), payload: "x", isError: true });
  await server.publish({ ...base, type: "tool_call", toolCallId: "c2", timestamp: Date.now(), payload: { file_path: "/x/two.ts" } });
  await expect.poll(() => callsOf((seen as Seen).page).then((calls) => calls.map(({ words }) => words))).toEqual(["✗ Read error one.ts", "▸ Read open two.ts"]);
  isQuiet(seen);
});

it("stays small with an agent of 5,000 calls: rows beyond the screen are not in the page", async () => {
  server = await Server.start();
  await publish(server, crowd("crowd", Date.now() - 9_600_000, 1, 5_000), "crowd");
  seen = await look(server, "/s/crowd");
  const { page } = seen;
  await page.locator(row("run-0")).locator("button.calls").click();
  await page.waitForSelector(CALLS);
  const { agents } = await server.get<Tree>("/api/v1/sessions/crowd/tree");
  const tools = agents.find(({ id }) => id === "run-0")?.tools ?? [];
  expect(tools.length).toBe(5_000);
  expect(await page.locator(CALLS).count()).toBeLessThan(60);
  // Row by row beyond the edge of the screen: none is left out.
  await page.locator(`${CALLS} a`).first().focus();
  for (let step = 1; step <= 60; step++) {
    await page.keyboard.press("j");
    await expect
      .poll(() => page.evaluate(() => document.activeElement?.closest<HTMLElement>("[data-call-id]")?.dataset["callId"]))
      .toBe(tools[step]?.id);
  }
  await page.locator(".waterfall .scroller").evaluate((list) => (list.scrollTop = list.scrollHeight));
  await page.locator(`${CALLS}[data-call-id="${tools.at(-1)?.id}"]`).waitFor();
  expect(await page.locator(CALLS).count()).toBeLessThan(60);
  // The lanes scroll with them.
  const [lanes, list] = await Promise.all([".lanes canvas", ".waterfall .scroller"].map((part) => page.locator(part).boundingBox()));
  expect(lanes?.y).toBe(list?.y);
  isQuiet(seen);
});
