//! The receive time counts only where no source has a time: a late or early receiver changes no time in the transcript.

use subscope_model::{Millis, Tree};
use subscope_session::SessionRouter;
use subscope_testkit::{
    fixtures::recordings,
    sessions::{LATER, Part, Telling, options, parts_of, tree, tree_at},
};

const HOUR_MS: Millis = 3_600_000;

/// Reads sources with their receive times.
fn read(parts: &[(Part, Option<Millis>)]) -> Tree {
    let mut router = SessionRouter::new(options(false));
    for (part, received) in parts {
        let source = router.open(part.spec.clone());
        router.receive_at(*received);
        router.push(source, &part.bytes);
        router.flush(source);
    }
    tree_at(&router, LATER)
}

/// Agents and calls with their times, by id.
fn times(tree: &Tree) -> Vec<(String, Option<Millis>, Option<Millis>)> {
    let mut all: Vec<_> = tree
        .agents
        .iter()
        .flat_map(|agent| {
            let calls = agent.tools.iter();
            let calls = calls.filter_map(|call| {
                Some((format!("call {}", call.id.as_ref()?), call.started_at_ms, call.ended_at_ms))
            });
            calls.chain([(format!("agent {}", agent.id), agent.started_at_ms, agent.ended_at_ms)])
        })
        .collect();
    all.sort();
    all
}

#[test]
fn receipt_moves_no_time_that_the_transcript_tells() {
    let mut wrong = Vec::new();
    for recording in recordings() {
        let files = parts_of(&recording, &[Telling::Transcript]);
        let known = times(&tree(&files));
        let begin = known.iter().filter_map(|(_, start, _)| *start).min().unwrap();
        for received in [begin - HOUR_MS, begin + HOUR_MS] {
            let timed = files.iter().map(|part| (part.clone(), None));
            let others = parts_of(&recording, &[Telling::Stream, Telling::Hooks]);
            let others = others.into_iter().map(|part| (part, Some(received)));
            let files_first: Vec<_> = timed.clone().chain(others.clone()).collect();
            let files_last: Vec<_> = others.chain(timed).collect();
            for parts in [files_first, files_last] {
                let found = times(&read(&parts));
                for (id, start, end) in &known {
                    let (_, other_start, other_end) = found.iter().find(|(found, ..)| found == id).unwrap();
                    for (what, time, other) in [("begin", start, other_start), ("end", end, other_end)] {
                        if time.is_some() && time != other {
                            wrong
                                .push(format!("{} {id}: its {what} {time:?} is {other:?}", recording.name()));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
