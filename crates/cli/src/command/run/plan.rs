//! Start options and observation of a command, determined by its harness, if it has one.

use std::{ffi::OsString, path::Path};

use subscope_harness::{ObserveMode, Observed, RunPlan, RunSurroundings, acp::is_acp_command, run_plan};

/// Command line to start.
#[derive(Clone)]
pub(crate) struct LaunchPlan {
    pub(crate) command: Vec<OsString>,
    pub(crate) mode: ObserveMode,
    /// What was added.
    pub(crate) added: Vec<OsString>,
    /// Whether this includes hooks.
    pub(crate) has_hooks: bool,
    /// How its harness is observed, where it is one.
    pub(crate) harness: Option<&'static dyn RunPlan>,
}

impl LaunchPlan {
    /// Makes the plan of a command, which is not empty. `is_shown`: what it prints goes to a terminal, and nothing else
    /// is to have it.
    pub(crate) fn of(command: &[OsString], is_shown: bool, own: &RunSurroundings<'_>) -> Self {
        let mode = if is_shown { ObserveMode::AtTerminal } else { ObserveMode::AsItIs };
        let mut plan =
            Self { command: command.to_vec(), mode, added: Vec::new(), has_hooks: false, harness: None };
        let Some((program, arguments)) = command.split_first() else { return plan };
        let name = Path::new(program).file_name().unwrap_or(program);
        plan.harness = name.to_str().and_then(run_plan);
        // At a terminal there is no client.
        if !own.is_terminal && name.to_str().is_some_and(|name| is_acp_command(name, &words(arguments))) {
            plan.mode = ObserveMode::Protocol;
            return plan;
        }
        let observed = plan.harness.and_then(|harness| harness.observe(&words(arguments), own));
        if let Some(Observed { mode, added, has_hooks }) = observed {
            (plan.mode, plan.has_hooks) = (mode, has_hooks);
            plan.added = added.into_iter().map(OsString::from).collect();
            // Before the existing arguments: options after `--` would not be read as options.
            plan.command.splice(1..1, plan.added.iter().cloned());
        }
        plan
    }

    pub(crate) fn arguments(&self) -> Vec<&str> {
        words(self.command.get(1..).unwrap_or_default())
    }
}

fn words(arguments: &[OsString]) -> Vec<&str> {
    arguments.iter().map(|word| word.to_str().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &str, is_terminal: bool) -> (String, ObserveMode) {
        let command: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let own = RunSurroundings { is_terminal, hook: None, version: &|| Some([2, 1, 330]) };
        let plan = LaunchPlan::of(&command, is_terminal, &own);
        let words: Vec<&str> = plan.command.iter().map(|word| word.to_str().unwrap()).collect();
        (words.join(" "), plan.mode)
    }

    #[test]
    fn options_of_a_harness_stand_in_front_of_those_that_are_there() {
        let told = "/opt/claude --output-format stream-json --verbose --forward-subagent-text -p hi";
        assert_eq!(plan("/opt/claude -p hi", true), (told.to_owned(), ObserveMode::Told));
        assert_eq!(plan("claude mcp list", true).1, ObserveMode::Unread);
    }

    #[test]
    fn agents_of_an_editor_are_started_as_they_are_and_at_a_terminal_nobody_speaks_with_them() {
        for words in ["/opt/bin/codex-acp", "kimi acp", "gemini --acp -m x"] {
            assert_eq!(plan(words, false), (words.to_owned(), ObserveMode::Protocol));
        }
        assert_eq!(plan("kilo acp", true).1, ObserveMode::AtTerminal);
    }

    #[test]
    fn what_is_no_harness_stays_as_it_is() {
        for words in ["sh -c claude", "claude-wrapper -p hi"] {
            assert_eq!(plan(words, true), (words.to_owned(), ObserveMode::AtTerminal));
        }
        for words in ["claude hi", "sh -c claude"] {
            assert_eq!(plan(words, false), (words.to_owned(), ObserveMode::AsItIs));
        }
    }
}
