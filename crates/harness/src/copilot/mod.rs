//! GitHub Copilot CLI.
//!
//! * [`layout`]: where its files are.
//! * Dialects: [`events`] decodes the lines of a session's `events.jsonl`, the primary source, and those that
//!   `copilot --output-format json` prints: the envelope is the same. [`stream`] finds the session of a stream, which
//!   names it late, [`hook`] the payloads of hooks. [`recognize`] finds the dialect of a line.
//! * Shared by the dialects: [`tools`] (tool calls and their ends).

mod events;
mod hook;
mod hook_answer;
mod hook_support;
mod layout;
mod recognize;
mod run_plan;
mod stated;
mod stream;
mod tools;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use subscope_decode::{Answers, Dialect, DialectSpec, Lifecycle, LinesDecoder};
use subscope_model::{SourceKind, ToolClass};

use self::layout::{HOME_FOLDER, HOME_VARIABLE, SESSIONS};
use crate::otel_setup::{OtelSetup, OtelTarget};
use crate::{Harness, HeadLine, Home, HookSupport, Place, RunPlan, SelfReport, SessionFiles, Variables};

/// The harness.
#[derive(Debug)]
pub struct Copilot;

const NAME: &str = "copilot";

/// `events.jsonl` of a session: all its agents, one event per line.
pub const EVENTS: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    is_main: true,
    ..DialectSpec::new("copilot.events", |hint| {
        Box::new(LinesDecoder::new(hint.source, events::Events::new(hint, SourceKind::Transcript)))
    })
});

/// What `copilot --output-format json` prints.
pub const STREAM: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    session_of: stream::session_of,
    lifecycle: Lifecycle { changes: stream::CHANGES, opens: None, spawns: None },
    ..DialectSpec::new("copilot.stream", |hint| {
        Box::new(LinesDecoder::new(hint.source, stream::Stream::new(hint)))
    })
});

/// Payloads of its hooks under the names of their events, one per line.
pub const HOOK: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    answers: Some(Answers { asker: hook_answer::asker, stop: hook_answer::stop_answer }),
    ..DialectSpec::new("copilot.hook", |hint| {
        Box::new(LinesDecoder::new(hint.source, hook::Hooks::new(hint)))
    })
});

/// Observed: 1.0.102 writes its spans into a file.
const OTEL_SETUP: OtelSetup = OtelSetup {
    file: None,
    target: |_, variables| match variables("COPILOT_OTEL_FILE_EXPORTER_PATH")
        .and_then(|path| path.into_string().ok())
    {
        Some(file) => OtelTarget::File(file),
        None => OtelTarget::Nowhere,
    },
    how: |_| "set COPILOT_OTEL_FILE_EXPORTER_PATH to a file, which `subscope tree FILE` reads".to_owned(),
};

impl Harness for Copilot {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Copilot CLI"
    }

    fn dialects(&self) -> &'static [Dialect] {
        &[EVENTS, STREAM, HOOK]
    }

    fn recognize(&self, line: HeadLine<'_>) -> Option<Dialect> {
        recognize::recognize(line)
    }

    fn tool_class(&self, tool: &str) -> ToolClass {
        tools::class(tool)
    }

    /// Returns `COPILOT_HOME`, else `$HOME/.copilot`.
    fn home(&self, variables: Variables<'_>) -> Home {
        Home::named(variables, HOME_VARIABLE, HOME_FOLDER)
    }

    fn project_variable(&self) -> Option<&'static str> {
        Some("COPILOT_PROJECT_DIR")
    }

    fn roots(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        let home = self.home(variables).folder;
        [SESSIONS, layout::OLD_SESSIONS].map(|folder| home.join(folder)).into()
    }

    fn classify(&self, path: &Path) -> Option<Place> {
        layout::session_of(path).map(layout::place).or_else(|| layout::unread(path))
    }

    fn classify_below(&self, root: &Path, path: &Path) -> Option<Place> {
        layout::session_below(root, path).map(layout::place).or_else(|| layout::unread(path))
    }

    fn target(&self, path: &Path) -> Option<SessionFiles> {
        if path.is_dir() {
            let main = path.join(layout::EVENTS_FILE);
            let session = layout::session_of(&main)?;
            return main.is_file().then(|| layout::files(&main, session));
        }
        Some(layout::files(path, layout::session_of(path)?))
    }

    fn session_files(&self, root: &Path, path: &Path, session: &str) -> SessionFiles {
        let main = match layout::session_below(root, path) {
            Some(_) => path.to_owned(),
            None => layout::main_below(root, session),
        };
        layout::files(&main, session)
    }

    fn session_of_folder(&self, root: &Path, folder: &Path) -> Option<SessionFiles> {
        let session = folder.strip_prefix(root).ok()?.iter().next()?.to_str()?;
        // The folder itself is listed for its transcript; what is below it belongs to the session.
        (folder.parent() != Some(root)).then(|| layout::files(&layout::main_below(root, session), session))
    }

    fn skips_folder(&self, name: &OsStr) -> bool {
        layout::SKIPPED.iter().any(|skipped| name == *skipped)
    }

    fn transcripts_of(&self, root: &Path, session: &str) -> Vec<PathBuf> {
        layout::transcripts(root, session).into_iter().filter(|path| path.is_file()).collect()
    }

    fn session_variable(&self) -> Option<&'static str> {
        Some("COPILOT_AGENT_SESSION_ID")
    }

    fn is_unpriced(&self) -> bool {
        true
    }

    /// Its spans follow the conventions; see `otel.genai`.
    fn otel_setup(&self) -> Option<&'static OtelSetup> {
        Some(&OTEL_SETUP)
    }

    fn otel_services(&self) -> &'static [&'static str] {
        &["github-copilot"]
    }

    fn hooks(&self) -> Option<&'static dyn HookSupport> {
        Some(&Copilot)
    }

    fn provider(&self) -> Option<(&'static str, &'static [&'static str])> {
        Some(("github", &[]))
    }

    fn gaps(&self) -> &'static [&'static str] {
        &[
            "costs are in premium requests and AI units (AIU), as the vendor counts them, not in dollars",
            "`copilot --output-format json` prints no tokens",
            "no hook says that an agent failed",
        ]
    }

    fn self_report(&self) -> Option<&'static SelfReport> {
        Some(&stated::SELF_REPORT)
    }

    fn run(&self) -> Option<&dyn RunPlan> {
        Some(&run_plan::PROGRAM)
    }
}
