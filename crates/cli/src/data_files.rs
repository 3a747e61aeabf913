//! What is in a data folder, by the beginnings of its names.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// How a backup treats a file of the data folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InBackup {
    /// A database of SQLite, by its name: copied as it is at one moment.
    Database(&'static str),
    /// Files: copied as they are.
    Files,
    /// Left out: made again by whatever needs it, or of one hub alone.
    LeftOut,
}

/// What names begin with, and what a backup does with them. The store itself is copied by what knows it.
pub(crate) const DATA: [(&str, InBackup); 12] = [
    ("spool", InBackup::Files),
    ("waiting-spans.", InBackup::Database("waiting-spans.db")),
    ("otlp", InBackup::Files),
    ("team.", InBackup::Database("team.db")),
    ("forgotten.jsonl", InBackup::Files),
    ("archive", InBackup::Files),
    ("store.", InBackup::LeftOut),
    ("search.", InBackup::LeftOut),
    ("restoring", InBackup::LeftOut),
    ("hub.", InBackup::LeftOut),
    ("token", InBackup::LeftOut),
    ("backup", InBackup::LeftOut),
];

/// What folders begin with in which a repair or a restoration sets files aside.
const ASIDE: [&str; 2] = ["damaged-", "replaced-"];

/// Returns the files and folders of a data folder, in order.
pub(crate) fn data_files(folder: &Path) -> Vec<PathBuf> {
    let known: Vec<&str> = DATA.into_iter().map(|(name, _)| name).chain(ASIDE).collect();
    known_in(folder, |name| known.iter().any(|known| name.starts_with(known)))
}

/// Returns the files and folders in a folder whose names are known, in order.
pub(crate) fn known_in(folder: &Path, is_known: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let known = entries.filter(|entry| entry.file_name().to_str().is_some_and(&is_known));
    let mut paths: Vec<PathBuf> = known.map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}
