// The README's pictures of the page: `cargo xtask page pictures`. Looked at by people before they are committed.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, it } from "vitest";
import { closed, look, Recording, row, Server, sleep } from "./harness";

const IMAGES = join(import.meta.dirname, "../../docs/images");
mkdirSync(IMAGES, { recursive: true });

let server: Server;

afterAll(async () => {
  await closed();
  await server.stop();
});

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
