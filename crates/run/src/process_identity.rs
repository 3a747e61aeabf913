//! Identifies processes by number and start: the system gives the number of an ended process to another one.

use subscope_harness::ProcessNote;
use subscope_model::Millis;
use subscope_platform::ProcessStart;

/// Most milliseconds by which a process may seem to have started after it made its note: the system's time of boot is
/// in whole seconds, and clocks are adjusted.
const START_TOLERANCE_MS: Millis = 5_000;

/// Whether a process that started so is the one that made a note: it has the start that the note names, or had started
/// when the note was made.
pub(crate) fn has_made(start: &ProcessStart, note: &ProcessNote) -> bool {
    match &note.start_ticks {
        Some(ticks) if !start.ticks.is_empty() => *ticks == start.ticks,
        _ => start.at_ms.is_none_or(|at| at <= note.started_ms + START_TOLERANCE_MS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_that_another_process_has_now_is_not_the_noted_process() {
        let note = |start_ticks: Option<&str>, started_ms| ProcessNote {
            process: 7,
            session: "s".to_owned(),
            started_ms,
            start_ticks: start_ticks.map(str::to_owned),
            has_screen: true,
            activity: None,
            tmux_pane: None,
        };
        let now = ProcessStart { ticks: "500".to_owned(), at_ms: Some(100_000) };
        assert!(has_made(&now, &note(Some("500"), 1)), "its own start, whatever the clock said");
        assert!(!has_made(&now, &note(Some("499"), 100_000)));
        assert!(has_made(&now, &note(None, 100_200)) && has_made(&now, &note(None, 96_000)));
        assert!(!has_made(&now, &note(None, 90_000)), "it started after the note was made");
        assert!(has_made(&ProcessStart::default(), &note(Some("1"), 1)), "the system does not tell");
    }

    #[test]
    fn own_process_has_one_start_and_a_missing_one_has_none() {
        let own = i32::try_from(std::process::id()).unwrap();
        let start = ProcessStart::of(own).unwrap();
        assert_eq!(ProcessStart::of(own).unwrap(), start);
        assert!(start.ticks.is_empty() || start.at_ms.is_some());
        assert_eq!(ProcessStart::of(i32::MAX), None);
    }
}
