//! How agents stand or ended: by evidence, the strongest first, whatever came first (design, section 3).
//!
//! An ending is final for one stretch of activity; what resumes an agent opens a new one, and only evidence of the last
//! stretch counts. `lost` is concluded from silence, from the end of a pipe or from the end of the session, and says so.

use subscope_model::{AgentStatus, EndEvidence, Millis, Outcome, SourceKind, SpawnMode, StopStep, Text};

use crate::{
    Now,
    facts::{AgentFacts, CallFacts, EndFact, Facts, Order, Span, StopFact, Tail, Trigger, value},
    hooks::HookLog,
    identities::{AgentIdentity, Identities, No},
    owners::Owners,
};

/// How an agent stands, and on what that rests.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) status: AgentStatus,
    pub(crate) evidence: Option<Text>,
    /// When the harness says that it ended.
    pub(crate) ended_at: Option<Millis>,
    /// When that was told last.
    pub(crate) told_at: Option<Millis>,
    pub(crate) report: Option<Text>,
    pub(crate) error: Option<Text>,
    /// Since when its turn is over and a command that it left running in the background is not.
    pub(crate) left_since: Option<Millis>,
}

impl Standing {
    fn new(status: AgentStatus, evidence: Option<&str>) -> Self {
        let evidence = evidence.map(Text::from);
        let (ended_at, told_at, left_since) = (None, None, None);
        Self { status, evidence, ended_at, told_at, report: None, error: None, left_since }
    }
}

/// Everything that the status of one agent rests on.
pub(crate) struct Derivation<'f> {
    pub(crate) facts: &'f Facts,
    pub(crate) identities: &'f Identities,
    pub(crate) owners: &'f Owners,
    pub(crate) hooks: &'f HookLog,
    pub(crate) now: &'f Now<'f>,
    pub(crate) harness: Option<&'f str>,
}

/// When an agent and those below it were last heard of, and how long all of them may be silent before they are lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    pub(crate) last: Option<Millis>,
    pub(crate) lost_after_ms: i64,
    /// After how long a last line that is text, with no reason for its end, was the last word: no stall is told of it.
    pub(crate) said_after_ms: i64,
    /// Whether the agent itself has an open call.
    pub(crate) is_in_call: bool,
}

impl Derivation<'_> {
    /// Concludes how a subagent stands.
    pub(crate) fn subagent(&self, number: No, silence: Silence) -> Standing {
        let Some(identity) = self.identities.all.get(number) else {
            return Standing::new(AgentStatus::Lost, None);
        };
        let last = self.last_trigger(identity);
        let mut told = self.told_endings(identity, last);
        told.extend(self.given_stops(identity, last));
        told.extend(self.spawn_result(identity, last));
        told.extend(self.last_line(identity, last));
        self.forget_stops_in_vain(&mut told, silence);
        let left_since = forget_interim(&mut told);
        told.sort_by(|one, other| {
            let latest = |end: &Told| std::cmp::Reverse(end.order);
            (one.evidence, latest(one), one.status).cmp(&(other.evidence, latest(other), other.status))
        });
        if let Some(best) = told.first() {
            let mut standing = Standing::new(best.status, Some(best.evidence.as_str()));
            standing.ended_at = told.iter().find_map(|end| end.time);
            let moments = told.iter().map(|end| end.order.time).filter(|time| *time > Millis::MIN);
            standing.told_at = moments.max();
            standing.report = told.iter().find_map(|end| end.report.clone());
            standing.error =
                told.iter().find_map(|end| end.error.clone()).filter(|_| best.status == AgentStatus::Failed);
            return standing;
        }
        let running = if identity.is_pending { AgentStatus::Pending } else { AgentStatus::Running };
        let is_last_word = self.ends_in_text(identity, last);
        match self.why_lost(silence) {
            why if is_last_word && (why.is_some() || self.has_said_all(silence)) => {
                Standing::new(AgentStatus::Completed, Some("last line is text"))
            }
            Some(why) => Standing::new(AgentStatus::Lost, Some(&why)),
            None => Standing { left_since, ..Standing::new(running, None) },
        }
    }

    /// What woke the agent last; `None` where nothing but its spawn did.
    fn last_trigger<'s>(&'s self, identity: &AgentIdentity) -> Option<&'s Trigger> {
        let tellings = identity.refs.iter().filter_map(|name| self.facts.agents.get(*name as usize));
        let triggers = tellings.flat_map(|agent| agent.triggers.iter());
        let origin = identity
            .origin
            .and_then(|call| self.facts.calls.get(call as usize))
            .and_then(|call| call.id.clone());
        triggers.filter(|trigger| Some(&trigger.call) != origin.as_ref()).max_by_key(|trigger| trigger.order)
    }

    pub(crate) fn tellings<'p>(
        &'p self,
        identity: &'p AgentIdentity,
    ) -> impl Iterator<Item = &'p AgentFacts> {
        identity.refs.iter().filter_map(|name| self.facts.agents.get(*name as usize))
    }

    /// When the agent did something, by the best clock that tells any of it, under whichever name.
    pub(crate) fn span(&self, identity: &AgentIdentity) -> Span {
        self.tellings(identity).fold(Span::default(), |mut span, agent| {
            span.join(&agent.span);
            span
        })
    }

    /// The ids that sources have for an agent.
    fn ids<'p>(&'p self, identity: &'p AgentIdentity) -> Vec<&'p Text> {
        let mut ids: Vec<&Text> = self
            .tellings(identity)
            .filter_map(|agent| match &agent.key {
                crate::facts::Key::Id(id) => Some(id),
                _ => None,
            })
            .collect();
        if !ids.contains(&&identity.id.0) {
            ids.push(&identity.id.0);
        }
        ids
    }

    /// A person's orders to stop that are of the agent's last stretch of activity. It may have been known by the call
    /// that started it when they were made.
    fn stops<'p>(
        &'p self,
        identity: &'p AgentIdentity,
        last: Option<&'p Trigger>,
    ) -> impl Iterator<Item = &'p StopFact> {
        let call = identity.origin.and_then(|call| self.facts.calls.get(call as usize));
        let names = self.ids(identity).into_iter().chain(call.and_then(|call| call.id.as_ref()));
        let all = names.filter_map(|name| self.facts.stops.get(name)).flatten();
        all.filter(move |stop| last.is_none_or(|last| stop.order.time >= last.order.time))
    }

    /// Whether a person asked the agent to stop, in its last stretch of activity.
    pub(crate) fn is_asked_to_stop(&self, identity: &AgentIdentity) -> bool {
        let last = self.last_trigger(identity);
        self.stops(identity, last).any(|stop| stop.step == StopStep::Asked)
    }

    /// That the agent was told to stop.
    fn given_stops(&self, identity: &AgentIdentity, last: Option<&Trigger>) -> Vec<Told> {
        let given = self.stops(identity, last).filter(|stop| stop.step == StopStep::Given);
        let end = |stop: &StopFact| Told {
            evidence: EndEvidence::HookAnswer,
            status: AgentStatus::Stopped,
            order: stop.order,
            time: stop.time,
            report: None,
            error: None,
        };
        given.map(end).collect()
    }

    /// An agent that was told to stop ends as soon as its other calls are over. One that says its last word after that was
    /// not reached by the answer.
    fn forget_stops_in_vain(&self, told: &mut Vec<Told>, silence: Silence) {
        let is_stop = |end: &Told| end.evidence == EndEvidence::HookAnswer;
        let own_words = told.iter().filter(|end| end.evidence == EndEvidence::LastLine);
        if let Some(last) = own_words.map(|end| end.order.time).max() {
            told.retain(|end| !is_stop(end) || end.order.time >= last);
        }
        if silence.is_in_call && told.iter().all(is_stop) && self.why_lost(silence).is_none() {
            told.clear();
        }
    }

    /// Endings that sources told by the agent's id.
    fn told_endings(&self, identity: &AgentIdentity, last: Option<&Trigger>) -> Vec<Told> {
        let ids = self.ids(identity);
        let ends = ids.iter().filter_map(|id| self.facts.ends.get(*id)).flatten();
        let is_stopped = ids.iter().any(|id| self.hooks.stopped.contains(*id));
        ends.filter(|end| end.evidence != EndEvidence::StopHook || is_stopped)
            .filter(|end| self.is_of_last_stretch(end, last))
            .map(|end| Told {
                evidence: end.evidence,
                status: end.status,
                order: end.order,
                time: end.time,
                report: end.report.clone(),
                error: end.error.clone(),
            })
            .collect()
    }

    /// Whether an ending speaks of the agent's last stretch of activity.
    fn is_of_last_stretch(&self, end: &EndFact, last: Option<&Trigger>) -> bool {
        let Some(last) = last else { return true };
        let by_run = end.run_id.as_ref().and_then(|run| self.facts.run_ids.get(run));
        if let Some(call) = end.call.as_ref().or(by_run) {
            return *call == last.call;
        }
        // Where an ending stands in time is not always known (a notice in front of a stream's first line with a time).
        end.order.time == Millis::MIN
            || end.evidence == EndEvidence::StopHook
            || end.evidence == EndEvidence::Finished
            || end.order.time >= last.order.time
    }

    /// What the result of the spawn call says, if it still counts.
    fn spawn_result(&self, identity: &AgentIdentity, last: Option<&Trigger>) -> Option<Told> {
        let number = identity.origin?;
        let call = self.facts.calls.get(number as usize)?;
        if last.is_some() {
            return None;
        }
        let spawn = call.spawn.as_deref();
        let order = spawn.and_then(|spawn| spawn.result_order);
        let end = |status, report, error| {
            order.map(|order| Told {
                evidence: EndEvidence::SpawnResult,
                status,
                order,
                time: call_end(self, number, call).map(|end| end.1).unwrap_or_default(),
                report,
                error,
            })
        };
        let report = spawn.and_then(|spawn| value(&spawn.report));
        match spawn.and_then(|spawn| value(&spawn.finished)) {
            Some(true) => return end(AgentStatus::Completed, report, None),
            Some(false) => return None,
            None => {}
        }
        match call_end(self, number, call)?.0 {
            Outcome::Interrupted => end(AgentStatus::Stopped, None, None),
            Outcome::Error => end(AgentStatus::Failed, None, spawn.and_then(|spawn| value(&spawn.error))),
            Outcome::Ok if self.mode(identity) == Some(SpawnMode::Foreground) => {
                end(AgentStatus::Completed, report, None)
            }
            Outcome::Ok | Outcome::Denied | Outcome::Over => None,
        }
    }

    /// How the agent is run, as far as any source tells.
    pub(crate) fn mode(&self, identity: &AgentIdentity) -> Option<SpawnMode> {
        let modes = self.tellings(identity).flat_map(|agent| &agent.modes);
        let of_its_start = modes
            .filter(|(call, ..)| call.is_none() || identity.origin.is_none() || *call == identity.origin);
        // Who is moved to the background stays there: the later telling counts.
        let by_agent = of_its_start.max_by_key(|(_, order, mode)| (*order, *mode)).map(|(.., mode)| *mode);
        let spawn = identity
            .origin
            .and_then(|call| self.facts.calls.get(call as usize))
            .and_then(|call| call.spawn.as_ref());
        by_agent.or_else(|| spawn.and_then(|spawn| value(&spawn.mode)))
    }

    /// What the agent's own last line says.
    fn last_line(&self, identity: &AgentIdentity, last: Option<&Trigger>) -> Option<Told> {
        let (order, tail) = self.tail(identity)?;
        if last.is_some_and(|last| order.time < last.order.time) {
            return None;
        }
        let status = match tail {
            Tail::EndTurn => AgentStatus::Completed,
            Tail::ApiError => AgentStatus::Failed,
            Tail::Interrupted => AgentStatus::Stopped,
            Tail::TextOnly | Tail::Open => return None,
        };
        let error = if tail == Tail::ApiError { self.last_text(identity) } else { None };
        Some(Told { evidence: EndEvidence::LastLine, status, order, time: None, report: None, error })
    }

    /// The agent's last line in its own conversation, else in the stream.
    fn tail(&self, identity: &AgentIdentity) -> Option<(Order, Tail)> {
        let of = |slot: usize| self.tellings(identity).filter_map(move |agent| agent.tails[slot]).max();
        of(0).or_else(|| of(1))
    }

    fn ends_in_text(&self, identity: &AgentIdentity, last: Option<&Trigger>) -> bool {
        self.tail(identity).is_some_and(|(order, tail)| {
            tail == Tail::TextOnly && last.is_none_or(|last| order.time >= last.order.time)
        })
    }

    /// The agent's last words.
    pub(crate) fn last_text(&self, identity: &AgentIdentity) -> Option<Text> {
        let texts = self.tellings(identity).filter_map(|agent| agent.last_text.as_ref());
        let (_, _, json) = texts.max_by_key(|(order, offset, _)| (*order, *offset))?;
        let raw = subscope_model::Raw { json, offset: 0 };
        Some(raw.text().as_ref().into()).filter(|text: &Text| !text.is_empty())
    }

    /// Why nothing more will come, if that is so.
    pub(crate) fn why_lost(&self, silence: Silence) -> Option<String> {
        if self.now.has_ended {
            return Some("its pipe ended".to_owned());
        }
        if self.hooks.has_left {
            return Some("the session ended".to_owned());
        }
        let silent = |last: Millis| self.now.limits.awake.silence(last, self.now.at);
        match silence.last {
            Some(last) if silent(last) >= silence.lost_after_ms => {
                Some(format!("silent for {} min", silent(last) / 60_000))
            }
            Some(_) => None,
            // Nothing of it has a time: the session's last event, else the end of the file, is the evidence.
            None => match self.facts.span.latest() {
                Some(last) if silent(last) < silence.lost_after_ms => None,
                _ if self.now.is_growing => None,
                _ => Some("end of file".to_owned()),
            },
        }
    }

    /// Whether so much time has passed since an agent's text that a call would long be written behind it. Versions up to 2.1.50
    /// give many last lines no reason for their end.
    fn has_said_all(&self, silence: Silence) -> bool {
        let silent = |last: Millis| self.now.limits.awake.silence(last, self.now.at);
        silence.last.is_some_and(|last| silent(last) >= silence.said_after_ms)
    }

    /// Concludes how the root stands.
    pub(crate) fn root(&self, silence: Silence) -> Standing {
        let Some(root) = self.identities.all.first() else { return Standing::new(AgentStatus::Lost, None) };
        let mut told: Vec<(Order, u8, AgentStatus, &str)> = Vec::new();
        for turn in &self.facts.turns {
            if turn.kind != SourceKind::Hook {
                told.push((turn.order, 2, turn.status, "result"));
            }
        }
        let tail = self.tail(root);
        let latest = told.iter().map(|(order, ..)| order.time).max();
        match tail {
            Some((order, Tail::EndTurn)) => told.push((order, 1, AgentStatus::Completed, "last line")),
            Some((order, Tail::ApiError)) => told.push((order, 1, AgentStatus::Failed, "last line")),
            Some((order, Tail::Interrupted)) => told.push((order, 3, AgentStatus::Stopped, "last line")),
            Some((order, Tail::Open)) if latest.is_none_or(|latest| order.time > latest) => told.clear(),
            Some(_) | None => {}
        }
        if let Some((_, _, status, evidence)) =
            told.iter().max_by_key(|(order, class, ..)| (order.time, *class))
        {
            let mut standing = Standing::new(*status, Some(evidence));
            standing.error = self.last_text(root).filter(|_| *status == AgentStatus::Failed);
            return standing;
        }
        let is_told_otherwise = matches!(tail, Some((_, Tail::Open)));
        if let Some(status) = self.hooks.turn.filter(|_| !is_told_otherwise || silence.last.is_none()) {
            return Standing::new(status, Some("stop hook"));
        }
        let is_last_word = matches!(tail, Some((_, Tail::TextOnly)));
        match self.why_lost(silence) {
            why if is_last_word && (why.is_some() || self.has_said_all(silence)) => {
                Standing::new(AgentStatus::Completed, Some("last line is text"))
            }
            Some(why) if self.is_opened() && (self.now.has_ended || self.hooks.has_left) => {
                // A session that was opened and closed again has lost nothing.
                let is_cut = self.has_begun();
                let status = if is_cut { AgentStatus::Lost } else { AgentStatus::Completed };
                Standing::new(status, Some(&why))
            }
            // How long a person thinks about the next prompt says nothing.
            Some(_) if self.is_opened() && self.awaits_prompt() => Standing::new(AgentStatus::Running, None),
            Some(why) => Standing::new(AgentStatus::Lost, Some(&why)),
            None => Standing::new(AgentStatus::Running, None),
        }
    }

    /// Whether a person opened the session, as far as any source tells.
    fn is_opened(&self) -> bool {
        self.facts.is_opened || self.hooks.is_open || self.hooks.opened_at.is_some()
    }

    /// Whether anything tells that the root was ever at work. A stream has no prompts: whoever prints one was asked.
    fn has_begun(&self) -> bool {
        let root = self.identities.all.first().into_iter().flat_map(|root| self.tellings(root));
        let has_acted = root.fold(false, |acted, root| acted || root.acted.is_some() || root.retry.is_some());
        has_acted || self.hooks.has_turn || !self.facts.streams.is_empty() || !self.facts.turns.is_empty()
    }

    /// Whether the root, which runs, has nothing to do until the user's next prompt: it never had one, or a process opened
    /// the session anew after one that was cut off.
    pub(crate) fn awaits_prompt(&self) -> bool {
        let Some(root) = self.identities.all.first().filter(|_| self.has_begun()) else { return true };
        let acted = self.tellings(root).filter_map(|root| root.acted).map(|order| order.time).max();
        let is_before = |opened: Millis| acted.is_none_or(|acted| acted < opened);
        self.hooks.is_open && !self.hooks.is_in_turn && self.hooks.opened_at.is_some_and(is_before)
    }
}

/// Forgets an ending that the harness called interim, and what else told of the same moment. Returns when that was, if
/// nothing ended the agent since.
fn forget_interim(told: &mut Vec<Told>) -> Option<Millis> {
    let interim = told.iter().filter(|end| end.status == AgentStatus::Running).map(|end| end.order).max()?;
    told.retain(|end| end.status != AgentStatus::Running && end.order.time > interim.time);
    Some(interim.time).filter(|_| told.is_empty())
}

/// One ending with all that came with it.
struct Told {
    evidence: EndEvidence,
    status: AgentStatus,
    order: Order,
    time: Option<Millis>,
    report: Option<Text>,
    error: Option<Text>,
}

/// Whether what somebody tells of a call counts: the owner's own word, or that of somebody whom the wire does not name.
pub(crate) fn is_told_by_owner(derivation: &Derivation<'_>, number: u32, by: Option<u32>) -> bool {
    let owner = derivation.owners.calls.get(number as usize).copied().flatten().map(|(owner, _)| owner);
    match by.and_then(|by| derivation.identities.of(by)) {
        Some(teller) => owner.is_none_or(|owner| owner == teller),
        None => true,
    }
}

/// Returns how a call ended and when: by the source that tells most, and only as its owner's own wire tells it (a fork's
/// file holds a made-up result).
pub(crate) fn call_end(
    derivation: &Derivation<'_>,
    number: u32,
    call: &CallFacts,
) -> Option<(Outcome, Option<Millis>)> {
    let counted = || call.ends.iter().filter(|end| is_told_by_owner(derivation, number, end.by()));
    // A denial is told beside the error that the model gets to see.
    let denied = counted().find(|end| end.outcome == Outcome::Denied);
    let known = || {
        let times = counted().filter_map(|end| end.time.get().map(|time| (end.kind, time)));
        times.min().map(|(_, time)| time)
    };
    if let Some(denied) = denied {
        return Some((denied.outcome, known()));
    }
    let best = counted().min_by_key(|end| (end.outcome == Outcome::Over, end.kind, end.time))?;
    Some((best.outcome, best.time.get().or_else(known)))
}
