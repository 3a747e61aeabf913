//! What a TARGET means: which files belong to it, now and later.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    CollectError, Found, Role, Skipped,
    layout::{Place, SUBAGENTS, describe, main_path, main_place, meta_path},
    list::{Kind, Step, entries, walk},
    peek::Peeks,
};

/// A TARGET that exists, by what stands there. Paths are canonical.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A session: its main transcript, its folder, and the 2.0.x subagents beside it.
    Session { project: PathBuf, session: String },
    /// A folder with transcripts somewhere below it.
    Tree { root: PathBuf },
    /// One file, with the note about it if it is a subagent's.
    File { path: PathBuf },
}

/// What the listing of a TARGET comes by.
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
    /// Finds out what stands at a path.
    pub(crate) fn classify(given: &Path) -> Result<Self, CollectError> {
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => CollectError::Missing { path: given.to_owned() },
            _ => CollectError::Io { path: given.to_owned(), source },
        };
        let path = fs::canonicalize(given).map_err(failed)?;
        let metadata = fs::metadata(&path).map_err(failed)?;
        if metadata.is_file() {
            return Ok(Self::of_file(path));
        }
        if !metadata.is_dir() {
            return Err(CollectError::NotRegular { path: given.to_owned() });
        }
        let (Some(project), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
        else {
            return Ok(Self::Tree { root: path });
        };
        if path.join(SUBAGENTS).is_dir() || main_path(project, name).is_file() {
            return Ok(Self::Session { project: project.to_owned(), session: name.to_owned() });
        }
        Ok(Self::Tree { root: path })
    }

    fn of_file(path: PathBuf) -> Self {
        let place = describe(&path);
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let is_main = match place.role {
            Role::Main => true,
            Role::Other => path.with_extension("").join(SUBAGENTS).is_dir(),
            Role::Agent | Role::Meta | Role::Journal => false,
        };
        match (path.parent(), stem) {
            (Some(project), Some(session)) if is_main => {
                Self::Session { project: project.to_owned(), session: session.to_owned() }
            }
            _ => Self::File { path },
        }
    }

    /// The folder that must be watched for the TARGET itself to be seen coming and going.
    pub(crate) fn base(&self) -> &Path {
        match self {
            Self::Session { project, .. } => project,
            Self::Tree { root } => root,
            Self::File { path } => path.parent().unwrap_or(path),
        }
    }

    /// Whether all that is below the folder belongs to the TARGET.
    pub(crate) fn covers(&self, folder: &Path) -> bool {
        match self {
            Self::Session { project, session } => folder.starts_with(project.join(session)),
            Self::Tree { root } => folder.starts_with(root),
            Self::File { .. } => false,
        }
    }

    /// Returns the file if it belongs to the TARGET and is there.
    pub(crate) fn take(&self, path: &Path, peeks: &mut Peeks) -> Result<Option<Found>, Skipped> {
        let Some(mut place) = self.place(path) else { return Ok(None) };
        if place.role == Role::Agent && place.session.is_none() {
            place.session = peeks.session(path);
            if let Self::Session { session, .. } = self
                && place.session.as_ref() != Some(session)
            {
                return Ok(None);
            }
        }
        stat(path, place)
    }

    /// What the file is to the TARGET, as far as its path tells; `None` if it is not the TARGET's.
    fn place(&self, path: &Path) -> Option<Place> {
        let place = describe(path);
        match self {
            Self::Session { project, session } if path == main_path(project, session) => {
                Some(main_place(session))
            }
            Self::Session { project, session } => {
                let is_note = matches!(place.role, Role::Agent | Role::Meta | Role::Journal);
                let is_beside = path.parent() == Some(project) && place.role == Role::Agent;
                (is_beside || is_note && path.starts_with(project.join(session))).then_some(place)
            }
            Self::Tree { root } => {
                let place = match (place.role, path.file_stem().and_then(|stem| stem.to_str())) {
                    (Role::Other, Some(stem)) if has_subagents(path) => main_place(stem),
                    _ => place,
                };
                (path.starts_with(root) && place.role != Role::Other).then_some(place)
            }
            Self::File { path: own } => (path == own || path == meta_path(own)).then_some(place),
        }
    }

    /// Lists the whole TARGET. Each folder comes before what it holds, so that it can be watched first.
    pub(crate) fn list(&self, peeks: &mut Peeks, each: &mut dyn FnMut(Seen<'_>)) {
        match self {
            Self::Session { project, session } => {
                each(Seen::Folder(project));
                self.offer(&main_path(project, session), peeks, each);
                self.list_below(&project.join(session), peeks, each);
                self.list_beside(project, peeks, each);
            }
            Self::Tree { root } => self.list_below(root, peeks, each),
            Self::File { path } => {
                each(Seen::Folder(self.base()));
                self.offer(path, peeks, each);
                if describe(path).role == Role::Agent {
                    self.offer(&meta_path(path), peeks, each);
                }
            }
        }
    }

    /// Lists one folder of the TARGET and those below it.
    pub(crate) fn list_below(&self, folder: &Path, peeks: &mut Peeks, each: &mut dyn FnMut(Seen<'_>)) {
        if !fs::symlink_metadata(folder).is_ok_and(|metadata| metadata.is_dir()) {
            return;
        }
        walk(folder, &mut |step| match step {
            Step::Enter(folder) => each(Seen::Folder(folder)),
            Step::File(path) => self.offer(path, peeks, each),
            Step::Skip(skipped) => each(Seen::Skipped(skipped)),
        });
    }

    /// Lists the 2.0.x subagents in a project's folder.
    fn list_beside(&self, project: &Path, peeks: &mut Peeks, each: &mut dyn FnMut(Seen<'_>)) {
        let entries = match entries(project) {
            Ok(entries) => entries,
            Err(error) => {
                return each(Seen::Skipped(Skipped { path: project.to_owned(), why: error.to_string() }));
            }
        };
        for (path, kind) in entries {
            if describe(&path).role != Role::Agent {
                continue;
            }
            match kind {
                Kind::File => self.offer(&path, peeks, each),
                Kind::Folder | Kind::Link | Kind::Special => {
                    each(Seen::Skipped(Skipped { path, why: "not a regular file".to_owned() }));
                }
            }
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

/// Returns the file at a path with what is known about it; `None` where nothing stands there.
pub(crate) fn stat(path: &Path, place: Place) -> Result<Option<Found>, Skipped> {
    let skipped = |why: String| Err(Skipped { path: path.to_owned(), why });
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(Some(Found::new(path.to_owned(), place, &metadata))),
        Ok(_) => skipped("not a regular file".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => skipped(error.to_string()),
    }
}

/// Whether a `.jsonl` file has a session's folder beside it, which makes it a main transcript.
fn has_subagents(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
        && path.with_extension("").join(SUBAGENTS).is_dir()
}
