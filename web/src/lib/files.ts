// The files that a session's agents changed, as far as the arguments of their calls name them. `subscope files` has the same
// rule: both are tested with the same cases.
import type { Agent, ToolCall } from "../model";

/** A call that changed a file, or is changing it. */
export interface Edit {
  agent: Agent;
  call: ToolCall;
  /** The file as the call names it. */
  name: string;
}

export interface ChangedFile {
  /** Relative to the session's working directory where it is below that. */
  path: string;
  /** In the order of the tree. */
  edits: Edit[];
  agents: Agent[];
  openCalls: number;
  lastAt: number | null;
}

/** The files by their paths. Calls that failed or were denied do not count, nor those of agents copied from another session. */
export function changedFiles(agents: Agent[], cwd: string | null): ChangedFile[] {
  const files = new Map<string, ChangedFile>();
  for (const agent of agents) {
    if (agent.flags.includes("copied")) continue;
    for (const call of agent.tools) {
      if (call.status !== "ok" && call.status !== "open") continue;
      for (const name of call.writes ?? []) {
        const path = relativePath(name, cwd);
        const file = files.get(path) ?? { path, edits: [], agents: [], openCalls: 0, lastAt: null };
        files.set(path, file);
        file.edits.push({ agent, call, name });
        if (file.agents.at(-1) !== agent) file.agents.push(agent);
        if (call.status === "open") file.openCalls += 1;
        if (call.started_at_ms !== null) file.lastAt = Math.max(file.lastAt ?? call.started_at_ms, call.started_at_ms);
      }
    }
  }
  return [...files.values()].sort((one, other) => (one.path < other.path ? -1 : 1));
}

/** A path relative to a folder where it is below that. `./` at its beginning is no part of it. */
function relativePath(path: string, folder: string | null): string {
  const top = (folder ?? "").replace(/[/\\]+$/, "");
  const below = folder !== null && folder !== "" && path.startsWith(top) && /^[/\\]./s.test(path.slice(top.length));
  if (below) return path.slice(top.length + 1);
  return /^\.[/\\]./s.test(path) ? path.slice(2) : path;
}
