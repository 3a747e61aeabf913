//! Values that a shell completes: ids of sessions and agents. Nothing is started or written for them, and whatever
//! fails gives no candidates: a shell must not hang or print errors while the user types.
//!
//! Ids come from outside, and a shell may insert a candidate into the command line as it is: only words that no shell
//! reads as code are offered.

use std::ffi::OsStr;

use clap_complete::{
    CompletionCandidate, PathCompleter,
    engine::{ArgValueCompleter, ValueCompleter},
};

use subscope_model::IdMatches;

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
        all.extend(PathCompleter::any().complete(word).into_iter().filter(is_one_line));
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

fn names(word: &OsStr) -> Option<IdMatches> {
    let global = Global { quiet: true, ..Global::default() };
    let probe = TerminalProbe { is_terminal: false, columns: None };
    let context = Context::new(&global, None, Environment::of_process(), probe);
    Backend::open(Needs::Committed, &context).ok()?.queries().names(word.to_str()?, MOST).ok()
}

/// Whether an id may be offered: a word that every shell takes as it is, and no command as an option.
fn is_offered(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:@/-".contains(&byte);
    !id.is_empty() && !id.starts_with('-') && id.bytes().all(is_plain)
}

/// Whether a path is one candidate: shells take them line by line. They quote the rest of it themselves.
fn is_one_line(path: &CompletionCandidate) -> bool {
    !path.get_value().as_encoded_bytes().iter().any(u8::is_ascii_control)
}

fn sessions(word: &OsStr) -> Vec<CompletionCandidate> {
    let ids = names(word).into_iter().flat_map(|found| found.sessions);
    ids.filter(|id| is_offered(id)).map(|id| CompletionCandidate::new(id.to_string())).collect()
}

fn agents(word: &OsStr) -> Vec<CompletionCandidate> {
    let found = names(word).into_iter().flat_map(|found| found.agents);
    found
        .filter(|agent| is_offered(&agent.agent_id))
        .map(|agent| {
            let session =
                is_offered(&agent.session_id).then(|| format!("session {}", agent.session_id).into());
            CompletionCandidate::new(agent.agent_id.to_string()).help(session)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_of_harnesses_are_offered_and_words_that_a_shell_reads_are_not() {
        for id in ["59d3cea2-1111-4222-8333-444455556666", "ses_1", "events:r.1", "a@b", "toolu_01/x"] {
            assert!(is_offered(id), "{id}");
        }
        for id in
            ["", "-x", "--help", "S$(touch${IFS}PWNED)", "a b", "a*", "~/x", "a\"b", "a\nb", "x%20", "é"]
        {
            assert!(!is_offered(id), "{id:?}");
        }
    }

    proptest! {
        #[test]
        fn no_id_gives_an_unsafe_candidate(id in any::<String>()) {
            let is_safe = id.chars().all(|it| it.is_ascii_alphanumeric() || "._:@/-".contains(it));
            prop_assert_eq!(is_offered(&id), is_safe && !id.is_empty() && !id.starts_with('-'));
        }
    }
}
