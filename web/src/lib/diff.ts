// Line diffs of edits: removed and added lines.
import { diffLines } from "diff";

export interface DiffLine {
  sign: "+" | "-" | " ";
  text: string;
}

/** Largest input of the line diff. A larger edit is shown as all old lines removed and all new lines added. */
const COMPARED = 200_000;

export function diff(before: string, after: string): DiffLine[] {
  if (before.length + after.length > COMPARED) return [...signed("-", before), ...signed("+", after)];
  return diffLines(before, after).flatMap((part) =>
    signed(part.added ? "+" : part.removed ? "-" : " ", part.value),
  );
}

function signed(sign: DiffLine["sign"], text: string): DiffLine[] {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines.map((line) => ({ sign, text: line }));
}
