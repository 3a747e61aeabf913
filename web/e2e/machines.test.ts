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
  const row = page.locator('[data-testid="session-row"]').first();
  expect(await row.innerText()).toContain("gpu1");
  await row.click();
  await expect.poll(() => page.locator('[data-testid="machine"]').innerText()).toBe("gpu1");
  expect(await page.locator('[data-testid="agent-row"]').count()).toBeGreaterThan(1);
  isQuiet(seen);
});
