//! The interface of a harness: where its files are, which dialects they are in, how its program is observed.
//!
//! Implementations only answer questions: they keep no file open and start nothing.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use subscope_decode::{Dialect, otlp::OtelSource};
use subscope_model::ToolClass;

use crate::{Bundle, HookSupport, OtelSetup, RunPlan, SelfReport, acp::AcpAgent};

/// Reads one environment variable; an empty value counts as none.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// A program that runs agents.
///
/// A session is one transcript or many, in a folder of its own or in shared ones ([`SessionFiles`]). A file is lines
/// that are appended, or an object that is rewritten ([`Dialect::is_object`]).
pub trait Harness: Sync {
    /// The name used on every wire: lower-case words with `-` between them.
    fn name(&self) -> &'static str;

    /// The name that people know.
    fn title(&self) -> &'static str;

    /// Its dialects, in the order in which `--dialect` lists them.
    fn dialects(&self) -> &'static [Dialect];

    /// Returns the dialect that a line of a source is written in; `None` where it is not recognized.
    fn recognize(&self, line: HeadLine<'_>) -> Option<Dialect>;

    /// Returns the dialect of the fork that wrote a source, where its lines were recognized as of this harness's `dialect`
    /// and some line of its head shows that a fork wrote them.
    fn fork_of(&self, _dialect: Dialect, _head: &[u8]) -> Option<Dialect> {
        None
    }

    /// Returns the class of a tool.
    fn tool_class(&self, tool: &str) -> ToolClass;

    /// Returns the folder in which it keeps its files, and how people move it. It need not exist.
    fn home(&self, variables: Variables<'_>) -> Home;

    /// Returns folders of files that some versions use where no variable names one, besides [`Harness::home`].
    fn other_homes(&self, _: Variables<'_>) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the folder of a project in which it makes linked work trees, `/` between its parts.
    fn work_tree_folder(&self) -> Option<&'static str> {
        None
    }

    /// Returns the environment variable in which it names the session to the MCP servers that it starts.
    fn session_variable(&self) -> Option<&'static str> {
        None
    }

    /// Returns the environment variable in which it names the project's folder to hooks and MCP servers that it starts.
    fn project_variable(&self) -> Option<&'static str> {
        None
    }

    /// Returns the folders that its transcripts are below. They need not exist.
    fn roots(&self, variables: Variables<'_>) -> Vec<PathBuf>;

    /// Classifies a file anywhere by its path; `None` where the path is not recognized. Nothing is read.
    fn classify(&self, path: &Path) -> Option<Place>;

    /// Classifies a file below one of the roots; `None` if it is not the harness's. Nothing is read.
    fn classify_below(&self, root: &Path, path: &Path) -> Option<Place>;

    /// Returns the form of a file or folder that holds many sessions; `None` for any other. Looks at names on disk only.
    fn bundle(&self, _: &Path) -> Option<&'static Bundle> {
        None
    }

    /// Returns the session that a file or folder names as a TARGET. Looks at names on disk only.
    fn target(&self, path: &Path) -> Option<SessionFiles>;

    /// Returns the places of a session's files, given one of them.
    fn session_files(&self, root: &Path, path: &Path, session: &str) -> SessionFiles;

    /// Returns the session that a folder belongs to; `None` for a folder of several sessions.
    fn session_of_folder(&self, root: &Path, folder: &Path) -> Option<SessionFiles>;

    /// Whether a folder below this name holds no transcripts and is not listed.
    fn skips_folder(&self, _: &OsStr) -> bool {
        false
    }

    /// Returns the file that goes with a transcript and is read with it when that is a TARGET alone.
    fn companion(&self, _: &Path) -> Option<PathBuf> {
        None
    }

    /// Completes a classification by the first line of the file, where its path does not name the session; `None` where
    /// the line does not name it either. The line may be cut. A file that is one object on many lines may be read again.
    fn complete(&self, _: &Path, _: &Place, _: &[u8]) -> Option<Place> {
        None
    }

    /// Returns the main transcripts of a session below a root: one, unless it was continued elsewhere. The session is a
    /// plain name.
    fn transcripts_of(&self, root: &Path, session: &str) -> Vec<PathBuf>;

    /// Returns the name of a model of its vendor without what all of them begin with; `None` for any other.
    fn short_model<'m>(&self, _: &'m str) -> Option<&'m str> {
        None
    }

    /// Returns OpenTelemetry's name of its provider (semantic conventions, `gen_ai.provider.name`), and what the names of
    /// that provider's models begin with: nothing where it serves those of others too. `None` without one provider.
    fn provider(&self) -> Option<(&'static str, &'static [&'static str])> {
        None
    }

    /// How it speaks the Agent Client Protocol, or the program does that speaks it for it; `None` where neither is known.
    fn acp(&self) -> Option<&'static AcpAgent> {
        None
    }

    /// How its OpenTelemetry records are known, where it has a dialect of its own for them.
    fn otel(&self) -> Option<&'static OtelSource> {
        None
    }

    /// How its OpenTelemetry records are pointed at a receiver; `None` if it sends none.
    fn otel_setup(&self) -> Option<&'static OtelSetup> {
        None
    }

    /// What it calls itself in OpenTelemetry's `service.name`, besides its name.
    fn otel_services(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether the price list is not what its users pay.
    fn is_unpriced(&self) -> bool {
        false
    }

    /// What some of its sources leave out, each a sentence without its end: for the documentation and `doctor`.
    fn gaps(&self) -> &'static [&'static str] {
        &[]
    }

    /// Why none of its agents can be stopped alone, as a sentence without its end; `None` where one can.
    fn why_unstoppable(&self) -> Option<&'static str> {
        None
    }

    /// What it states about its own sessions, for `verify`; `None` where it states nothing.
    fn self_report(&self) -> Option<&'static SelfReport> {
        None
    }

    /// How its program is started and observed, where it can be.
    fn run(&self) -> Option<&dyn RunPlan> {
        None
    }

    /// Returns the dialect of what its program prints, whose lines are recognized as `found`: those of a fork may look like
    /// those of the program that it is a fork of.
    fn printed(&self, found: Dialect) -> Dialect {
        found
    }

    /// Its hooks, where it has some.
    fn hooks(&self) -> Option<&'static dyn HookSupport> {
        None
    }
}

/// A folder that transcripts of one harness are below.
#[derive(Clone)]
pub struct Root {
    /// The harness.
    pub harness: &'static dyn Harness,
    /// The folder. It need not exist.
    pub folder: PathBuf,
}

/// A line of the beginning of a source: one JSON object.
#[derive(Clone, Copy, Debug)]
pub struct HeadLine<'l> {
    /// Its text.
    pub object: &'l str,
    /// Whether it is truncated: only its first fields are present.
    pub is_cut: bool,
}

/// Where a harness keeps its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The folder. It need not exist.
    pub folder: PathBuf,
    /// The variable that moves it.
    pub variable: &'static str,
    /// Whether the variable is set.
    pub is_chosen: bool,
}

impl Home {
    /// Returns the folder that a variable names, else one below the user's home.
    pub(crate) fn named(variables: Variables<'_>, variable: &'static str, below_user: &str) -> Self {
        let moved = folder_in(variables, variable);
        let is_chosen = moved.is_some();
        let folder = moved.unwrap_or_else(|| user_home(variables).join(below_user));
        Self { folder, variable, is_chosen }
    }
}

/// Returns the user's home folder.
pub(crate) fn user_home(variables: Variables<'_>) -> PathBuf {
    variables("HOME").map(PathBuf::from).unwrap_or_default()
}

/// Returns the folder that a variable names: the first one of a list.
pub(crate) fn folder_in(variables: Variables<'_>, variable: &str) -> Option<PathBuf> {
    listed(&variables(variable)?).into_iter().next().map(PathBuf::from)
}

/// Returns the folders that a value names: one that exists, else those between commas and separators of paths. People
/// with several homes list them.
fn listed(value: &OsStr) -> Vec<OsString> {
    let Some(text) = value.to_str().filter(|text| !Path::new(text).exists()) else {
        return vec![value.to_owned()];
    };
    let parts = text.split(',').flat_map(|part| std::env::split_paths(part).collect::<Vec<_>>());
    let trimmed = parts.filter_map(|part| Some(part.to_str()?.trim().to_owned()));
    trimmed.filter(|part| !part.is_empty()).map(OsString::from).collect()
}

/// Calls back for each home of a harness, with the variables that name it: its own variable may list several, and some
/// versions use another folder.
fn each_home(harness: &dyn Harness, variables: Variables<'_>, each: &mut dyn FnMut(Variables<'_>)) {
    let home = harness.home(variables);
    let value = variables(home.variable).filter(|_| home.is_chosen);
    let Some(value) = value else {
        each(variables);
        let others = harness.other_homes(variables).into_iter().filter(|folder| folder.is_dir());
        for folder in others.filter(|folder| *folder != home.folder) {
            each(&|name| if name == home.variable { Some(folder.clone().into()) } else { variables(name) });
        }
        return;
    };
    for folder in listed(&value) {
        each(&|name| if name == home.variable { Some(folder.clone()) } else { variables(name) });
    }
}

/// Returns the folders in which a harness keeps its files. They need not exist.
pub fn homes(harness: &dyn Harness, variables: Variables<'_>) -> Vec<Home> {
    let mut found = Vec::new();
    each_home(harness, variables, &mut |variables| found.push(harness.home(variables)));
    found
}

/// Returns the folders that the transcripts of a harness are below, of all its homes.
pub(crate) fn roots_of(harness: &dyn Harness, variables: Variables<'_>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    each_home(harness, variables, &mut |variables| found.extend(harness.roots(variables)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{claude_code::ClaudeCode, harnesses};

    #[test]
    fn each_harness_may_have_several_homes() {
        for harness in harnesses() {
            let variable = harness.home(&|_| None).variable;
            let listed = std::env::join_paths(["/a/one", "/a/two"]).unwrap().into_string().unwrap();
            for value in ["/a/one,/a/two", &listed, " /a/one , /a/two,"] {
                let variables = |name: &str| (name == variable).then(|| OsString::from(value));
                let found = homes(harness, &variables);
                assert_eq!(found.len(), if found[0].is_chosen { 2 } else { 1 }, "{} {value}", harness.name());
                if found[0].is_chosen {
                    assert!(found[0].folder.starts_with("/a/one"), "{found:?}");
                    assert!(found[1].folder.starts_with("/a/two"), "{found:?}");
                    assert_eq!(roots_of(harness, &variables).len() % 2, 0, "{}", harness.name());
                    assert_eq!(harness.home(&variables), found[0]);
                }
            }
        }
    }

    #[test]
    fn a_folder_whose_name_looks_like_a_list_is_one_and_other_homes_count_where_they_exist() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("a,b");
        std::fs::create_dir_all(&odd).unwrap();
        let named = |name: &str| (name == "CLAUDE_CONFIG_DIR").then(|| odd.clone().into_os_string());
        assert_eq!(homes(&ClaudeCode, &named).len(), 1);
        let home = |name: &str| (name == "HOME").then(|| folder.path().as_os_str().to_owned());
        assert_eq!(homes(&ClaudeCode, &home).len(), 1);
        let other = folder.path().join(".config/claude");
        std::fs::create_dir_all(&other).unwrap();
        let found = homes(&ClaudeCode, &home);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].folder, other);
        assert_eq!(roots_of(&ClaudeCode, &home).last(), Some(&other.join("projects")));
    }
}

/// What a file is to its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The main transcript of a session.
    Main,
    /// The transcript of one subagent.
    Agent,
    /// Metadata about transcripts. It has no passages.
    Note,
    /// Anything else: a recorded stream, a hook log. It is recognized by its content.
    Other,
}

/// How a file is classified by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What the file is.
    pub role: Role,
    /// Its dialect. Of a main transcript only the content is certain: a recorded stream may have such a name.
    pub dialect: Option<Dialect>,
    /// The session, where the path names it.
    pub session: Option<String>,
    /// The subagent, where the path names it.
    pub agent: Option<String>,
    /// The group of agents that one call started, where the path names it.
    pub workflow: Option<String>,
}

impl Place {
    /// A file whose path is not recognized.
    pub const UNKNOWN: Self =
        Self { role: Role::Other, dialect: None, session: None, agent: None, workflow: None };
}

/// The places of one session's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFiles {
    /// The session.
    pub session: String,
    /// Its main transcript. It may be gone while others stay.
    pub main: PathBuf,
    /// How the main transcript is classified, whatever its name.
    pub place: Place,
    /// Folders of the session alone: what the harness keeps below them is the session's.
    pub folders: Vec<PathBuf>,
    /// Folders that it shares with other sessions. Transcripts of its agents may be directly in them.
    pub shared: Vec<PathBuf>,
}
