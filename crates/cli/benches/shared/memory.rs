//! How much memory a process has held.

use std::fs;

/// Returns the most memory that a process has held until now; `None` once it is gone.
pub(crate) fn peak_megabytes_of(process: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}
