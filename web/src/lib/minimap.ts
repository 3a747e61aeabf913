// The whole session on a strip: activity over time, failures, and waits for a person.
import type { Timeline } from "./api";
import type { Paint, Window } from "./lanes";

/** What happened in each pixel of the strip. */
export interface Density {
  /** Calls at work. */
  calls: Float64Array;
  /** Calls, and agents that wait for the model. */
  all: Float64Array;
  most: number;
  /** Pixels at which a call failed, or a person was waited for. */
  fails: Set<number>;
  waits: Set<number>;
}

export function density({ lanes, end_ms }: Timeline, { from, to }: Window, width: number, now: number | null): Density {
  const scale = width / Math.max(1, to - from);
  const place = (at: number): number => Math.min(width - 1, Math.max(0, Math.floor((at - from) * scale)));
  const [calls, all] = [new Float64Array(width + 1), new Float64Array(width + 1)];
  const [fails, waits] = [new Set<number>(), new Set<number>()];
  const add = (counts: Float64Array, begin: number, end: number): void => {
    counts[begin] = (counts[begin] ?? 0) + 1;
    // An interval does not count in the pixel in which it ends, but in at least one.
    const behind = Math.max(end, begin + 1);
    counts[behind] = (counts[behind] ?? 0) - 1;
  };
  for (const { spans } of lanes) {
    for (const { kind, status, from_ms, to_ms } of spans) {
      const [begin, end] = [place(from_ms), place(now !== null && to_ms >= end_ms ? now : to_ms)];
      if (kind === "permission") for (let at = begin; at <= end; at++) waits.add(at);
      else if (kind !== "children") add(all, begin, end);
      if (kind !== "tool") continue;
      add(calls, begin, end);
      if (status === "error") fails.add(end);
      else if (status === "denied") waits.add(end);
    }
  }
  let most = 1;
  for (let at = 1; at < width; at++) {
    calls[at] = (calls[at] ?? 0) + (calls[at - 1] ?? 0);
    all[at] = (all[at] ?? 0) + (all[at - 1] ?? 0);
    most = Math.max(most, all[at] ?? 0);
  }
  return { calls, all, most, fails, waits };
}

/** How high the marks of failures and waits are, above what was done. */
const TICKS = 8;

/** Draws the strip; the parts outside the window are dimmed. */
export function drawDensity(pen: CanvasRenderingContext2D, { calls, all, most, fails, waits }: Density, width: number, height: number, shown: [number, number] | null, paint: Paint): void {
  const room = height - TICKS - 1;
  const high = (count: number): number => (count <= 0 ? 0 : Math.max(1, (count / most) * room));
  for (const [counts, color] of [[all, "--wait"], [calls, "--kind-run"]] as const) {
    pen.fillStyle = paint(color);
    for (let at = 0; at < width; at++) {
      const part = high(counts[at] ?? 0);
      if (part > 0) pen.fillRect(at, height - part, 1, part);
    }
  }
  pen.fillStyle = paint("--waiting");
  for (const at of waits) pen.fillRect(at, TICKS / 2, 2, TICKS / 2);
  pen.fillStyle = paint("--failed");
  // Many marks are drawn thin, so that they stay distinguishable.
  const thick = fails.size * 6 > width ? 1 : 2;
  for (const at of fails) pen.fillRect(at, 0, thick, TICKS);
  if (!shown) return;
  const [left, right] = shown;
  pen.globalAlpha = 0.65;
  pen.fillStyle = paint("--bg");
  pen.fillRect(0, 0, left, height);
  pen.fillRect(right, 0, width - right, height);
  pen.globalAlpha = 1;
  pen.fillStyle = paint("--accent");
  for (const edge of [left, right]) pen.fillRect(Math.min(width - 2, Math.max(0, edge - 1)), 0, 2, height);
}
