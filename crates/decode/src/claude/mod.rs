//! Claude Code's dialects.
//!
//! [`transcript`] is the primary source: exact and complete, also for background and nested agents. [`stream`] is
//! what a wrapped run prints, [`hook`] what its hooks are given, [`meta`] the small files beside transcripts.
//! [`content`], [`tools`] and [`notice`] hold what these share: messages, tool calls and their results, and task
//! notifications; [`answer`] is what its hooks are answered, [`plain`] what the program prints for people, [`process`] what it notes of itself.

pub(crate) mod answer;
mod content;
pub mod hook;
pub mod meta;
mod notice;
pub mod plain;
pub mod process;
pub mod stream;
mod tools;
pub mod transcript;

pub(crate) use tools::digest;
