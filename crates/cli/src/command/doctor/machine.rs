//! The program and the operating system: version, limits of watching.

use std::fs;

use super::{Check, State, survey::Survey};

/// Folders that one `watch` uses at most for idle sessions: it leaves the rest of the limit to others.
const IDLE_FOLDERS: u64 = 4096;
/// Where Linux tells its limits of watching.
const LIMITS: &str = "/proc/sys/fs/inotify";

/// Says which program this is.
pub(super) fn version() -> Check {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    Check::new("version", State::Ok, format!("subscope {} on {os} {arch}", env!("CARGO_PKG_VERSION")))
}

/// Says whether the folders of all sessions can be watched; nothing where the system names no limits.
pub(super) fn watch_limits(survey: &Survey) -> Option<Check> {
    let limit = |name: &str| fs::read_to_string(format!("{LIMITS}/{name}")).ok()?.trim().parse().ok();
    Some(compare(survey.folders, limit("max_user_watches")?, limit("max_user_instances")?))
}

/// Compares what one `watch` needs with what all programs of the user share.
fn compare(folders: u64, watches: u64, instances: u64) -> Check {
    let needed = folders.min(IDLE_FOLDERS);
    let says = format!("inotify: {needed} of {watches} folder watches needed, {instances} watchers allowed");
    // Others need some too: more than half is likely to run out.
    if needed <= watches / 2 && instances > 1 {
        return Check::new("limits", State::Ok, says);
    }
    let wanted = needed.saturating_mul(4).max(65_536);
    Check::new("limits", State::Warning, says).hint(format!(
        "where the limit is reached, files are looked at every second instead; raise it with: \
         sysctl fs.inotify.max_user_watches={wanted} fs.inotify.max_user_instances=512"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_warn_before_they_are_reached() {
        assert_eq!(compare(4000, 8192, 128).state, State::Ok);
        assert_eq!(compare(4000, 4096, 128).state, State::Warning);
        assert_eq!(compare(1_000_000, 65_536, 128).state, State::Ok);
        assert_eq!(compare(10, 65_536, 1).state, State::Warning);
        assert!(compare(100, 10, 128).hint.unwrap().contains("max_user_watches=65536"));
    }
}
