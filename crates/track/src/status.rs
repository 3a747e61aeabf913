//! Status of agents: running, or ended and how, by the strongest evidence in any order of arrival (design, section 3).
//!
//! An end is final for one interval of activity; a resume opens a new one, and only evidence of the last one counts.
//! `lost` is derived from silence, the end of a pipe or the end of the session; the evidence says which.

use std::cmp::Reverse;

use subscope_model::{
    AgentStatus, EndEvidence, Millis, Outcome, ProcessExit, SILENT_EVIDENCE, SourceKind, SpawnMode, StopStep,
    Text, ToolClass,
};

use crate::{
    Now,
    drafts::RowDraft,
    facts::{
        ActivitySpan, AgentEndFact, AgentFacts, AgentKey, AgentRef, CallFacts, CallIndex, FactOrder, Facts,
        LastLine, StopFact, Trigger, TurnFact, best_value, widest,
    },
    hooks::HookLog,
    identities::{AgentIdentity, AgentIndex, Identities},
    limits::text_ends_after,
    owners::Ownership,
};

/// Derived status of an agent, with its evidence.
#[derive(Clone, Debug, Default)]
pub(crate) struct DerivedState {
    pub(crate) status: AgentStatus,
    pub(crate) evidence: Option<Text>,
    /// End time reported by the harness.
    pub(crate) ended_at: Option<Millis>,
    /// Latest time at which its end was reported.
    pub(crate) reported_at: Option<Millis>,
    pub(crate) report: Option<Text>,
    /// Whether the program that published its end published its report, too.
    pub(crate) is_report_published: bool,
    pub(crate) error: Option<Text>,
    /// When its turn ended, if a command that it started in the background is still running.
    pub(crate) left_since: Option<Millis>,
    /// Since when it waits for messages, if it is a teammate.
    pub(crate) idle_since: Option<Millis>,
}

/// Evidence of an agent whose spawn call is still open when nothing more will be reported.
const NOT_STARTED: &str = "asked for, not seen to start";

impl DerivedState {
    pub(crate) fn new(status: AgentStatus, evidence: Option<&str>) -> Self {
        Self { status, evidence: evidence.map(Text::from), ..Self::default() }
    }
}

/// Input of a derivation: facts, and what earlier steps derived from them.
pub(crate) struct Derivation<'f> {
    pub(crate) facts: &'f Facts,
    pub(crate) identities: &'f Identities,
    pub(crate) owners: &'f Ownership,
    pub(crate) hooks: &'f HookLog,
    pub(crate) now: &'f Now<'f>,
    pub(crate) harness: Option<&'f str>,
}

/// Last activity of an agent and its descendants, and the silence limits that apply to all of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    pub(crate) last: Option<Millis>,
    pub(crate) lost_after_ms: i64,
    /// Silence after which a last line of text without a stop reason counts as the end; no stall is reported for it.
    pub(crate) text_final_after_ms: i64,
    /// Whether the agent itself has an open call.
    pub(crate) is_in_call: bool,
}

impl Derivation<'_> {
    /// Derives the status of a subagent.
    pub(crate) fn subagent_state(&self, number: AgentIndex, silence: Silence) -> DerivedState {
        let identity = self.identity(number);
        let last = self.last_trigger(identity);
        let mut endings = self.reported_endings(identity, last);
        // A record that it was lost does not apply to later activity.
        let is_silent = |end: &AgentEndFact| silence.last.is_none_or(|last| last <= end.order.time);
        endings.retain(|end| end.status != AgentStatus::Lost || is_silent(end));
        endings.extend(self.delivered_stops(identity, last));
        let by_name = self.teammate_endings(identity);
        let is_teammate = self.is_teammate(identity) || !by_name.is_empty();
        endings.extend(by_name);
        endings.extend(self.spawn_result_ending(identity, last));
        let own_end = self.last_line_ending(identity, last);
        // What hands an agent's report back says that it ended, not how: an error on its own last line does.
        if own_end.as_ref().is_some_and(|end| end.status == AgentStatus::Failed) {
            endings.retain(|end| end.status != AgentStatus::Completed);
        }
        endings.extend(own_end);
        self.drop_ends_of_earlier_turns(&mut endings, identity);
        self.drop_ineffective_stops(&mut endings, silence);
        let left_since = drop_interim(&mut endings);
        // Among spans, that of the agent says how it ended: that of its call may end otherwise, for a reason of its own.
        let has_own_span = endings.iter().any(|end| end.evidence == EndEvidence::OtelRecord);
        let is_of_call = |end: &AgentEndFact| {
            has_own_span && end.evidence == EndEvidence::SpawnResult && end.order.kind == SourceKind::Otel
        };
        endings.sort_by_key(|end| (is_of_call(end), end.evidence.strength(), Reverse(end.order), end.status));
        if is_teammate && let Some(idle) = self.idle_teammate(endings.first(), silence) {
            return idle;
        }
        if let Some(best) = endings.first() {
            let mut state = DerivedState::new(best.status, Some(best.evidence.as_str()));
            state.ended_at = endings.iter().find_map(|end| end.time);
            let moments = endings.iter().map(|end| end.order.time).filter(|time| *time > Millis::MIN);
            state.reported_at = moments.max();
            state.report = endings.iter().find_map(|end| end.report.clone());
            let is_published =
                |end: &AgentEndFact| end.order.kind == SourceKind::Posted && end.report.is_some();
            state.is_report_published = endings.iter().any(is_published);
            state.error = endings
                .iter()
                .find_map(|end| end.error.clone())
                .filter(|_| best.status == AgentStatus::Failed);
            return state;
        }
        let running = if identity.is_pending { AgentStatus::Pending } else { AgentStatus::Running };
        let is_text_last = self.ends_in_text(identity, last);
        match self.why_lost(silence) {
            why if is_text_last && (why.is_some() || self.is_text_final(silence)) => {
                DerivedState::new(AgentStatus::Completed, Some("last line is text"))
            }
            Some(_) if identity.is_pending => DerivedState::new(AgentStatus::Lost, Some(NOT_STARTED)),
            Some(why) => DerivedState::new(AgentStatus::Lost, Some(&why)),
            None => DerivedState { left_since, ..DerivedState::new(running, None) },
        }
    }

    /// Returns the call that last resumed the agent; `None` if nothing did since its spawn.
    fn last_trigger<'s>(&'s self, identity: &'s AgentIdentity) -> Option<&'s Trigger> {
        let origin = self.spawn_call(identity).and_then(|call| call.id.clone());
        self.triggers(identity)
            .filter(|trigger| Some(&trigger.call) != origin.as_ref())
            .max_by_key(|trigger| trigger.order)
    }

    /// Returns the facts of the call that started an agent.
    pub(crate) fn spawn_call(&self, identity: &AgentIdentity) -> Option<&CallFacts> {
        Some(self.facts.call(identity.origin?))
    }

    /// Returns an agent.
    pub(crate) fn identity(&self, number: AgentIndex) -> &AgentIdentity {
        &self.identities.all[number]
    }

    /// Returns all facts that describe an agent.
    pub(crate) fn facts_of<'p>(
        &'p self,
        identity: &'p AgentIdentity,
    ) -> impl Iterator<Item = &'p AgentFacts> {
        identity.refs.iter().map(|agent| self.facts.agent(*agent))
    }

    /// Returns the calls that started or resumed an agent.
    pub(crate) fn triggers<'p>(&'p self, identity: &'p AgentIdentity) -> impl Iterator<Item = &'p Trigger> {
        self.facts_of(identity).flat_map(|agent| &agent.triggers)
    }

    /// Returns the span of the agent's activity over all its facts.
    pub(crate) fn span(&self, identity: &AgentIdentity) -> ActivitySpan {
        let mut span = ActivitySpan::default();
        self.facts_of(identity).for_each(|agent| span.join(&agent.span));
        // Lines that name no agent are the root's if the source names subagents.
        if identity.id.is_root() && self.facts.has_identity {
            span.join(&self.facts.unattributed);
        }
        let hooks = self.facts_of(identity).map(|agent| agent.hook_times).reduce(widest);
        span.add_hook_times(hooks.flatten());
        span
    }

    /// Returns the ids under which sources report an agent.
    fn ids<'p>(&'p self, identity: &'p AgentIdentity) -> Vec<&'p Text> {
        let mut ids: Vec<&Text> = self
            .facts_of(identity)
            .filter_map(|agent| match &agent.key {
                AgentKey::Id(id) => Some(id),
                AgentKey::Root | AgentKey::Call(_) | AgentKey::Chain => None,
            })
            .collect();
        if !ids.contains(&&identity.id.0) {
            ids.push(&identity.id.0);
        }
        ids
    }

    /// Returns the stop orders for the agent's last interval of activity. They name its spawn call if they were made
    /// before its id was known.
    fn stop_orders<'p>(
        &'p self,
        identity: &'p AgentIdentity,
        last: Option<&'p Trigger>,
    ) -> impl Iterator<Item = &'p StopFact> {
        let call = self.spawn_call(identity);
        let names = self.ids(identity).into_iter().chain(call.and_then(|call| call.id.as_ref()));
        let all = names.filter_map(|name| self.facts.stops.get(name)).flatten();
        all.filter(move |stop| last.is_none_or(|last| stop.order.time >= last.order.time))
    }

    /// Returns whether the user asked the agent to stop in its last interval of activity.
    pub(crate) fn is_asked_to_stop(&self, identity: &AgentIdentity) -> bool {
        let last = self.last_trigger(identity);
        self.stop_orders(identity, last).any(|stop| stop.step == StopStep::Asked)
    }

    /// Returns ends of the agent by stop orders that were delivered to it.
    fn delivered_stops(&self, identity: &AgentIdentity, last: Option<&Trigger>) -> Vec<AgentEndFact> {
        let given = self.stop_orders(identity, last).filter(|stop| stop.step == StopStep::Given);
        let end = |stop: &StopFact| AgentEndFact {
            time: stop.time,
            ..AgentEndFact::new(EndEvidence::HookAnswer, AgentStatus::Stopped, stop.order)
        };
        given.map(end).collect()
    }

    /// Drops stop orders that have not ended the agent: it ended by itself later, or other calls of it are still open.
    fn drop_ineffective_stops(&self, endings: &mut Vec<AgentEndFact>, silence: Silence) {
        let is_stop = |end: &AgentEndFact| end.evidence == EndEvidence::HookAnswer;
        let own_ends = endings.iter().filter(|end| end.evidence == EndEvidence::LastLine);
        if let Some(last) = own_ends.map(|end| end.order.time).max() {
            endings.retain(|end| !is_stop(end) || end.order.time >= last);
        }
        if silence.is_in_call && endings.iter().all(is_stop) && self.why_lost(silence).is_none() {
            endings.clear();
        }
    }

    /// Returns the ends that sources report under the agent's ids.
    fn reported_endings(&self, identity: &AgentIdentity, last: Option<&Trigger>) -> Vec<AgentEndFact> {
        let ids = self.ids(identity);
        let ends = ids.iter().filter_map(|id| self.facts.ends.get(*id)).flatten();
        let is_stopped = ids.iter().any(|id| self.hooks.stopped.contains(*id));
        let is_heard = |end: &AgentEndFact| end.order.kind != SourceKind::Hook || is_stopped;
        ends.filter(|end| end.evidence != EndEvidence::StopHook || is_heard(end))
            .filter(|end| self.is_of_last_interval(end, last))
            .cloned()
            .collect()
    }

    /// Whether an end concerns the agent's last interval of activity.
    fn is_of_last_interval(&self, end: &AgentEndFact, last: Option<&Trigger>) -> bool {
        let Some(last) = last else { return true };
        let by_run = end.run_id.as_ref().and_then(|run| self.facts.run_ids.get(run));
        if let Some(call) = end.call.as_ref().or(by_run) {
            return *call == last.call;
        }
        // The time of an end is unknown in a notification before a stream's first line with a time.
        end.order.time == Millis::MIN
            || end.evidence == EndEvidence::StopHook
            || end.evidence == EndEvidence::Finished
            || end.order.time >= last.order.time
    }

    /// Drops ends before the agent's last turn or task, by its own lines: they are of turns before it. Some harnesses
    /// name no call that gives an agent its next turn.
    fn drop_ends_of_earlier_turns(&self, endings: &mut Vec<AgentEndFact>, identity: &AgentIdentity) {
        let Some(task) = self.facts_of(identity).flat_map(|agent| &agent.task_times).max() else { return };
        let has_one_turn = self.turn_times(identity).is_empty();
        endings.retain(|end| {
            // Of several turns a result without a time may be of any.
            let may_be_last = has_one_turn || end.evidence != EndEvidence::SpawnResult;
            let is_timeless = end.order.time == Millis::MIN && may_be_last;
            is_timeless || end.evidence == EndEvidence::Finished || end.order.time >= *task
        });
    }

    /// Returns the times at which another turn of an agent began, by its own lines: of the first task after an end.
    pub(crate) fn turn_times(&self, identity: &AgentIdentity) -> Vec<Millis> {
        let tasks = self.facts_of(identity).flat_map(|agent| agent.task_times.iter().copied());
        let ends = self.ids(identity).into_iter().filter_map(|id| self.facts.ends.get(id)).flatten();
        let ends: Vec<Millis> = ends.map(|end| end.order.time).filter(|time| *time > Millis::MIN).collect();
        let mut tasks: Vec<Millis> = tasks.collect();
        tasks.sort_unstable();
        let mut begun = Millis::MIN;
        tasks.retain(|task| {
            let is_next = ends.iter().any(|end| begun <= *end && end < task);
            if is_next {
                begun = *task;
            }
            is_next
        });
        tasks
    }

    /// Returns the end by the result of the spawn call, or of the one that gave the agent its last turn: some harnesses
    /// use the same tool for both.
    fn spawn_result_ending(&self, identity: &AgentIdentity, last: Option<&Trigger>) -> Option<AgentEndFact> {
        let number = match last {
            None => identity.origin?,
            Some(last) => self.facts.call_by_id.get(&last.call).copied().filter(|number| {
                let call = self.facts.call(*number);
                let names_agent = call.spawn.as_ref().is_some_and(|spawn| spawn.agent.is_some());
                call.class == ToolClass::Spawn && names_agent
            })?,
        };
        let spawn = self.facts.call(number).spawn.as_deref();
        let order = spawn.and_then(|spawn| spawn.result_order);
        let end = |status, report, error| {
            let time = self.call_end(number).and_then(|(_, time)| time);
            let end = AgentEndFact::new(EndEvidence::SpawnResult, status, order?);
            Some(AgentEndFact { time, report, error, ..end })
        };
        let report = spawn.and_then(|spawn| best_value(&spawn.report));
        match spawn.and_then(|spawn| best_value(&spawn.finished)) {
            Some(true) => return end(AgentStatus::Completed, report, None),
            Some(false) => return None,
            None => {}
        }
        match self.call_end(number)?.0 {
            Outcome::Interrupted => end(AgentStatus::Stopped, None, None),
            Outcome::Error => {
                end(AgentStatus::Failed, None, spawn.and_then(|spawn| best_value(&spawn.error)))
            }
            Outcome::Ok if self.mode(identity) == Some(SpawnMode::Foreground) => {
                end(AgentStatus::Completed, report, None)
            }
            Outcome::Ok | Outcome::Denied | Outcome::Over => None,
        }
    }

    /// Returns whether the agent runs in the foreground or background; `None` if unknown.
    pub(crate) fn mode(&self, identity: &AgentIdentity) -> Option<SpawnMode> {
        let modes = self.facts_of(identity).flat_map(|agent| &agent.modes);
        let of_its_start = modes
            .filter(|(call, ..)| call.is_none() || identity.origin.is_none() || *call == identity.origin);
        // The latest report wins: an agent moved to the background stays there.
        let by_agent = of_its_start.max_by_key(|(_, order, mode)| (*order, *mode)).map(|(.., mode)| *mode);
        let spawn = self.spawn_call(identity).and_then(|call| call.spawn.as_ref());
        by_agent.or_else(|| spawn.and_then(|spawn| best_value(&spawn.mode)))
    }

    /// Returns the end by the agent's own last line.
    fn last_line_ending(&self, identity: &AgentIdentity, last: Option<&Trigger>) -> Option<AgentEndFact> {
        let (order, last_line) = self.last_line(identity)?;
        if last.is_some_and(|last| order.time < last.order.time) {
            return None;
        }
        let status = match last_line {
            LastLine::EndTurn => AgentStatus::Completed,
            LastLine::ApiError => AgentStatus::Failed,
            LastLine::Interrupted => AgentStatus::Stopped,
            LastLine::TextOnly | LastLine::Open => return None,
        };
        let error = if last_line == LastLine::ApiError { self.last_text(identity) } else { None };
        Some(AgentEndFact { error, ..AgentEndFact::new(EndEvidence::LastLine, status, order) })
    }

    /// Returns the agent's last line in its transcript, else in the stream, else its last OpenTelemetry record.
    fn last_line(&self, identity: &AgentIdentity) -> Option<(FactOrder, LastLine)> {
        let of = |slot: usize| self.facts_of(identity).filter_map(move |agent| agent.last_lines[slot]).max();
        of(0).or_else(|| of(1)).or_else(|| {
            // The record of a turn's end and that of its text are of the same moment.
            let (end, text, other) = (of(2), of(3), of(4));
            let is_last = |(end, _): &(FactOrder, LastLine)| other.is_none_or(|(at, _)| at.time <= end.time);
            end.filter(is_last).or_else(|| text.max(other))
        })
    }

    fn ends_in_text(&self, identity: &AgentIdentity, last: Option<&Trigger>) -> bool {
        self.last_line(identity).is_some_and(|(order, last_line)| {
            last_line == LastLine::TextOnly && last.is_none_or(|last| order.time >= last.order.time)
        })
    }

    /// Returns the agent's last text.
    pub(crate) fn last_text(&self, identity: &AgentIdentity) -> Option<Text> {
        let texts = self.facts_of(identity).filter_map(|agent| agent.last_text.as_ref());
        let (_, _, json) = texts.max()?;
        let raw = subscope_model::RawJson { json, offset: 0 };
        Some(raw.text().as_ref().into()).filter(|text: &Text| !text.is_empty())
    }

    /// Returns why the agent is lost; `None` if it may still act.
    pub(crate) fn why_lost(&self, silence: Silence) -> Option<String> {
        if let Some(exit) = self.process_end() {
            return Some(match exit {
                ProcessExit::Unknown => "its process ended".to_owned(),
                ProcessExit::Code(_) | ProcessExit::Signal(_) => format!("its process ended: {exit}"),
            });
        }
        if self.now.has_ended {
            return Some("its pipe ended".to_owned());
        }
        if self.hooks.has_left {
            return Some("the session ended".to_owned());
        }
        let silent = |last: Millis| self.now.limits.awake.silence(last, self.now.at);
        match silence.last {
            // The limit, not the silence so far, which would be another at each derivation.
            Some(last) if silent(last) >= silence.lost_after_ms => {
                Some(format!("{SILENT_EVIDENCE}{} min", silence.lost_after_ms / 60_000))
            }
            Some(_) => None,
            // The agent has no times: use the session's last event, else the end of the file.
            None => match self.facts.span.latest() {
                Some(last) if silent(last) < silence.lost_after_ms => None,
                _ if self.now.is_growing => None,
                _ => Some("end of file".to_owned()),
            },
        }
    }

    /// Returns how the session's process ended; `None` if the session continued since. The end reported by its parent
    /// process outranks the observation that it is gone.
    pub(crate) fn process_end(&self) -> Option<ProcessExit> {
        let is_last = |ended_at: Millis| self.facts.span.latest().is_none_or(|latest| latest <= ended_at);
        let end = self.facts.process_end.filter(|(ended_at, _)| is_last(*ended_at)).map(|(_, exit)| exit);
        let gone = || self.facts.process_gone.filter(|gone_at| is_last(*gone_at));
        end.or_else(|| gone().map(|_| ProcessExit::Unknown))
    }

    /// Whether the silence after a last line of text is long enough that no call will follow. Versions up to 2.1.50
    /// write many last lines without a stop reason.
    fn is_text_final(&self, silence: Silence) -> bool {
        let silent = |last: Millis| self.now.limits.awake.silence(last, self.now.at);
        // A hook that reports the begin of a turn reports its end, too.
        let longest = self.facts.longest_behind_text.filter(|_| !self.hooks.is_in_turn);
        let limit = longest.and_then(text_ends_after).unwrap_or(silence.text_final_after_ms);
        silence.last.is_some_and(|last| silent(last) >= limit.min(silence.text_final_after_ms))
    }

    /// Derives the status of the root, after that of all subagents.
    pub(crate) fn root_state(&self, silence: Silence, drafts: &[RowDraft]) -> DerivedState {
        let root = self.identity(0);
        let mut endings: Vec<(FactOrder, u8, AgentStatus, &str)> = Vec::new();
        for turn in &self.facts.turns {
            if !matches!(turn.kind, SourceKind::Hook | SourceKind::Otel) {
                endings.push((turn.order, 2, turn.status, "result"));
            }
        }
        let last_line = self.last_line(root);
        let latest = endings.iter().map(|(order, ..)| order.time).max();
        let is_stopped = endings.iter().max().is_some_and(|(.., status, _)| *status == AgentStatus::Stopped);
        match last_line {
            Some((order, LastLine::EndTurn)) => endings.push((order, 1, AgentStatus::Completed, "last line")),
            Some((order, LastLine::ApiError)) => endings.push((order, 1, AgentStatus::Failed, "last line")),
            Some((order, LastLine::Interrupted)) => {
                endings.push((order, 3, AgentStatus::Stopped, "last line"))
            }
            // What comes after a turn was stopped is of another.
            Some((order, line))
                if latest.is_none_or(|latest| order.time > latest)
                    && (line == LastLine::Open || line == LastLine::TextOnly && is_stopped) =>
            {
                endings.clear();
            }
            Some(_) | None => {}
        }
        // Of ends at one time, the last line of the most detailed source counts, whichever source was read first.
        if let Some((order, class, status, evidence)) =
            endings.iter().max_by_key(|(order, class, status, _)| {
                (order.time, *class, Reverse(order.kind), order.offset, *status)
            })
        {
            let mut state = DerivedState::new(*status, Some(evidence));
            let is_said = |turn: &&TurnFact| *class == 2 && turn.order == *order && turn.status == *status;
            let said = self.facts.turns.iter().filter(is_said).filter_map(|turn| turn.text.clone()).max();
            if *status == AgentStatus::Failed {
                state.error = said.or_else(|| self.last_text(root));
            } else {
                state.report = said;
            }
            return state;
        }
        let by_span = self.facts.turns.iter().filter(|turn| turn.kind == SourceKind::Otel);
        let by_span = by_span.max_by_key(|turn| (turn.order, turn.status));
        // A person stopped the turn, or it failed: records of responses do not show that.
        if let Some(turn) = by_span.filter(|turn| {
            last_line.is_none_or(|(last, _)| last.kind == SourceKind::Otel && last.time <= turn.order.time)
        }) {
            let mut state = DerivedState::new(turn.status, Some("OpenTelemetry record"));
            state.error = self.last_text(root).filter(|_| turn.status == AgentStatus::Failed);
            return state;
        }
        let is_open_line = matches!(last_line, Some((_, LastLine::Open)));
        if let Some(status) = self.hooks.turn.filter(|_| !is_open_line || silence.last.is_none()) {
            return DerivedState::new(status, Some("stop hook"));
        }
        let exit = self.process_end();
        let status = exit.and_then(|exit| match exit {
            // An interactive harness exits with 0 in the middle of a turn, too.
            ProcessExit::Code(0) if self.is_opened() && self.has_begun() => None,
            ProcessExit::Code(0) => Some(AgentStatus::Completed),
            // A shell's word, and that of a program that catches it, for the end by a signal: 128 and its number.
            ProcessExit::Code(129..=159) => Some(AgentStatus::Stopped),
            ProcessExit::Code(_) => Some(AgentStatus::Failed),
            ProcessExit::Signal(_) => Some(AgentStatus::Stopped),
            ProcessExit::Unknown => None,
        });
        if let (Some(exit), Some(status)) = (exit, status) {
            return DerivedState::new(status, Some(&exit.to_string()));
        }
        if self.facts.is_published && !self.has_begun() && !self.is_opened() {
            return publisher_state(drafts.get(1..).unwrap_or_default());
        }
        let is_text_last = matches!(last_line, Some((_, LastLine::TextOnly))) && !self.has_open_work();
        match self.why_lost(silence) {
            why if is_text_last && (why.is_some() || self.is_text_final(silence)) => {
                DerivedState::new(AgentStatus::Completed, Some("last line is text"))
            }
            // A session that was opened and closed without a turn is completed. Where only its local commands report that
            // it was opened, silence is its end: nothing says that the process is still there.
            Some(why)
                if self.is_opened()
                    && (self.now.has_ended
                        || self.hooks.has_left
                        || exit.is_some()
                        || !self.is_reported_open()) =>
            {
                let is_cut = self.has_begun();
                let status = if is_cut { AgentStatus::Lost } else { AgentStatus::Completed };
                DerivedState::new(status, Some(&why))
            }
            // Silence while waiting for the user's prompt is not a loss.
            Some(_) if (self.is_opened() || self.process_note().is_some()) && self.awaits_prompt() => {
                DerivedState::new(AgentStatus::Running, None)
            }
            Some(_) if self.ends_interrupted() => {
                DerivedState::new(AgentStatus::Stopped, Some("its last call was interrupted"))
            }
            // Nothing was ever asked.
            Some(why) if !self.has_begun() && drafts.len() <= 1 => {
                DerivedState::new(AgentStatus::Completed, Some(&why))
            }
            Some(why) => DerivedState::new(AgentStatus::Lost, Some(&why)),
            None => DerivedState::new(AgentStatus::Running, None),
        }
    }

    /// Whether the root did nothing after a call of its own was interrupted: some harnesses write no other word of that.
    fn ends_interrupted(&self) -> bool {
        let acted = self.facts_of(self.identity(0)).filter_map(|root| root.last_acted).max();
        let is_last = |ended: Millis| acted.is_none_or(|acted| acted.time <= ended);
        let is_interrupted = |number: CallIndex| {
            let end = self.call_end(number).filter(|(outcome, _)| *outcome == Outcome::Interrupted);
            self.owners.of_call(number).is_some_and(|(owner, _)| owner == 0)
                && end.and_then(|(_, at)| at).is_some_and(is_last)
        };
        self.facts.numbered_calls().any(|(number, _)| is_interrupted(number))
    }

    /// Whether the root certainly continued after a last line of text: a call since its last prompt is open, or there
    /// is an agent without a known spawn call (some harnesses write calls only when they have ended).
    fn has_open_work(&self) -> bool {
        let since = self.facts.prompts.iter().map(|prompt| prompt.order.time).max().unwrap_or(Millis::MIN);
        let is_recent = |time: Option<Millis>| time.is_some_and(|time| time >= since);
        let is_open_call = |number: CallIndex| {
            let is_own = self.owners.of_call(number).is_some_and(|(owner, _)| owner == 0);
            is_own && self.is_open(number) && is_recent(self.facts.call(number).begun_at())
        };
        let is_unstarted = |(number, identity): (AgentIndex, &AgentIdentity)| {
            let is_startable = identity.origin.is_none() && identity.batch.is_none();
            let first = self.span(identity).get().map(|(first, _)| first);
            is_startable
                && self.owners.parent_of(number) == Some(0)
                && self.facts_of(identity).all(|agent| !agent.detached)
                && is_recent(first)
        };
        self.facts.numbered_calls().any(|(number, _)| is_open_call(number))
            || self.identities.all.iter().enumerate().skip(1).any(is_unstarted)
    }

    /// Whether any source reports that the session was opened interactively.
    fn is_opened(&self) -> bool {
        self.facts.has_local_command || self.is_reported_open()
    }

    /// Whether the harness itself reported that a process opened the session or waits for a prompt.
    pub(crate) fn is_reported_open(&self) -> bool {
        let HookLog { is_open, opened_at, awaits_at, .. } = self.hooks;
        *is_open || opened_at.is_some() || awaits_at.is_some()
    }

    /// Whether the root was ever at work. A stream has no prompts, so its existence counts.
    fn has_begun(&self) -> bool {
        let has_acted =
            self.facts_of(self.identity(0)).any(|root| root.last_acted.is_some() || root.retry.is_some());
        has_acted || self.hooks.has_turn || !self.facts.streams.is_empty() || !self.facts.turns.is_empty()
    }

    /// Returns whether a running root waits for the user's next prompt: it never had one, the harness has said so since
    /// the root's last action, or a process reopened the session after that and no turn has begun since.
    pub(crate) fn awaits_prompt(&self) -> bool {
        if !self.has_begun() {
            return true;
        }
        let last_acted =
            self.facts_of(self.identity(0)).filter_map(|root| root.last_acted).map(|order| order.time).max();
        let is_before = |opened: Millis| last_acted.is_none_or(|acted| acted < opened);
        // A hook said so before the process went on: a prompt was given since.
        let by_hook =
            self.hooks.awaits_at.filter(|at| self.noted_idle().is_some() || !self.is_answered(Some(*at)));
        let awaits_at = by_hook.max(self.noted_idle());
        if awaits_at.is_some_and(|at| last_acted.is_none_or(|acted| acted <= at)) {
            return true;
        }
        self.hooks.is_open && !self.hooks.is_in_turn && self.hooks.opened_at.is_some_and(is_before)
    }

    /// Returns whether a report about a call counts: it is the owner's own, or names no agent.
    pub(crate) fn is_reported_by_owner(&self, number: CallIndex, by: Option<AgentRef>) -> bool {
        self.owners.is_reported_by_owner(self.identities, number, by)
    }

    /// Returns outcome and time of a call's end by its best source.
    pub(crate) fn call_end(&self, number: CallIndex) -> Option<(Outcome, Option<Millis>)> {
        self.owners.call_end(self.facts, self.identities, number)
    }

    /// Returns whether a call has no end.
    pub(crate) fn is_open(&self, number: CallIndex) -> bool {
        self.call_end(number).is_none()
    }
}

/// Derives the status of a root that is known only by the runs that its program publishes: it ends with the last one.
fn publisher_state(runs: &[RowDraft]) -> DerivedState {
    let last = runs.iter().max_by_key(|run| (run.state.status.is_live(), run.last));
    let Some(last) = last.filter(|last| !last.state.status.is_live()) else {
        return DerivedState::new(AgentStatus::Running, None);
    };
    let ended_at = last.intervals.last().map(|[_, to]| *to).or(last.state.ended_at);
    let is_lost = last.state.status == AgentStatus::Lost;
    let ended = || DerivedState::new(AgentStatus::Completed, Some("its last run ended"));
    DerivedState { ended_at, ..if is_lost { last.state.clone() } else { ended() } }
}

/// Drops ends that the harness reported as interim (status running), with all ends up to that line. Returns the time of
/// the latest interim end if no later end is left.
fn drop_interim(endings: &mut Vec<AgentEndFact>) -> Option<Millis> {
    let interim =
        endings.iter().filter(|end| end.status == AgentStatus::Running).map(|end| end.order).max()?;
    // Lines without times, as those of a hook log, are in the order of the log. An agent's own last line is in another
    // file than the report of it.
    let is_later = |end: &AgentEndFact| {
        let is_of_report = end.evidence != EndEvidence::LastLine && end.order.kind == interim.kind;
        end.order.time > interim.time || is_of_report && end.order > interim
    };
    endings.retain(|end| end.status != AgentStatus::Running && is_later(end));
    Some(interim.time).filter(|_| endings.is_empty())
}

#[cfg(test)]
mod tests;
