//! The hooks of Copilot CLI: where they are installed, and which.

use std::path::{Path, PathBuf};

use subscope_decode::Dialect;

use super::{Copilot, HOOK};
use crate::{
    Harness, HookEvent, HookSettings, HookSupport, SettingsError, SettingsScope, Variables, Version,
    hook_settings::{Document, SettingsForm},
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

const SETTINGS: SettingsForm = SettingsForm {
    is_grouped: false,
    command: "bash",
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

    fn payload(&self, event: &str, payload: Vec<u8>) -> Vec<u8> {
        let head = format!("{{\"_event\":{},\"in\":", serde_json::Value::from(event));
        [head.as_bytes(), &payload, b"}"].concat()
    }

    fn settings(&self, text: &str) -> Result<Box<dyn HookSettings>, SettingsError> {
        Ok(Box::new(Document::parse(&SETTINGS, text)?))
    }
}
