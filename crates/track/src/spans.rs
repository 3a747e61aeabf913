//! When agents were active: stretches, their union and their sum.

use subscope_model::{Millis, Outcome};

use crate::{
    duplicates::Copies,
    facts::Facts,
    identities::{Identities, No},
    owners::Owners,
    status::{Derivation, call_end},
};

/// Returns an agent's stretches of activity in order. A resume opens a new one where times tell.
pub(crate) fn intervals(derivation: &Derivation<'_>, number: No, calls: &[u32]) -> Vec<[Millis; 2]> {
    let Some(identity) = derivation.identities.all.get(number) else { return Vec::new() };
    let Some((from, to)) = derivation.span(identity).get() else { return Vec::new() };
    let origin = identity
        .origin
        .and_then(|call| derivation.facts.calls.get(call as usize))
        .and_then(|call| call.id.clone());
    let mut borders: Vec<Millis> = derivation
        .tellings(identity)
        .flat_map(|agent| agent.triggers.iter())
        .filter(|trigger| Some(&trigger.call) != origin.as_ref())
        .filter_map(|trigger| {
            // The call that woke it comes before its first new line; the call's result may come after that.
            let call = derivation
                .facts
                .call_by_id
                .get(&trigger.call)
                .and_then(|call| derivation.facts.calls.get(*call as usize));
            call.and_then(|call| call.begin).and_then(|begin| begin.time()).or(trigger.time)
        })
        .filter(|time| from < *time && *time <= to)
        .collect();
    if borders.is_empty() {
        return vec![[from, to]];
    }
    borders.sort_unstable();
    borders.dedup();
    let points = points(derivation.facts, derivation, identity, calls, number);
    let mut stretches = Vec::new();
    let mut start = Millis::MIN;
    for end in borders.into_iter().chain([Millis::MAX]) {
        let inside = points.iter().copied().filter(|time| start <= *time && *time < end);
        if let Some((first, last)) = inside.fold(None, |span, time| join(span, (time, time))) {
            stretches.push([first, last]);
        }
        start = end;
    }
    stretches
}

/// Every moment at which the agent was seen to do something.
fn points(
    facts: &Facts,
    derivation: &Derivation<'_>,
    identity: &crate::identities::AgentIdentity,
    calls: &[u32],
    number: No,
) -> Vec<Millis> {
    let mut points: Vec<Millis> =
        derivation.tellings(identity).flat_map(|agent| agent.marks.iter().copied()).collect();
    if let Some((from, to)) = derivation.span(identity).get() {
        points.extend([from, to]);
    }
    for call in calls {
        let Some(told) = facts.calls.get(*call as usize) else { continue };
        points.extend(told.begin.and_then(|begin| begin.time()));
        points.extend(
            call_end(derivation, *call, told)
                .filter(|(outcome, _)| *outcome != Outcome::Over)
                .and_then(|(_, time)| time),
        );
    }
    for (response, owner) in facts.responses.iter().zip(&derivation.owners.responses) {
        if *owner == Some(number)
            && let Some((from, to)) = response.times
        {
            points.extend([from, to]);
        }
    }
    points
}

fn join(span: Option<(Millis, Millis)>, other: (Millis, Millis)) -> Option<(Millis, Millis)> {
    Some(span.map_or(other, |(from, to)| (from.min(other.0), to.max(other.1))))
}

/// Returns how much time the stretches cover together, and `None` without any.
pub(crate) fn union(stretches: &mut [[Millis; 2]]) -> Option<i64> {
    stretches.sort_unstable();
    let mut covered = 0;
    let mut open: Option<[Millis; 2]> = None;
    for stretch in stretches.iter() {
        match &mut open {
            Some(last) if stretch[0] <= last[1] => last[1] = last[1].max(stretch[1]),
            _ => {
                covered += open.map_or(0, |last| last[1] - last[0]);
                open = Some(*stretch);
            }
        }
    }
    open.map(|last| covered + last[1] - last[0])
}

/// Returns the calls of each agent, by begin.
pub(crate) fn calls_by_agent(
    facts: &Facts,
    identities: &Identities,
    owners: &Owners,
    copies: &Copies<'_>,
) -> Vec<Vec<u32>> {
    let mut lists: Vec<Vec<u32>> = vec![Vec::new(); identities.all.len()];
    for (number, call) in facts.calls.iter().enumerate() {
        if call.name.is_none() || !facts.counts(call) || copies.has_call(number as u32) {
            continue;
        }
        let owner = owners.calls.get(number).copied().flatten();
        if let Some(list) = owner.and_then(|(owner, _)| lists.get_mut(owner)) {
            list.push(number as u32);
        }
    }
    for list in &mut lists {
        list.sort_by(|one, other| {
            let key =
                |number: &u32| facts.calls.get(*number as usize).map(|call| (call.order(), call.id.clone()));
            key(one).cmp(&key(other))
        });
    }
    lists
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn union_of_overlapping_stretches_counts_once() {
        assert_eq!(union(&mut []), None);
        assert_eq!(union(&mut [[5, 10], [0, 6], [20, 21]]), Some(11));
        assert_eq!(union(&mut [[0, 10], [2, 3]]), Some(10));
    }
}
