//! Reads an ATIF document, of any version from 1.0 to 1.8, and resolves its refs.
//!
//! A foreign document gives an agent for each trajectory, its parent and spawn call from the first ref to it. What cannot
//! be kept is a problem with its JSON pointer, one for each kind. Pitfall: documents may nest to any depth and repeat
//! ids. So nothing here is recursive, and each agent and call gets an id of its own.

mod resolve;

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use serde::Deserialize;
use serde_json::value::RawValue;
use subscope_model::{
    AgentStatus, AtifCall, AtifStep, AtifTrajectory, Flag, Millis, Problem, RawJson, Usage, stable_hash,
};

use super::{
    figures::Counts,
    lines::{LineWriter, foreign_status, is_counted, time},
};

/// Calls at the end of an agent with the flag `looping`.
const LOOP_CALLS: usize = 3;

/// Minor versions of ATIF 1 that are read.
const MINOR_VERSIONS: std::ops::RangeInclusive<u32> = 0..=8;

/// An ATIF document that is not read.
#[derive(Debug, thiserror::Error)]
pub enum AtifError {
    /// It is not JSON.
    #[error("not JSON at line {line}, column {column}")]
    Json {
        /// Line (1-based).
        line: usize,
        /// Column (1-based).
        column: usize,
    },
    /// It is of another version.
    #[error("{0} is not read: ATIF-v1.0 to ATIF-v1.8 are")]
    Version(String),
    /// It is no trajectory.
    #[error("no trajectory: {0}")]
    NoTrajectory(&'static str),
    /// It has no form as lines.
    #[error("cannot be written as lines")]
    Lines(#[source] serde_json::Error),
}

impl From<serde_json::Error> for AtifError {
    fn from(error: serde_json::Error) -> Self {
        Self::Json { line: error.line(), column: error.column() }
    }
}

/// Returns the version that a document names, also one that is not read; `None` if it is no ATIF document.
pub fn atif_version(schema_version: &str) -> Option<&str> {
    schema_version.starts_with("ATIF-").then_some(schema_version)
}

fn is_read(version: &str) -> bool {
    let minor = version.strip_prefix("ATIF-v1.").and_then(|minor| minor.parse().ok());
    minor.is_some_and(|minor: u32| MINOR_VERSIONS.contains(&minor) && version == format!("ATIF-v1.{minor}"))
}

/// Returns an ATIF document as lines of the dialect `trajectories`, and the problems in it; `label` names it there.
///
/// # Errors
/// If it is not JSON, no trajectory, or of another version.
pub fn atif_lines(bytes: &[u8], label: &str) -> Result<(Vec<u8>, Vec<Problem>), AtifError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = String::from_utf8_lossy(bytes);
    let text = subscope_model::replace_lone_surrogates(&text);
    let root: &RawValue = serde_json::from_str(&text)?;
    let mut document = AtifDocument::read(root, label)?;
    document.resolve();
    let lines = LineWriter::new(&mut document).write().map_err(AtifError::Lines)?;
    Ok((lines, document.problems()))
}

/// The fields of a JSON object.
type Object<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// A document while it is read.
pub(super) struct AtifDocument<'a> {
    label: String,
    /// The root first, then subagents in order: those in the root's array before those in nested arrays.
    pub(super) trajectories: Vec<FoundTrajectory<'a>>,
    /// Calls that started agents, and how many.
    pub(super) spawns: HashMap<String, usize>,
    /// Calls whose agent was stopped.
    pub(super) stopped_by: HashMap<String, usize>,
    /// The id or name that each trajectory gives itself, to derive unique ids.
    names: Vec<String>,
    hash: u64,
    found: Vec<Problem>,
    /// Content that is not kept: by kind, its first JSON pointer and its number of occurrences.
    not_kept: BTreeMap<&'static str, (String, usize)>,
}

/// A trajectory of a document.
pub(super) struct FoundTrajectory<'a> {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    pub(super) model: Option<String>,
    pub(super) steps: Vec<FoundStep<'a>>,
    pub(super) totals: Counts,
    pub(super) extra: Option<AtifTrajectory>,
    /// The trajectory that started it, by place.
    pub(super) parent: Option<usize>,
    pub(super) spawned_by: Option<String>,
    session_id: Option<String>,
    trajectory_id: Option<String>,
    /// The trajectory in whose array it is.
    container: Option<usize>,
    pointer: String,
}

/// A step of a trajectory.
#[derive(Default)]
pub(super) struct FoundStep<'a> {
    pub(super) source: Option<String>,
    pub(super) time: Option<Millis>,
    pub(super) message: String,
    pub(super) reasoning: Option<String>,
    pub(super) model: Option<String>,
    pub(super) calls: Vec<FoundCall<'a>>,
    pub(super) results: Vec<FoundResult<'a>>,
    pub(super) counts: Counts,
    pub(super) llm_calls: Option<u32>,
    pub(super) is_copied: bool,
    pub(super) extra: Option<AtifStep>,
}

/// A call of a step.
pub(super) struct FoundCall<'a> {
    /// Its id in the session.
    pub(super) id: String,
    /// Its id in the step.
    pub(super) name_in_step: String,
    pub(super) function: String,
    pub(super) arguments: Option<&'a RawValue>,
    pub(super) extra: Option<AtifCall>,
}

/// A result of a step.
pub(super) struct FoundResult<'a> {
    /// The call's id in the step.
    pub(super) call: Option<String>,
    pub(super) content: Option<&'a RawValue>,
    refs: Vec<(Option<String>, String)>,
}

impl FoundStep<'_> {
    /// Returns the output of the environment that is not the result of a call.
    pub(super) fn notes(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let of_none = self.results.iter().filter(|result| {
            let is_known = |call: &String| self.calls.iter().any(|known| known.name_in_step == *call);
            !result.call.as_ref().is_some_and(is_known)
        });
        of_none
            .filter_map(|result| Some(RawJson { json: result.content?.get(), offset: 0 }.text()))
            .filter(|text| !text.is_empty())
    }
}

impl FoundTrajectory<'_> {
    /// Returns the times of its steps.
    pub(super) fn times(&self) -> impl Iterator<Item = Millis> {
        self.steps.iter().filter(|step| !step.is_copied).filter_map(|step| step.time)
    }

    /// Returns its first and last time.
    pub(super) fn span(&self) -> Option<[Millis; 2]> {
        Some([self.times().min()?, self.times().max()?])
    }

    /// Returns its first prompt.
    pub(super) fn task(&self) -> Option<Cow<'_, str>> {
        let is_task =
            |step: &&FoundStep<'_>| step.source.as_deref() == Some("user") && !step.message.is_empty();
        self.steps.iter().find(is_task).map(|step| Cow::Borrowed(step.message.as_str()))
    }

    /// Whether all of its steps are copies.
    pub(super) fn is_copied(&self) -> bool {
        !self.steps.is_empty() && self.steps.iter().all(|step| step.is_copied)
    }

    /// Whether a step has token counts.
    pub(super) fn has_metrics(&self) -> bool {
        self.steps.iter().any(|step| !step.is_copied && is_counted(&step.counts))
    }

    /// Returns the status of a trajectory that names none.
    pub(super) fn status(&self) -> AgentStatus {
        foreign_status(self.steps.iter().rev().find(|step| !step.is_copied))
    }

    /// Whether a call is one of those at the end of an agent that repeats itself.
    pub(super) fn is_repeated(&self, call: &str) -> bool {
        let is_looping = self.extra.as_ref().is_some_and(|extra| extra.flags.contains(&Flag::Looping));
        let mut last = self.steps.iter().rev().flat_map(|step| step.calls.iter().rev());
        is_looping && last.by_ref().take(LOOP_CALLS).any(|last| last.id == call)
    }

    fn usage(&self) -> Usage {
        let own = self.steps.iter().filter(|step| !step.is_copied).filter_map(|step| step.counts.usage());
        own.fold(Usage::default(), |sum, (usage, _)| sum + usage)
    }
}

impl<'a> AtifDocument<'a> {
    fn read(root: &'a RawValue, label: &str) -> Result<Self, AtifError> {
        let object: Object<'a> =
            serde_json::from_str(root.get()).map_err(|_| AtifError::NoTrajectory("it is no JSON object"))?;
        let version: Option<String> = value(&object, "schema_version");
        match version {
            Some(version) if is_read(&version) => {}
            Some(version) => return Err(AtifError::Version(version)),
            None => return Err(AtifError::NoTrajectory("it has no schema_version")),
        }
        let mut document = Self {
            label: label.to_owned(),
            trajectories: Vec::new(),
            spawns: HashMap::new(),
            stopped_by: HashMap::new(),
            names: Vec::new(),
            hash: stable_hash(root.get()),
            found: Vec::new(),
            not_kept: BTreeMap::new(),
        };
        // Breadth first: the root's array before nested ones.
        let mut waiting = std::collections::VecDeque::from([(object, String::new(), None)]);
        while let Some((object, pointer, container)) = waiting.pop_front() {
            let place = document.trajectories.len();
            let nested = document.array(&object, "subagent_trajectories", &pointer);
            for (number, raw) in nested.into_iter().enumerate() {
                let pointer = format!("{pointer}/subagent_trajectories/{number}");
                match serde_json::from_str::<Object<'a>>(raw.get()) {
                    Ok(object) => waiting.push_back((object, pointer, Some(place))),
                    Err(_) => document.problem(&pointer, "no trajectory, left out"),
                }
            }
            let trajectory = document.trajectory(&object, pointer, container);
            document.trajectories.push(trajectory);
        }
        Ok(document)
    }

    fn problem(&mut self, pointer: &str, what: &str) {
        self.found.push(Problem { at: format!("{}#{pointer}", self.label), what: what.to_owned() });
    }

    /// Records content that a session cannot represent.
    fn lose(&mut self, kind: &'static str, pointer: String) {
        self.not_kept.entry(kind).or_insert((pointer, 0)).1 += 1;
    }

    /// Returns all problems, ordered by place.
    fn problems(self) -> Vec<Problem> {
        let mut problems = self.found;
        for (kind, (pointer, count)) in self.not_kept {
            let others = if count > 1 { format!(", nor {} more", count - 1) } else { String::new() };
            let at = format!("{}#{pointer}", self.label);
            problems.push(Problem { at, what: format!("{kind}: not kept{others}") });
        }
        problems.sort();
        problems
    }

    /// Returns the elements of an array; another value is a problem.
    fn array(&mut self, object: &Object<'a>, key: &str, pointer: &str) -> Vec<&'a RawValue> {
        let Some(raw) = present(object, key) else { return Vec::new() };
        match serde_json::from_str(raw.get()) {
            Ok(elements) => elements,
            Err(_) => {
                self.problem(&format!("{pointer}/{key}"), "no array, left out");
                Vec::new()
            }
        }
    }

    /// Returns a value of its type; another value is a problem.
    fn field<T: Deserialize<'a>>(&mut self, object: &Object<'a>, key: &str, pointer: &str) -> Option<T> {
        let raw = present(object, key)?;
        let read = serde_json::from_str(raw.get()).ok();
        if read.is_none() {
            self.problem(&format!("{pointer}/{key}"), "a value of another type, left out");
        }
        read
    }

    fn trajectory(
        &mut self,
        object: &Object<'a>,
        pointer: String,
        container: Option<usize>,
    ) -> FoundTrajectory<'a> {
        let agent: Object<'a> = self.field(object, "agent", &pointer).unwrap_or_default();
        let inside = format!("{pointer}/agent");
        let (name, version, model) = (
            self.field(&agent, "name", &inside),
            self.field(&agent, "version", &inside),
            self.field(&agent, "model_name", &inside),
        );
        self.lose_fields(&agent, &inside, &[("tool_definitions", "tool definitions"), ("extra", EXTRA)]);
        let extra: Option<AtifTrajectory> = self.extra(object, &pointer);
        let metrics: Object<'a> = self.field(object, "final_metrics", &pointer).unwrap_or_default();
        let totals = self.counts(&metrics, &format!("{pointer}/final_metrics"), &TOTALS);
        let notes = [("notes", "notes"), ("continued_trajectory_ref", "a ref to a continuation")];
        self.lose_fields(object, &pointer, &notes);
        let raw_steps = self.array(object, "steps", &pointer);
        let mut steps = Vec::with_capacity(raw_steps.len());
        for (number, raw) in raw_steps.into_iter().enumerate() {
            let pointer = format!("{pointer}/steps/{number}");
            match serde_json::from_str::<Object<'a>>(raw.get()) {
                Ok(object) => steps.push(self.step(&object, &pointer)),
                Err(_) => self.problem(&pointer, "no step, left out"),
            }
        }
        FoundTrajectory {
            id: String::new(),
            name,
            version,
            model,
            steps,
            totals,
            extra,
            parent: None,
            spawned_by: None,
            session_id: self.field(object, "session_id", &pointer),
            trajectory_id: self.field(object, "trajectory_id", &pointer),
            container,
            pointer,
        }
    }

    fn step(&mut self, object: &Object<'a>, pointer: &str) -> FoundStep<'a> {
        let extra: Option<AtifStep> = self.extra(object, pointer);
        let metrics: Object<'a> = self.field(object, "metrics", pointer).unwrap_or_default();
        let inside = format!("{pointer}/metrics");
        let counts = self.counts(&metrics, &inside, &STEP);
        if counts.usage().is_some_and(|(_, is_whole)| !is_whole) {
            self.problem(&inside, "more cached tokens than prompt tokens, which should include them");
        }
        let ids = "token ids and probabilities";
        let lists = [("prompt_token_ids", ids), ("completion_token_ids", ids), ("logprobs", ids)];
        self.lose_fields(&metrics, &inside, &lists);
        self.lose_fields(object, pointer, &[("reasoning_effort", "reasoning effort")]);
        let stamp: Option<String> = self.field(object, "timestamp", pointer);
        let at = stamp.as_deref().and_then(time);
        if stamp.is_some() && at.is_none() {
            self.problem(&format!("{pointer}/timestamp"), "no time of ISO 8601, taken without one");
        }
        let source: Option<String> = self.field(object, "source", pointer);
        if !matches!(source.as_deref(), Some("user" | "agent" | "system")) {
            self.problem(&format!("{pointer}/source"), "no source of ATIF, taken as the agent's");
        }
        let observation: Object<'a> = self.field(object, "observation", pointer).unwrap_or_default();
        let inside = format!("{pointer}/observation");
        let results = self.array(&observation, "results", &inside);
        FoundStep {
            source,
            time: at,
            message: self.text(object, "message", pointer).unwrap_or_default(),
            reasoning: self.text(object, "reasoning_content", pointer),
            model: self.field(object, "model_name", pointer),
            calls: self.calls(object, pointer),
            results: self.results(results, &inside),
            counts,
            llm_calls: self.field(object, "llm_call_count", pointer),
            is_copied: self.field(object, "is_copied_context", pointer).unwrap_or(false),
            extra,
        }
    }

    fn calls(&mut self, object: &Object<'a>, pointer: &str) -> Vec<FoundCall<'a>> {
        let mut calls = Vec::new();
        for (number, raw) in self.array(object, "tool_calls", pointer).into_iter().enumerate() {
            let pointer = format!("{pointer}/tool_calls/{number}");
            let Ok(call) = serde_json::from_str::<Object<'a>>(raw.get()) else {
                self.problem(&pointer, "no tool call, left out");
                continue;
            };
            let id: Option<String> = self.field(&call, "tool_call_id", &pointer);
            let function: Option<String> = self.field(&call, "function_name", &pointer);
            if id.is_none() || function.is_none() {
                self.problem(&pointer, "a tool call without id or function");
            }
            let id = id.unwrap_or_else(|| format!("call-{number}"));
            let arguments = present(&call, "arguments");
            if arguments.is_some_and(|arguments| !arguments.get().starts_with('{')) {
                self.problem(&format!("{pointer}/arguments"), "no object, kept as it is");
            }
            calls.push(FoundCall {
                name_in_step: id.clone(),
                id,
                function: function.unwrap_or_else(|| "unknown".to_owned()),
                arguments,
                extra: self.extra(&call, &pointer),
            });
        }
        calls
    }

    fn results(&mut self, results: Vec<&'a RawValue>, pointer: &str) -> Vec<FoundResult<'a>> {
        let mut found = Vec::new();
        for (number, raw) in results.into_iter().enumerate() {
            let pointer = format!("{pointer}/results/{number}");
            let Ok(result) = serde_json::from_str::<Object<'a>>(raw.get()) else {
                self.problem(&pointer, "no result, left out");
                continue;
            };
            let content = present(&result, "content");
            self.lose_media(content, &format!("{pointer}/content"));
            self.lose_fields(&result, &pointer, &[("extra", EXTRA)]);
            let mut refs = Vec::new();
            let list = self.array(&result, "subagent_trajectory_ref", &pointer);
            for (number, raw) in list.into_iter().enumerate() {
                let pointer = format!("{pointer}/subagent_trajectory_ref/{number}");
                let Ok(object) = serde_json::from_str::<Object<'a>>(raw.get()) else {
                    self.problem(&pointer, "no ref, left out");
                    continue;
                };
                self.lose_fields(&object, &pointer, &[("extra", EXTRA)]);
                refs.push((self.field(&object, "trajectory_id", &pointer), pointer));
            }
            let call = self.field(&result, "source_call_id", &pointer);
            found.push(FoundResult { call, content, refs });
        }
        found
    }

    /// Returns a text: a string, or the texts of content parts.
    fn text(&mut self, object: &Object<'a>, key: &str, pointer: &str) -> Option<String> {
        let raw = present(object, key)?;
        self.lose_media(Some(raw), &format!("{pointer}/{key}"));
        match raw.get().as_bytes().first() {
            Some(b'"' | b'[') => Some(RawJson { json: raw.get(), offset: 0 }.text().into_owned()),
            _ => {
                self.problem(&format!("{pointer}/{key}"), "no text, left out");
                None
            }
        }
    }

    /// Records media, which are in other files.
    fn lose_media(&mut self, content: Option<&'a RawValue>, pointer: &str) {
        let Some(content) = content.filter(|content| content.get().starts_with('[')) else { return };
        let parts: Vec<Object<'a>> = serde_json::from_str(content.get()).unwrap_or_default();
        for (number, part) in parts.iter().enumerate() {
            if present(part, "source").is_some() {
                self.lose("images and audio", format!("{pointer}/{number}/source"));
            }
        }
    }

    fn lose_fields(&mut self, object: &Object<'a>, pointer: &str, fields: &[(&'static str, &'static str)]) {
        for (key, kind) in fields {
            let is_empty = |raw: &RawValue| matches!(raw.get(), "{}" | "[]" | "\"\"");
            if present(object, key).is_some_and(|raw| !is_empty(raw)) {
                self.lose(kind, format!("{pointer}/{key}"));
            }
        }
    }

    /// Returns our part of `extra`. Foreign parts have no place in a session.
    fn extra<T: for<'de> Deserialize<'de>>(&mut self, object: &Object<'a>, pointer: &str) -> Option<T> {
        let extra: Object<'a> = self.field(object, "extra", pointer)?;
        if extra.keys().any(|key| key != "subscope") {
            self.lose(EXTRA, format!("{pointer}/extra"));
        }
        let own = present(&extra, "subscope")?;
        let is_ours = |schema: Schema| schema.schema == subscope_model::ATIF_EXTRA_SCHEMA;
        if !serde_json::from_str(own.get()).is_ok_and(is_ours) {
            self.problem(&format!("{pointer}/extra/subscope"), "of another version, left out");
            return None;
        }
        self.field(&extra, "subscope", &format!("{pointer}/extra"))
    }

    fn counts(&mut self, object: &Object<'a>, pointer: &str, names: &CountNames) -> Counts {
        let extra: Object<'a> = value(object, "extra").unwrap_or_default();
        let is_known = |key: &str| key == names.written;
        if extra.keys().any(|key| !is_known(key)) {
            self.lose("metrics that ATIF has no word for", format!("{pointer}/extra"));
        }
        Counts {
            prompt: self.field(object, names.prompt, pointer),
            output: self.field(object, names.output, pointer),
            cached: self.field(object, names.cached, pointer),
            written: value(&extra, names.written),
            cost_usd: self.field(object, names.cost, pointer),
        }
    }
}

/// Kind of foreign metadata in problems.
const EXTRA: &str = "custom metadata in extra";

#[derive(Deserialize)]
struct Schema {
    schema: String,
}

/// Names of counts in `metrics` and in `final_metrics`.
struct CountNames {
    prompt: &'static str,
    output: &'static str,
    cached: &'static str,
    written: &'static str,
    cost: &'static str,
}

const STEP: CountNames = CountNames {
    prompt: "prompt_tokens",
    output: "completion_tokens",
    cached: "cached_tokens",
    written: "cache_creation_input_tokens",
    cost: "cost_usd",
};

const TOTALS: CountNames = CountNames {
    prompt: "total_prompt_tokens",
    output: "total_completion_tokens",
    cached: "total_cached_tokens",
    written: "total_cache_creation_input_tokens",
    cost: "total_cost_usd",
};

/// Returns a field that is present and not null.
fn present<'a>(object: &Object<'a>, key: &str) -> Option<&'a RawValue> {
    object.get(key).copied().filter(|raw| raw.get() != "null")
}

/// Returns a field of its type.
fn value<'a, T: Deserialize<'a>>(object: &Object<'a>, key: &str) -> Option<T> {
    serde_json::from_str(present(object, key)?.get()).ok()
}
