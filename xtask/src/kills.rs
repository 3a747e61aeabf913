//! `cargo xtask kills [TIMES]`: runs the durability tests with more kills than a normal test run.

use anyhow::Result;

use crate::step::{self, cargo};

/// Kills the program this many times while it ingests, and as often while it indexes.
pub(crate) fn run(times: u32) -> Result<()> {
    let test =
        ["test", "--package", "subscope", "--test", "durability", "--", "--nocapture", "--test-threads", "1"];
    step::run("kills", cargo().args(test).env("SUBSCOPE_KILLS", times.to_string()))
}
