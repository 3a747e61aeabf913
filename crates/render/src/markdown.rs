//! Lays out Markdown as lines of text: headings, lists, tables, quotes, code with its indentation.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::{
    safe,
    style::{Ink, Style, StyledLine, write_lines},
    text,
};

/// Least columns of a table's cell.
const LEAST_CELL: usize = 4;

/// What a line break within a paragraph becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParagraphBreaks {
    /// A line break: agents write lines as they want them shown.
    Keep,
    /// A blank: the text was wrapped by its author's editor.
    Join,
}

/// Lays out a text at a width. Decoded entities are sanitized like the text.
pub fn lines(
    source: &str,
    width: usize,
    breaks: ParagraphBreaks,
    style: &Style,
    code: impl Fn(&str) -> StyledLine,
) -> Vec<StyledLine> {
    let mut page = Page::new(width.max(8), breaks, style, &code);
    for event in Parser::new_ext(source, Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS) {
        page.take(event);
    }
    page.flush();
    page.lines
}

/// Renders a page of documentation in the columns of the style.
pub fn render_page(source: &str, style: &Style) -> String {
    let code = |words: &str| StyledLine::default().with(None, words);
    write_lines(lines(source, style.width, ParagraphBreaks::Join, style, code), style)
}

/// Text before the lines of a nested block.
struct Prefix {
    first: String,
    rest: String,
    is_used: bool,
}

/// A text with the color of each of its parts, by the part's end in bytes.
#[derive(Default)]
struct Inked {
    text: String,
    ends: Vec<(usize, Option<Ink>)>,
}

struct Page<'a> {
    width: usize,
    breaks: ParagraphBreaks,
    style: &'a Style,
    code: &'a dyn Fn(&str) -> StyledLine,
    lines: Vec<StyledLine>,
    prefixes: Vec<Prefix>,
    /// The paragraph that is being read.
    open: Inked,
    /// Depth of strong text and headings.
    strong: usize,
    is_code: bool,
    /// Address of each open link.
    links: Vec<String>,
    /// Next number of each open list; `None` for one with bullets.
    lists: Vec<Option<u64>>,
    /// Rows of the open table.
    table: Option<Vec<Vec<String>>>,
    /// Whether a blank line goes before the next block.
    needs_gap: bool,
}

impl<'a> Page<'a> {
    fn new(
        width: usize,
        breaks: ParagraphBreaks,
        style: &'a Style,
        code: &'a dyn Fn(&str) -> StyledLine,
    ) -> Self {
        Self {
            width,
            breaks,
            style,
            code,
            lines: Vec::new(),
            prefixes: Vec::new(),
            open: Inked::default(),
            strong: 0,
            is_code: false,
            links: Vec::new(),
            lists: Vec::new(),
            table: None,
            needs_gap: false,
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.begin(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(words) | Event::Html(words) | Event::InlineHtml(words) => self.push(&words),
            Event::Code(words) => self.push(&format!("`{words}`")),
            Event::InlineMath(words) | Event::DisplayMath(words) | Event::FootnoteReference(words) => {
                self.push(&words);
            }
            Event::SoftBreak if self.breaks == ParagraphBreaks::Join => self.push(" "),
            Event::SoftBreak | Event::HardBreak => self.push("\n"),
            Event::TaskListMarker(is_done) => self.push(if is_done { "[x] " } else { "[ ] " }),
            Event::Rule => {
                self.flush();
                self.gap();
                let rule = if self.style.ascii { "-" } else { "─" };
                self.emit(StyledLine::painted(Ink::Done, &rule.repeat(self.room().min(40))));
                self.needs_gap = true;
            }
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "a foreign enum: what is not laid out is plain text")]
    fn begin(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { .. } => {
                self.flush();
                self.strong += 1;
            }
            Tag::Strong => self.strong += 1,
            Tag::CodeBlock(_) => {
                self.flush();
                self.is_code = true;
                self.indent("  ", "  ");
            }
            Tag::BlockQuote(_) => {
                self.flush();
                let bar = if self.style.ascii { "| " } else { "│ " };
                self.indent(bar, bar);
            }
            Tag::List(first) => {
                self.flush();
                self.gap();
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                let bullet = if self.style.ascii { "- " } else { "• " };
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number = number.saturating_add(1);
                        format!("{}. ", *number - 1)
                    }
                    Some(None) | None => bullet.to_owned(),
                };
                let rest = " ".repeat(text::width(&mark));
                self.indent(&mark, &rest);
            }
            Tag::Table(_) => {
                self.flush();
                self.table = Some(Vec::new());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(rows) = &mut self.table {
                    rows.push(Vec::new());
                }
            }
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => self.links.push(dest_url.to_string()),
            Tag::Paragraph | Tag::HtmlBlock => self.flush(),
            _ => {}
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "a foreign enum: what is not laid out is plain text")]
    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(_) => {
                self.flush();
                self.strong = self.strong.saturating_sub(1);
                self.needs_gap = true;
            }
            TagEnd::Strong => self.strong = self.strong.saturating_sub(1),
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.flush();
                self.needs_gap = true;
            }
            TagEnd::CodeBlock => {
                self.flush();
                self.is_code = false;
                self.prefixes.pop();
                self.needs_gap = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.prefixes.pop();
                self.needs_gap = true;
            }
            TagEnd::Item => {
                self.flush();
                self.prefixes.pop();
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.needs_gap = true;
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.open).text;
                if let Some(row) = self.table.as_mut().and_then(|rows| rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                let rows = self.table.take().unwrap_or_default();
                self.push_table(&rows);
                self.needs_gap = true;
            }
            TagEnd::Link | TagEnd::Image => {
                let address = self.links.pop().unwrap_or_default();
                // An address that is its own text is printed once.
                if !address.is_empty() && !self.open.text.ends_with(&address) {
                    self.push_inked(&format!(" ({address})"), Some(Ink::Done));
                }
            }
            _ => {}
        }
    }

    fn indent(&mut self, first: &str, rest: &str) {
        self.gap();
        self.prefixes.push(Prefix { first: first.to_owned(), rest: rest.to_owned(), is_used: false });
    }

    fn push(&mut self, words: &str) {
        let ink = (self.strong > 0).then_some(Ink::Strong);
        self.push_inked(words, ink);
    }

    fn push_inked(&mut self, words: &str, ink: Option<Ink>) {
        self.open.text.push_str(&safe::lines(words, self.style.charset()));
        self.open.ends.push((self.open.text.len(), ink));
    }

    fn room(&self) -> usize {
        let used: usize = self.prefixes.iter().map(|prefix| text::width(&prefix.rest)).sum();
        self.width.saturating_sub(used).max(8)
    }

    /// Adds a blank line if one is due. There is none between the items of a list.
    fn gap(&mut self) {
        if std::mem::take(&mut self.needs_gap) && self.lists.is_empty() && !self.lines.is_empty() {
            let quote: String = self.prefixes.iter().map(|prefix| prefix.rest.as_str()).collect();
            self.lines.push(StyledLine::painted(Ink::Done, quote.trim_end()));
        }
    }

    fn emit(&mut self, line: StyledLine) {
        let mut out = StyledLine::default();
        for prefix in &mut self.prefixes {
            let is_first = !std::mem::replace(&mut prefix.is_used, true);
            out.paint(Ink::Done, if is_first { &prefix.first } else { &prefix.rest });
        }
        out.append(line);
        self.lines.push(out);
    }

    /// Ends the open paragraph or piece of code.
    fn flush(&mut self) {
        let open = std::mem::take(&mut self.open);
        if open.text.trim().is_empty() {
            return;
        }
        self.gap();
        let room = self.room();
        if self.is_code {
            for line in open.text.trim_end().lines() {
                let pieces = text::wrap(line, room);
                for piece in if pieces.is_empty() { vec![String::new()] } else { pieces } {
                    self.emit((self.code)(&piece));
                }
            }
            return;
        }
        for line in open.wrapped(room) {
            self.emit(line);
        }
    }

    /// Draws a table: columns as wide as their cells, narrower ones wrapped if there is no room.
    fn push_table(&mut self, rows: &[Vec<String>]) {
        let count = rows.iter().map(Vec::len).max().unwrap_or(0);
        if count == 0 {
            return;
        }
        self.gap();
        let widest =
            |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| text::width(cell)).max();
        let mut widths: Vec<usize> = (0..count).map(|at| widest(at).unwrap_or(0).max(1)).collect();
        let room = self.room().saturating_sub(3 * (count - 1));
        while widths.iter().sum::<usize>() > room {
            let Some(most) = widths.iter_mut().max().filter(|most| **most > LEAST_CELL) else { break };
            *most -= 1;
        }
        let (gap, rule) = if self.style.ascii { (" | ", "-") } else { (" │ ", "─") };
        for (at, row) in rows.iter().enumerate() {
            let cells: Vec<Vec<String>> = widths
                .iter()
                .enumerate()
                .map(|(at, width)| {
                    row.get(at).map(|cell| text::wrap(cell.trim(), *width)).unwrap_or_default()
                })
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0).max(1);
            for part in 0..height {
                let mut line = StyledLine::default();
                for (place, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                    if place > 0 {
                        line.paint(Ink::Done, gap);
                    }
                    let words = text::pad(cell.get(part).map_or("", String::as_str), *width);
                    line.add((at == 0).then_some(Ink::Strong), &words);
                }
                self.emit(line);
            }
            if at == 0 {
                let line = widths.iter().map(|width| rule.repeat(*width)).collect::<Vec<_>>();
                let cross = if self.style.ascii { "-+-" } else { "─┼─" };
                self.emit(StyledLine::painted(Ink::Done, &line.join(cross)));
            }
        }
    }
}

impl Inked {
    /// Wraps the text; each part keeps its color.
    fn wrapped(&self, width: usize) -> Vec<StyledLine> {
        let mut at = 0;
        let mut lines = Vec::new();
        for piece in text::wrap(&self.text, width) {
            // Only blanks lie between two pieces.
            while !self.text[at..].starts_with(&piece)
                || (!piece.is_empty() && self.text[at..].starts_with('\n'))
            {
                let Some(blank) = self.text[at..].chars().next() else { break };
                at += blank.len_utf8();
            }
            let mut line = StyledLine::default();
            let end = (at + piece.len()).min(self.text.len());
            let mut from = at;
            for (part_end, ink) in &self.ends {
                let to = (*part_end).min(end);
                if to > from {
                    line.add(*ink, self.text.get(from..to).unwrap_or_default());
                    from = to;
                }
            }
            at = end;
            lines.push(line);
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: Style = Style { color: true, ascii: false, width: 40 };

    fn plain(source: &str, width: usize) -> Vec<String> {
        let code = |words: &str| StyledLine::default().with(None, words);
        let lines = lines(source, width, ParagraphBreaks::Keep, &STYLE, code);
        lines
            .iter()
            .map(|line| {
                line.parts().map(|(_, part)| part.to_owned()).collect::<String>().trim_end().to_owned()
            })
            .collect()
    }

    #[test]
    fn lists_are_numbered_nested_and_wrapped_below_their_text() {
        let source =
            "Steps:\n\n1. Read the whole of it\n   - `cart.js`\n   - tests\n2. Fix\n\n- [x] done\n- open";
        let drawn = plain(source, 20);
        assert_eq!(
            drawn,
            [
                "Steps:",
                "",
                "1. Read the whole of",
                "   it",
                "   • `cart.js`",
                "   • tests",
                "2. Fix",
                "",
                "• [x] done",
                "• open"
            ]
        );
    }

    #[test]
    fn code_keeps_its_indentation_and_blank_lines() {
        let drawn = plain("So:\n```js\nif (a) {\n    b();\n\n}\n```\nend", 40);
        assert_eq!(drawn, ["So:", "", "  if (a) {", "      b();", "", "  }", "", "end"]);
    }

    #[test]
    fn tables_are_aligned_and_fit_also_with_wide_letters() {
        let source = "| file | 数 |\n|---|---|\n| cart.js | 日本語 |\n| a | 👩\u{200d}👧 |";
        assert_eq!(
            plain(source, 40),
            ["file    │ 数", "────────┼───────", "cart.js │ 日本語", "a       │ 👩\u{200d}👧"]
        );
        let narrow = plain("| a | b |\n|---|---|\n| one two three | four five six |", 16);
        assert!(narrow.iter().all(|line| text::width(line) <= 16), "{narrow:?}");
        assert!(narrow.iter().any(|line| line.contains("three")), "{narrow:?}");
    }

    #[test]
    fn strong_words_links_and_quotes() {
        let code = |words: &str| StyledLine::default().with(None, words);
        let drawn = lines(
            "# Title\n\na **b c** [d](https://e.test) <https://f.test>",
            60,
            ParagraphBreaks::Keep,
            &STYLE,
            code,
        );
        let parts: Vec<(Option<Ink>, String)> =
            drawn[2].parts().map(|(ink, part)| (ink, part.to_owned())).collect();
        assert_eq!(drawn[0].parts().next(), Some((Some(Ink::Strong), "Title")));
        assert_eq!(parts[1], (Some(Ink::Strong), "b c".into()));
        assert_eq!(plain("[d](https://e.test) <https://f.test>", 60), ["d (https://e.test) https://f.test"]);
        assert_eq!(plain("> said\n> so", 60), ["│ said", "│ so"]);
    }

    #[test]
    fn a_page_joins_the_lines_of_a_paragraph_and_keeps_those_of_code() {
        let page = render_page("# A\n\none\ntwo\n\n```sh\na\nb\n```\n", &Style { color: false, ..STYLE });
        assert_eq!(page, "A\n\none two\n\n  a\n  b\n");
    }

    #[test]
    fn entities_and_controls_stay_harmless() {
        assert_eq!(plain("a&#27;[2J &#x202e;b \u{1b}]0;x", 60), ["a␛[2J ⟨U+202E⟩b ␛]0;x"]);
        assert_eq!(plain("<b onclick=x>hi</b>", 60), ["<b onclick=x>hi</b>"]);
    }
}
