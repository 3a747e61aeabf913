//! Backups of settings files from before our installation, so that `remove` can restore them byte for byte.
//!
//! One backup file per settings file, in the state directory, readable by its owner only: settings may hold keys.

use std::{
    fs::{self, DirBuilder},
    hash::Hasher,
    os::unix::{ffi::OsStrExt, fs::DirBuilderExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::file;
use crate::{environment::Environment, error::CliError};

const SCHEMA: &str = "subscope.settings-before/1";

/// A settings file before and after our installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedSettings {
    pub(super) schema: String,
    /// Path with symbolic links resolved; invalid Unicode is replaced.
    pub(super) path: String,
    /// Content before the installation; `None`: no file.
    pub(super) before: Option<String>,
    /// Content that we wrote. If the file differs, it was changed since, and `before` must not be restored.
    pub(super) after: String,
    /// Directories that we created for it, innermost first.
    pub(super) folders: Vec<PathBuf>,
}

impl SavedSettings {
    pub(super) fn new(path: &Path, before: Option<String>, after: String, folders: Vec<PathBuf>) -> Self {
        Self { schema: SCHEMA.to_owned(), path: path.to_string_lossy().into_owned(), before, after, folders }
    }
}

/// The backup file of one settings file.
#[derive(Debug)]
pub(super) struct BackupFile {
    /// The settings file.
    settings: PathBuf,
    file: PathBuf,
}

impl BackupFile {
    /// Returns the backup file of a settings file; `None` without a state directory.
    pub(super) fn of(settings: &Path, environment: &Environment) -> Option<Self> {
        let mut hasher = Fnv1a(0xcbf2_9ce4_8422_2325);
        hasher.write(settings.as_os_str().as_bytes());
        let name = format!("{:016x}.json", hasher.finish());
        Some(Self {
            settings: settings.to_owned(),
            file: environment.state_folder()?.join("hooks").join(name),
        })
    }

    /// Loads the backup; `None` if it is missing or unreadable.
    pub(super) fn load(&self) -> Option<SavedSettings> {
        let saved: SavedSettings = serde_json::from_str(&file::read(&self.file).ok()??).ok()?;
        (saved.schema == SCHEMA && saved.path == self.settings.to_string_lossy()).then_some(saved)
    }

    /// Replaces the backup; `None` deletes it.
    pub(super) fn replace(&self, saved: Option<&SavedSettings>) -> Result<(), CliError> {
        match saved {
            Some(saved) => self.store(saved),
            None => {
                self.delete();
                Ok(())
            }
        }
    }

    fn store(&self, saved: &SavedSettings) -> Result<(), CliError> {
        let failed = |error| CliError::write(&self.file.display().to_string(), error);
        if let Some(folder) = self.file.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        let text = serde_json::to_string(saved).map_err(|error| failed(error.into()))?;
        let before = file::read(&self.file)?;
        file::replace(&self.file, before.as_deref(), &text, file::PRIVATE)
    }

    /// Deletes the backup. If that fails, its `after` no longer matches, and it is not restored.
    pub(super) fn delete(&self) {
        let _ = fs::remove_file(&self.file);
    }
}

/// FNV-1a, 64 bits: the standard library's hash may change between versions, file names must not.
struct Fnv1a(u64);

impl Hasher for Fnv1a {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn shelf_keeps_recalls_and_forgets_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let environment = Environment::of(home.path(), &[("HOME", home.path().to_str().unwrap())]);
        let path = Path::new("/x/settings.json");
        let backup_file = BackupFile::of(path, &environment).unwrap();
        assert_eq!(backup_file.load(), None);
        for before in [None, Some("\u{feff}{\r\n}".to_owned())] {
            let saved = SavedSettings::new(path, before, "{}".to_owned(), vec!["/x".into()]);
            backup_file.store(&saved).unwrap();
            assert_eq!(backup_file.load(), Some(saved));
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&backup_file.file), mode(backup_file.file.parent().unwrap())), (0o600, 0o700));
        assert_eq!(BackupFile { settings: "/y".into(), file: backup_file.file.clone() }.load(), None);
        backup_file.delete();
        assert_eq!(backup_file.load(), None);
    }
}
