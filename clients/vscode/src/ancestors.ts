// The processes above a process.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";

/** Most processes above one. */
const DEEPEST = 64;

/** Returns the parent of a process; null if it is not known. */
async function parentOf(process: number): Promise<number | null> {
  const text = globalThis.process.platform === "linux" ? await fromProc(process) : await fromPs(process);
  const parent = Number(text);
  return Number.isInteger(parent) && parent > 0 ? parent : null;
}

async function fromProc(process: number): Promise<string> {
  try {
    const text = await readFile(`/proc/${process}/stat`, "utf8");
    // The name of the program, in parentheses, may have any characters: what follows the last one is state and parent.
    return text.slice(text.lastIndexOf(")") + 2).split(" ")[1] ?? "";
  } catch {
    return "";
  }
}

function fromPs(process: number): Promise<string> {
  return new Promise((resolve) => {
    const ps = execFile("ps", ["-o", "ppid=", "-p", String(process)], { timeout: 5000 }, (error, out) => resolve(error ? "" : out.trim()));
    ps.stdin?.end();
  });
}

/** Returns a process and those above it, the nearest first. */
export async function withAncestors(process: number): Promise<number[]> {
  const found: number[] = [];
  for (let one: number | null = process; one !== null && !found.includes(one) && found.length < DEEPEST; one = await parentOf(one)) found.push(one);
  return found;
}
