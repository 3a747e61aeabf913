// The npm package opencode-subscope, made by `cargo xtask plugins` in https://github.com/subscope/subscope.
// Tells subscope when OpenCode asks for a permission, and asks before each call of a subagent whether to stop it.
const COMMAND = ["sh","-c","s=$(command -v subscope || { for d in \"$HOME/.local/bin\" \"$HOME/.cargo/bin\" /opt/homebrew/bin /usr/local/bin; do [ -x \"$d/subscope\" ] && { echo \"$d/subscope\"; break; }; done; }); [ -n \"$s\" ] || exit 0; exec \"$s\" hook --harness opencode --plugin"];
const EVENTS = ["session.created","session.idle","permission.asked","permission.replied","tool.execute.before"];

import { spawn } from "node:child_process";

/** Longest wait for an answer, in milliseconds. */
const PATIENCE = 2000;
/** The same for a person's answer to a permission request: the hook ends before. */
const PERSON_PATIENCE = 330_000;
/** How long an event waits for the request before it: after that, the hook has delivered it, or keeps it. */
const DELIVERY = 800;

const JSON_BODY = { "Content-Type": "application/json" };

/** Returns a field of an answer that is text. */
function field(answer, name) {
  try {
    const value = JSON.parse(answer)[name];
    return typeof value === "string" ? value : undefined;
  } catch {
    return undefined;
  }
}

export const subscope = async ({ client }) => {
  /** Parts of running calls, by the call's id. */
  const calls = new Map();
  /** Parts of the calls that open questions are about, by the question's id. */
  const questions = new Map();
  /** Hooks that wait for a person's answer, by the question's id. */
  const waiting = new Map();
  /** What is known of sessions, by id. */
  const known = new Map();
  let sent = Promise.resolve();

  /** Runs the command with a payload; returns what it prints. It never fails, and waits no longer than it may. */
  const send = (payload, patience = PATIENCE, started = () => {}) =>
    new Promise((done) => {
      let answer = "";
      const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "pipe", "ignore"], windowsHide: true });
      started(child);
      const timer = setTimeout(() => done(""), patience);
      const end = (text) => {
        clearTimeout(timer);
        done(text);
      };
      child.on("error", () => end(""));
      child.on("close", () => end(answer));
      child.stdout.on("data", (data) => (answer += data));
      child.stdin.on("error", () => {});
      child.stdin.end(JSON.stringify(payload));
    });

  /** Returns a session, the one above it, and so on up to the root; nothing if one of them cannot be found. */
  const above = async (id) => {
    const sessions = [];
    for (let next = id; next && sessions.length < 32; next = known.get(next).parentID) {
      if (!known.has(next)) {
        const { data } = await client.session.get({ path: { id: next } }).catch(() => ({}));
        if (!data) return [];
        known.set(next, { id: next, parentID: data.parentID });
      }
      sessions.push(known.get(next));
    }
    return sessions;
  };

  /** Passes an event on, after those before it; nobody waits for it. */
  const pass = (event, part) => {
    const { type, properties } = event;
    const session = properties?.sessionID ?? properties?.info?.id;
    if (!EVENTS.includes(type) || typeof session !== "string") return;
    sent = sent.then(async () => {
      const sessions = await above(session);
      if (sessions.length === 0) return;
      const payload = { type, properties, part, sessions };
      if (type !== "permission.asked") return await send(payload);
      // Its hook may wait for a person; the next event does not.
      await Promise.race([ask(payload), new Promise((done) => setTimeout(done, DELIVERY))]);
    });
  };

  /** Passes a permission request on, and gives OpenCode the answer of a person, if there is one. */
  const ask = async (payload) => {
    const { id } = payload.properties;
    const answer = await send(payload, PERSON_PATIENCE, (child) => waiting.set(id, child));
    waiting.delete(id);
    const reply = { allow: "once", deny: "reject" }[field(answer, "permission")];
    if (reply === undefined) return;
    // The client of plugins has no method of its own for this route.
    const body = { reply, message: field(answer, "reason") };
    await client._client.post({ url: "/permission/{requestID}/reply", path: { requestID: id }, body, headers: JSON_BODY }).catch(() => {});
  };

  return {
    event: async ({ event }) => {
      const { type, properties } = event;
      if (type === "session.created" && properties?.info?.id) {
        known.set(properties.info.id, { id: properties.info.id, parentID: properties.info.parentID });
      }
      if (type === "message.part.updated" && properties?.part?.type === "tool") {
        const { callID, state } = properties.part;
        if (state?.status === "running") calls.set(callID, properties.part);
        else calls.delete(callID);
      }
      if (type === "permission.asked") questions.set(properties?.id, calls.get(properties?.tool?.callID));
      const asked = type === "permission.asked" ? properties?.id : properties?.requestID;
      pass(event, questions.get(asked));
      if (type === "permission.replied") {
        questions.delete(asked);
        // It is answered: nobody else can.
        waiting.get(asked)?.kill();
      }
    },
    "tool.execute.before": async ({ tool, sessionID, callID }) => {
      const type = "tool.execute.before";
      if (!EVENTS.includes(type)) return;
      const sessions = await above(sessionID);
      if (sessions.length < 2) return;
      const stop = field(await send({ type, properties: { tool, sessionID, callID }, sessions }), "stop");
      if (stop === undefined) return;
      await client.session.abort({ path: { id: sessionID } }).catch(() => {});
      throw new Error(stop);
    },
  };
};
