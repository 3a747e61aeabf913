//! Client of the hub's HTTP API: one request at a time over a keep-alive connection.

use std::{path::PathBuf, time::Duration};

use serde::de::DeserializeOwned;
use subscope_model::{
    AgentId, Health, Hits, IdMatches, Inbox, Jumped, Looks, Millis, OneAgent, Ordered, PermissionAnswered,
    PermissionDecision, PermissionRequests, SESSIONS_SCHEMA, SearchQuery, SessionId, SessionOrder,
    SessionPage, Stats, StatsQuery, Status, Text, Tree, Zone,
};
use subscope_query::{ListQuery, Queries, QueryError, QueryResult};

use crate::{
    connection::{Address, Connection, RESPONSE_TIMEOUT},
    error::ClientError,
    http::{BodyFraming, ResponseHead, error_field, escape},
};

/// Health route.
const HEALTH: &str = "/healthz";

/// Largest page of sessions that a server returns.
const MAX_PAGE: usize = 1_000;

/// A client of the hub's HTTP API.
#[derive(Debug)]
pub struct Client {
    address: Address,
    /// Keep-alive connection for the next request.
    connection: Option<Connection>,
    /// The team's server that answers instead of a hub.
    #[cfg(feature = "push")]
    remote: Option<crate::remote::Remote>,
}

/// Headers of a request with a JSON body.
const JSON_HEADERS: [(&str, &str); 2] = [("content-type", "application/json"), ("x-subscope", "1")];

/// A hub's answer to lines that it has stored.
#[derive(Clone, Debug, Default, serde::Deserialize)]
pub struct IngestAnswer {
    /// Whether they were stored before.
    #[serde(default)]
    pub repeat: bool,
    /// Agents of published events that a user asked to stop.
    #[serde(default)]
    pub stop: Vec<AgentId>,
}

impl Client {
    /// Connects to a hub.
    ///
    /// # Errors
    ///
    /// Nothing listens at the address, or the socket's directory is writable by others.
    pub fn connect(address: Address) -> Result<Self, ClientError> {
        let connection = Some(Connection::open(&address, RESPONSE_TIMEOUT)?);
        Ok(Self::with(address, connection))
    }

    fn with(address: Address, connection: Option<Connection>) -> Self {
        Self {
            address,
            connection,
            #[cfg(feature = "push")]
            remote: None,
        }
    }

    /// Returns a client of a team's server, which answers the queries of a hub. Does not connect.
    #[cfg(feature = "push")]
    pub fn of_team(remote: crate::remote::Remote) -> Self {
        let address = Address::Url(remote.url().to_owned());
        Self { remote: Some(remote), ..Self::with(address, None) }
    }

    /// Connects to a hub and requests its health within `limit`. Later requests have the longer default timeout.
    ///
    /// # Errors
    ///
    /// Nothing listens at the address, or the socket's directory is writable by others; [`ClientError::Unresponsive`]
    /// if the hub does not answer within `limit`.
    pub fn greet(address: Address, limit: Duration) -> Result<(Self, Health), ClientError> {
        let connection = Connection::open(&address, limit)?;
        let pid = connection.peer_pid;
        let mut client = Self::with(address, None);
        let answer = client.exchange(connection, "GET", HEALTH, &[], None).map_err(|error| match error {
            error if error.is_timeout() => ClientError::Unresponsive { address: client.address.clone(), pid },
            error => error,
        })?;
        let health = serde_json::from_slice(&answer).map_err(ClientError::Garbled)?;
        if let Some(connection) = &client.connection {
            connection.set_timeout(RESPONSE_TIMEOUT)?;
        }
        Ok((client, health))
    }

    /// The hub's address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Requests the hub's health.
    pub fn health(&mut self) -> Result<Health, ClientError> {
        self.get(HEALTH)
    }

    /// Requests a session's events, and drops them.
    ///
    /// # Errors
    /// The server does not have them; its message names the machine that does.
    #[cfg(feature = "push")]
    pub fn has_events(&mut self, session: &SessionId) -> Result<(), ClientError> {
        let path = format!("/api/v1/sessions/{}/events", escape(session));
        self.get::<serde::de::IgnoredAny>(&path).map(|_| ())
    }

    /// Orders a live subagent to stop; session and agent may be id prefixes. Returns once the order is stored.
    pub fn stop(&mut self, session: Option<&str>, agent: &str) -> Result<Ordered, ClientError> {
        let path = format!("/api/v1/agents/{}/stop", escape(agent));
        let answer = self.post(&with_query(&path, &[("session", session)]), b"{}")?;
        serde_json::from_slice(&answer).map_err(ClientError::Garbled)
    }

    /// Dismisses facts of a session ([`subscope_model::InboxEntry::facts`]). Returns once that is stored.
    pub fn dismiss(&mut self, session: &SessionId, facts: &[Text]) -> Result<(), ClientError> {
        let body =
            serde_json::to_vec(&serde_json::json!({ "facts": facts })).map_err(ClientError::Garbled)?;
        self.post(&format!("/api/v1/sessions/{}/dismiss", escape(session)), &body).map(drop)
    }

    /// Goes to the terminal of a session, on the hub's machine.
    pub fn jump(&mut self, session: &SessionId) -> Result<Jumped, ClientError> {
        let answer = self.post(&format!("/api/v1/sessions/{}/jump", escape(session)), b"{}")?;
        serde_json::from_slice(&answer).map_err(ClientError::Garbled)
    }

    /// Requests the permission requests that wait for an answer. Does not count as looking at them.
    pub fn permissions(&mut self) -> Result<PermissionRequests, ClientError> {
        self.get("/api/v1/permissions")
    }

    /// The same for a frontend at which a person looks: the hub holds requests for the next ten seconds.
    pub fn look_at_permissions(&mut self) -> Result<PermissionRequests, ClientError> {
        self.get("/api/v1/permissions?looking=true")
    }

    /// Answers a permission request. Returns once its hook has the decision.
    pub fn answer_permission(
        &mut self,
        id: &str,
        decision: &PermissionDecision,
    ) -> Result<PermissionAnswered, ClientError> {
        let body = serde_json::to_vec(decision).map_err(ClientError::Garbled)?;
        let answer = self.post(&format!("/api/v1/permissions/{}/answer", escape(id)), &body)?;
        serde_json::from_slice(&answer).map_err(ClientError::Garbled)
    }

    /// Marks everything that ended up to a time as seen. Returns once that is stored.
    pub fn mark_seen(&mut self, until_ms: Millis) -> Result<(), ClientError> {
        let body =
            serde_json::to_vec(&serde_json::json!({ "until_ms": until_ms })).map_err(ClientError::Garbled)?;
        self.post("/api/v1/seen", &body).map(drop)
    }

    /// Asks the hub to drain: finish pending work, accept nothing new, and exit. Returns before it has exited.
    pub fn drain(&mut self) -> Result<(), ClientError> {
        self.post("/api/v1/drain", b"{}").map(drop)
    }

    /// Has the hub index folders, given by absolute paths. Returns before it has: [`Health::is_reading`] is true until
    /// then. Only over the Unix socket.
    pub fn index(&mut self, roots: &[PathBuf]) -> Result<(), ClientError> {
        let body =
            serde_json::to_vec(&serde_json::json!({ "roots": roots })).map_err(ClientError::Garbled)?;
        self.post("/api/v1/index", &body).map(drop)
    }

    /// Requests a one-time URL of the web page.
    pub fn page(&mut self) -> Result<String, ClientError> {
        #[derive(serde::Deserialize)]
        struct Page {
            url: String,
        }
        let answer = self.post("/api/v1/codes", b"{}")?;
        serde_json::from_slice::<Page>(&answer).map(|page| page.url).map_err(ClientError::Garbled)
    }

    /// Ingests complete lines of a dialect; lines of a source must be posted in order. Returns once they are stored.
    /// `delivery` is an idempotency key: a batch posted again under the same key is stored once, so a caller without a
    /// response can retry.
    ///
    /// # Errors
    ///
    /// The hub cannot be reached or has not stored the lines.
    pub fn ingest(
        &mut self,
        dialect: &str,
        source: &str,
        delivery: &str,
        lines: &[u8],
    ) -> Result<IngestAnswer, ClientError> {
        let path = format!("/api/v1/ingest/{}?source={}", escape(dialect), escape(source));
        let headers = [("content-type", "application/x-ndjson"), ("x-subscope-delivery", delivery)];
        let answer = self.request_repeatable("POST", &path, &headers, Some(lines))?;
        serde_json::from_slice(&answer).map_err(ClientError::Garbled)
    }

    /// Sends a GET request and parses the JSON response.
    pub fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        let body = self.request_repeatable("GET", path, &[], None)?;
        serde_json::from_slice(&body).map_err(ClientError::Garbled)
    }

    /// Posts JSON and returns the response body. Sent once, over a new connection: without a response, the caller has
    /// to find out whether the hub has processed it.
    pub fn post(&mut self, path: &str, json: &[u8]) -> Result<Vec<u8>, ClientError> {
        #[cfg(feature = "push")]
        if let Some(remote) = &self.remote {
            return remote.request("POST", path, &JSON_HEADERS, Some(json));
        }
        self.connection = None;
        let connection = Connection::open(&self.address, RESPONSE_TIMEOUT)?;
        self.exchange(connection, "POST", path, &JSON_HEADERS, Some(json))
    }

    /// Sends a request that may be repeated, over the kept connection if the hub has not closed it meanwhile.
    fn request_repeatable(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<Vec<u8>, ClientError> {
        #[cfg(feature = "push")]
        if let Some(remote) = &self.remote {
            return remote.request(method, path, headers, body);
        }
        if let Some(connection) = self.connection.take() {
            let answer = self.exchange(connection, method, path, headers, body);
            // That the idle connection was closed shows only now.
            if !answer.as_ref().is_err_and(ClientError::is_closed) {
                return answer;
            }
        }
        let connection = Connection::open(&self.address, RESPONSE_TIMEOUT)?;
        self.exchange(connection, method, path, headers, body)
    }

    fn exchange(
        &mut self,
        mut connection: Connection,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<Vec<u8>, ClientError> {
        let head = connection.ask(method, path, headers, body)?;
        let answer = connection.read_body(head.body)?;
        if head.is_reusable {
            self.connection = Some(connection);
        }
        if matches!(head.status, 200..300) { Ok(answer) } else { Err(refused_error(head.status, &answer)) }
    }

    /// Opens the live feed over its own connection, after a position if one is given.
    pub(crate) fn open_live(&self, after: Option<u64>) -> Result<(Connection, BodyFraming), ClientError> {
        let mut connection = Connection::open(&self.address, RESPONSE_TIMEOUT)?;
        let after = after.map(|after| after.to_string());
        let position = after.as_deref().map(|after| ("last-event-id", after));
        let head: ResponseHead =
            connection.ask("GET", "/api/v1/live", &position.into_iter().collect::<Vec<_>>(), None)?;
        if head.status != 200 {
            let answer = connection.read_body(head.body)?;
            return Err(refused_error(head.status, &answer));
        }
        Ok((connection, head.body))
    }
}

/// Answers of a hub or a team's server.
impl Queries for Client {
    /// Requests pages until there are as many sessions as wanted. A server itself hides what [`ListQuery::hides_own`]
    /// does, by the words, and knows no [`ListQuery::kept_since`].
    fn sessions(&mut self, query: &ListQuery) -> QueryResult<SessionPage> {
        let mut after = query.after.as_ref().map(|(figure, id)| format!("{figure}~{id}"));
        let mut all = SessionPage { schema: SESSIONS_SCHEMA.into(), ..SessionPage::default() };
        loop {
            let limit = query.limit.saturating_sub(all.sessions.len()).min(MAX_PAGE).to_string();
            let (since, until) = (query.since.map(|at| at.to_string()), query.until.map(|at| at.to_string()));
            let order = Some(query.order).filter(|order| *order != SessionOrder::Newest);
            let page: SessionPage = self.get(&with_query(
                "/api/v1/sessions",
                &[
                    ("limit", Some(&*limit)),
                    ("after", after.as_deref()),
                    ("live", query.only_live.then_some("true")),
                    ("q", Some(&*query.words).filter(|words| !words.is_empty())),
                    ("project", query.project.as_deref()),
                    ("since", since.as_deref()),
                    ("until", until.as_deref()),
                    ("sort", order.map(SessionOrder::name)),
                ],
            ))?;
            all.sessions.extend(page.sessions);
            all.next = page.next;
            if all.next.is_none() || all.sessions.len() >= query.limit {
                // At least one session is returned, even for a limit of 0.
                all.sessions.truncate(query.limit);
                return Ok(all);
            }
            after = all.next.as_deref().map(str::to_owned);
        }
    }

    fn tree(&mut self, session: &SessionId) -> QueryResult<Option<Tree>> {
        Ok(none_if_missing(self.get(&format!("/api/v1/sessions/{}/tree", escape(session))))?)
    }

    fn looks(&mut self) -> QueryResult<Looks> {
        Ok(self.get("/api/v1/looks")?)
    }

    fn inbox(&mut self, _: Millis) -> QueryResult<Inbox> {
        Ok(self.get("/api/v1/inbox")?)
    }

    fn names(&mut self, prefix: &str, limit: usize) -> QueryResult<IdMatches> {
        let limit = limit.to_string();
        Ok(self.get(&with_query("/api/v1/names", &[("prefix", Some(prefix)), ("limit", Some(&limit))]))?)
    }

    fn agents_with_words(&mut self, words: &str, limit: usize) -> QueryResult<IdMatches> {
        let limit = limit.to_string();
        Ok(self.get(&with_query("/api/v1/names", &[("q", Some(words)), ("limit", Some(&limit))]))?)
    }

    fn stats(&mut self, query: &StatsQuery) -> QueryResult<Stats> {
        let StatsQuery { since, until, project, harness, time_zone } = query;
        let (since, until) = (since.map(|at| at.to_string()), until.map(|at| at.to_string()));
        let zone = time_zone.as_ref().filter(|zone| zone.is_named());
        let parts = [
            ("since", since.as_deref()),
            ("until", until.as_deref()),
            ("project", project.as_deref()),
            ("harness", harness.as_deref()),
            ("time_zone", zone.map(Zone::name)),
        ];
        Ok(self.get(&with_query("/api/v1/stats", &parts))?)
    }

    fn search(&mut self, query: &SearchQuery) -> QueryResult<Hits> {
        let quote = |term: &String| {
            let term = term.replace('"', " ");
            if term.trim().contains(char::is_whitespace) { format!("\"{term}\"") } else { term }
        };
        let words = query.terms.iter().map(quote).collect::<Vec<_>>().join(" ");
        let limit = query.limit.to_string();
        let (since, until) = (query.since.map(|at| at.to_string()), query.until.map(|at| at.to_string()));
        let parts = [
            ("q", Some(&*words)),
            ("session", query.session.as_deref()),
            ("kind", query.kind.as_deref()),
            ("tool", query.tool.as_deref()),
            ("project", query.project.as_deref()),
            ("since", since.as_deref()),
            ("until", until.as_deref()),
            ("failed", query.only_failed.then_some("true")),
            ("limit", Some(&*limit)),
        ];
        none_if_missing(self.get(&with_query("/api/v1/search", &parts)))?.ok_or(QueryError::NoFullText)
    }

    fn agent(&mut self, session: Option<&SessionId>, agent: &AgentId) -> QueryResult<Option<OneAgent>> {
        let path = format!("/api/v1/agents/{}", escape(agent));
        let path = with_query(&path, &[("session", session.map(SessionId::as_str))]);
        Ok(none_if_missing(self.get(&path))?)
    }

    fn status(&mut self, session: Option<&SessionId>, _: Millis) -> QueryResult<Status> {
        Ok(self.get(&with_query("/api/v1/status", &[("session", session.map(SessionId::as_str))]))?)
    }
}

/// Maps 404 to `None`.
fn none_if_missing<T>(answer: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

fn refused_error(status: u16, answer: &[u8]) -> ClientError {
    ClientError::Refused { status, message: error_field(answer).unwrap_or_default() }
}

fn with_query(path: &str, parts: &[(&str, Option<&str>)]) -> String {
    let given = parts.iter().filter_map(|(name, value)| Some(format!("{name}={}", escape((*value)?))));
    let query = given.collect::<Vec<_>>().join("&");
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}
