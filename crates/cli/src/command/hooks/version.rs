//! Which version of a harness is installed: it decides which events its settings may name.

use std::{
    ffi::OsStr,
    io::Read,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use subscope_harness::{RunPlan, Version};

use crate::environment::Environment;

/// How long the program may take to name its version. It needs some 0.1 s; a machine that swaps needs more.
const LIMIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);

/// Reads the first version in a text: `2.1.330 (Name)`.
pub(super) fn parse(text: &str) -> Option<Version> {
    let word = text.split_whitespace().next()?;
    let plain = word.split(['-', '+']).next()?;
    let mut numbers = plain.trim_start_matches('v').split('.').map(|number| number.parse::<u32>().ok());
    let version = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(version)
}

/// Returns a version as it is written.
pub(super) fn show([major, minor, patch]: Version) -> String {
    format!("{major}.{minor}.{patch}")
}

/// Asks the installed program; `None` where there is none, or where it does not answer.
pub(super) fn ask(plan: &dyn RunPlan, environment: &Environment) -> Option<Version> {
    let path = environment.get("PATH").unwrap_or_default();
    let home = environment.path("HOME").unwrap_or_default();
    let folders =
        std::env::split_paths(&path).chain(plan.install_folders().iter().map(|folder| home.join(folder)));
    let program: PathBuf = folders
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(plan.program()))
        .find(|path| path.is_file())?;
    of_program(program.as_os_str())
}

/// Asks a program, found by the search path, for its version; `None` if it does not answer.
pub(crate) fn of_program(program: &OsStr) -> Option<Version> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    for _ in 0..LIMIT.as_millis() / POLL.as_millis() {
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
    // It may have ended meanwhile; then there is nothing to end.
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
