//! Lines of a stream that wait until one of them names the session.

use subscope_decode::lenient::LineText;
use subscope_model::SourcePosition;

/// Most bytes of lines that wait. Beyond it, the lines are decoded without a session.
const MAX_WAITING: usize = 16 << 20;

/// Lines that wait, in order.
#[derive(Debug, Default)]
pub(crate) struct WaitingLines {
    lines: Vec<WaitingLine>,
    bytes: usize,
}

/// A line that waits until the session is known.
#[derive(Debug)]
pub(crate) struct WaitingLine {
    place: SourcePosition,
    text: String,
    is_exact: bool,
}

impl WaitingLines {
    /// Adds a line. Returns whether so many wait that they are to be decoded without a session.
    pub(crate) fn push(&mut self, line: LineText<'_>) -> bool {
        let LineText { place, text, is_exact } = line;
        self.bytes += text.len();
        self.lines.push(WaitingLine { place, text: text.to_owned(), is_exact });
        self.bytes > MAX_WAITING
    }

    /// Returns all lines; none waits any more.
    pub(crate) fn take(&mut self) -> Vec<WaitingLine> {
        self.bytes = 0;
        std::mem::take(&mut self.lines)
    }
}

impl WaitingLine {
    /// Returns the line as it was read.
    pub(crate) fn line(&self) -> LineText<'_> {
        LineText { place: self.place, text: &self.text, is_exact: self.is_exact }
    }
}
