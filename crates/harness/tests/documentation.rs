//! `docs/harnesses.md` says what the registry says.

#![allow(clippy::unwrap_used)]

use std::{
    cell::RefCell,
    ffi::OsString,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use subscope_decode::{AskMoment, Dialect};
use subscope_harness::{Harness, RunPlan, SettingsScope, harnesses};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/harnesses.md");
const WRITES_PAGE: &str = "SUBSCOPE_WRITE_HARNESSES";
const HOME: &str = "/~";

/// Something that a harness answers with environment variables, and the names of those that it asks for.
fn asked<T>(ask: impl Fn(&dyn Fn(&str) -> Option<OsString>) -> T) -> (T, Vec<String>) {
    let names = RefCell::new(Vec::new());
    let answer = ask(&|name: &str| {
        if name == "HOME" {
            return Some(HOME.into());
        }
        names.borrow_mut().push(name.to_owned());
        None
    });
    (answer, names.into_inner())
}

fn shown(path: &Path) -> String {
    format!("`{}`", path.display().to_string().replacen(HOME, "~", 1))
}

fn list(words: impl IntoIterator<Item = String>) -> String {
    let words: Vec<String> = words.into_iter().collect();
    if words.is_empty() { "—".to_owned() } else { words.join(", ") }
}

fn code(word: &str) -> String {
    format!("`{word}`")
}

fn hooks_of(harness: &dyn Harness) -> String {
    let Some(hooks) = harness.hooks() else { return "—".to_owned() };
    let scopes = [SettingsScope::User, SettingsScope::Project, SettingsScope::Local];
    let files = scopes.into_iter().filter_map(|scope| {
        let (file, _) = asked(|variables| hooks.settings_file(scope, variables, Path::new("/PROJECT")));
        file.as_deref().map(shown)
    });
    format!("{} events in {}", hooks.events(Some([u32::MAX; 3])).len(), list(files))
}

fn is_answered(dialect: &&Dialect) -> bool {
    dialect.stop_answer(AskMoment::BeforeCall, None).is_some()
}

fn section(harness: &dyn Harness, out: &mut String) {
    let mut row = |what: &str, says: String| writeln!(out, "| {what} | {says} |").unwrap();
    row("name, for `--harness` and in JSON", code(harness.name()));
    let (home, mut variables) = asked(|variables| harness.home(variables).folder);
    let (roots, more): (Vec<PathBuf>, _) = asked(|variables| harness.roots(variables));
    variables.extend(more);
    variables.sort();
    variables.dedup();
    row("its folder", shown(&home));
    row("variables that move its files", list(variables.iter().map(|name| code(name))));
    row("sessions are followed below", list(roots.iter().map(|root| shown(root))));
    row("read", list(harness.dialects().iter().map(|dialect| code(dialect.as_str()))));
    let program = harness.run().map(RunPlan::program);
    row("`subscope run --` takes", list(program.map(code)));
    let finds = match harness.run().map(|plan| plan.notes().is_some()) {
        Some(true) => "by what its process notes of itself",
        Some(false) => "by the working folder and the time",
        None => "—",
    };
    row("a run finds its session", finds.to_owned());
    row("hooks that `subscope hooks` installs", hooks_of(harness));
    let stops = harness.dialects().iter().filter(is_answered);
    row(
        "one agent is stopped",
        list(stops.map(|dialect| format!("by the answer to `{}`", dialect.as_str()))),
    );
    let gaps = harness.gaps();
    row("left out", if gaps.is_empty() { "—".to_owned() } else { gaps.join("; ") });
}

fn page() -> String {
    let mut out =
        "# Harnesses\n\nWritten by `cargo xtask types` from the registry of harnesses (`crates/harness`).\n"
            .to_owned();
    let mut all: Vec<&dyn Harness> = harnesses().collect();
    all.sort_by_key(|harness| harness.title());
    for harness in all {
        write!(out, "\n## {}\n\n| | |\n|---|---|\n", harness.title()).unwrap();
        section(harness, &mut out);
    }
    out
}

#[test]
fn page_says_what_the_registry_says() {
    let page = page();
    if std::env::var_os(WRITES_PAGE).is_some() {
        fs::write(PAGE, &page).unwrap();
    }
    assert_eq!(fs::read_to_string(PAGE).unwrap_or_default(), page, "write it with `cargo xtask types`");
}
