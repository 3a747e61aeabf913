// Sessions of another machine in the list of this one, by its name and by the filter.
import { expect, it } from "vitest";
import { cleanUp, freePort, given, isQuiet, look, Recording, Server } from "./harness";

cleanUp("each test");

/** The command by which the near machine reaches the far one. */
function line(far: Server): string {
  const variables = Object.entries(far.environment).map(([name, value]) => `${name}=${value ?? ""}`);
  return JSON.stringify(["env", "-i", ...variables, given("SUBSCOPE"), "serve", "--stdio"]);
}

it("another machine's sessions are listed by its name, and chosen by it", async () => {
  const far = await Server.over("c-nested", "b-parallel");
  const near = new Server(await freePort());
  near.put("d-background");
  near.configure(`[[remote]]\nname = "gpu1"\ncommand = ${line(far)}\n`);
  await near.run();
  await near.hasRead();
  const seen = await look(near, "/");
  const { page } = seen;
  const ids = (): Promise<string[]> => page.locator('[data-testid="session-row"]').evaluateAll((all) => all.map((row) => (row as HTMLElement).dataset["sessionId"] ?? "").sort());
  const there = ["c-nested", "b-parallel"].map((name) => `gpu1~${new Recording(name).session}`).sort();
  const here = new Recording("d-background").session;
  await expect.poll(ids).toEqual([here, ...there].sort());
  await page.locator('button[aria-label="filters"]').click();
  await page.locator('select[aria-label="machine"]').selectOption("gpu1");
  await expect.poll(ids).toEqual(there);
  expect(await page.locator('[data-testid="session-row"]').first().innerText()).toContain("gpu1");
  // The filter stays in sight while it is set, also when the machine's last session is gone.
  await near.kill();
  for (const id of there) near.subscope("forget", id);
  near.configure("");
  await near.run();
  await expect.poll(ids).toEqual([]);
  expect(await page.locator('select[aria-label="machine"]').inputValue()).toBe("gpu1");
  await page.locator('select[aria-label="machine"]').selectOption("");
  await expect.poll(ids).toEqual([here]);
  expect(await page.locator('select[aria-label="machine"]').count()).toBe(0);
  isQuiet(seen);
});

it("a session of another machine says whose it is", async () => {
  const far = await Server.over("c-nested");
  const near = new Server(await freePort());
  near.configure(`[[remote]]\nname = "gpu1"\ncommand = ${line(far)}\n`);
  await near.run();
  const seen = await look(near, "/");
  const { page } = seen;
  const row = page.locator('[data-testid="session-row"]').first();
  await expect.poll(() => row.count()).toBe(1);
  await row.click();
  await expect.poll(() => page.locator('[data-testid="machine"]').innerText()).toBe("gpu1");
  expect(await page.locator('[data-testid="agent-row"]').count()).toBeGreaterThan(1);
  isQuiet(seen);
});
