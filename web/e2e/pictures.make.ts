// Pictures of the page, for people to look at: `cargo xtask page pictures`. Those of the README go to `docs/src/images`; every
// screen at three widths, in both themes, with 1, 10 and 300 agents goes to `target/pictures`.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { it } from "vitest";
import { crowd, publish } from "./crowd";
import { cleanUp, look, Recording, row, Server, sleep } from "./harness";

const ROOT = join(import.meta.dirname, "../..");
const [IMAGES, SCREENS] = [join(ROOT, "docs/src/images"), join(ROOT, "target/pictures")];
for (const folder of [IMAGES, SCREENS]) mkdirSync(folder, { recursive: true });

let server: Server;

cleanUp("each test");

it("takes them while a recorded session happens again", { timeout: 300_000 }, async () => {
  server = await Server.over("c-nested", "e-retries", "k-big", "h-custom-thinking");
  const recording = new Recording("b-parallel");
  const survey = new Recording("k-big");
  const playing = recording.play(server, 9);
  const page = async (name: string, path: string, options: object, work?: (page: Awaited<ReturnType<typeof look>>["page"]) => Promise<void>): Promise<void> => {
    const seen = await look(server, path, options);
    await seen.page.waitForSelector('[data-testid="session-card"], [data-testid="agent-row"]:visible, .figures, aside h2:visible');
    await work?.(seen.page);
    await sleep(600);
    await seen.page.screenshot({ path: join(IMAGES, `page-${name}.png`) });
    await seen.context.close();
  };
  const wide = { width: 1440, height: 720 };
  await sleep(30_000);
  const asks = { session_id: "release", transcript_path: "/release.jsonl", cwd: "/home/user/shop", prompt_id: "p", agent_id: "a1" };
  await server.hook({ ...asks, hook_event_name: "UserPromptSubmit", prompt: "Cut the release and publish it", agent_id: undefined });
  await server.hook({ ...asks, hook_event_name: "SubagentStart", agent_type: "release-manager" });
  await server.hook({ ...asks, hook_event_name: "PermissionRequest", tool_name: "Bash", tool_input: { command: "git tag v0.4.0 && git push origin v0.4.0 && npm publish --access public" } });
  await sleep(4_000);
  await page("live", "/", { viewport: { width: 1280, height: 720 }, colorScheme: "dark" }, async (shown) => {
    await shown.locator(`[data-testid="session-card"][data-session-id="${recording.session}"] button.fold`).click();
    await shown.mouse.move(640, 5);
  });
  await page("session", `/s/${recording.session}`, { viewport: wide, colorScheme: "dark" }, async (shown) => {
    await shown.locator(row("a51d453f776a862a4")).locator("a").click();
    await shown.waitForSelector("aside [data-testid=tool-row]");
  });
  await playing;
  await page("agent", `/s/${recording.session}/a/a51d453f776a862a4`, { viewport: { width: 390, height: 780 }, colorScheme: "light" });
  await page("summary", `/s/${survey.session}?view=summary`, { viewport: wide, colorScheme: "light" });
});

it("takes every screen", { timeout: 900_000 }, async () => {
  server = await Server.over("b-parallel", "c-nested", "e-retries", "e-tool-failures", "e-denied", "k-big", "h-custom-thinking", "l-hostile-output");
  const begin = Date.now() - 200_000;
  for (const agents of [1, 10, 300]) await publish(server, crowd(`crowd-${agents}`, begin, agents), `crowd-${agents}`);
  const [big, small] = [new Recording("k-big").session, new Recording("b-parallel").session];
  const screens: Record<string, string> = {
    home: "/",
    ...Object.fromEntries([1, 10, 300].map((agents) => [`agents-${agents}`, `/s/crowd-${agents}`])),
    panel: `/s/crowd-10/a/run-3?call=3-4`,
    session: `/s/${big}`,
    summary: `/s/${big}?view=summary`,
    feed: `/s/${big}?view=feed`,
    stats: "/stats?days=all",
    search: "/search?q=stock",
    compare: `/compare?a=${big}&b=${small}`,
    iterations: "/iterations",
    unknown: "/no/such/page",
  };
  for (const width of [390, 1280, 1920]) {
    for (const colorScheme of ["dark", "light"] as const) {
      for (const [name, path] of Object.entries(screens)) {
        const { page, context } = await look(server, path, { viewport: { width, height: Math.round(width === 390 ? 780 : width * 0.6) }, colorScheme });
        await page.locator(".view > *").first().waitFor();
        await sleep(1_200);
        await page.screenshot({ path: join(SCREENS, `${name}-${width}-${colorScheme}.png`) });
        await context.close();
      }
    }
  }
});
