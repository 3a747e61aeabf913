//! Counts sessions and directories below Claude Code's `projects` directory, without reading transcripts.

use std::{
    ffi::OsStr,
    fs::{self, DirEntry},
    io,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use subscope_collect::{Role, follow::FollowOptions, layout::describe};
use subscope_model::Millis;

/// Recursion limit: a session's workflows are five levels below `projects`.
const MAX_DEPTH: usize = 6;
/// A session's directory of large tool outputs: many files, none of them watched.
const TOOL_RESULTS: &str = "tool-results";

/// Counts below the `projects` directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    /// Main transcripts.
    pub(super) sessions: usize,
    /// Those of them written recently enough to be followed by `watch`.
    pub(super) live: usize,
    /// Modification time of the newest transcript.
    pub(super) newest_ms: Option<Millis>,
    /// Directories to watch, including `projects`.
    pub(super) folders: u64,
    /// Directories that cannot be listed.
    pub(super) unreadable: Vec<PathBuf>,
}

impl Survey {
    /// Surveys a directory; all counts are 0 if it does not exist.
    pub(super) fn of(projects: &Path, now_ms: Millis) -> Self {
        let live_within = FollowOptions::new(|| 0).live_within;
        let live_since_ms =
            now_ms.saturating_sub(Millis::try_from(live_within.as_millis()).unwrap_or(Millis::MAX));
        let mut survey = Self::default();
        if projects.is_dir() {
            survey.list(projects, MAX_DEPTH, live_since_ms);
        }
        survey
    }

    fn list(&mut self, folder: &Path, depth: usize, live_since_ms: Millis) {
        self.folders += 1;
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    self.unreadable.push(folder.to_owned());
                }
                return;
            }
        };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth > 0 && entry.file_name() != TOOL_RESULTS {
                self.list(&entry.path(), depth - 1, live_since_ms);
            } else if kind.is_file() && entry.path().extension() == Some(OsStr::new("jsonl")) {
                self.count(&entry, live_since_ms);
            }
        }
    }

    fn count(&mut self, entry: &DirEntry, live_since_ms: Millis) {
        let modified_ms = modified_ms(entry);
        self.newest_ms = self.newest_ms.max(modified_ms);
        if describe(&entry.path()).role == Role::Main {
            self.sessions += 1;
            self.live += usize::from(modified_ms.is_some_and(|at_ms| at_ms >= live_since_ms));
        }
    }
}

fn modified_ms(entry: &DirEntry) -> Option<Millis> {
    let modified = entry.metadata().ok()?.modified().ok()?;
    Millis::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_sessions_and_folders_without_big_outputs() {
        let home = tempfile::tempdir().unwrap();
        let projects = home.path().join("projects");
        for path in [
            "-a/s1.jsonl",
            "-a/s1/subagents/agent-x.jsonl",
            "-a/s1/tool-results/1.txt",
            "-b/s2.jsonl",
            "-b/notes.txt",
        ] {
            let path = projects.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let survey = Survey::of(&projects, subscope_hub::clock::now_ms());
        assert_eq!((survey.sessions, survey.live, survey.folders), (2, 2, 5));
        assert!(survey.newest_ms.is_some() && survey.unreadable.is_empty());
        let later = Survey::of(&projects, subscope_hub::clock::now_ms() + 3_600_000);
        assert_eq!((later.sessions, later.live), (2, 0));
        assert_eq!(Survey::of(&home.path().join("none"), 0), Survey::default());
    }
}
