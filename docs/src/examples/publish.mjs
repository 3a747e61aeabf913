// An agent that publishes what its subagent does, with Node's own fetch. As TypeScript it is the same: drop the comments' types.
//
//     CPE_SUBAGENT_LOGGING_ADDRESS=http://127.0.0.1:7337 node publish.mjs FILE...
// @ts-check

import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";

// Where the system does not tell a hub whose a connection is (macOS), it asks for the token beside its socket.
const { SUBSCOPE_DATA_DIR, XDG_DATA_HOME } = process.env;
const DATA = SUBSCOPE_DATA_DIR || join(XDG_DATA_HOME || join(homedir(), ".local", "share"), "subscope");
const TOKEN = await readFile(join(DATA, "token"), "utf8").catch(() => "");
/** @type {Record<string, string>} */
const AUTHORIZATION = TOKEN ? { authorization: `Bearer ${TOKEN.trim()}` } : {};

const ADDRESS = (process.env.CPE_SUBAGENT_LOGGING_ADDRESS ?? "").replace(/\/+$/, "");

/**
 * Publishes one event, and throws where it cannot be delivered: let that end the subagent's run. Returns whether a user
 * asks that the run stop (`subscope stop`): end it then, with the status "stopped".
 *
 * @param {"subagent_start" | "subagent_end" | "tool_call" | "tool_result" | "thought_trace"} type
 * @param {string} subagentName
 * @param {string} subagentRunId
 * @param {{ toolName?: string, toolCallId?: string, payload?: string, result?: string, isError?: boolean, status?: string, parentRunId?: string }} more
 *   what else is known; a payload is text, or JSON as text
 */
async function publish(type, subagentName, subagentRunId, more = {}) {
  if (!ADDRESS) return false;
  // With an id of its own it counts once, however often it is posted.
  const event = { subagentName, subagentRunId, timestamp: Date.now(), type, eventId: randomUUID(), ...more };
  try {
    const response = await fetch(`${ADDRESS}/subagent-events`, {
      method: "POST",
      headers: { "content-type": "application/json", ...AUTHORIZATION },
      body: JSON.stringify(event),
      signal: AbortSignal.timeout(5000),
    });
    const said = await response.text();
    if (!response.ok) throw new Error(`the answer is ${response.status}: ${said}`);
    return Boolean(JSON.parse(said || "{}").stop);
  } catch (error) {
    const cause = /** @type {any} */ (error);
    const why = cause.cause?.message || cause.cause?.code || cause.message;
    const said = `${type} ${more.toolName ?? ""} of run ${subagentRunId} could not be delivered: ${why}`;
    if (type !== "subagent_end") throw new Error(said);
    console.error("warning:", said);
    return false;
  }
}

/** A subagent with one tool. @param {string} path */
async function countLines(path) {
  const runId = randomUUID();
  await publish("subagent_start", "counter", runId, { payload: `Count the lines of ${path}.` });
  const call = { toolName: "read", toolCallId: randomUUID() };
  if (await publish("tool_call", "counter", runId, { ...call, payload: JSON.stringify({ path }) })) {
    await publish("subagent_end", "counter", runId, { status: "stopped" });
    return;
  }
  let text;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    const payload = String(error);
    await publish("tool_result", "counter", runId, { ...call, payload, isError: true });
    await publish("subagent_end", "counter", runId, { payload });
    return;
  }
  const lines = text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
  await publish("tool_result", "counter", runId, { ...call, payload: `${lines} lines` });
  await publish("subagent_end", "counter", runId, { result: `${lines} lines` });
}

for (const path of process.argv.slice(2)) await countLines(path);
