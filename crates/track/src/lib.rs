//! Tracks one session: joins observations into facts and derives its agent tree and event attribution from them.
//!
//! Flow: [`Tracker::absorb`] joins observations of one session into facts; sources may arrive in any order and repeat
//! each other. [`Tracker::derive`] computes a [`Tree`] from the facts for a moment in time and never changes them. So
//! the same sources give the same tree in whatever order they were read.
//!
//! Steps of a derivation, one module each: `identities` (which records are the same agent), `hooks` (owners of calls
//! whose hook names no agent), `owners` (owner of each call and response, parent of each agent), `duplicates` (calls
//! and responses counted in another session), `status` (running, or ended and how), `intervals` (when agents were
//! active), `figures` (tokens and cost), `noted` (what the note of the process says), `liveness`, `flags`, `limits`,
//! `runs`, `drafts` (what rows are built from), and `rows`, which assembles the tree. `detail` derives what spans need
//! beyond rows, only on request.
//!
//! Pitfalls: anything that later input can revoke (`sole`, `stack`, `lost`, `stalled`, a floor, an orphan, run numbers)
//! must be derived and never stored as a fact; nothing may depend on a source's number.
//!
//! Absent on purpose: a clock, IO, vendors' names, and how observations arrived.

mod absorb;
mod detail;
mod drafts;
mod duplicates;
mod facts;
mod figures;
mod flags;
mod hooks;
mod identities;
mod intervals;
mod join;
mod limits;
mod liveness;
mod noted;
mod owners;
mod rows;
mod runs;
mod status;
mod teammates;
#[cfg(test)]
mod test_session;

pub use absorb::FactDetail;
pub use duplicates::{KeysCursor, OwnedElsewhere};
pub use limits::{AwakeTime, LimitRule, LimitScope, Limits};
pub use liveness::next_deadline;
pub use runs::{Run, RunEnding};
use status::Derivation;
use subscope_model::{
    Actor, AgentId, Basis, Claim, Fact, Millis, Observation, PriceTable, Problem, SessionDetail, SessionId,
    SourcePosition, Text, Tree,
};

/// Moment for which a tree is derived, with the state of the sources at that moment.
#[derive(Clone, Debug)]
pub struct Now<'p> {
    /// Time of the derivation.
    pub at: Millis,
    /// Whether the pipe or process that feeds the sources has ended.
    pub has_ended: bool,
    /// Whether sources may still grow.
    pub is_growing: bool,
    /// Prices of models.
    pub prices: &'p PriceTable,
    /// Silence limits: stalled, lost, waiting for permission.
    pub limits: Limits,
}

/// Whether hooks report a session, and whether they name agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookCoverage {
    /// No hook was received.
    No,
    /// Hooks were received, but from a harness version whose hooks name no agent.
    Unnamed,
    /// Hooks were received, and they name the agent that they come from.
    Named,
}

/// Tracks one session.
#[derive(Clone, Debug)]
pub struct Tracker {
    session: SessionId,
    harness: Option<Text>,
    /// Whether forks of the harness write the same lines as the sources that named it.
    is_harness_shared: bool,
    absorber: absorb::Absorber,
    facts: facts::Facts,
    /// Keys that count in other sessions. Set by the caller; not a fact and not joined.
    owned_elsewhere: OwnedElsewhere,
}

impl Tracker {
    /// Creates a tracker without facts. With a `cutoff`, later observations are dropped.
    pub fn new(session: SessionId, keep: FactDetail, cutoff: Option<Millis>) -> Self {
        Self {
            facts: facts::Facts::of(&session),
            session,
            harness: None,
            is_harness_shared: false,
            absorber: absorb::Absorber::new(keep, cutoff),
            owned_elsewhere: OwnedElsewhere::default(),
        }
    }

    /// Returns the session's id.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns whether the main thread was active in any source.
    pub fn has_root(&self) -> bool {
        self.facts.agent(facts::ROOT).last_seen.is_some()
    }

    /// Returns whether hooks report the session, and whether they name agents.
    pub fn hooked(&self) -> HookCoverage {
        match (self.facts.reported_steps().next().is_none(), self.facts.has_identity) {
            (true, _) => HookCoverage::No,
            (false, false) => HookCoverage::Unnamed,
            (false, true) => HookCoverage::Named,
        }
    }

    /// Sets the harness, unless it is already set. Where `is_shared`, a fork of it may have written the lines: what another
    /// source says counts more, before and after.
    pub fn set_harness(&mut self, harness: &str, is_shared: bool) {
        let is_better = self.is_harness_shared && !is_shared;
        if self.harness.is_none() || is_better {
            self.harness = Some(harness.into());
            self.is_harness_shared = is_shared;
        }
    }

    /// Sets whether the next observations are of a source that cannot be read again, so that payloads are recorded as
    /// text.
    pub fn inline_payloads(&mut self, inlines_payloads: bool) {
        self.absorber.inline_payloads(inlines_payloads);
    }

    /// Joins one observation. Returns `false` if it was dropped because of the cutoff.
    pub fn absorb(&mut self, observation: &Observation<'_>) -> bool {
        if let Fact::Harness { name } = observation.fact {
            self.set_harness(name, false);
            return true;
        }
        self.absorber.record(&mut self.facts, observation)
    }

    /// Records when a hub received an event that a program published about one of its agents.
    pub fn record_heard(&mut self, agent: &str, at: Millis) {
        let agent = self.facts.agent_by_id(agent);
        let heard = &mut self.facts.agent_mut(agent).heard;
        *heard = (*heard).max(Some(at));
    }

    /// Returns whether a program publishes what an agent does, so that the answer to its next event can carry a request
    /// to stop.
    pub fn is_heard(&self, agent: &AgentId) -> bool {
        let known = self.facts.by_id.get(&**agent);
        known.is_some_and(|agent| self.facts.agent(*agent).heard.is_some())
    }

    /// Joins the facts of another tracker of the same session that has read other sources. Adds `sources` to its source
    /// numbers.
    pub fn join(&mut self, other: Self, sources: u32) {
        if let Some(harness) = &other.harness {
            self.set_harness(harness, other.is_harness_shared);
        }
        self.absorber.join(&other.absorber, sources);
        self.facts.join(other.facts, sources);
    }

    /// Returns the facts that transcripts reported as JSON, for [`Tracker::join_facts`].
    ///
    /// # Errors
    /// Where a value has no JSON.
    pub fn write_facts(&self) -> serde_json::Result<Vec<u8>> {
        facts::stored::write(&self.facts, self.harness.as_deref(), self.is_harness_shared)
    }

    /// Joins facts that a tracker of the session wrote earlier, whose transcripts may be gone. Numbers their sources from
    /// `sources` on.
    ///
    /// # Errors
    /// Where the JSON is damaged, or of another version.
    pub fn join_facts(&mut self, json: &[u8], sources: u32) -> serde_json::Result<()> {
        let facts::stored::ReadFacts { harness, is_harness_shared, facts } = facts::stored::read(json)?;
        if let Some(harness) = &harness {
            self.set_harness(harness, is_harness_shared);
        }
        self.facts.join(facts, sources);
        Ok(())
    }

    /// Records a problem, once.
    pub fn problem(&mut self, problem: Problem) {
        facts::push_new(&mut self.facts.problems, problem);
    }

    /// Returns the problems.
    pub fn problems(&self) -> &[Problem] {
        &self.facts.problems
    }

    /// Derives the tree and the attribution of events for a moment, both from the same identities.
    pub fn derive(&self, now: &Now<'_>) -> Derived<'_> {
        let attribution = self.attribute();
        let derivation = self.derivation(&attribution, now);
        let tree = rows::build_tree(&self.session, &derivation, &self.owned_elsewhere, &attribution.runs);
        Derived { tree, attribution }
    }

    /// Derives runs, responses and triggers for a moment. Ids and endings of responses are known from
    /// [`FactDetail::Responses`] on, their calls with [`FactDetail::Payloads`].
    pub fn detail(&self, now: &Now<'_>) -> SessionDetail {
        let attribution = self.attribute();
        let derivation = self.derivation(&attribution, now);
        detail::session_detail(&derivation, &self.owned_elsewhere, &attribution.runs)
    }

    fn attribute(&self) -> Attribution<'_> {
        let facts = &self.facts;
        let identities = identities::derive_identities(facts);
        let hooks = hooks::replay_hooks(facts, &identities);
        let owners = owners::derive_ownership(facts, &identities, &hooks);
        Attribution { facts, runs: runs::derive_runs(facts), identities, owners, hooks }
    }

    fn derivation<'d>(&'d self, attribution: &'d Attribution<'_>, now: &'d Now<'d>) -> Derivation<'d> {
        Derivation {
            facts: &self.facts,
            identities: &attribution.identities,
            owners: &attribution.owners,
            hooks: &attribution.hooks,
            now,
            harness: self.harness.as_deref(),
        }
    }
}

/// Result of [`Tracker::derive`].
#[derive(Debug)]
pub struct Derived<'t> {
    /// Rows of all agents and of their session.
    pub tree: Tree,
    /// Maps events to those rows.
    pub attribution: Attribution<'t>,
}

/// Maps events to the agents of the tree derived with it.
#[derive(Debug)]
pub struct Attribution<'t> {
    facts: &'t facts::Facts,
    identities: identities::Identities,
    owners: owners::Ownership,
    hooks: hooks::HookLog,
    runs: runs::SessionRuns,
}

/// Reference of an event to its call.
#[derive(Clone, Copy, Debug)]
pub enum CallName<'a> {
    /// It names none.
    None,
    /// Its id.
    Id(&'a str),
    /// No id: the call is known by the lines that report it.
    Line,
    /// It is about a response, by the id of its message or its request: where the line names no agent, the response's
    /// owner is the actor.
    Response(&'a str),
}

impl Attribution<'_> {
    /// Returns the agent of an observation and the basis of that attribution. A tool call belongs to its owner; an
    /// event of an agent without a row belongs to the root until the agent has one.
    pub fn actor(&self, claim: &Claim<'_>, call: CallName<'_>, place: SourcePosition) -> (Actor, Basis) {
        let facts = self.facts;
        let by_call = match call {
            CallName::Response(id) => facts
                .response_named(id)
                .filter(|_| matches!(claim, Claim::Silent))
                .and_then(|response| self.owners.of_response(response)),
            CallName::None | CallName::Id(_) | CallName::Line => {
                self.call(call, place).and_then(|call| self.owners.of_call(call))
            }
        };
        let by_claim = || match *claim {
            Claim::Root(basis) => Some((0, basis)),
            Claim::Agent(id, basis) => Some((self.identities.by_id(facts, id)?, basis)),
            Claim::SpawnedBy(call) => {
                Some((self.identities.started_by(*facts.call_by_id.get(call)?)?, Basis::Link))
            }
            Claim::Chain { line, .. } => Some((self.identities.of(*facts.chains.get(line)?)?, Basis::Link)),
            Claim::Silent if facts.has_identity => Some((0, Basis::Wire)),
            Claim::Silent => self.hooks.asked.get(&line(place)).copied(),
        };
        let (number, basis) = by_call.or_else(by_claim).unwrap_or((0, Basis::Unknown));
        (Actor(self.identities.all[number].id.clone()), basis)
    }

    fn call(&self, call: CallName<'_>, place: SourcePosition) -> Option<facts::CallIndex> {
        match call {
            CallName::None | CallName::Response(_) => None,
            CallName::Id(id) => self.facts.call_by_id.get(id).copied(),
            CallName::Line => self.facts.call_by_place.get(&line(place)).copied(),
        }
    }

    /// Returns whether a call is counted: one without an id repeats one with an id if any source of the session has
    /// call ids.
    pub fn is_counted(&self, call: CallName<'_>) -> bool {
        !matches!(call, CallName::Line) || !self.has_call_ids()
    }

    /// Returns whether any source of the session has call ids.
    pub fn has_call_ids(&self) -> bool {
        !self.facts.call_by_id.is_empty()
    }

    /// Returns the digest of a call's tool and arguments, which is the same in all sources; `None` for an unknown call.
    pub fn call_digest(&self, call: CallName<'_>, place: SourcePosition) -> Option<u64> {
        self.facts.call(self.call(call, place)?).digest.map(|(_, digest)| digest)
    }

    /// Returns begin and end of a call, as its row has them.
    pub fn call_times(&self, call: CallName<'_>, place: SourcePosition) -> (Option<Millis>, Option<Millis>) {
        let Some(call) = self.call(call, place) else { return (None, None) };
        let end = self.owners.call_end(self.facts, &self.identities, call);
        (self.facts.call(call).begun_at(), end.and_then(|(_, time)| time))
    }

    /// Returns the agent that a call started.
    pub fn started_by(&self, call: CallName<'_>, place: SourcePosition) -> Option<AgentId> {
        let agent = self.identities.started_by(self.call(call, place)?)?;
        Some(self.identities.all[agent].id.clone())
    }

    /// Returns the runs of the session, in order.
    pub fn runs(&self) -> &[Run] {
        &self.runs.all
    }

    /// Returns the run of a line, from 1; 0 before the first prompt.
    pub fn run_at(&self, time: Option<Millis>, place: Option<SourcePosition>) -> u32 {
        self.runs.at(time, place.map(line))
    }

    /// Returns the run that the prompt in a line begins.
    pub fn run_begun_in(&self, place: SourcePosition) -> Option<&Run> {
        self.runs.begun_in(line(place))
    }

    /// Returns the identity of the prompt in a line within the session: the same for all sources that report it.
    pub fn prompt_key(&self, place: SourcePosition, text: &str) -> Option<&str> {
        self.runs.prompt_key(line(place), text)
    }

    /// Returns whether a source other than OpenTelemetry records reports what the agents do: it has the ids of prompts and
    /// responses, which records may lack.
    pub fn has_lines(&self) -> bool {
        self.facts.has_transcript || !self.facts.streams.is_empty()
    }

    /// Returns whether a hook reports the first process that opened the session. Not one that resumed a session whose
    /// transcript has more.
    pub fn reports_opening(&self) -> bool {
        let is_later = self.facts.agent(facts::ROOT).last_lines[0].is_some();
        self.hooks.opened.as_ref().is_some_and(|reason| !is_later || reason.as_deref() != Some("resume"))
    }
}

/// Returns the line at a position.
fn line(place: SourcePosition) -> runs::LinePlace {
    (place.source.0, place.offset)
}

#[cfg(test)]
mod tests {
    use subscope_model::{Fact, PriceTable, SourceKind};

    use super::*;
    use crate::test_session::{ROOT, TestSession, agent, spawn_call, spawned, tool_call};

    /// Returns actor and basis of an event.
    fn actor(session: &TestSession, claim: &Claim<'_>, call: Option<&str>) -> (String, Basis) {
        let prices = PriceTable::default();
        let limits = Limits::default();
        let now = Now { at: 100, has_ended: false, is_growing: true, prices: &prices, limits };
        let derived = session.tracker.derive(&now);
        let call = call.map_or(CallName::None, CallName::Id);
        let (actor, basis) = derived.attribution.actor(claim, call, SourcePosition::default());
        assert!(derived.tree.agents.iter().any(|row| row.id == actor.0), "{actor:?} has no row");
        (actor.0.to_string(), basis)
    }

    #[test]
    fn actor_is_the_owner_of_the_call_else_the_claimed_agent() {
        let mut session = TestSession::new();
        session.add(SourceKind::Transcript, 10, ROOT, spawn_call("c1", r#""x""#));
        session.add(SourceKind::Transcript, 20, agent("a1"), tool_call("c2", "Bash"));
        session.add(SourceKind::Transcript, 20, agent("a1"), spawned("a1", "c1"));
        let root = |basis| ("root".to_owned(), basis);
        let a1 = |basis| ("a1".to_owned(), basis);
        assert_eq!(actor(&session, &Claim::Silent, Some("c2")), a1(Basis::Wire));
        assert_eq!(actor(&session, &Claim::Silent, Some("c9")), root(Basis::Unknown));
        assert_eq!(actor(&session, &agent("a1"), None), a1(Basis::Wire));
        assert_eq!(actor(&session, &agent("a9"), None), root(Basis::Unknown), "it has no row");
        assert_eq!(actor(&session, &Claim::SpawnedBy("c1"), None), a1(Basis::Link));
        assert_eq!(actor(&session, &Claim::SpawnedBy("c2"), None), root(Basis::Unknown));
    }

    #[test]
    fn hooked_is_named_only_if_hooks_name_agents() {
        let mut session = TestSession::new();
        session.add(SourceKind::Transcript, 1, ROOT, tool_call("c1", "Bash"));
        assert_eq!(session.tracker.hooked(), HookCoverage::No);
        session.add(SourceKind::Hook, 2, Claim::Silent, tool_call("c1", "Bash"));
        assert_eq!(session.tracker.hooked(), HookCoverage::Unnamed);
        session.add(SourceKind::Hook, 3, Claim::Silent, Fact::WireHasIdentity);
        assert_eq!(session.tracker.hooked(), HookCoverage::Named);
    }
}
