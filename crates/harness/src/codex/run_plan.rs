//! How `codex` is started and observed by `run`. Its answer is on stdout, all else in its rollouts.

use crate::run::AgentProgram;

pub(super) const PROGRAM: AgentProgram = AgentProgram {
    name: "codex",
    resume_option: "resume",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ObserveMode, RunPlan as _, run::assert_modes};

    #[test]
    fn nothing_is_added_and_the_mode_is_by_the_words() {
        let modes = [
            ("exec hi", Some(ObserveMode::Answering)),
            ("exec --json hi", Some(ObserveMode::Streamed)),
            ("exec resume --last hi", Some(ObserveMode::Answering)),
            ("-m login -c a=b exec --json hi", Some(ObserveMode::Streamed)),
            ("exec -- --json", Some(ObserveMode::Answering)),
            ("app-server", None),
            ("login", Some(ObserveMode::Unread)),
            ("", Some(ObserveMode::Interactive)),
            ("resume", Some(ObserveMode::Interactive)),
        ];
        assert_modes(&PROGRAM, &modes);
        assert!(
            PROGRAM.resumes(&["exec", "resume", "--last"]) && !PROGRAM.resumes(&["exec", "--", "resume"])
        );
    }
}
