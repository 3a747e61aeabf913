//! Texts of sessions of other machines: one file a session in the data folder, written by the connection to its machine,
//! and indexed with the texts of this machine's files.
//!
//! The first line of a file is the session's id; then there are two lines a passage: what it is, and its text. A file is
//! replaced whole. Its time is that at which its texts were asked for: rows that changed later may have more.

use std::{
    collections::{BTreeSet, HashMap},
    fs::{self, File, FileTimes, OpenOptions},
    io::{self, BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use subscope_model::{Millis, RawJson, SessionId, SnapshotText, Text, stable_hash};
use subscope_platform::{OpenPolicy as _, create_private_folder};
use subscope_store::{ByteSpan, FileIdentity, Passage, PassageBatch, PassageKind, TextFile, TextIndex};

use super::IndexError;
use crate::loader::file_identity;

/// Folder in the data folder, and suffix of its files.
const FOLDER: &str = "remote-texts";
const SUFFIX: &str = "jsonl";
/// A file that is being written.
const NEW_SUFFIX: &str = "new";

/// The texts of other machines' sessions in a data folder.
#[derive(Clone, Debug)]
pub struct RemoteTexts {
    folder: PathBuf,
}

/// What a passage is.
#[derive(Serialize, Deserialize)]
struct PassageHead {
    agent: Text,
    kind: Text,
    at_ms: Option<Millis>,
}

impl RemoteTexts {
    /// Returns those of a data folder.
    pub fn of(data: &Path) -> Self {
        Self { folder: data.join(FOLDER) }
    }

    fn path(&self, session: &SessionId) -> PathBuf {
        self.folder.join(format!("{:016x}.{SUFFIX}", stable_hash(session)))
    }

    /// Returns when the texts of a session were asked for; `None` if they are not here.
    pub fn asked_ms(&self, session: &SessionId) -> Option<Millis> {
        let modified = fs::metadata(self.path(session)).ok()?.modified().ok()?;
        Millis::try_from(modified.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
    }

    /// Returns when a file was last added, replaced or removed; `None` if there never was one.
    pub fn changed(&self) -> Option<SystemTime> {
        fs::metadata(&self.folder).ok()?.modified().ok()
    }

    /// Returns the bytes of all files.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn bytes(&self) -> io::Result<u64> {
        let mut sum = 0;
        for (path, _) in self.files()? {
            sum += fs::metadata(path).map_or(0, |metadata| metadata.len());
        }
        Ok(sum)
    }

    /// Replaces the texts of a session.
    ///
    /// # Errors
    /// If the file cannot be written; the former one stays.
    pub fn write(&self, session: &SessionId, texts: &[SnapshotText], asked_ms: Millis) -> io::Result<()> {
        create_private_folder(&self.folder)?;
        let path = self.path(session);
        let new = path.with_extension(NEW_SUFFIX);
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).private().open(&new)?;
        let mut out = BufWriter::new(file);
        write_line(&mut out, session.as_str())?;
        for SnapshotText { agent_id, kind, at_ms, text, .. } in texts {
            write_line(
                &mut out,
                &PassageHead { agent: agent_id.clone(), kind: kind.clone(), at_ms: *at_ms },
            )?;
            write_line(&mut out, text)?;
        }
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let asked = UNIX_EPOCH + Duration::from_millis(u64::try_from(asked_ms).unwrap_or(0));
        file.set_times(FileTimes::new().set_modified(asked))?;
        fs::rename(new, path)
    }

    /// Removes the texts of sessions; the next index run removes them from the index.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove<'s>(&self, sessions: impl IntoIterator<Item = &'s SessionId>) -> io::Result<()> {
        for session in sessions {
            match fs::remove_file(self.path(session)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Returns the files with their states.
    fn files(&self) -> io::Result<Vec<(PathBuf, FileIdentity)>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|suffix| suffix == SUFFIX) {
                // It may be removed at this moment.
                files.extend(file_identity(&path).ok().map(|identity| (path, identity)));
            }
        }
        Ok(files)
    }

    /// Brings the index up to date with the files. Files of forgotten sessions are removed.
    pub(super) fn index(
        &self,
        texts: &mut TextIndex,
        forgotten: &BTreeSet<SessionId>,
    ) -> Result<(), IndexError> {
        let own = |(path, _): &(PathBuf, FileIdentity)| path.starts_with(&self.folder);
        let mut known: HashMap<PathBuf, FileIdentity> = texts.files()?.into_iter().filter(own).collect();
        let files = self.files().map_err(IndexError::RemoteTexts)?;
        for (path, identity) in files {
            let before = known.remove(&path);
            if before == Some(identity) {
                continue;
            }
            let Some((session, mut reader)) = opened(&path).map_err(IndexError::RemoteTexts)? else {
                continue;
            };
            if forgotten.contains(&session) {
                self.remove([&session]).map_err(IndexError::RemoteTexts)?;
                known.extend(before.map(|before| (path, before)));
            } else {
                let mut batch = PassageBatch::default();
                batch.begin_anew(TextFile { path, session, identity });
                read_texts(&mut reader, &mut batch).map_err(IndexError::RemoteTexts)?;
                batch.end();
                texts.put(&batch)?;
            }
        }
        let gone: Vec<PathBuf> = known.into_keys().collect();
        if gone.is_empty() { Ok(()) } else { Ok(texts.forget_files(&gone)?) }
    }
}

fn write_line(out: &mut impl Write, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

/// A file behind its first line.
struct OpenedTexts {
    reader: BufReader<File>,
    /// Offset of the next line.
    at: u64,
}

impl OpenedTexts {
    /// Reads a line without its end; `None` at the end of the file.
    fn line(&mut self) -> io::Result<Option<(u64, String)>> {
        let (mut line, at) = (String::new(), self.at);
        self.at += self.reader.read_line(&mut line)? as u64;
        Ok(line.strip_suffix('\n').map(|line| (at, line.to_owned())))
    }
}

/// Opens a file; `None` if it is none of these, or is gone.
fn opened(path: &Path) -> io::Result<Option<(SessionId, OpenedTexts)>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut opened = OpenedTexts { reader: BufReader::new(file), at: 0 };
    let session = opened.line()?.and_then(|(_, line)| serde_json::from_str::<String>(&line).ok());
    Ok(session.map(|session| (SessionId::from(session.as_str()), opened)))
}

/// Adds the passages of a file to a batch. What is not understood is left out.
fn read_texts(file: &mut OpenedTexts, batch: &mut PassageBatch) -> io::Result<()> {
    while let (Some((_, head)), Some((start, text))) = (file.line()?, file.line()?) {
        let Ok(PassageHead { agent, kind, at_ms }) = serde_json::from_str(&head) else { continue };
        let Some(kind) = PassageKind::parse(&kind) else { continue };
        let span = ByteSpan { start, bytes: text.len() as u64 };
        let passage = Passage {
            session: None,
            agent: &agent,
            kind,
            tool: "",
            failed: false,
            at_ms: at_ms.unwrap_or(0),
            span,
        };
        batch.add(&passage, &RawJson { json: &text, offset: 0 }.text());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use subscope_store::{Access, TextQuery};

    use super::*;

    fn text(kind: &str, text: &str) -> SnapshotText {
        SnapshotText {
            agent_id: "a1".into(),
            kind: kind.into(),
            at_ms: Some(7_000),
            text: text.into(),
            ..SnapshotText::default()
        }
    }

    #[test]
    fn texts_are_found_replaced_and_gone_with_their_file() {
        let data = tempfile::tempdir().unwrap();
        let (texts, session) = (RemoteTexts::of(data.path()), SessionId::from("gpu1~s1"));
        let mut index = TextIndex::open(data.path(), Access::Write).unwrap();
        let none = BTreeSet::new();
        let found = |index: &TextIndex, word: &str| {
            let query = TextQuery { words: vec![word.to_owned()], limit: 9, ..TextQuery::default() };
            index.find(&query).unwrap()
        };
        texts.index(&mut index, &none).unwrap();
        assert_eq!((texts.asked_ms(&session), texts.bytes().unwrap()), (None, 0));
        let first = [text("message", "the \"apple\"\nfalls"), text("weather", "apple rain")];
        texts.write(&session, &first, 1_234_567).unwrap();
        assert_eq!(texts.asked_ms(&session), Some(1_234_567));
        texts.index(&mut index, &none).unwrap();
        let hits = found(&index, "apple");
        assert_eq!(hits.len(), 1, "an unknown kind is left out");
        assert_eq!((&*hits[0].session, &*hits[0].agent, hits[0].at_ms), ("gpu1~s1", "a1", 7_000));
        let file = fs::read(&hits[0].path).unwrap();
        let span = hits[0].span.start as usize..(hits[0].span.start + hits[0].span.bytes) as usize;
        assert_eq!(&file[span], br#""the \"apple\"\nfalls""#);
        // A file that was replaced has nothing of before.
        texts.write(&session, &[text("prompt", "a pear")], 2_000_000).unwrap();
        texts.index(&mut index, &none).unwrap();
        assert_eq!((found(&index, "apple").len(), found(&index, "pear").len()), (0, 1));
        // A forgotten session has neither file nor passages, also if its texts come after it was forgotten.
        texts.write(&session, &[text("prompt", "a late pear")], 2_500_000).unwrap();
        texts.index(&mut index, &BTreeSet::from([session.clone()])).unwrap();
        assert_eq!((found(&index, "pear").len(), texts.asked_ms(&session)), (0, None));
        texts.write(&session, &[text("prompt", "a plum")], 3_000_000).unwrap();
        texts.index(&mut index, &none).unwrap();
        texts.remove([&session]).unwrap();
        texts.index(&mut index, &none).unwrap();
        assert_eq!(found(&index, "plum").len(), 0);
        assert!(index.files().unwrap().is_empty());
    }
}
