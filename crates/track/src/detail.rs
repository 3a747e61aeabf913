//! Derives runs, responses and what began each interval, for exports of spans.

use hashbrown::HashSet;
use subscope_model::{FinishReason, ResponseDetail, RunDetail, SessionDetail, ToolUseId};

use crate::{
    duplicates::Duplicates,
    facts::FactOrder,
    figures::{PriceLookup, derive_figures, response_figures},
    intervals::{calls_by_agent, triggered_intervals},
    runs::{Run, SessionRuns},
    status::Derivation,
};

/// Derives the detail of a session; what counts elsewhere is left out, as in rows.
pub(crate) fn session_detail(
    derivation: &Derivation<'_>,
    owned_elsewhere: &HashSet<u64>,
    runs: &SessionRuns,
) -> SessionDetail {
    let Derivation { facts, identities, owners, .. } = *derivation;
    let duplicates = Duplicates::find(facts, identities, owners, owned_elsewhere);
    let calls = calls_by_agent(facts, identities, owners, &duplicates);
    let triggers = (1..identities.all.len()).map(|number| {
        let intervals = triggered_intervals(derivation, number, &calls[number]);
        let triggers = intervals.into_iter().map(|(_, call)| call.map(ToolUseId)).collect();
        (identities.all[number].id.clone(), triggers)
    });
    SessionDetail {
        runs: runs.all.iter().map(run_detail).collect(),
        responses: responses(derivation, &duplicates),
        triggers: triggers.collect(),
    }
}

fn run_detail(run: &Run) -> RunDetail {
    // Runs of streams have no prompts: each is the n-th without a text.
    let key = run.prompt_key.as_deref().and_then(|key| key.strip_prefix("prompt/"));
    RunDetail {
        key: key.map_or_else(|| format!("/{}", run.number - 1), str::to_owned),
        started_at_ms: run.started_at,
        ending: run.ending.map(|ending| (ending.status, ending.time)),
    }
}

/// Returns the responses that count in this session, and the totals of agents without any.
fn responses(derivation: &Derivation<'_>, duplicates: &Duplicates<'_>) -> Vec<ResponseDetail> {
    let Derivation { facts, identities, owners, now, .. } = *derivation;
    let (mut responses, mut orders) = (Vec::new(), Vec::new());
    let mut prices = PriceLookup::new(now.prices);
    for (index, (response, owner)) in facts.responses.iter().zip(owners.of_responses()).enumerate() {
        let Some(owner) = owner.filter(|_| !response.synthetic && !duplicates.has_response(index)) else {
            continue;
        };
        let figures = response_figures(facts, identities, response, owner, &mut prices);
        let note = facts.response_notes.get(&response.key);
        let finish =
            note.filter(|_| response.is_final).and_then(|note| match (note.ends_turn, note.has_call) {
                (true, _) => Some(FinishReason::Stop),
                (false, true) => Some(FinishReason::ToolCall),
                (false, false) => None,
            });
        responses.push(ResponseDetail {
            id: note.map(|note| note.id.clone()),
            agent: identities.all[owner].id.clone(),
            model: response.model.as_ref().map(|(_, model)| model.clone()),
            usage: figures.map(|(usage, _)| usage),
            cost_pico_usd: figures.and_then(|(_, cost)| cost),
            times: response.times.map(|(from, to)| [from, to]),
            finish,
            calls: note.into_iter().flat_map(|note| note.calls.iter().cloned().map(ToolUseId)).collect(),
        });
        orders.push(note.map(|note| note.order));
    }
    let own = derive_figures(facts, identities, owners, duplicates, now.prices);
    for (identity, own) in identities.all.iter().zip(&own).filter(|(_, own)| own.messages == 0) {
        responses.extend(own.usage.map(|usage| ResponseDetail {
            id: None,
            agent: identity.id.clone(),
            model: None,
            usage: Some(usage),
            cost_pico_usd: (!own.has_unknown_price).then_some(own.pico_usd),
            times: None,
            finish: None,
            calls: Vec::new(),
        }));
    }
    // Facts are in the order in which they were read.
    orders.resize(responses.len(), None);
    let mut ordered: Vec<_> = responses.into_iter().zip(orders).collect();
    let key = |(response, order): &(ResponseDetail, Option<FactOrder>)| {
        (response.times, *order, response.id.clone(), response.agent.clone())
    };
    ordered.sort_by_cached_key(key);
    ordered.into_iter().map(|(response, _)| response).collect()
}

#[cfg(test)]
mod tests {
    use subscope_model::{Claim, Fact, PriceTable, Response, SourceKind, Usage};

    use super::*;
    use crate::{
        FactDetail, Limits, Now,
        test_session::{ROOT, TestSession, agent, response, spawn_call, spawned},
    };

    const TRANSCRIPT: SourceKind = SourceKind::Transcript;

    fn detail(session: &TestSession) -> SessionDetail {
        let prices = PriceTable::default();
        let now =
            Now { at: 1_000, has_ended: true, is_growing: false, prices: &prices, limits: Limits::default() };
        session.tracker.detail(&now)
    }

    fn ended(id: &str, output_tokens: u64) -> Response<'_> {
        Response { has_stop_reason: true, ..response(id, output_tokens) }
    }

    fn add_response(session: &mut TestSession, at: i64, claim: Claim<'_>, of: Response<'_>) {
        session.add(TRANSCRIPT, at, claim, Fact::Response(of));
    }

    #[test]
    fn responses_have_their_ids_agents_times_and_endings() {
        let mut session = TestSession::keeping(FactDetail::Payloads);
        session.add(TRANSCRIPT, 5, ROOT, spawn_call("c1", r#""x""#));
        session.add(TRANSCRIPT, 6, agent("a1"), spawned("a1", "c1"));
        add_response(&mut session, 20, agent("a1"), Response { ends_turn: true, ..ended("m2", 9) });
        add_response(&mut session, 10, ROOT, response("m1", 1));
        add_response(&mut session, 12, ROOT, Response { has_call: true, ..ended("m1", 4) });
        add_response(&mut session, 30, ROOT, response("m3", 4));
        let all = detail(&session).responses;
        let found: Vec<_> = all
            .iter()
            .map(|it| (it.id.as_deref().unwrap(), it.agent.as_str(), it.times.unwrap(), it.finish))
            .collect();
        assert_eq!(
            found,
            [
                ("m1", "root", [10, 12], Some(FinishReason::ToolCall)),
                ("m2", "a1", [20, 20], Some(FinishReason::Stop)),
                ("m3", "root", [30, 30], None),
            ]
        );
        let sum = all.iter().filter_map(|it| it.usage).fold(Usage::default(), |sum, usage| sum + usage);
        let rows = session.tree(1_000).agents.into_iter().filter_map(|row| row.usage);
        assert_eq!(sum.kinds(), rows.fold(Usage::default(), |sum, usage| sum + usage).kinds());
    }
}
