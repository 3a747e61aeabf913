//! Formats durations, token counts, money and clock times; truncates and wraps text by display width.
//!
//! Token counts are rounded down, so that a `≥` before one stays true.

use std::{borrow::Cow, fmt::Display};

use subscope_model::{MicroUsd, Millis, VendorCost, VendorUnit, is_windows_path};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::{safe, style::Charset};

/// Formats a duration: `999ms`, `59s`, `1m 30s`, `1h 1m 1s`, `4d 22h`; empty for `None`. A negative one (clock skew) is
/// `0ms`.
pub fn duration(span_ms: Option<i64>) -> String {
    let Some(span_ms) = span_ms.map(|span| span.max(0)) else { return String::new() };
    let seconds = span_ms / 1000;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match seconds {
        0 => format!("{span_ms}ms"),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m {rest}s"),
        3600..86_400 => format!("{hours}h {minutes}m {rest}s"),
        _ => format!("{}d {}h", hours / 24, hours % 24),
    }
}

/// Formats the time of day as `HH:MM:SS` in a time zone `offset_minutes` east of UTC.
pub fn clock(at_ms: Millis, offset_minutes: i32) -> String {
    let seconds = at_ms.div_euclid(1000).saturating_add(i64::from(offset_minutes) * 60).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Formats a token count: `999`, `1.2k`, `17k`, `1.2M`, `3G`.
pub fn tokens(count: u64) -> String {
    let (unit, letter) = match count {
        0..1_000 => return count.to_string(),
        1_000..1_000_000 => (1_000, 'k'),
        1_000_000..1_000_000_000 => (1_000_000, 'M'),
        _ => (1_000_000_000, 'G'),
    };
    let (whole, tenth) = (count / unit, count % unit * 10 / unit);
    if whole < 10 && tenth > 0 { format!("{whole}.{tenth}{letter}") } else { format!("{whole}{letter}") }
}

/// Formats a number of bytes: `999 B`, `61 kB`, `2.5 MB`, `1.2 GB`, rounded down.
pub fn bytes(count: u64) -> String {
    let (unit, name) = match count {
        0..1_000 => return format!("{count} B"),
        1_000..1_000_000 => (1_000, "kB"),
        1_000_000..1_000_000_000 => (1_000_000, "MB"),
        _ => (1_000_000_000, "GB"),
    };
    let (whole, tenth) = (count / unit, count % unit * 10 / unit);
    if whole < 10 && tenth > 0 { format!("{whole}.{tenth} {name}") } else { format!("{whole} {name}") }
}

/// Formats money as `$0.92`; below a cent with as many decimals as the first digit needs (`$0.002`). A lower bound gets
/// `≥` and is rounded down.
pub fn money(micro_usd: MicroUsd, floor: bool) -> String {
    let mark = if floor { "≥" } else { "" };
    let sign = if micro_usd < 0 { "-" } else { "" };
    let amount = micro_usd.unsigned_abs();
    if amount == 0 {
        return format!("{mark}$0");
    }
    let rounded = |places: u32| {
        let unit = 10u64.pow(6 - places);
        if floor { amount / unit } else { amount.saturating_add(unit / 2) / unit }
    };
    let mut places = (2..6).find(|places| amount >= 10u64.pow(6 - places)).unwrap_or(6);
    if places > 2 && rounded(places) == 10 {
        places -= 1;
    }
    let (count, scale, width) = (rounded(places), 10u64.pow(places), places as usize);
    format!("{mark}{sign}${}.{:0width$}", count / scale, count % scale)
}

/// Formats a count with a noun: `1 call`, `2 calls`.
pub fn plural<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    let ending = if count == N::from(1) { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// Formats a count with a comma between groups of three digits: `12,003`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let groups: Vec<&str> = (0..digits.len())
        .filter(|at| *at == 0 || (digits.len() - at).is_multiple_of(3))
        .map(|at| {
            let end = at + if at == 0 { (digits.len() + 2) % 3 + 1 } else { 3 };
            digits.get(at..end).unwrap_or_default()
        })
        .collect();
    groups.join(",")
}

/// Returns the display width of a text in terminal columns.
pub fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.graphemes(true).map(UnicodeWidthStr::width).sum() }
}

/// Truncates a text to `width` columns, ending in `…` if it was wider. Grapheme clusters are not split.
pub fn truncate(text: &str, width: usize) -> String {
    truncate_with(text, width, "…")
}

/// Like [`truncate`], with another mark (`...`).
pub fn truncate_with(text: &str, width: usize, mark: &str) -> String {
    if text.is_ascii() && text.len() <= width {
        return text.to_owned();
    }
    let mark: String = mark.chars().take(width).collect();
    let room = width.saturating_sub(self::width(&mark));
    let (mut used, mut cut) = (0, 0);
    for (at, grapheme) in text.grapheme_indices(true) {
        used += UnicodeWidthStr::width(grapheme);
        if used > width {
            return format!("{}{mark}", text[..cut].trim_end());
        }
        if used <= room {
            cut = at + grapheme.len();
        }
    }
    text.to_owned()
}

/// Sanitizes a text to one line of at most `width` columns. Processes only the needed prefix.
pub fn one_line(text: &str, width: usize, charset: Charset) -> String {
    // A column holds at most one character and the stacked marks that `safe` allows: 40 bytes.
    let bound = width.saturating_mul(40).saturating_add(64);
    let text = text.trim_start();
    let needed = prefix(text, bound);
    let mut line = safe::line(needed, charset);
    let mark = charset.glyphs().ellipsis;
    if !text[needed.len()..].trim().is_empty() {
        line.push_str(mark);
    }
    truncate_with(&line, width, mark)
}

/// Returns the longest prefix of a text that has at most `most` bytes and ends between two characters.
pub fn prefix(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Returns the last component of a path; empty for the root directory. A path of Windows, `C:\…` or `\\…`, has both
/// separators, on whatever system it is shown.
pub fn base_name(path: &str) -> &str {
    let separators: &[char] = if is_windows_path(path) { &['/', '\\'] } else { &['/'] };
    path.trim_end_matches(separators).rsplit(separators).next().unwrap_or_default()
}

/// Names where a session runs: the last component of its working directory, after that of its project if it is in a work
/// tree: `shop/fix-cart`. Empty if nothing is known. Raw agent text.
pub fn place_name<'a>(cwd: Option<&'a str>, project: Option<&'a str>) -> Cow<'a, str> {
    let name = |path: Option<&'a str>| path.map(base_name).filter(|name| !name.is_empty());
    match (name(project), name(cwd)) {
        (Some(project), Some(folder)) => format!("{project}/{folder}").into(),
        (one, other) => one.or(other).unwrap_or_default().into(),
    }
}

/// Names a session: `place: title`, whichever is known; `None` if neither is. Raw agent text.
pub fn session_name(place: &str, title: Option<&str>) -> Option<String> {
    let place = Some(place).filter(|name| !name.is_empty());
    match (place, title) {
        (Some(place), Some(title)) => Some(format!("{place}: {title}")),
        (one, other) => one.or(other).map(str::to_owned),
    }
}

/// Writes a cost in a vendor's unit, with at most two decimals: `3 premium requests`, `2.5 AIU`.
pub fn vendor_cost(cost: VendorCost) -> String {
    let hundredths = cost.amount_micro.saturating_add(5_000) / 10_000;
    let decimals = format!("{:02}", hundredths % 100);
    let decimals = decimals.trim_end_matches('0');
    let point = if decimals.is_empty() { "" } else { "." };
    let amount = if cost.amount_micro < 5_000 {
        "<0.01".to_owned()
    } else {
        format!("{}{point}{decimals}", hundredths / 100)
    };
    match cost.unit {
        VendorUnit::PremiumRequests if cost.amount_micro == 1_000_000 => format!("{amount} premium request"),
        VendorUnit::PremiumRequests => format!("{amount} premium requests"),
        VendorUnit::AiUnits => format!("{amount} AIU"),
    }
}

/// Pads a text with spaces to `width` columns.
pub fn pad(text: &str, width: usize) -> String {
    let spaces = width.saturating_sub(self::width(text));
    format!("{text}{:spaces$}", "")
}

/// Wraps a sanitized text into lines of at most `width` columns (at least 2): at word boundaries, else between grapheme
/// clusters. Line ends and leading blanks are preserved.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(2);
    let mut out = Vec::new();
    for line in text.lines() {
        let (mut current, mut used) = (String::new(), 0);
        for word in unbroken(line) {
            let columns = self::width(word);
            if used + columns <= width {
                current.push_str(word);
                used += columns;
                continue;
            }
            if used > 0 {
                out.push(std::mem::take(&mut current).trim_end().to_owned());
                used = 0;
            }
            if word.trim().is_empty() {
                continue;
            }
            for piece in word.graphemes(true).flat_map(|grapheme| fitting(grapheme, width)) {
                let columns = UnicodeWidthStr::width(piece);
                if used + columns > width {
                    out.push(std::mem::take(&mut current));
                    used = 0;
                }
                current.push_str(piece);
                used += columns;
            }
        }
        out.push(current.trim_end().to_owned());
    }
    out
}

/// Splits a line at its break opportunities: white space, and word boundaries of scripts that write no spaces.
/// Punctuation stays with its word: `--detail`, `src/main.rs`.
fn unbroken(line: &str) -> impl Iterator<Item = &str> {
    let is_word = |text: &str| text.chars().all(char::is_alphanumeric);
    let is_blank = |text: &str| text.chars().all(char::is_whitespace);
    let may_break =
        move |left: &str, right: &str| is_blank(left) || is_blank(right) || is_word(left) && is_word(right);
    let mut bounds = line.split_word_bound_indices().peekable();
    let mut start = 0;
    std::iter::from_fn(move || {
        loop {
            let (at, segment) = bounds.next()?;
            let end = at + segment.len();
            if bounds.peek().is_none_or(|(_, next)| may_break(segment, next)) {
                let piece = line.get(start..end);
                start = end;
                return piece;
            }
        }
    })
}

/// Yields a grapheme cluster, split into characters if it is wider than a line.
fn fitting(grapheme: &str, width: usize) -> impl Iterator<Item = &str> {
    let is_whole = UnicodeWidthStr::width(grapheme) <= width;
    let mut ends = grapheme.char_indices().map(|(at, character)| at + character.len_utf8());
    let mut start = 0;
    std::iter::from_fn(move || {
        let end = if is_whole { (start == 0).then_some(grapheme.len()) } else { ends.next() }?;
        let piece = grapheme.get(start..end);
        start = end;
        piece
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sample::shared_cases;

    #[test]
    fn last_component_of_a_path_of_windows_is_found_on_every_system() {
        for case in shared_cases("base_names") {
            let (path, name) = (case[0].as_str().unwrap(), case[1].as_str().unwrap());
            assert_eq!(base_name(path), name, "{path}");
        }
        assert_eq!(base_name("/"), "");
        assert_eq!(place_name(Some(r"C:\w\fix"), Some(r"C:\shop")), "shop/fix");
    }

    #[test]
    fn show_duration_by_its_size() {
        for case in shared_cases("duration") {
            assert_eq!(duration(case[0].as_i64()), case[1].as_str().unwrap(), "{case}");
        }
        assert_eq!((duration(None), duration(Some(i64::MIN))), (String::new(), "0ms".into()));
    }

    #[test]
    fn counts_are_grouped() {
        let counts = [0, 12, 999, 1_204, 12_345, 1_000_000].map(grouped);
        assert_eq!(counts, ["0", "12", "999", "1,204", "12,345", "1,000,000"]);
    }

    #[test]
    fn truncate_text_always_marks_the_cut() {
        let cases = [
            ("hello", 5, "hello"),
            ("hello world", 8, "hello w…"),
            ("hello world", 6, "hello…"),
            ("hello", 4, "hel…"),
            ("hello", 3, "he…"),
            ("hello", 1, "…"),
            ("hello", 0, ""),
            ("", 10, ""),
            ("", 0, ""),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
        ];
        for (text, width, cut) in cases {
            assert_eq!(truncate(text, width), cut, "{text:?} at {width}");
        }
        assert_eq!(truncate_with("hello world", 8, "..."), "hello...");
        assert_eq!(truncate_with("hello", 2, "..."), "..");
    }

    #[test]
    fn show_tokens_cut_and_short() {
        for case in shared_cases("tokens") {
            assert_eq!(tokens(case[0].as_u64().unwrap()), case[1].as_str().unwrap(), "{case}");
        }
        assert_eq!(tokens(u64::MAX), "18446744073G");
    }

    #[test]
    fn show_bytes_cut_and_short() {
        let counts = [0, 999, 1_000, 61_440, 2_590_000, 163_840_000, 1_250_000_000].map(bytes);
        assert_eq!(counts, ["0 B", "999 B", "1 kB", "61 kB", "2.5 MB", "163 MB", "1.2 GB"]);
    }

    #[test]
    fn show_money_with_cents_or_its_first_digit() {
        for case in shared_cases("money") {
            let (amount, floor) = (case[0].as_i64().unwrap(), case[1].as_bool().unwrap());
            assert_eq!(money(amount, floor), case[2].as_str().unwrap(), "{case}");
        }
        assert_eq!(money(i64::MAX, true), "≥$9223372036854.77");
    }

    #[test]
    fn show_time_of_day_in_utc_or_beside_it() {
        assert_eq!(clock(1_795_293_906_647, 0), "20:45:06");
        assert_eq!(clock(1_795_293_906_647, 330), "02:15:06");
        assert_eq!(clock(-1, 0), "23:59:59");
        assert_eq!(clock(i64::MAX, 60).len(), 8);
    }

    #[test]
    fn make_one_line_of_huge_text_marks_what_is_missing() {
        let huge = "a\n".repeat(1_000_000);
        assert_eq!(one_line(&huge, 7, Charset::Unicode), "a a a…");
        let blanks = format!("a{}b", " ".repeat(100_000));
        assert_eq!(one_line(&blanks, 10, Charset::Unicode), "a…");
        assert_eq!(one_line("a\u{1b}b", 10, Charset::Ascii), "a<ESC>b");
    }

    #[test]
    fn wrap_text_at_words_and_inside_long_ones() {
        assert_eq!(wrap("the quick brown", 9), ["the quick", "brown"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("  a\n\nb", 9), ["  a", "", "b"]);
        assert_eq!(wrap("日本語", 4), ["日本", "語"]);
        assert_eq!(wrap("a tree; --detail full", 12), ["a tree;", "--detail", "full"]);
        assert_eq!(wrap("in src/main.rs, or", 12), ["in", "src/main.rs,", "or"]);
    }

    proptest! {
        #[test]
        fn keep_within_width_whatever_the_text(text in any::<String>(), columns in 2usize..40) {
            let safe = safe::line(&text, Charset::Unicode);
            prop_assert!(width(&truncate(&safe, columns)) <= columns);
            prop_assert!(width(&one_line(&text, columns, Charset::Unicode)) <= columns);
            let multi = safe::lines(&text, Charset::Unicode);
            prop_assert!(wrap(&multi, columns).iter().all(|line| width(line) <= columns));
        }
    }
}
