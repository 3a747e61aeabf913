//! The programs of the family: OpenCode, and its forks, which write the same lines under names of their own. A fork is a
//! row: what differs is data.
//!
//! Nothing in most lines says which program wrote them: its database is known by its name or by a table of its own, what
//! it prints by a field of the end of a step. Other lines are taken for OpenCode's until a source says otherwise
//! ([`subscope_decode::DialectSpec::is_shared`]).

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use subscope_decode::{Dialect, DialectSpec, Lifecycle, LinesDecoder, ObjectDecoder};
use subscope_model::{Clock, SourceKind, ToolClass};

use super::{
    bundles,
    events::Events,
    export::Export,
    hook_support, layout, recognize,
    run_plan::PROGRAM,
    stated,
    stdout::{self, Stdout},
    tools,
};
use crate::{
    Bundle, Harness, HeadLine, Home, HookSupport, Place, RunPlan, SelfReport, SessionFiles, Variables,
    acp::AcpAgent, harness::folder_in, run::AgentProgram,
};

/// The programs, OpenCode first: what no fork's mark is in is its own.
pub(super) static MEMBERS: &[&Member] = &[&OPENCODE, &KILO, &MIMOCODE, &ICODEMATE];

/// A program of the family.
pub struct Member {
    /// Its name, which is that of its folder in the folder of data, and of its databases there.
    pub(super) name: &'static str,
    title: &'static str,
    /// The program, where `run` observes it.
    pub(super) program: Option<AgentProgram>,
    /// Variables that name the folder of its database in place of the folder of data: with what follows, or nothing where
    /// the value is the database itself.
    variables: &'static [(&'static str, Option<&'static str>)],
    pub(super) dialects: &'static [Dialect],
    /// A session of the database, or of a folder of objects: one event per line.
    pub(super) database: Dialect,
    /// What its server sends at `/event` and `/global/event`.
    pub(super) events: Dialect,
    /// What `PROGRAM run --format json` prints.
    pub(super) stdout: Dialect,
    /// What `PROGRAM export` prints: one object.
    pub(super) export: Dialect,
    /// The form of its database, and of its folder of objects.
    pub(super) in_database: Bundle,
    pub(super) in_folder: Bundle,
    /// How its `acp` speaks the protocol, where that is known.
    acp: Option<&'static AcpAgent>,
    gaps: &'static [&'static str],
    /// Why none of its agents can be stopped alone; `None` where our plugin can.
    unstoppable: Option<&'static str>,
    hooks: Option<&'static dyn HookSupport>,
}

/// OpenCode.
pub static OPENCODE: Member = Member {
    name: super::NAME,
    title: "OpenCode",
    program: Some(PROGRAM.named("opencode")),
    variables: &[("OPENCODE_DB", None)],
    dialects: &[super::DATABASE, super::EVENTS, super::STDOUT, super::HOOK, super::EXPORT],
    database: super::DATABASE,
    events: super::EVENTS,
    stdout: super::STDOUT,
    export: super::EXPORT,
    // People may have named the database of a fork so.
    in_database: bundles::database!(concat!(
        "(CASE WHEN EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'kilo_board') ",
        "THEN '\"program\":\"kilo\",' ELSE '' END)"
    )),
    in_folder: bundles::objects!(""),
    acp: Some(&AcpAgent { names: &["OpenCode"], ..AcpAgent::PLAIN }),
    // Measured on 1.18.33: without network and without the package, 65 s more until the first event of each start.
    gaps: &[
        "`opencode run --format json` prints an agent only once it has ended",
        "no file says that a permission is asked for: the plugin that `subscope hooks` installs does",
        "with a plugin OpenCode fetches a package from npm at its first start; without network each start waits for it for a minute",
    ],
    unstoppable: None,
    hooks: Some(&hook_support::PluginHooks),
};

/// Makes a fork of its row: the module of its dialects, and the program.
macro_rules! fork {
    (
        $(#[$words:meta])*
        $member:ident, $module:ident: $name:literal, $title:literal, program: $program:expr, variables: $variables:expr,
        acp: $acp:expr,
        unstoppable: $unstoppable:literal, gaps: $gaps:expr
    ) => {
        #[doc = concat!("The dialects of ", $title, ".")]
        pub mod $module {
            use super::*;

            /// A session of the database, or of a folder of objects: one event per line.
            pub const DATABASE: Dialect = Dialect::new(&database($name, concat!($name, ".database"), false));
            /// What its server sends at `/event` and `/global/event`.
            pub const EVENTS: Dialect = Dialect::new(&events($name, concat!($name, ".events"), false));
            /// What its `run --format json` prints.
            pub const STDOUT: Dialect = Dialect::new(&stdout($name, concat!($name, ".stdout"), false));
            /// What its `export` prints: one object.
            pub const EXPORT: Dialect = Dialect::new(&export($name, concat!($name, ".export"), false));
        }

        $(#[$words])*
        pub static $member: Member = Member {
            name: $name,
            title: $title,
            program: $program,
            variables: $variables,
            dialects: &[$module::DATABASE, $module::EVENTS, $module::STDOUT, $module::EXPORT],
            database: $module::DATABASE,
            events: $module::EVENTS,
            stdout: $module::STDOUT,
            export: $module::EXPORT,
            in_database: bundles::database!(concat!("'\"program\":\"", $name, "\",'")),
            in_folder: bundles::objects!(concat!("\"program\":\"", $name, "\",")),
            acp: $acp,
            gaps: $gaps,
            unstoppable: Some($unstoppable),
            hooks: None,
        };
    };
}

fork! {
    /// Kilo CLI. Observed: 7.7.7.
    KILO, kilo: "kilo", "Kilo CLI", program: Some(PROGRAM.named("kilo")), variables: &[("KILO_DB", None)],
    acp: Some(&AcpAgent { names: &["Kilo"], ..AcpAgent::PLAIN }),
    unstoppable: "Kilo CLI stops whole sessions only: no plugin of it was tried",
    gaps: &[
        "`kilo run --format json` prints an agent only once it has ended",
        "what Kilo CLI prints looks like OpenCode's until the first step ends",
        "no file says that a permission is asked for",
    ]
}

fork! {
    /// MiMoCode, the program `mimo`. Known from its source and from programs that read its database.
    MIMOCODE, mimocode: "mimocode", "MiMoCode", program: Some(PROGRAM.named("mimo")),
    variables: &[("MIMOCODE_DB", None), ("MIMOCODE_HOME", Some("data"))], acp: None,
    unstoppable: "no way to end one of the agents of MiMoCode was tried",
    gaps: &[
        "not run here: what is read of MiMoCode is known from public sources",
        "what `mimo run --format json` prints looks like OpenCode's, where `subscope run` did not start it",
        "sessions that it imported from other programs are shown as its own",
    ]
}

fork! {
    /// IcodeMate's extension of an editor. Its program for the terminal is a harness of its own.
    ICODEMATE, icodemate: "icodemate", "IcodeMate", program: None, variables: &[], acp: None,
    unstoppable: "no way to end one of the agents of IcodeMate was tried",
    gaps: &["not run here: what is read of IcodeMate is known from public sources"]
}

/// The dialect of a database.
pub(super) const fn database(harness: &'static str, name: &'static str, is_shared: bool) -> DialectSpec {
    DialectSpec {
        harness: Some(harness),
        is_main: true,
        is_shared,
        ..DialectSpec::new(name, |hint| {
            let events = Events::new(hint, SourceKind::Transcript, Clock::Transcript);
            Box::new(LinesDecoder::new(hint.source, events))
        })
    }
}

/// The dialect of an exported session.
pub(super) const fn export(harness: &'static str, name: &'static str, is_shared: bool) -> DialectSpec {
    DialectSpec {
        harness: Some(harness),
        is_object: true,
        is_ingestible: false,
        is_shared,
        ..DialectSpec::new(name, |hint| Box::new(ObjectDecoder::new(hint.source, Export(hint.clone()))))
    }
}

/// The dialect of what a server sends.
pub(super) const fn events(harness: &'static str, name: &'static str, is_shared: bool) -> DialectSpec {
    DialectSpec {
        harness: Some(harness),
        is_shared,
        ..DialectSpec::new(name, |hint| {
            let events = Events::new(hint, SourceKind::Stream, Clock::Stream);
            Box::new(LinesDecoder::new(hint.source, events))
        })
    }
}

/// The dialect of what `run` prints.
pub(super) const fn stdout(harness: &'static str, name: &'static str, is_shared: bool) -> DialectSpec {
    DialectSpec {
        harness: Some(harness),
        session_of: stdout::session_of,
        lifecycle: Lifecycle { changes: stdout::CHANGES, opens: None, spawns: None },
        is_shared,
        ..DialectSpec::new(name, |hint| Box::new(LinesDecoder::new(hint.source, Stdout::new(hint))))
    }
}

impl Harness for Member {
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
        recognize::recognize(line, self)
    }

    fn fork_of(&self, dialect: Dialect, head: &[u8]) -> Option<Dialect> {
        (self.name == OPENCODE.name && dialect == self.stdout).then(|| recognize::fork(head)).flatten()
    }

    fn tool_class(&self, tool: &str) -> ToolClass {
        tools::class(tool)
    }

    /// Returns the folder of the database: that which a variable names, else the program's in `XDG_DATA_HOME` or
    /// `$HOME/.local/share`.
    fn home(&self, variables: Variables<'_>) -> Home {
        let chosen = self.variables.iter().find_map(|(variable, below)| {
            let named = folder_in(variables, variable).filter(|named| named.is_absolute())?;
            let folder = match below {
                Some(below) => named.join(below),
                None => named.parent()?.to_owned(),
            };
            Some(Home { folder, variable, is_chosen: true })
        });
        let data = || Home::named(variables, layout::DATA_VARIABLE, layout::DATA_FOLDER).folder;
        // All programs use this variable: that it is set does not mean that this program has a folder.
        let of_all =
            || Home { folder: data().join(self.name), variable: layout::DATA_VARIABLE, is_chosen: false };
        chosen.unwrap_or_else(of_all)
    }

    fn roots(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        vec![self.home(variables).folder]
    }

    fn classify(&self, path: &Path) -> Option<Place> {
        layout::session_of(path, self).map(|session| layout::place(session, self))
    }

    fn classify_below(&self, _: &Path, path: &Path) -> Option<Place> {
        self.classify(path)
    }

    fn bundle(&self, path: &Path) -> Option<&'static Bundle> {
        layout::bundle(path, self)
    }

    fn target(&self, path: &Path) -> Option<SessionFiles> {
        Some(layout::files(path, layout::session_of(path, self)?, self))
    }

    fn session_files(&self, _: &Path, path: &Path, session: &str) -> SessionFiles {
        layout::files(path, session, self)
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
        let inside = entries.filter(|path| self.bundle(path).is_some()).map(|path| path.join(session));
        inside.filter(|path| layout::session_of(path, self).is_some()).collect()
    }

    fn acp(&self) -> Option<&'static AcpAgent> {
        self.acp
    }

    fn gaps(&self) -> &'static [&'static str] {
        self.gaps
    }

    fn why_unstoppable(&self) -> Option<&'static str> {
        self.unstoppable
    }

    fn hooks(&self) -> Option<&'static dyn HookSupport> {
        self.hooks
    }

    fn self_report(&self) -> Option<&'static SelfReport> {
        Some(&stated::SELF_REPORT)
    }

    fn run(&self) -> Option<&dyn RunPlan> {
        self.program.as_ref().map(|program| program as &dyn RunPlan)
    }

    fn printed(&self, found: Dialect) -> Dialect {
        if found == super::STDOUT { self.stdout } else { found }
    }
}
