//! The forks of Claude Code, each a row. What is said of them is from public sources and session files that people published:
//! none was run here.

use super::ClaudeCode;
use crate::{forks::fork, run::AgentProgram};

/// Makes a fork of Claude Code.
macro_rules! claude {
    ($(#[$words:meta])* $fork:ident, $module:ident: $name:literal, $title:literal, $($rest:tt)*) => {
        fork! {
            $(#[$words])*
            $fork, $module: $name, $title, of: &ClaudeCode,
            dialects: [
                TRANSCRIPT = claude_code::transcript_spec, "transcript"; META = claude_code::meta_spec, "meta";
                JOURNAL = claude_code::journal_spec, "journal"; STREAM = claude_code::stream_spec, "stream"
            ],
            transcripts: &["projects"], $($rest)*
        }
    };
}

claude! {
    /// iFlow CLI: lines of Claude Code, written by a program that is otherwise a fork of Gemini CLI.
    IFLOW, iflow: "iflow", "iFlow CLI",
    variables: &[], folder: ".iflow", others: &[], paths: &[".iflow/projects"],
    marks: &[("\"session-", |line| line.has_prefixed_session("session-") && line.has_uuid())],
    program: None,
    gaps: ["it states no tokens of most responses"]
}

claude! {
    /// Qoder CLI, and QoderWork.
    QODER, qoder: "qoder", "Qoder",
    variables: &[("QODER_CONFIG_DIR", "")], folder: ".qoder",
    others: &[
        ".qoderwork", ".config/Qoder/SharedClientCache/cli",
        "Library/Application Support/Qoder/SharedClientCache/cli",
    ],
    paths: &[".qoder/projects", ".qoderwork/projects", "Qoder/SharedClientCache/cli"],
    marks: &[
        ("\"billable\"", |line| line.is_billed_in_credits()),
        ("\"original_credits\"", |line| line.is_billed_in_credits()),
    ],
    program: Some(LIKE_CLAUDE.named("qodercli")),
    gaps: [
        "it counts credits, which are not shown, and states no tokens of most responses",
        "transcripts directly in `projects` are not found",
    ]
}

claude! {
    /// OpenClaude. All of its versions call themselves 99.0.0 in their lines.
    OPENCLAUDE, openclaude: "openclaude", "OpenClaude",
    variables: &[("OPENCLAUDE_CONFIG_DIR", "")], folder: ".openclaude", others: &[],
    paths: &[".openclaude/projects"],
    marks: &[("\"99.0.0\"", |line| line.has_version("99.0.0"))],
    program: Some(LIKE_CLAUDE.named("openclaude")),
    gaps: ["programs that are made from it write the same version: in another folder they are taken for OpenClaude"]
}

claude! {
    /// IcodeMate's program for the terminal; its extension of an editor is a fork of OpenCode.
    ICODEMATE_CLI, icodemate_cli: "icodemate-cli", "IcodeMate CLI",
    variables: &[], folder: ".icodemate/cli", others: &[], paths: &[".icodemate/cli"],
    marks: &[],
    program: None,
    gaps: ["only its folder tells its files from those of Claude Code"]
}

/// How a program that takes the options of `claude` is started.
const LIKE_CLAUDE: AgentProgram = AgentProgram {
    name: "claude",
    resume_option: "--resume",
    valued: &["--model", "--output-format", "--input-format", "--permission-mode", "--add-dir"],
    no_session: &["--version", "-v", "--help", "-h", "mcp", "plugin", "config", "doctor", "update", "auth"],
    servers: &[],
    one_shot: &[],
    one_shot_options: &["-p", "--print"],
    streaming: &[("--output-format", Some("stream-json"))],
    resuming: &["-c", "--continue", "-r", "--resume"],
};
