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
    hook_support, layout, recognize, stated,
    stdout::{self, Stdout},
    tools,
};
use crate::{
    Bundle, Harness, HeadLine, Home, HookSupport, Place, RunPlan, SelfReport, SessionFiles, Variables,
    harness::folder_in,
};

/// The programs, OpenCode first: what no fork's mark is in is its own.
pub(super) static MEMBERS: &[&Member] = &[&OPENCODE, &KILO];

/// A program of the family.
pub struct Member {
    /// Its name, which is that of its program, of its folder in the folder of data, and of its databases there.
    pub(super) name: &'static str,
    title: &'static str,
    /// The variable that names its database.
    pub(super) database_variable: &'static str,
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
    gaps: &'static [&'static str],
    /// Why none of its agents can be stopped alone; `None` where our plugin can.
    unstoppable: Option<&'static str>,
    hooks: Option<&'static dyn HookSupport>,
}

/// OpenCode.
pub static OPENCODE: Member = Member {
    name: super::NAME,
    title: "OpenCode",
    database_variable: "OPENCODE_DB",
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
        $member:ident, $module:ident: $name:literal, $title:literal, variable: $variable:literal,
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
            database_variable: $variable,
            dialects: &[$module::DATABASE, $module::EVENTS, $module::STDOUT, $module::EXPORT],
            database: $module::DATABASE,
            events: $module::EVENTS,
            stdout: $module::STDOUT,
            export: $module::EXPORT,
            in_database: bundles::database!(concat!("'\"program\":\"", $name, "\",'")),
            in_folder: bundles::objects!(concat!("\"program\":\"", $name, "\",")),
            gaps: $gaps,
            unstoppable: Some($unstoppable),
            hooks: None,
        };
    };
}

fork! {
    /// Kilo CLI. Observed: 7.7.7.
    KILO, kilo: "kilo", "Kilo CLI", variable: "KILO_DB",
    unstoppable: "Kilo CLI stops whole sessions only: no plugin of it was tried",
    gaps: &[
        "`kilo run --format json` prints an agent only once it has ended",
        "what Kilo CLI prints looks like OpenCode's until the first step ends",
        "no file says that a permission is asked for",
    ]
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

    /// Returns the folder of the database: that of the variable that names the database, else the program's in
    /// `XDG_DATA_HOME` or `$HOME/.local/share`.
    fn home(&self, variables: Variables<'_>) -> Home {
        let database = folder_in(variables, self.database_variable).filter(|file| file.is_absolute());
        if let Some(folder) = database.as_deref().and_then(Path::parent) {
            let folder = folder.to_owned();
            return Home { folder, variable: self.database_variable, is_chosen: true };
        }
        let data = Home::named(variables, layout::DATA_VARIABLE, layout::DATA_FOLDER).folder;
        // All programs use this variable: that it is set does not mean that this program has a folder.
        Home { folder: data.join(self.name), variable: layout::DATA_VARIABLE, is_chosen: false }
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

    fn run(&self) -> Option<&'static dyn RunPlan> {
        MEMBERS.iter().copied().find(|member| member.name == self.name).map(|member| member as &dyn RunPlan)
    }
}
