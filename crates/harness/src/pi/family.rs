//! The programs of the family: oh-my-pi, which starts agents, pi, and OpenClaw, which is built on it. A program is a row:
//! what differs is data.
//!
//! Most lines are the same in all of them: a file is taken for pi's until a line of its beginning has a mark of another
//! program ([`subscope_decode::DialectSpec::is_shared`]).

use std::path::{Path, PathBuf};

use subscope_decode::{Decoder, Dialect, DialectSpec, Hint, Lifecycle, LinesDecoder};
use subscope_model::ToolClass;

use super::{entries, layout, recognize, run_plan::PROGRAM, stated, stream, tools};
use crate::{
    Harness, HeadLine, Home, Place, Role, RunPlan, SelfReport, SessionFiles, Variables,
    acp::{AcpAgent, PromptTokens},
    harness::user_home,
    run::AgentProgram,
};

/// The programs. The first takes files whose path is that of none of the others.
pub(super) static MEMBERS: &[&PiMember] = &[&OMP, &PI, &OPENCLAW];

/// A program of the family.
#[derive(Debug)]
pub struct PiMember {
    pub(super) name: &'static str,
    title: &'static str,
    /// The variable that moves its folder.
    variable: &'static str,
    /// Its folder below the user's home otherwise: the parts that name the program, and the rest.
    pub(super) folder: (&'static str, &'static str),
    /// Names that the first part had in older versions.
    pub(super) older: &'static [&'static str],
    /// The folder of sessions in that.
    pub(super) sessions: &'static str,
    pub(super) dialects: &'static [Dialect],
    /// The program, where `run` observes it.
    pub(super) program: Option<AgentProgram>,
    gaps: &'static [&'static str],
    unstoppable: &'static str,
}

/// Makes a program of its row: the module of its dialects, and the program.
macro_rules! member {
    (
        $(#[$words:meta])*
        $member:ident, $module:ident: $name:literal, $title:literal, shared: $shared:literal,
        entries: $entries:path, variable: $variable:literal, folder: $folder:expr, older: $older:expr, sessions: $sessions:literal,
        dialects: [$($dialect:ident),*], program: $program:expr,
        unstoppable: $unstoppable:literal, gaps: $gaps:expr
    ) => {
        #[doc = concat!("The dialects of ", $title, ".")]
        pub mod $module {
            use super::*;

            /// The lines of a session, or of an agent: one file each.
            pub const SESSION: Dialect = Dialect::new(&session($name, concat!($name, ".session"), $shared, $entries));
            /// What it prints in the modes for programs.
            pub const STREAM: Dialect = Dialect::new(&stream($name, concat!($name, ".stream"), $shared));
        }

        $(#[$words])*
        pub static $member: PiMember = PiMember {
            name: $name,
            title: $title,
            variable: $variable,
            folder: $folder,
            older: $older,
            sessions: $sessions,
            dialects: &[$($module::$dialect),*],
            program: $program,
            gaps: $gaps,
            unstoppable: $unstoppable,
        };
    };
}

member! {
    /// oh-my-pi. Observed: 18.2.3.
    OMP, omp: "omp", "oh-my-pi", shared: false,
    entries: entries::of_pi, variable: "PI_CODING_AGENT_DIR", folder: (".omp", "agent"), older: &[], sessions: "sessions",
    dialects: [SESSION, STREAM], program: Some(PROGRAM.named("omp")),
    unstoppable: "an extension of oh-my-pi refuses a call and ends no agent (18.2.3)",
    gaps: &[
        "no source has the version of the program",
        "`omp --mode json` and `--mode rpc` print the calls of the root alone, of its agents counters; `--mode rpc` names no session unless it is asked for its state",
        "tokens of titles and descriptions that a small model makes are in no source",
        "events of extensions are not read",
    ]
}

member! {
    /// pi. Its lines are known from public examples (2025-01 to 2026-05).
    PI, pi: "pi", "pi", shared: true,
    entries: entries::of_pi, variable: "PI_CODING_AGENT_DIR", folder: (".pi", "agent"), older: &[], sessions: "sessions",
    dialects: [SESSION, STREAM], program: Some(PROGRAM.named("pi")),
    unstoppable: "pi has no agents of its own",
    gaps: &[
        "no source has the version of the program",
        "pi has no agents of its own: those that an extension starts are sessions of their own",
    ]
}

member! {
    /// OpenClaw. Its lines are known from public examples (2026-02 to 2026-05).
    OPENCLAW, openclaw: "openclaw", "OpenClaw", shared: false,
    entries: entries::of_openclaw, variable: "OPENCLAW_STATE_DIR", folder: (".openclaw", ""), older: &[".clawdbot", ".moltbot"],
    sessions: "agents",
    dialects: [SESSION], program: None,
    unstoppable: "no way to end one of the agents of OpenClaw was tried",
    gaps: &[
        "no source has the version of the program",
        "the lines of an agent that a session of OpenClaw starts are a session of its own, which does not name that: it is shown beside it",
    ]
}

/// The dialect of files.
const fn session(
    harness: &'static str,
    name: &'static str,
    is_shared: bool,
    entries: fn(&Hint) -> Box<dyn Decoder>,
) -> DialectSpec {
    DialectSpec {
        harness: Some(harness),
        is_main: true,
        is_shared,
        is_ingestible: false,
        ..DialectSpec::new(name, entries)
    }
}

/// The dialect of what is printed.
const fn stream(harness: &'static str, name: &'static str, is_shared: bool) -> DialectSpec {
    DialectSpec {
        harness: Some(harness),
        session_of: stream::session_of,
        lifecycle: Lifecycle { changes: stream::CHANGES, opens: Some(stream::OPENS), spawns: None },
        is_shared,
        ..DialectSpec::new(name, |hint| Box::new(LinesDecoder::new(hint.source, stream::Stream::new(hint))))
    }
}

impl PiMember {
    /// The dialect of its files.
    pub(super) fn session(&self) -> Option<Dialect> {
        self.dialects.first().copied()
    }

    /// The dialect of what it prints.
    pub(super) fn stream(&self) -> Option<Dialect> {
        self.dialects.get(1).copied()
    }
}

impl Harness for PiMember {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn dialects(&self) -> &'static [Dialect] {
        self.dialects
    }

    fn recognize(&self, line: HeadLine<'_>) -> Option<Dialect> {
        // Who wrote the lines is found once, by [`Harness::fork_of`].
        (self.name == PI.name).then(|| recognize::recognize(line)).flatten()
    }

    fn fork_of(&self, dialect: Dialect, head: &[u8]) -> Option<Dialect> {
        (self.name == PI.name).then(|| recognize::writer(dialect, head)).flatten()
    }

    fn tool_class(&self, tool: &str) -> ToolClass {
        tools::class(tool)
    }

    fn home(&self, variables: Variables<'_>) -> Home {
        let (own, rest) = self.folder;
        let home = Home::named(variables, self.variable, own);
        if home.is_chosen || rest.is_empty() { home } else { Home { folder: home.folder.join(rest), ..home } }
    }

    fn other_homes(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        self.older.iter().map(|name| user_home(variables).join(name)).collect()
    }

    fn roots(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        vec![self.home(variables).folder.join(self.sessions)]
    }

    fn classify(&self, path: &Path) -> Option<Place> {
        let is_own = std::ptr::eq(layout::owner_of(path), self);
        is_own.then(|| layout::place(path, self)).flatten()
    }

    fn classify_below(&self, _: &Path, path: &Path) -> Option<Place> {
        layout::place(path, self)
    }

    fn complete(&self, path: &Path, place: &Place, line: &[u8]) -> Option<Place> {
        Some(Place { session: layout::session_of(path, line), ..place.clone() })
    }

    fn target(&self, path: &Path) -> Option<SessionFiles> {
        if path.is_dir() {
            let files = layout::files_of_folder(path, self)?;
            return (std::ptr::eq(layout::owner_of(path), self) && files.main.is_file()).then_some(files);
        }
        let place = self.classify(path).filter(|place| place.role == Role::Main)?;
        Some(layout::files(path, &place.session?, self))
    }

    fn session_files(&self, root: &Path, path: &Path, session: &str) -> SessionFiles {
        let main = layout::main_of(path).unwrap_or_else(|| root.join(format!("{session}.jsonl")));
        layout::files(&main, session, self)
    }

    fn session_of_folder(&self, root: &Path, folder: &Path) -> Option<SessionFiles> {
        let inside = folder.ancestors().take_while(|above| *above != root);
        inside.filter_map(|above| layout::files_of_folder(above, self)).last()
    }

    fn transcripts_of(&self, root: &Path, session: &str) -> Vec<PathBuf> {
        layout::transcripts_of(root, session)
    }

    /// Observed: oh-my-pi 18.2.3. Its call that starts agents reports them while it runs.
    fn acp(&self) -> Option<&'static AcpAgent> {
        const OMP_AGENT: AcpAgent = AcpAgent {
            names: &["oh-my-pi"],
            tools: &[("execute", "bash")],
            tokens: PromptTokens::Tree,
            ..AcpAgent::PLAIN
        };
        (self.name == OMP.name).then_some(&OMP_AGENT)
    }

    fn gaps(&self) -> &'static [&'static str] {
        self.gaps
    }

    fn why_unstoppable(&self) -> Option<&'static str> {
        Some(self.unstoppable)
    }

    fn self_report(&self) -> Option<&'static SelfReport> {
        // Only the program that starts agents states totals.
        (self.name == OMP.name).then_some(&stated::SELF_REPORT)
    }

    fn run(&self) -> Option<&dyn RunPlan> {
        self.program.as_ref().map(|program| program as &dyn RunPlan)
    }

    fn printed(&self, found: Dialect) -> Dialect {
        let own = self.stream().filter(|_| found == pi::STREAM || found == pi::SESSION);
        own.unwrap_or(found)
    }
}
