import { describe, expect, it } from "vitest";
import { Panel } from "../src/lib/panel";
import type { FromPage } from "../src/lib/panel_messages";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

function connected(): { panel: Panel; sent: FromPage[] } {
  const sent: FromPage[] = [];
  return { panel: new Panel((message) => sent.push(message)), sent };
}

describe("requests of the page in an editor's panel", () => {
  it("are answered by messages, in any order, their bodies in parts cut anywhere", async () => {
    const { panel, sent } = connected();
    const [one, other] = [panel.request("/healthz"), panel.request("/api/v1/seen", { method: "POST", headers: { "X-Subscope": "1" }, body: "{}" })];
    expect(sent).toEqual([
      { type: "request", id: 1, method: "GET", address: "/healthz", headers: {}, body: null },
      { type: "request", id: 2, method: "POST", address: "/api/v1/seen", headers: { "x-subscope": "1" }, body: "{}" },
    ]);
    panel.received({ type: "head", id: 2, status: 204, headers: {} });
    panel.received({ type: "end", id: 2 });
    expect((await other).status).toBe(204);
    panel.received({ type: "head", id: 1, status: 200, headers: { "content-type": "application/json" } });
    const answer = await one;
    const all = bytes('{"word":"é"}');
    panel.received({ type: "chunk", id: 1, bytes: all.slice(0, 10) });
    panel.received({ type: "chunk", id: 1, bytes: all.slice(10) });
    panel.received({ type: "end", id: 1 });
    expect(await answer.json()).toEqual({ word: "é" });
  });

  it("fail with the reason, before the head and after it", async () => {
    const { panel } = connected();
    const [early, late] = [panel.request("/healthz"), panel.request("/api/v1/live")];
    panel.received({ type: "error", id: 1, message: "no hub runs" });
    await expect(early).rejects.toThrow("no hub runs");
    panel.received({ type: "head", id: 2, status: 200, headers: {} });
    const answer = await late;
    panel.received({ type: "error", id: 2, message: "the hub has ended" });
    await expect(answer.text()).rejects.toThrow("the hub has ended");
  });

  it("are canceled once, and what comes after that is dropped", async () => {
    const { panel, sent } = connected();
    const stop = new AbortController();
    const given = panel.request("/api/v1/live", { signal: stop.signal });
    stop.abort();
    await expect(given).rejects.toThrow("canceled");
    stop.abort();
    panel.received({ type: "head", id: 1, status: 200, headers: {} });
    panel.received({ type: "chunk", id: 1, bytes: bytes("x") });
    const read = panel.request("/api/v1/live");
    panel.received({ type: "head", id: 2, status: 200, headers: {} });
    await (await read).body?.cancel();
    panel.received({ type: "chunk", id: 2, bytes: bytes("x") });
    panel.received({ type: "end", id: 2 });
    expect(sent.filter(({ type }) => type === "cancel")).toEqual([{ type: "cancel", id: 1 }, { type: "cancel", id: 2 }]);
  });

  it("leave the address that the editor keeps alone", () => {
    const kept: string[] = [];
    const panel = new Panel(() => undefined, (address) => kept.push(address));
    panel.keep("/s/x?view=feed");
    panel.received({ type: "go", address: "/stats" });
    expect(kept).toEqual(["/s/x?view=feed"]);
  });

  it("are sent after the editor is asked for the first view", () => {
    const { panel, sent } = connected();
    const shown: string[] = [];
    panel.start((address) => shown.push(address));
    panel.received({ type: "go", address: "/s/one" });
    expect([sent, shown]).toEqual([[{ type: "ready" }], ["/s/one"]]);
  });
});
