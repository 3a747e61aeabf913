// The page behind a port forward or a path proxy, and in a frame of another page.
import { type AddressInfo } from "node:net";
import { createServer, request, type Server as Listener } from "node:http";
import { afterEach, expect, it } from "vitest";
import { cleanUp, freePort, isQuiet, look, Recording, row, Server } from "./harness";

cleanUp("each test");

const listeners = new Set<Listener>();

afterEach(() => {
  for (const one of listeners) one.close().closeAllConnections();
  listeners.clear();
});

/** A proxy that takes a path off each address, as code-server and JupyterHub do. */
async function proxied(port: number, path: string, keepsHost: boolean): Promise<string> {
  const proxy = createServer((asked, answer) => {
    if (!asked.url?.startsWith(`${path}/`)) return answer.writeHead(404).end();
    const headers = { ...asked.headers, ...(keepsHost ? {} : { host: `127.0.0.1:${port}` }) };
    const onward = request({ host: "127.0.0.1", port, method: asked.method, path: asked.url.slice(path.length), headers }, (found) => {
      answer.writeHead(found.statusCode ?? 502, found.headers);
      found.pipe(answer);
    });
    onward.on("error", () => answer.destroy());
    answer.on("close", () => onward.destroy());
    return asked.pipe(onward);
  });
  listeners.add(proxy);
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  return `http://localhost:${(proxy.address() as AddressInfo).port}`;
}

it.each([["", true], ["/proxy/7337", true], ["/proxy/7337", false]] as const)(
  "works behind a forward with the path %j that keeps the name: %s",
  async (path, keepsHost) => {
    const server = new Server(await freePort());
    server.put("c-nested");
    const origin = await proxied(server.port, path, keepsHost);
    await server.run("--public-url", `${origin}${path}/`);
    const session = new Recording("c-nested").session;
    // The hub asks for its token here, so its own address does not answer this test: the page says when all is read.
    const url = server.ran("serve", "--open").stdout.trim();
    const code = new URL(url).hash;
    const seen = await look({ url: origin }, `${path}/${code}`);
    const { page } = seen;
    await page.locator(`a[href="${path}/s/${session}"]`).first().click();
    await expect.poll(() => new URL(page.url()).pathname).toBe(`${path}/s/${session}`);
    const agents = page.locator('[data-testid="agent-row"]');
    await expect.poll(() => agents.count()).toBeGreaterThan(1);
    const id = await agents.last().getAttribute("data-agent-id");
    await agents.last().click();
    await expect.poll(() => new URL(page.url()).pathname).toBe(`${path}/s/${session}/a/${id}`);
    // The address restores the view: its files are named from there.
    await page.reload();
    await page.locator(row(id ?? "")).waitFor();
    for (const view of ["stats", "search"]) {
      await page.goto(`${origin}${path}/${view}`);
      await expect.poll(() => page.locator("main h1, main h2, main input").count()).toBeGreaterThan(0);
    }
    expect(await page.locator('link[rel="icon"]').evaluate((icon) => (icon as HTMLLinkElement).href)).toBe(`${origin}${path}/assets/icon.svg`);
    await page.goto(`${origin}${path}/no/such/view`);
    await page.getByRole("link", { name: "what is live" }).waitFor();
    seen.wrong.splice(0, seen.wrong.length, ...seen.wrong.filter((words) => !words.includes("404")));
    isQuiet(seen);
  },
);

it("is in a frame of a page that the settings name, and of no other", async () => {
  const outer = createServer((_, answer) => {
    answer.writeHead(200, { "content-type": "text/html" }).end(`<!doctype html><iframe src="${server.url}/" width="900" height="600"></iframe>`);
  });
  listeners.add(outer);
  await new Promise<void>((resolve) => outer.listen(0, "127.0.0.1", resolve));
  const origin = `http://localhost:${(outer.address() as AddressInfo).port}`;
  const server = new Server(await freePort());
  server.configure(`[hub]\nframe_ancestors = ["${origin}"]\n`);
  server.put("c-nested");
  await server.run();
  await server.hasRead();
  const { page } = await look({ url: origin }, "/");
  await page.frameLocator("iframe").locator(`a[href="/s/${new Recording("c-nested").session}"]`).first().waitFor();
  await server.kill();
  server.configure("");
  await server.run();
  await server.hasRead();
  await page.reload();
  expect(await page.frameLocator("iframe").locator("#app").count()).toBe(0);
});
