//! Crush. Not run here: its program is no package of a registry. Read after its source (the version of August 2026), and
//! checked with databases that people have published (August 2025).
//!
//! * [`layout`]: the database of each project, and the list of projects by which they are found.
//! * Dialects: [`rows`] decodes the rows of the database about a session and its agents. [`tools`]: calls and their results.

mod layout;
mod rows;
#[cfg(test)]
mod tests;
mod tools;

use std::path::{Path, PathBuf};

use subscope_decode::{Dialect, DialectSpec, ObjectDecoder};
use subscope_model::ToolClass;

use crate::{Bundle, Harness, HeadLine, Home, Place, SessionFiles, Variables};

/// The harness.
#[derive(Debug)]
pub struct Crush;

const NAME: &str = "crush";

/// The rows of the database about a session and its agents, as one object.
pub const ROWS: Dialect = Dialect::new(&DialectSpec {
    harness: Some(NAME),
    is_main: true,
    is_object: true,
    is_ingestible: false,
    ..DialectSpec::new("crush.rows", |hint| {
        Box::new(ObjectDecoder::new(hint.source, rows::CrushRows(hint.session.clone())))
    })
});

impl Harness for Crush {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "Crush"
    }

    fn dialects(&self) -> &'static [Dialect] {
        &[ROWS]
    }

    fn recognize(&self, line: HeadLine<'_>) -> Option<Dialect> {
        rows::is_object_of(line).then_some(ROWS)
    }

    fn tool_class(&self, tool: &str) -> ToolClass {
        tools::class(tool)
    }

    /// Returns the folder with the list of its projects: `CRUSH_GLOBAL_DATA`, else `crush` in `XDG_DATA_HOME` or
    /// `$HOME/.local/share`.
    fn home(&self, variables: Variables<'_>) -> Home {
        layout::home(variables)
    }

    /// Returns the folders of data of the projects in its list.
    fn roots(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        layout::folders(&self.home(variables).folder)
    }

    fn classify(&self, path: &Path) -> Option<Place> {
        layout::session_of(path).map(layout::place)
    }

    fn classify_below(&self, _: &Path, path: &Path) -> Option<Place> {
        self.classify(path)
    }

    fn bundle(&self, path: &Path) -> Option<&'static Bundle> {
        layout::is_database(path).then_some(&rows::DATABASE)
    }

    fn target(&self, path: &Path) -> Option<SessionFiles> {
        Some(layout::files(path, layout::session_of(path)?))
    }

    fn session_files(&self, _: &Path, path: &Path, session: &str) -> SessionFiles {
        layout::files(path, session)
    }

    fn session_of_folder(&self, _: &Path, _: &Path) -> Option<SessionFiles> {
        None
    }

    fn transcripts_of(&self, root: &Path, session: &str) -> Vec<PathBuf> {
        let database = root.join(layout::DATABASE);
        let session = database.is_file().then(|| database.join(session));
        session.filter(|path| layout::session_of(path).is_some()).into_iter().collect()
    }

    fn gaps(&self) -> &'static [&'static str] {
        &[
            "not run here: what is read of Crush is known from its source and from published databases",
            "a database has the cost of each session, and no tokens but those of the last response: none are shown",
            "the cost of a session holds that of its agents, from which it is subtracted: of one whose call of an agent has no result it is not known",
            "times are whole seconds",
            "no row says that a permission is asked for",
            "databases are found by the list of projects that Crush keeps: one of a new project, when the hub starts the next time",
        ]
    }

    fn why_unstoppable(&self) -> Option<&'static str> {
        Some("no way to end one of the agents of Crush was tried")
    }
}
