//! Our plugins: how it is known that one is installed. What is in them is made from the same tables (`cargo xtask plugins`).

use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::otel_setup::json;

/// The file of our skill in the folder of each of our plugins.
pub const SKILL_FILE: &str = "skills/subscope/SKILL.md";

/// How an installed plugin of ours is found.
#[derive(Debug)]
pub struct PluginSetup {
    /// The file below the harness's home that has it.
    pub file: &'static str,
    /// Returns whether it is enabled, by the text of that file; `None` where it is not installed.
    pub is_enabled: fn(&str) -> Option<bool>,
    /// Another file that may disable it, and whether its text does for all of a user's sessions, by the user's home.
    pub disabled: Option<PluginSwitch>,
    /// The command that removes it.
    pub remove: &'static str,
}

/// A file, and whether its text disables our plugin for all sessions of the user with this home folder.
pub type PluginSwitch = (&'static str, fn(&str, &Path) -> bool);

/// Our plugin's name with its catalog's, in the lists of harnesses that have catalogs.
fn is_ours(name: &str) -> bool {
    name.split('@').next() == Some("subscope")
}

/// Reads the list `enabledPlugins` of JSON settings.
pub(crate) fn in_enabled_plugins(text: &str) -> Option<bool> {
    let settings = json(text);
    let plugins = settings.get("enabledPlugins")?.as_object()?;
    let ours: Vec<bool> =
        plugins.iter().filter(|(name, _)| is_ours(name)).map(|(_, value)| *value == true).collect();
    (!ours.is_empty()).then(|| ours.contains(&true))
}

/// Reads the tables `[plugins."NAME@CATALOG"]` of TOML settings.
pub(crate) fn in_plugin_tables(text: &str) -> Option<bool> {
    let settings: toml::Table = text.parse().ok()?;
    let plugins = settings.get("plugins")?.as_table()?;
    let is_enabled = |value: &toml::Value| value.get("enabled").and_then(toml::Value::as_bool) != Some(false);
    let ours: Vec<bool> =
        plugins.iter().filter(|(name, _)| is_ours(name)).map(|(_, value)| is_enabled(value)).collect();
    (!ours.is_empty()).then(|| ours.contains(&true))
}

/// Reads the manifest of an extension, whose folder has the extension's name.
pub(crate) fn is_extension(text: &str) -> Option<bool> {
    (json(text).get("name")? == "subscope").then_some(true)
}

/// Where extensions are enabled and disabled, by folder.
pub(crate) const EXTENSION_SWITCH: PluginSwitch = ("extensions/extension-enablement.json", |text, home| {
    let settings = json(text);
    let overrides = settings.get("subscope").and_then(|ours| ours.get("overrides")?.as_array());
    let of_user = format!("{}/*", home.display());
    let mut folders = overrides.into_iter().flatten().filter_map(Value::as_str);
    let last = folders.rfind(|folder| folder.trim_start_matches('!') == of_user);
    last.is_some_and(|folder| folder.starts_with('!'))
});

/// How it is known which hooks a user trusts.
#[derive(Debug)]
pub struct HookTrust {
    /// The file below the harness's home that keeps it.
    pub file: &'static str,
    /// Returns the events whose hook of ours is not trusted as it is now, of a settings file that the harness knows under
    /// one of these paths, by its text and that of `file`.
    pub untrusted: fn(&[&Path], &str, &str) -> Vec<String>,
}

/// Finds the hooks without a matching `[hooks.state."PATH:EVENT:GROUP:HOOK"] trusted_hash`, which is the SHA-256 of the
/// hook's canonical JSON (compact, sorted keys). Observed: Codex 0.169.0, `hooks/list` of its app server.
pub(crate) fn untrusted_by_hash(paths: &[&Path], hooks: &str, trust: &str) -> Vec<String> {
    let trust: toml::Table = trust.parse().unwrap_or_default();
    let state = trust.get("hooks").and_then(|hooks| hooks.get("state"));
    let is_trusted = |event: &str, group: usize, hook: usize, hash: &str| {
        paths.iter().any(|path| {
            let key = format!("{}:{event}:{group}:{hook}", path.display());
            let kept = state.and_then(|state| state.get(&key));
            let is_enabled = |kept: &toml::Value| kept.get("enabled").and_then(toml::Value::as_bool);
            kept.is_some_and(|kept| {
                kept.get("trusted_hash").and_then(toml::Value::as_str) == Some(hash)
                    && is_enabled(kept) != Some(false)
            })
        })
    };
    let settings = json(hooks);
    let lists = settings.get("hooks").and_then(Value::as_object).into_iter().flatten();
    let mut untrusted = Vec::new();
    for (event, groups) in lists {
        let groups = groups.as_array().into_iter().flatten().enumerate();
        let hooks = groups.flat_map(|(group, value)| {
            let hooks = value.get("hooks").and_then(Value::as_array).into_iter().flatten().enumerate();
            hooks.map(move |(hook, value)| (group, hook, value))
        });
        for (group, hook, value) in hooks {
            let Some(command) = value.get("command").and_then(Value::as_str) else { continue };
            if !crate::hooks::is_our_command(command) {
                continue;
            }
            let event_name = snake_case(event);
            let timeout = value.get("timeout").cloned().unwrap_or_default();
            // Keys in alphabetical order.
            let canonical = format!(
                "{{\"event_name\":\"{event_name}\",\"hooks\":[{{\"async\":false,\"command\":{},\"timeout\":{timeout},\
                 \"type\":\"command\"}}]}}",
                Value::from(command)
            );
            let digest = Sha256::digest(canonical.as_bytes());
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            if !is_trusted(&event_name, group, hook, &format!("sha256:{hex}")) {
                untrusted.push(event.clone());
            }
        }
    }
    untrusted
}

fn snake_case(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugin_is_found_in_the_lists_of_each_kind() {
        for (found, expected) in [
            (
                in_enabled_plugins(r#"{"enabledPlugins": {"x@y": true, "subscope@subscope": true}}"#),
                Some(true),
            ),
            (in_enabled_plugins(r#"{"enabledPlugins": {"subscope@mine": false}}"#), Some(false)),
            (in_enabled_plugins(r#"{"enabledPlugins": {"subscope-x@subscope": true}}"#), None),
            (in_enabled_plugins("{"), None),
            (in_plugin_tables("[plugins.\"subscope@subscope\"]\nenabled = true"), Some(true)),
            (in_plugin_tables("[plugins.\"subscope@subscope\"]\nenabled = false"), Some(false)),
            (in_plugin_tables("[plugins.\"other@subscope\"]\nenabled = true"), None),
            (in_plugin_tables("["), None),
            (is_extension(r#"{"name": "subscope", "version": "0.1.0"}"#), Some(true)),
            (is_extension(r#"{"name": "other"}"#), None),
            (is_extension(""), None),
        ] {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn extension_is_disabled_by_the_last_word_about_the_home_folder() {
        let (_, is_disabled) = EXTENSION_SWITCH;
        for (overrides, expected) in [
            (r#"["/h/*"]"#, false),
            (r#"["!/h/*"]"#, true),
            (r#"["!/h/*", "/h/*"]"#, false),
            (r#"["/h/*", "!/h/shop/*"]"#, false),
            ("[]", false),
        ] {
            let text =
                format!(r#"{{"subscope": {{"overrides": {overrides}}}, "x": {{"overrides": ["!/h/*"]}}}}"#);
            assert_eq!(is_disabled(&text, Path::new("/h")), expected, "{text}");
        }
        assert!(!is_disabled("", Path::new("/h")));
    }

    /// The hash is that of a real program, for this command.
    #[test]
    fn hook_is_trusted_as_long_as_it_is_what_was_trusted() {
        let hooks = r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "command",
            "command": "/tmp/pl/base/subscope hook --harness codex", "timeout": 5}]}],
            "Stop": [{"hooks": [{"type": "command", "command": "other"}]}]}}"#;
        let path = Path::new("/h/hooks.json");
        let state = "[hooks.state.\"/h/hooks.json:pre_tool_use:0:0\"]\n\
                     trusted_hash = \"sha256:7d1833f1f10a4ac4ed2632a0f54a85ce9a9389ff5b904af613ea9c38a9ccb149\"\n";
        let untrusted = |hooks: &str, state: &str| untrusted_by_hash(&[Path::new("/x"), path], hooks, state);
        assert!(untrusted(hooks, state).is_empty());
        for (hooks, state) in [
            (hooks.to_owned(), String::new()),
            (hooks.to_owned(), format!("{state}enabled = false\n")),
            (hooks.replace("/pl/base", "/new"), state.to_owned()),
            (hooks.replace(": 5", ": 6"), state.to_owned()),
        ] {
            assert_eq!(untrusted(&hooks, &state), ["PreToolUse"], "{hooks} {state}");
        }
    }
}
