// The page of a team's server: people, cost, sessions at work, and what the server does not have.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { GroupRow } from "../src/lib/team";
import { cleanUp, isQuiet, look } from "./harness";
import { atWork, ENGINE, like, recorded, type Snapshot, TeamServer } from "./team";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Markup, formulas, and bidirectional control characters. */
const HOSTILE = "<img/src=x/onerror=document.title='owned'>";
const TURNED = `${HOSTILE}\u202e<b>bold</b>`;
const DAY_MS = 86_400_000;

cleanUp("each test");

describe.skipIf(ENGINE === undefined)("the page of a team (without ClickHouse's engine it is skipped: `cargo xtask page` installs one)", () => {
  let team: TeamServer;
  let ended: Snapshot;

  beforeAll(async () => {
    team = await TeamServer.start([["ana", "web"], ["bob", "data"], [HOSTILE, HOSTILE]]);
    const [nested, parallel] = await Promise.all([recorded("c-nested"), recorded("b-parallel")]);
    const now = Date.now();
    ended = like(nested, "ended-of-ana", now - DAY_MS, { machine: "laptop-1", project: "shop" });
    await team.send("ana", [ended, like(parallel, "older-of-ana", now - 3 * DAY_MS, { machine: "desk", project: "till" })]);
    await team.send("bob", [atWork(like(parallel, "live-of-bob", now - 60_000, { machine: "laptop-2", project: "shop" }), { kind: "permission", name: "Bash", since_ms: now - 90_000 }, "waiting")]);
    const hostile = like(parallel, "hostile", now - 60_000, { machine: TURNED, project: TURNED });
    hostile.row.title = hostile.tree.session.title = TURNED;
    hostile.row.harness = hostile.tree.session.harness = TURNED;
    for (const agent of hostile.tree.agents) Object.assign(agent, { type: TURNED, description: TURNED, model: TURNED });
    await team.send(HOSTILE, [atWork(hostile, { kind: "tool", name: TURNED })]);
  }, 120_000);

  afterAll(() => team.stop());

  it("lets a browser in by a code, and names the command that gives one", async () => {
    const stranger = await look(team, "/people");
    await expect.poll(() => stranger.page.locator("main").innerText()).toContain(`subscope --team ${team.url} team page --open`);
    const { page } = await team.look("ana", "/people");
    await page.waitForSelector('[data-testid="person"]');
  });

  it("shows people with their machines, levels and figures", async () => {
    const seen = await team.look("ana", "/people?order=machine");
    const { page } = seen;
    const row = (machine: string): Promise<string[]> => page.locator('[data-testid="person"]', { hasText: machine }).locator("th, td").allInnerTexts();
    await expect.poll(() => page.locator('[data-testid="person"]').count()).toBe(4);
    const answer = await team.get<{ rows: { machine: string; cost_micro_usd: number; agents: number }[] }>("bob", "/api/v1/people");
    const of = (machine: string): { cost_micro_usd: number; agents: number } => answer.rows.find((one) => one.machine === machine) ?? { cost_micro_usd: -1, agents: -1 };
    expect(of("laptop-1").cost_micro_usd).toBe(ended.tree.summary.cost_micro_usd);
    const [person, machine, level, harnesses, working, sessions, agents, cost, seenAt] = await row("laptop-1");
    expect([person?.split("\n"), machine, level, harnesses, working, sessions]).toEqual([["ana", "web"], "laptop-1", "titles", "claude-code", "", "1"]);
    expect([agents, cost]).toEqual([String(of("laptop-1").agents), `$${((ended.tree.summary.cost_micro_usd ?? 0) / 1e6).toFixed(2)}`]);
    expect(seenAt).toMatch(/ago$/);
    expect((await row("laptop-2"))[4]).toBe("1");
    // Sorted and found.
    await page.locator("th button", { hasText: "cost" }).click();
    await expect.poll(() => page.locator("th[aria-sort]").innerText()).toContain("cost");
    await page.fill('input[aria-label="find a person or machine"]', "bob data");
    await expect.poll(() => page.locator('[data-testid="person"]').count()).toBe(1);
    isQuiet(seen);
  });

  it("shows what it cost, by each dimension, as the server says, and as a table to download", async () => {
    const seen = await team.look("ana", "/cost?days=7");
    const { page } = seen;
    const head = page.locator('table[aria-labelledby="cost-table"] thead th').first();
    for (const by of ["team", "user", "project", "model", "machine", "harness"]) {
      await page.locator('[aria-label="grouped by"] button', { hasText: by }).click();
      const { rows } = await team.get<{ rows: GroupRow[] }>("ana", `/api/v1/stats?by=${by}`);
      const total = rows.reduce((sum, row) => sum + row.cost_micro_usd, 0);
      expect(total, by).toBe((await team.get<{ rows: GroupRow[] }>("ana", "/api/v1/stats?by=day")).rows.reduce((sum, row) => sum + row.cost_micro_usd, 0));
      await expect.poll(() => head.innerText(), { message: by }).toBe(by);
      await expect.poll(() => page.locator('[data-testid="cost-row"]').count(), { message: by }).toBe(rows.length);
      const costs = await page.locator('[data-testid="cost-row"] td:nth-child(3)').allInnerTexts();
      expect(costs.map((text) => text.replace(/[≥$]/g, "")), by).toEqual(rows.map((row) => (row.cost_micro_usd / 1e6).toFixed(2)));
      expect(costs.map((text) => text.startsWith("≥")), by).toEqual(rows.map((row) => row.cost_floor));
    }
    await page.locator('[aria-label="grouped by"] button', { hasText: "project" }).click();
    await expect.poll(() => head.innerText()).toBe("project");
    const download = page.waitForEvent("download");
    await page.locator("a.button", { hasText: "CSV by day" }).click();
    const file = await download;
    expect(file.suggestedFilename()).toBe("subscope-project-day.csv");
    const text = readFileSync(await file.path(), "utf8");
    expect(text.split("\r\n")[0]).toBe("project,day,sessions,agents,tool_calls,tool_errors,tools_denied,busy_ms,input_tokens,output_tokens,cache_read_tokens,cache_write_tokens,tokens_are_floor,cost_usd,cost_is_floor");
    expect(text).toContain("shop,");
    // One project only, and back.
    await page.locator('[data-testid="cost-row"] button', { hasText: "till" }).click();
    await expect.poll(() => page.locator('[data-testid="cost-row"]').allInnerTexts()).toHaveLength(1);
    await expect.poll(() => new URL(page.url()).searchParams.get("project")).toBe("till");
    await page.locator("button", { hasText: "project till" }).click();
    await expect.poll(() => page.locator("figure").isVisible()).toBe(true);
    isQuiet(seen);
  });

  it("shows who works on what now, and leads to the session", async () => {
    const seen = await team.look("ana", "/");
    const { page } = seen;
    const bob = page.locator('[data-testid="working"][data-session-id="live-of-bob"]');
    await expect.poll(() => bob.innerText()).toMatch(/bob[\s\S]*data[\s\S]*shop[\s\S]*waits for permission Bash[\s\S]*laptop-2/);
    expect(await bob.getAttribute("data-attention")).toBe("waiting");
    // Those that wait for a person come first.
    expect(await page.locator('[data-testid="working"]').first().getAttribute("data-session-id")).toBe("live-of-bob");
    await bob.locator("a").first().click();
    await expect.poll(() => page.locator('[data-testid="whose"]').innerText()).toBe("bob · data · laptop-2");
    // An agent at work is stopped on its machine only.
    await page.locator('[data-testid="agent-row"]').last().locator("a").first().click();
    await expect.poll(() => page.locator("aside .meta").first().innerText()).toContain("running");
    expect(await page.locator("aside button", { hasText: "Stop…" }).count()).toBe(0);
    isQuiet(seen);
  });

  it("shows rows of an ended session, and says where the rest is", async () => {
    const seen = await team.look("bob", "/s/ended-of-ana");
    const { page } = seen;
    await expect.poll(() => page.locator('[data-testid="whose"]').innerText()).toBe("ana · web · laptop-1");
    expect(await page.locator(".session header p", { has: page.getByTestId("whose") }).innerText()).toMatch(/laptop-1 · ended · shop · claude-code/);
    const agent = page.locator('[data-testid="agent-row"]').nth(1);
    await agent.locator("a").first().click();
    await page.waitForSelector("aside h2");
    expect(await page.locator("aside").innerText()).toContain("on the session's machine only");
    // No replay, and no exports.
    expect(await page.locator('input[type="range"]').count()).toBe(0);
    await page.locator("summary", { hasText: "Export" }).click();
    expect(await page.locator(".menu").innerText()).toContain("on laptop-1 only");
    expect(await page.locator(".menu a[download]").count()).toBe(0);
    await page.goto(`${team.url}/s/ended-of-ana?view=feed`);
    await expect.poll(() => page.locator("main.main").innerText()).toContain("Events are on laptop-1 only");
    await page.goto(`${team.url}/s/ended-of-ana?view=summary`);
    await expect.poll(() => page.locator("main.main").innerText()).toContain("on the session's machine only");
    await page.goto(`${team.url}/stats?days=all`);
    await expect.poll(() => page.locator('[data-testid="without"]').innerText()).toContain("the slowest calls");
    await page.goto(`${team.url}/iterations`);
    await expect.poll(() => page.locator("main").innerText()).toContain("machine's own hub");
    isQuiet(seen);
  });

  it("says that the tree of an old session is gone, and that words are found only where they were sent", async () => {
    await team.dropTree("older-of-ana");
    const { page } = await team.look("bob", "/s/older-of-ana");
    await expect.poll(() => page.locator(".view").innerText()).toContain("Only the row of this session is kept");
    expect(await page.locator(".view").innerText()).toContain("It is on desk");
    await page.goto(`${team.url}/s/no-such-session`);
    await expect.poll(() => page.locator(".view").innerText()).toContain("There is no such session.");
    await page.goto(`${team.url}/search?q=zzzz`);
    await expect.poll(() => page.locator(".view").innerText()).toContain("sent at the level text");
  });

  it("leaves hostile names inert, in every view and the tab", async () => {
    const seen = await team.look("ana", "/");
    const { page } = seen;
    for (const path of ["/", "/people", ...["team", "user", "project", "model", "machine", "harness"].map((by) => `/cost?by=${by}`), `/cost?user=${encodeURIComponent(TURNED)}`, "/stats", "/s/hostile", "/s/hostile?view=summary"]) {
      await page.goto(team.url + path);
      await expect.poll(() => page.locator(".view").innerText(), { message: path }).toContain("onerror=document.title");
      expect(await page.locator(".view img, .view b:has-text('bold')").count(), path).toBe(0);
      expect(await page.title(), path).not.toBe("owned");
      const text = await page.locator("body").innerText();
      expect(text.includes("\u202e"), path).toBe(false);
    }
    isQuiet(seen);
  });

  it("is readable by everybody: no serious fault that axe finds, and room for a finger on a phone", async () => {
    for (const path of ["/", "/people", "/cost?by=user"]) {
      const { page, context } = await team.look("ana", path, { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true });
      await page.waitForSelector("table.data tbody tr:visible");
      await page.evaluate(axe);
      const faults = await page.evaluate(async () => {
        const axe = (globalThis as unknown as { axe: { run: () => Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }> } }).axe;
        return (await axe.run()).violations.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ id, nodes }) => `${id}: ${nodes[0]?.html ?? ""}`);
      });
      expect(faults, path).toEqual([]);
      const small = await page.evaluate(() =>
        [...document.querySelectorAll<HTMLElement>(".view :is(button, a, input, select, summary)")]
          .filter((one) => one.offsetParent !== null && !one.closest("p, .hidden"))
          .map((one) => ({ one, box: one.getBoundingClientRect() }))
          .filter(({ box }) => box.width > 0 && (box.height < 43.5 || box.width < 43.5))
          .map(({ one, box }) => `${one.outerHTML.slice(0, 80)} ${box.width}x${box.height}`),
      );
      expect(small, path).toEqual([]);
      expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), path).toBe(true);
      await context.close();
    }
  });
});
