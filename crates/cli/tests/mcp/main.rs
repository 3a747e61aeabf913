//! The MCP servers as official clients see them: the SDK's own client here, and the Python SDK's in [`python`].

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod agent;
mod caller;
mod client;
#[path = "../common/mod.rs"]
mod common;
mod depth;
mod ends;
mod listener;
mod publish;
mod python;
mod query;
