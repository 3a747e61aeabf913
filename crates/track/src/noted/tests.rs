//! Tests of waits that the note of a process reports.

use subscope_model::{
    Agent, AgentStatus, Attention, Claim, Fact, Millis, Outcome, ProcessActivity, ProcessExit, PromptKind,
    SourceKind, Spawn, SpawnMode, ToolClass, Tree,
};

use super::*;
use crate::test_session::{
    ROOT, TestSession, agent, begin, call_end, raw, response, spawn_call, spawned, tool_call,
};

const TRANSCRIPT: SourceKind = SourceKind::Transcript;
const MINUTE: Millis = 60_000;

fn row<'t>(tree: &'t Tree, id: &str) -> &'t Agent {
    tree.agents.iter().find(|row| &*row.id.0 == id).unwrap()
}

fn kind(tree: &Tree, id: &str) -> Option<LivenessKind> {
    row(tree, id).liveness.as_ref().map(|live| live.kind)
}

/// The note says since a time what the process does; it was read 300 ms later.
fn note(session: &mut TestSession, since: Millis, activity: ProcessActivity) {
    session.add(SourceKind::Posted, since + 300, Claim::Silent, Fact::ProcessActivity { activity, since });
}

fn ask(session: &mut TestSession, at: Millis, claim: Claim<'_>, call: &str, name: &str, class: ToolClass) {
    let digest = begin(call, name, class).digest;
    session.add(SourceKind::Hook, at, claim, Fact::Permission { name, class, digest, input: None });
}

/// The root has two subagents in the background, each with an open call.
fn two_subagents() -> TestSession {
    let mut session = TestSession::new();
    for (id, spawn, call, name) in [("a1", "c1", "call-1", "Bash"), ("a2", "c2", "call-22", "WebFetch")] {
        session.add(TRANSCRIPT, 10, ROOT, spawn_call(spawn, r#""x""#));
        let mode = Some(SpawnMode::Background);
        session.add(TRANSCRIPT, 20, agent(id), spawned(id, spawn));
        let how = Spawn { agent: Some(id), call: Some(spawn), mode, ..Spawn::default() };
        session.add(TRANSCRIPT, 20, ROOT, Fact::Spawn(how));
        session.add(TRANSCRIPT, 30, agent(id), tool_call(call, name));
    }
    session
}

#[test]
fn permission_that_the_note_reports_is_that_of_the_only_open_call() {
    let mut session = TestSession::new();
    session.add(TRANSCRIPT, 10, ROOT, tool_call("call", "Bash"));
    note(&mut session, 50, ProcessActivity::Permission);
    let tree = session.tree(400);
    let live = row(&tree, "root").liveness.clone().unwrap();
    assert_eq!((live.kind, live.name.as_deref()), (LivenessKind::Permission, Some("Bash")));
    assert_eq!((live.since_ms, live.inferred), (Some(50), false));
    assert_eq!(tree.summary.attention, Attention::Waiting);
    note(&mut session, 90, ProcessActivity::Busy);
    assert_eq!(kind(&session.tree(400), "root"), Some(LivenessKind::Tool), "granted, and running");
}

#[test]
fn wait_that_may_be_that_of_several_agents_is_that_of_the_root() {
    let mut session = two_subagents();
    note(&mut session, 50, ProcessActivity::Permission);
    let tree = session.tree(400);
    assert_eq!(kind(&tree, "root"), Some(LivenessKind::Permission));
    assert_eq!(row(&tree, "root").liveness.as_ref().unwrap().name, None);
    assert_eq!([kind(&tree, "a1"), kind(&tree, "a2")], [Some(LivenessKind::Tool); 2]);
    session.add(TRANSCRIPT, 60, agent("a2"), Fact::CallEnd(call_end("call-22", Outcome::Ok)));
    let tree = session.tree(400);
    assert_eq!(kind(&tree, "a1"), Some(LivenessKind::Permission), "one is left");
    assert_ne!(kind(&tree, "root"), Some(LivenessKind::Permission));
}

#[test]
fn hook_that_names_the_agent_outranks_the_note() {
    let mut session = two_subagents();
    note(&mut session, 50, ProcessActivity::Permission);
    ask(&mut session, 55, agent("a2"), "call-22", "WebFetch", ToolClass::Other);
    let tree = session.tree(400);
    assert_eq!(kind(&tree, "a2"), Some(LivenessKind::Permission));
    assert_eq!(kind(&tree, "a1"), Some(LivenessKind::Tool));
    assert_ne!(kind(&tree, "root"), Some(LivenessKind::Permission));
    note(&mut session, 80, ProcessActivity::Busy);
    assert_eq!(kind(&session.tree(400), "a2"), Some(LivenessKind::Tool), "a granted permission is over");
}

#[test]
fn root_that_has_ended_its_turn_waits_if_nobody_else_can() {
    let mut session = TestSession::new();
    let last = subscope_model::Response { ends_turn: true, has_stop_reason: true, ..response("m1", 1) };
    session.add(TRANSCRIPT, 10, ROOT, Fact::Response(last));
    assert_eq!(session.tree(400).agents[0].status, AgentStatus::Completed);
    note(&mut session, 20, ProcessActivity::Idle);
    assert_eq!(kind(&session.tree(400), "root"), Some(LivenessKind::Idle), "its process is still there");
    assert_eq!(session.tree(40 * MINUTE).summary.attention, Attention::Ended);
    note(&mut session, 30, ProcessActivity::Input);
    let tree = session.tree(400);
    assert_eq!(
        (tree.agents[0].status, kind(&tree, "root")),
        (AgentStatus::Running, Some(LivenessKind::Question))
    );
    session.add(SourceKind::Posted, 900, Claim::Silent, Fact::ProcessEnd(ProcessExit::Unknown));
    let tree = session.tree(1_000);
    assert_eq!((tree.agents[0].status, kind(&tree, "root")), (AgentStatus::Completed, None));
}

#[test]
fn session_that_its_process_has_left_waits_for_nothing() {
    let ended = subscope_model::Response { ends_turn: true, has_stop_reason: true, ..response("m1", 1) };
    let waits = |activities: &[ProcessActivity]| {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 10, ROOT, Fact::Response(ended.clone()));
        for (at, activity) in (20..).zip(activities) {
            note(&mut session, at, *activity);
        }
        kind(&session.tree(400), "root")
    };
    assert_eq!(waits(&[ProcessActivity::Idle]), Some(LivenessKind::Idle));
    for last in [ProcessActivity::Idle, ProcessActivity::Permission, ProcessActivity::Input] {
        assert_eq!(waits(&[last, ProcessActivity::Elsewhere]), None, "{last:?}");
        assert!(waits(&[last, ProcessActivity::Elsewhere, last]).is_some(), "it came back: {last:?}");
    }
}

#[test]
fn idle_process_has_an_idle_root_until_the_next_prompt() {
    let mut session = TestSession::new();
    let prompt = |at: Millis, session: &mut TestSession| {
        let text = raw(r#""x""#);
        session.add(TRANSCRIPT, at, ROOT, Fact::Prompt { prompt_id: None, text, what: PromptKind::Asked });
    };
    prompt(10, &mut session);
    session.add(TRANSCRIPT, 20, ROOT, tool_call("call", "Bash"));
    note(&mut session, 30, ProcessActivity::Idle);
    assert_eq!(
        kind(&session.tree(400), "root"),
        Some(LivenessKind::Idle),
        "interrupted, and no source says so"
    );
    prompt(40, &mut session);
    assert_ne!(kind(&session.tree(400), "root"), Some(LivenessKind::Idle));
}

#[test]
fn nothing_is_inferred_where_a_source_reports_questions() {
    let late = |prepare: &dyn Fn(&mut TestSession)| {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 10, ROOT, Fact::CallBegin(begin("c1", "Read", ToolClass::Instant)));
        prepare(&mut session);
        let tree = session.tree(2 * MINUTE);
        let live = row(&tree, "root").liveness.clone().unwrap();
        (live.kind, live.inferred, tree.summary.attention)
    };
    assert_eq!(late(&|_| {}), (LivenessKind::Permission, true, Attention::Live), "a guess");
    let works = (LivenessKind::Tool, false, Attention::Live);
    assert_eq!(late(&|session| note(session, 5, ProcessActivity::Busy)), works);
    let hook = |session: &mut TestSession| {
        session.add(SourceKind::Hook, 10, Claim::Silent, Fact::ReportsQuestions);
    };
    assert_eq!(late(&hook), works);
}

#[test]
fn wait_that_goes_on_is_not_lost_while_its_process_says_so() {
    let mut session = TestSession::new();
    session.add(TRANSCRIPT, 10, ROOT, tool_call("call", "Bash"));
    note(&mut session, 50, ProcessActivity::Permission);
    assert_eq!(session.tree(40 * MINUTE).agents[0].status, AgentStatus::Lost, "nothing was heard since");
    let again = Fact::ProcessActivity { activity: ProcessActivity::Permission, since: 50 };
    session.add(SourceKind::Posted, 30 * MINUTE, Claim::Silent, again);
    let tree = session.tree(40 * MINUTE);
    assert_eq!(tree.agents[0].status, AgentStatus::Running);
    assert!(tree.agents[0].waits_for_person());
}

/// One thing that happens while a person is asked.
#[derive(Clone, Copy, Debug)]
enum Step {
    Call,
    Hook,
    Waits,
    Goes,
}

/// What the person is asked, by the class of the tool.
const ASKED: [(ToolClass, LivenessKind); 4] = [
    (ToolClass::Other, LivenessKind::Permission),
    (ToolClass::Question, LivenessKind::Question),
    (ToolClass::Plan, LivenessKind::Plan),
    (ToolClass::Permission, LivenessKind::Permission),
];

/// All orders of the four steps.
fn orders() -> Vec<Vec<Step>> {
    let mut orders = vec![Vec::new()];
    for step in [Step::Call, Step::Hook, Step::Waits, Step::Goes] {
        let with_step = |order: &Vec<Step>| {
            let places = 0..=order.len();
            let order = order.clone();
            places.map(move |place| {
                let mut order = order.clone();
                order.insert(place, step);
                order
            })
        };
        orders = orders.iter().flat_map(with_step).collect();
    }
    orders
}

/// Whatever order the sources are read in, with hooks and without, with a note and without: a wait is shown from its
/// first report on under the right word, never as a guess, and is over once the process has gone on.
#[test]
fn wait_is_the_same_in_every_order_of_sources() {
    let orders = orders();
    assert_eq!(orders.len(), 24);
    for case in 0..ASKED.len() * 8 * orders.len() {
        let (class, wait) = ASKED[case % ASKED.len()];
        let flags = case / ASKED.len();
        let (has_hooks, has_note, is_answered) = (flags & 1 > 0, flags & 2 > 0, flags & 4 > 0);
        let order = &orders[flags / 8];
        let what = format!("{class:?} hooks {has_hooks} note {has_note} answered {is_answered} {order:?}");
        let asks_permission = wait == LivenessKind::Permission;
        let activity = if asks_permission { ProcessActivity::Permission } else { ProcessActivity::Input };
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 5, ROOT, Fact::Response(response("m1", 1)));
        for step in order {
            match step {
                Step::Call => {
                    session.add(TRANSCRIPT, 10, ROOT, Fact::CallBegin(begin("call", "Tool", class)));
                }
                Step::Hook if has_hooks => ask(&mut session, 20, ROOT, "call", "Tool", class),
                Step::Waits if has_note => note(&mut session, 30, activity),
                Step::Goes if has_note && is_answered => note(&mut session, 60, ProcessActivity::Busy),
                Step::Hook | Step::Waits | Step::Goes => {}
            }
        }
        let tree = session.tree(500);
        let live = row(&tree, "root").liveness.clone().unwrap();
        let is_told = has_hooks || has_note || class != ToolClass::Other;
        let expected = if is_told && !(has_note && is_answered) { wait } else { LivenessKind::Tool };
        assert_eq!((live.kind, live.inferred), (expected, false), "{what}");
        assert_eq!(tree.agents[0].waits_for_person(), expected != LivenessKind::Tool, "{what}");
    }
}
