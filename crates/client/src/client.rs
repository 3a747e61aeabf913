//! Questions to a hub, one at a time over a connection that is kept.

use std::time::Duration;

use serde::de::DeserializeOwned;
use subscope_model::{
    AgentId, Health, Hits, Names, OneAgent, Ordered, SessionId, SessionPage, Stats, Status, Tree,
};

use crate::{
    connection::{Address, Connection, PATIENCE},
    error::ClientError,
    http::{Body, Head, escape},
};

/// Where a hub says how it is.
const HEALTH: &str = "/healthz";

/// Which sessions are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// At most so many; the hub's own limit where none is given.
    pub limit: Option<usize>,
    /// Behind the page whose `next` this is.
    pub after: Option<String>,
    /// Only those of which something has not ended.
    pub only_live: bool,
}

/// Asks a hub.
pub struct Client {
    pub(crate) address: Address,
    /// Kept between questions, so that the next need not connect.
    pub(crate) connection: Option<Connection>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to a hub.
    ///
    /// # Errors
    ///
    /// Where nobody listens, or it is not known who.
    pub fn connect(address: Address) -> Result<Self, ClientError> {
        let connection = Some(Connection::open(&address, PATIENCE)?);
        Ok(Self { address, connection })
    }

    /// Connects to a hub and asks how it is. Later answers may take longer than `limit`: a hub that shows a sign of life within
    /// it is waited for.
    ///
    /// # Errors
    ///
    /// Where nobody listens, or it is not known who; [`ClientError::Unresponsive`] where the hub does not answer within `limit`.
    pub fn greet(address: Address, limit: Duration) -> Result<(Self, Health), ClientError> {
        let connection = Connection::open(&address, limit)?;
        let pid = connection.peer_pid();
        let mut client = Self { address, connection: None };
        let answer = client.exchange(connection, "GET", HEALTH, None).map_err(|error| match error {
            error if error.is_timeout() => ClientError::Unresponsive { address: client.address.clone(), pid },
            error => error,
        })?;
        let health = serde_json::from_slice(&answer).map_err(ClientError::Garbled)?;
        if let Some(connection) = &client.connection {
            connection.set_patience(PATIENCE)?;
        }
        Ok((client, health))
    }

    /// Where it asks.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Asks how the hub is.
    pub fn health(&mut self) -> Result<Health, ClientError> {
        self.get(HEALTH)
    }

    /// Asks for a page of sessions, the newest first.
    pub fn sessions(&mut self, query: &SessionQuery) -> Result<SessionPage, ClientError> {
        let limit = query.limit.map(|limit| limit.to_string());
        self.get(&with_query(
            "/api/v1/sessions",
            &[
                ("limit", limit.as_deref()),
                ("after", query.after.as_deref()),
                ("live", query.only_live.then_some("true")),
            ],
        ))
    }

    /// Asks for a session's tree; `None` where there is no such session.
    pub fn tree(&mut self, session: &SessionId) -> Result<Option<Tree>, ClientError> {
        known(self.get(&format!("/api/v1/sessions/{}/tree", escape(session))))
    }

    /// Asks for an agent, in one session or in whichever has one of that id; `None` where none has.
    pub fn agent(
        &mut self,
        session: Option<&SessionId>,
        agent: &AgentId,
    ) -> Result<Option<OneAgent>, ClientError> {
        let path = format!("/api/v1/agents/{}", escape(agent));
        known(self.get(&with_query(&path, &[("session", session.map(SessionId::as_str))])))
    }

    /// Asks which ids begin so, at most `limit` sessions' and as many subagents'.
    pub fn names(&mut self, prefix: &str, limit: usize) -> Result<Names, ClientError> {
        let limit = limit.to_string();
        self.get(&with_query("/api/v1/names", &[("prefix", Some(prefix)), ("limit", Some(&limit))]))
    }

    /// Asks for the newest passages that have all these words; one of several words is a phrase, one that ends in `*`
    /// stands for all that begin so. `None` where the hub has no full text.
    pub fn search(
        &mut self,
        terms: &[String],
        session: Option<&SessionId>,
        limit: usize,
    ) -> Result<Option<Hits>, ClientError> {
        let quote = |term: &String| {
            let term = term.replace('"', " ");
            if term.trim().contains(char::is_whitespace) { format!("\"{term}\"") } else { term }
        };
        let query = terms.iter().map(quote).collect::<Vec<_>>().join(" ");
        let limit = limit.to_string();
        let parts =
            [("q", Some(&*query)), ("session", session.map(SessionId::as_str)), ("limit", Some(&*limit))];
        known(self.get(&with_query("/api/v1/search", &parts)))
    }

    /// Asks for figures over everything.
    pub fn stats(&mut self) -> Result<Stats, ClientError> {
        self.get("/api/v1/stats")
    }

    /// Asks how everything that is at work stands, or one session; of one that is not known it counts none.
    pub fn status(&mut self, session: Option<&SessionId>) -> Result<Status, ClientError> {
        self.get(&with_query("/api/v1/status", &[("session", session.map(SessionId::as_str))]))
    }

    /// Orders that one subagent at work stop; session and agent may be beginnings of ids. It answers once the order is kept.
    pub fn stop(&mut self, session: Option<&str>, agent: &str) -> Result<Ordered, ClientError> {
        let path = format!("/api/v1/agents/{}/stop", escape(agent));
        let answer = self.post(&with_query(&path, &[("session", session)]), b"{}")?;
        serde_json::from_slice(&answer).map_err(ClientError::Garbled)
    }

    /// Asks the hub to finish what it has begun, to take nothing more, and to leave. It answers before it does.
    pub fn drain(&mut self) -> Result<(), ClientError> {
        self.post("/api/v1/drain", b"{}").map(drop)
    }

    /// Asks for an address at which one browser is shown the page.
    pub fn page(&mut self) -> Result<String, ClientError> {
        #[derive(serde::Deserialize)]
        struct Page {
            url: String,
        }
        let answer = self.post("/api/v1/codes", b"{}")?;
        serde_json::from_slice::<Page>(&answer).map(|page| page.url).map_err(ClientError::Garbled)
    }

    /// Asks something by its path.
    pub fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        let kept = self.connection.take().map(|connection| self.exchange(connection, "GET", path, None));
        // A hub closes what is idle: whether it did is known only now. Asking twice is harmless.
        let body = match kept.filter(|answer| !answer.as_ref().is_err_and(ClientError::is_closed)) {
            None => self.exchange(Connection::open(&self.address, PATIENCE)?, "GET", path, None)?,
            Some(answer) => answer?,
        };
        serde_json::from_slice(&body).map_err(ClientError::Garbled)
    }

    /// Posts JSON and returns the answer's body. It is sent once, over a connection of its own: whether an answer that does
    /// not come means that it was not taken, only the caller can know.
    pub fn post(&mut self, path: &str, json: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.connection = None;
        self.exchange(Connection::open(&self.address, PATIENCE)?, "POST", path, Some(json))
    }

    fn exchange(
        &mut self,
        connection: Connection,
        method: &str,
        path: &str,
        body: Option<&[u8]>,
    ) -> Result<Vec<u8>, ClientError> {
        let kind = [("content-type", "application/json"), ("x-subscope", "1")];
        let headers = if body.is_some() { kind.as_slice() } else { &[] };
        self.exchange_with(connection, method, path, headers, body)
    }

    pub(crate) fn exchange_with(
        &mut self,
        mut connection: Connection,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<Vec<u8>, ClientError> {
        let head = connection.ask(method, path, headers, body)?;
        let answer = connection.read_body(head.body)?;
        if head.is_kept {
            self.connection = Some(connection);
        }
        if matches!(head.status, 200..300) { Ok(answer) } else { Err(refused(head.status, &answer)) }
    }

    /// Opens the live feed over a connection of its own, behind a place where one is given.
    pub(crate) fn open_live(&self, after: Option<u64>) -> Result<(Connection, Body), ClientError> {
        let mut connection = Connection::open(&self.address, PATIENCE)?;
        let after = after.map(|after| after.to_string());
        let place = after.as_deref().map(|after| ("last-event-id", after));
        let head: Head =
            connection.ask("GET", "/api/v1/live", &place.into_iter().collect::<Vec<_>>(), None)?;
        if head.status != 200 {
            let answer = connection.read_body(head.body)?;
            return Err(refused(head.status, &answer));
        }
        Ok((connection, head.body))
    }
}

/// What is refused as missing is none.
fn known<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

fn refused(status: u16, answer: &[u8]) -> ClientError {
    #[derive(serde::Deserialize)]
    struct Said {
        error: String,
    }
    let said = serde_json::from_slice::<Said>(answer).map(|said| said.error);
    ClientError::Refused { status, message: said.unwrap_or_default() }
}

fn with_query(path: &str, parts: &[(&str, Option<&str>)]) -> String {
    let given = parts.iter().filter_map(|(name, value)| Some(format!("{name}={}", escape((*value)?))));
    let query = given.collect::<Vec<_>>().join("&");
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}
