//! `subscope config`: prints the paths of settings files, every setting with its origin, or the JSON Schema; creates the
//! user's file, and changes settings in it.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::Serialize;
use subscope_render::{Charset, safe};

use crate::{
    config::{self, ConfigPaths, LoadedConfig, SettingRow},
    prelude::*,
};

const SCHEMA: &str = "subscope.config/1";
/// Output of `--json` (subscope.config/1): of `show` the settings, of `path` the files.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ConfigReport {
    schema: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<Vec<SettingRow>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<Vec<ConfigFile>>,
}

/// A place of a settings file.
#[derive(Serialize, JsonSchema)]
struct ConfigFile {
    layer: config::Layer,
    path: String,
    exists: bool,
    /// The option or variable that names it.
    chosen_by: Option<&'static str>,
}

/// A settings file with all settings and what they mean.
const SAMPLE: &str = include_str!("../../data/config.toml");

/// Runs the command. An invalid setting is reported after the effective ones, and makes the command fail.
pub(crate) fn run(args: &ConfigArgs, context: &mut Context) -> Result<(), CliError> {
    let charset = context.style(None).charset();
    match &args.action {
        Some(ConfigAction::Path) if args.json => {
            return output::print_json(&paths_json(&context.config.paths));
        }
        Some(ConfigAction::Path) => return output::print(&paths_text(&context.config.paths, charset)),
        Some(ConfigAction::Schema) => return output::print(&config::schema()),
        Some(ConfigAction::Init) => {
            let path = config::create(&commented(SAMPLE), &context.config.paths)?;
            return output::print_line(&format!("written: {}", path.display()), context);
        }
        Some(ConfigAction::Set { key, value }) => return set(key, value, context),
        Some(ConfigAction::Show { .. }) | None => {}
    }
    let rows = if let Some(ConfigAction::Show { key: Some(key) }) = &args.action {
        rows_of(key, &context.config)?
    } else {
        context.config.rows()
    };
    context.config.warnings.iter().for_each(|warning| context.warn(warning));
    if args.json {
        output::print_json(&ConfigReport { schema: SCHEMA, settings: Some(rows), files: None })?;
    } else {
        output::print(&settings_text(&rows, charset))?;
    }
    context.config.take_error().map_or(Ok(()), Err)
}

/// Returns the row of a setting, or those of a section.
fn rows_of(key: &str, config: &LoadedConfig) -> Result<Vec<SettingRow>, CliError> {
    let is_in = |row: &SettingRow| {
        row.key == key || row.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'))
    };
    let rows: Vec<SettingRow> = config.rows().into_iter().filter(is_in).collect();
    if rows.is_empty() { Err(config::unknown(key)) } else { Ok(rows) }
}

/// Changes a setting in the user's file, and warns if a stronger layer overrides it.
fn set(key: &str, text: &str, context: &Context) -> Result<(), CliError> {
    let value = config::parse(key, text)?;
    let path = config::save(key, &value, &context.config.paths)?;
    let shown = config::toml_value(&value).map(|value| value.to_string()).unwrap_or_default();
    output::print_line(&format!("{key} = {shown} in {}", path.display()), context)?;
    let origin = context.config.origin(key);
    if origin.layer > config::Layer::User {
        context.warn(&format!("{key} is also set by a stronger layer, which counts: {origin}"));
    }
    Ok(())
}

/// Comments out the settings of a file; its sections stay.
fn commented(text: &str) -> String {
    let line = |line: &str| match line.starts_with(['#', '[']) || line.is_empty() {
        true => format!("{line}\n"),
        false => format!("# {line}\n"),
    };
    text.lines().map(line).collect()
}

fn paths_text(paths: &ConfigPaths, charset: Charset) -> String {
    let mut out = String::new();
    if paths.all.iter().all(|file| file.layer != config::Layer::System) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{:<8} {} (not there)", config::Layer::System.as_str(), config::SYSTEM_FILE);
    }
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

fn paths_json(paths: &ConfigPaths) -> ConfigReport {
    let files = paths.all.iter().map(|path| ConfigFile {
        layer: path.layer,
        path: path.path.to_string_lossy().into_owned(),
        exists: path.exists(),
        chosen_by: path.chosen_by,
    });
    ConfigReport { schema: SCHEMA, settings: None, files: Some(files.collect()) }
}

/// Formats the settings as TOML that can be read again, each with its origin in a comment.
fn settings_text(rows: &[SettingRow], charset: Charset) -> String {
    let (mut lines, mut section) = (Vec::new(), "");
    for row in rows {
        let (own_section, name) = row.key.split_once('.').unwrap_or(("", &row.key));
        if own_section != section {
            section = own_section;
            lines.push((format!("\n[{section}]"), None));
        }
        let is_unset = row.key == config::PRICES && row.origin.layer == config::Layer::Default;
        let setting = match config::toml_value(&row.value).filter(|_| !is_unset) {
            Some(value) => format!("{name} = {value}"),
            None => format!("# {name} is not set"),
        };
        lines.push((safe::line(&setting, charset), Some(&row.origin)));
    }
    let width = lines.iter().map(|(setting, _)| setting.chars().count()).max().unwrap_or(0);
    let line = |(setting, origin): &(String, Option<&config::SettingOrigin>)| match origin {
        Some(origin) => format!("{setting:<width$}  # {}\n", safe::line(&origin.to_string(), charset)),
        None => format!("{setting}\n"),
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
        let text = settings_text(&loaded(folder.path()).rows(), Charset::Unicode);
        insta::assert_snapshot!(text.replace(folder.path().to_str().unwrap(), ""), @r#"
        subagent_tracing_detail = "moderate"    # default
        code_tools = ["a\u001B"]                # project (/p/.subscope/config.toml:2)
        color = "auto"                          # default
        ascii = "auto"                          # default
        # prices is not set                     # default
        # time_zone is not set                  # default
        remote = []                             # default

        [watch]
        verbose = false                         # default
        heartbeat = "10s"                       # default
        stall = "1m"                            # environment (SUBSCOPE_WATCH_STALL)
        stall_subagents = "10m"                 # default
        stall_open = "30m"                      # default
        limits = []                             # default

        [store]
        archive = false                         # default
        # keep_days is not set                  # default

        [hub]
        listen = "127.0.0.1:7337"               # default
        idle = "15m"                            # default
        # public_url is not set                 # default
        allowed_hosts = []                      # default
        frame_ancestors = []                    # default

        [budget]
        # day is not set                        # default
        # session is not set                    # default

        [ui]
        theme = "auto"                          # default
        tree = "auto"                           # default
        alerts = "line"                         # default

        [page]
        editor = "vscode://file/{path}:{line}"  # default

        [answers]
        enabled = false                         # default

        [team]
        # url is not set                        # default
        # token_file is not set                 # default
        content = "figures"                     # default
        # name is not set                       # default
        exclude = []                            # default
        project_from = "git-remote"             # default
        forward = true                          # default
        "#);
        // It is a file of settings.
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("config.toml");
        fs::write(&file, &text).unwrap();
        let environment = Environment::of(home.path(), &[("SUBSCOPE_CONFIG", file.to_str().unwrap())]);
        let again = load(ConfigPaths::find(None, &environment), &environment);
        assert_eq!((again.errors.len(), again.warnings.len()), (0, 0));
        assert_eq!(again.settings, loaded(folder.path()).settings);
    }

    #[test]
    fn one_setting_or_section_is_shown_and_an_unknown_one_is_an_error() {
        let config = LoadedConfig::default();
        let shown = |key: &str| rows_of(key, &config).map(|rows| settings_text(&rows, Charset::Unicode));
        assert_eq!(shown("watch.stall").unwrap(), "\n[watch]\nstall = \"3m\"  # default\n");
        assert_eq!(shown("budget").unwrap().lines().count(), 4);
        let error = shown("watch.stal").unwrap_err().to_string();
        assert_eq!(error, "there is no setting \"watch.stal\"; did you mean watch.stall?");
        assert!(shown("watch.").is_err() && shown("").is_err());
    }

    #[test]
    fn new_file_sets_nothing_and_names_everything() {
        let text = commented(SAMPLE);
        let all: toml::Table = text.parse().unwrap();
        assert!(all.values().all(|section| section.as_table().is_some_and(toml::Table::is_empty)), "{all:?}");
        for row in LoadedConfig::default().rows() {
            let name = row.key.rsplit('.').next().unwrap();
            assert!(text.contains(&format!("\n# {name} = ")), "{name}");
        }
    }

    #[test]
    fn path_names_each_place_and_whether_it_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let config = loaded(folder.path());
        let text = paths_text(&config.paths, Charset::Unicode);
        insta::assert_snapshot!(text.replace(folder.path().to_str().unwrap(), ""), @r"
        system   /etc/subscope/config.toml (not there)
        user     /.config/subscope/config.toml (not there)
        project  /p/.subscope/config.toml (there)
        ");
        let files = paths_json(&config.paths).files.unwrap();
        assert!(files[1].exists);
    }
}
