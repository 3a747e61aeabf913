// The layout at every width: names stay readable, nothing overlaps, activities and details of calls are readable or hidden.
import { expect, it } from "vitest";
import type { Page } from "playwright-core";
import type { Tree } from "../src/model";
import { crowd, publish } from "./crowd";
import { cleanUp, isQuiet, look, Recording, row, type Seen, Server, sleep } from "./harness";

let server: Server;
let seen: Seen;

cleanUp("each test");

const WIDTHS = [360, 390, 700, 1000, 1280, 1440, 1920, 3840];
/** Characters of each name that must be visible, if it has as many. */
const NAMED = 14;

/** Faults of rows: boxes that overlap, names and activities of which too little is visible. */
const faults = (page: Page, named: number): Promise<string[]> =>
  page.evaluate((least) => {
    const found: string[] = [];
    /** Whether an activity or a detail is hidden: it is in a second line that is clipped. */
    const isClipped = (part: Element): boolean => {
      const line = part.closest(".who") as Element;
      return getComputedStyle(line).display !== "contents" && part.getBoundingClientRect().top >= line.getBoundingClientRect().bottom - 0.5;
    };
    const pen = document.createElement("canvas").getContext("2d");
    for (const one of document.querySelectorAll<HTMLElement>('[data-testid="agent-row"], [data-testid="call-row"]')) {
      const line = one.querySelector<HTMLElement>(".columns");
      if (!line || line.offsetWidth === 0) continue;
      const parts = [...line.querySelectorAll<HTMLElement>(".who > :not(.id), .id > *, .columns > :not(.who), .model, .time, .number")].filter(
        (part) => !part.closest(".who") || (part.matches(".who > *, .id > *") && !isClipped(part)),
      );
      const boxes = [...new Set(parts)].map((part) => ({ part, box: part.getBoundingClientRect() })).filter(({ box }) => box.width > 1 && box.height > 1);
      const name = (part: Element): string => `${one.dataset["key"] ?? one.dataset["agentId"]}: ${part.getAttribute("class")?.replace(/svelte-\w+/, "").trim()}`;
      const row = one.getBoundingClientRect();
      boxes.forEach(({ part, box }, at) => {
        if (box.left < row.left - 0.5 || box.right > row.right + 0.5 || box.bottom > row.bottom + 0.5) found.push(`${name(part)} is beyond its row`);
        if (part.matches(".time, .number") && part.scrollWidth > part.clientWidth + 1) found.push(`${name(part)} is cut: ${part.textContent}`);
        for (const other of boxes.slice(at + 1)) {
          const wide = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
          const high = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
          if (wide > 0.5 && high > 0.5) found.push(`${name(part)} is over ${name(other.part)}`);
        }
      });
      const does = line.querySelector<HTMLElement>(".does, .detail");
      if (does && pen && getComputedStyle(does).display !== "none" && !isClipped(does)) {
        const { font, paddingLeft } = getComputedStyle(does);
        pen.font = font;
        const room = does.clientWidth - parseFloat(paddingLeft);
        if (room < Math.min(pen.measureText("0".repeat(8)).width, does.scrollWidth) - 1) found.push(`${one.dataset["key"] ?? one.dataset["agentId"]}: ${room} px of "${does.textContent}"`);
      }
      const shown = line.querySelector<HTMLElement>(".name");
      const text = shown ? document.createTreeWalker(shown, NodeFilter.SHOW_TEXT) : null;
      if (!shown || !text) continue;
      const isCut = shown.scrollWidth > shown.clientWidth;
      const right = shown.getBoundingClientRect().right - (isCut ? 13 : -1);
      let count = 0;
      let all = 0;
      for (let node = text.nextNode(); node; node = text.nextNode()) {
        const words = node.textContent ?? "";
        for (let at = 0; at < words.length; at++) {
          if (words[at]?.trim() === "" && (count === 0 || count === all)) continue;
          const range = document.createRange();
          range.setStart(node, at);
          range.setEnd(node, at + 1);
          all += 1;
          if (range.getBoundingClientRect().right <= right) count += 1;
        }
      }
      if (count < Math.min(least, all)) found.push(`${one.dataset["agentId"]}: ${count} of ${all} characters of "${shown.textContent?.trim()}"`);
    }
    return found;
  }, named);

it("keeps names at every width: nothing over anything, with and without a panel", async () => {
  server = await Server.start();
  const recording = new Recording("k-big");
  await recording.play(server, 0.1, 0.55);
  const { agents } = await server.get<Tree>(`/api/v1/sessions/${recording.session}/tree`);
  const [one] = agents.filter((agent) => agent.status === "running" && agent.id !== "root");
  if (!one) throw new Error("nobody is at work");
  // An agent that hooks report can be stopped, and gets a flag.
  await server.hook({ session_id: recording.session, transcript_path: "/x.jsonl", cwd: "/x", hook_event_name: "PreToolUse", agent_id: one.id, tool_name: "Bash", tool_use_id: "own", tool_input: { command: "npm test" } });
  await server.stopAgent(recording.session, one.id);
  const wrong: Record<string, string[]> = {};
  for (const width of WIDTHS) {
    for (const path of ["/", `/s/${recording.session}`, `/s/${recording.session}/a/${one.id}`]) {
      seen = await look(server, path, { viewport: { width, height: 900 }, reducedMotion: "reduce" });
      await seen.page.waitForSelector(row("root"), { state: "attached" });
      await sleep(700);
      const found = await faults(seen.page, NAMED);
      if (found.length > 0) wrong[`${width} ${path}`] = found;
      // Columns are aligned over all rows.
      const rights = await seen.page.locator(".agent > .time").evaluateAll((all) => all.map((cell) => Math.round(cell.getBoundingClientRect().right)));
      if (width > 640 && new Set(rights).size > 1) wrong[`${width} ${path} columns`] = rights.map(String);
      if (path !== "/") {
        await seen.page.keyboard.type("zR");
        await seen.page.waitForSelector('[data-testid="call-row"]', { state: "attached" });
        const unfolded = await faults(seen.page, NAMED);
        if (unfolded.length > 0) wrong[`${width} ${path} with calls`] = unfolded;
      }
      isQuiet(seen);
      await seen.context.close();
    }
  }
  expect(wrong).toEqual({});
});

/** Boxes that overlap or reach beyond the screen, among the children of a selector. */
const overlaps = (page: Page, parts: string): Promise<string[]> =>
  page.evaluate((selector) => {
    const found: string[] = [];
    for (const row of document.querySelectorAll<HTMLElement>(selector)) {
      const name = (part: Element): string => `${part.getAttribute("class")?.replace(/svelte-\w+/g, "").trim() || part.tagName} “${part.textContent?.trim().slice(0, 20)}”`;
      const boxes = [...row.children].map((part) => ({ part, box: part.getBoundingClientRect() })).filter(({ part, box }) => box.width > 1 && box.height > 1 && getComputedStyle(part).position !== "absolute");
      boxes.forEach(({ part, box }, at) => {
        if (box.left < -0.5 || (box.right > innerWidth + 0.5 && !part.closest(".wide"))) found.push(`${name(part)} is beyond the screen`);
        for (const other of boxes.slice(at + 1)) {
          const wide = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
          const high = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
          if (wide > 0.5 && high > 0.5) found.push(`${name(part)} is over ${name(other.part)}`);
        }
      });
    }
    return found;
  }, parts);

/** Texts that are cut without an ellipsis. */
const clipped = (page: Page): Promise<string[]> =>
  page.evaluate(() =>
    [...document.querySelectorAll<HTMLElement>("body *")].flatMap((node) => {
      const style = getComputedStyle(node);
      const isShown = node.clientWidth > 2 && style.overflowX === "hidden" && style.visibility !== "hidden";
      if (!isShown || node.scrollWidth <= node.clientWidth + 1 || style.textOverflow === "ellipsis" || node.innerText.trim() === "") return [];
      return [`cut: .${node.className} ${node.innerText.slice(0, 60)}`];
    }),
  );

it("puts nothing over anything on the screens of many sessions, at every width", { timeout: 300_000 }, async () => {
  server = await Server.over("k-big", "b-parallel", "e-retries");
  await publish(server, crowd("crowd", Date.now() - 200_000, 300, 2), "crowd");
  const [big, small] = [new Recording("k-big").session, new Recording("b-parallel").session];
  await expect.poll(async () => (await fetch(`${server.url}/api/v1/search?q=the`)).status, { timeout: 30_000 }).toBe(200);
  const screens: [string, string, string][] = [
    ["/stats?days=all", ".figures", ".choices, .figures, .figures > div, figcaption li, .data tr, .plots h3, .top"],
    [`/compare?a=${big}&b=${small}`, '[data-testid="pair"]', ".compare header, .line, .figures-of, .data tr, .ruler"],
    ["/compare?a=crowd&b=crowd", '[data-testid="pair"]', ".compare header, .line, .figures-of, .ruler"],
    ["/search?q=the", '[data-testid="hit"]', ".facets, .facet, .hit h3, .hit .head, .passage"],
    ["/iterations", ".empty", ".empty, .top"],
    ["/", '[data-testid="session-card"]', ".upper, .lower, .today dl, .session .meta, .group, .find, .top, footer.bar"],
  ];
  const wrong: Record<string, string[]> = {};
  for (const [path, ready, parts] of screens) {
    seen = await look(server, path, { viewport: { width: 1280, height: 900 }, reducedMotion: "reduce" });
    const { page } = seen;
    await page.waitForSelector(ready, { state: "attached" });
    await page.waitForSelector('[data-testid="status-bar"][data-state="live"]');
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      await sleep(300);
      const found = [...(await overlaps(page, parts)), ...(await clipped(page))];
      if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) found.push("the page is wider than the screen");
      if (found.length > 0) wrong[`${width} ${path}`] = [...new Set(found)].slice(0, 8);
    }
    isQuiet(seen);
    await seen.context.close();
  }
  expect(wrong).toEqual({});
});

/** Starts a session whose agents and calls have names of every length, so that activities and details get room of every width. */
async function working(of: Server, session: string): Promise<void> {
  const base = { session_id: session, transcript_path: `/${session}.jsonl`, cwd: "/home/user/shop", prompt_id: "p" };
  await of.hook({ ...base, hook_event_name: "UserPromptSubmit", prompt: "Look at every part of the shop, and say what is wrong with it" });
  for (let number = 0; number < 24; number++) {
    const agent = { ...base, agent_id: `a${number}`, agent_type: "reviewer".padEnd(8 + number * 2, "-part") };
    await of.hook({ ...agent, hook_event_name: "SubagentStart" });
    const call = { ...agent, tool_name: "mcp__shop__find".padEnd(15 + number, "_all"), tool_use_id: `f${number}`, tool_input: { query: `part-${number} without a price` } };
    await of.hook({ ...call, hook_event_name: "PreToolUse" });
    await of.hook({ ...call, hook_event_name: "PostToolUse", tool_response: "none" });
    await of.hook({ ...agent, hook_event_name: "PreToolUse", tool_name: "Bash", tool_use_id: `t${number}`, tool_input: { command: `npm test -- part-${number} --reporter verbose` } });
  }
}

it("shows what an agent does where there is room for some words of it, else not at all", async () => {
  server = await Server.start();
  await working(server, "shop");
  const wrong: Record<string, string[]> = {};
  let [readable, hidden] = [0, 0];
  for (const path of ["/", "/s/shop", "/s/shop/a/a3"]) {
    seen = await look(server, path, { viewport: { width: 1280, height: 1400 }, reducedMotion: "reduce" });
    const { page } = seen;
    await page.waitForSelector('[data-testid="status-bar"][data-state="live"]');
    if (path === "/") await page.waitForSelector('[data-testid="session-card"]');
    await page.waitForSelector(row("a23"), { state: "attached" });
    for (const width of [360, 390, 700, 1000, 1280]) {
      await page.setViewportSize({ width, height: 1400 });
      await sleep(200);
      const found = await faults(page, NAMED);
      if (found.length > 0) wrong[`${width} ${path}`] = found.slice(0, 8);
      const widths = await page.locator(".does").evaluateAll((all) =>
        all.map((does) => {
          const line = does.parentElement as Element;
          const isClipped = getComputedStyle(line).display !== "contents" && does.getBoundingClientRect().top >= line.getBoundingClientRect().bottom - 0.5;
          return isClipped ? 0 : does.getBoundingClientRect().width;
        }),
      );
      readable += widths.filter((one) => one > 0).length;
      hidden += widths.filter((one) => one === 0).length;
    }
    isQuiet(seen);
    await seen.context.close();
  }
  expect(wrong).toEqual({});
  // Both cases occur.
  expect(readable).toBeGreaterThan(50);
  expect(hidden).toBeGreaterThan(5);
});

it("shows what a call works on where there is room for some words of it, else not at all", async () => {
  server = await Server.start();
  await working(server, "shop");
  const wrong: Record<string, string[]> = {};
  let [readable, hidden] = [0, 0];
  for (const path of ["/s/shop", "/s/shop/a/a3"]) {
    seen = await look(server, path, { viewport: { width: 1280, height: 1400 }, reducedMotion: "reduce" });
    const { page } = seen;
    await page.waitForSelector(row("a3"), { state: "attached" });
    await page.keyboard.type("zR");
    await page.waitForSelector('[data-testid="call-row"]', { state: "attached" });
    for (const width of [360, 390, 500, 700, 1000, 1280]) {
      await page.setViewportSize({ width, height: 1400 });
      await sleep(200);
      const found = await faults(page, NAMED);
      if (found.length > 0) wrong[`${width} ${path}`] = found.slice(0, 8);
      const isShown = await page
        .locator('[data-testid="call-row"] .detail')
        .evaluateAll((all) => all.map((detail) => detail.getBoundingClientRect().top < (detail.parentElement?.getBoundingClientRect().bottom ?? 0) - 0.5));
      readable += isShown.filter((is) => is).length;
      hidden += isShown.filter((is) => !is).length;
    }
    isQuiet(seen);
    await seen.context.close();
  }
  expect(wrong).toEqual({});
  // Both cases occur.
  expect(readable).toBeGreaterThan(50);
  expect(hidden).toBeGreaterThan(5);
});

it("has cards and rows of two lines on a phone, with fourteen characters of each name", async () => {
  server = await Server.start();
  await working(server, "shop");
  await publish(server, crowd("crowd", Date.now() - 60_000, 40, 3), "crowd");
  for (const width of [360, 390, 430]) {
    seen = await look(server, "/", { viewport: { width, height: 844 }, hasTouch: true, isMobile: true });
    const { page } = seen;
    await expect.poll(() => page.locator('[data-testid="session-card"]').count()).toBe(2);
    await expect.poll(() => page.locator(".card .dots :is(.rest, .count:first-child)").count()).toBe(2);
    // The parts of each card and row, by the lines that they are in.
    const heads = await page.locator(".card > .head, .card .agents .head").evaluateAll((all) =>
      all.map((head) => {
        const parts = [...head.querySelectorAll<HTMLElement>(".status, .title, .state, .name, .does, .time, .number, .dots, .figure")]
          .map((part) => ({ name: [...part.classList].join(" "), box: part.getBoundingClientRect() }))
          .filter(({ box }) => box.width > 1 && box.height > 1);
        const middles = parts.map(({ box }) => box.top + box.height / 2).sort((one, other) => one - other);
        const beyond = parts.filter(({ box }) => box.right > head.getBoundingClientRect().right + 0.5).map(({ name }) => name);
        return { isCard: head.parentElement?.classList.contains("card") === true, beyond, lines: middles.filter((top, at) => at === 0 || top - (middles[at - 1] ?? 0) > 6).length };
      }),
    );
    expect(heads.length).toBeGreaterThan(20);
    expect(heads.flatMap(({ beyond }) => beyond), String(width)).toEqual([]);
    expect(heads.filter(({ isCard }) => isCard).map(({ lines }) => lines), String(width)).toEqual([2, 2]);
    expect(Math.max(...heads.map(({ lines }) => lines)), String(width)).toBe(2);
    const titles = await page.locator(".card .title").evaluateAll((all) =>
      all.map((title) => {
        const text = document.createTreeWalker(title, NodeFilter.SHOW_TEXT).nextNode();
        const range = document.createRange();
        if (!text) return 0;
        range.setStart(text, 0);
        range.setEnd(text, Math.min(14, text.textContent?.length ?? 0));
        return title.getBoundingClientRect().right - range.getBoundingClientRect().right;
      }),
    );
    expect(Math.min(...titles), String(width)).toBeGreaterThanOrEqual(0);
    isQuiet(seen);
    await seen.context.close();
  }
});
