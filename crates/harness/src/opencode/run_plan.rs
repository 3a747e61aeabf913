//! How a program of the family is started and observed by `run`. Its answer is on stdout, all else in its database.

use subscope_decode::Dialect;

use super::{Member, STDOUT};
use crate::{Observed, RunPlan, RunSurroundings, run::CommandLine};

const COMMAND_LINE: CommandLine = CommandLine {
    valued: &[
        "--log-level",
        "-m",
        "--model",
        "-s",
        "--session",
        "--agent",
        "--prompt",
        "--port",
        "--hostname",
    ],
    no_session: &[
        "--version",
        "-v",
        "--help",
        "-h",
        "completion",
        "mcp",
        "debug",
        "auth",
        "providers",
        "agent",
        "upgrade",
        "uninstall",
        "models",
        "stats",
        "export",
        "import",
        "session",
        "plugin",
        "db",
    ],
    servers: &["serve", "web", "acp"],
    one_shot: &["run"],
    one_shot_options: &[],
    streaming: &[("--format", Some("json"))],
    resuming: &["-c", "--continue", "-s", "--session"],
};

impl RunPlan for Member {
    fn program(&self) -> &'static str {
        self.program.unwrap_or(self.name)
    }

    fn resume_option(&self) -> &'static str {
        "--session"
    }

    fn printed(&self, found: Dialect) -> Dialect {
        if found == STDOUT { self.stdout } else { found }
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
    use crate::{
        ObserveMode,
        opencode::{KILO, OPENCODE, kilo},
    };

    #[test]
    fn nothing_is_added_and_the_mode_is_by_the_words() {
        let mode = |words: &str, is_terminal| {
            let words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
            let around = RunSurroundings { is_terminal, hook: None, version: &|| None };
            let observed = OPENCODE.observe(&words, &around)?;
            assert!(observed.added.is_empty() && !observed.has_hooks);
            Some(observed.mode)
        };
        for (words, expected) in [
            ("run hi", Some(ObserveMode::Answering)),
            ("run --format json hi", Some(ObserveMode::Streamed)),
            ("run --format=json hi", Some(ObserveMode::Streamed)),
            ("run --format default hi", Some(ObserveMode::Answering)),
            ("--print-logs --log-level INFO run hi", Some(ObserveMode::Answering)),
            ("auth list", Some(ObserveMode::Unread)),
            ("serve", None),
            ("", Some(ObserveMode::Interactive)),
        ] {
            assert_eq!(mode(words, true), expected, "{words}");
        }
        assert_eq!(mode("", false), None);
        assert_eq!([&OPENCODE, &KILO].map(|member| member.printed(STDOUT)), [STDOUT, kilo::STDOUT]);
        assert_eq!(KILO.printed(kilo::DATABASE), kilo::DATABASE);
        assert!(OPENCODE.resumes(&["run", "--session=ses_1", "hi"]) && !OPENCODE.resumes(&["run", "hi"]));
    }
}
