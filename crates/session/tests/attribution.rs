//! Owners of tool calls on every recording: owners with a certain basis are right.
//!
//! Up to 2.1.50 hooks name no agent. An owner of basis `wire`, `link` or `sole` must be right all the same; a guessed
//! one may be wrong and is marked.

#![allow(clippy::unwrap_used)]

use subscope_model::{Basis, Tree};
use subscope_testkit::{
    fixtures::{Recording, recordings},
    sessions::{Telling, parts_of, tree},
    truth::Truth,
};

/// Owners of calls in a tree, compared with the truth.
#[derive(Debug, Default)]
struct Score {
    /// Number of calls with a certain owner.
    certain: usize,
    /// Number of calls with a guessed owner.
    guessed: usize,
    /// Number of calls with a wrongly guessed owner.
    wrong_guesses: usize,
    /// Descriptions of calls with a wrong certain owner.
    wrong: Vec<String>,
    /// Number of true calls that no agent has.
    missing: usize,
}

fn score(what: &str, tree: &Tree, truth: &Truth) -> Score {
    let mut score = Score::default();
    let mut told = 0;
    for row in &tree.agents {
        for call in &row.tools {
            // The hooks of 1.0.x give calls no ids: compare by the agents that made a call of that name.
            let owner = call.id.as_ref().and_then(|id| truth.owner(id)).map(|(owner, _)| owner);
            let is_right = match (&call.id, owner) {
                (Some(_), Some(owner)) => is_same(row, owner),
                (Some(_), None) => false,
                (None, _) => {
                    let made = truth
                        .agents
                        .iter()
                        .filter(|agent| is_same(row, agent))
                        .flat_map(|agent| &agent.tools);
                    made.into_iter().any(|tool| tool.name == *call.name)
                }
            };
            told += 1;
            if call.basis.is_guess() {
                score.guessed += 1;
                score.wrong_guesses += usize::from(!is_right);
            } else {
                score.certain += 1;
                if !is_right {
                    score.wrong.push(format!(
                        "{what}: {} {:?} is called {:?} of {}",
                        call.name, call.id, call.basis, row.id
                    ));
                }
            }
        }
    }
    score.missing = (truth.summary.tool_calls as usize).saturating_sub(told);
    score
}

/// Whether a row is that agent: by its id or, if its source has none, by its spawn call or its task.
fn is_same(row: &subscope_model::Agent, agent: &subscope_testkit::truth::TruthAgent) -> bool {
    if *row.id == *agent.id {
        return true;
    }
    if row.id.is_root() || agent.id == "root" {
        return false;
    }
    let by_call = row.spawned_by.is_some() && row.spawned_by.as_deref() == agent.spawned_by.as_deref();
    by_call || (row.description.is_some() && row.description.as_deref() == agent.description.as_deref())
}

fn has_identity(recording: &Recording) -> bool {
    recording.version == "2.1.330"
}

#[test]
fn hooks_without_identity_call_nothing_certain_that_is_wrong() {
    let mut wrong = Vec::new();
    let (mut certain, mut guessed, mut wrong_guesses) = (0, 0, 0);
    for recording in recordings().iter().filter(|recording| !has_identity(recording)) {
        let tree = tree(&parts_of(recording, &[Telling::Hooks]));
        let score = score(&recording.name(), &tree, &recording.truth());
        wrong.extend(score.wrong);
        certain += score.certain;
        guessed += score.guessed;
        wrong_guesses += score.wrong_guesses;
        for call in tree.agents.iter().flat_map(|row| &row.tools) {
            assert_ne!(
                call.basis,
                Basis::Wire,
                "{}: the wire of {} names nobody",
                recording.name(),
                call.name
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The rules must decide some calls, and guesses must be wrong at times: else they need no mark.
    assert!(
        certain > 20 && guessed > 50 && wrong_guesses > 20,
        "{certain} certain, {guessed} guessed, {wrong_guesses} wrong"
    );
}

#[test]
fn transcript_beside_the_hooks_makes_every_owner_certain_and_right() {
    let mut wrong = Vec::new();
    for recording in recordings() {
        for tellings in [[Telling::Hooks, Telling::Transcript], [Telling::Transcript, Telling::Hooks]] {
            let score = score(&recording.name(), &tree(&parts_of(&recording, &tellings)), &recording.truth());
            assert_eq!(
                (score.guessed, score.missing),
                (0, 0),
                "{} {tellings:?}: {score:?}",
                recording.name()
            );
            wrong.extend(score.wrong);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn stream_beside_hooks_without_identity_calls_nothing_certain_that_is_wrong() {
    let mut wrong = Vec::new();
    for recording in recordings() {
        let tree = tree(&parts_of(&recording, &[Telling::Hooks, Telling::Stream]));
        wrong.extend(score(&recording.name(), &tree, &recording.truth()).wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn wires_with_identity_leave_nothing_to_guess() {
    let mut wrong = Vec::new();
    for recording in recordings().iter().filter(|recording| has_identity(recording)) {
        for telling in Telling::ALL {
            let parts = parts_of(recording, &[telling]);
            // An interactive session prints no stream.
            if parts.is_empty() {
                continue;
            }
            let tree = tree(&parts);
            let score = score(&format!("{} {telling:?}", recording.name()), &tree, &recording.truth());
            assert_eq!(score.guessed, 0, "{} {telling:?}: {score:?}", recording.name());
            assert!(score.certain > 0 || recording.truth().summary.tool_calls == 0, "{}", recording.name());
            wrong.extend(score.wrong);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
