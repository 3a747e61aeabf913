//! How `copilot` is started and observed by `run`. Its answer is on stdout, all else in its events file.

use super::Copilot;
use crate::{Observed, RunPlan, RunSurroundings, run::CommandLine};

const COMMAND_LINE: CommandLine = CommandLine {
    valued: &[],
    no_session: &[
        "--version",
        "-v",
        "--help",
        "-h",
        "help",
        "version",
        "login",
        "update",
        "plugin",
        "mcp",
        "completion",
    ],
    servers: &[],
    one_shot: &[],
    one_shot_options: &["-p", "--prompt"],
    streaming: &[("--output-format", Some("json"))],
    resuming: &["-r", "--resume", "--continue", "--session-id"],
};

impl RunPlan for Copilot {
    fn program(&self) -> &'static str {
        "copilot"
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
            let observed = Copilot.observe(&words, &around)?;
            assert!(observed.added.is_empty() && !observed.has_hooks);
            Some(observed.mode)
        };
        for (words, expected) in [
            ("-p hi", Some(ObserveMode::Answering)),
            ("--allow-all-tools --prompt=hi", Some(ObserveMode::Answering)),
            ("-p hi --output-format json", Some(ObserveMode::Streamed)),
            ("--version", Some(ObserveMode::Unread)),
            ("", Some(ObserveMode::Interactive)),
        ] {
            assert_eq!(mode(words, true), expected, "{words}");
        }
        assert_eq!(mode("", false), None);
        assert!(Copilot.resumes(&["--resume=id", "-p", "hi"]) && !Copilot.resumes(&["-p", "hi"]));
    }
}
