//! How `claude` is started and observed by `run`.

use std::{cell::LazyCell, ffi::OsStr, path::PathBuf};

use serde_json::{Map, Value, json};

use super::{
    ClaudeCode, hook_events,
    hook_support::SETTINGS,
    plain_output::{Plain, PlainLimits},
    process,
};
use crate::{
    Harness, HookHandler, ObserveMode, Observed, PlainOutput, ProcessNote, ProcessNotes, RunPlan,
    RunSurroundings, Variables, Version, run::Words,
};

/// The flags that make a one-shot run machine-readable.
const STREAM_FLAGS: &[&str] = &["--output-format", "stream-json", "--verbose"];
/// Flags that make it print more of its subagents then, with the version that was seen to know them first.
const VERBOSITY_FLAGS: &[(&str, Version)] = &[("--forward-subagent-text", [2, 1, 250])];
/// The options that ask for a one-shot run.
const ONE_SHOT_OPTIONS: &[&str] = &["-p", "--print"];
/// The option that chooses a form of output: with it nothing is added.
const FORMAT_OPTION: &str = "--output-format";
/// The option that takes settings for this run alone, as JSON.
const SETTINGS_OPTION: &str = "--settings";
/// The key of the tool call in the `_meta` of a call of an MCP tool.
const CALLER_ID_KEY: &str = "claudecode/toolUseId";
/// Options and subcommands with which the program starts no session.
const NO_SESSION: &[&str] = &[
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
];

impl RunPlan for ClaudeCode {
    fn program(&self) -> &'static str {
        "claude"
    }

    fn resume_option(&self) -> &'static str {
        "--resume"
    }

    fn install_folders(&self) -> &'static [&'static str] {
        &[".local/bin", ".claude/local"]
    }

    fn observe(&self, arguments: &[&str], around: &RunSurroundings<'_>) -> Option<Observed> {
        let words = Words::of(arguments);
        let plain = |mode| Some(Observed::unchanged(mode));
        if words.first().is_some_and(|first| NO_SESSION.contains(&first)) {
            return plain(ObserveMode::Unread);
        }
        let known = LazyCell::new(around.version);
        let with_hooks = |mode, mut added: Vec<String>| {
            let hook = around.hook.filter(|_| !words.has(SETTINGS_OPTION));
            if let Some(hook) = hook {
                added.extend([SETTINGS_OPTION.to_owned(), settings(*known, hook)]);
            }
            Some(Observed { mode, added, has_hooks: hook.is_some() })
        };
        if let Some(format) = words.value_of(FORMAT_OPTION) {
            // A stream reports hooks: with ours its user would see other output than without us.
            let is_stream = STREAM_FLAGS.contains(&format);
            let answering = || with_hooks(ObserveMode::Answering, Vec::new());
            return if is_stream { plain(ObserveMode::Streamed) } else { answering() };
        }
        if words.has_any(ONE_SHOT_OPTIONS) {
            let telling = VERBOSITY_FLAGS.iter().filter(|(_, since)| *known >= Some(*since));
            let flags = STREAM_FLAGS.iter().copied().chain(telling.map(|(flag, _)| *flag));
            let added = flags.filter(|flag| !words.has(flag)).map(str::to_owned).collect();
            return with_hooks(ObserveMode::Told, added);
        }
        if !around.is_terminal {
            return None;
        }
        with_hooks(ObserveMode::Interactive, Vec::new())
    }

    fn plain_output(&self, arguments: &[&str]) -> Option<Box<dyn PlainOutput>> {
        let words = Words::of(arguments);
        let value = |option| words.value_of(option).map(str::to_owned);
        let limits = PlainLimits { turns: value("--max-turns"), budget: value("--max-budget-usd") };
        Some(Box::new(Plain::new(limits)))
    }

    fn caller_id_key(&self) -> Option<&'static str> {
        Some(CALLER_ID_KEY)
    }

    fn notes(&self) -> Option<&'static dyn ProcessNotes> {
        Some(&ClaudeCode)
    }
}

impl ProcessNotes for ClaudeCode {
    fn folder(&self, variables: Variables<'_>) -> PathBuf {
        self.home(variables).folder.join(process::FOLDER)
    }

    fn process(&self, name: &OsStr) -> Option<i32> {
        process::process_of(name)
    }

    fn read(&self, bytes: &[u8]) -> Option<ProcessNote> {
        process::read(bytes)
    }
}

/// Settings with our hooks, for one run.
fn settings(known: Option<Version>, hook: &HookHandler) -> String {
    let events = hook_events::events(known).into_iter();
    let hooks: Map<String, Value> = events
        .map(|event| (event.name.to_owned(), json!([{ "hooks": [SETTINGS.entry(event.name, hook)] }])))
        .collect();
    json!({ "hooks": hooks }).to_string()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// How a run with these words is observed, and with which words it is started.
    fn plan(words: &str, is_terminal: bool, version: Option<Version>) -> Option<(String, ObserveMode)> {
        let arguments: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
        let hook = HookHandler::command(Path::new("/bin/subscope"), &[]);
        let around = RunSurroundings { is_terminal, hook: Some(&hook), version: &|| version };
        let Observed { mode, added, has_hooks } = ClaudeCode.observe(&arguments, &around)?;
        let added =
            added.into_iter().map(|word| if word.starts_with('{') { "HOOKS".to_owned() } else { word });
        let added: Vec<String> = added.collect();
        assert_eq!(has_hooks, added.contains(&"HOOKS".to_owned()));
        let words: Vec<&str> = added.iter().map(String::as_str).chain(arguments).collect();
        Some((words.join(" "), mode))
    }

    const NEW: Option<Version> = Some([2, 1, 330]);

    #[test]
    fn one_shot_without_format_gets_the_stream_and_what_its_version_knows() {
        for (words, version, started) in [
            (
                "-p hi",
                NEW,
                "--output-format stream-json --verbose --forward-subagent-text --settings HOOKS -p hi",
            ),
            (
                "--print --max-turns=3 hi",
                Some([2, 1, 110]),
                "--output-format stream-json --verbose --settings HOOKS --print --max-turns=3 hi",
            ),
            ("-p hi --verbose", None, "--output-format stream-json --settings HOOKS -p hi --verbose"),
            (
                "-p --settings mine.json hi",
                Some([2, 1, 110]),
                "--output-format stream-json --verbose -p --settings mine.json hi",
            ),
        ] {
            assert_eq!(plan(words, true, version), Some((started.to_owned(), ObserveMode::Told)), "{words}");
        }
    }

    #[test]
    fn plain_output_knows_the_limits_of_the_run() {
        let mut out = Vec::new();
        let line = b"{\"type\":\"result\",\"subtype\":\"error_max_turns\"}\n";
        let mut plain = ClaudeCode.plain_output(&["--verbose", "-p", "--max-turns", "3", "hi"]).unwrap();
        plain.push(line, &mut out);
        plain.finish(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "Error: Reached max turns (3)");
    }

    #[test]
    fn what_has_a_format_gets_none_and_what_runs_no_agent_stays_as_it_is() {
        for words in ["-p --output-format text hi", "-p --output-format=json hi"] {
            let started = format!("--settings HOOKS {words}");
            assert_eq!(plan(words, true, NEW), Some((started, ObserveMode::Answering)));
        }
        for (words, mode) in [
            ("-p --output-format=json --settings=mine hi", ObserveMode::Answering),
            ("-p --output-format=stream-json --verbose hi", ObserveMode::Streamed),
            ("mcp list", ObserveMode::Unread),
            ("--version", ObserveMode::Unread),
        ] {
            assert_eq!(plan(words, true, NEW), Some((words.to_owned(), mode)), "{words}");
        }
        assert_eq!(plan("hi", false, NEW), None);
    }

    #[test]
    fn interactive_session_gets_hooks_for_itself_alone() {
        assert_eq!(plan("", true, NEW), Some(("--settings HOOKS".to_owned(), ObserveMode::Interactive)));
        let hook = HookHandler::command(Path::new("/bin/subscope"), &[]);
        let written: Value = serde_json::from_str(&settings(NEW, &hook)).unwrap();
        assert_eq!(written["hooks"]["SubagentStop"][0]["hooks"][0]["command"], "/bin/subscope hook");
        // 2.0.28 ignores all settings for an event that it does not know.
        let written: Value = serde_json::from_str(&settings(Some([2, 0, 28]), &hook)).unwrap();
        let events = written["hooks"].as_object().unwrap();
        assert!(events.contains_key("SubagentStop") && !events.contains_key("SubagentStart"), "{written}");
        let own = ("--settings mine.json".to_owned(), ObserveMode::Interactive);
        assert_eq!(plan("--settings mine.json", true, NEW), Some(own));
        assert_eq!(plan("-- -p", true, NEW).unwrap().1, ObserveMode::Interactive);
    }
}
