// Text of agents is untrusted: invisible and control characters are made visible before it is shown.

// C0 and C1 controls but tab and line end; bidirectional marks; zero-width and other invisible characters; tags.
const HIDDEN =
  // eslint-disable-next-line no-control-regex
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** Marks that are piled on one letter paint over other lines. Real scripts stack two or three. */
const PILED = /(\p{M}{8})\p{M}+/gu;

/** Spells hidden characters as `⟨U+202E⟩`. */
export function visible(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(HIDDEN, spelled).replace(PILED, "$1");
}

function spelled(character: string): string {
  const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  return `⟨U+${code}⟩`;
}

/** The same in one line. */
export function oneLine(text: string | null | undefined): string {
  return visible(text ?? "").replace(/\s+/g, " ").trim();
}

/** Marks of Markdown: those at the beginning of a line, pairs around words, links, code. */
const LINE_MARKS = /^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+|\d+\.[ \t]+|```\S*[ \t]*$|[-*_]{3,}[ \t]*$)/gm;
const PAIRS = /(\*\*|__|~~|`)(\S(?:.*?\S)?)\1/g;
const LINKS = /!?\[([^\]\n]*)\]\([^)\s]*\)/g;

/** Most characters of a text that is put into one line. */
const GLANCE = 300;

/** The beginning of a text in one line, without marks of Markdown. */
export function proseLine(text: string | null | undefined): string {
  const words = (text ?? "").slice(0, 2 * GLANCE).replace(LINE_MARKS, "").replace(LINKS, "$1").replace(PAIRS, "$2").replace(PAIRS, "$2");
  return oneLine(words).slice(0, GLANCE);
}
