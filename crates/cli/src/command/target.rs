//! TARGETs: a path, a session's id or its shortest unique prefix, `last`, or `-`; and what reading them gives.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use subscope_collect::{Expanded, Group, layout};
use subscope_decode::{Dialect, recognise};
use subscope_fold::{FoldOptions, Keep, LimitRule, Limits, Now};
use subscope_hub::{Cold, index::elsewhere};
use subscope_model::{Millis, Problem, SessionId, Tree};
use subscope_run::record::{self, Meta, State};
use subscope_store::Access;

use super::history;
use crate::{
    args::value::Target,
    config::{Origin, Sourced},
    context::Context,
    error::{CliError, Kind},
};

/// How much of a file tells what it is written in.
const HEAD_BYTES: u64 = 64 << 10;

/// What a TARGET names.
pub(crate) enum Named {
    /// Something on disk.
    Path(PathBuf),
    /// Something on disk that was written until whoever wrote it had ended.
    Printed(PathBuf),
    /// A session whose files only the archive has.
    Kept(Group),
    /// A session by its id: its transcript, and whatever is kept of it beside.
    Session(PathBuf),
    /// Standard input.
    Stdin,
}

/// Returns the folder of Claude Code's transcripts.
pub(crate) fn projects_folder(context: &Context) -> PathBuf {
    layout::projects_folder(&|name| context.environment.get(name))
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
        && let Some(session) = &meta.session_id
    {
        // Its transcript told of it, and still does where it is there.
        let all = transcripts(&projects_folder(context));
        if let Some((path, _)) = all.into_iter().find(|(path, _)| is_of(path, session)) {
            return Some(vec![Named::Session(path)]);
        }
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
    let word = target.to_string_lossy();
    let folder = projects_folder(context);
    let sessions = transcripts(&folder);
    if word == "last" {
        let newest = sessions.into_iter().max_by_key(|(path, modified)| (*modified, path.clone()));
        let none = || CliError::new(Kind::Failed, format!("no sessions below {}", folder.display()));
        return newest.map(|(path, _)| Named::Session(path)).ok_or_else(none);
    }
    let mut found: Vec<PathBuf> =
        sessions.into_iter().map(|(path, _)| path).filter(|path| is_of(path, &word)).collect();
    match (found.pop(), found.len()) {
        (Some(path), 0) => Ok(Named::Session(path)),
        (Some(_), more) => {
            let message = format!("{word:?} is the beginning of {} sessions' ids", more + 1);
            Err(CliError::new(Kind::Usage, message).hint("give more of the id"))
        }
        (None, _) => {
            if let Some(kept) = super::history::archived(&word, context)? {
                return Ok(Named::Kept(kept));
            }
            let message = format!(
                "{word:?} is neither a file nor the beginning of a session's id below {}",
                folder.display()
            );
            Err(CliError::new(Kind::Failed, message)
                .hint("give a transcript, a session's id, `last`, or - for stdin"))
        }
    }
}

/// Whether a TARGET looks like a session's id of which no file stands below the harness's folder.
pub(crate) fn is_gone(target: &Target, context: &Context) -> bool {
    let path = Path::new(target);
    let word = target.to_string_lossy();
    let is_id = !path.exists()
        && path.components().count() == 1
        && path.extension().is_none()
        && !matches!(&*word, "-" | "last");
    is_id && !transcripts(&projects_folder(context)).iter().any(|(path, _)| is_of(path, &word))
}

fn is_of(path: &Path, prefix: &str) -> bool {
    path.file_stem().is_some_and(|stem| stem.to_string_lossy().starts_with(prefix))
}

/// Returns the main transcripts below a `projects` folder with the time of their last change.
fn transcripts(folder: &Path) -> Vec<(PathBuf, Option<std::time::SystemTime>)> {
    let list = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let files =
        list(folder).filter(|path| path.is_dir()).flat_map(|project| list(&project).collect::<Vec<_>>());
    files
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl") && !is_of(path, "agent-"))
        .map(|path| {
            let modified = fs::metadata(&path).and_then(|metadata| metadata.modified()).ok();
            (path, modified)
        })
        .collect()
}

/// Returns the main transcript of a session, by its whole id, below a `projects` folder.
pub(crate) fn transcript_of(folder: &Path, session: &SessionId) -> Option<PathBuf> {
    let is_its =
        |path: &PathBuf| path.file_stem().is_some_and(|stem| stem.to_string_lossy() == session.as_str());
    transcripts(folder).into_iter().map(|(path, _)| path).find(is_its)
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
    /// What was read.
    pub(crate) cold: Cold,
    /// Its one session.
    pub(crate) session: SessionId,
    /// The session's rows.
    pub(crate) tree: Tree,
    /// The moment they are of.
    pub(crate) at: Millis,
    has_ended: bool,
}

impl Loaded {
    /// Everything that could not be read or understood.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        self.cold.problems.iter().chain(&self.tree.problems).cloned().collect()
    }

    /// The moment for conclusions, as it was for the rows.
    pub(crate) fn now<'c>(&self, context: &'c Context) -> Result<Now<'c>, CliError> {
        now(context, self.at, self.has_ended)
    }
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
    let Read { mut cold, at, has_ended } = read(targets, reading, context)?;
    let session = only_session(&cold, context)?;
    if targets.iter().any(is_word) {
        tell_copies(&mut cold, &session, context);
    }
    let tree = cold.fold.tree(&session, &now(context, at, has_ended)?);
    let tree = tree.ok_or_else(|| CliError::new(Kind::Failed, "the session is empty"))?;
    Ok(Loaded { cold, session, tree, at, has_ended })
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
    let Read { cold, at, has_ended } = read(targets, reading, context)?;
    let now = now(context, at, has_ended)?;
    let mut sessions = told_sessions(&cold);
    if sessions.is_empty() {
        sessions.push(only_session(&cold, context)?);
    }
    let mut trees: Vec<Tree> = sessions.iter().filter_map(|session| cold.fold.tree(session, &now)).collect();
    trees.sort_by_key(|tree| (tree.session.started_at_ms, tree.session.id.clone()));
    let own = trees.iter().flat_map(|tree| &tree.problems);
    let mut problems: Vec<Problem> = cold.problems.iter().chain(own).cloned().collect();
    problems.dedup();
    Ok((trees, problems, at))
}

/// Whether a TARGET names a session and not a path.
fn is_word(target: &Target) -> bool {
    let path = Path::new(target);
    !path.exists() && path.components().count() == 1 && path.extension().is_none() && target != "-"
}

/// Says which of a session's responses and calls are copies, as far as the store knows. Without a store nothing is told.
fn tell_copies(cold: &mut Cold, session: &SessionId, context: &Context) {
    if let Ok(Ok(store)) = super::history::open_rows(Access::Read, context)
        && let Ok(elsewhere) = elsewhere(&store, session)
    {
        cold.fold.set_elsewhere(session, elsewhere);
    }
}

/// What TARGETs hold.
struct Read {
    cold: Cold,
    at: Millis,
    has_ended: bool,
}

fn read(targets: &[Target], reading: &Reading, context: &Context) -> Result<Read, CliError> {
    let named = resolve(targets, context)?;
    let paths: Vec<PathBuf> = named
        .iter()
        .filter_map(|target| match target {
            Named::Path(path) | Named::Printed(path) | Named::Session(path) => Some(path.clone()),
            Named::Kept(_) | Named::Stdin => None,
        })
        .collect();
    let has_stdin = named.iter().any(|target| matches!(target, Named::Stdin));
    let has_session = named.iter().any(|target| matches!(target, Named::Session(_)));
    // The end of a pipe is the end of what it told of; a file may go on.
    let ends = |target: &Named| matches!(target, Named::Stdin | Named::Printed(_));
    let has_ended = named.iter().all(ends) && reading.at.is_none();
    let groups = named.into_iter().filter_map(|target| match target {
        Named::Kept(group) => Some(group),
        Named::Path(_) | Named::Printed(_) | Named::Session(_) | Named::Stdin => None,
    });
    let kept = Expanded { groups: groups.collect(), skipped: Vec::new() };
    let options = FoldOptions { keep: reading.keep, cutoff: reading.at, events: reading.events };
    let mut cold = Cold::read(Cold::expand(&paths)?.merge(kept), options, reading.dialect);
    if has_stdin {
        let read = cold.read_stream(io::stdin().lock(), reading.dialect);
        read.map_err(|error| {
            CliError::caused(Kind::Failed, anyhow::Error::new(error).context("cannot read stdin"))
        })?;
    }
    context.note(&format!("{} files read", cold.files));
    if has_session {
        let session = only_session(&cold, context)?;
        cold.receive(&history::received(&session, context)?);
    }
    let at = reading.at.unwrap_or_else(|| context.now_ms());
    Ok(Read { cold, at, has_ended })
}

/// Returns the sessions that were read.
fn told_sessions(cold: &Cold) -> Vec<SessionId> {
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
fn only_session(cold: &Cold, context: &Context) -> Result<SessionId, CliError> {
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
            Err(CliError::new(Kind::Input, "nothing in it could be understood"))
        }
        several => {
            let names: Vec<&str> = several.iter().take(5).map(|session| session.as_str()).collect();
            let more = if several.len() > names.len() { ", …" } else { "" };
            let message = format!("{} sessions in it: {}{more}", several.len(), names.join(", "));
            Err(CliError::new(Kind::Usage, message).hint("name one session's transcript or folder"))
        }
    }
}
