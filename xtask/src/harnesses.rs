//! `docs/harnesses.md`, what is known of each harness, written from the registry by a test of `harness`.

use anyhow::Result;

use crate::step::{cargo, run};

/// Runs the test that compares the page with the registry, and has the page written.
pub(crate) fn write() -> Result<()> {
    let mut test = cargo();
    test.args(["test", "--package", "subscope-harness", "--test", "documentation"]);
    run("harnesses", test.env("SUBSCOPE_WRITE_HARNESSES", "1"))
}
