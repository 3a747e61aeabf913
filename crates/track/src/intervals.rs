//! Intervals in which agents were active, and the time that they cover.

use subscope_model::{Millis, Outcome, Text};

use crate::{
    duplicates::Duplicates,
    facts::{Facts, widest},
    figures::reported_totals,
    identities::{AgentIndex, Identities},
    owners::Ownership,
    status::Derivation,
};

/// Returns an agent's intervals of activity in order. Each resume with a known time opens a new one, and so does a task
/// after an end.
pub(crate) fn intervals(derivation: &Derivation<'_>, number: AgentIndex, calls: &[u32]) -> Vec<[Millis; 2]> {
    triggered_intervals(derivation, number, calls).into_iter().map(|(interval, _)| interval).collect()
}

/// Returns the intervals of [`intervals`], each with the call that began it.
pub(crate) fn triggered_intervals(
    derivation: &Derivation<'_>,
    number: AgentIndex,
    calls: &[u32],
) -> Vec<([Millis; 2], Option<Text>)> {
    let identity = &derivation.identities.all[number];
    let origin = derivation.spawn_call(identity).and_then(|call| call.id.clone());
    let Some((from, to)) = derivation.span(identity).get().or_else(|| reported_span(derivation, number))
    else {
        return Vec::new();
    };
    let mut boundaries: Vec<(Millis, Option<&Text>)> = derivation
        .triggers(identity)
        .filter(|trigger| Some(&trigger.call) != origin.as_ref())
        .filter_map(|trigger| {
            // The resuming call begins before the agent's first new line; its result may come after that line.
            let call = derivation.facts.call_by_id.get(&trigger.call);
            let begun_at = call.and_then(|call| derivation.facts.call(*call).begun_at());
            Some((begun_at.or(trigger.time)?, Some(&trigger.call)))
        })
        .chain(derivation.turn_times(identity).into_iter().map(|time| (time, None)))
        .filter(|(time, _)| from < *time && *time <= to)
        .collect();
    if boundaries.is_empty() {
        return vec![([from, to], origin)];
    }
    boundaries.sort_unstable();
    boundaries.dedup_by_key(|(time, _)| *time);
    let activity_times = activity_times(derivation, number, calls);
    let mut intervals = Vec::new();
    let (mut start, mut trigger) = (Millis::MIN, origin);
    let boundaries = boundaries.into_iter().map(|(time, call)| (time, call.cloned()));
    for (end, next) in boundaries.chain([(Millis::MAX, None)]) {
        let inside = activity_times.iter().copied().filter(|time| start <= *time && *time < end);
        if let Some((first, last)) = inside.fold(None, |span, time| widest(span, Some((time, time)))) {
            intervals.push(([first, last], trigger));
        }
        (start, trigger) = (end, next);
    }
    intervals
}

/// Returns the span of the call that started an agent and has its sums, if no source has lines of the agent itself.
fn reported_span(derivation: &Derivation<'_>, number: AgentIndex) -> Option<(Millis, Millis)> {
    let totals = reported_totals(derivation.facts, derivation.identities, number)?;
    let call = derivation.identities.all[number].origin?;
    let begun_at = derivation.facts.call(call).begun_at()?;
    let (_, ended_at) = derivation.call_end(call)?;
    let worked_until = totals.duration_ms.map(|duration| begun_at.saturating_add(duration));
    Some((begun_at, worked_until.or(ended_at)?))
}

/// Returns the times of all known activity of an agent.
fn activity_times(derivation: &Derivation<'_>, number: AgentIndex, calls: &[u32]) -> Vec<Millis> {
    let identity = &derivation.identities.all[number];
    let mut activity_times: Vec<Millis> =
        derivation.facts_of(identity).flat_map(|agent| agent.moments.iter().copied()).collect();
    if let Some((from, to)) = derivation.span(identity).get() {
        activity_times.extend([from, to]);
    }
    for call in calls {
        activity_times.extend(derivation.facts.call(*call).begun_at());
        let is_late = derivation.facts.call(*call).ends.iter().any(|end| end.is_late);
        let end = derivation.call_end(*call).filter(|(outcome, _)| *outcome != Outcome::Over && !is_late);
        activity_times.extend(end.and_then(|(_, time)| time));
    }
    for (response, owner) in derivation.facts.responses.iter().zip(derivation.owners.of_responses()) {
        if owner == Some(number)
            && let Some((from, to)) = response.times
        {
            activity_times.extend([from, to]);
        }
    }
    activity_times
}

/// Returns the time that intervals cover, overlaps counted once; `None` without intervals. Sorts them.
pub(crate) fn covered_ms(intervals: &mut [[Millis; 2]]) -> Option<i64> {
    intervals.sort_unstable();
    let mut covered = 0;
    let mut open: Option<[Millis; 2]> = None;
    for interval in intervals.iter() {
        match &mut open {
            Some(last) if interval[0] <= last[1] => last[1] = last[1].max(interval[1]),
            _ => {
                covered += open.map_or(0, |last| last[1] - last[0]);
                open = Some(*interval);
            }
        }
    }
    open.map(|last| covered + last[1] - last[0])
}

/// Returns the calls of each agent, ordered by begin; duplicates and uncounted calls are left out.
pub(crate) fn calls_by_agent(
    facts: &Facts,
    identities: &Identities,
    owners: &Ownership,
    duplicates: &Duplicates<'_>,
) -> Vec<Vec<u32>> {
    let mut lists: Vec<Vec<u32>> = vec![Vec::new(); identities.all.len()];
    for (number, call) in facts.numbered_calls() {
        if !call.is_reported() || !facts.is_counted(call) || duplicates.has_call(number) {
            continue;
        }
        if let Some((owner, _)) = owners.of_call(number) {
            lists[owner].push(number);
        }
    }
    let key = |number: u32| (facts.call(number).order(), &facts.call(number).id);
    for list in &mut lists {
        list.sort_by(|one, other| key(*one).cmp(&key(*other)));
    }
    lists
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_intervals_are_covered_once() {
        assert_eq!(covered_ms(&mut []), None);
        assert_eq!(covered_ms(&mut [[5, 10], [0, 6], [20, 21]]), Some(11));
        assert_eq!(covered_ms(&mut [[0, 10], [2, 3]]), Some(10));
    }
}
