// How lists of sessions are grouped, and kept still under a pointer.
import type { Placed } from "./attention";

export type Grouping = "time" | "project";

/** The group of a session that has ended, by its last event; those that are live are one of their own. */
export function timeGroup({ attention, last_event_at_ms: at }: Pick<Placed, "attention" | "last_event_at_ms">, now: number): string {
  if (attention !== "ended") return "live";
  const today = new Date(now).setHours(0, 0, 0, 0);
  // Days of clock changes are an hour longer or shorter.
  const days = Math.round((today - new Date(at ?? 0).setHours(0, 0, 0, 0)) / 86_400_000);
  return days <= 0 ? "today" : days === 1 ? "yesterday" : days < 7 ? "this week" : "older";
}

export interface Group<T> {
  name: string;
  rows: T[];
}

/** Rows by group: groups in the order of their first rows, rows in their own. */
export function grouped<T>(rows: T[], of: (row: T) => string): Group<T>[] {
  const groups = new Map<string, T[]>();
  for (const row of rows) {
    const name = of(row);
    const known = groups.get(name);
    if (known) known.push(row);
    else groups.set(name, [row]);
  }
  return [...groups].map(([name, all]) => ({ name, rows: all }));
}

/** Keeps the order of a list while the pointer is over it: rows do not move, new rows are appended. */
export class SteadyOrder {
  /** Whether a pointer is over the list. */
  isHeld = $state(false);
  #last: string[] = [];

  arrange<T extends { id: string }>(sorted: T[]): T[] {
    let arranged = sorted;
    if (this.isHeld) {
      const places = new Map(this.#last.map((id, place) => [id, place]));
      const place = ({ id }: T): number => places.get(id) ?? Infinity;
      const known = sorted.filter(({ id }) => places.has(id)).sort((one, other) => place(one) - place(other));
      arranged = [...known, ...sorted.filter(({ id }) => !places.has(id))];
    }
    this.#last = arranged.map(({ id }) => id);
    return arranged;
  }
}
