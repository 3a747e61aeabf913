//! Canvas: draws lines of `subscope-render` in the theme's colors.

use ratatui::{buffer::Buffer, layout::Rect};
use subscope_render::{
    Ink, Style,
    style::{Glyphs, StyledLine},
    text,
};

use crate::{
    state::{Drawn, MouseTarget, Panel, UiState},
    theme::Theme,
};

/// A frame being drawn.
pub(super) struct Canvas<'a> {
    buffer: &'a mut Buffer,
    pub(super) theme: Theme,
    /// Render style; its width is set for each panel.
    pub(super) style: Style,
    pub(super) drawn: Drawn,
    focus: Panel,
}

impl<'a> Canvas<'a> {
    pub(super) fn new(state: &UiState, buffer: &'a mut Buffer) -> Self {
        let style = state.settings.style;
        let theme = Theme::new(state.settings.palette, style.color);
        Self { buffer, theme, style, drawn: Drawn::default(), focus: state.panel }
    }

    /// The glyphs of the style's character set.
    pub(super) fn glyphs(&self) -> &'static Glyphs {
        self.style.glyphs()
    }

    /// The style for a panel of a width.
    pub(super) fn style_of(&self, width: u16) -> Style {
        Style { width: usize::from(width), ..self.style }
    }

    /// Replaces our own non-ASCII symbols if the style is ASCII only.
    pub(super) fn in_charset(&self, words: &str) -> String {
        if !self.style.ascii {
            return words.to_owned();
        }
        let images = [
            ("·", "-"),
            ("…", "..."),
            ("“", "\""),
            ("”", "\""),
            ("↑", "Up"),
            ("↓", "Down"),
            ("←", "Left"),
            ("→", "Right"),
            ("⇧", "S-"),
            ("▸", ">"),
        ];
        images.iter().fold(words.to_owned(), |words, (image, ascii)| words.replace(image, ascii))
    }

    /// Draws a line; a longer one is cut and ends in an ellipsis.
    pub(super) fn line(&mut self, x: u16, y: u16, width: u16, line: StyledLine) {
        if !self.buffer.area.contains((x, y).into()) {
            return;
        }
        let line = line.fit(usize::from(width), self.glyphs().ellipsis);
        let mut at = x;
        for (ink, part) in line.parts() {
            let room = (x + width).saturating_sub(at);
            // Reset: the cell may have been styled before.
            let style = ratatui::style::Style::reset().patch(self.theme.ink(ink));
            (at, _) = self.buffer.set_stringn(at, y, part, usize::from(room), style);
        }
    }

    /// Draws lines from the top of an area, as many as fit.
    pub(super) fn lines(&mut self, area: Rect, lines: impl IntoIterator<Item = StyledLine>) {
        for (line, y) in lines.into_iter().zip(area.y..area.bottom()) {
            self.line(area.x, y, area.width, line);
        }
    }

    /// Sets the selection's background.
    pub(super) fn select(&mut self, area: Rect, has_focus: bool) {
        let style = self.theme.selected(has_focus);
        self.buffer.set_style(area.intersection(self.buffer.area), style);
    }

    /// Underlines an area.
    pub(super) fn underline(&mut self, area: Rect) {
        self.buffer.set_style(area.intersection(self.buffer.area), ratatui::style::Style::new().underlined());
    }

    /// Clears an area for an overlay.
    pub(super) fn clear(&mut self, area: Rect) {
        let area = area.intersection(self.buffer.area);
        for position in area.positions() {
            if let Some(cell) = self.buffer.cell_mut(position) {
                cell.reset();
            }
        }
    }

    /// Draws a vertical line from row `from` to before row `to`.
    pub(super) fn vertical_rule(&mut self, x: u16, from: u16, to: u16) {
        let (style, symbol) = (self.theme.rule(), if self.style.ascii { "|" } else { "│" });
        for y in from..to {
            self.buffer.set_stringn(x, y, symbol, 1, style);
        }
    }

    /// Draws a horizontal line with a title and a text at its right end.
    pub(super) fn titled_rule(&mut self, area: Rect, title: StyledLine, right: StyledLine) {
        let rule = if self.style.ascii { "-" } else { "─" }.repeat(usize::from(area.width));
        self.buffer.set_stringn(area.x, area.y, rule, usize::from(area.width), self.theme.rule());
        let spaced = |line: StyledLine| {
            let mut spaced = StyledLine::default().with(None, " ");
            spaced.append(line);
            spaced.with(None, " ")
        };
        let right_width = u16::try_from(right.width()).unwrap_or(u16::MAX);
        let has_right = right_width > 0 && right_width + 12 < area.width;
        let room = area.width.saturating_sub(2 + if has_right { right_width + 3 } else { 0 });
        if title.width() > 0 {
            self.line(area.x + 1, area.y, room, spaced(title));
        }
        if has_right {
            self.line(area.right() - right_width - 3, area.y, right_width + 2, spaced(right));
        }
    }

    /// Draws one symbol.
    pub(super) fn symbol(&mut self, x: u16, y: u16, symbol: &str, style: ratatui::style::Style) {
        self.buffer.set_stringn(x, y, symbol, 1, style);
    }

    /// Draws a sanitized text in a terminal style.
    pub(super) fn label(&mut self, x: u16, y: u16, words: &str, style: ratatui::style::Style) {
        self.buffer.set_string(x, y, words, style);
    }

    /// Adds a mouse target.
    pub(super) fn add_mouse_target(&mut self, area: Rect, target: MouseTarget) {
        self.drawn.mouse_targets.push((area, target));
    }

    /// Makes an area clickable as a panel; `page` rows of it are a page if it has the focus.
    pub(super) fn add_panel(&mut self, area: Rect, panel: Panel, page: usize) {
        self.add_mouse_target(area, MouseTarget::Panel(panel));
        if self.focus == panel {
            self.drawn.page = page;
        }
    }
}

/// Appends parts separated by dots, as many as fit into `room` columns, and the number of omitted ones.
pub(super) fn push_parts(line: &mut StyledLine, parts: Vec<(Option<Ink>, String)>, dot: &str, room: usize) {
    let count = parts.len();
    for (at, (ink, part)) in parts.into_iter().enumerate() {
        let gap = if at == 0 { String::new() } else { format!(" {dot} ") };
        // Leaves room for the count of omitted parts.
        let more = if at + 1 < count { 8 } else { 0 };
        if line.width() + text::width(&gap) + text::width(&part) + more > room && at > 0 {
            line.paint(Ink::Done, &format!(" {dot} +{}", count - at));
            return;
        }
        line.paint(Ink::Done, &gap);
        line.add(ink, &part);
    }
}
