//! Style of output: colours by status, two glyph sets, and lines truncated by display width.

use subscope_model::{Agent, AgentStatus, Flag, LivenessKind};

use crate::text;

/// Style options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Use colours. The text is the same without them.
    pub color: bool,
    /// Draw only ASCII, apart from agents' text.
    pub ascii: bool,
    /// Columns of the terminal.
    pub width: usize,
}

impl Style {
    /// Returns the character set.
    pub fn charset(&self) -> Charset {
        if self.ascii { Charset::Ascii } else { Charset::Unicode }
    }

    /// Returns the glyphs of the character set.
    pub fn glyphs(&self) -> &'static Glyphs {
        self.charset().glyphs()
    }

    /// Sanitises an agent's text to one line of at most `width` columns.
    pub fn one_line(&self, text: &str, width: usize) -> String {
        text::one_line(text, width, self.charset())
    }

    /// Formats an amount of money; `≥` marks a lower bound.
    pub fn money(&self, micro_usd: i64, floor: bool) -> String {
        let amount = text::money(micro_usd, floor);
        if self.ascii { amount.replace('≥', self.glyphs().floor) } else { amount }
    }

    /// Formats a token count; `≥` marks a lower bound.
    pub fn tokens(&self, count: u64, floor: bool) -> String {
        format!("{}{}", if floor { self.glyphs().floor } else { "" }, text::tokens(count))
    }
}

/// Character set of this crate's own symbols. Agents' text keeps its letters in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// Box drawing, arrows, symbols.
    Unicode,
    /// For `TERM=dumb` and for logs.
    Ascii,
}

impl Charset {
    /// Returns the glyphs of the set.
    pub fn glyphs(self) -> &'static Glyphs {
        match self {
            Self::Unicode => &UNICODE,
            Self::Ascii => &ASCII,
        }
    }
}

/// The glyphs of one set. Guides are two columns wide, icons one.
#[derive(Debug)]
pub struct Glyphs {
    /// A running agent.
    pub running: &'static str,
    /// A completed agent, a successful call.
    pub completed: &'static str,
    /// A failed agent or call.
    pub failed: &'static str,
    /// A stopped agent.
    pub stopped: &'static str,
    /// A lost agent, a call without an end.
    pub lost: &'static str,
    /// Any other agent.
    pub other: &'static str,
    /// A denied call.
    pub denied: &'static str,
    /// A current activity.
    pub current: &'static str,
    /// The start of an agent.
    pub start: &'static str,
    /// A tool call.
    pub call: &'static str,
    /// A tool result.
    pub result: &'static str,
    /// A message.
    pub says: &'static str,
    /// Opening and closing quotation mark.
    pub quotes: [&'static str; 2],
    /// Separator of parts of a line.
    pub dot: &'static str,
    /// Truncated text.
    pub ellipsis: &'static str,
    /// A lower bound.
    pub floor: &'static str,
    /// An unknown value.
    pub unknown: &'static str,
    /// Multiplication sign, as in 3.2×.
    pub times: &'static str,
    /// Before the number of a depth that is not drawn.
    pub deep: &'static str,
    /// Guide to a row with later siblings.
    pub branch: &'static str,
    /// Guide to the last sibling.
    pub corner: &'static str,
    /// Guide past a row.
    pub pipe: &'static str,
}

/// Glyphs of [`Charset::Unicode`].
static UNICODE: Glyphs = Glyphs {
    running: "◐",
    completed: "✓",
    failed: "✗",
    stopped: "■",
    lost: "?",
    other: "○",
    denied: "⊘",
    current: "▸",
    start: "▶",
    call: "→",
    result: "←",
    says: "»",
    quotes: ["“", "”"],
    dot: "·",
    ellipsis: "…",
    floor: "≥",
    unknown: "—",
    times: "×",
    deep: "⋯",
    branch: "├─",
    corner: "└─",
    pipe: "│ ",
};

/// Glyphs of [`Charset::Ascii`].
static ASCII: Glyphs = Glyphs {
    running: "*",
    completed: "+",
    failed: "x",
    stopped: "#",
    lost: "?",
    other: "o",
    denied: "/",
    current: ">",
    start: ">",
    call: "->",
    result: "<-",
    says: ">>",
    quotes: ["\"", "\""],
    dot: "-",
    ellipsis: "...",
    floor: ">=",
    unknown: "-",
    times: "x",
    deep: "..",
    branch: "|-",
    corner: "`-",
    pipe: "| ",
};

impl Glyphs {
    /// Returns the icon of an agent's status.
    pub fn icon(&self, status: AgentStatus) -> &'static str {
        match status {
            AgentStatus::Pending => self.other,
            AgentStatus::Running => self.running,
            AgentStatus::Completed => self.completed,
            AgentStatus::Failed => self.failed,
            AgentStatus::Stopped => self.stopped,
            AgentStatus::Lost => self.lost,
        }
    }
}

/// A colour, named by the status it means. No other SGR sequence is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// Running: cyan.
    Running,
    /// Ended, secondary: dim.
    Done,
    /// Failed: red.
    Failed,
    /// Stalled, lost or flagged: amber.
    Stalled,
    /// Waiting for a person: magenta.
    Waiting,
    /// Emphasis without a status: bold.
    Strong,
}

impl Ink {
    /// Returns the colour of an agent's status, flags and liveness.
    pub fn of(agent: &Agent) -> Self {
        let asks = agent.liveness.as_ref().is_some_and(|live| live.kind == LivenessKind::Permission);
        if agent.status.is_live() && asks {
            Self::Waiting
        } else if agent.status.is_live() && agent.has(Flag::Stalled) {
            Self::Stalled
        } else {
            Self::of_status(agent.status)
        }
    }

    /// Returns the colour of a status alone.
    pub fn of_status(status: AgentStatus) -> Self {
        match status {
            AgentStatus::Pending | AgentStatus::Running => Self::Running,
            AgentStatus::Completed | AgentStatus::Stopped => Self::Done,
            AgentStatus::Failed => Self::Failed,
            AgentStatus::Lost => Self::Stalled,
        }
    }

    fn sgr(self) -> &'static str {
        match self {
            Self::Running => "\u{1b}[36m",
            Self::Done => "\u{1b}[2m",
            Self::Failed => "\u{1b}[31m",
            Self::Stalled => "\u{1b}[33m",
            Self::Waiting => "\u{1b}[35m",
            Self::Strong => "\u{1b}[1m",
        }
    }
}

/// A line of coloured parts. The parts must be sanitised.
#[derive(Clone, Debug, Default)]
pub struct StyledLine {
    parts: Vec<(Option<Ink>, String)>,
    width: usize,
}

impl StyledLine {
    /// Appends text without a colour.
    pub fn push(&mut self, text: &str) {
        self.add(None, text);
    }

    /// Appends text in a colour.
    pub fn paint(&mut self, ink: Ink, text: &str) {
        self.add(Some(ink), text);
    }

    /// Appends text in the given colour, if any.
    pub fn add(&mut self, ink: Option<Ink>, text: &str) {
        if text.is_empty() {
            return;
        }
        self.width += text::width(text);
        match self.parts.last_mut() {
            Some((last, part)) if *last == ink => part.push_str(text),
            _ => self.parts.push((ink, text.to_owned())),
        }
    }

    /// Appends a text right-aligned to end at column `columns`.
    pub fn end_at(&mut self, columns: usize, ink: Option<Ink>, text: &str) {
        let spaces = columns.saturating_sub(self.width + text::width(text));
        self.push(&" ".repeat(spaces));
        self.add(ink, text);
    }

    /// Returns the display width in columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the parts in order with their colours.
    pub fn parts(&self) -> impl Iterator<Item = (Option<Ink>, &str)> {
        self.parts.iter().map(|(ink, part)| (*ink, part.as_str()))
    }

    /// Truncates the line to `room` columns, ending in `mark` if it was wider.
    #[must_use]
    pub fn fit(self, mut room: usize, mark: &str) -> Self {
        if self.width <= room {
            return self;
        }
        let mut line = Self::default();
        for (ink, part) in self.parts {
            // The mark is appended before truncating, so that a cut between two parts is marked, too.
            let columns = text::width(&part);
            let keeps = columns + text::width(mark) <= room;
            line.add(
                ink,
                &if keeps { part } else { text::truncate_with(&format!("{part}{mark}"), room, mark) },
            );
            room = room.saturating_sub(columns);
            if !keeps {
                break;
            }
        }
        line
    }

    /// Writes the line, truncated to the style's width, without trailing blanks, and a newline.
    pub fn write(self, out: &mut String, style: &Style) {
        let start = out.len();
        for (ink, part) in self.fit(style.width, style.glyphs().ellipsis).parts {
            match ink.filter(|_| style.color && !part.trim().is_empty()) {
                Some(ink) => out.extend([ink.sgr(), &part, "\u{1b}[0m"]),
                None => out.push_str(&part),
            }
        }
        let end = out.trim_end_matches(' ').len().max(start);
        out.truncate(end);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(line: StyledLine, color: bool, width: usize) -> String {
        let mut out = String::new();
        line.write(&mut out, &Style { color, ascii: false, width });
        out
    }

    #[test]
    fn write_line_cuts_by_width_and_not_by_colour() {
        let mut line = StyledLine::default();
        line.paint(Ink::Failed, "ab");
        line.push("cdef ");
        assert_eq!(written(line.clone(), false, 80), "abcdef\n");
        assert_eq!(written(line.clone(), true, 80), "\u{1b}[31mab\u{1b}[0mcdef\n");
        assert_eq!(written(line.clone(), false, 4), "abc…\n");
        assert_eq!(written(line.clone(), false, 3), "ab…\n");
        assert_eq!(written(line.clone(), true, 2), "\u{1b}[31ma…\u{1b}[0m\n");
        assert_eq!(written(line, false, 0), "\n");
    }

    #[test]
    fn every_glyph_of_the_ascii_set_is_ascii_and_guides_are_two_wide() {
        assert!(format!("{ASCII:?}").is_ascii());
        for glyphs in [&UNICODE, &ASCII] {
            assert!([glyphs.branch, glyphs.corner, glyphs.pipe].iter().all(|guide| text::width(guide) == 2));
        }
    }
}
