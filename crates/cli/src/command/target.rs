//! Resolves TARGET arguments (a path, a session's id or unique prefix, `last`, or `-`) and reads the sessions they
//! name.

use std::{
    borrow::Cow,
    collections::HashSet,
    fmt, fs,
    io::{self, BufRead as _, Read as _},
    path::{Path, PathBuf},
};

use serde_json::Value;
use subscope_collect::main_transcripts;
use subscope_decode::{Dialect, UNRECOGNIZED};
use subscope_export::iteration;
use subscope_harness::{self as harness, Root, recognize};
use subscope_hub::{BatchRead, HistoryRows, ReadHistory, RowsSource, SessionSources, unread_files_naming};
use subscope_model::{
    Event, EventRecord, IterationStatus, Millis, Payload, Problem, RawJson, Session, SessionDetail,
    SessionId, SessionText, Text, ToolUseId, Tree,
};
use subscope_run::record;
use subscope_session::{EventScope, FactDetail, Now, RouterOptions, SessionRouter};
use subscope_store::{Access, History, SqliteStore};

use super::{
    document::{self, DocumentKind, Lines},
    history,
};
use crate::{
    hub_connection::{LAST, MAX_PREFIX_MATCHES, one_of},
    prelude::*,
};

/// Bytes at the start of a file that are used to recognize its dialect.
const HEAD_BYTES: u64 = 64 << 10;

/// Name of standard input in problems.
pub(crate) const STDIN: &str = "stdin";

/// Most events taken from the change log, for a session whose transcript is gone.
pub(crate) const MAX_LOGGED_EVENTS: usize = 50_000;

pub(crate) enum ResolvedTarget {
    Path(PathBuf),
    /// A complete output file: its writer has exited.
    FinishedFile(PathBuf),
    /// A document: a checkpoint's folder or file, or an ATIF trajectory.
    Document(PathBuf, DocumentKind),
    /// The session of a file of several whose id begins so: `FILE/SESSION`.
    Part(PathBuf, String),
    /// A session that is in the store or has a transcript below the harness's directory.
    Session(SessionId),
    Stdin,
}

impl fmt::Display for ResolvedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) | Self::FinishedFile(path) | Self::Document(path, _) => path.display().fmt(f),
            Self::Part(path, session) => write!(f, "{}/{session}", path.display()),
            Self::Session(session) => write!(f, "session {session}"),
            Self::Stdin => f.write_str(STDIN),
        }
    }
}

/// Returns the roots of the harnesses' transcripts.
pub(crate) fn roots(context: &Context) -> Vec<Root> {
    harness::roots(&|name| context.environment.get(name))
}

/// Returns the directories of [`roots`].
pub(crate) fn root_folders(context: &Context) -> Vec<PathBuf> {
    roots(context).into_iter().map(|root| root.folder).collect()
}

/// Returns the existing directories among the roots, for a message.
pub(crate) fn shown(roots: &[Root]) -> String {
    let is_there = |root: &&Root| root.folder.is_dir();
    let there: Vec<String> =
        roots.iter().filter(is_there).map(|root| root.folder.display().to_string()).collect();
    if !there.is_empty() {
        return there.join(", ");
    }
    let mut titles: Vec<&str> = roots.iter().map(|root| root.harness.title()).collect();
    titles.dedup();
    format!("the folders of {}; none exists yet", titles.join(", "))
}

pub(crate) fn resolve(targets: &[TargetArg], context: &Context) -> Result<Vec<ResolvedTarget>, CliError> {
    let mut resolved = Vec::new();
    for target in targets {
        match recorded_iteration(Path::new(target), context) {
            Some(files) => resolved.extend(files),
            None => resolved.push(resolve_one(target, context)?),
        }
    }
    Ok(resolved)
}

/// Returns the files of an iteration recorded by `run`; `None` for another directory.
fn recorded_iteration(folder: &Path, context: &Context) -> Option<Vec<ResolvedTarget>> {
    let meta = iteration::read_meta(folder)?;
    let is_recognized = |path: &PathBuf| read_head(path).is_ok_and(|head| recognize(&head).is_some());
    // Of a connection the messages of both sides are recorded, and the output is one of the two.
    let has_messages = folder.join(record::ACP).exists();
    let output = if has_messages { record::ACP } else { record::STDOUT };
    let files = [output, record::POSTED, record::OTLP].map(|name| folder.join(name));
    let recognized: Vec<PathBuf> = files.iter().filter(|path| is_recognized(path)).cloned().collect();
    if recognized.is_empty()
        && let Some(session) = meta.session_id.as_deref().map(SessionId::from)
        && !transcripts_of(&roots(context), &session).is_empty()
    {
        // The iteration was observed by its transcript, which still exists.
        return Some(vec![ResolvedTarget::Session(session)]);
    }
    let files = if recognized.is_empty() { files.into_iter().take(1).collect() } else { recognized };
    let is_running = meta.status == IterationStatus::Running;
    let of = if is_running { ResolvedTarget::Path } else { ResolvedTarget::FinishedFile };
    Some(files.into_iter().map(of).collect())
}

/// Reads the start of a file.
pub(crate) fn read_head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    fs::File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

fn resolve_one(target: &TargetArg, context: &Context) -> Result<ResolvedTarget, CliError> {
    if target == "-" {
        return Ok(ResolvedTarget::Stdin);
    }
    let path = Path::new(target);
    if let Some(kind) = document::kind_of(path) {
        return Ok(ResolvedTarget::Document(path.to_owned(), kind));
    }
    if let (Some(file), Some(session)) = (path.parent(), path.file_name())
        && file.is_file()
        && harness::bundle(file).is_none()
    {
        return Ok(ResolvedTarget::Part(file.to_owned(), session.to_string_lossy().into_owned()));
    }
    if path.exists() || path.components().count() > 1 || path.extension().is_some() {
        return Ok(ResolvedTarget::Path(path.to_owned()));
    }
    resolve_session(&target.to_string_lossy(), context).map(ResolvedTarget::Session)
}

/// Returns the one session that a word names: an id, a unique prefix, or `last`, the first that `ls` lists.
fn resolve_session(word: &str, context: &Context) -> Result<SessionId, CliError> {
    if word == LAST {
        return Backend::open(Needs::Rows, context)?.session(word);
    }
    let on_disk = roots(context).into_iter().flat_map(|root| main_transcripts(&root));
    let mut found: Vec<SessionId> = on_disk.map(|(id, _)| id).filter(|id| id.starts_with(word)).collect();
    // Files can be found without a store.
    if let Ok(mut backend) = Backend::open(Needs::Committed, context) {
        found.extend(backend.queries().names(word, MAX_PREFIX_MATCHES)?.sessions);
    }
    if found.is_empty() {
        // Ingest what is new, as `ls` does, and look again.
        found = Backend::open(Needs::Rows, context)?.queries().names(word, MAX_PREFIX_MATCHES)?.sessions;
    }
    one_of(word, found)?.ok_or_else(|| {
        let message = format!("{word:?} is neither a file nor the beginning of a session's id");
        CliError::failed(message).hint(
            "`subscope ls` lists the sessions; a TARGET may also be a transcript, `last`, or - for stdin",
        )
    })
}

/// Returns the main transcripts of a session below these roots: one, unless it was continued elsewhere.
pub(crate) fn transcripts_of(roots: &[Root], session: &SessionId) -> Vec<PathBuf> {
    let all = roots.iter().flat_map(main_transcripts);
    all.filter(|(id, _)| id == session).map(|(_, path)| path).collect()
}

/// Returns all sources of a session.
pub(crate) fn sources_of(
    session: &SessionId,
    store: Option<&SqliteStore>,
    context: &Context,
) -> Result<SessionSources, CliError> {
    let roots = roots(context);
    let mut transcripts = transcripts_of(&roots, session);
    transcripts.extend(unread_files_naming(session, &roots, store)?);
    Ok(SessionSources::find(session, transcripts, store, &history::archive(context)?)?)
}

/// Opens the store read-only; `None`, with a debug message, if it cannot be opened.
pub(crate) fn open_store_for_reading(context: &Context) -> Result<Option<SqliteStore>, CliError> {
    let opened = history::open_rows(Access::Read, context)?;
    if let Err(error) = &opened {
        context.debug(&format!("only files are read: {error}"));
    }
    Ok(opened.ok())
}

/// Options for reading TARGETs.
pub(crate) struct ReadOptions {
    /// Which payloads are retained.
    pub(crate) keep: FactDetail,
    /// Which events are derived.
    pub(crate) events: EventScope,
    /// The time to show; `None`: now.
    pub(crate) at: Option<Millis>,
    /// The dialect; `None`: recognized.
    pub(crate) dialect: Option<Dialect>,
}

impl ReadOptions {
    pub(crate) const ROWS: Self =
        Self { keep: FactDetail::Rows, events: EventScope::Nothing, at: None, dialect: None };
    /// Rows, of whose calls outputs can be read.
    pub(crate) const OUTPUTS: Self = Self { keep: FactDetail::Payloads, ..Self::ROWS };
    pub(crate) const FEED: Self =
        Self { keep: FactDetail::Payloads, events: EventScope::All, at: None, dialect: None };
}

/// A session read from TARGETs.
pub(crate) struct LoadedSession {
    pub(crate) session: SessionId,
    pub(crate) tree: Tree,
    /// The time of the rows.
    pub(crate) at: Millis,
    batch: BatchRead,
    has_ended: bool,
    /// What the rows are from.
    pub(crate) source: RowsSource,
}

impl LoadedSession {
    /// Returns all problems of reading and decoding.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        problems_of(&self.batch, std::slice::from_ref(&self.tree))
    }

    /// Returns all events in order; those of the change log if a part of the transcript is gone and it has more.
    pub(crate) fn events(&mut self, context: &Context) -> Result<Vec<Event>, CliError> {
        self.logged_or(context, Some, SessionRouter::whole_feed)
    }

    /// Returns all events in order, with the places of long texts; as [`LoadedSession::events`].
    pub(crate) fn records(&mut self, context: &Context) -> Result<Vec<EventRecord>, CliError> {
        self.logged_or(context, |event| Some(EventRecord::from(event)), SessionRouter::records)
    }

    /// Returns all prompts, messages and thoughts in order; as [`LoadedSession::events`].
    pub(crate) fn texts(&mut self, context: &Context) -> Result<Vec<SessionText>, CliError> {
        let of_event = |event| SessionText::of_record(&EventRecord::from(event));
        self.logged_or(context, of_event, SessionRouter::texts)
    }

    /// Derives items of the session; those of the change log if a part of the transcript is gone and they are more.
    fn logged_or<T>(
        &mut self,
        context: &Context,
        of_event: impl Fn(Event) -> Option<T>,
        derive: fn(&mut SessionRouter, &SessionId, &Now<'_>) -> Vec<T>,
    ) -> Result<Vec<T>, CliError> {
        let logged: Vec<T> = self.logged_events(context)?.into_iter().filter_map(of_event).collect();
        let now = now_at(context, self.at, self.has_ended)?;
        let derived = derive(&mut self.batch.router, &self.session, &now);
        Ok(if logged.len() > derived.len() { logged } else { derived })
    }

    /// Returns the events of the change log if a part of the transcript is gone; else none.
    fn logged_events(&self, context: &Context) -> Result<Vec<Event>, CliError> {
        let is_whole = self.source == RowsSource::Sources;
        let Some(store) = (if is_whole { None } else { open_store_for_reading(context)? }) else {
            return Ok(Vec::new());
        };
        Ok(store.events_after(0, Some(&self.session), MAX_LOGGED_EVENTS)?.unwrap_or_default())
    }

    /// Derives the session's runs and responses, of what can be read of it; `None` if nothing can.
    pub(crate) fn detail(&self, context: &Context) -> Result<Option<SessionDetail>, CliError> {
        let now = now_at(context, self.at, self.has_ended)?;
        Ok(self.batch.router.detail(&self.session, &now).filter(|_| self.source != RowsSource::Store))
    }

    /// Warns of a transcript of which a part is gone.
    pub(crate) fn warn_of_lost_texts(&self, context: &Context) {
        match self.source {
            RowsSource::Sources => {}
            RowsSource::StoreAndSources => context.warn(SOME_TEXTS_ARE_GONE),
            RowsSource::Store => context.warn(&why_only_rows(self.tree.session.machine.as_ref())),
        }
    }

    /// Frees what rows, events and details are derived from; payloads can still be read.
    pub(crate) fn release_facts(&mut self) {
        self.batch.release_facts();
    }

    /// Puts the outputs of calls into the rows.
    pub(crate) fn inline_outputs(&mut self) {
        inline_outputs(&mut self.tree, &self.batch);
    }

    /// Reads the JSON text of a payload from its source; `None` if it is gone.
    pub(crate) fn payload(&self, payload: &Payload) -> Option<String> {
        match payload {
            Payload::Inline(text) => Some(text.to_string()),
            Payload::At { .. } => self.batch.payload(payload),
        }
    }
}

/// Warning for a session of which some texts cannot be shown.
const SOME_TEXTS_ARE_GONE: &str = "a part of the session's transcript is gone or cannot be read, and is not in the archive: its rows are kept, the texts of that part are not there";

/// Warning for a session of which only rows can be shown.
const TEXTS_ARE_GONE: &str = "the session's transcript is gone or cannot be read, and is not in the archive: its rows are kept, its texts are not there";

/// Returns why only rows of a session can be shown.
pub(crate) fn why_only_rows(machine: Option<&Text>) -> Cow<'static, str> {
    match machine {
        Some(machine) => {
            format!("the session is on {machine}: its rows are here, its texts are there").into()
        }
        None => TEXTS_ARE_GONE.into(),
    }
}

/// Error of a command that needs a transcript that is not there.
pub(crate) fn texts_are_gone(session: &Session) -> CliError {
    let machine = session.machine.as_ref();
    let error = CliError::failed(why_only_rows(machine));
    if machine.is_some() {
        return error.hint("the same command on that machine has them");
    }
    error
        .hint("`subscope tree` and `export --as csv` show the rows; `index --archive` keeps transcripts from then on")
}

pub(super) fn now_at(context: &Context, at: Millis, has_ended: bool) -> Result<Now<'_>, CliError> {
    Ok(Now { at, has_ended, is_growing: false, prices: &context.prices()?.table, limits: context.limits() })
}

/// Reads TARGETs that must belong to one session.
pub(crate) fn load(
    targets: &[TargetArg],
    reading: &ReadOptions,
    context: &Context,
) -> Result<LoadedSession, CliError> {
    load_resolved(resolve(targets, context)?, reading, context)
}

/// Reads a session from all of its sources.
pub(crate) fn load_session(
    session: &SessionId,
    reading: &ReadOptions,
    context: &Context,
) -> Result<LoadedSession, CliError> {
    load_resolved(vec![ResolvedTarget::Session(session.clone())], reading, context)
}

fn load_resolved(
    resolved: Vec<ResolvedTarget>,
    reading: &ReadOptions,
    context: &Context,
) -> Result<LoadedSession, CliError> {
    let read = read(resolved, reading, context)?;
    // Ingested input may contain other sessions as well.
    let session = match read.sessions.as_slice() {
        [only] if read.history.has_session(only) => only.clone(),
        [missing] => return Err(no_lines(missing, &read.history.batch)),
        _ => match read.own.as_slice() {
            [own] if read.history.has_session(own) => own.clone(),
            _ => only_session(&read.history.batch, &read.name, context)?,
        },
    };
    let rows = read.history.rows(&session, &now_at(context, read.at, read.has_ended)?);
    let HistoryRows { tree, source } =
        rows.ok_or_else(|| CliError::failed(format!("the session in {} is empty", read.name)))?;
    if source != RowsSource::Sources && reading.at.is_some() {
        return Err(texts_are_gone(&tree.session));
    }
    let ReadTargets { history, at, has_ended, .. } = read;
    Ok(LoadedSession { batch: history.batch, session, tree, at, has_ended, source })
}

/// Most characters of a call's output in rows.
const MAX_OUTPUT_CHARS: usize = 1 << 20;

/// Puts the outputs of calls into rows, each as a JSON string. Left out are those that are gone, and those of calls that
/// started an agent: its row has its report.
fn inline_outputs(tree: &mut Tree, batch: &BatchRead) {
    let spawns: HashSet<ToolUseId> =
        tree.agents.iter().filter_map(|agent| agent.spawned_by.clone()).collect();
    for call in tree.agents.iter_mut().flat_map(|agent| &mut agent.tools) {
        let is_spawn = call.id.as_ref().is_some_and(|id| spawns.contains(id));
        let json = call.result.as_deref().filter(|_| !is_spawn).and_then(|payload| batch.payload(payload));
        let text = json.map(|json| {
            let text = RawJson { json: &json, offset: 0 }.text();
            Value::from(text.chars().take(MAX_OUTPUT_CHARS).collect::<String>()).to_string()
        });
        call.result = text.map(|text| Box::new(Payload::Inline(text.into())));
    }
}

/// Reads TARGETs; several may belong to several sessions. Returns one tree per session, ordered by start, with all
/// problems and the time of the rows. With [`ReadOptions::OUTPUTS`], the rows have the outputs of calls.
pub(crate) fn load_each(
    targets: &[TargetArg],
    reading: &ReadOptions,
    context: &Context,
) -> Result<(Vec<Tree>, Vec<Problem>, Millis), CliError> {
    if targets.len() < 2 {
        let mut loaded = load(targets, reading, context)?;
        if reading.keep == FactDetail::Payloads {
            loaded.inline_outputs();
        }
        let problems = loaded.problems();
        return Ok((vec![loaded.tree], problems, loaded.at));
    }
    let resolved = resolve(targets, context)?;
    let are_ids = resolved.iter().all(|target| matches!(target, ResolvedTarget::Session(_)));
    let read = read(resolved, reading, context)?;
    let now = now_at(context, read.at, read.has_ended)?;
    let batch = &read.history.batch;
    let mut sessions = match are_ids {
        true => read.sessions.clone(),
        false if !read.own.is_empty() && read.own.iter().all(|own| read.history.has_session(own)) => {
            read.own.clone()
        }
        false => sessions_in(batch),
    };
    if sessions.is_empty() {
        sessions.push(only_session(batch, &read.name, context)?);
    }
    let tree = |session| {
        let mut tree = read.history.rows(session, &now)?.tree;
        if reading.keep == FactDetail::Payloads {
            inline_outputs(&mut tree, batch);
        }
        Some(tree)
    };
    let mut trees: Vec<Tree> = sessions.iter().filter_map(tree).collect();
    trees.sort_by_key(|tree| (tree.session.started_at_ms, tree.session.id.clone()));
    if let ([], [missing, ..]) = (trees.as_slice(), read.sessions.as_slice()) {
        return Err(no_lines(missing, batch));
    }
    let own = trees.iter().flat_map(|tree| &tree.problems);
    let unassigned = batch.router.unassigned_problems();
    let mut problems: Vec<Problem> = batch.problems.iter().chain(own).cloned().chain(unassigned).collect();
    problems.dedup();
    Ok((trees, problems, read.at))
}

/// Reads lines that are in memory. Returns one tree per session, ordered by start, with all problems.
pub(crate) fn load_lines(lines: &Lines, context: &Context) -> Result<(Vec<Tree>, Vec<Problem>), CliError> {
    let options = RouterOptions { keep: FactDetail::Rows, cutoff: None, events: EventScope::Nothing };
    let mut batch = BatchRead::read(BatchRead::expand(&[])?, options, None);
    batch.read_stream(&*lines.bytes, &lines.label, lines.dialect)?;
    batch.problems.extend(lines.problems.iter().cloned());
    if sessions_in(&batch).is_empty() {
        only_session(&batch, &lines.label, context)?;
    }
    let now = now_at(context, context.now_ms(), true)?;
    let mut trees: Vec<Tree> =
        batch.router.sessions().filter_map(|session| batch.router.tree(session, &now)).collect();
    trees.sort_by_key(|tree| (tree.session.started_at_ms, tree.session.id.clone()));
    let problems = problems_of(&batch, &trees);
    Ok((trees, problems))
}

/// Returns all problems of reading and decoding sessions.
fn problems_of(batch: &BatchRead, trees: &[Tree]) -> Vec<Problem> {
    let own = trees.iter().flat_map(|tree| &tree.problems);
    batch.problems.iter().chain(own).cloned().chain(batch.router.unassigned_problems()).collect()
}

/// Data read from TARGETs.
struct ReadTargets {
    /// The TARGETs, for error messages.
    name: String,
    history: ReadHistory,
    at: Millis,
    has_ended: bool,
    /// Sessions that were named by id, without duplicates.
    sessions: Vec<SessionId>,
    /// Sessions that were named by the path of a file or folder of each; empty if some path names none, or several. Their
    /// files may have lines of others.
    own: Vec<SessionId>,
}

fn read(
    resolved: Vec<ResolvedTarget>,
    reading: &ReadOptions,
    context: &Context,
) -> Result<ReadTargets, CliError> {
    let has_stdin = resolved.iter().any(|target| matches!(target, ResolvedTarget::Stdin));
    let name = resolved.iter().map(ResolvedTarget::to_string).collect::<Vec<_>>().join(", ");
    // The end of a pipe ends its sessions; a file may still grow.
    let ends = |target: &ResolvedTarget| {
        !matches!(target, ResolvedTarget::Path(_) | ResolvedTarget::Part(..) | ResolvedTarget::Session(_))
    };
    let all = resolved.len();
    let mut parts: Vec<String> = Vec::new();
    let has_ended = resolved.iter().all(ends) && reading.at.is_none();
    let (mut paths, mut sessions, mut documents) = (Vec::new(), Vec::new(), Vec::new());
    for target in resolved {
        match target {
            ResolvedTarget::Path(path) | ResolvedTarget::FinishedFile(path) => paths.push(only_path(path)?),
            ResolvedTarget::Part(path, session) => {
                parts.push(session);
                if !paths.contains(&path) {
                    paths.push(path);
                }
            }
            ResolvedTarget::Document(path, kind) => documents.push(document::read(&path, kind)?),
            ResolvedTarget::Session(session) if !sessions.contains(&session) => sessions.push(session),
            ResolvedTarget::Session(_) | ResolvedTarget::Stdin => {}
        }
    }
    let store = if sessions.is_empty() { None } else { open_store_for_reading(context)? };
    let expanded = BatchRead::expand(&paths)?;
    let own: Option<Vec<SessionId>> =
        expanded.groups.iter().map(|group| group.session.as_deref().map(SessionId::from)).collect();
    let is_alone =
        !has_stdin && documents.is_empty() && sessions.is_empty() && expanded.groups.len() == paths.len();
    let mut own = own.filter(|_| is_alone).unwrap_or_default();
    if !parts.is_empty() && parts.len() < all {
        return Err(sessions_in_files_alone());
    }
    let sources = sessions.iter().map(|session| sources_of(session, store.as_ref(), context));
    let sources = sources.collect::<Result<_, _>>()?;
    let options = RouterOptions { keep: reading.keep, cutoff: reading.at, events: reading.events };
    let mut history = ReadHistory::read_files(sources, expanded, options, reading.dialect, store.as_ref())?;
    let batch = &mut history.batch;
    if has_stdin {
        let mut stdin = io::stdin().lock();
        let failed = |error| CliError::because("cannot read stdin", error);
        if document::damaged_kind(stdin.fill_buf().map_err(failed)?) == Some(DocumentKind::Atif) {
            let mut bytes = Vec::new();
            stdin.take(document::MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
            documents.push(document::read_atif(&bytes, STDIN.to_owned())?);
        } else {
            batch.read_stream(stdin, STDIN, reading.dialect).map_err(failed)?;
        }
    }
    for document in documents {
        batch.read_stream(&*document.bytes, &document.label, document.dialect)?;
        batch.problems.extend(document.problems);
    }
    context.debug(&format!("{} files read", batch.files));
    if !parts.is_empty() {
        own = parts.iter().map(|part| session_in(batch, part)).collect::<Result<_, _>>()?;
    }
    history.join_inbox(store.as_ref())?;
    let at = reading.at.unwrap_or_else(|| context.now_ms());
    Ok(ReadTargets { name, history, at, has_ended, sessions, own })
}

/// Returns the path of one session: of a file or folder that holds many, the one that was changed last.
fn only_path(path: PathBuf) -> Result<PathBuf, CliError> {
    if subscope_harness::bundle(&path).is_none() {
        return Ok(path);
    }
    let newest = subscope_collect::newest_session(&path)
        .map_err(|error| CliError::because(format!("cannot read {}", path.display()), error))?;
    Ok(newest.unwrap_or(path))
}

/// Returns the sessions in the batch.
fn sessions_in(batch: &BatchRead) -> Vec<SessionId> {
    let mut sessions: Vec<&SessionId> = batch.router.sessions().collect();
    if sessions.len() > 1 {
        // Lines before the first one with a session id do not form a session of their own.
        sessions.retain(|session| &***session != "unnamed");
    }
    if sessions.len() > 1 && sessions.iter().any(|session| batch.router.has_root(session)) {
        // A harness may write the first line of each warm-up, on resume, under an id that it never uses again.
        sessions.retain(|session| batch.router.has_root(session));
    }
    sessions.into_iter().cloned().collect()
}

/// Returns the unsupported program to which a file or folder seems to belong.
fn unsupported_at(path: &Path) -> Option<&'static str> {
    let path = fs::canonicalize(path).ok()?;
    subscope_harness::unsupported_program(&path, &read_head(&path).unwrap_or_default())
}

/// Error of a session in a file that is named with other targets.
pub(crate) fn sessions_in_files_alone() -> CliError {
    CliError::usage("sessions in files are read alone").hint("name no other TARGETs beside FILE/SESSION")
}

/// Returns the session of each file that the beginning of an id names.
pub(crate) fn sessions_of_parts(
    parts: &[(PathBuf, String)],
    dialect: Option<Dialect>,
) -> Result<Vec<SessionId>, CliError> {
    let session = |(path, word): &(PathBuf, String)| {
        let ReadOptions { keep, events, .. } = ReadOptions::ROWS;
        let options = RouterOptions { keep, cutoff: None, events };
        session_in(&BatchRead::read(BatchRead::expand(std::slice::from_ref(path))?, options, dialect), word)
    };
    parts.iter().map(session).collect()
}

/// Returns the session of a batch whose id begins with a word.
fn session_in(batch: &BatchRead, word: &str) -> Result<SessionId, CliError> {
    let found = sessions_in(batch).into_iter().filter(|session| session.starts_with(word)).collect();
    one_of(word, found)?.ok_or_else(|| no_lines(&SessionId::from(word), batch))
}

/// Error of a session of which the store has no agents, and which nothing brings back.
pub(crate) fn agents_lost(session: &SessionId) -> CliError {
    CliError::failed(format!("the agents of session {session} are lost: no transcript of it is left"))
        .hint("`subscope ls` and `subscope stats` still have its figures")
}

/// Error of a session whose transcript has no line of it: its lines name others, or it is gone.
fn no_lines(session: &SessionId, batch: &BatchRead) -> CliError {
    if batch.paths().is_empty() {
        return agents_lost(session);
    }
    let others: Vec<&str> = batch.router.sessions().take(5).map(|other| other.as_str()).collect();
    let error = CliError::failed(format!("there is no line of session {session}"));
    if others.is_empty() {
        error
    } else {
        error.hint(format!("its transcript has lines of {}", others.join(", ")))
    }
}

/// Error of input of which nothing is understood, with the program that it seems to be of.
fn nothing_understood(message: String, program: Option<&'static str>) -> CliError {
    let error = CliError::new(ErrorKind::Input, message);
    match program {
        Some(title) => {
            error.hint(format!("it looks like a session of {title}, which subscope does not read"))
        }
        None => error,
    }
}

/// Returns the first file of a batch that has content of no known form: a reader that skips lines it does not know reports
/// none of them.
fn first_not_understood(batch: &BatchRead) -> Option<&Path> {
    let is_it = |path: &&PathBuf| {
        read_head(path).is_ok_and(|head| !head.trim_ascii().is_empty() && recognize(&head).is_none())
    };
    batch.paths().iter().find(is_it).map(PathBuf::as_path)
}

/// Returns the only session in the batch; `name` describes its source in errors.
fn only_session(batch: &BatchRead, name: &str, context: &Context) -> Result<SessionId, CliError> {
    match sessions_in(batch).as_slice() {
        [only] => Ok(only.clone()),
        [] => {
            let problems: Vec<Problem> =
                batch.problems.iter().cloned().chain(batch.router.unassigned_problems()).collect();
            if problems.is_empty() {
                return Err(match first_not_understood(batch) {
                    Some(path) => {
                        let message =
                            format!("nothing recognized in {}: no line of it is understood", path.display());
                        nothing_understood(message, unsupported_at(path))
                    }
                    None => CliError::failed(format!("there is nothing in {name}")),
                });
            }
            // Under --strict the problems are the error; otherwise that nothing could be read.
            context.report(&problems)?;
            let unrecognized = problems.iter().find(|problem| problem.what == UNRECOGNIZED);
            let place = unrecognized.and_then(|problem| problem.at.rsplit_once(':'));
            let message = match place {
                Some((file, line)) => format!("nothing recognized in {file}: line {line} is {UNRECOGNIZED}"),
                None => format!("nothing in {name} could be understood"),
            };
            let mut files = problems.iter().filter_map(|problem| problem.at.rsplit_once(':'));
            Err(nothing_understood(message, files.find_map(|(file, _)| unsupported_at(Path::new(file)))))
        }
        several => {
            let names: Vec<&str> = several.iter().take(5).map(|session| session.as_str()).collect();
            let more = if several.len() > names.len() { ", …" } else { "" };
            let message = format!("{} sessions in {name}: {}{more}", several.len(), names.join(", "));
            let is_file = Path::new(name).is_file();
            let one = several.first().filter(|_| is_file).map(|first| format!("name one: {name}/{first}"));
            let hint = one.unwrap_or_else(|| "name one session's transcript or folder".to_owned());
            Err(CliError::usage(message).hint(hint))
        }
    }
}
