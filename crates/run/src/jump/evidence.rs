//! What the system says of processes: their files, arguments, variables and terminals (proc(5)).

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::{Path, PathBuf},
};

use subscope_model::SessionId;

use crate::HarnessHome;

/// Returns the user's processes of these harnesses that write a file of the session or were started with its id.
pub(super) fn processes_of(session: &SessionId, homes: &[&HarnessHome]) -> Vec<i32> {
    let own = std::process::id();
    let Ok(own_user) = fs::metadata("/proc/self").map(|own| own.uid()) else { return Vec::new() };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| {
        let number: i32 = entry.file_name().to_str()?.parse().ok()?;
        let is_own = u32::try_from(number) == Ok(own);
        (!is_own && entry.metadata().ok()?.uid() == own_user).then_some(number)
    });
    numbers
        .filter(|number| {
            homes.iter().any(|home| writes(*number, session, home) || names(*number, session, home))
        })
        .collect()
}

/// Whether a process has a file below the harness's folders open for writing whose path names the session. Programs that
/// only read it, as subscope does, are none of the session's.
fn writes(process: i32, session: &SessionId, home: &HarnessHome) -> bool {
    let is_of = |path: &Path| {
        let below = home.roots.iter().find_map(|root| path.strip_prefix(root).ok());
        below.is_some_and(|below| below.to_string_lossy().contains(session.as_str()))
    };
    let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    files.into_iter().any(|file| {
        let is_session = fs::read_link(file.path()).is_ok_and(|path| is_of(&path));
        is_session && is_for_writing(process, &file.file_name())
    })
}

/// Whether a file descriptor of a process is open for writing (proc_pid_fdinfo(5), `flags`, octal).
fn is_for_writing(process: i32, descriptor: &OsStr) -> bool {
    let info = fs::read_to_string(Path::new(&format!("/proc/{process}/fdinfo")).join(descriptor));
    let info = info.unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & nix::libc::O_ACCMODE != nix::libc::O_RDONLY)
}

/// Whether a process runs the harness's program with the session's id as an argument.
fn names(process: i32, session: &SessionId, home: &HarnessHome) -> bool {
    let Some(program) = home.harness.run().map(|plan| plan.program()) else { return false };
    let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let mut words = line.split(|byte| *byte == 0);
    // A program in a script's language is the second word.
    let is_program = |word: &[u8]| Path::new(OsStr::from_bytes(word)).file_name() == Some(program.as_ref());
    let runs = words.by_ref().take(2).any(is_program);
    let id = session.as_bytes();
    runs && words.any(|word| word == id || word.rsplit(|byte| *byte == b'=').next() == Some(id))
}

/// Returns the device of the terminal that a process reads from; `None` if it has none, or the system does not tell.
pub(super) fn terminal_of(process: i32) -> Option<PathBuf> {
    let device = fs::read_link(format!("/proc/{process}/fd/0")).ok()?;
    let is_terminal = device.starts_with("/dev/pts") || device.to_string_lossy().starts_with("/dev/tty");
    is_terminal.then_some(device)
}

/// Returns a variable with which a process was started; `None` if it has none such, or the system does not tell.
pub(super) fn variable(process: i32, name: &str) -> Option<String> {
    let all = fs::read(format!("/proc/{process}/environ")).ok()?;
    let value = all.split(|byte| *byte == 0).find_map(|pair| {
        let rest = pair.strip_prefix(name.as_bytes())?;
        rest.strip_prefix(b"=")
    })?;
    String::from_utf8(value.to_vec()).ok().filter(|value| !value.is_empty())
}
