//! Kimi Code. Its older Python program, `kimi-cli`, writes other files, which are not read.
//!
//! * [`layout`]: where its files are, and the meaning of their paths.
//! * Dialects: [`wire`] decodes the lines of each agent, the primary source, [`state`] the object about a session,
//!   [`stream`] what `kimi -p --output-format stream-json` prints, [`hook`] the payloads of its hooks. [`recognize`] finds
//!   the dialect of a line.
//! * Shared by the dialects: [`tools`] (tool calls, results of calls that start agents, endings).

mod hook;
mod layout;
mod recognize;
mod run_plan;
mod state;
mod stated;
mod stream;
#[cfg(test)]
mod tests;
mod tools;
mod wire;

use std::path::{Path, PathBuf};

use subscope_decode::{
    Dialect, DialectSpec, Lifecycle, LineSession, LinesDecoder, ObjectDecoder, session_of as line_names,
};
use subscope_model::ToolClass;

use crate::{
    Harness, HeadLine, Home, Place, Role, RunPlan, SelfReport, SessionFiles, Variables, acp::AcpAgent,
};

/// The harness.
#[derive(Debug)]
pub struct Kimi;

const NAME: &str = "kimi";

/// `wire.jsonl`: what one agent does, and the lives of the agents that it starts.
pub const WIRE: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    is_main: true,
    is_ingestible: false,
    ..DialectSpec::new("kimi.wire", |hint| Box::new(LinesDecoder::new(hint.source, wire::Wire::new(hint))))
});

/// `state.json`: one object about a session.
pub const STATE: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    is_object: true,
    is_ingestible: false,
    ..DialectSpec::new("kimi.state", |hint| {
        Box::new(ObjectDecoder::new(hint.source, state::State(hint.clone())))
    })
});

/// What `kimi -p --output-format stream-json` prints.
pub const STREAM: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    session_of: stream::session_of,
    lifecycle: Lifecycle { changes: stream::CHANGES, opens: None, spawns: None },
    ..DialectSpec::new("kimi.stream", |hint| {
        Box::new(LinesDecoder::new(hint.source, stream::Stream::new(hint)))
    })
});

/// Payloads of its hooks, one per line.
pub const HOOK: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    session_of: |lines| lines.split(|byte| *byte == b'\n').find_map(line_names),
    line_session: |line| line_names(line).map_or(LineSession::Same, LineSession::Named),
    ..DialectSpec::new("kimi.hook", |hint| Box::new(LinesDecoder::new(hint.source, hook::Hooks::new(hint))))
});

impl Harness for Kimi {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Kimi Code"
    }

    fn dialects(&self) -> &'static [Dialect] {
        &[WIRE, STATE, STREAM, HOOK]
    }

    fn recognize(&self, line: HeadLine<'_>) -> Option<Dialect> {
        recognize::recognize(line)
    }

    fn tool_class(&self, tool: &str) -> ToolClass {
        tools::class(tool)
    }

    /// Returns `KIMI_CODE_HOME`, else `$HOME/.kimi-code`.
    fn home(&self, variables: Variables<'_>) -> Home {
        Home::named(variables, layout::HOME_VARIABLE, layout::HOME_FOLDER)
    }

    fn roots(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        vec![self.home(variables).folder.join(layout::SESSIONS)]
    }

    fn classify(&self, path: &Path) -> Option<Place> {
        layout::classify(path)
    }

    fn classify_below(&self, root: &Path, path: &Path) -> Option<Place> {
        let session = layout::session_below(root, path)?;
        layout::place_in(&session, path)
    }

    fn target(&self, path: &Path) -> Option<SessionFiles> {
        if path.is_dir() {
            let is_session = layout::main_path(path).is_file() || layout::is_session(path);
            return is_session.then(|| layout::files(path))?;
        }
        let place = layout::classify(path).filter(|place| place.role != Role::Other)?;
        layout::files(layout::folder_of(path, &place)?)
    }

    fn session_files(&self, root: &Path, path: &Path, session: &str) -> SessionFiles {
        let folder = layout::session_below(root, path)
            .or_else(|| layout::folder_of(path, &layout::classify(path)?).map(Path::to_owned));
        layout::files_of(&folder.unwrap_or_else(|| root.join(session)), session)
    }

    fn session_of_folder(&self, root: &Path, folder: &Path) -> Option<SessionFiles> {
        layout::files(&layout::session_below(root, folder)?)
    }

    fn companion(&self, transcript: &Path) -> Option<PathBuf> {
        let place = layout::classify(transcript).filter(|place| place.role == Role::Main)?;
        Some(layout::folder_of(transcript, &place)?.join(layout::STATE_FILE))
    }

    fn transcripts_of(&self, root: &Path, session: &str) -> Vec<PathBuf> {
        let projects = std::fs::read_dir(root).into_iter().flatten().flatten();
        let mains = projects.map(|project| layout::main_path(&project.path().join(session)));
        mains.filter(|path| path.is_file()).collect()
    }

    /// Observed: 2.1.0. It tells of no agents; the result of a call names the one that it started.
    fn acp(&self) -> Option<&'static AcpAgent> {
        const AGENT: AcpAgent =
            AcpAgent { names: &["Kimi Code CLI"], numbers_calls: true, ..AcpAgent::PLAIN };
        Some(&AGENT)
    }

    fn gaps(&self) -> &'static [&'static str] {
        &[
            "no source has a cost, and no file the version of the program",
            "`kimi --output-format stream-json` prints no times and no tokens, of most failed calls the text alone, an agent once its call has ended, and the session in its last line",
            "hooks do not say in which agent they fire; `subscope hooks` does not install them, as their settings are TOML",
        ]
    }

    fn why_unstoppable(&self) -> Option<&'static str> {
        Some("the hooks of Kimi Code do not name the agent (2.1.0)")
    }

    fn self_report(&self) -> Option<&'static SelfReport> {
        Some(&stated::SELF_REPORT)
    }

    fn run(&self) -> Option<&dyn RunPlan> {
        Some(&run_plan::PROGRAM)
    }
}
