//! Changes by time alone: stalls, inferred permission questions, `lost`; and that deadlines predict them.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

use subscope_model::{Agent, AgentStatus, Flag, LivenessKind, Millis, PriceTable, Tree};
use subscope_session::{
    EventScope, FactDetail, Limits, Now, RouterOptions, SessionRouter, SourceSpec, next_deadline,
};
use subscope_testkit::lines::{Line, jsonl, transcript};

/// A router of one session's lines.
fn read(lines: Vec<Line>) -> SessionRouter {
    let mut router = SessionRouter::new(RouterOptions {
        keep: FactDetail::Rows,
        cutoff: None,
        events: EventScope::Nothing,
    });
    let source = router.open(SourceSpec { label: "t.jsonl".into(), ..SourceSpec::default() });
    router.push(source, jsonl(lines).as_bytes());
    router.flush(source);
    router
}

fn at(router: &SessionRouter, at: Millis) -> (Tree, Option<Millis>) {
    let prices = PriceTable::default();
    let now = Now { at, has_ended: false, is_growing: false, prices: &prices, limits: Limits::default() };
    let session = router.sessions().next().unwrap().clone();
    let tree = router.tree(&session, &now).unwrap();
    let deadline = next_deadline(&tree, &now);
    (tree, deadline)
}

fn root(tree: &Tree) -> &Agent {
    &tree.agents[0]
}

/// Walks from deadline to deadline and returns the root's state at each.
fn walk(router: &SessionRouter, from: Millis) -> Vec<(i64, AgentStatus, Option<LivenessKind>, bool, bool)> {
    let mut seen = Vec::new();
    let mut now = from;
    loop {
        let (tree, deadline) = at(router, now);
        let row = root(&tree);
        let liveness = row.liveness.as_ref();
        let looks = (
            (now - from) / 1000,
            row.status,
            liveness.map(|doing| doing.kind),
            liveness.is_some_and(|doing| doing.inferred),
            row.has(Flag::Stalled),
        );
        if seen.last().is_none_or(|(_, status, kind, inferred, stalled)| {
            (*status, *kind, *inferred, *stalled) != (looks.1, looks.2, looks.3, looks.4)
        }) {
            seen.push(looks);
        }
        match deadline {
            Some(next) => {
                // Nothing changes before the deadline.
                let (before, _) = at(router, next - 1);
                assert_eq!(
                    (root(&before).status, root(&before).flags.clone()),
                    (row.status, row.flags.clone())
                );
                now = next;
            }
            None => return seen,
        }
    }
}

#[test]
fn wait_for_the_model_stalls_and_is_lost_in_the_end() {
    let router = read(vec![transcript::user("Do it.")]);
    let start = at(&router, 0).0.session.started_at_ms.unwrap();
    assert_eq!(
        walk(&router, start),
        [
            (0, AgentStatus::Running, Some(LivenessKind::Model), false, false),
            (180, AgentStatus::Running, Some(LivenessKind::Model), false, true),
            (900, AgentStatus::Lost, None, false, false),
        ]
    );
}

#[test]
fn open_instant_tool_is_an_inferred_question_and_gets_the_long_limits() {
    let router = read(vec![transcript::user("Do it."), transcript::tool_use("Read", "toolu_1")]);
    let start = at(&router, 0).0.session.ended_at_ms.unwrap();
    assert_eq!(
        walk(&router, start),
        [
            (0, AgentStatus::Running, Some(LivenessKind::Tool), false, false),
            (45, AgentStatus::Running, Some(LivenessKind::Permission), true, false),
            (1800, AgentStatus::Lost, None, false, false),
        ]
    );
}

#[test]
fn ended_session_has_no_deadline() {
    let router = read(vec![transcript::user("Do it."), transcript::assistant("Done.").stop("end_turn")]);
    let start = at(&router, 0).0.session.started_at_ms.unwrap();
    let (tree, deadline) = at(&router, start + 1000);
    assert_eq!((root(&tree).status, deadline), (AgentStatus::Completed, None));
}
