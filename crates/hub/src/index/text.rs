//! Second pass: full text of transcripts, read in parallel and written in batches; then that of the inbox.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ffi::OsStr,
    path::Path,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
};

use subscope_collect::{Found, archive::original_of, read};
use subscope_harness::{Role, classify, recognize};
use subscope_model::{Millis, SessionId, TraceSpan, stable_hash};
use subscope_session::{
    Dialect,
    passages::{Passage as Seen, PassageClass, PassageReader as Reader},
};
use subscope_store::{
    ByteSpan, FileIdentity, InboxPosition, Passage, PassageBatch, PassageKind, ReceivedInput, SourceFile,
    SqliteStore, TextFile, TextIndex,
};

use super::{IndexError, IndexRun, workers};
use crate::loader::Unread;

/// Capacity of the queue of batches of tens of megabytes: bounds memory.
const QUEUE: usize = 1;

/// Bytes of the inbox, as stored (compressed), per batch: bounds memory.
const INBOX_BYTES: u64 = 4 << 20;

/// How many bytes of a file are read to recognize its dialect.
const HEAD_BYTES: usize = 64 << 10;

/// Reads the words of files and keeps them.
pub(super) fn write(
    run: &mut IndexRun<'_>,
    texts: &mut TextIndex,
    files: &[(Found, FileIdentity)],
    sources: &[SourceFile],
    forgotten: &BTreeSet<SessionId>,
) -> Result<(), IndexError> {
    let known = TextSources::new(sources, forgotten);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (sender, batches) = sync_channel::<Result<PassageBatch, Unread>>(QUEUE);
        for _ in 0..workers(run.options).min(files.len()) {
            let (sender, next, known) = (sender.clone(), &next, &known);
            scope.spawn(move || read_all(files, next, known, &sender));
        }
        drop(sender);
        for batch in batches {
            let batch = match batch {
                Ok(batch) => batch,
                Err(unread) => {
                    tracing::warn!("{unread}");
                    run.report.problems.push(unread.problem());
                    continue;
                }
            };
            texts.put(&batch)?;
            run.progress.done_bytes += batch.read_bytes();
            run.report_progress()?;
        }
        Ok(())
    })
}

/// What is known of the files that rows were derived from.
struct TextSources<'s> {
    /// A session of each file.
    sessions: HashMap<&'s Path, &'s SessionId>,
    /// Main transcripts that have lines of a session.
    main: HashMap<&'s SessionId, Vec<&'s Path>>,
    /// Files of a session by name: those in other folders are copies.
    named: HashMap<(&'s SessionId, &'s OsStr), Vec<&'s Path>>,
    /// Their lines are not indexed again with those of others in the same file.
    forgotten: &'s BTreeSet<SessionId>,
}

impl<'s> TextSources<'s> {
    fn new(sources: &'s [SourceFile], forgotten: &'s BTreeSet<SessionId>) -> Self {
        let (sessions, main, named) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut all = Self { sessions, main, named, forgotten };
        for SourceFile { path, session, .. } in sources {
            all.sessions.insert(path, session);
            if classify(path).role == Role::Main {
                all.main.entry(session).or_default().push(path);
            }
            if let Some(name) = path.file_name() {
                all.named.entry((session, name)).or_default().push(path);
            }
        }
        all
    }

    /// Returns the ids of a session's lines in those of its files that come before this one: the lines of the same ids in
    /// this file are copies.
    ///
    /// # Errors
    /// If one of these files cannot be read.
    fn lines_before(&self, found: &Found, session: &SessionId) -> Result<HashSet<Box<str>>, Unread> {
        let is_own = |path: &Path| classify(path).session.is_none_or(|named| named == session.as_str());
        let place = |path: &Path| (!is_own(path), path.to_owned());
        let name = found.path.file_name().unwrap_or_default();
        let mut before: Vec<&Path> =
            self.named.get(&(session, name)).into_iter().flatten().copied().collect();
        if !is_own(&found.path) {
            before.extend(self.main.get(session).into_iter().flatten());
        }
        let own = place(&found.path);
        before.retain(|path| *path != found.path && place(path) < own);
        let mut lines = HashSet::new();
        for path in before {
            let Some(file) = Found::again(path, session.as_str(), None) else { continue };
            read_passages(&file, session, &mut Vec::new(), &mut |said| {
                lines.extend(said.line_id.filter(|_| said.session.is_none()).map(Into::into));
            })?;
        }
        Ok(lines)
    }
}

/// Worker: reads files until none is left or the writer is gone.
fn read_all(
    files: &[(Found, FileIdentity)],
    next: &AtomicUsize,
    known: &TextSources<'_>,
    sender: &SyncSender<Result<PassageBatch, Unread>>,
) {
    let (mut chunk, mut batch) = (Vec::new(), PassageBatch::default());
    let mut is_heard = true;
    while let Some((found, identity)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
        let named = found.session_id();
        let by_rows = || known.sessions.get(found.path.as_path()).map(|id| (*id).clone());
        let Some(session) = named.or_else(by_rows) else { continue };
        batch.begin(TextFile { path: found.path.clone(), session: session.clone(), identity: *identity });
        let mut full =
            |batch: &mut PassageBatch| is_heard = is_heard && sender.send(Ok(batch.take())).is_ok();
        match read_file((found, &session), known, &mut chunk, &mut batch, &mut full) {
            Ok(()) => batch.end(),
            // The passages that are known stay, and the next run reads it.
            Err(unread) => {
                batch.abort();
                is_heard = is_heard && sender.send(Err(unread)).is_ok();
            }
        }
        if !is_heard {
            return;
        }
    }
    if !batch.is_empty() {
        let _ = sender.send(Ok(batch.take()));
    }
}

/// Adds the passages of a file to a batch; calls `full` when the batch is full. `session` is that of lines that name none.
///
/// # Errors
/// If the file, or an earlier one that may have the same lines, cannot be read to its end.
fn read_file(
    (found, session): (&Found, &SessionId),
    known: &TextSources<'_>,
    chunk: &mut Vec<u8>,
    batch: &mut PassageBatch,
    full: &mut dyn FnMut(&mut PassageBatch),
) -> Result<(), Unread> {
    let mut unread = None;
    let mut last: Millis = 0;
    // Lines of each session that are in earlier files.
    let mut copied: HashMap<SessionId, HashSet<Box<str>>> = HashMap::new();
    read_passages(found, session, chunk, &mut |said| {
        last = said.at_ms.unwrap_or(last);
        // Of a file only bytes are read again.
        if said.bytes == 0 {
            return;
        }
        let id = said.session.map_or_else(|| session.clone(), SessionId::from);
        if id != *session && known.forgotten.contains(&id) {
            return;
        }
        let copied = copied.entry(id).or_insert_with_key(|id| {
            known.lines_before(found, id).unwrap_or_else(|error| {
                unread = Some(error);
                HashSet::new()
            })
        });
        if said.line_id.is_some_and(|line| copied.contains(line)) {
            return;
        }
        let span = ByteSpan { start: said.offset, bytes: said.bytes };
        batch.add(&Passage { session: said.session, ..passage(said, last, span) }, &said.text);
        if batch.is_full() {
            full(batch);
        }
    })?;
    unread.map_or(Ok(()), Err)
}

/// Reads the passages of a file that has lines of a session; only those of other sessions name theirs.
///
/// # Errors
/// If the file cannot be read to its end.
fn read_passages(
    found: &Found,
    session: &SessionId,
    chunk: &mut Vec<u8>,
    each: &mut dyn FnMut(&Seen<'_>),
) -> Result<(), Unread> {
    let Some(dialect) = dialect_of(found)? else { return Ok(()) };
    let mut reader = Reader::new(dialect, found.agent.clone());
    let of_path = found.session_id();
    let mut keep = |said: Seen<'_>| {
        let named = said.session.or(of_path.as_deref()).filter(|_| dialect.names_session());
        each(&Seen { session: named.filter(|named| *named != session.as_str()), ..said });
    };
    read::read_file(found.place(), 0, chunk, &mut |_, bytes| reader.push(bytes, &mut keep))
        .map_err(|error| Unread::new(found.place(), error))?;
    reader.flush(&mut keep);
    Ok(())
}

/// A passage of a session with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPassage {
    /// Id within the session: the same each time that the session is read.
    pub doc: u64,
    /// The agent; empty if unknown.
    pub agent: String,
    /// `prompt`, `message`, `thought`, `tool input` or `tool result`.
    pub kind: &'static str,
    /// Time of its line, else of the line before.
    pub at_ms: Option<Millis>,
    /// Its text, of at most `max_bytes`.
    pub text: String,
}

/// Returns the passages of a session in files; of one without files those of its input in the inbox, which otherwise
/// repeats what the files have. Each text has at most `max_bytes`. Copies of a line in several files count once.
///
/// # Errors
/// If a file cannot be read to its end.
pub(crate) fn passages_of(
    session: &SessionId,
    files: &[Found],
    received: &[ReceivedInput],
    max_bytes: usize,
) -> Result<Vec<SessionPassage>, Unread> {
    let (mut found, mut known) = (Vec::new(), HashSet::new());
    let (mut last, mut chunk) = (0, Vec::new());
    let mut add = |said: &Seen<'_>, name: &str, is_former: bool, found: &mut Vec<SessionPassage>| {
        last = said.at_ms.unwrap_or(last);
        // A former file mostly repeats what the file has again.
        let words = (said.agent.to_owned(), kind(said.class).as_str(), last, stable_hash(&said.text));
        if !known.insert(words) && is_former {
            return;
        }
        let end = (0..=max_bytes.min(said.text.len())).rev().find(|at| said.text.is_char_boundary(*at));
        found.push(SessionPassage {
            doc: stable_hash(&format!("{name}\n{}\n{}", said.offset, said.bytes)),
            agent: said.agent.to_owned(),
            kind: kind(said.class).as_str(),
            at_ms: (last > 0).then_some(last),
            text: said.text.get(..end.unwrap_or(0)).unwrap_or_default().to_owned(),
        });
    };
    let mut before: HashSet<Box<str>> = HashSet::new();
    for file in files {
        let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_former = original_of(&file.path).is_some();
        let mut lines: Vec<Box<str>> = Vec::new();
        read_passages(file, session, &mut chunk, &mut |said| {
            if said.session.is_none() && said.line_id.is_none_or(|line| !before.contains(line)) {
                add(said, &name, is_former, &mut found);
                lines.extend(said.line_id.map(Into::into));
            }
        })?;
        before.extend(lines);
    }
    if !files.is_empty() {
        return Ok(found);
    }
    for input in received {
        let Some(dialect) = subscope_harness::dialect(&input.dialect) else { continue };
        let name = format!("{}\n{}", input.source, input.key);
        let mut reader = Reader::new(dialect, None);
        let mut keep = |said: Seen<'_>| add(&said, &name, false, &mut found);
        let own = input.parts.iter().map(|part| &part.body);
        for body in own.chain([&input.body]) {
            reader.push(body, &mut keep);
        }
        reader.flush(&mut keep);
    }
    Ok(found)
}

/// The dialect of a transcript: by its path, else by its first bytes.
fn dialect_of(found: &Found) -> Result<Option<Dialect>, Unread> {
    if found.dialect.is_some() {
        return Ok(found.dialect);
    }
    let bytes = usize::try_from(found.len).unwrap_or(HEAD_BYTES).min(HEAD_BYTES);
    match read::read_span(found.place(), 0, bytes) {
        Ok(head) => Ok(recognize(&head)),
        Err(error) => Err(Unread::new(found.place(), error)),
    }
}

fn passage<'a>(said: &Seen<'a>, at_ms: Millis, span: ByteSpan) -> Passage<'a> {
    let tool = said.tool.unwrap_or_default();
    Passage {
        session: None,
        agent: said.agent,
        kind: kind(said.class),
        tool,
        failed: said.failed,
        at_ms,
        span,
    }
}

fn kind(said: PassageClass) -> PassageKind {
    match said {
        PassageClass::Prompt => PassageKind::Prompt,
        PassageClass::Message => PassageKind::Message,
        PassageClass::Thought => PassageKind::Thought,
        PassageClass::ToolInput => PassageKind::ToolInput,
        PassageClass::ToolResult => PassageKind::ToolResult,
    }
}

/// Indexes the texts of traces again that turned out to be of another session since: as this one's. Nothing is left of the
/// session that they had: it was the trace, or had the name of a part of it.
pub(super) fn move_traces(
    store: &SqliteStore,
    texts: &mut TextIndex,
    files: Vec<TextFile>,
    forgotten: &BTreeSet<SessionId>,
) -> Result<(), IndexError> {
    let known: HashSet<SessionId> = store.session_ids()?.into_iter().collect();
    for file in files.into_iter().filter(|file| !known.contains(&file.session)) {
        let (numbers, mut rows) = (texts.inbox_rows(&file)?, Vec::new());
        for number in &numbers {
            // It is the first after the one before it.
            let next = store.received_after(number.saturating_sub(1), 1)?.into_iter().next();
            rows.extend(next.filter(|(found, _)| found == number));
        }
        let is_moved = |(_, received): &(u64, ReceivedInput)| !owners(received).contains(&&file.session);
        // A row that cannot be read now says nothing.
        if rows.is_empty() || rows.len() < numbers.len() || !rows.iter().all(is_moved) {
            continue;
        }
        let mut batch = PassageBatch::default();
        add_rows(&rows, forgotten, &mut batch, |session| TextFile { session, ..file.clone() });
        texts.move_inbox(&file, &batch)?;
    }
    Ok(())
}

/// Returns the sessions of a row of the inbox: those that it is about; the one that a trace turned out to be of, instead of
/// the id of the trace.
fn owners(received: &ReceivedInput) -> Vec<&SessionId> {
    let sender = received.session.as_deref().filter(|named| TraceSpan::trace_of_session(named).is_some());
    let others: Vec<&SessionId> =
        received.sessions.iter().filter(|session| Some(session.as_str()) != sender).collect();
    if others.is_empty() { received.sessions.iter().collect() } else { others }
}

/// Indexes the text of inbox rows that arrived since the last run. The inbox is append-only, so an indexed row is read again
/// only if it was of a trace without a session.
pub(super) fn write_inbox(
    run: &mut IndexRun<'_>,
    store: &SqliteStore,
    texts: &mut TextIndex,
) -> Result<(), IndexError> {
    // Input of several sessions stays while one of them is kept.
    let forgotten: BTreeSet<SessionId> = store.forgotten_sessions()?.into_iter().collect();
    let files = texts.inbox_files()?;
    let mut last = files.iter().map(|file| file.identity.inode).max().unwrap_or(0);
    move_traces(store, texts, files, &forgotten)?;
    loop {
        let rows = store.received_after(last, INBOX_BYTES)?;
        let Some((end, _)) = rows.last() else { return Ok(()) };
        last = *end;
        let mut batch = PassageBatch::default();
        add_rows(&rows, &forgotten, &mut batch, |session| TextFile::of_inbox(session, last));
        // One commit per batch: interrupted work is repeated.
        texts.put(&batch)?;
        run.report_progress()?;
    }
}

/// Adds rows of the inbox to a batch, those of each session that is not forgotten as its pseudo file.
fn add_rows(
    rows: &[(u64, ReceivedInput)],
    forgotten: &BTreeSet<SessionId>,
    batch: &mut PassageBatch,
    file_of: impl Fn(SessionId) -> TextFile,
) {
    let mut by_session: BTreeMap<&SessionId, Vec<&(u64, ReceivedInput)>> = BTreeMap::new();
    for row in rows {
        for session in owners(&row.1).into_iter().filter(|session| !forgotten.contains(*session)) {
            by_session.entry(session).or_default().push(row);
        }
    }
    for (session, rows) in by_session {
        batch.begin(file_of(session.clone()));
        for (number, received) in rows {
            add_received(*number, received, session, batch);
        }
        batch.end();
    }
}

/// Adds the passages that a row of the inbox has of a session.
fn add_received(number: u64, received: &ReceivedInput, session: &SessionId, batch: &mut PassageBatch) {
    // The sender of input names its dialect, except for input whose dialect only the router can recognize.
    let Some(dialect) = subscope_harness::dialect(&received.dialect) else { return };
    let is_its_own = owners(received).len() == 1;
    let mut keep = |said: Seen<'_>| {
        if !is_its_own && said.session != Some(session.as_str()) {
            return;
        }
        let place = InboxPosition { row: number, offset: said.offset };
        let at_ms = said.at_ms.unwrap_or(received.received_ms);
        batch.add(&passage(&said, at_ms, place.span(said.bytes)), &said.text);
    };
    let mut reader = Reader::new(dialect, None);
    reader.push(&received.body, &mut keep);
    reader.flush(&mut keep);
}
