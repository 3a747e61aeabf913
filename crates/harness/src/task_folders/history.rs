//! The conversation of a task with its model: the source of its calls.
//!
//! Pitfalls: a call is a block of the answer, or in older versions elements in its text, which have no id: their place names
//! them. Their results are texts that name the tool, in order. Messages of some versions have no time.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use subscope_decode::{
    Emitter,
    lenient::{Flag, Num, Str},
};
use subscope_model::{
    CallEnd, Claim, Fact, Outcome, Parent, RawJson, Spawn, SpawnMode, SpawnResult, ToolClass,
};

use super::{lines::made, tools, waits::WaitingCall};
use crate::common::parts::{elements, string};

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct HistoryMessage<'a> {
    role: Str<'a>,
    content: Option<&'a RawValue>,
    ts: Num,
}

#[derive(Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct HistoryBlock<'a> {
    #[serde(rename = "type")]
    kind: Str<'a>,
    text: Option<&'a RawValue>,
    id: Str<'a>,
    name: Str<'a>,
    input: Option<&'a RawValue>,
    tool_use_id: Str<'a>,
    content: Option<&'a RawValue>,
    is_error: Flag,
}

/// Most bytes of arguments that are kept to be shown with the question about their call.
const MOST_INPUT: usize = 64 << 10;

/// A call without a result.
struct OpenTaskCall {
    id: String,
    name: String,
    digest: u64,
    /// Its arguments, unless they are long.
    input: Option<String>,
    /// The file that they name.
    file: Option<String>,
    /// Whether its result names the tool alone.
    is_element: bool,
}

/// Calls of one task.
struct TaskCalls<'t> {
    task: &'t str,
    open: Vec<OpenTaskCall>,
    /// Number of calls without ids.
    elements: usize,
}

/// Emits the calls of a task. Returns those that have no result.
pub(super) fn decode<'a>(
    task: &str,
    content: Option<&'a RawValue>,
    out: &mut Emitter<'a, '_>,
) -> Vec<WaitingCall> {
    let mut calls = TaskCalls { task, open: Vec::new(), elements: 0 };
    for message in elements::<HistoryMessage<'a>>(content) {
        out.head.time = message.ts.signed();
        let mut blocks: Vec<HistoryBlock<'a>> = elements(message.content);
        if blocks.is_empty() {
            blocks.push(HistoryBlock { text: message.content, ..HistoryBlock::default() });
        }
        match message.role.get() {
            Some("assistant") => blocks.iter().for_each(|block| calls.begin(block, out)),
            Some("user") => calls.results(&blocks, out),
            Some(_) | None => {}
        }
    }
    let waiting = |OpenTaskCall { name, digest, input, file, .. }| WaitingCall { name, digest, input, file };
    calls.open.into_iter().map(waiting).collect()
}

impl TaskCalls<'_> {
    fn begin_call(
        &mut self,
        id: &str,
        name: &str,
        input: RawJson<'_>,
        is_element: bool,
        out: &mut Emitter<'_, '_>,
    ) {
        let call = tools::begin(id, name, input);
        let (id, name, digest) = (id.to_owned(), name.to_owned(), call.digest);
        out.emit_made(Fact::CallBegin(call));
        let file = tools::file_of(input.json);
        let input = (input.json.len() <= MOST_INPUT).then(|| input.json.to_owned());
        self.open.push(OpenTaskCall { id, name, digest, input, file, is_element });
    }

    fn begin<'a>(&mut self, block: &HistoryBlock<'a>, out: &mut Emitter<'a, '_>) {
        if block.kind.is("tool_use") {
            let (Some(id), Some(name)) = (block.id.filled(), block.name.filled()) else { return };
            if name != tools::COMPLETION {
                let input = out.raw(block.input).unwrap_or(made("{}"));
                self.begin_call(id, name, input, false, out);
            }
            return;
        }
        let text = string(block.text).unwrap_or_default();
        for (name, arguments) in tools::element_calls(&text) {
            self.elements += 1;
            let id = format!("{}#{}", self.task, self.elements);
            self.begin_call(&id, name, made(&arguments), true, out);
        }
    }

    fn results<'a>(&mut self, blocks: &[HistoryBlock<'a>], out: &mut Emitter<'a, '_>) {
        let texts: Vec<String> = blocks.iter().map(|block| string(block.text).unwrap_or_default()).collect();
        for (at, block) in blocks.iter().enumerate() {
            if block.kind.is("tool_result") {
                let id = block.tool_use_id.filled();
                let Some(place) = self.open.iter().position(|call| Some(call.id.as_str()) == id) else {
                    continue;
                };
                let raw = out.raw(block.content).unwrap_or(made("\"\""));
                self.end(place, raw, block.is_error.is_true(), out);
                continue;
            }
            let Some((name, same)) = texts.get(at).and_then(|text| tools::announced(text)) else { continue };
            let is_it = |call: &OpenTaskCall| call.is_element && call.name == name;
            let Some(place) = self.open.iter().position(is_it) else { continue };
            // The result is in the same text, or in the next one.
            let next = texts.get(at + 1).filter(|_| same.is_empty());
            let json = Value::from(next.map_or(same, String::as_str)).to_string();
            self.end(place, made(&json), false, out);
        }
    }

    /// Emits the end of an open call. One that has only started a task is still open.
    fn end(&mut self, place: usize, result: RawJson<'_>, is_error: bool, out: &mut Emitter<'_, '_>) {
        let text = result.text();
        let Some(call) = self.open.get(place) else { return };
        let is_spawn = tools::class(&call.name) == ToolClass::Spawn;
        let started = tools::started_task(&text).filter(|_| is_spawn);
        if let Some((agent, report)) = started {
            let parent = match out.head.claim {
                Claim::Agent(own, _) => Parent::Agent(own),
                Claim::Root(_) | Claim::SpawnedBy(_) | Claim::Chain { .. } | Claim::Silent => Parent::Root,
            };
            out.emit_made(Fact::Spawn(Spawn {
                agent: Some(agent),
                call: Some(&call.id),
                parent: Some(parent),
                mode: Some(SpawnMode::Foreground),
                starts: true,
                is_origin: true,
                ..Spawn::default()
            }));
            if report.is_none() {
                return;
            }
        }
        let call = self.open.remove(place);
        let outcome = tools::outcome(&text, is_error);
        let report = started.and_then(|(_, report)| report).map(|report| Value::from(report).to_string());
        let spawn = started.map(|(agent, _)| SpawnResult {
            agent: Some(agent),
            finished: Some(true),
            report: report.as_deref().map(made),
            ..SpawnResult::default()
        });
        out.emit_made(Fact::CallEnd(CallEnd {
            id: Some(&call.id),
            outcome,
            result: Some(result),
            refused: is_spawn && outcome != Outcome::Ok,
            spawn,
            ..CallEnd::default()
        }));
    }
}
