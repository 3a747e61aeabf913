//! Decides how a command is started and observed, by the properties of its harness.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use subscope_decode::{
    claude::plain::PlainLimits,
    harness::{Harness, Subscription},
};

use crate::command::hooks::{
    entry::Handler,
    version::{self, Version},
};

/// How a command is observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObserveMode {
    /// Its output is read as it passes through. Whether it runs agents is unknown: sessions of its processes are
    /// followed.
    AsItIs,
    /// Like `AsItIs`, but it keeps its terminal: to a pipe it might print something else, or nothing.
    AtTerminal,
    /// It prints an event stream, because the user asked for it.
    Streamed,
    /// It prints only its answer, because the user asked for it: its session is followed.
    Answering,
    /// Options were added that make it print an event stream; what it would have printed without them is printed
    /// instead.
    AddedStream(PlainLimits),
    /// It is interactive: observed by hooks, and nothing is printed over its screen.
    Interactive,
    /// It runs no agent: its output is not read.
    Unread,
}

/// Command line and observation of a command.
#[derive(Clone, Debug)]
pub(crate) struct LaunchPlan {
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
    /// How it is observed.
    pub(crate) mode: ObserveMode,
    /// Added options.
    pub(crate) added: Vec<OsString>,
    /// The harness, if the program is one.
    pub(crate) harness: Option<&'static Harness>,
}

/// What a plan depends on, in addition to the command.
pub(crate) struct LaunchContext<'a> {
    /// Whether it is interactive: stdin and stdout are terminals.
    pub(crate) is_terminal: bool,
    /// Whether its output goes only to a terminal.
    pub(crate) is_shown: bool,
    /// The handler for hooks; `None` if nothing is stored.
    pub(crate) hook: Option<Handler>,
    /// Queries the program's version.
    pub(crate) version: &'a dyn Fn(&OsStr) -> Option<Version>,
}

impl LaunchPlan {
    /// Plans a command, which must not be empty.
    pub(crate) fn of(command: &[OsString], launch: &LaunchContext<'_>) -> Self {
        let mode = if launch.is_shown { ObserveMode::AtTerminal } else { ObserveMode::AsItIs };
        let as_it_is = Self { command: command.to_vec(), mode, added: Vec::new(), harness: None };
        let Some((program, arguments)) = command.split_first() else { return as_it_is };
        let name = Path::new(program).file_name().unwrap_or(program);
        let Some(harness) = name.to_str().and_then(Harness::of_program) else { return as_it_is };
        let plan = Self { harness: Some(harness), ..as_it_is };
        let words: Vec<&str> = arguments
            .iter()
            .map(|word| word.to_str().unwrap_or_default())
            .take_while(|word| *word != "--")
            .collect();
        let has = |option: &str| {
            words.iter().any(|word| word.split_once('=').map_or(*word, |(option, _)| option) == option)
        };
        let is_one_shot = harness.one_shot_options.iter().any(|option| has(option));
        let runs_no_agent = words.first().is_some_and(|first| harness.no_session.contains(first));
        if runs_no_agent {
            return Self { mode: ObserveMode::Unread, ..plan };
        }
        if !harness.traces_subagents {
            return plan;
        }
        if let Some(format) = value_of(harness.format_option, &words) {
            let is_stream = harness.stream_flags.contains(&format.as_str());
            return Self {
                mode: if is_stream { ObserveMode::Streamed } else { ObserveMode::Answering },
                ..plan
            };
        }
        if is_one_shot {
            let version = (launch.version)(program);
            let verbosity = harness.verbosity_flags.iter().filter(|(_, since)| version >= Some(*since));
            let flags = harness.stream_flags.iter().copied().chain(verbosity.map(|(flag, _)| *flag));
            let added: Vec<&str> = flags.filter(|flag| !has(flag)).collect();
            let limits = PlainLimits {
                turns: value_of("--max-turns", &words),
                budget: value_of("--max-budget-usd", &words),
            };
            return plan.with_options(&added, ObserveMode::AddedStream(limits));
        }
        if !launch.is_terminal {
            return plan;
        }
        let plan = Self { mode: ObserveMode::Interactive, ..plan };
        match &launch.hook {
            Some(hook) if !has(harness.settings_option) => {
                let settings = settings(harness, (launch.version)(program), hook);
                plan.with_options(&[harness.settings_option, &settings], ObserveMode::Interactive)
            }
            Some(_) | None => plan,
        }
    }

    /// Inserts options before the arguments: nothing after `--` is an option.
    fn with_options(mut self, options: &[&str], mode: ObserveMode) -> Self {
        self.added = options.iter().map(OsString::from).collect();
        self.command.splice(1..1, self.added.iter().cloned());
        self.mode = mode;
        self
    }
}

fn value_of(option: &str, words: &[&str]) -> Option<String> {
    let at = words.iter().position(|word| word.split_once('=').map_or(*word, |(name, _)| name) == option)?;
    let value = match words.get(at)?.split_once('=') {
        Some((_, value)) => value,
        None => words.get(at + 1)?,
    };
    Some(value.to_owned())
}

/// Returns settings with our hooks, for one run.
fn settings(harness: &Harness, version: Option<Version>, hook: &Handler) -> String {
    let subscriptions =
        harness.hook_subscriptions.iter().filter(|it| version::accepts(version, it.since)).map(
            |it: &Subscription| (it.event.to_owned(), serde_json::json!([{ "hooks": [hook.to_json()] }])),
        );
    let hooks: serde_json::Map<String, serde_json::Value> = subscriptions.collect();
    serde_json::json!({ "hooks": hooks }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &str, is_terminal: bool, version: Option<Version>) -> (String, ObserveMode) {
        let command: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let hook = Handler::command(Path::new("/bin/subscope"), None);
        let launch =
            LaunchContext { is_terminal, is_shown: is_terminal, hook: Some(hook), version: &|_| version };
        let plan = LaunchPlan::of(&command, &launch);
        let words: Vec<&str> = plan.command.iter().map(|word| word.to_str().unwrap()).collect();
        (words.join(" "), plan.mode)
    }

    const NEW: Option<Version> = Some([2, 1, 330]);

    #[test]
    fn one_shot_without_format_gets_the_stream_and_what_its_version_knows() {
        let added_stream = |turns: Option<&str>| {
            ObserveMode::AddedStream(PlainLimits { turns: turns.map(str::to_owned), budget: None })
        };
        let new = "claude --output-format stream-json --verbose --forward-subagent-text -p hi";
        assert_eq!(plan("claude -p hi", true, NEW), (new.to_owned(), added_stream(None)));
        let old = "/opt/claude --output-format stream-json --verbose --print --max-turns=3 hi";
        assert_eq!(
            plan("/opt/claude --print --max-turns=3 hi", false, Some([2, 1, 110])),
            (old.to_owned(), added_stream(Some("3")))
        );
        let unknown = "claude --output-format stream-json -p hi --verbose";
        assert_eq!(plan("claude -p hi --verbose", false, None), (unknown.to_owned(), added_stream(None)));
    }

    #[test]
    fn what_has_a_format_or_is_no_harness_stays_as_it_is() {
        for (words, mode) in [
            ("claude -p --output-format text hi", ObserveMode::Answering),
            ("claude -p --output-format=json hi", ObserveMode::Answering),
            ("claude -p --output-format=stream-json --verbose hi", ObserveMode::Streamed),
            ("sh -c claude", ObserveMode::AtTerminal),
            ("claude-wrapper -p hi", ObserveMode::AtTerminal),
        ] {
            assert_eq!(plan(words, true, NEW), (words.to_owned(), mode), "{words}");
        }
        for words in ["claude hi", "sh -c claude"] {
            assert_eq!(plan(words, false, NEW), (words.to_owned(), ObserveMode::AsItIs));
        }
        assert_eq!(plan("claude mcp list", true, NEW).1, ObserveMode::Unread);
        assert_eq!(plan("claude --version", true, NEW).1, ObserveMode::Unread);
    }

    #[test]
    fn interactive_session_gets_hooks_for_itself_alone() {
        let (words, mode) = plan("claude", true, NEW);
        assert_eq!(mode, ObserveMode::Interactive);
        let settings = words.strip_prefix("claude --settings ").unwrap();
        let settings: serde_json::Value = serde_json::from_str(settings).unwrap();
        assert_eq!(settings["hooks"]["SubagentStop"][0]["hooks"][0]["command"], "/bin/subscope hook");
        // 2.0.28 ignores all settings for an event that it does not know.
        let (words, _) = plan("claude", true, Some([2, 0, 28]));
        assert!(words.contains("SubagentStop") && !words.contains("SubagentStart"), "{words}");
        let own = "claude --settings mine.json";
        assert_eq!(plan(own, true, NEW), (own.to_owned(), ObserveMode::Interactive));
        assert_eq!(plan("claude -- -p", true, NEW).1, ObserveMode::Interactive);
    }
}
