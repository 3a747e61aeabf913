//! A home with the sessions of some months.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use subscope_testkit::corpus::{self, Dialects, Options};

/// Projects of one history, and sessions of a project.
const PROJECTS: usize = 8;
const SESSIONS: usize = 20;
/// Between the starts of two sessions.
const APART_MS: i64 = 3_600_000;

pub(crate) struct History {
    pub(crate) home: PathBuf,
    pub(crate) sessions: usize,
    pub(crate) files: usize,
    pub(crate) bytes: u64,
}

impl History {
    /// Makes one in a folder, `times` as big.
    pub(crate) fn make(home: &Path, times: usize) -> Self {
        let claude = home.join(".claude");
        let sessions = PROJECTS * SESSIONS * times;
        for number in 0..sessions {
            let start = Options::default().start + APART_MS * number as i64;
            let options = Options {
                seed: number as u64,
                agents: 10,
                turns: 40,
                root_turns: 40,
                result_bytes: 2_600,
                dialects: Dialects::Transcripts,
                cwd: format!("/home/user/project-{}", number % (PROJECTS * times)),
                start,
                ..Options::default()
            };
            corpus::on_disk(&options, &claude).expect("a session on disk");
        }
        // Pending writes would be measured with the next run.
        let _ = Command::new("sync").status();
        let (files, bytes) = count(&claude);
        Self { home: home.to_owned(), sessions, files, bytes }
    }
}

/// How many files a folder has below it, and how many bytes they hold.
fn count(folder: &Path) -> (usize, u64) {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    entries.fold((0, 0), |(files, bytes), entry| {
        let kind = entry.metadata().expect("a file");
        let (below, held) = if kind.is_dir() { count(&entry.path()) } else { (1, kind.len()) };
        (files + below, bytes + held)
    })
}
