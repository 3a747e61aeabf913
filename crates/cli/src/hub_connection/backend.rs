//! Chooses who answers the questions of a command: the hub over its socket, a team's server, or the store in this process.

use std::{
    collections::{BTreeSet, HashSet},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use subscope_client::Client;
use subscope_collect::{archive::Archive, sessions_below};
use subscope_hub::clock;
use subscope_model::{Health, SessionId, SessionPage, Text};
use subscope_program::CliError;
use subscope_query::{ListQuery, Queries};
use subscope_store::{Access, OpenError, SessionQueries, SqliteStore, TextIndex, is_disk_full};

use super::{
    HubConnection, NoHub, StartPolicy,
    stored_sessions::{StoredSessions, UnstoredSessions},
};
use crate::{
    command::{history, target::roots},
    context::Context,
    team_server,
};

/// Time that a command waits for a hub's initial scan: over years of sessions the newest are listed within a second.
const CATCH_UP_TIMEOUT: Duration = Duration::from_millis(700);
const POLL: Duration = Duration::from_millis(10);
/// Newest sessions whose working directories are the known projects.
const MAX_PROJECT_SESSIONS: usize = 10_000;
/// TARGET word for the newest session, the first that `ls` lists.
pub(crate) const LAST: &str = "last";

/// Most sessions looked up for an id prefix, to report how many match an ambiguous one.
pub(crate) const MAX_PREFIX_MATCHES: usize = 100;

/// Data that a command needs to be up to date, and whether a hub is started for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Stored rows as they are; no hub is started.
    Committed,
    /// Up-to-date rows, for callers that may ask several times a second; no hub is started.
    RowsNoStart,
    /// Up-to-date rows.
    Rows,
    /// Up-to-date rows and full text.
    Texts,
}

/// Who answers the questions of a command.
pub(crate) enum Backend<'c> {
    /// The hub, or the server of a team.
    Hub(Client),
    Store(Box<StoredSessions>),
    Nothing(UnstoredSessions<'c>),
}

impl<'c> Backend<'c> {
    /// Connects to the hub, or opens the store. The store is indexed first, so that answers are up to date without a
    /// running hub; if another process writes it, answers are what that process has committed. Where there is neither a
    /// data folder nor a session, both stay away.
    pub(crate) fn open(needs: Needs, context: &'c Context) -> Result<Self, CliError> {
        if let Some(server) = team_server::asked(context)? {
            return Ok(Self::Hub(Client::of_team(server)));
        }
        let start = match needs {
            Needs::Committed | Needs::RowsNoStart => StartPolicy::Never,
            Needs::Rows | Needs::Texts => StartPolicy::IfNone,
        };
        // A hub shows the sessions of other machines, too.
        let has_remotes = !context.settings().remote.is_empty();
        if !context.data_folder()?.exists() && !has_remotes {
            let on_disk = roots(context).into_iter().flat_map(|root| sessions_below(&root));
            let on_disk: Vec<_> = on_disk.map(|(id, _)| id).collect();
            if start == StartPolicy::Never || on_disk.is_empty() {
                return Ok(Self::Nothing(UnstoredSessions { on_disk, context }));
            }
        }
        let mut connection = HubConnection::new(start, context)?;
        match connection.hub() {
            Ok(mut client) => {
                connection.report_start(context);
                let folder = context.data_folder()?;
                if is_disk_full(&folder) {
                    warn_of_full_disk(&folder, context);
                }
                if start == StartPolicy::IfNone && !wait_until_caught_up(&mut client) {
                    context.info("sessions of before are still being read; this is what is there by now");
                }
                return Ok(Self::Hub(client));
            }
            Err(NoHub::NotWanted | NoHub::Locked) => {}
            Err(NoHub::Unresponsive(why)) => {
                context.warn(&format!("{why}; this is what it has committed"));
                return Self::committed(needs, context);
            }
            Err(NoHub::Failed(why)) => context.warn(&format!("{why}; going on without a hub")),
        }
        if needs == Needs::Committed {
            return Self::committed(needs, context);
        }
        let folder = context.data_folder()?;
        let opened = match history::open_rows(Access::Write, context)? {
            Ok(store) => Self::indexed(store, needs, context),
            Err(OpenError::Locked(_)) => {
                let message =
                    format!("another process writes the store in {}, and does not answer", folder.display());
                context
                    .info(&format!("{message}; this is what it has committed (`subscope doctor` says more)"));
                return Self::committed(needs, context);
            }
            Err(error) if is_unwritable(&error) => match Self::committed(needs, context) {
                Ok(found) => {
                    warn_of_lack(&format!("nothing can be written to {}", folder.display()), context);
                    Ok(found)
                }
                // There is no store to read.
                Err(_) => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        };
        match opened {
            Err(_) if is_disk_full(&folder) => {
                warn_of_full_disk(&folder, context);
                Self::committed(needs, context)
            }
            opened => opened,
        }
    }

    /// Indexes what is new into a store, and answers from it.
    fn indexed(mut store: SqliteStore, needs: Needs, context: &'c Context) -> Result<Self, CliError> {
        let mut texts = texts(needs, Access::Write, context)?;
        let words = texts.as_mut().map(|(texts, _)| texts);
        history::index_new(&mut store, words, context)?;
        Ok(Self::of_store(store, texts, context))
    }

    /// Opens the store read-only: answers are what its writer has committed.
    fn committed(needs: Needs, context: &'c Context) -> Result<Self, CliError> {
        let texts = texts(needs, Access::Read, context)?;
        let store = history::open_rows(Access::Read, context)??;
        Ok(Self::of_store(store, texts, context))
    }

    fn of_store(store: SqliteStore, texts: Option<(TextIndex, Archive)>, context: &Context) -> Self {
        let silent_since = context.now_ms() - context.limits().longest_ms();
        Self::Store(Box::new(StoredSessions { store, texts, silent_since }))
    }

    /// Returns who answers.
    pub(crate) fn queries(&mut self) -> &mut (dyn Queries + 'c) {
        match self {
            Self::Hub(client) => client,
            Self::Store(store) => &mut **store,
            Self::Nothing(nothing) => nothing,
        }
    }

    /// Returns the newest sessions that match some words ([`subscope_model::SessionRow::matches`]) first, at most `limit`.
    pub(crate) fn sessions(
        &mut self,
        limit: usize,
        only_live: bool,
        words: &str,
    ) -> Result<SessionPage, CliError> {
        let query = ListQuery { only_live, ..ListQuery::of_words(limit, words.to_owned()) };
        Ok(self.queries().sessions(&query)?)
    }

    /// Returns the projects of the newest sessions, and the working directories.
    pub(crate) fn projects(&mut self) -> Result<BTreeSet<Text>, CliError> {
        let rows = self.sessions(MAX_PROJECT_SESSIONS, false, "")?.sessions;
        Ok(rows.into_iter().flat_map(|row| [row.cwd, row.project]).flatten().collect())
    }

    /// Returns the files of this machine from which stored rows are derived; `None` if the answers are about other
    /// machines, or the store cannot be read.
    pub(crate) fn files_with_rows(&self, context: &Context) -> Result<Option<HashSet<PathBuf>>, CliError> {
        let of = |store: &SqliteStore| -> Result<_, CliError> {
            Ok(Some(store.sources()?.into_iter().map(|source| source.path).collect()))
        };
        match self {
            Self::Store(stored) => of(&stored.store),
            Self::Hub(_) if team_server::asked(context)?.is_some() => Ok(None),
            Self::Hub(_) => match history::open_rows(Access::Read, context)? {
                Ok(store) => of(&store),
                Err(_) => Ok(None),
            },
            Self::Nothing(_) => Ok(Some(HashSet::new())),
        }
    }

    /// Returns the hub's health; `None` without a hub.
    pub(crate) fn health(&mut self) -> Option<Health> {
        let Self::Hub(client) = self else { return None };
        client.health().ok()
    }

    /// Returns a URL at which one browser is let in to the page; `None` if no hub serves it.
    pub(crate) fn page(&mut self) -> Option<String> {
        let Self::Hub(client) = self else { return None };
        client.page().ok()
    }

    /// Returns the one session with an id prefix; `last` names the newest.
    pub(crate) fn session(&mut self, word: &str) -> Result<SessionId, CliError> {
        if word == LAST {
            return first_session(self.sessions(1, false, "")?);
        }
        let found = self.queries().names(word, MAX_PREFIX_MATCHES)?.sessions;
        one_of(word, found)?.ok_or_else(|| unknown_session(word))
    }
}

/// Says that the disk of a data folder is full.
fn warn_of_full_disk(folder: &Path, context: &Context) {
    warn_of_lack(&format!("the disk of {} is full", folder.display()), context);
}

/// Says why an answer may lack what is new.
fn warn_of_lack(why: &str, context: &Context) {
    context.warn(&format!("{why}: what is new since is not stored and may be missing"));
}

/// Whether a store cannot be opened because this user may not write to its folder, or nobody may.
fn is_unwritable(error: &OpenError) -> bool {
    let OpenError::Folder { source, .. } = error else { return false };
    matches!(source.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

/// Opens the full text index, if needed, with the archive that may hold its passages.
fn texts(needs: Needs, access: Access, context: &Context) -> Result<Option<(TextIndex, Archive)>, CliError> {
    if needs != Needs::Texts {
        return Ok(None);
    }
    Ok(Some((TextIndex::open(&context.data_folder()?, access)?, history::archive(context)?)))
}

/// Returns the one session of a store with an id prefix; `last` names the newest.
pub(crate) fn session_in(store: &SqliteStore, word: &str) -> Result<SessionId, CliError> {
    if word == LAST {
        let query = ListQuery::of_words(1, String::new());
        return first_session(query.page(|query| store.list(query))?);
    }
    one_of(word, store.sessions_with_prefix(word, MAX_PREFIX_MATCHES)?)?.ok_or_else(|| unknown_session(word))
}

fn first_session(page: SessionPage) -> Result<SessionId, CliError> {
    let row = page.sessions.into_iter().next();
    row.map(|row| row.id).ok_or_else(|| CliError::failed("no sessions yet"))
}

/// Error for an id prefix that no session has.
fn unknown_session(word: &str) -> CliError {
    CliError::failed(format!("no session's id begins with {word:?}")).hint("`subscope ls` lists them")
}

/// Returns the one session that a prefix names among those that match it; an exact id wins over longer ones.
pub(crate) fn one_of(prefix: &str, mut found: Vec<SessionId>) -> Result<Option<SessionId>, CliError> {
    found.sort();
    found.dedup();
    if found.iter().any(|id| id.as_str() == prefix) {
        return Ok(Some(SessionId::from(prefix)));
    }
    if found.len() > 1 {
        let message = format!("{prefix:?} is the beginning of {} sessions' ids", found.len());
        return Err(CliError::usage(message).hint("give more of the id"));
    }
    Ok(found.pop())
}

/// Waits for a just started hub to finish its initial scan, at most [`CATCH_UP_TIMEOUT`]. Returns whether it has
/// finished; the scan reads the newest sessions first.
fn wait_until_caught_up(client: &mut Client) -> bool {
    let began = clock::tick();
    loop {
        // A broken connection is an error of the next query.
        let is_reading = client.health().is_ok_and(|health| health.is_reading);
        if !is_reading || began.elapsed() > CATCH_UP_TIMEOUT {
            return !is_reading;
        }
        std::thread::sleep(POLL);
    }
}
