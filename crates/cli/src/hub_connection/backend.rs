//! The one way in which commands ask: a hub over its socket; where there is none the store, in this process.

use std::time::Duration;

use subscope_client::{Client, ClientError, SessionQuery};
use subscope_collect::archive::Archive;
use subscope_hub::{ListQuery, clock, search::search};
use subscope_model::{
    AgentId, AgentName, HITS_SCHEMA, Health, Hits, NAMES_SCHEMA, Names, SESSIONS_SCHEMA, SessionId,
    SessionPage, Stats, Status, Tree,
};
use subscope_store::{Access, History, OpenError, SqliteStore, TextIndex};

use super::{HubConnection, NoHub, Start};
use crate::{
    command::{
        history::{self, failed},
        target::limits,
    },
    context::Context,
    error::{CliError, Kind},
};

/// How many sessions at work figures are made of.
const MOST_LIVE: usize = 200;
/// How long an answer waits for what is not read yet: so that the first sessions of years are seen within a second.
const CATCH_UP: Duration = Duration::from_millis(700);
const POLL: Duration = Duration::from_millis(10);
/// The greatest page that a hub gives.
const PAGE: usize = 1_000;

/// The word for the first session that `ls` lists.
pub(crate) const LAST: &str = "last";

/// How many sessions whose ids begin alike are looked at, and counted, where one is to be named.
pub(crate) const NAMESAKES: usize = 100;

/// What a command needs to be up to date, and whether a hub is started for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// What was kept is enough; no hub is started.
    Kept,
    /// Rows, now and then as often as several times a second; no hub is started.
    Glance,
    /// Rows.
    Rows,
    /// Rows and the full text.
    Texts,
}

/// Answers.
pub(crate) enum Backend {
    /// A hub.
    Hub(Client),
    /// The store, which nobody else writes, or which is read beside whoever does.
    Store(Box<SqliteStore>, Option<(TextIndex, Archive)>),
}

impl Backend {
    /// Finds who answers. Where that is the store, what is new is taken in first, so that nothing has to be kept running
    /// for an answer to be true; where another process writes it, what that one has committed is told.
    pub(crate) fn open(needs: Needs, context: &Context) -> Result<Self, CliError> {
        let start = match needs {
            Needs::Kept | Needs::Glance => Start::Never,
            Needs::Rows | Needs::Texts => Start::IfNone,
        };
        match HubConnection::new(start, context)?.hub() {
            Ok(mut client) => {
                if start == Start::IfNone && !is_caught_up(&mut client) {
                    context.say("sessions of before are still being read; this is what is there by now");
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
        if needs == Needs::Kept {
            return Self::committed(needs, context);
        }
        match history::open_rows(Access::Write, context)? {
            Ok(mut store) => {
                let mut texts = texts(needs, Access::Write, context)?;
                let words = texts.as_mut().map(|(texts, _)| texts);
                history::take_in_new(&mut store, words, context)?;
                Ok(Self::Store(Box::new(store), texts))
            }
            Err(OpenError::Locked(_)) => {
                context.say("another process writes the store; this is what it has committed");
                Self::committed(needs, context)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Reads the store as it stands, beside whoever writes it.
    fn committed(needs: Needs, context: &Context) -> Result<Self, CliError> {
        let texts = texts(needs, Access::Read, context)?;
        let store = history::open_rows(Access::Read, context)?.map_err(failed)?;
        Ok(Self::Store(Box::new(store), texts))
    }

    /// Sessions, the newest first, at most `limit`.
    pub(crate) fn sessions(&mut self, limit: usize, only_live: bool) -> Result<SessionPage, CliError> {
        match self {
            Self::Hub(client) => pages(client, limit, only_live),
            Self::Store(store, _) => {
                let query = ListQuery { only_live, ..ListQuery::first(limit.saturating_add(1)) };
                Ok(SessionPage::of(store.list(&query).map_err(failed)?, limit))
            }
        }
    }

    /// A session's tree; `None` where it is not known.
    pub(crate) fn tree(&mut self, session: &SessionId) -> Result<Option<Tree>, CliError> {
        match self {
            Self::Hub(client) => client.tree(session).map_err(told),
            Self::Store(store, _) => store.tree(session).map_err(failed),
        }
    }

    /// The ids that begin so, at most `limit` of each kind.
    pub(crate) fn names(&mut self, prefix: &str, limit: usize) -> Result<Names, CliError> {
        match self {
            Self::Hub(client) => client.names(prefix, limit).map_err(told),
            Self::Store(store, _) => {
                let name = |(session_id, agent_id): (SessionId, AgentId)| AgentName { session_id, agent_id };
                let agents = store.agents_with_prefix(prefix, limit).map_err(failed)?;
                Ok(Names {
                    schema: NAMES_SCHEMA.into(),
                    sessions: store.sessions_with_prefix(prefix, limit).map_err(failed)?,
                    agents: agents.into_iter().map(name).collect(),
                })
            }
        }
    }

    /// Figures over everything.
    pub(crate) fn stats(&mut self) -> Result<Stats, CliError> {
        match self {
            Self::Hub(client) => client.stats().map_err(told),
            Self::Store(store, _) => store.stats().map_err(failed),
        }
    }

    /// The newest passages that have all these terms.
    pub(crate) fn search(
        &mut self,
        terms: &[String],
        session: Option<SessionId>,
        limit: usize,
    ) -> Result<Hits, CliError> {
        let none = || CliError::new(Kind::Failed, "there is no full text");
        match self {
            Self::Hub(client) => {
                client.search(terms, session.as_ref(), limit).map_err(told)?.ok_or_else(none)
            }
            Self::Store(store, texts) => {
                let (texts, archive) = texts.as_ref().ok_or_else(none)?;
                let hits = search(&**store, texts, archive, terms, session, limit).map_err(failed)?;
                Ok(Hits { schema: HITS_SCHEMA.into(), hits })
            }
        }
    }

    /// How everything at work stands, or one session.
    pub(crate) fn status(
        &mut self,
        session: Option<&SessionId>,
        context: &Context,
    ) -> Result<Status, CliError> {
        let store = match self {
            Self::Hub(client) => return client.status(session).map_err(told),
            Self::Store(store, _) => store,
        };
        let ids: Vec<SessionId> = match session {
            Some(session) => vec![session.clone()],
            None => {
                let query = ListQuery::live(MOST_LIVE);
                // NoHub is there who concludes by the time: a row says what stood when it was last written.
                let since = context.now_ms() - limits(context).longest_ms();
                let rows = store.list(&query).map_err(failed)?.into_iter();
                rows.filter(|row| row.last_event_at_ms >= Some(since)).map(|row| row.id).collect()
            }
        };
        let mut trees = Vec::new();
        for id in &ids {
            trees.extend(store.tree(id).map_err(failed)?);
        }
        Ok(Status::of(&trees, context.now_ms()))
    }

    /// What the hub says of itself; `None` where there is none.
    pub(crate) fn health(&mut self) -> Option<Health> {
        match self {
            Self::Hub(client) => client.health().ok(),
            Self::Store(..) => None,
        }
    }

    /// An address at which one browser is shown the page; `None` where no hub serves it.
    pub(crate) fn page(&mut self) -> Option<String> {
        match self {
            Self::Hub(client) => client.page().ok(),
            Self::Store(..) => None,
        }
    }

    /// Finds the one session whose id begins so; `last` is the newest.
    pub(crate) fn session(&mut self, word: &str) -> Result<SessionId, CliError> {
        if word == LAST {
            return newest(self.sessions(1, false)?);
        }
        let found = self.names(word, NAMESAKES)?.sessions;
        one_of(word, found)?.ok_or_else(|| unknown(word))
    }
}

/// Opens the full text where it is needed, with the archive that its passages may stand in.
fn texts(needs: Needs, access: Access, context: &Context) -> Result<Option<(TextIndex, Archive)>, CliError> {
    match needs {
        Needs::Kept | Needs::Glance | Needs::Rows => Ok(None),
        Needs::Texts => {
            let texts = TextIndex::open(&context.data_folder()?, access).map_err(failed)?;
            Ok(Some((texts, history::archive(context)?)))
        }
    }
}

/// Finds the one session of a store whose id begins so; `last` is the newest.
pub(crate) fn session_in(store: &SqliteStore, word: &str) -> Result<SessionId, CliError> {
    if word == LAST {
        return newest(SessionPage::of(store.list(&ListQuery::first(1)).map_err(failed)?, 1));
    }
    one_of(word, store.sessions_with_prefix(word, NAMESAKES).map_err(failed)?)?.ok_or_else(|| unknown(word))
}

/// The first that is listed.
fn newest(page: SessionPage) -> Result<SessionId, CliError> {
    let row = page.sessions.into_iter().next();
    row.map(|row| row.id).ok_or_else(|| CliError::new(Kind::Failed, "no sessions yet"))
}

/// The failure where no session is called so.
fn unknown(word: &str) -> CliError {
    CliError::new(Kind::Failed, format!("no session's id begins with {word:?}"))
        .hint("`subscope ls` lists them")
}

/// Finds the one session that a word names among those whose ids begin so: a whole id is better than the beginning of another.
pub(crate) fn one_of(prefix: &str, mut found: Vec<SessionId>) -> Result<Option<SessionId>, CliError> {
    found.sort();
    found.dedup();
    if found.iter().any(|id| id.as_str() == prefix) {
        return Ok(Some(SessionId::from(prefix)));
    }
    if found.len() > 1 {
        let message = format!("{prefix:?} is the beginning of {} sessions' ids", found.len());
        return Err(CliError::new(Kind::Usage, message).hint("give more of the id"));
    }
    Ok(found.pop())
}

/// Waits until a hub that has just begun has read what stands in files. Returns whether that is so; what is there first are
/// the newest sessions.
fn is_caught_up(client: &mut Client) -> bool {
    let began = clock::tick();
    loop {
        // One that breaks off is met again with the next question.
        let is_reading = client.health().is_ok_and(|health| health.is_reading);
        if !is_reading || began.elapsed() > CATCH_UP {
            return !is_reading;
        }
        std::thread::sleep(POLL);
    }
}

/// Pages until there are so many sessions.
fn pages(client: &mut Client, limit: usize, only_live: bool) -> Result<SessionPage, CliError> {
    let mut all = SessionPage { schema: SESSIONS_SCHEMA.into(), ..SessionPage::default() };
    loop {
        let wanted = limit.saturating_sub(all.sessions.len()).min(PAGE);
        let after = all.next.take().map(|next| next.to_string());
        let query = SessionQuery { limit: Some(wanted), after, only_live };
        let page = client.sessions(&query).map_err(told)?;
        all.sessions.extend(page.sessions);
        all.next = page.next;
        if all.next.is_none() || all.sessions.len() >= limit {
            // NoHub can be asked for none.
            all.sessions.truncate(limit);
            return Ok(all);
        }
    }
}

/// A hub that breaks off or refuses, as an error of a command.
fn told(error: ClientError) -> CliError {
    CliError::caused(Kind::Failed, error)
}
