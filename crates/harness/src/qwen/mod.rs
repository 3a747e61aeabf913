//! Qwen Code: a fork of Gemini CLI with files of its own layout.
//!
//! * [`layout`]: where its files are, and the meaning of their paths.
//! * Dialects: [`chat`] decodes the chats of sessions and agents, [`meta`] the small files next to those of agents,
//!   [`stream`] what `qwen --output-format stream-json` prints, [`hook`] the payloads of its hooks. [`recognize`] finds
//!   the dialect of a line.
//! * Shared by the dialects: [`tools`] (tool calls, endings).

mod chat;
mod hook;
mod hook_support;
mod layout;
mod meta;
mod recognize;
mod run_plan;
mod stated;
mod stream;
mod tools;

use std::{
    fs,
    path::{Path, PathBuf},
};

use subscope_decode::{
    Dialect, DialectSpec, Lifecycle, LineSession, LinesDecoder, ObjectDecoder, session_of as line_names,
};
use subscope_model::ToolClass;

use self::layout::{HOME_FOLDER, HOME_VARIABLE, PROJECTS, RUNTIME_VARIABLE};
use crate::{
    Harness, HeadLine, Home, HookSupport, Place, Role, RunPlan, SelfReport, SessionFiles, Variables,
    harness::folder_in,
};

/// The harness.
#[derive(Debug)]
pub struct Qwen;

const NAME: &str = "qwen";

/// Conversations on disk, one line an entry: of a session, or of one of its agents.
pub const CHAT: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    is_main: true,
    names_session: true,
    session_of: |lines| lines.split(|byte| *byte == b'\n').find_map(line_names),
    line_session: |line| line_names(line).map_or(LineSession::Same, LineSession::Named),
    ..DialectSpec::new("qwen.chat", |hint| Box::new(LinesDecoder::new(hint.source, chat::Chat::new(hint))))
});

/// `agent-<id>.meta.json`: one object about one agent.
pub const META: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    is_object: true,
    names_session: true,
    is_ingestible: false,
    ..DialectSpec::new("qwen.meta", |hint| {
        Box::new(ObjectDecoder::new(hint.source, meta::Meta(hint.clone())))
    })
});

/// What `qwen --output-format stream-json` prints.
pub const STREAM: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    session_of: |lines| lines.split(|byte| *byte == b'\n').find_map(line_names),
    line_session: |line| line_names(line).map_or(LineSession::Same, LineSession::Named),
    lifecycle: Lifecycle { changes: stream::CHANGES, opens: Some("\"init\""), spawns: None },
    ..DialectSpec::new("qwen.stream", |hint| {
        Box::new(LinesDecoder::new(hint.source, stream::Stream::new(hint)))
    })
});

/// Hook payloads, one per line.
pub const HOOK: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    session_of: |lines| lines.split(|byte| *byte == b'\n').find_map(line_names),
    line_session: |line| line_names(line).map_or(LineSession::Same, LineSession::Named),
    ..DialectSpec::new("qwen.hook", |hint| Box::new(LinesDecoder::new(hint.source, hook::Hooks::new(hint))))
});

impl Harness for Qwen {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Qwen Code"
    }

    fn dialects(&self) -> &'static [Dialect] {
        &[CHAT, META, STREAM, HOOK]
    }

    fn recognize(&self, line: HeadLine<'_>) -> Option<Dialect> {
        recognize::recognize(line)
    }

    fn tool_class(&self, tool: &str) -> ToolClass {
        tools::class(tool)
    }

    /// Returns `QWEN_RUNTIME_DIR`, else `QWEN_HOME`, else `$HOME/.qwen`.
    fn home(&self, variables: Variables<'_>) -> Home {
        let is_moved = folder_in(variables, RUNTIME_VARIABLE).is_some();
        let variable = if is_moved { RUNTIME_VARIABLE } else { HOME_VARIABLE };
        Home::named(variables, variable, HOME_FOLDER)
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
        if path.is_dir() {
            let (project, session) = layout::session_of_folder(path)?;
            return path.exists().then(|| layout::files(project, session));
        }
        let place = layout::classify(path).filter(|place| place.role == Role::Main)?;
        Some(layout::files(path.parent()?.parent()?, &place.session?))
    }

    fn session_files(&self, _: &Path, path: &Path, session: &str) -> SessionFiles {
        layout::files(layout::project_of(path).unwrap_or(path), session)
    }

    fn session_of_folder(&self, root: &Path, folder: &Path) -> Option<SessionFiles> {
        let below = folder.ancestors().take_while(|above| *above != root);
        let (project, session) = below.filter_map(layout::session_of_folder).next()?;
        Some(layout::files(project, session))
    }

    fn companion(&self, transcript: &Path) -> Option<PathBuf> {
        let is_agent = layout::classify(transcript).is_some_and(|place| place.role == Role::Agent);
        is_agent.then(|| transcript.with_extension("meta.json"))
    }

    fn transcripts_of(&self, root: &Path, session: &str) -> Vec<PathBuf> {
        let projects = fs::read_dir(root).into_iter().flatten().flatten();
        let mains = projects.map(|project| layout::main_path(&project.path(), session));
        mains.filter(|path| path.is_file()).collect()
    }

    fn hooks(&self) -> Option<&'static dyn HookSupport> {
        Some(&Qwen)
    }

    fn session_variable(&self) -> Option<&'static str> {
        Some("QWEN_CODE_SESSION_ID")
    }

    fn provider(&self) -> Option<(&'static str, &'static [&'static str])> {
        Some(("qwen", &["qwen"]))
    }

    fn gaps(&self) -> &'static [&'static str] {
        &["`qwen --output-format stream-json` prints no calls and no tokens of agents in the background"]
    }

    fn why_unstoppable(&self) -> Option<&'static str> {
        Some("Qwen Code refuses the call that a hook answers, and the agent continues (0.24.4)")
    }

    fn self_report(&self) -> Option<&'static SelfReport> {
        Some(&stated::SELF_REPORT)
    }

    fn run(&self) -> Option<&dyn RunPlan> {
        Some(&run_plan::PROGRAM)
    }
}
