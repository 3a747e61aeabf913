//! A made-up harness, `example`: a dry run of what a second one takes. It is one folder like this, and one line of the
//! registry.
//!
//! ```text
//! ~/.example/2026/11/23/<session>.exl             one line an entry: {"say": "prompt", "session": "s", "text": "…"}
//! ~/.example/2026/11/23/<session>.<agent>.exl     the same of one subagent
//! ```

mod log;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use subscope_decode::{Dialect, DialectSpec, LinesDecoder};
use subscope_harness::{Harness, HeadLine, Home, Place, Role, SessionFiles, Variables, register};
use subscope_model::ToolClass;

/// The harness.
#[derive(Debug)]
pub struct Example;

/// Its one dialect.
pub const LOG: Dialect = Dialect::new(&DialectSpec {
    harness: Some("example"),
    is_main: true,
    ..DialectSpec::new("example.log", |hint| Box::new(LinesDecoder::new(hint.source, log::Log::new(hint))))
});

const ENDING: &str = "exl";

/// Adds it to the registry of this process.
pub fn register_example() {
    register(&Example);
}

impl Harness for Example {
    fn name(&self) -> &'static str {
        "example"
    }

    fn title(&self) -> &'static str {
        "Example"
    }

    fn dialects(&self) -> &'static [Dialect] {
        &[LOG]
    }

    fn recognize(&self, line: HeadLine<'_>) -> Option<Dialect> {
        log::is_entry(line.object).then_some(LOG)
    }

    fn tool_class(&self, _tool: &str) -> ToolClass {
        ToolClass::Other
    }

    fn home(&self, variables: Variables<'_>) -> Home {
        let folder = PathBuf::from(variables("HOME").unwrap_or_default()).join(".example");
        Home { folder, variable: "EXAMPLE_HOME", is_chosen: false }
    }

    fn roots(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        vec![self.home(variables).folder]
    }

    fn classify(&self, path: &Path) -> Option<Place> {
        let stem = path.file_stem().filter(|_| path.extension() == Some(OsStr::new(ENDING)))?.to_str()?;
        let (session, agent) = match stem.split_once('.') {
            Some((session, agent)) => (session, Some(agent.to_owned())),
            None => (stem, None),
        };
        let role = if agent.is_some() { Role::Agent } else { Role::Main };
        Some(Place { role, dialect: Some(LOG), session: Some(session.to_owned()), agent, workflow: None })
    }

    fn classify_below(&self, root: &Path, path: &Path) -> Option<Place> {
        self.classify(path).filter(|_| path.starts_with(root))
    }

    fn target(&self, path: &Path) -> Option<SessionFiles> {
        let place = self.classify(path).filter(|place| place.role == Role::Main && path.is_file())?;
        Some(files(path.parent()?, &place.session?))
    }

    fn session_files(&self, _root: &Path, path: &Path, session: &str) -> SessionFiles {
        files(path.parent().unwrap_or(path), session)
    }

    fn session_of_folder(&self, _root: &Path, _folder: &Path) -> Option<SessionFiles> {
        None
    }

    fn skips_folder(&self, _name: &OsStr) -> bool {
        false
    }

    fn companion(&self, _transcript: &Path) -> Option<PathBuf> {
        None
    }

    fn complete(&self, _path: &Path, _place: &Place, _line: &[u8]) -> Option<Place> {
        None
    }

    fn transcripts_of(&self, _root: &Path, _session: &str) -> Vec<PathBuf> {
        Vec::new()
    }

    fn short_model<'m>(&self, _model: &'m str) -> Option<&'m str> {
        None
    }
}

fn files(folder: &Path, session: &str) -> SessionFiles {
    let place = Place {
        role: Role::Main,
        dialect: Some(LOG),
        session: Some(session.to_owned()),
        agent: None,
        workflow: None,
    };
    SessionFiles {
        session: session.to_owned(),
        main: folder.join(format!("{session}.{ENDING}")),
        place,
        folders: Vec::new(),
        shared: vec![folder.to_owned()],
    }
}
