//! Query interface of the commands: served by the hub over its socket, or by the store in this process if no hub runs.

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
    time::Duration,
};

use subscope_client::{Client, SessionQuery};
use subscope_collect::{archive::Archive, sessions_below};
use subscope_hub::{ListQuery, clock, search::search};
use subscope_model::{
    AgentId, AgentName, HITS_SCHEMA, Health, Hits, IdMatches, NAMES_SCHEMA, SESSIONS_SCHEMA, STATS_SCHEMA,
    SearchQuery, SessionId, SessionPage, Stats, StatsQuery, Status, Text, Tree,
};
use subscope_program::CliError;
use subscope_store::{Access, OpenError, SessionQueries, SqliteStore, TextIndex, is_disk_full};

use super::{HubConnection, NoHub, StartPolicy};
use crate::{
    command::{
        history,
        target::{ReadOptions, load_session, roots},
    },
    context::Context,
    team_server,
};

/// Most live sessions that a status is made of.
const MAX_LIVE: usize = 200;
/// Time that a command waits for a hub's initial scan: over years of sessions the newest are listed within a second.
const CATCH_UP_TIMEOUT: Duration = Duration::from_millis(700);
const POLL: Duration = Duration::from_millis(10);
/// Newest sessions whose working directories are the known projects.
const MAX_PROJECT_SESSIONS: usize = 10_000;
/// Largest page that a hub returns.
const MAX_PAGE: usize = 1_000;

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

/// Source of answers.
pub(crate) enum Backend {
    Hub(Client),
    /// The store, opened by this process alone or read while another process writes it; with the full text if needed.
    Store(Box<SqliteStore>, Option<(TextIndex, Archive)>),
    /// There is no data folder, and none is created for this question: only the sessions with a transcript are known,
    /// if there are any.
    Nothing(Vec<SessionId>),
}

impl Backend {
    /// Connects to the hub, or opens the store. The store is indexed first, so that answers are up to date without a
    /// running hub; if another process writes it, answers are what that process has committed. Where there is neither a
    /// data folder nor a session, both stay away.
    pub(crate) fn open(needs: Needs, context: &Context) -> Result<Self, CliError> {
        if let Some(server) = team_server::asked(context)? {
            return Ok(Self::Hub(Client::of_team(server)));
        }
        let start = match needs {
            Needs::Committed | Needs::RowsNoStart => StartPolicy::Never,
            Needs::Rows | Needs::Texts => StartPolicy::IfNone,
        };
        if !context.data_folder()?.exists() {
            let on_disk = roots(context).into_iter().flat_map(|root| sessions_below(&root));
            let on_disk: Vec<_> = on_disk.map(|(id, _)| id).collect();
            if start == StartPolicy::Never || on_disk.is_empty() {
                return Ok(Self::Nothing(on_disk));
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
    fn indexed(mut store: SqliteStore, needs: Needs, context: &Context) -> Result<Self, CliError> {
        let mut texts = texts(needs, Access::Write, context)?;
        let words = texts.as_mut().map(|(texts, _)| texts);
        history::index_new(&mut store, words, context)?;
        Ok(Self::Store(Box::new(store), texts))
    }

    /// Opens the store read-only: answers are what its writer has committed.
    fn committed(needs: Needs, context: &Context) -> Result<Self, CliError> {
        let texts = texts(needs, Access::Read, context)?;
        let store = history::open_rows(Access::Read, context)??;
        Ok(Self::Store(Box::new(store), texts))
    }

    /// Returns the newest sessions that match some words ([`subscope_model::SessionRow::matches`]) first, at most `limit`.
    pub(crate) fn sessions(
        &mut self,
        limit: usize,
        only_live: bool,
        words: &str,
    ) -> Result<SessionPage, CliError> {
        match self {
            Self::Hub(client) => fetch_pages(client, limit, only_live, words),
            Self::Store(store, _) => {
                let query = ListQuery::of_words(limit.saturating_add(1), words.to_owned());
                let query = ListQuery { only_live, ..query };
                Ok(SessionPage::of(store.list(&query)?, limit))
            }
            Self::Nothing(_) => Ok(SessionPage::of(Vec::new(), limit)),
        }
    }

    /// Returns a session's tree; `None` if it is unknown.
    pub(crate) fn tree(&mut self, session: &SessionId) -> Result<Option<Tree>, CliError> {
        match self {
            Self::Hub(client) => Ok(client.tree(session)?),
            Self::Store(store, _) => Ok(store.tree(session)?),
            Self::Nothing(_) => Ok(None),
        }
    }

    /// Returns session and agent ids with a prefix, at most `limit` of each.
    pub(crate) fn names(&mut self, prefix: &str, limit: usize) -> Result<IdMatches, CliError> {
        match self {
            Self::Hub(client) => Ok(client.names(prefix, limit)?),
            Self::Store(store, _) => {
                let name = |(session_id, agent_id): (SessionId, AgentId)| AgentName { session_id, agent_id };
                let agents = store.agents_with_prefix(prefix, limit)?;
                Ok(IdMatches {
                    schema: NAMES_SCHEMA.into(),
                    sessions: store.sessions_with_prefix(prefix, limit)?,
                    agents: agents.into_iter().map(name).collect(),
                })
            }
            Self::Nothing(on_disk) => {
                let matching = on_disk.iter().filter(|session| session.starts_with(prefix));
                let sessions = matching.take(limit).cloned().collect();
                Ok(IdMatches { schema: NAMES_SCHEMA.into(), sessions, ..IdMatches::default() })
            }
        }
    }

    pub(crate) fn stats(&mut self, query: &StatsQuery) -> Result<Stats, CliError> {
        match self {
            Self::Hub(client) => Ok(client.stats(query)?),
            Self::Store(store, _) => Ok(store.stats(query)?),
            Self::Nothing(_) => Ok(Stats { schema: STATS_SCHEMA.into(), ..Stats::default() }),
        }
    }

    /// Returns the projects of the newest sessions, and the working directories.
    pub(crate) fn projects(&mut self) -> Result<BTreeSet<Text>, CliError> {
        let rows = self.sessions(MAX_PROJECT_SESSIONS, false, "")?.sessions;
        Ok(rows.into_iter().flat_map(|row| [row.cwd, row.project]).flatten().collect())
    }

    /// Returns the newest passages that match.
    pub(crate) fn search(&mut self, query: &SearchQuery) -> Result<Hits, CliError> {
        let none = || CliError::failed("there is no full-text index");
        match self {
            Self::Hub(client) => client.search(query)?.ok_or_else(none),
            Self::Store(store, texts) => {
                let (texts, archive) = texts.as_ref().ok_or_else(none)?;
                Ok(search(&**store, &[], texts, archive, query)?)
            }
            Self::Nothing(_) => Ok(Hits { schema: HITS_SCHEMA.into(), ..Hits::default() }),
        }
    }

    /// Returns the status of all live sessions, or of one session.
    pub(crate) fn status(
        &mut self,
        session: Option<&SessionId>,
        context: &Context,
    ) -> Result<Status, CliError> {
        let store = match self {
            Self::Hub(client) => return Ok(client.status(session)?),
            Self::Store(store, _) => store,
            Self::Nothing(_) => {
                let read = |session| load_session(session, &ReadOptions::ROWS, context);
                let tree = session.and_then(|session| read(session).ok()).map(|loaded| loaded.tree);
                return Ok(Status::of(tree.as_slice(), context.now_ms()));
            }
        };
        let ids: Vec<SessionId> = match session {
            Some(session) => vec![session.clone()],
            None => {
                // Rows in the store are as they were when last written: no hub has marked silent sessions as lost. Skip
                // those beyond the limit.
                let since = context.now_ms() - context.limits().longest_ms();
                let rows = store.list(&ListQuery::live(MAX_LIVE))?.into_iter();
                rows.filter(|row| row.last_event_at_ms >= Some(since)).map(|row| row.id).collect()
            }
        };
        let trees = ids.iter().filter_map(|id| store.tree(id).transpose()).collect::<Result<Vec<_>, _>>()?;
        Ok(Status::of(&trees, context.now_ms()))
    }

    /// Returns the files of this machine from which stored rows are derived; `None` if the answers are about other
    /// machines, or the store cannot be read.
    pub(crate) fn files_with_rows(&self, context: &Context) -> Result<Option<HashSet<PathBuf>>, CliError> {
        let of = |store: &SqliteStore| -> Result<_, CliError> {
            Ok(Some(store.sources()?.into_iter().map(|source| source.path).collect()))
        };
        match self {
            Self::Store(store, _) => of(store),
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
        let found = self.names(word, MAX_PREFIX_MATCHES)?.sessions;
        one_of(word, found)?.ok_or_else(|| unknown_session(word))
    }
}

/// Says that the disk of a data folder is full.
fn warn_of_full_disk(folder: &Path, context: &Context) {
    let folder = folder.display();
    context
        .warn(&format!("the disk of {folder} is full: what is new since is not stored and may be missing"));
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
        return first_session(SessionPage::of(store.list(&ListQuery::of_words(1, String::new()))?, 1));
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

/// Requests pages until there are `limit` sessions.
fn fetch_pages(
    client: &mut Client,
    limit: usize,
    only_live: bool,
    words: &str,
) -> Result<SessionPage, CliError> {
    let mut all = SessionPage { schema: SESSIONS_SCHEMA.into(), ..SessionPage::default() };
    loop {
        let wanted = limit.saturating_sub(all.sessions.len()).min(MAX_PAGE);
        let after = all.next.take().map(|next| next.to_string());
        let query = SessionQuery { limit: Some(wanted), after, only_live, words: words.to_owned() };
        let page = client.sessions(&query)?;
        all.sessions.extend(page.sessions);
        all.next = page.next;
        if all.next.is_none() || all.sessions.len() >= limit {
            // The hub returns at least one session, even for a limit of 0.
            all.sessions.truncate(limit);
            return Ok(all);
        }
    }
}
