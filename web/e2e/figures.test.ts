// Cost, statistics, comparison and iterations: figures on the page equal the server's.
import { mkdirSync } from "node:fs";
import { beforeAll, expect, it } from "vitest";
import type { Comparison, Iterations, SessionRow, Spending, Stats, Tree } from "../src/model";
import { base, count, duration, money } from "../src/lib/format";
import { costOf, tokensOf } from "../src/lib/stats";
import { cleanUp, FIXTURES, freePort, isQuiet, look, Recording, row, type Seen, Server } from "./harness";

const [big, small] = [new Recording("k-big").session, new Recording("b-parallel").session];
let server: Server;
let seen: Seen;

beforeAll(async () => {
  server = await Server.over("k-big", "b-parallel", "c-nested", "e-retries");
});
cleanUp("all tests");

it("shows what sessions cost by day, by what a person chooses, with a table behind each plot", async () => {
  const stats = await server.get<Stats>("/api/v1/stats");
  seen = await look(server, "/stats?days=all");
  const { page } = seen;
  const view = page.getByTestId("stats");
  await view.locator(".figures").waitFor();
  const figures = await view.locator(".figures dd").allTextContents();
  const { usage } = stats.total;
  expect(figures.slice(0, 6)).toEqual([
    costOf(stats.total), tokensOf(stats.total), count(usage.input_tokens),
    count(usage.output_tokens), count(usage.cache_read_tokens), count(usage.cache_write_tokens),
  ]);
  // The plot is drawn, and its table adds up to the server's figures of each day.
  const plot = page.getByRole("img", { name: /cost by day, stacked by type/ });
  await expect.poll(() => plot.locator("canvas").evaluate((one) => {
    const canvas = one as HTMLCanvasElement;
    const pixels = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height).data ?? [];
    return new Set(Array.from({ length: pixels.length / 4 }, (_, at) => `${pixels[at * 4]} ${pixels[at * 4 + 1]} ${pixels[at * 4 + 2]}`)).size;
  })).toBeGreaterThan(4);
  await page.locator("figure").first().getByText("as a table").click();
  const days = new Set(stats.days.filter(({ by, row }) => by === "type" && row.cost_micro_usd > 0).map(({ day }) => day));
  expect(await page.locator("figure").first().locator("tbody tr").count()).toBe(days.size);
  // By keyboard: the day under the cursor is announced.
  await plot.focus();
  await page.keyboard.press("Home");
  await expect.poll(() => page.locator("figure [aria-live]").first().textContent()).toMatch(/20\d\d: .*\$/);
  // The cursor stays when the plot is drawn again with other colors or figures.
  await plot.locator("canvas").evaluate((one) => one.setAttribute("data-made", "before"));
  await page.emulateMedia({ colorScheme: "dark" });
  await expect.poll(() => plot.locator("canvas:not([data-made])").count()).toBe(1);
  await expect.poll(() => page.locator("figure [aria-live]").first().textContent()).toMatch(/20\d\d: .*\$/);
  // A choice is in the address, and is restored from it.
  await page.getByRole("group", { name: "stacked by" }).getByRole("button", { name: "model" }).click();
  await page.getByRole("group", { name: "measure" }).getByRole("button", { name: "tokens" }).click();
  await page.waitForURL((url) => url.searchParams.get("by") === "model" && url.searchParams.get("show") === "tokens");
  await page.reload();
  await page.getByRole("img", { name: /tokens by day, stacked by model/ }).waitFor();
  for (const name of ["Types of agents", "Models", "Projects", "Harnesses", "Tools", "Sessions with the greatest figures", "Agents with the greatest figures", "Slowest calls"]) await page.getByRole("table", { name }).waitFor();
  const cells = await page.getByRole("table", { name: "Models" }).locator("tbody tr").first().locator("td").allTextContents();
  const [first] = stats.by_model;
  expect(cells.slice(-2)).toEqual(first ? [tokensOf(first), costOf(first)] : []);
  // Another range and project: the former figures are gone.
  await page.getByRole("textbox", { name: "to" }).or(page.getByLabel("to", { exact: true })).first().fill("2020-01-01");
  await page.waitForURL("**until=2020-01-01*");
  await page.getByText("There are no sessions on these days.").waitFor();
  await page.getByRole("button", { name: "all", exact: true }).click();
  await page.getByRole("table", { name: "Slowest calls" }).waitFor();
  // The dearest first; a heading orders by its figure, and a row leads to its session or agent.
  const agents = page.getByRole("table", { name: "Agents with the greatest figures" });
  const firsts = async (column: number): Promise<string | null> => agents.locator("tbody tr").first().locator("td").nth(column).textContent();
  const [dearest] = stats.top_agents ?? [];
  expect([await firsts(0), await firsts(1)]).toEqual(dearest ? [costOf(dearest.row), tokensOf(dearest.row)] : []);
  const slowestOf = [...(stats.top_agents ?? [])].sort((one, other) => other.row.busy_ms - one.row.busy_ms)[0];
  await agents.getByRole("button", { name: "time" }).click();
  expect(await agents.locator('th[aria-sort="descending"]').textContent()).toBe("time ↓");
  expect(await firsts(2)).toBe(duration(slowestOf?.row.busy_ms));
  expect(await agents.locator("tbody tr").first().locator("a").first().getAttribute("href")).toContain(`/s/${slowestOf?.session_id}/a/${slowestOf?.agent_id}`);
  const sessions = page.getByRole("table", { name: "Sessions with the greatest figures" });
  expect(await sessions.locator("tbody tr").count()).toBe(Math.min(10, (stats.top_sessions ?? []).filter(({ row }) => row.cost_micro_usd > 0).length));
  // A slow call leads to its agent.
  const [slowest] = stats.slowest;
  const slow = page.getByRole("table", { name: "Slowest calls" }).locator("tbody tr").first();
  expect(await slow.locator("td").first().textContent()).toBe(duration(slowest?.duration_ms));
  await slow.getByRole("link").click();
  await page.waitForURL(`**/s/${slowest?.session_id}/a/${slowest?.agent_id}`);
  isQuiet(seen);
});

it("marks the same costs as lower bounds in lists, sessions and statistics, whatever the harness", async () => {
  const marked = new Set<string>();
  // With the prices of all models, and with that of one.
  for (const settings of ["", "prices = 'one.toml'\n"]) {
    const own = new Server(await freePort());
    own.put("c-nested");
    // A session with a total of its own although its models have no price, and one whose stored tokens are a lower bound.
    own.put("h-custom-thinking");
    own.put("../2.1.50/b-parallel");
    own.putOthers();
    own.configure(settings);
    own.configure("source = 'a test'\ndate = '2026-01-01'\n[models]\n'claude-opus-5-5' = { input = 5000000, output = 25000000, cache_read = 500000, cache_write = 6250000, cache_write_1h = 10000000 }\n", "one.toml");
    await own.run();
    await own.hasRead();
    await expect.poll(() => own.get<{ sessions: SessionRow[] }>("/api/v1/sessions").then(({ sessions }) => sessions.length)).toBe(8);
    const { sessions } = await own.get<{ sessions: SessionRow[] }>("/api/v1/sessions");
    seen = await look(own);
    const { page } = seen;
    for (const { id, harness, cost_micro_usd, cost_floor } of sessions) {
      const { summary } = await own.get<Tree>(`/api/v1/sessions/${id}/tree`);
      expect([cost_micro_usd, cost_floor], String(harness)).toEqual([summary.cost_micro_usd, summary.cost_floor]);
      const cost = money(cost_micro_usd, cost_floor);
      marked.add(cost === "" ? "unknown" : cost.startsWith("≥") ? "lower bound" : "known");
      await expect.poll(() => page.locator(`[data-testid="session-row"][data-session-id="${id}"] .cost`).textContent(), { message: String(harness) }).toBe(cost);
      await page.goto(`${own.url}/s/${id}?view=summary`);
      await expect.poll(() => page.locator(".summary dl > div", { has: page.getByText("cost", { exact: true }) }).locator("dd").first().textContent(), { message: String(harness) }).toBe(cost || "unknown");
      // The four kinds of tokens; the share of the cache follows its count.
      const { usage } = summary;
      const kinds = usage ? { input: usage.input_tokens, output: usage.output_tokens, "cache read": usage.cache_read_tokens, "cache write": usage.cache_write_tokens } : {};
      for (const [name, tokens] of Object.entries(kinds)) {
        const shown = await page.locator(".summary dl > div", { has: page.getByText(name, { exact: true }) }).locator("dd").textContent();
        expect(shown?.replace(/ \(.*/, ""), `${String(harness)}: ${name}`).toBe(count(tokens));
      }
    }
    const stats = await own.get<Stats>("/api/v1/stats");
    await page.goto(`${own.url}/stats?days=all`);
    const table = page.getByRole("table", { name: "Harnesses" });
    await table.waitFor();
    expect(await table.locator("tbody tr").evaluateAll((all) => all.map((one) => one.lastElementChild?.textContent))).toEqual(stats.by_harness.map(costOf));
    expect(await page.locator(".figures dd").first().textContent()).toBe(costOf(stats.total));
    isQuiet(seen);
    await seen.context.close();
  }
  expect([...marked].sort()).toEqual(["known", "lower bound", "unknown"]);
});

it("plots what a session spent, who was at work, and its slowest calls", async () => {
  const { agents } = await server.get<Tree>(`/api/v1/sessions/${big}/tree`);
  const spending = await server.get<Spending>(`/api/v1/sessions/${big}/spending`);
  const cost = agents.reduce((sum, { cost_micro_usd }) => sum + (cost_micro_usd ?? 0), 0);
  // The cost over time adds up to the rows, for each agent.
  for (const agent of agents) {
    const own = spending.spans.filter(({ agent_id }) => agent_id === agent.id);
    expect([agent.id, own.reduce((sum, { cost_micro_usd }) => sum + cost_micro_usd, 0)]).toEqual([agent.id, agent.cost_micro_usd]);
    expect([agent.id, own.reduce((sum, { total_tokens }) => sum + total_tokens, 0)]).toEqual([agent.id, agent.usage?.total_tokens]);
  }
  seen = await look(server, `/s/${big}?view=summary`);
  const { page } = seen;
  const shares = page.getByRole("list", { name: "cost by agent" });
  await expect.poll(() => shares.locator("li").count()).toBe(7);
  const dearest = [...agents].sort((one, other) => (other.cost_micro_usd ?? 0) - (one.cost_micro_usd ?? 0))[0];
  expect(await shares.locator("li b").first().textContent()).toBe(money(dearest?.cost_micro_usd));
  const parts = await page.locator(".summary .bar span").evaluateAll((all) => all.map((one) => one.getBoundingClientRect().width));
  expect((parts[0] ?? 0) / parts.reduce((sum, width) => sum + width, 0)).toBeCloseTo((dearest?.cost_micro_usd ?? 0) / cost, 1);
  // Arrow keys move through the plot, and the table has the same figures.
  const spent = page.getByTestId("spent");
  await spent.locator("canvas").waitFor();
  await spent.getByRole("img").focus();
  await page.keyboard.press("Home");
  await expect.poll(() => spent.locator("figcaption p").textContent()).toMatch(/^\d\d:\d\d:\d\d: \$0/);
  await spent.getByText("as a table").click();
  const figures = await spent.locator("tbody td").allTextContents();
  const dollars = figures.filter((text) => text !== "").reduce((sum, text) => sum + Number(text.replace("$", "")), 0);
  expect(Math.abs(dollars - cost / 1_000_000)).toBeLessThan(0.005 * figures.length);
  await page.getByRole("group", { name: "measure" }).getByRole("button", { name: "tokens" }).click();
  await page.getByRole("list", { name: "tokens by agent" }).waitFor();
  await spent.getByText("Tokens over time").waitFor();
  // Concurrency: from one agent to the most of the recording.
  const atWork = page.getByTestId("at-work");
  await atWork.getByText("as a table").click();
  const most = Math.max(...(await atWork.locator("tbody td").allTextContents()).map(Number));
  const moments = agents.flatMap(({ intervals }) => intervals.map(([from]) => from));
  expect(most).toBe(Math.max(...moments.map((at) => agents.filter(({ intervals }) => intervals.some(([from, to]) => from <= at && at < to)).length)));
  // The slowest calls link to the call.
  const slow = page.getByRole("table", { name: "Slowest calls" }).locator("tbody tr");
  expect(await slow.count()).toBe(5);
  await slow.first().getByRole("link").click();
  await page.waitForURL(/\/a\/.*call=/);
  isQuiet(seen);
});

it("shows what of the budgets is used", async () => {
  const own = new Server(await freePort());
  own.put("b-parallel");
  own.configure("[budget]\nday = 2\nsession = 0.5\n");
  await own.run();
  const recording = new Recording("c-nested");
  await recording.play(own, 0);
  seen = await look(own, "/stats");
  const budget = seen.page.getByTestId("budget");
  await budget.waitFor();
  const today = Date.parse(`${new Date().toISOString().slice(0, 10)}T00:00:00Z`);
  const { total } = await own.get<Stats>(`/api/v1/stats?since=${today}`);
  expect(await budget.textContent()).toContain(`${money(total.cost_micro_usd)} of $2.00 · ${Math.floor(total.cost_micro_usd / 20_000)} %`);
  isQuiet(seen);
  await own.stop();
});

it("compares two sessions: figures with differences, rows paired as the server pairs them, lanes on one axis", async () => {
  const expected = await server.get<Comparison>(`/api/v1/compare?a=${big}&b=${small}`);
  seen = await look(server, "/");
  const { page } = seen;
  // Select two in the list.
  await page.waitForSelector('[data-testid="session-row"]');
  await page.getByRole("button", { name: "compare sessions" }).click();
  for (const id of [big, small]) await page.locator(`input[data-session-id="${id}"]`).click();
  await page.waitForURL(`**/compare?a=${big}&b=${small}`);
  const pairs = page.getByTestId("pair");
  await expect.poll(() => pairs.count()).toBe(expected.agents.length);
  expect(await pairs.evaluateAll((all) => all.map((one) => (one as HTMLElement).dataset["likeness"]))).toEqual(expected.agents.map(({ likeness }) => likeness ?? "none"));
  const heads = await page.locator(".figures-table thead th").allTextContents();
  const line = async (at: number): Promise<string[]> => page.locator(".figures-table tbody tr").nth(at).locator("td").allTextContents();
  const [a, b, difference] = [await line(0), await line(1), await line(2)];
  const at = heads.indexOf("cost") - 1;
  expect([a[at], b[at]]).toEqual([money(expected.a.summary.cost_micro_usd), money(expected.b.summary.cost_micro_usd)]);
  expect(difference[at]).toBe(`−${money((expected.a.summary.cost_micro_usd ?? 0) - (expected.b.summary.cost_micro_usd ?? 0))}`);
  await page.getByText(/~ paired by type/).first().waitFor();
  await page.getByText("only in A").first().waitFor();
  // Lanes begin at the start of their session: both roots begin at the same position.
  const begins = (): Promise<number[]> => pairs.first().locator("canvas").evaluateAll((all) => all.map((one) => {
    const canvas = one as HTMLCanvasElement;
    const pixels = canvas.getContext("2d")?.getImageData(0, canvas.height / 2, canvas.width, 1).data ?? [];
    return Array.from({ length: canvas.width }, (_, x) => pixels[x * 4 + 3] ?? 0).findIndex((alpha) => alpha > 0);
  }));
  await expect.poll(begins).toEqual([0, 0]);
  await page.locator("summary", { hasText: "Tools:" }).click();
  expect(await page.getByRole("region", { name: "tools of both" }).locator("tbody tr").count()).toBe(Math.min(15, expected.tools.length));
  await page.getByRole("button", { name: "swap" }).click();
  await page.waitForURL(`**/compare?a=${small}&b=${big}*`);
  await page.getByText("only in B").first().waitFor();
  // Two agents, from the menu of a session and the palette.
  const [, one] = expected.agents;
  await page.goto(`${server.url}/s/${big}/a/${one?.a?.id}`);
  await page.waitForSelector(row(one?.a?.id ?? ""));
  await page.keyboard.press("Control+k");
  await page.keyboard.type("compare with…".slice(0, 7));
  await page.locator('[role="option"][data-kind="command"]', { hasText: /compare (?!this)/ }).click();
  await page.keyboard.type(small);
  await page.locator(`[role="option"][data-kind="session"]`).first().waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL((url) => url.pathname === "/compare" && url.searchParams.get("agent_a") === one?.a?.id && url.searchParams.get("b") === small);
  await pairs.first().waitFor();
  isQuiet(seen);
});

it("lists what run has recorded, and leads from a session to its iterations and back", async () => {
  const own = new Server(await freePort());
  const project = `${own.folder}/shop`;
  mkdirSync(project);
  const ran = own.subscope("run", "--no-store", "--iterations", "2", "--log-dir", `${project}/.subscope/iterations`, "--", "sh", "-c", `cat ${FIXTURES}/b-parallel/stream.jsonl; : '<b>hostile</b>'; exit 3`);
  own.put("b-parallel");
  await own.run();
  // Records are searched in the projects of sessions.
  await own.hook({ session_id: "s", transcript_path: "/s.jsonl", cwd: project, prompt_id: "p", hook_event_name: "UserPromptSubmit", prompt: "again" });
  const expected = await own.get<Iterations>("/api/v1/iterations");
  expect(expected.iterations.length, ran).toBe(2);
  seen = await look(own, "/iterations");
  const { page } = seen;
  const rows = page.getByTestId("iterations").locator("tbody tr");
  await expect.poll(() => rows.count()).toBe(expected.iterations.length);
  const cells = await rows.first().locator("td").allTextContents();
  const [first] = expected.iterations;
  expect(cells[0]).toBe(`${first?.iteration}${first?.of ? ` of ${first.of}` : ""}`);
  expect(cells[1]).toContain("<b>hostile</b>");
  expect(cells.slice(2, 7)).toEqual([base(first?.cwd ?? null), String(first?.agents ?? "?"), String(first?.failed ?? "?"), duration(first?.duration_ms), "3"]);
  expect(cells[3]).toBe("3");
  // The link to its session, and from there back to the run.
  await rows.first().getByRole("link").click();
  await page.waitForURL(`**/s/${small}`);
  await page.waitForSelector(row("root"));
  await page.keyboard.press("3");
  await page.getByRole("link", { name: "all iterations of this run" }).click();
  await page.waitForURL(`**/iterations?run=${encodeURIComponent(first?.run ?? "")}`);
  await expect.poll(() => rows.count()).toBe(2);
  isQuiet(seen);
  await own.stop();
});
