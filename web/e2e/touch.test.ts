// On a phone every control is large enough for a finger: measured on all screens.
import { beforeAll, expect, it } from "vitest";
import type { Page } from "playwright-core";
import { crowd, publish } from "./crowd";
import { cleanUp, freePort, isQuiet, look, Recording, row, type Seen, Server } from "./harness";

/** Minimum width and height of a control, in CSS pixels. */
const TARGET = 44;
const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };

let server: Server;
const big = new Recording("k-big");
const small = new Recording("b-parallel");

cleanUp("all tests");

beforeAll(async () => {
  server = await Server.over("k-big", "b-parallel", "e-tool-failures");
  await publish(server, crowd("crowd", Date.now() - 60_000, 40), "crowd");
  const asks = { session_id: "asks", transcript_path: "/asks.jsonl", cwd: "/home/user/shop", prompt_id: "p", agent_id: "a1" };
  await server.hook({ ...asks, hook_event_name: "UserPromptSubmit", prompt: "Publish it", agent_id: undefined });
  await server.hook({ ...asks, hook_event_name: "SubagentStart", agent_type: "release" });
  const call = { ...asks, tool_name: "Read", tool_use_id: "read", tool_input: { file_path: "/home/user/shop/package.json" } };
  await server.hook({ ...call, hook_event_name: "PreToolUse" });
  await server.hook({ ...call, hook_event_name: "PostToolUse", tool_response: "{}" });
  await server.hook({ ...asks, hook_event_name: "PermissionRequest", tool_name: "Bash", tool_input: { command: "npm publish" } });
}, 120_000);

/** Controls that are smaller, except links within sentences. */
const tooSmall = (page: Page): Promise<string[]> =>
  page.evaluate((target) => {
    const controls = document.querySelectorAll<HTMLElement>("button, a[href], summary, select, input, textarea, [role=button], [role=tab]");
    return [...controls].flatMap((control) => {
      const isInSentence = control.closest(".markdown, p:not(.command)") !== null && control instanceof HTMLAnchorElement;
      if (isInSentence || !control.checkVisibility({ visibilityProperty: true, opacityProperty: true })) return [];
      const labeled = control instanceof HTMLInputElement && ["checkbox", "radio"].includes(control.type) ? (control.closest("label") ?? control) : control;
      const { width, height } = labeled.getBoundingClientRect();
      // Elements for screen readers only are no targets.
      if (width <= 1 || height <= 1 || (width >= target - 0.5 && height >= target - 0.5)) return [];
      const name = (control.getAttribute("aria-label") ?? control.textContent ?? "").trim().replace(/\s+/g, " ").slice(0, 40);
      const places: string[] = [];
      for (let at: Element | null = control; at && places.length < 3; at = at.parentElement) places.unshift(`${at.tagName.toLowerCase()}${[...at.classList].filter((name) => !name.startsWith("svelte-")).map((name) => `.${name}`).join("")}`);
      return [`${Math.round(width)}×${Math.round(height)} ${places.join(" > ")} “${name}”`];
    });
  }, TARGET);

type Screen = [name: string, path: string, ready: string, work?: (seen: Seen) => Promise<void>];

const SCREENS: Screen[] = [
  ["home", "/", '[data-testid="session-card"]'],
  ["home with all agents", "/", '[data-testid="session-card"]', async ({ page }) => {
    const next = page.locator("article button.fold[aria-expanded=false]").first();
    while ((await next.count()) > 0) await next.tap();
  }],
  ["home with the calls of an agent", "/", '[data-testid="session-card"]', async ({ page }) => {
    const card = page.locator('[data-testid="session-card"][data-session-id="asks"]');
    await card.locator("button.fold").tap();
    await card.locator(`${row("a1")} button.line`).tap();
    await card.locator('[data-testid="tool-row"] a').waitFor();
  }],
  ["list of sessions", "/", '[data-testid="session-card"]', async ({ page }) => {
    await page.getByRole("button", { name: "sessions", exact: true }).tap();
    await page.getByRole("button", { name: "filters" }).tap();
    await page.getByRole("button", { name: "compare sessions" }).tap();
  }],
  ["session", `/s/${big.session}`, row("root")],
  ["session of many agents", "/s/crowd", row("run-0")],
  ["export", `/s/${big.session}`, row("root"), ({ page }) => page.getByText("Export", { exact: true }).tap()],
  ["replay", `/s/${big.session}?t=${big.first + 9_000}`, row("root")],
  ["feed", `/s/${big.session}?view=feed`, "time"],
  ["summary", `/s/${big.session}?view=summary`, '[data-testid="spent"] canvas'],
  ["agent", "/s/crowd/a/run-3?call=3-4", '[data-testid="tool-row"]', ({ page }) => page.getByRole("button", { name: "more", exact: true }).tap()],
  ["search", "/search?q=stock", "mark"],
  ["statistics", "/stats?days=all", ".figures"],
  ["compare", `/compare?a=${big.session}&b=${small.session}`, "canvas, table"],
  ["iterations", "/iterations", "h2"],
  ["unknown", "/no/such/page", "h2"],
  ["palette", "/", '[data-testid="session-card"]', async ({ page }) => {
    await page.getByRole("button", { name: "go to, or do (ctrl-K)" }).tap();
    await page.locator("dialog[open] [role=option]").first().waitFor();
  }],
  ["keys", "/", '[data-testid="session-card"]', ({ page }) => page.keyboard.press("?")],
];

it.each(SCREENS)("has controls for fingers: %s", { timeout: 60_000 }, async (_, path, ready, work) => {
  const seen = await look(server, path, PHONE);
  const { page } = seen;
  expect(await page.evaluate(() => matchMedia("(pointer: coarse)").matches)).toBe(true);
  await page.locator(ready).first().waitFor();
  await work?.(seen);
  // Nothing is wider than the screen.
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  await expect.poll(() => tooSmall(page), { timeout: 5_000 }).toEqual([]);
  if (path !== "/no/such/page") isQuiet(seen);
});

it("has controls for fingers where nothing is live", async () => {
  const empty = new Server(await freePort());
  await empty.run();
  const seen = await look(empty, "/", PHONE);
  await seen.page.getByTestId("demo").waitFor();
  expect(await tooSmall(seen.page)).toEqual([]);
  await seen.page.getByTestId("demo").getByRole("link").tap();
  await seen.page.locator(row("root")).waitFor();
  await expect.poll(() => tooSmall(seen.page)).toEqual([]);
  isQuiet(seen);
});
