//! Snapshots for a team's store: a session's rows reduced to a level of content, with secrets masked.
//!
//! Rows are rebuilt from the fields that a level allows: after a text field is added to the model, this module does not
//! compile until it handles the field.

use std::io;

use serde::Serialize;
use subscope_model::{
    Actor, Agent, AgentId, ContentLevel, Liveness, LivenessKind, Problem, SNAPSHOT_SCHEMA, Session,
    SessionId, SessionRow, Snapshot, SnapshotText, Summary, Text, ToolCall, ToolUseId, Tree, stable_hash,
};

use crate::redact::{Redacted, redact};

/// Most characters of a title, a description and an error's first line.
const TITLE_CHARS: usize = 120;
/// Most characters of a call's detail.
const DETAIL_CHARS: usize = 80;
/// Most bytes of a passage.
const PASSAGE_BYTES: usize = 16 << 10;

/// Data of a snapshot other than the session's rows.
#[derive(Clone, Debug)]
pub struct SnapshotHead {
    /// Name of the machine.
    pub machine: Text,
    /// Version of the snapshot.
    pub rev: u64,
    /// Day on which the session was first sent.
    pub day: Text,
    /// Name of the machine's time zone.
    pub time_zone: Option<Text>,
    /// Name of the project.
    pub project: Option<Text>,
    /// Level of content.
    pub level: ContentLevel,
}

/// Returns the snapshot of a session, reduced to the level of `head`. Secrets are masked by [`snapshot_line`].
pub fn snapshot(head: SnapshotHead, row: &SessionRow, tree: &Tree, texts: Vec<SnapshotText>) -> Snapshot {
    let SnapshotHead { machine, rev, day, time_zone, project, level } = head;
    Snapshot {
        schema: SNAPSHOT_SCHEMA.into(),
        machine,
        rev,
        day,
        time_zone,
        deleted: false,
        project,
        level,
        row: reduced_row(level, row),
        tree: Some(reduced_tree(level, tree)),
        texts: reduced_texts(level, texts),
    }
}

/// Returns passages at a level: shortened to some kilobytes, or none. Secrets are masked by [`masked_line`].
pub fn reduced_texts(level: ContentLevel, texts: Vec<SnapshotText>) -> Vec<SnapshotText> {
    let reduced = texts.into_iter().map(|text| SnapshotText {
        agent_id: safe_id(&text.agent_id),
        text: cut_bytes(&text.text, PASSAGE_BYTES),
        ..text
    });
    // Deletions of passages that were sent at a higher level leave at every level.
    reduced.filter(|text| text.deleted || level == ContentLevel::Text).collect()
}

/// Returns the snapshot that removes a session.
pub fn tombstone(head: SnapshotHead, session: &SessionId) -> Snapshot {
    let empty = SessionRow::empty(SessionId(safe_id(session)));
    let SnapshotHead { machine, rev, day, time_zone, project, level } = head;
    let (schema, texts) = (SNAPSHOT_SCHEMA.into(), Vec::new());
    Snapshot {
        schema,
        machine,
        rev,
        day,
        time_zone,
        deleted: true,
        project,
        level,
        row: empty,
        tree: None,
        texts,
    }
}

/// Writes a snapshot as one line, with the secrets in its strings masked.
///
/// # Errors
/// Errors of the writer.
pub fn snapshot_line(snapshot: &Snapshot, out: impl io::Write) -> io::Result<()> {
    masked_line(snapshot, out)
}

/// Writes a value as one line of JSON, with the secrets in its strings masked.
///
/// # Errors
/// Errors of the writer.
pub fn masked_line(value: &impl Serialize, out: impl io::Write) -> io::Result<()> {
    let mut masked = Redacted::new(out);
    serde_json::to_writer(&mut masked, value)?;
    masked.finish()?.write_all(b"\n")
}

/// Returns an id without secrets: one that holds a secret is replaced by its hash, so that it still names one thing.
fn safe_id(id: &str) -> Text {
    if *redact(id) == *id { id.into() } else { format!("masked-{:016x}", stable_hash(id)).into() }
}

/// Returns a text that leaves at the highest level only.
fn whole_text(level: ContentLevel, text: Option<&Text>) -> Option<Text> {
    text.filter(|_| level == ContentLevel::Text).cloned()
}

/// Returns the first line that is not blank, shortened.
fn first_line(text: &str, most_chars: usize) -> Text {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    // Masked before it is cut: half a secret is not recognized.
    redact(line).chars().take(most_chars).collect::<String>().into()
}

/// Returns the start of a text of at most so many bytes, secrets masked.
fn cut_bytes(text: &str, most: usize) -> Text {
    if text.len() <= most {
        return text.into();
    }
    let masked = redact(text);
    let end = (0..=most.min(masked.len())).rev().find(|at| masked.is_char_boundary(*at));
    masked.get(..end.unwrap_or(0)).unwrap_or_default().into()
}

/// Returns a text at a level: none, its first line, or all of it.
fn line_at(level: ContentLevel, most_chars: usize, text: Option<&Text>) -> Option<Text> {
    match level {
        ContentLevel::Figures => None,
        ContentLevel::Titles => text.map(|text| first_line(text, most_chars)),
        ContentLevel::Text => text.cloned(),
    }
}

fn reduced_row(level: ContentLevel, row: &SessionRow) -> SessionRow {
    SessionRow {
        id: SessionId(safe_id(&row.id)),
        harness: row.harness.clone(),
        cwd: None,
        title: line_at(level, TITLE_CHARS, row.title.as_ref()),
        machine: None,
        last_heard_ms: None,
        user: None,
        team: None,
        project: None,
        problem: None,
        // It is for the user of the machine, and names agents by their tasks.
        need: None,
        ..*row
    }
}

fn reduced_tree(level: ContentLevel, tree: &Tree) -> Tree {
    Tree {
        schema: tree.schema.clone(),
        session: Session {
            id: SessionId(safe_id(&tree.session.id)),
            harness: tree.session.harness.clone(),
            harness_version: tree.session.harness_version.clone(),
            cwd: None,
            project: None,
            machine: None,
            last_heard_ms: None,
            title: line_at(level, TITLE_CHARS, tree.session.title.as_ref()),
            ..tree.session
        },
        agents: tree.agents.iter().map(|agent| reduced_agent(level, agent)).collect(),
        summary: Summary {
            by_type: tree.summary.by_type.clone(),
            vendor_costs: tree.summary.vendor_costs.clone(),
            need: None,
            ..tree.summary
        },
        problems: match level {
            ContentLevel::Figures | ContentLevel::Titles => Vec::new(),
            ContentLevel::Text => tree.problems.iter().map(without_folder).collect(),
        },
    }
}

/// Returns a problem whose place is the file's name, without its folder.
fn without_folder(problem: &Problem) -> Problem {
    // Masked before it is cut: half a secret is not recognized.
    let at = redact(&problem.at);
    let name = at.rsplit(['/', '\\']).next().unwrap_or_default();
    Problem { at: name.to_owned(), what: problem.what.clone() }
}

fn reduced_agent(level: ContentLevel, agent: &Agent) -> Agent {
    Agent {
        id: AgentId(safe_id(&agent.id)),
        actor_id: Actor(AgentId(safe_id(&agent.actor_id.0))),
        parent_id: agent.parent_id.as_ref().map(|id| AgentId(safe_id(id))),
        spawned_by: agent.spawned_by.as_ref().map(|id| ToolUseId(safe_id(id))),
        agent_type: agent.agent_type.clone(),
        name: line_at(level, TITLE_CHARS, agent.name.as_ref()),
        description: line_at(level, TITLE_CHARS, agent.description.as_ref()),
        model: agent.model.clone(),
        evidence: line_at(level, TITLE_CHARS, agent.evidence.as_ref()),
        liveness: agent.liveness.as_ref().map(|liveness| reduced_liveness(level, liveness)),
        flags: agent.flags.clone(),
        intervals: agent.intervals.clone(),
        tools: agent.tools.iter().map(|call| reduced_call(level, call)).collect(),
        prompt: whole_text(level, agent.prompt.as_ref()),
        result: whole_text(level, agent.result.as_ref()),
        error: line_at(level, TITLE_CHARS, agent.error.as_ref()),
        subtree: agent.subtree.clone(),
        ..*agent
    }
}

fn reduced_liveness(level: ContentLevel, liveness: &Liveness) -> Liveness {
    let name = match liveness.kind {
        // The tool's name.
        LivenessKind::Tool | LivenessKind::Permission | LivenessKind::Question | LivenessKind::Plan => {
            liveness.name.clone()
        }
        // The error's text.
        LivenessKind::Model | LivenessKind::Children | LivenessKind::Retry | LivenessKind::Idle => {
            line_at(level, TITLE_CHARS, liveness.name.as_ref())
        }
    };
    Liveness { name, ..*liveness }
}

fn reduced_call(level: ContentLevel, call: &ToolCall) -> ToolCall {
    ToolCall {
        id: call.id.as_ref().map(|id| ToolUseId(safe_id(id))),
        name: call.name.clone(),
        detail: line_at(level, DETAIL_CHARS, call.detail.as_ref()),
        // Paths name the person and the project, as the working directory does.
        writes: if level == ContentLevel::Text { call.writes.clone() } else { Box::default() },
        input: None,
        result: None,
        ..*call
    }
}
