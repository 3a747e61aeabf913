// Rows as the stream gives them: each with its place, the highest rev wins. No rules, no sorting.
import type { Agent, Change, Session, Summary, Tree } from "../model";

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

  /** Takes a tree that came in the order of the stream: it is what there is. */
  replace(tree: Tree): void {
    this.session = tree.session;
    this.summary = tree.summary;
    this.agents = tree.agents;
    this.#rev = newest(tree);
  }

  /** Takes a tree that was asked for, unless the stream has sent newer rows meanwhile. */
  merge(tree: Tree): void {
    if (newest(tree) >= this.#rev) this.replace(tree);
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
