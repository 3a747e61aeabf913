// Colors of code. Until the languages are loaded, and where none fits, code is plain.
import { ansi, type Piece } from "./ansi";
import { visible } from "./safe";

const ENDINGS: Record<string, string> = {
  bash: "bash", c: "c", cc: "cpp", cjs: "javascript", cpp: "cpp", cs: "java", css: "css", cts: "typescript", diff: "diff", go: "go", h: "c",
  hpp: "cpp", htm: "xml", html: "xml", ini: "ini", java: "java", js: "javascript", json: "json", jsonc: "json", jsonl: "json",
  jsx: "javascript", kt: "kotlin", kts: "kotlin", less: "css", md: "markdown", mjs: "javascript", mts: "typescript", patch: "diff",
  php: "php", py: "python", pyi: "python", rb: "ruby", rs: "rust", scss: "css", sh: "bash", sql: "sql", svelte: "xml", svg: "xml",
  swift: "swift", toml: "ini", ts: "typescript", tsx: "typescript", vue: "xml", xml: "xml", yaml: "yaml", yml: "yaml", zsh: "bash",
};

/** The language of a file, by its name; null where it is not known. */
export function languageOf(path: string): string | null {
  const name = path.split(/[\\/]/).at(-1)?.toLowerCase() ?? "";
  if (name === "dockerfile") return "dockerfile";
  return (name.includes(".") && ENDINGS[name.split(".").at(-1) ?? ""]) || null;
}

/** Longer code is not colored: coloring it would block the page. */
const LONGEST = 200_000;

/** The number that a tool puts before each line of a file. */
const NUMBER = /^ *\d+[→\t]/;

type Colored = (code: string, language: string) => Piece[] | null;

class Syntax {
  #colored: Colored | null = $state.raw(null);
  #isAsked = false;

  /** The pieces of a text, colored once the languages are there. */
  pieces(text: string, language: string | null): Piece[] {
    if (language === null || text.length > LONGEST || text.includes("\u001b")) return ansi(text);
    if (!this.#colored) {
      void this.#load();
      return ansi(text);
    }
    const lines = visible(text).split("\n");
    const numbers = lines.map((line) => NUMBER.exec(line)?.[0] ?? "");
    const code = lines.map((line, at) => line.slice(numbers[at]?.length)).join("\n");
    const pieces = this.#colored(code, language);
    if (!pieces) return ansi(text);
    if (numbers.every((number) => number === "")) return pieces;
    return linesOf(pieces).flatMap((line, at) => [{ text: `${at > 0 ? "\n" : ""}${numbers[at] ?? ""}`, style: "code-note" }, ...line]);
  }

  async #load(): Promise<void> {
    if (this.#isAsked) return;
    this.#isAsked = true;
    try {
      this.#colored = (await import("./grammars")).colored;
    } catch {
      // The hub is gone: code stays plain until the next try.
      this.#isAsked = false;
    }
  }
}

export const syntax = new Syntax();

/** Pieces by line, without the line ends. */
export function linesOf(pieces: Piece[]): Piece[][] {
  const lines: Piece[][] = [[]];
  for (const { text, style } of pieces) {
    text.split("\n").forEach((part, at) => {
      if (at > 0) lines.push([]);
      if (part !== "") lines.at(-1)?.push({ text: part, style });
    });
  }
  return lines;
}
