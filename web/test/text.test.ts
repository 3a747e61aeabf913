import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { ansi, plain } from "../src/lib/ansi";
import { answerOf } from "../src/lib/compare";
import { diff } from "../src/lib/diff";
import { changedFiles } from "../src/lib/files";
import { base, count, duration, model, money, seconds } from "../src/lib/format";
import type { Span } from "../src/lib/api";
import { svg } from "../src/lib/picture";
import { markdown } from "../src/lib/markdown";
import { argumentsOf, resultOf } from "../src/lib/payload";
import { oneLine, visible } from "../src/lib/safe";
import type { Agent, AgentNeed, AgentStatus, Attention, Inbox, ReadingProgress, Summary } from "../src/model";
import { activityNow, certainParts, needWords, program, readingWords, sessionTitle, sessionTone, title, tone } from "../src/lib/words";

describe("hidden characters", () => {
  it("are spelled, and nothing else is", () => {
    expect(visible("a\u202eb\u0000c\u200bd")).toBe("a⟨U+202E⟩b⟨U+0000⟩c⟨U+200B⟩d");
    expect(visible("tab\tand\r\nend ü 漢 👩")).toBe("tab\tand\nend ü 漢 👩");
    expect(visible("\u{e0041}")).toBe("⟨U+E0041⟩");
    expect(oneLine("  two\n lines ")).toBe("two lines");
  });
  it("are spelled in names that are not prose: models and ids", () => {
    expect(model("claude-x\u007f\u001b[2J")).toBe("x⟨U+007F⟩⟨U+001B⟩[2J");
    expect(sessionTitle({ title: null, id: "a\u001bb" })).toMatch(/^a⟨U\+001/);
    expect(program({ harness: "x\u007f" })).toBe("x⟨U+007F⟩");
    const lane = { agent_id: "a\u007f\u001b<b>", depth: 0, spans: [] };
    const timeline = { rev: null, start_ms: 0, end_ms: 1, lanes: [lane], critical_path: [], path: { total_ms: 0, shares: [], rest_ms: 0 } };
    const picture = svg({ timeline, window: { from: 0, to: 1 }, names: new Map(), title: "t\u202e", summary: null }, () => "", () => "");
    expect(picture).toContain("a⟨U+007F⟩⟨U+001B⟩&lt;b&gt;");
    expect(picture).toContain("t⟨U+202E⟩");
  });
});

describe("the waterfall as a picture", () => {
  it("has each failed call over its neighbors, wide enough to be seen, and names cut with a mark", () => {
    const span = (status: string, from_ms: number, to_ms: number): Span => ({ kind: "tool", name: "Bash", from_ms, to_ms, call_id: null, status }) as unknown as Span;
    const lanes = [{ agent_id: "a", depth: 0, spans: [span("error", 100, 101), span("ok", 101, 900)] }];
    const timeline = { rev: null, start_ms: 0, end_ms: 10_000, lanes, critical_path: [], path: { total_ms: 0, shares: [], rest_ms: 0 } };
    const picture = svg({ timeline, window: { from: 0, to: 10_000 }, names: new Map([["a", "x".repeat(60)]]), title: "t", summary: null }, (name) => name, () => "");
    const [failed, ok] = ["--failed", "--kind-run"].map((color) => picture.indexOf(`height="${color === "--failed" ? 16 : 12}" fill="${color}"`));
    expect(ok).toBeGreaterThan(0);
    expect(failed).toBeGreaterThan(ok ?? 0);
    expect(picture).toMatch(/width="3.0" height="16" fill="--failed"/);
    expect(picture).toContain(`>${"x".repeat(43)}…<`);
  });
});

describe("markdown", () => {
  const hostile = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "![x](https://evil.example/pixel.png)",
    "<a href='https://evil.example' style='position:fixed'>x</a>",
    "<svg><a xlink:href='javascript:alert(1)'>x</a></svg>",
    "<iframe src='https://evil.example'></iframe>",
    "<style>*{display:none}</style>",
    "<form action='https://evil.example'><input></form>",
  ];
  it.each(hostile)("makes %s inert", (text) => {
    const element = document.createElement("div");
    element.innerHTML = markdown(text);
    const all = [...element.querySelectorAll("*")];
    const allowed = new Set(["P", "CODE", "A", "BR", "PRE"]);
    expect(all.map((node) => node.tagName).filter((name) => !allowed.has(name))).toEqual([]);
    for (const node of all) {
      const names = [...node.attributes].map((attribute) => attribute.name);
      expect(names.filter((name) => !["href", "target", "rel", "title"].includes(name))).toEqual([]);
      expect(node.getAttribute("href") ?? "https://").toMatch(/^https?:\/\//);
    }
  });
  it("keeps what it is for", () => {
    const html = markdown("# Title\n\n- **one** `x < y`\n\n[docs](https://docs.rs)\n\n| a |\n|---|\n| 1 |");
    for (const piece of ["<h1>", "<li>", "<strong>one</strong>", "x &lt; y", "noopener", "<table>"]) expect(html).toContain(piece);
  });
  it("shows bidirectional marks", () => {
    expect(markdown("safe\u202etxt.exe")).toContain("⟨U+202E⟩");
  });
  it("shows what character references name", () => {
    const html = markdown("a &#27;[2J &#x7f; &#x202e; `&#27;` [b](https://docs.rs/&#x202e; 'c &#127;') &lt;i&gt;");
    for (const word of ["⟨U+001B⟩[2J", "⟨U+007F⟩", "⟨U+202E⟩", "<code>&amp;#27;</code>", "&lt;i&gt;"]) expect(html).toContain(word);
    // eslint-disable-next-line no-control-regex
    expect(html).not.toMatch(/[\u001b\u007f\u202e]/);
  });
});

describe("command output", () => {
  it("has its colors and no other sequence", () => {
    expect(ansi("\u001b[1;31mred\u001b[0m plain")).toEqual([
      { text: "red", style: "bold fg1" },
      { text: " plain", style: "" },
    ]);
    expect(ansi("\u001b[38;5;196mx\u001b[39my").map((piece) => piece.style)).toEqual(["fg9", ""]);
    expect(ansi("\u001b[38;2;0;200;0mx").map((piece) => piece.style)).toEqual(["fg10"]);
    expect(plain("\u001b]8;;https://evil.example\u0007link\u001b]8;;\u0007\u001b[2J\u001b]0;title\u001b\\!")).toBe("link!");
    expect(plain("\u001b[31")).toContain("⟨U+001B⟩");
  });
});

describe("figures", () => {
  it("are written as in the terminal", () => {
    // The tests of the terminal UI use the same list.
    const list = JSON.parse(readFileSync("../fixtures/figures.json", "utf8"));
    expect(list.duration.map(([ms]: [number]) => duration(ms))).toEqual(list.duration.map(([, text]: [number, string]) => text));
    expect(list.tokens.map(([n]: [number]) => count(n))).toEqual(list.tokens.map(([, text]: [number, string]) => text));
    for (const [path, name] of list.base_names as [string, string][]) expect(base(path)).toBe(name);
    const amounts: [number, boolean, string][] = list.money;
    expect(amounts.map(([micro, floor]) => money(micro, floor))).toEqual(amounts.map(([, , text]) => text));
    for (const [given, name, look, , words] of list.agents as [Partial<Agent>, string, string, string, string | null][]) {
      const agent = { id: "a1", type: null, name: null, description: null, liveness: null, flags: [], tools: [], open_tools: 0, ...given } as unknown as Agent;
      expect([title(agent), tone(agent), activityNow(agent, 91_000)]).toEqual([name, look, words ?? ""]);
    }
    for (const [attention, root, look] of list.sessions as [Attention, AgentStatus, string][]) expect(sessionTone(attention, root)).toBe(look);
    const sides: [Partial<Summary>, Partial<Summary>, string][] = list.comparisons;
    for (const [a, b, words] of sides) {
      const side = (given: Partial<Summary> & { status?: AgentStatus | null }) => ({ status: given.status === undefined ? ("completed" as const) : given.status, summary: { cost_floor: false, ...given } as Summary });
      expect(answerOf({ a: side(a), b: side(b) })).toBe(words);
    }
    for (const [{ cwd, agents }, listed] of list.files as [{ cwd: string | null; agents: Agent[] }, unknown[]][]) {
      const files = changedFiles(agents.map((agent) => ({ ...agent, flags: [] })), cwd);
      expect(files.map((file) => [file.path, file.edits.length, file.openCalls, file.agents.map(({ id }) => id), file.lastAt])).toEqual(listed);
    }
    expect(changedFiles([{ ...list.files[0][0].agents[0], flags: ["copied"] }], null)).toEqual([]);
    expect(seconds(83_000)).toBe("1m 23s");
    expect([duration(null), count(null), money(null)]).toEqual(["", "", ""]);
  });
});

describe("needs", () => {
  it("have the words of the terminal", () => {
    const list = JSON.parse(readFileSync("../fixtures/figures.json", "utf8"));
    for (const [need, now, words] of list.needs as [AgentNeed, number, string][]) expect(needWords(need, now)).toBe(words);
    for (const [inbox, parts] of list.inbox as [Inbox, string[]][]) expect(certainParts(inbox).map(({ words }) => words)).toEqual(parts);
    for (const [progress, words] of list.reading as [ReadingProgress, string][]) expect(readingWords(progress)).toBe(words);
  });
});

describe("payloads", () => {
  it("shows edits as a diff", () => {
    const [shown] = argumentsOf({ file_path: "/a.js", old_string: "one\ntwo\n", new_string: "one\n2\n" });
    expect(shown).toEqual({
      kind: "diff",
      path: "/a.js",
      lines: [
        { sign: " ", text: "one" },
        { sign: "-", text: "two" },
        { sign: "+", text: "2" },
      ],
    });
    expect(diff("", "a")).toEqual([{ sign: "+", text: "a" }]);
  });
  it("finds the text of results, and shows the rest as JSON", () => {
    expect(resultOf([{ type: "text", text: "a" }, { type: "text", text: "b" }], null)).toEqual([{ kind: "text", text: "a\nb", language: null }]);
    expect(resultOf({ stdout: "out", stderr: "" }, { command: "ls" })).toEqual([{ kind: "text", text: "out", language: null }]);
    expect(resultOf({ x: 1 }, null)).toEqual([{ kind: "text", text: '{\n  "x": 1\n}', language: "json" }]);
    // The result of reading a file is code; the result of searching one is not.
    expect(resultOf("x", { file_path: "/a/b.ts" })).toEqual([{ kind: "text", text: "x", language: "typescript" }]);
    expect(resultOf("x", { path: "/a/b.ts", pattern: "x" })).toEqual([{ kind: "text", text: "x", language: null }]);
    for (const edit of [{ filePath: "/a.js", oldString: "a", newString: "b" }, { path: "/a.js", old_str: "a", new_str: "b" }]) {
      expect(argumentsOf(edit)).toEqual([{ kind: "diff", path: "/a.js", lines: diff("a", "b") }]);
    }
    const patch = "*** Begin Patch\n*** Update File: a.js\n@@ f\n one\n-two\n+2\n*** Add File: b.js\n+new\n*** Delete File: c.js\n*** End Patch\nEOF";
    for (const input of [patch, { input: patch }, { patchText: patch }, { command: ["bash", "-lc", `apply_patch <<'EOF'\n${patch}`] }]) {
      const files = argumentsOf(input).map((shown) => shown.kind === "diff" && [shown.path, ...shown.lines.map(({ sign, text }) => sign + text)]);
      expect(files).toEqual([["a.js", " @@ f", " one", "-two", "+2"], ["b.js", "+new"], ["c.js", "-the file is deleted"]]);
    }
    for (const input of [`Apply this:\n${patch}`, { message: `Apply this:\n${patch}` }, { path: "/doc.md", content: patch }]) {
      expect(argumentsOf(input).some((shown) => shown.kind === "diff" && shown.path === "a.js")).toBe(false);
    }
    expect(argumentsOf({ command: "ls", timeout: 5 }).map((shown) => shown.kind === "text" && shown.language)).toEqual(["bash", "json"]);
  });
});
