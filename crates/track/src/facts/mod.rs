//! What sources said, joined per key. Nothing here is concluded; `derive` does that.
//!
//! Every join is commutative and idempotent between sources: of two tellings the better one stays (a [`Best`] rank),
//! sets only grow, spans only widen. Within one source order counts, and is kept as a place.

mod best;
mod calls;

use std::hash::BuildHasher;

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;
use subscope_model::{
    AgentStatus, Basis, Checksum, EndEvidence, Millis, Problem, SourceKind, SpawnMode, StopStep, Text, Usage,
};

pub(crate) use self::{
    best::{Best, MaybeTime, Order, Span, better, better_text, value},
    calls::{Begin, CallEndFact, CallFacts, CallPayloads, SpawnCallFacts, Tellings},
};

/// Names an [`AgentFacts`]; several may turn out to be one agent.
pub(crate) type Ref = u32;
/// Names a [`CallFacts`].
pub(crate) type CallNo = u32;
/// The root's ref.
pub(crate) const ROOT: Ref = 0;

/// What the last line of an agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tail {
    /// The response's turn ended.
    EndTurn,
    /// The API failed.
    ApiError,
    /// The request was interrupted.
    Interrupted,
    /// Text without a call and without a reason for the end.
    TextOnly,
    /// Anything else: it goes on.
    Open,
}

/// By what an agent was first named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// It is the root.
    Root,
    /// The harness's id.
    Id(Text),
    /// The call that started it.
    Call(CallNo),
    /// The first line of its chain.
    Chain,
}

/// An ending told by a source.
#[derive(Clone, Debug)]
pub(crate) struct EndFact {
    pub(crate) evidence: EndEvidence,
    pub(crate) status: AgentStatus,
    pub(crate) order: Order,
    pub(crate) call: Option<Text>,
    pub(crate) run_id: Option<Text>,
    pub(crate) time: Option<Millis>,
    pub(crate) report: Option<Text>,
    pub(crate) error: Option<Text>,
    /// The type that a stop hook names; empty for ghosts.
    pub(crate) stop_type: Option<Text>,
}

/// A person's order that an agent stop, or that it was told so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StopFact {
    pub(crate) step: StopStep,
    pub(crate) order: Order,
    pub(crate) time: Option<Millis>,
    /// The call that was refused with it.
    pub(crate) call: Option<CallNo>,
}

/// A stretch of activity began because of this call.
#[derive(Clone, Debug)]
pub(crate) struct Trigger {
    pub(crate) call: Text,
    pub(crate) order: Order,
    pub(crate) time: Option<Millis>,
}

/// The last retry told of.
#[derive(Clone, Debug)]
pub(crate) struct Retry {
    pub(crate) order: Order,
    pub(crate) time: Option<Millis>,
    pub(crate) attempt: u32,
    pub(crate) limit: u32,
    pub(crate) error: Text,
}

/// Who started an agent, as its own wire says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParentClaim {
    Root,
    Agent(Text),
}

/// What started an agent together with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BatchClaim {
    Call(CallNo),
    Run(Text),
}

/// What was said of an agent under one name.
#[derive(Debug)]
pub(crate) struct AgentFacts {
    pub(crate) key: Key,
    /// Whether something proves that it exists, and not only that it was mentioned.
    pub(crate) proven: bool,
    /// Whether a hook told its start.
    pub(crate) hook_started: bool,
    /// When it was last told to start.
    pub(crate) started: Option<Millis>,
    /// Whether its own conversation was read.
    pub(crate) has_transcript: bool,
    pub(crate) agent_type: Option<Best<Text>>,
    pub(crate) description: Option<Best<Text>>,
    pub(crate) name: Option<Best<Text>>,
    pub(crate) model: Option<Best<Text>>,
    pub(crate) prompt: Option<Best<Text>>,
    /// Whether its harness started it by itself as a warm-up.
    pub(crate) is_warmup: bool,
    pub(crate) parent: Option<ParentClaim>,
    /// Calls said to have started it, the certain ones first.
    pub(crate) origins: SmallVec<[(CallNo, bool); 1]>,
    pub(crate) triggers: Vec<Trigger>,
    /// How it is run, with the call that this was told of: what wakes an agent does not change how it was started.
    pub(crate) modes: Vec<(Option<CallNo>, Order, SpawnMode)>,
    pub(crate) detached: bool,
    pub(crate) batch: Option<BatchClaim>,
    pub(crate) span: Span,
    /// Times of words put in by others, each of which may begin a stretch of activity.
    pub(crate) marks: Vec<Millis>,
    /// The last line in transcripts and in streams.
    pub(crate) tails: [Option<(Order, Tail)>; 2],
    pub(crate) last_text: Option<(Order, u64, String)>,
    pub(crate) retry: Option<Retry>,
    /// The order of the latest thing heard of it.
    pub(crate) heard: Option<Order>,
    /// The order of the latest thing it did itself: that the harness still waits for it is none.
    pub(crate) acted: Option<Order>,
}

impl AgentFacts {
    pub(crate) fn new(key: Key) -> Self {
        Self {
            key,
            proven: false,
            hook_started: false,
            started: None,
            has_transcript: false,
            agent_type: None,
            description: None,
            name: None,
            model: None,
            prompt: None,
            is_warmup: false,
            parent: None,
            origins: SmallVec::new(),
            triggers: Vec::new(),
            modes: Vec::new(),
            detached: false,
            batch: None,
            span: Span::default(),
            marks: Vec::new(),
            tails: [None, None],
            last_text: None,
            retry: None,
            heard: None,
            acted: None,
        }
    }
}

/// What was said of an API response.
#[derive(Debug)]
pub(crate) struct ResponseFacts {
    /// Its name in [`Facts::response_by_id`].
    pub(crate) key: (u64, u64),
    pub(crate) owners: SmallVec<[(Ref, Basis); 1]>,
    pub(crate) model: Option<(Millis, Text)>,
    pub(crate) usage: Option<Tokens>,
    pub(crate) is_final: bool,
    pub(crate) only_streamed: bool,
    pub(crate) synthetic: bool,
    pub(crate) times: Option<(Millis, Millis)>,
    /// Hash and characters of each line's content, kept only while the response may be a placeholder.
    #[expect(clippy::box_collection, reason = "rarely there, and a session has very many responses")]
    pub(crate) content: Option<Box<Vec<(u64, u32)>>>,
}

/// The tokens of one response. No response has 2³² of a kind; a line that says so is cut there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tokens {
    output: u32,
    input: u32,
    cache_read: u32,
    cache_write: u32,
    pub(crate) cache_write_1h: u32,
    /// Whether the source itself calls it a lower bound.
    is_floor: bool,
}

impl Tokens {
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

/// The key of a response: two hashes of its id. An id is asked for and never shown, and 128 bits do not collide by
/// chance; who makes them collide on purpose miscounts only their own session.
pub(crate) fn response_key(id: &str) -> (u64, u64) {
    (hash_id(1, id), hash_id(2, id))
}

/// The name of a call among the session's holdings. The half of a response's key that is its name there has another seed.
pub(crate) fn call_key(id: &str) -> u64 {
    hash_id(3, id)
}

/// Names are kept and compared with those of later processes: a change here is a change of rules.
fn hash_id(seed: u64, id: &str) -> u64 {
    foldhash::quality::FixedState::with_seed(seed).hash_one(id)
}

/// A prompt of the user.
#[derive(Clone, Debug)]
pub(crate) struct PromptFact {
    pub(crate) kind: SourceKind,
    pub(crate) id: Option<Text>,
    pub(crate) hash: u64,
    pub(crate) time: Option<Millis>,
    pub(crate) order: Order,
    pub(crate) line_id: Option<Text>,
}

/// The end of a turn of the root.
#[derive(Clone, Debug)]
pub(crate) struct TurnFact {
    pub(crate) kind: SourceKind,
    pub(crate) status: AgentStatus,
    pub(crate) order: Order,
    pub(crate) counts_run: bool,
    pub(crate) line_id: Option<Text>,
}

/// How far a stream has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamFacts {
    /// The lines in which the root did something: a line that is repeated later is nothing new.
    pub(crate) active_lines: hashbrown::HashSet<Text>,
    /// Where the root last did something.
    pub(crate) last_activity: Option<u64>,
    /// Where a result stands last.
    pub(crate) last_result: Option<u64>,
}

/// One step of a wire without times, in its order.
#[derive(Clone, Debug)]
pub(crate) struct HookStep {
    pub(crate) source: u32,
    pub(crate) offset: u64,
    pub(crate) line: u64,
    pub(crate) what: HookWhat,
}

/// What a step of a hook log is.
#[derive(Clone, Debug)]
pub(crate) enum HookWhat {
    Prompt {
        is_user: bool,
    },
    Start {
        agent: Text,
    },
    Stop {
        agent: Text,
    },
    /// A call began; `named` where the payload names its agent.
    Pre {
        call: CallNo,
        named: Option<Ref>,
    },
    /// A call ended, known by a payload of its own.
    Post {
        call: CallNo,
        named: Option<Ref>,
        launched: bool,
    },
    Permission {
        named: Option<Ref>,
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
    },
    /// The harness waits for the user's next prompt.
    AwaitsPrompt,
    SessionEnd,
}

/// Everything that sources said of one session.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) version: Option<Best<std::cmp::Reverse<Text>>>,
    pub(crate) cwd: Option<Best<Text>>,
    pub(crate) root_model: Option<Best<Text>>,
    pub(crate) title: Option<Best<Text>>,
    /// Kinds of source that tell each agent's start at once, as bits of `SourceKind`.
    pub(crate) tells_starts: u8,
    /// When something was last done by whoever a wire without names means.
    pub(crate) silent: Option<Millis>,
    /// Whether the user gave a command to the harness itself: a person is at its prompt.
    pub(crate) is_opened: bool,
    /// Kinds of source that said anything.
    pub(crate) kinds: u8,
    pub(crate) span: Span,
    pub(crate) agents: Vec<AgentFacts>,
    pub(crate) by_id: HashMap<Text, Ref>,
    pub(crate) by_call: HashMap<CallNo, Ref>,
    /// Line id → the agent of its chain.
    pub(crate) chains: HashMap<Text, Ref>,
    pub(crate) calls: Vec<CallFacts>,
    pub(crate) call_by_id: HashMap<Text, CallNo>,
    /// Calls without an id that wait for their end, by digest.
    pub(crate) nameless: HashMap<u64, Vec<CallNo>>,
    pub(crate) responses: Vec<ResponseFacts>,
    pub(crate) response_by_id: HashMap<(u64, u64), u32>,
    pub(crate) ends: HashMap<Text, Vec<EndFact>>,
    /// Orders to stop, by the name that they have for the agent.
    pub(crate) stops: HashMap<Text, Vec<StopFact>>,
    pub(crate) run_ids: HashMap<Text, Text>,
    pub(crate) prompts: Vec<PromptFact>,
    pub(crate) turns: Vec<TurnFact>,
    /// What streams told of the root, by source: for runs.
    pub(crate) streams: HashMap<u32, StreamFacts>,
    /// The call that started each run of several agents.
    pub(crate) batch_runs: HashMap<Text, CallNo>,
    pub(crate) checksums: Vec<Checksum>,
    pub(crate) hooks: Vec<HookStep>,
    pub(crate) has_identity: bool,
    pub(crate) names: HashSet<Text>,
    /// The word and the agent asked for last: lines repeat them.
    pub(crate) last_word: Option<Text>,
    pub(crate) last_agent: Option<(Text, Ref)>,
    pub(crate) problems: Vec<Problem>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            version: None,
            cwd: None,
            root_model: None,
            title: None,
            tells_starts: 0,
            silent: None,
            is_opened: false,
            kinds: 0,
            span: Span::default(),
            agents: vec![AgentFacts::new(Key::Root)],
            by_id: HashMap::new(),
            by_call: HashMap::new(),
            chains: HashMap::new(),
            calls: Vec::new(),
            call_by_id: HashMap::new(),
            nameless: HashMap::new(),
            responses: Vec::new(),
            response_by_id: HashMap::new(),
            ends: HashMap::new(),
            stops: HashMap::new(),
            run_ids: HashMap::new(),
            prompts: Vec::new(),
            turns: Vec::new(),
            streams: HashMap::new(),
            batch_runs: HashMap::new(),
            checksums: Vec::new(),
            hooks: Vec::new(),
            has_identity: false,
            names: HashSet::new(),
            last_word: None,
            last_agent: None,
            problems: Vec::new(),
        }
    }
}

impl Facts {
    /// The shared copy of a word that repeats (tool names, models).
    pub(crate) fn word(&mut self, text: &str) -> Text {
        if let Some(last) = self.last_word.as_ref().filter(|last| &***last == text) {
            return last.clone();
        }
        let word = match self.names.get(text) {
            Some(known) => known.clone(),
            None => {
                let word: Text = text.into();
                self.names.insert(word.clone());
                word
            }
        };
        self.last_word = Some(word.clone());
        word
    }

    /// The agent of that id, which need not exist.
    pub(crate) fn agent_by_id(&mut self, id: &str) -> Ref {
        if let Some((_, agent)) = self.last_agent.as_ref().filter(|(last, _)| &**last == id) {
            return *agent;
        }
        let (id, agent) = match self.by_id.get_key_value(id) {
            Some((id, known)) => (id.clone(), *known),
            None => {
                let id: Text = id.into();
                let made = self.agents.len() as Ref;
                self.agents.push(AgentFacts::new(Key::Id(id.clone())));
                self.by_id.insert(id.clone(), made);
                (id, made)
            }
        };
        self.last_agent = Some((id, agent));
        agent
    }

    /// The agent that this call started or is to start.
    pub(crate) fn agent_by_call(&mut self, call: CallNo) -> Ref {
        let made = self.agents.len() as Ref;
        let agent = *self.by_call.entry(call).or_insert(made);
        if agent == made {
            self.agents.push(AgentFacts::new(Key::Call(call)));
        }
        agent
    }

    /// The agent of the chain that this line belongs to.
    pub(crate) fn agent_by_chain(&mut self, line: &str, parent: Option<&str>) -> Ref {
        if let Some(known) = self.chains.get(line) {
            return *known;
        }
        let agent = match parent.and_then(|parent| self.chains.get(parent)) {
            Some(known) => *known,
            None => {
                self.agents.push(AgentFacts::new(Key::Chain));
                (self.agents.len() - 1) as Ref
            }
        };
        self.chains.insert(line.into(), agent);
        agent
    }

    /// Whether a call counts: one without id says nothing new where a source with ids tells the session's calls.
    pub(crate) fn counts(&self, call: &CallFacts) -> bool {
        call.id.is_some() || self.call_by_id.is_empty()
    }

    /// The call of that id.
    pub(crate) fn call(&mut self, id: &str) -> CallNo {
        if let Some(known) = self.call_by_id.get(id) {
            return *known;
        }
        let id: Text = id.into();
        let made = self.calls.len() as CallNo;
        self.calls.push(CallFacts::new(Some(id.clone())));
        self.call_by_id.insert(id, made);
        made
    }
}
