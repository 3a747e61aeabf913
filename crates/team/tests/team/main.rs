//! A team's store from outside: machines with stores of their own, servers, the real engine.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod access;
mod asking;
#[path = "../engine/mod.rs"]
mod engine;
mod hub;
mod machines;
mod rig;
