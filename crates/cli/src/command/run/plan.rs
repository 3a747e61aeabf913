//! What a command is started with, and how it is observed: as its harness says, if it is one.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use subscope_harness::{HookHandler, ObserveMode, Observed, RunPlan, RunSurroundings, Version, run_plan};

/// What a command is started as.
#[derive(Clone)]
pub(crate) struct LaunchPlan {
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
    /// How it is observed.
    pub(crate) mode: ObserveMode,
    /// What was added.
    pub(crate) added: Vec<OsString>,
    /// How its harness is observed, where it is one.
    pub(crate) harness: Option<&'static dyn RunPlan>,
}

/// What a plan depends on besides the command.
pub(crate) struct LaunchContext<'a> {
    /// Whether a person sits in front of it: stdin and stdout are terminals.
    pub(crate) is_terminal: bool,
    /// Whether what it prints goes to a terminal, and nothing else is to have it.
    pub(crate) is_shown: bool,
    /// The command that hooks are to run; `None` where nothing is kept.
    pub(crate) hook: Option<HookHandler>,
    /// Asks the program for its version.
    pub(crate) version: &'a dyn Fn(&OsStr) -> Option<Version>,
}

impl LaunchPlan {
    /// Makes the plan of a command, which is not empty.
    pub(crate) fn of(command: &[OsString], launch: &LaunchContext<'_>) -> Self {
        let mode = if launch.is_shown { ObserveMode::AtTerminal } else { ObserveMode::AsItIs };
        let as_it_is = Self { command: command.to_vec(), mode, added: Vec::new(), harness: None };
        let Some((program, arguments)) = command.split_first() else { return as_it_is };
        let name = Path::new(program).file_name().unwrap_or(program);
        let Some(harness) = name.to_str().and_then(run_plan) else { return as_it_is };
        let mut plan = Self { harness: Some(harness), ..as_it_is };
        let own = RunSurroundings {
            is_terminal: launch.is_terminal,
            hook: launch.hook.as_ref(),
            version: &|| (launch.version)(program),
        };
        if let Some(Observed { mode, added }) = harness.observe(&words(arguments), &own) {
            plan.mode = mode;
            plan.added = added.into_iter().map(OsString::from).collect();
            // In front of those that are there: what follows `--` is no option.
            plan.command.splice(1..1, plan.added.iter().cloned());
        }
        plan
    }

    /// The arguments of the command.
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
        let version: &dyn Fn(&OsStr) -> Option<Version> = &|_| Some([2, 1, 330]);
        let launch = LaunchContext { is_terminal, is_shown: is_terminal, hook: None, version };
        let plan = LaunchPlan::of(&command, &launch);
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
    fn what_is_no_harness_stays_as_it_is() {
        for words in ["sh -c claude", "claude-wrapper -p hi"] {
            assert_eq!(plan(words, true), (words.to_owned(), ObserveMode::AtTerminal));
        }
        for words in ["claude hi", "sh -c claude"] {
            assert_eq!(plan(words, false), (words.to_owned(), ObserveMode::AsItIs));
        }
    }
}
