//! Extensions of editors that keep each task in a folder of its own: Cline, Roo Code, and the extension of Kilo Code before
//! it was built on OpenCode. Known from their sources and from readers of their folders; none was run here.
//!
//! * [`family`]: the extensions, each a row.
//! * [`layout`]: where their tasks are, and the meaning of their paths. A folder of tasks is a [`crate::Bundle`].
//! * [`lines`]: the lines of a task: which document each is of, and what is said about a task. [`messages`] decodes what the
//!   editor showed, the source of prompts, tokens and ends, [`history`] the conversation with the model, the source of calls.
//! * [`stated`]: the totals that a task's own document states.
//! * [`waits`]: which call a person is asked to allow. [`tools`]: tool calls, also those that are written as elements into a text, and their results.

mod family;
mod history;
mod layout;
mod lines;
mod messages;
mod stated;
#[cfg(test)]
mod tests;
mod tools;
mod waits;

pub use self::family::{CLINE_TASKS, KILO_TASKS, ROO, TaskExtension, cline_vscode, kilo_vscode, roo};
