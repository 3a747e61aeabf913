// The page's cost in a browser: `cargo xtask page speed`. Reports figures without limits, since machines differ.
import { afterAll, beforeAll, it } from "vitest";
import type { CDPSession, Page } from "playwright-core";
import type { Tree } from "../src/model";
import { crowd, publish } from "./crowd";
import { closed, look, opened, Recording, row, Server, sleep } from "./harness";

let server: Server;

beforeAll(async () => {
  server = await Server.start();
  await publish(server, crowd("crowd", Date.now() - 1_300_000), "crowd");
  for (;;) {
    const tree = await server.get<{ agents: unknown[] }>("/api/v1/sessions/crowd/tree").catch(() => ({ agents: [] }));
    if (tree.agents.length > 3_000) return;
    await sleep(200);
  }
}, 600_000);

afterAll(async () => {
  await closed();
  await server.stop();
});

const tell = (text: string): void => void process.stdout.write(`measured: ${text}\n`);

function share(all: number[], part: number): number {
  const sorted = [...all].sort((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0;
}

interface Traced {
  name: string;
  cat: string;
  ph: string;
  ts: number;
  dur?: number;
  tdur?: number;
  pid: number;
  tid: number;
}

/** CPU time of a thread in milliseconds, without its waits on a busy machine. */
const cost = ({ dur, tdur }: Traced): number => (tdur ?? dur ?? 0) / 1000;

const WORK = new Set(["FunctionCall", "FireAnimationFrame", "EventDispatch", "UpdateLayoutTree", "Layout", "RunMicrotasks", "TimerFire", "MinorGC", "MajorGC"]);

/** Runs an action; returns the time of script and layout on the main thread for each frame, and the longest task. */
async function traced(work: () => Promise<void>): Promise<{ frames: number[]; longest: number; tasks: number }> {
  const session: CDPSession = await (await opened()).newBrowserCDPSession();
  const events: Traced[] = [];
  session.on("Tracing.dataCollected", ({ value }) => void events.push(...(value as unknown as Traced[])));
  const categories = ["devtools.timeline", "toplevel", "v8"];
  await session.send("Tracing.start", { traceConfig: { includedCategories: categories }, transferMode: "ReportEvents" });
  await work();
  const ended = new Promise((resolve) => session.once("Tracing.tracingComplete", resolve));
  await session.send("Tracing.end");
  await ended;
  await session.detach();
  const main = busiest(events);
  const own = events.filter((event) => event.pid === main.pid && event.tid === main.tid && event.ph === "X");
  const begins = own.filter((event) => event.name === "FireAnimationFrame").map((event) => event.ts);
  // Nested events are counted with the outer one.
  const spent = own.filter((event) => WORK.has(event.name)).sort((one, other) => one.ts - other.ts || (other.dur ?? 0) - (one.dur ?? 0));
  const frames = new Map<number, number>();
  let covered = 0;
  for (const event of spent) {
    if (event.ts < covered) continue;
    covered = event.ts + (event.dur ?? 0);
    const frame = begins.findLast((begin) => begin <= event.ts + 16_000) ?? 0;
    frames.set(frame, (frames.get(frame) ?? 0) + cost(event));
  }
  const all = own.filter((event) => event.name.endsWith("RunTask"));
  const tasks = all.map(cost);
  for (const task of all.filter((event) => cost(event) > 50)) {
    const within = own.filter((event) => event !== task && event.ts >= task.ts && event.ts < task.ts + (task.dur ?? 0) && cost(event) > 5);
    tell(`a task of ${Math.round(cost(task))} ms: ${within.map((event) => `${event.name} ${Math.round(cost(event))}`).join(", ")}`);
  }
  return { frames: [...frames.values()], longest: Math.max(0, ...tasks), tasks: tasks.filter((ms) => ms > 50).length };
}

function busiest(events: Traced[]): { pid: number; tid: number } {
  const counts = new Map<string, number>();
  for (const { name, pid, tid } of events) {
    if (name === "FireAnimationFrame") counts.set(`${pid} ${tid}`, (counts.get(`${pid} ${tid}`) ?? 0) + 1);
  }
  const [pid = 0, tid = 0] = ([...counts].sort((one, other) => other[1] - one[1])[0]?.[0] ?? "").split(" ").map(Number);
  return { pid, tid };
}

async function heap(page: Page): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  return usedSize / 1_000_000;
}

it("scrolls and zooms 3,000 agents with 100,000 events", async () => {
  const begin = Date.now();
  const { page, wrong } = await look(server, "/s/crowd", { viewport: { width: 1920, height: 1080 } });
  await page.waitForSelector(row("run-0"));
  tell(`rows of 3,000 agents after ${Date.now() - begin} ms`);
  await page.waitForFunction(() => (document.querySelector(".scale")?.childElementCount ?? 0) > 2);
  tell(`lanes of 3,000 agents after ${Date.now() - begin} ms`);
  await sleep(2_000);
  const box = await page.locator(".lanes canvas").boundingBox();
  if (!box) throw new Error("no canvas");
  await page.mouse.move(box.x + box.width / 2, box.y + 300);
  const scrolled = await traced(async () => {
    for (let step = 0; step < 150; step++) {
      await page.mouse.wheel(0, 240);
      await sleep(16);
    }
  });
  const zoomed = await traced(async () => {
    await page.keyboard.down("Control");
    for (let step = 0; step < 120; step++) {
      await page.mouse.wheel(0, step < 60 ? -60 : 60);
      await sleep(16);
    }
    await page.keyboard.up("Control");
  });
  await page.keyboard.type("zR");
  await page.waitForSelector('[data-testid="call-row"]');
  const unfolded = await traced(async () => {
    for (let step = 0; step < 150; step++) {
      await page.mouse.wheel(0, 240);
      await sleep(16);
    }
  });
  for (const [what, { frames, longest, tasks }] of [["scrolling", scrolled], ["zooming", zoomed], ["scrolling with all calls", unfolded]] as const) {
    tell(`${what}: script and layout a frame: median ${share(frames, 0.5).toFixed(1)} ms, p95 ${share(frames, 0.95).toFixed(1)} ms of ${frames.length} frames; longest task ${longest.toFixed(0)} ms, ${tasks} over 50 ms`);
  }
  tell(`heap: ${(await heap(page)).toFixed(0)} MB; errors: ${wrong.length}${wrong.slice(0, 3).map((one) => ` (${one})`).join("")}`);
  await page.context().close();
}, 300_000);

it("answers keys with 3,000 agents", async () => {
  const { page, wrong } = await look(server, "/s/crowd", { viewport: { width: 1920, height: 1080 } });
  await page.waitForSelector(row("run-0"));
  await page.waitForFunction(() => (document.querySelector(".scale")?.childElementCount ?? 0) > 2);
  await sleep(2_000);
  // From the time of the key event until the frame with its effect was painted.
  await page.evaluate(() => {
    const spans: number[] = [];
    Object.assign(globalThis, { spans });
    addEventListener("keydown", ({ timeStamp }) => {
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => void spans.push(performance.now() - timeStamp);
        port2.postMessage(null);
      });
    }, { capture: true });
  });
  const measured = async (what: string, keys: string[]): Promise<void> => {
    await page.evaluate(() => ((globalThis as unknown as { spans: number[] }).spans.length = 0));
    for (const key of keys) {
      await page.keyboard.press(key);
      await sleep(40);
    }
    await sleep(300);
    const spans = await page.evaluate(() => (globalThis as unknown as { spans: number[] }).spans);
    tell(`key to screen, ${what}: median ${share(spans, 0.5).toFixed(1)} ms, p95 ${share(spans, 0.95).toFixed(1)} ms, p99 ${share(spans, 0.99).toFixed(1)} ms, at most ${Math.max(...spans).toFixed(1)} ms of ${spans.length} keys`);
  };
  await page.locator(row("run-0")).focus().catch(() => undefined);
  const repeated = (...keys: string[]): string[] => Array.from({ length: 200 }, (_, at) => keys[at % keys.length] ?? "");
  await measured("j and k", [...repeated("j").slice(0, 120), ...repeated("k").slice(0, 80)]);
  await measured("zoom and critical path", repeated("+", "c", ".", "-", "c", ","));
  await page.keyboard.press("Enter");
  await page.waitForSelector("aside");
  await sleep(1_000);
  await measured("j and k with the panel of an agent", repeated("j", "j", "k"));
  tell(`errors: ${wrong.length}${wrong.slice(0, 3).map((one) => ` (${one})`).join("")}`);
  await page.context().close();
}, 300_000);

it("keeps up with 500 events a second", async () => {
  const begin = Date.now();
  const events = crowd("live", begin, 20, 240).map((event, number) => ({ ...event, timestamp: begin + number * 2 }));
  // A session that does not exist yet would give 404.
  await publish(server, events.slice(0, 50), "live");
  const { page, wrong } = await look(server, "/s/live", { viewport: { width: 1920, height: 1080 } });
  await page.waitForSelector(row("run-0"));
  const lags: number[] = [];
  const measured = await traced(async () => {
    for (let from = 50; from < events.length; from += 50) {
      await sleep(begin + from * 2 - Date.now());
      const lines = events.slice(from, from + 50);
      await publish(server, lines, `live ${from}`);
      if (from % 1000 !== 0) continue;
      const asked = Date.now();
      const { agents } = await server.get<Tree>("/api/v1/sessions/live/tree");
      const over = agents.reduce((sum, agent) => sum + agent.tool_calls, 0);
      await page.waitForFunction(
        (least) => [...document.querySelectorAll(".agent .number.tools")].reduce((sum, one) => sum + Number.parseInt(one.textContent ?? "0", 10), 0) >= least,
        over,
        { timeout: 20_000 },
      );
      lags.push(Date.now() - asked);
    }
  });
  tell(`live at 500 events/s for ${((Date.now() - begin) / 1000).toFixed(0)} s: rows behind by at most ${Math.max(...lags)} ms; script and layout a frame: median ${share(measured.frames, 0.5).toFixed(1)} ms, p95 ${share(measured.frames, 0.95).toFixed(1)} ms; ${measured.tasks} tasks over 50 ms; errors: ${wrong.length}${wrong.slice(0, 3).map((one) => ` (${one})`).join("")}`);
  await page.context().close();
}, 300_000);

it("paints as soon as a page that does nothing", async () => {
  const few = await Server.over("b-parallel", "c-nested", "e-retries", "k-big");
  const html = await (await fetch(`${few.url}/`)).text();
  const script = /src="\.?(\/assets\/[^"]+\.js)"/.exec(html)?.[1] ?? "";
  const paint = async (path: string, rows: boolean): Promise<{ first: number; rows: number }> => {
    const all: { first: number; rows: number }[] = [];
    for (let round = 0; round < 15; round++) {
      const { page } = await look(few, "/healthz");
      // The time of the frame that shows rows.
      await page.addInitScript(() => {
        const seen = (): void => {
          if (!document.querySelector('[data-testid="agent-row"]')) return;
          watch.disconnect();
          requestAnimationFrame(() => performance.mark("rows"));
        };
        const watch = new MutationObserver(seen);
        watch.observe(document, { childList: true, subtree: true });
      });
      await page.goto(few.url + path);
      await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0);
      if (rows) await page.waitForFunction(() => performance.getEntriesByName("rows").length > 0);
      all.push(
        await page.evaluate(() => ({
          first: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
          rows: performance.getEntriesByName("rows")[0]?.startTime ?? 0,
        })),
      );
      await page.context().close();
    }
    return { first: share(all.map((one) => one.first), 0.5), rows: share(all.map((one) => one.rows), 0.5) };
  };
  // The script as a text page: as many bytes from the same server, without running it.
  const [still, own] = [await paint(script, false), await paint(`/s/${new Recording("k-big").session}`, true)];
  tell(`a static page of as many bytes: ${still.first.toFixed(0)} ms; ours: first paint ${own.first.toFixed(0)} ms (${(own.first / still.first).toFixed(1)} times), rows of a session of nine agents ${own.rows.toFixed(0)} ms (${(own.rows / still.first).toFixed(1)} times)`);
  await few.stop();
}, 300_000);
