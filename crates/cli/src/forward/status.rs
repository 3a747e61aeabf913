//! Lag of forwarding, for `subscope doctor`: read from the record and the store, without a connection.

use std::path::Path;

use subscope_model::ContentLevel;
use subscope_store::{Access, ForwardLog, OpenError, SqliteStore};

/// Lag of a server behind this machine's store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForwardStatus {
    /// Sessions that the server has.
    pub(crate) sent: usize,
    /// Sessions that are newer here, or that it does not have.
    pub(crate) behind: usize,
    /// Whether a process forwards now.
    pub(crate) is_forwarding: bool,
    /// Sessions that the server has with more content than the settings allow: they are replaced.
    pub(crate) above_level: usize,
}

/// Returns the lag of a server.
///
/// # Errors
/// The store or the record cannot be read.
pub(crate) fn status(
    data: &Path,
    rules: &str,
    team: &str,
    level: ContentLevel,
) -> Result<ForwardStatus, super::ForwardError> {
    let is_forwarding = ForwardLog::is_forwarding(data);
    let forwarded = match ForwardLog::open(data, Access::Read, team, 0) {
        Ok(log) => log.all()?,
        Err(OpenError::Missing(_)) => std::collections::HashMap::new(),
        Err(error) => return Err(error.into()),
    };
    let store = SqliteStore::open(data, Access::Read, rules, 0)?;
    let mut status = ForwardStatus { is_forwarding, ..ForwardStatus::default() };
    for one in store.sessions_from_rev(0)? {
        match forwarded.get(&one.session) {
            Some(before) if before.rev >= one.rev => {}
            Some(_) | None => status.behind += 1,
        }
    }
    status.sent = forwarded.values().filter(|one| !one.is_deleted).count();
    status.above_level = forwarded.values().filter(|one| !one.is_deleted && one.level > level).count();
    Ok(status)
}
