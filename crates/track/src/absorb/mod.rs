//! Joins observations into facts.
//!
//! One function for each variant of [`Fact`]; none derives anything. To add a variant, add an arm to
//! [`Recording::record`] and its function.

mod agents;
mod calls;

use std::cmp::Reverse;

use hashbrown::{HashMap, HashSet};
use subscope_model::{
    Basis, CallEnd, Claim, Fact, Millis, Observation, ProcessExit, PromptKind, RawJson, SourceKind, Text,
    TitleOrigin, stable_hash,
};

use crate::facts::{
    AgentRef, FactOrder, Facts, HookStep, HookStepKind, LastLine, PromptFact, ROOT, RetryFact, RootLineFact,
    TurnFact, line_key, push_new, update_best, update_best_text, widest,
};

/// Most work trees of a session that are recorded.
const MAX_WORK_TREES: usize = 100;

/// How much of call payloads a tracker records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactDetail {
    /// No payloads: enough for trees.
    Rows,
    /// Also the ids of responses and how they ended: enough for spans without contents.
    Responses,
    /// Location of arguments and results in their source, or their text if it cannot be read again.
    Payloads,
}

/// Joins observations of one session into its [`Facts`].
#[derive(Clone, Debug)]
pub(crate) struct Absorber {
    keep: FactDetail,
    /// Whether payloads are recorded as text, because their source cannot be read again.
    inlines_payloads: bool,
    cutoff: Option<Millis>,
    /// Latest time seen in each source.
    clocks: HashMap<u32, Millis>,
    /// Lines of each agent in each source.
    lanes: HashMap<(u32, u64), Lane>,
}

/// Most milliseconds by which a line may be earlier than one before it without a clock that was set back: a harness writes
/// lines in an order of its own, as of parallel calls.
const JITTER_MS: Millis = 1_000;

/// Lines of one agent in one source.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// Hashes of the lines' ids.
    seen: HashSet<u64>,
    /// Offset of the latest line, and the time by which it is ordered.
    latest: Option<(u64, Millis)>,
    /// Latest time by which a line is ordered.
    last: Option<Millis>,
}

impl Lane {
    /// Returns the time by which an observation of a line is ordered: its own, unless the computer's clock was set back
    /// before it. A line that repeats an earlier one does not show that.
    fn order(&mut self, offset: u64, line: &str, time: Millis) -> Millis {
        if let Some((_, order)) = self.latest.filter(|(known, _)| *known == offset) {
            // A line may report several times: when a call began, and when it ended.
            return order.max(time);
        }
        let is_new = self.seen.insert(line_key(line));
        let was_set_back = |last: &Millis| is_new && last.saturating_sub(time) > JITTER_MS;
        let order = self.last.filter(was_set_back).unwrap_or(time);
        self.last = self.last.max(Some(order));
        self.latest = Some((offset, order));
        order
    }
}

/// Returns the identity of an agent among those that the lines of one source name. All chains of sidechains are one:
/// each of their lines has another id.
fn lane(claim: &Claim<'_>) -> u64 {
    match claim {
        Claim::Root(_) | Claim::Silent => 0,
        Claim::Chain { .. } => 1,
        Claim::Agent(id, _) | Claim::SpawnedBy(id) => line_key(id),
    }
}

/// Ranks of reports of the same value; the smallest wins.
mod rank {
    /// The agent's own transcript or the harness's record of the agent.
    pub(super) const OWN: u8 = 0;
    /// The harness's or publisher's report of its start or end.
    pub(super) const REPORTED: u8 = 1;
    /// The arguments of its spawn call.
    pub(super) const ASKED: u8 = 2;
    /// A hook payload.
    pub(super) const HOOK: u8 = 3;
}

impl Absorber {
    pub(crate) fn new(keep: FactDetail, cutoff: Option<Millis>) -> Self {
        Self { keep, inlines_payloads: false, cutoff, clocks: HashMap::new(), lanes: HashMap::new() }
    }

    /// Sets whether the next observations are of a source that cannot be read again.
    pub(crate) fn inline_payloads(&mut self, inlines_payloads: bool) {
        self.inlines_payloads = inlines_payloads;
    }

    /// Joins the clocks of another absorber. Adds `sources` to its source numbers.
    pub(crate) fn join(&mut self, other: &Self, sources: u32) {
        self.clocks.extend(other.clocks.iter().map(|(source, time)| (source + sources, *time)));
        let lanes = other.lanes.iter();
        self.lanes.extend(lanes.map(|((source, lane), known)| ((source + sources, *lane), known.clone())));
    }

    /// Returns the time by which an observation is ordered. An agent's lines in one file are in the order of the file, also
    /// where the computer's clock was set back between them, if they have ids; other sources come in any order.
    fn order_time(&mut self, observation: &Observation<'_>) -> Millis {
        let place = observation.place;
        let clock = self.clocks.entry(place.source.0).or_insert(Millis::MIN);
        let time = observation.time.unwrap_or(*clock);
        *clock = (*clock).max(time);
        let is_written_in_order = matches!(observation.kind, SourceKind::Transcript | SourceKind::Stream);
        match observation.line_id.filter(|_| is_written_in_order) {
            Some(line) => {
                let lane = self.lanes.entry((place.source.0, lane(&observation.claim))).or_default();
                lane.order(place.offset, line, time)
            }
            // Without ids they may be rows of a database, or records of an object, in an order of their own.
            None => time,
        }
    }

    /// Records one observation. Returns `false` if it was dropped because of the cutoff.
    pub(crate) fn record(&mut self, facts: &mut Facts, observation: &Observation<'_>) -> bool {
        let order = FactOrder {
            time: self.order_time(observation),
            kind: observation.kind,
            offset: observation.place.offset,
        };
        if self.cutoff.is_some_and(|cutoff| order.time > cutoff) {
            return false;
        }
        // With a cutoff, a source without times may still describe the session and its agents, but nothing else of it
        // is recorded: it cannot be placed before or after the cutoff.
        let is_undated = self.cutoff.is_some() && order.time == Millis::MIN;
        if is_undated && !matches!(observation.fact, Fact::Session { .. } | Fact::Spawn(_)) {
            return false;
        }
        let Self { keep, inlines_payloads, .. } = *self;
        Recording { facts, keep, inlines_payloads, observation, order, is_undated, actor: None }.record();
        true
    }
}

/// One observation while it is recorded.
struct Recording<'r, 'o> {
    facts: &'r mut Facts,
    keep: FactDetail,
    inlines_payloads: bool,
    observation: &'r Observation<'o>,
    order: FactOrder,
    /// Whether there is a cutoff and nothing in the source has a time.
    is_undated: bool,
    actor: Option<AgentRef>,
}

impl Recording<'_, '_> {
    fn record(&mut self) {
        let Observation { kind, time, clock, .. } = *self.observation;
        let order = self.order;
        let fact = &self.observation.fact;
        if let Fact::Stop { step, call, is_refused } = fact {
            // A stop order is no activity of the agent.
            return self.record_stop(*step, *call, *is_refused);
        }
        if let Fact::ProcessEnd(exit) = fact {
            // It is no activity of the session either, which may be a recording that the process printed.
            if *exit == ProcessExit::Unknown {
                self.facts.process_gone = self.facts.process_gone.max(Some(order.time));
            } else {
                self.facts.process_end = self.facts.process_end.max(Some((order.time, *exit)));
            }
            return;
        }
        if let Fact::ProcessActivity { activity, since } = fact {
            self.facts.process_activity =
                self.facts.process_activity.max(Some((*since, order.time, *activity)));
            return;
        }
        self.facts.is_published |= kind == SourceKind::Posted;
        self.facts.has_transcript |= kind == SourceKind::Transcript;
        if let Some(time) = time {
            self.facts.span.add(clock, time);
        }
        self.actor = self.resolve_actor();
        if is_own_activity(fact) {
            self.record_activity(self.actor);
            if self.actor.is_none() {
                time.inspect(|time| self.facts.unattributed.add(clock, *time));
            }
        }
        if kind == SourceKind::Stream {
            self.record_stream_position();
        }
        match fact {
            Fact::Session { version, cwd, model, tells_starts } => {
                if let Some(version) = version {
                    let version = Reverse(Text::from(*version));
                    update_best(&mut self.facts.version, 0, latest_first(order), version);
                }
                // A publisher reports its own folder, which need not be the one where the root started.
                let rank = u8::from(kind == SourceKind::Posted);
                update_best_text(&mut self.facts.cwd, rank, order, cwd.as_deref());
                update_best_text(&mut self.facts.root_model, 0, order, *model);
                if *tells_starts {
                    self.facts.start_reporting_kinds |= 1 << kind as u8;
                }
            }
            Fact::WorkTree(tree) => {
                if self.facts.work_trees.len() < MAX_WORK_TREES {
                    self.facts.work_trees.insert(tree.clone());
                }
            }
            Fact::Harness { .. }
            | Fact::Activity
            | Fact::Heartbeat
            | Fact::Thought { .. }
            | Fact::Span(_)
            | Fact::Note { .. }
            | Fact::Stop { .. }
            | Fact::ProcessEnd(_)
            | Fact::ProcessActivity { .. } => {}
            Fact::TurnStart => self.record_turn_start(),
            Fact::Warmup => {
                if let Some(agent) = self.actor {
                    self.facts.agent_mut(agent).is_warmup = true;
                }
            }
            Fact::Uncounted => self.facts.has_uncounted = true,
            Fact::Prompt { prompt_id, text, what } => self.record_prompt(*prompt_id, *text, *what),
            Fact::Title { text, origin: TitleOrigin::Prompt } => {
                update_best_text(&mut self.facts.asked_title, 0, order, Some(text));
            }
            Fact::Title { text, origin } => {
                update_best_text(&mut self.facts.given_title, *origin as u8, latest_first(order), Some(text));
            }
            Fact::Message { text, .. } => self.record_message(*text),
            Fact::Response(response) => self.record_response(response),
            Fact::CallBegin(call) => self.record_call_begin(call),
            Fact::CallEnd(call) => self.record_call_end(call),
            Fact::Spawn(spawn) => self.record_spawn(spawn),
            Fact::AgentEnd(end) => self.record_agent_end(end),
            Fact::TurnEnd { status, counts_run, text, .. } => {
                let Observation { line_id, place, .. } = self.observation;
                let (source, line_id) = (place.source.0, line_id.map(Text::from));
                let (status, counts_run) = (*status, *counts_run);
                let says =
                    text.filter(|_| kind != SourceKind::Hook).map(|raw| Text::from(raw.text().as_ref()));
                let text = says.filter(|text| !text.is_empty());
                self.facts.turns.push(TurnFact {
                    kind,
                    source,
                    status,
                    time,
                    order,
                    counts_run,
                    line_id,
                    text,
                });
                if kind == SourceKind::Hook {
                    self.record_hook_time(ROOT);
                    self.push_hook_step(HookStepKind::TurnEnd { status });
                }
            }
            Fact::Progress { agent, .. } => {
                if let Some(known) = agent.and_then(|id| self.facts.by_id.get(id).copied()) {
                    self.record_activity(Some(known));
                }
            }
            Fact::Retry { agent, attempt, limit, error, .. } => {
                let (attempt, limit) = (*attempt, *limit);
                let who = agent.map(|id| self.facts.agent_by_id(id)).or(self.actor);
                if attempt > 0 {
                    self.record_activity(who);
                }
                if let Some(agent) = who.map(|who| self.facts.agent_mut(who))
                    && agent.retry.as_ref().is_none_or(|known| known.order <= order)
                {
                    agent.retry =
                        Some(RetryFact { order, time, attempt, limit, error: error.as_ref().into() });
                }
            }
            Fact::Permission { name, class, digest, .. } => {
                let name = self.facts.intern(name);
                let (named, class, digest) = (self.actor, *class, *digest);
                self.facts.reports_questions = true;
                self.push_hook_step(HookStepKind::Permission { named, name, class, digest, time });
            }
            Fact::PermissionReply { digest } => {
                let (named, digest) = (self.actor, *digest);
                self.push_hook_step(HookStepKind::PermissionReply { named, digest });
            }
            Fact::SessionStart { source } => {
                // A compaction restarts the context, not a process of the harness.
                if source.as_deref() != Some("compact") {
                    let reason = source.as_deref().map(Text::from);
                    self.push_hook_step(HookStepKind::SessionStart { time, reason });
                }
            }
            Fact::AwaitsPrompt => self.push_hook_step(HookStepKind::AwaitsPrompt { time }),
            Fact::SessionEnd { .. } => self.push_hook_step(HookStepKind::SessionEnd),
            Fact::Checksum(sum) => push_new(&mut self.facts.checksums, *sum),
            Fact::VendorCost { cost, part } => {
                self.facts.add_vendor_cost((cost.unit, *part), cost.amount_micro);
            }
            Fact::Totals { usage, cost_micro_usd } => {
                if let Some(agent) = self.actor {
                    let totals = &mut self.facts.agent_mut(agent).totals;
                    *totals = (*totals).max(Some((usage.kinds(), *cost_micro_usd, usage.floor)));
                }
            }
            Fact::WireHasIdentity => self.facts.has_identity = true,
            Fact::ReportsQuestions => self.facts.reports_questions = true,
        }
    }

    fn resolve_actor(&mut self) -> Option<AgentRef> {
        match self.observation.claim {
            Claim::Root(_) => Some(ROOT),
            Claim::Agent(id, _) => Some(self.facts.agent_by_id(id)),
            Claim::SpawnedBy(call) => {
                let call = self.facts.call_index(call);
                Some(self.facts.agent_by_call(call))
            }
            Claim::Chain { line, parent } => Some(self.facts.agent_by_chain(line, parent)),
            Claim::Silent => None,
        }
    }

    fn record_activity(&mut self, who: Option<AgentRef>) {
        let Some(who) = who else { return };
        let agent = self.facts.agent_mut(who);
        agent.is_proven = true;
        agent.last_seen = agent.last_seen.max(Some(self.order));
        let is_foreign = matches!(
            self.observation.fact,
            Fact::Activity
                | Fact::Heartbeat
                | Fact::Session { .. }
                | Fact::WorkTree(_)
                | Fact::Title { .. }
                | Fact::Progress { .. }
                | Fact::Retry { .. }
                | Fact::Prompt { what: PromptKind::Local, .. }
        );
        if !is_foreign {
            agent.last_acted = agent.last_acted.max(Some(self.order));
        }
        if let Some(time) = self.observation.time {
            agent.span.add(self.observation.clock, time);
        }
    }

    /// Records that an agent was at work when a hook came.
    fn record_hook_time(&mut self, agent: AgentRef) {
        let time = self.observation.time.map(|time| (time, time));
        let times = &mut self.facts.agent_mut(agent).hook_times;
        *times = widest(*times, time);
    }

    /// Records a line that ends the root's turn, unless the root continues.
    fn record_root_line(&mut self, last_line: LastLine) {
        if self.actor != Some(ROOT) {
            return;
        }
        let (source, time, order) = (self.observation.place.source.0, self.observation.time, self.order);
        if order.kind == SourceKind::Otel && matches!(last_line, LastLine::TextOnly | LastLine::Open) {
            // Records of one source come in any order.
            return;
        }
        if last_line != LastLine::Open {
            self.facts.root_lines.push(RootLineFact { source, last_line, time, order });
            return;
        }
        let lines = &mut self.facts.root_lines;
        let last = lines.iter().rposition(|line| line.source == source);
        if let Some(last) = last.filter(|last| lines[*last].last_line == LastLine::TextOnly) {
            lines.remove(last);
        }
    }

    fn set_last_line(&mut self, last_line: LastLine) {
        let Some(actor) = self.actor else { return };
        let agent = self.facts.agent_mut(actor);
        let slot = match self.observation.kind {
            SourceKind::Transcript => &mut agent.last_lines[0],
            SourceKind::Stream => &mut agent.last_lines[1],
            SourceKind::Otel => match last_line {
                LastLine::EndTurn => &mut agent.last_lines[2],
                LastLine::TextOnly => &mut agent.last_lines[3],
                LastLine::ApiError | LastLine::Interrupted | LastLine::Open => &mut agent.last_lines[4],
            },
            SourceKind::Posted | SourceKind::Hook => return,
        };
        *slot = (*slot).max(Some((self.order, last_line)));
    }

    fn record_turn_start(&mut self) {
        self.set_last_line(LastLine::Open);
        let Observation { kind, time, .. } = *self.observation;
        let order_time = self.order.time;
        if let Some(agent) = self.actor.filter(|actor| *actor != ROOT && kind != SourceKind::Hook) {
            self.facts.agent_mut(agent).task_times.extend(time.map(|_| order_time));
        }
    }

    fn record_prompt(&mut self, id: Option<&str>, raw: RawJson<'_>, what: PromptKind) {
        let Observation { kind, time, line_id, .. } = *self.observation;
        let order = self.order;
        let is_root = self.actor == Some(ROOT);
        if what == PromptKind::Local {
            // No model answers it, so the last turn's status does not change.
            self.facts.has_local_command |= is_root;
            return;
        }
        let is_interrupted = what == PromptKind::Interrupted;
        if is_interrupted {
            self.record_root_line(LastLine::Interrupted);
        }
        self.set_last_line(if is_interrupted { LastLine::Interrupted } else { LastLine::Open });
        if is_root && what == PromptKind::Asked {
            let text = raw.text();
            update_best_text(&mut self.facts.title, 0, order, Some(&text));
            let (id, line_id) = (id.map(Text::from), line_id.map(Text::from));
            let (source, hash) = (self.observation.place.source.0, stable_hash(&text));
            self.facts.prompts.push(PromptFact { kind, source, id, hash, time, order, line_id });
        } else if let Some(agent) = self.actor.filter(|_| !is_root) {
            let agent = self.facts.agent_mut(agent);
            agent.moments.extend(time);
            if what == PromptKind::Asked {
                agent.task_times.extend(time.filter(|_| kind != SourceKind::Hook).map(|_| order.time));
                update_best_text(&mut agent.prompt, rank::OWN, order, Some(&raw.text()));
            }
        }
        if kind == SourceKind::Hook {
            self.push_hook_step(HookStepKind::Prompt { is_user: what == PromptKind::Asked });
        }
    }

    fn record_message(&mut self, raw: RawJson<'_>) {
        let Some(actor) = self.actor else { return };
        match &mut self.facts.agent_mut(actor).last_text {
            // Of two without times at the same offset neither is later: which one counts must not depend on their order.
            Some((known, offset, text))
                if (*known, *offset, text.as_str()) <= (self.order, raw.offset, raw.json) =>
            {
                (*known, *offset) = (self.order, raw.offset);
                text.clear();
                text.push_str(raw.json);
            }
            Some(_) => {}
            slot @ None => *slot = Some((self.order, raw.offset, raw.json.to_owned())),
        }
    }

    /// Records the offsets of a stream's latest root activity and result.
    fn record_stream_position(&mut self) {
        let Observation { place, fact, line_id, time, .. } = self.observation;
        let stream = self.facts.streams.entry(place.source.0).or_default();
        if matches!(fact, Fact::TurnEnd { .. }) {
            stream.last_result = stream.last_result.max(Some(place.offset));
        } else if self.actor == Some(ROOT)
            && is_of_run(fact)
            && line_id.is_none_or(|line| stream.active_lines.insert(line.into()))
        {
            if stream.begins.last().is_none_or(|(begin, _)| stream.last_result > Some(*begin)) {
                stream.begins.push((place.offset, *time));
            }
            stream.last_activity = stream.last_activity.max(Some(place.offset));
        }
    }

    fn push_hook_step(&mut self, kind: HookStepKind) {
        let place = self.observation.place;
        let is_question =
            matches!(kind, HookStepKind::Permission { .. } | HookStepKind::PermissionReply { .. });
        self.facts.hooks.push(HookStep {
            source: place.source.0,
            offset: place.offset,
            line: place.line,
            is_transcribed: is_question && self.observation.kind == SourceKind::Transcript,
            kind,
        });
    }
}

/// Reverses an order, so that the latest report has the smallest rank.
fn latest_first(order: FactOrder) -> FactOrder {
    FactOrder { time: order.time.saturating_neg(), kind: order.kind, offset: u64::MAX - order.offset }
}

/// Whether a fact is an activity of its actor, rather than a statement about an agent.
fn is_own_activity(fact: &Fact<'_>) -> bool {
    matches!(
        fact,
        Fact::Activity
            | Fact::TurnStart
            | Fact::Prompt { .. }
            | Fact::Message { .. }
            | Fact::Thought { .. }
            | Fact::Response(_)
            | Fact::CallBegin(_)
            | Fact::CallEnd(CallEnd { is_late: false, .. })
            | Fact::Heartbeat
    )
}

/// Whether a fact of the root shows that a run of a stream has begun or continues.
fn is_of_run(fact: &Fact<'_>) -> bool {
    matches!(fact, Fact::CallEnd(CallEnd { is_late: false, .. }))
        || matches!(fact, Fact::TurnStart | Fact::Response(_) | Fact::Prompt { .. })
}

fn basis_of(claim: &Claim<'_>) -> Basis {
    match claim {
        Claim::Root(basis) | Claim::Agent(_, basis) => *basis,
        Claim::SpawnedBy(_) | Claim::Chain { .. } => Basis::Link,
        Claim::Silent => Basis::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use subscope_model::{CallBegin, Clock, Outcome, SessionId, SourceId, SourcePosition, Spawn, ToolClass};

    use super::*;
    use crate::{
        Tracker,
        test_session::{ROOT, TestSession, agent, begin, call_end, raw, response},
    };

    #[test]
    fn end_without_an_id_ends_a_call_only_if_one_is_open() {
        let mut session = TestSession::new();
        let call = || Fact::CallBegin(CallBegin { id: None, ..begin("x", "Bash", ToolClass::Other) });
        let end = || Fact::CallEnd(CallEnd { id: None, ..call_end("x", Outcome::Ok) });
        let ended = |session: &TestSession| -> Vec<usize> {
            session.facts().calls.iter().map(|call| call.ends.len()).collect()
        };
        session.add(SourceKind::Hook, None, ROOT, call());
        session.add(SourceKind::Hook, None, ROOT, end());
        assert_eq!(ended(&session), [1]);
        session.add(SourceKind::Hook, None, ROOT, call());
        session.add(SourceKind::Hook, None, ROOT, call());
        session.add(SourceKind::Hook, None, ROOT, end());
        assert_eq!(ended(&session), [1, 0, 0], "either call can have ended");
    }

    #[test]
    fn cutoff_drops_later_observations_and_undated_activity() {
        let mut tracker = Tracker::new(SessionId::from("s"), FactDetail::Rows, Some(10));
        let mut offset = 0;
        let mut absorb = |source: u32, time: Option<Millis>, fact: Fact<'_>| {
            offset += 1;
            tracker.absorb(&Observation {
                place: SourcePosition { source: SourceId(source), offset, ..SourcePosition::default() },
                kind: SourceKind::Transcript,
                time,
                clock: Clock::Transcript,
                session: None,
                line_id: None,
                claim: agent("a1"),
                fact,
            })
        };
        let described = || Fact::Spawn(Spawn { description: Some("d".into()), ..Spawn::default() });
        assert!(!absorb(0, None, Fact::Activity), "without any time");
        assert!(absorb(0, None, described()));
        assert!(absorb(1, Some(10), Fact::Activity));
        assert!(absorb(1, None, Fact::Activity), "it has the time of the line before it");
        assert!(!absorb(1, Some(11), Fact::Activity));
        assert!(!absorb(1, None, Fact::Activity));
    }

    #[test]
    fn notices_and_local_commands_are_no_actions_of_the_agent() {
        let mut session = TestSession::new();
        let text = raw(r#""/help""#);
        session.add(SourceKind::Transcript, 10, ROOT, Fact::Response(response("m1", 1)));
        session.add(SourceKind::Transcript, 20, ROOT, Fact::Heartbeat);
        let local = Fact::Prompt { prompt_id: None, text, what: PromptKind::Local };
        session.add(SourceKind::Transcript, 30, ROOT, local);
        let root = &session.facts().agents[ROOT_REF];
        assert_eq!(root.last_seen.map(|order| order.time), Some(30));
        assert_eq!(root.last_acted.map(|order| order.time), Some(10));
        assert!(session.facts().has_local_command);
        assert!(session.facts().prompts.is_empty());
    }

    const ROOT_REF: usize = super::ROOT as usize;
}
