// Texts about what this machine sends to its team's server.
import type { ContentLevel, Sending } from "../model";
import { visible } from "./safe";

/** Content that is sent at each level. */
export const LEAVES: Record<ContentLevel, string> = {
  figures: "Ids, types of agents, models, names of tools, times, statuses, counts, tokens, cost, and the project's name: no title, no text, no path.",
  titles: "Also titles, names and descriptions of agents, short details of calls, and first lines of errors.",
  text: "Also prompts, messages, arguments and results, as searchable passages.",
};

export interface SendingState {
  words: string;
  more: string;
  look: "" | "running" | "stalled" | "failed";
}

/** Describes whether this machine sends, and if not, why. */
export function stateOf({ url, is_on, is_forwarding, error }: Pick<Sending, "url" | "is_on" | "is_forwarding" | "error">): SendingState {
  if (url === null) return { words: "Nothing leaves this machine.", more: "No team's server is set: [team] url in the settings names one.", look: "" };
  if (!is_on) return { words: "Nothing is sent now.", more: "team.forward is false, or only a variable names the server.", look: "" };
  if (error !== null) return { words: "Sessions wait here: they cannot be sent now.", more: "", look: "failed" };
  if (!is_forwarding) return { words: "No process sends now.", more: "A hub sends while it runs; it is starting, or ended.", look: "stalled" };
  return { words: "This machine's sessions are sent to its team.", more: "", look: "running" };
}

/** Returns a line of JSON, indented; other text unchanged. */
export function printed(line: string): string {
  try {
    return visible(JSON.stringify(JSON.parse(line), null, 2));
  } catch {
    return visible(line);
  }
}
