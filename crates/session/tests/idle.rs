//! Roots that wait for the user, and agents that wait for a background command of their own.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up has failed")]

use serde_json::json;
use subscope_model::{Agent, AgentStatus, Flag, LivenessKind, Millis, PriceTable, Tree};
use subscope_session::{Limits, Now, SessionRouter};
use subscope_testkit::{
    clock::START,
    lines::{self, Line, hook, transcript},
    sessions::{Part, only_session, options},
};

const MINUTE: Millis = 60_000;
const HOUR: Millis = 60 * MINUTE;

/// The tree at a time, from hooks received at the given times and a main transcript.
fn tree(hooks: &[(Millis, Line)], main: &[Line], others: Vec<Part>, at: Millis) -> Tree {
    let mut router = SessionRouter::new(options(false));
    let log = router.open(Part::new("hooks.jsonl", "").spec);
    for (came, line) in hooks {
        router.receive_at(Some(START + came));
        router.push(log, format!("{}\n", line.clone().line()).as_bytes());
    }
    router.receive_at(None);
    for part in std::iter::once(Part::of("main.jsonl", main.to_vec())).chain(others) {
        let source = router.open(part.spec.clone());
        router.push(source, &part.bytes);
        router.flush(source);
    }
    let prices = PriceTable::default();
    let limits = Limits::default();
    let now = Now { at: START + at, has_ended: false, is_growing: true, prices: &prices, limits };
    router.tree(&only_session(&router), &now).unwrap()
}

fn kind(row: &Agent) -> Option<LivenessKind> {
    row.liveness.as_ref().map(|live| live.kind)
}

/// Checks that the root waits for the user, and that no agent is at work.
fn is_idle(tree: &Tree, what: &str) {
    let root = &tree.agents[0];
    assert_eq!(kind(root), Some(LivenessKind::Idle), "{what}: {root:?}");
    assert!(!tree.agents.iter().any(|row| row.is_at_work() || row.has(Flag::Stalled)), "{what}: {tree:?}");
    assert_ne!(root.status, AgentStatus::Lost, "{what}");
}

fn local(text: &str) -> Line {
    transcript::user(text)
}

#[test]
fn session_that_was_opened_waits_for_a_prompt_until_it_is_closed() {
    let opened = vec![(0, hook("SessionStart"))];
    for at in [MINUTE, HOUR, 100 * HOUR] {
        let tree = tree(&opened, &[], vec![], at);
        is_idle(&tree, "opened");
        assert_eq!((tree.agents[0].status, tree.session.runs), (AgentStatus::Running, 0));
    }
    let closed = [opened, vec![(HOUR, hook("SessionEnd"))]].concat();
    let root = tree(&closed, &[], vec![], 2 * HOUR).agents.swap_remove(0);
    assert_eq!((root.status, kind(&root)), (AgentStatus::Completed, None));
}

#[test]
fn turn_that_is_open_is_no_waiting_for_a_person() {
    let asked = [(0, hook("SessionStart")), (MINUTE, hook("UserPromptSubmit"))];
    let root = tree(&asked, &[], vec![], 5 * MINUTE).agents.swap_remove(0);
    assert_eq!((kind(&root), root.has(Flag::Stalled)), (Some(LivenessKind::Model), true));
    // It was interrupted, which no hook reports at once.
    let idle = hook("Notification").set("notification_type", "idle_prompt");
    let interrupted = [asked.to_vec(), vec![(2 * MINUTE, idle)]].concat();
    let tree = tree(&interrupted, &[], vec![], HOUR);
    is_idle(&tree, "interrupted");
    assert_eq!(tree.agents[0].status, AgentStatus::Stopped);
}

#[test]
fn turn_of_a_process_that_was_killed_does_not_go_on_in_the_next() {
    let main =
        [transcript::user("Look.").after_ms(MINUTE), transcript::tool_use("Read", "c1").after_ms(MINUTE + 1)];
    let killed = [(0, hook("SessionStart")), (MINUTE, hook("UserPromptSubmit"))];
    let resumed = (HOUR, hook("SessionStart").set("source", "resume"));
    let result = transcript::tool_result("c1", "text").after_ms(MINUTE + 2);
    let main = [main.to_vec(), vec![result]].concat();
    is_idle(&tree(&[killed.to_vec(), vec![resumed]].concat(), &main, vec![], 2 * HOUR), "resumed");
}

#[test]
fn commands_of_the_program_itself_leave_the_last_turn_as_it_stood() {
    let turn = [
        transcript::user("Look.").set("origin", json!({"kind": "human"})).prompt_id("p1").after_ms(0),
        transcript::assistant("Seen.").stop("end_turn").after_ms(1_000),
    ];
    for (what, text) in [
        ("caveat", "<local-command-caveat>The command below was run directly.</local-command-caveat>"),
        ("compact", "<command-name>/compact</command-name>\n<command-args></command-args>"),
        ("output", "<local-command-stdout>Compacted</local-command-stdout>"),
        ("shell", "<bash-input> ls src</bash-input>"),
        ("its output", "<bash-stdout>a.js</bash-stdout><bash-stderr></bash-stderr>"),
    ] {
        let line = local(text).prompt_id("p2").after_ms(MINUTE);
        let tree = tree(&[], &[turn.to_vec(), vec![line.clone()]].concat(), vec![], HOUR);
        let root = &tree.agents[0];
        assert_eq!((root.status, kind(root), tree.session.runs), (AgentStatus::Completed, None, 1), "{what}");
        // A session that `/clear` has just begun waits for a prompt; one in which nothing else happened has ended.
        let alone = |at: Millis| self::tree(&[], std::slice::from_ref(&line), vec![], at);
        is_idle(&alone(2 * MINUTE), what);
        let later = alone(100 * HOUR);
        let root = &later.agents[0];
        assert_eq!(
            (root.status, kind(root), later.session.runs),
            (AgentStatus::Completed, None, 0),
            "{what}"
        );
    }
    let noted = local("## Context Usage").set("isMeta", true).after_ms(MINUTE);
    let tree = tree(&[], &[turn.to_vec(), vec![noted]].concat(), vec![], HOUR);
    assert_eq!(tree.agents[0].status, AgentStatus::Completed, "/context");
}

#[test]
fn note_beside_no_transcript_proves_no_agent() {
    let main =
        [transcript::user("Look.").after_ms(0), transcript::assistant("Seen.").stop("end_turn").after_ms(10)];
    let mut note =
        Part::of("agent-a1.meta.json", [transcript::meta("Explore", "elsewhere").set("finished", true)]);
    note.spec.session = Some(lines::SESSION.to_owned());
    let tree = tree(&[], &main, vec![note.by_agent("a1")], MINUTE);
    assert_eq!((tree.agents.len(), tree.summary.agents), (1, 0));
}

#[test]
fn agent_whose_own_command_still_runs_waits_for_it_and_has_not_ended() {
    let call = transcript::tool_use("Agent", "c1")
        .input(lines::spawn_input("Explore", "Map", "Map it."))
        .after_ms(0);
    let launched =
        transcript::tool_result("c1", "Launched").harness_result(lines::launch_result("a1")).after_ms(10);
    let notice = |summary: &str, at: Millis| {
        let summary = format!("Agent \"Map\" {summary}");
        let text = lines::task_notification("a1", "c1", "completed").replace("The agent has ended", &summary);
        transcript::user(&text).set("origin", json!({"kind": "task-notification"})).after_ms(at)
    };
    let main = [transcript::user("Map it all.").after_ms(0), call, launched];
    let own = [
        transcript::user("Map it.").agent("a1").after_ms(20),
        transcript::tool_use("Bash", "c2").agent("a1").after_ms(30),
        transcript::tool_result("c2", "Running")
            .harness_result(json!({"backgroundTaskId": "b1"}))
            .agent("a1")
            .after_ms(40),
        transcript::assistant("I wait.").stop("end_turn").agent("a1").after_ms(50),
    ];
    let agent = || vec![Part::of("agent-a1.jsonl", own.to_vec()).by_agent("a1")];
    let waits = notice("is waiting on its own background work", 60);
    let waiting = tree(&[], &[main.to_vec(), vec![waits.clone()]].concat(), agent(), 10 * MINUTE);
    let row = waiting.agents.iter().find(|row| *row.id.0 == *"a1").unwrap();
    let live = row.liveness.as_ref().unwrap();
    assert_eq!(
        (row.status, live.kind, live.name.as_deref()),
        (AgentStatus::Running, LivenessKind::Tool, Some("Bash"))
    );
    assert!(!row.has(Flag::Stalled));
    let done = [main.to_vec(), vec![waits, notice("finished", 20 * MINUTE)]].concat();
    let done = tree(&[], &done, agent(), HOUR);
    let row = done.agents.iter().find(|row| *row.id.0 == *"a1").unwrap();
    assert_eq!((row.status, kind(row)), (AgentStatus::Completed, None));
}
