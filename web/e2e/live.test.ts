// Agents at work: replayed recordings, a killed server, a clock that runs ahead.
import { expect, it } from "vitest";
import type { Agent, Health, Tree } from "../src/model";
import type { FeedPage } from "../src/lib/api";
import { cleanUp, isQuiet, look, Recording, row, type Seen, Server, sleep } from "./harness";

let server: Server;
let seen: Seen;

cleanUp("each test");

const tree = (of: Recording): Promise<Tree> => server.get(`/api/v1/sessions/${of.session}/tree`);

/** Samples the texts of rows until a promise settles. */
async function sampled(of: Seen, during: Promise<unknown>): Promise<Map<string, { status: string; text: string }[]>> {
  const samples = new Map<string, { status: string; text: string }[]>();
  let isOver = false;
  void during.finally(() => (isOver = true));
  while (!isOver) {
    const rows = await of.page.locator('[data-testid="agent-row"]').evaluateAll((all) =>
      all.map((one) => ({
        id: (one as HTMLElement).dataset["agentId"] ?? "",
        status: (one as HTMLElement).dataset["status"] ?? "",
        text: one.textContent ?? "",
      })),
    );
    for (const { id, ...sample } of rows) samples.set(id, [...(samples.get(id) ?? []), sample]);
    await sleep(100);
  }
  return samples;
}

const secondsOf = (text: string): number | null => {
  const found = /Running\.\.\. (?:(\d+)m )?(\d+)s/.exec(text);
  return found ? Number(found[1] ?? 0) * 60 + Number(found[2]) : null;
};

it("shows agents as they work: rows, timers, endings in any order, tools, results", async () => {
  server = await Server.start();
  seen = await look(server);
  await seen.page.getByText("No session is live").waitFor();
  const recording = new Recording("b-parallel");
  const samples = await sampled(seen, recording.play(server, 2.5));
  const { agents } = await tree(recording);
  expect(agents.length).toBe(4);
  await seen.page.waitForSelector(`${row("root")}[data-status="completed"]`);
  for (const agent of agents) {
    const own = samples.get(agent.id) ?? [];
    const statuses = own.map((sample) => sample.status).filter((status, at, all) => status !== all[at - 1]);
    // Each agent runs, then ends, independently of the others.
    expect(statuses.join(" "), agent.id).toMatch(agent.id === "root" ? /^running( completed)?$/ : /^running completed$/);
    const seconds = own.flatMap((sample) => secondsOf(sample.text) ?? []);
    const steps = seconds.filter((second, at) => second !== seconds[at - 1]);
    expect(steps.length, `${agent.id} counts: ${steps.join(" ")}`).toBeGreaterThan(3);
    expect(steps.every((second, at) => at === 0 || second > (steps[at - 1] ?? 0)), steps.join(" ")).toBe(true);
  }
  // It has finished since the user looked, until that is marked as read.
  await seen.page.getByTestId("since").getByText("✓ 1 finished").waitFor();
  await seen.page.reload();
  await seen.page.getByTestId("since").getByText("✓ 1 finished").click();
  await seen.page.getByTestId("since").getByRole("listitem").first().waitFor();
  const ends = agents.slice(1).sort((one, other) => (one.ended_at_ms ?? 0) - (other.ended_at_ms ?? 0));
  const first = ends[0]?.id ?? "";
  const others = ends.slice(1).map((agent) => agent.id);
  const whenFirstEnded = (samples.get(first) ?? []).findIndex((sample) => sample.status === "completed");
  const total = samples.get(first)?.length ?? 0;
  for (const other of others) {
    const own = samples.get(other) ?? [];
    expect(own[own.length - (total - whenFirstEnded)]?.status, `${other} when ${first} had ended`).toBe("running");
  }
  for (const agent of agents) await opensTools(seen, agent);
  isQuiet(seen);
});

/** Opens the agents of all sessions. */
async function unfold({ page }: Seen): Promise<void> {
  await page.waitForSelector('[data-testid="session-card"]');
  for (const button of await page.locator('[data-testid="session-card"] button.fold[aria-expanded="false"]').all()) await button.click();
}

async function opensTools({ page }: Seen, agent: Agent): Promise<void> {
  const one = page.locator(row(agent.id));
  await one.locator("button").first().click();
  const tools = one.locator('[data-testid="tool-row"]');
  await expect.poll(() => tools.count(), { message: agent.id }).toBe(agent.tools.length);
  const statuses = await tools.evaluateAll((all) => all.map((tool) => (tool as HTMLElement).dataset["status"]));
  expect(statuses).toEqual(agent.tools.map((tool) => tool.status));
  if (agent.result) {
    const words = agent.result.split(/\s+/).slice(0, 3).join(" ").replace(/[`*_#]/g, "");
    expect(await one.locator('[data-testid="agent-result"]').textContent()).toContain(words);
  }
  await one.locator("button").first().click();
}

it("marks calls that failed or were denied", async () => {
  server = await Server.over("e-tool-failures", "e-denied");
  seen = await look(server);
  const list = await server.get<{ sessions: { id: string }[] }>("/api/v1/sessions");
  const trees = await Promise.all(list.sessions.map(({ id }) => server.get<Tree>(`/api/v1/sessions/${id}/tree`)));
  await unfold(seen);
  const marks = new Set<string>();
  for (const { session, agents } of trees) {
    for (const agent of agents.filter((one) => one.tools.length > 0)) {
      const one = seen.page.locator(`[data-session-id="${session.id}"]${row(agent.id)}`);
      await one.locator("button").first().click();
      for (const [status, word] of [["error", "error"], ["denied", "denied"]] as const) {
        const calls = agent.tools.filter((tool) => tool.status === status).length;
        const found = one.locator(`[data-testid="tool-row"][data-status="${status}"]`);
        await expect.poll(() => found.count(), { message: `${agent.id} ${status}` }).toBe(calls);
        if (calls > 0) {
          marks.add(status);
          expect(await found.first().textContent()).toContain(word);
        }
      }
    }
  }
  expect([...marks].sort()).toEqual(["denied", "error"]);
  isQuiet(seen);
});

it("never takes an agent for stopped that works for twelve minutes", async () => {
  server = await Server.start();
  const recording = new Recording("b-parallel");
  await recording.play(server, 1, 0.4);
  seen = await look(server);
  await seen.page.clock.install({ time: new Date() });
  await seen.page.reload();
  const { agents } = await tree(recording);
  const running = agents.filter((agent) => agent.status === "running");
  expect(running.length).toBe(4);
  for (const agent of running) await seen.page.waitForSelector(`${row(agent.id)}[data-status="running"]`);
  for (const minutes of [4, 8, 12]) {
    await seen.page.clock.fastForward("04:00");
    for (const agent of running) {
      const one = seen.page.locator(row(agent.id));
      await expect.poll(() => one.textContent(), { message: agent.id }).toMatch(new RegExp(`Running\\.\\.\\. ${minutes}m \\d+s`));
      expect(await one.getAttribute("data-status")).toBe("running");
    }
  }
  // Only the browser's clock moved: the page is connected, or connects again.
  await expect.poll(() => seen?.page.locator('[data-testid="status-bar"]').getAttribute("data-state")).toBe("live");
  isQuiet(seen);
});

it("says how many of the stored sessions are read, until all are", async () => {
  server = await Server.over("c-nested");
  seen = await look(server, "/");
  const { page } = seen;
  const words = page.getByTestId("reading");
  await page.waitForSelector('[data-testid="status-bar"][data-state="live"]');
  expect(await words.count()).toBe(0);
  const health = await server.get<Health>("/healthz");
  let reading: Health["reading"] = { read: 0, total: 0 };
  await page.route("**/healthz", (route) => route.fulfill({ json: { ...health, is_reading: reading !== undefined, ...(reading ? { reading } : {}) } }));
  await page.reload();
  await expect.poll(() => words.textContent()).toBe("reading sessions");
  reading = { read: 2757, total: 3000 };
  await expect.poll(() => words.textContent(), { timeout: 5_000 }).toBe("2,757 of 3,000 sessions read");
  reading = undefined;
  await expect.poll(() => words.count(), { timeout: 5_000 }).toBe(0);
  isQuiet(seen);
});

it("recovers by itself when the server is killed and comes back: no gap, no duplicate", async () => {
  server = await Server.start();
  const recording = new Recording("c-nested");
  await recording.play(server, 1, 0.05);
  seen = await look(server, `/s/${recording.session}?view=feed`);
  const bar = seen.page.locator('[data-testid="status-bar"]');
  await expect.poll(() => bar.getAttribute("data-state")).toBe("live");
  await seen.page.evaluate(() => Object.assign(globalThis, { isSamePage: true }));
  const playing = recording.play(server, 1.2);
  await sleep(2500);
  await server.kill();
  await expect.poll(() => bar.getAttribute("data-state")).toBe("lost");
  await sleep(700);
  await server.run();
  await playing;
  await expect.poll(() => bar.getAttribute("data-state"), { timeout: 20_000 }).toBe("live");
  const { agents } = await tree(recording);
  const page = seen.page;
  const all = await server.get<FeedPage>(`/api/v1/sessions/${recording.session}/feed?limit=50000`);
  const wanted = all.events.filter((event) => !["usage", "attribution", "agent.renamed"].includes(event.kind));
  await expect.poll(() => page.locator(".count").textContent(), { timeout: 20_000 }).toContain(`${wanted.length} events`);
  // Every line is an event of the feed, each once.
  const keys = await keysOf(seen);
  expect(new Set(keys).size).toBe(keys.length);
  // A later line may move the end of a run: that is another event.
  const log = await server.get<FeedPage>(`/api/v1/sessions/${recording.session}/events?limit=10000`);
  const known = new Set([...wanted, ...log.events.filter((event) => event.kind === "run.end")].map((event) => event.id));
  expect(keys.filter((key) => !known.has(key))).toEqual([]);
  expect(await page.evaluate(() => "isSamePage" in globalThis)).toBe(true);
  await page.getByRole("link", { name: "Live", exact: true }).click();
  for (const agent of agents) await page.waitForSelector(`${row(agent.id)}[data-status="${agent.status}"]`);
  expect(await page.locator('[data-testid="agent-row"]').count()).toBe(agents.length);
  isQuiet(seen);
});

/** The keys of all lines of a list, from its beginning to its end. */
async function keysOf({ page }: Seen): Promise<string[]> {
  const log = page.getByRole("log");
  const found: string[] = [];
  for (let top = 0; ; top += 300) {
    const end = await log.evaluate((element, y) => {
      element.scrollTop = y;
      return element.scrollHeight - element.clientHeight;
    }, top);
    await sleep(40);
    const keys = await log.locator("[data-key]").evaluateAll((all) => all.map((one) => (one as HTMLElement).dataset["key"] ?? ""));
    const known = new Set(found);
    if (new Set(keys).size !== keys.length) return [...found, ...keys];
    found.push(...keys.filter((key) => !known.has(key)));
    if (top >= end) return found;
  }
}

it("shows the same after a reload, and the same to whoever follows a link", async () => {
  server = await Server.over("c-nested");
  const { session } = new Recording("c-nested");
  const expected = await server.get<Tree>(`/api/v1/sessions/${session}/tree`);
  const agent = expected.agents.at(-1);
  const call = agent?.tools[0]?.id;
  seen = await look(server, `/s/${session}`);
  const { page } = seen;
  await page.locator(row(agent?.id ?? "")).locator("a").click();
  await page.waitForURL(`**/s/${session}/a/${agent?.id}`);
  await page.getByRole("link", { name: "Summary" }).click();
  const sees = async (): Promise<string[]> => {
    await page.waitForSelector("aside .top > h2");
    await expect.poll(() => page.locator("aside [data-testid=tool-row]").count()).toBeGreaterThan(0);
    const figures = await page.locator(".figures dd").allTextContents();
    return [page.url(), (await page.locator("aside .top > h2").textContent()) ?? "", ...figures];
  };
  const before = await sees();
  await page.reload();
  expect(await sees()).toEqual(before);
  const other = await look(server, new URL(page.url()).pathname + new URL(page.url()).search);
  await other.page.waitForSelector("aside .top > h2");
  expect(await other.page.locator("aside .top > h2").textContent()).toBe(before[1]);
  isQuiet(other);
  await other.context.close();
  // A link to a call opens it.
  await page.goto(`${server.url}/s/${session}/a/${agent?.id}?call=${call}`);
  await page.waitForSelector(`[data-call-id="${call}"] button[aria-expanded="true"]`);
  await page.goBack();
  expect(await sees()).toEqual(before);
  isQuiet(seen);
});

it("asks for an agent's events once, and leaves the panel where a person scrolled it, while events come", async () => {
  const own = await Server.start();
  const base = { session_id: "s", transcript_path: "/x.jsonl", cwd: "/x", prompt_id: "p", agent_id: "a1" };
  const call = async (number: number): Promise<void> => {
    const tool = { tool_name: "Bash", tool_use_id: `t${number}`, tool_input: { command: `echo ${number}` } };
    await own.hook({ ...base, ...tool, hook_event_name: "PreToolUse" });
    await own.hook({ ...base, ...tool, hook_event_name: "PostToolUse", tool_response: { stdout: "line\n".repeat(30), stderr: "", interrupted: false, isImage: false } });
  };
  await own.hook({ ...base, hook_event_name: "UserPromptSubmit", prompt: "do it", agent_id: undefined });
  await own.hook({ ...base, hook_event_name: "SubagentStart", agent_type: "Explore" });
  for (let number = 0; number < 40; number++) await call(number);
  seen = await look(own);
  const { page } = seen;
  let asked = 0;
  page.on("request", (request) => {
    if (request.url().includes("/feed?agent=a1")) asked += 1;
  });
  await page.waitForSelector('[data-testid="status-bar"][data-state="live"]');
  await page.goto(`${own.url}/s/s/a/a1?call=t2`);
  await page.locator('aside [data-call-id="t2"] .more').waitFor();
  const story = page.locator("aside .story .scroller");
  asked = 0;
  // At the end the panel follows. It stays where a person scrolls to, also on a busy machine, where the event of the scroll
  // comes after the calls.
  await story.evaluate((node) => (node.scrollTop = node.scrollHeight));
  await page.locator('aside [data-call-id="t39"]').waitFor();
  const before = await story.evaluate((node) => {
    const hold = (event: Event): void => event.stopPropagation();
    addEventListener("scroll", hold, { capture: true });
    setTimeout(() => {
      removeEventListener("scroll", hold, { capture: true });
      node.dispatchEvent(new Event("scroll"));
    }, 500);
    node.scrollTop = node.scrollHeight / 2;
    return node.scrollTop;
  });
  for (let number = 40; number < 60; number++) await call(number);
  await expect.poll(() => page.locator("aside .meta").first().innerText()).toContain("60 calls");
  await page.locator('aside [data-call-id="t20"]').waitFor();
  expect(await story.evaluate((node) => node.scrollTop)).toBe(before);
  expect(asked).toBe(0);
  isQuiet(seen);
  await own.stop();
});
