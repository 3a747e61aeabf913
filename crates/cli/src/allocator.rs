//! Makes the allocator of a long-running process return freed memory to the system at once.
//!
//! By default mimalloc purges freed pages only while the program goes on allocating, so an idle hub would keep the
//! memory of its initial scan. The option can only be set by an environment variable that mimalloc reads before `main`:
//! the process therefore re-executes itself (same process id), where the system can do that.

use std::env;

use subscope_platform::restart_with;

/// Milliseconds that mimalloc delays the purge of freed pages.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Re-executes this process with an immediate purge, unless the variable is already set (by us or by the user).
pub(crate) fn restart_with_immediate_purge() {
    if env::var_os(PURGE_DELAY).is_none() {
        // If it fails, the process continues with the default delay.
        restart_with(PURGE_DELAY, "0");
    }
}
