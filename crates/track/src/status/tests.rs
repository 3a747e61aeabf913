//! Status by evidence, in any order of arrival.

use subscope_model::{Agent, CallEnd, Claim, Fact, PromptKind, SourceKind, Spawn};

use super::*;
use crate::test_session::{
    ROOT, TestSession, agent, agent_end, call_end, raw, response, spawn_call, spawned,
};

const TRANSCRIPT: SourceKind = SourceKind::Transcript;

/// A session whose root has started `a1` by the open call `c1`.
fn session() -> TestSession {
    let mut session = TestSession::new();
    session.add(TRANSCRIPT, 10, ROOT, spawn_call("c1", r#""x""#));
    session.add(TRANSCRIPT, 20, agent("a1"), Fact::Response(response("m1", 1)));
    session.add(TRANSCRIPT, 20, agent("a1"), spawned("a1", "c1"));
    session
}

fn last_line(text: bool, ends_turn: bool) -> Fact<'static> {
    Fact::Response(subscope_model::Response {
        has_text: text,
        ends_turn,
        has_stop_reason: ends_turn,
        ..response("m9", 1)
    })
}

fn a1(session: &TestSession, at: Millis) -> Agent {
    session.tree(at).agents.into_iter().find(|row| &*row.id.0 == "a1").unwrap()
}

fn status(session: &TestSession, at: Millis) -> (AgentStatus, Option<String>) {
    let row = a1(session, at);
    (row.status, row.evidence.map(|evidence| evidence.to_string()))
}

#[test]
fn strongest_evidence_wins_whatever_came_first() {
    let notification = || agent_end("a1", AgentStatus::Failed, EndEvidence::Notification);
    for order in [[true, false], [false, true]] {
        let mut session = session();
        for is_notification in order {
            if is_notification {
                session.add(TRANSCRIPT, 40, ROOT, notification());
            } else {
                session.add(TRANSCRIPT, 30, agent("a1"), last_line(true, true));
            }
        }
        assert_eq!(status(&session, 50), (AgentStatus::Failed, Some("task notification".into())));
    }
}

#[test]
fn of_spans_that_of_the_agent_says_how_it_ended() {
    for (own, of_call) in [
        (AgentStatus::Completed, Outcome::Error),
        (AgentStatus::Failed, Outcome::Ok),
        (AgentStatus::Completed, Outcome::Interrupted),
    ] {
        for order in [[true, false], [false, true]] {
            let mut session = TestSession::new();
            session.add(SourceKind::Otel, 10, ROOT, spawn_call("c1", r#""x""#));
            session.add(SourceKind::Otel, 20, agent("a1"), spawned("a1", "c1"));
            for is_own in order {
                if is_own {
                    let end = agent_end("a1", own, EndEvidence::OtelRecord);
                    session.add(SourceKind::Otel, 30, agent("a1"), end);
                } else {
                    let result = CallEnd { result: Some(raw(r#""it broke""#)), ..call_end("c1", of_call) };
                    session.add(SourceKind::Otel, 40, ROOT, Fact::CallEnd(result));
                }
            }
            assert_eq!(status(&session, 50), (own, Some("OpenTelemetry record".into())), "{of_call:?}");
        }
    }
    // What the harness itself says of the call is better than its records.
    let mut session = session();
    session.add(
        SourceKind::Otel,
        30,
        agent("a1"),
        agent_end("a1", AgentStatus::Completed, EndEvidence::OtelRecord),
    );
    let result = CallEnd { result: Some(raw(r#""it broke""#)), ..call_end("c1", Outcome::Error) };
    session.add(TRANSCRIPT, 40, ROOT, Fact::CallEnd(result));
    assert_eq!(status(&session, 50), (AgentStatus::Failed, Some("spawn result".into())));
}

#[test]
fn resume_opens_an_interval_in_which_earlier_ends_do_not_count() {
    let mut session = session();
    session.add(TRANSCRIPT, 30, agent("a1"), last_line(true, true));
    assert_eq!(status(&session, 50).0, AgentStatus::Completed);
    let resume = CallEnd { resumed: Some("a1"), ..call_end("c2", Outcome::Ok) };
    session.add(TRANSCRIPT, 60, ROOT, Fact::CallEnd(resume));
    assert_eq!(status(&session, 60).0, AgentStatus::Running, "before its first new line");
    session.add(TRANSCRIPT, 61, agent("a1"), Fact::Response(response("m2", 1)));
    assert_eq!(status(&session, 70), (AgentStatus::Running, None));
    assert_eq!(a1(&session, 70).intervals, [[20, 30], [61, 61]]);
    session.add(TRANSCRIPT, 80, agent("a1"), last_line(true, true));
    assert_eq!(status(&session, 90).0, AgentStatus::Completed);
}

#[test]
fn end_of_the_process_ends_what_has_not_ended_unless_the_session_goes_on() {
    let end = |exit| Fact::ProcessEnd(exit);
    let root = |session: &TestSession| {
        let root = session.tree(50).agents.into_iter().next().unwrap();
        (root.status, root.evidence.map(|evidence| evidence.to_string()))
    };
    for (exit, expected) in [
        (ProcessExit::Code(0), AgentStatus::Completed),
        (ProcessExit::Code(3), AgentStatus::Failed),
        (ProcessExit::Signal(15), AgentStatus::Stopped),
    ] {
        let mut session = session();
        session.add(SourceKind::Posted, 40, Claim::Silent, end(exit));
        assert_eq!(root(&session), (expected, Some(exit.to_string())));
        assert_eq!(status(&session, 50), (AgentStatus::Lost, Some(format!("its process ended: {exit}"))));
        // Another process opened it again.
        session.add(TRANSCRIPT, 45, agent("a1"), Fact::Response(response("m2", 1)));
        assert_eq!((root(&session).0, status(&session, 50).0), (AgentStatus::Running, AgentStatus::Running));
    }
    let mut session = session();
    session.add(TRANSCRIPT, 30, agent("a1"), last_line(true, true));
    session.add(SourceKind::Posted, 40, Claim::Silent, end(ProcessExit::Signal(9)));
    assert_eq!(status(&session, 50).0, AgentStatus::Completed, "what ended before has ended so");
}

#[test]
fn process_that_is_gone_ends_what_is_at_work_unless_its_parent_has_told_how() {
    let add = |session: &mut TestSession, time, exit| {
        session.add(SourceKind::Posted, time, Claim::Silent, Fact::ProcessEnd(exit));
    };
    let root = |session: &TestSession| {
        let root = session.tree(50).agents.into_iter().next().unwrap();
        (root.status, root.evidence.map(|evidence| evidence.to_string()))
    };
    let lost = |why: &str| (AgentStatus::Lost, Some(why.to_owned()));
    let mut session = session();
    add(&mut session, 40, ProcessExit::Unknown);
    assert_eq!(root(&session), lost("its process ended"));
    assert_eq!(status(&session, 50), lost("its process ended"));
    add(&mut session, 39, ProcessExit::Signal(9));
    assert_eq!(root(&session), (AgentStatus::Stopped, Some("signal 9".into())));
    assert_eq!(status(&session, 50), lost("its process ended: signal 9"));
    // Another process opened it again, and is gone.
    session.add(TRANSCRIPT, 45, agent("a1"), Fact::Response(response("m2", 1)));
    assert_eq!(status(&session, 50).0, AgentStatus::Running);
    add(&mut session, 47, ProcessExit::Unknown);
    assert_eq!(status(&session, 50), lost("its process ended"));
}

#[test]
fn delivered_stop_ends_the_agent_unless_it_ends_by_itself_later() {
    let stop = |step| Fact::Stop { step, call: None, is_refused: false };
    let mut session = session();
    session.add(SourceKind::Hook, 30, agent("a1"), stop(StopStep::Asked));
    assert!(a1(&session, 40).has(subscope_model::Flag::Stopping));
    assert_eq!(status(&session, 40).0, AgentStatus::Running);
    session.add(SourceKind::Hook, 35, agent("a1"), stop(StopStep::Given));
    assert_eq!(status(&session, 40), (AgentStatus::Stopped, Some("hook answer".into())));
    session.add(TRANSCRIPT, 36, agent("a1"), last_line(true, true));
    assert_eq!(status(&session, 40), (AgentStatus::Completed, Some("last line".into())));
}

#[test]
fn result_of_the_spawn_call_ends_a_foreground_agent_only() {
    for (mode, expected) in
        [(SpawnMode::Foreground, AgentStatus::Completed), (SpawnMode::Background, AgentStatus::Running)]
    {
        let mut session = session();
        let record = Spawn { agent: Some("a1"), call: Some("c1"), mode: Some(mode), ..Spawn::default() };
        session.add(TRANSCRIPT, 21, agent("a1"), Fact::Spawn(record));
        let result = subscope_model::SpawnResult { agent: Some("a1"), ..Default::default() };
        let end = CallEnd { spawn: Some(result), ..call_end("c1", Outcome::Ok) };
        session.add(TRANSCRIPT, 30, ROOT, Fact::CallEnd(end));
        assert_eq!(status(&session, 40).0, expected, "{mode:?}");
        let resume = CallEnd { resumed: Some("a1"), ..call_end("c2", Outcome::Ok) };
        session.add(TRANSCRIPT, 50, ROOT, Fact::CallEnd(resume));
        assert_eq!(status(&session, 60).0, AgentStatus::Running, "{mode:?}, resumed");
    }
}

#[test]
fn text_without_a_stop_reason_is_the_end_after_silence() {
    let mut session = session();
    session.add(TRANSCRIPT, 30, agent("a1"), last_line(true, false));
    assert_eq!(status(&session, 180_029).0, AgentStatus::Running);
    assert_eq!(status(&session, 180_030), (AgentStatus::Completed, Some("last line is text".into())));
}

#[test]
fn silent_agent_is_lost_with_the_reason_as_evidence() {
    let mut session = session();
    session.add(TRANSCRIPT, 30, ROOT, Fact::CallEnd(call_end("c1", Outcome::Over)));
    let lost_at = 20 + 15 * 60_000;
    assert_eq!(status(&session, lost_at - 1).0, AgentStatus::Running);
    assert_eq!(status(&session, lost_at), (AgentStatus::Lost, Some("silent for 15 min".into())));
    session.add(SourceKind::Hook, 40, Claim::Silent, Fact::SessionEnd { reason: None });
    assert_eq!(status(&session, 50), (AgentStatus::Lost, Some("the session ended".into())));
}

#[test]
fn interim_end_leaves_the_agent_running() {
    let mut session = session();
    session.add(TRANSCRIPT, 30, agent("a1"), last_line(true, true));
    session.add(TRANSCRIPT, 31, ROOT, agent_end("a1", AgentStatus::Running, EndEvidence::Notification));
    assert_eq!(status(&session, 40), (AgentStatus::Running, None));
    let liveness = a1(&session, 40).liveness.unwrap();
    assert_eq!((liveness.kind, liveness.since_ms), (subscope_model::LivenessKind::Tool, Some(31)));
    session.add(TRANSCRIPT, 32, ROOT, agent_end("a1", AgentStatus::Completed, EndEvidence::Notification));
    assert_eq!(status(&session, 40).0, AgentStatus::Completed);
}

#[test]
fn publisher_ends_with_its_last_run_and_never_stalls() {
    const POSTED: SourceKind = SourceKind::Posted;
    let mut session = TestSession::new();
    let spawn = |id| {
        Fact::Spawn(Spawn { agent: Some(id), parent: Some(subscope_model::Parent::Root), ..Spawn::default() })
    };
    for (at, id) in [(10, "a1"), (20, "a2")] {
        session.add(POSTED, at, agent(id), spawn(id));
        session.add(POSTED, at, agent(id), Fact::Activity);
    }
    let root = |session: &TestSession, at| session.tree(at).agents[0].clone();
    let end = |id| agent_end(id, AgentStatus::Failed, EndEvidence::Notification);
    session.add(POSTED, 30, agent("a1"), end("a1"));
    assert_eq!(root(&session, 40).status, AgentStatus::Running);
    // No more input of its other run arrives.
    let lost = root(&session, 40_000_000);
    assert_eq!((lost.status, lost.flags), (AgentStatus::Lost, vec![]));
    session.add(POSTED, 50, agent("a2"), end("a2"));
    let ended = root(&session, 40_000_000);
    assert_eq!((ended.status, ended.ended_at_ms), (AgentStatus::Completed, Some(20)));
    assert_eq!(ended.liveness, None);
}

#[test]
fn silence_of_a_publisher_with_a_wrong_clock_counts_from_when_it_was_heard() {
    let day = 86_400_000;
    for told in [day, 3 * day] {
        let mut session = TestSession::new();
        session.add(SourceKind::Posted, told, agent("a1"), Fact::Activity);
        session.tracker.record_heard("a1", 2 * day);
        assert_eq!(status(&session, 2 * day + 60_000), (AgentStatus::Running, None));
        assert_eq!(status(&session, 2 * day + 16 * 60_000).0, AgentStatus::Lost, "told at {told}");
    }
    // An event that was published shortly before it was received keeps its time.
    let mut session = TestSession::new();
    session.add(SourceKind::Posted, day, agent("a1"), Fact::Activity);
    session.tracker.record_heard("a1", day + 500);
    assert_eq!(a1(&session, day + 600).last_event_at_ms, Some(day));
}

#[test]
fn task_after_an_end_opens_an_interval_in_which_earlier_ends_do_not_count() {
    let ended = |status| agent_end("a1", status, EndEvidence::Notification);
    let task = |text| Fact::Prompt { prompt_id: None, text: raw(text), what: PromptKind::Asked };
    let mut session = session();
    session.add(TRANSCRIPT, 21, agent("a1"), task(r#""count""#));
    session.add(TRANSCRIPT, 30, agent("a1"), ended(AgentStatus::Completed));
    assert_eq!(status(&session, 50).0, AgentStatus::Completed);
    session.add(TRANSCRIPT, 60, agent("a1"), task(r#""again""#));
    assert_eq!(status(&session, 70).0, AgentStatus::Running, "its second turn has no end yet");
    session.add(TRANSCRIPT, 66, agent("a1"), task(r#""faster""#));
    session.add(TRANSCRIPT, 80, agent("a1"), ended(AgentStatus::Failed));
    assert_eq!(status(&session, 90).0, AgentStatus::Failed);
    assert_eq!(a1(&session, 90).intervals, [[20, 21], [60, 66]]);
}
