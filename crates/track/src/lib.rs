//! Facts that join, conclusions that are derived.
//!
//! Flow: [`Tracker::absorb`] joins observations of one session into facts, in any order between sources and with
//! repeats; [`Tracker::derive`] concludes a [`Tree`] from them for a moment in time and never feeds anything back.
//! So the same sources give the same tree, whatever came first.
//!
//! Steps of a conclusion, one module each: `identities` (who is who), `hooks` (whose call it was on a wire that does not
//! say), `owners` (whose calls are whose, who started whom), `copies` (what counts in another session), `status` (how agents
//! stand or ended), `spans` (when they were active), `figures` (tokens and cost), `liveness`, `flags`, `limits`, `runs`, and
//! `rows`, which puts them together.
//!
//! Pitfalls: what is not monotone (`sole`, `stack`, `lost`, `stalled`, a floor, an orphan, run numbers) must never be
//! kept as a fact; nothing may depend on a source's number.
//!
//! Absent on purpose: a clock, IO, vendors' names, and how observations arrived.

mod absorb;
mod duplicates;
mod facts;
mod figures;
mod flags;
mod hooks;
mod identities;
mod join;
mod limits;
mod liveness;
mod owners;
mod rows;
mod runs;
mod spans;
mod status;

use std::hash::BuildHasher;

pub use absorb::Keep;
pub use duplicates::{KeysCursor, OwnedElsewhere};
pub use limits::{Awake, LimitRule, LimitScope, Limits};
pub use liveness::next_deadline;
use status::Derivation;
use subscope_model::{
    Actor, AgentId, Basis, Claim, Millis, Observation, PriceTable, Problem, SessionId, Text, Tree,
};

/// The moment for which a tree is concluded, and what is known of the sources at that moment.
#[derive(Clone, Debug)]
pub struct Now<'p> {
    /// The moment.
    pub at: Millis,
    /// Whether the sources' pipe or process has ended.
    pub has_ended: bool,
    /// Whether a source without times still grows.
    pub is_growing: bool,
    /// Prices.
    pub prices: &'p PriceTable,
    /// Limits of silence.
    pub limits: Limits,
}

/// What hooks have told of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hooked {
    /// Nothing: it has none, or none has come yet.
    No,
    /// Something, but none has named an agent.
    Unnamed,
    /// Something, and they name the agent that they come from.
    Named,
}

/// Tracks one session.
#[derive(Debug)]
pub struct Tracker {
    session: SessionId,
    harness: Option<Text>,
    absorber: absorb::Absorber,
    facts: facts::Facts,
    /// No fact of this session, and not joined: whoever asks for conclusions says it.
    elsewhere: OwnedElsewhere,
}

impl Tracker {
    /// A tracker for a session of which nothing is known yet. With a `cutoff`, everything later is dropped.
    pub fn new(session: SessionId, harness: Option<&str>, keep: Keep, cutoff: Option<Millis>) -> Self {
        Self {
            session,
            harness: harness.map(Text::from),
            absorber: absorb::Absorber::new(keep, cutoff),
            facts: facts::Facts::default(),
            elsewhere: OwnedElsewhere::default(),
        }
    }

    /// The session's id.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Whether anything was heard of the main thread.
    pub fn has_root(&self) -> bool {
        self.facts.agents.get(facts::ROOT as usize).is_some_and(|root| root.heard.is_some())
    }

    /// What hooks have told of the session so far.
    pub fn hooked(&self) -> Hooked {
        match (self.facts.hooks.is_empty(), self.facts.has_identity) {
            (true, _) => Hooked::No,
            (false, false) => Hooked::Unnamed,
            (false, true) => Hooked::Named,
        }
    }

    /// Says which harness it is, once that is known.
    pub fn set_harness(&mut self, harness: &str) {
        self.harness.get_or_insert_with(|| harness.into());
    }

    /// Joins one observation. Returns whether it was taken: `false` for one later than the cutoff.
    pub fn absorb(&mut self, seen: &Observation<'_>) -> bool {
        self.absorber.take(&mut self.facts, seen)
    }

    /// Joins what another tracker of the same session was told of other sources, whose numbers grow by `sources`.
    pub fn join(&mut self, other: Self, sources: u32) {
        if let Some(harness) = &other.harness {
            self.set_harness(harness);
        }
        self.absorber.join(&other.absorber, sources);
        self.facts.join(other.facts, sources);
    }

    /// Keeps a problem; the same one only once.
    pub fn problem(&mut self, problem: Problem) {
        absorb::Absorber::problem(&mut self.facts, problem);
    }

    /// Derives the tree and the attribution of events for a moment, both from the same identities.
    pub fn derive(&self, now: &Now<'_>) -> Derived<'_> {
        let facts = &self.facts;
        let identities = identities::identities(facts, self.is_over(now));
        let hooks = hooks::replay(facts, &identities);
        let owners = owners::owners(facts, &identities, &hooks);
        let attribution = Attribution { facts, runs: runs::runs(facts), identities, owners };
        let harness = self.harness.as_deref();
        let derivation = Derivation {
            facts,
            identities: &attribution.identities,
            owners: &attribution.owners,
            hooks: &hooks,
            now,
            harness,
        };
        let tree = rows::tree(&self.session, &derivation, &self.elsewhere, attribution.runs.count);
        Derived { tree, attribution }
    }

    /// Whether nothing more will come: the sources have ended, or they are silent for longer than the limit of loss.
    fn is_over(&self, now: &Now<'_>) -> bool {
        let lost_after_ms = now.limits.of(self.harness.as_deref(), None).lost_after_ms(false);
        let is_silent = |last: Millis| now.limits.awake.silence(last, now.at) >= lost_after_ms;
        now.has_ended || self.facts.span.latest().map_or(!now.is_growing, is_silent)
    }
}

/// What [`Tracker::derive`] returns.
#[derive(Debug)]
pub struct Derived<'t> {
    /// The rows of all agents and of their session.
    pub tree: Tree,
    /// Maps events to these rows.
    pub attribution: Attribution<'t>,
}

/// Maps events to the agents of the tree that was derived with it.
#[derive(Debug)]
pub struct Attribution<'t> {
    facts: &'t facts::Facts,
    identities: identities::Identities,
    owners: owners::Owners,
    runs: runs::Runs,
}

impl Attribution<'_> {
    /// Returns the agent that an observation belongs to, and the basis of that. A tool call belongs to its owner; what no row
    /// accounts for belongs to the root until the agent is known.
    pub fn actor(&self, claim: &Claim<'_>, call: Option<&str>) -> (Actor, Basis) {
        let by_call = call
            .and_then(|id| self.facts.call_by_id.get(id))
            .and_then(|number| self.owners.calls.get(*number as usize).copied().flatten());
        let (number, basis) = match (by_call, claim) {
            (Some(owner), _) => owner,
            (None, Claim::Root(basis)) => (0, *basis),
            (None, Claim::Agent(id, basis)) => match self.identities.by_id(self.facts, id) {
                Some(agent) => (agent, *basis),
                None => (0, Basis::Unknown),
            },
            (None, Claim::SpawnedBy(call)) => {
                let number = self.facts.call_by_id.get(*call);
                match number.and_then(|number| self.identities.started_by(*number)) {
                    Some(agent) => (agent, Basis::Link),
                    None => (0, Basis::Unknown),
                }
            }
            (None, Claim::Chain { line, .. }) => {
                let agent = self.facts.chains.get(*line).and_then(|name| self.identities.of(*name));
                (agent.unwrap_or(0), if agent.is_some() { Basis::Link } else { Basis::Unknown })
            }
            (None, Claim::Silent) if self.facts.has_identity => (0, Basis::Wire),
            (None, Claim::Silent) => (0, Basis::Unknown),
        };
        let id = self
            .identities
            .all
            .get(number)
            .map_or_else(|| AgentId::from(AgentId::ROOT), |identity| identity.id.clone());
        (Actor(id), basis)
    }

    /// Returns the agent that a call started.
    pub fn started_by(&self, call: &str) -> Option<AgentId> {
        let number = self.facts.call_by_id.get(call)?;
        let agent = self.identities.started_by(*number)?;
        self.identities.all.get(agent).map(|identity| identity.id.clone())
    }

    /// Returns the run that a moment belongs to, from 1; 0 before the first prompt.
    pub fn run_at(&self, time: Option<Millis>) -> u32 {
        self.runs.at(time)
    }
}

/// A hash of a text, equal for equal texts within one process.
fn hash_text(text: &str) -> u64 {
    foldhash::fast::FixedState::default().hash_one(text)
}
