//! How `cline` is started and observed by `run`. Its answer is on stdout, all else in its files and its database.

use super::Cline;
use crate::{Observed, RunPlan, RunSurroundings, run::CommandLine};

const COMMAND_LINE: CommandLine = CommandLine {
    valued: &["--model", "--provider", "--id", "--data-dir", "--config", "--cwd", "--timeout"],
    no_session: &[
        "--version",
        "-v",
        "--help",
        "-h",
        "auth",
        "config",
        "history",
        "hub",
        "mcp",
        "update",
        "version",
    ],
    servers: &["acp"],
    one_shot: &[],
    one_shot_options: &["--json"],
    streaming: &[("--json", None)],
    resuming: &["--id"],
};

impl RunPlan for Cline {
    fn program(&self) -> &'static str {
        "cline"
    }

    fn resume_option(&self) -> &'static str {
        "--id"
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
            let observed = Cline.observe(&words, &around)?;
            assert!(observed.added.is_empty() && !observed.has_hooks);
            Some(observed.mode)
        };
        for (words, expected) in [
            ("--json hi", Some(ObserveMode::Streamed)),
            ("--version", Some(ObserveMode::Unread)),
            ("hi", Some(ObserveMode::Interactive)),
            ("", Some(ObserveMode::Interactive)),
        ] {
            assert_eq!(mode(words, true), expected, "{words}");
        }
        assert_eq!(mode("hi", false), None);
        assert!(Cline.resumes(&["--id", "1795721277480_8ea7b"]) && !Cline.resumes(&["hi"]));
    }
}
