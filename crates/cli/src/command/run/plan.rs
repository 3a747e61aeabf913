//! What a command is started with, and what its output is: by the row of its harness.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use subscope_harness::claude_code::{
    plain_output::PlainLimits,
    row::{Row as Harness, Subscription},
};

use crate::command::hooks::{
    entry::Handler,
    version::{self, Version},
};

/// How a command is observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ObserveMode {
    /// Its output is read as it passes. What it is, and whether agents are in it, is not known: sessions that its processes are
    /// in are followed.
    AsItIs,
    /// The same, and the terminal that it prints to is its own: in a pipe it would print something else, or nothing.
    AtTerminal,
    /// It prints what it does, by its user's choice.
    Streamed,
    /// It prints its answer alone, by its user's choice: its session is followed.
    Answering,
    /// It was given options that make it tell what it does; what is printed is what it would have printed without.
    Told(PlainLimits),
    /// It works with whoever sits at the terminal: hooks tell of it, and nothing is printed over its screen.
    Interactive,
    /// It runs no agent: nothing is read of it.
    Unread,
}

/// What a command is started as.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
    /// How it is observed.
    pub(crate) way: ObserveMode,
    /// What was added.
    pub(crate) added: Vec<OsString>,
    /// The harness, where it is one.
    pub(crate) harness: Option<&'static Harness>,
}

/// What a plan depends on besides the command.
pub(crate) struct Surroundings<'a> {
    /// Whether a person sits in front of it: stdin and stdout are terminals.
    pub(crate) is_terminal: bool,
    /// Whether what it prints goes to a terminal, and nothing else is to have it.
    pub(crate) is_shown: bool,
    /// The command that hooks are to run; `None` where nothing is kept.
    pub(crate) hook: Option<Handler>,
    /// Asks the program for its version.
    pub(crate) version: &'a dyn Fn(&OsStr) -> Option<Version>,
}

impl Plan {
    /// Makes the plan of a command, which is not empty.
    pub(crate) fn of(command: &[OsString], around: &Surroundings<'_>) -> Self {
        let way = if around.is_shown { ObserveMode::AtTerminal } else { ObserveMode::AsItIs };
        let as_it_is = Self { command: command.to_vec(), way, added: Vec::new(), harness: None };
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
            return Self { way: ObserveMode::Unread, ..plan };
        }
        if !harness.traces_subagents {
            return plan;
        }
        if let Some(format) = value_of(harness.format_option, &words) {
            let is_stream = harness.stream_flags.contains(&format.as_str());
            return Self {
                way: if is_stream { ObserveMode::Streamed } else { ObserveMode::Answering },
                ..plan
            };
        }
        if is_one_shot {
            let known = (around.version)(program);
            let telling = harness.verbosity_flags.iter().filter(|(_, since)| known >= Some(*since));
            let flags = harness.stream_flags.iter().copied().chain(telling.map(|(flag, _)| *flag));
            let added: Vec<&str> = flags.filter(|flag| !has(flag)).collect();
            let limits = PlainLimits {
                turns: value_of("--max-turns", &words),
                budget: value_of("--max-budget-usd", &words),
            };
            return plan.with(&added, ObserveMode::Told(limits));
        }
        if !around.is_terminal {
            return plan;
        }
        let plan = Self { way: ObserveMode::Interactive, ..plan };
        match &around.hook {
            Some(hook) if !has(harness.settings_option) => {
                let settings = settings(harness, (around.version)(program), hook);
                plan.with(&[harness.settings_option, &settings], ObserveMode::Interactive)
            }
            Some(_) | None => plan,
        }
    }

    /// Puts options in front of those that are there: what follows `--` is no option.
    fn with(mut self, options: &[&str], way: ObserveMode) -> Self {
        self.added = options.iter().map(OsString::from).collect();
        self.command.splice(1..1, self.added.iter().cloned());
        self.way = way;
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

/// Settings with our hooks, for one run.
fn settings(harness: &Harness, known: Option<Version>, hook: &Handler) -> String {
    let subscriptions =
        harness.hook_subscriptions.iter().filter(|it| version::knows(known, it.since)).map(
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
        let around =
            Surroundings { is_terminal, is_shown: is_terminal, hook: Some(hook), version: &|_| version };
        let plan = Plan::of(&command, &around);
        let words: Vec<&str> = plan.command.iter().map(|word| word.to_str().unwrap()).collect();
        (words.join(" "), plan.way)
    }

    const NEW: Option<Version> = Some([2, 1, 330]);

    #[test]
    fn one_shot_without_format_gets_the_stream_and_what_its_version_knows() {
        let told = |turns: Option<&str>| {
            ObserveMode::Told(PlainLimits { turns: turns.map(str::to_owned), budget: None })
        };
        let new = "claude --output-format stream-json --verbose --forward-subagent-text -p hi";
        assert_eq!(plan("claude -p hi", true, NEW), (new.to_owned(), told(None)));
        let old = "/opt/claude --output-format stream-json --verbose --print --max-turns=3 hi";
        assert_eq!(
            plan("/opt/claude --print --max-turns=3 hi", false, Some([2, 1, 110])),
            (old.to_owned(), told(Some("3")))
        );
        let unknown = "claude --output-format stream-json -p hi --verbose";
        assert_eq!(plan("claude -p hi --verbose", false, None), (unknown.to_owned(), told(None)));
    }

    #[test]
    fn what_has_a_format_or_is_no_harness_stays_as_it_is() {
        for (words, way) in [
            ("claude -p --output-format text hi", ObserveMode::Answering),
            ("claude -p --output-format=json hi", ObserveMode::Answering),
            ("claude -p --output-format=stream-json --verbose hi", ObserveMode::Streamed),
            ("sh -c claude", ObserveMode::AtTerminal),
            ("claude-wrapper -p hi", ObserveMode::AtTerminal),
        ] {
            assert_eq!(plan(words, true, NEW), (words.to_owned(), way), "{words}");
        }
        for words in ["claude hi", "sh -c claude"] {
            assert_eq!(plan(words, false, NEW), (words.to_owned(), ObserveMode::AsItIs));
        }
        assert_eq!(plan("claude mcp list", true, NEW).1, ObserveMode::Unread);
        assert_eq!(plan("claude --version", true, NEW).1, ObserveMode::Unread);
    }

    #[test]
    fn interactive_session_gets_hooks_for_itself_alone() {
        let (words, way) = plan("claude", true, NEW);
        assert_eq!(way, ObserveMode::Interactive);
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
