// The waterfall as a self-contained picture: SVG, and PNG rendered from it.
import type { Summary } from "../model";
import type { Timeline } from "./api";
import { duration, money } from "./format";
import { bars, fill, isFault, LEGEND, type Paint, pathOf, ticks, type Window } from "./lanes";
import { oneLine } from "./safe";

const TEXT: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const quoted = (text: string): string => oneLine(text).replace(/[&<>"]/g, (character) => TEXT[character] ?? "");

const shortened = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export interface Drawn {
  timeline: Timeline;
  window: Window;
  /** What people call the lanes' agents, with their depth. */
  names: Map<string, string>;
  title: string;
  /** The totals below the lanes; null if they are not known. */
  summary: Summary | null;
}

/** What the whole session was, in one line. */
export function totals(summary: Summary): string {
  const { agents, wall_ms, agent_ms, cost_micro_usd, cost_floor } = summary;
  const parallel = wall_ms && agent_ms ? Math.floor((agent_ms * 10) / wall_ms) / 10 : 0;
  const words = [
    `${agents} ${agents === 1 ? "agent" : "agents"}`,
    duration(wall_ms),
    money(cost_micro_usd, cost_floor),
    // As in the terminal: a parallelism of 1 is not printed.
    parallel > 1 ? `${parallel.toFixed(1)}× parallel` : "",
    "subscope",
  ];
  return words.filter((word) => word !== "").join(" · ");
}

/** The kinds of spans other than calls: color, height and label. */
const OTHERS = [
  ["--wait", 2, "waits for the model"],
  ["--waiting", 4, "waits for a permission"],
  ["--stalled", 10, "tries again"],
  ["--failed", 10, "failed"],
  ["--critical", 2, "critical path"],
] as const;
/** About how wide a character of the legend is, and how wide the time of a tick, in pixels. */
const LETTER = 6.4;
const TICK = 52;

/** The whole waterfall as a self-contained SVG. */
export function svg({ timeline, window, names, title, summary }: Drawn, paint: Paint, clock: (ms: number) => string): string {
  const [left, right, row, head] = [300, 900, 22, 46];
  const width = left + right + 20;
  const height = head + timeline.lanes.length * row + 52;
  const scale = right / Math.max(1, window.to - window.from);
  const x = (ms: number): number => left + (ms - window.from) * scale;
  const rect = (from: number, wide: number, y: number, high: number, fill: string, radius = 0): string =>
    `<rect x="${from.toFixed(1)}" y="${y}" width="${Math.max(1, wide).toFixed(1)}" height="${high}" fill="${fill}"${radius > 0 ? ` rx="${radius}"` : ""}/>`;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui,sans-serif" font-size="12">`,
    `<rect width="${width}" height="${height}" fill="${paint("--bg")}"/>`,
    `<text x="12" y="22" fill="${paint("--text")}" font-size="14" font-weight="600">${quoted(shortened(title, 120))}</text>`,
  ];
  for (const { at } of ticks(window, right, 90)) {
    parts.push(`<path d="M${x(at).toFixed(1)} ${head - 6}V${height - 48}" stroke="${paint("--line")}"/>`);
    if (x(at) + TICK <= width) parts.push(`<text x="${(x(at) + 3).toFixed(1)}" y="${head - 8}" fill="${paint("--dim")}" font-size="10">${clock(at)}</text>`);
  }
  const path = pathOf(timeline);
  timeline.lanes.forEach((lane, at) => {
    const y = head + at * row;
    const indent = 12 + Math.min(lane.depth, 10) * 12;
    parts.push(`<text x="${indent}" y="${y + 15}" fill="${paint("--text")}">${quoted(shortened(names.get(lane.agent_id) ?? lane.agent_id, Math.max(12, 44 - lane.depth * 2)))}</text>`);
    for (const bar of bars(lane.spans, window, right, null, timeline.end_ms)) {
      const from = left + bar.x;
      if (bar.span.kind === "model") parts.push(rect(from, bar.width, y + 10, 2, paint("--wait")));
      else if (bar.span.kind === "children") parts.push(rect(from, bar.width, y + 8, 6, paint("--kind-agent")));
      else if (bar.span.kind === "permission") parts.push(rect(from, bar.width, y + 9, 4, paint("--waiting")));
      else if (bar.span.kind === "retry") parts.push(rect(from, bar.width, y + 6, 10, paint("--stalled")));
      else if (!isFault(bar.span)) parts.push(rect(from, bar.width, y + 5, 12, paint(fill(bar.span)), 2));
    }
    // What went wrong lies over its neighbors, and is never too thin to be seen.
    for (const { span, x: from, width: wide } of bars(lane.spans, window, right, null, timeline.end_ms)) {
      if (isFault(span)) parts.push(rect(left + from, Math.max(3, wide), y + 3, 16, paint(fill(span)), 2));
    }
    for (const step of path.get(lane.agent_id) ?? []) {
      if (step.to_ms < window.from || step.from_ms > window.to) continue;
      const [from, to] = [Math.max(step.from_ms, window.from), Math.min(step.to_ms, window.to)];
      parts.push(rect(x(from), x(to) - x(from), y + 19, 2, paint("--critical")));
    }
  });
  let legend = 12;
  const named = (color: string, high: number, word: string): void => {
    parts.push(rect(legend, 12, height - 31 - high / 2, high, paint(color), high > 4 ? 2 : 0));
    parts.push(`<text x="${legend + 17}" y="${height - 27}" fill="${paint("--dim")}" font-size="11">${word}</text>`);
    legend += Math.round(34 + word.length * LETTER);
  };
  for (const [kind, word] of LEGEND) named(`--kind-${kind}`, 10, word);
  for (const [color, high, word] of OTHERS) named(color, high, word);
  if (summary) parts.push(`<text x="12" y="${height - 9}" fill="${paint("--text")}" font-size="12">${quoted(totals(summary))}</text>`);
  return `${parts.join("")}</svg>`;
}

/** A drawn picture as PNG, with two pixels for each of its own. */
export async function png(picture: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth * 2, image.naturalHeight * 2];
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done, fail) => canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("the picture is too large"))), "image/png"));
}
