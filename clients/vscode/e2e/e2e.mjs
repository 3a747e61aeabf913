// The extension in a real VS Code server (code-server), in headless Chromium, with a real hub.
//
// CODE_SERVER names the folder of the npm package `code-server`, SUBSCOPE_BIN the program, CHROMIUM the browser. With
// PICTURES, pictures in both themes are written to that folder.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

import puppeteer from "puppeteer-core";

import { Home, sleep, until } from "./home.mjs";

const OWN = fileURLToPath(new URL("..", import.meta.url));
const { CODE_SERVER, SUBSCOPE_BIN, PICTURES } = process.env;
const CHROMIUM = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/google-chrome"].find((path) => existsSync(path));

const missing = [!CODE_SERVER && "CODE_SERVER does not name code-server's folder", !SUBSCOPE_BIN && "SUBSCOPE_BIN does not name the program", !CHROMIUM && "there is no Chromium"].filter(Boolean);
if (missing.length > 0) {
  console.log(`skipped: the extension in a VS Code server: ${missing.join(", ")}`);
  process.exit(0);
}

const server = join(CODE_SERVER, "out/node/entry.js");
const home = new Home(SUBSCOPE_BIN);
const cleanUp = [() => home.remove()];
const THEMES = { dark: "Default Dark Modern", light: "Default Light Modern" };

const step = (words) => console.log(`e2e: ${words}`);

async function freePort() {
  const listener = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => listener.once("listening", resolve));
  const { port } = listener.address();
  await new Promise((resolve) => listener.close(resolve));
  return port;
}

const data = join(home.folder, "code");
function settle(theme, more = {}) {
  const settings = {
    "workbench.colorTheme": THEMES[theme],
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": false,
    "security.workspace.trust.enabled": false,
    "window.autoDetectColorScheme": false,
    "chat.commandCenter.enabled": false,
    "telemetry.telemetryLevel": "off",
    "git.enabled": false,
    // Its texts can be read then.
    "terminal.integrated.gpuAcceleration": "off",
    ...more,
  };
  mkdirSync(join(data, "User"), { recursive: true });
  writeFileSync(join(data, "User/settings.json"), JSON.stringify(settings));
}

async function started() {
  execFileSync("npm", ["run", "--silent", "package", "--", "--out", join(home.folder, "subscope.vsix")], { cwd: OWN, stdio: "pipe" });
  const folders = ["--user-data-dir", data, "--extensions-dir", join(home.folder, "extensions")];
  // The editor's own PATH has no subscope: the extension looks in the usual folders.
  mkdirSync(join(home.folder, ".local/bin"), { recursive: true });
  symlinkSync(SUBSCOPE_BIN, join(home.folder, ".local/bin/subscope"));
  const environment = { ...home.environment, SHELL: "/bin/bash" };
  settle("dark");
  execFileSync(process.execPath, [server, ...folders, "--install-extension", join(home.folder, "subscope.vsix")], { env: environment, stdio: "pipe" });
  const port = await freePort();
  const child = spawn(process.execPath, [server, ...folders, "--auth", "none", "--bind-addr", `127.0.0.1:${port}`, "--disable-telemetry", "--disable-update-check", "--disable-getting-started-override", home.project], {
    env: environment,
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  cleanUp.unshift(async () => {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    // The group: its servers of extensions, too.
    process.kill(-child.pid, "SIGTERM");
    await Promise.race([ended, sleep(5000)]);
  });
  const url = `http://127.0.0.1:${port}/`;
  await until("code-server answers", async () => (await fetch(`${url}healthz`).catch(() => null))?.ok);
  return `${url}?folder=${encodeURIComponent(home.project)}`;
}

async function run() {
  home.record();
  const url = await started();
  const browser = await puppeteer.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-dev-shm-usage"], headless: true });
  cleanUp.unshift(() => browser.close());
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 760 });
  const wrong = [];
  page.on("console", (message) => message.type() === "error" && /Content.Security.Policy|subscope/i.test(message.text()) && wrong.push(message.text()));
  await page.goto(url, { waitUntil: "domcontentloaded" });
  await page.waitForSelector(".monaco-workbench", { timeout: 60_000 });

  const bar = () => page.$$eval(".statusbar-item", (items) => items.map((item) => [item.id, item.textContent?.trim() ?? ""]).find(([id, text]) => /subscope/i.test(id) && text !== "")?.[1] ?? "");
  const shows = (pattern, what) => until(`the status bar ${what}, and not: `, async () => pattern.test(await bar()), 90_000).catch(async (error) => { throw new Error(`${error.message}${await bar()}`); });
  const command = async (words) => {
    // What has the focus may still be changing, and takes the key then.
    await until("the list of commands opens", async () => {
      await page.keyboard.press("F1");
      return page.waitForSelector(".quick-input-widget input", { visible: true, timeout: 2000 }).catch(() => null);
    });
    await page.keyboard.type(words);
    await sleep(800);
    await page.keyboard.press("Enter");
  };
  const rows = () => page.$$eval(".pane-body .monaco-list-row", (found) => found.map((row) => row.getAttribute("aria-label") ?? row.textContent ?? ""));
  const hasRow = (pattern) => until(`a row of the tree is like ${pattern}`, async () => (await rows()).find((row) => pattern.test(row)), 20_000).catch(async (error) => { throw new Error(`${error.message}: ${JSON.stringify(await rows())}`); });
  /** The frame of the page in the panel. */
  const panel = () => until("the panel has the page", async () => {
    for (const frame of page.frames()) if (await frame.$('[data-testid="status-bar"]').catch(() => null)) return frame;
    return null;
  });
  const look = async (name) => {
    if (!PICTURES) return;
    mkdirSync(PICTURES, { recursive: true });
    // Headless Chromium keeps stripes of an earlier size of the frame until everything is painted again.
    await (await panel()).evaluate(async () => {
      document.body.hidden = true;
      await new Promise((painted) => requestAnimationFrame(() => requestAnimationFrame(painted)));
      document.body.hidden = false;
    });
    await page.mouse.move(640, 745);
    await sleep(1500);
    await page.screenshot({ path: join(PICTURES, `${name}.jpg`), type: "jpeg", quality: 80 });
  };

  // Wider, for the words beside the labels.
  const sash = await until("the side bar can be made wider", async () => {
    const all = await Promise.all((await page.$$(".monaco-sash.vertical")).map((one) => one.boundingBox()));
    return all.find((box) => box !== null && box.x > 200 && box.x < 500);
  });
  await page.mouse.move(sash.x + 2, 400);
  await page.mouse.down();
  await page.mouse.move(sash.x + 120, 400, { steps: 5 });
  await page.mouse.up();

  step("without a hub, the status bar and the tree say so, and nothing else is shown");
  await shows(/subscope: no hub/, "says that no hub runs");
  assert.deepEqual(await page.$$eval(".notifications-toasts .notification-list-item-message", (all) => all.map((one) => one.textContent).filter((text) => /subscope/i.test(text ?? ""))), []);
  await page.click('.activitybar [aria-label^="subscope"]');
  await until("the tree offers to start the hub", () => page.$$eval(".welcome-view-content", (all) => all.some((one) => /No hub runs/.test(one.textContent ?? ""))));

  step("a command starts the hub with the program in a usual folder");
  await command("subscope: Start the Hub");
  await shows(/no agents/, "says that the hub runs");
  assert.equal((await home.ask("GET", "/healthz")).mode, "background");
  cleanUp.unshift(() => execFileSync(SUBSCOPE_BIN, ["serve", "--stop"], { env: home.environment, stdio: "ignore" }));
  await hasRow(/^Ended/);

  step("what needs the user comes first, within seconds");
  await home.works();
  await home.fails();
  await home.asks();
  await shows(/^◆ 1 waits for you · ! 1 in trouble · \d+ agents · ≥\$\d/, "has the worst first");
  await hasRow(/waits for your permission: Bash.*Cut the release and publish it/);
  const listed = await rows();
  const at = (pattern) => listed.findIndex((row) => pattern.test(row));
  assert.ok(at(/^Needs you/) < at(/Cut the release/) && at(/Cut the release/) < at(/nightly|crawler/) && at(/crawler/) < at(/^At work/) && at(/^At work/) < at(/^Ended/), JSON.stringify(listed));
  assert.equal((await home.ask("GET", "/api/v1/sessions?limit=100")).sessions.length, 10, "ten sessions");

  await page.click('.pane-body .monaco-list-row[aria-label*="Cut the release"]');
  const frame = await panel();

  step("a click opens the session in the panel, over the hub's socket");
  await until("the panel shows the session", async () => /release-manager/.test(await frame.$eval("body", (body) => body.innerText)));
  await until("the page's feed is live", () => frame.$('[data-testid="status-bar"][data-state="live"]'));
  await page.keyboard.press("Escape");
  assert.deepEqual(wrong, []);
  const policy = await frame.evaluate(async () => (await Promise.allSettled([fetch("http://127.0.0.1:7337/healthz"), fetch("/healthz")])).map(({ status }) => status));
  assert.deepEqual(policy, ["rejected", "rejected"], "the page has no network");
  // The refusals that were just provoked.
  wrong.length = 0;
  assert.equal(await frame.$eval("html", (html) => html.dataset.host), "panel");
  await look("session-dark");
  await command("subscope: Open the Page");
  await frame.evaluate(() => document.querySelector("a.brand")?.click());
  await until("the page goes to its start", () => frame.$('[data-testid="needs"]'));
  await until("views that are loaded later come, too", async () => {
    await frame.evaluate(() => [...document.querySelectorAll("a.place")].find((link) => /Stat/i.test(link.textContent ?? ""))?.click());
    return frame.$(".figures, canvas, .uplot");
  });
  await frame.evaluate(() => document.querySelector("a.brand")?.click());
  await until("the page is back at its start", () => frame.$('[data-testid="session-card"]'));

  step("a file of an agent opens in the editor, and an export is saved by it");
  await frame.evaluate(() => (location.hash = "#/s/release-0000?view=files"));
  const file = await until("the changed file is listed", async () => {
    await frame.evaluate(() => [...document.querySelectorAll(".view button[aria-expanded=false], .view details:not([open]) summary")].find((one) => /cart\.js/.test(one.textContent ?? ""))?.click());
    return frame.$('[data-testid="open-file"]');
  }, 20_000);
  await frame.evaluate((link) => link.click(), file);
  await until("the file is open", () => page.$$eval(".tab", (tabs) => tabs.some((tab) => /cart\.js/.test(tab.getAttribute("aria-label") ?? tab.textContent ?? ""))), 20_000);
  await frame.evaluate(() => [...document.querySelectorAll(".menu button")].find((button) => /CSV/.test(button.textContent ?? "")).click());
  await page.waitForSelector(".quick-input-widget input", { visible: true });
  await sleep(1000);
  await page.keyboard.press("Enter");
  const saved = () => readdirSync(home.project).find((name) => /^subscope-.*\.csv$/.test(name));
  await until("the export is there", saved, 20_000);
  assert.match(readFileSync(join(home.project, saved()), "utf8"), /release-manager/);
  await command("View: Close All Editors in Group");
  await frame.evaluate(() => document.querySelector("a.brand")?.click()).catch(() => undefined);

  step("the page has the editor's theme, and follows it");
  const background = () => frame.$eval("body", (body) => getComputedStyle(body).backgroundColor);
  const isDark = async () => Math.max(...((await background()).match(/\d+/g) ?? []).slice(0, 3).map(Number)) < 100;
  assert.ok(await isDark(), await background());
  await look("home-dark");
  await command("Preferences: Toggle between Light/Dark Themes");
  await until("the page is light", async () => !(await isDark()), 20_000);
  await look("home-light");

  step("a hostile title is text");
  await home.asks("$(error) [x](command:subscope.hooksRemove) <img src=x onerror=alert(1)>\u202e", "hostile-0000");
  await hasRow(/\$\(error\) \[x\]\(command:subscope\.hooksRemove\) <img src=x onerror=alert\(1\)>⟨U\+202E⟩/);

  step("the page's search finds by the hub, and so does the command");
  await command("subscope: Search Sessions");
  await page.waitForSelector(".quick-input-widget input", { visible: true });
  await page.keyboard.type("stock");
  await until("hits are listed", () => page.$$eval(".quick-input-list .monaco-list-row", (all) => all.length > 3));
  await look("search-light");
  await page.keyboard.press("Enter");
  await until("the panel shows the hit's session", async () => frame.evaluate(() => location.hash.startsWith("#/s/")));

  step("a session that runs nowhere here is not gone to, and it is said why");
  await command("subscope: Go to the Terminal of a Session");
  await until("sessions are listed", () => page.$$eval(".quick-input-list .monaco-list-row", (all) => all.some((one) => /Cut the release/.test(one.textContent ?? ""))));
  await page.keyboard.type("release");
  await sleep(500);
  await page.keyboard.press("Enter");
  await until("it says why", () => page.$$eval(".notification-list-item-message", (all) => all.some((one) => /no process of it was found/.test(one.textContent ?? ""))));
  await command("Notifications: Clear All Notifications");

  step("a session in a terminal of this window is gone to there");
  const written = readdirSync(join(home.folder, ".claude/projects"), { recursive: true, encoding: "utf8" }).find((name) => /^[^/]*\/[0-9a-f-]{36}\.jsonl$/.test(name));
  await command("Terminal: Create New Terminal");
  const screen = () => page.$$eval(".xterm-rows", (all) => all.filter((one) => one.getClientRects().length > 0).map((one) => one.textContent ?? "").join("\n").replaceAll("\u00a0", " "));
  await until("a terminal has a prompt", async () => /[$#]\s*$/m.test(await screen()), 30_000);
  await page.click(".xterm-screen");
  // As an agent's program does that writes its transcript.
  await page.keyboard.type(`sleep 300 3>> ~/.claude/projects/${written}\n`);
  const jumped = await until("the hub sees the process", async () => {
    const answer = await home.ask("POST", `/api/v1/sessions/${basename(written, ".jsonl")}/jump`, {});
    return answer.process !== null && answer;
  }, 20_000).catch(async (error) => { throw new Error(`${error.message}: ${await screen()}`); });
  assert.equal(jumped.outcome, "unreachable", "the hub itself cannot go there");

  step("hooks are shown in a terminal");
  await command("subscope: Show the State of Hooks");
  await until("the terminal has the program's answer", async () => /events wait/.test(await screen()), 30_000).catch(async (error) => { throw new Error(`${error.message}: ${await screen()}`); });
  // The terminal of the hooks is the one on show now.
  const named = (await home.ask("GET", "/api/v1/sessions?limit=100")).sessions.find(({ id }) => id === basename(written, ".jsonl")).title;
  await command("subscope: Go to the Terminal of a Session");
  await until("sessions are listed", () => page.$(".quick-input-list .monaco-list-row"));
  await page.keyboard.type(named.slice(0, 20));
  await sleep(500);
  await page.keyboard.press("Enter");
  await until("it says that it went there", () => page.$$eval(".statusbar-item", (all) => all.some((one) => /went to the terminal .* of this window/.test(one.textContent ?? ""))), 20_000);
  await until("the terminal is on show", async () => /sleep 300/.test(await screen()));

  step("a hub that ends is no hub, and not one without agents");
  execFileSync(SUBSCOPE_BIN, ["serve", "--stop"], { env: home.environment, stdio: "ignore" });
  await shows(/subscope: no hub/, "says that the hub has ended");

  step("a window that is loaded anew starts the hub, if the settings say so, and has the panel again with its view");
  settle("dark", { "subscope.startHub": true });
  await command("subscope: Open the Page");
  await (await panel()).evaluate(() => (location.hash = "#/s/release-0000?view=feed"));
  // In a browser, the editor writes what it keeps every few seconds, and not when its window is loaded anew.
  await sleep(12_000);
  await page.reload({ waitUntil: "domcontentloaded" });
  await page.waitForSelector(".monaco-workbench", { timeout: 60_000 });
  await shows(/waits? for you/, "has the hub that the extension has started");
  const restored = await panel();
  await until("the panel has its view again", () => restored.evaluate(() => location.hash === "#/s/release-0000?view=feed"));
  assert.deepEqual(wrong, []);
}

let failed;
try {
  await run();
} catch (error) {
  failed = error;
}
for (const clean of cleanUp) await Promise.resolve().then(clean).catch(() => undefined);
if (failed) {
  console.error(failed);
  process.exit(1);
}
step(`passed with ${JSON.parse(readFileSync(join(CODE_SERVER, "package.json"), "utf8")).version} of code-server`);
process.exit(0);
