//! Backups of settings files before our first change, so that `remove` can restore them byte for byte.
//!
//! One file for each settings file, in the state folder, for its owner alone: settings may hold keys.

use std::{
    fs::{self, DirBuilder},
    hash::Hasher,
    os::unix::{ffi::OsStrExt, fs::DirBuilderExt},
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file;
use crate::{environment::Environment, prelude::*};

const SCHEMA: &str = "subscope.settings-before/1";

/// A settings file before and after subscope changed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(in super::super) struct Memory {
    pub(in super::super) schema: String,
    /// Path of the file, with links resolved; bytes that are not Unicode are replaced.
    pub(in super::super) path: String,
    /// Text of the file before the change; `None` if there was no file.
    pub(in super::super) before: Option<String>,
    /// Text of the file after the change. If it has another text now, another program changed it, and `before` is not
    /// restored.
    pub(in super::super) after: String,
    /// Folders that subscope created for it, the innermost first.
    pub(in super::super) folders: Vec<PathBuf>,
}

impl Memory {
    pub(in super::super) fn new(
        path: &Path,
        before: Option<String>,
        after: String,
        folders: Vec<PathBuf>,
    ) -> Self {
        Self { schema: SCHEMA.to_owned(), path: path.to_string_lossy().into_owned(), before, after, folders }
    }
}

/// Which change of a settings file a backup belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Backups {
    /// Hooks were added.
    Hooks,
    /// A status line was set.
    StatusLine,
}

impl Backups {
    fn folder(self) -> &'static str {
        match self {
            Self::Hooks => "hooks",
            Self::StatusLine => "status-line",
        }
    }
}

/// Location of the backup of one settings file.
#[derive(Debug)]
pub(in super::super) struct SettingsBackup {
    settings: PathBuf,
    file: PathBuf,
}

impl SettingsBackup {
    /// Returns the place for a settings file; `None` where the environment names no state folder.
    pub(in super::super) fn of(settings: &Path, kind: Backups, environment: &Environment) -> Option<Self> {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        hasher.write(settings.as_os_str().as_bytes());
        let name = format!("{:016x}.json", hasher.finish());
        Some(Self {
            settings: settings.to_owned(),
            file: environment.state_folder()?.join(kind.folder()).join(name),
        })
    }

    /// Returns the settings files of which there is a backup of any kind.
    pub(in super::super) fn changed(environment: &Environment) -> Vec<PathBuf> {
        let folders = [Backups::Hooks, Backups::StatusLine].map(Backups::folder);
        let folders = folders.iter().filter_map(|name| Some(environment.state_folder()?.join(name)));
        let files = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let read = |path: PathBuf| serde_json::from_str::<Memory>(&file::read(&path).ok()??).ok();
        let memories = files.filter_map(|entry| read(entry.path()));
        memories.filter(|memory| memory.schema == SCHEMA).map(|memory| memory.path.into()).collect()
    }

    /// Returns the backup; `None` also if it cannot be read.
    pub(in super::super) fn recall(&self) -> Option<Memory> {
        let memory: Memory = serde_json::from_str(&file::read(&self.file).ok()??).ok()?;
        (memory.schema == SCHEMA && memory.path == self.settings.to_string_lossy()).then_some(memory)
    }

    /// Replaces the backup, or removes it for `None`.
    pub(in super::super) fn replace(&self, memory: Option<&Memory>) -> Result<(), CliError> {
        match memory {
            Some(memory) => self.keep(memory),
            None => {
                self.forget();
                Ok(())
            }
        }
    }

    fn keep(&self, memory: &Memory) -> Result<(), CliError> {
        let failed = |error| CliError::write(self.file.display(), error);
        if let Some(folder) = self.file.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        }
        let text = serde_json::to_string(memory).map_err(|error| failed(error.into()))?;
        let before = file::read(&self.file)?;
        file::replace(&self.file, before.as_deref(), &text, file::PRIVATE)
    }

    /// Removes the backup. One that cannot be removed is recognized as outdated by its `after`.
    pub(in super::super) fn forget(&self) {
        let _ = fs::remove_file(&self.file);
    }
}

/// Fowler–Noll–Vo, 1a, 64 bits: the standard library's hasher may change with its version, and names of files must not.
struct Fnv(u64);

impl Hasher for Fnv {
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
        let shelf = SettingsBackup::of(path, Backups::Hooks, &environment).unwrap();
        assert_eq!(shelf.recall(), None);
        for before in [None, Some("\u{feff}{\r\n}".to_owned())] {
            let memory = Memory::new(path, before, "{}".to_owned(), vec!["/x".into()]);
            shelf.keep(&memory).unwrap();
            assert_eq!(shelf.recall(), Some(memory));
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&shelf.file), mode(shelf.file.parent().unwrap())), (0o600, 0o700));
        assert_eq!(SettingsBackup { settings: "/y".into(), file: shelf.file.clone() }.recall(), None);
        shelf.forget();
        assert_eq!(shelf.recall(), None);
    }
}
