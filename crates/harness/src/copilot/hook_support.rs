//! The hooks of Copilot CLI: where they are installed, and which.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use subscope_decode::Dialect;

use super::{Copilot, HOOK};
use crate::{
    Harness, HookEvent, HookSettings, HookSupport, SettingsError, SettingsScope, Variables, Version,
    hook_settings::{Document, SettingsForm},
    plugins::{PluginSetup, in_enabled_plugins},
};

/// Events that are worth a hook. In 1.0.102.
const EVENTS: &[&str] = &[
    "sessionStart",
    "sessionEnd",
    "userPromptSubmitted",
    "preToolUse",
    "permissionRequest",
    "postToolUse",
    "postToolUseFailure",
    "agentStop",
    "subagentStart",
    "subagentStop",
    "errorOccurred",
];

/// Names of events in plugins that were made for another harness and that it reads, and its own. Calls are missing: their
/// tools have other names there, so they could not be joined with those of the transcript. In 1.0.102.
const FOREIGN_EVENTS: &[(&str, &str)] = &[
    ("SessionStart", "sessionStart"),
    ("SessionEnd", "sessionEnd"),
    ("UserPromptSubmit", "userPromptSubmitted"),
    ("PermissionRequest", "permissionRequest"),
    ("SubagentStart", "subagentStart"),
    ("SubagentStop", "subagentStop"),
    ("Stop", "agentStop"),
];

/// Returns the event and the payload of a hook in such a plugin: fields in `snake_case`, the answer of an agent under
/// another name. The event is empty if neither command nor payload names it.
fn in_own_form(event: Option<&str>, payload: Vec<u8>) -> (String, Vec<u8>) {
    let Ok(fields) = serde_json::from_slice::<Map<String, Value>>(&payload) else {
        return (event.unwrap_or_default().to_owned(), payload);
    };
    let named = ["hook_event_name", "hookName"].into_iter().find_map(|key| fields.get(key)?.as_str());
    let named = event.or(named).unwrap_or_default();
    let own = Copilot.own_event(named).to_owned();
    let own_key = |key: &str| match key {
        "last_assistant_message" => "response".to_owned(),
        key => camel_case(key),
    };
    let fields: Map<String, Value> = fields.into_iter().map(|(key, value)| (own_key(&key), value)).collect();
    (own, Value::Object(fields).to_string().into_bytes())
}

fn camel_case(key: &str) -> String {
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let mut letters = word.chars();
        let upper = letters.next().map(|letter| letter.to_ascii_uppercase());
        name + &upper.into_iter().chain(letters).collect::<String>()
    })
}

const SETTINGS: SettingsForm = SettingsForm {
    is_grouped: false,
    command: "bash",
    powershell: Some("powershell"),
    timeout: "timeoutSec",
    units_per_second: 1,
    waiting_events: &[],
    version: Some(1),
    status_line: None,
    disabled: (&["disableAllHooks"], true),
    if_disabled: "has disableAllHooks: Copilot CLI runs none of its hooks until that is taken out",
    if_commented: Some("has comments or trailing commas, which Copilot CLI does not read"),
};

impl HookSupport for Copilot {
    fn dialect(&self) -> Dialect {
        HOOK
    }

    fn route(&self) -> &'static str {
        "/hooks/copilot"
    }

    fn settings_file(
        &self,
        scope: SettingsScope,
        variables: Variables<'_>,
        working_folder: &Path,
    ) -> Option<PathBuf> {
        match scope {
            SettingsScope::User => Some(self.home(variables).folder.join("hooks/subscope.json")),
            SettingsScope::Project => Some(working_folder.join(".github/hooks/subscope.json")),
            SettingsScope::Local => None,
        }
    }

    fn events(&self, _: Option<Version>) -> Vec<HookEvent> {
        EVENTS.iter().copied().map(HookEvent::new).collect()
    }

    fn names_events(&self) -> bool {
        false
    }

    fn payload(&self, event: Option<&str>, payload: Vec<u8>) -> Vec<u8> {
        let (event, payload) = match event.filter(|event| EVENTS.contains(event)) {
            Some(event) => (event.to_owned(), payload),
            None => in_own_form(event, payload),
        };
        let head = format!("{{\"_event\":{},\"in\":", Value::from(event));
        [head.as_bytes(), &payload, b"}"].concat()
    }

    fn own_event<'e>(&self, event: &'e str) -> &'e str {
        let own = FOREIGN_EVENTS.iter().find(|(foreign, _)| *foreign == event);
        own.map_or(event, |(_, own)| *own)
    }

    /// It reads plugins made for another harness. The variable is not set for what its agents start, in 1.0.102.
    fn is_caller(&self, variables: Variables<'_>, _: &[u8]) -> bool {
        variables("COPILOT_PROJECT_DIR").is_some()
    }

    fn plugin(&self) -> Option<&'static PluginSetup> {
        Some(&PluginSetup {
            file: "settings.json",
            is_enabled: in_enabled_plugins,
            disabled: None,
            remove: "copilot plugin uninstall subscope@subscope",
        })
    }

    fn settings(&self, text: &str) -> Result<Box<dyn HookSettings>, SettingsError> {
        Ok(Box::new(Document::parse(&SETTINGS, text)?))
    }
}
