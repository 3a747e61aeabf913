//! How `gemini` is started and observed by `run`. Its answer is on stdout, all else in its chats.

use super::Gemini;
use crate::{Observed, RunPlan, RunSurroundings, run::CommandLine};

const COMMAND_LINE: CommandLine = CommandLine {
    valued: &[],
    no_session: &[
        "--version",
        "-v",
        "--help",
        "-h",
        "mcp",
        "extensions",
        "skills",
        "hooks",
        "--list-sessions",
    ],
    servers: &[],
    one_shot: &[],
    one_shot_options: &["-p", "--prompt", "-o", "--output-format"],
    streaming: &[("-o", Some("stream-json")), ("--output-format", Some("stream-json"))],
    resuming: &["-r", "--resume", "--session-file"],
};

impl RunPlan for Gemini {
    fn program(&self) -> &'static str {
        "gemini"
    }

    fn resume_option(&self) -> &'static str {
        "--resume"
    }

    fn observe(&self, arguments: &[&str], around: &RunSurroundings<'_>) -> Option<Observed> {
        COMMAND_LINE.observe(arguments, around)
    }

    fn resumes(&self, arguments: &[&str]) -> bool {
        COMMAND_LINE.resumes(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObserveMode;

    #[test]
    fn nothing_is_added_and_the_mode_is_by_the_words() {
        let mode = |words: &str, is_terminal| {
            let words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
            let around = RunSurroundings { is_terminal, hook: None, version: &|| None };
            let observed = Gemini.observe(&words, &around)?;
            assert!(observed.added.is_empty() && !observed.has_hooks);
            Some(observed.mode)
        };
        for (words, expected) in [
            ("-p hi", Some(ObserveMode::Answering)),
            ("--prompt=hi -o json", Some(ObserveMode::Answering)),
            ("hi -o stream-json", Some(ObserveMode::Streamed)),
            ("--output-format=stream-json hi", Some(ObserveMode::Streamed)),
            ("mcp list", Some(ObserveMode::Unread)),
            ("", Some(ObserveMode::Interactive)),
        ] {
            assert_eq!(mode(words, true), expected, "{words}");
        }
        assert_eq!(mode("", false), None);
        assert!(Gemini.resumes(&["--resume", "latest", "-p", "hi"]) && !Gemini.resumes(&["-p", "hi"]));
    }
}
