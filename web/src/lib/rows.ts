// Rows as they come: by key, the one with the highest rev. Order and counting, no rules.
import type { Agent, Session, Tree } from "../model";

export interface Change {
  sessions: Session[];
  agents: Agent[];
  removed: string[];
}

const rev = (row: { rev?: number } | undefined): number => row?.rev ?? 0;

/** One session's rows, outside of any framework. */
export class Rows {
  session: Session;
  #agents = new Map<string, Agent>();

  constructor(tree: Tree) {
    this.session = tree.session;
    for (const agent of tree.agents) this.#agents.set(agent.id, agent);
  }

  /** Takes a tree that came in the order of the stream: it is what there is. */
  replace(tree: Tree): void {
    this.session = tree.session;
    this.#agents = new Map(tree.agents.map((agent) => [agent.id, agent]));
  }

  /** Takes a tree that was asked for: the stream may have told newer rows meanwhile. */
  merge(tree: Tree): void {
    const newest = Math.max(rev(tree.session), ...tree.agents.map(rev));
    const asked = new Set(tree.agents.map((agent) => agent.id));
    for (const [id, row] of this.#agents) if (!asked.has(id) && rev(row) <= newest) this.#agents.delete(id);
    for (const row of tree.agents) this.#take(row);
    if (rev(tree.session) >= rev(this.session)) this.session = tree.session;
  }

  change({ sessions, agents, removed }: Change): void {
    for (const session of sessions) {
      if (session.id === this.session.id && rev(session) >= rev(this.session)) this.session = session;
    }
    for (const id of removed) this.#agents.delete(id);
    for (const row of agents) this.#take(row);
  }

  #take(row: Agent): void {
    if (rev(row) >= rev(this.#agents.get(row.id))) this.#agents.set(row.id, row);
  }

  /** All agents in pre-order, siblings by start, those without a known parent at the end. */
  ordered(): Agent[] {
    return preorder([...this.#agents.values()]);
  }
}

/** Puts rows in pre-order. What begins together stays in the order in which it came. */
export function preorder(rows: Agent[]): Agent[] {
  const known = new Set(rows.map((row) => row.id));
  const below = new Map<string, Agent[]>();
  const tops: Agent[] = [];
  const orphans: Agent[] = [];
  for (const row of rows) {
    if (row.parent_id !== null && row.parent_id !== row.id && known.has(row.parent_id)) {
      const list = below.get(row.parent_id);
      if (list) list.push(row);
      else below.set(row.parent_id, [row]);
    } else {
      (row.id === "root" ? tops : orphans).push(row);
    }
  }
  const begin = (row: Agent): number => row.started_at_ms ?? row.last_event_at_ms ?? Number.MAX_SAFE_INTEGER;
  const byStart = (list: Agent[]): Agent[] => list.sort((one, other) => begin(one) - begin(other));
  const ordered: Agent[] = [];
  const seen = new Set<string>();
  const open = [...byStart(orphans).reverse(), ...tops];
  for (let row = open.pop(); row; row = open.pop()) {
    if (seen.has(row.id)) continue;
    seen.add(row.id);
    ordered.push(row);
    open.push(...byStart(below.get(row.id) ?? []).reverse());
  }
  // Parents that make a circle hang below nobody.
  if (ordered.length < rows.length) ordered.push(...rows.filter((row) => !seen.has(row.id)));
  return ordered;
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
