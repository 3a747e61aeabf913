//! `cargo xtask compare BEFORE AFTER`: two binaries of subscope must print the same bytes for every fixture.
//!
//! Every recording is read as its transcripts, its streams, its hook log and all of them merged, by every form of
//! `tree` and `export`; then all transcripts are indexed into an empty store and asked for by session. A refactoring
//! changes nothing here. A wanted change shows up as a list of commands whose output differs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::step::root;

/// Forms of `export` that print to stdout.
const FORMATS: [&str; 8] = ["trace", "execution", "feed", "html", "csv", "perfetto", "otlp", "atif"];

/// Fields of JSON that say when or in which order something was stored, which differs from run to run.
const STORE_FIELDS: [&str; 3] = ["kept_at_ms", "rev", "seq"];

/// Output of one command.
#[derive(PartialEq, Eq)]
struct Printed {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Runs both binaries over every fixture.
///
/// # Errors
///
/// When any output differs, or a binary cannot be started.
pub(crate) fn run(before: &str, after: &str) -> Result<()> {
    let homes = [Home::new("before")?, Home::new("after")?];
    let binaries = [absolute(before)?, absolute(after)?];
    let mut commands = file_commands()?;
    commands.extend(store_commands()?);
    let mut differing = Vec::new();
    for words in &commands {
        let [one, other] = std::thread::scope(|scope| {
            let both = [0, 1].map(|n| (&binaries[n], &homes[n]));
            let running = both.map(|(binary, home)| scope.spawn(move || home.print(binary, words)));
            running.map(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")))
        });
        if one? != other? {
            differing.push(words.join(" "));
        }
    }
    println!("compare: {} commands, {} differ", commands.len(), differing.len());
    for words in &differing {
        println!("  subscope {words}");
    }
    if differing.is_empty() { Ok(()) } else { bail!("{} outputs differ", differing.len()) }
}

fn absolute(path: &str) -> Result<PathBuf> {
    fs::canonicalize(path).with_context(|| format!("no binary at {path}"))
}

/// An empty home directory for one of the binaries.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("subscope-compare-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(Self(folder))
    }

    fn print(&self, binary: &Path, words: &[String]) -> Result<Printed> {
        let output = Command::new(binary)
            .args(words)
            .current_dir(root())
            .env_clear()
            .env("HOME", &self.0)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("SUBSCOPE_NO_AUTOSTART", "1")
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let is_index = words.first().is_some_and(|word| word == "index");
        Ok(Printed {
            code: output.status.code(),
            stdout: if is_index { Vec::new() } else { without_store_fields(output.stdout) },
            // The summary of an index contains times.
            stderr: if is_index { Vec::new() } else { output.stderr },
        })
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes fields that differ between two runs of the same binary. Text that is not one JSON value is unchanged.
fn without_store_fields(bytes: Vec<u8>) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(&bytes) else { return bytes };
    remove_fields(&mut value);
    value.to_string().into_bytes()
}

fn remove_fields(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !STORE_FIELDS.contains(&name.as_str()));
            fields.values_mut().for_each(remove_fields);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_fields),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns commands over paths: every recording, each of its sources, and all of them merged.
fn file_commands() -> Result<Vec<Vec<String>>> {
    let mut commands = Vec::new();
    for folder in recordings()? {
        for target in targets(&folder)? {
            let mut add = |words: &[&str]| {
                commands.push(words.iter().map(|word| (*word).to_owned()).chain(target.clone()).collect());
            };
            add(&["tree", "--json"]);
            add(&["tree", "--detail", "full"]);
            FORMATS.iter().for_each(|format| add(&["export", "--as", format]));
        }
    }
    Ok(commands)
}

/// Returns commands over an indexed store, in order: the first fills it.
fn store_commands() -> Result<Vec<Vec<String>>> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut commands = vec![words(&["index", "fixtures"])];
    commands.push(words(&["ls", "--json", "-n", "1000"]));
    commands.push(words(&["stats", "--json"]));
    for folder in recordings()? {
        for session in session_ids(&folder)? {
            commands.push(words(&["tree", "--json", &session]));
        }
    }
    Ok(commands)
}

/// Returns the directories below `fixtures` that hold a recording, ordered by path.
pub(crate) fn recordings() -> Result<Vec<PathBuf>> {
    let mut folders = vec![PathBuf::from("fixtures")];
    for _level in ["harness", "version", "recording"] {
        let below = folders.iter().map(|folder| entries(folder)).collect::<Result<Vec<_>>>()?;
        folders = below.into_iter().flatten().filter(|path| root().join(path).is_dir()).collect();
    }
    Ok(folders)
}

/// Returns the sets of paths of a recording; each set is one command's targets.
fn targets(recording: &Path) -> Result<Vec<Vec<String>>> {
    let own: Vec<PathBuf> = entries(recording)?;
    let named = |start: &str| {
        let is_named = |path: &&PathBuf| {
            file_name(path).starts_with(start) && path.extension().is_some_and(|end| end == "jsonl")
        };
        own.iter().filter(is_named).map(|path| path.display().to_string()).collect::<Vec<_>>()
    };
    let transcripts: Vec<String> = mains(recording)?.iter().map(|path| path.display().to_string()).collect();
    let sets = [transcripts, named("stream"), named("hooks")];
    let merged: Vec<String> = sets.iter().flatten().cloned().collect();
    Ok(sets.into_iter().chain([merged]).filter(|set| !set.is_empty()).collect())
}

fn mains(recording: &Path) -> Result<Vec<PathBuf>> {
    let projects = recording.join("projects");
    let mut found = Vec::new();
    for project in if projects.is_dir() { entries(&projects)? } else { Vec::new() } {
        let files = if project.is_dir() { entries(&project)? } else { Vec::new() };
        found.extend(files.into_iter().filter(|path| {
            path.extension().is_some_and(|end| end == "jsonl") && !file_name(path).starts_with("agent-")
        }));
    }
    Ok(found)
}

fn session_ids(recording: &Path) -> Result<Vec<String>> {
    let stem = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    Ok(mains(recording)?.iter().filter_map(stem).collect())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the sorted entries of a directory, relative to the root of the repository.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> = fs::read_dir(root().join(folder))
        .with_context(|| format!("cannot list {}", folder.display()))?
        .filter_map(|entry| Some(folder.join(entry.ok()?.file_name())))
        .collect();
    found.sort();
    Ok(found)
}
