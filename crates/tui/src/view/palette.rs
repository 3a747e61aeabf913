//! The command palette.

use ratatui::layout::Rect;
use subscope_render::{Ink, style::StyledLine, text};

use super::{
    overlay::{centered, sheet},
    paint::Canvas,
    sessions::first_in_sight,
};
use crate::{
    keys,
    state::{
        UiState,
        palette::{CommandPalette, PaletteEntry},
    },
};

/// Columns of the kind of an entry.
const KIND: usize = 10;

pub(super) fn draw(state: &UiState, palette: &CommandPalette, area: Rect, canvas: &mut Canvas<'_>) {
    let entries = palette.entries(state);
    let area = centered(area, area.width.saturating_sub(4).min(110), area.height.saturating_sub(4).min(30));
    sheet(area, "Go to, or do", canvas);
    let inner = Rect { x: area.x + 2, width: area.width.saturating_sub(4), y: area.y + 1, height: 1 };
    let mut prompt = StyledLine::painted(Ink::Strong, ": ");
    prompt.push(&canvas.style.one_line(&palette.text, usize::from(inner.width).saturating_sub(4)));
    prompt.paint(Ink::Strong, if canvas.style.ascii { "_" } else { "▏" });
    prompt.end_at(usize::from(inner.width), Some(Ink::Done), "Tab completes");
    canvas.line(inner.x, inner.y, inner.width, prompt);
    let height = usize::from(area.height.saturating_sub(3));
    let at = palette.at.min(entries.len().saturating_sub(1));
    let first = first_in_sight(0, Some(at), height, entries.len());
    for ((place, entry), y) in entries.iter().enumerate().skip(first).take(height).zip(area.y + 2..) {
        canvas.line(inner.x, y, inner.width, line(entry, palette, usize::from(inner.width), canvas));
        if place == at {
            canvas.select(Rect { x: area.x + 1, y, width: area.width - 2, height: 1 }, true);
        }
    }
}

fn line(entry: &PaletteEntry, palette: &CommandPalette, width: usize, canvas: &Canvas<'_>) -> StyledLine {
    let style = canvas.style;
    let room = width.saturating_sub(KIND + 8);
    let name = style.one_line(&entry.name(&palette.text), room);
    let kind = |words: &str| StyledLine::painted(Ink::Done, &text::pad(words, KIND));
    match entry {
        PaletteEntry::Command(action) => {
            let mut line = kind("command").with(Some(Ink::Strong), &name);
            line.paint(Ink::Done, &format!("  {}", keys::help(*action)));
            line.end_at(width, Some(Ink::Done), &canvas.in_charset(keys::label(*action)));
            line
        }
        PaletteEntry::Session(row) => {
            let (icon, ink) = style.glyphs().session(row);
            kind("session").with(Some(ink), icon).with(None, " ").with(None, &name)
        }
        PaletteEntry::Agent(..) => kind("agent").with(None, &name),
        PaletteEntry::Text => {
            let (open, close) = (style.glyphs().open_quote, style.glyphs().close_quote);
            kind("text").with(None, &format!("search all history for {open}{name}{close}"))
        }
    }
}
