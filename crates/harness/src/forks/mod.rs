//! Forks of harnesses whose lines are the parent's and whose folders have the same form: a fork is a row in the folder of
//! its parent.
//!
//! Who wrote a file is known by the folder that it is in, or by a mark in its lines. The dialects of a fork are the
//! parent's, with names of their own; those of the parent are shared ([`subscope_decode::DialectSpec::is_shared`]): what
//! another source says of the harness of a session counts more. The forks of OpenCode, which keep databases, are rows of
//! `opencode/family.rs`.

mod row;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use memchr::memmem::{self, Finder};
use subscope_decode::Dialect;
use subscope_model::ToolClass;

pub(crate) use self::row::fork;
use crate::{
    FORKS, Harness, HeadLine, Home, Place, RunPlan, SessionFiles, Variables,
    harness::{folder_in, user_home},
    marks::{Marks, marks_of},
    paths::has_in_row,
    run::AgentProgram,
};

/// A program that writes another one's lines.
pub struct Fork {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) parent: &'static dyn Harness,
    /// The parent's dialects that it writes.
    pub(crate) of: &'static [Dialect],
    /// Its own names of these, in the same order.
    pub(crate) dialects: &'static [Dialect],
    /// Variables that move its folder, the strongest first, with what the folder is called in the one that each names.
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// Its folder below the user's home otherwise.
    pub(crate) folder: &'static str,
    /// Its folders there in other versions, and of its other programs.
    pub(crate) others: &'static [&'static str],
    /// Folders of transcripts in its folder.
    pub(crate) transcripts: &'static [&'static str],
    /// Folders in a row that only its paths have.
    pub(crate) paths: &'static [&'static str],
    /// Marks in its lines: a word, and what is true of the fields of a line with that word.
    pub(crate) marks: &'static [ForkMark],
    pub(crate) program: Option<AgentProgram>,
    pub(crate) gaps: &'static [&'static str],
    pub(crate) unstoppable: &'static str,
}

/// A word of a line, and what is true of the fields of the line if a fork wrote it.
pub(crate) type ForkMark = (&'static str, fn(&Marks<'_>) -> bool);

/// Words of the lines by which forks are known.
pub(crate) fn fork_words() -> impl Iterator<Item = &'static [u8]> {
    FORKS.iter().flat_map(|fork| fork.marks).map(|(word, _)| word.as_bytes())
}

/// Returns the dialect of the fork that wrote a head whose lines are the parent's `found`; `None` where no line has a mark.
/// `words` are those that occur.
pub(crate) fn writer(found: Dialect, head: &[u8], words: &[&Finder<'_>]) -> Option<Dialect> {
    FORKS.iter().find_map(|fork| fork.renamed(found).filter(|_| fork.wrote(head, words)))
}

/// Returns the name that a fork has for the dialect `found` of a source, if the path of the source is one of that fork;
/// else `found`. `by_path` is the dialect that the path alone says.
pub fn renamed_by_path(found: Dialect, by_path: Option<Dialect>) -> Dialect {
    let owner = by_path.and_then(|dialect| FORKS.iter().find(|fork| fork.dialects.contains(&dialect)));
    owner.and_then(|fork| fork.renamed(found)).unwrap_or(found)
}

impl Fork {
    /// Its own name of a dialect of the parent.
    fn renamed(&self, dialect: Dialect) -> Option<Dialect> {
        let at = self.of.iter().position(|of| *of == dialect)?;
        self.dialects.get(at).copied()
    }

    fn wrote(&self, head: &[u8], words: &[&Finder<'_>]) -> bool {
        self.marks.iter().any(|(word, has)| {
            let Some(word) = words.iter().find(|found| found.needle() == word.as_bytes()) else {
                return false;
            };
            let mut marked = head.split(|byte| *byte == b'\n').filter(|line| word.find(line).is_some());
            marked.any(|line| marks_of(line, &|marks| has(marks)))
        })
    }

    /// Whether a path is below one of its folders.
    fn has_path(&self, path: &Path) -> bool {
        let bytes = path.as_os_str().as_encoded_bytes();
        let may_have = |row: &&&str| {
            let first = row.split('/').next().unwrap_or(row);
            memmem::find(bytes, first.as_bytes()).is_some()
        };
        let rows: Vec<&&str> = self.paths.iter().filter(may_have).collect();
        if rows.is_empty() {
            return false;
        }
        let parts: Vec<&str> = path.iter().filter_map(OsStr::to_str).collect();
        rows.into_iter().any(|row| has_in_row(&parts, row))
    }

    fn own_place(&self, place: Place) -> Place {
        let dialect = place.dialect.map(|dialect| self.renamed(dialect).unwrap_or(dialect));
        Place { dialect, ..place }
    }

    fn own_files(&self, files: SessionFiles) -> SessionFiles {
        SessionFiles { place: self.own_place(files.place), ..files }
    }
}

impl Harness for Fork {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn dialects(&self) -> &'static [Dialect] {
        self.dialects
    }

    /// Lines are recognized as the parent's: who wrote them is found once, for all forks ([`writer`]).
    fn recognize(&self, _: HeadLine<'_>) -> Option<Dialect> {
        None
    }

    fn tool_class(&self, tool: &str) -> ToolClass {
        self.parent.tool_class(tool)
    }

    fn home(&self, variables: Variables<'_>) -> Home {
        let below = |folder: PathBuf, name: &str| if name.is_empty() { folder } else { folder.join(name) };
        let named = self.variables.iter().find_map(|(variable, name)| {
            let folder = below(folder_in(variables, variable)?, name);
            Some(Home { folder, variable, is_chosen: true })
        });
        // Without a variable of its own, only the user's home moves it.
        let variable = self.variables.first().map_or("HOME", |(variable, _)| variable);
        let folder = || user_home(variables).join(self.folder);
        named.unwrap_or_else(|| Home { folder: folder(), variable, is_chosen: false })
    }

    fn other_homes(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        self.others.iter().map(|name| user_home(variables).join(name)).collect()
    }

    fn roots(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        let home = self.home(variables).folder;
        self.transcripts.iter().map(|name| home.join(name)).collect()
    }

    fn classify(&self, path: &Path) -> Option<Place> {
        self.has_path(path).then(|| self.parent.classify(path)).flatten().map(|place| self.own_place(place))
    }

    fn classify_below(&self, root: &Path, path: &Path) -> Option<Place> {
        self.parent.classify_below(root, path).map(|place| self.own_place(place))
    }

    fn target(&self, path: &Path) -> Option<SessionFiles> {
        self.has_path(path).then(|| self.parent.target(path)).flatten().map(|files| self.own_files(files))
    }

    fn session_files(&self, root: &Path, path: &Path, session: &str) -> SessionFiles {
        self.own_files(self.parent.session_files(root, path, session))
    }

    fn session_of_folder(&self, root: &Path, folder: &Path) -> Option<SessionFiles> {
        self.parent.session_of_folder(root, folder).map(|files| self.own_files(files))
    }

    fn skips_folder(&self, name: &OsStr) -> bool {
        self.parent.skips_folder(name)
    }

    fn companion(&self, transcript: &Path) -> Option<PathBuf> {
        self.parent.companion(transcript)
    }

    fn complete(&self, path: &Path, place: &Place, line: &[u8]) -> Option<Place> {
        self.parent.complete(path, place, line).map(|place| self.own_place(place))
    }

    fn transcripts_of(&self, root: &Path, session: &str) -> Vec<PathBuf> {
        self.parent.transcripts_of(root, session)
    }

    fn gaps(&self) -> &'static [&'static str] {
        self.gaps
    }

    fn why_unstoppable(&self) -> Option<&'static str> {
        Some(self.unstoppable)
    }

    fn run(&self) -> Option<&dyn RunPlan> {
        self.program.as_ref().map(|program| program as &dyn RunPlan)
    }

    fn printed(&self, found: Dialect) -> Dialect {
        self.renamed(found).unwrap_or(found)
    }
}
