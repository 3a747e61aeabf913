// What the status bar and the tree say. The words and figures are those of the page (`web/src/lib`). Texts of agents are
// untrusted: they are shown as plain strings in one line, their hidden characters spelled.

import { ago, money, many } from "../../../web/src/lib/format";
import { oneLine } from "../../../web/src/lib/safe";
import { activityNow, certainParts, needWords, NEED_GLYPHS, program, project, readingWords, sessionTitle, sessionTone, title, tokens, tone, why } from "../../../web/src/lib/words";
import type { Agent, InboxEntry, SessionRow } from "../../../web/src/model";
import type { Snapshot, View } from "./monitor";

/** Most characters of a text from outside in one place, and in a label, beside which the state still has room. */
const [LONGEST, LONGEST_LABEL] = [200, 36];

const short = (text: string, most = LONGEST): string => (text.length > most ? `${text.slice(0, most - 1).trimEnd()}…` : text);

/** Texts in which the editor reads `$(name)` as an icon, or `[text](address)` as a link, get neither from outside. */
export const inert = (text: string): string => short(oneLine(text)).replaceAll("$(", "$ (").replaceAll("](", "] (");

const cost = (micro: number | null, floor: boolean): string => (micro === null ? "cost unknown" : money(micro, floor));

const parts = (...some: (string | null | undefined | false)[]): string => some.filter((part) => part).join(" · ");

export interface Line {
  text: string;
  tooltip: string;
  /** The most urgent of what it says. */
  worst: "waits" | "trouble" | "none" | "unknown";
}

/** The status bar: the worst first, then the agents at work, then the cost. */
export function statusLine(view: View, isInstalled: boolean): Line {
  switch (view.state) {
    case "connecting":
      return { text: "subscope", tooltip: "subscope: looking for the hub", worst: "unknown" };
    case "refused":
      return { text: "subscope: no access", tooltip: `subscope: ${view.why}`, worst: "unknown" };
    case "no hub":
      return isInstalled
        ? { text: "subscope: no hub", tooltip: "subscope: no hub runs, so nothing is known about agents now", worst: "unknown" }
        : { text: "subscope: not installed", tooltip: "The program subscope was not found on this machine. Click to see how to install it.", worst: "unknown" };
    case "live":
      return liveLine(view.snapshot);
  }
}

function liveLine({ status, inbox, health }: Snapshot): Line {
  const certain = certainParts(inbox);
  const agents = status.running === 0 ? "no agents" : many(status.running, "agent");
  const spent = status.sessions === 0 ? "" : cost(status.cost_micro_usd, status.cost_floor);
  const [first] = certain;
  const tooltip = [
    `subscope: ${certain.length === 0 ? "no session needs you" : certain.map(({ words }) => words).join(", ")}`,
    `${many(status.sessions, "session")} at work, ${many(status.running, "subagent")} at work`,
    `waiting for a permission ${status.waiting_for_permission}, an answer ${status.waiting_for_answer}, a decision ${status.waiting_for_plan}; stalled ${status.stalled}`,
    spent === "" ? "" : `cost of the sessions at work: ${spent}`,
    health.reading ? readingWords(health.reading) : "",
    `hub ${oneLine(health.version)}, process ${health.pid}`,
  ];
  return {
    text: parts(...certain.map(({ words }) => words), agents, spent),
    tooltip: tooltip.filter((line) => line !== "").join("\n"),
    worst: first?.group === "waits" || first?.group === "trouble" ? first.group : "none",
  };
}

/** One row of the tree. */
export interface Row {
  label: string;
  description: string;
  tooltip: string;
  /** Name of one of the editor's icons, and of its color. The words say the same. */
  icon: string;
  color?: string;
}

const ICONS: Record<string, [icon: string, color?: string]> = {
  waiting: ["bell-dot", "charts.yellow"],
  stalled: ["warning", "charts.orange"],
  running: ["play-circle", "charts.blue"],
  pending: ["clock"],
  idle: ["circle-outline"],
  completed: ["pass", "charts.green"],
  failed: ["error", "charts.red"],
  stopped: ["stop-circle"],
  lost: ["question"],
};

/** The words for a look of an agent or a session. */
const TONES: Record<string, string> = { waiting: "waits for you", stalled: "in trouble" };

function iconOf(look: string): Pick<Row, "icon" | "color"> {
  const [icon, color] = ICONS[look] ?? ["circle-outline"];
  return color === undefined ? { icon } : { icon, color };
}

/** A session that needs the user: the label says for what. */
export function needRow({ session }: InboxEntry, now: number): Row {
  const need = session.need;
  const row = sessionRow(session, now);
  if (!need) return row;
  const [first] = need.agents;
  // One agent says since when; several are a sentence.
  const words = first && need.agents.length === 1 ? `${oneLine(first.title)} ${needWords(first, now)}` : oneLine(need.words);
  const look = { waits: "waiting", trouble: "stalled", perhaps: "idle" }[need.group];
  return {
    ...iconOf(look),
    label: short(`${NEED_GLYPHS[need.group]} ${words}`),
    description: parts(project(session), short(sessionTitle(session))),
    tooltip: `${short(words)}\n${row.tooltip}`,
  };
}

export function sessionRow(session: SessionRow, now: number): Row {
  const look = sessionTone(session.attention, session.root);
  const heard = session.last_event_at_ms === null ? "" : `${ago(now - session.last_event_at_ms)} ago`;
  const spent = cost(session.cost_micro_usd, session.cost_floor);
  const agents = session.status === "live" && session.running > 0 ? `${session.running} of ${many(session.agents, "agent")} at work` : many(session.agents, "agent");
  const where = [project(session), session.machine ? `on ${oneLine(session.machine)}` : ""].filter((part) => part !== "").join(" ");
  const tooltip = [
    short(sessionTitle(session)),
    parts(program(session), short(oneLine(session.cwd)), session.machine ? `machine ${oneLine(session.machine)}` : ""),
    parts(TONES[look] ?? look, agents, `${session.failed} failed`, many(session.tool_calls, "call"), spent),
    tokens(session.usage) || "tokens unknown",
    session.problem ? `stored rows: ${short(oneLine(session.problem))}` : "",
    `session ${short(oneLine(session.id))}`,
  ];
  return {
    label: short(sessionTitle(session), LONGEST_LABEL),
    description: parts(TONES[look] ?? look, where, agents, spent, session.status === "ended" && heard),
    tooltip: tooltip.filter((line) => line !== "").join("\n"),
    ...iconOf(look),
  };
}

export function agentRow(agent: Agent, now: number): Row {
  const look = tone(agent);
  const doing = activityNow(agent, now);
  const state = TONES[look] ?? look;
  const flags = agent.flags.filter((flag) => flag !== "inferred").join(", ");
  const tooltip = [
    short(title(agent)),
    parts(why(agent) || state, flags),
    parts(agent.model === null ? "model unknown" : oneLine(agent.model), many(agent.tool_calls, "call"), `${agent.tool_errors} failed`, cost(agent.cost_micro_usd, agent.cost_floor)),
    tokens(agent.usage) || "tokens unknown",
    agent.error === null ? "" : `error: ${short(oneLine(agent.error))}`,
  ];
  return {
    label: short(title(agent), LONGEST_LABEL),
    description: short(parts(doing === "" || look === "waiting" || look === "stalled" ? state : "", doing, doing === "" && cost(agent.subtree.cost_micro_usd, agent.subtree.cost_floor))),
    tooltip: tooltip.filter((line) => line !== "").join("\n"),
    ...iconOf(look),
  };
}
