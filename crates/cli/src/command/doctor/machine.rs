//! Checks of program and operating system: version, inotify limits.

use std::fs;

use super::{Check, survey::Survey};

/// Most directories that one `watch` observes for idle sessions: other programs need a part of the limit.
const IDLE_FOLDERS: u64 = 4096;
/// Directory of the inotify limits on Linux.
const INOTIFY_DIR: &str = "/proc/sys/fs/inotify";

/// Reports the version and the platform.
pub(super) fn version() -> Check {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    Check::ok("version", format!("subscope {} on {os} {arch}", env!("CARGO_PKG_VERSION")))
}

/// Checks whether the directories of all sessions can be watched; `None` if the system has no such limits.
pub(super) fn watch_limits(survey: &Survey) -> Option<Check> {
    let limit = |name: &str| fs::read_to_string(format!("{INOTIFY_DIR}/{name}")).ok()?.trim().parse().ok();
    Some(compare(survey.folders, limit("max_user_watches")?, limit("max_user_instances")?))
}

/// Compares the needs of one `watch` with the limits shared by all programs of the user.
fn compare(folders: u64, watches: u64, instances: u64) -> Check {
    let needed = folders.min(IDLE_FOLDERS);
    let message =
        format!("inotify: {needed} of {watches} folder watches needed, {instances} watchers allowed");
    // Other programs need some too: warn above half of the limit.
    if needed <= watches / 2 && instances > 1 {
        return Check::ok("limits", message);
    }
    let wanted = needed.saturating_mul(4).max(65_536);
    Check::warning("limits", message).hint(format!(
        "where the limit is reached, files are looked at every second instead; raise it with: \
         sysctl fs.inotify.max_user_watches={wanted} fs.inotify.max_user_instances=512"
    ))
}

#[cfg(test)]
mod tests {
    use super::{super::CheckState, *};

    #[test]
    fn limits_warn_before_they_are_reached() {
        assert_eq!(compare(4000, 8192, 128).state, CheckState::Ok);
        assert_eq!(compare(4000, 4096, 128).state, CheckState::Warning);
        assert_eq!(compare(1_000_000, 65_536, 128).state, CheckState::Ok);
        assert_eq!(compare(10, 65_536, 1).state, CheckState::Warning);
        assert!(compare(100, 10, 128).hint.unwrap().contains("max_user_watches=65536"));
    }
}
