//! `cargo xtask plugins`: writes `packaging/plugins` from the tables that `hooks install` uses.

use anyhow::Result;

use crate::step::{cargo, run};

/// Runs the tests that compare the tree, and has it written.
pub(crate) fn write() -> Result<()> {
    let mut test = cargo();
    test.args(["test", "--quiet", "--package", "subscope-harness", "--test", "plugins"]);
    run("plugins", test.env("SUBSCOPE_WRITE_GENERATED", "1"))
}
