//! Facts of one session as its sources reported them, joined per key. Nothing is derived here.
//!
//! Joins are commutative and idempotent across sources: of two reports of a value the better ranked one is kept
//! ([`Best`]), sets only grow, spans only widen. Within one source, order matters and is recorded ([`FactOrder`]).

mod best;
mod calls;

use std::hash::BuildHasher;

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;
use subscope_model::{
    AgentStatus, Basis, Checksum, EndEvidence, MicroUsd, Millis, Problem, ProcessExit, SourceKind, SpawnMode,
    StopStep, Text, Usage,
};

pub(crate) use self::{
    best::{
        ActivitySpan, Best, FactOrder, MaybeTime, best_value, join_owners, keep_least, push_new, update_best,
        update_best_text, widest,
    },
    calls::{CallBeginFact, CallEndFact, CallFacts, CallPayloads, ReportedPayloads, SpawnCallFacts},
};

/// Index of an [`AgentFacts`]. Several may turn out to be the same agent; `identities` decides that.
pub(crate) type AgentRef = u32;
/// Index of a [`CallFacts`].
pub(crate) type CallIndex = u32;
/// Index of the root's facts.
pub(crate) const ROOT: AgentRef = 0;

/// Kind of an agent's last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LastLine {
    /// The response's turn ended.
    EndTurn,
    /// The API failed.
    ApiError,
    /// The request was interrupted.
    Interrupted,
    /// Text without a call and without a reason for the end.
    TextOnly,
    /// Anything else: the agent is still at work.
    Open,
}

/// Key under which an agent was first recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum AgentKey {
    /// The root agent.
    #[default]
    Root,
    /// The harness's id.
    Id(Text),
    /// The call that started it.
    Call(CallIndex),
    /// The first line of its chain.
    Chain,
}

/// End of an agent as reported by one source.
#[derive(Clone, Debug)]
pub(crate) struct AgentEndFact {
    pub(crate) evidence: EndEvidence,
    pub(crate) status: AgentStatus,
    pub(crate) order: FactOrder,
    pub(crate) call: Option<Text>,
    pub(crate) run_id: Option<Text>,
    pub(crate) time: Option<Millis>,
    pub(crate) report: Option<Text>,
    pub(crate) error: Option<Text>,
    /// Agent type in a stop hook's payload; empty for ghosts (see `identities::is_ghost`).
    pub(crate) stop_type: Option<Text>,
}

impl AgentEndFact {
    /// Returns an end of which nothing else is known.
    pub(crate) fn new(evidence: EndEvidence, status: AgentStatus, order: FactOrder) -> Self {
        let (call, run_id, time, report, error, stop_type) = (None, None, None, None, None, None);
        Self { evidence, status, order, call, run_id, time, report, error, stop_type }
    }
}

/// A user's order to stop an agent, or its delivery to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StopFact {
    pub(crate) step: StopStep,
    pub(crate) order: FactOrder,
    pub(crate) time: Option<Millis>,
    /// The tool call that was refused to deliver the order.
    pub(crate) call: Option<CallIndex>,
}

/// A tool call that started or resumed an agent: it opens an interval of activity.
#[derive(Clone, Debug)]
pub(crate) struct Trigger {
    pub(crate) call: Text,
    pub(crate) order: FactOrder,
    pub(crate) time: Option<Millis>,
}

/// The latest reported API retry of an agent.
#[derive(Clone, Debug)]
pub(crate) struct RetryFact {
    pub(crate) order: FactOrder,
    pub(crate) time: Option<Millis>,
    pub(crate) attempt: u32,
    pub(crate) limit: u32,
    pub(crate) error: Text,
}

/// Parent of an agent as named by a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParentClaim {
    Root,
    Agent(Text),
}

/// What started an agent together with others, for example a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BatchClaim {
    Call(CallIndex),
    Run(Text),
}

/// Facts about an agent recorded under one [`AgentKey`].
#[derive(Debug, Default)]
pub(crate) struct AgentFacts {
    pub(crate) key: AgentKey,
    /// Whether a source proves that the agent exists, not only mentions it.
    pub(crate) is_proven: bool,
    /// Time of the latest reported start.
    pub(crate) last_started: Option<Millis>,
    pub(crate) agent_type: Option<Best<Text>>,
    pub(crate) description: Option<Best<Text>>,
    pub(crate) name: Option<Best<Text>>,
    pub(crate) model: Option<Best<Text>>,
    pub(crate) prompt: Option<Best<Text>>,
    /// Whether a source says that all of its data is a copy from another session.
    pub(crate) is_copy: bool,
    pub(crate) parent: Option<ParentClaim>,
    /// Calls reported to have started it, with whether that is certain.
    pub(crate) origins: SmallVec<[(CallIndex, bool); 1]>,
    pub(crate) triggers: Vec<Trigger>,
    /// Spawn modes, each with the call it was reported for: a call that resumes the agent does not change how it was
    /// started.
    pub(crate) modes: Vec<(Option<CallIndex>, FactOrder, SpawnMode)>,
    pub(crate) detached: bool,
    /// Whether its id was made up by its source.
    pub(crate) has_stand_in_id: bool,
    /// When a hub last received an event that the agent published.
    pub(crate) heard: Option<Millis>,
    /// Whether the harness itself started it as a warm-up.
    pub(crate) is_warmup: bool,
    pub(crate) batch: Option<BatchClaim>,
    pub(crate) span: ActivitySpan,
    /// First and last time at which a hook that reports its end or its prompt came: of some agents nothing else has a
    /// time.
    pub(crate) hook_times: Option<(Millis, Millis)>,
    /// Times of prompts that others sent to the agent, and of published starts and ends: bounds of its intervals.
    pub(crate) moments: Vec<Millis>,
    /// Times of its turns and tasks by its own lines: one after an end begins another turn.
    pub(crate) task_times: Vec<Millis>,
    /// The last line in transcripts (0) and in streams (1), and the last OpenTelemetry records: of the end of a turn
    /// (2), of text (3), of anything else (4).
    pub(crate) last_lines: [Option<(FactOrder, LastLine)>; 5],
    pub(crate) last_text: Option<(FactOrder, u64, String)>,
    pub(crate) retry: Option<RetryFact>,
    /// Tokens by kind ([`Usage::kinds`]) and cost as a whole; counted where no response of the agent is known.
    pub(crate) totals: Option<([u64; 4], Option<MicroUsd>)>,
    /// Order of the latest observation attributed to the agent.
    pub(crate) last_seen: Option<FactOrder>,
    /// Order of the agent's latest own action. Heartbeats, progress and retry notices are not actions.
    pub(crate) last_acted: Option<FactOrder>,
}

impl AgentFacts {
    fn new(key: AgentKey) -> Self {
        Self { key, ..Self::default() }
    }

    /// Adds what started the agent together with others; a call is better than a run.
    pub(crate) fn add_batch(&mut self, batch: Option<BatchClaim>) {
        if matches!((&self.batch, &batch), (None, _) | (Some(BatchClaim::Run(_)), Some(BatchClaim::Call(_))))
        {
            self.batch = batch;
        }
    }

    /// Adds a call that is reported to have started the agent.
    pub(crate) fn add_origin(&mut self, call: CallIndex, is_certain: bool) {
        match self.origins.iter_mut().find(|(known, _)| *known == call) {
            Some((_, certain)) => *certain |= is_certain,
            None => self.origins.push((call, is_certain)),
        }
    }

    /// Adds a call that started or resumed the agent; of several reports the earliest counts.
    pub(crate) fn add_trigger(&mut self, trigger: Trigger) {
        match self.triggers.iter_mut().find(|known| known.call == trigger.call) {
            Some(known) => {
                known.order = known.order.min(trigger.order);
                keep_least(&mut known.time, trigger.time);
            }
            None => self.triggers.push(trigger),
        }
    }
}

/// Facts about an API response.
#[derive(Debug, Default)]
pub(crate) struct ResponseFacts {
    /// Key in [`Facts::response_by_id`].
    pub(crate) key: (u64, u64),
    pub(crate) owners: SmallVec<[(AgentRef, Basis); 1]>,
    pub(crate) model: Option<(Millis, Text)>,
    pub(crate) usage: Option<ResponseTokens>,
    /// Its cost in picodollars, where a source reports it.
    pub(crate) cost_pico_usd: Option<u64>,
    /// Whether the price list says nothing of it.
    pub(crate) is_unpriced: bool,
    pub(crate) is_final: bool,
    pub(crate) only_streamed: bool,
    pub(crate) synthetic: bool,
    /// Whether it was joined into the one that is known by its message, and is nothing any more.
    pub(crate) is_merged: bool,
    pub(crate) times: Option<(Millis, Millis)>,
    /// Hash and length in characters of each line's content; kept only until the final line is seen.
    #[expect(clippy::box_collection, reason = "rarely set, and a session has very many responses")]
    pub(crate) content: Option<Box<Vec<(u64, u32)>>>,
}

/// Name of a response, and how it ended.
#[derive(Clone, Debug)]
pub(crate) struct ResponseNote {
    pub(crate) id: Text,
    pub(crate) ends_turn: bool,
    pub(crate) has_call: bool,
    /// Order of its first line.
    pub(crate) order: FactOrder,
    /// Ids of the calls in its lines, each once, sorted.
    pub(crate) calls: Vec<Text>,
}

impl ResponseNote {
    /// Joins another report of the same response.
    pub(crate) fn join(&mut self, other: &Self) {
        self.ends_turn |= other.ends_turn;
        self.has_call |= other.has_call;
        self.order = self.order.min(other.order);
        other.calls.iter().for_each(|call| self.add_call(call));
    }
}

impl ResponseNote {
    /// Adds a call that one of its lines has.
    pub(crate) fn add_call(&mut self, call: &Text) {
        if let Err(place) = self.calls.binary_search(call) {
            self.calls.insert(place, call.clone());
        }
    }
}

/// Token counts of one response, saturating at `u32::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ResponseTokens {
    output: u32,
    input: u32,
    cache_read: u32,
    cache_write: u32,
    pub(crate) cache_write_1h: u32,
    /// Whether the source itself reports a lower bound.
    is_floor: bool,
}

impl ResponseTokens {
    pub(crate) fn new(usage: &Usage, cache_write_1h: u64) -> Self {
        let cut = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            output: cut(usage.output_tokens),
            input: cut(usage.input_tokens),
            cache_read: cut(usage.cache_read_tokens),
            cache_write: cut(usage.cache_write_tokens),
            cache_write_1h: cut(cache_write_1h),
            is_floor: usage.floor,
        }
    }

    pub(crate) fn usage(&self) -> Usage {
        let [input, output, read, write] =
            [self.input, self.output, self.cache_read, self.cache_write].map(u64::from);
        Usage { floor: self.is_floor, ..Usage::new(input, output, read, write) }
    }
}

/// Returns the key of a response: two 64-bit hashes of its id, which is compared and never shown. 128 bits do not
/// collide by chance; a deliberate collision only falsifies that session's own counts.
pub(crate) fn response_key(id: &str) -> (u64, u64) {
    (hash_id(1, id), hash_id(2, id))
}

/// Returns the key of a call in [`subscope_model::SessionKeys`]. Its seed differs from that of response keys, which
/// share the set.
pub(crate) fn call_key(id: &str) -> u64 {
    hash_id(3, id)
}

/// Hashes an id. Stores keep these hashes, so a change here must raise `subscope_session::REVISION`.
fn hash_id(seed: u64, id: &str) -> u64 {
    foldhash::quality::FixedState::with_seed(seed).hash_one(id)
}

/// A prompt of the user.
#[derive(Clone, Debug)]
pub(crate) struct PromptFact {
    pub(crate) kind: SourceKind,
    pub(crate) source: u32,
    pub(crate) id: Option<Text>,
    /// Hash of the text, the same in every process.
    pub(crate) hash: u64,
    pub(crate) time: Option<Millis>,
    pub(crate) order: FactOrder,
    pub(crate) line_id: Option<Text>,
}

impl PromptFact {
    /// Whether its source left the text out.
    pub(crate) fn is_redacted(&self) -> bool {
        self.hash == subscope_model::stable_hash("")
    }
}

/// End of a turn of the root, as the harness reports it.
#[derive(Clone, Debug)]
pub(crate) struct TurnFact {
    pub(crate) kind: SourceKind,
    pub(crate) source: u32,
    pub(crate) status: AgentStatus,
    pub(crate) time: Option<Millis>,
    pub(crate) order: FactOrder,
    pub(crate) counts_run: bool,
    pub(crate) line_id: Option<Text>,
}

/// A line of the root that ended its turn, unless the root went on.
#[derive(Clone, Debug)]
pub(crate) struct RootLineFact {
    pub(crate) source: u32,
    pub(crate) last_line: LastLine,
    pub(crate) time: Option<Millis>,
    pub(crate) order: FactOrder,
}

/// Root activity and results of one stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamFacts {
    /// Ids of lines with root activity; a repeated line is not new activity.
    pub(crate) active_lines: hashbrown::HashSet<Text>,
    /// Offset of the latest root activity.
    pub(crate) last_activity: Option<u64>,
    /// Offset of the latest result.
    pub(crate) last_result: Option<u64>,
    /// Offset and time of the first root activity, and of the first after each result.
    pub(crate) begins: Vec<(u64, Option<Millis>)>,
}

/// One entry of a hook log. Hooks have no timestamps, so their order is that of `source` and `offset`.
#[derive(Clone, Debug)]
pub(crate) struct HookStep {
    pub(crate) source: u32,
    pub(crate) offset: u64,
    pub(crate) line: u64,
    pub(crate) kind: HookStepKind,
}

/// Kind of a [`HookStep`]. `named` is the agent that the payload names.
#[derive(Clone, Debug)]
pub(crate) enum HookStepKind {
    Prompt {
        is_user: bool,
    },
    Start {
        agent: Text,
    },
    Stop {
        agent: Text,
    },
    /// A call began.
    Pre {
        call: CallIndex,
        named: Option<AgentRef>,
        digest: u64,
    },
    /// A call ended; `launched` if it started a background agent.
    Post {
        call: CallIndex,
        named: Option<AgentRef>,
        launched: bool,
    },
    Permission {
        named: Option<AgentRef>,
        name: Text,
        digest: u64,
        time: Option<Millis>,
    },
    TurnEnd {
        status: AgentStatus,
    },
    /// A process of the harness opened the session.
    SessionStart {
        time: Option<Millis>,
        reason: Option<Text>,
    },
    /// The harness waits for the user's next prompt.
    AwaitsPrompt,
    SessionEnd,
}

/// All facts of one session.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) version: Option<Best<std::cmp::Reverse<Text>>>,
    pub(crate) cwd: Option<Best<Text>>,
    pub(crate) root_model: Option<Best<Text>>,
    pub(crate) title: Option<Best<Text>>,
    /// Bit set of the source kinds that report each agent's start immediately.
    pub(crate) start_reporting_kinds: u8,
    /// Whether any source is events that a program published about its own subagents.
    pub(crate) is_published: bool,
    /// Whether a transcript reports anything.
    pub(crate) has_transcript: bool,
    /// Set where the root's last text ends its turn if nothing follows soon: the longest time in milliseconds that a call
    /// behind a text took.
    pub(crate) longest_behind_text: Option<i64>,
    /// Activity on lines that name no actor.
    pub(crate) unattributed: ActivitySpan,
    /// Whether the user gave a command to the harness itself: the session is interactive.
    pub(crate) has_local_command: bool,
    pub(crate) span: ActivitySpan,
    pub(crate) agents: Vec<AgentFacts>,
    pub(crate) by_id: HashMap<Text, AgentRef>,
    pub(crate) by_call: HashMap<CallIndex, AgentRef>,
    /// Line id → the agent of its chain.
    pub(crate) chains: HashMap<Text, AgentRef>,
    pub(crate) calls: Vec<CallFacts>,
    pub(crate) call_by_id: HashMap<Text, CallIndex>,
    /// Calls without an id, by source and offset of the lines that report their begin or end.
    pub(crate) call_by_place: HashMap<(u32, u64), CallIndex>,
    /// Open calls without an id, by digest of their arguments.
    pub(crate) open_calls_by_digest: HashMap<u64, Vec<CallIndex>>,
    pub(crate) responses: Vec<ResponseFacts>,
    pub(crate) response_by_id: HashMap<(u64, u64), u32>,
    /// Keys of requests → keys of the messages that answer them.
    pub(crate) answers: HashMap<(u64, u64), (u64, u64)>,
    /// Whether some responses are known by their requests only.
    pub(crate) has_unnamed_answers: bool,
    /// Names and endings of responses by key; recorded only with payloads.
    pub(crate) response_notes: HashMap<(u64, u64), ResponseNote>,
    /// Source, line and response of the last line of one: the calls of the same line are its own.
    pub(crate) last_response: Option<(u32, u64, (u64, u64))>,
    pub(crate) ends: HashMap<Text, Vec<AgentEndFact>>,
    /// Stop orders by agent id, or by spawn call id if made before the agent's id was known.
    pub(crate) stops: HashMap<Text, Vec<StopFact>>,
    pub(crate) run_ids: HashMap<Text, Text>,
    pub(crate) prompts: Vec<PromptFact>,
    pub(crate) turns: Vec<TurnFact>,
    pub(crate) root_lines: Vec<RootLineFact>,
    /// Progress of streams by source, to count runs.
    pub(crate) streams: HashMap<u32, StreamFacts>,
    /// The call that started each run: of several agents, or of a published one.
    pub(crate) started_runs: HashMap<Text, CallIndex>,
    pub(crate) checksums: Vec<Checksum>,
    /// The latest end of the session's process that its parent has seen.
    pub(crate) process_end: Option<(Millis, ProcessExit)>,
    /// Since when the session's process is gone.
    pub(crate) process_gone: Option<Millis>,
    pub(crate) hooks: Vec<HookStep>,
    pub(crate) has_identity: bool,
    pub(crate) interned: HashSet<Text>,
    /// Last interned text and last agent looked up: consecutive lines repeat them.
    pub(crate) last_interned: Option<Text>,
    pub(crate) last_agent: Option<(Text, AgentRef)>,
    pub(crate) problems: Vec<Problem>,
}

impl Facts {
    pub(crate) fn new() -> Self {
        Self { agents: vec![AgentFacts::default()], ..Self::default() }
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
    /// ids.
    pub(crate) fn is_counted(&self, call: &CallFacts) -> bool {
        call.id.is_some() || self.call_by_id.is_empty()
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
