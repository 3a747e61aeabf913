// The calls of agents, found by the bars of the waterfall.
import type { Agent, ToolCall } from "../model";
import type { Span } from "./api";
import { oneLine } from "./safe";

const known = new WeakMap<ToolCall[], Map<string | null, ToolCall>>();

/** The call that a bar shows; none for waits. */
export function callOf({ tools }: Agent, { call_id }: Span): ToolCall | undefined {
  if (call_id === null) return undefined;
  let byId = known.get(tools);
  if (!byId) known.set(tools, (byId = new Map(tools.map((tool) => [tool.id, tool]))));
  return byId.get(call_id);
}

/** `Bash npm test`. */
export const worded = (agent: Agent, span: Span): string =>
  [oneLine(span.name), oneLine(callOf(agent, span)?.detail)].filter((word) => word !== "").join(" ");
