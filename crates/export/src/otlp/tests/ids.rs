//! Ids of spans: they stay while a session grows, except in the documented case.

use super::*;

/// Most moments at which a recording is exported.
const MOMENTS: usize = 8;

/// Spans by what they are of, whatever their ids: an interval by its number and both names of its agent, its own id, which
/// may become known later, and the call that started it.
fn units(all: Vec<Span>) -> BTreeMap<(&'static str, String), Span> {
    let mut intervals: BTreeMap<String, usize> = BTreeMap::new();
    let mut named = BTreeMap::new();
    for span in all {
        if is(&span, "invoke_agent") {
            let agent = agent_of(&span).to_owned();
            let number = intervals.entry(agent.clone()).or_default();
            *number += 1;
            for name in [Some(agent.as_str()), text(&span, "subscope.spawned_by")].into_iter().flatten() {
                named.insert(("interval", format!("{name}/{number}")), span.clone());
            }
        } else if let Some(response) = text(&span, "gen_ai.response.id") {
            named.insert(("response", response.to_owned()), span.clone());
        } else if let Some(call) = text(&span, "gen_ai.tool.call.id") {
            named.insert(("call", call.to_owned()), span.clone());
        }
    }
    named
}

/// The id of an agent's span as long as no source names its call.
fn unlinked_id(read: &Read, agent: &str) -> SpanId {
    id(&read.tree.session.id, "invoke_agent", agent)
}

#[test]
fn a_unit_that_was_exported_keeps_its_id_in_every_recording() {
    let mut compared = 0;
    for recording in recordings() {
        let what = recording.name();
        let parts = parts_of(&recording, &[Telling::Transcript]);
        let read = read_at(&parts, None).unwrap();
        assert_eq!(requests(&read, None), requests(&read, None), "{what}: exported twice");
        let whole = units(spans(&read));
        let moments: BTreeSet<Millis> = read.events.iter().filter_map(|event| event.at_ms).collect();
        let moments: Vec<Millis> = moments.into_iter().collect();
        for moment in moments.iter().step_by(moments.len().div_ceil(MOMENTS).max(1)) {
            let Some(earlier) = read_at(&parts, Some(*moment)) else { continue };
            if earlier.detail.runs.is_empty() {
                // The times of some lines precede that of the prompt before them: no file ends there.
                continue;
            }
            for (unit, span) in units(spans(&earlier)) {
                let Some(later) = whole.get(&unit) else {
                    // By the call alone: until its id was known, the agent had that of its call.
                    let call = text(&span, "subscope.spawned_by");
                    assert!(call == Some(agent_of(&span)), "{what} {moment}: {unit:?} is gone");
                    continue;
                };
                let was_unlinked =
                    unit.0 == "interval" && span.span_id == unlinked_id(&earlier, agent_of(&span));
                assert!(later.span_id == span.span_id || was_unlinked, "{what} {moment}: {unit:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 1_000, "{compared}");
}

#[test]
fn an_agent_whose_call_is_named_after_its_export_gets_a_second_span() {
    let recording = recording("2.1.330", "c-nested");
    let all = parts_of(&recording, &[Telling::Transcript]);
    let whole = read_at(&all, None).unwrap();
    let agent = whole.tree.agents.iter().find(|agent| agent.depth == 2).unwrap();
    let call = agent.spawned_by.as_deref().unwrap();
    // Only the agent's own transcript: no source names its call.
    let file = format!("agent-{}.jsonl", agent.id);
    let alone: Vec<Part> = all.iter().filter(|part| part.spec.label.ends_with(&file)).cloned().collect();
    assert_eq!(alone.len(), 1, "{file}");
    let earlier = read_at(&alone, None).unwrap();
    let (before, after) = (units(spans(&earlier)), units(spans(&whole)));
    let own: Vec<_> = before.iter().filter(|(_, span)| agent_of(span) == agent.id.as_str()).collect();
    assert!(own.len() > 2, "{before:?}");
    for (unit, span) in own {
        let later = &after[unit];
        if unit.0 == "interval" {
            assert_eq!(span.span_id, unlinked_id(&earlier, &agent.id));
            assert_eq!(later.span_id, id::<8>(&whole.tree.session.id, "invoke_agent", call));
        } else {
            assert_eq!(span.span_id, later.span_id, "{unit:?}");
        }
    }
}
