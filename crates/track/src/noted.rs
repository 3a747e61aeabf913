//! What the note of the session's process says: that nobody waits for the person, or that somebody does.
//!
//! The note is of the process and names no agent. A wait is that of the only agent with an open call that may ask, else
//! that of the root. A question that a hook or a call reports is not asked twice; it is over once the process has gone
//! on since.

use subscope_model::{AgentStatus, LivenessKind, Millis, ProcessActivity, Text, ToolClass};

use crate::{
    drafts::RowDraft,
    facts::CallFacts,
    identities::AgentIndex,
    status::{Derivation, DerivedState},
};

/// Most milliseconds by which a call may seem to begin after the dialog that asks for it: hooks are stamped when they
/// are received.
const CALL_DELAY_MS: Millis = 1_000;

/// What the session's process does, by its note.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessNote {
    pub(crate) activity: ProcessActivity,
    pub(crate) since: Millis,
    /// When the note was read.
    pub(crate) seen_at: Millis,
}

/// A wait for the person that only the note reports.
#[derive(Clone, Debug)]
pub(crate) struct NotedWait {
    pub(crate) agent: AgentIndex,
    pub(crate) kind: LivenessKind,
    /// The tool, if one call alone may ask.
    pub(crate) tool: Option<Text>,
    pub(crate) since: Millis,
}

impl Derivation<'_> {
    /// Returns what the note of the session's process says; `None` without one, or if the process has ended or begun
    /// another session since.
    pub(crate) fn process_note(&self) -> Option<ProcessNote> {
        let (since, seen_at, activity) = self.facts.process_activity?;
        let ended_at = self.facts.process_end.map(|(at, _)| at).max(self.facts.process_gone);
        let has_ended = self.now.has_ended || ended_at.is_some_and(|ended| ended >= seen_at);
        let has_left = self.hooks.has_left || activity == ProcessActivity::Elsewhere;
        (!has_ended && !has_left).then_some(ProcessNote { activity, since, seen_at })
    }

    /// Whether the process has gone on since a question of that time: the person has answered it.
    pub(crate) fn is_answered(&self, asked_at: Option<Millis>) -> bool {
        let gone_on = self.process_note().filter(|note| note.activity.wait().is_none());
        gone_on.zip(asked_at).is_some_and(|(note, asked_at)| note.since > asked_at)
    }

    /// Returns since when the process waits for the person's next prompt.
    pub(crate) fn noted_idle(&self) -> Option<Millis> {
        let note = self.process_note()?;
        (note.activity == ProcessActivity::Idle).then_some(note.since)
    }

    /// Whether silence may mean that the person is asked: no source reports questions.
    pub(crate) fn may_infer_question(&self) -> bool {
        !self.facts.reports_questions && self.process_note().is_none()
    }

    /// Returns the wait that the note reports, unless a hook or a call reports one.
    pub(crate) fn noted_wait(&self, drafts: &[RowDraft]) -> Option<NotedWait> {
        let note = self.process_note()?;
        let kind = note.activity.wait().filter(|_| self.open_questions().is_empty())?;
        let mut asking: Vec<(AgentIndex, &CallFacts)> = Vec::new();
        for (agent, draft) in drafts.iter().enumerate().filter(|(_, draft)| draft.state.status.is_live()) {
            for call in draft.calls.iter().filter(|call| self.is_open(**call)) {
                let call = self.facts.call(*call);
                let is_before = call.begun_at().is_none_or(|begun| begun <= note.since + CALL_DELAY_MS);
                if call.class.person_wait().is_some() && is_before {
                    return None;
                }
                if call.class != ToolClass::Spawn && is_before {
                    asking.push((agent, call));
                }
            }
        }
        let (agent, tool) = match asking.as_slice() {
            [] => {
                let acted = self.last_act(0).is_some_and(|acted| acted.time > note.since);
                (!acted).then_some((0, None))?
            }
            [(agent, call)] => (*agent, call.name.clone()),
            [(agent, _), rest @ ..] if rest.iter().all(|(other, _)| other == agent) => (*agent, None),
            [_, ..] => (0, None),
        };
        Some(NotedWait { agent, kind, tool, since: note.since })
    }

    /// Sets that the root is at work if a wait is its own: the process asks the person.
    pub(crate) fn open_waiting_root(&self, wait: Option<&NotedWait>, drafts: &mut [RowDraft]) {
        // One that is lost was silent for too long after the note was read.
        let is_between_prompts = |status: AgentStatus| !status.is_live() && status != AgentStatus::Lost;
        let root = drafts.first_mut().filter(|root| is_between_prompts(root.state.status));
        if let Some(root) = root.filter(|_| wait.is_some_and(|wait| wait.agent == 0)) {
            root.state = DerivedState::new(AgentStatus::Running, None);
        }
    }
}

#[cfg(test)]
mod tests;
