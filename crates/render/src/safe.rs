//! Sanitizes agents' text for terminals: replaces dangerous characters with visible ones.
//!
//! Control characters (ESC, OSC, NUL, DEL, C1), bidirectional marks, zero-width and tag characters, and line separators
//! are replaced (`␛`, `⟨U+202E⟩`, in ASCII `<ESC>`, `<U+202E>`), so an attack stays readable. Joiners between emoji
//! stay, at most as many as the longest emoji has: a family is one cluster of two columns. After that many a new
//! cluster begins.

use unicode_width::UnicodeWidthChar;

use crate::style::Charset;

/// Most zero-width characters in a row. Real scripts stack two or three marks; thousands on one letter paint over other
/// lines and have no width by which they could be truncated.
const MAX_STACKED_MARKS: usize = 8;

/// Columns between tab stops in multi-line text.
const TAB_STOP: usize = 4;

/// Names of the C0 controls, for ASCII output.
const CONTROL_NAMES: [&str; 32] = [
    "NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "TAB", "LF", "VT", "FF", "CR", "SO", "SI",
    "DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS",
    "US",
];

/// Sanitizes a text to one line: collapses blanks, tabs and line ends to one space, trims, and replaces dangerous
/// characters.
pub fn line(text: &str, charset: Charset) -> String {
    let mut out = Visible::new(text.len(), charset);
    let mut gap = false;
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        if matches!(character, ' ' | '\t' | '\n' | '\r') {
            gap = !out.text.is_empty();
            continue;
        }
        if std::mem::take(&mut gap) {
            out.push(' ', None);
        }
        out.push(character, rest.peek());
    }
    out.text
}

/// Sanitizes a multi-line text: keeps `\n`, converts `\r\n` to `\n` and tabs to spaces, and replaces dangerous
/// characters.
pub fn lines(text: &str, charset: Charset) -> String {
    let mut out = Visible::new(text.len(), charset);
    let mut column = 0;
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\r' if rest.peek() == Some(&'\n') => {}
            '\n' => {
                out.text.push('\n');
                out.stacked = 0;
                column = 0;
            }
            '\t' => {
                let spaces = TAB_STOP - column % TAB_STOP;
                out.text.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            other => {
                out.push(other, rest.peek());
                column += other.width().unwrap_or(1);
            }
        }
    }
    out.text
}

/// Collects characters, replacing dangerous ones.
struct Visible {
    text: String,
    charset: Charset,
    /// Zero-width characters since the last one with a width.
    stacked: usize,
    /// Joiners of the emoji at the end.
    joined: usize,
}

impl Visible {
    fn new(capacity: usize, charset: Charset) -> Self {
        Self { text: String::with_capacity(capacity), charset, stacked: 0, joined: 0 }
    }

    /// Appends a character that `next` follows.
    fn push(&mut self, character: char, next: Option<&char>) {
        let stacks = character.width() == Some(0);
        self.stacked = if stacks { self.stacked + 1 } else { 0 };
        let is_between_emoji = || {
            self.text.chars().next_back().is_some_and(is_emoji) && next.is_some_and(|next| is_emoji(*next))
        };
        if character == JOINER && is_between_emoji() {
            // Longer chains would be one cluster of two columns that some terminals draw over the whole screen.
            if self.joined < MAX_JOINED {
                self.joined += 1;
                self.text.push(character);
            }
            return;
        }
        if !self.text.ends_with(JOINER) && !is_modifier(character) {
            self.joined = 0;
        }
        if is_hidden(character) || self.stacked > MAX_STACKED_MARKS || (stacks && self.text.is_empty()) {
            self.push_image(character);
            self.stacked = 0;
        } else {
            self.text.push(character);
        }
    }

    fn push_image(&mut self, character: char) {
        let code = u32::from(character);
        let name = usize::try_from(code).ok().and_then(|at| CONTROL_NAMES.get(at));
        match (self.charset, name) {
            (Charset::Ascii, Some(name)) => self.text.extend(["<", name, ">"]),
            (Charset::Ascii, None) if code == 0x7F => self.text.push_str("<DEL>"),
            (Charset::Ascii, None) => self.text.push_str(&format!("<U+{code:04X}>")),
            (Charset::Unicode, Some(_)) => self.text.push(char::from_u32(0x2400 + code).unwrap_or('�')),
            (Charset::Unicode, None) if code == 0x7F => self.text.push('␡'),
            (Charset::Unicode, None) => self.text.push_str(&format!("⟨U+{code:04X}⟩")),
        }
    }
}

/// Joins emoji to one picture (zero-width joiner).
const JOINER: char = '\u{200D}';

/// Most joiners of one picture: the longest emoji in use have four parts.
const MAX_JOINED: usize = 3;

/// Whether a character is an emoji, or a variation selector after one.
fn is_emoji(character: char) -> bool {
    matches!(u32::from(character), 0x2600..=0x27BF | 0xFE0F | 0x1F000..=0x1FAFF)
}

/// Whether a character belongs to the emoji before it: a selector, or a skin tone.
fn is_modifier(character: char) -> bool {
    matches!(u32::from(character), 0xFE0F | 0x1F3FB..=0x1F3FF)
}

/// Whether a character is invisible but affects a terminal or its reader: controls, line separators, and the
/// default-ignorable characters of Unicode (`DerivedCoreProperties.txt`), except the variation selectors U+FE0E and
/// U+FE0F of ordinary emoji.
pub fn is_hidden(character: char) -> bool {
    if character.is_control() {
        return true;
    }
    matches!(u32::from(character),
        0x00AD | 0x034F | 0x061C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F
        | 0x2028..=0x202E | 0x2060..=0x206F | 0x3164 | 0xFE00..=0xFE0D | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB
        | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn make_dangerous_text_visible_in_both_charsets() {
        let cases = [
            ("\u{1b}[31mred", "␛[31mred", "<ESC>[31mred"),
            ("\u{1b}]0;owned\u{7}", "␛]0;owned␇", "<ESC>]0;owned<BEL>"),
            ("a\0b\u{7f}", "a␀b␡", "a<NUL>b<DEL>"),
            ("x\u{9b}2J", "x⟨U+009B⟩2J", "x<U+009B>2J"),
            ("abc\u{202e}txt.exe", "abc⟨U+202E⟩txt.exe", "abc<U+202E>txt.exe"),
            ("a\u{2066}b\u{200f}c\u{61c}", "a⟨U+2066⟩b⟨U+200F⟩c⟨U+061C⟩", "a<U+2066>b<U+200F>c<U+061C>"),
            ("a\u{200b}b\u{feff}", "a⟨U+200B⟩b⟨U+FEFF⟩", "a<U+200B>b<U+FEFF>"),
            ("a\u{200d}🎉\u{200d}", "a⟨U+200D⟩🎉⟨U+200D⟩", "a<U+200D>🎉<U+200D>"),
            (
                "👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥",
                "👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥",
                "👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥",
            ),
            ("a\u{e0041}", "a⟨U+E0041⟩", "a<U+E0041>"),
            ("a\u{2028}b", "a⟨U+2028⟩b", "a<U+2028>b"),
        ];
        for (text, unicode, ascii) in cases {
            assert_eq!(line(text, Charset::Unicode), unicode);
            assert_eq!(lines(text, Charset::Unicode), unicode);
            assert_eq!(line(text, Charset::Ascii), ascii);
        }
    }

    #[test]
    fn keep_ordinary_text_of_any_script() {
        for text in ["hello", "naïve café", "日本語", "नमस्ते", "สวัสดี", "שלום", "✔\u{fe0f} 🎉"]
        {
            assert_eq!(line(text, Charset::Unicode), text);
        }
    }

    #[test]
    fn join_lines_and_blanks_with_one_space() {
        assert_eq!(line("  a\tb\r\n\n c  ", Charset::Unicode), "a b c");
        assert_eq!(line("a\rb", Charset::Unicode), "a b");
    }

    #[test]
    fn keep_line_ends_and_expand_tabs_in_multi_line_text() {
        assert_eq!(lines("a\tb\r\n\tc\rd", Charset::Unicode), "a   b\n    c␍d");
    }

    #[test]
    fn show_marks_that_pile_up_or_stand_on_nothing() {
        let pile = format!("a{}", "\u{301}".repeat(1000));
        assert!(line(&pile, Charset::Unicode).contains("⟨U+0301⟩"));
        assert_eq!(line("\u{301}x", Charset::Unicode), "⟨U+0301⟩x");
    }

    #[test]
    fn chain_of_joined_emoji_is_cut_into_clusters_of_four() {
        let chain = ["👩"; 9].join("\u{200d}");
        let parts: Vec<String> = line(&chain, Charset::Unicode)
            .split("👩👩")
            .map(|part| part.matches('👩').count().to_string())
            .collect();
        assert_eq!(parts.join(" "), "3 2 0");
        let family = "👨🏽\u{200d}👩🏽\u{200d}👧🏽\u{200d}👦🏽 👩\u{200d}❤\u{fe0f}\u{200d}💋\u{200d}👨";
        assert_eq!(line(family, Charset::Unicode), family);
        assert_eq!(crate::text::width(family), 5);
        let once = line(&chain, Charset::Unicode);
        assert_eq!(line(&once, Charset::Unicode), once);
    }

    /// Removes joiners between emoji, which stay.
    fn without_joined(text: &str) -> String {
        let mut last = None;
        let keeps = |character: &char| {
            let is_joined = *character == JOINER && last.is_some_and(is_emoji);
            last = Some(*character);
            !is_joined
        };
        text.chars().filter(keeps).collect()
    }

    proptest! {
        #[test]
        fn pass_no_hidden_character_whatever_the_text(text in any::<String>()) {
            for charset in [Charset::Unicode, Charset::Ascii] {
                prop_assert!(!without_joined(&line(&text, charset)).chars().any(is_hidden));
                prop_assert!(!without_joined(&lines(&text, charset)).chars().any(|character| character != '\n' && is_hidden(character)));
            }
        }

        #[test]
        fn change_nothing_when_made_safe_twice(text in any::<String>()) {
            let once = line(&text, Charset::Unicode);
            prop_assert_eq!(line(&once, Charset::Unicode), once);
        }
    }
}
