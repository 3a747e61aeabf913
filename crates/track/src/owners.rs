//! Ownership of calls and responses, and parents of agents.
//!
//! A forked agent's file begins with a copy of its parent's last message, so several agents can claim a call or
//! response: the claimant nearest the root owns it, and no agent owns the call that started it.

use smallvec::SmallVec;
use subscope_model::{Basis, Millis, Outcome};

use crate::{
    facts::{
        AgentRef, CallEndFact, CallFacts, CallIndex, Facts, ParentClaim, ROOT, ResponseFacts, join_owners,
    },
    hooks::HookLog,
    identities::{AgentIndex, Identities},
};

/// Owners of calls and responses, and the parents that follow from them.
#[derive(Debug)]
pub(crate) struct Ownership {
    /// Owner of each call; `None` for calls that no row lists.
    pub(crate) calls: Vec<Option<(AgentIndex, Basis)>>,
    /// Owner of each response, with its basis.
    responses: Vec<Option<(AgentIndex, Basis)>>,
    /// Position of each agent in the tree.
    pub(crate) parents: Vec<Parentage>,
}

/// Position of an agent in the tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parentage {
    /// Agent that started it.
    pub(crate) parent: Option<AgentIndex>,
    /// 0 for the root, 1 for orphans.
    pub(crate) depth: u32,
    /// Whether it is one of the harness's own warm-ups.
    pub(crate) is_warmup: bool,
}

impl Ownership {
    /// Returns the owner of a call; `None` if no row lists it.
    pub(crate) fn of_call(&self, call: CallIndex) -> Option<(AgentIndex, Basis)> {
        self.calls[call as usize]
    }

    /// Returns the owner of a response; `None` if no row counts it.
    pub(crate) fn of_response(&self, response: usize) -> Option<(AgentIndex, Basis)> {
        self.responses[response]
    }

    /// Returns the owner of each response, in the order of the facts.
    pub(crate) fn of_responses(&self) -> impl Iterator<Item = Option<AgentIndex>> {
        self.responses.iter().map(|owner| owner.map(|(owner, _)| owner))
    }

    /// Returns whether a report about a call counts: it is the owner's own, or names no agent.
    pub(crate) fn is_reported_by_owner(
        &self,
        identities: &Identities,
        call: CallIndex,
        by: Option<AgentRef>,
    ) -> bool {
        let owner = self.of_call(call).map(|(owner, _)| owner);
        match by.and_then(|by| identities.of(by)) {
            Some(reporter) => owner.is_none_or(|owner| owner == reporter),
            None => true,
        }
    }

    /// Returns outcome and time of a call's end by its best source. Only reports of its owner count: a forked agent's
    /// file contains a made-up result.
    pub(crate) fn call_end(
        &self,
        facts: &Facts,
        identities: &Identities,
        call: CallIndex,
    ) -> Option<(Outcome, Option<Millis>)> {
        let ends = &facts.call(call).ends;
        let counted =
            || ends.iter().filter(|end| self.is_reported_by_owner(identities, call, end.reporter()));
        // A denial is reported in addition to the error that the model sees.
        let denied = counted().find(|end| end.outcome == Outcome::Denied);
        let known = || {
            let times = counted().filter_map(|end| end.time.get().map(|time| (end.kind, time)));
            times.min().map(|(_, time)| time)
        };
        if let Some(denied) = denied {
            return Some((denied.outcome, known()));
        }
        let best = counted()
            .min_by_key(|end| (end.outcome == Outcome::Over, end.is_provisional, end.kind, end.time))?;
        Some((best.outcome, best.time.get().or_else(known)))
    }

    /// Returns the agent that started another; `None` for the root and orphans.
    pub(crate) fn parent_of(&self, agent: AgentIndex) -> Option<AgentIndex> {
        self.parents[agent].parent
    }
}

type Claims = SmallVec<[(AgentIndex, Basis); 2]>;

/// Derives owners and parents.
pub(crate) fn derive_ownership(facts: &Facts, identities: &Identities, log: &HookLog) -> Ownership {
    let claims: Vec<Claims> =
        facts.numbered_calls().map(|(number, call)| call_claims(identities, log, number, call)).collect();
    let mut calls: Vec<Option<(AgentIndex, Basis)>> = claims.iter().map(single_claimant).collect();
    // Of several claimants the one with the least depth wins, and depth depends on owners of spawn calls. Each round
    // settles at least one more level, so the number of agents and of contested calls bounds the rounds.
    let contested: Vec<usize> = (0..claims.len()).filter(|number| claims[*number].len() > 1).collect();
    let mut parents = derive_parents(facts, identities, &calls);
    for _ in 0..=identities.all.len().min(contested.len()) {
        let mut is_settled = true;
        for number in &contested {
            let nearest = nearest_claimant(&claims[*number], &parents);
            is_settled &= std::mem::replace(&mut calls[*number], nearest) == nearest;
        }
        if is_settled {
            break;
        }
        parents = derive_parents(facts, identities, &calls);
    }
    let nearest = |response: &ResponseFacts| {
        if response.owners.is_empty() && !response.is_merged {
            // As a call without a claimant, it is counted with the root.
            return Some((0, Basis::Unknown));
        }
        nearest_claimant(&merge_claims(identities, &response.owners), &parents)
    };
    let responses = facts.responses.iter().map(nearest).collect();
    Ownership { calls, responses, parents }
}

fn merge_claims(identities: &Identities, owners: &[(AgentRef, Basis)]) -> Claims {
    let mut claims = Claims::new();
    join_owners(&mut claims, owners.iter().filter_map(|(name, basis)| Some((identities.of(*name)?, *basis))));
    claims
}

fn call_claims(identities: &Identities, log: &HookLog, number: CallIndex, call: &CallFacts) -> Claims {
    let mut claims = merge_claims(identities, &call.owners);
    let started = identities.started_by(number);
    claims.retain(|(owner, _)| Some(*owner) != started);
    if claims.is_empty() {
        // Its begin was not seen: whose lines report the end called it.
        let ends = call.ends.iter().filter(|end| end.outcome != Outcome::Over);
        let reporters: SmallVec<[_; 2]> = ends.filter_map(CallEndFact::claim).collect();
        claims = merge_claims(identities, &reporters);
        claims.retain(|(owner, _)| Some(*owner) != started);
    }
    let by_hooks = log.owners.get(&number).copied();
    let counts = claims.is_empty();
    join_owners(&mut claims, by_hooks.filter(|(_, basis)| counts || *basis == Basis::Wire));
    // A call without a claimant is listed with the root, its owner unknown.
    if claims.is_empty() && call.is_reported() {
        claims.push((0, Basis::Unknown));
    }
    claims
}

fn single_claimant(claims: &Claims) -> Option<(AgentIndex, Basis)> {
    match claims.as_slice() {
        [only] => Some(*only),
        _ => None,
    }
}

fn nearest_claimant(claims: &Claims, parents: &[Parentage]) -> Option<(AgentIndex, Basis)> {
    let depth = |agent: AgentIndex| match &parents[agent] {
        Parentage { parent: None, .. } if agent != 0 => u32::MAX,
        Parentage { depth, .. } => *depth,
    };
    claims.iter().copied().min_by_key(|(agent, basis)| (depth(*agent), std::cmp::Reverse(*basis), *agent))
}

/// Derives parents and depths. Parent: the one named by the agent's own record, else the owner of its spawn call, else
/// the root if a source names it, else the one derived from hook order.
fn derive_parents(
    facts: &Facts,
    identities: &Identities,
    calls: &[Option<(AgentIndex, Basis)>],
) -> Vec<Parentage> {
    let mut all: Vec<Parentage> = vec![Parentage::default(); identities.all.len()];
    if let Some(root) = all.first_mut() {
        root.is_warmup = facts.agent(ROOT).is_warmup;
    }
    for (number, identity) in identities.all.iter().enumerate().skip(1) {
        let facts_of_agent = identity.refs.iter().map(|name| facts.agent(*name));
        let is_warmup = identity.origin.is_none() && facts_of_agent.clone().any(|agent| agent.is_warmup);
        let started = identity.origin.or(identity.batch);
        // Preferred over the call's owner: call ids can repeat.
        let by_record = || {
            facts_of_agent.clone().find_map(|agent| match &agent.parent {
                Some(ParentClaim::Agent(id)) => identities.by_id(facts, id),
                Some(ParentClaim::Root) | None => None,
            })
        };
        let by_call = || {
            let owner = started.and_then(|call| calls[call as usize]);
            owner.filter(|(_, basis)| *basis > Basis::Unknown).map(|(owner, _)| owner)
        };
        let by_source =
            || facts_of_agent.clone().any(|agent| agent.parent == Some(ParentClaim::Root)).then_some(0);
        let parent = by_record().or_else(by_call).or_else(by_source);
        let parent = parent.or_else(|| identity.starter.and_then(|starter| identities.of(starter)));
        all[number].parent = parent.filter(|parent| *parent != number && !is_warmup);
        all[number].is_warmup = is_warmup;
    }
    set_depths(&mut all);
    all
}

/// Sets depths by walking every chain of parents once, without recursion. A cycle is cut at the link that closes it.
fn set_depths(all: &mut [Parentage]) {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        Unseen,
        OnPath,
        Depth(u32),
    }
    let mut marks = vec![Mark::Unseen; all.len()];
    marks[0] = Mark::Depth(0);
    let mut path = Vec::new();
    for start in 1..all.len() {
        let mut next = Some(start);
        while let Some(agent) = next.filter(|agent| marks[*agent] == Mark::Unseen) {
            marks[agent] = Mark::OnPath;
            path.push(agent);
            next = all[agent].parent;
        }
        let mut depth = match next.map(|agent| marks[agent]) {
            Some(Mark::Depth(depth)) => depth,
            // A cycle: its last link is dropped.
            Some(Mark::OnPath | Mark::Unseen) | None => {
                if let Some(last) = path.last() {
                    all[*last].parent = None;
                }
                0
            }
        };
        while let Some(agent) = path.pop() {
            depth = depth.saturating_add(1);
            marks[agent] = Mark::Depth(depth);
            all[agent].depth = depth;
        }
    }
}

#[cfg(test)]
mod tests {
    use subscope_model::{Claim, Fact, Parent, SourceKind, Spawn};

    use super::*;
    use crate::test_session::{ROOT, TestSession, agent, response, spawn_call, spawned, tool_call};

    const TRANSCRIPT: SourceKind = SourceKind::Transcript;

    /// A session whose root has started `a1` by call `c1`.
    fn session() -> TestSession {
        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 1, ROOT, spawn_call("c1", r#""x""#));
        session.add(TRANSCRIPT, 2, agent("a1"), Fact::Activity);
        session.add(TRANSCRIPT, 2, agent("a1"), spawned("a1", "c1"));
        session
    }

    fn owner(session: &TestSession, call: &str) -> Option<(AgentIndex, Basis)> {
        session.owners().calls[session.call(call) as usize]
    }

    fn parent<'a>(id: &'a str, parent: &'a str) -> Fact<'a> {
        Fact::Spawn(Spawn { agent: Some(id), parent: Some(Parent::Agent(parent)), ..Spawn::default() })
    }

    #[test]
    fn calls_and_responses_of_several_claimants_are_owned_by_the_one_nearest_the_root() {
        let mut session = session();
        session.add(TRANSCRIPT, 3, agent("a1"), tool_call("c2", "Read"));
        session.add(TRANSCRIPT, 3, agent("a1"), Fact::Response(response("m1", 1)));
        let a1 = session.agent("a1");
        assert_eq!(owner(&session, "c2"), Some((a1, Basis::Wire)));
        assert_eq!(session.owners().of_responses().collect::<Vec<_>>(), [Some(a1)]);
        session.add(TRANSCRIPT, 4, ROOT, tool_call("c2", "Read"));
        session.add(TRANSCRIPT, 4, ROOT, Fact::Response(response("m1", 1)));
        assert_eq!(owner(&session, "c2"), Some((0, Basis::Wire)));
        assert_eq!(session.owners().of_responses().collect::<Vec<_>>(), [Some(0)]);
    }

    #[test]
    fn agent_does_not_own_the_call_that_started_it() {
        let mut session = session();
        session.add(TRANSCRIPT, 3, agent("a1"), spawn_call("c1", r#""x""#));
        assert_eq!(owner(&session, "c1"), Some((0, Basis::Wire)));
        assert_eq!(session.owners().parents[session.agent("a1")].parent, Some(0));

        let mut session = TestSession::new();
        session.add(TRANSCRIPT, 3, agent("a1"), spawn_call("c1", r#""x""#));
        session.add(TRANSCRIPT, 3, agent("a1"), spawned("a1", "c1"));
        assert_eq!(owner(&session, "c1"), Some((0, Basis::Unknown)), "only its own copy names the call");
    }

    #[test]
    fn parent_in_the_record_wins_over_the_owner_of_the_call() {
        let mut session = session();
        session.add(TRANSCRIPT, 3, ROOT, spawn_call("c2", r#""y""#));
        session.add(TRANSCRIPT, 4, agent("a2"), Fact::Activity);
        session.add(TRANSCRIPT, 4, agent("a2"), spawned("a2", "c2"));
        let (a1, a2) = (session.agent("a1"), session.agent("a2"));
        let position = |session: &TestSession| {
            let parents = session.owners().parents;
            (parents[a2].parent, parents[a2].depth)
        };
        assert_eq!(position(&session), (Some(0), 1));
        session.add(TRANSCRIPT, 5, agent("a2"), parent("a2", "a1"));
        assert_eq!(position(&session), (Some(a1), 2));
    }

    #[test]
    fn cycle_of_parents_is_cut_and_every_agent_has_a_depth() {
        let mut session = TestSession::new();
        for (id, above) in [("a1", "a3"), ("a2", "a1"), ("a3", "a2")] {
            session.add(TRANSCRIPT, 1, agent(id), Fact::Activity);
            session.add(TRANSCRIPT, 1, agent(id), parent(id, above));
        }
        let parents = session.owners().parents;
        let mut depths: Vec<u32> = parents.iter().map(|parentage| parentage.depth).collect();
        depths.sort_unstable();
        assert_eq!(depths, [0, 1, 2, 3]);
        assert_eq!(parents[1..].iter().filter(|parentage| parentage.parent.is_none()).count(), 1);
    }

    #[test]
    fn call_without_a_claimant_is_listed_with_the_root_but_starts_nobody() {
        let mut session = TestSession::new();
        session.add(SourceKind::Stream, 1, Claim::Silent, spawn_call("c1", r#""x""#));
        session.add(SourceKind::Stream, 2, Claim::SpawnedBy("c1"), Fact::Activity);
        assert_eq!(owner(&session, "c1"), Some((0, Basis::Unknown)));
        assert_eq!(session.owners().parents[session.agent("c1")].parent, None);
    }
}
