//! Shared test support: recordings, generated sessions, hand-made lines, property strategies, a hermetic environment
//! for the real binary, a fake clock, and the product's own router over all of these.
//!
//! Dev-only: no production path depends on this crate. A helper that cannot do its work panics with the reason,
//! because the test that called it must fail; nothing here reads the machine's clock, and every generator gives the
//! same bytes for the same seed.

pub mod address;
pub mod clock;
pub mod corpus;
pub mod env;
pub mod example;
pub mod figures;
pub mod fixtures;
pub mod frameworks;
pub mod generated;
pub mod lines;
pub mod losses;
pub mod openapi;
pub mod others;
pub mod random;
pub mod secrets;
pub mod sessions;
pub mod skip;
pub mod strategies;
pub mod truth;
pub mod waits;
mod words;
