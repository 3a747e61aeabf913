//! The hooks of Gemini CLI: where they are installed, and which.

use std::path::{Path, PathBuf};

use subscope_decode::Dialect;

use super::{Gemini, HOOK};
use crate::{
    Harness, HookEvent, HookSettings, HookSupport, SettingsError, SettingsScope, Variables, Version,
    hook_settings::{Document, SettingsForm},
    plugins::{EXTENSION_SWITCH, PluginSetup, is_extension},
};

/// Events that are worth a hook. They are the root's: in agents the hooks of tools fire, too, without saying in which
/// (0.61.0).
const EVENTS: &[&str] =
    &["SessionStart", "SessionEnd", "BeforeAgent", "AfterAgent", "BeforeTool", "AfterTool"];

const SETTINGS: SettingsForm = SettingsForm {
    is_grouped: true,
    command: "command",
    powershell: Some("command"),
    timeout: "timeout",
    units_per_second: 1000,
    waiting_events: &[],
    version: None,
    status_line: None,
    disabled: (&["hooksConfig", "enabled"], false),
    if_disabled: "has hooksConfig.enabled = false: Gemini CLI runs none until that is taken out",
    if_commented: None,
};

impl HookSupport for Gemini {
    fn dialect(&self) -> Dialect {
        HOOK
    }

    fn route(&self) -> &'static str {
        "/hooks/gemini"
    }

    fn settings_file(
        &self,
        scope: SettingsScope,
        variables: Variables<'_>,
        working_folder: &Path,
    ) -> Option<PathBuf> {
        match scope {
            SettingsScope::User => Some(self.home(variables).folder.join("settings.json")),
            SettingsScope::Project => Some(working_folder.join(".gemini/settings.json")),
            SettingsScope::Local => None,
        }
    }

    fn events(&self, _: Option<Version>) -> Vec<HookEvent> {
        EVENTS.iter().copied().map(HookEvent::new).collect()
    }

    fn plugin(&self) -> Option<&'static PluginSetup> {
        Some(&PluginSetup {
            file: "extensions/subscope/gemini-extension.json",
            is_enabled: is_extension,
            disabled: Some(EXTENSION_SWITCH),
            remove: "gemini extensions uninstall subscope",
        })
    }

    fn settings(&self, text: &str) -> Result<Box<dyn HookSettings>, SettingsError> {
        Ok(Box::new(Document::parse(&SETTINGS, text)?))
    }
}
