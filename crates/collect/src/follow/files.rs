//! All followed files, by name and by path.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use super::{
    FileEvent, FileId, Out,
    tail::{Presence, Tail},
};
use crate::Found;

#[derive(Debug, Default)]
pub(super) struct Files {
    tails: BTreeMap<FileId, Tail>,
    ids: HashMap<PathBuf, FileId>,
    next: u32,
    chunk: Vec<u8>,
}

impl Files {
    pub(super) fn is_open(&self, path: &Path) -> bool {
        self.ids.contains_key(path)
    }

    /// Begins to follow a file and reads what it holds. Does nothing if it is followed already.
    pub(super) fn open(&mut self, found: &Found, out: &mut Out<'_>) {
        if self.is_open(&found.path) {
            return;
        }
        let file = FileId(self.next);
        self.next = self.next.wrapping_add(1);
        self.ids.insert(found.path.clone(), file);
        self.tails.insert(file, Tail::new(found.path.clone()));
        out.send(FileEvent::Appeared { file, found });
        self.advance(file, out);
    }

    /// Reads what is new in one file.
    pub(super) fn refresh(&mut self, path: &Path, out: &mut Out<'_>) {
        if let Some(&file) = self.ids.get(path) {
            self.advance(file, out);
        }
    }

    /// Reads what is new anywhere.
    pub(super) fn refresh_all(&mut self, out: &mut Out<'_>) {
        self.refresh_below(Path::new(""), out);
    }

    /// Reads what is new below a folder.
    pub(super) fn refresh_below(&mut self, folder: &Path, out: &mut Out<'_>) {
        let below = self.tails.iter().filter(|(_, tail)| tail.is_below(folder));
        for file in below.map(|(file, _)| *file).collect::<Vec<_>>() {
            self.advance(file, out);
        }
    }

    fn advance(&mut self, file: FileId, out: &mut Out<'_>) {
        let Some(tail) = self.tails.get_mut(&file) else { return };
        match tail.advance(file, &mut self.chunk, out) {
            Ok(Presence::There) => tail.has_failed = false,
            Ok(Presence::Gone) => {
                self.ids.remove(&tail.path);
                self.tails.remove(&file);
                out.send(FileEvent::Gone { file });
            }
            Err(error) => {
                if !tail.has_failed {
                    out.send(FileEvent::Problem { path: &tail.path, what: &error.to_string() });
                }
                tail.has_failed = true;
            }
        }
    }
}
