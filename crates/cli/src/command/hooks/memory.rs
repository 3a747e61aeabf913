//! What a settings file was before our first change, so that `remove` can restore it byte for byte.
//!
//! One file for each settings file, in the state folder, for its owner alone. Settings may hold keys, and nothing of
//! them is copied: a [`Memory`] says which bytes of the changed text to keep, and has the text only of what our change
//! took out (an earlier hook or status line).

use std::{
    fs,
    hash::Hasher,
    ops::Range,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use similar::{Algorithm, DiffTag, capture_diff_slices};
use subscope_harness::HookSupport;
use subscope_platform::{create_private_folder, path_bytes};

use super::file;
use crate::{environment::Environment, prelude::*};

const SCHEMA: &str = "subscope.settings-before/2";
/// The format with both texts as they are.
const WHOLE_TEXTS: &str = "subscope.settings-before/1";

/// How a settings file was before subscope changed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(in super::super) struct Memory {
    pub(in super::super) schema: String,
    /// Path of the file, with links resolved; bytes that are not Unicode are replaced.
    pub(in super::super) path: String,
    /// The text before the change, put together from these in order; `None` if there was no file.
    pub(in super::super) before: Option<Vec<BeforePiece>>,
    /// SHA-256 of the text after the change, in hexadecimal. If the file has another text now, another program changed
    /// it, and `before` does not apply.
    pub(in super::super) after_sha256: String,
    /// The lists of hooks that the settings had, without hooks, and `env` without variables if they had it; or the former
    /// status line: what is left in place, or put back, in a file that another program changed. `None` if there was no
    /// file.
    pub(in super::super) outline: Option<String>,
    /// Folders that subscope created for it, the innermost first.
    pub(in super::super) folders: Vec<PathBuf>,
}

/// A part of the text before a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum BeforePiece {
    /// Bytes of the text after the change, from the first to before the last.
    Kept(Range<usize>),
    /// Text that the change took out.
    Removed(String),
}

/// A [`Memory`] in the format with both texts.
#[derive(Deserialize)]
struct WholeTexts {
    schema: String,
    path: String,
    before: Option<String>,
    after: String,
    folders: Vec<PathBuf>,
}

/// Returns `before`, made of pieces of `after`.
fn pieces(before: &str, after: &str) -> Vec<BeforePiece> {
    // Words with the sign that follows: the smallest difference of these keeps all that both have.
    let words = |text| str::split_inclusive(text, |c: char| !c.is_alphanumeric()).collect::<Vec<_>>();
    let (old, new) = (words(before), words(after));
    let starts: Vec<usize> = new
        .iter()
        .scan(0, |at, word| Some(std::mem::replace(at, *at + word.len())))
        .chain([after.len()])
        .collect();
    let mut pieces = Vec::new();
    for difference in capture_diff_slices(Algorithm::Myers, &old, &new) {
        let (tag, was, is) = difference.as_tag_tuple();
        match tag {
            DiffTag::Equal => pieces.push(BeforePiece::Kept(starts[is.start]..starts[is.end])),
            DiffTag::Delete | DiffTag::Replace => pieces.push(BeforePiece::Removed(old[was].concat())),
            DiffTag::Insert => {}
        }
    }
    pieces
}

fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Memory {
    /// Whether a text is that after the change.
    pub(in super::super) fn is_after(&self, text: &str) -> bool {
        self.after_sha256 == sha256(text)
    }

    /// Returns the text before the change, from that after it: `Some(None)` if there was no file; `None` if `text` is
    /// another than that after the change.
    fn before(&self, text: &str) -> Option<Option<String>> {
        if !self.is_after(text) {
            return None;
        }
        let Some(pieces) = &self.before else { return Some(None) };
        let piece = |piece: &BeforePiece| match piece {
            BeforePiece::Kept(range) => text.get(range.clone()).map(str::to_owned),
            BeforePiece::Removed(removed) => Some(removed.clone()),
        };
        pieces.iter().map(piece).collect::<Option<String>>().map(Some)
    }

    /// Makes a file as it was before the change, with its folder, and returns what was done. `None`, and nothing is
    /// done, if another program has changed the file since: `text` is what it has now.
    pub(in super::super) fn restore(
        &self,
        target: &Path,
        text: &str,
    ) -> Result<Option<&'static str>, CliError> {
        let Some(before) = self.before(text) else { return Ok(None) };
        if let Some(before) = before {
            file::replace(target, Some(text), &before, file::NewFile::Private)?;
            return Ok(Some("the file is restored"));
        }
        file::remove(target, text)?;
        // Only empty folders are removed: the others have been used since.
        let _ = self.folders.iter().all(|folder| fs::remove_dir(folder).is_ok());
        Ok(Some("the file is gone, as it was before"))
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
pub(in super::super) struct SettingsBackup {
    settings: PathBuf,
    hooks: &'static dyn HookSupport,
    kind: Backups,
    file: PathBuf,
}

impl SettingsBackup {
    /// Returns the place for a settings file; `None` where the environment names no state folder.
    pub(in super::super) fn of(
        settings: &Path,
        hooks: &'static dyn HookSupport,
        kind: Backups,
        environment: &Environment,
    ) -> Option<Self> {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        hasher.write(&path_bytes(settings));
        let name = format!("{:016x}.json", hasher.finish());
        let file = environment.state_folder()?.join(kind.folder()).join(name);
        Some(Self { settings: settings.to_owned(), hooks, kind, file })
    }

    /// Returns the settings files of which there is a backup of any kind.
    pub(in super::super) fn changed(environment: &Environment) -> Vec<PathBuf> {
        #[derive(Deserialize)]
        struct Changed {
            schema: String,
            path: PathBuf,
        }
        let folders = [Backups::Hooks, Backups::StatusLine].map(Backups::folder);
        let folders = folders.iter().filter_map(|name| Some(environment.state_folder()?.join(name)));
        let files = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let read = |path: PathBuf| serde_json::from_str::<Changed>(&file::read(&path).ok()??).ok();
        let changed = files.filter_map(|entry| read(entry.path()));
        changed
            .filter(|one| [SCHEMA, WHOLE_TEXTS].contains(&one.schema.as_str()))
            .map(|one| one.path)
            .collect()
    }

    /// Returns what to remember of a change from `before` to `after`.
    pub(in super::super) fn memory(
        &self,
        before: Option<&str>,
        after: &str,
        folders: Vec<PathBuf>,
    ) -> Memory {
        let outline = |before| {
            let settings = self.hooks.settings(before).ok()?;
            Some(match self.kind {
                Backups::Hooks => settings.outline(),
                Backups::StatusLine => settings.status_line_outline(),
            })
        };
        Memory {
            schema: SCHEMA.to_owned(),
            path: self.settings.to_string_lossy().into_owned(),
            before: before.map(|before| pieces(before, after)),
            after_sha256: sha256(after),
            outline: before.and_then(outline),
            folders,
        }
    }

    /// Returns what to remember after a further change of a file that we changed before, from `text` to `after`. `None`
    /// if another program changed it in between: that change cannot be separated from ours.
    pub(in super::super) fn continued(&self, old: &Memory, text: &str, after: &str) -> Option<Memory> {
        let before = old.before(text)?;
        Some(Memory {
            outline: old.outline.clone(),
            ..self.memory(before.as_deref(), after, old.folders.clone())
        })
    }

    /// Returns the backup; `None` also if it cannot be read. One with whole texts is replaced.
    pub(in super::super) fn recall(&self) -> Option<Memory> {
        let text = file::read(&self.file).ok()??;
        let is_of = |schema: &str, path: &str| schema == SCHEMA && path == self.settings.to_string_lossy();
        if let Ok(memory) = serde_json::from_str::<Memory>(&text) {
            return is_of(&memory.schema, &memory.path).then_some(memory);
        }
        let old: WholeTexts = serde_json::from_str(&text).ok()?;
        if old.schema != WHOLE_TEXTS || !is_of(SCHEMA, &old.path) {
            return None;
        }
        let memory = self.memory(old.before.as_deref(), &old.after, old.folders);
        // The state folder may be read-only: what was read is right all the same.
        let _ = self.keep(&memory);
        Some(memory)
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
            create_private_folder(folder).map_err(failed)?;
        }
        let text = serde_json::to_string(memory).map_err(|error| failed(error.into()))?;
        let before = file::read(&self.file)?;
        file::replace(&self.file, before.as_deref(), &text, file::NewFile::Private)
    }

    /// Removes the backup. One that cannot be removed is recognized as outdated by its `after_sha256`.
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

    fn backup(home: &Path, kind: Backups) -> SettingsBackup {
        let environment = Environment::of(home, &[("HOME", home.to_str().unwrap())]);
        let (_, hooks) = subscope_harness::hooks_of(subscope_harness::DEFAULT_HOOKED).unwrap();
        SettingsBackup::of(Path::new("/x/settings.json"), hooks, kind, &environment).unwrap()
    }

    #[test]
    fn backup_is_kept_recalled_and_forgotten_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let backup = backup(home.path(), Backups::Hooks);
        assert_eq!(backup.recall(), None);
        for before in [None, Some("\u{feff}{\r\n}")] {
            let memory = backup.memory(before, "{}", vec!["/x".into()]);
            backup.keep(&memory).unwrap();
            assert_eq!(backup.recall(), Some(memory));
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&backup.file), mode(backup.file.parent().unwrap())), (0o600, 0o700));
        let other = SettingsBackup { settings: "/y".into(), file: backup.file.clone(), ..backup };
        assert_eq!(other.recall(), None);
        other.forget();
        assert!(!other.file.exists());
    }

    /// Texts before and after a change, with a key in them.
    const CHANGES: [(&str, &str); 5] = [
        (
            "{\n  \"env\": {\n    \"KEY\": \"sk-ant-s3cr3t\"\n  }\n}\n",
            "{\n  \"env\": {\n    \"KEY\": \"sk-ant-s3cr3t\",\n    \"OTEL\": \"1\"\n  },\n  \"hooks\": {}\n}\n",
        ),
        ("{\"KEY\":\"sk-ant-s3cr3t\"}", "{\"version\":1,\"KEY\":\"sk-ant-s3cr3t\",\"hooks\":{\"Stop\":[]}}"),
        ("// ü s3cr3t\n", "// ü s3cr3t\n{\"hooks\":{}}\n"),
        ("", "{\"hooks\":{}}\n"),
        ("{\"a\":\"s3cr3t\",\"line\":\"old\"}\r\n", "{\"a\":\"s3cr3t\",\"line\":\"new one\",\"b\":2}\r\n"),
    ];

    #[test]
    fn text_before_comes_back_from_the_text_after_and_is_not_copied() {
        let home = tempfile::tempdir().unwrap();
        let backup = backup(home.path(), Backups::Hooks);
        for (before, after) in CHANGES {
            let memory = backup.memory(Some(before), after, Vec::new());
            backup.keep(&memory).unwrap();
            let stored = fs::read_to_string(&backup.file).unwrap();
            assert!(!stored.contains("s3cr3t"), "{stored}");
            assert_eq!(backup.recall().unwrap().before(after), Some(Some(before.to_owned())));
            assert_eq!(memory.before(before), None, "a text of somebody else");
            let further = format!("{after} ");
            let continued = backup.continued(&memory, after, &further).unwrap();
            assert_eq!(continued.before(&further), Some(Some(before.to_owned())));
            assert_eq!(backup.continued(&memory, &further, after), None);
        }
        let outside = Memory {
            before: Some(vec![BeforePiece::Kept(1..99)]),
            ..backup.memory(Some("{}"), "{}", Vec::new())
        };
        assert_eq!(outside.before("{}"), None, "a damaged backup");
    }

    #[test]
    fn backup_with_whole_texts_is_understood_and_replaced() {
        let home = tempfile::tempdir().unwrap();
        let backup = backup(home.path(), Backups::StatusLine);
        fs::create_dir_all(backup.file.parent().unwrap()).unwrap();
        for (before, after) in CHANGES {
            let whole = serde_json::json!({
                "schema": WHOLE_TEXTS, "path": "/x/settings.json", "before": before, "after": after, "folders": ["/x"],
            });
            fs::write(&backup.file, whole.to_string()).unwrap();
            let memory = backup.recall().unwrap();
            assert_eq!(memory, backup.memory(Some(before), after, vec!["/x".into()]));
            assert!(!fs::read_to_string(&backup.file).unwrap().contains("s3cr3t"));
            assert_eq!(backup.recall(), Some(memory));
        }
    }
}
