// The languages that code is colored in. Loaded once code is on show: the page does not wait for it.
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import markdown from "highlight.js/lib/languages/markdown";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";
import type { Piece } from "./ansi";

const lowlight = createLowlight({
  bash, c, cpp, css, diff, dockerfile, go, ini, java, javascript, json, kotlin, markdown, php, python, ruby, rust, sql, swift, typescript,
  xml, yaml,
});

/** Classes of the page, by the first word of a scope of highlight.js. */
const STYLES: Record<string, string> = {
  keyword: "code-word", built_in: "code-name", type: "code-name", literal: "code-value", number: "code-value", regexp: "code-text",
  string: "code-text", subst: "", symbol: "code-value", class: "code-name", function: "code-call", title: "code-call", params: "",
  comment: "code-note", doctag: "code-note", meta: "code-note", section: "code-call", tag: "code-word", name: "code-word", attr: "code-call",
  attribute: "code-call", variable: "code-name", bullet: "code-value", code: "code-text", emphasis: "italic", strong: "bold", link: "code-text",
  quote: "code-note", "selector-tag": "code-word", "selector-id": "code-name", "selector-class": "code-name", property: "code-call",
  addition: "code-text", deletion: "code-gone",
};

type Nodes = ReturnType<typeof lowlight.highlight>["children"];

/** Pieces of code with one look each; null where the language is not known. Nothing of it is markup. */
export function colored(code: string, language: string): Piece[] | null {
  if (!lowlight.registered(language)) return null;
  const pieces: Piece[] = [];
  const walk = (nodes: Nodes, style: string): void => {
    for (const node of nodes) {
      if (node.type === "text") pieces.push({ text: node.value, style });
      else if (node.type === "element") walk(node.children as Nodes, styleOf(node.properties["className"]) ?? style);
    }
  };
  walk(lowlight.highlight(language, code).children, "");
  return pieces;
}

/** `code-call` for `["hljs-title", "function_"]`. */
function styleOf(names: unknown): string | undefined {
  const [name] = Array.isArray(names) ? names : [];
  return STYLES[String(name).replace(/^hljs-/, "")];
}
