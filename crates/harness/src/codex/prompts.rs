//! What a person asked, in a prompt into which editors and the program put texts of their own.
//!
//! VS Code and Desktop put what is open and mentioned before the request, below headings of their own (0.64 to 0.169). The
//! program adds elements and the project's instructions as messages with the user's role; up to 0.4x they are events
//! like prompts, too.

use serde_json::value::RawValue;
use subscope_decode::Emitter;
use subscope_model::{Claim, Fact, PromptKind, TitleOrigin};

use super::tools::words;
use crate::common::EMPTY_TEXT;

/// Heading of what the person asked, behind what their editor put before it.
const REQUEST: &str = "## My request for Codex:";
/// Headings of what an editor puts before the request.
const EDITOR: &[&str] = &[
    "# Context from my IDE setup:",
    "# Files mentioned by the user:",
    "## Prior conversation with Codex:",
    "## Referenced ChatGPT conversation:",
];
/// Beginnings of texts of the program.
const OWN: &[&str] = &[
    "<user_instructions>",
    "<environment_context>",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<turn_aborted>",
    "<subagent_notification>",
    "<skill>",
    "<INSTRUCTIONS>",
    "# AGENTS.md instructions for ",
];

/// Emits a prompt, and the title that it makes where that is not its beginning.
pub(super) fn emit_prompt(text: Option<&RawValue>, what: PromptKind, out: &mut Emitter<'_, '_>) {
    let words = words(text);
    // It begins no turn: a session may be closed without one.
    if what == PromptKind::Asked && is_of_program(&words) {
        return out.emit(Fact::Activity);
    }
    let empty = (what == PromptKind::Asked).then_some(EMPTY_TEXT);
    if what == PromptKind::Asked
        && matches!(out.head.claim, Claim::Root(_))
        && let Some(asked) = asked(&words)
    {
        out.emit_made(Fact::Title { text: asked.into(), origin: TitleOrigin::Prompt });
    }
    match text.map(|raw| out.line.raw(raw)).or(empty) {
        // No other source has its id.
        Some(text) => out.emit_made(Fact::Prompt { prompt_id: None, text, what }),
        None => out.emit(Fact::Activity),
    }
}

/// Whether a text with the user's role is one of the program.
pub(super) fn is_of_program(text: &str) -> bool {
    let text = text.trim_start();
    OWN.iter().any(|begin| text.starts_with(begin))
}

/// Returns what the person asked, where an editor put something before it: their words, else the first thing that they
/// mentioned.
fn asked(text: &str) -> Option<String> {
    let request = text.rsplit_once(REQUEST).map(|(_, request)| request.trim());
    if let Some(request) = request.filter(|request| !request.is_empty()) {
        return Some(request.to_owned());
    }
    let is_of_editor = EDITOR.iter().any(|heading| text.trim_start().starts_with(heading));
    if !is_of_editor && request.is_none() {
        return None;
    }
    let is_heading = |line: &&str| line.ends_with(':') && line.starts_with('#');
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !is_heading(line));
    lines.map(|line| line.trim_start_matches(['#', '-', ' ']).to_owned()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_editors_and_the_program_add_is_no_request() {
        for (text, expected) in [
            ("fix the parser", None),
            ("# Notes:\nfix it", None),
            (
                "# Context from my IDE setup:\n\n## Open tabs:\n- a.py: a.py\n\n## My request for Codex:\nfix it\n",
                Some("fix it"),
            ),
            (
                "# Files mentioned by the user:\n\n## a.py: /w/a.py\n\n## My request for Codex:\n",
                Some("a.py: /w/a.py"),
            ),
            (
                "## Prior conversation with Codex:\n\nsome\n## My request for Codex:\na\n## My request for Codex:\nb",
                Some("b"),
            ),
            ("# Context from my IDE setup:\n\n## Active file: a.py\n", Some("Active file: a.py")),
        ] {
            assert_eq!(asked(text).as_deref(), expected, "{text}");
        }
        for own in [
            "<environment_context>\n  <cwd>/w</cwd>",
            "\n# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>",
            "<user_instructions>\nx",
        ] {
            assert!(is_of_program(own), "{own}");
        }
        assert!(!is_of_program("<div> is not closed, why") && !is_of_program("# AGENTS.md is too long"));
    }
}
