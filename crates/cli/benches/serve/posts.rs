//! Posts acknowledged in a second. Budgets: 15,000 with p99 of 20 ms, and 0.4 × a bare server with a group commit.

use std::{thread, time::Instant};

use subscope_hub::clock;

use subscope_testkit::figures::{Row, now, percentile};

use crate::{
    bare,
    client::{Connection, millis},
    server::Server,
};

/// Posters, each on a connection of its own.
const CONNECTIONS: usize = 64;
/// Posts of one connection in one round.
const POSTS: usize = 1000;
/// Posts to one session: an agent that makes a hundred calls.
const SESSION_POSTS: usize = 200;
/// Posters to one session, and their calls.
const BIG_CONNECTIONS: usize = 16;
const BIG_POSTS: usize = 8000;
/// Rounds of ours and the peer's in turns.
const ROUNDS: usize = 7;

/// Many sessions, on 64 open connections, compared with a bare server.
pub(crate) fn many_sessions() -> Vec<Row> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Not below what the product watches.
    let other = tempfile::tempdir().expect("a temporary folder");
    let (ours, peer) = (Server::subscope(folder.path()), bare::start(other.path()));
    let (mut rates, mut tails, mut ratios, mut same) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    round(&peer.address, 1000);
    for number in 0..ROUNDS {
        let (bare, _) = round(&peer.address, number);
        let (rate, tail) = round(&ours.address, number);
        let (again, _) = round(&peer.address, number);
        rates.push(rate);
        tails.push(tail);
        ratios.push(rate / bare);
        same.push(bare / again);
    }
    let row = |figure: &str, values, unit, budget, is_floor| Row {
        question: format!("posts of events, {CONNECTIONS} connections, acknowledged when kept"),
        figure: figure.to_owned(),
        values,
        unit,
        budget,
        is_floor,
    };
    vec![
        row("in a second", rates, "", Some(15_000.0), true),
        row("99th percentile of the answer", tails, " ms", Some(20.0), false),
        row("rate ÷ a bare axum server with a group commit", ratios, " ×", Some(0.4), true),
        row("A/A: the bare server twice", same, " ×", None, false),
    ]
}

/// Returns posts in a second and the 99th percentile of the answers in milliseconds.
fn round(address: &str, round: usize) -> (f64, f64) {
    let began = now();
    let mut all: Vec<f64> = thread::scope(|scope| {
        let posters: Vec<_> = (0..CONNECTIONS)
            .map(|poster| scope.spawn(move || poster_posts(address, round, poster)))
            .collect();
        posters.into_iter().flat_map(|poster| poster.join().expect("a poster")).collect()
    });
    let took = began.elapsed().as_secs_f64();
    all.sort_by(f64::total_cmp);
    (all.len() as f64 / took, percentile(&all, 99))
}

fn poster_posts(address: &str, round: usize, poster: usize) -> Vec<f64> {
    let mut connection = Connection::open(address);
    (0..POSTS)
        .map(|number| {
            let session = number / SESSION_POSTS;
            let (call, kind) = (number / 2, if number % 2 == 0 { "tool_call" } else { "tool_result" });
            let body = format!(
                r#"{{"subagentName":"worker","subagentRunId":"r{round}-{poster}-{session}","timestamp":{},"type":"{kind}","toolName":"grep","toolCallId":"c{call}","payload":{{"pattern":"needle","path":"src"}}}}"#,
                clock::now_ms()
            );
            connection.post("/subagent-events", &body)
        })
        .collect()
}

/// The last of many posts to one session, which is derived repeatedly.
pub(crate) fn one_session() -> Vec<Row> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::subscope(folder.path());
    let address = &server.address;
    let mut all: Vec<(Instant, f64)> = thread::scope(|scope| {
        let posters: Vec<_> = (0..BIG_CONNECTIONS)
            .map(|poster| {
                scope.spawn(move || {
                    let mut connection = Connection::open(address);
                    let call = |number: usize| {
                        let body = format!(
                            r#"{{"session_id":"big","hook_event_name":"PreToolUse","prompt_id":"p","tool_name":"Read","tool_use_id":"{poster}-{number}","tool_input":{{"file_path":"/x"}}}}"#
                        );
                        let took = connection.post("/hooks/claude", &body);
                        (now(), took)
                    };
                    (0..BIG_POSTS / BIG_CONNECTIONS).map(call).collect::<Vec<_>>()
                })
            })
            .collect();
        posters.into_iter().flat_map(|poster| poster.join().expect("a poster")).collect()
    });
    all.sort_by_key(|(at, _)| *at);
    let last = all.split_off(BIG_POSTS - BIG_POSTS / 8);
    let took = millis(last[0].0, last[last.len() - 1].0) / 1000.0;
    let mut spans: Vec<f64> = last.iter().map(|(_, span)| *span).collect();
    spans.sort_by(f64::total_cmp);
    let row = |figure: &str, value, unit| Row {
        question: format!(
            "the last {} of {BIG_POSTS} hooks of one session, {BIG_CONNECTIONS} connections",
            BIG_POSTS / 8
        ),
        figure: figure.to_owned(),
        values: vec![value],
        unit,
        budget: None,
        is_floor: false,
    };
    vec![
        row("in a second", last.len() as f64 / took, ""),
        row("99th percentile of the answer", percentile(&spans, 99), " ms"),
    ]
}
