//! Renders the files that a session's agents changed.

use std::collections::HashMap;

use subscope_model::{AgentId, ChangedFile, ChangedFiles, Tree};

use crate::{
    style::{Ink, Style, StyledLine, write_lines},
    text,
};

/// Columns of the number of changes.
const CHANGES: usize = 9;
/// Least and most columns of a path.
const PATH: std::ops::RangeInclusive<usize> = 16..=72;
/// Least columns of the agents; without them there are none.
const LEAST_AGENTS: usize = 16;

/// Renders a heading and a line for each file that a session's agents changed; empty without files.
pub fn render_changed_files(tree: &Tree, style: &Style) -> String {
    write_lines(file_lines(tree, usize::MAX, style), style)
}

/// Returns a heading and a line for each file, at most `most`: changes, path, agents. Nothing without files.
pub fn file_lines(tree: &Tree, most: usize, style: &Style) -> Vec<StyledLine> {
    let files = ChangedFiles::of(tree).files;
    let titles: HashMap<&AgentId, String> =
        tree.agents.iter().map(|agent| (&agent.id, agent.title())).collect();
    let paths = files.iter().map(|file| text::width(&style.one_line(&file.path, usize::MAX)));
    let longest = paths.max().unwrap_or_default();
    let room = style.width.saturating_sub(CHANGES + 2);
    let with_agents = room.saturating_sub(LEAST_AGENTS + 2);
    let has_agents = with_agents >= *PATH.start();
    let width = longest.clamp(*PATH.start(), *PATH.end()).min(if has_agents { with_agents } else { room });
    let mut lines = Vec::new();
    if !files.is_empty() {
        lines.push(StyledLine::default().with(None, "changed files"));
    }
    lines.extend(files.iter().take(most).map(|file| {
        let mut line = StyledLine::default();
        line.push(&format!("{:>CHANGES$}  ", text::grouped(file.calls.into())));
        let ink = (file.open_calls > 0).then_some(Ink::Running);
        line.add(ink, &text::pad(&end_of(&style.one_line(&file.path, usize::MAX), width, style), width));
        if has_agents {
            let left = room.saturating_sub(width + 2);
            line.paint(Ink::Done, &format!("  {}", style.one_line(&agents_of(file, &titles), left)));
        }
        line
    }));
    if files.len() > most {
        lines.push(StyledLine::painted(Ink::Done, &format!("{:CHANGES$}  {} more", "", files.len() - most)));
    }
    lines
}

fn agents_of(file: &ChangedFile, titles: &HashMap<&AgentId, String>) -> String {
    let titles = file.agents.iter().map(|agent| titles.get(agent).map_or(agent.as_str(), String::as_str));
    titles.collect::<Vec<_>>().join(", ")
}

/// Returns the end of a path in at most so many columns: its file's name tells more than its first folder.
fn end_of(path: &str, width: usize, style: &Style) -> String {
    if text::width(path) <= width {
        return path.to_owned();
    }
    let mark = style.glyphs().ellipsis;
    let mut ends = path.char_indices().filter_map(|(at, _)| path.get(at..));
    let fitting = ends.find(|end| text::width(end) + text::width(mark) <= width);
    format!("{mark}{}", fitting.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use subscope_model::ToolStatus;

    use super::*;
    use crate::sample::{self, call};

    fn rendered(width: usize, most: usize) -> String {
        let mut tree = sample::tree_of_depths(&[0, 1]);
        tree.session.cwd = Some("/shop".into());
        let long = format!("/shop/{}cart.js", "deep/".repeat(30));
        let edits: [(&str, &str, ToolStatus); 5] = [
            ("root", "/shop/src/cart.js", ToolStatus::Ok),
            ("root", "src/cart.js", ToolStatus::Ok),
            ("root", "/etc/\u{1b}[2Jhosts", ToolStatus::Open),
            ("root", "/shop/never.js", ToolStatus::Denied),
            ("root", &long, ToolStatus::Ok),
        ];
        for (agent, file, status) in edits {
            let row = tree.agents.iter_mut().find(|row| row.id.as_str() == agent).unwrap();
            let mut edit = call("Edit", "cart.js", status, 1_000, Some(10));
            edit.writes = Box::new([file.into()]);
            row.tools.push(edit);
        }
        let style = Style { color: false, ascii: true, width };
        write_lines(file_lines(&tree, most, &style), &style)
    }

    #[test]
    fn files_are_listed_with_changes_and_agents_and_long_paths_keep_their_ends() {
        let text = rendered(100, 9);
        assert!(text.contains("        2  src/cart.js"), "{text}");
        assert!(text.contains("        1  /etc/<ESC>[2Jhosts"), "{text}");
        assert!(text.contains("        1  ...") && text.contains("/deep/cart.js "), "{text}");
        assert!(text.contains("main") && !text.contains("never.js"), "{text}");
        assert!(rendered(100, 1).ends_with("  2 more\n"), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [20, 40, 60, 80, 200] {
            for line in rendered(width, 9).lines() {
                assert!(text::width(line) <= width, "{width}: {line}");
            }
        }
    }
}
