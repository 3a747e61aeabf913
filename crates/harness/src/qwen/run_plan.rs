//! How `qwen` is started and observed by `run`. Its answer is on stdout, all else in its chats.

use crate::run::AgentProgram;

pub(super) const PROGRAM: AgentProgram = AgentProgram {
    name: "qwen",
    resume_option: "--resume",
    valued: &[],
    no_session: &[
        "--version",
        "-v",
        "--help",
        "-h",
        "mcp",
        "extensions",
        "skills",
        "hooks",
        "--list-sessions",
    ],
    servers: &[],
    one_shot: &[],
    one_shot_options: &["-p", "--prompt", "-o", "--output-format"],
    streaming: &[("-o", Some("stream-json")), ("--output-format", Some("stream-json"))],
    resuming: &["-r", "--resume", "-c", "--continue"],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ObserveMode, RunPlan as _, run::assert_modes};

    #[test]
    fn nothing_is_added_and_the_mode_is_by_the_words() {
        let modes = [
            ("-p hi", Some(ObserveMode::Answering)),
            ("--prompt=hi -o json", Some(ObserveMode::Answering)),
            ("hi -o stream-json", Some(ObserveMode::Streamed)),
            ("--output-format=stream-json hi", Some(ObserveMode::Streamed)),
            ("mcp list", Some(ObserveMode::Unread)),
            ("", Some(ObserveMode::Interactive)),
        ];
        assert_modes(&PROGRAM, &modes);
        assert!(PROGRAM.resumes(&["--continue", "-p", "hi"]) && !PROGRAM.resumes(&["-p", "hi"]));
    }
}
