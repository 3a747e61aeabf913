//! Gemini CLI.
//!
//! * [`layout`]: where its files are, and the meaning of their paths.
//! * Dialects: [`chat`] decodes the chats of sessions and agents, the primary source, in both formats. [`stream`] is
//!   what `gemini --output-format stream-json` prints: the root alone. [`hook`] decodes the payloads of hooks,
//!   [`telemetry`] the local telemetry file, [`otel`] the same events as OTLP. [`recognize`] finds the dialect of a
//!   line.
//! * Shared by the dialects: [`record`] (messages, tokens), [`tools`] (tool calls and their ends).

mod chat;
mod hook;
mod hook_support;
mod layout;
mod otel;
mod recognize;
mod record;
mod run_plan;
mod stated;
mod stream;
mod telemetry;
mod tools;

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use subscope_decode::{
    Dialect, DialectSpec, Lifecycle, LineSession, LinesDecoder, ObjectDecoder, ObjectsDecoder,
    otlp::{OtelLines, OtelSource, session_of_line, session_of_lines},
    session_of as line_names,
};
use subscope_model::ToolClass;

use self::layout::{HOME_FOLDER, HOME_VARIABLE, PROJECTS};
use crate::otel_setup::{OtelSetup, OtelTarget, json};
use crate::{Harness, HeadLine, Home, HookSupport, Place, RunPlan, SelfReport, SessionFiles, Variables};

/// The harness.
#[derive(Debug)]
pub struct Gemini;

const NAME: &str = "gemini";

/// Conversations on disk, one record per line: of a session, or of one of its agents.
pub const CHAT: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    is_main: true,
    ..DialectSpec::new("gemini.chat", |hint| Box::new(LinesDecoder::new(hint.source, chat::Chat::new(hint))))
});

/// Conversations on disk up to 0.34: one object, rewritten as a whole.
pub const SESSION: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    is_main: true,
    is_object: true,
    is_ingestible: false,
    ..DialectSpec::new("gemini.session", |hint| {
        Box::new(ObjectDecoder::new(hint.source, chat::Session(chat::Chat::new(hint))))
    })
});

/// What `gemini --output-format stream-json` prints.
pub const STREAM: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    session_of: |lines| lines.split(|byte| *byte == b'\n').find_map(line_names),
    lifecycle: Lifecycle { changes: stream::CHANGES, opens: Some("\"init\""), spawns: None },
    ..DialectSpec::new("gemini.stream", |hint| {
        Box::new(LinesDecoder::new(hint.source, stream::Stream::new(hint)))
    })
});

/// Payloads of its hooks, one per line.
pub const HOOK: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    session_of: |lines| lines.split(|byte| *byte == b'\n').find_map(line_names),
    line_session: |line| line_names(line).map_or(LineSession::Same, LineSession::Named),
    ..DialectSpec::new("gemini.hook", |hint| Box::new(LinesDecoder::new(hint.source, hook::Hooks::new(hint))))
});

/// Its local telemetry file: records and spans, pretty-printed one after another.
pub const TELEMETRY: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    is_ingestible: false,
    ..DialectSpec::new("gemini.telemetry", |hint| {
        Box::new(ObjectsDecoder::new(hint.source, telemetry::Telemetry::new(hint)))
    })
});

/// OpenTelemetry records: the log events of its telemetry file.
pub const OTEL: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    session_of: |lines| session_of_lines(&otel::RECORDS, lines),
    line_session: |line| session_of_line(&otel::RECORDS, line),
    ..DialectSpec::new("gemini.otel", |hint| {
        let lines = OtelLines::new(otel::Records::new(hint), (hint.otel_sources)(), hint.session.clone());
        Box::new(LinesDecoder::new(hint.source, lines))
    })
});

/// The object `telemetry` of its settings.
const OTEL_SETUP: OtelSetup = OtelSetup {
    file: Some("settings.json"),
    target: |text, _| {
        let settings = json(text);
        let telemetry = &settings["telemetry"];
        let word = |name: &str| telemetry.get(name)?.as_str();
        match (telemetry["enabled"] == true, word("outfile"), word("otlpEndpoint")) {
            (true, Some(file), _) => OtelTarget::File(file.to_owned()),
            (true, None, Some(url)) => OtelTarget::Receiver(url.to_owned()),
            _ => OtelTarget::Nowhere,
        }
    },
    how: |url| {
        format!(
            "in its settings.json: {{ \"telemetry\": {{ \"enabled\": true, \"target\": \"local\", \"otlpEndpoint\": \"{url}\" }} }}"
        )
    },
};

impl Harness for Gemini {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Gemini CLI"
    }

    fn dialects(&self) -> &'static [Dialect] {
        &[CHAT, SESSION, STREAM, HOOK, TELEMETRY, OTEL]
    }

    fn recognize(&self, line: HeadLine<'_>) -> Option<Dialect> {
        recognize::recognize(line)
    }

    fn tool_class(&self, tool: &str) -> ToolClass {
        tools::class(tool)
    }

    /// Returns `$GEMINI_CLI_HOME/.gemini`, else `$HOME/.gemini`.
    fn home(&self, variables: Variables<'_>) -> Home {
        let home = Home::named(variables, HOME_VARIABLE, "");
        Home { folder: home.folder.join(HOME_FOLDER), ..home }
    }

    fn work_tree_folder(&self) -> Option<&'static str> {
        Some(".gemini/worktrees")
    }

    fn project_variable(&self) -> Option<&'static str> {
        Some("GEMINI_PROJECT_DIR")
    }

    fn roots(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        vec![self.home(variables).folder.join(PROJECTS)]
    }

    fn classify(&self, path: &Path) -> Option<Place> {
        layout::classify(path)
    }

    fn classify_below(&self, root: &Path, path: &Path) -> Option<Place> {
        path.starts_with(root).then(|| layout::classify(path))?
    }

    fn target(&self, path: &Path) -> Option<SessionFiles> {
        let main = if path.is_dir() { layout::main_of_folder(path)? } else { path.to_owned() };
        let place = layout::classify(&main).filter(|place| place.agent.is_none())?;
        let session = layout::session_in_file(&main)?;
        Some(layout::files(&main, &session, place))
    }

    fn session_files(&self, root: &Path, path: &Path, session: &str) -> SessionFiles {
        let main = match layout::classify(path) {
            Some(place) if place.agent.is_none() => path.to_owned(),
            _ => self.transcripts_of(root, session).pop().unwrap_or_else(|| path.to_owned()),
        };
        let place = layout::classify(&main).unwrap_or(Place::UNKNOWN);
        layout::files(&main, session, place)
    }

    fn session_of_folder(&self, root: &Path, folder: &Path) -> Option<SessionFiles> {
        let session = layout::session_of_folder(root, folder)?;
        let main = layout::main_of_folder(folder)
            .unwrap_or_else(|| folder.with_file_name(layout::main_name(session)));
        let place = layout::classify(&main).unwrap_or(Place::UNKNOWN);
        Some(layout::files(&main, session, place))
    }

    fn skips_folder(&self, name: &OsStr) -> bool {
        layout::SKIPPED.iter().any(|skipped| name == *skipped)
    }

    fn complete(&self, path: &Path, place: &Place, line: &[u8]) -> Option<Place> {
        let in_object = || layout::session_in_file(path).filter(|_| place.dialect == Some(SESSION));
        let session = layout::session_in_line(line).or_else(in_object)?;
        Some(Place { session: Some(session), ..place.clone() })
    }

    fn transcripts_of(&self, root: &Path, session: &str) -> Vec<PathBuf> {
        let projects = fs::read_dir(root).into_iter().flatten().flatten();
        let chats = projects.map(|project| project.path().join(layout::CHATS));
        chats.flat_map(|chats| layout::mains_of(&chats, session)).collect()
    }

    fn short_model<'m>(&self, model: &'m str) -> Option<&'m str> {
        model.strip_prefix("gemini-")
    }

    fn otel(&self) -> Option<&'static OtelSource> {
        Some(&otel::RECORDS)
    }

    fn otel_setup(&self) -> Option<&'static OtelSetup> {
        Some(&OTEL_SETUP)
    }

    fn hooks(&self) -> Option<&'static dyn HookSupport> {
        Some(&Gemini)
    }

    fn provider(&self) -> Option<(&'static str, &'static [&'static str])> {
        Some(("gcp.gemini", &["gemini-"]))
    }

    fn gaps(&self) -> &'static [&'static str] {
        &[
            "no source has a cost, or the version of the program",
            "`gemini --output-format stream-json` prints no calls of agents",
            "hooks do not say in which agent they fire",
        ]
    }

    fn why_unstoppable(&self) -> Option<&'static str> {
        Some(
            "the hooks of Gemini CLI do not name the agent, and their answer can end the whole session only (0.61.0)",
        )
    }

    fn self_report(&self) -> Option<&'static SelfReport> {
        Some(&stated::SELF_REPORT)
    }

    fn run(&self) -> Option<&dyn RunPlan> {
        Some(&run_plan::PROGRAM)
    }
}
