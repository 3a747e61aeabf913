//! A permission request: the whole call, to be read before it is allowed, or its questions one by one.

use ratatui::layout::Rect;
use subscope_render::{Ink, permission::request_lines, style::StyledLine, text};

use super::{
    overlay::{centered, sheet},
    paint::Canvas,
    question,
};
use crate::{
    keys::{self, Action},
    state::{PermissionPrompt, UiState},
};

/// Columns of the sheet.
const WIDTH: u16 = 100;

pub(super) fn draw(prompt: &PermissionPrompt, area: Rect, canvas: &mut Canvas<'_>) {
    // The footer stays visible: it has the keys.
    let area = Rect { height: area.height.saturating_sub(1), ..area };
    let width = WIDTH.min(area.width);
    let room = usize::from(width.saturating_sub(4)).max(1);
    let asked = question::asked(prompt).map(|asked| question::lines(asked, &prompt.form, room, canvas));
    let lines: Vec<StyledLine> = match &asked {
        Some(asked) => asked.lines.clone(),
        None => {
            let lines = request_lines(&prompt.request, canvas.style.charset());
            let wrapped = lines.iter().flat_map(|line| text::wrap(line, room));
            wrapped.map(|line| StyledLine::painted(Ink::Strong, &line)).collect()
        }
    };
    let sheet_area = centered(area, width, u16::try_from(lines.len() + 2).unwrap_or(u16::MAX));
    let title = canvas.style.one_line(&title(prompt), room.saturating_sub(8));
    sheet(sheet_area, &title, canvas);
    let height = usize::from(sheet_area.height.saturating_sub(2));
    // What a question offers at the cursor is always visible.
    let from = asked.map_or(prompt.from, |asked| asked.cursor.saturating_sub(height));
    let from = from.min(lines.len().saturating_sub(height));
    let below = lines.len().saturating_sub(from + height);
    let is_cut = lines.len() > height;
    for (line, y) in lines.into_iter().skip(from).take(height).zip(sheet_area.y + 1..) {
        canvas.line(sheet_area.x + 2, y, room as u16, line);
    }
    (canvas.drawn.page, canvas.drawn.permission_from) = (height, from);
    if below == 0 {
        canvas.drawn.read_permission = Some(prompt.request.id.clone());
    }
    if is_cut {
        super::tree::draw_scroll_arrows(canvas, sheet_area, from, below);
    }
}

/// Returns what asks, and where; and which of several questions it is.
fn title(prompt: &PermissionPrompt) -> String {
    let folder = prompt.request.cwd.as_ref().map_or_else(String::new, |cwd| format!(" in {cwd}"));
    let place = match prompt.request.questions.len() {
        0 | 1 => String::new(),
        all => format!(" {} of {all}", prompt.form.question() + 1),
    };
    format!("{}{place}{folder}", prompt.request.tool)
}

/// Returns the footer while a request can be answered: what it is, and the key that opens it.
pub(super) fn offer(state: &UiState, width: usize, canvas: &Canvas<'_>) -> Option<StyledLine> {
    let requests = &state.permissions.as_ref()?.requests;
    let more = match requests.len() - requests.len().min(1) {
        0 => String::new(),
        more => format!(" · {more} more"),
    };
    let call = request_lines(requests.first()?, canvas.style.charset()).join(" ");
    let end = canvas.in_charset(&format!("{more}   {} answers", keys::label(Action::Permit)));
    let glyphs = canvas.glyphs();
    let words = format!(" {} {}: {call}", glyphs.waiting, requests.first()?.tool);
    let words = canvas.style.one_line(&words, width.saturating_sub(text::width(&end) + 1));
    let mut line = StyledLine::painted(Ink::Waiting, &format!(" {words}"));
    line.paint(Ink::Done, &end);
    Some(line)
}

/// Returns the footer of an open request: its keys, or the reason that is typed.
pub(super) fn footer(
    state: &UiState,
    prompt: &PermissionPrompt,
    width: usize,
    canvas: &Canvas<'_>,
) -> StyledLine {
    let mut line = StyledLine::default().with(None, " ");
    if let Some(reason) = &prompt.reason {
        line.paint(Ink::Failed, "deny, because: ");
        line.push(&canvas.style.one_line(reason, width));
        line.paint(Ink::Strong, if canvas.style.ascii { "_" } else { "▏" });
        line.paint(Ink::Done, &canvas.in_charset("   Enter · Esc"));
        return line;
    }
    if let Some(asked) = question::asked(prompt) {
        return question::footer(asked, &prompt.form, width, canvas);
    }
    let is_read = prompt.is_read || canvas.drawn.read_permission.as_ref() == Some(&prompt.request.id);
    let allow = if is_read { ("y", " allow once  ") } else { ("G", " to its end, then y allows  ") };
    for (key, words) in [allow, ("n", " deny  "), ("Esc", " leave it to its terminal  ")] {
        line.add(Some(Ink::Strong), key);
        line.add(None, words);
    }
    let left = text::duration(Some((prompt.request.until_ms - state.now_ms).max(0)));
    line.paint(Ink::Done, &format!("{left} left"));
    line
}
