//! How output looks: colours that mean a state and nothing else, the two sets of glyphs, and lines that are
//! cut before they are painted.

use subscope_model::{Agent, AgentStatus, Flag, LivenessKind};

use crate::text;

/// How output is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether colours are used. Text reads the same without them.
    pub color: bool,
    /// Whether everything this crate draws itself is ASCII.
    pub ascii: bool,
    /// Columns of the terminal.
    pub width: usize,
}

impl Style {
    /// Returns the set of glyphs in use.
    pub fn charset(&self) -> Charset {
        if self.ascii { Charset::Ascii } else { Charset::Unicode }
    }

    /// Returns the glyphs in use.
    pub fn glyphs(&self) -> &'static Glyphs {
        self.charset().glyphs()
    }

    /// Returns an agent's text as one safe line of at most `width` columns.
    pub fn one_line(&self, text: &str, width: usize) -> String {
        text::one_line(text, width, self.charset())
    }

    /// Returns a figure of money; `≥` before a floor.
    pub fn money(&self, micro_usd: i64, floor: bool) -> String {
        let amount = text::money(micro_usd, floor);
        if self.ascii { amount.replace('≥', self.glyphs().floor) } else { amount }
    }

    /// Returns a figure of tokens; `≥` before a floor.
    pub fn tokens(&self, count: u64, floor: bool) -> String {
        format!("{}{}", if floor { self.glyphs().floor } else { "" }, text::tokens(count))
    }
}

/// The set of characters for what this crate draws itself. Letters of agents' text stay as they are in both.
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
    /// A completed agent, a call that went well.
    pub completed: &'static str,
    /// A failed agent, a call that failed.
    pub failed: &'static str,
    /// A stopped agent.
    pub stopped: &'static str,
    /// A lost agent, a call whose end was never seen.
    pub lost: &'static str,
    /// Any other agent.
    pub other: &'static str,
    /// A denied call.
    pub denied: &'static str,
    /// Something going on.
    pub current: &'static str,
    /// An agent starts.
    pub start: &'static str,
    /// A call goes out.
    pub call: &'static str,
    /// A result comes back.
    pub result: &'static str,
    /// Somebody says something.
    pub says: &'static str,
    /// Before and after an agent's own words.
    pub quotes: [&'static str; 2],
    /// Between parts of a line.
    pub dot: &'static str,
    /// Text was cut.
    pub ellipsis: &'static str,
    /// A figure is a lower bound.
    pub floor: &'static str,
    /// A figure is unknown.
    pub unknown: &'static str,
    /// Times, as in 3.2×.
    pub times: &'static str,
    /// Before a depth that is not drawn.
    pub deep: &'static str,
    /// A guide to a row that has siblings below.
    pub branch: &'static str,
    /// A guide to the last of its siblings.
    pub corner: &'static str,
    /// A guide that passes by.
    pub pipe: &'static str,
}

/// What terminals with Unicode get.
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

/// What all others get.
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

/// A colour, named by the state it means. Closed: no other SGR sequence is ever written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
    /// At work: cyan.
    Running,
    /// Over and no longer of interest: dim.
    Done,
    /// Failed: red.
    Failed,
    /// Stalled, lost, or in trouble: amber.
    Stalled,
    /// Waits for a person: magenta.
    Waiting,
    /// What the rest is about, in no state: bold.
    Strong,
}

impl Ink {
    /// Returns the colour of an agent's state.
    pub fn of(agent: &Agent) -> Self {
        let asks = agent.liveness.as_ref().is_some_and(|live| live.kind == LivenessKind::Permission);
        match agent.status {
            AgentStatus::Pending | AgentStatus::Running if asks => Self::Waiting,
            AgentStatus::Pending | AgentStatus::Running if agent.has(Flag::Stalled) => Self::Stalled,
            status => Self::of_status(status),
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

/// A line in the making: parts with their colours. Its parts have to be safe already.
#[derive(Clone, Debug, Default)]
pub struct Line {
    parts: Vec<(Option<Ink>, String)>,
    width: usize,
}

impl Line {
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

    /// Appends spaces so that the next text ends `columns` from the line's begin.
    pub fn end_at(&mut self, columns: usize, ink: Option<Ink>, text: &str) {
        let spaces = columns.saturating_sub(self.width + text::width(text));
        self.push(&" ".repeat(spaces));
        self.add(ink, text);
    }

    /// Returns how many columns the line takes.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns its parts in order, each with its colour, if any.
    pub fn parts(&self) -> impl Iterator<Item = (Option<Ink>, &str)> {
        self.parts.iter().map(|(ink, part)| (*ink, part.as_str()))
    }

    /// Returns the line, cut with `mark` where it is wider than `room` columns.
    #[must_use]
    pub fn fit(self, mut room: usize, mark: &str) -> Self {
        if self.width <= room {
            return self;
        }
        let mut line = Self::default();
        for (ink, part) in self.parts {
            // One column more than there is for a part that is followed by others: then the cut is marked.
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

    /// Writes the line, cut to the style's width, without trailing blanks, and its newline.
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

    fn written(line: Line, color: bool, width: usize) -> String {
        let mut out = String::new();
        line.write(&mut out, &Style { color, ascii: false, width });
        out
    }

    #[test]
    fn write_line_cuts_by_width_and_not_by_colour() {
        let mut line = Line::default();
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
