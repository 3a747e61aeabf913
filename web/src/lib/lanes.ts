// The waterfall's geometry: maps time to pixels, finds the visible spans of a lane, and draws them on canvas and as SVG.
import type { ToolCall } from "../model";
import type { Span, Step, Timeline } from "./api";

export interface Window {
  from: number;
  to: number;
}

/** What a tool does, judged by its name: only the color of its bar depends on it. */
export type Kind = "read" | "edit" | "run" | "web" | "agent" | "other";

const KINDS: [Kind, RegExp][] = [
  ["agent", /^(agent|task|sendmessage|taskoutput|taskstop)$/i],
  ["edit", /edit|write|patch|notebook/i],
  ["read", /read|glob|grep|search_files|^ls$|list|find|lsp/i],
  ["run", /bash|shell|exec|run|kill|terminal/i],
  ["web", /web|fetch|browser|http|search/i],
];

/** Names that were judged. A bar is drawn in every frame, and there are few names. */
const JUDGED = new Map<string, Kind>();
const MOST_JUDGED = 1000;

export const kindOf = (span: Span): Kind => (span.kind === "children" ? "agent" : kindOfTool(span.name ?? ""));

export function kindOfTool(name: string): Kind {
  let kind = JUDGED.get(name);
  if (kind === undefined) {
    kind = KINDS.find(([, words]) => words.test(name))?.[0] ?? "other";
    if (JUDGED.size >= MOST_JUDGED) JUDGED.clear();
    JUDGED.set(name, kind);
  }
  return kind;
}

export const LEGEND: [Kind, string][] = [
  ["read", "reads and searches"],
  ["edit", "edits"],
  ["run", "commands"],
  ["web", "web"],
  ["agent", "subagents"],
  ["other", "other tools"],
];

/** A color of the theme. */
export type Paint = (name: string) => string;

/** Steps of a ruler, in milliseconds. */
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000,
  1_800_000, 3_600_000, 7_200_000, 14_400_000, 28_800_000, 86_400_000,
];

/** Moments of a ruler, at least `gap` pixels apart. */
export function ticks({ from, to }: Window, width: number, gap: number): { at: number; step: number }[] {
  const least = ((to - from) * gap) / Math.max(1, width);
  const step = STEPS.find((one) => one >= least) ?? Math.ceil(least / 86_400_000) * 86_400_000;
  // Local midnight is a full hour in UTC in most time zones, and close to one in the others.
  const shift = new Date(from).getTimezoneOffset() * 60_000;
  const all = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to; at += step) all.push({ at, step });
  return all;
}

/** The ticks that have `room` pixels for their label before the end; where none has, the beginning of the window. */
export function labels(window: Window, width: number, gap: number, room: number): { at: number; step: number }[] {
  const whole = ticks(window, width, gap).filter(({ at }) => ((window.to - at) / (window.to - window.from)) * width >= room);
  return whole.length > 0 ? whole : [{ at: window.from, step: 1000 }];
}

/** The window zoomed around a time, within the whole. */
export function zoomed(window: Window, factor: number, about: number, whole: Window): Window {
  const length = Math.min(whole.to - whole.from, Math.max(20, (window.to - window.from) * factor));
  const share = (about - window.from) / Math.max(1, window.to - window.from);
  return clamped({ from: about - share * length, to: about + (1 - share) * length }, whole);
}

/** The window moved into the bounds of the whole. */
export function clamped({ from, to }: Window, whole: Window): Window {
  const length = Math.min(to - from, whole.to - whole.from);
  const begin = Math.min(Math.max(from, whole.from), whole.to - length);
  return { from: begin, to: begin + length };
}

/** Index of the first span that may be visible at `from`. Spans are sorted by begin; none is longer than `longest`. */
export function firstSeen(spans: Span[], longest: number, from: number): number {
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((spans[middle]?.from_ms ?? 0) < from - longest) low = middle + 1;
    else high = middle;
  }
  return low;
}

const LONGEST = new WeakMap<Span[], number>();

function longestOf(spans: Span[]): number {
  let longest = LONGEST.get(spans);
  if (longest === undefined) {
    longest = spans.reduce((max, span) => Math.max(max, span.to_ms - span.from_ms), 0);
    LONGEST.set(spans, longest);
  }
  return longest;
}

/** A stretch of a lane, in pixels. */
export interface Stretch {
  x: number;
  width: number;
}

/** A span with its position in the picture. */
export interface Bar extends Stretch {
  span: Span;
}

/** The visible bars of a lane. A bar that would extend the previous one of its look by less than half a pixel is left out. */
export function bars(spans: Span[], window: Window, width: number, now: number | null, end: number): Bar[] {
  const scale = width / Math.max(1, window.to - window.from);
  const found: Bar[] = [];
  // By look (kind or status): the right edge of its last bar.
  const last = new Map<string, number>();
  for (let at = firstSeen(spans, longestOf(spans), window.from); at < spans.length; at++) {
    const span = spans[at] as Span;
    if (span.from_ms > window.to) break;
    // A span that had not ended when the timeline was fetched grows until now.
    const until = now !== null && span.to_ms >= end ? Math.max(now, span.to_ms) : span.to_ms;
    if (until < window.from) continue;
    const x = (span.from_ms - window.from) * scale;
    const right = (until - window.from) * scale;
    const alike = span.kind === "tool" ? `${span.status}` : span.kind;
    if (right <= (last.get(alike) ?? -1) + 0.5) continue;
    last.set(alike, Math.max(right, x + 1));
    found.push({ span, x: Math.max(x, -4), width: Math.min(right, width + 4) - Math.max(x, -4) });
  }
  return found;
}

/** The bar of a call; one that is open ends at `until`. Null where it has no begin. */
export function spanOf({ id, name, status, basis, started_at_ms, ended_at_ms }: ToolCall, until: number): Span | null {
  if (started_at_ms === null) return null;
  const to_ms = Math.max(started_at_ms, ended_at_ms ?? (status === "open" ? until : started_at_ms));
  return { kind: "tool", from_ms: started_at_ms, to_ms, name, status, call_id: id, is_guess: basis === "stack" || basis === "unknown" };
}

/** The span at a moment: a call before a wait, the one that began last first. */
export function spanAt(spans: Span[], at: number, slack: number, now: number | null, end: number): Span | null {
  let best: Span | null = null;
  for (let place = firstSeen(spans, longestOf(spans), at - slack); place < spans.length; place++) {
    const span = spans[place] as Span;
    if (span.from_ms > at + slack) break;
    const until = now !== null && span.to_ms >= end ? Math.max(now, span.to_ms) : span.to_ms;
    if (until + slack < at) continue;
    if (best === null || best.kind === "model" || span.kind !== "model") best = span;
  }
  return best;
}

/** Steps of the critical path by agent. */
export function pathOf(timeline: Timeline): Map<string, Step[]> {
  const by = new Map<string, Step[]>();
  for (const step of timeline.critical_path) {
    const list = by.get(step.agent_id);
    if (list) list.push(step);
    else by.set(step.agent_id, [step]);
  }
  return by;
}

/** How thick a bar gets, however much room there is. */
const THICKEST = 24;
/** A bar that is narrower has no label. */
const LABELED = 40;
/** About how wide a character of a label is. */
const LETTER = 6.4;

/** Opacity of a bar that is not on the critical path. */
const DIMMED = 0.22;

/** The label of a call's bar. */
export type Label = (span: Span) => string;

/** Draws one lane between `top` and `top + height`. */
export function drawLane(
  pen: CanvasRenderingContext2D,
  all: Bar[],
  path: Stretch[],
  top: number,
  height: number,
  paint: Paint,
  label: Label,
  isPathAlone: boolean,
): void {
  const middle = top + height / 2;
  const thick = Math.min(Math.max(height - 14, 12), THICKEST);
  /** Whether bars that are not on the critical path are dimmed. */
  const dim = ({ x, width }: Bar): void => {
    const isOn = !isPathAlone || path.some((step) => x < step.x + step.width && step.x < x + Math.max(1, width));
    pen.globalAlpha = isOn ? 1 : DIMMED;
  };
  for (const bar of all) {
    const { span, x, width } = bar;
    const wide = Math.max(1, width);
    dim(bar);
    switch (span.kind) {
      case "model":
        pen.fillStyle = paint("--wait");
        pen.fillRect(x, middle - 1, wide, 2);
        break;
      case "permission":
        pen.fillStyle = paint("--waiting");
        for (let dot = x; dot < x + wide; dot += 6) pen.fillRect(dot, middle - 2, Math.min(3, x + wide - dot), 4);
        break;
      case "retry":
        pen.fillStyle = paint("--stalled");
        for (let dash = x; dash < x + wide; dash += 5) pen.fillRect(dash, middle - thick / 2 + 1, Math.min(2, x + wide - dash), thick - 2);
        break;
      case "children":
        pen.fillStyle = paint("--kind-agent");
        pen.fillRect(x, middle - 3, wide, 6);
        break;
      case "tool":
        if (!isFault(span)) drawCall(pen, span, x, wide, middle - thick / 2, thick, paint, label);
        break;
    }
  }
  // Failures are drawn above their neighbors and have a minimum width.
  for (const bar of all) {
    const { span, x, width } = bar;
    dim(bar);
    if (isFault(span)) drawCall(pen, span, x, Math.max(3, width), middle - thick / 2 - 2, thick + 4, paint, label);
  }
  pen.globalAlpha = 1;
}

/** Draws an agent's interval from start to end; its part on the critical path is bright. */
export function drawTrack(pen: CanvasRenderingContext2D, whole: Stretch[], path: Stretch[], top: number, height: number, paint: Paint, isPathAlone: boolean): void {
  const y = top + height / 2;
  pen.globalAlpha = isPathAlone ? DIMMED : 1;
  pen.fillStyle = paint("--track");
  for (const { x, width } of whole) pen.fillRect(x, y - 7, Math.max(1, width), 14);
  pen.globalAlpha = 1;
  for (const { x, width } of path) {
    const wide = Math.max(1, width);
    pen.fillStyle = paint("--path");
    pen.fillRect(x, y - 8, wide, 16);
    pen.fillStyle = paint("--critical");
    pen.fillRect(x, y + 8, wide, 2);
  }
}

export const isFault = ({ kind, status }: Span): boolean => kind === "tool" && (status === "error" || status === "denied");

/** The color of a call: by its tool; a call that went wrong has the color of its status. */
export const fill = (span: Span): string =>
  isFault(span) ? (span.status === "error" ? "--failed" : "--waiting") : `--kind-${kindOf(span)}`;

function drawCall(
  pen: CanvasRenderingContext2D,
  span: Span,
  x: number,
  width: number,
  y: number,
  high: number,
  paint: Paint,
  label: Label,
): void {
  pen.fillStyle = paint(fill(span));
  if (width > 5) {
    pen.beginPath();
    pen.roundRect(x, y, width, high, 2.5);
    pen.fill();
  } else {
    pen.fillRect(x, y, width, high);
  }
  const from = Math.max(x, 0);
  const room = Math.floor((x + width - from - 8) / LETTER);
  if (width < LABELED || room < 4) return;
  const words = (isFault(span) ? "✗ " : "") + label(span);
  pen.fillStyle = paint(isFault(span) ? "--on-fault" : "--on-bar");
  pen.fillText(words.length > room ? `${words.slice(0, room - 1)}…` : words, from + 5, y + high / 2);
}
