//! Claude Code's folders: the meaning of the parts of a path.
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
    borrow::Cow,
    fmt,
    path::{Path, PathBuf},
};

use serde::{
    Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use super::TRANSCRIPT;
use crate::{Place, Role, SessionFiles};

/// The variable that moves its files.
pub(super) const HOME_VARIABLE: &str = "CLAUDE_CONFIG_DIR";
/// The folder of its files below the user's home otherwise; of a project's settings below the project.
pub(super) const HOME_FOLDER: &str = ".claude";
/// The folder of a session that holds its subagents' files.
pub(super) const SUBAGENTS: &str = "subagents";
/// The folder of a session that holds big outputs: never transcripts, and many files.
pub(super) const TOOL_RESULTS: &str = "tool-results";
pub(super) const PROJECTS: &str = "projects";

/// Returns the session that a line names, also where it is cut after naming it.
pub(super) fn session_in_line(line: &[u8]) -> Option<String> {
    let mut session = None;
    // The outcome is ignored: a cut line fails after its session was noted.
    let _ = serde_json::Deserializer::from_slice(line).deserialize_map(SessionField(&mut session));
    session.filter(|name| is_plain(name))
}

pub(super) fn files(project: &Path, session: &str) -> SessionFiles {
    SessionFiles {
        session: session.to_owned(),
        main: main_path(project, session),
        place: main_place(session),
        folders: vec![project.join(session)],
        shared: vec![project.to_owned()],
    }
}

pub(super) fn main_place(session: &str) -> Place {
    Place {
        role: Role::Main,
        dialect: Some(TRANSCRIPT),
        session: Some(session.to_owned()),
        agent: None,
        workflow: None,
    }
}

pub(super) fn main_path(project: &Path, session: &str) -> PathBuf {
    project.join(format!("{session}.jsonl"))
}

/// The project's folder that a path is in, what comes below it on the way to the path, and whether that is the path
/// itself.
pub(super) fn steps<'p>(root: &Path, path: &'p Path) -> Option<(&'p Path, &'p str, bool)> {
    let depth = path.strip_prefix(root).ok()?.iter().count();
    let below = depth.checked_sub(2)?;
    let top = path.ancestors().nth(below)?;
    Some((top.parent()?, top.file_name()?.to_str()?, below == 0))
}

/// The workflow's folder and the session that the folders above a file name.
pub(super) fn surroundings(path: &Path) -> (Option<String>, Option<String>) {
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
pub(super) fn ancestor(path: &Path, steps: usize) -> Option<&str> {
    path.ancestors().nth(steps)?.file_name()?.to_str()
}

pub(super) fn agent_of(name: &str) -> Option<(&str, Role)> {
    let rest = name.strip_prefix("agent-")?;
    let (agent, role) = match rest.strip_suffix(".meta.json") {
        Some(agent) => (agent, Role::Note),
        None => (rest.strip_suffix(".jsonl")?, Role::Agent),
    };
    (!agent.is_empty()).then_some((agent, role))
}

pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether the name is a plain file name: it becomes part of a path when the session's files are searched.
fn is_plain(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= 128 && !name.contains(['/', '\\', '\0'])
}

struct SessionField<'a>(&'a mut Option<String>);

impl<'de> Visitor<'de> for SessionField<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key == "sessionId" {
                *self.0 = map.next_value()?;
                return Ok(());
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{super::ClaudeCode, *};
    use crate::Harness;

    const SESSION: &str = "59d3cea2-8628-4065-a429-a6583bbe765a";

    fn check(path: &str, role: Role, session: Option<&str>, agent: Option<&str>, workflow: Option<&str>) {
        let place = ClaudeCode.classify(Path::new(path)).unwrap();
        let texts = [&place.session, &place.agent, &place.workflow].map(Option::as_deref);
        assert_eq!((place.role, texts), (role, [session, agent, workflow]), "{path}");
    }

    #[test]
    fn classify_each_place_of_the_layout() {
        check(&format!("/p/{SESSION}.jsonl"), Role::Main, Some(SESSION), None, None);
        check("/x/projects/-a/short.jsonl", Role::Main, Some("short"), None, None);
        check("/p/agent-a1.jsonl", Role::Agent, None, Some("a1"), None);
        check("/p/s/subagents/agent-a1.jsonl", Role::Agent, Some("s"), Some("a1"), None);
        check("/p/s/subagents/agent-a1.meta.json", Role::Note, Some("s"), Some("a1"), None);
        check("/p/s/subagents/workflows/wf_1/agent-a.jsonl", Role::Agent, Some("s"), Some("a"), Some("wf_1"));
        check("/p/s/subagents/workflows/wf_1/journal.jsonl", Role::Note, Some("s"), None, Some("wf_1"));
    }

    #[test]
    fn classify_anything_else_as_nothing() {
        for path in ["/r/stream.jsonl", "/r/hooks.jsonl", "/r/journal.jsonl", "/p/agent-.jsonl", "/", "x", ""]
        {
            assert_eq!(ClaudeCode.classify(Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn classify_below_projects_by_folder() {
        let of = |path: &str| {
            ClaudeCode
                .classify_below(Path::new("/p"), Path::new(path))
                .map(|place| (place.role, place.session))
        };
        let named = |role, session: &str| Some((role, Some(session.to_owned())));
        assert_eq!(of("/p/a/any name.jsonl"), named(Role::Main, "any name"));
        assert_eq!(of("/p/a/agent-x.jsonl"), Some((Role::Agent, None)));
        assert_eq!(of("/p/a/s/subagents/agent-x.jsonl"), named(Role::Agent, "s"));
        assert_eq!(of("/p/a/s/agent-x.meta.json"), named(Role::Note, "s"));
        for none in ["/p/x.jsonl", "/p/a/agent-x.meta.json", "/p/a/x.txt", "/p/a/s/x.jsonl", "/q/a/s.jsonl"] {
            assert_eq!(of(none), None, "{none}");
        }
        let folder =
            |path: &str| ClaudeCode.session_of_folder(Path::new("/p"), Path::new(path)).map(|it| it.session);
        assert_eq!(folder("/p/a/s/subagents/workflows").as_deref(), Some("s"));
        assert_eq!((folder("/p/a"), folder("/p")), (None, None));
    }

    #[test]
    fn home_prefers_the_variable_unless_it_is_empty() {
        let env = |claude: &'static str| {
            move |name: &str| match name {
                "CLAUDE_CONFIG_DIR" => Some(OsString::from(claude)),
                "HOME" => Some(OsString::from("/home/user")),
                _ => None,
            }
        };
        assert_eq!(ClaudeCode.home(&env("/elsewhere")).folder, Path::new("/elsewhere"));
        assert_eq!(ClaudeCode.home(&env("")).folder, Path::new("/home/user/.claude"));
        assert_eq!(ClaudeCode.roots(&env(""))[0], Path::new("/home/user/.claude/projects"));
    }

    #[test]
    fn session_in_line_is_found_whole_or_cut() {
        let line = b"{\"a\":{\"sessionId\":\"no\"},\"sessionId\":\"s1\",\"b\":1}";
        assert_eq!(session_in_line(line).as_deref(), Some("s1"));
        let cut = b"{\"sessionId\":\"s1\",\"message\":\"cut her";
        assert_eq!(session_in_line(cut).as_deref(), Some("s1"));
    }

    #[test]
    fn session_in_foreign_or_hostile_line_is_none() {
        let lines: [&[u8]; 8] = [
            b"",
            b"not json",
            b"{\"sessionId\":\"cu",
            b"{\"sessionId\":7}",
            b"{\"sessionId\":null}",
            b"{\"sessionId\":\"../up\"}",
            b"{\"sessionId\":\"..\"}",
            b"{}",
        ];
        for line in lines {
            assert_eq!(session_in_line(line), None, "{}", String::from_utf8_lossy(line));
        }
    }
}
