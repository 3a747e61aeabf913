//! OpenCode.
//!
//! * [`layout`]: its database of all sessions, and the folder of objects of older versions.
//! * [`objects`]: sessions, messages and their parts, of which every source is made.
//! * Dialects: [`events`] decodes the log of the database, what a server sends and what our plugin passes on,
//!   [`stdout`] what `opencode run --format json` prints. [`recognize`] finds the dialect of a line.
//! * Shared by the dialects: [`tools`] (tool calls and their ends).
//! * Hooks: [`hook_support`] installs the plugin, [`hook_answer`] stops an agent.

mod events;
mod export;
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

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use subscope_decode::{Answers, Dialect, DialectSpec, Lifecycle, LinesDecoder, ObjectDecoder};
use subscope_model::{Clock, SourceKind, ToolClass};

use crate::{
    Bundle, Harness, HeadLine, Home, HookSupport, Place, RunPlan, SelfReport, SessionFiles, Variables,
    harness::folder_in,
};

/// The harness.
#[derive(Debug)]
pub struct OpenCode;

const NAME: &str = "opencode";

/// A session of the database, or of a folder of objects: one event per line.
pub const DATABASE: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    is_main: true,
    ..DialectSpec::new("opencode.database", |hint| {
        let events = events::Events::new(hint, SourceKind::Transcript, Clock::Transcript);
        Box::new(LinesDecoder::new(hint.source, events))
    })
});

/// What `opencode export` prints: one object.
pub const EXPORT: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    is_object: true,
    is_ingestible: false,
    ..DialectSpec::new("opencode.export", |hint| {
        Box::new(ObjectDecoder::new(hint.source, export::Export(hint.clone())))
    })
});

/// What `opencode serve` sends at `/event` and `/global/event`.
pub const EVENTS: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    ..DialectSpec::new("opencode.events", |hint| {
        let events = events::Events::new(hint, SourceKind::Stream, Clock::Stream);
        Box::new(LinesDecoder::new(hint.source, events))
    })
});

/// What `opencode run --format json` prints.
pub const STDOUT: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    session_of: stdout::session_of,
    lifecycle: Lifecycle { changes: stdout::CHANGES, opens: None, spawns: None },
    ..DialectSpec::new("opencode.stdout", |hint| {
        Box::new(LinesDecoder::new(hint.source, stdout::Stdout::new(hint)))
    })
});

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

impl Harness for OpenCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "OpenCode"
    }

    fn dialects(&self) -> &'static [Dialect] {
        &[DATABASE, EVENTS, STDOUT, HOOK, EXPORT]
    }

    fn recognize(&self, line: HeadLine<'_>) -> Option<Dialect> {
        recognize::recognize(line)
    }

    fn tool_class(&self, tool: &str) -> ToolClass {
        tools::class(tool)
    }

    /// Returns the folder of the database: that of `OPENCODE_DB`, else `opencode` in `XDG_DATA_HOME` or
    /// `$HOME/.local/share`.
    fn home(&self, variables: Variables<'_>) -> Home {
        let database = folder_in(variables, layout::DATABASE_VARIABLE).filter(|file| file.is_absolute());
        if let Some(folder) = database.as_deref().and_then(Path::parent) {
            let folder = folder.to_owned();
            return Home { folder, variable: layout::DATABASE_VARIABLE, is_chosen: true };
        }
        let data = Home::named(variables, layout::DATA_VARIABLE, layout::DATA_FOLDER).folder;
        // All programs use this variable: that it is set does not mean that this program has a folder.
        Home { folder: data.join(layout::FOLDER), variable: layout::DATA_VARIABLE, is_chosen: false }
    }

    fn roots(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        vec![self.home(variables).folder]
    }

    fn classify(&self, path: &Path) -> Option<Place> {
        layout::session_of(path).map(layout::place)
    }

    fn classify_below(&self, _: &Path, path: &Path) -> Option<Place> {
        self.classify(path)
    }

    fn bundle(&self, path: &Path) -> Option<&'static Bundle> {
        layout::bundle(path)
    }

    fn target(&self, path: &Path) -> Option<SessionFiles> {
        Some(layout::files(path, layout::session_of(path)?))
    }

    fn session_files(&self, _: &Path, path: &Path, session: &str) -> SessionFiles {
        layout::files(path, session)
    }

    fn session_of_folder(&self, _: &Path, _: &Path) -> Option<SessionFiles> {
        None
    }

    /// Its other folders hold snapshots of projects, logs and programs.
    fn skips_folder(&self, name: &OsStr) -> bool {
        ["snapshot", "log", "bin", "tool-output", "repos"].iter().any(|skipped| name == *skipped)
    }

    fn transcripts_of(&self, root: &Path, session: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
        let inside = entries.filter(|path| layout::bundle(path).is_some()).map(|path| path.join(session));
        inside.filter(|path| layout::session_of(path).is_some()).collect()
    }

    fn gaps(&self) -> &'static [&'static str] {
        // Measured on 1.18.33: without network and without the package, 65 s more until the first event of each start.
        &[
            "`opencode run --format json` prints an agent only once it has ended",
            "no file says that a permission is asked for: the plugin that `subscope hooks` installs does",
            "with a plugin OpenCode fetches a package from npm at its first start; without network each start waits for it for a minute",
        ]
    }

    fn hooks(&self) -> Option<&'static dyn HookSupport> {
        Some(&OpenCode)
    }

    fn self_report(&self) -> Option<&'static SelfReport> {
        Some(&stated::SELF_REPORT)
    }

    fn run(&self) -> Option<&'static dyn RunPlan> {
        Some(&OpenCode)
    }
}
