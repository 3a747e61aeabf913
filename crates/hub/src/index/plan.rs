//! Plans an index run: sessions with new or changed files, and sessions whose rows are due by time.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use subscope_collect::{CollectError, Found, Group, expand, length};
use subscope_harness::Role;
use subscope_model::{Problem, SessionId};
use subscope_session::OwnedElsewhere;
use subscope_store::{DamagedSessions, FileIdentity, Ledger, SqliteStore, StoreError, TextIndex};

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
}

/// A session to read.
pub(super) struct SessionWork {
    /// Its files, with their identity just before they are read.
    pub(super) files: Vec<(Found, FileIdentity)>,
    /// Session whose inbox input is read as well: rows are derived from all input of a session.
    pub(super) session: Option<SessionId>,
    /// Keys that other sessions own, by session.
    pub(super) elsewhere: Arc<BTreeMap<SessionId, OwnedElsewhere>>,
    /// Whether rows were derived from all these files before, and only archived copies may differ since: if a copy is
    /// damaged, the rows know more than it does.
    pub(super) has_rows: bool,
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
    let known: HashMap<PathBuf, (SessionId, FileIdentity)> =
        store.sources()?.into_iter().map(|source| (source.path, (source.session, source.identity))).collect();
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
    let groups = groups?;
    let damaged = match damaged.transpose()? {
        Some(DamagedSessions::Some(sessions)) => sessions,
        Some(DamagedSessions::All) => known.values().map(|(session, _)| session.clone()).collect(),
        None => Vec::new(),
    };
    due.extend(damaged.iter().cloned());
    let on_disk: HashSet<PathBuf> =
        groups.iter().flat_map(|group| &group.files).map(|found| found.path.clone()).collect();
    let missing = known.iter().filter(|(path, _)| !on_disk.contains(*path) && length(path).is_none());
    let mut missing = MissingFiles::find(missing, &forgotten, options, report);
    missing.add_unknown(&known, &forgotten, options, report);
    let elsewhere = Arc::new(duplicates::stored_owned_elsewhere(store)?);
    let mut plan = Plan { groups: Vec::new(), files: Vec::new(), frozen: Vec::new() };
    let mut emptied = Vec::new();
    let mut consider = |files: Vec<(Found, FileIdentity)>, report: &mut Report| -> Result<(), IndexError> {
        let session_of = |found: &Found| known.get(&found.path).map(|(session, _)| session);
        let named = |found: &Found| found.session.as_deref().map(SessionId::from_outside);
        let is_in = |sessions: &HashSet<SessionId>| {
            let of = |found: &Found| session_of(found).cloned().or_else(|| named(found));
            files.iter().any(|(found, _)| of(found).is_some_and(|session| sessions.contains(&session)))
        };
        if is_in(&missing.frozen) {
            return Ok(());
        }
        // A file that was cut to nothing is as good as deleted: the rows know more.
        let was_cut = |(found, now): &&(Found, FileIdentity)| {
            now.bytes == 0 && known.get(&found.path).is_some_and(|(_, identity)| identity.bytes > 0)
        };
        if let Some((found, _)) = files.iter().find(was_cut) {
            emptied.extend(session_of(found).cloned());
            return Ok(());
        }
        let is_new = |(found, now): &(Found, FileIdentity)| {
            known.get(&found.path).is_none_or(|(_, identity)| identity != now)
        };
        let is_changed = files.iter().any(is_new);
        // A forgotten session stays so until it gets new content.
        if is_in(&forgotten) && !is_changed {
            return Ok(());
        }
        if options.archives {
            archive(&files, options, report);
        }
        let is_text = |(found, _): &&(Found, FileIdentity)| matches!(found.role, Role::Main | Role::Agent);
        let unread =
            files.iter().filter(is_text).filter(|(found, now)| indexed.get(&found.path) != Some(now));
        plan.files.extend(unread.cloned());
        if is_changed || is_in(&due) {
            let session =
                files.iter().find_map(|(found, _)| found.session.as_deref()).map(SessionId::from_outside);
            let is_past = |it: &(Found, FileIdentity)| {
                session_of(&it.0).is_some() && (it.0.kept_at.is_some() || !is_new(it))
            };
            let has_rows = files.iter().all(is_past);
            plan.groups.push(SessionWork { files, session, elsewhere: Arc::clone(&elsewhere), has_rows });
        }
        Ok(())
    };
    for group in groups {
        let mut files: Vec<(Found, FileIdentity)> = group
            .files
            .into_iter()
            .map(|found| (found_identity(&found), found))
            .map(|(id, it)| (it, id))
            .collect();
        report.files += files.len() as u64;
        let session_of = |found: &Found| known.get(&found.path).map(|(session, _)| session);
        let session = files.iter().find_map(|(found, _)| session_of(found)).cloned();
        if let Some(kept) = session.and_then(|session| missing.archived.remove(&session)) {
            files.extend(kept);
            sort_files(&mut files);
        }
        if !is_too_old(&files, options) {
            consider(files, report)?;
        }
    }
    for (_, mut files) in std::mem::take(&mut missing.archived) {
        sort_files(&mut files);
        consider(files, report)?;
    }
    for session in damaged.iter().filter(|session| missing.frozen.contains(*session)) {
        let what = "its stored rows may be damaged, and its transcript is gone: `subscope doctor` says more";
        report.problems.push(Problem { at: session.to_string(), what: what.to_owned() });
    }
    plan.frozen = missing.frozen.into_iter().chain(emptied).collect();
    plan.groups.sort_by_key(|work| std::cmp::Reverse(work.files.iter().map(|(_, it)| it.modified_ns).max()));
    plan.files.sort_by_key(|(_, identity)| std::cmp::Reverse(identity.modified_ns));
    Ok(plan)
}

/// Returns the file groups of the sessions below the roots.
fn find_groups(options: &IndexOptions, report: &mut Report) -> Result<Vec<Group>, IndexError> {
    let mut groups: Vec<Group> = Vec::new();
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
        groups.extend(expanded.groups);
        let skipped = expanded.skipped.into_iter();
        report.problems.extend(skipped.map(|it| Problem { at: it.path.display().to_string(), what: it.why }));
    }
    Ok(groups)
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
        missing: impl Iterator<Item = (&'k PathBuf, &'k (SessionId, FileIdentity))>,
        forgotten: &HashSet<SessionId>,
        options: &IndexOptions,
        report: &mut Report,
    ) -> Self {
        let mut all = Self { archived: BTreeMap::new(), frozen: HashSet::new() };
        for (path, (session, identity)) in missing.filter(|(_, (session, _))| !forgotten.contains(session)) {
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
        known: &HashMap<PathBuf, (SessionId, FileIdentity)>,
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
