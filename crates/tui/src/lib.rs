//! The terminal UI: what every subagent on this machine does, live and afterwards.
//!
//! Flow (Elm architecture): every input (key, feed update, reply, clock tick) is a [`UiMessage`]; [`update()`] changes
//! the [`UiState`] and returns [`Effect`]s; [`view()`] draws the state. Both are pure; [`run()`] does the I/O:
//! terminal, threads, frame rate. The UI derives nothing: it shows rows and events as they arrive, and knows no hub,
//! file or vendor.
//!
//! To add a key: a line in `keys`, a match arm in `update`, a step in `update/tests/keys.rs`.

#[macro_use]
mod choices;

mod ask;
mod keys;
mod log_entry;
pub mod plain;
mod run;
#[cfg(test)]
mod samples;
mod settings;
mod state;
#[cfg(test)]
mod test_ui;
mod theme;
mod update;
mod view;

pub use ask::{Answer, Question, Reply};
pub use run::{Answers, Ends, Links, Playback, RunError, restore, run};
pub use settings::{Alerts, BudgetLimits, Choice, Clocks, Setting, Settings, TreePanel};
pub use state::{UiState, View};
pub use theme::Palette;
pub use update::{Effect, UiMessage, refresh, update};
pub use view::view;
