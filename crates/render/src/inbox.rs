//! The inbox in words: marks of the groups, what an agent needs and since when, and the line of what happened since the user
//! looked.

use subscope_model::{AgentNeed, Inbox, Millis, NeedGroup, NeedReason, ReadingProgress};

use crate::{
    style::{Glyphs, Ink, Style, StyledLine},
    text,
};

/// Returns the mark and the color of a group.
pub fn need_mark(group: NeedGroup, glyphs: &Glyphs) -> (&'static str, Ink) {
    match group {
        NeedGroup::Waits => (glyphs.waiting, Ink::Waiting),
        NeedGroup::Trouble => (glyphs.trouble, Ink::Stalled),
        NeedGroup::Perhaps => ("~", Ink::Done),
    }
}

/// Returns what an agent needs, and since when: `is stalled · 12m 3s`, `may wait for you: no result of Read for 57s`. Not
/// sanitized.
pub fn need_words(need: &AgentNeed, now: Millis) -> String {
    let Some(since) = need.since_ms else { return need.words.to_string() };
    // In whole seconds, so that it does not flicker.
    let lasts = if now - since < 1_000 { "0s".to_owned() } else { text::duration(Some(now - since)) };
    let gap = if need.reason == NeedReason::MayWait { " for " } else { " · " };
    format!("{}{gap}{lasts}", need.words)
}

/// A count of the inbox in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertainPart {
    /// The group that is counted.
    pub group: NeedGroup,
    /// Its color.
    pub ink: Ink,
    /// Mark, count and words.
    pub words: String,
}

/// Returns the parts of the inbox that need the user for certain: `◆ 2 wait for you`, `! 1 in trouble`.
pub fn certain_parts(inbox: &Inbox, glyphs: &Glyphs) -> Vec<CertainPart> {
    let waits = if inbox.waits == 1 { "waits for you" } else { "wait for you" };
    let parts = [(NeedGroup::Waits, inbox.waits, waits), (NeedGroup::Trouble, inbox.trouble, "in trouble")];
    let parts = parts.into_iter().filter(|(_, count, _)| *count > 0);
    parts
        .map(|(group, count, words)| {
            let (mark, ink) = need_mark(group, glyphs);
            CertainPart { group, ink, words: format!("{mark} {count} {words}") }
        })
        .collect()
}

/// Returns how far sessions are read: `2,757 of 3,000 sessions read`.
pub fn reading_words(ReadingProgress { read, total }: ReadingProgress) -> String {
    if total == 0 {
        "reading sessions".to_owned()
    } else if read < total {
        format!("{} of {} sessions read", text::grouped(read), text::grouped(total))
    } else {
        // What searches look through comes last.
        "sessions read, reading their texts".to_owned()
    }
}

/// Returns the parts of what ended since the user looked: `✓ 5 finished`, `✗ 1 failed`.
pub fn ended_parts(inbox: &Inbox, glyphs: &Glyphs) -> Vec<(Ink, String)> {
    let parts = [
        (Ink::Strong, glyphs.completed, inbox.finished, "finished"),
        (Ink::Failed, glyphs.failed, inbox.failed, "failed"),
        (Ink::Done, glyphs.stopped, inbox.stopped, "stopped"),
        (Ink::Stalled, glyphs.lost, inbox.lost, "lost"),
    ];
    let parts = parts.into_iter().filter(|(.., count, _)| *count > 0);
    parts.map(|(ink, mark, count, words)| (ink, format!("{mark} {count} {words}"))).collect()
}

/// Returns since when things are news: `since 12:02`; on another day in hours or days.
fn since_words(inbox: &Inbox, seen: Millis, offset_minutes: i32) -> String {
    let (hour_ms, day_ms) = (3_600_000, 86_400_000);
    match inbox.at_ms - seen {
        // Of an earlier day, the time of day alone would be wrong.
        span if span >= day_ms => format!("since {}d ago", span / day_ms),
        span if span >= 12 * hour_ms => format!("since {}h ago", span / hour_ms),
        _ => format!("since {}", text::prefix(&text::clock(seen, offset_minutes), 5)),
    }
}

/// Returns what ended since the user looked in one part: `since 12:02 ✓ 5 finished ✗ 1 failed $14.20`; `None` if nothing did.
pub fn ended_words(inbox: &Inbox, offset_minutes: i32, style: &Style) -> Option<String> {
    let ended = ended_parts(inbox, style.glyphs());
    let seen = inbox.seen_until_ms.filter(|_| !ended.is_empty())?;
    let mut parts = vec![since_words(inbox, seen, offset_minutes)];
    parts.extend(ended.into_iter().map(|(_, words)| words));
    parts.extend(inbox.cost_micro_usd.map(|cost| style.money(cost, inbox.cost_floor)));
    Some(parts.join(" "))
}

/// Returns the line of what happened since the user looked: `since 12:02 · ✓ 5 finished · ◆ 2 wait for you · $14.20`;
/// `None` if nothing ended, or it is not kept.
pub fn since_line(inbox: &Inbox, offset_minutes: i32, style: &Style) -> Option<StyledLine> {
    let glyphs = style.glyphs();
    let seen = inbox.seen_until_ms?;
    let mut parts = ended_parts(inbox, glyphs);
    if parts.is_empty() {
        return None;
    }
    parts.extend(certain_parts(inbox, glyphs).into_iter().map(|part| (part.ink, part.words)));
    let mut line = StyledLine::painted(Ink::Done, &since_words(inbox, seen, offset_minutes));
    for (ink, words) in parts {
        line.paint(Ink::Done, &format!(" {} ", glyphs.dot));
        line.paint(ink, &words);
    }
    if let Some(cost) = inbox.cost_micro_usd {
        line.paint(Ink::Done, &format!(" {} ", glyphs.dot));
        line.push(&style.money(cost, inbox.cost_floor));
    }
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::shared_cases;

    #[test]
    fn words_are_those_of_the_page() {
        for case in shared_cases("needs") {
            let need: AgentNeed = serde_json::from_value(case[0].clone()).unwrap();
            assert_eq!(need_words(&need, case[1].as_i64().unwrap()), case[2].as_str().unwrap());
        }
        for case in shared_cases("inbox") {
            let count = |name: &str| case[0][name].as_u64().unwrap() as u32;
            let inbox = Inbox { waits: count("waits"), trouble: count("trouble"), ..Inbox::default() };
            let parts = certain_parts(&inbox, crate::style::Charset::Unicode.glyphs());
            let words: Vec<String> = parts.into_iter().map(|part| part.words).collect();
            assert_eq!(serde_json::to_value(words).unwrap(), case[1]);
        }
        for case in shared_cases("reading") {
            let progress: ReadingProgress = serde_json::from_value(case[0].clone()).unwrap();
            assert_eq!(reading_words(progress), case[1].as_str().unwrap());
        }
    }

    #[test]
    fn line_has_each_part_that_is_not_zero() {
        let style = Style { color: false, ascii: false, width: 80 };
        let mut inbox = Inbox {
            seen_until_ms: Some(12 * 3_600_000 + 2 * 60_000),
            at_ms: 13 * 3_600_000,
            finished: 5,
            failed: 1,
            waits: 2,
            perhaps: 3,
            cost_micro_usd: Some(14_200_000),
            ..Inbox::default()
        };
        let line = |inbox: &Inbox| {
            let mut out = String::new();
            if let Some(line) = since_line(inbox, 0, &style) {
                line.write(&mut out, &style);
            }
            out.trim_end().to_owned()
        };
        assert_eq!(line(&inbox), "since 12:02 · ✓ 5 finished · ✗ 1 failed · ◆ 2 wait for you · $14.20");
        (inbox.finished, inbox.failed, inbox.waits, inbox.trouble) = (0, 1, 0, 1);
        assert_eq!(line(&inbox), "since 12:02 · ✗ 1 failed · ! 1 in trouble · $14.20");
        inbox.at_ms += 86_400_000;
        assert_eq!(line(&inbox), "since 1d ago · ✗ 1 failed · ! 1 in trouble · $14.20");
        (inbox.failed, inbox.waits) = (0, 2);
        assert_eq!(line(&inbox), "", "nothing ended: the header has the rest");
        assert_eq!(line(&Inbox { finished: 1, ..Inbox::default() }), "", "no look is kept");
    }
}
