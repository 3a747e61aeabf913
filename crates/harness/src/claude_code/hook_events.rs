//! The hook events of Claude Code, and the versions that accept each.

use crate::{HookEvent, Version};

/// Claude Code's CHANGELOG.md, "Improved settings resilience: an unrecognized hook event name in `settings.json` no
/// longer causes the entire file to be ignored". Before, one unknown event costs the user every setting of the file.
pub(super) const FORGIVES_SINCE: Version = [2, 1, 101];
/// Claude Code's CHANGELOG.md, "Added HTTP hooks". Before, they make the file invalid.
pub(super) const POSTS_SINCE: Version = [2, 1, 63];

/// Hooks of subagents name their agent from here on. Observed.
pub(super) const NAMES_AGENTS_SINCE: Version = [2, 1, 64];

/// The oldest version that hooks are installed for where none is known: that of the oldest recordings.
const OLDEST: Version = [1, 0, 128];

/// Known events that are worth no hook. WorktreeCreate must not have one: it has to make the worktree.
const OTHER_EVENTS: &[&str] = &[
    "UserPromptExpansion",
    "PreModelSwitch",
    "PostModelSwitch",
    "Setup",
    "TeammateIdle",
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
    // A command in the text of a skill (2.1.332). Its `tool_use_id` is that of no call.
    "PreSkillShellCommand",
];

/// Whether the harness is known to fire an event.
pub(super) fn is_known(name: &str) -> bool {
    OTHER_EVENTS.contains(&name) || SUBSCRIPTIONS.iter().any(|(event, _)| event.name == name)
}

/// Events that are worth a hook, because the decoder makes more of them than a note, with the version that knows them
/// first or was seen to. By Claude Code's CHANGELOG.md; PostToolUseFailure is not in it and was observed in 2.0.76, and
/// only versions that ignore what they do not know are to see PostToolBatch.
const SUBSCRIPTIONS: &[(HookEvent, Version)] = &[
    (HookEvent { name: "SessionStart", command_only: true }, [1, 0, 62]),
    (HookEvent::new("SessionEnd"), [1, 0, 85]),
    (HookEvent::new("UserPromptSubmit"), [1, 0, 54]),
    (HookEvent::new("PreToolUse"), [1, 0, 38]),
    (HookEvent::new("PostToolUse"), [1, 0, 38]),
    (HookEvent::new("PostToolUseFailure"), [2, 0, 76]),
    (HookEvent::new("PostToolBatch"), FORGIVES_SINCE),
    (HookEvent::new("PermissionRequest"), [2, 0, 45]),
    (HookEvent::new("PermissionDenied"), [2, 1, 89]),
    (HookEvent::new("SubagentStart"), [2, 0, 43]),
    (HookEvent::new("SubagentStop"), [1, 0, 41]),
    (HookEvent::new("Stop"), [1, 0, 38]),
    (HookEvent::new("StopFailure"), [2, 1, 78]),
    (HookEvent::new("PreCompact"), [1, 0, 48]),
    (HookEvent::new("PostCompact"), [2, 1, 76]),
    (HookEvent::new("TaskCreated"), [2, 1, 84]),
    (HookEvent::new("TaskCompleted"), [2, 1, 33]),
    // Says that the harness waits for its user.
    (HookEvent::new("Notification"), [1, 0, 38]),
];

/// Returns the events worth a hook that a version takes: it knows them, or ignores what it does not know. An unknown
/// version is taken for [`OLDEST`], so that no settings file is lost.
pub(super) fn events(version: Option<Version>) -> Vec<HookEvent> {
    let version = version.unwrap_or(OLDEST);
    let takes = |since: Version| version >= since || version >= FORGIVES_SINCE;
    SUBSCRIPTIONS.iter().filter(|(_, since)| takes(*since)).map(|(event, _)| *event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_known_events_and_leave_the_work_to_the_harness() {
        let mut names: Vec<&str> = events(Some(FORGIVES_SINCE)).iter().map(|event| event.name).collect();
        assert!(names.iter().all(|name| is_known(name) && !OTHER_EVENTS.contains(name)), "{names:?}");
        // A hook for it has to make the worktree.
        assert!(!names.contains(&"WorktreeCreate"));
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), names.len() + OTHER_EVENTS.len()), (SUBSCRIPTIONS.len(), 34));
    }

    #[test]
    fn old_versions_get_only_what_they_know() {
        let has = |version, name: &str| events(version).iter().any(|event| event.name == name);
        assert!(has(Some([2, 0, 28]), "SubagentStop") && !has(Some([2, 0, 28]), "SubagentStart"));
        assert!(has(Some([2, 1, 101]), "PostToolBatch"));
        assert!(has(None, "SubagentStop") && !has(None, "SubagentStart"));
    }
}
