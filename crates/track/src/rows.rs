//! Builds the rows of a [`Tree`] from the results of all derivation steps.

use hashbrown::HashSet;
use subscope_model::{
    Actor, Agent, AgentId, AgentStatus, Basis, Flag, Millis, Outcome, Problem, Session, SessionId, SpawnMode,
    Subtree, Summary, TREE_SCHEMA, Text, ToolCall, ToolClass, ToolStatus, Tree, Usage,
};

use crate::{
    duplicates::Duplicates,
    facts::{FactOrder, Facts, HookStepKind, ReportedPayloads, best_value},
    figures::{AgentFigures, add_known, derive_figures},
    flags,
    identities::{AgentIndex, is_ghost},
    intervals::{calls_by_agent, covered_ms, intervals},
    limits::AgentLimits,
    liveness::{
        ActivityContext, AgentActivity, derive_activity, idle_activity, is_stalled, is_start_overdue,
        open_questions,
    },
    owners::Ownership,
    status::{Derivation, DerivedState, Silence},
};

/// Derived data of one agent, before its row is built.
struct RowDraft {
    state: DerivedState,
    calls: Vec<u32>,
    statuses: Vec<ToolStatus>,
    intervals: Vec<[Millis; 2]>,
    last: Option<Millis>,
    /// Its silence limits.
    limits: AgentLimits,
    children: Vec<AgentIndex>,
}

/// Builds the tree of a session. Calls and responses in `owned_elsewhere` count in another session; `runs` is the
/// number of runs.
pub(crate) fn build_tree(
    session: &SessionId,
    derivation: &Derivation<'_>,
    owned_elsewhere: &HashSet<u64>,
    runs: u32,
) -> Tree {
    let Derivation { facts, identities, owners, now, harness, .. } = *derivation;
    let duplicates = Duplicates::find(facts, identities, owners, owned_elsewhere);
    let calls = calls_by_agent(facts, identities, owners, &duplicates);
    let own = derive_figures(facts, identities, owners, &duplicates, now.prices);
    let order = pre_order(derivation);
    let drafts = draft_rows(derivation, calls, &order, &own);
    let activities = derive_activities(derivation, &drafts);
    let mut sums = sum_subtrees(&order, owners, &duplicates, &drafts, &own);
    let build = |number: &AgentIndex| {
        let mut row = build_row(derivation, *number, &drafts, &activities, &own);
        row.flags.extend(duplicates.has_agent(*number).then_some(Flag::Copied));
        row.subtree = std::mem::take(&mut sums[*number]);
        row
    };
    let mut rows: Vec<Agent> = order.iter().map(build).collect();
    mark_collisions(derivation, &drafts, &order, &mut rows);
    let summary = summarise(facts, &rows, &drafts, &own);
    Tree {
        schema: TREE_SCHEMA.into(),
        session: Session {
            id: session.clone(),
            harness: harness.map(Text::from),
            harness_version: facts.version.as_ref().map(|best| best.value.0.clone()),
            cwd: best_value(&facts.cwd),
            title: best_value(&facts.title).map(|text| shorten_title(&text)),
            started_at_ms: facts.span.get().map(|(from, _)| from),
            ended_at_ms: facts.span.get().map(|(_, to)| to),
            runs,
            rev: None,
        },
        agents: rows,
        summary,
        problems: list_problems(facts),
    }
}

/// Returns the first line of a prompt, at most 120 characters.
fn shorten_title(prompt: &str) -> Text {
    let line = prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    match line.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()).into(),
        None => line.into(),
    }
}

/// Lists problems of decoding and stop hooks of ghosts.
fn list_problems(facts: &Facts) -> Vec<Problem> {
    let mut all = facts.problems.clone();
    let mut ghosts: Vec<&Text> = facts.ends.keys().filter(|id| is_ghost(facts, id)).collect();
    ghosts.sort();
    for id in ghosts {
        let step =
            facts.hooks.iter().find(|step| matches!(&step.kind, HookStepKind::Stop { agent } if agent == id));
        let line = step.map_or(0, |step| step.line);
        all.push(Problem {
            at: format!("hooks:{line}"),
            what: format!(
                "a stop of agent {id}, which never started and has no type; not counted as an agent"
            ),
        });
    }
    all.sort();
    all
}

/// Returns all agents in pre-order: siblings by start, orphans after the root's descendants.
fn pre_order(derivation: &Derivation<'_>) -> Vec<AgentIndex> {
    let started = |number: AgentIndex| start_key(derivation, number);
    let mut children: Vec<Vec<AgentIndex>> = vec![Vec::new(); derivation.identities.all.len()];
    let mut orphans = Vec::new();
    for number in 1..derivation.identities.all.len() {
        match derivation.owners.parent_of(number) {
            Some(parent) => children[parent].push(number),
            None => orphans.push(number),
        }
    }
    for list in &mut children {
        list.sort_by_cached_key(|number| started(*number));
    }
    orphans.sort_by_cached_key(|number| started(*number));
    let mut order = Vec::with_capacity(derivation.identities.all.len());
    let mut waiting: Vec<AgentIndex> = orphans.into_iter().rev().collect();
    waiting.push(0);
    while let Some(number) = waiting.pop() {
        order.push(number);
        waiting.extend(children[number].iter().rev());
    }
    order
}

/// Returns the sort key of siblings: start, else time of the spawn call, then id.
fn start_key(derivation: &Derivation<'_>, number: AgentIndex) -> (bool, Millis, Option<FactOrder>, AgentId) {
    let identity = derivation.identity(number);
    let first = derivation.span(identity).get().map(|(from, _)| from);
    let asked = derivation.spawn_call(identity).and_then(|call| call.order().1);
    let trigger = derivation
        .facts_of(identity)
        .flat_map(|agent| agent.triggers.iter().map(|trigger| trigger.order))
        .min();
    let last_seen = derivation.facts_of(identity).filter_map(|agent| agent.last_seen).min();
    let order = asked.or(trigger).or(last_seen);
    let time = first.or(order.map(|order| order.time).filter(|time| *time > Millis::MIN));
    (time.is_none(), time.unwrap_or(0), order, identity.id.clone())
}

/// Derives calls, intervals, silence and status of every agent.
fn draft_rows(
    derivation: &Derivation<'_>,
    mut calls: Vec<Vec<u32>>,
    order: &[AgentIndex],
    own: &[AgentFigures],
) -> Vec<RowDraft> {
    let count = derivation.identities.all.len();
    let questions = open_questions(derivation);
    let mut silences = vec![Silence::default(); count];
    let mut drafts: Vec<RowDraft> = (0..count)
        .map(|number| {
            let calls = std::mem::take(&mut calls[number]);
            let statuses: Vec<ToolStatus> = calls.iter().map(|call| call_status(derivation, *call)).collect();
            let intervals = intervals(derivation, number, &calls);
            let last = last_activity(derivation, number, &calls);
            let is_in_call = statuses.contains(&ToolStatus::Open);
            let has_open = is_in_call || questions.iter().any(|(asked, _)| *asked == number);
            let limits = limits_of(derivation, number, own);
            let (lost_after_ms, text_final_after_ms) = (limits.lost_after_ms(has_open), limits.stall_ms);
            silences[number] = Silence { last, lost_after_ms, text_final_after_ms, is_in_call };
            let state = DerivedState::new(AgentStatus::Running, None);
            RowDraft { state, calls, statuses, intervals, last, limits, children: Vec::new() }
        })
        .collect();
    // Orphans come last in pre-order, so in reverse all of them are seen before any agent that may have started them.
    let mut unlinked = None;
    for number in order.iter().rev().copied() {
        if number != 0 && is_unlinked(derivation, number) {
            unlinked = unlinked.max(silences[number].last);
        } else if has_unlinked_spawn(derivation, &drafts[number].calls) {
            silences[number].last = silences[number].last.max(unlinked);
        }
        if let Some(parent) = derivation.owners.parent_of(number) {
            let below = silences[number];
            let above = &mut silences[parent];
            above.last = above.last.max(below.last);
            above.lost_after_ms = above.lost_after_ms.max(below.lost_after_ms);
        }
    }
    for number in order.iter().copied() {
        drafts[number].state = if number == 0 {
            derivation.root_state(silences[0])
        } else {
            derivation.subagent_state(number, silences[number])
        };
        if let Some(parent) = derivation.owners.parent_of(number) {
            drafts[parent].children.push(number);
        }
    }
    drafts
}

/// Returns the silence limits of an agent.
fn limits_of(derivation: &Derivation<'_>, number: AgentIndex, own: &[AgentFigures]) -> AgentLimits {
    let limits = &derivation.now.limits;
    if limits.rules.is_empty() {
        return limits.of(None, None);
    }
    let model = model_of(derivation, number, &own[number]);
    limits.of(derivation.harness, model.as_deref())
}

/// Derives what each agent does; `None` for agents that are not running, except a root idle between prompts.
fn derive_activities(derivation: &Derivation<'_>, drafts: &[RowDraft]) -> Vec<Option<AgentActivity>> {
    let is_active = |number: &AgentIndex| drafts[*number].state.status.is_live();
    let is_root_alone = !(1..drafts.len()).any(|number| is_active(&number));
    // A hook may report an end before the agent's last line is written.
    let last_report = |draft: &RowDraft| draft.last.max(draft.state.reported_at);
    let latest = drafts.iter().filter_map(last_report).max();
    let all_unlinked = || (1..drafts.len()).filter(|number| is_unlinked(derivation, *number));
    let last_unlinked = all_unlinked().filter_map(|number| last_report(&drafts[number])).max();
    let unlinked = (all_unlinked().any(|number| is_active(&number)), last_unlinked);
    let questions = open_questions(derivation);
    let one = |(number, draft): (AgentIndex, &RowDraft)| {
        let status = draft.state.status;
        if status != AgentStatus::Running {
            let is_between_prompts = number == 0 && !status.is_live() && status != AgentStatus::Lost;
            let is_open = derivation.hooks.is_open && !derivation.now.has_ended;
            return (is_between_prompts && is_open).then(|| idle_activity(draft.last));
        }
        // A lost agent has returned nothing: its caller still waits.
        let is_outstanding =
            |child: &&AgentIndex| is_active(child) || drafts[**child].state.status == AgentStatus::Lost;
        let (children, ended): (Vec<AgentIndex>, Vec<AgentIndex>) =
            draft.children.iter().partition(is_outstanding);
        let returned_at = ended.iter().filter_map(|child| last_report(&drafts[*child])).max();
        let turn = if is_root_alone { latest } else { draft.last.max(returned_at) };
        let question = questions.iter().rev().find(|(asked, _)| *asked == number).map(|(_, asked)| *asked);
        let (calls, last) = (draft.calls.as_slice(), draft.last);
        let left_since = draft.state.left_since;
        let children = &children;
        Some(derive_activity(
            derivation,
            &ActivityContext { number, calls, last, turn, children, unlinked, question, left_since },
        ))
    };
    drafts.iter().enumerate().map(one).collect()
}

/// Whether neither parent nor spawn call of an agent is known.
fn is_unlinked(derivation: &Derivation<'_>, number: AgentIndex) -> bool {
    derivation.owners.parent_of(number).is_none() && derivation.identity(number).origin.is_none()
}

/// Whether an agent has an open spawn call that is linked to no agent.
fn has_unlinked_spawn(derivation: &Derivation<'_>, calls: &[u32]) -> bool {
    calls.iter().any(|call| {
        derivation.facts.call(*call).class == ToolClass::Spawn
            && derivation.is_open(*call)
            && derivation.identities.started_by(*call).is_none()
    })
}

/// Returns the time of an agent's last activity: its own lines, its calls, and the calls that started or resumed it.
fn last_activity(derivation: &Derivation<'_>, number: AgentIndex, calls: &[u32]) -> Option<Millis> {
    let identity = derivation.identity(number);
    let own = derivation.facts_of(identity).filter_map(|agent| agent.span.latest().max(agent.last_started));
    let resumed = derivation
        .facts_of(identity)
        .flat_map(|agent| agent.triggers.iter().filter_map(|trigger| trigger.time));
    let asked = derivation.spawn_call(identity).and_then(|call| call.begun_at());
    let called = calls.iter().flat_map(|call| {
        let ended = derivation.call_end(*call).and_then(|(_, time)| time);
        [derivation.facts.call(*call).begun_at(), ended]
    });
    let last = own.chain(resumed).chain(asked).chain(called.flatten()).max();
    if number != 0 {
        return last;
    }
    // Lines that name no agent are the root's if the source names subagents or there are none.
    let is_alone = derivation.identities.all.len() == 1;
    let unnamed = derivation.facts.last_unattributed.filter(|_| derivation.facts.has_identity || is_alone);
    last.max(unnamed).or(derivation.facts.span.latest().filter(|_| is_alone))
}

fn call_status(derivation: &Derivation<'_>, number: u32) -> ToolStatus {
    match derivation.call_end(number).map(|(outcome, _)| outcome) {
        Some(Outcome::Ok) => ToolStatus::Ok,
        Some(Outcome::Denied) => ToolStatus::Denied,
        Some(Outcome::Over) if was_asked(derivation, number) || was_stopped(derivation, number) => {
            ToolStatus::Denied
        }
        Some(Outcome::Error | Outcome::Interrupted | Outcome::Over) => ToolStatus::Error,
        None => ToolStatus::Open,
    }
}

/// Whether the user was asked to allow the call. If so and it is over without a result, it was denied.
fn was_asked(derivation: &Derivation<'_>, number: u32) -> bool {
    let own = derivation.facts.call(number).digest.map(|(_, digest)| digest);
    let mut kinds = derivation.facts.hooks.iter().map(|step| &step.kind);
    kinds.any(|kind| matches!(kind, HookStepKind::Permission { digest, .. } if Some(*digest) == own))
}

/// Whether the call was refused to deliver a stop order.
fn was_stopped(derivation: &Derivation<'_>, number: u32) -> bool {
    derivation.facts.stops.values().flatten().any(|stop| stop.call == Some(number))
}

fn build_row(
    derivation: &Derivation<'_>,
    number: AgentIndex,
    drafts: &[RowDraft],
    activities: &[Option<AgentActivity>],
    own: &[AgentFigures],
) -> Agent {
    let identity = derivation.identity(number);
    let draft = &drafts[number];
    let figures = &own[number];
    let parentage = &derivation.owners.parents[number];
    let state = &draft.state;
    let is_live = state.status.is_live();
    let call = derivation.spawn_call(identity);
    let asked = call.and_then(|call| call.spawn.as_deref());
    let first = |by_agent: &dyn Fn(&crate::facts::AgentFacts) -> Option<Text>, by_call: Option<Text>| {
        derivation.facts_of(identity).find_map(by_agent).or(by_call)
    };
    let tools: Vec<ToolCall> = draft
        .calls
        .iter()
        .zip(&draft.statuses)
        .map(|(call, status)| build_tool_call(derivation, *call, *status))
        .collect();
    let count = |status: ToolStatus| draft.statuses.iter().filter(|known| **known == status).count() as u32;
    let report = state.report.clone();
    let is_completed = state.status == AgentStatus::Completed;
    let result = is_completed.then(|| report_of(derivation, number)).flatten().or(report);
    let cost = figures.cost();
    let span = draft.intervals.first().zip(draft.intervals.last());
    Agent {
        id: identity.id.clone(),
        actor_id: Actor(identity.id.clone()),
        parent_id: parentage.parent.map(|parent| derivation.identity(parent).id.clone()),
        spawned_by: spawned_by(derivation, number).map(subscope_model::ToolUseId),
        depth: parentage.depth,
        agent_type: first(
            &|agent| best_value(&agent.agent_type),
            asked.and_then(|asked| best_value(&asked.agent_type)),
        ),
        name: first(&|agent| best_value(&agent.name), asked.and_then(|asked| best_value(&asked.name))),
        description: first(
            &|agent| best_value(&agent.description),
            asked.and_then(|asked| best_value(&asked.description)),
        ),
        model: model_of(derivation, number, figures),
        background: derivation.mode(identity) == Some(SpawnMode::Background),
        status: state.status,
        evidence: state.evidence.clone(),
        liveness: activities[number].as_ref().map(|activity| activity.liveness.clone()),
        flags: flags_of(derivation, number, drafts, activities),
        started_at_ms: span.map(|(first, _)| first[0]),
        ended_at_ms: if is_live { None } else { span.map(|(_, last)| last[1]).or(state.ended_at) },
        last_event_at_ms: draft.last,
        wall_ms: covered_ms(&mut draft.intervals.clone()),
        intervals: draft.intervals.clone(),
        tool_calls: tools.len() as u32,
        tool_errors: count(ToolStatus::Error),
        tools_denied: count(ToolStatus::Denied),
        open_tools: count(ToolStatus::Open),
        tools,
        messages: figures.messages,
        usage: figures.usage,
        cost_micro_usd: cost,
        cost_floor: cost.is_some() && figures.usage.is_some_and(|usage| usage.floor),
        prompt: prompt_of(derivation, number).or_else(|| asked.and_then(|asked| best_value(&asked.prompt))),
        result,
        error: state.error.clone(),
        subtree: Subtree::default(),
        rev: None,
    }
}

/// Returns the id of the call that started an agent, alone or with others.
fn spawned_by(derivation: &Derivation<'_>, number: AgentIndex) -> Option<Text> {
    let identity = derivation.identity(number);
    derivation.facts.call(identity.origin.or(identity.batch)?).id.clone()
}

fn prompt_of(derivation: &Derivation<'_>, number: AgentIndex) -> Option<Text> {
    if number == 0 {
        return best_value(&derivation.facts.title);
    }
    derivation.facts_of(derivation.identity(number)).find_map(|agent| best_value(&agent.prompt))
}

/// Returns the report of an agent: its last text, unless a call followed.
fn report_of(derivation: &Derivation<'_>, number: AgentIndex) -> Option<Text> {
    let identity = derivation.identity(number);
    let facts = || derivation.facts_of(identity);
    let text = facts().filter_map(|agent| agent.last_text.as_ref()).map(|(order, ..)| *order).max()?;
    let last_line =
        facts().flat_map(|agent| agent.last_lines.iter().flatten()).map(|(order, _)| *order).max();
    // Text before a later call is not a report.
    if last_line.is_some_and(|last_line| last_line.time > text.time) {
        return None;
    }
    derivation.last_text(identity)
}

fn model_of(derivation: &Derivation<'_>, number: AgentIndex, figures: &AgentFigures) -> Option<Text> {
    let identity = derivation.identity(number);
    let asked = derivation.spawn_call(identity).and_then(|call| call.spawn.as_deref());
    let reported = || derivation.facts_of(identity).find_map(|agent| best_value(&agent.model));
    let root = || if number == 0 { best_value(&derivation.facts.root_model) } else { None };
    let answered = figures.model.as_ref().map(|(_, model)| model.clone());
    answered
        .or_else(root)
        .or_else(|| asked.and_then(|asked| best_value(&asked.resolved_model)))
        .or_else(reported)
        .or_else(|| asked.and_then(|asked| best_value(&asked.model)))
}

fn build_tool_call(derivation: &Derivation<'_>, number: u32, status: ToolStatus) -> ToolCall {
    let call = derivation.facts.call(number);
    let payloads = call.payloads.as_deref();
    let best = |reported: &ReportedPayloads| {
        let best = reported.best(|by| derivation.is_reported_by_owner(number, by));
        best.map(|payload| Box::new(payload.clone()))
    };
    ToolCall {
        id: call.id.clone().map(subscope_model::ToolUseId),
        name: call.name.clone().unwrap_or_else(|| "".into()),
        status,
        basis: derivation.owners.of_call(number).map_or(Basis::Unknown, |(_, basis)| basis),
        started_at_ms: call.begun_at(),
        ended_at_ms: derivation.call_end(number).and_then(|(_, time)| time),
        detail: call.detail.as_ref().map(|(_, detail)| detail.clone()),
        input: payloads.and_then(|payloads| best(&payloads.input)),
        result: payloads.and_then(|payloads| best(&payloads.result)),
    }
}

fn flags_of(
    derivation: &Derivation<'_>,
    number: AgentIndex,
    drafts: &[RowDraft],
    activities: &[Option<AgentActivity>],
) -> Vec<Flag> {
    let draft = &drafts[number];
    let parentage = &derivation.owners.parents[number];
    let active = drafts.iter().skip(1).filter(|draft| draft.state.status.is_live()).count() as u32;
    let is_stopping = number != 0
        && draft.state.status.is_live()
        && derivation.is_asked_to_stop(derivation.identity(number));
    let caller = parentage.parent.and_then(|parent| activities[parent].as_ref());
    let is_silent = match &activities[number] {
        Some(activity) => is_stalled(derivation, activity, draft.last, draft.limits, active),
        None => is_start_overdue(derivation, draft.state.status, caller, draft.last, draft.limits),
    };
    let is_orphan = number != 0 && parentage.parent.is_none();
    let all = [
        (Flag::Stopping, is_stopping),
        (Flag::Stalled, is_silent),
        (Flag::Looping, flags::is_looping(derivation.facts, &draft.calls)),
        (Flag::Failing, flags::is_failing(&draft.statuses)),
        (Flag::Orphan, is_orphan && !parentage.is_warmup),
        (Flag::Warmup, parentage.is_warmup),
    ];
    all.into_iter().filter_map(|(flag, is_set)| is_set.then_some(flag)).collect()
}

fn mark_collisions(
    derivation: &Derivation<'_>,
    drafts: &[RowDraft],
    order: &[AgentIndex],
    rows: &mut [Agent],
) {
    let mut writes = Vec::new();
    for (number, draft) in drafts.iter().enumerate() {
        for (call, status) in draft.calls.iter().zip(&draft.statuses) {
            let call_facts = derivation.facts.call(*call);
            if let (Some(file), Some(from), ToolStatus::Ok | ToolStatus::Open) =
                (&call_facts.writes, call_facts.begun_at(), status)
            {
                let to = derivation.call_end(*call).and_then(|(_, time)| time).unwrap_or(from);
                writes.push((number, file.clone(), from, to.max(from)));
            }
        }
    }
    if writes.len() < 2 {
        return;
    }
    let active = |number: AgentIndex| {
        let list = &drafts[number].intervals;
        Some((list.first()?[0], list.last()?[1]))
    };
    let is_above = |upper: AgentIndex, lower: AgentIndex| {
        std::iter::successors(Some(lower), |agent| derivation.owners.parent_of(*agent)).any(|it| it == upper)
    };
    let marked = flags::find_colliding(&writes, &active, &is_above);
    for (row, number) in rows.iter_mut().zip(order) {
        if marked.contains(number) {
            row.flags.push(Flag::Colliding);
            row.flags.sort_unstable();
        }
    }
}

/// Sums each agent's subtree, from the leaves up.
fn sum_subtrees(
    order: &[AgentIndex],
    owners: &Ownership,
    duplicates: &Duplicates<'_>,
    drafts: &[RowDraft],
    own: &[AgentFigures],
) -> Vec<Subtree> {
    let mut figures: Vec<AgentFigures> = own.to_vec();
    let mut agents: Vec<u32> =
        (0..drafts.len()).map(|number| u32::from(!duplicates.has_agent(number))).collect();
    let mut calls: Vec<u32> = drafts.iter().map(|draft| draft.calls.len() as u32).collect();
    let mut agent_ms: Vec<Option<i64>> =
        drafts.iter().map(|draft| covered_ms(&mut draft.intervals.clone())).collect();
    let mut intervals: Vec<Vec<[Millis; 2]>> = drafts.iter().map(|draft| draft.intervals.clone()).collect();
    for number in order.iter().rev().copied() {
        // Merge before passing up, so that a deep chain does not carry every interval below it.
        merge_overlapping(&mut intervals[number]);
        let Some(parent) = owners.parent_of(number) else { continue };
        let below = figures[number].clone();
        figures[parent].add(&below);
        agents[parent] += agents[number];
        calls[parent] += calls[number];
        agent_ms[parent] = add_known(agent_ms[parent], agent_ms[number]);
        let below = intervals[number].clone();
        intervals[parent].extend(below);
    }
    (0..drafts.len())
        .map(|number| {
            let (cost, cost_floor) = figures[number].known_cost();
            Subtree {
                agents: agents[number],
                tool_calls: calls[number],
                usage: figures[number].usage,
                cost_micro_usd: cost,
                cost_floor,
                wall_ms: covered_ms(&mut intervals[number]),
                agent_ms: agent_ms[number],
            }
        })
        .collect()
}

/// Merges overlapping intervals.
fn merge_overlapping(intervals: &mut Vec<[Millis; 2]>) {
    intervals.sort_unstable();
    intervals.dedup_by(|next, last| {
        let joins = next[0] <= last[1];
        if joins {
            last[1] = last[1].max(next[1]);
        }
        joins
    });
}

fn summarise(facts: &Facts, rows: &[Agent], drafts: &[RowDraft], own: &[AgentFigures]) -> Summary {
    let mut total = AgentFigures::default();
    own.iter().for_each(|figures| total.add(figures));
    let (cost, cost_floor) = total.known_cost();
    let mut sum = Summary { usage: total.usage, cost_micro_usd: cost, cost_floor, ..Summary::default() };
    for row in rows {
        sum.tool_calls += row.tool_calls;
        sum.tool_errors += row.tool_errors;
        sum.tools_denied += row.tools_denied;
        if row.id.is_root() || row.is_copy() {
            continue;
        }
        sum.agents += 1;
        sum.max_depth = sum.max_depth.max(row.depth);
        *sum.by_type.entry(row.agent_type.as_deref().unwrap_or("unknown").to_owned()).or_insert(0) += 1;
        sum.agent_ms = add_known(sum.agent_ms, row.wall_ms);
        *match row.status {
            AgentStatus::Pending => &mut sum.pending,
            AgentStatus::Running => &mut sum.running,
            AgentStatus::Completed => &mut sum.completed,
            AgentStatus::Failed => &mut sum.failed,
            AgentStatus::Stopped => &mut sum.stopped,
            AgentStatus::Lost => &mut sum.lost,
        } += 1;
    }
    sum.wall_ms =
        covered_ms(&mut drafts.iter().flat_map(|draft| draft.intervals.iter().copied()).collect::<Vec<_>>());
    let agents = total.usage.unwrap_or_default();
    let own_sum = facts.checksums.iter().filter(|sum| sum.usage.covers(&agents));
    if let Some(own_sum) = own_sum.max_by_key(|sum| (sum.usage.total_tokens, sum.cost_micro_usd)) {
        sum.usage = Some(Usage { floor: false, ..own_sum.usage });
        sum.unattributed_usage = Some(own_sum.usage.minus(&agents));
        if own_sum.cost_micro_usd.is_some() {
            sum.cost_micro_usd = own_sum.cost_micro_usd;
            sum.cost_floor = false;
        }
    }
    sum
}
