//! Claude Code's folders: what a path tells about the file that stands there.
//!
//! Layouts, as observed (requirements, "Facts: transcripts"):
//!
//! ```text
//! projects/<folder>/<session>.jsonl                                   main transcript, all versions
//! projects/<folder>/agent-<id>.jsonl                                  subagents of 2.0.x; the session is inside
//! projects/<folder>/<session>/subagents/agent-<id>.jsonl              subagents of 2.1.x, flat at every depth
//! projects/<folder>/<session>/subagents/agent-<id>.meta.json
//! projects/<folder>/<session>/subagents/workflows/wf_<n>/agent-<id>.jsonl, .meta.json, journal.jsonl
//! ```
//!
//! A main transcript may be gone while its subagents stay: the harness's own clean-up does that.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, Metadata},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use subscope_model::Millis;

use crate::archive::Kept;

/// The folder of a session that holds its subagents' files.
pub(crate) const SUBAGENTS: &str = "subagents";
/// The folder of a session that holds big outputs: never transcripts, and many files.
pub(crate) const TOOL_RESULTS: &str = "tool-results";
const PROJECTS: &str = "projects";

/// What a file is, as far as its path tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The main transcript of a session.
    Main,
    /// The transcript of one subagent.
    Agent,
    /// What the harness noted about one subagent: a small JSON object.
    Meta,
    /// The journal of a workflow.
    Journal,
    /// Anything else: a recorded stream, a hook log. What it is stands in its content.
    Other,
}

/// What a path alone tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What the file is.
    pub role: Role,
    /// The session, where the path names it.
    pub session: Option<String>,
    /// The subagent's id, for [`Role::Agent`] and [`Role::Meta`].
    pub agent: Option<String>,
    /// The workflow's folder (`wf_…`), for files below one.
    pub workflow: Option<String>,
}

/// A file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it stands; absolute and without symbolic links.
    pub path: PathBuf,
    /// What it is.
    pub role: Role,
    /// The session: from the path, else from the first line (2.0.x subagents); `None` where neither tells.
    pub session: Option<String>,
    /// The subagent's id, from the file's name.
    pub agent: Option<String>,
    /// The workflow's folder (`wf_…`).
    pub workflow: Option<String>,
    /// Its length in bytes when it was found; it may have grown since.
    pub len: u64,
    /// When it was last written; `None` where the file system does not tell.
    pub modified_ms: Option<Millis>,
    /// Where its bytes stand if that is not `path`: in the archive.
    pub kept_at: Option<PathBuf>,
}

impl Found {
    pub(crate) fn new(path: PathBuf, place: Place, metadata: &Metadata) -> Self {
        let Place { role, session, agent, workflow } = place;
        let (len, modified_ms) = (metadata.len(), modified_ms(metadata));
        Self { path, role, session, agent, workflow, len, modified_ms, kept_at: None }
    }

    /// A file that was found before as one of a session, and of which the archive may have the bytes; `None` where neither
    /// has it.
    pub fn again(path: &Path, session: &str, kept: Option<Kept>) -> Option<Self> {
        let place = match describe(path) {
            // What made it a main transcript stood beside it.
            Place { role: Role::Other, .. } => main_place(session),
            place => Place { session: Some(session.to_owned()), ..place },
        };
        let Some(kept) = kept else {
            let metadata = fs::symlink_metadata(path).ok().filter(Metadata::is_file)?;
            return Some(Self::new(path.to_owned(), place, &metadata));
        };
        let Place { role, session, agent, workflow } = place;
        let (len, modified_ms) = (kept.bytes, Some(kept.modified_ns / 1_000_000));
        let path = path.to_owned();
        Some(Self { path, role, session, agent, workflow, len, modified_ms, kept_at: Some(kept.path) })
    }

    /// Where to read it.
    pub fn place(&self) -> &Path {
        self.kept_at.as_deref().unwrap_or(&self.path)
    }
}

/// Returns where Claude Code keeps its files: `CLAUDE_CONFIG_DIR`, else `$HOME/.claude`. It need not exist.
///
/// `env` reads one environment variable; an empty value counts as none.
pub fn config_root(env: &dyn Fn(&str) -> Option<OsString>) -> PathBuf {
    let set = |name| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("CLAUDE_CONFIG_DIR").unwrap_or_else(|| set("HOME").unwrap_or_default().join(".claude"))
}

/// Returns the folder of all transcripts below [`config_root`]. It need not exist.
pub fn projects_folder(env: &dyn Fn(&str) -> Option<OsString>) -> PathBuf {
    config_root(env).join(PROJECTS)
}

/// Returns what the path alone tells. Nothing is read; names that are not UTF-8 tell nothing.
///
/// A `.jsonl` file is a main transcript if its name is a UUID, or if it stands in a folder of a `projects`
/// folder. A main transcript that was copied elsewhere under another name is [`Role::Other`].
pub fn describe(path: &Path) -> Place {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let (workflow, session) = surroundings(path);
    if let Some((agent, role)) = agent_of(name) {
        return Place { role, session, agent: Some(agent.to_owned()), workflow };
    }
    if name == "journal.jsonl" && workflow.is_some() {
        return Place { role: Role::Journal, session, agent: None, workflow };
    }
    match name.strip_suffix(".jsonl") {
        Some(stem) if is_uuid(stem) || ancestor(path, 2) == Some(PROJECTS) => main_place(stem),
        _ => Place { role: Role::Other, session: None, agent: None, workflow: None },
    }
}

/// The place of a main transcript of the given session.
pub(crate) fn main_place(session: &str) -> Place {
    Place { role: Role::Main, session: Some(session.to_owned()), agent: None, workflow: None }
}

/// The main transcript of a session in a project's folder.
pub(crate) fn main_path(project: &Path, session: &str) -> PathBuf {
    project.join(format!("{session}.jsonl"))
}

/// What the harness noted about the subagent whose transcript is given.
pub(crate) fn meta_path(transcript: &Path) -> PathBuf {
    transcript.with_extension("meta.json")
}

/// Whether a file of this name would be read if it were one.
pub(crate) fn is_transcript_name(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl") || describe(path).role != Role::Other
}

/// When a file was last written, in milliseconds since 1970.
pub(crate) fn modified_ms(metadata: &Metadata) -> Option<Millis> {
    let modified = metadata.modified().ok()?;
    let ms = match modified.duration_since(UNIX_EPOCH) {
        Ok(after) => i128::try_from(after.as_millis()).ok()?,
        Err(before) => -i128::try_from(before.duration().as_millis()).ok()?,
    };
    Millis::try_from(ms).ok()
}

/// The workflow's folder and the session that the folders above a file name.
fn surroundings(path: &Path) -> (Option<String>, Option<String>) {
    let named = |steps| ancestor(path, steps).map(str::to_owned);
    if ancestor(path, 1) == Some(SUBAGENTS) {
        return (None, named(2));
    }
    let in_workflow = ancestor(path, 1).is_some_and(|name| name.starts_with("wf_"))
        && ancestor(path, 2) == Some("workflows")
        && ancestor(path, 3) == Some(SUBAGENTS);
    if in_workflow { (named(1), named(4)) } else { (None, None) }
}

/// The name of the folder that many steps above.
fn ancestor(path: &Path, steps: usize) -> Option<&str> {
    path.ancestors().nth(steps)?.file_name()?.to_str()
}

fn agent_of(name: &str) -> Option<(&str, Role)> {
    let rest = name.strip_prefix("agent-")?;
    let (agent, role) = match rest.strip_suffix(".meta.json") {
        Some(agent) => (agent, Role::Meta),
        None => (rest.strip_suffix(".jsonl")?, Role::Agent),
    };
    (!agent.is_empty()).then_some((agent, role))
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = "59d3cea2-8628-4065-a429-a6583bbe765a";

    fn check(path: &str, role: Role, session: Option<&str>, agent: Option<&str>, workflow: Option<&str>) {
        let expected = Place {
            role,
            session: session.map(str::to_owned),
            agent: agent.map(str::to_owned),
            workflow: workflow.map(str::to_owned),
        };
        assert_eq!(describe(Path::new(path)), expected, "{path}");
    }

    #[test]
    fn describe_each_place_of_the_layout() {
        check(&format!("/p/{SESSION}.jsonl"), Role::Main, Some(SESSION), None, None);
        check("/x/projects/-a/short.jsonl", Role::Main, Some("short"), None, None);
        check("/p/agent-a1.jsonl", Role::Agent, None, Some("a1"), None);
        check("/p/s/subagents/agent-a1.jsonl", Role::Agent, Some("s"), Some("a1"), None);
        check("/p/s/subagents/agent-a1.meta.json", Role::Meta, Some("s"), Some("a1"), None);
        check("/p/s/subagents/workflows/wf_1/agent-a.jsonl", Role::Agent, Some("s"), Some("a"), Some("wf_1"));
        check("/p/s/subagents/workflows/wf_1/journal.jsonl", Role::Journal, Some("s"), None, Some("wf_1"));
    }

    #[test]
    fn describe_anything_else_tells_nothing() {
        for path in ["/r/stream.jsonl", "/r/hooks.jsonl", "/r/journal.jsonl", "/p/agent-.jsonl", "/", "x", ""]
        {
            check(path, Role::Other, None, None, None);
        }
    }

    #[test]
    fn config_root_prefers_the_variable_unless_it_is_empty() {
        let env = |claude: &'static str| {
            move |name: &str| match name {
                "CLAUDE_CONFIG_DIR" => Some(OsString::from(claude)),
                "HOME" => Some(OsString::from("/home/user")),
                _ => None,
            }
        };
        assert_eq!(config_root(&env("/elsewhere")), Path::new("/elsewhere"));
        assert_eq!(config_root(&env("")), Path::new("/home/user/.claude"));
        assert_eq!(projects_folder(&env("")), Path::new("/home/user/.claude/projects"));
    }
}
