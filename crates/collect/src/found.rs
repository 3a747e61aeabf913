//! A file to read, with what is known about it.

use std::{
    fs::Metadata,
    ops::Deref,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use subscope_decode::Dialect;
use subscope_harness::{Place, Role, classify};
use subscope_model::{Millis, SessionId, true_id};

use crate::{
    archive::{Kept, original_of},
    bundle::Bundled,
    peek::complete_by,
    read::read_head,
    source::{self, SourceStat},
};

/// A file to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its path; absolute, in a folder without symbolic links. A file that is kept elsewhere has the path of the link to it.
    pub path: PathBuf,
    /// What it is by its path, with the session that its first line names where the path does not.
    pub what: Place,
    /// Its length in bytes when it was found; it may have grown since.
    pub len: u64,
    /// When it was last written; `None` where the file system does not know.
    pub modified_ms: Option<Millis>,
    /// Where its bytes are if not at `path`: in the archive.
    pub kept_at: Option<PathBuf>,
}

impl Deref for Found {
    type Target = Place;
    fn deref(&self) -> &Place {
        &self.what
    }
}

impl Found {
    pub(crate) fn new(path: PathBuf, what: Place, stat: &SourceStat) -> Self {
        Self { path, what, len: stat.len, modified_ms: stat.modified.and_then(ms_of), kept_at: None }
    }

    /// A session of a bundle.
    pub(crate) fn bundled(session: Bundled, what: Place) -> Self {
        let Bundled { path, len, modified_ms } = session;
        Self { path, what, len, modified_ms: Some(modified_ms), kept_at: None }
    }

    /// Finds a known file that has lines of a session, given by its safe id, again: on disk or in the archive; `None` if
    /// neither has it. Its path may name another session, which its lines without one belong to.
    pub fn again(path: &Path, session: &str, kept: Option<Kept>) -> Option<Self> {
        let named = original_of(path).unwrap_or_else(|| path.to_owned());
        let mut place = classify(&named);
        let session = &*true_id(session);
        let names_other = place.session.as_deref().is_some_and(|named| named != session)
            && place.dialect.is_some_and(Dialect::names_session);
        if place.session.is_none() {
            // Its first line may be all that says whose thread it is; where that is missing, its path decides.
            let at = kept.as_ref().map_or(path, |kept| &kept.path);
            let head = read_head(at).ok();
            let read = head.and_then(|head| complete_by(&named, &head, &place));
            place = read.unwrap_or_else(|| of_session(place, session));
        }
        if !names_other {
            place.session = Some(session.to_owned());
        }
        if place.role == Role::Other {
            // It was a main transcript because of its session's folder.
            place.role = Role::Main;
        }
        let path = path.to_owned();
        let Some(Kept { path: kept_at, bytes: len, modified_ns, .. }) = kept else {
            let stat = source::stat(&path).ok().flatten()?;
            return Some(Self::new(path, place, &stat));
        };
        let modified_ms = Some(modified_ns / 1_000_000);
        Some(Self { path, what: place, len, modified_ms, kept_at: Some(kept_at) })
    }

    /// Returns it as a file of a session, given by its safe id, if neither its path nor its first line names one: who knew
    /// it before knows whose it is, also when the line that said so is gone.
    #[must_use]
    pub fn or_of_session(mut self, session: &str) -> Self {
        if self.what.session.is_none() {
            self.what = of_session(self.what, &true_id(session));
        }
        self
    }

    /// Returns the session that its path or first line names, by its safe id.
    pub fn session_id(&self) -> Option<SessionId> {
        self.what.session.as_deref().map(SessionId::from_outside)
    }

    /// Returns the path to read it at.
    pub fn place(&self) -> &Path {
        self.kept_at.as_deref().unwrap_or(&self.path)
    }
}

/// What a file is whose session only those know who read it before.
fn of_session(place: Place, session: &str) -> Place {
    let named = Place { session: Some(session.to_owned()), ..place };
    // An agent with the id of its session is the session's root.
    match named.agent == named.session {
        true => Place { role: Role::Main, agent: None, ..named },
        false => named,
    }
}

/// Returns when a file was last written, in milliseconds since 1970.
pub(crate) fn modified_ms(metadata: &Metadata) -> Option<Millis> {
    ms_of(metadata.modified().ok()?)
}

fn ms_of(modified: SystemTime) -> Option<Millis> {
    let ms = match modified.duration_since(UNIX_EPOCH) {
        Ok(after) => i128::try_from(after.as_millis()).ok()?,
        Err(before) => -i128::try_from(before.duration().as_millis()).ok()?,
    };
    Millis::try_from(ms).ok()
}
