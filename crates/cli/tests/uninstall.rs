//! `subscope uninstall` with the real program: everything that it wrote goes, and nothing else.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use common::{env, told};
use subscope_testkit::{
    env::{Ran, TestEnv, run},
    fixtures::{self, recording},
};

/// The recording whose session is forgotten.
const FORGOTTEN: &str = "c-nested";

/// Settings of a person, as text that no JSON printer would write so.
const SETTINGS: &str = "{\n\t\"env\": { \"KEY\": \"s3cret\" },\r\n  \"model\":\"opus\"  }\n";

/// The files below a folder with their bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let all = fixtures::files_below(folder).into_iter();
    all.map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

fn run_in(env: &TestEnv, folder: &str, words: &str) -> Ran {
    let folder = env.path(folder);
    fs::create_dir_all(&folder).unwrap();
    let mut command = env.command();
    command.current_dir(folder).args(words.split(' '));
    run(command, b"")
}

/// A home with sessions and settings of a person, and two projects.
fn lived_in() -> TestEnv {
    let env = env();
    env.adopt(&recording("2.1.330", "b-parallel"));
    env.adopt(&recording("2.1.330", FORGOTTEN));
    // The sessions are in one of the projects.
    let shop = env.path("shop").display().to_string();
    for file in fixtures::files_below(&env.path("home/.claude/projects")) {
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("/home/user/shop", &shop)).unwrap();
    }
    for (file, text) in [
        ("home/.claude/settings.json", SETTINGS),
        ("home/.codex/config.toml", "model = \"gpt\"\n"),
        ("home/.bashrc", "alias ll='ls -l'\neval \"$(subscope init bash)\"\n"),
        ("home/.local/share/man/man1/other.1", ".TH other"),
        ("shop/.claude/settings.local.json", "{}"),
    ] {
        let path = env.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    env
}

const WRITES: [(&str, &str); 7] = [
    ("home", "hooks install --claude-version 2.1.330"),
    ("home", "statusline install"),
    ("home", "hooks install --harness codex"),
    ("shop", "hooks install --scope local --claude-version 2.1.330"),
    ("till", "hooks install --scope project --claude-version 2.1.330"),
    ("home", "man --dir .local/share/man/man1"),
    ("home", "config set ui.theme dark"),
];

#[test]
fn everything_that_it_wrote_goes_and_nothing_else() {
    // The order decides which change of the settings is the later one.
    for is_line_first in [false, true] {
        let env = lived_in();
        let mut writes = WRITES.to_vec();
        if is_line_first {
            writes.swap(0, 1);
        }
        let before = files(env.path("").as_path());
        for (folder, words) in writes {
            assert_eq!(run_in(&env, folder, words).code, Some(0), "{words}");
        }
        assert_eq!(run_in(&env, "home", "index").code, Some(0));
        assert_eq!(run_in(&env, "shop", "run --iterations 2 -- true").code, Some(0));
        // Spans that wait for a receiver, and a note on what was forgotten.
        fs::create_dir_all(env.path("data/subscope/otlp")).unwrap();
        fs::write(env.path("data/subscope/otlp/queue"), "span").unwrap();
        let forgotten = recording("2.1.330", FORGOTTEN).mains().remove(0);
        let forget = format!("forget {}", forgotten.file_stem().unwrap().to_str().unwrap());
        assert_eq!(run_in(&env, "home", &forget).code, Some(0));
        assert!(env.path("data/subscope/forgotten.jsonl").exists());
        let written = files(env.path("").as_path());
        assert!(written.len() > before.len() + 40, "{}", written.len());

        let listed = run_in(&env, "home", "uninstall --dry-run");
        assert_eq!(listed.code, Some(0), "{}", listed.stderr);
        for said in [
            ".claude/settings.json: 18 hooks of Claude Code",
            ".claude/settings.json: the status line of Claude Code",
            "shop/.claude/settings.local.json: 18 hooks",
            "till/.claude/settings.json: 18 hooks",
            "hooks of Codex",
            "man1/subscope-tree.1",
            "data/subscope/store.db",
            "ask ",
            "(record of a run)",
            ".bashrc:2: eval",
            "yours program: ",
        ] {
            assert!(listed.stdout.contains(said), "{said}: {}", listed.stdout);
        }
        assert!(!listed.stdout.contains("other.1"), "{}", listed.stdout);
        let mut after = files(env.path("").as_path());
        // SQLite's own, of a reader.
        after.retain(|path, _| !["store.db-shm", "store.db-wal"].iter().any(|name| path.ends_with(name)));
        assert_eq!(after, written, "nothing was changed");

        // Nobody can answer: the data stays.
        let ran = run_in(&env, "home", "uninstall");
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        assert!(ran.stderr.contains("`subscope uninstall --data` deletes them"), "{}", ran.stderr);
        let after = files(env.path("").as_path());
        let kept: Vec<&PathBuf> = after.keys().filter(|path| !before.contains_key(*path)).collect();
        let is_data = |path: &&PathBuf| {
            let folders = ["data/subscope/", "config/subscope/", "shop/.subscope/iterations/"];
            folders.iter().any(|part| path.to_str().unwrap().contains(part))
        };
        assert!(kept.iter().any(|path| path.ends_with("meta.json")) && kept.iter().all(is_data), "{kept:?}");

        assert_eq!(run_in(&env, "home", "uninstall --data").code, Some(0));
        assert_eq!(files(env.path("").as_path()), before, "as before the first command");
        assert!(!env.path("shop/.subscope").exists(), "no empty folder stays");
        let again = run_in(&env, "home", "uninstall --data");
        assert_eq!(again.code, Some(0), "{}", again.stderr);
        assert!(!again.stdout.contains("restore") && !again.stdout.contains("delete"), "{}", again.stdout);
    }
}

#[test]
fn what_others_wrote_since_stays() {
    let env = lived_in();
    for (folder, words) in &WRITES[..2] {
        assert_eq!(run_in(&env, folder, words).code, Some(0), "{words}");
    }
    let path = env.path("home/.claude/settings.json");
    let text = fs::read_to_string(&path).unwrap().replacen('{', "{\n  \"theirs\": 1,", 1);
    fs::write(&path, text).unwrap();
    // A folder that a person named for the data has other files, too.
    let data = env.path("stuff");
    fs::create_dir_all(data.join("notes")).unwrap();
    fs::write(data.join("notes/a.txt"), "mine").unwrap();
    let store = data.to_str().unwrap().to_owned();
    assert_eq!(told(&env.run(&["index", "--store", &store])).0, 0);
    assert!(data.join("store.db").exists());
    let ran = env.run(&["uninstall", "--data", "--store", &store]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let settings: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(settings["theirs"], 1);
    assert_eq!(
        (&settings["hooks"], &settings["statusLine"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert_eq!(files(&data).into_keys().collect::<Vec<_>>(), [data.join("notes/a.txt")]);
}

#[test]
fn copies_of_settings_stay_until_all_settings_are_restored() {
    let env = lived_in();
    assert_eq!(run_in(&env, "home", WRITES[0].1).code, Some(0));
    let path = env.path("home/.claude/settings.json");
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).unwrap();
    let ran = run_in(&env, "home", "uninstall");
    assert_eq!(ran.code, Some(1), "{}", ran.stdout);
    assert!(ran.stderr.contains("read-only"), "{}", ran.stderr);
    let copies = || files(&env.path("state/subscope/hooks")).len();
    assert_eq!(copies(), 1);
    // Settings that cannot be understood may have hooks: that is no reason to forget how they were.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "{ \"hooks\": [").unwrap();
    let listed = run_in(&env, "home", "uninstall --dry-run").stdout;
    assert!(listed.contains(".claude/settings.json: it may have hooks"), "{listed}");
    assert_eq!((run_in(&env, "home", "uninstall --data").code, copies()), (Some(3), 1), "as `hooks remove`");
}

#[test]
fn a_store_that_cannot_be_read_keeps_nothing_from_being_undone() {
    let env = lived_in();
    let before = files(env.path("").as_path());
    assert_eq!(run_in(&env, "home", "hooks install --claude-version 2.1.330").code, Some(0));
    assert_eq!(run_in(&env, "home", "index").code, Some(0));
    fs::write(env.path("data/subscope/store.db"), "no database").unwrap();
    let ran = run_in(&env, "home", "uninstall --data");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("records of runs are not listed"), "{}", ran.stderr);
    assert_eq!(files(env.path("").as_path()), before);
}
