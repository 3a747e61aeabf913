//! How a program of the family is started and observed by `run`. Its answer is on stdout, all else in its database.

use crate::run::AgentProgram;

pub(super) const PROGRAM: AgentProgram = AgentProgram {
    name: "opencode",
    resume_option: "--session",
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

#[cfg(test)]
mod tests {
    use super::{
        super::{KILO, OPENCODE, STDOUT, kilo},
        *,
    };
    use crate::{Harness as _, ObserveMode, RunPlan as _, run::assert_modes};

    #[test]
    fn nothing_is_added_and_the_mode_is_by_the_words() {
        let modes = [
            ("run hi", Some(ObserveMode::Answering)),
            ("run --format json hi", Some(ObserveMode::Streamed)),
            ("run --format=json hi", Some(ObserveMode::Streamed)),
            ("run --format default hi", Some(ObserveMode::Answering)),
            ("--print-logs --log-level INFO run hi", Some(ObserveMode::Answering)),
            ("auth list", Some(ObserveMode::Unread)),
            ("serve", None),
            ("", Some(ObserveMode::Interactive)),
        ];
        assert_modes(&PROGRAM, &modes);
        assert_eq!([&OPENCODE, &KILO].map(|member| member.printed(STDOUT)), [STDOUT, kilo::STDOUT]);
        assert_eq!(KILO.printed(kilo::DATABASE), kilo::DATABASE);
        assert!(PROGRAM.resumes(&["run", "--session=ses_1", "hi"]) && !PROGRAM.resumes(&["run", "hi"]));
    }
}
