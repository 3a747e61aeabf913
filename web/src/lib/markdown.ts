// Markdown of agents as inert HTML: no raw HTML, no images, links to the web only and never followed unseen.
import DOMPurify from "dompurify";
import { Marked } from "marked";
import { visible } from "./safe";

const escape = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

const marked = new Marked({
  gfm: true,
  breaks: true,
  async: false,
  renderer: {
    // Show HTML of an agent as text.
    html: ({ text }) => escape(text),
    image: ({ href, text }) => `<code>![${escape(text)}](${escape(href)})</code>`,
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

const TAGS = [
  "p", "br", "hr", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li", "h1", "h2", "h3", "h4", "h5",
  "h6", "table", "thead", "tbody", "tr", "th", "td", "a",
];

const purify = DOMPurify(window);
purify.addHook("afterSanitizeAttributes", (node) => {
  // The language of a block of code, for its colors.
  if (!(node.tagName === "CODE" && /^language-[\w+#-]{1,20}$/.test(node.getAttribute("class") ?? ""))) node.removeAttribute("class");
  if (node.tagName !== "A") return;
  const href = node.getAttribute("href") ?? "";
  if (!/^https?:\/\//i.test(href)) return node.removeAttribute("href");
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow");
  // Show the target of a link on hover, before it is followed.
  node.setAttribute("title", href);
});

/** Longer text is shown as plain text: parsing it would block the page. */
export const LONGEST = 100_000;

/** Returns inert HTML. */
export function markdown(text: string): string {
  const html = marked.parse(text) as string;
  const inert = purify.sanitize(html, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["href", "align", "start", "class"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    ALLOWED_URI_REGEXP: /^https?:\/\//i,
  });
  // At the end: markdown has character references (`&#27;`).
  return visible(inert);
}
