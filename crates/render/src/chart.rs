//! Small charts of text: bars, and levels of a line of columns.

use crate::style::Style;

/// Levels of a column, from the least to the full one.
const LEVELS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const ASCII_LEVELS: [&str; 8] = [".", ":", "-", "=", "+", "*", "#", "%"];

/// Parts of a bar's last column, from an eighth to all of it.
const PARTS: [&str; 8] = ["▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];

/// Returns the symbol of a level from 1 to 8; higher ones are shown as 8. `None` for 0.
pub fn level(level: usize, style: &Style) -> Option<&'static str> {
    let levels = if style.ascii { ASCII_LEVELS } else { LEVELS };
    levels.get(level.checked_sub(1)?.min(levels.len() - 1)).copied()
}

/// Returns a bar of at most `width` columns for a share of `value` in `most`. A value above 0 is never invisible.
pub fn bar(value: u64, most: u64, width: usize, style: &Style) -> String {
    if value == 0 || most == 0 {
        return String::new();
    }
    let eighths = u128::from(value.min(most)) * (width as u128 * 8) / u128::from(most);
    let eighths = usize::try_from(eighths).unwrap_or(usize::MAX).max(1);
    if style.ascii {
        return "#".repeat(eighths.div_ceil(8));
    }
    let mut bar = PARTS[7].repeat(eighths / 8);
    if let Some(part) = (eighths % 8).checked_sub(1) {
        bar.push_str(PARTS[part]);
    }
    bar
}

/// Returns a column for each value, as high as its share in the greatest one; a blank for 0.
pub fn sparkline(values: &[u32], style: &Style) -> String {
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    // Rounded up, so that no value above 0 is invisible.
    let of = |value: u32| (u64::from(value) * 8).div_ceil(u64::from(most)) as usize;
    values.iter().map(|value| level(of(*value), style).unwrap_or(" ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: Style = Style { color: false, ascii: false, width: 40 };
    const ASCII: Style = Style { ascii: true, ..STYLE };

    #[test]
    fn bars_are_as_long_as_their_share_and_never_invisible() {
        assert_eq!(bar(10, 10, 4, &STYLE), "████");
        assert_eq!(bar(5, 10, 3, &STYLE), "█▌");
        assert_eq!(bar(1, 1_000_000, 4, &STYLE), "▏");
        assert_eq!((bar(0, 10, 4, &STYLE), bar(3, 0, 4, &STYLE)), (String::new(), String::new()));
        assert_eq!((bar(5, 10, 3, &ASCII), bar(u64::MAX, u64::MAX, 2, &ASCII)), ("##".into(), "##".into()));
    }

    #[test]
    fn sparklines_have_a_column_for_each_value() {
        assert_eq!(sparkline(&[0, 1, 4, 8], &STYLE), " ▁▄█");
        assert_eq!(sparkline(&[0, 1, 1_000], &ASCII), " .%");
        assert_eq!(sparkline(&[], &STYLE), "");
    }
}
