// The built library against a real hub, whose address is in SUBSCOPE_TEST_HUB.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, HubError, PublishError, Publisher } from "../dist/index.js";

const HUB = process.env.SUBSCOPE_TEST_HUB;

test("published runs are in lists, trees and the live feed", async () => {
  const client = new Client(HUB);
  assert.equal((await client.health()).status, "ok");
  const end = new AbortController();
  const kinds = [];
  const followed = (async () => {
    for await (const { name, data } of client.live({ signal: end.signal })) {
      if (name !== "event") continue;
      kinds.push(data.kind);
      if (data.kind === "subagent.stop") return;
    }
  })();
  const publisher = new Publisher(HUB);
  await publisher.run("scout-ts", "Find the bug.", async (run) => {
    await run.thought("Where is it?");
    await run.call("Read", { path: "a.rs" }, async () => "fn main() {}");
    return "line 3";
  });
  const broken = publisher.run("breaker-ts", "Break.", (run) =>
    run.call("Throw", {}, async () => {
      throw new Error("broken");
    }),
  );
  await assert.rejects(broken, /broken/);
  const agents = new Map();
  for (const session of (await client.sessions()).sessions) {
    for (const agent of (await client.tree(session.id)).agents) agents.set(agent.name, agent);
  }
  const [scout, breaker] = [agents.get("scout-ts"), agents.get("breaker-ts")];
  assert.deepEqual([scout.status, scout.result, scout.tool_calls], ["completed", "line 3", 1]);
  assert.deepEqual([breaker.status, breaker.tool_errors], ["failed", 1]);
  await followed;
  end.abort();
  assert.ok(kinds.includes("subagent.start"), kinds.join());
});

test("errors name their cause", async () => {
  await assert.rejects(new Client(HUB).tree("no-such-session"), (error) => error instanceof HubError && /404/.test(error.message));
  const nowhere = new Publisher("http://127.0.0.1:9", { timeoutMs: 1000 });
  await assert.rejects(nowhere.publish("subagent_start", "scout", "r1"), PublishError);
  await nowhere.publish("subagent_end", "scout", "r1");
  await new Publisher(undefined).publish("subagent_start", "scout", "r1");
});
