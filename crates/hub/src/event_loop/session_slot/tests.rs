//! Every transition of a session from every state, by table.

use std::time::Duration;

use subscope_model::{AgentStatus, Session, SessionId, Summary, TREE_SCHEMA};

use super::*;

/// Rows of a session with these agents, which are at work or have ended.
pub(crate) fn tree(id: &str, agents: &[&str], status: AgentStatus) -> Tree {
    let session = Session {
        id: SessionId::from(id),
        harness: None,
        harness_version: None,
        cwd: None,
        project: None,
        title: None,
        started_at_ms: None,
        ended_at_ms: None,
        runs: 1,
        run_started_at_ms: None,
        machine: None,
        last_heard_ms: None,
        rev: None,
    };
    let agents = agents.iter().map(|id| Agent::unknown(AgentId::from(*id), 1, status)).collect();
    let (summary, problems) = (Summary::default(), Vec::new());
    Tree { schema: TREE_SCHEMA.into(), session, agents, summary, problems }
}

/// The states that a session may be in, by name.
const STATES: [&str; 5] = ["stored", "evicted", "loading", "loading, evicted", "live"];

fn slot(state: &str, since: Instant) -> SessionSlot {
    let mut slot = SessionSlot::default();
    if state != "stored" {
        slot.load(LoadedBy::Input);
    }
    if !["stored", "loading"].contains(&state) {
        slot.show(tree("s", &["root", "a"], AgentStatus::Completed), 1, since);
    }
    if state.contains("evicted") {
        slot.evict(true);
    }
    if state == "loading, evicted" {
        slot.load(LoadedBy::Input);
    }
    slot
}

fn name(slot: &SessionSlot) -> &'static str {
    match &slot.state {
        SlotState::Stored => "stored",
        SlotState::Evicted { .. } => "evicted",
        SlotState::Loading { evicted: None, .. } => "loading",
        SlotState::Loading { evicted: Some(_), .. } => "loading, evicted",
        SlotState::Live { .. } => "live",
    }
}

#[test]
fn every_transition_leads_from_every_state_where_the_table_says() {
    let now = crate::clock::tick();
    let is_recent = |limit: u64| move |since: Instant| (now + Duration::from_secs(limit)) > since;
    let show = |slot: &mut SessionSlot| drop(slot.show(tree("s", &["root"], AgentStatus::Running), 2, now));
    let evict = |has_room: bool| move |slot: &mut SessionSlot| drop(slot.evict(has_room));
    type Transition<'t> = (&'t str, Box<dyn Fn(&mut SessionSlot) + 't>, [&'static str; 5]);
    let transitions: [Transition<'_>; 6] = [
        (
            "load",
            Box::new(|slot| slot.load(LoadedBy::Deadline)),
            ["loading", "loading, evicted", "loading", "loading, evicted", "live"],
        ),
        ("show", Box::new(show), ["live"; 5]),
        ("evict", Box::new(evict(true)), ["stored", "evicted", "stored", "stored", "evicted"]),
        ("evict, no room", Box::new(evict(false)), ["stored", "evicted", "stored", "stored", "stored"]),
        ("expire, recent", Box::new(move |slot| slot.expire(is_recent(1))), STATES),
        (
            "expire",
            Box::new(move |slot| slot.expire(is_recent(0))),
            ["stored", "stored", "loading", "loading", "live"],
        ),
    ];
    for (what, transition, wanted) in transitions {
        for (before, after) in STATES.into_iter().zip(wanted) {
            let mut slot = slot(before, now);
            assert_eq!(name(&slot), before);
            transition(&mut slot);
            assert_eq!(name(&slot), after, "{what} from {before}");
            assert_eq!(slot.loaded().is_some(), !["stored", "evicted"].contains(&after));
            assert_eq!(
                (slot.rows().is_some(), slot.rows_mut().is_some()),
                (after == "live", after == "live")
            );
            assert_eq!(slot.evicted_since().is_some(), after.contains("evicted"));
            assert_eq!(slot.is_empty(), after == "stored");
        }
    }
}

#[test]
fn eviction_returns_what_was_in_memory_and_keeps_what_outlasts_it() {
    let now = crate::clock::tick();
    for state in STATES {
        let mut slot = slot(state, now);
        (slot.deadline, slot.rows_changed_at, slot.stored_keys_since) = (Some(1), Some(2), Some(3));
        slot.inbox.begin_replay();
        slot.inbox.record(Some(7));
        let evicted = slot.evict(true);
        assert_eq!(evicted.is_some(), state.starts_with('l'), "{state}");
        let inbox =
            if evicted.is_some() { InboxInput::Stored } else { InboxInput::Replayed { bytes: Some(7) } };
        assert_eq!(slot.inbox, inbox);
        assert_eq!(
            (slot.deadline, slot.rows_changed_at, slot.stored_keys_since),
            (Some(1), Some(2), Some(3))
        );
        slot.inbox = InboxInput::Unprocessed;
        slot.load(LoadedBy::Input);
        slot.evict(true);
        assert_eq!(slot.inbox, InboxInput::Unprocessed, "it is still to be replayed");
    }
}

#[test]
fn reason_for_loading_counts_for_a_session_that_was_not_in_memory() {
    let now = crate::clock::tick();
    for state in STATES {
        let mut slot = slot(state, now);
        let was_loaded = slot.loaded().is_some();
        slot.load(LoadedBy::Deadline);
        let wanted = if was_loaded { LoadedBy::Input } else { LoadedBy::Deadline };
        assert_eq!(slot.loaded().unwrap().loaded_by, wanted, "{state}");
    }
}

#[test]
fn rows_are_shown_whole_once_then_by_their_changes() {
    let (mut slot, now) = (SessionSlot::default(), crate::clock::tick());
    let later = now + Duration::from_secs(1);
    let rows = || tree("s", &["root", "a"], AgentStatus::Completed);
    assert_eq!(slot.show(rows(), 5, now), Shown::First);
    assert_eq!(slot.rows().unwrap().tree.rev(), 5);
    assert_eq!(slot.show(rows(), 6, later), Shown::Unchanged);
    assert_eq!((slot.rows().unwrap().tree.rev(), slot.rows().unwrap().derived_at), (5, later));
    let fewer = tree("s", &["root"], AgentStatus::Completed);
    assert_eq!(slot.show(fewer, 7, later), Shown::Changed(vec![AgentId::from("a")]));
    assert_eq!(slot.idle_since(), Some(later));
    slot.loaded_mut().unwrap().schedule(Task::Save, Some(later));
    assert_eq!(slot.idle_since(), None, "unsaved");
    slot.loaded_mut().unwrap().schedule(Task::Save, None);
    slot.show(tree("s", &["root"], AgentStatus::Running), 8, later);
    assert_eq!(slot.idle_since(), None, "at work");
}

#[test]
fn every_transition_of_input_leads_from_every_state_where_the_table_says() {
    use InputState::{AwaitsSilence, FirstRead, Followed, Reread};
    let states = [Followed, Reread, FirstRead, AwaitsSilence];
    type Transition = (&'static str, fn(&mut InputState) -> bool, [InputState; 4], [bool; 4]);
    let transitions: [Transition; 5] = [
        (
            "reread",
            |input| {
                input.record_reread();
                false
            },
            [Reread, Reread, FirstRead, AwaitsSilence],
            [false; 4],
        ),
        (
            "end first read",
            |input| input.end_wait(FirstRead),
            [Followed, Reread, Reread, AwaitsSilence],
            [false, false, true, false],
        ),
        (
            "await silence",
            |input| {
                input.await_silence();
                false
            },
            [Followed, AwaitsSilence, FirstRead, AwaitsSilence],
            [false; 4],
        ),
        (
            "end silence wait",
            |input| input.end_wait(AwaitsSilence),
            [Followed, Reread, FirstRead, Reread],
            [false, false, false, true],
        ),
        ("derive", InputState::derive, [Followed, Followed, FirstRead, Followed], [false, true, true, true]),
    ];
    for (what, transition, after, returned) in transitions {
        for ((before, after), returned) in states.into_iter().zip(after).zip(returned) {
            let mut input = before;
            assert_eq!((transition(&mut input), input), (returned, after), "{what} from {before:?}");
        }
    }
}

#[test]
fn every_transition_of_inbox_input_leads_from_every_state_where_the_table_says() {
    use InboxInput::{Replayed, Stored, Unprocessed};
    let (own, shared) = (Replayed { bytes: Some(3) }, Replayed { bytes: None });
    let states = [Stored, Unprocessed, own, shared];
    let (none, five) = (Replayed { bytes: Some(0) }, Replayed { bytes: Some(5) });
    type Transition = (&'static str, fn(&mut InboxInput), [InboxInput; 4]);
    let transitions: [Transition; 5] = [
        ("begin", InboxInput::begin_replay, [none, none, own, shared]),
        ("abandon", |inbox| inbox.abandon_replay(Stored), [Stored; 4]),
        ("abandon unprocessed", |inbox| inbox.abandon_replay(Unprocessed), [Unprocessed; 4]),
        ("record", |inbox| inbox.record(Some(2)), [Stored, Unprocessed, five, shared]),
        ("record shared", |inbox| inbox.record(None), [Stored, Unprocessed, shared, shared]),
    ];
    for (what, transition, wanted) in transitions {
        for (before, after) in states.into_iter().zip(wanted) {
            let mut inbox = before;
            transition(&mut inbox);
            assert_eq!(inbox, after, "{what} from {before:?}");
        }
    }
}

#[test]
fn orders_that_are_known_stay_until_replayed_input_is_searched() {
    let agents = vec![AgentId::from("a")];
    let mut orders = StopOrders::Known(agents.clone());
    for _ in 0..2 {
        orders.expect();
        assert_eq!(orders, StopOrders::Outdated(agents.clone()));
        assert_eq!(orders.agents(), agents);
    }
}

#[test]
fn session_is_busy_while_something_of_it_is_to_be_done() {
    let (mut session, now) = (LoadedSession::default(), crate::clock::tick());
    for (task, is_busy) in Task::ALL.into_iter().zip([true, true, false, false]) {
        session.schedule(task, Some(now));
        assert_eq!(session.is_busy(), is_busy, "{task:?}");
        assert_eq!(session.schedule(task, None), Some(now));
    }
    for input in [InputState::Reread, InputState::FirstRead, InputState::AwaitsSilence] {
        session.input = input;
        assert!(session.is_busy(), "{input:?}");
    }
    session.input = InputState::Followed;
    session.stop_orders = StopOrders::Outdated(vec![AgentId::from("a")]);
    assert!(session.is_busy());
}
