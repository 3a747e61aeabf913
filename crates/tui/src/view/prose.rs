//! Wraps agents' texts into lines. Headings and code keywords differ by weight: colors are reserved for status.

use subscope_render::{
    Ink, Style,
    markdown::{self, ParagraphBreaks},
    safe,
    style::StyledLine,
    text,
};

/// Keywords common in programming languages, separated by spaces.
const KEYWORDS: &str = "async await break case class const continue def else enum export fn for from func function if \
    impl import in interface let loop match mod mut new pub return self static struct switch trait type use var where \
    while yield";

/// Comment starts.
const COMMENTS: [&str; 3] = ["//", "# ", "-- "];

/// The kind of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextKind {
    /// Markdown.
    Prose,
    /// Code, JSON or program output.
    Code,
}

/// Wraps a text into at most `most` lines of at most `width` columns; the last line counts the omitted ones.
pub(super) fn lines(
    body: &str,
    kind: TextKind,
    ink: Option<Ink>,
    width: usize,
    most: usize,
    style: &Style,
) -> Vec<StyledLine> {
    // At most 8 bytes a column: text beyond the visible lines is not processed.
    let bound = most.saturating_mul(width.max(1)).saturating_mul(8).saturating_add(256);
    let body = body.trim_end();
    let needed = text::prefix(body, bound);
    let mut out = match kind {
        TextKind::Prose => markdown::lines(needed, width, ParagraphBreaks::Keep, style, code),
        TextKind::Code => {
            let text = safe::lines(needed, style.charset());
            let pieces = text.trim_matches('\n').lines().flat_map(|line| {
                let pieces = text::wrap(line, width);
                if pieces.is_empty() { vec![String::new()] } else { pieces }
            });
            pieces.map(|piece| code(&piece)).collect()
        }
    };
    if let Some(ink) = ink {
        out = out.into_iter().map(|line| StyledLine::painted(ink, &line.text())).collect();
    }
    let hidden = body[needed.len()..].lines().count() + out.len().saturating_sub(most);
    out.truncate(most);
    if hidden > 0 {
        out.pop();
        let words = format!("{} {} more lines", style.glyphs().ellipsis, hidden + 1);
        out.push(StyledLine::painted(Ink::Done, &words));
    }
    out
}

/// Highlights a line of code: keywords strong, comments dim.
fn code(words: &str) -> StyledLine {
    let mut line = StyledLine::default();
    let comment = COMMENTS
        .iter()
        .filter_map(|mark| words.find(mark))
        // `http://` does not start a comment.
        .filter(|at| *at == 0 || words[..*at].ends_with(char::is_whitespace))
        .min();
    let (before, after) = words.split_at(comment.unwrap_or(words.len()));
    let mut rest = before;
    while !rest.is_empty() {
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        let starts = rest.starts_with(is_word);
        let end = rest.find(|character| is_word(character) != starts).unwrap_or(rest.len());
        let (piece, more) = rest.split_at(end);
        let is_keyword = KEYWORDS.split(' ').any(|keyword| keyword == piece);
        line.add(is_keyword.then_some(Ink::Strong), piece);
        rest = more;
    }
    line.paint(Ink::Done, after);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: Style = Style { color: true, ascii: false, width: 40 };

    fn parts(lines: &[StyledLine]) -> Vec<Vec<(Option<Ink>, String)>> {
        lines.iter().map(|line| line.parts().map(|(ink, part)| (ink, part.to_owned())).collect()).collect()
    }

    #[test]
    fn headings_and_code_differ_by_weight() {
        let text = "# Title\nreturn **it** 2**3\n```rust\nfn main() { // go\n```\ndone";
        let drawn = parts(&lines(text, TextKind::Prose, None, 40, 99, &STYLE));
        assert_eq!(drawn[0], [(Some(Ink::Strong), "Title".into())]);
        let bold = parts(&lines("say **it all** now", TextKind::Prose, None, 8, 9, &STYLE));
        assert_eq!(bold[0], [(None, "say ".into()), (Some(Ink::Strong), "it".into())]);
        assert_eq!(bold[1], [(Some(Ink::Strong), "all".into()), (None, " now".into())]);
        let unpaired = parts(&lines("it is 2 ** 3", TextKind::Prose, None, 40, 9, &STYLE));
        assert_eq!(unpaired[0], [(None, "it is 2 ** 3".into())], "an unpaired mark is text");
        let code = drawn.iter().find(|line| line.iter().any(|(_, part)| part == "fn")).unwrap();
        assert_eq!(
            code[1..],
            [
                (Some(Ink::Strong), "fn".into()),
                (None, " main() { ".into()),
                (Some(Ink::Done), "// go".into())
            ]
        );
        assert_eq!(drawn.last().unwrap()[..], [(None, "done".into())]);
        let url = parts(&lines("curl http://x", TextKind::Code, None, 40, 9, &STYLE));
        assert_eq!(url[0], [(None, "curl http://x".into())]);
    }

    #[test]
    fn long_texts_say_how_much_is_left_out_and_stay_within_the_width() {
        let text = "line of words\n".repeat(50);
        let drawn = lines(&text, TextKind::Prose, None, 9, 5, &STYLE);
        assert_eq!(drawn.len(), 5);
        assert!(drawn.iter().all(|line| line.width() <= 20));
        let last: String = drawn[4].parts().map(|(_, part)| part.to_owned()).collect();
        assert!(last.starts_with("… ") && last.ends_with(" more lines"), "{last}");
        let huge = "x".repeat(10_000_000);
        assert_eq!(lines(&huge, TextKind::Code, None, 40, 3, &STYLE).len(), 3);
    }

    #[test]
    fn hostile_text_is_made_visible() {
        let drawn = lines("\u{1b}[2J\u{202e}x", TextKind::Prose, None, 60, 9, &STYLE);
        let words: String = drawn[0].parts().map(|(_, part)| part.to_owned()).collect();
        assert_eq!(words, "␛[2J⟨U+202E⟩x");
    }
}
