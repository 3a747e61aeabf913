//! Claude Code's program and hooks, in one row.

use subscope_model::ToolClass;

/// What is known of a harness without reading its output.
#[derive(Debug)]
pub struct Row {
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
    /// Flags that make it tell more of its subagents then, with the version that was seen to know them first.
    pub verbosity_flags: &'static [(&'static str, [u32; 3])],
    /// The options that ask for a one-shot run.
    pub one_shot_options: &'static [&'static str],
    /// The option that chooses a form of output: with it nothing is added.
    pub format_option: &'static str,
    /// Options and subcommands with which the program starts no session.
    pub no_session: &'static [&'static str],
    /// The option that takes settings for this run alone, as JSON.
    pub settings_option: &'static str,
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
    /// Those of them that are worth a hook: what the decoder makes more of than a note.
    pub hook_subscriptions: &'static [Subscription],
}

/// A hook event to subscribe to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// The event.
    pub event: &'static str,
    /// The version that knows it first, or the first that it was seen in.
    pub since: [u32; 3],
    /// Whether it is never sent over HTTP and needs a command.
    pub command_only: bool,
}

impl Subscription {
    const fn new(event: &'static str, since: [u32; 3]) -> Self {
        Self { event, since, command_only: false }
    }
}

/// Claude Code's CHANGELOG.md, "Improved settings resilience: an unrecognized hook event name in `settings.json` no longer
/// causes the entire file to be ignored". Before, one unknown event costs the user every setting of the file.
pub const CLAUDE_CODE_FORGIVES_EVENTS: [u32; 3] = [2, 1, 101];
/// Claude Code's CHANGELOG.md, "Added HTTP hooks". Before, they make the file invalid.
pub const CLAUDE_CODE_HTTP_HOOKS: [u32; 3] = [2, 1, 63];

/// Claude Code. Observed: 1.0.128 to 2.1.330, fixtures `claude-code/`.
pub static CLAUDE_CODE: Row = Row {
    name: "claude-code",
    program: "claude",
    traces_subagents: true,
    dialects: &["claude.transcript", "claude.stream", "claude.hook"],
    stream_flags: &["--output-format", "stream-json", "--verbose"],
    verbosity_flags: &[("--forward-subagent-text", [2, 1, 250])],
    one_shot_options: &["-p", "--print"],
    format_option: "--output-format",
    no_session: &[
        "--version",
        "-v",
        "--help",
        "-h",
        "mcp",
        "plugin",
        "config",
        "doctor",
        "update",
        "upgrade",
        "install",
        "migrate-installer",
        "setup-token",
        "auth",
    ],
    settings_option: "--settings",
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
    // `since` by Claude Code's CHANGELOG.md; PostToolUseFailure is not in it and was observed in 2.0.76, and
    // PostToolBatch is taken for one that only versions are to see that ignore what they do not know.
    hook_subscriptions: &[
        Subscription { command_only: true, ..Subscription::new("SessionStart", [1, 0, 62]) },
        Subscription::new("SessionEnd", [1, 0, 85]),
        Subscription::new("UserPromptSubmit", [1, 0, 54]),
        Subscription::new("PreToolUse", [1, 0, 38]),
        Subscription::new("PostToolUse", [1, 0, 38]),
        Subscription::new("PostToolUseFailure", [2, 0, 76]),
        Subscription::new("PostToolBatch", CLAUDE_CODE_FORGIVES_EVENTS),
        Subscription::new("PermissionRequest", [2, 0, 45]),
        Subscription::new("PermissionDenied", [2, 1, 89]),
        Subscription::new("SubagentStart", [2, 0, 43]),
        Subscription::new("SubagentStop", [1, 0, 41]),
        Subscription::new("Stop", [1, 0, 38]),
        Subscription::new("StopFailure", [2, 1, 78]),
        Subscription::new("PreCompact", [1, 0, 48]),
        Subscription::new("PostCompact", [2, 1, 76]),
        Subscription::new("TaskCreated", [2, 1, 84]),
        Subscription::new("TaskCompleted", [2, 1, 33]),
        // Says that the harness waits for its user.
        Subscription::new("Notification", [1, 0, 38]),
    ],
};

impl Row {
    /// Returns the row of the program that a command starts, by the name of its file.
    pub fn of_program(name: &str) -> Option<&'static Self> {
        (name == CLAUDE_CODE.program).then_some(&CLAUDE_CODE)
    }

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
    fn subscriptions_are_known_events_and_leave_the_work_to_the_harness() {
        let events = CLAUDE_CODE.hook_subscriptions.iter().map(|subscription| subscription.event);
        let mut events: Vec<&str> = events.collect();
        assert!(events.iter().all(|event| CLAUDE_CODE.hook_events.contains(event)), "{events:?}");
        // A hook for it has to make the worktree.
        assert!(!events.contains(&"WorktreeCreate"));
        events.sort_unstable();
        events.dedup();
        assert_eq!(events.len(), CLAUDE_CODE.hook_subscriptions.len());
    }

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
