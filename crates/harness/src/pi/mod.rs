//! pi, and the programs that keep sessions in its format: oh-my-pi, OpenClaw.
//!
//! * [`family`]: the programs, each a row.
//! * [`layout`]: where their files are, and the meaning of their paths.
//! * [`envelopes`]: what OpenClaw writes around a person's message, and in its place.
//! * [`messages`]: messages of the model and results of calls, of which files and streams are made.
//! * Dialects: [`entries`] decodes the lines of a file, the primary source, [`stream`] what `--mode json` and `--mode rpc`
//!   print. [`recognize`] finds the dialect of a line, and the program that wrote it.
//! * Shared by the dialects: [`tools`] (tool calls, results of calls that start agents, endings).

mod entries;
mod envelopes;
mod family;
mod layout;
mod messages;
mod recognize;
mod run_plan;
mod stated;
mod stream;
#[cfg(test)]
mod tests;
mod tools;

pub use self::family::{OMP, OPENCLAW, PI, PiMember, omp, openclaw, pi};
