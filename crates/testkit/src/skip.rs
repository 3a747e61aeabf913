//! Records skipped tests with their reasons, since a test that returns early looks like one that passed.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
    thread,
};

/// Environment variable with the file to which skipped tests are appended, one per line: kind, test and reason,
/// tab-separated. `cargo xtask` sets it and prints the file, since test runners show no output of passing tests.
const LIST: &str = "SUBSCOPE_SKIPPED_TESTS";

/// Records that the running test needs a program that is not installed. `cargo xtask ci` then fails.
pub fn missing_tool(tool: &str) {
    record(list().as_deref(), "tool", &format!("{tool} is not installed"));
}

/// Records that the running test cannot run on this machine, whatever is installed.
pub fn not_here(reason: &str) {
    record(list().as_deref(), "machine", reason);
}

fn list() -> Option<PathBuf> {
    std::env::var_os(LIST).map(PathBuf::from)
}

fn record(list: Option<&Path>, kind: &str, reason: &str) {
    let thread = thread::current();
    let test = thread.name().unwrap_or("a test");
    let written = match list {
        // One write each, since tests append at the same time.
        Some(list) => OpenOptions::new()
            .append(true)
            .create(true)
            .open(list)
            .and_then(|mut list| list.write_all(format!("{kind}\t{test}\t{reason}\n").as_bytes())),
        // Not through the macros, whose output the runner of a passing test keeps to itself.
        None => io::stderr().write_all(format!("skipped: {test}: {reason}\n").as_bytes()),
    };
    written.unwrap_or_else(|error| panic!("cannot record that {test} is skipped: {error}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_skipped_stands_in_the_list_with_its_test() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("list");
        record(Some(&list), "tool", "tmux is not installed");
        record(Some(&list), "machine", "no disk");
        let test = "skip::tests::what_is_skipped_stands_in_the_list_with_its_test";
        let expected = format!("tool\t{test}\ttmux is not installed\nmachine\t{test}\tno disk\n");
        assert_eq!(std::fs::read_to_string(list).unwrap(), expected);
    }
}
