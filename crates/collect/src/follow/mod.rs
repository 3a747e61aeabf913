//! Reads existing content, then follows what is appended.
//!
//! One round of [`Follow::poll`]: wait for the watcher → read the open files it names → see what else it names
//! and open what belongs to the scope → `CaughtUp`.
//!
//! * **Folders are watched, files are not.** A file that is not followed costs nothing until it changes; a followed one
//!   costs its path, its offset and its last bytes, and is opened only while it is read.
//! * **Watch, then list.** A file made between the two is seen at least once; opening twice does nothing.
//! * **Nothing depends on the watcher alone.** Everything is listed again now and then, at once when the watcher
//!   lost something, and every second where it cannot work.
//!
//! Pitfalls: a renamed or removed folder says nothing about the files in it; an inode number can be used
//! again, so what was read last is compared as well; our own opening of files makes events, which
//! `watch` drops.

mod files;
mod pace;
mod root;
mod tail;
mod targets;
mod watch;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use subscope_harness::{self as harness, skips_folder};
use subscope_model::Millis;

use crate::{CollectError, Found, Skipped, bundle::bundle_changed_by};
use files::Files;
use pace::Pace;
use root::Root;
use targets::Targets;
use watch::{Change, Watch};

/// Interval at which followed files are checked where they cannot be watched, and folders are listed if that is cheap:
/// short enough to appear live.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often a bundle is looked at again after it was written, [`LOOK_EVERY`] apart. A database writes its log first, and
/// what was written is visible only once it has reached the disk: no watcher reports that.
const LOOKS_AFTER_WRITE: u8 = 3;
/// The share of one core that listing may take where files cannot be watched: 1/50.
const LISTING_SHARE: u32 = 50;
/// How often everything is listed although files are watched. It bounds how long a change that no watcher reported
/// (network file systems, too many idle folders) stays unseen.
const SAFETY_LISTING: Duration = Duration::from_secs(120);
/// The share of one core that this may take: 1/4000. Listing 5,000 files in 5,000 folders takes some 0.1 s.
const SAFETY_SHARE: u32 = 4_000;
/// The longest time that a listing counts as: a clock that jumped meanwhile must not stop the listing for hours.
const LISTING_CAP: Duration = Duration::from_secs(2);

/// Names a path within one [`Follow`]; never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// What happens to the followed files.
///
/// Per file the order is `Appeared`, any `Bytes` and `Restarted`, `Gone`, and from `Appeared` on once more if it comes
/// back. Bytes are gapless from 0, and again from 0 after `Restarted`. Nothing is lost or dropped: a slow reader is
/// waited for. A file that is replaced by one with the same content makes no event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FileEvent<'a> {
    /// A file is followed from now on, from its beginning. One that was removed continues at its offset, or a
    /// `Restarted` follows.
    Appeared {
        /// Its id from now on.
        file: FileId,
        /// What is known about it.
        found: &'a Found,
    },
    /// The file's next bytes; they end anywhere, not at lines.
    Bytes {
        /// The file.
        file: FileId,
        /// The offset of the first byte.
        offset: u64,
        /// Up to [`crate::read::CHUNK_BYTES`]; never empty.
        bytes: &'a [u8],
    },
    /// The file was cut or replaced by other content, and is read again from 0; what its earlier content said stays
    /// known. Sent once the file is as long as before, or has stayed shorter for a second: until then a program may be rewriting
    /// it.
    Restarted {
        /// The file.
        file: FileId,
    },
    /// The file, cut or replaced before, begins again with everything that it ever held.
    Restored {
        /// The file.
        file: FileId,
    },
    /// The file was removed or moved away. One that comes back at the path appears again under its name.
    Gone {
        /// The file.
        file: FileId,
    },
    /// A file cannot be read. It is tried again, ever less often, and continues where reading stopped.
    Failed {
        /// The file.
        file: FileId,
        /// What is wrong; a lower-case fragment.
        what: &'a str,
    },
    /// A file that could not be read was read to its end.
    Recovered {
        /// The file.
        file: FileId,
    },
    /// Something cannot be listed or watched; everything else is followed further.
    Problem {
        /// Where.
        path: &'a Path,
        /// What is wrong, and what is done about it; a lower-case fragment.
        what: &'a str,
    },
    /// The session's existing content has been read completely. Sent only when following folders of transcripts.
    Whole {
        /// The session.
        session: &'a str,
    },
    /// All followed files are read to their end for now. Sent after the first round, also if it found nothing,
    /// and after each round that sent anything about a file.
    CaughtUp,
}

/// How changes are noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Watching {
    /// By the operating system's watcher; by listing where that fails.
    #[default]
    Native,
    /// By listing every second: for file systems whose changes no watcher reports.
    Polling,
}

/// How files are followed.
pub struct FollowOptions {
    /// A session below a folder of transcripts is live if a file of it was written within this time before now.
    pub live_within: Duration,
    /// The caller's clock, in milliseconds since 1970; compared with the times of files.
    pub now_ms: Box<dyn Fn() -> Millis + Send>,
    /// How changes are noticed.
    pub watching: Watching,
}

impl FollowOptions {
    /// Returns the usual options: live within 15 minutes, native watching.
    pub fn new(now_ms: impl Fn() -> Millis + Send + 'static) -> Self {
        Self {
            live_within: Duration::from_secs(15 * 60),
            now_ms: Box::new(now_ms),
            watching: Watching::default(),
        }
    }

    /// The oldest time of writing that counts as live.
    fn live_since_ms(&self) -> Millis {
        let span = Millis::try_from(self.live_within.as_millis()).unwrap_or(Millis::MAX);
        (self.now_ms)().saturating_sub(span)
    }
}

/// Follows files live. Owns a thread of the watcher, and no open file between rounds.
pub struct Follow {
    scopes: Vec<Box<dyn Scope>>,
    state: FollowState,
    started: bool,
    /// Since the followed files were looked at.
    looked: Pace,
    /// Since everything was listed.
    listed: Pace,
    /// How long that took.
    listing: Duration,
    /// Whether the watcher lost something.
    list_soon: bool,
    /// Bundles that were written lately.
    written: BTreeMap<PathBuf, WrittenBundle>,
}

/// A bundle that is to be looked at again.
struct WrittenBundle {
    looked: Pace,
    looks_left: u8,
}

/// Which files are followed: TARGETs, or the live sessions below a folder.
trait Scope: Send {
    /// Whether a TARGET or folder is missing.
    fn is_waiting(&self) -> bool;

    /// Finds out what is gone.
    fn check_base(&mut self);

    /// Lists everything.
    fn scan(&mut self, state: &mut FollowState, out: &mut EventSink<'_>) -> Result<(), CollectError>;

    /// Looks for what is waited for.
    fn resolve(&mut self, state: &mut FollowState, out: &mut EventSink<'_>) -> Result<(), CollectError>;

    /// A folder was created or replaced: it and all folders below it are to be watched and listed.
    fn enter(&mut self, folder: &Path, state: &mut FollowState, out: &mut EventSink<'_>);

    /// A bundle was written. Those of its sessions that are followed were looked at.
    fn take_bundle(&mut self, path: &Path, state: &mut FollowState, out: &mut EventSink<'_>);

    /// A file that is not followed was made or changed.
    fn take(&mut self, path: &Path, state: &mut FollowState, out: &mut EventSink<'_>);
}

/// What all scopes work with.
struct FollowState {
    watch: Watch,
    files: Files,
    options: FollowOptions,
}

/// Where a round's events go.
struct EventSink<'a> {
    each: &'a mut dyn FnMut(FileEvent<'_>),
    /// Whether anything was reported about a file.
    moved: bool,
}

impl EventSink<'_> {
    fn send(&mut self, event: FileEvent<'_>) {
        self.moved |=
            !matches!(event, FileEvent::Problem { .. } | FileEvent::Whole { .. } | FileEvent::CaughtUp);
        (self.each)(event);
    }
}

impl Follow {
    /// Follows TARGETs, each as [`crate::expand()`] understands it, and what is added to them later. One that
    /// does not exist yet is waited for.
    ///
    /// # Errors
    ///
    /// Where a relative path cannot be made absolute.
    pub fn targets(targets: Vec<PathBuf>, options: FollowOptions) -> Result<Self, CollectError> {
        let targets = targets.into_iter().map(absolute).collect::<Result<Vec<_>, _>>()?;
        let first = targets.first().cloned().unwrap_or_default();
        Ok(Self::new(vec![Box::new(Targets::new(targets))], &first, options))
    }

    /// Follows every live session below these folders, which need not exist yet. Idle
    /// sessions are opened when one of their files changes, new ones at once; each from its beginning.
    ///
    /// # Errors
    ///
    /// Where a relative path cannot be made absolute.
    pub fn roots(roots: Vec<harness::Root>, options: FollowOptions) -> Result<Self, CollectError> {
        let (mut first, mut scopes) = (None, Vec::<Box<dyn Scope>>::new());
        for root in roots {
            let folder = absolute(root.folder)?;
            first.get_or_insert_with(|| folder.clone());
            scopes.push(Box::new(Root::new(harness::Root { folder, ..root })));
        }
        Ok(Self::new(scopes, &first.unwrap_or_default(), options))
    }

    fn new(scopes: Vec<Box<dyn Scope>>, first: &Path, options: FollowOptions) -> Self {
        let watch = Watch::new(options.watching, first);
        let state = FollowState { watch, files: Files::default(), options };
        Self {
            scopes,
            state,
            started: false,
            looked: Pace::default(),
            listed: Pace::default(),
            listing: Duration::ZERO,
            list_soon: false,
            written: BTreeMap::new(),
        }
    }

    /// Reads the existing content at the first call; later waits up to `wait` for changes, and reads those.
    ///
    /// Returns as soon as something happened. It may return before `wait` is over without an event. `each` is called on
    /// this thread.
    ///
    /// # Errors
    ///
    /// Where a TARGET turns out to be neither a file nor a folder, or may not be looked at. It is dropped; the
    /// next call continues with the others.
    pub fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(FileEvent<'_>)) -> Result<(), CollectError> {
        let mut out = EventSink { each, moved: false };
        let is_first = !self.started;
        self.state.files.begin_round(self.now_ms());
        let outcome = if is_first { self.scan(&mut out) } else { self.round(wait, &mut out) };
        for Skipped { path, why } in self.state.watch.take_notices() {
            out.send(FileEvent::Problem { path: &path, what: &why });
        }
        if is_first || out.moved {
            out.send(FileEvent::CaughtUp);
        }
        outcome
    }

    /// Reads all followed files to their end once more, whether or not the watcher has reported a change.
    ///
    /// # Errors
    ///
    /// As [`Follow::poll`].
    pub fn read_all(&mut self, each: &mut dyn FnMut(FileEvent<'_>)) -> Result<(), CollectError> {
        let mut out = EventSink { each, moved: false };
        self.state.files.begin_round(self.now_ms());
        let outcome = self.scan(&mut out);
        out.send(FileEvent::CaughtUp);
        outcome
    }

    fn round(&mut self, wait: Duration, out: &mut EventSink<'_>) -> Result<(), CollectError> {
        let is_impatient = self.is_short_of_news()
            || self.is_waiting_for_base()
            || self.state.files.has_unsettled()
            || !self.written.is_empty();
        let limit = if is_impatient { wait.min(LOOK_EVERY) } else { wait };
        let batch = self.state.watch.collect(limit);
        self.state.files.begin_round(self.now_ms());
        // Not after a loss: listing itself causes events, and would repeat without a pause.
        let waited = if batch.changes.is_empty() && !batch.is_incomplete { limit } else { Duration::ZERO };
        self.looked.wait(waited);
        self.listed.wait(waited);
        self.state.files.refresh_unsettled(waited, out);
        self.look_at_written(waited, out);
        self.list_soon |= batch.is_incomplete;
        let is_look_due = self.is_short_of_news() && self.looked.is_over(self.now_ms(), LOOK_EVERY);
        if batch.is_incomplete || is_look_due {
            self.look(out);
        }
        for change in batch.changes {
            self.take_change(&change, out);
        }
        if self.is_listing_due() {
            return self.scan(out);
        }
        self.scopes.iter_mut().try_for_each(|scope| scope.resolve(&mut self.state, out))
    }

    /// Whether a TARGET or folder is missing: its watch may be on a folder far above it.
    fn is_waiting_for_base(&self) -> bool {
        self.scopes.iter().any(|scope| scope.is_waiting())
    }

    /// Whether the watcher does not report everything.
    fn is_short_of_news(&self) -> bool {
        self.state.watch.is_polling() || self.list_soon
    }

    fn is_listing_due(&self) -> bool {
        let (least, share) = match self.is_short_of_news() {
            true => (LOOK_EVERY, LISTING_SHARE),
            false => (SAFETY_LISTING, SAFETY_SHARE),
        };
        self.listed.is_over(self.now_ms(), least.max(self.listing.saturating_mul(share)))
    }

    fn now_ms(&self) -> Millis {
        (self.state.options.now_ms)()
    }

    /// Looks at the followed files.
    fn look(&mut self, out: &mut EventSink<'_>) {
        self.state.files.refresh_all(out);
        self.looked.restart(self.now_ms());
    }

    /// Looks at everything.
    fn scan(&mut self, out: &mut EventSink<'_>) -> Result<(), CollectError> {
        self.list_soon = false;
        self.look(out);
        let began_ms = self.now_ms();
        let outcome = self.scopes.iter_mut().try_for_each(|scope| scope.scan(&mut self.state, out));
        let now_ms = self.now_ms();
        self.listed.restart(now_ms);
        // The first listing also reads and is no measure of the others.
        if self.started {
            self.listing = Duration::from_millis(now_ms.abs_diff(began_ms)).min(LISTING_CAP);
        }
        self.started = true;
        outcome
    }

    fn take_bundle(&mut self, bundle: &Path, out: &mut EventSink<'_>) {
        self.state.files.refresh_below(bundle, out);
        self.scopes.iter_mut().for_each(|scope| scope.take_bundle(bundle, &mut self.state, out));
    }

    /// Looks again at bundles that were written lately, after the watcher was silent for this long.
    fn look_at_written(&mut self, waited: Duration, out: &mut EventSink<'_>) {
        let (now_ms, mut due) = (self.now_ms(), Vec::new());
        self.written.retain(|bundle, written| {
            written.looked.wait(waited);
            if written.looked.is_over(now_ms, LOOK_EVERY) {
                written.looked.restart(now_ms);
                written.looks_left -= 1;
                due.push(bundle.clone());
            }
            written.looks_left > 0
        });
        due.iter().for_each(|bundle| self.take_bundle(bundle, out));
    }

    fn take_change(&mut self, change: &Change, out: &mut EventSink<'_>) {
        let path = &change.path;
        if self.state.files.is_open(path) {
            return self.state.files.refresh(path, out);
        }
        if !change.is_content {
            return;
        }
        if let Some(bundle) = bundle_changed_by(path) {
            self.take_bundle(&bundle, out);
            let mut looked = Pace::default();
            looked.restart(self.now_ms());
            self.written.insert(bundle, WrittenBundle { looked, looks_left: LOOKS_AFTER_WRITE });
            return;
        }
        let Ok(metadata) = fs::symlink_metadata(path) else {
            if self.state.watch.forget(path) {
                self.state.files.refresh_below(path, out);
                self.scopes.iter_mut().for_each(|scope| scope.check_base());
            }
            return;
        };
        if metadata.is_dir() {
            if path.file_name().is_some_and(skips_folder) {
                return;
            }
            // A folder that was watched and is announced again may have been replaced: the watches of it and of all
            // folders below are void.
            let was_watched = self.state.watch.forget(path);
            self.scopes.iter_mut().for_each(|scope| scope.enter(path, &mut self.state, out));
            // Only now: what is written while they are not watched is reported by nobody.
            if was_watched {
                self.state.files.refresh_below(path, out);
            }
        } else {
            self.scopes.iter_mut().for_each(|scope| scope.take(path, &mut self.state, out));
        }
    }
}

fn absolute(path: PathBuf) -> Result<PathBuf, CollectError> {
    std::path::absolute(&path).map_err(|source| CollectError::Io { path, source })
}
