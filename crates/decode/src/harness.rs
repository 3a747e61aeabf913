//! One const row for each harness: what it is called, where its files are, which of its tools matter.
//!
//! Adding a harness is one row here and one module for each of its dialects.

use subscope_model::ToolClass;

/// What is known of a harness without reading its output.
#[derive(Debug)]
pub struct Harness {
    /// The name used on every wire.
    pub name: &'static str,
    /// The program people start.
    pub program: &'static str,
    /// Whether its subagents can be traced.
    pub traces_subagents: bool,
    /// The names of the dialects that tell about them.
    pub dialects: &'static [&'static str],
    /// The flags that make a one-shot run machine-readable.
    pub stream_flags: &'static [&'static str],
    /// The variable that moves its files.
    pub home_variable: &'static str,
    /// Where its files are below the user's home otherwise.
    pub home_folder: &'static str,
    /// Tools that start a subagent, lower case.
    pub spawn_tools: &'static [&'static str],
    /// Tools that end at once unless somebody must allow them.
    pub instant_tools: &'static [&'static str],
    /// Tools that write the file named by their arguments.
    pub writing_tools: &'static [&'static str],
    /// The hook events it is known to fire.
    pub hook_events: &'static [&'static str],
}

/// Claude Code. Observed: 1.0.128 to 2.1.330, fixtures `claude-code/`.
pub const CLAUDE_CODE: Harness = Harness {
    name: "claude-code",
    program: "claude",
    traces_subagents: true,
    dialects: &["claude.transcript", "claude.stream", "claude.hook"],
    stream_flags: &["--output-format", "stream-json", "--verbose"],
    home_variable: "CLAUDE_CONFIG_DIR",
    home_folder: ".claude",
    spawn_tools: &["task", "agent"],
    instant_tools: &[
        "Read",
        "Edit",
        "MultiEdit",
        "Write",
        "NotebookEdit",
        "Glob",
        "Grep",
        "LS",
        "TodoWrite",
        "TaskCreate",
        "TaskUpdate",
        "TaskList",
        "TaskGet",
    ],
    writing_tools: &["Write", "Edit", "MultiEdit", "NotebookEdit"],
    hook_events: &[
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "Notification",
        "UserPromptSubmit",
        "UserPromptExpansion",
        "SessionStart",
        "SessionEnd",
        "Stop",
        "StopFailure",
        "SubagentStart",
        "SubagentStop",
        "PreCompact",
        "PostCompact",
        "PreModelSwitch",
        "PostModelSwitch",
        "PermissionRequest",
        "PermissionDenied",
        "Setup",
        "TeammateIdle",
        "TaskCreated",
        "TaskCompleted",
        "Elicitation",
        "ElicitationResult",
        "ConfigChange",
        "WorktreeCreate",
        "WorktreeRemove",
        "InstructionsLoaded",
        "CwdChanged",
        "FileChanged",
        "DirectoryAdded",
        "MessageDisplay",
    ],
};

/// All harnesses.
pub const HARNESSES: &[&Harness] = &[&CLAUDE_CODE];

impl Harness {
    /// The class of a tool.
    pub fn tool_class(&self, tool: &str) -> ToolClass {
        if self.spawn_tools.iter().any(|name| name.eq_ignore_ascii_case(tool)) {
            ToolClass::Spawn
        } else if self.instant_tools.contains(&tool) {
            ToolClass::Instant
        } else {
            ToolClass::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_of_spawn_tools_in_any_case() {
        for name in ["Task", "Agent", "AGENT", "task"] {
            assert_eq!(CLAUDE_CODE.tool_class(name), ToolClass::Spawn, "{name}");
        }
        assert_eq!(CLAUDE_CODE.tool_class("Read"), ToolClass::Instant);
        assert_eq!(CLAUDE_CODE.tool_class("Bash"), ToolClass::Other);
        assert_eq!(CLAUDE_CODE.tool_class(""), ToolClass::Other);
        assert_eq!(CLAUDE_CODE.hook_events.len(), 33);
    }
}
