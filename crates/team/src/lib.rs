//! The store of a team: gathers snapshots of many machines into ClickHouse, and answers queries from it.
//!
//! Flow in: request → `auth` (token, role) → `ingest` (decode, at most so many bytes) → `rows` (a snapshot as rows of
//! tables) → `gather` (many requests become one insert per table) → ClickHouse → answers. Flow out: request → `auth` →
//! `Reader` (everything below one tenant) → ClickHouse.
//!
//! The server keeps nothing: any number of them work side by side, and each may be killed at any time. This is the only
//! crate that knows ClickHouse.
//!
//! Absent on purpose: rules about sessions (rows come derived from the machines), files other than the token file.

mod auth;
mod engine;
mod gather;
mod ingest;
mod read;
mod routes;
mod rows;
mod serve;
mod tables;
mod tokens;

pub use engine::{Engine, EngineError};
pub use gather::{Gather, GatherError};
pub use read::{Reader, TeamFilter};
pub use rows::Snapshots;
pub use serve::{ServeOptions, TeamServeError, TlsFiles, serve};
pub use tables::{TableError, prepare};
pub use tokens::{Identity, Tenant, TokenFile, TokenFileError, new_token};
