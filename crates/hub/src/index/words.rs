//! The second pass: words of transcripts, read side by side and written in batches.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{SyncSender, sync_channel},
    },
};

use subscope_collect::{Found, read};
use subscope_fold::{
    Dialect,
    texts::{Passage as Seen, Said, Texts as Reader},
};
use subscope_model::{Millis, SessionId};
use subscope_store::{
    FilePassages, Identity, LedgerError, Passage, PassageKind, Source, Span, Texts, Vocabulary,
};

use super::{IndexOptions, Progress, QUEUE, workers};

/// How many passages are one transaction, and one segment of the index: bigger ones are merged less, and take some tens of
/// megabytes until they are written.
const BATCH: usize = 50_000;

/// Reads the words of files and keeps them.
pub(super) fn write(
    texts: &mut Texts,
    files: &[(Found, Identity)],
    sources: &[Source],
    options: &IndexOptions,
    progress: &mut Progress,
    told: &mut dyn FnMut(Progress),
) -> Result<(), LedgerError> {
    let sessions: HashMap<&Path, &SessionId> =
        sources.iter().map(|source| (source.path.as_path(), &source.session)).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (sender, read) = sync_channel::<FilePassages>(QUEUE);
        for _ in 0..workers(options).min(files.len()) {
            let (sender, next, sessions) = (sender.clone(), &next, &sessions);
            scope.spawn(move || read_all(files, next, sessions, &sender));
        }
        drop(sender);
        let (mut batch, mut count) = (Vec::new(), 0);
        for one in read {
            progress.done_bytes += one.identity.bytes;
            count += one.passages.len();
            batch.push(one);
            if count >= BATCH {
                texts.put(&batch)?;
                batch.clear();
                count = 0;
                told(*progress);
            }
        }
        texts.put(&batch)
    })
}

fn read_all(
    files: &[(Found, Identity)],
    next: &AtomicUsize,
    sessions: &HashMap<&Path, &SessionId>,
    sender: &SyncSender<FilePassages>,
) {
    let (mut chunk, mut vocabulary) = (Vec::new(), Vocabulary::default());
    while let Some((found, identity)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
        // A file that no row was made from yet is its path's session's.
        let named = found.session.as_deref().map(SessionId::from);
        let Some(session) = sessions.get(found.path.as_path()).map(|id| (*id).clone()).or(named) else {
            continue;
        };
        let passages = passages(found, &mut chunk, &mut vocabulary);
        let one = FilePassages { path: found.path.clone(), session, identity: *identity, passages };
        if sender.send(one).is_err() {
            return;
        }
    }
}

fn passages(found: &Found, chunk: &mut Vec<u8>, vocabulary: &mut Vocabulary) -> Vec<Passage> {
    let mut reader = Reader::new(Dialect::ClaudeTranscript, found.agent.clone());
    let mut passages = Vec::new();
    let mut last: Millis = 0;
    let mut keep = |said: Seen<'_>| {
        last = said.at_ms.unwrap_or(last);
        let kind = match said.said {
            Said::Prompt => PassageKind::Prompt,
            Said::Message => PassageKind::Message,
            Said::Thought => PassageKind::Thought,
            Said::ToolInput => PassageKind::ToolInput,
            Said::ToolResult => PassageKind::ToolResult,
        };
        let span = Span { start: said.offset, bytes: said.bytes };
        passages.push(Passage::new(said.agent.into(), kind, last, span, &said.text, vocabulary));
    };
    // What cannot be read has no words; the first pass has told of it.
    let _ = read::read_file(found.place(), 0, chunk, &mut |_, bytes| reader.push(bytes, &mut keep));
    reader.flush(&mut keep);
    passages
}
