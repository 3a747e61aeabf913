//! `cargo xtask ci`, the whole of CI in order, and `cargo xtask test`, its part that runs tests.

use anyhow::Result;

use crate::step::{announce, cargo, run, succeeds};
use crate::{e2e, tidy, web};

/// Runs everything that must pass before a change lands; stops at the first step that fails.
pub(crate) fn ci() -> Result<()> {
    run("fmt", cargo().args(["fmt", "--all", "--check"]))?;
    run("fmt (fuzz)", cargo().args(["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]))?;
    run("clippy", cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    tests()?;
    // For those who read the source: links to private items are wanted, broken ones are not.
    let doc = ["doc", "--workspace", "--no-deps", "--document-private-items"];
    run("doc", cargo().args(doc).env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"))?;
    deny()?;
    web::build(web::Build::Compare)?;
    web::look(&[])?;
    e2e::all(&[])?;
    tidy::run()?;
    announce("ci: every step passed");
    Ok(())
}

/// Runs the tests of the workspace, and tidy.
pub(crate) fn test() -> Result<()> {
    tests()?;
    tidy::run()
}

/// Examples in documentation first: the last closing line of a runner is then that of the real tests.
fn tests() -> Result<()> {
    run("doc tests", cargo().args(["test", "--workspace", "--doc"]))?;
    if succeeds(cargo().args(["nextest", "--version"])) {
        run("tests (nextest)", cargo().args(["nextest", "run", "--workspace"]))
    } else {
        run(
            "tests (cargo test; cargo-nextest is not installed)",
            cargo().args(["test", "--workspace", "--all-targets"]),
        )
    }
}

/// Licences, bans and sources need no network; the advisories are a database that has to be fetched.
fn deny() -> Result<()> {
    if !succeeds(cargo().args(["deny", "--version"])) {
        announce("deny: skipped: cargo-deny is not installed");
        return Ok(());
    }
    run("deny", cargo().args(["deny", "--workspace", "check", "licenses", "bans", "sources"]))?;
    if succeeds(cargo().args(["deny", "fetch", "db"])) {
        run("deny advisories", cargo().args(["deny", "--workspace", "check", "advisories"]))
    } else {
        announce("deny advisories: skipped: the database cannot be fetched from here");
        Ok(())
    }
}
