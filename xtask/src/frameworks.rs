//! `cargo xtask frameworks [NAME…]`: programs of real agent frameworks, installed from PyPI and npm, against a scripted
//! model, exporting their spans to a hub.
//!
//! `crates/rig/frameworks` has the programs and the list of frameworks; `crates/rig` plays and compares. This installs,
//! builds, and closes the network off.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Error, Result, anyhow, bail};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    e2e::without_network,
    npm, pypi,
    step::{announce, cargo, output, program, root, run as run_step, skip, skipped, target_folder},
};

/// The list of frameworks, as far as it concerns their installation.
#[derive(Debug, Deserialize)]
struct List {
    framework: Vec<Framework>,
}

/// A framework: packages of PyPI (`NAME==VERSION`) or npm (`NAME@VERSION`).
#[derive(Debug, Deserialize)]
struct Framework {
    name: String,
    #[serde(default)]
    pip: Vec<String>,
    #[serde(default)]
    npm: Vec<String>,
}

/// Columns of the table: aspects of the tree at the end.
const ASPECTS: [&str; 6] = ["sessions", "agents", "parents", "calls", "tokens", "endings"];

/// Plays the programs of these frameworks, or of all; fails if a tree is not what happened.
pub(crate) fn all(names: &[&str]) -> Result<()> {
    let list = fs::read_to_string(root().join("crates/rig/frameworks/frameworks.toml"))?;
    let list: List = toml::from_str(&list).context("frameworks.toml")?;
    let known = |name: &str| list.framework.iter().any(|framework| framework.name == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let known: Vec<&str> = list.framework.iter().map(|framework| framework.name.as_str()).collect();
        bail!("no framework {unknown:?}: it is one of {}", known.join(", "));
    }
    let packages = ["build", "--package", "subscope", "--package", "subscope-rig"];
    run_step("build for frameworks", cargo().args(packages))?;
    let target = target_folder()?;
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for framework in list.framework.iter().filter(|it| names.is_empty() || names.contains(&it.name.as_str()))
    {
        let folder = target.join("frameworks").join(&framework.name);
        announce(&format!("frameworks: {}", framework.name));
        let interpreter = match install(framework, &folder) {
            Ok(interpreter) => interpreter,
            Err(reason) => {
                skip(&format!("frameworks {}", framework.name), &format!("{reason:#}"));
                continue;
            }
        };
        let played = play(framework, &interpreter, &folder.join("recorded"))?;
        wrong.extend((played["is_right"] != true).then_some(framework.name.as_str()));
        rows.push(row(&played));
    }
    if !rows.is_empty() {
        println!("\n| framework | {} | first row after |", ASPECTS.join(" | "));
        println!("|---|{}\n{}", "---|".repeat(ASPECTS.len() + 1), rows.join("\n"));
    }
    skipped().iter().for_each(|line| println!("{line}"));
    if !wrong.is_empty() {
        bail!("not shown right: {}", wrong.join(", "));
    }
    Ok(())
}

/// Installs a framework, unless done before, and returns the interpreter of its program.
///
/// # Errors
///
/// If its packages or their interpreter are unavailable.
fn install(framework: &Framework, folder: &Path) -> Result<PathBuf> {
    if !framework.pip.is_empty() {
        let requirements: Vec<&str> = framework.pip.iter().map(String::as_str).collect();
        let commands = pypi::install(Path::new("python3"), folder, &requirements)?;
        return commands.map(|commands| commands.join("python")).map_err(Error::msg);
    }
    for package in &framework.npm {
        let (name, version) =
            package.rsplit_once('@').with_context(|| format!("{package} has no version"))?;
        npm::install(folder, name, version)?.map_err(Error::msg)?;
    }
    Ok(output(program("node").args(["-p", "process.execPath"]))?.trim().into())
}

/// Runs the program of a framework without network; returns what was right.
fn play(framework: &Framework, interpreter: &Path, keep: &Path) -> Result<Value> {
    let built = target_folder()?.join("debug");
    let mut e2e = without_network(&built.join("e2e"));
    e2e.args(["--framework", &framework.name, "--program"]).arg(interpreter);
    e2e.arg("--subscope").arg(built.join("subscope")).arg("--keep").arg(keep);
    let ended = e2e.stderr(Stdio::inherit()).output().context("cannot start e2e")?;
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    let (text, json) = said.trim_end().rsplit_once('\n').unwrap_or(("", &said));
    println!("{text}");
    serde_json::from_str(json).map_err(|error| anyhow!("e2e ended with {}: {error}: {json}", ended.status))
}

/// The row of a framework in the table.
fn row(played: &Value) -> String {
    let marks = ASPECTS.map(|aspect| if played["aspects"][aspect] == true { "✓" } else { "✗" });
    let delay = played["first_row_ms"].as_u64().map_or("never".to_owned(), |delay| format!("{delay} ms"));
    format!("| {} | {} | {delay} |", played["title"].as_str().unwrap_or_default(), marks.join(" | "))
}
