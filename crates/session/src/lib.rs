//! Turns the bytes of sources into rows and events of sessions, through `decode` and `track`.
//!
//! The hub, `tree PATH`, `watch`, exports, replays and indexing all use [`SessionRouter`]; a second way of computing a
//! tree is a defect. Flow: [`SessionRouter::open`] a source, [`SessionRouter::push`] its bytes,
//! [`SessionRouter::flush`] at its end; then [`SessionRouter::tree`] for rows, or [`SessionRouter::update`] for rows
//! and new events.
//!
//! Absent on purpose: files, sockets, subscribers, SQL and a clock.

mod feed;
mod feed_order;
mod lifecycle;
pub mod passages;
mod pending_event;
mod router;
mod session;
mod source;
mod traces;

/// Revision of the derivation rules. Raised whenever the same bytes give other rows, so that stored rows are derived
/// again.
pub const REVISION: u32 = 14;

pub use feed::{id_by_request, problem_event};
pub use router::{EventScope, RouterOptions, SessionRouter, TraceMove, WorkTreeFinder};
pub use session::SessionUpdate;
pub use source::{SourceOrigin, SourceSpec, is_noise};
pub use subscope_decode::{AskedPermission, Dialect, FEED, LineSession, STOP_ORDERS, SUBAGENT_EVENTS};
pub use subscope_track::{
    AwakeTime, FactDetail, HookCoverage, KeysCursor, LimitRule, LimitScope, Limits, Now, OwnedElsewhere,
    next_deadline,
};
