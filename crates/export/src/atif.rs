//! ATIF, the Agent Trajectory Interchange Format 1.8: a session as one JSON document, and a document as lines that every
//! command reads.
//!
//! Rules of the format: RFC 0001 of Harbor, as the validators of PyPI's `atif` 1.8.0 and `harbor` 0.25.0 check it. All
//! subagents, at any depth, are in the root's `subagent_trajectories`: refs are resolved there, and nested documents would
//! exceed the recursion limits of readers. What ATIF has no field for is in `extra.subscope`
//! ([`subscope_model::AtifTrajectory`]), with which an import gives the session that was exported.
//!
//! Flow: [`write_atif`] divides the document into pieces, [`steps`] gives the steps of each trajectory; payloads are read
//! when their step is written, so that a document may be larger than memory.

mod figures;
mod import;
mod lines;
mod steps;

use std::io::{self, Write};

use hashbrown::HashMap;
use serde::Serialize;
use subscope_model::{
    ATIF_EXTRA_SCHEMA, Agent, AgentStatus, AtifSession, AtifTrajectory, EndEvidence, Flag, Payload,
    SessionDetail, SessionText, Text, Tree,
};

use self::{
    figures::FinalMetrics,
    steps::{AtifSources, StepMaker, StepPart, step_parts},
};
use crate::{
    execution::agent_type,
    pool::{batches, in_order},
    redact::Mask,
};

pub use import::{AtifError, atif_lines, atif_version};

/// Version of the documents that are written.
const VERSION: &str = "ATIF-v1.8";

/// A name or version that is required and unknown.
const UNKNOWN: &str = "unknown";

/// About how many bytes a step has besides what is read for it.
const STEP_BYTES: usize = 1 << 10;

/// A session to be exported as ATIF.
pub struct AtifSource<'s> {
    /// Its rows.
    pub tree: &'s Tree,
    /// Its runs and responses; `None` if only rows are known.
    pub detail: Option<&'s SessionDetail>,
    /// Its prompts, messages and thoughts, in order.
    pub texts: &'s [SessionText],
    /// Returns the JSON text of a payload; `None` if its source cannot be read any more.
    pub resolve: &'s (dyn Fn(&Payload) -> Option<String> + Sync),
    /// Whether secrets are masked.
    pub mask: Mask,
}

/// A part of the document that one thread makes at once.
enum Piece<'s> {
    /// The fields of a trajectory before its steps.
    Head { number: usize, agent: &'s Agent },
    /// Steps from this number on.
    Steps { agent: &'s Agent, first: usize, parts: Vec<StepPart<'s>> },
    /// The fields after this many steps.
    Tail { number: usize, agent: &'s Agent, steps: usize },
}

/// Writes a session as an ATIF document, a step a line.
///
/// The same session gives the same bytes; no clock is read. Pieces of the document are made on all cores, and few of them
/// are in memory at a time.
///
/// # Errors
/// Errors of the writer; earlier output is not undone.
pub fn write_atif(source: &AtifSource<'_>, w: &mut dyn Write) -> io::Result<()> {
    let sources = AtifSources::new(source);
    let agents = source.tree.agents.iter().enumerate();
    let pieces = agents.flat_map(|(number, agent)| pieces(&sources, number, agent));
    let work = |piece| source.mask.json(write_piece(source, &sources, piece)?);
    in_order(pieces, work, &mut |piece: io::Result<Vec<u8>>| w.write_all(&piece?))?;
    w.flush()
}

/// Returns the pieces of a trajectory.
fn pieces<'s>(
    sources: &'s AtifSources<'s>,
    number: usize,
    agent: &'s Agent,
) -> impl Iterator<Item = Piece<'s>> {
    let parts = step_parts(sources, agent);
    let tail = Piece::Tail { number, agent, steps: parts.len() };
    let mut next = 1;
    let steps = batches(parts, |part| part.bytes_to_read(sources, agent)).map(move |parts| {
        let first = next;
        next += parts.len();
        Piece::Steps { agent, first, parts }
    });
    std::iter::once(Piece::Head { number, agent }).chain(steps).chain([tail])
}

/// Returns a piece as JSON. Brackets and commas between pieces belong to the later one; the root's trajectory ends behind
/// those of all subagents.
fn write_piece(source: &AtifSource<'_>, sources: &AtifSources<'_>, piece: Piece<'_>) -> io::Result<Vec<u8>> {
    let mut json = Vec::new();
    match piece {
        Piece::Head { number, agent } => {
            json.extend_from_slice(match number {
                0 => b"",
                1 => b",\"subagent_trajectories\":[\n",
                _ => b",\n",
            });
            write!(json, "{{{},\"steps\":[", fields(&document_head(source, agent))?)?;
        }
        Piece::Steps { agent, first, parts } => {
            let to_read = parts.iter().map(|part| part.bytes_to_read(sources, agent));
            json.reserve(to_read.sum::<usize>() + parts.len() * STEP_BYTES);
            let steps = StepMaker { source, sources, agent };
            for (number, part) in (first..).zip(parts) {
                json.extend_from_slice(if number == 1 { b"\n" } else { b",\n" });
                serde_json::to_writer(&mut json, &steps.step(number, part))?;
            }
        }
        Piece::Tail { number, agent, steps } => {
            let tail = DocumentTail {
                final_metrics: FinalMetrics::of(agent, sources.responses(agent), steps),
                extra: Extra { subscope: extra(source, sources, agent) },
            };
            write!(json, "\n],{}", fields(&tail)?)?;
            let is_last = number + 1 == source.tree.agents.len();
            json.extend_from_slice(match (number, is_last) {
                (0, true) => b"}\n",
                (0, false) => b"",
                (_, true) => b"}\n]}\n",
                (_, false) => b"}",
            });
        }
    }
    Ok(json)
}

/// The fields before the steps.
#[derive(Serialize)]
struct DocumentHead<'s> {
    schema_version: &'static str,
    session_id: &'s str,
    trajectory_id: &'s str,
    agent: AgentHead<'s>,
}

#[derive(Serialize)]
struct AgentHead<'s> {
    name: &'s str,
    version: &'s str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_name: Option<&'s str>,
}

/// The fields after the steps.
#[derive(Serialize)]
struct DocumentTail {
    final_metrics: FinalMetrics,
    extra: Extra<AtifTrajectory>,
}

/// `extra` with our part of it.
#[derive(Serialize)]
struct Extra<T> {
    subscope: T,
}

fn document_head<'s>(source: &AtifSource<'s>, agent: &'s Agent) -> DocumentHead<'s> {
    let session = &source.tree.session;
    let harness = session.harness.as_deref().filter(|_| agent.id.is_root());
    DocumentHead {
        schema_version: VERSION,
        session_id: &session.id,
        trajectory_id: &agent.id,
        agent: AgentHead {
            name: harness.unwrap_or_else(|| agent_type(agent)),
            version: session.harness_version.as_deref().unwrap_or(UNKNOWN),
            model_name: agent.model.as_deref(),
        },
    }
}

/// Returns an object's fields without its braces.
fn fields(object: &impl Serialize) -> io::Result<String> {
    let json = serde_json::to_string(object)?;
    Ok(json.get(1..json.len() - 1).unwrap_or_default().to_owned())
}

/// Returns the fields of `extra.subscope`.
fn extra(source: &AtifSource<'_>, sources: &AtifSources<'_>, agent: &Agent) -> AtifTrajectory {
    let has_responses = !sources.responses(agent).is_empty();
    let totals = agent.usage.filter(|_| !has_responses);
    let triggers = source.detail.and_then(|detail| detail.triggers.get(&agent.id));
    let triggers = triggers.filter(|_| agent.intervals.len() > 1);
    let has_end = !agent.status.is_live() && agent.status != AgentStatus::Lost && !agent.id.is_root();
    // An ending that its last line implies has that line as its evidence.
    let evidence = || {
        let reported = agent.evidence.clone().filter(|word| is_reported(word));
        reported.unwrap_or_else(|| EndEvidence::LastLine.as_str().into())
    };
    let is_completed = agent.status == AgentStatus::Completed;
    let result =
        agent.result.clone().or_else(|| is_completed.then(|| sources.last_text(source, agent)).flatten());
    AtifTrajectory {
        schema: ATIF_EXTRA_SCHEMA.into(),
        session: agent.id.is_root().then(|| session(source.tree)),
        parent_id: agent.parent_id.as_ref().map(|parent| parent.0.clone()),
        spawned_by: agent.spawned_by.as_ref().map(|call| call.0.clone()),
        depth: agent.depth,
        agent_type: agent.agent_type.clone(),
        name: agent.name.clone(),
        description: agent.description.clone(),
        background: agent.background,
        status: agent.status,
        evidence: has_end.then(evidence),
        flags: agent.flags.clone(),
        intervals: agent.intervals.clone(),
        triggers: triggers
            .into_iter()
            .flatten()
            .map(|call| call.as_ref().map(|call| call.0.clone()))
            .collect(),
        result: result.filter(|_| !agent.id.is_root()),
        ended_at_ms: agent.ended_at_ms.filter(|_| agent.intervals.is_empty()),
        error: agent.error.clone(),
        usage: totals,
        cost_micro_usd: agent.cost_micro_usd.filter(|_| totals.is_some()),
    }
}

impl AtifSource<'_> {
    /// Reads a text; empty if it cannot be read any more.
    fn read(&self, text: &SessionText) -> String {
        text.read(self.resolve).unwrap_or_default()
    }
}

/// Whether a source reported an end: anything else is derived from its absence.
fn is_reported(evidence: &str) -> bool {
    EndEvidence::parse(evidence).is_some_and(|evidence| evidence != EndEvidence::Lost)
}

fn session(tree: &Tree) -> AtifSession {
    let (session, summary) = (&tree.session, &tree.summary);
    let own_total = summary.usage.filter(|_| summary.unattributed_usage.is_some());
    AtifSession {
        harness: session.harness.clone(),
        harness_version: session.harness_version.clone(),
        cwd: session.cwd.clone(),
        started_at_ms: session.started_at_ms,
        ended_at_ms: session.ended_at_ms,
        unattributed_usage: summary.unattributed_usage,
        total_usage: own_total,
        total_cost_micro_usd: summary.cost_micro_usd.filter(|_| own_total.is_some() && !summary.cost_floor),
    }
}

/// Whether all data of an agent is a copy from another session.
fn is_copied(agent: &Agent) -> bool {
    agent.has(Flag::Copied)
}

/// Agents by the call that started them.
fn by_spawn_call(tree: &Tree) -> HashMap<&str, Vec<&Text>> {
    let mut agents: HashMap<&str, Vec<&Text>> = HashMap::new();
    for agent in &tree.agents {
        if let Some(call) = &agent.spawned_by {
            agents.entry(call).or_default().push(&agent.id.0);
        }
    }
    agents
}
