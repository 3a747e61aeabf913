//! Results of a search of all stored text: filters with counts, and hits with their excerpts.

use ratatui::layout::Rect;
use subscope_model::SearchHit;
use subscope_render::{Ink, style::StyledLine, table::ago, text};

use super::{
    overlay::{centered, sheet},
    paint::Canvas,
    prose::{self, TextKind},
};
use crate::state::{
    UiState,
    search::{Facet, SearchResults},
};

/// Most lines of an excerpt.
const MAX_EXCERPT: usize = 5;

/// Most lines of filters.
const MAX_FACET_LINES: usize = 4;

pub(super) fn draw(state: &UiState, results: &SearchResults, area: Rect, canvas: &mut Canvas<'_>) {
    let area = centered(area, area.width.saturating_sub(4).min(140), area.height.saturating_sub(2));
    let words = canvas.style.one_line(&results.query.terms.join(" "), usize::from(area.width) / 3);
    let floor = if results.found.total_floor { "at least " } else { "" };
    let total = text::grouped(results.found.total.max(results.found.hits.len() as u64));
    let (open, close) = (canvas.glyphs().open_quote, canvas.glyphs().close_quote);
    let title = format!("{} of {floor}{total} passages with {open}{words}{close}", results.found.hits.len());
    sheet(area, &title, canvas);
    let inner = Rect {
        x: area.x + 2,
        y: area.y + 1,
        width: area.width.saturating_sub(4),
        height: area.height.saturating_sub(2),
    };
    let used = facets(results, inner, canvas);
    let list = Rect { y: inner.y + used, height: inner.height.saturating_sub(used), ..inner };
    if results.found.hits.is_empty() {
        return canvas.line(
            list.x,
            list.y,
            list.width,
            StyledLine::painted(Ink::Done, "nothing has all that"),
        );
    }
    let height = usize::from(list.height);
    let blocks = |at: usize| results.found.hits.get(at).map(|hit| block(state, hit, list.width, canvas));
    let lines_of = |at: usize| blocks(at).map_or(0, |lines| lines.len());
    // From the selected hit up, as many as fit.
    let (mut first, mut used) = (results.at, lines_of(results.at));
    while first > 0 && used + lines_of(first - 1) <= height {
        first -= 1;
        used += lines_of(first);
    }
    let drawn: Vec<_> = (first..results.found.hits.len())
        .scan(0, |used, at| {
            let lines = blocks(at).filter(|_| *used < height)?;
            let top = *used;
            *used += lines.len();
            Some((at, top, lines))
        })
        .collect();
    for (at, top, lines) in drawn {
        let y = list.y + top as u16;
        let rows = u16::try_from(lines.len()).unwrap_or(u16::MAX).min(list.bottom() - y);
        let place = Rect { y, height: rows, ..list };
        canvas.lines(place, lines);
        if at == results.at {
            canvas.select(Rect { x: area.x + 1, width: area.width - 2, ..place }, true);
        }
    }
}

/// Draws the filters, and a line about their keys. Returns the number of lines.
fn facets(results: &SearchResults, area: Rect, canvas: &mut Canvas<'_>) -> u16 {
    let (mut x, mut line) = (area.x, 0);
    for (at, (facet, hits)) in results.facets().into_iter().enumerate() {
        let name = match &facet {
            Facet::Kind(name) => name.to_string(),
            Facet::Tool(name) => format!("{} {name}", canvas.glyphs().call),
            Facet::Project(path) => format!("{}/", text::base_name(path)),
            Facet::Failed => format!("{} failed", canvas.glyphs().failed),
        };
        let name = canvas.style.one_line(&name, 30);
        let is_on = results.has(&facet);
        let mark = if is_on { "[x] " } else { "[ ] " };
        let mut chip = StyledLine::default().with(is_on.then_some(Ink::Strong), &format!(" {mark}{name} "));
        chip.paint(Ink::Done, &format!("{} ", text::grouped(hits)));
        let width = u16::try_from(chip.width()).unwrap_or(u16::MAX);
        if x > area.x && x + width > area.right() {
            (x, line) = (area.x, line + 1);
        }
        if line == MAX_FACET_LINES {
            break;
        }
        let place = Rect { x, y: area.y + line as u16, width: width.min(area.right() - x), height: 1 };
        canvas.line(place.x, place.y, place.width, chip);
        if at == results.facet {
            canvas.select(place, true);
        }
        x += place.width + 1;
    }
    let used = (line + 1).min(MAX_FACET_LINES) as u16;
    let rule = Rect { y: area.y + used, height: 1, ..area };
    let keys = canvas.in_charset("← → filters · space on, off · Enter opens · / other words");
    canvas.titled_rule(rule, StyledLine::painted(Ink::Done, &keys), StyledLine::default());
    used + 1
}

/// Session, agent, kind and age of a hit, and its excerpt.
fn block(state: &UiState, hit: &SearchHit, width: u16, canvas: &Canvas<'_>) -> Vec<StyledLine> {
    let style = canvas.style;
    let width = usize::from(width);
    // The session list completes the data of live sessions that the answer lacks.
    let listed = state.sessions.rows.iter().find(|row| row.id == hit.session_id);
    let project = hit.project.as_deref().or_else(|| listed?.cwd.as_deref());
    let title = hit.session_title.as_deref().or_else(|| listed?.title.as_deref());
    let place = text::place_name(project, listed.and_then(|row| row.project.as_deref()));
    let name = text::session_name(&place, title).unwrap_or_else(|| hit.session_id.to_string());
    let mut line = StyledLine::painted(Ink::Strong, &style.one_line(&name, width / 2));
    let tool = hit.tool.as_deref().map(|tool| format!(" of {tool}")).unwrap_or_default();
    let kind = style.one_line(&format!("{}{tool}", hit.kind), 40);
    let agent = style.one_line(&hit.agent, width / 3);
    line.paint(Ink::Done, &format!("  {agent} {} {kind}", style.glyphs().dot));
    if hit.failed {
        line.paint(Ink::Failed, &format!(" {}", style.glyphs().failed));
    }
    let age = hit.at_ms.map(|at| format!(" {} ago", ago(state.now_ms - at))).unwrap_or_default();
    let mut line = line.fit(width.saturating_sub(text::width(&age)), style.glyphs().ellipsis);
    line.end_at(width, Some(Ink::Done), &age);
    // An older hub returns the line only.
    let excerpt = if hit.excerpt.is_empty() { &hit.snippet } else { &hit.excerpt };
    let excerpt = prose::lines(excerpt, TextKind::Code, None, width.saturating_sub(4), MAX_EXCERPT, &style);
    let indented = excerpt.into_iter().map(|excerpt| {
        let mut line = StyledLine::default().with(None, "    ");
        line.append(excerpt);
        line
    });
    std::iter::once(line).chain(indented).collect()
}
