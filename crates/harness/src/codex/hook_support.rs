//! The hooks of Codex: where they are installed, and which.

use std::path::{Path, PathBuf};

use subscope_decode::Dialect;

use super::{Codex, HOOK};
use crate::{
    Harness, HeadLine, HookEvent, HookSettings, HookSupport, SettingsError, SettingsScope, Variables,
    Version,
    hook_settings::{Document, SettingsForm},
    plugins::{HookTrust, PluginSetup, in_plugin_tables, untrusted_by_hash},
};

/// Hook events to install: those that the decoder reads as more than a sign of life. In 0.169.0.
const EVENTS: &[&str] = &[
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PermissionRequest",
    "SubagentStart",
    "SubagentStop",
    "Stop",
];

const SETTINGS: SettingsForm = SettingsForm {
    is_grouped: true,
    command: "command",
    powershell: Some("command"),
    timeout: "timeout",
    units_per_second: 1,
    waiting_events: &[],
    version: None,
    status_line: None,
    disabled: (&["disableAllHooks"], true),
    if_disabled: "has disableAllHooks",
    if_commented: Some("has comments or trailing commas, which Codex does not read"),
};

impl HookSupport for Codex {
    fn dialect(&self) -> Dialect {
        HOOK
    }

    fn route(&self) -> &'static str {
        "/hooks/codex"
    }

    fn settings_file(
        &self,
        scope: SettingsScope,
        variables: Variables<'_>,
        working_folder: &Path,
    ) -> Option<PathBuf> {
        match scope {
            SettingsScope::User => Some(self.home(variables).folder.join("hooks.json")),
            SettingsScope::Project => Some(working_folder.join(".codex/hooks.json")),
            SettingsScope::Local => None,
        }
    }

    fn events(&self, _: Option<Version>) -> Vec<HookEvent> {
        EVENTS.iter().copied().map(HookEvent::new).collect()
    }

    fn trust(&self) -> Option<&'static HookTrust> {
        Some(&HookTrust { file: "config.toml", untrusted: untrusted_by_hash })
    }

    /// It reads plugins made for another harness. Its variables are its user's, too, so only payloads tell.
    fn is_caller(&self, _: Variables<'_>, payload: &[u8]) -> bool {
        let line = std::str::from_utf8(payload).ok().map(|object| HeadLine { object, is_cut: false });
        line.and_then(|line| self.recognize(line)) == Some(HOOK)
    }

    fn next_step(&self) -> Option<&'static str> {
        Some("Codex runs hooks once you trust them: /hooks in its terminal UI")
    }

    fn plugin(&self) -> Option<&'static PluginSetup> {
        Some(&PluginSetup {
            file: "config.toml",
            is_enabled: in_plugin_tables,
            disabled: None,
            remove: "codex plugin remove subscope@subscope",
        })
    }

    fn settings(&self, text: &str) -> Result<Box<dyn HookSettings>, SettingsError> {
        Ok(Box::new(Document::parse(&SETTINGS, text)?))
    }
}
