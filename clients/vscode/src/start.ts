// Starts the hub.

import { execFile } from "node:child_process";

import { type Hub, HubError } from "./hub";

/** Time for a command that starts the hub: it waits until the hub answers. */
const START_MS = 30_000;

/** Starts the hub as every command does that needs one; `store` names its data folder. */
export async function startHub(program: string, store: string[], hub: Hub, environment: NodeJS.ProcessEnv): Promise<void> {
  const words = [...store, "ls", "--limit", "1", "--json"];
  const failed = await new Promise<string>((resolve) => {
    const child = execFile(program, words, { timeout: START_MS, env: environment }, (error, _, said) => resolve(error ? said.trim() || error.message : ""));
    child.stdin?.end();
  });
  try {
    // A hub that still reads is there, though the command was given up.
    await hub.get("/healthz");
  } catch (error) {
    if (error instanceof HubError && error.absence !== "no hub") throw error;
    throw new Error(failed || "the program has started no hub: there is no session on this machine yet, or SUBSCOPE_NO_AUTOSTART is set");
  }
}
