//! `subscope config`: prints the paths of settings files, every setting with its origin, or the JSON Schema.

use std::fmt::Write;

use serde_json::{Value, json};
use subscope_render::{Charset, safe};

use crate::{
    config::{self, ConfigPaths, LoadedConfig, SettingOrigin, SettingRow},
    prelude::*,
};

const SCHEMA: &str = "subscope.config/1";

/// Runs the command. An invalid setting is reported after the effective ones, and makes the command fail.
pub(crate) fn run(args: ConfigArgs, context: &mut Context) -> Result<(), CliError> {
    let charset = context.style(None).charset();
    match args.part {
        ConfigPart::Path if args.json => return output::print_json(&paths_json(&context.config.paths)),
        ConfigPart::Path => return output::print(&paths_text(&context.config.paths, charset)),
        ConfigPart::Schema => return output::print(&config::schema()),
        ConfigPart::Show => {}
    }
    context.config.warnings.iter().for_each(|warning| context.warn(warning));
    if args.json {
        output::print_json(&json!({ "schema": SCHEMA, "settings": context.config.rows() }))?;
    } else {
        output::print(&settings_text(&context.config, charset))?;
    }
    context.config.take_error().map_or(Ok(()), Err)
}

fn paths_text(paths: &ConfigPaths, charset: Charset) -> String {
    let mut out = String::new();
    for file in &paths.all {
        let state = if file.exists() { "there" } else { "not there" };
        let path = safe::line(&file.path.display().to_string(), charset);
        let chosen = file.chosen_by.map(|by| format!(", chosen by {by}")).unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{:<8} {path} ({state}{chosen})", file.layer.as_str());
    }
    if !paths.has_project() {
        out.push_str("project  no .subscope/config.toml in this folder or above it\n");
    }
    out
}

fn paths_json(paths: &ConfigPaths) -> Value {
    let files = paths.all.iter().map(|path| {
        json!({
            "layer": path.layer,
            "path": path.path.to_string_lossy(),
            "exists": path.exists(),
            "chosen_by": path.chosen_by,
        })
    });
    json!({ "schema": SCHEMA, "files": files.collect::<Vec<_>>() })
}

fn settings_text(config: &LoadedConfig, charset: Charset) -> String {
    let line = |row: SettingRow| (safe::line(&format!("{} = {}", row.key, row.value), charset), row.origin);
    let lines: Vec<(String, SettingOrigin)> = config.rows().into_iter().map(line).collect();
    let width = lines.iter().map(|(setting, _)| setting.chars().count()).max().unwrap_or(0);
    let line = |(setting, origin): &(String, SettingOrigin)| {
        format!("{setting:<width$}  # {}\n", safe::line(&origin.to_string(), charset))
    };
    lines.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{config::load, environment::Environment};

    fn loaded(folder: &Path) -> LoadedConfig {
        fs::create_dir_all(folder.join("p/.subscope")).unwrap();
        fs::write(folder.join("p/.subscope/config.toml"), "\ncode_tools = [\"a\\u001b\"]\n").unwrap();
        let home = folder.to_str().unwrap();
        let environment =
            Environment::of(&folder.join("p"), &[("HOME", home), ("SUBSCOPE_WATCH_STALL", "1m")]);
        load(ConfigPaths::find(None, &environment), &environment)
    }

    #[test]
    fn show_names_the_layer_of_each_setting() {
        let folder = tempfile::tempdir().unwrap();
        let text = settings_text(&loaded(folder.path()), Charset::Unicode);
        insta::assert_snapshot!(text.replace(folder.path().to_str().unwrap(), ""), @r#"
        subagent_tracing_detail = "moderate"  # default
        code_tools = ["a\u001b"]              # project (/p/.subscope/config.toml:2)
        color = "auto"                        # default
        ascii = "auto"                        # default
        prices = "bundled"                    # default
        watch.verbose = false                 # default
        watch.heartbeat = "10s"               # default
        watch.stall = "1m"                    # environment (SUBSCOPE_WATCH_STALL)
        watch.stall_subagents = "10m"         # default
        watch.stall_open = "30m"              # default
        watch.limits = []                     # default
        store.archive = false                 # default
        store.keep_days = null                # default
        hub.listen = "127.0.0.1:7337"         # default
        hub.idle = "15m"                      # default
        ui.theme = "auto"                     # default
        ui.tree = "auto"                      # default
        ui.alerts = "line"                    # default
        "#);
    }

    #[test]
    fn path_names_each_place_and_whether_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let config = loaded(folder.path());
        let text = paths_text(&config.paths, Charset::Unicode);
        insta::assert_snapshot!(text.replace(folder.path().to_str().unwrap(), ""), @r"
        user     /.config/subscope/config.toml (not there)
        project  /p/.subscope/config.toml (there)
        ");
        let exists = paths_json(&config.paths)["files"][1]["exists"].clone();
        assert_eq!(exists, true);
    }
}
