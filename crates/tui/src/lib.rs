//! The terminal UI: what every subagent on this machine does, live and afterwards.
//!
//! Flow: what comes in (keys, the feed, answers, time) is a [`Message`]; [`update()`] makes state of it, and effects that are to
//! be carried out; [`view()`] makes a screen of state. Both are pure; [`run()`] does all the rest: the terminal, threads, the pace
//! of drawing. The UI runs no rules: it shows rows and events as they come, and knows no hub, file or vendor.
//!
//! To add a key: a line in `keys`, its arm in `update`, its step in `update/tests/keys.rs`.

mod ask;
pub mod keys;
mod log_entry;
pub mod plain;
mod run;
#[cfg(test)]
mod samples;
mod settings;
#[cfg(test)]
mod stage;
pub mod state;
mod theme;
mod update;
mod view;

pub use ask::{Answer, Question, Reply};
pub use run::{Answers, Ends, Links, Playback, RunError, restore, run};
pub use settings::{Alerts, Choice, ChoiceError, Clocks, Setting, Settings, TreePanel};
pub use state::State;
pub use theme::Palette;
pub use update::{Effect, Message, refresh, update};
pub use view::view;
