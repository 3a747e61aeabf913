//! Detects the installed version of Claude Code, which decides the events that its settings may contain.

use std::{
    ffi::OsStr,
    io::Read,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use subscope_decode::harness::{CLAUDE_CODE, CLAUDE_CODE_FORGIVES_EVENTS};

use crate::environment::Environment;

/// Time limit of `--version`. It takes about 0.1 s; more on a swapping machine.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);
/// Directories of its installers, below the home directory.
const INSTALL_DIRS: [&str; 2] = [".local/bin", ".claude/local"];

/// A version: major, minor, patch.
pub(crate) type Version = [u32; 3];

/// Parses the version at the start of a text such as `2.1.330 (Claude Code)`.
pub(super) fn parse(text: &str) -> Option<Version> {
    let word = text.split_whitespace().next()?;
    let plain = word.split(['-', '+']).next()?;
    let mut numbers = plain.trim_start_matches('v').split('.').map(|number| number.parse::<u32>().ok());
    let version = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(version)
}

/// Whether a version accepts an event introduced in `since`: it knows the event, or ignores unknown ones. An unknown
/// version counts as current.
pub(crate) fn accepts(version: Option<Version>, since: Version) -> bool {
    version.is_none_or(|version| version >= since || version >= CLAUDE_CODE_FORGIVES_EVENTS)
}

/// Formats a version.
pub(super) fn format([major, minor, patch]: Version) -> String {
    format!("{major}.{minor}.{patch}")
}

/// Runs the installed program with `--version`; `None` if none is found or it does not answer.
pub(super) fn detect(environment: &Environment) -> Option<Version> {
    let path = environment.get("PATH").unwrap_or_default();
    let home = environment.path("HOME").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(INSTALL_DIRS.map(|folder| home.join(folder)));
    let program: PathBuf = folders
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(CLAUDE_CODE.program))
        .find(|path| path.is_file())?;
    of_program(program.as_os_str())
}

/// Runs a program, found as a shell would, with `--version`; `None` if it does not answer.
pub(crate) fn of_program(program: &OsStr) -> Option<Version> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    for _ in 0..VERSION_TIMEOUT.as_millis() / POLL.as_millis() {
        match child.try_wait() {
            Ok(Some(_)) => {
                let mut text = String::new();
                child.stdout.take()?.take(4096).read_to_string(&mut text).ok()?;
                return parse(&text);
            }
            Ok(None) => thread::sleep(POLL),
            Err(_) => break,
        }
    }
    // Errors mean that it has already exited.
    let _ = child.kill();
    let _ = child.wait();
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_takes_three_numbers_in_front() {
        for (text, version) in [
            ("2.1.330 (Claude Code)\n", Some([2, 1, 330])),
            ("v1.0.128", Some([1, 0, 128])),
            ("2.2.0-beta.1", Some([2, 2, 0])),
            ("2.1", None),
            ("2.1.3.4", None),
            ("claude 2.1.3", None),
            ("", None),
        ] {
            assert_eq!(parse(text), version, "{text}");
        }
    }
}
