//! How `kimi` is started and observed by `run`. Its answer is on stdout, all else in the files of its session.

use super::Kimi;
use crate::{Observed, RunPlan, RunSurroundings, run::CommandLine};

const COMMAND_LINE: CommandLine = CommandLine {
    valued: &["-m", "--model", "-r", "--session"],
    no_session: &["--version", "-V", "--help", "-h", "login", "logout", "info", "mcp", "export"],
    servers: &["acp", "web"],
    one_shot: &[],
    one_shot_options: &["-p", "--prompt"],
    streaming: &[("--output-format", Some("stream-json"))],
    resuming: &["-c", "--continue", "-r", "--session"],
};

impl RunPlan for Kimi {
    fn program(&self) -> &'static str {
        "kimi"
    }

    fn resume_option(&self) -> &'static str {
        "-r"
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
            let observed = Kimi.observe(&words, &around)?;
            assert!(observed.added.is_empty() && !observed.has_hooks);
            Some(observed.mode)
        };
        for (words, expected) in [
            ("-p hi", Some(ObserveMode::Answering)),
            ("-p hi --output-format stream-json", Some(ObserveMode::Streamed)),
            ("-p hi --output-format text", Some(ObserveMode::Answering)),
            ("--version", Some(ObserveMode::Unread)),
            ("acp", None),
            ("", Some(ObserveMode::Interactive)),
        ] {
            assert_eq!(mode(words, true), expected, "{words}");
        }
        assert_eq!(mode("", false), None);
        assert!(Kimi.resumes(&["-r", "session_1", "-p", "hi"]) && !Kimi.resumes(&["-p", "hi"]));
    }
}
