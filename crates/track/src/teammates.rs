//! Teammates: agents that wait for messages after each turn, until they are shut down. Reports of their ends name them by
//! their names (`@NAME`), or all at once (`@`).

use subscope_model::{AgentStatus, EndEvidence, Millis, Text};

use crate::{
    facts::{AgentEndFact, best_value},
    identities::AgentIdentity,
    status::{Derivation, DerivedState, Silence},
};

impl Derivation<'_> {
    /// Whether a source reports that an agent is a teammate.
    pub(crate) fn is_teammate(&self, identity: &AgentIdentity) -> bool {
        let by_call = self.spawn_call(identity).and_then(|call| call.spawn.as_deref());
        by_call.is_some_and(|spawn| spawn.is_teammate)
            || self.facts_of(identity).any(|agent| agent.is_teammate)
    }

    /// Returns the ends that sources report under a teammate's name: those after its start, and before that of a later one
    /// of the name.
    pub(crate) fn teammate_endings(&self, identity: &AgentIdentity) -> Vec<AgentEndFact> {
        let Some(name) = self.name_of(identity).filter(|_| !identity.id.is_root()) else { return Vec::new() };
        let mut ends: Vec<AgentEndFact> =
            self.facts.ends.get(format!("@{name}").as_str()).cloned().unwrap_or_default();
        if self.is_teammate(identity) {
            ends.extend(self.facts.ends.get("@").into_iter().flatten().cloned());
        }
        if ends.is_empty() {
            return ends;
        }
        let begun = self.begun_at(identity);
        let is_namesake = |other: &&AgentIdentity| self.name_of(other).as_ref() == Some(&name);
        let others = self.identities.all.iter().filter(is_namesake).filter_map(|other| self.begun_at(other));
        let next = others.filter(|other| Some(*other) > begun).min();
        ends.retain(|end| {
            let time = end.order.time;
            begun.is_none_or(|begun| begun <= time) && next.is_none_or(|next| time < next)
        });
        ends
    }

    /// Returns the state of a teammate of which a turn has ended with `end`, if it still waits for messages: nothing has
    /// shut it down, and its session goes on.
    pub(crate) fn idle_teammate(&self, end: Option<&AgentEndFact>, silence: Silence) -> Option<DerivedState> {
        let end = end.filter(|end| end.status == AgentStatus::Completed)?;
        let is_turn_end = match end.evidence {
            EndEvidence::SpawnResult
            | EndEvidence::LastLine
            | EndEvidence::StopHook
            | EndEvidence::IdleNotice
            | EndEvidence::OtelRecord => true,
            EndEvidence::HookAnswer
            | EndEvidence::Notification
            | EndEvidence::Interruption
            | EndEvidence::Published
            | EndEvidence::StopCall
            | EndEvidence::Finished
            | EndEvidence::Lost => false,
        };
        if !is_turn_end || self.is_session_over(silence) {
            return None;
        }
        let since = end.time.or(Some(end.order.time).filter(|time| *time > Millis::MIN)).or(silence.last);
        Some(DerivedState { idle_since: since, ..DerivedState::new(AgentStatus::Running, None) })
    }

    /// Whether nothing of the session will follow: its process has ended, or no source has reported anything for long.
    fn is_session_over(&self, silence: Silence) -> bool {
        if self.process_end().is_some() || self.now.has_ended || self.hooks.has_left {
            return true;
        }
        let silent = |last: Millis| self.now.limits.awake.silence(last, self.now.at);
        let is_silent = match self.facts.span.latest() {
            Some(last) => silent(last) >= silence.lost_after_ms,
            None => !self.now.is_growing,
        };
        is_silent && !self.is_reported_open()
    }

    fn name_of(&self, identity: &AgentIdentity) -> Option<Text> {
        let own = self.facts_of(identity).find_map(|agent| best_value(&agent.name));
        let call = self.spawn_call(identity).and_then(|call| call.spawn.as_deref());
        own.or_else(|| call.and_then(|spawn| best_value(&spawn.name)))
    }

    fn begun_at(&self, identity: &AgentIdentity) -> Option<Millis> {
        let asked = self.spawn_call(identity).and_then(|call| call.begun_at());
        asked.or_else(|| self.span(identity).get().map(|(first, _)| first))
    }
}
