//! The hooks of Claude Code: where they are installed, and which.

use std::path::{Path, PathBuf};

use subscope_decode::Dialect;

use super::{ClaudeCode, HOOK, hook_events, layout::HOME_FOLDER};
use crate::{
    Harness, Home, HookEvent, HookSettings, HookSupport, SettingsError, SettingsScope, Variables, Version,
    hook_settings::{Document, SettingsForm},
    otel_setup::{OtelSetup, OtelTarget, json},
    plugins::{PluginSetup, in_enabled_plugins},
};

/// How hooks are written in its settings.
pub(super) const SETTINGS: SettingsForm = SettingsForm {
    is_grouped: true,
    command: "command",
    powershell: None,
    timeout: "timeout",
    units_per_second: 1,
    waiting_events: &["PermissionRequest"],
    version: None,
    status_line: Some("statusLine"),
    disabled: (&["disableAllHooks"], true),
    if_disabled: "has disableAllHooks: Claude Code runs none until that is taken out",
    // Observed: 2.1.330 ran no hook from a file with a comment, and none from one with a trailing comma.
    if_commented: Some(
        "has comments or trailing commas: they are kept, but Claude Code reads no settings from such a file, these hooks included",
    ),
};

/// The variable with the receiver's URL.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Variables of its settings, or else of its environment.
pub(super) const OTEL_SETUP: OtelSetup = OtelSetup {
    file: Some("settings.json"),
    target: |text, variables| {
        let settings = json(text);
        let variable = |name: &str| -> Option<String> {
            let own = settings.get("env").and_then(|env| env.get(name)?.as_str()).map(str::to_owned);
            own.or_else(|| variables(name)?.into_string().ok())
        };
        let exports =
            |name: &str| variable(name).is_some_and(|all| all.split(',').any(|it| it.trim() == "otlp"));
        let is_enabled = variable("CLAUDE_CODE_ENABLE_TELEMETRY").is_some_and(|value| value != "0");
        match variable(ENDPOINT) {
            Some(url) if is_enabled && (exports("OTEL_LOGS_EXPORTER") || exports("OTEL_TRACES_EXPORTER")) => {
                OtelTarget::Receiver(url)
            }
            _ => OtelTarget::Nowhere,
        }
    },
    how: |_| "`subscope hooks install --otel` writes the variables into its settings".to_owned(),
};

impl HookSupport for ClaudeCode {
    fn dialect(&self) -> Dialect {
        HOOK
    }

    fn route(&self) -> &'static str {
        "/hooks/claude"
    }

    fn settings_file(
        &self,
        scope: SettingsScope,
        variables: Variables<'_>,
        working_folder: &Path,
    ) -> Option<PathBuf> {
        let Home { folder: home, is_chosen, .. } = self.home(variables);
        let (folder, name) = match scope {
            SettingsScope::User => (home, "settings.json"),
            SettingsScope::Project => (working_folder.join(HOME_FOLDER), "settings.json"),
            SettingsScope::Local => (working_folder.join(HOME_FOLDER), "settings.local.json"),
        };
        (folder.is_absolute() || is_chosen).then(|| folder.join(name))
    }

    fn events(&self, version: Option<Version>) -> Vec<HookEvent> {
        hook_events::events(version)
    }

    fn has_status_line(&self) -> bool {
        SETTINGS.status_line.is_some()
    }

    fn forgives_since(&self) -> Option<Version> {
        Some(hook_events::FORGIVES_SINCE)
    }

    fn names_agents_since(&self) -> Option<Version> {
        Some(hook_events::NAMES_AGENTS_SINCE)
    }

    fn posts_since(&self) -> Option<Version> {
        Some(hook_events::POSTS_SINCE)
    }

    /// Without prompts and answers, which its user has to ask for.
    fn otel_variables(&self, url: &str) -> Vec<(&'static str, String)> {
        let set = |name, value: &str| (name, value.to_owned());
        vec![
            set("CLAUDE_CODE_ENABLE_TELEMETRY", "1"),
            set("CLAUDE_CODE_ENHANCED_TELEMETRY_BETA", "1"),
            set("OTEL_LOGS_EXPORTER", "otlp"),
            set("OTEL_METRICS_EXPORTER", "otlp"),
            set("OTEL_TRACES_EXPORTER", "otlp"),
            set("OTEL_LOG_TOOL_DETAILS", "1"),
            set("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            set(ENDPOINT, url.trim_end_matches('/')),
        ]
    }

    fn plugin(&self) -> Option<&'static PluginSetup> {
        Some(&PluginSetup {
            file: "settings.json",
            is_enabled: in_enabled_plugins,
            disabled: None,
            remove: "claude plugin uninstall subscope@subscope",
        })
    }

    fn settings(&self, text: &str) -> Result<Box<dyn HookSettings>, SettingsError> {
        Ok(Box::new(Document::parse(&SETTINGS, text)?))
    }
}
