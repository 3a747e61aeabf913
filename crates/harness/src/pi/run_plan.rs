//! How a program of the family is started and observed by `run`. Its answer is on stdout, all else in its files.

use subscope_decode::Dialect;

use super::{PiMember, pi};
use crate::{Observed, RunPlan, RunSurroundings, run::CommandLine};

const COMMAND_LINE: CommandLine = CommandLine {
    valued: &["--provider", "--model", "--session", "--session-dir", "--thinking", "--tools", "--mode"],
    no_session: &[
        "--version",
        "-v",
        "--help",
        "-h",
        "--list-models",
        "config",
        "install",
        "list",
        "remove",
        "update",
    ],
    servers: &["acp"],
    one_shot: &[],
    one_shot_options: &["-p", "--print", "--mode"],
    streaming: &[("--mode", Some("json")), ("--mode", Some("rpc"))],
    resuming: &["-c", "--continue", "-r", "--resume", "--session"],
};

impl RunPlan for PiMember {
    fn program(&self) -> &'static str {
        self.program.unwrap_or_default()
    }

    fn resume_option(&self) -> &'static str {
        "--session"
    }

    fn observe(&self, arguments: &[&str], around: &RunSurroundings<'_>) -> Option<Observed> {
        COMMAND_LINE.observe(arguments, around)
    }

    fn printed(&self, found: Dialect) -> Dialect {
        let own = self.stream().filter(|_| found == pi::STREAM || found == pi::SESSION);
        own.unwrap_or(found)
    }

    fn resumes(&self, arguments: &[&str]) -> bool {
        COMMAND_LINE.resumes(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{OMP, PI, omp},
        *,
    };
    use crate::ObserveMode;

    #[test]
    fn nothing_is_added_and_the_mode_is_by_the_words() {
        let mode = |words: &str, is_terminal| {
            let words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
            let around = RunSurroundings { is_terminal, hook: None, version: &|| None };
            let observed = OMP.observe(&words, &around)?;
            assert!(observed.added.is_empty() && !observed.has_hooks);
            Some(observed.mode)
        };
        for (words, expected) in [
            ("-p hi", Some(ObserveMode::Answering)),
            ("--mode json -p hi", Some(ObserveMode::Streamed)),
            ("--mode rpc", Some(ObserveMode::Streamed)),
            ("--mode text -p hi", Some(ObserveMode::Answering)),
            ("--version", Some(ObserveMode::Unread)),
            ("acp", None),
            ("", Some(ObserveMode::Interactive)),
        ] {
            assert_eq!(mode(words, true), expected, "{words}");
        }
        assert_eq!(mode("", false), None);
        assert!(OMP.resumes(&["-p", "hi", "--continue"]) && !OMP.resumes(&["-p", "hi"]));
        assert_eq!((OMP.printed(pi::STREAM), PI.printed(pi::STREAM)), (omp::STREAM, pi::STREAM));
    }
}
