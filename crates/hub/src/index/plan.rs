//! Plans an index run: sessions with new or changed files, and sessions whose rows are due by time.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use subscope_collect::{CollectError, Expanded, Found, Group, expand, length};
use subscope_harness::Role;
use subscope_model::{Problem, SessionId};
use subscope_session::OwnedElsewhere;
use subscope_store::{DamagedSessions, FileIdentity, Ledger, SourceFile, SqliteStore, StoreError, TextIndex};

use super::{IndexError, IndexOptions, Report, duplicates};
use crate::loader::found_identity;

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
    /// Whether rows were derived from all these files before, and only archived copies may differ since: if a copy is
    /// damaged, the rows know more than it does.
    pub(super) has_rows: bool,
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

    /// Whether rows of a session were derived from a file.
    fn is_source(&self, path: &Path, session: Option<&SessionId>) -> bool {
        let sources = self.sources.get(path);
        sources.is_some_and(|sources| session.is_none_or(|session| sources.contains_key(session)))
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
            let has_rows = files.iter().any(|(found, _)| self.is_source(&found.path, Some(session)));
            SessionWork { files, session: Some(session.clone()), elsewhere: Arc::clone(elsewhere), has_rows }
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
            has_rows: false,
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
    let damaged = match damaged.transpose()? {
        Some(DamagedSessions::Some(sessions)) => sessions,
        Some(DamagedSessions::All) => sessions.sources.values().flat_map(BTreeMap::keys).cloned().collect(),
        None => Vec::new(),
    };
    due.extend(damaged.iter().cloned());
    let mut on_disk: HashMap<PathBuf, (Found, FileIdentity)> = HashMap::new();
    let mut unnamed = Vec::new();
    for group in groups? {
        report.files += group.files.len() as u64;
        let files: Vec<_> = group.files.into_iter().map(|found| (found_identity(&found), found)).collect();
        let files: Vec<_> = files.into_iter().map(|(identity, found)| (found, identity)).collect();
        on_disk.extend(files.iter().map(|file| (file.0.path.clone(), file.clone())));
        let by_rows =
            || files.iter().find_map(|(found, _)| sessions.sources.get(&found.path)?.keys().next().cloned());
        match group.session.as_deref().map(SessionId::from_outside).or_else(by_rows) {
            Some(session) => sessions.files.entry(session).or_default().extend(files),
            None => unnamed.push(files),
        }
    }
    let missing =
        sessions.sources.iter().filter(|(path, _)| !on_disk.contains_key(*path) && length(path).is_none());
    let missing =
        missing.flat_map(|(path, all)| all.iter().map(move |(session, identity)| (path, session, identity)));
    let mut missing = MissingFiles::find(missing, &forgotten, options, report);
    missing.add_unknown(&sessions.sources, &forgotten, options, report);
    // Lines of a session may be in files of others.
    for (path, sources) in &sessions.sources {
        let Some(file) = on_disk.get(path) else { continue };
        for session in sources.keys().filter(|session| file.0.session_id().as_ref() != Some(*session)) {
            if file.0.session.is_some() {
                sessions.files.entry(session.clone()).or_default().push(file.clone());
            }
        }
    }
    for (session, kept) in std::mem::take(&mut missing.archived) {
        sessions.files.entry(session).or_default().extend(kept);
    }
    sessions.files.values_mut().for_each(|files| sort_files(files));
    let elsewhere = Arc::new(duplicates::stored_owned_elsewhere(store)?);
    let mut plan = Plan {
        groups: Vec::new(),
        files: Vec::new(),
        frozen: Vec::new(),
        sessions: KnownSessions::default(),
        elsewhere: Arc::clone(&elsewhere),
    };
    let (mut emptied, mut covered, mut fixed) = (Vec::new(), HashSet::new(), missing.frozen.clone());
    let mut consider = |session: Option<&SessionId>, files: &[(Found, FileIdentity)], report: &mut Report| {
        let is_in = |all: &HashSet<SessionId>| session.is_some_and(|session| all.contains(session));
        if is_in(&missing.frozen) {
            return;
        }
        // A file that was cut to nothing is as good as deleted: the rows know more.
        let was_cut = |(found, now): &(Found, FileIdentity)| {
            let sources = sessions.sources.get(&found.path);
            now.bytes == 0
                && sources.is_some_and(|sources| sources.values().any(|identity| identity.bytes > 0))
        };
        if files.iter().any(was_cut) {
            fixed.extend(session.cloned());
            emptied.extend(session.cloned());
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
        if options.archives {
            archive(files, options, report);
        }
        let is_text = |(found, _): &&(Found, FileIdentity)| matches!(found.role, Role::Main | Role::Agent);
        let unread = files.iter().filter(is_own).filter(is_text);
        plan.files.extend(unread.filter(|(found, now)| indexed.get(&found.path) != Some(now)).cloned());
        if let Some(session) = session {
            covered.extend(files.iter().map(|(found, _)| (found.path.clone(), session.clone())));
        }
        if is_changed || is_in(&due) {
            let is_past = |it: &(Found, FileIdentity)| {
                sessions.is_source(&it.0.path, session) && (it.0.kept_at.is_some() || !is_new(it))
            };
            let (files, session) = (files.to_vec(), session.cloned());
            let has_rows = files.iter().all(is_past);
            plan.groups.push(SessionWork { files, session, elsewhere: Arc::clone(&elsewhere), has_rows });
        }
    };
    for (session, files) in &sessions.files {
        if !is_too_old(files, options) {
            consider(Some(session), files, report);
        }
    }
    for files in &unnamed {
        if !is_too_old(files, options) {
            consider(None, files, report);
        }
    }
    for session in damaged.iter().filter(|session| missing.frozen.contains(*session)) {
        let what = "its stored rows may be damaged, and its transcript is gone: `subscope doctor` says more";
        report.problems.push(Problem { at: session.to_string(), what: what.to_owned() });
    }
    (sessions.covered, sessions.fixed) = (covered, fixed);
    plan.sessions = sessions;
    plan.frozen = missing.frozen.into_iter().chain(emptied).collect();
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

/// Files that rows were derived from and that are no longer on disk.
struct MissingFiles {
    /// Archived copies by session.
    archived: BTreeMap<SessionId, Vec<(Found, FileIdentity)>>,
    /// Sessions with a file that is not archived.
    frozen: HashSet<SessionId>,
}

impl MissingFiles {
    fn find<'k>(
        missing: impl Iterator<Item = (&'k PathBuf, &'k SessionId, &'k FileIdentity)>,
        forgotten: &HashSet<SessionId>,
        options: &IndexOptions,
        report: &mut Report,
    ) -> Self {
        let mut all = Self { archived: BTreeMap::new(), frozen: HashSet::new() };
        for (path, session, identity) in missing.filter(|(_, session, _)| !forgotten.contains(*session)) {
            let kept = options.archive.settle(path).unwrap_or_else(|error| {
                report.problems.push(Problem { at: path.display().to_string(), what: error.to_string() });
                None
            });
            let Some(kept) = kept else {
                all.frozen.insert(session.clone());
                continue;
            };
            // Its inode differs in the archive; its path there identifies it.
            let mut now = FileIdentity { bytes: kept.bytes, modified_ns: kept.modified_ns, ..*identity };
            if kept.is_damaged {
                // The damage is no change of the transcript.
                now = *identity;
                let at = kept.path.display().to_string();
                report
                    .problems
                    .push(Problem { at, what: "damaged archive: unreadable seek table".to_owned() });
            }
            let found = Found::again(path, session.as_str(), Some(kept));
            all.archived.entry(session.clone()).or_default().extend(found.map(|found| (found, now)));
        }
        all.archived.retain(|session, _| !all.frozen.contains(session));
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
        let originals = options.archive.originals().unwrap_or_else(|error| {
            report.problems.push(Problem { at: "archive".to_owned(), what: error.to_string() });
            Vec::new()
        });
        for (path, session) in originals {
            let id = SessionId::from_outside(&session);
            if known.contains_key(&path) || length(&path).is_some() || self.frozen.contains(&id) {
                continue;
            }
            if forgotten.contains(&id) {
                // A file that cannot be removed is met again.
                let _ = options.archive.remove(&path);
                continue;
            }
            match options.archive.settle(&path) {
                Ok(kept) => {
                    let identity = kept.as_ref().map(|kept| FileIdentity {
                        inode: 0,
                        bytes: kept.bytes,
                        modified_ns: kept.modified_ns,
                    });
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

/// Copies files into the archive. A file that cannot be copied is reported and indexed all the same.
fn archive(files: &[(Found, FileIdentity)], options: &IndexOptions, report: &mut Report) {
    for (found, _) in files.iter().filter(|(found, _)| found.kept_at.is_none()) {
        if let Err(error) = options.archive.take(&found.path) {
            let what = format!("cannot be archived: {error}");
            report.problems.push(Problem { at: found.path.display().to_string(), what });
        }
    }
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
        let kept = if length(&source.path).is_some() {
            None
        } else {
            options.archive.find(&source.path).ok().flatten()
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
            SessionWork { files, session: Some(session), elsewhere: Arc::clone(&elsewhere), has_rows: true }
        })
        .collect())
}
