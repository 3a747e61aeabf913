//! How `cline` is started and observed by `run`. Its answer is on stdout, all else in its files and its database.

use crate::run::AgentProgram;

pub(super) const PROGRAM: AgentProgram = AgentProgram {
    name: "cline",
    resume_option: "--id",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ObserveMode, RunPlan as _, run::assert_modes};

    #[test]
    fn nothing_is_added_and_the_mode_is_by_the_words() {
        let modes = [
            ("--json hi", Some(ObserveMode::Streamed)),
            ("--version", Some(ObserveMode::Unread)),
            ("hi", Some(ObserveMode::Interactive)),
            ("", Some(ObserveMode::Interactive)),
        ];
        assert_modes(&PROGRAM, &modes);
        assert!(PROGRAM.resumes(&["--id", "1795721277480_8ea7b"]) && !PROGRAM.resumes(&["hi"]));
    }
}
