//! How `codex` is started and observed by `run`. Its answer is on stdout, all else in its rollouts.

use super::Codex;
use crate::{Observed, RunPlan, RunSurroundings, run::CommandLine};

/// Its command line, which forks have too.
pub(crate) const COMMAND_LINE: CommandLine = CommandLine {
    valued: &[
        "-c",
        "--config",
        "--enable",
        "--disable",
        "-m",
        "--model",
        "-p",
        "--profile",
        "-s",
        "--sandbox",
        "-a",
        "--ask-for-approval",
        "-C",
        "--cd",
        "--add-dir",
        "-i",
        "--image",
        "--local-provider",
    ],
    no_session: &[
        "--version",
        "-V",
        "--help",
        "-h",
        "help",
        "login",
        "logout",
        "mcp",
        "plugin",
        "completion",
        "update",
        "doctor",
        "sandbox",
        "debug",
        "apply",
        "a",
        "archive",
        "unarchive",
        "features",
    ],
    servers: &["app-server", "mcp-server", "exec-server"],
    one_shot: &["exec", "e", "review"],
    one_shot_options: &[],
    streaming: &[("--json", None), ("--experimental-json", None)],
    resuming: &["resume"],
};

impl RunPlan for Codex {
    fn program(&self) -> &'static str {
        "codex"
    }

    fn resume_option(&self) -> &'static str {
        "resume"
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
            let observed = Codex.observe(&words, &around)?;
            assert!(observed.added.is_empty() && !observed.has_hooks);
            Some(observed.mode)
        };
        for (words, expected) in [
            ("exec hi", Some(ObserveMode::Answering)),
            ("exec --json hi", Some(ObserveMode::Streamed)),
            ("exec resume --last hi", Some(ObserveMode::Answering)),
            ("-m login -c a=b exec --json hi", Some(ObserveMode::Streamed)),
            ("exec -- --json", Some(ObserveMode::Answering)),
            ("app-server", None),
            ("login", Some(ObserveMode::Unread)),
            ("", Some(ObserveMode::Interactive)),
            ("resume", Some(ObserveMode::Interactive)),
        ] {
            assert_eq!(mode(words, true), expected, "{words}");
        }
        assert_eq!(mode("", false), None);
        assert!(Codex.resumes(&["exec", "resume", "--last"]) && !Codex.resumes(&["exec", "--", "resume"]));
    }
}
