//! Plans an index run: sessions with new or changed files, and sessions whose rows are due by time.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use subscope_collect::{
    CollectError, Expanded, Found, Group, Skipped,
    archive::{ArchivedOriginals, Kept},
    expand, length,
};
use subscope_harness::Role;
use subscope_model::{Problem, SessionId};
use subscope_session::OwnedElsewhere;
use subscope_store::{DamagedSessions, FileIdentity, Ledger, SourceFile, SqliteStore, StoreError, TextIndex};

use super::{IndexError, IndexOptions, Report, duplicates};
use crate::loader::{Unread, found_identity};

/// Work of an index run.
pub(super) struct Plan {
    /// Sessions to read, newest first.
    pub(super) groups: Vec<SessionWork>,
    /// Transcripts to index as text, newest first.
    pub(super) files: Vec<(Found, FileIdentity)>,
    /// Sessions with a file that is neither on disk nor archived: their rows stay as they are.
    pub(super) frozen: Vec<SessionId>,
    /// What the plan was made of.
    pub(super) sessions: KnownSessions,
    /// Keys that other sessions own, by session.
    pub(super) elsewhere: Arc<BTreeMap<SessionId, OwnedElsewhere>>,
}

/// A session to read.
pub(super) struct SessionWork {
    /// Its files, with their identity just before they are read. Some may have lines of other sessions too.
    pub(super) files: Vec<(Found, FileIdentity)>,
    /// Session whose inbox input is read as well: rows are derived from all input of a session.
    pub(super) session: Option<SessionId>,
    /// Keys that other sessions own, by session.
    pub(super) elsewhere: Arc<BTreeMap<SessionId, OwnedElsewhere>>,
    /// Whether a file of it is shorter than it was when rows were derived from it.
    pub(super) is_shorter: bool,
    /// Whether a file of it is gone and not archived.
    pub(super) is_missing: bool,
    /// Why files of it cannot be looked at, or an archived copy is damaged: its rows know more.
    pub(super) problems: Vec<Problem>,
}

/// Sessions with the files that are known to have lines of them.
#[derive(Default)]
pub(super) struct KnownSessions {
    files: BTreeMap<SessionId, Vec<(Found, FileIdentity)>>,
    /// State of each file when rows were last derived from it, by session.
    sources: HashMap<PathBuf, BTreeMap<SessionId, FileIdentity>>,
    /// Files that are read for a session in this run, or whose lines its rows have.
    covered: HashSet<(PathBuf, SessionId)>,
    /// Sessions whose rows stay as they are.
    fixed: HashSet<SessionId>,
}

/// A file that turned out to have lines of other sessions than the one that its path names.
pub(super) struct MixedFile {
    pub(super) file: (Found, FileIdentity),
    /// The session that it was read for; `None` if its path names none.
    pub(super) session: Option<SessionId>,
    /// The sessions of its other lines.
    pub(super) others: BTreeSet<SessionId>,
}

impl KnownSessions {
    /// Whether a file has nothing that the rows of a session lack.
    fn is_read(&self, path: &Path, session: Option<&SessionId>, now: &FileIdentity) -> bool {
        let Some(sources) = self.sources.get(path) else { return false };
        match session.and_then(|session| sources.get(session)) {
            Some(identity) => identity == now,
            // All its lines belong to others.
            None => sources.values().any(|identity| identity == now),
        }
    }

    /// Whether a file was longer when the rows of a session were derived from it.
    fn was_longer(&self, path: &Path, session: Option<&SessionId>, now: &FileIdentity) -> bool {
        let Some(sources) = self.sources.get(path) else { return false };
        let mut known = sources.iter().filter(|(known, _)| session.is_none_or(|session| *session == **known));
        known.any(|(_, identity)| identity.bytes > now.bytes)
    }

    /// Returns the sessions of these that no work of this run reads the file for.
    pub(super) fn uncovered(&self, path: &Path, named: BTreeSet<SessionId>) -> BTreeSet<SessionId> {
        let is_covered = |session: &SessionId| self.covered.contains(&(path.to_owned(), session.clone()));
        named.into_iter().filter(|session| !self.fixed.contains(session) && !is_covered(session)).collect()
    }

    /// Returns the work that derives the sessions of which lines turned up in files of others, each from all its files.
    pub(super) fn gather(
        &self,
        mixed: &[MixedFile],
        elsewhere: &Arc<BTreeMap<SessionId, OwnedElsewhere>>,
    ) -> Vec<SessionWork> {
        let mut files: BTreeMap<&SessionId, Vec<(Found, FileIdentity)>> = BTreeMap::new();
        for MixedFile { file, others, .. } in mixed {
            for session in others {
                let own = || self.files.get(session).cloned().unwrap_or_default();
                files.entry(session).or_insert_with(own).push(file.clone());
            }
        }
        let work = |(session, mut files): (&SessionId, Vec<(Found, FileIdentity)>)| {
            sort_files(&mut files);
            files.dedup_by(|(one, _), (other, _)| one.path == other.path);
            let is_shorter =
                files.iter().any(|(found, now)| self.was_longer(&found.path, Some(session), now));
            let (session, elsewhere) = (Some(session.clone()), Arc::clone(elsewhere));
            SessionWork { files, session, elsewhere, is_shorter, is_missing: false, problems: Vec::new() }
        };
        files.into_iter().map(work).collect()
    }
}

impl Plan {
    /// Adds the sessions of which only input of programs is known that no hub has derived: one that ended at once, say. A
    /// hub that runs derives them itself.
    pub(super) fn add_received(&mut self, store: &SqliteStore) -> Result<(), StoreError> {
        let planned: HashSet<&SessionId> =
            self.groups.iter().filter_map(|work| work.session.as_ref()).collect();
        let unread = store.sessions_with_unprocessed_input()?;
        if unread.is_empty() {
            return Ok(());
        }
        let with_files: HashSet<SessionId> =
            store.sources()?.into_iter().map(|source| source.session).collect();
        let received: Vec<SessionId> = unread
            .into_iter()
            .filter(|session| !planned.contains(session) && !with_files.contains(session))
            .collect();
        let elsewhere = Arc::new(duplicates::stored_owned_elsewhere(store)?);
        self.groups.extend(received.into_iter().map(|session| SessionWork {
            files: Vec::new(),
            session: Some(session),
            elsewhere: Arc::clone(&elsewhere),
            is_shorter: false,
            is_missing: false,
            problems: Vec::new(),
        }));
        Ok(())
    }

    /// Bytes to read for rows.
    pub(super) fn fact_bytes(&self) -> u64 {
        self.groups.iter().flat_map(|work| &work.files).map(|(found, _)| found.len).sum()
    }

    /// Bytes to read for text.
    pub(super) fn text_bytes(&self) -> u64 {
        self.files.iter().map(|(found, _)| found.len).sum()
    }
}

/// Plans the work. `checks_rows` says whether sessions with damaged rows are looked for, to derive them again.
pub(super) fn plan(
    store: &SqliteStore,
    checks_rows: bool,
    texts: Option<&TextIndex>,
    options: &IndexOptions,
    report: &mut Report,
) -> Result<Plan, IndexError> {
    let mut sessions = KnownSessions::default();
    for SourceFile { path, session, identity } in store.sources()? {
        sessions.sources.entry(path).or_default().insert(session, identity);
    }
    let mut due: HashSet<SessionId> = store.due_sessions(options.now_ms)?.into_iter().collect();
    let forgotten: HashSet<SessionId> = store.forgotten_sessions()?.into_iter().collect();
    let indexed: HashMap<PathBuf, FileIdentity> =
        texts.map(TextIndex::files).transpose()?.unwrap_or_default().into_iter().collect();
    let at = store.location();
    let (groups, damaged) = std::thread::scope(|scope| {
        // It reads all rows, which takes about as long as listing the folders.
        let damaged =
            checks_rows.then(|| scope.spawn(|| at.open()?.damaged_sessions().map_err(IndexError::from)));
        let groups = find_groups(options, report);
        let damaged =
            damaged.map(|damaged| damaged.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        (groups, damaged)
    });
    let damaged: HashSet<SessionId> = match damaged.transpose()? {
        Some(DamagedSessions::Some(sessions)) => sessions.into_iter().collect(),
        Some(DamagedSessions::All) => sessions.sources.values().flat_map(BTreeMap::keys).cloned().collect(),
        None => HashSet::new(),
    };
    due.extend(damaged.iter().cloned());
    let mut listed = ListedFiles::default();
    for group in groups? {
        report.files += group.files.len() as u64;
        let by_rows = || {
            let known = group.files.iter().find_map(|found| sessions.sources.get(&found.path));
            known.and_then(|known| known.keys().next().cloned())
        };
        let session = group.session.as_deref().map(SessionId::from_outside).or_else(by_rows);
        let as_known = |found: Found| match &session {
            Some(session) => found.or_of_session(session.as_str()),
            None => found,
        };
        listed.add(session.clone(), group.files.into_iter().map(as_known).collect());
    }
    let mut missing = Vec::new();
    let unlisted = sessions.sources.iter().filter(|(path, _)| !listed.paths.contains(*path));
    for (path, known) in unlisted.collect::<Vec<_>>() {
        match length(path) {
            Ok(None) => missing.extend(known.iter().map(|(session, identity)| (path, session, identity))),
            // A folder above it could not be listed.
            Ok(Some(_)) => {
                for session in known.keys() {
                    let found = Found::again(path, session.as_str(), None);
                    listed.add(Some(session.clone()), found.into_iter().collect());
                }
            }
            Err(error) => {
                let problem = Unread::new(path, error).problem();
                let of = known.keys().map(|session| (session.clone(), problem.clone()));
                of.for_each(|(session, problem)| listed.problems.entry(session).or_default().push(problem));
            }
        }
    }
    let mut missing = MissingFiles::find(missing.into_iter(), &forgotten, options, report);
    missing.add_unknown(&sessions.sources, &forgotten, options, report);
    for (session, problems) in std::mem::take(&mut missing.damaged) {
        listed.problems.entry(session).or_default().extend(problems);
    }
    let ListedFiles { files, unnamed, by_path, mut problems, .. } = listed;
    sessions.files = files;
    // Lines of a session may be in files of others.
    for (path, known) in &sessions.sources {
        let Some(file) = by_path.get(path).filter(|file| file.0.session.is_some()) else { continue };
        for session in known.keys().filter(|session| file.0.session_id().as_ref() != Some(*session)) {
            sessions.files.entry(session.clone()).or_default().push(file.clone());
        }
    }
    for (session, kept) in std::mem::take(&mut missing.archived) {
        sessions.files.entry(session).or_default().extend(kept);
    }
    for files in sessions.files.values_mut() {
        sort_files(files);
        files.dedup_by(|(one, _), (other, _)| one.path == other.path);
    }
    let elsewhere = Arc::new(duplicates::stored_owned_elsewhere(store)?);
    let mut plan = Plan {
        groups: Vec::new(),
        files: Vec::new(),
        frozen: Vec::new(),
        sessions: KnownSessions::default(),
        elsewhere: Arc::clone(&elsewhere),
    };
    let (mut covered, mut fixed) = (HashSet::new(), HashSet::new());
    let mut consider = |session: Option<&SessionId>,
                        files: &[(Found, FileIdentity)],
                        problems: Vec<Problem>,
                        report: &mut Report| {
        let is_in = |all: &HashSet<SessionId>| session.is_some_and(|session| all.contains(session));
        let is_missing = is_in(&missing.unarchived);
        if is_missing && is_in(&damaged) {
            fixed.extend(session.cloned());
            return;
        }
        let is_new = |(found, now): &(Found, FileIdentity)| !sessions.is_read(&found.path, session, now);
        let is_own =
            |(found, _): &&(Found, FileIdentity)| session.is_none() || found.session_id().as_ref() == session;
        let is_changed = files.iter().any(is_new);
        // A forgotten session stays so until files of its own get new content.
        if is_in(&forgotten) && !files.iter().filter(is_own).any(is_new) {
            fixed.extend(session.cloned());
            return;
        }
        let former = if options.archives { archive(files, options, report) } else { Vec::new() };
        let all: Vec<(Found, FileIdentity)> = files.iter().cloned().chain(former).collect();
        let is_text = |(found, _): &&(Found, FileIdentity)| matches!(found.role, Role::Main | Role::Agent);
        let unread = all.iter().filter(is_own).filter(is_text);
        plan.files.extend(unread.filter(|(found, now)| indexed.get(&found.path) != Some(now)).cloned());
        if let Some(session) = session {
            covered.extend(all.iter().map(|(found, _)| (found.path.clone(), session.clone())));
        }
        if is_changed || is_in(&due) || !problems.is_empty() {
            let is_shorter = files.iter().any(|(found, now)| sessions.was_longer(&found.path, session, now));
            let (session, elsewhere) = (session.cloned(), Arc::clone(&elsewhere));
            plan.groups.push(SessionWork {
                files: all,
                session,
                elsewhere,
                is_shorter,
                is_missing,
                problems,
            });
        }
    };
    for (session, files) in &sessions.files {
        if !is_too_old(files, options) {
            consider(Some(session), files, problems.remove(session).unwrap_or_default(), report);
        }
    }
    for (files, problems) in unnamed {
        if !is_too_old(&files, options) {
            consider(None, &files, problems, report);
        }
    }
    report.problems.extend(problems.into_values().flatten());
    for session in damaged.intersection(&missing.unarchived) {
        let what = "its stored rows may be damaged, and its transcript is gone: `subscope doctor` says more";
        report.problems.push(Problem { at: session.to_string(), what: what.to_owned() });
    }
    (sessions.covered, sessions.fixed) = (covered, fixed);
    plan.sessions = sessions;
    // Of sessions of which nothing is left to read the rows stay as they are.
    let read: HashSet<&SessionId> = plan.groups.iter().filter_map(|work| work.session.as_ref()).collect();
    plan.frozen = missing.unarchived.into_iter().filter(|session| !read.contains(session)).collect();
    plan.groups.sort_by_key(|work| std::cmp::Reverse(work.files.iter().map(|(_, it)| it.modified_ns).max()));
    plan.files.sort_by_key(|(_, identity)| std::cmp::Reverse(identity.modified_ns));
    Ok(plan)
}

/// Returns the file groups of the sessions below the roots.
fn find_groups(options: &IndexOptions, report: &mut Report) -> Result<Vec<Group>, IndexError> {
    let mut all = Expanded::default();
    for root in &options.roots {
        if !root.exists() {
            continue;
        }
        let expanded = match expand(root) {
            Ok(expanded) => expanded,
            // A harness that was never used may have an empty folder.
            Err(CollectError::Empty { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        // A session may have files below several roots.
        all = all.merge(expanded);
    }
    let skipped = all.skipped.into_iter();
    report.problems.extend(skipped.map(|it| Problem { at: it.path.display().to_string(), what: it.why }));
    Ok(all.groups)
}

/// Files of one group, and why others of it cannot be looked at.
type UnnamedFiles = (Vec<(Found, FileIdentity)>, Vec<Problem>);

/// Files on disk, with their sessions.
#[derive(Default)]
struct ListedFiles {
    files: BTreeMap<SessionId, Vec<(Found, FileIdentity)>>,
    /// Files whose sessions only their lines name.
    unnamed: Vec<UnnamedFiles>,
    by_path: HashMap<PathBuf, (Found, FileIdentity)>,
    /// Paths of all of them, also of those that cannot be looked at.
    paths: HashSet<PathBuf>,
    /// Why files cannot be looked at.
    problems: HashMap<SessionId, Vec<Problem>>,
}

impl ListedFiles {
    /// Adds files of a session, with their identities now.
    fn add(&mut self, session: Option<SessionId>, found: Vec<Found>) {
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        for found in found {
            self.paths.insert(found.path.clone());
            match found_identity(&found) {
                Ok(identity) => {
                    self.by_path.insert(found.path.clone(), (found.clone(), identity));
                    files.push((found, identity));
                }
                Err(error) => problems.push(Unread::new(&found.path, error).problem()),
            }
        }
        match session {
            Some(session) => {
                self.problems.entry(session.clone()).or_default().extend(problems);
                self.files.entry(session).or_default().extend(files);
            }
            None => self.unnamed.push((files, problems)),
        }
    }
}

/// Files that rows were derived from and that are no longer on disk.
struct MissingFiles {
    /// Archived copies by session.
    archived: BTreeMap<SessionId, Vec<(Found, FileIdentity)>>,
    /// Why archived copies cannot be read completely, by session.
    damaged: BTreeMap<SessionId, Vec<Problem>>,
    /// Sessions with a file that is not archived.
    unarchived: HashSet<SessionId>,
}

impl MissingFiles {
    fn find<'k>(
        missing: impl Iterator<Item = (&'k PathBuf, &'k SessionId, &'k FileIdentity)>,
        forgotten: &HashSet<SessionId>,
        options: &IndexOptions,
        report: &mut Report,
    ) -> Self {
        let mut all =
            Self { archived: BTreeMap::new(), damaged: BTreeMap::new(), unarchived: HashSet::new() };
        for (path, session, identity) in missing.filter(|(_, session, _)| !forgotten.contains(*session)) {
            let kept = match options.archive.settle(path) {
                Ok(kept) => kept,
                Err(error) => {
                    let problem = Unread::new(path, error).problem();
                    all.damaged.entry(session.clone()).or_default().push(problem);
                    continue;
                }
            };
            let Some(kept) = kept else {
                all.unarchived.insert(session.clone());
                continue;
            };
            // Its inode differs in the archive; its path there identifies it.
            let mut now = FileIdentity { bytes: kept.bytes, modified_ns: kept.modified_ns, ..*identity };
            if kept.is_damaged {
                // The damage is no change of the transcript.
                now = *identity;
                let at = kept.path.display().to_string();
                let what = "damaged archive: unreadable seek table".to_owned();
                report.problems.push(Problem { at, what });
            }
            let found = Found::again(path, session.as_str(), Some(kept));
            all.archived.entry(session.clone()).or_default().extend(found.map(|found| (found, now)));
        }
        all
    }

    /// Adds archived files that no rows were derived from here, as far as is known: they came and went while a hub archived
    /// them and no index ran, or the store was damaged.
    fn add_unknown(
        &mut self,
        known: &HashMap<PathBuf, BTreeMap<SessionId, FileIdentity>>,
        forgotten: &HashSet<SessionId>,
        options: &IndexOptions,
        report: &mut Report,
    ) {
        let ArchivedOriginals { known: originals, unread } =
            options.archive.originals().unwrap_or_else(|error| {
                report.problems.push(Problem { at: "archive".to_owned(), what: error.to_string() });
                ArchivedOriginals::default()
            });
        let unread = unread
            .into_iter()
            .map(|Skipped { path, why }| Problem { at: path.display().to_string(), what: why });
        report.problems.extend(unread);
        for (path, session) in originals {
            let id = SessionId::from_outside(&session);
            if known.contains_key(&path)
                || !matches!(length(&path), Ok(None))
                || self.unarchived.contains(&id)
            {
                continue;
            }
            if forgotten.contains(&id) {
                // A file that cannot be removed is met again.
                let _ = options.archive.remove(&path);
                continue;
            }
            match options.archive.settle(&path) {
                Ok(kept) => {
                    let identity = kept.as_ref().map(kept_identity);
                    let found = kept.and_then(|kept| Found::again(&path, &session, Some(kept)));
                    self.archived.entry(id).or_default().extend(found.zip(identity));
                }
                Err(error) => {
                    report.problems.push(Problem { at: path.display().to_string(), what: error.to_string() })
                }
            }
        }
    }
}

/// Copies files into the archive. A file that cannot be copied is reported and indexed all the same. Returns former files,
/// of content that the archive has and a file no longer has.
fn archive(
    files: &[(Found, FileIdentity)],
    options: &IndexOptions,
    report: &mut Report,
) -> Vec<(Found, FileIdentity)> {
    let mut formers = Vec::new();
    for (found, _) in files.iter().filter(|(found, _)| found.kept_at.is_none()) {
        let former = options.archive.take(&found.path).and_then(|former| {
            let Some(former) = former else { return Ok(None) };
            let kept = options.archive.find(&former)?;
            let session = found.session.as_deref().unwrap_or_default();
            Ok(kept.and_then(|kept| {
                let identity = kept_identity(&kept);
                Some((Found::again(&former, session, Some(kept))?, identity))
            }))
        });
        match former {
            Ok(former) => formers.extend(former),
            Err(error) => {
                let what = format!("cannot be archived: {error}");
                report.problems.push(Problem { at: found.path.display().to_string(), what });
            }
        }
    }
    formers
}

/// The identity of an archived file that has no original.
fn kept_identity(kept: &Kept) -> FileIdentity {
    FileIdentity { inode: 0, bytes: kept.bytes, modified_ns: kept.modified_ns }
}

/// Whether all files are older than the retention: the session would be removed again at once.
fn is_too_old(files: &[(Found, FileIdentity)], options: &IndexOptions) -> bool {
    let Some(before) = options.keep_ms.map(|keep| options.now_ms.saturating_sub(keep)) else { return false };
    files.iter().all(|(_, identity)| identity.modified_ns / 1_000_000 < before)
}

/// Sorts a session's files as the expansion of a folder does.
fn sort_files(files: &mut [(Found, FileIdentity)]) {
    files.sort_by(|(one, _), (other, _)| (one.role, &one.path).cmp(&(other.role, &other.path)));
}

/// Returns the stored sessions to derive again after the comparison. A session with missing files keeps its rows.
pub(super) fn derive_again(
    store: &SqliteStore,
    options: &IndexOptions,
    comparison: &duplicates::DuplicateComparison,
) -> Result<Vec<SessionWork>, StoreError> {
    if comparison.outdated.is_empty() {
        return Ok(Vec::new());
    }
    let elsewhere = Arc::new(comparison.outdated.clone());
    let mut files: BTreeMap<SessionId, Vec<(Found, FileIdentity)>> = BTreeMap::new();
    let mut missing: HashSet<SessionId> = HashSet::new();
    for source in store.sources()?.into_iter().filter(|source| elsewhere.contains_key(&source.session)) {
        let kept = match length(&source.path) {
            Ok(None) => options.archive.find(&source.path).ok().flatten(),
            Ok(Some(_)) | Err(_) => None,
        };
        match Found::again(&source.path, source.session.as_str(), kept) {
            Some(found) => files.entry(source.session).or_default().push((found, source.identity)),
            None => drop(missing.insert(source.session)),
        }
    }
    let complete = files.into_iter().filter(|(session, _)| !missing.contains(session));
    Ok(complete
        .map(|(session, mut files)| {
            sort_files(&mut files);
            let (session, elsewhere, problems) = (Some(session), Arc::clone(&elsewhere), Vec::new());
            SessionWork { files, session, elsewhere, is_shorter: false, is_missing: false, problems }
        })
        .collect())
}
