//! What a TARGET means: which files belong to it, now and later.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use subscope_harness::{self as harness, Place, Role, SessionFiles, classify, companion, target};

use crate::{
    CollectError, Found, Skipped,
    bundle::{self, bundle_of},
    list::{Kind, Step, entries, is_jsonl, walk},
    peek::Peeks,
    source::{self, is_missing},
};

/// A TARGET that exists, by what it is. Paths are canonical.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A session, with the places of its files.
    Session(SessionFiles),
    /// A folder with transcripts somewhere below it.
    Tree { root: PathBuf },
    /// One file, with the note about it if it is a subagent's.
    File { path: PathBuf },
}

/// An entry found by the listing of a TARGET.
#[derive(Debug)]
pub(crate) enum Seen<'a> {
    /// A folder that is about to be listed.
    Folder(&'a Path),
    /// A file of the TARGET.
    File(Found),
    /// Something that cannot be read.
    Skipped(Skipped),
}

impl Target {
    /// Finds out what is at a path.
    pub(crate) fn classify(given: &Path) -> Result<Self, CollectError> {
        let failed = |source: io::Error| {
            let path = given.to_owned();
            if source.kind() == io::ErrorKind::NotFound {
                CollectError::Missing { path }
            } else {
                CollectError::Io { path, source }
            }
        };
        if let Some((at, _)) = bundle_of(given) {
            let path = in_own_folder(at).map_err(failed)?.join(given.file_name().unwrap_or_default());
            bundle::stat(&path).map_err(failed)?;
            return target(&path).map(Self::Session).ok_or_else(|| failed(io::ErrorKind::NotFound.into()));
        }
        let mut path = fs::canonicalize(given).map_err(failed)?;
        // The folder of a link says which other files belong to the one that it leads to.
        if fs::symlink_metadata(given).is_ok_and(|metadata| metadata.is_symlink())
            && let Ok(link) = in_own_folder(given)
            && (harness::bundle(&link).is_some() || path.is_file() && target(&link).is_some())
        {
            path = link;
        }
        if harness::bundle(&path).is_some() {
            return Ok(Self::Tree { root: path });
        }
        let metadata = fs::metadata(&path).map_err(failed)?;
        if !metadata.is_file() && !metadata.is_dir() {
            return Err(CollectError::NotRegular { path: given.to_owned() });
        }
        Ok(match target(&path) {
            Some(files) => Self::Session(files),
            None if metadata.is_file() => Self::File { path },
            None => Self::Tree { root: path },
        })
    }

    /// The folder that must be watched for the TARGET itself to be seen coming and going.
    pub(crate) fn base(&self) -> &Path {
        match self {
            Self::Session(SessionFiles { main, .. }) => {
                let at = bundle_of(main).map_or(main.as_path(), |(at, _)| at);
                at.parent().unwrap_or(at)
            }
            Self::Tree { root } if root.is_file() => root.parent().unwrap_or(root),
            Self::Tree { root } => root,
            Self::File { path } => path.parent().unwrap_or(path),
        }
    }

    /// Whether all that is below the folder belongs to the TARGET.
    pub(crate) fn covers(&self, folder: &Path) -> bool {
        match self {
            Self::Session(files) => files.folders.iter().any(|own| folder.starts_with(own)),
            Self::Tree { root } => folder.starts_with(root),
            Self::File { .. } => false,
        }
    }

    /// Returns the folders of the TARGET's session below another: its rows in a bundle.
    pub(crate) fn folders_below(&self, above: &Path) -> impl Iterator<Item = &Path> {
        let folders = match self {
            Self::Session(files) => files.folders.as_slice(),
            Self::Tree { .. } | Self::File { .. } => &[],
        };
        folders
            .iter()
            .map(PathBuf::as_path)
            .filter(move |folder| *folder != above && folder.starts_with(above))
    }

    /// Returns the file if it belongs to the TARGET and exists.
    pub(crate) fn take(&self, path: &Path, peeks: &mut Peeks) -> Result<Option<Found>, Skipped> {
        let Some(mut place) = self.place(path) else { return Ok(None) };
        let is_unnamed = matches!(place.role, Role::Main | Role::Agent) && place.session.is_none();
        if is_unnamed {
            match peeks.complete(path, &place) {
                Ok(known) => place = known.unwrap_or(place),
                // Nothing, or no file, is there: that is said below.
                Err(error) if is_missing(&error) || error.kind() == io::ErrorKind::InvalidInput => {}
                Err(error) => return Err(Skipped { path: path.to_owned(), why: error.to_string() }),
            }
        }
        if let Self::Session(files) = self
            && (is_unnamed || path != files.main && is_directly_in(path, &files.shared))
            && place.session.as_ref() != Some(&files.session)
        {
            return Ok(None);
        }
        stat(path, place)
    }

    /// What the file is to the TARGET, by its path; `None` if it is not the TARGET's.
    fn place(&self, path: &Path) -> Option<Place> {
        let place = classify(path);
        match self {
            Self::Session(files) if path == files.main => Some(files.place.clone()),
            Self::Session(files) => {
                let is_own = matches!(place.role, Role::Agent | Role::Note) && self.covers(path);
                let is_shared = place.role == Role::Agent && is_directly_in(path, &files.shared);
                (is_own || is_shared).then_some(place)
            }
            Self::Tree { root } => {
                let is_unknown = place.role == Role::Other && is_jsonl(path);
                let place = if is_unknown { target(path)?.place } else { place };
                (path.starts_with(root) && place.role != Role::Other).then_some(place)
            }
            Self::File { path: own } => {
                (path == own || companion(own).is_some_and(|other| path == other)).then_some(place)
            }
        }
    }

    /// Lists the whole TARGET. Each folder comes before what it holds, so that it can be watched first.
    pub(crate) fn list(&self, peeks: &mut Peeks, each: &mut dyn FnMut(Seen<'_>)) {
        match self {
            Self::Session(files) => {
                each(Seen::Folder(self.base()));
                self.offer(&files.main, peeks, each);
                for folder in &files.folders {
                    self.list_below(folder, peeks, each);
                }
                for folder in &files.shared {
                    self.list_shared(folder, peeks, each);
                }
            }
            Self::Tree { root } => self.list_below(root, peeks, each),
            Self::File { path } => {
                each(Seen::Folder(self.base()));
                self.offer(path, peeks, each);
                if let Some(other) = companion(path) {
                    self.offer(&other, peeks, each);
                }
            }
        }
    }

    /// Lists one folder of the TARGET and those below it.
    pub(crate) fn list_below(&self, folder: &Path, peeks: &mut Peeks, each: &mut dyn FnMut(Seen<'_>)) {
        if harness::bundle(folder).is_some() {
            each(Seen::Folder(self.base()));
            return self.offer_bundle(folder, each);
        }
        if let Some((at, _)) = bundle_of(folder) {
            // The rows of one session, beside its files.
            at.parent().into_iter().for_each(|above| each(Seen::Folder(above)));
            return self.offer(folder, peeks, each);
        }
        if !fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir()) {
            return;
        }
        walk(folder, &mut |step| match step {
            Step::Enter(folder) => each(Seen::Folder(folder)),
            Step::File(path) => self.offer(path, peeks, each),
            Step::Bundle(path) => self.offer_bundle(path, each),
            Step::Skip(skipped) => each(Seen::Skipped(skipped)),
        });
    }

    /// Lists transcripts of agents directly in a folder that sessions share.
    fn list_shared(&self, folder: &Path, peeks: &mut Peeks, each: &mut dyn FnMut(Seen<'_>)) {
        let entries = match entries(folder) {
            Ok(entries) => entries,
            Err(error) => {
                return each(Seen::Skipped(Skipped { path: folder.to_owned(), why: error.to_string() }));
            }
        };
        for (path, kind) in entries {
            if classify(&path).role != Role::Agent {
                continue;
            }
            match kind {
                Kind::File => self.offer(&path, peeks, each),
                Kind::Link if path.is_file() => self.offer(&path, peeks, each),
                Kind::Folder | Kind::Link | Kind::Special => {
                    each(Seen::Skipped(Skipped { path, why: "not a regular file".to_owned() }));
                }
            }
        }
    }

    /// Offers the sessions of a bundle.
    fn offer_bundle(&self, path: &Path, each: &mut dyn FnMut(Seen<'_>)) {
        match bundle::sessions(path) {
            Ok(sessions) => {
                for session in sessions {
                    if let Some(place) = self.place(&session.path) {
                        each(Seen::File(Found::bundled(session, place)));
                    }
                }
            }
            Err(error) => each(Seen::Skipped(Skipped { path: path.to_owned(), why: error.to_string() })),
        }
    }

    fn offer(&self, path: &Path, peeks: &mut Peeks, each: &mut dyn FnMut(Seen<'_>)) {
        match self.take(path, peeks) {
            Ok(Some(found)) => each(Seen::File(found)),
            Ok(None) => {}
            Err(skipped) => each(Seen::Skipped(skipped)),
        }
    }
}

/// Returns a path whose folder has no symbolic links. The last part may be one.
fn in_own_folder(path: &Path) -> io::Result<PathBuf> {
    let whole = std::path::absolute(path)?;
    let (Some(folder), Some(name)) = (whole.parent(), whole.file_name()) else {
        return fs::canonicalize(path);
    };
    fs::metadata(&whole)?;
    Ok(fs::canonicalize(folder)?.join(name))
}

/// Returns the file at a path with what is known about it; `None` if it does not exist.
pub(crate) fn stat(path: &Path, place: Place) -> Result<Option<Found>, Skipped> {
    let skipped = |why: String| Err(Skipped { path: path.to_owned(), why });
    match source::stat(path) {
        Ok(Some(stat)) => Ok(Some(Found::new(path.to_owned(), place, &stat))),
        Ok(None) => skipped("not a regular file".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => skipped(error.to_string()),
    }
}

/// Whether a file is directly in one of these folders.
fn is_directly_in(path: &Path, folders: &[PathBuf]) -> bool {
    path.parent().is_some_and(|parent| folders.iter().any(|folder| folder == parent))
}
