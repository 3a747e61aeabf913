//! Whose calls and responses are whose, and who started whom.
//!
//! A forked agent's file opens with a copy of its parent's last message, so one call or response can be claimed by
//! several agents: it belongs to the one nearest the root, and no agent owns the call that started it.

use smallvec::SmallVec;
use subscope_model::Basis;

use crate::{
    facts::{CallNo, Facts, ParentClaim, Ref},
    hooks::HookLog,
    identities::{Identities, No},
};

/// Who owns what, and the lineage that follows from it.
#[derive(Debug)]
pub(crate) struct Owners {
    /// By call; `None` for calls that belong to nobody's row.
    pub(crate) calls: Vec<Option<(No, Basis)>>,
    /// By response.
    pub(crate) responses: Vec<Option<No>>,
    /// By agent.
    pub(crate) parents: Vec<Parentage>,
}

/// Where an agent stands in the tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parentage {
    /// Who started it.
    pub(crate) parent: Option<No>,
    /// 0 for the root, 1 for orphans.
    pub(crate) depth: u32,
    /// Whether it is one of the harness's own warm-ups.
    pub(crate) is_warmup: bool,
}

type Claims = SmallVec<[(No, Basis); 2]>;

/// Concludes who owns what.
pub(crate) fn owners(facts: &Facts, people: &Identities, log: &HookLog) -> Owners {
    let claims: Vec<Claims> =
        (0..facts.calls.len() as CallNo).map(|number| claims_of(facts, people, log, number)).collect();
    let mut calls: Vec<Option<(No, Basis)>> = claims.iter().map(sole_claim).collect();
    // Where several claim a call, depth decides; depth rests on owners of spawn calls. Each round settles at least the
    // next level, and nothing is left after as many rounds as there are levels of contested spawn calls.
    let contested: Vec<usize> =
        (0..claims.len()).filter(|number| claims.get(*number).is_some_and(|it| it.len() > 1)).collect();
    let mut parents = lineage(facts, people, &calls);
    for _ in 0..=people.all.len().min(contested.len()) {
        let mut is_settled = true;
        for number in &contested {
            let nearest = claims.get(*number).and_then(|claims| nearest(claims, &parents));
            if let Some(slot) = calls.get_mut(*number)
                && *slot != nearest
            {
                *slot = nearest;
                is_settled = false;
            }
        }
        if is_settled {
            break;
        }
        parents = lineage(facts, people, &calls);
    }
    let responses = facts
        .responses
        .iter()
        .map(|response| {
            let claims: Claims = map_claims(people, &response.owners);
            nearest(&claims, &parents).map(|(owner, _)| owner)
        })
        .collect();
    Owners { calls, responses, parents }
}

fn map_claims(people: &Identities, owners: &[(Ref, Basis)]) -> Claims {
    let mut claims = Claims::new();
    for (name, basis) in owners {
        let Some(agent) = people.of(*name) else { continue };
        match claims.iter_mut().find(|(known, _)| *known == agent) {
            Some((_, known)) => *known = (*known).max(*basis),
            None => claims.push((agent, *basis)),
        }
    }
    claims
}

fn claims_of(facts: &Facts, people: &Identities, log: &HookLog, number: CallNo) -> Claims {
    let Some(call) = facts.calls.get(number as usize) else { return Claims::new() };
    let mut claims = map_claims(people, &call.owners);
    let started = people.started_by(number);
    claims.retain(|(owner, _)| Some(*owner) != started);
    if let Some((owner, basis)) = log.owners.get(&number).copied()
        && (claims.is_empty() || basis == Basis::Wire)
    {
        match claims.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, known)) => *known = (*known).max(basis),
            None => claims.push((owner, basis)),
        }
    }
    // A call that only its end told of belongs to whoever told it, or to nobody that is known.
    if claims.is_empty() && call.name.is_some() {
        claims.push((0, Basis::Unknown));
    }
    claims
}

fn sole_claim(claims: &Claims) -> Option<(No, Basis)> {
    match claims.as_slice() {
        [only] => Some(*only),
        _ => None,
    }
}

fn nearest(claims: &Claims, parents: &[Parentage]) -> Option<(No, Basis)> {
    let depth = |agent: No| {
        parents
            .get(agent)
            .map_or(u32::MAX, |it| if it.parent.is_none() && agent != 0 { u32::MAX } else { it.depth })
    };
    claims.iter().copied().min_by_key(|(agent, basis)| (depth(*agent), std::cmp::Reverse(*basis), *agent))
}

/// Concludes parents and depths: who the agent's own record names, else the owner of its spawn call, else the root
/// where its wire says so.
fn lineage(facts: &Facts, people: &Identities, calls: &[Option<(No, Basis)>]) -> Vec<Parentage> {
    let mut all: Vec<Parentage> = vec![Parentage::default(); people.all.len()];
    for (number, person) in people.all.iter().enumerate().skip(1) {
        let tellings = person.refs.iter().filter_map(|name| facts.agents.get(*name as usize));
        let is_warmup = person.origin.is_none() && tellings.clone().any(|agent| agent.is_warmup);
        let started = person.origin.or(person.batch);
        // A record that names the parent itself needs no owner of a call; call ids can repeat.
        let by_record = || {
            tellings.clone().find_map(|agent| match &agent.parent {
                Some(ParentClaim::Agent(id)) => people.by_id(facts, id),
                Some(ParentClaim::Root) | None => None,
            })
        };
        let by_call = || {
            let owner = started.and_then(|call| calls.get(call as usize).copied().flatten());
            owner.filter(|(_, basis)| *basis > Basis::Unknown).map(|(owner, _)| owner)
        };
        let is_roots = || tellings.clone().any(|agent| agent.parent == Some(ParentClaim::Root)).then_some(0);
        let parent = by_record().or_else(by_call).or_else(is_roots);
        let parent = parent.or_else(|| person.starter.and_then(|starter| people.of(starter)));
        if let Some(slot) = all.get_mut(number) {
            slot.parent = parent.filter(|parent| *parent != number && !is_warmup);
            slot.is_warmup = is_warmup;
        }
    }
    set_depths(&mut all);
    all
}

/// Walks every chain of parents once, without recursion; a circle is cut where it closes.
fn set_depths(all: &mut [Parentage]) {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        Unseen,
        OnPath,
        Depth(u32),
    }
    let mut marks = vec![Mark::Unseen; all.len()];
    if let Some(root) = marks.first_mut() {
        *root = Mark::Depth(0);
    }
    let mut path = Vec::new();
    for start in 1..all.len() {
        let mut next = Some(start);
        while let Some(agent) = next.filter(|agent| marks.get(*agent) == Some(&Mark::Unseen)) {
            marks[agent] = Mark::OnPath;
            path.push(agent);
            next = all[agent].parent;
        }
        let mut depth = match next.and_then(|agent| marks.get(agent)) {
            Some(Mark::Depth(depth)) => *depth,
            // Back at an agent of this path: a circle. Its last link is not believed.
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
