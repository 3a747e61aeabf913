// Which rows of the waterfall lie where: agents, and below an unfolded agent its calls.
import type { Agent, ToolCall } from "../model";

/** One row. */
export interface Row {
  key: string;
  agent: Agent;
  /** Null for the row of the agent itself. */
  call: ToolCall | null;
  /** Position among all rows, from 0. */
  number: number;
  /** In pixels from the first row. */
  top: number;
  height: number;
}

export interface Heights {
  agent: number;
  call: number;
}

/** Rows of any number: only those that a caller wants are made, each once. */
export class Layout {
  readonly count: number;
  readonly height: number;
  /** For each agent the number of its row. */
  #numbers: Float64Array;
  /** For each agent the top of its row. */
  #tops: Float64Array;
  #places: Map<string, number>;
  /** Cached rows, by number: components compare rows by identity. */
  #made = new Map<number, Row>();

  constructor(
    readonly agents: Agent[],
    /** Ids of agents whose calls are shown. */
    readonly unfolded: ReadonlySet<string>,
    readonly heights: Heights,
  ) {
    this.#numbers = new Float64Array(agents.length + 1);
    this.#tops = new Float64Array(agents.length + 1);
    agents.forEach((agent, at) => {
      const calls = unfolded.has(agent.id) ? agent.tools.length : 0;
      this.#numbers[at + 1] = (this.#numbers[at] ?? 0) + 1 + calls;
      this.#tops[at + 1] = (this.#tops[at] ?? 0) + heights.agent + calls * heights.call;
    });
    this.count = this.#numbers[agents.length] ?? 0;
    this.height = this.#tops[agents.length] ?? 0;
    this.#places = new Map(agents.map(({ id }, at) => [id, at]));
  }

  /** The row with this number: the same one each time. */
  row(number: number): Row | undefined {
    let row = this.#made.get(number);
    if (!row) {
      row = this.#make(number);
      if (row) this.#made.set(number, row);
    }
    return row;
  }

  #make(number: number): Row | undefined {
    const at = before(this.#numbers, number);
    const agent = this.agents[at];
    if (!agent || number < 0) return undefined;
    const call = number - (this.#numbers[at] ?? 0) - 1;
    const top = this.#tops[at] ?? 0;
    if (call < 0) return { key: agent.id, agent, call: null, number, top, height: this.heights.agent };
    const tool = agent.tools[call];
    const key = `${agent.id} ${call}`;
    return tool && { key, agent, call: tool, number, top: top + this.heights.agent + call * this.heights.call, height: this.heights.call };
  }

  /** The number of the row at a height; that of the last one below all. */
  numberAt(y: number): number {
    const at = before(this.#tops, y);
    if (at >= this.agents.length) return this.count;
    const below = y - (this.#tops[at] ?? 0) - this.heights.agent;
    return (this.#numbers[at] ?? 0) + (below < 0 ? 0 : 1 + Math.floor(below / this.heights.call));
  }

  /** The row of an agent, or of its call where that is shown. */
  find(agent: string, call: string | null): Row | undefined {
    const at = this.#places.get(agent);
    if (at === undefined) return undefined;
    const isUnfolded = call !== null && this.unfolded.has(agent);
    const place = isUnfolded ? (this.agents[at]?.tools.findIndex(({ id }) => id === call) ?? -1) : -1;
    return this.row((this.#numbers[at] ?? 0) + 1 + place);
  }

  /** Rows from one number to before another. */
  rows(from: number, to: number): Row[] {
    const all: Row[] = [];
    for (let number = Math.max(0, from); number < Math.min(to, this.count); number++) {
      const row = this.row(number);
      if (row) all.push(row);
    }
    return all;
  }
}

/** A row with the element that shows it. */
export interface Placed {
  row: Row;
  /** The element. */
  slot: number;
}

/** Reuses the elements of rows that have left the screen for rows that enter it: cheaper than creating elements. */
export class Slots {
  /** The rows on the screen, by key. */
  #taken = new Map<string, Placed>();
  #count = 0;

  /** Assigns elements to the rows on the screen, in order. A row that stays keeps its element; that of the focused row is not reused. */
  place(rows: Row[], focused: string | null): Placed[] {
    const shown = new Set<string>();
    const coming: Record<Kind, number> = { agent: 0, call: 0 };
    for (const row of rows) {
      shown.add(row.key);
      if (!this.#taken.has(row.key)) coming[kindOf(row)] += 1;
    }
    const free: Record<Kind, number[]> = { agent: [], call: [] };
    for (const [key, { row, slot }] of this.#taken) if (!shown.has(key) && key !== focused) free[kindOf(row)].push(slot);
    // Elements are moved around those that stay, unless more come than stay, or some are new: then those that stay could be
    // moved, and the focus with them, which ends it.
    const isFew = (coming.agent + coming.call) * 2 < rows.length && coming.agent <= free.agent.length && coming.call <= free.call.length;
    const mayReuse = isFew || focused === null || !shown.has(focused);
    const placed = rows.map((row) => {
      const known = this.#taken.get(row.key);
      if (known?.row === row) return known;
      const slot = known?.slot ?? (mayReuse ? free[kindOf(row)].shift() : undefined);
      return { row, slot: slot ?? this.#count++ };
    });
    this.#taken = new Map(placed.map((one) => [one.row.key, one]));
    return placed;
  }
}

type Kind = "agent" | "call";
const kindOf = ({ call }: Row): Kind => (call ? "call" : "agent");

/** Index of the last value that is not greater than the wanted one. */
function before(values: Float64Array, wanted: number): number {
  let [low, high] = [0, values.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((values[middle] ?? 0) <= wanted) low = middle;
    else high = middle - 1;
  }
  return low;
}
