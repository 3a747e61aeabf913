// What a machine sends to its team, on the page of its own hub.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { cleanUp, freePort, isQuiet, look, Recording, Server } from "./harness";

cleanUp("each test");

interface Example {
  level: string;
  row: { id: string; title: string | null };
  texts: unknown[];
}

it("nothing leaves a machine without a team, and what would is shown at each level", async () => {
  const server = await Server.over("c-nested");
  const seen = await look(server, "/sending");
  const { page } = seen;
  await expect.poll(() => page.locator('[data-testid="sending-state"]').innerText()).toBe("Nothing leaves this machine.");
  const example = async (): Promise<Example> => JSON.parse(await page.locator('[data-testid="example"]').innerText()) as Example;
  const session = new Recording("c-nested").session;
  await expect.poll(async () => [(await example()).level, (await example()).row.title]).toEqual(["figures", null]);
  expect((await example()).row.id).toBe(session);
  for (const level of ["titles", "text"]) {
    await page.locator('[aria-label="level of the example"] button', { hasText: level }).click();
    await expect.poll(async () => (await example()).level).toBe(level);
    expect((await example()).row.title).not.toBe(null);
    expect((await example()).texts.length > 0, level).toBe(level === "text");
  }
  expect(await page.locator("nav.places a").allInnerTexts()).not.toContain("Team");
  isQuiet(seen);
});

it("a machine of a team says to where it sends, what it leaves out, and why it cannot", async () => {
  const server = new Server(await freePort());
  server.put("c-nested");
  const token = join(server.folder, "token");
  writeFileSync(token, "sst_x", { mode: 0o600 });
  const gone = `http://127.0.0.1:${await freePort()}`;
  server.configure(`[team]\nurl = "${gone}"\ntoken_file = "${token}"\ncontent = "titles"\nname = "<img src=x onerror=document.title='owned'>"\nexclude = ["~/private\u202e<b>"]\n`);
  await server.run();
  await server.hasRead();
  const seen = await look(server, "/");
  const { page } = seen;
  await page.locator("nav.places a", { hasText: "Team" }).click();
  await expect.poll(() => page.locator('[data-testid="sending-state"]').innerText()).toBe("Sessions wait here: they cannot be sent now.");
  const text = await page.locator('[data-testid="sending"]').innerText();
  for (const word of [gone, "titles", "~/private⟨U+202E⟩<b>", "<img src=x", "0 sessions there, 1 newer here"]) expect(text).toContain(word);
  expect(await page.locator('[data-testid="sending"] :is(img, b:has-text("private"))').count()).toBe(0);
  expect(await page.title()).not.toBe("owned");
  isQuiet(seen);
});
