//! `cargo xtask stalls`: checks stall detection on scripted waits by cause, and on healthy agents over 10,000 hours of
//! simulated time.

use anyhow::Result;

use crate::step::{cargo, run};

/// Runs the bench of the hub in full and prints its tables.
pub(crate) fn all() -> Result<()> {
    let mut bench = cargo();
    bench.args([
        "test",
        "--quiet",
        "--release",
        "-p",
        "subscope-hub",
        "--test",
        "stalls",
        "--",
        "--nocapture",
    ]);
    run("stalls", bench.env("HEALTHY_HOURS", "10000"))
}
