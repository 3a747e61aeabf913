//! Cline CLI. What its extension for editors kept before is read by [`crate::task_folders`].
//!
//! * [`layout`]: the folders of its sessions, its database of them, and the meaning of their paths.
//! * Dialects: [`messages`] decodes the conversation of a session or of one agent, the primary source, [`rows`] what the
//!   database and the object about a session say of the session and its agents, [`stream`] what `cline --json` prints,
//!   [`hook`] the payloads of its hooks. [`recognize`] finds the dialect of a line.
//! * Shared by the dialects: [`tools`] (tool calls and their results, endings).

mod hook;
mod layout;
mod messages;
mod recognize;
mod rows;
mod run_plan;
mod stated;
mod stream;
#[cfg(test)]
mod tests;
mod tools;

use std::path::{Path, PathBuf};

use subscope_decode::{Dialect, DialectSpec, Lifecycle, LineSession, LinesDecoder, ObjectDecoder};
use subscope_model::ToolClass;

use crate::{
    Bundle, Harness, HeadLine, Home, Place, Role, RunPlan, SelfReport, SessionFiles, Variables,
    harness::folder_in,
};

/// The harness.
#[derive(Debug)]
pub struct Cline;

const NAME: &str = "cline";

/// `*.messages.json`: the conversation of a session, or of one agent, as one object.
pub const MESSAGES: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    is_main: true,
    is_object: true,
    is_ingestible: false,
    ..DialectSpec::new("cline.messages", |hint| {
        Box::new(ObjectDecoder::new(hint.source, messages::Messages(hint.clone())))
    })
});

/// `<session>.json`: one object about a session.
pub const STATE: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    is_object: true,
    is_ingestible: false,
    ..DialectSpec::new("cline.state", |hint| {
        Box::new(ObjectDecoder::new(hint.source, rows::Rows(hint.clone())))
    })
});

/// The rows of the database about a session and its agents, as one object.
pub const ROWS: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    is_object: true,
    is_ingestible: false,
    ..DialectSpec::new("cline.rows", |hint| {
        Box::new(ObjectDecoder::new(hint.source, rows::Rows(hint.clone())))
    })
});

/// What `cline --json` prints.
pub const STREAM: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    is_anonymous: true,
    is_ingestible: false,
    lifecycle: Lifecycle { changes: stream::CHANGES, opens: None, spawns: None },
    ..DialectSpec::new("cline.stream", |hint| {
        Box::new(LinesDecoder::new(hint.source, stream::Stream::new(hint)))
    })
});

/// Payloads of its hooks, one per line.
pub const HOOK: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    session_of: |lines| lines.split(|byte| *byte == b'\n').find_map(hook::session_of),
    line_session: |line| hook::session_of(line).map_or(LineSession::Same, LineSession::Named),
    ..DialectSpec::new("cline.hook", |hint| Box::new(LinesDecoder::new(hint.source, hook::Hooks::new(hint))))
});

impl Harness for Cline {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Cline CLI"
    }

    fn dialects(&self) -> &'static [Dialect] {
        &[MESSAGES, STATE, ROWS, STREAM, HOOK]
    }

    fn recognize(&self, line: HeadLine<'_>) -> Option<Dialect> {
        recognize::recognize(line)
    }

    fn tool_class(&self, tool: &str) -> ToolClass {
        tools::class(tool)
    }

    /// Returns `CLINE_DATA_DIR`, else `data` in `CLINE_DIR` or `$HOME/.cline`.
    fn home(&self, variables: Variables<'_>) -> Home {
        let moved = folder_in(variables, layout::FOLDER_VARIABLE).map(|folder| folder.join(layout::DATA));
        let home = Home::named(variables, layout::HOME_VARIABLE, layout::HOME_FOLDER);
        match moved.filter(|_| !home.is_chosen) {
            Some(folder) => Home { folder, variable: layout::FOLDER_VARIABLE, is_chosen: true },
            None => home,
        }
    }

    fn roots(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        vec![self.home(variables).folder]
    }

    fn classify(&self, path: &Path) -> Option<Place> {
        layout::place(path)
    }

    fn classify_below(&self, _: &Path, path: &Path) -> Option<Place> {
        layout::place(path)
    }

    fn bundle(&self, path: &Path) -> Option<&'static Bundle> {
        layout::is_database(path).then_some(&rows::DATABASE)
    }

    fn target(&self, path: &Path) -> Option<SessionFiles> {
        let folder = match layout::place(path) {
            Some(place) if place.role != Role::Other => layout::folder_of(path, place.session.as_deref()?)?,
            _ => path.to_owned(),
        };
        layout::files(&folder)
    }

    fn session_files(&self, root: &Path, path: &Path, session: &str) -> SessionFiles {
        let folder = layout::folder_of(path, session);
        layout::files_of(&folder.unwrap_or_else(|| root.join(layout::SESSIONS).join(session)), session)
    }

    fn session_of_folder(&self, root: &Path, folder: &Path) -> Option<SessionFiles> {
        let inside = folder.ancestors().take_while(|above| *above != root);
        inside.filter_map(layout::files).last()
    }

    /// Its other folders hold logs, caches and what it changed.
    fn skips_folder(&self, name: &std::ffi::OsStr) -> bool {
        name == "globalStorage" || name == "workspaces"
    }

    fn companion(&self, transcript: &Path) -> Option<PathBuf> {
        let place = layout::place(transcript).filter(|place| place.role == Role::Main)?;
        Some(transcript.with_file_name(format!("{}.json", place.session?)))
    }

    fn transcripts_of(&self, root: &Path, session: &str) -> Vec<PathBuf> {
        let main = layout::files_of(&root.join(layout::SESSIONS).join(session), session).main;
        main.is_file().then_some(main).into_iter().collect()
    }

    fn gaps(&self) -> &'static [&'static str] {
        &[
            "the file of an agent is written when the agent ends: of one that is killed the database has a row, and what `cline --json` prints its calls",
            "what `cline --json` prints names no session, and no agent in the lines of calls and tokens",
            "neither that nor hooks say which of several calls of one message started which agent: without the files that is a guess by their order",
            "hooks do not name the teammates of a team; `subscope hooks` does not install them, as each is a program of its own",
            "whether the process of a session still lives is not looked at: a session that was killed is lost after its silence",
        ]
    }

    fn why_unstoppable(&self) -> Option<&'static str> {
        Some("`subscope hooks` installs no hooks of Cline CLI, whose answers could end an agent (3.0.65)")
    }

    fn self_report(&self) -> Option<&'static SelfReport> {
        Some(&stated::SELF_REPORT)
    }

    fn run(&self) -> Option<&dyn RunPlan> {
        Some(&run_plan::PROGRAM)
    }
}
