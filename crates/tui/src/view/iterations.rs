//! Recorded iterations of `subscope run`, the newest first.

use ratatui::layout::Rect;
use subscope_model::{AgentStatus, Iteration, IterationStatus, SessionId, iso8601};
use subscope_render::{Ink, Style, style::StyledLine, text};

use super::{paint::Canvas, report::ReportLines};
use crate::state::{UiState, reports::Place};

/// Columns after the name: number, agents, failures, duration, exit code.
const WIDTHS: [usize; 5] = [9, 8, 8, 11, 7];

/// Columns of status and start.
const START: usize = 14;

pub(super) fn draw(state: &UiState, area: Rect, canvas: &mut Canvas<'_>) {
    let style = canvas.style_of(area.width.saturating_sub(2));
    let mut lines = ReportLines::default();
    match state.reports.iterations.as_deref() {
        None => lines.push(StyledLine::painted(Ink::Done, &canvas.in_charset("reading…"))),
        Some([]) => {
            let words = "none yet: `subscope run --iterations 3 -- COMMAND` records them";
            lines.push(StyledLine::painted(Ink::Done, &canvas.in_charset(words)));
        }
        Some(rows) => {
            let name = style.width.saturating_sub(START + WIDTHS.iter().sum::<usize>()).clamp(8, 60);
            let mut head = StyledLine::painted(Ink::Done, &text::pad("  started", START));
            head.paint(Ink::Done, "run");
            let words = ["number", "agents", "failed", "time", "exit"];
            head.cells(START + name, WIDTHS.map(Some), words.map(|word| (Some(Ink::Done), word)));
            lines.push(head);
            for row in rows {
                let session = row.meta.session_id.as_deref().map(SessionId::from);
                let place = session.map(|session| Place { session, agent: None });
                lines.push_link(line(state, row, name, &style), place);
            }
        }
    }
    lines.draw(state, area, canvas);
}

fn line(state: &UiState, row: &Iteration, name: usize, style: &Style) -> StyledLine {
    let (glyphs, meta) = (style.glyphs(), &row.meta);
    let status = match meta.status {
        IterationStatus::Running => AgentStatus::Running,
        IterationStatus::Completed => AgentStatus::Completed,
        IterationStatus::Failed => AgentStatus::Failed,
        IterationStatus::Cut => AgentStatus::Lost,
    };
    let ink = Ink::of_status(status);
    let day = iso8601(meta.started_at_ms + i64::from(state.settings.offset_minutes) * 60_000);
    let start = format!(
        "{} {}",
        day.get(5..10).unwrap_or_default(),
        text::prefix(&state.clock(meta.started_at_ms), 5)
    );
    let mut line = StyledLine::painted(ink, glyphs.icon(status)).with(None, " ");
    line.paint(Ink::Done, &text::pad(&start, START - 2));
    let place = text::base_name(&meta.cwd);
    line.push(&style.one_line(&format!("{}  {place}", meta.name), name.saturating_sub(1)));
    let of = meta.of.map(|of| format!("/{of}")).unwrap_or_default();
    let unknown = || glyphs.unknown.to_owned();
    let running = || (meta.status == IterationStatus::Running).then(|| state.now_ms - meta.started_at_ms);
    let failed = row.failed.unwrap_or(0);
    let exit = meta.exit_code.map_or_else(String::new, |code| code.to_string());
    let cells = [
        (None, format!("{}{of}", meta.iteration)),
        (None, row.agents.map_or_else(unknown, |agents| agents.to_string())),
        ((failed > 0).then_some(Ink::Failed), row.failed.map_or_else(unknown, |failed| failed.to_string())),
        (None, text::duration(row.duration_ms.or_else(running))),
        (meta.exit_code.filter(|code| *code != 0).map(|_| Ink::Failed), exit),
    ];
    line.cells(START + name, WIDTHS.map(Some), cells);
    line
}
