// Arguments and results of calls in readable form. Field names differ between harnesses: unknown forms are shown as JSON.
import { diff, type DiffLine } from "./diff";
import { languageOf } from "./syntax.svelte";

export type Shown =
  | { kind: "text"; text: string; language: string | null }
  | { kind: "diff"; path: string; lines: DiffLine[] };

type Fields = Record<string, unknown>;

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const words = (fields: Fields, ...names: string[]): string | null => {
  for (const name of names) {
    const value = fields[name];
    if (typeof value === "string") return value;
  }
  return null;
};

/** Names of the fields that name a file, in the programs' tools. */
const PATH = ["file_path", "filePath", "path", "notebook_path"];

/** The arguments of a call. */
export function argumentsOf(input: unknown): Shown[] {
  if (input === null || input === undefined) return [];
  if (typeof input === "string") {
    const files = patchIn(input);
    return files.length > 0 ? files : [{ kind: "text", text: input, language: null }];
  }
  if (!isFields(input)) return [json(input)];
  const path = words(input, ...PATH) ?? "";
  const edits = Array.isArray(input["edits"]) ? input["edits"].filter(isFields) : [input];
  const diffs = edits.flatMap((edit): Shown[] => {
    const [before, after] = [words(edit, "old_string", "oldString", "old_str"), words(edit, "new_string", "newString", "new_str")];
    return before !== null && after !== null ? [{ kind: "diff", path, lines: diff(before, after) }] : [];
  });
  if (diffs.length > 0) return diffs;
  const content = words(input, "content", "new_source", "file_text");
  if (content !== null && path !== "") return [{ kind: "diff", path, lines: diff("", content) }];
  const files = Object.values(input).flat().flatMap((value) => (typeof value === "string" ? patchIn(value) : []));
  if (files.length > 0) return files;
  const command = words(input, "command");
  if (command !== null) return [{ kind: "text", text: command, language: "bash" }, ...rest(input, "command")];
  return [json(input)];
}

/** The files of a patch in the format of `apply_patch`, or of a command that calls it, with their lines; none in another text. */
function patchIn(text: string): Shown[] {
  const at = text.indexOf(PATCH);
  const before = text.slice(0, Math.max(0, at)).trimEnd();
  if (at < 0 || (before !== "" && !before.slice(before.lastIndexOf("\n") + 1).includes("apply_patch"))) return [];
  const files: (Shown & { kind: "diff" })[] = [];
  const lines = text.slice(at).split(/\r?\n/);
  const end = lines.indexOf("*** End Patch");
  for (const line of lines.slice(1, end < 0 ? undefined : end)) {
    const [, word, path = ""] = /^\*\*\* (Add File|Update File|Delete File|Move to): (.*)$/.exec(line) ?? [];
    const last = files.at(-1);
    if (word === "Move to") last?.lines.push({ sign: " ", text: line });
    else if (word !== undefined) files.push({ kind: "diff", path: path.trim(), lines: word === "Delete File" ? [{ sign: "-", text: "the file is deleted" }] : [] });
    else if (last) {
      const sign = line[0] === "+" || line[0] === "-" ? line[0] : " ";
      last.lines.push({ sign, text: line.startsWith("@@") ? line : line.slice(1) });
    }
  }
  return files;
}

const PATCH = "*** Begin Patch";

/** The command line that a call is given; empty for other calls. */
export const commandLine = (input: unknown): string => (isFields(input) ? (words(input, "command") ?? "") : "");

/** The complete request of a call: its command, else its file, else its arguments. */
export function commandOf(input: unknown): string {
  if (typeof input === "string") return input;
  if (!isFields(input)) return "";
  return words(input, "command", ...PATH, "url", "query") ?? JSON.stringify(input);
}

/** The file that a call works on, and the line at which it reads; null for calls of no file. */
export function fileIn(input: unknown): { path: string; line: number } | null {
  if (!isFields(input)) return null;
  const path = words(input, ...PATH);
  if (path === null || path === "") return null;
  const line = input["offset"];
  return { path, line: typeof line === "number" && line >= 1 ? line : 1 };
}

function rest(input: Fields, known: string): Shown[] {
  const others = Object.fromEntries(Object.entries(input).filter(([name]) => name !== known));
  return Object.keys(others).length > 0 ? [json(others)] : [];
}

/** The result of a call. The result of reading a file is code in the file's language. */
export function resultOf(result: unknown, input: unknown): Shown[] {
  if (result === null || result === undefined) return [];
  const text = textOf(result);
  if (text === null) return [json(result)];
  return text === "" ? [] : [{ kind: "text", text, language: isJson(text) ? "json" : fileOf(input) }];
}

/** The language of the file that a call reads; null for a call that searches or writes. */
function fileOf(input: unknown): string | null {
  if (!isFields(input) || words(input, "pattern", "query", "old_string", "content", "new_source", "command") !== null) return null;
  return languageOf(words(input, ...PATH) ?? "");
}

/** Whether a text looks like JSON by its first and last characters. */
const isJson = (text: string): boolean => /^\s*(\{\s*"|\[\s*[{["\d])/.test(text) && /[}\]]\s*$/.test(text);

/** The text in a result; `null` where it is something else. */
export function textOf(value: unknown): string | null {
  if (typeof value === "string") return value;
  if (Array.isArray(value)) {
    const texts = value.map(textOf);
    return texts.every((text) => text !== null) ? texts.join("\n") : null;
  }
  if (!isFields(value)) return null;
  if (value["type"] === "text") return words(value, "text");
  const streams = [words(value, "stdout"), words(value, "stderr")].filter((text) => text !== null && text !== "");
  if (typeof value["stdout"] === "string") return streams.join("\n");
  return Array.isArray(value["content"]) ? textOf(value["content"]) : null;
}

const json = (value: unknown): Shown => ({ kind: "text", text: JSON.stringify(value, null, 2), language: "json" });
