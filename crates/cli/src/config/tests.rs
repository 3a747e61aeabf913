//! The layers of settings, as files, variables and flags make them.

use std::{fs, path::Path, time::Duration};

use subscope_render::Detail;
use subscope_tui::Palette;
use tempfile::TempDir;

use super::*;
use subscope_program::ErrorKind;

/// A home with a user's file, and a project below it with its own.
fn folders(user: Option<&str>, project: Option<&str>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: Option<&str>| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if let Some(text) = text {
            fs::write(path, text).unwrap();
        }
    };
    write(".config/subscope/config.toml", user);
    write("project/.subscope/config.toml", project);
    fs::create_dir_all(folder.path().join("project/deep/down")).unwrap();
    folder
}

fn load_in(folder: &Path, variables: &[(&str, &str)]) -> LoadedConfig {
    let home = folder.to_str().unwrap().to_owned();
    let all: Vec<(&str, &str)> = variables.iter().copied().chain([("HOME", home.as_str())]).collect();
    let environment = Environment::of(&folder.join("project/deep/down"), &all);
    load(ConfigPaths::find(None, &environment), &environment)
}

fn messages(loaded: &LoadedConfig, folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    loaded.errors.iter().map(|error| error.to_string().replace(folder, "")).collect()
}

#[test]
fn accept_each_level_of_detail() {
    for detail in Detail::ALL {
        let text = format!("subagent_tracing_detail = \"{}\"", detail.as_str());
        let folder = folders(Some(&text), None);
        let loaded = load_in(folder.path(), &[]);
        assert_eq!((loaded.settings.subagent_tracing_detail, loaded.errors.len()), (detail, 0));
    }
}

#[test]
fn accept_each_palette_that_the_ui_saves() {
    for palette in Palette::ALL {
        let folder = folders(Some(&format!("[ui]\ntheme = '{}'", palette.as_str())), None);
        assert_eq!(load_in(folder.path(), &[]).settings.ui.theme.palette(), Some(palette));
    }
}

#[test]
fn refuse_other_levels_of_detail_with_file_line_and_the_allowed_words() {
    for (value, told) in [
        ("\"invalid\"", "\"invalid\" is not a level of detail"),
        ("\"\"", "\"\" is not a level of detail"),
        ("123", "must be text in quotes, not a number"),
        ("\"Full\"", "\"Full\" is not a level of detail"),
    ] {
        let folder = folders(Some(&format!("# comment\nsubagent_tracing_detail = {value}\n")), None);
        let loaded = load_in(folder.path(), &[]);
        let expected = format!(
            "/.config/subscope/config.toml:2: subagent_tracing_detail: {told}: allowed are off, minimal, moderate, full"
        );
        assert_eq!(messages(&loaded, folder.path()), [expected]);
        assert_eq!(loaded.errors.first().map(CliError::kind), Some(ErrorKind::Usage));
    }
}

#[test]
fn project_wins_over_user() {
    let folder = folders(
        Some("subagent_tracing_detail = 'off'\nascii = true"),
        Some("subagent_tracing_detail = 'full'"),
    );
    let config = load_in(folder.path(), &[]);
    assert_eq!(config.settings.subagent_tracing_detail, Detail::Full);
    assert_eq!(config.origin("subagent_tracing_detail").layer.as_str(), "project");
    assert_eq!((config.settings.ascii, config.origin("ascii").layer.as_str()), (AsciiChoice::Always, "user"));
}

#[test]
fn flag_wins_over_variable_wins_over_files() {
    let folder = folders(None, Some("subagent_tracing_detail = 'off'\n[watch]\nstall = '1m'"));
    let variables = [("SUBSCOPE_SUBAGENT_TRACING_DETAIL", "minimal"), ("SUBSCOPE_WATCH_STALL", "2m")];
    let mut config = load_in(folder.path(), &variables);
    let detail = "subagent_tracing_detail";
    assert_eq!(config.settings.subagent_tracing_detail, Detail::Minimal);
    config
        .set_option("--detail", Some(Detail::Full), detail, |settings| &mut settings.subagent_tracing_detail);
    assert_eq!(config.settings.subagent_tracing_detail, Detail::Full);
    assert_eq!(config.origin(detail), SettingOrigin::new(Layer::Flag, "--detail"));
    assert_eq!(config.settings.watch.stall, Duration::from_secs(120));
    assert_eq!(config.origin("watch.stall").to_string(), "environment (SUBSCOPE_WATCH_STALL)");
}

#[test]
fn every_setting_is_read_from_a_file_and_from_a_variable() {
    let text = "subagent_tracing_detail = 'full'\ncode_tools = ['a', 'b']\ncolor = 'never'\nascii = false\n\
                prices = 'p.toml'\ntime_zone = 'Asia/Kolkata'\n\
                remote = [{ ssh = 'gpu1' }, { name = 'web', command = ['docker', 'exec'], content = 'figures' }]\n[watch]\nverbose = true\nheartbeat = '5s'\nstall = '1m'\nstall_subagents = '1h'\n\
                stall_open = '2h'\nlimits = ['claude-code stall=5m', 'claude-opus stall_open=1h']\n\
                [store]\narchive = true\nkeep_days = 30\n\
                [hub]\nlisten = '[::1]:7338'\nidle = '5m'\npublic_url = 'https://a/'\nallowed_hosts = ['b:1', 'c']\n\
                frame_ancestors = ['d:']\n\
                [budget]\nday = 20\nsession = 2.5\n\
                [ui]\ntheme = 'light'\ntree = 'hidden'\nalerts = 'bell'\n\
                [page]\neditor = 'idea://open?file={path}&line={line}'\n\
                [answers]\nenabled = true\n\
                [team]\nurl = 'https://a'\ntoken_file = 't'\ncontent = 'titles'\nname = 'n'\nexclude = ['~/x']\n\
                project_from = 'folder'\nforward = false\n";
    let folder = folders(Some(text), None);
    let config = load_in(folder.path(), &[]);
    let variables: Vec<(String, String)> = config
        .rows()
        .iter()
        .map(|row| {
            assert_eq!(row.origin.layer.as_str(), "user", "{}", row.key);
            let words = row.value.as_array().into_iter().flatten().filter_map(Value::as_str);
            let text = match (row.value.as_str(), words.collect::<Vec<_>>().join(", ")) {
                (Some(text), _) => text.to_owned(),
                (None, _) if row.key == "remote" => toml_value(&row.value).unwrap().to_string(),
                (None, words) if row.value.is_array() => words,
                (None, _) => row.value.to_string(),
            };
            (variable(&row.key), text)
        })
        .collect();
    let variables: Vec<(&str, &str)> =
        variables.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let again = load_in(folder.path(), &variables);
    assert_eq!(again.errors.len(), 0);
    assert_eq!(again.settings, config.settings);
    assert!(again.rows().iter().all(|row| row.origin.layer.as_str() == "environment"));
    assert_eq!(config.rows().len(), 34);
    assert_eq!(config.settings.prices, Some(folder.path().join(".config/subscope/p.toml")));
}

#[test]
fn unknown_names_are_warned_of_and_the_rest_holds() {
    let folder =
        folders(Some("kolor = 'never'\n[watch]\nverbose = true\nstal = '1m'\n[other]\nx = 1\n"), None);
    let loaded = load_in(folder.path(), &[]);
    let warnings: Vec<String> =
        loaded.warnings.iter().map(|warning| warning.replace(folder.path().to_str().unwrap(), "")).collect();
    assert_eq!(
        warnings,
        [
            "/.config/subscope/config.toml:1: there is no setting \"kolor\"; it is ignored; did you mean color?",
            "/.config/subscope/config.toml:4: there is no setting \"watch.stal\"; it is ignored; did you mean watch.stall?",
            "/.config/subscope/config.toml:5: there is no setting \"other\"; it is ignored",
        ]
    );
    assert!(loaded.errors.is_empty() && loaded.settings.watch.verbose);
}

#[test]
fn wrong_values_name_their_line_and_leave_the_lower_layer() {
    let project = "color = 'blue'\nascii = 'yes'\ncode_tools = [1]\n[watch]\nheartbeat = '2m'\nstall = 180\n\
                   stall_open = '1ms'\nlimits = ['x']\n[ui]\ntheme = 1979-05-27\ntree = 'up'\nalerts = ['bell']\n";
    let user = "color = 'always'\ntime_zone = 'Mars/Olympus'\n[store]\nkeep_days = 0\narchive = 1\n[hub]\nlisten = 'x'\nidle = '400d'\n";
    let folder = folders(Some(user), Some(project));
    let loaded = load_in(
        folder.path(),
        &[("SUBSCOPE_ASCII", "maybe"), ("SUBSCOPE_STORE_KEEP_DAYS", "many"), ("SUBSCOPE_UI_THEME", "pink")],
    );
    assert_eq!(
        messages(&loaded, folder.path()),
        [
            "/.config/subscope/config.toml:2: time_zone: \"Mars/Olympus\" is no time zone: write Europe/Berlin or UTC",
            "/.config/subscope/config.toml:4: store.keep_days: 0 days would keep nothing; leave the option out to keep everything",
            "/.config/subscope/config.toml:5: store.archive: must be true or false, not a number",
            "/.config/subscope/config.toml:7: hub.listen: \"x\" is not an address: write 127.0.0.1:7337 or [::1]:7337",
            "/.config/subscope/config.toml:8: hub.idle: \"400d\" is longer than 366d",
            "/project/.subscope/config.toml:1: color: \"blue\" is none of auto, always, never",
            "/project/.subscope/config.toml:2: ascii: must be true or false, not text",
            "/project/.subscope/config.toml:3: code_tools: must be a list of texts, such as [\"run_code\"]",
            "/project/.subscope/config.toml:5: watch.heartbeat: 2m is not between 1s and 60s",
            "/project/.subscope/config.toml:6: watch.stall: must be a span of time in quotes, such as \"10s\"",
            "/project/.subscope/config.toml:7: watch.stall_open: 1ms is less than 1s",
            "/project/.subscope/config.toml:8: watch.limits: \"x\" is not a limit: write it as \"claude-opus stall=5m stall_subagents=20m stall_open=1h\"",
            "/project/.subscope/config.toml:10: ui.theme: must be text in quotes, not a date",
            "/project/.subscope/config.toml:11: ui.tree: \"up\" is none of auto, shown, hidden",
            "/project/.subscope/config.toml:12: ui.alerts: must be text in quotes, not a list",
            "SUBSCOPE_ASCII: must be true or false, not \"maybe\"",
            "SUBSCOPE_STORE_KEEP_DAYS: \"many\" is not a number of days",
            "SUBSCOPE_UI_THEME: \"pink\" is none of dark, light, contrast, 16, auto",
        ]
    );
    assert_eq!(loaded.settings.color, clap::ColorChoice::Always);
}

#[test]
fn editor_is_a_url_that_a_browser_does_not_run() {
    for (url, is_right) in [
        ("vscode://file/{path}:{line}", true),
        ("idea://open?file={path}&line={line}", true),
        ("http://127.0.0.1:63342/api/file{path}", true),
        ("", true),
        ("javascript:alert('{path}')", false),
        ("JavaScript:{path}", false),
        ("data:text/html,{path}", false),
        ("{path}", false),
        ("/{path}", false),
        ("vscode://file/", false),
        ("vs code://{path}", false),
        ("vscode://file/{path} \u{7}", false),
    ] {
        let folder = folders(Some(&format!("[page]\neditor = {}", Value::from(url))), None);
        let loaded = load_in(folder.path(), &[]);
        assert_eq!(loaded.errors.is_empty(), is_right, "{url}: {:?}", loaded.errors);
        let expected = if is_right { url } else { "vscode://file/{path}:{line}" };
        assert_eq!(loaded.settings.page.editor, expected);
    }
}

#[test]
fn what_is_no_toml_is_an_error_with_its_line() {
    let folder = folders(Some("ascii = true\ncolor = \n"), None);
    let loaded = load_in(folder.path(), &[]);
    let messages = messages(&loaded, folder.path());
    assert_eq!(messages.len(), 1);
    assert!(messages[0].starts_with("/.config/subscope/config.toml:2: "), "{messages:?}");
    fs::write(folder.path().join(".config/subscope/config.toml"), b"color = '\xff'").unwrap();
    assert_eq!(load_in(folder.path(), &[]).errors[0].kind(), ErrorKind::Usage);
}

#[test]
fn a_chosen_file_has_to_be_there_and_replaces_the_users() {
    let folder = folders(Some("ascii = true"), None);
    let other = folder.path().join("other.toml");
    let variables = [("SUBSCOPE_CONFIG", other.to_str().unwrap())];
    let loaded = load_in(folder.path(), &variables);
    assert_eq!(messages(&loaded, folder.path()), ["the settings file /other.toml does not exist"]);
    fs::write(&other, "color = 'never'").unwrap();
    let loaded = load_in(folder.path(), &variables);
    assert_eq!(loaded.errors.len(), 0);
    assert_eq!(loaded.settings.ascii, AsciiChoice::Auto);
    assert_eq!(loaded.settings.color, clap::ColorChoice::Never);
}

#[test]
fn xdg_folder_counts_unless_it_is_relative() {
    let find = |xdg: &str| {
        let environment = Environment::of(Path::new("/nowhere"), &[("HOME", "/h"), ("XDG_CONFIG_HOME", xdg)]);
        ConfigPaths::find(None, &environment).all.iter().map(|place| place.path.clone()).collect::<Vec<_>>()
    };
    assert_eq!(find("/x"), [Path::new("/x/subscope/config.toml")]);
    assert_eq!(find("x"), [Path::new("/h/.config/subscope/config.toml")]);
}

#[test]
fn committed_schema_is_what_the_settings_say() {
    let committed = fs::read_to_string("../../docs/config.schema.json").unwrap();
    assert!(
        committed == schema(),
        "docs/config.schema.json is not what the settings say: `cargo xtask types`"
    );
}

#[test]
fn the_sample_file_is_valid() {
    let folder = folders(Some(include_str!("../../data/config.toml")), None);
    let loaded = load_in(folder.path(), &[]);
    assert_eq!((messages(&loaded, folder.path()), loaded.warnings.len()), (Vec::new(), 0));
    assert!(loaded.rows().iter().all(|row| row.origin.layer.as_str() == "user"));
}

/// Settings of files with these texts: of the organization, the user and the project.
fn layered(texts: [&str; 3], variables: &[(&str, &str)]) -> LoadedConfig {
    let folder = tempfile::tempdir().unwrap();
    let layers = [Layer::System, Layer::User, Layer::Project];
    let all = layers.into_iter().zip(texts).map(|(layer, text)| {
        let path = folder.path().join(format!("{}.toml", layer.as_str()));
        std::fs::write(&path, text).unwrap();
        super::paths::ConfigPath { layer, path, chosen_by: None }
    });
    load(ConfigPaths { all: all.collect() }, &Environment::of(Path::new("/"), variables))
}

#[test]
fn locked_keys_stay_but_a_user_may_send_less() {
    use subscope_model::ContentLevel;
    let system = "locked = [\"team.url\", \"team.content\", \"team.exclude\"]\n[team]\nurl = \"https://a\"\ncontent = \"titles\"\nexclude = [\"/x\"]\n";
    let more = "[team]\nurl = \"https://b\"\ncontent = \"text\"\nexclude = [\"/y\"]\nname = \"mine\"\n";
    let config = layered([system, more, ""], &[("SUBSCOPE_TEAM_CONTENT", "text")]);
    let team = &config.settings.team;
    assert_eq!((team.url.as_deref(), team.content), (Some("https://a"), ContentLevel::Titles));
    assert_eq!((team.exclude.len(), team.name.as_deref()), (2, Some("mine")));
    assert_eq!(config.warnings.len(), 3, "{:?}", config.warnings);
    assert!(config.locks("team.url") && config.errors.is_empty());
    let less = layered([system, "[team]\ncontent = \"figures\"\n", ""], &[]);
    assert_eq!(less.settings.team.content, ContentLevel::Figures);
    let open = layered(["[team]\nurl = \"https://a\"\n", "[team]\nurl = \"https://b\"\n", ""], &[]);
    assert_eq!(open.settings.team.url.as_deref(), Some("https://b"), "not locked");
    let wrong = layered(["locked = \"team.url\"\n", "", ""], &[]);
    assert_eq!(wrong.errors.len(), 1);
}

/// TOML of a value of each setting that differs from its default, with what a project may do with it.
const EVERY_SETTING: [(&str, &str, bool); 34] = [
    ("subagent_tracing_detail", "'full'", true),
    ("code_tools", "['a']", true),
    ("color", "'never'", true),
    ("ascii", "true", true),
    ("prices", "'/dev/stdin'", false),
    ("time_zone", "'Asia/Kolkata'", false),
    ("remote", "[{ ssh = 'evil' }]", false),
    ("watch.verbose", "true", true),
    ("watch.heartbeat", "'5s'", true),
    ("watch.stall", "'1m'", true),
    ("watch.stall_subagents", "'1h'", true),
    ("watch.stall_open", "'2h'", true),
    ("watch.limits", "['claude-code stall=5m']", true),
    ("store.archive", "true", false),
    ("store.keep_days", "1", false),
    ("hub.listen", "'0.0.0.0:1'", false),
    ("hub.idle", "'1s'", false),
    ("hub.public_url", "'https://evil/'", false),
    ("hub.allowed_hosts", "['evil']", false),
    ("hub.frame_ancestors", "['https://evil']", false),
    ("budget.day", "1", false),
    ("budget.session", "1", false),
    ("ui.theme", "'light'", true),
    ("ui.tree", "'hidden'", true),
    ("ui.alerts", "'bell'", true),
    ("page.editor", "'evil:{path}'", false),
    ("answers.enabled", "true", false),
    ("team.url", "'https://evil'", false),
    ("team.token_file", "'t'", false),
    ("team.content", "'text'", false),
    ("team.name", "'n'", false),
    ("team.exclude", "['/']", false),
    ("team.project_from", "'cwd'", false),
    ("team.forward", "false", true),
];

/// Returns the line of a settings file that sets a key.
fn line_of(key: &str, value: &str) -> String {
    match key.split_once('.') {
        Some((section, name)) => format!("[{section}]\n{name} = {value}\n"),
        None => format!("{key} = {value}\n"),
    }
}

#[test]
fn a_project_sets_display_and_limits_and_nothing_else() {
    let keys: Vec<String> = flatten(&Settings::default()).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, EVERY_SETTING.map(|(key, ..)| key), "a new setting has to decide");
    for (key, value, is_allowed) in EVERY_SETTING {
        let text = line_of(key, value);
        let config = layered(["", "", &text], &[]);
        let row = |config: &LoadedConfig| config.rows().into_iter().find(|row| row.key == key).unwrap();
        let is_set = row(&config).origin.layer == Layer::Project;
        assert_eq!(is_set, is_allowed, "{key}");
        assert_eq!(config.settings != Settings::default(), is_allowed, "{key}");
        let named = |warning: &String| warning.contains("project.toml:") && warning.contains(key);
        assert_eq!(config.warnings.iter().filter(|warning| named(warning)).count(), usize::from(!is_allowed));
        assert_eq!((config.warnings.len(), config.errors.len()), (usize::from(!is_allowed), 0), "{key}");
        // What is not allowed is not even read: a wrong value of it stops no command.
        let config = layered(["", &text, &line_of(key, "{ x = 1 }")], &[]);
        assert_eq!(row(&config).origin.layer, Layer::User, "{key}");
        assert_eq!(config.errors.len(), usize::from(is_allowed && key != "team.forward"), "{key}");
    }
    let config = layered(["", "[team]\nforward = false\n", "[team]\nforward = true\n"], &[]);
    assert!(!config.settings.team.forward && config.warnings.len() == 1, "a project sends nothing");
}

proptest::proptest! {
    #[test]
    fn no_project_changes_what_is_the_users(
        lines in proptest::collection::vec((0..EVERY_SETTING.len(), "[a-z0-9'\"\\[\\]{}=. ]{0,12}", proptest::bool::ANY), 0..12),
    ) {
        let user: String = "prices = '/p'\n[store]\nkeep_days = 365\n[team]\nname = 'mine'\n".to_owned();
        let project: String = lines
            .iter()
            .map(|(at, other, is_own)| {
                let (key, value, _) = EVERY_SETTING[*at];
                // Dotted keys may repeat a section in any order.
                format!("{key} = {}\n", if *is_own { value } else { other })
            })
            .collect();
        let before = layered(["", &user, ""], &[]);
        let after = layered(["", &user, &project], &[]);
        for (one, other) in before.rows().into_iter().zip(after.rows()) {
            let is_allowed = EVERY_SETTING.iter().any(|(key, _, is_allowed)| *key == one.key && *is_allowed);
            let is_same = (&one.value, one.origin.layer) == (&other.value, other.origin.layer);
            proptest::prop_assert!(is_allowed || is_same, "{}: {:?} {:?}", one.key, one.value, other.value);
        }
    }
}

#[test]
fn only_regular_files_of_a_bounded_size_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let large = folder.path().join("large");
    fs::write(&large, vec![b'#'; LIMIT_BYTES as usize + 1]).unwrap();
    for path in [&pipe, &large, folder.path(), Path::new("/dev/zero"), Path::new("/dev/tty")] {
        let error = read_text(path, LIMIT_BYTES, ErrorKind::Usage).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{}", path.display());
        let settings = ConfigPaths {
            all: vec![super::paths::ConfigPath {
                layer: Layer::User,
                path: path.to_owned(),
                chosen_by: None,
            }],
        };
        assert_eq!(load(settings, &Environment::of(Path::new("/"), &[])).errors.len(), 1);
    }
}
