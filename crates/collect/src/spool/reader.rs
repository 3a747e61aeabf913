//! The consumer's side of the spool: the oldest payload first; a payload is removed only when the consumer has stored it.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use subscope_model::Millis;

use crate::{archive::remove_if_there, fault};

use super::{Delivery, Kind, Name, PAYLOAD_LIMIT_BYTES, UNFINISHED, room};

/// Age at which an incomplete payload counts as abandoned by a killed hook. Hooks take less than a second; the margin
/// is for clocks that are set.
const UNFINISHED_LIMIT_MS: Millis = 3_600_000;
/// What a damaged payload's name gets at its end.
const ASIDE: &str = ".damaged";

/// The payloads that waited when the spool was opened.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    waiting: Vec<Name>,
    /// Payloads of unknown harnesses, which wait for nobody.
    unknown: Vec<Name>,
}

/// One payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spooled {
    /// Whose it is.
    pub kind: Kind,
    /// Its name, by which a consumer knows that it has it already.
    pub delivery: Delivery,
    /// When it came: milliseconds since 1970, by the writer's clock.
    pub received_ms: Millis,
    /// The bytes that were spooled, unparsed.
    pub body: Vec<u8>,
    path: PathBuf,
}

/// Why a waiting payload cannot be taken. It stays where it is; one that never can be is [set aside](Spool::set_aside).
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Its length is not that in its name: after a power failure, or because another program changed it.
    #[error("{} is damaged: {found} bytes, and not {expected}", path.display())]
    Damaged {
        /// Its file.
        path: PathBuf,
        /// How many bytes were written.
        expected: u64,
        /// How many there are.
        found: u64,
    },
    /// It is no regular file, or larger than any payload.
    #[error("{} is not a payload", path.display())]
    NoPayload {
        /// Its content.
        path: PathBuf,
    },
    /// The operating system refused: it may be read later.
    #[error("cannot read {}: {error}", path.display())]
    Unread {
        /// Its file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

impl SpoolError {
    /// The file that cannot be taken.
    pub fn path(&self) -> &Path {
        match self {
            Self::Damaged { path, .. } | Self::NoPayload { path } | Self::Unread { path, .. } => path,
        }
    }
}

impl Spool {
    /// Lists what waits in a folder. A missing folder is an empty spool; foreign files are left alone.
    ///
    /// # Errors
    /// Where the folder cannot be listed.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let (unknown, waiting) = names(folder)?.into_iter().partition(|name| name.kind == Kind::Unknown);
        Ok(Self { folder: folder.to_owned(), waiting, unknown })
    }

    /// How many payloads waited when the spool was opened.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waited.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Reads the payloads, the oldest first, one at a time. Payloads that another consumer has removed in the meantime are
    /// left out.
    pub fn iter(&self) -> impl Iterator<Item = Result<Spooled, SpoolError>> {
        self.waiting.iter().filter_map(|name| self.read(*name))
    }

    /// Removes a payload that has been committed. One that is gone already is no error.
    ///
    /// # Errors
    /// Errors of the operating system; the payload may then be met again.
    pub fn remove(&self, spooled: &Spooled) -> io::Result<()> {
        remove_if_there(&spooled.path)
    }

    /// Renames what cannot be taken, so that it is reported once and kept for inspection.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn set_aside(&self, error: &SpoolError) -> io::Result<()> {
        put_aside(error.path())
    }

    /// The same for a whole payload that its consumer cannot use.
    ///
    /// # Errors
    /// Errors of the operating system.
    pub fn put_aside(&self, spooled: &Spooled) -> io::Result<()> {
        put_aside(&spooled.path)
    }

    /// Removes incomplete payloads of hooks that were killed while they wrote, and returns their number.
    pub fn sweep(&self, now_ms: Millis) -> usize {
        let unfinished = |name: &str| name.strip_prefix(UNFINISHED)?.parse::<Delivery>().ok();
        let Ok(entries) = fs::read_dir(&self.folder) else { return 0 };
        let left = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let delivery = unfinished(entry.file_name().to_str()?)?;
            let is_old = now_ms.saturating_sub(delivery.received_ms()) > UNFINISHED_LIMIT_MS;
            (is_old && fs::remove_file(entry.path()).is_ok()).then_some(())
        });
        left.count()
    }

    /// How many payloads were dropped because more waited than the spool has room for.
    ///
    /// # Errors
    /// Where the count cannot be read.
    pub fn dropped(&self) -> io::Result<u64> {
        let notes = match fs::read_to_string(self.folder.join(room::DROPPED)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            notes => notes?,
        };
        Ok(notes.lines().filter_map(|line| line.parse::<u64>().ok()).fold(0, u64::saturating_add))
    }

    /// How many payloads were set aside.
    ///
    /// # Errors
    /// Where the folder cannot be listed.
    pub fn set_aside_count(&self) -> io::Result<u64> {
        let mut count = 0;
        for entry in list(&self.folder)? {
            count += u64::from(entry?.file_name().to_str().is_some_and(|name| name.ends_with(ASIDE)));
        }
        Ok(count)
    }

    /// Returns why waiting payloads, also those of unknown harnesses, cannot be taken. Reads only the beginning of each.
    pub fn unread(&self) -> Vec<SpoolError> {
        let check = |name: &Name| {
            let path = self.folder.join(name.to_string());
            let outcome = open_payload(&path)
                .and_then(|mut file| file.read(&mut [0]).map_err(|error| SpoolError::Unread { path, error }));
            outcome.err().filter(|error| !is_gone(error))
        };
        self.waiting.iter().chain(&self.unknown).filter_map(check).collect()
    }

    /// Returns the names that hooks of unknown harnesses gave, each with the number of its payloads. Those that cannot be
    /// read are [unread](Self::unread).
    pub fn unknown(&self) -> BTreeMap<String, usize> {
        let mut all = BTreeMap::new();
        for spooled in self.unknown.iter().filter_map(|name| self.read(*name)?.ok()) {
            let harness = spooled.body.split(|byte| *byte == b'\n').next().unwrap_or_default();
            *all.entry(String::from_utf8_lossy(harness).into_owned()).or_default() += 1;
        }
        all
    }

    fn read(&self, name: Name) -> Option<Result<Spooled, SpoolError>> {
        let path = self.folder.join(name.to_string());
        match read_body(&path, name.length) {
            Err(error) => (!is_gone(&error)).then_some(Err(error)),
            Ok(body) => {
                let Name { delivery, kind, .. } = name;
                Some(Ok(Spooled { kind, delivery, received_ms: delivery.received_ms(), body, path }))
            }
        }
    }
}

fn put_aside(path: &Path) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(ASIDE);
    fs::rename(path, aside)
}

/// Whether another consumer has removed the payload.
fn is_gone(error: &SpoolError) -> bool {
    matches!(error, SpoolError::Unread { error, .. } if error.kind() == io::ErrorKind::NotFound)
}

/// The entries of a folder; none if there is no such folder.
fn list(folder: &Path) -> io::Result<impl Iterator<Item = io::Result<fs::DirEntry>>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None.into_iter().flatten()),
        entries => Ok(Some(entries?).into_iter().flatten()),
    }
}

/// The payloads that wait in a folder, the oldest first.
pub(super) fn names(folder: &Path) -> io::Result<Vec<Name>> {
    let mut names = Vec::new();
    for entry in list(folder)? {
        names.extend(entry?.file_name().to_str().and_then(Name::parse));
    }
    names.sort_unstable();
    Ok(names)
}

fn read_body(path: &Path, expected: u64) -> Result<Vec<u8>, SpoolError> {
    let mut body = Vec::new();
    let unread = |error| SpoolError::Unread { path: path.to_owned(), error };
    open_payload(path)?.read_to_end(&mut body).map_err(unread)?;
    let found = body.len() as u64;
    if found == expected {
        return Ok(body);
    }
    Err(SpoolError::Damaged { path: path.to_owned(), expected, found })
}

fn open_payload(path: &Path) -> Result<File, SpoolError> {
    let unread = |error| SpoolError::Unread { path: path.to_owned(), error };
    fault::check().map_err(unread)?;
    // Looked at before it is opened: a pipe would be waited for without end, a link leads elsewhere.
    let metadata = fs::symlink_metadata(path).map_err(unread)?;
    if !metadata.is_file() || metadata.len() > PAYLOAD_LIMIT_BYTES as u64 {
        return Err(SpoolError::NoPayload { path: path.to_owned() });
    }
    File::open(path).map_err(unread)
}
