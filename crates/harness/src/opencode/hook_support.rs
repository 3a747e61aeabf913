//! Our plugin for OpenCode, which has no hooks in its settings: a file of ours in its folder of plugins.

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use subscope_decode::Dialect;

use super::HOOK;
use crate::{
    HookEvent, HookHandler, HookSettings, HookSupport, SettingsError, SettingsScope, Variables, Version,
    hooks::{is_our_call, quoted, words},
};

/// Events that the plugin passes on: what the database lacks, and what names the agents concerned.
/// The last one waits for an answer. In 1.18.33.
const EVENTS: &[&str] =
    &["session.created", "session.idle", "permission.asked", "permission.replied", "tool.execute.before"];

/// The plugin, with nothing filled in.
const PLUGIN: &str = include_str!("plugin.js");
/// How the lines that are filled in begin.
const COMMAND: &str = "const COMMAND = ";
const LIST: &str = "const EVENTS = ";

/// The folder of the user's configuration, in `XDG_CONFIG_HOME`.
const FOLDER: &str = "opencode";
/// The file in a folder of configuration.
const FILE: &str = "plugin/subscope.js";

/// The plugin.
pub(super) struct PluginHooks;

impl HookSupport for PluginHooks {
    fn dialect(&self) -> Dialect {
        HOOK
    }

    fn route(&self) -> &'static str {
        "/hooks/opencode"
    }

    fn settings_file(
        &self,
        scope: SettingsScope,
        variables: Variables<'_>,
        working_folder: &Path,
    ) -> Option<PathBuf> {
        let set = |name| variables(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        match scope {
            SettingsScope::User => {
                let configuration = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")))?;
                Some(configuration.join(FOLDER).join(FILE))
            }
            SettingsScope::Project => Some(working_folder.join(".opencode").join(FILE)),
            SettingsScope::Local => None,
        }
    }

    fn events(&self, _: Option<Version>) -> Vec<HookEvent> {
        EVENTS.iter().copied().map(HookEvent::new).collect()
    }

    fn next_step(&self) -> Option<&'static str> {
        Some(
            "when OpenCode starts with a plugin for the first time, it fetches @opencode-ai/plugin from npm; \
             without network each start takes a minute longer until it could",
        )
    }

    fn settings(&self, text: &str) -> Result<Box<dyn HookSettings>, SettingsError> {
        let plugin = Plugin(RefCell::new(text.to_owned()));
        if text.trim().is_empty() || plugin.parts().is_some() {
            return Ok(Box::new(plugin));
        }
        Err(SettingsError { line: 1, what: "this is no plugin of subscope".to_owned() })
    }
}

/// The command in the plugin's file.
#[derive(Deserialize)]
#[serde(untagged)]
enum PluginCommand {
    /// The program and its arguments.
    Words(Vec<String>),
    /// What plugins of earlier versions passed to a shell.
    ForShell(String),
}

/// The text of the plugin's file.
struct Plugin(RefCell<String>);

impl Plugin {
    /// Returns the command that the plugin runs, and the events that it passes on; `None` for another text.
    fn parts(&self) -> Option<(String, Vec<String>)> {
        let text = self.0.borrow();
        let value = |head: &str| {
            text.lines().find_map(|line| line.strip_prefix(head)).map(|rest| rest.trim_end_matches(';'))
        };
        let call = match serde_json::from_str(value(COMMAND)?).ok()? {
            PluginCommand::Words(words) => words,
            PluginCommand::ForShell(command) => words(&command)?,
        };
        let events = serde_json::from_str(value(LIST)?).ok()?;
        let command = call.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        is_our_call(&call).then_some((command, events))
    }
}

impl HookSettings for Plugin {
    fn text(&self) -> String {
        self.0.borrow().clone()
    }

    fn ours(&self) -> Vec<(String, HookHandler)> {
        let (command, events) = self.parts().unwrap_or_default();
        events.into_iter().map(|event| (event, HookHandler::Command(command.clone()))).collect()
    }

    fn install(&self, wanted: &[(&str, HookHandler)]) {
        // All events have one command: the plugin cannot post by itself.
        let command = wanted.iter().find_map(|(_, handler)| match handler {
            HookHandler::Command(command) => words(command),
            HookHandler::Http { .. } => None,
        });
        let Some(command) = command else { return self.remove(None) };
        let events: Vec<&str> = wanted.iter().map(|(event, _)| *event).collect();
        let filled = |line: &str| {
            if line.starts_with(COMMAND) {
                format!("{COMMAND}{};\n", serde_json::Value::from(command.clone()))
            } else if line.starts_with(LIST) {
                format!("{LIST}{};\n", serde_json::Value::from(events.clone()))
            } else {
                format!("{line}\n")
            }
        };
        self.0.replace(PLUGIN.lines().map(filled).collect());
    }

    fn remove(&self, _: Option<&str>) {
        self.0.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_plugin_says_what_it_runs_and_is_known_again() {
        let handler =
            HookHandler::command(Path::new("/opt/it's \"here\"/subscope"), &["--harness", "opencode"]);
        let wanted: Vec<_> = EVENTS.iter().map(|event| (*event, handler.clone())).collect();
        let settings = PluginHooks.settings("").unwrap();
        assert_eq!(settings.ours(), vec![]);
        settings.install(&wanted);
        let text = settings.text();
        let again = PluginHooks.settings(&text).unwrap();
        let ours: Vec<_> =
            wanted.iter().map(|(event, handler)| ((*event).to_owned(), handler.clone())).collect();
        assert_eq!(again.ours(), ours);
        again.install(&wanted);
        assert_eq!(again.text(), text, "a second installation changes nothing");
        again.remove(None);
        assert_eq!((again.ours(), again.text()), (vec![], String::new()));
        // Nothing but the two lines is filled in.
        let differing = text.lines().zip(PLUGIN.lines()).filter(|(new, old)| new != old).count();
        assert_eq!((differing, text.lines().count()), (2, PLUGIN.lines().count()));
    }

    #[test]
    fn plugin_of_an_earlier_version_is_known_and_gets_words() {
        let old = PLUGIN
            .replace("COMMAND = []", "COMMAND = \"'/a b/subscope' hook --harness opencode\"")
            .replace("EVENTS = []", "EVENTS = [\"session.idle\"]");
        let settings = PluginHooks.settings(&old).unwrap();
        let handler = HookHandler::command(Path::new("/a b/subscope"), &["--harness", "opencode"]);
        assert_eq!(settings.ours(), [("session.idle".to_owned(), handler.clone())]);
        settings.install(&[("session.idle", handler)]);
        let line = "const COMMAND = [\"/a b/subscope\",\"hook\",\"--harness\",\"opencode\"];";
        assert!(settings.text().contains(line), "{}", settings.text());
    }

    #[test]
    fn file_of_somebody_else_is_not_taken_for_ours() {
        for text in [
            "export const x = 1;\n",
            "const COMMAND = \"rm -r /\";\nconst EVENTS = [];\n",
            "const COMMAND = [\"rm\"];\nconst EVENTS = [];\n",
            "{}",
        ] {
            assert_eq!(PluginHooks.settings(text).err().map(|error| error.line), Some(1), "{text}");
        }
    }
}
