//! Builds the rows of a [`Tree`] from the results of all derivation steps.

use std::{collections::BTreeMap, path::Path};

use hashbrown::HashSet;
use subscope_model::{
    Actor, Agent, AgentStatus, Attention, Basis, Checksum, Flag, Millis, Problem, Session, SessionId,
    SessionNeed, SourceKind, SpawnMode, Subtree, Summary, TREE_SCHEMA, Text, ToolCall, ToolStatus, Tree,
    VendorCost, VendorUnit,
};

use crate::{
    drafts::RowDraft,
    duplicates::Duplicates,
    facts::{AgentFacts, Facts, HookStepKind, ROOT, ReportedPayloads, best_value},
    figures::{AgentFigures, add_known, derive_figures},
    flags,
    identities::{AgentIndex, is_ghost},
    intervals::{calls_by_agent, covered_ms},
    liveness::AgentActivity,
    owners::Ownership,
    runs::SessionRuns,
    status::{Derivation, DerivedState},
};

/// The tool of a call of which only an end was seen that names none.
const UNNAMED_TOOL: &str = "unknown";

/// Builds the tree of a session. Calls and responses in `owned_elsewhere` count in another session; `runs` is the
/// number of runs.
pub(crate) fn build_tree(
    session: &SessionId,
    derivation: &Derivation<'_>,
    owned_elsewhere: &HashSet<u64>,
    runs: &SessionRuns,
) -> Tree {
    let Derivation { facts, identities, owners, now, harness, .. } = *derivation;
    let duplicates = Duplicates::find(facts, identities, owners, owned_elsewhere);
    let calls = calls_by_agent(facts, identities, owners, &duplicates);
    let mut own = derive_figures(facts, identities, owners, &duplicates, now.prices);
    let order = derivation.pre_order();
    let mut drafts = derivation.draft_rows(calls, &order, &own);
    let noted = derivation.noted_wait(&drafts);
    derivation.open_waiting_root(noted.as_ref(), &mut drafts);
    let activities = derivation.derive_activities(&drafts, noted.as_ref());
    for (number, draft) in drafts.iter().enumerate().skip(1) {
        let is_unknown = own[number].usage.is_none() && own[number].messages == 0;
        // One that is lost may never have started.
        let has_run = match draft.state.status {
            AgentStatus::Pending | AgentStatus::Running => false,
            AgentStatus::Lost => !draft.intervals.is_empty(),
            AgentStatus::Completed | AgentStatus::Failed | AgentStatus::Stopped => draft.calls.is_empty(),
        };
        own[number].is_incomplete = is_unknown && has_run && !duplicates.has_agent(number);
    }
    own[0].is_incomplete = derivation.is_root_missing() && drafts.len() > 1 && !duplicates.has_agent(0);
    let mut sums = sum_subtrees(&order, owners, &duplicates, &drafts, &own);
    let build = |number: &AgentIndex| {
        let mut row = derivation.build_row(*number, &drafts, &activities, &own);
        row.flags.extend(duplicates.has_agent(*number).then_some(Flag::Copied));
        row.subtree = std::mem::take(&mut sums[*number]);
        row
    };
    let mut rows: Vec<Agent> = order.iter().map(build).collect();
    derivation.mark_collisions(&drafts, &order, &mut rows);
    let run_started_at_ms = runs.all.last().filter(|run| run.number > 1).and_then(|run| run.started_at);
    let summary = summarize(facts, &rows, &drafts, &own, run_started_at_ms);
    Tree {
        schema: TREE_SCHEMA.into(),
        session: Session {
            id: session.clone(),
            harness: harness.map(Text::from),
            harness_version: facts.version.as_ref().map(|best| best.value.0.clone()),
            project: project_of(facts),
            cwd: best_value(&facts.cwd),
            title: title_of(facts).map(|text| shorten_title(&text)),
            started_at_ms: facts.span.get().map(|(from, _)| from),
            ended_at_ms: facts.span.get().map(|(_, to)| to),
            runs: runs.count(),
            run_started_at_ms,
            machine: None,
            last_heard_ms: None,
            rev: None,
        },
        agents: rows,
        summary,
        problems: list_problems(facts),
    }
}

/// Returns the folder of a session's project, if its working directory is in a linked work tree.
fn project_of(facts: &Facts) -> Option<Text> {
    let cwd = &facts.cwd.as_ref()?.value;
    let around = facts.work_trees.iter().filter(|tree| Path::new(&**cwd).starts_with(&*tree.folder));
    around.max_by_key(|tree| tree.folder.len()).map(|tree| tree.project.clone())
}

/// Returns the title of a session: its name, else what its person asked first.
fn title_of(facts: &Facts) -> Option<Text> {
    let first = facts.title.as_ref().map(|first| first.rank.1);
    let asked = || facts.asked_title.as_ref().filter(|asked| Some(asked.rank.1) == first);
    best_value(&facts.given_title)
        .or_else(|| asked().map(|asked| asked.value.clone()))
        .or_else(|| best_value(&facts.title))
}

/// Returns the first words of a prompt, at most 120 characters.
fn shorten_title(prompt: &str) -> Text {
    let line = first_words(prompt).or_else(|| prompt.lines().map(str::trim).find(|line| !line.is_empty()));
    let line = line.unwrap_or_default();
    match line.char_indices().nth(120) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()).into(),
        None => line.into(),
    }
}

/// Returns the first line of a prompt that is words: no metadata, fence or heading of a section, which templates of prompts
/// begin with.
fn first_words(prompt: &str) -> Option<&str> {
    let text = prompt.trim_start();
    let metadata = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"));
    let described = metadata.and_then(|(fields, _)| {
        fields.lines().find_map(|field| field.strip_prefix("description:")).map(str::trim)
    });
    if let Some(description) = described.filter(|description| !description.is_empty()) {
        return Some(description.trim_matches('"'));
    }
    let body = metadata.map_or(text, |(_, body)| body);
    let is_words = |line: &&str| !line.is_empty() && !line.starts_with("##") && !line.starts_with("```");
    let line = body.lines().map(str::trim).find(is_words)?;
    Some(line.strip_prefix("# ").map_or(line, str::trim_start))
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

impl Derivation<'_> {
    /// Whether files tell of agents of the session, and none of its root: it is known by reference only, and nothing tells what
    /// it used.
    fn is_root_missing(&self) -> bool {
        let root = self.facts.agent(ROOT);
        self.facts.has_transcript && root.last_seen.is_none() && !root.is_warmup
    }

    fn build_row(
        &self,
        number: AgentIndex,
        drafts: &[RowDraft],
        activities: &[Option<AgentActivity>],
        own: &[AgentFigures],
    ) -> Agent {
        let identity = self.identity(number);
        let draft = &drafts[number];
        let figures = &own[number];
        let parentage = &self.owners.parents[number];
        let state = &draft.state;
        let is_live = state.status.is_live();
        let call = self.spawn_call(identity);
        let asked = call.and_then(|call| call.spawn.as_deref());
        let first = |by_agent: &dyn Fn(&crate::facts::AgentFacts) -> Option<Text>, by_call: Option<Text>| {
            self.facts_of(identity).find_map(by_agent).or(by_call)
        };
        let tools: Vec<ToolCall> = draft
            .calls
            .iter()
            .zip(&draft.statuses)
            .map(|(call, status)| self.build_tool_call(*call, *status))
            .collect();
        let count =
            |status: ToolStatus| draft.statuses.iter().filter(|known| **known == status).count() as u32;
        let report = state.report.clone();
        let is_completed = state.status == AgentStatus::Completed;
        let result = is_completed.then(|| self.report_of(number, state)).flatten().or(report);
        let cost = figures.cost();
        let span = draft.intervals.first().zip(draft.intervals.last());
        Agent {
            id: identity.id.clone(),
            actor_id: Actor(identity.id.clone()),
            parent_id: parentage.parent.map(|parent| self.identity(parent).id.clone()),
            spawned_by: self.spawned_by(number).map(subscope_model::ToolUseId),
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
            model: self.model_of(number, figures),
            background: self.mode(identity) == Some(SpawnMode::Background),
            status: state.status,
            evidence: state.evidence.clone(),
            liveness: activities[number].as_ref().map(|activity| activity.liveness.clone()),
            flags: self.flags_of(number, drafts, activities),
            started_at_ms: span.map(|(first, _)| first[0]),
            ended_at_ms: if is_live { None } else { span.map(|(_, last)| last[1]).or(state.ended_at) },
            last_event_at_ms: draft.last,
            wall_ms: covered_ms(&mut draft.intervals.clone()),
            intervals: draft.intervals.clone(),
            tool_calls: (tools.len() as u32).max(figures.reported_calls),
            tool_errors: count(ToolStatus::Error),
            tools_denied: count(ToolStatus::Denied),
            open_tools: count(ToolStatus::Open),
            tools,
            messages: figures.messages,
            usage: figures.usage,
            cost_micro_usd: cost,
            cost_floor: cost.is_some() && figures.usage.is_some_and(|usage| usage.floor),
            prompt: self.prompt_of(number).or_else(|| asked.and_then(|asked| best_value(&asked.prompt))),
            result,
            error: state.error.clone(),
            subtree: Subtree::default(),
            rev: None,
        }
    }

    /// Returns the id of the call that started an agent, alone or with others.
    fn spawned_by(&self, number: AgentIndex) -> Option<Text> {
        let identity = self.identity(number);
        self.facts.call(identity.origin.or(identity.batch)?).id.clone()
    }

    fn prompt_of(&self, number: AgentIndex) -> Option<Text> {
        if number == 0 {
            return best_value(&self.facts.title);
        }
        self.facts_of(self.identity(number)).find_map(|agent| best_value(&agent.prompt))
    }

    /// Returns the report of an agent: its last text, unless a call followed it or its publisher reports another text.
    fn report_of(&self, number: AgentIndex, state: &DerivedState) -> Option<Text> {
        let identity = self.identity(number);
        let facts = || self.facts_of(identity);
        let text = facts().filter_map(|agent| agent.last_text.as_ref()).map(|(order, ..)| *order).max()?;
        if text.kind == SourceKind::Posted && state.is_report_published {
            return None;
        }
        let last_of = |slots: std::ops::Range<usize>| {
            let lines = facts().flat_map(move |agent| agent.last_lines[slots.clone()].iter().flatten());
            lines.map(|(order, _)| *order).max()
        };
        let last_line = last_of(0..2).or_else(|| last_of(2..5));
        // Text before a later call is not a report.
        if last_line.is_some_and(|last_line| last_line.time > text.time) {
            return None;
        }
        self.last_text(identity)
    }

    fn build_tool_call(&self, number: u32, status: ToolStatus) -> ToolCall {
        let call = self.facts.call(number);
        let payloads = call.payloads.as_deref();
        let ended_at_ms = self.call_end(number).and_then(|(_, time)| time);
        let best = |reported: &ReportedPayloads| {
            let best = reported.best(|by| self.is_reported_by_owner(number, by));
            best.map(|payload| Box::new(payload.clone()))
        };
        ToolCall {
            id: call.id.clone().map(subscope_model::ToolUseId),
            name: call.name.clone().unwrap_or_else(|| UNNAMED_TOOL.into()),
            status,
            basis: self.owners.of_call(number).map_or(Basis::Unknown, |(_, basis)| basis),
            started_at_ms: call.begun_at(),
            ended_at_ms,
            duration_ms: call.duration_ms.filter(|_| call.begun_at().is_none() || ended_at_ms.is_none()),
            detail: call.detail.as_ref().map(|(_, detail)| detail.clone()),
            writes: call.writes.clone(),
            input: payloads.and_then(|payloads| best(&payloads.input)),
            result: payloads.and_then(|payloads| best(&payloads.result)),
        }
    }

    fn flags_of(
        &self,
        number: AgentIndex,
        drafts: &[RowDraft],
        activities: &[Option<AgentActivity>],
    ) -> Vec<Flag> {
        let draft = &drafts[number];
        let parentage = &self.owners.parents[number];
        let active = drafts.iter().skip(1).filter(|draft| draft.state.status.is_live()).count() as u32;
        let is_stopping =
            number != 0 && draft.state.status.is_live() && self.is_asked_to_stop(self.identity(number));
        let caller = parentage.parent.and_then(|parent| activities[parent].as_ref());
        let is_silent = match &activities[number] {
            Some(activity) => self.is_stalled(activity, draft.last, draft.limits, active),
            None => self.is_start_overdue(draft.state.status, caller, draft.last, draft.limits),
        };
        let is_orphan = number != 0 && parentage.parent.is_none();
        let is_agent_that = |holds: fn(&AgentFacts) -> bool| self.facts_of(self.identity(number)).any(holds);
        let is_reported = is_agent_that(|agent| {
            !agent.is_inferred && (agent.parent.is_some() || !agent.origins.is_empty())
        });
        let all = [
            (Flag::Stopping, is_stopping),
            (Flag::Stalled, is_silent),
            (Flag::Looping, flags::is_looping(self.facts, &draft.calls)),
            (Flag::Failing, flags::is_failing(&draft.statuses)),
            (Flag::Orphan, is_orphan && !parentage.is_warmup),
            (Flag::Warmup, parentage.is_warmup),
            (Flag::Handoff, is_agent_that(|agent| agent.is_handed_over)),
            (Flag::Inferred, is_agent_that(|agent| agent.is_inferred) && !is_reported),
        ];
        all.into_iter().filter_map(|(flag, is_set)| is_set.then_some(flag)).collect()
    }

    fn mark_collisions(&self, drafts: &[RowDraft], order: &[AgentIndex], rows: &mut [Agent]) {
        let mut writes = Vec::new();
        for (number, draft) in drafts.iter().enumerate() {
            for (call, status) in draft.calls.iter().zip(&draft.statuses) {
                let call_facts = self.facts.call(*call);
                if let (false, Some(from), ToolStatus::Ok | ToolStatus::Open) =
                    (call_facts.writes.is_empty(), call_facts.begun_at(), status)
                {
                    let to = self.call_end(*call).and_then(|(_, time)| time).unwrap_or(from);
                    let files = call_facts.writes.iter();
                    writes.extend(files.map(|file| (number, file.clone(), from, to.max(from))));
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
            std::iter::successors(Some(lower), |agent| self.owners.parent_of(*agent)).any(|it| it == upper)
        };
        let marked = flags::find_colliding(&writes, &active, &is_above);
        for (row, number) in rows.iter_mut().zip(order) {
            if marked.contains(number) {
                row.flags.push(Flag::Colliding);
                row.flags.sort_unstable();
            }
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
    let mut intervals: Vec<Vec<[Millis; 2]>> = drafts.iter().map(|draft| draft.intervals.clone()).collect();
    let own_sum = |(number, draft): (AgentIndex, &RowDraft)| Subtree {
        agents: u32::from(
            !duplicates.has_agent(number) && (number == 0 || !owners.parents[number].is_warmup),
        ),
        tool_calls: (draft.calls.len() as u32).max(own[number].reported_calls),
        agent_ms: covered_ms(&mut draft.intervals.clone()),
        ..Subtree::default()
    };
    let mut sums: Vec<Subtree> = drafts.iter().enumerate().map(own_sum).collect();
    for number in order.iter().rev().copied() {
        let below = std::mem::take(&mut figures[number]);
        let mut spans = std::mem::take(&mut intervals[number]);
        // Merge before passing up, so that a deep chain does not carry every interval below it.
        merge_overlapping(&mut spans);
        let sum = &mut sums[number];
        sum.usage = below.known_usage();
        (sum.cost_micro_usd, sum.cost_floor) = below.known_cost();
        sum.wall_ms = covered_ms(&mut spans);
        let Subtree { agents, tool_calls, agent_ms, .. } = *sum;
        let Some(parent) = owners.parent_of(number) else { continue };
        figures[parent].add(&below);
        intervals[parent].extend(spans);
        sums[parent].agents += agents;
        sums[parent].tool_calls += tool_calls;
        sums[parent].agent_ms = add_known(sums[parent].agent_ms, agent_ms);
    }
    sums
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

/// Returns the total over all processes of the session that report their own.
fn sum_of_parts(facts: &Facts) -> Option<Checksum> {
    let mut parts: BTreeMap<Millis, &Checksum> = BTreeMap::new();
    for sum in &facts.checksums {
        let Some(part) = sum.part else { continue };
        let known = parts.entry(part).or_insert(sum);
        if known.usage.total_tokens < sum.usage.total_tokens {
            *known = sum;
        }
    }
    let add = |sum: Checksum, part: &Checksum| Checksum {
        usage: sum.usage + part.usage,
        cost_micro_usd: sum.cost_micro_usd.zip(part.cost_micro_usd).map(|(sum, part)| sum + part),
        part: None,
    };
    let mut parts = parts.into_values();
    let first = parts.next()?;
    Some(parts.fold(Checksum { part: None, ..*first }, add))
}

/// Returns what the session has cost in each unit of its vendor: the sum over its processes, or the total of the session.
fn vendor_costs(facts: &Facts) -> Vec<VendorCost> {
    let mut of_parts: BTreeMap<VendorUnit, u64> = BTreeMap::new();
    let mut of_all: BTreeMap<VendorUnit, u64> = BTreeMap::new();
    for ((unit, part), amount) in &facts.vendor_costs {
        let sums = if part.is_some() { &mut of_parts } else { &mut of_all };
        let sum = sums.entry(*unit).or_default();
        *sum = sum.saturating_add(*amount);
    }
    for (unit, amount) in of_all {
        of_parts.entry(unit).and_modify(|sum| *sum = amount.max(*sum)).or_insert(amount);
    }
    of_parts.into_iter().map(|(unit, amount_micro)| VendorCost { unit, amount_micro }).collect()
}

/// Returns how often hooks report that a person is asked for a permission; `None` without hooks.
fn permissions_asked(facts: &Facts) -> Option<u32> {
    let asked = facts.reported_steps().filter(|step| matches!(step.kind, HookStepKind::Permission { .. }));
    facts.reported_steps().next().is_some().then(|| asked.count() as u32)
}

fn summarize(
    facts: &Facts,
    rows: &[Agent],
    drafts: &[RowDraft],
    own: &[AgentFigures],
    run_started_at_ms: Option<Millis>,
) -> Summary {
    let mut total = AgentFigures::default();
    own.iter().for_each(|figures| total.add(figures));
    let (cost, cost_floor) = total.known_cost();
    let need = SessionNeed::of(rows, run_started_at_ms);
    let mut sum = Summary {
        usage: total.known_usage(),
        cost_micro_usd: cost,
        cost_floor,
        permissions_asked: permissions_asked(facts),
        vendor_costs: vendor_costs(facts),
        attention: Attention::of(rows, need.as_ref()),
        need,
        ..Summary::default()
    };
    for row in rows {
        sum.tool_calls += row.tool_calls;
        sum.tool_errors += row.tool_errors;
        sum.tools_denied += row.tools_denied;
        if !row.is_counted() {
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
    let own_sums =
        facts.checksums.iter().filter(|sum| sum.part.is_none()).copied().chain(sum_of_parts(facts));
    let own_sum = own_sums.filter(|sum| sum.usage.covers(&agents));
    if let Some(own_sum) = own_sum.max_by_key(|sum| (sum.usage.total_tokens, sum.cost_micro_usd)) {
        sum.usage = Some(own_sum.usage);
        sum.unattributed_usage = Some(own_sum.usage.minus(&agents));
        if own_sum.cost_micro_usd.is_some() {
            sum.cost_micro_usd = own_sum.cost_micro_usd;
            sum.cost_floor = false;
        }
    } else if facts.has_uncounted && !rows.iter().any(|row| row.has(Flag::Warmup)) {
        // An agent of the harness that has lines of its own is counted.
        sum.usage.iter_mut().for_each(|usage| usage.floor = true);
        sum.cost_floor = sum.cost_micro_usd.is_some();
    }
    sum
}
