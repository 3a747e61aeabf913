//! Runs the program for Windows under Wine: it must print what the program of this system prints, but for paths.

use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::TARGET;
use crate::{
    compare::recordings,
    step::{announce, cargo, program, run, skip, succeeds, target_folder},
};

/// Variable that names the command of Wine.
const COMMAND: &str = "WINE";

/// Disk of Wine that is the root folder of this system.
const ROOT_DISK: &str = "Z:";

/// Most differing commands that are named.
const MAX_NAMED: usize = 20;

/// More than the hits of the searched word.
const MAX_HITS: &str = "300";

/// Fields that differ from run to run: when, and in which order, something was stored.
const STORE_FIELDS: [&str; 3] = ["kept_at_ms", "rev", "seq"];

/// Compares `tree` of each recording, and `ls`, `stats` and `search` of all of them indexed. Skipped where there is no Wine, whose
/// home must have no sessions.
pub(super) fn compare() -> Result<()> {
    let Some(wine) = command() else {
        skip("wine", &format!("neither wine nor wine64 is there, nor a command that {COMMAND} names"));
        return Ok(());
    };
    run(
        "build for Windows",
        cargo().args(["build", "--locked", "--target", TARGET, "--package", "subscope"]),
    )?;
    run("build for this system", cargo().args(["build", "--locked", "--package", "subscope"]))?;
    announce("wine");
    let folder = target_folder()?;
    let scratch = Scratch::new()?;
    let own =
        ComparedProgram { words: vec![folder.join("debug/subscope").into()], store: scratch.0.join("own") };
    let exe = folder.join(TARGET).join("debug/subscope.exe");
    let foreign = ComparedProgram { words: vec![wine, exe.into()], store: scratch.0.join("wine") };
    let mut differing = Vec::new();
    let (mut trees, mut refused) = (0, 0);
    for recording in recordings()? {
        let recording = recording.display().to_string();
        let words = ["tree", "--json", &recording];
        let (here, there) = (own.print(&words)?, foreign.print(&words)?);
        trees += u32::from(here.value.is_some());
        refused += u32::from(here.value.is_none());
        differing.extend((here != there).then(|| words.join(" ")));
    }
    let index = ["index", "fixtures"];
    if own.print(&index)?.code != foreign.print(&index)?.code {
        differing.push(index.join(" "));
    }
    for words in [
        &["ls", "--json", "-n", "1000"][..],
        &["stats", "--json"],
        &["search", "--json", "-n", MAX_HITS, "error"],
    ] {
        let (here, there) = (own.print(words)?, foreign.print(words)?);
        differing.extend((here != there).then(|| words.join(" ")));
    }
    println!(
        "wine: {trees} recordings as trees and {refused} that are refused, their list, statistics and search: {} differ",
        differing.len()
    );
    for words in differing.iter().take(MAX_NAMED) {
        println!("  subscope {words}");
    }
    if differing.is_empty() { Ok(()) } else { bail!("Windows differs in {} outputs", differing.len()) }
}

/// Returns the command of Wine, if there is one.
fn command() -> Option<OsString> {
    let named = env::var_os(COMMAND).filter(|named| !named.is_empty());
    named.or_else(|| {
        let known = ["wine", "wine64"].into_iter();
        known.map(OsString::from).find(|name| succeeds(program(name).arg("--version")))
    })
}

/// A program with a data folder of its own.
struct ComparedProgram {
    words: Vec<OsString>,
    store: PathBuf,
}

/// What a command printed.
struct Printed {
    code: Option<i32>,
    /// The JSON; `None` if it printed none.
    value: Option<Value>,
}

impl PartialEq for Printed {
    fn eq(&self, other: &Self) -> bool {
        let is_equal = match (&self.value, &other.value) {
            (Some(one), Some(other)) => equals(one, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        self.code == other.code && is_equal
    }
}

impl ComparedProgram {
    fn print(&self, words: &[&str]) -> Result<Printed> {
        let [name, rest @ ..] = self.words.as_slice() else { bail!("no program") };
        let output = program(name)
            .args(rest)
            .arg("--store")
            .arg(&self.store)
            .args(words)
            .env("SUBSCOPE_NO_AUTOSTART", "1")
            .env("WINEDEBUG", "-all")
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", Path::new(name).display()))?;
        let mut value = serde_json::from_slice(&output.stdout).ok();
        value.iter_mut().for_each(remove_store_fields);
        value.iter_mut().for_each(sort_hits);
        Ok(Printed { code: output.status.code(), value })
    }
}

/// Sorts hits by their places: those of one moment are in the order in which threads read them.
fn sort_hits(value: &mut Value) {
    let place = |hit: &Value| (as_here(hit["path"].as_str().unwrap_or_default()), hit["offset"].as_u64());
    if let Some(hits) = value.get_mut("hits").and_then(Value::as_array_mut) {
        hits.sort_by_key(place);
    }
}

fn remove_store_fields(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !STORE_FIELDS.contains(&name.as_str()));
            fields.values_mut().for_each(remove_store_fields);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_store_fields),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether two values are equal but for the form of paths.
fn equals(here: &Value, there: &Value) -> bool {
    match (here, there) {
        (Value::String(here), Value::String(there)) => here == there || *here == as_here(there),
        (Value::Array(here), Value::Array(there)) => {
            here.len() == there.len() && here.iter().zip(there).all(|(here, there)| equals(here, there))
        }
        (Value::Object(here), Value::Object(there)) => {
            let of_both = here.iter().zip(there);
            here.len() == there.len()
                && of_both
                    .into_iter()
                    .all(|((name, here), (other, there))| name == other && equals(here, there))
        }
        (here, there) => here == there,
    }
}

/// Returns a path of Windows as one of this system.
fn as_here(path: &str) -> String {
    let path = path.strip_prefix(r"\\?\").unwrap_or(path);
    path.strip_prefix(ROOT_DISK).unwrap_or(path).replace('\\', "/")
}

/// An empty folder, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let folder = env::temp_dir().join(format!("subscope-wine-{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_both_systems_are_equal_and_nothing_else_is() {
        let here = json!({ "path": "/home/x.jsonl", "n": [1, "a"] });
        for there in [r"Z:\home\x.jsonl", r"\\?\Z:\home\x.jsonl", "/home/x.jsonl"] {
            assert!(equals(&here, &json!({ "path": there, "n": [1, "a"] })), "{there}");
        }
        for there in [
            json!({ "path": r"C:\home\x.jsonl", "n": [1, "a"] }),
            json!({ "path": "/home/x.jsonl", "n": [1] }),
            json!({}),
        ] {
            assert!(!equals(&here, &there), "{there}");
        }
    }
}
