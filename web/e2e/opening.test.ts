// What a page requests when it is opened: each thing once, and after the stream has begun, so that no event is missed.
import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { cleanUp, isQuiet, look, Recording, row, type Seen, Server, sleep } from "./harness";

let server: Server;
let seen: Seen;

cleanUp("each test");

const BASE = { session_id: "live", transcript_path: "/live.jsonl", cwd: "/home/user/shop", prompt_id: "p", agent_id: "a1" };

/** Starts a session at work, through hooks. */
async function working(of: Server): Promise<void> {
  await of.hook({ ...BASE, hook_event_name: "UserPromptSubmit", prompt: "Look at the shop", agent_id: undefined });
  await of.hook({ ...BASE, hook_event_name: "SubagentStart", agent_type: "Explore" });
  await called(of, 0);
}

async function called(of: Server, number: number): Promise<void> {
  await of.hook({ ...BASE, hook_event_name: "PreToolUse", tool_name: "Bash", tool_use_id: `t${number}`, tool_input: { command: `echo number-${number}` } });
}

/** Counts requests by their address, from now on. */
function counted(page: Page): Map<string, number> {
  const counts = new Map<string, number>();
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (!url.pathname.startsWith("/api/")) return;
    // A further request of a timeline is only for its changes.
    if (url.pathname.endsWith("/timeline")) url.searchParams.delete("since");
    const key = url.pathname + url.search;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  });
  return counts;
}

it("shows what needs its person, although nothing is live any more", async () => {
  server = await Server.start();
  seen = await look(server, "about:blank");
  const { page } = seen;
  const need = { group: "trouble", words: "main is lost", waits: 0, trouble: 1, perhaps: 0, agents: [{ agent_id: "root", title: "main", group: "trouble", reason: "lost", words: "is lost", since_ms: 1 }] };
  const session = { id: "gone", harness: null, cwd: "/home/user/shop", title: "Migrate the ledger", status: "ended", attention: "ended", need, started_at_ms: 1, last_event_at_ms: 2, runs: 1, agents: 0, running: 0, failed: 0, tool_calls: 0, usage: null, cost_micro_usd: null, cost_floor: false };
  await page.route("**/api/v1/inbox", async (route) => {
    const answer = await route.fetch();
    const inbox = { ...(await answer.json()), trouble: 1, entries: [{ session, facts: ["root silent 1"] }] };
    await route.fulfill({ response: answer, json: inbox });
  });
  await page.goto(server.url);
  await page.getByText("No session is live").waitFor();
  await page.getByTestId("need").getByText("Migrate the ledger").waitFor();
  for (const [width, height] of [[1280, 800], [720, 450], [390, 844]] as const) {
    await page.setViewportSize({ width, height });
    expect(await page.getByTestId("need").isVisible(), `${width}`).toBe(true);
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${width}`).toBe(true);
  }
  isQuiet(seen);
});

it("requests each thing once when it is opened", async () => {
  server = await Server.over("b-parallel", "c-nested");
  await working(server);
  const { session } = new Recording("b-parallel");
  const screens: [path: string, ready: string][] = [
    ["/", '[data-testid="today"]'],
    [`/s/${session}`, row("root")],
    [`/s/${session}?view=feed`, ".feed .line"],
    [`/s/${session}?view=summary`, '[data-testid="spent"]'],
    [`/s/${session}/a/root`, "aside .part"],
    ["/s/live", row("a1")],
    ["/s/live?view=feed", ".feed .line"],
    ["/s/live/a/a1", "aside .part"],
    ["/stats", '[data-testid="stats"] .figures'],
  ];
  const twice: Record<string, string[]> = {};
  for (const [path, ready] of screens) {
    seen = await look(server, "about:blank");
    const counts = counted(seen.page);
    await seen.page.goto(server.url + path);
    await seen.page.locator(ready).first().waitFor();
    await seen.page.waitForSelector('[data-testid="session-row"]');
    await seen.page.waitForSelector('[data-testid="status-bar"][data-state="live"]');
    // Longer than the page waits before it requests what has changed, shorter than the interval of the list.
    await sleep(2_000);
    expect(counts.size, path).toBeGreaterThan(3);
    const more = [...counts].filter(([, count]) => count > 1).map(([key, count]) => `${count} × ${key}`);
    if (more.length > 0) twice[path] = more;
    isQuiet(seen);
    await seen.context.close();
  }
  expect(twice).toEqual({});
});

/** A promise with a function that fulfills it. */
function gate(): { opened: Promise<void>; open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}

it.each(["/s/live/a/a1", "/s/live?view=feed"])("misses no event between an answer and the beginning of the stream: %s", async (path) => {
  server = await Server.start();
  await working(server);
  seen = await look(server, "about:blank");
  const { page } = seen;
  const [live, feed] = [gate(), gate()];
  await page.route("**/api/v1/live", async (route) => {
    await live.opened;
    await route.continue();
  });
  // The server answers at once; the page gets the answer late.
  await page.route("**/feed?*", async (route) => {
    const response = await route.fetch();
    await feed.opened;
    await route.fulfill({ response });
  });
  await page.goto(server.url + path);
  await page.waitForSelector('[data-testid="status-bar"]');
  await sleep(500);
  await called(server, 1);
  live.open();
  await page.waitForSelector('[data-testid="status-bar"][data-state="live"]');
  await called(server, 2);
  await sleep(300);
  feed.open();
  await called(server, 3);
  const texts = (): Promise<string[]> => page.locator(path.includes("feed") ? ".feed .words" : "aside .tool .detail").allInnerTexts();
  const numbers = async (): Promise<string> => (await texts()).flatMap((text) => /number-(\d)/.exec(text)?.[1] ?? []).join(" ");
  await expect.poll(numbers).toBe("0 1 2 3");
  isQuiet(seen);
});

it("shows what can be fetched where no stream can be opened", async () => {
  server = await Server.over("b-parallel");
  const { session } = new Recording("b-parallel");
  seen = await look(server, "about:blank");
  await seen.page.route("**/api/v1/live", (route) => route.fulfill({ status: 503, body: "{}" }));
  await seen.page.goto(`${server.url}/s/${session}/a/root`);
  await seen.page.locator("aside .part").first().waitFor();
  await seen.page.waitForSelector('[data-testid="session-row"]');
});
