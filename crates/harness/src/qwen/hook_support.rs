//! The hooks of Qwen Code: where they are installed, and which.

use std::path::{Path, PathBuf};

use memchr::memmem;
use subscope_decode::Dialect;

use super::{HOOK, Qwen};
use crate::{
    Harness, HookEvent, HookSettings, HookSupport, SettingsError, SettingsScope, Variables, Version,
    hook_settings::{Document, SettingsForm},
    plugins::{EXTENSION_SWITCH, PluginSetup, is_extension},
};

/// Hook events to install: those that the decoder reads as more than a sign of life. In 0.24.4.
const EVENTS: &[&str] = &[
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PermissionRequest",
    "PermissionDenied",
    "SubagentStart",
    "SubagentStop",
    "Stop",
    "StopFailure",
    "Notification",
];

const SETTINGS: SettingsForm = SettingsForm {
    is_grouped: true,
    command: "command",
    powershell: None,
    timeout: "timeout",
    units_per_second: 1,
    waiting_events: &[],
    version: None,
    status_line: None,
    disabled: (&["disableAllHooks"], true),
    if_disabled: "has disableAllHooks: Qwen Code runs none until that is taken out",
    if_commented: None,
};

impl HookSupport for Qwen {
    fn dialect(&self) -> Dialect {
        HOOK
    }

    fn route(&self) -> &'static str {
        "/hooks/qwen"
    }

    fn settings_file(
        &self,
        scope: SettingsScope,
        variables: Variables<'_>,
        working_folder: &Path,
    ) -> Option<PathBuf> {
        match scope {
            SettingsScope::User => Some(self.home(variables).folder.join("settings.json")),
            SettingsScope::Project => Some(working_folder.join(".qwen/settings.json")),
            SettingsScope::Local => None,
        }
    }

    fn events(&self, _: Option<Version>) -> Vec<HookEvent> {
        EVENTS.iter().copied().map(HookEvent::new).collect()
    }

    /// It converts plugins made for another harness. Its agents' processes inherit the variable, so it has to name the session of the
    /// payload (0.24.4).
    fn is_caller(&self, variables: Variables<'_>, payload: &[u8]) -> bool {
        let session = self.session_variable().and_then(variables);
        session.is_some_and(|session| memmem::find(payload, session.as_encoded_bytes()).is_some())
    }

    fn plugin(&self) -> Option<&'static PluginSetup> {
        Some(&PluginSetup {
            file: "extensions/subscope/qwen-extension.json",
            is_enabled: is_extension,
            disabled: Some(EXTENSION_SWITCH),
            remove: "qwen extensions uninstall subscope",
        })
    }

    fn settings(&self, text: &str) -> Result<Box<dyn HookSettings>, SettingsError> {
        Ok(Box::new(Document::parse(&SETTINGS, text)?))
    }
}
