//! Converts a terminal capture with escapes to SVG: each cell is positioned by itself, independent of the font.

use std::fmt::Write;

/// Columns and rows of a cell in pixels.
const CELL: (f64, f64) = (8.4, 18.0);
const MARGIN: f64 = 14.0;
const SIZE: f64 = 14.0;

/// A picture.
pub(super) struct Picture {
    /// The SVG.
    pub(super) text: String,
    /// Its columns and rows in pixels.
    pub(super) size: (u32, u32),
}

/// Attributes of a cell.
#[derive(Clone, Default, PartialEq)]
struct CellStyle {
    fore: Option<String>,
    ground: Option<String>,
    is_bold: bool,
    is_dim: bool,
    is_reversed: bool,
}

/// Draws a capture with escapes, of that many columns and rows.
pub(super) fn svg(capture: &str, (columns, rows): (u16, u16), is_dark: bool) -> Picture {
    let (width, height) =
        (f64::from(columns) * CELL.0 + 2.0 * MARGIN, f64::from(rows) * CELL.1 + 2.0 * MARGIN);
    let (fore, ground, frame) =
        if is_dark { ("#d0d7de", "#0d1117", "#30363d") } else { ("#24292f", "#ffffff", "#d0d7de") };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"'DejaVu Sans Mono', monospace\" font-size=\"{SIZE}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"{ground}\"/><rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"{frame}\"/>\n",
        width - 1.0,
        height - 1.0
    );
    let mut look = CellStyle::default();
    for (row, line) in capture.lines().enumerate() {
        let y = MARGIN + row as f64 * CELL.1;
        let mut column = 0usize;
        let mut rest = line;
        while let Some(first) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("\u{1b}[") {
                let end = after.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(after.len());
                if after[end..].starts_with('m') {
                    apply(&mut look, &after[..end]);
                }
                rest = after.get(end + 1..).unwrap_or_default();
                continue;
            }
            cell(&mut out, first, (MARGIN + column as f64 * CELL.0, y), &look, (fore, ground));
            column += 1;
            rest = &rest[first.len_utf8()..];
        }
    }
    out += "</svg>\n";
    // `as` saturates: pictures are some thousand pixels.
    Picture { text: out, size: (width.ceil() as u32, height.ceil() as u32) }
}

fn cell(out: &mut String, letter: char, (x, y): (f64, f64), look: &CellStyle, (fore, ground): (&str, &str)) {
    let mut colors = [look.fore.as_deref().unwrap_or(fore), look.ground.as_deref().unwrap_or("")];
    if look.is_reversed {
        colors = [if colors[1].is_empty() { ground } else { colors[1] }, colors[0]];
    }
    // Writing to a String cannot fail.
    if !colors[1].is_empty() {
        let _ = write!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{}\" fill=\"{}\"/>",
            CELL.0 + 0.2,
            CELL.1,
            colors[1]
        );
    }
    if let Some(parts) = block(letter) {
        let (from, to) = parts;
        let _ = write!(
            out,
            "<rect x=\"{:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{}\" fill=\"{}\"/>",
            x + from * CELL.0,
            (to - from) * CELL.0,
            CELL.1,
            colors[0]
        );
        return;
    }
    if letter == ' ' {
        return;
    }
    let weight = if look.is_bold { " font-weight=\"bold\"" } else { "" };
    let faint = if look.is_dim { " opacity=\"0.6\"" } else { "" };
    let image = match letter {
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '&' => "&amp;".to_owned(),
        other => other.to_string(),
    };
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{}\"{weight}{faint}>{image}</text>",
        y + 13.5,
        colors[0]
    );
}

/// Returns the filled part of a cell for block characters, which are drawn as rectangles because fonts leave gaps.
fn block(letter: char) -> Option<(f64, f64)> {
    match letter {
        '█' => Some((0.0, 1.03)),
        '▌' => Some((0.0, 0.5)),
        '▏' => Some((0.0, 0.125)),
        _ => None,
    }
}

/// Applies the parameters of one SGR sequence.
fn apply(look: &mut CellStyle, numbers: &str) {
    let mut numbers = numbers.split(';').map(|number| number.parse::<u8>().unwrap_or(0));
    while let Some(number) = numbers.next() {
        match number {
            0 => *look = CellStyle::default(),
            1 => look.is_bold = true,
            2 => look.is_dim = true,
            7 => look.is_reversed = true,
            22 => (look.is_bold, look.is_dim) = (false, false),
            27 => look.is_reversed = false,
            30..=37 => look.fore = Some(indexed(number - 30)),
            90..=97 => look.fore = Some(indexed(number - 90 + 8)),
            39 => look.fore = None,
            49 => look.ground = None,
            38 | 48 => {
                if numbers.next() != Some(5) {
                    return;
                }
                let color = numbers.next().map(indexed);
                if number == 38 { look.fore = color } else { look.ground = color }
            }
            _ => {}
        }
    }
}

/// Returns a color of xterm's 256-color palette.
fn indexed(number: u8) -> String {
    const FIRST: [&str; 16] = [
        "#1b1f24", "#cf222e", "#1a7f37", "#bf8700", "#0969da", "#8250df", "#1b9aa0", "#d0d7de", "#6e7781",
        "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#ffffff",
    ];
    match number {
        0..16 => FIRST[usize::from(number)].to_owned(),
        16..232 => {
            let level = |part: u8| if part == 0 { 0 } else { 55 + part * 40 };
            let number = number - 16;
            format!("#{:02x}{:02x}{:02x}", level(number / 36), level(number / 6 % 6), level(number % 6))
        }
        232.. => {
            let grey = 8 + (number - 232) * 10;
            format!("#{grey:02x}{grey:02x}{grey:02x}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_those_of_xterm() {
        for (number, color) in
            [(80, "#5fd7d7"), (245, "#8a8a8a"), (203, "#ff5f5f"), (16, "#000000"), (231, "#ffffff")]
        {
            assert_eq!(indexed(number), color);
        }
    }

    #[test]
    fn cells_have_their_place_and_their_look() {
        let picture = svg("a\u{1b}[1;38;5;203m<\u{1b}[0m b", (4, 1), true).text;
        assert!(picture.contains("fill=\"#ff5f5f\" font-weight=\"bold\">&lt;</text>"), "{picture}");
        assert!(picture.contains("<text x=\"39.2\"") && picture.contains(">b</text>"), "{picture}");
    }
}
