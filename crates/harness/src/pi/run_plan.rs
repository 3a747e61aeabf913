//! How a program of the family is started and observed by `run`. Its answer is on stdout, all else in its files.

use crate::run::AgentProgram;

pub(super) const PROGRAM: AgentProgram = AgentProgram {
    name: "pi",
    resume_option: "--session",
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

#[cfg(test)]
mod tests {
    use super::{
        super::{OMP, PI, omp, pi},
        *,
    };
    use crate::{Harness as _, ObserveMode, RunPlan as _, run::assert_modes};

    #[test]
    fn nothing_is_added_and_the_mode_is_by_the_words() {
        let modes = [
            ("-p hi", Some(ObserveMode::Answering)),
            ("--mode json -p hi", Some(ObserveMode::Streamed)),
            ("--mode rpc", Some(ObserveMode::Streamed)),
            ("--mode text -p hi", Some(ObserveMode::Answering)),
            ("--version", Some(ObserveMode::Unread)),
            ("acp", None),
            ("", Some(ObserveMode::Interactive)),
        ];
        assert_modes(&PROGRAM, &modes);
        assert!(PROGRAM.resumes(&["-p", "hi", "--continue"]) && !PROGRAM.resumes(&["-p", "hi"]));
        assert_eq!((OMP.printed(pi::STREAM), PI.printed(pi::STREAM)), (omp::STREAM, pi::STREAM));
    }
}
