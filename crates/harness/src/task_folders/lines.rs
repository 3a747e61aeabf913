//! The lines of a task and of those below it, each a document that is rewritten as a whole ([`crate::TaskBundle`]).

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_decode::{
    Emitter, Hint, LineDecoder, LineError,
    lenient::{LineText, Num, Str},
};
use subscope_model::{
    AgentEnd, AgentStatus, Basis, Claim, Clock, EndEvidence, Fact, Parent, RawJson, Sink, SourceKind, Spawn,
    SpawnMode,
};

use super::{history, messages, waits::TaskWaits};
use crate::common::parts::elements;

/// What is between the name of the extension and the kind of a document.
const MARK: &str = ".task.";

/// Decodes the lines of one task and of those below it.
#[derive(Debug)]
pub(super) struct TaskLines {
    session: Option<String>,
    /// What the tasks wait for, by task.
    waits: HashMap<String, TaskWaits>,
}

/// One line.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct TaskLine<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    task: Str<'a>,
    root: Str<'a>,
    parent: Str<'a>,
    content: Option<&'a RawValue>,
}

/// The document about a task.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"), rename_all = "camelCase")]
struct AboutTask<'a> {
    task: Option<&'a RawValue>,
    workspace: Str<'a>,
    mode: Str<'a>,
    status: Str<'a>,
    ts: Num,
}

/// Models and versions that a task has used, each list in order.
#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct TaskMetadata<'a> {
    model_usage: Option<&'a RawValue>,
    environment_history: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct UsedModel<'a> {
    model_id: Str<'a>,
    cline_version: Str<'a>,
}

/// Whether a line is one of an extension's, also where it is cut.
pub(super) fn is_of(object: &str, extension: &str) -> bool {
    let line: TaskLine<'_> = serde_json::from_str(object).unwrap_or_default();
    let kind = line.kind.get().and_then(|kind| kind.strip_prefix(extension));
    kind.is_some_and(|rest| rest.starts_with(MARK)) && line.task.filled().is_some()
}

impl TaskLines {
    /// A decoder for the source that `hint` describes.
    pub(super) fn new(hint: &Hint) -> Self {
        Self { session: hint.session.clone(), waits: HashMap::new() }
    }
}

impl LineDecoder for TaskLines {
    fn decode_line(&mut self, text: LineText<'_>, sink: &mut Sink<'_>) -> Result<(), LineError> {
        let line: TaskLine<'_> = serde_json::from_str(text.text)?;
        let Some(task) = line.task.filled() else {
            return Err(LineError::MissingField { item: "a document of a task", field: "task" });
        };
        let root = line.root.filled().or(self.session.as_deref()).unwrap_or(task);
        let claim = if task == root { Claim::Root(Basis::Wire) } else { Claim::Agent(task, Basis::Wire) };
        let mut out = Emitter::new(SourceKind::Transcript, Clock::Transcript, claim, text, sink);
        out.head.session = Some(root);
        let kind = line.kind.get().and_then(|kind| kind.split_once(MARK)).map_or("", |(_, kind)| kind);
        match kind {
            "about" => about(&line, task == root, root, &mut out),
            "metadata" if task == root => metadata(line.content, &mut out),
            "messages" => {
                let asked = messages::decode(task, line.content, &mut out);
                let waits = self.waits.entry(task.to_owned()).or_default();
                waits.asked = asked;
                waits.emit(&mut out);
            }
            "history" => {
                let open = history::decode(task, line.content, &mut out);
                let waits = self.waits.entry(task.to_owned()).or_default();
                waits.open = open;
                waits.emit(&mut out);
            }
            _ => {}
        }
        Ok(())
    }
}

fn about<'a>(line: &TaskLine<'a>, is_root: bool, root: &str, out: &mut Emitter<'a, '_>) {
    let about: AboutTask<'a> = read(line.content);
    if is_root {
        let cwd = about.workspace.0.filter(|folder| !folder.is_empty());
        return out.emit_made(Fact::Session { version: None, cwd, model: None, tells_starts: true });
    }
    // One whose parent is not known is below the root all the same.
    let parent = line.parent.filled().filter(|parent| *parent != root);
    out.emit_made(Fact::Spawn(Spawn {
        parent: Some(parent.map_or(Parent::Root, Parent::Agent)),
        agent: line.task.filled(),
        agent_type: about.mode.0.filter(|mode| !mode.is_empty()),
        prompt: out.raw(about.task),
        mode: Some(SpawnMode::Foreground),
        starts: true,
        ..Spawn::default()
    }));
    if about.status.is("completed") {
        let (status, evidence) = (AgentStatus::Completed, EndEvidence::Finished);
        out.emit_made(Fact::AgentEnd(AgentEnd {
            status,
            evidence,
            time: about.ts.signed(),
            ..AgentEnd::default()
        }));
    }
}

fn metadata<'a>(content: Option<&'a RawValue>, out: &mut Emitter<'a, '_>) {
    let known: TaskMetadata<'a> = read(content);
    let last = |list| elements::<UsedModel<'a>>(list).pop().unwrap_or_default();
    let (model, version) = (last(known.model_usage), last(known.environment_history));
    let (model, version) = (model.model_id.filled(), version.cline_version.filled());
    out.emit_made(Fact::Session { version, cwd: None, model, tells_starts: true });
}

/// Reads a document; nothing of one that is being written.
fn read<'a, T: Default + Deserialize<'a>>(content: Option<&'a RawValue>) -> T {
    content.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// A value that the source does not have byte for byte.
pub(super) fn made(json: &str) -> RawJson<'_> {
    RawJson { json, offset: u64::MAX }
}
