//! Finds the sessions to verify and reads each again from its sources: those of the harnesses' folders with the store of this
//! machine, or those at a path with a store of their own that is deleted afterwards.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use subscope_collect::{Expanded, Found, Group, archive::Archive, is_harness_output, is_recording_name};
use subscope_harness::bundle;
use subscope_hub::{
    BatchRead, SessionSources,
    index::{IndexOptions, elsewhere},
};
use subscope_model::{SessionDetail, SessionId, SessionRow, Stats, StatsQuery, Tree};
use subscope_session::{EventScope, FactDetail, RouterOptions};
use subscope_store::{Access, ListQuery, SessionQueries, SqliteStore};

use crate::{
    command::{
        history::{index::run_index, index_options, rows_fingerprint},
        target::{now_at, open_store_for_reading, sources_of},
    },
    prelude::*,
};

/// Most sessions that are verified at once.
const MAX_SESSIONS: usize = 1_000_000;

/// Greatest depth at which recordings are looked for below a folder.
const DEPTH: usize = 12;

/// A session to verify.
pub(super) struct Subject {
    pub(super) session: SessionId,
    /// Its rows, derived again from its sources.
    pub(super) tree: Tree,
    pub(super) detail: SessionDetail,
    /// What these were derived from.
    pub(super) files: Vec<Found>,
    /// Recordings of it that the rows were not derived from.
    pub(super) recordings: Vec<Found>,
    /// Its row in `ls`; `None` where it is in no store.
    pub(super) row: Option<SessionRow>,
    /// Whether it holds a part that another session owns.
    pub(super) has_copies: bool,
    /// Whether some of its transcripts are gone: its row has more than its sources.
    pub(super) is_cut: bool,
}

/// Receives the sessions one after the other.
pub(super) type Each<'e> = &'e mut dyn FnMut(Subject);

/// What is listed of all sessions.
pub(super) struct Lists {
    /// The rows of `ls`.
    pub(super) rows: Vec<SessionRow>,
    /// What `stats` says.
    pub(super) stats: Stats,
    /// Listed sessions that could not be read again.
    pub(super) unread: Vec<UnreadSession>,
    /// Number of files with an ending of recorded output that gave no session.
    pub(super) files_left_out: u64,
}

/// A session that `ls` lists and whose sources give no rows.
pub(super) struct UnreadSession {
    pub(super) row: SessionRow,
    /// Whether some of its transcripts are gone.
    pub(super) is_cut: bool,
}

const READING: RouterOptions =
    RouterOptions { keep: FactDetail::Rows, cutoff: None, events: EventScope::Nothing };

/// Reads the sessions of the harnesses' folders.
pub(super) fn each_of_homes(context: &Context, each: Each<'_>) -> Result<Lists, CliError> {
    let mut backend = Backend::open(Needs::Rows, context)?;
    let rows = backend.sessions(MAX_SESSIONS, false, "")?.sessions;
    let stats = backend.queries().stats(&StatsQuery::default())?;
    let store = open_store_for_reading(context)?;
    let mut unread = Vec::new();
    for row in &rows {
        let sources = sources_of(&row.id, store.as_ref(), context)?;
        unread.extend(read_session(row, sources, Vec::new(), store.as_ref(), context, each)?);
    }
    Ok(Lists { rows, stats, unread, files_left_out: 0 })
}

/// Reads the sessions at a path. Returns the lists that an index of a folder gives; `None` for a file.
pub(super) fn each_at(path: &Path, context: &Context, each: Each<'_>) -> Result<Option<Lists>, CliError> {
    if !path.is_dir() || bundle(path).is_some() {
        let expanded = BatchRead::expand(&[path.to_owned()])?;
        read_files(expanded, context, each)?;
        return Ok(None);
    }
    let path = fs::canonicalize(path).map_err(|error| CliError::because("cannot read the folder", error))?;
    let folder = tempfile::tempdir().map_err(|error| CliError::because("cannot make a folder", error))?;
    let now_us = context.now_us();
    let fingerprint = rows_fingerprint(context)?;
    let mut store = SqliteStore::open(folder.path(), Access::Write, &fingerprint, now_us)?;
    let archive = Archive::new(folder.path().join("archive"));
    let options = IndexOptions {
        archive: archive.clone(),
        archives: false,
        keep_ms: None,
        ..index_options(vec![path.clone()], context)?
    };
    run_index(&mut store, None, &options, context)?;
    let rows = store.list(&ListQuery::first(MAX_SESSIONS))?;
    let mut of_rows = Vec::new();
    let mut used = HashSet::new();
    for row in &rows {
        let sources = SessionSources::find(&row.id, Vec::new(), Some(&store), &archive)?;
        used.extend(sources.files().iter().map(|found| found.path.clone()));
        of_rows.push(sources);
    }
    let known: HashSet<&SessionId> = rows.iter().map(|row| &row.id).collect();
    let mut recordings: BTreeMap<SessionId, Vec<Found>> = BTreeMap::new();
    let (found, mut files_left_out) = recordings_below(&path, &used);
    for file in found {
        let Ok(expanded) = BatchRead::expand(std::slice::from_ref(&file)) else {
            files_left_out += 1;
            continue;
        };
        let files: Vec<Found> = expanded.groups.iter().flat_map(|group| group.files.clone()).collect();
        let batch = BatchRead::read(expanded.clone(), READING, None);
        let named: Vec<SessionId> = batch.router.sessions().cloned().collect();
        if named.iter().any(|session| known.contains(session)) {
            for session in named {
                recordings.entry(session).or_default().extend(files.iter().cloned());
            }
        } else {
            files_left_out += u64::from(read_files(expanded, context, each)? == 0);
        }
    }
    let mut unread = Vec::new();
    for (row, sources) in rows.iter().zip(of_rows) {
        let recordings = recordings.remove(&row.id).unwrap_or_default();
        unread.extend(read_session(row, sources, recordings, Some(&store), context, each)?);
    }
    let stats = store.stats(&StatsQuery::default())?;
    Ok(Some(Lists { rows, stats, unread, files_left_out }))
}

/// Reads a listed session again. Returns it if its sources give no rows.
fn read_session(
    row: &SessionRow,
    sources: SessionSources,
    recordings: Vec<Found>,
    store: Option<&SqliteStore>,
    context: &Context,
    each: Each<'_>,
) -> Result<Option<UnreadSession>, CliError> {
    let (files, is_cut) = (sources.files().to_vec(), !sources.is_whole());
    let has_copies = match store {
        Some(store) => !elsewhere(store, &row.id)?.is_empty(),
        None => false,
    };
    let batch = sources.read(store, READING)?;
    let now = now_at(context, context.now_ms(), false)?;
    let Some(tree) = batch.router.tree(&row.id, &now) else {
        return Ok(Some(UnreadSession { row: row.clone(), is_cut }));
    };
    let detail = batch.router.detail(&row.id, &now).unwrap_or_default();
    let (session, row) = (row.id.clone(), Some(row.clone()));
    each(Subject { session, tree, detail, files, recordings, row, has_copies, is_cut });
    Ok(None)
}

/// Reads all sessions of files that are in no store. Returns their number.
fn read_files(expanded: Expanded, context: &Context, each: Each<'_>) -> Result<usize, CliError> {
    let files: Vec<Found> =
        expanded.groups.iter().flat_map(|Group { files, .. }| files.iter().cloned()).collect();
    let batch = BatchRead::read(expanded, READING, None);
    let now = now_at(context, context.now_ms(), false)?;
    let sessions: Vec<SessionId> = batch.router.sessions().cloned().collect();
    let number = sessions.len();
    for session in sessions {
        let Some(tree) = batch.router.tree(&session, &now) else { continue };
        let is_of =
            |found: &&Found| files.len() == 1 || found.session_id().is_none_or(|named| named == session);
        let files = files.iter().filter(is_of).cloned().collect();
        let detail = batch.router.detail(&session, &now).unwrap_or_default();
        each(Subject {
            session,
            tree,
            detail,
            files,
            recordings: Vec::new(),
            row: None,
            has_copies: false,
            is_cut: false,
        });
    }
    Ok(number)
}

/// Returns the recorded output below a folder that no session's rows were derived from, by path, and the number of files
/// that have such an ending and are no harness's.
fn recordings_below(folder: &Path, used: &HashSet<PathBuf>) -> (Vec<PathBuf>, u64) {
    let (mut found, mut others, mut folders) = (Vec::new(), 0, vec![(folder.to_owned(), 0)]);
    while let Some((folder, depth)) = folders.pop() {
        // One that cannot be read is a problem of the index.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type());
            match kind {
                // The index reads all of a folder that holds many sessions.
                Ok(kind) if kind.is_dir() && bundle(&path).is_some() => {}
                Ok(kind) if kind.is_dir() && depth < DEPTH => folders.push((path, depth + 1)),
                Ok(kind) if kind.is_file() && is_recording_name(&path) && !used.contains(&path) => {
                    match is_harness_output(&path) {
                        true => found.push(path),
                        false => others += 1,
                    }
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    found.sort();
    (found, others)
}
