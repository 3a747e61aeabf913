//! Drops payloads of hooks that are installed twice: in two scopes, or by a plugin and the settings. Each of them sends
//! the same line.
//!
//! Payloads have no id of their own, and equal ones may be of two events (two agents that read the same file, in versions
//! without call ids). So it is the start of the session that says how many hooks there are: nothing comes between the
//! deliveries of one start, and no session starts twice. Of n equal lines the first counts, then the one after n, …

use std::collections::HashMap;

use subscope_model::stable_hash;

/// Most lines between the first and the last delivery of a start: other hooks of the start run at the same time.
const START_LINES: u32 = 4;

/// What a payload says, as far as it matters whether it is a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookEvent {
    /// A session starts or is resumed.
    SessionStart,
    /// The person asks, and the prompt has no id.
    UnnamedPrompt,
    Other,
}

impl HookEvent {
    /// Returns the kind of an event by its name, which differs from harness to harness.
    pub(crate) fn of(name: &str, has_prompt_id: bool) -> Self {
        match name {
            "SessionStart" | "sessionStart" => Self::SessionStart,
            "UserPromptSubmit" | "userPromptSubmitted" | "BeforeAgent" if !has_prompt_id => {
                Self::UnnamedPrompt
            }
            _ => Self::Other,
        }
    }
}

/// What was delivered of each session.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    sessions: HashMap<String, Deliveries>,
}

/// Deliveries of one session.
#[derive(Debug, Default)]
struct Deliveries {
    /// Hash of the last start, and how many lines have come since.
    start: Option<(u64, u32)>,
    /// The last prompt without an id, if nothing but repeated lines has come since.
    prompt: Option<u64>,
    /// Number of hooks that deliver each event.
    hooks: u32,
    /// How often each line has come, where there are several hooks.
    counts: HashMap<u64, u32>,
}

impl Repeats {
    /// Returns whether a line of a session repeats an earlier one.
    pub(crate) fn is_repeated(&mut self, session: &str, event: HookEvent, line: &str) -> bool {
        let line = stable_hash(line);
        if !self.sessions.contains_key(session) {
            self.sessions.insert(session.to_owned(), Deliveries { hooks: 1, ..Deliveries::default() });
        }
        let Some(known) = self.sessions.get_mut(session) else { return false };
        known.is_repeated(event, line)
    }
}

impl Deliveries {
    fn is_repeated(&mut self, event: HookEvent, line: u64) -> bool {
        let (is_start, is_unnamed) = (event == HookEvent::SessionStart, event == HookEvent::UnnamedPrompt);
        match &mut self.start {
            Some((start, since)) if is_start && *start == line && *since <= START_LINES => {
                self.hooks += 1;
                return true;
            }
            _ if is_start => {
                self.start = Some((line, 0));
                (self.hooks, self.prompt) = (1, None);
                self.counts.clear();
                return false;
            }
            Some((_, since)) => *since = since.saturating_add(1),
            None => {}
        }
        // Lines that came before the second delivery of the start are counted as well.
        let is_starting = self.start.is_some_and(|(_, since)| since <= START_LINES);
        let count = if self.hooks > 1 || is_starting {
            let count = self.counts.entry(line).or_default();
            *count += 1;
            *count
        } else {
            1
        };
        let is_same_prompt = std::mem::replace(&mut self.prompt, is_unnamed.then_some(line)) == Some(line);
        if self.hooks > 1 { (count - 1) % self.hooks != 0 } else { is_unnamed && is_same_prompt }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that count, of `NAME=LINE` each.
    fn kept(lines: &[&'static str]) -> Vec<&'static str> {
        let mut repeats = Repeats::default();
        let is_new = |line: &&&str| {
            let (event, _) = line.split_once('=').unwrap();
            !repeats.is_repeated("s", HookEvent::of(event, false), line)
        };
        lines.iter().filter(is_new).copied().collect()
    }

    #[test]
    fn of_two_hooks_each_event_counts_once() {
        let once = [
            "SessionStart=startup",
            "UserPromptSubmit=go",
            "PreToolUse=a",
            "PreToolUse=a",
            "Stop=x",
            "UserPromptSubmit=go",
            "Stop=x",
        ];
        assert_eq!(kept(&once), once, "two agents may make equal calls, and a person may ask twice");
        for hooks in [2, 3] {
            let several: Vec<&str> = once.iter().flat_map(|line| vec![*line; hooks]).collect();
            assert_eq!(kept(&several), once, "{hooks}");
        }
        let late = [
            "SessionStart=startup",
            "UserPromptSubmit=go",
            "SessionStart=startup",
            "PreToolUse=a",
            "UserPromptSubmit=go",
            "PreToolUse=a",
        ];
        assert_eq!(kept(&late), ["SessionStart=startup", "UserPromptSubmit=go", "PreToolUse=a"]);
    }

    #[test]
    fn a_session_that_is_resumed_twice_has_one_hook() {
        let lines = [
            "SessionStart=resume",
            "UserPromptSubmit=a",
            "PreToolUse=a",
            "PostToolUse=a",
            "Stop=a",
            "Stop=b",
            "SessionStart=resume",
            "Stop=a",
        ];
        assert_eq!(kept(&lines), lines);
    }

    #[test]
    fn a_prompt_without_an_id_is_no_second_one_where_the_start_is_unknown() {
        assert_eq!(
            kept(&["UserPromptSubmit=go", "UserPromptSubmit=go", "PreToolUse=a"]),
            ["UserPromptSubmit=go", "PreToolUse=a"]
        );
    }
}
