//! A session made of observations by hand, for unit tests.

use subscope_model::{
    Basis, CallBegin, CallEnd, Claim, Clock, EndEvidence, Fact, Millis, Observation, Outcome, PriceTable,
    RawJson, Response, SessionId, SourceId, SourceKind, SourcePosition, Spawn, SpawnInput, ToolClass, Tree,
    Usage,
};

use crate::{FactDetail, Limits, Now, Tracker, facts::Facts, hooks, identities, owners};

/// The root, named by its line.
pub(crate) const ROOT: Claim<'_> = Claim::Root(Basis::Wire);

/// Tracks one source per kind of source; every observation is at the next offset.
pub(crate) struct TestSession {
    pub(crate) tracker: Tracker,
    offset: u64,
}

impl TestSession {
    pub(crate) fn new() -> Self {
        Self::keeping(FactDetail::Rows)
    }

    pub(crate) fn keeping(keep: FactDetail) -> Self {
        Self { tracker: Tracker::new(SessionId::from("s"), keep, None), offset: 0 }
    }

    /// Adds an observation. The line id is that of a chain claim.
    pub(crate) fn add(
        &mut self,
        kind: SourceKind,
        time: impl Into<Option<Millis>>,
        claim: Claim<'_>,
        fact: Fact<'_>,
    ) -> &mut Self {
        self.offset += 1;
        let clock = match kind {
            SourceKind::Transcript => Clock::Transcript,
            SourceKind::Stream => Clock::Stream,
            SourceKind::Otel => Clock::Otel,
            SourceKind::Posted | SourceKind::Hook => Clock::Receiver,
        };
        let line_id = match claim {
            Claim::Chain { line, .. } => Some(line),
            Claim::Root(_) | Claim::Agent(..) | Claim::SpawnedBy(_) | Claim::Silent => None,
        };
        self.tracker.absorb(&Observation {
            place: SourcePosition { source: SourceId(kind as u32), offset: self.offset, line: self.offset },
            kind,
            time: time.into(),
            clock,
            session: None,
            line_id,
            claim,
            fact,
        });
        self
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.tracker.facts
    }

    pub(crate) fn identities(&self) -> identities::Identities {
        identities::derive_identities(self.facts())
    }

    pub(crate) fn hooks(&self) -> hooks::HookLog {
        hooks::replay_hooks(self.facts(), &self.identities())
    }

    pub(crate) fn owners(&self) -> owners::Ownership {
        owners::derive_ownership(self.facts(), &self.identities(), &self.hooks())
    }

    /// Returns the index of an agent, by id.
    pub(crate) fn agent(&self, id: &str) -> usize {
        self.identities().all.iter().position(|identity| &*identity.id.0 == id).unwrap()
    }

    /// Returns the index of a call, by id.
    pub(crate) fn call(&self, id: &str) -> u32 {
        self.facts().call_by_id[id]
    }

    /// Derives the tree at a time, while the sources grow.
    pub(crate) fn tree(&self, at: Millis) -> Tree {
        self.tree_with(at, Limits::default())
    }

    pub(crate) fn tree_with(&self, at: Millis, limits: Limits) -> Tree {
        let prices = PriceTable::default();
        let now = Now { at, has_ended: false, is_growing: true, prices: &prices, limits };
        self.tracker.derive(&now).tree
    }
}

/// The subagent of that id, named by its line.
pub(crate) fn agent(id: &str) -> Claim<'_> {
    Claim::Agent(id, Basis::Wire)
}

/// A JSON value that is in no source.
pub(crate) fn raw(json: &str) -> RawJson<'_> {
    RawJson { json, offset: u64::MAX }
}

/// The begin of a call; its digest is the length of `id`.
pub(crate) fn begin<'a>(id: &'a str, name: &'a str, class: ToolClass) -> CallBegin<'a> {
    CallBegin { id: Some(id), name, class, digest: id.len() as u64, ..CallBegin::default() }
}

/// The begin of a spawn call with a prompt (JSON).
pub(crate) fn spawn_call<'a>(id: &'a str, prompt: &'a str) -> Fact<'a> {
    let spawn = SpawnInput { prompt: Some(raw(prompt)), ..SpawnInput::default() };
    Fact::CallBegin(CallBegin { spawn: Some(spawn), ..begin(id, "Task", ToolClass::Spawn) })
}

/// The begin of a call of an ordinary tool.
pub(crate) fn tool_call<'a>(id: &'a str, name: &'a str) -> Fact<'a> {
    Fact::CallBegin(begin(id, name, ToolClass::Other))
}

pub(crate) fn call_end(id: &str, outcome: Outcome) -> CallEnd<'_> {
    CallEnd { id: Some(id), digest: id.len() as u64, outcome, ..CallEnd::default() }
}

/// The record that a call started an agent.
pub(crate) fn spawned<'a>(id: &'a str, call: &'a str) -> Fact<'a> {
    Fact::Spawn(Spawn { agent: Some(id), call: Some(call), is_origin: true, ..Spawn::default() })
}

/// The end of an agent, as a source reports it.
pub(crate) fn agent_end(id: &str, status: subscope_model::AgentStatus, evidence: EndEvidence) -> Fact<'_> {
    Fact::AgentEnd(subscope_model::AgentEnd {
        agent: Some(id),
        status,
        evidence,
        ..subscope_model::AgentEnd::default()
    })
}

/// A line of an API response that has no text and no call.
pub(crate) fn response(id: &str, output_tokens: u64) -> Response<'_> {
    Response {
        message_id: id,
        model: Some("m"),
        usage: Some(Usage::new(0, output_tokens, 0, 0)),
        content: (output_tokens, 0),
        ..Response::default()
    }
}
