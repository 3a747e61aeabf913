//! How `copilot` is started and observed by `run`. Its answer is on stdout, all else in its events file.

use crate::run::AgentProgram;

pub(super) const PROGRAM: AgentProgram = AgentProgram {
    name: "copilot",
    resume_option: "--resume",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ObserveMode, RunPlan as _, run::assert_modes};

    #[test]
    fn nothing_is_added_and_the_mode_is_by_the_words() {
        let modes = [
            ("-p hi", Some(ObserveMode::Answering)),
            ("--allow-all-tools --prompt=hi", Some(ObserveMode::Answering)),
            ("-p hi --output-format json", Some(ObserveMode::Streamed)),
            ("--version", Some(ObserveMode::Unread)),
            ("", Some(ObserveMode::Interactive)),
        ];
        assert_modes(&PROGRAM, &modes);
        assert!(PROGRAM.resumes(&["--resume=id", "-p", "hi"]) && !PROGRAM.resumes(&["-p", "hi"]));
    }
}
