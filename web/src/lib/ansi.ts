// Colors of command output: SGR sequences become spans with classes; every other sequence is left out.
import { visible } from "./safe";

export interface Piece {
  text: string;
  /** Class names, `fg1 bold`; empty for plain text. */
  style: string;
}

interface Pen {
  fg: number | null;
  bg: number | null;
  marks: Set<string>;
}

// CSI, OSC (to BEL or ST), other string sequences, and two-character escapes.
// eslint-disable-next-line no-control-regex
const ESCAPE = /\u001b(?:\[([0-9;:?]*)([ -/]*[@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-Z\\^-~])/g;

const MARKS: Record<number, string> = { 1: "bold", 2: "faint", 3: "italic", 4: "under", 7: "inverse", 9: "strike" };

/** Cuts a text into pieces of one look each. */
export function ansi(text: string): Piece[] {
  if (!text.includes("\u001b")) return [{ text: visible(text), style: "" }];
  const pieces: Piece[] = [];
  const pen: Pen = { fg: null, bg: null, marks: new Set() };
  let from = 0;
  const add = (piece: string): void => {
    if (piece !== "") pieces.push({ text: visible(piece), style: style(pen) });
  };
  for (const match of text.matchAll(ESCAPE)) {
    add(text.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === "m") apply(pen, match[1] ?? "");
  }
  add(text.slice(from));
  return pieces;
}

/** The text without any sequence. */
export function plain(text: string): string {
  return visible(text.replace(ESCAPE, ""));
}

function style({ fg, bg, marks }: Pen): string {
  const words = [...marks];
  if (fg !== null) words.push(`fg${fg}`);
  if (bg !== null) words.push(`bg${bg}`);
  return words.join(" ");
}

function apply(pen: Pen, codes: string): void {
  const numbers = codes.split(/[;:]/).map((code) => (code === "" ? 0 : Number(code)));
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at] ?? 0;
    if (code === 38 || code === 48) {
      const [color, used] = extended(numbers.slice(at + 1));
      if (code === 38) pen.fg = color;
      else pen.bg = color;
      at += used;
    } else {
      simple(pen, code);
    }
  }
}

function simple(pen: Pen, code: number): void {
  const mark = MARKS[code];
  if (code === 0) Object.assign(pen, { fg: null, bg: null, marks: new Set() });
  else if (mark) pen.marks.add(mark);
  else if (code === 22) ["bold", "faint"].forEach((word) => pen.marks.delete(word));
  else if (code >= 23 && code <= 29) pen.marks.delete(MARKS[code - 20] ?? "");
  else if (code >= 30 && code <= 37) pen.fg = code - 30;
  else if (code === 39) pen.fg = null;
  else if (code >= 40 && code <= 47) pen.bg = code - 40;
  else if (code === 49) pen.bg = null;
  else if (code >= 90 && code <= 97) pen.fg = code - 82;
  else if (code >= 100 && code <= 107) pen.bg = code - 92;
}

/** The nearest of the sixteen colors of the theme, and how many numbers name it. */
function extended(rest: number[]): [number | null, number] {
  const [kind, a = 0, b = 0, c = 0] = rest;
  if (kind === 5) return [indexed(a), 2];
  if (kind === 2) return [nearest(a, b, c), 4];
  return [null, 0];
}

function indexed(index: number): number {
  if (index < 16) return index;
  if (index >= 232) return index < 244 ? 8 : 7;
  const cube = index - 16;
  const level = (n: number): number => (n % 6) * 51;
  return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6)), level(cube));
}

function nearest(r: number, g: number, b: number): number {
  const max = Math.max(r, g, b);
  if (max < 64) return 8;
  const bit = (n: number): number => (n > max / 2 ? 1 : 0);
  return bit(r) + 2 * bit(g) + 4 * bit(b) + (max > 190 ? 8 : 0);
}
