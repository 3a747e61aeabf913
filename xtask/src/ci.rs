//! `cargo xtask ci`, the whole of CI in order, and `cargo xtask test`, its part that runs tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::step::{announce, cargo, run, skip, skipped, succeeds, target_folder};
use crate::{book, clients, e2e, pypi, team, tidy, web, windows};

/// The MCP SDK for Python, client of one test.
const PYTHON_SDK: (&str, &str) = ("mcp", "2.3.0");

/// Where tests append what they skip, one a line; `subscope_testkit::skip` writes it.
const SKIPPED_TESTS: &str = "SUBSCOPE_SKIPPED_TESTS";

/// Runs everything that must pass before a change lands; stops at the first step that fails.
pub(crate) fn ci() -> Result<()> {
    run("fmt", cargo().args(["fmt", "--all", "--check"]))?;
    run("fmt (fuzz)", cargo().args(["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))?;
    run("clippy", cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    let missing = tests(python_sdk()?, team::engine()?)?;
    if !missing.is_empty() {
        bail!("tests were skipped for want of a tool that .ci/run installs:\n{}", missing.join("\n"));
    }
    // Documentation of private items: links to them are allowed, broken links are not.
    let doc = ["doc", "--workspace", "--no-deps", "--document-private-items"];
    run("doc", cargo().args(doc).env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"))?;
    windows::check()?;
    deny()?;
    book::build()?;
    clients::test()?;
    web::build(web::Build::Compare)?;
    web::look(&[])?;
    e2e::all(&[])?;
    tidy::run()?;
    match skipped().as_slice() {
        [] => announce("ci: every step passed"),
        some => announce(&format!("ci: passed, but for what was skipped:\n{}", some.join("\n"))),
    }
    Ok(())
}

/// Runs the tests of the workspace, and tidy.
pub(crate) fn test() -> Result<()> {
    tests(None, None)?;
    tidy::run()
}

/// Runs the tests, lists the skipped ones, and returns those for which a tool was missing. Without a `python` that has
/// the MCP SDK, and without one that has the engine of ClickHouse, their tests are skipped: tests download nothing.
///
/// Doc tests run first, so that the last summary line is that of the other tests.
fn tests(python: Option<PathBuf>, engine: Option<PathBuf>) -> Result<Vec<String>> {
    run("doc tests", cargo().args(["test", "--workspace", "--doc"]))?;
    let list = target_folder()?.join("skipped-tests.txt");
    fs::write(&list, "").with_context(|| format!("cannot write {}", list.display()))?;
    let (name, arguments) = if succeeds(cargo().args(["nextest", "--version"])) {
        ("tests (nextest)", ["nextest", "run", "--workspace"].as_slice())
    } else {
        (
            "tests (cargo test; cargo-nextest is not installed)",
            ["test", "--workspace", "--all-targets"].as_slice(),
        )
    };
    let mut runner = cargo();
    runner.args(arguments).env(SKIPPED_TESTS, &list);
    runner.envs(python.map(|python| ("SUBSCOPE_MCP_PYTHON", python)));
    runner.envs(engine.map(|python| (team::PYTHON, python)));
    run(name, &mut runner)?;
    list_skipped(&list)
}

/// Lists the skipped tests, and returns those for which a tool was missing.
fn list_skipped(list: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(list).with_context(|| format!("cannot read {}", list.display()))?;
    let mut missing = Vec::new();
    // A test may skip several parts for one reason.
    for line in text.lines().collect::<BTreeSet<_>>() {
        let (kind, what) = line.split_once('\t').with_context(|| format!("{}: {line:?}", list.display()))?;
        let (test, reason) = what.split_once('\t').unwrap_or((what, ""));
        skip(&format!("test {test}"), reason);
        if kind == "tool" {
            missing.push(format!("{test}: {reason}"));
        }
    }
    Ok(missing)
}

/// Returns a Python with the MCP SDK, installed below the target directory; `None` if PyPI is unavailable.
fn python_sdk() -> Result<Option<PathBuf>> {
    let (package, version) = PYTHON_SDK;
    let folder = target_folder()?.join("pypi").join(format!("{package}-{version}"));
    match pypi::install(Path::new("python3"), &folder, &[&format!("{package}=={version}")])? {
        Ok(commands) => Ok(Some(commands.join("python"))),
        Err(reason) => {
            skip("Python's MCP client", &format!("PyPI gives no {package} {version}: {reason}"));
            Ok(None)
        }
    }
}

/// Runs cargo-deny. Licenses, bans and sources need no network; advisories need a downloaded database.
fn deny() -> Result<()> {
    if !succeeds(cargo().args(["deny", "--version"])) {
        bail!(
            "deny: cargo-deny is not installed: `cargo install --locked cargo-deny`, or .ci/run, which does so"
        );
    }
    run("deny", cargo().args(["deny", "--workspace", "check", "licenses", "bans", "sources"]))?;
    if succeeds(cargo().args(["deny", "fetch", "db"])) {
        run("deny advisories", cargo().args(["deny", "--workspace", "check", "advisories"]))
    } else {
        skip("deny advisories", "the database cannot be fetched from here");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_lacked_a_tool_is_told_of_and_one_that_lacked_a_disk_is_only_listed() {
        let list = std::env::temp_dir().join(format!("subscope-skipped-{}", std::process::id()));
        let lines = "tool\ttrees\ttmux is not installed\nmachine\tdisks\tno disk\ntool\ttrees\ttmux is not installed\n";
        fs::write(&list, lines).unwrap();
        assert_eq!(list_skipped(&list).unwrap(), ["trees: tmux is not installed"]);
        let told = skipped();
        for line in ["test trees: skipped: tmux is not installed", "test disks: skipped: no disk"] {
            assert_eq!(told.iter().filter(|one| *one == line).count(), 1, "{told:?}");
        }
        fs::write(&list, "neither kind nor test\n").unwrap();
        assert!(list_skipped(&list).is_err());
        fs::remove_file(&list).unwrap();
    }
}
