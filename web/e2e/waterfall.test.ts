// The waterfall: agents unfold into their calls, arrows show which agent started which, a sentence sums up the critical path.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it, vi } from "vitest";
import type { Page } from "playwright-core";
import { duration } from "../src/lib/format";
import type { Agent, Event, Tree } from "../src/model";
import { title } from "../src/lib/words";
import { crowd, publish } from "./crowd";
import { cleanUp, isQuiet, look, Recording, row, type Seen, Server } from "./harness";

let server: Server;
let seen: Seen;

cleanUp("each test");

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

const expected = ({ tools }: Agent): CallSeen[] =>
  tools.map(({ id, status, name, detail }) => ({
    id,
    status,
    words: [MARKS[status], name, status === "ok" ? "" : status, detail ?? ""].filter((word) => word !== "").join(" ").replace(/\s+/g, " ").trim(),
  }));

/** Brightness of the middle of a lane, at a share of its width plus some pixels. */
const brightness = (page: Page, key: string, share: number): Promise<number> =>
  page.evaluate(
    ([wanted, at]) => {
      const canvas = document.querySelector<HTMLCanvasElement>(".lanes canvas");
      const line = document.querySelector(`[data-key="${wanted}"]`)?.getBoundingClientRect();
      if (!canvas || !line) return -1;
      const box = canvas.getBoundingClientRect();
      const y = (line.top + line.height / 2 - box.top) * (canvas.height / box.height);
      const data = canvas.getContext("2d")?.getImageData(canvas.width * Number(at) - 3, y, 7, 1).data ?? [];
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
  await expect.poll(() => callsOf(page)).toEqual(expected(busy));
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
    await expect.poll(() => brightness(page, `${busy.id} ${at}`, 0.99), { message: "behind the end" }).toBe(0);
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
  // By keyboard: down to the next call, which the panel shows; back to the agent, which then folds.
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
  // All agents at once.
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
  // In a replay: only calls that had begun, with their status at that time.
  for (const after of [8_000, 12_000, 16_000]) {
    const then = await server.get<Tree>(`/api/v1/sessions/${session}/tree?at=${first + after}`);
    const own = then.agents.find(({ id }) => id === busy.id);
    if (!own) continue;
    seen = await look(server, `/s/${session}?t=${first + after}`);
    if (own.tools.length > 0) await seen.page.locator(row(busy.id)).locator("button.calls").click();
    await expect.poll(() => callsOf(seen.page)).toEqual(expected(own));
    isQuiet(seen);
    await seen.context.close();
  }
  // A word and a mark distinguish failed from denied ones.
  const { sessions } = await server.get<{ sessions: { id: string }[] }>("/api/v1/sessions");
  const marks = new Set<string>();
  for (const { id } of sessions) {
    const { agents } = await server.get<Tree>(`/api/v1/sessions/${id}/tree`);
    const faulty = agents.find(({ tools }) => tools.some(({ status }) => status === "error" || status === "denied"));
    if (!faulty) continue;
    seen = await look(server, `/s/${id}`);
    await seen.page.locator(row(faulty.id)).locator("button.calls").click();
    await expect.poll(() => callsOf(seen.page)).toEqual(expected(faulty));
    for (const { status } of faulty.tools) marks.add(status);
    await seen.context.close();
  }
  expect([...marks]).toEqual(expect.arrayContaining(["error", "denied"]));
  // A saved page has them too.
  const file = join(server.folder, "saved.html");
  writeFileSync(file, await (await fetch(`${server.url}/api/v1/sessions/${session}/export?as=html`)).text());
  seen = await look(server, "/healthz");
  await seen.page.goto(pathToFileURL(file).href);
  await seen.page.locator(row(busy.id)).locator("button.calls").click();
  await expect.poll(() => callsOf(seen.page)).toEqual(expected(busy));
  await seen.context.close();
  // Live: an unfolded agent begins a call, which ends.
  const base = { subagentName: "Look", subagentRunId: "r", sessionId: "live", toolName: "Read", toolCallId: "c1" };
  await server.publish({ ...base, type: "subagent_start", timestamp: Date.now() - 5000, payload: "Look" });
  await server.publish({ ...base, type: "tool_call", timestamp: Date.now() - 4000, payload: { file_path: "/x/one.ts" } });
  seen = await look(server, "/s/live");
  await seen.page.locator(row("r")).locator("button.calls").click();
  await expect.poll(() => callsOf(seen.page)).toEqual([{ id: "c1", status: "open", words: "▸ Read open one.ts" }]);
  await server.publish({ ...base, type: "tool_result", timestamp: Date.now(), payload: "x", isError: true });
  await server.publish({ ...base, type: "tool_call", toolCallId: "c2", timestamp: Date.now(), payload: { file_path: "/x/two.ts" } });
  await expect.poll(() => callsOf(seen.page).then((calls) => calls.map(({ words }) => words))).toEqual(["✗ Read error one.ts", "▸ Read open two.ts"]);
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
  // Row by row beyond the edge of the screen, without skipping one.
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

it("scrolls a long list by filling elements again: each row is right, the focus stays with its agent and goes to no other", async () => {
  server = await Server.start();
  await publish(server, crowd("crowd", Date.now() - 600_000, 400, 2), "crowd");
  const { agents } = await server.get<Tree>("/api/v1/sessions/crowd/tree");
  seen = await look(server, "/s/crowd");
  const { page } = seen;
  await page.waitForSelector(row("run-0"));
  const list = page.locator(".waterfall .scroller");
  const focused = (): Promise<string | undefined> => page.evaluate(() => document.activeElement?.closest<HTMLElement>("[data-agent-id]")?.dataset["agentId"]);
  /** The text of each row by its position among all, in the order of the page. */
  const shown = (): Promise<[number, string | undefined, string | null | undefined][]> =>
    page.locator('[data-testid="agent-row"]').evaluateAll((all) =>
      all.map((one) => [Number(one.getAttribute("aria-posinset")) - 1, (one as HTMLElement).dataset["agentId"], one.querySelector(".name")?.getAttribute("title")]),
    );
  const scroll = async (by: number): Promise<void> => {
    await list.evaluate((one, more) => one.scrollBy(0, more), by);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    const rows = await shown();
    expect(rows.map(([place]) => place)).toEqual(rows.map((_, at) => at + (rows[0]?.[0] ?? 0)));
    for (const [place, id, name] of rows) {
      expect(id).toBe(agents[place]?.id);
      expect(name).toBe(title(agents[place] as Agent));
    }
  };
  await page.evaluate(() => document.querySelector('[data-testid="agent-row"]')?.setAttribute("data-made", "first"));
  for (const by of [240, 240, 5_000, -240, -700, 320]) await scroll(by);
  expect(await page.locator("[data-made]").count(), "elements are filled again").toBe(1);
  // A row keeps the focus however the list is scrolled, as long as it exists.
  const half = agents[200] as Agent;
  await list.evaluate((one) => (one.scrollTop = 200 * 32 - 300));
  await page.locator(row(half.id)).locator("a.line").focus();
  for (const by of [32, -32, 200, -260, 240, -240, 300, 64, -420]) {
    await scroll(by);
    expect(await focused(), `after ${by}`).toBe(half.id);
  }
  // Once it is removed, no other agent gets the focus.
  for (const by of [5_000, -100, -4_900, 700]) {
    await scroll(by);
    expect([half.id, undefined]).toContain(await focused());
  }
  isQuiet(seen);
});

interface TimelineSeen {
  start_ms: number;
  end_ms: number;
  critical_path: { agent_id: string; from_ms: number; to_ms: number }[];
  path: { total_ms: number; shares: { agent_id: string; what: string; ms: number }[]; rest_ms: number };
}

/** Where a moment is, in pixels of the lanes. */
const placeOf = async (page: Page, { start_ms, end_ms }: TimelineSeen, at: number): Promise<number> => {
  const width = await page.locator(".lanes canvas").evaluate((canvas) => canvas.getBoundingClientRect().width);
  return ((at - start_ms) / ((end_ms - start_ms) * 1.015)) * width;
};

it("shows who started an agent, and who went on after it", async () => {
  server = await Server.over("k-big");
  const { session } = new Recording("k-big");
  const { agents } = await server.get<Tree>(`/api/v1/sessions/${session}/tree`);
  const timeline = await server.get<TimelineSeen>(`/api/v1/sessions/${session}/timeline`);
  seen = await look(server, `/s/${session}`, { viewport: { width: 1280, height: 1000 }, reducedMotion: "reduce" });
  const { page } = seen;
  const waited = agents.find(({ id, parent_id, background, spawned_by }) => id !== "root" && parent_id === "root" && !background && spawned_by !== null) as Agent;
  const call = agents[0]?.tools.find(({ id }) => id === waited.spawned_by);
  const ends = (kind: string): Promise<number[]> =>
    page.locator(`.arrows .${kind}[data-agent="${waited.id}"] path`).first().evaluate((line) => {
      const path = line as SVGPathElement;
      const points = [path.getPointAtLength(0), path.getPointAtLength(path.getTotalLength())];
      return points.flatMap(({ x, y }) => [Math.round(x), Math.round(y)]);
    });
  const rowMiddle = (id: string): Promise<number> =>
    page.locator(row(id)).evaluate((one) => {
      const [own, lanes] = [one.getBoundingClientRect(), document.querySelector(".lanes")?.getBoundingClientRect()];
      return Math.round(own.top + own.height / 2 - (lanes?.top ?? 0));
    });
  await page.locator(row(waited.id)).hover();
  await page.waitForSelector(`.arrows .start[data-agent="${waited.id}"]`);
  const near = (found: number[], wanted: number[]): void => found.forEach((one, at) => expect(Math.abs(one - (wanted[at] ?? 0)), `${found} for ${wanted}`).toBeLessThan(3));
  const [begun, started, ended, back] = await Promise.all(
    [call?.started_at_ms, waited.started_at_ms, waited.ended_at_ms, call?.ended_at_ms].map((at) => placeOf(page, timeline, at ?? 0)),
  );
  await vi.waitFor(async () => {
    near(await ends("start"), [begun ?? 0, await rowMiddle("root"), started ?? 0, await rowMiddle(waited.id)]);
    near(await ends("back"), [ended ?? 0, await rowMiddle(waited.id), back ?? 0, await rowMiddle("root")]);
  }, 20_000);
  // They catch no clicks: a click reaches the lane below.
  const box = await page.locator(".lanes canvas").boundingBox();
  await page.mouse.click((box?.x ?? 0) + (started ?? 0), (box?.y ?? 0) + (await rowMiddle(waited.id)));
  await page.waitForURL(`**/a/${waited.id}*`);
  // Arrows begin at the call once it has a row; a selected agent keeps its arrows.
  await page.mouse.move(5, 5);
  await page.locator(row("root")).locator("button.calls").click();
  await page.mouse.move(5, 5);
  const from = await page.locator(`${CALLS}[data-call-id="${waited.spawned_by}"]`).evaluate((one) => {
    const [own, lanes] = [one.getBoundingClientRect(), document.querySelector(".lanes")?.getBoundingClientRect()];
    return Math.round(own.top + own.height / 2 - (lanes?.top ?? 0));
  });
  await expect.poll(async () => Math.abs(((await ends("start"))[1] ?? 0) - from)).toBeLessThan(3);
  isQuiet(seen);
});

it("says in a sentence where the time went, and shows the critical path alone", async () => {
  server = await Server.over("k-big");
  const { session } = new Recording("k-big");
  const timeline = await server.get<TimelineSeen>(`/api/v1/sessions/${session}/timeline`);
  const { path } = timeline;
  expect(path.shares.reduce((sum, { ms }) => sum + ms, path.rest_ms)).toBe(path.total_ms);
  expect(path.shares.length).toBeLessThanOrEqual(4);
  seen = await look(server, `/s/${session}`, { viewport: { width: 1280, height: 1000 } });
  const { page } = seen;
  const words = [...path.shares.map(({ ms, what }) => `${duration(ms)} ${what}`), ...(path.rest_ms > 0 ? [`${duration(path.rest_ms)} the rest`] : [])];
  const sentence = page.getByTestId("path");
  await expect.poll(() => sentence.textContent().then((text) => text?.replace(/\s+/g, " ").trim())).toBe(`critical path ${duration(path.total_ms)}: ${words.join(", ")}`);
  // A share links to its agent.
  const share = path.shares.find(({ agent_id }) => agent_id !== "root");
  await sentence.getByRole("link", { name: share?.what ?? "" }).click();
  await page.waitForURL(`**/a/${share?.agent_id}`);
  await page.keyboard.press("Escape");
  // `c` dims agents that are not on the critical path; the others keep their brightness.
  const on = timeline.critical_path.find(({ agent_id }) => agent_id === share?.agent_id);
  const { lanes } = await server.get<{ lanes: { agent_id: string; spans: { kind: string; from_ms: number; to_ms: number }[] }[] }>(`/api/v1/sessions/${session}/timeline`);
  const off = lanes.find(({ agent_id }) => !timeline.critical_path.some((step) => step.agent_id === agent_id));
  const longest = off?.spans.filter(({ kind }) => kind === "tool").sort((one, other) => other.to_ms - other.from_ms - one.to_ms + one.from_ms)[0];
  if (!on || !off || !longest) throw new Error("everybody is on the path");
  const shareOf = (from: number, to: number): number => ((from + to) / 2 - timeline.start_ms) / ((timeline.end_ms - timeline.start_ms) * 1.015);
  const bright = (): Promise<number[]> =>
    Promise.all([brightness(page, on.agent_id, shareOf(on.from_ms, on.to_ms)), brightness(page, off.agent_id, shareOf(longest.from_ms, longest.to_ms))]);
  await expect.poll(() => bright().then((both) => Math.min(...both)), { message: "both are painted" }).toBeGreaterThan(0);
  const before = await bright();
  await page.keyboard.press("c");
  const alone = page.getByRole("button", { name: "critical path" });
  await expect.poll(() => alone.getAttribute("aria-pressed")).toBe("true");
  await expect.poll(async () => (await bright())[1]).not.toBe(before[1]);
  expect((await bright())[0]).toBe(before[0]);
  await alone.click();
  await expect.poll(bright).toEqual(before);
  isQuiet(seen);
});

it("paints lanes and strip in their new size before the browser shows it", async () => {
  server = await Server.over("k-big");
  const { session } = new Recording("k-big");
  seen = await look(server, `/s/${session}/a/root`);
  const { page } = seen;
  await page.waitForSelector(".minimap canvas");
  await page.waitForSelector("aside .top > h2");
  const CANVASES = [".lanes canvas", ".minimap canvas"];
  // An observer created after those of the page is called after them, before the frame is shown.
  await page.evaluate((selectors) => {
    const shown: Record<string, [number, number, boolean][]> = {};
    for (const selector of selectors) {
      const canvas = document.querySelector<HTMLCanvasElement>(selector);
      if (!canvas) throw new Error(selector);
      const all: [number, number, boolean][] = (shown[selector] = []);
      new ResizeObserver(() => {
        const pixels = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data ?? [];
        all.push([canvas.clientWidth, canvas.width, pixels.some((one) => one > 0)]);
      }).observe(canvas);
    }
    Object.assign(globalThis, { shown });
  }, CANVASES);
  const shown = (): Promise<Record<string, [number, number, boolean][]>> => page.evaluate(() => (globalThis as unknown as { shown: Record<string, [number, number, boolean][]> }).shown);
  const sizes = async (): Promise<number> => {
    const all = await shown();
    return Math.min(...CANVASES.map((selector) => new Set(all[selector]?.map(([wide]) => wide)).size));
  };
  let count = 1;
  for (const resize of [null, () => page.keyboard.press("Escape"), () => page.setViewportSize({ width: 1000, height: 800 }), () => page.keyboard.press("[")]) {
    await resize?.();
    await expect.poll(sizes).toBe(count++);
  }
  for (const selector of CANVASES) {
    for (const [wide, painted, isPainted] of (await shown())[selector] ?? []) expect([painted, isPainted], `${selector} ${wide}`).toEqual([wide, true]);
  }
  isQuiet(seen);
});

it("zooms into what a drag covers, moves the window in the strip above, and shows the whole again", async () => {
  server = await Server.over("k-big", "e-denied");
  const { session } = new Recording("k-big");
  const timeline = await server.get<TimelineSeen>(`/api/v1/sessions/${session}/timeline`);
  const whole = (timeline.end_ms - timeline.start_ms) * 1.015;
  seen = await look(server, `/s/${session}`);
  const { page } = seen;
  await page.waitForSelector(".minimap canvas");
  const zoomed = (): number[] => (new URL(page.url()).searchParams.get("z") ?? "").split("-").map((at) => Math.round(((Number(at) - timeline.start_ms) / whole) * 100));
  const dragged = async (part: string, from: number, to: number): Promise<void> => {
    const box = await page.locator(part).boundingBox();
    const at = (share: number): number => (box?.x ?? 0) + (box?.width ?? 0) * share;
    await page.mouse.move(at(from), (box?.y ?? 0) + 8);
    await page.mouse.down();
    await page.mouse.move(at((from + to) / 2), (box?.y ?? 0) + 8);
    await page.mouse.move(at(to), (box?.y ?? 0) + 8);
    await page.mouse.up();
  };
  const doubled = (part: string): Promise<void> => page.locator(part).dblclick({ position: { x: 200, y: 8 } });
  await dragged(".scale", 0.25, 0.75);
  await expect.poll(zoomed).toEqual([25, 75]);
  // Within the visible range, with shift over the lanes.
  await page.keyboard.down("Shift");
  await dragged(".lanes canvas", 0.5, 0.9);
  await page.keyboard.up("Shift");
  await expect.poll(zoomed).toEqual([50, 70]);
  expect(page.url()).not.toContain("/a/");
  // In the overview: move the window, move its edge, and select another range.
  await dragged(".minimap canvas", 0.6, 0.4);
  await expect.poll(zoomed).toEqual([30, 50]);
  await dragged(".minimap canvas", 0.5, 0.8);
  await expect.poll(zoomed).toEqual([30, 80]);
  await dragged(".minimap canvas", 0.05, 0.2);
  await expect.poll(zoomed).toEqual([5, 20]);
  await doubled(".minimap canvas");
  await expect.poll(() => page.url()).not.toContain("z=");
  await dragged(".scale", 0.25, 0.75);
  await doubled(".scale");
  await expect.poll(() => page.url()).not.toContain("z=");
  // The overview shows failures where they happened.
  const fails = (await server.get<Tree>(`/api/v1/sessions/${session}/tree`)).agents.flatMap(({ tools }) => tools.filter(({ status }) => status === "error"));
  expect(fails.length).toBeGreaterThan(0);
  const red = (): Promise<number[]> => page.locator(".minimap canvas").evaluate((node) => {
    const canvas = node as HTMLCanvasElement;
    const { data, width } = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, 1) ?? { data: [], width: 1 };
    return Array.from({ length: width }, (_, at) => at).flatMap((at) => ((data[at * 4] ?? 0) > 150 && (data[at * 4 + 1] ?? 0) < 100 && (data[at * 4 + 3] ?? 0) > 200 ? [at / width] : []));
  });
  for (const { ended_at_ms } of fails) {
    const share = ((ended_at_ms ?? 0) - timeline.start_ms) / whole;
    await expect.poll(() => red().then((all) => all.some((at) => Math.abs(at - share) < 0.01)), { message: String(share) }).toBe(true);
  }
  // The tooltip of a bar has the complete command.
  const { agents } = await server.get<Tree>(`/api/v1/sessions/${session}/tree`);
  const { events } = await server.get<{ events: Event[] }>(`/api/v1/sessions/${session}/feed?limit=20000`);
  const long = events.find(({ kind, data, actor_id }) => kind === "tool.pre" && actor_id !== "agent:root" && String((data["input"] as { command?: string }).command ?? "").length > 60);
  const id = String(long?.data["tool_use_id"]);
  const owner = agents.find(({ tools }) => tools.some((tool) => tool.id === id)) as Agent;
  await page.locator(row(owner.id)).locator("button.calls").click();
  const tool = owner.tools.find((one) => one.id === id);
  const lane = page.locator(`${CALLS}[data-call-id="${id}"]`);
  await lane.scrollIntoViewIfNeeded();
  const middle = ((tool?.started_at_ms ?? 0) + (tool?.ended_at_ms ?? 0)) / 2;
  // The list may still scroll: move the pointer to the current position of the lane.
  await expect
    .poll(async () => {
      const [line, canvas] = [await lane.boundingBox(), await page.locator(".lanes canvas").boundingBox()];
      await page.mouse.move((canvas?.x ?? 0) + (await placeOf(page, timeline, middle)), (line?.y ?? 0) + 11);
      return page.locator(".tip code").allTextContents();
    })
    .toEqual([(long?.data["input"] as { command: string }).command]);
  expect(await page.locator(".tip").textContent()).toContain(`✓ ok · ${duration((tool?.ended_at_ms ?? 0) - (tool?.started_at_ms ?? 0))}`);
  isQuiet(seen);
});

it("marks starts, failures and waits on the slider, and steps from one to the next", async () => {
  server = await Server.over("k-big");
  const { session } = new Recording("k-big");
  const { agents, session: of } = await server.get<Tree>(`/api/v1/sessions/${session}/tree`);
  const moments = [...new Set(agents.flatMap((one) => [one, ...one.tools]).flatMap(({ started_at_ms, ended_at_ms }) => [started_at_ms ?? [], ended_at_ms ?? []].flat()))].sort((one, other) => one - other);
  const middle = moments[Math.floor(moments.length / 2)] ?? 0;
  seen = await look(server, `/s/${session}?t=${middle}`);
  const at = (): number => Number(new URL(seen.page.url()).searchParams.get("t"));
  await seen.page.waitForSelector(".replay");
  const next = moments.filter((moment) => moment > middle);
  for (const wanted of next.slice(0, 3)) {
    await seen.page.keyboard.press("]");
    await expect.poll(at).toBe(wanted);
  }
  await seen.page.keyboard.press("p");
  await expect.poll(at).toBe(next[1]);
  const tenth = ((of.ended_at_ms ?? 0) - (of.started_at_ms ?? 0)) / 10;
  await seen.page.keyboard.press("{");
  await expect.poll(at).toBe(Math.round((next[1] ?? 0) - tenth));
  await seen.page.keyboard.press(">");
  expect(await seen.page.locator(".replay select").inputValue()).toBe("16");
  await seen.page.keyboard.press("L");
  await expect.poll(() => seen.page.url()).not.toContain("t=");
  const ticks = (of: Seen, kind: string): Promise<number> => of.page.locator(`.replay path.${kind}`).getAttribute("d").then((d) => d?.match(/M/g)?.length ?? 0);
  expect(await ticks(seen, "fails")).toBe(agents.reduce((sum, { tool_errors }) => sum + tool_errors, 0));
  isQuiet(seen);
  await seen.context.close();
  // A permission that was requested and granted: only hooks report it.
  const base = { session_id: "asked", transcript_path: "/asked.jsonl", cwd: "/x", prompt_id: "p" };
  const tool = { agent_id: "a1", tool_name: "Bash", tool_use_id: "t1", tool_input: { command: "make" } };
  await server.hook({ ...base, hook_event_name: "UserPromptSubmit", prompt: "build" });
  await server.hook({ ...base, hook_event_name: "SubagentStart", agent_id: "a1", agent_type: "Explore" });
  await server.hook({ ...base, ...tool, hook_event_name: "PreToolUse" });
  await server.hook({ ...base, ...tool, hook_event_name: "PermissionRequest" });
  await server.hook({ ...base, ...tool, hook_event_name: "PostToolUse", tool_response: "built" });
  seen = await look(server, "/s/asked");
  await seen.page.locator(".replay").hover();
  await expect.poll(() => ticks(seen as Seen, "waits")).toBe(1);
  isQuiet(seen);
});
