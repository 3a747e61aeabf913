//! Puts the conclusions together into a [`Tree`].

use std::collections::BTreeMap;

use hashbrown::HashSet;
use subscope_model::{
    Actor, Agent, AgentId, AgentStatus, Basis, Flag, Millis, Outcome, Problem, Session, SessionId, SpawnMode,
    Subtree, Summary, TREE_SCHEMA, Text, ToolCall, ToolClass, ToolStatus, Tree, Usage,
};

use crate::{
    duplicates::Copies,
    facts::{Facts, HookWhat, Order, value},
    figures::{Figures, figures},
    flags,
    identities::{No, is_ghost},
    limits::Spans,
    liveness::{Doing, Stand, doing, idle, is_open, is_stalled, is_start_overdue, questions},
    owners::Owners,
    spans::{calls_by_agent, intervals, union},
    status::{Derivation, Silence, Standing, call_end, is_told_by_owner},
};

/// What is concluded of one agent before its row is made.
struct RowDraft {
    standing: Standing,
    calls: Vec<u32>,
    statuses: Vec<ToolStatus>,
    intervals: Vec<[Millis; 2]>,
    last: Option<Millis>,
    /// Its limits of silence.
    spans: Spans,
    children: Vec<No>,
}

/// Builds the rows of a session. Calls and responses in `elsewhere` count in another session; `runs` is the number of runs.
pub(crate) fn tree(
    session: &SessionId,
    derivation: &Derivation<'_>,
    elsewhere: &HashSet<u64>,
    runs: u32,
) -> Tree {
    let Derivation { facts, identities, owners, now, harness, .. } = *derivation;
    let copies = Copies::of(facts, identities, owners, elsewhere);
    let calls = calls_by_agent(facts, identities, owners, &copies);
    let own = figures(facts, identities, owners, &copies, now.prices);
    let order = pre_order(derivation);
    let drafts = drafts(derivation, calls, &order, &own);
    let doings = doings(derivation, &drafts);
    let mut rows: Vec<Agent> =
        order.iter().map(|number| row(derivation, *number, &drafts, &doings, &own)).collect();
    for (row, number) in rows.iter_mut().zip(&order) {
        if copies.has_agent(*number) {
            row.flags.push(Flag::Copied);
        }
    }
    let sums = sums(&order, owners, &copies, &drafts, &own);
    for (row, number) in rows.iter_mut().zip(&order) {
        if let Some(sum) = sums.get(*number) {
            row.subtree = sum.clone();
        }
    }
    mark_collisions(derivation, &drafts, &order, &mut rows);
    let summary = summary(facts, &rows, &drafts, &own);
    Tree {
        schema: TREE_SCHEMA.into(),
        session: Session {
            id: session.clone(),
            harness: harness.map(Text::from),
            harness_version: facts.version.as_ref().map(|best| best.value.0.clone()),
            cwd: value(&facts.cwd),
            title: value(&facts.title).map(|text| title(&text)),
            started_at_ms: facts.span.get().map(|(from, _)| from),
            ended_at_ms: facts.span.get().map(|(_, to)| to),
            runs,
            rev: None,
        },
        agents: rows,
        summary,
        problems: problems(facts),
    }
}

/// The first line of a prompt, at most 120 characters.
fn title(prompt: &str) -> Text {
    let line = prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    match line.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()).into(),
        None => line.into(),
    }
}

/// What could not be understood, and hooks that name an agent that never was.
fn problems(facts: &Facts) -> Vec<Problem> {
    let mut all = facts.problems.clone();
    let mut ghosts: Vec<&Text> = facts.ends.keys().filter(|id| is_ghost(facts, id)).collect();
    ghosts.sort();
    for id in ghosts {
        let step =
            facts.hooks.iter().find(|step| matches!(&step.what, HookWhat::Stop { agent } if agent == id));
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

/// Returns all agents in pre-order, siblings by start, orphans after the root's children.
fn pre_order(derivation: &Derivation<'_>) -> Vec<No> {
    let started = |number: No| start_key(derivation, number);
    let mut children: Vec<Vec<No>> = vec![Vec::new(); derivation.identities.all.len()];
    let mut orphans = Vec::new();
    for number in 1..derivation.identities.all.len() {
        match derivation.owners.parents.get(number).and_then(|it| it.parent) {
            Some(parent) => children[parent].push(number),
            None => orphans.push(number),
        }
    }
    for list in &mut children {
        list.sort_by_cached_key(|number| started(*number));
    }
    orphans.sort_by_cached_key(|number| started(*number));
    let mut order = Vec::with_capacity(derivation.identities.all.len());
    let mut waiting: Vec<No> = orphans.into_iter().rev().collect();
    waiting.push(0);
    while let Some(number) = waiting.pop() {
        order.push(number);
        waiting.extend(children[number].iter().rev());
    }
    order
}

/// By what siblings are sorted: when they started, else when they were asked for, then by id.
fn start_key(derivation: &Derivation<'_>, number: No) -> (bool, Millis, Option<Order>, AgentId) {
    let Some(identity) = derivation.identities.all.get(number) else {
        return (true, 0, None, AgentId::from(""));
    };
    let first = derivation.span(identity).get().map(|(from, _)| from);
    let asked = identity
        .origin
        .and_then(|call| derivation.facts.calls.get(call as usize))
        .and_then(|call| call.order().1);
    let trigger = derivation
        .tellings(identity)
        .flat_map(|agent| agent.triggers.iter().map(|trigger| trigger.order))
        .min();
    let heard = derivation.tellings(identity).filter_map(|agent| agent.heard).min();
    let order = asked.or(trigger).or(heard);
    let time = first.or(order.map(|order| order.time).filter(|time| *time > Millis::MIN));
    (time.is_none(), time.unwrap_or(0), order, identity.id.clone())
}

/// Concludes everything but sums, children before parents where that matters.
fn drafts(
    derivation: &Derivation<'_>,
    mut calls: Vec<Vec<u32>>,
    order: &[No],
    own: &[Figures],
) -> Vec<RowDraft> {
    let count = derivation.identities.all.len();
    let questions = questions(derivation);
    let mut silences = vec![Silence::default(); count];
    let mut drafts: Vec<RowDraft> = (0..count)
        .map(|number| {
            let calls = std::mem::take(&mut calls[number]);
            let statuses: Vec<ToolStatus> = calls.iter().map(|call| status_of(derivation, *call)).collect();
            let intervals = intervals(derivation, number, &calls);
            let last = last_heard(derivation, number, &calls);
            let is_in_call = statuses.contains(&ToolStatus::Open);
            let has_open = is_in_call || questions.iter().any(|(asked, _)| *asked == number);
            let spans = spans_of(derivation, number, own);
            let (lost_after_ms, said_after_ms) = (spans.lost_after_ms(has_open), spans.stall_ms);
            silences[number] = Silence { last, lost_after_ms, said_after_ms, is_in_call };
            let standing = Standing {
                status: AgentStatus::Running,
                evidence: None,
                ended_at: None,
                told_at: None,
                report: None,
                error: None,
                left_since: None,
            };
            RowDraft { standing, calls, statuses, intervals, last, spans, children: Vec::new() }
        })
        .collect();
    // Orphans stand last in the order, so all of them are known before anybody whose they may be.
    let mut strays = None;
    for number in order.iter().rev().copied() {
        if number != 0 && is_stray(derivation, number) {
            strays = strays.max(silences[number].last);
        } else if has_open_start(derivation, &drafts[number].calls) {
            silences[number].last = silences[number].last.max(strays);
        }
        if let Some(parent) = derivation.owners.parents.get(number).and_then(|it| it.parent) {
            let below = silences[number];
            let above = &mut silences[parent];
            above.last = above.last.max(below.last);
            above.lost_after_ms = above.lost_after_ms.max(below.lost_after_ms);
        }
    }
    for number in order.iter().copied() {
        drafts[number].standing = if number == 0 {
            derivation.root(silences[0])
        } else {
            derivation.subagent(number, silences[number])
        };
        if let Some(parent) = derivation.owners.parents.get(number).and_then(|it| it.parent) {
            drafts[parent].children.push(number);
        }
    }
    drafts
}

/// The limits of silence that hold for an agent.
fn spans_of(derivation: &Derivation<'_>, number: No, own: &[Figures]) -> Spans {
    let limits = &derivation.now.limits;
    if limits.rules.is_empty() {
        return limits.of(None, None);
    }
    let model = own.get(number).and_then(|figures| model(derivation, number, figures));
    limits.of(derivation.harness, model.as_deref())
}

/// Concludes what each agent does; `None` for those that do not run.
fn doings(derivation: &Derivation<'_>, drafts: &[RowDraft]) -> Vec<Option<Doing>> {
    let is_active = |number: &No| drafts.get(*number).is_some_and(|draft| draft.standing.status.is_live());
    let nobody_else = !(1..drafts.len()).any(|number| is_active(&number));
    // A hook may tell of an ending before the agent's last line is there.
    let gone = |draft: &RowDraft| draft.last.max(draft.standing.told_at);
    let latest = drafts.iter().filter_map(gone).max();
    let all_strays = || (1..drafts.len()).filter(|number| is_stray(derivation, *number));
    let last_stray = all_strays().filter_map(|number| drafts.get(number).and_then(gone)).max();
    let strays = (all_strays().any(|number| is_active(&number)), last_stray);
    let questions = questions(derivation);
    let one = |(number, draft): (No, &RowDraft)| {
        let status = draft.standing.status;
        if status != AgentStatus::Running {
            let is_between_prompts = number == 0 && !status.is_live() && status != AgentStatus::Lost;
            let is_open = derivation.hooks.is_open && !derivation.now.has_ended;
            return (is_between_prompts && is_open).then(|| idle(draft.last));
        }
        // Of one that counts as lost nothing has come back: its caller waits on.
        let is_out = |child: &&No| {
            is_active(child) || drafts.get(**child).is_some_and(|it| it.standing.status == AgentStatus::Lost)
        };
        let (children, ended): (Vec<No>, Vec<No>) = draft.children.iter().partition(is_out);
        let handed_back = ended.iter().filter_map(|child| drafts.get(*child).and_then(gone)).max();
        let turn = if nobody_else { latest } else { draft.last.max(handed_back) };
        let question = questions.iter().rev().find(|(asked, _)| *asked == number).map(|(_, asked)| *asked);
        let (calls, last) = (draft.calls.as_slice(), draft.last);
        let left_since = draft.standing.left_since;
        let children = &children;
        Some(doing(derivation, &Stand { number, calls, last, turn, children, strays, question, left_since }))
    };
    drafts.iter().enumerate().map(one).collect()
}

/// Whether nobody is known to have started an agent.
fn is_stray(derivation: &Derivation<'_>, number: No) -> bool {
    let is_orphan = derivation.owners.parents.get(number).is_none_or(|place| place.parent.is_none());
    is_orphan && derivation.identities.all.get(number).is_some_and(|identity| identity.origin.is_none())
}

/// Whether an agent waits for one that it started, of which only that is known.
fn has_open_start(derivation: &Derivation<'_>, calls: &[u32]) -> bool {
    calls.iter().any(|call| {
        let told = derivation.facts.calls.get(*call as usize);
        told.is_some_and(|told| told.class == ToolClass::Spawn && is_open(derivation, *call, told))
            && derivation.identities.started_by(*call).is_none()
    })
}

/// When an agent was last heard of: by its own lines, by its calls where a wire names nobody, and by what woke it.
fn last_heard(derivation: &Derivation<'_>, number: No, calls: &[u32]) -> Option<Millis> {
    let identity = derivation.identities.all.get(number)?;
    let own = derivation.tellings(identity).filter_map(|agent| agent.span.latest().max(agent.started));
    let woken = derivation
        .tellings(identity)
        .flat_map(|agent| agent.triggers.iter().filter_map(|trigger| trigger.time));
    let asked = identity
        .origin
        .and_then(|call| derivation.facts.calls.get(call as usize))
        .and_then(|call| call.begin);
    let called = calls.iter().filter_map(|call| Some((*call, derivation.facts.calls.get(*call as usize)?)));
    let called = called.flat_map(|(call, told)| {
        let ended = call_end(derivation, call, told).and_then(|(_, time)| time);
        [told.begin.and_then(|begin| begin.time()), ended]
    });
    let heard = own.chain(woken).chain(asked.and_then(|begin| begin.time())).chain(called.flatten()).max();
    if number != 0 {
        return heard;
    }
    // Who is not named is the root, where the others are or where there are no others.
    let is_alone = derivation.identities.all.len() == 1;
    let unnamed = derivation.facts.silent.filter(|_| derivation.facts.has_identity || is_alone);
    heard.max(unnamed).or(derivation.facts.span.latest().filter(|_| is_alone))
}

fn status_of(derivation: &Derivation<'_>, number: u32) -> ToolStatus {
    let Some(call) = derivation.facts.calls.get(number as usize) else { return ToolStatus::Open };
    if is_open(derivation, number, call) {
        return ToolStatus::Open;
    }
    match call_end(derivation, number, call).map(|(outcome, _)| outcome) {
        Some(Outcome::Ok) => ToolStatus::Ok,
        Some(Outcome::Denied) => ToolStatus::Denied,
        Some(Outcome::Over) if was_asked(derivation, number) || was_stopped(derivation, number) => {
            ToolStatus::Denied
        }
        Some(Outcome::Error | Outcome::Interrupted | Outcome::Over) => ToolStatus::Error,
        None => ToolStatus::Open,
    }
}

/// Whether a person was asked to allow the call; one that is over without a result of its own was then denied.
fn was_asked(derivation: &Derivation<'_>, number: u32) -> bool {
    let digest =
        derivation.facts.calls.get(number as usize).and_then(|call| call.digest).map(|(_, digest)| digest);
    derivation.facts.hooks.iter().any(|step| match &step.what {
        HookWhat::Permission { digest: asked, .. } => Some(*asked) == digest,
        _ => false,
    })
}

/// Whether the call was refused because its agent was to stop.
fn was_stopped(derivation: &Derivation<'_>, number: u32) -> bool {
    derivation.facts.stops.values().flatten().any(|stop| stop.call == Some(number))
}

fn row(
    derivation: &Derivation<'_>,
    number: No,
    drafts: &[RowDraft],
    doings: &[Option<Doing>],
    own: &[Figures],
) -> Agent {
    let identity = &derivation.identities.all[number];
    let draft = &drafts[number];
    let figures = &own[number];
    let place = derivation.owners.parents.get(number).cloned().unwrap_or_default();
    let standing = &draft.standing;
    let is_live = standing.status.is_live();
    let call = identity.origin.and_then(|call| derivation.facts.calls.get(call as usize));
    let asked = call.and_then(|call| call.spawn.as_deref());
    let first = |by_agent: &dyn Fn(&crate::facts::AgentFacts) -> Option<Text>, by_call: Option<Text>| {
        derivation.tellings(identity).find_map(by_agent).or(by_call)
    };
    let tools: Vec<ToolCall> = draft
        .calls
        .iter()
        .zip(&draft.statuses)
        .map(|(call, status)| tool(derivation, *call, *status))
        .collect();
    let count = |status: ToolStatus| draft.statuses.iter().filter(|known| **known == status).count() as u32;
    let report = standing.report.clone();
    let result = match standing.status {
        AgentStatus::Completed => report_of(derivation, number).or(report),
        _ => report,
    };
    let cost = figures.cost();
    let span = draft.intervals.first().zip(draft.intervals.last());
    Agent {
        id: identity.id.clone(),
        actor_id: Actor(identity.id.clone()),
        parent_id: place
            .parent
            .and_then(|parent| derivation.identities.all.get(parent))
            .map(|parent| parent.id.clone()),
        spawned_by: spawned_by(derivation, number).map(subscope_model::ToolUseId),
        depth: place.depth,
        agent_type: first(
            &|agent| value(&agent.agent_type),
            asked.and_then(|asked| value(&asked.agent_type)),
        ),
        name: first(&|agent| value(&agent.name), asked.and_then(|asked| value(&asked.name))),
        description: first(
            &|agent| value(&agent.description),
            asked.and_then(|asked| value(&asked.description)),
        ),
        model: model(derivation, number, figures),
        background: derivation.mode(identity) == Some(SpawnMode::Background),
        status: standing.status,
        evidence: standing.evidence.clone(),
        liveness: doings[number].as_ref().map(|doing| doing.liveness.clone()),
        flags: flags_of(derivation, number, drafts, doings),
        started_at_ms: span.map(|(first, _)| first[0]),
        ended_at_ms: if is_live { None } else { span.map(|(_, last)| last[1]).or(standing.ended_at) },
        last_event_at_ms: draft.last,
        wall_ms: union(&mut draft.intervals.clone()),
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
        prompt: prompt(derivation, number).or_else(|| asked.and_then(|asked| value(&asked.prompt))),
        result,
        error: standing.error.clone(),
        subtree: Subtree::default(),
        rev: None,
    }
}

/// The call that started an agent, alone or with others.
fn spawned_by(derivation: &Derivation<'_>, number: No) -> Option<Text> {
    let identity = derivation.identities.all.get(number)?;
    derivation.facts.calls.get(identity.origin.or(identity.batch)? as usize)?.id.clone()
}

fn prompt(derivation: &Derivation<'_>, number: No) -> Option<Text> {
    let identity = derivation.identities.all.get(number)?;
    if number == 0 {
        return value(&derivation.facts.title);
    }
    derivation.tellings(identity).find_map(|agent| value(&agent.prompt))
}

/// The last words of an agent whose last line is text: its report.
fn report_of(derivation: &Derivation<'_>, number: No) -> Option<Text> {
    let identity = derivation.identities.all.get(number)?;
    let text = derivation
        .tellings(identity)
        .filter_map(|agent| agent.last_text.as_ref())
        .map(|(order, ..)| *order)
        .max()?;
    let heard = derivation
        .tellings(identity)
        .filter_map(|agent| agent.tails.iter().flatten().map(|(order, _)| *order).max())
        .max();
    // Words before a later call are not a report.
    if heard.is_some_and(|heard| heard.time > text.time) {
        return None;
    }
    derivation.last_text(identity)
}

fn model(derivation: &Derivation<'_>, number: No, figures: &Figures) -> Option<Text> {
    let identity = derivation.identities.all.get(number)?;
    let asked = identity
        .origin
        .and_then(|call| derivation.facts.calls.get(call as usize))
        .and_then(|call| call.spawn.as_deref());
    let told = || derivation.tellings(identity).find_map(|agent| value(&agent.model));
    let root = || if number == 0 { value(&derivation.facts.root_model) } else { None };
    figures
        .model
        .as_ref()
        .map(|(_, model)| model.clone())
        .or_else(root)
        .or_else(|| asked.and_then(|asked| value(&asked.resolved_model)))
        .or_else(told)
        .or_else(|| asked.and_then(|asked| value(&asked.model)))
}

fn tool(derivation: &Derivation<'_>, number: u32, status: ToolStatus) -> ToolCall {
    let call = &derivation.facts.calls[number as usize];
    let payloads = call.payloads.as_deref();
    let counts = |by: Option<u32>| is_told_by_owner(derivation, number, by);
    ToolCall {
        id: call.id.clone().map(subscope_model::ToolUseId),
        name: call.name.clone().unwrap_or_else(|| "".into()),
        status,
        basis: derivation
            .owners
            .calls
            .get(number as usize)
            .copied()
            .flatten()
            .map_or(Basis::Unknown, |(_, basis)| basis),
        started_at_ms: call.begin.and_then(|begin| begin.time()),
        ended_at_ms: call_end(derivation, number, call).and_then(|(_, time)| time),
        detail: call.detail.as_ref().map(|(_, detail)| detail.clone()),
        input: payloads
            .and_then(|payloads| payloads.input.best(counts))
            .map(|payload| Box::new(payload.clone())),
        result: payloads
            .and_then(|payloads| payloads.result.best(counts))
            .map(|payload| Box::new(payload.clone())),
    }
}

fn flags_of(
    derivation: &Derivation<'_>,
    number: No,
    drafts: &[RowDraft],
    doings: &[Option<Doing>],
) -> Vec<Flag> {
    let draft = &drafts[number];
    let place = derivation.owners.parents.get(number).cloned().unwrap_or_default();
    let active = drafts.iter().skip(1).filter(|draft| draft.standing.status.is_live()).count() as u32;
    let mut flags = Vec::new();
    let identity = &derivation.identities.all[number];
    if number != 0 && draft.standing.status.is_live() && derivation.is_asked_to_stop(identity) {
        flags.push(Flag::Stopping);
    }
    let caller = place.parent.and_then(|parent| doings[parent].as_ref());
    let is_silent = match &doings[number] {
        Some(doing) => is_stalled(derivation, doing, draft.last, draft.spans, active),
        None => is_start_overdue(derivation, draft.standing.status, caller, draft.last, draft.spans),
    };
    if is_silent {
        flags.push(Flag::Stalled);
    }
    if flags::is_looping(derivation.facts, &draft.calls) {
        flags.push(Flag::Looping);
    }
    if flags::is_failing(&draft.statuses) {
        flags.push(Flag::Failing);
    }
    if place.is_warmup {
        flags.push(Flag::Warmup);
    } else if number != 0 && place.parent.is_none() {
        flags.push(Flag::Orphan);
    }
    flags
}

fn mark_collisions(derivation: &Derivation<'_>, drafts: &[RowDraft], order: &[No], rows: &mut [Agent]) {
    let mut writes = Vec::new();
    for (number, draft) in drafts.iter().enumerate() {
        for (call, status) in draft.calls.iter().zip(&draft.statuses) {
            let Some(told) = derivation.facts.calls.get(*call as usize) else { continue };
            let begin = told.begin.and_then(|begin| begin.time());
            if let (Some(file), Some(from), ToolStatus::Ok | ToolStatus::Open) = (&told.writes, begin, status)
            {
                let to = call_end(derivation, *call, told).and_then(|(_, time)| time).unwrap_or(from);
                writes.push((number, file.clone(), from, to.max(from)));
            }
        }
    }
    if writes.len() < 2 {
        return;
    }
    let active = |number: No| {
        let list = &drafts.get(number)?.intervals;
        Some((list.first()?[0], list.last()?[1]))
    };
    let is_above = |upper: No, lower: No| {
        let mut at = Some(lower);
        while let Some(agent) = at {
            if agent == upper {
                return true;
            }
            at = derivation.owners.parents.get(agent).and_then(|it| it.parent);
        }
        false
    };
    let marked = flags::colliding(&writes, &active, &is_above);
    for (row, number) in rows.iter_mut().zip(order) {
        if marked.contains(number) {
            row.flags.push(Flag::Colliding);
            row.flags.sort_unstable();
        }
    }
}

/// Sums figures from the leaves up, by agent.
fn sums(
    order: &[No],
    owners: &Owners,
    copies: &Copies<'_>,
    drafts: &[RowDraft],
    own: &[Figures],
) -> Vec<Subtree> {
    let mut figures: Vec<Figures> = own.to_vec();
    let mut agents: Vec<u32> = (0..drafts.len()).map(|number| u32::from(!copies.has_agent(number))).collect();
    let mut calls: Vec<u32> = drafts.iter().map(|draft| draft.calls.len() as u32).collect();
    let mut agent_ms: Vec<Option<i64>> =
        drafts.iter().map(|draft| union(&mut draft.intervals.clone())).collect();
    let mut spans: Vec<Vec<[Millis; 2]>> = drafts.iter().map(|draft| draft.intervals.clone()).collect();
    for number in order.iter().rev().copied() {
        // Only disjoint stretches go up, so that a deep chain does not carry every stretch below it.
        merge(&mut spans[number]);
        let Some(parent) = owners.parents.get(number).and_then(|it| it.parent) else { continue };
        let below = figures[number].clone();
        figures[parent].add(&below);
        agents[parent] += agents[number];
        calls[parent] += calls[number];
        agent_ms[parent] = match (agent_ms[parent], agent_ms[number]) {
            (Some(mine), Some(theirs)) => Some(mine + theirs),
            (mine, theirs) => mine.or(theirs),
        };
        let below = spans[number].clone();
        spans[parent].extend(below);
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
                wall_ms: union(&mut spans[number]),
                agent_ms: agent_ms[number],
            }
        })
        .collect()
}

/// Joins overlapping stretches.
fn merge(stretches: &mut Vec<[Millis; 2]>) {
    stretches.sort_unstable();
    stretches.dedup_by(|next, last| {
        let joins = next[0] <= last[1];
        if joins {
            last[1] = last[1].max(next[1]);
        }
        joins
    });
}

fn summary(facts: &Facts, rows: &[Agent], drafts: &[RowDraft], own: &[Figures]) -> Summary {
    let mut total = Figures::default();
    own.iter().for_each(|figures| total.add(figures));
    let (cost, cost_floor) = total.known_cost();
    let mut sum = Summary { usage: total.usage, cost_micro_usd: cost, cost_floor, ..Summary::default() };
    let mut by_type = BTreeMap::new();
    let mut agent_ms = None;
    for row in rows {
        sum.tool_calls += row.tool_calls;
        sum.tool_errors += row.tool_errors;
        sum.tools_denied += row.tools_denied;
        if row.id.is_root() || row.is_copy() {
            continue;
        }
        sum.agents += 1;
        sum.max_depth = sum.max_depth.max(row.depth);
        *by_type.entry(row.agent_type.as_deref().unwrap_or("unknown").to_owned()).or_insert(0) += 1;
        agent_ms = row.wall_ms.map_or(agent_ms, |wall| Some(agent_ms.unwrap_or(0) + wall));
        *match row.status {
            AgentStatus::Pending => &mut sum.pending,
            AgentStatus::Running => &mut sum.running,
            AgentStatus::Completed => &mut sum.completed,
            AgentStatus::Failed => &mut sum.failed,
            AgentStatus::Stopped => &mut sum.stopped,
            AgentStatus::Lost => &mut sum.lost,
        } += 1;
    }
    sum.by_type = by_type;
    sum.agent_ms = agent_ms;
    sum.wall_ms =
        union(&mut drafts.iter().flat_map(|draft| draft.intervals.iter().copied()).collect::<Vec<_>>());
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
