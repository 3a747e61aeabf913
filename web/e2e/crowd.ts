// A very large session, as published by programs: 3,000 agents, 100,000 events.
import { Server } from "./harness";

const AGENTS = 3_000;
const CALLS = 16;
const TOOLS = ["Read", "Grep", "Bash", "Edit", "WebFetch", "Glob", "Write"];
const TYPES = ["Explore", "Plan", "general-purpose", "reviewer"];

interface Published {
  subagentName: string;
  subagentRunId: string;
  parentRunId?: string;
  sessionId: string;
  timestamp: number;
  type: string;
  [more: string]: unknown;
}

/** Events of agents that start one after another and work in parallel. */
export function crowd(session: string, begin: number, agents = AGENTS, calls = CALLS): Published[] {
  const events: Published[] = [];
  for (let number = 0; number < agents; number++) {
    const kind = TYPES[number % TYPES.length] ?? "";
    const start = begin + number * 400;
    const base = {
      subagentName: `${kind} ${number}`,
      subagentRunId: `run-${number}`,
      sessionId: session,
      // Every fifth agent is a child of the one before it.
      ...(number % 5 === 4 ? { parentRunId: `run-${number - 1}` } : {}),
    };
    const add = (at: number, type: string, more: object = {}): void => {
      events.push({ ...base, timestamp: start + at, type, ...more });
    };
    add(0, "subagent_start", { payload: `Look at part ${number} and say what is wrong with it.` });
    for (let call = 0; call < calls; call++) {
      const at = 500 + call * 1_900;
      const tool = { toolName: TOOLS[(number + call) % TOOLS.length], toolCallId: `${number}-${call}` };
      add(at, "tool_call", { ...tool, payload: { file_path: `/src/part${number}/file${call}.ts` } });
      add(at + 300 + ((number * 31 + call * 17) % 900), "tool_result", { ...tool, payload: `line one\nline two of ${call}`, isError: call % 13 === 12 });
    }
    add(500 + calls * 1_900, "subagent_end");
  }
  return events.sort((one, other) => one.timestamp - other.timestamp);
}

/** Sends the events in batches of 5,000. */
export async function publish(server: Server, events: Published[], key: string): Promise<void> {
  for (let from = 0; from < events.length; from += 5_000) {
    const lines = events.slice(from, from + 5_000).map((event) => JSON.stringify(event));
    await server.ingest("subagent-events", "crowd", lines, `${key} ${from}`);
  }
}
