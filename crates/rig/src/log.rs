//! Log of requests and answers, in order of the requests.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use serde_json::Value;
use tokio::sync::watch;

use crate::clock::tick;

/// A request to the model with its outcome.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The answering actor; `None` if no actor matched.
    pub actor: Option<String>,
    /// The step of the answer.
    pub step: usize,
    /// The session, by its header; versions before 2.1.110 send none.
    pub session: Option<String>,
    /// The subagent, by its header; `None` for the main thread, and before 2.1.197.
    pub agent: Option<String>,
    /// The parent of the subagent, by its header; `None` if it is the main thread, and before 2.1.330.
    pub parent: Option<String>,
    /// The requested model.
    pub model: String,
    /// Time of the request.
    pub asked_at: Instant,
    /// Outcome of it.
    pub outcome: Outcome,
    /// The id of the answer; empty where there is none.
    pub message: String,
    /// The calls that the model asked for, in order.
    pub calls: Vec<Called>,
    /// The tokens that the API reported.
    pub spent: Spent,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is being sent.
    Open,
    /// The answer was sent completely.
    Answered,
    /// It was refused with this status.
    Refused(u16),
    /// The server closed the connection in the middle of the answer.
    Cut,
    /// The client disconnected before the answer was complete.
    Left,
}

/// A call that the model made.
#[derive(Clone, Debug)]
pub struct Called {
    /// Its id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments.
    pub input: Value,
    /// When its last byte was sent; `None` before.
    pub told_at: Option<Instant>,
}

/// Tokens of one answer, or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Fresh input.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Read from the cache.
    pub cache_read: u64,
    /// Written to the cache.
    pub cache_write: u64,
}

impl Spent {
    /// Their sum.
    pub fn total(&self) -> u64 {
        self.input + self.output + self.cache_read + self.cache_write
    }
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
    }
}

/// The log of a fake server.
#[derive(Debug)]
pub(crate) struct Log {
    exchanges: Mutex<Vec<Exchange>>,
    others: Mutex<Vec<String>>,
    /// Number of requests; each change wakes the waiting callers.
    asked: watch::Sender<usize>,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { exchanges: Mutex::default(), others: Mutex::default(), asked: watch::Sender::new(0) }
    }

    /// Records a request; returns its number.
    pub(crate) fn open(&self, exchange: Exchange) -> usize {
        let mut exchanges = hold(&self.exchanges);
        exchanges.push(exchange);
        let number = exchanges.len();
        self.asked.send_replace(number);
        number - 1
    }

    /// Updates the entry of a request.
    pub(crate) fn amend(&self, number: usize, change: impl FnOnce(&mut Exchange)) {
        if let Some(exchange) = hold(&self.exchanges).get_mut(number) {
            change(exchange);
        }
    }

    /// Sets the outcome of an open request.
    pub(crate) fn close(&self, number: usize, outcome: Outcome) {
        self.amend(number, |exchange| {
            if exchange.outcome == Outcome::Open {
                exchange.outcome = outcome;
            }
        });
    }

    /// Records that a call was sent completely.
    pub(crate) fn told(&self, number: usize, call: &str) {
        self.amend(number, |exchange| {
            if let Some(call) = exchange.calls.iter_mut().find(|it| it.id == call) {
                call.told_at = Some(tick());
            }
        });
    }

    /// How many requests of this actor and step, by this agent, have come.
    pub(crate) fn times(&self, actor: &str, step: usize, agent: Option<&str>) -> usize {
        let exchanges = hold(&self.exchanges);
        let same = exchanges.iter().filter(|it| it.actor.as_deref() == Some(actor) && it.step == step);
        same.filter(|it| it.agent.as_deref() == agent).count()
    }

    /// Waits until a step (`ACTOR/STEP`) was asked for.
    pub(crate) async fn asked_for(&self, place: &str) {
        let mut asked = self.asked.subscribe();
        loop {
            let has_come = hold(&self.exchanges)
                .iter()
                .any(|it| it.actor.as_ref().is_some_and(|actor| format!("{actor}/{}", it.step) == place));
            // The sender lives as long as the log: there is no end to wait for.
            if has_come || asked.changed().await.is_err() {
                return;
            }
        }
    }

    /// Records a request for another route.
    pub(crate) fn other(&self, what: String) {
        hold(&self.others).push(what);
    }

    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        hold(&self.exchanges).clone()
    }

    pub(crate) fn others(&self) -> Vec<String> {
        hold(&self.others).clone()
    }
}

/// Ignores poisoning: the log stays usable after a panic of another thread.
fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open request; when dropped without an outcome, the client has disconnected.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) log: std::sync::Arc<Log>,
    pub(crate) number: usize,
}

impl Ticket {
    pub(crate) fn close(&self, outcome: Outcome) {
        self.log.close(self.number, outcome);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.close(Outcome::Left);
    }
}
