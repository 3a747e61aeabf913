//! A process that stays and rests: its allocator gives memory back to the system as soon as it is free.
//!
//! By itself the allocator gives back what is freed while the program goes on allocating, so that a hub that has read much and
//! then rests would hold what nobody uses. What it does is set by its environment alone, which it reads before `main`: the
//! process begins once more under the same number.

use std::{env, os::unix::process::CommandExt, process::Command};

/// How many milliseconds the allocator holds what is free.
const HOLDS: &str = "MIMALLOC_PURGE_DELAY";

/// Begins this process once more, unless it was begun so. Whoever sets the option is obeyed.
pub(crate) fn begin_frugal() {
    let mut words = env::args_os();
    let (name, Ok(program)) = (words.next(), env::current_exe()) else { return };
    if env::var_os(HOLDS).is_some() {
        return;
    }
    // It returns only where that fails: then it goes on as it is, and holds more.
    let _ = Command::new(program).arg0(name.unwrap_or_default()).args(words).env(HOLDS, "0").exec();
}
