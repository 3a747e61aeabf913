//! Tests of the rule of need: reasons, one sentence a session, properties over any agents.

use proptest::prelude::*;

use super::*;
use crate::{Attention, Basis};

fn agent(id: &str, status: AgentStatus, parent: Option<&str>) -> Agent {
    let parent_id = parent.map(AgentId::from);
    Agent { parent_id, ..Agent::unknown(AgentId::from(id), u32::from(parent.is_some()), status) }
}

fn live(kind: LivenessKind, inferred: bool) -> Option<Liveness> {
    let (name, since_ms) = (Some("Read".into()), Some(7));
    Some(Liveness { kind, name, count: None, limit: None, since_ms, inferred })
}

fn call(name: &str, status: ToolStatus, at: Millis) -> ToolCall {
    ToolCall {
        id: None,
        name: name.into(),
        status,
        basis: Basis::Wire,
        started_at_ms: Some(at),
        ended_at_ms: None,
        duration_ms: None,
        detail: None,
        writes: Box::default(),
        input: None,
        result: None,
    }
}

/// Group and words of the agent `a` below a root that waits for its subagents, in a run that started at 10.
fn words(work: impl Fn(&mut Agent)) -> Option<(NeedGroup, String)> {
    let mut root = agent("root", AgentStatus::Running, None);
    root.liveness = live(LivenessKind::Children, false);
    let mut own = agent("a", AgentStatus::Running, Some("root"));
    work(&mut own);
    let need = SessionNeed::of(&[root, own], Some(10))?;
    let first = need.agents.first().unwrap();
    Some((first.group, first.words.to_string()))
}

#[test]
fn reasons_are_true_to_the_state() {
    use NeedGroup::{Perhaps, Trouble, Waits};
    let none = words(|_| ());
    assert_eq!(none, None, "it works");
    let of = |kind, inferred| words(move |agent| agent.liveness = live(kind, inferred));
    let said = |group, words: &str| Some((group, words.to_owned()));
    assert_eq!(of(LivenessKind::Permission, false), said(Waits, "waits for your permission: Read"));
    assert_eq!(of(LivenessKind::Question, false), said(Waits, "asks you a question"));
    assert_eq!(of(LivenessKind::Plan, false), said(Waits, "waits for your decision about its plan"));
    assert_eq!(of(LivenessKind::Permission, true), said(Perhaps, "may wait for you: no result of Read"));
    assert_eq!(of(LivenessKind::Tool, false), None);
    assert_eq!(words(|agent| agent.flags = vec![Flag::Stalled]), said(Trouble, "is stalled"));
    assert_eq!(words(|agent| agent.flags = vec![Flag::Colliding]), None, "no call for a person");
    assert_eq!(words(|agent| agent.flags = vec![Flag::Looping]), None);
    let failing = |name: &'static str, flags: &'static [Flag]| {
        words(move |agent| {
            agent.flags = flags.to_vec();
            agent.tools = vec![call("Read", ToolStatus::Ok, 1), call(name, ToolStatus::Error, 2)];
            agent.tools.extend((3..5).map(|at| call("Bash", ToolStatus::Error, at)));
            agent.tools.push(call("Bash", ToolStatus::Open, 5));
        })
    };
    assert_eq!(failing("Bash", &[Flag::Failing]), said(Trouble, "keeps failing: 3 calls of Bash in a row"));
    assert_eq!(
        failing("Edit", &[Flag::Looping, Flag::Failing]),
        said(Trouble, "keeps failing: 3 calls in a row, looping")
    );
    let over = |status, ended: Millis, background: bool, why: Option<&'static str>| {
        words(move |agent| {
            (agent.status, agent.ended_at_ms, agent.background) = (status, Some(ended), background);
            agent.evidence = why.map(Text::from);
        })
    };
    assert_eq!(over(AgentStatus::Failed, 20, false, None), said(Trouble, "has failed"));
    assert_eq!(over(AgentStatus::Failed, 5, false, None), None, "the person has gone on since");
    assert_eq!(over(AgentStatus::Lost, 20, false, None), said(Trouble, "is lost, and waited for"));
    assert_eq!(over(AgentStatus::Lost, 20, true, Some("its process ended")), None);
    assert_eq!(over(AgentStatus::Lost, 20, true, Some("silent for 15 min")), said(Trouble, "is lost"));
    assert_eq!(over(AgentStatus::Lost, 5, true, Some("silent for 15 min")), None);
    assert_eq!(over(AgentStatus::Completed, 20, false, None), None);
}

#[test]
fn silence_that_goes_on_resolves_nothing() {
    for background in [false, true] {
        for kind in [LivenessKind::Children, LivenessKind::Model, LivenessKind::Idle] {
            let mut root = agent("root", AgentStatus::Running, None);
            root.liveness = live(kind, false);
            let mut own = agent("a", AgentStatus::Running, Some("root"));
            (own.flags, own.background, own.last_event_at_ms) = (vec![Flag::Stalled], background, Some(70));
            let stalled = SessionNeed::of(&[root.clone(), own.clone()], None).unwrap();
            (own.status, own.flags) = (AgentStatus::Lost, Vec::new());
            (own.evidence, own.ended_at_ms) = (Some("silent for 15 min".into()), Some(70));
            let lost = SessionNeed::of(&[root, own], None);
            // A parent that has gone on without a subagent that it had waited for resolves it.
            if kind == LivenessKind::Children || background {
                assert_eq!(lost.unwrap().facts(), stalled.facts(), "{kind:?} {background}");
            }
        }
    }
    let mut root = agent("root", AgentStatus::Lost, None);
    root.evidence = Some("silent for 15 min".into());
    let alone = [root];
    let need = SessionNeed::of(&alone, None).unwrap();
    assert_eq!((need.group, &*need.words), (NeedGroup::Trouble, "main is lost"));
    assert_eq!(Attention::of(&alone, Some(&need)), Attention::Ended, "nothing is at work");
}

#[test]
fn one_session_is_one_sentence_however_many_its_agents_are() {
    let mut agents = vec![agent("root", AgentStatus::Running, None)];
    agents.extend((0..140).map(|at| {
        let mut agent = agent(&format!("a{at}"), AgentStatus::Running, Some("root"));
        (agent.flags, agent.last_event_at_ms) = (vec![Flag::Stalled], Some(1_000 - at));
        agent
    }));
    let need = SessionNeed::of(&agents, None).unwrap();
    assert_eq!((&*need.words, need.trouble, need.agents.len()), ("140 agents are stalled", 140, 100));
    assert_eq!(need.since_ms(), Some(861), "the one that is silent for the longest");
    assert_eq!(need.facts().last().map(|fact| &**fact), Some("40 more"));
    agents[3].flags = vec![Flag::Failing];
    assert_eq!(&*SessionNeed::of(&agents, None).unwrap().words, "140 agents are in trouble");
    agents[5].liveness = live(LivenessKind::Question, false);
    let need = SessionNeed::of(&agents, None).unwrap();
    assert_eq!((&*need.words, need.waits, need.trouble), ("a4 asks you a question", 1, 139));
}

fn any_agent() -> impl Strategy<Value = Agent> {
    use LivenessKind::{Children, Idle, Model, Permission, Plan, Question, Retry, Tool};
    let status = prop::sample::select(vec![
        AgentStatus::Pending,
        AgentStatus::Running,
        AgentStatus::Completed,
        AgentStatus::Failed,
        AgentStatus::Stopped,
        AgentStatus::Lost,
    ]);
    let flags = prop::sample::subsequence(
        vec![Flag::Stalled, Flag::Looping, Flag::Failing, Flag::Colliding, Flag::Warmup, Flag::Copied],
        0..3,
    );
    let kind = prop::sample::select(vec![Model, Tool, Permission, Question, Plan, Children, Retry, Idle]);
    let evidence = prop::option::of(prop::sample::select(vec!["silent for 15 min", "the session ended"]));
    let times = (prop::option::of(0..20_i64), prop::option::of(0..20_i64));
    (status, flags, prop::option::of((kind, any::<bool>())), any::<bool>(), evidence, times).prop_map(
        |(status, flags, liveness, background, evidence, (last, ended))| {
            let mut agent = agent("", status, None);
            agent.liveness = liveness.and_then(|(kind, inferred)| live(kind, inferred));
            (agent.flags, agent.background) = (flags, background);
            (agent.last_event_at_ms, agent.ended_at_ms) = (last, ended);
            agent.evidence = evidence.map(Text::from);
            agent
        },
    )
}

fn any_agents() -> impl Strategy<Value = Vec<Agent>> {
    prop::collection::vec((any_agent(), any::<prop::sample::Index>()), 1..12).prop_map(|all| {
        let mut agents: Vec<Agent> = Vec::new();
        for (at, (mut agent, parent)) in all.into_iter().enumerate() {
            agent.id =
                if at == 0 { AgentId::from(AgentId::ROOT) } else { AgentId::from(format!("a{at}").as_str()) };
            agent.parent_id = (at > 0).then(|| agents[parent.index(at)].id.clone());
            agents.push(agent);
        }
        agents
    })
}

proptest! {
    #[test]
    fn need_counts_each_agent_once_and_decides_the_class(agents in any_agents(), run in prop::option::of(0..20_i64)) {
        let need = SessionNeed::of(&agents, run);
        let attention = Attention::of(&agents, need.as_ref());
        let waits = agents.iter().filter(|agent| agent.waits_for_person() && !agent.has(Flag::Warmup) && !agent.is_copy());
        let waits = waits.count();
        prop_assert_eq!(need.as_ref().map_or(0, |need| need.waits as usize), waits);
        let is_waiting = need.as_ref().is_some_and(|need| need.group == NeedGroup::Waits);
        prop_assert_eq!(is_waiting, waits > 0);
        let is_at_work = agents.iter().any(|agent| agent.is_at_work() && !agent.has(Flag::Warmup));
        prop_assert_eq!(attention == Attention::Ended, !is_at_work);
        let Some(need) = need else {
            prop_assert!(matches!(attention, Attention::Live | Attention::Ended));
            return Ok(());
        };
        prop_assert_eq!(need.agents.len(), (need.waits + need.trouble + need.perhaps) as usize);
        prop_assert_eq!(Some(need.group), need.agents.iter().map(|own| own.group).min());
        prop_assert!(need.agents.is_sorted_by_key(|own| own.group));
        let facts = need.facts();
        let distinct: std::collections::BTreeSet<_> = facts.iter().collect();
        prop_assert_eq!(distinct.len(), facts.len());
        // Neither the order of agents nor one that ends well beside them changes what they need.
        let mut others = agents.clone();
        others.reverse();
        others.push(agent("done", AgentStatus::Completed, Some(AgentId::ROOT)));
        let again = SessionNeed::of(&others, run).unwrap();
        let sorted = |need: &SessionNeed| {
            let mut facts = need.facts();
            facts.sort();
            facts
        };
        prop_assert_eq!(sorted(&again), sorted(&need));
        prop_assert_eq!((again.waits, again.trouble, again.perhaps), (need.waits, need.trouble, need.perhaps));
    }
}
