//! Sessions told anew for whoever asks the server: read from their files, from the archive where these are gone, and from
//! what was handed over. One at a time, on a thread of its own that gives way to the hub.
//!
//! It does what `command::past` does for one question of a command, with what a hub holds: a hub that another command hosts has
//! no context, and answers many.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, SyncSender, TrySendError},
};

use subscope_collect::{Expanded, Found, Group, expand};
use subscope_fold::{Events, FoldOptions, Keep, Now};
use subscope_hub::{
    AskError, Cold, Reply, clock,
    index::{IndexOptions, elsewhere},
};
use subscope_model::{Millis, SessionId};
use subscope_server::{Retold, Teller, Telling};
use subscope_store::{Access, History, Sqlite};

use super::super::target::transcript_of;

/// How many questions may wait: each is some milliseconds, of a big session a second.
pub(super) const QUEUE: usize = 32;

/// A question; `None` ends it.
pub(super) type Asked = Option<(SessionId, Option<Millis>, Reply<Telling>)>;

/// Returns what asks through this queue.
pub(super) fn teller(asks: SyncSender<Asked>) -> Teller {
    Teller::new(move |session, at, reply| {
        asks.try_send(Some((session, at, reply))).map_err(|error| match error {
            TrySendError::Full(_) => AskError::Busy,
            TrySendError::Disconnected(_) => AskError::Ended,
        })
    })
}

/// What sessions are told from.
pub(super) struct Sources {
    /// The folder of the harness's transcripts.
    pub(super) root: PathBuf,
    pub(super) data: PathBuf,
    pub(super) rules: String,
    pub(super) options: IndexOptions,
}

impl Sources {
    /// Answers until the end is asked for.
    pub(super) fn answer(&self, asked: &Receiver<Asked>) {
        while let Ok(Some((session, at, reply))) = asked.recv() {
            reply(self.tell(&session, at).map_err(|error| error.to_string()));
        }
    }

    fn tell(&self, session: &SessionId, at: Option<Millis>) -> anyhow::Result<Option<Retold>> {
        let store = Sqlite::open(&self.data, Access::Read, &self.rules, 0)?;
        let files = self.files(&store, session)?;
        let options = FoldOptions { keep: Keep::Rows, cutoff: at, events: true };
        let mut cold = Cold::read(files, options, None);
        cold.receive(&store.received_of(session)?);
        cold.fold.set_elsewhere(session, elsewhere(&store, session)?);
        let now = Now {
            at: at.unwrap_or_else(clock::now_ms),
            has_ended: false,
            is_growing: false,
            prices: &self.options.prices,
            limits: self.options.limits.clone(),
        };
        let Some(tree) = cold.fold.tree(session, &now) else { return Ok(None) };
        let events = Events::all(&mut cold.fold, session, &now);
        Ok(Some(Retold { tree, events }))
    }

    /// The session's files: those that its rows were made of, else those that stand where the harness puts them.
    fn files(&self, store: &Sqlite, session: &SessionId) -> anyhow::Result<Expanded> {
        let mut known = store.files_of(session)?;
        if known.is_empty() {
            known.extend(transcript_of(&self.root, session));
        }
        let (mut seen, mut files) = (HashSet::new(), Vec::new());
        for path in &known {
            let found = if path.exists() { standing(path)? } else { self.kept(path, session)? };
            files.extend(found.into_iter().filter(|file| seen.insert(file.path.clone())));
        }
        let group = Group { session: Some(session.to_string()), files };
        Ok(Expanded { groups: vec![group], skipped: Vec::new() })
    }

    fn kept(&self, path: &Path, session: &SessionId) -> anyhow::Result<Vec<Found>> {
        let kept = self.options.archive.find(path)?;
        Ok(kept.and_then(|kept| Found::again(path, session.as_str(), Some(kept))).into_iter().collect())
    }
}

fn standing(path: &Path) -> anyhow::Result<Vec<Found>> {
    Ok(expand(path)?.groups.into_iter().flat_map(|group| group.files).collect())
}
