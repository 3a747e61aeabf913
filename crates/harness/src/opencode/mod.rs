//! OpenCode, and the programs that are forks of it.
//!
//! * [`family`]: the programs, each a row.
//! * [`layout`]: the database of all sessions, and the folder of objects of older versions; [`bundles`]: how their rows
//!   become lines.
//! * [`objects`]: sessions, messages and their parts, of which every source is made.
//! * Dialects: [`events`] decodes the log of the database, what a server sends and what our plugin passes on,
//!   [`stdout`] what `opencode run --format json` prints. [`recognize`] finds the dialect of a line.
//! * Shared by the dialects: [`tools`] (tool calls and their ends).
//! * Hooks: [`hook_support`] installs the plugin, [`hook_answer`] stops an agent.

mod bundles;
mod events;
mod export;
mod family;
mod hook_answer;
mod hook_permission;
mod hook_support;
mod layout;
mod objects;
mod recognize;
mod run_plan;
mod stated;
mod stdout;
mod tools;

use subscope_decode::{Answers, Dialect, DialectSpec, LinesDecoder};
use subscope_model::{Clock, SourceKind};

pub use self::family::{ICODEMATE, KILO, MIMOCODE, Member, OPENCODE, icodemate, kilo, mimocode};

const NAME: &str = "opencode";

/// A session of the database, or of a folder of objects: one event per line.
pub const DATABASE: Dialect = Dialect::new(&family::database(NAME, "opencode.database", true));

/// What `opencode export` prints: one object.
pub const EXPORT: Dialect = Dialect::new(&family::export(NAME, "opencode.export", true));

/// What `opencode serve` sends at `/event` and `/global/event`.
pub const EVENTS: Dialect = Dialect::new(&family::events(NAME, "opencode.events", true));

/// What `opencode run --format json` prints.
pub const STDOUT: Dialect = Dialect::new(&family::stdout(NAME, "opencode.stdout", true));

/// What our plugin passes on: events with the sessions above theirs, one per line.
pub const HOOK: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    answers: Some(Answers { asker: hook_answer::asker, stop: hook_answer::stop_answer }),
    permissions: Some(hook_permission::PERMISSIONS),
    ..DialectSpec::new("opencode.hook", |hint| {
        let events = events::Events::new(hint, SourceKind::Hook, Clock::Receiver);
        Box::new(LinesDecoder::new(hint.source, events))
    })
});
