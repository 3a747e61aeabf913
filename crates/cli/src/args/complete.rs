//! Values that a shell completes: ids of sessions and agents. Nothing is started or written for them, and whatever
//! fails gives no candidates: a shell must not hang or print errors while the user types.

use std::ffi::OsStr;

use clap_complete::{
    CompletionCandidate, PathCompleter,
    engine::{ArgValueCompleter, ValueCompleter},
};

use super::Global;
use crate::{
    context::Context,
    environment::Environment,
    hub_connection::{Backend, LAST, Needs},
    terminal::TerminalProbe,
};

/// Most candidates: more cannot be chosen from.
const MOST: usize = 50;

/// Completes a TARGET: `last`, sessions, paths.
pub(crate) fn target() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| {
        let mut all = last(word);
        all.extend(sessions(word));
        all.extend(PathCompleter::any().complete(word));
        all
    })
}

/// Completes a session: `last` or its id.
pub(crate) fn session() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| {
        let mut all = last(word);
        all.extend(sessions(word));
        all
    })
}

/// Completes the id of an agent.
pub(crate) fn agent() -> ArgValueCompleter {
    ArgValueCompleter::new(agents)
}

fn last(word: &OsStr) -> Vec<CompletionCandidate> {
    let begins = word.to_str().is_some_and(|word| LAST.starts_with(word));
    let candidate = CompletionCandidate::new(LAST).help(Some("the latest session".into()));
    begins.then_some(candidate).into_iter().collect()
}

fn backend() -> Option<Backend> {
    let global = Global { quiet: true, ..Global::default() };
    let probe = TerminalProbe { is_terminal: false, columns: None };
    let context = Context::new(&global, None, Environment::of_process(), probe);
    Backend::open(Needs::Committed, &context).ok()
}

fn sessions(word: &OsStr) -> Vec<CompletionCandidate> {
    let found = word.to_str().and_then(|word| backend()?.names(word, MOST).ok());
    found
        .into_iter()
        .flat_map(|found| found.sessions)
        .map(|session| CompletionCandidate::new(session.to_string()))
        .collect()
}

fn agents(word: &OsStr) -> Vec<CompletionCandidate> {
    let found = word.to_str().and_then(|word| backend()?.names(word, MOST).ok());
    found
        .into_iter()
        .flat_map(|found| found.agents)
        .map(|agent| {
            let session = format!("session {}", agent.session_id);
            CompletionCandidate::new(agent.agent_id.to_string()).help(Some(session.into()))
        })
        .collect()
}
