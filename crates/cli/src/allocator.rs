//! Makes the allocator of a long-running process return freed memory to the system at once.
//!
//! By default mimalloc purges freed pages only while the program goes on allocating, so an idle hub would keep the
//! memory of its initial scan. The option can only be set by an environment variable that mimalloc reads before `main`:
//! the process therefore re-executes itself (same process id).

use std::{env, os::unix::process::CommandExt, process::Command};

/// Milliseconds that mimalloc delays the purge of freed pages.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Re-executes this process with an immediate purge, unless the variable is already set (by us or by the user).
pub(crate) fn restart_with_immediate_purge() {
    let mut args = env::args_os();
    let (name, Ok(program)) = (args.next(), env::current_exe()) else { return };
    if env::var_os(PURGE_DELAY).is_some() {
        return;
    }
    // `exec` returns only if it fails; the process then continues with the default delay.
    let _ = Command::new(program).arg0(name.unwrap_or_default()).args(args).env(PURGE_DELAY, "0").exec();
}
