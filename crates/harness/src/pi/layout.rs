//! The folders of the family: the meaning of the parts of a path. Observed: oh-my-pi 18.2.3; pi and OpenClaw in public
//! examples.
//!
//! ```text
//! sessions/<project>/<time>_<session>.jsonl                          the root
//! sessions/<project>/<time>_<session>/<Name>.jsonl                   an agent of it
//! sessions/<project>/<time>_<session>/<Name>/<Name>.<Child>.jsonl    an agent of that
//! agents/<agent>/sessions/<session>.jsonl                            OpenClaw
//! agents/<agent>/sessions/<session>.jsonl.<reset or deleted>.<time>  the same, when it was begun anew or taken from the list
//! ```

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use subscope_decode::lenient::Str;

use super::{
    OPENCLAW,
    family::{MEMBERS, PiMember},
};
use crate::{Place, Role, SessionFiles};

/// Ending of the names of files.
const ENDING: &str = "jsonl";
/// The folder of the sessions of one agent of OpenClaw.
const SESSIONS: &str = "sessions";
/// What OpenClaw puts behind the name of a file that it does not write to any more.
const SET_ASIDE: [&str; 2] = [".reset.", ".deleted."];

/// Returns the program whose folder a path is in; the first of the family where it is in none.
pub(super) fn owner_of(path: &Path) -> &'static PiMember {
    if is_of_openclaw(path) {
        return &OPENCLAW;
    }
    let is_of = |member: &&PiMember| {
        let names = || member.older.iter().chain([&member.folder.0]);
        path.iter().any(|part| names().any(|name| part == *name))
    };
    let [first, ..] = MEMBERS else { return &OPENCLAW };
    MEMBERS.iter().copied().find(is_of).unwrap_or(first)
}

/// Whether a file is in a folder of sessions of OpenClaw, wherever its home was moved to.
fn is_of_openclaw(path: &Path) -> bool {
    let mut above = path.ancestors().skip(1).map(Path::file_name);
    let (sessions, agents) = (above.next().flatten(), above.nth(1).flatten());
    sessions.is_some_and(|name| name == SESSIONS) && agents.is_some_and(|name| name == OPENCLAW.sessions)
}

/// Returns the session of a name that begins with a time: `2026-11-26T19-47-49-965Z_<session>`.
pub(super) fn session_in(stem: &str) -> Option<&str> {
    const TIME: &[u8] = b"0000-00-00T00-00-00-000Z";
    let (time, session) = stem.split_once('_')?;
    let fits =
        |(letter, form): (u8, &u8)| if *form == b'0' { letter.is_ascii_digit() } else { letter == *form };
    let is_time = time.len() == TIME.len() && time.bytes().zip(TIME).all(fits);
    (is_time && is_plain(session)).then_some(session)
}

/// Whether a part of a name is one that a program makes. People and programs that copy files add words.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains([' ', '(', ')'])
}

/// Returns the name of a file without its ending; `None` if it is none of lines.
fn stem_of(name: &str) -> Option<&str> {
    let (stem, behind) = name.split_once(".jsonl")?;
    (behind.is_empty() || SET_ASIDE.iter().any(|words| behind.starts_with(words))).then_some(stem)
}

/// Classifies a file of a program.
pub(super) fn place(path: &Path, member: &PiMember) -> Option<Place> {
    let stem = stem_of(path.file_name()?.to_str()?)?;
    let place = |role, session: Option<&str>, agent: Option<&str>| Place {
        role,
        dialect: member.session(),
        session: session.map(str::to_owned),
        agent: agent.map(str::to_owned),
        workflow: None,
    };
    if member.name == OPENCLAW.name {
        let is_listed = path.parent()?.file_name()? == SESSIONS && !stem.contains('.');
        // A file that was begun anew keeps its name: its first line names the session.
        return is_listed.then(|| place(Role::Main, None, None));
    }
    if let Some(session) = session_in(stem) {
        return Some(place(Role::Main, Some(session), None));
    }
    if !is_plain(stem) {
        return None;
    }
    let session = session_in(session_folder(path.parent()?)?.file_name()?.to_str()?)?;
    Some(place(Role::Agent, Some(session), Some(stem)))
}

/// Returns the session of a file of OpenClaw, by its first line, else by its name.
pub(super) fn session_of(path: &Path, line: &[u8]) -> Option<String> {
    let head: SessionLine<'_> = serde_json::from_slice(line).unwrap_or_default();
    let named = head.id.filled().filter(|_| head.kind.is("session"));
    named.or_else(|| stem_of(path.file_name()?.to_str()?)).map(str::to_owned)
}

/// The first line of a file.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct SessionLine<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    id: Str<'a>,
}

/// Returns the folder of the agents of a session that a folder is, or is in.
fn session_folder(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|above| above.file_name().and_then(|name| session_in(name.to_str()?)).is_some())
}

/// Returns the main transcript of the session that a file is of.
pub(super) fn main_of(path: &Path) -> Option<PathBuf> {
    let is_main = path.file_stem().and_then(|stem| session_in(stem.to_str()?)).is_some();
    match path.parent().and_then(session_folder) {
        Some(folder) if !is_main => Some(with_ending(folder)),
        _ => Some(path.to_owned()),
    }
}

fn with_ending(folder: &Path) -> PathBuf {
    let mut name = folder.as_os_str().to_owned();
    name.push(".");
    name.push(ENDING);
    name.into()
}

/// Returns the files of the session whose agents are in this folder.
pub(super) fn files_of_folder(folder: &Path, member: &PiMember) -> Option<SessionFiles> {
    let session = session_in(folder.file_name()?.to_str()?)?;
    Some(files(&with_ending(folder), session, member))
}

/// Returns the files of a session.
pub(super) fn files(main: &Path, session: &str, member: &PiMember) -> SessionFiles {
    let place = Place {
        role: Role::Main,
        dialect: member.session(),
        session: Some(session.to_owned()),
        agent: None,
        workflow: None,
    };
    let folders = vec![main.with_extension("")];
    SessionFiles { session: session.to_owned(), main: main.to_owned(), place, folders, shared: Vec::new() }
}

/// Returns the main transcripts of a session below a root.
pub(super) fn transcripts_of(root: &Path, session: &str) -> Vec<PathBuf> {
    let below = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<PathBuf>>()
    };
    let projects = below(root).into_iter().flat_map(|project| [project.join(SESSIONS), project]);
    let is_it = |path: &PathBuf| {
        let stem = path.file_name().and_then(|name| stem_of(name.to_str()?));
        stem.is_some_and(|stem| session_in(stem).unwrap_or(stem) == session) && path.is_file()
    };
    projects.flat_map(|folder| below(&folder)).filter(is_it).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{OMP, PI},
        *,
    };
    use crate::Harness;

    const ID: &str = "01a21966-624d-72a4-8219-61a5be8b2e0e";

    #[test]
    fn files_are_classified_by_name_and_folder() {
        let stem = format!("2026-11-26T19-47-49-965Z_{ID}");
        let omp = format!("/h/.omp/agent/sessions/-shop/{stem}");
        let cases = [
            (format!("{omp}.jsonl"), "omp", Some((Role::Main, None))),
            (format!("{omp}/Outer.jsonl"), "omp", Some((Role::Agent, Some("Outer")))),
            (format!("{omp}/Outer/Outer.In.jsonl"), "omp", Some((Role::Agent, Some("Outer.In")))),
            (format!("{omp}/Outer.md"), "omp", None),
            (format!("{omp}/Outer copy.jsonl"), "omp", None),
            (format!("{omp} (1).jsonl"), "omp", None),
            (format!("/copies/{stem}.jsonl"), "omp", Some((Role::Main, None))),
            (format!("/h/.pi/agent/sessions/--w--/{stem}.jsonl"), "pi", Some((Role::Main, None))),
            (format!("/h/.openclaw/agents/main/sessions/{ID}.jsonl"), "openclaw", Some((Role::Main, None))),
            (format!("/moved/agents/main/sessions/{ID}.jsonl"), "openclaw", Some((Role::Main, None))),
            (format!("/moved/sessions/{ID}.jsonl"), "omp", None),
            (format!("/h/.clawdbot/agents/main/sessions/{ID}.jsonl"), "openclaw", Some((Role::Main, None))),
            (format!("/h/.openclaw/agents/main/sessions/{ID}.trajectory.jsonl"), "openclaw", None),
            (format!("/h/.openclaw/agents/main/sessions/{ID}.jsonl.bak-1-2"), "openclaw", None),
            (
                format!("/h/.openclaw/agents/main/sessions/{ID}.jsonl.reset.2026-04-05T13-22-54.723Z"),
                "openclaw",
                Some((Role::Main, None)),
            ),
            (
                format!("/h/.openclaw/agents/main/sessions/{ID}.jsonl.deleted.2026-04-05T13-22-54.723Z"),
                "openclaw",
                Some((Role::Main, None)),
            ),
            ("/h/.openclaw/agents/main/sessions/sessions.json".to_owned(), "openclaw", None),
            (format!("/h/{ID}.jsonl"), "omp", None),
            ("/h/2026-11-26_notes.jsonl".to_owned(), "omp", None),
        ];
        for (path, owner, expected) in cases {
            let path = Path::new(&path);
            assert_eq!(owner_of(path).name, owner, "{}", path.display());
            let places: Vec<Place> = MEMBERS.iter().filter_map(|member| member.classify(path)).collect();
            let found: Vec<_> = places.iter().map(|place| (place.role, place.agent.as_deref())).collect();
            assert_eq!(found, Vec::from_iter(expected), "{}", path.display());
            let session = |place: Place| place.session.or_else(|| session_of(path, b"{}"));
            assert!(
                places.into_iter().all(|place| session(place).as_deref() == Some(ID)),
                "{}",
                path.display()
            );
        }
    }

    #[test]
    fn a_file_of_openclaw_that_was_begun_anew_is_of_the_session_that_its_first_line_names() {
        let path = Path::new("/h/.openclaw/agents/main/sessions/old.jsonl");
        let named = |line: &str| session_of(path, line.as_bytes());
        assert_eq!(named(r#"{"type":"session","version":3,"id":"new"}"#).as_deref(), Some("new"));
        assert_eq!(named(r#"{"type":"message","id":"a"}"#).as_deref(), Some("old"));
        assert_eq!(named(r#"{"type":"session","id""#).as_deref(), Some("old"));
    }

    #[test]
    fn a_session_has_its_file_and_the_folder_of_the_same_name() {
        let root = Path::new("/h/.omp/agent/sessions");
        let folder = root.join(format!("-shop/2026-11-26T19-47-49-965Z_{ID}"));
        let main = root.join(format!("-shop/2026-11-26T19-47-49-965Z_{ID}.jsonl"));
        for path in [main.clone(), folder.join("Outer.jsonl"), folder.join("Outer/Outer.In.jsonl")] {
            let files = OMP.session_files(root, &path, ID);
            assert_eq!((&files.main, files.folders.as_slice()), (&main, [folder.clone()].as_slice()));
        }
        for inside in [folder.clone(), folder.join("Outer")] {
            assert_eq!(OMP.session_of_folder(root, &inside).unwrap().main, main);
        }
        assert!(OMP.session_of_folder(root, &root.join("-shop")).is_none());
    }

    #[test]
    fn sessions_are_found_by_their_ids() {
        let home = tempfile::tempdir().unwrap();
        let time = "2026-11-26T19-47-49-965Z";
        for name in
            [format!("-shop/{time}_s1.jsonl"), format!("-w/{time}_s2.jsonl"), "main/sessions/s3.jsonl".into()]
        {
            let path = home.path().join(&name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        for (session, name) in
            [("s1", format!("-shop/{time}_s1.jsonl")), ("s3", "main/sessions/s3.jsonl".to_owned())]
        {
            assert_eq!(transcripts_of(home.path(), session), [home.path().join(name)]);
        }
        assert!(transcripts_of(home.path(), "s4").is_empty());
    }

    #[test]
    fn homes_follow_their_variables() {
        let env = |variable: &'static str| {
            move |name: &str| match name {
                "HOME" => Some("/home/user".into()),
                _ if name == variable => Some("/else".into()),
                _ => None,
            }
        };
        let roots = |member: &PiMember, variable| member.roots(&env(variable));
        assert_eq!(roots(&OMP, "")[0], Path::new("/home/user/.omp/agent/sessions"));
        assert_eq!(roots(&PI, "")[0], Path::new("/home/user/.pi/agent/sessions"));
        assert_eq!(roots(&PI, "PI_CODING_AGENT_DIR")[0], Path::new("/else/sessions"));
        assert_eq!(roots(&OPENCLAW, "")[0], Path::new("/home/user/.openclaw/agents"));
        assert_eq!(roots(&OPENCLAW, "OPENCLAW_STATE_DIR")[0], Path::new("/else/agents"));
        // Both programs use the variable: the folder is followed once.
        let all = crate::roots(&env("PI_CODING_AGENT_DIR"));
        let moved = all.iter().filter(|root| root.folder == Path::new("/else/sessions"));
        assert_eq!(moved.map(|root| root.harness.name()).collect::<Vec<_>>(), ["omp"]);
    }
}
