//! TARGETs: a path, a session's id or its shortest unique prefix, `last`, or `-`; and what reading them gives.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use subscope_collect::main_transcripts;
use subscope_decode::{Dialect, UNRECOGNISED};
use subscope_fold::{Events, FoldOptions, Keep, LimitRule, Limits, Now};
use subscope_harness::{self as harness, Root, recognise};
use subscope_hub::{BatchRead, SessionSources, knows_more};
use subscope_model::{Event, Millis, Payload, Problem, SessionId, Tree};
use subscope_run::record::{self, Meta, State};
use subscope_store::{Access, History, Sqlite};

use super::history::{self, failed};
use crate::{
    args::value::Target,
    config::{Origin, Sourced},
    context::Context,
    error::{CliError, Kind},
    hub_connection::{Backend, LAST, NAMESAKES, Needs, one_of},
};

/// How much of a file tells what it is written in.
const HEAD_BYTES: u64 = 64 << 10;

/// How many events of the change log stand for a session of which the texts are gone.
const LOGGED: usize = 50_000;

/// What a TARGET names.
pub(crate) enum Named {
    /// Something on disk.
    Path(PathBuf),
    /// Something on disk that was written until whoever wrote it had ended.
    Printed(PathBuf),
    /// A session that `ls` lists, or of which a transcript stands below the harness's folder.
    Session(SessionId),
    /// Standard input.
    Stdin,
}

/// Returns the folders of the harnesses' transcripts.
pub(crate) fn roots(context: &Context) -> Vec<Root> {
    harness::roots(&|name| context.environment.get(name))
}

/// Returns their paths.
pub(crate) fn root_folders(context: &Context) -> Vec<PathBuf> {
    roots(context).into_iter().map(|root| root.folder).collect()
}

/// Returns folders as they are shown to people.
pub(crate) fn shown(roots: &[Root]) -> String {
    roots.iter().map(|root| root.folder.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// Finds what TARGETs name.
pub(crate) fn resolve(targets: &[Target], context: &Context) -> Result<Vec<Named>, CliError> {
    let mut named = Vec::new();
    for target in targets {
        match recorded(Path::new(target), context) {
            Some(files) => named.extend(files),
            None => named.push(resolve_one(target, context)?),
        }
    }
    Ok(named)
}

/// The files of an iteration that `run` has recorded; `None` where it is something else.
fn recorded(folder: &Path, context: &Context) -> Option<Vec<Named>> {
    let meta = Meta::read(folder)?;
    let is_told = |path: &PathBuf| {
        let mut head = Vec::new();
        let read = fs::File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
        read.is_ok() && recognise(&head).is_some()
    };
    let files = [record::STDOUT, record::POSTED].map(|name| folder.join(name));
    let told: Vec<PathBuf> = files.iter().filter(|path| is_told(path)).cloned().collect();
    if told.is_empty()
        && let Some(session) = meta.session_id.as_deref().map(SessionId::from)
        && !transcripts_of(&roots(context), &session).is_empty()
    {
        // Its transcript told of it, and still does where it is there.
        return Some(vec![Named::Session(session)]);
    }
    let files = if told.is_empty() { files.into_iter().take(1).collect() } else { told };
    let of = |path| if meta.status == State::Running { Named::Path(path) } else { Named::Printed(path) };
    Some(files.into_iter().map(of).collect())
}

fn resolve_one(target: &Target, context: &Context) -> Result<Named, CliError> {
    if target == "-" {
        return Ok(Named::Stdin);
    }
    let path = Path::new(target);
    if path.exists() || path.components().count() > 1 || path.extension().is_some() {
        return Ok(Named::Path(path.to_owned()));
    }
    session_named(&target.to_string_lossy(), context).map(Named::Session)
}

/// Finds the one session that a word names: its id, the beginning of it, or `last`, the first that `ls` lists.
fn session_named(word: &str, context: &Context) -> Result<SessionId, CliError> {
    if word == LAST {
        return Backend::open(Needs::Rows, context)?.session(word);
    }
    let on_disk = roots(context).into_iter().flat_map(|root| main_transcripts(&root));
    let mut found: Vec<SessionId> =
        on_disk.filter(|(id, _)| id.starts_with(word)).map(|(id, _)| SessionId::from(id.as_str())).collect();
    // Without a store there are files all the same.
    if let Ok(mut backend) = Backend::open(Needs::Kept, context) {
        found.extend(backend.names(word, NAMESAKES)?.sessions);
    }
    if found.is_empty() {
        // What waits to be taken in is listed too.
        found = Backend::open(Needs::Rows, context)?.names(word, NAMESAKES)?.sessions;
    }
    one_of(word, found)?.ok_or_else(|| {
        let message = format!("{word:?} is neither a file nor the beginning of a session's id");
        CliError::new(Kind::Failed, message).hint(
            "`subscope ls` lists the sessions; a TARGET may also be a transcript, `last`, or - for stdin",
        )
    })
}

/// Returns the main transcripts of a session below these folders: one, unless it was gone on with elsewhere.
pub(crate) fn transcripts_of(roots: &[Root], session: &SessionId) -> Vec<PathBuf> {
    let all = roots.iter().flat_map(main_transcripts);
    all.filter(|(id, _)| id == session.as_str()).map(|(_, path)| path).collect()
}

/// Finds everything that a session is made of.
pub(crate) fn sources_of(
    session: &SessionId,
    store: Option<&Sqlite>,
    context: &Context,
) -> Result<SessionSources, CliError> {
    let transcripts = transcripts_of(&roots(context), session);
    SessionSources::find(session, transcripts, store, &history::archive(context)?).map_err(failed)
}

/// Opens the store to ask what is kept of sessions; `None` where there is none, which is said.
pub(crate) fn kept_rows(context: &Context) -> Result<Option<Sqlite>, CliError> {
    let opened = history::open_rows(Access::Read, context)?;
    if let Err(error) = &opened {
        context.note(&format!("only files are read: {error}"));
    }
    Ok(opened.ok())
}

/// How TARGETs are read.
pub(crate) struct Reading {
    /// What is kept of payloads.
    pub(crate) keep: Keep,
    /// Whether events are wanted.
    pub(crate) events: bool,
    /// The moment to show; now where none is given.
    pub(crate) at: Option<Millis>,
    /// The dialect, where it is not to be recognised.
    pub(crate) dialect: Option<Dialect>,
}

/// TARGETs that were read.
pub(crate) struct Loaded {
    /// Its one session.
    pub(crate) session: SessionId,
    /// The session's rows.
    pub(crate) tree: Tree,
    /// The moment they are of.
    pub(crate) at: Millis,
    cold: BatchRead,
    has_ended: bool,
    /// Whether its texts are gone: the rows are kept ones.
    has_rows_only: bool,
}

impl Loaded {
    /// Everything that could not be read or understood.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        self.cold.problems.iter().chain(&self.tree.problems).cloned().collect()
    }

    /// What happened, in order. Where the texts are gone, what the change log still has of it.
    pub(crate) fn events(&mut self, context: &Context) -> Result<Vec<Event>, CliError> {
        if self.has_rows_only
            && let Some(store) = kept_rows(context)?
            && let Some(events) = store.events_after(0, Some(&self.session), LOGGED).map_err(failed)?
            && !events.is_empty()
        {
            return Ok(events);
        }
        let now = now(context, self.at, self.has_ended)?;
        Ok(Events::all(&mut self.cold.fold, &self.session, &now))
    }

    /// Returns the JSON text of a payload, read again where it stands; `None` where it is gone.
    pub(crate) fn payload(&self, payload: &Payload) -> Option<String> {
        // Rows that are kept name sources by numbers that mean nothing any more.
        if self.has_rows_only { None } else { self.cold.payload(payload) }
    }

    /// Whether its texts are gone, so that only rows can be shown.
    pub(crate) fn has_rows_only(&self) -> bool {
        self.has_rows_only
    }
}

/// Why a session can be shown in part only.
pub(crate) const TEXTS_ARE_GONE: &str = "the session's transcript was deleted and is not in the archive: its texts are gone, only its rows are kept";

/// The failure of what needs the texts of a session that are gone.
pub(crate) fn texts_are_gone() -> CliError {
    CliError::new(Kind::Failed, TEXTS_ARE_GONE)
        .hint("`subscope tree` and `export --as csv` show the rows; `index --archive` keeps transcripts from then on")
}

fn now(context: &Context, at: Millis, has_ended: bool) -> Result<Now<'_>, CliError> {
    Ok(Now { at, has_ended, is_growing: false, prices: &context.prices()?.table, limits: limits(context) })
}

/// The limits of silence that the settings name.
pub(crate) fn limits(context: &Context) -> Limits {
    let ms = |span: std::time::Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let watch = &context.settings().watch;
    // An option holds for everybody.
    let is_open = |sourced: &Sourced<std::time::Duration>| !matches!(sourced.origin, Origin::Flag(_));
    let rules = watch.limits.value.iter().map(|rule| LimitRule {
        stall_ms: rule.limits.stall_ms.filter(|_| is_open(&watch.stall)),
        stall_subagents_ms: rule.limits.stall_subagents_ms.filter(|_| is_open(&watch.stall_subagents)),
        ..rule.limits.clone()
    });
    Limits {
        stall_ms: ms(watch.stall.value),
        stall_subagents_ms: ms(watch.stall_subagents.value),
        stall_open_ms: ms(watch.stall_open.value),
        rules: rules.collect(),
        ..Limits::default()
    }
}

/// Reads TARGETs, which must be of one session.
pub(crate) fn load(targets: &[Target], reading: &Reading, context: &Context) -> Result<Loaded, CliError> {
    load_named(resolve(targets, context)?, reading, context)
}

/// Reads a session, whatever it is made of.
pub(crate) fn load_session(
    session: &SessionId,
    reading: &Reading,
    context: &Context,
) -> Result<Loaded, CliError> {
    load_named(vec![Named::Session(session.clone())], reading, context)
}

fn load_named(named: Vec<Named>, reading: &Reading, context: &Context) -> Result<Loaded, CliError> {
    let Read { cold, at, has_ended, sessions, kept } = read(named, reading, context)?;
    // What was received may tell of other sessions too.
    let session = match sessions.as_slice() {
        [only] if cold.fold.sessions().any(|known| known == only) || kept.contains_key(only) => only.clone(),
        _ => only_session(&cold, context)?,
    };
    let read = cold.fold.tree(&session, &now(context, at, has_ended)?);
    let (tree, has_rows_only) = match kept.get(&session).filter(|kept| kept.is_better(read.as_ref(), reading))
    {
        Some(_) if reading.at.is_some() => return Err(texts_are_gone()),
        Some(kept) => (Some(kept.tree.clone()), true),
        None => (read, false),
    };
    let tree = tree.ok_or_else(|| CliError::new(Kind::Failed, "the session is empty"))?;
    Ok(Loaded { cold, session, tree, at, has_ended, has_rows_only })
}

/// Reads TARGETs, which may be of several sessions if they are several. Gives a tree for each, those that began first first.
pub(crate) fn load_each(
    targets: &[Target],
    reading: &Reading,
    context: &Context,
) -> Result<(Vec<Tree>, Vec<Problem>, Millis), CliError> {
    if targets.len() < 2 {
        let loaded = load(targets, reading, context)?;
        let problems = loaded.problems();
        return Ok((vec![loaded.tree], problems, loaded.at));
    }
    let named = resolve(targets, context)?;
    let are_words = named.iter().all(|target| matches!(target, Named::Session(_)));
    let Read { cold, at, has_ended, sessions, kept } = read(named, reading, context)?;
    let now = now(context, at, has_ended)?;
    let mut sessions = if are_words { sessions } else { told_sessions(&cold) };
    if sessions.is_empty() {
        sessions.push(only_session(&cold, context)?);
    }
    let tree = |session: &SessionId| {
        let read = cold.fold.tree(session, &now);
        let better = kept.get(session).filter(|kept| kept.is_better(read.as_ref(), reading));
        better.map(|kept| kept.tree.clone()).or(read)
    };
    let mut trees: Vec<Tree> = sessions.iter().filter_map(tree).collect();
    trees.sort_by_key(|tree| (tree.session.started_at_ms, tree.session.id.clone()));
    let own = trees.iter().flat_map(|tree| &tree.problems);
    let mut problems: Vec<Problem> = cold.problems.iter().chain(own).cloned().collect();
    problems.dedup();
    Ok((trees, problems, at))
}

/// What TARGETs hold.
struct Read {
    cold: BatchRead,
    at: Millis,
    has_ended: bool,
    /// The sessions that were named by their ids, each once.
    sessions: Vec<SessionId>,
    /// The rows of those of which more may be kept than can be read again.
    kept: BTreeMap<SessionId, KeptRows>,
}

/// Rows as they are kept, of a session of which a file is gone or may be.
struct KeptRows {
    tree: Tree,
    is_gone: bool,
}

impl KeptRows {
    /// Whether they tell more than what was read again.
    fn is_better(&self, read: Option<&Tree>, reading: &Reading) -> bool {
        let knows_more = |read: &Tree| reading.at.is_none() && knows_more(&self.tree, read);
        self.is_gone || read.is_none_or(knows_more)
    }
}

fn read(named: Vec<Named>, reading: &Reading, context: &Context) -> Result<Read, CliError> {
    let has_stdin = named.iter().any(|target| matches!(target, Named::Stdin));
    // The end of a pipe is the end of what it told of; a file may go on.
    let ends = |target: &Named| matches!(target, Named::Stdin | Named::Printed(_));
    let has_ended = named.iter().all(ends) && reading.at.is_none();
    let (mut paths, mut sessions) = (Vec::new(), Vec::new());
    for target in named {
        match target {
            Named::Path(path) | Named::Printed(path) => paths.push(path),
            Named::Session(session) if !sessions.contains(&session) => sessions.push(session),
            Named::Session(_) | Named::Stdin => {}
        }
    }
    let store = if sessions.is_empty() { None } else { kept_rows(context)? };
    let (mut expanded, mut sources, mut kept) = (BatchRead::expand(&paths)?, Vec::new(), BTreeMap::new());
    for session in &sessions {
        let mut found = sources_of(session, store.as_ref(), context)?;
        if let Some(store) = &store
            && (!found.is_whole() || found.has_no_files())
            && let Some(tree) = store.tree(session).map_err(failed)?
        {
            kept.insert(session.clone(), KeptRows { tree, is_gone: !found.is_whole() });
        }
        expanded = expanded.merge(found.take_files());
        sources.push(found);
    }
    let options = FoldOptions { keep: reading.keep, cutoff: reading.at, events: reading.events };
    let mut cold = BatchRead::read(expanded, options, reading.dialect);
    if has_stdin {
        let read = cold.read_stream(io::stdin().lock(), reading.dialect);
        read.map_err(|error| {
            CliError::caused(Kind::Failed, anyhow::Error::new(error).context("cannot read stdin"))
        })?;
    }
    context.note(&format!("{} files read", cold.files));
    for found in &sources {
        found.join_to(&mut cold, store.as_ref()).map_err(failed)?;
    }
    let at = reading.at.unwrap_or_else(|| context.now_ms());
    Ok(Read { cold, at, has_ended, sessions, kept })
}

/// Returns the sessions that were read.
fn told_sessions(cold: &BatchRead) -> Vec<SessionId> {
    let mut sessions: Vec<&SessionId> = cold.fold.sessions().collect();
    if sessions.len() > 1 {
        // Lines in front of the first that names the session are of no session of their own.
        sessions.retain(|session| &***session != "unnamed");
    }
    if sessions.len() > 1 && sessions.iter().any(|session| cold.fold.has_root(session)) {
        // A resume of 2.1.1 writes the first line of each warm-up under an id that it never uses again.
        sessions.retain(|session| cold.fold.has_root(session));
    }
    sessions.into_iter().cloned().collect()
}

/// Returns the one session that was read.
fn only_session(cold: &BatchRead, context: &Context) -> Result<SessionId, CliError> {
    match told_sessions(cold).as_slice() {
        [only] => Ok(only.clone()),
        [] => {
            let problems: Vec<Problem> =
                cold.problems.iter().chain(cold.fold.homeless_problems()).cloned().collect();
            if problems.is_empty() {
                return Err(CliError::new(Kind::Failed, "there is nothing in it"));
            }
            // Under --strict this is the failure; otherwise that nothing could be kept is.
            context.report(&problems)?;
            let unrecognised = problems.iter().find(|problem| problem.what == UNRECOGNISED);
            let place = unrecognised.and_then(|problem| problem.at.rsplit_once(':'));
            let message = match place {
                Some((file, line)) => format!("nothing recognised in {file}: line {line} is {UNRECOGNISED}"),
                None => "nothing in it could be understood".to_owned(),
            };
            Err(CliError::new(Kind::Input, message))
        }
        several => {
            let names: Vec<&str> = several.iter().take(5).map(|session| session.as_str()).collect();
            let more = if several.len() > names.len() { ", …" } else { "" };
            let message = format!("{} sessions in it: {}{more}", several.len(), names.join(", "));
            Err(CliError::new(Kind::Usage, message).hint("name one session's transcript or folder"))
        }
    }
}
