// Permission requests that are answered on the page: the real hook waits, and prints what its harness obeys.
import { expect, it } from "vitest";
import type { Page } from "playwright-core";
import { cleanUp, freePort, isQuiet, look, type Seen, Server } from "./harness";

let server: Server;
let seen: Seen;

cleanUp("each test");

async function answering(): Promise<Server> {
  const one = new Server(await freePort());
  one.configure("[answers]\nenabled = true\n");
  await one.run();
  await one.hasRead();
  return one;
}

/** Starts a session with an agent that asks; returns what its hook prints in the end. */
function ask(session: string, command: string): Promise<string> {
  return call(session, { tool_name: "Bash", tool_input: { command, description: "Clean up" } });
}

async function call(session: string, tool: { tool_name: string; tool_input: unknown }): Promise<string> {
  const base = { session_id: session, cwd: "/home/user/shop", prompt_id: "p", agent_id: "a1", agent_type: "Explore" };
  await server.hooked({ ...base, hook_event_name: "SubagentStart" });
  await server.hooked({ ...base, ...tool, hook_event_name: "PreToolUse", tool_use_id: `t-${session}` });
  return server.hooked({ ...base, ...tool, hook_event_name: "PermissionRequest" });
}

const decided = (printed: string): unknown => (JSON.parse(printed) as { hookSpecificOutput: { decision: unknown } }).hookSpecificOutput.decision;

const request = (page: Page, session: string) => page.locator(`[data-testid="need"][data-session-id="${session}"] [data-testid="permission"]`);

/** Waits until the hub holds requests: a page looks. */
const isLookedAt = (page: Page): Promise<unknown> => page.waitForResponse((answer) => answer.url().includes("/permissions?looking=true"));

it("allows and denies, with the whole call on the screen", async () => {
  server = await answering();
  seen = await look(server);
  const { page } = seen;
  await isLookedAt(page);
  const long = Array.from({ length: 60 }, (_, line) => `echo step ${line}`).join("\n");
  const [first, second, third] = [ask("s-allow", "git tag v1\u202e"), ask("s-deny", "rm -rf build"), ask("s-long", long)];

  const allow = request(page, "s-allow");
  await allow.waitFor();
  expect(await allow.locator("pre").textContent()).toBe("command: git tag v1⟨U+202E⟩\ndescription: Clean up");
  await allow.getByRole("button", { name: "Allow once" }).click();
  expect(decided(await first)).toEqual({ behavior: "allow" });
  await allow.waitFor({ state: "detached" });

  const deny = request(page, "s-deny");
  // The letter d dismisses an entry, but not here.
  await deny.getByLabel("Reason, if you deny it").pressSequentially("  do not ");
  await deny.getByRole("button", { name: "Deny" }).click();
  expect(decided(await second)).toEqual({ behavior: "deny", message: "do not" });

  // It stands in the agent's conversation, too.
  await page.goto(`${server.url}/s/s-long/a/a1`);
  await page.locator('aside [data-testid="permission"]').getByRole("button", { name: "Deny" }).waitFor();
  await page.goto(server.url);

  // A call that is longer than its place has to be read first.
  const scrolled = request(page, "s-long");
  const button = scrolled.getByRole("button", { name: "Allow once" });
  await scrolled.getByText("Scroll to the end of the call to allow it.").waitFor();
  expect(await button.isDisabled()).toBe(true);
  await scrolled.locator("pre").press("End");
  await expect.poll(() => button.isEnabled()).toBe(true);
  await button.click();
  expect(decided(await third)).toEqual({ behavior: "allow" });
  isQuiet(seen);
});

it("takes a request back that is answered in its terminal, and says nothing of it to the harness", async () => {
  server = await answering();
  seen = await look(server);
  const { page } = seen;
  await isLookedAt(page);
  const printed = ask("s-1", "git tag v1");
  await request(page, "s-1").waitFor();
  // The hub has looked once whether the agent waits.
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const done = { session_id: "s-1", agent_id: "a1", prompt_id: "p", tool_name: "Bash", tool_use_id: "t-s-1", tool_response: {} };
  await server.hooked({ ...done, hook_event_name: "PostToolUse" });
  expect(await printed).toBe("");
  await request(page, "s-1").waitFor({ state: "detached" });
  isQuiet(seen);
});

it("answers questions: an option, several, other words; and declines them", async () => {
  server = await answering();
  seen = await look(server);
  const { page } = seen;
  await isLookedAt(page);
  const color = { question: "Which color?", header: "Color", multiSelect: false, options: [{ label: "Red", description: "warm\u202e" }, { label: "Blue" }] };
  const parts = { question: "Which parts?", multiSelect: true, options: [{ label: "Door" }, { label: "Roof" }, { label: "Wall" }] };
  const questions = { tool_name: "AskUserQuestion", tool_input: { questions: [color, parts] } };
  const [first, second, third] = [call("s-options", questions), call("s-words", questions), call("s-declined", questions)];

  const options = request(page, "s-options");
  await options.waitFor();
  expect(await options.textContent()).toContain("warm⟨U+202E⟩");
  const answer = options.getByRole("button", { name: "Answer" });
  // Each question needs an answer. The letter d is one here.
  await options.getByLabel("Blue").check();
  await options.getByLabel("other words for: Which color?").pressSequentially("d");
  await options.getByLabel("Red").check();
  expect(await answer.isDisabled()).toBe(true);
  await options.getByLabel("Wall").check();
  await options.getByLabel("Door").check();
  // An answer that did not arrive can be given again, as it is.
  await page.route("**/answer", (route) => route.abort(), { times: 1 });
  await answer.click();
  await options.getByRole("alert").waitFor();
  await answer.click();
  const answers = (all: Record<string, string>): unknown => ({ behavior: "allow", updatedInput: { ...questions.tool_input, answers: all } });
  expect(decided(await first)).toEqual(answers({ "Which color?": "Red", "Which parts?": "Door, Wall" }));
  await options.waitFor({ state: "detached" });

  const words = request(page, "s-words");
  await words.getByLabel("Red").check();
  await words.getByLabel("other words for: Which color?").fill(" green ");
  expect(await words.getByLabel("Red").isChecked()).toBe(false);
  await words.getByLabel("Roof").check();
  await words.getByLabel("other words for: Which parts?").fill("the fence");
  await words.getByRole("button", { name: "Answer" }).click();
  expect(decided(await second)).toEqual(answers({ "Which color?": "green", "Which parts?": "Roof, the fence" }));

  const declined = request(page, "s-declined");
  await declined.getByLabel("Reason, if you decline it").fill("ask me later");
  await declined.getByRole("button", { name: "Decline" }).click();
  expect(decided(await third)).toEqual({ behavior: "deny", message: "ask me later" });
  isQuiet(seen);
});

it("leaves a request to its terminal while no page is seen", async () => {
  server = await answering();
  // No page was ever open.
  expect(await ask("s-1", "git tag v1")).toBe("");
  seen = await look(server);
  await request(seen.page, "s-1").waitFor({ state: "detached" });
  await seen.page.locator('[data-testid="need"][data-session-id="s-1"]').waitFor();
  isQuiet(seen);
});
