//! Sessions told anew for whoever asks the server: read from their files, from the archive where these are gone, and from
//! what was handed over. One at a time, on a thread of its own that gives way to the hub.
//!
//! It does what `command::past` does for one question of a command, with what a hub holds: a hub that another command hosts has
//! no context, and answers many.

use std::{
    path::PathBuf,
    sync::mpsc::{Receiver, SyncSender, TrySendError},
};

use subscope_export::execution;
use subscope_fold::{Events, FoldOptions, Keep, Now};
use subscope_harness::Root;
use subscope_hub::{AskError, Reply, SessionSources, clock, index::IndexOptions, knows_more};
use subscope_model::{Payload, SessionId};
use subscope_server::{ReadOutcome, SessionHistory, SessionReader, Wanted};
use subscope_store::{Access, History, Sqlite};

use super::super::target::transcripts_of;

/// How many questions may wait: each is some milliseconds, of a big session a second.
pub(super) const QUEUE: usize = 32;

/// A question; `None` ends it.
pub(super) type Asked = Option<(SessionId, Wanted, Reply<ReadOutcome>)>;

/// Returns what asks through this queue.
pub(super) fn teller(asks: SyncSender<Asked>) -> SessionReader {
    SessionReader::new(move |session, wanted, reply| {
        asks.try_send(Some((session, wanted, reply))).map_err(|error| match error {
            TrySendError::Full(_) => AskError::Busy,
            TrySendError::Disconnected(_) => AskError::Ended,
        })
    })
}

/// What sessions are told from.
pub(super) struct Sources {
    /// The folders of the harnesses' transcripts.
    pub(super) roots: Vec<Root>,
    pub(super) data: PathBuf,
    pub(super) rules: String,
    pub(super) options: IndexOptions,
}

impl Sources {
    /// Answers until the end is asked for.
    pub(super) fn answer(&self, asked: &Receiver<Asked>) {
        while let Ok(Some((session, wanted, reply))) = asked.recv() {
            reply(self.tell(&session, wanted).map_err(|error| error.to_string()));
        }
    }

    fn tell(&self, session: &SessionId, wanted: Wanted) -> anyhow::Result<Option<SessionHistory>> {
        let store = Sqlite::open(&self.data, Access::Read, &self.rules, 0)?;
        let transcripts = transcripts_of(&self.roots, session);
        let sources = SessionSources::find(session, transcripts, Some(&store), &self.options.archive)?;
        if !sources.is_whole() {
            // Its rows tell more than what is left.
            return Ok(None);
        }
        let kept = if sources.has_no_files() { store.tree(session)? } else { None };
        let keep = if wanted.traces { Keep::Payloads } else { Keep::Rows };
        let options = FoldOptions { keep, cutoff: wanted.at, events: true };
        let mut cold = sources.read(Some(&store), options)?;
        let now = Now {
            at: wanted.at.unwrap_or_else(clock::now_ms),
            has_ended: false,
            is_growing: false,
            prices: &self.options.prices,
            limits: self.options.limits.clone(),
        };
        let Some(tree) = cold.fold.tree(session, &now) else { return Ok(None) };
        if wanted.at.is_none() && kept.is_some_and(|kept| knows_more(&kept, &tree)) {
            return Ok(None);
        }
        let resolve = |payload: &Payload| serde_json::from_str(&cold.payload(payload)?).ok();
        let traces = if wanted.traces { execution(&tree, &resolve) } else { Vec::new() };
        let events = Events::all(&mut cold.fold, session, &now);
        Ok(Some(SessionHistory { tree, events, traces }))
    }
}
