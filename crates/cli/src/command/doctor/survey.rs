//! Counts the files below the harnesses' folders of transcripts, without reading more than first lines.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use subscope_collect::{follow::FollowOptions, sessions_below, sessions_not_understood};
use subscope_harness::Root;
use subscope_model::Millis;

/// Greatest depth of the search: the files of a session may be five levels below the folder of transcripts.
const DEPTH: usize = 6;

/// Counts below the `projects` directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Survey {
    /// Main transcripts.
    pub(super) sessions: usize,
    /// Those of them written recently enough to be followed by `watch`.
    pub(super) recent: usize,
    /// Modification time of the newest transcript.
    pub(super) newest_ms: Option<Millis>,
    /// Folders to watch, those of transcripts included.
    pub(super) folders: u64,
    /// Directories that cannot be listed.
    pub(super) unreadable: Vec<PathBuf>,
    /// Symbolic links to folders, which are not followed.
    pub(super) links: Vec<PathBuf>,
}

impl Survey {
    /// Counts the files of the folders; none in those that do not exist.
    pub(super) fn of(roots: &[Root], now_ms: Millis) -> Self {
        let live_within = FollowOptions::new(|| 0).live_within;
        let recent_since_ms =
            now_ms.saturating_sub(Millis::try_from(live_within.as_millis()).unwrap_or(Millis::MAX));
        let mut survey = Self::default();
        for root in roots.iter().filter(|root| root.folder.is_dir()) {
            survey.list(root, &root.folder, DEPTH);
            survey.count_sessions(root, recent_since_ms);
        }
        survey
    }

    fn list(&mut self, root: &Root, folder: &Path, depth: usize) {
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
            if kind.is_dir() && depth > 0 && !root.harness.skips_folder(&entry.file_name()) {
                self.list(root, &entry.path(), depth - 1);
            } else if kind.is_symlink() && depth == DEPTH && entry.path().is_dir() {
                self.links.push(entry.path());
            } else if kind.is_file() {
                self.count(root, &entry.path());
            }
        }
    }

    fn count(&mut self, root: &Root, path: &Path) {
        if root.harness.classify_below(&root.folder, path).is_some() {
            self.newest_ms = self.newest_ms.max(modified_ms(path));
        }
    }

    /// Counts the sessions of a root. Those in one database count as one that was written recently.
    fn count_sessions(&mut self, root: &Root, recent_since_ms: Millis) {
        let mut files = BTreeSet::new();
        // What is named as not understood is no session that was found.
        let unknown = sessions_not_understood(root);
        for (_, path) in sessions_below(root) {
            if unknown.contains(&path) {
                continue;
            }
            self.sessions += 1;
            let file = if path.exists() { path } else { path.parent().map(Path::to_owned).unwrap_or(path) };
            files.insert(file);
        }
        for written in files.iter().filter_map(|file| modified_ms(file)) {
            self.newest_ms = self.newest_ms.max(Some(written));
            self.recent += usize::from(written >= recent_since_ms);
        }
    }
}

fn modified_ms(path: &Path) -> Option<Millis> {
    let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
    Millis::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use subscope_harness::claude_code::ClaudeCode;

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
        let root = [Root { harness: &ClaudeCode, folder: projects }];
        let survey = Survey::of(&root, subscope_hub::clock::now_ms());
        assert_eq!((survey.sessions, survey.recent, survey.folders), (2, 2, 5));
        assert!(survey.newest_ms.is_some() && survey.unreadable.is_empty());
        let later = Survey::of(&root, subscope_hub::clock::now_ms() + 3_600_000);
        assert_eq!((later.sessions, later.recent), (2, 0));
        assert_eq!(Survey::of(&[], 0), Survey::default());
    }
}
