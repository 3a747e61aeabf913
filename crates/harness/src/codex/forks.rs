//! The fork of Codex: a row. What is said of it is from public sources and session files that people published: it was not run
//! here.

use subscope_decode::Emitter;
use subscope_model::Fact;

use super::{Codex, layout::Meta, run_plan::PROGRAM};
use crate::{Harness, forks::fork};

/// Emits the fork that wrote a rollout: that of an agent may be read without the one of its root.
pub(super) fn name_fork(meta: &Meta<'_>, out: &mut Emitter<'_, '_>) {
    let originator = meta.originator.get().unwrap_or_default().to_ascii_lowercase();
    if meta.model_provider.is(TRAE) || originator.starts_with(TRAE) {
        out.emit_made(Fact::Harness { name: TRAEX.name() });
    }
}

/// The model provider of the fork, and the beginning of its originators.
const TRAE: &str = "trae";

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
    marks: &[("\"session_meta\"", |line| line.is_meta_of(TRAE))],
    program: Some(PROGRAM.named("traex")),
    gaps: ["what it prints looks like what Codex prints, where `subscope run` did not start it"]
}
