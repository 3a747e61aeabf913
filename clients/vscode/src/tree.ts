// The tree: what needs you first, then what is at work, then what has ended; agents below their sessions.

import * as vscode from "vscode";

import type { Agent, InboxEntry, SessionRow, Tree } from "../../../web/src/model";
import { readingWords } from "../../../web/src/lib/words";
import type { Hub } from "./hub";
import type { View } from "./monitor";
import { agentRow, needRow, type Row, sessionRow } from "./words";

/** Most agents below one row; the page has all. */
const MOST_AGENTS = 200;

export type Node =
  | { kind: "group"; id: string; name: string; nodes: Node[] }
  | { kind: "session"; session: SessionRow; entry: InboxEntry | null }
  | { kind: "agent"; session: string; agent: Agent; below: Node[] }
  | { kind: "words"; id: string; words: string };

/** Returns the groups of a view, those with something in them. */
export function groupsOf(view: View): Node[] {
  if (view.state !== "live") return [];
  const { inbox, live, ended } = view.snapshot;
  const plain = (session: SessionRow): Node => ({ kind: "session", session, entry: null });
  const groups: Node[] = [
    { kind: "group", id: "needs", name: "Needs you", nodes: inbox.entries.map((entry): Node => ({ kind: "session", session: entry.session, entry })) },
    { kind: "group", id: "live", name: "At work", nodes: live.map(plain) },
    { kind: "group", id: "ended", name: "Ended", nodes: ended.map(plain) },
  ];
  return groups.filter((group) => group.kind !== "group" || group.nodes.length > 0);
}

/** Returns the agents of a session as rows: the main agent, then those that it started, each with those below it. */
export function agentsOf({ session, agents }: Tree): Node[] {
  const known = new Set(agents.map(({ id }) => id));
  const below = (parent: string): Node[] => {
    const own = agents.filter((agent) => agent.id !== "root" && (known.has(agent.parent_id ?? "") ? agent.parent_id : "root") === parent);
    return own.map((agent) => ({ kind: "agent", session: session.id, agent, below: below(agent.id) }));
  };
  const root = agents.find(({ id }) => id === "root");
  const main: Node[] = root ? [{ kind: "agent", session: session.id, agent: root, below: [] }] : [];
  return [...main, ...below("root")];
}

/** The first rows of a level, and a line that counts the others. */
const bounded = (nodes: Node[], id: string): Node[] =>
  nodes.length <= MOST_AGENTS ? nodes : [...nodes.slice(0, MOST_AGENTS), { kind: "words", id: `${id} more`, words: `${nodes.length - MOST_AGENTS} more in the page` }];

export class SessionTree implements vscode.TreeDataProvider<Node> {
  readonly #changed = new vscode.EventEmitter<undefined>();
  readonly onDidChangeTreeData = this.#changed.event;
  #view: View = { state: "connecting" };
  #shown = "";

  constructor(private readonly hub: () => Hub) {}

  show(view: View): void {
    this.#view = view;
    // Most looks find nothing new: the rows stay the same objects for the editor.
    const shown = JSON.stringify(view.state === "live" ? [view.snapshot.inbox.entries, view.snapshot.live, view.snapshot.ended, Math.floor(Date.now() / 60_000)] : view.state);
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#changed.fire(undefined);
  }

  /** What stands above the tree. */
  get message(): string | undefined {
    const reading = this.#view.state === "live" ? this.#view.snapshot.health.reading : undefined;
    return reading ? `Still reading: ${readingWords(reading)}` : undefined;
  }

  async getChildren(node?: Node): Promise<Node[]> {
    if (node === undefined) return groupsOf(this.#view);
    switch (node.kind) {
      case "group":
        return node.nodes;
      case "session":
        return this.#agents(node.session.id);
      case "agent":
        return bounded(node.below, `${node.session} ${node.agent.id}`);
      case "words":
        return [];
    }
  }

  async #agents(session: string): Promise<Node[]> {
    try {
      return bounded(agentsOf(await this.hub().get<Tree>(`/api/v1/sessions/${encodeURIComponent(session)}/tree`)), session);
    } catch (error) {
      return [{ kind: "words", id: `${session} error`, words: error instanceof Error ? error.message : String(error) }];
    }
  }

  getTreeItem(node: Node): vscode.TreeItem {
    const { Collapsed, Expanded, None } = vscode.TreeItemCollapsibleState;
    const now = Date.now();
    switch (node.kind) {
      case "group": {
        const item = new vscode.TreeItem(node.name, Expanded);
        item.id = node.id;
        item.description = String(node.nodes.length);
        return item;
      }
      case "session": {
        const row = node.entry ? needRow(node.entry, now) : sessionRow(node.session, now);
        const item = itemOf(row, Collapsed, `s ${node.session.id}`, "session");
        item.command = opening(node.session.id, node.session.need?.agents[0]?.agent_id ?? null);
        return item;
      }
      case "agent": {
        const item = itemOf(agentRow(node.agent, now), node.below.length > 0 ? Expanded : None, `a ${node.session} ${node.agent.id}`, "agent");
        item.command = opening(node.session, node.agent.id);
        return item;
      }
      case "words": {
        const item = new vscode.TreeItem(node.words, None);
        item.id = node.id;
        return item;
      }
    }
  }

  dispose(): void {
    this.#changed.dispose();
  }
}

function itemOf(row: Row, state: vscode.TreeItemCollapsibleState, id: string, kind: string): vscode.TreeItem {
  const item = new vscode.TreeItem(row.label, state);
  item.id = id;
  item.description = row.description;
  // A plain string: the editor shows it as it is, and not as Markdown.
  item.tooltip = row.tooltip;
  item.contextValue = kind;
  item.iconPath = new vscode.ThemeIcon(row.icon, row.color === undefined ? undefined : new vscode.ThemeColor(row.color));
  item.accessibilityInformation = { label: `${row.label}, ${row.description}` };
  return item;
}

const opening = (session: string, agent: string | null): vscode.Command => ({
  command: "subscope.open",
  title: "Open in the Page",
  arguments: [addressOf(session, agent)],
});

/** The address of a session or an agent in the page. */
export const addressOf = (session: string, agent: string | null): string =>
  `/s/${encodeURIComponent(session)}${agent === null ? "" : `/a/${encodeURIComponent(agent)}`}`;
