// Rows from the stream: each change carries the row's place, and the highest rev wins. No derivation, no sorting.
import type { Agent, Change, Session, Summary, Tree } from "../model";
import { isAtWork, title } from "./words";

const rev = (row: { rev?: number }): number => row.rev ?? 0;
const newest = (tree: Tree): number => Math.max(rev(tree.session), ...tree.agents.map(rev));

/** One session's rows, outside of any framework. */
export class Rows {
  session: Session;
  summary: Summary;
  /** In the order of the tree. */
  agents: Agent[];
  /** The highest rev so far: an unknown row with a lower one no longer exists. */
  #rev: number;

  constructor(tree: Tree) {
    this.session = tree.session;
    this.summary = tree.summary;
    this.agents = tree.agents;
    this.#rev = newest(tree);
  }

  /** Replaces all rows with a snapshot from the stream. The same rows stay the same objects: nobody has to look at them again. */
  replace(tree: Tree): void {
    if (this.#has(tree)) return;
    this.session = tree.session;
    this.summary = tree.summary;
    this.agents = tree.agents;
    this.#rev = newest(tree);
  }

  /** Merges a tree from a request, unless the stream has sent newer rows in the meantime. */
  merge(tree: Tree): void {
    if (newest(tree) >= this.#rev) this.replace(tree);
  }

  /** Whether a tree has the revs of these rows. */
  #has({ session, agents }: Tree): boolean {
    const isSame = (row: { rev?: number }, own: { rev?: number } | undefined): boolean => row.rev !== undefined && row.rev === own?.rev;
    return isSame(session, this.session) && agents.length === this.agents.length && agents.every((row, at) => isSame(row, this.agents[at]) && row.id === this.agents[at]?.id);
  }

  /** Puts changed rows in their places; the others keep their order. */
  change({ sessions: [session], agents, removed, places, summary }: Change): void {
    if (rev(session) >= rev(this.session)) {
      this.session = session;
      if (summary) this.summary = summary;
    }
    const known = new Map(this.agents.map((row) => [row.id, row]));
    const news = agents
      .map((row, at) => ({ row, place: places?.[at] ?? Infinity }))
      .filter(({ row }) => {
        const before = known.get(row.id);
        return before ? rev(row) >= rev(before) : row.rev === undefined || row.rev > this.#rev;
      });
    this.#rev = Math.max(this.#rev, ...news.map(({ row }) => rev(row)));
    const moved = new Set([...removed, ...news.map(({ row }) => row.id)]);
    const kept = this.agents.filter((row) => !moved.has(row.id));
    const ordered: Agent[] = [];
    for (const { row, place } of news) {
      ordered.push(...kept.splice(0, Math.max(0, place - ordered.length)), row);
    }
    this.agents = [...ordered, ...kept];
  }
}

/** Rows that are shown when those below some are folded away. */
export function unfolded(rows: Agent[], folded: ReadonlySet<string>): Agent[] {
  if (folded.size === 0) return rows;
  const hidden = new Set<string>();
  return rows.filter((row) => {
    const isHidden = row.parent_id !== null && (hidden.has(row.parent_id) || folded.has(row.parent_id));
    if (isHidden) hidden.add(row.id);
    return !isHidden;
  });
}

/** Ids of rows that have others below them. */
export function parents(rows: Agent[]): Set<string> {
  return new Set(rows.flatMap((row) => (row.parent_id === null ? [] : [row.parent_id])));
}

/** Kinds of agents that a tree can be filtered by. */
export type Kind = "running" | "failed" | "flagged";

const KINDS: Record<Kind, (row: Agent) => boolean> = {
  running: isAtWork,
  failed: ({ status }) => status === "failed" || status === "lost",
  flagged: ({ flags }) => flags.length > 0,
};

export function countsOf(rows: Agent[]): Record<Kind, number> {
  const count = (kind: Kind): number => rows.filter(KINDS[kind]).length;
  return { running: count("running"), failed: count("failed"), flagged: count("flagged") };
}

/** Rows with all of these words in their names, of a kind if one is chosen, and those above them. */
export function found(rows: Agent[], words: string, kind: Kind | null): Agent[] {
  const wanted = words.toLowerCase().split(/\s+/);
  const isFound = (row: Agent): boolean => {
    const text = `${title(row)} ${row.name ?? ""} ${row.id}`.toLowerCase();
    return (kind === null || KINDS[kind](row)) && wanted.every((word) => text.includes(word));
  };
  const above = new Map(rows.map((row) => [row.id, row.parent_id]));
  const shown = new Set<string>();
  for (const row of rows.filter(isFound)) {
    for (let id: string | null | undefined = row.id; id && !shown.has(id); id = above.get(id)) shown.add(id);
  }
  return rows.filter(({ id }) => shown.has(id));
}
