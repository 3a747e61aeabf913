//! Sends the passages of sessions, which are read on a thread of its own: those of a long session take seconds, for which
//! changes do not wait.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use subscope_collect::archive::Archive;
use subscope_export::{masked_line, reduced_texts};
use subscope_hub::SessionSources;
use subscope_model::{ContentLevel, RemoteLine, SessionId, SnapshotText, Text};
use subscope_store::{Location, SessionQueries};

use super::Lines;
use crate::{command::history, forward::Exclusions, prelude::*};

/// Most bytes of a passage.
const PASSAGE_BYTES: usize = 16 << 10;
/// Most bytes of a session's passages: of a longer one those of the newest lines are sent.
const SESSION_BYTES: usize = 8 << 20;
/// Bytes of passages in a line: changes of sessions come between two lines.
const LINE_BYTES: usize = 64 << 10;
/// Most requests that wait: a hub has one under way.
const QUEUED: usize = 4;

/// A thread that sends passages, until this is dropped.
pub(super) struct TextSender(SyncSender<SessionId>);

impl TextSender {
    /// Starts the thread.
    pub(super) fn start(
        location: Location,
        level: ContentLevel,
        lines: &Lines,
        context: &Context,
    ) -> Result<Self, CliError> {
        let (sender, requests) = sync_channel(QUEUED);
        let source = TextSource {
            location,
            level,
            archive: history::archive(context)?,
            exclusions: Exclusions::new(&context.settings().team, &context.environment),
        };
        let lines = lines.clone();
        // Not joined: it may be reading, and ends with this process.
        std::thread::spawn(move || {
            super::super::lower_priority();
            send_all(&source, &requests, &lines)
        });
        Ok(Self(sender))
    }

    /// Has the passages of a session sent. One request too many is dropped: the hub asks again.
    pub(super) fn request(&self, session: SessionId) {
        let _ = self.0.try_send(session);
    }
}

/// Where passages are read.
struct TextSource {
    location: Location,
    level: ContentLevel,
    archive: Archive,
    exclusions: Exclusions,
}

/// Answers requests until there are no more, or nobody reads the answers.
fn send_all(source: &TextSource, requests: &Receiver<SessionId>, lines: &Lines) {
    for session in requests {
        if send(source, &session, lines).is_err() {
            return;
        }
    }
}

fn send(source: &TextSource, session: &SessionId, lines: &Lines) -> std::io::Result<()> {
    let line = |texts: Vec<SnapshotText>, is_last: bool, unread: Option<Text>| {
        let mut bytes = Vec::new();
        masked_line(&RemoteLine::Texts { session: session.clone(), texts, is_last, unread }, &mut bytes)?;
        lines.write(&bytes)
    };
    let texts = match source.texts(session) {
        Ok(texts) => texts,
        Err(error) => return line(Vec::new(), true, Some(error.to_string().into())),
    };
    let (mut part, mut bytes) = (Vec::new(), 0);
    for text in newest(reduced_texts(source.level, texts)) {
        bytes += text.text.len();
        part.push(text);
        if bytes >= LINE_BYTES {
            line(std::mem::take(&mut part), false, None)?;
            bytes = 0;
        }
    }
    line(part, true, None)
}

/// Returns the passages of the newest lines, in order, of at most [`SESSION_BYTES`].
fn newest(mut texts: Vec<SnapshotText>) -> Vec<SnapshotText> {
    texts.sort_by_key(|text| text.at_ms);
    let mut left = SESSION_BYTES;
    let fits = |text: &&SnapshotText| {
        let fits = text.text.len() <= left;
        left = left.saturating_sub(text.text.len());
        fits
    };
    let kept = texts.iter().rev().take_while(fits).count();
    texts.drain(..texts.len() - kept);
    texts
}

impl TextSource {
    /// Returns the passages of a session; none of one that is not sent.
    fn texts(&self, session: &SessionId) -> Result<Vec<SnapshotText>, CliError> {
        // Opened for each: another process may have replaced the store.
        let store = self.location.open()?;
        let row = store.session_row(session)?;
        let is_sent = row.is_some_and(|row| row.machine.is_none() && !self.exclusions.contains(&row));
        if !is_sent || self.level != ContentLevel::Text {
            return Ok(Vec::new());
        }
        let sources = SessionSources::find(session, Vec::new(), Some(&store), &self.archive)
            .map_err(|error| CliError::because("its files are not found", error))?;
        let passages = sources
            .passages(PASSAGE_BYTES)
            .map_err(|error| CliError::because("its files cannot be read", error))?;
        let text = |passage: subscope_hub::index::SessionPassage| SnapshotText {
            doc: passage.doc,
            agent_id: passage.agent.into(),
            kind: passage.kind.into(),
            at_ms: passage.at_ms,
            text: passage.text.into(),
            deleted: false,
        };
        Ok(passages.into_iter().map(text).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_session_the_newest_passages_are_sent_in_order() {
        let text = |at_ms, bytes: usize| SnapshotText {
            at_ms: Some(at_ms),
            text: "x".repeat(bytes).into(),
            ..SnapshotText::default()
        };
        let third = SESSION_BYTES / 3;
        let kept = newest(vec![text(4, third), text(1, third), text(3, third), text(2, 10)]);
        let times: Vec<_> = kept.iter().map(|text| text.at_ms).collect();
        assert_eq!(times, [Some(2), Some(3), Some(4)]);
    }
}
