//! The unit of work: the sources of sessions through decode and track to rows and events.
//!
//! `tree PATH`, `watch`, exports, replays and (later) indexing all go through [`Fold`]; a second way of computing a tree
//! is a defect. Flow: [`Fold::open`] a source, [`Fold::push`] its bytes, [`Fold::flush`] when none will follow; then
//! [`Fold::tree`] for rows and [`Events`] for the feed.
//!
//! Absent on purpose: files, sockets, subscribers, SQL and a clock.

mod draft;
mod events;
mod fold;
mod lifecycle;
pub mod texts;

/// The revision of the rules by which rows are made. Raised whenever the same bytes give other rows, so that rows that were
/// kept are made anew.
pub const REVISION: u32 = 4;

pub use events::Events;
pub use fold::{Fold, FoldOptions, SourceSpec};
pub use subscope_decode::{Dialect, FEED, LineSession, STOP_ORDERS, SUBAGENT_EVENTS};
pub use subscope_track::{
    Awake, Hooked, Keep, KeysCursor, LimitRule, LimitScope, Limits, Now, OwnedElsewhere, next_deadline,
};
