//! `cargo xtask parity`: runs every command on a session of every source, and writes the table to `docs/src/parity.md`.

use anyhow::Result;

use crate::step::{cargo, run};

/// Runs the test that fills the table, and has it written.
pub(crate) fn write() -> Result<()> {
    let mut test = cargo();
    test.args(["test", "--package", "subscope", "--test", "parity", "every_session"]);
    run("parity", test.env("SUBSCOPE_WRITE_PARITY", "1"))
}
