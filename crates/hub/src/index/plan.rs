//! What is to be done: which sessions have files that are new or other than they were, and which are due anyway.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use subscope_collect::{CollectError, Found, Group, expand};
use subscope_fold::OwnedElsewhere;
use subscope_harness::Role;
use subscope_model::{Problem, SessionId};
use subscope_store::{Identity, LedgerError, Sqlite, Texts};

use super::{IndexError, IndexOptions, Report, duplicates};

/// What is to be done.
pub(super) struct Plan {
    /// Sessions to fold, the newest first.
    pub(super) groups: Vec<Work>,
    /// Transcripts whose words are to be read, the newest first.
    pub(super) files: Vec<(Found, Identity)>,
    /// Sessions of which a file is gone and not archived: their rows stay as they are.
    pub(super) gone: Vec<SessionId>,
}

/// A session to fold.
pub(super) struct Work {
    /// Its files as they stood just before they are read.
    pub(super) files: Vec<(Found, Identity)>,
    /// Of which what programs handed over is read as well: rows are made of all that is known of a session.
    pub(super) session: Option<SessionId>,
    /// What of its sessions is known to count elsewhere.
    pub(super) elsewhere: Arc<BTreeMap<SessionId, OwnedElsewhere>>,
    /// Whether rows were made of all these files before, and only the archive's may differ since: where one of them is
    /// damaged, the rows know more than it does.
    pub(super) has_rows: bool,
}

impl Plan {
    /// How many bytes are read for rows.
    pub(super) fn fact_bytes(&self) -> u64 {
        self.groups.iter().flat_map(|work| &work.files).map(|(found, _)| found.len).sum()
    }

    /// How many bytes are read for words.
    pub(super) fn text_bytes(&self) -> u64 {
        self.files.iter().map(|(found, _)| found.len).sum()
    }
}

pub(super) fn plan(
    store: &Sqlite,
    texts: Option<&Texts>,
    options: &IndexOptions,
    report: &mut Report,
) -> Result<Plan, IndexError> {
    let known: HashMap<PathBuf, (SessionId, Identity)> =
        store.sources()?.into_iter().map(|source| (source.path, (source.session, source.identity))).collect();
    let due: HashSet<SessionId> = store.due(options.now_ms)?.into_iter().collect();
    let forgotten: HashSet<SessionId> = store.forgotten()?.into_iter().collect();
    let indexed: HashMap<PathBuf, Identity> =
        texts.map(Texts::files).transpose()?.unwrap_or_default().into_iter().collect();
    let groups = found(options, report)?;
    let on_disk: HashSet<PathBuf> =
        groups.iter().flat_map(|group| &group.files).map(|found| found.path.clone()).collect();
    let missing = known.iter().filter(|(path, _)| !on_disk.contains(*path) && !path.exists());
    let mut missing = Missing::of(missing, &forgotten, options, report);
    missing.add_unknown(&known, &forgotten, options, report);
    let elsewhere = Arc::new(duplicates::known(store)?);
    let mut plan = Plan { groups: Vec::new(), files: Vec::new(), gone: Vec::new() };
    let mut consider = |files: Vec<(Found, Identity)>, report: &mut Report| -> Result<(), IndexError> {
        let of = |found: &Found| known.get(&found.path).map(|(session, _)| session);
        let is_in = |sessions: &HashSet<SessionId>| {
            files.iter().any(|(found, _)| of(found).is_some_and(|session| sessions.contains(session)))
        };
        if is_in(&missing.gone) {
            return Ok(());
        }
        let is_new = |(found, now): &(Found, Identity)| {
            known.get(&found.path).is_none_or(|(_, identity)| identity != now)
        };
        let is_changed = files.iter().any(is_new);
        // What was forgotten stays so until it goes on.
        if is_in(&forgotten) && !is_changed {
            return Ok(());
        }
        if options.archives {
            archive(&files, options, report);
        }
        let is_text = |(found, _): &&(Found, Identity)| matches!(found.role, Role::Main | Role::Agent);
        let unread =
            files.iter().filter(is_text).filter(|(found, now)| indexed.get(&found.path) != Some(now));
        plan.files.extend(unread.cloned());
        if is_changed || is_in(&due) {
            let session = files.iter().find_map(|(found, _)| found.session.as_deref()).map(SessionId::from);
            let is_past =
                |it: &(Found, Identity)| of(&it.0).is_some() && (it.0.kept_at.is_some() || !is_new(it));
            let has_rows = files.iter().all(is_past);
            plan.groups.push(Work { files, session, elsewhere: Arc::clone(&elsewhere), has_rows });
        }
        Ok(())
    };
    for group in groups {
        let mut files: Vec<(Found, Identity)> = group
            .files
            .into_iter()
            .map(|found| (identity(&found.path), found))
            .map(|(id, it)| (it, id))
            .collect();
        report.files += files.len() as u64;
        let of = |found: &Found| known.get(&found.path).map(|(session, _)| session);
        let session = files.iter().find_map(|(found, _)| of(found)).cloned();
        if let Some(kept) = session.and_then(|session| missing.kept.remove(&session)) {
            files.extend(kept);
            in_order(&mut files);
        }
        if !is_too_old(&files, options) {
            consider(files, report)?;
        }
    }
    for (_, mut files) in std::mem::take(&mut missing.kept) {
        in_order(&mut files);
        consider(files, report)?;
    }
    plan.gone = missing.gone.into_iter().collect();
    plan.groups.sort_by_key(|work| std::cmp::Reverse(work.files.iter().map(|(_, it)| it.modified_ns).max()));
    plan.files.sort_by_key(|(_, identity)| std::cmp::Reverse(identity.modified_ns));
    Ok(plan)
}

/// The sessions that stand below the roots.
fn found(options: &IndexOptions, report: &mut Report) -> Result<Vec<Group>, IndexError> {
    let mut groups: Vec<Group> = Vec::new();
    for root in &options.roots {
        if !root.exists() {
            continue;
        }
        let expanded = match expand(root) {
            Ok(expanded) => expanded,
            // A harness that was never used has a folder all the same.
            Err(CollectError::Empty { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        groups.extend(expanded.groups);
        let skipped = expanded.skipped.into_iter();
        report.problems.extend(skipped.map(|it| Problem { at: it.path.display().to_string(), what: it.why }));
    }
    Ok(groups)
}

/// Files that rows were made from and that stand no more where they stood.
struct Missing {
    /// By session, those that the archive has.
    kept: BTreeMap<SessionId, Vec<(Found, Identity)>>,
    /// Sessions of which nobody has a file.
    gone: HashSet<SessionId>,
}

impl Missing {
    fn of<'k>(
        missing: impl Iterator<Item = (&'k PathBuf, &'k (SessionId, Identity))>,
        forgotten: &HashSet<SessionId>,
        options: &IndexOptions,
        report: &mut Report,
    ) -> Self {
        let mut all = Self { kept: BTreeMap::new(), gone: HashSet::new() };
        for (path, (session, identity)) in missing.filter(|(_, (session, _))| !forgotten.contains(session)) {
            let kept = options.archive.settle(path).unwrap_or_else(|error| {
                report.problems.push(Problem { at: path.display().to_string(), what: error.to_string() });
                None
            });
            let Some(kept) = kept else {
                all.gone.insert(session.clone());
                continue;
            };
            // Its number is another one in the archive; that it is the same file is known by its name there.
            let mut now = Identity { bytes: kept.bytes, modified_ns: kept.modified_ns, ..*identity };
            if kept.is_damaged {
                // What is missing of it is no change of the transcript.
                now = *identity;
                let at = kept.path.display().to_string();
                report
                    .problems
                    .push(Problem { at, what: "damaged archive: unreadable seek table".to_owned() });
            }
            let found = Found::again(path, session.as_str(), Some(kept));
            all.kept.entry(session.clone()).or_default().extend(found.map(|found| (found, now)));
        }
        all.kept.retain(|session, _| !all.gone.contains(session));
        all
    }

    /// Adds files that came and went while no index ran: a hub has taken them, and no rows were made from them here.
    fn add_unknown(
        &mut self,
        known: &HashMap<PathBuf, (SessionId, Identity)>,
        forgotten: &HashSet<SessionId>,
        options: &IndexOptions,
        report: &mut Report,
    ) {
        let taken = options.roots.iter().flat_map(|root| options.archive.left_behind(root));
        for (path, session) in taken {
            let id = SessionId::from(session.as_str());
            if known.contains_key(&path) || self.gone.contains(&id) {
                continue;
            }
            if forgotten.contains(&id) {
                // What cannot be removed is met again.
                let _ = options.archive.remove(&path);
                continue;
            }
            match options.archive.settle(&path) {
                Ok(kept) => {
                    let identity = kept.as_ref().map(|kept| Identity {
                        inode: 0,
                        bytes: kept.bytes,
                        modified_ns: kept.modified_ns,
                    });
                    let found = kept.and_then(|kept| Found::again(&path, &session, Some(kept)));
                    self.kept.entry(id).or_default().extend(found.zip(identity));
                }
                Err(error) => {
                    report.problems.push(Problem { at: path.display().to_string(), what: error.to_string() })
                }
            }
        }
    }
}

/// Takes files into the archive. What cannot be taken is told, and read all the same.
fn archive(files: &[(Found, Identity)], options: &IndexOptions, report: &mut Report) {
    for (found, _) in files.iter().filter(|(found, _)| found.kept_at.is_none()) {
        if let Err(error) = options.archive.take(&found.path) {
            let what = format!("cannot be archived: {error}");
            report.problems.push(Problem { at: found.path.display().to_string(), what });
        }
    }
}

/// Whether nothing was written since before the time that sessions are kept for: it would be removed again at once.
fn is_too_old(files: &[(Found, Identity)], options: &IndexOptions) -> bool {
    let Some(before) = options.keep_ms.map(|keep| options.now_ms.saturating_sub(keep)) else { return false };
    files.iter().all(|(_, identity)| identity.modified_ns / 1_000_000 < before)
}

/// Puts a session's files in the order in which a folder gives them.
fn in_order(files: &mut [(Found, Identity)]) {
    files.sort_by(|(one, _), (other, _)| (one.role, &one.path).cmp(&(other.role, &other.path)));
}

/// What is to be folded once more of sessions that are kept. One whose files are gone keeps its rows.
pub(super) fn again(
    store: &Sqlite,
    options: &IndexOptions,
    comparison: &duplicates::Comparison,
) -> Result<Vec<Work>, LedgerError> {
    if comparison.wrong.is_empty() {
        return Ok(Vec::new());
    }
    let elsewhere = Arc::new(comparison.wrong.clone());
    let mut files: BTreeMap<SessionId, Vec<(Found, Identity)>> = BTreeMap::new();
    let mut gone: HashSet<SessionId> = HashSet::new();
    for source in store.sources()?.into_iter().filter(|source| elsewhere.contains_key(&source.session)) {
        let kept =
            if source.path.exists() { None } else { options.archive.find(&source.path).ok().flatten() };
        match Found::again(&source.path, source.session.as_str(), kept) {
            Some(found) => files.entry(source.session).or_default().push((found, source.identity)),
            None => drop(gone.insert(source.session)),
        }
    }
    let whole = files.into_iter().filter(|(session, _)| !gone.contains(session));
    Ok(whole
        .map(|(session, mut files)| {
            in_order(&mut files);
            Work { files, session: Some(session), elsewhere: Arc::clone(&elsewhere), has_rows: true }
        })
        .collect())
}

/// How a file stands now; all zero where it is gone.
fn identity(path: &Path) -> Identity {
    let Ok(metadata) = fs::metadata(path) else { return Identity::default() };
    Identity {
        inode: metadata.ino(),
        bytes: metadata.len(),
        modified_ns: metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec()),
    }
}
