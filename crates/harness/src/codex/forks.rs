//! The fork of Codex: a row. What is said of it is from public sources and session files that people published: it was not run
//! here.

use super::{COMMAND_LINE, Codex};
use crate::forks::{ForkProgram, fork};

fork! {
    /// TraeX, the program `traex` (TRAE CLI). Known versions: 0.200 and 0.201.
    TRAEX, traex: "traex", "TraeX", of: &Codex,
    dialects: [
        ROLLOUT = codex::rollout_spec, "rollout"; EXEC = codex::exec_spec, "exec";
        APP_SERVER = codex::app_server_spec, "app-server"
    ],
    transcripts: &["sessions", "archived_sessions"],
    variables: &[("TRAECLI_HOME", ""), ("TRAE_HOME", "cli")], folder: ".trae/cli", others: &[".trae"],
    paths: &[".trae/cli", ".trae/sessions"],
    marks: &[("\"session_meta\"", |line| line.is_meta_of("trae"))],
    program: Some(ForkProgram { name: "traex", resume_option: "resume", command_line: &COMMAND_LINE }),
    gaps: ["what it prints looks like what Codex prints, where `subscope run` did not start it"]
}
