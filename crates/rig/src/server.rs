//! Fake server of model APIs on the loopback.
//!
//! A `POST` to an [`Api`] streams or answers in one piece, the routes that count tokens count, `GET …/models` lists no
//! model, and `HEAD /` says that it is there. Everything else is recorded and answered with 404, also `CONNECT`: a program that uses it as a proxy
//! can reach nothing.

use std::{
    collections::HashMap,
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Request, State},
    http::{HeaderMap, HeaderName, Method, StatusCode, header},
    response::Response,
};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::{net::TcpListener, runtime::Runtime, time::sleep};

use crate::{
    answer::{Asked, ModelAnswer, id},
    api::{Api, Piece},
    choice::choose,
    clock::tick,
    log::{Exchange, Log, Outcome, Spent, Ticket},
    scenario::{Failure, Scenario, Step},
};

/// Between two events of an answer: enough that a call is seen while the message still streams.
const PAUSE: Duration = Duration::from_millis(4);
/// The largest request: a conversation with its tools is far smaller.
const REQUEST_BYTES: usize = 64 << 20;

/// Error of starting the server.
#[derive(Debug, thiserror::Error)]
pub enum StandInError {
    /// The system gives no port or no thread.
    #[error("cannot serve on the loopback")]
    Io(#[from] io::Error),
}

/// A fake server of model APIs; it ends when dropped.
#[derive(Debug)]
pub struct StandIn {
    address: SocketAddr,
    log: Arc<Log>,
    runtime: Option<Runtime>,
}

/// Answers requests from the script.
struct Player {
    scenario: Scenario,
    log: Arc<Log>,
    /// The conversation up to each answer, by the answer's id: a request may name it and send only what is new.
    conversations: Mutex<HashMap<String, Vec<Value>>>,
}

impl StandIn {
    /// Starts one that plays this script, on a free port.
    ///
    /// # Errors
    ///
    /// If the system gives no port or no thread.
    pub fn start(scenario: Scenario) -> Result<Self, StandInError> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let log = Arc::new(Log::new());
        let player = Arc::new(Player { scenario, log: Arc::clone(&log), conversations: Mutex::default() });
        let router =
            Router::new().fallback(answer).layer(DefaultBodyLimit::max(REQUEST_BYTES)).with_state(player);
        runtime.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, log, runtime: Some(runtime) })
    }

    /// Returns its URL: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the log so far, in order of the requests.
    pub fn log(&self) -> Vec<Exchange> {
        self.log.exchanges()
    }

    /// Returns requests for other routes: methods and targets. A target with a host came from a program that uses it as
    /// a proxy.
    pub fn others(&self) -> Vec<String> {
        self.log.others()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // An answer may take minutes: its thread is not joined.
            runtime.shutdown_background();
        }
    }
}

async fn answer(State(player): State<Arc<Player>>, request: Request) -> Result<Response, Infallible> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    if parts.method == Method::HEAD && path == "/" && parts.uri.host().is_none() {
        return Ok(empty(StatusCode::OK));
    }
    if parts.method == Method::GET && parts.uri.host().is_none() && path.ends_with("/models") {
        return Ok(in_one_piece(
            StatusCode::OK,
            &json!({"object": "list", "data": [], "models": []}),
            "0",
            None,
        ));
    }
    let counts = path == "/v1/messages/count_tokens" || path.ends_with(":countTokens");
    let api = Api::of(path);
    if parts.method != Method::POST || parts.uri.host().is_some() || (api.is_none() && !counts) {
        player.log.other(format!("{} {}", parts.method, parts.uri));
        return Ok(error(StatusCode::NOT_FOUND, "not_found_error", "not found"));
    }
    let bytes = axum::body::to_bytes(body, REQUEST_BYTES).await.unwrap_or_default();
    let Ok(request) = serde_json::from_slice::<Value>(&bytes) else {
        return Ok(error(StatusCode::BAD_REQUEST, "invalid_request_error", "the body is no JSON"));
    };
    let Some(api) = api else {
        let tokens = (bytes.len() / 4).max(1);
        let name = if path.starts_with("/v1/messages") { "input_tokens" } else { "totalTokens" };
        return Ok(in_one_piece(StatusCode::OK, &json!({name: tokens}), "0", None));
    };
    Ok(player.play(api, path, &parts.headers, &request, bytes.len()).await)
}

impl Player {
    async fn play(
        &self,
        api: Api,
        path: &str,
        headers: &HeaderMap,
        request: &Value,
        bytes: usize,
    ) -> Response {
        let before = request["previous_response_id"].as_str();
        let before = before.and_then(|id| self.conversations().get(id).cloned());
        let messages = [before.unwrap_or_default(), api.conversation(request)].concat();
        let chosen = if api.is_agents(request) { choose(&self.scenario, &messages) } else { None };
        // Gemini has the model in the path.
        let named = path.rsplit_once('/').and_then(|(_, last)| last.split_once(':'));
        let model = request["model"].as_str().or(named.map(|(model, _)| model)).unwrap_or_default();
        let nobodys = Step { text: Some("OK".to_owned()), ..Step::default() };
        let beyond = Step { text: Some("Done.".to_owned()), ..Step::default() };
        let (actor, at, step) = match chosen {
            Some((actor, at)) => (Some(actor.id.clone()), at, actor.steps.get(at).unwrap_or(&beyond)),
            None => (None, 0, &nobodys),
        };
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let agent = header("x-claude-code-agent-id");
        let number = self.log.open(Exchange {
            actor: actor.clone(),
            step: at,
            session: header("x-claude-code-session-id"),
            agent: agent.clone(),
            parent: header("x-claude-code-parent-agent-id"),
            model: model.to_owned(),
            asked_at: tick(),
            outcome: Outcome::Open,
            message: String::new(),
            calls: Vec::new(),
            spent: Spent::default(),
        });
        let ticket = Ticket { log: Arc::clone(&self.log), number };
        let times = actor.as_deref().map_or(1, |actor| self.log.times(actor, at, agent.as_deref()));
        if let Some(place) = &step.after {
            self.log.asked_for(place).await;
        }
        sleep(Duration::from_millis(step.delay_ms)).await;
        let request_id = id("req_01", &[&self.scenario.name, &number.to_string()]);
        if let Some(failure) = &step.error
            && failure.times.is_none_or(|limit| times <= limit as usize)
        {
            return refuse(api, failure, &ticket, &request_id);
        }
        let asked = Asked { api, request, messages: &messages, model, bytes };
        let answer = ModelAnswer::of(step, &self.scenario.name, number, &asked);
        self.log.amend(number, |exchange| {
            exchange.message.clone_from(&answer.id);
            exchange.calls.clone_from(&answer.calls);
            exchange.spent = answer.spent();
        });
        if api == Api::Responses {
            let said = json!({"role": "assistant", "content": []});
            let all = messages.into_iter().chain([said]).collect();
            self.conversations().insert(answer.id.clone(), all);
        }
        let is_cut = times <= step.cut as usize;
        if api.is_streamed(path, request) {
            return streamed(api.pieces(&answer, is_cut), is_cut, ticket, &request_id);
        }
        if is_cut {
            return streamed(vec![], true, ticket, &request_id);
        }
        for call in &answer.calls {
            self.log.told(number, &call.id);
        }
        ticket.close(Outcome::Answered);
        in_one_piece(StatusCode::OK, &api.whole(&answer), &request_id, None)
    }
}

impl Player {
    /// Ignores poisoning: the conversations stay usable after a panic of another thread.
    fn conversations(&self) -> MutexGuard<'_, HashMap<String, Vec<Value>>> {
        self.conversations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refuse(api: Api, failure: &Failure, ticket: &Ticket, request_id: &str) -> Response {
    let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    ticket.close(Outcome::Refused(status.as_u16()));
    in_one_piece(status, &api.refusal(failure, request_id), request_id, failure.retry_after)
}

/// Sends events one by one. A body that ends with an error has the connection cut.
fn streamed(pieces: Vec<Piece>, is_cut: bool, ticket: Ticket, request_id: &str) -> Response {
    let events = stream::unfold((pieces.into_iter(), Some(ticket)), move |(mut pieces, ticket)| async move {
        let ticket = ticket?;
        let Some(piece) = pieces.next() else {
            if is_cut {
                // Earlier output is flushed first.
                sleep(PAUSE).await;
                ticket.close(Outcome::Cut);
                return Some((Err(io::Error::other("cut as the script says")), (pieces, None)));
            }
            ticket.close(Outcome::Answered);
            return None;
        };
        sleep(PAUSE).await;
        if let Some(call) = &piece.completes {
            ticket.log.told(ticket.number, call);
        }
        if pieces.len() == 0 && !is_cut {
            // A client that has the last event may disconnect before it is sent another.
            ticket.close(Outcome::Answered);
        }
        Some((Ok(Bytes::from(piece.bytes)), (pieces, Some(ticket))))
    });
    let head =
        [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8"), (header::CACHE_CONTROL, "no-cache")];
    let mut response = empty(StatusCode::OK);
    *response.body_mut() = Body::from_stream(events);
    add(&mut response, &head);
    add(&mut response, &[(REQUEST_ID, request_id)]);
    response
}

const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

fn error(status: StatusCode, kind: &str, message: &str) -> Response {
    let error = json!({"type": kind, "message": message});
    in_one_piece(status, &json!({"type": "error", "error": error, "request_id": "0"}), "0", None)
}

fn in_one_piece(status: StatusCode, body: &Value, request_id: &str, retry_after: Option<u32>) -> Response {
    let mut response = empty(status);
    *response.body_mut() = Body::from(body.to_string());
    add(&mut response, &[(header::CONTENT_TYPE, "application/json"), (REQUEST_ID, request_id)]);
    if let Some(seconds) = retry_after {
        add(&mut response, &[(header::RETRY_AFTER, &seconds.to_string())]);
    }
    response
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Adds headers; one that is no header (none of ours is) is left out.
fn add(response: &mut Response, headers: &[(HeaderName, &str)]) {
    for (name, value) in headers {
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(name, value);
        }
    }
}
