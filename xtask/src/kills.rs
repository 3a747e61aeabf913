//! `cargo xtask kills [TIMES]`: the tests of what survives a kill, with more kills than a test run has time for.

use anyhow::Result;

use crate::step::{self, cargo};

/// Kills the program so often while it is handed things, and as often while it indexes.
pub(crate) fn run(times: u32) -> Result<()> {
    let test =
        ["test", "--package", "subscope", "--test", "durability", "--", "--nocapture", "--test-threads", "1"];
    step::run("kills", cargo().args(test).env("SUBSCOPE_KILLS", times.to_string()))
}
