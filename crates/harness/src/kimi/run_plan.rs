//! How `kimi` is started and observed by `run`. Its answer is on stdout, all else in the files of its session.

use crate::run::AgentProgram;

pub(super) const PROGRAM: AgentProgram = AgentProgram {
    name: "kimi",
    resume_option: "-r",
    valued: &["-m", "--model", "-r", "--session"],
    no_session: &["--version", "-V", "--help", "-h", "login", "logout", "info", "mcp", "export"],
    servers: &["acp", "web"],
    one_shot: &[],
    one_shot_options: &["-p", "--prompt"],
    streaming: &[("--output-format", Some("stream-json"))],
    resuming: &["-c", "--continue", "-r", "--session"],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ObserveMode, RunPlan as _, run::assert_modes};

    #[test]
    fn nothing_is_added_and_the_mode_is_by_the_words() {
        let modes = [
            ("-p hi", Some(ObserveMode::Answering)),
            ("-p hi --output-format stream-json", Some(ObserveMode::Streamed)),
            ("-p hi --output-format text", Some(ObserveMode::Answering)),
            ("--version", Some(ObserveMode::Unread)),
            ("acp", None),
            ("", Some(ObserveMode::Interactive)),
        ];
        assert_modes(&PROGRAM, &modes);
        assert!(PROGRAM.resumes(&["-r", "session_1", "-p", "hi"]) && !PROGRAM.resumes(&["-p", "hi"]));
    }
}
