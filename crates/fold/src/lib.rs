//! Turns the bytes of sources into rows and events of sessions, through `decode` and `track`.
//!
//! The hub, `tree PATH`, `watch`, exports, replays and indexing all use [`Fold`]; a second way of computing a tree is a
//! defect. Flow: [`Fold::open`] a source, [`Fold::push`] its bytes, [`Fold::flush`] at its end; then [`Fold::tree`] for
//! rows, or [`Fold::update`] for rows and new events.
//!
//! Absent on purpose: files, sockets, subscribers, SQL and a clock.

mod feed;
mod fold;
mod lifecycle;
pub mod passages;
mod pending_event;
mod session;
mod source;

/// Revision of the derivation rules. Raised whenever the same bytes give other rows, so that stored rows are derived
/// again.
pub const REVISION: u32 = 4;

pub use feed::problem_event;
pub use fold::{Fold, FoldOptions};
pub use session::SessionUpdate;
pub use source::{SourceOrigin, SourceSpec};
pub use subscope_decode::{Dialect, FEED, LineSession, STOP_ORDERS, SUBAGENT_EVENTS};
pub use subscope_track::{
    AwakeTime, FactDetail, HookCoverage, KeysCursor, LimitRule, LimitScope, Limits, Now, OwnedElsewhere,
    next_deadline,
};
