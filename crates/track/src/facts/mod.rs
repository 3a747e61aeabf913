//! Facts of one session as its sources reported them, joined per key. Nothing is derived here.
//!
//! Joins are commutative and idempotent across sources: of two reports of a value the better ranked one is kept
//! ([`Best`]), sets only grow, spans only widen. Within one source, order matters and is recorded ([`FactOrder`]).

mod agents;
mod best;
mod calls;
mod responses;
pub(crate) mod stored;
mod turns;

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};
use serde::{Deserialize, Serialize};
use subscope_model::{
    Checksum, Millis, Problem, ProcessActivity, ProcessExit, SessionId, Text, VendorUnit, WorkTree,
};

use self::stored::list;
pub(crate) use self::{
    agents::{
        AgentEndFact, AgentFacts, AgentKey, BatchClaim, LastLine, ParentClaim, RetryFact, StopFact, Trigger,
    },
    best::{
        ActivitySpan, Best, FactOrder, MaybeTime, best_value, join_owners, keep_least, push_new, update_best,
        update_best_text, widest,
    },
    calls::{CallBeginFact, CallEndFact, CallFacts, CallPayloads, ReportedPayloads, SpawnCallFacts},
    responses::{ResponseFacts, ResponseNote, ResponseTokens, call_key, line_key, response_key},
    turns::{HookStep, HookStepKind, PromptFact, RootLineFact, StreamFacts, TurnFact},
};

/// Index of an [`AgentFacts`]. Several may turn out to be the same agent; `identities` decides that.
pub(crate) type AgentRef = u32;
/// Index of a [`CallFacts`].
pub(crate) type CallIndex = u32;
/// Index of the root's facts.
pub(crate) const ROOT: AgentRef = 0;

/// All facts of one session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Facts {
    pub(crate) version: Option<Best<std::cmp::Reverse<Text>>>,
    pub(crate) cwd: Option<Best<Text>>,
    /// Work trees that the root may be in.
    pub(crate) work_trees: BTreeSet<WorkTree>,
    pub(crate) root_model: Option<Best<Text>>,
    /// The first prompt.
    pub(crate) title: Option<Best<Text>>,
    /// What the person asked with the first prompt that has more than that.
    pub(crate) asked_title: Option<Best<Text>>,
    /// The name that the person or the harness gave the session.
    pub(crate) given_title: Option<Best<Text>>,
    /// Bit set of the source kinds that report each agent's start immediately.
    pub(crate) start_reporting_kinds: u8,
    /// Whether any source is events that a program published about its own subagents.
    pub(crate) is_published: bool,
    /// Whether a transcript reports anything.
    pub(crate) has_transcript: bool,
    /// Set where the root's last text ends its turn if nothing follows soon: the longest time in milliseconds that a
    /// call after a text took.
    pub(crate) longest_behind_text: Option<i64>,
    /// Activity on lines that name no actor.
    pub(crate) unattributed: ActivitySpan,
    /// Whether the user gave a command to the harness itself: the session is interactive.
    pub(crate) has_local_command: bool,
    /// Whether the harness made requests of which no line has the tokens.
    pub(crate) has_uncounted: bool,
    pub(crate) span: ActivitySpan,
    pub(crate) agents: Vec<AgentFacts>,
    #[serde(skip)]
    pub(crate) by_id: HashMap<Text, AgentRef>,
    #[serde(skip)]
    pub(crate) by_call: HashMap<CallIndex, AgentRef>,
    /// Line id → the agent of its chain.
    #[serde(with = "list")]
    pub(crate) chains: HashMap<Text, AgentRef>,
    pub(crate) calls: Vec<CallFacts>,
    #[serde(skip)]
    pub(crate) call_by_id: HashMap<Text, CallIndex>,
    /// Calls without an id, by source and offset of the lines that report their begin or end.
    #[serde(with = "list")]
    pub(crate) call_by_place: HashMap<(u32, u64), CallIndex>,
    /// Open calls without an id, by digest of their arguments or by published run.
    #[serde(skip)]
    pub(crate) open_calls: HashMap<u64, Vec<CallIndex>>,
    pub(crate) responses: Vec<ResponseFacts>,
    #[serde(skip)]
    pub(crate) response_by_id: HashMap<(u64, u64), u32>,
    /// Keys of requests → keys of the messages that answer them.
    #[serde(with = "list")]
    pub(crate) answers: HashMap<(u64, u64), (u64, u64)>,
    /// Whether some responses are known by their requests only.
    pub(crate) has_unnamed_answers: bool,
    /// Names and endings of responses by key; recorded only with payloads.
    #[serde(skip)]
    pub(crate) response_notes: HashMap<(u64, u64), ResponseNote>,
    /// Source, line and response of the last line of one: the calls of the same line are its own.
    #[serde(skip)]
    pub(crate) last_response: Option<(u32, u64, (u64, u64))>,
    #[serde(with = "list")]
    pub(crate) ends: HashMap<Text, Vec<AgentEndFact>>,
    /// Stop orders by agent id, or by spawn call id if made before the agent's id was known.
    #[serde(with = "list")]
    pub(crate) stops: HashMap<Text, Vec<StopFact>>,
    #[serde(with = "list")]
    pub(crate) run_ids: HashMap<Text, Text>,
    #[serde(serialize_with = "stored::of_transcripts")]
    pub(crate) prompts: Vec<PromptFact>,
    #[serde(serialize_with = "stored::of_transcripts")]
    pub(crate) turns: Vec<TurnFact>,
    #[serde(serialize_with = "stored::of_transcripts")]
    pub(crate) root_lines: Vec<RootLineFact>,
    /// Progress of streams by source, to count runs.
    #[serde(skip)]
    pub(crate) streams: HashMap<u32, StreamFacts>,
    /// The call that started each run: of several agents, or of a published one.
    #[serde(with = "list")]
    pub(crate) started_runs: HashMap<Text, CallIndex>,
    pub(crate) checksums: Vec<Checksum>,
    /// Costs in units of the vendor, by the process that reports them: `None` for those of the whole session.
    #[serde(with = "list")]
    pub(crate) vendor_costs: HashMap<(VendorUnit, Option<Millis>), u64>,
    /// The latest end of the session's process that its parent has seen.
    pub(crate) process_end: Option<(Millis, ProcessExit)>,
    /// Since when the session's process is gone.
    pub(crate) process_gone: Option<Millis>,
    /// What the note of the session's process said last: since when, when it was read, and what the process does.
    pub(crate) process_activity: Option<(Millis, Millis, ProcessActivity)>,
    #[serde(skip)]
    pub(crate) hooks: Vec<HookStep>,
    pub(crate) has_identity: bool,
    /// Whether a source reports each question to the person.
    pub(crate) reports_questions: bool,
    #[serde(skip)]
    pub(crate) interned: HashSet<Text>,
    /// Last interned text and last agent looked up: consecutive lines repeat them.
    #[serde(skip)]
    pub(crate) last_interned: Option<Text>,
    #[serde(skip)]
    pub(crate) last_agent: Option<(Text, AgentRef)>,
    pub(crate) problems: Vec<Problem>,
}

impl Facts {
    /// Records a cost in a unit of the vendor: of two reports of the same total, the greater one.
    pub(crate) fn add_vendor_cost(&mut self, of: (VendorUnit, Option<Millis>), amount_micro: u64) {
        let known = self.vendor_costs.entry(of).or_default();
        *known = amount_micro.max(*known);
    }

    /// No facts of a session. Its own id names its root: no agent is below itself.
    pub(crate) fn of(session: &SessionId) -> Self {
        let root = (Text::from(session.as_str()), ROOT);
        Self { agents: vec![AgentFacts::default()], by_id: [root].into_iter().collect(), ..Self::default() }
    }

    /// Returns an agent's facts. References are never invalid: facts are only added.
    pub(crate) fn agent(&self, agent: AgentRef) -> &AgentFacts {
        &self.agents[agent as usize]
    }

    /// Returns an agent's facts.
    pub(crate) fn agent_mut(&mut self, agent: AgentRef) -> &mut AgentFacts {
        &mut self.agents[agent as usize]
    }

    /// Returns a call's facts. Indices are never invalid: facts are only added.
    pub(crate) fn call(&self, call: CallIndex) -> &CallFacts {
        &self.calls[call as usize]
    }

    /// Returns a call's facts.
    pub(crate) fn call_mut(&mut self, call: CallIndex) -> &mut CallFacts {
        &mut self.calls[call as usize]
    }

    /// Returns the calls with their indices.
    pub(crate) fn numbered_calls(&self) -> impl Iterator<Item = (CallIndex, &CallFacts)> {
        (0..).zip(&self.calls)
    }

    /// Returns the hook steps of sources that report each event once.
    pub(crate) fn reported_steps(&self) -> impl Iterator<Item = &HookStep> {
        self.hooks.iter().filter(|step| !step.is_transcribed)
    }

    /// Returns the hook steps in their order.
    pub(crate) fn sorted_hooks(&self) -> Vec<&HookStep> {
        let mut steps: Vec<&HookStep> = self.hooks.iter().collect();
        steps.sort_by_key(|step| (step.source, step.offset));
        steps
    }

    /// Returns the shared copy of a text that repeats (tool names, models).
    pub(crate) fn intern(&mut self, text: &str) -> Text {
        if let Some(last) = self.last_interned.as_ref().filter(|last| &***last == text) {
            return last.clone();
        }
        let interned = match self.interned.get(text) {
            Some(known) => known.clone(),
            None => {
                let interned: Text = text.into();
                self.interned.insert(interned.clone());
                interned
            }
        };
        self.last_interned = Some(interned.clone());
        interned
    }

    /// Returns the facts recorded under an agent id, adding them if new. Does not prove that the agent exists.
    pub(crate) fn agent_by_id(&mut self, id: &str) -> AgentRef {
        if let Some((_, agent)) = self.last_agent.as_ref().filter(|(last, _)| &**last == id) {
            return *agent;
        }
        let (id, agent) = match self.by_id.get_key_value(id) {
            Some((id, known)) => (id.clone(), *known),
            None => {
                let id: Text = id.into();
                let made = self.agents.len() as AgentRef;
                self.agents.push(AgentFacts::new(AgentKey::Id(id.clone())));
                self.by_id.insert(id.clone(), made);
                (id, made)
            }
        };
        self.last_agent = Some((id, agent));
        agent
    }

    /// Returns the facts of the agent that a call starts, adding them if new.
    pub(crate) fn agent_by_call(&mut self, call: CallIndex) -> AgentRef {
        let made = self.agents.len() as AgentRef;
        let agent = *self.by_call.entry(call).or_insert(made);
        if agent == made {
            self.agents.push(AgentFacts::new(AgentKey::Call(call)));
        }
        agent
    }

    /// Returns the facts of the agent whose chain of lines contains this line, adding them if new.
    pub(crate) fn agent_by_chain(&mut self, line: &str, parent: Option<&str>) -> AgentRef {
        if let Some(known) = self.chains.get(line) {
            return *known;
        }
        let agent = match parent.and_then(|parent| self.chains.get(parent)) {
            Some(known) => *known,
            None => {
                self.agents.push(AgentFacts::new(AgentKey::Chain));
                (self.agents.len() - 1) as AgentRef
            }
        };
        self.chains.insert(line.into(), agent);
        agent
    }

    /// Returns the response of this key, adding it if new, and whether it was.
    pub(crate) fn response_index(&mut self, key: (u64, u64)) -> (usize, bool) {
        let made = self.responses.len();
        let number = *self.response_by_id.entry(key).or_insert(made as u32) as usize;
        if number == made {
            self.responses.push(ResponseFacts { key, only_streamed: true, ..ResponseFacts::default() });
        }
        (number, number == made)
    }

    /// Records which message answers a request: what is known by the request is joined into the message's response.
    pub(crate) fn name_answer(&mut self, request: (u64, u64), message: (u64, u64)) {
        self.answers.insert(request, message);
        if request == message {
            return;
        }
        let Some(number) = self.response_by_id.remove(&request) else { return };
        let merged = ResponseFacts { key: request, is_merged: true, ..ResponseFacts::default() };
        let known = std::mem::replace(&mut self.responses[number as usize], merged);
        let (number, _) = self.response_index(message);
        crate::join::join_response(&mut self.responses[number], known);
        if let Some(note) = self.response_notes.remove(&request) {
            self.response_notes.entry(message).or_insert_with(|| note.clone()).join(&note);
        }
    }

    /// Returns the response of a message or, where only that is known, of a request.
    pub(crate) fn response_named(&self, id: &str) -> Option<usize> {
        let key = response_key(id);
        let key = self.answers.get(&key).unwrap_or(&key);
        self.response_by_id.get(key).map(|number| *number as usize)
    }

    /// Whether a call is counted. A call without an id repeats one with an id if any source of the session has call
    /// ids; not one that only published events report.
    pub(crate) fn is_counted(&self, call: &CallFacts) -> bool {
        call.id.is_some() || self.call_by_id.is_empty() || call.is_published()
    }

    /// Adds the call that started a run. Of several, that of the least id counts: their order must not matter.
    pub(crate) fn add_started_run(&mut self, run: Text, call: CallIndex) {
        let known = self.started_runs.get(&run).map(|known| &self.call(*known).id);
        if known.is_none_or(|known| self.call(call).id < *known) {
            self.started_runs.insert(run, call);
        }
    }

    /// Returns the call with this id, adding it if new.
    pub(crate) fn call_index(&mut self, id: &str) -> CallIndex {
        if let Some(known) = self.call_by_id.get(id) {
            return *known;
        }
        let id: Text = id.into();
        let made = self.calls.len() as CallIndex;
        self.calls.push(CallFacts { id: Some(id.clone()), ..CallFacts::default() });
        self.call_by_id.insert(id, made);
        made
    }
}
