//! Style of output: colors by status, two glyph sets, and lines truncated by display width.

use subscope_model::{Agent, AgentStatus, Attention, Flag, MicroUsd, SessionRow, SessionStatus, Usage};

use crate::text;

/// Style options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Use colors. The text is the same without them.
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

    /// Sanitizes an agent's text to one line of at most `width` columns.
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

    /// Formats all tokens of a usage; `—` if it is unknown.
    pub fn usage(&self, usage: Option<Usage>) -> String {
        let unknown = || self.glyphs().unknown.to_owned();
        usage.map_or_else(unknown, |usage| self.tokens(usage.total_tokens, usage.floor))
    }

    /// Formats a cost like [`Style::money`]; `—` if it is unknown.
    pub fn cost(&self, micro_usd: Option<MicroUsd>, floor: bool) -> String {
        micro_usd.map_or_else(|| self.glyphs().unknown.to_owned(), |cost| self.money(cost, floor))
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

/// Declares the glyphs: field, Unicode form, ASCII form, meaning.
macro_rules! glyphs {
    ($($name:ident $unicode:literal $ascii:literal $meaning:literal)+) => {
        /// The glyphs of one set. Guides are two columns wide, icons one.
        #[derive(Debug)]
        pub struct Glyphs {
            $(#[doc = $meaning] pub $name: &'static str,)+
        }

        static UNICODE: Glyphs = Glyphs { $($name: $unicode,)+ };
        static ASCII: Glyphs = Glyphs { $($name: $ascii,)+ };
    };
}

glyphs! {
    running "◐" "*" "A running agent."
    completed "✓" "+" "A completed agent, a successful call."
    failed "✗" "x" "A failed agent or call."
    stopped "■" "#" "A stopped agent."
    lost "?" "?" "A lost agent, a call without an end."
    waiting "◆" "@" "An agent or a session that waits for a person."
    trouble "!" "!" "A stalled or flagged agent, a session in trouble, a problem."
    other "○" "o" "Any other agent."
    denied "⊘" "/" "A denied call."
    current "▸" ">" "A current activity."
    start "▶" ">" "The start of an agent."
    pause "‖" "=" "Paused time."
    call "→" "->" "A tool call."
    result "←" "<-" "A tool result."
    says "»" ">>" "A message."
    open_quote "“" "\"" "Opening quotation mark."
    close_quote "”" "\"" "Closing quotation mark."
    dot "·" "-" "Separator of parts of a line."
    ellipsis "…" "..." "Truncated text."
    floor "≥" ">=" "A lower bound."
    unknown "—" "-" "An unknown value."
    times "×" "x" "Multiplication sign, as in 3.2×."
    deep "⋯" ".." "Before the number of a depth that is not drawn."
    branch "├─" "|-" "Guide to a row with later siblings."
    corner "└─" "`-" "Guide to the last sibling."
    pipe "│ " "| " "Guide past a row."
}

/// Whether a running agent makes no progress: it is stalled, or waits for subagents that are lost.
fn is_troubled(agent: &Agent) -> bool {
    agent.status.is_live() && (agent.has(Flag::Stalled) || agent.waits_for_lost())
}

impl Glyphs {
    /// Returns the icon of an agent: of its status, unless it waits for a person, is stalled, or is no longer heard.
    pub fn agent(&self, agent: &Agent) -> &'static str {
        if agent.waits_for_person() {
            self.waiting
        } else if is_troubled(agent) {
            self.trouble
        } else if agent.has(Flag::Unheard) {
            self.lost
        } else {
            self.icon(agent.status)
        }
    }

    /// Returns icon and color of a session: of its class while it is live, then of its root's outcome.
    pub fn session(&self, row: &SessionRow) -> (&'static str, Ink) {
        let is_live = row.status == SessionStatus::Live;
        match (row.attention, row.root) {
            (Attention::Waiting, _) => (self.waiting, Ink::Waiting),
            (Attention::Trouble, _) => (self.trouble, Ink::Stalled),
            // A row of an older version has no class.
            (Attention::Live, _) | (Attention::Ended, None) if is_live => (self.running, Ink::Running),
            (Attention::Live | Attention::Ended, Some(root)) if !root.is_live() => {
                (self.icon(root), Ink::of_status(root))
            }
            (Attention::Live | Attention::Ended, _) => (self.dot, Ink::Done),
        }
    }

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

/// A color, named by the status it means. No other SGR sequence is written.
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
    /// Returns the color of an agent's status, flags and liveness.
    pub fn of(agent: &Agent) -> Self {
        if agent.waits_for_person() {
            Self::Waiting
        } else if is_troubled(agent) || agent.may_wait_for_person() {
            Self::Stalled
        } else if agent.has(Flag::Unheard) {
            Self::Done
        } else {
            Self::of_status(agent.status)
        }
    }

    /// Returns the color of a status alone.
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

/// A line of colored parts. The parts must be sanitized.
#[derive(Clone, Debug, Default)]
pub struct StyledLine {
    parts: Vec<(Option<Ink>, String)>,
    width: usize,
}

impl StyledLine {
    /// Creates a line of one color.
    pub fn painted(ink: Ink, text: &str) -> Self {
        Self::default().with(Some(ink), text)
    }

    /// Returns the line with text in the given color, if any, appended.
    #[must_use]
    pub fn with(mut self, ink: Option<Ink>, text: &str) -> Self {
        self.add(ink, text);
        self
    }

    /// Appends another line.
    pub fn append(&mut self, other: Self) {
        other.parts.iter().for_each(|(ink, part)| self.add(*ink, part));
    }

    /// Appends text without a color.
    pub fn push(&mut self, text: &str) {
        self.add(None, text);
    }

    /// Appends text in a color.
    pub fn paint(&mut self, ink: Ink, text: &str) {
        self.add(Some(ink), text);
    }

    /// Appends text in the given color, if any.
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

    /// Appends cells right-aligned in columns of these widths, the first of which begins at column `from`. A cell
    /// without a width is omitted.
    pub fn cells<T: AsRef<str>>(
        &mut self,
        from: usize,
        widths: impl IntoIterator<Item = Option<usize>>,
        cells: impl IntoIterator<Item = (Option<Ink>, T)>,
    ) {
        let mut end = from;
        for (width, (ink, text)) in widths.into_iter().zip(cells) {
            if let Some(width) = width {
                end += width;
                self.end_at(end, ink, text.as_ref());
            }
        }
    }

    /// Returns the display width in columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the text without colors.
    pub fn text(&self) -> String {
        self.parts().map(|(_, part)| part).collect()
    }

    /// Returns the parts in order with their colors.
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

/// Writes lines like [`StyledLine::write`].
pub(crate) fn write_lines(lines: Vec<StyledLine>, style: &Style) -> String {
    let mut out = String::new();
    lines.into_iter().for_each(|line| line.write(&mut out, style));
    out
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
    fn write_line_cuts_by_width_and_not_by_color() {
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
    fn states_of_agents_and_sessions_have_different_glyphs() {
        for glyphs in [&UNICODE, &ASCII] {
            let mut seen = vec![
                glyphs.running,
                glyphs.completed,
                glyphs.failed,
                glyphs.stopped,
                glyphs.lost,
                glyphs.other,
                glyphs.waiting,
                glyphs.trouble,
                glyphs.denied,
            ];
            let count = seen.len();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), count, "{glyphs:?}");
            assert!(seen.iter().all(|glyph| text::width(glyph) == 1), "{glyphs:?}");
        }
    }

    #[test]
    fn every_glyph_of_the_ascii_set_is_ascii_and_guides_are_two_wide() {
        assert!(format!("{ASCII:?}").is_ascii());
        for glyphs in [&UNICODE, &ASCII] {
            assert!([glyphs.branch, glyphs.corner, glyphs.pipe].iter().all(|guide| text::width(guide) == 2));
        }
    }
}
